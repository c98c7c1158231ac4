/* One view of a loop: what is carried, what is gone over, what all steps share, what is stacked, what says
 * whether there is another step. A row with the column `loop` says where its groups, regions and attributes
 * are in it; rows, passes, lowering and capture read a loop from a node and build a node from a loop, and
 * name neither operators nor positions.
 *
 *   body parameters   carries, slices (or the index of a counted loop), `with`
 *   body results      next carries, rows of the stacks
 *   cond parameters   carries, `cond_with`
 *   results           last carries, the number of trips if it is counted, stacks */
#ifndef HOP_LOOP_H
#define HOP_LOOP_H

#include "ir/table.h"

enum loop_kind {
    LOOP_SCAN,    /* a step for each slice of arrays, in order */
    LOOP_MAP,     /* the same without carries: no step waits for another */
    LOOP_COUNTED, /* a step for each index from one number up to, not including, another */
    LOOP_WHILE,   /* steps as long as a predicate of the carries holds */
    LOOP_KINDS
};

/* The operator of each kind (src/ops/table.c). */
extern const uint16_t loop_ops[LOOP_KINDS];

/* The column `loop` of a row: numbers + 1 of its groups, regions and attributes; 0: it has none. */
struct loop_row {
    uint8_t kind;
    struct {
        uint8_t carry, over, from, to;
    } group;
    struct {
        uint8_t body, cond;
    } region;
    struct {
        uint8_t length, reverse, sequential, apart, max_trips, count, tape;
        uint8_t schedule; /* the first of LOOP_SCHEDULE_ATTRS: schedule, every, snapshots */
    } attr;
};
enum { LOOP_SCHEDULE_ATTRS = 3 };

/* Values, dims and types are those of the function or the builder it was read in. */
struct loop {
    uint8_t kind;
    struct place place;
    const struct node *n; /* that it was read from; NULL: made anew */
    /* carries: what they begin with */
    const val *carry;
    uint32_t n_carry;
    /* what is gone over: arrays, or the index, which a parameter of the body is and no array (n_over is 1) */
    const val *over;
    uint32_t n_over;
    val from, to; /* LOOP_COUNTED */
    /* the step, and what is the same for every step: its own operands */
    const struct fn *body;
    uint32_t body_region; /* of the node */
    const val *with;
    uint32_t n_with;
    const dim *dims; /* what the outer symbols of `body` are here */
    /* the predicate, likewise; NULL but for LOOP_WHILE */
    const struct fn *cond;
    uint32_t cond_region; /* HOP_NONE: none */
    const val *cond_with;
    uint32_t n_cond_with;
    const dim *cond_dims;
    /* results */
    uint32_t n_stack;
    bool counts; /* the number of trips is among them */
    /* how it runs */
    dim length;                  /* of a scan or map: how many steps; else HOP_NONE */
    bool length_given;           /* it is said, not only found from what is gone over */
    bool reverse;                /* from the last slice to the first */
    bool sequential;             /* never all slices at once: asked for */
    bool apart;                  /* never all slices at once: made of a batch by a pass */
    bool count;                  /* the number of trips is asked for */
    bool tape;                   /* made by a gradient: what is stacked is read only in rows that ran */
    dim max_trips;               /* HOP_NONE: any number */
    const struct attr *schedule; /* LOOP_SCHEDULE_ATTRS attributes: what a gradient keeps; NULL: none */
};

static inline bool node_is_loop(const struct node *n) { return node_row(n)->loop; }
/* LOOP_KINDS: it is no loop. */
static inline enum loop_kind node_loop_kind(const struct node *n)
{
    return node_is_loop(n) ? (enum loop_kind)node_row(n)->loop->kind : LOOP_KINDS;
}
/* Does the number of its steps stand in a type? Otherwise it is found while running. */
static inline bool loop_has_length(const struct loop *l) { return l->kind <= LOOP_MAP; }

/* Reads node n of f; false: it is no loop. */
bool loop_of_node(const struct module *m, const struct fn *f, const struct node *n, struct loop *l);
/* The same in terms of the copier's builder; n's operands are mapped. */
bool loop_of_copy(struct copier *c, const struct node *n, struct loop *l);

/* ---- where things are ---- */

static inline uint32_t loop_first_with(const struct loop *l) { return l->n_carry + l->n_over; }
/* Is parameter p of the body new in every step without being a carry? */
static inline bool loop_is_over(const struct loop *l, uint32_t p)
{
    return p >= l->n_carry && p < loop_first_with(l);
}
/* The operand that parameter p of the body begins with, is a slice of, or is. */
static inline val loop_operand(const struct loop *l, uint32_t p)
{
    if (p < l->n_carry) return l->carry[p];
    if (p >= loop_first_with(l)) return l->with[p - loop_first_with(l)];
    return l->kind == LOOP_COUNTED ? l->from : l->over[p - l->n_carry];
}
/* Numbers among the node's results: carry k is result k. */
static inline uint32_t loop_trips_result(const struct loop *l) { return l->n_carry; }
static inline uint32_t loop_stack_result(const struct loop *l, uint32_t k)
{
    return l->n_carry + l->counts + k;
}
static inline uint32_t loop_result_of(const struct loop *l, uint32_t body_result)
{
    return body_result < l->n_carry ? body_result : body_result + l->counts;
}
/* The value of body `region` of node n that result k is, or has as a row; VAL_NONE: not known so simply, as
 * of a carry. */
val body_value(const struct module *m, const struct fn *f, const struct node *n, uint32_t region, uint32_t k);
/* Numbers among the node's operands. */
struct loop_positions {
    uint32_t carry, over, from, to, with, cond_with;
};
struct loop_positions loop_positions(const struct fn *f, const struct node *n);

/* ---- building ---- */

/* A loop of this kind that has nothing yet. */
static inline struct loop loop_new(enum loop_kind kind)
{
    return (struct loop){ .kind = (uint8_t)kind,
                          .n_over = kind == LOOP_COUNTED,
                          .cond_region = HOP_NONE,
                          .from = VAL_NONE,
                          .to = VAL_NONE,
                          .length = HOP_NONE,
                          .max_trips = HOP_NONE };
}
static inline void loop_set_body(struct loop *l, const struct module *m, struct region_in body)
{
    l->body = module_fn(m, body.fn);
    l->with = body.operands;
    l->n_with = body.n_operands;
    l->dims = body.dims;
}
static inline void loop_set_cond(struct loop *l, const struct module *m, struct region_in cond)
{
    l->cond = module_fn(m, cond.fn);
    l->cond_with = cond.operands;
    l->n_cond_with = cond.n_operands;
    l->cond_dims = cond.dims;
}
static inline struct region_in loop_body(const struct loop *l)
{
    return (struct region_in){ l->body->id, l->with, l->n_with, l->dims };
}
static inline struct region_in loop_cond(const struct loop *l)
{
    return (struct region_in){ l->cond->id, l->cond_with, l->n_cond_with, l->cond_dims };
}
/* The results of a loop that was built: each is the first of its kind, the others follow it. */
struct loop_results {
    val last, trips, stacks; /* trips VAL_NONE: not counted */
    uint32_t n;              /* all */
};
/* A node of the loop. What it stacks and whether it counts follow from its body and what is asked for:
 * n_stack and counts are not read. */
struct loop_results loop_build(struct builder *b, const struct loop *l);
/* The first result of a node that was built like this, and the others, each where the node has it. */
struct loop_results loop_results_at(const struct loop *l, val first, uint32_t n_results);

#endif
