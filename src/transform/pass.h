/* What the simplifying passes share: the context of one simplification, rewriting a function node by node,
 * liveness, value numbers, and a plan by which a loop (ir/loop.h) is rebuilt. A pass takes a
 * function's id and gives back another or the same; it never changes a finished function. */
#ifndef HOP_PASS_H
#define HOP_PASS_H

#include "ir/loop.h"
#include "ops/build.h"
#include "transform/simplify.h"

/* One call of simplify. */
struct simplifier {
    struct module *m;
    const struct pass_options *o; /* never NULL */
    uint32_t root;                /* the function that is to be simplified */
    bool verify;                  /* what each pass makes is verified */
    bool slices_of_any_size;      /* `slices` does not ask whether it pays: for tests */
    uint32_t slices_around;       /* maps made by `slices` around the function at hand */
    bool beside_of_any_size;      /* `beside` likewise */
    bool few_lanes;               /* `lanes` makes blocks of a few lanes: for tests */
    struct arena arena;           /* lives as long as the call */
    uint32_t *done;               /* per function: what it became, HOP_NONE: not looked at */
    uint32_t *uses;               /* per function: how many regions of the program refer to it */
    uint32_t cap;                 /* of both */
    uint64_t inline_left;         /* nodes that may still be inlined, whatever else speaks for it */
    double ms[PASS_COUNT];
    uint32_t runs[PASS_COUNT], nodes[PASS_COUNT]; /* nodes: summed over the functions a pass gave back */
};
uint32_t simplifier_uses(const struct simplifier *s, uint32_t fn);

/* Is the callee's only use this call, so that inline_absorb puts it in place? */
bool inline_absorbs(const struct simplifier *s, const struct fn *f, const struct node *n);
uint32_t inline_absorb(struct simplifier *s, uint32_t fn); /* with all such bodies in place */

/* Notes for each loop over lanes of `fn` and its bodies, simplified, whether they end apart, and why not. */
void tell_lanes(struct simplifier *s, uint32_t fn);

typedef uint32_t pass_function(struct simplifier *s, uint32_t fn);
/* The passes. Each simplifies one function (bodies only where a node's signature changes with them). */
#define PASS(name, meaning) pass_function pass_##name;
#define CHOICE(name, meaning)
#include "transform/passes.def"
#undef PASS
#undef CHOICE

/* A pass, or part of one, that a transform runs by itself: `fn` where m->without switches the pass off. */
uint32_t pass_for_transform(struct module *m, uint32_t fn, enum pass p, pass_function *run);

/* Verifies the functions from first_made on, which pass p made of `fn`, reached from `root`. Throws
 * HOP_INTERNAL with the names of the pass and the function. simplify calls it after every pass where
 * HOP_DEBUG lists `verify`, as it does in tests. */
void pass_verify(struct module *m, enum pass p, uint32_t fn, uint32_t root, uint32_t first_made);

/* ---- rewriting node by node ---- */

/* Builds something in place of n (operands are mapped in c) and fills results[n->n_results] (VAL_NONE: nobody
 * uses it), or returns false and builds nothing that matters, so that the node is copied. */
typedef bool (*node_rule)(struct simplifier *s, struct copier *c, const struct node *n, val *results,
                          void *ctx);
/* `fn` with the rule applied to every node for which `wants` holds (NULL: all); the same function if none was
 * rewritten. */
uint32_t rewrite_nodes(struct simplifier *s, uint32_t fn, bool (*wants)(const struct node *n), node_rule rule,
                       void *ctx);
bool wants_higher(const struct node *n);
/* For rules: the node over other functions, one per region; false: they are the same ones. */
bool replace_regions(struct copier *c, const struct node *n, const uint32_t *fns, val *results);

void copy_requires(struct copier *c);
/* A copier from the function of region r of n into c's builder: the region's symbols are mapped, parameters
 * that its own operands give too. */
struct copier region_copier(struct copier *c, const struct node *n, uint32_t r);
/* The same for another function g of the same parameters. */
struct copier region_copier_of(struct copier *c, const struct node *n, uint32_t r, const struct fn *g);
/* Puts the body of region r in place of n, given all its parameters. results: the region's. */
void inline_region(struct copier *c, const struct node *n, uint32_t r, const val *arguments, val *results);

/* ---- facts about nodes ---- */

/* May it be merged with an equal one, removed, computed earlier or again? */
bool node_is_pure(const struct module *m, const struct fn *f, const struct node *n);
bool node_binds_symbols(const struct fn *f, const struct node *n);
bool dim_is_inner(const struct module *m, const struct fn *f,
                  dim d); /* mentions a symbol that a node of f binds */
bool type_is_inner(const struct module *m, const struct fn *f, type_id t);
bool node_mentions_inner(const struct module *m, const struct fn *f,
                         const struct node *n); /* in attributes, region dims, result types */
/* Calls visit for every symbol that a dim, a type, a node's attributes and region dims, or the types of its
 * results mention. */
struct symbol_walk {
    void (*visit)(void *ctx, uint32_t symbol);
    void *ctx;
};
void dim_symbols(const struct module *m, dim d, struct symbol_walk *w);
void type_symbols(const struct module *m, type_id t, struct symbol_walk *w);
void node_symbols(const struct module *m, const struct fn *f, const struct node *n, struct symbol_walk *w);
void result_symbols(const struct module *m, const struct fn *f, const struct node *n, struct symbol_walk *w);
int64_t static_elements(struct module *m, type_id t); /* -1 when not known */
/* The node of the builder that defines a value, NULL for a parameter; its operand k. */
const struct node *built_node(const struct builder *b, val v);
static inline val built_operand(const struct builder *b, const struct node *n, uint32_t k)
{
    return b->pool.data[n->operands + k];
}
static inline const struct attr *built_attr(const struct builder *b, const struct node *n, uint32_t k)
{
    return &b->attrs.data[n->attrs + k];
}

bool attrs_equal(const struct attr *a, const struct attr *b);
/* Do these nodes without operands (of any two functions) give the same static value? */
bool same_constant(const struct module *m, const struct node *x, const struct attr *x_attrs,
                   const struct node *y, const struct attr *y_attrs);

/* Which values, nodes and symbols of f are needed. What needs them, all fields 0: every result, every
 * effect. */
struct needs {
    const bool *wanted; /* per result; NULL: all */
    const bool *given;  /* per value: it needs no node; NULL: none */
    const val *alias;   /* per value: the one that is needed instead, or VAL_NONE; NULL: none */
    bool strip;         /* effects need nothing */
};
struct liveness {
    bool *value, *node, *symbol;
};
struct liveness live_values(struct arena *a, const struct module *m, const struct fn *f, struct needs needs);

/* class[v]: the first value that is surely equal to v. Parameters p have class param_class[p] (NULL: their
 * own). */
void number_values(struct arena *a, const struct module *m, const struct fn *f, const uint32_t *param_class,
                   uint32_t *class);

/* ---- slices ---- */

/* Is each index along dim `axis` of n's result made of the same index of operands? along[k]: along which dim
 * of operand k, HOP_NONE: of all of it. Then the node on a part of the operands, with the size of that dim in
 * its attributes (row->sizes_attr), is that part of the result. */
bool node_sliced(const struct module *m, const struct fn *f, const struct node *n, uint32_t axis,
                 uint32_t *along);

/* ---- loops ---- */

enum param_fate {
    PARAM_KEEP,
    PARAM_DROP,  /* nothing that stays reads it */
    PARAM_WITH,  /* is `outer` (a value of the builder around) in every step */
    PARAM_ALIAS, /* always equals parameter `of` */
    PARAM_FULL   /* is `value` in every element: a full inside the region */
};
struct param_plan {
    uint8_t fate;
    uint32_t of;
    val outer;
    struct attr value;
};
/* The value of a full in the builder, to be given to a region as PARAM_FULL. */
bool full_value(const struct builder *b, val v, struct attr *value);
static inline bool attr_is_zero(const struct attr *a) { return a->kind == ATTR_REAL ? a->r == 0 : a->i == 0; }
struct given {
    val inner; /* a value of the body, computed outside from now on (its node is not copied) */
    val outer; /* in the builder around: the value itself for `with`; one per step for `over` */
};
struct alias {
    val inner, same; /* values of the body; `inner` becomes what `same` is */
};
/* One region to be made anew. */
struct region_plan {
    const struct fn *g;
    uint32_t n_carry, n_over; /* its first parameters; the others are the region's own */
    const struct param_plan *params;
    const struct given *with, *over;
    uint32_t n_with, n_new_over;
    const struct alias *aliases;
    uint32_t n_aliases;
    const val *wanted; /* values of g that become the results */
    uint32_t n_wanted;
    const val *own; /* outer values of g's own parameters */
};
/* The new function; own[…] lists its own operands. */
uint32_t region_build(struct module *m, const struct region_plan *p, val *own, uint32_t *n_own);

struct loop_plan {
    struct param_plan *body, *cond; /* per parameter; the carries of cond follow the body's */
    bool *keep_stack;
    vec(struct given) body_with, cond_with, over;
    vec(struct alias) aliases; /* in the body */
    vec(val) stacks;           /* values of the body to be stacked, too */
    bool count_used;           /* while_loop: somebody reads the trip count */
    /* out */
    val *results; /* per result of the node; VAL_NONE where it was dropped */
    val *stacked; /* per entry of stacks */
};
/* A plan that keeps everything. */
struct loop_plan plan_new(struct arena *a, const struct loop *l);
/* Builds the changed loop into c's builder. Nothing is mapped: that is the caller's. */
void plan_build(struct copier *c, const struct loop *l, struct loop_plan *p);

/* Values of a scan's body as arrays over all steps: slices are, stacked values are, a carry is one step
 * behind its stacked next value. */
bool time_is_available(const struct copier *c, const struct loop *l, const struct loop_plan *p, val v);
void time_need(struct copier *c, const struct loop *l, struct loop_plan *p,
               val v); /* has it stacked unless available */
val time_array(struct copier *c, const struct loop *l, const struct loop_plan *p,
               val v);         /* after plan_build */
enum { TIME_LIMIT = 1 << 28 }; /* elements that a pass may stack at most where sizes are known */
bool time_fits(struct copier *c, const struct loop *l, int64_t elements); /* per step */

bool may_not_end(const struct module *m, const struct fn *f,
                 const struct node *n); /* is or contains a loop of unknown length */
/* Of what a value of a loop's body is made: what may leave the loop. */
enum made_of {
    OF_INVARIANTS, /* `with` parameters alone, through pure nodes that end: the same in every step */
    OF_SLICES, /* slices too, through nodes that can be batched: of all steps at once in front of the loop */
    OF_CARRIES /* of anything else */
};
struct body_values {
    uint8_t *made_of; /* per value: an enum made_of */
    uint32_t *uses;   /* per value, as an operand or a result */
};
/* g's parameters are carries, from n_carry on slices, from first_with on the same in every step. It need not
 * be a body: the predicate of a loop has no slices. */
struct body_values body_values(struct arena *a, const struct module *m, const struct fn *g, uint32_t n_carry,
                               uint32_t first_with);
static inline bool is_invariant(const struct body_values *b, val v) { return b->made_of[v] == OF_INVARIANTS; }
/* May the node be computed for all steps at once? */
bool node_batches(const struct module *m, const struct fn *g, const struct node *n);
/* Copies what `v` of the region needs into c's builder. `inner` is a copier made by region_copier. */
val copy_cone(struct copier *inner, val v);

#endif
