/* The row of region: a body under a regime. Running it is running the body; the attribute `kind` says which
 * regime, all other attributes are that regime's or the user's own. What a transform makes of it is a region
 * of the same kind and with the same attributes over the derived body: a gradient's forward and backward, the
 * tangents, the lanes. Kinds that hop does not know mean their body, and their users may rewrite them. */
#include "hops/hops.h"
#include "ir/named.h"

static void region_infer(struct infer *in)
{
    if (!*module_text(in->m, (uint32_t)in->attrs[REGION_KIND].i)) infer_error(in, "its kind has no name");
    if (named_value(in->m, &in->attrs[REGION_NAMED], "kind"))
        infer_error(in, "attribute 'kind' is given twice");
    call_infer(in);
}

static void region_vjp_forward(struct vjp_forward *v) { call_vjp_forward(v, false); }

static void region_vjp(struct vjp *v) { call_vjp(v, v->attrs); }

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
    .eval = call_eval,
    .vjp = region_vjp,
    .vjp_forward = region_vjp_forward,
    .jvp = call_jvp,
    .batch = call_batch,
    HOP_SAMPLES(region_samples),
    .lower = &invoke_lower,
};
