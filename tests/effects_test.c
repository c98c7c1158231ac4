/* Effects: sets of them, which of them commute, what a body's are around it; and that prints, callbacks and
 * checks happen as often and in the order in which the interpreter has them, whatever is done to a program.
 */
#include "check.h"
#include "ir/table.h"
#include "ir/text.h"

/* ---- sets ---- */

static void test_commute(void)
{
    const effect_set none = EFFECT_NONE, check = EFFECT_CHECK, io = EFFECT_IO, free = EFFECT_UNORDERED;
    const struct {
        effect_set a, b;
        bool commute;
        const char *what;
    } pairs[] = {
        { none, io | check | EFFECT_OBJECTS | free, true, "nothing and everything" },
        { io, io, false, "two prints" },
        { io, check, false, "a print and a check" },
        { check, check, false, "two checks" },
        { free, free, true, "two of no order" },
        { free, io, true, "one of no order and a print" },
        { free, check, false, "one of no order and a check" },
        { io, effect_writes(3), true, "a print and a write" },
        { check, effect_writes(3), false, "a check and a write" },
        { check, effect_reads(3), true, "a check and a read" },
        { check, EFFECT_WRITE_ANY, false, "a check and a write of any" },
        { effect_reads(2), effect_reads(2), true, "two reads of one object" },
        { effect_reads(2), effect_writes(2), false, "a read and a write of one object" },
        { effect_writes(2), effect_writes(2), false, "two writes of one object" },
        { effect_writes(2), effect_writes(1), true, "writes of two objects" },
        { effect_reads(2), effect_writes(1), true, "a read and a write of two objects" },
        { EFFECT_READ_ANY, effect_reads(1), true, "a read of any and a read" },
        { EFFECT_READ_ANY, effect_writes(1), false, "a read of any and a write" },
        { EFFECT_WRITE_ANY, effect_reads(1), false, "a write of any and a read" },
        { EFFECT_WRITE_ANY, effect_writes(1), false, "a write of any and a write" },
        { EFFECT_WRITE_ANY, EFFECT_READ_ANY, false, "a write of any and a read of any" },
        { EFFECT_READ_ANY, EFFECT_READ_ANY, true, "two reads of any" },
        { EFFECT_READ_ANY | effect_writes(1), effect_reads(2), true,
          "a read of any with a write, and a read" },
        { effect_reads(27), effect_writes(27), false, "the last that has bits" },
        { effect_writes(27), effect_writes(28), false, "the first that has none" },
        { effect_writes(100), effect_reads(5), false, "one that has none" },
    };
    for (size_t i = 0; i < HOP_COUNT(pairs); i++)
        for (int swapped = 0; swapped < 2; swapped++) {
            effect_set a = swapped ? pairs[i].b : pairs[i].a, b = swapped ? pairs[i].a : pairs[i].b;
            CLAIM(effects_commute(a, b) == pairs[i].commute, "%s%s: expected that they %s", pairs[i].what,
                  swapped ? ", swapped" : "", pairs[i].commute ? "commute" : "keep their order");
        }
    CLAIM(effects_may_drop(none) && effects_may_drop(effect_reads(0) | EFFECT_READ_ANY),
          "reads may be dropped");
    const effect_set kept[] = { check, io, free, effect_writes(0), EFFECT_WRITE_ANY };
    for (size_t i = 0; i < HOP_COUNT(kept); i++)
        CLAIM(!effects_may_drop(kept[i]) && !effects_are_none(kept[i]), "kept %zu may be dropped", i);
    CLAIM(effects_of_every_lane(io) && effects_of_every_lane(free) &&
              effects_of_every_lane(effect_writes(4)) && !effects_of_every_lane(check) &&
              !effects_of_every_lane(effect_reads(4)),
          "what every lane does");
}

static uint32_t one_less(uint32_t param, const void *ctx)
{
    return param == *(const uint32_t *)ctx ? HOP_NONE : param - 1;
}

static void test_mapped(void)
{
    uint32_t lost = 7;
    effect_set e = EFFECT_IO | effect_reads(1) | effect_writes(1) | effect_writes(5) | effect_reads(27);
    CLAIM(effects_mapped(e, one_less, &lost) ==
              (EFFECT_IO | effect_reads(0) | effect_writes(0) | effect_writes(4) | effect_reads(26)),
          "each object gets its number");
    CLAIM(effects_mapped(effect_writes(7) | EFFECT_CHECK, one_less, &lost) ==
              (EFFECT_WRITE_ANY | EFFECT_CHECK),
          "one that has no number is any");
    CLAIM(effects_mapped(EFFECT_READ_ANY, one_less, &lost) == EFFECT_READ_ANY, "any stays any");
}

/* ---- through regions ---- */

static struct module *read_module(const char *text) { return text_read("text", text, strlen(text)); }

static void set_effects(struct module *m, uint32_t fn, effect_set effects)
{
    ((struct fn *)(uintptr_t)module_fn(m, fn))->effects = effects;
}

/* The parameters of the last function are a, b, xs; the one node with regions is asked. */
static void claim_around(const char *what, const char *text, uint32_t region, effect_set inside,
                         effect_set around)
{
    struct module *m = read_module(text);
    const struct fn *f = module_fn(m, m->fns.len - 1);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (!n->n_regions) continue;
        for (uint32_t r = 0; r < n->n_regions; r++) set_effects(m, node_region(f, n, r)->fn, EFFECT_NONE);
        set_effects(m, node_region(f, n, region)->fn, inside);
        effect_set found = node_effects(m, f, n);
        CLAIM(found == around, "%s: expected %llx, found %llx", what, (unsigned long long)around,
              (unsigned long long)found);
    }
    module_free(m);
}

#define HEAD "hop 1\nfn @main(%a: f32[], %b: f32[], %xs: f32[3]) -> (f32[]) {\n"

static void test_regions(void *unused)
{
    static const char scan[] = HEAD
        "  %l, %m = scan carry(%c = %a, %d = %b) over(%x in %xs) with(%w = %b, %v = %a) {\n"
        "    %t = add(%c, %x)\n    %u = add(%w, %v)\n    %s = add(%t, %u)\n    next(%s, %d)\n  }\n  return "
        "%l\n}\n";
    HOP_UNUSED(unused);
    claim_around("a carry that changes", scan, 0, effect_writes(0), EFFECT_WRITE_ANY);
    claim_around("a carry that is handed on", scan, 0, effect_reads(1) | EFFECT_IO,
                 effect_reads(1) | EFFECT_IO);
    claim_around("a slice", scan, 0, effect_reads(2), EFFECT_READ_ANY);
    claim_around("own operands", scan, 0, effect_reads(3) | effect_writes(4),
                 effect_reads(1) | effect_writes(0));
    static const char loop[] = HEAD
        "  %l, %m = while_loop carry(%c = %a, %d = %b)\n"
        "    cond with(%w = %b) {\n      %p = lt(%c, %w)\n      test(%p)\n    }\n"
        "    body with(%w = %a) {\n      %n = add(%c, %w)\n      next(%n, %d)\n    }\n"
        "  return %l\n}\n";
    claim_around("a predicate's carry", loop, 0, effect_reads(0) | effect_reads(1),
                 EFFECT_READ_ANY | effect_reads(1));
    claim_around("a predicate's own", loop, 0, effect_reads(2), effect_reads(1));
    claim_around("a body's own", loop, 1, effect_writes(2), effect_writes(0));
    static const char chosen[] = HEAD
        "  %i = full {value = 1, dims = [], dtype = i64}\n  %z = neg(%b)\n"
        "  %l = switch(%i) [(%a, %z) {\n    %s = add(%a, %z)\n    yield(%s)\n  }, (%b) {\n"
        "    yield(%b)\n  }]\n  return %l\n}\n";
    claim_around("a branch", chosen, 0, effect_writes(0), effect_writes(0));
    claim_around("what is made", chosen, 0, effect_writes(1), EFFECT_WRITE_ANY);
    claim_around("another branch", chosen, 1, effect_writes(0), effect_writes(1));
}

/* ---- rows ---- */

static effect_set by_attributes(const struct module *m, const struct attr *attrs)
{
    HOP_UNUSED(m);
    return attrs[0].i ? effect_reads(0) | effect_writes(1) : EFFECT_CHECK;
}

static void test_rows(void *unused)
{
    const struct op_row row = { .name = "row", .effect = EFFECT_IO, .effects = by_attributes };
    struct module *m = read_module(HEAD "  return %a\n}\n");
    struct attr attr = { .kind = ATTR_INT, .i = 1 };
    const val operands[] = { 4, 2 };
    struct effects_in in = { .attrs = &attr, .operands = operands, .n_operands = 2, .n_params = 3 };
    HOP_UNUSED(unused);
    CLAIM(effects_of_parts(m, &row, &in) == (EFFECT_IO | EFFECT_READ_ANY | effect_writes(2)),
          "an operand that is no parameter is any object");
    in.n_params = 5;
    CLAIM(effects_of_parts(m, &row, &in) == (EFFECT_IO | effect_reads(4) | effect_writes(2)),
          "an operand that is a parameter is that object");
    attr.i = 0;
    CLAIM(effects_of_parts(m, &row, &in) == (EFFECT_IO | EFFECT_CHECK), "attributes say which");
    module_free(m);
}

/* ---- as text ---- */

static void test_text(void *unused)
{
    struct module *m = read_module(HEAD "  return %a\n}\n");
    uint32_t fn = m->fns.len - 1;
    struct text out = { .arena = &m->arena };
    HOP_UNUSED(unused);
    set_effects(m, fn,
                EFFECT_CHECK | EFFECT_IO | EFFECT_UNORDERED | effect_reads(0) | effect_writes(0) |
                    effect_writes(2) | EFFECT_READ_ANY | EFFECT_WRITE_ANY);
    text_print(m, fn, 0, &out);
    CLAIM(strstr(out.data, " effects(check, io, unordered, reads(%a), writes(%a), writes(%xs), reads(any), "
                           "writes(any)) {"),
          "printed: %s", out.data);
    module_free(m);
}

static void read_refused(void *ctx) { module_free(read_module(ctx)); }
static void refuse(const char *text, const char *message)
{
    hop_status status = attempt(read_refused, (void *)(uintptr_t)text);
    CLAIM(status == HOP_INVALID && strstr(hop_message(), message), "expected '%s', found %s", message,
          status ? hop_message() : "none");
}

static void test_wrong_text(void)
{
#define WITH(effects) "fn @main(%a: f32[], %b: f32[]) -> (f32[]) effects(" effects ") {\n  return %a\n}\n"
    refuse(WITH("reads(%b), writes(any)"),
           "written effects(reads(%b), writes(any)), but the body has effects()");
    refuse(WITH("writes(%c)"), "%c");
    refuse(WITH("writes(b)"), "expected");
    refuse(WITH("reads"), "expected '('");
    refuse(WITH("talks"), "expected an effect");
#undef WITH
}

static void guarded(const char *what, void (*work)(void *))
{
    hop_status status = attempt(work, NULL);
    CLAIM(status == HOP_OK, "%s: %s", what, hop_message());
}

int main(void)
{
    test_commute();
    test_mapped();
    guarded("regions", test_regions);
    guarded("rows", test_rows);
    guarded("text", test_text);
    test_wrong_text();
    return tests_end();
}
