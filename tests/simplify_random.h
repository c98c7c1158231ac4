/* Random programs for simplify_test.c: closed bodies, loops in branches in loops, values passed through,
 * dropped, repeated and stacked, which is what the passes live on. Everything is bounded, so that programs
 * end and numbers stay numbers. */

enum kind {
    SCALAR_F,
    VECTOR,
    MATRIX,
    INDEX,
    TRUTH,
    KINDS,
    OVER_SCALAR = KINDS,
    OVER_VECTOR,
    OVER_MATRIX,
    ALL_KINDS
};
static const char *const kind_types[] = { "f32[]",  "f32[3]", "f32[3, 3]", "i32[]",
                                          "bool[]", "f32[4]", "f32[4, 3]", "f32[4, 3, 3]" };

struct scope {
    uint32_t n;
    struct {
        uint32_t name;
        uint8_t kind;
    } value[256];
};
struct writer {
    struct text *out;
    uint32_t names, nodes;
    bool smooth; /* no choices that a rounding error could turn over */
};

static uint32_t below(uint32_t n) { return (uint32_t)(uniform() * n); }

/* A value of the kind, made on the spot if there is none. */
static uint32_t pick(struct writer *w, struct scope *s, enum kind kind);

static uint32_t define(struct writer *w, struct scope *s, enum kind kind)
{
    uint32_t name = w->names++;
    if (s->n < HOP_COUNT(s->value)) s->value[s->n].name = name, s->value[s->n++].kind = (uint8_t)kind;
    w->nodes++;
    return name;
}

static void write_constant(struct writer *w, struct scope *s, enum kind kind)
{
    static const char *const floats[] = { "0", "1", "-0.0", "0.5", "-1.5" }, *const dims[] = {
        "", "3", "3, 3", "", "", "4", "4, 3", "4, 3, 3"
    };
    uint32_t value = below(4);
    const char *number = kind == INDEX || kind == TRUTH
                             ? (const char *[]){ "0", "1", "2", "3" }[kind == TRUTH ? value & 1 : value]
                             : floats[below(5)];
    text_add(w->out, "%%v%u = full {value = %s, dims = [%s], dtype = %s}\n", define(w, s, kind), number,
             dims[kind],
             kind == INDEX   ? "i32"
             : kind == TRUTH ? "bool"
                             : "f32");
}

static uint32_t pick(struct writer *w, struct scope *s, enum kind kind)
{
    uint32_t count = 0, found = HOP_NONE;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->value[i].kind == kind && below(++count) == 0) found = s->value[i].name;
    if (found != HOP_NONE) return found;
    write_constant(w, s, kind);
    return s->value[s->n - 1].name;
}

static void write_plain(struct writer *w, struct scope *s)
{
    static const char *const unary[] = { "neg", "abs", "tanh", "sin" }, *const binary[] = { "add", "sub",
                                                                                            "mul", "max",
                                                                                            "min" };
    static const char *const none = "batch_lhs = [], batch_rhs = [], contract_lhs = [], contract_rhs = []";
    enum kind kind = (enum kind)below(3);
    uint32_t x, y, c;
    switch (below(14)) {
    case 0: write_constant(w, s, (enum kind)below(KINDS)); break;
    case 1:
    case 2:
        x = pick(w, s, kind);
        text_add(w->out, "%%v%u = %s(%%v%u)\n", define(w, s, kind), unary[below(4)], x);
        break;
    case 3:
    case 4:
    case 5:
        x = pick(w, s, kind), y = pick(w, s, kind);
        text_add(w->out, "%%v%u = %s(%%v%u, %%v%u)\n", define(w, s, kind), binary[below(5)], x, y);
        break;
    case 6:
        x = pick(w, s, VECTOR), y = pick(w, s, MATRIX);
        text_add(w->out, "%%v%u = matmul(%%v%u, %%v%u)\n", define(w, s, VECTOR), x, y);
        break;
    case 7:
        x = pick(w, s, MATRIX), y = pick(w, s, VECTOR);
        text_add(w->out, "%%v%u = matmul(%%v%u, %%v%u)\n", define(w, s, VECTOR), x, y);
        break;
    case 8:
        x = pick(w, s, VECTOR), y = pick(w, s, VECTOR);
        text_add(w->out, "%%v%u = dot {%s} (%%v%u, %%v%u)\n", define(w, s, MATRIX), none, x, y);
        break;
    case 9:
        x = pick(w, s, MATRIX);
        text_add(w->out, "%%v%u = permute {order = [1, 0]} (%%v%u)\n", define(w, s, MATRIX), x);
        break;
    case 10:
        x = pick(w, s, VECTOR);
        text_add(w->out, "%%v%u = broadcast {dims = [3, 3], at = [%u]} (%%v%u)\n", define(w, s, MATRIX),
                 below(2), x);
        break;
    case 11:
        x = pick(w, s, MATRIX);
        text_add(w->out, "%%v%u = sum {dims = [%u]} (%%v%u)\n", define(w, s, VECTOR), below(2), x);
        break;
    case 12:
        x = pick(w, s, VECTOR);
        text_add(w->out, "%%v%u = sum(%%v%u)\n", define(w, s, SCALAR_F), x);
        break;
    default:
        if (w->smooth) break;
        x = pick(w, s, SCALAR_F), y = pick(w, s, SCALAR_F), c = define(w, s, TRUTH);
        text_add(w->out, "%%v%u = lt(%%v%u, %%v%u)\n", c, x, y);
        x = pick(w, s, SCALAR_F), y = pick(w, s, SCALAR_F);
        text_add(w->out, "%%v%u = select(%%v%u, %%v%u, %%v%u)\n", define(w, s, SCALAR_F), c, x, y);
    }
}

static void write_block(struct writer *w, struct scope *s, uint32_t depth, uint32_t size);

/* "(%a = %x, …)": n values of the outer scope under new names of the inner one. */
static void write_operands(struct writer *w, struct scope *outer, struct scope *inner, uint32_t n,
                           const uint32_t *names, const uint8_t *kinds)
{
    text_add(w->out, "(");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t fresh = define(w, inner, (enum kind)kinds[i]);
        text_add(w->out, "%s%%v%u = %%v%u", i ? ", " : "", fresh, names[i]);
    }
    text_add(w->out, ")");
    (void)outer;
}

/* Chooses up to `most` values; returns how many. Constants that had to be made are written before. */
static uint32_t choose_values(struct writer *w, struct scope *s, uint32_t most, uint32_t *names,
                              uint8_t *kinds)
{
    uint32_t n = below(most + 1);
    for (uint32_t i = 0; i < n; i++) {
        kinds[i] = (uint8_t)below(KINDS);
        names[i] = pick(w, s, (enum kind)kinds[i]);
    }
    return n;
}

static void write_results(struct writer *w, struct scope *inner, const char *word, uint32_t n,
                          const uint8_t *kinds)
{
    uint32_t names[8];
    for (uint32_t i = 0; i < n; i++) names[i] = pick(w, inner, (enum kind)kinds[i]);
    text_add(w->out, "%s(", word);
    for (uint32_t i = 0; i < n; i++) text_add(w->out, "%s%%v%u", i ? ", " : "", names[i]);
    text_add(w->out, ") ");
}

static void write_names(struct writer *w, struct scope *s, uint32_t n, const uint8_t *kinds)
{
    for (uint32_t i = 0; i < n; i++)
        text_add(w->out, "%s%%v%u", i ? ", " : "", define(w, s, (enum kind)kinds[i]));
}

static void write_scan(struct writer *w, struct scope *s, uint32_t depth)
{
    uint32_t carry[8], with[8], over[4], n_carry, n_with, n_over = 1 + below(2), n_stack = below(3);
    uint8_t carry_kinds[8], with_kinds[8], stack_kinds[4], all[16];
    struct scope inner = { 0 };
    n_carry = choose_values(w, s, 3, carry, carry_kinds);
    n_with = choose_values(w, s, 4, with, with_kinds);
    uint8_t slice[4];
    for (uint32_t i = 0; i < n_over; i++) {
        slice[i] = (uint8_t)below(3);
        over[i] = pick(w, s, (enum kind)(OVER_SCALAR + slice[i]));
    }
    if (!n_carry && !n_stack) n_stack = 1;
    for (uint32_t i = 0; i < n_stack; i++) stack_kinds[i] = (uint8_t)below(3);
    /* The node's results are named first in the text, so the body is written aside. */
    struct text body = { .arena = w->out->arena }, *out = w->out;
    w->out = &body;
    text_add(w->out, "scan %s carry", below(2) ? "{reverse}" : "");
    write_operands(w, s, &inner, n_carry, carry, carry_kinds);
    text_add(w->out, " over(");
    for (uint32_t i = 0; i < n_over; i++)
        text_add(w->out, "%s%%v%u in %%v%u", i ? ", " : "", define(w, &inner, (enum kind)slice[i]), over[i]);
    text_add(w->out, ") with");
    write_operands(w, s, &inner, n_with, with, with_kinds);
    text_add(w->out, " {\n");
    write_block(w, &inner, depth, 6);
    if (below(3) == 0 && n_carry && carry_kinds[0] < 3) { /* a sum over time */
        uint32_t g = pick(w, &inner, (enum kind)carry_kinds[0]);
        text_add(w->out, "%%v%u = add(%%v%u, %%v%u)\n", define(w, &inner, (enum kind)carry_kinds[0]),
                 inner.value[0].name, g);
    }
    uint32_t names[16];
    for (uint32_t i = 0; i < n_carry; i++)
        names[i] = i == 0 && below(2) ? inner.value[inner.n - 1].kind == carry_kinds[0]
                                            ? inner.value[inner.n - 1].name
                                            : pick(w, &inner, (enum kind)carry_kinds[0])
                                      : pick(w, &inner, (enum kind)carry_kinds[i]);
    for (uint32_t i = 0; i < n_stack; i++) names[n_carry + i] = pick(w, &inner, (enum kind)stack_kinds[i]);
    text_add(w->out, "next(");
    for (uint32_t i = 0; i < n_carry; i++) text_add(w->out, "%s%%v%u", i ? ", " : "", names[i]);
    text_add(w->out, ")");
    if (n_stack) text_add(w->out, " stack(");
    for (uint32_t i = 0; i < n_stack; i++) text_add(w->out, "%s%%v%u", i ? ", " : "", names[n_carry + i]);
    text_add(w->out, "%s }\n", n_stack ? ")" : "");
    w->out = out;
    memcpy(all, carry_kinds, n_carry);
    for (uint32_t i = 0; i < n_stack; i++) all[n_carry + i] = (uint8_t)(OVER_SCALAR + stack_kinds[i]);
    write_names(w, s, n_carry + n_stack, all);
    text_add(w->out, " = %s", body.data);
}

static void write_while(struct writer *w, struct scope *s, uint32_t depth)
{
    uint32_t carry[8], with[8], bound[8], n_carry = choose_values(w, s, 3, carry + 1, (uint8_t[8]){ 0 }),
                                          n_with;
    uint8_t carry_kinds[8] = { INDEX }, with_kinds[8], bound_kinds[8];
    struct scope inner = { 0 }, test = { 0 };
    n_carry = choose_values(w, s, 3, carry + 1, carry_kinds + 1) + 1;
    write_constant(w, s, INDEX);
    carry[0] = s->value[s->n - 1].name;
    n_with = choose_values(w, s, 3, with, with_kinds);
    uint32_t n_bound = choose_values(w, s, 2, bound, bound_kinds);
    struct text body = { .arena = w->out->arena }, *out = w->out;
    w->out = &body;
    text_add(w->out, "while_loop carry");
    write_operands(w, s, &inner, n_carry, carry, carry_kinds);
    test = inner;
    text_add(w->out, " cond with");
    write_operands(w, s, &test, n_bound, bound, bound_kinds);
    uint32_t last = w->names++, go = w->names++, one = w->names++, next = w->names++;
    text_add(w->out,
             " { %%v%u = full {value = 3, dims = [], dtype = i32} %%v%u = lt(%%v%u, %%v%u) test(%%v%u) } "
             "body with",
             last, go, inner.value[0].name, last, go);
    write_operands(w, s, &inner, n_with, with, with_kinds);
    text_add(w->out, " {\n%%v%u = full {value = 1, dims = [], dtype = i32}\n%%v%u = add(%%v%u, %%v%u)\n", one,
             next, inner.value[0].name, one);
    write_block(w, &inner, depth, 5);
    uint32_t names[8] = { next };
    for (uint32_t i = 1; i < n_carry; i++) names[i] = pick(w, &inner, (enum kind)carry_kinds[i]);
    text_add(w->out, "next(");
    for (uint32_t i = 0; i < n_carry; i++) text_add(w->out, "%s%%v%u", i ? ", " : "", names[i]);
    text_add(w->out, ") }\n");
    w->out = out;
    write_names(w, s, n_carry, carry_kinds);
    text_add(w->out, " = %s", body.data);
}

static void write_switch(struct writer *w, struct scope *s, uint32_t depth)
{
    uint32_t branches = 1 + below(3), n = 1 + below(3), index = pick(w, s, INDEX), names[3][8], n_operands[3];
    uint8_t kinds[8], operand_kinds[3][8];
    for (uint32_t i = 0; i < n; i++) kinds[i] = (uint8_t)below(KINDS);
    for (uint32_t b = 0; b < branches; b++)
        n_operands[b] = choose_values(w, s, 4, names[b], operand_kinds[b]);
    struct text body = { .arena = w->out->arena }, *out = w->out;
    w->out = &body;
    text_add(w->out, "switch(%%v%u) [", index);
    for (uint32_t b = 0; b < branches; b++) {
        struct scope inner = { 0 };
        if (b) text_add(w->out, ", ");
        write_operands(w, s, &inner, n_operands[b], names[b], operand_kinds[b]);
        text_add(w->out, " {\n");
        write_block(w, &inner, depth, 4);
        write_results(w, &inner, "yield", n, kinds);
        text_add(w->out, "}");
    }
    text_add(w->out, "]\n");
    w->out = out;
    write_names(w, s, n, kinds);
    text_add(w->out, " = %s", body.data);
}

static void write_block(struct writer *w, struct scope *s, uint32_t depth, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        uint32_t what = below(10);
        if (w->nodes > 400 || !depth || what > 3) write_plain(w, s);
        else if (what <= 1) write_scan(w, s, depth - 1);
        else if (what == 2) write_while(w, s, depth - 1);
        else write_switch(w, s, depth - 1);
    }
    if (!w->smooth && below(12) == 0)
        text_add(w->out, "print {format = \"{}\"} (%%v%u)\n", pick(w, s, INDEX));
}

/* A program in `out`: @main of some arguments of each kind, giving some values of each kind. */
static void write_program(struct text *out, uint64_t seed, bool smooth)
{
    struct writer w = { .smooth = smooth };
    struct scope s = { 0 };
    struct text body = { .arena = out->arena };
    state = seed * 2654435761u + 99;
    text_add(out, "hop 1\nfn @main(");
    for (uint32_t k = 0; k < ALL_KINDS; k++)
        for (uint32_t i = 0; i < 2; i++)
            text_add(out, "%s%%v%u: %s", k + i ? ", " : "", define(&w, &s, (enum kind)k), kind_types[k]);
    w.out = &body;
    write_block(&w, &s, 3, 10);
    text_add(out, ") -> (");
    struct text results = { .arena = out->arena };
    for (uint32_t i = 0, n = 0; i < 6; i++) {
        uint32_t v = s.n - 1 - below(HOP_MIN(s.n, 12u));
        text_add(out, "%s%s", n ? ", " : "", kind_types[s.value[v].kind]);
        text_add(&results, "%s%%v%u", n++ ? ", " : "", s.value[v].name);
    }
    text_add(out, ") {\n%sreturn %s\n}\n", body.data ? body.data : "", results.data);
}

/* ---- lanes ---- */

/* What `pack` lives on: carries of a loop that are updated alike, in the branches of a switch, too. */
enum { MOST_LANES = 12 };
struct lanes {
    uint32_t n, name[MOST_LANES];
};

static void write_lane_names(struct writer *w, const struct lanes *x)
{
    for (uint32_t i = 0; i < x->n; i++) text_add(w->out, "%s%%v%u", i ? ", " : "", x->name[i]);
}

static struct lanes new_lanes(struct writer *w, uint32_t n)
{
    struct lanes x = { .n = n };
    for (uint32_t i = 0; i < n; i++) x.name[i] = w->names++;
    return x;
}

static struct lanes moved_on(const struct lanes *x, uint32_t by)
{
    struct lanes y = { .n = x->n };
    for (uint32_t i = 0; i < x->n; i++) y.name[i] = x->name[(i + by) % x->n];
    return y;
}

static struct lanes write_numbers(struct writer *w, uint32_t n)
{
    struct lanes x = new_lanes(w, n);
    for (uint32_t i = 0; i < n; i++)
        text_add(w->out, "%%v%u = full {value = %.2f, dims = []}\n", x.name[i], uniform() - 0.5);
    return x;
}

static struct lanes write_each(struct writer *w, const struct lanes *x, const char *op)
{
    struct lanes y = new_lanes(w, x->n);
    for (uint32_t i = 0; i < x->n; i++) text_add(w->out, "%%v%u = %s(%%v%u)\n", y.name[i], op, x->name[i]);
    return y;
}

/* One operator for all lanes: of each alone, or with a neighbour, a number or one of them; now and then one
 * of the lanes is different. */
static struct lanes write_alike(struct writer *w, const struct lanes *x)
{
    static const char *const unary[] = { "sin", "tanh", "neg", "cos" };
    static const char *const binary[] = { "add", "mul", "sub" };
    uint32_t what = below(4), op = below(3), odd = below(6) ? x->n : below(x->n);
    struct lanes with = what == 1 ? moved_on(x, below(x->n)) : *x;
    if (what == 2) with = write_numbers(w, x->n);
    uint32_t one = x->name[below(x->n)];
    struct lanes y = new_lanes(w, x->n);
    for (uint32_t i = 0; i < x->n; i++) {
        text_add(w->out, "%%v%u = ", y.name[i]);
        if (i == odd || what == 0) text_add(w->out, "%s(%%v%u)\n", unary[op + (i == odd)], x->name[i]);
        else text_add(w->out, "%s(%%v%u, %%v%u)\n", binary[op], x->name[i], what == 3 ? one : with.name[i]);
    }
    return y;
}

static struct lanes write_lane_switch(struct writer *w, const struct lanes *x, uint32_t index, uint32_t depth)
{
    uint32_t branches = 1 + below(3);
    struct lanes y = new_lanes(w, x->n);
    bool more = below(3) == 0; /* a result that is no lane */
    uint32_t one_more = w->names++;
    write_lane_names(w, &y);
    if (more) text_add(w->out, ", %%v%u", one_more);
    text_add(w->out, " = switch(%%v%u) [", index);
    for (uint32_t b = 0; b < branches; b++) {
        struct lanes in = new_lanes(w, x->n), out = in;
        uint32_t inner = w->names++, turned = below(3) ? 0 : below(x->n);
        text_add(w->out, "%s(%%v%u = %%v%u", b ? ", " : "", inner, index);
        for (uint32_t i = 0; i < x->n; i++) {
            uint32_t k = (i + turned) % x->n;
            text_add(w->out, ", %%v%u = %%v%u", in.name[k], x->name[k]);
        }
        text_add(w->out, ") {\n");
        uint32_t what = below(8);
        if (what == 0) out = write_numbers(w, x->n);
        else if (what == 1 && depth) out = write_lane_switch(w, &in, inner, depth - 1);
        else if (what == 2) out = moved_on(&in, below(x->n));
        for (uint32_t i = below(3); what > 3 && i < 3; i++) out = write_alike(w, &out);
        text_add(w->out, "yield(");
        write_lane_names(w, &out);
        if (more) text_add(w->out, ", %%v%u", out.name[below(x->n)]);
        text_add(w->out, ") }");
    }
    text_add(w->out, "]\n");
    if (!more) return y;
    struct lanes z = new_lanes(w, x->n);
    for (uint32_t i = 0; i < x->n; i++)
        text_add(w->out, "%%v%u = mul(%%v%u, %%v%u)\n", z.name[i], y.name[i], one_more);
    return z;
}

/* A program in `out`: a loop of lanes with switches in its step. */
static void write_lanes_program(struct text *out, uint64_t seed, bool smooth)
{
    struct writer w = { .out = out, .smooth = smooth };
    state = seed * 2654435761u + 7;
    uint32_t n = 7 + below(MOST_LANES - 6), first = w.names++, indices = w.names++, index = w.names++;
    text_add(out, "hop 1\nfn @main(%%v%u: f32[%u], %%v%u: i32[6]) -> (", first, n, indices);
    for (uint32_t i = 0; i < n; i++) text_add(out, "%sf32[]", i ? ", " : "");
    bool stacks = below(3) == 0;
    text_add(out, "%s) {\n", stacks ? ", f32[6]" : "");
    struct lanes rows = new_lanes(&w, n), start = new_lanes(&w, n), last = new_lanes(&w, n);
    for (uint32_t i = 0; i < n; i++)
        text_add(out,
                 "%%v%u = slice {start = [%u], limit = [%u]} (%%v%u)\n"
                 "%%v%u = reshape {dims = []} (%%v%u)\n",
                 rows.name[i], i, i + 1, first, start.name[i], rows.name[i]);
    struct lanes carry = new_lanes(&w, n), x = carry;
    uint32_t stack = w.names++;
    write_lane_names(&w, &last);
    if (stacks) text_add(out, ", %%v%u", stack);
    for (uint32_t i = 0; i < n; i++)
        text_add(out, "%s%%v%u = %%v%u", i ? ", " : " = scan carry(", carry.name[i], start.name[i]);
    text_add(out, ") over(%%v%u in %%v%u) {\n", index, indices);
    bool bounded_first = below(2);
    if (bounded_first) x = write_each(&w, &x, "sin");
    if (below(2)) x = write_alike(&w, &x);
    x = write_lane_switch(&w, &x, index, 2);
    if (below(2)) x = write_alike(&w, &x);
    if (below(3) == 0) x = write_lane_switch(&w, &x, index, 1);
    if (!bounded_first) x = write_each(&w, &x, "tanh");
    text_add(out, "next(");
    write_lane_names(&w, &x);
    if (stacks) text_add(out, ") stack(%%v%u", x.name[below(n)]);
    text_add(out, ") }\nreturn ");
    write_lane_names(&w, &last);
    if (stacks) text_add(out, ", %%v%u", stack);
    text_add(out, "\n}\n");
}
