/* Which bodies are put in place of their calls, and which are called. By size: a small one costs little more
 * in place than its call, and passes and nests work across its edges there; of a large one every copy is
 * LLVM's time and code. A call costs some tens of nanoseconds, for addresses that are handed over and for
 * values that lie in memory instead of registers: a body that does some thousand operations hides that, a
 * smaller one is shared only where there would be very much of it, in a loop even more. docs/compile-time.md
 * says what was measured. */
#include "transform/sharing.h"

#include "ir/table.h"

enum {
    SMALL_BODY = 12,   /* code that is always put in place */
    LOOP_CODE = 12,    /* of a loop besides its step: bounds, carries, what moves in front of it and behind */
    DEEPEST_BODY = 64, /* bodies in bodies below which a body is not small */
    HIDES_A_CALL = 8192,  /* work of a body beside which its call disappears */
    MUCH_CODE = 2000,     /* in all copies together: shared whatever it does … */
    MUCH_IN_LOOPS = 10000 /* … if a loop calls it */
};

uint64_t own_code(const struct fn *f)
{
    uint64_t code = f->n_nodes;
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (node_row(fn_node(f, i))->loop) code += LOOP_CODE;
    return code;
}

static uint64_t code_down_to(const struct module *m, const struct fn *f, uint64_t limit, uint32_t depth)
{
    if (depth > DEEPEST_BODY) return limit + 1;
    uint64_t code = own_code(f);
    for (uint32_t r = 0; r < f->n_regions && code <= limit; r++)
        code += code_down_to(m, module_fn(m, f->regions[r].fn), limit, depth + 1);
    return code;
}

uint64_t body_code(const struct module *m, const struct fn *f, uint64_t limit)
{
    return code_down_to(m, f, limit, 0);
}

uint64_t small_body_code(void) { return SMALL_BODY; }

/* Is it better compiled once? */
static bool sharing_pays(const struct shared_body *b)
{
    if (b->code <= SMALL_BODY || b->copies < 2) return false;
    uint64_t much = b->in_loop ? MUCH_IN_LOOPS : MUCH_CODE;
    return b->work >= HIDES_A_CALL || b->copies >= much / b->code;
}

enum placing place_call(bool over_budget, enum inlining written, const struct shared_body *b)
{
    if (over_budget) return CALLED_FOR_BUDGET;
    if (written != INLINE_UNSAID) return written == INLINE_YES ? PLACED_AS_WRITTEN : CALLED_AS_WRITTEN;
    return sharing_pays(b) ? CALLED_FOR_SIZE : PLACED_FOR_SIZE;
}

const char *placing_reason(enum placing p)
{
    if (p == CALLED_FOR_BUDGET) return "in place the program would be too large";
    return p == CALLED_AS_WRITTEN || p == PLACED_AS_WRITTEN ? "as written" : "by its size";
}
