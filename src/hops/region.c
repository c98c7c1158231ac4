/* The row of region: a body under a regime. Running it is running the body; the attribute `kind` says which
 * regime, all other attributes are that regime's or the user's own. What a transform makes of it is a region
 * of the same kind and with the same attributes over the derived body: a gradient's forward and backward, the
 * tangents, the lanes. Kinds that hop does not know mean their body, and their users may rewrite them. */
#include "hops/hops.h"
#include "ir/named.h"
#include "transform/pass.h"

/* ---- kinds and attributes ---- */

enum kind { KIND_OTHER, KIND_WRAP, KIND_NAMED, KIND_NUMBERS, KIND_HINTS };
static const char *const kinds[] = {
    [KIND_WRAP] = "wrap", [KIND_NAMED] = "named", [KIND_NUMBERS] = "numbers", [KIND_HINTS] = "hints"
};

static enum kind kind_of(const struct module *m, const struct attr *attrs)
{
    const char *name = module_text(m, (uint32_t)attrs[REGION_KIND].i);
    for (uint32_t k = KIND_WRAP; k < HOP_COUNT(kinds); k++)
        if (!strcmp(name, kinds[k])) return (enum kind)k;
    return KIND_OTHER;
}

static const struct attr *attrs_of(const struct fn *f, const struct node *n)
{
    return node_attr(f, n, REGION_KIND);
}

/* Is it no more than its body, once nobody differentiates it any more? */
static bool dissolves(const struct module *m, const struct attr *attrs)
{
    enum named_switch written = named_switch(m, &attrs[REGION_NAMED], "inline");
    enum kind kind = kind_of(m, attrs);
    if (kind == KIND_NUMBERS) return false;
    return written == SWITCH_ON || (kind == KIND_OTHER && written != SWITCH_OFF);
}

/* Does nothing go across: no fusion, no motion? */
static bool is_boundary(const struct module *m, const struct attr *attrs)
{
    return kind_of(m, attrs) == KIND_WRAP || named_switch(m, &attrs[REGION_NAMED], "inline") == SWITCH_OFF;
}

static void check_switch(struct infer *in, const char *name)
{
    const struct attr *given = &in->attrs[REGION_NAMED];
    if (named_switch(in->m, given, name) == SWITCH_UNKNOWN)
        infer_error(in, "%s: expected \"yes\", \"no\", \"on\", \"off\", true or false, found %s", name,
                    named_value(in->m, given, name));
}

static void check_number(struct infer *in, const char *name, int64_t most)
{
    const struct attr *given = &in->attrs[REGION_NAMED];
    const char *text = named_value(in->m, given, name);
    int64_t number = 0;
    if (text && (!named_int(in->m, given, name, &number) || number < 1 || number > most))
        infer_error(in, "%s: expected an integer from 1 to %lld, found %s", name, (long long)most, text);
}

enum { MOST_UNROLLED = 64, MOST_THREADS = 1024 };

static void check_hints(struct infer *in)
{
    const struct attr *given = &in->attrs[REGION_NAMED];
    const char *schedule = named_value(in->m, given, "schedule");
    struct attr attrs[LOOP_SCHEDULE_ATTRS];
    check_switch(in, "vector");
    check_number(in, "unroll", MOST_UNROLLED);
    check_number(in, "threads", MOST_THREADS);
    if (schedule && !schedule_read(named_string(in->m, given, "schedule", in->arena), attrs, in->arena))
        infer_error(in,
                    "schedule: expected \"none\", \"recompute\", \"sqrt\", \"every N\" or "
                    "\"binomial N\", found %s",
                    schedule);
}

static void region_infer(struct infer *in)
{
    const struct attr *given = &in->attrs[REGION_NAMED];
    enum kind kind = kind_of(in->m, in->attrs);
    const char *name = named_string(in->m, given, "name", in->arena);
    const char *mode = named_string(in->m, given, "mode", in->arena);
    if (!*module_text(in->m, (uint32_t)in->attrs[REGION_KIND].i)) infer_error(in, "its kind has no name");
    if (named_value(in->m, given, "kind")) infer_error(in, "attribute 'kind' is given twice");
    if (kind == KIND_NAMED && (!name || !*name))
        infer_error(in, "a region of kind \"named\" has a name: expected name = \"…\"");
    if (kind == KIND_NUMBERS && (!mode || strcmp(mode, "strict")))
        infer_error(in, "a region of kind \"numbers\" has strict numbers: expected mode = \"strict\"");
    if (kind == KIND_NUMBERS && named_switch(in->m, given, "inline") == SWITCH_ON)
        infer_error(in, "inline: strict numbers end where the region ends, so it is not inlined");
    if (kind != KIND_OTHER) check_switch(in, "inline");
    if (kind == KIND_HINTS) check_hints(in);
    once_infer(in);
    call_infer(in);
}

/* ---- the schedule of loops inside ---- */

static const uint64_t MEMO_SCHEDULED = 0x73636865;

struct schedule_hint {
    struct attr attrs[LOOP_SCHEDULE_ATTRS];
    uint64_t text; /* string id, for the memo */
};

static uint32_t with_schedule(struct module *m, uint32_t fn, struct schedule_hint *hint);

/* A loop that says nothing itself takes the hint; so do those in bodies. */
static bool schedule_node(struct simplifier *s, struct copier *c, const struct node *n, val *results,
                          void *ctx)
{
    struct schedule_hint *hint = ctx;
    const struct op_row *row = node_row(n);
    struct node_in in = copier_node_in(c, n);
    struct attr *attrs = arena_copy(&c->b->arena, in.attrs, row->sig.n_attrs * sizeof *attrs);
    struct region_in *regions = arena_copy(&c->b->arena, in.regions, n->n_regions * sizeof *regions);
    struct attr *own = row->loop && row->loop->attr.schedule ? &attrs[row->loop->attr.schedule - 1] : NULL;
    bool changed = own && own[0].kind == ATTR_ABSENT && own[1].kind == ATTR_ABSENT;
    for (uint32_t i = 0; changed && i < LOOP_SCHEDULE_ATTRS; i++) own[i] = hint->attrs[i];
    for (uint32_t r = 0; r < n->n_regions; r++) {
        regions[r].fn = with_schedule(s->m, regions[r].fn, hint);
        changed |= regions[r].fn != in.regions[r].fn;
    }
    if (!changed) return false;
    in.attrs = attrs;
    in.regions = regions;
    val first = builder_node(c->b, &in);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
    return true;
}

static uint32_t with_schedule(struct module *m, uint32_t fn, struct schedule_hint *hint)
{
    static const struct pass_options everything;
    uint64_t key[4] = { MEMO_SCHEDULED, fn, hint->text, 0 };
    union memo_value known;
    if (memo_get(m, key, &known)) return known.fn;
    hop_check_stack();
    struct simplifier s = { .m = m, .o = &everything, .root = fn };
    uint32_t out = rewrite_nodes(&s, fn, wants_higher, schedule_node, hint);
    memo_put(m, key, (union memo_value){ .fn = out });
    return out;
}

/* The body, its loops with the schedule that the region gives them. */
static uint32_t scheduled_body(struct module *m, const struct fn *f, const struct node *n)
{
    const struct attr *attrs = attrs_of(f, n);
    struct schedule_hint hint;
    uint32_t body = node_region(f, n, 0)->fn;
    const char *text = named_string(m, &attrs[REGION_NAMED], "schedule", &m->scratch);
    if (kind_of(m, attrs) != KIND_HINTS || !schedule_read(text, hint.attrs, &m->arena)) return body;
    hint.text = module_string(m, text, strlen(text));
    return with_schedule(m, body, &hint);
}

/* ---- names in messages ---- */

static const char *name_of(struct module *m, const struct attr *attrs)
{
    return named_string(m, &attrs[REGION_NAMED], "name", &m->scratch);
}

/* Runs a rule; what it throws says in which region, when that has a name. */
static void within(struct module *m, const struct fn *f, const struct node *n, void (*rule)(void *arg),
                   void *arg)
{
    struct hop_catch caught;
    if (!named_value(m, attrs_of(f, n) + REGION_NAMED, "name")) {
        rule(arg);
        return;
    }
    if (HOP_TRY(caught)) {
        rule(arg);
        hop_catch_end(&caught);
        return;
    }
    hop_status status = hop_caught();
    char found[2048];
    snprintf(found, sizeof found, "%s", hop_message());
    const char *name = name_of(m, attrs_of(f, n));
    if (!name) hop_rethrow(status);
    hop_throw(status, "%s\n  in the region '%s'", found, name);
}

static void eval_rule(void *e) { call_eval(e); }
static void vjp_forward_rule(void *arg)
{
    struct vjp_forward *v = arg;
    struct node_in in = copier_node_in(v->copy, v->n);
    call_vjp_forward(v, scheduled_body(v->copy->b->m, v->f, v->n), false, once_derived(v->copy->b, in.attrs));
}
static void vjp_rule(void *arg)
{
    struct vjp *v = arg;
    call_vjp(v, once_derived(v->b, v->attrs));
}
static void jvp_rule(void *arg)
{
    struct jvp *j = arg;
    call_jvp(j, once_derived(j->b, j->attrs));
    if (region_once(j->b->m, j->f, j->n) != ONCE_NO) once_jvp(j);
}
static void batch_rule(void *v) { call_batch(v); }

static void region_eval(struct eval *e) { within(e->m, e->f, e->n, eval_rule, e); }
static void region_vjp(struct vjp *v) { within(v->b->m, v->f, v->n, vjp_rule, v); }
static void region_jvp(struct jvp *j) { within(j->b->m, j->f, j->n, jvp_rule, j); }
static void region_batch(struct batch *v) { within(v->b->m, v->f, v->n, batch_rule, v); }

static void region_vjp_forward(struct vjp_forward *v)
{
    within(v->copy->b->m, v->f, v->n, vjp_forward_rule, v);
}

/* ---- passes ---- */

static bool region_rewrite(struct copier *c, const struct node *n, val *results, const void *options)
{
    const struct pass_options *o = options;
    if ((o && o->differentiable) || !dissolves(c->b->m, attrs_of(c->f, n))) return false;
    struct attr attrs[INVOKE_ATTRS] = { A_NONE };
    bool written = named_switch(c->b->m, &attrs_of(c->f, n)[REGION_NAMED], "inline") == SWITCH_ON;
    if (written) attrs[INVOKE_INLINE] = A_WORD(INLINE_YES);
    copier_call(c, n, copier_node_in(c, n), attrs, results);
    return true;
}

static bool region_strict(const struct module *m, const struct fn *f, const struct node *n)
{
    return kind_of(m, attrs_of(f, n)) == KIND_NUMBERS;
}

/* ---- compiled ---- */

static struct lp_regime inner_regime(struct module *m, const struct attr *attrs, struct lp_regime r)
{
    const struct attr *given = &attrs[REGION_NAMED];
    const char *name = name_of(m, attrs);
    enum kind kind = kind_of(m, attrs);
    int64_t number;
    r.strict |= kind == KIND_NUMBERS;
    if (kind == KIND_HINTS) {
        enum named_switch vector = named_switch(m, given, "vector");
        if (vector != SWITCH_ABSENT) r.scalar = vector == SWITCH_OFF;
        if (named_int(m, given, "unroll", &number)) r.unroll = (uint8_t)number;
        if (named_int(m, given, "threads", &number)) r.threads = (uint16_t)number;
    }
    if (name) {
        const char *outer = r.name ? r.name : "", *after = r.within ? r.within : "";
        r.name = arena_printf(&m->arena, "%s%s%s", outer, *outer ? "/" : "", name);
        r.within = arena_printf(&m->arena, "\n  in the region '%s'%s", name, after);
    }
    return r;
}

/* Scalars go in and come out as they are: no sum outside takes in a product inside, nor the other way. */
static void keep_operands(struct lower *L, const struct fn *f, const struct node *n)
{
    struct module *m = lower_module(L);
    for (uint32_t i = 0; i < n->n_operands; i++) {
        val v = node_operands(f, n)[i];
        if (!type_get(m, value_type(f, v)).rank) lp_keep(lower_lp(L), lower_scalar(L, v));
    }
}

static void keep_results(struct lower *L, const struct fn *f, const struct node *n)
{
    struct module *m = lower_module(L);
    for (uint32_t k = 0; k < n->n_results; k++)
        if (!type_get(m, value_type(f, n->results + k)).rank && lower_result_used(L, n, k))
            lp_keep(lower_lp(L), lower_scalar(L, n->results + k));
}

static void region_block(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    struct lp_regime around = p->regime;
    const struct attr *attrs = attrs_of(f, n);
    keep_operands(L, f, n);
    p->regime = inner_regime(lower_module(L), attrs, around);
    p->has_strict |= p->regime.strict;
    const char *name = name_of(lower_module(L), attrs);
    if (name) lower_mark_label(L, name);
    lower_call(L, f, n);
    p->regime = around;
    keep_results(L, f, n);
}

static bool region_boundary(struct module *m, const struct fn *f, const struct node *n)
{
    return is_boundary(m, attrs_of(f, n));
}

static const struct op_lower region_lower = {
    .kind = LOWER_BLOCK, .block = region_block, .operand_use = lower_call_use, .boundary = region_boundary
};

static const struct op_sample region_samples[] = {
    { "fn @sample(%x: f64[3], %w: f64[]) -> (f64[3]) {\n"
      "  %y = region {kind = \"wrap\"} with(%a = %x, %v = %w) {\n"
      "    %u = broadcast {dims = [3], at = []} (%v)\n"
      "    %s = sin(%a)\n"
      "    %r = mul(%s, %u)\n"
      "    yield(%r)\n"
      "  }\n"
      "  return %y\n"
      "}\n",
      NULL },
    { "hop 1\nfn @square(%x: f64[n]) -> (f64[n]) {\n"
      "  %r = mul(%x, %x)\n"
      "  return %r\n"
      "}\n"
      "fn @sample(%x: f64[2], %y: f64[3]) -> (f64[2], f64[3]) {\n"
      "  %a = region {kind = \"mine\", bits = 8, levels = [0.5, -1.0, 2], mode = \"even\"} @square(%x)\n"
      "  %b = region {kind = \"mine\", bits = 4, on = true} @square(%y)\n"
      "  return %a, %b\n"
      "}\n",
      NULL },
    { "fn @sample(%w: f64[2, 3], %x: f64[2]) -> (f64[3]) {\n"
      "  %u = region {kind = \"once\"} with(%v = %w) {\n"
      "    %r = tanh(%v)\n"
      "    yield(%r)\n"
      "  }\n"
      "  %y = matmul(%x, %u)\n"
      "  return %y\n"
      "}\n",
      NULL },
};

static const struct attr_spec region_attrs[REGION_ATTRS] = {
    [REGION_KIND] = { "kind", ATTR_STRING, true, NULL },
    [REGION_NAMED] = { "…", ATTR_NAMED, false, NULL },
};

const struct op_row row_region = {
    .name = "region",
    .meaning = "a body under a regime, which its kind and its attributes say",
    .sig = { .n_attrs = HOP_COUNT(region_attrs),
             .attrs = region_attrs,
             .min_regions = 1,
             .max_regions = 1,
             .regions = { { .word = "", .feeds = 0, .results = { "yield" } } } },
    .flags = OPF_HIGHER,
    .autocast = AUTOCAST_KEEP,
    .infer = region_infer,
    .eval = region_eval,
    .vjp = region_vjp,
    .vjp_forward = region_vjp_forward,
    .jvp = region_jvp,
    .batch = region_batch,
    HOP_SAMPLES(region_samples),
    .rewrite = region_rewrite,
    .control = CONTROL_REGION,
    .strict = region_strict,
    .once = region_once,
    .lower = &region_lower,
};
