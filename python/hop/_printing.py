"""Arrays as text, laid out as NumPy lays them out, and the options for it."""

__all__ = ["set_printoptions", "get_printoptions", "printoptions"]

import contextlib
import contextvars
import math
import struct

from . import _arguments, _dtypes
from ._arguments import here

_DEFAULTS = {"precision": 8, "threshold": 1000, "edgeitems": 3, "linewidth": 75, "suppress": False}
_options = contextvars.ContextVar("hop_printoptions", default=_DEFAULTS)
_NAME = "Array("


def _checked(given):
    for name, value in given.items():
        if value is None:
            continue
        if name == "suppress":
            _arguments.flag(here(name), value)
        elif not (name == "threshold" and value == math.inf):
            _arguments.size(here(name), value)
    return {**_options.get(), **{name: value for name, value in given.items() if value is not None}}


def set_printoptions(*, precision=None, threshold=None, edgeitems=None, linewidth=None, suppress=None):
    """How arrays are shown from now on: digits behind the point (8), from how many elements on the middle
    is left out (1000), how many are shown at each end then (3), how long lines may be (75), whether small
    numbers are shown as 0 rather than with exponents (False). What is not said stays.

    >>> before = hop.get_printoptions()
    >>> hop.set_printoptions(precision=2)
    >>> hop.asarray([1 / 3])
    Array([0.33], dtype=float32)
    >>> hop.set_printoptions(**before)
    """
    _options.set(
        _checked(
            {
                "precision": precision, "threshold": threshold, "edgeitems": edgeitems,
                "linewidth": linewidth, "suppress": suppress,
            }
        )
    )


def get_printoptions():
    """The options that set_printoptions sets, as a dict. They are NumPy's names, as far as they are here.

    >>> hop.get_printoptions()["precision"]
    8
    """
    return dict(_options.get())


@contextlib.contextmanager
def _within(options):
    before = _options.set(options)
    try:
        yield dict(options)
    finally:
        _options.reset(before)


def printoptions(*, precision=None, threshold=None, edgeitems=None, linewidth=None, suppress=None):
    """`with hop.printoptions(precision=3):` shows arrays so within it alone.

    >>> with hop.printoptions(precision=3):
    ...     print(hop.asarray([1 / 3]))
    [0.333]
    """
    return _within(
        _checked(
            {
                "precision": precision, "threshold": threshold, "edgeitems": edgeitems,
                "linewidth": linewidth, "suppress": suppress,
            }
        )
    )


# ---- digits ----


def _float32(x):
    try:
        return struct.unpack("f", struct.pack("f", x))[0]
    except OverflowError:
        return math.inf


def _float16(x):
    try:
        return struct.unpack("e", struct.pack("e", x))[0]
    except OverflowError:
        return math.inf


def _bfloat16(x):
    """The nearest number with eight digits of two; ties to the even one."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(round(math.ldexp(mantissa, 8)), exponent - 8)


# How a dtype rounds, and how many decimal digits tell all of its numbers apart.
_ROUNDED = {"float16": (_float16, 5), "bfloat16": (_bfloat16, 4), "float32": (_float32, 9)}


def _shortest(x, name):
    """(digits, exponent) of the shortest decimal that the dtype rounds to x > 0: 0.digits * 10**exponent."""
    text = repr(x)
    if name in _ROUNDED:
        rounded, most = _ROUNDED[name]
        text = next(t for n in range(most) if rounded(float(t := f"{x:.{n}e}")) == x or n + 1 == most)
    mantissa, _, power = text.partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    zeros = len(whole + part) - len(digits)
    return digits.rstrip("0"), len(whole) - zeros + int(power or 0)


def _positional(x, name, precision):
    """(digits before the point, with the sign; digits behind it) of a number."""
    sign = "-" if math.copysign(1, x) < 0 else ""
    if not x:
        return sign + "0", ""
    digits, point = _shortest(abs(x), name)
    if len(digits) - point > precision:
        whole, _, part = f"{abs(x):.{precision}f}".partition(".")
        return sign + whole, part.rstrip("0")
    padded = digits.ljust(point, "0")
    return sign + (padded[:point] if point > 0 else "0"), (
        padded[point:] if point > 0 else "0" * -point + digits
    )


def _scientific(x, name, precision):
    """(the digit before the point, with the sign; digits behind it; the exponent) of a number."""
    sign = "-" if math.copysign(1, x) < 0 else ""
    if not x:
        return sign + "0", "", 0
    digits, point = _shortest(abs(x), name)
    if len(digits) - 1 > precision:
        mantissa, _, power = f"{abs(x):.{precision}e}".partition("e")
        return sign + mantissa[0], mantissa[2:].rstrip("0"), int(power)
    return sign + digits[0], digits[1:], point - 1


def _with_exponent(x, behind):
    text = f"{x:.{behind}e}"
    return text if behind else text.replace("e", ".e")


# How many digits before the point are shown without exponents, where the dtype has fewer than a float64.
_DIGITS = {"float16": 3, "bfloat16": 2, "float32": 6}


def _needs_exponents(finite, name, options):
    sizes = [abs(x) for x in finite if x]
    if not sizes:
        return False
    largest, smallest, rounded = max(sizes), min(sizes), _ROUNDED.get(name, (float,))[0]
    if largest >= 10.0 ** _DIGITS.get(name, 8):
        return True
    return not options["suppress"] and (smallest < rounded(1e-4) or rounded(largest / smallest) > 1000)


def _float_texts(numbers, name, options):
    """A text for each number, all of the same width."""
    precision, finite = options["precision"], [x for x in numbers if math.isfinite(x)]
    if _needs_exponents(finite, name, options):
        behind = max(len(_scientific(x, name, precision)[1]) for x in finite)
        texts = [_with_exponent(x, behind) for x in finite]
        powers = max(len(t.partition("e")[2]) for t in texts)
        texts = [f"{t.partition('e')[0]}e{int(t.partition('e')[2]):+0{powers}d}" for t in texts]
        left, right = max(t.index(".") for t in texts), behind + powers + 1
    else:
        read = [_positional(x, name, precision) for x in finite]
        left, right = (
            max((len(whole) for whole, _ in read), default=0),
            max((len(part) for _, part in read), default=0),
        )
        texts = [f"{whole}.{part.ljust(right)}" for whole, part in read]
    width = left + 1 + right
    strange = [str(x) for x in numbers if not math.isfinite(x)]
    if strange:
        longest = max(map(len, strange))
        width = max(width, longest) if finite else longest
    made = iter(texts)
    return [(next(made) if math.isfinite(x) else str(x)).rjust(width) for x in numbers]


def _texts(numbers, dtype, options, alone):
    if dtype.kind == "f":
        return _float_texts(numbers, dtype.name, options)
    texts = [str(x) for x in numbers]
    width = max(map(len, texts))
    return [t.rjust(5 if dtype is _dtypes.bool and not alone else width) for t in texts]


# ---- layout ----


class _Layout:
    """The lines of an array. texts: those of the elements that are shown, in their order; edge: how many
    there are at each end of an axis, None: all."""

    def __init__(self, shape, texts, separator, edge):
        self.shape, self.texts, self.separator, self.edge = shape, iter(texts), separator, edge

    def short(self, axis):
        return self.edge is not None and self.shape[axis] > 2 * self.edge

    def words(self, axis, indent, width):
        """What stands along an axis."""
        count = 2 * self.edge if self.short(axis) else self.shape[axis]
        out = [self.block(axis + 1, indent + " ", width - 1) for _ in range(count)]
        if self.short(axis):
            out.insert(self.edge, "...")
        return out

    def block(self, axis, indent, width):
        rank = len(self.shape) - axis
        if not rank:
            return next(self.texts)
        words = self.words(axis, indent, width)
        if rank > 1:
            between = self.separator.rstrip() + "\n" * (rank - 1) + indent
            return "[" + between.join(words) + "]"
        done, line = "", indent
        for i, word in enumerate(words):
            last = i + 1 == len(words)
            if len(line) + len(word) > width - 1 and len(line) > len(indent):
                done, line = done + line.rstrip() + "\n", indent
            line += word + ("" if last else self.separator)
        return "[" + (done + line)[len(indent) :] + "]"


def _shown(x, edge):
    """The elements that are shown, one after the other."""
    if edge is None or x.ndim == 0:
        found = x.tolist()
        for _ in range(x.ndim - 1):
            found = [n for row in found for n in row]
        return found if x.ndim else [found]
    n = x.shape[0]
    picked = range(n) if n <= 2 * edge else [*range(edge), *range(n - edge, n)]
    return [number for i in picked for number in _shown(x[i], edge)]


def _written(x, separator, indent, taken, options):
    edge = options["edgeitems"] if x.size > options["threshold"] else None
    texts = _texts(_shown(x, edge), x.dtype, options, x.ndim == 0)
    return _Layout(x.shape, texts, separator, edge).block(
        0, " " * (indent + bool(x.ndim)), options["linewidth"] - taken
    )


def array_repr(x):
    options = _options.get()
    kind = f"dtype={x.dtype.name})"
    if not x.size:
        return f"{_NAME}[], " + (f"shape={x.shape}, " if x.shape != (0,) else "") + kind
    text = _NAME + _written(x, ", ", len(_NAME), 1, options) + ","
    if x.size > options["threshold"]:
        kind = f"shape={x.shape}, {kind}"
    last = len(text) - (text.rfind("\n") + 1)
    return text + (" " if last + len(kind) + 1 <= options["linewidth"] else "\n" + " " * len(_NAME)) + kind


def array_str(x):
    if not x.size:
        return "[]"
    if x.ndim:
        return _written(x, " ", 0, 0, _options.get())
    number = x.item()
    if x.dtype.kind != "f" or not math.isfinite(number):
        return str(number)
    if not number or 1e-4 <= abs(number) < 10.0 ** _DIGITS.get(x.dtype.name, 16):
        whole, part = _positional(number, x.dtype.name, 400)
        return f"{whole}.{part or '0'}"
    whole, part, power = _scientific(number, x.dtype.name, 400)
    return f"{whole}{'.' * bool(part)}{part}e{power:+03d}"
