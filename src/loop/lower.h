/* From a function to a loop program. A row says how its result is defined (lp's element, a reduction, or a
 * block of statements); the engine decides what is stored, gathers stored values into nests and writes the
 * statements. */
#ifndef HOP_LOWER_H
#define HOP_LOWER_H

#include "ir/table.h"
#include "loop/lp.h"
#include "transform/simplify.h"

enum lower_kind { LOWER_POINTWISE, LOWER_REDUCE, LOWER_BLOCK };
enum lower_access {
    ACCESS_SAME, /* reads operands at the index it is asked for (elementwise) */
    ACCESS_VIEW, /* each operand element is read at most once per visit (reshape, permute, slice, pad, concat,
                    reverse) */
    ACCESS_REPEAT, /* operand elements are read many times (broadcast) */
    ACCESS_GATHER  /* at computed positions (take, dynamic_slice) */
};
enum lower_cost { COST_FREE, COST_CHEAP, COST_EXPENSIVE };

struct lower;  /* the state of lowering; one per function instance being lowered */
struct array { /* row-major elements of a buffer from element `at` on */
    uint32_t buffer;
    lpv at;
};

/* A product of two arrays: which dims of each are batched over, contracted, and free; results are batch, free
 * of lhs, free of rhs. */
struct dot_dims {
    uint32_t n_batch, n_contract, n_lhs_free, n_rhs_free;
    uint32_t batch_lhs[MAX_RANK], batch_rhs[MAX_RANK], contract_lhs[MAX_RANK], contract_rhs[MAX_RANK],
        lhs_free[MAX_RANK], rhs_free[MAX_RANK];
};

struct op_lower {
    uint8_t kind, access, cost;
    /* POINTWISE: the element of result `result` at idx (one i64 per dim). */
    lpv (*elem)(struct lower *L, const struct fn *f, const struct node *n, uint32_t result, const lpv *idx);
    /* POINTWISE, where the result is operand 0 but for a part: writes that part alone into `whole`, which
     * holds operand 0. NULL: no such thing. */
    void (*part)(struct lower *L, const struct fn *f, const struct node *n, struct array whole);
    /* POINTWISE: the result is a run of operand 0's elements, in row-major order, from element *at on. False:
     * not these dims; NULL: never. */
    bool (*run)(struct module *m, const struct fn *f, const struct node *n, dim *at);
    /* POINTWISE: operand k is the result from index *from on of dim *along, and all operands together are the
     * result. NULL: not so. */
    void (*assembly)(struct module *m, const struct fn *f, const struct node *n, uint32_t k, uint32_t *along,
                     dim *from);
    /* REDUCE: the extents folded over (dims of f, *rank of them), the fold, and the folded expression. */
    uint8_t fold; /* enum lp_fold */
    /* REDUCE of one dim by FOLD_MAX or FOLD_MIN: the result is where that stands, an i64: the first of
     * equals, the first NaN before all others, 0 of nothing. */
    bool position;
    uint32_t (*reduced)(const struct module *m, const struct fn *f, const struct node *n,
                        dim extents[MAX_RANK]);
    lpv (*reduce_elem)(struct lower *L, const struct fn *f, const struct node *n, const lpv *idx,
                       const lpv *folded);
    /* Does the innermost folded extent run along the operand's innermost dim? Then a row is folded over lanes
     * (strict: 16 lanes and a tree), otherwise each result element is folded one after the other. Both back
     * ends and eval must follow the same answer. */
    bool (*row_fold)(const struct module *m, const struct fn *f, const struct node *n);
    /* REDUCE: how many dims are folded, if they are the leading ones of operand 0 and others follow; else 0.
     * NULL: 0. */
    uint32_t (*leading)(const struct module *m, const struct fn *f, const struct node *n);
    /* REDUCE: is the dim before the last of operand 0 folded, and no other? NULL: no. */
    bool (*across)(const struct module *m, const struct fn *f, const struct node *n);
    /* REDUCE of a product of two operands: may be done by BLAS, or folded along rows, in default mode. NULL:
     * not a product. */
    void (*product)(const struct module *m, const struct fn *f, const struct node *n, struct dot_dims *out);
    /* BLOCK: writes statements that define every result (lower_result, lower_set_scalar, lower_set_result).
     */
    void (*block)(struct lower *L, const struct fn *f, const struct node *n);
    /* BLOCK: the operand that result k is the new content of, HOP_NONE: of none. The result is made in its
     * memory when nothing else needs the old content (lower_change). NULL: no result is. */
    uint32_t (*changes)(struct module *m, const struct fn *f, const struct node *n, uint32_t k);
    /* BLOCK: how it uses operand i (enum lower_use); NULL: USE_ARRAY for all. Operands of rank 0 are always
     * ready as scalars. */
    uint8_t (*operand_use)(const struct fn *f, const struct node *n, uint32_t i);
    /* BLOCK: nothing is computed together with what is inside: all operands lie in memory. NULL: not so. */
    bool (*boundary)(struct module *m, const struct fn *f, const struct node *n);
    /* BLOCK: are operands with USE_ONCE read one element after the other, not by vector code? NULL: no. */
    bool (*one_by_one)(struct module *m, const struct fn *f, const struct node *n);
};
/* What a fold is kept in until it is complete. */
enum dtype node_accumulator(const struct module *m, const struct fn *f, const struct node *n);
/* A product of two arrays; the dims of one array in another order; one array repeated over new dims. */
static inline bool node_is_product(const struct node *n)
{
    const struct op_lower *lower = node_row(n)->lower;
    return lower && lower->product;
}
static inline bool node_transposes(const struct node *n)
{
    const struct op_row *row = node_row(n);
    return row->source_dims && row->lower && row->lower->access == ACCESS_VIEW;
}
static inline bool node_repeats(const struct node *n)
{
    const struct op_row *row = node_row(n);
    return row->source_dims && row->lower && row->lower->access == ACCESS_REPEAT;
}
enum lower_use {
    USE_ARRAY, /* it must lie in a buffer */
    USE_MANY,  /* elements are read many times: stored unless free to compute */
    USE_ONCE   /* each element is read about once: stored only if expensive */
};

/* ---- services for rows ---- */

struct lp *lower_lp(struct lower *L);
struct module *lower_module(struct lower *L);
const struct fn *lower_fn(const struct lower *L); /* the function being lowered */
bool lower_outer(
    const struct lower *L, struct lower **outer,
    const struct node **n); /* the node whose body it is and what lowers that; false: the entry */
/* The element of a value of the function being lowered: loaded if the value is stored, else expanded in
 * place. */
lpv lower_elem(struct lower *L, val v, const lpv *idx);
lpv lower_dim(struct lower *L, dim d); /* a dim of the function being lowered as an i64 */
/* The element at row-major position `flat` of a value: the index is split by its dims. */
void lower_unflatten(struct lower *L, type_id t, lpv flat, lpv *idx);
lpv lower_flatten(struct lower *L, type_id t, const lpv *idx);

/* For block rows. */
struct array lower_array(struct lower *L, val v); /* where an operand with USE_ARRAY lies */
lpv lower_scalar(struct lower *L, val v);         /* an operand of rank 0, or the only element of another */
bool lower_is_single(struct lower *L, type_id t); /* surely one element */
struct array lower_result(struct lower *L, const struct node *n,
                          uint32_t k); /* memory of result k; its dims must be bound already */
/* For rows that can compute result k over a value they read: the parameter of the function being lowered over
 * whose memory it may go, HOP_NONE: none. Nothing behind n reads that parameter; n itself may: lower_reads
 * says which operands do. lower_overwrite then gives the memory. */
uint32_t lower_may_overwrite(struct lower *L, const struct node *n, uint32_t k);
bool lower_reads(struct lower *L, val operand, uint32_t param);
struct array lower_overwrite(struct lower *L, const struct node *n, uint32_t k);
/* The operand (`changes`) in whose memory result k is made, because nothing else needs its content any more;
 * HOP_NONE: none. lower_take then gives the memory. */
uint32_t lower_taken(struct lower *L, const struct node *n, uint32_t k);
struct array lower_take(struct lower *L, const struct node *n, uint32_t k);
/* Memory of result k, which is the new content of an operand (`changes`) and holds the old one here: the
 * operand's own, or a copy, which is noted. `who` is what explain calls the node. */
struct array lower_change(struct lower *L, const struct node *n, uint32_t k, const char *who);
void lower_set_scalar(struct lower *L, const struct node *n, uint32_t k, lpv value); /* a result of rank 0 */
void lower_set_result(struct lower *L, const struct node *n, uint32_t k,
                      struct array where);                           /* a result lies there */
void lower_bind_symbol(struct lower *L, uint32_t symbol, lpv value); /* a symbol that the node binds */
bool lower_result_used(struct lower *L, const struct node *n, uint32_t k);
/* Describes a value to check and print: scalars by value, arrays by place. */
struct lp_operand lower_operand(struct lower *L, val v);
/* Loops over all elements of a type: `lower_each_begin` gives idx, `lower_each_end` closes; the innermost
 * loop is a vector loop if asked. */
void lower_each_begin(struct lower *L, type_id t, bool vector, lpv *idx);
void lower_each_end(struct lower *L, type_id t);

/* For higher-order rows: how a body's parameter is given, and where its results go. */
enum feed_kind { FEED_SCALAR, FEED_ARRAY, FEED_VALUE };
struct feed {
    uint8_t kind;
    lpv scalar;         /* FEED_SCALAR: of a rank-0 parameter */
    struct array array; /* FEED_ARRAY */
    val value;          /* FEED_VALUE: a value of the function around … */
    lpv lead;           /* … at this leading index (LPV_NONE: all of it) */
};
struct sink {
    bool scalar; /* rank 0: the value is left in `value` */
    lpv value;
    struct array array;  /* else it is stored here */
    uint32_t overwrites; /* HOP_NONE, or the parameter whose array this may be (a carry): if the body cannot
                            write it in place … */
    struct array
        instead; /* … it goes here and `moved` is set: the caller copies. buffer HOP_NONE: made when needed */
    bool moved;
    bool unused;        /* nobody needs it */
    bool done;          /* it has been put there, before its memory was changed */
    lpv dims[MAX_RANK]; /* left here: the result's sizes */
};
/* A call that becomes a call of a procedure: it is written, and all is done. overwrites: per result the
 * parameter of the body in whose memory it may be made, HOP_NONE. False: the body is put in place. */
bool lower_as_procedure(struct lower *L, const struct fn *f, const struct node *n,
                        const uint32_t *overwrites);
void lower_body(struct lower *L, const struct fn *f, const struct node *n, uint32_t region,
                const struct feed *params, struct sink *results);
bool lower_in_place(const struct lower *L); /* may values share memory? */
/* Sets `moved` of the sinks whose results would be computed, but not over the parameter that they overwrite.
 * Nothing is written, and nobody looks into their arrays. */
void lower_find_moved(struct lower *L, const struct fn *f, const struct node *n, uint32_t region,
                      struct sink *results);
/* Memory for a value of a type of the function being lowered; `why` is for explain. */
struct array lower_alloc(struct lower *L, type_id t, const char *why);
/* Memory for result k of a node whose size is not known yet: grows by CALL_RESERVE. */
struct array lower_growing(struct lower *L, const struct node *n, uint32_t k);
void lower_loop_enter(struct lower *L); /* nests until leave stand in a sequential loop: no threads there */
void lower_loop_leave(struct lower *L);
/* Around the body of a parallel loop that is put there by lower_body: what is made in it is the thread's own.
 * lower_may_share says whether such a body can be run by several threads at a time. */
void lower_region_enter(struct lower *L);
void lower_region_leave(struct lower *L);
bool lower_may_share(const struct lower *L, uint32_t fn);
/* Before a loop from `from` to `to` (LPV_NONE: not known): what products of its steps share lies in panels.
 */
struct loop;
void lower_pack_shared(struct lower *L, const struct loop *l, lpv from, lpv to);
/* "scan @step", what explain and emitted code say of a loop with this body. */
const char *lower_loop_note(struct lower *L, const struct fn *f, const struct node *n, uint32_t region);
bool lower_may_thread(const struct lower *L); /* a loop written here may be FOR_PARALLEL */
/* Should a loop written here with so many operations be? known: its sizes are not guessed. */
bool lower_worth_threads(const struct lower *L, uint64_t work, bool known);
/* The same for a loop whose sizes are not known: may it stand here both ways, for a run to choose by how many
 * operations there are? By the condition that lower_worth_later makes of them. */
bool lower_may_ask(const struct lower *L);
lpv lower_worth_later(struct lower *L, lpv work);
/* May the runtime be asked for products, in any order of their sums, that emitted C does not have? */
bool lower_may_multiply(const struct lower *L);
/* `total` steps in blocks of `size`, the last one shorter: lower_pieces as it is told, lower_blocks at most
 * LOWER_BLOCKS of them, each of `least` steps or more; by the value of `total` alone. lower_block_begin opens
 * a parallel loop over them and gives its variable and the block's steps lo to hi; lp_for_end closes it. */
enum { LOWER_BLOCKS = 32 };
struct blocks {
    lpv total, size, count;
};
struct blocks lower_blocks(struct lower *L, lpv total, int64_t least);
struct blocks lower_pieces(struct lower *L, lpv total, lpv size);
lpv lower_block_begin(struct lower *L, const struct blocks *b, lpv *lo, lpv *hi);
/* Memory for `each` elements of every block of lower_blocks. Threads share it: it is never on the stack. */
struct array lower_block_memory(struct lower *L, enum dtype t, dim each, const char *why);
void lower_copy(struct lower *L, type_id t, struct array from, struct array to, const char *why);
/* Fills memory with a value of the function being lowered. */
void lower_fill(struct lower *L, val v, struct array to);
/* Writes a value into a part of an array of type `whole` that lies at `to`, by threads where it is worth it:
 * its element i goes to start + step · i (NULL: 0, 1). */
struct written_part {
    val v;
    struct array to;
    type_id whole;
    const lpv *start;
    const int64_t *step;
};
void lower_place(struct lower *L, const struct written_part *x);
lpv lower_offset(struct lower *L, struct array a, lpv row,
                 type_id row_type); /* a.at + row * elements of row_type */

/* For rows, in profiles: what the node at hand is called instead of its row's name; that its loop, which
 * begins here, goes from `from` to `to`; that a trip of it begins here. Nothing happens for programs that are
 * not profiled. */
void lower_mark_label(struct lower *L, const char *label);
void lower_mark_trips(struct lower *L, lpv from, lpv to);
void lower_mark_trip(struct lower *L);

/* Test hook: what is large for threads only with very many elements is so with a 64th of them. Per thread. */
void lower_blocks_early(bool on);
int64_t lower_large(int64_t elements); /* the number of elements from which on that is so */

/* Test hook: every body that can be a procedure is one, however small and rare. Per thread. */
void lower_procedures_everywhere(bool on);

/* The loop program of a function (its calls in place, unless that would be too much). The caller frees it
 * with lp_free. `over` says per result which parameter's memory it should take (one that is written, or given
 * away), HOP_NONE: none; NULL: none at all. */
struct lp *lower_function(struct module *m, uint32_t fn, const struct pass_options *passes,
                          const uint32_t *over);
/* Simplified, lowered, checked and planned, as exe_compile does it; new contents of parameters are left in
 * the arguments. The caller frees it with lp_free. */
struct lp *lower_and_plan(struct module *m, uint32_t fn, const struct pass_options *passes);

#endif
