/* The tensors of one call, from the caller's hands to a run and back. */
#ifndef HOP_ARGUMENTS_H
#define HOP_ARGUMENTS_H

#include "api/api.h"

/* Most calls are small: their lists need no allocation. */
enum { SMALL_CALL = 640 };
struct call {
    const struct result_map *map;
    hop_tensor *const *in;
    hop_tensor **out;
    /* Per result: the argument in whose memory the program computes it, HOP_NONE; NULL: none. */
    const uint32_t *over;
    const uint8_t *taken;   /* per parameter: some result is computed there; NULL: none */
    const uint8_t *donated; /* per parameter; NULL: none */
    bool ranks;             /* of a program over a mesh: distributed tensors are taken, too */
    bool keep;              /* nothing of the caller's changes before the run has succeeded */
    void **spare; /* memory of call_bytes that large calls use again, or a place for it; NULL: none */
    bool meet;    /* some tensors may share memory; begin_call finds out */
    /* made by begin_call */
    struct tensor **args; /* row-major; the caller's, or owned copies */
    bool *owned;
    struct tensor **results; /* per result of the function: given to the run, or made by it */
    bool *given;             /* results[k] is the caller's */
    struct range *ranges;
    void *block;
    char small[SMALL_CALL] __attribute__((aligned(16)));
};

/* Throws; on success end_call, or a throw, frees what it made. */
void begin_call(struct call *c, int n_in, int n_out);
void end_call(struct call *c);
/* Why argument p, which the program writes, must be copied first; NULL: it need not. Without an arena the
 * text may be "". */
const char *copy_reason(const struct call *c, uint32_t p, struct arena *arena);
void check_counts(const struct result_map *map, int n_in, int n_out);
/* Throws when something should be there and is NULL. */
void check_lists(hop_tensor *const *in, int n_in, hop_tensor *const *out, int n_out);
void same_type(const struct tensor *t, const struct tensor *given, uint32_t k);
/* Exactly: strided ones element by element. */
bool tensors_overlap(const struct tensor *a, const struct tensor *b);

#endif
