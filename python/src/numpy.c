/* Arrays of NumPy's, for the functions of operators: made and read through the C API that NumPy offers at run
 * time, so that neither building nor importing the package needs it. What is relied on, the table of
 * functions and the first fields of an array and of a dtype, is the same in every NumPy since 1.7; set_numpy
 * checks it on an array of the NumPy at hand. */
#include "core.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    PyObject_HEAD PyTypeObject *type;
    char kind, letter, order, flags;
    int number;
} numpy_dtype;
typedef struct {
    PyObject_HEAD char *data;
    int rank;
    Py_ssize_t *dims, *strides;
    PyObject *base;
    numpy_dtype *dtype;
    int flags;
} numpy_array;
typedef PyObject *(*new_array)(PyTypeObject *type, int rank, const Py_ssize_t *dims, int number,
                               const Py_ssize_t *strides, void *data, int size, int flags, PyObject *base);
/* Of the table of functions, and of an array's flags. */
enum { TYPE_OF_ARRAYS = 2, NEW_ARRAY = 93, CONTIGUOUS = 1, WRITABLE = 0x400, MAX_NUMBER = 512 };

static struct {
    PyTypeObject *type; /* NULL: NumPy has not been asked for */
    new_array make;
    PyObject *asarray, *contiguous;
    PyObject *dtypes[N_DTYPES]; /* NULL: NumPy has none */
    int numbers[N_DTYPES];
    int8_t of_number[MAX_NUMBER]; /* our dtype of a number of theirs; -1: none */
} numpy;

static int read_dtypes(PyObject *list)
{
    memset(numpy.of_number, -1, sizeof numpy.of_number);
    for (int i = 0; i < N_DTYPES; i++) {
        PyObject *o = PyTuple_GetItem(list, i);
        if (!o) return -1;
        Py_CLEAR(numpy.dtypes[i]);
        if (o == Py_None) continue;
        numpy.dtypes[i] = Py_NewRef(o);
        numpy.numbers[i] = ((numpy_dtype *)o)->number;
        if (numpy.numbers[i] >= 0 && numpy.numbers[i] < MAX_NUMBER)
            numpy.of_number[numpy.numbers[i]] = (int8_t)i;
    }
    /* two of C's types are 64 bits wide */
    for (int i = 7; i <= 10; i++)
        if (sizeof(long) == 8 && numpy.of_number[i] < 0) numpy.of_number[i] = i % 2 ? DT_I64 : DT_U64;
    return 0;
}

/* set_numpy(table of functions, asarray, ascontiguousarray, dtypes, numbers of the dtypes, an array float32
 * of shape (2, 3), its address): whether this NumPy is as expected */
static PyObject *set_numpy(PyObject *self, PyObject *args)
{
    PyObject *capsule, *asarray, *contiguous, *dtypes, *numbers, *probe;
    unsigned long long address;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO!O!OK", &capsule, &asarray, &contiguous, &PyTuple_Type, &dtypes,
                          &PyTuple_Type, &numbers, &probe, &address))
        return NULL;
    void **table = PyCapsule_GetPointer(capsule, NULL);
    if (!table) return NULL;
    if ((PyObject *)Py_TYPE(probe) != table[TYPE_OF_ARRAYS]) Py_RETURN_FALSE;
    const numpy_array *a = (const numpy_array *)probe;
    const int flags = CONTIGUOUS | WRITABLE;
    bool same = (uintptr_t)a->data == (uintptr_t)address && a->rank == 2 && (a->flags & flags) == flags;
    same = same && a->dims[0] == 2 && a->dims[1] == 3 && a->strides[0] == 12 && a->strides[1] == 4;
    if (!same) Py_RETURN_FALSE;
    for (Py_ssize_t i = 0; i < PyTuple_Size(dtypes); i++) {
        PyObject *o = PyTuple_GetItem(dtypes, i);
        long number = o == Py_None ? 0 : PyLong_AsLong(PyTuple_GetItem(numbers, i));
        if (o != Py_None && ((numpy_dtype *)o)->number != number) Py_RETURN_FALSE;
    }
    if (PyErr_Occurred() || read_dtypes(dtypes)) return NULL;
    Py_XDECREF(numpy.asarray);
    Py_XDECREF(numpy.contiguous);
    numpy.asarray = Py_NewRef(asarray);
    numpy.contiguous = Py_NewRef(contiguous);
    memcpy(&numpy.make, &table[NEW_ARRAY], sizeof numpy.make);
    numpy.type = (PyTypeObject *)table[TYPE_OF_ARRAYS];
    Py_RETURN_TRUE;
}

PyObject *ndarray_new(int dtype, int rank, const int64_t *dims, const void *data, bool writable,
                      void **memory)
{
    if (!numpy.type || !numpy.dtypes[dtype]) {
        PyErr_Format(PyExc_TypeError, "NumPy has no dtype %s%s", dtype_rows[dtype].name,
                     dtype == DT_BF16 ? ": install ml_dtypes, or cast to another before" : "");
        return NULL;
    }
    Py_ssize_t sizes[MAX_RANK];
    size_t bytes = dtype_rows[dtype].size;
    for (int i = 0; i < rank; i++) bytes *= (size_t)(sizes[i] = (Py_ssize_t)dims[i]);
    PyObject *made = numpy.make(numpy.type, rank, sizes, numpy.numbers[dtype], NULL, NULL, 0, 0, NULL);
    if (!made) return NULL;
    numpy_array *a = (numpy_array *)made;
    if (data && bytes) memcpy(a->data, data, bytes);
    if (!writable) a->flags &= ~WRITABLE;
    if (memory) *memory = a->data;
    return made;
}

PyObject *ndarray_within(PyObject *owner, int dtype, int rank, const int64_t *dims, const int64_t *strides,
                         void *data)
{
    const Py_ssize_t size = (Py_ssize_t)dtype_rows[dtype].size;
    Py_ssize_t sizes[MAX_RANK], steps[MAX_RANK], step = size;
    for (int i = rank - 1; i >= 0; i--) {
        sizes[i] = (Py_ssize_t)dims[i];
        steps[i] = strides ? (Py_ssize_t)strides[i] * size : step;
        step *= sizes[i];
    }
    if (!numpy.dtypes[dtype]) return ndarray_new(dtype, rank, dims, NULL, true, NULL); /* which says so */
    const int number = numpy.numbers[dtype];
    PyObject *made = numpy.make(numpy.type, rank, sizes, number, steps, data, 0, WRITABLE, NULL);
    if (made) ((numpy_array *)made)->base = Py_NewRef(owner);
    return made;
}

/* What something is, for a message. */
static void describe(PyObject *o, char *text, size_t room)
{
    PyObject *shown = NULL;
    if (numpy.type && PyObject_TypeCheck(o, numpy.type)) {
        PyObject *dtype = PyObject_GetAttrString(o, "dtype"), *shape = PyObject_GetAttrString(o, "shape");
        if (dtype && shape) shown = PyUnicode_FromFormat("an array of %S and shape %S", dtype, shape);
        Py_XDECREF(dtype);
        Py_XDECREF(shape);
    } else if (o == Py_None) {
        shown = PyUnicode_FromString("None");
    } else {
        PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
        if (name) shown = PyUnicode_FromFormat("a value of the class %S", name);
        Py_XDECREF(name);
    }
    const char *utf8 = shown ? PyUnicode_AsUTF8AndSize(shown, NULL) : NULL;
    snprintf(text, room, "%s", utf8 ? utf8 : "something else");
    Py_XDECREF(shown);
    PyErr_Clear();
}

static void type_text(int dtype, int rank, const int64_t *dims, char *text, size_t room)
{
    size_t n = (size_t)snprintf(text, room, "%s[", dtype_rows[dtype].name);
    for (int i = 0; i < rank && n < room; i++) {
        const char *comma = i ? ", " : "";
        if (dims[i] < 0) n += (size_t)snprintf(text + n, room - n, "%s?", comma);
        else n += (size_t)snprintf(text + n, room - n, "%s%lld", comma, (long long)dims[i]);
    }
    if (n < room) snprintf(text + n, room - n, "]");
}

int elements_wrong(PyObject *o, const hop_operator_array *wanted, char *message, size_t room)
{
    char expected[MAX_RANK * 22 + 16], found[400];
    type_text(wanted->dtype, wanted->rank, wanted->dims, expected, sizeof expected);
    describe(o, found, sizeof found);
    snprintf(message, room, "expected %s, found %s", expected, found);
    return -1;
}

/* A number of Python's own as an array, where its kind is one that the dtype holds. NULL without an
 * exception: it is none. */
static PyObject *of_number(PyObject *o, int dtype)
{
    const char kind = dtype_rows[dtype].kind;
    bool fits = PyBool_Check(o) || (kind != 'b' && PyLong_Check(o)) || (kind == 'f' && PyFloat_Check(o));
    if (!fits || !is_number(o)) return NULL;
    return PyObject_CallFunctionObjArgs(numpy.asarray, o, numpy.dtypes[dtype], NULL);
}

int elements_read(PyObject *o, const hop_operator_array *wanted, struct elements *out, char *message,
                  size_t room)
{
    out->kept = NULL;
    if (o == Py_None || PyUnicode_Check(o)) return elements_wrong(o, wanted, message, room);
    PyObject *a = PyObject_TypeCheck(o, numpy.type) ? Py_NewRef(o) : of_number(o, wanted->dtype);
    if (!a && !PyErr_Occurred()) a = PyObject_CallFunctionObjArgs(numpy.asarray, o, NULL);
    if (!a || !PyObject_TypeCheck(a, numpy.type)) {
        const bool stop = PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception);
        Py_XDECREF(a);
        if (stop) return -1;
        PyErr_Clear();
        return elements_wrong(o, wanted, message, room);
    }
    const numpy_array *n = (const numpy_array *)a;
    const int number = n->dtype->number;
    if (number < 0 || number >= MAX_NUMBER || numpy.of_number[number] != wanted->dtype) {
        Py_DECREF(a);
        return elements_wrong(o, wanted, message, room);
    }
    if (!(n->flags & CONTIGUOUS) || n->dtype->order == '>') {
        PyObject *copy = PyObject_CallFunctionObjArgs(numpy.contiguous, a, numpy.dtypes[wanted->dtype], NULL);
        Py_DECREF(a);
        if (!copy) return -1;
        n = (const numpy_array *)(a = copy);
    }
    out->kept = a;
    out->data = n->data;
    out->rank = n->rank;
    for (int i = 0; i < n->rank && i < MAX_RANK; i++) out->dims[i] = n->dims[i];
    bool same = out->rank == wanted->rank;
    for (int i = 0; same && i < wanted->rank; i++)
        same = wanted->dims[i] < 0 || wanted->dims[i] == out->dims[i];
    if (same) return 0;
    elements_wrong(o, wanted, message, room);
    Py_CLEAR(out->kept);
    return -1;
}

static PyMethodDef functions[] = {
    { "set_numpy", set_numpy, METH_VARARGS,
      "set_numpy(table, asarray, contiguous, dtypes, numbers, probe, address)" },
    { NULL, NULL, 0, NULL },
};

int numpy_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
