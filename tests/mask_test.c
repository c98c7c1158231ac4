/* What flex_bounds.c says about blocks of masks, against the mask asked for every element: it may leave a
 * block undecided, but is never wrong. Random masks (arithmetic of indices, captured arrays with values of
 * every size, comparisons and connectives), and the usual ones (causal, window, prefix, documents, lengths,
 * pages), of which no block may stay undecided.
 *
 * mask_test [FIRST [COUNT]]: random masks; closes with `N passed, M failed`. */
#include "check.h"

#include "check/check.h"
#include "hops/flex.h"
#include "interp/interp.h"

#include <stdlib.h>

enum { ROWS = 4, COLUMNS = 5, LENGTH = 23, TABLE = 7 };

static uint64_t state;
static uint32_t draw(uint32_t n) /* below n */
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33) % n;
}

#define HEADER \
    "hop 1\nfn @mask(%s: f32[], %b: i64[], %h: i64[], %i: i64[], %j: i64[], %d: i64[23], %e: i32[7], " \
    "%t: bool[23], %n: i64[2, 3], %f: f32[23], %u: u8[23]) -> (bool[]) {\n"
static const enum dtype own_dtypes[] = { DT_I64, DT_I32, DT_BOOL, DT_I64, DT_F32, DT_U8 };
static const int64_t own_sizes[][2] = { { LENGTH, 0 }, { TABLE, 0 },  { LENGTH, 0 },
                                        { 2, 3 },      { LENGTH, 0 }, { LENGTH, 0 } };

/* ---- random bodies ---- */

enum { MOST = 40 };
struct pool {
    struct text *t;
    uint32_t n;
    char names[MOST][8];
};
/* Often one of the latest, so that what is made of one another gets deep. */
static const char *drawn(const struct pool *p)
{
    uint32_t latest = HOP_MIN(p->n, 3);
    return p->names[draw(2) ? p->n - 1 - draw(latest) : draw(p->n)];
}
static const char *add_name(struct pool *p, const char *letter, uint32_t number)
{
    snprintf(p->names[p->n], sizeof p->names[0], "%%%s%u", letter, number);
    return p->names[p->n++];
}

static void add_integer(struct pool *p, const struct pool *bools, uint32_t k)
{
    static const char *const binary[] = {
        "add", "sub", "mul", "min", "max", "div", "floor_div", "rem", "mod"
    };
    static const int64_t constants[] = { 0, 1, -1, 2, 3, 4, 7, -5, 1 << 20, (int64_t)1 << 62, INT64_MIN };
    struct text *t = p->t;
    const char *x = drawn(p), *y = drawn(p), *c = bools->n ? drawn(bools) : NULL;
    switch (draw(13)) {
    case 0:
        text_add(t, "%%k%u = full {value = %lld, dims = [], dtype = i64}\n", k,
                 (long long)constants[draw(HOP_COUNT(constants))]);
        break;
    case 1: text_add(t, "%%k%u = %s(%s)\n", k, draw(2) ? "neg" : "abs", x); break;
    case 2: text_add(t, "%%k%u = gather {dims = [0]} (%%d, %s)\n", k, x); break;
    case 3:
        text_add(t, "%%p%u = gather {dims = [0]} (%%e, %s)\n%%q%u = add(%%p%u, %%p%u)\n", k, x, k, k, k);
        text_add(t, "%%k%u = cast {dtype = i64} (%%q%u)\n", k, k);
        break;
    case 4: text_add(t, "%%k%u = gather {dims = [0, 1]} (%%n, %s, %s)\n", k, draw(2) ? "%b" : x, y); break;
    case 5:
        if (c && draw(2)) text_add(t, "%%k%u = select(%s, %s, %s)\n", k, c, x, y);
        else text_add(t, "%%p%u = cast {dtype = i8} (%s)\n%%k%u = cast {dtype = i64} (%%p%u)\n", k, x, k, k);
        break;
    case 6:
        text_add(t, "%%p%u = gather {dims = [0]} (%%u, %s)\n%%q%u = max(%%p%u, %%p%u)\n", k, x, k, k, k);
        text_add(t, "%%k%u = cast {dtype = i64} (%%q%u)\n", k, k);
        break;
    default: text_add(t, "%%k%u = %s(%s, %s)\n", k, binary[draw(HOP_COUNT(binary))], x, y);
    }
    add_name(p, "k", k);
}

static void add_bool(struct pool *p, const struct pool *integers, uint32_t k)
{
    static const char *const compare[] = { "eq", "ne", "lt", "le", "gt", "ge" };
    static const char *const connect[] = { "and", "or", "xor" };
    struct text *t = p->t;
    const char *x = drawn(integers), *y = drawn(integers);
    uint32_t kind = draw(p->n > 1 ? 8 : 5);
    if (kind == 0) text_add(t, "%%m%u = gather {dims = [0]} (%%t, %s)\n", k, x);
    else if (kind == 1)
        text_add(t,
                 "%%p%u = gather {dims = [0]} (%%f, %s)\n%%q%u = cast {dtype = f32} (%s)\n"
                 "%%m%u = lt(%%p%u, %%q%u)\n",
                 k, x, k, y, k, k, k);
    else if (kind == 2) text_add(t, "%%m%u = cast {dtype = bool} (%s)\n", k, x);
    else if (kind < 5) text_add(t, "%%m%u = %s(%s, %s)\n", k, compare[draw(6)], x, y);
    else if (kind == 5) text_add(t, "%%m%u = not(%s)\n", k, drawn(p));
    else text_add(t, "%%m%u = %s(%s, %s)\n", k, connect[draw(3)], drawn(p), drawn(p));
    add_name(p, "m", k);
}

static void random_mask(struct text *t)
{
    struct pool integers = { .t = t, .n = 5, .names = { "%i", "%j", "%b", "%h", "%i" } };
    struct pool bools = { .t = t };
    uint32_t steps = 3 + draw(16);
    text_str(t, HEADER);
    add_bool(&bools, &integers, 0);
    for (uint32_t k = 1; k < steps; k++) {
        if (draw(2)) add_integer(&integers, &bools, k);
        else add_bool(&bools, &integers, k);
    }
    text_add(t, "return %s\n}\n", bools.names[bools.n - 1]);
}

/* ---- comparing ---- */

struct asked {
    struct bag *bag;
    struct module *m;
    uint32_t mask, classes;
    struct tensor *args[FLEX_N_FROM + 8]; /* of the mask; own arrays behind the indices */
    uint32_t n_own;
};

static int64_t run_on_integers(struct asked *a, uint32_t fn, const int64_t *integers, uint32_t n, bool score)
{
    struct tensor *args[16], *out = NULL;
    uint32_t first = score ? 1 : 0;
    if (score) args[0] = a->args[0];
    for (uint32_t k = 0; k < n; k++) {
        args[first + k] = bag_new(a->bag, DT_I64, 0, NULL);
        *(int64_t *)args[first + k]->data = integers[k];
    }
    for (uint32_t k = 0; k < a->n_own; k++) args[first + n + k] = a->args[FLEX_N_FROM + k];
    struct interp in = { .m = a->m };
    interp_run(&in, fn, args, NULL, &out);
    bag_keep(a->bag, out);
    return out->dtype == DT_BOOL ? *(const uint8_t *)out->data : *(const int64_t *)out->data;
}

static enum flex_class class_by_elements(struct asked *a, const int64_t *at)
{
    uint32_t held = 0, all = 0;
    for (int64_t i = at[2]; i <= at[3]; i++)
        for (int64_t j = at[4]; j <= at[5]; j++, all++)
            held += run_on_integers(a, a->mask, (int64_t[]){ at[0], at[1], i, j }, 4, true) != 0;
    return held == all ? FLEX_ALL : held ? FLEX_SOME : FLEX_NONE;
}

static void fill_own(struct asked *a, bool huge)
{
    static const int64_t large[] = { INT64_MAX, INT64_MIN, (int64_t)1 << 62, -((int64_t)1 << 31), 1 << 30 };
    a->n_own = HOP_COUNT(own_dtypes);
    a->args[0] = bag_new(a->bag, DT_F32, 0, NULL);
    for (uint32_t k = 0; k < a->n_own; k++) {
        uint32_t rank = own_sizes[k][1] ? 2 : 1;
        struct tensor *t = a->args[FLEX_N_FROM + k] = bag_new(a->bag, own_dtypes[k], rank, own_sizes[k]);
        for (int64_t i = 0; i < t->count; i++) {
            int64_t v = t->dtype == DT_BOOL ? draw(4) != 0
                        : t->dtype == DT_U8 ? draw(256)
                                            : (int64_t)draw(9) - 2;
            if (huge && !draw(3) && t->dtype != DT_BOOL && t->dtype != DT_U8) v = large[draw(5)];
            if (t->dtype == DT_I64) ((int64_t *)t->data)[i] = v;
            else if (t->dtype == DT_I32)
                ((int32_t *)t->data)[i] = (int32_t)HOP_MAX(HOP_MIN(v, INT32_MAX), INT32_MIN);
            else tensor_set(t, i, (double)v);
        }
    }
}

/* Blocks of a mask; returns how many are undecided. */
static uint32_t compare(struct asked *a, const char *what, uint32_t blocks, const char *text)
{
    static const char *const names[] = { "none", "some", "all", "undecided" };
    uint32_t undecided = 0;
    for (uint32_t k = 0; k < blocks; k++) {
        int64_t i = draw(20) ? draw(LENGTH) : -(int64_t)draw(9), j = draw(LENGTH);
        int64_t at[6] = { draw(2), draw(3), i, i + draw(ROWS), j, j + draw(COLUMNS) };
        enum flex_class found = (enum flex_class)run_on_integers(a, a->classes, at, 6, false);
        undecided += found == FLEX_UNDECIDED;
        if (found == FLEX_UNDECIDED) continue;
        enum flex_class expected = class_by_elements(a, at);
        CLAIM(found == expected,
              "%s: batch %d, head %d, queries %d to %d, keys %d to %d: found %s, expected %s\n%s", what,
              (int)at[0], (int)at[1], (int)at[2], (int)at[3], (int)at[4], (int)at[5], names[found],
              names[expected], text);
    }
    return undecided;
}

static uint32_t check_text(const char *what, const char *text, bool sorted, uint32_t blocks)
{
    struct bag bag = { 0 };
    struct asked a = { .bag = &bag };
    hop_cleanup_push(bag_free, &bag);
    a.m = text_read("mask", text, strlen(text));
    hop_cleanup_push(module_free, a.m);
    a.mask = module_find(a.m, "mask");
    a.classes = flex_classes(a.m, a.mask, (dim[]){ dim_const(a.m, ROWS), dim_const(a.m, COLUMNS) });
    fill_own(&a, !sorted && draw(2));
    int64_t *documents = a.args[FLEX_N_FROM]->data;
    for (int64_t i = 1; sorted && i < LENGTH; i++) documents[i] = documents[i - 1] + !draw(6);
    uint32_t undecided = compare(&a, what, blocks, text);
    hop_cleanup_pop(a.m);
    module_free(a.m);
    hop_cleanup_pop(&bag);
    bag_free(&bag);
    return undecided;
}

/* Numbers that wrap, signs of remainders: blocks may stay undecided, and are not wrong. */
static const char *const tricky[] = {
    "%c = full {value = 9223372036854775800, dims = [], dtype = i64}\n%x = add(%c, %i)\n"
    "%z = full {value = 0, dims = [], dtype = i64}\n%m = lt(%x, %z)\n",
    "%c = full {value = -10, dims = [], dtype = i64}\n%d0 = full {value = 3, dims = [], dtype = i64}\n"
    "%x = add(%i, %c)\n%y = rem(%x, %d0)\n%z = full {value = 0, dims = [], dtype = i64}\n%m = lt(%y, %z)\n",
    "%c = full {value = 120, dims = [], dtype = i64}\n%x = add(%i, %c)\n%y = cast {dtype = i8} (%x)\n"
    "%z = full {value = 0, dims = [], dtype = i8}\n%m = lt(%y, %z)\n",
    "%c = full {value = 120, dims = [], dtype = i8}\n%x = cast {dtype = i8} (%i)\n%y = add(%x, %c)\n"
    "%z = full {value = 0, dims = [], dtype = i8}\n%m = lt(%y, %z)\n",
    "%c = full {value = 5000000000000000000, dims = [], dtype = i64}\n"
    "%r = gather {dims = [0]} (%e, %j)\n%x = cast {dtype = i64} (%r)\n%y = mod(%x, %c)\n%v = add(%y, %y)\n%z "
    "= full {value = 0, dims = [], dtype = i64}\n%m = lt(%v, %z)\n",
    "%c = full {value = 3, dims = [], dtype = i64}\n%x = mul(%i, %c)\n%y = gather {dims = [0]} (%d, %x)\n"
    "%z = gather {dims = [0]} (%d, %j)\n%m = eq(%y, %z)\n",
};

static const struct {
    const char *name, *body;
} usual[] = {
    { "causal", "%m = ge(%i, %j)\n" },
    { "window", "%x = sub(%i, %j)\n%y = abs(%x)\n%w = full {value = 6, dims = [], dtype = i64}\n"
                "%m = le(%y, %w)\n" },
    { "prefix", "%w = full {value = 9, dims = [], dtype = i64}\n%x = lt(%j, %w)\n%y = ge(%i, %j)\n"
                "%m = or(%x, %y)\n" },
    { "documents",
      "%x = gather {dims = [0]} (%d, %i)\n%y = gather {dims = [0]} (%d, %j)\n%m = eq(%x, %y)\n" },
    { "lengths", "%x = gather {dims = [0, 1]} (%n, %b, %h)\n%m = lt(%j, %x)\n" },
    { "pages",
      "%c = full {value = 4, dims = [], dtype = i64}\n%x = floor_div(%i, %c)\n%y = floor_div(%j, %c)\n"
      "%m = ge(%x, %y)\n" },
};

static void walk(uint32_t number)
{
    struct hop_catch caught;
    struct arena arena = { 0 };
    state = number * 2654435761u + 12345;
    if (!HOP_TRY(caught)) {
        CLAIM(false, "mask %u: %s", number, hop_message());
        return;
    }
    hop_cleanup_push(arena_free, &arena);
    struct text t = { .arena = &arena };
    random_mask(&t);
    if (getenv("HOP_TEST_SHOW")) puts(t.data);
    check_text(arena_printf(&arena, "mask %u", number), t.data, false, 12);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    hop_catch_end(&caught);
}

/* Blocks that touch a negative index are asked with it: documents are read at the first position there. */
static void walk_usual(uint32_t k)
{
    struct hop_catch caught;
    char text[1024];
    state = k + 99;
    if (!HOP_TRY(caught)) {
        CLAIM(false, "%s: %s", usual[k].name, hop_message());
        return;
    }
    snprintf(text, sizeof text, "%s%sreturn %%m\n}\n", HEADER, usual[k].body);
    uint32_t undecided = check_text(usual[k].name, text, true, 200);
    bool documents = !strcmp(usual[k].name, "documents"); /* the corners of a block may be four documents */
    CLAIM(undecided <= (documents ? 20 : 0), "%s: %u of 200 blocks are undecided", usual[k].name, undecided);
    hop_catch_end(&caught);
}

static void walk_tricky(uint32_t k)
{
    struct hop_catch caught;
    char text[1024];
    state = k + 7;
    if (!HOP_TRY(caught)) {
        CLAIM(false, "tricky mask %u: %s", k, hop_message());
        return;
    }
    snprintf(text, sizeof text, "%s%sreturn %%m\n}\n", HEADER, tricky[k]);
    check_text("tricky", text, true, 200);
    hop_catch_end(&caught);
}

int main(int argc, char **argv)
{
    enum { MASKS = 4000 };
    uint32_t first = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    uint32_t count = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : argc > 1 ? 1 : MASKS;
    for (uint32_t i = first; i < first + count; i++) walk(i);
    for (uint32_t k = 0; argc <= 1 && k < HOP_COUNT(usual); k++) walk_usual(k);
    for (uint32_t k = 0; argc <= 1 && k < HOP_COUNT(tricky); k++) walk_tricky(k);
    return tests_end();
}
