/* Named axes. A function may be meant for many lanes (or ranks) at once: along an axis with a name, lanes
 * have different values, and operators (all_reduce, all_gather, …) work across them. The axes along which a
 * value may differ are part of its type: f32[3]{i}. A value that does not vary along an axis is the same in
 * all its lanes; transposing relies on that, as the cotangent of such a value is the sum over the lanes.
 *
 * The operands of a first-order node vary alike: the builder puts `vary` where one does not, so that every
 * place where a value that is the same in all lanes meets one that is not is a node, whose transpose is the
 * sum over the lanes. What feeds a body varies as its parameters do. A value that varies along fewer axes
 * than another may take its place everywhere; one that varies along more may not. */
#ifndef HOP_AXES_H
#define HOP_AXES_H

#include "ir/table.h"

/* {i, j}, in the order of the names; nothing for the empty set. */
void axes_print(const struct module *m, axis_set axes, struct text *out);
const char *axes_text(const struct module *m, axis_set axes); /* i, j; in the module's scratch */
static inline axis_set value_axes(const struct module *m, type_id t) { return type_get(m, t).varying; }

/* The axis that an attribute of the row names; 0: none does. */
axis_set axes_named(struct module *m, const struct op_row *row, const struct attr *attrs);
/* The axis that the body of a node binds; 0: none. */
axis_set axes_bound(struct module *m, const struct op_row *row, const struct attr *attrs);

/* What a node names: all of it, and where its lanes wait for each other. */
struct axes_used {
    axis_set axes, exchanged;
};
struct axes_used axes_used(struct module *m, const struct op_row *row, const struct attr *attrs,
                           const struct region *regions, uint32_t n_regions);
axis_set node_axes(struct module *m, const struct fn *f, const struct node *n);
/* Throws where a function names an axis that nothing binds: what, and where. doing: "run", "compile". */
void axes_all_bound(struct module *m, uint32_t fn, const char *doing);

/* v, varying along these axes, too: `vary` nodes where it does not. */
val builder_vary(struct builder *b, val v, axis_set axes);

/* Makes operands and bodies of a node that is being built agree: operands become varied ones, bodies such
 * that take and give what varies. */
void axes_settle(struct builder *b, const struct op_row *row, struct infer *in, val *operands, type_id *types,
                 struct region *regions);
/* After infer: the axes along which the results vary. */
void axes_of_results(struct infer *in, const struct op_row *row);
/* Throws where operands do not vary as axes_settle would have made them. */
void axes_verify(struct infer *in, const struct op_row *row);

#endif
