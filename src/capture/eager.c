/* Eager mode: values are tensors, and each call runs at once. A call's rule emits into a small function over
 * the operands' shapes, which the interpreter evaluates; control flow calls the bodies directly. The same
 * texts, promotion and checks apply as in a capture. */
#include "ir/number.h"
#include "capture/capture.h"
#include "interp/interp.h"

/* A module that has seen this much is replaced: functions and texts of single calls pile up in it. */
enum { MODULE_BYTES = 1 << 24 };

hop_val eager_value(struct scope *s, struct tensor *t)
{
    if (s->n_tensors == s->cap_tensors) {
        hop_cleanup_push(tensor_free, t);
        uint32_t cap = s->cap_tensors ? 2 * s->cap_tensors : 16;
        s->tensors = hop_realloc(s->tensors, cap * sizeof *s->tensors);
        s->cap_tensors = cap;
        hop_cleanup_pop(t);
    }
    s->tensors[s->n_tensors] = t;
    return (hop_val){ s->serial, s->n_tensors++ };
}

struct tensor *eager_tensor(struct scope *s, hop_val v)
{
    if (is_weak(v)) return NULL;
    if (v.scope < FIRST_SERIAL) capture_throw("an empty handle was used: no call has given it a value");
    if (is_variable(v)) {
        struct tensor *t = eager_variable_read(s->capture, variable_index(s->capture, v));
        eager_value(s->capture->innermost, t); /* the scope keeps it */
        return t;
    }
    for (; s; s = s->outer)
        if (s->serial == v.scope && v.id < s->n_tensors) return s->tensors[v.id];
    capture_throw("a value of another capture, or of a body that has ended, was used");
}

static void renew_module(struct capture *c)
{
    if (c->m->arena.total < MODULE_BYTES || c->running) return; /* what is being run lies in it */
    struct module *fresh = module_new();
    module_free(c->m);
    c->m = fresh;
    c->last_file = NULL;
}

struct owned_tensors {
    uint32_t n;
    struct tensor *data[];
};
static void owned_free(void *owned)
{
    struct owned_tensors *o = owned;
    for (uint32_t i = 0; i < o->n; i++) tensor_free(o->data[i]);
    hop_free(o);
}
static struct owned_tensors *owned_new(uint32_t n)
{
    struct owned_tensors *o = hop_calloc(1, sizeof *o + n * sizeof *o->data);
    o->n = n;
    hop_cleanup_push(owned_free, o);
    return o;
}
static void owned_end(struct owned_tensors *o)
{
    hop_cleanup_pop(o);
    owned_free(o);
}

void eager_emit(struct capture *c, emit_rule rule, const void *args, const hop_val *in, uint32_t n,
                hop_val *out, uint32_t n_out)
{
    struct scope *s = c->innermost;
    struct builder b;
    renew_module(c);
    struct owned_tensors *tensors = owned_new(n + n_out);
    for (uint32_t i = 0; i < n; i++) {
        struct tensor *t = eager_tensor(s, in[i]);
        if (t) tensors->data[i] = tensor_ref(t);
    }
    builder_begin(&b, c->m, NULL);
    b.place = capture_place(c, c->at);
    b.fn_place = b.place;
    struct scope_modes modes;
    modes_of_call(&b, &modes);
    struct emission e = { .c = c,
                          .s = s,
                          .b = &b,
                          .n = n,
                          .in = ARENA_ZNEW(&b.arena, struct operand, n),
                          .args = args,
                          .out = ARENA_NEW(&b.arena, val, n_out),
                          .n_out = n_out };
    struct tensor **params = ARENA_NEW(&c->m->arena, struct tensor *, n);
    uint32_t n_params = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct tensor *t = tensors->data[i];
        if (!t) {
            e.in[i] = resolve(s, in[i]);
            continue;
        }
        e.in[i] = (struct operand){ .v = builder_param(&b, tensor_type(c->m, t), 0) };
        params[n_params++] = tensors->data[i];
    }
    rule(&e);
    uint32_t fn = builder_finish(&b, e.out, n_out);
    struct interp interp = { .m = c->m, .print = c->print, .print_ctx = c->print_ctx };
    c->running++;
    interp_run(&interp, fn, params, NULL, tensors->data + n);
    c->running--;
    for (uint32_t i = 0; i < n_out; i++) {
        struct tensor *t = tensors->data[n + i];
        tensors->data[n + i] = NULL;
        out[i] = eager_value(s, t);
    }
    owned_end(tensors);
}

static void rule_itself(struct emission *e) { e->out[0] = operand_value(e->b, &e->in[0]); }

struct tensor *eager_materialise(struct capture *c, hop_val v)
{
    hop_val out = v;
    if (is_weak(v)) eager_emit(c, rule_itself, NULL, &v, 1, &out, 1);
    return tensor_ref(eager_tensor(c->innermost, out));
}

/* ---- bodies ---- */

/* Handles or tensors of a body's values: few of them lie in the struct itself. */
enum { FEW_VALUES = 16 };
struct values {
    hop_val *data;
    hop_val few[FEW_VALUES];
};
static hop_val *values_begin(struct values *v, uint32_t n)
{
    v->data = v->few;
    memset(v->few, 0, sizeof v->few);
    if (n > FEW_VALUES) {
        v->data = hop_calloc(n, sizeof *v->data);
        hop_cleanup_push(hop_free, v->data);
    }
    return v->data;
}
static void values_end(struct values *v)
{
    if (v->data == v->few) return;
    hop_cleanup_pop(v->data);
    hop_free(v->data);
}

void eager_prune(struct scope *s, uint32_t mark, hop_val *kept, uint32_t n)
{
    struct tensor *few[FEW_VALUES], **now = n > FEW_VALUES ? hop_calloc(n, sizeof *now) : few;
    for (uint32_t i = 0; i < n; i++) now[i] = tensor_ref(s->tensors[kept[i].id]);
    while (s->n_tensors > mark) tensor_free(s->tensors[--s->n_tensors]);
    for (uint32_t i = 0; i < n; i++) { /* there is room: it held at least as many */
        s->tensors[s->n_tensors] = now[i];
        kept[i].id = s->n_tensors++;
    }
    if (now != few) hop_free(now);
}

/* A number takes the type of another value; under autocast a float its dtype. */
static void rule_like(struct emission *e)
{
    struct type like = emit_type(e->b, e->in[0].v);
    if (e->in[1].weak) e->out[0] = weak_like(e->b, &e->in[1], like);
    else e->out[0] = modes_like(e->b, e->in[1].v, (enum dtype)like.dtype);
}

/* Runs a body in a scope of its own; its results become values of the scope around. Of the first n_like
 * results a number takes the type of the value in `like`. */
static void run_body_like(struct capture *c, enum scope_kind kind, const char *what, hop_body body, void *env,
                          const hop_val *in, hop_val *results, uint32_t n_out, const hop_val *like,
                          uint32_t n_like)
{
    struct values given;
    hop_val *out = values_begin(&given, n_out); /* not `results`, which may be the array of inputs */
    struct scope *s = scope_open(c, SCOPE_EAGER, what);
    hop_place at = c->at;
    const char *name = c->name;
    s->kind = (uint8_t)kind;
    if (!body) capture_throw("%s is NULL", what);
    int status = body(env, in, out);
    c->at = at;
    c->name = name;
    if (c->status) hop_throw((hop_status)c->status, "%s", c->message);
    if (status)
        hop_throw((hop_status)status, "%s:%d: %s: %s returned %d", at.file ? at.file : "", at.line, name,
                  what, status);
    modes_close(s, what);
    struct owned_tensors *kept = owned_new(n_out);
    for (uint32_t i = 0; i < n_out; i++) {
        if (i < n_like && (is_weak(out[i]) || autocasts(s)))
            eager_emit(c, rule_like, NULL, (hop_val[]){ like[i], out[i] }, 2, &out[i], 1);
        kept->data[i] = eager_materialise(c, out[i]);
    }
    scope_close(c);
    for (uint32_t i = 0; i < n_out; i++) {
        struct tensor *t = kept->data[i];
        kept->data[i] = NULL;
        results[i] = eager_value(c->innermost, t);
    }
    owned_end(kept);
    values_end(&given);
}

static void run_body(struct capture *c, enum scope_kind kind, const char *what, hop_body body, void *env,
                     const hop_val *in, hop_val *results, uint32_t n_out)
{
    run_body_like(c, kind, what, body, env, in, results, n_out, NULL, 0);
}

static struct tensor *row_of(const struct tensor *t, int64_t i)
{
    struct tensor *row = tensor_new((enum dtype)t->dtype, t->rank - 1u, t->dims + 1);
    size_t bytes = (size_t)row->count * dtype_info[t->dtype].size;
    if (bytes) memcpy(row->data, (const char *)t->data + (size_t)i * bytes, bytes);
    return row;
}

/* Rows of results, one per step. */
struct stack {
    struct tensor *t; /* made with the first row */
    int64_t rows;
};
static void stack_set(struct stack *k, const struct tensor *row, int64_t i)
{
    if (!k->t) {
        int64_t dims[MAX_RANK] = { k->rows };
        if (row->rank == MAX_RANK) capture_throw("a stacked result would have more than %d dims", MAX_RANK);
        memcpy(dims + 1, row->dims, row->rank * sizeof *dims);
        k->t = tensor_new((enum dtype)row->dtype, row->rank + 1u, dims);
        if (k->t->count) memset(k->t->data, 0, (size_t)k->t->count * dtype_info[row->dtype].size);
    }
    bool same = k->t->dtype == row->dtype && k->t->rank == row->rank + 1;
    for (uint32_t d = 0; same && d < row->rank; d++) same = k->t->dims[d + 1] == row->dims[d];
    if (!same) capture_throw("a stacked result has another type in step %lld", (long long)i);
    size_t bytes = (size_t)row->count * dtype_info[row->dtype].size;
    if (bytes) memcpy((char *)k->t->data + (size_t)i * bytes, row->data, bytes);
}
struct stacks {
    uint32_t n;
    struct stack data[];
};
static void stacks_free(void *stacks)
{
    struct stacks *s = stacks;
    for (uint32_t i = 0; i < s->n; i++) tensor_free(s->data[i].t);
    hop_free(s);
}
static struct stacks *stacks_new(uint32_t n, int64_t rows)
{
    struct stacks *s = hop_calloc(1, sizeof *s + n * sizeof *s->data);
    s->n = n;
    for (uint32_t i = 0; i < n; i++) s->data[i].rows = rows;
    hop_cleanup_push(stacks_free, s);
    return s;
}
/* A loop without steps still has stacked results, of no rows. Their types come from the body, captured with
 * inputs of these types and thrown away. */
struct dry_run {
    const char *what;
    hop_body body;
    void *env;
    const struct tensor *const *in; /* carries, then arrays of which it gets rows */
    uint32_t n_carry, n_in;
    const hop_val *xs; /* of the arrays: which are assignable */
    uint32_t n_out;
};

/* A body whose first input comes last; a result in front of its own is left free for that. */
struct turned_body {
    hop_body body;
    void *env;
    uint32_t n;
};
static int turned_call(void *env, const hop_val *in, hop_val *out)
{
    const struct turned_body *t = env;
    if (!t->body) capture_throw("the body is NULL");
    hop_val *turned = ARENA_NEW(&capture_current()->arena, hop_val, t->n + 1);
    turned[0] = in[t->n];
    if (t->n) memcpy(turned + 1, in, t->n * sizeof *turned);
    return t->body(t->env, turned, out + 1);
}

static void dry_stacks(struct capture *c, const struct dry_run *d, struct stack *stacks)
{
    struct capture dry = { .at = c->at, .name = c->name, .host = c };
    if (!d->body) capture_throw("%s is NULL", d->what);
    capture_enter(&dry, false);
    hop_cleanup_push(capture_leave_cleanup, &dry);
    for (uint32_t i = 0; i < c->names.len; i++) vec_push(&dry.arena, &dry.names, c->names.data[i]);
    struct scope *s = scope_open(&dry, SCOPE_BODY, d->what);
    hop_val *in = ARENA_NEW(&dry.arena, hop_val, d->n_in), *out = ARENA_ZNEW(&dry.arena, hop_val, d->n_out);
    for (uint32_t i = 0; i < d->n_in; i++) {
        const struct tensor *t = d->in[i];
        uint32_t row = i >= d->n_carry;
        dim dims[MAX_RANK];
        for (uint32_t k = row; k < t->rank; k++) dims[k - row] = dim_const(dry.m, t->dims[k]);
        type_id type = t->kind ? tensor_type(dry.m, t)
                               : type_intern(dry.m, (enum dtype)t->dtype, t->rank - row, dims);
        val v = builder_param(&s->b, type, 0);
        in[i] = value_handle(s, v);
    }
    for (uint32_t i = d->n_carry; i < d->n_in; i++)
        if (is_variable(d->xs[i - d->n_carry])) in[i] = variable_new(s, i, "");
    int status = d->body(d->env, in, out);
    if (dry.status) hop_throw((hop_status)dry.status, "%s", dry.message);
    if (status) hop_throw((hop_status)status, "%s returned %d", d->what, status);
    for (uint32_t i = d->n_carry; i < d->n_out; i++) {
        if (out[i].scope == HANDLE_NONE) capture_throw("%s: result %u was not set", d->what, i);
        struct operand o = resolve(s, out[i]);
        struct type t = emit_type(&s->b, operand_value(&s->b, &o));
        int64_t dims[MAX_RANK] = { 0 };
        if (t.rank == MAX_RANK) capture_throw("a stacked result would have more than %d dims", MAX_RANK);
        for (uint32_t k = 0; k < t.rank; k++)
            dims[k + 1] = dim_is_const(dry.m, t.dims[k]) ? dim_const_value(dry.m, t.dims[k]) : 0;
        struct stack *stack = &stacks[i - d->n_carry];
        dims[0] = stack->rows;
        struct tensor *empty = tensor_new((enum dtype)t.dtype, t.rank + 1u, dims);
        stack->t = empty;
        if (empty->count) memset(empty->data, 0, (size_t)empty->count * dtype_info[empty->dtype].size);
    }
    builder_abandon(&s->b);
    hop_cleanup_pop(&dry);
    capture_leave(&dry);
}

static hop_val stack_value(struct capture *c, struct stack *k)
{
    struct tensor *t = k->t;
    k->t = NULL;
    return eager_value(c->innermost, t);
}

static void check_carries(struct capture *c, const hop_val *was, const hop_val *now, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct tensor *a = eager_tensor(c->innermost, was[i]), *b = eager_tensor(c->innermost, now[i]);
        bool same = a->dtype == b->dtype && a->rank == b->rank;
        for (uint32_t d = 0; same && d < a->rank; d++) same = a->dims[d] == b->dims[d];
        if (!same) capture_throw("carry %u has another type than what the body makes of it", i);
    }
}

/* Weak numbers as carries take the dtype they have alone; a weak number that replaces a carry takes the
 * carry's. */
static void own_carries(struct capture *c, const hop_val *carry, uint32_t n, hop_val *out)
{
    for (uint32_t i = 0; i < n; i++) out[i] = eager_value(c->innermost, eager_materialise(c, carry[i]));
}

static int64_t scan_length(struct capture *c, const hop_scan_spec *spec)
{
    if (spec->n_xs) {
        const struct tensor *t = eager_tensor(c->innermost, spec->xs[0]);
        if (!t || !t->rank) capture_throw("xs 0 is a scalar, which has no leading dim");
        return t->dims[0];
    }
    struct cursor k = cursor_over(spec->length, "the length", c->innermost, c->m);
    dim d = parse_dim(&k);
    cursor_end(&k);
    if (dim_const_value(c->m, d) < 0)
        capture_throw("the length is negative: %lld", (long long)dim_const_value(c->m, d));
    return dim_const_value(c->m, d);
}

void eager_scan(struct capture *c, hop_val *results, int n_results, const hop_scan_spec *spec)
{
    uint32_t n_carry = (uint32_t)spec->n_carry, n_xs = (uint32_t)spec->n_xs, n_out = (uint32_t)n_results;
    struct values inputs, outputs;
    hop_val *in = values_begin(&inputs, n_carry + n_xs), *out = values_begin(&outputs, n_out);
    int64_t steps = scan_length(c, spec);
    struct owned_tensors *xs = owned_new(n_xs);
    for (uint32_t i = 0; i < n_xs; i++) {
        xs->data[i] = eager_materialise(c, spec->xs[i]);
        if (!xs->data[i]->rank || xs->data[i]->dims[0] != steps)
            capture_throw("the leading dim of xs %u: expected %lld", i, (long long)steps);
    }
    /* The ys, then rows of xs that may be assigned to. */
    struct stacks *stacks = stacks_new(n_out - n_carry + n_xs, steps);
    own_carries(c, spec->carry, n_carry, in);
    uint32_t mark = c->innermost->n_tensors - n_carry, variables = c->variables.len;
    for (int64_t k = 0; k < steps; k++) {
        int64_t t = spec->reverse ? steps - 1 - k : k;
        for (uint32_t i = 0; i < n_xs; i++) {
            struct tensor *row = row_of(xs->data[i], t);
            bool variable = is_variable(spec->xs[i]);
            in[n_carry + i] = (variable ? eager_variable_new : eager_value)(c->innermost, row);
        }
        run_body_like(c, SCOPE_BODY, "the step of scan", spec->step, spec->env, in, out, n_out, in, n_carry);
        check_carries(c, in, out, n_carry);
        memcpy(in, out, n_carry * sizeof *in);
        for (uint32_t i = n_carry; i < n_out; i++)
            stack_set(&stacks->data[i - n_carry], eager_tensor(c->innermost, out[i]), t);
        for (uint32_t i = 0; i < n_xs; i++)
            if (is_variable(spec->xs[i]))
                stack_set(&stacks->data[n_out - n_carry + i],
                          c->variables.data[variable_index(c, in[n_carry + i])].now, t);
        drop_variables(c, variables);
        eager_prune(c->innermost, mark, in, n_carry);
    }
    if (!steps && n_out > n_carry) {
        const struct tensor **types = ARENA_NEW(&c->arena, const struct tensor *, n_carry + n_xs);
        for (uint32_t i = 0; i < n_carry; i++) types[i] = eager_tensor(c->innermost, in[i]);
        for (uint32_t i = 0; i < n_xs; i++) types[n_carry + i] = xs->data[i];
        dry_stacks(c,
                   &(struct dry_run){ "the step of scan", spec->step, spec->env, types, n_carry,
                                      n_carry + n_xs, spec->xs, n_out },
                   stacks->data);
    }
    if (n_carry) memcpy(results, in, n_carry * sizeof *in);
    for (uint32_t i = n_carry; i < n_out; i++) results[i] = stack_value(c, &stacks->data[i - n_carry]);
    for (uint32_t i = 0; i < n_xs; i++)
        if (is_variable(spec->xs[i]) && steps)
            eager_variable_write(c, variable_index(c, spec->xs[i]),
                                 stack_value(c, &stacks->data[n_out - n_carry + i]));
    hop_cleanup_pop(stacks);
    stacks_free(stacks);
    owned_end(xs);
    values_end(&outputs);
    values_end(&inputs);
}

static bool holds(struct capture *c, hop_val v)
{
    struct tensor *t = eager_materialise(c, v);
    bool fits = t->dtype == DT_BOOL && !t->rank, value = fits && *(const uint8_t *)t->data;
    tensor_free(t);
    if (!fits) capture_throw("the predicate: expected bool[]");
    return value;
}

void eager_while(struct capture *c, hop_val *results, int n_results, const hop_while_spec *spec)
{
    uint32_t n_carry = (uint32_t)spec->n_carry, n_stack = (uint32_t)spec->n_stack;
    struct values inputs, outputs;
    hop_val *in = values_begin(&inputs, n_carry), *out = values_begin(&outputs, n_carry + n_stack), again;
    int64_t most = -1, trips = 0, room = 16;
    if (spec->max_trips) {
        struct cursor k = cursor_over(spec->max_trips, "max_trips", c->innermost, c->m);
        most = dim_const_value(c->m, parse_dim(&k));
        room = most;
    }
    struct stacks *stacks = stacks_new(n_stack, room);
    own_carries(c, spec->carry, n_carry, in);
    uint32_t mark = c->innermost->n_tensors - n_carry;
    for (;; trips++) {
        eager_prune(c->innermost, mark, in, n_carry);
        run_body(c, SCOPE_PREDICATE, "the predicate of while", spec->cond, spec->env, in, &again, 1);
        if (!holds(c, again)) break;
        if (trips == most)
            hop_throw(HOP_CHECK, "%s:%d: while: more than max_trips trips (%lld)",
                      c->at.file ? c->at.file : "", c->at.line, (long long)most);
        run_body_like(c, SCOPE_BODY, "the body of while", spec->body, spec->env, in, out, n_carry + n_stack,
                      in, n_carry);
        check_carries(c, in, out, n_carry);
        memcpy(in, out, n_carry * sizeof *in);
        for (uint32_t i = 0; i < n_stack; i++) {
            struct stack *k = &stacks->data[i];
            if (most < 0 && trips == k->rows) { /* double */
                struct stack larger = { .rows = 2 * k->rows };
                for (int64_t r = 0; r < trips; r++) {
                    struct tensor *row = row_of(k->t, r);
                    hop_cleanup_push(tensor_free, row);
                    stack_set(&larger, row, r);
                    hop_cleanup_pop(row);
                    tensor_free(row);
                }
                tensor_free(k->t);
                *k = larger;
            }
            stack_set(k, eager_tensor(c->innermost, out[n_carry + i]), trips);
        }
    }
    memcpy(results, in, n_carry * sizeof *in);
    if (n_results > (int)n_carry) {
        struct tensor *count = tensor_new(DT_I64, 0, NULL);
        *(int64_t *)count->data = trips;
        results[n_carry] = eager_value(c->innermost, count);
    }
    if (!trips && n_stack) {
        const struct tensor **types = ARENA_NEW(&c->arena, const struct tensor *, n_carry);
        for (uint32_t i = 0; i < n_carry; i++) types[i] = eager_tensor(c->innermost, in[i]);
        dry_stacks(c,
                   &(struct dry_run){ "the body of while", spec->body, spec->env, types, n_carry, n_carry,
                                      NULL, n_carry + n_stack },
                   stacks->data);
    }
    for (uint32_t i = 0; i < n_stack; i++) {
        struct stack *k = &stacks->data[i];
        if (most < 0 && k->t) { /* only the rows that are there */
            int64_t dims[MAX_RANK];
            memcpy(dims, k->t->dims, sizeof dims);
            dims[0] = trips;
            struct tensor *cut = tensor_new((enum dtype)k->t->dtype, k->t->rank, dims);
            if (cut->count) memcpy(cut->data, k->t->data, (size_t)cut->count * dtype_info[cut->dtype].size);
            tensor_free(k->t);
            k->t = cut;
        }
        results[n_carry + 1 + i] = stack_value(c, k);
    }
    hop_cleanup_pop(stacks);
    stacks_free(stacks);
    values_end(&outputs);
    values_end(&inputs);
}

static int64_t eager_bound(struct capture *c, hop_val v, const char *what)
{
    struct tensor *t = eager_materialise(c, v);
    bool fits = !t->rank && dtype_is_integer((enum dtype)t->dtype);
    int64_t value = fits ? element_index((enum dtype)t->dtype, t->data) : 0;
    tensor_free(t);
    if (!fits) capture_throw("'%s': expected an integer", what);
    return value;
}

void eager_fori(struct capture *c, hop_val *results, const hop_fori_spec *spec)
{
    uint32_t n_carry = (uint32_t)spec->n_carry, n_stack = (uint32_t)spec->n_stack, n_out = n_carry + n_stack;
    struct values inputs, outputs;
    hop_val *in = values_begin(&inputs, n_carry + 1), *out = values_begin(&outputs, n_out);
    int64_t from = eager_bound(c, spec->from, "from"), to = eager_bound(c, spec->to, "to");
    struct stacks *stacks = stacks_new(n_stack, to > from ? to - from : 0);
    own_carries(c, spec->carry, n_carry, in + 1);
    uint32_t mark = c->innermost->n_tensors - n_carry;
    for (int64_t i = from; i < to; i++) {
        struct tensor *index = tensor_new(DT_I64, 0, NULL);
        *(int64_t *)index->data = i;
        in[0] = eager_value(c->innermost, index);
        run_body_like(c, SCOPE_BODY, "the body of fori", spec->body, spec->env, in, out, n_out, in + 1,
                      n_carry);
        check_carries(c, in + 1, out, n_carry);
        memcpy(in + 1, out, n_carry * sizeof *in);
        for (uint32_t k = 0; k < n_stack; k++)
            stack_set(&stacks->data[k], eager_tensor(c->innermost, out[n_carry + k]), i - from);
        eager_prune(c->innermost, mark, in + 1, n_carry);
    }
    /* The index stands behind the carries in a dry run, so the body is called through one that turns it
     * round. */
    if (to <= from && n_stack) {
        struct turned_body turned = { spec->body, spec->env, n_carry };
        const struct tensor **types = ARENA_NEW(&c->arena, const struct tensor *, n_carry + 1);
        struct tensor *index = tensor_new(DT_I64, 0, NULL);
        hop_cleanup_push(tensor_free, index);
        for (uint32_t i = 0; i < n_carry; i++) types[i] = eager_tensor(c->innermost, in[i + 1]);
        types[n_carry] = index;
        uint32_t n_in = n_carry + 1;
        struct dry_run dry = { "the body of fori", turned_call, &turned, types, n_in, n_in, NULL, n_out + 1 };
        dry_stacks(c, &dry, stacks->data);
        hop_cleanup_pop(index);
        tensor_free(index);
    }
    if (n_carry) memcpy(results, in + 1, n_carry * sizeof *in);
    for (uint32_t k = 0; k < n_stack; k++) results[n_carry + k] = stack_value(c, &stacks->data[k]);
    hop_cleanup_pop(stacks);
    stacks_free(stacks);
    values_end(&outputs);
    values_end(&inputs);
}

void eager_associative_scan(struct capture *c, hop_val *results, const hop_associative_scan_spec *spec)
{
    uint32_t n = (uint32_t)spec->n_xs;
    struct values inputs, outputs;
    hop_val *in = values_begin(&inputs, 2 * n), *out = values_begin(&outputs, n);
    struct owned_tensors *xs = owned_new(n);
    uint32_t axis = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct tensor *whole = eager_tensor(c->innermost, spec->xs[i]);
        uint32_t rank = whole ? whole->rank : 0;
        if (!i) axis = check_axis(spec->axis, rank);
        if (rank <= axis) capture_throw("xs %u: there is no axis %u", i, axis);
        hop_val x = axis ? hop_move_axis_at(c->at, spec->xs[i], (int)axis, 0) : spec->xs[i];
        xs->data[i] = eager_materialise(c, x);
        if (xs->data[i]->dims[0] != xs->data[0]->dims[0])
            capture_throw("the lengths of xs 0 and %u along axis %u: expected %lld, found %lld", i, axis,
                          (long long)xs->data[0]->dims[0], (long long)xs->data[i]->dims[0]);
    }
    int64_t rows = xs->data[0]->dims[0];
    struct stacks *stacks = stacks_new(n, rows);
    uint32_t mark = c->innermost->n_tensors;
    for (int64_t k = 0; k < rows; k++) {
        int64_t t = spec->reverse ? rows - 1 - k : k;
        for (uint32_t i = 0; i < n; i++) in[n + i] = eager_value(c->innermost, row_of(xs->data[i], t));
        if (k)
            run_body_like(c, SCOPE_PREDICATE, "the combine function of associative_scan", spec->combine,
                          spec->env, in, out, n, in, n);
        if (k) check_carries(c, in, out, n);
        memcpy(in, k ? out : in + n, n * sizeof *in);
        for (uint32_t i = 0; i < n; i++) stack_set(&stacks->data[i], eager_tensor(c->innermost, in[i]), t);
        eager_prune(c->innermost, mark, in, n);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (rows) results[i] = stack_value(c, &stacks->data[i]);
        else results[i] = eager_value(c->innermost, tensor_ref(xs->data[i]));
        if (axis) results[i] = hop_move_axis_at(c->at, results[i], 0, (int)axis);
    }
    hop_cleanup_pop(stacks);
    stacks_free(stacks);
    owned_end(xs);
    values_end(&outputs);
    values_end(&inputs);
}

void eager_switch(struct capture *c, hop_val *results, int n_results, const hop_switch_spec *spec,
                  const char *what)
{
    struct tensor *t = eager_materialise(c, spec->index);
    bool fits = !t->rank && !dtype_is_float((enum dtype)t->dtype);
    int64_t index = fits ? element_index((enum dtype)t->dtype, t->data) : -1;
    tensor_free(t);
    if (!fits) capture_throw("the index: expected bool[] or an integer of any dtype, without dims");
    index = HOP_MIN(HOP_MAX(index, 0), (int64_t)spec->n_branches - 1);
    run_body(c, SCOPE_BODY, what, spec->branches[index], spec->envs ? spec->envs[index] : spec->env, spec->in,
             results, (uint32_t)n_results);
}

void eager_call(struct capture *c, hop_val *results, int n_results, const hop_call_spec *spec)
{
    run_body(c, SCOPE_BODY, "the body of call", spec->body, spec->env, spec->in, results,
             (uint32_t)n_results);
}

/* The function of the capture's only scope, with these results. */
static uint32_t finish_whole(struct capture *c, struct scope *s, const hop_val *results, uint32_t n)
{
    val *ends = ARENA_NEW(&c->arena, val, n);
    for (uint32_t i = 0; i < n; i++) {
        struct operand o = resolve(s, results[i]);
        ends[i] = operand_value(&s->b, &o);
    }
    uint32_t n_params = s->late.len;
    if (n_params != c->host_tensors.len) capture_throw("eager mode has no parameters");
    val *order = ARENA_NEW(&c->arena, val, n_params);
    for (uint32_t k = 0; k < n_params; k++) order[k] = s->late.data[k].here;
    modes_close(s, s->what);
    uint32_t fn = scope_finish(s, order, n_params, ends, n);
    scope_close(c);
    return fn;
}

void eager_whole(struct capture *c, void (*record)(struct capture *inner, void *args, hop_val *results),
                 void *args, hop_val *results, uint32_t n_results)
{
    struct owned_tensors *made = owned_new(n_results);
    struct capture inner = { .at = c->at, .name = c->name, .host = c };
    capture_enter(&inner, false);
    hop_cleanup_push(capture_leave_cleanup, &inner);
    for (uint32_t i = 0; i < c->names.len; i++) vec_push(&inner.arena, &inner.names, c->names.data[i]);
    struct scope *s = scope_open(&inner, SCOPE_ROOT, c->name);
    s->b.place = capture_place(&inner, c->at);
    hop_val *out = ARENA_ZNEW(&inner.arena, hop_val, n_results);
    record(&inner, args, out);
    uint32_t fn = finish_whole(&inner, s, out, n_results);
    struct interp interp = { .m = inner.m, .print = c->print, .print_ctx = c->print_ctx };
    interp_run(&interp, fn, inner.host_tensors.data, NULL, made->data);
    hop_cleanup_pop(&inner);
    capture_leave(&inner);
    for (uint32_t i = 0; i < n_results; i++) {
        struct tensor *t = made->data[i];
        made->data[i] = NULL;
        results[i] = eager_value(c->innermost, t);
    }
    owned_end(made);
}
