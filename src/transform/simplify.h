/* Passes over functions. Each can be switched off by name; switching any off must not change a result. */
#ifndef HOP_SIMPLIFY_H
#define HOP_SIMPLIFY_H

#include "ir/table.h"

/* X(name, what it does) */
#define HOP_PASSES(X) \
    X(inline, "small or single-use calls become their bodies") \
    X(fold, "nodes over constants are evaluated; identities and constant predicates are simplified") \
    X(cse, "equal pure nodes become one") \
    X(dce, "unused nodes, results, operands, carries and stacked results are removed") \
    X(hoist, "nodes of a loop body that depend on invariants only move out of the loop") \
    X(forward, "carries and branch results that are passed through unchanged are bypassed") \
    X(ranges, "integers that can be but one number, comparisons and clamps that cannot matter, loops never " \
              "entered go away") \
    X(trips, "while_loops whose predicate watches a counter become counted loops") \
    X(unroll, "scans of a few light steps become their steps") \
    X(pack, "many small values with the same computation become one array") \
    X(join, "a scan over what another stacks becomes one loop with it") \
    X(split, "products over xs alone leave the loop as one large product") \
    X(accumulate, "sums of outer products over time become one product after the loop") \
    X(fuse, "stored values share nests; off: one nest per value") \
    X(inplace, "buffers are reused; off: every value has its own") \
    X(vector, "vector code; off: scalar loops") \
    X(parallel, "threads; off: one thread") \
    X(blas, "large products through BLAS; off: inline")

enum pass {
#define X(name, what) PASS_##name,
    HOP_PASSES(X)
#undef X
        PASS_COUNT
};
extern const char *const pass_names[PASS_COUNT];
extern const char *const pass_meanings[PASS_COUNT];

struct pass_options {
    uint32_t without;    /* bit per enum pass */
    bool strict;         /* strict numbers: no rewrite may change a bit of a result */
    bool differentiable; /* the result may still be differentiated: what keeps its gradients free of NaN stays
                          */
    void (*report)(void *ctx, const char *pass, double ms, uint32_t nodes); /* NULL: none */
    void *report_ctx;
};
static inline bool pass_on(const struct pass_options *o, enum pass p) { return !o || !(o->without >> p & 1); }
bool pass_from_name(const char *name, enum pass *out);

/* Simplifies a function and every body it reaches until nothing changes (bounded rounds). Returns the new
 * function, which has the same parameters, symbols and results but no name of its own, or `fn` itself.
 * Reports each pass's time and the nodes it left, summed over all runs. */
uint32_t simplify(struct module *m, uint32_t fn, const struct pass_options *o);

#endif
