/* The reference interpreter. A function and its argument tensors come in; its nodes are evaluated in order by
 * their rows' eval rules and the result tensors go out. A tensor lives from the node that makes it to its
 * last use. Nothing here is fast on purpose. */
#include "interp/interp.h"

#include "ir/axes.h"

/* ---- binding symbols ---- */

/* Messages are made in an arena of their own, which the throw frees: executables bind symbols on many
 * threads, and the module's scratch belongs to none of them. */
static struct text begin_error(struct arena *arena)
{
    memset(arena, 0, sizeof *arena);
    hop_cleanup_push(arena_free, arena);
    return (struct text){ .arena = arena };
}

static void add_param(struct text *out, const struct module *m, const struct fn *f, uint32_t p)
{
    if (f->values[p].name) text_add(out, "argument %%%.100s", module_text(m, f->values[p].name));
    else text_add(out, "argument %u", p);
}

static _Noreturn void error_type(struct module *m, const struct fn *f, uint32_t p,
                                 const struct shape_view *found)
{
    struct arena arena;
    struct text out = begin_error(&arena);
    add_param(&out, m, f, p);
    text_str(&out, ": expected ");
    type_print(m, f->symbols, value_type(f, p), &out);
    if (found->kind) {
        text_add(&out, ", found object \"%s\"", found->kind);
        hop_throw(HOP_INVALID, "%s", out.data);
    }
    text_add(&out, ", found %s[", dtype_info[found->dtype].name);
    for (uint32_t i = 0; i < found->rank; i++)
        text_add(&out, "%s%lld", i ? ", " : "", (long long)found->dims[i]);
    text_str(&out, "]");
    hop_throw(HOP_INVALID, "%s", out.data);
}

static _Noreturn void error_dim(struct module *m, const struct fn *f, uint32_t p, uint32_t d, int64_t found,
                                int64_t want)
{
    struct arena arena;
    struct text out = begin_error(&arena);
    dim expected = type_get(m, value_type(f, p)).dims[d];
    uint32_t s;
    add_param(&out, m, f, p);
    text_add(&out, ": dim %u", d);
    if (!dim_is_const(m, expected)) {
        text_str(&out, " (");
        dim_print(m, f->symbols, expected, &out);
        text_str(&out, ")");
    }
    text_add(&out, " is %lld, but ", (long long)found);
    if (dim_is_symbol(m, expected, &s) && f->symbols[s].origin == SYMBOL_PARAM) {
        add_param(&out, m, f, f->symbols[s].index);
        text_add(&out, " says %lld", (long long)want);
    } else {
        text_add(&out, "must be %lld", (long long)want);
    }
    hop_throw(HOP_INVALID, "%s", out.data);
}

static _Noreturn void error_range(const struct module *m, const struct fn *f, uint32_t s, int64_t found)
{
    const struct symbol *symbol = &f->symbols[s];
    struct arena arena;
    struct text out = begin_error(&arena);
    if (symbol->origin == SYMBOL_PARAM) {
        add_param(&out, m, f, symbol->index);
        text_str(&out, ": ");
    }
    text_add(&out, "dim %s is %lld, but must be ", module_text(m, symbol->name), (long long)found);
    if (symbol->hi == INT64_MAX) text_add(&out, "at least %lld", (long long)symbol->lo);
    else text_add(&out, "in %lld..%lld", (long long)symbol->lo, (long long)symbol->hi);
    hop_throw(HOP_INVALID, "%s", out.data);
}

static _Noreturn void error_require(const struct module *m, const struct fn *f, const struct require *q,
                                    int64_t a, int64_t b)
{
    struct arena arena;
    struct text out = begin_error(&arena);
    if (q->place.line && q->place.file < m->files.len)
        text_add(&out, "%s:%u: ", m->files.data[q->place.file], q->place.line);
    text_str(&out, "the arguments' sizes do not fit: ");
    dim_print(m, f->symbols, q->a, &out);
    text_str(&out, " must equal ");
    dim_print(m, f->symbols, q->b, &out);
    text_add(&out, ", but they are %lld and %lld", (long long)a, (long long)b);
    hop_throw(HOP_INVALID, "%s", out.data);
}

void bind_symbols(struct module *m, const struct fn *f, const struct shape_view *args, const int64_t *dims,
                  int64_t *symbols)
{
    uint32_t given = 0;
    for (uint32_t s = 0; s < f->n_outer_symbols; s++) {
        if (f->symbols[s].origin != SYMBOL_DIM) continue;
        if (!dims)
            hop_throw(HOP_INVALID, "the dim parameter '%s' is not given", module_text(m, f->symbols[s].name));
        symbols[s] = dims[given++];
    }
    uint32_t s;
    for (uint32_t p = 0; p < f->n_params; p++) {
        struct type t = type_get(m, value_type(f, p));
        bool fits = t.dtype == args[p].dtype && t.rank == args[p].rank;
        if (!fits || (t.kind && strcmp(module_text(m, t.kind), args[p].kind))) error_type(m, f, p, &args[p]);
        for (uint32_t d = 0; d < t.rank; d++) {
            if (!dim_is_symbol(m, t.dims[d], &s) || f->symbols[s].origin != SYMBOL_PARAM) continue;
            /* The first parameter that has the symbol as a dim is its `index`. */
            if (f->symbols[s].index == p) symbols[s] = args[p].dims[d];
        }
    }
    for (uint32_t k = 0; k < f->n_outer_symbols; k++)
        if (symbols[k] < f->symbols[k].lo || symbols[k] > f->symbols[k].hi) error_range(m, f, k, symbols[k]);
    for (uint32_t p = 0; p < f->n_params; p++) {
        struct type t = type_get(m, value_type(f, p));
        for (uint32_t d = 0; d < t.rank; d++) {
            int64_t want = dim_eval(m, t.dims[d], symbols);
            if (want != args[p].dims[d]) error_dim(m, f, p, d, args[p].dims[d], want);
        }
    }
    for (uint32_t i = 0; i < f->n_required; i++) {
        int64_t a = dim_eval(m, f->required[i].a, symbols), b = dim_eval(m, f->required[i].b, symbols);
        if (a != b) error_require(m, f, &f->required[i], a, b);
    }
}

void check_objects_differ(const struct module *m, const struct fn *f, struct tensor *const *args)
{
    if (!(f->effects & EFFECT_WRITES)) return;
    for (uint32_t p = 0; p < HOP_MIN(f->n_params, EFFECT_PARAMS); p++) {
        effect_set of_p = f->effects & (effect_reads(p) | effect_writes(p));
        for (uint32_t q = 0; of_p && q < p; q++) {
            effect_set of_q = f->effects & (effect_reads(q) | effect_writes(q));
            if (!of_q || !((of_p | of_q) & EFFECT_WRITES) || args[p]->handle != args[q]->handle) continue;
            struct arena arena;
            struct text out = begin_error(&arena);
            add_param(&out, m, f, q);
            text_str(&out, " and ");
            add_param(&out, m, f, p);
            hop_throw(HOP_INVALID, "%s are one object, which the program writes: it can be given once",
                      out.data);
        }
    }
}

void interp_region_symbols(const struct module *m, const struct region *r, const int64_t *symbols,
                           int64_t *out)
{
    for (uint32_t i = 0; i < r->n_dims; i++) out[i] = dim_eval(m, r->dims[i], symbols);
}

/* ---- frames ---- */

/* One activation of a function, in one block with its arrays. */
struct frame {
    const struct fn *f;
    struct tensor **values; /* NULL: not made yet or no longer needed */
    uint32_t *last_use;     /* node after which the value may go, NODE_NONE: it is a result */
    int64_t *symbols;
    struct tensor **operands; /* of the node being evaluated */
};

static void frame_drop(void *frame)
{
    struct frame *fr = frame;
    for (uint32_t v = 0; v < fr->f->n_values; v++) tensor_free(fr->values[v]);
    hop_free(fr);
}

static struct frame *frame_new(const struct fn *f)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) most = HOP_MAX(most, f->nodes[i].n_operands);
    size_t tensors = (f->n_values + (size_t)most) * sizeof(struct tensor *);
    size_t symbols = f->n_symbols * sizeof(int64_t);
    size_t last_uses = f->n_values * sizeof(uint32_t);
    struct frame *fr = hop_calloc(1, sizeof *fr + tensors + symbols + last_uses);
    fr->f = f;
    fr->values = (struct tensor **)(fr + 1);
    fr->operands = fr->values + f->n_values;
    fr->symbols = (int64_t *)(fr->operands + most);
    fr->last_use = (uint32_t *)(fr->symbols + f->n_symbols);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = &f->nodes[i];
        for (uint32_t k = 0; k < n->n_operands; k++) fr->last_use[node_operands(f, n)[k]] = i;
        for (uint32_t k = 0; k < n->n_results; k++)
            fr->last_use[n->results + k] = i; /* one that nobody uses goes at once */
    }
    for (uint32_t k = 0; k < f->n_results; k++) fr->last_use[f->results[k]] = NODE_NONE;
    hop_cleanup_push(frame_drop, fr);
    return fr;
}

/* ---- nodes ---- */

struct bound_here {
    const struct fn *f;
    uint32_t node;
};

static bool binds(void *ctx, uint32_t symbol)
{
    const struct bound_here *here = ctx;
    return here->f->symbols[symbol].origin == SYMBOL_NODE && here->f->symbols[symbol].index == here->node;
}

static struct tensor *new_result(struct interp *in, const struct frame *fr, uint32_t node, val v)
{
    struct type t = type_get(in->m, value_type(fr->f, v));
    struct bound_here here = { fr->f, node };
    int64_t dims[MAX_RANK];
    for (uint32_t d = 0; d < t.rank; d++) {
        if (fr->f->n_symbols > fr->f->n_outer_symbols && dim_mentions(in->m, t.dims[d], binds, &here))
            return NULL;
        dims[d] = dim_eval(in->m, t.dims[d], fr->symbols);
    }
    return tensor_new((enum dtype)t.dtype, t.rank, dims);
}

static _Noreturn void result_error(struct interp *in, const struct node *n, uint32_t k, const char *what)
{
    hop_throw(HOP_INTERNAL, "%s%s: its eval rule gave result %u %s", place_text(in->m, n->place),
              node_row(n)->name, k, what);
}

/* Binds the symbols of node `node` from the shapes of its results, then holds every result against its type.
 */
static void bind_results(struct interp *in, struct frame *fr, uint32_t node)
{
    const struct fn *f = fr->f;
    const struct node *n = fn_node(f, node);
    struct bound_here here = { f, node };
    for (uint32_t k = 0; k < n->n_results; k++) {
        const struct tensor *got = fr->values[n->results + k];
        struct type t = type_get(in->m, value_type(f, n->results + k));
        if (!got) result_error(in, n, k, "no tensor");
        if (got->dtype != t.dtype || got->rank != t.rank)
            result_error(in, n, k, "another dtype or rank than its type says");
        uint32_t s;
        for (uint32_t d = 0; d < t.rank; d++)
            if (dim_is_symbol(in->m, t.dims[d], &s) && binds(&here, s)) {
                const struct symbol *symbol = &f->symbols[s];
                if (got->dims[d] < symbol->lo || got->dims[d] > symbol->hi)
                    hop_throw(HOP_CHECK, "%s%s: dim %u of result %u is %lld, but must be in %lld..%lld",
                              place_text(in->m, n->place), node_row(n)->name, d, k, (long long)got->dims[d],
                              (long long)symbol->lo, (long long)symbol->hi);
                fr->symbols[s] = got->dims[d];
            }
    }
    for (uint32_t k = 0; k < n->n_results; k++) {
        struct type t = type_get(in->m, value_type(f, n->results + k));
        for (uint32_t d = 0; d < t.rank; d++)
            if (fr->values[n->results + k]->dims[d] != dim_eval(in->m, t.dims[d], fr->symbols))
                result_error(in, n, k, "other sizes than its type says");
    }
}

static void eval_node(struct interp *in, struct frame *fr, uint32_t node)
{
    const struct fn *f = fr->f;
    const struct node *n = fn_node(f, node);
    const struct op_row *row = node_row(n);
    if (in->max_steps && in->steps >= in->max_steps)
        hop_throw(HOP_CANCELLED, "stopped after %llu steps", (unsigned long long)in->steps);
    in->steps++;
    hop_look();
    if (!row || !row->eval) hop_throw(HOP_INTERNAL, "operator %u has no eval rule", n->op);
    for (uint32_t k = 0; k < n->n_operands; k++) fr->operands[k] = fr->values[node_operands(f, n)[k]];
    /* Results are consecutive values, so a rule writes straight into the frame, which owns them if it throws.
     */
    if (!(row->flags & OPF_HIGHER))
        for (uint32_t k = 0; k < n->n_results; k++)
            fr->values[n->results + k] = new_result(in, fr, node, n->results + k);
    row->eval(&(struct eval){ .in = in,
                              .m = in->m,
                              .f = f,
                              .n = n,
                              .operands = fr->operands,
                              .symbols = fr->symbols,
                              .results = fr->values + n->results });
    bind_results(in, fr, node);
    for (uint32_t k = 0; k < n->n_operands + n->n_results; k++) {
        val v = k < n->n_operands ? node_operands(f, n)[k] : n->results + k - n->n_operands;
        if (fr->last_use[v] != node) continue;
        tensor_free(fr->values[v]);
        fr->values[v] = NULL; /* an operand may stand in the list twice */
    }
}

void interp_call(struct interp *in, uint32_t fn, const int64_t *outer_symbols, struct tensor *const *args,
                 struct tensor **results)
{
    const struct fn *f = module_fn(in->m, fn);
    hop_check_stack();
    struct frame *fr = frame_new(f);
    if (f->n_outer_symbols) memcpy(fr->symbols, outer_symbols, f->n_outer_symbols * sizeof *outer_symbols);
    for (uint32_t p = 0; p < f->n_params; p++) fr->values[p] = tensor_ref(args[p]);
    for (uint32_t i = 0; i < f->n_nodes; i++) eval_node(in, fr, i);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = tensor_ref(fr->values[f->results[k]]);
    hop_cleanup_pop(fr);
    frame_drop(fr);
}

void interp_run(struct interp *in, uint32_t fn, struct tensor *const *args, const int64_t *dims,
                struct tensor **results)
{
    const struct fn *f = module_fn(in->m, fn);
    struct arena arena = { 0 };
    if (f->global && in->ranks) {
        in->ranks->run(in, fn, args, dims, results);
        return;
    }
    if (f->global)
        hop_throw(HOP_INVALID, "@%s is a program over a mesh, and there are no ranks here",
                  module_text(in->m, fn_label(f)));
    axes_all_bound(in->m, fn, "run");
    hop_cleanup_push(arena_free, &arena);
    struct shape_view *views = ARENA_NEW(&arena, struct shape_view, f->n_params);
    int64_t *symbols = ARENA_ZNEW(&arena, int64_t, f->n_outer_symbols);
    for (uint32_t p = 0; p < f->n_params; p++) views[p] = shape_of(args[p]);
    bind_symbols(in->m, f, views, dims, symbols);
    check_objects_differ(in->m, f, args);
    interp_call(in, fn, symbols, args, results);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}
