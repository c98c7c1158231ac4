"""hop.linalg against NumPy; derivatives against differences; stacks, compiled, batched."""

import math
import unittest

import hop
from support import Case, differences, needs_numpy, numpy


def well_conditioned(n, seed, shape=()):
    a = numpy.random.default_rng(seed).normal(size=(*shape, n, n))
    return a + n * numpy.eye(n)


def positive(n, seed, shape=()):
    a = well_conditioned(n, seed, shape)
    return a @ a.swapaxes(-1, -2)


def gradient_agrees(case, f, a, tolerance=1e-6):
    """The gradient of a scalar function of a matrix, and the gradient of a function of it, against
    differences."""
    shape = a.shape
    flat = hop.asarray(a.ravel())
    g = lambda v: f(v.reshape(shape))  # noqa: E731
    case.close(hop.grad(g)(flat), differences(g, flat, 1e-4), tolerance)
    h = lambda v: hop.sum(hop.sin(hop.grad(g)(v)))  # noqa: E731
    case.close(hop.grad(h)(flat), differences(h, flat, 1e-4), 100 * tolerance)
    tangent = hop.asarray(numpy.random.default_rng(9).normal(size=flat.shape))
    case.close(hop.jvp(g, (flat,), (tangent,))[1], hop.sum(hop.grad(g)(flat) * tangent).item(), 1e-8)


@needs_numpy
class Solving(Case):
    def test_values(self):
        for dtype, tolerance in (("float32", 2e-4), ("float64", 1e-10)):
            for n in (1, 2, 3, 8):
                for shape in ((), (3,), (2, 1)):
                    a = well_conditioned(n, n, shape).astype(dtype)
                    b = numpy.random.default_rng(1).normal(size=(*shape, n, 2)).astype(dtype)
                    for x, expected in [
                        (hop.linalg.inv(a), numpy.linalg.inv(a)),
                        (hop.linalg.det(a), numpy.linalg.det(a)),
                        (hop.linalg.solve(a, b), numpy.linalg.solve(a, b)),
                        (hop.linalg.slogdet(-a)[0], numpy.linalg.slogdet(-a)[0]),
                        (hop.linalg.slogdet(-a)[1], numpy.linalg.slogdet(-a)[1]),
                        (hop.linalg.matrix_power(a, 3), numpy.linalg.matrix_power(a, 3)),
                        (hop.linalg.matrix_power(a, -2), numpy.linalg.matrix_power(a, -2)),
                        (hop.linalg.matrix_power(a, 0), numpy.linalg.matrix_power(a, 0)),
                    ]:
                        self.same(x, numpy.asarray(expected, dtype=dtype), tolerance)

    def test_pivots(self):
        a = numpy.array([[0.0, 1, 0], [0, 0, 2], [3, 0, 0]])
        self.close(hop.linalg.inv(a), numpy.linalg.inv(a), 1e-14)
        self.close(hop.linalg.det(a), 6.0, 1e-14)
        self.equal(hop.linalg.det(numpy.ones((3, 3))), 0.0)
        sign, log = hop.linalg.slogdet(numpy.zeros((2, 2)))
        self.assertEqual((sign.item(), log.item()), (0.0, -math.inf))
        self.assertFalse(hop.all(hop.isfinite(hop.linalg.inv(numpy.zeros((2, 2))))).item())

    def test_right_hand_sides(self):
        a = well_conditioned(3, 0, (2,))
        v = numpy.array([1.0, 2.0, 3.0])
        self.close(hop.linalg.solve(a, v), numpy.linalg.solve(a, v[:, None])[..., 0], 1e-12)
        many = numpy.arange(12.0).reshape(2, 3, 2)
        self.close(hop.linalg.solve(a[0], many), numpy.linalg.solve(a[0], many), 1e-12)
        for bad in (
            lambda: hop.linalg.solve(a, numpy.ones((2, 2))),
            lambda: hop.linalg.inv(numpy.ones((2, 3))),
            lambda: hop.linalg.det(numpy.ones(3)),
            lambda: hop.linalg.matrix_power(numpy.ones((2, 3)), 2),
        ):
            with self.assertRaises(ValueError):
                bad()

    def test_nothing(self):
        none = numpy.zeros((2, 0, 0))
        self.assertEqual(hop.linalg.inv(none).shape, (2, 0, 0))
        self.equal(hop.linalg.det(none), [1.0, 1.0])
        self.equal(hop.linalg.slogdet(none)[1], [0.0, 0.0])
        self.assertEqual(hop.linalg.solve(none, numpy.zeros((2, 0, 3))).shape, (2, 0, 3))
        self.assertEqual(hop.linalg.cholesky(none).shape, (2, 0, 0))
        self.assertEqual([x.shape for x in hop.linalg.qr(numpy.zeros((3, 0)))], [(3, 0), (0, 0)])
        self.assertEqual(
            [x.shape for x in hop.linalg.svd(numpy.zeros((2, 0, 3)))], [(2, 0, 0), (2, 0), (2, 3, 3)]
        )

    def test_derivatives(self):
        a = well_conditioned(3, 4)
        b = hop.asarray(numpy.random.default_rng(5).normal(size=(3,)))
        gradient_agrees(self, lambda x: hop.sum(hop.linalg.inv(x) ** 2), a)
        gradient_agrees(self, lambda x: hop.sum(hop.linalg.solve(x, b) ** 3), a)
        gradient_agrees(self, lambda x: hop.log(hop.linalg.det(x)), a)
        gradient_agrees(self, lambda x: hop.linalg.slogdet(x)[1], a)
        self.close(hop.grad(lambda x: hop.linalg.slogdet(x)[1])(a), numpy.linalg.inv(a).T, 1e-12)

    def test_batched_and_compiled(self):
        a = hop.asarray(well_conditioned(3, 6, (4,)))
        self.close(hop.vmap(hop.linalg.inv)(a), numpy.linalg.inv(numpy.asarray(a)), 1e-12)
        self.close(
            hop.jit(hop.vmap(hop.grad(lambda x: hop.linalg.slogdet(x)[1])))(a),
            numpy.linalg.inv(numpy.asarray(a)).swapaxes(1, 2),
            1e-12,
        )
        self.close(
            hop.jit(lambda x: hop.linalg.solve(x, x))(a), numpy.broadcast_to(numpy.eye(3), (4, 3, 3)), 1e-12
        )


@needs_numpy
class Decompositions(Case):
    def test_cholesky(self):
        for shape in ((), (2, 3)):
            a = positive(4, 1, shape)
            self.close(hop.linalg.cholesky(a), numpy.linalg.cholesky(a), 1e-11)
            self.close(hop.linalg.cholesky(a, upper=True), numpy.linalg.cholesky(a).swapaxes(-1, -2), 1e-11)
        half = numpy.tril(positive(3, 2))
        self.close(hop.linalg.cholesky(half), numpy.linalg.cholesky(half + numpy.tril(half, -1).T), 1e-11)
        self.assertTrue(hop.any(hop.isnan(hop.linalg.cholesky(-numpy.eye(2)))).item())
        gradient_agrees(
            self,
            lambda x: hop.sum(hop.linalg.cholesky(x) ** 2 * 0.5 + hop.linalg.cholesky(x)),
            positive(3, 3),
        )

    def test_qr(self):
        for m, n in ((3, 3), (5, 2), (2, 4), (1, 1), (4, 1)):
            for shape in ((), (3,)):
                a = numpy.random.default_rng(m * n).normal(size=(*shape, m, n))
                for mode in ("reduced", "complete"):
                    q, r = hop.linalg.qr(a, mode=mode)
                    expected = numpy.linalg.qr(a, mode=mode)
                    self.assertEqual((q.shape, r.shape), (expected[0].shape, expected[1].shape))
                    self.close(q @ r, a, 1e-12)
                    self.close(
                        q.mT @ q,
                        numpy.broadcast_to(numpy.eye(q.shape[-1]), (*shape, q.shape[-1], q.shape[-1])),
                        1e-12,
                    )
                    self.close(hop.tril(r, k=-1), numpy.zeros(r.shape), 0)
        q, r = hop.linalg.qr(numpy.zeros((2, 2)))
        self.equal(q @ r, [[0.0, 0.0], [0.0, 0.0]])
        with self.assertRaises(ValueError):
            hop.linalg.qr(numpy.eye(2), mode="raw")
        gradient_agrees(
            self,
            lambda x: hop.sum(hop.linalg.qr(x)[1] ** 3) + hop.sum(hop.linalg.qr(x)[0][0]),
            numpy.random.default_rng(0).normal(size=(3, 2)),
        )

    def test_eigh(self):
        for dtype, tolerance in (("float32", 1e-4), ("float64", 1e-11)):
            for n in (1, 2, 3, 6, 9):
                for shape in ((), (2,)):
                    a = numpy.random.default_rng(n).normal(size=(*shape, n, n))
                    a = (a + a.swapaxes(-1, -2)).astype(dtype)
                    w, v = hop.linalg.eigh(a)
                    self.same(w, numpy.linalg.eigvalsh(a), tolerance)
                    self.close(v * w[..., None, :] @ v.mT, a, tolerance)
                    self.close(
                        v.mT @ v, numpy.broadcast_to(numpy.eye(n, dtype=dtype), (*shape, n, n)), tolerance
                    )
        self.equal(hop.linalg.eigvalsh(numpy.diag([3.0, 1.0, 2.0])), [1.0, 2.0, 3.0])
        self.equal(hop.linalg.eigvalsh(numpy.eye(3)), [1.0, 1.0, 1.0])
        self.close(hop.linalg.eigvalsh(numpy.ones((4, 4))), [0.0, 0.0, 0.0, 4.0], 1e-14)

    def test_derivatives_of_eigh(self):
        a = numpy.diag([1.0, 2.5, 4.0]) + 0.1 * positive(3, 8)
        symmetric = lambda x: (x + x.mT) / 2  # noqa: E731
        gradient_agrees(self, lambda x: hop.sum(hop.linalg.eigvalsh(symmetric(x)) ** 3), a, 1e-5)
        gradient_agrees(self, lambda x: hop.sum(hop.linalg.eigh(symmetric(x))[1][:, 0] ** 4), a, 1e-5)
        gradient_agrees(
            self, lambda x: hop.sum(hop.linalg.eigh(symmetric(x))[1][0] ** 4), numpy.diag([1.0, 2.0]), 1e-5
        )

    def test_svd(self):
        for dtype, tolerance in (("float32", 1e-4), ("float64", 1e-11)):
            for m, n in ((1, 1), (2, 2), (3, 3), (5, 2), (2, 5), (6, 5)):
                for shape in ((), (2,)):
                    a = numpy.random.default_rng(m + n).normal(size=(*shape, m, n)).astype(dtype)
                    self.same(hop.linalg.svdvals(a), numpy.linalg.svd(a, compute_uv=False), tolerance)
                    self.close(hop.linalg.pinv(a), numpy.linalg.pinv(a), 10 * tolerance)
                    for full in (True, False):
                        u, s, vh = hop.linalg.svd(a, full_matrices=full)
                        expected = numpy.linalg.svd(a, full_matrices=full)
                        self.assertEqual([x.shape for x in (u, s, vh)], [x.shape for x in expected])
                        k = s.shape[-1]
                        self.close(u[..., :k] * s[..., None, :] @ vh[..., :k, :], a, tolerance)
                        self.close(
                            u.mT @ u,
                            numpy.broadcast_to(numpy.eye(u.shape[-1]), (*shape, u.shape[-1], u.shape[-1])),
                            tolerance,
                        )
                        self.close(
                            vh @ vh.mT,
                            numpy.broadcast_to(numpy.eye(vh.shape[-2]), (*shape, vh.shape[-2], vh.shape[-2])),
                            tolerance,
                        )
        low = numpy.outer([1.0, 2.0, 3.0], [1.0, -1.0])
        self.equal(hop.linalg.matrix_rank(low), 1)
        self.equal(hop.linalg.matrix_rank(numpy.stack([numpy.eye(2), numpy.zeros((2, 2))])), [2, 0])
        self.close(hop.linalg.pinv(low), numpy.linalg.pinv(low), 1e-12)
        for scale in (1e-200, 1e200):
            self.close(hop.linalg.svdvals(scale * numpy.diag([2.0, 1.0])) / scale, [2.0, 1.0], 1e-12)
        gradient_agrees(
            self,
            lambda x: hop.sum(hop.linalg.svdvals(x) ** 3),
            numpy.random.default_rng(2).normal(size=(3, 2)),
            1e-5,
        )


@needs_numpy
class Norms(Case):
    def test_vectors(self):
        a = numpy.random.default_rng(0).normal(size=(3, 4)) * [1, 0, 1, 1]
        for order in (0, 1, 2, 3, 2.5, -1, -2, 0.5, math.inf, -math.inf):
            with numpy.errstate(divide="ignore"):
                self.close(
                    hop.linalg.vector_norm(a, axis=1, ord=order),
                    numpy.linalg.norm(a, axis=1, ord=order),
                    1e-12,
                )
                self.close(
                    hop.linalg.vector_norm(a, axis=0, ord=order, keepdims=True),
                    numpy.linalg.norm(a, axis=0, ord=order, keepdims=True),
                    1e-12,
                )
        self.close(hop.linalg.vector_norm(a), numpy.linalg.norm(a.ravel()), 1e-12)
        self.close(
            hop.linalg.vector_norm(a, axis=(0, 1), ord=1, keepdims=True), [[numpy.abs(a).sum()]], 1e-12
        )

    def test_matrices(self):
        a = numpy.random.default_rng(0).normal(size=(2, 3, 4))
        for order in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
            for keep in (False, True):
                self.close(
                    hop.linalg.matrix_norm(a, ord=order, keepdims=keep),
                    numpy.linalg.norm(a, ord=order, axis=(1, 2), keepdims=keep),
                    1e-11,
                )
        with self.assertRaises(ValueError):
            hop.linalg.matrix_norm(a, ord="max")


@needs_numpy
class Products(Case):
    def test_diagonals(self):
        a = numpy.arange(24, dtype="i1").reshape(2, 3, 4)
        for k in range(-4, 6):
            self.same(hop.linalg.diagonal(a, offset=k), numpy.diagonal(a, offset=k, axis1=1, axis2=2))
            self.same(hop.linalg.trace(a, offset=k), numpy.trace(a, offset=k, axis1=1, axis2=2, dtype="i8"))
            self.same(
                hop.jit(lambda x, k=k: hop.trace(x, offset=k))(a),
                numpy.trace(a, offset=k, axis1=1, axis2=2, dtype="i8"),
            )
        self.assertEqual(hop.linalg.trace(a, dtype=hop.float64).dtype, hop.float64)

    def test_cross(self):
        a, b = numpy.arange(6.0).reshape(2, 3), numpy.array([[1.0, -1.0, 2.0]])
        self.close(hop.linalg.cross(a, b), numpy.cross(a, b), 0)
        self.close(hop.linalg.cross(a.T, b.T, axis=0), numpy.cross(a, b).T, 0)
        with self.assertRaises(ValueError):
            hop.linalg.cross(numpy.ones(2), numpy.ones(2))

    def test_names(self):
        for name in hop.linalg.__all__:
            self.assertTrue(getattr(hop.linalg, name).__doc__, name)
        for name in ("matmul", "matrix_transpose", "outer", "tensordot", "vecdot", "diagonal", "trace"):
            self.assertIs(getattr(hop.linalg, name), getattr(hop, name))


@needs_numpy
class Triangular(Case):
    def test_solve_triangular(self):
        rng = numpy.random.default_rng(5)
        a = rng.normal(size=(2, 4, 4)) + 4 * numpy.eye(4)
        for lower in (True, False):
            t = numpy.tril(a) if lower else numpy.triu(a)
            for b in (rng.normal(size=4), rng.normal(size=(4, 3)), rng.normal(size=(2, 4, 1))):
                f = lambda m, v: hop.linalg.solve_triangular(m, v, lower=lower)  # noqa: E731
                expected = (
                    numpy.linalg.solve(t, b[:, None])[..., 0] if b.ndim == 1 else numpy.linalg.solve(t, b)
                )
                self.close(f(a, b), expected, 1e-10)
                self.close(hop.jit(f)(a, b), expected, 1e-10)
            b = rng.normal(size=4)
            found, expected = [
                hop.grad(lambda m, v: hop.sum(hop.sin(g(m, v))), (0, 1))(hop.asarray(t[0]), hop.asarray(b))
                for g in (f, hop.linalg.solve)
            ]
            self.close(found[0], numpy.tril(expected[0]) if lower else numpy.triu(expected[0]), 1e-9)
            self.close(found[1], expected[1], 1e-9)
        with self.assertRaisesRegex(ValueError, "solve_triangular: matrices of 4 rows, and 3 rows"):
            hop.linalg.solve_triangular(a, numpy.ones(3))


@needs_numpy
class Norm(Case):
    def test_as_in_numpy(self):
        draw = numpy.random.default_rng(3)
        m, cube = draw.normal(size=(3, 4)), draw.normal(size=(2, 3, 4))
        cases = [(m, axis, order) for axis, order in (
            (None, None), (0, None), (1, 1), (0, math.inf), ((0, 1), None), ((1, 0), 1), ((0, 1), "nuc"),
            (None, 2),
        )]  # fmt: skip
        for x, axis, order in [*cases, (cube, None, None), (cube, (0, 2), 1), (m[0], None, 3)]:
            for keep in (False, True):
                expected = numpy.linalg.norm(x, order, axis, keep)
                found = hop.linalg.norm(x, order, axis, keep)
                self.assertEqual(found.shape, expected.shape)
                self.close(found, expected, 1e-12)
        with self.assertRaisesRegex(hop.InvalidError, "norm: axis"):
            hop.linalg.norm(cube, axis=(0, 1, 2))


if __name__ == "__main__":
    unittest.main()
