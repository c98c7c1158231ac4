/* Arrays: the base class of hop.Array and hop.Tracer with what must be quick or needs C: what is asked of
 * them, views, writes, Python's signs for operators. Elements are elements.c, memory of others is exchange.c;
 * everything else about arrays is Python. */
#include "core.h"

#include <stdio.h>
#include <stdlib.h>

PyTypeObject *array_base;

/* ---- making ---- */

static array_object *array_alloc(PyObject *class)
{
    array_object *a = (array_object *)PyType_GenericAlloc((PyTypeObject *)class, 0);
    return a;
}

PyObject *array_of_tensor(hop_tensor *t)
{
    const char *kind = t ? hop_object_kind(t) : NULL;
    bool spread = t && hop_tensor_mesh(t);
    PyObject *class = spread ? dist_class_or(array_class) : array_class;
    array_object *a = t ? array_alloc(kind ? object_class_or(array_class) : class) : NULL;
    if (!a) {
        hop_tensor_free(t);
        return t ? NULL : PyErr_NoMemory();
    }
    a->tensor = t;
    a->spread = spread;
    a->dtype = (int16_t)(kind ? dtype_of_kind(kind) : dtype_named(hop_tensor_dtype(t)));
    if (a->dtype < 0) {
        Py_DECREF(a);
        return raise_invalid("a process has at most %d kinds of objects", MOST_KINDS);
    }
    a->rank = (int16_t)hop_tensor_rank(t);
    a->born = frame_outermost();
    a->body = a->born ? hop_body_number() : 0;
    return (PyObject *)a;
}

PyObject *array_of_shared(hop_tensor *t, enum memory memory)
{
    PyObject *a = array_of_tensor(t);
    if (a) as_array(a)->memory = (uint8_t)memory;
    return a;
}
/* What a part of an array, or another look at it, is: no longer its alone. */
static enum memory seen_twice(const array_object *a)
{
    return a->memory == OWN ? SHARED : (enum memory)a->memory;
}
static PyObject *weak_as(PyObject *made, PyObject *self)
{
    if (made) as_array(made)->weak = as_array(self)->weak;
    return made;
}

/* How long the size at the beginning of a text is: up to a comma or bracket outside of "min(T, 3)". */
static size_t size_length(const char *p)
{
    size_t n = 0;
    for (int depth = 0; p[n] && (depth || (p[n] != ',' && p[n] != ']')); n++)
        depth += (p[n] == '(') - (p[n] == ')');
    return n;
}

/* "f32[3, T]": sizes that are no plain number are -1. */
static int read_type(const char *text, array_object *a)
{
    char name[8];
    int64_t dims[MAX_RANK];
    char kind[128];
    if (sscanf(text, "object \"%127[^\"]\"", kind) == 1) {
        a->dtype = (int16_t)dtype_of_kind(kind);
        a->dims = PyMem_Calloc(1, sizeof *a->dims);
        return a->dtype < 0 || !a->dims ? -1 : 0;
    }
    size_t n = strcspn(text, "[");
    if (n >= sizeof name || !text[n]) return -1;
    memcpy(name, text, n);
    name[n] = 0;
    a->dtype = (int16_t)dtype_named(name);
    const char *p = text + n + 1;
    int rank = 0;
    while (*p && *p != ']' && rank < MAX_RANK) {
        char *end;
        long long size = strtoll(p, &end, 10);
        size_t length = size_length(p);
        dims[rank++] = end == p + length ? size : -1;
        p += length;
        while (*p == ',' || *p == ' ') p++;
    }
    a->rank = (int16_t)rank;
    a->dims = PyMem_Malloc((size_t)(rank ? rank : 1) * sizeof *dims);
    if (!a->dims) return -1;
    memcpy(a->dims, dims, (size_t)rank * sizeof *dims);
    return a->dtype < 0 || *p != ']' ? -1 : 0;
}

/* What is kept of a type that has sizes that are no numbers, or is that of a distributed array; a status, or
 * -1 and an exception. */
static int keep_sizes(array_object *a, const char *text)
{
    bool numbers = true;
    for (int i = 0; i < a->rank; i++) numbers &= a->dims[i] >= 0;
    if (numbers && !strchr(text, '@')) return 0;
    if (!numbers) a->sizes = PyMem_Calloc((size_t)a->rank, sizeof *a->sizes);
    a->type = PyMem_Malloc(strlen(text) + 1);
    if ((!numbers && !a->sizes) || !a->type) {
        PyErr_NoMemory();
        return -1;
    }
    strcpy(a->type, text);
    for (int i = 0; a->sizes && i < a->rank; i++) {
        a->sizes[i] = hop_dim_of_at(a->made, a->value, i);
        if (!a->sizes[i].scope) return hop_failed() ? hop_failed() : HOP_INVALID;
    }
    return 0;
}

PyObject *array_of_value(hop_val v, hop_place at)
{
    array_object *a = array_alloc(tracer_class);
    if (!a) return NULL;
    a->capture = frame_top()->serial;
    live_join(a->capture, &a->live, (PyObject *)a);
    a->value = v;
    a->made = at;
    const char *text = hop_type_text(v);
    if (!*text || read_type(text, a)) {
        Py_DECREF(a);
        if (!*text) return raise_status(hop_failed());
        if (!strchr(text, ']')) return raise_invalid("the sizes are too long expressions: %.200s...", text);
        return PyErr_NoMemory();
    }
    int status = keep_sizes(a, text);
    if (!status) return (PyObject *)a;
    Py_DECREF(a);
    return status < 0 ? NULL : raise_status(status);
}

static void array_dealloc(PyObject *self)
{
    array_object *a = as_array(self);
    PyTypeObject *type = Py_TYPE(self);
    live_remove(&a->live);
    hop_tensor_free(a->tensor);
    PyMem_Free(a->dims);
    Py_XDECREF(a->known);
    Py_XDECREF(a->origin);
    Py_XDECREF(a->perhaps);
    Py_XDECREF(a->base);
    Py_XDECREF(a->slices);
    PyMem_Free(a->sizes);
    PyMem_Free(a->type);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- arrays of outside ---- */

/* A list to which the arrays are added whose elements become known to Python code; NULL: nobody asks. */
static _Thread_local PyObject *reads;

PyObject *array_source(array_object *a)
{
    if (a->capture) return (PyObject *)a;
    if (a->origin) return a->origin;
    return a->born == frame_outermost() ? NULL : (PyObject *)a;
}
void array_set_origin(PyObject *made, PyObject *source)
{
    if (!made || !source) return;
    PyObject *before = as_array(made)->origin;
    as_array(made)->origin = Py_NewRef(source);
    Py_XDECREF(before);
}
void array_note_read(array_object *a)
{
    while (a->base) a = as_array(a->base);
    PyObject *source = reads && frame_top() ? array_source(a) : NULL;
    if (source && PyList_Append(reads, source)) PyErr_Clear();
}
void array_note_elements(PyObject *a)
{
    if (reads && PyList_Append(reads, a)) PyErr_Clear();
}
/* note_reads(list or None): the one before */
static PyObject *note_reads(PyObject *self, PyObject *list)
{
    (void)self;
    PyObject *before = reads ? reads : Py_NewRef(Py_None);
    reads = PyList_Check(list) ? Py_NewRef(list) : NULL;
    return before;
}

PyObject *array_without_elements(PyObject *self)
{
    const array_object *from = as_array(self);
    array_object *a = array_alloc(array_class);
    if (!a) return NULL;
    a->dims = PyMem_Malloc((size_t)(from->rank ? from->rank : 1) * sizeof *a->dims);
    if (!a->dims) {
        Py_DECREF(a);
        return PyErr_NoMemory();
    }
    array_dims(from, a->dims);
    a->dtype = from->dtype;
    a->rank = from->rank;
    a->weak = from->weak;
    a->spread = from->spread;
    if (!a->spread) return (PyObject *)a;
    char text[TYPE_TEXT]; /* where it lies is part of its type */
    array_type_text(from, text);
    a->type = PyMem_Malloc(strlen(text) + 1);
    if (!a->type) {
        Py_DECREF(a);
        return PyErr_NoMemory();
    }
    strcpy(a->type, text);
    return (PyObject *)a;
}

/* ---- asking ---- */

int array_dims(const array_object *a, int64_t *dims)
{
    a = array_behind(a);
    for (int i = 0; i < a->rank; i++)
        if (a->tensor) dims[i] = hop_tensor_dim(a->tensor, i);
        else dims[i] = a->dims ? a->dims[i] : 0;
    return a->rank;
}
int array_raw_dtype(const array_object *a) { return a->number && a->weak == WEAK_REAL ? DT_F64 : a->dtype; }

void array_mark(array_object *a, bool number)
{
    number &= !a->rank;
    bool wide = number && a->dtype == DT_F64; /* as Python's are */
    if (a->dtype == DT_F32 || wide) a->weak = WEAK_REAL;
    else a->weak = a->dtype == DT_I64 ? WEAK_INT : NOT_WEAK;
    a->number = number && a->weak && (wide || a->weak == WEAK_INT);
    if (wide) a->dtype = DT_F32;
}

void array_give_away(array_object *a)
{
    if (!a->dims) a->dims = PyMem_Malloc((size_t)(a->rank ? a->rank : 1) * sizeof *a->dims);
    for (int i = 0; a->dims && a->tensor && i < a->rank; i++) a->dims[i] = hop_tensor_dim(a->tensor, i);
    a->tensor = NULL;
}

int array_type_text(const array_object *a, char text[TYPE_TEXT])
{
    int64_t dims[MAX_RANK];
    int rank = array_dims(a, dims);
    if (dtype_is_object(a->dtype)) {
        snprintf(text, TYPE_TEXT, "%s", dtype_rows[a->dtype].name);
        return 0;
    }
    size_t n = (size_t)snprintf(text, TYPE_TEXT, "%s[", dtype_rows[a->dtype].name);
    a = array_behind(a);
    const char *shown = a->type ? strchr(a->type, '[') : NULL; /* the dtype may be another one */
    if (shown) {
        snprintf(text + n, TYPE_TEXT - n, "%s", shown + 1);
        return a->sizes ? -1 : 0;
    }
    for (int i = 0; i < rank; i++)
        n += (size_t)snprintf(text + n, TYPE_TEXT - n, "%s%lld", i ? ", " : "", (long long)dims[i]);
    n += (size_t)snprintf(text + n, TYPE_TEXT - n, "]");
    array_layout_text(a, text + n, TYPE_TEXT - n);
    return 0;
}

hop_tensor *concrete_tensor(array_object *a)
{
    if (!a->spread) return any_tensor(a);
    char at[LAYOUT_TEXT];
    array_layout_text(a, at, sizeof at);
    raise_invalid("expected an array, found a distributed one %s: hop.collect(x) is the whole array, "
                  "hop.shard_map and hop.local_map work on its parts",
                  at);
    return NULL;
}

hop_tensor *any_tensor(array_object *a)
{
    if (a->tensor) return a->tensor;
    if (!a->capture)
        PyErr_SetString(PyExc_RuntimeError,
                        "this array was donated to a call: its memory belongs to the call's result");
    else
        raise_unknown("%s:%d: the elements of a traced value are known only when the program runs (it was "
                      "made at %s:%d); return it from the function, or print it with hop.print",
                      user_place().file, user_place().line, a->made.file, a->made.line);
    return NULL;
}

/* A size as an integer of Python's or as a hop.Size. */
static PyObject *size_at(const array_object *a, const int64_t *dims, int axis)
{
    if (dims[axis] >= 0) return PyLong_FromLongLong(dims[axis]);
    a = array_behind(a);
    return size_of_dim(a->capture, a->sizes[axis], a->made);
}

static PyObject *get_shape(PyObject *self, void *unused)
{
    int64_t dims[MAX_RANK];
    const array_object *a = array_part(as_array(self));
    if (!a) return NULL;
    int rank = array_dims(a, dims);
    PyObject *t = PyTuple_New(rank);
    (void)unused;
    for (int i = 0; t && i < rank; i++) {
        PyObject *n = size_at(a, dims, i);
        if (!n || PyTuple_SetItem(t, i, n)) {
            Py_DECREF(t);
            return NULL;
        }
    }
    return t;
}
static PyObject *get_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return dtype_object(as_array(self)->dtype);
}
static PyObject *get_ndim(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(as_array(self)->rank);
}
static PyObject *get_size(PyObject *self, void *unused)
{
    int64_t dims[MAX_RANK], n = 1;
    const array_object *a = array_part(as_array(self));
    if (!a) return NULL;
    int rank = array_dims(a, dims);
    (void)unused;
    for (int i = 0; i < rank; i++)
        if (dims[i] >= 0) n *= dims[i];
    PyObject *product = PyLong_FromLongLong(n);
    for (int i = 0; i < rank && product; i++) {
        if (dims[i] >= 0) continue;
        PyObject *size = size_at(a, dims, i), *more = NULL;
        if (size) more = PyNumber_Multiply(product, size);
        Py_DECREF(product);
        Py_XDECREF(size);
        product = more;
    }
    return product;
}
static PyObject *get_code(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(as_array(self)->dtype);
}
static PyObject *get_traced(PyObject *self, void *unused)
{
    const array_object *a = array_part(as_array(self));
    (void)unused;
    return a ? PyBool_FromLong(a->capture != 0) : NULL;
}
static PyObject *get_weak(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(as_array(self)->weak);
}
static PyObject *get_number(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(as_array(self)->number);
}
static PyObject *get_type_text(PyObject *self, void *unused)
{
    char text[TYPE_TEXT];
    const array_object *a = array_part(as_array(self));
    (void)unused;
    if (!a) return NULL;
    array_type_text(a, text);
    return PyUnicode_FromString(text);
}
static PyObject *get_made(PyObject *self, void *unused)
{
    (void)unused;
    hop_place made = as_array(self)->made;
    return Py_BuildValue("(si)", made.file ? made.file : "", made.line);
}
static PyObject *get_source(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *source = array_source(as_array(self));
    return Py_NewRef(source ? source : Py_None);
}
static PyObject *get_at_once(PyObject *self, void *unused)
{
    array_object *a = array_part(as_array(self));
    (void)unused;
    if (!a) return NULL;
    return PyBool_FromLong(!a->capture && (!frame_top() || (!array_source(a) && !a->base)));
}
static PyObject *get_origin(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *origin = as_array(self)->origin;
    return Py_NewRef(origin ? origin : Py_None);
}
static PyObject *get_perhaps(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *perhaps = as_array(self)->perhaps;
    return Py_NewRef(perhaps ? perhaps : Py_None);
}
static int set_perhaps(PyObject *self, PyObject *perhaps, void *unused)
{
    (void)unused;
    PyObject *before = as_array(self)->perhaps;
    as_array(self)->perhaps = perhaps && PyTuple_Check(perhaps) ? Py_NewRef(perhaps) : NULL;
    Py_XDECREF(before);
    return 0;
}
static PyObject *get_deleted(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(!as_array(self)->capture && !as_array(self)->tensor);
}
static PyObject *get_memory(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(as_array(self)->memory);
}
static PyObject *get_contiguous(PyObject *self, void *unused)
{
    (void)unused;
    const hop_tensor *t = as_array(self)->tensor;
    return PyBool_FromLong(t && hop_tensor_is_contiguous(t));
}
static PyObject *get_pointer(PyObject *self, void *unused)
{
    (void)unused;
    /* Debuggers ask for every attribute: nothing depends on this error. */
    if (as_array(self)->capture) return raise_tracer("a traced value has no address");
    if (refuse_object(as_array(self), "the address of elements")) return NULL;
    hop_tensor *t = concrete_tensor(as_array(self));
    return t ? PyLong_FromVoidPtr(hop_data(t)) : NULL;
}

static PyGetSetDef getset[] = {
    { "shape", get_shape, NULL,
      "the sizes, a tuple; a hop.Size for one that is no number while a program is captured", NULL },
    { "dtype", get_dtype, NULL, "the dtype of the elements", NULL },
    { "ndim", get_ndim, NULL, "how many axes there are", NULL },
    { "size", get_size, NULL, "how many elements there are", NULL },
    { "_code", get_code, NULL, "the number of the dtype", NULL },
    { "_traced", get_traced, NULL, "whether this is a value of a capture", NULL },
    { "_source", get_source, NULL, "itself as found outside of the captures at work, or None", NULL },
    { "_origin", get_origin, NULL, "what it is another look at, or None", NULL },
    { "_at_once", get_at_once, NULL, "whether parts of it are taken at once, not recorded", NULL },
    { "_weak", get_weak, NULL,
      "whether it was made of Python numbers alone and takes the dtype of arrays that it meets", NULL },
    { "_number", get_number, NULL, "whether it stands for a Python number", NULL },
    { "_type", get_type_text, NULL, "the type as text", NULL },
    { "_made", get_made, NULL, "where a traced value was made", NULL },
    { "_perhaps", get_perhaps, set_perhaps, "weak references to arrays that it may be in Python, or None",
      NULL },
    { "_donated", get_deleted, NULL, "whether a call took the memory", NULL },
    { "_memory", get_memory, NULL, "0: its own, 1: others see it too, 2: read-only", NULL },
    { "_contiguous", get_contiguous, NULL, "whether the elements are in memory in row-major order", NULL },
    { "_pointer", get_pointer, NULL, "the address of the first element", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

/* ---- elements ---- */

static PyObject *method_tolist(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (refuse_object(as_array(self), "tolist")) return NULL;
    PyObject *known = as_array(self)->capture ? array_elements(as_array(self)) : NULL;
    if (known) {
        PyObject *list = method_tolist(known, NULL);
        Py_DECREF(known);
        return list;
    }
    if (PyErr_Occurred()) return NULL;
    hop_tensor *t = concrete_tensor(as_array(self));
    if (!t) return NULL;
    array_note_read(as_array(self));
    hop_tensor_ref(t); /* making objects may run other code, which may give the array away */
    PyObject *list = element_lists(t, hop_data_const(t), 0, as_array(self)->dtype);
    hop_tensor_free(t);
    return list;
}

/* A statement that puts a traced value into an array of NumPy's asks for a number. */
static bool raise_stored(hop_place at)
{
    PyObject *index = PyImport_ImportModule("hop._index");
    PyObject *said = index ? PyObject_CallMethod(index, "stored_into", NULL) : NULL;
    bool stored = said && said != Py_None;
    PyErr_Clear();
    if (stored) raise_unknown("%s:%d: %U", at.file, at.line, said);
    Py_XDECREF(index);
    Py_XDECREF(said);
    return stored;
}

static PyObject *only_element(PyObject *self, const char *instead)
{
    array_object *a = as_array(self);
    if (refuse_object(a, "an element")) return NULL;
    if (a->capture) {
        PyObject *known = array_elements(a), *number = known ? only_element(known, instead) : NULL;
        Py_XDECREF(known);
        if (number || PyErr_Occurred()) return number;
        hop_place at = user_place();
        if (raise_stored(at)) return NULL;
        return raise_unknown("%s:%d: a traced value %s; it was made at %s:%d", at.file, at.line, instead,
                             a->made.file, a->made.line);
    }
    hop_tensor *t = concrete_tensor(a);
    if (!t) return NULL;
    if (hop_tensor_count(t) != 1) {
        char text[TYPE_TEXT];
        array_type_text(a, text);
        PyErr_Format(PyExc_TypeError, "only an array with one element can become a Python number, this is %s",
                     text);
        return NULL;
    }
    array_note_read(a);
    return element_number(hop_data_const(t), a->dtype);
}
static PyObject *method_item(PyObject *self, PyObject *unused)
{
    (void)unused;
    return only_element(self, "has no elements yet: item() needs a number that is known while the program is "
                              "captured");
}

/* How many elements there are, where they can be known; else -1. */
static int64_t known_count(const array_object *a)
{
    int64_t dims[MAX_RANK], n = 1;
    int rank = array_dims(a, dims);
    if (a->capture ? !array_may_cut(a) : !a->tensor) return -1;
    for (int i = 0; i < rank; i++) n = dims[i] < 0 ? -1 : n * dims[i];
    return n;
}

static int slot_bool(PyObject *self)
{
    array_object *a = as_array(self);
    int64_t n = known_count(a);
    if (n >= 0 && n != 1) {
        char text[TYPE_TEXT];
        array_type_text(a, text);
        PyErr_Format(PyExc_ValueError,
                     "the truth of an array with %s elements is ambiguous (%s): use hop.any or hop.all",
                     n ? "several" : "no", text);
        return -1;
    }
    PyObject *o = only_element(
        self, "has no truth while the program is captured: instead of if use hop.cond or hop.where, instead "
              "of while use hop.while_loop, "
              "instead of and, or, not use &, |, ~, or make the argument static (static_argnums)");
    if (!o) return -1;
    int truth = PyObject_IsTrue(o);
    Py_DECREF(o);
    return truth;
}
static PyObject *convert(PyObject *self, PyObject *(*to)(PyObject *), const char *instead)
{
    PyObject *o = only_element(self, instead), *r = o ? to(o) : NULL;
    Py_XDECREF(o);
    return r;
}
static PyObject *slot_int(PyObject *self)
{
    return convert(self, PyNumber_Long,
                   "is no Python int while the program is captured: use x.astype(hop.int64)");
}
static PyObject *slot_float(PyObject *self)
{
    return convert(self, PyNumber_Float,
                   "is no Python float while the program is captured: use x.astype(hop.float32), and hop's "
                   "functions instead of math's");
}
static PyObject *slot_index(PyObject *self)
{
    char kind = dtype_rows[as_array(self)->dtype].kind;
    if (kind != 'i' && kind != 'u') {
        PyErr_SetString(PyExc_TypeError, "only an array of integers can be an index");
        return NULL;
    }
    return convert(self, PyNumber_Index,
                   "cannot be a Python index or a size while the program is captured: index with it (x[i], "
                   "hop.take), slice with hop.dynamic_slice, loop with hop.fori_loop, or make it static");
}

/* ---- views ---- */

static PyObject *method_view(PyObject *self, PyObject *slices)
{
    hop_tensor *t = concrete_tensor(as_array(self)), *v = NULL;
    const char *text = t ? text_or_null(slices) : NULL;
    if (!text) return NULL;
    int status = hop_tensor_view(&v, t, text);
    if (status) return raise_status(status);
    PyObject *part = weak_as(array_of_shared(v, seen_twice(as_array(self))), self);
    if (part && frame_top() && (array_source(as_array(self)) || as_array(self)->base)) {
        as_array(part)->base = Py_NewRef(self);
        as_array(part)->slices = Py_NewRef(slices);
    }
    return part;
}

/* The same elements under other sizes, in the same memory where it is row-major. */
static PyObject *method_reshaped(PyObject *self, PyObject *sizes)
{
    hop_tensor *t = concrete_tensor(as_array(self)), *whole = NULL, *v = NULL;
    int64_t dims[MAX_RANK], n = 1;
    int rank = t ? array_sizes(sizes, dims) : -1, status = HOP_OK;
    if (rank < 0) return NULL;
    for (int i = 0; i < rank; i++) n *= dims[i];
    if (n != hop_tensor_count(t)) {
        PyErr_Format(PyExc_ValueError, "%lld elements cannot be arranged as %R",
                     (long long)hop_tensor_count(t), sizes);
        return NULL;
    }
    bool own = !hop_tensor_is_contiguous(t); /* a copy */
    if (!own) whole = hop_tensor_ref(t);
    else status = hop_tensor_copy(&whole, t);
    if (status) return raise_status(status);
    status = hop_tensor_reshape(&v, whole, NULL, dims, rank);
    hop_tensor_free(whole);
    if (status) return raise_status(status);
    return weak_as(array_of_shared(v, own ? OWN : seen_twice(as_array(self))), self);
}

/* The same bits as elements of another dtype of the same size. */
PyObject *array_bitcast(PyObject *self, PyObject *code)
{
    hop_tensor *t = concrete_tensor(as_array(self)), *whole = NULL, *v = NULL;
    long k = t ? PyLong_AsLong(code) : -1;
    if (k < 0 || k >= N_DTYPES || dtype_rows[k].size != dtype_rows[as_array(self)->dtype].size) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a bitcast needs a dtype of the same size");
        return NULL;
    }
    int64_t dims[MAX_RANK];
    int rank = array_dims(as_array(self), dims), status = HOP_OK;
    bool own = !hop_tensor_is_contiguous(t); /* a copy */
    if (!own) whole = hop_tensor_ref(t);
    else status = hop_tensor_copy(&whole, t);
    if (status) return raise_status(status);
    status = hop_tensor_reshape(&v, whole, dtype_rows[k].name, dims, rank);
    hop_tensor_free(whole);
    if (status) return raise_status(status);
    return array_of_shared(v, own ? OWN : seen_twice(as_array(self)));
}

/* Inside of a capture, what has the same elements as an array of outside is another look at that. */
static PyObject *looks_at(PyObject *made, PyObject *self)
{
    if (!made || !frame_top()) return made;
    array_set_origin(made, array_source(as_array(self)));
    as_array(made)->base = Py_XNewRef(as_array(self)->base);
    as_array(made)->slices = Py_XNewRef(as_array(self)->slices);
    return made;
}

static PyObject *method_copy(PyObject *self, PyObject *unused)
{
    hop_tensor *t = concrete_tensor(as_array(self)), *v = NULL;
    (void)unused;
    if (!t) return NULL;
    int status = hop_tensor_copy(&v, t);
    if (status) return raise_status(status);
    return looks_at(weak_as(array_of_tensor(v), self), self);
}

/* Another array with the same elements: x[i] = y on the one does not concern the other. */
static PyObject *method_alias(PyObject *self, PyObject *unused)
{
    array_object *a = as_array(self);
    (void)unused;
    if (!a->capture) {
        hop_tensor *t = any_tensor(a);
        if (!t) return NULL;
        return looks_at(weak_as(array_of_shared(hop_tensor_ref(t), seen_twice(a)), self), self);
    }
    array_object *b = array_alloc(tracer_class);
    if (!b) return NULL;
    b->capture = a->capture;
    b->value = a->value;
    if (frame_alive(a->capture) && array_now(a, user_place(), &b->value)) {
        Py_DECREF(b);
        return NULL;
    }
    live_join(b->capture, &b->live, (PyObject *)b);
    b->made = a->made;
    b->dtype = a->dtype;
    b->rank = a->rank;
    b->weak = a->weak;
    b->number = a->number;
    b->dims = PyMem_Malloc((size_t)(a->rank ? a->rank : 1) * sizeof *b->dims);
    if (a->sizes) b->sizes = PyMem_Malloc((size_t)a->rank * sizeof *b->sizes);
    if (a->type) b->type = PyMem_Malloc(strlen(a->type) + 1);
    if (!b->dims || (a->sizes && !b->sizes) || (a->type && !b->type)) {
        Py_DECREF(b);
        return PyErr_NoMemory();
    }
    memcpy(b->dims, a->dims, (size_t)a->rank * sizeof *b->dims);
    if (a->sizes) memcpy(b->sizes, a->sizes, (size_t)a->rank * sizeof *b->sizes);
    if (a->type) strcpy(b->type, a->type);
    return (PyObject *)b;
}

PyObject *array_raw(array_object *a)
{
    PyObject *b = method_alias((PyObject *)a, NULL);
    if (!b) return NULL;
    as_array(b)->dtype = (int16_t)array_raw_dtype(a);
    as_array(b)->weak = NOT_WEAK;
    as_array(b)->number = false;
    return b;
}
static PyObject *method_raw(PyObject *self, PyObject *unused)
{
    (void)unused;
    return array_raw(as_array(self));
}

/* _marked(number): the same value, weak. */
static PyObject *method_marked(PyObject *self, PyObject *number)
{
    PyObject *b = array_raw(as_array(self));
    if (b) array_mark(as_array(b), number == Py_True && as_array(b)->capture);
    return b;
}

/* ---- writing ---- */

int array_here(array_object *a, hop_place at, hop_val *out)
{
    if (a->known && array_revive(a, at)) return -1;
    hop_val v = a->variable ? a->value : hop_assignable_at(at, a->value);
    *out = v;
    if (!v.scope) {
        raise_status(hop_failed());
        return -1;
    }
    if (v.scope == a->value.scope && v.id == a->value.id) return 0;
    if (journal_variable(a)) return -1;
    a->value = v;
    a->variable = true;
    return 0;
}

int array_now(array_object *a, hop_place at, hop_val *out)
{
    if (array_here(a, at, out)) return -1;
    if (a->variable) *out = hop_current_at(at, *out);
    if (out->scope) return 0;
    raise_status(hop_failed());
    return -1;
}

/* A traced array of the capture at work holds another value. */
static int assign(array_object *a, PyObject *other)
{
    const array_object *b = as_array(other);
    struct operand given = { .array = other };
    hop_place at = user_place();
    hop_val here, v;
    if (operand_value(&given, at, &v) || array_here(a, at, &here)) return -1;
    v = hop_current_at(at, v);
    if (v.scope && !a->variable) {
        a->value = v;
        a->made = at;
        a->weak = b->weak;
        a->number = b->number;
        return 0;
    }
    if (v.scope && !hop_assign_at(at, here, v)) return 0;
    raise_status(hop_failed());
    return -1;
}

/* Why an array cannot be written here. */
enum refusal { WRITTEN, OF_ANOTHER_CAPTURE, FROM_OUTSIDE, OF_A_BODY_AROUND, OF_A_BODY_THAT_ENDED };
static enum refusal refusal_of(const array_object *a)
{
    const struct frame *f = frame_top();
    if (a->capture) return f && a->capture == f->serial ? WRITTEN : OF_ANOTHER_CAPTURE;
    if (!f || a->body == hop_body_number()) return WRITTEN;
    if (!a->body || a->born != frame_outermost()) return FROM_OUTSIDE;
    return hop_body_is_open(a->body) ? OF_A_BODY_AROUND : OF_A_BODY_THAT_ENDED;
}

/* _become(other): this array holds what the other one holds; what x[i] = y does. Gives 0, or why it cannot
 * (enum refusal). */
static PyObject *method_become(PyObject *self, PyObject *other)
{
    array_object *a = as_array(self), *b = is_array(other) ? as_array(other) : NULL;
    if (!b || a->dtype != b->dtype || a->rank != b->rank) {
        PyErr_SetString(PyExc_ValueError, "an array can only become one of its own type");
        return NULL;
    }
    if (a->capture && check_alive(a, user_place())) return NULL;
    const array_object *part = array_part(a);
    if (part && part != a)
        raise_invalid("a function of parts writes to an array from around, of which it has a part: give what "
                      "becomes of it as a result");
    if (part != a) return NULL;
    enum refusal why = refusal_of(a);
    if (why != WRITTEN) return PyLong_FromLong(why);
    if (b->capture && !a->capture && array_trace(self, user_place())) return NULL;
    if (a->capture) return assign(a, other) ? NULL : PyLong_FromLong(WRITTEN);
    hop_tensor *now = concrete_tensor(b), *old = concrete_tensor(a);
    if (!now || !old || journal_elements(a)) return NULL;
    a->weak = b->weak;
    a->tensor = hop_tensor_ref(now);
    a->memory = b->memory = (uint8_t)seen_twice(b);
    Py_CLEAR(a->origin);
    Py_CLEAR(a->base);
    Py_CLEAR(a->slices);
    hop_tensor_free(old);
    return PyLong_FromLong(WRITTEN);
}

/* trace_here(array): whether a concrete array that the body at work has made has become a value of it, so
 * that bodies inside may write to it */
static PyObject *trace_here(PyObject *self, PyObject *array)
{
    (void)self;
    const array_object *a = is_array(array) ? as_array(array) : NULL;
    bool ours = a && !a->capture && frame_top() && a->body == hop_body_number();
    if (ours && array_trace(array, user_place())) return NULL;
    return PyBool_FromLong(ours);
}

/* ---- signs ---- */

#define BINARY(name, code) \
    static PyObject *slot_##name(PyObject *x, PyObject *y) { return binary_slot(code, x, y); }
BINARY(add, OP_add)
BINARY(subtract, OP_sub)
BINARY(multiply, OP_mul)
BINARY(true_divide, OP_div)
BINARY(floor_divide, OP_floor_div)
BINARY(remainder, OP_mod)
BINARY(and, OP_and)
BINARY(or, OP_or)
BINARY(xor, OP_xor)
BINARY(lshift, OP_shift_left)
BINARY(rshift, OP_shift_right)
BINARY(matrix_multiply, OP_matmul)
static bool whole(PyObject *o)
{
    return is_array(o) ? dtype_rows[as_array(o)->dtype].kind != 'f' : PyLong_Check(o);
}
static PyObject *slot_power(PyObject *x, PyObject *y, PyObject *modulus)
{
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    if (whole(x) && whole(y)) { /* the library's power is one of real numbers */
        PyObject *ops = PyImport_ImportModule("hop._ops.elementwise");
        PyObject *r = ops ? PyObject_CallMethod(ops, "_integer_pow", "OO", x, y) : NULL;
        if (!r) hide_frames();
        Py_XDECREF(ops);
        return r;
    }
    return binary_slot(OP_pow, x, y);
}
static PyObject *slot_negative(PyObject *x) { return unary_slot(OP_neg, x); }
static PyObject *slot_absolute(PyObject *x) { return unary_slot(OP_abs, x); }
static PyObject *slot_invert(PyObject *x) { return unary_slot(OP_not, x); }
static PyObject *slot_positive(PyObject *x) { return method_alias(x, NULL); }
static PyObject *slot_compare(PyObject *x, PyObject *y, int how)
{
    static const int codes[] = {
        [Py_LT] = OP_lt, [Py_LE] = OP_le, [Py_EQ] = OP_eq, [Py_NE] = OP_ne, [Py_GT] = OP_gt, [Py_GE] = OP_ge
    };
    return binary_slot(codes[how], x, y);
}
static Py_ssize_t slot_length(PyObject *self)
{
    int64_t dims[MAX_RANK];
    const array_object *a = array_part(as_array(self));
    if (!a) return -1;
    if (!array_dims(a, dims)) {
        PyErr_SetString(PyExc_TypeError, "an array without axes has no len()");
        return -1;
    }
    if (dims[0] < 0) {
        PyObject *size = size_at(a, dims, 0), *n = NULL;
        if (size) n = size_fixed(size, "len() or iteration");
        Py_ssize_t length = n ? PyLong_AsSsize_t(n) : -1;
        Py_XDECREF(size);
        Py_XDECREF(n);
        return length;
    }
    return dims[0];
}

static PyMethodDef array_methods[] = {
    { "item", method_item, METH_NOARGS, "The only element, as a Python number." },
    { "tolist", method_tolist, METH_NOARGS, "The elements as nested lists of Python numbers." },
    { "_elements", array_method_elements, METH_NOARGS,
      "the array with the elements of a traced value; None: only a run knows them" },
    { "_view", method_view, METH_O, "a part in the same memory, by slices as text" },
    { "_reshaped", method_reshaped, METH_O, "the same elements under other sizes" },
    { "_bitcast", array_bitcast, METH_O, "the same bits as elements of another dtype" },
    { "_copy", method_copy, METH_NOARGS, "an array of its own" },
    { "_raw", method_raw, METH_NOARGS, "the same value, not weak, with the dtype that it has inside" },
    { "_marked", method_marked, METH_O,
      "_marked(number): the same value, weak; one that stands for a Python number" },
    { "_alias", method_alias, METH_NOARGS, "another array with the same elements, in the same memory" },
    { "_become", method_become, METH_O, "holds what the other array holds from now on; 0, or why it cannot" },
    { "_to_dlpack", array_to_dlpack, METH_VARARGS, "_to_dlpack(versioned, copied): a DLPack capsule" },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
    { Py_tp_dealloc, array_dealloc },
    { Py_tp_getset, getset },
    { Py_tp_methods, array_methods },
    { Py_tp_hash, PyObject_HashNotImplemented },
    { Py_tp_richcompare, slot_compare },
    { Py_nb_add, slot_add },
    { Py_nb_subtract, slot_subtract },
    { Py_nb_multiply, slot_multiply },
    { Py_nb_true_divide, slot_true_divide },
    { Py_nb_floor_divide, slot_floor_divide },
    { Py_nb_remainder, slot_remainder },
    { Py_nb_power, slot_power },
    { Py_nb_and, slot_and },
    { Py_nb_or, slot_or },
    { Py_nb_xor, slot_xor },
    { Py_nb_lshift, slot_lshift },
    { Py_nb_rshift, slot_rshift },
    { Py_nb_matrix_multiply, slot_matrix_multiply },
    { Py_nb_negative, slot_negative },
    { Py_nb_absolute, slot_absolute },
    { Py_nb_invert, slot_invert },
    { Py_nb_positive, slot_positive },
    { Py_nb_bool, slot_bool },
    { Py_nb_int, slot_int },
    { Py_nb_float, slot_float },
    { Py_nb_index, slot_index },
    { Py_mp_length, slot_length },
    { Py_bf_getbuffer, array_get_buffer },
    { Py_bf_releasebuffer, array_release_buffer },
    { 0, NULL },
};
static PyType_Spec spec = { "hop._core.ArrayBase", sizeof(array_object), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                            slots };

/* number(x): a Python number as an array that behaves as the number does */
static PyObject *number_of(PyObject *self, PyObject *x)
{
    (void)self;
    PyObject *a = is_number(x) ? number_array(x) : NULL;
    if (a) array_mark(as_array(a), true);
    else if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "expected a number");
    return a;
}

static PyMethodDef functions[] = {
    { "note_reads", note_reads, METH_O,
      "note_reads(list or None): where arrays are noted whose elements Python reads; gives the one before" },
    { "trace_here", trace_here, METH_O,
      "trace_here(array): whether a concrete array of the body at work became a value of it" },
    { "number", number_of, METH_O, "number(x): an array that behaves as the Python number does" },
    { NULL, NULL, 0, NULL },
};

int array_init(PyObject *module)
{
    array_base = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!array_base || PyModule_AddObjectRef(module, "ArrayBase", (PyObject *)array_base)) return 1;
    return PyModule_AddFunctions(module, functions) != 0;
}
