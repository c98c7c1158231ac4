"""The syntax tree of a function, from its file: only where that file is still the source of the running
code."""

import ast
import functools
import linecache
import types


class Unsupported(Exception):
    """A function that cannot be rewritten, and why."""


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@functools.lru_cache(maxsize=256)
def _module(filename, text):
    """(the code objects in a file by first line, its functions by first line: (node, class around it))"""
    tree = ast.parse(text, filename)
    found, todo = {}, [compile(tree, filename, "exec", dont_inherit=True)]
    while todo:
        code = todo.pop()
        found.setdefault(code.co_firstlineno, []).append(code)
        todo += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    nodes, todo = {}, [(tree, None)]
    while todo:
        node, owner = todo.pop()
        if isinstance(node, _FUNCTIONS):
            first = min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", ())]])
            nodes.setdefault(first, []).append((node, owner))
        owner = node.name if isinstance(node, ast.ClassDef) else owner
        todo += [(child, owner) for child in ast.iter_child_nodes(node)]
    return found, nodes


def source_of(code):
    """(the syntax tree of the function whose code this is, the name of the class around it or None). Source
    that would not give this very code is not used."""
    text = "".join(linecache.getlines(code.co_filename))
    if not text:
        raise Unsupported(f"the source of {code.co_name} cannot be had")
    try:
        codes, nodes = _module(code.co_filename, text)
    except (SyntaxError, ValueError):
        raise Unsupported(f"the source of {code.co_name} cannot be read") from None
    if code not in codes.get(code.co_firstlineno, ()):
        raise Unsupported(f"the source of {code.co_name} in {code.co_filename} is no longer that of its code")
    every = nodes.get(code.co_firstlineno, ())
    fits = [f for f in every if _named(f, code.co_name)]
    if len(fits) > 1:
        at = [p for p in code.co_positions() if p[0] == fits[0][0].lineno and p[2] is not None]
        columns = [first for _, _, first, last in at if first < last]
        inside = [f for f in fits if all(f[0].col_offset <= c <= f[0].end_col_offset for c in columns)]
        fits = sorted(inside, key=lambda f: f[0].end_col_offset - f[0].col_offset)[:1]
    if len(fits) != 1:
        raise Unsupported(f"several functions stand in line {code.co_firstlineno} of {code.co_filename}")
    return fits[0]


def _named(found, name):
    """Whether a function has this name; one that begins with two underscores is longer inside of a class."""
    node, owner = found
    own = getattr(node, "name", "<lambda>")
    return own == name or owner is not None and name == f"_{owner.lstrip('_')}{own}"
