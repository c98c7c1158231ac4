/* Operators of the user's (_operator.py): an OperatorBase is known to the library under its name for as long
 * as it lives, and functions and executables keep those of their programs alive. It is a function of
 * Python's, which gets arrays of NumPy's or of hop's, or a function of C's, which the library calls itself.
 * The library knows a small link, not the object: a call that comes too late finds the link empty. Links are
 * guarded by the GIL. */
#include "bodies.h"

#include <stdio.h>
#include <stdlib.h>

struct link {
    struct operator_object *owner; /* borrowed; NULL: gone */
};
/* How a parameter of the signature is passed. */
enum { READ = 'r', MUT = 'm', OUT = 'o', READ_LIST = 'R', MUT_LIST = 'M' };
typedef struct operator_object {
    PyObject_HEAD struct link *link; /* NULL: not registered, or a function of C's */
    bool registered;
    char *name;
    PyObject *fun;        /* what is called, or what keeps the function of C's alive */
    PyObject *infer;      /* infer(sizes that are known) -> those that are not; NULL: there is none */
    char *params;         /* a letter for each parameter, as above */
    int *kinds;           /* of each parameter that is an object: its dtype; else -1 */
    int n_results;        /* behind the arrow of the signature */
    int n_known, n_found; /* sizes that operands tell, and those that they do not */
    bool arrays; /* fun(tuple of hop's arrays, shapes of the results, lanes) gives a list of arrays */
} operator_object;
static PyTypeObject *operator_base;
static PyObject *host; /* host(fun, arguments): calls it while something is being captured */

/* ---- calls ---- */

static int complain(hop_operator_call *call, const char *text)
{
    snprintf(call->message, call->room, "%s", text);
    return HOP_INVALID;
}

/* What a failed step of a call comes to: an exception stays set for whoever started the run; where there is
 * none, the message has been written. */
static int failed_call(hop_operator_call *call)
{
    if (!PyErr_Occurred()) return HOP_INVALID;
    snprintf(call->message, call->room, "the function raised an exception");
    return BODY_RAISED;
}

static PyObject *called_by_host(PyObject *fun, PyObject *args, bool tracing)
{
    if (!tracing || !host) return PyObject_Call(fun, args, NULL);
    return PyObject_CallFunctionObjArgs(host, fun, args, NULL);
}

static size_t array_bytes(const hop_operator_array *a)
{
    size_t n = dtype_rows[a->dtype].size;
    for (int i = 0; i < a->rank; i++) n *= (size_t)a->dims[i];
    return n;
}

/* The elements of an array from one axis on, into memory where they lie row by row, or back from there. */
static void move_axis(const hop_operator_array *a, int axis, char *at, char **packed, bool back)
{
    const size_t size = dtype_rows[a->dtype].size;
    if (axis == a->rank) {
        memcpy(back ? at : *packed, back ? *packed : at, size);
        *packed += size;
        return;
    }
    const int64_t step = a->strides[axis] * (int64_t)size;
    for (int64_t i = 0; i < a->dims[axis]; i++) move_axis(a, axis + 1, at + i * step, packed, back);
}
static void move_elements(const hop_operator_array *a, char *packed, bool back)
{
    const size_t bytes = array_bytes(a);
    if (!bytes) return;
    if (a->strides) move_axis(a, 0, a->data, &packed, back);
    else memcpy(back ? a->data : packed, back ? packed : a->data, bytes);
}

/* An array of the call for the function; None for an absent one. Filled with what it holds, unless it is an
 * `out`. */
static PyObject *shown_array(const hop_operator_array *a, bool writable, bool filled, void **memory)
{
    *memory = NULL;
    if (!a->data && (a->dtype < 0 || array_bytes(a))) Py_RETURN_NONE;
    const void *content = filled && !a->strides ? a->data : NULL;
    PyObject *made = ndarray_new(a->dtype, a->rank, a->dims, content, writable, memory);
    if (made && filled && a->strides) move_elements(a, *memory, false);
    return made;
}

/* What a call has made for the function: the arrays of the call that it writes to, and where it did. */
struct written {
    const hop_operator_array *array;
    void *memory;
};
/* Memory that several `mut` arrays lie in, which are views of one array; the function gets views of one copy
 * of it. */
struct stretch {
    char *begin, *end;
    int n;           /* arrays that lie in it; fewer than two share nothing */
    PyObject *owner; /* the copy; NULL: not made yet */
    char *memory;
};
struct arguments {
    PyObject *tuple;
    struct written *written;
    struct stretch *stretches;
    int n_written, n_stretches;
};

static struct stretch stretch_of(const hop_operator_array *a)
{
    const int64_t size = (int64_t)dtype_rows[a->dtype].size;
    struct stretch s = { .begin = a->data, .end = (char *)a->data + size, .n = 1 };
    if (!a->strides) s.end = s.begin + array_bytes(a);
    for (int i = 0; i < a->rank && a->strides; i++) {
        const int64_t far = (a->dims[i] - 1) * a->strides[i] * size;
        if (far < 0) s.begin += far;
        else s.end += far;
    }
    return s;
}

static bool is_mut(char kind) { return kind == MUT || kind == MUT_LIST; }

static bool stretches_meet(const struct stretch *a, const struct stretch *b)
{
    return a->begin < b->end && b->begin < a->end;
}

/* Another `mut` array; stretches that meet are one. */
static void add_stretch(struct arguments *x, const hop_operator_array *a)
{
    if (!a->data || a->dtype < 0 || a->dtype == HOP_OBJECT || !array_bytes(a)) return;
    struct stretch all = stretch_of(a);
    int n = 0;
    for (int i = 0; i < x->n_stretches; i++) {
        const struct stretch s = x->stretches[i];
        if (!stretches_meet(&s, &all)) {
            x->stretches[n++] = s;
            continue;
        }
        if (s.begin < all.begin) all.begin = s.begin;
        if (s.end > all.end) all.end = s.end;
        all.n += s.n;
    }
    x->stretches[n] = all;
    x->n_stretches = n + 1;
}

/* The memory that an array shares with others; NULL: with none, or an exception is set. */
static struct stretch *shared_stretch(const struct arguments *x, const hop_operator_array *a)
{
    if (!a->data || a->dtype < 0 || !array_bytes(a)) return NULL;
    const struct stretch own = stretch_of(a);
    for (int i = 0; i < x->n_stretches; i++) {
        struct stretch *s = &x->stretches[i];
        if (s->n < 2 || !stretches_meet(s, &own)) continue;
        const int64_t bytes = s->end - s->begin;
        void *memory = s->memory;
        if (!s->owner) s->owner = ndarray_new(DT_U8, 1, &bytes, s->begin, true, &memory);
        s->memory = memory;
        return s->owner ? s : NULL;
    }
    return NULL;
}

static PyObject *one_argument(struct arguments *x, const hop_operator_array *a, char kind, int object)
{
    if (object >= 0 && !a->data) Py_RETURN_NONE;
    if (object >= 0 && a->dtype == HOP_OBJECT) return object_of_pointer(object, a->data);
    if (object >= 0 || a->dtype == HOP_OBJECT) {
        PyErr_SetString(PyExc_RuntimeError, "expected an object, found an array");
        return NULL;
    }
    const bool writes = kind != READ && kind != READ_LIST;
    const struct stretch *shared = is_mut(kind) ? shared_stretch(x, a) : NULL;
    if (PyErr_Occurred()) return NULL;
    if (shared) {
        char *data = shared->memory + ((char *)a->data - shared->begin);
        return ndarray_within(shared->owner, a->dtype, a->rank, a->dims, a->strides, data);
    }
    void *memory;
    PyObject *shown = shown_array(a, writes, kind != OUT, &memory);
    if (shown && writes && memory) x->written[x->n_written++] = (struct written){ a, memory };
    return shown;
}

static void find_stretches(const operator_object *o, const hop_operator_call *call, struct arguments *x)
{
    int at = 0, given = 0;
    for (const char *kind = o->params; *kind; kind++) {
        if (*kind == OUT) continue;
        const int n = call->counts ? call->counts[given] : 1;
        for (int i = 0; i < n && is_mut(*kind); i++) add_stretch(x, &call->arrays[at + i]);
        at += n;
        given++;
    }
}

/* The arguments of the function: one for each parameter, lists for lists. */
static int make_arguments(const operator_object *o, const hop_operator_call *call, struct arguments *x)
{
    const int n_params = (int)strlen(o->params);
    int n_read = 0, at = 0, given = 0;
    for (int i = 0, k = 0; i < n_params; i++)
        if (o->params[i] != OUT) n_read += call->counts ? call->counts[k++] : 1;
    int out = n_read + o->n_results;
    x->written = PyMem_Calloc((size_t)call->n_arrays + 1, sizeof *x->written);
    x->stretches = PyMem_Calloc((size_t)call->n_arrays + 1, sizeof *x->stretches);
    x->tuple = x->written && x->stretches ? PyTuple_New(n_params) : PyErr_NoMemory();
    if (x->tuple) find_stretches(o, call, x);
    for (int i = 0; x->tuple && i < n_params; i++) {
        const char kind = o->params[i];
        PyObject *a;
        if (kind == READ_LIST || kind == MUT_LIST) {
            const int n = call->counts[given];
            a = PyList_New(n);
            for (int j = 0; a && j < n; j++) {
                PyObject *element = one_argument(x, &call->arrays[at + j], kind, o->kinds[i]);
                if (!element || PyList_SetItem(a, j, element)) Py_CLEAR(a);
            }
        } else if (kind == OUT) {
            a = one_argument(x, &call->arrays[out++], kind, -1);
        } else {
            a = one_argument(x, &call->arrays[at], kind, o->kinds[i]);
        }
        if (kind != OUT) at += call->counts ? call->counts[given] : 1;
        given += kind != OUT;
        if (!a || PyTuple_SetItem(x->tuple, i, a)) Py_CLEAR(x->tuple);
    }
    return x->tuple ? 0 : -1;
}

/* The elements of what the function gave for a result, into its memory. */
static int store_result(hop_operator_call *call, int number, int at, PyObject *given)
{
    const hop_operator_array *wanted = &call->arrays[at];
    struct elements found;
    char text[1000];
    if (elements_read(given, wanted, &found, text, sizeof text)) {
        if (!PyErr_Occurred()) snprintf(call->message, call->room, "result %d: %s", number, text);
        return -1;
    }
    void *memory = wanted->data;
    bool finds = false;
    size_t bytes = dtype_rows[wanted->dtype].size;
    for (int i = 0; i < wanted->rank; i++) {
        finds |= wanted->dims[i] < 0;
        bytes *= (size_t)found.dims[i];
    }
    if (finds) memory = call->result(call, number, found.dims); /* which says what does not fit */
    const bool stored = memory || (!bytes && !finds);
    if (stored && bytes) memcpy(memory, found.data, bytes);
    Py_DECREF(found.kept);
    return stored ? 0 : -1;
}

static int wrong_number(hop_operator_call *call, int expected, PyObject *found)
{
    char text[200];
    if (!expected) snprintf(text, sizeof text, "the signature has no result");
    else snprintf(text, sizeof text, "the signature has %d results, expected a tuple of as many", expected);
    hop_operator_array none = { 0 };
    char what[500];
    elements_wrong(found, &none, what, sizeof what);
    const char *tail = strstr(what, "found ");
    if (PyTuple_Check(found) || PyList_Check(found))
        snprintf(call->message, call->room, "%s, the function gave %zd", text, PySequence_Size(found));
    else snprintf(call->message, call->room, "%s, %s", text, tail ? tail : "");
    return -1;
}

static int store_results(const operator_object *o, hop_operator_call *call, int first, PyObject *given)
{
    const int n = o->n_results;
    if (n == 1) return store_result(call, 0, first, given);
    if (!n) return given == Py_None ? 0 : wrong_number(call, 0, given);
    if (!(PyTuple_Check(given) || PyList_Check(given)) || PySequence_Size(given) != n)
        return wrong_number(call, n, given);
    for (int i = 0; i < n; i++) {
        PyObject *one = PySequence_GetItem(given, i);
        const int failed = one ? store_result(call, i, first + i, one) : -1;
        Py_XDECREF(one);
        if (failed) return -1;
    }
    return 0;
}

/* What the function has written goes where the program has it. */
static void put_back(const struct arguments *x)
{
    for (int i = 0; i < x->n_written; i++) move_elements(x->written[i].array, x->written[i].memory, true);
    for (int i = 0; i < x->n_stretches; i++) {
        const struct stretch *s = &x->stretches[i];
        if (s->owner) memcpy(s->begin, s->memory, (size_t)(s->end - s->begin));
    }
}

/* A function on arrays of NumPy's. They are copies: whoever is called may keep them, and what a failed call
 * has written to them is written nowhere. */
static int call_numpy(const operator_object *o, hop_operator_call *call, bool tracing)
{
    struct arguments x = { 0 };
    int n_out = 0;
    for (const char *p = o->params; *p; p++) n_out += *p == OUT;
    int failed = make_arguments(o, call, &x);
    PyObject *given = failed ? NULL : called_by_host(o->fun, x.tuple, tracing);
    failed = !given || PyErr_CheckSignals() ||
             store_results(o, call, call->n_arrays - n_out - o->n_results, given);
    if (!failed) put_back(&x);
    Py_XDECREF(given);
    Py_XDECREF(x.tuple);
    for (int i = 0; i < x.n_stretches; i++) Py_XDECREF(x.stretches[i].owner);
    PyMem_Free(x.written);
    PyMem_Free(x.stretches);
    return failed ? failed_call(call) : 0;
}

/* A function on hop's arrays: copies, too. */
static PyObject *hop_array(const hop_operator_array *a)
{
    hop_tensor *t = NULL;
    int status = hop_tensor_new_dims(&t, dtype_rows[a->dtype].name, a->dims, a->rank);
    if (status) return raise_status(status);
    if (array_bytes(a)) memcpy(hop_data(t), a->data, array_bytes(a));
    return array_of_tensor(t);
}
/* The elements of an array, which may have strides, row by row where the program has the result. */
static int store_elements(PyObject *x, const hop_operator_array *r)
{
    if (!is_array(x) || !as_array(x)->tensor) return -1;
    hop_tensor *t = as_array(x)->tensor, *whole = NULL;
    const size_t bytes = array_bytes(r);
    if (!bytes) return 0;
    if (hop_tensor_is_contiguous(t)) {
        memcpy(r->data, hop_data(t), bytes);
        return 0;
    }
    int status = hop_tensor_copy(&whole, t);
    if (status) {
        raise_status(status);
        return -1;
    }
    memcpy(r->data, hop_data(whole), bytes);
    hop_tensor_free(whole);
    return 0;
}

static int call_arrays(const operator_object *o, hop_operator_call *call, bool tracing)
{
    const int n = call->n_arrays - o->n_results;
    PyObject *args = PyTuple_New(n);
    for (int i = 0; args && i < n; i++) {
        const int object = o->kinds[i];
        PyObject *a = object < 0 ? hop_array(&call->arrays[i]) : object_around(object, call->arrays[i].data);
        if (!a || PyTuple_SetItem(args, i, a)) Py_CLEAR(args);
    }
    PyObject *dims = args ? PyTuple_New(o->n_results) : NULL;
    for (int i = 0; dims && i < o->n_results; i++) {
        const hop_operator_array *r = &call->arrays[n + i];
        PyObject *shape = PyTuple_New(r->rank);
        for (int k = 0; shape && k < r->rank; k++)
            if (PyTuple_SetItem(shape, k, PyLong_FromLongLong(r->dims[k]))) Py_CLEAR(shape);
        if (!shape || PyTuple_SetItem(dims, i, shape)) Py_CLEAR(dims);
    }
    PyObject *whole = dims ? Py_BuildValue("(OOi)", args, dims, (int)call->lanes) : NULL;
    PyObject *given = whole ? called_by_host(o->fun, whole, tracing) : NULL;
    int failed = !given || PyErr_CheckSignals();
    for (int i = 0; i < o->n_results && !failed; i++) {
        PyObject *one = PySequence_GetItem(given, i);
        const hop_operator_array *r = &call->arrays[n + i];
        failed = !one || store_elements(one, r);
        Py_XDECREF(one);
    }
    Py_XDECREF(given);
    Py_XDECREF(whole);
    Py_XDECREF(dims);
    Py_XDECREF(args);
    return failed ? failed_call(call) : 0;
}

/* On the thread that runs the program, which may have given the GIL away. */
static int run(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const struct link *link = call->user;
    (void)arrays;
    (void)sizes;
    PyGILState_STATE state = PyGILState_Ensure();
    struct frame *tracing = frame_set(NULL); /* what is called is not part of what is being captured */
    int status;
    if (link->owner) {
        operator_object *o = (operator_object *)Py_NewRef((PyObject *)link->owner);
        status = o->arrays ? call_arrays(o, call, tracing) : call_numpy(o, call, tracing);
        Py_DECREF((PyObject *)o);
    } else {
        status = complain(call, "the function of this operator is gone");
    }
    frame_set(tracing);
    PyGILState_Release(state);
    return status;
}

/* The operator whose call this thread is recording. */
static _Thread_local operator_object *recording;

/* Sizes that operands do not tell; user may be a pointer of the user's. */
static int infer(void *user, const hop_dim *known, hop_dim *found)
{
    (void)user;
    PyGILState_STATE state = PyGILState_Ensure();
    const operator_object *o = recording;
    hop_place at = user_place();
    PyObject *sizes = o ? PyTuple_New(o->n_known) : NULL;
    for (int i = 0; sizes && i < o->n_known; i++) {
        const bool told = known[i].scope != hop_dim_const(0).scope || (int64_t)known[i].id >= 0;
        PyObject *size = told ? size_of_dim(frame_top()->serial, known[i], at) : Py_NewRef(Py_None);
        if (!size || PyTuple_SetItem(sizes, i, size)) Py_CLEAR(sizes);
    }
    PyObject *given = sizes ? PyObject_Call(o->infer, sizes, NULL) : NULL;
    int failed = given ? 0 : -1;
    for (int i = 0; i < (o ? o->n_found : 0) && !failed; i++) {
        PyObject *one = PySequence_GetItem(given, i);
        failed = one && size_read(one, &found[i]) > 0 ? 0 : -1;
        Py_XDECREF(one);
    }
    if (failed && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "infer gave something that is no size");
    Py_XDECREF(given);
    Py_XDECREF(sizes);
    PyGILState_Release(state);
    return failed ? BODY_RAISED : 0;
}

/* ---- registrations ---- */

static void unregister(operator_object *o)
{
    if (!o->registered) return;
    o->registered = false;
    if (o->link) o->link->owner = NULL;
    o->link = NULL;
    hop_operator_unregister(o->name); /* frees the link, perhaps when a call has returned */
}

static int describe(operator_object *o, const char *name, const char *params, PyObject *fun, PyObject *infers)
{
    free(o->name);
    free(o->params);
    o->name = strdup(name);
    o->params = strdup(params);
    Py_XDECREF(o->fun);
    Py_XDECREF(o->infer);
    o->fun = Py_NewRef(fun);
    o->infer = infers == Py_None ? NULL : Py_NewRef(infers);
    if (o->name && o->params) return 0;
    PyErr_NoMemory();
    return -1;
}

/* The dtypes of parameters that are objects, from a tuple with a kind or None for each. */
static int read_kinds(operator_object *o, PyObject *kinds)
{
    const Py_ssize_t n = PyTuple_Size(kinds);
    free(o->kinds);
    o->kinds = malloc(((size_t)n + 1) * sizeof *o->kinds);
    if (!o->kinds) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        const char *kind = text_or_null(PyTuple_GetItem(kinds, i));
        if (PyErr_Occurred()) return -1;
        o->kinds[i] = kind ? dtype_of_kind(kind) : -1;
    }
    return 0;
}

/* _register(name, signature, version, effect, strided, lanes, fun, infer, params, kinds, (results, known
 * sizes, sizes to infer), arrays, address of a function of C's or 0, what that gets as user) */
static PyObject *operator_register(PyObject *self, PyObject *args)
{
    operator_object *o = (operator_object *)self;
    hop_operator_spec s = { 0 };
    const char *name, *params;
    PyObject *fun, *infers, *kinds;
    int arrays, status;
    unsigned long long address, user;
    if (!PyArg_ParseTuple(args, "ssizpiOOsO!(iii)pKK", &name, &s.signature, &s.version, &s.effect, &s.strided,
                          &s.together, &fun, &infers, &params, &PyTuple_Type, &kinds, &o->n_results,
                          &o->n_known, &o->n_found, &arrays, &address, &user))
        return NULL;
    unregister(o);
    if (describe(o, name, params, fun, infers) || read_kinds(o, kinds)) return NULL;
    o->arrays = arrays;
    s.infer = o->infer ? infer : NULL;
    const uintptr_t function = (uintptr_t)address;
    struct link *link = NULL;
    if (function) {
        memcpy(&s.run, &function, sizeof s.run);
        s.user = (void *)(uintptr_t)user;
    } else {
        s.run = run;
        s.user = link = malloc(sizeof *link);
        s.release = free;
        if (!link) return PyErr_NoMemory();
        link->owner = o;
    }
    Py_BEGIN_ALLOW_THREADS status = hop_operator_register(&s);
    Py_END_ALLOW_THREADS if (status) free(link);
    if (status) return raise_status(status);
    o->link = link;
    o->registered = true;
    Py_RETURN_NONE;
}
/* _register_exe(name, executable, results): the operator is a compiled program, which is run without Python
 */
static PyObject *operator_register_exe(PyObject *self, PyObject *args)
{
    operator_object *o = (operator_object *)self;
    const char *name;
    PyObject *exe;
    int status;
    if (!PyArg_ParseTuple(args, "sO!i", &name, exe_type, &exe, &o->n_results)) return NULL;
    unregister(o);
    if (describe(o, name, "", Py_None, Py_None)) return NULL;
    Py_BEGIN_ALLOW_THREADS status = hop_exe_operator(((exe_object *)exe)->exe, name, NULL);
    Py_END_ALLOW_THREADS if (status) return raise_status(status);
    o->registered = true;
    Py_RETURN_NONE;
}
static PyObject *operator_unregister(PyObject *self, PyObject *unused)
{
    (void)unused;
    unregister((operator_object *)self);
    Py_RETURN_NONE;
}

/* Values that are given as parts: each becomes a view of a variable, one for all parts of an array. bases:
 * these variables, in order, *n of them. */
static int make_views(PyObject *values, PyObject *parts, hop_place at, hop_val *in, hop_val *bases, int *n)
{
    PyObject *arrays = PyList_New(0); /* that the bases are of */
    int failed = arrays ? 0 : -1;
    for (Py_ssize_t i = 0; i < PyList_Size(values) && !failed; i++) {
        PyObject *x = PyList_GetItem(values, i), *part = PyTuple_GetItem(parts, i);
        const char *text = part ? text_or_null(part) : NULL;
        failed = PyErr_Occurred() ? -1 : 0;
        if (failed || !text) continue;
        int base = 0;
        while (base < *n && PyList_GetItem(arrays, base) != x) base++;
        if (base == *n) {
            bases[(*n)++] = hop_variable_at(at, in[i]);
            failed = PyList_Append(arrays, x);
        }
        in[i] = *text && bases[base].scope ? hop_view_at(at, bases[base], text) : bases[base];
        if (!failed && !in[i].scope) {
            raise_status(hop_failed());
            failed = -1;
        }
    }
    Py_XDECREF(arrays);
    return failed;
}

/* _record(values, counts or None, results, parts or None): a call of it in the program being captured.
 * values: None for an absent one, lists one element after the other; counts: how many each parameter has;
 * parts: for each value the slices of the part of it that the call updates, "" for all of it, None for a
 * value of its own. Gives results, new contents of such values, new contents of arrays that have parts. */
static PyObject *operator_record(PyObject *self, PyObject *args)
{
    operator_object *op = (operator_object *)self;
    PyObject *values, *lengths, *parts = Py_None, *r = NULL;
    struct operation o;
    int n_results;
    if (!PyArg_ParseTuple(args, "O!Oi|O", &PyList_Type, &values, &lengths, &n_results, &parts) ||
        operation_begin(&o))
        return NULL;
    const Py_ssize_t n = PyList_Size(values);
    hop_val *in = PyMem_Calloc(2 * (size_t)n + 1, sizeof *in), *bases = in ? in + n : NULL;
    int *counts = NULL, n_counts, n_bases = 0;
    int failed = in ? read_numbers(lengths, &counts, &n_counts) : -1;
    if (!in) PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n && !failed; i++) {
        PyObject *x = PyList_GetItem(values, i);
        if (x == Py_None) continue;
        failed = value_of(x, o.at, &in[i]);
        if (!failed && is_array(x) && as_array(x)->variable) in[i] = hop_current_at(o.at, in[i]);
    }
    if (!failed && parts != Py_None) failed = make_views(values, parts, o.at, in, bases, &n_bases);
    if (!failed && !op->registered) {
        raise_invalid("the operator '%s' is not known any more: another was defined with its name", op->name);
        failed = -1;
    }
    if (!failed && !frame_keep(frame_top(), self) && operation_ready(&o, n_results)) {
        operator_object *before = recording;
        recording = op;
        const int n_others = o.n - n_bases;
        int status = hop_operator_lists_at(o.at, o.results, n_others, op->name, in, (int)n, counts);
        recording = before;
        for (int i = 0; i < n_bases && !status; i++) {
            o.results[n_others + i] = hop_current_at(o.at, bases[i]);
            status = hop_failed();
        }
        r = operation_end(&o, status);
    }
    PyMem_Free(in);
    PyMem_Free(counts);
    return r;
}

static int operator_traverse(PyObject *self, visitproc visit, void *arg)
{
    operator_object *o = (operator_object *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(o->fun);
    Py_VISIT(o->infer);
    return 0;
}
static int operator_clear(PyObject *self)
{
    operator_object *o = (operator_object *)self;
    unregister(o); /* what is called is about to go */
    Py_CLEAR(o->fun);
    Py_CLEAR(o->infer);
    return 0;
}
static void operator_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    operator_object *o = (operator_object *)self;
    PyObject_GC_UnTrack(self);
    operator_clear(self);
    free(o->name);
    free(o->params);
    free(o->kinds);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef operator_methods[] = {
    { "_register", operator_register, METH_VARARGS, "_register(…): makes it known to the library" },
    { "_register_exe", operator_register_exe, METH_VARARGS,
      "_register_exe(name, executable, results): a compiled program as the operator" },
    { "_unregister", operator_unregister, METH_NOARGS, "_unregister()" },
    { "_record", operator_record, METH_VARARGS,
      "_record(values, counts, results, parts): a call in the program being captured" },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot operator_slots[] = { { Py_tp_dealloc, operator_dealloc },
                                        { Py_tp_traverse, operator_traverse },
                                        { Py_tp_clear, operator_clear },
                                        { Py_tp_methods, operator_methods },
                                        { 0, NULL } };
static PyType_Spec operator_spec = { "hop._core.OperatorBase", sizeof(operator_object), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                     operator_slots };

static PyObject *set_host(PyObject *self, PyObject *function)
{
    (void)self;
    Py_XDECREF(host);
    host = Py_NewRef(function);
    Py_RETURN_NONE;
}
static PyMethodDef functions[] = {
    { "set_host", set_host, METH_O, "set_host(function): how functions are called during captures" },
    { NULL, NULL, 0, NULL },
};

int operator_init(PyObject *module)
{
    if (PyModule_AddFunctions(module, functions)) return -1;
    operator_base = (PyTypeObject *)PyType_FromSpec(&operator_spec);
    return operator_base ? PyModule_AddObjectRef(module, "OperatorBase", (PyObject *)operator_base) : -1;
}
