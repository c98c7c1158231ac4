/* The row of invoke_subgraph: a call. Its operands go to its one region, whose results are its results; sizes
 * that only the body knows become symbols that the call binds. */
#include "hops/hops.h"

static void invoke_infer(struct infer *in)
{
    const struct attr *policy = &in->attrs[INVOKE_POLICY];
    if (policy->kind != ATTR_ABSENT && in->attrs[INVOKE_RECOMPUTE].kind != ATTR_ABSENT)
        infer_error(in, "both 'recompute' and 'policy' are given: recompute is policy = \"nothing\"");
    if (policy->kind != ATTR_ABSENT) infer_policy(in, policy);
    call_infer(in);
}

static void invoke_vjp_forward(struct vjp_forward *v)
{
    bool recompute = node_attr(v->f, v->n, INVOKE_RECOMPUTE)->kind != ATTR_ABSENT;
    const struct attr *policy = node_attr(v->f, v->n, INVOKE_POLICY);
    uint32_t body = node_region(v->f, v->n, 0)->fn;
    struct module *m = v->copy->b->m;
    if (policy->kind == ATTR_ABSENT && !recompute) {
        call_vjp_forward(v, body, false, NULL);
        return;
    }
    /* A rule of its own: what holds around it does not hold inside. */
    struct price_scope scope;
    struct price price = { 0 };
    struct budget budget;
    struct attr attrs[INVOKE_ATTRS];
    struct node_in in = copier_node_in(v->copy, v->n);
    memcpy(attrs, in.attrs, sizeof attrs);
    if (policy->kind != ATTR_ABSENT && policy_budget(m, policy, &budget)) {
        price = budget_price(m, body, &budget, v->n, v->split_active, v->split_wanted);
        attrs[INVOKE_POLICY] = A_NONE; /* spent: gradients of the gradient keep what they like */
    } else if (policy->kind != ATTR_ABSENT) {
        body = policy_body(m, body, policy, &recompute);
    }
    price_begin(&scope, m, price);
    call_vjp_forward(v, body, recompute, attrs);
    price_end(&scope);
}

/* What is kept was decided by now; how it is compiled was not. */
static void invoke_vjp(struct vjp *v)
{
    struct attr attrs[INVOKE_ATTRS] = { [INVOKE_INLINE] = v->attrs[INVOKE_INLINE] };
    call_vjp(v, attrs);
}
static void invoke_jvp(struct jvp *j) { call_jvp(j, j->attrs); }

static const struct op_sample invoke_samples[] = {
    { "hop 1\nfn @half(%x: f64[n]) -> (f64[n]) {\n"
      "  %h = full {value = 0.5, dims = [n], dtype = f64}\n"
      "  %s = sin(%x)\n"
      "  %r = mul(%h, %s)\n"
      "  return %r\n"
      "}\n"
      "fn @sample(%x: f64[3], %y: f64[2]) -> (f64[3], f64[2]) {\n"
      "  %a = invoke_subgraph @half(%x)\n"
      "  %b = invoke_subgraph @half(%y)\n"
      "  return %a, %b\n"
      "}\n",
      NULL },
};

static const char *const inline_words[] = { [INLINE_NO] = "no", [INLINE_YES] = "yes", NULL };

static const struct attr_spec invoke_attrs[INVOKE_ATTRS] = {
    [INVOKE_RECOMPUTE] = { "recompute", ATTR_FLAG, false, NULL },
    [INVOKE_POLICY] = { "policy", ATTR_STRING, false, NULL },
    [INVOKE_INLINE] = { "inline", ATTR_WORD, false, inline_words },
};

const struct op_row row_invoke_subgraph = {
    .name = "invoke_subgraph",
    .meaning = "the results of a function applied to the operands: a call",
    .sig = { .n_attrs = HOP_COUNT(invoke_attrs),
             .attrs = invoke_attrs,
             .min_regions = 1,
             .max_regions = 1,
             .regions = { { .word = "", .feeds = 0, .results = { "yield" } } } },
    .flags = OPF_HIGHER,
    .autocast = AUTOCAST_KEEP,
    .infer = invoke_infer,
    .eval = call_eval,
    .vjp = invoke_vjp,
    .vjp_forward = invoke_vjp_forward,
    .jvp = invoke_jvp,
    .batch = call_batch,
    HOP_SAMPLES(invoke_samples),
    .lower = &invoke_lower,
    .control = CONTROL_CALL,
    .inline_attr = INVOKE_INLINE + 1,
};
