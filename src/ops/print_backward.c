/* The values as they are, of which a gradient prints the cotangents: a call of a function that gives back
 * what it gets, with a backward of its own that prints on the way. */
#include "ops/rowkit.h"

enum { FORMAT, ATTRS };

static void infer_print_backward(struct infer *in)
{
    for (uint32_t i = 0; i < in->n_operands; i++) {
        if (!dtype_is_float((enum dtype)infer_type(in, i).dtype))
            infer_error(in, "operand %u: expected floats, which have cotangents, found %s", i,
                        infer_text(in, in->operands[i]));
        infer_result(in, in->operands[i]);
    }
}

/* The type of an operand in a function of its own, whose symbols are the dims that are no numbers. */
struct own_symbols {
    struct builder *b;
    vec(dim) dims; /* around */
};

static type_id own_type(struct own_symbols *s, type_id type)
{
    struct module *m = s->b->m;
    struct type t = type_get(m, type);
    dim dims[MAX_RANK];
    for (uint32_t d = 0; d < t.rank; d++) {
        uint32_t k = 0;
        dims[d] = t.dims[d];
        if (dim_is_const(m, t.dims[d])) continue;
        while (k < s->dims.len && s->dims.data[k] != t.dims[d]) k++;
        if (k == s->dims.len) {
            char name[16];
            int n = snprintf(name, sizeof name, "n%u", k);
            vec_push(&s->b->arena, &s->dims, t.dims[d]);
            builder_symbol(s->b, module_string(m, name, (size_t)n), 0, INT64_MAX);
        }
        dims[d] = dim_symbol(m, k);
    }
    return type_intern(m, t.dtype, t.rank, dims);
}

/* (x…) -> (x…), or with a format (x…, cotangents…) -> (cotangents…), which it prints. */
static uint32_t identity(const struct expand *e, const struct attr *format)
{
    struct builder b;
    uint32_t n = e->n_operands;
    builder_begin(&b, e->b->m, NULL);
    b.place = e->b->place;
    b.fn_place = e->b->place;
    struct own_symbols symbols = { .b = &b };
    type_id *types = ARENA_NEW(&b.arena, type_id, n);
    val *values = ARENA_NEW(&b.arena, val, n);
    for (uint32_t i = 0; i < n; i++) types[i] = own_type(&symbols, e->types[i]);
    for (uint32_t i = 0; i < n; i++) values[i] = builder_param(&b, types[i], 0);
    for (uint32_t i = 0; format && i < n; i++) values[i] = builder_param(&b, types[i], 0);
    if (format) emit(&b, OP_print, values, n, (struct attr[3]){ *format, A_NONE, A_NONE });
    return builder_finish(&b, values, n);
}

static void expand_print_backward(struct expand *e)
{
    struct attr attrs[CUSTOM_ATTRS] = { A_NONE };
    attrs[CUSTOM_BACKWARD] = A_FN(identity(e, &e->attrs[FORMAT]));
    attrs[CUSTOM_TANGENT] = A_WORD(TANGENT_BODY);
    struct region_in body = { .fn = identity(e, NULL), .operands = e->operands, .n_operands = e->n_operands };
    val first = builder_node(e->b, &(struct node_in){ .op = OP_custom,
                                                      .attrs = attrs,
                                                      .groups = (const uint32_t[1]){ 0 },
                                                      .regions = &body,
                                                      .n_regions = 1 });
    for (uint32_t i = 0; i < e->n_results; i++) e->out[i] = first + i;
}

static const struct attr_spec attr_specs[ATTRS] = { [FORMAT] = { "format", ATTR_STRING, true, NULL } };
static const struct op_sample samples[] = {
    { "hop 1\nfn @sample[T](%x: f64[T, 2], %y: f64[]) -> (f64[T, 2], f64[]) {\n  %a, %b = print_backward "
      "{format "
      "= \"rows {}, all {}\"} (%x, %y)\n  %s = sin(%a)\n  %t = mul(%b, %b)\n  return %s, %t\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f32[3]) -> (f32[3]) {\n  %y = print_backward {format = \"{}\"} (%x)\n  return "
      "%y\n}\n",
      NULL },
};
const struct op_row row_print_backward = {
    .name = "print_backward",
    .meaning =
        "its operands, floats; a gradient that goes through the results prints their cotangents in place "
        "of {}",
    .sig = { 1, MANY, ROW_ATTRS(attr_specs) },
    .infer = infer_print_backward,
    .expand = expand_print_backward,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(samples),
};
