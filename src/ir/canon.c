/* Writes the canonical bytes of a function: a module and a function come in, 32-bit words and the tables of
 * places and constants go out. */
#include "ir/canon.h"

#include "ir/mesh.h"
#include "ir/operator.h"

/* Constants up to this size stand in the bytes; larger ones are represented by their size and a 128-bit hash.
 */
enum { INLINE_CONSTANT = 4096 };

struct walk {
    struct canon *c;
    const struct module *m;
    uint32_t *fns, *types, *dims; /* index in the module -> number + 1, 0: not met */
    uint32_t n_fns, n_types, n_dims;
    struct place last;
    uint32_t last_number;
};

static void word(struct walk *w, uint32_t value) { vec_push(&w->c->arena, &w->c->words, value); }
static void wide(struct walk *w, uint64_t value)
{
    word(w, (uint32_t)value);
    word(w, (uint32_t)(value >> 32));
}

void canon_bytes(struct canon *c, const void *bytes, size_t n)
{
    uint32_t words = (uint32_t)((n + 3) / 4);
    vec_push(&c->arena, &c->words, (uint32_t)n);
    vec_push(&c->arena, &c->words, (uint32_t)((uint64_t)n >> 32));
    if (!n) return;
    vec_reserve(&c->arena, &c->words, c->words.len + words);
    c->words.data[c->words.len + words - 1] = 0; /* what follows the last byte */
    memcpy(c->words.data + c->words.len, bytes, n);
    c->words.len += words;
}

static void string(struct walk *w, uint32_t id)
{
    const char *text = module_text(w->m, id);
    canon_bytes(w->c, text, strlen(text));
}

static uint64_t place_hash(struct place p) { return hash_mix(hash_mix(p.line, p.col), p.file); }
static bool same_place(struct place a, struct place b)
{
    return a.line == b.line && a.col == b.col && a.file == b.file;
}

uint32_t canon_place(const struct canon *c, struct place p)
{
    if (!p.line) p = (struct place){ 0 };
    uint64_t h = place_hash(p);
    for (uint32_t it = map_first(&c->place_numbers, h); it != HOP_NONE;
         it = map_next(&c->place_numbers, h, it))
        if (same_place(c->places.data[map_value(&c->place_numbers, it)], p))
            return map_value(&c->place_numbers, it);
    return HOP_NONE;
}

static void place(struct walk *w, struct place p)
{
    if (!p.line) p = (struct place){ 0 };
    if (!same_place(p, w->last) || !w->c->places.len) {
        w->last = p;
        w->last_number = canon_place(w->c, p);
        if (w->last_number == HOP_NONE) {
            w->last_number = w->c->places.len;
            vec_push(&w->c->arena, &w->c->places, p);
            map_put(&w->c->place_numbers, place_hash(p), w->last_number);
        }
    }
    word(w, w->last_number);
}

static void dimension(struct walk *w, dim d)
{
    word(w, 0); /* the place of the number: arguments may come first in the table */
    uint32_t at = w->c->words.len - 1;
    if (!(d & DIM_TABLE)) {
        w->c->words.data[at] = d;
        return;
    }
    uint32_t *number = &w->dims[d & ~DIM_TABLE];
    if (*number) {
        w->c->words.data[at] = DIM_TABLE | (*number - 1);
        return;
    }
    *number = ++w->n_dims;
    w->c->words.data[at] = DIM_TABLE | (*number - 1);
    struct dim_node n = dim_get(w->m, d);
    word(w, n.kind);
    word(w, n.n);
    wide(w, (uint64_t)n.value);
    for (uint32_t i = 0; i < n.n; i++) {
        if (n.kind == DIM_SUM) wide(w, (uint64_t)n.coefs[i]);
        dimension(w, n.args[i]);
    }
}

static void type(struct walk *w, type_id t)
{
    uint32_t *number = &w->types[t];
    if (*number) {
        word(w, *number - 1);
        return;
    }
    *number = ++w->n_types;
    word(w, *number - 1);
    struct type full = type_get(w->m, t);
    word(w, full.dtype | (uint32_t)full.rank << 8 | (uint32_t)full.varying << 16);
    for (uint32_t k = 0; k < w->m->axes.len; k++)
        if (full.varying >> k & 1) string(w, w->m->axes.data[k]);
    if (full.kind) string(w, full.kind);
    for (uint32_t i = 0; i < full.rank; i++) dimension(w, full.dims[i]);
}

static void constant(struct walk *w, uint32_t index)
{
    struct canon *c = w->c;
    if (c->constant_numbers[index] != HOP_NONE) {
        word(w, c->constant_numbers[index]);
        return;
    }
    const struct constant *k = &w->m->constants.data[index];
    c->constant_numbers[index] = c->constants.len;
    word(w, c->constant_numbers[index]);
    vec_push(&c->arena, &c->constants, index);
    type(w, k->type);
    wide(w, k->bytes);
    if (k->bytes <= INLINE_CONSTANT) {
        canon_bytes(c, k->data, k->bytes);
        return;
    }
    uint64_t hash[2];
    hash_bytes128(k->data, k->bytes, hash);
    wide(w, hash[0]);
    wide(w, hash[1]);
}

static void function(struct walk *w, uint32_t fn);

static void attribute(struct walk *w, const struct attr *a)
{
    word(w, a->kind);
    switch ((enum attr_kind)a->kind) {
    case ATTR_ABSENT: return;
    case ATTR_INTS:
        word(w, a->n);
        for (uint32_t i = 0; i < a->n; i++) word(w, a->list[i]);
        return;
    case ATTR_DIMS:
        word(w, a->n);
        for (uint32_t i = 0; i < a->n; i++) dimension(w, a->list[i]);
        return;
    case ATTR_DIM: dimension(w, (dim)a->i); return;
    case ATTR_STRING: string(w, (uint32_t)a->i); return;
    case ATTR_CONST: constant(w, (uint32_t)a->i); return;
    case ATTR_NAMED:
        word(w, a->n);
        for (uint32_t i = 0; i < a->n; i++) string(w, a->list[i]);
        return;
    case ATTR_FN: function(w, (uint32_t)a->i); return;
    default: wide(w, (uint64_t)a->i); return; /* numbers, and reals by their bits */
    }
}

/* Of an operator from outside: its version, its effects and its signature. */
static void declaration(struct walk *w, uint32_t name)
{
    const struct operator_decl *d = module_operator(w->m, name);
    if (!d) return;
    word(w, d->version);
    wide(w, d->effects);
    canon_bytes(w->c, d->signature, strlen(d->signature));
}

static void node(struct walk *w, const struct fn *f, const struct node *n)
{
    const struct op_row *row = node_row(n);
    word(w, n->op | (uint32_t)n->n_regions << 16);
    word(w, n->n_operands);
    for (uint32_t i = 0; i < n->n_operands; i++) word(w, node_operands(f, n)[i]);
    word(w, n->n_results);
    for (uint32_t i = 0; i < n->n_results; i++) type(w, value_type(f, n->results + i));
    for (uint32_t i = 0; i < row->sig.n_attrs; i++) attribute(w, node_attr(f, n, i));
    if (row->operator_attr) declaration(w, (uint32_t)node_attr(f, n, row->operator_attr - 1u)->i);
    for (uint32_t g = 0; row->flags & OPF_HIGHER && g < row->sig.n_groups; g++)
        word(w, node_group_size(f, n, g));
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct region *region = node_region(f, n, r);
        word(w, region->operands);
        word(w, region->n_operands);
        word(w, region->n_dims);
        for (uint32_t i = 0; i < region->n_dims; i++) dimension(w, region->dims[i]);
        function(w, region->fn);
    }
    place(w, n->place);
}

static void function(struct walk *w, uint32_t fn)
{
    const struct fn *f = module_fn(w->m, fn);
    if (w->fns[fn]) {
        word(w, w->fns[fn] - 1);
        return;
    }
    bool entry = !w->n_fns;
    w->fns[fn] = ++w->n_fns;
    word(w, w->fns[fn] - 1);
    word(w, f->n_params);
    word(w, f->n_symbols);
    word(w, f->n_outer_symbols);
    for (uint32_t i = 0; i < f->n_symbols; i++) { /* names stand in messages */
        const struct symbol *s = &f->symbols[i];
        string(w, s->name);
        word(w, s->origin);
        word(w, s->index);
        wide(w, (uint64_t)s->lo);
        wide(w, (uint64_t)s->hi);
    }
    for (uint32_t i = 0; i < f->n_params; i++) {
        type(w, value_type(f, i));
        if (entry) string(w, f->values[i].name);
    }
    word(w, f->n_required);
    for (uint32_t i = 0; i < f->n_required; i++) {
        dimension(w, f->required[i].a);
        dimension(w, f->required[i].b);
        place(w, f->required[i].place);
    }
    word(w, f->n_nodes);
    for (uint32_t i = 0; i < f->n_nodes; i++) node(w, f, &f->nodes[i]);
    word(w, f->n_results);
    for (uint32_t i = 0; i < f->n_results; i++) word(w, f->results[i]);
}

uint32_t canon_constant(const struct canon *c, uint32_t constant)
{
    return constant < c->n_constants ? c->constant_numbers[constant] : HOP_NONE;
}

/* The meshes of the axes that a function names: exchanges are compiled for them. */
static void meshes(struct walk *w, axis_set named)
{
    for (uint32_t k = 0; k < w->m->axes.len; k++) {
        uint32_t number, mesh = named >> k & 1 ? mesh_of_axis(w->m, w->m->axes.data[k], &number) : HOP_NONE;
        if (mesh == HOP_NONE) continue;
        const struct mesh *of = &w->m->meshes.data[mesh];
        word(w, of->n_axes);
        for (uint32_t i = 0; i < of->n_axes; i++) {
            string(w, of->axes[i]);
            wide(w, (uint64_t)of->sizes[i]);
        }
    }
}

void canon_function(struct canon *c, const struct module *m, uint32_t fn)
{
    struct arena scratch = { 0 };
    hop_cleanup_push(arena_free, &scratch);
    struct walk w = { .c = c,
                      .m = m,
                      .fns = ARENA_ZNEW(&scratch, uint32_t, m->fns.len),
                      .types = ARENA_ZNEW(&scratch, uint32_t, m->types.len),
                      .dims = ARENA_ZNEW(&scratch, uint32_t, m->dims.len) };
    c->place_numbers.arena = &c->arena;
    c->n_constants = m->constants.len;
    c->constant_numbers = ARENA_NEW(&c->arena, uint32_t, c->n_constants);
    for (uint32_t i = 0; i < c->n_constants; i++) c->constant_numbers[i] = HOP_NONE;
    function(&w, fn);
    meshes(&w, module_fn(m, fn)->axes);
    hop_cleanup_pop(&scratch);
    arena_free(&scratch);
}
