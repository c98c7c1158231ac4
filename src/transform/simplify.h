/* Passes over functions. Each can be switched off by name; switching any off must not change a result. */
#ifndef HOP_SIMPLIFY_H
#define HOP_SIMPLIFY_H

#include "ir/table.h"

/* The passes in the order in which they run (passes.def). */
enum pass {
#define PASS(name, meaning) PASS_##name,
#define CHOICE(name, meaning)
#include "transform/passes.def"
    PASS_COUNT
#undef PASS
#undef CHOICE
};
/* What is no pass but can be switched off the same way: the switches behind those of the passes. */
enum choice {
    CHOICE_BEFORE = PASS_COUNT - 1,
#define PASS(name, meaning)
#define CHOICE(name, meaning) CHOICE_##name,
#include "transform/passes.def"
    SWITCH_COUNT
#undef PASS
#undef CHOICE
};
/* Masks of switches, a bit for each. */
enum { EVERY_PASS = (1u << PASS_COUNT) - 1, EVERY_SWITCH = (1u << SWITCH_COUNT) - 1 };
_Static_assert(SWITCH_COUNT < 32, "a mask of switches is 32 bits");
extern const char *const switch_names[SWITCH_COUNT];
extern const char *const switch_meanings[SWITCH_COUNT];
bool switch_from_name(const char *name, uint32_t *out); /* its number: an enum pass or an enum choice */

struct pass_options {
    uint32_t without;    /* a bit for each switch that is off */
    bool strict;         /* strict numbers: no rewrite may change a bit of a result */
    bool plain_products; /* only products of one dtype, f32 or f64, are calls: emitted C has no others */
    bool profile;        /* marks stand in the loop program (CALL_MARK); passes do not look at it */
    bool differentiable; /* the result may still be differentiated: its gradients stay free of NaN */
    const enum pass
        *after; /* for people: the list once, up to this pass, in every function; NULL: all of it */
    void (*report)(void *ctx, const char *pass, double ms, uint32_t nodes); /* NULL: none */
    void (*note)(void *ctx, const char *text); /* what was decided about a loop, a line each; NULL: none */
    void *report_ctx;                          /* of both */
};
static inline bool pass_on(const struct pass_options *o, enum pass p) { return !o || !(o->without >> p & 1); }
static inline bool choice_on(const struct pass_options *o, enum choice c) { return !(o->without >> c & 1); }

/* Simplifies a function and every body it reaches until nothing changes (bounded rounds). Returns the new
 * function, which has the same parameters, symbols and results but no name of its own, or `fn` itself.
 * Reports each pass's time and the nodes it left, summed over all runs, and notes which loops' lanes end
 * apart. */
uint32_t simplify(struct module *m, uint32_t fn, const struct pass_options *o);

/* The function as it is computed: without nodes that speak to transforms and passes alone (OPF_ALIAS), in the
 * bodies that it reaches too. Not to be simplified any more: barriers are gone. */
uint32_t without_aliases(struct module *m, uint32_t fn);
/* Per value of what without_aliases gave: does the program ask for it to be kept (a tag)? NULL: none. */
const bool *kept_values(const struct module *m, uint32_t fn);

/* The function with other operators in place of nodes that are compiled as such (op_row.stands_for), in the
 * bodies that it reaches too. simplify does it itself where nobody differentiates what it gives. */
uint32_t with_stand_ins(struct module *m, uint32_t fn);

#endif
