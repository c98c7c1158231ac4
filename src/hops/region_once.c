/* Regions of the kind `once`: what they give is computed once, from operands that are constant, and kept by
 * the executable (transform/once.h). Where an operand is not constant, that is an error, or, with otherwise =
 * "body", the region is done at every run. What a derivative makes of one is of the latter sort: the body's
 * cotangents and tangents are no constants, and who wrote the region did not write these. */
#include "hops/hops.h"
#include "ir/named.h"

static const char KIND[] = "once", OTHERWISE[] = "otherwise", BODY[] = "\"body\"";

static bool is_once(const struct module *m, const struct attr *attrs)
{
    return !strcmp(module_text(m, (uint32_t)attrs[REGION_KIND].i), KIND);
}

void once_infer(const struct infer *in)
{
    const char *otherwise = named_value(in->m, &in->attrs[REGION_NAMED], OTHERWISE);
    if (is_once(in->m, in->attrs) && otherwise && strcmp(otherwise, BODY))
        infer_error(in, "once: otherwise: expected \"body\", found %.100s", otherwise);
}

enum once region_once(const struct module *m, const struct fn *f, const struct node *n)
{
    const struct attr *attrs = node_attr(f, n, 0);
    if (!is_once(m, attrs)) return ONCE_NO;
    return named_value(m, &attrs[REGION_NAMED], OTHERWISE) ? ONCE_IF_CONSTANT : ONCE_OR_ERROR;
}

const struct attr *once_derived(struct builder *b, const struct attr *attrs)
{
    struct module *m = b->m;
    if (!is_once(m, attrs) || named_value(m, &attrs[REGION_NAMED], OTHERWISE)) return attrs;
    struct attr *out = arena_copy(&b->arena, attrs, REGION_ATTRS * sizeof *out);
    out[REGION_NAMED] = named_with(m, &attrs[REGION_NAMED], module_string(m, OTHERWISE, strlen(OTHERWISE)),
                                   module_string(m, BODY, strlen(BODY)), &b->arena);
    return out;
}

/* The results are those of the region as it stands, which may be kept although the tangents are not. */
void once_jvp(struct jvp *j)
{
    struct node_in in = copier_node_in(j->copy, j->n);
    val first = builder_node(j->b, &in);
    for (uint32_t k = 0; k < j->n->n_results; k++) j->results[k] = first + k;
}
