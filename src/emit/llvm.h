/* The LLVM back end's own header: what its files share. A loop program comes in (lp.h); llvm_plan.c decides
 * how each loop and each small buffer is kept, llvm_share.c which nests are equal, llvm_section.c where large
 * blocks are cut, llvm_stmt.c writes statements, llvm_access.c loads, stores and lanes, llvm_ops.c
 * operations, llvm.c makes machine code of it. Nothing here calls into libhop: the plug-in only reads the
 * program. */
#ifndef HOP_EMIT_LLVM_H
#define HOP_EMIT_LLVM_H

#include "emit/emit.h"
#include "loop/lp_walk.h"

#include <llvm-c/Core.h>
#include <setjmp.h>

/* A program that exports its own symbols must not take the place of these. */
#pragma GCC visibility push(hidden)

enum {
    MAX_PARTS = 64,    /* vectors that one widened value consists of */
    CHUNK_BYTES = 512, /* a static vector loop up to this size is one step without a loop */
    MOST_PICKED = 8,   /* elements up to this far apart are picked from whole vectors */
    FRAME_ALIGN = 64,  /* of each small buffer in the frame */
    STRICT_LANES = LP_STRICT_LANES
};

/* A value of the program as LLVM values. Widened values are kept as several vectors of the host's width
 * ("parts"), never as one wide LLVM vector: the code generator then sees only types it has registers for. */
enum form {
    FORM_NONE,
    FORM_SCALAR, /* part[0]; the same for every lane */
    FORM_AFFINE, /* part[0] is lane 0's value, lane l has part[0] + stride·l; addresses are made of these
                    without vector arithmetic */
    FORM_WIDE    /* part[0..n) vectors */
};
struct held {
    uint8_t form, n;
    uint32_t instance; /* of the vector loop in which it was made, 0: none */
    int64_t stride;
    LLVMValueRef *part;
};

/* ---- plan: how loops, buffers and locals are kept ---- */

enum loop_mode {
    LOOP_SERIAL,
    LOOP_VECTOR,  /* widened */
    LOOP_OUTLINED /* body of a parallel region, in a function of its own */
};
struct loop_plan {
    const struct lp_stmt *stmt;
    uint8_t mode;
    bool rejected;     /* marked for vectors, but its body cannot be widened */
    bool has_lanes;    /* accumulates into lanes … */
    bool strict_lanes; /* … that are the strict ones */
    bool has_loop;     /* contains a loop */
    bool reads_lanes;
    bool one_round; /* strict lanes with control flow inside: a step is one round of the lanes, or elements of
                       one lane would come out of order */
    bool chunk;     /* static and small: one step, no loop */
    bool divided;   /* its steps are nests, some of them functions of their own */
    bool heavy;     /* code size matters more than the cost of a mask */
    uint8_t lanes;  /* of a part */
    uint8_t parts;  /* of a step of the main loop */
    uint8_t least;  /* of any step */
    uint8_t wide_bytes; /* size of the element type that decides the lanes */
    int64_t extent;     /* trips when static, else -1 */
    uint32_t weight;    /* operations in the body, nested ones once */
    uint32_t outlined;  /* the loop in whose function it stands, HOP_NONE: the entry */
    uint32_t nest;      /* in plan.nests, HOP_NONE: stands in another loop */
    bool own_function;  /* emitted as a function that is called here: parallel regions, and nests that occur
                           more than once */
};
struct slot_plan {        /* of a local or of a buffer */
    uint32_t home;        /* outlined loop or section that alone touches it, HOP_NONE: the entry function */
    bool touched, shared; /* shared: touched by more than one function */
    bool repeated;     /* touched inside a loop, so that registers pay; a buffer that is written and read once
                          would only be spilled */
    bool in_registers; /* BUF_LOCAL: an SSA value; LANES: vectors, not memory */
    uint8_t lanes, parts;
    uint64_t in_frame; /* of a small buffer: where it lies in plan.frame_bytes, when there is a frame */
};
/* A value, buffer or local that an outlined function takes from its parent. */
enum capture_kind {
    CAPTURE_VALUE,
    CAPTURE_SLOT,
    CAPTURE_BUFFER,
    CAPTURE_LANES,
    CAPTURE_FRAME,
    CAPTURE_BUFFERS,
    CAPTURE_SYMBOLS
};
struct capture {
    uint8_t kind;
    uint32_t id; /* instruction, slot, buffer, local */
};
/* A loop that stands in no other, large ones aside. Two nests with the same text are the same code up to the
 * values, buffers and locals that they name: the k-th of one is the k-th of the other. */
struct top_loop {
    uint32_t loop, leader; /* leader: the first nest that is equal */
    uint32_t copies;       /* of a leader: how many are equal, itself included */
    bool apart;            /* cannot be shared */
    bool looped;           /* stands in a large loop after all */
    bool large;            /* a function of its own even where no other is equal */
    uint64_t *text, hash;
    uint32_t length;
    struct names {
        uint32_t *ids, n, cap;
    } values, buffers, locals; /* values: from outside */
    /* of a leader, once it is emitted */
    LLVMValueRef fn;
    uint32_t emitted; /* the equal nest whose names are in `captures`: the leader may stand in a branch that
                         is never taken */
    struct capture *captures;
    uint32_t n_captures;
};
/* A run of statements of a large block that becomes a function of its own. */
struct section {
    const struct lp_block *block;
    uint32_t first, end;
    uint32_t home; /* its number as a function: those of loops come before */
    lpv *given;    /* values made by its statements that later ones use */
    uint32_t n_given;
    /* once it is emitted */
    LLVMValueRef fn;
    struct capture *captures, *back; /* back: locals that it gives its caller */
    uint32_t n_captures, n_back;
};
struct plan {
    struct section *sections;
    uint32_t n_sections, cap_sections;
    uint32_t *section_index, section_slots; /* by first statement: number + 1, 0: empty */
    /* Small buffers of a program with sections, and values that sections make for others, lie side by side,
     * so that one pointer is all that a section must be given. */
    uint64_t frame_bytes; /* 0: there is no frame, each small buffer has a place of its own */
    uint64_t *in_frame;   /* per instruction: where its value lies in the frame, + 1; 0: it does not */
    struct top_loop *nests;
    uint32_t n_nests;
    struct loop_plan *loops;  /* per loop */
    struct slot_plan *locals; /* per local */
    struct slot_plan *buffers;
    bool *needed;           /* per instruction: is its value used? */
    uint32_t *set_in, sets; /* scratch: per slot the last question for what a block sets that met it */
    bool *set_symbol;       /* per symbol: does a CALL_SETDIM change it? */
    uint32_t n_symbols;
    uint32_t *kinds,
        epoch;        /* scratch: per instruction uniform, affine or varying in the loop last looked at */
    int64_t *strides; /* scratch: of those that are affine there */
};

/* ---- emission ---- */

/* The vector loop being widened. */
struct wide {
    uint32_t loop, instance;
    uint8_t n, lanes; /* parts; lanes of all parts but the last, which may be narrower */
    uint32_t whole; /* a step begins at a multiple of this from the loop's first, and ends before the next */
    uint8_t part_lanes[MAX_PARTS];
    LLVMValueRef mask[MAX_PARTS]; /* NULL: every lane runs */
    LLVMBasicBlockRef before;     /* ends in a branch; splats of outer values are made here */
};

/* Entries of one type by number, in pages that are made when they are asked for: there are as many functions
 * as a program has parts, and each names only a few of its values and buffers. */
struct table {
    void **pages;
};
struct splat {
    LLVMValueRef of, wide;
    uint32_t instance; /* the vector loop it was made for */
};
struct known_value {
    struct held held;
    struct splat splat;
    LLVMBasicBlockRef given_in; /* of a value that a section made: what follows the section's call */
};
struct known_array {
    LLVMValueRef pointer;
    uint32_t pointer_loop; /* of a function with many: the outermost loop whose `before` holds the pointer */
    LLVMValueRef reserved; /* stack slot with the bytes known to be there */
    struct splat growing;  /* of a growing buffer its pointer */
};

struct func {
    struct func *parent;
    uint32_t loop; /* the outlined loop or the section's number, HOP_NONE: the entry */
    bool shared;   /* called for several nests: nothing that is special to one may be written into it */
    bool several;  /* and they have other buffers each */
    LLVMValueRef fn, rt, buffers_arg, symbols_arg, env, cancel;
    LLVMValueRef given_table, offset;          /* of a parallel loop: of the runtime, NULL: not needed yet */
    LLVMValueRef profile_at, profile_counters; /* of the runtime, NULL: not needed yet */
    LLVMValueRef frame;                        /* the small buffers of the entry, NULL: not needed yet */
    LLVMBasicBlockRef entry;                   /* stack slots and pointers; gets its terminator last */
    LLVMBasicBlockRef exits[HOP_INTERNAL + 1];
    struct table values;      /* struct known_value, per instruction */
    struct table vars;        /* struct held, per loop */
    struct table slots;       /* struct held, per local, then per buffer kept in registers */
    struct table arrays;      /* struct known_array, per buffer */
    struct table lane_memory; /* LLVMValueRef, per local: lanes kept in memory */
    LLVMValueRef *symbols;    /* per symbol */
    uint32_t loops;           /* that the builder stands in */
    uint32_t outermost;       /* the number of the outermost of them, or of the last one */
    LLVMBasicBlockRef before; /* of the outermost loop */
    LLVMValueRef environment; /* where captures are put for the next call, NULL: not needed yet */
    LLVMValueRef failed;      /* the status of calls that it leaves with, a phi; NULL: not needed yet */
    LLVMValueRef far_slots;   /* where arguments and results of calls for LP_FAR lie, NULL: none yet */
    LLVMValueRef
        lane_index; /* lane of the innermost scalar loop marked for vectors, for lanes kept in memory */
    struct capture *captures;
    uint32_t n_captures, cap_captures;
};

/* A place in memory that is known in the block in which it was found. */
struct known_place {
    LLVMBasicBlockRef block;
    LLVMValueRef index, place;
    uint32_t buffer;
};
enum { KNOWN_PLACES = 64 };

struct emitter {
    const struct lp *p;
    const struct emit_options *options;
    struct plan plan;
    uint32_t vector_bytes;
    bool has_fma, has_f16; /* f16: conversions are instructions */
    bool has_pairs;        /* op_pairs is an instruction */
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr, nothing;
    struct func *f;
    struct wide *w; /* NULL: scalar code */
    struct known_place places[KNOWN_PLACES];
    uint32_t instances;       /* vector loops begun so far */
    uint32_t bodies;          /* outlined functions made so far */
    const char *name;         /* of the entry function, or of the procedure */
    LLVMValueRef *procedures; /* of the program: those emitted so far */
    LLVMValueRef give;        /* hands arrays to procedures; NULL: not emitted yet */
    LLVMValueRef product;     /* calls the runtime for products; NULL: not emitted yet */
    const struct lp *program; /* p, or the program whose procedure p is */
    void *memory;             /* chunks of emit_alloc, newest first */
    char *next;
    size_t left;
    char *error;
    bool no_memory; /* that is why it failed */
    bool broken;    /* LLVM was left in the middle of something: what it holds is lost */
    jmp_buf failed;
};

_Noreturn void emit_fail(struct emitter *e, const char *format, ...) HOP_PRINTF(2, 3);
void *emit_alloc(struct emitter *e, size_t bytes); /* cleared, freed with the emitter */
#define EMIT_NEW(e, T, n) ((T *)emit_alloc((e), sizeof(T) * (size_t)(n)))

enum { TABLE_PAGE = 64 };
static inline struct table table_new(struct emitter *e, uint32_t n)
{
    return (struct table){ EMIT_NEW(e, void *, n / TABLE_PAGE + 1) };
}
static inline void *table_at(struct emitter *e, const struct table *t, uint32_t i, size_t size)
{
    void **page = &t->pages[i / TABLE_PAGE];
    if (!*page) *page = emit_alloc(e, TABLE_PAGE * size);
    return (char *)*page + i % TABLE_PAGE * size;
}
static inline struct known_value *known_value(struct emitter *e, lpv v)
{
    return table_at(e, &e->f->values, v, sizeof(struct known_value));
}
static inline struct known_array *known_array(struct emitter *e, uint32_t buffer)
{
    return table_at(e, &e->f->arrays, buffer, sizeof(struct known_array));
}
static inline struct held *known_var(struct emitter *e, uint32_t loop)
{
    return table_at(e, &e->f->vars, loop, sizeof(struct held));
}
static inline struct held *known_slot(struct emitter *e, uint32_t slot)
{
    return table_at(e, &e->f->slots, slot, sizeof(struct held));
}

static inline uint32_t size_of(enum dtype t)
{
    static const uint8_t sizes[DT_COUNT] = {
        [DT_BOOL] = 1, [DT_I8] = 1,  [DT_I16] = 2, [DT_I32] = 4,  [DT_I64] = 8, [DT_U8] = 1, [DT_U16] = 2,
        [DT_U32] = 4,  [DT_U64] = 8, [DT_F16] = 2, [DT_BF16] = 2, [DT_F32] = 4, [DT_F64] = 8
    };
    return sizes[t];
}
static inline bool is_float(enum dtype t)
{
    return t == DT_F32 || t == DT_F64;
} /* f16 and bf16 are words of 16 bits that are cast, nothing else */
static inline bool is_signed(enum dtype t) { return t >= DT_I8 && t <= DT_I64; }
_Static_assert(DT_I8 + 1 == DT_I16 && DT_I16 + 1 == DT_I32 && DT_I32 + 1 == DT_I64,
               "signed integers stand together");
static inline const struct lp_instr *instr(const struct emitter *e, lpv v) { return &e->p->instrs.data[v]; }
static inline enum dtype dtype_of(const struct emitter *e, lpv v)
{
    return (enum dtype)e->p->instrs.data[v].dtype;
}
static inline uint32_t slot_of_buffer(const struct emitter *e, uint32_t buffer)
{
    return e->p->locals.len + buffer;
}
bool const_int(const struct emitter *e, lpv v, int64_t *out);
static inline uint32_t power_above(uint32_t n)
{
    uint32_t r = 1;
    while (r < n) r *= 2;
    return r;
}

/* llvm_plan.c */
void plan_make(struct emitter *e);

/* llvm_share.c */
void share_find(struct emitter *e);  /* before the plan: nests and which are equal */
bool share_check(struct emitter *e); /* after who touches what is known: takes back what cannot be shared;
                                        true when that changed something */
struct capture share_translate(
    const struct emitter *e, const struct top_loop *of,
    struct capture c); /* from the names of the nest that was emitted to those of `of` */

/* llvm_section.c */
bool section_is_large(const struct emitter *e, const struct lp_block *block);
void section_find(struct emitter *e);   /* once it is known which nests are equal */
void section_layout(struct emitter *e); /* once it is known who touches what */
struct section *section_at(const struct emitter *e,
                           const struct lp_stmt *s); /* the section that begins there, or NULL */
static inline bool is_section(const struct emitter *e, uint32_t function)
{
    return function != HOP_NONE && function >= e->p->loops.len;
}
/* The function whose stack a small buffer lies on. What a section has in one of its own may be wanted when it
 * is called for the next step of the loop that it stands in. */
static inline uint32_t memory_home(const struct emitter *e, uint32_t buffer)
{
    uint32_t home = e->plan.buffers[buffer].home;
    return is_section(e, home) ? HOP_NONE : home;
}

/* llvm_ops.c: `lanes` 0 is a scalar */
LLVMTypeRef type_value(struct emitter *e, enum dtype t, uint32_t lanes);
LLVMTypeRef type_memory(struct emitter *e, enum dtype t, uint32_t lanes); /* bool is a byte */
LLVMValueRef const_bits(struct emitter *e, enum dtype t, uint32_t lanes, uint64_t bits);
LLVMValueRef const_index(struct emitter *e, int64_t v);
LLVMValueRef build_splat(struct emitter *e, LLVMValueRef x, uint32_t lanes);
LLVMValueRef call_intrinsic(struct emitter *e, const char *name, LLVMTypeRef *overloads, uint32_t n_overloads,
                            LLVMValueRef *args, uint32_t n_args);
/* What a pure operation is computed from; t is the dtype of a. i is the instruction, NULL where the operation
 * has two operands and is not one of the program's. */
struct operands {
    const struct lp_instr *i;
    enum dtype t;
    uint32_t lanes;
    LLVMValueRef a, b, c;
};
LLVMValueRef op_emit(struct emitter *e, enum lp_op op, const struct operands *o);
/* Two vectors of products of bytes, each a vector of this many 32-bit integers: the sums of neighbours, which
 * is what the processor's dot products give; NULL: they are no such products, or there is no such
 * instruction. Summed over all lanes it is the sum of both. */
LLVMValueRef op_pairs(struct emitter *e, uint32_t lanes, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef op_binary(struct emitter *e, enum lp_op op, enum dtype t, uint32_t lanes, LLVMValueRef a,
                       LLVMValueRef b);
/* The same number, of which LLVM's loop strength reduction cannot see that it comes from a counter: it would
 * look for the cheapest way to every sum that is made of it, which are hundreds in random bits, and in a loop
 * around loops gains nothing. An element of a vector that nobody keeps costs nothing. */
LLVMValueRef no_longer_a_counter(struct emitter *e, LLVMValueRef a);
LLVMValueRef op_cast(struct emitter *e, enum dtype to, enum dtype from, uint32_t lanes, LLVMValueRef a);
LLVMValueRef op_trailing_zeros(struct emitter *e, LLVMValueRef a); /* of an integer that is not 0 */
LLVMValueRef op_fold(struct emitter *e, enum lp_fold fold, enum dtype t, uint32_t lanes, LLVMValueRef a,
                     LLVMValueRef b);

/* llvm_access.c: values, loads, stores, lanes */
struct held value_new(struct emitter *e, enum form form, uint32_t n);
struct held scalar_value(struct emitter *e, LLVMValueRef x);
const struct held *value_get(struct emitter *e, lpv v);
LLVMValueRef value_scalar(struct emitter *e, lpv v);
LLVMValueRef value_part(struct emitter *e, lpv v,
                        uint32_t part); /* a vector of the current loop's lanes, or the scalar outside */
LLVMValueRef stack_slot(struct emitter *e, LLVMTypeRef type, uint32_t count, uint32_t align);
LLVMValueRef buffer_pointer(struct emitter *e, uint32_t buffer);
LLVMValueRef frame(struct emitter *e);              /* what sections share, in the entry's memory */
LLVMValueRef value_place(struct emitter *e, lpv v); /* in the frame */
LLVMValueRef buffer_address(struct emitter *e, uint32_t buffer, LLVMValueRef index);
LLVMValueRef rt_function(struct emitter *e,
                         size_t offset); /* pointer at that offset of the runtime's table */
LLVMValueRef lane_address(struct emitter *e, uint32_t local, LLVMValueRef lane);
void slot_ready(
    struct emitter *e,
    uint32_t slot); /* a slot that nothing was stored in becomes 0, or what the parent has there */
void emit_let(struct emitter *e, lpv v, uint32_t part);
void emit_store(struct emitter *e, const struct lp_stmt *s, uint32_t part);
void emit_set(struct emitter *e, const struct lp_stmt *s, uint32_t part);
void emit_accumulate(struct emitter *e, const struct lp_stmt *s, uint32_t part);
LLVMValueRef captured(struct emitter *e,
                      struct capture c); /* what the function being emitted has to give for it */
LLVMValueRef symbols_pointer(struct emitter *e);
LLVMValueRef buffers_table(struct emitter *e);
LLVMValueRef given_table(struct emitter *e); /* the same, for procedures: threads have one each */

/* llvm_stmt.c */
LLVMBasicBlockRef new_block(struct emitter *e, const char *name);
LLVMBasicBlockRef exit_block(struct emitter *e, hop_status status);
/* The body for variable = start, start + step, … below limit (above, when the step is a negative constant);
 * returns the variable after the last trip. */
LLVMValueRef counted_loop(struct emitter *e, const struct lp_stmt *s, LLVMValueRef start, LLVMValueRef limit,
                          uint32_t times, bool guard);
void emit_block(struct emitter *e, const struct lp_block *block);
void emit_section_body(struct emitter *e, const struct section *s);
/* Scalar locals that the section sets and others touch. */
uint32_t section_sets(struct emitter *e, const struct section *s, uint32_t **locals);
void emit_loop(struct emitter *e, const struct lp_stmt *s); /* in the current function, serial or widened */
void func_begin(struct emitter *e, struct func *f, uint32_t loop, LLVMValueRef fn);
void func_end(struct emitter *e);
LLVMValueRef emit_entry(struct emitter *e); /* e->p as a function called e->name */

/* llvm.c */
void func_attributes(struct emitter *e, LLVMValueRef fn);

/* llvm_call.c */
void emit_call(struct emitter *e, const struct lp_call *c);
uint32_t emit_calls(struct emitter *e, const struct lp_stmt *s, uint32_t n);
void emit_parallel(struct emitter *e, const struct lp_stmt *s);
void emit_shared(struct emitter *e, const struct lp_stmt *s);
void emit_section(struct emitter *e, struct section *s);

#pragma GCC visibility pop

#endif
