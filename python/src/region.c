/* Regions (_region.py): bodies under a regime, and rewritings of their kinds, which are Python functions. */
#include "bodies.h"

/* region(body, in, kind, attributes): a body under a regime */
static PyObject *region(PyObject *self, PyObject *args)
{
    PyObject *in;
    struct body b = { .n_out = -1 };
    hop_region_spec s = { .body = run_body, .env = &b };
    struct values x = { 0 };
    struct operation o;
    PyObject *r = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOss", &b.fun, &in, &s.kind, &s.attributes) || operation_begin(&o))
        return NULL;
    if (!read_values(in, o.at, &x) && operation_ready(&o, HOP_ANY)) {
        b.n_in = x.n;
        s.in = x.data;
        s.n_in = x.n;
        s.name = body_name(b.fun);
        r = operation_end(&o, hop_region_at(o.at, NULL, HOP_ANY, &s));
    }
    PyMem_Free(x.data);
    return r;
}

/* ---- rewritings ---- */

static void release(void *user)
{
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)user);
    PyGILState_Release(state);
}

/* The operators and callbacks that the program calls live as long as programs with it. */
static int keep_called(PyObject *made, hop_fn *fn)
{
    PyObject *called = PyObject_GetAttrString(made, "callbacks");
    int failed = called ? 0 : -1;
    for (Py_ssize_t i = 0; called && !failed && i < PyTuple_Size(called); i++) {
        PyObject *one = Py_NewRef(PyTuple_GetItem(called, i));
        int status = hop_fn_keep(fn, one, release);
        if (!status) continue;
        Py_DECREF(one);
        raise_status(status);
        failed = -1;
    }
    Py_XDECREF(called);
    return failed;
}

/* user: the function, which gets the attributes as text and the body, and gives a Function. On the thread
 * that compiles or interprets, which has given the GIL away; an exception stays set for whoever asked. */
static int rewrite(void *user, const hop_attributes *attributes, const hop_fn *body, hop_fn **out)
{
    PyGILState_STATE state = PyGILState_Ensure();
    struct frame *tracing = frame_set(NULL); /* what is captured here is no part of what is being captured */
    PyObject *given = function_new(hop_fn_ref((hop_fn *)body), NULL);
    PyObject *made = given ? PyObject_CallFunction(user, "sO", hop_attributes_text(attributes), given) : NULL;
    hop_fn *fn = NULL;
    if (made && !function_called(made, &fn) && keep_called(made, fn)) fn = NULL;
    if (made && fn) *out = hop_fn_ref(fn);
    int status = made && fn && !PyErr_CheckSignals() ? 0 : BODY_RAISED;
    Py_XDECREF(made);
    Py_XDECREF(given);
    frame_set(tracing);
    PyGILState_Release(state);
    return status;
}

/* region_register(kind, version or None, function) */
static PyObject *region_register(PyObject *self, PyObject *args)
{
    const char *kind, *version;
    PyObject *fun;
    int status;
    (void)self;
    if (!PyArg_ParseTuple(args, "szO", &kind, &version, &fun)) return NULL;
    Py_INCREF(fun);
    Py_BEGIN_ALLOW_THREADS status = hop_region_register(kind, version, rewrite, fun, release);
    Py_END_ALLOW_THREADS if (!status) Py_RETURN_NONE;
    Py_DECREF(fun);
    return raise_status(status);
}

static PyObject *region_unregister(PyObject *self, PyObject *args)
{
    const char *kind;
    int status;
    (void)self;
    if (!PyArg_ParseTuple(args, "s", &kind)) return NULL;
    Py_BEGIN_ALLOW_THREADS status = hop_region_unregister(kind);
    Py_END_ALLOW_THREADS if (status) return raise_status(status);
    Py_RETURN_NONE;
}

static PyObject *region_changes(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyLong_FromUnsignedLongLong(hop_region_changes());
}

static PyMethodDef functions[] = {
    { "region", region, METH_VARARGS, "region(body, in, kind, attributes)" },
    { "region_register", region_register, METH_VARARGS, "region_register(kind, version, function)" },
    { "region_unregister", region_unregister, METH_VARARGS, "region_unregister(kind)" },
    { "region_changes", region_changes, METH_NOARGS, "region_changes() -> number" },
    { NULL, NULL, 0, NULL },
};

int region_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
