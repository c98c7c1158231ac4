/* Any text: what can be read verifies and reads back from its print; its functions are interpreted for a
 * while, transformed, simplified (the same bits), lowered and emitted as C. Errors are statuses, never
 * crashes. The mutator knows tokens and lines, so that more texts can be read than bytes by chance would
 * give. */
#include "fuzz.h"
#include "loop/lower.h"
#include "emit/c99.h"
#include "interp/interp.h"
#include "ir/table.h"
#include "ir/text.h"
#include "loop/lower.h"
#include "transform/simplify.h"
#include "transform/transform.h"

enum { MOST_STEPS = 1500, MOST_ELEMENTS = 1 << 14, MOST_FUNCTIONS = 6, SIZE = 2 };

struct input {
    const char *text;
    size_t size;
    struct module *m;
    uint32_t fn;
    struct tensor *results[8];
    bool ran;
};

/* Sizes that a run might take; symbols are SIZE. */
static bool is_small(struct module *m, const struct fn *f)
{
    int64_t symbols[64];
    if (f->n_symbols > HOP_COUNT(symbols) || f->n_results > 8) return false;
    for (uint32_t i = 0; i < f->n_symbols; i++)
        symbols[i] = HOP_MIN(HOP_MAX(f->symbols[i].lo, SIZE), f->symbols[i].hi);
    for (uint32_t v = 0; v < f->n_values; v++) {
        struct type t = type_get(m, value_type(f, v));
        int64_t count = 1;
        for (uint32_t d = 0; d < t.rank; d++)
            if (__builtin_mul_overflow(count, HOP_MAX(dim_eval(m, t.dims[d], symbols), 0), &count) ||
                count > MOST_ELEMENTS)
                return false;
    }
    return true;
}

static void read_text(void *ctx)
{
    struct input *in = ctx;
    in->m = text_read("fuzz", in->text, in->size);
}

static void print_and_read(void *ctx)
{
    struct input *in = ctx;
    struct arena arena = { 0 };
    struct text out = { .arena = &arena };
    hop_cleanup_push(arena_free, &arena);
    for (uint32_t i = 0; i < in->m->fns.len; i++) verify_fn(in->m, i);
    text_print(in->m, HOP_NONE, 0, &out);
    module_free(text_read("print", out.data ? out.data : "", out.len));
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

static void no_call(void *ctx, const char *name, struct tensor *const *args, uint32_t n)
{
    (void)ctx, (void)name, (void)args, (void)n;
}

static void interpret(void *ctx)
{
    struct input *in = ctx;
    const struct fn *f = module_fn(in->m, in->fn);
    struct tensor *args[64] = { 0 };
    int64_t dims[64];
    for (int i = 0; i < 64; i++) dims[i] = SIZE;
    in->ran = false;
    if (f->n_params > HOP_COUNT(args) || !is_small(in->m, f)) return;
    int64_t symbols[64];
    for (uint32_t i = 0; i < f->n_symbols; i++)
        symbols[i] = HOP_MIN(HOP_MAX(f->symbols[i].lo, SIZE), f->symbols[i].hi);
    for (uint32_t p = 0; p < f->n_params; p++) {
        struct type t = type_get(in->m, value_type(f, p));
        int64_t shape[MAX_RANK];
        for (uint32_t d = 0; d < t.rank; d++) shape[d] = HOP_MAX(dim_eval(in->m, t.dims[d], symbols), 0);
        struct tensor *x = args[p] = tensor_new((enum dtype)t.dtype, t.rank, shape);
        hop_cleanup_push(tensor_free, x);
        for (int64_t i = 0; i < x->count; i++) {
            uint64_t bits = dtype_is_float((enum dtype)t.dtype) ? (t.dtype == DT_F64   ? 0x3fe0000000000000u
                                                                   : t.dtype == DT_F32 ? 0x3f000000u
                                                                   : t.dtype == DT_F16 ? 0x3800u
                                                                                       : 0x3f00u)
                                                                : (uint64_t)(i & 1);
            memcpy((char *)x->data + (size_t)i * dtype_info[t.dtype].size, &bits, dtype_info[t.dtype].size);
        }
    }
    struct interp run = { .m = in->m, .callback = no_call, .max_steps = MOST_STEPS };
    interp_run(&run, in->fn, args, dims, in->results);
    in->ran = true;
    for (uint32_t p = f->n_params; p-- > 0;) {
        hop_cleanup_pop(args[p]);
        tensor_free(args[p]);
    }
}

static void drop_results(struct input *in)
{
    for (int k = 0; k < 8; k++) tensor_free(in->results[k]), in->results[k] = NULL;
}

/* The passes do not change a bit. */
static void simplified(void *ctx)
{
    struct input *in = ctx, after = { .m = in->m };
    struct pass_options o = { .strict = true };
    after.fn = simplify(in->m, in->fn, &o);
    if (!in->ran || fuzz_attempt(interpret, &after) || !after.ran) {
        drop_results(&after);
        return;
    }
    for (uint32_t k = 0; k < module_fn(in->m, in->fn)->n_results; k++) {
        const struct tensor *x = in->results[k], *y = after.results[k];
        bool same = x->dtype == y->dtype && x->rank == y->rank && x->count == y->count &&
                    (!x->count || !memcmp(x->data, y->data, (size_t)x->count * dtype_info[x->dtype].size));
        MUST(same, "the passes change result %u", k);
    }
    drop_results(&after);
}

static void lower_and_emit(void *ctx)
{
    struct input *in = ctx;
    struct pass_options o = { .strict = true };
    struct lp *p = lower_and_plan(in->m, in->fn, &o);
    hop_cleanup_push(lp_free, p);
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct c99_unit unit;
    struct text source = { .arena = &arena };
    c99_begin(&unit, &arena, &c99_own_dialect);
    c99_add(&unit, p, &(struct c99_options){ .adapter = true });
    c99_finish(&unit, NULL, &source, NULL);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    hop_cleanup_pop(p);
    lp_free(p);
}

static void gradient(void *ctx)
{
    struct input *in = ctx;
    const struct fn *f = module_fn(in->m, in->fn);
    bool wrt[64] = { false }, any = false;
    for (uint32_t p = 0; p < f->n_params && p < 64; p++)
        any |= wrt[p] = dtype_is_float((enum dtype)type_get(in->m, value_type(f, p)).dtype);
    if (any && f->n_params <= 64) in->fn = vjp_function(in->m, visible_function(in->m, in->fn), wrt);
}

static void tangent(void *ctx)
{
    struct input *in = ctx;
    const struct fn *f = module_fn(in->m, in->fn);
    bool active[64] = { false }, *found = calloc(f->n_results + 1, 1);
    for (uint32_t p = 0; p < f->n_params && p < 64; p++)
        active[p] = dtype_is_float((enum dtype)type_get(in->m, value_type(f, p)).dtype);
    hop_cleanup_push(free, found);
    if (f->n_params <= 64) in->fn = jvp_function(in->m, visible_function(in->m, in->fn), active, found);
    hop_cleanup_pop(found);
    free(found);
}

static void lanes(void *ctx)
{
    struct input *in = ctx;
    const struct fn *f = module_fn(in->m, in->fn);
    int in_axes[64] = { 0 }, out_axes[64] = { 0 };
    if (f->n_params && f->n_params <= 64 && f->n_results <= 64)
        in->fn = vmap_function(in->m, visible_function(in->m, in->fn), in_axes, out_axes);
}

static void everything_of(struct module *m, uint32_t fn)
{
    static void (*const transforms[])(void *) = { NULL, gradient, tangent, lanes };
    for (size_t t = 0; t < HOP_COUNT(transforms); t++) {
        struct input in = { .m = m, .fn = fn };
        if (transforms[t] && (fuzz_attempt(transforms[t], &in) || in.fn == fn)) continue;
        fuzz_attempt(interpret, &in);
        fuzz_attempt(simplified, &in);
        fuzz_attempt(lower_and_emit, &in);
        drop_results(&in);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    struct input in = { .text = text, .size = size };
    int64_t live = hop_live_allocations();
    if (!fuzz_attempt(read_text, &in)) {
        MUST(!fuzz_attempt(print_and_read, &in), "a text that was read does not read back: %s",
             hop_message());
        uint32_t named = 0, n = in.m->fns.len;
        for (uint32_t i = 0; i < n && named < MOST_FUNCTIONS; i++)
            if (module_fn(in.m, i)->name) everything_of(in.m, i), named++;
        module_free(in.m);
    }
    MUST(hop_live_allocations() == live, "%lld allocations are left",
         (long long)(hop_live_allocations() - live));
    free(text);
    return 0;
}

/* ---- the mutator ---- */

static uint64_t draw(uint64_t *state)
{
    return (*state = *state * 6364136223846793005u + 1442695040888963407u) >> 33;
}

static const char *word(uint64_t *state)
{
    static const char *const words[] = {
        "f32",
        "f64",
        "i32",
        "i64",
        "u8",
        "u64",
        "bool",
        "bf16",
        "f16",
        "[]",
        "[T]",
        "[2]",
        "[T, 3]",
        "[0]",
        "0",
        "1",
        "-1",
        "2",
        "9223372036854775807",
        "-9223372036854775808",
        "0.5",
        "inf",
        "nan",
        "true",
        "false",
        "fn @f(",
        "return",
        "next(",
        "stack(",
        "carry(",
        "over(",
        "with(",
        "yield(",
        "cond",
        "from(",
        "to(",
        "mut ",
        "new ",
        "effects(check, io)",
        "const @k: ",
        "test @f {",
        "{value = ",
        "dims = [",
        "dtype = ",
        "max_trips = ",
        "in 0..9",
        " // ",
        " % ",
        " * ",
        " + ",
        "min(",
        "max(",
        "->",
        "%x",
        "%y",
        "%a",
        "%0",
        "\"\\x41\"",
        "dim ",
        "expect 0 = ",
    };
    uint64_t k = draw(state) % (HOP_COUNT(words) + OP_COUNT);
    return k < HOP_COUNT(words) ? words[k] : op_table[k - HOP_COUNT(words)]->name;
}

static bool in_word(uint8_t c)
{
    return c == '_' || c == '%' || c == '@' || (c | 32) - 'a' < 26u || c - '0' < 10u;
}

static void token_at(const uint8_t *data, size_t size, size_t *begin, size_t *end)
{
    size_t at = *begin;
    while (at < size && !in_word(data[at])) at++;
    while (at > 0 && at <= size && in_word(data[at - 1])) at--;
    for (*begin = *end = at; *end < size && in_word(data[*end]);) ++*end;
}

static void line_at(const uint8_t *data, size_t size, size_t *begin, size_t *end)
{
    while (*begin > 0 && data[*begin - 1] != '\n') --*begin;
    for (*end = *begin; *end < size && data[(*end)++] != '\n';) {}
}

/* Puts `n` bytes in the place of data[begin..end). */
static size_t splice(uint8_t *data, size_t size, size_t most, size_t begin, size_t end, const uint8_t *with,
                     size_t n)
{
    if (size - (end - begin) + n > most) return size;
    memmove(data + begin + n, data + end, size - end);
    memcpy(data + begin, with, n);
    return size - (end - begin) + n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    uint64_t state = seed * 2654435761u + 1;
    uint8_t copy[512];
    if (!size || draw(&state) % 3 == 0) return LLVMFuzzerMutate(data, size, most);
    size_t begin = draw(&state) % size, end, other = draw(&state) % size, other_end;
    const char *with = word(&state);
    switch (draw(&state) % 6) {
    case 0: /* another word in the place of one */
        token_at(data, size, &begin, &end);
        return splice(data, size, most, begin, end, (const uint8_t *)with, strlen(with));
    case 1: return splice(data, size, most, begin, begin, (const uint8_t *)with, strlen(with));
    case 2: /* a word of the text in the place of another */
        token_at(data, size, &begin, &end);
        token_at(data, size, &other, &other_end);
        if (other_end - other > sizeof copy) return size;
        memcpy(copy, data + other, other_end - other);
        return splice(data, size, most, begin, end, copy, other_end - other);
    case 3: /* a line again, elsewhere */
        line_at(data, size, &other, &other_end);
        line_at(data, size, &begin, &end);
        if (other_end - other > sizeof copy) return size;
        memcpy(copy, data + other, other_end - other);
        return splice(data, size, most, begin, begin, copy, other_end - other);
    case 4: /* a line less */
        line_at(data, size, &begin, &end);
        return splice(data, size, most, begin, end, copy, 0);
    default: token_at(data, size, &begin, &end); return splice(data, size, most, begin, end, copy, 0);
    }
}
