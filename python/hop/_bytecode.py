"""What a code object reads of the names around it, from its instructions. They differ between versions of
Python: one that is not known ends a chain, so that a value is watched as a whole, and loads every name that
it has."""

import dis
import functools
import sys
import types

from ._objects import is_key

@functools.lru_cache(maxsize=4096)
def accesses(code):
    """(name, chain of ("attr", name) and ("item", constant), how the value is used) for every name that the
    code loads, and where among its constants the code of functions is that it makes: equal code may come of
    another file. An instruction that is not known ends a chain, so
    that the value is watched as a whole."""
    found, inner, imports, given = [], [], [], list(dis.get_instructions(code))
    cells = {*code.co_cellvars, *code.co_freevars}
    names_of_code = {*code.co_names, *code.co_varnames}
    i, for_host = 0, False
    while i < len(given):
        names = _loaded(given[i], cells, names_of_code)
        first, i = i, i + 1
        if not names:
            if given[first].opname == "IMPORT_NAME":
                imports.append(_import(given, first))
            if isinstance(given[first].argval, types.CodeType):
                inner += [] if for_host else [_position(code.co_consts, given[first].argval)]
                for_host = False
            continue
        found += [(name, (), WHOLE) for name in names[:-1]]
        chain, called = [], _null_before(given, first)
        above, width = _super(given, first)
        if above is not None and code.co_argcount:
            found.append((code.co_varnames[0], (("super", above),), CALLED))
            i += width
            continue
        while i < len(given):
            link, width = _link(given, i)
            if link is None:
                break
            chain.append(link)
            called = _is_method_load(given[i])
            i += width
        called = called or i < len(given) and given[i].opname == "PUSH_NULL"
        if not _is_stored_to(given, i):
            use = CALLED if called else WHOLE
            found.append((names[-1], tuple(chain), FOR_HOST if for_host else use))
            for_host = (chain[-1][1] if chain else names[-1]) in _HOST_CALLS
        elif chain:
            found.append((names[-1], tuple(chain[:-1]), CALLED))
        else:
            found.append((names[-1], (), WRITTEN))
    return tuple(found), tuple(inner), tuple(imports)


def _position(constants, x):
    return next(i for i, c in enumerate(constants) if c is x)


def _import(given, i):
    """(module, level, names that are imported from it or None, the name that it gets)"""
    level = given[i - 2].argval if i > 1 else 0
    wanted = []
    for at in given[i + 1 :]:
        if at.opname == "IMPORT_FROM":
            wanted.append(at.argval)
        elif not at.opname.startswith("STORE_"):
            break
        elif not wanted:
            return given[i].argval, level or 0, None, at.argval
    return given[i].argval, level or 0, tuple(wanted), None


# Functions whose results are whole namespaces.
NAMESPACES = frozenset(("globals", "locals", "eval", "exec"))


# How code uses a value that it loads: in any way, by calling it, as what the host calls when the program
# runs, which is no part of the program, or by setting an item of it alone.
WHOLE, CALLED, FOR_HOST, WRITTEN = range(4)
_HOST_CALLS = frozenset(("debug_callback", "callback", "pure_callback", "io_callback"))


_LOADS = frozenset(
    ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF",
     "LOAD_FROM_DICT_OR_GLOBALS")
)  # fmt: skip
# Instructions that have names and load nothing, or attributes of what others loaded.
_NO_LOADS = frozenset(
    ("LOAD_CLOSURE", "LOAD_CONST", "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "MAKE_CELL",
     "COPY_FREE_VARS", "IMPORT_NAME", "IMPORT_FROM", "KW_NAMES", "RETURN_CONST")
)  # fmt: skip


def _loaded(instruction, cells, names):
    """The names that an instruction loads; of one that is not known, all that it has."""
    op, given = instruction.opname, instruction.argval
    if op in _LOADS:
        return (given,)
    if op in _NO_LOADS or op.startswith(("STORE_", "DELETE_")) and "LOAD" not in op:
        return ()
    given = given if isinstance(given, tuple) else (given,)
    if op.startswith("STORE_"):
        given = given[1:]
    # a cell itself is loaded to make a function
    return [n for n in given if isinstance(n, str) and n in names and n not in cells]


def _super(given, i):
    """The attribute of super() that is loaded, where super is loaded at i; how many instructions follow."""
    if given[i].opname != "LOAD_GLOBAL" or given[i].argval != "super":
        return None, 0
    for at in range(i + 1, min(i + 5, len(given))):
        op = given[at].opname
        if op in ("LOAD_METHOD", "LOAD_ATTR", "LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD"):
            return given[at].argval, at - i
        if op not in ("PRECALL", "CALL", "LOAD_DEREF") and not op.startswith("LOAD_FAST"):
            break
    return None, 0


def _null_before(given, i):
    """Whether what is loaded at i is about to be called."""
    if given[i].opname == "LOAD_GLOBAL" and given[i].arg & 1:
        return True
    return i > 0 and given[i - 1].opname == "PUSH_NULL"


def _is_method_load(instruction):
    return instruction.opname == "LOAD_METHOD" or (
        instruction.opname == "LOAD_ATTR" and sys.version_info >= (3, 12) and bool(instruction.arg & 1)
    )


def _link(given, i):
    """An attribute or a constant item, and how many instructions it takes."""
    op = given[i].opname
    if op in ("LOAD_ATTR", "LOAD_METHOD"):
        return ("attr", given[i].argval), 1
    if op in ("LOAD_CONST", "LOAD_SMALL_INT") and i + 1 < len(given):
        after = given[i + 1]
        item = after.opname == "BINARY_SUBSCR" or after.opname == "BINARY_OP" and after.argrepr == "[]"
        if item and is_key(given[i].argval):
            return ("item", given[i].argval), 2
    return None, 0


def _is_stored_to(given, i):
    """Whether an attribute or a constant item of what was loaded is set or deleted next."""
    ops = [x.opname for x in given[i : i + 2]]
    if ops and ops[0] in ("STORE_ATTR", "DELETE_ATTR"):
        return True
    return len(ops) == 2 and ops[0] == "LOAD_CONST" and ops[1] in ("STORE_SUBSCR", "DELETE_SUBSCR")


@functools.lru_cache(maxsize=4096)
def attribute_names(code):
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return frozenset(code.co_names).union(*[attribute_names(c) for c in inner])


_WRITES_GLOBALS = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL"))
_WRITES_CELLS = frozenset(("STORE_DEREF", "DELETE_DEREF"))
_WRITES_ATTRIBUTES = frozenset(("STORE_ATTR", "DELETE_ATTR"))
_WRITES_ITEMS = frozenset(("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"))
# Where attributes of what is being made are set.
_MAKERS = frozenset(("__init__", "__post_init__", "__new__", "__setstate__"))


@functools.lru_cache(maxsize=4096)
def writes(code):
    """Names outside of itself that running the code may write, with what is behind them: globals, variables
    of functions around it, attributes, items of what globals and such variables hold."""
    given, out = list(dis.get_instructions(code)), set()
    outside = {*code.co_freevars}
    for i, at in enumerate(given):
        op, name = at.opname, at.argval
        if op in _WRITES_GLOBALS or op in _WRITES_CELLS and name in outside:
            out.add(name)
        elif op in _WRITES_ATTRIBUTES and code.co_name not in _MAKERS:
            out.add(f".{name}")
        elif op in _WRITES_ITEMS:
            root = _container(given, i)
            held = root is not None and (root.opname in _LOADS or "GLOBAL" in root.opname)
            if held and (root.opname != "LOAD_DEREF" or root.argval in outside):
                out.add(f"{root.argval}[…]")
    own = {*code.co_cellvars}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            out |= {name for name in writes(inner) if name.partition("[")[0] not in own}
    return frozenset(out)


def _container(given, i):
    """The instruction that loads what an item is stored to at i, or the first thing on the way to it; None:
    it is not found."""
    deep = 3 if given[i].opname == "STORE_SLICE" else 2
    if i and given[i - 1].opname == "SWAP":  # x[k] += v: what was loaded first lies below
        deep += 1
    height = 0
    for at in reversed(given[:i]):
        try:
            height -= dis.stack_effect(at.opcode, at.arg, jump=False)
        except ValueError:
            return None
        if height <= -deep:
            return at
    return None
