/* What passes ask of rows is held against what eval gives. Ranges: with each argument's own interval as what
 * is known of it, every element of an integer result lies in the result's interval. Folding: with arguments
 * replaced by numbers, by one another and by their negatives, the simplified function gives the same bits, on
 * NaN, infinities and signed zeros too. Commuting: operands swapped give the same bits. Comparisons, truth
 * values and sums of operands: on all small cases. Slices: the operator on one index of its operands gives
 * that index of its result.
 *
 * facts_test [--seed N]; closes with `N passed, M failed`. */
#include "check/check.h"

#include "loop/lower.h"
#include "ops/build.h"
#include "transform/fold.h"
#include "transform/pass.h"
#include "transform/ranges.h"

#include <math.h>

static uint32_t passed, failed;
static uint32_t n_commuting; /* samples that were swapped */
static uint64_t seed = 1;

static void claim(const struct op_row *row, uint32_t sample, const char *what, const char *wrong)
{
    if (!wrong) {
        passed++;
        return;
    }
    failed++;
    printf("%s, sample %u, seed %llu: %s: %s\n", row->name, sample, (unsigned long long)seed, what, wrong);
}

/* ---- ranges ---- */

static int64_t whole_at(const struct tensor *t, int64_t i)
{
    return t->dtype == DT_U64 ? (int64_t)HOP_MIN(((const uint64_t *)t->data)[i], (uint64_t)INT64_MAX)
                              : (int64_t)tensor_get(t, i);
}

/* The interval of the elements there are; of none, whatever the dtype has. */
static struct range range_of_tensor(const struct tensor *t)
{
    struct range all = range_of_dtype((enum dtype)t->dtype), r = { INT64_MAX, INT64_MIN };
    if (dtype_is_float((enum dtype)t->dtype) || !t->count) return all;
    for (int64_t i = 0; i < t->count; i++) {
        int64_t v = whole_at(t, i);
        r = range_join(r, (struct range){ v, v });
    }
    return r;
}

static const char *outside(struct bag *bag, struct module *m, uint32_t fn, struct tensor *const *args,
                           const struct outcome *o)
{
    const struct fn *f = module_fn(m, fn);
    struct range *params = ARENA_NEW(&bag->arena, struct range, f->n_params + 1);
    for (uint32_t p = 0; p < f->n_params; p++) params[p] = range_of_tensor(args[p]);
    const struct range *values = ranges_of_values(&bag->arena, m, f, params);
    for (uint32_t k = 0; k < f->n_results; k++) {
        const struct tensor *t = o->results[k];
        struct range r = values[f->results[k]];
        if (dtype_is_float((enum dtype)t->dtype)) continue;
        for (int64_t i = 0; i < t->count; i++)
            if (whole_at(t, i) < r.lo || whole_at(t, i) > r.hi)
                return arena_printf(&bag->arena, "element %lld of result %u is %lld, outside of %lld..%lld",
                                    (long long)i, k, (long long)whole_at(t, i), (long long)r.lo,
                                    (long long)r.hi);
    }
    return NULL;
}

/* An operand that the result is said to equal is it. */
static const char *not_same(struct bag *bag, struct module *m, uint32_t fn, struct tensor *const *args,
                            const struct outcome *o)
{
    static const struct bound bits = { BOUND_BITS, 0 };
    const struct fn *f = module_fn(m, fn);
    const struct node *n = f->n_nodes ? fn_node(f, f->n_nodes - 1) : NULL;
    if (!n || f->n_results != 1 || f->results[0] != n->results || !node_row(n)->same) return NULL;
    if (!dtype_is_integer((enum dtype)o->results[0]->dtype)) return NULL;
    struct range *params = ARENA_NEW(&bag->arena, struct range, f->n_params + 1);
    for (uint32_t p = 0; p < f->n_params; p++) params[p] = range_of_tensor(args[p]);
    const struct range *values = ranges_of_values(&bag->arena, m, f, params);
    struct range_in w = range_in(m, f, n, values);
    val same = node_row(n)->same(&w);
    if (same == VAL_NONE || same >= f->n_params) return NULL;
    return tensor_difference(&bag->arena, o->results[0], args[same], bits);
}

/* ---- commuting ---- */

/* Is the sample the operator alone, on two parameters of one type? */
static bool is_pair(const struct fn *f, const struct op_row *row)
{
    if (f->n_nodes != 1 || f->n_params != 2) return false;
    const struct node *n = fn_node(f, 0);
    return node_row(n) == row && n->n_operands == 2 && node_operands(f, n)[0] != node_operands(f, n)[1] &&
           value_type(f, 0) == value_type(f, 1);
}

static const char *not_commuting(struct bag *bag, struct module *m, uint32_t fn, struct tensor *const *args,
                                 const int64_t *dims, const struct outcome *o)
{
    static const struct bound bits = { BOUND_BITS, 0 };
    struct tensor *swapped[] = { args[1], args[0] };
    struct outcome other;
    run_on(bag, m, fn, &interpreter, swapped, dims, &other);
    return outcome_difference(&bag->arena, &other, o, bits, bits);
}

/* ---- folding ---- */

static const double numbers[] = { 0, -0.0, 1, -1, 2, 0.5, INFINITY, NAN };
enum { SAME = HOP_COUNT(numbers), NEGATED, REPLACEMENTS };

/* Parameter p of f replaced: by a number, by the parameter before it, or by its negative. HOP_NONE: it cannot
 * be. */
static uint32_t replaced(struct module *m, uint32_t fn, uint32_t p, uint32_t how)
{
    const struct fn *f = module_fn(m, fn);
    struct type t = type_get(m, value_type(f, p));
    bool is_float = dtype_is_float((enum dtype)t.dtype);
    if (how < SAME && !is_float && (numbers[how] != floor(numbers[how]) || isinf(numbers[how])))
        return HOP_NONE;
    if (how < SAME && dtype_info[t.dtype].kind != KIND_INT && !is_float && numbers[how] < 0) return HOP_NONE;
    if (how < SAME && t.dtype == DT_BOOL && numbers[how] > 1) return HOP_NONE;
    if (how == SAME && (!p || value_type(f, p - 1) != value_type(f, p))) return HOP_NONE;
    if (how == NEGATED && !is_float && dtype_info[t.dtype].kind != KIND_INT) return HOP_NONE;
    struct builder b;
    struct copier c;
    builder_begin(&b, m, f);
    copier_begin(&c, &b, f);
    copier_params(&c);
    if (how == SAME) c.values[p] = c.values[p - 1];
    else if (how == NEGATED) c.values[p] = emit1(&b, OP_neg, c.values[p]);
    else c.values[p] = emit_full_like(&b, c.values[p], numbers[how]);
    copy_requires(&c);
    val *results = ARENA_NEW(&b.arena, val, f->n_results + 1);
    copier_body(&c, results);
    return builder_finish(&b, results, f->n_results);
}

/* Some elements of float arguments become numbers that identities are wrong about. */
static void spoil(struct tensor *const *args, uint32_t n)
{
    static const double special[] = { NAN, -0.0, 0.0, INFINITY, -INFINITY };
    for (uint32_t p = 0; p < n; p++)
        for (int64_t i = 0; i < args[p]->count && dtype_is_float((enum dtype)args[p]->dtype); i += 2)
            tensor_set(args[p], i, special[((uint64_t)i / 2 + p) % HOP_COUNT(special)]);
}

static void check_folding(const struct op_row *row, uint32_t sample, struct bag *bag, struct module *m,
                          uint32_t fn, struct tensor *const *args, const int64_t *dims)
{
    static const struct bound bits = { BOUND_BITS, 0 };
    struct way folded = { .simplify = true,
                          .passes = { .strict = true, .without = EVERY_SWITCH & ~(1u << PASS_fold) } };
    uint32_t n_params = module_fn(m, fn)->n_params;
    spoil(args, n_params);
    for (uint32_t p = 0; p < n_params; p++)
        for (uint32_t how = 0; how < REPLACEMENTS; how++) {
            struct outcome plain, simple;
            uint32_t other = replaced(m, fn, p, how);
            if (other == HOP_NONE) continue;
            run_on(bag, m, other, &interpreter, args, dims, &plain);
            run_on(bag, m, other, &folded, args, dims, &simple);
            claim(row, sample, arena_printf(&bag->arena, "fold, parameter %u replaced in way %u", p, how),
                  outcome_difference(&bag->arena, &simple, &plain, bits, bits));
        }
}

/* ---- slices ---- */

static uint32_t n_slices;

/* What stands at index i along a dim, which stays with the size 1. */
static struct tensor *at_index(struct bag *bag, const struct tensor *t, uint32_t along, int64_t i)
{
    int64_t dims[MAX_RANK], inner = 1, outer = 1, size = t->dims[along];
    memcpy(dims, t->dims, t->rank * sizeof *dims);
    dims[along] = 1;
    struct tensor *out = bag_new(bag, (enum dtype)t->dtype, t->rank, dims);
    for (uint32_t d = 0; d < t->rank; d++) *(d < along ? &outer : &inner) *= dims[d];
    size_t run = (size_t)inner * dtype_info[t->dtype].size;
    for (int64_t o = 0; o < outer; o++)
        memcpy((char *)out->data + (size_t)o * run, (const char *)t->data + (size_t)(o * size + i) * run,
               run);
    return out;
}

/* The one node of f on one index of its operands. */
static uint32_t one_index(struct module *m, const struct fn *f, uint32_t axis, const uint32_t *along)
{
    const struct node *n = fn_node(f, 0);
    struct builder b;
    struct copier c;
    dim one = dim_const(m, 1);
    builder_begin(&b, m, NULL);
    copier_begin(&c, &b, f);
    for (uint32_t p = 0; p < f->n_params; p++) {
        struct type t = type_get(m, value_type(f, p));
        dim dims[MAX_RANK];
        memcpy(dims, t.dims, t.rank * sizeof *dims);
        for (uint32_t k = 0; k < n->n_operands; k++)
            if (node_operands(f, n)[k] == p && along[k] != HOP_NONE) dims[along[k]] = one;
        c.values[p] = builder_param(&b, type_intern(m, (enum dtype)t.dtype, t.rank, dims), 0);
    }
    struct node_in in = copier_node_in(&c, n);
    uint8_t sizes = node_row(n)->sizes_attr;
    if (sizes) {
        struct attr *attrs = arena_copy(&b.arena, in.attrs, node_row(n)->sig.n_attrs * sizeof *attrs);
        dim *list = arena_copy(&b.arena, attrs[sizes - 1].list, attrs[sizes - 1].n * sizeof *list);
        list[axis] = one;
        attrs[sizes - 1].list = list;
        in.attrs = attrs;
    }
    val result = builder_node(&b, &in);
    return builder_finish(&b, &result, 1);
}

static void check_slices(const struct op_row *row, uint32_t sample, struct bag *bag, struct module *m,
                         uint32_t fn, struct tensor *const *args, const struct outcome *whole)
{
    static const struct bound bits = { BOUND_BITS, 0 };
    const struct fn *f = module_fn(m, fn);
    if (f->n_nodes != 1 || f->n_results != 1 || f->n_symbols || node_row(fn_node(f, 0)) != row) return;
    const struct node *n = fn_node(f, 0);
    const struct tensor *result = whole->results[0];
    uint32_t *along = ARENA_NEW(&bag->arena, uint32_t, n->n_operands + 1u);
    for (uint32_t k = 0; k < n->n_operands; k++)
        for (uint32_t j = 0; j < k; j++)
            if (node_operands(f, n)[k] == node_operands(f, n)[j])
                return; /* one array, perhaps cut in two ways */
    for (uint32_t axis = 0; axis < result->rank; axis++)
        for (int64_t i = 0; i < result->dims[axis] && node_sliced(m, f, n, axis, along); i++) {
            struct tensor **part = ARENA_NEW(&bag->arena, struct tensor *, f->n_params + 1u);
            struct outcome o;
            for (uint32_t p = 0; p < f->n_params; p++) part[p] = args[p];
            for (uint32_t k = 0; k < n->n_operands; k++)
                if (along[k] != HOP_NONE)
                    part[node_operands(f, n)[k]] = at_index(bag, args[node_operands(f, n)[k]], along[k], i);
            run_on(bag, m, one_index(m, module_fn(m, fn), axis, along), &interpreter, part, NULL, &o);
            const char *wrong = o.status ? o.message
                                         : tensor_difference(&bag->arena, o.results[0],
                                                             at_index(bag, result, axis, i), bits);
            claim(row, sample, arena_printf(&bag->arena, "index %lld of dim %u", (long long)i, axis), wrong);
            n_slices++;
        }
}

/* ---- samples ---- */

static void check_sample(const struct op_row *row, uint32_t k, struct bag *bag, struct module *m)
{
    struct outcome o;
    uint32_t fn = module_find(m, "sample");
    for (uint32_t draw = 0; draw < 4; draw++)
        for (uint32_t attempt = 0; attempt < 2; attempt++) {
            struct sample_sizes sizes = sample_sizes(&bag->arena, module_fn(m, fn), attempt);
            struct tensor **args = sample_arguments(bag, m, module_fn(m, fn), row->samples[k].inputs, &sizes,
                                                    seed + 31 * draw);
            if (!run_on(bag, m, fn, &interpreter, args, sizes.dims, &o)) continue;
            if (row->range) claim(row, k, "range", outside(bag, m, fn, args, &o));
            if (row->same) claim(row, k, "same", not_same(bag, m, fn, args, &o));
            if (row->flags & OPF_COMMUTES && is_pair(module_fn(m, fn), row)) {
                const char *wrong = not_commuting(bag, m, fn, args, sizes.dims, &o);
                claim(row, k, "commutes", wrong);
                n_commuting += !draw;
            }
            if (!draw) check_slices(row, k, bag, m, fn, args, &o);
            if (row->fold && !draw) check_folding(row, k, bag, m, fn, args, sizes.dims);
            break;
        }
}

static void walk_sample(const struct op_row *row, uint32_t k)
{
    struct hop_catch caught;
    struct bag bag = { 0 };
    if (!HOP_TRY(caught)) {
        claim(row, k, "sample", hop_message());
        return;
    }
    hop_cleanup_push(bag_free, &bag);
    struct module *m = text_read("sample", row->samples[k].text, strlen(row->samples[k].text));
    hop_cleanup_push(module_free, m);
    check_sample(row, k, &bag, m);
    hop_cleanup_pop(m);
    module_free(m);
    hop_cleanup_pop(&bag);
    bag_free(&bag);
    hop_catch_end(&caught);
}

/* ---- small cases ---- */

/* The operator's result for scalars x and y of dtype t. */
static int64_t apply(struct module *m, struct bag *bag, const struct op_row *row, enum dtype t, int64_t x,
                     int64_t y)
{
    struct builder b;
    val operands[2];
    builder_begin(&b, m, NULL);
    for (uint32_t k = 0; k < row->sig.min_operands; k++)
        operands[k] = builder_param(&b, type_scalar(m, t), 0);
    val result = emit(&b, op_find(row->name, strlen(row->name)), operands, row->sig.min_operands, NULL);
    uint32_t fn = builder_finish(&b, &result, 1);
    struct tensor *args[2] = { bag_new(bag, t, 0, NULL), bag_new(bag, t, 0, NULL) };
    tensor_set(args[0], 0, (double)x);
    tensor_set(args[1], 0, (double)y);
    struct outcome o;
    return run_on(bag, m, fn, &interpreter, args, NULL, &o) ? (int64_t)tensor_get(o.results[0], 0)
                                                            : INT64_MIN;
}

static void check_small_cases(const struct op_row *row)
{
    struct bag bag = { 0 };
    struct module *m = module_new();
    bool unary = row->sig.min_operands == 1;
    for (int64_t x = -2; x <= 2; x++)
        for (int64_t y = -2; y <= 2; y++) {
            if (row->compares) {
                uint32_t order = x < y ? COMPARE_LT : x > y ? COMPARE_GT : COMPARE_EQ;
                bool holds = apply(m, &bag, row, DT_I64, x, y);
                claim(row, 0, "compares", holds == !!(row->compares & order) ? NULL : "eval says otherwise");
            }
            if (row->factors[0]) {
                int64_t sum = row->factors[0] * x + (unary ? 0 : row->factors[1] * y);
                bool right = apply(m, &bag, row, DT_I64, x, y) == sum;
                claim(row, 0, "factors", right ? NULL : "eval says otherwise");
            }
            if (row->logic && x >= 0 && y >= 0 && x < 2 && y < 2) {
                int64_t expected = row->logic == LOGIC_NOT ? !x : row->logic == LOGIC_AND ? x && y : x || y;
                bool right = apply(m, &bag, row, DT_BOOL, x, y) == expected;
                claim(row, 0, "logic", right ? NULL : "eval says otherwise");
            }
        }
    module_free(m);
    bag_free(&bag);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--seed")) seed = strtoull(argv[2], NULL, 10);
    for (uint32_t op = 0; op < OP_COUNT; op++) {
        const struct op_row *row = op_table[op];
        if (row->compares || row->factors[0] || row->logic) check_small_cases(row);
        bool sliced = row->sliced || row->source_dims || row->flags & OPF_ELEMENTWISE;
        sliced |= row->lower && row->lower->product;
        bool asked = row->range || row->fold || row->flags & OPF_COMMUTES || sliced;
        for (uint32_t k = 0; k < row->n_samples && asked; k++) walk_sample(row, k);
    }
    claim(op_table[0], 0, "commutes", n_commuting >= 8 ? NULL : "too few samples are pairs");
    claim(op_table[0], 0, "slices", n_slices >= 1000 ? NULL : "too few samples have slices");
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}
