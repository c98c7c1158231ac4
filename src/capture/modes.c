/* Modes: no_grad and autocast act on each node as it is made, so that nobody behind the capture knows of
 * them.
 *
 * Under no_grad a node is made as it is, and its results are noted to be constants. Where such a value is
 * used by something that is differentiated, or leaves the function, it goes through stop_gradient, once. So a
 * loop under no_grad has no node more in its body, and what is computed from constants needs none at all. */
#include "capture/capture.h"

/* ---- of a thread ---- */

enum { MOST_MODES = 64 };
struct begun {
    const char *name;
    hop_place at;
    uint8_t before;
};
static _Thread_local uint8_t modes;
static _Thread_local uint32_t depth;
static _Thread_local struct begun begun[MOST_MODES];

unsigned hop_modes(void) { return modes; }
unsigned hop_modes_set(unsigned now)
{
    unsigned before = modes;
    modes = (uint8_t)(now & (HOP_NO_GRAD | HOP_AUTOCAST | HOP_PROBED | HOP_DEBUG_INFINITIES));
    return before;
}

struct modes_mark modes_mark(void) { return (struct modes_mark){ modes, depth }; }
void modes_restore(struct modes_mark m)
{
    modes = m.modes;
    depth = HOP_MIN(depth, m.depth);
}

static int begin(hop_place at, const char *name, unsigned without, unsigned with)
{
    if (depth == MOST_MODES) return hop_fail_at(at, "modes are nested more than 64 deep: end some");
    begun[depth++] = (struct begun){ name, at, modes };
    modes = (uint8_t)((modes & ~without) | with);
    return HOP_OK;
}

int hop_no_grad_begin_at(hop_place at) { return begin(at, "no_grad", 0, HOP_NO_GRAD); }
int hop_enable_grad_begin_at(hop_place at) { return begin(at, "enable_grad", HOP_NO_GRAD, 0); }

int hop_autocast_begin_at(hop_place at, const char *dtype)
{
    static const struct {
        const char *dtype;
        unsigned mode;
    } all[] = { { "bf16", HOP_AUTOCAST_BF16 }, { "f16", HOP_AUTOCAST_F16 }, { "f32", HOP_AUTOCAST_F32 } };
    if (!dtype) return begin(at, "autocast", HOP_AUTOCAST, 0);
    for (size_t i = 0; i < HOP_COUNT(all); i++)
        if (!strcmp(dtype, all[i].dtype)) return begin(at, "autocast", HOP_AUTOCAST, all[i].mode);
    char text[128];
    snprintf(text, sizeof text, "autocast: expected bf16, f16 or f32, found %.40s", dtype);
    return hop_fail_at(at, text);
}

int hop_mode_end_at(hop_place at)
{
    const struct capture *c = capture_current();
    uint32_t least = c && c->innermost ? c->innermost->modes.depth : 0;
    if (depth > least) {
        modes = begun[--depth].before;
        return HOP_OK;
    }
    if (!depth) return hop_fail_at(at, "mode_end: no mode has begun");
    char text[256];
    const struct begun *last = &begun[depth - 1];
    snprintf(text, sizeof text, "mode_end: %s ends the mode %s, which began outside of it, at %.100s:%d",
             c->innermost->what, last->name, last->at.file ? last->at.file : "", last->at.line);
    return hop_fail_at(at, text);
}

/* ---- of a scope ---- */

/* What a value is to derivatives. */
enum gradient {
    FLOWS,   /* they pass through, as far as anybody knows here */
    WAITING, /* made under no_grad: a constant once it has gone through stop_gradient */
    CONSTANT
};

static enum gradient gradient_of(const struct scope_modes *m, val v)
{
    return v < m->is.len ? (enum gradient)m->is.data[v] : FLOWS;
}

static void note(struct builder *b, struct scope_modes *m, val v, enum gradient is)
{
    if (v >= m->is.len && is == FLOWS) return;
    while (m->is.len <= v) vec_push(&b->arena, &m->is, FLOWS);
    m->is.data[v] = (uint8_t)is;
}

static bool is_float(const struct builder *b, val v)
{
    return dtype_is_float((enum dtype)type_get(b->m, builder_type(b, v)).dtype);
}

/* What an operator makes of a value, VAL_NONE: it has not been made. What was noted of a call that failed may
 * speak of another value by now. */
static val made_of(const struct builder *b, const val_list *list, val v, enum op op)
{
    val known = v < list->len ? list->data[v] : VAL_NONE;
    if (known >= b->values.len || b->values.data[known].node == NODE_NONE) return VAL_NONE;
    const struct node *n = &b->nodes.data[b->values.data[known].node];
    return n->op == op && b->pool.data[n->operands] == v ? known : VAL_NONE;
}

static val remember(struct builder *b, val_list *list, val v, val made)
{
    while (list->len <= v) vec_push(&b->arena, list, VAL_NONE);
    return list->data[v] = made;
}

/* The value as a constant. */
static val stopped(struct builder *b, struct scope_modes *m, val v)
{
    if (gradient_of(m, v) != WAITING) return v;
    val known = made_of(b, &m->stopped, v, OP_stop_gradient);
    return known != VAL_NONE ? known : remember(b, &m->stopped, v, emit1(b, OP_stop_gradient, v));
}

/* The value in another dtype. In f32 it is one value for all who use it, so that their cotangents are added
 * in f32; in a lower dtype each has its own, for the same reason. cse makes one of those that are left. */
static val cast_to(struct builder *b, struct scope_modes *m, val v, enum dtype t)
{
    if (t != DT_F32) return emit_cast(b, v, t);
    val known = made_of(b, &m->raised, v, OP_cast);
    bool same = known != VAL_NONE && emit_type(b, known).dtype == DT_F32;
    return same ? known : remember(b, &m->raised, v, emit_cast(b, v, t));
}

static const val *all_stopped(struct builder *b, struct scope_modes *m, const val *values, uint32_t n)
{
    bool any = false;
    for (uint32_t i = 0; i < n; i++) any |= gradient_of(m, values[i]) == WAITING;
    if (!any) return values;
    val *out = ARENA_NEW(&b->arena, val, n);
    for (uint32_t i = 0; i < n; i++) out[i] = stopped(b, m, values[i]);
    return out;
}

/* Whether derivatives pass through what is made now. */
static bool passes(const struct scope_modes *m, const struct node_in *in)
{
    return !(m->now & HOP_NO_GRAD) || (op_table[in->op]->flags & OPF_HIGHER && m->inside);
}

static void stop_operands(struct builder *b, struct scope_modes *m, struct node_in *in)
{
    in->operands = all_stopped(b, m, in->operands, in->n_operands);
    struct region_in *regions = ARENA_NEW(&b->arena, struct region_in, in->n_regions);
    for (uint32_t r = 0; r < in->n_regions; r++) {
        regions[r] = in->regions[r];
        regions[r].operands = all_stopped(b, m, regions[r].operands, regions[r].n_operands);
    }
    if (in->n_regions) in->regions = regions;
}

static enum dtype low_dtype(unsigned now)
{
    unsigned cast = now & HOP_AUTOCAST;
    if (cast == HOP_AUTOCAST_F32) return DT_F32;
    return cast == HOP_AUTOCAST_BF16 ? DT_BF16 : DT_F16;
}

enum dtype modes_dtype(const struct builder *b, enum op op, enum dtype t)
{
    const struct scope_modes *m = b->hooks ? b->hooks_of : NULL;
    bool casts = m && m->now & HOP_AUTOCAST && dtype_is_float(t) && dtype_info[t].size <= 4;
    if (!casts || op_table[op]->autocast == AUTOCAST_KEEP) return t;
    return op_table[op]->autocast == AUTOCAST_LOW ? low_dtype(m->now) : DT_F32;
}

static void cast_operands(struct builder *b, struct node_in *in)
{
    if (op_table[in->op]->autocast == AUTOCAST_KEEP) return;
    val *out = ARENA_NEW(&b->arena, val, in->n_operands);
    for (uint32_t i = 0; i < in->n_operands; i++) {
        enum dtype t = (enum dtype)emit_type(b, in->operands[i]).dtype;
        out[i] = cast_to(b, b->hooks_of, in->operands[i], modes_dtype(b, (enum op)in->op, t));
    }
    in->operands = out;
}

static void before(struct builder *b, struct node_in *in)
{
    struct scope_modes *m = b->hooks_of;
    struct place place = b->place;
    if (in->place.line) b->place = in->place;
    if (m->now & HOP_AUTOCAST) cast_operands(b, in);
    if (m->tracks && passes(m, in) && in->op != OP_stop_gradient) stop_operands(b, m, in);
    b->place = place;
}

/* Whether nothing that a node is made of has derivatives. */
static bool of_constants(const struct builder *b, const struct scope_modes *m, const struct node_in *in)
{
    bool constant = true;
    for (uint32_t i = 0; i < in->n_operands; i++)
        constant &= !is_float(b, in->operands[i]) || gradient_of(m, in->operands[i]) == CONSTANT;
    for (uint32_t r = 0; r < in->n_regions; r++)
        for (uint32_t i = 0; i < in->regions[r].n_operands; i++) {
            val v = in->regions[r].operands[i];
            constant &= !is_float(b, v) || gradient_of(m, v) == CONSTANT;
        }
    return constant;
}

static void after(struct builder *b, const struct node_in *in, val first, uint32_t n)
{
    struct scope_modes *m = b->hooks_of;
    if (!m->tracks) return;
    const struct op_row *row = op_table[in->op];
    bool constant = row->no_gradient || of_constants(b, m, in);
    enum gradient is = passes(m, in) ? FLOWS : WAITING;
    if (row->flags & OPF_HIGHER) m->inside = false;
    for (uint32_t i = 0; i < n; i++) {
        enum gradient one = constant || !is_float(b, first + i) ? CONSTANT : is;
        m->enabled |= one == FLOWS && m->begin & HOP_NO_GRAD;
        note(b, m, first + i, one);
    }
}

static const struct node_hooks hooks = { before, after };

static void hook(struct builder *b, struct scope_modes *m)
{
    bool works = m->now || m->tracks;
    b->hooks = works ? &hooks : NULL;
    b->hooks_of = works ? m : NULL;
}

void modes_set(struct scope *s)
{
    s->modes.now = modes;
    s->modes.tracks |= modes & HOP_NO_GRAD;
    hook(&s->b, &s->modes);
}

void modes_open(struct scope *s)
{
    s->modes = (struct scope_modes){ .begin = modes, .depth = depth };
    modes_set(s);
}

void modes_of_call(struct builder *b, struct scope_modes *room)
{
    *room = (struct scope_modes){ .now = modes & HOP_AUTOCAST };
    hook(b, room);
}

void modes_close(struct scope *s, const char *what)
{
    if (depth > s->modes.depth) {
        const struct begun *left = &begun[depth - 1];
        capture_throw("%s ends inside of the mode %s, which began at %s: end it there (hop_mode_end)", what,
                      left->name, capture_place_text(&s->capture->arena, left->at));
    }
    if (modes != s->modes.begin) capture_throw("%s ends under other modes than it began with", what);
    modes_set(s);
}

void modes_lifted(struct scope *s, val here, val outer)
{
    if (s->modes.tracks && gradient_of(&s->outer->modes, outer) == CONSTANT)
        note(&s->b, &s->modes, here, CONSTANT);
}

const val *modes_results(struct scope *s, const val *results, uint32_t n)
{
    struct scope_modes *m = &s->modes;
    bool whole = s->outer && m->begin & HOP_NO_GRAD && !m->enabled; /* what it belongs to is waiting itself */
    return whole || !m->tracks ? results : all_stopped(&s->b, m, results, n);
}

val modes_like(struct builder *b, val v, enum dtype t)
{
    const struct scope_modes *m = b->hooks ? b->hooks_of : NULL;
    bool casts = m && m->now & HOP_AUTOCAST && dtype_is_float(t) && is_float(b, v);
    return casts ? emit_cast(b, v, t) : v;
}
