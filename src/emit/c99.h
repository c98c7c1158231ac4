/* The C99 back end: loop programs in, one self-contained translation unit and its header out. Nothing of hop
 * is needed to compile or run the text; it needs a C99 compiler and libm. In strict mode its results are
 * those of the interpreter, bit for bit. */
#ifndef HOP_C99_H
#define HOP_C99_H

#include "loop/lower.h"
#include "transform/once.h"

struct c99_options {
    const char *name;          /* of the C function; NULL: the function's */
    const struct fn *original; /* the function before the passes, for its name and those of its results; NULL:
                                  the entry function */
    const char *const *results; /* names of results, NULL where the program's are good; NULL: nowhere */
    const char *const *params;  /* the same of parameters */
    /* Per parameter NULL, or what it is: the function has it as a constant of its own, row-major. NULL: none
     * of them. */
    const struct tensor *const *constants;
    /* c99_function: parameters of which `once` regions are computed, by a function of their own, NAME_init,
     * whose results are further parameters of the function. */
    struct once_marks constant;
    bool plain;         /* c99_function: in c99_plain_dialect */
    bool derived;       /* its name belongs to another function of the unit */
    const char *remark; /* a line for the comment above its declaration; NULL: none */
    int64_t capacity;   /* > 0: a growing buffer has room for this many elements, in fixed memory; 0: it comes
                           from the caller's allocator */
    bool adapter; /* also write `NAME_call`, which takes everything through arrays (struct c99_adapter below)
                   */
};
/* What `NAME_call` takes: symbols in the order of the entry function (data-dependent ones are written), an
 * address per argument (the program writes to those in which it leaves a result, lp.updates), and per other
 * result the caller's memory; a result that grows is written there as a pointer to memory from the context's
 * allocator (NULL: empty). */
typedef int c99_adapter(int64_t *symbols, const void *const *args, void **results, void *workspace,
                        void *context);
typedef size_t c99_adapter_bytes(const int64_t *symbols); /* `NAME_bytes`: of the workspace */

/* The callbacks of `struct hop_c_context` as the header declares it; a copy for those who call emitted code
 * from inside hop. */
struct c99_value {
    const void *data;
    int dtype, rank; /* enum dtype */
    const int64_t *dims;
};
struct c99_context {
    void *user;
    void *(*resize)(void *user, void *block, size_t bytes);
    void (*print)(void *user, const char *format, int n, const struct c99_value *values);
    void (*failed)(void *user, const char *place, const char *message, int n, const struct c99_value *values);
    int (*callback)(void *user, const char *name, int n, const struct c99_value *values);
    const volatile int *cancel;
    const char *place, *message;
};
enum c99_status {
    C99_OK,
    C99_CHECK,
    C99_NOMEM,
    C99_CAPACITY,
    C99_SIZE,
    C99_CANCELLED,
    C99_CALLBACK,
    C99_OPERATOR
};

/* A language like C as a table: what it says in place of words of C99 (types, qualifiers, functions of libm,
 * helpers) and of the marks that emitted text has where C99 says nothing. A helper whose name (hop_…) has
 * another word is not defined: the language has it. Everything but the head comment and the declarations that
 * a host includes is written through it. */
struct c99_word {
    const char *word, *as;
};
struct c99_dialect {
    /* Ends with a NULL; NULL: none. Marks: `$entry` stands before a function that the host calls, `$buffer`
     * before the type of an array that is given to a function or lies in its workspace, `$vector` before a
     * loop whose iterations may run side by side. */
    const struct c99_word *words;
    const char *preamble; /* before the helpers: includes, pragmas, definitions */
    bool cblas;           /* large products call CBLAS where whoever compiles asks for it */
    bool vectors; /* loops are also written in the vector types of GCC and clang, products if cblas as well */
};
extern const struct c99_dialect c99_own_dialect;   /* C99, with vector types where compilers have them */
extern const struct c99_dialect c99_plain_dialect; /* C99 without a word beyond it */

enum { C99_MOST_HELPERS = 192 };
struct c99_operator { /* from outside: a function that the unit declares and calls */
    const char *name, *c_name;
};
struct c99_unit { /* a translation unit under construction */
    struct arena *arena;
    const struct c99_dialect *dialect;
    struct text functions, prototypes;
    bool helpers[C99_MOST_HELPERS]; /* that the functions call */
    bool strict, adapters;
    bool products[2]; /* of f32, of f64 */
    /* Of loops in vector types: whether there are any, element types and classes in use, functions that work
     * lane by lane. */
    bool has_vectors, has_far, vectors[DT_COUNT][2];
    vec(const char *) lane_functions;
    struct text lane_text;
    vec(const char *) names; /* of its functions */
    vec(struct c99_operator) operators;
};
void c99_begin(struct c99_unit *unit, struct arena *arena, const struct c99_dialect *dialect);
/* The loop program of a function as C is written from it. The caller frees it with lp_free. */
struct lp *c99_lower(struct module *m, uint32_t fn, const struct pass_options *passes);
/* Adds a planned program (lp_plan). Gives the C function's name. */
const char *c99_add(struct c99_unit *unit, const struct lp *p, const struct c99_options *o);
/* The texts; `header_name` is what the source includes, NULL: the declarations stand in the source itself. */
void c99_finish(struct c99_unit *unit, const char *header_name, struct text *source, struct text *header);
/* A function of a module, lowered and planned, as a unit of its own; options.original is filled in. Memory
 * comes from the source's arena; header NULL: none is wanted. */
void c99_function(struct module *m, uint32_t fn, const struct pass_options *passes,
                  const struct c99_options *o, const char *header_name, struct text *source,
                  struct text *header);

#endif
