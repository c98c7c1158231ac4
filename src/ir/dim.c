/* Dims: integer expressions over a function's symbols, kept in one canonical form so that equality is
 * identity. A sum is a constant plus coefficients times products; a product is a sorted list of atoms; atoms
 * are symbols and floor-div, mod, min, max of two dims. */
#include "ir/ir.h"

/* Dims are walked by recursion, as trees: both limits keep that cheap whatever a program does. */
enum { DEEPEST = 128, LARGEST = 4096 };

static void measure(const struct module *m, struct dim_node *node)
{
    uint32_t depth = 0, size = 1;
    for (uint32_t i = 0; i < node->n; i++) {
        struct dim_node arg = dim_get(m, node->args[i]);
        depth = HOP_MAX(depth, arg.depth);
        size += HOP_MAX(arg.size, 1u);
    }
    if (depth + 1 > DEEPEST || size > LARGEST)
        hop_throw(HOP_INVALID,
                  "a size expression is too large: nested more than %d deep or more than %d terms", DEEPEST,
                  LARGEST);
    node->depth = (uint16_t)(depth + 1);
    node->size = size;
}

static bool same_node(const struct dim_node *x, const struct dim_node *y)
{
    if (x->kind != y->kind || x->n != y->n || x->value != y->value) return false;
    if (!y->n) return true;
    if (memcmp(x->args, y->args, y->n * sizeof(dim))) return false;
    return !y->coefs || !memcmp(x->coefs, y->coefs, y->n * sizeof(int64_t));
}

static dim intern(struct module *m, struct dim_node node)
{
    uint64_t h = hash_mix(node.kind * 31 + node.n, (uint64_t)node.value);
    for (uint32_t i = 0; i < node.n; i++)
        h = hash_mix(h, node.args[i] ^ (node.coefs ? (uint64_t)node.coefs[i] << 20 : 0));
    for (uint32_t it = map_first(&m->dim_map, h); it != HOP_NONE; it = map_next(&m->dim_map, h, it)) {
        const struct dim_node *d = &m->dims.data[map_value(&m->dim_map, it)];
        if (same_node(d, &node)) return DIM_TABLE | map_value(&m->dim_map, it);
    }
    measure(m, &node);
    node.args = arena_copy(&m->arena, node.args, node.n * sizeof(dim));
    if (node.coefs) node.coefs = arena_copy(&m->arena, node.coefs, node.n * sizeof(int64_t));
    vec_push(&m->arena, &m->dims, node);
    map_put(&m->dim_map, h, m->dims.len - 1);
    return DIM_TABLE | (m->dims.len - 1);
}

static _Noreturn void overflow(void) { hop_throw(HOP_INVALID, "a size overflows 64 bits"); }
static int64_t add64(int64_t a, int64_t b)
{
    int64_t r;
    if (__builtin_add_overflow(a, b, &r)) overflow();
    return r;
}
static int64_t mul64(int64_t a, int64_t b)
{
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r)) overflow();
    return r;
}
static int64_t floordiv64(int64_t a, int64_t b)
{
    if (b == 0) hop_throw(HOP_INVALID, "a size is divided by zero");
    if (b == -1) return mul64(a, -1);
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}
static int64_t mod64(int64_t a, int64_t b)
{
    if (b == 0) hop_throw(HOP_INVALID, "a size is divided by zero");
    if (b == -1) return 0; /* C leaves the smallest number % -1 undefined */
    int64_t rest = a % b;
    return rest && (rest < 0) != (b < 0) ? rest + b : rest;
}

dim dim_const(struct module *m, int64_t value)
{
    if (value >= 0 && value < (int64_t)DIM_TABLE) return (dim)value;
    return intern(m, (struct dim_node){ .kind = DIM_CONST, .value = value });
}

dim dim_symbol(struct module *m, uint32_t index)
{
    return intern(m, (struct dim_node){ .kind = DIM_SYMBOL, .value = index });
}

struct dim_node dim_get(const struct module *m, dim d)
{
    if (!(d & DIM_TABLE)) return (struct dim_node){ .kind = DIM_CONST, .value = d };
    return m->dims.data[d & ~DIM_TABLE];
}

int64_t dim_const_value(const struct module *m, dim d) { return dim_get(m, d).value; }

bool dim_is_symbol(const struct module *m, dim d, uint32_t *index)
{
    struct dim_node n = dim_get(m, d);
    if (n.kind != DIM_SYMBOL) return false;
    *index = (uint32_t)n.value;
    return true;
}

/* An order of dims by what they say, so that a canonical form (and its text) is the same in every module. */
static int compare(const struct module *m, dim a, dim b)
{
    if (a == b) return 0;
    struct dim_node x = dim_get(m, a), y = dim_get(m, b);
    if (x.kind != y.kind) return x.kind < y.kind ? -1 : 1;
    if (x.n != y.n) return x.n < y.n ? -1 : 1;
    for (uint32_t i = 0; i < x.n; i++) {
        int c = compare(m, x.args[i], y.args[i]);
        if (c) return c;
        if (x.kind == DIM_SUM && x.coefs[i] != y.coefs[i]) return x.coefs[i] < y.coefs[i] ? -1 : 1;
    }
    return x.value < y.value ? -1 : x.value > y.value;
}

/* A sum being put together. */
enum { MAX_TERMS = 256 };
struct sum {
    int64_t constant;
    uint32_t n;
    dim products[MAX_TERMS];
    int64_t coefs[MAX_TERMS];
};

static void sum_add_product(const struct module *m, struct sum *s, dim product, int64_t coef)
{
    uint32_t at = 0;
    while (at < s->n && s->products[at] != product && compare(m, s->products[at], product) < 0) at++;
    if (at < s->n && s->products[at] == product) {
        s->coefs[at] = add64(s->coefs[at], coef);
        if (s->coefs[at]) return;
        s->n--;
        memmove(s->products + at, s->products + at + 1, (s->n - at) * sizeof(dim));
        memmove(s->coefs + at, s->coefs + at + 1, (s->n - at) * sizeof(int64_t));
        return;
    }
    if (s->n == MAX_TERMS) hop_throw(HOP_INVALID, "a size expression has more than %d terms", MAX_TERMS);
    memmove(s->products + at + 1, s->products + at, (s->n - at) * sizeof(dim));
    memmove(s->coefs + at + 1, s->coefs + at, (s->n - at) * sizeof(int64_t));
    s->products[at] = product;
    s->coefs[at] = coef;
    s->n++;
}

static void sum_add(const struct module *m, struct sum *s, dim d, int64_t factor)
{
    struct dim_node n = dim_get(m, d);
    if (n.kind == DIM_CONST) s->constant = add64(s->constant, mul64(n.value, factor));
    else if (n.kind == DIM_SUM) {
        s->constant = add64(s->constant, mul64(n.value, factor));
        for (uint32_t i = 0; i < n.n; i++) sum_add_product(m, s, n.args[i], mul64(n.coefs[i], factor));
    } else sum_add_product(m, s, d, factor);
}

static dim sum_finish(struct module *m, const struct sum *s)
{
    if (!s->n) return dim_const(m, s->constant);
    if (s->n == 1 && s->coefs[0] == 1 && !s->constant) return s->products[0];
    struct dim_node sum = {
        .kind = DIM_SUM, .n = s->n, .value = s->constant, .args = s->products, .coefs = s->coefs
    };
    return intern(m, sum);
}

dim dim_add(struct module *m, dim a, dim b)
{
    if (!((a | b) & DIM_TABLE)) return dim_const(m, (int64_t)a + b);
    struct sum s = { .n = 0 };
    sum_add(m, &s, a, 1);
    sum_add(m, &s, b, 1);
    return sum_finish(m, &s);
}

dim dim_sub(struct module *m, dim a, dim b)
{
    if (a == b) return 0;
    if (!((a | b) & DIM_TABLE)) return dim_const(m, (int64_t)a - b);
    struct sum s = { .n = 0 };
    sum_add(m, &s, a, 1);
    sum_add(m, &s, b, -1);
    return sum_finish(m, &s);
}

static dim product_of(struct module *m, dim a, dim b) /* of two products or atoms */
{
    enum { MAX_ATOMS = 64 };
    dim atoms[2 * MAX_ATOMS];
    uint32_t n = 0;
    dim both[2] = { a, b };
    for (int k = 0; k < 2; k++) {
        struct dim_node x = dim_get(m, both[k]);
        const dim *list = x.kind == DIM_PRODUCT ? x.args : &both[k];
        uint32_t count = x.kind == DIM_PRODUCT ? x.n : 1;
        if (n + count > MAX_ATOMS)
            hop_throw(HOP_INVALID, "a size expression has more than %d factors", MAX_ATOMS);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t at = n++;
            for (; at > 0 && compare(m, atoms[at - 1], list[i]) > 0; at--) atoms[at] = atoms[at - 1];
            atoms[at] = list[i];
        }
    }
    return intern(m, (struct dim_node){ .kind = DIM_PRODUCT, .n = n, .args = atoms });
}

dim dim_mul(struct module *m, dim a, dim b)
{
    if (!((a | b) & DIM_TABLE)) return dim_const(m, (int64_t)a * b);
    struct dim_node x = dim_get(m, a), y = dim_get(m, b);
    struct sum s = { .n = 0 };
    if (y.kind == DIM_CONST || x.kind == DIM_CONST) {
        if (y.kind == DIM_CONST) sum_add(m, &s, a, y.value);
        else sum_add(m, &s, b, x.value);
        if (!s.constant && ((y.kind == DIM_CONST && !y.value) || (x.kind == DIM_CONST && !x.value))) return 0;
        return sum_finish(m, &s);
    }
    const dim *xs = x.kind == DIM_SUM ? x.args : &a, *ys = y.kind == DIM_SUM ? y.args : &b;
    uint32_t xn = x.kind == DIM_SUM ? x.n : 1, yn = y.kind == DIM_SUM ? y.n : 1;
    for (uint32_t i = 0; i < xn; i++)
        for (uint32_t j = 0; j < yn; j++) {
            int64_t left = x.kind == DIM_SUM ? x.coefs[i] : 1;
            int64_t right = y.kind == DIM_SUM ? y.coefs[j] : 1;
            int64_t factor = mul64(left, right);
            sum_add_product(m, &s, product_of(m, xs[i], ys[j]), factor);
        }
    if (x.kind == DIM_SUM && x.value)
        for (uint32_t j = 0; j < yn; j++)
            sum_add_product(m, &s, ys[j], mul64(x.value, y.kind == DIM_SUM ? y.coefs[j] : 1));
    if (y.kind == DIM_SUM && y.value)
        for (uint32_t i = 0; i < xn; i++)
            sum_add_product(m, &s, xs[i], mul64(y.value, x.kind == DIM_SUM ? x.coefs[i] : 1));
    if (x.kind == DIM_SUM && y.kind == DIM_SUM) s.constant = mul64(x.value, y.value);
    return sum_finish(m, &s);
}

/* Splits a into multiple·q + rest with every coefficient of rest smaller than the constant `multiple`. */
static bool split_by(struct module *m, dim a, int64_t multiple, dim *q, dim *rest)
{
    struct dim_node x = dim_get(m, a);
    if (multiple <= 0 || x.kind != DIM_SUM) return false;
    struct sum quotient = { .n = 0 }, left = { .n = 0 };
    quotient.constant = floordiv64(x.value, multiple);
    left.constant = mod64(x.value, multiple);
    for (uint32_t i = 0; i < x.n; i++) {
        if (x.coefs[i] % multiple == 0) sum_add_product(m, &quotient, x.args[i], x.coefs[i] / multiple);
        else sum_add_product(m, &left, x.args[i], x.coefs[i]);
    }
    *q = sum_finish(m, &quotient);
    *rest = sum_finish(m, &left);
    return *q != 0;
}

static dim binary(struct module *m, enum dim_kind kind, dim a, dim b)
{
    return intern(m, (struct dim_node){ .kind = (uint8_t)kind, .n = 2, .args = (dim[]){ a, b } });
}

static bool is_negative(const struct module *m, dim d)
{
    return dim_is_const(m, d) && dim_const_value(m, d) < 0;
}

/* Divisors that are numbers are positive: that is what back ends divide by. */
dim dim_floordiv(struct module *m, dim a, dim b)
{
    dim q, rest;
    if (b == 1 || a == 0) return a;
    if (dim_is_const(m, a) && dim_is_const(m, b))
        return dim_const(m, floordiv64(dim_const_value(m, a), dim_const_value(m, b)));
    if (is_negative(m, b)) return dim_floordiv(m, dim_sub(m, 0, a), dim_sub(m, 0, b));
    if (dim_is_const(m, b) && split_by(m, a, dim_const_value(m, b), &q, &rest))
        return dim_add(m, q, dim_floordiv(m, rest, b));
    return binary(m, DIM_FLOORDIV, a, b);
}

dim dim_mod(struct module *m, dim a, dim b)
{
    dim q, rest;
    if (b == 1 || a == 0) return 0;
    if (dim_is_const(m, a) && dim_is_const(m, b))
        return dim_const(m, mod64(dim_const_value(m, a), dim_const_value(m, b)));
    if (is_negative(m, b)) return dim_sub(m, 0, dim_mod(m, dim_sub(m, 0, a), dim_sub(m, 0, b)));
    if (dim_is_const(m, b) && split_by(m, a, dim_const_value(m, b), &q, &rest)) return dim_mod(m, rest, b);
    return binary(m, DIM_MOD, a, b);
}

static dim extreme(struct module *m, enum dim_kind kind, dim a, dim b)
{
    if (a == b) return a;
    dim difference = dim_sub(m, b, a);
    if (dim_is_const(m, difference)) return (dim_const_value(m, difference) > 0) == (kind == DIM_MIN) ? a : b;
    return compare(m, a, b) < 0 ? binary(m, kind, a, b) : binary(m, kind, b, a);
}
dim dim_min(struct module *m, dim a, dim b) { return extreme(m, DIM_MIN, a, b); }
dim dim_max(struct module *m, dim a, dim b) { return extreme(m, DIM_MAX, a, b); }

dim dim_substitute(struct module *m, dim d, const dim *symbols)
{
    struct dim_node n = dim_get(m, d);
    dim r;
    switch (n.kind) {
    case DIM_CONST: return d;
    case DIM_SYMBOL: return symbols[n.value];
    case DIM_SUM:
        r = dim_const(m, n.value);
        for (uint32_t i = 0; i < n.n; i++)
            r = dim_add(m, r, dim_mul(m, dim_const(m, n.coefs[i]), dim_substitute(m, n.args[i], symbols)));
        return r;
    case DIM_PRODUCT:
        r = 1;
        for (uint32_t i = 0; i < n.n; i++) r = dim_mul(m, r, dim_substitute(m, n.args[i], symbols));
        return r;
    default: break;
    }
    dim a = dim_substitute(m, n.args[0], symbols), b = dim_substitute(m, n.args[1], symbols);
    switch (n.kind) {
    case DIM_FLOORDIV: return dim_floordiv(m, a, b);
    case DIM_MOD: return dim_mod(m, a, b);
    case DIM_MIN: return dim_min(m, a, b);
    default: return dim_max(m, a, b);
    }
}

int64_t dim_eval(const struct module *m, dim d, const int64_t *symbols)
{
    struct dim_node n = dim_get(m, d);
    int64_t r;
    switch (n.kind) {
    case DIM_CONST: return n.value;
    case DIM_SYMBOL: return symbols[n.value];
    case DIM_SUM:
        r = n.value;
        for (uint32_t i = 0; i < n.n; i++) r = add64(r, mul64(n.coefs[i], dim_eval(m, n.args[i], symbols)));
        return r;
    case DIM_PRODUCT:
        r = 1;
        for (uint32_t i = 0; i < n.n; i++) r = mul64(r, dim_eval(m, n.args[i], symbols));
        return r;
    default: break;
    }
    int64_t a = dim_eval(m, n.args[0], symbols), b = dim_eval(m, n.args[1], symbols);
    switch (n.kind) {
    case DIM_FLOORDIV: return floordiv64(a, b);
    case DIM_MOD: return mod64(a, b);
    case DIM_MIN: return HOP_MIN(a, b);
    default: return HOP_MAX(a, b);
    }
}

/* ---- ranges ---- */

static int64_t saturate(__int128 x)
{
    if (x > INT64_MAX) return INT64_MAX;
    return x < INT64_MIN ? INT64_MIN : (int64_t)x;
}
static bool unbounded(int64_t x) { return x == INT64_MAX || x == INT64_MIN; }
static int64_t mul_bound(int64_t a, int64_t b)
{
    if (a == 0 || b == 0) return 0;
    if (unbounded(a) || unbounded(b)) return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
    return saturate((__int128)a * b);
}
static int64_t add_bound(int64_t a, int64_t b)
{
    if (unbounded(a)) return a;
    return unbounded(b) ? b : saturate((__int128)a + b);
}

static void mul_range(int64_t *lo, int64_t *hi, int64_t lo2, int64_t hi2)
{
    int64_t c[4] = { mul_bound(*lo, lo2), mul_bound(*lo, hi2), mul_bound(*hi, lo2), mul_bound(*hi, hi2) };
    *lo = c[0];
    *hi = c[0];
    for (int i = 1; i < 4; i++) {
        *lo = HOP_MIN(*lo, c[i]);
        *hi = HOP_MAX(*hi, c[i]);
    }
}

void dim_range(const struct module *m, const struct symbol *symbols, dim d, int64_t *lo, int64_t *hi)
{
    struct dim_node n = dim_get(m, d);
    int64_t l, h, l2, h2;
    switch (n.kind) {
    case DIM_CONST:
        *lo = n.value;
        *hi = n.value;
        return;
    case DIM_SYMBOL:
        *lo = symbols ? symbols[n.value].lo : 0;
        *hi = symbols ? symbols[n.value].hi : INT64_MAX;
        return;
    case DIM_SUM:
        *lo = n.value;
        *hi = n.value;
        for (uint32_t i = 0; i < n.n; i++) {
            dim_range(m, symbols, n.args[i], &l, &h);
            mul_range(&l, &h, n.coefs[i], n.coefs[i]);
            *lo = add_bound(*lo, l);
            *hi = add_bound(*hi, h);
        }
        return;
    case DIM_PRODUCT:
        *lo = 1;
        *hi = 1;
        for (uint32_t i = 0; i < n.n; i++) {
            dim_range(m, symbols, n.args[i], &l, &h);
            mul_range(lo, hi, l, h);
        }
        return;
    default: break;
    }
    dim_range(m, symbols, n.args[0], &l, &h);
    dim_range(m, symbols, n.args[1], &l2, &h2);
    switch (n.kind) {
    case DIM_MIN:
        *lo = HOP_MIN(l, l2);
        *hi = HOP_MIN(h, h2);
        return;
    case DIM_MAX:
        *lo = HOP_MAX(l, l2);
        *hi = HOP_MAX(h, h2);
        return;
    case DIM_MOD:
        *lo = l2 > 0 ? 0 : INT64_MIN;
        *hi = l2 > 0 && h2 != INT64_MAX ? h2 - 1 : INT64_MAX;
        if (l2 > 0 && l >= 0 && h < *hi) *hi = h;
        return;
    default: /* floor-div */
        *lo = INT64_MIN;
        *hi = INT64_MAX;
        if (l2 <= 0) return;
        if (l >= 0) *lo = h2 == INT64_MAX ? 0 : floordiv64(l, h2);
        else if (l != INT64_MIN) *lo = floordiv64(l, l2);
        if (h < 0) *hi = -1;
        else if (h != INT64_MAX) *hi = floordiv64(h, l2);
        return;
    }
}

/* A proof tries the parts of an expression, and parts of what is left then: so far and so often. */
enum { PROOF_DEPTH = 5, PROOF_STEPS = 100 };
struct proof {
    struct module *m;
    const struct symbol *symbols;
    int steps; /* that are left */
};
static bool not_negative(struct proof *p, dim d, int depth);

/* The sum d with c·term replaced by c·by. */
static dim replaced(struct module *m, dim d, dim term, int64_t c, dim by)
{
    return dim_add(m, d, dim_mul(m, dim_const(m, c), dim_sub(m, by, term)));
}

/* d with c·(x // q) or c·(x % q) replaced by something that is not larger, for x that is not negative and a
 * number q above 0: q·(x // q) is x less what is left. */
static bool quotient_not_negative(struct proof *p, dim d, dim term, int64_t c, int depth)
{
    struct module *m = p->m;
    struct dim_node n = dim_get(m, term);
    dim x = n.args[0];
    int64_t q = dim_is_const(m, n.args[1]) ? dim_const_value(m, n.args[1]) : 0;
    if (q < 1 || !not_negative(p, x, depth)) return false;
    if (n.kind == DIM_MOD) return c < 0 && not_negative(p, replaced(m, d, term, c, x), depth);
    if (c > 0 && c % q) return false;
    dim without = replaced(m, d, term, c, 0);
    dim least = c < 0 ? x : dim_sub(m, x, dim_const(m, q - 1));
    int64_t times = c / q - (c % q != 0); /* c·(x // q) >= times·least */
    return not_negative(p, dim_add(m, without, dim_mul(m, dim_const(m, times), least)), depth);
}

/* 0 <= d, by its range; else what max and min choose between, and what divisions leave, may tell more. */
static bool not_negative(struct proof *p, dim d, int depth)
{
    struct module *m = p->m;
    int64_t lo, hi;
    dim_range(m, p->symbols, d, &lo, &hi);
    if (lo >= 0 || hi < 0 || !depth || --p->steps < 0) return lo >= 0;
    struct dim_node sum = dim_get(m, d);
    bool single = sum.kind != DIM_SUM;
    for (uint32_t i = 0; i < (single ? 1 : sum.n); i++) {
        dim term = single ? d : sum.args[i];
        int64_t c = single ? 1 : sum.coefs[i];
        struct dim_node n = dim_get(m, term);
        if (n.kind == DIM_MAX || n.kind == DIM_MIN) {
            bool one_will_do = (n.kind == DIM_MAX) == (c > 0); /* else both must */
            bool first = not_negative(p, replaced(m, d, term, c, n.args[0]), depth - 1);
            if (one_will_do ? first : !first) return first;
            bool second = not_negative(p, replaced(m, d, term, c, n.args[1]), depth - 1);
            if (second || !one_will_do) return second;
        } else if (n.kind == DIM_FLOORDIV || n.kind == DIM_MOD) {
            if (quotient_not_negative(p, d, term, c, depth - 1)) return true;
        }
    }
    return false;
}

bool dim_provably_le(struct module *m, const struct symbol *symbols, dim a, dim b)
{
    if (!((a | b) & DIM_TABLE)) return a <= b;
    struct proof p = { m, symbols, PROOF_STEPS };
    return not_negative(&p, dim_sub(m, b, a), PROOF_DEPTH);
}

bool dim_mentions(const struct module *m, dim d, bool (*test)(void *ctx, uint32_t symbol), void *ctx)
{
    struct dim_node n = dim_get(m, d);
    if (n.kind == DIM_SYMBOL) return test(ctx, (uint32_t)n.value);
    for (uint32_t i = 0; i < n.n; i++)
        if (dim_mentions(m, n.args[i], test, ctx)) return true;
    return false;
}

/* ---- printing ---- */

enum { LEVEL_SUM, LEVEL_PRODUCT, LEVEL_ATOM };

static bool needs_paren(const struct dim_node *n, int level)
{
    switch (n->kind) {
    case DIM_SUM: return level > LEVEL_SUM;
    case DIM_PRODUCT: return level > LEVEL_PRODUCT;
    case DIM_FLOORDIV:
    case DIM_MOD: return level >= LEVEL_PRODUCT;
    case DIM_CONST: return n->value < 0 && level > LEVEL_SUM;
    default: return false;
    }
}

static void print_level(const struct module *m, const struct symbol *symbols, dim d, struct text *out,
                        int level)
{
    struct dim_node n = dim_get(m, d);
    bool paren = needs_paren(&n, level);
    if (paren) text_str(out, "(");
    switch (n.kind) {
    case DIM_CONST: text_add(out, "%lld", (long long)n.value); break;
    case DIM_SYMBOL:
        if (symbols)
            text_add(out, "%s%s", symbols[n.value].origin == SYMBOL_NODE ? "?" : "",
                     m->strings.data[symbols[n.value].name]);
        else text_add(out, "$%lld", (long long)n.value);
        break;
    case DIM_SUM:
        for (uint32_t i = 0; i < n.n; i++) {
            int64_t c = n.coefs[i];
            if (c < 0) text_str(out, i ? " - " : "-");
            else if (i) text_str(out, " + ");
            if (c != 1 && c != -1)
                text_add(out, "%llu*", c < 0 ? 0 - (unsigned long long)c : (unsigned long long)c);
            print_level(m, symbols, n.args[i], out, LEVEL_PRODUCT);
        }
        if (n.value) {
            unsigned long long size = (unsigned long long)n.value;
            text_add(out, " %c %llu", n.value < 0 ? '-' : '+', n.value < 0 ? 0 - size : size);
        }
        break;
    case DIM_PRODUCT:
        for (uint32_t i = 0; i < n.n; i++) {
            if (i) text_str(out, "*");
            print_level(m, symbols, n.args[i], out, LEVEL_ATOM);
        }
        break;
    case DIM_FLOORDIV:
    case DIM_MOD:
        print_level(m, symbols, n.args[0], out, LEVEL_ATOM);
        text_str(out, n.kind == DIM_MOD ? " % " : " // ");
        print_level(m, symbols, n.args[1], out, LEVEL_ATOM);
        break;
    default:
        text_str(out, n.kind == DIM_MIN ? "min(" : "max(");
        print_level(m, symbols, n.args[0], out, LEVEL_SUM);
        text_str(out, ", ");
        print_level(m, symbols, n.args[1], out, LEVEL_SUM);
        text_str(out, ")");
    }
    if (paren) text_str(out, ")");
}

void dim_print(const struct module *m, const struct symbol *symbols, dim d, struct text *out)
{
    print_level(m, symbols, d, out, LEVEL_SUM);
}
