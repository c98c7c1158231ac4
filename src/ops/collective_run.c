/* Collectives on ranks. A node becomes an exchange (loop/rt.h): which part of the operand goes where is a
 * matter of rows and sizes, for the interpreter as numbers and for loop programs as values. Only all_to_all
 * moves elements by itself, as its parts have to lie one behind the other. */
#include "ops/collective.h"

#include "interp/interp.h"
#include "ir/mesh.h"
#include "loop/rt.h"
#include "ops/rowkit.h"

enum { HEAD = offsetof(struct hop_rt_exchange_numbers, pairs) / sizeof(int64_t) };

/* ---- what a node asks for ---- */

/* An exchange as the node says it, but for sizes. */
struct plan {
    enum op op;
    /* The dims of an array in front of `at` are rows, those from there on what each has of it: the operand's,
     * or the result's. */
    bool of_result;
    uint32_t at;
    /* all_to_all: parts are cut along `split`, and those that come are put along `concat` */
    uint32_t split, concat;
    bool tiled;
    struct hop_rt_exchange_numbers numbers; /* but for rows, size and pairs */
};

static const struct attr *attr_of(const struct fn *f, const struct node *n, uint32_t k)
{
    return node_attr(f, n, k);
}
static val operand(const struct fn *f, const struct node *n, uint32_t i) { return node_operands(f, n)[i]; }

/* The mesh of the node's axis, and its number there. */
static const struct mesh *mesh_of(struct module *m, const struct fn *f, const struct node *n, uint32_t *axis)
{
    uint32_t name = (uint32_t)attr_of(f, n, AXIS_NAME)->i;
    uint32_t mesh = mesh_of_axis(m, name, axis);
    if (mesh == HOP_NONE)
        hop_throw(HOP_INVALID, "%s%s: the axis '%s' is one of no mesh, so that there are no ranks along it",
                  place_text(m, n->place), node_row(n)->name, module_text(m, name));
    return &m->meshes.data[mesh];
}

static struct plan plan_exchange(struct module *m, const struct fn *f, const struct node *n)
{
    uint32_t axis = 0;
    const struct mesh *mesh = mesh_of(m, f, n, &axis);
    struct plan x = { .op = (enum op)n->op };
    x.numbers.n_axes = mesh->n_axes;
    x.numbers.axis = axis;
    memcpy(x.numbers.sizes, mesh->sizes, mesh->n_axes * sizeof *mesh->sizes);
    switch (x.op) {
    case OP_all_reduce:
        x.numbers.kind = HOP_RT_ALL_REDUCE;
        x.numbers.op = attr_of(f, n, ALL_REDUCE_OP)->i;
        x.numbers.scalar = !type_get(m, value_type(f, n->results)).rank;
        break;
    case OP_all_gather:
        x.numbers.kind = HOP_RT_ALL_GATHER;
        x.at = attr_dim_or_zero(attr_of(f, n, TILES_DIM));
        break;
    case OP_reduce_scatter:
        x.numbers.kind = HOP_RT_REDUCE_SCATTER;
        x.numbers.op = REDUCTION_SUM;
        x.at = attr_dim_or_zero(attr_of(f, n, TILES_DIM));
        x.of_result = true;
        break;
    case OP_all_to_all:
        x.numbers.kind = HOP_RT_ALL_TO_ALL;
        x.split = attr_dim_or_zero(attr_of(f, n, ALL_TO_ALL_SPLIT));
        x.concat = attr_dim_or_zero(attr_of(f, n, ALL_TO_ALL_CONCAT));
        x.tiled = attr_of(f, n, ALL_TO_ALL_TILED)->kind != ATTR_ABSENT;
        break;
    case OP_rank_permute:
        x.numbers.kind = HOP_RT_PERMUTE;
        x.numbers.n_pairs = attr_of(f, n, RANK_PERMUTE_PAIRS)->n / 2;
        break;
    case OP_rank_broadcast:
        x.numbers.kind = HOP_RT_BROADCAST;
        x.numbers.root = attr_of(f, n, RANK_BROADCAST_ROOT)->i;
        break;
    default: x.numbers.kind = HOP_RT_INDEX;
    }
    return x;
}

/* Do parts lie one behind the other already, in the operand or (coming) in the result? */
static bool parts_lie_apart(const struct plan *x, bool coming)
{
    return x->op == OP_all_to_all && (coming ? x->concat : x->split) > 0;
}

struct along {
    const struct symbol *symbols;
    uint32_t axis;
};

static bool is_coordinate(void *ctx, uint32_t symbol)
{
    const struct along *x = ctx;
    return x->symbols[symbol].axis == x->axis;
}

/* Ranks give each other arrays of one size. */
static void refuse_uneven(struct infer *in)
{
    struct along x = { in->symbols, (uint32_t)in->attrs[AXIS_NAME].i };
    struct type t = infer_type(in, 0);
    for (uint32_t d = 0; d < t.rank; d++)
        if (dim_mentions(in->m, t.dims[d], is_coordinate, &x))
            infer_error(in, "dim %u of %s is not the same on all ranks along the axis '%s': pad it first", d,
                        infer_text(in, in->operands[0]), module_text(in->m, x.axis));
}

void collective_check_size(struct infer *in)
{
    uint32_t axis = 0;
    uint32_t found = mesh_of_axis(in->m, (uint32_t)in->attrs[AXIS_NAME].i, &axis);
    if (found == HOP_NONE) return;
    refuse_uneven(in);
    if (in->attrs[AXIS_SIZE].kind == ATTR_ABSENT) return;
    const struct mesh *mesh = &in->m->meshes.data[found];
    dim said = (dim)in->attrs[AXIS_SIZE].i, has = dim_const(in->m, mesh->sizes[axis]);
    if (dim_is_const(in->m, said) && said != has)
        infer_error(in,
                    "attribute 'size': expected the %lld ranks along the axis '%s' of the mesh, found %lld",
                    (long long)mesh->sizes[axis], module_text(in->m, (uint32_t)in->attrs[AXIS_NAME].i),
                    (long long)dim_const_value(in->m, said));
    infer_equal(in, said, has, "the size of an axis of a mesh");
}

/* ---- all_to_all: where elements of parts stand ---- */

/* Element idx of the parts (the part's number first) in the operand, or `coming` in the result, along each
 * dim: *at of `count` dims. `block`: the part's size along the dim that is cut or joined, where tiled. */
#define PART_INDEX(idx, rank, along, tiled, add_block, out) \
    do { \
        uint32_t to_ = 0; \
        for (uint32_t d_ = 1; d_ < (rank); d_++) { \
            if (!(tiled) && to_ == (along)) (out)[to_++] = (idx)[0]; \
            (out)[to_] = (idx)[d_]; \
            if ((tiled) && to_ == (along)) (out)[to_] = add_block; \
            to_++; \
        } \
        if (!(tiled) && to_ == (along)) (out)[to_++] = (idx)[0]; \
    } while (0)

/* ---- eval ---- */

void eval_vary(struct eval *e)
{
    const struct tensor *r = e->results[0];
    if (r->count) memcpy(r->data, e->operands[0]->data, (size_t)r->count * tensor_width(r));
}

void eval_rank_count(struct eval *e)
{
    uint32_t axis = 0;
    const struct mesh *mesh = mesh_of(e->m, e->f, e->n, &axis);
    *(int64_t *)e->results[0]->data = mesh->sizes[axis];
}

/* Between an array and its parts one behind the other: to the parts, or from them. */
static void move_parts(const struct plan *x, const struct tensor *whole, char *parts, int64_t *sizes,
                       uint32_t rank, bool coming)
{
    uint32_t along = coming ? x->concat : x->split;
    int64_t idx[MAX_RANK + 1] = { 0 }, at[MAX_RANK + 1] = { 0 }, count = 1, block = 0;
    size_t width = tensor_width(whole);
    for (uint32_t d = 0; d < rank; d++) count *= sizes[d];
    if (x->tiled) block = sizes[1 + along];
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, flat = 0;
        for (uint32_t d = rank; d-- > 0; rest /= sizes[d]) idx[d] = rest % sizes[d];
        PART_INDEX(idx, rank, along, x->tiled, idx[0] * block + idx[1 + along], at);
        for (uint32_t d = 0; d < whole->rank; d++) flat = flat * whole->dims[d] + at[d];
        char *one = (char *)whole->data + (size_t)flat * width, *other = parts + (size_t)i * width;
        memcpy(coming ? one : other, coming ? other : one, width);
    }
}

/* The sizes of all_to_all's parts, their number first; how many. */
static uint32_t part_sizes(const struct plan *x, const struct tensor *whole, int64_t *sizes)
{
    uint32_t rank = 0;
    int64_t lanes = x->numbers.sizes[x->numbers.axis];
    sizes[rank++] = lanes;
    for (uint32_t d = 0; d < whole->rank; d++) {
        if (d != x->split) sizes[rank++] = whole->dims[d];
        else if (x->tiled) sizes[rank++] = whole->dims[d] / lanes;
    }
    return rank;
}

static void eval_sizes(const struct plan *x, const struct tensor *of, struct hop_rt_exchange_numbers *numbers)
{
    numbers->rows = numbers->size = 1;
    for (uint32_t d = 0; d < x->at; d++) numbers->rows *= of->dims[d];
    for (uint32_t d = x->at; d < of->rank; d++) numbers->size *= of->dims[d];
    if (x->op == OP_all_to_all) numbers->size /= numbers->sizes[numbers->axis];
}

static void do_exchange(const struct eval *e, const struct hop_rt_exchange *call)
{
    if (!e->in->ranks)
        hop_throw(HOP_INVALID, "%s%s: there are no ranks here", place_text(e->m, e->n->place),
                  node_row(e->n)->name);
    hop_status status = e->in->ranks->exchange(call);
    if (status) hop_rethrow(status);
}

/* Makes nothing in the module: several ranks may be at it. */
void eval_exchange(struct eval *e)
{
    struct plan x = plan_exchange(e->m, e->f, e->n);
    struct arena arena = { 0 };
    const struct tensor *in = e->n->n_operands ? e->operands[0] : NULL;
    struct tensor *out = e->results[0];
    hop_cleanup_push(arena_free, &arena);
    int64_t *words = ARENA_ZNEW(&arena, int64_t, HEAD + 2 * x.numbers.n_pairs), sizes[MAX_RANK + 1];
    struct hop_rt_exchange_numbers *numbers = (struct hop_rt_exchange_numbers *)words;
    *numbers = x.numbers;
    eval_sizes(&x, x.of_result || !in ? out : in, numbers);
    for (int64_t i = 0; i < 2 * x.numbers.n_pairs; i++)
        numbers->pairs[i] = (int32_t)attr_of(e->f, e->n, RANK_PERMUTE_PAIRS)->list[i];
    struct hop_rt_exchange call = {
        .dtype = out->dtype, .in = in ? in->data : NULL, .out = out->data, .numbers = numbers
    };
    size_t bytes = (size_t)out->count * tensor_width(out);
    uint32_t rank = parts_lie_apart(&x, false) || parts_lie_apart(&x, true) ? part_sizes(&x, in, sizes) : 0;
    if (parts_lie_apart(&x, false)) {
        char *parts = arena_alloc(&arena, bytes + 1);
        move_parts(&x, in, parts, sizes, rank, false);
        call.in = parts;
    }
    if (parts_lie_apart(&x, true)) call.out = arena_alloc(&arena, bytes + 1);
    do_exchange(e, &call);
    if (parts_lie_apart(&x, true)) move_parts(&x, out, call.out, sizes, rank, true);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

/* ---- lower ---- */

static lpv elem_vary(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                     const lpv *idx)
{
    HOP_UNUSED(result);
    return lower_elem(L, operand(f, n, 0), idx);
}

static lpv elem_rank_count(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                           const lpv *idx)
{
    HOP_UNUSED(result);
    HOP_UNUSED(idx);
    uint32_t axis = 0;
    const struct mesh *mesh = mesh_of(lower_module(L), f, n, &axis);
    return lp_index(lower_lp(L), mesh->sizes[axis]);
}

const struct op_lower lower_vary = {
    .kind = LOWER_POINTWISE, .access = ACCESS_SAME, .cost = COST_FREE, .elem = elem_vary
};
const struct op_lower lower_rank_count = {
    .kind = LOWER_POINTWISE, .access = ACCESS_SAME, .cost = COST_FREE, .elem = elem_rank_count
};

static lpv product_of(struct lower *L, struct type t, uint32_t first, uint32_t end)
{
    lpv count = lp_index(lower_lp(L), 1);
    for (uint32_t d = first; d < end; d++)
        count = lp_bin(lower_lp(L), LP_MUL, count, lower_dim(L, t.dims[d]));
    return count;
}

static const lpv *words_of(struct lower *L, const struct plan *x, const struct fn *f, const struct node *n,
                           uint32_t *count)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    *count = HEAD + 2 * (uint32_t)x->numbers.n_pairs;
    lpv *words = ARENA_NEW(&p->arena, lpv, *count);
    const int64_t *known = (const int64_t *)&x->numbers;
    for (uint32_t i = 0; i < HEAD; i++) words[i] = lp_index(p, known[i]);
    struct type t = type_get(m,
                             value_type(f, x->of_result || !n->n_operands ? n->results : operand(f, n, 0)));
    lpv size = product_of(L, t, x->at, t.rank);
    if (x->op == OP_all_to_all)
        size = lp_bin(p, LP_FLOORDIV, size, lp_index(p, x->numbers.sizes[x->numbers.axis]));
    words[offsetof(struct hop_rt_exchange_numbers, rows) / sizeof(int64_t)] = product_of(L, t, 0, x->at);
    words[offsetof(struct hop_rt_exchange_numbers, size) / sizeof(int64_t)] = size;
    for (uint32_t i = HEAD; i < *count; i++)
        words[i] = lp_index(p, (int32_t)attr_of(f, n, RANK_PERMUTE_PAIRS)->list[i - HEAD]);
    return words;
}

/* Writes the exchange of what lies at `in` (buffer HOP_NONE: nothing is sent) for what is to lie at `out`. */
static void put_exchange(struct lower *L, const struct plan *x, const struct fn *f, const struct node *n,
                         struct array in, struct array out)
{
    struct lp *p = lower_lp(L);
    struct lp_operand *operands = ARENA_ZNEW(&p->arena, struct lp_operand, 2);
    bool sends = in.buffer != HOP_NONE;
    operands[0] = (struct lp_operand){ .buffer = in.buffer,
                                       .value = LPV_NONE,
                                       .index = sends ? in.at : LPV_NONE,
                                       .use = sends ? OPERAND_READ : OPERAND_ABSENT };
    operands[1] = (struct lp_operand){
        .buffer = out.buffer, .value = LPV_NONE, .index = out.at, .use = OPERAND_WRITTEN
    };
    const char *name = node_row(n)->name;
    struct lp_call call = { .kind = CALL_EXCHANGE,
                            .target = lp_new_exchange(p),
                            .source = (uint32_t)x->numbers.kind,
                            .value = LPV_NONE,
                            .mask = LPV_NONE,
                            .text = module_string(lower_module(L), name, strlen(name)),
                            .place = n->place,
                            .operands = operands,
                            .n_operands = 2 };
    call.sizes = words_of(L, x, f, n, &call.n_sizes);
    lp_add_call(p, call);
    if (x->op == OP_rank_index) return;
    call.kind = CALL_WAIT;
    call.sizes = NULL;
    call.n_sizes = 0;
    lp_add_call(p, call);
}

static struct array scalar_memory(struct lower *L, enum dtype t, const char *why)
{
    dim one = dim_const(lower_module(L), 1);
    return lower_alloc(L, type_intern(lower_module(L), t, 1, &one), why);
}

/* An operand of rank 0 lies in no memory, nor does such a result. */
static void put_scalar(struct lower *L, const struct plan *x, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    enum dtype t = (enum dtype)type_get(lower_module(L), value_type(f, n->results)).dtype;
    struct array in = { HOP_NONE, LPV_NONE }, out = scalar_memory(L, t, "what an exchange gives");
    if (n->n_operands) {
        in = scalar_memory(L, t, "what an exchange sends");
        lp_store(p, in.buffer, in.at, lower_scalar(L, operand(f, n, 0)));
    }
    put_exchange(L, x, f, n, in, out);
    lower_set_scalar(L, n, 0, lp_load(p, out.buffer, out.at));
}

/* The type of all_to_all's parts one behind the other. */
static type_id parts_type(struct module *m, const struct plan *x, struct type whole)
{
    dim dims[MAX_RANK + 1], lanes = dim_const(m, x->numbers.sizes[x->numbers.axis]);
    uint32_t rank = 0;
    dims[rank++] = lanes;
    for (uint32_t d = 0; d < whole.rank; d++) {
        if (d != x->split) dims[rank++] = whole.dims[d];
        else if (x->tiled) dims[rank++] = dim_floordiv(m, whole.dims[d], lanes);
    }
    if (rank > MAX_RANK) hop_throw(HOP_INVALID, "all_to_all: parts of an array of %d dims", MAX_RANK);
    return type_intern(m, (enum dtype)whole.dtype, rank, dims);
}

/* Parts of value v, of type `of`, put one behind the other. */
static void put_apart(struct lower *L, const struct plan *x, val v, type_id of, struct array parts)
{
    struct lp *p = lower_lp(L);
    struct type type = type_get(lower_module(L), of);
    lpv idx[MAX_RANK + 1], at[MAX_RANK + 1], block = LPV_NONE;
    if (x->tiled) block = lower_dim(L, type.dims[1 + x->split]);
    lower_each_begin(L, of, true, idx);
    lpv flat = lp_bin(p, LP_ADD, parts.at, lower_flatten(L, of, idx));
    PART_INDEX(idx, type.rank, x->split, x->tiled,
               lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, idx[0], block), idx[1 + x->split]), at);
    lp_store(p, parts.buffer, flat, lower_elem(L, v, at));
    lower_each_end(L, of);
}

/* The other way round: parts that came, to where they stand in an array of type t. */
static void put_together(struct lower *L, const struct plan *x, struct array parts, type_id of, type_id t,
                         struct array whole)
{
    struct lp *p = lower_lp(L);
    struct type type = type_get(lower_module(L), of);
    lpv idx[MAX_RANK + 1], at[MAX_RANK + 1], block = LPV_NONE;
    if (x->tiled) block = lower_dim(L, type.dims[1 + x->concat]);
    lower_each_begin(L, of, true, idx);
    lpv from = lp_bin(p, LP_ADD, parts.at, lower_flatten(L, of, idx));
    PART_INDEX(idx, type.rank, x->concat, x->tiled,
               lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, idx[0], block), idx[1 + x->concat]), at);
    lpv to = lp_bin(p, LP_ADD, whole.at, lower_flatten(L, t, at));
    lp_store(p, whole.buffer, to, lp_load(p, parts.buffer, from));
    lower_each_end(L, of);
}

static void block_exchange(struct lower *L, const struct fn *f, const struct node *n)
{
    struct module *m = lower_module(L);
    struct plan x = plan_exchange(m, f, n);
    type_id t = value_type(f, n->results), of = t;
    if (!n->n_operands) {
        put_scalar(L, &x, f, n);
        return;
    }
    val v = operand(f, n, 0);
    struct type whole = type_get(m, value_type(f, v));
    if (!whole.rank && !type_get(m, t).rank) {
        put_scalar(L, &x, f, n);
        return;
    }
    if (lower_taken(L, n, 0) != HOP_NONE) {
        struct array here = lower_take(L, n, 0);
        put_exchange(L, &x, f, n, here, here);
        return;
    }
    bool cut = parts_lie_apart(&x, false), join = parts_lie_apart(&x, true);
    struct array in;
    if (cut || join) of = parts_type(m, &x, whole);
    if (cut) {
        in = lower_alloc(L, of, "parts for other ranks");
        put_apart(L, &x, v, of, in);
    } else if (!whole.rank) {
        in = scalar_memory(L, (enum dtype)whole.dtype, "what an exchange sends");
        lp_store(lower_lp(L), in.buffer, in.at, lower_scalar(L, v));
    } else in = lower_array(L, v);
    if (!type_get(m, t).rank) {
        struct array out = scalar_memory(L, (enum dtype)whole.dtype, "what an exchange gives");
        put_exchange(L, &x, f, n, in, out);
        lower_set_scalar(L, n, 0, lp_load(lower_lp(L), out.buffer, out.at));
        return;
    }
    struct array result = lower_result(L, n, 0);
    struct array out = join ? lower_alloc(L, of, "parts of other ranks") : result;
    put_exchange(L, &x, f, n, in, out);
    if (join) put_together(L, &x, out, of, t, result);
}

/* A reduction is made where its operand lies when nobody else needs that. */
static uint32_t changed_by(struct module *m, const struct fn *f, const struct node *n, uint32_t k)
{
    return n->op == OP_all_reduce && type_get(m, value_type(f, n->results + k)).rank ? 0 : HOP_NONE;
}

static uint8_t exchange_use(const struct fn *f, const struct node *n, uint32_t i)
{
    HOP_UNUSED(i);
    bool cut = n->op == OP_all_to_all && attr_dim_or_zero(attr_of(f, n, ALL_TO_ALL_SPLIT)) > 0;
    return cut ? USE_ONCE : USE_ARRAY;
}

const struct op_lower lower_exchange = { .kind = LOWER_BLOCK,
                                         .access = ACCESS_SAME,
                                         .cost = COST_EXPENSIVE,
                                         .block = block_exchange,
                                         .changes = changed_by,
                                         .operand_use = exchange_use };
