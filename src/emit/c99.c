/* The C99 back end, the part around the statements: names, signature, header, memory. A planned loop program
 * comes in; the text of a C function that needs nothing but libm is added to a translation unit. Temporaries
 * lie in one array per element type, so that the text breaks no aliasing rule. */
#include "emit/c99_vector.h"
#include "ir/number.h"
#include "ir/tensor.h"

#include <ctype.h>

enum {
    STACK_ARENA = 4096,   /* bytes */
    WORKSPACE_ALIGN = 64, /* bytes */
    LINE_ELEMENTS = 8,    /* elements */
    SMALL_LOCAL = 16      /* elements */
};

/* ---- names ---- */

enum { LONGEST_NAME = 200 }; /* bytes of the program's name that an identifier shows */

static bool has(const char *const *names, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

/* What the text gives a function besides its own name. */
static bool takes_derived(const struct c99_unit *unit, const char *name)
{
    static const char *const endings[] = { "_workspace", "_call", "_bytes", "_init" };
    size_t n = strlen(name);
    for (uint32_t i = 0; i < unit->names.len; i++)
        for (size_t k = 0; k < HOP_COUNT(endings); k++) {
            const char *other = unit->names.data[i];
            size_t length = strlen(other);
            if (!strncmp(name, other, length) && !strcmp(name + length, endings[k])) return true;
            if (!strncmp(name, other, n) && !strcmp(other + n, endings[k])) return true;
        }
    return false;
}

static bool is_of_dialect(const struct c99_dialect *d, const char *name)
{
    for (const struct c99_word *w = d->words; w && w->word; w++)
        if (!strcmp(w->as, name)) return true;
    return false;
}

/* v_3, i_0, … are the text's own. */
static bool is_numbered(const char *name)
{
    static const char *const beginnings[] = { "base", "c",  "i",  "l", "n", "rest", "room",
                                              "s",    "sl", "st", "t", "v", "w" };
    const char *under = strrchr(name, '_');
    if (!under || !under[1]) return false;
    const char *digits = under + 1;
    if (strspn(digits, "0123456789") != strlen(digits)) return false;
    size_t length = (size_t)(under - name);
    for (size_t i = 0; i < HOP_COUNT(beginnings); i++)
        if (strlen(beginnings[i]) == length && !strncmp(name, beginnings[i], length)) return true;
    return false;
}

static bool is_taken(const struct c99 *e, const char *name)
{
    if (is_of_dialect(e->unit->dialect, name) || c99_is_word(name)) return true;
    if (has(e->names.data, e->names.len, name)) return true;
    if (has(e->unit->names.data, e->unit->names.len, name)) return true;
    if (is_numbered(name)) return true;
    return strlen(name) > 2 && !strcmp(name + strlen(name) - 2, "_t");
}

/* Beginnings that belong to the text itself, to the standard headers, or to the compiler. */
static bool begins_reserved(const char *name)
{
    static const char *const beginnings[] = { "hop_",  "HOP_",     "INT",         "UINT",
                                              "SIZE_", "FP_",      "M_",          "HUGE_VAL",
                                              "SNAN",  "PTRDIFF_", "SIG_ATOMIC_", "WCHAR_",
                                              "WINT_", "MATH_ERR", "arena_",      "_" };
    for (size_t i = 0; i < HOP_COUNT(beginnings); i++)
        if (!strncmp(name, beginnings[i], strlen(beginnings[i]))) return true;
    return false;
}

/* In any locale. */
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_of_identifier(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static const char *identifier(struct arena *a, const char *wanted, const char *otherwise)
{
    struct text t = { .arena = a };
    while (*wanted && !is_of_identifier(*wanted)) wanted++;
    if (is_digit(*wanted)) text_str(&t, otherwise);
    for (; *wanted && t.len < LONGEST_NAME; wanted++)
        text_bytes(&t, is_of_identifier(*wanted) ? wanted : "_", 1);
    return t.len ? t.data : otherwise;
}

/* A C identifier like `wanted` that nothing else has. */
static const char *unique(struct c99 *e, const char *wanted, const char *otherwise)
{
    const char *base = identifier(e->arena, wanted, otherwise);
    if (begins_reserved(base)) base = arena_printf(e->arena, "x_%s", base);
    const char *name = base;
    if (is_taken(e, name)) name = arena_printf(e->arena, "x_%s", base); /* away from reserved beginnings */
    for (uint32_t k = 2; is_taken(e, name); k++) name = arena_printf(e->arena, "x_%s_n%u", base, k);
    vec_push(e->arena, &e->names, name);
    return name;
}

/* The same for the function itself: its name must not be one of the C library, nor one that another function
 * of the unit comes with. */
static const char *function_name(struct c99 *e, const char *wanted)
{
    const char *base = identifier(e->arena, wanted, "function");
    if (begins_reserved(base) || c99_is_library_name(base)) base = arena_printf(e->arena, "x_%s", base);
    const char *name = unique(e, base, "function");
    for (uint32_t k = 2; !e->o->derived && takes_derived(e->unit, name); k++)
        name = unique(e, arena_printf(e->arena, "%s_n%u", base, k), "function");
    vec_push(e->unit->arena, &e->unit->names, name);
    return name;
}

static struct type result_type(const struct c99 *e, uint32_t r)
{
    return type_get(e->p->m, value_type(e->f, e->f->results[r]));
}

struct symbol_search {
    bool *found;
};
static bool note_symbol(void *ctx, uint32_t symbol)
{
    ((struct symbol_search *)ctx)->found[symbol] = true;
    return false;
}

/* What the original function calls a size that a result has: passes number such symbols anew. */
static const char *inner_symbol_name(const struct c99 *e, uint32_t symbol)
{
    const struct module *m = e->p->m;
    const struct fn *named = e->o->original;
    uint32_t here, there;
    for (uint32_t r = 0; named && r < e->f->n_results; r++) {
        struct type t = result_type(e, r);
        struct type original = type_get(m, value_type(named, named->results[r]));
        for (uint32_t d = 0; d < t.rank; d++) {
            if (!dim_is_symbol(m, t.dims[d], &here) || here != symbol) continue;
            if (dim_is_symbol(m, original.dims[d], &there)) return module_text(m, named->symbols[there].name);
        }
    }
    return module_text(m, e->f->symbols[symbol].name);
}

/* The argument in which the program leaves result r, HOP_NONE: it has memory of its own. */
static uint32_t updated_param(const struct c99 *e, uint32_t r)
{
    for (uint32_t i = 0; i < e->p->updates.len; i++) {
        const struct lp_update *u = &e->p->updates.data[i];
        if (u->result == r && !u->elsewhere) return u->param;
    }
    return HOP_NONE;
}

/* Buffers of arguments come first. */
static bool is_updated(const struct c99 *e, uint32_t param) { return e->p->buffers.data[param].updated; }

/* What parameter p is when the text itself knows it, else NULL. */
static const struct tensor *constant_param(const struct c99 *e, uint32_t p)
{
    return e->o->constants ? e->o->constants[p] : NULL;
}

static void name_everything(struct c99 *e)
{
    const struct fn *f = e->f;
    const struct fn *named = e->o->original ? e->o->original : f;
    const struct module *m = e->p->m;
    bool *returned = ARENA_ZNEW(e->arena, bool, f->n_symbols);
    for (uint32_t r = 0; r < f->n_results; r++) {
        struct type t = result_type(e, r);
        for (uint32_t d = 0; d < t.rank; d++)
            dim_mentions(m, t.dims[d], note_symbol, &(struct symbol_search){ returned });
    }
    for (uint32_t s = 0; s < f->n_outer_symbols; s++)
        e->symbol_name[s] = unique(e, module_text(m, f->symbols[s].name), arena_printf(e->arena, "n%u", s));
    for (uint32_t p = 0; p < f->n_params; p++) {
        const char *wanted = e->o->params ? e->o->params[p] : NULL;
        if (!wanted) wanted = module_text(m, f->values[p].name);
        e->param_name[p] = unique(e, wanted, arena_printf(e->arena, "arg%u", p));
    }
    for (uint32_t r = 0; r < f->n_results; r++) {
        const char *wanted = e->o->results ? e->o->results[r] : NULL;
        if (updated_param(e, r) != HOP_NONE) {
            e->result_name[r] = e->param_name[updated_param(e, r)];
            continue;
        }
        uint32_t of = fn_updated(named, r);
        if (of != HOP_NONE) wanted = arena_printf(e->arena, "%s_new", module_text(m, named->values[of].name));
        if (!wanted) wanted = module_text(m, named->values[named->results[r]].name);
        const char *otherwise = f->n_results == 1 ? "result" : arena_printf(e->arena, "result%u", r);
        e->result_name[r] = unique(e, wanted, otherwise);
    }
    for (uint32_t s = f->n_outer_symbols; s < f->n_symbols; s++) {
        const char *text = inner_symbol_name(e, s);
        const char *otherwise = arena_printf(e->arena, "size%u", s);
        if (returned[s]) e->size_name[s] = unique(e, text, otherwise);
        const char *local = arena_printf(e->arena, "size_%s", identifier(e->arena, text, otherwise));
        e->symbol_name[s] = unique(e, local, otherwise);
    }
}

/* ---- what it needs ---- */

/* The host's pointer outside, its bits as an integer inside. */
static bool is_object(const struct c99 *e, type_id t) { return type_is_object(e->p->m, t); }

static const char *host_type(const struct type *t) { return t->kind ? "void *" : c99_type[t->dtype]; }

static void name_buffers(struct c99 *e)
{
    for (uint32_t b = 0; b < e->p->buffers.len; b++) {
        const struct lp_buffer *buffer = &e->p->buffers.data[b];
        switch ((enum lp_buffer_kind)buffer->kind) {
        case BUF_ARG:
            e->buffer_name[b] = is_object(e, value_type(e->f, buffer->index))
                                    ? arena_printf(e->arena, "t_%u", b)
                                    : e->param_name[buffer->index];
            e->by_value[b] = !buffer->updated && !type_get(e->p->m, value_type(e->f, buffer->index)).rank &&
                             !constant_param(e, buffer->index);
            continue;
        case BUF_RESULT:
            if (is_object(e, value_type(e->f, e->f->results[buffer->index]))) break;
            e->buffer_name[b] = e->result_name[buffer->index];
            continue;
        case BUF_CONST: e->buffer_name[b] = arena_printf(e->arena, "c_%u", buffer->index); continue;
        case BUF_DYN:
            e->returned[b] = buffer->index != HOP_NONE;
            if (e->o->capacity <= 0) {
                e->context = true;
                e->growing = true;
            }
            if (e->o->capacity > 0 && e->returned[b]) {
                e->buffer_name[b] = e->result_name[buffer->index];
                continue;
            }
            break;
        default: break;
        }
        e->buffer_name[b] = arena_printf(e->arena, "t_%u", b);
    }
    e->workspace = !e->p->arena_static;
}

/* ---- signature ---- */

static bool result_grows(const struct c99 *e, uint32_t r)
{
    for (uint32_t b = 0; b < e->p->buffers.len; b++)
        if (e->p->buffers.data[b].kind == BUF_DYN && e->p->buffers.data[b].index == r) return true;
    return false;
}

static void put_signature(struct c99 *e, struct text *out, bool definition)
{
    const struct fn *f = e->f;
    const char *comma = "";
    const char *restricted = definition ? "restrict " : "";
    text_add(out, "$entry int %s(", e->name);
    for (uint32_t s = 0; s < f->n_outer_symbols; s++) {
        text_add(out, "%sint64_t %s", comma, e->symbol_name[s]);
        comma = ", ";
    }
    for (uint32_t p = 0; p < f->n_params; p++) {
        if (constant_param(e, p)) continue;
        struct type t = type_get(e->p->m, value_type(f, p));
        const char *type = host_type(&t);
        const char *constant = is_updated(e, p) ? "" : "const ";
        if (t.rank || is_updated(e, p))
            text_add(out, "%s$buffer %s%s *%s%s", comma, constant, type, restricted, e->param_name[p]);
        else text_add(out, "%s%s%s%s", comma, type, t.kind ? "" : " ", e->param_name[p]);
        comma = ", ";
    }
    for (uint32_t r = 0; r < f->n_results; r++) {
        if (updated_param(e, r) != HOP_NONE) continue;
        bool handed = e->o->capacity <= 0 && result_grows(e, r);
        struct type t = result_type(e, r);
        text_add(out, "%s$buffer %s%s*%s%s%s", comma, host_type(&t), t.kind ? "" : " ", handed ? "*" : "",
                 restricted, e->result_name[r]);
        comma = ", ";
    }
    for (uint32_t s = f->n_outer_symbols; s < f->n_symbols; s++) {
        if (!e->size_name[s]) continue;
        text_add(out, "%sint64_t *%s%s", comma, restricted, e->size_name[s]);
        comma = ", ";
    }
    if (e->workspace) {
        text_add(out, "%svoid *workspace", comma);
        comma = ", ";
    }
    if (e->context) {
        text_add(out, "%sstruct hop_c_context *context", comma);
        comma = ", ";
    }
    text_str(out, *comma ? ")" : "void)");
}

static void put_workspace_signature(struct c99 *e, struct text *out)
{
    text_add(out, "size_t %s_workspace(", e->name);
    for (uint32_t s = 0; s < e->f->n_outer_symbols; s++)
        text_add(out, "%sint64_t %s", s ? ", " : "", e->symbol_name[s]);
    text_str(out, ")");
}

static void put_type_note(struct c99 *e, struct text *out, const char *name, type_id t)
{
    static const char *const operators[] = { "//", " * " };
    text_add(out, " *   %-12s ", name);
    /* Sizes are sums, products and quotients of names. */
    const char *s = type_text(e->p->m, e->f->symbols, t);
    while (*s) {
        const char *operator= NULL;
        for (size_t k = 0; k < HOP_COUNT(operators); k++)
            if (!strncmp(s, operators[k], strlen(operators[k]))) operator= operators[k];
        if (operator) text_str(out, operator);
        else c99_put_comment(out, (const char[]){ *s, 0 });
        s += operator? strlen(operator) : 1;
    }
}

static void put_prototype(struct c99 *e)
{
    struct text *out = &e->unit->prototypes;
    const struct fn *f = e->f;
    const char *program = module_text(e->p->m, (e->o->original ? e->o->original : f)->name);
    text_add(out, "\n/* %s", e->o->derived ? e->name : "@");
    if (!e->o->derived) c99_put_comment(out, program);
    text_add(out, "%s\n", e->p->strict ? ", strict numbers" : "");
    if (e->o->remark) text_add(out, " * %s\n", e->o->remark);
    for (uint32_t p = 0; p < f->n_params; p++) {
        if (constant_param(e, p)) continue;
        put_type_note(e, out, e->param_name[p], value_type(f, p));
        text_str(out, is_updated(e, p) ? ", updated: read, then written\n" : "\n");
    }
    for (uint32_t r = 0; r < f->n_results; r++) {
        if (updated_param(e, r) != HOP_NONE) continue;
        put_type_note(e, out, e->result_name[r], value_type(f, f->results[r]));
        bool grows = result_grows(e, r);
        if (!grows) text_str(out, ", written\n");
        else if (e->o->capacity > 0)
            text_add(out, ", written: room for %lld elements\n", (long long)e->o->capacity);
        else text_str(out, ", made by context->resize, then the caller's\n");
    }
    for (uint32_t s = f->n_outer_symbols; s < f->n_symbols; s++)
        if (e->size_name[s])
            text_add(out, " *   %-12s a size that the computation finds, written\n", e->size_name[s]);
    if (e->workspace)
        text_add(out, " *   workspace    memory of %s_workspace(...) bytes, aligned as malloc aligns\n",
                 e->name);
    text_str(out,
             " * Arrays are contiguous and row-major and do not overlap. Returns an enum hop_c_status. */\n");
    put_signature(e, out, false);
    text_str(out, ";\n");
    if (!e->workspace) return;
    put_workspace_signature(e, out);
    text_str(out, ";\n");
}

/* ---- memory ---- */

static bool in_arena(const struct c99 *e, uint32_t b)
{
    const struct lp_buffer *buffer = &e->p->buffers.data[b];
    if (!e->buffer_used[b]) return false;
    return buffer->kind == BUF_TEMP || (buffer->kind == BUF_DYN && e->o->capacity > 0 && !e->returned[b]);
}

static int64_t with_room(int64_t n) { return HOP_MAX((n + C99_ROOM - 1) / C99_ROOM * C99_ROOM, C99_ROOM); }

/* What stands before an array that vectors are loaded from. */
static const char *aligned(const struct c99 *e) { return e->vectors->any ? "HOP_ALIGNED " : ""; }

static int64_t arena_count(const struct c99 *e, uint32_t b)
{
    const struct lp_buffer *buffer = &e->p->buffers.data[b];
    int64_t n = buffer->kind == BUF_DYN ? e->o->capacity : buffer->static_count;
    return with_room(n);
}

static bool together(const struct c99 *e, uint32_t x, uint32_t y)
{
    const struct lp_buffer *a = &e->p->buffers.data[x];
    const struct lp_buffer *b = &e->p->buffers.data[y];
    if (e->p->own_memory || a->kind == BUF_DYN || b->kind == BUF_DYN) return true;
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest place in its type's arena where a buffer meets none of those before it that live at the same
 * time. */
static int64_t place_in_arena(struct c99 *e, uint32_t b)
{
    int64_t at = 0, size = arena_count(e, b);
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t k = 0; k < b; k++) {
            bool same_arena = in_arena(e, k) && e->p->buffers.data[k].dtype == e->p->buffers.data[b].dtype;
            if (!same_arena || !together(e, k, b)) continue;
            int64_t end = e->place[k] + arena_count(e, k);
            if (at >= end || e->place[k] >= at + size) continue;
            at = end;
            moved = true;
        }
    }
    e->place[b] = at;
    return at;
}

static void put_static_arena(struct c99 *e)
{
    int64_t size[DT_COUNT] = { 0 }, bytes = 0;
    for (uint32_t b = 0; b < e->p->buffers.len; b++) {
        if (!in_arena(e, b)) continue;
        uint8_t t = e->p->buffers.data[b].dtype;
        int64_t end = place_in_arena(e, b) + arena_count(e, b);
        size[t] = HOP_MAX(size[t], end);
    }
    for (int t = 0; t < DT_COUNT; t++) bytes += size[t] * dtype_info[t].size;
    bool fixed = bytes > STACK_ARENA || e->p->level; /* procedures may stand above each other on the stack */
    const char *storage = fixed ? "HOP_C_STORAGE " : "";
    for (int t = 0; t < DT_COUNT; t++) {
        if (!size[t]) continue;
        const char *name = dtype_info[t].name;
        text_add(e->out, "    %s%s%s arena_%s[%lld];\n", storage, aligned(e), c99_type[t], name,
                 (long long)size[t]);
    }
    for (uint32_t b = 0; b < e->p->buffers.len; b++) {
        if (!in_arena(e, b)) continue;
        uint8_t t = e->p->buffers.data[b].dtype;
        text_add(e->out, "    %s *const t_%u = arena_%s + %lld;\n", c99_type[t], b, dtype_info[t].name,
                 (long long)e->place[b]);
    }
}

/* A piece of the workspace holds buffers of one slot and one element type. */
static bool share_piece(const struct c99 *e, uint32_t b, uint32_t k)
{
    const struct lp_buffer *x = &e->p->buffers.data[b];
    const struct lp_buffer *y = &e->p->buffers.data[k];
    if (x->kind != BUF_TEMP || y->kind != BUF_TEMP || !in_arena(e, k)) return false;
    return y->slot == x->slot && y->dtype == x->dtype;
}

static bool first_of_piece(const struct c99 *e, uint32_t b)
{
    for (uint32_t k = 0; k < b; k++)
        if (share_piece(e, b, k)) return false;
    return true;
}

static void put_piece_bytes(struct c99 *e, uint32_t b)
{
    const struct lp_buffer *buffer = &e->p->buffers.data[b];
    text_str(e->out, "((size_t)");
    if (buffer->kind == BUF_DYN)
        text_add(e->out, "%lld", (long long)e->o->capacity * dtype_info[buffer->dtype].size);
    else c99_put_dim(e, e->p->slot_size.data[buffer->slot]);
    text_add(e->out, " + %d) / %d * %d", WORKSPACE_ALIGN - 1, WORKSPACE_ALIGN, WORKSPACE_ALIGN);
}

/* Adds up the pieces of one program or procedure. */
static void put_pieces(struct c99 *e, const char *to)
{
    for (uint32_t b = 0; b < e->p->buffers.len; b++) {
        if (!in_arena(e, b) || !first_of_piece(e, b)) continue;
        text_add(e->out, "    %s += ", to);
        put_piece_bytes(e, b);
        text_str(e->out, ";\n");
    }
}

static void put_workspace(struct c99 *e)
{
    if (e->p->level) text_add(e->out, "    char *at = %s_at;\n", e->name);
    else text_str(e->out, "    char *at = workspace;\n");
    for (uint32_t b = 0; b < e->p->buffers.len; b++) {
        if (!in_arena(e, b) || !first_of_piece(e, b)) continue;
        for (uint32_t k = b; k < e->p->buffers.len; k++) {
            if (k != b && !share_piece(e, b, k)) continue;
            const char *type = c99_type[e->p->buffers.data[k].dtype];
            text_add(e->out, "    $buffer %s *const t_%u = ($buffer %s *)(void *)at;\n", type, k, type);
        }
        text_str(e->out, "    at += ");
        put_piece_bytes(e, b);
        text_str(e->out, ";\n");
    }
    for (uint32_t i = 0; i < e->n_parts && !e->p->level; i++) {
        text_add(e->out, "    %s_at = at;\n", e->parts[i].name);
        put_pieces(&e->parts[i], "at");
    }
    text_str(e->out, "    (void)at;\n");
}

static void put_workspace_function(struct c99 *e)
{
    put_workspace_signature(e, e->out);
    text_str(e->out, "\n{\n");
    for (uint32_t s = 0; s < e->f->n_outer_symbols; s++)
        text_add(e->out, "    (void)%s;\n", e->symbol_name[s]);
    text_str(e->out, "    size_t bytes = 0;\n");
    put_pieces(e, "bytes");
    for (uint32_t i = 0; i < e->n_parts; i++) put_pieces(&e->parts[i], "bytes");
    text_str(e->out, "    return bytes;\n}\n\n");
}

/* ---- constants ---- */

static uint64_t bits_at(const void *data, enum dtype t, size_t i)
{
    return element_bits(t, (const char *)data + i * dtype_info[t].size);
}

static bool has_nan(const void *data, enum dtype t, size_t n)
{
    struct float_layout layout = dtype_float_layout(t);
    for (size_t i = 0; i < n && (t == DT_F32 || t == DT_F64); i++)
        if ((bits_at(data, t, i) & ~layout.sign) > layout.infinity) return true;
    return false;
}

/* An array `name`. Those with NaN are written as bits: a literal would lose payload and sign. */
static void put_array(struct c99 *e, const char *name, enum dtype t, const void *data, size_t n)
{
    bool bits = has_nan(data, t, n);
    if (bits)
        text_add(e->out, "    static const union { %s bits[%zu]; %s value[%zu]; } hop_bits_of_%s = { {",
                 t == DT_F32 ? "uint32_t" : "uint64_t", n, c99_type[t], n, name);
    else text_add(e->out, "    static const %s %s[%zu] = {", c99_type[t], name, HOP_MAX(n, 1));
    for (size_t i = 0; i < n; i++) {
        text_str(e->out, i % LINE_ELEMENTS ? " " : "\n        ");
        uint64_t element = bits_at(data, t, i);
        if (!bits) c99_put_bits(e, t, element, true);
        else text_add(e->out, t == DT_F32 ? "0x%llxu" : "0x%llxull", (unsigned long long)element);
        text_str(e->out, ",");
    }
    if (!n) text_str(e->out, "0");
    text_str(e->out, bits ? "\n    } };\n" : "\n    };\n");
    if (bits) text_add(e->out, "    const %s *const %s = hop_bits_of_%s.value;\n", c99_type[t], name, name);
}

static void put_constant(struct c99 *e, uint32_t b)
{
    const struct lp_buffer *buffer = &e->p->buffers.data[b];
    const struct constant *c = &e->p->m->constants.data[buffer->index];
    enum dtype t = (enum dtype)buffer->dtype;
    for (uint32_t k = 0; k < b; k++) { /* several buffers may be one constant */
        const struct lp_buffer *other = &e->p->buffers.data[k];
        if (e->buffer_used[k] && other->kind == BUF_CONST && other->index == buffer->index) return;
    }
    put_array(e, e->buffer_name[b], t, c->data, c->bytes / dtype_info[t].size);
}

/* ---- the function ---- */

static void put_size_checks(struct c99 *e)
{
    const struct fn *f = e->f;
    for (uint32_t s = 0; s < f->n_outer_symbols; s++) {
        text_add(e->out, "    if (%s < ", e->symbol_name[s]);
        c99_put_bits(e, DT_I64, (uint64_t)f->symbols[s].lo, true);
        if (f->symbols[s].hi != INT64_MAX) {
            text_add(e->out, " || %s > ", e->symbol_name[s]);
            c99_put_bits(e, DT_I64, (uint64_t)f->symbols[s].hi, true);
        }
        text_str(e->out, ") return HOP_C_SIZE;\n");
    }
    for (uint32_t i = 0; i < f->n_required; i++) {
        text_str(e->out, "    if (");
        c99_put_dim(e, f->required[i].a);
        text_str(e->out, " != ");
        c99_put_dim(e, f->required[i].b);
        text_str(e->out, ") return HOP_C_SIZE;\n");
    }
}

/* Does the buffer hold an object that the host gave or gets? */
static bool holds_object(const struct c99 *e, uint32_t b)
{
    const struct lp_buffer *buffer = &e->p->buffers.data[b];
    if (buffer->kind == BUF_ARG) return is_object(e, value_type(e->f, buffer->index));
    return buffer->kind == BUF_RESULT && is_object(e, value_type(e->f, e->f->results[buffer->index]));
}

static void put_object(struct c99 *e, uint32_t b)
{
    const struct lp_buffer *buffer = &e->p->buffers.data[b];
    if (buffer->kind == BUF_RESULT) text_add(e->out, "    int64_t t_%u[1] = { 0 };\n", b);
    else if (e->buffer_used[b])
        text_add(e->out, "    const int64_t t_%u = (int64_t)(intptr_t)%s;\n", b,
                 e->param_name[buffer->index]);
}

static void put_memory(struct c99 *e)
{
    for (uint32_t b = 0; b < e->p->buffers.len; b++) {
        const struct lp_buffer *buffer = &e->p->buffers.data[b];
        bool used = e->buffer_used[b];
        if (holds_object(e, b)) put_object(e, b);
        const struct tensor *known = buffer->kind == BUF_ARG ? constant_param(e, buffer->index) : NULL;
        if (used && known)
            put_array(e, e->buffer_name[b], (enum dtype)known->dtype, known->data, (size_t)known->count);
        else if (used && buffer->kind == BUF_CONST) put_constant(e, b);
        else if (used && buffer->kind == BUF_LOCAL) {
            /* Small ones have a first value: compilers cannot always see that they are written before they
             * are read. */
            int64_t n = buffer->static_count;
            const char *first = n <= SMALL_LOCAL ? " = { 0 }" : "";
            text_add(e->out, "    %s%s t_%u[%lld]%s;\n", aligned(e), c99_type[buffer->dtype], b,
                     (long long)(e->vectors->any ? with_room(n) : HOP_MAX(n, 1)), first);
        } else if (buffer->kind == BUF_DYN && e->growing)
            text_add(e->out, "    $buffer %s *t_%u = NULL;\n    int64_t room_%u = 0;\n",
                     c99_type[buffer->dtype], b, b);
    }
    if (e->workspace) put_workspace(e);
    else put_static_arena(e);
    for (uint32_t l = 0; l < e->p->locals.len; l++) {
        const struct lp_local *local = &e->p->locals.data[l];
        if (!e->local_read[l]) continue;
        bool lanes = local->kind == LOCAL_LANES, vectors = e->vectors->locals[l].wide;
        if (vectors) {
            text_add(e->out, "#if %s\n", c99_guard(e->vectors->locals[l].strict));
            c99_put_accumulators(e, l, 1);
            text_str(e->out, "#else\n");
        }
        text_add(e->out, "    %s s_%u%s;\n", c99_value[local->dtype], l, lanes ? "[16] = { 0 }" : " = 0");
        if (vectors) text_str(e->out, "#endif\n");
        if (e->vectors->own[l]) text_add(e->out, "    (void)s_%u;\n", l);
    }
    for (uint32_t s = e->f->n_outer_symbols; s < e->f->n_symbols && !e->p->level; s++)
        text_add(e->out, "    int64_t %s = 0;\n", e->symbol_name[s]);
    if (e->growing) text_str(e->out, "    int status = HOP_C_OK;\n");
}

/* Parameters that the program does not look at. */
static void put_unused(struct c99 *e)
{
    const struct fn *f = e->f;
    bool *arg = ARENA_ZNEW(e->arena, bool, f->n_params);
    bool *result = ARENA_ZNEW(e->arena, bool, f->n_results);
    for (uint32_t b = 0; b < e->p->buffers.len; b++) {
        const struct lp_buffer *buffer = &e->p->buffers.data[b];
        if (buffer->kind == BUF_ARG) arg[buffer->index] |= e->buffer_used[b];
        if (buffer->kind == BUF_RESULT) result[buffer->index] |= e->buffer_used[b];
        if (buffer->kind == BUF_DYN && buffer->index != HOP_NONE)
            result[buffer->index] |= e->growing || e->buffer_used[b];
        if (buffer->kind == BUF_DYN && e->growing) text_add(e->out, "    (void)room_%u;\n", b);
        if (buffer->kind == BUF_LOCAL && e->buffer_used[b] && !e->buffer_read[b])
            text_add(e->out, "    (void)t_%u;\n", b); /* written, but nobody asks for it */
    }
    for (uint32_t s = f->n_outer_symbols; s < f->n_symbols; s++)
        text_add(e->out, "    (void)%s;\n", e->symbol_name[s]);
    for (uint32_t p = 0; p < f->n_params; p++)
        if (!arg[p] && !constant_param(e, p)) text_add(e->out, "    (void)%s;\n", e->param_name[p]);
    for (uint32_t r = 0; r < f->n_results; r++)
        if (!result[r] && updated_param(e, r) == HOP_NONE)
            text_add(e->out, "    (void)%s;\n", e->result_name[r]);
}

static void put_end(struct c99 *e)
{
    const char *inside = e->growing ? "        " : "    ";
    if (e->left) text_str(e->out, "leave:\n");
    if (e->growing) text_str(e->out, "    if (status == HOP_C_OK) {\n");
    for (uint32_t s = e->f->n_outer_symbols; s < e->f->n_symbols; s++)
        if (e->size_name[s]) text_add(e->out, "%s*%s = %s;\n", inside, e->size_name[s], e->symbol_name[s]);
    for (uint32_t b = 0; b < e->p->buffers.len; b++) {
        const struct lp_buffer *buffer = &e->p->buffers.data[b];
        if (buffer->kind != BUF_RESULT || !holds_object(e, b)) continue;
        text_add(e->out, "%s*%s = (void *)(intptr_t)t_%u[0];\n", inside, e->result_name[buffer->index], b);
    }
    for (uint32_t b = 0; b < e->p->buffers.len && e->growing; b++) {
        const struct lp_buffer *buffer = &e->p->buffers.data[b];
        if (buffer->kind != BUF_DYN || !e->returned[b]) continue;
        text_add(e->out, "%s*%s = t_%u;\n", inside, e->result_name[buffer->index], b);
        text_add(e->out, "%st_%u = NULL;\n", inside, b);
    }
    if (!e->growing) {
        text_str(e->out, "    return HOP_C_OK;\n}\n");
        return;
    }
    text_str(e->out, "    }\n");
    for (uint32_t b = 0; b < e->p->buffers.len; b++)
        if (e->p->buffers.data[b].kind == BUF_DYN)
            text_add(e->out, "    if (t_%u) context->resize(context->user, t_%u, 0);\n", b, b);
    text_str(e->out, "    return status;\n}\n");
}

/* NAME_call and NAME_bytes: the same through arrays. */
static void put_adapter(struct c99 *e)
{
    const struct fn *f = e->f;
    struct text *out = e->out;
    text_add(out, "\nsize_t %s_bytes(const int64_t *symbols)\n{\n    (void)symbols;\n    return ", e->name);
    if (e->workspace) {
        text_add(out, "%s_workspace(", e->name);
        for (uint32_t s = 0; s < f->n_outer_symbols; s++) text_add(out, "%ssymbols[%u]", s ? ", " : "", s);
        text_str(out, ");\n}\n");
    } else text_str(out, "0;\n}\n");
    text_add(out,
             "\nint %s_call(int64_t *symbols, const void *const *args, void **results, void *workspace, void "
             "*context)\n{\n",
             e->name);
    text_str(out, "    (void)symbols, (void)args, (void)results, (void)workspace, (void)context;\n");
    for (uint32_t r = 0; r < f->n_results; r++)
        if (e->o->capacity <= 0 && result_grows(e, r))
            text_add(out, "    %s *r%u = NULL;\n", c99_type[result_type(e, r).dtype], r);
    text_add(out, "    const int status = %s(", e->name);
    const char *comma = "";
    for (uint32_t s = 0; s < f->n_outer_symbols; s++) {
        text_add(out, "%ssymbols[%u]", comma, s);
        comma = ", ";
    }
    for (uint32_t p = 0; p < f->n_params; p++) {
        if (constant_param(e, p)) continue;
        struct type t = type_get(e->p->m, value_type(f, p));
        if (is_updated(e, p)) text_add(out, "%s(%s *)args[%u]", comma, c99_type[t.dtype], p);
        else
            text_add(out, "%s%s(%s%s *)args[%u]", comma, t.rank ? "" : "*", t.kind ? "" : "const ",
                     host_type(&t), p);
        comma = ", ";
    }
    for (uint32_t r = 0; r < f->n_results; r++) {
        if (updated_param(e, r) != HOP_NONE) continue;
        if (e->o->capacity <= 0 && result_grows(e, r)) text_add(out, "%s&r%u", comma, r);
        else text_add(out, "%sresults[%u]", comma, r);
        comma = ", ";
    }
    for (uint32_t s = f->n_outer_symbols; s < f->n_symbols; s++) {
        if (!e->size_name[s]) continue;
        text_add(out, "%s&symbols[%u]", comma, s);
        comma = ", ";
    }
    if (e->workspace) {
        text_add(out, "%sworkspace", comma);
        comma = ", ";
    }
    if (e->context) text_add(out, "%scontext", comma);
    text_str(out, ");\n");
    for (uint32_t r = 0; r < f->n_results; r++)
        if (e->o->capacity <= 0 && result_grows(e, r))
            text_add(out, "    if (status == HOP_C_OK) results[%u] = r%u;\n", r, r);
    text_str(out, "    return status;\n}\n");
}

static struct c99 c99_of(struct c99_unit *unit, const struct lp *p, const struct c99_options *o)
{
    const struct fn *f = p->entry;
    struct arena *a = unit->arena;
    uint32_t n = p->instrs.len, n_buffers = p->buffers.len;
    struct c99 e = {
        .p = p, .f = f, .o = o, .unit = unit, .arena = a, .out = &unit->functions, .lane_loop = HOP_NONE
    };
    e.uses = ARENA_ZNEW(a, uint32_t, n);
    e.home = ARENA_ZNEW(a, const struct lp_block *, n);
    e.used_in = ARENA_ZNEW(a, const struct lp_block *, n);
    e.in_place = ARENA_ZNEW(a, bool, n);
    e.address = ARENA_ZNEW(a, bool, n);
    e.local_read = ARENA_ZNEW(a, bool, p->locals.len);
    e.var_used = ARENA_ZNEW(a, bool, p->loops.len);
    e.buffer_used = ARENA_ZNEW(a, bool, n_buffers);
    e.buffer_read = ARENA_ZNEW(a, bool, n_buffers);
    e.buffer_name = ARENA_ZNEW(a, const char *, n_buffers);
    e.by_value = ARENA_ZNEW(a, bool, n_buffers);
    e.place = ARENA_ZNEW(a, int64_t, n_buffers);
    e.returned = ARENA_ZNEW(a, bool, n_buffers);
    return e;
}

/* A procedure as a function of this file: the program's sizes, its own arrays, the program's context. */
static void put_part(struct c99 *e)
{
    const char *comma = "";
    if (e->workspace) text_add(e->out, "HOP_C_STORAGE char *%s_at;\n", e->name);
    text_add(e->out, "static int %s(", e->name);
    for (uint32_t s = 0; s < e->f->n_outer_symbols; s++) {
        text_add(e->out, "%sint64_t %s", comma, e->symbol_name[s]);
        comma = ", ";
    }
    for (uint32_t b = 0; b < e->p->buffers.len; b++) { /* parameters come first */
        const struct lp_buffer *buffer = &e->p->buffers.data[b];
        if (buffer->kind != BUF_PARAM) break;
        if (!c99_takes(e, b)) continue;
        const char *constant = b < e->p->n_inputs && !buffer->updated ? "const " : "";
        text_add(e->out, "%s$buffer %s%s *restrict t_%u", comma, constant, c99_type[buffer->dtype], b);
        comma = ", ";
    }
    if (e->context) {
        text_add(e->out, "%sstruct hop_c_context *context", comma);
        comma = ", ";
    }
    text_str(e->out, *comma ? ")\n{\n" : "void)\n{\n");
    put_memory(e);
    for (uint32_t s = 0; s < e->f->n_outer_symbols; s++)
        text_add(e->out, "    (void)%s;\n", e->symbol_name[s]);
    for (uint32_t b = 0; b < e->p->buffers.len; b++)
        if (e->p->buffers.data[b].kind == BUF_PARAM && c99_takes(e, b) && !e->buffer_used[b])
            text_add(e->out, "    (void)t_%u;\n", b);
    if (e->context) text_str(e->out, "    (void)context;\n");
    c99_put_block(e, e->p->root, 1);
    text_str(e->out, "    return HOP_C_OK;\n}\n\n");
}

/* What a body is called, as part of a name in C. */
static const char *part_word(const struct c99 *e, const char *name)
{
    enum { LONGEST = 40 };
    size_t n = strlen(name);
    char *word = arena_string(e->arena, name, n > LONGEST ? LONGEST : n);
    for (char *c = word; *c; c++)
        if (!isalnum((unsigned char)*c) || (unsigned char)*c > 127) *c = '_';
    return word;
}

static void put_parts(struct c99 *e)
{
    e->n_parts = e->p->procedures.len;
    e->parts = ARENA_ZNEW(e->arena, struct c99, e->n_parts);
    for (uint32_t i = 0; i < e->n_parts; i++) {
        struct c99 *part = &e->parts[i];
        *part = c99_of(e->unit, e->p->procedures.data[i], e->o);
        part->name = arena_printf(e->arena, "hop_part%u_%s_of_%s", i, part_word(e, part->p->name), e->name);
        part->symbol_name = e->symbol_name;
        part->size_name = e->size_name;
        part->parts = e->parts;
        part->context = e->context;
        name_buffers(part);
        c99_count(part);
        c99_plan_vectors(part);
        put_part(part);
    }
}

/* Operators from outside that the program calls: their names are those of functions before any other is. */
static void declare_operators(struct c99 *e)
{
    struct c99_unit *unit = e->unit;
    for (uint32_t i = 0; i < e->p->sites.len; i++) {
        const struct lp_call *c = e->p->sites.data[i];
        if (c->kind != CALL_OPERATOR || !c->declared) continue;
        const char *name = module_text(e->p->m, c->text);
        bool known = false;
        for (uint32_t k = 0; k < unit->operators.len; k++)
            known |= !strcmp(unit->operators.data[k].name, name);
        if (known) continue;
        struct c99_operator o = { arena_string(unit->arena, name, strlen(name)), function_name(e, name) };
        vec_push(unit->arena, &unit->operators, o);
        text_add(&unit->prototypes, "\n/* Operator ");
        c99_put_comment(&unit->prototypes, c->declared);
        text_add(
            &unit->prototypes,
            ", which the program calls: to be defined elsewhere. 0: it has done its work. */\n"
            "extern int %s(struct hop_operator_call *call, void *const *arrays, const int64_t *sizes);\n",
            o.c_name);
    }
}

const char *c99_add(struct c99_unit *unit, const struct lp *p, const struct c99_options *o)
{
    const struct fn *f = p->entry;
    struct arena *a = unit->arena;
    struct c99 e = c99_of(unit, p, o);
    e.symbol_name = ARENA_ZNEW(a, const char *, f->n_symbols);
    e.size_name = ARENA_ZNEW(a, const char *, f->n_symbols);
    e.param_name = ARENA_ZNEW(a, const char *, f->n_params);
    e.result_name = ARENA_ZNEW(a, const char *, f->n_results);
    const char *name = module_text(p->m, (o->original ? o->original : f)->name);
    declare_operators(&e);
    e.name = function_name(&e, o->name ? o->name : name);
    name_everything(&e);
    e.context = p->sites.len > 0;
    name_buffers(&e);
    c99_count(&e);
    c99_plan_vectors(&e);
    unit->strict |= p->has_strict;
    unit->adapters |= o->adapter;
    put_prototype(&e);
    text_str(e.out, "\n");
    put_parts(&e);
    if (e.workspace) put_workspace_function(&e);
    put_signature(&e, e.out, true);
    text_str(e.out, "\n{\n");
    put_memory(&e);
    put_unused(&e);
    put_size_checks(&e);
    c99_put_block(&e, p->root, 1);
    put_end(&e);
    if (o->adapter) put_adapter(&e);
    return e.name;
}

/* ---- the unit ---- */

void c99_begin(struct c99_unit *unit, struct arena *arena, const struct c99_dialect *dialect)
{
    *unit = (struct c99_unit){ .arena = arena, .dialect = dialect };
    unit->functions.arena = arena;
    unit->prototypes.arena = arena;
    unit->lane_text.arena = arena;
}

static const char shared_types[] =
    "#include <stddef.h>\n"
    "#include <stdint.h>\n"
    "\n"
    "#ifndef HOP_C_TYPES\n"
    "#define HOP_C_TYPES 1\n"
    "enum hop_c_status {\n"
    "    HOP_C_OK,\n"
    "    HOP_C_CHECK,     /* a check of the program failed; results are not complete */\n"
    "    HOP_C_NOMEM,     /* context->resize gave no memory, or there is none */\n"
    "    HOP_C_CAPACITY,  /* an array of data-dependent size outgrew the room it was given when this was "
    "made */\n"
    "    HOP_C_SIZE,      /* a size is out of the range that the program states */\n"
    "    HOP_C_CANCELLED, /* *context->cancel became non-zero */\n"
    "    HOP_C_CALLBACK,  /* context->callback returned something else than 0, or there is none */\n"
    "    HOP_C_OPERATOR   /* an operator from outside returned something else than 0 */\n"
    "};\n"
    "/* A bool is one byte, 0 or 1; f16 and bf16 are the bits of their formats, in a uint16_t. */\n"
    "enum hop_c_dtype { HOP_C_BOOL, HOP_C_I8, HOP_C_I16, HOP_C_I32, HOP_C_I64, HOP_C_U8, HOP_C_U16, "
    "HOP_C_U32, HOP_C_U64, HOP_C_F16, HOP_C_BF16, HOP_C_F32, HOP_C_F64,\n"
    "    HOP_C_OBJECT = 14 /* what an operator is given is the object's pointer itself */ };\n"
    "struct hop_c_value { /* an array that a check or a print shows or a callback gets; valid during the "
    "callback */\n"
    "    const void *data;\n"
    "    int dtype, rank;\n"
    "    const int64_t *dims;\n"
    "};\n"
    "/* What a call may use. Every field may be zero; the context itself may be NULL. */\n"
    "struct hop_c_context {\n"
    "    void *user; /* given to the callbacks */\n"
    "    void *(*resize)(void *user, void *block, size_t bytes); /* like realloc: block NULL is new; bytes 0 "
    "frees */\n"
    "    void (*print)(void *user, const char *format, int n, const struct hop_c_value *values); /* each {} "
    "stands for the next value */\n"
    "    void (*failed)(void *user, const char *place, const char *message, int n, const struct hop_c_value "
    "*values);\n"
    "    int (*callback)(void *user, const char *name, int n, const struct hop_c_value *values); /* the "
    "program's callbacks; 0: go on */\n"
    "    const volatile int *cancel; /* looked at on the back edges of long loops */\n"
    "    const char *place, *message; /* set when a check or a callback fails: \"file:line:col: \" and the "
    "check's text or the callback's name */\n"
    "};\n"
    "#endif\n";

/* As in hop.h, of which it may be a part. */
static const char operator_types[] =
    "\n"
    "#ifndef HOP_OPERATOR_TYPES\n"
    "#define HOP_OPERATOR_TYPES 1\n"
    "typedef struct hop_operator_array {\n"
    "    void *data;          /* first element; NULL: absent, or a result whose size the operator finds */\n"
    "    int32_t dtype, rank; /* dtype: enum hop_c_dtype */\n"
    "    const int64_t *dims;\n"
    "    const int64_t *strides; /* in elements; NULL: row-major */\n"
    "} hop_operator_array;\n"
    "typedef struct hop_operator_call {\n"
    "    void *user;    /* context->user */\n"
    "    char *message; /* room for `room` characters: why it fails */\n"
    "    size_t room;\n"
    "    const hop_operator_array *arrays; /* operands, then results */\n"
    "    int32_t n_arrays;\n"
    "    const int32_t *counts; /* per parameter that is no `out`: how many of the arrays are its */\n"
    "    int32_t lanes; /* leading dims of every array that lanes run along */\n"
    "    /* Memory for a result whose size the operator finds; NULL: there is none, return non-zero. */\n"
    "    void *(*result)(struct hop_operator_call *call, int result, const int64_t *dims);\n"
    "    void *host;\n"
    "} hop_operator_call;\n"
    "#endif\n";

static const char head_comment[] =
    "/* Written by hop from a tensor program; C99 that needs nothing but libm.\n"
    "%s * Compile with -O2 or -O3 and -ffp-contract=off (gcc does not know the pragma below and contracts by "
    "default unless -std=c99 is given), never with\n"
    " * -ffast-math.%s\n"
    " * HOP_C_STORAGE is the storage of temporaries larger than 4 KiB; define it as `static _Thread_local` "
    "to call a function from several threads. */\n";
static const char vector_comment[] =
    " * GCC and clang see vector types where -march allows (-march=native, or x86-64-v3 and above), all "
    "others, and "
    "-DHOP_PLAIN_C, plain loops.\n";
static const char strict_comment[] = " Then results are equal bit for bit to those of hop's interpreter.";

void c99_finish(struct c99_unit *unit, const char *header_name, struct text *source, struct text *header)
{
    struct text prototypes = { .arena = unit->arena }, functions = { .arena = unit->arena };
    struct text types = { .arena = unit->arena };
    text_add(&types, "%s%s", shared_types, unit->operators.len ? operator_types : "");
    c99_render(&c99_own_dialect, unit->prototypes.data, &prototypes); /* the host's side is C99 */
    text_add(source, head_comment, unit->dialect->vectors ? vector_comment : "",
             unit->strict ? strict_comment : "");
    if (header_name && !header_name[strcspn(header_name, "\"\\?\n\r")])
        text_add(source, "#include \"%s\"\n\n", header_name);
    else text_add(source, "%s%s\n", types.data, prototypes.data ? prototypes.data : "");
    text_str(source, unit->dialect->preamble);
    if (unit->strict)
        text_str(source,
                 "#ifdef __FAST_MATH__\n#error \"strict numbers: compile without -ffast-math\"\n#endif\n");
    text_str(source, "#ifndef HOP_C_STORAGE\n#define HOP_C_STORAGE static\n#endif\n\n");
    if (unit->has_vectors) text_str(&functions, c99_vector_head());
    c99_helpers_text(unit, &functions);
    if (unit->has_vectors) c99_vector_text(unit, &functions);
    c99_product_text(unit, &functions);
    text_bytes(&functions, unit->functions.data, unit->functions.len);
    c99_render(unit->dialect, functions.data, source);
    if (!header) return;
    text_add(header,
             "/* Written by hop. */\n#pragma once\n%s\n#ifdef __cplusplus\nextern \"C\" "
             "{\n#endif\n%s\n#ifdef __cplusplus\n}\n#endif\n",
             types.data, prototypes.data ? prototypes.data : "");
}

struct lp *c99_lower(struct module *m, uint32_t fn, const struct pass_options *passes)
{
    struct pass_options plain = *passes;
    const struct fn *f = module_fn(m, fn);
    if (f->global)
        hop_throw(HOP_UNAVAILABLE, "%s@%s: emitted C has no ranks, and this is a program over a mesh",
                  place_text(m, f->place), module_text(m, fn_label(f)));
    plain.plain_products = true;
    return lower_and_plan(m, fn, &plain);
}

static const char *add_function(struct c99_unit *unit, struct module *m, uint32_t fn,
                                const struct pass_options *passes, const struct c99_options *o)
{
    struct lp *p = c99_lower(m, fn, passes);
    hop_cleanup_push(lp_free, p);
    const char *name = c99_add(unit, p, o);
    hop_cleanup_pop(p);
    lp_free(p);
    return name;
}

/* The function, and the one that makes what it is given of its constants. */
static void add_split(struct c99_unit *unit, struct module *m, const struct once_split *split,
                      const struct pass_options *passes, struct c99_options *o)
{
    struct arena *a = unit->arena;
    const struct fn *init = module_fn(m, split->init), *whole = module_fn(m, split->main);
    uint32_t n = whole->n_params, n_own = n - split->n_kept;
    const struct tensor **constants = ARENA_ZNEW(a, const struct tensor *, n);
    const struct tensor **inputs = ARENA_ZNEW(a, const struct tensor *, init->n_params);
    const char **params = ARENA_ZNEW(a, const char *, n), **kept = ARENA_ZNEW(a, const char *, split->n_kept);
    const char **read = ARENA_ZNEW(a, const char *, init->n_params);
    for (uint32_t p = 0; p < n; p++) {
        if (p < n_own && o->constants) constants[p] = o->constants[p];
        params[p] = p < n_own && o->params ? o->params[p] : fn_param_name(m, whole, p);
    }
    for (uint32_t k = 0; k < split->n_kept; k++) kept[k] = params[n_own + k];
    for (uint32_t i = 0; i < split->n_inputs; i++) {
        inputs[i] = constants[split->inputs[i]];
        read[i] = params[split->inputs[i]];
    }
    o->constants = constants;
    o->params = params;
    const char *wanted = o->name ? o->name : module_text(m, o->original->name);
    o->remark = arena_printf(a, "Its last parameters are what %.100s_init writes.", wanted);
    const char *name = add_function(unit, m, split->main, passes, o);
    struct c99_options first = {
        .name = arena_printf(a, "%s_init", name),
        .results = kept,
        .params = read,
        .constants = inputs,
        .capacity = o->capacity,
        .derived = true,
        .remark =
            arena_printf(a,
                         "What %s is given of its constants: once before its first call, and again when "
                         "one of them has changed.",
                         name)
    };
    add_function(unit, m, split->init, passes, &first);
}

void c99_function(struct module *m, uint32_t fn, const struct pass_options *passes,
                  const struct c99_options *o, const char *header_name, struct text *source,
                  struct text *header)
{
    struct c99_unit unit;
    struct c99_options options = *o;
    struct once_split split;
    options.original = module_fn(m, fn);
    c99_begin(&unit, source->arena, o->plain ? &c99_plain_dialect : &c99_own_dialect);
    if (once_split(source->arena, m, fn, &o->constant, &split)) add_split(&unit, m, &split, passes, &options);
    else add_function(&unit, m, fn, passes, &options);
    c99_finish(&unit, header_name, source, header);
}
