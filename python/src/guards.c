/* Guards: whether what a function reads from outside is what it was when a program was made of it. A guard
 * list is a tree of places, parents before children: each says how its value is got from its parent's and
 * what it must be. Reading it runs no code of the user's: values come from dicts, lists, cells and slots
 * alone. Places whose arrays (or numbers) the program takes as further arguments hand them out. */
#include "core.h"

/* How a value is got. */
enum step {
    STEP_ROOT,       /* the function itself */
    STEP_CONSTANT,   /* `name` */
    STEP_ITEM,       /* of a dict, by the key `name` */
    STEP_INDEX,      /* of a list or a tuple, at `index` */
    STEP_ATTRIBUTE,  /* that C code answers: slots, attributes of functions and methods */
    STEP_CELL,       /* what the cell holds */
    STEP_NAMESPACE,  /* the dict of an instance */
    STEP_CLASS,      /* its type */
    STEP_CLASS_ITEM, /* an attribute of a type */
    N_STEPS
};
/* What it must be. */
enum check {
    CHECK_NOTHING,  /* that it is there */
    CHECK_ABSENT,   /* that it is not */
    CHECK_IS,       /* `want` */
    CHECK_VALUE,    /* a number, text, … of the same type and the same bits */
    CHECK_TYPE,     /* of the type `want` */
    CHECK_LENGTH,   /* of the type `want`, with `count` elements */
    CHECK_KEYS,     /* a dict of the type `want`, with these keys in this order: `more`, a tuple */
    CHECK_SET,      /* a set that equals `want` */
    CHECK_SAME,     /* the value at the place `count` */
    CHECK_FUNCTION, /* a function with the code `want` and the globals `more` */
    CHECK_ARRAY,    /* an array of the type of `want`, an array */
    CHECK_CONTENT,  /* the same, with the same elements */
    CHECK_NUMBER,   /* a Python number of the type `want` */
    N_CHECKS
};
struct place {
    int32_t parent;
    uint8_t step, check;
    Py_ssize_t index, count;
    PyObject *name, *want, *more; /* strong or NULL */
};
typedef struct {
    PyObject_HEAD Py_ssize_t n, n_hidden;
    struct place *places;
    PyObject **values; /* borrowed, of the reading at work: no other code runs meanwhile */
    int32_t *hidden;   /* places whose values are further arguments */
} guards_object;
PyTypeObject *guards_type;

static struct {
    PyObject *code, *globals, *contents;
    PyTypeObject *function;
} names;

/* ---- values ---- */

/* A value that somebody else holds: the reference is given back at once. */
static PyObject *held(PyObject *value)
{
    if (value) Py_DECREF(value);
    else PyErr_Clear();
    return value;
}

static PyObject *class_item(PyObject *type, PyObject *name)
{
    return PyType_Check(type) ? held(PyObject_GetAttr(type, name)) : NULL;
}

static PyObject *list_item(PyObject *o, Py_ssize_t i)
{
    if (PyTuple_Check(o)) return i < PyTuple_Size(o) ? PyTuple_GetItem(o, i) : NULL;
    if (PyList_Check(o)) return i < PyList_Size(o) ? PyList_GetItem(o, i) : NULL;
    return i < PyObject_Size(o) ? held(PySequence_GetItem(o, i)) : NULL; /* of a deque */
}

static PyObject *dict_item(PyObject *o, PyObject *key)
{
    PyObject *found = PyDict_Check(o) ? PyDict_GetItemWithError(o, key) : NULL;
    if (!found && PyErr_Occurred()) PyErr_Clear();
    return found;
}

/* Borrowed; NULL: there is none, without an exception. */
static PyObject *value_at(const struct place *p, PyObject *parent, PyObject *root)
{
    if (p->step == STEP_ROOT) return root;
    if (p->step == STEP_CONSTANT) return p->name;
    if (!parent) return NULL;
    switch ((enum step)p->step) {
    case STEP_ITEM: return dict_item(parent, p->name);
    case STEP_INDEX: return list_item(parent, p->index);
    case STEP_ATTRIBUTE: return held(PyObject_GenericGetAttr(parent, p->name));
    case STEP_CELL: return held(PyObject_GetAttr(parent, names.contents));
    case STEP_NAMESPACE: return held(PyObject_GenericGetDict(parent, NULL));
    case STEP_CLASS: return (PyObject *)Py_TYPE(parent);
    case STEP_CLASS_ITEM: return class_item(parent, p->name);
    default: return NULL;
    }
}

/* ---- checks ---- */

/* Numbers and texts of one type. 0.0 and -0.0 differ, NaN is what it is. */
bool same_bits(PyObject *x, PyObject *want)
{
    if (x == want) return true;
    if (Py_TYPE(x) != Py_TYPE(want)) return false;
    if (PyFloat_CheckExact(x)) {
        double a = PyFloat_AsDouble(x), b = PyFloat_AsDouble(want);
        return !memcmp(&a, &b, sizeof a);
    }
    if (PyComplex_CheckExact(x)) {
        double a[2] = { PyComplex_RealAsDouble(x), PyComplex_ImagAsDouble(x) };
        double b[2] = { PyComplex_RealAsDouble(want), PyComplex_ImagAsDouble(want) };
        return !memcmp(a, b, sizeof a);
    }
    int same = PyObject_RichCompareBool(x, want, Py_EQ); /* int, str, bytes */
    if (same < 0) PyErr_Clear();
    return same > 0;
}

/* Keys are texts, numbers and tuples of them: comparing them runs no code of the user's. */
static bool same_keys(PyObject *dict, PyObject *keys)
{
    Py_ssize_t at = 0, n = PyTuple_Size(keys), i = 0;
    PyObject *key, *value;
    if (PyDict_Size(dict) != n) return false;
    while (PyDict_Next(dict, &at, &key, &value)) {
        PyObject *want = PyTuple_GetItem(keys, i++);
        if (key != want && !same_bits(key, want)) return false;
    }
    return true;
}

static bool same_set(PyObject *x, PyObject *want)
{
    if (Py_TYPE(x) != Py_TYPE(want) || PySet_Size(x) != PySet_Size(want)) return false;
    int same = PyObject_RichCompareBool(x, want, Py_EQ);
    if (same < 0) PyErr_Clear();
    return same > 0;
}

/* A function's globals cannot be replaced: where it is one that was looked at before, its code says it all.
 */
static bool same_function(PyObject *x, const struct place *p, bool known)
{
    if (Py_TYPE(x) != names.function || held(PyObject_GenericGetAttr(x, names.code)) != p->want) return false;
    return known || held(PyObject_GenericGetAttr(x, names.globals)) == p->more;
}

/* A new reference to x as an array; NULL without an exception when it is none. */
static PyObject *array_or_null(PyObject *x)
{
    if (is_array(x)) return Py_NewRef(x);
    PyObject *a = PyObject_CheckBuffer(x) ? array_from_buffer(x, -1) : NULL;
    if (!a) PyErr_Clear();
    return a;
}

static bool same_array_type(const array_object *a, const array_object *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank || a->weak != b->weak) return false;
    if (!a->tensor && !a->capture) return false; /* donated */
    int64_t dims[2][MAX_RANK];
    int rank = array_dims(a, dims[0]);
    array_dims(b, dims[1]);
    for (int i = 0; i < rank; i++)
        if (dims[0][i] < 0 || dims[0][i] != dims[1][i]) return false;
    if (!a->spread && !b->spread) return true;
    char text[2][TYPE_TEXT];
    array_type_text(a, text[0]);
    array_type_text(b, text[1]);
    return !strcmp(text[0], text[1]);
}

static bool same_content(const array_object *a, const array_object *b)
{
    if (!a->tensor || !b->tensor || dtype_is_object(a->dtype) || a->spread || b->spread) return false;
    hop_tensor *x = NULL, *y = NULL;
    if (hop_tensor_copy(&x, a->tensor) || hop_tensor_copy(&y, b->tensor)) {
        hop_tensor_free(x);
        return false;
    }
    size_t bytes = (size_t)hop_tensor_count(x) * dtype_rows[a->dtype].size;
    bool same = !bytes || !memcmp(hop_data_const(x), hop_data_const(y), bytes);
    hop_tensor_free(x);
    hop_tensor_free(y);
    return same;
}

static bool same_array(PyObject *x, const struct place *p)
{
    PyObject *a = array_or_null(x);
    if (!a) return false;
    bool same = same_array_type(as_array(a), as_array(p->want));
    if (same && p->check == CHECK_CONTENT) same = same_content(as_array(a), as_array(p->want));
    Py_DECREF(a);
    return same;
}

static bool holds(const guards_object *g, const struct place *p, PyObject *x, bool known_root)
{
    if (!x) return p->check == CHECK_ABSENT;
    PyObject *type = (PyObject *)Py_TYPE(x);
    switch ((enum check)p->check) {
    case CHECK_NOTHING: return true;
    case CHECK_IS: return x == p->want;
    case CHECK_VALUE: return same_bits(x, p->want);
    case CHECK_TYPE:
    case CHECK_NUMBER: return type == p->want;
    case CHECK_LENGTH: return type == p->want && PyObject_Size(x) == p->count;
    case CHECK_KEYS: return type == p->want && same_keys(x, p->more);
    case CHECK_SET: return same_set(x, p->want);
    case CHECK_SAME: return x == g->values[p->count];
    case CHECK_FUNCTION: return same_function(x, p, known_root && p->step == STEP_ROOT);
    case CHECK_ARRAY:
    case CHECK_CONTENT: return same_array(x, p);
    default: return false;
    }
}

/* The first place that is not what it was, -1 when there is none. known_root: the guards held for this very
 * function before. */
static Py_ssize_t first_difference(const guards_object *g, PyObject *root, bool known_root)
{
    for (Py_ssize_t i = 0; i < g->n; i++) {
        const struct place *p = &g->places[i];
        g->values[i] = value_at(p, p->parent < 0 ? NULL : g->values[p->parent], root);
        if (!holds(g, p, g->values[i], known_root)) return i;
    }
    return -1;
}

int guards_still_hold(PyObject *guards, PyObject *root, bool known_root)
{
    return guards && first_difference((guards_object *)guards, root, known_root) < 0;
}
Py_ssize_t guards_hidden(PyObject *guards) { return guards ? ((guards_object *)guards)->n_hidden : 0; }

PyObject *guards_argument(PyObject *guards, Py_ssize_t i)
{
    const guards_object *g = (guards_object *)guards;
    PyObject *x = g->values[g->hidden[i]];
    if (is_array(x)) return Py_NewRef(x);
    return is_number(x) ? number_array(x) : array_from_buffer(x, -1);
}

/* ---- the type ---- */

static void free_places(struct place *places, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; places && i < n; i++) {
        Py_XDECREF(places[i].name);
        Py_XDECREF(places[i].want);
        Py_XDECREF(places[i].more);
    }
    PyMem_Free(places);
}

static PyObject *given_or_null(PyObject *o) { return o == Py_None ? NULL : Py_NewRef(o); }

static int read_place(PyObject *row, Py_ssize_t at, struct place *p)
{
    int parent, step, check;
    PyObject *name, *want, *more;
    if (!PyArg_ParseTuple(row, "iiinOOOn", &parent, &step, &check, &p->index, &name, &want, &more, &p->count))
        return -1;
    bool known = step >= 0 && step < N_STEPS && check >= 0 && check < N_CHECKS && parent < at && parent >= -1;
    bool arrays = check == CHECK_ARRAY || check == CHECK_CONTENT;
    bool later = check == CHECK_SAME && (p->count < 0 || p->count >= at);
    if (!known || later || (arrays && !is_array(want)) || (check == CHECK_KEYS && !PyTuple_Check(more))) {
        PyErr_Format(PyExc_ValueError, "place %zd: wrong numbers", at);
        return -1;
    }
    p->parent = parent;
    p->step = (uint8_t)step;
    p->check = (uint8_t)check;
    bool by_none = step == STEP_ITEM && name == Py_None; /* {None: …} */
    p->name = by_none || step == STEP_CONSTANT ? Py_NewRef(name) : given_or_null(name);
    p->want = check == CHECK_IS ? Py_NewRef(want) : given_or_null(want);
    p->more = given_or_null(more);
    if (check != CHECK_ARRAY) return 0;
    Py_DECREF(p->want);
    p->want = array_without_elements(want);
    return p->want ? 0 : -1;
}

/* Guards(rows of (parent, step, check, index, name, want, more, count), hidden places) */
static PyObject *guards_of(PyObject *self, PyObject *args)
{
    PyObject *rows, *hidden;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &rows, &PyList_Type, &hidden)) return NULL;
    guards_object *g = (guards_object *)PyType_GenericAlloc(guards_type, 0);
    if (!g) return NULL;
    Py_ssize_t n = PyList_Size(rows), n_hidden = PyList_Size(hidden);
    g->places = PyMem_Calloc((size_t)n + 1, sizeof *g->places);
    g->values = PyMem_Calloc((size_t)n + 1, sizeof *g->values);
    g->hidden = PyMem_Calloc((size_t)n_hidden + 1, sizeof *g->hidden);
    bool good = g->places && g->values && g->hidden;
    if (!good) PyErr_NoMemory();
    for (Py_ssize_t i = 0; good && i < n; i++) {
        good = !read_place(PyList_GetItem(rows, i), i, &g->places[i]);
        g->n = i + 1;
    }
    for (Py_ssize_t i = 0; good && i < n_hidden; i++) {
        long at = PyLong_AsLong(PyList_GetItem(hidden, i));
        good = at >= 0 && at < n;
        if (!good && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "hidden: no such place");
        g->hidden[i] = (int32_t)at;
    }
    g->n_hidden = n_hidden;
    if (good) return (PyObject *)g;
    Py_DECREF(g);
    return NULL;
}

static PyObject *guards_difference(PyObject *self, PyObject *root)
{
    const guards_object *g = (guards_object *)self;
    Py_ssize_t at = first_difference(g, root, false);
    if (at < 0) Py_RETURN_NONE;
    return Py_BuildValue("(nO)", at, g->values[at] ? g->values[at] : Py_None);
}

/* arguments(root): the arrays at the hidden places, None when the guards do not hold */
static PyObject *guards_arguments(PyObject *self, PyObject *root)
{
    if (first_difference((guards_object *)self, root, false) >= 0) Py_RETURN_NONE;
    Py_ssize_t n = guards_hidden(self);
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *a = guards_argument(self, i);
        if (!a || PyList_SetItem(list, i, a)) Py_CLEAR(list);
    }
    return list;
}

static int guards_traverse(PyObject *self, visitproc visit, void *arg)
{
    const guards_object *g = (guards_object *)self;
    Py_VISIT(Py_TYPE(self));
    for (Py_ssize_t i = 0; i < g->n; i++) {
        Py_VISIT(g->places[i].name);
        Py_VISIT(g->places[i].want);
        Py_VISIT(g->places[i].more);
    }
    return 0;
}
static int guards_clear(PyObject *self)
{
    guards_object *g = (guards_object *)self;
    struct place *places = g->places;
    Py_ssize_t n = g->n;
    g->n = 0;
    g->places = NULL;
    free_places(places, n);
    return 0;
}
static void guards_dealloc(PyObject *self)
{
    guards_object *g = (guards_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    guards_clear(self);
    PyMem_Free(g->values);
    PyMem_Free(g->hidden);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef guards_methods[] = {
    { "difference", guards_difference, METH_O,
      "difference(root): (the first place that changed, what is there now), None: there is none" },
    { "arguments", guards_arguments, METH_O, "arguments(root): further arguments, None: something changed" },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot guards_slots[] = { { Py_tp_dealloc, guards_dealloc },
                                      { Py_tp_traverse, guards_traverse },
                                      { Py_tp_clear, guards_clear },
                                      { Py_tp_methods, guards_methods },
                                      { 0, NULL } };
static PyType_Spec guards_spec = { "hop._core.Guards", sizeof(guards_object), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                       Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   guards_slots };

static PyMethodDef functions[] = {
    { "guards", guards_of, METH_VARARGS,
      "guards(rows of (parent, step, check, index, name, want, more, count), hidden places) -> Guards" },
    { NULL, NULL, 0, NULL },
};

int guards_init(PyObject *module)
{
    names.code = PyUnicode_InternFromString("__code__");
    names.globals = PyUnicode_InternFromString("__globals__");
    names.contents = PyUnicode_InternFromString("cell_contents");
    PyObject *types = PyImport_ImportModule("types");
    names.function = types ? (PyTypeObject *)PyObject_GetAttrString(types, "FunctionType") : NULL;
    Py_XDECREF(types);
    guards_type = (PyTypeObject *)PyType_FromSpec(&guards_spec);
    if (!names.code || !names.globals || !names.contents || !names.function || !guards_type) return -1;
    if (PyModule_AddObjectRef(module, "Guards", (PyObject *)guards_type)) return -1;
    return PyModule_AddFunctions(module, functions);
}
