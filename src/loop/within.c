/* Lowering, the part about values made in the memory of another. A value that is an assembly of others
 * (concat along its leading dim) gets memory before its operands do, and those that are stored anyway are
 * written straight into their part of it; a value that is a run of another's elements (slice, reshape) is
 * read where that one lies. Decided here before nests are formed; whatever ends up elsewhere all the same is
 * copied where the assembly stands. */
#include "ir/loop.h"
#include "loop/lower_impl.h"

enum {
    LEAST_RUN = 16,  /* elements that stand together in a part that does not lie in one piece */
    COPIED_RUN = 64, /* and in one that is copied by itself: a nest chooses at every element */
};

/* How operand k of an assembly comes to its part. */
struct part {
    enum {
        PART_COPY, /* copied or filled later */
        PART_MADE, /* `base` is made there */
        PART_ITEM  /* stored there by a nest of its own */
    } kind;
    val base;          /* PART_MADE: the operand, or what it is a run of */
    dim at, skip;      /* the part's first element in the assembly; the operand's first element in base */
    dim before, after; /* elements of base in front of the operand and behind it */
};

static dim elements_of(struct lower *L, val v) { return type_elements(L->S->m, value_type(L->f, v)); }

static bool is_small(struct lower *L, val v) { return lower_is_small(L, value_type(L->f, v)); }

static const struct node *maker(struct lower *L, val v)
{
    return L->f->values[v].node == NODE_NONE ? NULL : fn_node(L->f, L->f->values[v].node);
}

static bool is_run_of(struct lower *L, const struct node *n, dim *at)
{
    return node_row(n)->lower->run && node_row(n)->lower->run(L->S->m, L->f, n, at);
}

/* Is v, not stored for the function's caller, a run of its operand's elements? */
static bool is_run(struct lower *L, val v, dim *at)
{
    const struct node *n = maker(L, v);
    if (!n || nest_is_block(L, n) || nest_is_result(L, v) || !is_run_of(L, n, at)) return false;
    return type_of(L, v).rank && type_of(L, node_operands(L->f, n)[0]).rank;
}

static bool bound_inside(void *ctx, uint32_t symbol)
{
    return symbol >= ((const struct fn *)ctx)->n_outer_symbols;
}
static bool known_at_entry(struct lower *L, dim d)
{
    return !dim_mentions(L->S->m, d, bound_inside, (void *)L->f);
}

/* Is its memory that of another value, which some node changes? */
static bool is_shared(const struct value_info *info)
{
    return info->takes != HOP_NONE || info->given != HOP_NONE;
}

/* Is v stored whatever becomes of the assembly, in memory that it may get from there? Small values stay on
 * the stack or in registers, but for those that a procedure gives. */
static bool may_move(struct lower *L, val v)
{
    const struct node *n = maker(L, v);
    const struct value_info *info = &L->info[v];
    if (!n || info->within != HOP_NONE || info->part || is_shared(info)) return false;
    if (!type_of(L, v).rank || (is_small(L, v) && !lower_is_called(L, n))) return false;
    return info->root || (nest_is_block(L, n) && !nest_is_result(L, v));
}

static dim product_from(struct lower *L, val v, uint32_t first)
{
    struct type t = type_of(L, v);
    dim count = 1;
    for (uint32_t i = first; i < t.rank; i++) count = dim_mul(L->S->m, count, t.dims[i]);
    return count;
}

/* The first element of operand k in the assembly; do its elements stand there in one piece? */
static bool in_one_piece(struct lower *L, const struct node *n, uint32_t k, uint32_t *along, dim *at)
{
    struct type t = type_of(L, n->results);
    node_row(n)->lower->assembly(L->S->m, L->f, n, k, along, at);
    *at = dim_mul(L->S->m, *at, product_from(L, n->results, *along + 1));
    for (uint32_t i = 0; i < *along; i++)
        if (t.dims[i] != 1) return false;
    return true;
}

/* A nest or a product can write rows that stand apart. They are not read there: a product must have no other
 * reader, a nest stores what has some twice. */
static struct part strided_part(struct lower *L, const struct node *n, uint32_t k, uint32_t along, dim at)
{
    struct module *m = L->S->m;
    val o = node_operands(L->f, n)[k];
    struct part part = { .kind = PART_COPY, .base = o, .at = at };
    const struct node *made = maker(L, o);
    const struct value_info *info = &L->info[o];
    dim run = product_from(L, o, along);
    bool wide = !dim_is_const(m, run) || dim_const_value(m, run) >= LEAST_RUN;
    bool alone = !is_small(L, o) && info->uses == 1;
    if (!made || !wide || info->within != HOP_NONE || info->part || is_shared(info)) return part;
    if (product_is_gemm(L, made)) {
        if (alone && product_fits(L, made, along)) part.kind = PART_MADE;
    } else if (nest_is_block(L, made)) return part;
    else if (info->root) part.kind = alone ? PART_MADE : PART_ITEM;
    else if (info->uses == 1 && node_row(made)->lower->kind == LOWER_POINTWISE) part.kind = PART_ITEM;
    return part;
}

static struct part find_part(struct lower *L, const struct node *n, uint32_t k)
{
    struct module *m = L->S->m;
    val o = node_operands(L->f, n)[k], u = o;
    struct part part = { .kind = PART_COPY, .base = o };
    uint32_t along;
    dim at;
    if (!in_one_piece(L, n, k, &along, &part.at)) return strided_part(L, n, k, along, part.at);
    for (; L->info[u].within == HOP_NONE && is_run(L, u, &at); u = node_operands(L->f, maker(L, u))[0])
        part.skip = dim_add(m, part.skip, at);
    if (!may_move(L, u)) {
        u = o;
        part.skip = 0;
    }
    /* A run of a stored value: that one is made around the part, if there is room on both sides. */
    dim spare = dim_sub(m, elements_of(L, u), elements_of(L, o));
    const struct value_info *whole = &L->info[n->results];
    bool free_standing = !nest_is_result(L, n->results) && whole->within == HOP_NONE && !is_shared(whole);
    bool behind = free_standing && k + 1u == n->n_operands;
    bool in_front = free_standing && !k;
    bool has_room_in_front = !part.skip || in_front;
    bool has_room_behind = part.skip == spare || behind;
    bool known = known_at_entry(L, part.skip) && known_at_entry(L, spare);
    if (may_move(L, u) && known && (!spare || (has_room_in_front && has_room_behind))) {
        part.kind = PART_MADE;
        part.base = u;
        part.before = part.skip;
        part.after = dim_sub(m, spare, part.skip);
        return part;
    }
    part.skip = 0;
    const struct node *made = maker(L, o);
    const struct value_info *info = &L->info[o];
    if (!made || nest_is_block(L, made) || info->within != HOP_NONE || info->root) return part;
    bool shared_constant = info->uses != 1 && !info->cost; /* stays one */
    if (node_row(made)->lower->kind == LOWER_POINTWISE && !shared_constant) part.kind = PART_ITEM;
    return part;
}

/* Parts of rows that lie elsewhere, each long enough to be copied by itself. */
static bool is_copied_by_rows(struct lower *L, const struct node *n)
{
    struct module *m = L->S->m;
    for (uint32_t k = 0; k < n->n_operands; k++) {
        uint32_t along;
        dim at;
        if (in_one_piece(L, n, k, &along, &at) || find_part(L, n, k).kind != PART_COPY) return false;
        val o = node_operands(L->f, n)[k];
        dim run = product_from(L, o, along);
        bool stored = !maker(L, o) || L->info[o].root || nest_is_block(L, maker(L, o));
        if (!stored || !dim_is_const(m, run) || dim_const_value(m, run) < COPIED_RUN) return false;
    }
    return n->n_operands > 1;
}

/* Lets a value come together in its own memory when that spares storing an operand elsewhere first, or
 * choosing between large operands at every element. Nobody may have asked for it in memory: then it is so
 * only if what has to be copied is little. */
static void consider(struct lower *L, const struct node *n)
{
    val v = n->results;
    struct value_info *info = &L->info[v];
    bool asked = info->root || info->wanted || info->within != HOP_NONE;
    bool little = true, any = false;
    uint32_t along;
    dim at;
    bool strided = n->n_operands && !in_one_piece(L, n, 0, &along, &at);
    if (info->strided || is_small(L, v) || !known_at_entry(L, elements_of(L, v))) return;
    if (info->given != HOP_NONE) return; /* its memory is changed, and parts may be read behind that */
    bool by_rows = strided && asked && is_copied_by_rows(L, n);
    for (uint32_t k = 0; k < n->n_operands; k++) {
        struct part part = find_part(L, n, k);
        if (!known_at_entry(L, part.at)) return;
        bool small = part.kind != PART_MADE && is_small(L, node_operands(L->f, n)[k]);
        if (strided && part.kind == PART_COPY && !small && !by_rows) return; /* better by one nest for all */
        bool several = n->n_operands > 1; /* the only part, stored by a nest, is the whole */
        any |= part.kind == PART_MADE || (asked && several && part.kind == PART_ITEM && !small);
        little &= part.kind == PART_MADE || small;
    }
    if (!(any || by_rows) || !(asked || little)) return;
    info->assembled = true;
    info->root = false;
    for (uint32_t k = 0; k < n->n_operands; k++) {
        struct part part = find_part(L, n, k);
        struct value_info *base = &L->info[part.base];
        if (part.kind == PART_COPY) continue;
        base->within = v;
        base->within_at = part.at;
        base->within_skip = part.skip;
        base->strided = strided;
        if (part.kind == PART_MADE) {
            if (part.before) info->before = part.before;
            if (part.after) info->after = part.after;
            for (val o = node_operands(L->f, n)[k]; o != part.base; o = node_operands(L->f, maker(L, o))[0])
                L->info[o].wanted = true;
        } else {
            base->root = true;
            if (!base->why) base->why = arena_printf(L->arena, "part of %s", node_row(n)->name);
        }
    }
}

/* A parameter whose memory keeps its content while the function runs: a run of it can be read there,
 * whenever.
 */
static bool is_lasting_param(struct lower *L, val v)
{
    const struct slot *slot = &L->slots[v];
    if (maker(L, v) || slot->kind != SLOT_ARRAY) return false;
    const struct lp_buffer *b = &L->S->p->buffers.data[slot->array.buffer];
    if ((b->kind != BUF_ARG && b->kind != BUF_PARAM) || b->updated) return false;
    for (uint32_t r = 0; r < L->f->n_results; r++)
        if (L->sinks[r].overwrites == v) return false;
    return true;
}

/* Per value: a loop goes over it, or shares it among its steps. Where it is a run of what lies in memory, its
 * rows are read there. */
static bool *read_by_loops(struct lower *L)
{
    bool *read = ARENA_ZNEW(L->arena, bool, L->f->n_values);
    for (uint32_t i = 0; i < L->f->n_nodes; i++) {
        const struct node *n = fn_node(L->f, i);
        for (uint32_t k = 0; k < n->n_operands && node_is_loop(n); k++)
            read[node_operands(L->f, n)[k]] = true;
    }
    return read;
}

void within_analyse(struct lower *L)
{
    const struct fn *f = L->f;
    dim at;
    for (uint32_t v = 0; v < f->n_values; v++) L->info[v].within = HOP_NONE;
    if (!choice_on(L->S->passes, CHOICE_inplace)) return;
    const bool *looped = read_by_loops(L);
    for (uint32_t i = f->n_nodes; i-- > 0;) { /* readers first */
        const struct node *n = fn_node(f, i);
        const struct value_info *info = &L->info[n->results];
        if (n->n_results != 1 || !info->uses) continue;
        if (is_run(L, n->results, &at)) L->info[node_operands(f, n)[0]].wanted |= info->wanted || info->root;
        else if (node_row(n)->lower->assembly && !nest_is_block(L, n)) consider(L, n);
    }
    for (uint32_t i = 0; i < f->n_nodes; i++) { /* what is read first */
        const struct node *n = fn_node(f, i);
        struct value_info *info = &L->info[n->results];
        if (n->n_results != 1 || !info->uses || info->within != HOP_NONE) continue;
        if (!is_run(L, n->results, &at)) continue;
        val o = node_operands(f, n)[0];
        const struct node *made = maker(L, o);
        if ((!made && !is_lasting_param(L, o)) || L->info[o].part) continue;
        if (info->given != HOP_NONE || L->info[o].given != HOP_NONE) continue;
        bool read_as_array = info->root || info->wanted || looped[n->results];
        bool both_stored = (!made || L->info[o].root) && read_as_array;
        if (!(made && nest_is_block(L, made)) && !both_stored) continue;
        info->run = true;
        info->root = false;
    }
}

/* ---- memory ---- */

/* Memory for an assembly: asked for before the first of its parts is made. */
static struct array whole(struct lower *L, val v)
{
    struct module *m = L->S->m;
    struct lp *p = L->S->p;
    struct slot *slot = &L->slots[v];
    const struct value_info *info = &L->info[v];
    type_id t = value_type(L->f, v);
    if (slot->kind == SLOT_ARRAY) return slot->array;
    struct array a = lower_sink_of(L, v, L->step);
    if (a.buffer == HOP_NONE && info->within != HOP_NONE) a = within_array(L, v);
    if (a.buffer == HOP_NONE) {
        dim count = dim_add(m, dim_add(m, info->before, elements_of(L, v)), info->after);
        a = lower_alloc(L, type_intern(m, (enum dtype)type_get(m, t).dtype, 1, &count),
                        arena_printf(&p->arena, "%s of what is made in it", node_row(maker(L, v))->name));
        a.at = lp_bin(p, LP_ADD, a.at, lower_dim(L, info->before));
    } else lower_room(L, a, t);
    *slot = (struct slot){ .kind = SLOT_ARRAY, .array = a };
    return a;
}

struct array within_array(struct lower *L, val v)
{
    struct lp *p = L->S->p;
    struct value_info *info = &L->info[v];
    info->placed = true;
    vec_push(&p->arena, &p->within_notes,
             arena_printf(&p->arena, "%s: written into its part of %s", node_row(maker(L, v))->name,
                          node_row(maker(L, info->within))->name));
    struct array a = whole(L, info->within);
    a.at = lp_bin(p, LP_ADD, lp_bin(p, LP_SUB, a.at, lower_dim(L, info->within_skip)),
                  lower_dim(L, info->within_at));
    return a;
}

/* Has operand o, which stands at element `at` of assembly v, been written there? */
static bool is_in_place(struct lower *L, val o, val v, dim at)
{
    dim skip = 0, more;
    for (; L->info[o].run; o = node_operands(L->f, maker(L, o))[0]) {
        is_run_of(L, maker(L, o), &more);
        skip = dim_add(L->S->m, skip, more);
    }
    const struct value_info *info = &L->info[o];
    return info->placed && info->within == v && info->within_at == at && info->within_skip == skip;
}

/* Positions count from the part's first element. */
lpv within_position(struct lower *L, val v, const lpv *idx)
{
    return lower_flatten(L, value_type(L->f, L->info[v].within), idx);
}

void within_assemble(struct lower *L, const struct node *n)
{
    struct lp *p = L->S->p;
    struct array a = whole(L, n->results);
    for (uint32_t k = 0; k < n->n_operands; k++) {
        val o = node_operands(L->f, n)[k];
        uint32_t along;
        dim at;
        bool dense = in_one_piece(L, n, k, &along, &at);
        struct array to = { a.buffer, lp_bin(p, LP_ADD, a.at, lower_dim(L, at)) };
        if (is_in_place(L, o, n->results, at)) continue;
        if (dense) lower_put(L, o, to, "a part that lies elsewhere");
        else
            lower_place(L, &(struct written_part){ .v = o, .to = to, .whole = value_type(L->f, n->results) });
    }
}

void within_run(struct lower *L, const struct node *n)
{
    struct lp *p = L->S->p;
    dim at;
    is_run_of(L, n, &at);
    struct array a = lower_array(L, node_operands(L->f, n)[0]);
    a.at = lp_bin(p, LP_ADD, a.at, lower_dim(L, at));
    const struct node *made = maker(L, node_operands(L->f, n)[0]);
    vec_push(&p->arena, &p->within_notes,
             arena_printf(&p->arena, "%s: read where %s lies", node_row(n)->name,
                          made ? node_row(made)->name : "an argument"));
    L->slots[n->results] = (struct slot){ .kind = SLOT_ARRAY, .array = a };
}
