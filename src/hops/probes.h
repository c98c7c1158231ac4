/* Probes: values that a tag with `use = probe` marks by a name. A function comes in; one that gives the
 * marked values besides, or that takes a perturbation of each besides, goes out. Values in bodies come out of
 * them: of loops as stacks, of the branches that did not run as zeros. */
#ifndef HOP_PROBES_H
#define HOP_PROBES_H

#include "transform/transform.h"

/* One value that comes out, or one perturbation that goes in. */
struct probe_point {
    uint32_t path; /* string id: names of the regions around it and its own, with / between them */
    struct place place;
    type_id type; /* of a perturbation: in terms of the new function's outer symbols */
};
typedef vec(struct probe_point) probe_points;

/* What is asked for. */
struct probe_request {
    const char *names; /* "a, layer*": names or patterns (fnmatch); NULL: all */
    bool gives, takes; /* values come out; perturbations go in */
    bool stacked;      /* what has one name is one value with a dim more; otherwise that is an error */
    bool lenient;      /* what cannot be had is left as it is; otherwise that is an error */
};

/* (x…, perturbations…) -> (y…, values…): in order of the program, one each or, as probes_function has it, one
 * for each name. */
struct probed {
    uint32_t fn;
    probe_points gives, takes; /* in the module's arena */
};

/* Does the function, or a body of it, have probes? */
bool has_probes(struct module *m, uint32_t fn);
/* The function without them. */
uint32_t without_probes(struct module *m, uint32_t fn);
/* Every probe for itself, however it is called. */
struct probed probes_lifted(struct module *m, uint32_t fn, const struct probe_request *want);
/* For users: by names. Updates of parameters stay. */
struct probed probes_function(struct module *m, uint32_t fn, const struct probe_request *want);

/* The transforms of a function with probes (probes_carried.c): what comes out has probes of the same names,
 * whose values and perturbations are those of the function's own run, or of each lane's. What transforms take
 * and give is as in transform.h; out_axes: of vmap_of. */
uint32_t carried_grad(struct module *m, uint32_t fn, const bool *wrt, bool with_value);
uint32_t carried_vjp(struct module *m, uint32_t fn, const bool *wrt);
uint32_t carried_jvp(struct module *m, uint32_t fn, const bool *wrt);
uint32_t carried_vmap(struct module *m, uint32_t fn, const int *in_axes, const int *out_axes, axis_set axis);
void carried_halves(struct module *m, uint32_t fn, const bool *wrt, bool reverse, uint32_t *forward,
                    uint32_t *second);
/* The same of a derivative that is made of several: derive(ctx, function, wrt) has the function's parameters;
 * the values come from a run of the function beside it. */
typedef uint32_t (*derivation)(void *ctx, uint32_t fn, const bool *wrt);
uint32_t carried_beside(struct module *m, uint32_t fn, const bool *wrt, derivation derive, void *ctx);

#endif
