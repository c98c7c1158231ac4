/* Bodies and the operators that take them. Bodies are Python callables that get traced values and return a
 * sequence of values; one that raises abandons its capture, and the exception goes on to the caller as it
 * is. */
#include "bodies.h"

/* ---- bodies ---- */

const char *body_name(PyObject *fun)
{
    PyObject *name = PyObject_GetAttrString(fun, "_name");
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    Py_XDECREF(name);
    PyErr_Clear();
    return text;
}

/* What a body returned, to the library: into `out` where the number is known, else it is given. */
static int set_results(const struct body *b, PyObject *given, hop_val *out)
{
    PyObject *list = PySequence_List(given);
    int failed = list ? 0 : BODY_RAISED;
    for (Py_ssize_t i = 0; b->written && i < PyList_Size(b->written) && !failed; i++)
        failed = PyList_Append(list, PyList_GetItem(b->written, i)) ? BODY_RAISED : 0;
    Py_ssize_t n = list ? PyList_Size(list) : 0;
    hop_val *values = out;
    hop_place at = user_place();
    if (!failed && b->n_out >= 0 && n != b->n_out) {
        PyErr_Format(PyExc_TypeError, "a body gives %zd results, expected %d", n, b->n_out);
        failed = BODY_RAISED;
    }
    if (!failed && b->n_out < 0 && !(values = PyMem_Calloc((size_t)n + 1, sizeof *values))) {
        PyErr_NoMemory();
        failed = BODY_RAISED;
    }
    for (Py_ssize_t i = 0; i < n && !failed; i++)
        failed = value_of(PyList_GetItem(list, i), at, &values[i]) ? BODY_RAISED : 0;
    if (!failed && values != out) failed = hop_give_at(at, values, (int)n);
    if (values != out) PyMem_Free(values);
    Py_XDECREF(list);
    return failed;
}

/* Which values the operands of a capture that may be cut are. */
static int keep_params(struct frame *f, const hop_val *in, int n)
{
    f->params = PyMem_Calloc((size_t)n + 1, sizeof *f->params);
    if (!f->params) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < n; i++) f->params[i] = in[i];
    return 0;
}

int run_body(void *env, const hop_val *in, hop_val *out)
{
    const struct body *b = env;
    struct frame *top = frame_top();
    hop_place at = user_place();
    PyObject *outer_base = top->base;
    hop_place outer_at = top->base_at;
    top->base = (PyObject *)PyEval_GetFrame();
    top->base_at = at;
    PyObject *args = PyTuple_New(b->n_in);
    if (!top->depth++ && top->cut && keep_params(top, in, b->n_in)) Py_CLEAR(args);
    for (int i = 0; args && i < b->n_in; i++) {
        PyObject *a = array_of_value(in[i], at);
        const char *type = b->params ? b->params[i].type : NULL;
        if (a) as_array(a)->variable = type && !strncmp(type, "mut ", 4);
        if (!a || PyTuple_SetItem(args, i, a)) Py_CLEAR(args);
    }
    for (Py_ssize_t i = 0; args && b->written && i < PyList_Size(b->written); i++)
        if (array_trace(PyList_GetItem(b->written, i), at)) Py_CLEAR(args);
    PyObject *given = args ? PyObject_Call(b->fun, args, NULL) : NULL;
    Py_XDECREF(args);
    int failed = given ? set_results(b, given, out) : BODY_RAISED;
    Py_XDECREF(given);
    top->base = outer_base;
    top->base_at = outer_at;
    top->depth--;
    return failed;
}

/* ---- operators that take functions ---- */

int read_values(PyObject *o, hop_place at, struct values *out)
{
    *out = (struct values){ 0 };
    PyObject *list = PySequence_List(o);
    if (!list) return -1;
    out->n = (int)PyList_Size(list);
    out->data = PyMem_Calloc((size_t)out->n + 1, sizeof *out->data);
    int failed = out->data ? 0 : -1;
    if (failed) PyErr_NoMemory();
    for (int i = 0; i < out->n && !failed; i++) {
        PyObject *x = PyList_GetItem(list, i);
        failed = value_of(x, at, &out->data[i]);
        /* operands are values, whatever becomes of the array meanwhile */
        if (!failed && is_array(x) && as_array(x)->variable) out->data[i] = hop_current_at(at, out->data[i]);
    }
    Py_DECREF(list);
    return failed;
}

int operation_begin(struct operation *o)
{
    *o = (struct operation){ .at = user_place() };
    if (frame_top()) return 0;
    PyErr_SetString(PyExc_RuntimeError, "called outside of a capture");
    return -1;
}
bool operation_ready(struct operation *o, int n)
{
    o->hidden = PyList_Size(frame_top()->hidden);
    o->journal = journal_mark();
    o->n = n;
    if (n != HOP_ANY && !(o->results = PyMem_Calloc((size_t)n + 1, sizeof *o->results))) {
        PyErr_NoMemory();
        return false;
    }
    return true;
}
PyObject *operation_end(struct operation *o, int status)
{
    PyObject *list = NULL;
    if (status) {
        raise_status(status);
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyObject *hidden = frame_top()->hidden;
        PyList_SetSlice(hidden, o->hidden, PyList_Size(hidden), NULL);
        PyErr_Restore(type, value, trace);
        journal_undo(o->journal);
    } else {
        int n = o->n;
        const hop_val *results = o->results ? o->results : hop_given(&n);
        list = PyList_New(n);
        for (int i = 0; list && i < n; i++) {
            PyObject *a = array_of_value(results[i], o->at);
            if (!a || PyList_SetItem(list, i, a)) Py_CLEAR(list);
        }
    }
    PyMem_Free(o->results);
    return list;
}

/* scan(step, carry, xs, length, reverse, schedule) */
static PyObject *scan(PyObject *self, PyObject *args)
{
    PyObject *carry, *xs;
    struct body b = { .n_out = -1 };
    hop_scan_spec s = { .step = run_body, .env = &b };
    struct values c = { 0 }, x = { 0 };
    struct operation o;
    PyObject *r = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOzpz", &b.fun, &carry, &xs, &s.length, &s.reverse, &s.schedule))
        return NULL;
    if (operation_begin(&o)) return NULL;
    if (!read_values(carry, o.at, &c) && !read_values(xs, o.at, &x) && operation_ready(&o, HOP_ANY)) {
        b.n_in = c.n + x.n;
        s.carry = c.data;
        s.n_carry = c.n;
        s.xs = x.data;
        s.n_xs = x.n;
        s.name = body_name(b.fun);
        r = operation_end(&o, hop_scan_at(o.at, NULL, HOP_ANY, &s));
    }
    PyMem_Free(c.data);
    PyMem_Free(x.data);
    return r;
}

/* map(body, xs, length, sequential) */
static PyObject *map(PyObject *self, PyObject *args)
{
    PyObject *xs;
    struct body b = { .n_out = -1 };
    hop_map_spec s = { .body = run_body, .env = &b };
    struct values x = { 0 };
    struct operation o;
    PyObject *r = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOzp", &b.fun, &xs, &s.length, &s.sequential) || operation_begin(&o))
        return NULL;
    if (!read_values(xs, o.at, &x) && operation_ready(&o, HOP_ANY)) {
        b.n_in = x.n;
        s.xs = x.data;
        s.n_xs = x.n;
        s.name = body_name(b.fun);
        r = operation_end(&o, hop_map_at(o.at, NULL, HOP_ANY, &s));
    }
    PyMem_Free(x.data);
    return r;
}

/* fori(body, from, to, carry, schedule) */
static PyObject *fori(PyObject *self, PyObject *args)
{
    PyObject *carry, *from, *to;
    struct body b = { 0 };
    hop_fori_spec s = { .body = run_body, .env = &b };
    struct values c = { 0 };
    struct operation o;
    PyObject *r = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOz", &b.fun, &from, &to, &carry, &s.schedule) || operation_begin(&o))
        return NULL;
    bool read = !read_values(carry, o.at, &c) && !value_of(from, o.at, &s.from) && !value_of(to, o.at, &s.to);
    if (read && operation_ready(&o, c.n)) {
        b.n_in = c.n + 1;
        b.n_out = s.n_carry = c.n;
        s.carry = c.data;
        s.name = body_name(b.fun);
        r = operation_end(&o, hop_fori_at(o.at, o.results, c.n, &s));
    }
    PyMem_Free(c.data);
    return r;
}

/* The predicate and the body of a loop share an environment. */
struct loop {
    struct body test, step;
};
static int run_test(void *env, const hop_val *in, hop_val *out)
{
    return run_body(&((struct loop *)env)->test, in, out);
}
static int run_step(void *env, const hop_val *in, hop_val *out)
{
    return run_body(&((struct loop *)env)->step, in, out);
}

/* while_loop(cond, body, carry, max_trips, schedule, stack): with stack the body gives rows besides, as many
 * as carries, and the results are the carries, the number of trips, the rows */
static PyObject *while_loop(PyObject *self, PyObject *args)
{
    PyObject *carry;
    struct loop l = { { 0 }, { 0 } };
    hop_while_spec s = { .cond = run_test, .body = run_step, .env = &l };
    struct values c = { 0 };
    struct operation o;
    PyObject *r = NULL;
    int stack;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOzzp", &l.test.fun, &l.step.fun, &carry, &s.max_trips, &s.schedule,
                          &stack))
        return NULL;
    if (operation_begin(&o)) return NULL;
    bool read = !read_values(carry, o.at, &c);
    s.n_stack = stack ? c.n : 0;
    s.count = stack;
    int n_results = c.n + s.count + s.n_stack;
    if (read && operation_ready(&o, n_results)) {
        l.test.n_in = l.step.n_in = s.n_carry = c.n;
        l.step.n_out = c.n + s.n_stack;
        l.test.n_out = 1;
        s.carry = c.data;
        s.cond_name = body_name(l.test.fun);
        s.body_name = body_name(l.step.fun);
        r = operation_end(&o, hop_while_at(o.at, o.results, n_results, &s));
    }
    PyMem_Free(c.data);
    return r;
}

/* associative_scan(combine, xs, axis, reverse) */
static PyObject *associative_scan(PyObject *self, PyObject *args)
{
    PyObject *xs;
    struct body b = { 0 };
    hop_associative_scan_spec s = { .combine = run_body, .env = &b };
    struct values x = { 0 };
    struct operation o;
    PyObject *r = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOip", &b.fun, &xs, &s.axis, &s.reverse) || operation_begin(&o)) return NULL;
    if (!read_values(xs, o.at, &x) && operation_ready(&o, x.n)) {
        b.n_in = 2 * x.n;
        b.n_out = s.n_xs = x.n;
        s.xs = x.data;
        s.name = body_name(b.fun);
        r = operation_end(&o, hop_associative_scan_at(o.at, o.results, x.n, &s));
    }
    PyMem_Free(x.data);
    return r;
}

/* The score and the mask function of an attention share an environment; one that is None is not called. */
struct attention {
    struct body score, mask;
};
static int run_score(void *env, const hop_val *in, hop_val *out)
{
    return run_body(&((struct attention *)env)->score, in, out);
}
static int run_mask(void *env, const hop_val *in, hop_val *out)
{
    return run_body(&((struct attention *)env)->mask, in, out);
}

/* flex_attention(score, mask, (query, key, value, scale, first query), blocks, query_block, key_block) */
static PyObject *flex_attention(PyObject *self, PyObject *args)
{
    enum { QUERY, KEY, VALUE, SCALE, FIRST, GIVEN };
    enum { INDICES = 5, RESULTS = 3 };
    PyObject *given, *blocks;
    struct attention t = { { .n_in = INDICES, .n_out = 1 }, { .n_in = INDICES, .n_out = 1 } };
    hop_flex_attention_spec s = { .env = &t };
    struct values x = { 0 }, lists = { 0 };
    struct operation o;
    PyObject *r = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOii", &t.score.fun, &t.mask.fun, &given, &blocks, &s.query_block,
                          &s.key_block))
        return NULL;
    if (operation_begin(&o)) return NULL;
    bool read = !read_values(given, o.at, &x) && !read_values(blocks, o.at, &lists);
    if (read && x.n != GIVEN) {
        PyErr_Format(PyExc_TypeError, "expected %d values, found %d", (int)GIVEN, x.n);
        read = false;
    }
    if (read && operation_ready(&o, RESULTS)) {
        s.score = t.score.fun == Py_None ? NULL : run_score;
        s.mask = t.mask.fun == Py_None ? NULL : run_mask;
        s.query = x.data[QUERY];
        s.key = x.data[KEY];
        s.value = x.data[VALUE];
        s.scale = x.data[SCALE];
        s.first_query = x.data[FIRST];
        s.blocks = lists.data;
        s.n_blocks = lists.n;
        s.score_name = s.score ? body_name(t.score.fun) : NULL;
        s.mask_name = s.mask ? body_name(t.mask.fun) : NULL;
        r = operation_end(&o, hop_flex_attention_at(o.at, o.results, RESULTS, &s));
    }
    PyMem_Free(x.data);
    PyMem_Free(lists.data);
    return r;
}

/* block_mask(mask, (batches, heads, queries, keys), query_block, key_block, room, ranges): mask(score, batch,
 * head, query, key) */
static PyObject *block_mask(PyObject *self, PyObject *args)
{
    enum { INDICES = 5, LISTS = 4 };
    struct attention t = { .mask = { .n_in = INDICES, .n_out = 1 } };
    hop_block_mask_spec s = { .env = &t, .mask = run_mask };
    struct operation o;
    long long batches, heads, room;
    PyObject *queries, *keys;
    (void)self;
    if (!PyArg_ParseTuple(args, "O(LLOO)iiLp", &t.mask.fun, &batches, &heads, &queries, &keys, &s.query_block,
                          &s.key_block, &room, &s.ranges))
        return NULL;
    int sizes = size_read(queries, &s.query_size) > 0 ? size_read(keys, &s.key_size) : 0;
    if (sizes <= 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "expected the lengths of queries and keys");
        return NULL;
    }
    int n = s.ranges ? LISTS + 1 : LISTS;
    if (operation_begin(&o)) return NULL;
    if (!operation_ready(&o, n)) return NULL;
    s.batches = batches;
    s.heads = heads;
    s.room = room;
    s.mask_name = body_name(t.mask.fun);
    return operation_end(&o, hop_block_mask_at(o.at, o.results, n, &s));
}

/* What a switch takes of each branch. */
struct branch_lists {
    struct body *bodies;
    hop_body *calls;
    void **envs;
    const char **names;
};
static void branch_lists_free(struct branch_lists *l)
{
    PyMem_Free(l->bodies);
    PyMem_Free(l->calls);
    PyMem_Free(l->envs);
    PyMem_Free(l->names);
}
static int branch_lists_new(struct branch_lists *l, PyObject *funs, int n_in)
{
    size_t n = (size_t)PyTuple_Size(funs);
    *l = (struct branch_lists){ PyMem_Calloc(n + 1, sizeof *l->bodies), PyMem_Calloc(n + 1, sizeof *l->calls),
                                PyMem_Calloc(n + 1, sizeof *l->envs), PyMem_Calloc(n + 1, sizeof *l->names) };
    if (!l->bodies || !l->calls || !l->envs || !l->names) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        l->bodies[i] = (struct body){ PyTuple_GetItem(funs, (Py_ssize_t)i), n_in, -1 };
        l->calls[i] = run_body;
        l->envs[i] = &l->bodies[i];
        l->names[i] = body_name(l->bodies[i].fun);
    }
    return 0;
}

/* switch(index, bodies, in): index an integer or bool */
static PyObject *switch_branches(PyObject *self, PyObject *args)
{
    PyObject *index, *funs, *in;
    struct branch_lists branches = { 0 };
    hop_switch_spec s = { 0 };
    struct values x = { 0 };
    struct operation o;
    PyObject *r = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO!O", &index, &PyTuple_Type, &funs, &in) || operation_begin(&o))
        return NULL;
    bool read = !read_values(in, o.at, &x) && !value_of(index, o.at, &s.index);
    if (read && !branch_lists_new(&branches, funs, x.n) && operation_ready(&o, HOP_ANY)) {
        s.branches = branches.calls;
        s.envs = branches.envs;
        s.names = branches.names;
        s.n_branches = (int)PyTuple_Size(funs);
        s.in = x.data;
        s.n_in = x.n;
        r = operation_end(&o, hop_switch_at(o.at, NULL, HOP_ANY, &s));
    }
    branch_lists_free(&branches);
    PyMem_Free(x.data);
    return r;
}

/* A policy's question to a function of (operator, type, name). */
static int ask_policy(void *user, const char *op, const char *type, const char *name)
{
    PyObject *found = PyObject_CallFunction(user, "ssz", op, type, name);
    int keeps = found ? PyObject_IsTrue(found) : -1;
    Py_XDECREF(found);
    return keeps < 0 ? BODY_RAISED : keeps;
}

/* invoke(body, in, recompute, policy=None, keeps=None): a call of a body */
static PyObject *invoke(PyObject *self, PyObject *args)
{
    PyObject *in;
    struct body b = { .n_out = -1 };
    hop_call_spec s = { .body = run_body, .env = &b };
    PyObject *keeps = Py_None;
    struct values x = { 0 };
    struct operation o;
    PyObject *r = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOp|zO", &b.fun, &in, &s.recompute, &s.policy, &keeps) ||
        operation_begin(&o))
        return NULL;
    if (!read_values(in, o.at, &x) && operation_ready(&o, HOP_ANY)) {
        b.n_in = x.n;
        s.in = x.data;
        s.n_in = x.n;
        s.keeps = keeps == Py_None ? NULL : ask_policy;
        s.keeps_user = keeps;
        s.name = body_name(b.fun);
        r = operation_end(&o, hop_call_at(o.at, NULL, HOP_ANY, &s));
    }
    PyMem_Free(x.data);
    return r;
}

static PyMethodDef functions[] = {
    { "scan", scan, METH_VARARGS, "scan(step, carry, xs, length, reverse, schedule)" },
    { "map", map, METH_VARARGS, "map(body, xs, length, sequential)" },
    { "fori", fori, METH_VARARGS, "fori(body, from, to, carry, schedule)" },
    { "while_loop", while_loop, METH_VARARGS, "while_loop(cond, body, carry, max_trips, schedule, stack)" },
    { "associative_scan", associative_scan, METH_VARARGS, "associative_scan(combine, xs, axis, reverse)" },
    { "flex_attention", flex_attention, METH_VARARGS,
      "flex_attention(score, mask, (query, key, value, scale, first), blocks, query_block, key_block)" },
    { "block_mask", block_mask, METH_VARARGS,
      "block_mask(mask, (batches, heads, queries, keys), query_block, key_block, room, ranges)" },
    { "switch", switch_branches, METH_VARARGS, "switch(index, bodies, in)" },
    { "invoke", invoke, METH_VARARGS, "invoke(body, in, recompute, policy=None, keeps=None)" },
    { NULL, NULL, 0, NULL },
};

int bodies_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
