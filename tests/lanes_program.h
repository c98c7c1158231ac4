/* Random functions of one lane, with collectives over the axis `i`, loops, branches and calls, and their
 * text: what axes_test.c and ranks_test.c run. */
#ifndef HOP_TESTS_LANES_PROGRAM_H
#define HOP_TESTS_LANES_PROGRAM_H

#include "base/base.h"

/* ---- random functions of one lane ---- */

static uint64_t state; /* of below */
static uint32_t below(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

enum { WIDTH = 3, MOST_LANES = 8, MOST_STEPS = 10, MOST_BODIES = 12, N_GIVEN = 3 };
enum kind {
    ADD,
    MUL,
    SIN,
    REDUCE,    /* op: the word */
    GATHER,    /* the rows of all lanes, weighed */
    TILES,     /* the same by tiles */
    SCATTER,   /* the operand times 1, 2, … for each lane, added up and scattered */
    EXCHANGE,  /* rows, weighed, sent to each lane and weighed again */
    PERMUTE,   /* op: by how much lanes are rotated; lane 0 gets nothing if `odd` */
    BROADCAST, /* op: the root */
    INDEX,     /* times the number of the lane */
    EXCHANGING_KINDS,
    SCAN = EXCHANGING_KINDS, /* twice; the last carry */
    WHILE,                   /* twice, by a predicate that is the same in all lanes */
    CHOICE,                  /* of two bodies, by a sign that is the same in all lanes */
    OWN_CHOICE,              /* by the lane's own sign; bodies without collectives */
    CALL,
    KINDS
};
static const char *const words[] = { "sum", "max", "min", "prod", "mean" };

/* Value k of a body: parameters first, then one for each step. */
struct step {
    enum kind kind;
    uint32_t a, b, op;
    bool odd;
    uint32_t body[2];
};
struct body {
    uint32_t n_params, n;
    struct step steps[MOST_STEPS];
};
struct program {
    uint32_t lanes, n_bodies, n_names;
    struct body bodies[MOST_BODIES];
    struct text text;
};

static uint32_t random_body(struct program *p, uint32_t n_params, uint32_t n, bool alone, uint32_t depth)
{
    uint32_t number = p->n_bodies++;
    struct body *body = &p->bodies[number];
    body->n_params = n_params;
    for (uint32_t i = 0; i < n; i++) {
        struct step s = { .a = below(n_params + i), .b = below(n_params + i) };
        if (i && below(2)) s.a = n_params + i - 1;
        bool nests = depth < 2 && p->n_bodies + 2 < MOST_BODIES;
        s.kind = alone ? (enum kind)below(SIN + 1) : (enum kind)below(nests ? KINDS : EXCHANGING_KINDS);
        s.op = s.kind == REDUCE ? below(5) : below(p->lanes);
        s.odd = below(2);
        for (int r = 0; s.kind >= SCAN && r < (s.kind == CHOICE || s.kind == OWN_CHOICE ? 2 : 1); r++)
            s.body[r] = random_body(p, 2, 2 + below(2), alone || s.kind == OWN_CHOICE, depth + 1);
        body->steps[i] = s;
    }
    body->n = n;
    return number;
}

/* Does the last value of the body vary, where its parameters do as `params` says? varies: per value. */
static bool body_varies(const struct program *p, uint32_t number, const bool *params, bool *varies)
{
    const struct body *body = &p->bodies[number];
    bool own[N_GIVEN + MOST_STEPS];
    if (!varies) varies = own;
    memcpy(varies, params, body->n_params);
    for (uint32_t i = 0; i < body->n; i++) {
        const struct step *s = &body->steps[i];
        bool a = varies[s->a], b = varies[s->b], made = a || b;
        bool given[2] = { a, b };
        switch (s->kind) {
        case ADD:
        case MUL: break;
        case SIN: made = a; break;
        case REDUCE:
        case GATHER:
        case TILES:
        case BROADCAST: made = false; break;
        case SCAN:
        case WHILE:
            while (body_varies(p, s->body[0], given, NULL) && !given[0]) given[0] = true;
            made = given[0];
            break;
        case CHOICE:
            made = body_varies(p, s->body[0], given, NULL);
            made |= body_varies(p, s->body[1], given, NULL);
            break;
        case OWN_CHOICE: {
            bool all[2] = { true, true };
            made = a;
            if (!a) made = body_varies(p, s->body[0], given, NULL) | body_varies(p, s->body[1], given, NULL);
            else body_varies(p, s->body[0], all, NULL);
            break;
        }
        case CALL: made = body_varies(p, s->body[0], given, NULL); break;
        default: made = true;
        }
        varies[body->n_params + i] = made;
    }
    return varies[body->n_params + body->n - 1];
}

/* ---- as text ---- */

static void write_body(struct program *p, uint32_t number, const uint32_t *params, uint32_t *values);

static void write_nested(struct program *p, uint32_t number, const uint32_t *params, const char *ends)
{
    uint32_t values[2 + MOST_STEPS];
    write_body(p, number, params, values);
    text_add(&p->text, "%s%%v%u)\n", ends, values[2 + p->bodies[number].n - 1]);
}

/* %w<k>: a scalar that says which branch: is the sum of %v<a> positive? */
static void write_sign(struct program *p, uint32_t k, uint32_t a)
{
    text_add(
        &p->text,
        "%%s%u = sum(%%v%u)\n%%z%u = full {value = 0, dims = [], dtype = f64}\n%%w%u = gt(%%s%u, %%z%u)\n", k,
        a, k, k, k, k);
}

/* %y<k>: %<what><from>, of these dims, plus a zero of each lane's own: to add up what all lanes have alike is
 * an error. */
static void write_varied(struct program *p, uint32_t k, char what, uint32_t from, const char *dims)
{
    text_add(&p->text,
             "%%h%u = rank_index {axis = \"i\"}\n%%j%u = cast {dtype = f64} (%%h%u)\n"
             "%%n%u = full {value = 0, dims = [], dtype = f64}\n%%l%u = mul(%%j%u, %%n%u)\n"
             "%%q%u = broadcast {dims = [%s], at = []} (%%l%u)\n%%y%u = add(%%%c%u, %%q%u)\n",
             k, k, k, k, k, k, k, k, dims, k, k, what, from, k);
}

static void write_step(struct program *p, const struct step *s, uint32_t a, uint32_t b, uint32_t k)
{
    struct text *t = &p->text;
    uint32_t n = p->lanes, inner[2] = { p->n_names, p->n_names + 1 };
    if (s->kind >= SCAN) p->n_names += 2;
    /* %r<k>: rows 1, 2, … of a weight each; %x<k>: the operand in every row, weighed */
    if (s->kind == GATHER || s->kind == TILES || s->kind == SCATTER || s->kind == EXCHANGE)
        text_add(t,
                 "%%i%u = iota {dims = [%u, 3], dim = 0, dtype = f64}\n"
                 "%%o%u = full {value = 1, dims = [%u, 3], dtype = f64}\n%%r%u = add(%%i%u, %%o%u)\n"
                 "%%b%u = broadcast {dims = [%u, 3], at = [1]} (%%v%u)\n%%x%u = mul(%%b%u, %%r%u)\n",
                 k, n, k, n, k, k, k, k, n, a, k, k, k);
    switch (s->kind) {
    case ADD: text_add(t, "%%v%u = add(%%v%u, %%v%u)\n", k, a, b); break;
    case MUL: text_add(t, "%%v%u = mul(%%v%u, %%v%u)\n", k, a, b); break;
    case SIN: text_add(t, "%%v%u = sin(%%v%u)\n", k, a); break;
    case REDUCE:
        write_varied(p, k, 'v', a, "3");
        text_add(t, "%%v%u = all_reduce {axis = \"i\", size = %u, op = %s} (%%y%u)\n", k, n, words[s->op], k);
        break;
    case GATHER:
        text_add(
            t,
            "%%g%u = all_gather {axis = \"i\", size = %u%s} (%%v%u)\n%%p%u = permute {order = [%s]} (%%g%u)\n"
            "%%m%u = mul(%%p%u, %%r%u)\n%%v%u = sum {dims = [0]} (%%m%u)\n",
            k, n, s->odd ? ", dim = 1" : "", a, k, s->odd ? "1, 0" : "0, 1", k, k, k, k, k, k);
        break;
    case TILES:
        text_add(t,
                 "%%g%u = all_gather {axis = \"i\", size = %u, tiled} (%%v%u)\n"
                 "%%p%u = reshape {dims = [%u, 3]} (%%g%u)\n%%m%u = mul(%%p%u, %%r%u)\n"
                 "%%v%u = sum {dims = [0]} (%%m%u)\n",
                 k, n, a, k, n, k, k, k, k, k, k);
        break;
    case SCATTER:
        write_varied(p, k, 'x', k, arena_printf(t->arena, "%u, 3", n));
        if (s->odd)
            text_add(t,
                     "%%p%u = reshape {dims = [%u]} (%%y%u)\n"
                     "%%v%u = reduce_scatter {axis = \"i\", size = %u, tiled} (%%p%u)\n",
                     k, 3 * n, k, k, n, k);
        else text_add(t, "%%v%u = reduce_scatter {axis = \"i\", size = %u} (%%y%u)\n", k, n, k);
        break;
    case EXCHANGE:
        text_add(t,
                 "%%e%u = all_to_all {axis = \"i\", size = %u, split = 0, concat = 0%s} (%%x%u)\n"
                 "%%m%u = mul(%%e%u, %%r%u)\n%%v%u = sum {dims = [0]} (%%m%u)\n",
                 k, n, s->odd ? ", tiled" : "", k, k, k, k, k, k);
        break;
    case PERMUTE:
        text_add(t, "%%v%u = rank_permute {axis = \"i\", size = %u, pairs = [", k, n);
        for (uint32_t lane = 0, first = 1; lane < n; lane++) {
            uint32_t to = (lane + s->op) % n;
            if (s->odd && !to) continue;
            text_add(t, "%s%u, %u", first ? "" : ", ", lane, to);
            first = 0;
        }
        text_add(t, "]} (%%v%u)\n", a);
        break;
    case BROADCAST:
        text_add(t, "%%v%u = rank_broadcast {axis = \"i\", size = %u, root = %u} (%%v%u)\n", k, n, s->op, a);
        break;
    case INDEX:
        text_add(t,
                 "%%k%u = rank_index {axis = \"i\"}\n%%f%u = cast {dtype = f64} (%%k%u)\n"
                 "%%b%u = broadcast {dims = [3], at = []} (%%f%u)\n%%v%u = mul(%%v%u, %%b%u)\n",
                 k, k, k, k, k, k, a, k);
        break;
    case SCAN:
        text_add(t, "%%v%u = scan {length = 2} carry(%%v%u = %%v%u) with(%%v%u = %%v%u) {\n", k, inner[0], a,
                 inner[1], b);
        write_nested(p, s->body[0], inner, "next(");
        text_str(t, "}\n");
        break;
    case WHILE:
        text_add(t,
                 "%%c%u = full {value = 0, dims = [], dtype = i64}\n"
                 "%%l%u, %%v%u = while_loop carry(%%h%u = %%c%u, %%v%u = %%v%u) cond {\n"
                 "%%t%u = full {value = 2, dims = [], dtype = i64}\n%%q%u = lt(%%h%u, %%t%u)\ntest(%%q%u)\n"
                 "} body with(%%v%u = %%v%u) {\n"
                 "%%y%u = full {value = 1, dims = [], dtype = i64}\n%%n%u = add(%%h%u, %%y%u)\n",
                 k, k, k, k, k, inner[0], a, k, k, k, k, k, inner[1], b, k, k, k, k);
        write_nested(p, s->body[0], inner, arena_printf(t->arena, "next(%%n%u, ", k));
        text_str(t, "}\n");
        break;
    case CHOICE:
    case OWN_CHOICE:
        if (s->kind == CHOICE)
            text_add(t, "%%v%u = all_reduce {axis = \"i\", op = max} (%%v%u)\n", p->n_names, a);
        write_sign(p, k, s->kind == CHOICE ? p->n_names : a);
        p->n_names += s->kind == CHOICE;
        text_add(t, "%%v%u = switch(%%w%u) [", k, k);
        for (int r = 0; r < 2; r++) {
            uint32_t own[2] = { p->n_names, p->n_names + 1 };
            p->n_names += 2;
            text_add(t, "%s(%%v%u = %%v%u, %%v%u = %%v%u) {\n", r ? ", " : "", own[0], a, own[1], b);
            write_nested(p, s->body[r], own, "yield(");
            text_str(t, "}");
        }
        text_str(t, "]\n");
        break;
    default:
        text_add(t, "%%v%u = invoke_subgraph with(%%v%u = %%v%u, %%v%u = %%v%u) {\n", k, inner[0], a,
                 inner[1], b);
        write_nested(p, s->body[0], inner, "yield(");
        text_str(t, "}\n");
    }
}

static void write_body(struct program *p, uint32_t number, const uint32_t *params, uint32_t *values)
{
    const struct body *body = &p->bodies[number];
    memcpy(values, params, body->n_params * sizeof *values);
    for (uint32_t i = 0; i < body->n; i++) {
        const struct step *s = &body->steps[i];
        uint32_t k = p->n_names++;
        write_step(p, s, values[s->a], values[s->b], k);
        values[body->n_params + i] = k;
    }
}

/* @body, of one lane; two: which two of its values it gives. mesh: the axis is one of a mesh. */
static void write_lane(struct program *p, const bool *varies, const uint32_t *two, bool mesh)
{
    static const uint32_t given[N_GIVEN] = { 0, 1, 2 };
    uint32_t values[N_GIVEN + MOST_STEPS];
    struct text *t = &p->text;
    p->n_names = N_GIVEN;
    text_str(t, "hop 1\n");
    if (mesh) text_add(t, "mesh @ranks = (i = %u)\n", p->lanes);
    text_add(t, "fn @body(%%v0: f64[3]{i}, %%v1: f64[3]{i}, %%v2: f64[3]) -> (f64[3]%s, f64[3]%s) {\n",
             varies[two[0]] ? "{i}" : "", varies[two[1]] ? "{i}" : "");
    write_body(p, 0, given, values);
    text_add(t, "return %%v%u, %%v%u\n}\n", values[two[0]], values[two[1]]);
}

#endif
