/* Values that are moved out of memory and back: `offload` gives its operand, in memory that a run takes from
 * a file, `fetch` a copy of it in ordinary memory. In meaning both are their operand. A gradient puts the
 * first behind what it keeps so, and the second before what reads it (transform/partition.c). A loop's stack
 * of offloaded rows lies in a file as a whole (lower_result). */
#include "loop/lower.h"
#include "ops/rowkit.h"
#include "ops/facts.h"

static void infer_same(struct infer *in) { infer_result(in, in->operands[0]); }

static void eval_same(struct eval *e)
{
    const struct tensor *r = e->results[0];
    if (r->count) memcpy(r->data, e->operands[0]->data, (size_t)r->count * tensor_width(r));
}

static void vjp_same(struct vjp *v) { v->out[0] = v->ct[0]; }
static void jvp_same(struct jvp *j) { j->out[0] = j->tangents[0]; }

static void batch_same(struct batch *v)
{
    v->results[0] = emit(v->b, (enum op)v->n->op, v->operands, 1, v->attrs);
    v->result_batched[0] = v->batched[0];
}

val emit_offload(struct builder *b, val v, uint32_t name)
{
    struct attr attrs[OFFLOAD_ATTRS] = { 0 };
    if (name) attrs[OFFLOAD_NAME] = A_STRING(name);
    return emit(b, OP_offload, &v, 1, attrs);
}

val emit_fetch(struct builder *b, val v) { return emit(b, OP_fetch, &v, 1, NULL); }

/* Elements of the value in the array are not read for a while; `again`: they are later. */
static void drop(struct lower *L, type_id t, struct array a, bool again)
{
    struct lp *p = lower_lp(L);
    if (p->buffers.data[a.buffer].kind == BUF_LOCAL) return; /* too small to be anywhere else */
    lp_add_call(p, (struct lp_call){ .kind = CALL_DROP,
                                     .target = a.buffer,
                                     .source = again,
                                     .lo = a.at,
                                     .count = lower_dim(L, type_elements(lower_module(L), t)) });
}

static void move(struct lower *L, const struct fn *f, const struct node *n)
{
    val x = node_operands(f, n)[0];
    type_id t = value_type(f, x);
    bool out = node_row(n)->moves == MOVES_OUT;
    if (!type_get(lower_module(L), t).rank) {
        lower_set_scalar(L, n, 0, lower_scalar(L, x));
        return;
    }
    struct array from = lower_array(L, x), to = lower_result(L, n, 0);
    lower_copy(L, t, from, to, out ? "a value that is moved out of memory" : "a value that comes back");
    drop(L, t, out ? to : from, out);
}

static const struct op_lower lower_move = { .kind = LOWER_BLOCK, .block = move };

static const struct op_sample offload_samples[] = {
    { "hop 1\nfn @sample[T](%x: f32[T, 2]) -> (f32[T, 2]) {\n  %y = sin(%x)\n  %h = offload {name = \"a\"} "
      "(%y)\n  %z = fetch(%h)\n  %e = mul(%z, %x)\n  return %e\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[]) -> (f64[]) {\n  %h = offload(%x)\n  return %h\n}\n", NULL },
};
static const struct op_sample fetch_samples[] = {
    { "hop 1\nfn @sample(%x: f64[4, 3]) -> (f64[3]) {\n  %h = offload(%x)\n  %z = fetch(%h)\n  %s = sum "
      "{dims "
      "= [0]} (%z)\n  return %s\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[0]) -> (i32[0]) {\n  %z = fetch(%x)\n  return %z\n}\n", NULL },
};
static const struct attr_spec offload_attrs[] = { [OFFLOAD_NAME] = { "name", ATTR_STRING, false, NULL } };
const struct op_row row_offload = {
    .name = "offload",
    .meaning = "its operand, in memory that a run takes from a file",
    .moves = MOVES_OUT,
    .sig = { 1, 1, ROW_ATTRS(offload_attrs) },
    .infer = infer_same,
    .eval = eval_same,
    .vjp = vjp_same,
    .jvp = jvp_same,
    .batch = batch_same,
    .lower = &lower_move,
    .range = range_of_operand,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(offload_samples),
};
const struct op_row row_fetch = {
    .name = "fetch",
    .meaning = "its operand, in ordinary memory; what `offload` gave is not read any more",
    .moves = MOVES_BACK,
    .sig = { 1, 1 },
    .flags = OPF_NO_MERGE,
    .infer = infer_same,
    .eval = eval_same,
    .vjp = vjp_same,
    .jvp = jvp_same,
    .batch = batch_same,
    .lower = &lower_move,
    .range = range_of_operand,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(fetch_samples),
};
