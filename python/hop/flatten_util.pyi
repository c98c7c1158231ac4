"""Types of hop.flatten_util. Written by python/build_backend/make_stubs.py."""

from collections.abc import Callable

from . import Array, Tree

def ravel_pytree(pytree: Tree) -> tuple[Array, Callable[[Array], Tree]]: ...
