/* Loop programs: what the compiler makes of a function before any back end. A tree of statements over typed
 * scalars, buffers and index arithmetic; vector loops are written as scalar loops that a back end widens.
 * Printed as pseudo-C, emitted as LLVM and as C99.
 *
 * Values are instructions named by index. Pure instructions are hash-consed and placed by the builder in the
 * outermost open block where their operands are known (common subexpressions and loop-invariant motion come
 * for free); loads and reads of locals stay where they are made. LP_CONST, LP_SYMBOL and LP_VAR have no LET:
 * they are known wherever they are visible. */
#ifndef HOP_LP_H
#define HOP_LP_H

#include "ir/ir.h"

typedef uint32_t lpv; /* a value: index of its instruction */
#define LPV_NONE UINT32_MAX

/* Operations, calls, statements and folds, with their meaning: loop/lp.def. */
enum lp_op {
#define LP_OP(NAME, ...) LP_##NAME,
#include "loop/lp.def"
};
enum {
    LP_OP_COUNT = 0
#define LP_OP(...) +1
#include "loop/lp.def"
};

struct lp_instr {
    uint8_t op, dtype;
    uint32_t depth; /* of the block it is placed in: 0 is the program's */
    lpv a, b, c;
    union {
        int64_t imm;
        uint64_t bits;
    };
};

enum lp_buffer_kind {
    BUF_ARG,    /* argument `index` */
    BUF_RESULT, /* result `index`, caller's memory */
    BUF_CONST,  /* module constant `index` */
    BUF_TEMP,   /* in the arena, placed by the planner, or in a file (offloaded) */
    BUF_LOCAL,  /* static and small: on the stack, or in vector registers when every access allows it */
    BUF_DYN, /* sized while running by CALL_RESERVE; freed by the runtime when the call ends (or handed out as
                result `index`) */
    BUF_PARAM /* of a procedure: array `index` that its caller gives, arguments before results */
};
struct lp_buffer {
    uint8_t kind, dtype;
    uint32_t index;       /* BUF_DYN: result it becomes, or HOP_NONE */
    dim count;            /* elements, over the entry function's outer symbols; BUF_DYN: 0 */
    int64_t static_count; /* -1 when not static */
    bool updated;         /* BUF_ARG, BUF_PARAM that is read: a result is left there */
    /* Made for one iteration of a parallel loop: each thread has one of its own. Buffers of a procedure that
     * such iterations call are all so. */
    bool private;
    /* BUF_TEMP, BUF_DYN: its memory is a file's. What messages call it, place and name; NULL: not so. */
    const char *offloaded, *offloaded_name;
    struct place place;
    const char *why;      /* why it is stored, for explain */
    const char *name;     /* for printing */
    uint32_t first, last; /* live interval in statement order, set by the planner */
    int64_t offset;       /* in the arena, when the arena is static */
    uint32_t slot;        /* arena slot, when it is not */
};

/* A result that may take the memory of an argument (`over` of lower_function). */
struct lp_update {
    uint32_t result, param;
    bool in_place;   /* computed there */
    bool elsewhere;  /* it has a BUF_RESULT: whoever runs the program copies */
    const char *why; /* when not in place */
};

enum lp_local_kind {
    LOCAL_SCALAR, /* one value; inside a vector loop one per lane if it is first set there */
    LOCAL_LANES   /* accumulators of vector loops: lane l holds what iterations ≡ l gave; 16 lanes in strict
                     mode */
};
struct lp_local {
    uint8_t kind, dtype;
    const char *name;
    /* Of LOCAL_LANES: */
    bool strict;     /* all of the strict lanes, in their order */
    bool numbers;    /* none is ever NaN */
    bool only_nan;   /* of the fold over them matters only whether it is NaN */
    uint32_t places; /* each holds 0 or the place in a row, below this, where it was set; 0: not so */
};
enum { LP_STRICT_LANES = 16 };

enum lp_fold {
#define LP_FOLD_KIND(NAME, ...) FOLD_##NAME,
#include "loop/lp.def"
};

enum lp_stmt_kind {
#define LP_STMT(NAME, ...) LP_##NAME,
#include "loop/lp.def"
};
enum lp_for_kind { FOR_SERIAL, FOR_VECTOR, FOR_PARALLEL };

enum lp_call_kind {
#define LP_CALL_KIND(NAME, ...) CALL_##NAME,
#include "loop/lp.def"
};
/* What an operator does with an array that it is given. */
enum lp_operand_use {
    OPERAND_READ,
    OPERAND_WRITTEN, /* all of it, before it reads any */
    OPERAND_CHANGED, /* read and written */
    OPERAND_FOUND,   /* a BUF_DYN that it asks room for: it finds how large */
    OPERAND_ABSENT,  /* nothing is given */
    OPERAND_OBJECT   /* the i64 `value` is an object: the pointer itself is given */
};
struct lp_operand {   /* an array shown by check and print, given to a callback or an operator */
    uint32_t buffer;  /* HOP_NONE: the scalar `value`, or nothing */
    lpv value, index; /* index: of its first element */
    uint32_t rank;
    lpv dims[MAX_RANK]; /* LPV_NONE: the operator finds it */
    /* the rest: of an operator */
    uint8_t use;           /* enum lp_operand_use */
    const lpv *strides;    /* in elements, NULL: row-major */
    const uint32_t *found; /* OPERAND_FOUND: per dim the number of the size that is found, HOP_NONE: known */
};
struct lp_call {
    uint8_t kind;
    uint32_t target, source;
    lpv value, lo, index, count;
    /* gemm: C[m,n] (+)= op(A)[m,k] op(B)[k,n], row-major, element offsets and leading dimensions; in the
       dtypes of the buffers, which lp_multiplies allows. `batch` of them (LPV_NONE: one, and nothing is said
       of the rest), whose matrices are so many elements apart (0: all have the same). tb: enum hop_rt_form.
       pack: op(B) goes into panels in C, both of one dtype, for products that lp_packs allows; b, b_at, c,
       c_at, n, k, ldb and tb are said, and the panels take lp_panels_count elements */
    struct {
        uint32_t a, b, c;
        lpv a_at, b_at, c_at, m, n, k, lda, ldb, ldc;
        lpv batch, a_apart, b_apart, c_apart;
        bool ta, accumulate;
        uint8_t tb;
    } gemm;
    uint32_t text;      /* string id of the format, message or name */
    uint32_t site;      /* check, print, operator: its number, the index in lp.sites; set by lp_add_call */
    const char *within; /* of the regime; NULL: nothing */
    struct place place;
    uint32_t n_operands;
    struct lp_operand *operands;
    lpv mask;    /* print: bool, LPV_NONE: always */
    bool varies; /* print: ranks may show other values, so that each of them does */
    /* operator */
    uint32_t lanes;        /* leading dims of every array that lanes run along */
    uint32_t n_sizes;      /* of the size variables of its signature … */
    const lpv *sizes;      /* … their values */
    uint32_t n_found;      /* sizes that it finds */
    uint32_t n_counts;     /* of its parameters … */
    const int32_t *counts; /* … how many operands each has */
    effect_set effects;
    uint32_t version;
    const char *declared; /* its signature; NULL: it takes anything, as callbacks do */
};

struct lp_block;
struct lp_stmt {
    uint8_t kind, mode; /* mode: enum lp_for_kind, or enum lp_fold for ACCUM */
    uint8_t unroll;     /* FOR serial: unroll this many times (0, 1: not) */
    bool poll;          /* FOR, WHILE: look for cancellation on the back edge */
    bool scalar;        /* FOR vector: one element after the other nevertheless */
    uint16_t threads;   /* FOR parallel: at most so many at a time, 0: as there are */
    uint32_t target;
    lpv value, index, lo, hi, step;
    struct lp_block *body, *other;
    struct lp_call *call;
    const char *note; /* for printing: what this nest computes */
};
struct lp_block {
    vec(struct lp_stmt) stmts;
    struct lp_block *outer;
    uint32_t depth;
    bool barrier; /* nothing but index arithmetic is moved out of it (branches) */
};
/* The numbers that an i64 can be, both ends included; one that is INT64_MIN or INT64_MAX is not known. */
struct lp_range {
    int64_t lo, hi;
};
struct lp_loop {
    struct lp_range range; /* of the variable, for simplification */
    lpv bound;             /* the loop's hi */
};
struct lp_value {
    struct lp_range range; /* of an i64 value */
    struct lp_block *home; /* block it is placed in; NULL for constants and symbols */
    bool kept;             /* a product that no sum takes in: it is rounded (lp_keep) */
};
/* A part of a program that profiles show: its number is what the code of a profiled program leaves where the
 * run is (CALL_MARK). */
enum lp_mark_kind {
    MARK_FUNCTION,
    MARK_REGION,
    MARK_CALL,
    MARK_LOOP,
    MARK_BRANCH,
    MARK_NEST,
    MARK_PRODUCT,
    MARK_OPERATOR
};
/* A sum of products that is worked out for the sizes of a run. */
struct lp_term {
    double factor;
    uint32_t n;
    dim dims[4]; /* over the entry's symbols */
};
struct lp_amount {
    uint32_t n; /* 0: not known */
    struct lp_term *terms;
};
struct lp_mark {
    uint8_t kind;
    bool kept;       /* it is worth its cost: the code has it */
    uint32_t level;  /* of the procedure that it stands in, 0: in the program */
    uint32_t parent; /* HOP_NONE: the procedure or, of mark 0, nothing */
    const char *label;
    uint32_t n_places; /* of the operators in it, each once; the first is that of the mark */
    struct place *places;
    struct lp_amount bytes, operations; /* that one entry moves and does */
};

/* What holds for all that is made, until it is set to something else: regions say so (hops/region.c). */
struct lp_regime {
    bool strict;    /* strict numbers */
    bool scalar;    /* no vector code */
    uint8_t unroll; /* loops without loops in them: so many times; 0: as it comes */
    uint16_t threads;
    const char *name;   /* for notes: "outer/inner"; NULL: none */
    const char *within; /* behind messages: "\n  in the region 'inner'\n  in the region 'outer'" */
};

/* An expensive value: where its elements are computed, and how often. */
struct lp_computed {
    const char *op;
    uint32_t name; /* string id, 0: none */
    struct place place, reader;
    dim elements, times; /* over the entry function's symbols, HOP_NONE: only known while running */
    const char *why;     /* it is stored; NULL: whoever reads it computes it */
    bool stepwise;       /* for every step of a loop */
};

struct lp {
    struct arena arena;
    struct module *m;
    const struct fn *entry;
    bool strict, no_contract; /* strict: all of it */
    bool has_strict;          /* a part of it has strict numbers */
    struct lp_regime regime;
    vec(struct lp_instr) instrs;
    vec(struct lp_value) values; /* what the builder knows of each instruction */
    struct map instr_map;
    vec(struct lp_buffer) buffers;
    vec(struct lp_local) locals;
    vec(struct lp_loop) loops;
    /* Checks, prints, callbacks and operators in the order in which they were made, those of procedures
     * included: what native code knows of them is their number here. */
    vec(const struct lp_call *) sites;
    uint32_t n_exchanges;             /* that were begun anywhere in it (CALL_EXCHANGE) */
    vec(const char *) exchange_notes; /* what is computed while each of them is under way, for explain */
    vec(struct lp_mark) marks; /* of a profiled program, its procedures' included; the first is its own */
    struct lp *program; /* of a procedure: whose it is, with the list of sites; NULL: a program's own */
    struct lp_block *root, *current;
    vec(struct lp_stmt) open;         /* FOR, IF and WHILE statements under construction */
    uint32_t n_nests, n_copies;       /* for explain */
    vec(const char *) copy_notes;     /* why each copy exists */
    vec(struct lp_computed) computed; /* expensive values, for explain */
    vec(const char *) within_notes;   /* values that are made or read in the memory of another, for explain */
    vec(struct lp_update) updates;
    /* Procedures are loop programs of their own, called by address (CALL_PROCEDURE). Each comes after those
     * that it calls. They are made of bodies with several callers (transform/sharing.h), take symbols from
     * the entry, have no effects, and none runs twice at a time on one thread: its temporaries have places
     * like all others. */
    vec(struct lp *) procedures;
    uint32_t n_inputs; /* of a procedure: parameters that it reads; it writes the others */
    uint32_t level;    /* of a procedure: how many calls stand above each other at most, its own included */
    bool in_region;    /* of a procedure: iterations of parallel loops call it, and nothing else does */
    const char *name;  /* of a procedure, for explain … */
    uint32_t n_calls;  /* … with how many places call it */
    const char *why_called; /* … instead of it being in place there: placing_reason of the first */
    /* planner */
    bool own_memory; /* in: no two buffers share memory (pass `inplace` is off) */
    bool arena_static;
    int64_t arena_size;  /* when static */
    int64_t arena_total; /* with the procedures' */
    /* Of the arena, when it is static: how many bytes at its end are private buffers, for one thread. */
    int64_t private_size;
    vec(dim) slot_size; /* bytes of each slot as dims over the entry's symbols, when not */
    /* Of a procedure: its buffers and slots come after those of the program and of earlier procedures, its
     * bytes after those of all that may wait for it. */
    uint32_t first_buffer;
    uint32_t first_slot;
    int64_t first_byte;
};

/* ---- products by the runtime ---- */

/* How a product of these dtypes is multiplied: as it is, by BLAS too; brought to f32 or by dot products of
 * bytes, in which products of bytes and as many sums as a block has are exact; not at all. */
enum lp_product { PRODUCT_NONE, PRODUCT_PLAIN, PRODUCT_CONVERTED };
static inline enum lp_product lp_multiplies(enum dtype c, enum dtype a, enum dtype b)
{
    bool plain = a == c && b == c && (c == DT_F32 || c == DT_F64);
    if (plain) return PRODUCT_PLAIN;
    bool floats = dtype_is_float(c) && dtype_is_float(a) && dtype_is_float(b);
    if (floats) return c == DT_F64 || a == DT_F64 || b == DT_F64 ? PRODUCT_NONE : PRODUCT_CONVERTED;
    bool bytes = !dtype_is_float(a) && !dtype_is_float(b) && dtype_info[a].size == 1 &&
                 dtype_info[b].size == 1;
    return bytes && dtype_is_integer(c) ? PRODUCT_CONVERTED : PRODUCT_NONE;
}

/* Can B be put into panels for such a product? Which ones they are is a matter of B's dtype alone. */
static inline bool lp_packs(enum dtype c, enum dtype a, enum dtype b)
{
    enum lp_product how = lp_multiplies(c, a, b);
    if (how != PRODUCT_CONVERTED) return how == PRODUCT_PLAIN;
    return dtype_is_float(b) ? dtype_is_narrow(b) && a == b && (c == b || c == DT_F32) : dtype_is_integer(b);
}

/* Elements that panels of B, k by n, take at most, k > 1: as many as columns in whole panels have, each as
 * large as one of f32, to which a processor may bring narrow ones. */
int64_t lp_panels_count(enum dtype b, int64_t n, int64_t k);

/* ---- building ---- */

struct lp *lp_new(struct module *m, const struct fn *entry, bool strict);
void lp_free(void *lp);
/* Instructions, those of its procedures included. Here because the back end, a library of its own, asks as
 * well. */
static inline uint64_t lp_size(const struct lp *p)
{
    uint64_t n = p->instrs.len;
    for (uint32_t i = 0; i < p->procedures.len; i++) n += p->procedures.data[i]->instrs.len;
    return n;
}
/* Cuts a finished program off from its module, which may end before it. Machine code can still be made: all
 * that asks of the entry is how many symbols it has. */
void lp_detach(struct lp *p);
uint32_t lp_buffer(struct lp *p, struct lp_buffer b);
uint32_t lp_local(struct lp *p, enum dtype dtype, enum lp_local_kind kind, const char *name);
/* Opens a nested block; statements go there until lp_close. */
struct lp_block *lp_open(struct lp *p, bool barrier);
void lp_close(struct lp *p);
/* `lp_for_begin` … `lp_for_end`: the variable is returned. */
lpv lp_for_begin(struct lp *p, lpv lo, lpv hi, lpv step, enum lp_for_kind kind);
struct lp_stmt *lp_for_end(struct lp *p);
void lp_store(struct lp *p, uint32_t buffer, lpv index, lpv value);
void lp_set(struct lp *p, uint32_t local, lpv value);
/* `lp_if_begin(c)` … `lp_if_else` … `lp_if_end`; `lp_while_begin` computes the predicate,
 * `lp_while_body(pred)` … `lp_while_end`. */
void lp_if_begin(struct lp *p, lpv condition);
void lp_if_else(struct lp *p);
void lp_if_end(struct lp *p);
void lp_while_begin(struct lp *p);
void lp_while_body(struct lp *p, lpv predicate);
struct lp_stmt *lp_while_end(struct lp *p);
void lp_accum(struct lp *p, uint32_t local, enum lp_fold fold, lpv value);
struct lp_stmt *lp_add_stmt(struct lp *p, struct lp_stmt s);
struct lp_call *lp_add_call(struct lp *p, struct lp_call c);
/* The number of an exchange that is to be written. */
static inline uint32_t lp_new_exchange(struct lp *p) { return (p->program ? p->program : p)->n_exchanges++; }

lpv lp_const_bits(struct lp *p, enum dtype t, uint64_t bits);
lpv lp_int(struct lp *p, enum dtype t, int64_t v);
lpv lp_real(struct lp *p, enum dtype t, double v); /* t a float; rounded once */
static inline lpv lp_index(struct lp *p, int64_t v) { return lp_int(p, DT_I64, v); }
lpv lp_symbol(struct lp *p, uint32_t index);
lpv lp_read(struct lp *p, uint32_t local);
lpv lp_load(struct lp *p, uint32_t buffer, lpv index);
lpv lp_fold_lanes(struct lp *p, uint32_t local, enum lp_fold fold);
lpv lp_first_lane(struct lp *p, uint32_t values, lpv best, uint32_t positions); /* LP_FIRST */
/* Pure operations; folded, simplified (index arithmetic with the ranges of loop variables) and contracted as
 * they are made. Operands of f16 and bf16 are cast to f32 and the result back. */
lpv lp_un(struct lp *p, enum lp_op op, lpv a);
lpv lp_bin(struct lp *p, enum lp_op op, lpv a, lpv b);
lpv lp_select(struct lp *p, lpv c, lpv a, lpv b);
lpv lp_fused(struct lp *p, lpv a, lpv b, lpv c);
void lp_keep(struct lp *p, lpv v);                                  /* no sum takes it in, whatever it is */
lpv lp_far(struct lp *p, uint32_t which, lpv far, lpv x, lpv near); /* which: an enum angle */
lpv lp_cast(struct lp *p, enum dtype t, lpv a);
lpv lp_bitcast(struct lp *p, enum dtype t, lpv a);
static inline enum dtype lp_dtype(const struct lp *p, lpv v) { return (enum dtype)p->instrs.data[v].dtype; }
bool lp_is_const(const struct lp *p, lpv v, int64_t *out); /* an integer constant */
static inline struct lp_range lp_range(const struct lp *p, lpv v) { return p->values.data[v].range; }
/* How `index` depends on loop variable `var`: true and *stride when index = stride·var + (something without
 * var). */
bool lp_stride(struct lp *p, lpv index, lpv var, lpv *stride);
bool lp_depends(const struct lp *p, lpv v, lpv var); /* on a loop variable, through pure instructions */

/* ---- looking ---- */

void lp_print(const struct lp *p, struct text *out); /* pseudo-C */
void lp_check(const struct lp *p); /* throws HOP_INTERNAL: a value used out of its block, a type mismatch, an
                                      index out of range by its range */
void lp_plan(struct lp *p);        /* live intervals and arena slots for BUF_TEMP */
/* Takes out the marks that would cost more than they are worth: before planning. */
void lp_thin_marks(struct lp *p);
/* Exchanges with ranks begin early and are waited for late (`moves`), with a note of each for explain: when
 * the program is whole, before planning. */
void lp_overlap(struct lp *p, bool moves);
/* Nothing lies in a file: before planning, for those who have no files. */
void lp_keep_in_memory(struct lp *p);

/* Runs a program slowly, one scalar after the other, with every access checked: what emitters are held
 * against. Like a native entry (rt.h), but throws HOP_INTERNAL when the program itself is wrong. */
struct hop_rt;
int32_t lp_execute(const struct lp *p, struct hop_rt *rt, void **buffers, int64_t *symbols);

#endif
