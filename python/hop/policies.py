"""What a gradient keeps of a function under hop.checkpoint. All that a policy does not keep is computed again
from the function's arguments; gradients are the same whatever is kept. The names of jax.checkpoint_policies
are there, too."""

__all__ = [
    "Policy", "nothing", "everything", "products", "products_without_batch", "names", "named", "offload",
    "budget", "both", "function", "nothing_saveable", "everything_saveable", "dots_saveable",
    "checkpoint_dots",
    "dots_with_no_batch_dims_saveable", "checkpoint_dots_with_no_batch_dims", "save_only_these_names",
    "save_any_names_but_these", "save_and_offload_only_these_names", "save_anything_except_these_names",
    "save_from_both_policies",
]  # fmt: skip

from ._arguments import place
from ._errors import InvalidError


class Policy:
    """A policy: what hop.checkpoint(f, policy=…) takes. text: what it is in the text form of programs.

    >>> hop.policies.products.text
    'products'
    """

    __slots__ = ("text", "asks")

    def __init__(self, text, asks=()):
        self.text, self.asks = text, asks

    def __repr__(self):
        return f"hop.policies.Policy({self.text!r}{f', {self.asks!r}' if self.asks else ''})"

    def __eq__(self, other):
        return isinstance(other, Policy) and (self.text, self.asks) == (other.text, other.asks)

    def __hash__(self):
        return hash((self.text, self.asks))

    def keeps(self):
        """What decides of (operator, type, name), besides the text; None: nothing."""
        if not self.asks:
            return None
        return lambda *value: any(ask(*value) for ask in self.asks)


nothing = Policy("nothing")
everything = Policy("everything")
products = Policy("products")
products_without_batch = Policy("products_without_batch")


def _list(what, given):
    given = [given] if isinstance(given, str) else list(given)
    for name in given:
        if not isinstance(name, str) or not name or name != name.strip() or set(name) & set(",[]()=\t\n"):
            raise InvalidError(
                f"{place()}policies.{what}: expected names without , = [ ] ( ), found {name!r}"
            )
    return given


def names(save=(), recompute=()):
    """Values that hop.checkpoint_name names. With save alone these are kept, all others are computed again;
    with recompute these are computed again, and what has a name in neither list is kept or computed again,
    whichever costs less.

    >>> def f(x):
    ...     return hop.sum(hop.sin(hop.checkpoint_name(hop.exp(x), "e")))
    >>> hop.grad(hop.checkpoint(f, policy=hop.policies.names(save=["e"])))(hop.asarray([0.0]))
    Array([0.5403023], dtype=float32)
    """
    save, recompute = _list("names: save", save), _list("names: recompute", recompute)
    if not save and not recompute:
        raise InvalidError(f"{place()}policies.names: expected names to save or to recompute, found none")
    for name in save:
        if name in recompute:
            raise InvalidError(f"{place()}policies.names: {name!r} is to be saved and to be recomputed")
    lists = (("save", save), ("recompute", recompute))
    written = ", ".join(f"{word} = [{', '.join(listed)}]" for word, listed in lists if listed)
    return Policy(f"names({written})")


def named(but=()):
    """Values that have a name from hop.checkpoint_name, but not these; all others are computed again.

    >>> hop.policies.named(but=["a"])
    hop.policies.Policy('named(but = [a])')
    """
    but = _list("named: but", but)
    return Policy(f"named(but = [{', '.join(but)}])" if but else "named")


def offload(names):
    """Values with these names, kept in a file until the gradient reads them: forward moves them out of
    memory, backward brings each back right before it needs it, in loops a row at a time. A named argument of
    the function is moved, too. All others are computed again. Files have no name, so nothing is left of them;
    HOP_OFFLOAD in the environment says in which directory they are made, else TMPDIR, else /tmp.

    >>> def f(x):
    ...     return hop.sum(hop.sin(hop.checkpoint_name(hop.exp(x), "e")))
    >>> hop.grad(hop.checkpoint(f, policy=hop.policies.offload(["e"])))(hop.asarray([0.0]))
    Array([0.5403023], dtype=float32)
    """
    listed = _list("offload", names)
    if not listed:
        raise InvalidError(f"{place()}policies.offload: expected names, found none")
    return Policy(f"offload([{', '.join(listed)}])")


def both(*policies):
    """What any of the policies keeps.

    >>> hop.policies.both(hop.policies.products, hop.policies.names(save=["e"]))
    hop.policies.Policy('both(products, names(save = [e]))')
    """
    if not policies:
        raise InvalidError(f"{place()}policies.both: expected policies, found none")
    parts = [policy_of(p, "policies.both") for p in policies]
    texts = [p.text for p in parts if p.text is not None]
    return Policy(f"both({', '.join(texts)})" if texts else None, tuple(f for p in parts for f in p.asks))


def function(f):
    """Values that f(operator, type, name) is true of; the name is None where a value has none. f is asked
    while the program is captured, more than once of some, and has to give the same answer each time.

    >>> large = hop.policies.function(lambda operator, type, name: operator == "exp" or name == "mine")
    >>> hop.grad(hop.checkpoint(lambda x: hop.sin(hop.exp(x)), policy=large))(0.0)
    Array(0.5403023, dtype=float32)
    """
    if not callable(f):
        raise InvalidError(f"{place()}policies.function: expected a function, found {f!r}")
    return Policy(None, (f,))


def budget(amount):
    """As much as memory allows: the gradient of the function keeps what it can and computes the rest again,
    so that what it keeps and computes on its way never takes more than so many bytes at a time, and as little
    as possible is computed again. amount: bytes, or a share of what it takes without a policy, 0.4; arguments
    and results are not counted. A budget that cannot be met is an error that says the least that can.

    >>> def f(w, x):
    ...     for _ in range(8):
    ...         x = hop.tanh(x @ w)
    ...     return hop.sum(x)
    >>> w = hop.ones((64, 64)) / 64
    >>> g = hop.jit(hop.grad(hop.checkpoint(f, policy=hop.policies.budget(0.7))))
    >>> g(w, w).shape
    (64, 64)
    """
    if isinstance(amount, (int, float)) and not isinstance(amount, bool):
        if isinstance(amount, int) and 0 < amount < 1 << 62:
            return Policy(f"budget({amount})")
        if isinstance(amount, float) and 0 < amount <= 1:
            percent = f"{amount * 100:.9f}".rstrip("0").rstrip(".")
            return Policy(f"budget({percent}%)")
    raise InvalidError(
        f"{place()}policies.budget: expected bytes, an integer, or a share between 0.0 and 1.0, "
        f"found {amount!r}"
    )


def policy_of(policy, what):
    """A policy, or its text, as a policy."""
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, str):
        return Policy(policy)
    raise InvalidError(
        f"{place()}{what}: expected a policy (hop.policies.products, hop.policies.names(save=[…]), …) or its "
        f"text, found {policy!r}"
    )


nothing_saveable, everything_saveable = nothing, everything
dots_saveable = checkpoint_dots = products
dots_with_no_batch_dims_saveable = checkpoint_dots_with_no_batch_dims = products_without_batch


def save_only_these_names(*names_which_can_be_saved):
    """JAX's spelling of names(save=[…]).

    >>> hop.policies.save_only_these_names("a", "b").text
    'names(save = [a, b])'
    """
    return names(save=names_which_can_be_saved)


def save_any_names_but_these(*names_not_to_save):
    """JAX's spelling of named(but=[…]).

    >>> hop.policies.save_any_names_but_these("a").text
    'named(but = [a])'
    """
    return named(but=names_not_to_save)


def save_and_offload_only_these_names(
    *, names_which_can_be_saved, names_which_can_be_offloaded, offload_src=None, offload_dst=None
):
    """JAX's spelling of both(names(save=[…]), offload([…])); there is one place to move values to.

    >>> hop.policies.save_and_offload_only_these_names(
    ...     names_which_can_be_saved=["a"], names_which_can_be_offloaded=["b"]
    ... ).text
    'both(names(save = [a]), offload([b]))'
    """
    moved = offload(names_which_can_be_offloaded)
    return both(names(save=names_which_can_be_saved), moved) if names_which_can_be_saved else moved


def save_anything_except_these_names(*names_not_to_save):
    """JAX's spelling of names(recompute=[…]).

    >>> hop.policies.save_anything_except_these_names("a").text
    'names(recompute = [a])'
    """
    return names(recompute=names_not_to_save)


def save_from_both_policies(policy_1, policy_2):
    """JAX's spelling of both(policy_1, policy_2).

    >>> hop.policies.save_from_both_policies(hop.policies.products, hop.policies.names(save="a")).text
    'both(products, names(save = [a]))'
    """
    return both(policy_1, policy_2)
