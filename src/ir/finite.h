/* What a check_finite is: which operator made the value that it looks at, and under which loops and lanes.
 * The interpreter, compiled code and emitted C decide by these rules whether the operator made a NaN or an
 * infinity, and say so in the same words. */
#ifndef HOP_FINITE_H
#define HOP_FINITE_H

#include "ir/tensor.h"

enum finite_part { FINITE_PLAIN, FINITE_GRADIENT, FINITE_TANGENT, FINITE_ARGUMENT };

/* It is given: a mask of the lanes if there is one, the value, the floats that the value was made of, and the
 * trips of the loops around, outermost first. */
struct finite {
    const char *name;  /* of the operator, or of the argument */
    const char *loops; /* the loops around, a line each, outermost first */
    uint32_t part;     /* enum finite_part */
    uint32_t lanes;    /* leading dims of the value, and of the trips as far as they have dims */
    uint32_t trips;
    bool each;       /* element i of the value was made of elements i of what it was made of */
    bool infinities; /* not only NaNs count */
    bool masked;
};
/* As one text, which is what loop programs and executables carry, and back; strings are in the arena. */
void finite_write(const struct finite *s, struct text *out);
struct finite finite_read(struct arena *a, const char *text);

enum finite_made { MADE_NOTHING, MADE_NAN, MADE_INFINITY };
struct finite_found {
    enum finite_made made;
    int64_t at; /* the first element, in row-major order */
};
/* Was something made that is not in what it was made of? Element by element, else lane by lane. */
struct finite_found finite_look(const struct finite *s, struct tensor *const *values, uint32_t n);
/* "PLACEdebug_nans: log made an infinity", and where. */
void finite_short(const struct finite *s, enum finite_made made, struct text *out);
void finite_text(const struct finite *s, struct finite_found found, const char *place, const char *stack,
                 struct tensor *const *values, uint32_t n, struct text *out);

#endif
