/* Rows about order: sort, which gives sorted values and where they stood, argsort and top_k made of it, and
 * searchsorted. Equal elements keep their order, -0 and 0 are equal, NaN is larger than every number. The
 * compiler writes a merge sort over short runs that were sorted by insertion. Many lines are sorted on
 * threads; of one long line its blocks are, and then merged two by two. */
#include "ops/indexkit.h"
#include "ops/scalar_c.h"

static bool is_descending(const struct attr *a)
{
    return a[SORT_DESCENDING].kind != ATTR_ABSENT && a[SORT_DESCENDING].i;
}

/* ---- order, in C ---- */

/* A line of elements of any dtype as numbers that compare alike. */
struct keys {
    bool real, descending;
    const double *reals;
    const int64_t *whole;
};

/* Reads n elements, `stride` apart. */
static struct keys read_keys(struct arena *a, const struct tensor *t, int64_t first, int64_t stride,
                             int64_t n, bool descending)
{
    enum dtype from = (enum dtype)t->dtype, to = dtype_is_float(from) ? DT_F64 : DT_I64;
    scalar_kernel cast = scalar_c_cast(from, to);
    int64_t *out = ARENA_NEW(a, int64_t, n);
    for (int64_t i = 0; i < n; i++) {
        const char *element = (const char *)t->data + (first + i * stride) * (int64_t)tensor_width(t);
        cast(1, out + i, (const void *const[]){ element });
        if (from == DT_U64) out[i] = (int64_t)((uint64_t)out[i] ^ (uint64_t)1 << 63);
    }
    return (struct keys){
        .real = to == DT_F64, .descending = descending, .reals = (const double *)out, .whole = out
    };
}

static bool before(const struct keys *k, int64_t i, const struct keys *l, int64_t j)
{
    if (!k->real) return k->descending ? k->whole[i] > l->whole[j] : k->whole[i] < l->whole[j];
    double x = k->reals[i], y = l->reals[j];
    if (k->descending) return x > y || (x != x && y == y);
    return x < y || (y != y && x == x);
}

/* ---- sort ---- */

static void infer_sort(struct infer *in)
{
    struct type t = infer_type(in, 0);
    infer_one_dim(in, &in->attrs[SORT_DIM], t.rank, "dim");
    infer_result(in, in->operands[0]);
    infer_result(in, type_with_dtype(in->m, in->operands[0], DT_I64));
}

/* Positions 0..n-1 in the order of their keys. */
static int64_t *sorted_positions(struct arena *a, const struct keys *k, int64_t n)
{
    int64_t *from = ARENA_NEW(a, int64_t, n), *to = ARENA_NEW(a, int64_t, n);
    for (int64_t i = 0; i < n; i++) from[i] = i;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t lo = 0; lo < n; lo += 2 * width) {
            int64_t mid = HOP_MIN(lo + width, n), hi = HOP_MIN(lo + 2 * width, n), i = lo, j = mid;
            for (int64_t at = lo; at < hi; at++)
                to[at] = i < mid && !(j < hi && before(k, from[j], k, from[i])) ? from[i++] : from[j++];
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static void eval_sort(struct eval *e)
{
    const struct tensor *x = e->operands[0], *values = e->results[0], *positions = e->results[1];
    const struct attr *attrs = node_attr(e->f, e->n, 0);
    uint32_t along = attr_dim_or_zero(&attrs[SORT_DIM]);
    int64_t strides[MAX_RANK], n = x->dims[along];
    size_t width = tensor_width(x);
    row_major(x->rank, x->dims, strides);
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    for (int64_t line = 0; x->count && line < x->count / n; line++) {
        int64_t first = line / strides[along] * strides[along] * n + line % strides[along];
        struct keys k = read_keys(&arena, x, first, strides[along], n, is_descending(attrs));
        const int64_t *order = sorted_positions(&arena, &k, n);
        for (int64_t i = 0; i < n; i++) {
            int64_t to = first + i * strides[along], from = first + order[i] * strides[along];
            const char *element = (const char *)x->data + from * (int64_t)width;
            memcpy((char *)values->data + to * (int64_t)width, element, width);
            ((int64_t *)positions->data)[to] = order[i];
        }
        arena_free(&arena);
    }
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

static void vjp_sort(struct vjp *v)
{
    uint32_t along = attr_dim_or_zero(&v->attrs[SORT_DIM]);
    if (v->ct[0] != VAL_NONE)
        v->out[0] = emit_put_along(v->b, v->operands[0], v->results[1], along, v->ct[0]);
}
static void jvp_sort(struct jvp *j)
{
    uint32_t along = attr_dim_or_zero(&j->attrs[SORT_DIM]);
    if (j->tangents[0] != VAL_NONE) j->out[0] = emit_take_along(j->b, j->tangents[0], j->results[1], along);
}

static void batch_sort(struct batch *v)
{
    if (batch_none(v)) return;
    struct attr a[2] = { A_INT(attr_dim_or_zero(&v->attrs[SORT_DIM]) + 1), v->attrs[SORT_DESCENDING] };
    v->results[0] = emit(v->b, OP_sort, v->operands, 1, a);
    v->results[1] = v->results[0] + 1;
}

/* ---- order, in loop programs ---- */

/* Must x stand before y? Strictly: equals keep their order. */
static lpv lp_before(struct lp *p, lpv x, lpv y, bool descending)
{
    enum dtype t = lp_dtype(p, x), wide = t == DT_BOOL ? DT_I32 : dtype_accumulator(t);
    x = lp_cast(p, wide, x);
    y = lp_cast(p, wide, y);
    if (!dtype_is_float(wide)) return lp_bin(p, descending ? LP_GT : LP_LT, x, y);
    /* Ascending: a NaN stands before nothing; descending: nothing stands before a NaN. */
    lpv number = descending ? y : x;
    lpv is_number = lp_bin(p, LP_EQ, number, number);
    lpv first = lp_un(p, LP_NOT, lp_bin(p, descending ? LP_LE : LP_GE, x, y));
    return lp_bin(p, LP_AND, first, is_number);
}

/* The line being sorted lies in one half of a buffer, merged runs go to the other. */
struct sorting {
    struct lp *p;
    bool descending, places; /* places: positions are wanted */
    struct array keys, at;   /* two lines of elements, and of their positions */
    lpv size;
    lpv apart;     /* from one half to the other */
    lpv limit;     /* runs are merged until they have so many elements: the size, or more */
    uint32_t half; /* local: where the line begins, 0 or apart */
};
enum {
    RUN = 8,                   /* what insertion sorts */
    PARALLEL_ELEMENTS = 16384, /* elements below which threads do not pay */
    BLOCK_ROUNDS = 5           /* that merge LOWER_BLOCKS blocks */
};
_Static_assert(1 << BLOCK_ROUNDS == LOWER_BLOCKS, "each round merges two blocks");

/* Ends a loop of few steps: no look for cancellation, that is done around it. */
static void end_short_while(struct lp *p)
{
    lp_while_end(p);
    p->current->stmts.data[p->current->stmts.len - 1].poll = false;
}

static lpv key_at(const struct sorting *s, lpv i)
{
    return lp_load(s->p, s->keys.buffer, lp_bin(s->p, LP_ADD, s->keys.at, i));
}
static void put(const struct sorting *s, lpv to, lpv key, lpv from)
{
    lp_store(s->p, s->keys.buffer, lp_bin(s->p, LP_ADD, s->keys.at, to), key);
    if (s->places) lp_store(s->p, s->at.buffer, lp_bin(s->p, LP_ADD, s->at.at, to), from);
}
static lpv place_at(const struct sorting *s, lpv i)
{
    return s->places ? lp_load(s->p, s->at.buffer, lp_bin(s->p, LP_ADD, s->at.at, i)) : LPV_NONE;
}

/* Runs of RUN elements, each sorted by insertion. */
static void sort_runs(const struct sorting *s)
{
    struct lp *p = s->p;
    lpv zero = lp_index(p, 0), one = lp_index(p, 1), run = lp_index(p, RUN);
    lpv lo = lp_for_begin(p, zero, s->size, run, FOR_SERIAL);
    lpv hi = lp_bin(p, LP_MIN, lp_bin(p, LP_ADD, lo, run), s->size);
    lpv i = lp_for_begin(p, lp_bin(p, LP_ADD, lo, one), hi, one, FOR_SERIAL);
    lpv key = key_at(s, i), place = place_at(s, i);
    uint32_t hole = lp_local(p, DT_I64, LOCAL_SCALAR, "hole");
    lp_set(p, hole, i);
    lp_while_begin(p);
    lpv j = lp_read(p, hole);
    lpv left = lp_bin(p, LP_MAX, lp_bin(p, LP_SUB, j, one), zero);
    lpv smaller = lp_before(p, key, key_at(s, left), s->descending);
    lp_while_body(p, lp_bin(p, LP_AND, lp_bin(p, LP_GT, j, lo), smaller));
    j = lp_read(p, hole);
    left = lp_bin(p, LP_SUB, j, one);
    put(s, j, key_at(s, left), place_at(s, left));
    lp_set(p, hole, left);
    end_short_while(p);
    put(s, lp_read(p, hole), key, place);
    lp_for_end(p);
    lp_for_end(p);
}

/* Elements lo to hi, `by` places further. */
static void move_rest(const struct sorting *s, lpv lo, lpv hi, lpv by)
{
    struct lp *p = s->p;
    lpv i = lp_for_begin(p, lo, hi, lp_index(p, 1), FOR_VECTOR);
    put(s, lp_bin(p, LP_ADD, by, i), key_at(s, i), place_at(s, i));
    lp_for_end(p);
}

/* The one of elements i and j that goes to place `to`, j where `second` holds. */
static void put_chosen(const struct sorting *s, lpv to, lpv second, lpv i, lpv x, lpv j, lpv y)
{
    struct lp *p = s->p;
    put(s, to, lp_select(p, second, y, x), s->places ? place_at(s, lp_select(p, second, j, i)) : LPV_NONE);
}

/* Two runs of the same length, from both ends at once: the first half of the result from their beginnings,
 * the second from their ends. Neither run can be used up on the way, so nothing is tested, and neither end
 * waits for the other. Positions are those in the buffer. */
static void merge_even(const struct sorting *s, lpv length, lpv lo, lpv mid, lpv hi, lpv to)
{
    struct lp *p = s->p;
    lpv one = lp_index(p, 1);
    static const char *const names[4] = { "left", "right", "left_end", "right_end" };
    lpv first[4] = { lo, mid, lp_bin(p, LP_SUB, mid, one), lp_bin(p, LP_SUB, hi, one) };
    uint32_t locals[4];
    for (int k = 0; k < 4; k++) {
        locals[k] = lp_local(p, DT_I64, LOCAL_SCALAR, names[k]);
        lp_set(p, locals[k], first[k]);
    }
    lpv step = lp_for_begin(p, lp_index(p, 0), length, one, FOR_SERIAL);
    lpv last = lp_bin(p, LP_SUB, lp_bin(p, LP_ADD, to, lp_bin(p, LP_MUL, length, lp_index(p, 2))), one);
    lpv at[4], key[4];
    for (int k = 0; k < 4; k++) {
        at[k] = lp_read(p, locals[k]);
        key[k] = key_at(s, at[k]);
    }
    lpv second = lp_before(p, key[1], key[0], s->descending);
    lpv left_last = lp_before(p, key[3], key[2], s->descending);
    put_chosen(s, lp_bin(p, LP_ADD, to, step), second, at[0], key[0], at[1], key[1]);
    put_chosen(s, lp_bin(p, LP_SUB, last, step), left_last, at[3], key[3], at[2], key[2]);
    lpv right_step = lp_cast(p, DT_I64, second), left_step = lp_cast(p, DT_I64, left_last);
    lp_set(p, locals[0], lp_bin(p, LP_ADD, at[0], lp_bin(p, LP_SUB, one, right_step)));
    lp_set(p, locals[1], lp_bin(p, LP_ADD, at[1], right_step));
    lp_set(p, locals[2], lp_bin(p, LP_SUB, at[2], left_step));
    lp_set(p, locals[3], lp_bin(p, LP_SUB, at[3], lp_bin(p, LP_SUB, one, left_step)));
    lp_for_end(p);
}

/* Two runs of any lengths until one is used up; what is left follows. */
static void merge_uneven(const struct sorting *s, lpv lo, lpv mid, lpv hi, lpv to)
{
    struct lp *p = s->p;
    lpv one = lp_index(p, 1);
    uint32_t left = lp_local(p, DT_I64, LOCAL_SCALAR, "left");
    uint32_t right = lp_local(p, DT_I64, LOCAL_SCALAR, "right");
    lp_set(p, left, lo);
    lp_set(p, right, mid);
    lp_while_begin(p);
    lpv right_has_more = lp_bin(p, LP_LT, lp_read(p, right), hi);
    lpv left_has_more = lp_bin(p, LP_LT, lp_read(p, left), mid);
    lp_while_body(p, lp_bin(p, LP_AND, left_has_more, right_has_more));
    lpv i = lp_read(p, left), j = lp_read(p, right), x = key_at(s, i), y = key_at(s, j);
    lpv second = lp_before(p, y, x, s->descending), step = lp_cast(p, DT_I64, second);
    lpv from_right = lp_bin(p, LP_SUB, j, mid);
    lpv so_far = lp_bin(p, LP_ADD, lp_bin(p, LP_SUB, i, lo), from_right);
    put_chosen(s, lp_bin(p, LP_ADD, to, so_far), second, i, x, j, y);
    lp_set(p, right, lp_bin(p, LP_ADD, j, step));
    lp_set(p, left, lp_bin(p, LP_ADD, i, lp_bin(p, LP_SUB, one, step)));
    end_short_while(p);
    lpv begun = lp_read(p, left), taken = lp_read(p, right);
    move_rest(s, begun, mid, lp_bin(p, LP_ADD, lp_bin(p, LP_SUB, to, lo), lp_bin(p, LP_SUB, taken, mid)));
    move_rest(s, taken, hi, lp_bin(p, LP_SUB, to, lo));
}

/* Two neighbouring runs lo..mid..hi of a half into the other. What is in order already is moved as it is. */
static void merge(const struct sorting *s, lpv width, lpv from, lpv to, lpv lo, lpv mid, lpv hi)
{
    struct lp *p = s->p;
    uint32_t ordered = lp_local(p, DT_BOOL, LOCAL_SCALAR, "ordered");
    lpv even = lp_bin(p, LP_EQ, lp_bin(p, LP_SUB, hi, mid), width);
    to = lp_bin(p, LP_ADD, to, lo);
    lo = lp_bin(p, LP_ADD, from, lo);
    mid = lp_bin(p, LP_ADD, from, mid);
    hi = lp_bin(p, LP_ADD, from, hi);
    lp_set(p, ordered, lp_int(p, DT_BOOL, 1));
    lp_if_begin(p, lp_bin(p, LP_LT, mid, hi));
    lpv last_left = key_at(s, lp_bin(p, LP_SUB, mid, lp_index(p, 1)));
    lpv first_right = key_at(s, mid);
    lp_set(p, ordered, lp_un(p, LP_NOT, lp_before(p, first_right, last_left, s->descending)));
    lp_if_end(p);
    lp_if_begin(p, lp_read(p, ordered));
    move_rest(s, lo, hi, lp_bin(p, LP_SUB, to, lo));
    lp_if_else(p);
    lp_if_begin(p, even);
    merge_even(s, width, lo, mid, hi, to);
    lp_if_else(p);
    merge_uneven(s, lo, mid, hi, to);
    lp_if_end(p);
    lp_if_end(p);
}

/* All pairs of runs of `width` elements into the other half. */
static void merge_pairs(const struct sorting *s, lpv width, lpv from, lpv to, enum lp_for_kind kind)
{
    struct lp *p = s->p;
    lpv zero = lp_index(p, 0), one = lp_index(p, 1);
    lpv both = lp_bin(p, LP_MUL, width, lp_index(p, 2)), divisor = lp_bin(p, LP_MAX, both, one);
    lpv rounded_up = lp_bin(p, LP_ADD, s->size, lp_bin(p, LP_SUB, both, one));
    lpv pair = lp_for_begin(p, zero, lp_bin(p, LP_FLOORDIV, rounded_up, divisor), one, kind);
    lpv lo = lp_bin(p, LP_MUL, pair, both);
    lpv hi = lp_bin(p, LP_MIN, lp_bin(p, LP_ADD, lo, both), s->size);
    lpv mid = lp_bin(p, LP_MIN, lp_bin(p, LP_ADD, lo, width), s->size);
    merge(s, width, from, to, lo, mid, hi);
    lp_for_end(p);
}

static void merge_runs(const struct sorting *s)
{
    struct lp *p = s->p;
    uint32_t width = lp_local(p, DT_I64, LOCAL_SCALAR, "width");
    lp_set(p, width, lp_index(p, RUN));
    lp_set(p, s->half, lp_index(p, 0));
    lp_while_begin(p);
    lp_while_body(p, lp_bin(p, LP_LT, lp_read(p, width), s->limit));
    lpv w = lp_read(p, width), from = lp_read(p, s->half), to = lp_bin(p, LP_SUB, s->apart, from);
    merge_pairs(s, w, from, to, FOR_SERIAL);
    lp_set(p, width, lp_bin(p, LP_MUL, w, lp_index(p, 2)));
    lp_set(p, s->half, to);
    lp_while_end(p);
}

/* What is sorted, and where it goes. */
struct sort_node {
    struct lower *L;
    val x;
    type_id type;
    struct type t;
    uint32_t along;
    bool values;
    struct array out, order;
    enum dtype position;
    lpv idx[MAX_RANK];
};

/* Elements lo to hi of the line into the first half. */
static void fill_line(struct sort_node *n, const struct sorting *s, lpv lo, lpv hi)
{
    struct lp *p = s->p;
    lpv i = lp_for_begin(p, lo, hi, lp_index(p, 1), FOR_VECTOR);
    n->idx[n->along] = i;
    put(s, i, lower_elem(n->L, n->x, n->idx), s->places ? lp_cast(p, n->position, i) : LPV_NONE);
    lp_for_end(p);
}
/* Elements lo to hi of the line, which begins at `half`, into the results. */
static void give_line(struct sort_node *n, const struct sorting *s, lpv half, lpv lo, lpv hi)
{
    struct lp *p = s->p;
    lpv i = lp_for_begin(p, lo, hi, lp_index(p, 1), FOR_VECTOR), from = lp_bin(p, LP_ADD, half, i);
    n->idx[n->along] = i;
    lpv flat = lower_flatten(n->L, n->type, n->idx);
    if (n->values) lp_store(p, n->out.buffer, lp_bin(p, LP_ADD, n->out.at, flat), key_at(s, from));
    if (s->places)
        lp_store(p, n->order.buffer, lp_bin(p, LP_ADD, n->order.at, flat),
                 lp_cast(p, DT_I64, place_at(s, from)));
    lp_for_end(p);
}

static void sort_line(struct sort_node *n, const struct sorting *s, bool longer_than_run)
{
    struct lp *p = s->p;
    fill_line(n, s, lp_index(p, 0), s->size);
    lp_set(p, s->half, lp_index(p, 0));
    sort_runs(s);
    if (longer_than_run) merge_runs(s);
    give_line(n, s, lp_read(p, s->half), lp_index(p, 0), s->size);
}

/* One line of `size` elements: blocks of it, sorted on threads, are merged two by two. */
static void sort_blocks(struct sort_node *n, const struct sorting *s, int64_t size)
{
    struct lp *p = s->p;
    int64_t width = (size + LOWER_BLOCKS - 1) / LOWER_BLOCKS, half = 0;
    lpv apart = s->apart, lo, hi;
    struct sorting part = *s;
    struct blocks b = lower_pieces(n->L, s->size, lp_index(p, width));
    lower_block_begin(n->L, &b, &lo, &hi);
    fill_line(n, s, lo, hi);
    part.keys.at = lp_bin(p, LP_ADD, s->keys.at, lo);
    if (s->places) part.at.at = lp_bin(p, LP_ADD, s->at.at, lo);
    part.size = lp_bin(p, LP_SUB, hi, lo);
    part.limit = lp_index(p, width); /* all blocks end up in the same half */
    sort_runs(&part);
    merge_runs(&part);
    lp_for_end(p);
    for (int64_t w = RUN; w < width; w *= 2) half ^= 1;
    for (int64_t round = 0; round < BLOCK_ROUNDS; round++, half ^= 1)
        merge_pairs(s, lp_index(p, width << round), half ? apart : lp_index(p, 0),
                    half ? lp_index(p, 0) : apart, FOR_PARALLEL);
    lower_block_begin(n->L, &b, &lo, &hi);
    give_line(n, s, half ? apart : lp_index(p, 0), lo, hi);
    lp_for_end(p);
}

/* All lines but those along the sorted dim; on threads blocks of them, each with memory of its own. */
static void sort_lines(struct sort_node *n, struct sorting *s, bool threads, bool longer_than_run)
{
    struct lower *L = n->L;
    struct lp *p = s->p;
    struct module *m = lower_module(L);
    dim dims[MAX_RANK], two = dim_mul(m, 2, n->t.dims[n->along]);
    lpv at[MAX_RANK], lo = lp_index(p, 0), hi, block = LPV_NONE;
    uint32_t rank = 0;
    for (uint32_t d = 0; d < n->t.rank; d++)
        if (d != n->along) dims[rank++] = n->t.dims[d];
    type_id lines = type_intern(m, DT_BOOL, rank, dims);
    enum dtype t = (enum dtype)n->t.dtype;
    hi = lower_dim(L, type_elements(m, lines));
    if (threads) {
        struct blocks b = lower_blocks(L, hi, 1);
        s->keys = lower_block_memory(L, t, two, "runs of lines being sorted");
        if (s->places) s->at = lower_block_memory(L, n->position, two, "positions of lines being sorted");
        block = lp_bin(p, LP_MUL, lower_block_begin(L, &b, &lo, &hi), lower_dim(L, two));
        s->keys.at = lp_bin(p, LP_ADD, s->keys.at, block);
        if (s->places) s->at.at = lp_bin(p, LP_ADD, s->at.at, block);
    }
    lower_unflatten(L, lines, lp_for_begin(p, lo, hi, lp_index(p, 1), FOR_SERIAL), at);
    for (uint32_t d = 0, k = 0; d < n->t.rank; d++)
        if (d != n->along) n->idx[d] = at[k++];
    sort_line(n, s, longer_than_run);
    lp_for_end(p);
    if (threads) lp_for_end(p);
}

static void block_sort(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    const struct attr *attrs = node_attr(f, n, 0);
    struct sort_node w = { .L = L,
                           .x = node_operands(f, n)[0],
                           .along = attr_dim_or_zero(&attrs[SORT_DIM]),
                           .values = lower_result_used(L, n, 0) };
    w.type = value_type(f, w.x);
    w.t = type_get(m, w.type);
    dim length = w.t.dims[w.along], two = dim_mul(m, 2, length);
    int64_t lo, hi, least, most;
    dim_range(m, f->symbols, length, &lo, &hi);
    dim_range(m, f->symbols, type_elements(m, w.type), &least, &most);
    struct sorting s = { .p = p,
                         .descending = is_descending(attrs),
                         .places = lower_result_used(L, n, 1),
                         .size = lower_dim(L, length) };
    s.apart = s.size;
    s.limit = s.size;
    if (w.values) w.out = lower_result(L, n, 0);
    if (s.places) w.order = lower_result(L, n, 1);
    w.position = hi <= INT32_MAX ? DT_I32 : DT_I64;
    s.half = lp_local(p, DT_I64, LOCAL_SCALAR, "half");
    bool threads = most >= PARALLEL_ELEMENTS && lower_may_thread(L);
    bool one_line = type_elements(m, w.type) == length;
    bool in_lines = threads && !one_line, in_blocks = threads && one_line && lo == hi && w.t.rank == 1;
    if (!in_lines) {
        enum dtype t = (enum dtype)w.t.dtype;
        s.keys = lower_alloc(L, type_intern(m, t, 1, &two), "runs of a line being sorted");
        if (s.places)
            s.at = lower_alloc(L, type_intern(m, w.position, 1, &two), "positions of a line being sorted");
    }
    if (in_blocks) sort_blocks(&w, &s, hi);
    else sort_lines(&w, &s, in_lines, hi > RUN);
}

static const struct attr_spec sort_attrs[] = { [SORT_DIM] = { "dim", ATTR_INT, false, NULL },
                                               [SORT_DESCENDING] = { "descending", ATTR_FLAG, false, NULL } };
static const struct op_lower lower_sort = { .kind = LOWER_BLOCK,
                                            .access = ACCESS_GATHER,
                                            .cost = COST_EXPENSIVE,
                                            .block = block_sort,
                                            .operand_use = use_once };

#define SAMPLE(symbols, type, order, attrs) \
    { "hop 1\nfn @sample" symbols "(%x: " type ") -> (" type ", " order ") {\n  %v, %i = sort" attrs \
      " (%x)\n  return %v, %i\n}\n", \
      NULL }
static const struct op_sample sort_samples[] = {
    SAMPLE("", "f32[37]", "i64[37]", ""),
    SAMPLE("", "f64[3, 5]", "i64[3, 5]", " {dim = 1}"),
    SAMPLE("", "f32[19, 2]", "i64[19, 2]", " {descending}"),
    SAMPLE("[T]", "f32[2, T, 3]", "i64[2, T, 3]", " {dim = 1}"),
    SAMPLE("[T]", "f64[T]", "i64[T]", " {descending}"),
    SAMPLE("", "i32[30]", "i64[30]", ""),
    SAMPLE("", "u32[4, 9]", "i64[4, 9]", " {dim = 1, descending}"),
    SAMPLE("", "i64[20]", "i64[20]", ""),
    SAMPLE("", "bool[11]", "i64[11]", ""),
    SAMPLE("", "f16[21]", "i64[21]", ""),
    SAMPLE("", "bf16[3, 10]", "i64[3, 10]", " {dim = 1, descending}"),
    SAMPLE("", "u64[12]", "i64[12]", ""),
    SAMPLE("", "i8[12]", "i64[12]", " {descending}"),
    SAMPLE("", "f32[1]", "i64[1]", ""),
    SAMPLE("", "f32[0, 3]", "i64[0, 3]", ""),
    SAMPLE("", "f32[3, 0]", "i64[3, 0]", ""),
    { "hop 1\nfn @sample(%x: f32[33]) -> (f32[33]) {\n  %v, %i = sort(%x)\n  return %v\n}\n", NULL },
};
const struct op_row row_sort = {
    .name = "sort",
    .meaning = "the elements along a dim (absent: 0) in ascending (or descending) order, and where each "
               "stood; equals keep their order, NaN is larger than every number",
    .sig = { 1, 1, ROW_ATTRS(sort_attrs) },
    .infer = infer_sort,
    .eval = eval_sort,
    .vjp = vjp_sort,
    .jvp = jvp_sort,
    .batch = batch_sort,
    .lower = &lower_sort,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(sort_samples),
};

/* ---- argsort, top_k ---- */

static void infer_argsort(struct infer *in)
{
    infer_one_dim(in, &in->attrs[SORT_DIM], infer_type(in, 0).rank, "dim");
    infer_result(in, type_with_dtype(in->m, in->operands[0], DT_I64));
}
static void expand_argsort(struct expand *e)
{
    e->out[0] = emit(e->b, OP_sort, e->operands, 1, e->attrs) + 1;
}

static const struct op_sample argsort_samples[] = {
    { "hop 1\nfn @sample(%x: f32[37]) -> (i64[37]) {\n  %i = argsort(%x)\n  return %i\n}\n", NULL },
    { "hop 1\nfn @sample[T](%x: i32[T, 3]) -> (i64[T, 3]) {\n  %i = argsort {dim = 1, descending} (%x)\n  "
      "return %i\n}\n",
      NULL },
};
const struct op_row row_argsort = {
    .name = "argsort",
    .meaning = "where the elements along a dim (absent: 0) stand, in ascending (or descending) order; equals "
               "keep their order, NaN is larger than every number",
    .sig = { 1, 1, ROW_ATTRS(sort_attrs) },
    .infer = infer_argsort,
    .expand = expand_argsort,
    .no_gradient = "integer-valued",
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(argsort_samples),
};

static void infer_top_k(struct infer *in)
{
    struct type t = infer_type(in, 0);
    uint32_t along = infer_one_dim(in, &in->attrs[TOP_K_DIM], t.rank, "dim");
    dim dims[MAX_RANK], k = (dim)in->attrs[TOP_K_K].i;
    memcpy(dims, t.dims, t.rank * sizeof *dims);
    infer_not_negative(in, k, "attribute 'k'");
    infer_le(in, k, dims[along],
             arena_printf(&in->m->scratch, "attribute 'k', of dim %u of %s", along,
                          infer_text(in, in->operands[0])));
    dims[along] = k;
    infer_result(in, type_intern(in->m, (enum dtype)t.dtype, t.rank, dims));
    infer_result(in, type_intern(in->m, DT_I64, t.rank, dims));
}
static void expand_top_k(struct expand *e)
{
    struct builder *b = e->b;
    struct type t = emit_type(b, e->operands[0]);
    uint32_t along = attr_dim_or_zero(&e->attrs[TOP_K_DIM]);
    struct attr a[2] = { A_INT(along), A_FLAG(true) };
    dim start[MAX_RANK] = { 0 }, limit[MAX_RANK];
    memcpy(limit, t.dims, t.rank * sizeof *limit);
    limit[along] = (dim)e->attrs[TOP_K_K].i;
    val sorted = emit(b, OP_sort, e->operands, 1, a);
    for (uint32_t i = 0; i < 2; i++) e->out[i] = emit_slice(b, sorted + i, start, limit);
}

static const struct attr_spec top_k_attrs[] = {
    [TOP_K_K] = { "k", ATTR_DIM, true, NULL }, [TOP_K_DIM] = { "dim", ATTR_INT, false, NULL }
};
static const struct op_sample top_k_samples[] = {
    { "hop 1\nfn @sample(%x: f32[21]) -> (f32[4], i64[4]) {\n  %v, %i = top_k {k = 4} (%x)\n  return %v, "
      "%i\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f64[T, 5]) -> (f64[T, 2], i64[T, 2]) {\n  %v, %i = top_k {k = 2, dim = 1} "
      "(%x)\n  return %v, %i\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[3]) -> (i32[0], i64[0]) {\n  %v, %i = top_k {k = 0} (%x)\n  return %v, "
      "%i\n}\n",
      NULL },
};
const struct op_row row_top_k = {
    .name = "top_k",
    .meaning = "the k largest along a dim (absent: 0), largest first, and where each stands; of equals the "
               "first ones, NaN is larger than every number",
    .sig = { 1, 1, ROW_ATTRS(top_k_attrs) },
    .infer = infer_top_k,
    .expand = expand_top_k,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(top_k_samples),
};

/* ---- searchsorted ---- */

static bool is_right(const struct attr *a)
{
    return a[SEARCH_RIGHT].kind != ATTR_ABSENT && a[SEARCH_RIGHT].i;
}

static void infer_search(struct infer *in)
{
    struct type s = infer_type(in, 0), v = infer_type(in, 1);
    if (!s.rank)
        infer_error(in, "operand 0: expected at least one dim, found %s", infer_text(in, in->operands[0]));
    if (v.dtype != s.dtype || v.rank + 1u < s.rank)
        infer_error(in, "operand 1: expected the dtype and the leading dims of %s, found %s",
                    infer_text(in, in->operands[0]), infer_text(in, in->operands[1]));
    for (uint32_t d = 0; d + 1u < s.rank; d++)
        infer_equal(in, s.dims[d], v.dims[d], arena_printf(&in->m->scratch, "operand 1: dim %u", d));
    infer_result(in, type_with_dtype(in->m, in->operands[1], DT_I64));
}

static void eval_search(struct eval *e)
{
    const struct tensor *s = e->operands[0], *v = e->operands[1], *r = e->results[0];
    bool right = is_right(node_attr(e->f, e->n, 0));
    int64_t n = s->dims[s->rank - 1], lines = 1;
    for (uint32_t d = 0; d + 1u < s->rank; d++) lines *= s->dims[d];
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    for (int64_t line = 0; r->count && line < lines; line++) {
        int64_t each = r->count / lines;
        struct keys in = read_keys(&arena, s, line * n, 1, n, false);
        struct keys wanted = read_keys(&arena, v, line * each, 1, each, false);
        for (int64_t q = 0; q < each; q++) {
            int64_t lo = 0, hi = n;
            while (lo < hi) {
                int64_t mid = lo + (hi - lo) / 2;
                bool further = right ? !before(&wanted, q, &in, mid) : before(&in, mid, &wanted, q);
                if (further) lo = mid + 1;
                else hi = mid;
            }
            ((int64_t *)r->data)[line * each + q] = lo;
        }
        arena_free(&arena);
    }
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

static void batch_search(struct batch *v)
{
    if (batch_none(v)) return;
    bool alone = !v->batched[0] && emit_type(v->b, v->operands[0]).rank == 1; /* one line for all lanes */
    v->results[0] = emit(v->b, OP_searchsorted,
                         (val[]){ alone ? v->operands[0] : batch_operand(v, 0), batch_operand(v, 1) }, 2,
                         v->attrs);
}

/* A binary search for each value. */
static void block_search(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    val sorted = node_operands(f, n)[0], values = node_operands(f, n)[1];
    struct type s = type_get(lower_module(L), value_type(f, sorted));
    type_id type = value_type(f, n->results);
    bool scalar = !type_get(lower_module(L), type).rank, right = is_right(node_attr(f, n, 0));
    struct array to = scalar ? (struct array){ HOP_NONE, LPV_NONE } : lower_result(L, n, 0);
    lpv idx[MAX_RANK], at[MAX_RANK], one = lp_index(p, 1), size = lower_dim(L, s.dims[s.rank - 1]);
    uint32_t low = lp_local(p, DT_I64, LOCAL_SCALAR, "low");
    uint32_t high = lp_local(p, DT_I64, LOCAL_SCALAR, "high");
    lower_each_begin(L, type, false, idx);
    lpv wanted = lower_elem(L, values, idx);
    lp_set(p, low, lp_index(p, 0));
    lp_set(p, high, size);
    lp_while_begin(p);
    lp_while_body(p, lp_bin(p, LP_LT, lp_read(p, low), lp_read(p, high)));
    lpv lo = lp_read(p, low);
    lpv hi = lp_read(p, high);
    lpv mid = lp_bin(p, LP_ADD, lo, lp_bin(p, LP_FLOORDIV, lp_bin(p, LP_SUB, hi, lo), lp_index(p, 2)));
    for (uint32_t d = 0; d + 1u < s.rank; d++) at[d] = idx[d];
    at[s.rank - 1] = mid;
    lpv x = lower_elem(L, sorted, at);
    lpv further = right ? lp_un(p, LP_NOT, lp_before(p, wanted, x, false)) : lp_before(p, x, wanted, false);
    lp_set(p, low, lp_select(p, further, lp_bin(p, LP_ADD, mid, one), lo));
    lp_set(p, high, lp_select(p, further, hi, mid));
    end_short_while(p);
    lpv found = lp_read(p, low);
    if (!scalar) lp_store(p, to.buffer, lp_bin(p, LP_ADD, to.at, lower_flatten(L, type, idx)), found);
    lower_each_end(L, type);
    if (scalar) lower_set_scalar(L, n, 0, found);
}

static uint8_t use_search(const struct fn *f, const struct node *n, uint32_t i)
{
    HOP_UNUSED(f);
    HOP_UNUSED(n);
    return i ? USE_ONCE : USE_MANY;
}

static const struct attr_spec search_attrs[] = { [SEARCH_RIGHT] = { "right", ATTR_FLAG, false, NULL } };
static const struct op_lower lower_search = { .kind = LOWER_BLOCK,
                                              .access = ACCESS_GATHER,
                                              .cost = COST_EXPENSIVE,
                                              .block = block_search,
                                              .operand_use = use_search };
static const struct op_sample search_samples[] = {
    { "hop 1\nfn @sample[T](%x: f32[T, 2], %q: f32[5]) -> (i64[5]) {\n  %c = cumsum {dim = 1} (%x)\n  %r = "
      "reshape {dims = [2*T]} (%c)\n  %s, %o = sort(%r)\n"
      "  %i = searchsorted(%s, %q)\n  return %i\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[3, 6], %q: i32[3, 2, 4]) -> (i64[3, 2, 4]) {\n  %s, %o = sort {dim = 1} "
      "(%x)\n  %i = searchsorted {right} (%s, %q)\n  return %i\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[4], %q: f64[]) -> (i64[]) {\n  %s, %o = sort(%x)\n  %i = searchsorted(%s, "
      "%q)\n  return %i\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[0], %q: f64[2]) -> (i64[2]) {\n  %i = searchsorted(%x, %q)\n  return "
      "%i\n}\n",
      NULL },
};
const struct op_row row_searchsorted = {
    .name = "searchsorted",
    .meaning = "where each value belongs in lines that are sorted: before its equals, with right behind "
               "them; lines [L…, n] and values [L…, S…]",
    .sig = { 2, 2, ROW_ATTRS(search_attrs) },
    .infer = infer_search,
    .eval = eval_search,
    .batch = batch_search,
    .lower = &lower_search,
    .no_gradient = "integer-valued",
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(search_samples),
};
