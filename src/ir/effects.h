/* What a node or a function does besides giving results, as a set. Accesses of objects are told apart by the
 * parameter that is the object: of a function its own parameters, of a row the operands of the node. An
 * object that is neither, or whose number has no bit, may be any object. */
#ifndef HOP_EFFECTS_H
#define HOP_EFFECTS_H

#include "base/base.h"

typedef uint64_t effect_set;

enum {
    EFFECT_PARAMS = 28, /* parameters with bits of their own */
    EFFECT_FIRST_READ = 8,
    EFFECT_FIRST_WRITE = EFFECT_FIRST_READ + EFFECT_PARAMS
};
_Static_assert(EFFECT_FIRST_WRITE + EFFECT_PARAMS <= 64, "the set has room");

#define EFFECT_NONE ((effect_set)0)
/* May end the run; otherwise pure: may be moved among pure nodes. */
#define EFFECT_CHECK ((effect_set)1)
/* Visible outside: keeps its order. */
#define EFFECT_IO ((effect_set)2)
/* Visible outside, as often as it is written, in any order. */
#define EFFECT_UNORDERED ((effect_set)4)
/* Reads or writes an object; which one is not known. */
#define EFFECT_READ_ANY ((effect_set)8)
#define EFFECT_WRITE_ANY ((effect_set)16)
#define EFFECT_READS ((((effect_set)1 << EFFECT_PARAMS) - 1) << EFFECT_FIRST_READ | EFFECT_READ_ANY)
#define EFFECT_WRITES ((((effect_set)1 << EFFECT_PARAMS) - 1) << EFFECT_FIRST_WRITE | EFFECT_WRITE_ANY)
#define EFFECT_OBJECTS (EFFECT_READS | EFFECT_WRITES)

/* Of the object that is this parameter. */
static inline effect_set effect_reads(uint32_t param)
{
    return param < EFFECT_PARAMS ? (effect_set)1 << (EFFECT_FIRST_READ + param) : EFFECT_READ_ANY;
}
static inline effect_set effect_writes(uint32_t param)
{
    return param < EFFECT_PARAMS ? (effect_set)1 << (EFFECT_FIRST_WRITE + param) : EFFECT_WRITE_ANY;
}

/* Accesses of parameter k become accesses of parameter number(k, ctx) of another function, HOP_NONE: of any
 * object. */
effect_set effects_mapped(effect_set effects, uint32_t (*number)(uint32_t param, const void *ctx),
                          const void *ctx);

/* May two neighbours change places, as far as their effects go? Checks and what is visible outside keep their
 * order among each other and with writes: a run that ends has done what stands before, and nothing else.
 * Accesses of one object keep their order unless both read. */
bool effects_commute(effect_set a, effect_set b);

/* If nobody needs its results: may it be left out? */
static inline bool effects_may_drop(effect_set e) { return !(e & ~EFFECT_READS); }
/* May it be run at another place, not at all, or several times? */
static inline bool effects_are_none(effect_set e) { return e == EFFECT_NONE; }
/* Of lanes that all do the same: does each do it? */
static inline bool effects_of_every_lane(effect_set e)
{
    return e & (EFFECT_IO | EFFECT_UNORDERED | EFFECT_WRITES);
}

/* "none", "check", "unordered" or "io": what an operator that does all of it has to say of itself. */
const char *effects_word(effect_set e);
/* The effect that a word means, EFFECT_NONE: none. */
effect_set effect_of_word(const char *word, size_t length);
/* "effects(check, io, reads(%t), writes(any))"; `name` adds what a parameter is called. */
typedef void effect_namer(struct text *out, uint32_t param, void *ctx);
void effects_text(struct text *out, effect_set effects, effect_namer *name, void *ctx);

#endif
