/* Vector loops of emitted C that are written with the vector types of GCC and clang: what is known of each
 * before it is written (c99_vector.c), their expressions and statements (c99_wide.c), and the text that
 * defines types and helpers (c99_vector_text.c). */
#ifndef HOP_C99_VECTOR_H
#define HOP_C99_VECTOR_H

#include "emit/c99_impl.h"

/* Elements of 4 bytes fill a vector, or elements of 8: all values of a loop have as many lanes. */
enum c99_wide_class { WIDE_A, WIDE_B, WIDE_CLASSES };

enum c99_kind { KIND_UNIFORM, KIND_AFFINE, KIND_VARYING };

struct c99_loop {
    const struct lp_stmt *stmt;
    bool wide;       /* written with vectors as well */
    bool rejected;   /* by what its accumulators need */
    bool strict;     /* keeps all strict lanes: only where a vector has them all, or half of them */
    bool short_rows; /* worth it only where parts of a vector are loaded and stored at once */
    bool stores;     /* elements or lanes: not only what all lanes have in common */
    bool has_lanes, reads_lanes, has_loop, branches;
    uint8_t class, parts;
    uint8_t row; /* of the widest vectors so many are the whole loop, the last of them not whole; 0: it is not
                    so */
    uint32_t weight;
    int64_t extent; /* trips, -1: not known */
};
struct c99_accumulators { /* of a LOCAL_LANES */
    bool wide, strict;
    uint8_t class, parts;
};

/* The vector loop that is being written. */
struct c99_wide {
    const struct c99_loop *loop;
    uint32_t part, parts;
    bool partial;   /* of part p the first `n_LOOP_p` lanes count, */
    uint32_t whole; /* but for so many parts, which are whole */
};

struct c99_vectors {
    struct c99_loop *loops;          /* per loop */
    struct c99_accumulators *locals; /* per local */
    bool *own;                       /* per local: vector loops have one of their own for each lane */
    uint32_t *kinds, epoch;          /* per value: epoch and kind */
    bool any;                        /* a loop is written with vectors */
    struct c99_wide now;
};

/* Temporaries of static size have room for a multiple of so many elements, the lanes of the widest vector. */
enum { C99_ROOM = 16 };

/* What vector code knows an element as: masks are integers, i64 with WIDE_A i32. */
enum dtype c99_wide_dtype(enum dtype t, enum c99_wide_class class);
bool c99_wide_fits(const struct c99 *e, lpv v); /* an i64 that an i32 holds */

/* c99_vector.c */
void c99_plan_vectors(struct c99 *e);          /* after c99_count */
void c99_survey(struct c99 *e, uint32_t loop); /* kinds of the values in a loop, before it is written */
enum c99_kind c99_kind_of(const struct c99 *e, lpv v);
bool c99_stride(const struct c99 *e, lpv v, int64_t *stride); /* of an affine value, when it is a constant */

/* c99_wide.c */
void c99_put_wide_loop(struct c99 *e, const struct lp_stmt *s, uint32_t indent);
void c99_put_accumulators(struct c99 *e, uint32_t local, uint32_t indent); /* their definition */
void c99_put_accumulators_set(struct c99 *e, uint32_t local, lpv value);
void c99_put_accumulators_fold(struct c99 *e, uint32_t local, enum lp_fold fold);
/* An LP_FIRST: into its variable goes the least of it and what the lanes have. */
void c99_put_accumulators_first(struct c99 *e, lpv v, uint32_t indent);
const char *c99_guard(bool widest); /* the macro that says that vectors are there, or the widest ones */

/* c99_vector_text.c */
void c99_use_vector(struct c99_unit *unit, enum dtype t, enum c99_wide_class class);
/* Is this the first use of a function whose text goes to unit->lane_text? */
bool c99_new_lane_function(struct c99_unit *unit, const char *name);
/* The function that loads elements `stride` apart, 2 to C99_MOST_APART or -1. */
#define C99_MOST_APART(class) ((class) == WIDE_A ? 8 : 4)
const char *c99_apart(struct c99_unit *unit, enum dtype t, enum c99_wide_class class, int stride);
const char *c99_vector_head(void); /* before all functions */
void c99_vector_text(const struct c99_unit *unit, struct text *out);

#endif
