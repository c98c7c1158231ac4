/* The state of lowering, shared by lower.c (values, bodies), nest.c (what is stored, which nests), within.c
 * (what is made in another's memory), fold.c (reductions) and product.c (BLAS). */
#ifndef HOP_LOWER_IMPL_H
#define HOP_LOWER_IMPL_H

#include "loop/lower.h"

enum slot_kind {
    SLOT_INLINE, /* expanded from its definition wherever it is read */
    SLOT_SCALAR, /* rank 0: a value at hand */
    SLOT_ARRAY,  /* in memory */
    SLOT_OUTER   /* a value of the function around, at a leading index or whole */
};
struct slot {
    uint8_t kind;
    bool row; /* the array holds one row: only the last index counts */
    lpv scalar;
    struct array array;
    struct lower *outer;
    val outer_value;
    lpv lead;
};

static inline bool same_array(struct array a, struct array b) { return a.buffer == b.buffer && a.at == b.at; }

enum item_class {
    ITEM_POINT,  /* pointwise: an element per point of outer × inner */
    ITEM_COLUMN, /* a fold per point of outer × inner, folded one after the other */
    ITEM_ROW,    /* a fold along inner: a scalar per point of outer */
    ITEM_DOWN,   /* a fold over the leading dims, row by row: a value per point of the other dims */
    ITEM_ACROSS, /* a fold over the last dim of outer, of rows of a few elements (short.c): a value per point
                    of the other dims */
    ITEM_SCALAR, /* pointwise over outer: one value per row */
    ITEM_ALONE   /* a fold with loops of its own */
};
struct target { /* where an item is stored besides staying at hand */
    struct array array;
    struct sink *sink; /* decided late: in place or instead */
    bool strided;      /* a part of another value, which is `array` */
};
struct read { /* what an item reads */
    val v;
    uint8_t relation; /* enum relation */
    uint8_t same;     /* leading indices that are those of the point */
};
enum relation { REL_SAME, REL_ROW, REL_ROWVEC, REL_OTHER };

struct item {
    val v;
    uint32_t node;
    uint8_t class;
    uint32_t phase;
    bool memory;   /* needs to be stored */
    bool row_temp; /* stored only for later phases of its own row */
    const char *why;
    vec(struct target) targets;
    vec(struct read) reads;
    lpv held;             /* its value at the point being emitted, LPV_NONE */
    lpv *row_held;        /* of a nest with short rows: its values along the row; NULL: none */
    uint32_t local;       /* accumulator */
    uint32_t *row_locals; /* ITEM_ACROSS: an accumulator for each element of the row */
    struct array blocks;  /* ITEM_DOWN, folds in pieces: what each block folded; buffer HOP_NONE: none */
    struct {              /* of a position: where the best so far stands, beside held, local and blocks */
        lpv held;
        uint32_t local;
        struct array blocks;
        uint32_t total; /* local: NaN if an element is, HOP_NONE: the best becomes NaN then */
    } at;
};
struct nest {
    uint32_t n_outer;
    dim outer[MAX_RANK];
    dim inner; /* HOP_NONE: ITEM_ALONE */
    vec(struct item) items;
    bool flat;        /* all dims run as one */
    bool stays_short; /* something in it needs rows that are short (short.c) */
    uint32_t n_down;  /* leading dims that its ITEM_DOWN fold, 0: it has none */
    lpv block;        /* while it is emitted: the number of the block */
};
enum step_kind { STEP_NEST, STEP_BLOCK, STEP_SCALAR };
struct lower_step {
    uint8_t kind;
    uint32_t index; /* nest, node, or value */
};

/* Steps that go over the same rows, panel by panel (panels.c). */
struct row_group {
    uint32_t first, n; /* steps */
    uint32_t n_dims;
    dim dims[MAX_RANK]; /* of the rows: the leading ones of all that is computed */
};
struct span { /* from the first to the last */
    uint32_t first, last;
};

struct value_info {
    uint32_t uses;       /* by nodes and results */
    uint32_t cost;       /* operations to compute an element in place */
    bool root;           /* gets an item of its own */
    bool many;           /* somebody reads its elements many times */
    bool again;          /* a loop or a branch reads it whole, perhaps on every trip */
    bool singly;         /* a block reads its elements by code that is not vector code */
    bool slowly;         /* a loop reads an element of it, or a few, a step */
    uint32_t nest, item; /* when root; nest HOP_NONE before it is placed */
    bool part;           /* written over operand 0, in its memory: a block */
    /* a product or an addition: the sum of products in whose memory it is added up, VAL_NONE: none */
    val sum;
    val takes, given; /* it is made in that value's memory; that value is made in its: HOP_NONE, none */
    /* set by within.c */
    bool wanted;                /* a run of its elements would be stored */
    bool run;                   /* read where operand 0 lies: a block */
    bool assembled;             /* in memory that its operands are written into: a block */
    dim before, after;          /* elements more in that memory, in front and behind */
    val within;                 /* the assembly in whose memory it is made, HOP_NONE … */
    dim within_at, within_skip; /* … its element within_skip at that one's element within_at … */
    bool strided;               /* … but in rows that stand apart, where nobody reads it */
    bool placed;                /* it has been made there */
    bool single; /* an array of one element that is computed as a scalar, where carries are kept so */
    const char *why;
};

struct shared {
    struct lp *p;
    struct module *m;
    const struct pass_options *passes;
    const uint32_t *over; /* lower_function */
    uint32_t loop_depth;  /* sequential loops around, and regions */
    uint32_t regions;     /* parallel loops around whose iterations are lowered as bodies */
    struct lp *program;   /* p, or the one whose procedure p is */
    /* procedure.c */
    struct unfolding *unfolding; /* per function: what it would be, all bodies in place */
    bool large;                  /* bodies of loops and branches are not all put in place */
    bool shallow;                /* few bodies stand in bodies: what procedures put on the stack is bounded */
    struct map procedure_map;
    vec(struct procedure) procedures;
    uint64_t lowered;           /* nodes so far */
    uint32_t mark;              /* of a profiled program: the one that is open, HOP_NONE: none */
    uint32_t depth;             /* of bodies in bodies */
    struct lower *writer;       /* whose nest is being written, NULL: none's */
    const struct item *writing; /* and the item */
    uint32_t level;             /* of the procedures called so far by what is being lowered */
};

struct probe { /* a dry run that records reads instead of emitting */
    struct lp *scratch;
    lpv vars[MAX_RANK + 1];
    uint32_t n_vars;
    struct item *item;
};

struct packed { /* a value that is there in panels, for products (CALL_PACK) */
    val v;
    bool transposed;
    struct array array;
};

struct lower {
    struct shared *S;
    struct arena *arena;
    struct lower *outer;
    const struct node *around; /* the node of outer->f whose body f is */
    const struct fn *f;
    lpv *symbols;    /* value of each symbol */
    dim *entry_dims; /* the same over the entry function's symbols, HOP_NONE when only known while running */
    struct slot *slots;
    struct value_info *info;
    vec(struct nest *) nest_list;
    vec(struct lower_step) steps;
    uint32_t step; /* the one being written */
    vec(struct row_group) groups;
    struct span *readers; /* where there are groups, per value: the steps that read it */
    val *fed; /* per parameter: the value of the function around that it is, VAL_NONE; NULL: none is */
    vec(struct packed) packed; /* for bodies */
    struct nest *open;
    struct probe *probe;
    /* while a nest is emitted */
    struct nest *emitting;
    uint32_t phase;
    lpv vars[MAX_RANK + 1];
    struct sink *sinks; /* one per result of f */
};

static inline struct type type_of(struct lower *L, val v) { return type_get(L->S->m, value_type(L->f, v)); }
static inline const struct op_lower *lower_of(const struct node *n)
{
    const struct op_lower *row = node_row(n)->lower;
    if (!row) hop_throw(HOP_UNAVAILABLE, "%s: no way to compile it", node_row(n)->name);
    return row;
}
/* One value per point of the nest. */
static inline bool is_pointwise(const struct item *item)
{
    return item->class == ITEM_POINT || item->class == ITEM_COLUMN;
}

/* nest.c */
void nest_analyse(struct lower *L);
bool nest_folds_rows(struct lower *L, const struct node *n); /* along rows of what it reads? */
/* nest_emit.c */
uint64_t nest_points(struct lower *L, const struct nest *nest); /* unknown sizes count as some */
void nest_emit(struct lower *L, struct nest *nest);
/* For whoever writes a nest's loops: an item at the point L->vars, what it holds to its memory; how many
 * elements a thread takes at once; what the nest computes. */
void nest_point(struct lower *L, struct item *item);
void nest_store(struct lower *L, struct item *item, const lpv *idx);
int64_t nest_piece(struct lower *L, const struct nest *nest);
const char *nest_note(struct lower *L, const struct nest *nest);
/* repeats.c: does the node, or the body, read elements of operand i, of the parameter, more than once? */
bool repeats_operand(struct module *m, const struct fn *f, const struct node *n, uint32_t i);
bool repeats_param(struct module *m, uint32_t fn, uint32_t param);
bool repeats_in_small_slices(struct module *m, const struct fn *f, const struct node *n,
                             uint32_t i); /* is n a loop with an element or a few of operand i a step? */
/* For explain: an element of v is computed here. */
void repeats_note(struct lower *L, val v);
/* short.c: has the nest rows of a few elements? Its items then hold whole rows; and its loops. */
bool short_rows(struct lower *L, struct nest *nest);
int64_t short_row(struct lower *L, const struct nest *nest); /* elements of a row where it is short, else 0 */
void short_emit(struct lower *L, struct nest *nest, bool parallel);
/* Is the item a fold across short rows? Then it becomes one, and a nest over what it folds gets the key. */
bool short_across(struct lower *L, struct item *item, struct nest *key);
/* Are the rows of the nest short, with the item as well? */
bool short_stays(struct lower *L, const struct nest *nest, const struct item *item);
/* Of a nest whose leading dims are those of the rows: memory for it, then the rows from lo to hi. */
void nest_prepare_rows(struct lower *L, struct nest *nest, uint32_t panels);
void nest_emit_rows(struct lower *L, struct nest *nest, const struct row_group *g, lpv panel, lpv lo, lpv hi);
void nest_join_rows(struct lower *L, struct nest *nest, lpv panels); /* what is folded over all panels */
bool nest_has_rows(struct lower *L, const struct nest *nest, const struct row_group *g);
bool nest_is_block(struct lower *L, const struct node *n);
bool nest_is_result(struct lower *L, val v); /* that somebody needs */
bool nest_read_only_before(struct lower *L, val u, uint32_t node);
bool nest_is_step(struct lower *L,
                  val v); /* a scalar that a step of its own computes: at hand for all that follow */
bool nest_reads_from(struct lower *L, val v,
                     uint32_t first_step); /* does any step from there on, or a result, read the parameter? */
bool nest_operand_reads(struct lower *L, val operand,
                        val v); /* does the operand, expanded in place, read v? */
/* fold.c */
/* One after the other; in default mode two accumulators hide the latency of the additions, and the largest is
 * found together with where it stands. */
lpv fold_column(struct lower *L, struct item *item, const lpv *idx);
lpv fold_lanes(struct lower *L, const struct item *item, const lpv *idx); /* along rows, loops of its own */
lpv fold_all(struct lower *L, struct item *item); /* the same to one value, in blocks */
/* An ITEM_ROW: before, in and behind the loop along the row from lo to hi, which leaves the value at hand or,
 * after fold_row_cut, with the block; fold_row_join then puts together what `count` blocks left. */
void fold_row_cut(struct lower *L, struct item *item);
void fold_row_begin(struct lower *L, struct item *item);
void fold_row_point(struct lower *L, const struct item *item);
void fold_row_end(struct lower *L, struct item *item, lpv lo, lpv hi);
/* The same one element after the other, without a loop: what is folded is at hand all the time. */
void fold_short_point(struct lower *L, struct item *item);
void fold_short_end(struct lower *L, struct item *item);
void fold_row_join(struct lower *L, struct item *item, lpv count);
/* An ITEM_ACROSS of rows of n elements: memory for blocks, accumulators; an element of a row; what all rows
 * gave for element j (kept for fold_across_join where there are blocks), and what `count` blocks did. */
void fold_across_cut(struct lower *L, struct item *item, int64_t n);
void fold_across_begin(struct lower *L, struct item *item, int64_t n);
void fold_across_point(struct lower *L, const struct item *item, int64_t j);
lpv fold_across_end(struct lower *L, const struct item *item, int64_t n, int64_t j);
lpv fold_across_join(struct lower *L, const struct item *item, lpv count, int64_t n, int64_t j);
/* An ITEM_DOWN: memory (for so many blocks), what stands there at first, a point, and the value at idx when
 * all rows were seen (count: of the blocks, LPV_NONE: not cut). */
void fold_down_room(struct lower *L, struct item *item, uint32_t blocks);
void fold_down_begin(struct lower *L, const struct item *item);
void fold_down_point(struct lower *L, const struct item *item);
lpv fold_down_end(struct lower *L, const struct item *item, lpv count, const lpv *idx);
/* edges.c: the loop along a row that was written last, whose variable this is, becomes several where a few
 * elements at its ends ask for what the others do not */
void edges_split(struct lp *p, lpv var);
/* panels.c */
void panels_find(struct lower *L); /* finds the groups; their steps come to stand together */
const struct row_group *panels_at(struct lower *L,
                                  uint32_t step); /* the group that begins with it, or NULL */
void panels_emit(struct lower *L, const struct row_group *g);
/* within.c */
void within_analyse(struct lower *L);
struct array within_array(struct lower *L, val v); /* a value that is made within another: where */
lpv within_position(
    struct lower *L, val v,
    const lpv *idx); /* of an element of a strided value in the memory that within_array gives for it */
void within_assemble(struct lower *L, const struct node *n);
void within_run(struct lower *L, const struct node *n);
/* product.c */
bool product_is_gemm(struct lower *L, const struct node *n);
bool product_rows(struct lower *L, const struct node *n); /* default mode: fold along rows of its operands */
void product_gemm(struct lower *L, const struct node *n);
struct lp_call product_call(struct lower *L, const struct node *n); /* what product_gemm writes */
uint32_t product_row_dims(struct lower *L, const struct node *n,
                          dim rows[MAX_RANK]);                  /* 0: a batch, a column */
bool product_reads_rows(struct lower *L, const struct node *n); /* of its first operand as it is stored */
/* Can it be made panel by panel of rows, without putting its second operand into panels each time? */
bool product_by_rows(struct lower *L, const struct node *n);
void product_put_in_panels(struct lower *L,
                           struct lp_call *call); /* puts B into panels, which the call reads then */
bool product_wants_panels(struct lower *L, const struct node *n); /* of its second: few rows at a time */
double product_work(struct lower *L, const struct node *n);       /* multiplications of one matrix */
void product_sums(struct lower *L);                          /* finds the sums whose products BLAS adds up */
bool product_adds_up(struct lower *L, const struct node *n); /* an addition of such a sum: a block */
bool product_fits(
    struct lower *L, const struct node *n,
    uint32_t along); /* gemm can write it into an array that is longer along that dim of the result */
bool product_operand_direct(struct lower *L, const struct node *n,
                            uint32_t k); /* gemm can read operand k through a permute */

/* procedure.c */
void procedure_survey(struct shared *S, uint32_t fn);
/* Before the body of a region is put in place: what is put there instead of g (a call of it, or g itself).
 * Throws where there would be too much of everything. */
const struct fn *procedure_body(struct lower *L, const struct node *n, const struct fn *g);
/* Will node n of the function that is lowered be a call of a procedure? Its results lie in memory, however
 * small. */
bool lower_is_called(struct lower *L, const struct node *n);

/* marks.c: of profiled programs; nothing happens for others */
void mark_program(struct shared *S, const struct fn *f);
/* Opens the mark of a step; what was open before, for mark_end. */
struct mark_around {
    uint32_t mark, outer; /* HOP_NONE: there is none */
};
struct mark_around mark_step(struct lower *L, const struct lower_step *s);
struct mark_around mark_group(struct lower *L, const struct row_group *g, const char *label);
struct mark_around mark_results(struct lower *L);
void mark_end(struct lower *L, struct mark_around around);

/* lower.c */
struct lower *lower_new(struct shared *S, struct lower *outer, const struct fn *f, struct sink *sinks);
void lower_steps(struct lower *L);
dim lower_entry_dim(
    struct lower *L,
    dim d); /* over the entry function's symbols, HOP_NONE when it is only known while running */
/* lower_result for a value that another node than its own begins to make. */
struct array lower_result_of(struct lower *L, val v, const struct node *maker);
uint32_t lower_new_buffer(struct lower *L, type_id t, const char *why);
static inline struct lp *lower_p(struct lower *L) { return L->probe ? L->probe->scratch : L->S->p; }
void lower_room(struct lower *L, struct array a, type_id t); /* a buffer sized while running has room for t */
bool lower_in_loop(const struct lower *L);
bool lower_is_small(struct lower *L, type_id t); /* memory for it lies on the stack */
/* The memory of a result of the function that is v; HOP_NONE: none, or it holds a parameter that is read in
 * step `from` or behind. */
struct array lower_sink_of(struct lower *L, val v, uint32_t from);
void lower_put(struct lower *L, val v, struct array to,
               const char *why); /* an array value into memory where it does not lie yet */

#endif
