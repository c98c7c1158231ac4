/* Modules and what they intern: strings, types, constants, file names, memoised transforms. */
#include "ir/axes.h"
#include "ir/mesh.h"

#include <stdatomic.h>

const struct dtype_info dtype_info[DT_OBJECT + 1] = {
    [DT_BOOL] = { "bool", 1, KIND_BOOL },  [DT_I8] = { "i8", 1, KIND_INT },
    [DT_I16] = { "i16", 2, KIND_INT },     [DT_I32] = { "i32", 4, KIND_INT },
    [DT_I64] = { "i64", 8, KIND_INT },     [DT_U8] = { "u8", 1, KIND_UINT },
    [DT_U16] = { "u16", 2, KIND_UINT },    [DT_U32] = { "u32", 4, KIND_UINT },
    [DT_U64] = { "u64", 8, KIND_UINT },    [DT_F16] = { "f16", 2, KIND_FLOAT },
    [DT_BF16] = { "bf16", 2, KIND_FLOAT }, [DT_F32] = { "f32", 4, KIND_FLOAT },
    [DT_F64] = { "f64", 8, KIND_FLOAT },   [DT_OBJECT] = { "object", 8, KIND_OBJECT },
};

bool dtype_from_name(const char *name, size_t length, enum dtype *out)
{
    for (int i = 0; i < DT_COUNT; i++)
        if (strlen(dtype_info[i].name) == length && !memcmp(dtype_info[i].name, name, length)) {
            *out = (enum dtype)i;
            return true;
        }
    return false;
}

struct module *module_new(void)
{
    static atomic_uint_least64_t serials;
    struct module *m = hop_calloc(1, sizeof *m);
    hop_cleanup_push(module_free, m);
    m->serial = atomic_fetch_add(&serials, 1);
    m->string_map.arena = &m->arena;
    m->dim_map.arena = &m->arena;
    m->type_map.arena = &m->arena;
    m->fn_map.arena = &m->arena;
    m->constant_map.arena = &m->arena;
    m->operator_map.arena = &m->arena;
    m->memo.arena = &m->arena;
    vec_push(&m->arena, &m->strings, "");
    module_file(m, "");
    hop_cleanup_pop(m);
    return m;
}

void module_free(void *module)
{
    struct module *m = module;
    if (!m) return;
    for (uint32_t i = 0; i < m->kept.len; i++) kept_free(m->kept.data[i]);
    arena_free(&m->arena);
    arena_free(&m->scratch);
    hop_free(m);
}

struct kept *kept_ref(struct kept *k)
{
    __atomic_fetch_add(&k->refs, 1, __ATOMIC_RELAXED);
    return k;
}

void kept_free(void *kept)
{
    struct kept *k = kept;
    if (__atomic_sub_fetch(&k->refs, 1, __ATOMIC_ACQ_REL)) return;
    k->release(k->user);
    hop_free(k);
}

void module_keep(struct module *m, struct kept *k)
{
    for (uint32_t i = 0; i < m->kept.len; i++)
        if (m->kept.data[i] == k) return;
    vec_push(&m->arena, &m->kept, k);
    kept_ref(k);
}

uint32_t module_string(struct module *m, const char *text, size_t length)
{
    if (!length) return 0;
    uint64_t h = hash_bytes(text, length, 0);
    for (uint32_t it = map_first(&m->string_map, h); it != HOP_NONE; it = map_next(&m->string_map, h, it)) {
        const char *s = m->strings.data[map_value(&m->string_map, it)];
        if (!strncmp(s, text, length) && !s[length]) return map_value(&m->string_map, it);
    }
    vec_push(&m->arena, &m->strings, arena_string(&m->arena, text, length));
    map_put(&m->string_map, h, m->strings.len - 1);
    return m->strings.len - 1;
}

uint16_t module_file(struct module *m, const char *name)
{
    for (uint32_t i = m->files.len; i-- > 0;)
        if (m->files.data[i] == name) return (uint16_t)i;
    bool frame = frame_known(name); /* it stays, and is known by its address */
    for (uint32_t i = 0; i < m->files.len && !frame; i++)
        if (!strcmp(m->files.data[i], name) && !frame_known(m->files.data[i])) return (uint16_t)i;
    if (m->files.len > UINT16_MAX) return 0;
    vec_push(&m->arena, &m->files, frame ? name : arena_string(&m->arena, name, strlen(name)));
    return (uint16_t)(m->files.len - 1);
}

uint32_t module_constant(struct module *m, type_id type, const void *data, size_t bytes, uint32_t name)
{
    if (type_is_object(m, type))
        hop_throw(HOP_INVALID, "an object cannot be a constant: programs take it as an argument");
    uint64_t h = hash_mix(hash_bytes(data, bytes, 0), type);
    for (uint32_t it = map_first(&m->constant_map, h); it != HOP_NONE;
         it = map_next(&m->constant_map, h, it)) {
        struct constant *c = &m->constants.data[map_value(&m->constant_map, it)];
        if (c->type != type || c->bytes != bytes) continue;
        if (bytes && memcmp(c->data, data, bytes)) continue;
        if (name && c->name && c->name != name) continue;
        if (name) c->name = name;
        return map_value(&m->constant_map, it);
    }
    char *copy = arena_alloc(&m->arena, bytes + 64);
    copy = (char *)(((uintptr_t)copy + 63) & ~(uintptr_t)63);
    if (bytes) memcpy(copy, data, bytes);
    vec_push(&m->arena, &m->constants, (struct constant){ type, name, copy, bytes, h });
    map_put(&m->constant_map, h, m->constants.len - 1);
    return m->constants.len - 1;
}

uint32_t module_find(const struct module *m, const char *name)
{
    for (uint32_t i = m->fns.len; i-- > 0;) /* the newest of that name */
        if (m->fns.data[i]->name && !strcmp(module_text(m, m->fns.data[i]->name), name)) return i;
    return HOP_NONE;
}

void module_rename(struct module *m, uint32_t fn, const char *name)
{
    m->fns.data[fn]->name = module_string(m, name, strlen(name));
}

uint32_t module_label(struct module *m, uint32_t label, const char *suffix)
{
    enum { LONGEST = 200 }; /* transforms of transforms of … */
    const char *text = module_text(m, label);
    size_t n = strlen(text), more = strlen(suffix);
    if (!label || n + more > LONGEST) return label;
    char made[LONGEST + 2];
    int length = snprintf(made, sizeof made, "%s_%s", text, suffix);
    return module_string(m, made, (size_t)length);
}

const char *place_text_in(struct arena *a, const struct module *m, struct place p)
{
    if (!p.line) return "";
    const char *file = m->files.data[p.file];
    if (!p.col) return arena_printf(a, "%s:%u: ", file, p.line);
    return arena_printf(a, "%s:%u:%u: ", file, p.line, p.col);
}

const char *place_text(struct module *m, struct place p) { return place_text_in(&m->scratch, m, p); }

const char *place_stack(struct module *m, struct place p)
{
    struct text out = { .arena = &m->scratch };
    if (p.line) frame_lines(&out, m->files.data[p.file], p.line);
    return out.data ? out.data : "";
}

static uint64_t memo_hash(const uint64_t key[4]) { return hash_bytes(key, 4 * sizeof *key, 7); }

bool memo_get(const struct module *m, const uint64_t key[4], union memo_value *out)
{
    uint64_t h = memo_hash(key);
    for (uint32_t it = map_first(&m->memo, h); it != HOP_NONE; it = map_next(&m->memo, h, it)) {
        const struct memo_entry *e = &m->memo_entries.data[map_value(&m->memo, it)];
        if (memcmp(e->key, key, sizeof e->key)) continue;
        *out = e->value;
        return true;
    }
    return false;
}

void memo_put(struct module *m, const uint64_t key[4], union memo_value value)
{
    struct memo_entry e = { { key[0], key[1], key[2], key[3] }, value };
    vec_push(&m->arena, &m->memo_entries, e);
    map_put(&m->memo, memo_hash(key), m->memo_entries.len - 1);
}

/* ---- types ---- */

axis_set module_axis(struct module *m, uint32_t name)
{
    uint32_t k = 0;
    while (k < m->axes.len && m->axes.data[k] != name) k++;
    if (k == MAX_AXES)
        hop_throw(HOP_INVALID, "the axis '%s': a program has at most %d axes with names",
                  module_text(m, name), MAX_AXES);
    if (k == m->axes.len) vec_push(&m->arena, &m->axes, name);
    return (axis_set)(1u << k);
}

static type_id intern(struct module *m, enum dtype dtype, uint32_t rank, const dim *dims, axis_set varying,
                      uint16_t layout)
{
    if (dtype >= DT_COUNT) hop_throw(HOP_INVALID, "there are no arrays of objects");
    if (rank > MAX_RANK)
        hop_throw(HOP_INVALID, "a type has %u dims, at most %d are possible", rank, MAX_RANK);
    uint64_t h = hash_mix(dtype * 64 + rank, 0x7479);
    for (uint32_t i = 0; i < rank; i++) h = hash_mix(h, dims[i]);
    if (varying) h = hash_mix(h, varying);
    if (layout) h = hash_mix(h, layout + 0x10000u);
    for (uint32_t it = map_first(&m->type_map, h); it != HOP_NONE; it = map_next(&m->type_map, h, it)) {
        const struct type *t = &m->types.data[map_value(&m->type_map, it)];
        bool alike = t->dtype == dtype && t->rank == rank && t->varying == varying;
        alike &= t->layout == layout;
        if (alike && (!rank || !memcmp(t->dims, dims, rank * sizeof *dims)))
            return map_value(&m->type_map, it);
    }
    __int128 bytes = dtype_info[dtype].size;
    for (uint32_t i = 0; i < rank; i++)
        if (dim_is_const(m, dims[i])) {
            int64_t d = dim_const_value(m, dims[i]);
            if (d < 0) hop_throw(HOP_INVALID, "a dim is negative: %lld", (long long)d);
            bytes *= d ? d : 1;
            if (bytes > INT64_MAX / 4)
                hop_throw(HOP_INVALID,
                          "a size overflows: the product of the dims of one type passes 2^61 bytes");
        }
    const dim *kept = arena_copy(&m->arena, dims, rank * sizeof *dims);
    vec_push(&m->arena, &m->types,
             (struct type){ .dtype = (uint8_t)dtype,
                            .rank = (uint8_t)rank,
                            .varying = varying,
                            .dims = kept,
                            .layout = layout });
    map_put(&m->type_map, h, m->types.len - 1);
    return m->types.len - 1;
}

type_id type_intern(struct module *m, enum dtype dtype, uint32_t rank, const dim *dims)
{
    return intern(m, dtype, rank, dims, 0, 0);
}

type_id type_varying(struct module *m, type_id t, axis_set varying)
{
    struct type type = type_get(m, t);
    if (type.kind || type.varying == varying) return t;
    return intern(m, (enum dtype)type.dtype, type.rank, type.dims, varying, type.layout);
}

type_id type_laid_out(struct module *m, type_id t, uint16_t layout)
{
    struct type type = type_get(m, t);
    if (type.kind || type.layout == layout) return t;
    return intern(m, (enum dtype)type.dtype, type.rank, type.dims, type.varying, layout);
}

bool object_kind_fits(const char *kind, size_t length)
{
    bool fits = length >= 1 && length <= 100;
    for (size_t i = 0; i < length && fits; i++)
        fits = (unsigned char)kind[i] >= ' ' && kind[i] != '"' && kind[i] != '\\' && kind[i] != 127;
    return fits;
}

type_id type_object(struct module *m, const char *text, size_t length)
{
    if (!object_kind_fits(text, length))
        hop_throw(HOP_INVALID,
                  "the kind of an object: expected 1 to 100 characters without quotes, "
                  "backslashes and control characters, found \"%.*s\"",
                  (int)HOP_MIN(length, 100), text);
    uint32_t kind = module_string(m, text, length);
    uint64_t h = hash_mix(hash_mix(DT_OBJECT, 0x7479), kind);
    for (uint32_t it = map_first(&m->type_map, h); it != HOP_NONE; it = map_next(&m->type_map, h, it)) {
        const struct type *t = &m->types.data[map_value(&m->type_map, it)];
        if (t->dtype == DT_OBJECT && t->kind == kind) return map_value(&m->type_map, it);
    }
    const dim *none = arena_alloc(&m->arena, sizeof *none); /* nobody has to ask whether there are dims */
    vec_push(&m->arena, &m->types, (struct type){ .dtype = DT_OBJECT, .kind = kind, .dims = none });
    map_put(&m->type_map, h, m->types.len - 1);
    m->has_objects = true;
    return m->types.len - 1;
}

type_id type_with_dims(struct module *m, struct type t, const dim *dims)
{
    const char *kind = module_text(m, t.kind);
    if (t.kind) return type_object(m, kind, strlen(kind));
    return intern(m, (enum dtype)t.dtype, t.rank, dims, t.varying, t.layout);
}

type_id type_import(struct module *to, const struct module *from, struct type t, const dim *dims)
{
    axis_set varying = 0;
    for (uint32_t k = 0; k < from->axes.len; k++) {
        const char *name = module_text(from, from->axes.data[k]);
        if (t.varying >> k & 1) varying |= module_axis(to, module_string(to, name, strlen(name)));
    }
    uint16_t layout = t.layout;
    if (layout) {
        const struct layout *l = layout_get(from, layout);
        layout = layout_intern(to, mesh_import(to, from, l->mesh), l->at);
    }
    if (!t.kind) return intern(to, (enum dtype)t.dtype, t.rank, dims, varying, layout);
    const char *kind = module_text(from, t.kind);
    return type_object(to, kind, strlen(kind));
}

struct type type_get(const struct module *m, type_id t) { return m->types.data[t]; }

type_id type_substitute(struct module *m, type_id t, const dim *symbols)
{
    struct type type = type_get(m, t);
    dim dims[MAX_RANK];
    bool changed = false;
    for (uint32_t i = 0; i < type.rank; i++) {
        dims[i] = type.dims[i] & DIM_TABLE ? dim_substitute(m, type.dims[i], symbols) : type.dims[i];
        changed |= dims[i] != type.dims[i];
    }
    return changed ? intern(m, type.dtype, type.rank, dims, type.varying, type.layout) : t;
}

/* What would make an array of objects has been refused where it was asked for, or ends here. */
static void refuse_object(const struct module *m, struct type t)
{
    if (t.kind)
        hop_throw(HOP_INVALID, "there are no arrays of objects: object \"%s\" cannot be stacked or batched",
                  module_text(m, t.kind));
}

type_id type_prepend(struct module *m, type_id t, dim d)
{
    struct type type = type_get(m, t);
    refuse_object(m, type);
    dim dims[MAX_RANK + 1] = { d };
    if (type.rank) memcpy(dims + 1, type.dims, type.rank * sizeof *dims);
    return intern(m, type.dtype, type.rank + 1u, dims, type.varying, layout_insert_dim(m, type.layout, 0));
}

bool type_can_be(const struct module *m, type_id a, type_id b)
{
    struct type x = type_get(m, a), y = type_get(m, b);
    if (x.dtype != y.dtype || x.rank != y.rank || x.kind != y.kind || x.layout != y.layout) return false;
    for (uint32_t i = 0; i < x.rank; i++)
        if (dim_is_const(m, x.dims[i]) && dim_is_const(m, y.dims[i]) && x.dims[i] != y.dims[i]) return false;
    return true;
}

type_id type_drop_leading(struct module *m, type_id t)
{
    struct type type = type_get(m, t);
    uint16_t layout;
    layout_drop_dim(m, type.layout, 0, &layout);
    return intern(m, type.dtype, type.rank - 1u, type.dims + 1, type.varying, layout);
}

type_id type_drop_dim(struct module *m, type_id t, uint32_t at)
{
    struct type type = type_get(m, t);
    dim dims[MAX_RANK];
    for (uint32_t i = 0, n = 0; i < type.rank; i++)
        if (i != at) dims[n++] = type.dims[i];
    uint16_t layout;
    layout_drop_dim(m, type.layout, at, &layout);
    return intern(m, type.dtype, type.rank - 1u, dims, type.varying, layout);
}

type_id type_insert_dim(struct module *m, type_id t, uint32_t at, dim d)
{
    struct type type = type_get(m, t);
    dim dims[MAX_RANK + 1];
    refuse_object(m, type);
    for (uint32_t i = 0; i < at; i++) dims[i] = type.dims[i];
    dims[at] = d;
    for (uint32_t i = at; i < type.rank; i++) dims[i + 1] = type.dims[i];
    return intern(m, type.dtype, type.rank + 1u, dims, type.varying, layout_insert_dim(m, type.layout, at));
}

type_id type_with_dtype(struct module *m, type_id t, enum dtype dtype)
{
    struct type type = type_get(m, t);
    return intern(m, dtype, type.rank, type.dims, type.varying, type.layout);
}

dim type_elements(struct module *m, type_id t)
{
    struct type type = type_get(m, t);
    dim n = 1;
    for (uint32_t i = 0; i < type.rank; i++) n = dim_mul(m, n, type.dims[i]);
    return n;
}

void type_print(const struct module *m, const struct symbol *symbols, type_id t, struct text *out)
{
    struct type type = type_get(m, t);
    if (type.kind) {
        text_add(out, "object \"%s\"", module_text(m, type.kind));
        return;
    }
    text_add(out, "%s[", dtype_info[type.dtype].name);
    for (uint32_t i = 0; i < type.rank; i++) {
        if (i) text_str(out, ", ");
        dim_print(m, symbols, type.dims[i], out);
    }
    text_str(out, "]");
    layout_print(m, type.layout, out);
    axes_print(m, type.varying, out);
}

const char *type_text(const struct module *m, const struct symbol *symbols, type_id t)
{
    struct text out = { .arena = (struct arena *)&m->scratch };
    type_print(m, symbols, t, &out);
    return out.data;
}
