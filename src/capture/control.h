/* Bodies and operators that take them: what control.c shares with other files that capture some. */
#ifndef HOP_CAPTURE_CONTROL_H
#define HOP_CAPTURE_CONTROL_H

#include "capture/capture.h"

/* A body that has run and whose scope is still open. */
struct body {
    struct scope *s;
    val *results;
    uint32_t n_results;
    struct operand *weak; /* per result, where numbers are kept for later */
};

/* Of all bodies of an operator: operands around, and which of them are taken apart along their leading dim.
 */
struct inputs {
    const val *operands;
    uint32_t n, n_whole;
    const bool *variable; /* per operand: the body gets an assignable array; NULL: none */
    uint32_t first_like;  /* the operand that result 0 is like, where results are like operands */
    uint32_t axis;        /* along which operands are taken apart */
    /* The type in a body of one that is no slice; NULL: as it is, or a slice. */
    type_id (*inner)(struct scope *s, const struct inputs *in, uint32_t i);
    const void *ctx; /* for that */
};

/* What a body is to its operator, and what the user calls it (NULL: nothing). */
struct called {
    const char *what, *label;
};

/* Runs a body in a scope that stays open. n_like: so many results are like the inputs of the same number
 * (carries). keep_weak: results that are numbers are kept for later. */
struct body control_run_body(struct capture *c, enum scope_kind kind, struct called called, hop_body body,
                             void *env, const struct inputs *in, int n_results, uint32_t n_like,
                             bool keep_weak);
/* Ends a body: `first` are its parameters that the operator feeds; all others are its own operands. */
struct region_in control_finish_body(struct capture *c, const struct body *body, const val *first,
                                     uint32_t n_first, const val *results, uint32_t n_results);

val *control_operands(struct capture *c, const hop_val *in, uint32_t n);
void control_hand_out(struct capture *c, hop_val *results, uint32_t n, val first);
/* Where an operator's results go. */
hop_val *control_results_at(struct capture *c, hop_val *results, int n_results, uint32_t n);
void control_check_list(const hop_val *list, int n, const char *what);

struct control_args {
    hop_val *results;
    int n_results;
    const void *spec;
    uint32_t n_given; /* of an open number of results: what there is */
};
/* A public call of such an operator. */
int control_edge(hop_place at, const char *name, void (*body)(struct capture *c, void *args),
                 hop_val *results, int n_results, const void *spec);

#endif
