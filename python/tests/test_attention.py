"""flex_attention, attention and block masks: against the plain definition (values, gradients of everything,
forward mode, batches), what block masks are made of, and what is refused. The recipes of docs/python/
attention.md are compared there; the operator by itself in tests/attention_test.c."""

import itertools
import os
import random
import unittest

import hop
from support import Case


def plain(q, k, v, score_mod=None, mask_mod=None, scale=None):
    """[b, h, l, e], heads repeated, the whole matrix of scores."""
    group = q.shape[1] // k.shape[1]
    heads = hop.arange(q.shape[1]) // group
    batches = hop.arange(q.shape[0]) % k.shape[0]
    k, v = k[batches][:, heads], v[batches][:, heads]
    s = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)

    def over(f, *first):
        for i in (3, 2, 1, 0):
            at = [None] * 4
            at[i] = 0
            f = hop.vmap(f, in_axes=(*[0] * len(first), *at))
        return f(*first, *[hop.arange(n) for n in s.shape])

    if score_mod is not None:
        s = over(score_mod, s)
    ok = hop.full(s.shape, True)
    if mask_mod is not None:
        ok = over(lambda *at: hop.asarray(mask_mod(*at)))
    most = hop.stop_gradient(hop.max(hop.where(ok, s, -1e30), axis=-1, keepdims=True))
    p = hop.where(ok, hop.exp(hop.where(ok, s - most, 0)), 0)
    total = hop.sum(p, axis=-1, keepdims=True)
    return p / hop.where(total == 0, 1, total) @ v


def data(*shapes, dtype=hop.float64, seed=0):
    keys = hop.random.split(hop.random.key(seed), len(shapes))
    return [hop.random.normal(key, shape).astype(dtype) for key, shape in zip(keys, shapes)]


def causal(b, h, i, j):
    return i >= j


class Values(Case):
    def agree(self, args, attend, reference, tolerance=1e-9):
        for f, g in ((attend, reference), (hop.jit(attend), reference)):
            self.close(f(*args), g(*args), tolerance)
        loss = [lambda *a, f=f: hop.sum(hop.sin(f(*a))) for f in (attend, reference)]
        numbers = tuple(range(len(args)))
        found, expected = (hop.jit(hop.grad(f, numbers))(*args) for f in loss)
        for x, y in zip(found, expected):
            self.close(x, y, tolerance)
        tangents = data(*[x.shape for x in args], seed=5)
        found, expected = (hop.jvp(f, args, tuple(tangents))[1] for f in loss)
        self.close(found, expected, tolerance)

    def test_captured(self):
        args = data((2, 4, 9, 3), (2, 2, 7, 3), (2, 2, 7, 5), (4,), (13,))

        def run(attend, q, k, v, w, table):
            score = lambda s, b, h, i, j: s * w[h] + hop.tanh(table[i - j + 6])  # noqa: E731
            return attend(q, k, v, score, lambda b, h, i, j: (i >= j) | (j == b))

        flex = lambda q, k, v, s, m: hop.flex_attention(  # noqa: E731
            q, k, v, s, mask_mod=m, enable_gqa=True, kernel_options={"BLOCK_M": 4, "BLOCK_N": 3}
        )
        self.agree(args, lambda *a: run(flex, *a), lambda *a: run(plain, *a))

    def test_scale_is_differentiable(self):
        args = data((1, 2, 5, 3), (1, 2, 6, 3), (1, 2, 6, 3), ())
        self.agree(
            args,
            lambda q, k, v, c: hop.flex_attention(q, k, v, scale=c),
            lambda q, k, v, c: plain(q, k, v, scale=c),
        )

    def test_branches(self):
        args = data((1, 1, 5, 3), (1, 1, 6, 3), (1, 1, 6, 3))

        def score(s, b, h, i, j):
            if i > j:
                return s * 2
            return s + 1

        where = lambda s, b, h, i, j: hop.where(i > j, s * 2, s + 1)  # noqa: E731
        self.agree(args, lambda *a: hop.flex_attention(*a, score), lambda *a: plain(*a, where))

    def test_second_order(self):
        q, k, v = data((1, 1, 4, 2), (1, 1, 5, 2), (1, 1, 5, 2))

        def twice(attend):
            loss = lambda x: hop.sum(attend(x, k, v, mask_mod=causal) ** 3)  # noqa: E731
            return hop.grad(lambda x: hop.sum(hop.sin(hop.grad(loss)(x))))(q)

        self.close(twice(hop.flex_attention), twice(plain), 1e-9)

    def test_batches(self):
        q, k, v, w = data((3, 1, 2, 4, 3), (1, 2, 5, 3), (3, 1, 2, 5, 3), (3, 2))

        def one(attend, q, v, w):
            return attend(q, k, v, lambda s, b, h, i, j: s * w[h], causal)

        flex = lambda q, k, v, s, m: hop.flex_attention(q, k, v, s, mask_mod=m)  # noqa: E731
        found = hop.vmap(lambda *a: one(flex, *a))(q, v, w)
        for i in range(3):
            self.close(found[i], one(plain, q[i], v[i], w[i]), 1e-9)
        loss = lambda q, v, w: hop.sum(one(flex, q, v, w) ** 2)  # noqa: E731
        slopes = hop.vmap(hop.grad(loss, 2))(q, v, w)
        self.close(slopes[1], hop.grad(lambda w: hop.sum(one(plain, q[1], v[1], w) ** 2))(w[1]), 1e-9)

    def test_lanes_with_masks_of_their_own(self):
        """Lengths and documents of each lane: lanes are more batches of one call, not a loop."""
        q, k, v = data((3, 2, 2, 9, 4), (3, 1, 2, 9, 4), (3, 1, 2, 9, 4))
        lengths = hop.asarray([[4, 9], [0, 1], [9, 7]])
        document = hop.asarray([[0, 0, 0, 1, 1, 1, 1, 2, 2], [0] * 9, [0, 1, 2, 3, 4, 5, 6, 7, 8]])

        def one(attend, q, k, v, lengths, document):
            mask = lambda b, h, i, j: (j < lengths[b]) & (document[i] == document[j])  # noqa: E731
            return attend(q, k, v, None, mask)

        flex = lambda q, k, v, s, m: hop.flex_attention(  # noqa: E731
            q, k, v, s, mask_mod=m, kernel_options={"BLOCK_M": 4, "BLOCK_N": 4}
        )
        lanes = hop.vmap(lambda *a: one(flex, *a))
        for shared in (False, True):
            few = (k[0], v[0]) if shared else (k, v)
            over = hop.vmap(lambda *a: one(flex, *a), in_axes=(0, None, None, 0, 0)) if shared else lanes
            out = over(q, *few, lengths, document)
            slopes = hop.grad(lambda q, k, v, f=over: hop.sum(f(q, k, v, lengths, document) ** 2), (0, 1, 2))

            def each(q, k, v, shared=shared):
                at = lambda x, i: x if shared else x[i]  # noqa: E731
                lane = lambda i: one(plain, q[i], at(k, i), at(v, i), lengths[i], document[i])  # noqa: E731
                return hop.stack([lane(i) for i in range(3)])

            self.close(out, each(q, *few), 1e-9)
            expected = hop.grad(lambda *a, f=each: hop.sum(f(*a) ** 2), (0, 1, 2))(q, *few)
            for x, y in zip(slopes(q, *few), expected):
                self.close(x, y, 1e-9)
        inner = k[:, 0][:, None], v[:, 0][:, None]
        text = hop.jit(lanes).text(q[:, :1], *inner, lengths[:, :1], document)
        self.assertNotIn(" = map {", text)

    def test_rows_without_keys(self):
        q, k, v = data((1, 1, 4, 2), (1, 1, 4, 2), (1, 1, 4, 2))
        mask = lambda b, h, i, j: j > i  # noqa: E731
        out, aux = hop.flex_attention(q, k, v, mask_mod=mask, return_aux=hop.AuxRequest(True, True))
        self.equal(out[0, 0, 3], [0.0, 0.0])
        self.equal(aux.lse[0, 0, 3], -hop.inf)
        self.equal(aux.max_scores[0, 0, 3], -hop.inf)
        loss = lambda q, k, v: hop.sum(hop.flex_attention(q, k, v, mask_mod=mask))  # noqa: E731
        for x in hop.grad(loss, (0, 1, 2))(q, k, v):
            self.assertTrue(bool(hop.all(hop.isfinite(x))))

    def test_poles_where_keys_take_no_part(self):
        """Zeros times infinity on the way to what the score function reads, or to the scale, are zeros."""
        q, k, v, w, t = data((1, 2, 9, 4), (1, 2, 9, 4), (1, 2, 9, 4), (9,), (17,))
        w, t = hop.abs(w) + 1, hop.abs(t) + 1
        options = {"BLOCK_M": 4, "BLOCK_N": 4}

        def roots(w):
            others = lambda b, h, i, j: (j != 7) & (i + 2 >= j)  # noqa: E731
            score = lambda s, b, h, i, j: s * hop.sqrt(w[j])  # noqa: E731
            return hop.sum(hop.flex_attention(q, k, v, score, mask_mod=others, kernel_options=options) ** 2)

        def logarithms(t):
            score = lambda s, b, h, i, j: s + hop.log(t[i - j + 8])  # noqa: E731
            return hop.sum(hop.flex_attention(q, k, v, score, mask_mod=causal, kernel_options=options) ** 2)

        for loss, x, unread in ((roots, w, [7]), (logarithms, t, list(range(8)))):
            expected = hop.grad(loss)(x)
            found = hop.grad(loss)(x.at[hop.asarray(unread)].set(0.0))
            self.close(found, expected, 1e-12)
            self.equal(found[hop.asarray(unread)], [0.0] * len(unread))

        def scaled(c, score):
            mask = lambda b, h, i, j: i != j  # noqa: E731
            out = hop.flex_attention(q, k, v, score, scale=c, mask_mod=mask, kernel_options=options)
            return hop.sum(out**2)

        pole = lambda s, b, h, i, j: s / (i - j).astype(hop.float64)  # noqa: E731
        safe = lambda s, b, h, i, j: s / hop.where(i == j, 1, i - j).astype(hop.float64)  # noqa: E731
        scale = hop.asarray(0.5, dtype=hop.float64)
        self.close(*[hop.grad(lambda c, f=f: scaled(c, f))(scale) for f in (pole, safe)], 1e-12)

    def test_more_results(self):
        q, k, v = data((1, 2, 4, 2), (1, 2, 6, 2), (1, 2, 6, 2))
        s = q @ k.mT * 2**-0.5
        out, lse = hop.flex_attention(q, k, v, return_lse=True)
        self.close(lse, hop.log(hop.sum(hop.exp(s), axis=-1)), 1e-12)
        _, aux = hop.flex_attention(q, k, v, return_aux=hop.AuxRequest(max_scores=True))
        self.assertIsNone(aux.lse)
        self.close(aux.max_scores, hop.max(s, axis=-1), 1e-12)
        found = hop.grad(lambda q: hop.sum(hop.flex_attention(q, k, v, return_lse=True)[1] ** 2))(q)
        by_hand = lambda q: hop.sum(  # noqa: E731
            hop.log(hop.sum(hop.exp(q @ k.mT * 2**-0.5), axis=-1)) ** 2
        )
        self.close(found, hop.grad(by_hand)(q), 1e-9)

    def test_lengths_of_nothing(self):
        q, k, v = data((1, 1, 3, 2), (1, 1, 0, 2), (1, 1, 0, 4))
        out, lse = hop.flex_attention(q, k, v, return_lse=True)
        self.equal(out, [[[[0.0] * 4] * 3]])
        self.equal(lse, [[[-hop.inf] * 3]])
        self.assertEqual(hop.flex_attention(k, q, q).shape, (1, 1, 0, 2))
        self.equal(hop.grad(lambda q: hop.sum(hop.flex_attention(q, k, v)))(q), [[[[0.0] * 2] * 3]])
        self.assertEqual(hop.create_block_mask(causal, None, None, 0, 5).to_dense().shape, (1, 1, 0, 1))

    def test_symbolic_lengths(self):
        f = hop.jit(lambda q, k, v: hop.flex_attention(q, k, v, mask_mod=causal))
        for n in (3, 7, 130, 4, 257, 64):
            q, k, v = data((1, 1, n, 2), (1, 1, n + 1, 2), (1, 1, n + 1, 2))
            self.close(f(q, k, v), plain(q, k, v, mask_mod=causal), 1e-9)

    def test_symbolic_sizes(self):
        """Every size is a symbol, the width as well, by which scores are scaled."""

        def attend(q, k, v, w):
            return hop.flex_attention(q, k, v, lambda s, b, h, i, j: s * w[h], mask_mod=causal)

        dims = {"q": "B, H, L, E", "k": "B, H, S, E", "v": "B, H, S, V", "w": "H"}
        f = hop.jit(attend, dims=dims)
        slopes = hop.grad(lambda *x: hop.sum(attend(*x) ** 2), (0, 3))
        g = hop.jit(slopes, dims=dims)
        for b, h, n, m, e in ((1, 2, 5, 6, 3), (2, 3, 130, 9, 4), (1, 1, 2, 150, 1), (1, 1, 3, 2, 0)):
            args = data((b, h, n, e), (b, h, m, e), (b, h, m, 2), (h,))
            scale = e**-0.5 if e else 1.0
            reference = lambda q, k, v, w: plain(q, k, v, lambda s, b, h, i, j: s * w[h], causal, scale)
            self.close(f(*args), reference(*args), 1e-9)
            expected = hop.grad(lambda *x: hop.sum(reference(*x) ** 2), (0, 3))(*args)
            for x, y in zip(g(*args), expected):
                self.close(x, y, 1e-9)
        for b, h, n, m in ((0, 2, 5, 6), (2, 0, 5, 6), (1, 2, 0, 6), (1, 2, 5, 0)):
            args = data((b, h, n, 3), (b, h, m, 3), (b, h, m, 2), (h,))
            self.equal(f(*args), hop.zeros((b, h, n, 2)).tolist())
            for x, y in zip(g(*args), (args[0], args[3])):
                self.equal(x, hop.zeros(y.shape).tolist())

    def test_symbolic_block_masks(self):
        def attend(q, k, v):
            made = hop.create_block_mask(causal, None, None, q.shape[2], k.shape[2], 4)
            return hop.flex_attention(q, k, v, block_mask=made)

        def gradients(attend):
            return hop.grad(lambda *x: hop.sum(attend(*x) ** 2), (0, 1, 2))

        f, g = hop.jit(attend), hop.jit(gradients(attend))
        dims = {"q": "1, 1, L in 1.., 2", "k": "1, 1, S in 1.., 2", "v": "1, 1, S, 2"}
        declared = hop.jit(attend, dims=dims)
        programs = []
        for n in (3, 7, 130, 4, 33, 64):
            q, k, v = data((1, 1, n, 2), (1, 1, n + 2, 2), (1, 1, n + 2, 2))
            expected = plain(q, k, v, mask_mod=causal)
            self.close(f(q, k, v), expected, 1e-9)
            self.close(declared(q, k, v), expected, 1e-9)
            by_matrix = gradients(lambda *x: plain(*x, mask_mod=causal))(q, k, v)
            for found, wanted in zip(g(q, k, v), by_matrix):
                self.close(found, wanted, 1e-9)
            programs.append((len(f.guards()), len(g.guards()), len(declared.guards())))
        self.assertEqual(programs[1:], programs[1:2] * 5)  # the second length makes the program of all others

    def test_block_masks_of_other_lengths(self):
        made = hop.create_block_mask(causal, None, None, 8, 8, 4)
        attend = lambda x: hop.flex_attention(x, x, x, block_mask=made)
        declared = hop.jit(attend, dims={"x": "1, 1, T in 1.., 2"})
        for n, given in ((7, "larger"), (4, "larger"), (9, "smaller")):
            (x,) = data((1, 1, n, 2))
            with self.assertRaisesRegex(hop.InvalidError, f"block_mask is {given} than the call"):
                hop.jit(attend)(x)
            differ = rf"positions of query, and those that block_mask was made for \({n}, 8\)"
            with self.assertRaisesRegex(hop.Error, differ if n == 7 else "sizes do not fit"):
                declared(x)
        (x,) = data((1, 1, 8, 2))
        self.close(declared(x), plain(x, x, x, mask_mod=causal), 1e-9)

    def test_low_precision(self):
        for dtype in (hop.float16, hop.bfloat16):
            q, k, v = data((1, 2, 9, 8), (1, 2, 9, 8), (1, 2, 9, 8), dtype=dtype)
            out, lse = hop.flex_attention(q, k, v, mask_mod=causal, return_lse=True)
            self.assertEqual((out.dtype, lse.dtype), (dtype, hop.float32))
            wide = plain(*[x.astype(hop.float64) for x in (q, k, v)], mask_mod=causal)
            self.close(out.astype(hop.float64), wide, 3e-2)


class Masks(Case):
    def test_create(self):
        lengths = hop.asarray([3, 6])
        mask = lambda b, h, i, j: (j < lengths[b]) & (i >= j - h)  # noqa: E731
        made = hop.create_block_mask(mask, 2, 3, 5, 6, (2, 3))
        self.assertEqual(made.shape, (2, 3, 5, 6))
        for b in range(2):
            for h in range(3):
                for r in range(3):
                    for c in range(2):
                        inside = [
                            bool(mask(b, h, i, j))
                            for i in range(2 * r, min(2 * r + 2, 5))
                            for j in range(3 * c, 3 * c + 3)
                        ]
                        self.assertEqual(int(made.to_dense()[b, h, r, c]), any(inside))
                        n = int(made.full_kv_num_blocks[b, h, r])
                        full = c in made.full_kv_indices[b, h, r].tolist()[:n]
                        self.assertEqual(full, all(inside))

    def test_random_masks(self):
        """Block masks of random masks, block by block against the mask asked for every pair."""
        for seed in range(12):
            rng = random.Random(seed)
            lengths = rng.randint(1, 23), rng.randint(1, 23)
            block = rng.randint(1, 6), rng.randint(1, 6)
            document = sorted(rng.randint(0, 4) for _ in range(23))
            limits = [rng.randint(0, 23) for _ in range(3)]
            table, lens = hop.asarray(document), hop.asarray(limits)
            near, step = rng.randint(1, 9), rng.randint(2, 5)
            pieces = [
                (lambda b, h, i, j: i >= j, lambda b, h, i, j: i >= j),
                (lambda b, h, i, j: abs(i - j) < near, lambda b, h, i, j: abs(i - j) < near),
                (lambda b, h, i, j: table[i] == table[j], lambda b, h, i, j: document[i] == document[j]),
                (lambda b, h, i, j: j < lens[b], lambda b, h, i, j: j < limits[b]),
                (lambda b, h, i, j: (i - j) % step == h, lambda b, h, i, j: (i - j) % step == h),
                (lambda b, h, i, j: table[j - h] * i > j, lambda b, h, i, j: document[j - h] * i > j),
            ]
            chosen = rng.sample(pieces, rng.randint(1, 3))
            combine, over = rng.choice([(hop.and_masks, all), (hop.or_masks, any)])
            made = hop.create_block_mask(combine(*[p[0] for p in chosen]), 3, 2, *lengths, block)
            partial, full = (x.tolist() for x in made._classes())
            for b, h, r, c in itertools.product(range(3), range(2), *map(range, made.to_dense().shape[2:])):
                rows = range(r * block[0], min((r + 1) * block[0], lengths[0]))
                columns = range(c * block[1], min((c + 1) * block[1], lengths[1]))
                held = [over(p[1](b, h, i, j) for p in chosen) for i in rows for j in columns]
                self.assertEqual(full[b][h][r][c], all(held))
                self.assertEqual(partial[b][h][r][c], any(held) and not all(held))
            made.validate()

    def test_validate(self):
        counts, columns = hop.asarray([[[1, 2]]]), hop.asarray([[[[0, 0], [1, 0]]]])
        made = hop.BlockMask.from_kv_blocks(counts, columns, BLOCK_SIZE=2, mask_mod=causal)
        made.validate()
        last = lambda b, h, i, j: j == 3  # noqa: E731
        other = hop.BlockMask.from_kv_blocks(counts, columns, BLOCK_SIZE=2, mask_mod=last)
        not_listed = r"row 0, column 1\) is not listed, but query 0 and key 3"
        with self.assertRaisesRegex(hop.InvalidError, not_listed):
            other.validate()
        none = hop.zeros((1, 1, 2), dtype=hop.int32), hop.zeros((1, 1, 2, 2), dtype=hop.int32)
        full = hop.BlockMask.from_kv_blocks(*none, counts, columns, BLOCK_SIZE=2, mask_mod=causal)
        not_full = r"row 0, column 0\) is listed as full.*query 0 and key 1"
        with self.assertRaisesRegex(hop.InvalidError, not_full):
            full.validate()
        q, k, v = data((1, 1, 4, 2), (1, 1, 4, 2), (1, 1, 4, 2))
        hop.flex_attention(q, k, v, block_mask=full)
        before = os.environ.get("HOP_DEBUG")
        os.environ["HOP_DEBUG"] = "masks"
        try:
            hop.flex_attention(q, k, v, block_mask=made)
            with self.assertRaisesRegex(hop.InvalidError, "is listed as full"):
                hop.flex_attention(q, k, v, block_mask=full)
            attend = lambda m, q: hop.flex_attention(q, k, v, block_mask=m)  # noqa: E731
            self.close(hop.jit(attend)(made, q), plain(q, k, v, mask_mod=causal), 1e-9)
            with self.assertRaisesRegex(hop.CheckError, r"is listed as full.* \(0, 0\)"):
                hop.jit(attend)(full, q)
            with self.assertRaisesRegex(hop.CheckError, r"is not listed.* \(0, 1\)"):
                hop.jit(hop.grad(lambda m, q: hop.sum(attend(m, q)), 1))(other, q)
        finally:
            os.environ.pop("HOP_DEBUG")
            if before is not None:
                os.environ["HOP_DEBUG"] = before

    def test_gradients_into_masks(self):
        q, k, v, limit = data((1, 1, 4, 2), (1, 1, 5, 2), (1, 1, 5, 2), (5,))

        def loss(w):
            return hop.sum(hop.flex_attention(q, k, v, mask_mod=lambda b, h, i, j: w[j] < 0.5))

        self.equal(hop.grad(loss)(limit), [0.0] * 5)

    def test_used(self):
        q, k, v = data((2, 2, 11, 3), (2, 2, 9, 3), (2, 2, 9, 3))
        made = hop.create_block_mask(causal, None, None, 11, 9, 4)
        expected = plain(q, k, v, mask_mod=causal)
        self.close(hop.flex_attention(q, k, v, block_mask=made), expected, 1e-9)
        self.close(hop.jit(lambda m, *a: hop.flex_attention(*a, block_mask=m))(made, q, k, v), expected, 1e-9)

        @hop.jit
        def inside(q, k, v, n):
            mask = hop.create_block_mask(lambda b, h, i, j: i + n >= j, None, None, 11, 9, 4)
            return hop.flex_attention(q, k, v, block_mask=mask)

        self.close(inside(q, k, v, hop.asarray(0)), expected, 1e-9)
        expected = plain(q, k, v, mask_mod=lambda b, h, i, j: i + 2 >= j)
        self.close(inside(q, k, v, hop.asarray(2)), expected, 1e-9)

    def test_blocks_are_meaning(self):
        q, k, v = data((1, 1, 4, 2), (1, 1, 6, 2), (1, 1, 6, 2))
        made = hop.BlockMask.from_kv_blocks(
            hop.asarray([[[1, 2]]]), hop.asarray([[[[2, 0, 0], [1, 0, 2]]]]), BLOCK_SIZE=2
        )
        listed = hop.asarray([[False, False, True], [True, True, False]])
        self.close(
            hop.flex_attention(q, k, v, block_mask=made),
            plain(q, k, v, mask_mod=lambda b, h, i, j: listed[i // 2, j // 2]),
            1e-9,
        )

    def test_parts(self):
        q, k, v = data((1, 1, 8, 2), (1, 1, 8, 2), (1, 1, 8, 2))
        whole = hop.create_block_mask(causal, None, None, 8, 8, 4)
        part = whole[:, :, 1]
        with self.assertRaisesRegex(hop.InvalidError, "mask_mod must be set"):
            hop.flex_attention(q[:, :, 4:], k, v, block_mask=part)
        part.mask_mod = lambda b, h, i, j: i + 4 >= j
        expected = plain(q, k, v, mask_mod=causal)
        self.close(hop.flex_attention(q[:, :, 4:], k, v, block_mask=part), expected[:, :, 4:], 1e-9)
        small = whole.adjust(4, 4)
        self.equal(small.to_dense(), [[[[1]]]])
        window = hop.create_block_mask(lambda b, h, i, j: abs(i - j) < 2, None, None, 8, 8, 2)
        self.equal(window.adjust(8, 4).to_dense()[0, 0], [[1, 1], [1, 1], [0, 1], [0, 0]])
        self.assertAlmostEqual(whole.sparsity(), 25)
        self.assertIn("██", repr(whole))

    def test_compact(self):
        q, k, v = data((2, 2, 23, 4), (2, 2, 21, 4), (2, 2, 21, 4))
        first = hop.asarray([3, 0])
        masks = (
            (causal, None, None),
            (lambda b, h, i, j: (i >= j) & (i - j <= 5), None, None),
            (lambda b, h, i, j: j + h >= i + first[b], 2, 2),
        )
        for mask, batches, heads in masks:
            sizes = batches, heads, 23, 21, 4
            rows = hop.create_block_mask(mask, *sizes)
            expected = plain(q, k, v, mask_mod=mask)
            for ranges in (False, True):
                made = hop.create_block_mask(mask, *sizes, compact=True, ranges=ranges)
                made.validate()
                again = hop.BlockMask.from_kv_offsets(
                    *made._lists[:4], kv_ranges=made.kv_ranges, seq_lengths=(23, 21), BLOCK_SIZE=4,
                    mask_mod=None if ranges else mask,
                )  # fmt: skip
                for x in (made, again):
                    self.equal(x.kv_num_blocks, rows.kv_num_blocks.tolist())
                    self.equal(x.full_kv_num_blocks, rows.full_kv_num_blocks.tolist())
                    self.equal(x.to_dense(), rows.to_dense().tolist())
                    self.close(hop.flex_attention(q, k, v, block_mask=x), expected, 1e-9)
                self.equal(made[:1, :, 1:3].to_dense(), rows[:1, :, 1:3].to_dense().tolist())
                self.equal(made[:, :, -1].to_dense(), rows[:, :, -1].to_dense().tolist())
                small = made.adjust(14, 9)
                self.equal(small.to_dense(), rows.adjust(14, 9).to_dense().tolist())
                found = hop.flex_attention(q[:, :, :14], k[:, :, :9], v[:, :, :9], block_mask=small)
                self.close(found, plain(q[:, :, :14], k[:, :, :9], v[:, :, :9], mask_mod=mask), 1e-9)
                loss = lambda q, m: hop.sum(hop.sin(hop.flex_attention(q, k, v, block_mask=m)))  # noqa: E731
                grads = [hop.jit(hop.grad(loss))(q, m) for m in (made, rows)]
                self.close(*grads, 1e-12)

    def test_ranges_of_parts(self):
        q, k, v = data((1, 1, 8, 2), (1, 1, 8, 2), (1, 1, 8, 2))
        part = hop.create_block_mask(causal, None, None, 8, 8, 4, ranges=True)[:, :, 1]
        expected = plain(q, k, v, mask_mod=causal)[:, :, 4:]
        self.close(hop.flex_attention(q[:, :, 4:], k, v, block_mask=part), expected, 1e-9)

    def test_compact_in_programs(self):
        q, k, v = data((1, 1, 8, 2), (1, 1, 8, 2), (1, 1, 8, 2))

        def attend(n, room):
            below = lambda b, h, i, j: j < n  # noqa: E731
            made = hop.create_block_mask(below, None, None, 8, 8, 2, ranges=True, room=room)
            return hop.flex_attention(q, k, v, block_mask=made)

        for n in (3, 5):
            found = hop.jit(lambda n: attend(n, 8))(hop.asarray(n))
            self.close(found, plain(q, k, v, mask_mod=lambda b, h, i, j: j < n), 1e-9)
        with self.assertRaisesRegex(hop.CheckError, "more blocks than a compact list has room for"):
            hop.jit(lambda n: attend(n, 3))(hop.asarray(3))
        with self.assertRaisesRegex(hop.InvalidError, "expected `room`"):
            hop.jit(lambda n: attend(n, None))(hop.asarray(3))

    def test_ranges_are_validated(self):
        made = hop.create_block_mask(causal, None, None, 4, 4, 2, ranges=True)
        lists = [*made._lists[:4], made.kv_ranges.at[1, 0].set(hop.asarray([0, 2]))]
        wrong = hop.BlockMask(lists, (4, 4), (2, 2), causal)
        with self.assertRaisesRegex(hop.InvalidError, "differs from the mask at query 2 and key 3"):
            wrong.validate()
        with self.assertRaisesRegex(hop.CheckError, "the keys of a query are no range"):
            hop.create_block_mask(lambda b, h, i, j: i != j, None, None, 8, 8, 4, ranges=True)
        with self.assertRaisesRegex(hop.InvalidError, "a slice without a step"):
            made[:, :, ::2]
        with self.assertRaisesRegex(hop.InvalidError, "expected integers"):
            hop.BlockMask.from_kv_offsets(made.kv_offsets, made.kv_indices, seq_lengths=(8, 4), BLOCK_SIZE=2)

    def test_combined(self):
        q, k, v = data((1, 1, 6, 2), (1, 1, 6, 2), (1, 1, 6, 2))
        near = lambda b, h, i, j: i - j < 2  # noqa: E731
        far = lambda b, h, i, j: i - j > 3  # noqa: E731
        for other in (near, far):
            found = hop.flex_attention(q, k, v, mask_mod=hop.and_masks(causal, other))
            self.close(found, plain(q, k, v, mask_mod=lambda *a, m=other: causal(*a) & m(*a)), 1e-9)
        found = hop.flex_attention(q, k, v, mask_mod=hop.or_masks(near, far))
        self.close(found, plain(q, k, v, mask_mod=lambda *a: near(*a) | far(*a)), 1e-9)
        self.close(hop.flex_attention(q, k, v, mask_mod=hop.and_masks()), plain(q, k, v), 1e-9)
        self.equal(hop.flex_attention(q, k, v, mask_mod=hop.or_masks()), [[[[0.0] * 2] * 6]])


class Plain(Case):
    def test_attention(self):
        q, k, v, bias = data((2, 4, 5, 3), (2, 2, 7, 3), (2, 2, 7, 3), (4, 1, 7))
        lengths, rows = hop.asarray([3, 7]), hop.asarray([5, 2])
        mask = hop.asarray([[i != 2 for i in range(7)]])
        found = hop.attention(
            q, k, v, bias=bias, mask=mask, is_causal=True, key_value_seq_lengths=lengths,
            query_seq_lengths=rows, local_window_size=(3, 1), scale=0.7,
        )  # fmt: skip
        expected = plain(
            q, k, v, lambda s, b, h, i, j: s + bias[h, 0, j],
            lambda b, h, i, j: (j != 2) & (i >= j) & (j < lengths[b]) & (i < rows[b]) & (i - j <= 3),
            0.7,
        )  # fmt: skip
        self.close(found, expected, 1e-9)
        swapped = [hop.moveaxis(x, 1, 2) for x in (q, k, v)]
        self.close(hop.moveaxis(hop.attention(*swapped, layout="bthd"), 1, 2), plain(q, k, v), 1e-9)
        self.close(hop.attention(*[x[0] for x in (q, k, v)]), plain(q, k, v)[0], 1e-9)
        slopes = hop.grad(lambda b: hop.sum(hop.attention(q, k, v, bias=b) ** 2))(bias)
        by_hand = lambda t: plain(q, k, v, lambda s, b, h, i, j: s + t[h, 0, j])  # noqa: E731
        self.close(slopes, hop.grad(lambda t: hop.sum(by_hand(t) ** 2))(bias), 1e-9)


class Around(Case):
    def test_modes(self):
        q, k, v = data((1, 2, 6, 4), (1, 2, 6, 4), (1, 2, 6, 4), dtype=hop.float32)

        def attend(q):
            return hop.flex_attention(q, k, v, lambda s, b, h, i, j: hop.tanh(s) * 2, mask_mod=causal)

        expected = attend(q)
        with hop.autocast(hop.bfloat16):
            for f in (attend, hop.jit(attend)):
                self.assertEqual(f(q).dtype, hop.bfloat16)
                self.close(f(q).astype(hop.float32), expected, 3e-2)
        with hop.disable_jit():
            self.close(attend(q), expected)
        self.close(hop.checkpoint(attend)(q), expected)
        loss = lambda f: hop.grad(lambda q: hop.sum(f(q) ** 2))(q)  # noqa: E731
        self.close(loss(hop.checkpoint(attend)), loss(attend))
        with hop.no_grad():
            self.close(attend(q), expected)

    def test_watched(self):
        q, k, v = data((1, 2, 6, 4), (1, 2, 6, 4), (1, 2, 6, 4))
        attend = lambda q: hop.flex_attention(q, k, v, mask_mod=causal)  # noqa: E731
        self.close(hop.debug_nans(attend)(q), attend(q), 0)
        slope = hop.grad(lambda q: hop.sum(attend(q)))
        self.close(hop.debug_nans(slope)(q), slope(q), 1e-12)
        with self.assertRaisesRegex(hop.NotFiniteError, "flex_attention"):
            hop.debug_nans(lambda q: hop.flex_attention(q, k, v, lambda s, b, h, i, j: s * 0 / 0))(q)
        with self.assertRaisesRegex(hop.InvalidError, "probe 's': it stands in flex_attention"):
            hop.probes(lambda q: hop.flex_attention(q, k, v, lambda s, *at: hop.probe(s, "s")))(q)
        with self.assertRaisesRegex(hop.InvalidError, "the body has effects"):
            hop.jit(lambda q: hop.flex_attention(q, k, v, lambda s, *at: hop.print("{}", s) or s))(q)


class Mistakes(Case):
    def test_indices(self):
        made = hop.create_block_mask(causal, None, None, 8, 6, 2)
        self.equal(made[0, 0, -4].to_dense(), made[:, :, 0].to_dense().tolist())
        for index, text in (((0, 0, 4), "outside of the 4 rows"), ((0, 0, -5), "outside of the 4 rows"),
                            ((1,), "outside of the 1 batches"), ((0, 0, 0, 0), "3 axes")):  # fmt: skip
            with self.assertRaisesRegex(IndexError, text):
                made[index]

    def test_messages(self):
        q, k, v = data((1, 4, 6, 2), (1, 4, 6, 2), (1, 4, 6, 2))

        def listed(counts, columns, **rest):
            return hop.BlockMask.from_kv_blocks(hop.asarray(counts), hop.asarray(columns), **rest)

        made = hop.create_block_mask(causal, None, None, 8, 6, 2)
        cases = [
            (lambda: hop.flex_attention(q[0], k, v), "query: expected floats with 4 axes"),
            (lambda: hop.flex_attention(q, k[:, :2], v[:, :2]), "or enable_gqa=True"),
            (lambda: hop.flex_attention(q, k[:, :3], v[:, :3], enable_gqa=True), "must be a multiple"),
            (lambda: hop.flex_attention(q, k[..., :1], v), "the widths of query and key"),
            (lambda: hop.flex_attention(q, k, v, lambda *a: a[3]), "score_mod gives: expected a float"),
            (lambda: hop.flex_attention(q, k, v, mask_mod=lambda *a: a[2]), "gives: expected a bool"),
            (lambda: hop.flex_attention(q, k, v, block_mask=made), "block_mask is larger than the call"),
            (lambda: hop.flex_attention(q[:, :, :1], k, v, block_mask=made), "block_mask is larger"),
            (lambda: hop.flex_attention(q, k, v, block_mask=made, mask_mod=causal), "expected one of them"),
            (lambda: hop.flex_attention(q, k, v, block_mask=causal), "expected a BlockMask"),
            (
                lambda: hop.flex_attention(q, k, v, return_lse=True, return_aux=hop.AuxRequest()),
                "expected one of them",
            ),
            (lambda: hop.flex_attention(q, k, v, kernel_options={"X": 1}), "expected BLOCK_M and BLOCK_N"),
            (lambda: hop.attention(q, k, v, layout="thd"), 'expected "bhtd" or "bthd"'),
            (lambda: hop.attention(q, k, v, mask=q), "mask: expected bools"),
            (lambda: hop.create_block_mask(causal, None, None, 4, 4, 0), "expected a positive number"),
            (lambda: listed([[[1, 2, 3]]], [[[[0, 1], [0, 1]]]], BLOCK_SIZE=2), "expected counts"),
            (lambda: listed([[[1]]], [[[[0, 1]]]], BLOCK_SIZE=2, seq_lengths=(2, 5)), "the lists have 2"),
            (lambda: listed([[[1]]], [[[[0]]]], seq_lengths=7), "lengths of queries and keys"),
            (lambda: made.adjust(9, 6), "adjust: expected at most 8 queries, found 9"),
            (lambda: made.adjust(8, -1), "adjust: expected lengths of queries and keys, found -1"),
            (lambda: hop.create_block_mask(lambda b, h, i, j: i, None, None, 4, 4), "expected a bool"),
        ]
        for call, text in cases:
            with self.subTest(text), self.assertRaisesRegex(hop.InvalidError, text):
                call()


if __name__ == "__main__":
    unittest.main()
