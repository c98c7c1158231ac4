/* Chains of products run slice by slice. Nodes around a product with batch dims that only ever need the same
 * slice of each other (the scores of attention, their softmax, the product with the values, and what the
 * gradient makes of them) become the body of a map over these slices, whose length is known: what lies
 * between the products stays in the cache of one core, and is never there for all slices at once. Every
 * element is computed as before, so strict numbers stay. What a slice of a node's result is made of is asked
 * of its row (node_sliced); whether it pays is decided in `pays`. Slices that are few are cut along their
 * rows as well (cut_rows); a product that sums over these rows, as those of the gradient by keys and values
 * do, then leaves a part of its sum in each slice, and parts are added behind the map: not for strict
 * numbers. */
#include "loop/lower.h"
#include "ops/dot.h"
#include "transform/pass.h"

/* From where on chains of products run slice by slice, in bytes. */
struct limits {
    int64_t whole; /* of products that would have to be there for all slices */
    int64_t slice; /* of them in one slice */
};
static const struct limits normal = { .whole = 1 << 20, .slice = 1 << 14 };
static const struct limits any_size = { .whole = 1, .slice = 1 };

enum {
    MOST_AXES = 6,
    NO_DIM = 255,
    SUMMED = 254,       /* of a result: each slice has a part of the sum */
    WISHED_SLICES = 16, /* fewer are cut along their rows, too: threads have about the same to do … */
    LEAST_ROWS = 64     /* … but into no fewer rows than this */
};

/* Which dim of a value runs along each axis of the slices, NO_DIM: none; or SUMMED. */
struct cut {
    uint8_t dim[MOST_AXES];
};

struct axis {
    int64_t extent, block; /* a slice has `block` of the `extent` indices */
};

/* A leaf: a value from outside of the group, or the part of it that a slice needs. */
struct leaf {
    val v;
    struct cut cut;
    val outer, inner; /* what the map is given, and what its body has */
};

/* What is known of the function. */
struct readers {
    const uint32_t *first, *nodes; /* of value v: nodes[first[v]] up to nodes[first[v + 1]] */
    const bool *result;            /* per value: the function gives it */
};

struct group {
    struct module *m;
    const struct limits *limits;
    const struct fn *f;
    struct arena *a;
    bool is_slice; /* f is the body of a map over slices: it is not cut again */
    bool strict;   /* numbers are added in their order */
    struct readers readers;
    uint32_t n_axes, n_batch; /* the first n_batch axes are batch dims of every product */
    struct axis axes[MOST_AXES];
    bool *in;        /* per node */
    bool *grows;     /* per node: what reads it may join, too */
    struct cut *cut; /* per value, of nodes in the group */
    bool *copied;    /* per node: nothing is computed by it, so that it may also stand outside */
    bool *outside;   /* per node: it stands outside, whether inside as well or not */
    bool *given;     /* per value of the group: the map has it as a result */
    int64_t saved;   /* bytes of products that are never there for all slices at once */
    uint32_t products;
};

/* ---- what a node needs for a slice ---- */

static const struct node *maker(const struct group *g, val v)
{
    return g->f->values[v].node == NODE_NONE ? NULL : fn_node(g->f, g->f->values[v].node);
}

static uint32_t index_of(const struct group *g, const struct node *n) { return (uint32_t)(n - g->f->nodes); }

static struct cut uncut(void)
{
    struct cut c;
    memset(c.dim, NO_DIM, sizeof c.dim);
    return c;
}

static bool same_cut(const struct group *g, const struct cut *a, const struct cut *b)
{
    return !memcmp(a->dim, b->dim, g->n_axes);
}

static bool is_whole_cut(const struct group *g, const struct cut *c)
{
    for (uint32_t a = 0; a < g->n_axes; a++)
        if (c->dim[a] == NO_DIM) return false;
    return true;
}

/* Are slices of the result parts of sums, which are added behind the map? */
static bool is_summed(const struct group *g, const struct cut *c) { return c->dim[g->n_axes - 1] == SUMMED; }

/* What node n, its result cut by c, needs of its operands; false: it does not go slice by slice. */
static bool needs_of(const struct group *g, const struct node *n, const struct cut *c, struct cut *needs)
{
    uint32_t *along = ARENA_NEW(g->a, uint32_t, n->n_operands + 1u);
    for (uint32_t k = 0; k < n->n_operands; k++) needs[k] = uncut();
    for (uint32_t a = 0; a < g->n_axes; a++) {
        if (c->dim[a] == SUMMED) {
            struct dot_dims d;
            dot_dims(g->m, g->f, n, &d);
            needs[0].dim[a] = (uint8_t)d.contract_lhs[0];
            needs[1].dim[a] = (uint8_t)d.contract_rhs[0];
            continue;
        }
        if (!node_sliced(g->m, g->f, n, c->dim[a], along)) return false;
        for (uint32_t k = 0; k < n->n_operands; k++)
            if (along[k] != HOP_NONE) needs[k].dim[a] = (uint8_t)along[k];
    }
    return true;
}

/* A product joins only where batch axes are batch dims of its: one with weights that all slices share is
 * better done for all of them. Where rows are cut, it has a batch at least. */
static bool is_batched(const struct group *g, const struct node *n, const struct cut *c)
{
    struct dot_dims d;
    if (!node_is_product(n)) return true;
    dot_dims(g->m, g->f, n, &d);
    for (uint32_t a = 0; a < g->n_batch; a++)
        if (c->dim[a] >= d.n_batch) return false;
    return d.n_batch || g->n_axes == g->n_batch;
}

/* Does a product with operand k, which is cut by c, sum over the rows that are cut? */
static bool sums_rows(const struct group *g, const struct node *n, uint32_t k, const struct cut *c)
{
    struct dot_dims d;
    if (g->strict || g->n_axes == g->n_batch || !node_is_product(n)) return false;
    enum dtype t = (enum dtype)type_get(g->m, value_type(g->f, n->results)).dtype;
    dot_dims(g->m, g->f, n, &d);
    return !dtype_is_narrow(t) && d.n_contract == 1 &&
           (k ? d.contract_rhs : d.contract_lhs)[0] == c->dim[g->n_axes - 1];
}

/* The cut of n's result if its operand k is cut by c. */
static bool cut_behind(const struct group *g, const struct node *n, uint32_t k, const struct cut *c,
                       struct cut *out)
{
    uint32_t *along = ARENA_NEW(g->a, uint32_t, n->n_operands + 1u);
    uint32_t rank = type_get(g->m, value_type(g->f, n->results)).rank;
    *out = uncut();
    for (uint32_t a = 0; a < g->n_axes; a++)
        for (uint32_t i = 0; i < rank && out->dim[a] == NO_DIM; i++)
            if (node_sliced(g->m, g->f, n, i, along) && along[k] == c->dim[a]) out->dim[a] = (uint8_t)i;
    if (sums_rows(g, n, k, c)) out->dim[g->n_axes - 1] = SUMMED;
    return is_whole_cut(g, out);
}

/* ---- which nodes ---- */

static bool is_free(const struct node *n)
{
    const struct op_lower *lower = node_row(n)->lower;
    return lower && lower->kind == LOWER_POINTWISE && lower->cost == COST_FREE;
}

static bool is_view(const struct node *n)
{
    const struct op_lower *lower = node_row(n)->lower;
    return lower && lower->kind == LOWER_POINTWISE &&
           (lower->access == ACCESS_VIEW || lower->access == ACCESS_REPEAT || lower->cost == COST_FREE);
}

static bool value_in(const struct group *g, val v)
{
    const struct node *n = maker(g, v);
    return n && g->in[index_of(g, n)];
}

/* Could n, its result cut by c, be in the group: do all in it that it reads or that read it agree? */
static bool agrees(const struct group *g, const struct node *n, const struct cut *c)
{
    const val *x = node_operands(g->f, n);
    struct cut *needs = ARENA_NEW(g->a, struct cut, n->n_operands + 1u);
    if (!is_batched(g, n, c) || !needs_of(g, n, c, needs)) return false;
    for (uint32_t k = 0; k < n->n_operands; k++)
        if (value_in(g, x[k]) && !same_cut(g, &needs[k], &g->cut[x[k]])) return false;
    for (uint32_t i = g->readers.first[n->results]; i < g->readers.first[n->results + 1]; i++) {
        const struct node *reader = fn_node(g->f, g->readers.nodes[i]);
        if (!g->in[g->readers.nodes[i]]) continue;
        struct cut *theirs = ARENA_NEW(g->a, struct cut, reader->n_operands);
        needs_of(g, reader, &g->cut[reader->results], theirs);
        for (uint32_t k = 0; k < reader->n_operands; k++)
            if (node_operands(g->f, reader)[k] == n->results && !same_cut(g, &theirs[k], c)) return false;
    }
    return true;
}

/* Nobody but the group reads it. */
static bool is_inner(const struct group *g, val v)
{
    if (g->readers.result[v]) return false;
    for (uint32_t i = g->readers.first[v]; i < g->readers.first[v + 1]; i++)
        if (!g->in[g->readers.nodes[i]]) return false;
    return true;
}

typedef vec(uint32_t) node_list;

static void join(struct group *g, const struct node *n, const struct cut *c, bool grows, node_list *fresh)
{
    uint32_t i = index_of(g, n);
    g->in[i] = true;
    g->grows[i] = grows;
    g->copied[i] = is_free(n);
    g->cut[n->results] = *c;
    vec_push(g->a, fresh, i);
}

/* Nodes that read what is in the group join where they can go slice by slice. */
static void join_readers(struct group *g, const struct node *n, node_list *fresh)
{
    for (uint32_t i = g->readers.first[n->results]; i < g->readers.first[n->results + 1]; i++) {
        uint32_t at = g->readers.nodes[i];
        const struct node *reader = fn_node(g->f, at);
        struct cut c;
        if (g->in[at] || reader->n_results != 1) continue;
        for (uint32_t k = 0; k < reader->n_operands; k++)
            if (node_operands(g->f, reader)[k] == n->results) {
                bool joins = cut_behind(g, reader, k, &g->cut[n->results], &c) && agrees(g, reader, &c);
                if (joins) join(g, reader, &c, !is_summed(g, &c), fresh);
                break;
            }
    }
}

/* Nodes that make what the group reads join where nobody else needs them, or where they cost nothing. */
static void join_makers(struct group *g, const struct node *n, node_list *fresh)
{
    const val *x = node_operands(g->f, n);
    struct cut *needs = ARENA_NEW(g->a, struct cut, n->n_operands + 1u);
    needs_of(g, n, &g->cut[n->results], needs);
    for (uint32_t k = 0; k < n->n_operands; k++) {
        const struct node *made = maker(g, x[k]);
        if (!made || g->in[index_of(g, made)] || made->n_results != 1) continue;
        bool product = node_is_product(made);
        if (!is_whole_cut(g, &needs[k]) || !(product || is_free(made) || is_inner(g, x[k]))) continue;
        if (agrees(g, made, &needs[k])) join(g, made, &needs[k], product, fresh);
    }
}

static void grow(struct group *g, const struct node *seed, const struct cut *c)
{
    node_list fresh = { 0 };
    join(g, seed, c, true, &fresh);
    for (uint32_t i = 0; i < fresh.len; i++) {
        const struct node *n = fn_node(g->f, fresh.data[i]);
        if (g->grows[fresh.data[i]]) join_readers(g, n, &fresh);
        join_makers(g, n, &fresh);
    }
}

/* Takes out what reads, on a way through nodes outside, what the group makes: the map is one node. Then views
 * at the end of the group, which the map would write where they could be read elsewhere. */
static void trim(struct group *g)
{
    const struct fn *f = g->f;
    bool *behind = ARENA_ZNEW(g->a, bool, f->n_nodes); /* outside, made of what the group makes */
    bool *within = ARENA_ZNEW(g->a, bool, f->n_nodes); /* made by the group, and nowhere else */
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        bool late = false, reads = false;
        for (uint32_t k = 0; k < n->n_operands; k++) {
            const struct node *made = maker(g, node_operands(f, n)[k]);
            late |= made && behind[index_of(g, made)];
            reads |= made && within[index_of(g, made)];
        }
        if (late) g->in[i] = false;
        within[i] = g->in[i] && (reads || !g->copied[i]);
        behind[i] = !g->in[i] && (late || reads);
    }
    for (uint32_t i = f->n_nodes; i-- > 0;) {
        const struct node *n = fn_node(f, i);
        if (!g->in[i] || !is_view(n)) continue;
        bool read = false;
        for (uint32_t r = g->readers.first[n->results]; r < g->readers.first[n->results + 1]; r++)
            read |= g->in[g->readers.nodes[r]];
        if (!read) g->in[i] = false;
    }
}

static int64_t bytes_of(const struct group *g, val v)
{
    int64_t elements = static_elements(g->m, value_type(g->f, v));
    return elements < 0 ? 0 : elements * dtype_info[type_get(g->m, value_type(g->f, v)).dtype].size;
}

/* Which values the map gives. */
static void find_given(struct group *g)
{
    const struct fn *f = g->f;
    bool *needed = ARENA_ZNEW(g->a, bool, f->n_values); /* outside */
    for (uint32_t i = f->n_nodes; i-- > 0;) {
        const struct node *n = fn_node(f, i);
        g->outside[i] = !g->in[i];
        if (g->in[i]) {
            val v = n->results;
            bool wanted = needed[v] || g->readers.result[v];
            g->outside[i] = wanted && g->copied[i];
            g->given[v] = wanted && !g->copied[i];
            if (node_is_product(n)) {
                g->products++;
                if (!g->given[v]) g->saved += bytes_of(g, v);
            }
        }
        for (uint32_t k = 0; k < n->n_operands && g->outside[i]; k++) needed[node_operands(f, n)[k]] = true;
    }
}

/* ---- whether it pays ---- */

static int64_t slices_of(const struct group *g)
{
    int64_t n = 1;
    for (uint32_t a = 0; a < g->n_axes; a++) n *= g->axes[a].extent / g->axes[a].block;
    return n;
}

/* Slices so small that a batch of them lies in the fastest memory anyway are left in their batch, and so are
 * products that are small in all. */
static bool pays(const struct group *g)
{
    int64_t n = slices_of(g);
    return n > 1 && g->saved >= g->limits->whole && g->saved / n >= g->limits->slice;
}

/* ---- building ---- */

struct build {
    const struct group *g;
    struct copier *c; /* into the new function */
    vec(struct leaf) leaves;
};

static dim count_dim(const struct group *g, uint32_t a)
{
    return dim_const(g->m, g->axes[a].extent / g->axes[a].block);
}

static uint32_t axis_at(const struct group *g, const struct cut *c, uint32_t d)
{
    for (uint32_t a = 0; a < g->n_axes; a++)
        if (c->dim[a] == d) return a;
    return HOP_NONE;
}

static bool one_by_one(const struct group *g, uint32_t a) { return g->axes[a].block == 1; }

/* The dims of a slice. */
static void slice_dims(const struct group *g, const struct cut *c, struct type t, dim *dims)
{
    for (uint32_t i = 0; i < t.rank; i++) {
        uint32_t a = axis_at(g, c, i);
        dims[i] = a == HOP_NONE ? t.dims[i] : dim_const(g->m, g->axes[a].block);
    }
}

static val reshaped(struct builder *b, val v, uint32_t rank, const dim *dims)
{
    type_id t = type_intern(b->m, (enum dtype)emit_type(b, v).dtype, rank, dims);
    return builder_type(b, v) == t ? v : emit_reshape(b, v, rank, dims);
}

/* All slices of an array, one behind the other: [slices, dims of a slice…]. */
static val all_slices(const struct group *g, struct builder *b, val v, const struct cut *c)
{
    struct type t = emit_type(b, v);
    dim dims[2 * MAX_RANK], out[MAX_RANK + 1];
    uint32_t order[2 * MAX_RANK], at[2 * MAX_RANK], place[MOST_AXES], rank = 0, n = 0;
    for (uint32_t i = 0; i < t.rank; i++) { /* the number of slices along each axis as a dim of its own */
        uint32_t a = axis_at(g, c, i);
        if (a != HOP_NONE) place[a] = rank;
        if (a != HOP_NONE) dims[rank++] = count_dim(g, a);
        if (a == HOP_NONE) dims[rank++] = t.dims[i];
        else if (!one_by_one(g, a)) dims[rank++] = dim_const(g->m, g->axes[a].block);
    }
    v = reshaped(b, v, rank, dims);
    uint32_t taken = 0;
    for (uint32_t a = 0; a < g->n_axes; a++) {
        if (c->dim[a] == NO_DIM) continue;
        at[n] = a;
        order[n++] = place[a];
        taken |= 1u << place[a];
    }
    uint32_t n_along = n;
    for (uint32_t i = 0; i < rank; i++)
        if (!(taken >> i & 1)) order[n++] = i;
    v = emit_permute(b, v, order);
    if (n_along < g->n_axes) { /* the same for all slices along the others */
        dim wide[2 * MAX_RANK];
        for (uint32_t a = 0; a < g->n_axes; a++) wide[a] = count_dim(g, a);
        for (uint32_t i = n_along; i < rank; i++) {
            at[i] = g->n_axes + i - n_along;
            wide[at[i]] = dims[order[i]];
        }
        v = emit_broadcast(b, v, g->n_axes + rank - n_along, wide, at);
    }
    out[0] = dim_const(g->m, slices_of(g));
    slice_dims(g, c, t, out + 1);
    return reshaped(b, v, t.rank + 1u, out);
}

static val put_together(const struct group *g, struct builder *b, val v, const struct cut *c, struct type t);

/* The sums of the parts that the slices along the last axis have. */
static val add_parts(const struct group *g, struct builder *b, val v, const struct cut *c, struct type t)
{
    struct group batch = *g;
    dim dims[2 * MAX_RANK];
    uint32_t rank = g->n_axes, last = g->n_axes - 1;
    for (uint32_t a = 0; a < g->n_axes; a++) dims[a] = count_dim(g, a);
    for (uint32_t i = 0; i < t.rank; i++)
        if (axis_at(g, c, i) == HOP_NONE) dims[rank++] = t.dims[i];
    batch.n_axes--;
    return put_together(&batch, b, emit_reduce(b, OP_sum, reshaped(b, v, rank, dims), &last, 1), c, t);
}

/* The array of which these are all slices; t: its type. */
static val put_together(const struct group *g, struct builder *b, val v, const struct cut *c, struct type t)
{
    if (g->n_axes && is_summed(g, c)) return add_parts(g, b, v, c, t);
    dim dims[2 * MAX_RANK];
    uint32_t order[2 * MAX_RANK], rank = g->n_axes, n = 0, place[MAX_RANK];
    for (uint32_t a = 0; a < g->n_axes; a++) dims[a] = count_dim(g, a);
    for (uint32_t i = 0; i < t.rank; i++) {
        uint32_t a = axis_at(g, c, i);
        place[i] = rank;
        if (a == HOP_NONE) dims[rank++] = t.dims[i];
        else if (!one_by_one(g, a)) dims[rank++] = dim_const(g->m, g->axes[a].block);
    }
    for (uint32_t i = 0; i < t.rank; i++) {
        uint32_t a = axis_at(g, c, i);
        if (a != HOP_NONE) order[n++] = a;
        if (a == HOP_NONE || !one_by_one(g, a)) order[n++] = place[i];
    }
    bool in_order = true;
    for (uint32_t i = 0; i < n; i++) in_order &= order[i] == i;
    if (!in_order) v = emit_permute(b, reshaped(b, v, rank, dims), order);
    return reshaped(b, v, t.rank, t.dims);
}

static struct leaf *find_leaf(struct build *w, val v, const struct cut *cut)
{
    for (uint32_t i = 0; i < w->leaves.len; i++)
        if (w->leaves.data[i].v == v && same_cut(w->g, &w->leaves.data[i].cut, cut))
            return &w->leaves.data[i];
    return NULL;
}

static bool is_shared(const struct group *g, const struct cut *c)
{
    for (uint32_t a = 0; a < g->n_axes; a++)
        if (c->dim[a] != NO_DIM) return false;
    return true;
}

static void find_leaves(struct build *w)
{
    const struct group *g = w->g;
    for (uint32_t i = 0; i < g->f->n_nodes; i++) {
        const struct node *n = fn_node(g->f, i);
        if (!g->in[i]) continue;
        struct cut *needs = ARENA_NEW(g->a, struct cut, n->n_operands + 1u);
        needs_of(g, n, &g->cut[n->results], needs);
        for (uint32_t k = 0; k < n->n_operands; k++) {
            val v = node_operands(g->f, n)[k];
            if (value_in(g, v) || find_leaf(w, v, &needs[k])) continue;
            vec_push(g->a, &w->leaves, (struct leaf){ v, needs[k], VAL_NONE, VAL_NONE });
        }
    }
}

/* Node n in the body, its operands those of a slice. */
static void copy_sliced(struct build *w, struct copier *inner, const struct node *n)
{
    const struct group *g = w->g;
    const val *x = node_operands(g->f, n);
    const struct cut *c = &g->cut[n->results];
    struct cut *needs = ARENA_NEW(g->a, struct cut, n->n_operands + 1u);
    val *operands = ARENA_NEW(g->a, val, n->n_operands + 1u);
    needs_of(g, n, c, needs);
    for (uint32_t k = 0; k < n->n_operands; k++) {
        if (!value_in(g, x[k])) inner->values[x[k]] = find_leaf(w, x[k], &needs[k])->inner;
        operands[k] = inner->values[x[k]];
    }
    struct node_in in = copier_node_in(inner, n);
    in.operands = operands; /* one value may be there twice, cut in two ways */
    uint8_t sizes = node_row(n)->sizes_attr;
    if (sizes) {
        struct attr *attrs = arena_copy(g->a, in.attrs, node_row(n)->sig.n_attrs * sizeof *attrs);
        dim *list = arena_copy(g->a, attrs[sizes - 1].list, attrs[sizes - 1].n * sizeof *list);
        for (uint32_t a = 0; a < g->n_axes; a++) list[c->dim[a]] = dim_const(g->m, g->axes[a].block);
        attrs[sizes - 1].list = list;
        in.attrs = attrs;
    }
    inner->values[n->results] = builder_node(inner->b, &in);
    builder_name(inner->b, inner->values[n->results], g->f->values[n->results].name);
}

/* The function of one slice: (slices…, what all share…) -> what the map gives. */
static uint32_t slice_function(struct build *w)
{
    const struct group *g = w->g;
    const struct fn *f = g->f;
    struct builder b;
    struct copier inner;
    builder_begin(&b, g->m, f);
    b.label = 0;
    copier_begin(&inner, &b, f);
    for (uint32_t shared = 0; shared < 2; shared++)
        for (uint32_t i = 0; i < w->leaves.len; i++) {
            struct leaf *leaf = &w->leaves.data[i];
            struct type t = type_get(g->m, value_type(f, leaf->v));
            dim dims[MAX_RANK];
            if (is_shared(g, &leaf->cut) != shared) continue;
            slice_dims(g, &leaf->cut, t, dims);
            leaf->inner = builder_param(&b, type_intern(g->m, (enum dtype)t.dtype, t.rank, dims), 0);
        }
    val *results = ARENA_NEW(&b.arena, val, f->n_values);
    uint32_t n_results = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        if (!g->in[i]) continue;
        copy_sliced(w, &inner, fn_node(f, i));
        val v = fn_node(f, i)->results;
        if (g->given[v]) results[n_results++] = inner.values[v];
    }
    return builder_finish(&b, results, n_results);
}

/* The map in place of the group; all leaves are there. */
static void build_map(struct build *w)
{
    const struct group *g = w->g;
    struct builder *b = w->c->b;
    val *over = ARENA_NEW(&b->arena, val, w->leaves.len), *with = ARENA_NEW(&b->arena, val, w->leaves.len);
    dim *dims = ARENA_NEW(&b->arena, dim, g->f->n_outer_symbols + 1u);
    uint32_t fn = slice_function(w), n_with = 0;
    struct loop l = loop_new(LOOP_MAP);
    for (uint32_t i = 0; i < w->leaves.len; i++) {
        const struct leaf *leaf = &w->leaves.data[i];
        val v = w->c->values[leaf->v];
        if (is_shared(g, &leaf->cut)) with[n_with++] = v;
        else over[l.n_over++] = all_slices(g, b, v, &leaf->cut);
    }
    for (uint32_t k = 0; k < g->f->n_outer_symbols; k++) dims[k] = w->c->symbols[k];
    l.over = over;
    l.apart = true;
    l.length = dim_const(g->m, slices_of(g));
    l.length_given = !l.n_over;
    loop_set_body(&l, g->m, (struct region_in){ fn, with, n_with, dims });
    val made = loop_build(b, &l).stacks;
    for (uint32_t i = 0; i < g->f->n_nodes; i++) {
        const struct node *n = fn_node(g->f, i);
        if (!g->in[i] || !g->given[n->results]) continue;
        struct type t = type_get(g->m, value_type(g->f, n->results));
        w->c->values[n->results] = put_together(g, b, made++, &g->cut[n->results], t);
        builder_name(b, w->c->values[n->results], g->f->values[n->results].name);
    }
}

/* Per node: the map must stand behind it, because a leaf is made of it. */
static bool *nodes_before(const struct group *g, const struct build *w)
{
    bool *before = ARENA_ZNEW(g->a, bool, g->f->n_nodes);
    for (uint32_t i = 0; i < w->leaves.len; i++) {
        const struct node *n = maker(g, w->leaves.data[i].v);
        if (n) before[index_of(g, n)] = true;
    }
    for (uint32_t i = g->f->n_nodes; i-- > 0;) {
        const struct node *n = fn_node(g->f, i);
        for (uint32_t k = 0; k < n->n_operands && before[i]; k++) {
            const struct node *made = maker(g, node_operands(g->f, n)[k]);
            if (made) before[index_of(g, made)] = true;
        }
    }
    return before;
}

/* Must the map come before this node? */
static bool reads_group(const struct group *g, const struct node *n)
{
    for (uint32_t k = 0; k < n->n_operands; k++)
        if (g->given[node_operands(g->f, n)[k]]) return true;
    return false;
}

/* Where the map stands: in front of the first node that reads it, or of what comes behind the group. */
static uint32_t map_position(const struct group *g)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < g->f->n_nodes; i++) {
        if (g->outside[i] && reads_group(g, fn_node(g->f, i))) return i;
        if (g->in[i]) last = i;
    }
    return last + 1;
}

/* The function with the map in place of the group; HOP_NONE: what it needs cannot stand in front of it. */
static uint32_t build_function(const struct group *g)
{
    const struct fn *f = g->f;
    struct build w = { .g = g };
    find_leaves(&w);
    const bool *before = nodes_before(g, &w);
    uint32_t position = map_position(g);
    for (uint32_t i = position; i < f->n_nodes; i++)
        if (before[i] && !node_is_pure(g->m, f, fn_node(f, i))) return HOP_NONE;
    struct builder b;
    struct copier c;
    builder_begin(&b, g->m, f);
    copier_begin(&c, &b, f);
    copier_params(&c);
    copy_requires(&c);
    w.c = &c;
    for (uint32_t i = 0; i <= f->n_nodes; i++) {
        for (uint32_t k = i; k < f->n_nodes && i == position; k++)
            if (before[k] && g->outside[k]) copier_node(&c, fn_node(f, k));
        if (i == position) build_map(&w);
        if (i == f->n_nodes || !g->outside[i] || (i >= position && before[i])) continue;
        copier_node(&c, fn_node(f, i));
    }
    val *results = ARENA_NEW(&b.arena, val, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = c.values[f->results[k]];
    return builder_finish(&b, results, f->n_results);
}

/* ---- the pass ---- */

static struct readers find_readers(struct arena *a, const struct fn *f)
{
    uint32_t *first = ARENA_ZNEW(a, uint32_t, f->n_values + 2u), n = 0;
    bool *result = ARENA_ZNEW(a, bool, f->n_values + 1u);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *node = fn_node(f, i);
        for (uint32_t k = 0; k < node->n_operands; k++) first[node_operands(f, node)[k] + 2]++;
        n += node->n_operands;
    }
    for (uint32_t v = 2; v < f->n_values + 2; v++) first[v] += first[v - 1];
    uint32_t *nodes = ARENA_NEW(a, uint32_t, n + 1u);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *node = fn_node(f, i);
        for (uint32_t k = 0; k < node->n_operands; k++) nodes[first[node_operands(f, node)[k] + 1]++] = i;
    }
    for (uint32_t k = 0; k < f->n_results; k++) result[f->results[k]] = true;
    return (struct readers){ first, nodes, result };
}

/* The group around a product whose result is cut along these dims. */
static struct group find_group(const struct group *around, const struct node *seed, uint32_t n_axes,
                               const uint32_t *dims, const int64_t *blocks, uint32_t n_batch)
{
    const struct fn *f = around->f;
    struct group g = *around;
    struct type t = type_get(g.m, value_type(f, seed->results));
    struct cut c = uncut();
    g.n_axes = n_axes;
    g.n_batch = n_batch;
    for (uint32_t a = 0; a < n_axes; a++) {
        c.dim[a] = (uint8_t)dims[a];
        g.axes[a] = (struct axis){ dim_const_value(g.m, t.dims[dims[a]]), blocks[a] };
    }
    g.in = ARENA_ZNEW(g.a, bool, f->n_nodes);
    g.grows = ARENA_ZNEW(g.a, bool, f->n_nodes);
    g.copied = ARENA_ZNEW(g.a, bool, f->n_nodes);
    g.outside = ARENA_ZNEW(g.a, bool, f->n_nodes);
    g.given = ARENA_ZNEW(g.a, bool, f->n_values);
    g.cut = ARENA_NEW(g.a, struct cut, f->n_values);
    grow(&g, seed, &c);
    trim(&g);
    find_given(&g);
    return g;
}

/* A product of matrices by the batch, large in all. */
static bool is_seed(const struct group *g, const struct node *n, struct dot_dims *d)
{
    if (!node_is_product(n) || g->readers.result[n->results] || bytes_of(g, n->results) < g->limits->whole)
        return false;
    dot_dims(g->m, g->f, n, d);
    return d->n_batch && type_get(g->m, value_type(g->f, n->results)).rank <= MAX_RANK / 2;
}

/* Where a seed's result is cut. */
struct axes {
    uint32_t n, dims[MOST_AXES];
    int64_t blocks[MOST_AXES];
};

/* Into how many blocks rows are cut so that there are as many slices as wished, 1: into none. By the shape
 * alone: neither results nor what is there at once depend on how many threads there are. */
static int64_t blocks_of_rows(const struct group *g, dim rows, int64_t slices)
{
    if (!dim_is_const(g->m, rows)) return 1;
    int64_t extent = dim_const_value(g->m, rows), best = 1;
    int64_t least = g->limits == &any_size ? 1 : LEAST_ROWS;
    for (int64_t n = 2; n <= WISHED_SLICES && slices * best < WISHED_SLICES; n++)
        if (extent % n == 0 && extent / n >= least) best = n;
    return best;
}

/* The group with rows of the seed, or its columns, cut as well, if all products that were in it stay. */
static bool cut_rows(const struct group *around, const struct node *seed, const struct axes *batch,
                     struct group *g)
{
    struct type t = type_get(around->m, value_type(around->f, seed->results));
    struct dot_dims d;
    dot_dims(around->m, around->f, seed, &d);
    int64_t slices = 1;
    for (uint32_t i = 0; i < batch->n; i++) slices *= dim_const_value(around->m, t.dims[batch->dims[i]]);
    for (uint32_t at = d.n_batch; at < t.rank && slices < WISHED_SLICES; at++) {
        struct axes all = *batch;
        int64_t blocks = blocks_of_rows(around, t.dims[at], slices);
        if (blocks < 2) continue;
        all.dims[all.n] = at;
        all.blocks[all.n++] = dim_const_value(around->m, t.dims[at]) / blocks;
        struct group cut = find_group(around, seed, all.n, all.dims, all.blocks, batch->n);
        bool keeps = batch->n ? cut.products == g->products && cut.saved == g->saved : cut.products > 1;
        if (!keeps || !pays(&cut)) continue;
        *g = cut;
        return true;
    }
    return false;
}

static uint32_t slice_around(const struct group *around, const struct node *seed, const struct dot_dims *d)
{
    struct type t = type_get(around->m, value_type(around->f, seed->results));
    struct axes axes = { 0 };
    for (uint32_t i = 0; i < d->n_batch && axes.n < MOST_AXES - 1; i++) {
        if (!dim_is_const(around->m, t.dims[i]) || dim_const_value(around->m, t.dims[i]) < 2) continue;
        axes.dims[axes.n] = i;
        axes.blocks[axes.n++] = 1;
    }
    struct group g = *around;
    if (axes.n) g = find_group(around, seed, axes.n, axes.dims, axes.blocks, axes.n);
    if ((!around->is_slice && cut_rows(around, seed, &axes, &g)) || (axes.n && pays(&g)))
        return build_function(&g);
    return HOP_NONE;
}

uint32_t pass_slices(struct simplifier *s, uint32_t fn)
{
    if (s->o->differentiable) return fn;
    for (;;) {
        const struct fn *f = module_fn(s->m, fn);
        struct arena arena = { 0 };
        uint32_t next = HOP_NONE;
        if (f->n_symbols > f->n_outer_symbols) return fn;
        hop_cleanup_push(arena_free, &arena);
        struct group around = { .m = s->m,
                                .limits = s->slices_of_any_size ? &any_size : &normal,
                                .f = f,
                                .a = &arena,
                                .is_slice = s->slices_around,
                                .strict = s->o->strict };
        for (uint32_t i = 0; i < f->n_nodes && next == HOP_NONE; i++) {
            struct dot_dims d;
            if (!node_is_product(fn_node(f, i))) continue;
            if (!around.readers.first) around.readers = find_readers(&arena, f);
            if (is_seed(&around, fn_node(f, i), &d)) next = slice_around(&around, fn_node(f, i), &d);
        }
        hop_cleanup_pop(&arena);
        arena_free(&arena);
        if (next == HOP_NONE) return fn;
        fn = next;
    }
}
