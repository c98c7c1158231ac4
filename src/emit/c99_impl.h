/* What the files of the C99 back end share: the state of writing one function. */
#ifndef HOP_C99_IMPL_H
#define HOP_C99_IMPL_H

#include "emit/c99.h"
#include "loop/lp_walk.h"

struct c99 {
    const struct lp *p;
    const struct fn *f; /* the entry */
    const struct c99_options *o;
    struct c99_unit *unit;
    struct arena *arena;
    struct text *out;
    const char *name;
    /* per value */
    uint32_t *uses;
    const struct lp_block **home, **used_in; /* of its LET; of its only use */
    bool *in_place;                          /* written where it is used */
    bool *address; /* index arithmetic: it cannot overflow, because memory is smaller */
    /* per local */
    bool *local_read;
    bool *var_used; /* per loop */
    /* per buffer */
    bool *buffer_used;
    bool *buffer_read; /* and not only written */
    const char **buffer_name;
    bool *by_value; /* a scalar argument */
    int64_t *place; /* BUF_TEMP, static: element in its dtype's arena */
    bool *returned; /* BUF_DYN: becomes a result */
    /* per symbol, parameter, result */
    const char **symbol_name, **param_name, **result_name,
        **size_name;              /* size_name: where a data-dependent size goes, NULL: nowhere */
    vec(const char *) names;      /* taken */
    const struct lp_block *block; /* being counted */
    uint32_t lane_loop;           /* the innermost vector loop that keeps lanes, HOP_NONE: none */
    bool context, growing,
        workspace; /* it takes a context; it owns memory that must be given back; it takes a workspace */
    bool left;     /* a goto was written */
    struct c99_vectors *vectors; /* loops in vector types: c99_vector.h */
    struct c99 *parts;           /* the program's procedures: functions of their own */
    uint32_t n_parts;
};

/* Does the function of a procedure take its array b? Not a result that is made in the memory of an argument:
 * that would come twice, and both are `restrict`. */
static inline bool c99_takes(const struct c99 *procedure, uint32_t b)
{
    return b < procedure->p->n_inputs || procedure->buffer_used[b];
}

extern const char *const c99_type[DT_COUNT];  /* in memory */
extern const char *const c99_value[DT_COUNT]; /* as a variable: bool is int */

/* c99_render.c */
void c99_render(const struct c99_dialect *d, const char *text, struct text *out);
/* What a dialect says for a word of C99 or a mark, NULL: the word itself. */
const char *c99_word_of(const struct c99_dialect *d, const char *word, size_t length);

/* c99_library.c */
bool c99_is_word(const char *name);         /* no name of the program may become this */
bool c99_is_library_name(const char *name); /* no function may be called this */

/* c99_helpers.c */
const char *c99_helper(struct c99_unit *unit,
                       const char *name); /* "max_f32" -> "hop_max_f32", and the unit will have it */
void c99_helpers_text(const struct c99_unit *unit, struct text *out);

/* c99_product.c */
const char *c99_product(struct c99_unit *unit, enum dtype t); /* the function that multiplies */
void c99_product_text(const struct c99_unit *unit, struct text *out);

/* c99_expr.c */
void c99_count(struct c99 *e); /* uses, what is written in place, what is an address */
bool c99_is_dead(const struct c99 *e,
                 const struct lp_stmt *s);     /* it sets what nobody reads, or reserves what is fixed */
void c99_put(struct c99 *e, lpv v);            /* an expression */
void c99_put_definition(struct c99 *e, lpv v); /* the expression behind a name */
void c99_put_element(struct c99 *e, uint32_t buffer, lpv index);
void c99_put_pointer(struct c99 *e, uint32_t buffer, lpv index);
void c99_put_lane(struct c99 *e, uint32_t local); /* a local where it is used: its lane in a vector loop */
void c99_put_fold(struct c99 *e, enum lp_fold fold, enum dtype t, void (*left)(struct c99 *, uint32_t),
                  uint32_t local, lpv right);
void c99_put_dim(struct c99 *e, dim d);
void c99_put_string(struct text *out, const char *s);
void c99_put_comment(
    struct text *out,
    const char *s); /* what stands in a comment: no text of the program ends it or goes to another line */
void c99_put_bits(struct c99 *e, enum dtype t, uint64_t bits,
                  bool constant); /* a literal; constant: for an initializer */

/* c99_stmt.c */
void c99_put_block(struct c99 *e, const struct lp_block *block, uint32_t indent);
void c99_put_stmt(struct c99 *e, const struct lp_stmt *s, uint32_t indent);
void c99_put_leave(struct c99 *e, const char *status);
void c99_put_told(struct c99 *e, const struct lp_call *c,
                  uint32_t indent); /* context->place and context->message */

/* c99_operator.c */
const char *c99_operator(const struct c99_unit *unit, const char *name); /* the C function's name */
const char *c99_dtype_code(enum dtype t);                                /* "HOP_C_F32" */
void c99_put_operator(struct c99 *e, const struct lp_call *c, uint32_t indent);

#endif
