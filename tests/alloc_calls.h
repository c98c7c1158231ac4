/* Single calls of the public header while memory runs out. Each is made in a world of its own: functions,
 * executables, tensors and files that were prepared with enough memory. The call alone meets failing
 * allocations; then it is made again, must succeed, and everything is freed. */
#ifndef HOP_TEST_ALLOC_CALLS_H
#define HOP_TEST_ALLOC_CALLS_H

#include "alloc_operators.h"
#include "api/api.h"
#include "io/dlpack.h"

#include <unistd.h>

static uint64_t calls_passed, calls_failed;

#ifdef __SANITIZE_ADDRESS__
enum { FEW_POINTS = 25 };
#else
enum { FEW_POINTS = 50 };
#endif
enum { ARGUMENTS = 4, MOST_OUT = 4 };
struct world {
    hop_fn *f;        /* loops, branches, calls, assignments; (h, xs, w, log: mut) -> (loss) */
    hop_fn *plain;    /* (x, y) -> (z, s) */
    hop_fn *operated; /* calls operators; in worlds of calls that ask for it, as are its executables */
    hop_exe *operated_exe, *operated_native;
    hop_tensor *six;
    hop_exe *exe, *native,
        *kept; /* of f, the last with donated arguments; native: NULL where nothing is compiled */
    hop_tensor *in[ARGUMENTS], *two[2], *strided, *many[3];
    struct DLManagedTensor *given;
    struct DLManagedTensorVersioned *given_versioned;
    hop_file *archive;
    char folder[64], path[128];
    /* what calls make; all NULL before */
    hop_fn *made_fn, *second;
    hop_exe *made_exe;
    hop_tensor *out[MOST_OUT];
    hop_file *made_file;
    char *text;
    void *exchange;
    size_t bytes;
};

/* ---- the program ---- */

static int step(void *env, const hop_val *in, hop_val *out)
{
    const hop_val *outer = env; /* w, log */
    hop_val h = hop_probe(hop_tanh(hop_add(hop_mul(in[0], outer[0]), in[1])), "h");
    hop_add_to(hop_view(outer[1], "0:3"), hop_scalar(1));
    hop_val means = hop_avg_pool(h, &(hop_window_spec){ .window = "3", .padding = "1:1" }, 1);
    out[0] = hop_softmax(means, "all");
    out[1] = hop_einsum("i,i->", (hop_val[]){ h, in[1] }, 2);
    return hop_failed();
}
static int larger(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, out[0] = hop_mul(in[0], hop_scalar(2)), 0;
}
static int smaller(void *env, const hop_val *in, hop_val *out)
{
    hop_val r[1];
    (void)env;
    hop_call(r, 1, &(hop_call_spec){ .body = larger, .in = in, .n_in = 1 });
    out[0] = hop_neg(r[0]);
    return 0;
}
static int below_ten(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, out[0] = hop_lt(in[0], hop_scalar(10)), 0;
}
static int once_more(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, out[0] = hop_add(hop_abs(in[0]), hop_scalar(4)), 0;
}
static int each(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, out[0] = hop_logsumexp(in[0], "all"), 0;
}

static int loss(void *env, const hop_val *in, hop_val *out)
{
    hop_val r[2], chosen[1], grown[1], mapped[1], outer[2] = { in[2], in[3] };
    (void)env;
    hop_scan(r, 2,
             &(hop_scan_spec){
                 .step = step, .env = outer, .carry = in, .n_carry = 1, .xs = &in[1], .n_xs = 1 });
    hop_cond(chosen, 1,
             &(hop_cond_spec){ .pred = hop_gt(hop_sum(r[0], "all"), hop_scalar(0)),
                               .then = larger,
                               .otherwise = smaller,
                               .in = r,
                               .n_in = 1 });
    hop_val start = hop_sum(chosen[0], "all");
    hop_while(grown, 1,
              &(hop_while_spec){
                  .cond = below_ten, .body = once_more, .carry = &start, .n_carry = 1, .max_trips = "5" });
    hop_map(mapped, 1, &(hop_map_spec){ .body = each, .xs = &in[1], .n_xs = 1 });
    hop_check(hop_isfinite(start), "finite", &start, 1);
    hop_print("at {}", &start, 1);
    out[0] = hop_add(hop_add(grown[0], hop_sum(mapped[0], NULL)), hop_mean(hop_sort(r[1], 0, 0), "all"));
    return hop_failed();
}
static const char loss_params[] = "loss[T in 1..64](h: f32[3], xs: f32[T, 3], w: f32[3], log: mut f32[4])";
static int both(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, out[0] = hop_sin(hop_mul(in[0], in[1])), out[1] = hop_sum(hop_exp(out[0]), "all"), 0;
}
static const char plain_params[] = "x: f32[3], y: f32[3]";
static int calls_plain(void *env, const hop_val *in, hop_val *out)
{
    hop_val r[2];
    int status = hop_call_fn(r, 2, env, in, 2);
    out[0] = r[1];
    return status;
}

/* ---- worlds ---- */

static void fill_with(hop_tensor *t, float first)
{
    for (int64_t i = 0; i < hop_tensor_count(t); i++) ((float *)hop_data(t))[i] = first + 0.125f * (float)i;
}

static bool files_made(struct world *w)
{
    static const char *const names[] = { "a", "b", "c" };
    const char *folder = getenv("TMPDIR");
    char path[192];
    snprintf(w->folder, sizeof w->folder, "%.40s/hop_alloc_XXXXXX", folder && *folder ? folder : "/tmp");
    if (!mkdtemp(w->folder)) return false;
    bool good = true;
    for (int i = 0; i < 3; i++) {
        static const char *const endings[] = { "npz", "safetensors", "npy" };
        snprintf(path, sizeof path, "%s/x.%s", w->folder, endings[i]);
        good &= !(i < 2 ? hop_save_many(path, names, w->many, 3) : hop_save(w->many[0], path));
    }
    snprintf(path, sizeof path, "%s/x.npz", w->folder);
    return good && !hop_file_open(&w->archive, path);
}

static bool operators_made(struct world *w, bool native)
{
    hop_compile_options portable = { .strict = 1, .portable = 1, .threads = 1 },
                        compiled = { .strict = 1, .threads = 1 };
    bool good = !hop_capture(&w->operated, operators_params, 3, calls_operators, NULL) &&
                !hop_compile(&w->operated_exe, w->operated, &portable) &&
                (!native || !hop_compile(&w->operated_native, w->operated, &compiled)) &&
                !hop_tensor_new(&w->six, "f32[6]");
    if (good) fill_with(w->six, -0.25f);
    return good;
}

static bool world_begin(struct world *w, bool native, bool files)
{
    static const int64_t strides[] = { 1, 2 };
    static float memory[8];
    hop_compile_options portable = { .strict = 1, .portable = 1, .threads = 1 },
                        compiled = { .strict = 1, .threads = 1 },
                        donated = { .strict = 1, .portable = 1, .threads = 1, .donate = "x" };
    memset(w, 0, sizeof *w);
    bool good = !hop_capture(&w->f, loss_params, 1, loss, NULL) &&
                !hop_capture(&w->plain, plain_params, 2, both, NULL) &&
                !hop_compile(&w->exe, w->f, &portable) &&
                (!native || !hop_compile(&w->native, w->f, &compiled)) &&
                !hop_compile(&w->kept, w->plain, &donated) && !hop_tensor_new(&w->in[0], "f32[3]") &&
                !hop_tensor_new(&w->in[1], "f32[2, 3]") && !hop_tensor_new(&w->in[2], "f32[3]") &&
                !hop_tensor_new(&w->in[3], "f32[4]") && !hop_tensor_new(&w->two[0], "f32[3]") &&
                !hop_tensor_new(&w->two[1], "f32[3]") &&
                !hop_tensor_strided(&w->strided, "f32[2, 3]", memory, strides, NULL, NULL) &&
                !hop_tensor_new(&w->many[0], "f32[2, 3]") && !hop_tensor_new(&w->many[1], "i64[]") &&
                !hop_tensor_new(&w->many[2], "bool[0, 3]") && !hop_tensor_to_dlpack(&w->given, w->two[0]) &&
                !hop_tensor_to_dlpack_versioned(&w->given_versioned, w->two[1]);
    for (int i = 0; good && i < ARGUMENTS; i++) fill_with(w->in[i], 0.5f);
    for (int i = 0; good && i < 2; i++) fill_with(w->two[i], 0.25f);
    return good && (!files || files_made(w));
}

static void drop_made(struct world *w)
{
    hop_fn_free(w->made_fn), w->made_fn = NULL;
    hop_fn_free(w->second), w->second = NULL;
    hop_exe_free(w->made_exe), w->made_exe = NULL;
    for (int i = 0; i < MOST_OUT; i++) hop_tensor_free(w->out[i]), w->out[i] = NULL;
    hop_file_free(w->made_file), w->made_file = NULL;
    hop_text_free(w->text), w->text = NULL;
    if (w->exchange) ((struct DLManagedTensor *)w->exchange)->deleter(w->exchange);
    w->exchange = NULL;
}

static bool anything_made(const struct world *w)
{
    bool made = w->made_fn || w->second || w->made_exe || w->made_file || w->text || w->exchange;
    for (int i = 0; i < MOST_OUT; i++) made |= w->out[i] != NULL;
    return made;
}

static void world_end(struct world *w)
{
    drop_made(w);
    hop_file_free(w->archive);
    hop_exe_free(w->exe);
    hop_exe_free(w->native);
    hop_exe_free(w->kept);
    hop_fn_free(w->f);
    hop_fn_free(w->plain);
    hop_exe_free(w->operated_exe);
    hop_exe_free(w->operated_native);
    hop_fn_free(w->operated);
    hop_tensor_free(w->six);
    if (w->given) w->given->deleter(w->given);
    if (w->given_versioned) w->given_versioned->deleter(w->given_versioned);
    for (int i = 0; i < ARGUMENTS; i++) hop_tensor_free(w->in[i]);
    for (int i = 0; i < 2; i++) hop_tensor_free(w->two[i]);
    for (int i = 0; i < 3; i++) hop_tensor_free(w->many[i]);
    hop_tensor_free(w->strided);
    if (w->folder[0]) {
        char command[128];
        snprintf(command, sizeof command, "rm -rf '%s'", w->folder);
        if (system(command)) w->folder[0] = 0;
    }
    hop_cache_directory("off");
    hop_cache_clear();
}

/* ---- calls ---- */

static const char *in_folder(struct world *w, const char *name)
{
    return snprintf(w->path, sizeof w->path, "%s/%s", w->folder, name), w->path;
}
static int text_status(struct world *w, char *text) { return (w->text = text) ? HOP_OK : HOP_NOMEM; }

#define CALL(name, expression) \
    static int call_##name(struct world *w) { return (int)(expression); }
CALL(tensor_new, hop_tensor_new(&w->out[0], "f32[3, 4]"))
CALL(tensor_strided,
     hop_tensor_strided(&w->out[0], "f32[2, 3]", hop_data(w->strided), (const int64_t[]){ 1, 2 }, NULL, NULL))
CALL(tensor_view, hop_tensor_view(&w->out[0], w->in[1], "1, ::-1"))
CALL(tensor_copy, hop_tensor_copy(&w->out[0], w->strided))
CALL(tensor_fill, hop_tensor_fill(w->in[1], w->strided))
CALL(tensor_text, text_status(w, hop_tensor_text(w->strided)))
CALL(capture, hop_capture(&w->made_fn, loss_params, 1, loss, NULL))
CALL(capture_call, hop_capture(&w->made_fn, plain_params, 1, calls_plain, w->plain))
static const char program_text[] =
    "fn @g[T in 1..9](%h: f32[3], %xs: f32[T, 3]) -> (f32[]) {\n  %c, %ys = scan carry(%s = %h) over(%x in "
    "%xs) {\n    %b = add(%s, %x)\n"
    "    %n = tanh(%b)\n    next(%n) stack(%n)\n  }\n  %t = sum(%ys)\n  return %t\n}\n";
static int call_fn_read(struct world *w) { return hop_fn_read(&w->made_fn, program_text, NULL); }
CALL(fn_text, hop_fn_text(w->f) ? HOP_OK : HOP_NOMEM)
CALL(fn_type, hop_fn_param_type(w->f, 1) && hop_fn_result_type(w->f, 0) ? HOP_OK : HOP_NOMEM)
CALL(grad, hop_grad(&w->made_fn, w->f, "w"))
CALL(value_and_grad, hop_value_and_grad(&w->made_fn, w->f, "h, w"))
CALL(vjp, hop_vjp(&w->made_fn, w->f, "xs"))
CALL(jvp, hop_jvp(&w->made_fn, w->f, "h"))
CALL(vjp_halves, hop_vjp_halves(&w->made_fn, &w->second, w->f, "w"))
CALL(jvp_halves, hop_jvp_halves(&w->made_fn, &w->second, w->f, "w"))
CALL(linearize, hop_linearize(&w->made_fn, w->plain, "x", w->two, 2))
CALL(jacfwd, hop_jacfwd(&w->made_fn, w->plain, "x"))
CALL(jacrev, hop_jacrev(&w->made_fn, w->plain, "x"))
static int call_hessian(struct world *w)
{
    hop_fn *g = NULL;
    int status = hop_grad(&g, w->f, "w"), second = status ? status : (int)hop_jacfwd(&w->made_fn, g, "w");
    hop_fn_free(g);
    return second;
}
CALL(vmap, hop_vmap(&w->made_fn, w->f, "xs, h: 0, log: 1", "0"))
CALL(debug_nans, hop_debug_nans(&w->made_fn, w->f, 1))
CALL(probes, hop_probes(&w->made_fn, w->f, NULL, HOP_STACKED))
CALL(perturb, hop_perturb(&w->made_fn, w->f, "h", HOP_STACKED))
CALL(compile_portable,
     hop_compile(&w->made_exe, w->f, &(hop_compile_options){ .portable = 1, .donate = "h" }))
CALL(compile, hop_compile(&w->made_exe, w->plain, &(hop_compile_options){ .strict = 1, .threads = 1 }))
static int call_compile_memory(struct world *w)
{
    return hop_cache_directory("memory")
               ? HOP_NOMEM
               : (int)hop_compile(&w->made_exe, w->plain, &(hop_compile_options){ .threads = 1 });
}
static int call_compile_disk(struct world *w)
{
    int status = hop_cache_directory(in_folder(w, "cache"));
    hop_cache_clear();
    return status ? status : (int)hop_compile(&w->made_exe, w->plain, &(hop_compile_options){ .threads = 1 });
}
CALL(run, hop_run(w->exe, w->in, ARGUMENTS, w->out, 1))
CALL(run_keeping, hop_run_with(w->exe, w->in, ARGUMENTS, w->out, 1, &(hop_run_options){ .keep = 1 }))
CALL(run_native, hop_run(w->native, w->in, ARGUMENTS, w->out, 1))
static int call_run_donating(struct world *w)
{
    hop_tensor *in[2] = { w->two[0], w->two[1] };
    int status = hop_run(w->kept, in, 2, w->out, 2);
    if (!status) w->two[0] = NULL; /* the reference was taken */
    return status;
}
CALL(workspace, hop_workspace(&w->bytes, w->exe, w->in, ARGUMENTS, NULL))
CALL(explain_run, text_status(w, hop_explain_run(w->exe, w->in, ARGUMENTS, NULL, 0)))
static int call_explain(struct world *w)
{
    char *text = NULL;
    hop_compile_options portable = { .portable = 1 };
    int status = hop_explain(&text, w->f, &portable, "json");
    return status ? status : text_status(w, text);
}
static int call_fn_json(struct world *w)
{
    char *text = NULL;
    int status = hop_fn_json(&text, w->f);
    return status ? status : text_status(w, text);
}
static int doubled(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, out[0] = hop_mul(in[0], in[1]), hop_failed();
}
static int hooked(void *env, const hop_val *in, hop_val *out)
{
    hop_val x;
    (void)env;
    if (hop_hook(&x, &(hop_hook_spec){ .in = in, .n_in = 1, .body = doubled, .state = &in[1], .n_state = 1 }))
        return hop_failed();
    out[0] = hop_sum(hop_sin(x), "all");
    return hop_failed();
}
CALL(hook, hop_capture(&w->made_fn, plain_params, 1, hooked, NULL))
/* A program that is an operator, and one that calls it; with derivatives. */
static int calls_program(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    return hop_operator(out, 2, "program", in, 2);
}
static int call_exe_operator(struct world *w)
{
    int status = hop_compile(&w->made_exe, w->plain, &(hop_compile_options){ .portable = 1, .threads = 1 });
    if (!status) status = hop_exe_operator(w->made_exe, "program", w->plain);
    bool registered = !status;
    if (!status) status = hop_capture(&w->made_fn, plain_params, 2, calls_program, NULL);
    if (!status) status = hop_vjp(&w->second, w->made_fn, "x");
    if (!status) status = hop_interpret(w->made_fn, w->two, 2, w->out, 2);
    if (registered) hop_operator_unregister("program");
    if (status) drop_made(w);
    return status;
}
static int call_profile(struct world *w)
{
    hop_compile_options options = { .strict = 1, .portable = 1, .threads = 1, .profile = 1 };
    hop_profile *profile = NULL;
    char *text = NULL;
    int status = hop_compile(&w->made_exe, w->f, &options);
    if (!status) status = hop_profile_start(&profile, w->made_exe, 0);
    if (!status) status = hop_run(w->made_exe, w->in, ARGUMENTS, w->out, 1);
    if (!status) status = hop_profile_stop(profile);
    if (!status) status = hop_profile_text(&text, profile, "svg");
    hop_profile_free(profile);
    if (!status) return text_status(w, text);
    drop_made(w);
    return status;
}
static int call_emit(struct world *w)
{
    char *text = NULL;
    int status = hop_emit(&text, w->plain, "c", &(hop_emit_options){ .name = "plain", .results = "a, b" });
    return status ? status : text_status(w, text);
}
CALL(interpret, hop_interpret(w->f, w->in, ARGUMENTS, w->out, 1))
CALL(eager, hop_eager(loss_params, loss, NULL, w->in, ARGUMENTS, w->out, 1))
CALL(load_npy, hop_load(&w->out[0], in_folder(w, "x.npy")))
CALL(load_npz, hop_load(&w->out[0], in_folder(w, "x.npz:a")))
CALL(load_safetensors, hop_load(&w->out[0], in_folder(w, "x.safetensors:a")))
CALL(save_npy, hop_save(w->strided, in_folder(w, "y.npy")))
CALL(save_npz, hop_save_many(in_folder(w, "y.npz"), (const char *const[]){ "a", "b" }, w->many, 2))
CALL(save_safetensors,
     hop_save_many(in_folder(w, "y.safetensors"), (const char *const[]){ "a", "b" }, w->many, 2))
CALL(file_open, hop_file_open(&w->made_file, in_folder(w, "x.npz")))
CALL(file_load, hop_file_load(&w->out[0], w->archive, "a"))
CALL(to_dlpack, hop_tensor_to_dlpack((struct DLManagedTensor **)&w->exchange, w->strided))
static int call_from_dlpack(struct world *w)
{
    int status = hop_tensor_from_dlpack(&w->out[0], w->given);
    if (!status) w->given = NULL;
    return status;
}
static int call_from_dlpack_versioned(struct world *w)
{
    int status = hop_tensor_from_dlpack_versioned(&w->out[0], w->given_versioned);
    if (!status) w->given_versioned = NULL;
    return status;
}
CALL(cache_directory, hop_cache_directory(in_folder(w, "cache")))
CALL(debug_leaks, text_status(w, hop_debug_leaks()))
static int call_operator_register(struct world *w) { return (void)w, hop_operator_register(&alloc_specs[3]); }
CALL(operators_capture, hop_capture(&w->made_fn, operators_params, 3, calls_operators, NULL))
CALL(operators_vmap, hop_vmap(&w->made_fn, w->operated, "x", NULL))
CALL(operators_compile_portable,
     hop_compile(&w->made_exe, w->operated, &(hop_compile_options){ .portable = 1 }))
CALL(operators_compile, hop_compile(&w->made_exe, w->operated, &(hop_compile_options){ .threads = 1 }))
CALL(operators_run, hop_run(w->operated_exe, &w->six, 1, w->out, 3))
CALL(operators_run_native, hop_run(w->operated_native, &w->six, 1, w->out, 3))
CALL(operators_interpret, hop_interpret(w->operated, &w->six, 1, w->out, 3))
CALL(operators_eager, hop_eager(operators_params, calls_operators, NULL, &w->six, 1, w->out, 3))
static int call_operators_emit(struct world *w)
{
    char *text = NULL;
    int status = hop_emit(&text, w->operated, "c", NULL);
    return status ? status : text_status(w, text);
}
#undef CALL

struct alloc_call {
    const char *name;
    int (*call)(struct world *w);
    bool compiles, files; /* its world needs files */
    bool operators;       /* … and the function that calls operators */
};
#define ENTRY(name) { #name, call_##name, false, false }
#define FILES(name) { #name, call_##name, false, true }
#define OPERATORS(name) { #name, call_##name, false, false, true }
static const struct alloc_call alloc_calls[] = {
    ENTRY(tensor_new),
    ENTRY(tensor_strided),
    ENTRY(tensor_view),
    ENTRY(tensor_copy),
    ENTRY(tensor_fill),
    ENTRY(tensor_text),
    ENTRY(capture),
    ENTRY(capture_call),
    ENTRY(fn_read),
    ENTRY(fn_text),
    ENTRY(fn_type),
    ENTRY(grad),
    ENTRY(value_and_grad),
    ENTRY(vjp),
    ENTRY(jvp),
    ENTRY(vjp_halves),
    ENTRY(jvp_halves),
    ENTRY(linearize),
    ENTRY(jacfwd),
    ENTRY(jacrev),
    ENTRY(hessian),
    ENTRY(vmap),
    ENTRY(debug_nans),
    ENTRY(probes),
    ENTRY(perturb),
    ENTRY(fn_json),
    ENTRY(hook),
    ENTRY(exe_operator),
    ENTRY(profile),
    ENTRY(compile_portable),
    ENTRY(run),
    ENTRY(run_keeping),
    ENTRY(run_donating),
    ENTRY(workspace),
    ENTRY(explain_run),
    ENTRY(explain),
    ENTRY(emit),
    ENTRY(interpret),
    ENTRY(eager),
    FILES(load_npy),
    FILES(load_npz),
    FILES(load_safetensors),
    FILES(save_npy),
    FILES(save_npz),
    FILES(save_safetensors),
    FILES(file_open),
    FILES(file_load),
    ENTRY(to_dlpack),
    ENTRY(from_dlpack),
    ENTRY(from_dlpack_versioned),
    FILES(cache_directory),
    ENTRY(debug_leaks),
    { "compile", call_compile, true, false },
    { "compile_memory", call_compile_memory, true, false },
    { "compile_disk", call_compile_disk, true, true },
    { "run_native", call_run_native, true, false },
    ENTRY(operator_register),
    OPERATORS(operators_capture),
    OPERATORS(operators_vmap),
    OPERATORS(operators_compile_portable),
    OPERATORS(operators_run),
    OPERATORS(operators_interpret),
    OPERATORS(operators_eager),
    OPERATORS(operators_emit),
    { "operators_compile", call_operators_compile, true, false, true },
    { "operators_run_native", call_operators_run_native, true, false, true },
};
#undef ENTRY
#undef OPERATORS
#undef FILES

static void call_wrong(const struct alloc_call *a, uint64_t n, bool one, const char *what)
{
    printf("%s, allocation %llu fails%s: %s: %s\n", a->name, (unsigned long long)n, one ? " alone" : "", what,
           hop_message());
    calls_failed++;
}

/* The n-th allocation fails; n 0: none. Returns how many the call made. */
static uint64_t attempt_call(const struct alloc_call *a, uint64_t n, bool one)
{
    struct world w;
    int64_t live = hop_live_allocations();
    uint64_t made = 0, wrong = calls_failed;
    if (!world_begin(&w, a->compiles && !strcmp(a->name, "run_native"), a->files) ||
        (a->operators && !operators_made(&w, !strcmp(a->name, "operators_run_native")))) {
        call_wrong(a, n, one, "the world cannot begin");
    } else {
        uint64_t start = hop_allocation_count();
        hop_set_message("%s", "");
        hop_tiny_chunks(true);
        (one ? hop_fail_one_allocation : hop_fail_allocation)(n);
        int status = a->call(&w);
        hop_fail_allocation(0);
        made = hop_allocation_count() - start;
        if (status && status != HOP_NOMEM) call_wrong(a, n, one, "expected success or HOP_NOMEM");
        else if (status && !strstr(hop_message(), "memory"))
            call_wrong(a, n, one, "it says nothing about memory");
        else if (status && anything_made(&w)) call_wrong(a, n, one, "it failed and gave something");
        else if (!n && status) call_wrong(a, n, one, "it fails with enough memory");
        if (!status) drop_made(&w);
        if (status && a->call(&w)) call_wrong(a, n, one, "it does not succeed afterwards");
        hop_tiny_chunks(false);
    }
    world_end(&w);
    if (hop_live_allocations() != live) {
        hop_set_message("%lld", (long long)(hop_live_allocations() - live));
        call_wrong(a, n, one, "allocations are left");
    }
    if (wrong == calls_failed) calls_passed++;
    return made;
}

static void single_call(const struct alloc_call *a, bool soak)
{
    attempt_call(a, 0, false); /* the first time something may stay, such as a compiler */
    uint64_t wrong = calls_failed, total = attempt_call(a, 0, false),
             most = soak          ? total
                    : a->compiles ? FEW_POINTS / 5
                                  : FEW_POINTS;
    uint64_t stride = total / (most ? most : 1) + 1;
    if (a->compiles && soak) stride = total / 200 + 1;
    for (uint64_t n = 1; n <= total && calls_failed - wrong < 5; n += stride) {
        attempt_call(a, n, false);
        if (calls_failed - wrong < 5) attempt_call(a, HOP_MIN(n + stride / 2, total), true);
    }
}

static void single_calls(bool soak, bool compiled, const char *only)
{
    for (size_t i = 0; i < HOP_COUNT(alloc_calls); i++)
        if ((!alloc_calls[i].compiles || compiled) && (!only || !strcmp(only, alloc_calls[i].name)))
            single_call(&alloc_calls[i], soak);
}

#endif
