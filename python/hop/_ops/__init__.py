"""The operators, under the names of the array-API standard, in families. Each works on arrays and on
traced values, on NumPy arrays and on Python numbers."""

from . import axes, convolutions, creation, effects, elementwise, parts, products, shape, windows
from .axes import *  # noqa: F403
from .convolutions import *  # noqa: F403
from .creation import *  # noqa: F403
from .effects import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .parts import *  # noqa: F403
from .products import *  # noqa: F403
from .shape import *  # noqa: F403
from .windows import *  # noqa: F403

__all__ = [
    name
    for family in (creation, elementwise, axes, shape, parts, windows, products, convolutions, effects)
    for name in family.__all__
]
