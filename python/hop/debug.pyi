"""Types of hop.debug. Written by python/build_backend/make_stubs.py."""

from collections.abc import Callable
from typing import Any

from . import ArrayLike

def callback(callback: Callable[..., Any], /, *args: ArrayLike, ordered: bool = ..., **kwargs: Any) -> None: ...
def print(fmt: str, /, *args: ArrayLike, ordered: bool = ..., **kwargs: Any) -> None: ...
