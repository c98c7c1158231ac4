/* Running a function on one back end with every error caught, and comparing what came of it. */
#include "check/check.h"

#include "ops/operators.h"
#include "runtime/ranks.h"

const struct way interpreter = { .name = "interpreter", .passes = { .strict = true } };

static void add_line(void *ctx, const char *line, size_t length)
{
    text_bytes(ctx, line, length);
    if (!length || line[length - 1] != '\n') text_str(ctx, "\n");
}

/* A callback is shown as the line "name(value, value)", among those of print. */
static void add_call(void *ctx, const char *name, struct tensor *const *args, uint32_t n)
{
    callback_text(ctx, name, args, n);
    text_str(ctx, "\n");
}

static void run_compiled(struct module *m, uint32_t fn, const struct way *how, struct tensor *const *args,
                         const int64_t *dims, struct outcome *out)
{
    struct compile_options options = {
        .passes = how->passes, .threads = how->threads, .backend = how->backend, .constant = { .all = true }
    };
    struct exe *e = exe_compile(m, fn, &options, NULL);
    hop_cleanup_push(exe_free, e);
    exe_run(e, args, dims, out->results,
            &(struct exe_call){ .print = add_line,
                                .print_ctx = &out->printed,
                                .callback = add_call,
                                .callback_ctx = &out->printed });
    hop_cleanup_pop(e);
    exe_free(e);
}

/* Copies of the arguments, and which of them each result is computed in: new contents in their own, others
 * wherever one of their type is left. */
struct private_args {
    uint32_t n;
    uint32_t *over;
    struct tensor *args[];
};

static void private_free(void *private)
{
    struct private_args *p = private;
    for (uint32_t i = 0; i < p->n; i++) tensor_free(p->args[i]);
    hop_free(p->over);
    hop_free(p);
}

static struct private_args *private_new(struct module *m, uint32_t fn, struct tensor *const *args)
{
    const struct fn *f = module_fn(m, fn);
    struct private_args *p = hop_calloc(1, sizeof *p + f->n_params * sizeof *p->args);
    hop_cleanup_push(private_free, p);
    p->n = f->n_params;
    p->over = hop_calloc(f->n_results + 1u, sizeof *p->over);
    for (uint32_t i = 0; i < f->n_params; i++) {
        p->args[i] = tensor_is_object(args[i])
                         ? tensor_ref(args[i])
                         : tensor_new((enum dtype)args[i]->dtype, args[i]->rank, args[i]->dims);
        if (!tensor_is_object(args[i])) tensor_copy_elements(p->args[i], args[i]);
    }
    for (uint32_t k = 0; k < f->n_results; k++) p->over[k] = fn_updated(f, k);
    for (uint32_t k = 0; k < f->n_results; k++) {
        for (uint32_t i = 0; i < f->n_params && p->over[k] == HOP_NONE; i++) {
            bool taken = value_type(f, i) != value_type(f, f->results[k]) || tensor_is_object(args[i]);
            for (uint32_t j = 0; j < f->n_results; j++) taken |= p->over[j] == i;
            if (!taken) p->over[k] = i;
        }
    }
    return p;
}

static void run_in_place(struct module *m, uint32_t fn, const struct way *how, struct tensor *const *args,
                         const int64_t *dims, struct outcome *out)
{
    struct private_args *p = private_new(m, fn, args);
    struct compile_options options = { .passes = how->passes,
                                       .threads = how->threads,
                                       .backend = how->backend,
                                       .over = p->over,
                                       .constant = { .all = true } };
    struct exe *e = exe_compile(m, fn, &options, NULL);
    hop_cleanup_push(exe_free, e);
    exe_run(e, p->args, dims, out->results,
            &(struct exe_call){ .print = add_line,
                                .print_ctx = &out->printed,
                                .callback = add_call,
                                .callback_ctx = &out->printed });
    uint32_t n;
    const struct lp_update *updates = exe_updates(e, &n);
    for (uint32_t i = 0; i < n; i++)
        if (!updates[i].elsewhere) out->results[updates[i].result] = tensor_ref(p->args[updates[i].param]);
    hop_cleanup_pop(e);
    exe_free(e);
    hop_cleanup_pop(p);
    private_free(p);
}

static void run_interpreted(struct module *m, uint32_t fn, const struct way *how, struct tensor *const *args,
                            const int64_t *dims, struct outcome *out)
{
    struct interp in = { .m = m,
                         .ranks = &interp_on_ranks,
                         .print = add_line,
                         .print_ctx = &out->printed,
                         .callback = add_call,
                         .callback_ctx = &out->printed };
    interp_run(&in, how->simplify ? simplify(m, fn, &how->passes) : fn, args, dims, out->results);
}

/* Distributed results as the arrays that they are. */
static bool collect_results(struct bag *bag, struct outcome *out)
{
    struct hop_catch caught;
    if (HOP_TRY(caught)) {
        for (uint32_t i = 0; i < out->n; i++)
            if (out->results[i]->parts) out->results[i] = bag_keep(bag, mesh_collect(out->results[i]));
        hop_catch_end(&caught);
        return true;
    }
    out->status = hop_caught();
    out->message = arena_string(&bag->arena, hop_message(), strlen(hop_message()));
    out->n = 0;
    return false;
}

bool run_on(struct bag *bag, struct module *m, uint32_t fn, const struct way *how, struct tensor *const *args,
            const int64_t *dims, struct outcome *out)
{
    struct hop_catch caught;
    stand_ins_clear();
    *out = (struct outcome){ .n = module_fn(m, fn)->n_results, .printed = { .arena = &bag->arena } };
    out->results = ARENA_ZNEW(&bag->arena, struct tensor *, out->n);
    if (HOP_TRY(caught)) {
        if (how->in_place) run_in_place(m, fn, how, args, dims, out);
        else if (how->backend) run_compiled(m, fn, how, args, dims, out);
        else run_interpreted(m, fn, how, args, dims, out);
        hop_catch_end(&caught);
    } else {
        out->status = hop_caught();
        out->message = arena_string(&bag->arena, hop_message(), strlen(hop_message()));
        out->n = 0;
        return false;
    }
    for (uint32_t i = 0; i < out->n; i++) bag_keep(bag, out->results[i]);
    return collect_results(bag, out);
}

const char *outcome_difference(struct arena *a, const struct outcome *found, const struct outcome *expected,
                               struct bound f32, struct bound f64)
{
    if (found->status != expected->status)
        return arena_printf(a, "expected %s, found %s", expected->status ? expected->message : "a result",
                            found->status ? found->message : "a result");
    if (found->status) {
        if (!strcmp(found->message, expected->message)) return NULL;
        return arena_printf(a, "expected the failure '%s', found '%s'", expected->message, found->message);
    }
    if (found->n != expected->n)
        return arena_printf(a, "expected %u results, found %u", expected->n, found->n);
    const char *printed = found->printed.len ? found->printed.data : "";
    const char *to_print = expected->printed.len ? expected->printed.data : "";
    size_t length = found->printed.len;
    if (length != expected->printed.len || memcmp(printed, to_print, length))
        return arena_printf(a, "expected it to print '%s', found '%s'", to_print, printed);
    for (uint32_t i = 0; i < found->n; i++) {
        const char *d = tensor_difference(a, found->results[i], expected->results[i],
                                          bound_of((enum dtype)expected->results[i]->dtype, f32, f64));
        if (d) return arena_printf(a, "result %u: %s", i, d);
    }
    return NULL;
}
