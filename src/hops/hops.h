/* What the higher-order rows share: lists of tensors that a throw frees (eval), types as the reference sees
 * them, and making a body out of another function by inlining it under new parameters (transforms). */
#ifndef HOP_HOPS_H
#define HOP_HOPS_H

#include "hops/budget.h"
#include "hops/lower_hops.h"
#include "interp/interp.h"
#include "ir/loop.h"
#include "ops/build.h"
#include "transform/cost.h"
#include "transform/transform.h"

#define HOP_SAMPLES(list) .samples = list, .n_samples = HOP_COUNT(list)

/* ---- eval ---- */

/* Owned references, freed when a throw passes between begin and end. */
struct tensor_list {
    uint32_t n;
    struct tensor *data[];
};
static inline void tensor_list_free(void *list)
{
    struct tensor_list *l = list;
    for (uint32_t i = 0; i < l->n; i++) tensor_free(l->data[i]);
    hop_free(l);
}
static inline struct tensor_list *tensor_list_begin(uint32_t n)
{
    struct tensor_list *l = hop_calloc(1, sizeof *l + n * sizeof *l->data);
    l->n = n;
    hop_cleanup_push(tensor_list_free, l);
    return l;
}
static inline void tensor_list_end(struct tensor_list *l)
{
    hop_cleanup_pop(l);
    tensor_list_free(l);
}
static inline void tensor_list_set(struct tensor_list *l, uint32_t i, struct tensor *t)
{
    tensor_free(l->data[i]);
    l->data[i] = t;
}

/* The outer symbols of region r's function, in a list that `tensor_list_end` frees as well: an i64 tensor. */
static inline const int64_t *eval_region_symbols(const struct eval *e, uint32_t r, struct tensor_list *owner,
                                                 uint32_t slot)
{
    const struct region *g = node_region(e->f, e->n, r);
    int64_t n = g->n_dims;
    tensor_list_set(owner, slot, tensor_new(DT_I64, 1, &n));
    interp_region_symbols(e->m, g, e->symbols, owner->data[slot]->data);
    return owner->data[slot]->data;
}

static inline size_t tensor_bytes(const struct tensor *t)
{
    return (size_t)t->count * dtype_info[t->dtype].size;
}

/* A new tensor for slice t along the leading dim; copied, because tensors at this level own their data. */
static inline struct tensor *tensor_slice(const struct tensor *whole, int64_t t)
{
    struct tensor *s = tensor_new((enum dtype)whole->dtype, whole->rank - 1u, whole->dims + 1);
    if (s->count) memcpy(s->data, (const char *)whole->data + (size_t)t * tensor_bytes(s), tensor_bytes(s));
    return s;
}
static inline void tensor_put(struct tensor *whole, int64_t t, const struct tensor *slice)
{
    size_t bytes = tensor_bytes(slice);
    if (bytes) memcpy((char *)whole->data + (size_t)t * bytes, slice->data, bytes);
}
/* Room for result k, whose leading dim is `rows`. */
static inline struct tensor *eval_new_stack(const struct eval *e, uint32_t k, int64_t rows)
{
    struct type t = type_get(e->m, value_type(e->f, e->n->results + k));
    int64_t dims[MAX_RANK] = { rows };
    for (uint32_t d = 1; d < t.rank; d++) dims[d] = dim_eval(e->m, t.dims[d], e->symbols);
    return tensor_new((enum dtype)t.dtype, t.rank, dims);
}

/* Columns of rows whose one region runs once on its own operands (calls.c): its results are theirs; sizes
 * that only the body knows become symbols that the node binds. */
void call_infer(struct infer *in);
void call_eval(struct eval *e);
/* body: the region's, or one like it; recompute: it keeps the operands only; attrs: of the node over the
 * forward half, NULL: as the node has them. At the module's price. */
void call_vjp_forward(struct vjp_forward *v, uint32_t body, bool recompute, const struct attr *attrs);
void call_vjp(struct vjp *v, const struct attr *attrs); /* attrs: of the node over the backward */
void call_jvp(struct jvp *j, const struct attr *attrs);
void call_batch(struct batch *v);

/* Policies of checkpointed calls (policy.c): a string of words. */
void infer_policy(struct infer *in, const struct attr *policy);
/* The body, its values tagged as the policy says; *recompute: all others are run again. */
uint32_t policy_body(struct module *m, uint32_t fn, const struct attr *policy, bool *recompute);
bool policy_budget(struct module *m, const struct attr *policy, struct budget *out); /* is it one? */

/* Regions that are computed once (region_once.c): parts of the rules of region. */
void once_infer(const struct infer *in);
enum once region_once(const struct module *m, const struct fn *f, const struct node *n);
/* Attributes of what a derivative makes of a region: those of any other kind as they are. */
const struct attr *once_derived(struct builder *b, const struct attr *attrs);
void once_jvp(struct jvp *j);

/* ---- transforms ---- */

typedef vec(val) val_list; /* in the arena of the builder that its values are of */

/* select whose condition has the leading dims of x and y. */
static inline val emit_where(struct builder *b, val condition, val x, val y)
{
    struct type t = emit_type(b, x);
    uint32_t rank = emit_type(b, condition).rank, at[MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) at[i] = i;
    if (rank != t.rank) condition = emit_broadcast(b, condition, t.rank, t.dims, at);
    return emit_select(b, condition, x, y);
}
/* The indices of a counted loop in an array (loops.c). */
val emit_indices(struct builder *b, val from, dim trips);
/* How many trips a counted loop makes, as a value. */
static inline val emit_trips(struct builder *b, val from, val to)
{
    return emit2(b, OP_sub, emit2(b, OP_max, to, from), from);
}
static inline val emit_bool(struct builder *b, bool value) { return emit_full(b, DT_BOOL, value, 0, NULL); }

/* Dims for a function whose outer symbols are those of the region and `extra` more, each of which is `fill`
 * (HOP_NONE: found from operands). */
static inline const dim *extend_dims(struct builder *b, const dim *dims, uint32_t n, uint32_t total, dim fill)
{
    dim *out = ARENA_NEW(&b->arena, dim, total);
    for (uint32_t i = 0; i < total; i++) out[i] = i < n ? dims[i] : fill;
    return out;
}

/* A body made for a node, usually out of a function: it is like that function, but types of the function
 * around can be written in it too; the dims they need become symbols (before any node is made that binds
 * one). */
struct new_body {
    struct builder b;
    struct builder *around;
    dim *dims; /* what each outer symbol is around; HOP_NONE: found from operands */
    uint32_t cap;
};
void new_body_begin(struct new_body *body, struct builder *around, const struct fn *like, const dim *dims,
                    uint32_t n_dims);
dim new_body_dim(struct new_body *body, dim around);
type_id new_body_type(struct new_body *body, type_id around);
struct region_in new_body_finish(struct new_body *body, const val *results, uint32_t n_results,
                                 const val *operands, uint32_t n_operands);

/* Operands for a body that runs on all lanes although only those in mask need it: the others get the operand
 * of a lane that does, so that nothing is computed that the program would not compute, and no infinity times
 * zero reaches a gradient. */
val running_lane(struct builder *b, val mask); /* number of one (the last) */
val safe_operand(struct builder *b, val mask, val lane, val x);

/* Adds to a mask; does it grow? For masks of carries, which grow until they are stable. */
static inline bool mask_grow(bool *mask, const bool *more, uint32_t n)
{
    bool grown = false;
    for (uint32_t k = 0; k < n; k++) {
        if (!more[k] || mask[k]) continue;
        mask[k] = true;
        grown = true;
    }
    return grown;
}

/* ---- schedules: what the gradient of a loop keeps (schedule.c) ---- */

/* The three attributes as a loop row lists them, `first` being its number of `schedule`. */
extern const char *const schedule_words[];
#define SCHEDULE_ATTRS(first) \
    [first] = { "schedule", ATTR_WORD, false, schedule_words }, \
    [(first) + 1] = { "every", ATTR_INTS, false, NULL }, \
    [(first) + 2] = { "snapshots", ATTR_INT, false, NULL }
struct schedule {
    uint8_t kind; /* SCHEDULE_… */
    uint32_t n_every;
    const uint32_t
        *every; /* SCHEDULE_EVERY: sizes of blocks, of blocks in blocks, …; the first is larger than 1 */
    uint32_t snapshots; /* SCHEDULE_BINOMIAL */
};
void infer_schedule(struct infer *in, const struct attr *attrs);
/* "none", "recompute", "sqrt", "every 8, 2", "binomial 20" as the three attributes; false: it is none. */
bool schedule_read(const char *text, struct attr attrs[LOOP_SCHEDULE_ATTRS], struct arena *arena);
struct schedule schedule_of(const struct attr *attrs);
static inline void schedule_copy(struct attr *to, const struct attr *from)
{
    memcpy(to, from, LOOP_SCHEDULE_ATTRS * sizeof *to);
}

/* Batching a body: by the constant size itself, or by a symbol that the body gets as its last one. */
static inline dim batch_body_size(const struct batch *v)
{
    return dim_is_const(v->b->m, v->size) ? v->size : HOP_NONE;
}
static inline uint32_t batch_body(const struct batch *v, uint32_t fn, const bool *batched, const bool *force,
                                  bool lanes, bool *found)
{
    return batch_axis(v->b->m, fn, batched, batch_body_size(v), force, lanes, v->axis, found);
}
static inline const dim *batch_body_dims(const struct batch *v, const struct region_in *r,
                                         const struct fn *batched, uint32_t n_dims)
{
    return extend_dims(v->b, r->dims, n_dims, batched->n_outer_symbols, v->size);
}

/* A node that is differentiated as what a function made for it does, with the node's operands in order. */
struct replaced {
    const struct vjp_halves *halves;
    const dim *dims;
    val *residuals;
};
struct replaced *replaced_vjp_forward(struct vjp_forward *v, struct region_in made);
void replaced_vjp(struct vjp *v, const struct replaced *r);

/* Values, then the tangents of the active ones (zeros for those that become active on the way); returns how
 * many. */
uint32_t with_tangents(struct builder *b, val *out, const val *values, const val *tangents,
                       const bool *active, uint32_t n);

/* ---- a loop's step under the transforms: what the loop rows share (loops.c) ---- */

enum residual_kind {
    FROM_OPERAND, /* the body's own operand `index` */
    FROM_INITIAL, /* the initial value of carry `index`, which no step changes */
    FROM_HOISTED, /* result `index` of the hoisted function: the same in every step */
    FROM_OVER,    /* slice of `over` operand `index` */
    FROM_STACK,   /* row of stack `index` of the forward body */
    FROM_SHIFTED  /* the same one step earlier, before the first step the initial value of `carry` */
};
struct step_residual {
    uint8_t kind;
    uint32_t index;
    uint32_t carry; /* shifted, and stacks that hold what a carry was before the step; else HOP_NONE */
};
/* The reverse of a loop's step, and what its forward loop left for the way back. */
struct reversed_step {
    struct loop loop; /* in terms of the builder of the forward loop; blocks: the loop over blocks */
    const struct vjp_halves *halves;
    bool *active;        /* per parameter of the body, carries by fixpoint */
    bool *result_active; /* per result of the body */
    bool *travels;       /* per carry: its cotangent goes from step to step */
    uint32_t forward;    /* the body with n_extra more stacks */
    uint32_t n_extra;
    uint32_t hoisted; /* (as the body) -> residuals that depend on own operands only; HOP_NONE: none */
    uint32_t n_hoisted;
    struct step_residual *residuals;
    bool masked;    /* the last extra stack says which steps ran */
    bool recompute; /* backward runs the body again from the carries */
    /* by step_emit_forward */
    uint32_t
        snapshots; /* how many rows of carries the way back may keep; 0: what the step needs is stacked */
    struct loop_results made; /* stacks: those of the body, then the extra ones */
    const val *kept;          /* the hoisted residuals */
};
/* active: per parameter of the body; wanted: per result of it. recompute: keep the carries only. masked: add
 * a stack of `true`, so that batched loops know which steps a lane made. */
struct reversed_step *step_reverse(struct module *m, struct arena *arena, const struct loop *l,
                                   const bool *active, const bool *wanted, bool masked, bool recompute);
/* Emits the loop that runs forward, `like` this one (s->loop, or that with other attributes), and says what
 * it keeps (saved_add) for node n. */
void step_emit_forward(struct builder *b, struct reversed_step *s, const struct loop *like,
                       uint32_t snapshots, const struct node *n);
/* The whole column vjp of a loop whose forward column made s. map: steps are independent, as below. */
void step_vjp(struct vjp *v, const struct reversed_step *s, bool map);
struct step_backward {
    const struct reversed_step *s;
    dim length;
    bool map;        /* a map goes back, and cotangents of own operands are summed behind it */
    const val *over; /* arrays that hold the slices of each step; of a counted loop the indices */
    const val *ct;   /* per result of the body: of the last carry, of the stack; VAL_NONE: zero */
};
/* Emits the loop that runs backwards; out: per parameter of the body its cotangent or VAL_NONE. */
void step_emit_backward(struct builder *b, const struct step_backward *in, val *out);
/* Adds the cotangents that the loop back starts with: of carries that travel, sums. */
void step_initial_cotangents(struct builder *b, const struct step_backward *in, val_list *out);
/* The body of the loop back. over, own: what its slices and own operands stand for, each once; at: per
 * residual, where; is_own: which of the two. */
struct backward_operands {
    val *over, *own;
    uint32_t n_over, n_own;
    uint32_t *at;
    bool *is_own;
};
uint32_t step_backward_body(struct module *m, const struct step_backward *in,
                            const struct backward_operands *ops);
uint32_t list_once(val *list, uint32_t *n, val v); /* its position, at the end if it was not there */

/* The same for a loop that kept nothing but its initial carries and counts its trips: carries are computed
 * again from `count` snapshots, as seldom as that many allow. The forward loop has no extra stacks. */
struct snapshots {
    uint32_t count;
    val trips; /* VAL_NONE: in->length says it and slices are rows (a scan) */
    val from;  /* of a counted loop: its first index, the one slice; VAL_NONE: no slices */
};
bool step_needs_snapshots(struct module *m, const struct reversed_step *s); /* of a step made with `recompute`
                                                    and without mask: not all it reads is there anyway */
void step_emit_from_snapshots(struct builder *b, const struct step_backward *in, const struct snapshots *how,
                              val *out);

/* ---- what the loop rows do alike (loop_rows.c) ---- */

/* The columns themselves; loop_eval and loop_batch are those of loops without a predicate, loop_batch where
 * all lanes make as many steps. */
void loop_eval(struct eval *e);
void loop_jvp(struct jvp *j);
void loop_batch(struct batch *v);
/* What the node says per operand, for the parameters of its body; false for an index. */
bool *loop_body_mask(struct arena *arena, const struct fn *f, const struct node *n, const struct loop *l,
                     const bool *per_operand);
/* The loop over lanes that go on and stop together. batched: per parameter of the body; cond NULL: none. */
void loop_batch_plain(struct batch *v, const struct loop *l, const bool *batched, const bool *stack_batched,
                      struct region_in body, const struct region_in *cond);
/* A stack of one known number (the rows that ran, in a gradient) is no stack: builds the loop without such.
 * false: there are none. l: of a loop that finds its number of trips while running, and has a row for each.
 */
bool loop_drop_full_stacks(struct copier *c, const struct loop *l, val *results);
/* What batched carries begin with. */
const val *carries_over_lanes(struct batch *v, const struct loop *l, const bool *batched);
/* The region with function fn, which is its own over lanes; lanes: with the mask as its last operand. */
struct region_in region_over_lanes(struct batch *v, struct region_in r, uint32_t fn, bool lanes);

/* ---- loops over lanes that do not all go as far (masked.c) ---- */

/* A carry that depends on nothing batched is the same in all lanes that go on: it goes on as one value, and
 * each lane's last value of it is a carry before the loop's own. */
struct masked {
    struct batch *v;
    const struct loop *l;
    const bool *batched;   /* per parameter of the body; of the index: it differs from lane to lane */
    struct region_in body; /* over lanes, with the lanes' mask last if body_lanes */
    bool body_lanes;       /* the body has effects */
    /* by masked_keep_last */
    bool *keeps_last; /* per carry: it changes and is not batched */
    uint32_t n_last;
};
void masked_keep_last(struct masked *w);
/* Adds what the last values and the loop's carries begin with; own: of carries_over_lanes. */
void masked_carries(const struct masked *w, const val *own, val_list *out);
/* The body of the loop that is made: masked_begin, parameters of the caller's own, masked_params, more of
 * those, masked_step, and new_body_finish. */
struct masked_body {
    struct new_body body;
    dim size;       /* how many lanes, in it */
    val_list last;  /* parameters: last values of each lane */
    val_list given; /* parameters: those of the loop's body, the mask left out; the index is the loop's */
};
void masked_begin(struct masked_body *made, const struct masked *w);
void masked_params(struct masked_body *made, const struct masked *w);
/* The step where `alive` says so. Adds the last values, the next carries and the rows of the stacks. */
void masked_step(struct masked_body *made, const struct masked *w, val alive, val_list *out);
/* Results of the node; last: the first of the last values among those of the new loop. */
void masked_results(const struct masked *w, val last, val stacks);

/* (carries…, tangents of active carries…, slices…, tangents…, own…, tangents…) -> (carries…, tangents…,
 * stacks…, tangents…). active: per parameter, carries are completed by fixpoint; stack_active is filled. */
uint32_t step_jvp(struct module *m, uint32_t body, uint32_t n_carry, uint32_t n_over, bool *active,
                  bool *stack_active);

/* The body over lanes, carries completed by fixpoint; stack_batched is filled. With lanes the mask is one
 * more own operand, the last. */
uint32_t step_batch(const struct batch *v, uint32_t body, uint32_t n_carry, bool *batched, bool lanes,
                    bool *stack_batched);
/* The same without the fixpoint: force says which results must be batched. */
uint32_t body_over_lanes(const struct batch *v, uint32_t body, const bool *batched, const bool *force,
                         bool lanes, bool *found);

/* while_trips.c: a while_loop as a fori_loop, where its trips can be counted before the first. */
struct range;
bool while_count(struct copier *c, const struct node *n, const struct range *values, bool stacked,
                 val *results);

#endif
