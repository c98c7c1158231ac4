/* The row of switch: one of several functions is run, chosen by an index that is clamped to the branches
 * there are (a bool chooses between two). Each branch has its own operands; the results' types are merged
 * over all branches at once. */
#include "ir/number.h"
#include "hops/hops.h"
#include "transform/pass.h"

/* Result dims over all branches: equal ones stay, others become one fresh symbol per distinct tuple. */
struct merged {
    dim *tuples; /* n_regions words for each fresh symbol; escaping dims as they stand in the branch's
                    function */
    dim fresh[8];
};

static dim merge_dim(struct infer *in, struct merged *merged, const dim *inner, const dim *outer,
                     const bool *escapes)
{
    uint32_t n = in->n_regions, s;
    bool same = !escapes[0];
    for (uint32_t r = 1; r < n; r++) same &= !escapes[r] && outer[r] == outer[0];
    if (same) return outer[0];
    for (s = 0; s < in->fresh; s++) {
        bool equal = true;
        for (uint32_t r = 0; r < n; r++) equal &= merged->tuples[s * n + r] == inner[r];
        if (equal) return merged->fresh[s];
    }
    int64_t lo = INT64_MAX, hi = 0;
    for (uint32_t r = 0; r < n; r++) {
        int64_t l, h;
        if (escapes[r]) dim_range(in->m, module_fn(in->m, in->regions[r].fn)->symbols, inner[r], &l, &h);
        else dim_range(in->m, in->symbols, outer[r], &l, &h);
        lo = HOP_MIN(lo, HOP_MAX(l, 0));
        hi = HOP_MAX(hi, h);
    }
    dim d = infer_fresh(in, lo, hi);
    memcpy(merged->tuples + (size_t)s * n, inner, n * sizeof *inner);
    merged->fresh[s] = d;
    return d;
}

/* Branches agree in dtypes and ranks; sizes may differ. */
static void check_branches(const struct infer *in, uint32_t n_results)
{
    const struct fn *first = module_fn(in->m, in->regions[0].fn);
    struct mismatches wrong = { .text = { .arena = &in->m->scratch } };
    for (uint32_t k = 0; k < n_results; k++) {
        struct type t = type_get(in->m, value_type(first, first->results[k]));
        for (uint32_t r = 1; r < in->n_regions; r++) {
            const struct fn *g = module_fn(in->m, in->regions[r].fn);
            struct type other = type_get(in->m, value_type(g, g->results[k]));
            if (other.dtype == t.dtype && other.rank == t.rank && other.kind == t.kind) continue;
            mismatches_add(&wrong, "result %u: branch 0 gives %s, branch %u gives %s", k,
                           type_text(in->m, first->symbols, value_type(first, first->results[k])), r,
                           type_text(in->m, g->symbols, value_type(g, g->results[k])));
        }
    }
    infer_no_mismatches(in, &wrong);
}

static void switch_infer(struct infer *in)
{
    struct type index = infer_type(in, 0);
    if (in->groups[0] != 1) infer_error(in, "takes one index, given %u", in->groups[0]);
    if (index.rank || (index.dtype != DT_BOOL && !dtype_is_integer((enum dtype)index.dtype)))
        infer_error(in, "the index: expected bool[], i32[], i64[] or u32[], found %s",
                    infer_text(in, in->operands[0]));
    if (index.dtype == DT_BOOL && in->n_regions > 2)
        infer_error(in, "a bool chooses between two branches, given %u", in->n_regions);
    uint32_t n = in->n_regions, n_results = module_fn(in->m, in->regions[0].fn)->n_results;
    for (uint32_t r = 1; r < n; r++) {
        uint32_t found = module_fn(in->m, in->regions[r].fn)->n_results;
        if (found != n_results)
            infer_error(in, "branch 0 has %u results, branch %u has %u", n_results, r, found);
    }
    struct merged merged = { .tuples = ARENA_NEW(in->arena, dim, (size_t)n * HOP_COUNT(merged.fresh)) };
    dim *inner = ARENA_NEW(in->arena, dim, n), *outer = ARENA_NEW(in->arena, dim, n);
    bool *escapes = ARENA_NEW(in->arena, bool, n);
    check_branches(in, n_results);
    for (uint32_t k = 0; k < n_results; k++) {
        const struct fn *first = module_fn(in->m, in->regions[0].fn);
        struct type t = type_get(in->m, value_type(first, first->results[k]));
        dim dims[MAX_RANK];
        for (uint32_t i = 0; i < t.rank; i++) {
            for (uint32_t r = 0; r < n; r++) {
                const struct fn *g = module_fn(in->m, in->regions[r].fn);
                inner[r] = type_get(in->m, value_type(g, g->results[k])).dims[i];
                escapes[r] = infer_region_dim_escapes(in, r, inner[r], &outer[r]);
            }
            dims[i] = merge_dim(in, &merged, inner, outer, escapes);
        }
        infer_result(in, type_with_dims(in->m, t, dims));
    }
}

static void switch_eval(struct eval *e)
{
    int64_t last = e->n->n_regions - 1;
    int64_t chosen = element_index((enum dtype)e->operands[0]->dtype, e->operands[0]->data);
    uint32_t r = (uint32_t)HOP_MIN(HOP_MAX(chosen, 0), last);
    const struct region *g = node_region(e->f, e->n, r);
    struct tensor_list *scratch = tensor_list_begin(1);
    const int64_t *symbols = eval_region_symbols(e, r, scratch, 0);
    interp_call(e->in, g->fn, symbols, e->operands + g->operands, e->results);
    tensor_list_end(scratch);
}

static val emit_switch(struct builder *b, val index, const struct attr *attrs,
                       const struct region_in *regions, uint32_t n)
{
    return builder_node(b, &(struct node_in){ .op = OP_switch,
                                              .operands = &index,
                                              .n_operands = 1,
                                              .groups = (const uint32_t[1]){ 1 },
                                              .attrs = attrs,
                                              .regions = regions,
                                              .n_regions = n });
}

static bool symbol_at_least(void *ctx, uint32_t symbol) { return symbol >= *(const uint32_t *)ctx; }
static bool mentions_from(const struct module *m, dim d, uint32_t first)
{
    return d & DIM_TABLE && dim_mentions(m, d, symbol_at_least, &first);
}

/* The type of a region's value as it is around; false when only the region knows a size of it. */
static bool outer_type(struct module *m, type_id t, const dim *dims, uint32_t n_dims, type_id *out)
{
    struct type type = type_get(m, t);
    for (uint32_t i = 0; i < type.rank; i++)
        if (mentions_from(m, type.dims[i], n_dims)) return false;
    *out = type_substitute(m, t, dims);
    return true;
}

/* Does result k have one and the same type in all branches, seen from around? */
static bool same_everywhere(struct module *m, const struct node_in *in, uint32_t k)
{
    type_id first = 0, t;
    for (uint32_t r = 0; r < in->n_regions; r++) {
        const struct fn *g = module_fn(m, in->regions[r].fn);
        if (!outer_type(m, value_type(g, g->results[k]), in->regions[r].dims, g->n_outer_symbols, &t))
            return false;
        if (!r) first = t;
        if (t != first) return false;
    }
    return true;
}

/* ---- reverse ---- */

/* What the branches save lies in slots that all of them share: only one branch runs. A residual has a slot of
 * its own type; or, where branches save arrays of different sizes, it lies at some offset of a slot that
 * holds all such arrays of one branch, one behind the other along its last dim. */
struct saved_slot {
    type_id type;   /* as seen around */
    uint32_t users; /* branches that fill it */
    bool packed;
};
struct saved_slots {
    struct saved_slot *list;
    uint32_t n;
};
struct in_slot {
    uint32_t slot;          /* HOP_NONE: it is an operand or a result */
    int64_t offset, length; /* packed: along the slot's last dim */
};

struct switch_saved {
    struct node_in in;
    const struct vjp_halves **halves; /* per branch */
    struct saved_slots slots;
    struct in_slot **where; /* per branch and residual */
    val **residuals;        /* per branch and residual: a value around, the slot where it is in one */
};

/* The slot for one more residual of a branch: the first of its type that the branch has not taken. */
static uint32_t take_slot(struct saved_slots *slots, bool *taken, type_id t)
{
    uint32_t s = 0;
    while (s < slots->n && (taken[s] || slots->list[s].type != t)) s++;
    if (s == slots->n) slots->list[slots->n++] = (struct saved_slot){ .type = t };
    slots->list[s].users++;
    taken[s] = true;
    return s;
}

static void take_slots(struct builder *b, struct switch_saved *saved)
{
    uint32_t n = saved->in.n_regions, most = 0;
    for (uint32_t r = 0; r < n; r++) most += saved->halves[r]->n_residuals;
    saved->slots = (struct saved_slots){ ARENA_NEW(&b->arena, struct saved_slot, most), 0 };
    saved->where = ARENA_NEW(&b->arena, struct in_slot *, n);
    for (uint32_t r = 0; r < n; r++) {
        const struct vjp_halves *h = saved->halves[r];
        const struct fn *back = module_fn(b->m, h->backward);
        bool *taken = ARENA_ZNEW(&b->arena, bool, most);
        saved->where[r] = ARENA_ZNEW(&b->arena, struct in_slot, h->n_residuals);
        for (uint32_t i = 0; i < h->n_residuals; i++) {
            uint32_t param = h->source_param[i], result = h->source_result[i];
            bool free = param != HOP_NONE ||
                        (result != HOP_NONE && same_everywhere(b->m, &saved->in, result));
            saved->where[r][i].slot = HOP_NONE;
            if (free) continue;
            type_id type = type_substitute(b->m, value_type(back, i), saved->in.regions[r].dims);
            saved->where[r][i].slot = take_slot(&saved->slots, taken, type);
        }
    }
}

/* An array as rows of a known length under leading dims that may be symbolic; false for scalars. */
static bool as_rows(struct module *m, type_id t, struct type *lead, int64_t *length)
{
    *lead = type_get(m, t);
    if (!lead->rank) return false;
    *length = 1;
    while (lead->rank && dim_is_const(m, lead->dims[lead->rank - 1]))
        *length *= dim_const_value(m, lead->dims[--lead->rank]);
    return true;
}
static bool same_lead(const struct type *a, const struct type *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->dims, b->dims, a->rank * sizeof *a->dims);
}

/* What a group of slots with the same leading dims would take as one: the most that any branch fills of them.
 */
static int64_t longest_branch(struct builder *b, const struct switch_saved *saved, const bool *members)
{
    int64_t longest = 0, length;
    struct type lead;
    for (uint32_t r = 0; r < saved->in.n_regions; r++) {
        int64_t sum = 0;
        for (uint32_t i = 0; i < saved->halves[r]->n_residuals; i++) {
            uint32_t s = saved->where[r][i].slot;
            if (s != HOP_NONE && members[s] && as_rows(b->m, saved->slots.list[s].type, &lead, &length))
                sum += length;
        }
        longest = HOP_MAX(longest, sum);
    }
    return longest;
}

/* The members become one slot, which is the first of them; the others are left without users. */
static void pack_slots(struct builder *b, struct switch_saved *saved, uint32_t first, const bool *members,
                       int64_t longest)
{
    struct saved_slot *list = saved->slots.list;
    struct type lead;
    int64_t length;
    for (uint32_t r = 0; r < saved->in.n_regions; r++) {
        int64_t offset = 0;
        for (uint32_t i = 0; i < saved->halves[r]->n_residuals; i++) {
            struct in_slot *at = &saved->where[r][i];
            if (at->slot == HOP_NONE || !members[at->slot]) continue;
            as_rows(b->m, list[at->slot].type, &lead, &length);
            *at = (struct in_slot){ first, offset, length };
            offset += length;
        }
    }
    for (uint32_t s = first; s < saved->slots.n; s++)
        if (members[s]) list[s].users = 0;
    as_rows(b->m, list[first].type, &lead, &length);
    dim dims[MAX_RANK];
    memcpy(dims, lead.dims, lead.rank * sizeof *dims);
    dims[lead.rank] = dim_const(b->m, longest);
    list[first] = (struct saved_slot){ type_intern(b->m, lead.dtype, lead.rank + 1u, dims), 1, true };
}

/* Slots that some branches leave empty are put together where that leaves much less to keep: putting together
 * costs copies. */
static void overlap_slots(struct builder *b, struct switch_saved *saved)
{
    enum { WORTH_BYTES = 1024 };
    struct saved_slots *slots = &saved->slots;
    for (uint32_t first = 0; first < slots->n; first++) {
        bool *members = ARENA_ZNEW(&b->arena, bool, slots->n);
        struct type lead, other;
        int64_t length, total = 0, plain = 0;
        uint32_t count = 0;
        if (slots->list[first].packed || !slots->list[first].users) continue;
        if (!as_rows(b->m, slots->list[first].type, &lead, &length)) continue;
        for (uint32_t s = first; s < slots->n; s++) {
            const struct saved_slot *slot = &slots->list[s];
            if (slot->packed || !slot->users || slot->users == saved->in.n_regions) continue;
            if (!as_rows(b->m, slot->type, &other, &length) || !same_lead(&lead, &other)) continue;
            members[s] = true;
            total += length;
            count++;
            plain += guessed_bytes(b->m, b->symbols.data, slot->type);
        }
        if (count < 2 || !members[first] || !total) continue;
        int64_t longest = longest_branch(b, saved, members);
        int64_t saves = (int64_t)((double)plain * (double)(total - longest) / (double)total);
        if (saves >= WORTH_BYTES && saves >= plain / 8) pack_slots(b, saved, first, members, longest);
    }
    uint32_t n = 0, *moved = ARENA_NEW(&b->arena, uint32_t, slots->n);
    for (uint32_t s = 0; s < slots->n; s++) {
        moved[s] = n;
        if (slots->list[s].users) slots->list[n++] = slots->list[s];
    }
    slots->n = n;
    for (uint32_t r = 0; r < saved->in.n_regions; r++)
        for (uint32_t i = 0; i < saved->halves[r]->n_residuals; i++) {
            uint32_t *slot = &saved->where[r][i].slot;
            if (*slot != HOP_NONE) *slot = moved[*slot];
        }
}

static val as_type(struct builder *b, val v, type_id type)
{
    struct type t = type_get(b->m, type);
    return builder_type(b, v) == type ? v : emit_reshape(b, v, t.rank, t.dims);
}

/* All arrays that a branch keeps in a packed slot, one behind the other, and zeros behind the last. */
static val fill_packed(struct builder *b, const struct vjp_halves *h, const struct in_slot *where, uint32_t s,
                       const val *values, type_id type)
{
    struct type t = type_get(b->m, type);
    uint32_t along = t.rank - 1u, n = 0;
    int64_t filled = 0, length = dim_const_value(b->m, t.dims[along]);
    val *parts = ARENA_NEW(&b->arena, val, h->n_residuals + 1);
    dim dims[MAX_RANK];
    memcpy(dims, t.dims, t.rank * sizeof *dims);
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        if (where[i].slot != s) continue;
        dims[along] = dim_const(b->m, where[i].length);
        parts[n++] = as_type(b, values[i], type_intern(b->m, t.dtype, t.rank, dims));
        filled += where[i].length;
    }
    if (!n) return VAL_NONE;
    dims[along] = dim_const(b->m, length - filled);
    if (filled < length) parts[n++] = emit_full(b, (enum dtype)t.dtype, 0, t.rank, dims);
    struct attr attr = A_INT(along);
    return n == 1 ? parts[0] : emit(b, OP_concat, parts, n, &attr);
}

/* Branch r with its results and all slots, its own filled and the others zero. */
static struct region_in forward_branch(struct builder *b, const struct switch_saved *saved, uint32_t r)
{
    const struct vjp_halves *h = saved->halves[r];
    const struct region_in *region = &saved->in.regions[r];
    const struct fn *forward = module_fn(b->m, h->forward);
    const struct saved_slots *slots = &saved->slots;
    uint32_t n_results = module_fn(b->m, region->fn)->n_results, next = n_results;
    struct new_body body;
    new_body_begin(&body, b, forward, region->dims, module_fn(b->m, region->fn)->n_outer_symbols);
    type_id *types = ARENA_NEW(&body.b.arena, type_id, slots->n);
    val *out = ARENA_NEW(&body.b.arena, val, n_results + slots->n);
    val *args = ARENA_NEW(&body.b.arena, val, forward->n_params);
    val *all = ARENA_NEW(&body.b.arena, val, forward->n_results);
    val *values = ARENA_NEW(&body.b.arena, val, h->n_residuals);
    for (uint32_t s = 0; s < slots->n; s++) types[s] = new_body_type(&body, slots->list[s].type);
    for (uint32_t p = 0; p < forward->n_params; p++)
        args[p] = builder_param(&body.b, value_type(forward, p), forward->values[p].name);
    inline_function(&body.b, h->forward, NULL, args, all);
    if (n_results) memcpy(out, all, n_results * sizeof *out);
    for (uint32_t s = 0; s < slots->n; s++) out[n_results + s] = VAL_NONE;
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        uint32_t s = saved->where[r][i].slot;
        if (h->source_result[i] != HOP_NONE) values[i] = all[h->source_result[i]];
        else if (h->source_param[i] == HOP_NONE) values[i] = all[next++];
        else values[i] = VAL_NONE;
        if (s != HOP_NONE && !slots->list[s].packed) out[n_results + s] = values[i];
    }
    for (uint32_t s = 0; s < slots->n; s++) {
        if (slots->list[s].packed)
            out[n_results + s] = fill_packed(&body.b, h, saved->where[r], s, values, types[s]);
        if (out[n_results + s] == VAL_NONE) out[n_results + s] = zeros_of(&body.b, types[s]);
    }
    return new_body_finish(&body, out, n_results + slots->n, region->operands, region->n_operands);
}

static void split_branches(struct vjp_forward *v, struct switch_saved *saved, bool recompute)
{
    struct builder *b = v->copy->b;
    for (uint32_t r = 0; r < saved->in.n_regions; r++) {
        uint32_t fn = saved->in.regions[r].fn;
        const bool *active = v->active + node_region(v->f, v->n, r)->operands;
        saved->halves[r] = vjp_split(b->m, fn, active, v->result_wanted, 0, recompute);
    }
    take_slots(b, saved);
    overlap_slots(b, saved);
}

/* Would running the branch again cost less than keeping what it saves? Kept values are written, whichever
 * branch runs, and read. */
static bool cheaper_again(struct builder *b, const struct switch_saved *saved)
{
    enum { SMALL = 1024 };
    int64_t keep = 0, again = 0;
    for (uint32_t s = 0; s < saved->slots.n; s++)
        keep += 2 * guessed_bytes(b->m, b->symbols.data, saved->slots.list[s].type);
    if (keep < SMALL) return false;
    for (uint32_t r = 0; r < saved->in.n_regions; r++) {
        bool saves = false;
        for (uint32_t i = 0; i < saved->halves[r]->n_residuals; i++)
            saves |= saved->where[r][i].slot != HOP_NONE;
        if (saves) again = HOP_MAX(again, run_cost(b->m, saved->in.regions[r].fn));
    }
    return again < keep;
}

static void switch_vjp_forward(struct vjp_forward *v)
{
    struct builder *b = v->copy->b;
    struct switch_saved *saved = ARENA_NEW(&b->arena, struct switch_saved, 1);
    struct node_in in = copier_node_in(v->copy, v->n);
    saved->in = in;
    uint32_t n = in.n_regions, n_results = v->n->n_results;
    bool *found = ARENA_NEW(&b->arena, bool, n_results);
    bool recompute = in.attrs[SWITCH_RECOMPUTE].kind != ATTR_ABSENT;
    saved->halves = ARENA_NEW(&b->arena, const struct vjp_halves *, n);
    saved->residuals = ARENA_NEW(&b->arena, val *, n);
    for (uint32_t k = 0; k < n_results; k++) v->result_active[k] = false;
    for (uint32_t r = 0; r < n; r++) {
        vjp_active_results(b->m, in.regions[r].fn, v->active + node_region(v->f, v->n, r)->operands, found);
        for (uint32_t k = 0; k < n_results; k++) v->result_active[k] |= found[k];
    }
    split_branches(v, saved, recompute);
    if (!recompute && cheaper_again(b, saved)) split_branches(v, saved, true);
    struct region_in *regions = ARENA_NEW(&b->arena, struct region_in, n);
    for (uint32_t r = 0; r < n; r++) regions[r] = forward_branch(b, saved, r);
    val first = emit_switch(b, in.operands[0], in.attrs, regions, n);
    for (uint32_t k = 0; k < n_results; k++) v->results[k] = first + k;
    for (uint32_t s = 0; s < saved->slots.n; s++) {
        builder_name(b, first + n_results + s, module_string(b->m, "kept", 4));
        saved_add(b->m,
                  (struct saved_value){ .by = node_row(v->n),
                                        .place = v->n->place,
                                        .type = builder_type(b, first + n_results + s),
                                        .rows = HOP_NONE,
                                        .why = "what the branch taken keeps: branches share the memory" });
    }
    for (uint32_t r = 0; r < n; r++)
        saved_add_inside(b->m, node_row(v->n), v->n->place, saved->halves[r]->saved);
    for (uint32_t r = 0; r < n; r++) {
        const struct vjp_halves *h = saved->halves[r];
        saved->residuals[r] = ARENA_NEW(&b->arena, val, h->n_residuals);
        for (uint32_t i = 0; i < h->n_residuals; i++) {
            uint32_t param = h->source_param[i], slot = saved->where[r][i].slot;
            val *out = &saved->residuals[r][i];
            if (param != HOP_NONE) *out = in.regions[r].operands[param];
            else if (slot != HOP_NONE) *out = first + n_results + slot;
            else *out = first + h->source_result[i];
        }
    }
    v->saved = saved;
}

/* x with exactly this type, equal where the sizes agree, and something where they do not: a branch that is
 * not taken must not fail. */
static val resized(struct builder *b, val x, type_id type)
{
    struct type t = type_get(b->m, type);
    struct type is = emit_type(b, x);
    if (builder_type(b, x) == type) return x;
    dim zero[MAX_RANK] = { 0 };
    struct attr attrs[3] = { A_DIMS(zero, is.rank), A_DIMS(t.dims, t.rank), A_NONE };
    val fill = emit_full(b, (enum dtype)is.dtype, 0, 0, NULL);
    val large = emit(b, OP_pad, (val[]){ x, fill }, 2, attrs);
    return emit_slice(b, large, zero, t.dims);
}

/* What a branch's pullback takes for the cotangent of a result whose type around is `around`: a parameter of
 * the new branch. */
static val cotangent_param(struct new_body *body, type_id wanted, type_id around, uint32_t n_known)
{
    struct module *m = body->b.m;
    struct type want = type_get(m, wanted), is = type_get(m, around);
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < want.rank; i++) {
        bool open = mentions_from(m, want.dims[i], n_known); /* bound by this very parameter */
        bool equal = !open && (want.dims[i] & DIM_TABLE ? dim_substitute(m, want.dims[i], body->dims)
                                                        : want.dims[i]) == is.dims[i];
        dims[i] = open || equal ? want.dims[i] : new_body_dim(body, is.dims[i]);
    }
    return builder_param(&body->b, type_with_dims(m, want, dims), 0);
}

/* Cotangents that the backward switch gives: one for each distinct value among the active operands. */
struct targets {
    val *values;
    uint32_t n;
};
static uint32_t target_of(const struct targets *t, val v)
{
    uint32_t i = 0;
    while (i < t->n && t->values[i] != v) i++;
    return i;
}

/* Parameters for a branch's residuals; those that lie in one packed slot share one. Returns how many operands
 * there are. */
static uint32_t residual_params(struct vjp *v, uint32_t r, struct new_body *body, val *operands, val *args)
{
    const struct switch_saved *saved = v->saved;
    const struct vjp_halves *h = saved->halves[r];
    const struct fn *back = module_fn(v->b->m, h->backward);
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        uint32_t s = saved->where[r][i].slot;
        bool packed = s != HOP_NONE && saved->slots.list[s].packed;
        args[i] = VAL_NONE;
        for (uint32_t j = 0; j < i && packed && args[i] == VAL_NONE; j++)
            if (saved->where[r][j].slot == s) args[i] = args[j];
        if (args[i] != VAL_NONE) continue;
        type_id type = packed ? new_body_type(body, saved->slots.list[s].type) : value_type(back, i);
        args[i] = builder_param(&body->b, type, 0);
        operands[n++] = saved->residuals[r][i];
    }
    return n;
}

/* The array that lies in a packed slot. */
static val unpacked(struct builder *b, val slot, const struct in_slot *at, type_id type)
{
    struct type t = emit_type(b, slot);
    dim start[MAX_RANK] = { 0 }, limit[MAX_RANK];
    memcpy(limit, t.dims, t.rank * sizeof *limit);
    start[t.rank - 1] = dim_const(b->m, at->offset);
    limit[t.rank - 1] = dim_const(b->m, at->offset + at->length);
    return as_type(b, emit_slice(b, slot, start, limit), type);
}

static struct region_in backward_branch(struct vjp *v, uint32_t r, const struct targets *targets)
{
    const struct switch_saved *saved = v->saved;
    const struct vjp_halves *h = saved->halves[r];
    const struct region_in *region = &saved->in.regions[r];
    const struct fn *back = module_fn(v->b->m, h->backward), *fn = module_fn(v->b->m, region->fn);
    uint32_t n = h->n_residuals, n_known = fn->n_outer_symbols;
    struct new_body body;
    new_body_begin(&body, v->b, back, region->dims, n_known);
    val *operands = ARENA_NEW(&v->b->arena, val, back->n_params);
    val *args = ARENA_NEW(&body.b.arena, val, back->n_params);
    type_id *zero = ARENA_NEW(&body.b.arena, type_id, targets->n);
    for (uint32_t i = 0; i < targets->n; i++)
        zero[i] = new_body_type(&body, builder_type(v->b, targets->values[i]));
    uint32_t n_operands = residual_params(v, r, &body, operands, args);
    for (uint32_t k = 0; k < fn->n_results; k++) {
        if (!h->ct_result[k]) continue;
        type_id want = value_type(back, n), known;
        bool inside = v->ct[k] == VAL_NONE && outer_type(v->b->m, want, body.dims, n_known,
                                                         &known); /* a zero that can be made in the branch */
        args[n] = VAL_NONE;
        if (!inside) {
            val ct = v->ct[k] != VAL_NONE ? v->ct[k] : zeros_like(v->b, v->results[k]);
            operands[n_operands++] = ct;
            args[n] = cotangent_param(&body, want, builder_type(v->b, ct), n_known);
        }
        n++;
    }
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        const struct in_slot *at = &saved->where[r][i];
        if (at->slot == HOP_NONE || !saved->slots.list[at->slot].packed) continue;
        args[i] = unpacked(&body.b, args[i], at, value_type(back, i));
    }
    for (uint32_t i = h->n_residuals; i < n; i++) {
        type_id type = value_type(back, i);
        args[i] = args[i] == VAL_NONE ? zeros_of(&body.b, type) : resized(&body.b, args[i], type);
    }
    val *ct = ARENA_NEW(&body.b.arena, val, back->n_results);
    val *out = ARENA_NEW(&body.b.arena, val, targets->n);
    inline_function(&body.b, h->backward, NULL, args, ct);
    for (uint32_t i = 0; i < targets->n; i++) out[i] = VAL_NONE;
    uint32_t from = 0;
    for (uint32_t p = 0; p < fn->n_params; p++) {
        if (!h->ct_param[p]) continue;
        uint32_t i = target_of(targets, region->operands[p]);
        out[i] = add_cotangents(&body.b, out[i], ct[from++]);
    }
    for (uint32_t i = 0; i < targets->n; i++)
        if (out[i] == VAL_NONE) out[i] = zeros_of(&body.b, zero[i]);
    return new_body_finish(&body, out, targets->n, operands, n_operands);
}

static void switch_vjp(struct vjp *v)
{
    const struct switch_saved *saved = v->saved;
    uint32_t n = saved->in.n_regions;
    struct targets targets = { ARENA_NEW(&v->b->arena, val, v->n->n_operands), 0 };
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t p = 0; p < saved->in.regions[r].n_operands; p++) {
            val x = saved->in.regions[r].operands[p];
            if (!saved->halves[r]->ct_param[p]) continue;
            if (target_of(&targets, x) == targets.n) targets.values[targets.n++] = x;
        }
    if (!targets.n) return;
    struct region_in *regions = ARENA_NEW(&v->b->arena, struct region_in, n);
    for (uint32_t r = 0; r < n; r++) regions[r] = backward_branch(v, r, &targets);
    val first = emit_switch(v->b, saved->in.operands[0], NULL, regions, n);
    bool *given = ARENA_ZNEW(&v->b->arena, bool, targets.n);
    /* A value that stands there several times gets its cotangent once. */
    for (uint32_t k = 1; k < v->n->n_operands; k++) {
        uint32_t i = target_of(&targets, v->operands[k]);
        if (i == targets.n || given[i] || !v->active[k]) continue;
        given[i] = true;
        v->out[k] = first + i;
    }
}

/* ---- tangents ---- */

static void switch_jvp(struct jvp *j)
{
    struct builder *b = j->b;
    struct node_in in = copier_node_in(j->copy, j->n);
    uint32_t n = in.n_regions, n_results = j->n->n_results;
    bool *any = ARENA_ZNEW(&b->arena, bool, n_results);
    bool **found = ARENA_NEW(&b->arena, bool *, n);
    bool **active = ARENA_NEW(&b->arena, bool *, n);
    uint32_t *fns = ARENA_NEW(&b->arena, uint32_t, n);
    for (uint32_t r = 0; r < n; r++) {
        const struct region *g = node_region(j->f, j->n, r);
        found[r] = ARENA_ZNEW(&b->arena, bool, n_results);
        active[r] = ARENA_NEW(&b->arena, bool, g->n_operands);
        for (uint32_t k = 0; k < g->n_operands; k++) active[r][k] = j->tangents[g->operands + k] != VAL_NONE;
        fns[r] = jvp_function(b->m, in.regions[r].fn, active[r], found[r]);
        for (uint32_t k = 0; k < n_results; k++) any[k] |= found[r][k];
    }
    struct region_in *regions = ARENA_NEW(&b->arena, struct region_in, n);
    for (uint32_t r = 0; r < n; r++) {
        const struct region_in *region = &in.regions[r];
        const struct fn *inner = module_fn(b->m, fns[r]);
        const val *tangents = j->tangents + node_region(j->f, j->n, r)->operands;
        struct new_body body;
        new_body_begin(&body, b, inner, region->dims, inner->n_outer_symbols);
        val *operands = ARENA_NEW(&b->arena, val, inner->n_params);
        val *args = ARENA_NEW(&body.b.arena, val, inner->n_params);
        val *all = ARENA_NEW(&body.b.arena, val, inner->n_results);
        val *out = ARENA_NEW(&body.b.arena, val, 2 * (size_t)n_results);
        uint32_t n_operands = region->n_operands, n_out = n_results, from = n_results;
        if (n_operands) memcpy(operands, region->operands, n_operands * sizeof *operands);
        for (uint32_t k = 0; k < region->n_operands; k++)
            if (active[r][k]) operands[n_operands++] = tangents[k];
        for (uint32_t p = 0; p < inner->n_params; p++)
            args[p] = builder_param(&body.b, value_type(inner, p), inner->values[p].name);
        inline_function(&body.b, fns[r], NULL, args, all);
        if (n_results) memcpy(out, all, n_results * sizeof *out);
        for (uint32_t k = 0; k < n_results; k++) {
            val dot = found[r][k] ? all[from++] : VAL_NONE;
            if (any[k]) out[n_out++] = dot != VAL_NONE ? dot : zeros_like(&body.b, all[k]);
        }
        regions[r] = new_body_finish(&body, out, n_out, operands, n_operands);
    }
    val first = emit_switch(b, in.operands[0], in.attrs, regions, n), next = first + n_results;
    for (uint32_t k = 0; k < n_results; k++) {
        j->results[k] = first + k;
        j->out[k] = any[k] ? next++ : VAL_NONE;
    }
}

/* ---- lanes ---- */

/* One index for all lanes: the branches over lanes. */
static void batch_branches(struct batch *v, const struct node_in *in)
{
    struct builder *b = v->b;
    uint32_t n = in->n_regions, n_results = v->n->n_results;
    bool *force = ARENA_ZNEW(&b->arena, bool, n_results), *found = ARENA_NEW(&b->arena, bool, n_results);
    struct region_in *regions = ARENA_NEW(&b->arena, struct region_in, n);
    for (uint32_t r = 0; r < n; r++) {
        batch_body(v, in->regions[r].fn, v->batched + node_region(v->f, v->n, r)->operands, NULL, false,
                   found);
        for (uint32_t k = 0; k < n_results; k++) force[k] |= found[k];
    }
    for (uint32_t r = 0; r < n; r++) {
        const struct region *g = node_region(v->f, v->n, r);
        bool lanes = v->lanes != VAL_NONE && module_fn(b->m, g->fn)->effects;
        uint32_t fn = batch_body(v, in->regions[r].fn, v->batched + g->operands, force, lanes, found);
        val *operands = ARENA_NEW(&b->arena, val, g->n_operands + 1);
        if (lanes) operands[0] = v->lanes;
        if (g->n_operands)
            memcpy(operands + lanes, in->regions[r].operands, g->n_operands * sizeof *operands);
        regions[r] = (struct region_in){ fn, operands, g->n_operands + lanes,
                                         batch_body_dims(v, &in->regions[r], module_fn(b->m, fn),
                                                         g->n_dims) };
    }
    val first = emit_switch(b, in->operands[0], in->attrs, regions, n);
    for (uint32_t k = 0; k < n_results; k++) {
        v->results[k] = first + k;
        v->result_batched[k] = force[k];
    }
}

/* bool[lanes]: which lanes take branch r. The ends take what lies beyond them. */
static val lanes_taking(struct builder *b, val index, uint32_t r, uint32_t n)
{
    struct type t = emit_type(b, index);
    if (n == 1) return emit_full(b, DT_BOOL, 1, t.rank, t.dims);
    if (t.dtype == DT_BOOL) return r ? index : emit1(b, OP_not, index);
    if (dtype_info[t.dtype].size < 4) { /* there may be more branches than the dtype has numbers */
        t.dtype = DT_I32;
        index = emit_cast(b, index, DT_I32);
    }
    val number = emit_full(b, (enum dtype)t.dtype, r, t.rank, t.dims);
    if (r == 0) return emit2(b, OP_le, index, number);
    return emit2(b, r == n - 1 ? OP_ge : OP_eq, index, number);
}

/* A branch over lanes, run only if any lane takes it: when none does there is no safe operand at all, and
 * nothing to compute; then zeros. */
static val guarded_call(struct builder *b, val mask, const struct attr *attrs, struct region_in region,
                        uint32_t n_results)
{
    const struct fn *f = module_fn(b->m, region.fn);
    struct new_body body;
    new_body_begin(&body, b, NULL, NULL, 0);
    val *out = ARENA_NEW(&body.b.arena, val, n_results);
    type_id *types = ARENA_NEW(&body.b.arena, type_id, n_results);
    for (uint32_t k = 0; k < n_results; k++)
        types[k] = new_body_type(&body, type_substitute(b->m, value_type(f, f->results[k]), region.dims));
    for (uint32_t k = 0; k < n_results; k++) out[k] = zeros_of(&body.b, types[k]);
    struct region_in regions[2] = { new_body_finish(&body, out, n_results, NULL, 0), region };
    uint32_t all = 0;
    return emit_switch(b, emit_reduce(b, OP_any, mask, &all, 1), attrs, regions, 2);
}

/* Must the branch not run when no lane takes it: because of what it does, because a shared operand would get
 * a cotangent from it, or because it costs much more than passing its results through memory? Other branches
 * run and are fused with the choice. */
static bool needs_guard(struct module *m, const struct fn *f, const bool *batched)
{
    enum { CHEAP_PER_BYTE = 4 };
    int64_t bytes = 0;
    for (uint32_t p = 0; p < f->n_params; p++)
        if (!batched[p] && dtype_is_float((enum dtype)type_get(m, value_type(f, p)).dtype)) return true;
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (f->nodes[i].n_regions) return true;
    for (uint32_t k = 0; k < f->n_results; k++)
        bytes += guessed_bytes(m, f->symbols, value_type(f, f->results[k]));
    return f->effects || run_cost(m, f->id) > CHEAP_PER_BYTE * bytes;
}

/* Each lane has its index: every branch runs on all lanes, and each lane selects. */
static void batch_select(struct batch *v, const struct node_in *in)
{
    struct builder *b = v->b;
    uint32_t n = in->n_regions, n_results = v->n->n_results;
    bool *force = ARENA_NEW(&b->arena, bool, n_results), *found = ARENA_NEW(&b->arena, bool, n_results);
    struct attr call[INVOKE_ATTRS] = { [INVOKE_RECOMPUTE] = in->attrs[SWITCH_RECOMPUTE] };
    for (uint32_t k = 0; k < n_results; k++) {
        force[k] = true;
        type_id type = value_type(v->f, v->n->results + k);
        if (type_is_object(b->m, type))
            hop_throw(
                HOP_INVALID,
                "%sswitch: batched, its index differs from lane to lane, and result %u is %s, which is one "
                "for all lanes",
                place_text(b->m, v->n->place), k, type_text(b->m, v->f->symbols, type));
        if (!same_everywhere(b->m, in, k))
            hop_throw(HOP_INVALID,
                      "%sswitch: result %u has another size in each branch, and its index differs from lane "
                      "to lane: the sizes of the lanes would differ",
                      place_text(b->m, v->n->place), k);
    }
    for (uint32_t r = n; r-- > 0;) {
        const struct region *g = node_region(v->f, v->n, r);
        const bool *batched = v->batched + g->operands;
        bool lanes = module_fn(b->m, g->fn)->effects;
        uint32_t fn = batch_body(v, in->regions[r].fn, batched, force, lanes, found);
        val mask = lanes_taking(b, in->operands[0], r, n);
        val running = v->lanes != VAL_NONE ? emit2(b, OP_and, mask, v->lanes) : mask;
        val *operands = ARENA_NEW(&b->arena, val, g->n_operands + 1), lane = VAL_NONE;
        if (lanes) operands[0] = running;
        for (uint32_t k = 0; k < g->n_operands; k++) {
            val x = in->regions[r].operands[k];
            if (batched[k] && n > 1) {
                if (lane == VAL_NONE) lane = running_lane(b, running);
                x = safe_operand(b, running, lane, x);
            }
            operands[lanes + k] = x;
        }
        struct region_in region = { fn, operands, g->n_operands + lanes,
                                    batch_body_dims(v, &in->regions[r], module_fn(b->m, fn), g->n_dims) };
        val first;
        if (n > 1 && needs_guard(b->m, module_fn(b->m, g->fn), batched))
            first = guarded_call(b, running, in->attrs, region, n_results);
        else
            first = builder_node(b, &(struct node_in){ .op = OP_invoke_subgraph,
                                                       .groups = (const uint32_t[1]){ 0 },
                                                       .attrs = call,
                                                       .regions = &region,
                                                       .n_regions = 1 });
        for (uint32_t k = 0; k < n_results; k++)
            v->results[k] = r == n - 1 ? first + k : emit_where(b, mask, first + k, v->results[k]);
    }
}

static void switch_batch(struct batch *v)
{
    struct node_in in = copier_node_in(v->copy, v->n);
    if (v->batched[0]) batch_select(v, &in);
    else batch_branches(v, &in);
}

/* ---- rewrite ---- */

static const val *branch_arguments(struct copier *c, const struct node *n, uint32_t r)
{
    uint32_t n_operands = node_region(c->f, n, r)->n_operands;
    val *out = ARENA_NEW(&c->b->arena, val, n_operands);
    for (uint32_t i = 0; i < n_operands; i++) out[i] = c->values[node_region_operands(c->f, n, r)[i]];
    return out;
}

static bool same_branch(const struct region_in *x, const struct region_in *y, uint32_t n_dims)
{
    if (x->fn != y->fn || x->n_operands != y->n_operands) return false;
    if (x->n_operands && memcmp(x->operands, y->operands, x->n_operands * sizeof *x->operands)) return false;
    return !n_dims || !memcmp(x->dims, y->dims, n_dims * sizeof *x->dims);
}

/* A known index chooses its branch, and branches that are all the same are a call. */
static bool switch_rewrite(struct copier *c, const struct node *n, val *results, const void *options)
{
    HOP_UNUSED(options);
    struct attr index;
    if (full_value(c->b, c->values[node_operands(c->f, n)[0]], &index) && index.kind == ATTR_INT) {
        uint32_t chosen = (uint32_t)HOP_MAX(0, HOP_MIN(index.i, (int64_t)n->n_regions - 1));
        inline_region(c, n, chosen, branch_arguments(c, n, chosen), results);
        return true;
    }
    struct node_in in = copier_node_in(c, n);
    for (uint32_t k = 1; k < n->n_regions; k++)
        if (!same_branch(&in.regions[0], &in.regions[k], node_region(c->f, n, 0)->n_dims)) return false;
    val first = builder_node(c->b, &(struct node_in){ .op = OP_invoke_subgraph,
                                                      .regions = in.regions,
                                                      .n_regions = 1,
                                                      .place = n->place });
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
    return true;
}

static const struct op_sample switch_samples[] = {
    { "hop 1\nfn @sample(%p: bool[], %x: f64[3], %w: f64[3]) -> (f64[3]) {\n"
      "  %r = switch(%p) [(%a = %x) {\n"
      "    %s = sin(%a)\n"
      "    yield(%s)\n"
      "  }, (%a = %x, %b = %w) {\n"
      "    %m = mul(%a, %b)\n"
      "    yield(%m)\n"
      "  }]\n"
      "  return %r\n"
      "}\n",
      NULL },
    { "hop 1\nfn @zero(%x: f64[2]) -> (f64[2], f64[2]) {\n"
      "  %e = exp(%x)\n"
      "  return %x, %e\n"
      "}\n"
      "fn @one(%x: f64[2], %y: f64[2]) -> (f64[2], f64[2]) {\n"
      "  %s = mul(%x, %y)\n"
      "  %t = tanh(%s)\n"
      "  return %t, %y\n"
      "}\n"
      "fn @sample(%i: i32[], %x: f64[2], %y: f64[2]) -> (f64[2], f64[2]) {\n"
      "  %a, %b = switch(%i) [@zero(%x), @one(%x, %y), @one(%y, %x)]\n"
      "  return %a, %b\n"
      "}\n",
      "i = -1..4" },
};

static const struct attr_spec switch_attrs[] = { [SWITCH_RECOMPUTE] = { "recompute", ATTR_FLAG, false,
                                                                        NULL } };

const struct op_row row_switch = {
    .name = "switch",
    .meaning = "the results of the branch that the index chooses (clamped to the branches there are); only "
               "that branch runs",
    .sig = { .n_attrs = HOP_COUNT(switch_attrs),
             .attrs = switch_attrs,
             .n_groups = 1,
             .groups = { { "", GROUP_PLAIN } },
             .min_regions = 1,
             .max_regions = MANY,
             .regions = { { .word = "", .feeds = 0, .results = { "yield" } } } },
    .flags = OPF_HIGHER,
    .autocast = AUTOCAST_KEEP,
    .infer = switch_infer,
    .eval = switch_eval,
    .vjp = switch_vjp,
    .vjp_forward = switch_vjp_forward,
    .jvp = switch_jvp,
    .batch = switch_batch,
    HOP_SAMPLES(switch_samples),
    .lower = &switch_lower,
    .control = CONTROL_CHOICE,
    .rewrite = switch_rewrite,
};
