/* Under which masks the values of a function are read: for passes that ask what becomes of lanes that do not
 * run (pass_masks.c). */
#ifndef HOP_MASKS_H
#define HOP_MASKS_H

#include "transform/pass.h"

/* Only elements where each of the masks, over leading dims, is `side` matter to anybody. */
enum { MOST_FACTS = 4 };
struct fact {
    val mask;
    bool side;
};
struct reading {
    bool any; /* somebody reads it */
    uint32_t n;
    struct fact facts[MOST_FACTS];
};
bool mask_holds(const struct reading *r, struct fact fact);
/* The mask over leading dims that a condition repeats, or the condition itself. */
val mask_of(const struct module *m, const struct fn *f, val condition);
/* Per value of f; followed through views and all that goes index by index. */
const struct reading *masks_of_readings(struct arena *a, const struct module *m, const struct fn *f);

#endif
