/* Reading a loop from a node and building a node from a loop, by what the row's column `loop` says. */
#include "ir/loop.h"

/* A node's parts, in a function or on the way into a builder. */
struct parts {
    const struct op_row *row;
    const val *operands;
    const uint32_t *groups;
    const struct attr *attrs;
};

/* Where group `number` - 1 begins among the operands. */
static uint32_t group_start(const uint32_t *groups, uint8_t number)
{
    uint32_t start = 0;
    for (uint32_t g = 0; g + 1 < number; g++) start += groups[g];
    return start;
}

static const struct attr *given_attr(const struct parts *p, uint8_t number)
{
    return number && p->attrs[number - 1].kind != ATTR_ABSENT ? &p->attrs[number - 1] : NULL;
}

static void read_operands(struct loop *l, const struct parts *p)
{
    const struct loop_row *row = p->row->loop;
    if (row->group.carry) {
        l->n_carry = p->groups[row->group.carry - 1];
        l->carry = p->operands + group_start(p->groups, row->group.carry);
    }
    if (row->group.over) {
        l->n_over = p->groups[row->group.over - 1];
        l->over = p->operands + group_start(p->groups, row->group.over);
    }
    if (row->group.from) l->from = p->operands[group_start(p->groups, row->group.from)];
    if (row->group.to) l->to = p->operands[group_start(p->groups, row->group.to)];
}

static void read_attrs(struct loop *l, const struct parts *p)
{
    const struct loop_row *row = p->row->loop;
    const struct attr *length = given_attr(p, row->attr.length);
    const struct attr *max_trips = given_attr(p, row->attr.max_trips);
    if (length) l->length = (dim)length->i;
    if (max_trips) l->max_trips = (dim)max_trips->i;
    l->length_given = length;
    l->reverse = given_attr(p, row->attr.reverse);
    l->sequential = given_attr(p, row->attr.sequential);
    l->apart = given_attr(p, row->attr.apart);
    l->count = given_attr(p, row->attr.count);
    l->tape = given_attr(p, row->attr.tape);
    l->schedule = row->attr.schedule ? &p->attrs[row->attr.schedule - 1] : NULL;
}

static void begin_reading(struct loop *l, const struct node *n, const struct parts *p)
{
    *l = loop_new((enum loop_kind)p->row->loop->kind);
    l->n = n;
    l->place = n->place;
    l->body_region = p->row->loop->region.body - 1u;
    if (p->row->loop->region.cond) l->cond_region = p->row->loop->region.cond - 1u;
    read_operands(l, p);
    read_attrs(l, p);
}

static void count_results(struct loop *l)
{
    l->n_stack = l->body->n_results - l->n_carry;
    l->counts = l->n->n_results > l->n_carry + l->n_stack;
}

static struct region_in region_of_node(const struct fn *f, const struct node *n, uint32_t r)
{
    const struct region *g = node_region(f, n, r);
    return (struct region_in){ g->fn, node_operands(f, n) + g->operands, g->n_operands, g->dims };
}

bool loop_of_node(const struct module *m, const struct fn *f, const struct node *n, struct loop *l)
{
    const struct op_row *row = node_row(n);
    if (!row->loop) return false;
    begin_reading(l, n,
                  &(struct parts){ row, node_operands(f, n), f->pool + n->groups, f->attrs + n->attrs });
    loop_set_body(l, m, region_of_node(f, n, l->body_region));
    if (l->cond_region != HOP_NONE) loop_set_cond(l, m, region_of_node(f, n, l->cond_region));
    count_results(l);
    if (loop_has_length(l) && !l->length_given) l->length = type_get(m, value_type(f, l->over[0])).dims[0];
    return true;
}

bool loop_of_copy(struct copier *c, const struct node *n, struct loop *l)
{
    const struct op_row *row = node_row(n);
    const struct module *m = c->b->m;
    if (!row->loop) return false;
    struct node_in in = copier_node_in(c, n);
    begin_reading(l, n, &(struct parts){ row, in.operands, in.groups, in.attrs });
    loop_set_body(l, m, in.regions[l->body_region]);
    if (l->cond_region != HOP_NONE) loop_set_cond(l, m, in.regions[l->cond_region]);
    count_results(l);
    if (loop_has_length(l) && !l->length_given)
        l->length = type_get(m, builder_type(c->b, l->over[0])).dims[0];
    return true;
}

val body_value(const struct module *m, const struct fn *f, const struct node *n, uint32_t region, uint32_t k)
{
    const struct op_row *row = node_row(n);
    const struct fn *body = module_fn(m, node_region(f, n, region)->fn);
    struct loop l;
    if (loop_of_node(m, f, n, &l)) {
        if (region != l.body_region || k < loop_stack_result(&l, 0)) return VAL_NONE;
        return body->results[l.n_carry + k - loop_stack_result(&l, 0)];
    }
    bool same = row->control == CONTROL_CALL || row->control == CONTROL_REGION ||
                row->control == CONTROL_CHOICE;
    return same && k < body->n_results ? body->results[k] : VAL_NONE;
}

struct loop_positions loop_positions(const struct fn *f, const struct node *n)
{
    const struct loop_row *row = node_row(n)->loop;
    const uint32_t *groups = f->pool + n->groups;
    return (struct loop_positions){
        .carry = group_start(groups, row->group.carry),
        .over = group_start(groups, row->group.over),
        .from = group_start(groups, row->group.from),
        .to = group_start(groups, row->group.to),
        .with = node_region(f, n, row->region.body - 1u)->operands,
        .cond_with = row->region.cond ? node_region(f, n, row->region.cond - 1u)->operands : HOP_NONE,
    };
}

/* ---- building ---- */

enum { MOST_ATTRS = 8 };

/* Everything that is said and has a place in the row. */
static void write_attrs(struct attr *attrs, const struct loop *l, const struct loop_row *row)
{
    bool says_length = l->length_given || !l->n_over;
    if (row->attr.length && says_length) attrs[row->attr.length - 1] = A_DIM(l->length);
    if (row->attr.reverse) attrs[row->attr.reverse - 1] = A_FLAG(l->reverse);
    if (row->attr.sequential) attrs[row->attr.sequential - 1] = A_FLAG(l->sequential);
    if (row->attr.apart) attrs[row->attr.apart - 1] = A_FLAG(l->apart);
    if (row->attr.count) attrs[row->attr.count - 1] = A_FLAG(l->count);
    if (row->attr.tape) attrs[row->attr.tape - 1] = A_FLAG(l->tape);
    if (row->attr.max_trips && l->max_trips != HOP_NONE) attrs[row->attr.max_trips - 1] = A_DIM(l->max_trips);
    if (row->attr.schedule && l->schedule)
        memcpy(&attrs[row->attr.schedule - 1], l->schedule, LOOP_SCHEDULE_ATTRS * sizeof *attrs);
}

/* The operands of each group of the row, in its order. */
static uint32_t write_operands(val *operands, uint32_t *groups, const struct loop *l, const struct op_row *op)
{
    const struct loop_row *row = op->loop;
    uint32_t n = 0;
    for (uint32_t g = 0; g < op->sig.n_groups; g++) {
        uint32_t number = g + 1;
        const val *from = NULL;
        groups[g] = 1;
        if (number == row->group.carry) {
            from = l->carry;
            groups[g] = l->n_carry;
        } else if (number == row->group.over) {
            from = l->over;
            groups[g] = l->n_over;
        } else {
            from = number == row->group.from ? &l->from : &l->to;
        }
        if (groups[g]) memcpy(operands + n, from, groups[g] * sizeof *operands);
        n += groups[g];
    }
    return n;
}

struct loop_results loop_results_at(const struct loop *l, val first, uint32_t n_results)
{
    uint32_t n_stack = l->body->n_results - l->n_carry;
    bool counts = n_results > l->n_carry + n_stack;
    return (struct loop_results){ .last = first,
                                  .trips = counts ? first + l->n_carry : VAL_NONE,
                                  .stacks = first + l->n_carry + counts,
                                  .n = n_results };
}

struct loop_results loop_build(struct builder *b, const struct loop *l)
{
    uint16_t op = loop_ops[l->kind];
    const struct loop_row *row = op_table[op]->loop;
    val *operands = ARENA_NEW(&b->arena, val, l->n_carry + l->n_over + 2);
    uint32_t groups[HOP_COUNT(op_table[op]->sig.groups)];
    struct attr attrs[MOST_ATTRS] = { 0 };
    struct region_in regions[2];
    write_attrs(attrs, l, row);
    uint32_t n_operands = write_operands(operands, groups, l, op_table[op]);
    regions[row->region.body - 1] = loop_body(l);
    if (row->region.cond) regions[row->region.cond - 1] = loop_cond(l);
    val first = builder_node(b, &(struct node_in){ .op = op,
                                                   .operands = operands,
                                                   .n_operands = n_operands,
                                                   .groups = groups,
                                                   .attrs = attrs,
                                                   .regions = regions,
                                                   .n_regions = row->region.cond ? 2 : 1,
                                                   .place = l->place });
    return loop_results_at(l, first, b->n_last_results);
}
