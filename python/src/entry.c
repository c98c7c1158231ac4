/* Entries of the package: an entry is a function that users call. It looks like the Python function that it
 * stands for and calls it; when that fails, frames of the package leave the traceback, so that it shows the
 * user's lines alone, and an argument that the function does not have is explained. A call that succeeds
 * passes through. HOP_TRACEBACK=full in the environment leaves tracebacks as they are. */
#include "core.h"

#include <stdlib.h>
#include <structmember.h>

/* The protocol of quick calls belongs to the limited API from 3.12 on; 3.11 has it under the same names. */
#if Py_LIMITED_API < 0x030C0000
typedef PyObject *(*vectorcallfunc)(PyObject *, PyObject *const *, size_t, PyObject *);
PyAPI_FUNC(PyObject *) PyObject_Vectorcall(PyObject *, PyObject *const *, size_t, PyObject *);
PyAPI_FUNC(PyObject *) PyVectorcall_Call(PyObject *, PyObject *, PyObject *);
#define Py_TPFLAGS_HAVE_VECTORCALL (1UL << 11)
#define PY_VECTORCALL_ARGUMENTS_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))
#endif

typedef struct {
    PyObject_HEAD vectorcallfunc call;
    PyObject *function;
    PyObject *weak_references;
} entry_object;
static PyTypeObject *entry_type;
static PyObject *method_type; /* types.MethodType */
/* explain(function, positional, names or None, their values): what to say of a call that the function does
 * not take, or None. */
static PyObject *explain;

/* ---- tracebacks ---- */

enum { MOST_CHAINED = 64 };

/* Whether a traceback's frame runs code of the package. */
static bool is_own(PyObject *traceback)
{
    PyObject *frame = PyObject_GetAttrString(traceback, "tb_frame");
    PyObject *code = frame ? PyObject_GetAttrString(frame, "f_code") : NULL;
    bool own = code && code_of_package(code);
    Py_XDECREF(code);
    Py_XDECREF(frame);
    return own;
}

/* A traceback like this one with another one behind it; takes the reference to `next`. */
static PyObject *linked(PyObject *traceback, PyObject *next)
{
    PyObject *frame = next ? PyObject_GetAttrString(traceback, "tb_frame") : NULL;
    PyObject *lasti = frame ? PyObject_GetAttrString(traceback, "tb_lasti") : NULL;
    PyObject *line = lasti ? PyObject_GetAttrString(traceback, "tb_lineno") : NULL;
    PyObject *made = NULL;
    if (line)
        made = PyObject_CallFunctionObjArgs((PyObject *)Py_TYPE(traceback), next, frame, lasti, line, NULL);
    Py_XDECREF(line);
    Py_XDECREF(lasti);
    Py_XDECREF(frame);
    Py_XDECREF(next);
    return made;
}

/* The traceback without frames of the package: itself where there are none, None where there is nothing else.
 * The objects that others may hold stay as they are. NULL: no memory, without an exception. */
static PyObject *without_own(PyObject *traceback)
{
    PyObject *kept = PyList_New(0);
    bool all = true;
    PyObject *at = Py_NewRef(traceback);
    while (kept && at && at != Py_None) {
        bool own = is_own(at);
        all &= !own;
        if (!own && PyList_Append(kept, at)) Py_CLEAR(kept);
        PyObject *next = PyObject_GetAttrString(at, "tb_next");
        Py_DECREF(at);
        at = next;
    }
    PyObject *made = NULL;
    if (kept && at) made = Py_NewRef(all ? traceback : Py_None);
    for (Py_ssize_t i = kept && !all ? PyList_Size(kept) : 0; made && i-- > 0;)
        made = linked(PyList_GetItem(kept, i), made);
    Py_XDECREF(at);
    Py_XDECREF(kept);
    PyErr_Clear();
    return made;
}

static void hide_own(PyObject *exception)
{
    PyObject *before = PyException_GetTraceback(exception);
    PyObject *after = before ? without_own(before) : NULL;
    if (after && after != before) PyException_SetTraceback(exception, after);
    PyErr_Clear();
    Py_XDECREF(before);
    Py_XDECREF(after);
}

/* Of an exception, of what caused it and of what was being handled. */
static void hide_chain(PyObject *exception, int *left)
{
    if (!exception || --*left < 0) return;
    hide_own(exception);
    PyObject *cause = PyException_GetCause(exception);
    PyObject *context = PyException_GetContext(exception);
    hide_chain(cause, left);
    if (context != cause) hide_chain(context, left);
    Py_XDECREF(cause);
    Py_XDECREF(context);
}

static bool wants_all(void)
{
    const char *said = getenv("HOP_TRACEBACK");
    return said && !strcmp(said, "full");
}

void hide_frames(void)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (!type) return;
    PyErr_NormalizeException(&type, &value, &trace);
    bool whole = wants_all() || !value || is_internal_error(value);
    if (!whole) {
        int left = MOST_CHAINED;
        PyObject *shown = trace ? without_own(trace) : NULL;
        if (trace) PyException_SetTraceback(value, shown ? shown : trace);
        hide_chain(value, &left);
        if (shown) {
            Py_DECREF(trace);
            trace = shown == Py_None ? NULL : Py_NewRef(shown);
            Py_DECREF(shown);
        }
    }
    PyErr_Restore(type, value, trace);
}

/* ---- calls ---- */

static PyObject *tuple_of(PyObject *const *objects, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple && i < n; i++) PyTuple_SetItem(tuple, i, Py_NewRef(objects[i]));
    return tuple;
}

/* The exception of a call whose arguments the function does not take, in words that help. */
static void explain_arguments(const entry_object *e, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Py_ssize_t n_named = names ? PyTuple_Size(names) : 0;
    PyObject *given = tuple_of(args, n);
    PyObject *named = tuple_of(args + n, n_named);
    PyObject *said = NULL;
    if (given && named)
        said = PyObject_CallFunction(explain, "OOOO", e->function, given, names ? names : Py_None, named);
    Py_XDECREF(given);
    Py_XDECREF(named);
    PyErr_Clear();
    if (said && said != Py_None) {
        PyErr_SetObject(PyExc_TypeError, said);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    } else {
        PyErr_Restore(type, value, trace);
    }
    Py_XDECREF(said);
}

/* Whether the exception arose before the first line of the function ran. */
static bool arguments_refused(void)
{
    if (!explain || !PyErr_ExceptionMatches(PyExc_TypeError)) return false;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    bool refused = !trace;
    PyErr_Restore(type, value, trace);
    return refused;
}

static PyObject *entry_call(PyObject *self, PyObject *const *args, size_t flags, PyObject *names)
{
    const entry_object *e = (entry_object *)self;
    PyObject *r = PyObject_Vectorcall(e->function, args, flags, names);
    if (r) return r;
    Py_ssize_t n = (Py_ssize_t)(flags & ~PY_VECTORCALL_ARGUMENTS_OFFSET);
    if (arguments_refused()) explain_arguments(e, args, n, names);
    hide_frames();
    return NULL;
}

/* ---- the type ---- */

/* What an entry lacks is the function's; so is the module, which the type has, too. */
static PyObject *entry_getattr(PyObject *self, PyObject *name)
{
    PyObject *function = ((entry_object *)self)->function;
    bool of_function = PyUnicode_CompareWithASCIIString(name, "__module__") == 0;
    PyObject *found = of_function ? NULL : PyObject_GenericGetAttr(self, name);
    if (found) return found;
    if (!of_function && !PyErr_ExceptionMatches(PyExc_AttributeError)) return NULL;
    PyErr_Clear();
    return PyObject_GetAttr(function, name);
}
static int entry_setattr(PyObject *self, PyObject *name, PyObject *value)
{
    return PyObject_SetAttr(((entry_object *)self)->function, name, value);
}
static PyObject *entry_doc(PyObject *self, void *unused)
{
    (void)unused;
    return PyObject_GetAttrString(((entry_object *)self)->function, "__doc__");
}
static PyObject *entry_get(PyObject *self, PyObject *instance, PyObject *owner)
{
    (void)owner;
    if (!instance || instance == Py_None) return Py_NewRef(self);
    return PyObject_CallFunctionObjArgs(method_type, self, instance, NULL);
}
static PyObject *entry_repr(PyObject *self)
{
    PyObject *function = ((entry_object *)self)->function;
    PyObject *module = PyObject_GetAttrString(function, "__module__");
    PyObject *name = module ? PyObject_GetAttrString(function, "__qualname__") : NULL;
    PyObject *text = name ? PyUnicode_FromFormat("<function %S.%S>", module, name) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(module);
    return text;
}
static PyObject *entry_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyObject_GetAttrString(((entry_object *)self)->function, "__qualname__");
}
static int entry_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((entry_object *)self)->function);
    return 0;
}
/* There is no Py_tp_clear: an entry always has its function, and functions break cycles themselves. */
static void entry_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    PyObject_ClearWeakRefs(self);
    Py_XDECREF(((entry_object *)self)->function);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* entry(function) */
static PyObject *entry_of(PyObject *self, PyObject *function)
{
    (void)self;
    if (Py_TYPE(function) == entry_type) return Py_NewRef(function);
    allocfunc alloc = (allocfunc)PyType_GetSlot(entry_type, Py_tp_alloc);
    entry_object *e = (entry_object *)alloc(entry_type, 0);
    if (!e) return NULL;
    e->call = entry_call;
    e->function = Py_NewRef(function);
    return (PyObject *)e;
}
static PyObject *set_explain(PyObject *self, PyObject *function)
{
    (void)self;
    Py_XDECREF(explain);
    explain = Py_NewRef(function);
    Py_RETURN_NONE;
}

static PyMemberDef entry_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(entry_object, call), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(entry_object, weak_references), READONLY, NULL },
    { "__wrapped__", T_OBJECT, offsetof(entry_object, function), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};
static PyGetSetDef entry_attributes[] = {
    { "__doc__", entry_doc, NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyMethodDef entry_methods[] = {
    { "__reduce__", entry_reduce, METH_NOARGS, "an entry is pickled by its name" },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot entry_slots[] = {
    { Py_tp_dealloc, entry_dealloc },
    { Py_tp_traverse, entry_traverse },
    { Py_tp_call, (void *)PyVectorcall_Call },
    { Py_tp_getattro, entry_getattr },
    { Py_tp_setattro, entry_setattr },
    { Py_tp_descr_get, entry_get },
    { Py_tp_repr, entry_repr },
    { Py_tp_members, entry_members },
    { Py_tp_getset, entry_attributes },
    { Py_tp_methods, entry_methods },
    { 0, NULL },
};
static PyType_Spec entry_spec = { "hop._core.Entry", sizeof(entry_object), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                      Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  entry_slots };

static PyMethodDef functions[] = {
    { "entry", entry_of, METH_O, "entry(function): the function as users call it" },
    { "set_explain", set_explain, METH_O,
      "set_explain(function of a function, positional arguments, names or None, their values)" },
    { NULL, NULL, 0, NULL },
};

int entry_init(PyObject *module)
{
    PyObject *types = PyImport_ImportModule("types");
    method_type = types ? PyObject_GetAttrString(types, "MethodType") : NULL;
    Py_XDECREF(types);
    entry_type = method_type ? (PyTypeObject *)PyType_FromSpec(&entry_spec) : NULL;
    if (!entry_type || PyModule_AddObjectRef(module, "Entry", (PyObject *)entry_type)) return -1;
    return PyModule_AddFunctions(module, functions);
}
