/* Which values vary along which axes: a node that is being built comes in, with operands and bodies as they
 * were given; nodes that vary and bodies with other types go out, so that what is built holds the rules of
 * axes.h. Programs without axes never come here. */
#include "ir/axes.h"

#include "ir/lexer.h"
#include "ir/mesh.h"
#include "ir/loop.h"
#include "ops/build.h"

/* ---- texts ---- */

static void put_names(const struct module *m, axis_set axes, bool quoted, struct text *out)
{
    const char *last = NULL;
    for (bool first = true;; first = false) { /* the next one in the order of the names */
        const char *next = NULL;
        for (uint32_t k = 0; k < m->axes.len; k++) {
            const char *name = module_text(m, m->axes.data[k]);
            bool behind = axes >> k & 1 && (!last || strcmp(name, last) > 0);
            if (behind && (!next || strcmp(name, next) < 0)) next = name;
        }
        if (!next) return;
        bool word = !quoted || lexer_is_word(next);
        text_add(out, "%s%s%s%s", first ? "" : ", ", word ? "" : "\"", next, word ? "" : "\"");
        last = next;
    }
}

void axes_print(const struct module *m, axis_set axes, struct text *out)
{
    if (!axes) return;
    text_str(out, "{");
    put_names(m, axes, true, out);
    text_str(out, "}");
}

const char *axes_text(const struct module *m, axis_set axes)
{
    struct text out = { .arena = (struct arena *)&m->scratch };
    text_str(&out, "'");
    put_names(m, axes, false, &out);
    text_str(&out, "'");
    return out.data;
}

/* ---- what nodes name ---- */

static axis_set attr_axis(struct module *m, const struct attr *attrs, uint8_t attr)
{
    bool given = attr && attrs[attr - 1].kind == ATTR_STRING;
    return given ? module_axis(m, (uint32_t)attrs[attr - 1].i) : 0;
}

axis_set axes_named(struct module *m, const struct op_row *row, const struct attr *attrs)
{
    return attr_axis(m, attrs, row->axis_attr);
}

axis_set axes_bound(struct module *m, const struct op_row *row, const struct attr *attrs)
{
    return attr_axis(m, attrs, row->bind_attr);
}

static bool row_exchanges(const struct op_row *row)
{
    return row->axis_role == AXIS_EXCHANGES || row->axis_role == AXIS_JOINS;
}

struct axes_used axes_used(struct module *m, const struct op_row *row, const struct attr *attrs,
                           const struct region *regions, uint32_t n_regions)
{
    struct axes_used u = { .axes = axes_named(m, row, attrs) };
    if (row_exchanges(row)) u.exchanged = u.axes;
    for (uint32_t r = 0; r < n_regions; r++) {
        const struct fn *f = module_fn(m, regions[r].fn);
        u.axes |= f->axes;
        u.exchanged |= f->exchanged;
    }
    for (uint32_t k = 0; k < row->sig.n_attrs; k++)
        if (attrs[k].kind == ATTR_FN) u.axes |= module_fn(m, (uint32_t)attrs[k].i)->axes;
    uint32_t mesh = row->control == CONTROL_PARTS ? mesh_named(m, row, attrs) : HOP_NONE;
    if (mesh != HOP_NONE) u.axes &= (axis_set)~mesh_axes(m, mesh);
    u.exchanged &= u.axes;
    return u;
}

axis_set node_axes(struct module *m, const struct fn *f, const struct node *n)
{
    if (!m->axes.len) return 0;
    return axes_used(m, node_row(n), f->attrs + n->attrs, f->regions + n->regions, n->n_regions).axes;
}

/* The first node that names one of the axes, bodies included; exchanging: at which lanes wait. */
static const struct node *find_named(struct module *m, const struct fn *f, axis_set axes, bool exchanging,
                                     axis_set *found)
{
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        const struct op_row *row = node_row(n);
        *found = axes_named(m, row, f->attrs + n->attrs) & axes;
        if (*found && (!exchanging || row_exchanges(row))) return n;
        for (uint32_t r = 0; r < n->n_regions; r++) {
            const struct fn *body = module_fn(m, node_region(f, n, r)->fn);
            const struct node *inner = find_named(m, body, axes, exchanging, found);
            if (inner) return inner;
        }
    }
    return NULL;
}

void axes_all_bound(struct module *m, uint32_t fn, const char *doing)
{
    const struct fn *f = module_fn(m, fn);
    axis_set varying = 0, found = 0, bound = meshes_axes(m); /* by the ranks that run it */
    for (uint32_t p = 0; p < f->n_params && m->axes.len; p++) varying |= value_axes(m, value_type(f, p));
    axis_set named = f->axes & (axis_set)~bound;
    varying &= (axis_set)~bound;
    if (!named && !varying) return;
    const struct node *n = find_named(m, f, named, true, &found);
    if (!n) n = find_named(m, f, named, false, &found);
    const char *name = module_text(m, fn_label(f));
    if (n)
        hop_throw(HOP_INVALID,
                  "%s%s: the axis %s is not bound: a function with it can be batched (vmap with the axis's "
                  "name, map {axis = …}), not %s%s",
                  place_text(m, n->place), node_row(n)->name, axes_text(m, found), doing,
                  place_stack(m, n->place));
    hop_throw(HOP_INVALID, "%s@%s: a parameter varies along the axis %s, which is not bound: it cannot be %s",
              place_text(m, f->place), name, axes_text(m, varying ? varying : named), doing);
}

/* ---- values ---- */

val builder_vary(struct builder *b, val v, axis_set axes)
{
    struct module *m = b->m;
    type_id t = builder_type(b, v);
    axis_set more = (axis_set)(axes & ~value_axes(m, t));
    for (uint32_t k = 0; more && k < m->axes.len && !type_is_object(m, t); k++) {
        if (!(more >> k & 1)) continue;
        struct attr axis = A_STRING(m->axes.data[k]);
        const struct node_hooks *hooks = b->hooks; /* nobody has written it */
        b->hooks = NULL;
        v = emit(b, OP_vary, &v, 1, &axis);
        b->hooks = hooks;
    }
    return v;
}

/* ---- functions whose parameters vary along more axes ---- */

static const uint64_t MEMO_WIDENED = 0x77696465;

struct widened {
    const axis_set *params, *results;
    uint32_t fn;
};

static uint32_t build_widened(struct module *m, const struct fn *f, const axis_set *params,
                              const axis_set *results)
{
    struct builder b;
    struct copier c;
    hop_check_stack();
    builder_begin(&b, m, f);
    copier_begin(&c, &b, f);
    for (uint32_t p = 0; p < f->n_params; p++) {
        type_id t = copier_type(&c, value_type(f, p));
        t = type_varying(m, t, value_axes(m, t) | params[p]);
        c.values[p] = builder_param(&b, t, f->values[p].name);
    }
    val *out = ARENA_NEW(&b.arena, val, f->n_results + 1);
    copier_body(&c, out);
    for (uint32_t k = 0; k < f->n_results; k++) out[k] = builder_vary(&b, out[k], results[k]);
    return builder_finish(&b, out, f->n_results);
}

/* The function with parameters that vary along these axes, too, and results that vary at least along those.
 */
static uint32_t widen(struct module *m, uint32_t fn, const axis_set *params, const axis_set *results)
{
    const struct fn *f = module_fn(m, fn);
    bool same = true;
    for (uint32_t p = 0; p < f->n_params; p++) {
        type_id t = value_type(f, p);
        same &= type_is_object(m, t) || !(params[p] & ~value_axes(m, t));
    }
    for (uint32_t k = 0; k < f->n_results; k++) {
        type_id t = value_type(f, f->results[k]);
        same &= type_is_object(m, t) || !(results[k] & ~value_axes(m, t));
    }
    if (same) return fn;
    size_t of_params = f->n_params * sizeof *params, of_results = f->n_results * sizeof *results;
    uint64_t h = hash_mix(of_params ? hash_bytes(params, of_params, 1) : 0,
                          of_results ? hash_bytes(results, of_results, 2) : 0);
    uint64_t key[4] = { MEMO_WIDENED, fn, h, 0 };
    union memo_value known;
    for (; memo_get(m, key, &known); key[3]++) {
        const struct widened *w = known.record;
        if ((!of_params || !memcmp(w->params, params, of_params)) &&
            (!of_results || !memcmp(w->results, results, of_results)))
            return w->fn;
    }
    struct widened *w = ARENA_NEW(&m->arena, struct widened, 1);
    *w = (struct widened){ arena_copy(&m->arena, params, of_params),
                           arena_copy(&m->arena, results, of_results), build_widened(m, f, params, results) };
    memo_put(m, key, (union memo_value){ .record = w });
    return w->fn;
}

/* ---- nodes with bodies ---- */

struct settling {
    struct module *m;
    const struct op_row *row;
    struct infer *in;
    struct region *regions;
    axis_set *sets;    /* per operand: what it varies along */
    axis_set *results; /* per result of a choice: what it varies along in any branch */
    axis_set all;      /* along which everything varies: the axes of a predicate, an index, a bound */
    axis_set bound;
    bool alike; /* a row of which no more is known: everything varies alike */
    bool changed;
};

static void grow(struct settling *s, axis_set *set, axis_set more)
{
    s->changed |= (more & ~*set) != 0;
    *set |= more;
}

static bool varies_alike(const struct op_row *row)
{
    bool known = row->loop || row->control == CONTROL_CALL || row->control == CONTROL_REGION ||
                 row->control == CONTROL_CHOICE;
    return !known;
}

/* The position of group g's first operand. */
static uint32_t group_first(const struct infer *in, uint32_t g)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < g; i++) at += in->groups[i];
    return at;
}

/* Which operand feeds each parameter of region r, and whether by slices; how many are fed. */
static uint32_t feeding(const struct infer *in, const struct op_row *row, uint32_t r,
                        const struct region *region, uint32_t *from, bool *over, uint32_t room)
{
    const struct sig_region *sig = sig_region(row, r);
    uint32_t n = 0;
    for (uint32_t g = 0; g < row->sig.n_groups; g++) {
        uint32_t first = group_first(in, g);
        for (uint32_t times = sig->feeds >> g & 1 ? sig_group_feeds(row, g) : 0; times; times--)
            for (uint32_t i = 0; i < in->groups[g]; i++, n++) {
                if (n >= room) continue;
                from[n] = first + i;
                over[n] = row->sig.groups[g].kind == GROUP_OVER;
            }
    }
    for (uint32_t i = 0; i < region->n_operands; i++, n++) {
        if (n >= room) continue;
        from[n] = region->operands + i;
        over[n] = false;
    }
    return n;
}

/* The operand of the carry that result k of region r is the next one of; HOP_NONE: it is none. */
static uint32_t carry_of(const struct settling *s, uint32_t r, uint32_t k)
{
    const struct loop_row *loop = s->row->loop;
    if (!loop || !loop->group.carry || r + 1 != loop->region.body) return HOP_NONE;
    uint32_t g = loop->group.carry - 1u;
    return k < s->in->groups[g] ? group_first(s->in, g) + k : HOP_NONE;
}

static bool is_predicate(const struct settling *s, uint32_t r)
{
    return s->row->loop && s->row->loop->region.cond && r + 1 == s->row->loop->region.cond;
}

/* A gradient that was taken in a body somebody wrote has counted its parameters as the same in all lanes: its
 * numbers would be others if they were not. */
static void refuse_late(const struct settling *s, const struct fn *f, const axis_set *params)
{
    if (!s->in->written || !f->transposed) return;
    for (uint32_t p = 0; p < f->n_params; p++) {
        axis_set more = (axis_set)(params[p] & ~value_axes(s->m, value_type(f, p)));
        if (!more || type_is_object(s->m, value_type(f, p))) continue;
        infer_error(
            s->in,
            "parameter %u (%%%s) of a body is the same in all lanes of the axis %s when it is captured "
            "and varies along it later, and the body takes gradients: vary what it begins with",
            p, module_text(s->m, f->values[p].name), axes_text(s->m, more));
    }
}

/* Region r for what its operands vary along now; what comes of it is added to those. */
static void settle_region(struct settling *s, uint32_t r)
{
    struct module *m = s->m;
    struct region *region = &s->regions[r];
    const struct fn *f = module_fn(m, region->fn);
    struct arena *arena = s->in->arena;
    uint32_t *from = ARENA_NEW(arena, uint32_t, f->n_params + 1);
    bool *over = ARENA_NEW(arena, bool, f->n_params + 1);
    axis_set *params = ARENA_NEW(arena, axis_set, f->n_params + 1),
             *results = ARENA_ZNEW(arena, axis_set, f->n_results + 1);
    /* a wrong number is reported where the region is bound */
    if (feeding(s->in, s->row, r, region, from, over, f->n_params) != f->n_params) return;
    for (uint32_t p = 0; p < f->n_params; p++) {
        axis_set inside = over[p] ? s->bound : 0;
        grow(s, &s->sets[from[p]], (axis_set)(value_axes(m, value_type(f, p)) & ~inside));
        params[p] = s->sets[from[p]] | inside | s->all;
    }
    for (uint32_t k = 0; k < f->n_results; k++) {
        uint32_t carry = carry_of(s, r, k);
        if (carry != HOP_NONE) results[k] = s->sets[carry];
        else if (s->results) results[k] = s->results[k];
        results[k] |= s->all;
    }
    uint32_t wider = widen(m, region->fn, params, results);
    if (wider != region->fn) refuse_late(s, f, params);
    region->fn = wider;
    f = module_fn(m, region->fn);
    for (uint32_t k = 0; k < f->n_results; k++) {
        axis_set found = value_axes(m, value_type(f, f->results[k]));
        uint32_t carry = carry_of(s, r, k);
        if (carry != HOP_NONE) grow(s, &s->sets[carry], found);
        else if (s->results) grow(s, &s->results[k], found);
        if (s->alike || is_predicate(s, r)) grow(s, &s->all, found);
    }
}

/* Along which a predicate, an index or a bound varies, as far as operands say it. */
static axis_set operands_control(const struct infer *in, const struct op_row *row, const axis_set *sets)
{
    axis_set all = 0;
    for (uint32_t i = 0; i < in->n_operands && varies_alike(row); i++) all |= sets[i];
    if (row->control == CONTROL_CHOICE && in->n_operands) all |= sets[0];
    const struct loop_row *loop = row->loop;
    if (loop && loop->group.from) all |= sets[group_first(in, loop->group.from - 1u)];
    if (loop && loop->group.to) all |= sets[group_first(in, loop->group.to - 1u)];
    return all;
}

static void refuse_waiting(const struct settling *s)
{
    for (uint32_t r = 0; r < s->in->n_regions; r++) {
        const struct fn *f = module_fn(s->m, s->regions[r].fn);
        axis_set waits = f->exchanged & s->all, found;
        if (!waits) continue;
        const struct node *n = find_named(s->m, f, waits, true, &found);
        const char *what = s->row->control == CONTROL_CHOICE ? "its index"
                           : s->row->loop->group.from        ? "how often it runs"
                                                             : "its predicate";
        const char *at = n ? place_text(s->m, n->place) : "";
        int length = (int)strlen(at) - 2; /* without the colon */
        infer_error(
            s->in,
            "%s varies along the axis %s, and a body of it has %s over that axis%s%.*s: lanes that do "
            "not get there would be waited for",
            what, axes_text(s->m, found ? found : waits), n ? node_row(n)->name : "a collective",
            length > 0 ? ", at " : "", HOP_MAX(length, 0), at);
    }
}

static void settle_bodies(struct settling *s)
{
    const struct infer *in = s->in;
    do {
        s->changed = false;
        grow(s, &s->all, operands_control(in, s->row, s->sets));
        for (uint32_t i = 0; i < in->n_operands; i++) grow(s, &s->sets[i], s->all);
        for (uint32_t r = 0; r < in->n_regions; r++) settle_region(s, r);
    } while (s->changed);
    if (!s->alike) refuse_waiting(s);
}

/* ---- nodes ---- */

static axis_set union_of(const struct infer *in)
{
    axis_set u = 0;
    for (uint32_t i = 0; i < in->n_operands; i++) u |= value_axes(in->m, in->operands[i]);
    return u;
}

struct dim_axes {
    struct infer *in;
    axis_set axes;
};

static bool add_axis(void *ctx, uint32_t symbol)
{
    struct dim_axes *d = ctx;
    uint32_t axis = symbol < d->in->n_symbols ? d->in->symbols[symbol].axis : 0;
    if (axis) d->axes |= module_axis(d->in->m, axis);
    return false;
}

/* The axes of the coordinates that a size depends on: ranks have different numbers for it. */
static axis_set dim_axes(struct infer *in, dim d)
{
    struct dim_axes found = { in, 0 };
    if (d & DIM_TABLE) dim_mentions(in->m, d, add_axis, &found);
    return found.axes;
}

/* The axes of the coordinates that sizes in the node's attributes depend on. */
static axis_set sized_axes(struct infer *in, const struct op_row *row)
{
    axis_set all = 0;
    for (uint32_t k = 0; k < row->sig.n_attrs && row->axis_role == AXIS_NONE; k++) {
        const struct attr *a = &in->attrs[k];
        if (a->kind == ATTR_DIM) all |= dim_axes(in, (dim)a->i);
        for (uint32_t i = 0; a->kind == ATTR_DIMS && i < a->n; i++) all |= dim_axes(in, a->list[i]);
    }
    return all;
}

/* What the operands of a first-order node vary along: where sizes depend on the rank, they do, so that what
 * is summed over ranks has one size. */
static axis_set wanted_axes(struct infer *in, const struct op_row *row)
{
    axis_set u = union_of(in) | sized_axes(in, row);
    return row_exchanges(row) ? u | axes_named(in->m, row, in->attrs) : u;
}

static void refuse_bound_twice(const struct infer *in, axis_set bound)
{
    if (bound & meshes_axes(in->m))
        infer_error(
            in,
            "the axis %s is that of a mesh, whose ranks are its lanes: an axis of slices has another name",
            axes_text(in->m, bound));
    if (union_of(in) & bound)
        infer_error(in, "the axis %s is bound around it already: an axis inside of itself has another name",
                    axes_text(in->m, bound));
}

/* A sum of what is a sum already would be a multiple of it. */
static void refuse_repeated(struct infer *in, const struct op_row *row, axis_set varies)
{
    if (!in->written || !row->repeats || !row->repeats(in->attrs)) return;
    axis_set same = axes_named(in->m, row, in->attrs) & (axis_set)~varies;
    if (same)
        infer_error(
            in,
            "its operand is the same in all lanes of the axis %s: it was reduced already, or never "
            "differed, and this would be a multiple of it; where each lane is to count, vary it first",
            axes_text(in->m, same));
}

void axes_settle(struct builder *b, const struct op_row *row, struct infer *in, val *operands, type_id *types,
                 struct region *regions)
{
    axis_set *sets = ARENA_NEW(in->arena, axis_set, in->n_operands + 1);
    for (uint32_t i = 0; i < in->n_operands; i++) sets[i] = value_axes(b->m, types[i]);
    if (row->flags & OPF_HIGHER) {
        struct settling s = { .m = b->m,
                              .row = row,
                              .in = in,
                              .regions = regions,
                              .sets = sets,
                              .bound = axes_bound(b->m, row, in->attrs),
                              .alike = varies_alike(row) };
        refuse_bound_twice(in, s.bound);
        uint32_t n = in->n_regions ? module_fn(b->m, regions[0].fn)->n_results : 0;
        for (uint32_t r = 1; r < in->n_regions; r++)
            n = HOP_MAX(n, module_fn(b->m, regions[r].fn)->n_results);
        if (row->control == CONTROL_CHOICE) s.results = ARENA_ZNEW(in->arena, axis_set, n + 1);
        settle_bodies(&s);
    } else if (row->axis_role != AXIS_EACH) {
        axis_set wanted = wanted_axes(in, row);
        refuse_repeated(in, row, union_of(in) | sized_axes(in, row));
        for (uint32_t i = 0; i < in->n_operands; i++) sets[i] = wanted;
    }
    struct place place = b->place;
    b->place = in->place;
    for (uint32_t i = 0; i < in->n_operands; i++) {
        operands[i] = builder_vary(b, operands[i], sets[i]);
        types[i] = builder_type(b, operands[i]);
    }
    b->place = place;
}

void axes_of_results(struct infer *in, const struct op_row *row)
{
    axis_set named = axes_named(in->m, row, in->attrs), bound = axes_bound(in->m, row, in->attrs), all;
    if (row->flags & OPF_HIGHER) {
        axis_set *sets = ARENA_NEW(in->arena, axis_set, in->n_operands + 1);
        for (uint32_t i = 0; i < in->n_operands; i++) sets[i] = value_axes(in->m, in->operands[i]);
        all = operands_control(in, row, sets);
        if (row->loop && row->loop->region.cond) {
            const struct fn *cond = module_fn(in->m, in->regions[row->loop->region.cond - 1].fn);
            if (cond->n_results) all |= value_axes(in->m, value_type(cond, cond->results[0]));
        }
    } else all = row->axis_role == AXIS_EACH ? 0 : union_of(in);
    if (!(row->flags & OPF_HIGHER) && !in->n_operands) all |= sized_axes(in, row);
    if (row->axis_role == AXIS_VARIES) all |= named;
    if (row->axis_role == AXIS_JOINS) bound |= named;
    for (uint32_t k = 0; k < in->n_results; k++) {
        axis_set found = value_axes(in->m, in->results[k]);
        in->results[k] = type_varying(in->m, in->results[k], (axis_set)((found | all) & ~bound));
    }
}

void axes_verify(struct infer *in, const struct op_row *row)
{
    if (row->flags & OPF_HIGHER || row->axis_role == AXIS_EACH) return; /* bodies: where they are bound */
    axis_set wanted = wanted_axes(in, row);
    for (uint32_t i = 0; i < in->n_operands; i++)
        if (!type_is_object(in->m, in->operands[i]) && value_axes(in->m, in->operands[i]) != wanted)
            infer_error(in, "operand %u has type %s, others of the node vary along %s", i,
                        infer_text(in, in->operands[i]), axes_text(in->m, wanted));
}
