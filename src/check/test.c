/* hop test: the tests of one program. A test block is run on the interpreter, which is held against what the
 * block expects; every other way of running the function is held against the interpreter. Failures are
 * written to a text, checks are counted. */
#include "check/test.h"
#include "check/test_c.h"

#include "hops/probes.h"
#include "transform/transform.h"

/* ---- what a test asks for ---- */

static bool *mask_of(struct arena *a, uint32_t n_params, const uint32_t *params, uint32_t n)
{
    bool *mask = ARENA_ZNEW(a, bool, n_params);
    for (uint32_t i = 0; i < n; i++)
        if (params[i] < n_params) mask[params[i]] = true;
    return mask;
}

static uint32_t apply_transform(struct arena *a, struct module *m, uint32_t fn,
                                const struct test_transform *t)
{
    const struct fn *f = module_fn(m, fn);
    bool *mask = mask_of(a, f->n_params, t->params, t->n);
    for (uint32_t p = 0; !t->n && p < f->n_params; p++)
        mask[p] = t->kind == TRANSFORM_VMAP ||
                  dtype_is_float((enum dtype)type_get(m, value_type(f, p)).dtype);
    struct probe_request want = { .names = t->kind >= TRANSFORM_PROBES && t->names != HOP_NONE
                                               ? module_text(m, t->names)
                                               : NULL,
                                  .gives = t->kind == TRANSFORM_PROBES,
                                  .takes = t->kind == TRANSFORM_PERTURB,
                                  .stacked = t->stacked };
    switch (t->kind) {
    case TRANSFORM_GRAD: return carried_grad(m, fn, mask, false);
    case TRANSFORM_JVP: return carried_jvp(m, fn, mask);
    case TRANSFORM_VJP: return carried_vjp(m, fn, mask);
    case TRANSFORM_PROBES:
    case TRANSFORM_PERTURB: return probes_function(m, fn, &want).fn;
    case TRANSFORM_DEBUG_NANS: return debug_nans_function(m, fn, true, true);
    default: break;
    }
    if (t->size >= 0 && !has_probes(m, fn)) return batch_of(m, fn, mask, dim_const(m, t->size));
    int *in_axes = ARENA_ZNEW(a, int, f->n_params), *out_axes = ARENA_ZNEW(a, int, f->n_results);
    for (uint32_t p = 0; p < f->n_params; p++) in_axes[p] = mask[p] ? 0 : -1;
    return carried_vmap(m, fn, in_axes, out_axes, 0);
}

/* without: switches that are off in the transforms. */
static uint32_t test_function(struct arena *a, struct module *m, const struct program_test *t,
                              uint32_t without)
{
    uint32_t fn = t->fn;
    m->without = without;
    for (uint32_t i = 0; i < t->n_transforms; i++) fn = apply_transform(a, m, fn, &t->transforms[i]);
    return fn;
}

static const int64_t *test_dims(const struct program_test *t) { return t->n_dims ? t->dims : NULL; }

/* `like`: the type of the parameter. An object is given by the number of what stands in for it. */
static struct tensor *test_value(struct bag *bag, struct module *m, const struct test_input *in, type_id like,
                                 uint64_t lane)
{
    struct type param = type_get(m, like);
    if (param.kind)
        return bag_object(bag, module_text(m, param.kind),
                          in->kind == INPUT_CONST ? *(const int64_t *)m->constants.data[in->constant].data
                                                  : 0);
    if (in->kind == INPUT_CONST) return tensor_of_constant(bag, m, in->constant);
    struct type t = type_get(m, in->type);
    int64_t dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = dim_const_value(m, t.dims[i]);
    struct tensor *out = bag_new(bag, (enum dtype)t.dtype, t.rank, dims);
    tensor_random(out, &(struct random){ in->seed + lane * 0x51ed2701u }, in->lo, in->hi);
    return out;
}

static struct tensor **test_args(struct bag *bag, struct module *m, const struct fn *f,
                                 const struct program_test *t)
{
    struct tensor **args = ARENA_ZNEW(&bag->arena, struct tensor *, f->n_params);
    for (uint32_t i = 0; i < t->n_inputs; i++) {
        if (t->inputs[i].param >= f->n_params)
            hop_throw(HOP_INVALID, "the test gives input %u, but the function has %u parameters",
                      t->inputs[i].param, f->n_params);
        args[t->inputs[i].param] = test_value(bag, m, &t->inputs[i], value_type(f, t->inputs[i].param), 0);
    }
    for (uint32_t p = 0; p < f->n_params; p++)
        if (!args[p])
            hop_throw(HOP_INVALID, "the test gives no input for parameter %u (%s: %s)", p,
                      fn_param_name(m, f, p), type_text(m, f->symbols, value_type(f, p)));
    return args;
}

/* ---- counting and reporting ---- */

static void report(struct test_run *run, const struct program_test *t, const char *how, const char *wrong)
{
    if (!wrong) {
        run->passed++;
        if (run->verbose) text_add(run->out, "%s:%u: %s: ok\n", run->path, t ? t->place.line : 1u, how);
        return;
    }
    run->failed++;
    text_add(run->out, "%s:%u: %s: %s\n", run->path, t ? t->place.line : 1u, how, wrong);
}

/* ---- one test ---- */

static const char *against_block(struct bag *bag, struct module *m, const struct program_test *t,
                                 const struct outcome *o)
{
    struct arena *a = &bag->arena;
    if (t->fails) {
        const char *want = module_text(m, t->fails);
        if (!o->status) return arena_printf(a, "expected a failure with '%s', found results", want);
        if (!strstr(o->message, want))
            return arena_printf(a, "expected a failure with '%s', found '%s'", want, o->message);
    } else if (o->status) {
        return arena_printf(a, "%s", o->message);
    }
    for (uint32_t i = 0; !t->fails && i < t->n_expects; i++) {
        const struct test_expect *e = &t->expects[i];
        if (e->result >= o->n) return arena_printf(a, "expects result %u, but there are %u", e->result, o->n);
        const struct tensor *result = o->results[e->result], *want = tensor_of_constant(bag, m, e->constant);
        if (tensor_is_object(result)) want = bag_object(bag, result->kind, *(const int64_t *)want->data);
        const char *d = tensor_difference(a, result, want,
                                          (struct bound){ e->within > 0 ? BOUND_ELEMENT : BOUND_BITS,
                                                          e->within });
        if (d) return arena_printf(a, "result %u: %s", e->result, d);
    }
    if (t->prints) {
        const char *want = module_text(m, t->prints), *found = o->printed.len ? o->printed.data : "";
        size_t n = strlen(want), k = strlen(found);
        while (n && want[n - 1] == '\n') n--;
        while (k && found[k - 1] == '\n') k--;
        if (n != k || memcmp(want, found, n))
            return arena_printf(a, "expected it to print '%.*s', found '%.*s'", (int)n, want, (int)k, found);
    }
    return NULL;
}

/* Strict back ends give the interpreter's bits. Default numbers are held against the block's bounds and,
 * where it gives none, against the interpreter. */
static const char *against_reference(struct bag *bag, struct module *m, const struct program_test *t,
                                     const struct way *how, const struct outcome *o,
                                     const struct outcome *reference)
{
    static const struct bound bits = { BOUND_BITS, 0 };
    static const struct bound f32 = { BOUND_TENSOR, 1e-4 };
    static const struct bound f64 = { BOUND_TENSOR, 1e-9 };
    struct arena *a = &bag->arena;
    if (t->fails) return against_block(bag, m, t, o);
    if (how->passes.strict) return outcome_difference(a, o, reference, bits, bits);
    if (o->status) return arena_printf(a, "%s", o->message);
    for (uint32_t r = 0; r < o->n; r++) {
        const struct test_expect *e = NULL;
        for (uint32_t i = 0; i < t->n_expects; i++)
            if (t->expects[i].result == r && t->expects[i].within > 0) e = &t->expects[i];
        const struct tensor *expected = e && !tensor_is_object(o->results[r])
                                            ? tensor_of_constant(bag, m, e->constant)
                                            : reference->results[r];
        struct bound bound = bound_of((enum dtype)expected->dtype, f32, f64);
        if (e) bound = (struct bound){ BOUND_ELEMENT, e->within };
        const char *d = tensor_difference(a, o->results[r], expected, bound);
        if (d) return arena_printf(a, "result %u: %s", r, d);
    }
    return NULL;
}

enum { SIMPLIFIED = 0, FIXED_WAYS = 7 };
static const struct way fixed_ways[FIXED_WAYS] = {
    { .name = "interpreter after the passes", .simplify = true, .passes.strict = true },
    { .name = "executor strict", .backend = &executor_backend, .passes.strict = true },
    { .name = "compiled strict", .backend = &llvm_backend, .passes.strict = true },
    { .name = "compiled", .backend = &llvm_backend },
    { .name = "executor", .backend = &executor_backend },
    { .name = "executor strict in place",
      .backend = &executor_backend,
      .in_place = true,
      .passes.strict = true },
    { .name = "compiled strict in place", .backend = &llvm_backend, .in_place = true, .passes.strict = true },
};

/* One of n, another one for every test: which switch is off and which numbers are compiled when a test is
 * quick, of which switch there is native code when it is not. */
static uint32_t in_turn(const struct test_run *run, const struct program_test *t, uint32_t n)
{
    return (uint32_t)((hash_bytes(run->path, strlen(run->path), 1) + t->place.line) % n);
}

static const char *off_name(struct arena *a, const char *what, uint32_t off)
{
    return arena_printf(a, "%s without %s", what, off < SWITCH_COUNT ? switch_names[off] : "any pass");
}

/* What a test runs, and what the interpreter makes of it. */
struct subject {
    uint32_t fn;
    struct tensor *const *args;
    struct outcome reference;
};

static void run_way(struct test_run *run, struct bag *bag, struct module *m, const struct program_test *t,
                    const struct subject *s, const struct way *how)
{
    struct outcome found;
    run_on(bag, m, s->fn, how, s->args, test_dims(t), &found);
    report(run, t, how->name, against_reference(bag, m, t, how, &found, &s->reference));
}

/* The transforms of the test made anew with a switch off (SWITCH_COUNT: all of them), another function: the
 * same derivatives, but of other operators, so within bounds. */
static struct subject transformed_without(struct test_run *run, struct bag *bag, struct module *m,
                                          const struct program_test *t, const struct subject *s, uint32_t off)
{
    uint32_t mask = run->without | (off < SWITCH_COUNT ? 1u << off : EVERY_SWITCH);
    struct subject out = { .fn = test_function(&bag->arena, m, t, mask), .args = s->args };
    run_on(bag, m, out.fn, &interpreter, out.args, test_dims(t), &out.reference);
    struct way loosely = { .name = off_name(&bag->arena, "transformed", off) };
    report(run, t, loosely.name, against_reference(bag, m, t, &loosely, &out.reference, &s->reference));
    return out;
}

/* One strict way with a switch off: of the back end that is asked for, else of the executor, which takes no
 * time to compile, or of native code where all switches are off or this one's turn has come. A quick test
 * interprets what the passes make. */
static struct way switched_way(const struct test_run *run, const struct program_test *t, struct arena *a,
                               uint32_t off)
{
    bool native = off == SWITCH_COUNT || off == in_turn(run, t, SWITCH_COUNT);
    const struct backend *backend = native ? &llvm_backend : &executor_backend;
    struct way how = { .backend = run->backend ? run->backend : backend, .passes.strict = true };
    const char *what = how.backend == &llvm_backend ? "compiled" : how.backend->name;
    what = arena_printf(a, "%s strict", what);
    if (run->quick) {
        how = fixed_ways[SIMPLIFIED];
        what = how.name;
    }
    how.passes.without = run->without | (off < SWITCH_COUNT ? 1u << off : EVERY_SWITCH);
    how.name = off_name(a, what, off);
    return how;
}

/* Compiling takes most of a test's time: a quick one compiles with strict numbers or with default ones, and
 * then the functions of its properties. Of emitted C it leaves out the default ones. */
static bool quick_strict(const struct test_run *run, const struct program_test *t)
{
    return in_turn(run, t, 2);
}

static bool wants_way(const struct test_run *run, const struct program_test *t, const struct way *how,
                      const struct fn *f)
{
    bool native = how->backend == &llvm_backend;
    if (run->backend && how->backend != run->backend) return false;
    if (native && !run->compiled) return false;
    if (native && run->quick && !run->backend && !how->in_place && how->passes.strict != quick_strict(run, t))
        return false;
    bool slow_default = how->backend == &executor_backend && !how->passes.strict;
    if (slow_default && run->quick && !run->backend) return false;
    return !how->in_place || fn_has_updates(f);
}

/* Every pass switched off must agree. Off in transforms, too: what they make then has its own reference. */
static void run_switched_off(struct test_run *run, struct bag *bag, struct module *m,
                             const struct program_test *t, const struct subject *s)
{
    for (uint32_t off = 0; off <= SWITCH_COUNT; off++) { /* the last: all of them */
        bool pass_off = off < PASS_COUNT || off == SWITCH_COUNT;
        if (off < SWITCH_COUNT && run->without >> off & 1) continue;
        if (run->quick && (!t->n_transforms || off != in_turn(run, t, PASS_COUNT))) continue;
        struct subject own = *s;
        if (t->n_transforms && pass_off) own = transformed_without(run, bag, m, t, s, off);
        struct way how = switched_way(run, t, &bag->arena, off);
        if (run->quick || wants_way(run, t, &how, module_fn(m, own.fn))) run_way(run, bag, m, t, &own, &how);
    }
}

static void run_ways(struct test_run *run, struct bag *bag, struct module *m, const struct program_test *t,
                     uint32_t fn, struct tensor *const *args)
{
    struct subject s = { .fn = fn, .args = args };
    run_on(bag, m, fn, &interpreter, args, test_dims(t), &s.reference);
    report(run, t, interpreter.name, against_block(bag, m, t, &s.reference));
    if (s.reference.status && !t->fails) return;
    for (int k = 0; k < FIXED_WAYS; k++) {
        struct way how = fixed_ways[k];
        how.passes.without = run->without;
        if (wants_way(run, t, &how, module_fn(m, fn))) run_way(run, bag, m, t, &s, &how);
    }
    run_switched_off(run, bag, m, t, &s);
}

/* ---- properties ---- */

static const char *property_differences(const struct test_run *run, struct bag *bag, struct module *m,
                                        const struct program_test *t, const struct test_property *p)
{
    uint32_t fn = test_function(&bag->arena, m, t, m->without);
    const struct fn *f = module_fn(m, fn);
    bool *wrt;
    if (p->n) wrt = mask_of(&bag->arena, f->n_params, p->params, p->n);
    else wrt = param_mask(&bag->arena, m, f, NULL);
    struct claim c = { .bag = bag,
                       .m = m,
                       .fn = fn,
                       .args = test_args(bag, m, f, t),
                       .dims = test_dims(t),
                       .seed = 11,
                       .compiled = run->compiled };
    return claim_gradient(&c, wrt);
}

/* Another value for the same parameter, so that lanes differ: random inputs are drawn anew, floats are
 * scaled, integers go towards zero, bools flip. */
static struct tensor *lane_value(struct bag *bag, struct module *m, const struct test_input *in, type_id like,
                                 int64_t lane)
{
    struct tensor *v = test_value(bag, m, in, like, (uint64_t)lane);
    for (int64_t i = 0; in->kind == INPUT_CONST && lane && i < v->count; i++) {
        double x = tensor_get(v, i);
        if (v->dtype == DT_BOOL) x = lane & 1 ? !x : x;
        else if (dtype_is_float((enum dtype)v->dtype)) x *= 1 + 0.125 * (double)lane;
        else if (x > 0) x = x > (double)lane ? x - (double)lane : 0;
        tensor_set(v, i, x);
    }
    return v;
}

static const char *property_batch(const struct test_run *run, struct bag *bag, struct module *m,
                                  const struct program_test *t, const struct test_property *p)
{
    enum { LANES = 3 };
    uint32_t fn = test_function(&bag->arena, m, t, m->without);
    const struct fn *f = module_fn(m, fn);
    bool *batched = mask_of(&bag->arena, f->n_params, p->params, p->n);
    for (uint32_t i = 0; !p->n && i < f->n_params; i++) batched[i] = !type_is_object(m, value_type(f, i));
    struct tensor **lanes[LANES];
    for (int64_t l = 0; l < LANES; l++) {
        lanes[l] = test_args(bag, m, f, t);
        for (uint32_t i = 0; i < t->n_inputs; i++)
            if (batched[t->inputs[i].param])
                lanes[l][t->inputs[i].param] = lane_value(bag, m, &t->inputs[i],
                                                          value_type(f, t->inputs[i].param), l);
    }
    struct claim c = { .bag = bag,
                       .m = m,
                       .fn = fn,
                       .args = lanes[0],
                       .dims = test_dims(t),
                       .seed = 13,
                       .compiled = run->compiled };
    return claim_batch(&c, batched, LANES, (struct tensor *const *const *)lanes);
}

static const struct property {
    const char *word;
    bool in_f64; /* on the program retyped to f64 where that reads */
    const char *(*check)(const struct test_run *run, struct bag *bag, struct module *m,
                         const struct program_test *t, const struct test_property *p);
} properties[] = {
    { "differences", true, property_differences },
    { "batch", false, property_batch },
};

static const struct property *property_find(const char *word)
{
    for (size_t k = 0; k < HOP_COUNT(properties); k++)
        if (!strcmp(word, properties[k].word)) return &properties[k];
    return NULL;
}

/* With all passes, compiled where that can be; then with single passes off in the transforms, interpreted. */
static void run_property(struct test_run *run, struct bag *bag, struct module *m, uint32_t index, uint32_t i,
                         const struct property *property)
{
    const struct program_test *t = m->tests.data[index];
    const struct test_property *p = &t->properties[i];
    m->without = run->without;
    struct test_run interpreted = *run;
    interpreted.compiled = false;
    const struct test_run *first = run->quick && quick_strict(run, t) ? &interpreted : run;
    report(run, t, property->word, property->check(first, bag, m, t, p));
    for (enum pass off = 0; off < PASS_COUNT; off++) {
        if (run->without >> off & 1 || (run->quick && off != in_turn(run, t, PASS_COUNT))) continue;
        m->without = run->without | 1u << off;
        report(run, t, off_name(&bag->arena, property->word, off),
               property->check(&interpreted, bag, m, t, p));
    }
}

static void run_properties(struct test_run *run, struct bag *bag, struct module *m, struct module *wide,
                           uint32_t index)
{
    const struct program_test *t = m->tests.data[index];
    for (uint32_t i = 0; i < t->n_properties; i++) {
        const char *word = module_text(m, t->properties[i].word);
        const struct property *property = property_find(word);
        if (property) run_property(run, bag, property->in_f64 && wide ? wide : m, index, i, property);
        else report(run, t, word, "there is no such property");
    }
}

/* A transform may be what fails: NULL when the test says so, else the message. */
static const char *unless_expected(const struct module *m, const struct program_test *t)
{
    return t->fails && strstr(hop_message(), module_text(m, t->fails)) ? NULL : hop_message();
}

static void run_test(struct test_run *run, struct module *m, struct module *wide, uint32_t index)
{
    struct hop_catch caught;
    struct bag bag = { 0 };
    const struct program_test *t = m->tests.data[index];
    if (HOP_TRY(caught)) {
        hop_cleanup_push(bag_free, &bag);
        uint32_t fn = test_function(&bag.arena, m, t, run->without);
        run_ways(run, &bag, m, t, fn, test_args(&bag, m, module_fn(m, fn), t));
        run_properties(run, &bag, m, wide, index);
        hop_cleanup_pop(&bag);
        bag_free(&bag);
        hop_catch_end(&caught);
    } else {
        report(run, t, "test", unless_expected(m, t));
    }
}

/* ---- emitted C ---- */

static const struct way emitted_backends[] = {
    { .name = "emitted C strict", .passes.strict = true },
    { .name = "emitted C" },
};
enum { EMITTED_BACKENDS = HOP_COUNT(emitted_backends) };
struct emitted {
    uint32_t fn, numbers[EMITTED_BACKENDS]; /* in the unit; HOP_NONE: it could not be emitted */
};

static void add_emitted(struct test_run *run, struct c_programs *c, struct module *m,
                        const struct program_test *t, struct emitted *to)
{
    for (uint32_t k = 0; k < EMITTED_BACKENDS; k++) {
        struct hop_catch caught;
        struct arena arena = { 0 };
        struct pass_options passes = emitted_backends[k].passes;
        passes.without = run->without;
        to->numbers[k] = HOP_NONE;
        if (module_fn(m, t->fn)->global) continue; /* emitted C has no ranks */
        if (run->quick && !passes.strict && quick_strict(run, t)) continue;
        if (HOP_TRY(caught)) {
            hop_cleanup_push(arena_free, &arena);
            to->fn = test_function(&arena, m, t, run->without);
            to->numbers[k] = c_programs_add(c, m, to->fn, &passes);
            hop_cleanup_pop(&arena);
            arena_free(&arena);
            hop_catch_end(&caught);
        } else {
            report(run, t, emitted_backends[k].name, unless_expected(m, t));
        }
    }
}

static void run_emitted(struct test_run *run, struct c_programs *c, struct module *m,
                        const struct program_test *t, const struct emitted *from)
{
    struct hop_catch caught;
    struct bag bag = { 0 };
    bool any = false;
    for (uint32_t k = 0; k < EMITTED_BACKENDS; k++) any |= from->numbers[k] != HOP_NONE;
    if (!any) return;
    if (HOP_TRY(caught)) {
        struct outcome reference, other;
        hop_cleanup_push(bag_free, &bag);
        struct tensor **args = test_args(&bag, m, module_fn(m, from->fn), t);
        run_on(&bag, m, from->fn, &interpreter, args, test_dims(t), &reference);
        for (uint32_t k = 0; k < EMITTED_BACKENDS; k++) {
            if (from->numbers[k] == HOP_NONE) continue;
            c_programs_run(c, from->numbers[k], &bag, m, from->fn, args, test_dims(t), &other);
            report(run, t, emitted_backends[k].name,
                   against_reference(&bag, m, t, &emitted_backends[k], &other, &reference));
        }
        hop_cleanup_pop(&bag);
        bag_free(&bag);
        hop_catch_end(&caught);
    } else {
        report(run, t, "emitted C", hop_message());
    }
}

static void run_all_emitted(struct test_run *run, const char *text, size_t length)
{
    struct module *m = text_read(run->path, text, length);
    hop_cleanup_push(module_free, m);
    struct c_programs *c = c_programs_new(run->dialect);
    hop_cleanup_push(c_programs_free, c);
    struct emitted *list = ARENA_ZNEW(run->out->arena, struct emitted, m->tests.len);
    for (uint32_t i = 0; i < m->tests.len; i++) add_emitted(run, c, m, m->tests.data[i], &list[i]);
    /* A quick test leaves every other file as it is. */
    c_programs_build(c, !run->quick || hash_bytes(run->path, strlen(run->path), 1) % 2);
    for (uint32_t i = 0; i < m->tests.len; i++) run_emitted(run, c, m, m->tests.data[i], &list[i]);
    hop_cleanup_pop(c);
    c_programs_free(c);
    hop_cleanup_pop(m);
    module_free(m);
}

/* ---- one file ---- */

/* "# error: LINE:COL: text" on the first line: reading must fail there with that. */
static bool expected_error(struct test_run *run, const char *text, size_t length)
{
    static const char mark[] = "# error: ";
    const char *end = memchr(text, '\n', length);
    size_t line = end ? (size_t)(end - text) : length;
    if (line < sizeof mark - 1 || memcmp(text, mark, sizeof mark - 1)) return false;
    if (run->emitted_c) return true; /* nothing to emit */
    char *want = arena_string(run->out->arena, text + sizeof mark - 1, line - (sizeof mark - 1));
    for (size_t n = strlen(want); n && (want[n - 1] == ' ' || want[n - 1] == '\r'); n--) want[n - 1] = 0;
    struct hop_catch caught;
    if (HOP_TRY(caught)) {
        module_free(text_read(run->path, text, length));
        hop_catch_end(&caught);
        report(run, NULL, "read",
               arena_printf(run->out->arena, "expected the error '%s', but it reads", want));
        return true;
    }
    /* The message is "file:LINE:COL: …"; the place and the text may have words between them (the operator's
     * name). */
    const char *found = hop_message();
    size_t place = strspn(want, "0123456789:");
    const char *words = want + place + strspn(want + place, " ");
    bool there = strstr(found, words) && (!place || strstr(found, arena_printf(run->out->arena, "%s:%.*s",
                                                                               run->path, (int)place, want)));
    report(run, NULL, "read",
           there ? NULL : arena_printf(run->out->arena, "expected the error '%s', found '%s'", want, found));
    return true;
}

static struct module *read_wide(const char *path, const char *text, size_t length, struct arena *a)
{
    struct hop_catch caught;
    struct module *volatile m = NULL;
    char *wide = text_in_f64(a, text, length);
    if (!wide) return NULL;
    if (HOP_TRY(caught)) {
        m = text_read(path, wide, length);
        hop_catch_end(&caught);
    }
    /* NULL where a default type stands in the way: the narrow program is checked with wider bounds. */
    return m;
}

static void run_all(struct test_run *run, const char *text, size_t length)
{
    struct module *m = text_read(run->path, text, length);
    hop_cleanup_push(module_free, m);
    report(run, NULL, "printed and read again", claim_round_trip(m));
    bool wide_wanted = false;
    for (uint32_t i = 0; i < m->tests.len; i++) wide_wanted |= m->tests.data[i]->n_properties > 0;
    struct module *wide = wide_wanted ? read_wide(run->path, text, length, run->out->arena) : NULL;
    hop_cleanup_push(module_free, wide);
    for (uint32_t i = 0; i < m->tests.len; i++) run_test(run, m, wide, i);
    hop_cleanup_pop(wide);
    module_free(wide);
    hop_cleanup_pop(m);
    module_free(m);
}

void test_file(struct test_run *run)
{
    struct hop_catch caught;
    struct arena arena = { 0 };
    if (HOP_TRY(caught)) {
        size_t length;
        hop_cleanup_push(arena_free, &arena);
        const char *text = file_text(&arena, run->path, &length);
        if (!expected_error(run, text, length))
            (run->emitted_c ? run_all_emitted : run_all)(run, text, length);
        hop_cleanup_pop(&arena);
        arena_free(&arena);
        hop_catch_end(&caught);
    } else {
        report(run, NULL, "read", hop_message());
    }
}
