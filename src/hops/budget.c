/* Checkpointing by budget: a body and a number of bytes come in, the price goes out at which its gradient
 * runs dear nodes again rather than keep their results, so that its memory stays within the budget and as
 * little as possible is run again.
 *
 * At each price a minimum cut (transform/partition.c) weighs bytes that are kept against the cost of running
 * nodes again (transform/cost.c), in bodies of loops and calls too, where both count once per trip. Memory is
 * not guessed: both halves are put together, simplified, lowered and planned as they would be compiled.
 * Between two neighbouring prices, of which one is within the budget, the nodes that come first pay the one
 * and the rest the other. */
#include "hops/budget.h"

#include "loop/lower.h"
#include "transform/simplify.h"
#include "transform/transform.h"

enum { PARTS = 256 };
static const uint8_t LEVELS = 12;
static const uint64_t MEMO_PEAK = 0x7065616b;

struct search {
    struct module *m;
    const struct fn *f;
    const bool *active, *wanted;
};

/* Bytes of a dim that the planner gave a slot; sizes that are not known are guessed. */
static int64_t slot_bytes(const struct module *m, const struct fn *f, dim d)
{
    enum { GUESSED = 64 * 64 };
    int64_t lo, hi;
    dim_range(m, f->symbols, d, &lo, &hi);
    return lo == hi ? lo : HOP_MAX(lo, HOP_MIN(hi, GUESSED));
}

static int64_t planned_bytes(const struct lp *p, const struct fn *f)
{
    if (p->arena_static) return p->arena_total;
    int64_t bytes = 0;
    for (uint32_t i = 0; i < p->slot_size.len; i++) bytes += slot_bytes(p->m, f, p->slot_size.data[i]);
    for (uint32_t i = 0; i < p->procedures.len; i++) {
        const struct lp *q = p->procedures.data[i];
        for (uint32_t k = 0; k < q->slot_size.len; k++) bytes += slot_bytes(p->m, f, q->slot_size.data[k]);
    }
    return bytes;
}

int64_t memory_of(struct module *m, uint32_t fn)
{
    const uint64_t key[4] = { MEMO_PEAK, fn, m->without };
    union memo_value known;
    if (memo_get(m, key, &known)) return known.number;
    struct pass_options options = { .without = m->without };
    struct lp *p = lower_and_plan(m, fn, &options);
    int64_t bytes = planned_bytes(p, module_fn(m, fn));
    lp_free(p);
    memo_put(m, key, (union memo_value){ .number = bytes });
    return bytes;
}

/* What both halves need at most at one time, arguments and results not counted; -1: sizes that only the body
 * knows decide. */
static int64_t memory_at(const struct search *s, struct price price)
{
    struct price_scope scope;
    price_begin(&scope, s->m, price);
    const struct vjp_halves *h = vjp_split(s->m, s->f->id, s->active, s->wanted, 0, false);
    price_end(&scope);
    /* A loss gets the cotangent 1, of which passes make something. */
    bool loss = s->f->n_results == 1 && !type_get(s->m, value_type(s->f, s->f->results[0])).rank;
    uint32_t joined = vjp_join(s->m, s->f, h, s->active, !loss, !loss);
    return joined == HOP_NONE ? -1 : memory_of(s->m, joined);
}

/* The fewest early nodes that pay the higher price: `all`, at which all nodes pay it, is within the budget,
 * one level below is not. */
static struct price refine(const struct search *s, struct price all, int64_t bytes)
{
    struct price found = all;
    uint32_t within = PARTS, beyond = 0;
    while (within - beyond > 1) {
        uint16_t part = (uint16_t)((within + beyond) / 2);
        struct price tried = {
            .level = all.level - 1, .early_level = all.level, .early_part = part, .segments = all.segments
        };
        if (memory_at(s, tried) <= bytes) {
            within = part;
            found = tried;
        } else {
            beyond = part;
        }
    }
    return found;
}

/* The lowest price that is within the budget: one level after the other; then, from the level that needs
 * least on, in segments: more may be run again at a time than it is worth. *least: what was needed at least.
 */
static bool find_level(const struct search *s, int64_t bytes, struct price *found, int64_t *least)
{
    static const uint16_t segments[] = { 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64 };
    uint8_t best = 0;
    for (uint8_t level = 1; level <= LEVELS; level++) {
        *found = (struct price){ .level = level };
        int64_t needs = memory_at(s, *found);
        if (needs <= bytes) return true;
        if (needs < *least) best = level;
        *least = HOP_MIN(*least, needs);
    }
    for (uint8_t level = HOP_MAX(best, 1); level <= LEVELS; level++)
        for (uint32_t i = 0; i < HOP_COUNT(segments); i++) {
            *found = (struct price){ .level = level, .segments = segments[i] };
            int64_t needs = memory_at(s, *found);
            if (needs <= bytes) return true;
            *least = HOP_MIN(*least, needs);
        }
    return false;
}

static struct price find_price(const struct search *s, const struct budget *budget, const struct node *n)
{
    int64_t free = memory_at(s, (struct price){ 0 }), least = free;
    int64_t bytes = budget->bytes ? budget->bytes : (int64_t)(budget->share * (double)free);
    struct price found = { 0 };
    if (free < 0 || free <= bytes) return found;
    if (find_level(s, bytes, &found, &least)) return refine(s, found, bytes);
    char share[64] = "";
    if (!budget->bytes) snprintf(share, sizeof share, " (%lld bytes)", (long long)bytes);
    hop_throw(
        HOP_INVALID,
        "%sinvoke_subgraph: policy \"%s\"%s: its gradient needs at least %lld bytes (%.0f%%), without a "
        "policy %lld%s",
        place_text(s->m, n->place), budget->text, share, (long long)least,
        100.0 * (double)least / (double)free + 0.5, (long long)free, place_stack(s->m, n->place));
}

struct price budget_price(struct module *m, uint32_t fn, const struct budget *budget, const struct node *n,
                          const bool *active, const bool *wanted)
{
    const struct fn *f = module_fn(m, fn);
    uint32_t n_mask = f->n_params + f->n_results;
    bool *mask = ARENA_NEW(&m->arena, bool, n_mask);
    if (f->n_params) memcpy(mask, active, f->n_params);
    if (f->n_results) memcpy(mask + f->n_params, wanted, f->n_results);
    struct price *known = transform_recall(m, MEMO_BUDGET, fn, budget->id, mask, n_mask);
    if (known) return *known;
    struct price_scope scope;
    price_begin(&scope, m, (struct price){ 0 });
    struct search s = { m, f, active, wanted };
    struct price found = find_price(&s, budget, n);
    price_end(&scope);
    known = arena_copy(&m->arena, &found, sizeof found);
    transform_remember(m, MEMO_BUDGET, fn, budget->id, mask, n_mask, known);
    return found;
}
