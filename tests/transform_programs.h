/* The programs of transform_test.c, as text. */

#define SCALAR(name, value, dtype) "    %" name " = full {value = " value ", dims = [], dtype = " dtype "}\n"

#define RNN RNN_WITH("")
#define RNN_WITH(attrs) \
    "hop 1\n" \
    "fn @main[T](%h: f64[3], %xs: f64[T, 2], %w: f64[3, 3], %u: f64[2, 3]) -> (f64[3], f64[T, 3]) {\n" \
    "  %c, %ys = scan " attrs " carry(%s = %h) over(%x in %xs) with(%v = %w, %q = %u) {\n" \
    "    %a = matmul(%s, %v)\n" \
    "    %b = matmul(%x, %q)\n" \
    "    %d = add(%a, %b)\n" \
    "    %n = tanh(%d)\n" \
    "    next(%n) stack(%n)\n" \
    "  }\n" \
    "  return %c, %ys\n" \
    "}\n"

#define COUNTED_WHILE COUNTED_WHILE_WITH("")
#define COUNTED_WHILE_WITH(attrs) DOWN_TO_ZERO(attrs, "%t = gt(%i, %zero)")
#define WATCHED_WHILE_WITH(attrs) \
    DOWN_TO_ZERO(attrs, \
                 "%b = barrier(%i)\n    %t = gt(%b, %zero)") /* the same, but nobody sees that it counts */
#define DOWN_TO_ZERO(attrs, test) \
    "hop 1\n" \
    "fn @main(%n: i64[], %x: f64[2], %w: f64[2]) -> (i64[], f64[2]) {\n" \
    "  %k, %y = while_loop " attrs " carry(%i = %n, %c = %x) cond {\n" SCALAR( \
        "zero", "0", "i64") "    " test "\n" \
                            "    test(%t)\n" \
                            "  } body with(%v = %w) {\n" SCALAR("one", "1", \
                                                                "i64") "    %j = sub(%i, %one)\n" \
                                                                       "    %m = mul(%c, %v)\n" \
                                                                       "    %d = sin(%m)\n" \
                                                                       "    next(%j, %d)\n" \
                                                                       "  }\n" \
                                                                       "  return %k, %y\n" \
                                                                       "}\n"

/* Carries: a float of each kind, an integer; slices of integers; an unused operand; a carry that never
 * changes. */
#define MIXED_SCAN MIXED_SCAN_WITH("reverse")
#define MIXED_SCAN_WITH(attrs) \
    "hop 1\n" \
    "fn @main[T](%h: f64[], %g: f64[2], %k: i64[], %xs: f64[T, 2], %w: f64[2], %z: f64[]) -> (f64[], " \
    "f64[2], i64[], f64[T], f64[T, 2], i64[T]) {\n" \
    "  %is = iota {dims = [T]}\n" \
    "  %a, %b, %c, %d, %e, %f = scan {" attrs \
    "} carry(%s = %h, %q = %g, %n = %k) over(%x in %xs, %i in %is) with(%v = %w, %y = %z) {\n" \
    "    %j = add(%n, %i)\n" \
    "    %r = cast {dtype = f64} (%j)\n" \
    "    %p = mul(%s, %r)\n" \
    "    %l = sin(%p)\n" \
    "    %m = broadcast {dims = [2], at = []} (%l)\n" \
    "    %o = mul(%m, %v)\n" \
    "    %t = mul(%o, %q)\n" \
    "    %u = add(%t, %x)\n" \
    "    next(%l, %q, %j) stack(%s, %u, %j)\n" \
    "  }\n" \
    "  return %a, %b, %c, %d, %e, %f\n" \
    "}\n"

#define COUNTED_SCAN COUNTED_SCAN_WITH("")
#define COUNTED_SCAN_WITH(attrs) \
    "hop 1\n" \
    "fn @main(%x: f64[2], %w: f64[2]) -> (f64[2], f64[5, 2]) {\n" \
    "  %c, %ys = scan {length = 5" attrs "} carry(%s = %x) over() with(%v = %w) {\n" \
    "    %e = exp(%v)\n" \
    "    %a = mul(%s, %e)\n" \
    "    %n = sin(%a)\n" \
    "    %y = mul(%n, %a)\n" \
    "    next(%n) stack(%y)\n" \
    "  }\n" \
    "  return %c, %ys\n" \
    "}\n"

/* Newton's iteration for a square root: the number of trips depends on the data. */
#define NEWTON_BODY(stack) \
    "    %q = div(%v, %c)\n" \
    "    %t = add(%c, %q)\n" SCALAR("half", "0.5", "f64") "    %d = mul(%half, %t)\n" \
                                                          "    next(%d)" stack "\n"
#define NEWTON_COND \
    "    %s = mul(%c, %c)\n" \
    "    %e = sub(%s, %v)\n" \
    "    %f = abs(%e)\n" SCALAR("g", "0.3", "f64") "    %t = gt(%f, %g)\n" \
                                                   "    test(%t)\n"
#define NEWTON NEWTON_WITH("")
#define NEWTON_WITH(attrs) \
    "hop 1\n" \
    "fn @main(%x: f64[], %n: i64[]) -> (f64[], i64[]) {\n" \
    "  %k = cast {dtype = f64} (%n)\n" \
    "  %a = add(%x, %k)\n" \
    "  %y, %trips = while_loop {count" attrs "} carry(%c = %a) cond with(%v = %a) {\n" NEWTON_COND \
    "  } body with(%v = %a) {\n" NEWTON_BODY("") "  }\n" \
                                                 "  return %y, %trips\n" \
                                                 "}\n"
#define NEWTON_STACK(attrs, length) \
    "hop 1\n" \
    "fn @main(%x: f64[], %n: i64[]) -> (f64[], i64[], f64[" length "]) {\n" \
    "  %k = cast {dtype = f64} (%n)\n" \
    "  %a = add(%x, %k)\n" \
    "  %y, %trips, %ys: f64[" length "] = while_loop " attrs \
    " carry(%c = %a) cond with(%v = %a) {\n" NEWTON_COND \
    "  } body with(%v = %a) {\n" NEWTON_BODY(" stack(%t)") "  }\n" \
                                                           "  return %y, %trips, %ys\n" \
                                                           "}\n"

#define SWITCH \
    "hop 1\n" \
    "fn @main(%i: i64[], %x: f64[3], %w: f64[3], %z: f64[]) -> (f64[3], f64[]) {\n" \
    "  %a, %b = switch(%i) [(%p = %x, %q = %w) {\n" \
    "    %s = sin(%p)\n" \
    "    %t = mul(%s, %q)\n" \
    "    %u = sum(%t)\n" \
    "    yield(%t, %u)\n" \
    "  }, (%p = %w, %r = %z) {\n" \
    "    %e = exp(%p)\n" \
    "    yield(%e, %r)\n" \
    "  }, (%p = %x, %r = %z) {\n" \
    "    %e = exp(%p)\n" \
    "    %f = tanh(%e)\n" \
    "    %g = mul(%r, %r)\n" \
    "    yield(%f, %g)\n" \
    "  }]\n" \
    "  return %a, %b\n" \
    "}\n"

/* Branches with results of different sizes, and one whose size only the branch knows. */
#define SWITCH_SIZES \
    "hop 1\n" \
    "fn @main(%p: bool[], %n: i64[], %x: f64[4]) -> (f64[?k]) {\n" \
    "  %r: f64[?k] = switch(%p) [(%a = %x) {\n" \
    "    %s = sin(%a)\n" \
    "    %t = slice {start = [0], limit = [3]} (%s)\n" \
    "    yield(%t)\n" \
    "  }, (%a = %x, %m = %n) {\n" \
    "    %i: i64[?j] = bind_dim {hi = 4} (%m)\n" \
    "    %g = take(%a, %i)\n" \
    "    %h = mul(%g, %g)\n" \
    "    yield(%h)\n" \
    "  }]\n" \
    "  return %r\n" \
    "}\n"

/* A branch that is only right for the lanes that take it: the square root of a negative number, a division by
 * zero. */
#define SWITCH_SAFE \
    "hop 1\n" \
    "fn @main(%n: i64[], %x: f64[], %w: f64[]) -> (f64[]) {\n" \
    "  %k = cast {dtype = f64} (%n)\n" \
    "  %y = mul(%x, %k)\n" SCALAR("zero", "0", "f64") "  %p = gt(%y, %zero)\n" \
                                                      "  %r = switch(%p) [(%a = %y, %b = %w) {\n" \
                                                      "    %c = mul(%a, %b)\n" \
                                                      "    yield(%c)\n" \
                                                      "  }, (%a = %y, %b = %w) {\n" \
                                                      "    %c = sqrt(%a)\n" \
                                                      "    %d = div(%b, %c)\n" \
                                                      "    yield(%d)\n" \
                                                      "  }]\n" \
                                                      "  return %r\n" \
                                                      "}\n"

#define COUNTER(i) "cond {\n" SCALAR("zero", "0", "i64") "    %t = gt(" i ", %zero)\n    test(%t)\n  } body"

#define WHILE_IN_SCAN(attrs) \
    "hop 1\n" \
    "fn @main[T](%n: i64[], %h: f64[2], %xs: f64[T, 2], %w: f64[2]) -> (f64[2], f64[T, 2]) {\n" \
    "  %c, %ys = scan carry(%s = %h) over(%x in %xs) with(%v = %w, %m = %n) {\n" \
    "    %k, %y = while_loop " attrs " carry(%i = %m, %d = %s) " COUNTER( \
        "%i") " with(%u = %v, %z = %x) {\n" SCALAR("one", "1", "i64") "      %j = sub(%i, %one)\n" \
                                                                      "      %e = mul(%d, %u)\n" \
                                                                      "      %f = add(%e, %z)\n" \
                                                                      "      %g = sin(%f)\n" \
                                                                      "      next(%j, %g)\n" \
                                                                      "    }\n" \
                                                                      "    %o = mul(%y, %x)\n" \
                                                                      "    next(%y) stack(%o)\n" \
                                                                      "  }\n" \
                                                                      "  return %c, %ys\n" \
                                                                      "}\n"

#define SCAN_IN_WHILE \
    "hop 1\n" \
    "fn @main[T](%n: i64[], %h: f64[2], %xs: f64[T, 2], %w: f64[2]) -> (f64[2]) {\n" \
    "  %k, %y = while_loop carry(%i = %n, %d = %h) " COUNTER("%i") " with(%zs = %xs, %u = %w) {\n" SCALAR( \
        "one", "1", "i64") "    %j = sub(%i, %one)\n" \
                           "    %c, %ys = scan carry(%s = %d) over(%x in %zs) with(%v = %u) {\n" \
                           "      %e = mul(%s, %v)\n" \
                           "      %f = add(%e, %x)\n" \
                           "      %g = tanh(%f)\n" \
                           "      %o = mul(%g, %s)\n" \
                           "      next(%g) stack(%o)\n" \
                           "    }\n" \
                           "    %q = sum {dims = [0]} (%ys)\n" \
                           "    %r = mul(%q, %c)\n" \
                           "    next(%j, %r)\n" \
                           "  }\n" \
                           "  return %y\n" \
                           "}\n"

#define WHILE_IN_WHILE \
    "hop 1\n" \
    "fn @main(%n: i64[], %h: f64[], %w: f64[]) -> (f64[]) {\n" \
    "  %k, %y = while_loop carry(%i = %n, %d = %h) " COUNTER("%i") " with(%u = %w) {\n" SCALAR( \
        "one", "1", "i64") "    %j = sub(%i, %one)\n" \
                           "    %l, %z = while_loop carry(%p = %i, %q = %d) " COUNTER( \
                               "%p") " with(%v = %u) {\n" SCALAR("uno", "1", \
                                                                 "i64") "      %r = sub(%p, %uno)\n" \
                                                                        "      %s = mul(%q, %v)\n" \
                                                                        "      %a = sin(%s)\n" \
                                                                        "      next(%r, %a)\n" \
                                                                        "    }\n" \
                                                                        "    %b = mul(%z, %d)\n" \
                                                                        "    next(%j, %b)\n" \
                                                                        "  }\n" \
                                                                        "  return %y\n" \
                                                                        "}\n"

#define COND_IN_WHILE_IN_SCAN \
    "hop 1\n" \
    "fn @main[T](%n: i64[], %h: f64[], %xs: f64[T], %w: f64[]) -> (f64[], f64[T]) {\n" \
    "  %c, %ys = scan {reverse} carry(%s = %h) over(%x in %xs) with(%v = %w, %m = %n) {\n" \
    "    %k, %y = while_loop carry(%i = %m, %d = %s) " COUNTER( \
        "%i") " with(%u = %v, %z = %x) {\n" SCALAR("one", "1", "i64") \
        SCALAR("half", "0.5", "f64") "      %j = sub(%i, %one)\n" \
                                     "      %p = gt(%z, %half)\n" \
                                     "      %q = switch(%p) [(%a = %d, %b = %u) {\n" \
                                     "        %e = mul(%a, %b)\n" \
                                     "        yield(%e)\n" \
                                     "      }, (%a = %d, %b = %z) {\n" \
                                     "        %e = mul(%a, %b)\n" \
                                     "        %f = sin(%e)\n" \
                                     "        yield(%f)\n" \
                                     "      }]\n" \
                                     "      next(%j, %q)\n" \
                                     "    }\n" \
                                     "    %o = mul(%y, %s)\n" \
                                     "    next(%y) stack(%o)\n" \
                                     "  }\n" \
                                     "  return %c, %ys\n" \
                                     "}\n"

#define SCAN_IN_SWITCH \
    "hop 1\n" \
    "fn @main[T](%i: i64[], %h: f64[2], %xs: f64[T, 2]) -> (f64[2]) {\n" \
    "  %r = switch(%i) [(%a = %h, %b = %xs) {\n" \
    "    %c, %ys = scan carry(%s = %a) over(%x in %b) {\n" \
    "      %m = mul(%s, %x)\n" \
    "      %n = tanh(%m)\n" \
    "      next(%n) stack(%m)\n" \
    "    }\n" \
    "    %t = sum {dims = [0]} (%ys)\n" \
    "    %u = mul(%t, %c)\n" \
    "    yield(%u)\n" \
    "  }, (%a = %h) {\n" \
    "    %m = mul(%a, %a)\n" \
    "    yield(%m)\n" \
    "  }]\n" \
    "  return %r\n" \
    "}\n"

#define CALLS CALLS_WITH("")
#define CALLS_WITH(attrs) \
    "hop 1\n" \
    "fn @inner[N](%x: f64[N], %k: i64[]) -> (f64[N], f64[?j]) {\n" \
    "  %s = sin(%x)\n" \
    "  %t = mul(%s, %x)\n" \
    "  %i: i64[?j] = bind_dim(%k)\n" \
    "  %g = take(%t, %i)\n" \
    "  %e = exp(%g)\n" \
    "  return %t, %e\n" \
    "}\n" \
    "fn @main(%k: i64[], %x: f64[3], %y: f64[2]) -> (f64[3], f64[2], f64[]) {\n" \
    "  %a, %b: f64[?m] = invoke_subgraph " attrs " @inner(%x, %k)\n" \
    "  %c, %d: f64[?l] = invoke_subgraph @inner(%y, %k)\n" \
    "  %e = sum(%b)\n" \
    "  %f = sum(%d)\n" \
    "  %g = mul(%e, %f)\n" \
    "  return %a, %c, %g\n" \
    "}\n"

#define SCAN_IN_SCAN_IN_SCAN \
    "hop 1\n" \
    "fn @main[T](%h: f64[], %xs: f64[T], %w: f64[]) -> (f64[], f64[T]) {\n" \
    "  %c, %ys = scan carry(%s = %h) over(%x in %xs) with(%v = %w, %zs = %xs) {\n" \
    "    %d, %us = scan {reverse} carry(%p = %s) over(%q in %zs) with(%r = %v, %y = %x) {\n" \
    "      %e = scan {length = 2} carry(%a = %p) over() with(%b = %r, %g = %q, %i = %y) {\n" \
    "        %j = mul(%a, %b)\n" \
    "        %k = add(%j, %g)\n" \
    "        %l = mul(%k, %i)\n" \
    "        %m = sin(%l)\n" \
    "        next(%m)\n" \
    "      }\n" \
    "      %n = mul(%e, %p)\n" \
    "      next(%e) stack(%n)\n" \
    "    }\n" \
    "    %o = sum(%us)\n" \
    "    next(%d) stack(%o)\n" \
    "  }\n" \
    "  return %c, %ys\n" \
    "}\n"

static const struct program programs[] = {
    { "rnn", RNN, 4, NULL, 0, 0 },
    { "rnn, one step", RNN, 1, NULL, 0, NO_SECOND },
    { "rnn, no step", RNN, 0, NULL, 0, NO_SECOND },
    { "mixed scan", MIXED_SCAN, 3, "1", 1, 0 },
    { "mixed scan, no step", MIXED_SCAN, 0, "1", 1, NO_SECOND },
    { "counted scan", COUNTED_SCAN, 0, NULL, 0, 0 },
    { "counted while", COUNTED_WHILE, 0, "2", 1, 0 },
    { "counted while, no trip in the first lane", COUNTED_WHILE, 0, "0", 1, 0 },
    { "watched while", WATCHED_WHILE_WITH(""), 0, "2", 1, 0 },
    { "watched while, no trip in the first lane", WATCHED_WHILE_WITH(""), 0, "0", 1, 0 },
    { "watched while in blocks", WATCHED_WHILE_WITH("{every = [2]}"), 0, "3", 1, 0 },
    { "watched while in blocks of blocks", WATCHED_WHILE_WITH("{every = [2, 2]}"), 0, "0", 5, 0 },
    { "counted while, no trip", COUNTED_WHILE, 0, "-5", 1, NO_SECOND },
    { "newton", NEWTON, 0, "2", 4, 0 },
    { "newton with stack", NEWTON_STACK("", "?n"), 0, "2", 4, LANE_SIZES },
    { "newton with stack of static size", NEWTON_STACK("{max_trips = 9}", "9"), 0, "2", 4, 0 },
    { "switch 0", SWITCH, 0, "0", 0, 0 },
    { "switch", SWITCH, 0, "0", 1, 0 },
    { "switch out of range", SWITCH, 0, "-3", 4, 0 },
    { "switch with sizes 0", SWITCH_SIZES, 0, "0 2", 0, SAME_INTS },
    { "switch with sizes 1", SWITCH_SIZES, 0, "1 2", 0, SAME_INTS },
    { "switch on safe lanes", SWITCH_SAFE, 0, "-1", 1, 0 },
    { "switch on no lane", SWITCH_SAFE, 0, "-5", 1, 0 },
    { "while in scan", WHILE_IN_SCAN(""), 3, "1", 1, 0 },
    { "while of static size in scan", WHILE_IN_SCAN("{max_trips = 5}"), 3, "1", 1, 0 },
    { "scan in while", SCAN_IN_WHILE, 2, "1", 1, 0 },
    { "while in while", WHILE_IN_WHILE, 0, "1", 1, 0 },
    { "cond in while in scan", COND_IN_WHILE_IN_SCAN, 3, "1", 1, 0 },
    { "scan in switch", SCAN_IN_SWITCH, 2, "0", 1, 0 },
    { "calls", CALLS, 0, "2", 0, SAME_INTS },
    { "rnn, recomputed", RNN_WITH("{schedule = recompute}"), 4, NULL, 0, 0 },
    { "rnn in blocks of 2", RNN_WITH("{every = [2]}"), 5, NULL, 0, 0 },
    { "rnn in blocks of blocks", RNN_WITH("{every = [4, 2]}"), 7, NULL, 0, NO_SECOND },
    { "rnn in blocks, no step", RNN_WITH("{every = [4, 2]}"), 0, NULL, 0, NO_SECOND },
    { "rnn by square roots", RNN_WITH("{schedule = sqrt}"), 7, NULL, 0, 0 },
    { "rnn by square roots, no step", RNN_WITH("{schedule = sqrt}"), 0, NULL, 0, NO_SECOND },
    { "mixed scan in blocks", MIXED_SCAN_WITH("reverse, every = [2]"), 3, "1", 1, 0 },
    { "mixed scan by square roots", MIXED_SCAN_WITH("reverse, schedule = sqrt"), 4, "1", 1, NO_SECOND },
    { "counted scan in blocks", COUNTED_SCAN_WITH(", every = [2]"), 0, NULL, 0, 0 },
    { "counted scan by square roots", COUNTED_SCAN_WITH(", schedule = sqrt"), 0, NULL, 0, 0 },
    { "counted while, recomputed", COUNTED_WHILE_WITH("{every = [1]}"), 0, "0", 2, 0 },
    { "counted while in blocks", COUNTED_WHILE_WITH("{every = [2]}"), 0, "3", 1, 0 },
    { "counted while in blocks of blocks", COUNTED_WHILE_WITH("{every = [2, 2]}"), 0, "0", 5, 0 },
    { "newton in blocks", NEWTON_WITH(", every = [2]"), 0, "2", 4, 0 },
    { "while in blocks in scan", WHILE_IN_SCAN("{every = [2]}"), 3, "1", 1, 0 },
    { "calls, recomputed", CALLS_WITH("{recompute}"), 0, "2", 0, SAME_INTS },
    { "scan in scan in scan", SCAN_IN_SCAN_IN_SCAN, 2, NULL, 0, NO_SECOND },
};

/* ---- structure ---- */

static uint32_t count_nodes(const struct module *m, uint32_t fn, enum op op, const struct fn **in,
                            const struct node **last)
{
    const struct fn *f = module_fn(m, fn);
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (n->op == op) {
            if (last && !count) *last = n, *in = f;
            count++;
        }
        for (uint32_t k = 0; k < n->n_regions; k++)
            count += count_nodes(m, node_region(f, n, k)->fn, op, in, NULL);
    }
    return count;
}

static uint32_t gradient(struct run *r)
{
    uint32_t fn = module_find(r->m, "main");
    const struct fn *f = module_fn(r->m, fn);
    bool *wrt = ARENA_ZNEW(&r->m->arena, bool, f->n_params);
    for (uint32_t p = 0; p < f->n_params; p++) wrt[p] = type_get(r->m, value_type(f, p)).dtype == DT_F64;
    r->doing = "structure";
    return vjp_function(r->m, fn, wrt);
}

/* The first loop of the gradient is the forward one: it stacks what it did and as much more as is said here.
 */
static void claim_stacks(struct run *r, enum op op, uint32_t results)
{
    const struct node *n = NULL;
    const struct fn *in = NULL;
    uint32_t g = gradient(r);
    count_nodes(r->m, g, op, &in, &n);
    struct text text = { .arena = &r->m->arena };
    text_print(r->m, g, 0, &text);
    CLAIM(n && n->n_results == results, "%s: the forward loop has %u results, not %u:\n%s", r->name,
          n ? n->n_results : 0, results, text.data);
}

/* The next state is stacked by the program itself, slices and weights are there already: nothing more. */
static void claim_rnn_stacks(struct run *r, const struct program *p)
{
    (void)p;
    claim_stacks(r, OP_scan, 2);
}

/* Only the state is stacked; its product with a weight is made again. */
static void claim_recomputes(struct run *r, const struct program *p)
{
    (void)p;
    claim_stacks(r, OP_while_loop, 2 + 1 + 1 + 1); /* carries, trips, the state, which rows ran */
}

/* A loop that counts is a counted one, blocks or not: the carry, the state, which rows ran. */
static void claim_counted(struct run *r, const struct program *p)
{
    (void)p;
    claim_stacks(r, OP_fori_loop, 1 + 1 + 1);
    CLAIM(!count_nodes(r->m, gradient(r), OP_while_loop, NULL, NULL), "%s: no while_loop is left", r->name);
}

/* Nothing that depends on the step is needed: no stack but the result. */
static void claim_linear(struct run *r, const struct program *p)
{
    (void)p;
    claim_stacks(r, OP_scan, 1);
}

#define LINEAR \
    "hop 1\n" \
    "fn @main[T](%h: f64[], %xs: f64[T], %w: f64[]) -> (f64[]) {\n" \
    "  %e = exp(%w)\n" \
    "  %k = stop_gradient(%e)\n" \
    "  %c = scan carry(%s = %h) over(%x in %xs) with(%v = %k) {\n" \
    "    %u = exp(%v)\n" \
    "    %a = mul(%s, %u)\n" \
    "    %n = add(%a, %x)\n" \
    "    next(%n)\n" \
    "  }\n" \
    "  return %c\n" \
    "}\n"

/* Prints and checks happen once, also in a loop that the backward pass runs again. */
#define EFFECTS \
    "hop 1\n" \
    "fn @main[T](%n: i64[], %h: f64[], %xs: f64[T], %w: f64[]) -> (f64[], f64[T]) {\n" \
    "  %c, %ys = scan carry(%s = %h) over(%x in %xs) with(%v = %w, %m = %n) {\n" \
    "    print {format = \"outer {}\"} (%s)\n" \
    "    %k, %y = while_loop carry(%i = %m, %d = %s) " COUNTER( \
        "%i") " with(%u = %v, %z = %x) {\n" SCALAR("one", "1", \
                                                   "i64") "      %j = sub(%i, %one)\n" \
                                                          "      print {format = \"inner {}\"} (%i)\n" \
                                                          "      %e = mul(%d, %u)\n" \
                                                          "      %g = sin(%e)\n" \
                                                          "      %f = add(%g, %z)\n" \
                                                          "      next(%j, %f)\n" \
                                                          "    }\n" \
                                                          "    %o = mul(%y, %x)\n" \
                                                          "    next(%y) stack(%o)\n" \
                                                          "  }\n" \
                                                          "  return %c, %ys\n" \
                                                          "}\n"

static void claim_effects(struct run *r, const struct program *p)
{
    uint32_t fn = module_find(r->m, "main"), g = gradient(r);
    const struct fn *f = module_fn(r->m, fn);
    struct tensor **args = arguments(r, f, p, 0), **vjp_args = vjp_arguments(r, fn, args);
    uint32_t once = r->lines;
    CLAIM(once == p->size * (1 + 2), "%s: the function prints %u lines", r->name, once);
    r->lines = 0;
    call(r, g, vjp_args);
    CLAIM(r->lines == once, "%s: the gradient prints %u lines, the function %u", r->name, r->lines, once);
    uint32_t second = vjp_function(r->m, g, float_params(r, module_fn(r->m, g), vjp_args));
    struct tensor **second_args = vjp_arguments(r, g, vjp_args);
    r->lines = 0;
    call(r, second, second_args);
    CLAIM(r->lines == once, "%s: the second gradient prints %u lines, the function %u", r->name, r->lines,
          once);

    struct tensor **lanes[LANES]; /* lane i makes 2 + i inner trips in each step */
    bool all[4] = { true, true, true, true };
    for (int i = 0; i < LANES; i++) lanes[i] = arguments(r, f, p, i);
    r->lines = 0;
    call(r, vmapped(r, fn, all), over_lanes(r, f, lanes, all));
    CLAIM(r->lines == p->size * (3 + 2 + 3 + 4), "%s: over lanes %u lines are printed", r->name, r->lines);
}

/* A check in a branch that no lane takes does not fail; one that a lane takes does. */
#define CHECKED \
    "hop 1\n" \
    "fn @main(%p: bool[], %x: f64[]) -> (f64[]) {\n" \
    "  %r = switch(%p) [(%a = %x) {\n" \
    "    yield(%a)\n" \
    "  }, (%a = %x) {\n" SCALAR("zero", "0", "f64") "    %q = gt(%a, %zero)\n" \
                                                    "    check {message = \"positive\"} (%q, %a)\n" \
                                                    "    %s = sqrt(%a)\n" \
                                                    "    yield(%s)\n" \
                                                    "  }]\n" \
                                                    "  return %r\n" \
                                                    "}\n"

static void run_checked(void *ctx)
{
    struct {
        struct run *r;
        uint32_t fn;
        struct tensor **args;
    } *c = ctx;
    call(c->r, c->fn, c->args);
}

static void claim_checked(struct run *r, const struct program *p)
{
    (void)p;
    bool both[2] = { true, true };
    int64_t lanes = LANES;
    struct tensor *args[2] = { keep(r, tensor_new(DT_BOOL, 1, &lanes)),
                               keep(r, tensor_new(DT_F64, 1, &lanes)) };
    struct {
        struct run *r;
        uint32_t fn;
        struct tensor **args;
    } c = { r, vmapped(r, module_find(r->m, "main"), both), args };
    for (int bad = 0; bad < 3; bad++) {
        for (int i = 0; i < LANES; i++) {
            ((uint8_t *)args[0]->data)[i] = bad == 2 ? 0 : i != 1;
            reals(args[1])[i] = i == bad ? -1 : 4;
        }
        hop_status status = attempt(run_checked, &c);
        CLAIM(status == (bad == 0 ? HOP_CHECK : HOP_OK), "%s: lane %d is bad: status %d (%s)", r->name, bad,
              status, hop_message());
    }
}

static void run_long(void *ctx)
{
    struct run *r = ctx;
    struct program long_one = { .ints = "12" };
    uint32_t fn = module_find(r->m, "main");
    call(r, fn, arguments(r, module_fn(r->m, fn), &long_one, 0));
}

static void claim_max_trips(struct run *r, const struct program *p)
{
    (void)p;
    hop_status status = attempt(run_long, r);
    CLAIM(status == HOP_CHECK && strstr(hop_message(), "within max_trips (3)"), "%s: status %d: %s", r->name,
          status, hop_message());
}

#define SHORT_WHILE \
    "hop 1\n" \
    "fn @main(%n: i64[]) -> (i64[]) {\n" \
    "  %y = while_loop {max_trips = 3} carry(%i = %n) " COUNTER( \
        "%i") " {\n" SCALAR("one", "1", "i64") "    %j = sub(%i, %one)\n" \
                                               "    next(%j)\n" \
                                               "  }\n" \
                                               "  return %y\n" \
                                               "}\n"

/* The same function is differentiated once: two calls share both halves. */
static void claim_shared(struct run *r, const struct program *p)
{
    (void)p;
    const struct fn *g = module_fn(r->m, gradient(r));
    uint32_t fns[8], n = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (fn_node(g, i)->op == OP_invoke_subgraph && n < 8) fns[n++] = node_region(g, fn_node(g, i), 0)->fn;
    CLAIM(n == 4 && fns[0] == fns[1] && fns[2] == fns[3], "%s: %u calls", r->name, n);
}

/* Blocks: the loop around keeps the carries of every block, and nothing of what happens in it. */
static void claim_blocks(struct run *r, const struct program *p)
{
    (void)p;
    /* carries, number of blocks, rows: integer and float at their start, which rows ran; the numbers of trips
     * in blocks and of those in all, which nothing reads here, are gone */
    claim_stacks(r, OP_while_loop, 2 + 1 + 2 + 1);
}

static void claim_scan_blocks(struct run *r, const struct program *p)
{
    (void)p;
    claim_stacks(r, OP_scan,
                 1 + 1 + 1); /* the last state, all states, the state at the start of each block */
}

/* What is to be run again is run again after all passes. */
#define RECOMPUTED(attrs) \
    "hop 1\n" \
    "fn @inner(%x: f64[3]) -> (f64[3]) {\n" \
    "  %e = exp(%x)\n" \
    "  %s = sin(%e)\n" \
    "  return %s\n" \
    "}\n" \
    "fn @main(%x: f64[3]) -> (f64[3]) {\n" \
    "  %r = invoke_subgraph " attrs " @inner(%x)\n" \
    "  return %r\n" \
    "}\n"

static void claim_exps(struct run *r, uint32_t exps)
{
    uint32_t g = simplify(r->m, gradient(r), NULL), found = count_nodes(r->m, g, OP_exp, NULL, NULL);
    CLAIM(found == exps, "%s: exp stands there %u times", r->name, found);
}
static void claim_kept(struct run *r, const struct program *p)
{
    (void)p;
    claim_exps(r, 1);
}
static void claim_recomputed(struct run *r, const struct program *p)
{
    (void)p;
    claim_exps(r, 2);
}

static const struct {
    struct program program;
    void (*claim)(struct run *r, const struct program *p);
} structure[] = {
    { { "watched while in blocks: stacks", WATCHED_WHILE_WITH("{every = [2]}"), 0, NULL, 0, 0 },
      claim_blocks },
    { { "counted while in blocks: stacks", COUNTED_WHILE_WITH("{every = [2]}"), 0, NULL, 0, 0 },
      claim_counted },
    { { "rnn in blocks: stacks", RNN_WITH("{every = [2]}"), 0, NULL, 0, 0 }, claim_scan_blocks },
    { { "call: kept", RECOMPUTED(""), 0, NULL, 0, 0 }, claim_kept },
    { { "call: recomputed", RECOMPUTED("{recompute}"), 0, NULL, 0, 0 }, claim_recomputed },
    { { "rnn: stacks", RNN, 4, NULL, 0, 0 }, claim_rnn_stacks },
    { { "watched while: stacks", WATCHED_WHILE_WITH(""), 0, NULL, 0, 0 }, claim_recomputes },
    { { "counted while: stacks", COUNTED_WHILE, 0, NULL, 0, 0 }, claim_counted },
    { { "linear: stacks", LINEAR, 0, NULL, 0, 0 }, claim_linear },
    { { "effects", EFFECTS, 3, "2", 1, 0 }, claim_effects },
    { { "checked branch", CHECKED, 0, NULL, 0, 0 }, claim_checked },
    { { "max_trips", SHORT_WHILE, 0, NULL, 0, 0 }, claim_max_trips },
    { { "calls share", CALLS, 0, NULL, 0, 0 }, claim_shared },
};
