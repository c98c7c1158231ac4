/* What running a function costs, as a guess: a function comes in, a number goes out. The unit is about the
 * time in which a byte moves to or from memory, so that running again and keeping can be compared. Sizes and
 * numbers of trips that are not known count as a few dozen. */
#include "transform/cost.h"

#include "loop/lower.h"

enum {
    GUESSED_SIZE = 64,
    CHEAP = 1,      /* per element: sums, products, comparisons, views; and per step of a fold */
    GATHERED = 4,   /* per element read from a computed position */
    EXPENSIVE = 16, /* per element: exp, sin, division of integers, sorting */
    PER_TRIP = 16
};
static const int64_t most = (int64_t)1 << 50;
static const uint64_t MEMO_COST = 0x636f7374;

static int64_t times(int64_t a, int64_t b)
{
    int64_t out;
    return __builtin_mul_overflow(a, b, &out) ? most : HOP_MIN(out, most);
}

static int64_t guessed_size(const struct module *m, const struct symbol *symbols, dim d)
{
    int64_t lo, hi;
    dim_range(m, symbols, d, &lo, &hi);
    return lo == hi ? HOP_MAX(lo, 0) : HOP_MAX(lo, HOP_MIN(hi, GUESSED_SIZE));
}

static int64_t guessed_elements(const struct module *m, const struct symbol *symbols, type_id t)
{
    struct type type = type_get(m, t);
    int64_t n = 1;
    for (uint32_t i = 0; i < type.rank; i++) n = times(n, guessed_size(m, symbols, type.dims[i]));
    return n;
}

int64_t guessed_bytes(const struct module *m, const struct symbol *symbols, type_id t)
{
    return times(guessed_elements(m, symbols, t), dtype_info[type_get(m, t).dtype].size);
}

/* Trips of a loop: the slices that it goes over, where it does. */
static int64_t guessed_trips(const struct module *m, const struct fn *f, const struct node *n)
{
    const struct op_row *row = node_row(n);
    uint32_t first = 0; /* operand of the group */
    for (uint32_t g = 0; g < row->sig.n_groups; g++) {
        uint32_t size = node_group_size(f, n, g);
        if (row->sig.groups[g].kind == GROUP_OVER && size) {
            struct type t = type_get(m, value_type(f, node_operands(f, n)[first]));
            return guessed_size(m, f->symbols, t.dims[0]);
        }
        first += size;
    }
    return GUESSED_SIZE;
}

static int64_t element_cost(const struct op_lower *lower)
{
    if (lower->cost == COST_EXPENSIVE) return EXPENSIVE;
    return lower->access == ACCESS_GATHER ? GATHERED : CHEAP;
}

int64_t node_cost(struct module *m, const struct fn *f, const struct node *n)
{
    const struct op_lower *lower = node_row(n)->lower;
    int64_t elements = 0;
    if (n->n_regions) {
        uint8_t control = node_row(n)->control;
        bool once = control == CONTROL_CALL || control == CONTROL_CHOICE || control == CONTROL_REGION;
        int64_t cost = 0;
        for (uint32_t r = 0; r < n->n_regions; r++) {
            int64_t body = run_cost(m, node_region(f, n, r)->fn);
            cost = once ? HOP_MAX(cost, body) : HOP_MIN(cost + body, most);
        }
        return once ? cost : times(guessed_trips(m, f, n), HOP_MIN(cost + PER_TRIP, most));
    }
    for (uint32_t k = 0; k < n->n_results; k++)
        elements = HOP_MIN(elements + guessed_elements(m, f->symbols, value_type(f, n->results + k)), most);
    if (lower && lower->kind == LOWER_POINTWISE) return times(elements, element_cost(lower));
    if (lower && lower->kind == LOWER_REDUCE) {
        dim extents[MAX_RANK];
        uint32_t rank = lower->reduced(m, f, n, extents);
        for (uint32_t i = 0; i < rank; i++)
            elements = times(elements, guessed_size(m, f->symbols, extents[i]));
        return times(elements, CHEAP);
    }
    for (uint32_t k = 0; k < n->n_operands; k++) {
        type_id t = value_type(f, node_operands(f, n)[k]);
        elements = HOP_MIN(elements + guessed_elements(m, f->symbols, t), most);
    }
    return times(elements, EXPENSIVE);
}

int64_t run_cost(struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    const uint64_t key[4] = { MEMO_COST, fn };
    union memo_value known; /* functions may call each other many times over */
    if (memo_get(m, key, &known)) return known.number;
    hop_check_stack();
    int64_t cost = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) cost = HOP_MIN(cost + node_cost(m, f, fn_node(f, i)), most);
    memo_put(m, key, (union memo_value){ .number = cost });
    return cost;
}
