"""Attention: flex_attention, whose scores and mask are functions of the user's, block masks, which say which
blocks of keys take part at all, and attention for the plain cases. The score matrix is never made."""

__all__ = [
    "flex_attention", "attention", "create_block_mask", "BlockMask", "and_masks", "or_masks", "noop_mask",
    "AuxRequest", "AuxOutput",
]  # fmt: skip

import builtins
import functools
import os
from typing import NamedTuple

from . import _arguments, _calls, _core, _dtypes, _shapes, tree
from ._arguments import place, twins
from ._errors import InvalidError
from ._ops import (
    any as _any, arange, argmax, argsort, asarray, astype, broadcast_to, cumulative_sum, expand_dims,
    logical_and, logical_not, logical_or, permute_dims, reshape, sort, squeeze, sum as _sum, take, where,
)  # fmt: skip
from ._region import region
from ._trace import body_of, run_or_record
from ._transforms import vmap

_BLOCK = 128


class AuxRequest(NamedTuple):
    """What flex_attention gives besides: the logarithms of the sums, the largest scores.

    >>> q = hop.zeros((1, 1, 2, 4))
    >>> hop.flex_attention(q, q, q, return_aux=hop.AuxRequest(max_scores=True))[1].max_scores
    Array([[[0., 0.]]], dtype=float32)
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by an AuxRequest; None where it was not.

    >>> hop.AuxOutput(lse=1.5)
    AuxOutput(lse=1.5, max_scores=None)
    """

    lse: object = None
    max_scores: object = None


# ---- masks ----


def noop_mask(batch, head, q_idx, kv_idx):
    """Every key takes part.

    >>> hop.noop_mask(0, 0, 1, 2)
    True
    """
    return True


def _combined(what, masks, fold, none):
    masks = tuple(_arguments.function(f"{what}: mask", m) for m in masks)

    def mask(batch, head, q_idx, kv_idx):
        out = none
        for m in masks:
            out = fold(out, m(batch, head, q_idx, kv_idx))
        return out

    mask._masks = (what, masks)
    return mask


def and_masks(*masks):
    """The mask that lets a key take part where all of them do.

    >>> causal = lambda b, h, q, k: q >= k
    >>> near = lambda b, h, q, k: q - k < 2
    >>> hop.create_block_mask(hop.and_masks(causal, near), None, None, 4, 4, 1).to_dense()[0, 0]
    Array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]], dtype=int32)
    """
    return _combined("and_masks", masks, logical_and, True)


def or_masks(*masks):
    """The mask that lets a key take part where any of them does.

    >>> prefix = lambda b, h, q, k: k < 1
    >>> same = lambda b, h, q, k: q == k
    >>> hop.create_block_mask(hop.or_masks(prefix, same), None, None, 3, 3, 1).to_dense()[0, 0]
    Array([[1, 0, 0],
           [1, 1, 0],
           [1, 0, 1]], dtype=int32)
    """
    return _combined("or_masks", masks, logical_or, False)


def _functions_of(fun):
    """(how it is made, the user's functions) of a function: those that hop combines are looked through."""
    if fun is None:
        return None, ()
    what, masks = getattr(fun, "_masks", (None, ()))
    if what is None:
        return "f", (fun,)
    parts = [_functions_of(m) for m in masks]
    return (what, *[p[0] for p in parts]), tuple(f for p in parts for f in p[1])


def _nothing():
    """Stands for the functions of a program that has none."""


# ---- block masks ----


def _sizes(what, block):
    pair = block if isinstance(block, (tuple, list)) else (block, block)
    if len(pair) != 2:
        raise _arguments.wrong(what, "a number or a pair of numbers", block)
    return tuple(_arguments.integer(what, n, 1, 2**31 - 1, expected="a positive number") for n in pair)


def _lengths_of(what, lengths):
    """Lengths of queries and keys."""
    if not isinstance(lengths, (tuple, list)) or len(lengths) != 2:
        raise _arguments.wrong(what, "lengths of queries and keys", lengths)
    return tuple(_arguments.extent(what, n, expected="lengths of queries and keys") for n in lengths)


def _blocks(length, block):
    return (length + block - 1) // block


def _listed(present):
    """(counts, columns) of a bool array [..., columns]: those that are present come first."""
    n = present.shape[-1]
    column = broadcast_to(arange(n, dtype=_dtypes.int32), present.shape)
    counts = _sum(astype(present, _dtypes.int32), axis=-1, dtype=_dtypes.int32)
    return counts, sort(where(present, column, column + n), axis=-1) % builtins.max(n, 1)


def _dense(counts, columns):
    """The bool array that lists were made of."""
    n = columns.shape[-1]
    there = arange(n, dtype=_dtypes.int32) < expand_dims(counts, axis=-1)
    hit = logical_and(expand_dims(columns, axis=-1) == arange(n, dtype=columns.dtype),
                      expand_dims(there, axis=-1))  # fmt: skip
    return _sum(astype(hit, _dtypes.int32), axis=-2) > 0


def _dense_of_compact(offsets, columns, n):
    """The same of compact lists, with n columns."""
    place = arange(columns.shape[0], dtype=offsets.dtype)
    of_row = logical_and(expand_dims(offsets[:, :, :-1], axis=-1) <= place,
                         place < expand_dims(offsets[:, :, 1:], axis=-1))  # fmt: skip
    of_column = expand_dims(columns, axis=-1) == arange(n, dtype=columns.dtype)
    return astype(of_row, _dtypes.float32) @ astype(of_column, _dtypes.float32) > 0


def _first_true(x):
    """The index of the first element that is true, if there is one."""
    for b, heads in enumerate(x.tolist()):
        for h, rows in enumerate(heads):
            for r, columns in enumerate(rows):
                if True in columns:
                    yield b, h, r, columns.index(True)
                    return


class BlockMask:
    """Which blocks of keys each block of queries meets, and the mask within them. Made by create_block_mask
    or BlockMask.from_kv_blocks. Blocks that are listed nowhere take no part, whatever the mask says; in full
    ones it is not asked.

    >>> hop.create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4, 2)
    BlockMask(shape=(1, 1, 4, 4), sparsity=25.00%,
    ░░
    ██░░)
    """

    def __init__(self, lists, lengths, block, mask_mod, sliced=False):
        self._lists, self.seq_lengths, self.BLOCK_SIZE = tuple(lists), tuple(lengths), tuple(block)
        self.mask_mod, self._sliced = mask_mod, sliced

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks, kv_indices, full_kv_num_blocks=None, full_kv_indices=None, BLOCK_SIZE=_BLOCK,
        mask_mod=None, seq_lengths=None,
    ):  # fmt: skip
        """The block mask of these lists: how many blocks of keys each row of blocks meets [b, h, rows], and
        which [b, h, rows, columns]; the same for blocks in which the mask is not asked.

        >>> counts, columns = hop.asarray([[[1, 2]]]), hop.asarray([[[[0, 0], [0, 1]]]])
        >>> hop.BlockMask.from_kv_blocks(counts, columns, BLOCK_SIZE=2).to_dense()[0, 0]
        Array([[1, 0],
               [1, 1]], dtype=int32)
        """
        block = _sizes("from_kv_blocks: BLOCK_SIZE", BLOCK_SIZE)
        lists = [asarray(kv_num_blocks), asarray(kv_indices)]
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise InvalidError(
                f"{place()}from_kv_blocks: full_kv_num_blocks and full_kv_indices: expected both or neither"
            )
        if full_kv_num_blocks is not None:
            lists += [asarray(full_kv_num_blocks), asarray(full_kv_indices)]
        for x, rank in zip(lists, (3, 4, 3, 4)):
            if x.ndim != rank or x.dtype.kind not in "iu":
                axes = "[batches, heads, rows]" if rank == 3 else "[batches, heads, rows, columns]"
                raise _arguments.wrong("from_kv_blocks", f"integers {axes}", x)
        for x, expected in zip(lists, (lists[1].shape[:3], lists[0].shape, lists[0].shape, lists[1].shape)):
            if any(_shapes.differ(n, m) for n, m in zip(x.shape, expected)):
                raise InvalidError(
                    f"{place()}from_kv_blocks: expected counts [batches, heads, rows] and indices "
                    f"[batches, heads, rows, columns], found {', '.join(str(x.shape) for x in lists)}"
                )
        lists = [astype(x, _dtypes.int32) for x in lists]
        rows, columns = lists[1].shape[2:]
        if seq_lengths is None:
            seq_lengths = (rows * block[0], columns * block[1])
        seq_lengths = _lengths_of("from_kv_blocks: seq_lengths", seq_lengths)
        for name, length, size, n in zip(("rows", "columns"), seq_lengths, block, (rows, columns)):
            if _shapes.holds(_blocks(length, size), "==", n) is False:
                raise InvalidError(
                    f"{place()}from_kv_blocks: {length} positions in blocks of {size} are "
                    f"{_blocks(length, size)} {name} of blocks, the lists have {n}"
                )
        return cls(lists, seq_lengths, block, noop_mask if mask_mod is None else mask_mod)

    @classmethod
    def from_kv_offsets(
        cls, kv_offsets, kv_indices, full_kv_offsets=None, full_kv_indices=None, kv_ranges=None, *,
        seq_lengths, BLOCK_SIZE=_BLOCK, mask_mod=None,
    ):  # fmt: skip
        """The block mask of compact lists: the columns of all rows of blocks one behind the other [blocks],
        and where in them each row begins and ends [b, h, rows + 1]; the same for blocks in which the mask is
        not asked. kv_ranges [blocks, queries of a block, 2]: for each block and each query in it the first
        key that takes part and the one behind the last, from the beginning of the block; then mask_mod is
        never asked, and only validate reads it.

        >>> offsets, columns = hop.asarray([[[0, 1, 3]]]), hop.asarray([0, 0, 1])
        >>> hop.BlockMask.from_kv_offsets(offsets, columns, seq_lengths=(4, 4), BLOCK_SIZE=2).to_dense()[0, 0]
        Array([[1, 0],
               [1, 1]], dtype=int32)
        """
        what = "from_kv_offsets"
        block = _sizes(f"{what}: BLOCK_SIZE", BLOCK_SIZE)
        lengths = _lengths_of(f"{what}: seq_lengths", seq_lengths)
        rows = _blocks(lengths[0], block[0])
        if (full_kv_offsets is None) != (full_kv_indices is None):
            raise InvalidError(
                f"{place()}{what}: full_kv_offsets and full_kv_indices: expected both or neither"
            )
        lists = [asarray(kv_offsets), asarray(kv_indices)]
        if full_kv_offsets is not None:
            lists += [asarray(full_kv_offsets), asarray(full_kv_indices)]
        for x, rank in zip(lists, (3, 1, 3, 1)):
            if x.ndim != rank or x.dtype.kind not in "iu" or (rank == 3 and x.shape[2] != rows + 1):
                axes = f"[batches, heads, {rows + 1}]" if rank == 3 else "[blocks]"
                raise _arguments.wrong(what, f"integers {axes}", x)
        if kv_ranges is not None:
            ranges, shape = asarray(kv_ranges), (lists[1].shape[0], block[0], 2)
            if ranges.shape != shape or ranges.dtype.kind not in "iu":
                raise _arguments.wrong(f"{what}: kv_ranges", f"integers {list(shape)}", ranges)
            lists.append(ranges)
        elif mask_mod is None:
            mask_mod = noop_mask
        return cls([astype(x, _dtypes.int32) for x in lists], lengths, block, mask_mod)

    _compact = property(lambda self: self._lists[1].ndim == 1)

    def _list(self, first):
        return self._lists[first : first + 2] if len(self._lists) > first + 1 else (None, None)

    def _counts(self, first):
        found = self._list(first)[0]
        return found[:, :, 1:] - found[:, :, :-1] if self._compact and found is not None else found

    kv_num_blocks = property(lambda self: self._counts(0), doc="How many blocks each row has.")
    kv_indices = property(lambda self: self._lists[1],
                          doc="Their columns, those first; of compact lists those of all rows.")  # fmt: skip
    full_kv_num_blocks = property(lambda self: self._counts(2),
                                  doc="How many blocks of each row need no mask.")  # fmt: skip
    full_kv_indices = property(lambda self: self._list(2)[1], doc="Their columns, as kv_indices.")
    kv_offsets = property(lambda self: self._lists[0] if self._compact else None,
                          doc="Of compact lists, where in kv_indices each row begins and ends.")  # fmt: skip
    full_kv_offsets = property(lambda self: self._list(2)[0] if self._compact else None,
                               doc="The same for full_kv_indices.")  # fmt: skip
    kv_ranges = property(lambda self: self._lists[-1] if len(self._lists) % 2 else None,
                         doc="First key and the one behind the last, by query and block.")  # fmt: skip
    shape = property(lambda self: (*self._lists[0].shape[:2], *self.seq_lengths),
                     doc="(batches, heads, queries, keys)")  # fmt: skip
    _rows = property(lambda self: self._lists[0].shape[2] - self._compact)

    def _classes(self):
        """(partial, full): bool arrays [b, h, rows, columns]."""
        if self._compact:
            n = _blocks(self.seq_lengths[1], self.BLOCK_SIZE[1])
            found = [_dense_of_compact(*x, n) for x in (self._list(0), self._list(2)) if x[0] is not None]
        else:
            found = [_dense(*x) for x in (self._list(0), self._list(2)) if x[0] is not None]
        return found[0], found[1] if len(found) > 1 else logical_and(found[0], False)

    def to_dense(self):
        """1 for each block that takes part, 0 for the others: [batches, heads, rows, columns]."""
        return astype(logical_or(*self._classes()), _dtypes.int32)

    def sparsity(self):
        """How much of the score matrix is left out, in percent."""
        dense = self.to_dense()
        return 100 * (1 - float(_sum(dense)) / builtins.max(dense.size, 1))

    def __getitem__(self, index):
        """The block mask of some batches, heads and rows of blocks. Its mask function is gone: positions are
        others now; set mask_mod before it is used.

        >>> whole = hop.create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4, 2)
        >>> last = whole[:, :, 1]
        >>> last.mask_mod = lambda b, h, q, k: q + 2 >= k
        >>> last.to_dense()
        Array([[[[1, 1]]]], dtype=int32)
        """
        index = index if isinstance(index, tuple) else (index,)
        if len(index) > 3:
            raise IndexError(f"a block mask has 3 axes, batches, heads and rows: {len(index)} indices")
        index = tuple(self._as_slice(axis, i) for axis, i in enumerate(index))
        lists = list(self._lists)
        if self._compact and len(index) == 3:
            index = (*index[:2], self._slice_of_offsets(index[2]))
        for k, x in enumerate(lists):
            for axis, i in enumerate(index if x.ndim > 3 or k in (0, 2) and x.ndim == 3 else ()):
                x = x[(slice(None),) * axis + (i,)]
            lists[k] = x
        rows = lists[0].shape[2] - self._compact
        length = self.seq_lengths[0] if rows == self._rows else rows * self.BLOCK_SIZE[0]
        return BlockMask(lists, (length, self.seq_lengths[1]), self.BLOCK_SIZE, None, sliced=True)

    def _as_slice(self, axis, index):
        """A number as the slice of length 1."""
        if not isinstance(index, int) or isinstance(index, bool):
            return index
        n = self._rows if axis == 2 else self.shape[axis]
        if _shapes.holds(-index if index < 0 else index + 1, "<=", n) is False:
            what = ("batches", "heads", "rows of blocks")[axis]
            raise IndexError(f"index {index} is outside of the {n} {what} of a block mask")
        return slice(index, index + 1 or None)

    def _slice_of_offsets(self, rows):
        """The offsets of some rows: one more than these, in their order."""
        start, stop, step = rows.indices(self._rows) if isinstance(rows, slice) else (0, 0, 0)
        if step != 1:
            raise _arguments.wrong("rows of a compact block mask", "a number or a slice without a step", rows)
        return slice(start, builtins.max(start, stop) + 1)

    def adjust(self, q_len, kv_len):
        """The block mask of the first q_len queries and kv_len keys.

        >>> whole = hop.create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4, 1)
        >>> whole.adjust(2, 3).to_dense()[0, 0]
        Array([[1, 0, 0],
               [1, 1, 0]], dtype=int32)
        """
        q_len, kv_len = _lengths_of("adjust", (q_len, kv_len))
        for name, n, there in zip(("queries", "keys"), (q_len, kv_len), self.seq_lengths):
            if _shapes.holds(n, "<=", there) is False:
                raise InvalidError(
                    f"{place()}adjust: expected at most {there} {name}, found {n}: blocks beyond them are "
                    "not known; create_block_mask makes a block mask of any lengths"
                )
        rows, columns = _blocks(q_len, self.BLOCK_SIZE[0]), _blocks(kv_len, self.BLOCK_SIZE[1])
        if self._compact:
            lists = self._cropped(rows, columns)
            return BlockMask(lists, (q_len, kv_len), self.BLOCK_SIZE, self.mask_mod, self._sliced)
        partial, full = (x[:, :, :rows, :columns] for x in self._classes())
        return BlockMask(
            [*_listed(partial), *_listed(full)], (q_len, kv_len), self.BLOCK_SIZE, self.mask_mod, self._sliced
        )

    def _cropped(self, rows, columns):
        """Compact lists of the first rows and columns: what stays comes first, in the same room."""
        lists = []
        for offsets, places in (x for x in (self._list(0), self._list(2)) if x[0] is not None):
            stays = places < columns
            before = cumulative_sum(astype(stays, _dtypes.int32), include_initial=True)
            order = argsort(astype(logical_not(stays), _dtypes.int32))
            if self.kv_ranges is not None and not lists:
                ranges = [take(self.kv_ranges, order, axis=0)]
            lists += [take(before, offsets[:, :, : rows + 1]), take(places, order)]
        return lists if self.kv_ranges is None else lists + ranges

    def validate(self):
        """Compares the lists with the mask function: an error names the first block that is listed nowhere
        although a key in it takes part, or that is listed as full although one does not. flex_attention does
        so with HOP_DEBUG=masks in the environment; where the lists are known only when a program runs, the
        program compares them.

        >>> counts, columns = hop.asarray([[[1]]]), hop.asarray([[[[0, 0]]]])
        >>> hop.BlockMask.from_kv_blocks(counts, columns, BLOCK_SIZE=2, mask_mod=hop.noop_mask).validate()
        Traceback (most recent call last):
            ...
        hop.InvalidError: ... block (row 0, column 1) is not listed, but query 0 and key 2 take part ...
        """
        if self.mask_mod is None:
            raise InvalidError(f"{place()}validate: it has no mask_mod to compare with: set it")
        if any(x._traced for x in self._lists):
            raise InvalidError(f"{place()}validate: the lists of this block mask are not known here")
        missing, wrong = self._differences()
        for bad, expected in ((missing, True), (wrong, False)):
            for b, h, row, column in _first_true(bad):
                i, j = self._element(b, h, row, column, expected)
                what = "is not listed, but" if expected else "is listed as full, but the mask says no for"
                end = "take part by the mask" if expected else "there"
                raise InvalidError(
                    f"{place()}block mask: batch {b}, head {h}: block (row {row}, column {column}) {what} "
                    f"query {i} and key {j} {end}"
                )

        self._validate_ranges()

    def _differences(self):
        """(missing, wrong): blocks that are not listed, or listed as full, against the mask."""
        batches, heads = self._lists[0].shape[:2]
        made = create_block_mask(self.mask_mod, batches, heads, *self.seq_lengths, self.BLOCK_SIZE)
        partial, full = self._classes()
        some, every = made._classes()
        listed, there = logical_or(partial, full), logical_or(some, every)
        return logical_and(there, ~listed), logical_and(full, ~every)

    def _validate_later(self):
        """The same by the program that is captured, for lists that it makes or is given."""
        texts = "is not listed, but keys in it take part", "is listed as full, but not all keys take part"
        for bad, said in zip(self._differences(), texts):
            columns = bad.shape[3]
            first = argmax(astype(reshape(_any(bad, axis=(0, 1)), (-1,)), _dtypes.int32))
            said = f"block mask: by the mask, the block of this row and column {said}"
            _core.call(_core.codes["check"], (~_any(bad), first // columns, first % columns), said)

    def _validate_ranges(self):
        if self.kv_ranges is None:
            return
        rows, columns = self.BLOCK_SIZE
        at = [
            (b, h, row, k)
            for b, heads in enumerate(self.kv_offsets.tolist())
            for h, offsets in enumerate(heads)
            for row in range(self._rows)
            for k in range(offsets[row], offsets[row + 1])
        ]

        def bad_of(b, h, row, k):
            i = row * rows + arange(rows)
            j = self.kv_indices[k] * columns + arange(columns)
            inside = logical_and(self.kv_ranges[k][:, :1] <= arange(columns),
                                 arange(columns) < self.kv_ranges[k][:, 1:])  # fmt: skip
            holds = vmap(lambda i: vmap(lambda j: asarray(self.mask_mod(b, h, i, j)))(j))(i)
            there = logical_and((i < self.seq_lengths[0])[:, None], (j < self.seq_lengths[1])[None, :])
            return logical_and(there, holds != inside)

        for b, h, row, k in at:
            bad = bad_of(b, h, row, k)
            for _, _, i, j in _first_true(bad[None, None]):
                column = int(self.kv_indices[k])
                raise InvalidError(
                    f"{place()}block mask: batch {b}, head {h}: block (row {row}, column {column}) has a "
                    "range that differs from the mask at "
                    f"query {row * rows + i} and key {column * columns + j}"
                )

    def _element(self, b, h, row, column, holds):
        """The first query and key of a block for which the mask holds, or does not."""
        first = row * self.BLOCK_SIZE[0], column * self.BLOCK_SIZE[1]
        ends = [
            builtins.min(start + size, n)
            for start, size, n in zip(first, self.BLOCK_SIZE, self.seq_lengths)
        ]
        for i in range(first[0], ends[0]):
            for j in range(first[1], ends[1]):
                if bool(asarray(self.mask_mod(b, h, i, j))) == holds:
                    return i, j
        raise AssertionError("a class that no element has")

    def to_string(self, limit=4):
        """A picture of the first `limit` heads: █ a full block, ░ one with a mask, space none."""
        partial, full = (x.tolist() for x in self._classes())
        pictures = []
        for b, heads in enumerate(partial):
            for h, rows in enumerate(heads):
                if len(pictures) == limit:
                    return "\n\n".join(pictures) + "\n…"
                lines = [
                    "".join(
                        "██" if full[b][h][r][c] else "░░" if there else "  " for c, there in enumerate(row)
                    ).rstrip()
                    for r, row in enumerate(rows)
                ]
                several = len(partial) * len(heads) > 1
                pictures.append((f"({b}, {h})\n" if several else "") + "\n".join(lines))
        return "\n\n".join(pictures)

    def __repr__(self):
        if any(x._traced for x in self._lists):
            return f"BlockMask(shape={self.shape}, BLOCK_SIZE={self.BLOCK_SIZE})"
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%,\n{self.to_string()})"


tree.register(
    BlockMask,
    lambda m: (m._lists, (m.seq_lengths, m.BLOCK_SIZE, m.mask_mod, m._sliced)),
    lambda rest, lists: BlockMask(lists, *rest),
)


def _block_lists(mask, batches, heads, block, lengths, room, ranges):
    sizes = (batches, heads, *lengths)
    build = functools.partial(_core.block_mask, mask, sizes, *block, room, ranges)
    lists = run_or_record(build, [], "create_block_mask")
    lists = tuple(astype(x, _dtypes.int32) for x in lists)
    if room:
        return lists
    n = _shapes.largest(_blocks(lengths[1], block[1]), 1)
    some, columns, whole, whole_columns = lists
    return some, columns % n, whole, whole_columns % n


def create_block_mask(
    mask_mod, B, H, Q_LEN, KV_LEN, BLOCK_SIZE=_BLOCK, *, compact=False, ranges=False, room=None
):
    """The block mask of a mask function (batch, head, query, key) -> bool. Most blocks are classed by the
    bounds of what it compares, in compiled code; it is asked for each pair only in the others. B, H: how
    many batches and heads differ, None: the mask is the same for all. Inside of a program one
    that depends on no argument is made once and kept. compact: lists as large as there are blocks, as
    BlockMask.from_kv_offsets has them; inside of a program with `room` for so many blocks in each of both
    lists. ranges: compact, and the mask becomes for each query of a block the range of keys that take part,
    so that it is not asked again; an error where they are no range.

    >>> hop.create_block_mask(lambda b, h, q, k: q >= k, None, None, 6, 6, 2).to_dense()[0, 0]
    Array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]], dtype=int32)
    >>> hop.create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4, 2, ranges=True).kv_ranges.tolist()
    [[[0, 1], [0, 2]], [[0, 1], [0, 2]]]
    """
    mask_mod = _arguments.function("create_block_mask: mask_mod", mask_mod)
    batches, heads = (
        1
        if n is None
        else _arguments.integer(f"create_block_mask: {name}", n, 1, expected="a number or None")
        for name, n in (("B", B), ("H", H))
    )
    lengths = tuple(
        _arguments.extent(f"create_block_mask: {name}", n, expected="a length")
        for name, n in (("Q_LEN", Q_LEN), ("KV_LEN", KV_LEN))
    )
    block = _sizes("create_block_mask: BLOCK_SIZE", BLOCK_SIZE)

    def mask(score, *at):
        out = asarray(twins.of(mask_mod)(*at))
        if out.dtype is not _dtypes.bool or out.ndim:
            raise _arguments.wrong("create_block_mask: what mask_mod gives", "a bool", out)
        return [out]

    mask = body_of(mask, mask_mod)
    ranges = _arguments.flag("create_block_mask: ranges", ranges)
    compact = _arguments.flag("create_block_mask: compact", compact) or ranges
    if room is not None:
        room = _arguments.integer("create_block_mask: room", room, 1, expected="a number of blocks")
    elif compact and _core.tracing():
        raise InvalidError(
            f"{place()}create_block_mask: expected `room`, the most blocks of a compact list, in a program"
        )
    how, functions = _functions_of(mask_mod)

    def made(room, ranges):
        record = functools.partial(_block_lists, mask, batches, heads, block, lengths, room, ranges)
        if _shapes.is_symbolic(*lengths):  # other lists at every length
            return record()
        if _core.tracing():
            return region("once", otherwise="body")(lambda: tuple(record()))()
        what = ("create_block_mask", how, batches, heads, block, lengths, room, ranges)
        return _calls.loop(what, functions or (_nothing,), (), record)

    if compact and room is None:  # as much as there are, of which the mask is asked first
        counts = made(0, False)[::2]
        room = builtins.max(1, *[int(_sum(x)) for x in counts])
    return BlockMask(made(room if compact else 0, ranges), lengths, block, mask_mod)


# ---- attention ----


def _checked_arrays(what, arrays, gqa):
    q, k, v = (asarray(x) for x in arrays)
    for name, x in zip(("query", "key", "value"), (q, k, v)):
        if x.ndim != 4 or x.dtype.kind != "f":
            raise _arguments.wrong(f"{what}: {name}", "floats with 4 axes, [batch, heads, length, width]", x)
    heads, kv_heads = q.shape[1], k.shape[1]
    if not gqa and not _shapes.equal(heads, kv_heads):
        raise InvalidError(
            f"{place()}{what}: query has {heads} heads, key has {kv_heads}: expected as many, or "
            "enable_gqa=True"
        )
    return q, astype(k, q.dtype), astype(v, q.dtype)


def _checked_length(name, length, given):
    """Where only a run knows it, the program checks that a block mask is as long as the call."""
    found, made = (asarray(n._value if _shapes.is_symbolic(n) else n) for n in (length, given))
    said = f"flex_attention: positions of {name}, and those that block_mask was made for"
    _core.call(_core.codes["check"], (found == made, found, made), said)


def _checked_block_mask(mask, q, k):
    if mask.mask_mod is None and mask.kv_ranges is None:
        raise InvalidError(
            f"{place()}flex_attention: block_mask is a part of another one: its mask_mod must be set, with "
            "positions that count from the part's beginning"
        )
    for axis, (name, x) in enumerate((("query", q), ("key", k))):
        length, given = x.shape[2], mask.seq_lengths[axis]
        fits = _shapes.holds(length, "==", given)
        if mask._sliced and not axis:
            fits = _shapes.holds(_blocks(length, mask.BLOCK_SIZE[0]), "==", mask._rows)
        if fits is None:
            _checked_length(name, length, given)
        if fits is False:
            smaller = "smaller" if _shapes.holds(given, "<", length) else "larger"
            raise InvalidError(
                f"{place()}flex_attention: block_mask is {smaller} than the call: it was made for {given} "
                f"positions of {name}, which has {length}; block_mask.adjust({q.shape[2]}, {k.shape[2]}) or "
                "create_block_mask makes one that fits"
            )


def _scalar_bodies(score_mod, mask_mod):
    """The two functions as the operator calls them; None: it has none."""

    def score(s, b, h, i, j):
        out = asarray(twins.of(score_mod)(s, b, h, i, j))
        if out.ndim or out.dtype.kind != "f":
            raise _arguments.wrong("flex_attention: what score_mod gives", "a float without axes", out)
        return [astype(out, s.dtype)]

    def mask(s, b, h, i, j):
        out = asarray(twins.of(mask_mod)(b, h, i, j))
        if out.ndim or out.dtype is not _dtypes.bool:
            raise _arguments.wrong("flex_attention: what mask_mod gives", "a bool without axes", out)
        return [out]

    plain_mask = mask_mod is None or mask_mod is noop_mask
    return (
        None if score_mod is None else body_of(score, score_mod),
        None if plain_mask else body_of(mask, mask_mod),
    )


def _scalar(what, x, kinds, expected):
    found = asarray(x)
    if found.ndim or found.dtype.kind not in kinds:
        raise _arguments.wrong(what, expected, x)
    return x if _dtypes.is_number(x) else found  # a number of Python's has all its digits


def _scale_of(what, scale, q):
    """The scale as it is given, or 1 / sqrt of the width."""
    if scale is not None:
        return _scalar(f"{what}: scale", scale, "fiu", "a number")
    width = _shapes.largest(q.shape[3], 1)
    if _shapes.is_symbolic(width):
        return astype(asarray(width._value), _dtypes.float64) ** -0.5
    return float(width) ** -0.5


def _lengths(what, x, batches):
    """A length for each batch, or None."""
    if x is None:
        return None
    found = asarray(x)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not _shapes.equal(found.shape[0], batches):
        raise _arguments.wrong(what, f"{batches} integers, one for each batch", x)
    return found


def _record(score_mod, mask_mod, block, q, k, v, scale, first, lists):
    score, mask = _scalar_bodies(score_mod, mask_mod)
    computed = _dtypes.float64 if q.dtype is _dtypes.float64 else _dtypes.float32
    given = [q, k, v, asarray(scale, dtype=computed), asarray(first, dtype=_dtypes.int64)]
    n = len(given)

    def build(*values):
        return _core.flex_attention(score, mask, values[:n], values[n:], *block)

    return tuple(run_or_record(build, [*given, *lists], "flex_attention"))


def flex_attention(
    query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False,
    kernel_options=None, *, mask_mod=None, return_aux=None, first_query=0,
):  # fmt: skip
    """softmax(score_mod(scale · query · keyᵀ)) · value over the keys that the mask lets take part, for query
    [batch, heads, queries, width] and key, value [batch or 1, heads or fewer, keys, …]. score_mod(score,
    batch, head, query index, key index) gives another score, mask_mod(batch, head, query index, key index)
    a bool; both are scalar functions that may read arrays from outside. With return_lse also the logarithm
    of the sum of the exponentials; return_aux: an AuxRequest. first_query: the index of the first query.

    >>> q = hop.ones((1, 1, 2, 4))
    >>> v = hop.asarray([[[[1.0], [3.0]]]])
    >>> hop.flex_attention(q, q, v, mask_mod=lambda b, h, i, j: i >= j)
    Array([[[[1.],
             [2.]]]], dtype=float32)
    """
    if return_lse and return_aux is not None:
        raise InvalidError(f"{place()}flex_attention: return_lse and return_aux: expected one of them")
    if return_aux is not None and not (hasattr(return_aux, "lse") and hasattr(return_aux, "max_scores")):
        raise _arguments.wrong("flex_attention: return_aux", "an AuxRequest", return_aux)
    return_lse = _arguments.flag("flex_attention: return_lse", return_lse)
    gqa = _arguments.flag("flex_attention: enable_gqa", enable_gqa)
    q, k, v = _checked_arrays("flex_attention", (query, key, value), gqa)
    for name, f in (("score_mod", score_mod), ("mask_mod", mask_mod)):
        if f is not None:
            _arguments.function(f"flex_attention: {name}", f)
    lists, block = (), _tile_options(kernel_options)
    if block_mask is not None:
        if mask_mod is not None:
            raise InvalidError(f"{place()}flex_attention: mask_mod and block_mask: expected one of them")
        if not isinstance(block_mask, BlockMask):
            raise _arguments.wrong("flex_attention: block_mask", "a BlockMask", block_mask)
        _checked_block_mask(block_mask, q, k)
        checks = "masks" in os.environ.get("HOP_DEBUG", "").split(",")
        if checks and block_mask.mask_mod is not None:
            if not any(x._traced for x in block_mask._lists):
                block_mask.validate()
            elif block_mask.kv_ranges is not None:  # then the node has no mask to compare them with
                block_mask._validate_later()
        lists, block = block_mask._lists, block_mask.BLOCK_SIZE
        mask_mod = block_mask.mask_mod if block_mask.kv_ranges is None else None
    scale = _scale_of("flex_attention", scale, q)
    first_query = _scalar("flex_attention: first_query", first_query, "iu", "an integer")
    score_how, score_functions = _functions_of(score_mod)
    mask_how, mask_functions = _functions_of(mask_mod)
    record = functools.partial(_record, score_mod, mask_mod, block)
    out, lse, most = _calls.loop(
        ("flex_attention", block, score_how, mask_how), (*score_functions, *mask_functions) or (_nothing,),
        (q, k, v, scale, first_query, lists), record,
    )  # fmt: skip
    if return_lse:
        return out, lse
    if return_aux is not None:
        return out, AuxOutput(lse if return_aux.lse else None, most if return_aux.max_scores else None)
    return out


def _tile_options(options):
    """Queries and keys of a tile by kernel_options; (0, 0): hop's choice."""
    what = "flex_attention: kernel_options"
    if options is not None and not isinstance(options, dict):
        raise _arguments.wrong(what, "a dict with BLOCK_M and BLOCK_N", options)
    options = dict(options or {})
    found = [
        _arguments.integer(f"{what}: {name}", options.pop(name, 0), 0, 1 << 30)
        for name in ("BLOCK_M", "BLOCK_N")
    ]
    if options:
        raise InvalidError(
            f"{place()}flex_attention: kernel_options: {', '.join(sorted(str(name) for name in options))}: "
            "expected BLOCK_M and BLOCK_N"
        )
    return tuple(n or (_BLOCK if any(found) else 0) for n in found)


# ---- plain attention ----


def _reader(x):
    """x [batch or 1, heads or 1, queries or 1, keys or 1], as a function of four indices."""

    def at(b, h, i, j):
        return x[tuple(0 if n == 1 else index for n, index in zip(x.shape, (b, h, i, j)))]

    return at


def _four_axes(what, x, kinds, like):
    x = asarray(x)
    if x.ndim > 4 or x.dtype.kind not in kinds:
        expected = "bools" if kinds == "b" else "numbers"
        raise _arguments.wrong(what, f"{expected} with at most 4 axes, [batch, heads, queries, keys]", x)
    x = reshape(x, (*(1,) * (4 - x.ndim), *x.shape))
    for n, whole in zip(x.shape, like):
        if not _shapes.equal(n, 1) and not _shapes.equal(n, whole):
            raise _arguments.wrong(what, f"an array that broadcasts against {tuple(like)}", x)
    return x


def attention(
    query, key, value, *, bias=None, mask=None, is_causal=False, scale=None, query_seq_lengths=None,
    key_value_seq_lengths=None, local_window_size=None, layout="bhtd",
):  # fmt: skip
    """softmax(scale · query · keyᵀ + bias) · value, for the usual masks: arrays of [batch, heads, length,
    width], or with layout "bthd" of [batch, length, heads, width]; key and value may have fewer heads. bias
    and mask broadcast against [batch, heads, queries, keys]; a key takes part where mask holds, with
    is_causal where it is not behind the query, and where its index is below key_value_seq_lengths[batch];
    local_window_size: how far it may be, a number or (before, behind).

    >>> q = hop.ones((1, 2, 1, 4))
    >>> v = hop.reshape(hop.asarray([1.0, 3.0]), (1, 2, 1, 1))
    >>> hop.attention(q, q, v, is_causal=True, layout="bthd")[0, :, 0, 0]
    Array([1., 2.], dtype=float32)
    """
    if layout not in ("bhtd", "bthd"):
        raise _arguments.wrong("attention: layout", '"bhtd" or "bthd"', layout)
    causal = _arguments.flag("attention: is_causal", is_causal)
    window = local_window_size
    if window is not None:
        window = window if isinstance(window, (tuple, list)) else (window, window)
        if len(window) != 2:
            raise _arguments.wrong("attention: local_window_size", "a number or a pair of numbers", window)
        window = tuple(_arguments.integer("attention: local_window_size", n, 0) for n in window)
    arrays = [asarray(x) for x in (query, key, value)]
    single = arrays[0].ndim == 3
    if single:
        arrays = [expand_dims(x, axis=0) for x in arrays]
    if layout == "bthd":
        arrays = [permute_dims(x, (0, 2, 1, 3)) if x.ndim == 4 else x for x in arrays]
    q, k, v = _checked_arrays("attention", arrays, True)
    like = (*q.shape[:3], k.shape[2])
    given = {
        "bias": None if bias is None else _four_axes("attention: bias", bias, "fiu", like),
        "mask": None if mask is None else _four_axes("attention: mask", mask, "b", like),
        "queries": _lengths("attention: query_seq_lengths", query_seq_lengths, q.shape[0]),
        "keys": _lengths("attention: key_value_seq_lengths", key_value_seq_lengths, q.shape[0]),
    }
    scale = _scale_of("attention", scale, q)
    record = functools.partial(_record_plain, causal, window)
    out = _calls.loop(("attention", causal, window), _nothing, (q, k, v, scale, given), record)
    if layout == "bthd":
        out = permute_dims(out, (0, 2, 1, 3))
    return squeeze(out, axis=0) if single else out


def _record_plain(causal, window, q, k, v, scale, given):
    masks, score = [], None
    if given["bias"] is not None:
        bias = _reader(given["bias"])

        def score(s, b, h, i, j):
            return s + bias(b, h, i, j)

    if given["mask"] is not None:
        masks.append(_reader(given["mask"]))
    if causal:
        masks.append(lambda b, h, i, j: i >= j)
    if window is not None:
        masks.append(lambda b, h, i, j: logical_and(i - j <= window[0], j - i <= window[1]))
    if given["keys"] is not None:
        masks.append(lambda b, h, i, j: j < given["keys"][b])
    if given["queries"] is not None:
        masks.append(lambda b, h, i, j: i < given["queries"][b])
    mask = and_masks(*masks) if masks else None
    return _record(score, mask, (0, 0), q, k, v, scale, 0, ())[0]
