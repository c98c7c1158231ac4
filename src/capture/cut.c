/* Cutting a capture: what was recorded so far becomes a function of its own, and the capture goes on empty,
 * in a new module. So a binding can run the first part and go on with the numbers that it gave. */
#include "capture/capture.h"

/* The capture whose function these values are of; throws where it cannot be cut. */
static struct capture *cut_owner(const hop_val *values, uint32_t n)
{
    struct capture *c = capture_current();
    while (n && c && (c->eager || !in_scope(c->innermost, values[0].scope))) c = c->outer;
    if (!c || c->eager) capture_throw("expected values of a function that is being captured");
    if (c->innermost->outer) capture_throw("a program cannot be cut in %s", c->innermost->what);
    if (c->updates) capture_throw("a function that updates its arguments (mut) cannot be cut");
    return c;
}

/* Functions captured inside of this one that speak of its sizes would outlive them. */
static void check_inside(const struct capture *c)
{
    for (struct capture *in = capture_current(); in != c; in = in->outer) {
        const struct scope *root = in->eager ? NULL : scope_root(in);
        for (uint32_t k = 0; root && k < root->binds.len; k++)
            if (root->binds.data[k] != HOP_NONE)
                capture_throw("a function captured inside of the one to be cut has sizes of it that are no "
                              "numbers");
    }
}

/* What was recorded moves from s to *ended, which has a cleanup of its own from here on; s begins anew in
 * module m. Nothing fails once s has changed. */
static void begin_anew(struct scope *s, struct module *m, struct scope *ended)
{
    const char *name = module_text(s->capture->m, s->b.name);
    uint32_t id = module_string(m, name, strlen(name));
    *ended = *s;
    builder_begin(&ended->b, m, NULL);
    struct builder empty = ended->b;
    empty.name = s->b.name ? id : 0;
    empty.written = true;
    ended->b = s->b;
    *s = (struct scope){
        .capture = s->capture,
        .serial = scope_serial(),
        .number = s->number,
        .kind = s->kind,
        .depth = s->depth,
        .what = s->what,
        .at = s->at,
        .modes = { .begin = s->modes.begin, .depth = s->modes.depth },
        .b = empty,
    };
    s->lifted.arena = &s->capture->arena;
}

/* Everything that speaks of the old module. */
static void forget_module(struct capture *c, struct module *m)
{
    c->m = m;
    c->last_file = NULL;
    c->ended.len = 0;
    c->keyed.len = 0;
    c->names.len = 0;
    drop_variables(c, 0);
    c->remarks = (struct text){ 0 };
}

static void finish_cut(struct capture *c, struct scope *ended, const hop_val *values, uint32_t n,
                       uint32_t n_given, struct captured *out)
{
    val *ends = ARENA_NEW(&c->arena, val, n), *order = ARENA_NEW(&c->arena, val, n_given + ended->late.len);
    for (uint32_t i = 0; i < n; i++) ends[i] = (val)values[i].id;
    for (uint32_t p = 0; p < n_given; p++) order[p] = p;
    for (uint32_t k = 0; k < ended->late.len; k++) order[n_given + k] = ended->late.data[k].here;
    out->fn = scope_finish(ended, order, n_given + ended->late.len, ends, n);
    capture_keep_around(ended, out);
    out->remarks = arena_string(&c->m->arena, c->remarks.data ? c->remarks.data : "", c->remarks.len);
}

/* Variables are read where they are, numbers become values. */
static hop_val *settled(struct scope *s, const hop_val *values, uint32_t n)
{
    hop_val *out = ARENA_NEW(&s->capture->arena, hop_val, n);
    for (uint32_t i = 0; i < n; i++) {
        struct operand o = resolve(s, values[i]);
        val v = operand_value(&s->b, &o);
        out[i] = value_handle(s, *modes_results(s, &v, 1));
    }
    return out;
}

/* Ends the recorded part in its module and gives the capture a new one, also when that fails. */
static void cut_off(struct capture *c, const hop_val *results, uint32_t n, struct captured *out)
{
    struct scope ended;
    struct module *volatile anew = module_new();
    volatile bool begun = false;
    uint32_t n_given = c->innermost->b.n_params;
    struct hop_catch k;
    if (HOP_TRY(k)) {
        begin_anew(c->innermost, anew, &ended);
        begun = true;
        finish_cut(c, &ended, results, n, n_given, out);
        hop_catch_end(&k);
        out->m = c->m;
        forget_module(c, anew);
        return;
    }
    hop_status status = hop_caught();
    module_free(begun ? c->m : anew);
    if (begun) forget_module(c, anew);
    hop_rethrow(status);
}

struct capture *capture_cut(hop_place at, const hop_val *values, uint32_t n, struct captured *out)
{
    struct capture *current = capture_current();
    if (!current) hop_throw(HOP_INVALID, "cut: called outside of a capture");
    current->at = at;
    current->name = "cut";
    struct capture *c = cut_owner(values, n);
    struct scope *s = c->innermost;
    check_inside(c);
    cut_off(c, settled(s, values, n), n, out);
    s->b.place = s->b.fn_place = capture_place(c, s->at);
    return c;
}
