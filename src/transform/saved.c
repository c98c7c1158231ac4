/* What a gradient keeps, for people: rows say it where they decide it, explain shows it. A value that comes
 * out of bodies is followed to where it is made, for the name that a tag gives it there and for the policy of
 * the call that keeps it. */
#include "ir/loop.h"
#include "ops/build.h"
#include "transform/transform.h"

void saved_add(struct module *m, struct saved_value v)
{
    if (m->saved_now) vec_push(&m->arena, &m->saved_now->values, v);
}

void saved_add_inside(struct module *m, const struct op_row *row, struct place place,
                      const struct saved_list *list)
{
    if (m->saved_now && list && (list->values.len || list->inside.len))
        vec_push(&m->arena, &m->saved_now->inside, (struct saved_inside){ row, place, list });
}

const struct saved_list *saved_last(const struct module *m) { return m->saved_last; }

/* What a tag is a tag of, through tags. */
static val tagged(const struct fn *f, const struct node *n)
{
    for (;;) {
        val v = node_operands(f, n)[0];
        uint32_t made = f->values[v].node;
        if (made == NODE_NONE || !(node_row(fn_node(f, made))->flags & OPF_TAG)) return v;
        n = fn_node(f, made);
    }
}

/* *kept: how tags say that it is, NULL: none does. */
static void read_tags(const struct fn *f, val v, struct saved_value *out, const char **kept)
{
    static const char *const ways[] = { [TAG_KEEP] = "kept", [TAG_OFFLOAD] = "kept in a file" };
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (!(node_row(n)->flags & OPF_TAG) || tagged(f, n) != v) continue;
        const struct attr *name = node_attr(f, n, TAG_NAME), *word = node_attr(f, n, TAG_GRADIENT);
        const struct attr *use = node_attr(f, n, TAG_USE);
        bool saves = use->kind == ATTR_ABSENT || use->i == TAG_SAVES;
        if (name->kind != ATTR_ABSENT && saves && !out->tag) out->tag = (uint32_t)name->i;
        if (word->kind != ATTR_ABSENT && word->i != TAG_RECOMPUTE) *kept = ways[word->i];
    }
}

/* *policy: of the innermost call on the way that has one. */
static void follow(const struct module *m, const struct fn *f, val v, struct saved_value *out,
                   const char **kept, uint32_t *policy)
{
    uint32_t made = f->values[v].node;
    const struct node *n = made == NODE_NONE ? NULL : fn_node(f, made);
    hop_check_stack();
    if (n && node_row(n)->moves == MOVES_OUT) { /* put there for what is a tag's operand */
        follow(m, f, node_operands(f, n)[0], out, kept, policy);
        return;
    }
    if (n && n->op == OP_invoke_subgraph && node_attr(f, n, INVOKE_POLICY)->kind != ATTR_ABSENT)
        *policy = (uint32_t)node_attr(f, n, INVOKE_POLICY)->i;
    bool inside = false;
    for (uint32_t r = 0; n && r < n->n_regions && !out->tag; r++) {
        const struct fn *body = module_fn(m, node_region(f, n, r)->fn);
        val made_there = body_value(m, f, n, r, v - n->results);
        if (made_there == VAL_NONE) continue;
        inside = true;
        follow(m, body, made_there, out, kept, policy);
    }
    if (!inside || !out->tag) read_tags(f, v, out, kept);
}

struct saved_value saved_traced(const struct module *m, const struct saved_value *v)
{
    struct saved_value out = *v;
    const char *kept = NULL;
    uint32_t policy = v->policy;
    if (!v->forward) return out;
    follow(m, v->forward, v->made, &out, &kept, &policy);
    if (!kept) return out;
    out.policy = policy;
    out.why = kept;
    return out;
}
