/* The image of an executable: header, buffers, memory plan and sites as bytes. One description serves both
 * directions: each function below writes what it is given or reads it back, so that the two cannot differ.
 * Bytes come from this user's own cache and were checked as a whole; still every count is held against the
 * bytes that are left, every number against what it counts, and the whole against the function that is asked
 * for: what does not fit throws. */
#include "runtime/exe_impl.h"

struct stream {
    bool reading;
    struct text *out;                      /* writing */
    const unsigned char *start, *at, *end; /* reading */
    struct exe *e;
    struct module *m; /* the program's */
    const struct canon *c;
    bool foreign; /* something was met that is not the program's */
    uint32_t depth;
};

static _Noreturn void damaged(void) { hop_throw(HOP_INVALID, "the kept program is damaged"); }

static void raw(struct stream *s, void *data, size_t n)
{
    if (!n) return;
    if (!s->reading) {
        text_bytes(s->out, data, n);
        return;
    }
    if (n > (size_t)(s->end - s->at)) damaged();
    memcpy(data, s->at, n);
    s->at += n;
}
static void u32(struct stream *s, uint32_t *v) { raw(s, v, sizeof *v); }
static void i64(struct stream *s, int64_t *v) { raw(s, v, sizeof *v); }
static void byte(struct stream *s, uint8_t *v) { raw(s, v, sizeof *v); }
static void flag(struct stream *s, bool *v)
{
    uint8_t b = *v;
    byte(s, &b);
    *v = b != 0;
}

/* The length of a list whose elements take at least `least` bytes each. */
static void count(struct stream *s, uint32_t *n, size_t least)
{
    u32(s, n);
    if (s->reading && *n > (size_t)(s->end - s->at) / least) damaged();
}
enum { LEAST_TEXT = 4, LEAST_DIM = 5, LEAST_TYPE = 2, LEAST_PLACE = 4 }; /* bytes */

static void *list(struct stream *s, void *old, uint32_t n, size_t size)
{
    return s->reading ? arena_zalloc(&s->e->arena, n * size) : old;
}
#define LIST(s, p, n) ((p) = list((s), (void *)(p), (n), sizeof *(p)))

static void text(struct stream *s, const char **t)
{
    uint32_t n = s->reading ? 0 : (uint32_t)strlen(*t);
    count(s, &n, 1);
    if (!s->reading) {
        raw(s, (char *)*t, n);
        return;
    }
    *t = arena_string(&s->e->arena, (const char *)s->at, n);
    s->at += n;
}

static void string(struct stream *s, uint32_t *id)
{
    const char *t = s->reading ? "" : module_text(s->e->m, *id);
    text(s, &t);
    if (s->reading) *id = module_string(s->e->m, t, strlen(t));
}

static void dimension(struct stream *s, dim *d)
{
    struct module *m = s->e->m;
    struct dim_node n = s->reading ? (struct dim_node){ 0 } : dim_get(m, *d);
    byte(s, &n.kind);
    if (n.kind > DIM_MAX || ++s->depth > 1000) damaged();
    dim r = 0;
    if (n.kind <= DIM_SUM) i64(s, &n.value);
    switch ((enum dim_kind)n.kind) {
    case DIM_CONST: r = s->reading ? dim_const(m, n.value) : 0; break;
    case DIM_SYMBOL:
        if (n.value < 0 || n.value >= s->e->header->n_symbols) damaged();
        r = s->reading ? dim_symbol(m, (uint32_t)n.value) : 0;
        break;
    case DIM_SUM:
    case DIM_PRODUCT:
        count(s, &n.n, LEAST_DIM);
        if (s->reading) r = dim_const(m, n.kind == DIM_SUM ? n.value : 1);
        for (uint32_t i = 0; i < n.n; i++) {
            int64_t factor = n.kind == DIM_SUM && !s->reading ? n.coefs[i] : 1;
            dim part = s->reading ? 0 : n.args[i];
            if (n.kind == DIM_SUM) i64(s, &factor);
            dimension(s, &part);
            if (!s->reading) continue;
            if (n.kind == DIM_SUM) r = dim_add(m, r, dim_mul(m, dim_const(m, factor), part));
            else r = dim_mul(m, r, part);
        }
        break;
    default: {
        static dim (*const make[])(struct module *, dim, dim) = {
            [DIM_FLOORDIV] = dim_floordiv, [DIM_MOD] = dim_mod, [DIM_MIN] = dim_min, [DIM_MAX] = dim_max
        };
        dim two[2] = { s->reading ? 0 : n.args[0], s->reading ? 0 : n.args[1] };
        for (int i = 0; i < 2; i++) dimension(s, &two[i]);
        if (s->reading) r = make[n.kind](m, two[0], two[1]);
    }
    }
    s->depth--;
    if (s->reading) *d = r;
}

static void type(struct stream *s, type_id *t)
{
    struct type full = s->reading ? (struct type){ 0 } : type_get(s->e->m, *t);
    dim dims[MAX_RANK];
    byte(s, &full.dtype);
    byte(s, &full.rank);
    if (full.dtype == DT_OBJECT) {
        string(s, &full.kind);
        const char *kind = module_text(s->e->m, full.kind);
        if (full.rank || !object_kind_fits(kind, strlen(kind))) damaged();
        *t = type_object(s->e->m, kind, strlen(kind));
        return;
    }
    if (full.dtype >= DT_COUNT || full.rank > MAX_RANK) damaged();
    for (uint32_t i = 0; i < full.rank; i++) {
        if (!s->reading) dims[i] = full.dims[i];
        dimension(s, &dims[i]);
    }
    if (s->reading) *t = type_intern(s->e->m, (enum dtype)full.dtype, full.rank, dims);
}

/* A place of the program, by its number there. */
static void place(struct stream *s, struct place *p)
{
    uint32_t number = s->reading ? 0 : canon_place(s->c, *p);
    s->foreign |= number == HOP_NONE;
    u32(s, &number);
    if (!s->reading) return;
    if (number >= s->c->places.len) damaged();
    *p = s->c->places.data[number];
}

/* The same in terms of the executable's module. */
static void own_place(struct stream *s, struct place *p)
{
    struct place theirs = *p;
    if (!s->reading && p->line) theirs.file = module_file(s->m, s->e->m->files.data[p->file]);
    place(s, &theirs);
    if (!s->reading) return;
    *p = theirs;
    if (p->line) p->file = module_file(s->e->m, s->m->files.data[theirs.file]);
}

static void header(struct stream *s)
{
    struct exe *e = s->e;
    struct fn *h = s->reading ? arena_zalloc(&e->arena, sizeof *h) : (struct fn *)e->header;
    e->header = h;
    string(s, &h->name);
    count(s, &h->n_params, LEAST_TYPE + LEAST_TEXT);
    count(s, &h->n_results, LEAST_TYPE + LEAST_TEXT + sizeof *h->results);
    count(s, &h->n_symbols, LEAST_TEXT + 1 + sizeof(uint32_t) + 2 * sizeof(int64_t));
    u32(s, &h->n_outer_symbols);
    count(s, &h->n_required, 2 * LEAST_DIM + LEAST_PLACE);
    raw(s, &h->effects, sizeof h->effects);
    if (h->n_outer_symbols > h->n_symbols) damaged();
    h->n_values = h->n_params + h->n_results;
    LIST(s, h->values, h->n_values);
    LIST(s, h->results, h->n_results);
    LIST(s, h->symbols, h->n_symbols);
    LIST(s, h->required, h->n_required);
    for (uint32_t i = 0; i < h->n_values; i++) {
        type(s, &h->values[i].type);
        string(s, &h->values[i].name);
        if (s->reading) h->values[i].node = NODE_NONE;
    }
    for (uint32_t i = 0; i < h->n_results; i++) {
        u32(s, &h->results[i]);
        if (h->results[i] != h->n_params + i) damaged();
    }
    for (uint32_t i = 0; i < h->n_symbols; i++) {
        struct symbol *y = &h->symbols[i];
        string(s, &y->name);
        byte(s, &y->origin);
        u32(s, &y->index);
        i64(s, &y->lo);
        i64(s, &y->hi);
        bool of_node = y->origin == SYMBOL_NODE;
        bool is_outer = i < h->n_outer_symbols;
        if (y->origin > SYMBOL_NODE || of_node == is_outer) damaged();
        if (y->origin == SYMBOL_PARAM && y->index >= h->n_params) damaged();
    }
    for (uint32_t i = 0; i < h->n_required; i++) {
        dimension(s, &h->required[i].a);
        dimension(s, &h->required[i].b);
        own_place(s, &h->required[i].place);
    }
}

/* ---- constants: the program's by number, those that the passes made by content ---- */

static const int64_t MOST_ELEMENTS = INT64_MAX / 64; /* their bytes can be added up */

enum constant_kind { CONSTANT_OF_PROGRAM, CONSTANT_HERE, CONSTANT_AS_BEFORE };

static void *aligned_copy(struct arena *a, const void *data, size_t n)
{
    uintptr_t at = (uintptr_t)arena_alloc(a, n + ARENA_ALIGN);
    void *copy = (void *)((at + ARENA_ALIGN - 1) & ~(uintptr_t)(ARENA_ALIGN - 1));
    if (n) memcpy(copy, data, n);
    return copy;
}

/* The last buffer before b that is the same constant; HOP_NONE: there is none. */
static uint32_t same_constant(const struct exe *e, uint32_t b)
{
    for (uint32_t i = b; i-- > 0;)
        if (e->buffers[i].kind == BUF_CONST && e->buffers[i].index == e->buffers[b].index) return i;
    return HOP_NONE;
}

static void constant(struct stream *s, uint32_t b)
{
    struct exe *e = s->e;
    uint32_t kind = CONSTANT_OF_PROGRAM, number = s->reading ? 0 : canon_constant(s->c, e->buffers[b].index);
    if (number == HOP_NONE) {
        number = same_constant(e, b);
        kind = number == HOP_NONE ? CONSTANT_HERE : CONSTANT_AS_BEFORE;
    }
    u32(s, &kind);
    if (kind != CONSTANT_HERE) u32(s, &number);
    if (e->buffers[b].static_count < 0 || e->buffers[b].static_count > MOST_ELEMENTS) damaged();
    size_t n = (size_t)e->buffers[b].static_count * dtype_info[e->buffers[b].dtype].size;
    static const char zeros[ARENA_ALIGN];
    switch (kind) {
    case CONSTANT_OF_PROGRAM: {
        if (!s->reading) return;
        if (number >= s->c->constants.len) damaged();
        const struct constant *k = &s->m->constants.data[s->c->constants.data[number]];
        if (k->bytes != n) damaged();
        e->constants[b] = aligned_copy(&e->arena, k->data, n);
        return;
    }
    case CONSTANT_AS_BEFORE:
        if (number >= b || !e->constants[number]) damaged();
        if (e->buffers[number].dtype != e->buffers[b].dtype) damaged();
        if (e->buffers[number].static_count != e->buffers[b].static_count) damaged();
        e->constants[b] = e->constants[number];
        return;
    case CONSTANT_HERE: { /* aligned, and used where it lies */
        size_t at = s->reading ? (size_t)(s->at - s->start) : s->out->len, gap = -at % ARENA_ALIGN;
        if (!s->reading) {
            raw(s, (char *)zeros, gap);
            raw(s, (void *)e->constants[b], n);
            return;
        }
        size_t left = (size_t)(s->end - s->at);
        if (gap > left || n > left - gap) damaged();
        e->constants[b] = s->at + gap;
        s->at += gap + n;
        return;
    }
    default: damaged();
    }
}

/* Which buffers the arguments, the results and what grows lie in: the buffers say it. */
static void bind_buffers(struct exe *e)
{
    e->args = arena_zalloc(&e->arena, e->n_buffers * sizeof *e->args);
    e->results = arena_zalloc(&e->arena, e->n_buffers * sizeof *e->results);
    e->dyn = arena_zalloc(&e->arena, e->n_buffers * sizeof *e->dyn);
    for (uint32_t b = 0; b < e->n_buffers; b++) {
        struct bound_buffer here = { b, e->buffers[b].index };
        if (e->buffers[b].kind == BUF_ARG) e->args[e->n_args++] = here;
        if (e->buffers[b].kind == BUF_RESULT) e->results[e->n_results++] = here;
        if (e->buffers[b].kind == BUF_DYN) e->dyn[e->n_dyn++] = here;
    }
}

/* A temporary lies within the memory that is there for all of them. */
static void check_temporary(const struct exe *e, const struct lp_buffer *f)
{
    if (!e->arena_static) {
        if (f->slot >= e->n_slots) damaged();
        return;
    }
    if (f->static_count < 0 || f->static_count > MOST_ELEMENTS || f->offset < 0 || f->offset > e->arena_size)
        damaged();
    if (f->static_count * dtype_info[f->dtype].size > e->arena_size - f->offset) damaged();
}

static enum dtype stored_dtype(const struct exe *e, type_id t)
{
    return dtype_stored((enum dtype)type_get(e->m, t).dtype);
}

static void check_buffer(const struct exe *e, uint32_t b)
{
    const struct lp_buffer *f = &e->buffers[b];
    const struct fn *h = e->header;
    switch (f->kind) {
    case BUF_ARG: /* arguments come first, in order */
        if (b >= h->n_params || f->index != b || f->dtype != stored_dtype(e, value_type(h, b))) damaged();
        return;
    case BUF_DYN:
        if (f->index == HOP_NONE) return; /* fall through */
    case BUF_RESULT:
        if (f->index >= h->n_results || f->dtype != stored_dtype(e, value_type(h, h->results[f->index])))
            damaged();
        return;
    case BUF_TEMP:
        if (!f->offloaded) check_temporary(e, f);
        else if (f->static_count > MOST_ELEMENTS) damaged();
        return;
    default: return;
    }
}

static void offloaded(struct stream *s, struct lp_buffer *f)
{
    bool is = f->offloaded != NULL;
    flag(s, &is);
    if (!is) return;
    text(s, &f->offloaded_name);
    place(s, &f->place);
    if (!s->reading) return;
    f->offloaded = arena_printf(&s->e->arena, "%s%s", place_text(s->m, f->place), f->offloaded_name);
    s->e->n_offloaded += f->kind == BUF_TEMP;
    if (f->kind != BUF_TEMP && f->kind != BUF_DYN) damaged();
}

static void buffers(struct stream *s)
{
    enum { LEAST_BUFFER = 1 + 1 + 4 + LEAST_DIM + 8 + 8 + 4 + 1 + 1 + 1 };
    struct exe *e = s->e;
    count(s, &e->n_buffers, LEAST_BUFFER);
    LIST(s, e->buffers, e->n_buffers);
    LIST(s, e->constants, e->n_buffers);
    flag(s, &e->arena_static);
    i64(s, &e->arena_size);
    i64(s, &e->private_size);
    count(s, &e->n_slots, LEAST_DIM);
    LIST(s, e->slots, e->n_slots);
    if (e->private_size < 0 || e->private_size > e->arena_size) damaged();
    if (e->arena_size < 0 || e->arena_size > INT64_MAX / 4 || e->n_buffers < e->header->n_params) damaged();
    for (uint32_t i = 0; i < e->n_slots; i++) dimension(s, &e->slots[i]);
    for (uint32_t b = 0; b < e->n_buffers; b++) {
        struct lp_buffer *f = &e->buffers[b];
        byte(s, &f->kind);
        byte(s, &f->dtype);
        u32(s, &f->index);
        dimension(s, &f->count);
        i64(s, &f->static_count);
        i64(s, &f->offset);
        u32(s, &f->slot);
        flag(s, &f->updated);
        flag(s, &f->private);
        offloaded(s, f);
        if (f->kind > BUF_PARAM || f->dtype >= DT_COUNT || (b < e->header->n_params) != (f->kind == BUF_ARG))
            damaged();
        check_buffer(e, b);
        if (f->kind == BUF_CONST) constant(s, b);
    }
    if (!s->reading) return;
    bind_buffers(e);
    exe_note_private(e);
}

static void sites(struct stream *s)
{
    struct exe *e = s->e;
    count(s, &e->n_sites, 3 * LEAST_TEXT + LEAST_PLACE + sizeof(effect_set) + 3 * sizeof(uint32_t));
    LIST(s, e->sites, e->n_sites);
    for (uint32_t i = 0; i < e->n_sites; i++) {
        text(s, &e->sites[i].text);
        text(s, &e->sites[i].within);
        place(s, &e->sites[i].where);
        text(s, &e->sites[i].declared);
        raw(s, &e->sites[i].effects, sizeof e->sites[i].effects);
        u32(s, &e->sites[i].version);
        u32(s, &e->sites[i].varies);
        count(s, &e->sites[i].n_counts, sizeof(uint32_t));
        LIST(s, e->sites[i].counts, e->sites[i].n_counts);
        for (uint32_t k = 0; k < e->sites[i].n_counts; k++) u32(s, (uint32_t *)&e->sites[i].counts[k]);
        if (!s->reading) continue;
        const char *where = place_text(s->m, e->sites[i].where);
        e->sites[i].place = arena_string(&e->arena, where, strlen(where));
        const char *stack = place_stack(s->m, e->sites[i].where);
        e->sites[i].stack = arena_printf(&e->arena, "%s%s", stack, e->sites[i].within);
    }
}

static void updates(struct stream *s)
{
    struct exe *e = s->e;
    count(s, &e->n_updates, 2 * sizeof(uint32_t) + 3);
    LIST(s, e->updates, e->n_updates);
    for (uint32_t i = 0; i < e->n_updates; i++) {
        struct lp_update *u = &e->updates[i];
        bool reason = u->why;
        u32(s, &u->result);
        u32(s, &u->param);
        flag(s, &u->in_place);
        flag(s, &u->elsewhere);
        flag(s, &reason);
        if (reason) text(s, &u->why);
        if (u->result >= e->header->n_results || u->param >= e->header->n_params) damaged();
        if (u->elsewhere) continue;
        type_id result_type = value_type(e->header, e->header->results[u->result]);
        if (result_type != value_type(e->header, u->param)) damaged();
        if (!e->buffers[u->param].updated) damaged();
    }
}

/* Each result is made in one place. */
static void check_results(const struct exe *e)
{
    uint8_t *made = arena_zalloc((struct arena *)&e->arena, e->header->n_results);
    for (uint32_t i = 0; i < e->n_results; i++)
        if (made[e->results[i].index]++) damaged();
    for (uint32_t i = 0; i < e->n_dyn; i++)
        if (e->dyn[i].index != HOP_NONE && made[e->dyn[i].index]++) damaged();
    for (uint32_t i = 0; i < e->n_updates; i++)
        if (!e->updates[i].elsewhere && made[e->updates[i].result]++) damaged();
    for (uint32_t k = 0; k < e->header->n_results; k++)
        if (!made[k]) damaged();
}

/* It is the header of this function: callers give arguments and take results by the function's types. */
static void check_header(const struct exe *e, const struct module *m, const struct fn *f)
{
    const struct fn *h = e->header;
    if (h->n_params != f->n_params || h->n_results != f->n_results) damaged();
    if (h->n_outer_symbols != f->n_outer_symbols) damaged();
    for (uint32_t i = 0; i < h->n_values; i++) {
        val v = i < f->n_params ? i : f->results[i - f->n_params];
        struct type here = type_get(e->m, value_type(h, i)), there = type_get(m, value_type(f, v));
        if (here.dtype != there.dtype || here.rank != there.rank) damaged();
    }
    for (uint32_t i = 0; i < h->n_outer_symbols; i++)
        if ((h->symbols[i].origin == SYMBOL_DIM) != (f->symbols[i].origin == SYMBOL_DIM)) damaged();
}

static void everything(struct stream *s)
{
    header(s);
    buffers(s);
    sites(s);
    updates(s);
}

bool image_write(const struct exe *e, struct module *m, const struct canon *c, struct text *out)
{
    struct stream s = { .out = out, .e = (struct exe *)e, .m = m, .c = c };
    everything(&s);
    return !s.foreign;
}

void image_read(struct exe *e, struct module *m, const struct fn *f, const struct canon *c, const void *bytes,
                size_t n)
{
    struct stream s = { .reading = true,
                        .start = bytes,
                        .at = bytes,
                        .end = (const unsigned char *)bytes + n,
                        .e = e,
                        .m = m,
                        .c = c };
    everything(&s);
    if (s.at != s.end) damaged();
    check_header(e, m, f);
    check_results(e);
}
