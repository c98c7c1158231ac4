"""Types of hop.policies. Written by python/build_backend/make_stubs.py."""

from collections.abc import Sequence
from typing import Any

class Policy:
    text: str | None
    def __init__(self, text: str | None, asks: tuple[Any, ...] = ...) -> None: ...

nothing: Policy
everything: Policy
products: Policy
products_without_batch: Policy
nothing_saveable: Policy
everything_saveable: Policy
dots_saveable: Policy
checkpoint_dots: Policy
dots_with_no_batch_dims_saveable: Policy
checkpoint_dots_with_no_batch_dims: Policy

def both(*policies: ArrayLike) -> Policy: ...
def function(f: Callable[..., Any]) -> Policy: ...
def names(save: ArrayLike = ..., recompute: ArrayLike = ...) -> Policy: ...
def save_anything_except_these_names(*names_not_to_save: ArrayLike) -> Policy: ...
def save_from_both_policies(policy_1: ArrayLike, policy_2: ArrayLike) -> Policy: ...
def save_only_these_names(*names_which_can_be_saved: ArrayLike) -> Policy: ...
