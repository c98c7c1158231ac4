/* Sums of products of any number of arrays, written with one letter per axis: "bij,bjk->bik". Diagonals are
 * cut out, axes that nothing else has are summed, then the two operands whose product is cheapest are
 * multiplied, until one is left. */
#include "capture/capture.h"

/* Labels 0..51 are letters, those from ELLIPSIS on the axes that "..." stands for, counted from the last one.
 */
enum { LETTERS = 52, ELLIPSIS = LETTERS, LABELS = LETTERS + MAX_RANK };

struct term {
    uint32_t n; /* axes */
    uint8_t label[MAX_RANK];
    val v;
};

struct einsum {
    struct builder *b;
    const char *text;
    uint32_t n;      /* operands */
    uint32_t n_out;  /* axes of the result */
    uint32_t n_dots; /* axes that "..." stands for */
    struct term *terms;
    uint8_t out[LABELS];
    dim size[LABELS];     /* HOP_NONE: the label is not used */
    uint64_t out_letters; /* bit per letter */
    bool out_dots;
    /* Where the result's dtype is chosen: what sums and products are kept in until the last; DT_COUNT: as
     * they come out. */
    enum dtype wide;
};
struct einsum_args {
    const char *text, *dtype;
};

/* In the order of the alphabet, capitals first. */
static char letter(uint32_t label) { return (char)(label < 26 ? 'A' + (int)label : 'a' + (int)label - 26); }
static int label_of(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    return -1;
}

static const char *label_text(struct einsum *s, uint32_t label)
{
    if (label < LETTERS) return arena_printf(&s->b->arena, "'%c'", letter(label));
    return arena_printf(&s->b->arena, "axis %u from the end of '...'", label - ELLIPSIS);
}
static const char *size_text(struct einsum *s, dim d)
{
    struct text out = { .arena = &s->b->arena };
    dim_print(s->b->m, s->b->symbols.data, d, &out);
    return out.data;
}

/* ---- the text ---- */

/* Letters and "..." up to a comma, an arrow or the end. Returns how many letters there are; *dots: how many
 * of them stand before "...", -1: there is none. */
static uint32_t read_letters(struct einsum *s, const char **at, uint8_t *labels, uint32_t room, int *dots)
{
    uint32_t n = 0;
    const char *p = *at;
    *dots = -1;
    for (; *p && *p != ',' && *p != '-'; p++) {
        if (*p == ' ') continue;
        if (!strncmp(p, "...", 3)) {
            if (*dots >= 0) capture_throw("the subscripts \"%s\" have '...' twice in one operand", s->text);
            *dots = (int)n;
            p += 2;
            continue;
        }
        if (label_of(*p) < 0)
            capture_throw("the subscripts \"%s\": expected a letter, '...', ',' or '->' at \"%s\"", s->text,
                          p);
        if (n == room)
            capture_throw("the subscripts \"%s\" have more than %u letters in one operand", s->text, room);
        labels[n++] = (uint8_t)label_of(*p);
    }
    *at = p;
    return n;
}

/* A size of a label. Axes of '...' may be repeated where they have size 1. */
static void note_size(struct einsum *s, uint32_t label, dim found)
{
    dim have = s->size[label];
    struct module *m = s->b->m;
    if (have == HOP_NONE || (label >= ELLIPSIS && have == 1)) s->size[label] = found;
    else if (have == found || (label >= ELLIPSIS && found == 1)) return;
    else if (dim_is_const(m, have) && dim_is_const(m, found))
        capture_throw("the subscripts \"%s\": %s has the sizes %s and %s", s->text, label_text(s, label),
                      size_text(s, have), size_text(s, found));
    else if (dim_is_const(m, found)) s->size[label] = found;
}

static void read_term(struct einsum *s, struct term *t, uint32_t number, const char **at)
{
    uint8_t letters[LABELS];
    int dots;
    struct type type = emit_type(s->b, t->v);
    uint32_t n = read_letters(s, at, letters, LABELS, &dots);
    uint32_t more = dots >= 0 && type.rank > n ? type.rank - n : 0;
    if (n > type.rank || (dots < 0 && n < type.rank))
        capture_throw("the subscripts \"%s\" name %u axes of operand %u, which is %s", s->text, n, number,
                      type_text(s->b->m, s->b->symbols.data, builder_type(s->b, t->v)));
    s->n_dots = HOP_MAX(s->n_dots, more);
    for (uint32_t i = 0; i < n; i++) {
        if (dots == (int)i)
            for (uint32_t k = more; k-- > 0;) t->label[t->n++] = (uint8_t)(ELLIPSIS + k);
        t->label[t->n++] = letters[i];
    }
    if (dots == (int)n)
        for (uint32_t k = more; k-- > 0;) t->label[t->n++] = (uint8_t)(ELLIPSIS + k);
    for (uint32_t i = 0; i < t->n; i++) note_size(s, t->label[i], type.dims[i]);
}

static void put_dots(struct einsum *s)
{
    for (uint32_t k = s->n_dots; k-- > 0;) s->out[s->n_out++] = (uint8_t)(ELLIPSIS + k);
    s->out_dots = true;
}

/* Without an arrow: '...', then the letters that stand there once, in the order of the alphabet. */
static void implicit_result(struct einsum *s)
{
    uint32_t times[LETTERS] = { 0 };
    put_dots(s);
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t k = 0; k < s->terms[i].n; k++)
            if (s->terms[i].label[k] < LETTERS) times[s->terms[i].label[k]]++;
    for (uint32_t l = 0; l < LETTERS; l++)
        if (times[l] == 1) s->out[s->n_out++] = (uint8_t)l;
}

static void read_result(struct einsum *s, const char *p)
{
    uint8_t letters[LABELS];
    int dots;
    uint32_t n = read_letters(s, &p, letters, LETTERS, &dots);
    uint64_t seen = 0;
    if (*p) capture_throw("the subscripts \"%s\": expected the end at \"%s\"", s->text, p);
    for (uint32_t i = 0; i <= n; i++) {
        if (dots == (int)i) put_dots(s);
        if (i == n) break;
        if (s->size[letters[i]] == HOP_NONE)
            capture_throw("the subscripts \"%s\": '%c' of the result is in no operand", s->text,
                          letter(letters[i]));
        if (seen >> letters[i] & 1)
            capture_throw("the subscripts \"%s\": '%c' stands twice in the result", s->text,
                          letter(letters[i]));
        seen |= UINT64_C(1) << letters[i];
        s->out[s->n_out++] = letters[i];
    }
    if (s->n_dots && !s->out_dots)
        capture_throw("the subscripts \"%s\": the result has no '...' for the axes that '...' stands for",
                      s->text);
}

static void read_subscripts(struct einsum *s)
{
    const char *p = s->text;
    for (uint32_t l = 0; l < LABELS; l++) s->size[l] = HOP_NONE;
    for (uint32_t i = 0; i < s->n; i++) {
        read_term(s, &s->terms[i], i, &p);
        if (i + 1 == s->n) break;
        if (*p != ',')
            capture_throw("the subscripts \"%s\" are for %u operands, given %u", s->text, i + 1, s->n);
        p++;
    }
    if (*p == ',')
        capture_throw("the subscripts \"%s\" are for more operands than the %u given", s->text, s->n);
    if (!*p) implicit_result(s);
    else if (!strncmp(p, "->", 2)) read_result(s, p + 2);
    else capture_throw("the subscripts \"%s\": expected ',', '->' or the end at \"%s\"", s->text, p);
    if (s->n_out > MAX_RANK)
        capture_throw("the result would have %u dims, a type has at most %d", s->n_out, MAX_RANK);
}

/* ---- one operand ---- */

static bool term_has(const struct term *t, uint32_t label, uint32_t *at)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->label[i] == label) {
            *at = i;
            return true;
        }
    return false;
}

static bool in_result(const struct einsum *s, uint32_t label)
{
    for (uint32_t i = 0; i < s->n_out; i++)
        if (s->out[i] == label) return true;
    return false;
}

static void drop_axis(struct term *t, uint32_t at)
{
    for (uint32_t i = at; i + 1 < t->n; i++) t->label[i] = t->label[i + 1];
    t->n--;
}

/* Axes i < j of the same label become one, the last. With a column more the rows of a matrix [n, n] written
 * one after the other begin on the diagonal. */
static void take_diagonal(struct einsum *s, struct term *t, uint32_t i, uint32_t j)
{
    struct builder *b = s->b;
    struct module *m = b->m;
    uint8_t label = t->label[i];
    val v = emit_move_dim(b, emit_move_dim(b, t->v, j, t->n - 1u), i, t->n - 1u);
    dim n = s->size[label], dims[MAX_RANK], low[MAX_RANK] = { 0 }, high[MAX_RANK] = { 0 };
    struct type type = emit_type(b, v);
    uint32_t lead = t->n - 2;
    memcpy(dims, type.dims, lead * sizeof *dims);
    dims[lead] = dim_mul(m, n, n);
    high[lead] = n;
    struct attr pads[3] = { A_DIMS(low, lead + 1), A_DIMS(high, lead + 1), A_NONE };
    val padded[2] = { emit_reshape(b, v, lead + 1, dims), emit_full(b, (enum dtype)type.dtype, 0, 0, NULL) };
    v = emit(b, OP_pad, padded, 2, pads);
    dims[lead] = n;
    dims[lead + 1] = dim_add(m, n, 1);
    v = emit_reshape(b, v, lead + 2, dims);
    dims[lead + 1] = 1;
    t->v = emit_reshape(b, emit_slice(b, v, low, dims), lead + 1, dims);
    drop_axis(t, j);
    drop_axis(t, i);
    t->label[t->n++] = label;
}

/* Axes with the sizes of their labels: equal ones written alike, those of size 1 that are repeated taken
 * away. */
static void settle_sizes(struct einsum *s, struct term *t)
{
    struct type type = emit_type(s->b, t->v);
    dim dims[MAX_RANK];
    uint32_t n = 0;
    bool same = true;
    for (uint32_t i = 0; i < type.rank; i++) {
        dim want = s->size[t->label[i]];
        same &= want == type.dims[i];
        if (type.dims[i] == 1 && want != 1 && t->label[i] >= ELLIPSIS) continue;
        require_equal(s->b, want, type.dims[i],
                      arena_printf(&s->b->arena, "the subscripts \"%s\": the sizes of %s", s->text,
                                   label_text(s, t->label[i])));
        t->label[n] = t->label[i];
        dims[n++] = want;
    }
    t->n = n;
    if (!same) t->v = emit_reshape(s->b, t->v, n, dims);
}

/* Sums the axes that neither the result nor another operand has. */
static void sum_own(struct einsum *s, struct term *t)
{
    uint32_t list[MAX_RANK], n = 0, kept = 0, at;
    for (uint32_t i = 0; i < t->n; i++) {
        bool needed = in_result(s, t->label[i]);
        for (uint32_t k = 0; k < s->n; k++)
            needed |= &s->terms[k] != t && term_has(&s->terms[k], t->label[i], &at);
        if (needed) t->label[kept++] = t->label[i];
        else list[n++] = i;
    }
    t->n = kept;
    struct attr attrs[REDUCE_ATTRS] = { A_INTS(list, n), A_NONE };
    if (s->wide != DT_COUNT) attrs[REDUCE_DTYPE] = A_DTYPE(s->wide);
    if (n) t->v = emit(s->b, OP_sum, &t->v, 1, attrs);
}

/* ---- two operands ---- */

static double elements(const struct einsum *s, const struct term *t)
{
    enum { LIKE_OTHERS = 64 }; /* a size that only a run knows */
    double n = 1;
    for (uint32_t i = 0; i < t->n; i++) {
        dim size = s->size[t->label[i]];
        n *= dim_is_const(s->b->m, size) ? (double)dim_const_value(s->b->m, size) : LIKE_OTHERS;
    }
    return n;
}

/* Labels of the product: shared ones that are still needed, then those of x alone, then those of y alone;
 * *contracted: are there shared ones that are not? */
static struct term product_of(const struct einsum *s, uint32_t x, uint32_t y, uint64_t shared[2],
                              bool *contracted, double *work)
{
    const struct term *pair[2] = { &s->terms[x], &s->terms[y] };
    struct term out = { 0 };
    uint32_t at;
    *contracted = false;
    *work = elements(s, pair[0]);
    shared[0] = 0; /* bit per axis of x: kept … */
    shared[1] = 0; /* … and contracted */
    for (uint32_t i = 0; i < pair[0]->n; i++) {
        uint32_t label = pair[0]->label[i];
        if (!term_has(pair[1], label, &at)) continue;
        bool needed = in_result(s, label);
        for (uint32_t k = 0; k < s->n; k++) needed |= k != x && k != y && term_has(&s->terms[k], label, &at);
        shared[!needed] |= UINT64_C(1) << i;
        *contracted |= !needed;
        if (needed) out.label[out.n++] = (uint8_t)label;
    }
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t i = 0; i < pair[side]->n; i++)
            if (!term_has(pair[!side], pair[side]->label[i], &at)) {
                if (out.n == MAX_RANK) {
                    out.n++;
                    return out;
                }
                if (side) {
                    struct term one = { .n = 1, .label = { pair[side]->label[i] } };
                    *work *= elements(s, &one);
                }
                out.label[out.n++] = pair[side]->label[i];
            }
    return out;
}

static val spread_term(struct einsum *s, const struct term *t, const struct term *to)
{
    uint32_t order[MAX_RANK], at[MAX_RANK], n = 0, from;
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < to->n; i++) {
        dims[i] = s->size[to->label[i]];
        if (!term_has(t, to->label[i], &from)) continue;
        order[n] = from;
        at[n++] = i;
    }
    val v = emit_permute(s->b, t->v, order);
    return n == to->n ? v : emit_broadcast(s->b, v, to->n, dims, at);
}

/* The operand of a product in the dtype in which that takes it (autocast); its own, that is. */
static val lowered(struct einsum *s, val v)
{
    return emit_cast(s->b, v, modes_dtype(s->b, OP_dot, (enum dtype)emit_type(s->b, v).dtype));
}

static void multiply(struct einsum *s, uint32_t x, uint32_t y)
{
    uint64_t shared[2];
    bool contracted;
    double work;
    struct term out = product_of(s, x, y, shared, &contracted, &work);
    struct term *left = &s->terms[x], *right = &s->terms[y];
    if (contracted) {
        uint32_t lists[4][MAX_RANK], n[2] = { 0, 0 };
        for (uint32_t i = 0; i < left->n; i++)
            for (uint32_t k = 0; k < 2; k++)
                if (shared[k] >> i & 1) {
                    lists[2 * k][n[k]] = i;
                    term_has(right, left->label[i], &lists[2 * k + 1][n[k]++]);
                }
        if (s->wide == DT_COUNT)
            out.v = emit_dot(s->b, left->v, right->v, lists[0], lists[1], n[0], lists[2], lists[3], n[1]);
        else
            out.v = emit_dot_to(s->b, s->wide, lowered(s, left->v), lowered(s, right->v), lists[0], lists[1],
                                n[0], lists[2], lists[3], n[1]);
    } else {
        val lhs = spread_term(s, left, &out), rhs = spread_term(s, right, &out);
        /* a product or a sum before may have given another dtype (autocast) */
        enum dtype t = promote_dtypes((enum dtype)emit_type(s->b, lhs).dtype,
                                      (enum dtype)emit_type(s->b, rhs).dtype);
        if (s->wide != DT_COUNT) t = s->wide;
        out.v = emit2(s->b, OP_mul, emit_cast(s->b, lhs, t), emit_cast(s->b, rhs, t));
    }
    *left = out;
    *right = s->terms[--s->n];
}

/* The pair whose product adds least to what has to be held, the cheaper of equals. */
static void multiply_best(struct einsum *s)
{
    double least = 0, least_work = 0;
    uint32_t best[2] = { HOP_NONE, HOP_NONE };
    for (uint32_t x = 0; x < s->n; x++)
        for (uint32_t y = x + 1; y < s->n; y++) {
            uint64_t shared[2];
            bool contracted;
            double work;
            struct term out = product_of(s, x, y, shared, &contracted, &work);
            if (out.n > MAX_RANK) continue;
            double more = elements(s, &out) - elements(s, &s->terms[x]) - elements(s, &s->terms[y]);
            if (best[0] != HOP_NONE && (more > least || (more == least && work >= least_work))) continue;
            least = more;
            least_work = work;
            best[0] = x;
            best[1] = y;
        }
    if (best[0] == HOP_NONE)
        capture_throw("the subscripts \"%s\": a product would have more than %d dims", s->text, MAX_RANK);
    multiply(s, best[0], best[1]);
}

/* The dtype in which operand i comes in: t, the common one; where t was chosen its own, numbers without a
 * dtype t. */
static enum dtype einsum_dtype(struct emission *e, const struct einsum_args *a, enum dtype t, uint32_t i)
{
    return a->dtype && !e->in[i].weak ? operands_dtype(e->b, &e->in[i], 1) : t;
}

/* What a result of dtype t is kept in until it is complete. */
static enum dtype einsum_wide(const struct einsum *s, enum dtype t)
{
    enum dtype wide = dtype_accumulator(t);
    if (t == DT_BOOL) capture_throw("dtype: expected a dtype of numbers, found bool");
    for (uint32_t i = 0; i < s->n; i++) {
        enum dtype own = (enum dtype)emit_type(s->b, s->terms[i].v).dtype;
        if (dtype_is_float(own) && !dtype_is_float(t))
            capture_throw("dtype: expected a float dtype for operand %u, which is %s, found %s: cast the "
                          "operand first, or the result",
                          i, dtype_info[own].name, dtype_info[t].name);
        wide = dtype_accumulator_of(own, wide);
    }
    return wide;
}

static void rule_einsum(struct emission *e)
{
    struct builder *b = e->b;
    const struct einsum_args *a = e->args;
    struct einsum s = { .b = b,
                        .text = a->text,
                        .n = e->n,
                        .terms = ARENA_ZNEW(&b->arena, struct term, e->n),
                        .wide = DT_COUNT };
    enum dtype t = a->dtype ? text_dtype(a->dtype) : operands_dtype(b, e->in, e->n);
    uint32_t order[MAX_RANK], j;
    if (t == DT_BOOL && !a->dtype) t = DT_I64;
    for (uint32_t i = 0; i < e->n; i++) s.terms[i].v = operand_as(b, &e->in[i], einsum_dtype(e, a, t, i));
    if (a->dtype) s.wide = einsum_wide(&s, t);
    read_subscripts(&s);
    for (uint32_t i = 0; i < s.n; i++) {
        settle_sizes(&s, &s.terms[i]);
        for (uint32_t k = 0; k < s.terms[i].n;) {
            struct term rest = s.terms[i];
            for (j = k + 1; j < rest.n && rest.label[j] != rest.label[k];) j++;
            if (j == rest.n) k++;
            else take_diagonal(&s, &s.terms[i], k, j);
        }
    }
    for (uint32_t i = 0; i < s.n; i++) sum_own(&s, &s.terms[i]);
    while (s.n > 1) multiply_best(&s);
    for (uint32_t i = 0; i < s.n_out; i++)
        if (!term_has(&s.terms[0], s.out[i], &order[i]))
            hop_throw(HOP_INTERNAL, "einsum: %s was lost", label_text(&s, s.out[i]));
    val v = a->dtype ? emit_cast(b, s.terms[0].v, t) : s.terms[0].v;
    e->out[0] = emit_permute(b, v, order);
}

static hop_val einsum(hop_place at, const char *subscripts, const hop_val *operands, int n, const char *dtype)
{
    if (!subscripts || n < 1 || !operands) {
        hop_fail_at(at, "einsum: expected subscripts and at least one operand");
        return (hop_val){ 0, 0 };
    }
    struct einsum_args args = { subscripts, dtype };
    return capture_emit1(at, "einsum", rule_einsum, &args, operands, (uint32_t)n);
}
hop_val hop_einsum_at(hop_place at, const char *subscripts, const hop_val *operands, int n)
{
    return einsum(at, subscripts, operands, n, NULL);
}
hop_val hop_einsum_as_at(hop_place at, const char *subscripts, const hop_val *operands, int n,
                         const char *dtype)
{
    return einsum(at, subscripts, operands, n, dtype);
}

/* ---- calls that are such sums ---- */

/* The diagonal of the last two axes: as many elements as the shorter one has. */
static void rule_diagonal(struct emission *e)
{
    struct builder *b = e->b;
    val v = operand_value(b, &e->in[0]);
    struct type t = emit_type(b, v);
    if (t.rank < 2)
        capture_throw("expected at least two axes, found %s",
                      type_text(b->m, b->symbols.data, builder_type(b, v)));
    dim n = dim_min(b->m, t.dims[t.rank - 2], t.dims[t.rank - 1]);
    dim start[MAX_RANK] = { 0 };
    dim limit[MAX_RANK];
    memcpy(limit, t.dims, t.rank * sizeof *limit);
    limit[t.rank - 2] = n;
    limit[t.rank - 1] = n;
    if (t.dims[t.rank - 2] != n || t.dims[t.rank - 1] != n) v = emit_slice(b, v, start, limit);
    struct einsum s = { .b = b, .text = "ii" };
    struct term term = { .n = t.rank, .v = v };
    for (uint32_t i = 0; i < t.rank; i++) term.label[i] = (uint8_t)(i + 2 < t.rank ? ELLIPSIS + i : 0);
    s.size[0] = n;
    take_diagonal(&s, &term, t.rank - 2u, t.rank - 1u);
    bool sum = *(const bool *)e->args;
    uint32_t along = t.rank - 2u;
    e->out[0] = sum ? emit_reduce(b, OP_sum, term.v, &along, 1) : term.v;
}
hop_val hop_diagonal_at(hop_place at, hop_val x)
{
    return capture_emit1(at, "diagonal", rule_diagonal, &(bool){ false }, &x, 1);
}
hop_val hop_trace_at(hop_place at, hop_val x)
{
    return capture_emit1(at, "trace", rule_diagonal, &(bool){ true }, &x, 1);
}

hop_val hop_outer_at(hop_place at, hop_val x, hop_val y)
{
    return capture_emit1(at, "outer", rule_einsum, &(struct einsum_args){ "i,j->ij", NULL },
                         (hop_val[]){ x, y }, 2);
}
