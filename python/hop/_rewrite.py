"""Plain Python as operators: a function's source rewritten so that if, while, for, match, and, or, not,
conditional expressions, comprehensions and assert call functions of _flow.py, which do what Python does
unless they meet a traced value.

The rewritten twin of a function shares its globals, its closure's cells and its defaults, and keeps the line
numbers. Exits from the middle (return, break, continue) become assignments to flags: what comes behind an if
that may exit goes into the branch that does not, or under an if on the flag."""

import ast
import copy
import functools
import types

from . import _syntax
from ._arguments import place
from ._errors import InvalidError
from ._source import Unsupported, source_of
from ._syntax import CAUGHT, OWN, PIECE, STACK, Names, assign, at, binds, define, flow, later, load, texts

_RUNTIME = _syntax.RUNTIME
_FUNCTION = "_hop_function"
_VALUE, _RETURNED = "_hop_value", "_hop_returned"
NEVER, MAYBE, ALWAYS = range(3)

# Names of Python's that look at the frame of their caller.
_LOOKS_AT_FRAMES = ("locals", "vars", "eval", "exec", "dir")
# Attributes that are never a property of the user's.
_ATTRIBUTES = frozenset(("shape", "dtype", "ndim", "size", "T", "mT", "at", "real", "imag"))


# ---- expressions ----


class _Expressions(ast.NodeTransformer):
    """Expressions that ask for the truth of a value, and calls. scope: the function that they stand in."""

    def __init__(self, scope):
        self.scope = scope

    def visit_ClassDef(self, node):
        """Methods are functions of their own; what stands in the class itself reads variables from here."""
        return _ClassBody(self.scope, node).visit_body()

    def visit_FunctionDef(self, node):
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args = self.visit(node.args)
        return _function(node, self.scope)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_arguments(self, node):
        """Defaults; what annotations say is Python's."""
        node.defaults = [self.visit(d) for d in node.defaults]
        node.kw_defaults = [d and self.visit(d) for d in node.kw_defaults]
        return node

    def visit_Lambda(self, node):
        args = self.visit(node.args)
        inside = _Expressions(_Inside(self.scope, _syntax.parameters(args)))
        return ast.copy_location(ast.Lambda(args, inside.visit(node.body)), node)

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load) and self.scope.is_guarded(node.id):
            return ast.copy_location(flow("bound", node), node)
        return node

    def test(self, node):
        """An expression of which only the truth is asked for."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ast.copy_location(flow("not_", self.test(node.operand)), node)
        if not isinstance(node, ast.BoolOp) or binds(node):
            return self.visit(node)
        name = "both" if isinstance(node.op, ast.And) else "either"
        return ast.copy_location(flow(name, *[later(self.test(x)) for x in node.values]), node)

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        if binds(node):
            return node
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return ast.copy_location(flow(name, *map(later, node.values)), node)

    def visit_UnaryOp(self, node):
        return self.test(node) if isinstance(node.op, ast.Not) else self.generic_visit(node)

    def visit_IfExp(self, node):
        if binds(node):
            return self.generic_visit(node)
        then, other = later(self.visit(node.body)), later(self.visit(node.orelse))
        return ast.copy_location(flow("choose", self.test(node.test), then, other), node)

    def visit_Compare(self, node):
        self.generic_visit(node)
        if len(node.ops) > 1 and not binds(node):
            signs = texts([type(op).__name__ for op in node.ops])
            rest = [later(x) for x in node.comparators]
            made = flow("compare", node.left, signs, ast.Tuple(rest, ast.Load()))
            return ast.copy_location(made, node)
        op, right = node.ops[0], node.comparators[0]
        truth = any(isinstance(x, ast.Constant) and x.value in (True, False) for x in (node.left, right))
        if isinstance(op, (ast.In, ast.NotIn)) or isinstance(op, (ast.Is, ast.IsNot)) and truth:
            rest = ast.Tuple([later(right)] if not binds(right) else [], ast.Load())
            if rest.elts:
                made = flow("compare", node.left, texts([type(op).__name__]), rest)
                return ast.copy_location(made, node)
        return node

    def visit_Call(self, node):
        if _syntax.is_flow(node):
            return self.generic_visit(node)
        f = node.func
        if isinstance(f, ast.Name) and f.id == "super" and not node.args:
            return self.scope.super(node)
        if isinstance(f, ast.Attribute):
            node.func = ast.copy_location(ast.Attribute(self.visit(f.value), f.attr, ast.Load()), f)
        else:
            node.func = self.visit(f)
        args = [self.visit(a) for a in node.args]
        named = [ast.copy_location(ast.keyword(k.arg, self.visit(k.value)), k) for k in node.keywords]
        called = ast.copy_location(flow("twin", node.func), f)
        return ast.copy_location(ast.Call(called, args, named), node)

    def visit_Attribute(self, node):
        """An attribute of something that is no module: it may be a property."""
        module = isinstance(node.value, ast.Name) and not self.scope.is_local(node.value.id)
        self.generic_visit(node)
        plain = node.attr in _ATTRIBUTES or node.attr.startswith("__") or not isinstance(node.ctx, ast.Load)
        if module or plain:
            return node
        return ast.copy_location(flow("attribute", node.value, ast.Constant(node.attr)), node)

    def visit_Subscript(self, node):
        self.generic_visit(node)
        at_ = node.slice
        known = isinstance(at_, (ast.Slice, ast.Constant, ast.Tuple, ast.Starred, ast.UnaryOp))
        if known or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(flow("item", node.value, at_), node)

    # -- comprehensions --

    def _filters(self, node):
        """Tests that must be known: they decide how many items there are."""
        for g in node.generators:
            tests = [self.test(test) for test in g.ifs]
            g.ifs = [at(flow("known", t, ast.Constant("a filter"), ast.Constant(t.lineno)), t) for t in tests]

    def _comprehension(self, node):
        self._filters(node)
        for field in ("key", "value", "elt"):
            if hasattr(node, field):
                setattr(node, field, self.visit(getattr(node, field)))
        for g in node.generators:
            g.iter = self.visit(g.iter)
        return node

    visit_SetComp = visit_DictComp = _comprehension

    def _over(self, name, node):
        first = node.generators[0]
        self._comprehension(node)
        if any(g.is_async for g in node.generators) or binds(node):
            return node
        over, first.iter = first.iter, load("_hop_part")
        made = flow(name, over, later(node, "_hop_part"), ast.Constant(node.lineno))
        if name == "generator" and len(node.generators) > 1:
            made.args.append(ast.Constant(True))
        return at(made, node)

    def visit_ListComp(self, node):
        return self._over("comprehension", node)

    def visit_GeneratorExp(self, node):
        return self._over("generator", node)


class _ClassBody(ast.NodeTransformer):
    """Statements of a class in a function: its variables may have no value."""

    def __init__(self, scope, node):
        self._scope, self._node = scope, node
        self._own = set(Names().of(node.body).bound)

    def visit_body(self):
        for field in ("bases", "keywords", "body"):
            setattr(self._node, field, [self.visit(part) for part in getattr(self._node, field)])
        return self._node

    def visit_FunctionDef(self, node):
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef

    def visit_Name(self, node):
        read = isinstance(node.ctx, ast.Load) and node.id not in self._own
        if read and self._scope.is_guarded(node.id):
            return ast.copy_location(flow("bound", node), node)
        return node


class _Inside:
    """The body of a lambda: names of the function around it may have no value when it is called."""

    def __init__(self, outer, names):
        self._outer, self._names = outer, set(names)

    def is_guarded(self, name):
        return name not in self._names and self._outer.may_be_guarded(name)

    may_be_guarded = is_guarded

    def is_local(self, name):
        return name in self._names or self._outer.is_local(name)

    def super(self, node):
        return node


class _Nowhere:
    """What is around a function of a module. free: variables of a function around it that may have no
    value."""

    def __init__(self, free=()):
        self._free = free

    def may_be_guarded(self, name):
        return name in self._free

    is_guarded = may_be_guarded

    def is_local(self, name):
        return False

    def super(self, node):
        return node


# ---- statements ----


class _Region:
    """What exits of a block mean: in the body of a function (broke is None) or of a loop in it."""

    def __init__(self, number, outer=None):
        self.outer = outer
        self.skip = _RETURNED if outer is None else f"_hop_skip{number}"
        self.broke = None if outer is None else f"_hop_broke{number}"
        self.breaks = self.returns = self.leaves = False  # leaves: by a break, to behind the loop


class _Scope:
    """The names of one function, as its expressions see them."""

    def __init__(self, node, around):
        self.node, self.around = node, around
        self.names = names = Names().of(node.body)
        self.outer, self.parameters = names.outer, _syntax.parameters(node.args)
        self.local = ({*names.bound, *self.parameters}) - set(names.outer)
        self.shared = [n for n in names.written if n in self.local]  # those that functions inside write
        self.suspects = self._on_the_way() | set(self.shared) | _filled(node.body) & self.local
        self.fresh = set(self.parameters) - set(names.deleted)
        if names.loads & {*_LOOKS_AT_FRAMES} - self.local and _calls(node, _LOOKS_AT_FRAMES):
            raise Unsupported(f"{node.name} looks at its own variables by locals, vars, eval or exec")

    def _on_the_way(self):
        return _syntax.bound_on_the_way(self.node.body) & self.local

    def may_be_guarded(self, name):
        return name in self.suspects or name not in self.local and self.around.may_be_guarded(name)

    def is_guarded(self, name):
        return self.may_be_guarded(name) and name not in self.fresh

    def is_local(self, name):
        return name in self.local or self.around.is_local(name)

    def super(self, node):
        """super() in a function that a piece of this one is."""
        if not self.parameters:
            return node
        first = [load("__class__"), load(self.parameters[0])]
        return at(ast.Call(node.func, first, []), node)

    def visit(self, node):
        return _Expressions(self).visit(node)

    def test(self, node):
        return _Expressions(self).test(node)


def _calls(node, names):
    """Whether a function of one of these names is called without arguments that say on what."""
    for n in ast.walk(node):
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in names:
            if not n.args or n.func.id in ("eval", "exec"):
                return True
    return False


class _Function(_Scope):
    """One function, its statements rewritten."""

    def __init__(self, node, around):
        super().__init__(node, around)
        self.number = 0
        self.state = {}  # names that pieces bind
        self.region = _Region(0)

    def _new_name(self):
        self.number += 1
        return f"{OWN}x{self.number}"

    def rewritten(self):
        node = self.node
        end = ast.copy_location(ast.Return(flow("end", ast.Constant(node.name))), node)
        body, exits = self._block([*node.body, end])
        skipped = (*self.outer, *self.parameters, _VALUE, _RETURNED)
        local = [n for n in self.state if n not in skipped]
        local += [n for n in self.names.deleted if n in self.local and n not in (*local, *self.parameters)]
        first = [assign(n, flow("unbound", ast.Constant(n))) for n in (*local, _VALUE)]
        first.append(assign(_RETURNED, ast.Constant(False)))
        declared = [kind([n]) for n, kind in self.outer.items()]
        last = flow("bound", load(_VALUE)) if self.state else load(_VALUE)
        made = _like(node, [*declared, *first, *body, ast.Return(last)])
        for statement in made.body:
            if not hasattr(statement, "lineno"):
                ast.copy_location(statement, node)
        return ast.fix_missing_locations(made)

    # -- blocks --

    def _block(self, statements):
        """(new statements, whether they exit)"""
        out, todo, maybe = [], list(statements), False
        while todo:
            statement = todo.pop(0)
            before = _syntax.lifted(statement, self._new_name)
            if isinstance(statement, ast.Match):
                before = self._as_ifs(statement)
                if before is not None:
                    todo[:0] = before
                    continue
            elif before:
                todo[:0] = [*before, statement]
                continue
            if isinstance(statement, ast.If):
                new, exits, used = self._if(statement, todo)
                out += new
                if used:
                    return out, exits
            else:
                new, exits = self._statement(statement)
                out += new
            if exits == ALWAYS:
                return out, ALWAYS
            maybe = maybe or exits == MAYBE
            if exits == MAYBE and todo:
                fresh = set(self.fresh)
                new, more = self._block(todo)
                self.fresh = fresh
                out += self._piece("if_", statement, flow("not_", load(self.region.skip)), new, [])
                return out, ALWAYS if more == ALWAYS else MAYBE
        return out, MAYBE if maybe else NEVER

    def _statement(self, s):
        method = getattr(self, "_" + type(s).__name__.lower(), None)
        if method is not None:
            new, exits = method(s)
            return [ast.copy_location(x, s) if not hasattr(x, "lineno") else x for x in new], exits
        names = Names().of([s]).bound
        new = self.visit(s)
        self.fresh |= set(names)
        return [new], NEVER

    # -- exits --

    def _leave(self, *flags):
        return [assign(flag, ast.Constant(True)) for flag in flags]

    def _return(self, s):
        value = ast.Constant(None)
        if s.value is not None:
            value = self.visit(s.value)
        flags, region = [], self.region
        while region is not None:
            region.returns = True
            flags += [region.skip] if region.broke is None else [region.skip, region.broke]
            if region.broke:
                region.breaks = True
            region = region.outer
        return [assign(_VALUE, value), *self._leave(*flags)], ALWAYS

    def _break(self, s):
        self.region.breaks = self.region.leaves = True
        return self._leave(self.region.skip, self.region.broke), ALWAYS

    def _continue(self, s):
        return self._leave(self.region.skip), ALWAYS

    def _raise(self, s):
        if s.exc is not None:
            s.exc = at(flow("raised", self.visit(s.exc)), s.exc)
            s.cause = s.cause and self.visit(s.cause)
        return [s], ALWAYS

    # -- pieces: statements that become functions --

    def _piece(self, name, at_, first, *blocks, parameters=(), more=()):
        """Statements that call flow.name(first, functions of the blocks…, get, set, names, line)."""
        bound = Names().of([s for block in blocks for s in block]).bound
        bound = [n for n in bound if not n.startswith(PIECE)]
        filled = [n.removeprefix(STACK) for n in bound if n.startswith(STACK)]
        bound += [n for n in filled if n not in bound]
        self.state.update(dict.fromkeys(bound))
        self.fresh -= set(bound)
        number, self.number = self.number, self.number + 1
        names, defined = [f"{PIECE}{number}_{i}" for i in range(len(blocks))], []
        outer = [n for n in bound if self.outer.get(n) is ast.Global]
        inner = [n for n in bound if n not in outer]
        declared = [kind(ns) for kind, ns in ((ast.Global, outer), (ast.Nonlocal, inner)) if ns]
        for which, block in zip(names, blocks):
            defined.append(define(which, [*declared, *block], parameters))
        values = ast.Tuple([self._value(n) for n in bound], ast.Load())
        get, put = f"{PIECE}{number}_get", f"{PIECE}{number}_set"
        defined.append(define(get, [ast.Return(values)]))
        targets = ast.Tuple([ast.Name(n, ast.Store()) for n in bound], ast.Store())
        taken = [ast.Assign([targets], load("_hop_given"))] if bound else []
        defined.append(define(put, [*declared, *taken], ["_hop_given"]))
        line = ast.Constant(at_.lineno)
        call = flow(name, first, *map(load, names), load(get), load(put), texts(bound), line, *more)
        new = [*defined, ast.Expr(call)]
        for statement in new:
            ast.copy_location(statement, at_)
            statement.end_lineno = at_.lineno  # the line of a call of an attribute is where that ends
            statement.end_col_offset = at_.col_offset
            ast.fix_missing_locations(statement)
        return new

    def _value(self, name):
        """What a variable holds; one of another function may hold nothing."""
        if name in self.outer:
            return flow("outside", later(load(name)), ast.Constant(name))
        return load(name)

    def _if(self, s, rest):
        """(new statements, whether they exit, whether they contain the rest)"""
        if len(s.body) == 1 and isinstance(s.body[0], ast.Raise) and not s.orelse and s.body[0].exc:
            test = self.test(s.test)
            error = later(self.visit(s.body[0].exc))
            return [at(ast.Expr(flow("raise_if", test, error)), s)], NEVER, False
        test = self.test(s.test)
        exits = _always(s.body), _always(s.orelse)
        used = rest and (exits[0] or exits[1])
        fresh = set(self.fresh)
        then, a = self._block(s.body + (rest if used and not exits[0] else []))
        self.fresh = set(fresh)
        other, b = self._block(s.orelse + (rest if used and exits[0] else []))
        self.fresh = fresh
        both = a if a == b else MAYBE
        return self._piece("if_", s, test, then, other), both, bool(used)

    def _as_ifs(self, s):
        """A match as other statements; None where its patterns are left to Python."""
        try:
            return _syntax.Matched(copy.deepcopy(s), self._new_name).statements()
        except NotImplementedError:
            return None

    def _match(self, s):
        s.subject = at(flow("known", self.visit(s.subject), ast.Constant("the subject of a match"),
                            ast.Constant(s.lineno)), s.subject)  # fmt: skip
        exits = NEVER
        for case in s.cases:
            case.guard = case.guard and self._known(case.guard, "the guard of a case")
            fresh = set(self.fresh)
            case.body, more = self._block(case.body)
            self.fresh = fresh - set(Names().of(case.body).bound)
            case.body = case.body or [ast.Pass()]
            exits = MAYBE if more else exits
        self.state.update(dict.fromkeys(Names().of([s]).bound))
        return [s], exits

    def _known(self, test, what):
        return at(flow("known", self.test(test), ast.Constant(what), ast.Constant(test.lineno)), test)

    def _loop(self, s, first, build, last=()):
        """first: original statements before the body; last: rewritten ones behind it, which continue does not
        skip."""
        outer = self.region
        self.number += 1
        self.region = region = _Region(self.number, outer)
        fresh = set(self.fresh)
        self.fresh -= set(Names().of([*first, *s.body]).bound) | set(self.shared) | _filled([s])
        body, _ = self._block([*first, *s.body])
        self.region, self.fresh = outer, fresh
        body = [ast.copy_location(assign(region.skip, ast.Constant(False)), s), *body]
        new = [assign(region.broke, ast.Constant(False)), assign(region.skip, ast.Constant(False))]
        going = flow("not_", load(region.broke)) if region.breaks else None
        if last:
            body += last if going is None else self._piece("if_", s, going, last, [])
        new += build(body, going)
        exits = MAYBE if region.returns else NEVER
        endless = isinstance(s, ast.While) and isinstance(s.test, ast.Constant) and s.test.value
        if endless and not region.leaves:
            return new, ALWAYS  # nothing comes behind it
        if s.orelse:
            fresh = set(self.fresh)
            last, more = self._block(s.orelse)
            self.fresh = fresh - set(Names().of(s.orelse).bound)
            new += self._piece("if_", s, copy.deepcopy(going), last, []) if going is not None else last
            exits = max(exits, min(more, MAYBE))
        return new, exits

    def _while(self, s):
        if _syntax.named_inside(s.test):
            return self._while_naming(s)
        fresh = set(self.fresh)
        self.fresh -= set(Names().of(s.body).bound) | set(self.shared)
        test = self.test(s.test)
        self.fresh = fresh

        def build(body, going):
            wanted = test if going is None else flow("both", later(going), later(test))
            return self._piece("while_", s, later(wanted), body)

        return self._loop(s, [], build)

    def _while_naming(self, s):
        """The test binds names: it is asked before the loop and at the end of each round."""
        held = self._new_name()
        asked = at(assign(held, s.test), s)
        first, _ = self._block([copy.deepcopy(asked)])
        fresh = set(self.fresh)
        self.fresh -= set(Names().of([*s.body, asked]).bound)
        last, _ = self._block([asked])
        self.fresh = fresh

        def build(body, going):
            wanted = load(held) if going is None else flow("both", later(going), later(load(held)))
            return self._piece("while_", s, later(wanted), body)

        new, exits = self._loop(s, [], build, last)
        return [*first, *new], exits

    def _for(self, s):
        written = bool(Names().of([s.iter]).loads & _written(s.body))
        over = self.visit(s.iter)
        target = at(ast.Assign([s.target], load("_hop_item")), s)

        def build(body, going):
            more = [later(going) if going is not None else ast.Constant(None)]
            more += [ast.Constant(True)] if written else []
            return self._piece("for_", s, over, body, parameters=["_hop_item"], more=more)

        return self._loop(s, [target], build)

    # -- others --

    def _assert(self, s):
        if not __debug__:
            return [], NEVER
        said = later(self.visit(s.msg) if s.msg else ast.Constant(None))
        return [ast.Expr(flow("assert_", self.test(s.test), said))], NEVER

    def _delete(self, s):
        new = []
        for t in s.targets:
            if isinstance(t, ast.Name) and self.outer.get(t.id) is not ast.Global:
                if t.id not in self.fresh:
                    new.append(ast.Expr(flow("bound", load(t.id))))
                new.append(assign(t.id, flow("unbound", ast.Constant(t.id))))
                self.fresh.discard(t.id)
            else:
                new.append(ast.Delete([self.visit(t)]))
        return new, NEVER

    def _annassign(self, s):
        if s.value is None:
            return [], NEVER
        return self._statement(at(ast.Assign([s.target], s.value), s))

    def _expr(self, s):
        """out.append(x), of a list of this function's, in a loop."""
        call = s.value
        if self.region.outer is not None and isinstance(call, ast.Call) and _is_append(call):
            name = call.func.value.id
            if name in self.local and name not in self.parameters:
                held = load(STACK + name)
                value = flow("append", load(name), self.visit(call.args[0]), held)
                return [assign(STACK + name, value)], NEVER
        return [self.visit(s)], NEVER

    def _with(self, s):
        for item in s.items:
            item.context_expr = at(flow("manager", self.visit(item.context_expr)), item.context_expr)
        fresh = set(self.fresh)
        self.fresh |= set(Names().of([i.optional_vars for i in s.items if i.optional_vars]).bound)
        body, exits = self._block(s.body)
        self.fresh = fresh - set(Names().of(s.body).bound)
        return [ast.copy_location(ast.With(s.items, body or [ast.Pass()]), s)], MAYBE if exits else NEVER

    def _try(self, s):
        if _exits(s.finalbody):
            raise Unsupported(f"finally in line {s.lineno} of {self.node.name} leaves what is around it")
        fresh = set(self.fresh)
        body, first = self._block(s.body)
        orelse, second = self._block(s.orelse)
        if first and orelse:
            orelse = self._piece("if_", s, flow("not_", load(self.region.skip)), orelse, [])
        exits, handlers = [first, second], []
        bound = set(Names().of([*s.body, *s.orelse, *s.handlers]).bound)
        for h in s.handlers:
            self.fresh = fresh - bound
            handlers.append(self._handler(h, exits))
        self.fresh = fresh - bound
        final, _ = self._block(s.finalbody)
        if handlers:
            kinds = [h.type for h in s.handlers if h.type is not None]
            caught = ast.Tuple([self.visit(copy.deepcopy(k)) for k in kinds], ast.Load())
            if len(kinds) < len(handlers):
                caught = ast.Tuple([load("BaseException")], ast.Load())
            trying = ast.withitem(flow("trying", later(caught), ast.Constant(s.lineno)), None)
            body = [at(ast.With([trying], body or [ast.Pass()]), s)]
        made = type(s)(body or [ast.Pass()], handlers, orelse, final)
        return [ast.copy_location(made, s)], MAYBE if any(exits) else NEVER

    _trystar = _try

    def _handler(self, h, exits):
        """A handler, whose name loses its value at the end."""
        name = None
        if h.name:
            self.fresh.add(h.name)
        body, more = self._block(h.body)
        exits.append(more)
        if h.name:
            self.number += 1
            name = f"{CAUGHT}{self.number}"
            self.state[h.name] = None
            unbound = assign(h.name, flow("unbound", ast.Constant(h.name)))
            body = [at(assign(h.name, load(name)), h), *body, at(unbound, h)]
        made = ast.ExceptHandler(h.type and self.visit(h.type), name, body or [ast.Pass()])
        return ast.copy_location(made, h)

    def _global(self, s):
        return [], NEVER

    _nonlocal = _global


def _written(block):
    """Names of what statements write items of, or update in place."""
    found = set()
    for s in block:
        for n in ast.walk(s):
            target = n.target if isinstance(n, ast.AugAssign) else n
            is_item = isinstance(target, ast.Subscript) and not isinstance(target.ctx, ast.Load)
            while isinstance(target, (ast.Subscript, ast.Attribute)):
                target = target.value
            if (is_item or isinstance(n, ast.AugAssign)) and isinstance(target, ast.Name):
                found.add(target.id)
    return found


def _filled(block):
    """Names of lists that loops of a block append to."""
    loops = [n for s in block for n in ast.walk(s) if isinstance(n, (ast.For, ast.While))]
    calls = [n for loop in loops for n in ast.walk(loop) if isinstance(n, ast.Call)]
    return {n.func.value.id for n in calls if _is_append(n)}


def _is_append(call):
    f = call.func
    named = isinstance(f, ast.Attribute) and f.attr == "append" and isinstance(f.value, ast.Name)
    return named and len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Starred)


def _always(block):
    """Whether the last statement of a block, or both ends of an if there, exits."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ast.If):
        return _always(last.body) and _always(last.orelse)
    return any(isinstance(s, (ast.Return, ast.Break, ast.Continue, ast.Raise)) for s in block)


def _exits(block):
    """Whether a statement of a block, at any depth, leaves the function or a loop around the block."""
    for s in block:
        if isinstance(s, (ast.Return, ast.Break, ast.Continue)):
            return True
        if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if isinstance(s, (ast.For, ast.While)):
            if any(isinstance(c, ast.Return) for c in ast.walk(s)) or _exits(s.orelse):
                return True
        elif _exits([c for c in ast.iter_child_nodes(s) if isinstance(c, (ast.stmt, ast.ExceptHandler))]):
            return True
    return False


# ---- functions whose statements stay Python's ----


class _Statements(_Expressions):
    """Generators and coroutines: tests of statements must be known."""

    def _known(self, test, what):
        return at(flow("known", self.test(test), ast.Constant(what), ast.Constant(test.lineno)), test)

    def _tested(what):
        def visit(self, node):
            line, node.test = node.lineno, self._known(node.test, f"{what} of a generator")
            for block in (node.body, node.orelse):
                block[:] = [self.visit(s) for s in block]
            node.lineno = line
            return node

        return visit

    visit_If, visit_While = _tested("the if"), _tested("the while")
    del _tested

    def visit_Assert(self, node):
        if binds(node):
            return self.generic_visit(node)
        said = later(self.visit(node.msg) if node.msg else ast.Constant(None))
        return at(ast.Expr(flow("assert_", self.test(node.test), said)), node)

    def visit_IfExp(self, node):
        if not binds(node):
            return super().visit_IfExp(node)
        node.test = self._known(node.test, "a conditional expression of a generator")
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_Match(self, node):
        node.subject = self.visit(node.subject)
        for case in node.cases:
            case.guard = case.guard and self._known(case.guard, "the guard of a case of a generator")
            case.body = [self.visit(s) for s in case.body]
        return node

    def visit_AnnAssign(self, node):
        node.value = node.value and self.visit(node.value)
        return node


def _like(node, body):
    """A function like this one with another body. Annotations are Python's."""
    made = type(node)(node.name, node.args, body, node.decorator_list, None)
    made.type_params = getattr(node, "type_params", [])
    return ast.copy_location(made, node)


def _function(node, around):
    """A function rewritten, as a statement."""
    names = Names().of(node.body)
    if names.yields or isinstance(node, ast.AsyncFunctionDef):
        scope = _Scope(node, around)
        scope.suspects = set()
        statements = _Statements(scope)
        return ast.fix_missing_locations(_like(node, [statements.visit(s) for s in node.body]))
    try:
        return _Function(node, around).rewritten()
    except Unsupported:
        if isinstance(around, _Nowhere):
            raise
        return node


# ---- twins ----


@functools.lru_cache(maxsize=1024)
def _code(code):
    """The code of a rewritten function, and the syntax tree that it comes from."""
    node, owner = source_of(code)
    node = copy.deepcopy(node)
    method = owner is not None and "<locals>" in code.co_qualname
    nowhere = _Nowhere([n for n in code.co_freevars if n != "__class__"] if method else ())
    if isinstance(node, ast.Lambda):
        made = define(_FUNCTION, [ast.copy_location(ast.Return(node.body), node)])
        made.args, node = node.args, ast.fix_missing_locations(ast.copy_location(made, node))
        inside = _Expressions(_Inside(nowhere, _syntax.parameters(made.args)))
        node.body = [ast.Return(inside.visit(node.body[0].value))]
    else:
        node.decorator_list, node.type_params = [], []
        node = _function(node, nowhere)
    node.args = _without_annotations(node.args)
    name, node.name = node.name, _FUNCTION  # its own name is one from outside
    free = [_RUNTIME, *code.co_freevars]
    statement = at(define("_hop_make", [node, ast.Return(load(_FUNCTION))], free), node)
    if owner is not None:  # where names that begin with two underscores are the class's own
        statement = ast.ClassDef(owner, [], [], [statement], [])
        statement.type_params = []
    module = ast.fix_missing_locations(ast.Module([at(statement, node)], []))
    try:
        outer = compile(module, code.co_filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise Unsupported(f"{name} cannot be rewritten: {error}") from None
    inner = _inner_code(outer)
    inner = _renamed(inner, inner.co_qualname, code.co_qualname)
    return inner.replace(co_name=code.co_name), node


def _inner_code(code):
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            found = c if c.co_name == _FUNCTION else _inner_code(c)
            if found is not None:
                return found
    return None


def _renamed(code, before, after):
    """Code whose qualified name, and those of functions in it, begin otherwise."""
    consts = [_renamed(c, before, after) if isinstance(c, types.CodeType) else c for c in code.co_consts]
    name = after + code.co_qualname.removeprefix(before)
    return code.replace(co_qualname=name, co_consts=tuple(consts))


def _without_annotations(args):
    for a in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if a is not None:
            a.annotation = None
    return args


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
    return _RUNTIME in code.co_freevars or code.co_name.startswith(PIECE)


def check(code):
    """An Unsupported that says why the function with this code has no twin, if that is so."""
    _code(code)


def text(fun):
    """The rewritten source of a function; an InvalidError says why there is none."""
    from ._flow import python_function  # which is made of this module's functions

    fun = python_function(fun) or fun
    try:
        _code(getattr(fun, "__func__", fun).__code__)
    except (Unsupported, AttributeError) as error:
        raise InvalidError(f"{place()}source: {error}") from None
    fun = getattr(fun, "__func__", fun)
    node = copy.copy(_code(fun.__code__)[1])
    node.name = fun.__name__ if fun.__name__.isidentifier() else "function"
    return ast.unparse(node)
