/* Objects: things of Python's that programs hand on. One is an array of rank 0 without elements, whose dtype
 * is its kind; the tensor behind it holds the pointer and a reference. A kind is one of Python objects or of
 * addresses that compiled operators know, never both: native code sees nothing but the pointer. */
#include "core.h"

#include <stdio.h>
#include <stdlib.h>

static struct {
    bool address, used; /* of the kind of this number */
} kinds[MOST_KINDS];
static int n_kinds;

static PyObject *object_class, *object_dtype; /* hop.Object; what makes the dtype of a code and a kind */

int dtype_of_kind(const char *kind)
{
    char text[TYPE_TEXT];
    snprintf(text, sizeof text, "object \"%s\"", kind);
    for (int k = 0; k < n_kinds; k++)
        if (!strcmp(dtype_rows[FIRST_KIND + k].name, text)) return FIRST_KIND + k;
    char *kept = n_kinds < MOST_KINDS ? strdup(text) : NULL;
    if (!kept) return -1;
    dtype_rows[FIRST_KIND + n_kinds] = (struct dtype_row){ kept, 0, 8, 'o' };
    return FIRST_KIND + n_kinds++;
}

PyObject *object_class_or(PyObject *otherwise) { return object_class ? object_class : otherwise; }

PyObject *dtype_object(int code)
{
    PyObject *known = dtype_is_object(code) ? NULL : PyTuple_GetItem(dtype_objects, code);
    if (!dtype_is_object(code)) return known ? Py_NewRef(known) : NULL;
    return object_dtype ? PyObject_CallFunction(object_dtype, "is", code, dtype_rows[code].name) : NULL;
}

bool refuse_object(const array_object *a, const char *what)
{
    if (!dtype_is_object(a->dtype)) return false;
    raise_invalid("%s: expected an array, found %s", what, dtype_rows[a->dtype].name);
    return true;
}

static void retain(void *o) { Py_INCREF((PyObject *)o); }
/* From any thread, also from those that hold nothing. */
static void release(void *o)
{
    if (!Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)o);
    PyGILState_Release(state);
}

/* object_new(object or address, kind, is_address) */
static PyObject *object_new(PyObject *self, PyObject *args)
{
    PyObject *o;
    const char *kind;
    int address;
    hop_tensor *t = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "Osp", &o, &kind, &address)) return NULL;
    void *pointer = address ? PyLong_AsVoidPtr(o) : o;
    if (PyErr_Occurred()) return NULL;
    int status = hop_object_new(&t, kind, pointer, address ? NULL : retain, address ? NULL : release);
    if (status == HOP_INVALID) return raise_invalid("Object: %s", hop_message());
    if (status) return raise_status(status);
    int code = dtype_of_kind(kind);
    int k = code - FIRST_KIND;
    if (code < 0 || (kinds[k].used && kinds[k].address != address)) {
        hop_tensor_free(t);
        if (code < 0) return raise_invalid("Object: a process has at most %d kinds of objects", MOST_KINDS);
        return raise_invalid("Object: objects of the kind \"%s\" are %s, and this is %s", kind,
                             kinds[k].address ? "addresses" : "Python objects",
                             address ? "an address" : "a Python object");
    }
    kinds[k].used = true;
    kinds[k].address = address;
    return array_of_tensor(t);
}

PyObject *object_around(int code, void *pointer)
{
    static const char head[] = "object \"";
    const char *text = dtype_rows[code].name + strlen(head);
    char kind[TYPE_TEXT];
    snprintf(kind, sizeof kind, "%.*s", (int)strlen(text) - 1, text);
    bool address = kinds[code - FIRST_KIND].address;
    hop_tensor *t = NULL;
    int status = hop_object_new(&t, kind, pointer, address ? NULL : retain, address ? NULL : release);
    return status ? raise_status(status) : array_of_tensor(t);
}

PyObject *object_of_pointer(int code, void *pointer)
{
    if (code >= FIRST_KIND && kinds[code - FIRST_KIND].used && !kinds[code - FIRST_KIND].address)
        return Py_NewRef((PyObject *)pointer);
    return PyLong_FromVoidPtr(pointer);
}

/* object_value(array): the Python object, or the address */
static PyObject *object_value(PyObject *self, PyObject *o)
{
    (void)self;
    hop_tensor *t = is_array(o) ? concrete_tensor(as_array(o)) : NULL;
    const char *kind = t ? hop_object_kind(t) : NULL;
    if (!kind) {
        if (!PyErr_Occurred()) raise_invalid("expected an object, found %R", o);
        return NULL;
    }
    return object_of_pointer(as_array(o)->dtype, hop_object_pointer(t, kind));
}

/* object_setup(class, make_dtype) */
static PyObject *object_setup(PyObject *self, PyObject *args)
{
    PyObject *class, *make;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO", &class, &make)) return NULL;
    Py_XDECREF(object_class);
    Py_XDECREF(object_dtype);
    object_class = Py_NewRef(class);
    object_dtype = Py_NewRef(make);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "object_new", object_new, METH_VARARGS, "object_new(object or address, kind, is_address)" },
    { "object_value", object_value, METH_O, "object_value(array): the Python object, or the address" },
    { "object_setup", object_setup, METH_VARARGS, "object_setup(class, make_dtype)" },
    { NULL, NULL, 0, NULL },
};

int object_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
