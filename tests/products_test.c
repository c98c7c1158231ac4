/* Random products: dtypes, any order of dims in either operand, slices and turns of larger arrays, batches,
 * several rows, columns and contracted dims, what may follow (bias, activation, residual, scale, folds,
 * casts, parts of a larger result, more products), and loops that multiply with one matrix. Each is compiled
 * once and run by the kernels of every level that the processor has, on 1, 2, 3, 7 and 16 threads: all within
 * bounds of the interpreter (whole numbers are equal), and the same bits for every number of threads; so is
 * the loop program with every access checked. `products_test [FIRST [COUNT]]` runs other seeds;
 * HOP_TEST_SEEDS says how many. */
#include "base/memory.h"
#include "check/check.h"
#include "ir/text.h"
#include "runtime/exe.h"
#include "runtime/pool.h"
#include "runtime/product_kernels.h"
#include "seeds.h"

#include <math.h>
#include <stdio.h>

enum { SEEDS = 150, LEVELS = 5, MOST_WORK = 1500000, LEAST_WORK = 32768, MOST_PARAMS = 32 };

static uint32_t passed, failed;

/* ---- random programs ---- */

/* What an operand and the result of a product are in. */
struct dtypes {
    enum dtype a, b, result;
};
static const struct dtypes all_dtypes[] = {
    { DT_F32, DT_F32, DT_F32 },   { DT_F64, DT_F64, DT_F64 }, { DT_BF16, DT_BF16, DT_BF16 },
    { DT_BF16, DT_BF16, DT_F32 }, { DT_F16, DT_F16, DT_F16 }, { DT_F16, DT_F16, DT_F32 },
    { DT_F32, DT_BF16, DT_F32 },  { DT_F16, DT_F32, DT_F32 }, { DT_F32, DT_F32, DT_BF16 },
    { DT_I8, DT_I8, DT_I32 },     { DT_U8, DT_I8, DT_I32 },   { DT_I8, DT_U8, DT_I64 },
    { DT_U8, DT_U8, DT_U32 },     { DT_I8, DT_I8, DT_I8 },    { DT_BOOL, DT_I8, DT_I32 },
    { DT_I32, DT_I32, DT_I32 },   { DT_F32, DT_F32, DT_F64 },
};

/* Dims of one kind. */
struct group {
    uint32_t n;
    int64_t sizes[2], product;
};
enum { BATCH, ROWS, COLUMNS, DEPTH, GROUPS };

struct program {
    struct random random;
    struct arena *arena;
    struct text head, body;   /* parameters, nodes */
    double most[MOST_PARAMS]; /* of each parameter's values */
    uint32_t n_params, n_values;
    struct dtypes t;
    struct group groups[GROUPS];
    vec(const char *) results; /* "%v3" … */
    vec(const char *) types;   /* … "f32[3, 4]" */
};

/* A value of the program. */
struct array {
    const char *name;
    enum dtype dtype;
    uint32_t rank;
    int64_t dims[8];
};

static uint32_t below(struct program *p, uint32_t n) { return (uint32_t)(random_next(&p->random) % n); }

static const char *dims_text(struct program *p, const int64_t *dims, uint32_t rank)
{
    struct text t = { .arena = p->arena };
    text_str(&t, "[");
    for (uint32_t i = 0; i < rank; i++) text_add(&t, "%s%lld", i ? ", " : "", (long long)dims[i]);
    text_str(&t, "]");
    return t.data;
}

static const char *type_of(struct program *p, const struct array *v)
{
    return arena_printf(p->arena, "%s%s", dtype_info[v->dtype].name, dims_text(p, v->dims, v->rank));
}

static struct array param(struct program *p, enum dtype t, const int64_t *dims, uint32_t rank, double most)
{
    struct array v = { .name = arena_printf(p->arena, "%%p%u", p->n_params), .dtype = t, .rank = rank };
    if (rank) memcpy(v.dims, dims, rank * sizeof *dims);
    text_add(&p->head, "%s%s: %s", p->n_params ? ", " : "", v.name, type_of(p, &v));
    p->most[p->n_params++] = dtype_is_float(t) ? most : 100;
    return v;
}

/* One more value; what makes it is still to come. */
static const char *begin_node(struct program *p)
{
    const char *name = arena_printf(p->arena, "%%v%u", p->n_values++);
    text_add(&p->body, "  %s = ", name);
    return name;
}
#define NODE(p, ...) (text_add(&(p)->body, __VA_ARGS__), text_str(&(p)->body, "\n"))

static void give(struct program *p, const struct array *v)
{
    vec_push(p->arena, &p->results, v->name);
    vec_push(p->arena, &p->types, type_of(p, v));
}

static int64_t some_size(struct program *p, uint32_t group)
{
    static const int64_t sizes[GROUPS][16] = {
        [BATCH] = { 2, 3, 5, 9, 17, 33, 40, 130, 2, 3, 4, 6, 7, 8, 16, 32 },
        [ROWS] = { 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 25, 48, 65, 97, 130, 257 },
        [COLUMNS] = { 1, 2, 15, 16, 17, 31, 32, 33, 64, 65, 96, 100, 129, 200, 257, 513 },
        [DEPTH] = { 2, 3, 4, 7, 16, 31, 33, 64, 65, 100, 255, 256, 257, 300, 513, 700 },
    };
    return sizes[group][below(p, 16)];
}

/* A few rows and a large matrix, or a large matrix and one column. */
static void choose_line(struct program *p)
{
    bool column = below(p, 3) == 0;
    uint32_t few = column ? COLUMNS : ROWS, many = column ? ROWS : COLUMNS;
    int64_t rows = 1 + below(p, column ? 1 : 3), lines = 800 + below(p, 300);
    p->groups[BATCH] = (struct group){ 0, { 1, 1 }, 1 };
    p->groups[few] = (struct group){ 1, { rows, 1 }, rows };
    p->groups[many] = (struct group){ 1, { lines, 1 }, lines };
    p->groups[DEPTH] = (struct group){ 1, { 700, 1 }, 700 };
}

/* A size that a product of at most MOST_WORK multiplications has, in one dim or two. */
static void choose_sizes(struct program *p)
{
    int64_t work;
    do {
        work = 1;
        for (uint32_t g = 0; g < GROUPS; g++) {
            struct group *x = &p->groups[g];
            bool some = g == BATCH ? below(p, 3) == 0 : g == DEPTH || below(p, 12) != 0;
            *x = (struct group){ .n = some, .sizes = { some ? some_size(p, g) : 1, 1 } };
            if (some && below(p, 6) == 0) x->sizes[x->n++] = 2 + below(p, 4);
            x->product = x->sizes[0] * x->sizes[1];
            work *= x->product;
        }
    } while (work > MOST_WORK || (work < LEAST_WORK && below(p, 8)));
}

/* ---- operands ---- */

static uint32_t *some_order(struct program *p, uint32_t n)
{
    uint32_t *order = ARENA_NEW(p->arena, uint32_t, n + 1);
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = below(p, i), last = order[i - 1];
        order[i - 1] = order[k];
        order[k] = last;
    }
    return order;
}

/* Each so-manieth element of one dim of a larger array, behind the first. */
static const char *some_slice(struct program *p, const struct array *v, double most)
{
    uint32_t along = below(p, v->rank);
    int64_t larger[8], start[8] = { 0 }, step[8], limit[8];
    for (uint32_t i = 0; i < v->rank; i++) {
        step[i] = i == along ? 1 + below(p, 3) : 1;
        start[i] = i == along;
        limit[i] = start[i] + (v->dims[i] - 1) * step[i] + 1;
        larger[i] = limit[i] + (i == along);
    }
    struct array from = param(p, v->dtype, larger, v->rank, most);
    const char *name = begin_node(p);
    NODE(p, "slice {start = %s, limit = %s, step = %s} (%s)", dims_text(p, start, v->rank),
         dims_text(p, limit, v->rank), dims_text(p, step, v->rank), from.name);
    return name;
}

/* Its dims stand in another order in memory. */
static const char *some_turned(struct program *p, const struct array *v, double most)
{
    uint32_t *order = some_order(p, v->rank);
    int64_t dims[8], places[8]; /* places: where dim i of the result is */
    for (uint32_t i = 0; i < v->rank; i++) {
        dims[order[i]] = v->dims[i];
        places[i] = order[i];
    }
    struct array from = param(p, v->dtype, dims, v->rank, most);
    const char *name = begin_node(p);
    NODE(p, "permute {order = %s} (%s)", dims_text(p, places, v->rank), from.name);
    return name;
}

/* An array of these dims, which may be a part of a larger one, turned, or computed. */
static struct array some_array(struct program *p, enum dtype t, const int64_t *dims, uint32_t rank,
                               double most)
{
    struct array v = { .dtype = t, .rank = rank };
    memcpy(v.dims, dims, rank * sizeof *dims);
    uint32_t how = rank ? below(p, 8) : 7;
    if (how == 0) v.name = some_slice(p, &v, most);
    else if (how == 1) v.name = some_turned(p, &v, most);
    else v.name = param(p, t, dims, rank, most).name;
    if (how == 2) {
        const char *name = begin_node(p);
        NODE(p, "reverse {dims = [%u]} (%s)", below(p, rank), v.name);
        v.name = name;
    } else if (how == 3 && dtype_is_float(t)) {
        const char *name = begin_node(p);
        NODE(p, "neg(%s)", v.name);
        v.name = name;
    }
    return v;
}

/* An operand of a product, and where the dims of each kind are in it. */
struct operand {
    struct array v;
    int64_t at[GROUPS][2];
};
static struct operand some_operand(struct program *p, enum dtype t, uint32_t own, double most)
{
    const uint32_t kinds[] = { BATCH, own, DEPTH };
    struct operand o = { 0 };
    uint32_t kind[8], number[8], rank = 0;
    int64_t dims[8];
    for (uint32_t k = 0; k < HOP_COUNT(kinds); k++)
        for (uint32_t i = 0; i < p->groups[kinds[k]].n; i++) {
            kind[rank] = kinds[k];
            number[rank++] = i;
        }
    uint32_t *order = some_order(p, rank), usual = below(p, 3);
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t k = usual == 0               ? order[i]
                     : usual == 1             ? i
                     : i < p->groups[BATCH].n ? i
                                              : rank - 1 - i + p->groups[BATCH].n;
        dims[i] = p->groups[kind[k]].sizes[number[k]];
        o.at[kind[k]][number[k]] = i;
    }
    o.v = some_array(p, t, dims, rank, most);
    return o;
}

/* The dims of one kind as they stand in the operand. */
static void add_free_dims(struct program *p, struct array *v, const struct operand *o, uint32_t kind)
{
    bool turned = p->groups[kind].n == 2 && o->at[kind][0] > o->at[kind][1];
    for (uint32_t i = 0; i < p->groups[kind].n; i++)
        v->dims[v->rank++] = p->groups[kind].sizes[turned ? 1 - i : i];
}

/* A product of the program's sizes; of a new left operand, which lhs becomes, or of that one. */
static struct array add_product(struct program *p, struct operand *lhs, bool is_new)
{
    double most = 1 / sqrt((double)p->groups[DEPTH].product);
    if (is_new) *lhs = some_operand(p, p->t.a, ROWS, 2);
    struct operand rhs = some_operand(p, p->t.b, COLUMNS, most);
    struct array v = { .dtype = p->t.result };
    for (uint32_t i = 0; i < p->groups[BATCH].n; i++) v.dims[v.rank++] = p->groups[BATCH].sizes[i];
    add_free_dims(p, &v, lhs, ROWS);
    add_free_dims(p, &v, &rhs, COLUMNS);
    v.name = begin_node(p);
    uint32_t batch = p->groups[BATCH].n, depth = p->groups[DEPTH].n;
    text_add(&p->body, "dot {batch_lhs = %s, batch_rhs = %s, contract_lhs = %s, contract_rhs = %s",
             dims_text(p, lhs->at[BATCH], batch), dims_text(p, rhs.at[BATCH], batch),
             dims_text(p, lhs->at[DEPTH], depth), dims_text(p, rhs.at[DEPTH], depth));
    if (p->t.a != p->t.result || p->t.b != p->t.result)
        text_add(&p->body, ", dtype = %s", dtype_info[p->t.result].name);
    NODE(p, "} (%s, %s)", lhs->v.name, rhs.v.name);
    return v;
}

/* ---- what follows ---- */

static struct array spread_over(struct program *p, const struct array *small, const struct array *like,
                                const int64_t *at)
{
    struct array v = *like;
    v.name = begin_node(p);
    NODE(p, "broadcast {dims = %s, at = %s} (%s)", dims_text(p, like->dims, like->rank),
         dims_text(p, at, small->rank), small->name);
    return v;
}

static void add_pair(struct program *p, struct array *v, const struct array *other)
{
    static const char *const names[] = { "add", "sub", "max" };
    const char *name = begin_node(p);
    NODE(p, "%s(%s, %s)", names[below(p, HOP_COUNT(names))], v->name, other->name);
    v->name = name;
}

static void add_residual(struct program *p, struct array *v)
{
    struct array other = some_array(p, v->dtype, v->dims, v->rank, 1);
    add_pair(p, v, &other);
}

static void add_bias(struct program *p, struct array *v)
{
    int64_t last = v->rank - 1;
    struct array bias = param(p, v->dtype, &v->dims[last], 1, 1);
    struct array all = spread_over(p, &bias, v, &last);
    add_pair(p, v, &all);
}

static void add_activation(struct program *p, struct array *v)
{
    const char *name = begin_node(p);
    NODE(p, "%s(%s)", dtype_is_float(v->dtype) ? below(p, 2) ? "tanh" : "sigmoid" : "neg", v->name);
    v->name = name;
}

static void add_scale(struct program *p, struct array *v)
{
    struct array factor = param(p, v->dtype, NULL, 0, 1);
    struct array all = spread_over(p, &factor, v, NULL);
    const char *name = begin_node(p);
    NODE(p, "mul(%s, %s)", v->name, all.name);
    v->name = name;
}

/* The largest of each row, taken from it. */
static void add_row_fold(struct program *p, struct array *v)
{
    struct array fold = *v;
    int64_t at[8];
    fold.rank--;
    for (uint32_t i = 0; i < fold.rank; i++) at[i] = i;
    fold.name = begin_node(p);
    NODE(p, "reduce_max {dims = [%u]} (%s)", v->rank - 1, v->name);
    struct array all = spread_over(p, &fold, v, at);
    const char *name = begin_node(p);
    NODE(p, "sub(%s, %s)", v->name, all.name);
    v->name = name;
}

/* The sums of the first dim are one more result. */
static void add_column_fold(struct program *p, struct array *v)
{
    struct array fold = *v;
    fold.rank--;
    memmove(fold.dims, v->dims + 1, fold.rank * sizeof *fold.dims);
    fold.name = begin_node(p);
    NODE(p, "sum {dims = [0]} (%s)", v->name);
    give(p, &fold);
}

static void add_cast(struct program *p, struct array *v)
{
    const char *name = begin_node(p);
    enum dtype to = dtype_is_narrow(v->dtype) ? v->dtype : dtype_is_float(v->dtype) ? DT_BF16 : DT_I64;
    NODE(p, "cast {dtype = %s} (%s)", dtype_info[to].name, v->name);
    v->name = name;
    v->dtype = to;
}

/* It is a part of a larger array. */
static void add_concat(struct program *p, struct array *v)
{
    uint32_t along = below(p, v->rank);
    struct array other = *v, both = *v;
    other.dims[along] = 1 + below(p, 4);
    other = param(p, other.dtype, other.dims, other.rank, 1);
    both.dims[along] += other.dims[along];
    bool first = below(p, 2);
    both.name = begin_node(p);
    NODE(p, "concat {dim = %u} (%s, %s)", along, first ? v->name : other.name, first ? other.name : v->name);
    *v = both;
}

/* A product of what there is with a matrix of its dtype. */
static void add_next_product(struct program *p, struct array *v)
{
    int64_t dims[2] = { v->dims[v->rank - 1], 24 + below(p, 50) };
    struct array w = some_array(p, v->dtype, dims, 2, 1 / sqrt((double)dims[0]));
    const char *name = begin_node(p);
    NODE(p, "matmul(%s, %s)", v->name, w.name);
    v->name = name;
    v->dims[v->rank - 1] = dims[1];
}

static void add_products(struct program *p)
{
    static void (*const kinds[])(struct program *, struct array *) = {
        add_residual, add_bias,        add_activation, add_activation, add_scale,
        add_row_fold, add_column_fold, add_cast,       add_concat,     add_next_product
    };
    struct operand lhs;
    if (below(p, 12)) choose_sizes(p);
    else choose_line(p);
    struct array v = add_product(p, &lhs, true);
    if (below(p, 6) == 0) {
        struct array other = add_product(p, &lhs, false);
        give(p, &other);
    }
    if (below(p, 6) == 0) {
        struct array other = add_product(p, &lhs, below(p, 2));
        bool same = !memcmp(v.dims, other.dims, v.rank * sizeof *v.dims);
        if (same) add_pair(p, &v, &other);
        else give(p, &other);
    }
    for (uint32_t n = below(p, 4); n && v.rank; n--) kinds[below(p, HOP_COUNT(kinds))](p, &v);
    give(p, &v);
}

/* Steps that all multiply with one matrix, as it is or transposed. */
static void add_loop(struct program *p)
{
    enum dtype t = p->t.a;
    int64_t rows = 1 + below(p, 20), width = 32 + below(p, 120), trips = 9 + below(p, 3);
    double most = 1 / sqrt((double)width);
    struct array carry = param(p, t, (int64_t[]){ rows, width }, 2, 1);
    struct array each = param(p, t, (int64_t[]){ trips, rows, width }, 3, 1);
    struct array w = param(p, t, (int64_t[]){ width, width }, 2, most);
    const char *last = begin_node(p);
    bool whole = dtype_is_integer(t);
    p->body.len -= 3; /* " = ": it has two results */
    text_add(&p->body, ", %%all = scan carry(%%h = %s) over(%%x in %s) with(%%w = %s) {\n", carry.name,
             each.name, w.name);
    const char *factor = "%w";
    if (below(p, 2)) {
        text_str(&p->body, "    %turned = permute {order = [1, 0]} (%w)\n");
        factor = "%turned";
    }
    text_add(&p->body, "    %%a = matmul(%%h, %s)\n    %%b = add(%%a, %%x)\n", factor);
    text_add(&p->body, "    %%n = %s(%%b)\n    next(%%n) stack(%%n)\n  }\n", whole ? "neg" : "tanh");
    carry.name = last;
    each.name = "%all";
    give(p, &carry);
    give(p, &each);
}

static const char *random_program(struct program *p, uint64_t seed)
{
    p->random = (struct random){ seed * 91 + 3 };
    p->t = all_dtypes[below(p, HOP_COUNT(all_dtypes))];
    bool loop = below(p, 6) == 0 && p->t.a != DT_BOOL && p->t.a == p->t.b;
    if (loop) add_loop(p);
    else add_products(p);
    struct text all = { .arena = p->arena };
    text_add(&all, "hop 1\nfn @f(%s) -> (", p->head.data);
    for (uint32_t i = 0; i < p->types.len; i++) text_add(&all, "%s%s", i ? ", " : "", p->types.data[i]);
    text_add(&all, ") {\n%s  return ", p->body.data);
    for (uint32_t i = 0; i < p->results.len; i++) text_add(&all, "%s%s", i ? ", " : "", p->results.data[i]);
    text_str(&all, "\n}\n");
    return all.data;
}

/* ---- holding them to claims ---- */

static struct tensor **draw(struct bag *bag, struct module *m, const struct fn *f, const struct program *p)
{
    struct tensor **args = ARENA_NEW(&bag->arena, struct tensor *, f->n_params);
    struct random random = { 11 };
    for (uint32_t k = 0; k < f->n_params; k++) {
        args[k] = bag_new_of(bag, m, value_type(f, k));
        uint8_t kind = dtype_info[args[k]->dtype].kind;
        bool is_signed = kind == KIND_FLOAT || kind == KIND_INT;
        tensor_random(args[k], &random, is_signed ? -p->most[k] : 0, p->most[k]);
    }
    return args;
}

/* The executable's results, once more. */
static void run_again(struct bag *bag, struct exe *e, struct tensor *const *args, struct outcome *out,
                      uint32_t n)
{
    *out = (struct outcome){ .n = n, .results = ARENA_ZNEW(&bag->arena, struct tensor *, n) };
    exe_run(e, args, NULL, out->results, &(struct exe_call){ 0 });
    for (uint32_t i = 0; i < n; i++) bag_keep(bag, out->results[i]);
}

static const struct bound f32 = { BOUND_TENSOR, 2e-4 }, f64 = { BOUND_TENSOR, 1e-11 },
                          bits = { BOUND_BITS, 0 };

/* On every level of kernels and every number of threads. */
static const char *differs_somewhere(struct bag *bag, struct exe *e, struct tensor *const *args,
                                     const struct outcome *expected)
{
    static const uint32_t threads[] = { 1, 2, 3, 7, 16 };
    for (int level = LEVELS - 1; level >= 0; level--) {
        struct outcome first, found;
        product_kernels_limit(level);
        for (uint32_t i = 0; i < HOP_COUNT(threads); i++) {
            pool_set_threads(threads[i]);
            run_again(bag, e, args, i ? &found : &first, expected->n);
            const char *wrong = i ? outcome_difference(&bag->arena, &found, &first, bits, bits)
                                  : outcome_difference(&bag->arena, &first, expected, f32, f64);
            if (wrong)
                return arena_printf(&bag->arena, "kernels of level %d on %u threads: %s", level, threads[i],
                                    wrong);
        }
    }
    return NULL;
}

static const char *differs(struct bag *bag, struct module *m, uint32_t fn, struct tensor *const *args)
{
    struct outcome expected, found;
    run_on(bag, m, fn, &interpreter, args, NULL, &expected);
    if (expected.status) return expected.message;
    struct way checked = { .name = "checked", .backend = &executor_backend };
    run_on(bag, m, fn, &checked, args, NULL, &found);
    const char *wrong = outcome_difference(&bag->arena, &found, &expected, f32, f64);
    if (wrong) return arena_printf(&bag->arena, "checked: %s", wrong);
    if (!exe_available()) return NULL;
    struct compile_options options = { 0 };
    pool_set_threads(16);
    struct exe *e = exe_compile(m, fn, &options, NULL);
    hop_cleanup_push(exe_free, e);
    wrong = differs_somewhere(bag, e, args, &expected);
    hop_cleanup_pop(e);
    exe_free(e);
    return wrong;
}

static void hold(uint64_t seed)
{
    struct bag bag = { 0 };
    struct hop_catch caught;
    struct program p = { .arena = &bag.arena, .head.arena = &bag.arena, .body.arena = &bag.arena };
    const char *volatile wrong = NULL;
    hop_cleanup_push(bag_free, &bag);
    const char *text = random_program(&p, seed);
    if (HOP_TRY(caught)) {
        struct module *m = text_read("t", text, strlen(text));
        hop_cleanup_push(module_free, m);
        uint32_t fn = module_find(m, "f");
        wrong = differs(&bag, m, fn, draw(&bag, m, module_fn(m, fn), &p));
        hop_cleanup_pop(m);
        module_free(m);
        hop_catch_end(&caught);
    } else wrong = hop_message();
    product_kernels_limit(INT32_MAX);
    pool_set_threads(0);
    if (wrong) {
        failed++;
        printf("seed %llu: %s\n%s", (unsigned long long)seed, wrong, text);
    } else passed++;
    hop_cleanup_pop(&bag);
    bag_free(&bag);
}

int main(int argc, char **argv)
{
    struct seeds seeds = seeds_asked(argc, argv, SEEDS);
    for (uint64_t seed = seeds.first; seed < seeds.end; seed++) hold(seed);
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}
