/* Sets of effects: those of a node from its row, its attributes and its bodies, and which of them commute. */
#include "ir/effects.h"

#include "ir/loop.h"

effect_set effects_mapped(effect_set effects, uint32_t (*number)(uint32_t param, const void *ctx),
                          const void *ctx)
{
    effect_set of_any = EFFECT_READ_ANY | EFFECT_WRITE_ANY, out = effects & (~EFFECT_OBJECTS | of_any);
    if (out == effects) return out;
    for (uint32_t k = 0; k < EFFECT_PARAMS; k++) {
        bool reads = effects & effect_reads(k), writes = effects & effect_writes(k);
        if (!reads && !writes) continue;
        uint32_t param = number(k, ctx);
        if (reads) out |= effect_reads(param);
        if (writes) out |= effect_writes(param);
    }
    return out;
}

/* Does the first write an object that the second reads or writes? */
static bool writes_accessed(effect_set a, effect_set b)
{
    if (a & EFFECT_WRITE_ANY && b & EFFECT_OBJECTS) return true;
    if (a & EFFECT_WRITES && b & (EFFECT_READ_ANY | EFFECT_WRITE_ANY)) return true;
    effect_set written = (a & EFFECT_WRITES) >> EFFECT_FIRST_WRITE;
    return written & ((b & EFFECT_WRITES) >> EFFECT_FIRST_WRITE | (b & EFFECT_READS) >> EFFECT_FIRST_READ);
}

bool effects_commute(effect_set a, effect_set b)
{
    const effect_set in_order = EFFECT_CHECK | EFFECT_IO;
    const effect_set seen = in_order | EFFECT_UNORDERED | EFFECT_WRITES;
    if (a & in_order && b & in_order) return false;
    if ((a & EFFECT_CHECK && b & seen) || (b & EFFECT_CHECK && a & seen)) return false;
    return !writes_accessed(a, b) && !writes_accessed(b, a);
}

/* ---- of a node ---- */

/* A node, in a function or on its way there. */
struct effects_of {
    const struct module *m;
    const struct op_row *row;
    const struct effects_in *in;
    uint32_t region; /* HOP_NONE: the node itself */
};

static uint32_t param_number(const struct effects_of *e, val v) { return v < e->in->n_params ? v : HOP_NONE; }

/* Is carry i given back by the step as it came? */
static bool is_handed_on(const struct effects_of *e, uint32_t i)
{
    if (!e->row->loop) return false;
    const struct fn *step = module_fn(e->m, e->in->regions[e->row->loop->region.body - 1].fn);
    return i < step->n_results && step->results[i] == i;
}

/* The parameter of the function around that parameter p of the region is, HOP_NONE: none. */
static uint32_t param_around(uint32_t p, const void *ctx)
{
    const struct effects_of *e = ctx;
    const struct effects_in *in = e->in;
    if (e->region == HOP_NONE) return p < in->n_operands ? param_number(e, in->operands[p]) : HOP_NONE;
    const struct region *region = &in->regions[e->region];
    uint32_t at = 0, first = 0;
    for (uint32_t g = 0; g < e->row->sig.n_groups; g++) {
        uint32_t n = in->groups[g], fed = n * sig_group_feeds(e->row, g);
        bool feeds = sig_region(e->row, e->region)->feeds >> g & 1;
        if (feeds && p < first + fed) {
            bool same = e->row->sig.groups[g].kind == GROUP_CARRY && is_handed_on(e, p);
            return same ? param_number(e, in->operands[at + p - first]) : HOP_NONE;
        }
        at += n;
        if (feeds) first += fed;
    }
    p -= first;
    return p < region->n_operands ? param_number(e, in->operands[region->operands + p]) : HOP_NONE;
}

effect_set effects_of_parts(const struct module *m, const struct op_row *row, const struct effects_in *in)
{
    if (!in->n_regions && !row_may_have_effects(row)) return EFFECT_NONE;
    struct effects_of e = { m, row, in, HOP_NONE };
    effect_set effects = effects_mapped(row_effects(m, row, in->attrs), param_around, &e);
    for (e.region = 0; e.region < in->n_regions; e.region++)
        effects |= effects_mapped(module_fn(m, in->regions[e.region].fn)->effects, param_around, &e);
    return effects;
}

bool effects_may_meet(const struct module *m, const struct op_row *row, const struct effects_in *in,
                      uint32_t r)
{
    const struct fn *body = module_fn(m, in->regions[r].fn);
    struct effects_of e = { m, row, in, r };
    for (uint32_t p = 0; p < HOP_MIN(body->n_params, EFFECT_PARAMS); p++) {
        effect_set of_p = body->effects & (effect_reads(p) | effect_writes(p));
        for (uint32_t q = 0; of_p && q < p; q++) {
            effect_set of_q = body->effects & (effect_reads(q) | effect_writes(q));
            if (!of_q || !((of_p | of_q) & EFFECT_WRITES) || value_type(body, p) != value_type(body, q))
                continue;
            uint32_t x = param_around(p, &e), y = param_around(q, &e);
            if (x == HOP_NONE || y == HOP_NONE || x == y) return true;
        }
    }
    return false;
}

effect_set node_effects(const struct module *m, const struct fn *f, const struct node *n)
{
    const struct op_row *row = node_row(n);
    struct effects_in in = { .attrs = f->attrs + n->attrs,
                             .operands = node_operands(f, n),
                             .n_operands = n->n_operands,
                             .groups = f->pool + n->groups,
                             .regions = f->regions + n->regions,
                             .n_regions = n->n_regions,
                             .n_params = f->n_params };
    return effects_of_parts(m, row, &in);
}

/* ---- as text ---- */

static const struct {
    const char *word;
    effect_set bit;
} effect_words[] = { { "check", EFFECT_CHECK }, { "io", EFFECT_IO }, { "unordered", EFFECT_UNORDERED } };

const char *effects_word(effect_set e)
{
    if (e & (EFFECT_IO | EFFECT_WRITES)) return "io";
    if (e & EFFECT_UNORDERED) return e & EFFECT_CHECK ? "io" : "unordered";
    return e & EFFECT_CHECK ? "check" : "none";
}

effect_set effect_of_word(const char *word, size_t length)
{
    for (uint32_t i = 0; i < HOP_COUNT(effect_words); i++)
        if (strlen(effect_words[i].word) == length && !memcmp(effect_words[i].word, word, length))
            return effect_words[i].bit;
    return EFFECT_NONE;
}

static void begin_word(struct text *out, bool *first)
{
    if (!*first) text_str(out, ", ");
    *first = false;
}

static void add_access(struct text *out, bool *first, const char *does, uint32_t param, effect_namer *name,
                       void *ctx)
{
    begin_word(out, first);
    text_add(out, "%s(", does);
    if (param == HOP_NONE) text_str(out, "any");
    else name(out, param, ctx);
    text_str(out, ")");
}

void effects_text(struct text *out, effect_set effects, effect_namer *name, void *ctx)
{
    bool first = true;
    text_str(out, "effects(");
    for (uint32_t i = 0; i < HOP_COUNT(effect_words); i++) {
        if (!(effects & effect_words[i].bit)) continue;
        begin_word(out, &first);
        text_str(out, effect_words[i].word);
    }
    for (uint32_t k = 0; k < EFFECT_PARAMS; k++) {
        if (effects & effect_reads(k)) add_access(out, &first, "reads", k, name, ctx);
        if (effects & effect_writes(k)) add_access(out, &first, "writes", k, name, ctx);
    }
    if (effects & EFFECT_READ_ANY) add_access(out, &first, "reads", HOP_NONE, name, ctx);
    if (effects & EFFECT_WRITE_ANY) add_access(out, &first, "writes", HOP_NONE, name, ctx);
    text_str(out, ")");
}
