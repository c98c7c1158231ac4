/* The row of operator: a call of a function from outside, by the name of its declaration; and the composite
 * row call_operator, the same with the rules that the declaration names. With lanes the operands have so many
 * leading dims more than the signature says, each of which is the lanes' or 1: the function is called for
 * each index of them, where the mask allows, or once for all of them. */
#include "interp/interp.h"
#include "ops/operator_layout.h"
#include "ops/operators.h"
#include "ops/rowkit.h"

extern const struct op_lower lower_operator; /* operator_lower.c */

/* ---- infer ---- */

/* A call while its types are matched with the signature. */
struct matching {
    struct infer *in;
    struct operator_layout l;
    dim lanes[MAX_RANK];
    dim *sizes;      /* what each size variable is, HOP_NONE: nobody says */
    uint8_t *dtypes; /* what each dtype variable is, DT_COUNT: nobody says */
};

static const char *slot_text(const struct matching *w, uint32_t i)
{
    const struct operator_slot *s = &w->l.slots[i];
    struct arena *a = &w->in->m->scratch;
    return *s->name ? arena_printf(a, "operand %u (%s)", s->operand, s->name)
                    : arena_printf(a, "operand %u", s->operand);
}

static const char *declared_text(const struct matching *w, const struct operator_type *t)
{
    struct text out = { .arena = &w->in->m->scratch };
    operator_type_print(w->in->m, w->l.decl, t, &out);
    return out.data;
}

/* The size of each lane dim: that of the first operand that is not 1 there. */
static void find_lanes(struct matching *w)
{
    struct infer *in = w->in;
    uint32_t k = w->l.lanes;
    for (uint32_t d = 0; d < k; d++) w->lanes[d] = 1;
    for (uint32_t i = 0; i < in->n_operands; i++) {
        struct type t = infer_type(in, i);
        bool is_mask = w->l.masked && !i;
        if (t.kind) continue; /* one for all lanes */
        if (is_mask && (t.dtype != DT_BOOL || t.rank != k))
            infer_error(in, "operand 0 (mask): expected bool with %u dims, found %s", k,
                        infer_text(in, in->operands[0]));
        if (t.rank < k)
            infer_error(in, "operand %u: expected at least %u dims (lanes), found %s", i, k,
                        infer_text(in, in->operands[i]));
        for (uint32_t d = 0; d < k; d++)
            if (w->lanes[d] == 1) w->lanes[d] = t.dims[d];
    }
    for (uint32_t i = 0; i < in->n_operands; i++) {
        struct type t = infer_type(in, i);
        for (uint32_t d = 0; d < k && !t.kind; d++)
            if (t.dims[d] != 1)
                infer_equal(in, w->lanes[d], t.dims[d],
                            arena_printf(&in->m->scratch, "operand %u: lane dim %u of %s", i, d,
                                         infer_text(in, in->operands[i])));
    }
}

/* Sizes that the node says, or that running it finds. */
static void know_sizes(struct matching *w)
{
    struct infer *in = w->in;
    const struct operator_decl *d = w->l.decl;
    const struct attr *given = &in->attrs[OPERATOR_SIZES];
    uint32_t n = given->kind == ATTR_ABSENT ? 0 : given->n, at = 0;
    struct text names = { .arena = &in->m->scratch };
    text_str(&names, "");
    for (uint32_t s = 0; s < d->n_sizes; s++) {
        w->sizes[s] = HOP_NONE;
        if (d->sizes[s].kind == SIZE_FOUND) w->sizes[s] = infer_fresh(in, 0, INT64_MAX);
        if (d->sizes[s].kind != SIZE_GIVEN) continue;
        text_add(&names, "%s%s", at ? ", " : "", module_text(in->m, d->sizes[s].name));
        if (at < n) {
            w->sizes[s] = given->list[at];
            infer_not_negative(in, w->sizes[s], "attribute 'sizes'");
        }
        at++;
    }
    if (at != n)
        infer_error(in, "attribute 'sizes': expected %u (%s), which operands do not tell, found %u", at,
                    names.data, n);
}

static void match_operand(struct matching *w, uint32_t i)
{
    struct infer *in = w->in;
    const struct operator_slot *s = &w->l.slots[i];
    const struct operator_type *want = s->type;
    if (!s->present) return;
    struct type t = infer_type(in, s->operand);
    if (!want && t.kind)
        infer_error(in, "operand %u is %s: an operator is given objects that its signature names", s->operand,
                    infer_text(in, in->operands[s->operand]));
    if (!want) return;
    if (want->kind || t.kind) {
        if (want->kind != t.kind)
            infer_error(in, "%s: expected %s, found %s", slot_text(w, i), declared_text(w, want),
                        infer_text(in, in->operands[s->operand]));
        return;
    }
    uint32_t k = w->l.lanes, symbol;
    uint8_t dtype = want->dtype;
    if (dtype >= DT_COUNT) {
        uint8_t *is = &w->dtypes[dtype - DT_COUNT];
        if (*is == DT_COUNT) *is = t.dtype;
        dtype = *is;
    }
    if (t.dtype != dtype || slot_rank(&w->l, s, t) != want->rank)
        infer_error(in, "%s: expected %s%s, found %s%s", slot_text(w, i), declared_text(w, want),
                    k ? arena_printf(&in->m->scratch, " behind %u lane dims", k) : "",
                    s->view ? arena_printf(&in->m->scratch, "a view of %u dims of ", s->view->rank) : "",
                    infer_text(in, in->operands[s->operand]));
    for (uint32_t d = 0; d < want->rank; d++)
        if (want->dims[d] != SIZE_ANY && dim_is_symbol(in->m, want->dims[d], &symbol) &&
            w->sizes[symbol] == HOP_NONE)
            w->sizes[symbol] = slot_dim(&w->l, s, t, d);
}

static bool is_unsaid(void *ctx, uint32_t symbol) { return ((const dim *)ctx)[symbol] == HOP_NONE; }

/* A size of the signature, here. */
static dim size_here(struct matching *w, const struct operator_type *t, uint32_t d, const char *of)
{
    dim is = t->dims[d];
    if (!(is & DIM_TABLE)) return is;
    if (dim_mentions(w->in->m, is, is_unsaid, w->sizes))
        infer_error(w->in, "%s: dim %u of %s is told by no operand: those that have it are absent", of, d,
                    declared_text(w, t));
    return dim_substitute(w->in->m, is, w->sizes);
}

/* Sizes of operands that others have told. */
static void match_sizes(struct matching *w, uint32_t i)
{
    struct infer *in = w->in;
    const struct operator_slot *s = &w->l.slots[i];
    if (!s->present || !s->type) return;
    struct type t = infer_type(in, s->operand);
    for (uint32_t d = 0; d < s->type->rank; d++)
        if (s->type->dims[d] != SIZE_ANY)
            infer_equal(in, size_here(w, s->type, d, slot_text(w, i)), slot_dim(&w->l, s, t, d),
                        arena_printf(&in->m->scratch, "%s: dim %u of %s", slot_text(w, i), d,
                                     declared_text(w, s->type)));
}

/* A view lies in its base: the last element it reaches is one of it. */
static void check_view(struct matching *w, uint32_t i)
{
    struct infer *in = w->in;
    const struct operator_slot *s = &w->l.slots[i];
    if (!s->view) return;
    struct type t = infer_type(in, s->operand);
    const char *of = arena_printf(&in->m->scratch, "%s: the view", slot_text(w, i));
    dim room = 1, last = s->view->offset;
    bool empty = false;
    infer_not_negative(in, s->view->offset, of);
    for (uint32_t d = w->l.lanes; d < t.rank; d++) room = dim_mul(in->m, room, t.dims[d]);
    for (uint32_t d = 0; d < s->view->rank; d++) {
        dim size = s->view->records[2 * d], stride = s->view->records[2 * d + 1];
        infer_not_negative(in, size, of);
        infer_not_negative(in, stride, of);
        empty |= !size;
        last = dim_add(in->m, last, dim_mul(in->m, stride, dim_sub(in->m, size, 1)));
    }
    of = arena_printf(&in->m->scratch, "%s lies in %s: what is left behind it", of,
                      infer_text(in, in->operands[s->operand]));
    if (!empty) infer_not_negative(in, dim_sub(in->m, dim_sub(in->m, room, last), 1), of);
}

static bool is_fresh(void *ctx, uint32_t symbol) { return symbol >= ((const struct infer *)ctx)->n_symbols; }

static type_id result_type(struct matching *w, const struct operator_slot *s)
{
    struct infer *in = w->in;
    uint32_t k = w->l.lanes, rank = s->type ? s->type->rank : 0;
    dim dims[2 * MAX_RANK];
    memcpy(dims, w->lanes, k * sizeof *dims);
    if (s->operand != HOP_NONE) { /* the new content of an operand */
        struct type t = infer_type(in, s->operand);
        memcpy(dims + k, t.dims + k, (t.rank - k) * sizeof *dims);
        return type_intern(in->m, (enum dtype)t.dtype, t.rank, dims);
    }
    const char *of = arena_printf(&in->m->scratch, "result %u", s->result);
    uint8_t dtype = s->type->dtype < DT_COUNT ? s->type->dtype : w->dtypes[s->type->dtype - DT_COUNT];
    if (dtype == DT_COUNT)
        infer_error(in, "%s: the dtype of %s is told by no operand: those that have it are absent", of,
                    declared_text(w, s->type));
    for (uint32_t d = 0; d < rank; d++) {
        dims[k + d] = size_here(w, s->type, d, of);
        bool found = dims[k + d] & DIM_TABLE && dim_mentions(in->m, dims[k + d], is_fresh, in);
        if (!found) infer_not_negative(in, dims[k + d], of); /* what is found is looked at when it is */
    }
    return type_intern(in->m, (enum dtype)dtype, k + rank, dims);
}

static void infer_operator(struct infer *in)
{
    struct matching w = { .in = in };
    const char *wrong = operator_layout(&w.l, in->arena, in->m, in->attrs, in->n_operands);
    if (wrong) infer_error(in, "%s", wrong);
    const struct operator_decl *d = w.l.decl;
    if (!in->n_operands && w.l.lanes)
        infer_error(in, "attribute 'lanes' needs an operand with the lanes' dims");
    w.sizes = ARENA_NEW(in->arena, dim, d->n_sizes + 1);
    w.dtypes = ARENA_NEW(in->arena, uint8_t, d->n_dtypes + 1);
    memset(w.dtypes, DT_COUNT, d->n_dtypes + 1);
    find_lanes(&w);
    know_sizes(&w);
    for (uint32_t i = 0; i < w.l.n_given; i++) match_operand(&w, i);
    for (uint32_t i = 0; i < w.l.n_given; i++) match_sizes(&w, i);
    for (uint32_t i = 0; i < w.l.n_given; i++) check_view(&w, i);
    type_id *types = ARENA_NEW(in->arena, type_id, w.l.n_results + 1);
    for (uint32_t i = 0; i < w.l.n_slots; i++)
        if (w.l.slots[i].result != HOP_NONE) types[w.l.slots[i].result] = result_type(&w, &w.l.slots[i]);
    for (uint32_t i = 0; i < w.l.n_results; i++) infer_result(in, types[i]);
}

static uint32_t behind_mask(uint32_t operand, const void *ctx)
{
    HOP_UNUSED(ctx);
    return operand + 1;
}

static effect_set operator_effects(const struct module *m, const struct attr *attrs)
{
    const struct operator_decl *d = module_operator(m, (uint32_t)attrs[OPERATOR_NAME].i);
    bool masked = attrs[OPERATOR_MASKED].kind != ATTR_ABSENT && attrs[OPERATOR_MASKED].i;
    if (!d) return EFFECT_NONE;
    return d->effects | (masked ? effects_mapped(d->accesses, behind_mask, NULL) : d->accesses);
}

/* ---- eval ---- */

/* A call, or one per lane, while the interpreter makes it. `call` comes first: results are asked for with its
 * address. */
struct calling {
    hop_operator_call call;
    struct eval *e;
    struct arena arena;
    struct operator_layout l;
    struct registered *of;
    const char *name, *place;
    int64_t lanes[MAX_RANK], n_lanes, lane;
    int64_t *sizes; /* -1: not found yet */
    int64_t *told;  /* what the operator is told of them: those that it finds are -1 in every lane */
    hop_operator_array *arrays;
    void **data;
    hop_status refused; /* memory for a result, which the call asked for */
    char message[OPERATOR_MESSAGE_ROOM];
};

static void calling_free(void *calling)
{
    struct calling *w = calling;
    if (w->of) operator_drop(w->of);
    arena_free(&w->arena);
}

static void find_eval_lanes(struct calling *w)
{
    w->n_lanes = 1;
    for (uint32_t d = 0; d < w->l.lanes; d++) {
        w->lanes[d] = 1;
        for (uint32_t i = 0; i < w->e->n->n_operands && w->lanes[d] == 1; i++)
            if (!tensor_is_object(w->e->operands[i])) w->lanes[d] = w->e->operands[i]->dims[d];
        w->n_lanes *= w->lanes[d];
    }
}

/* In which of its parts, row by row, the lane finds an operand whose lane dims may be 1. */
static int64_t lane_part(const struct calling *w, const struct tensor *t, int64_t lane)
{
    int64_t part = 0, step = 1;
    for (uint32_t d = w->l.lanes; d-- > 0;) {
        int64_t i = lane % w->lanes[d];
        lane /= w->lanes[d];
        if (t->dims[d] == 1) continue;
        part += i * step;
        step *= t->dims[d];
    }
    return part;
}

static int64_t part_elements(const struct calling *w, const struct tensor *t)
{
    int64_t n = 1;
    for (uint32_t d = w->l.lanes; d < t->rank; d++) n *= t->dims[d];
    return n;
}

static void *lane_data(const struct calling *w, const struct tensor *t, int64_t lane)
{
    return (char *)t->data + lane_part(w, t, lane) * part_elements(w, t) * (int64_t)tensor_width(t);
}

static void find_sizes(struct calling *w)
{
    const struct operator_decl *d = w->l.decl;
    const struct attr *given = node_attr(w->e->f, w->e->n, OPERATOR_SIZES);
    uint32_t at = 0, symbol;
    w->sizes = ARENA_ZNEW(&w->arena, int64_t, d->n_sizes + 1);
    for (uint32_t s = 0; s < d->n_sizes; s++) {
        if (d->sizes[s].kind == SIZE_FOUND) w->sizes[s] = -1;
        if (d->sizes[s].kind == SIZE_GIVEN) w->sizes[s] = dim_eval(w->e->m, given->list[at++], w->e->symbols);
    }
    bool *known = ARENA_ZNEW(&w->arena, bool, d->n_sizes + 1);
    for (uint32_t i = 0; i < w->l.n_given; i++) {
        const struct operator_slot *s = &w->l.slots[i];
        for (uint32_t k = 0; s->present && s->type && k < s->type->rank; k++) {
            if (s->type->dims[k] == SIZE_ANY || !dim_is_symbol(w->e->m, s->type->dims[k], &symbol)) continue;
            if (known[symbol]) continue;
            known[symbol] = true;
            w->sizes[symbol] = s->view ? dim_eval(w->e->m, s->view->records[2 * k], w->e->symbols)
                                       : w->e->operands[s->operand]->dims[w->l.lanes + k];
        }
    }
    w->told = arena_copy(&w->arena, w->sizes, d->n_sizes * sizeof *w->sizes);
}

/* Results begin as zeros, new contents as the operands are, in every lane. */
static void begin_results(struct calling *w)
{
    for (uint32_t i = 0; i < w->l.n_slots; i++) {
        const struct operator_slot *s = &w->l.slots[i];
        struct tensor *to = s->result == HOP_NONE ? NULL : w->e->results[s->result];
        if (!to) continue;
        size_t width = tensor_width(to);
        if (to->count && s->operand == HOP_NONE) memset(to->data, 0, (size_t)to->count * width);
        if (!to->count || s->operand == HOP_NONE) continue;
        const struct tensor *from = w->e->operands[s->operand];
        size_t bytes = (size_t)part_elements(w, to) * width;
        for (int64_t lane = 0; lane < w->n_lanes; lane++)
            memcpy((char *)to->data + (size_t)lane * bytes, lane_data(w, from, lane), bytes);
    }
}

/* Whether the dim of a result may be that size, from what is known; a size that stands there by itself is
 * found by it. */
static bool fits(struct calling *w, const struct operator_type *t, uint32_t d, int64_t found)
{
    uint32_t symbol;
    if (found < 0) return false;
    if (!(t->dims[d] & DIM_TABLE)) return t->dims[d] == found;
    if (dim_is_symbol(w->e->m, t->dims[d], &symbol)) {
        if (w->sizes[symbol] == -1) w->sizes[symbol] = found;
        return w->sizes[symbol] == found;
    }
    for (uint32_t s = 0; s < w->l.decl->n_sizes; s++)
        if (w->sizes[s] == -1) return true; /* the interpreter compares it with the type afterwards */
    return dim_eval(w->e->m, t->dims[d], w->sizes) == found;
}

static void *misfit(struct calling *w, uint32_t result, const struct operator_type *t, const int64_t *dims)
{
    struct text out = { .arena = &w->arena };
    operator_type_print(w->e->m, w->l.decl, t, &out);
    text_str(&out, ", found [");
    for (uint32_t d = 0; d < t->rank; d++) text_add(&out, "%s%lld", d ? ", " : "", (long long)dims[d]);
    text_str(&out, "]");
    for (uint32_t s = 0; s < w->l.decl->n_sizes; s++)
        if (w->sizes[s] >= 0)
            text_add(&out, ", %s = %lld", module_text(w->e->m, w->l.decl->sizes[s].name),
                     (long long)w->sizes[s]);
    snprintf(w->message, sizeof w->message, "result %u: expected %s", result, out.data);
    w->refused = HOP_INVALID;
    return NULL;
}

/* The memory of the result that slot i is, made when it is asked for first; NULL: the dims do not fit. */
static void *find_result(struct calling *w, uint32_t i, const int64_t *dims)
{
    const struct operator_slot *s = &w->l.slots[i];
    struct tensor **to = &w->e->results[s->result];
    uint32_t k = w->l.together ? w->l.lanes : 0;
    int64_t all[2 * MAX_RANK];
    memcpy(all, w->lanes, w->l.lanes * sizeof *all);
    for (uint32_t d = 0; d < k; d++)
        if (dims[d] != w->lanes[d]) return misfit(w, s->result, s->type, dims + k);
    for (uint32_t d = 0; d < s->type->rank; d++) {
        all[w->l.lanes + d] = dims[k + d];
        if (!fits(w, s->type, d, dims[k + d])) return misfit(w, s->result, s->type, dims + k);
    }
    if (*to && memcmp((*to)->dims, all, (*to)->rank * sizeof *all))
        return misfit(w, s->result, s->type, dims + k);
    if (!*to) {
        struct type is = type_get(w->e->m, value_type(w->e->f, w->e->n->results + s->result));
        *to = tensor_new((enum dtype)is.dtype, is.rank, all);
        if ((*to)->count) memset((*to)->data, 0, (size_t)(*to)->count * tensor_width(*to));
    }
    return w->l.together ? (*to)->data : lane_data(w, *to, w->lane);
}

/* hop_operator_call.result: nothing is thrown through the operator's function. */
static void *give_result(hop_operator_call *call, int number, const int64_t *dims)
{
    struct calling *w = call->host;
    uint32_t i = w->l.n_given + (uint32_t)number;
    struct hop_catch c;
    if (number < 0 || number >= (int)(w->l.n_slots - w->l.n_given) || !dims || !w->l.slots[i].found)
        return NULL;
    if (HOP_TRY(c)) {
        void *data = find_result(w, i, dims);
        if (data) w->data[i] = data;
        hop_catch_end(&c);
        return data;
    }
    w->refused = hop_caught();
    snprintf(w->message, sizeof w->message, "%.500s", hop_message());
    return NULL;
}

/* An array that is a view of a base: the same strides in every lane. */
static void set_view(struct calling *w, uint32_t i, const struct tensor *base)
{
    const struct operator_view *view = w->l.slots[i].view;
    hop_operator_array *a = &w->arrays[i];
    uint32_t lanes = w->l.together ? w->l.lanes : 0, rank = lanes + view->rank;
    int64_t *dims = ARENA_NEW(&w->arena, int64_t, 2 * (size_t)rank + 1), *strides = dims + rank;
    int64_t step = part_elements(w, base), offset = dim_eval(w->e->m, view->offset, w->e->symbols);
    for (uint32_t d = lanes; d-- > 0; step *= base->dims[d]) {
        dims[d] = base->dims[d];
        strides[d] = step;
    }
    for (uint32_t d = 0; d < view->rank; d++) {
        dims[lanes + d] = dim_eval(w->e->m, view->records[2 * d], w->e->symbols);
        strides[lanes + d] = dim_eval(w->e->m, view->records[2 * d + 1], w->e->symbols);
    }
    a->rank = (int32_t)rank;
    a->dims = dims;
    a->strides = strides;
    a->data = (char *)a->data + offset * (int64_t)tensor_width(base);
    w->data[i] = a->data;
}

static void set_array(struct calling *w, uint32_t i)
{
    const struct operator_slot *s = &w->l.slots[i];
    uint32_t skip = w->l.together ? 0 : w->l.lanes;
    struct tensor *t = s->result != HOP_NONE    ? w->e->results[s->result]
                       : s->operand != HOP_NONE ? w->e->operands[s->operand]
                                                : NULL;
    hop_operator_array *a = &w->arrays[i];
    *a = (hop_operator_array){ .data = NULL };
    w->data[i] = NULL;
    if (t && tensor_is_object(t)) { /* one for all lanes, and given as what it is */
        a->dtype = HOP_OBJECT;
        a->data = (void *)(uintptr_t)(*(const uint64_t *)t->data);
        w->data[i] = a->data;
    } else if (t && !s->found) {
        a->dtype = t->dtype;
        a->rank = (int32_t)(t->rank - skip);
        a->dims = t->dims + skip;
        a->data = w->l.together ? t->data : lane_data(w, t, w->lane);
        w->data[i] = a->data;
        if (s->view) set_view(w, i, t);
    } else if (s->result != HOP_NONE) {
        int64_t *dims = ARENA_NEW(&w->arena, int64_t, w->l.lanes + s->type->rank + 1);
        struct type is = type_get(w->e->m, value_type(w->e->f, w->e->n->results + s->result));
        if (!skip) memcpy(dims, w->lanes, w->l.lanes * sizeof *dims);
        for (uint32_t d = 0; d < s->type->rank; d++)
            dims[w->l.lanes - skip + d] = s->type->dims[d] & DIM_TABLE ? -1 : (int64_t)s->type->dims[d];
        a->dtype = is.dtype;
        a->rank = (int32_t)(is.rank - skip);
        a->dims = dims;
    }
}

/* Every result that the operator was to ask memory for. */
static void expect_results(struct calling *w)
{
    for (uint32_t i = w->l.n_given; i < w->l.n_slots; i++)
        if (!w->data[i] && w->l.slots[i].found)
            hop_throw(HOP_INVALID,
                      "%s%s: result %u has a size that the operator finds, but it asked for no memory "
                      "(call->result)%s%s",
                      w->place, w->name, w->l.slots[i].result, *w->message ? ": " : "", w->message);
}

static void make_call(struct calling *w, int64_t lane)
{
    w->lane = lane;
    for (uint32_t i = 0; i < w->l.n_slots; i++) set_array(w, i);
    w->message[0] = 0;
    w->refused = HOP_OK;
    w->call = (hop_operator_call){ .user = w->of->user,
                                   .message = w->message,
                                   .room = sizeof w->message,
                                   .arrays = w->arrays,
                                   .n_arrays = (int32_t)w->l.n_slots,
                                   .counts = w->l.counts,
                                   .lanes = w->l.together ? (int32_t)w->l.lanes : 0,
                                   .result = give_result,
                                   .host = w };
    const struct hop_watch *watch = hop_watch_get();
    struct outlet mine = { w->e->in->print, w->e->in->print_ctx, NULL, NULL, NULL };
    if (watch) {
        mine.cancel = watch->cancel;
        mine.confirm = watch->confirm;
        mine.confirm_ctx = watch->ctx;
    }
    const struct outlet *before = outlet_set(&mine);
    int status = operator_run(w->of, &w->call, w->data, w->told);
    outlet_set(before);
    w->message[sizeof w->message - 1] = 0;
    if (status) operator_failed(w->place, w->name, w->refused ? (int)w->refused : status, w->message);
    expect_results(w);
}

/* A call of a callback, with views of the operands. */
static void tell(struct calling *w, int64_t lane)
{
    uint32_t n = w->l.n_slots;
    struct tensor *parts = ARENA_ZNEW(&w->arena, struct tensor, n + 1);
    struct tensor **shown = ARENA_NEW(&w->arena, struct tensor *, n + 1);
    w->lane = lane;
    for (uint32_t i = 0; i < n; i++) {
        set_array(w, i);
        const hop_operator_array *a = &w->arrays[i];
        parts[i] = (struct tensor){
            .refs = 1, .dtype = (uint8_t)a->dtype, .rank = (uint8_t)a->rank, .count = 1, .data = a->data
        };
        for (int32_t d = 0; d < a->rank; d++) parts[i].count *= parts[i].dims[d] = a->dims[d];
        shown[i] = &parts[i];
    }
    callback_call(w->e->in->callback, w->e->in->callback_ctx, w->place, w->name, shown, n);
}

static bool lane_runs(const struct calling *w, int64_t lane)
{
    if (!w->l.masked) return true;
    const struct tensor *mask = w->e->operands[0];
    return ((const uint8_t *)mask->data)[lane_part(w, mask, lane)];
}

static void make_calls(struct calling *w)
{
    if (!w->l.together) {
        for (int64_t lane = 0; lane < w->n_lanes; lane++)
            if (lane_runs(w, lane)) w->of ? make_call(w, lane) : tell(w, lane);
        return;
    }
    for (int64_t lane = 0; lane < w->n_lanes; lane++)
        if (lane_runs(w, lane)) {
            w->of ? make_call(w, 0) : tell(w, 0);
            return;
        }
}

/* Where no lane ran, sizes that none found are 0. */
static void fill_results(struct calling *w)
{
    const struct eval *e = w->e;
    for (uint32_t s = 0; s < w->l.decl->n_sizes; s++)
        if (w->sizes[s] == -1) w->sizes[s] = 0;
    for (uint32_t i = w->l.n_given; i < w->l.n_slots; i++) {
        const struct operator_slot *s = &w->l.slots[i];
        if (e->results[s->result]) continue;
        struct type is = type_get(e->m, value_type(e->f, e->n->results + s->result));
        int64_t dims[2 * MAX_RANK];
        memcpy(dims, w->lanes, w->l.lanes * sizeof *dims);
        for (uint32_t d = 0; d < s->type->rank; d++)
            dims[w->l.lanes + d] = dim_eval(e->m, s->type->dims[d], w->sizes);
        struct tensor *t = tensor_new((enum dtype)is.dtype, is.rank, dims);
        if (t->count) memset(t->data, 0, (size_t)t->count * tensor_width(t));
        e->results[s->result] = t;
    }
}

static void eval_operator(struct eval *e)
{
    struct calling w = { .e = e };
    hop_cleanup_push(calling_free, &w);
    w.l = operator_layout_of(&w.arena, e->m, e->f, e->n);
    const struct operator_decl *d = w.l.decl;
    w.place = place_text_in(&w.arena, e->m, e->n->place);
    w.name = module_text(e->m, d->name);
    bool told = d->any && !d->n_results; /* a callback */
    if (!told) w.of = operator_expect(w.place, w.name, d->signature, d->effects, d->version);
    find_eval_lanes(&w);
    find_sizes(&w);
    begin_results(&w);
    w.arrays = ARENA_ZNEW(&w.arena, hop_operator_array, w.l.n_slots + 1);
    w.data = ARENA_ZNEW(&w.arena, void *, w.l.n_slots + 1);
    make_calls(&w);
    fill_results(&w);
    hop_cleanup_pop(&w);
    calling_free(&w);
}

/* ---- derivatives, lanes ---- */

static _Noreturn void no_gradient(const struct module *m, const struct node *n, const struct attr *attrs)
{
    hop_throw(
        HOP_INVALID,
        "%soperator '%s' has no derivatives: give it a backward or a jvp (in Python defvjp or defjvp; around "
        "a callback custom_vjp or custom_jvp), or take stop_gradient of its operands%s",
        place_text((struct module *)m, n->place), module_text(m, (uint32_t)attrs[OPERATOR_NAME].i),
        place_stack((struct module *)m, n->place));
}

static void vjp_operator(struct vjp *v)
{
    for (uint32_t i = 0; i < v->n->n_results; i++)
        if (v->ct[i] != VAL_NONE) no_gradient(v->b->m, v->n, v->attrs);
}

static void jvp_operator(struct jvp *j)
{
    for (uint32_t i = 0; i < j->n->n_results; i++)
        if (dtype_is_float((enum dtype)emit_type(j->b, j->results[i]).dtype))
            no_gradient(j->b->m, j->n, j->attrs);
}

/* Operand i with a leading dim, which is 1 where it has no lanes. */
static val lanes_of(struct batch *v, uint32_t i)
{
    struct type t = emit_type(v->b, v->operands[i]);
    if (v->batched[i] || t.kind) return v->operands[i];
    dim dims[MAX_RANK + 1] = { 1 };
    if (t.rank) memcpy(dims + 1, t.dims, t.rank * sizeof *dims);
    return emit_reshape(v->b, v->operands[i], t.rank + 1u, dims);
}

/* v->lanes, or true for all lanes, over k lane dims more, which are 1. */
static val mask_of_lanes(struct batch *v, uint32_t k)
{
    dim dims[MAX_RANK + 1] = { v->size };
    for (uint32_t d = 0; d < k; d++) dims[d + 1] = 1;
    if (v->lanes == VAL_NONE) return emit_full(v->b, DT_BOOL, 1, k + 1, dims);
    return k ? emit_reshape(v->b, v->lanes, k + 1, dims) : v->lanes;
}

static _Noreturn void no_lanes(const struct module *m, const struct node *n, const struct attr *attrs)
{
    hop_throw(HOP_INVALID,
              "%soperator '%s' is for one lane alone: give it a batch (in Python def_vmap; vmap_method of "
              "pure_callback; an io_callback that is not ordered)%s",
              place_text((struct module *)m, n->place), module_text(m, (uint32_t)attrs[OPERATOR_NAME].i),
              place_stack((struct module *)m, n->place));
}

/* Every lane has a call of its own, in the order of lanes, unless all are in one. Where no operand is over
 * lanes a mask is, so that they can be counted. */
static void batch_operator(struct batch *v)
{
    struct builder *b = v->b;
    const struct attr *lanes = &v->attrs[OPERATOR_LANES];
    bool masked = v->attrs[OPERATOR_MASKED].kind != ATTR_ABSENT && v->attrs[OPERATOR_MASKED].i, any = false;
    uint32_t k = lanes->kind == ATTR_ABSENT ? 0 : (uint32_t)lanes->i, n = v->n->n_operands, at = 0;
    if (v->attrs[OPERATOR_ALONE].kind != ATTR_ABSENT && v->attrs[OPERATOR_ALONE].i)
        no_lanes(b->m, v->n, v->attrs);
    if (k == MAX_RANK) hop_throw(HOP_INVALID, "an operator over more than %d lane dims", MAX_RANK);
    val *operands = ARENA_NEW(&b->arena, val, n + 1), mask = VAL_NONE;
    for (uint32_t i = 0; i < n; i++) any |= v->batched[i];
    if (v->lanes != VAL_NONE || !any) mask = mask_of_lanes(v, k);
    if (masked && mask != VAL_NONE) {
        val old = batch_operand(v, 0);
        struct type t = emit_type(b, old);
        mask = emit2(b, OP_and, old,
                     emit_broadcast(b, emit_reshape(b, mask, 1, &v->size), t.rank, t.dims, &(uint32_t){ 0 }));
    } else if (masked) {
        mask = lanes_of(v, 0);
    }
    if (mask != VAL_NONE) operands[at++] = mask;
    for (uint32_t i = masked; i < n; i++) operands[at++] = lanes_of(v, i);
    struct attr attrs[OPERATOR_ATTRS];
    memcpy(attrs, v->attrs, sizeof attrs);
    attrs[OPERATOR_LANES] = A_INT(k + 1);
    attrs[OPERATOR_MASKED] = A_FLAG(mask != VAL_NONE);
    val first = emit(b, (enum op)v->n->op, operands, at, attrs);
    for (uint32_t i = 0; i < v->n->n_results; i++) v->results[i] = first + i;
}

/* ---- calls with rules ---- */

/* The symbols that the types of operands and the sizes of a call mention, for the function around it. */
struct outline {
    struct builder *outer, *inner;
    dim *to;   /* per symbol outside: what it is inside, HOP_NONE */
    dim *back; /* per symbol inside: what it is outside */
    uint32_t n;
};

static bool take_symbol(void *ctx, uint32_t symbol)
{
    struct outline *o = ctx;
    if (o->to[symbol] != HOP_NONE) return false;
    const struct symbol *s = &o->outer->symbols.data[symbol];
    o->to[symbol] = dim_symbol(o->outer->m, builder_symbol(o->inner, s->name, s->lo, s->hi));
    o->back[o->n++] = dim_symbol(o->outer->m, symbol);
    return false;
}

static void take_symbols(struct outline *o, dim d)
{
    if (d & DIM_TABLE) dim_mentions(o->outer->m, d, take_symbol, o);
}

static const uint32_t sized_attrs[] = { OPERATOR_SIZES, OPERATOR_VIEWS };

/* The function whose one node is the call. */
static uint32_t body_of(struct builder *outer, struct outline *o, const val *given, uint32_t n,
                        const struct attr *of_call)
{
    struct module *m = outer->m;
    struct builder b;
    builder_begin(&b, m, NULL);
    uint32_t n_symbols = outer->symbols.len + 1;
    *o = (struct outline){ .outer = outer,
                           .inner = &b,
                           .to = ARENA_NEW(&outer->arena, dim, n_symbols),
                           .back = ARENA_NEW(&outer->arena, dim, n_symbols) };
    memset(o->to, 0xff, n_symbols * sizeof *o->to);
    struct attr attrs[OPERATOR_ATTRS];
    memcpy(attrs, of_call, sizeof attrs);
    for (uint32_t i = 0; i < n; i++) {
        struct type t = emit_type(outer, given[i]);
        for (uint32_t d = 0; d < t.rank; d++) take_symbols(o, t.dims[d]);
    }
    for (uint32_t a = 0; a < HOP_COUNT(sized_attrs); a++) {
        struct attr *list = &attrs[sized_attrs[a]];
        if (list->kind == ATTR_ABSENT) continue;
        for (uint32_t i = 0; i < list->n; i++) take_symbols(o, list->list[i]);
        dim *inside = ARENA_NEW(&b.arena, dim, list->n + 1);
        for (uint32_t i = 0; i < list->n; i++)
            inside[i] = list->list[i] & DIM_TABLE ? dim_substitute(m, list->list[i], o->to) : list->list[i];
        list->list = inside;
    }
    val *operands = ARENA_NEW(&b.arena, val, n + 1);
    for (uint32_t i = 0; i < n; i++)
        operands[i] = builder_param(&b, type_substitute(m, builder_type(outer, given[i]), o->to),
                                    outer->values.data[given[i]].name);
    b.place = outer->place;
    b.fn_place = outer->place;
    val first = emit(&b, OP_operator, operands, n, attrs);
    uint32_t n_results = b.n_last_results;
    val *results = ARENA_NEW(&b.arena, val, n_results + 1);
    for (uint32_t i = 0; i < n_results; i++) results[i] = first + i;
    return builder_finish(&b, results, n_results);
}

val emit_operator(struct builder *b, const val *operands, uint32_t n, const struct attr *attrs,
                  const uint32_t *rules, struct attr sizes)
{
    struct attr custom[CUSTOM_ATTRS] = { [CUSTOM_SIZES] = sizes };
    bool any = false;
    _Static_assert((int)CUSTOM_FORWARD == (int)OPERATOR_FORWARD &&
                       (int)CUSTOM_BACKWARD == (int)OPERATOR_BACKWARD &&
                       (int)CUSTOM_JVP == (int)OPERATOR_JVP && (int)CUSTOM_BATCH == (int)OPERATOR_BATCH,
                   "rules stand in the same order");
    for (uint32_t i = 0; i < OPERATOR_RULES; i++) {
        if (rules[i] == HOP_NONE) continue;
        custom[i] = A_FN(rules[i]);
        any = true;
    }
    if (!any) return emit(b, OP_operator, operands, n, attrs);
    struct outline o;
    uint32_t body = body_of(b, &o, operands, n, attrs);
    struct region_in region = { body, operands, n, o.back };
    return builder_node(b, &(struct node_in){ .op = OP_custom,
                                              .groups = (const uint32_t[1]){ 0 },
                                              .attrs = custom,
                                              .regions = &region,
                                              .n_regions = 1 });
}

static void expand_call(struct expand *e)
{
    const struct operator_decl *d = module_operator(e->b->m, (uint32_t)e->attrs[OPERATOR_NAME].i);
    val first = emit_operator(e->b, e->operands, e->n_operands, e->attrs, d->rules, A_NONE);
    for (uint32_t i = 0; i < e->n_results; i++) e->out[i] = first + i;
}

/* ---- rows ---- */

static const struct attr_spec operator_attrs[] = { [OPERATOR_NAME] = { "name", ATTR_STRING, true, NULL },
                                                   [OPERATOR_LANES] = { "lanes", ATTR_INT, false, NULL },
                                                   [OPERATOR_MASKED] = { "masked", ATTR_FLAG, false, NULL },
                                                   [OPERATOR_TOGETHER] = { "together", ATTR_FLAG, false,
                                                                           NULL },
                                                   [OPERATOR_SIZES] = { "sizes", ATTR_DIMS, false, NULL },
                                                   [OPERATOR_GIVEN] = { "given", ATTR_INTS, false, NULL },
                                                   [OPERATOR_VIEWS] = { "views", ATTR_DIMS, false, NULL },
                                                   [OPERATOR_ALONE] = { "alone", ATTR_FLAG, false, NULL } };
#define SQUARE \
    "operator @sample_square(x: T[N]) -> T[N] {backward = @back}\n" \
    "fn @back[N](%x: f32[N], %ct: f32[N]) -> (f32[N]) {\n  %a = add(%x, %x)\n  %b = mul(%a, %ct)\n" \
    "  return %b\n}\n"
#define PUSH \
    "operator @sample_push(mut state: T[S], x: T[]) -> T[] {jvp = @along}\n" \
    "fn @along(%s: f32[3], %x: f32[], %ds: f32[3], %dx: f32[]) -> (f32[], f32[3], f32[], f32[3]) {\n" \
    "  %a, %b = operator {name = \"sample_push\"} (%s, %x)\n" \
    "  %c = slice {start = [0], limit = [1]} (%ds)\n  %d = slice {start = [1], limit = [3]} (%ds)\n" \
    "  %e = reshape {dims = []} (%c)\n  %f = reshape {dims = [1]} (%dx)\n  %g = concat {dim = 0} (%d, %f)\n" \
    "  return %a, %b, %e, %g\n}\n"
static const struct op_sample operator_samples[] = {
    { "hop 1\noperator @sample_count(x: T[N]) -> i64[]\nfn @sample(%x: f32[3], %y: f32[2]) -> (i64[], "
      "f32[2]) "
      "{\n  %n = sample_count(%x)\n  return %n, %y\n}\n",
      NULL },
    { "hop 1\n" SQUARE "fn @sample[N](%x: f32[N]) -> (f32[N]) {\n  %y = sample_square(%x)\n  return %y\n}\n",
      NULL },
    { "hop 1\n" PUSH
      "fn @sample(%s: f32[3], %x: f32[]) -> (f32[], f32[3]) {\n  %a, %b = sample_push(%s, %x)\n"
      "  return %a, %b\n}\n",
      NULL },
    { "hop 1\noperator @sample_positive(x: T[N]) -> (i64[?k], T[?k])\n"
      "fn @sample(%x: f32[2]) -> (i64[?k], f32[2]) {\n  %a = iota {dims = [3], dtype = f64}\n"
      "  %i: i64[?k], %v: f64[?k] = sample_positive(%a)\n  return %i, %x\n}\n",
      NULL },
    { "hop 1\noperator @sample_note(...) {effects = io}\nfn @sample(%p: bool[3], %x: f32[3, 2]) -> (f32[3, "
      "2]) "
      "effects(io) {\n  sample_note {lanes = 1, masked} (%p, %x)\n  return %x\n}\n",
      NULL },
};
const struct op_row row_operator = {
    .name = "operator",
    .meaning = "calls the operator from outside that is declared under the name, without the rules of its "
               "declaration",
    .sig = { 0, MANY, ROW_ATTRS(operator_attrs) },
    .effects = operator_effects,
    .operator_attr = OPERATOR_NAME + 1,
    .flags = OPF_NO_FOLD | OPF_OBJECTS,
    .infer = infer_operator,
    .eval = eval_operator,
    .vjp = vjp_operator,
    .jvp = jvp_operator,
    .batch = batch_operator,
    .lower = &lower_operator,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(operator_samples),
};

static const struct op_sample call_samples[] = {
    { "hop 1\n" SQUARE "fn @sample[N](%x: f32[N]) -> (f32[N]) {\n  %y = call_operator {name = "
      "\"sample_square\"} (%x)\n  return %y\n}\n",
      NULL },
};
const struct op_row row_call_operator = { .name = "call_operator",
                                          .meaning = "the same with the rules of its declaration: what the "
                                                     "operator's name stands for",
                                          .sig = { 0, MANY, ROW_ATTRS(operator_attrs) },
                                          .infer = infer_operator,
                                          .flags = OPF_OBJECTS,
                                          .expand = expand_call,
                                          .operator_attr = OPERATOR_NAME + 1,
                                          .autocast = AUTOCAST_KEEP,
                                          ROW_SAMPLES(call_samples) };

/* ---- callback ---- */

/* Operators that take anything and give nothing; what is called need not be declared. */
static void infer_callback(struct infer *in)
{
    uint32_t name = (uint32_t)in->attrs[CALLBACK_NAME].i;
    const char *text = module_text(in->m, name);
    if (!*text) infer_error(in, "attribute 'name': expected the name of a callback, found \"\"");
    const struct operator_decl *d = module_operator(in->m, name);
    if (d && (!d->any || d->n_results))
        infer_error(in, "attribute 'name': expected an operator of any operands without results, found %s",
                    d->signature);
    if (!d) {
        struct operator_decl options = { .effects = EFFECT_IO };
        struct text signature = { .arena = &in->m->arena };
        operator_any_signature(text, &signature);
        operator_options_print(&options, &signature);
        operator_declare(in->m, "signature", signature.data);
    }
    struct attr attrs[OPERATOR_ATTRS] = { A_NONE };
    memcpy(attrs, in->attrs, CALLBACK_ATTRS * sizeof *attrs);
    const struct attr *own = in->attrs;
    in->attrs = attrs;
    infer_operator(in);
    in->attrs = own;
}

static void expand_callback(struct expand *e)
{
    _Static_assert((int)CALLBACK_NAME == (int)OPERATOR_NAME && (int)CALLBACK_LANES == (int)OPERATOR_LANES &&
                       (int)CALLBACK_MASKED == (int)OPERATOR_MASKED &&
                       (int)CALLBACK_TOGETHER == (int)OPERATOR_TOGETHER,
                   "they begin alike");
    struct attr attrs[OPERATOR_ATTRS] = { A_NONE };
    memcpy(attrs, e->attrs, CALLBACK_ATTRS * sizeof *attrs);
    emit(e->b, OP_operator, e->operands, e->n_operands, attrs);
}

static const struct attr_spec callback_attrs[CALLBACK_ATTRS] = {
    [CALLBACK_NAME] = { "name", ATTR_STRING, true, NULL },
    [CALLBACK_LANES] = { "lanes", ATTR_INT, false, NULL },
    [CALLBACK_MASKED] = { "masked", ATTR_FLAG, false, NULL },
    [CALLBACK_TOGETHER] = { "together", ATTR_FLAG, false, NULL }
};
static const struct op_sample callback_samples[] = {
    { "hop 1\nfn @sample(%x: f32[2], %n: i64[]) -> (f32[2]) effects(io) {\n  callback {name = \"log\"} (%x, "
      "%n)\n  return %x\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f64[T, 2]) -> (f64[T, 2]) effects(io) {\n  callback {name = \"log\", lanes = "
      "1} (%x)\n  return %x\n}\n",
      NULL },
    { "hop 1\nfn @sample(%p: bool[3], %x: f32[3]) -> (f32[3]) effects(io) {\n  callback {name = \"log\", "
      "lanes = 1, masked} (%p, %x)\n  return %x\n}\n",
      NULL },
    { "hop 1\nfn @sample() -> () effects(io) {\n  callback {name = \"log\"} ()\n  return\n}\n", NULL },
};
const struct op_row row_callback = {
    .name = "callback",
    .meaning = "calls the host's function of that name with the values; with lanes once per index of the "
               "leading dims, where the mask allows, or once for all of them, together",
    .sig = { 0, MANY, ROW_ATTRS(callback_attrs) },
    .infer = infer_callback,
    .expand = expand_callback,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(callback_samples),
};
