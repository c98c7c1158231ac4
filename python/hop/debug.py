"""jax.debug's names: what compiled functions print, and Python functions that they call. Everything comes in
the order of the program."""

__all__ = ["callback", "print"]

from ._callback import debug_callback
from ._ops import print as _print


def print(fmt, /, *args, ordered=True, **kwargs):
    """Prints values while a program runs: hop.debug.print("x is {x}", x=x); see hop.print. ordered changes
    nothing: lines always come in order.

    >>> hop.jit(lambda x: hop.debug.print("x is {x}", x=x) or x)(1.0)
    x is 1
    Array(1., dtype=float32)
    """
    _print(fmt, *args, **kwargs)


def callback(callback, /, *args, ordered=True, **kwargs):
    """Calls a Python function with values while a program runs; see hop.debug_callback. ordered changes
    nothing: calls always come in order.

    >>> hop.jit(lambda x: hop.debug.callback(lambda v: print("saw", v.item()), x) or x)(1.0)
    saw 1.0
    Array(1., dtype=float32)
    """
    debug_callback(callback, *args, **kwargs)
