/* What the benchmarks share that run programs of bench/cases: a program or its gradient as it is read,
 * arguments drawn by their types, and calls of several sides timed in turns. */
#ifndef HOP_BENCH_PROGRAM_H
#define HOP_BENCH_PROGRAM_H

#include "clock.h"
#include "ir/tensor.h"
#include "ir/text.h"
#include "transform/transform.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ARGS = 24, MAX_RESULTS = 24, MAX_SIDES = 8, MAX_ROUNDS = 201, LEAST_ROUNDS = 5 };

/* 0 to 1. */
static uint64_t noise_state = 88172645463325252u;
static inline double noise(void)
{
    noise_state ^= noise_state << 13, noise_state ^= noise_state >> 7, noise_state ^= noise_state << 17;
    return (double)(noise_state >> 11) / 9007199254740992.0;
}

struct range { /* what arguments are drawn from */
    double least, most;
    int64_t whole; /* integers and bools */
    int64_t size;  /* of every dim that is a symbol */
};

static inline struct tensor *draw(const struct range *r, const struct module *m, struct type t)
{
    int64_t dims[MAX_RANK], symbols[MAX_RANK];
    for (uint32_t d = 0; d < MAX_RANK; d++) symbols[d] = r->size;
    for (uint32_t d = 0; d < t.rank; d++) dims[d] = dim_eval(m, t.dims[d], symbols);
    struct tensor *x = tensor_new((enum dtype)t.dtype, t.rank, dims);
    for (int64_t i = 0; i < x->count; i++) {
        double real = r->least + (r->most - r->least) * noise();
        switch ((enum dtype)t.dtype) {
        case DT_F32: ((float *)x->data)[i] = (float)real; break;
        case DT_F64: ((double *)x->data)[i] = real; break;
        case DT_I64: ((int64_t *)x->data)[i] = r->whole; break;
        case DT_I32: ((int32_t *)x->data)[i] = (int32_t)r->whole; break;
        case DT_BOOL: ((uint8_t *)x->data)[i] = r->whole != 0; break;
        default: hop_throw(HOP_INVALID, "no arguments of type %s are drawn", dtype_info[t.dtype].name);
        }
    }
    return x;
}

/* Is the name in a list with commas? */
static inline bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += n) {
        bool begins = at == list || at[-1] == ',';
        if (begins && (!at[n] || at[n] == ',')) return true;
    }
    return false;
}

/* The gradient of @main by the parameters of a list with commas; @main itself without a list. */
static inline uint32_t main_or_gradient(struct module *m, const char *wrt)
{
    uint32_t fn = module_find(m, "main");
    bool by[MAX_ARGS] = { false };
    const struct fn *f = module_fn(m, fn);
    if (f->n_params > MAX_ARGS) hop_throw(HOP_INVALID, "more than %d parameters", MAX_ARGS);
    for (uint32_t p = 0; wrt && p < f->n_params; p++)
        by[p] = is_listed(wrt, module_text(m, f->values[p].name));
    return wrt ? grad_function(m, fn, by, false) : fn;
}

static inline struct module *read_program(const char *dir, const char *file, const char *wrt, uint32_t *fn)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    struct module *m = text_read_file(path);
    *fn = main_or_gradient(m, wrt);
    return m;
}

struct side { /* one of those that are timed beside each other */
    void (*call)(void *given);
    void *given;
};

static inline double timed(double (*clock)(void), const struct side *s, uint32_t calls)
{
    double start = clock();
    for (uint32_t k = 0; k < calls; k++) s->call(s->given);
    return (clock() - start) / calls;
}

/* The median time of a call of each side: rounds of `calls` calls of every side in turn, at most so many,
 * until `budget` ms have passed, but a few in any case. */
static inline void time_in_turns(double (*clock)(void), const struct side *sides, uint32_t n, uint32_t rounds,
                                 uint32_t calls, double budget, double *medians)
{
    double times[MAX_SIDES][MAX_ROUNDS], begun = now_ms();
    uint32_t done = 0;
    for (; done < rounds && (done < LEAST_ROUNDS || now_ms() - begun < budget); done++)
        for (uint32_t k = 0; k < n; k++) times[k][done] = timed(clock, &sides[k], calls);
    for (uint32_t k = 0; k < n; k++) medians[k] = median(times[k], done);
}

#endif
