/* Memory runs out at every point. First whole lives of programs: the n-th allocation fails for n = 1, 2, …
 * while they are read, printed, transformed, simplified, interpreted, compiled and run; each attempt must end
 * in success or in HOP_NOMEM with nothing left allocated. Then single calls of the public header: a call that
 * fails says HOP_NOMEM and what it wanted, leaves its outputs as they were, leaks nothing, and the same call
 * succeeds afterwards. There every piece of an arena is an allocation of its own, and the n-th fails alone or
 * with all that follow. Without --soak native code is tried at a few n only, and long calls at some hundred.
 * `alloc_fuzz [--soak] [CALL]`. */
#include "alloc_calls.h"
#include "check/check.h"

#include "loop/lower.h"
#include "emit/c99.h"
#include "transform/transform.h"

static const char *const programs[] = {
    "fn @main(%h: f32[3], %xs: f32[4, 3], %w: f32[3]) -> (f32[]) {\n"
    "  %c, %ys = scan carry(%s = %h) over(%x in %xs) with(%v = %w) {\n"
    "    %a = mul(%s, %v)\n"
    "    %b = add(%a, %x)\n"
    "    %n = tanh(%b)\n"
    "    next(%n) stack(%n)\n"
    "  }\n"
    "  %t = sum(%ys)\n"
    "  return %t\n"
    "}\n",
    "fn @main(%x: f64[5], %p: bool[]) -> (f64[]) {\n"
    "  %y = switch(%p) [(%u = %x) {\n"
    "    %r = sin(%u)\n"
    "    yield(%r)\n"
    "  }, (%u = %x) {\n"
    "    %r = mul(%u, %u)\n"
    "    yield(%r)\n"
    "  }]\n"
    "  %s = sum(%y)\n"
    "  return %s\n"
    "}\n",
    "fn @main(%x: f32[2, 3], %y: f32[3, 4]) -> (f32[]) {\n"
    "  %z = matmul(%x, %y)\n"
    "  %m = reduce_max {dims = [1]} (%z)\n"
    "  %s = sum(%m)\n"
    "  return %s\n"
    "}\n",
    "fn @main(%xs: f64[3, 2], %w: f64[2], %n: i64[]) -> (f64[]) {\n"
    "  %three = full {value = 3, dims = [], dtype = i64}\n"
    "  %end = add(%n, %three)\n"
    "  %ys = map {sequential} over(%x in %xs) with(%w, %n, %end) {\n"
    "    %y, %all: f64[?k, 2] = fori_loop {every = [2]} carry(%c = %x) from(%i = %n) to(%end) with(%w) {\n"
    "      %m = mul(%c, %w)\n"
    "      next(%m) stack(%c)\n"
    "    }\n"
    "    %t = sum {dims = [0]} (%all)\n"
    "    %z = add(%y, %t)\n"
    "    stack(%z)\n"
    "  }\n"
    "  %p = associative_scan {dim = 1, reverse} over((%l, %r) in %ys) {\n"
    "    %q = mul(%l, %r)\n"
    "    next(%q)\n"
    "  }\n"
    "  %s = sum(%p)\n"
    "  return %s\n"
    "}\n",
};

static uint64_t passed, failed;

static void hear(void *ctx, const char *name, struct tensor *const *args, uint32_t n)
{
    (void)ctx, (void)name, (void)args, (void)n;
}

/* Everything hop does with a program, once. */
static void whole_life(struct bag *bag, const char *text, bool compiled)
{
    struct module *m = text_read("program", text, strlen(text));
    hop_cleanup_push(module_free, m);
    struct text printed = { .arena = &bag->arena };
    text_print(m, HOP_NONE, 0, &printed);
    uint32_t fn = module_find(m, "sample");
    if (fn == HOP_NONE) fn = program_select(m, NULL);
    const struct fn *f = module_fn(m, fn);
    bool *wrt = param_mask(&bag->arena, m, f, NULL);
    struct tensor **args = ARENA_NEW(&bag->arena, struct tensor *, f->n_params);
    struct random random = { 5 };
    for (uint32_t p = 0; p < f->n_params; p++) {
        args[p] = bag_new_of(bag, m, value_type(f, p));
        tensor_random(args[p], &random, -1, 1);
    }
    struct type first = f->n_results ? type_get(m, value_type(f, f->results[0])) : (struct type){ 0 };
    uint32_t grad = f->n_results && !first.rank && dtype_is_float((enum dtype)first.dtype)
                        ? grad_function(m, fn, wrt, true)
                        : fn;
    grad = simplify(m, grad, &(struct pass_options){ .strict = true });
    uint32_t n = module_fn(m, grad)->n_results;
    struct tensor **results = ARENA_ZNEW(&bag->arena, struct tensor *, n);
    interp_run(&(struct interp){ .m = m, .callback = hear }, grad, args, NULL, results);
    for (uint32_t i = 0; i < n; i++) tensor_free(results[i]), results[i] = NULL;
    struct exe *e = exe_compile(m, grad,
                                &(struct compile_options){ .passes = { .strict = true },
                                                           .threads = 1,
                                                           .backend = compiled ? NULL : &executor_backend },
                                NULL);
    hop_cleanup_push(exe_free, e);
    exe_run(e, args, NULL, results, &(struct exe_call){ .callback = hear });
    for (uint32_t i = 0; i < n; i++) tensor_free(results[i]);
    hop_cleanup_pop(e);
    exe_free(e);
    hop_cleanup_pop(m);
    module_free(m);
}

static hop_status attempt(const char *text, bool compiled, uint64_t fail_at)
{
    struct hop_catch caught;
    struct bag bag = { 0 };
    volatile hop_status status = HOP_OK;
    hop_fail_allocation(fail_at);
    if (HOP_TRY(caught)) {
        hop_cleanup_push(bag_free, &bag);
        whole_life(&bag, text, compiled);
        hop_cleanup_pop(&bag);
        bag_free(&bag);
        hop_catch_end(&caught);
    } else {
        status = hop_caught();
    }
    hop_fail_allocation(0);
    return status;
}

static void try_program(const char *name, const char *text, bool native, bool soak)
{
    uint64_t start = hop_allocation_count();
    if (attempt(text, native, 0)) {
        failed++;
        printf("%s: %s\n", name, hop_message());
        return;
    }
    uint64_t total = hop_allocation_count() - start, step = !soak && native ? total / 60 + 1 : 1;
    for (uint64_t n = 1; n <= total; n += step) {
        int64_t live = hop_live_allocations();
        hop_status status = attempt(text, native, n);
        bool good = (status == HOP_NOMEM || status == HOP_OK) && hop_live_allocations() == live;
        if (!good)
            printf("%s, %s, allocation %llu of %llu fails: status %d (%s), %lld allocations left\n", name,
                   native ? "compiled" : "loop program", (unsigned long long)n, (unsigned long long)total,
                   status, status ? hop_message() : "", (long long)(hop_live_allocations() - live));
        good ? passed++ : failed++;
    }
}

/* Samples whose sizes are all written down. */
static bool is_static(const char *text)
{
    return !strstr(text, "[M") && !strstr(text, "[N") && !strstr(text, "[T") && !strstr(text, "[n") &&
           !strstr(text, "[B") && !strstr(text, "[K") && !strstr(text, "[dim") && !strstr(text, "[?");
}

/* Emitting C is not in the header: its loop is closed here. */
static int call_emit_c(struct world *w)
{
    struct hop_catch caught;
    struct arena arena = { 0 };
    struct text source = { .arena = &arena }, header = { .arena = &arena };
    struct c99_unit unit;
    if (HOP_TRY(caught)) {
        hop_cleanup_push(arena_free, &arena);
        struct lp *p = lower_and_plan(w->f->shared->m, w->f->fn, &(struct pass_options){ .strict = true });
        hop_cleanup_push(lp_free, p);
        c99_begin(&unit, &arena, &c99_own_dialect);
        c99_add(&unit, p, &(struct c99_options){ .name = "f", .adapter = true });
        c99_finish(&unit, "f.h", &source, &header);
        hop_cleanup_pop(p);
        lp_free(p);
        hop_cleanup_pop(&arena);
        arena_free(&arena);
        hop_catch_end(&caught);
        return HOP_OK;
    }
    return hop_caught();
}

int main(int argc, char **argv)
{
    bool soak = argc > 1 && !strcmp(argv[1], "--soak"), available = exe_available();
    int compiled = available;
    const char *only = argc > 1 + soak ? argv[1 + soak] : NULL;
    struct alloc_call emit_c = { "emit C", call_emit_c, false, false };
    if (alloc_operators_register()) {
        printf("operators cannot be registered: %s\n", hop_message());
        return 2;
    }
    single_calls(soak, available, only);
    if (!only || !strcmp(only, emit_c.name)) single_call(&emit_c, soak);
    passed += calls_passed;
    failed += calls_failed;
    if (only) compiled = -1;
    for (int native = 0; native <= compiled; native++) {
        for (size_t i = 0; i < HOP_COUNT(programs); i++) try_program("program", programs[i], native, soak);
        for (size_t i = 0; i < HOP_COUNT(operator_programs); i++)
            try_program("program with operators", operator_programs[i], native, soak);
        for (int op = 0; soak && op < OP_COUNT; op++)
            for (uint32_t s = 0; op_table[op] && s < op_table[op]->n_samples; s++)
                if (is_static(op_table[op]->samples[s].text))
                    try_program(op_table[op]->name, op_table[op]->samples[s].text, native,
                                native ? false : soak);
    }
    alloc_operators_unregister();
    printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
    return failed != 0;
}
