/* The journal: a write in a body makes an array that the body has from outside hold a variable, or a concrete
 * array a traced value. Where the body fails, or is captured once more, that never happened. Each thread has
 * a journal of its own. */
#include "core.h"

/* What an array was before it was changed. */
struct entry {
    PyObject *array;
    bool concrete; /* it was, and all below counts; else its value alone */
    hop_val value;
    hop_tensor *tensor;
    PyObject *origin, *base, *slices, *known;
    uint8_t memory, weak;
};
static _Thread_local struct entry *entries;
static _Thread_local size_t n_entries, room;
static _Thread_local int watching; /* loops that run at once and may be begun again */

static struct entry *add(PyObject *array)
{
    if (n_entries == room) {
        size_t more = room ? 2 * room : 16;
        struct entry *grown = PyMem_Realloc(entries, more * sizeof *grown);
        if (!grown) {
            PyErr_NoMemory();
            return NULL;
        }
        entries = grown;
        room = more;
    }
    struct entry *e = &entries[n_entries++];
    *e = (struct entry){ .array = Py_NewRef(array) };
    return e;
}

size_t journal_mark(void) { return n_entries; }

int journal_variable(array_object *a)
{
    struct entry *e = add((PyObject *)a);
    if (!e) return -1;
    e->value = a->value;
    return 0;
}

int journal_known(array_object *a)
{
    struct entry *e = add((PyObject *)a);
    if (!e) return -1;
    e->known = Py_XNewRef(a->known);
    return 0;
}

int journal_elements(array_object *a)
{
    struct entry *e = watching ? add((PyObject *)a) : NULL;
    if (!e) return watching ? -1 : 0;
    e->concrete = true;
    e->tensor = hop_tensor_ref(a->tensor);
    e->origin = Py_XNewRef(a->origin);
    e->base = Py_XNewRef(a->base);
    e->slices = Py_XNewRef(a->slices);
    e->memory = a->memory == OWN ? SHARED : a->memory;
    e->weak = a->weak;
    return 0;
}

static int set_class(PyObject *array, PyObject *class)
{
    return PyObject_SetAttrString(array, "__class__", class);
}

int array_trace(PyObject *self, hop_place at)
{
    array_object *a = as_array(self);
    struct operand given = { .array = self };
    hop_val v;
    if (!concrete_tensor(a) || operand_value(&given, at, &v)) return -1;
    v = hop_current_at(at, v);
    if (!v.scope) {
        raise_status(hop_failed());
        return -1;
    }
    int64_t *dims = PyMem_Malloc((size_t)(a->rank ? a->rank : 1) * sizeof *dims);
    struct entry *e = dims ? add(self) : NULL;
    if (!e || set_class(self, tracer_class)) {
        if (!dims) PyErr_NoMemory();
        PyMem_Free(dims);
        if (e) Py_DECREF(entries[--n_entries].array);
        return -1;
    }
    array_dims(a, dims);
    *e = (struct entry){ .array = e->array,
                         .concrete = true,
                         .tensor = a->tensor,
                         .origin = a->origin,
                         .base = a->base,
                         .slices = a->slices,
                         .memory = a->memory,
                         .weak = a->weak };
    a->tensor = NULL;
    a->origin = a->base = a->slices = NULL;
    PyMem_Free(a->dims);
    a->dims = dims;
    a->capture = frame_top()->serial;
    live_join(a->capture, &a->live, self);
    a->value = v;
    a->made = at;
    a->number = false;
    return 0;
}

/* The array as it was. */
static void take_back(struct entry e)
{
    array_object *a = as_array(e.array);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    a->variable = false;
    if (e.known) {
        live_remove(&a->live);
        Py_XDECREF(a->known);
        a->known = e.known;
    } else if (!e.concrete) a->value = e.value;
    else {
        hop_tensor_free(a->tensor);
        live_remove(&a->live);
        Py_CLEAR(a->known);
        a->capture = 0;
        a->value = (hop_val){ 0, 0 };
        a->tensor = e.tensor;
        a->origin = e.origin;
        a->base = e.base;
        a->slices = e.slices;
        a->memory = e.memory;
        a->weak = e.weak;
        a->number = false;
        if (set_class(e.array, array_class)) PyErr_Clear();
    }
    Py_DECREF(e.array);
    PyErr_Restore(type, value, trace);
}
/* The array stays as it is now. */
static void drop(struct entry e)
{
    hop_tensor_free(e.tensor);
    Py_XDECREF(e.origin);
    Py_XDECREF(e.base);
    Py_XDECREF(e.slices);
    Py_XDECREF(e.known);
    Py_DECREF(e.array);
}

void journal_undo(size_t mark)
{
    while (n_entries > mark) take_back(entries[--n_entries]);
}

static bool listed(PyObject *list, PyObject *array)
{
    for (Py_ssize_t i = 0; list && i < PyList_Size(list); i++)
        if (PyList_GetItem(list, i) == array) return true;
    return false;
}

void journal_end(size_t mark, uint64_t capture, PyObject *written)
{
    size_t kept = mark, n = n_entries;
    bool outermost = !frame_top() && !watching;
    for (size_t i = n; i-- > mark;)
        if (listed(written, entries[i].array)) {
            take_back(entries[i]);
            entries[i].array = NULL;
        }
    for (size_t i = mark; i < n; i++) {
        struct entry e = entries[i];
        if (!e.array) continue;
        if (outermost || as_array(e.array)->capture == capture) drop(e);
        else entries[kept++] = e;
    }
    n_entries = kept;
}

/* ---- loops that run at once ---- */

/* watch_writes(): from now on until unwatch_writes(mark, undo) writes can be taken back */
static PyObject *watch_writes(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    watching++;
    return PyLong_FromSize_t(n_entries);
}
static PyObject *unwatch_writes(PyObject *self, PyObject *args)
{
    Py_ssize_t mark;
    int undo;
    (void)self;
    if (!PyArg_ParseTuple(args, "np", &mark, &undo)) return NULL;
    watching--;
    if (undo) journal_undo((size_t)mark);
    while (!watching && !frame_top() && n_entries) drop(entries[--n_entries]);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "watch_writes", watch_writes, METH_NOARGS, "watch_writes(): a mark for unwatch_writes" },
    { "unwatch_writes", unwatch_writes, METH_VARARGS,
      "unwatch_writes(mark, undo): undo takes back what was written to arrays since" },
    { NULL, NULL, 0, NULL },
};

int journal_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
