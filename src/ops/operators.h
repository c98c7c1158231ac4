/* Functions of the host that programs call by name: operators from outside, and callbacks, which take any
 * operands and give no results. The registry belongs to the process; a run may bring a taker of its own for
 * all callbacks instead. */
#ifndef HOP_OPERATORS_H
#define HOP_OPERATORS_H

#include "ir/operator.h"
#include "ir/table.h"

/* What is registered under a name. It stays as it is for as long as somebody holds it. */
struct registered {
    struct registered *next; /* in its bucket; guarded by the lock */
    uint64_t hash;
    int32_t refs; /* the table's and one per holder; guarded by the lock */
    hop_operator_run run;
    hop_callback_fn callback; /* in place of `run` */
    hop_operator_infer infer;
    void *user;
    void (*release)(void *user);
    bool strided, together, alone;
    effect_set effects;
    uint32_t version;
    hop_fn *rules[OPERATOR_RULES];
    hop_operator_rule bodies[OPERATOR_RULES];
    const char *signature; /* as the declaration has it */
    bool any;              /* what the signature says, for those who call it */
    uint32_t n_params, n_results;
    const uint8_t *flags; /* per parameter: enum operator_param_flags */
    char name[];
};

/* NULL: there is none. What was held is to be dropped. */
struct registered *operator_hold(const char *name);
void operator_drop(void *registered);
/* All that are registered, by name, each held once more (NULL ends); throws. */
struct registered **operators_held(struct arena *a);
/* The same, but it must be there and be what the program declares: throws if it is not. `place` is what
 * place_text gives. */
struct registered *operator_expect(const char *place, const char *name, const char *signature,
                                   effect_set effects, uint32_t version);
/* Its declaration in a module, which makes it known there. Throws when the module has another one. */
const struct operator_decl *operator_declared(struct module *m, const struct registered *r);
/* What a run ends with when the function of an operator returned something else than 0: throws. */
_Noreturn void operator_failed(const char *place, const char *name, int status, const char *message);
enum { OPERATOR_MESSAGE_ROOM = 512 };
/* Calls its function. One that takes no views with strides gets row-major copies of them, which are copied
 * back. */
int operator_run(const struct registered *of, hop_operator_call *call, void *const *data,
                 const int64_t *sizes);

/* What the run that calls an operator gives on to runs inside of it: where lines go, and what may end it. */
struct outlet {
    void (*print)(void *ctx, const char *line, size_t length);
    void *print_ctx;
    const volatile int *cancel;
    int (*confirm)(void *ctx);
    void *confirm_ctx;
};
/* Of the call at work on this thread, NULL: none. Setting gives the one before. */
const struct outlet *outlet_get(void);
const struct outlet *outlet_set(const struct outlet *o);

/* Takes the calls of one run in place of the registered functions: commands show them. Throws to end the run.
 */
typedef void callback_taker(void *ctx, const char *name, struct tensor *const *args, uint32_t n);

/* One call: by the taker, else by the function registered under the name. `place` is what place_text gives.
 * Throws when there is none, and with the status that the function returned. The tensors need not outlive the
 * call: functions get handles of their own over the same memory. */
void callback_call(callback_taker *taker, void *ctx, const char *place, const char *name,
                   struct tensor *const *args, uint32_t n);

/* "log(1, [2, 3])": how commands show a call. */
void callback_text(struct text *out, const char *name, struct tensor *const *args, uint32_t n);

#endif
