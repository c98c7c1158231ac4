/* Python functions that programs call: a CallbackBase is known to the library under its name for as long as
 * it lives, and functions and executables keep those of their programs alive. The library knows a small link,
 * not the object: a call that comes too late finds the link empty. Links are guarded by the GIL. */
#include "core.h"

#include <stdlib.h>

struct link {
    PyObject *owner; /* borrowed; NULL: gone */
};
typedef struct {
    PyObject_HEAD struct link *link; /* NULL: not registered */
    char *name;
} callback_object;
static PyTypeObject *callback_base;

/* The owner's _call(tuple of arrays), which are copies: whoever is called may keep them. */
static int call_owner(PyObject *owner, hop_tensor *const *args, int n)
{
    PyObject *given = PyTuple_New(n);
    for (int i = 0; given && i < n; i++) {
        hop_tensor *copy = NULL;
        int status = hop_tensor_copy(&copy, args[i]);
        PyObject *a = status ? raise_status(status) : array_of_tensor(copy);
        if (!a || PyTuple_SetItem(given, i, a)) Py_CLEAR(given);
    }
    PyObject *result = given ? PyObject_CallMethod(owner, "_call", "(O)", given) : NULL;
    Py_XDECREF(given);
    Py_XDECREF(result);
    return result && !PyErr_CheckSignals() ? 0 : -1;
}

/* On the thread that runs the program, which has given the GIL away. An exception stays set for whoever
 * started the run. */
static int called(void *user, hop_tensor *const *args, int n)
{
    const struct link *link = user;
    PyGILState_STATE state = PyGILState_Ensure();
    struct frame *tracing = frame_set(NULL); /* what is called is not part of what is being captured */
    int status = BODY_RAISED;
    if (link->owner) {
        PyObject *owner = Py_NewRef(link->owner);
        if (!call_owner(owner, args, n)) status = 0;
        Py_DECREF(owner);
    } else {
        PyErr_SetString(PyExc_RuntimeError, "the function of this callback is gone");
    }
    frame_set(tracing);
    PyGILState_Release(state);
    return status;
}

static void unregister(callback_object *c)
{
    struct link *link = c->link;
    if (!link) return;
    c->link = NULL;
    link->owner = NULL;
    hop_callback_unregister(c->name); /* frees the link, perhaps when a call has returned */
}

/* _register(name) */
static PyObject *callback_register(PyObject *self, PyObject *args)
{
    callback_object *c = (callback_object *)self;
    const char *name;
    if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
    unregister(c);
    free(c->name);
    struct link *link = malloc(sizeof *link);
    c->name = strdup(name);
    if (!link || !c->name) {
        free(link);
        return PyErr_NoMemory();
    }
    link->owner = self;
    int status = hop_callback_register(name, called, link, free);
    if (status) {
        free(link);
        return raise_status(status);
    }
    c->link = link;
    Py_RETURN_NONE;
}
static PyObject *callback_unregister(PyObject *self, PyObject *unused)
{
    (void)unused;
    unregister((callback_object *)self);
    Py_RETURN_NONE;
}

/* _record(values, together): a call of it in the program being captured */
static PyObject *callback_record(PyObject *self, PyObject *args)
{
    callback_object *c = (callback_object *)self;
    PyObject *values;
    int together;
    if (!PyArg_ParseTuple(args, "Op", &values, &together)) return NULL;
    struct frame *f = frame_top();
    PyObject *list = PySequence_List(values);
    Py_ssize_t n = list ? PyList_Size(list) : 0;
    hop_place at = user_place();
    if (!list) return NULL;
    hop_val *in = PyMem_Calloc((size_t)n + 1, sizeof *in);
    int failed = 0;
    if (!in || !f || !c->link) {
        failed = -1;
        if (in) PyErr_SetString(PyExc_RuntimeError, "called outside of a capture");
        else PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < n && !failed; i++) failed = value_of(PyList_GetItem(list, i), at, &in[i]);
    if (!failed && (failed = frame_keep(f, self)) == 0) {
        int status = together ? hop_callback_together_at(at, c->name, in, (int)n)
                              : hop_callback_at(at, c->name, in, (int)n);
        if (status) {
            raise_status(status);
            failed = -1;
        }
    }
    PyMem_Free(in);
    Py_DECREF(list);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static int callback_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return 0;
}
static void callback_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    callback_object *c = (callback_object *)self;
    PyObject_GC_UnTrack(self);
    unregister(c);
    free(c->name);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef callback_methods[] = {
    { "_register", callback_register, METH_VARARGS,
      "_register(name): makes self._call known under the name" },
    { "_unregister", callback_unregister, METH_NOARGS, "_unregister()" },
    { "_record", callback_record, METH_VARARGS,
      "_record(values, together): a call in the program being captured" },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot callback_slots[] = { { Py_tp_dealloc, callback_dealloc },
                                        { Py_tp_traverse, callback_traverse },
                                        { Py_tp_methods, callback_methods },
                                        { 0, NULL } };
static PyType_Spec callback_spec = { "hop._core.CallbackBase", sizeof(callback_object), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                     callback_slots };

int callback_init(PyObject *module)
{
    callback_base = (PyTypeObject *)PyType_FromSpec(&callback_spec);
    return callback_base ? PyModule_AddObjectRef(module, "CallbackBase", (PyObject *)callback_base) : -1;
}
