"""What hop offers, as the array-API standard asks for it: __array_namespace_info__()."""

from . import _dtypes

_MOST_AXES = 32


class Info:
    """Answers about devices, dtypes and capabilities."""

    __slots__ = ()
    __module__ = "hop"

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": _MOST_AXES}

    def default_device(self):
        return "cpu"

    def devices(self):
        return ["cpu"]

    def default_dtypes(self, *, device=None):
        _check(device)
        return {"real floating": _dtypes.float32, "integral": _dtypes.int64, "indexing": _dtypes.int64}

    def dtypes(self, *, device=None, kind=None):
        _check(device)
        standard = [d for d in _dtypes.ALL if d not in (_dtypes.float16, _dtypes.bfloat16)]
        return {d.name: d for d in standard if kind is None or (kind != () and _dtypes.isdtype(d, kind))}


def _check(device):
    if device not in (None, "cpu"):
        raise ValueError(f"there is no device {device!r}")


def __array_namespace_info__():
    """What hop offers: an object with capabilities(), devices(), default_device(), dtypes(),
    default_dtypes().

    >>> hop.__array_namespace_info__().default_device()
    'cpu'
    """
    return Info()
