"""Syntax trees: the names that statements bind, nodes that are made, and statements said by simpler ones
(match as if, := where it may not happen as statements of their own)."""

import ast
import copy

RUNTIME = "_hop_flow"
OWN = "_hop_"  # how names begin that are not the user's
PIECE = "_hop_piece"
CAUGHT = "_hop_caught"
STACK = "_hop_stack_"


# ---- names ----


class Names(ast.NodeVisitor):
    """bound: the names that statements bind, without those of functions inside of them; deleted: those that
    they delete; outer: those declared to be another's; written: those that functions inside write; yields:
    whether something is handed out from the middle."""

    def __init__(self):
        self.bound, self.deleted, self.outer, self.written, self.yields = {}, {}, {}, {}, False
        self.loads = set()

    def of(self, nodes):
        for node in nodes:
            self.visit(node)
        return self

    def _bind(self, name):
        self.bound[name] = True

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load):
            self.loads.add(node.id)
            return
        self._bind(node.id)
        if isinstance(node.ctx, ast.Del):
            self.deleted[node.id] = True

    def visit_FunctionDef(self, node):
        if node.name.startswith(PIECE):  # a part of this very function
            self.of(node.body)
            return
        self._bind(node.name)
        for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)
        inside = Names().of(node.body)
        mine = {*inside.bound, *parameters(node.args)} - set(inside.outer)
        self.written.update({n: True for n, kind in inside.outer.items() if kind is ast.Nonlocal})
        self.written.update({n: True for n in inside.written if n not in mine})

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        self._bind(node.name)
        inside = Names().of(node.body)
        self.written.update(inside.written)

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
        if node.name and not node.name.startswith(CAUGHT):
            self._bind(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node):
        if node.name:
            self._bind(node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node):
        if node.rest:
            self._bind(node.rest)
        self.generic_visit(node)

    def visit_TypeAlias(self, node):
        self._bind(node.name.id)

    def visit_Global(self, node):
        self.outer.update({name: ast.Global for name in node.names})

    def visit_Nonlocal(self, node):
        self.outer.update({name: ast.Nonlocal for name in node.names})

    def visit_Yield(self, node):
        self.yields = True
        self.generic_visit(node)

    visit_YieldFrom = visit_Await = visit_AsyncFor = visit_AsyncWith = visit_Yield


_COMPOUND = (ast.If, ast.While, ast.For, ast.Try, ast.With, ast.Match, getattr(ast, "TryStar", ast.Try))


def bound_on_the_way(statements):
    """The names that are bound somewhere where control flow may not come by, or that are deleted."""
    found = Names()
    for s in statements:
        found.of([s] if isinstance(s, _COMPOUND) else ())
        found.deleted.update(Names().of([s]).deleted)
    return {*found.bound, *found.deleted}


def parameters(args):
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return [a.arg for a in (*every, *filter(None, (args.vararg, args.kwarg)))]


# ---- building ----


def load(name):
    return ast.Name(name, ast.Load())


def assign(name, value):
    return ast.Assign([ast.Name(name, ast.Store())], value)


def flow(name, *args):
    """A call of a function of the runtime."""
    return ast.Call(ast.Attribute(load(RUNTIME), name, ast.Load()), list(args), [])


def is_flow(node):
    f = node.func
    return isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and f.value.id == RUNTIME


def _arguments(names):
    given = [ast.arg(n) for n in names]
    return ast.arguments(posonlyargs=[], args=given, kwonlyargs=[], kw_defaults=[], defaults=[])


def later(expression, *names):
    """lambda names: expression"""
    return ast.Lambda(_arguments(names), expression)


def define(name, body, names=()):
    made = ast.FunctionDef(name, _arguments(names), body or [ast.Pass()], [], None)
    made.type_params = []
    return made


def texts(names):
    return ast.Tuple([ast.Constant(n) for n in names], ast.Load())


def at(node, where):
    """A made node, and what is in it, at the place of one of the user's."""
    return ast.fix_missing_locations(ast.copy_location(node, where))


def binds(node):
    """Whether an expression binds a name, or hands something out of its function."""
    kinds = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
    return any(isinstance(child, kinds) for child in ast.walk(node))


# ---- := as statements ----

_CLOSED = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _open_nodes(node):
    """The nodes of an expression that are evaluated in its function."""
    yield node
    if not isinstance(node, _CLOSED):
        for child in ast.iter_child_nodes(node):
            yield from _open_nodes(child)


def named_inside(expression):
    return any(isinstance(n, ast.NamedExpr) for n in _open_nodes(expression))


def _is_lazy(node):
    return isinstance(node, (ast.BoolOp, ast.IfExp)) or isinstance(node, ast.Compare) and len(node.ops) > 1


def _needs(expression):
    """Whether it binds a name in a part that may not be evaluated."""
    return any(_is_lazy(n) and named_inside(n) for n in _open_nodes(expression))


class Lifted:
    """An expression as statements (out) that bind what it binds, and what is left of it."""

    def __init__(self, new_name, where):
        self.out, self._new_name, self._where = [], new_name, where

    def _put(self, statement):
        self.out.append(at(statement, self._where))

    def _hold(self, expression, name=None):
        name = name or self._new_name()
        self._put(assign(name, expression))
        return load(name)

    def _part(self, expression, name):
        """Statements that evaluate a part and put it under a name."""
        inner = Lifted(self._new_name, self._where)
        inner._hold(inner.value(expression), name)
        return inner.out

    def value(self, e):
        """The expression without := in it."""
        if not named_inside(e):
            return e
        if isinstance(e, ast.NamedExpr):
            held = self._hold(self.value(e.value))
            self._put(ast.Assign([e.target], held))
            return held
        if isinstance(e, ast.BoolOp):
            held = self._hold(self.value(e.values[0]))
            for part in e.values[1:]:
                test = held if isinstance(e.op, ast.And) else ast.UnaryOp(ast.Not(), held)
                self._put(ast.If(test, self._part(part, held.id), []))
            return held
        if isinstance(e, ast.IfExp):
            test, held = self.value(e.test), load(self._new_name())
            self._put(ast.If(test, self._part(e.body, held.id), self._part(e.orelse, held.id)))
            return held
        if _is_lazy(e):
            return self._comparison(e)
        return self._other(e)

    def _comparison(self, e):
        left = self._hold(self.value(e.left))
        right = self._hold(self.value(e.comparators[0]))
        held = self._hold(ast.Compare(left, [e.ops[0]], [right]))
        for op, comparator in zip(e.ops[1:], e.comparators[1:]):
            following = self._new_name()
            inside = self._part(comparator, following)
            inside.append(at(assign(held.id, ast.Compare(right, [op], [load(following)])), self._where))
            self._put(ast.If(held, inside, []))
            right = load(following)
        return held

    def _other(self, e):
        """Operands from the left: those before one that binds are held as they are."""
        slots = list(_slots(e))
        last = max(i for i, (get, _) in enumerate(slots) if named_inside(get()))
        for i, (get, put) in enumerate(slots[: last + 1]):
            x = get()
            if named_inside(x):
                put(self.value(x))
            if i < last and not isinstance(x, ast.Constant):
                put(self._hold(get()))
        return e


def _slots(node):
    """(what gives, what sets) each operand of an expression, in the order of evaluation."""

    def slot(owner, name, i=None):
        def get():
            return getattr(owner, name) if i is None else getattr(owner, name)[i]

        def put(x):
            if i is None:
                setattr(owner, name, x)
            else:
                getattr(owner, name)[i] = x

        return get, put

    def found(owner, name, i=None):
        x = slot(owner, name, i)[0]()
        if isinstance(x, (ast.keyword, ast.Starred, ast.FormattedValue, ast.Slice)):
            yield from _slots(x)
        elif isinstance(x, ast.expr):
            yield slot(owner, name, i)

    if isinstance(node, ast.Dict):
        for i, key in enumerate(node.keys):
            yield from () if key is None else [slot(node, "keys", i)]
            yield slot(node, "values", i)
        return
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            for i in range(len(value)):
                yield from found(node, name, i)
        elif isinstance(value, ast.AST):
            yield from found(node, name)


_EVALUATED = {
    ast.Assign: "value", ast.AugAssign: "value", ast.AnnAssign: "value", ast.Return: "value",
    ast.Expr: "value", ast.If: "test", ast.Assert: "test", ast.For: "iter", ast.Raise: "exc",
    ast.Match: "subject",
}  # fmt: skip


def lifted(statement, new_name):
    """Statements before this one, which is changed, that bind what it binds where that may not happen."""
    field = _EVALUATED.get(type(statement))
    expression = field and getattr(statement, field)
    if expression is None or not _needs(expression):
        return []
    lift = Lifted(new_name, statement)
    setattr(statement, field, lift.value(expression))
    return lift.out


# ---- match as if ----


class Matched:
    """A match statement as statements: [the subject under a name, if …]."""

    def __init__(self, statement, new_name):
        self._s, self._new_name = statement, new_name

    def statements(self):
        subject = self._new_name()
        cases = self._cases(self._s.cases, lambda: load(subject))
        return [at(s, self._s) if not hasattr(s, "lineno") else s
                for s in [assign(subject, self._s.subject), *cases]]  # fmt: skip

    def _cases(self, cases, subject):
        if not cases:
            return []
        case = cases[0]
        tests, bindings = [], []
        self._pattern(case.pattern, subject, tests, bindings)
        test = ast.Constant(True) if not tests else tests[0]
        if len(tests) > 1:
            test = ast.BoolOp(ast.And(), tests)
        bound = [at(assign(name, value), case.pattern) for name, value in bindings]
        if case.guard is None and not tests:
            return [*bound, *case.body]
        if case.guard is None:
            return [at(ast.If(test, [*bound, *case.body], self._cases(cases[1:], subject)), case.pattern)]
        held = self._new_name()
        asked = [*bound, at(assign(held, case.guard), case.pattern)]
        no = at(assign(held, ast.Constant(False)), case.pattern)
        first = asked if not tests else [at(ast.If(test, asked, [no]), case.pattern)]
        return [*first, at(ast.If(load(held), case.body, self._cases(cases[1:], subject)), case.pattern)]

    def _pattern(self, p, subject, tests, bindings):
        getattr(self, "_" + type(p).__name__.lower())(p, subject, tests, bindings)

    def _matchvalue(self, p, subject, tests, bindings):
        tests.append(ast.Compare(subject(), [ast.Eq()], [p.value]))

    def _matchsingleton(self, p, subject, tests, bindings):
        tests.append(ast.Compare(subject(), [ast.Is()], [ast.Constant(p.value)]))

    def _matchas(self, p, subject, tests, bindings):
        if p.pattern is not None:
            self._pattern(p.pattern, subject, tests, bindings)
        if p.name is not None:
            bindings.append((p.name, subject()))

    def _matchor(self, p, subject, tests, bindings):
        alternatives = []
        for q in p.patterns:
            inner, bound = [], []
            self._pattern(q, subject, inner, bound)
            if bound:
                raise NotImplementedError  # which alternative has matched decides what is bound
            alternatives.append(inner[0] if len(inner) == 1 else ast.BoolOp(ast.And(), inner or [_true()]))
        tests.append(ast.BoolOp(ast.Or(), alternatives))

    def _matchsequence(self, p, subject, tests, bindings):
        star = [i for i, q in enumerate(p.patterns) if isinstance(q, ast.MatchStar)]
        n = len(p.patterns) - len(star)
        tests.append(flow("is_sequence", subject(), ast.Constant(n), ast.Constant(bool(star))))
        for i, q in enumerate(p.patterns):
            if star and i == star[0]:
                if q.name is not None:
                    rest = ast.Slice(ast.Constant(i), ast.Constant(i - n) if i < n else None)
                    every = ast.Subscript(flow("as_list", subject()), rest, ast.Load())
                    bindings.append((q.name, every))
                continue
            at_ = i if not star or i < star[0] else i - n - 1
            self._pattern(q, _item(subject, ast.Constant(at_)), tests, bindings)

    def _matchmapping(self, p, subject, tests, bindings):
        tests.append(flow("is_mapping", subject(), _keys(p)))
        for key, q in zip(p.keys, p.patterns):
            self._pattern(q, _item(subject, key), tests, bindings)
        if p.rest is not None:
            bindings.append((p.rest, flow("without", subject(), _keys(p))))

    def _matchclass(self, p, subject, tests, bindings):
        count = ast.Constant(len(p.patterns))
        tests.append(flow("is_of_class", subject(), copy.deepcopy(p.cls), count, texts(p.kwd_attrs)))
        for i, q in enumerate(p.patterns):
            self._pattern(q, _class_part(subject, p.cls, i), tests, bindings)
        for name, q in zip(p.kwd_attrs, p.kwd_patterns):
            self._pattern(q, _attribute(subject, name), tests, bindings)


# What gives a part of a subject, which is itself what gives a node: each use has nodes of its own.


def _item(subject, key):
    return lambda: ast.Subscript(subject(), copy.deepcopy(key), ast.Load())


def _attribute(subject, name):
    return lambda: ast.Attribute(subject(), name, ast.Load())


def _class_part(subject, cls, i):
    return lambda: flow("class_part", subject(), copy.deepcopy(cls), ast.Constant(i))


def _keys(p):
    return ast.Tuple(copy.deepcopy(p.keys), ast.Load())


def _true():
    return ast.Constant(True)
