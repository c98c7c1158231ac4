/* The text form: what is printed reads back as the same program and prints the same again, each error file
 * gives its error at its place, the verifier notices broken functions, equal bodies are one, symbols reach
 * the bodies that use them. */
#include "check.h"
#include "ir/text.h"
#include "transform/transform.h"

#include <dirent.h>

/* ---- helpers ---- */

struct reading {
    const char *file, *text;
    struct module *m;
};

static void read_it(void *ctx)
{
    struct reading *r = ctx;
    r->m = text_read(r->file, r->text, strlen(r->text));
}

static struct module *must_read(const char *file, const char *text)
{
    struct reading r = { file, text, NULL };
    hop_status status = attempt(read_it, &r);
    CLAIM(status == HOP_OK, "%s does not read: %s", file, hop_message());
    return r.m;
}

static void must_fail(const char *text, const char *message)
{
    struct reading r = { "text", text, NULL };
    hop_status status = attempt(read_it, &r);
    CLAIM(status == HOP_INVALID && strstr(hop_message(), message),
          "expected an error with '%s', found %d: %s", message, status, status ? hop_message() : text);
    module_free(r.m);
}

static void verify_all(void *module)
{
    struct module *m = module;
    for (uint32_t i = 0; i < m->fns.len; i++) verify_fn(m, i);
}

static char *slurp(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = calloc(1, 1 << 20);
    size_t n = fread(text, 1, (1 << 20) - 1, f);
    text[n] = 0;
    fclose(f);
    return text;
}

/* A function without names and numbers that depend on the module: equal texts mean structurally equal
 * functions. */
static void dump(const struct module *m, const struct fn *f, struct text *out)
{
    text_add(out, "(%u %u %u %llu:", f->n_params, f->n_results, f->n_outer_symbols,
             (unsigned long long)f->effects);
    for (uint32_t i = 0; i < f->n_symbols; i++)
        text_add(out, " %lld..%lld@%u.%u", (long long)f->symbols[i].lo, (long long)f->symbols[i].hi,
                 f->symbols[i].origin, f->symbols[i].index);
    for (uint32_t i = 0; i < f->n_required; i++) {
        text_str(out, " require ");
        dim_print(m, NULL, f->required[i].a, out);
        text_str(out, "==");
        dim_print(m, NULL, f->required[i].b, out);
    }
    for (uint32_t i = 0; i < f->n_values; i++) type_print(m, NULL, value_type(f, i), out);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        text_add(out, "\n%s", node_row(n)->name);
        for (uint32_t k = 0; k < n->n_operands; k++) text_add(out, " %u", node_operands(f, n)[k]);
        for (uint32_t g = 0; g < node_row(n)->sig.n_groups; g++)
            text_add(out, " g%u", node_group_size(f, n, g));
        for (uint32_t k = 0; k < node_row(n)->sig.n_attrs; k++) {
            const struct attr *a = node_attr(f, n, k);
            text_add(out, " a%u", a->kind);
            if (a->kind == ATTR_STRING) text_str(out, module_text(m, (uint32_t)a->i));
            else if (a->kind == ATTR_CONST)
                text_add(out, "%llx",
                         (unsigned long long)hash_bytes(m->constants.data[a->i].data,
                                                        m->constants.data[a->i].bytes, 0));
            else if (a->kind == ATTR_FN) dump(m, module_fn(m, (uint32_t)a->i), out);
            else if (a->kind == ATTR_DIM) dim_print(m, NULL, (dim)a->i, out);
            else if (a->kind == ATTR_DIMS)
                for (uint32_t d = 0; d < a->n; d++) dim_print(m, NULL, a->list[d], out), text_str(out, ",");
            else if (a->kind == ATTR_NAMED)
                for (uint32_t d = 0; d < a->n; d++)
                    text_add(out, "%s,", module_text(m, (uint32_t)a->list[d]));
            else if (a->kind == ATTR_INTS)
                for (uint32_t d = 0; d < a->n; d++) text_add(out, "%d,", (int32_t)a->list[d]);
            else if (a->kind != ATTR_ABSENT) text_add(out, "%llx", (unsigned long long)a->i);
        }
        for (uint32_t r = 0; r < n->n_regions; r++) {
            const struct region *g = node_region(f, n, r);
            text_add(out, " region %u [", g->n_operands);
            for (uint32_t d = 0; d < g->n_dims; d++) dim_print(m, NULL, g->dims[d], out), text_str(out, ",");
            dump(m, module_fn(m, g->fn), out);
        }
    }
    for (uint32_t i = 0; i < f->n_results; i++) text_add(out, " r%u", f->results[i]);
    text_str(out, ")");
}

static bool same_fn(const struct module *a, uint32_t f, const struct module *b, uint32_t g)
{
    struct arena arena = { 0 };
    struct text x = { .arena = &arena }, y = { .arena = &arena };
    dump(a, module_fn(a, f), &x);
    dump(b, module_fn(b, g), &y);
    bool same = !strcmp(x.data, y.data);
    if (!same) printf("--- these differ:\n%s\n---\n%s\n", x.data, y.data);
    arena_free(&arena);
    return same;
}

static bool same_places(const struct module *a, const struct fn *f, const struct module *b,
                        const struct fn *g)
{
    for (uint32_t i = 0; i < f->n_nodes && i < g->n_nodes; i++) {
        const struct node *x = fn_node(f, i), *y = fn_node(g, i);
        if (x->place.line != y->place.line || x->place.col != y->place.col ||
            strcmp(a->files.data[x->place.file], b->files.data[y->place.file]))
            return false;
        /* frames are kept once, so that one that was read is the one that was printed */
        if (frame_known(a->files.data[x->place.file]) &&
            a->files.data[x->place.file] != b->files.data[y->place.file])
            return false;
        for (uint32_t r = 0; r < x->n_regions; r++)
            if (!same_places(a, module_fn(a, node_region(f, x, r)->fn), b,
                             module_fn(b, node_region(g, y, r)->fn)))
                return false;
    }
    return f->n_nodes == g->n_nodes;
}

/* parse∘print gives the same functions, names and places; print∘parse∘print gives the same bytes. */
static void round_trip(const char *what, struct module *m)
{
    if (!m) return;
    hop_status verified = attempt(verify_all, m);
    CLAIM(verified == HOP_OK, "%s does not verify: %s", what, hop_message());
    struct arena a = { 0 };
    for (unsigned flags = 0; flags <= TEXT_LOCATIONS; flags++) {
        struct text once = { .arena = &a }, twice = { .arena = &a };
        text_print(m, HOP_NONE, flags, &once);
        struct reading r = { "printed", once.data, NULL };
        hop_status status = attempt(read_it, &r);
        CLAIM(status == HOP_OK, "%s: printed text does not read: %s\n%s", what, hop_message(), once.data);
        if (status) continue;
        text_print(r.m, HOP_NONE, flags, &twice);
        CLAIM(!strcmp(once.data, twice.data), "%s prints differently after reading:\n%s\n--- and then\n%s",
              what, once.data, twice.data);
        for (uint32_t i = 0; i < m->fns.len; i++) {
            const struct fn *f = module_fn(m, i);
            if (!f->name) continue;
            uint32_t g = module_find(r.m, module_text(m, f->name));
            CLAIM(g != HOP_NONE && same_fn(m, i, r.m, g),
                  "%s: @%s is another function after printing and reading:\n%s", what,
                  module_text(m, f->name), once.data);
            if (flags & TEXT_LOCATIONS && g != HOP_NONE)
                CLAIM(same_places(m, f, r.m, module_fn(r.m, g)), "%s: @%s lost its places", what,
                      module_text(m, f->name));
        }
        CLAIM(m->tests.len == r.m->tests.len, "%s: %u tests became %u", what, m->tests.len, r.m->tests.len);
        module_free(r.m);
    }
    arena_free(&a);
}

static void round_trip_text(const char *what, const char *text)
{
    struct module *m = must_read(what, text);
    round_trip(what, m);
    module_free(m);
}

static void each_file(const char *folder, void (*each)(const char *path, const char *text))
{
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort), seen = 0;
    for (int i = 0; i < n; i++) {
        size_t length = strlen(entries[i]->d_name);
        if (length > 4 && !strcmp(entries[i]->d_name + length - 4, ".hop")) {
            char path[512];
            snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
            char *text = slurp(path);
            CLAIM(text, "%s cannot be read", path);
            if (text) each(path, text), seen++;
            free(text);
        }
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    CLAIM(seen > 0, "%s holds no programs (run from the project's root)", folder);
}

/* ---- claims ---- */

/* The first line is `# error: LINE:COL: text`. */
static void gives_its_error(const char *path, const char *text)
{
    char want[512] = "", place[32] = "";
    const char *rest = strchr(text, ':');
    if (rest) snprintf(want, sizeof want, "%.*s", (int)strcspn(rest + 2, "\n"), rest + 2);
    size_t n = strspn(want, "0123456789:");
    snprintf(place, sizeof place, ":%.*s ", (int)n, want);
    struct reading r = { path, text, NULL };
    int64_t live = hop_live_allocations();
    hop_status status = attempt(read_it, &r);
    CLAIM(status == HOP_INVALID, "%s: expected an error, found status %d", path, status);
    CLAIM(status == HOP_INVALID && strstr(hop_message(), place) &&
              strstr(hop_message(), want + n + (want[n] == ' ')),
          "%s:\n  expected %s\n  found    %s", path, want, hop_message());
    module_free(r.m);
    CLAIM(hop_live_allocations() == live, "%s: an error leaks", path);
}

static void check_samples(void)
{
    for (uint32_t op = 0; op < OP_COUNT; op++)
        for (uint32_t i = 0; op_table[op] && i < op_table[op]->n_samples; i++) {
            char what[64];
            snprintf(what, sizeof what, "sample %u of %s", i, op_table[op]->name);
            round_trip_text(what, op_table[op]->samples[i].text);
        }
}

struct transformed {
    struct module *m;
    int how;
    uint32_t fn;
};

static void transform(void *ctx)
{
    struct transformed *t = ctx;
    const struct fn *f = module_fn(t->m, module_find(t->m, "sample"));
    bool *floats = ARENA_ZNEW(&t->m->arena, bool, f->n_params + 1),
         *all = ARENA_ZNEW(&t->m->arena, bool, f->n_params + 1),
         *out = ARENA_ZNEW(&t->m->arena, bool, f->n_results + 1);
    for (uint32_t i = 0; i < f->n_params; i++)
        floats[i] = dtype_is_float((enum dtype)type_get(t->m, value_type(f, i)).dtype), all[i] = true;
    if (t->how == 0) t->fn = vjp_function(t->m, f->id, floats);
    if (t->how == 1) t->fn = jvp_function(t->m, f->id, floats, out);
    if (t->how == 2) t->fn = batch_function(t->m, f->id, all, HOP_NONE, NULL, false, out);
    if (t->how == 3)
        t->fn = batch_function(t->m, vjp_function(t->m, f->id, floats),
                               memset(ARENA_NEW(&t->m->arena, bool, 1024), 1, 1024), HOP_NONE, NULL, false,
                               ARENA_NEW(&t->m->arena, bool, 1024));
    module_rename(t->m, t->fn, "transformed");
}

/* Functions that transforms make, with bodies, names and symbols that no text had. */
static void check_transformed(void)
{
#ifdef __SANITIZE_ADDRESS__
    enum { TURNS = 4 }; /* the plain build transforms every sample in each way */
#else
    enum { TURNS = 1 };
#endif
    int done = 0;
    for (uint32_t op = 0; op < OP_COUNT; op++)
        for (uint32_t i = 0; op_table[op] && i < op_table[op]->n_samples; i++)
            for (int how = (int)(i % TURNS); how < 4; how += TURNS) {
                struct transformed t = { must_read("sample", op_table[op]->samples[i].text), how, 0 };
                if (!t.m) continue;
                if (attempt(transform, &t) == HOP_OK) {
                    char what[96];
                    snprintf(what, sizeof what, "transform %d of sample %u of %s", how, i,
                             op_table[op]->name);
                    round_trip(what, t.m);
                    done++;
                }
                module_free(t.m);
            }
    CLAIM(done > 500 / TURNS, "only %d samples could be transformed", done);
}

/* One way to break a function, and what the verifier says about it. */
static void break_operand(struct fn *f) { f->pool[f->nodes[0].operands] = f->nodes[1].results; }
static void break_range(struct fn *f) { f->pool[f->nodes[0].operands] = 1000; }
static void break_type(struct fn *f) { f->values[f->nodes[0].results].type = f->values[1].type; }
static void break_count(struct fn *f) { f->nodes[0].n_operands = 1; }
static void break_attr(struct fn *f) { f->attrs[f->nodes[1].attrs].kind = ATTR_REAL; }
static void break_result(struct fn *f) { f->results[0] = f->n_values; }
static void break_effects(struct fn *f) { f->effects ^= EFFECT_IO; }
static void break_cycle(struct fn *f) { f->regions[0].fn = f->id; }
static void break_dims(struct fn *f) { f->regions[0].n_dims = 7; }
static void break_region_operands(struct fn *f) { f->regions[0].n_operands++; }
static void break_op(struct fn *f) { f->nodes[0].op = 9999; }
static void break_symbol(struct fn *f) { f->symbols[0].lo = 9, f->symbols[0].hi = 3; }
static void break_symbol_count(struct fn *f) { f->n_symbols++; }
static void break_values(struct fn *f) { f->n_values++; }
static void break_node_of_value(struct fn *f) { f->values[f->nodes[0].results].node = 1; }
static void break_fresh(struct fn *f) { f->symbols[f->n_symbols - 1].index = 0; }
static const struct {
    void (*breaks)(struct fn *f);
    const char *says;
} breakages[] = {
    { break_operand, "used before its definition" },
    { break_range, "no value of the function" },
    { break_type, "infer gives" },
    { break_count, "takes 2 operands, has 1" },
    { break_attr, "attribute 'dims': expected integers, found a real" },
    { break_result, "result 0 is no value" },
    { break_effects, "effects" },
    { break_cycle, "no cycle" },
    { break_dims, "gives 7 dims" },
    { break_region_operands, "operands" },
    { break_op, "no such operator" },
    { break_symbol, "empty range" },
    { break_symbol_count, "symbol" },
    { break_values, "values" },
    { break_node_of_value, "not its value" },
    { break_fresh, "symbol" },
};

static void check_verifier(void)
{
    static const char text[] =
        "fn @g(%x: f32[N]) -> (f32[N]) {\n  %y = neg(%x)\n  return %y\n}\n"
        "fn @f(%x: f32[4, T], %n: i64[]) -> (f32[T], i64[?k]) {\n  %y = add(%x, %x)\n  %s = sum {dims = [0]} "
        "(%y)\n"
        "  %z = invoke_subgraph @g(%s)\n  %i: i64[?k] = bind_dim(%n)\n  return %z, %i\n}\n";
    for (uint32_t i = 0; i < HOP_COUNT(breakages); i++) {
        struct module *m = must_read("verify", text);
        if (!m) return;
        uint32_t f = module_find(m, "f");
        /* room behind the arrays, for breakages that look one further */
        struct fn *fn = m->fns.data[f];
        fn->symbols = memcpy(arena_zalloc(&m->arena, (fn->n_symbols + 1) * sizeof *fn->symbols), fn->symbols,
                             fn->n_symbols * sizeof *fn->symbols);
        fn->values = memcpy(arena_zalloc(&m->arena, (fn->n_values + 1) * sizeof *fn->values), fn->values,
                            fn->n_values * sizeof *fn->values);
        CLAIM(attempt(verify_all, m) == HOP_OK, "a good function does not verify: %s", hop_message());
        breakages[i].breaks(m->fns.data[f]);
        hop_status status = attempt(verify_all, m);
        CLAIM(status == HOP_INVALID && strstr(hop_message(), breakages[i].says),
              "breakage %u: expected '%s', found %d: %s", i, breakages[i].says, status, hop_message());
        module_free(m);
    }
}

static void check_sharing(void)
{
    static const char text[] =
        "fn @f(%a: f32[4], %b: f32[4], %i: i32[]) -> (f32[4], f32[4]) {\n"
        "  %x = switch(%i) [(%u = %a) {\n    %n = neg(%u)\n    yield(%n)\n  }, (%v = %b) {\n    %m = "
        "neg(%v)\n    yield(%m)\n  }]\n"
        "  %y = invoke_subgraph with(%w = %b) {\n    %o = neg(%w)\n    yield(%o)\n  }\n  return %x, %y\n}\n";
    struct module *m = must_read("sharing", text);
    if (!m) return;
    CLAIM(m->fns.len == 2, "three equal bodies and a function are %u functions, not 2", m->fns.len);
    struct arena a = { 0 };
    struct text out = { .arena = &a };
    text_print(m, HOP_NONE, 0, &out);
    CLAIM(strstr(out.data, "fn @body_0(%u: f32[4]) -> (f32[4])") &&
              strstr(out.data, "switch(%i) [@body_0(%a), @body_0(%b)]"),
          "a body used three times prints as\n%s", out.data);
    arena_free(&a);
    round_trip("sharing", m);
    module_free(m);
}

static const struct {
    const char *what, *text;
} good_texts[] = {
    { "places with frames",
      "fn @f(%x: f32[4]) -> (f32[4]) {\n  %y = neg(%x) @\"a.py\":3:0 in \"step\" from \"b.py\":7 in \"loss\" "
      "from "
      "\"m.py\":9 in \"<module>\"\n  %z = neg(%y) @\"a.py\":4:0 in \"step\" from \"c.c\":1\n  %w = neg(%z) "
      "@\"a.py\":5:0\n  return %w\n}\n" },
    { "bodies with names, some of them twice",
      "fn @g(%x: f32[4]) -> (f32[4]) {\n  %y = map over(%e in %x) @step {\n    stack(%e)\n  }\n  %z = map "
      "over(%e in %y) @step {\n    %n = neg(%e)\n    stack(%n)\n  }\n  return %z\n}\n" },
    { "a symbol that a body mentions after binding one of its own",
      "fn @f(%n: i64[], %x: f32[4], %y: f32[T], %z: f32[S]) -> (f32[T, S]) {\n  %r, %all = scan {length = 3} "
      "carry(%c = %n) {\n    %i: i64[?k] = bind_dim(%c)\n"
      "    %j: i64[?l] = bind_dim(%c)\n    %a = full {value = 1.0, dims = [?k, T, ?l]}\n    %b = sum {dims = "
      "[0, 2]} (%a)\n    %d = full {value = 1.0, dims = [T, S]}\n    next(%c) stack(%d)\n  }\n"
      "  %s = sum {dims = [0]} (%all)\n  return %s\n}\n" },
    { "symbols lifted through two levels",
      "fn @f(%x: f32[4], %y: f32[T]) -> (f32[T]) {\n  %a = invoke_subgraph with(%x) {\n    %b = "
      "invoke_subgraph with(%x) {\n      %d = full {value = 1.0, dims = [T]}\n      yield(%d)\n    }\n"
      "    yield(%b)\n  }\n  return %a\n}\n" },
    { "a list of body symbols",
      "fn @f(%x: f32[2*N], %y: f32[N]) -> (f32[2*N]) {\n  %a = invoke_subgraph with(%u: f32[K] = %x) [K in "
      "0..99 = 2*N, N] {\n    %b = full {value = 1.0, dims = [K]}\n    %c = add(%u, %b)\n    yield(%c)\n  }\n"
      "  return %a\n}\n" },
    { "a body with a symbol for a constant",
      "fn @f(%x: f32[8]) -> (f32[8]) {\n  %a = invoke_subgraph with(%u: f32[K] = %x) [K = 8] {\n    %c = "
      "add(%u, %u)\n    yield(%c)\n  }\n  return %a\n}\n" },
    { "a data-dependent dim that goes into a body",
      "fn @f(%n: i64[]) -> (i64[?k]) {\n  %i: i64[?k] = bind_dim(%n)\n  %a = invoke_subgraph with(%i) {\n    "
      "%z = full {value = 1, dims = [k], dtype = i64}\n    %c = add(%i, %z)\n    yield(%c)\n  }\n"
      "  return %a\n}\n" },
    { "both k and ?k in one body",
      "fn @f(%n: i64[], %x: i64[k]) -> (i64[?k], i64[k]) {\n  %i: i64[?k] = bind_dim(%n)\n  %a, %b = "
      "invoke_subgraph with(%i, %x) {\n    %c = add(%i, %i)\n    %d = add(%x, %x)\n    yield(%c, %d)\n  }\n"
      "  return %a, %b\n}\n" },
    { "sizes that are checked when the program runs",
      "fn @f(%n: i64[], %x: i64[T]) -> (i64[?k]) {\n  %i: i64[?k] = bind_dim(%n)\n  %a = add(%i, %x)\n  %b = "
      "mul(%i, %x)\n  return %a\n}\n" },
    { "a requirement inside a body",
      "fn @f(%x: f32[A], %y: f32[B]) -> (f32[A]) {\n  %a = invoke_subgraph with(%x, %y) {\n    %z = add(%x, "
      "%y)\n    yield(%z)\n  }\n  return %a\n}\n" },
    { "dims by name at a reference",
      "fn @g[dim K](%x: f32[N]) -> (f32[K, N]) {\n  %y = broadcast {dims = [K, N], at = [1]} (%x)\n  return "
      "%y\n}\n"
      "fn @f(%x: f32[M]) -> (f32[3, M]) {\n  %y = invoke_subgraph @g[K = 3, N = M](%x)\n  return %y\n}\n" },
    { "order of symbols other than that of the parameters",
      "fn @f[B, A](%x: f32[A + B, A], %y: f32[B, A*B + 2*A]) -> (f32[A + B, A]) {\n  return %x\n}\n" },
    { "no parameters, no results", "fn @f() -> () {\n  return\n}\n" },
    { "an empty body", "fn @f() -> () {\n  invoke_subgraph {\n    yield()\n  }\n  return\n}\n" },
    { "names that are used again in sibling bodies",
      "fn @f(%i: i32[], %a: f32[4]) -> (f32[4]) {\n  %r = switch(%i) [(%a) {\n    %t = neg(%a)\n    "
      "yield(%t)\n  }, (%a) {\n    %t = abs(%a)\n    yield(%t)\n  }]\n  %t = neg(%r)\n  return %t\n}\n" },
    { "explicit locations", "fn @f(%x: f32[4]) -> (f32[4]) {\n  %y = neg(%x) @\"model \\\"a\\\".py\":12:3\n  "
                            "%z = neg(%y) @\"b.py\":7\n  return %z\n} @\"model.py\":10:1\n" },
    { "comments everywhere",
      "# one\nhop 1 # two\n#\nfn @f # three\n(%x: f32[4]) -> (f32[4]) { # four\n return %x # five\n} # six" },
};

static const struct {
    const char *text, *message;
} bad_texts[] = {
    { "fn @f(%x: f32[4]) -> (f32[4]) {\n  %y = neg(%x) %z\n", "3:1: expected '='" },
    { "fn @f(%x: f32[4]) -> (f32[4]) { return %x, }", "expected an operand" },
    { "fn @f(%x: f32[-1]) -> (f32[4]) { return %x }", "negative" },
    { "fn @f(%x: q8[4]) -> (f32[4]) { return %x }", "expected a dtype" },
    { "fn @f(%x f32[4]) -> (f32[4]) { return %x }", "expected ':'" },
    { "fn @f(%x: f32[4] -> (f32[4]) { return %x }", "expected ',' or ')'" },
    { "fn @f(%x: f32[4]) (f32[4]) { return %x }", "expected '->'" },
    { "fn f(%x: f32[4]) -> (f32[4]) { return %x }", "expected the name of the function" },
    { "fn @f[N, N](%x: f32[N]) -> (f32[N]) { return %x }", "declared twice" },
    { "fn @f[M](%x: f32[N]) -> (f32[N]) { return %x }", "'M' cannot be bound" },
    { "fn @f(%x: f32[N // 0]) -> (f32[N]) { return %x }", "" },
    { "fn @f(%99999999999: f32[4]) -> () { return }", "too large" },
    { "fn @f(%1a: f32[4]) -> () { return }", "neither a number nor a name" },
    { "hop", "version" },
    { "const @a: f32[2] = [1, [2]]", "deeper" },
    { "const @a: f32[2] = [[1], 2]", "" },
    { "const @a: bool[] = 1", "true or false" },
    { "const @a: f32[] = 1x", "is not a number" },
    { "const @a: f32[] = nan(0x1)", "NaN" },
    { "const @a: i32[] = 1.5", "an integer" },
    { "fn @f(%n: i64[]) -> () {\n  %i: i64[?k] = bind_dim(%n)\n  %j: i64[?k] = bind_dim(%n)\n  return\n}",
      "?k is bound twice" },
    { "fn @f(%n: i64[]) -> () {\n  %i: i64[?k, 4] = bind_dim(%n)\n  return\n}", "2:7: result: written" },
    { "fn @f(%x: f32[4]) -> () {\n  neg(%x)\n  return\n}", "neg gives 1 result, 0 named here" },
    { "fn @f(%i: i32[]) -> () {\n  switch(%i) []\n  return\n}", "region" },
    { "fn @f(%h: f32[4], %x: f32[3, 4]) -> () {\n  %a, %b = scan carry(%c = %h) over(%d = %x) { next(%c) "
      "stack(%d) }\n  return\n}",
      "expected 'in'" },
    { "fn @f(%x: f32[4]) -> () {\n  %y = neg(%x) @\"a\":1 in step\n  return\n}", "a function in quotes" },
    { "fn @f(%x: f32[4]) -> () {\n  %y = neg(%x) @\"a\":1 in \"s\" from 3\n  return\n}", "a file in quotes" },
    { "fn @f(%x: f32[4]) -> () {\n  %a = invoke_subgraph @g @h { yield(%x) }\n  return\n}",
      "no function or constant @g" },
    { "fn @f(%x: f32[4]) -> () {\n  %a = invoke_subgraph with(%x) @g (%x)\n  return\n}", "expected '{'" },
    { "fn @f(%x: f32[4]) -> () {\n  %a = invoke_subgraph with(%x: f32[4]) { yield(%x) }\n  return\n}",
      "expected '='" },
    { "fn @f(%x: f32[4]) -> () { return }\ntest @f { x = [1, 2] }",
      "expected a literal of type f32[4], found one of type f32[2]" },
    { "fn @f(%x: f32[4]) -> () { return }\ntest @f { x = [1, 2, 3, 4] x = [1, 2, 3, 4] }", "given twice" },
    { "fn @f(%x: f32[4]) -> () { return }\ntest @f { expect 0 = 1 }", "there is no result 0" },
    { "fn @f(%x: f32[4]) -> () { return }\ntest grad(y) @f { }", "no parameter %y" },
    { "fn @f(%x: f32[4]) -> () { return }\ntest grad(x @f { }", "expected ')'" },
};

static void check_texts(void)
{
    for (uint32_t i = 0; i < HOP_COUNT(good_texts); i++)
        round_trip_text(good_texts[i].what, good_texts[i].text);
    for (uint32_t i = 0; i < HOP_COUNT(bad_texts); i++) must_fail(bad_texts[i].text, bad_texts[i].message);
}

/* Functions in the worst order: each uses the next one of the file. */
static void check_long_chain(void)
{
    enum { LENGTH = 500 }; /* each function is read and printed with all those below it */
    struct arena a = { 0 };
    struct text t = { .arena = &a };
    for (int i = 0; i < LENGTH; i++)
        text_add(
            &t,
            i + 1 < LENGTH
                ? "fn @f%d(%%x: f32[4]) -> (f32[4]) {\n  %%y = invoke_subgraph @f%d(%%x)\n  return %%y\n}\n"
                : "fn @f%d(%%x: f32[4]) -> (f32[4]) {\n  %%y = neg(%%x)\n  return %%y\n}\n",
            i, i + 1);
    round_trip_text("a chain of functions in reverse order", t.data);
    text_add(&t, "fn @g(%%x: f32[4]) -> (f32[4]) {\n  %%y = invoke_subgraph @f0(%%x)\n  return %%y\n}\n");
    round_trip_text("and one that uses the chain", t.data);
    arena_free(&a);
}

/* What transforms leave: values of equal names, bodies with unused symbols, symbols of equal names. */
static void build_odd(void *module)
{
    struct module *m = module;
    uint32_t name = module_string(m, "x", 1), n = module_string(m, "N", 1);
    struct builder b;
    builder_begin(&b, m, NULL);
    builder_symbol(&b, n, 0, INT64_MAX);
    builder_symbol(&b, module_string(m, "unused", 6), 1, 8);
    val p = builder_param(&b, type_intern(m, DT_F32, 1, (dim[]){ dim_symbol(m, 0) }), name);
    val y = builder_node(&b, &(struct node_in){ .op = OP_neg, .operands = &p, .n_operands = 1 });
    builder_name(&b, y, name);
    uint32_t body = builder_finish(&b, &y, 1);

    builder_begin(&b, m, NULL);
    b.name = module_string(m, "odd", 3);
    builder_symbol(&b, n, 0, INT64_MAX);
    builder_symbol(&b, n, 1, 4);
    type_id t[2] = { type_intern(m, DT_F32, 1, (dim[]){ dim_symbol(m, 0) }),
                     type_intern(m, DT_F32, 1, (dim[]){ dim_symbol(m, 1) }) };
    val x[2] = { builder_param(&b, t[0], name), builder_param(&b, t[1], name) };
    dim dims[2] = { dim_symbol(m, 1), dim_add(m, dim_symbol(m, 1), 2) };
    struct region_in region = { .fn = body, .operands = &x[1], .n_operands = 1, .dims = dims };
    uint32_t groups[1] = { 0 };
    val z = builder_node(&b, &(struct node_in){ .op = OP_invoke_subgraph,
                                                .groups = groups,
                                                .regions = &region,
                                                .n_regions = 1 });
    builder_name(&b, z, name);
    val w = builder_node(&b, &(struct node_in){ .op = OP_abs, .operands = &z, .n_operands = 1 });
    val v = builder_node(&b, &(struct node_in){ .op = OP_abs, .operands = &w, .n_operands = 1 });
    builder_name(&b, v, module_string(m, "x_1", 3));
    builder_finish(&b, (val[]){ v, x[0] }, 2);
}

static void check_built(void)
{
    struct module *m = module_new();
    hop_status status = attempt(build_odd, m);
    CLAIM(status == HOP_OK, "building: %s", hop_message());
    if (!status) round_trip("a function that no text made", m);
    module_free(m);
}

static void read_into(void *module)
{
    static const char text[] =
        "fn @more(%x: f32[4]) -> (f32[4]) {\n  %y = invoke_subgraph @old(%x)\n  return %y\n}\n";
    text_read_into(module, "more", text, strlen(text));
}

static void check_read_into(void)
{
    struct module *m = must_read("old",
                                 "fn @old(%x: f32[N]) -> (f32[N]) {\n  %y = neg(%x)\n  return %y\n}\n");
    if (!m) return;
    hop_status status = attempt(read_into, m);
    CLAIM(status == HOP_OK && module_find(m, "more") != HOP_NONE, "adding to a module: %s", hop_message());
    status = attempt(read_into, m);
    CLAIM(status == HOP_INVALID && strstr(hop_message(), "@more is defined twice"),
          "adding the same function again: %d %s", status, hop_message());
    round_trip("a module read in two steps", m);
    module_free(m);
}

static void read_missing_file(void *ctx)
{
    (void)ctx;
    text_read_file("no/such/file.hop");
}

/* A number of `dtype` prints as `text`, and reads back to the same bits. */
static void check_numbers(void)
{
    static const struct {
        double v;
        const char *single, *twofold;
    } numbers[] = {
        { 0.0, "0", "0" },
        { -0.0, "-0", "-0" },
        { 1.0, "1", "1" },
        { 0.5, "0.5", "0.5" },
        { 0x1.8p-3, "0.1875", "0.1875" },
        { 1e6, "1000000", "1000000" },
        { -3e20, NULL, "-3e+20" },
    };
    struct arena a = { 0 };
    for (uint32_t i = 0; i < HOP_COUNT(numbers); i++) {
        struct text t = { .arena = &a }, u = { .arena = &a };
        float f = (float)numbers[i].v;
        text_print_element(DT_F32, &f, &t);
        text_print_element(DT_F64, &numbers[i].v, &u);
        CLAIM((!numbers[i].single || !strcmp(t.data, numbers[i].single)) &&
                  !strcmp(u.data, numbers[i].twofold),
              "%a prints as %s and %s", numbers[i].v, t.data, u.data);
    }
    uint64_t state = 1;
    bool same = true;
    for (int i = 0; i < 20000 && same; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t bits = state ^ state >> 31;
        uint32_t low = (uint32_t)(bits >> 7);
        struct text t = { .arena = &a };
        text_str(&t, "const @a: f64[] = ");
        text_print_element(DT_F64, &bits, &t);
        text_str(&t, "\nconst @b: f32[] = ");
        text_print_element(DT_F32, &low, &t);
        struct module *m = must_read("numbers", t.data);
        if (!m) break;
        same = m->constants.len == 2 && !memcmp(m->constants.data[0].data, &bits, 8) &&
               !memcmp(m->constants.data[1].data, &low, 4);
        if (!same) printf("%s\n", t.data);
        module_free(m);
        arena_free(&a);
    }
    CLAIM(same, "a number changed its bits");
    arena_free(&a);
}

static void round_trip_file(const char *path, const char *text) { round_trip_text(path, text); }

/* Every program of the corpus, whatever it is there for. */
static void check_corpus(void)
{
    struct dirent **entries;
    int n = scandir("tests/corpus", &entries, NULL, alphasort);
    CLAIM(n > 2, "there is no tests/corpus (run from the project's root)");
    for (int i = 0; i < n; i++) {
        char path[512];
        snprintf(path, sizeof path, "tests/corpus/%s", entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && entries[i]->d_type == DT_DIR &&
            strcmp(entries[i]->d_name, "errors"))
            each_file(path, round_trip_file);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    each_file("tests/corpus/errors", gives_its_error);
}

int main(void)
{
    int64_t live = hop_live_allocations();
    check_corpus();
    check_samples();
    check_transformed();
    check_texts();
    check_verifier();
    check_sharing();
    check_long_chain();
    check_built();
    check_read_into();
    check_numbers();
    CLAIM(attempt(read_missing_file, NULL) == HOP_IO, "a file that is not there");
    CLAIM(hop_live_allocations() == live, "%lld allocations are left",
          (long long)(hop_live_allocations() - live));
    return tests_end();
}
