/* Function-to-function transforms. All are memoised in the module by (function, masks) and closed: their
 * results can be transformed again. The passes that they run themselves, trips and pack above all, are those
 * that m->without leaves on. */
#ifndef HOP_TRANSFORM_H
#define HOP_TRANSFORM_H

#include "ir/table.h"

/* ---- reverse mode ---- */

/* f: (x…) -> (y…)   becomes   (x…, ct of each float y…) -> (y…, ct of each x with wrt[x]…).
 * A cotangent that is zero is materialised. wrt on a non-float parameter is an error. */
uint32_t vjp_function(struct module *m, uint32_t fn, const bool *wrt);
/* The same with cotangents of the results in `wanted` alone (NULL: all); the others' are zero. */
uint32_t vjp_of_some(struct module *m, uint32_t fn, const bool *wrt, const bool *wanted);
/* f with one float scalar result first: (x…) -> (grad of each wrt x…), with `value` (y…, grads…). */
uint32_t grad_function(struct module *m, uint32_t fn, const bool *wrt, bool value);

/* For rows: a function differentiated in two halves.
 * active[n_params]: parameters that are differentiated (only float ones count). wanted[n_results]: results
 * that may get cotangents. forward: (x…) -> (y…, residual…); backward: (residual…, ct of each result in
 * ct_results…) -> (ct of each parameter in ct_params…). Residuals that are parameters of f are not returned
 * by forward: residual r with source_param[r] != NONE is that parameter; residual r with source_result[r] !=
 * NONE equals result number of f. So nothing is stacked twice. No residual's type mentions a symbol bound
 * inside f: what would is computed again in backward. What cheap nodes can make again from other residuals is
 * made again in backward where that leaves less to keep. The first n_costly parameters and results (a loop's
 * carries) must be stored to be residuals, all others are there anyway. recompute: nothing but parameters
 * (and results that are there anyway, and values tagged `keep`) is kept, backward runs f again. A value
 * tagged `keep` is kept rather than made again, one tagged `recompute` is made again by whatever made it.
 * Structurally zero cotangents are not among ct_params (ct_param[p] false though active). */
struct vjp_halves {
    uint32_t forward, backward;
    uint32_t n_residuals;
    uint32_t *source_param, *source_result; /* HOP_NONE: an extra result of forward, in order */
    bool *ct_result;                        /* [n_results]: backward takes a cotangent for it */
    bool *ct_param;                         /* [n_params]: backward gives one */
    const struct saved_list *saved;         /* what loops and branches inside keep while the function runs */
    bool guarded; /* backward runs again what is dear, or what a tag names: where both halves meet in one
                     function, residuals go through a barrier, or the two would be merged */
};
const struct vjp_halves *vjp_split(struct module *m, uint32_t fn, const bool *active, const bool *wanted,
                                   uint32_t n_costly, bool recompute);
/* The same where there is no place for extra results of forward: every residual is a parameter or a result,
 * whatever is tagged, also in bodies inside. */
const struct vjp_halves *vjp_split_ends(struct module *m, uint32_t fn, const bool *active,
                                        const bool *wanted);
/* The same for a whole function: results of forward may have any size, so residuals may have sizes that f's
 * nodes bind; they are further outer symbols of backward. */
const struct vjp_halves *vjp_split_whole(struct module *m, uint32_t fn, const bool *active,
                                         const bool *wanted);
/* Gradients made between the two have this price. */
struct price_scope {
    struct module *m;
    struct price around;
};
void price_begin(struct price_scope *s, struct module *m, struct price price);
void price_end(struct price_scope *s);
/* The two halves of f in one function again, what backward runs again kept apart by a barrier: (x…, ct…) ->
 * (y…, ct of wrt…), or without `cts` (x…) -> (y… if `value`, gradients of the first result). HOP_NONE: sizes
 * that only f knows would have to be named. */
uint32_t vjp_join(struct module *m, const struct fn *f, const struct vjp_halves *h, const bool *wrt, bool cts,
                  bool value);
/* For users: forward (x…) -> (y…, residual…); backward (x…, y…, residual…, ct of each float y…) -> (ct of
 * each wrt x…), zeros where none came; linear (x…, y…, residual…, tangent of each wrt x…) -> (tangent of each
 * float y…). Arguments and results are no residuals: they are given as they are. wanted: which float y have
 * cotangents and tangents; NULL: all. */
void vjp_two_functions(struct module *m, uint32_t fn, const bool *wrt, const bool *wanted, uint32_t *forward,
                       uint32_t *backward);
void jvp_two_functions(struct module *m, uint32_t fn, const bool *wrt, const bool *wanted, uint32_t *forward,
                       uint32_t *linear);
/* Which results depend on active parameters through differentiable nodes? */
void vjp_active_results(struct module *m, uint32_t fn, const bool *active, bool *results);
/* What a call is differentiated for. */
struct question {
    const bool *active; /* per operand */
    const bool *wanted; /* per result */
};
struct call_question {
    struct question q;
    const struct question *all; /* those of all calls of the body, q among them, if there is more than one */
    uint32_t n_all, which;
};
/* Per node of f: the question whose halves a call takes, which is another one than its own where few calls of
 * the same body ask that; NULL: its own, and all others ask it, too; NULL for all: f has one call at most.
 * In `arena`. Activity is guessed, never too little: a call whose guess was too much asks for more than it
 * needs. */
const struct call_question **call_questions(struct arena *arena, struct module *m, const struct fn *f,
                                            const bool *active, const bool *wanted);
/* One forward half for several questions: the results of fn, then whatever any of their backward halves
 * keeps, once. at: per question, per value that its own forward half gives besides the results. NULL: it
 * would be far more than what each of them needs, or cannot be. */
struct common_forward {
    uint32_t forward;
    const uint32_t *const *at;
};
const struct common_forward *vjp_common_forward(struct module *m, uint32_t fn, const struct question *all,
                                                uint32_t n, bool recompute);

/* ---- what a gradient keeps, for people ---- */

struct saved_value {
    const struct op_row *by; /* the operator whose gradient reads it */
    struct place place;      /* of the node */
    uint32_t name;           /* string id of the value's name, 0: none */
    type_id type;            /* of one row */
    dim rows;                /* HOP_NONE: one value, not a row a step */
    bool there;              /* it is there anyway: keeping it costs nothing */
    const char *why;
    uint32_t policy;          /* string id of the policy of the call that it comes from, 0: none */
    const struct fn *forward; /* the half of what keeps it in which it is made; NULL: nobody asks */
    val made;
    uint32_t tag; /* string id of the name that a tag gives it, 0: none; see saved_traced */
};
struct saved_list {
    vec(struct saved_value) values;
    vec(struct saved_inside {
        const struct op_row *row;
        struct place place;
        const struct saved_list *list;
    }) inside;                    /* of bodies, each while it runs once */
    const struct symbol *symbols; /* of the types */
};
/* Rows say what they keep where they decide it. Types and dims are those of the builder of the function being
 * differentiated. */
void saved_add(struct module *m, struct saved_value v);
void saved_add_inside(struct module *m, const struct op_row *row, struct place place,
                      const struct saved_list *list);
/* With the tag, and where one says that it is kept also the policy and why, looked for when somebody asks. */
struct saved_value saved_traced(const struct module *m, const struct saved_value *v);
const struct saved_list *saved_last(
    const struct module *m); /* of the gradient (vjp_function, grad_function) made last; NULL: none */

/* ---- forward mode ---- */

/* (x…, tangent of each active x…) -> (y…, tangent of each y with result_active…). `result_active` is filled.
 * Float parameters only. */
uint32_t jvp_function(struct module *m, uint32_t fn, const bool *active, bool *result_active);
/* Of a function that is linear in some of its parameters: (parameters…, ct of each float result…) -> (ct of
 * each of those parameters…), which does not read them. One that is not linear is an error: "what is not
 * linear …, so there is no other". */
uint32_t transpose_function(struct module *m, uint32_t fn, const bool *linear, const char *what,
                            const char *other);

/* ---- batching ---- */

/* Every batched parameter gets a leading dim. size: a constant dim, or HOP_NONE for a fresh symbol of the new
 * function (its last outer symbol, bound by the batched parameters). result_batched is filled; with force[r]
 * (NULL: none) result r is broadcast if need be. lanes: the function gets one more parameter in front,
 * bool[size], that masks effects. */
uint32_t batch_function(struct module *m, uint32_t fn, const bool *batched, dim size, const bool *force,
                        bool lanes, bool *result_batched);
/* The same over the lanes of a named axis (ir/axes.h), whose collectives become operators on all of them. */
uint32_t batch_axis(struct module *m, uint32_t fn, const bool *batched, dim size, const bool *force,
                    bool lanes, axis_set axis, bool *result_batched);
/* For the user: any axes. in_axes[p] / out_axes[r]: -1 not batched, else where the batch dim stands. */
uint32_t vmap_function(struct module *m, uint32_t fn, const int *in_axes, const int *out_axes);
uint32_t vmap_axis(struct module *m, uint32_t fn, const int *in_axes, const int *out_axes, axis_set axis);

/* ---- the first NaN ---- */

/* The same function, which ends with HOP_CHECK where an operator makes a NaN (or an infinity, if asked) that
 * is not in what it computes from; the message says which, in which trips of the loops around and in which
 * lane. With `arguments` one that has a NaN is told of, too. Operators that are watched already are left
 * alone. */
uint32_t debug_nans_function(struct module *m, uint32_t fn, bool infinities, bool arguments);
/* Is it a function of which some operators are watched? Also for infinities? */
bool debug_nans_within(struct module *m, uint32_t fn, bool *infinities);

/* ---- functions that update parameters ---- */

/* To the engines above, a parameter's new content is a result like any other. What a user transforms keeps to
 * these rules: derivatives are taken at the content on entry, and do not update anything; a value with its
 * gradient, and a batched function, update what the function did. */
uint32_t visible_function(struct module *m, uint32_t fn); /* without the results that are new contents; what
                                                             vjp_function and jvp_function are given */
uint32_t grad_of(struct module *m, uint32_t fn, const bool *wrt,
                 bool with_value); /* of the first result that is no new content; with the value these come
                                      after the others */
uint32_t jvp_of(struct module *m, uint32_t fn,
                const bool *wrt); /* (x…, tangent of each wrt x…) -> (y…, tangent of each float y…), zeros
                                     where none came */
/* out_axes of new contents are not looked at: they are the parameters'. */
uint32_t vmap_of(struct module *m, uint32_t fn, const int *in_axes, const int *out_axes, axis_set axis);
uint32_t batch_of(
    struct module *m, uint32_t fn, const bool *batched,
    dim size); /* every result but the new content of an unbatched parameter gets the leading dim */

/* ---- helpers that rows and transforms share ---- */

/* The same function with its while_loops counted where their trips can be (pass_trips.c), its bodies as they
 * are: gradients and lanes of a counted loop are cheaper. stacked: also those that stack rows. The function
 * itself where m->without switches `trips` off. */
uint32_t count_loops(struct module *m, uint32_t fn, bool stacked);
/* The same function with many carries of one kind as one array each (pass_pack.c), its bodies as they are:
 * the gradient of one operator on an array is smaller than those of its elements. The function itself where
 * m->without switches `pack` off. */
uint32_t pack_loops(struct module *m, uint32_t fn);

val zeros_like(struct builder *b, val v);
val zeros_of(struct builder *b, type_id t);
val add_cotangents(struct builder *b, val x, val y); /* either may be VAL_NONE */

/* Inlines a function into b. symbols: what its outer symbols are in b; NULL: its symbol k is b's symbol k. */
void inline_function(struct builder *b, uint32_t fn, const dim *symbols, const val *args, val *results);

/* The function without the results for which keep is false (NULL: all stay), without nodes that nothing
 * needs, and without results and operands of its higher-order nodes that nothing needs. Parameters stay. */
uint32_t prune_function(struct module *m, uint32_t fn, const bool *keep);
/* The same without its effects: nothing stays that no kept result needs. */
uint32_t strip_effects(struct module *m, uint32_t fn, const bool *keep);
/* May a function that has run be run once more for these results? Not if what they are made of does something
 * else besides: only a check does nothing the second time. */
bool can_run_again(struct module *m, uint32_t fn, const bool *keep);

/* Records of transforms already made, by (tag, function, mask): equal masks find the same record whatever
 * their length. */
enum memo_tag {
    MEMO_VJP = 0x7a01,
    MEMO_GRAD,
    MEMO_SPLIT,
    MEMO_COMMON,
    MEMO_ACTIVE,
    MEMO_JVP,
    MEMO_BATCH,
    MEMO_READ,
    MEMO_TRIM,
    MEMO_DEPENDS,
    MEMO_LINEAR,
    MEMO_BUDGET
};
void *transform_recall(const struct module *m, enum memo_tag tag, uint32_t fn, uint64_t word,
                       const bool *mask, uint32_t n); /* NULL: none */
void transform_remember(struct module *m, enum memo_tag tag, uint32_t fn, uint64_t word, const bool *mask,
                        uint32_t n, void *record);

/* ---- between vjp.c and partition.c ---- */

/* A function and its pullback in one: (x…, ct…) -> (y…, ct of parameters…), nodes below n_forward compute the
 * y. */
struct joint {
    uint32_t fn, n_forward;
    uint32_t n_early;         /* nodes that the price of early ones holds for */
    uint32_t n_x, n_y;        /* parameters and results of the function itself; the rest are cotangents */
    const uint32_t *ct_of;    /* per cotangent parameter: the result it belongs to */
    uint32_t n_outer_symbols; /* of the function itself: further ones are sizes of cotangents */
    uint32_t n_costly;        /* see vjp_split */
    bool recompute, whole;
    bool ends; /* with recompute: not even what is tagged `keep` is kept */
};
/* Is a value of f tagged `recompute`? */
bool partition_recomputes(const struct fn *f);
/* Fills forward, backward, residuals and ct_result. */
void partition_joint(struct module *m, const struct fn *f, const struct joint *j, struct vjp_halves *out);

#endif
