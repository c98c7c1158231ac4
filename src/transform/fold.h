/* What a row's `fold` sees: a node about to be copied, its operands already simplified. The rule gives a
 * value that equals the node's result for every operand, NaN and signed zeros included, or VAL_NONE. */
#ifndef HOP_FOLD_H
#define HOP_FOLD_H

#include "ops/build.h"
#include "transform/pass.h"

struct fold {
    struct builder *b;
    struct module *m;
    const struct fn *f;   /* from which n is copied */
    const struct node *n; /* in f */
    const val *x;         /* its operands, in b */
    const struct attr *attrs;
    type_id type; /* of its result, in b */
    bool last;    /* nobody will differentiate what comes out */
};

/* The node that makes v if it is such an operator's, else NULL. */
static inline const struct node *fold_made_by(const struct fold *w, val v, enum op op)
{
    const struct node *n = built_node(w->b, v);
    return n && n->op == op ? n : NULL;
}
static inline enum dtype fold_dtype(const struct fold *w, val v)
{
    return (enum dtype)emit_type(w->b, v).dtype;
}
static inline bool fold_is_float(const struct fold *w, val v) { return dtype_is_float(fold_dtype(w, v)); }
/* Is every element of v the same known number? Integers and bools come as *i, floats as *r. */
bool fold_splat(const struct fold *w, val v, int64_t *i, double *r);
/* v is `value` everywhere; zero counts with its sign. */
bool fold_is_number(const struct fold *w, val v, double value);
/* The result is this number everywhere. */
val fold_number(const struct fold *w, double value);
/* The same for a number as a full's attribute has it. */
val fold_number_attr(const struct fold *w, struct attr value);
/* The result of a node that only arranges the elements of operand 0, where these are all the same. */
val fold_arranged(const struct fold *w);

/* A number as the element of a dtype, and the element as a full's value. */
void fold_element(enum dtype t, const struct attr *value, void *out);
struct attr fold_element_attr(enum dtype t, const void *element);
/* A full's value is an i64 or f64: u64 from 2^63 on stays a constant. */
bool fold_full_holds(enum dtype t, const void *element);
enum { FOLD_LIMIT = 64 }; /* elements of an evaluated constant */

#endif
