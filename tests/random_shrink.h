/* Making a failing program small: nodes are replaced by values of the same type or by zeros, calls and
 * branches by their bodies, results are dropped, as long as the same claim fails in the same words. Each
 * attempt runs in a process of its own, so that crashes and endless loops shrink too. */
#ifndef HOP_TEST_RANDOM_SHRINK_H
#define HOP_TEST_RANDOM_SHRINK_H

#include "random_claims.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct edit {
    uint32_t fn, node; /* where */
    uint32_t how;      /* 0: an earlier value or zeros, 1: zeros, 2 + r: region r in place */
};

static bool reaches(const struct module *m, uint32_t fn, uint32_t target)
{
    if (fn == target) return true;
    const struct fn *f = module_fn(m, fn);
    for (uint32_t i = 0; i < f->n_regions; i++)
        if (reaches(m, f->regions[i].fn, target)) return true;
    return false;
}

static void replace_node(struct copier *c, const struct fn *f, const struct node *n, const struct edit *e)
{
    val results[64];
    if (n->n_results > HOP_COUNT(results)) hop_throw(HOP_INVALID, "too many results");
    for (uint32_t k = f->n_outer_symbols; e->how < 2 && k < f->n_symbols; k++)
        if (f->symbols[k].index == e->node) hop_throw(HOP_INVALID, "the node binds a size");
    if (e->how >= 2) {
        uint32_t r = e->how - 2;
        if ((n->op != OP_invoke_subgraph && n->op != OP_switch && n->op != OP_custom && n->op != OP_region) ||
            r >= n->n_regions)
            hop_throw(HOP_INVALID, "nothing to put in place");
        const struct region *region = node_region(f, n, r);
        dim dims[64];
        val args[64];
        for (uint32_t i = 0; i < region->n_dims; i++) dims[i] = copier_dim(c, region->dims[i]);
        for (uint32_t i = 0; i < region->n_operands; i++)
            args[i] = c->values[node_region_operands(f, n, r)[i]];
        inline_function(c->b, region->fn, dims, args, results);
    } else {
        for (uint32_t k = 0; k < n->n_results; k++) {
            type_id t = copier_type(c, value_type(f, n->results + k));
            results[k] = VAL_NONE;
            for (val v = 0; !e->how && v < c->b->values.len && results[k] == VAL_NONE; v++)
                if (builder_type(c->b, v) == t) results[k] = v;
            if (results[k] == VAL_NONE) results[k] = zeros_of(c->b, t);
        }
    }
    copier_bind(c, n, results);
}

static uint32_t rebuild(struct module *m, uint32_t fn, const struct edit *e)
{
    if (!reaches(m, fn, e->fn)) return fn;
    const struct fn *f = module_fn(m, fn);
    struct builder b;
    struct copier c;
    builder_begin(&b, m, f);
    copier_begin(&c, &b, f);
    copier_params(&c);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (fn == e->fn && i == e->node) {
            replace_node(&c, f, n, e);
            continue;
        }
        struct node_in in = copier_node_in(&c, n);
        struct region_in *regions = ARENA_NEW(&b.arena, struct region_in, in.n_regions + 1);
        if (in.n_regions) memcpy(regions, in.regions, in.n_regions * sizeof *regions);
        for (uint32_t r = 0; r < in.n_regions; r++) regions[r].fn = rebuild(m, regions[r].fn, e);
        in.regions = regions;
        val first = builder_node(&b, &in), *results = ARENA_NEW(&b.arena, val, n->n_results + 1);
        for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
        copier_bind(&c, n, results);
    }
    val *results = ARENA_NEW(&b.arena, val, f->n_results + 1);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = c.values[f->results[k]];
    return builder_finish(&b, results, f->n_results);
}

struct shrink {
    struct check *c;
    uint32_t claim;
    bool crashed;
    char head[96]; /* how the message begins */
    uint32_t attempts;
    time_t until;
};

/* The part of a message that does not depend on numbers. */
static void message_head(const char *message, char head[96])
{
    size_t n = strcspn(message, "0123456789\n");
    if (n > 95) n = 95;
    memcpy(head, message, n);
    head[n] = 0;
}

static const char *hold(struct check *c, uint32_t claim)
{
    struct hop_catch caught;
    const char *volatile wrong = NULL;
    if (HOP_TRY(caught)) {
        wrong = random_claims[claim].holds(c);
        hop_catch_end(&caught);
    } else {
        hop_caught();
        /* A budget that no gradient is within ends in a message that says so. */
        bool beyond = strstr(hop_message(), "policy \"budget(") && strstr(hop_message(), "needs at least");
        c->tally->beyond += beyond;
        if (!beyond) wrong = arena_string(&c->bag->arena, hop_message(), strlen(hop_message()));
    }
    return wrong;
}

static bool still_fails(struct shrink *s, uint32_t fn)
{
    struct check *c = s->c;
    int status;
    s->attempts++;
    c->tally->failed = false;
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        alarm(10);
        if (!freopen("/dev/null", "w", stderr)) _exit(0);
        c->p->fn = fn;
        const char *wrong = hold(c, s->claim);
        if (wrong) snprintf(c->tally->message, sizeof c->tally->message, "%s", wrong);
        _exit(wrong ? 1 : 0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0) return false;
    char head[96];
    message_head(c->tally->message, head);
    if (s->crashed) return WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) > 1);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1 && !strcmp(head, s->head);
}

/* The edited program if it still fails, else HOP_NONE. */
static uint32_t try_edit(struct shrink *s, const struct edit *e, const bool *keep)
{
    struct module *m = s->c->p->m;
    struct hop_catch caught;
    volatile uint32_t fn = HOP_NONE;
    if (time(NULL) > s->until) return HOP_NONE;
    if (HOP_TRY(caught)) {
        uint32_t edited = prune_function(m, e ? rebuild(m, s->c->p->fn, e) : s->c->p->fn, keep);
        if (edited != s->c->p->fn) {
            if (!module_fn(m, edited)->name) module_rename(m, edited, "main");
            fn = edited;
        }
        hop_catch_end(&caught);
    } else {
        hop_caught();
        return HOP_NONE;
    }
    return fn != HOP_NONE && still_fails(s, fn) ? fn : HOP_NONE;
}

/* Does the function hold something constant for derivatives alone? Edits around it would make a program whose
 * differences are no longer its derivatives. */
static bool stops_gradients(const struct fn *f)
{
    for (uint32_t n = 0; n < f->n_nodes; n++)
        if (f->nodes[n].op == OP_stop_gradient) return true;
    return false;
}

static bool shrink_once(struct shrink *s)
{
    struct program *p = s->c->p;
    const struct fn *f = module_fn(p->m, p->fn);
    uint32_t found;
    for (uint32_t r = 0; f->n_results > 1 && r < f->n_results; r++) {
        bool keep[64];
        for (uint32_t k = 0; k < f->n_results; k++) keep[k] = k != r;
        if ((found = try_edit(s, NULL, keep)) != HOP_NONE) return p->fn = found, true;
    }
    uint32_t n_fns = p->m->fns.len;
    for (uint32_t fn = n_fns; fn-- > 0;) {
        if (!reaches(p->m, p->fn, fn)) continue;
        const struct fn *g = module_fn(p->m, fn);
        if (strstr(s->head, "tangent of") && stops_gradients(g)) continue;
        for (uint32_t node = g->n_nodes; node-- > 0;)
            for (uint32_t how = 0; how < 2u + g->nodes[node].n_regions; how++) {
                enum op op = (enum op)g->nodes[node].op;
                if (how == 1 && (op == OP_full || op == OP_constant)) continue;
                struct edit e = { fn, node, how };
                if ((op == OP_full || op == OP_constant) && how == 0) continue;
                if ((found = try_edit(s, &e, NULL)) != HOP_NONE) return p->fn = found, true;
            }
    }
    return false;
}

static void names_of(struct text *out, const struct module *m, const struct fn *f, bool floats)
{
    const char *comma = "";
    for (uint32_t i = 0; i < f->n_params; i++) {
        if (floats && !dtype_is_float((enum dtype)type_get(m, value_type(f, i)).dtype)) continue;
        text_add(out, "%s%s", comma, module_text(m, f->values[i].name));
        comma = ", ";
    }
}

static void lane_type_text(struct text *out, const struct tensor *t)
{
    text_add(out, "%s[%d", dtype_info[t->dtype].name, LANES);
    for (uint32_t d = 0; d < t->rank; d++) text_add(out, ", %lld", (long long)t->dims[d]);
    text_str(out, "]");
}

/* What transforms add to the parameters: cotangents of the float results, tangents of the float parameters.
 */
static void write_added(struct text *out, struct check *c, bool cotangents)
{
    struct outcome base;
    struct target t = program_target(c);
    const struct fn *f = module_fn(c->p->m, t.fn);
    uint32_t at = f->n_params, n = cotangents ? f->n_results : f->n_params;
    if (!run_target(c, &t, &interpreter, NULL, &base)) return;
    for (uint32_t i = 0; i < n; i++) {
        const struct tensor *like = cotangents ? base.results[i] : t.args[i];
        if (!is_float(like)) continue;
        text_add(out, "  #%u: ", at++);
        tensor_type_text(out, like);
        text_add(out, " = random %u in -1..1\n", at);
    }
}

/* A test block that makes the same claim, so that the file can go into the corpus. */
static void write_test(struct text *out, struct check *c, enum under under)
{
    struct program *p = c->p;
    const struct fn *f = module_fn(p->m, p->fn);
    bool lanes = under == UNDER_VJP_BATCH || under == UNDER_BATCH_BATCH,
         vjp = under == UNDER_VJP_VJP || under == UNDER_BATCH_VJP, jvp = under == UNDER_VJP_JVP;
    bool batch = under == UNDER_BATCH || under == UNDER_BATCH_VJP || under == UNDER_BATCH_BATCH;
    text_str(out, lanes ? "test vmap(" : vjp ? "test vjp(" : jvp ? "test jvp(" : "test ");
    if (lanes || vjp || jvp) names_of(out, p->m, f, !lanes), text_str(out, ") ");
    text_str(out, "@main {\n");
    for (uint32_t i = 0; i < f->n_outer_symbols; i++)
        if (f->symbols[i].origin == SYMBOL_DIM)
            text_add(out, "  dim %s = %lld\n", module_text(p->m, f->symbols[i].name),
                     (long long)p->symbols[i]);
    for (uint32_t i = 0; i < f->n_params; i++) {
        text_add(out, "  %s: ", module_text(p->m, f->values[i].name));
        if (lanes) lane_type_text(out, p->args[i]), text_add(out, " = random %u", i + 1);
        else tensor_type_text(out, p->args[i]), text_str(out, " = "), tensor_print(out, p->args[i]);
        text_str(out, "\n");
    }
    if (vjp || jvp) write_added(out, c, vjp);
    if (under != UNDER_NOTHING) {
        text_str(out, batch ? "  batch(" : "  differences(");
        names_of(out, p->m, f, !batch);
        text_str(out, ")\n");
    }
    text_str(out, "}\n");
}

static void write_program(struct check *c, uint32_t claim, const char *folder, const char *message)
{
    struct arena *a = &c->bag->arena;
    struct program *p = c->p;
    struct text out = { .arena = a };
    text_add(&out, "# seed %llu, claim: %s\n", (unsigned long long)p->seed, random_claims[claim].name);
    for (const char *line = message; *line; line += strcspn(line, "\n"), line += *line == '\n')
        text_add(&out, "# %.*s\n", (int)strcspn(line, "\n"), line);
    text_print(p->m, p->fn, 0, &out);
    write_test(&out, c, random_claims[claim].under);
    const char *path = arena_printf(a, "%s/%llu.hop", folder, (unsigned long long)p->seed);
    FILE *file = fopen(path, "w");
    if (file) {
        fwrite(out.data, 1, out.len, file);
        fclose(file);
        printf("  written to %s\n", path);
    }
}

/* Shrinks and writes; runs in a process of its own. */
static void shrink_and_write(struct check *c, uint32_t claim, bool crashed, const char *folder,
                             uint32_t seconds)
{
    struct shrink s = { .c = c, .claim = claim, .crashed = crashed, .until = time(NULL) + seconds };
    char message[sizeof c->tally->message];
    snprintf(message, sizeof message, "%s", c->tally->message);
    message_head(message, s.head);
    while (shrink_once(&s) && time(NULL) <= s.until) continue;
    still_fails(&s, c->p->fn);
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < c->p->m->fns.len; i++)
        if (reaches(c->p->m, c->p->fn, i)) nodes += module_fn(c->p->m, i)->n_nodes;
    printf("  shrunk to %u nodes in %u attempts: %.300s\n", nodes, s.attempts,
           crashed ? message : c->tally->message);
    write_program(c, claim, folder, crashed ? message : c->tally->message);
}

#endif
