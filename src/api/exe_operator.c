/* Executables as operators: a compiled program comes in, and under a name others call it. Its signature is
 * written from the types that it was compiled with; a call lays tensors over the memory that the caller's
 * program has, so that nothing is copied. */
#include "api/api.h"
#include "ops/operators.h"

/* ---- the signature ---- */

static uint32_t updates_of(const struct result_map *map, uint32_t p)
{
    for (uint32_t k = 0; k < map->n_results; k++)
        if (map->updates[k] == p) return k;
    return HOP_NONE;
}

/* Names of parameters need not be words, and may be missing. */
static void param_name(struct text *out, const char *name, uint32_t p)
{
    if (operator_is_word(name)) text_str(out, name);
    else text_add(out, "x%u", p);
}

/* "name(x: f32[N], mut y: f32[]) -> (f32[N])" of a function with these updates. */
static const char *signature_of(struct arena *a, const char *name, const struct module *m, const struct fn *f,
                                const struct result_map *map)
{
    struct text out = { .arena = a };
    text_add(&out, "%s(", name);
    for (uint32_t p = 0; p < f->n_params; p++) {
        text_str(&out, p ? ", " : "");
        if (updates_of(map, p) != HOP_NONE) text_str(&out, "mut ");
        param_name(&out, module_text(m, f->values[p].name), p);
        text_str(&out, ": ");
        type_print(m, f->symbols, value_type(f, p), &out);
    }
    text_str(&out, ")");
    for (uint32_t k = 0, visible = 0; k < f->n_results; k++) {
        if (map->updates[k] != HOP_NONE) continue;
        text_str(&out, visible++ ? ", " : " -> (");
        type_print(m, f->symbols, value_type(f, f->results[k]), &out);
    }
    if (map->n_visible) text_str(&out, ")");
    return out.data;
}

static void check_can_be(const struct hop_exe *e, const struct module *m, const struct fn *f)
{
    if (e->donated) hop_throw(HOP_INVALID, "exe_operator: the executable takes arguments over (donate)");
    for (uint32_t p = 0; p < e->map.n_params; p++)
        if (type_is_object(m, value_type(f, p)))
            hop_throw(HOP_INVALID, "exe_operator: the parameter '%.100s' is an object",
                      fn_param_name(m, f, p));
    for (uint32_t s = 0; s < f->n_outer_symbols; s++)
        if (f->symbols[s].origin == SYMBOL_DIM)
            hop_throw(HOP_INVALID, "exe_operator: no argument tells the size '%.100s', which is declared",
                      module_text(m, f->symbols[s].name));
}

/* ---- calls ---- */

enum { FEW = 16 };

/* A tensor over an array of the call. */
static void lay_over(struct tensor *t, const hop_operator_array *a)
{
    *t = (struct tensor){
        .refs = 1, .dtype = (uint8_t)a->dtype, .rank = (uint8_t)a->rank, .count = 1, .data = a->data
    };
    for (int32_t d = 0; d < a->rank; d++) t->count *= t->dims[d] = a->dims[d];
}

/* Results whose size the run has found, into the memory that the caller's program gives for them. */
static int give_found(hop_operator_call *call, hop_tensor **out, uint32_t n, const hop_operator_array *wanted)
{
    int status = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (wanted[k].data) continue;
        const struct tensor *t = tensor_of(out[k]);
        size_t bytes = (size_t)t->count * dtype_info[t->dtype].size;
        void *memory = status ? NULL : call->result(call, (int)k, t->dims);
        if (memory && bytes) memcpy(memory, t->data, bytes);
        if (!status && !memory) status = HOP_NOMEM;
        hop_tensor_free(out[k]);
    }
    return status;
}

/* Why the run inside failed. The reason stands at the end: of a long text, as recursion makes it, that is
 * what is kept. */
static void pass_message(hop_operator_call *call)
{
    const char *text = hop_message();
    size_t n = strlen(text);
    if (n < call->room) snprintf(call->message, call->room, "%s", text);
    else snprintf(call->message, call->room, "… %s", text + n - call->room / 2);
}

static int run_over(hop_operator_call *call, struct hop_exe *e, struct tensor *tensors, hop_tensor **handles)
{
    uint32_t n_in = e->map.n_params, n_out = e->map.n_visible;
    for (uint32_t i = 0; i < n_in + n_out; i++) {
        bool open = i >= n_in && !call->arrays[i].data;
        if (!open) lay_over(&tensors[i], &call->arrays[i]);
        handles[i] = open ? NULL : (hop_tensor *)&tensors[i];
    }
    const struct outlet *around = outlet_get();
    hop_run_options o = { 0 };
    if (around) {
        o.print = around->print;
        o.print_ctx = around->print_ctx;
        o.cancel = around->cancel;
        o.confirm = around->confirm;
        o.confirm_ctx = around->confirm_ctx;
    }
    int status = hop_run_with(e, handles, (int)n_in, handles + n_in, (int)n_out, &o);
    if (status) pass_message(call);
    return status ? status : give_found(call, handles + n_in, n_out, call->arrays + n_in);
}

static void check_depth(void *unused)
{
    HOP_UNUSED(unused);
    hop_check_stack();
}

static int run_exe(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    HOP_UNUSED(arrays);
    HOP_UNUSED(sizes);
    struct hop_exe *e = call->user;
    size_t n = (size_t)call->n_arrays;
    int status = api_edge(check_depth, NULL); /* programs may call themselves */
    if (status) {
        pass_message(call);
        return status;
    }
    if (n <= FEW) {
        struct tensor tensors[FEW];
        hop_tensor *handles[FEW];
        return run_over(call, e, tensors, handles);
    }
    struct tensor *tensors = hop_try_malloc(n * (sizeof *tensors + sizeof(hop_tensor *)));
    if (!tensors) {
        snprintf(call->message, call->room, "out of memory");
        return HOP_NOMEM;
    }
    status = run_over(call, e, tensors, (hop_tensor **)(tensors + n));
    hop_free(tensors);
    return status;
}

/* ---- derivatives ---- */

static void free_fn(void *f) { hop_fn_free(f); }

struct saving {
    hop_fn *half;
    int n_in, n_out, n_results; /* of the half; of the function */
};

/* Results, then what the second half takes before the cotangents: operands, results, residuals. */
static int save_all(void *env, const hop_val *in, hop_val *out)
{
    const struct saving *s = env;
    hop_val *made = out + s->n_results + s->n_in;
    int status = hop_call_fn(made, s->n_out, s->half, in, s->n_in);
    if (status) return status;
    for (int k = 0; k < s->n_results; k++) out[k] = made[k];
    for (int i = 0; i < s->n_in; i++) out[s->n_results + i] = in[i];
    return 0;
}

/* The first half with what it saves as `custom` has it. */
static hop_fn *saving_forward(struct arena *a, hop_fn *half, int n_results)
{
    struct saving s = { half, hop_fn_params(half), hop_fn_results(half), n_results };
    struct text params = { .arena = a };
    text_str(&params, "");
    for (int i = 0; i < s.n_in; i++) {
        const char *type = hop_fn_param_type(half, i);
        if (!type) hop_throw(HOP_NOMEM, "no memory for the type of parameter %d", i);
        text_add(&params, "%sx%d: %s", i ? ", " : "", i, type);
    }
    hop_fn *made = NULL;
    int status = hop_capture(&made, params.data, s.n_results + s.n_in + s.n_out, save_all, &s);
    if (status) hop_rethrow((hop_status)status);
    return made;
}

static bool has_float(hop_fn *f, bool results)
{
    int n = results ? hop_fn_results(f) : hop_fn_params(f);
    for (int i = 0; i < n; i++) {
        const char *type = results ? hop_fn_result_type(f, i) : hop_fn_param_type(f, i);
        if (type && (type[0] == 'f' || type[0] == 'b') && type[1] != 'o') return true;
    }
    return false;
}

/* Rules from the function; they are the caller's to free. */
static void make_rules(struct arena *a, hop_fn *f, hop_operator_spec *spec)
{
    if (!has_float(f, false) || !has_float(f, true)) return;
    hop_fn *half = NULL;
    int status = hop_vjp_halves(&half, &spec->backward, f, NULL);
    if (!status) {
        hop_cleanup_push(free_fn, half);
        hop_cleanup_push(free_fn, spec->backward);
        spec->forward = saving_forward(a, half, hop_fn_results(f));
        hop_cleanup_push(free_fn, spec->forward);
        status = hop_jvp(&spec->jvp, f, NULL);
    }
    if (status) hop_rethrow((hop_status)status);
    hop_cleanup_pop(spec->forward);
    hop_cleanup_pop(spec->backward);
    hop_cleanup_pop(half);
    hop_fn_free(half);
}

/* ---- registering ---- */

static void unlock_module(void *shared) { pthread_mutex_unlock(&((struct shared_module *)shared)->lock); }

struct operator_args {
    hop_exe *exe;
    const char *name;
    hop_fn *f;
};

static void check_same(struct arena *a, const struct operator_args *w, const char *signature)
{
    struct hop_fn *f = check_fn(w->f, "exe_operator");
    module_lock(f->shared);
    hop_cleanup_push(unlock_module, f->shared);
    const char *other = signature_of(a, w->name, f->shared->m, module_fn(f->shared->m, f->fn), &f->map);
    hop_cleanup_pop(f->shared);
    unlock_module(f->shared);
    if (strcmp(signature, other))
        hop_throw(HOP_INVALID, "exe_operator: the executable is %s, the function is another, %s", signature,
                  other);
    if (f->map.n_visible != f->map.n_results)
        hop_throw(HOP_INVALID,
                  "exe_operator: %s updates its arguments: it has no derivatives, give NULL in place of its "
                  "function",
                  w->name);
}

static void do_operator(void *args)
{
    const struct operator_args *w = args;
    struct arena arena = { 0 };
    const struct module *m;
    struct hop_exe *e = check_exe(w->exe);
    if (!w->name || !operator_is_word(w->name))
        hop_throw(HOP_INVALID,
                  "exe_operator: expected a name that is a word and no operator of hop's, "
                  "found '%.100s'",
                  w->name ? w->name : "NULL");
    const struct fn *header = exe_header(e->e, &m);
    check_can_be(e, m, header);
    hop_cleanup_push(arena_free, &arena);
    hop_operator_spec spec = { .signature = signature_of(&arena, w->name, m, header, &e->map),
                               .run = run_exe,
                               .release = exe_drop,
                               .effect = effects_word(e->effects) };
    spec.user = exe_again(e);
    hop_cleanup_push(exe_drop, spec.user);
    if (w->f) {
        check_same(&arena, w, spec.signature);
        make_rules(&arena, w->f, &spec);
    }
    hop_status status = hop_operator_register(&spec);
    if (spec.forward) hop_fn_free(spec.forward);
    if (spec.backward) hop_fn_free(spec.backward);
    if (spec.jvp) hop_fn_free(spec.jvp);
    if (status) hop_rethrow(status);
    hop_cleanup_pop(spec.user);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

hop_status hop_exe_operator(hop_exe *exe, const char *name, hop_fn *f)
{
    struct operator_args w = { exe, name, f };
    return api_edge(do_operator, &w);
}
