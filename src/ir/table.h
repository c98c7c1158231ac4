/* The operator table: one row an operator, one column a rule. Engines reach operators through this header and
 * name none of them except the few they emit themselves (add for accumulating cotangents, …). Rows live in
 * src/ops (first-order families) and src/hops. */
#ifndef HOP_TABLE_H
#define HOP_TABLE_H

#include "ir/ir.h"
#include "ir/tensor.h"

enum op {
#define OP(name) OP_##name,
#include "ops/ops.def"
#undef OP
    OP_COUNT
};

/* ---- signature ---- */

enum group_kind {
    GROUP_PLAIN, /* handed to the operator itself (the index of a switch) */
    GROUP_CARRY, /* region parameters of the same type; the region gives the next ones back */
    GROUP_OVER,  /* region parameters without the leading dim */
    /* region parameters of the same type, which the operator gives anew each time (the index of a counted
       loop) */
    GROUP_START,
    /* two region parameters each, without dim `dim_attr`: first all left ones, then all right ones */
    GROUP_PAIR,
    GROUP_PART /* region parameters of the local type that `part_attr` says (ir/mesh.h) */
};
struct sig_group {
    const char *word; /* "carry", "over"; "" for plain operands in bare parentheses */
    uint8_t kind;
};
struct sig_region {
    const char *word; /* label in text when a node has regions of different roles ("cond", "body"); else "" */
    uint8_t feeds; /* bit g: operand group g gives parameters, in order, before the region's own operands */
    /* Words for the groups of its results in text: "next", "stack"; "yield"; NULL ends. */
    const char *results[3];
};
struct attr_spec {
    const char *name;
    uint8_t kind; /* enum attr_kind */
    bool required;
    const char *const *words; /* ATTR_WORD: the choices, NULL ends */
};
enum { MANY = 255 };
struct signature {
    uint8_t min_operands, max_operands; /* first-order; MANY: no limit */
    uint8_t n_attrs;
    const struct attr_spec *attrs;
    uint8_t n_groups; /* higher-order */
    struct sig_group groups[3];
    /* Number + 1 of the attribute that says which dim pairs are without; 0: the leading one. */
    uint8_t dim_attr;
    uint8_t min_regions, max_regions;
    struct sig_region regions[2]; /* when max_regions is MANY all regions are like regions[0] */
};

/* ---- rules ---- */

struct op_row;

/* infer: result types from operand types. */
struct infer {
    struct module *m;
    const struct symbol *symbols; /* of the function around, for messages and ranges */
    uint32_t n_symbols;
    uint16_t op;
    /* Number + 1 of the composite whose expansion the node belongs to, for messages; 0: none. */
    uint16_t within;
    struct place place;
    bool written;        /* the builder's */
    uint32_t n_operands; /* all, the regions' own included */
    const type_id *operands;
    const uint32_t *groups;
    const struct attr *attrs;
    const struct region *regions;
    uint32_t n_regions;
    /* out */
    uint32_t n_results;
    type_id *results; /* room for `capacity` */
    uint32_t capacity;
    uint32_t fresh; /* how many symbols this node binds so far */
    struct {
        int64_t lo, hi;
    } fresh_range[8];
    /* Equalities that could not be proved. */
    vec(struct require) required;
    struct arena *arena;
};
/* Adds place and operator's name. */
_Noreturn void infer_error(const struct infer *in, const char *format, ...) HOP_PRINTF(2, 3);
void infer_result(struct infer *in, type_id type);
/* const ≠ const throws; unproved is required. */
void infer_equal(struct infer *in, dim a, dim b, const char *what);
/* Dtype, rank, dims (dims may be required). */
void infer_same_type(struct infer *in, type_id a, type_id b, const char *what);
/* `what` is worked out only where the two differ: most equalities hold, and making its text would cost more
 * than the rest of infer. */
#define infer_equal(in, a, b, what) \
    __extension__({ \
        dim equal_a_ = (a), equal_b_ = (b); \
        if (equal_a_ != equal_b_) (infer_equal)((in), equal_a_, equal_b_, (what)); \
    })
#define infer_same_type(in, a, b, what) \
    __extension__({ \
        type_id same_a_ = (a), same_b_ = (b); \
        if (same_a_ != same_b_) (infer_same_type)((in), same_a_, same_b_, (what)); \
    })
/* Results 0 … n of region r have the types of these, as infer_same_type; what cannot be is reported all at
 * once: "carry 2 and what the body makes of it: …; carry 3 …". */
void infer_results_like(struct infer *in, uint32_t r, const type_id *expected, uint32_t n, const char *each,
                        const char *and);
/* One entry of a list of mismatches, which an error shows as far as there is room. */
enum { MISMATCHES_SHOWN = 12 };
struct mismatches {
    struct text text;
    uint32_t n;
};
void mismatches_add(struct mismatches *l, const char *format, ...) HOP_PRINTF(2, 3);
void infer_no_mismatches(const struct infer *in, const struct mismatches *l); /* throws if there are any */
dim infer_fresh(struct infer *in, int64_t lo, int64_t hi);                    /* a dim that this node binds */
static inline struct type infer_type(const struct infer *in, uint32_t i)
{
    return type_get(in->m, in->operands[i]);
}
const char *infer_text(const struct infer *in, type_id t);
/* Throws where an operand is an object and the row does not take it there, or the stack of a loop would hold
 * objects. */
void infer_no_objects(struct infer *in, const struct op_row *row);
/* Type of result k of region r in terms of the symbols here. A dim that mentions a symbol bound inside the
 * region throws: see infer_region_dim_escapes for rows that replace such dims by fresh ones (switch). */
type_id infer_region_result(struct infer *in, uint32_t r, uint32_t k);
/* Does this dim of region r's function mention a symbol that its nodes bind? If not, *out is the dim in terms
 * of the symbols here. */
bool infer_region_dim_escapes(struct infer *in, uint32_t r, dim d, dim *out);

/* Finds what each outer symbol of the region's function is here (given[k] where that is not HOP_NONE; given
 * NULL: all are found from the operand types), checks parameter types, requirements and ranges, and makes
 * `dims` (room for the function's outer symbols) the region's. */
void infer_bind_region(struct infer *in, const struct op_row *row, uint32_t r, struct region *region,
                       const dim *given, dim *dims);

/* eval: the reference result. Tensors are contiguous. */
struct interp; /* interp.h */
struct eval {
    struct interp *in;
    struct module *m;
    const struct fn *f;
    const struct node *n;
    struct tensor *const *operands;
    const int64_t *symbols; /* values of f's symbols so far */
    /* allocated by the engine when their type is known; NULL when a dim is bound by this node or the row is
     * higher-order */
    struct tensor **results;
};

/* vjp. First-order rows: the engine has copied the node; `vjp` emits cotangents of operands. Higher-order
 * rows also have `vjp_forward`, which emits the node's replacement (with extra residual results) and may keep
 * what the pullback needs in `saved`. */
struct vjp {
    struct builder *b;
    const struct fn *f;
    const struct node *n;
    const dim *symbols;       /* f's symbols in b */
    const struct attr *attrs; /* n's attributes in b's terms */
    const val *operands;      /* in b */
    /* per operand: does it depend on what is differentiated (floats only)? only these get cotangents */
    const bool *active;
    const val *results; /* in b */
    const val *ct;      /* per result: its cotangent or VAL_NONE for zero; at least one is not VAL_NONE */
    val *out;           /* per operand: its cotangent, VAL_NONE (as it comes) for zero */
    void *saved;        /* from vjp_forward */
};
struct vjp_forward {
    struct copier *copy; /* copy->b is the builder; n's operands are mapped */
    const struct fn *f;
    const struct node *n;
    const bool *active;        /* per operand */
    const bool *result_wanted; /* per result: may it receive a cotangent (active and used)? conservative */
    const bool *split_active, *split_wanted; /* at least these: what the body of a call is differentiated for,
                                                so that all calls of it have the same halves */
    const struct call_question *question; /* of a call, where others of its body ask differently; or NULL */
    val *results;                         /* out: n's results in b */
    bool *result_active;                  /* out: per result */
    void *saved;                          /* out */
};

/* jvp. First-order: the engine has copied the node, the rule gives the tangents. Higher-order: the rule emits
 * everything. */
struct jvp {
    struct builder *b;
    struct copier *copy; /* higher-order rows: operands are mapped */
    const struct fn *f;
    const struct node *n;
    const struct attr *attrs;
    const val *operands;
    const val *tangents; /* per operand, VAL_NONE for zero */
    val *results;        /* in b; given for first-order, filled by higher-order rows */
    val *out;            /* tangents of results, VAL_NONE for zero */
};

/* batch: the operator over one more dimension, which is dim 0 of every batched value. The rule emits
 * everything. */
struct batch {
    struct builder *b;
    struct copier *copy; /* its value map holds batched values where batched */
    const struct fn *f;
    const struct node *n;
    const struct attr *attrs;
    dim size;
    axis_set axis; /* whose lanes they are (ir/axes.h); 0: one without a name */
    const val *operands;
    const bool *batched;  /* per operand */
    val *results;         /* out */
    bool *result_batched; /* out; preset to true */
    val lanes;            /* bool[size]: which lanes run (for effects), VAL_NONE: all */
};

struct lower; /* loop/lower.h */

/* expand: an operator that is defined by others. The builder, asked for such a node, has checked it with
 * `infer` and lets the rule emit what it means; nothing else of the row is asked for, and no finished
 * function contains one. */
struct expand {
    struct builder *b;
    uint16_t op;
    uint32_t n_operands, n_results;
    const val *operands;
    const struct attr *attrs; /* one per attribute of the row */
    const type_id *types;     /* of the results, as infer gave them */
    val *out; /* out: the results, of exactly these types; a value that was there before will do */
};

/* A small valid program that uses the operator, for tests and documentation: the function @sample of the
 * text. `inputs` gives what its arguments are drawn from where the default (floats uniform in -2..2, integers
 * 0..3, random bools) does not do: "x = 0.5..2, i = 0..4" (a range per parameter; of integers for integer
 * parameters). */
struct op_sample {
    const char *text;
    const char *inputs;
};

enum op_flags {
    OPF_HIGHER = 1,      /* takes functions */
    OPF_ELEMENTWISE = 2, /* result element i depends on element i of each operand; all of one shape */
    OPF_COMMUTES = 4,    /* two operands may be swapped */
    OPF_NO_FOLD = 8,     /* never evaluate at compile time */
    OPF_NO_MERGE = 16,   /* no cse, no motion across (barrier) */
    /* its operand as it is; the first attribute is an enum tag: what a gradient does with the value */
    OPF_TAG = 32,
    OPF_ALIAS = 64, /* its results are its operands: it says something to transforms and passes alone */
    /* takes objects; rows that take functions hand them to bodies without it, but neither count, stack nor go
     * over them */
    OPF_OBJECTS = 128
};

/* Its result is its operand, elsewhere. */
enum moves {
    MOVES_NOT,
    MOVES_OUT, /* out of memory; the attribute OFFLOAD_NAME is what messages call the value */
    MOVES_BACK /* into memory */
};

enum tag { TAG_KEEP, TAG_RECOMPUTE, TAG_OFFLOAD };

/* A comparison, as the set of orders of its operands in which it holds. */
enum comparison {
    COMPARE_LT = 1,
    COMPARE_EQ = 2,
    COMPARE_GT = 4,
    COMPARE_LE = COMPARE_LT | COMPARE_EQ,
    COMPARE_NE = COMPARE_LT | COMPARE_GT,
    COMPARE_GE = COMPARE_GT | COMPARE_EQ
};
/* What holds where the comparison does not; the comparison with its operands swapped. */
static inline enum comparison comparison_opposite(enum comparison r)
{
    return (enum comparison)(r ^ (COMPARE_LT | COMPARE_EQ | COMPARE_GT));
}
static inline enum comparison comparison_mirrored(enum comparison r)
{
    return (enum comparison)((r & COMPARE_EQ) | (r & COMPARE_LT ? COMPARE_GT : 0) |
                             (r & COMPARE_GT ? COMPARE_LT : 0));
}

/* Of bools. */
enum logic { LOGIC_NONE, LOGIC_NOT, LOGIC_AND, LOGIC_OR };

/* How a higher-order operator that is no loop runs its bodies. */
enum control {
    CONTROL_NONE,
    CONTROL_CALL,   /* its one body, once, on the body's own operands; the results are the body's */
    CONTROL_CHOICE, /* one body, by operand 0, clamped; the results are that body's */
    CONTROL_REGION, /* as CONTROL_CALL, but only what nobody reads goes across its edge */
    CONTROL_TOTALS, /* its one body on pairs of running totals of its operands */
    CONTROL_PARTS   /* its one body on each rank's parts of its operands */
};

/* What an operator does along the axis that an attribute of it names (ir/axes.h). */
enum axis_role {
    AXIS_NONE,
    AXIS_VARIES,    /* its result varies along it, its operands need not */
    AXIS_EXCHANGES, /* lanes give each other parts: operands and results vary along it */
    AXIS_JOINS,     /* lanes give each other parts: operands vary along it, results do not */
    AXIS_COUNTS,    /* nothing varies along it */
    AXIS_EACH       /* it names none: each result varies as the operand of its number does */
};

/* What a call says of its body, by its row's inline_attr. */
enum inlining { INLINE_NO, INLINE_YES, INLINE_UNSAID };

/* In which dtype an operator works on floats up to f32 under autocast; f64, integers and bools are left
 * alone. */
enum autocast {
    AUTOCAST_UNSAID, /* no row has it */
    AUTOCAST_LOW,    /* operands in the dtype of the mode: products, which add up in f32 anyway */
    AUTOCAST_F32,    /* operands in f32: what adds up, normalises, or is transcendental */
    AUTOCAST_KEEP    /* operands as promotion leaves them */
};

/* What is asked of a node whose results could be computed once and kept, from constants alone. */
enum once {
    ONCE_NO,
    ONCE_IF_CONSTANT, /* where it is made of constants; otherwise it is done at every run */
    ONCE_OR_ERROR     /* the same, but where it is not made of constants that is an error */
};

struct localizing; /* transform/localize.h */
struct range;      /* transform/ranges.h */
struct range_in;   /* transform/ranges.h */
struct fold;       /* transform/fold.h */
struct loop_row;   /* ir/loop.h */
struct op_row {
    const char *name, *meaning;
    struct signature sig;
    effect_set effect; /* a higher-order row adds its bodies' */
    /* what its attributes add to that; NULL: nothing. Objects are numbered as the node's operands are. */
    effect_set (*effects)(const struct module *m, const struct attr *attrs);
    /* number + 1 of the attribute with the name of a declared operator (operator.h), by which the text form
     * calls it in place of the row's name, 0: none */
    uint8_t operator_attr;
    /* number + 1 of an attribute that makes the node a check (a bound that ends the run), 0: none */
    uint8_t check_attr;
    /* number + 1 of the attribute of a call that says whether its body is put in place, 0: none */
    uint8_t inline_attr;
    uint8_t axis_attr; /* number + 1 of the attribute that names the axis it works along, 0: none */
    uint8_t axis_role; /* enum axis_role */
    /* Is what it gives of a value that is the same in all lanes another value, a multiple, say? Somebody who
     * writes that has reduced twice. NULL: no */
    bool (*repeats)(const struct attr *attrs);
    /* number + 1 of the attribute that names an axis which the body binds: what is gone over varies along it
     * inside. Such a node is replaced as it is built, as a composite is, by what `bind` emits. 0: none */
    uint8_t bind_attr;
    uint8_t mesh_attr; /* number + 1 of the attribute with the name of a mesh, 0: none */
    uint8_t
        part_attr; /* number + 1 of the attribute with the placements of what GROUP_PART feeds, 0: none … */
    uint8_t
        part_move_attr; /* … and of the flag that operands which lie elsewhere are brought there, 0: none */
    uint8_t flags;
    uint8_t moves; /* enum moves */
    void (*infer)(struct infer *in);
    void (*eval)(struct eval *e);
    void (*vjp)(struct vjp *v);
    void (*vjp_forward)(struct vjp_forward *v);
    void (*jvp)(struct jvp *j);
    void (*batch)(struct batch *b);
    const struct op_lower *lower; /* loop/lower.h */
    const struct loop_row *loop;  /* a loop: where its parts are in the node (ir/loop.h) */
    /* a composite row: it has infer and this, every other rule is that of its expansion */
    void (*expand)(struct expand *e);
    void (*bind)(struct builder *b, const struct infer *in, const val *operands, val *results);
    /* a row over distributed arrays, which has infer and this, and no other rule: emits what each rank does
     */
    void (*localize)(struct localizing *l);
    /* A higher-order row that is compiled as other operators: emits these in place of the node once nobody
     * transforms it any more; it has no `lower` then. */
    void (*stands_for)(struct copier *c, const struct node *n, val *results);
    /* higher-order rows: rewrites beyond the generic ones, given a node; see transform/simplify.h */
    bool (*rewrite)(struct copier *c, const struct node *n, val *results, const void *options);
    /* What passes ask of a node; whatever is missing, nothing is known of. */
    /* the interval of an integer result, from those of the operands */
    struct range (*range)(const struct range_in *w);
    /* the operand that an integer result always equals, VAL_NONE: none */
    val (*same)(const struct range_in *w);
    /* a value that equals the result bit for bit, VAL_NONE: none is known */
    val (*fold)(const struct fold *w);
    /* The result is operand 0 with something added at some places. *out: the same of `base` instead of
     * operand 0; base VAL_NONE: only asks. False: it is no such sum. */
    bool (*adds_onto)(struct builder *b, const struct node *n, val base, val *out);
    /* enum comparison: how operand 0 stands to operand 1 where the result is true; 0: it is no comparison */
    uint8_t compares;
    uint8_t logic; /* enum logic */
    bool chooses;  /* element by element operand 1 where operand 0 holds, else operand 2 */
    /* the result is the sum of its (one or two) operands, each times 1 or -1; 0: it is no such sum */
    int8_t factors[2];
    /* from[i]: the dim of operand 0 along which result dim i runs, index by index; HOP_NONE: along none. */
    void (*source_dims)(const struct attr *attrs, uint32_t operand_rank, uint32_t result_rank,
                        uint32_t from[MAX_RANK]);
    /* What each index along dim `axis` of the result is made of, where neither flags nor source_dims nor
     * lower->product say so; see node_sliced in transform/pass.h. */
    bool (*sliced)(const struct module *m, const struct fn *f, const struct node *n, uint32_t axis,
                   uint32_t *along);
    uint8_t sizes_attr; /* number + 1 of the attribute that lists the sizes of the result, 0: none */
    uint8_t control;    /* enum control */
    uint8_t autocast;   /* enum autocast */
    /* the bodies of a node have strict numbers, whatever those of the program are; NULL: never */
    bool (*strict)(const struct module *m, const struct fn *f, const struct node *n);
    /* it may stand in a function that is linear, whatever it looks like: its derivatives are those of
     * functions that its attributes name, or nothing comes of its results; NULL: never */
    bool (*linear)(const struct module *m, const struct fn *f, const struct node *n);
    /* whether an executable keeps its results; of a row that runs its one body on the body's own operands */
    enum once (*once)(const struct module *m, const struct fn *f, const struct node *n);
    /* a loop that asks before each step whether there is one: puts one of as many steps, counted before the
     * first, in its place (as `rewrite` does). values: ranges of f's values; stacked: rows it stacks may be
     * fewer than before, which are zeros */
    bool (*count)(struct copier *c, const struct node *n, const struct range *values, bool stacked,
                  val *results);
    /* why vjp and jvp are missing: "integer-valued", "piecewise constant", "opaque without a rule" */
    const char *no_gradient;
    const struct op_sample *samples;
    uint32_t n_samples;
};

extern const struct op_row *const op_table[OP_COUNT];
static inline const struct op_row *node_row(const struct node *n) { return op_table[n->op]; }
/* Effects of a node: its row's, its attributes' and its bodies'. */
effect_set node_effects(const struct module *m, const struct fn *f, const struct node *n);
/* Without its bodies', and with objects numbered as its operands are. */
static inline effect_set row_effects(const struct module *m, const struct op_row *row,
                                     const struct attr *attrs)
{
    bool checks = row->check_attr && attrs[row->check_attr - 1].kind != ATTR_ABSENT;
    return row->effect | (checks ? EFFECT_CHECK : EFFECT_NONE) |
           (row->effects ? row->effects(m, attrs) : EFFECT_NONE);
}
/* node_effects of a node that is not in its function yet. */
struct effects_in {
    const struct attr *attrs;
    const val *operands; /* all, the regions' own behind the node's */
    uint32_t n_operands;
    const uint32_t *groups;
    const struct region *regions;
    uint32_t n_regions;
    uint32_t n_params; /* of the function around */
};
effect_set effects_of_parts(const struct module *m, const struct op_row *row, const struct effects_in *in);
/* May two objects that the body of region r accesses, one of them writing, be the same? To the body its
 * parameters are different objects; here they may be fed by one, by values that are not known, or by a carry
 * that changes. */
bool effects_may_meet(const struct module *m, const struct op_row *row, const struct effects_in *in,
                      uint32_t r);
/* Can a node of it have effects, besides those of its bodies? */
static inline bool row_may_have_effects(const struct op_row *row)
{
    return row->effect || row->effects || row->check_attr;
}
static inline enum inlining node_inlining(const struct fn *f, const struct node *n)
{
    uint8_t place = node_row(n)->inline_attr;
    const struct attr *a = place ? node_attr(f, n, place - 1u) : NULL;
    return a && a->kind != ATTR_ABSENT ? (enum inlining)a->i : INLINE_UNSAID;
}
enum op op_find(const char *name, size_t length); /* OP_COUNT when there is none */
/* The type of what group g feeds for an operand of type t; HOP_NONE when it has no dim to take away. */
static inline uint32_t sig_group_feeds(const struct op_row *row, uint32_t g)
{
    return row->sig.groups[g].kind == GROUP_PAIR ? 2 : 1;
}
type_id sig_feed_type(struct module *m, const struct op_row *row, uint32_t g, const struct attr *attrs,
                      type_id t);
/* Sizes of the result groups of region r of a node (scan: next, stack), from operand group sizes and the
 * region's result count. */
uint32_t sig_result_sizes(const struct op_row *row, uint32_t r, const uint32_t *groups,
                          uint32_t n_region_results, uint32_t sizes[3]);
static inline const struct sig_region *sig_region(const struct op_row *row, uint32_t r)
{
    return &row->sig.regions[row->sig.max_regions == MANY ? 0 : r];
}

#endif
