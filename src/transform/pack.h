/* Between pass_pack.c, which finds out what of a function becomes arrays, and pack_build.c, which builds it.
 * A pack is an array whose elements along its last dim (lanes) are values of the function; a list is any
 * sequence of values that is wanted as one array. */
#ifndef HOP_PACK_H
#define HOP_PACK_H

#include "transform/pass.h"

enum pack_kind {
    PACK_CARRY, /* carries of a loop become one; or parameters of a branch */
    PACK_OVER,  /* slices of a scan that are columns of one array outside */
    PACK_ARRAY, /* an array that is there */
    PACK_NODES, /* nodes of one operator */
    PACK_SWITCH /* results of one switch */
};
struct pack {
    uint8_t kind;
    bool across; /* PACK_ARRAY: its lanes stand along the last dim already, not along the first */
    bool needed;
    bool stacked;         /* the loop stacks it as a whole */
    uint32_t n;           /* lanes */
    uint32_t seed;        /* what it was found for */
    type_id lane;         /* type of a lane */
    const val *lanes;     /* PACK_CARRY of a loop, PACK_NODES, PACK_SWITCH: values of the function */
    val *const *operands; /* PACK_NODES: per operand of the operator a list */
    val array;            /* PACK_ARRAY: value of the function. PACK_OVER: value of the function around */
    uint32_t other;       /* PACK_ARRAY: the next of the same array with rows of another type */
    val made;             /* the array in the builder, VAL_NONE: not yet */
};
struct home {            /* where a value is found */
    uint32_t pack, lane; /* pack HOP_NONE: nowhere but in itself */
};
/* A group of values from which packing started, and what it is worth. */
struct seed {
    uint64_t key; /* in a branch: the seed around that it belongs to, HOP_NONE: to none */
    int64_t gain, cost;
};

/* A switch whose results may become arrays. */
struct pack_switch {
    const struct node *n;
    struct packing *branches; /* one per region, looked at when the packs around are found */
    vec(uint32_t) packs;      /* of its results; none: it stays as it is */
    bool needed;
};

struct packing {
    struct module *m;
    struct arena *a;
    const struct fn *g;
    const struct loop *l;      /* g is its body; NULL: g stands alone, or is a branch */
    const struct node *around; /* the loop's node in `outer` */
    const struct fn *outer;
    bool differentiated; /* it will be, after this */
    uint32_t within;     /* so many switches of those that are looked at: g is a branch */
    /* Per value: the longest way from parameters and numbers; a node with effects is deeper than those before
     * it. */
    uint32_t *depth;
    uint64_t *shape;   /* per value: equal for equal expressions over leaves of equal types */
    struct home *home; /* per value */
    bool *wanted;      /* per value: it is needed by itself */
    vec(struct pack) packs;
    vec(struct pack_switch) switches;
    uint32_t *switch_of; /* per node: which of them it is, or HOP_NONE */
    vec(uint32_t) work;  /* packs of nodes whose operands were not looked at */
    vec(struct seed) seeds;
    vec(uint64_t) banned; /* keys of seeds that do not pay */
};

enum { MIN_LANES = 8 };

/* A stretch of a list that is found in one place. */
enum segment_kind {
    SEGMENT_ROWS,   /* rows of a pack, ascending or descending */
    SEGMENT_SAME,   /* one value again and again */
    SEGMENT_NUMBERS /* constants */
};
struct segment {
    uint8_t kind;
    bool down;
    uint32_t first, n; /* in the list */
};
struct segment list_segment(const struct packing *p, const val *list, uint32_t n, uint32_t first);
/* More segments than this of one pack are a gather. */
enum { MAX_SEGMENTS = 4 };
/* Are they all rows of one pack, scattered? */
bool list_is_gather(const struct packing *p, const val *list, uint32_t n);

bool value_is_number(const struct packing *p, val v);
/* The values of which n is a concat along a new leading dim, NULL: it is none. */
const val *stacked_values(const struct packing *p, const struct node *n, uint32_t *count);
/* Is v (behind its first `lead` dims, which are the array's) row `*row` of `*array`? type: of the array seen
 * as one of such rows. */
bool row_of_array(struct module *m, const struct fn *f, val v, uint32_t lead, val *array, int64_t *row,
                  type_id *type);
/* Is v a lane of an array that is there? */
bool array_with(struct module *m, const struct fn *f, val v, struct pack *out, int64_t *at);

/* The switch that makes v, if results of it are packs, or NULL. */
struct pack_switch *switch_with_packs(const struct packing *p, val v);

/* pack_build.c */
/* The type of n lanes together: they stand along the last dim. */
type_id pack_type(struct module *m, type_id lane, uint32_t n);
bool build_loop(struct packing *p, struct copier *c, const bool *used, val *results);
uint32_t build_function(struct packing *p);

#endif
