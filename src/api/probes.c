/* hop_probes and hop_perturb: names by text, the functions of src/hops/probes.c under the module's lock. */
#include "api/api.h"
#include "hops/probes.h"

struct probes_args {
    hop_fn **out, *f;
    const char *names, *what;
    unsigned flags;
    bool takes;
};

static const char *const *names_of(struct module *m, const probe_points *points)
{
    const char **names = ARENA_NEW(&m->arena, const char *, points->len + 1);
    for (uint32_t k = 0; k < points->len; k++) names[k] = module_text(m, points->data[k].path);
    return names;
}

static void do_probes(void *args)
{
    const struct probes_args *a = args;
    struct hop_fn *f = check_fn(a->f, a->what);
    check_place(a->out, a->what);
    if (a->flags & ~(unsigned)HOP_STACKED)
        hop_throw(HOP_INVALID, "%s: flags: expected 0 or HOP_STACKED, found %u", a->what, a->flags);
    module_change(f->shared);
    hop_cleanup_push(module_changed, f->shared);
    struct module *m = f->shared->m;
    struct probe_request want = {
        .names = a->names, .gives = !a->takes, .takes = a->takes, .stacked = a->flags & HOP_STACKED
    };
    struct probed made = probes_function(m, f->fn, &want);
    const probe_points *points = a->takes ? &made.takes : &made.gives;
    const char *const *names = names_of(m, points);
    hop_fn *out = fn_new(f->shared, made.fn);
    out->around = f->around;
    out->n_around = f->n_around;
    out->probes = names;
    out->n_probes = points->len;
    *a->out = out;
    hop_cleanup_pop(f->shared);
    module_changed(f->shared);
}

hop_status hop_probes(hop_fn **out, hop_fn *f, const char *names, unsigned flags)
{
    struct probes_args a = { out, f, names, "probes", flags, false };
    return api_edge(do_probes, &a);
}

hop_status hop_perturb(hop_fn **out, hop_fn *f, const char *names, unsigned flags)
{
    struct probes_args a = { out, f, names, "perturb", flags, true };
    return api_edge(do_probes, &a);
}

int hop_fn_probes(const hop_fn *f) { return f ? (int)f->n_probes : 0; }

const char *hop_fn_probe_name(const hop_fn *f, int i)
{
    return f && i >= 0 && (uint32_t)i < f->n_probes ? f->probes[i] : "";
}
