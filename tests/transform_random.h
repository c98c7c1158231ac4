/* Random well-typed programs for transform_test.c: nested loops, branches and calls over scalars, small
 * vectors and integers, built straight with the builder. Everything is smooth and bounded, so that
 * differences can be trusted. */

enum { N_VECTOR = 2, N_TIME = 3 };
static bool symbolic; /* the number of steps is symbol 0 of every function */

static dim time_dim(struct module *m) { return symbolic ? dim_symbol(m, 0) : N_TIME; }
static void begin_function(struct builder *b, struct module *m)
{
    builder_begin(b, m, NULL);
    if (symbolic) builder_symbol(b, module_string(m, "T", 1), 0, INT64_MAX);
}
enum shape { SHAPE_SCALAR, SHAPE_VECTOR, SHAPE_TIMES, SHAPE_TIMES_VECTOR, SHAPE_INT, SHAPE_COUNT };

struct random_body {
    struct run *r;
    struct builder *b;
    uint32_t depth;
    vec(val) values[SHAPE_COUNT]; /* in scope */
};

static uint32_t below(struct run *r, uint32_t n) { return (uint32_t)(next_random(r) % n); }

static type_id shape_type(struct module *m, enum shape s)
{
    const dim vector[] = { N_VECTOR }, times[] = { time_dim(m) }, both[] = { time_dim(m), N_VECTOR };
    switch (s) {
    case SHAPE_SCALAR: return type_scalar(m, DT_F64);
    case SHAPE_VECTOR: return type_intern(m, DT_F64, 1, vector);
    case SHAPE_TIMES: return type_intern(m, DT_F64, 1, times);
    case SHAPE_TIMES_VECTOR: return type_intern(m, DT_F64, 2, both);
    default: return type_scalar(m, DT_I64);
    }
}

static void in_scope(struct random_body *g, val v)
{
    type_id t = builder_type(g->b, v);
    for (enum shape s = 0; s < SHAPE_COUNT; s++)
        if (t == shape_type(g->b->m, s)) vec_push(&g->b->m->arena, &g->values[s], v);
}

/* A value of that shape, made of another one or of nothing if there is none. Later ones are likelier. */
static val pick(struct random_body *g, enum shape s)
{
    uint32_t n = g->values[s].len;
    struct type t = type_get(g->b->m, shape_type(g->b->m, s));
    if (n && below(g->r, 12))
        return g->values[s].data[below(g->r, 3) ? n - 1 - below(g->r, HOP_MIN(n, 3u)) : below(g->r, n)];
    if (s != SHAPE_INT && below(g->r, 8)) {
        for (enum shape other = SHAPE_SCALAR; other < SHAPE_INT; other++) {
            if (other == s || !g->values[other].len) continue;
            val v = g->values[other].data[below(g->r, g->values[other].len)];
            uint32_t all[2] = { 0, 1 };
            v = emit_reduce(g->b, OP_sum, v, all, emit_type(g->b, v).rank);
            return t.rank ? emit_broadcast(g->b, v, t.rank, t.dims, NULL) : v;
        }
    }
    return emit_full(g->b, (enum dtype)t.dtype, s == SHAPE_INT ? below(g->r, 3) : 0.4, t.rank, t.dims);
}

static enum shape float_shape(struct random_body *g) { return (enum shape)below(g->r, 2); }
static enum shape any_float(struct random_body *g) { return (enum shape)below(g->r, 4); }

static void add_simple(struct random_body *g)
{
    static const enum op unary[] = { OP_sin, OP_tanh, OP_sigmoid, OP_neg, OP_cos },
                         binary[] = { OP_mul, OP_add, OP_sub, OP_mul };
    enum shape s = any_float(g);
    switch (below(g->r, 6)) {
    case 0: in_scope(g, emit1(g->b, unary[below(g->r, HOP_COUNT(unary))], pick(g, s))); break;
    case 1: { /* bounded below */
        val x = pick(g, s), one = emit_full_like(g->b, x, 1);
        in_scope(g, emit2(g->b, OP_div, pick(g, s), emit2(g->b, OP_add, one, emit2(g->b, OP_mul, x, x))));
        break;
    }
    case 2: {
        struct type t = type_get(g->b->m, shape_type(g->b->m, s));
        uint32_t last = t.rank - 1u;
        if (t.rank) in_scope(g, emit_reduce(g->b, OP_sum, pick(g, s), &last, 1));
        else in_scope(g, emit_broadcast_front(g->b, pick(g, s), N_VECTOR));
        break;
    }
    case 3:
        in_scope(g, emit_cast(g->b, pick(g, SHAPE_INT), DT_F64));
        in_scope(g, emit2(g->b, OP_add, pick(g, SHAPE_INT), emit_full(g->b, DT_I64, 1, 0, NULL)));
        break;
    default: in_scope(g, emit2(g->b, binary[below(g->r, HOP_COUNT(binary))], pick(g, s), pick(g, s))); break;
    }
}

static uint32_t random_function(struct run *r, struct module *m, const type_id *params, uint32_t n_params,
                                const enum shape *results, uint32_t n_results, uint32_t depth,
                                uint32_t counter);

static val bounded(struct random_body *g, val v)
{
    return emit_type(g->b, v).dtype == DT_F64 ? emit1(g->b, below(g->r, 2) ? OP_tanh : OP_sin, v) : v;
}

static uint32_t pick_own(struct random_body *g, val *own, type_id *types)
{
    uint32_t n = below(g->r, 5) ? 1 + below(g->r, 3) : 0;
    for (uint32_t k = 0; k < n; k++) {
        own[k] = pick(g, (enum shape)below(g->r, SHAPE_COUNT));
        types[k] = builder_type(g->b, own[k]);
    }
    return n;
}

/* Sometimes something else than all is kept. attrs: schedule, every, snapshots. */
static void random_schedule(struct run *r, struct attr *attrs)
{
    static const uint32_t sizes[2] = { 2, 2 };
    switch (below(r, 12)) {
    case 0:
    case 1:
    case 2: attrs[1] = A_INTS(sizes, 1 + below(r, 2)); break;
    case 3: attrs[0] = A_WORD(SCHEDULE_SQRT); break;
    case 4: attrs[0] = A_WORD(SCHEDULE_RECOMPUTE); break;
    case 5:
    case 6: attrs[0] = A_WORD(SCHEDULE_BINOMIAL), attrs[2] = A_INT(1 + below(r, 3)); break;
    default: break;
    }
}

static void add_scan(struct random_body *g)
{
    struct module *m = g->b->m;
    val operands[8], own[4];
    type_id types[16];
    enum shape results[8];
    uint32_t groups[2] = { below(g->r, 4), below(g->r, 3) }, n = 0;
    for (; n < groups[0]; n++) {
        results[n] = n == 2 ? SHAPE_INT : float_shape(g);
        operands[n] = pick(g, results[n]);
        types[n] = builder_type(g->b, operands[n]);
    }
    for (; n < groups[0] + groups[1]; n++) {
        operands[n] = pick(g, below(g->r, 2) ? SHAPE_TIMES : SHAPE_TIMES_VECTOR);
        types[n] = type_drop_leading(m, builder_type(g->b, operands[n]));
    }
    uint32_t n_own = pick_own(g, own, types + n), n_stack = groups[0] ? below(g->r, 3) : 1;
    for (uint32_t k = 0; k < n_stack; k++) results[groups[0] + k] = float_shape(g);
    uint32_t fn = random_function(g->r, m, types, n + n_own, results, groups[0] + n_stack, g->depth - 1,
                                  HOP_NONE);
    struct attr attrs[SCAN_ATTRS] = { A_FLAG(below(g->r, 2)), groups[1] ? A_NONE : A_DIM(time_dim(m)) };
    random_schedule(g->r, &attrs[SCAN_SCHEDULE]);
    const dim dims[] = { time_dim(m) };
    struct region_in region = { fn, own, n_own, dims };
    val first = builder_node(g->b, &(struct node_in){ .op = OP_scan,
                                                      .operands = operands,
                                                      .n_operands = n,
                                                      .groups = groups,
                                                      .attrs = attrs,
                                                      .regions = &region,
                                                      .n_regions = 1 });
    for (uint32_t k = 0; k < groups[0] + n_stack; k++) in_scope(g, first + k);
}

/* Carry 0 counts down to zero. */
static void add_while(struct random_body *g)
{
    struct module *m = g->b->m;
    val operands[8], own[4];
    type_id types[16];
    enum shape results[8];
    uint32_t n = 1 + below(g->r, 3), n_stack = below(g->r, 3) ? 0 : 1;
    bool bound = below(g->r, 2) ||
                 n_stack; /* without a bound, stacks cannot be batched over the number of trips */
    for (uint32_t k = 0; k < n; k++) {
        results[k] = k ? float_shape(g) : SHAPE_INT;
        operands[k] = pick(g, results[k]);
        types[k] = builder_type(g->b, operands[k]);
    }
    val three = emit_full(g->b, DT_I64, 3, 0, NULL);
    operands[0] = emit2(g->b, OP_rem, operands[0], three);
    struct builder cond;
    begin_function(&cond, m);
    for (uint32_t k = 0; k < n; k++) builder_param(&cond, types[k], 0);
    val again = emit2(&cond, OP_gt, 0, emit_full(&cond, DT_I64, 0, 0, NULL));
    uint32_t cond_fn = builder_finish(&cond, &again, 1), n_own = pick_own(g, own, types + n);
    for (uint32_t k = 0; k < n_stack; k++) results[n + k] = float_shape(g);
    uint32_t body = random_function(g->r, m, types, n + n_own, results, n + n_stack, g->depth - 1, 0);
    struct attr attrs[WHILE_ATTRS] = { bound ? A_DIM(4) : A_NONE, A_FLAG(below(g->r, 2)) };
    random_schedule(g->r, &attrs[WHILE_SCHEDULE]);
    const dim dims[] = { time_dim(m) };
    struct region_in regions[2] = { { cond_fn, NULL, 0, dims }, { body, own, n_own, dims } };
    val first = builder_node(g->b, &(struct node_in){ .op = OP_while_loop,
                                                      .operands = operands,
                                                      .n_operands = n,
                                                      .groups = &n,
                                                      .attrs = attrs,
                                                      .regions = regions,
                                                      .n_regions = 2 });
    uint32_t n_results = g->b->nodes.data[g->b->nodes.len - 1].n_results;
    for (uint32_t k = 0; k < n; k++) in_scope(g, first + k);
    if (n_results > n) in_scope(g, first + n);
    uint32_t lead = 0;
    if (n_stack) in_scope(g, emit_reduce(g->b, OP_sum, first + n + 1, &lead, 1));
}

static void add_switch(struct random_body *g)
{
    struct module *m = g->b->m;
    enum shape results[3];
    uint32_t n = 2 + below(g->r, 2), n_results = 1 + below(g->r, 2);
    const dim dims[] = { time_dim(m) };
    struct region_in regions[3];
    val own[3][4], index = pick(g, SHAPE_INT);
    for (uint32_t k = 0; k < n_results; k++) results[k] = any_float(g);
    for (uint32_t k = 0; k < n; k++) {
        type_id types[4];
        uint32_t n_own = pick_own(g, own[k], types);
        regions[k] = (struct region_in){ random_function(g->r, m, types, n_own, results, n_results,
                                                         g->depth - 1, HOP_NONE),
                                         own[k], n_own, dims };
    }
    if (n == 2) index = emit2(g->b, OP_gt, pick(g, SHAPE_SCALAR), emit_full(g->b, DT_F64, 0.31, 0, NULL));
    val first = builder_node(g->b, &(struct node_in){ .op = OP_switch,
                                                      .operands = &index,
                                                      .n_operands = 1,
                                                      .groups = (const uint32_t[1]){ 1 },
                                                      .regions = regions,
                                                      .n_regions = n });
    for (uint32_t k = 0; k < n_results; k++) in_scope(g, first + k);
}

static void add_call(struct random_body *g)
{
    enum shape results[3];
    val own[4];
    type_id types[4];
    uint32_t n_own = pick_own(g, own, types), n_results = 1 + below(g->r, 2);
    for (uint32_t k = 0; k < n_results; k++) results[k] = (enum shape)below(g->r, SHAPE_COUNT);
    const dim dims[] = { time_dim(g->b->m) };
    struct region_in region = { random_function(g->r, g->b->m, types, n_own, results, n_results, g->depth - 1,
                                                HOP_NONE),
                                own, n_own, dims };
    static const char *const policies[] = { "nothing", "everything", "products", "both(products, everything)",
                                            "budget(1000000)" };
    const char *policy = policies[below(g->r, HOP_COUNT(policies))];
    struct attr attrs[INVOKE_ATTRS] = { [INVOKE_RECOMPUTE] = A_FLAG(!below(g->r, 4)) };
    if (attrs[INVOKE_RECOMPUTE].kind == ATTR_ABSENT && !below(g->r, 2))
        attrs[INVOKE_POLICY] = A_STRING(module_string(g->b->m, policy, strlen(policy)));
    if (!below(g->r, 3)) attrs[INVOKE_INLINE] = A_WORD(below(g->r, 2) ? INLINE_YES : INLINE_NO);
    val first = builder_node(g->b, &(struct node_in){ .op = OP_invoke_subgraph,
                                                      .groups = (const uint32_t[1]){ 0 },
                                                      .attrs = attrs,
                                                      .regions = &region,
                                                      .n_regions = 1 });
    for (uint32_t k = 0; k < n_results; k++) in_scope(g, first + k);
}

/* counter: the parameter whose next value, one less, is the first result. */
static uint32_t random_function(struct run *r, struct module *m, const type_id *params, uint32_t n_params,
                                const enum shape *results, uint32_t n_results, uint32_t depth,
                                uint32_t counter)
{
    struct builder b;
    begin_function(&b, m);
    struct random_body g = { .r = r, .b = &b, .depth = depth };
    for (uint32_t p = 0; p < n_params; p++) builder_param(&b, params[p], 0);
    for (uint32_t p = 0; p < n_params; p++) in_scope(&g, p);
    uint32_t n = 2 + below(r, 4);
    for (uint32_t i = 0; i < n; i++) {
        void (*const higher[])(struct random_body *) = { add_scan, add_while, add_switch, add_call };
        if (depth && !below(r, 3)) higher[below(r, 4)](&g);
        else add_simple(&g);
    }
    val out[16];
    for (uint32_t k = 0; k < n_results; k++) {
        out[k] = pick(&g, results[k]);
        if (below(r, 4)) out[k] = bounded(&g, out[k]);
        if (k == 0 && counter != HOP_NONE)
            out[k] = emit2(&b, OP_sub, counter, emit_full(&b, DT_I64, 1, 0, NULL));
    }
    return builder_finish(&b, out, n_results);
}

static void random_program(struct run *r, const struct program *p)
{
    static const enum shape params[] = { SHAPE_INT,   SHAPE_SCALAR,       SHAPE_VECTOR,
                                         SHAPE_TIMES, SHAPE_TIMES_VECTOR, SHAPE_SCALAR };
    static const enum shape results[] = { SHAPE_SCALAR, SHAPE_VECTOR, SHAPE_TIMES_VECTOR };
    type_id types[HOP_COUNT(params)];
    r->seed = p->seed;
    symbolic = p->seed & 1;
    for (uint32_t k = 0; k < HOP_COUNT(params); k++) types[k] = shape_type(r->m, params[k]);
    uint32_t fn = random_function(r, r->m, types, HOP_COUNT(params), results, HOP_COUNT(results),
                                  2 + (uint32_t)(p->seed % 3), HOP_NONE);
    module_rename(r->m, fn, "main");
    int failed = tests_failed;
    claim_program(r, p);
    if (tests_failed == failed && !getenv("HOP_SHOW")) return;
    struct text text = { .arena = &r->m->arena };
    text_print(r->m, fn, 0, &text);
    printf("%s\n", text.data);
}
