/* Products of two arrays: when BLAS does them, how operands are handed to it without copies, and along which
 * dim a small product is folded in vector code. */
#include "ir/loop.h"
#include "loop/lower_impl.h"
#include "loop/rt.h"

enum {
    GEMM_LEAST = 32768,        /* multiplications from which BLAS is called (32 cubed) */
    GEMM_ROWS = 4,             /* fewer rows or columns than this: vector code instead … */
    LINE_LEAST = 65536,        /* … but for rows that are multiplied with a matrix of so many elements … */
    NARROW_LEAST = 1 << 19,    /* … or so many of narrow ones */
    UNKNOWN_SIZE = 1000,       /* what a dim that is not static counts as */
    READ_IN_PLACE = 256 << 10, /* bytes of a right operand that panels of rows read where it lies … */
    READ_OFTEN = 64 << 10,     /* … and of one that so many rows read */
    MANY_ROWS = 384,
    PACKED_TRIPS = 8, /* what loops have in panels: for so many trips and bytes */
    PACKED_LEAST = 32 << 10,
    PACKED_NARROW = 16 << 10 /* of elements that each product would convert */
};

enum dtype node_accumulator(const struct module *m, const struct fn *f, const struct node *n)
{
    enum dtype t = (enum dtype)type_get(m, value_type(f, n->results)).dtype;
    for (uint32_t i = 0; i < n->n_operands; i++)
        t = dtype_accumulator_of((enum dtype)type_get(m, value_type(f, node_operands(f, n)[i])).dtype, t);
    return t;
}

static bool product_of(struct lower *L, const struct node *n, struct dot_dims *d)
{
    const struct op_lower *row = node_row(n)->lower;
    if (!row || row->kind != LOWER_REDUCE || !row->product) return false;
    row->product(L->S->m, L->f, n, d);
    return true;
}

static double size_of(struct lower *L, val v, const uint32_t *dims, uint32_t n)
{
    struct type t = type_get(L->S->m, value_type(L->f, v));
    double size = 1;
    for (uint32_t i = 0; i < n; i++) {
        dim d = t.dims[dims[i]];
        size *= dim_is_const(L->S->m, d) ? (double)dim_const_value(L->S->m, d) : UNKNOWN_SIZE;
    }
    return size;
}

/* Is the value an array that lies somewhere whoever reads it, or a transpose of one? */
static bool is_stored_anyway(struct lower *L, val v)
{
    const struct node *n = NULL;
    for (; v >= L->f->n_params; v = node_operands(L->f, n)[0]) {
        n = fn_node(L->f, L->f->values[v].node);
        if (!node_transposes(n)) return node_row(n)->lower && node_row(n)->lower->kind == LOWER_BLOCK;
    }
    return true;
}

/* Sizes of a product, as far as they are known: rows, columns, depth. */
struct product_sizes {
    double m, n, k;
};
static struct product_sizes sizes_of(struct lower *L, const struct node *n, const struct dot_dims *d)
{
    const val *o = node_operands(L->f, n);
    return (struct product_sizes){ size_of(L, o[0], d->lhs_free, d->n_lhs_free),
                                   size_of(L, o[1], d->rhs_free, d->n_rhs_free),
                                   size_of(L, o[0], d->contract_lhs, d->n_contract) };
}

/* A matrix times one column is that column as a row times its transpose. */
static bool is_turned(const struct product_sizes *s) { return s->n == 1 && s->m >= GEMM_ROWS; }

/* Few rows, or one column, times a matrix that need not be stored for it. */
static bool is_line(struct lower *L, const struct node *n, const struct dot_dims *d,
                    const struct product_sizes *s, double least)
{
    double rows = is_turned(s) ? 1 : s->m, columns = is_turned(s) ? s->m : s->n;
    if (d->n_batch || L->S->passes->plain_products || rows >= GEMM_ROWS) return false;
    return columns * s->k >= least && is_stored_anyway(L, node_operands(L->f, n)[!is_turned(s)]);
}

bool lower_may_multiply(const struct lower *L)
{
    return !L->S->p->regime.strict && choice_on(L->S->passes, CHOICE_blas) && !L->S->passes->plain_products;
}

bool product_is_gemm(struct lower *L, const struct node *n)
{
    struct dot_dims d;
    if (L->S->p->regime.strict || !choice_on(L->S->passes, CHOICE_blas) || !product_of(L, n, &d))
        return false;
    const val *o = node_operands(L->f, n);
    enum lp_product how = lp_multiplies((enum dtype)type_get(L->S->m, value_type(L->f, n->results)).dtype,
                                        (enum dtype)type_get(L->S->m, value_type(L->f, o[0])).dtype,
                                        (enum dtype)type_get(L->S->m, value_type(L->f, o[1])).dtype);
    if (how == PRODUCT_NONE || (how == PRODUCT_CONVERTED && L->S->passes->plain_products)) return false;
    struct product_sizes s = sizes_of(L, n, &d);
    if (s.m * s.n * s.k < GEMM_LEAST || s.k < 2) return false;
    if (s.m >= GEMM_ROWS && s.n >= GEMM_ROWS) return true;
    return is_line(L, n, &d, &s, how == PRODUCT_PLAIN ? LINE_LEAST : NARROW_LEAST);
}

/* Do its elements lie beside each other: has every dim behind it one element? */
static bool is_innermost(struct lower *L, val v, uint32_t at)
{
    struct type t = type_get(L->S->m, value_type(L->f, v));
    for (uint32_t i = at + 1; i < t.rank; i++)
        if (!dim_is_const(L->S->m, t.dims[i]) || dim_const_value(L->S->m, t.dims[i]) != 1) return false;
    return true;
}

/* Fold along rows when both operands' contracted dim is innermost while the result's innermost dim is not
 * contiguous in what it indexes. */
bool product_rows(struct lower *L, const struct node *n)
{
    struct dot_dims d;
    if (L->S->p->regime.strict || !product_of(L, n, &d) || d.n_contract != 1) return false;
    const val *o = node_operands(L->f, n);
    return is_innermost(L, o[0], d.contract_lhs[0]) && is_innermost(L, o[1], d.contract_rhs[0]);
}

/* ---- sums of products ---- */

/* Products that nothing reads but additions of one sum are added up by BLAS in the memory of the sum: the
 * first that is made writes it, the others add to it. One of the terms may be a carry whose next value the
 * sum is: its memory holds it when the first product is made. */

/* What the terms below an addition are. */
struct terms {
    bool products; /* but for the carry */
    val carry;     /* VAL_NONE: none */
};

static bool is_addition(struct lower *L, const struct node *n)
{
    const int8_t *factors = node_row(n)->factors;
    if (n->n_operands != 2 || factors[0] != 1 || factors[1] != 1) return false;
    enum dtype t = (enum dtype)type_get(L->S->m, value_type(L->f, n->results)).dtype;
    return t == DT_F32 || t == DT_F64;
}

static struct terms terms_at(struct lower *L, const struct terms *known, val v, type_id t)
{
    struct terms none = { false, VAL_NONE };
    if (L->info[v].uses != 1 || value_type(L->f, v) != t) return none;
    if (v < L->f->n_params) return (struct terms){ L->slots[v].kind == SLOT_ARRAY, v };
    const struct node *n = fn_node(L->f, L->f->values[v].node);
    if (known[v].products) return known[v];
    if (!product_is_gemm(L, n)) return none;
    uint8_t dtype = type_get(L->S->m, t).dtype;
    for (uint32_t k = 0; k < n->n_operands; k++) /* nothing is rounded between the products */
        if (type_get(L->S->m, value_type(L->f, node_operands(L->f, n)[k])).dtype != dtype) return none;
    return (struct terms){ true, VAL_NONE };
}

static struct terms terms_of(struct lower *L, const struct terms *known, const struct node *n)
{
    const val *o = node_operands(L->f, n);
    type_id t = value_type(L->f, n->results);
    struct terms a = terms_at(L, known, o[0], t), b = terms_at(L, known, o[1], t);
    bool two_carries = a.carry != VAL_NONE && b.carry != VAL_NONE;
    val carry = a.carry != VAL_NONE ? a.carry : b.carry;
    return (struct terms){ a.products && b.products && !two_carries, carry };
}

/* Is the sum the next value of the carry, to be left in its memory? */
static bool replaces_carry(struct lower *L, val sum, val carry)
{
    if (!choice_on(L->S->passes, CHOICE_inplace)) return false;
    uint32_t times = 0;
    bool in_place = false;
    for (uint32_t r = 0; r < L->f->n_results; r++) {
        const struct sink *s = &L->sinks[r];
        if (L->f->results[r] != sum || s->unused) continue;
        times++;
        in_place = !s->scalar && s->overwrites == carry && same_array(L->slots[carry].array, s->array);
    }
    return times == 1 && in_place;
}

void product_sums(struct lower *L)
{
    const struct fn *f = L->f;
    struct terms *known = ARENA_ZNEW(L->arena, struct terms, f->n_values);
    bool any = false;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (is_addition(L, n)) known[n->results] = terms_of(L, known, n);
        any |= n->n_results && known[n->results].products;
    }
    for (uint32_t i = f->n_nodes; any && i-- > 0;) {
        const struct node *n = fn_node(f, i);
        if (!n->n_results || !known[n->results].products) continue;
        struct value_info *info = &L->info[n->results];
        val carry = known[n->results].carry;
        if (info->sum == VAL_NONE) { /* the last addition of a sum */
            if (!info->uses || (carry != VAL_NONE && !replaces_carry(L, n->results, carry))) continue;
            info->sum = n->results;
            if (carry != VAL_NONE) L->slots[n->results] = L->slots[carry];
        }
        for (uint32_t k = 0; k < n->n_operands; k++) L->info[node_operands(f, n)[k]].sum = info->sum;
    }
}

bool product_adds_up(struct lower *L, const struct node *n)
{
    return n->n_results == 1 && L->info[n->results].sum != VAL_NONE && is_addition(L, n);
}

/* Where BLAS puts a product, and whether it is added to what is there. */
static struct array product_memory(struct lower *L, const struct node *n, bool *accumulate)
{
    val sum = L->info[n->results].sum;
    *accumulate = sum != VAL_NONE && L->slots[sum].kind == SLOT_ARRAY;
    return sum == VAL_NONE ? lower_result(L, n, 0) : lower_result_of(L, sum, n);
}

/* ---- handing arrays to BLAS ---- */

/* The stored array behind an operand and how its dims are ordered there: dim i of the operand is dim order[i]
 * of the array. */
struct stored {
    val v;
    uint32_t rank, order[MAX_RANK];
};

static bool is_transposed(struct lower *L, val v, const struct node **n)
{
    if (L->f->values[v].node == NODE_NONE || L->info[v].root) return false;
    *n = fn_node(L->f, L->f->values[v].node);
    return node_transposes(*n);
}

static struct stored stored_behind(struct lower *L, val v)
{
    struct stored s = { .v = v, .rank = type_get(L->S->m, value_type(L->f, v)).rank };
    for (uint32_t i = 0; i < s.rank; i++) s.order[i] = i;
    const struct node *n;
    while (is_transposed(L, s.v, &n)) {
        uint32_t from[MAX_RANK];
        node_row(n)->source_dims(node_attr(L->f, n, 0), s.rank, s.rank, from);
        for (uint32_t i = 0; i < s.rank; i++) s.order[i] = from[s.order[i]];
        s.v = node_operands(L->f, n)[0];
    }
    return s;
}

/* Dims of an operand that make up the batch, the rows or the columns of a matrix. */
struct dim_group {
    const uint32_t *dims;
    uint32_t n;
};
struct matrix_dims {
    struct dim_group batch, rows, columns;
};

static struct matrix_dims operand_dims(const struct dot_dims *d, uint32_t k)
{
    if (k)
        return (struct matrix_dims){ .batch = { d->batch_rhs, d->n_batch },
                                     .rows = { d->contract_rhs, d->n_contract },
                                     .columns = { d->rhs_free, d->n_rhs_free } };
    return (struct matrix_dims){ .batch = { d->batch_lhs, d->n_batch },
                                 .rows = { d->lhs_free, d->n_lhs_free },
                                 .columns = { d->contract_lhs, d->n_contract } };
}

/* Do these dims of the operand stand one after the other in the array, from position `at` on? */
static bool stands_at(const struct stored *s, struct dim_group g, uint32_t at)
{
    for (uint32_t i = 0; i < g.n; i++)
        if (s->order[g.dims[i]] != at + i) return false;
    return true;
}

enum orientation { LAYOUT_NONE, LAYOUT_PLAIN, LAYOUT_TRANSPOSED };

/* PLAIN: batch, rows, columns; TRANSPOSED: batch, columns, rows. */
static enum orientation layout_of(const struct stored *s, const struct matrix_dims *m)
{
    uint32_t matrix = m->batch.n; /* where it begins */
    if (!stands_at(s, m->batch, 0)) return LAYOUT_NONE;
    if (stands_at(s, m->rows, matrix) && stands_at(s, m->columns, matrix + m->rows.n)) return LAYOUT_PLAIN;
    if (stands_at(s, m->columns, matrix) && stands_at(s, m->rows, matrix + m->columns.n))
        return LAYOUT_TRANSPOSED;
    return LAYOUT_NONE;
}

static enum orientation operand_layout(struct lower *L, const struct node *n, uint32_t k,
                                       const struct dot_dims *d, struct stored *s)
{
    struct matrix_dims m = operand_dims(d, k);
    *s = stored_behind(L, node_operands(L->f, n)[k]);
    return layout_of(s, &m);
}

bool product_operand_direct(struct lower *L, const struct node *n, uint32_t k)
{
    struct dot_dims d;
    struct stored s;
    if (!product_of(L, n, &d) || operand_layout(L, n, k, &d, &s) == LAYOUT_NONE) return false;
    return s.v != node_operands(L->f, n)[k] && (L->f->values[s.v].node == NODE_NONE || L->info[s.v].root);
}

uint32_t product_row_dims(struct lower *L, const struct node *n, dim rows[MAX_RANK])
{
    struct dot_dims d;
    if (!product_of(L, n, &d) || d.n_batch) return 0;
    struct product_sizes sizes = sizes_of(L, n, &d);
    if (is_turned(&sizes)) return 0;
    struct type t = type_get(L->S->m, value_type(L->f, node_operands(L->f, n)[0]));
    for (uint32_t i = 0; i < d.n_lhs_free; i++) rows[i] = t.dims[d.lhs_free[i]];
    return d.n_lhs_free;
}

bool product_reads_rows(struct lower *L, const struct node *n)
{
    struct dot_dims d;
    struct stored s;
    return product_of(L, n, &d) && operand_layout(L, n, 0, &d, &s) == LAYOUT_PLAIN &&
           s.v == node_operands(L->f, n)[0];
}

static bool can_pack(struct lower *L, const struct node *n, const struct dot_dims *d);

/* Is the right operand small enough to be read at every panel of rows? */
static bool reads_in_place(struct lower *L, const struct node *n, const struct dot_dims *d)
{
    const val *o = node_operands(L->f, n);
    double elements = size_of(L, o[1], d->rhs_free, d->n_rhs_free) *
                      size_of(L, o[0], d->contract_lhs, d->n_contract);
    double most = size_of(L, o[0], d->lhs_free, d->n_lhs_free) < MANY_ROWS ? READ_IN_PLACE : READ_OFTEN;
    return elements * dtype_info[type_get(L->S->m, value_type(L->f, o[1])).dtype].size <= most;
}

/* Of narrow elements, which are converted on the way? */
static bool is_converted(struct lower *L, const struct node *n)
{
    enum dtype t = (enum dtype)type_get(L->S->m, value_type(L->f, node_operands(L->f, n)[1])).dtype;
    return t != DT_F32 && t != DT_F64;
}

bool product_wants_panels(struct lower *L, const struct node *n)
{
    struct dot_dims d;
    struct stored s;
    if (!product_of(L, n, &d)) return false;
    if (operand_layout(L, n, 1, &d, &s) == LAYOUT_TRANSPOSED || !reads_in_place(L, n, &d)) return true;
    return is_converted(L, n) && can_pack(L, n, &d); /* once, instead of at every panel of rows */
}

bool product_by_rows(struct lower *L, const struct node *n)
{
    struct dot_dims d;
    if (!product_of(L, n, &d)) return false;
    if (!product_wants_panels(L, n)) return true;
    return can_pack(L, n, &d) && (!is_converted(L, n) || reads_in_place(L, n, &d));
}

double product_work(struct lower *L, const struct node *n)
{
    struct dot_dims d;
    const val *o = node_operands(L->f, n);
    if (!product_of(L, n, &d)) return 0;
    return size_of(L, o[0], d.lhs_free, d.n_lhs_free) * size_of(L, o[1], d.rhs_free, d.n_rhs_free) *
           size_of(L, o[0], d.contract_lhs, d.n_contract);
}

/* The operand as a matrix per batch: in place, or a copy in the plain order. */
static struct array operand_matrix(struct lower *L, const struct node *n, uint32_t k,
                                   const struct dot_dims *d, bool *transposed)
{
    struct lp *p = L->S->p;
    struct stored s;
    val v = node_operands(L->f, n)[k];
    enum orientation layout = operand_layout(L, n, k, d, &s);
    const struct slot *slot = &L->slots[s.v];
    *transposed = false;
    if (layout != LAYOUT_NONE && (slot->kind == SLOT_ARRAY || slot->kind == SLOT_OUTER)) {
        *transposed = layout == LAYOUT_TRANSPOSED;
        return lower_array(L, s.v);
    }
    s = (struct stored){ .v = v, .rank = type_get(L->S->m, value_type(L->f, v)).rank };
    for (uint32_t i = 0; i < s.rank; i++) s.order[i] = i;
    struct matrix_dims matrix = operand_dims(d, k);
    if (L->slots[v].kind == SLOT_ARRAY && layout_of(&s, &matrix) == LAYOUT_PLAIN) return lower_array(L, v);
    /* A copy in the order batch, rows, columns. */
    const struct dim_group groups[] = { matrix.batch, matrix.rows, matrix.columns };
    struct type t = type_get(L->S->m, value_type(L->f, v));
    dim dims[MAX_RANK];
    uint32_t from[MAX_RANK], rank = 0;
    for (uint32_t g = 0; g < HOP_COUNT(groups); g++)
        for (uint32_t i = 0; i < groups[g].n; i++) {
            from[rank] = groups[g].dims[i];
            dims[rank] = t.dims[from[rank]];
            rank++;
        }
    type_id plain = type_intern(L->S->m, (enum dtype)t.dtype, rank, dims);
    struct array to = lower_alloc(L, plain, "an operand in the order that BLAS reads");
    lpv idx[MAX_RANK], source[MAX_RANK];
    lower_each_begin(L, plain, true, idx);
    for (uint32_t i = 0; i < rank; i++) source[from[i]] = idx[i];
    lp_store(p, to.buffer, lp_bin(p, LP_ADD, to.at, lower_flatten(L, plain, idx)), lower_elem(L, v, source));
    lower_each_end(L, plain);
    p->n_copies++;
    vec_push(&p->arena, &p->copy_notes, "an operand of a product in the order that BLAS reads");
    return to;
}

static lpv extent(struct lower *L, val v, const uint32_t *dims, uint32_t n)
{
    struct type t = type_get(L->S->m, value_type(L->f, v));
    lpv r = lp_index(L->S->p, 1);
    for (uint32_t i = 0; i < n; i++) r = lp_bin(L->S->p, LP_MUL, r, lower_dim(L, t.dims[dims[i]]));
    return r;
}

bool product_fits(struct lower *L, const struct node *n, uint32_t along)
{
    struct dot_dims d;
    return product_of(L, n, &d) && (along == d.n_batch || along == d.n_batch + d.n_lhs_free);
}

/* How far apart the rows of the result lie, and the matrices of a batch. */
static void result_strides(struct lower *L, const struct node *n, const struct dot_dims *d, lpv m, lpv cols,
                           lpv *row, lpv *matrix)
{
    struct lp *p = L->S->p;
    const struct value_info *info = &L->info[n->results];
    *row = cols;
    *matrix = lp_bin(p, LP_MUL, m, cols);
    if (!info->strided) return;
    struct type t = type_get(L->S->m, value_type(L->f, info->within));
    uint32_t rows = d->n_batch + d->n_lhs_free;
    *row = lp_index(p, 1);
    for (uint32_t i = rows; i < t.rank; i++) *row = lp_bin(p, LP_MUL, *row, lower_dim(L, t.dims[i]));
    *matrix = *row;
    for (uint32_t i = d->n_batch; i < rows; i++)
        *matrix = lp_bin(p, LP_MUL, *matrix, lower_dim(L, t.dims[i]));
}

static void use_panels(struct lower *L, const struct node *n, struct lp_call *call);

struct lp_call product_call(struct lower *L, const struct node *n)
{
    struct lp *p = L->S->p;
    struct dot_dims d;
    bool ta, tb;
    product_of(L, n, &d);
    const val *o = node_operands(L->f, n);
    struct array a = operand_matrix(L, n, 0, &d, &ta);
    struct array b = operand_matrix(L, n, 1, &d, &tb);
    bool accumulate;
    struct array c = product_memory(L, n, &accumulate);
    lpv m = extent(L, o[0], d.lhs_free, d.n_lhs_free);
    lpv cols = extent(L, o[1], d.rhs_free, d.n_rhs_free);
    lpv k = extent(L, o[0], d.contract_lhs, d.n_contract);
    struct lp_call call = { .kind = CALL_GEMM, .value = LPV_NONE, .mask = LPV_NONE };
    result_strides(L, n, &d, m, cols, &call.gemm.ldc, &call.gemm.c_apart);
    struct product_sizes sizes = sizes_of(L, n, &d);
    bool turned = is_turned(&sizes) && !L->info[n->results].strided;
    if (turned) {
        struct array column = b;
        b = a;
        a = column;
        tb = !ta;
        ta = false;
        cols = m;
        m = lp_index(p, 1);
        call.gemm.ldc = cols;
    }
    call.gemm.a = a.buffer;
    call.gemm.b = b.buffer;
    call.gemm.c = c.buffer;
    call.gemm.a_at = a.at;
    call.gemm.b_at = b.at;
    call.gemm.c_at = c.at;
    call.gemm.m = m;
    call.gemm.n = cols;
    call.gemm.k = k;
    call.gemm.ta = ta;
    call.gemm.tb = tb;
    call.gemm.accumulate = accumulate;
    call.gemm.lda = ta ? m : k;
    call.gemm.ldb = tb ? k : cols;
    call.gemm.batch = d.n_batch ? extent(L, o[0], d.batch_lhs, d.n_batch) : LPV_NONE;
    call.gemm.a_apart = lp_bin(p, LP_MUL, m, k);
    call.gemm.b_apart = lp_bin(p, LP_MUL, k, cols);
    if (turned == is_turned(&sizes)) use_panels(L, n, &call);
    return call;
}

/* ---- right operands in panels ---- */

/* The operand that is multiplied as the right one: of a product that is turned the left one. */
struct right_operand {
    val v;
    double columns, depth;
    enum orientation layout;
    struct stored stored;
    bool transposed; /* that array, as the right operand */
};
static struct right_operand right_operand(struct lower *L, const struct node *n, const struct dot_dims *d)
{
    struct product_sizes s = sizes_of(L, n, d);
    bool turned = is_turned(&s);
    struct right_operand r = { .v = node_operands(L->f, n)[!turned],
                               .columns = turned ? s.m : s.n,
                               .depth = s.k };
    r.layout = operand_layout(L, n, !turned, d, &r.stored);
    r.transposed = (r.layout == LAYOUT_TRANSPOSED) != turned;
    return r;
}

/* Sizes that are known, and dtypes that there are panels for; emitted C has none. A few rows of narrow
 * elements read the matrix where it lies. */
static bool can_pack(struct lower *L, const struct node *n, const struct dot_dims *d)
{
    if (d->n_batch || L->S->passes->plain_products) return false;
    const val *o = node_operands(L->f, n);
    val right = right_operand(L, n, d).v, left = o[0] == right ? o[1] : o[0];
    enum dtype to = (enum dtype)type_get(L->S->m, value_type(L->f, n->results)).dtype;
    enum dtype lhs = (enum dtype)type_get(L->S->m, value_type(L->f, left)).dtype;
    struct type t = type_get(L->S->m, value_type(L->f, right));
    enum dtype rhs = (enum dtype)t.dtype;
    struct product_sizes sizes = sizes_of(L, n, d);
    bool few = sizes.m < GEMM_ROWS || sizes.n < GEMM_ROWS;
    if (!lp_packs(to, lhs, rhs) || sizes.k < 2) return false;
    if (few && lp_multiplies(to, lhs, rhs) == PRODUCT_CONVERTED) return false;
    for (uint32_t i = 0; i < t.rank; i++)
        if (!dim_is_const(L->S->m, t.dims[i])) return false;
    return true;
}

void product_put_in_panels(struct lower *L, struct lp_call *call)
{
    struct lp *p = L->S->p;
    struct module *m = L->S->m;
    int64_t n, k;
    if (!lp_is_const(p, call->gemm.n, &n) || !lp_is_const(p, call->gemm.k, &k)) return;
    if (call->gemm.tb == HOP_RT_PANELS) return;
    enum dtype t = (enum dtype)p->buffers.data[call->gemm.b].dtype;
    dim count = dim_const(m, lp_panels_count(t, n, k));
    struct array to = lower_alloc(L, type_intern(m, t, 1, &count), "panels of an operand of products");
    struct lp_call pack = *call;
    pack.kind = CALL_PACK;
    pack.gemm.c = to.buffer;
    pack.gemm.c_at = to.at;
    lp_add_call(p, pack);
    call->gemm.b = to.buffer;
    call->gemm.b_at = to.at;
    call->gemm.tb = HOP_RT_PANELS;
}

/* Has the value that the operand is been put into panels where it came from? */
static const struct packed *packed_before(struct lower *L, val v, bool transposed)
{
    while (v < L->f->n_params && L->fed && L->fed[v] != VAL_NONE) {
        v = L->fed[v];
        L = L->outer;
        for (uint32_t i = 0; i < L->packed.len; i++)
            if (L->packed.data[i].v == v && L->packed.data[i].transposed == transposed)
                return &L->packed.data[i];
    }
    return NULL;
}

static void use_panels(struct lower *L, const struct node *n, struct lp_call *call)
{
    struct dot_dims d;
    product_of(L, n, &d);
    struct right_operand r = right_operand(L, n, &d);
    if (r.layout == LAYOUT_NONE || !can_pack(L, n, &d)) return;
    const struct packed *found = packed_before(L, r.stored.v, r.transposed);
    if (!found) return;
    call->gemm.b = found->array.buffer;
    call->gemm.b_at = found->array.at;
    call->gemm.tb = HOP_RT_PANELS;
}

/* A product of the body with a value that all trips share: is it worth having that in panels? */
static bool packs_for(struct lower *body, const struct node *n, const struct loop *l, struct right_operand *r)
{
    struct dot_dims d;
    if (!node_is_product(n) || !product_is_gemm(body, n) || !product_of(body, n, &d)) return false;
    *r = right_operand(body, n, &d);
    if (!can_pack(body, n, &d) || r->layout == LAYOUT_NONE) return false;
    uint32_t first = loop_first_with(l);
    if (r->stored.v < first || r->stored.v >= first + l->n_with) return false;
    enum dtype t = (enum dtype)type_get(body->S->m, value_type(body->f, r->v)).dtype;
    double bytes = r->columns * r->depth * dtype_info[t].size;
    return bytes >= (dtype_info[t].size < 4 ? PACKED_NARROW : PACKED_LEAST);
}

void lower_pack_shared(struct lower *L, const struct loop *l, lpv from, lpv to)
{
    struct lp *p = L->S->p;
    int64_t first, end;
    bool few = from != LPV_NONE && lp_is_const(p, from, &first) && lp_is_const(p, to, &end) &&
               (first >= end || end - first < PACKED_TRIPS);
    if (few || L->S->large || !choice_on(L->S->passes, CHOICE_panels)) return;
    struct lower body = { .S = L->S, .f = l->body, .arena = L->arena };
    body.info = ARENA_ZNEW(L->arena, struct value_info, l->body->n_values);
    for (uint32_t i = 0; i < l->body->n_nodes; i++) {
        const struct node *n = fn_node(l->body, i);
        struct right_operand r;
        if (!packs_for(&body, n, l, &r)) continue;
        val v = l->with[r.stored.v - loop_first_with(l)];
        struct packed packed = { .v = v, .transposed = r.transposed };
        uint8_t kind = L->slots[v].kind;
        bool whole = kind == SLOT_ARRAY || (kind == SLOT_OUTER && L->slots[v].lead == LPV_NONE);
        bool known = false;
        for (uint32_t k = 0; k < L->packed.len; k++)
            known |= L->packed.data[k].v == v && L->packed.data[k].transposed == packed.transposed;
        if (!whole || known || packed_before(L, v, packed.transposed)) continue;
        struct array b = lower_array(L, v);
        struct lp_call call = { .kind = CALL_GEMM, .value = LPV_NONE, .mask = LPV_NONE };
        call.gemm.b = b.buffer;
        call.gemm.b_at = b.at;
        call.gemm.tb = packed.transposed;
        call.gemm.n = lp_index(p, (int64_t)r.columns);
        call.gemm.k = lp_index(p, (int64_t)r.depth);
        call.gemm.ldb = packed.transposed ? call.gemm.k : call.gemm.n;
        product_put_in_panels(L, &call);
        packed.array = (struct array){ call.gemm.b, call.gemm.b_at };
        vec_push(L->arena, &L->packed, packed);
    }
}

void product_gemm(struct lower *L, const struct node *n) { lp_add_call(L->S->p, product_call(L, n)); }
