/* The row of switch: one of several functions is run, chosen by an index that is clamped to the branches there are (a bool chooses between two).
 * Each branch has its own operands; the results' types are merged over all branches at once. */
#include "hops/hops.h"

/* Result dims over all branches: equal ones stay, others become one fresh symbol per distinct tuple. */
struct merged {
    dim *tuples; /* n_regions words for each fresh symbol; escaping dims as they stand in the branch's function */
    dim fresh[8];
};

static dim merge_dim(struct infer *in, struct merged *merged, const dim *inner, const dim *outer, const bool *escapes)
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
        dim_range(in->m, escapes[r] ? module_fn(in->m, in->regions[r].fn)->symbols : in->symbols, escapes[r] ? inner[r] : outer[r], &l, &h);
        lo = HOP_MIN(lo, HOP_MAX(l, 0)), hi = HOP_MAX(hi, h);
    }
    dim d = infer_fresh(in, lo, hi);
    memcpy(merged->tuples + (size_t)s * n, inner, n * sizeof *inner);
    return merged->fresh[s] = d;
}

static void switch_infer(struct infer *in)
{
    struct type index = infer_type(in, 0);
    if (in->groups[0] != 1) infer_error(in, "takes one index, given %u", in->groups[0]);
    if (index.rank || (index.dtype != DT_BOOL && !dtype_is_integer((enum dtype)index.dtype)))
        infer_error(in, "the index: expected bool[], i32[], i64[] or u32[], found %s", infer_text(in, in->operands[0]));
    if (index.dtype == DT_BOOL && in->n_regions > 2) infer_error(in, "a bool chooses between two branches, given %u", in->n_regions);
    uint32_t n = in->n_regions, n_results = module_fn(in->m, in->regions[0].fn)->n_results;
    for (uint32_t r = 1; r < n; r++) {
        uint32_t found = module_fn(in->m, in->regions[r].fn)->n_results;
        if (found != n_results) infer_error(in, "branch 0 has %u results, branch %u has %u", n_results, r, found);
    }
    struct merged merged = { .tuples = ARENA_NEW(in->arena, dim, (size_t)n * HOP_COUNT(merged.fresh)) };
    dim *inner = ARENA_NEW(in->arena, dim, n), *outer = ARENA_NEW(in->arena, dim, n);
    bool *escapes = ARENA_NEW(in->arena, bool, n);
    for (uint32_t k = 0; k < n_results; k++) {
        const struct fn *first = module_fn(in->m, in->regions[0].fn);
        struct type t = type_get(in->m, value_type(first, first->results[k]));
        for (uint32_t r = 1; r < n; r++) {
            const struct fn *g = module_fn(in->m, in->regions[r].fn);
            struct type other = type_get(in->m, value_type(g, g->results[k]));
            if (other.dtype != t.dtype || other.rank != t.rank)
                infer_error(in, "result %u: branch 0 gives %s, branch %u gives %s", k, type_text(in->m, first->symbols, value_type(first, first->results[k])), r,
                            type_text(in->m, g->symbols, value_type(g, g->results[k])));
        }
        dim dims[MAX_RANK];
        for (uint32_t i = 0; i < t.rank; i++) {
            for (uint32_t r = 0; r < n; r++) {
                const struct fn *g = module_fn(in->m, in->regions[r].fn);
                inner[r] = type_get(in->m, value_type(g, g->results[k])).dims[i];
                escapes[r] = infer_region_dim_escapes(in, r, inner[r], &outer[r]);
            }
            dims[i] = merge_dim(in, &merged, inner, outer, escapes);
        }
        infer_result(in, type_intern(in->m, t.dtype, t.rank, dims));
    }
}

static int64_t index_value(const struct tensor *t)
{
    switch (t->dtype) {
    case DT_BOOL: return *(const uint8_t *)t->data != 0;
    case DT_I32: return *(const int32_t *)t->data;
    case DT_U32: return *(const uint32_t *)t->data;
    default: return *(const int64_t *)t->data;
    }
}

static void switch_eval(struct eval *e)
{
    int64_t last = e->n->n_regions - 1, chosen = index_value(e->operands[0]);
    uint32_t r = (uint32_t)HOP_MIN(HOP_MAX(chosen, 0), last);
    const struct region *g = node_region(e->f, e->n, r);
    struct tensor_list *scratch = tensor_list_begin(1);
    const int64_t *symbols = eval_region_symbols(e, r, scratch, 0);
    interp_call(e->in, g->fn, symbols, e->operands + g->operands, e->results);
    tensor_list_end(scratch);
}

const struct op_row row_switch = {
    .name = "switch",
    .meaning = "the results of the branch that the index chooses (clamped to the branches there are); only that branch runs",
    .sig = { .n_groups = 1, .groups = { { "", GROUP_PLAIN } }, .min_regions = 1, .max_regions = MANY, .regions = { { .word = "", .feeds = 0, .results = { "yield" } } } },
    .flags = OPF_HIGHER,
    .infer = switch_infer,
    .eval = switch_eval,
    .lower = &switch_lower,
};
