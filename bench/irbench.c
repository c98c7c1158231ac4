/* How fast the representation is read, verified, printed and differentiated, and how large it is. Makes a
 * module of about a million nodes (a tenth of them with bodies, eight levels deep, about two hundred types
 * with symbolic dims) and prints one JSON object a line: irbench [NODES]. */
#include "ir/text.h"
#include "transform/transform.h"

#include <time.h>

enum { LEVELS = 8, NODES_PER_LEVEL = 10, CHAINS_PER_FN = 25, SIZES = 200 };

static uint64_t state = 88172645463325252u;
static uint32_t pick(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 16) % n);
}

static double now(void) /* of this process: other programs on the machine do not count */
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Nodes over %a and %b of one type, from value number *next on; the number of the last. Bodies are distinct,
 * so that none is shared. */
static void generate_level(struct text *t, uint32_t level, uint32_t size, const char *a, const char *b,
                           uint32_t *next, char *last)
{
    static const char *const one[] = { "neg", "tanh", "sin", "cos", "exp", "sigmoid" }, *const two[] = {
        "add", "mul", "sub", "max"
    };
    char x[16], y[16];
    snprintf(x, sizeof x, "%s", a);
    snprintf(y, sizeof y, "%s", b);
    for (uint32_t i = 0; i + 1 < NODES_PER_LEVEL; i++) {
        char z[16];
        snprintf(z, sizeof z, "%%%u", (*next)++);
        if (i == 4) text_add(t, "%s = full {value = %u.5, dims = [T, %u]}\n", z, pick(1000000), size);
        else if (pick(3)) text_add(t, "%s = %s(%s, %s)\n", z, two[pick(4)], x, y);
        else text_add(t, "%s = %s(%s)\n", z, one[pick(6)], x);
        if (pick(2)) snprintf(y, sizeof y, "%s", x);
        snprintf(x, sizeof x, "%s", z);
    }
    snprintf(last, 16, "%%%u", (*next)++);
    uint32_t p = (*next)++, q = (*next)++;
    char c[16], w[16], result[16];
    snprintf(c, sizeof c, "%%%u", p);
    snprintf(w, sizeof w, "%%%u", q);
    if (level == LEVELS) {
        text_add(t, "%s = add(%s, %s)\n", last, x, y);
        return;
    }
    if (level % 2) text_add(t, "%s = scan {length = 3} carry(%s = %s) with(%s = %s) {\n", last, c, x, w, y);
    else text_add(t, "%s = invoke_subgraph with(%s = %s, %s = %s) {\n", last, c, x, w, y);
    generate_level(t, level + 1, size, c, w, next, result);
    text_add(t, "%s(%s)\n}\n", level % 2 ? "next" : "yield", result);
}

static void generate(struct text *t, uint32_t nodes)
{
    uint32_t per_fn = LEVELS * NODES_PER_LEVEL * CHAINS_PER_FN + 2 * CHAINS_PER_FN;
    text_str(t, "hop 1\n");
    for (uint32_t f = 0; f < (nodes + per_fn - 1) / per_fn; f++) {
        text_add(t, "fn @f%u[T in 1..65536](%%0: f32[T, 1], %%1: f32[]) -> (f32[]) {\n", f);
        uint32_t next = 2;
        char sum[16] = "%1", last[16];
        for (uint32_t i = 0; i < CHAINS_PER_FN; i++) {
            uint32_t size = 1 + pick(SIZES), a = next++, b = next++, s;
            char x[16], y[16];
            snprintf(x, sizeof x, "%%%u", a);
            snprintf(y, sizeof y, "%%%u", b);
            text_add(
                t,
                "%s = full {value = 1.0, dims = [T, %u]}\n%s = broadcast {dims = [T, %u], at = []} (%%1)\n",
                x, size, y, size);
            generate_level(t, 1, size, y, x, &next, last);
            s = next++;
            text_add(t, "%%%u = sum(%s)\n%%%u = add(%%%u, %s)\n", s, last, s + 1, s, sum);
            next++;
            snprintf(sum, sizeof sum, "%%%u", s + 1);
        }
        text_add(t, "return %s\n}\n", sum);
    }
}

static uint64_t count_nodes(const struct module *m)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->fns.len; i++) n += module_fn(m, i)->n_nodes;
    return n;
}

static void report(const char *what, uint64_t nodes, double seconds, double bytes)
{
    printf("{\"case\": \"%s\", \"nodes\": %llu, \"ms\": %.1f, \"nodes_per_s\": %.0f, \"bytes_per_node\": "
           "%.1f}\n",
           what, (unsigned long long)nodes, seconds * 1e3, (double)nodes / seconds, bytes / (double)nodes);
    fflush(stdout);
}

static void differentiate(struct module *m, uint64_t nodes)
{
    bool wrt[2] = { false, true };
    uint32_t n = m->fns.len;
    double start = now();
    size_t before = m->arena.total;
    for (uint32_t i = 0; i < n; i++)
        if (module_fn(m, i)->name) vjp_function(m, i, wrt);
    report("vjp", nodes, now() - start, (double)(m->arena.total - before));
}

static void run(uint32_t wanted)
{
    struct arena a = { 0 };
    struct text plain = { .arena = &a }, text = { .arena = &a };
    generate(&plain, wanted);
    struct module *m = text_read("generated.hop", plain.data, plain.len);
    text_print(m, HOP_NONE, TEXT_LOCATIONS, &text);
    uint64_t nodes = count_nodes(m);
    double best[3] = { 1e9, 1e9, 1e9 }, start;
    for (int round = 0; round < 3; round++) {
        module_free(m);
        start = now();
        m = text_read("bench.hop", text.data, text.len);
        best[0] = HOP_MIN(best[0], now() - start);
        start = now();
        for (uint32_t i = 0; i < m->fns.len; i++) verify_fn(m, i);
        best[1] = HOP_MIN(best[1], now() - start);
        struct arena scratch = { 0 };
        struct text out = { .arena = &scratch };
        start = now();
        text_print(m, HOP_NONE, TEXT_LOCATIONS, &out);
        best[2] = HOP_MIN(best[2], now() - start);
        if (out.len != text.len || memcmp(out.data, text.data, out.len))
            hop_throw(HOP_INTERNAL, "print after parse is not the identity");
        arena_free(&scratch);
    }
    double bytes = (double)m->arena.total;
    report("parse", nodes, best[0], bytes);
    report("verify", nodes, best[1], bytes);
    report("print", nodes, best[2], (double)text.len);
    arena_free(&a);
    differentiate(m, nodes);
    module_free(m);
}

int main(int argc, char **argv)
{
    struct hop_catch c;
    uint32_t nodes = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000000;
    if (HOP_TRY(c)) {
        run(HOP_MAX(nodes, 1u));
        hop_catch_end(&c);
        return 0;
    }
    fprintf(stderr, "irbench: %s\n", hop_message());
    return 1;
}
