/* What a gradient of a checkpointed call keeps, as a policy in words: a body comes in, a body whose values
 * are tagged as the policy decides goes out. The rest is what tags do anyway (transform/partition.c). The
 * decision is taken once, here, so both halves of a gradient agree on it. */
#include "hops/policy.h"

#include "hops/hops.h"
#include "transform/pass.h"

/* ---- reading ---- */

enum policy_kind {
    NOTHING,
    EVERYTHING,
    PRODUCTS,
    PRODUCTS_WITHOUT_BATCH,
    NAMES,
    NAMED,
    OFFLOAD,
    BUDGET,
    BOTH,
    ASKED
};
static const char *const kind_words[] = {
    [NOTHING] = "nothing",   [EVERYTHING] = "everything",
    [PRODUCTS] = "products", [PRODUCTS_WITHOUT_BATCH] = "products_without_batch",
    [NAMES] = "names",       [NAMED] = "named",
    [OFFLOAD] = "offload",   [BUDGET] = "budget",
    [BOTH] = "both"
};

struct policy {
    enum policy_kind kind;
    vec(const char *) save, recompute; /* of NAMES; NAMED has the latter alone, OFFLOAD the first */
    vec(const struct policy *) parts;  /* of BOTH */
    double amount;                     /* of BUDGET */
    bool percent;
    policy_question ask; /* of ASKED, which has no text */
    void *user;
};

/* What is left to be read. */
struct policy_text {
    struct arena *arena;
    const char *p;
    const char *expected; /* what should have stood at p; NULL: all is well so far */
};

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }

static bool accept(struct policy_text *t, const char *token)
{
    size_t n = strlen(token);
    while (is_space(*t->p)) t->p++;
    if (strncmp(t->p, token, n)) return false;
    t->p += n;
    return true;
}

static bool expect(struct policy_text *t, const char *token)
{
    if (!t->expected && !accept(t, token)) t->expected = token;
    return !t->expected;
}

/* A name ends where a list goes on or ends; spaces around it are not its own. */
static const char *read_name(struct policy_text *t)
{
    while (is_space(*t->p)) t->p++;
    const char *end = t->p + strcspn(t->p, ",[]()=");
    const char *rest = end;
    while (end > t->p && is_space(end[-1])) end--;
    if (end == t->p) {
        t->expected = "a name";
        return NULL;
    }
    const char *name = arena_printf(t->arena, "%.*s", (int)(end - t->p), t->p);
    t->p = rest;
    return name;
}

static void read_list(struct policy_text *t, struct policy *out, bool save)
{
    expect(t, "[");
    do {
        const char *name = t->expected ? NULL : read_name(t);
        if (name && save) vec_push(t->arena, &out->save, name);
        else if (name) vec_push(t->arena, &out->recompute, name);
    } while (!t->expected && accept(t, ","));
    expect(t, "]");
}

static void read_names(struct policy_text *t, struct policy *out)
{
    expect(t, "(");
    do {
        bool save = accept(t, "save");
        if (!t->expected && !save && !accept(t, "recompute")) t->expected = "save = [ or recompute = [";
        expect(t, "=");
        read_list(t, out, save);
    } while (!t->expected && accept(t, ","));
    expect(t, ")");
}

static void read_named(struct policy_text *t, struct policy *out)
{
    if (!accept(t, "(")) return;
    expect(t, "but");
    expect(t, "=");
    read_list(t, out, false);
    expect(t, ")");
}

static void read_offload(struct policy_text *t, struct policy *out)
{
    expect(t, "(");
    read_list(t, out, true);
    expect(t, ")");
}

static double read_digits(struct policy_text *t, double unit)
{
    double out = 0;
    for (; *t->p >= '0' && *t->p <= '9'; t->p++) {
        out = unit < 1 ? out + unit * (*t->p - '0') : out * 10 + (*t->p - '0');
        if (unit < 1) unit /= 10;
    }
    return out;
}

/* Bytes, or a share of what would be needed without a policy, in percent. */
static void read_budget(struct policy_text *t, struct policy *out)
{
    if (!expect(t, "(")) return;
    while (is_space(*t->p)) t->p++;
    const char *number = t->p;
    bool fraction = false;
    out->amount = read_digits(t, 1);
    if (*t->p == '.') {
        t->p++;
        fraction = true;
        out->amount += read_digits(t, 0.1);
    }
    bool any = t->p > number;
    out->percent = accept(t, "%");
    double most = out->percent ? 100 : 0x1p62, least = out->percent ? 0 : 1;
    if (!any || out->amount > most || out->amount < least || (fraction && !out->percent)) {
        t->p = number;
        t->expected = "a number of bytes, or a share as in 40%";
    }
    expect(t, ")");
}

static struct policy *read_policy(struct policy_text *t)
{
    struct policy *out = ARENA_ZNEW(t->arena, struct policy, 1);
    hop_check_stack();
    uint32_t kind = BOTH + 1; /* longer words first: one begins with another */
    while (kind > 0 && !accept(t, kind_words[kind - 1])) kind--;
    if (!kind) {
        t->expected = "nothing, everything, products, products_without_batch, names(save = [a], recompute = "
                      "[b]), named(but = [a]), offload([a]), budget(40%) or both(policy, policy)";
        return out;
    }
    out->kind = (enum policy_kind)(kind - 1);
    if (out->kind == NAMES) read_names(t, out);
    if (out->kind == NAMED) read_named(t, out);
    if (out->kind == OFFLOAD) read_offload(t, out);
    if (out->kind == BUDGET) read_budget(t, out);
    if (out->kind != BOTH) return out;
    expect(t, "(");
    do {
        const struct policy *part = read_policy(t);
        if (!t->expected && part->kind == BUDGET) t->expected = "a policy other than a budget";
        vec_push(t->arena, &out->parts, part);
    } while (!t->expected && accept(t, ","));
    expect(t, ")");
    return out;
}

static struct policy *parse(struct arena *arena, const char *text, struct policy_text *t)
{
    *t = (struct policy_text){ arena, text, NULL };
    struct policy *p = read_policy(t);
    while (is_space(*t->p)) t->p++;
    if (!t->expected && *t->p) t->expected = "nothing more";
    return p;
}

/* ---- checks ---- */

static bool names_in(const struct policy *p, const char *name)
{
    if (p->kind == NAMED && !p->recompute.len) return true; /* whatever has a name */
    for (uint32_t i = 0; i < p->save.len; i++)
        if (!strcmp(p->save.data[i], name)) return true;
    for (uint32_t i = 0; i < p->recompute.len; i++)
        if (!strcmp(p->recompute.data[i], name)) return true;
    for (uint32_t i = 0; i < p->parts.len; i++)
        if (names_in(p->parts.data[i], name)) return true;
    return false;
}

static const char *tag_name(const struct module *m, const struct fn *f, const struct node *n)
{
    if (n->op != OP_tag) return NULL;
    const struct attr *name = node_attr(f, n, TAG_NAME), *use = node_attr(f, n, TAG_USE);
    if (use->kind != ATTR_ABSENT && use->i != TAG_SAVES) return NULL;
    return name->kind == ATTR_ABSENT ? NULL : module_text(m, (uint32_t)name->i);
}

/* Looks for names in a function and in every body that it reaches, each body once. */
struct name_search {
    struct module *m;
    struct arena *arena;
    const struct policy *p;
    bool *seen; /* per function of the module */
    bool found;
    struct text names; /* those that there are, for the message */
};

static void search_names(struct name_search *s, uint32_t fn)
{
    const struct fn *f = module_fn(s->m, fn);
    if (s->seen[fn]) return;
    s->seen[fn] = true;
    hop_check_stack();
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        const char *name = tag_name(s->m, f, n);
        if (name && names_in(s->p, name)) s->found = true;
        else if (name) text_add(&s->names, "%s'%s'", s->names.data ? ", " : "", name);
        for (uint32_t r = 0; r < n->n_regions; r++) search_names(s, node_region(f, n, r)->fn);
    }
}

/* What both lists of one policy name, NULL: nothing. */
static const char *named_twice(const struct policy *p)
{
    for (uint32_t i = 0; i < p->save.len; i++)
        for (uint32_t k = 0; k < p->recompute.len; k++)
            if (!strcmp(p->save.data[i], p->recompute.data[k])) return p->save.data[i];
    for (uint32_t i = 0; i < p->parts.len; i++) {
        const char *name = named_twice(p->parts.data[i]);
        if (name) return name;
    }
    return NULL;
}

static bool has_names(const struct policy *p)
{
    bool any = p->kind == NAMES || p->kind == NAMED || p->kind == OFFLOAD;
    for (uint32_t i = 0; i < p->parts.len; i++) any |= has_names(p->parts.data[i]);
    return any;
}

void infer_policy(struct infer *in, const struct attr *policy)
{
    struct policy_text t;
    const char *text = module_text(in->m, (uint32_t)policy->i);
    const struct policy *p = parse(in->arena, text, &t);
    if (t.expected)
        infer_error(in, "policy \"%s\": expected %s, found %s%s%s", text, t.expected, *t.p ? "'" : "the end",
                    t.p, *t.p ? "'" : "");
    const char *twice = named_twice(p);
    if (twice) infer_error(in, "policy \"%s\": '%s' is to be saved and to be recomputed", text, twice);
    if (!in->written || !has_names(p)) return;
    struct name_search s = { .m = in->m, .arena = in->arena, .p = p, .names = { .arena = in->arena } };
    s.seen = ARENA_ZNEW(in->arena, bool, in->m->fns.len);
    search_names(&s, in->regions[0].fn);
    if (s.found) return;
    if (s.names.data)
        infer_error(in, "policy \"%s\": no value has such a name; named are %s", text, s.names.data);
    infer_error(in,
                "policy \"%s\": no value in the function has a name: give one with tag {name = \"…\"}, "
                "hop_checkpoint_name or hop.checkpoint_name",
                text);
}

/* ---- calls in the body ---- */

static const uint64_t MEMO_OPENED = 0x6f70656e, MEMO_TAGGED = 0x706f6c69, MEMO_KEEPS = 0x6b656570;
/* Bodies of calls are put in place as long as the function has fewer nodes than this. */
enum { MOST_NODES = 20000 };
static const struct pass_options everything;

static bool has_rule_of_its_own(const struct fn *f, const struct node *n)
{
    if (n->op == OP_switch) return node_attr(f, n, SWITCH_RECOMPUTE)->kind != ATTR_ABSENT;
    if (n->op != OP_invoke_subgraph) return false;
    return node_attr(f, n, INVOKE_RECOMPUTE)->kind != ATTR_ABSENT ||
           node_attr(f, n, INVOKE_POLICY)->kind != ATTR_ABSENT;
}

/* Does a policy look into the node's bodies? Not where they have rules of their own, and not where tags mean
 * nothing. */
static bool is_entered(const struct fn *f, const struct node *n)
{
    const struct op_row *row = node_row(n);
    if (!n->n_regions || has_rule_of_its_own(f, n)) return false;
    return row->loop || n->op == OP_invoke_subgraph || n->op == OP_switch || n->op == OP_region;
}

static uint32_t opened(struct module *m, uint32_t fn);

/* A call becomes the nodes of its body; bodies of loops, branches and regions are opened themselves. */
static bool open_node(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    HOP_UNUSED(ctx);
    if (!is_entered(c->f, n)) return false;
    if (n->op == OP_invoke_subgraph) {
        const struct fn *g = module_fn(s->m, opened(s->m, node_region(c->f, n, 0)->fn));
        if (c->b->nodes.len + g->n_nodes > MOST_NODES) return false;
        struct copier inner = region_copier_of(c, n, 0, g);
        copier_body(&inner, results);
        return true;
    }
    uint32_t *fns = ARENA_NEW(&c->b->arena, uint32_t, n->n_regions);
    for (uint32_t r = 0; r < n->n_regions; r++) fns[r] = opened(s->m, node_region(c->f, n, r)->fn);
    return replace_regions(c, n, fns, results);
}

static uint32_t opened(struct module *m, uint32_t fn)
{
    const uint64_t key[4] = { MEMO_OPENED, fn };
    union memo_value known;
    if (memo_get(m, key, &known)) return known.fn;
    hop_check_stack();
    struct simplifier s = { .m = m, .o = &everything, .root = fn };
    uint32_t out = rewrite_nodes(&s, fn, wants_higher, open_node, NULL);
    memo_put(m, key, (union memo_value){ .fn = out });
    return out;
}

/* ---- decisions ---- */

/* In the order in which one of several policies prevails. */
enum decision {
    AGAIN, /* made again */
    FREE,  /* whichever costs less, as without a policy */
    KEEP,
    MOVE /* kept in a file */
};

/* What is said of values of a function by the names that tags give them. */
struct named_value {
    val v; /* no result of a tag */
    const char *name;
};
struct tagging {
    struct module *m;
    const struct fn *f;
    const struct policy *p;
    uint32_t text; /* string id of the policy; HOP_NONE: it has none, so that nothing can be remembered */
    bool nested;   /* a body of a node of the checkpointed function: not run again as a whole */
    vec(struct named_value) names;
};

/* What tags are tags of. */
static val untagged(const struct fn *f, val v)
{
    for (;;) {
        uint32_t node = f->values[v].node;
        if (node == NODE_NONE || fn_node(f, node)->op != OP_tag) return v;
        v = node_operands(f, fn_node(f, node))[0];
    }
}

static void find_names(struct tagging *t, struct arena *arena)
{
    for (uint32_t i = 0; i < t->f->n_nodes; i++) {
        const struct node *n = fn_node(t->f, i);
        const char *name = tag_name(t->m, t->f, n);
        if (!name) continue;
        struct named_value named = { untagged(t->f, n->results), name };
        vec_push(arena, &t->names, named);
    }
}

static bool is_named(const struct tagging *t, val v)
{
    for (uint32_t i = 0; i < t->names.len; i++)
        if (t->names.data[i].v == v) return true;
    return false;
}

static bool is_listed(const struct tagging *t, val v, const char *const *list, uint32_t n)
{
    for (uint32_t i = 0; i < t->names.len; i++)
        for (uint32_t k = 0; k < n && t->names.data[i].v == v; k++)
            if (!strcmp(t->names.data[i].name, list[k])) return true;
    return false;
}

static bool has_batch_dims(const struct module *m, const struct fn *f, const struct node *n)
{
    if (n->op == OP_dot) return node_attr(f, n, DOT_BATCH_LHS)->n > 0;
    for (uint32_t k = 0; k < n->n_operands; k++)
        if (type_get(m, value_type(f, node_operands(f, n)[k])).rank <= 2) return false;
    return true;
}

/* The first name of a value, NULL: none. */
static const char *name_of(const struct tagging *t, val v)
{
    for (uint32_t i = 0; i < t->names.len; i++)
        if (t->names.data[i].v == v) return t->names.data[i].name;
    return NULL;
}

static enum decision ask(const struct tagging *t, const struct policy *p, const struct node *n, val v)
{
    const char *type = type_text(t->m, t->f->symbols, value_type(t->f, v));
    int found = p->ask(p->user, node_row(n)->name, type, name_of(t, v));
    if (found != 0 && found != 1)
        hop_throw((hop_status)found, "policy: asked for a value of %s, the function returned %d",
                  node_row(n)->name, found);
    return found ? KEEP : AGAIN;
}

static enum decision decide(const struct tagging *t, const struct policy *p, const struct node *n, val v)
{
    bool product = n->op == OP_dot || n->op == OP_matmul;
    enum decision most = AGAIN;
    switch (p->kind) {
    case NOTHING: return AGAIN;
    case BUDGET: hop_throw(HOP_INTERNAL, "a budget decides by itself");
    case EVERYTHING: return FREE;
    case PRODUCTS: return product ? KEEP : AGAIN;
    case PRODUCTS_WITHOUT_BATCH: return product && !has_batch_dims(t->m, t->f, n) ? KEEP : AGAIN;
    case NAMES:
        if (is_listed(t, v, p->save.data, p->save.len)) return KEEP;
        if (is_listed(t, v, p->recompute.data, p->recompute.len)) return AGAIN;
        return p->recompute.len ? FREE : AGAIN;
    case NAMED:
        if (is_listed(t, v, p->recompute.data, p->recompute.len)) return AGAIN;
        return is_named(t, v) ? KEEP : AGAIN;
    case OFFLOAD: return is_listed(t, v, p->save.data, p->save.len) ? MOVE : AGAIN;
    case ASKED: return ask(t, p, n, v);
    case BOTH: break;
    }
    for (uint32_t i = 0; i < p->parts.len; i++) {
        enum decision found = decide(t, p->parts.data[i], n, v);
        most = HOP_MAX(most, found);
    }
    return most;
}

/* May it leave anything to whatever costs less? Then the function is not run again as a whole. */
static bool is_free(const struct policy *p)
{
    bool any = p->kind == EVERYTHING || (p->kind == NAMES && p->recompute.len);
    for (uint32_t i = 0; i < p->parts.len; i++) any |= is_free(p->parts.data[i]);
    return any;
}

static bool moves_name(const struct policy *p, const char *name)
{
    for (uint32_t i = 0; i < p->save.len && p->kind == OFFLOAD; i++)
        if (!strcmp(p->save.data[i], name)) return true;
    for (uint32_t i = 0; i < p->parts.len; i++)
        if (moves_name(p->parts.data[i], name)) return true;
    return false;
}

/* Is it a tag by whose name a parameter of the function is kept in a file? Parameters are there anyway, so no
 * other policy has to do with them. */
static bool moves_param(const struct tagging *t, const struct node *n)
{
    const char *name = tag_name(t->m, t->f, n);
    return name && t->f->values[untagged(t->f, n->results)].node == NODE_NONE && moves_name(t->p, name);
}

/* Does the policy keep any value of the function or of a body that it looks into? */
static bool keeps_any(struct module *m, uint32_t fn, const struct policy *p, uint32_t text)
{
    const uint64_t key[4] = { MEMO_KEEPS, fn, text };
    union memo_value known;
    if (text != HOP_NONE && memo_get(m, key, &known)) return known.number;
    hop_check_stack();
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct tagging t = { .m = m, .f = module_fn(m, fn), .p = p, .text = text };
    bool any = false;
    find_names(&t, &arena);
    for (uint32_t i = 0; i < t.f->n_nodes && !any; i++) {
        const struct node *n = fn_node(t.f, i);
        any |= moves_param(&t, n);
        for (uint32_t k = 0; k < n->n_results && n->op != OP_tag; k++)
            any |= decide(&t, p, n, n->results + k) >= KEEP;
        for (uint32_t r = 0; r < n->n_regions && is_entered(t.f, n) && !any; r++)
            any = keeps_any(m, node_region(t.f, n, r)->fn, p, text);
    }
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    if (text != HOP_NONE) memo_put(m, key, (union memo_value){ .number = any });
    return any;
}

/* ---- tags ---- */

static uint32_t tagged(struct module *m, uint32_t fn, const struct policy *p, uint32_t text, bool nested);

static val tag_to_move(struct builder *b, val v, const char *name)
{
    struct attr attrs[TAG_ATTRS] = {
        [TAG_GRADIENT] = A_WORD(TAG_OFFLOAD), [TAG_NAME] = A_STRING(module_string(b->m, name, strlen(name)))
    };
    return emit(b, OP_tag, &v, 1, attrs);
}

/* The value with what the policy says of it. Integers and bools, which count and choose more often than they
 * are kept, are left alone unless they have a name. */
static val tag_value(const struct tagging *t, struct copier *c, const struct node *n, uint32_t k, val made)
{
    val v = n->results + k;
    enum decision found = decide(t, t->p, n, v);
    bool is_float = dtype_is_float((enum dtype)type_get(t->m, value_type(t->f, v)).dtype);
    bool again = found == AGAIN && n->n_operands && (t->nested || is_free(t->p));
    if ((found < KEEP && !again) || (!is_float && !is_named(t, v))) return made;
    if (found == MOVE) return tag_to_move(c->b, made, name_of(t, v));
    struct attr attrs[TAG_ATTRS] = {
        [TAG_GRADIENT] = A_WORD(found == KEEP ? TAG_KEEP : TAG_RECOMPUTE), [TAG_USE] = A_WORD(TAG_SAVES)
    };
    return emit(c->b, OP_tag, &made, 1, attrs);
}

static bool tag_node(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    struct tagging *t = ctx;
    HOP_UNUSED(s);
    if (moves_param(t, n)) {
        val x = c->values[node_operands(t->f, n)[0]];
        results[0] = tag_to_move(c->b, x, tag_name(t->m, t->f, n));
        return true;
    }
    if (n->op == OP_tag) return false;
    struct node_in in = copier_node_in(c, n);
    struct region_in *regions = NULL;
    if (n->n_regions) regions = arena_copy(&c->b->arena, in.regions, n->n_regions * sizeof *regions);
    for (uint32_t r = 0; r < n->n_regions && is_entered(t->f, n); r++)
        regions[r].fn = tagged(t->m, regions[r].fn, t->p, t->text, true);
    in.regions = regions;
    val first = builder_node(c->b, &in);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = tag_value(t, c, n, k, first + k);
    return true;
}

static uint32_t tagged(struct module *m, uint32_t fn, const struct policy *p, uint32_t text, bool nested)
{
    const uint64_t key[4] = { MEMO_TAGGED, fn, text, nested };
    union memo_value known;
    if (text != HOP_NONE && memo_get(m, key, &known)) return known.fn;
    hop_check_stack();
    uint32_t out = fn;
    if (is_free(p) || keeps_any(m, fn, p, text)) {
        struct arena arena = { 0 };
        hop_cleanup_push(arena_free, &arena);
        struct tagging t = { .m = m, .f = module_fn(m, fn), .p = p, .text = text, .nested = nested };
        struct simplifier s = { .m = m, .o = &everything, .root = fn };
        find_names(&t, &arena);
        out = rewrite_nodes(&s, fn, NULL, tag_node, &t);
        hop_cleanup_pop(&arena);
        arena_free(&arena);
    }
    if (text != HOP_NONE) memo_put(m, key, (union memo_value){ .fn = out });
    return out;
}

bool policy_budget(struct module *m, const struct attr *policy, struct budget *out)
{
    struct arena arena = { 0 };
    struct policy_text t;
    uint32_t id = (uint32_t)policy->i;
    hop_cleanup_push(arena_free, &arena);
    const struct policy *p = parse(&arena, module_text(m, id), &t);
    bool found = p->kind == BUDGET;
    *out = (struct budget){ .id = id, .text = module_text(m, id) };
    if (p->percent) out->share = p->amount / 100;
    else out->bytes = (int64_t)p->amount;
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return found;
}

uint32_t policy_body(struct module *m, uint32_t fn, const struct attr *policy, bool *recompute)
{
    struct arena arena = { 0 };
    struct policy_text t;
    hop_cleanup_push(arena_free, &arena);
    const struct policy *p = parse(&arena, module_text(m, (uint32_t)policy->i), &t);
    uint32_t out = tagged(m, opened(m, fn), p, (uint32_t)policy->i, false);
    *recompute = !is_free(p);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return out;
}

uint32_t policy_asked(struct module *m, uint32_t fn, const char *text, policy_question ask, void *user,
                      bool *recompute)
{
    struct arena arena = { 0 };
    struct policy_text t = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct policy asked = { .kind = ASKED, .ask = ask, .user = user }, both = { .kind = BOTH };
    const struct policy *first = &asked;
    vec_push(&arena, &both.parts, first);
    if (text) {
        const struct policy *second = parse(&arena, text, &t);
        vec_push(&arena, &both.parts, second);
    }
    if (!t.expected && text && both.parts.data[1]->kind == BUDGET)
        t.expected = "a policy other than a budget";
    if (t.expected) hop_throw(HOP_INVALID, "policy \"%s\": expected %s", text, t.expected);
    uint32_t out = tagged(m, opened(m, fn), &both, HOP_NONE, false);
    *recompute = !is_free(&both);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return out;
}
