"""A pytest plugin with which the public array-API suite runs for a namespace without complex numbers.

run_array_api.py loads it. The suite skips the dtypes that ARRAY_API_TESTS_SKIP_DTYPES names, but takes the
widest complex one when it is imported, and stops where there is none. Here its module of dtypes is
imported with a maximum that has an answer for nothing; the special values of complex numbers, which need
that dtype, are skipped.
"""

import builtins
import importlib.util
import sys

import pytest

MODULE = "array_api_tests.dtype_helpers"


def widest(dtypes, *, key):
    """The maximum of pairs (dtype, bits), if there are any."""
    return builtins.max(dtypes, key=key, default=(None, 0))


def load():
    """Imports the suite's module of dtypes, in which max is the function above."""
    spec = importlib.util.find_spec(MODULE)
    module = importlib.util.module_from_spec(spec)
    module.max = widest
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)
    if not module.complex_dtypes:
        # a dtype that the suite's tables know, for what reads it all the same
        module.widest_complex_dtype = module.widest_real_dtype
    import array_api_tests

    array_api_tests.dtype_helpers = module


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config, parser, args):
    load()


def pytest_collection_modifyitems(items):
    for item in items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")
        if getattr(case, "is_complex", False):
            item.add_marker(pytest.mark.skip(reason="there are no complex numbers"))
