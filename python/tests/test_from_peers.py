"""docs/from-jax.md and docs/from-pytorch.md: every name of hop in the tables is there and used in an example
of its page, what is said not to be there yet is not, and no operator that takes functions is left out."""

import functools
import pathlib
import re
import unittest

import hop

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
JAX = """
    jit grad value_and_grad vjp jvp linearize linear_transpose jacfwd jacrev jacobian hessian vmap pmap
    shard_map vectorize checkpoint remat checkpoint_policies checkpoint_name custom_vjp custom_jvp
    custom_vmap sequential_vmap custom_gradient closure_convert eval_shape make_jaxpr export disable_jit
    named_call named_scope pure_callback io_callback debug.print debug.callback ensure_compile_time_eval
    jet checkify check_grads scan while_loop fori_loop cond switch map associative_scan reduce
    reduce_window custom_root custom_linear_solve platform_dependent stop_gradient optimization_barrier
    piecewise select apply_along_axis apply_over_axes fromfunction frompyfunc tree.map ravel_pytree psum
    ffi_call pallas minimize odeint
"""
PYTORCH = """
    compile export cond switch while_loop while_loop_stack_output scan associative_scan map foreach_map
    invoke_subgraph nested_compile_region local_map flex_attention checkpoint
    create_selective_checkpoint_contexts no_grad enable_grad set_grad_enabled inference_mode autocast
    autograd.Function wrap strict_mode base_hop hints_wrapper run_const_graph wrap_with_set_grad_enabled
    wrap_with_autocast out_dtype with_effects print call_torchbind executorch_call_delegate
    auto_functionalized triton_op custom_op invoke_leaf_function trace_wrapped run_and_save_rng_state
    run_with_rng_state grad vjp jvp vmap jacrev jacfwd hessian linearize functional_call
    stack_module_state functionalize backward register_hook register_post_accumulate_grad_hook
    register_full_backward_hook saved_tensors_hooks gradcheck detect_anomaly
    opcheck parametrize detach
"""


def rows(text):
    """(the peer's names, hop's spelling, remarks) of each row of the tables before "What differs"."""
    for line in text.partition("## What differs")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[0] not in ("JAX", "PyTorch", "---"):
            yield cells


def names_of_hop(text):
    code = " ".join(re.findall(r"`([^`]*)`", text))
    return sorted(set(re.findall(r"\bhop((?:\.[A-Za-z_]\w*)+)", code)))


class FromPeers(unittest.TestCase):
    def on_pages(self, check):
        for name, expected in (("from-jax.md", JAX), ("from-pytorch.md", PYTORCH)):
            with self.subTest(page=name):
                check((DOCS / name).read_text(encoding="utf-8"), expected.split())

    def test_complete(self):
        def check(text, expected):
            named = " ".join(peer for peer, _, _ in rows(text))
            missing = [name for name in expected if not re.search(rf"\b{re.escape(name)}\b", named)]
            self.assertEqual(missing, [])

        self.on_pages(check)

    def test_names(self):
        def check(text, _):
            examples = "\n".join(re.findall(r"^(?:>>>|\.\.\.) .*$", text, re.MULTILINE))
            said = " ".join(f"{spelling} {remarks}" for _, spelling, remarks in rows(text))
            used = set(names_of_hop(said))
            for name in sorted(used):
                functools.reduce(getattr, name[1:].split("."), hop)  # an AttributeError names it
            unused = [name for name in sorted(used) if not re.search(rf"\bhop{re.escape(name)}\b", examples)]
            self.assertEqual(unused, [], "no example has these")

        self.on_pages(check)

    def test_what_is_not_there(self):
        def check(text, _):
            absent = [peer for peer, spelling, _ in rows(text) if spelling == "not there yet"]
            self.assertTrue(absent)
            for name in re.findall(r"`([^`]*)`", " ".join(absent)):
                self.assertFalse(hasattr(hop, name.rpartition(".")[2]), f"hop has {name} now")

        self.on_pages(check)


if __name__ == "__main__":
    unittest.main()
