"""Types of hop.implicit. Written by python/build_backend/make_stubs.py."""

from collections.abc import Callable
from typing import Any

from . import Tree

def root(f: Callable[[Any], Tree], initial_guess: Tree, solve: Callable[..., Tree] | None = ..., tangent_solve: Callable[..., Tree] | None = ..., *, tol: float | None = ..., max_trips: int = ...) -> Any: ...
def fixed_point(g: Callable[[Any], Tree], initial_guess: Tree, solve: Callable[..., Tree] | None = ..., tangent_solve: Callable[..., Tree] | None = ..., *, tol: float | None = ..., max_trips: int = ...) -> Any: ...
def minimum(cost: Callable[[Any], Any], initial_guess: Tree, solve: Callable[..., Tree] | None = ..., tangent_solve: Callable[..., Tree] | None = ..., *, tol: float | None = ..., max_trips: int = ...) -> Any: ...

