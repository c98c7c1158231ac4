/* The row of any_object: an object that may be the same as others that are known under other names, so that
 * accesses of it keep their order among those of all objects. The builder puts it into bodies that are given
 * an object twice. */
#include "ops/rowkit.h"

static void infer_any_object(struct infer *in)
{
    if (!type_is_object(in->m, in->operands[0]))
        infer_error(in, "expected an object, found %s", infer_text(in, in->operands[0]));
    infer_result(in, in->operands[0]);
}

/* The object itself, and no copy. */
static void eval_any_object(struct eval *e)
{
    tensor_free(e->results[0]);
    e->results[0] = tensor_ref(e->operands[0]);
}

/* Nothing comes of an object, and it has no lanes. */
static void vjp_any_object(struct vjp *v) { HOP_UNUSED(v); }
static void jvp_any_object(struct jvp *j) { HOP_UNUSED(j); }
static void batch_any_object(struct batch *v)
{
    v->results[0] = emit(v->b, OP_any_object, v->operands, 1, NULL);
    v->result_batched[0] = false;
}

static lpv elem_any_object(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                           const lpv *idx)
{
    HOP_UNUSED(result);
    return lower_elem(L, node_operands(f, n)[0], idx);
}
static const struct op_lower lower_any_object = {
    .kind = LOWER_POINTWISE, .access = ACCESS_SAME, .cost = COST_FREE, .elem = elem_any_object
};

static const struct op_sample any_object_samples[] = {
    { "hop 1\nfn @sample(%t: object \"kind\", %x: f32[2]) -> (object \"kind\", f32[2]) {\n"
      "  %u = any_object(%t)\n  %y = sin(%x)\n  return %u, %y\n}\n",
      NULL },
};
const struct op_row row_any_object = {
    .name = "any_object",
    .meaning = "its operand, an object, which may be the same as others",
    .sig = { 1, 1 },
    .flags = OPF_NO_FOLD | OPF_OBJECTS,
    .infer = infer_any_object,
    .eval = eval_any_object,
    .vjp = vjp_any_object,
    .jvp = jvp_any_object,
    .batch = batch_any_object,
    .lower = &lower_any_object,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(any_object_samples),
};
