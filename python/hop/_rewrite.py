"""Plain Python as operators: a function's source rewritten so that if, while, for, and, or, not, conditional
expressions and assert call functions of _flow.py, which do what Python does unless they meet a traced value.

The rewritten twin of a function shares its globals, its closure's cells and its defaults, and keeps the line
numbers. Exits from the middle (return, break, continue) become assignments to flags: what comes behind an if
that may exit goes into the branch that does not, or under an if on the flag."""

import ast
import copy
import functools
import linecache
import types

from ._arguments import place
from ._errors import InvalidError

_RUNTIME = "_hop_flow"
_VALUE, _RETURNED = "_hop_value", "_hop_returned"
NEVER, MAYBE, ALWAYS = range(3)


class Unsupported(Exception):
    """A function that cannot be rewritten, and why."""


# ---- sources ----


@functools.lru_cache(maxsize=256)
def _module(filename, text):
    """(syntax tree of a file, the code objects in it by first line)"""
    tree = ast.parse(text, filename)
    found, todo = {}, [compile(tree, filename, "exec", dont_inherit=True)]
    while todo:
        code = todo.pop()
        found.setdefault(code.co_firstlineno, []).append(code)
        todo += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    nodes = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            first = min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", ())]])
            nodes.setdefault(first, []).append(node)
    return tree, found, nodes


def source_of(code):
    """The syntax tree of the function whose code this is. Source that would not give this very code is not
    used."""
    text = "".join(linecache.getlines(code.co_filename))
    if not text:
        raise Unsupported(f"the source of {code.co_name} cannot be had")
    try:
        _, codes, nodes = _module(code.co_filename, text)
    except (SyntaxError, ValueError):
        raise Unsupported(f"the source of {code.co_name} cannot be read") from None
    if code not in codes.get(code.co_firstlineno, ()):
        raise Unsupported(f"the source of {code.co_name} in {code.co_filename} is no longer that of its code")
    name = code.co_name
    fits = [n for n in nodes.get(code.co_firstlineno, ()) if getattr(n, "name", "<lambda>") == name]
    if len(fits) > 1:
        at = [p for p in code.co_positions() if p[0] == fits[0].lineno and p[2] is not None]
        columns = [first for _, _, first, last in at if first < last]
        inside = [n for n in fits if all(n.col_offset <= c <= n.end_col_offset for c in columns)]
        fits = sorted(inside, key=lambda n: n.end_col_offset - n.col_offset)[:1]
    if len(fits) != 1:
        raise Unsupported(f"several functions stand in line {code.co_firstlineno} of {code.co_filename}")
    return fits[0]


# ---- names ----


class _Names(ast.NodeVisitor):
    """The names that statements bind, without those of functions inside of them, and what they have."""

    def __init__(self):
        self.bound, self.outer, self.yields = {}, {}, False

    def of(self, nodes):
        for node in nodes:
            self.visit(node)
        return self

    def _bind(self, name):
        self.bound[name] = True

    def visit_Name(self, node):
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            self._bind(node.id)

    def visit_FunctionDef(self, node):
        if node.name.startswith(_PIECE):  # a part of this very function
            self.of(node.body)
            return
        self._bind(node.name)
        for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        self._bind(node.name)

    def visit_Lambda(self, node):
        pass

    def _comprehension(self, node):
        for child in ast.walk(node):
            if isinstance(child, ast.NamedExpr):
                self._bind(child.target.id)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_Import(self, node):
        for alias in node.names:
            self._bind(alias.asname or alias.name.partition(".")[0])

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node):
        if node.name:
            self._bind(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node):
        if node.name:
            self._bind(node.name)
        self.generic_visit(node)

    def visit_Global(self, node):
        self.outer.update({name: ast.Global for name in node.names})

    def visit_Nonlocal(self, node):
        self.outer.update({name: ast.Nonlocal for name in node.names})

    def visit_Yield(self, node):
        self.yields = True

    visit_YieldFrom = visit_Await = visit_AsyncFor = visit_AsyncWith = visit_Yield


def _parameters(args):
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return [a.arg for a in (*every, *filter(None, (args.vararg, args.kwarg)))]


# ---- building ----


def _load(name):
    return ast.Name(name, ast.Load())


def _assign(name, value):
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _flow(name, *args):
    """A call of a function of the runtime."""
    return ast.Call(ast.Attribute(_load(_RUNTIME), name, ast.Load()), list(args), [])


def _later(expression):
    """lambda: expression"""
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(empty, expression)


def _define(name, body, parameters=()):
    args = ast.arguments(
        posonlyargs=[], args=[ast.arg(p) for p in parameters], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    made = ast.FunctionDef(name, args, body or [ast.Pass()], [], None)
    made.type_params = []
    return made


def _true():
    return ast.Constant(True)


# ---- expressions ----


class _Expressions(ast.NodeTransformer):
    """Expressions that ask for the truth of a value, and calls."""

    def _keep(self, node):
        return node

    def visit_FunctionDef(self, node):
        try:
            return _Function(node).rewritten()
        except Unsupported:
            return node

    visit_AsyncFunctionDef = visit_ClassDef = _keep

    def visit_Lambda(self, node):
        return ast.copy_location(ast.Lambda(node.args, self.visit(node.body)), node)

    def test(self, node):
        """An expression of which only the truth is asked for."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ast.copy_location(_flow("not_", self.test(node.operand)), node)
        if not isinstance(node, ast.BoolOp) or _binds(node):
            return self.visit(node)
        name = "both" if isinstance(node.op, ast.And) else "either"
        return ast.copy_location(_flow(name, *[_later(self.test(x)) for x in node.values]), node)

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        if _binds(node):
            return node
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return ast.copy_location(_flow(name, *map(_later, node.values)), node)

    def visit_UnaryOp(self, node):
        return self.test(node) if isinstance(node.op, ast.Not) else self.generic_visit(node)

    def visit_IfExp(self, node):
        if _binds(node):
            return self.generic_visit(node)
        then, other = _later(self.visit(node.body)), _later(self.visit(node.orelse))
        return ast.copy_location(_flow("choose", self.test(node.test), then, other), node)

    def visit_Compare(self, node):
        self.generic_visit(node)
        if len(node.ops) == 1 or _binds(node):
            return node
        signs = [ast.Constant(type(op).__name__) for op in node.ops]
        rest = [_later(x) for x in node.comparators]
        made = _flow("compare", node.left, ast.Tuple(signs, ast.Load()), ast.Tuple(rest, ast.Load()))
        return ast.copy_location(made, node)

    def visit_Call(self, node):
        self.generic_visit(node)
        f = node.func
        if isinstance(f, ast.Name) and f.id == "super" and not node.args:
            return node
        if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and f.value.id == _RUNTIME:
            return node
        made = ast.Call(ast.copy_location(_flow("twin", f), f), node.args, node.keywords)
        return ast.copy_location(made, node)


def _binds(node):
    """Whether an expression binds a name, or hands something out of its function."""
    kinds = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
    return any(isinstance(child, kinds) for child in ast.walk(node))


# ---- statements ----


class _Region:
    """What exits of a block mean: in the body of a function (broke is None) or of a loop in it."""

    def __init__(self, number, outer=None):
        self.outer = outer
        self.skip = _RETURNED if outer is None else f"_hop_skip{number}"
        self.broke = None if outer is None else f"_hop_broke{number}"
        self.breaks = self.returns = False


class _Function:
    """One function, its statements rewritten."""

    def __init__(self, node):
        self.node, self.number = node, 0
        names = _Names().of(node.body)
        if names.yields or isinstance(node, ast.AsyncFunctionDef):
            raise Unsupported(f"{node.name} is a generator")
        self.outer, self.parameters = names.outer, _parameters(node.args)
        self.state = {}  # names that pieces bind
        self.region = _Region(0)

    def rewritten(self):
        node = self.node
        body, exits = self._block([*node.body, ast.copy_location(ast.Return(ast.Constant(None)), node)])
        local = [n for n in self.state if n not in self.outer and n not in self.parameters]
        first = [_assign(n, _flow("unbound", ast.Constant(n))) for n in (*local, _VALUE)]
        first.append(_assign(_RETURNED, ast.Constant(False)))
        declared = [kind([n]) for n, kind in self.outer.items()]
        last = ast.Return(_load(_VALUE))
        made = ast.FunctionDef(node.name, node.args, [*declared, *first, *body, last], [], None)
        made.type_params = []
        made.decorator_list = node.decorator_list
        for statement in made.body:
            ast.copy_location(statement, node)
        return ast.fix_missing_locations(ast.copy_location(made, node))

    # -- blocks --

    def _block(self, statements):
        """(new statements, whether they exit)"""
        out = []
        for i, statement in enumerate(statements):
            rest = statements[i + 1 :]
            if isinstance(statement, ast.If):
                new, exits, used = self._if(statement, rest)
                out += new
                if used:
                    return out, exits
            else:
                new, exits = self._statement(statement)
                out += new
            if exits == ALWAYS:
                return out, ALWAYS
            if exits == MAYBE and rest:
                skip = self.region.skip
                new, more = self._block(rest)
                out += self._piece("if_", statement, _flow("not_", _load(skip)), new, [])
                return out, ALWAYS if more == ALWAYS else MAYBE
        return out, NEVER if not out or not _exits(statements) else MAYBE

    def _statement(self, s):
        method = getattr(self, "_" + type(s).__name__.lower(), None)
        if method is not None:
            new, exits = method(s)
            return [ast.copy_location(x, s) if not hasattr(x, "lineno") else x for x in new], exits
        return [_Expressions().visit(s)], NEVER

    # -- exits --

    def _leave(self, *flags):
        return [_assign(flag, _true()) for flag in flags]

    def _return(self, s):
        value = ast.Constant(None)
        if s.value is not None:
            value = _flow("result", _Expressions().visit(s.value))
        flags, region = [], self.region
        while region is not None:
            region.returns = True
            flags += [region.skip] if region.broke is None else [region.skip, region.broke]
            if region.broke:
                region.breaks = True
            region = region.outer
        return [_assign(_VALUE, value), *self._leave(*flags)], ALWAYS

    def _break(self, s):
        self.region.breaks = True
        return self._leave(self.region.skip, self.region.broke), ALWAYS

    def _continue(self, s):
        return self._leave(self.region.skip), ALWAYS

    def _raise(self, s):
        return [_Expressions().visit(s)], ALWAYS

    # -- pieces: statements that become functions --

    def _piece(self, name, at, first, *blocks, parameters=(), more=()):
        """Statements that call flow.name(first, functions of the blocks…, get, set, names, line)."""
        bound = list(_Names().of([s for block in blocks for s in block]).bound)
        bound = [n for n in bound if not n.startswith(_PIECE)]
        self.state.update(dict.fromkeys(bound))
        number, self.number = self.number, self.number + 1
        names, defined = [f"{_PIECE}{number}_{i}" for i in range(len(blocks))], []
        outer = [n for n in bound if self.outer.get(n) is ast.Global]
        inner = [n for n in bound if n not in outer]
        declared = [kind(ns) for kind, ns in ((ast.Global, outer), (ast.Nonlocal, inner)) if ns]
        for which, block in zip(names, blocks):
            defined.append(_define(which, [*declared, *block], parameters))
        values = ast.Tuple([_load(n) for n in bound], ast.Load())
        get, put = f"{_PIECE}{number}_get", f"{_PIECE}{number}_set"
        defined.append(_define(get, [ast.Return(values)]))
        targets = ast.Tuple([ast.Name(n, ast.Store()) for n in bound], ast.Store())
        taken = [ast.Assign([targets], _load("_hop_given"))] if bound else []
        defined.append(_define(put, [*declared, *taken], ["_hop_given"]))
        texts = ast.Tuple([ast.Constant(n) for n in bound], ast.Load())
        call = _flow(
            name, first, *map(_load, names), _load(get), _load(put), texts, ast.Constant(at.lineno), *more
        )
        new = [*defined, ast.Expr(call)]
        for statement in new:
            ast.copy_location(statement, at)
            statement.end_lineno = at.lineno  # the line of a call of an attribute is where that ends
            statement.end_col_offset = at.col_offset
            ast.fix_missing_locations(statement)
        return new

    def _if(self, s, rest):
        """(new statements, whether they exit, whether they contain the rest)"""
        if len(s.body) == 1 and isinstance(s.body[0], ast.Raise) and not s.orelse and s.body[0].exc:
            test = _Expressions().test(s.test)
            error = _later(_Expressions().visit(s.body[0].exc))
            return [ast.copy_location(ast.Expr(_flow("raise_if", test, error)), s)], NEVER, False
        test = _Expressions().test(s.test)
        exits = _always(s.body), _always(s.orelse)
        used = rest and (exits[0] or exits[1])
        then, a = self._block(s.body + (rest if used and not exits[0] else []))
        other, b = self._block(s.orelse + (rest if used and exits[0] else []))
        both = a if a == b else MAYBE
        return self._piece("if_", s, test, then, other), both, bool(used)

    def _loop(self, s, build):
        outer = self.region
        self.number += 1
        self.region = region = _Region(self.number, outer)
        body, _ = self._block(s.body)
        self.region = outer
        body = [ast.copy_location(_assign(region.skip, ast.Constant(False)), s), *body]
        new = [_assign(region.broke, ast.Constant(False)), _assign(region.skip, ast.Constant(False))]
        going = _flow("not_", _load(region.broke)) if region.breaks else None
        new += build(body, going)
        exits = MAYBE if region.returns else NEVER
        if s.orelse:
            last, more = self._block(s.orelse)
            new += self._piece("if_", s, going, last, []) if going is not None else last
            exits = max(exits, min(more, MAYBE))
        return new, exits

    def _while(self, s):
        test = _Expressions().test(s.test)

        def build(body, going):
            wanted = test if going is None else _flow("both", _later(going), _later(test))
            return self._piece("while_", s, _later(wanted), body)

        return self._loop(s, build)

    def _for(self, s):
        over = _Expressions().visit(s.iter)
        s.body.insert(0, ast.copy_location(ast.Assign([s.target], _load("_hop_item")), s))

        def build(body, going):
            more = [_later(going) if going is not None else ast.Constant(None)]
            return self._piece("for_", s, over, body, parameters=["_hop_item"], more=more)

        return self._loop(s, build)

    # -- others --

    def _assert(self, s):
        said = _later(_Expressions().visit(s.msg) if s.msg else ast.Constant(None))
        return [ast.Expr(_flow("assert_", _Expressions().test(s.test), said))], NEVER

    def _delete(self, s):
        names = [t.id for t in s.targets if isinstance(t, ast.Name)]
        others = [_Expressions().visit(t) for t in s.targets if not isinstance(t, ast.Name)]
        new = [_assign(n, _flow("unbound", ast.Constant(n))) for n in names]
        return new + ([ast.Delete(others)] if others else []), NEVER

    def _with(self, s):
        items = [_Expressions().visit(item) for item in s.items]
        body, exits = self._block(s.body)
        return [ast.copy_location(ast.With(items, body), s)], MAYBE if exits else NEVER

    def _try(self, s):
        parts = [self._block(b) for b in (s.body, s.orelse, s.finalbody)]
        handlers = []
        for h in s.handlers:
            body, exits = self._block(h.body)
            parts.append((body, exits))
            handlers.append(ast.copy_location(ast.ExceptHandler(h.type, h.name, body or [ast.Pass()]), h))
        made = ast.Try(parts[0][0] or [ast.Pass()], handlers, parts[1][0], parts[2][0])
        return [ast.copy_location(made, s)], MAYBE if any(exits for _, exits in parts) else NEVER

    def _global(self, s):
        return [], NEVER

    _nonlocal = _global

    def _functiondef(self, s):
        return [_Expressions().visit(s)], NEVER


_PIECE, _FUNCTION = "_hop_piece", "_hop_function"


def _always(block):
    """Whether the last statement of a block, or both ends of an if there, exits."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ast.If):
        return _always(last.body) and _always(last.orelse)
    return any(isinstance(s, (ast.Return, ast.Break, ast.Continue, ast.Raise)) for s in block)


def _exits(block):
    kinds = (ast.Return, ast.Break, ast.Continue)
    return any(isinstance(child, kinds) for s in block for child in ast.walk(s))


# ---- twins ----


@functools.lru_cache(maxsize=1024)
def _code(code):
    """The code of a rewritten function, and the syntax tree that it comes from."""
    node = copy.deepcopy(source_of(code))
    if isinstance(node, ast.Lambda):
        made = _define(_FUNCTION, [ast.copy_location(ast.Return(node.body), node)])
        made.args = node.args
        node = ast.fix_missing_locations(ast.copy_location(made, node))
        node.body = [ast.Return(_Expressions().visit(node.body[0].value))]
    else:
        node.decorator_list = []
        node = _Function(node).rewritten()
    node.name = _FUNCTION  # its own name is one from outside
    free = [_RUNTIME, *code.co_freevars]
    factory = _define("_hop_make", [node, ast.Return(_load(node.name))], free)
    module = ast.Module([ast.copy_location(factory, node)], [])
    ast.fix_missing_locations(module)
    outer = compile(module, code.co_filename, "exec", dont_inherit=True)
    made = next(c for c in outer.co_consts if isinstance(c, types.CodeType))
    inner = next(c for c in made.co_consts if isinstance(c, types.CodeType) and c.co_name == node.name)
    return inner.replace(co_name=code.co_name, co_qualname=code.co_qualname), node


def rewritten(fun, runtime):
    """The twin of a function: the same on values, operators on traced ones."""
    code, _ = _code(fun.__code__)
    cells = dict(zip(fun.__code__.co_freevars, fun.__closure__ or ()))
    closure = tuple(types.CellType(runtime) if n == _RUNTIME else cells[n] for n in code.co_freevars)
    made = types.FunctionType(code, fun.__globals__, fun.__name__, fun.__defaults__, closure)
    made.__kwdefaults__ = fun.__kwdefaults__
    functools.update_wrapper(made, fun)
    return made


def is_rewritten(code):
    """Whether code is that of a twin, or of a piece of one."""
    return _RUNTIME in code.co_freevars or code.co_name.startswith(_PIECE)


def check(code):
    """An Unsupported that says why the function with this code has no twin, if that is so."""
    _code(code)


def text(fun):
    """The rewritten source of a function; an InvalidError says why there is none."""
    try:
        _code(getattr(fun, "__func__", fun).__code__)
    except (Unsupported, AttributeError) as error:
        raise InvalidError(f"{place()}source: {error}") from None
    fun = getattr(fun, "__func__", fun)
    node = copy.copy(_code(fun.__code__)[1])
    node.name = fun.__name__ if fun.__name__.isidentifier() else "function"
    return ast.unparse(node)
