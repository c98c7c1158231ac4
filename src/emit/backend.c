/* The list of back ends, and the one of them whose programs are machine code of the host: objects come from
 * the plug-in, are loaded here, and need no plug-in when they come from the cache. */
#include "emit/backend.h"
#include "loop/lp_walk.h"

static const struct backend *const backends[] = {
#define BACKEND(name) &name##_backend,
#include "emit/backends.def"
#undef BACKEND
};

const struct backend *backend_at(uint32_t n) { return n < HOP_COUNT(backends) ? backends[n] : NULL; }

const struct backend *backend_named(const char *name)
{
    char names[256] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < HOP_COUNT(backends); i++) {
        if (!strcmp(backends[i]->name, name)) return backends[i];
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", backends[i]->name);
    }
    hop_throw(HOP_INVALID, "there is no back end '%s'; the back ends are %s", name, names);
}

/* ---- what a program asks for ---- */

static uint32_t needed_by_call(const struct lp_call *c)
{
    if (lp_is_site(c)) return ABLE_TO_TELL | (c->n_found ? ABLE_TO_GROW : 0);
    if (c->kind == CALL_RESERVE) return ABLE_TO_GROW;
    if (c->kind == CALL_EXCHANGE) return ABLE_TO_TELL;
    bool multiplies = c->kind == CALL_GEMM || c->kind == CALL_PACK || c->kind == CALL_CONV;
    return multiplies ? ABLE_TO_MULTIPLY : 0;
}

static uint32_t needed_by(const struct lp_block *block)
{
    uint32_t needed = 0;
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        if (s->kind == LP_CALL) needed |= needed_by_call(s->call);
        needed |= needed_by(s->body) | needed_by(s->other);
    }
    return needed;
}

void backend_accept(const struct backend *b, const struct lp *p)
{
    static const struct {
        uint32_t ability;
        const char *what;
    } asked[] = { { ABLE_TO_TELL, "checks, prints, callbacks, operators or exchanges with ranks" },
                  { ABLE_TO_GROW, "arrays whose size is found while running" },
                  { ABLE_TO_MULTIPLY, "a library's matrix products" } };
    if (b->available && !b->available()) hop_throw(HOP_UNAVAILABLE, "%s", hop_message());
    uint32_t needed = needed_by(p->root);
    for (uint32_t i = 0; i < p->procedures.len; i++) needed |= needed_by(p->procedures.data[i]->root);
    for (uint32_t i = 0; i < HOP_COUNT(asked); i++)
        if (needed & asked[i].ability & ~b->abilities)
            hop_throw(HOP_UNAVAILABLE, "the program has %s, which the back end '%s' cannot run",
                      asked[i].what, b->name);
}

/* ---- machine code of the host ---- */

static bool llvm_available(void) { return plug_in_get() != NULL; }

static int llvm_compile(const struct lp *p, const struct emit_options *o, struct native *out, char error[512])
{
    return plug_in_get()->compile(p, o, out, error);
}

static int native_load(const void *object, size_t bytes, const struct lp *p, struct loaded_program *out,
                       char error[512])
{
    static const struct launch_step whole = { LAUNCH_KERNEL, 0 };
    HOP_UNUSED(p);
    *out = (struct loaded_program){ .steps = &whole, .n_steps = 1, .n_kernels = 1 };
    return object_load(object, bytes, &out->code, error);
}

static void native_unload(struct loaded_program *p) { object_unload(&p->code); }

static int32_t native_launch(struct launch *l, uint32_t kernel)
{
    HOP_UNUSED(kernel);
    return l->program->code.entry(l->rt, l->buffers, l->symbols);
}

const struct backend llvm_backend = {
    .name = "llvm",
    .meaning = "machine code of this processor, made by LLVM",
    .abilities = ABLE_TO_KEEP | ABLE_TO_TELL | ABLE_TO_GROW | ABLE_TO_MULTIPLY,
    .available = llvm_available,
    .compile = llvm_compile,
    .load = native_load,
    .unload = native_unload,
    .launch = native_launch,
};
