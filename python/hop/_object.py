"""Objects: things of Python's that programs hand on without looking at them."""

__all__ = ["Object"]

from . import _arguments, _core, _dtypes
from ._array import Array, Sealed

_dtypes_of_kinds = {}


def _dtype_of_kind(code, text):
    """The dtype of objects of a kind: object "tokenizer"."""
    made = _dtypes_of_kinds.get(code)
    if made is None:
        made = _dtypes_of_kinds[code] = _dtypes.dtype(text, code, text, 8, "o")
    return made


def kind_of(text):
    """The kind in the type of an object."""
    return text[len('object "') : -1]


class Object(Sealed):
    """Something of Python's as a value of programs: a tokenizer, a random generator, a table that grows.
    Programs take it, carry it through loops, choose it in branches and give it back; only operators that
    are declared for its kind look at it. The program is made for the kind, and serves all its objects.

    address=True: `value` is the address of something that compiled operators know, a number. A kind is one
    of Python objects or of addresses.

    >>> a, b = hop.Object({"name": "a"}, kind="table"), hop.Object({"name": "b"}, kind="table")
    >>> choose = hop.jit(lambda p, a, b: hop.cond(p, lambda a, b: a, lambda a, b: b, a, b))
    >>> choose(True, a, b).value["name"], choose(False, a, b).value["name"]
    ('a', 'b')
    """

    __slots__ = ()

    def __new__(cls, value, /, kind="object", *, address=False):
        if isinstance(value, Array):
            raise _arguments.wrong("Object: value", "something that is no array", value)
        if not isinstance(kind, str) or "\0" in kind:
            raise _arguments.wrong("Object: kind", "a text", kind)
        if not isinstance(address, bool):
            raise _arguments.wrong("Object: address", "True or False", address)
        if address and not isinstance(value, int):
            raise _arguments.wrong("Object: value", "an address, a number", value)
        return _core.object_new(value, kind, address)

    @property
    def value(self):
        """The Python object, or the address."""
        return _core.object_value(self)

    @property
    def kind(self):
        """The kind, a text."""
        return kind_of(self.dtype.text)

    def __repr__(self):
        return f"Object({self.value!r}, kind={self.kind!r})"

    def __reduce__(self):
        raise TypeError("a hop.Object cannot be pickled: pickle what it holds, x.value")

    def __iter__(self):
        raise TypeError("a hop.Object cannot be iterated over: x.value is what it holds")

    def __eq__(self, other):
        """Whether both hold the same object."""
        if not isinstance(other, Object) or self.dtype is not other.dtype:
            return NotImplemented
        mine, its = self.value, other.value
        return mine == its if isinstance(mine, int) else mine is its

    def __ne__(self, other):
        same = self.__eq__(other)
        return same if same is NotImplemented else not same

    def __hash__(self):
        return hash((self.kind, id(self.value)))


_core.object_setup(Object, _dtype_of_kind)
