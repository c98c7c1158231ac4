"""Distributed arrays, shard_map and local_map: values and gradients on several meshes beside the same on
whole arrays, in both spellings, and what is refused."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import hop
from support import needs_numpy, numpy as np

# Every process has its part, and the whole is brought together from all of them. Then one process runs
# another program than the other, first as a new one, then as one that both have run before.
UNDER_MPI = """
import sys
import hop
hop.dist.init()
mesh = hop.mesh(2, "i")
x = hop.distribute(hop.arange(5.0), mesh, hop.P("i"))
f = hop.shard_map(lambda x: hop.psum(hop.sum(x * x), "i"), mesh=mesh, in_specs=hop.P("i"), out_specs=hop.P())
hop.save(sys.argv[1], {"x": x, "n": hop.asarray(3)})
back = hop.load(sys.argv[1])
assert back["x"].tolist() == [0, 1, 2, 3, 4] and back["n"].item() == 3
assert hop.distribute(back["x"], mesh, hop.P("i")).parts[0].tolist() == x.parts[0].tolist()
slope = hop.collect(hop.grad(f)(x)).tolist()
try:
    hop.save(sys.argv[1] + "/x.safetensors", {"x": x})
except hop.FileError as error:
    assert hop.dist.rank() == 0 or "rank 0, which writes it, could not" in str(error), error
else:
    raise AssertionError("no such folder")

def of(inner):
    reduced = lambda x: hop.psum(hop.sum(hop.map(inner, x)), "i")
    return hop.jit(hop.shard_map(reduced, mesh=mesh, in_specs=hop.P("i"), out_specs=hop.P()))

sines, cosines, second = of(hop.sin), of(hop.cos), hop.dist.rank() == 1
for one, other in ((of(hop.exp), of(hop.tanh)), (sines, cosines)):
    if one is sines:
        sines(x), cosines(x)
    try:
        (other if second else one)(x)
    except hop.InvalidError as error:
        assert "found another one on rank 1 than on rank 0" in str(error), error
    else:
        raise AssertionError("programs that differ")
assert abs(sines(x).item() - 1.1350858) < 1e-5
with open(f"{sys.argv[1]}.{hop.dist.rank()}", "w") as said:  # lines that mpirun passes on may be mixed
    said.write(f"{hop.dist.rank()} of {hop.dist.size()}: {f(x)} {slope}")
"""
MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}

MESHES = [*[((n,), ("i",)) for n in (1, 2, 3, 4, 8)], ((2, 2), ("i", "j"))]
P, S, R = hop.P, hop.Shard, hop.Replicate


def numbers(*shape):
    return hop.asarray(np.random.default_rng(sum(shape)).uniform(-1, 1, shape))


@needs_numpy
class Dist(unittest.TestCase):
    def close(self, found, expected):
        whole = np.asarray(hop.collect(found))
        np.testing.assert_allclose(whole, np.asarray(expected), rtol=1e-10, atol=1e-12)

    def refused(self, text, call):
        with self.assertRaisesRegex(hop.InvalidError, text):
            call()

    # ---- meshes and placements ----

    def test_spellings(self):
        m = hop.mesh((2, 3), ("a", "b"))
        x = numbers(6, 6)
        one = hop.distribute(x, m, P("b", "a"))
        self.assertEqual(one.placements, (S(1), S(0)))
        self.assertEqual(one.spec, P("b", "a"))
        both = hop.distribute(x, m, P(("a", "b")))
        self.assertEqual(both.placements, (S(0), S(0)))
        self.assertEqual([part.shape for part in both.parts], [(1, 6)] * 6)
        self.close(one, x)
        self.close(both, x)

    def test_parts(self):
        m = hop.mesh(8, "i")
        x = hop.distribute(hop.arange(3), m, P("i"))
        self.assertEqual([part.tolist() for part in x.parts], [[0], [1], [2], [], [], [], [], []])
        self.close(x, [0, 1, 2])

    def test_mistakes_in_placements(self):
        m, x = hop.mesh((2, 2), ("a", "b")), numbers(4, 4)
        self.refused("has no axis 'c'", lambda: hop.distribute(x, m, P("c")))
        self.refused("names the axis 'a' twice", lambda: hop.distribute(x, m, P("a", "a")))
        self.refused("in the order of the mesh", lambda: hop.distribute(x, m, P(("b", "a"))))
        self.refused("1 placement, for a mesh of 2 axes", lambda: hop.distribute(x, m, [S(0)]))
        self.refused(r"Shard\(2\) of an array that has 2 axes", lambda: hop.distribute(x, m, [S(2), R()]))
        self.refused("two axes have one name", lambda: hop.mesh((2, 2), ("a", "a")))
        self.refused("found 1 names for 2 axes", lambda: hop.mesh((2, 2), "a"))

    def test_other_operators_refuse(self):
        x = hop.distribute(hop.arange(4.0), hop.mesh(2, "i"), P("i"))
        for call in (lambda: x + 1, lambda: hop.sum(x), x.tolist, lambda: np.asarray(x), lambda: x[0]):
            self.refused("found a distributed one", call)
        self.refused("what works on distributed arrays", lambda: hop.jit(lambda x: x + 1)(x))

    def test_redistribute(self):
        m, x = hop.mesh(3, "i"), numbers(4, 5)
        places = [P("i"), P(None, "i"), P()]
        for a in places:
            for b in places:
                moved = hop.redistribute(hop.distribute(x, m, a), b, m)
                self.close(moved, x)
        grad = hop.grad(lambda x: hop.sum(hop.collect(hop.redistribute(x, P(None, "i"))) ** 2))
        self.close(grad(hop.distribute(x, m, P("i"))), 2 * np.asarray(x))

    # ---- shard_map ----

    def test_values_and_gradients(self):
        for shape, names in MESHES:
            m = hop.mesh(shape, names)
            for rows in (8, 5):
                x, w = numbers(rows, 3), numbers(3)

                def loss(w, x):
                    return hop.psum(hop.sum(hop.tanh(x @ w)), names[0])

                def whole(w, x):
                    return hop.sum(hop.tanh(x @ w))

                spread = hop.shard_map(loss, m, (P(), P(names[0])), P())
                with self.subTest(shape=shape, rows=rows):
                    self.close(spread(w, x), whole(w, x))
                    for made, expected in zip(hop.grad(spread, (0, 1))(w, x), hop.grad(whole, (0, 1))(w, x)):
                        self.close(made, expected)
                    given = hop.distribute(x, m, P(names[0])) if m.size > 1 else x
                    self.close(hop.jit(hop.grad(spread, 1))(w, given), hop.grad(whole, 1)(w, x))

    def test_a_weight_inside_and_outside(self):
        m, x, w = hop.mesh(4, "i"), numbers(8), hop.asarray(0.7)

        def twice(w):
            spread = hop.shard_map(lambda x: hop.psum(hop.sum(hop.sin(w * x)), "i"), m, P("i"), P())
            return spread(x) * w

        self.close(hop.grad(twice)(w), hop.grad(lambda w: hop.sum(hop.sin(w * x)) * w)(w))

    def test_loops_and_branches_inside(self):
        m, x = hop.mesh(4, "i"), numbers(8)

        def ring(x):
            n = hop.axis_size("i")

            def step(c, _):
                total, held = c
                held = hop.ppermute(held, "i", [(k, (k + 1) % n) for k in range(n)])
                return (total + held, held), None

            return hop.scan(step, (x, x), None, length=n - 1)[0][0]

        found = hop.shard_map(ring, m, P("i"), P("i"))(x)
        self.close(found, np.tile(np.asarray(x).reshape(4, 2).sum(0), 4))
        last = hop.shard_map(
            lambda x: hop.cond(hop.axis_index("i") == 3, lambda x: -x, lambda x: x, x), m, P("i"), P("i")
        )
        self.close(last(x), np.asarray(x) * [1, 1, 1, 1, 1, 1, -1, -1])

    def test_trees_and_two_axes(self):
        m, x, y = hop.mesh((2, 2), ("a", "b")), numbers(4, 4), numbers(4)
        f = hop.shard_map(
            lambda t: {"s": hop.psum(t["x"].sum(), ("a", "b")), "y": (t["y"] * 2,)},
            m, ({"x": P("a", "b"), "y": P("a")},), {"s": P(), "y": (P("a"),)},
        )  # fmt: skip
        found = f({"x": x, "y": y})
        self.close(found["s"], np.asarray(x).sum())
        self.close(found["y"][0], 2 * np.asarray(y))

    def test_other_transforms(self):
        m, x = hop.mesh(2, "i"), numbers(3, 4)
        f = hop.shard_map(lambda x: hop.psum(hop.sum(x**2), "i"), m, P("i"), P())
        self.close(hop.vmap(f)(x), (np.asarray(x) ** 2).sum(1))
        self.close(hop.jvp(f, (x[0],), (x[0],))[1], 2 * (np.asarray(x[0]) ** 2).sum())

    def test_batches_of_distributed_arrays(self):
        m, x = hop.mesh(4, "i"), numbers(6, 3)
        columns, rows = hop.distribute(x, m, P("i")), hop.distribute(x.T, m, P(None, "i"))
        f = hop.shard_map(lambda x: x * hop.psum(hop.sum(x), "i"), m, P("i"), P("i"))
        expected = np.asarray(x) * np.asarray(x).sum(0)
        for out in (0, 1):
            found = hop.vmap(f, 1, out)(columns)
            self.assertEqual(found.placements, (S(1 - out),))
            self.close(found, expected.T if out == 0 else expected)
            self.close(hop.jit(hop.vmap(f, 1, out))(columns), expected.T if out == 0 else expected)
        self.close(hop.vmap(f)(rows), expected.T)
        self.close(hop.map(f, rows), expected.T)
        total = hop.shard_map(lambda x: hop.psum(hop.sum(x**2), "i"), m, P("i"), P())
        self.close(hop.vmap(hop.grad(total), 1, 1)(columns), 2 * np.asarray(x))
        for call in (hop.vmap(f), hop.jit(hop.vmap(f))):
            self.refused("axis 0 of the array is cut over the mesh", lambda call=call: call(columns))

    def test_statements_around(self):
        m, x = hop.mesh(4, "i"), numbers(6)
        given = hop.distribute(x, m, P("i"))
        twice = hop.shard_map(lambda x: 2 * x, m, P("i"), P("i"))

        def doubled(x, n):
            if n > 5:
                x = twice(x)
            while n > 0:
                x, n = twice(x), n - 1
            return x

        for n, factor in ((0, 1), (2, 4), (6, 128)):
            self.close(hop.jit(doubled)(given, hop.asarray(n)), factor * np.asarray(x))
        slope = hop.jit(hop.grad(lambda x, n: hop.sum(hop.collect(doubled(x, n)))))
        self.close(slope(given, hop.asarray(2)), [4] * 6)
        kept = hop.cond(hop.asarray(1) < 0, lambda: twice(given), lambda: given)
        self.close(kept, x)

    def test_arrays_from_outside(self):
        m, x = hop.mesh(4, "i"), numbers(6)
        twice = hop.shard_map(lambda x: 2 * x, m, P("i"), P("i"))
        held = {}
        compiled = hop.jit(lambda: twice(held["x"]))
        for lies in (P("i"), P("i"), P()):
            for factor in (1, 3):
                held["x"] = hop.distribute(factor * x, m, lies)
                self.close(compiled(), 2 * factor * np.asarray(x))

    def test_halves_of_parts_with_halos(self):
        """What the first half would keep has a size of each rank's own."""
        m, x, c = hop.mesh(4, "i"), numbers(10), numbers(5, 2).reshape(-1)

        def of_strip(u):
            u = hop.sin(u)
            return u[:-2] * u[1:-1] + u[2:]

        def of_part(u):
            left = hop.ppermute(u[-1:], "i", [(r, r + 1) for r in range(3)])
            right = hop.ppermute(u[:1], "i", [(r + 1, r) for r in range(3)])
            return of_strip(hop.concat([left, u, right]))

        spread = hop.shard_map(of_part, m, P("i"), P("i"))
        rim = hop.zeros(1, dtype=x.dtype)
        whole = lambda x: of_strip(hop.concat([rim, x, rim]))  # noqa: E731
        parts = hop.distribute(c, m, P("i"))
        for given, tangent in ((x, c), (hop.distribute(x, m, P("i")), parts)):
            (made, back), (expected, right) = hop.vjp(spread, given), hop.vjp(whole, x)
            self.close(made, expected)
            self.close(back(parts)[0], right(c)[0])
            self.close(hop.linearize(spread, given)[1](tangent), hop.linearize(whole, x)[1](c))

    def test_jacobians(self):
        m, x = hop.mesh(3, "i"), numbers(4)
        for body, out, whole in (
            (lambda x: hop.sin(x) * x, P("i"), lambda x: hop.sin(x) * x),
            (lambda x: hop.psum(hop.sum(hop.sin(x) * x), "i"), P(), lambda x: hop.sum(hop.sin(x) * x)),
        ):
            spread = hop.shard_map(body, m, P("i"), out)
            for jacobian in (hop.jacrev, hop.jacfwd):
                for given in (x, hop.distribute(x, m, P("i"))):
                    self.close(jacobian(spread)(given), jacobian(whole)(x))
                    self.close(hop.jit(jacobian(spread))(given), jacobian(whole)(x))
                rows = hop.stack([x, 2 * x])
                self.close(hop.vmap(jacobian(spread))(rows), hop.vmap(jacobian(whole))(rows))
        self.close(hop.hessian(spread)(x), hop.hessian(whole)(x))

    def test_what_is_refused(self):
        m, x = hop.mesh(2, "i"), numbers(4)
        self.refused("reduce or gather it first", lambda: hop.shard_map(lambda x: x, m, P("i"), P())(x))
        given = hop.distribute(x, m, P("i"))
        same = hop.shard_map(lambda x: x, m, P(), P())
        self.refused(r"lies as \(Shard\(0\),\), \(Replicate\(\),\) is required", lambda: same(given))
        self.close(hop.shard_map(lambda x: x, m, P(), P(), redistribute_inputs=True)(given), x)
        other = hop.shard_map(lambda x: x, hop.mesh(2, "k"), P("k"), P("k"))
        self.refused(r"lies on the mesh \(i = 2\), not on \(k = 2\)", lambda: other(given))

    # ---- arrays from around ----

    def test_captures_and_their_gradients(self):
        for n in (1, 2, 3, 4, 8):
            m, x, w = hop.mesh(n, "i"), numbers(10), numbers(5, 2).reshape(-1)
            spread = lambda w: hop.shard_map(  # noqa: E731
                lambda x: hop.psum(hop.sum(hop.sin(x * w) * w), "i"), m, P("i"), P()
            )(x)
            whole = lambda w: hop.sum(hop.sin(x * w) * w)  # noqa: E731
            given = hop.distribute(w, m, P("i"))
            for compiled in (lambda f: f, hop.jit):
                self.close(compiled(spread)(given), whole(w))
                found = compiled(hop.grad(spread))(given)
                self.assertEqual(found.placements, (S(0),))
                self.close(found, hop.grad(whole)(w))

    def test_captures_inside_and_outside(self):
        """A distributed array that is an operand, a capture, and used by two operators has one gradient."""
        m, x, w = hop.mesh(4, "i"), numbers(6), numbers(3, 2).reshape(-1)
        given = hop.distribute(w, m, P("i"))

        def spread(w, s):
            once = hop.shard_map(lambda v: hop.psum(hop.sum(v * w * s), "i"), m, P("i"), P())
            again = hop.local_map(lambda x: x * w, [S(0)], in_placements=([S(0)],), device_mesh=m)
            return once(w) + hop.sum(hop.collect(again(x)))

        whole = lambda w, s: hop.sum(w * w * s) + hop.sum(x * w)  # noqa: E731
        s = hop.asarray(0.3)
        for found, expected in zip(hop.grad(spread, (0, 1))(given, s), hop.grad(whole, (0, 1))(w, s)):
            self.close(found, expected)

    def test_captures_are_parts(self):
        """In bodies of loops and gradients inside as well, with sizes of each rank's own."""
        m, x, w = hop.mesh(4, "i"), hop.ones(10), hop.arange(10.0)
        given = hop.distribute(w, m, P("i"))
        sizes, chosen = np.repeat([3, 3, 3, 1], 3)[:10], [1, 1, 1, 3, 4, 5, 1, 1, 1, 1]
        for body, expected in (
            (lambda x: x * given.shape[0], sizes),
            (lambda x: x + given[-1:], 1 + np.repeat([2, 5, 8, 9], 3)[:10]),
            (lambda x: given, w),
            (lambda x: hop.scan(lambda c, _: (c + given, None), x, None, length=3)[0], 1 + 3 * np.asarray(w)),
            (lambda x: hop.map(lambda a: a * hop.sum(given), x), np.repeat([3, 12, 21, 9], 3)[:10]),
            (lambda x: hop.grad(lambda y: hop.psum(hop.sum(y * given), "i"))(x), w),
            (lambda x: hop.grad(lambda y: hop.psum(hop.sum(y * y * x), "i"))(given), 2 * np.asarray(w)),
            (lambda x: hop.jit(lambda y: y * given)(x), w),
            (lambda x: hop.cond(hop.axis_index("i") == 1, lambda: x * given, lambda: x), chosen),
        ):
            self.close(hop.shard_map(body, m, P("i"), P("i"))(x), expected)
            self.close(hop.local_map(body, [S(0)], in_placements=([S(0)],), device_mesh=m)(x), expected)
        self.assertEqual(given.shape, (10,))

    def test_captures_are_read_at_each_call(self):
        m, x, held = hop.mesh(4, "i"), hop.arange(8.0), {}
        of_part = hop.shard_map(lambda x: x * hop.sum(held["w"]), m, P("i"), P("i"))
        for f in (of_part, hop.jit(of_part)):
            for w, factor in ((1, 2), (3, 6), (hop.ones(12), 3)):
                held["w"] = hop.distribute(w * hop.ones(8) if isinstance(w, int) else w, m, P("i"))
                self.close(f(x), factor * np.asarray(x))
            held["w"] = hop.ones(8)
            self.close(f(x), 8 * np.asarray(x))

    def test_captures_by_name(self):
        m, x, w = hop.mesh(4, "i"), numbers(8), numbers(4, 2).reshape(-1)
        held = {"w": numbers(8), "all": hop.asarray(2.0)}
        given = hop.distribute(w, m, P("i"))

        def mapped(f, captures, **more):
            return hop.shard_map(f, m, P("i"), P("i"), captures=captures, **more)

        self.close(mapped(lambda x: x * w, {"w": P("i")})(x), np.asarray(x) * np.asarray(w))
        slope = hop.grad(lambda w: hop.sum(hop.collect(mapped(lambda x: x * w, {"w": P("i")})(x))))(w)
        self.close(slope, x)
        both = mapped(lambda x: x * held["w"] * held["all"], {"held": {"w": P("i"), "all": P()}})
        self.close(both(x), 2 * np.asarray(x) * np.asarray(held["w"]))
        moved = mapped(lambda x: x * hop.sum(given), {"given": P()}, redistribute_inputs=True)
        self.close(moved(x), np.asarray(x) * np.asarray(w).sum())
        rows = hop.local_map(
            lambda x: x * w, [S(0)], in_placements=([S(0)],), in_grad_placements=([S(0)],),
            device_mesh=m, captures={"w": [S(0)]},
        )  # fmt: skip
        self.close(rows(x), np.asarray(x) * np.asarray(w))

    def test_captures_that_are_refused(self):
        m, x = hop.mesh(2, "i"), numbers(4)
        same = given = hop.distribute(x, m, P("i"))
        name, other = "i", hop.distribute(x, hop.mesh(2, "k"), P("k"))

        def call(f, captures=None):
            return lambda: hop.shard_map(f, m, P("i"), P("i"), captures=captures)(x)

        self.refused(r"lies on the mesh \(k = 2\), not on \(i = 2\)", call(lambda x: x * other))
        self.refused(
            r"captures\['given'\]: lies as \(Shard\(0\),\), \(Replicate\(\),\) is required",
            call(lambda x: x * given, {"given": P()}),
        )
        self.refused(
            r"is to lie in two ways, \(Replicate\(\),\) is one",
            call(lambda: same * given, {"same": P("i"), "given": P()}),
        )
        for array, captures in ((given, None), (x, {"array": P("i")})):

            def write(x):
                array[0] = x[0]
                return x

            self.refused("writes to an array from around, of which it has a part", call(write, captures))
        self.refused("uses no variable 'w' from around it", call(lambda x: x * given, {"w": P()}))
        self.refused("holds arrays of hop's, found 'i'", call(lambda x: x * len(name), {"name": P()}))
        self.refused("placements by names of variables", call(lambda x: x, P()))
        made_inside = call(lambda x: x * hop.distribute(x, m, P("i")))
        self.refused("what works on distributed arrays is local_map", made_inside)
        self.refused("is the rank's part, which lies on no mesh", call(lambda x: x * given.mesh.size))

    # ---- local_map ----

    def test_a_plain_call_is_the_function(self):
        f = hop.local_map(lambda x: x * 2, [S(0)], in_placements=([S(0)],))
        self.close(f(numbers(4)), 2 * np.asarray(numbers(4)))

    def test_a_product_with_an_inner_reduction(self):
        m, a, b = hop.mesh(4, "i"), numbers(6, 8), numbers(8, 5)
        columns, rows, whole = [S(1)], [S(0)], [R()]
        f = hop.local_map(
            lambda a, b: hop.psum(a @ b, "i"), whole, in_placements=(columns, rows),
            in_grad_placements=(columns, rows), device_mesh=m,
        )  # fmt: skip
        self.close(f(a, b), np.asarray(a) @ np.asarray(b))
        partial = hop.local_map(hop.matmul, [hop.Partial()], in_placements=(columns, rows), device_mesh=m)
        self.close(partial(a, b), np.asarray(a) @ np.asarray(b))
        made = hop.grad(lambda a: hop.sum(f(a, b) ** 2))(a)
        self.close(made, hop.grad(lambda a: hop.sum((a @ b) ** 2))(a))

    def test_layouts_must_match(self):
        m, x = hop.mesh(2, "i"), numbers(4, 4)
        given = hop.distribute(x, m, [S(1)])
        f = hop.local_map(lambda x: x + 1, [S(0)], in_placements=([S(0)],))
        with self.assertRaisesRegex(ValueError, r"lies as \(Shard\(1\),\), \(Shard\(0\),\) is required"):
            f(given)
        moved = hop.local_map(lambda x: x + 1, [S(0)], in_placements=([S(0)],), redistribute_inputs=True)
        self.close(moved(given), np.asarray(x) + 1)

    def test_counts_and_entries(self):
        m, x = hop.mesh(2, "i"), numbers(4)
        given = hop.distribute(x, m, [S(0)])
        f = hop.local_map(lambda x, n: x * n, [S(0)], in_placements=([S(0)], None))
        self.close(f(given, 3), 3 * np.asarray(x))
        self.refused("in_placements has 2 entries, the function was called with 1 argument", lambda: f(given))
        two = hop.local_map(lambda x: x, ([S(0)], [S(0)]))
        self.refused("out_placements has 2 entries, the function gave 1 result", lambda: two(given))
        none = hop.local_map(lambda x: x, [S(0)], in_placements=(None,))
        self.refused("must be placements, found None", lambda: none(given))
        number = hop.local_map(lambda x, n: x, [S(0)], in_placements=([S(0)], [S(0)]))
        self.refused("argument 1 is 3, no array", lambda: number(given, 3))
        gradients = hop.local_map(lambda x: x, [S(0)], [[S(0)]], [[R()]])
        self.refused("gradients arrive reduced", lambda: gradients(given))

    # ---- files ----

    def test_checkpoints_on_other_meshes(self):
        x = numbers(5, 3)
        with tempfile.TemporaryDirectory() as folder:
            hop.save(f"{folder}/x.safetensors", {"x": hop.distribute(x, hop.mesh(4, "i"), P("i"))})
            back = hop.load(f"{folder}/x.safetensors")["x"]
        self.close(hop.distribute(back, hop.mesh((2, 3), ("i", "j")), P("i", "j")), x)

    # ---- processes ----

    @unittest.skipUnless(shutil.which("mpirun") and shutil.which("mpicc"), "no MPI")
    def test_under_mpi(self):
        with tempfile.TemporaryDirectory() as folder:
            found = subprocess.run(
                ["mpirun", "-n", "2", sys.executable, "-c", UNDER_MPI, f"{folder}/x.safetensors"],
                env={**os.environ, **MPI_ENVIRONMENT},
                capture_output=True,
                text=True,
                timeout=120,
            )
            self.assertEqual(found.returncode, 0, found.stderr)
            for rank in range(2):
                with open(f"{folder}/x.safetensors.{rank}") as said:
                    self.assertEqual(said.read(), f"{rank} of 2: 30.0 [0.0, 2.0, 4.0, 6.0, 8.0]")


if __name__ == "__main__":
    unittest.main()
