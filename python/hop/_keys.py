"""Keys under which programs are kept: hashable values that are equal only when what they stand for cannot
be told apart by a program.

Python takes 1, 1.0 and True for equal, and 0.0 and -0.0, but programs made of them differ; and NaN, which
Python takes for unequal to itself, would be a new program on every call."""

import struct


def value_key(x):
    """The key of a value that is part of a program: its type and its bits, and the same of what is inside
    of tuples, frozen sets and frozen dataclasses. Other classes say by their own __eq__ and __hash__ what
    is equal, among values of one class. A TypeError says that the value, or a part of it, is not hashable."""
    cls = type(x)
    if cls in _WHOLE:
        return (cls, x)
    make = _PARTS.get(cls)
    if make is not None:
        return (cls, make(x))
    if cls.__module__ == "numpy" and hasattr(x, "dtype") and x.ndim == 0 and cls.__hash__ is not None:
        return (cls, x.dtype.str, x.tobytes())
    for base, make in _BASES:
        if issubclass(cls, base) and cls.__eq__ is base.__eq__:
            return (cls, make(x))
    if _compares_fields(cls):
        return (cls, _fields(x))
    if cls.__module__ == "decimal" and cls.__name__ == "Decimal":
        return (cls, x.as_tuple())  # 1.0 and 1.00, 0 and -0 are equal
    hash(x)
    return (cls, x)


def _bits(x):
    return struct.pack("d", x)


def _items(x):
    return tuple([value_key(y) for y in x])


_WHOLE = frozenset((int, bool, str, bytes, type(None)))  # equal only when they are the same
_PARTS = {
    float: _bits,
    complex: lambda x: struct.pack("2d", x.real, x.imag),
    tuple: _items,
    frozenset: lambda x: frozenset(_items(x)),
    range: lambda x: (x.start, x.stop, x.step),
    slice: lambda x: _items((x.start, x.stop, x.step)),
}
# Classes made from these: enums, named tuples, …
_BASES = (
    (tuple, _items),
    (frozenset, _PARTS[frozenset]),
    (float, _bits),
    (complex, _PARTS[complex]),
    (int, int),
    (str, str.__str__),
    (bytes, bytes.__bytes__),
)


def _compares_fields(cls):
    """Whether a class is a dataclass whose __eq__ is the one that compares its fields, not one that
    somebody wrote."""
    code = getattr(cls.__eq__, "__code__", None) if hasattr(cls, "__dataclass_fields__") else None
    return code is not None and code.co_qualname.startswith("__create_fn__")


def _fields(x):
    import dataclasses  # there already: somebody has made a dataclass

    hash(x)  # which says whether it can be part of a key at all
    try:
        return _items([getattr(x, f.name) for f in dataclasses.fields(x) if f.compare])
    except TypeError:  # a field that the hash leaves out
        return x
