"""Convolutions."""

from .. import _arguments, _shapes
from .._arguments import here
from .._dtypes import result_type
from .common import _CODE, _call, _public
from .creation import _array, astype
from .products import _chosen

_MOST = (1 << 31) - 1


def _steps(name, given, least):
    """One number, or one for each spatial axis, as the library takes them."""
    several = given if isinstance(given, (tuple, list)) else [given]
    if not several:
        raise _arguments.wrong(here(name), "an entry at least", given)
    return ", ".join([str(_arguments.integer(here(name), n, least, _MOST)) for n in several])


def _width(n):
    if isinstance(n, _shapes.Size):
        return _shapes.text(n)
    if _shapes.is_traced_integer(n):
        return _shapes.text(_shapes.bound(n))
    return str(_arguments.integer(here("padding"), n, -_MOST, _MOST))


def _padding(given):
    """"SAME", "VALID", a number, or for each spatial axis a number or (low, high)."""
    expected = "'SAME', 'VALID', a number, or for each spatial axis a number or (low, high)"
    if isinstance(given, str):
        if given.upper() not in ("SAME", "VALID"):
            raise _arguments.wrong(here("padding"), expected, given)
        return given.lower()
    if not isinstance(given, (tuple, list)):
        return _width(given)
    parts = []
    for pair in given:
        pair = pair if isinstance(pair, (tuple, list)) else (pair, pair)
        if len(pair) != 2:
            raise _arguments.wrong(here("padding"), expected, given)
        parts.append(":".join([_width(n) for n in pair]))
    return ", ".join(parts)


def _layout(name, given):
    if given is not None and not isinstance(given, str):
        raise _arguments.wrong(here(name), "a letter per axis, as 'NCHW' or 'HWIO'", given)
    return given or ""


def _convolved(code, x, w, window, groups, layout, kernel_layout, dtype, preferred):
    x, w = _array(x), _array(w)
    chosen = _chosen(dtype, preferred)
    if chosen is None:
        d = result_type(x, w)
        x, w = astype(x, d, copy=False), astype(w, d, copy=False)
    said = (
        _layout("layout", layout),
        _layout("kernel_layout", kernel_layout),
        chosen.text if chosen is not None else "",
    )
    groups = _arguments.integer(here("groups"), groups, 1, _MOST)
    return _call(_CODE[code], (x, w), ";".join(window), groups, 0, ";".join(said))


def conv(
    x,
    w,
    /,
    strides=1,
    padding="VALID",
    dilation=1,
    groups=1,
    *,
    layout=None,
    kernel_layout=None,
    x_dilation=1,
    dtype=None,
    preferred_element_type=None,
):
    """The convolution of x with windows w, over any number of spatial axes; as neural networks have it: the
    windows are not turned around.

    x has the axes (batch, channels, space...), w (channels out, channels in / groups, space...); layout
    says otherwise, a letter per axis: "NHWC" for x and the result, with kernel_layout "HWIO" unless it is
    given. strides, dilation (of the window) and x_dilation (of x, zeros between its elements): a number, or
    one for each spatial axis. padding: "SAME", "VALID", a number, or for each axis a number or (low, high);
    negative ones leave elements out. dtype: as for matmul.

    >>> x = hop.asarray([[[1.0, 2.0, 3.0, 4.0]]])
    >>> hop.conv(x, hop.asarray([[[1.0, 0.0, -1.0]]]))
    Array([[[-2., -2.]]], dtype=float32)
    >>> hop.conv(hop.ones((8, 32, 32, 3)), hop.ones((3, 3, 3, 16)), 2, "SAME", layout="NHWC").shape
    (8, 16, 16, 16)
    """
    window = (
        _steps("strides", strides, 1),
        _padding(padding),
        _steps("dilation", dilation, 1),
        _steps("x_dilation", x_dilation, 1),
    )
    return _convolved("conv", x, w, window, groups, layout, kernel_layout, dtype, preferred_element_type)


def conv_transpose(
    x,
    w,
    /,
    strides=1,
    padding=0,
    output_padding=0,
    dilation=1,
    groups=1,
    *,
    layout=None,
    kernel_layout=None,
    dtype=None,
    preferred_element_type=None,
):
    """What the gradient of a convolution does: every element of x times its window, added up where windows
    overlap. With strides the result is larger than x.

    w has the axes (channels in, channels out / groups, space...). strides, padding, dilation and groups are
    those of the convolution whose input the result would be; output_padding: so many results more, which
    several inputs of that convolution leave open. Layouts and dtype: as for conv.

    >>> hop.conv_transpose(hop.asarray([[[1.0, 2.0]]]), hop.asarray([[[1.0, 1.0, 1.0]]]), strides=2)
    Array([[[1., 1., 3., 2., 2.]]], dtype=float32)
    """
    if isinstance(padding, str) and padding.upper() == "SAME":
        raise _arguments.wrong(here("padding"), "numbers: of a transposed convolution", padding)
    window = (
        _steps("strides", strides, 1),
        _padding(padding),
        _steps("dilation", dilation, 1),
        _steps("output_padding", output_padding, 0),
    )
    return _convolved(
        "conv_transpose", x, w, window, groups, layout, kernel_layout, dtype, preferred_element_type
    )


__all__ = _public(globals())
