/* Arrays: the base class of hop.Array and hop.Tracer with what must be quick or needs C: memory in and out
 * (buffer protocol, DLPack), elements as Python numbers, Python's signs for operators. Everything else about
 * arrays is Python. */
#include "core.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const struct dtype_row dtype_rows[N_DTYPES] = {
    [DT_BOOL] = { "bool", '?', 1, 'b' }, [DT_I8] = { "i8", 'b', 1, 'i' },   [DT_I16] = { "i16", 'h', 2, 'i' },
    [DT_I32] = { "i32", 'i', 4, 'i' },   [DT_I64] = { "i64", 'q', 8, 'i' }, [DT_U8] = { "u8", 'B', 1, 'u' },
    [DT_U16] = { "u16", 'H', 2, 'u' },   [DT_U32] = { "u32", 'I', 4, 'u' }, [DT_U64] = { "u64", 'Q', 8, 'u' },
    [DT_F16] = { "f16", 'e', 2, 'f' },   [DT_BF16] = { "bf16", 0, 2, 'f' }, [DT_F32] = { "f32", 'f', 4, 'f' },
    [DT_F64] = { "f64", 'd', 8, 'f' },
};

PyTypeObject *array_base;

int dtype_named(const char *name)
{
    for (int i = 0; i < N_DTYPES; i++)
        if (!strcmp(dtype_rows[i].name, name)) return i;
    return -1;
}

double half_to_double(uint16_t bits, bool bfloat)
{
    int digits = bfloat ? 7 : 10;
    int width = bfloat ? 8 : 5;
    int bias = bfloat ? 127 : 15;
    int exponent = (bits >> digits) & ((1 << width) - 1);
    int fraction = bits & ((1 << digits) - 1);
    double x;
    if (exponent == (1 << width) - 1) x = fraction ? NAN : INFINITY;
    else if (!exponent) x = ldexp(fraction, 1 - bias - digits);
    else x = ldexp(fraction + (1 << digits), exponent - bias - digits);
    return bits & 0x8000 ? -x : x;
}

/* To the nearest, ties to even. */
uint16_t double_to_half(double x, bool bfloat)
{
    int digits = bfloat ? 7 : 10;
    int bias = bfloat ? 127 : 15;
    int top = bfloat ? 255 : 31;
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x)) return (uint16_t)(sign | top << digits | 1 << (digits - 1));
    x = fabs(x);
    if (isinf(x)) return (uint16_t)(sign | top << digits);
    if (x == 0) return sign;
    int exponent;
    frexp(x, &exponent);
    int scale = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1; /* of the unit in front of the point */
    double units = nearbyint(ldexp(x, digits - scale));
    uint32_t bits = (uint32_t)units + ((uint32_t)(scale + bias - 1) << digits);
    if (bits >= (uint32_t)top << digits) bits = (uint32_t)top << digits;
    return (uint16_t)(sign | bits);
}

/* ---- making ---- */

static array_object *array_alloc(PyObject *class)
{
    array_object *a = (array_object *)PyType_GenericAlloc((PyTypeObject *)class, 0);
    return a;
}

PyObject *array_of_tensor(hop_tensor *t)
{
    array_object *a = t ? array_alloc(array_class) : NULL;
    if (!a) {
        hop_tensor_free(t);
        return t ? NULL : PyErr_NoMemory();
    }
    a->tensor = t;
    a->dtype = (int16_t)dtype_named(hop_tensor_dtype(t));
    a->rank = (int16_t)hop_tensor_rank(t);
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

/* "f32[3, T]": sizes that are no plain number are -1. */
static int read_type(const char *text, array_object *a)
{
    char name[8];
    int64_t dims[MAX_RANK];
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
        size_t length = strcspn(p, ",]");
        dims[rank++] = end == p + length ? size : -1;
        p += length;
        while (*p == ',' || *p == ' ') p++;
    }
    a->rank = (int16_t)rank;
    a->dims = PyMem_Malloc((size_t)(rank ? rank : 1) * sizeof *dims);
    if (!a->dims) return -1;
    memcpy(a->dims, dims, (size_t)rank * sizeof *dims);
    return a->dtype < 0 ? -1 : 0;
}

PyObject *array_of_value(hop_val v, hop_place at)
{
    array_object *a = array_alloc(tracer_class);
    if (!a) return NULL;
    a->capture = frame_top()->serial;
    a->value = v;
    a->made = at;
    const char *text = hop_type_text(v);
    if (!*text || read_type(text, a)) {
        Py_DECREF(a);
        return *text ? PyErr_NoMemory() : raise_status(hop_failed());
    }
    return (PyObject *)a;
}

static void array_dealloc(PyObject *self)
{
    array_object *a = as_array(self);
    PyTypeObject *type = Py_TYPE(self);
    hop_tensor_free(a->tensor);
    PyMem_Free(a->dims);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- asking ---- */

int array_dims(const array_object *a, int64_t *dims)
{
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

int array_type_text(const array_object *a, char text[256])
{
    int64_t dims[MAX_RANK];
    int rank = array_dims(a, dims), n = snprintf(text, 256, "%s[", dtype_rows[a->dtype].name);
    for (int i = 0; i < rank; i++) {
        const char *comma = i ? ", " : "";
        if (dims[i] < 0) n += snprintf(text + n, 256 - (size_t)n, "%s?", comma);
        else n += snprintf(text + n, 256 - (size_t)n, "%s%lld", comma, (long long)dims[i]);
    }
    snprintf(text + n, 256 - (size_t)n, "]");
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0) return -1;
    return 0;
}

hop_tensor *concrete_tensor(array_object *a)
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

static PyObject *get_shape(PyObject *self, void *unused)
{
    int64_t dims[MAX_RANK];
    int rank = array_dims(as_array(self), dims);
    PyObject *t = PyTuple_New(rank);
    (void)unused;
    for (int i = 0; t && i < rank; i++) {
        PyObject *n = dims[i] < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(dims[i]);
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
    PyObject *d = PyTuple_GetItem(dtype_objects, as_array(self)->dtype);
    return d ? Py_NewRef(d) : NULL;
}
static PyObject *get_ndim(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(as_array(self)->rank);
}
static PyObject *get_size(PyObject *self, void *unused)
{
    int64_t dims[MAX_RANK], n = 1;
    int rank = array_dims(as_array(self), dims);
    (void)unused;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0) Py_RETURN_NONE;
        n *= dims[i];
    }
    return PyLong_FromLongLong(n);
}
static PyObject *get_code(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(as_array(self)->dtype);
}
static PyObject *get_traced(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(as_array(self)->capture != 0);
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
    char text[256];
    (void)unused;
    array_type_text(as_array(self), text);
    return PyUnicode_FromString(text);
}
static PyObject *get_made(PyObject *self, void *unused)
{
    (void)unused;
    hop_place made = as_array(self)->made;
    return Py_BuildValue("(si)", made.file ? made.file : "", made.line);
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
    hop_tensor *t = concrete_tensor(as_array(self));
    return t ? PyLong_FromVoidPtr(hop_data(t)) : NULL;
}

static PyGetSetDef getset[] = {
    { "shape", get_shape, NULL, "the sizes, a tuple; None for one that only a run knows", NULL },
    { "dtype", get_dtype, NULL, "the dtype of the elements", NULL },
    { "ndim", get_ndim, NULL, "how many axes there are", NULL },
    { "size", get_size, NULL, "how many elements there are", NULL },
    { "_code", get_code, NULL, "the number of the dtype", NULL },
    { "_traced", get_traced, NULL, "whether this is a value of a capture", NULL },
    { "_weak", get_weak, NULL,
      "whether it was made of Python numbers alone and takes the dtype of arrays that it meets", NULL },
    { "_number", get_number, NULL, "whether it stands for a Python number", NULL },
    { "_type", get_type_text, NULL, "the type as text", NULL },
    { "_made", get_made, NULL, "where a traced value was made", NULL },
    { "_donated", get_deleted, NULL, "whether a call took the memory", NULL },
    { "_memory", get_memory, NULL, "0: its own, 1: others see it too, 2: read-only", NULL },
    { "_contiguous", get_contiguous, NULL, "whether the elements are in memory in row-major order", NULL },
    { "_pointer", get_pointer, NULL, "the address of the first element", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

/* ---- elements ---- */

static PyObject *element(const char *p, int dtype)
{
    union {
        uint8_t u8;
        int8_t i8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
        float f32;
        double f64;
    } v;
    memcpy(&v, p, dtype_rows[dtype].size);
    switch ((enum dtype)dtype) {
    case DT_BOOL: return PyBool_FromLong(v.u8);
    case DT_I8: return PyLong_FromLong(v.i8);
    case DT_I16: return PyLong_FromLong(v.i16);
    case DT_I32: return PyLong_FromLong(v.i32);
    case DT_I64: return PyLong_FromLongLong(v.i64);
    case DT_U8: return PyLong_FromLong(v.u8);
    case DT_U16: return PyLong_FromLong(v.u16);
    case DT_U32: return PyLong_FromUnsignedLong(v.u32);
    case DT_U64: return PyLong_FromUnsignedLongLong(v.u64);
    case DT_F16: return PyFloat_FromDouble(half_to_double(v.u16, false));
    case DT_BF16: return PyFloat_FromDouble(half_to_double(v.u16, true));
    case DT_F32: return PyFloat_FromDouble(v.f32);
    default: return PyFloat_FromDouble(v.f64);
    }
}

/* A Python number into memory; -1 and an exception when it does not fit. */
static int set_element(char *p, int dtype, PyObject *o)
{
    char kind = dtype_rows[dtype].kind;
    if (!PyNumber_Check(o)) {
        raise_invalid("expected a number, found %R", (PyObject *)Py_TYPE(o));
        return -1;
    }
    if (kind == 'f') {
        double x = PyFloat_AsDouble(o);
        if (x == -1 && PyErr_Occurred()) {
            if (!PyErr_ExceptionMatches(PyExc_TypeError) || is_array(o)) return -1;
            PyErr_Clear();
            raise_invalid("expected a number, found %R", (PyObject *)Py_TYPE(o));
            return -1;
        }
        if (dtype == DT_F64) memcpy(p, &x, 8);
        else if (dtype == DT_F32) memcpy(p, &(float){ (float)x }, 4);
        else memcpy(p, &(uint16_t){ double_to_half(x, dtype == DT_BF16) }, 2);
        return 0;
    }
    if (kind == 'b') {
        int truth = PyObject_IsTrue(o);
        if (truth < 0) return -1;
        *p = (char)truth;
        return 0;
    }
    if (PyFloat_Check(o) && !isfinite(PyFloat_AsDouble(o))) {
        raise_invalid("%R is no integer, so there is none for it in %s", o, dtype_rows[dtype].name);
        return -1;
    }
    PyObject *whole = PyFloat_Check(o) ? PyNumber_Long(o) : PyNumber_Index(o);
    if (!whole) return -1;
    int bits = 8 * dtype_rows[dtype].size, overflow = 0;
    uint64_t wide;
    bool fits;
    if (kind == 'u') {
        wide = PyLong_AsUnsignedLongLong(whole);
        fits = !PyErr_Occurred() && (bits == 64 || wide >> bits == 0);
    } else {
        int64_t n = PyLong_AsLongLongAndOverflow(whole, &overflow);
        fits = !overflow &&
               (bits == 64 || (n >= -((int64_t)1 << (bits - 1)) && n < (int64_t)1 << (bits - 1)));
        wide = (uint64_t)n;
    }
    Py_DECREF(whole);
    if (!fits) {
        char call[CALLED_SIZE];
        PyErr_Clear();
        PyErr_Format(PyExc_OverflowError, "%s%R does not fit into %s", user_call(call), o,
                     dtype_rows[dtype].name);
        return -1;
    }
    memcpy(p, &wide, dtype_rows[dtype].size); /* little-endian: the low bytes come first */
    return 0;
}

static PyObject *list_of(const hop_tensor *t, const char *p, int axis, int dtype)
{
    if (axis == hop_tensor_rank(t)) return element(p, dtype);
    int64_t n = hop_tensor_dim(t, axis), step = hop_tensor_stride(t, axis) * dtype_rows[dtype].size;
    PyObject *list = PyList_New(n);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *o = list_of(t, p + i * step, axis + 1, dtype);
        if (!o || PyList_SetItem(list, i, o)) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

static PyObject *method_tolist(PyObject *self, PyObject *unused)
{
    (void)unused;
    hop_tensor *t = concrete_tensor(as_array(self));
    if (!t) return NULL;
    hop_tensor_ref(t); /* making objects may run other code, which may give the array away */
    PyObject *list = list_of(t, hop_data(t), 0, as_array(self)->dtype);
    hop_tensor_free(t);
    return list;
}

static PyObject *only_element(PyObject *self, const char *instead)
{
    array_object *a = as_array(self);
    if (a->capture) {
        hop_place at = user_place();
        return raise_unknown("%s:%d: a traced value %s; it was made at %s:%d", at.file, at.line, instead,
                             a->made.file, a->made.line);
    }
    hop_tensor *t = concrete_tensor(a);
    if (!t) return NULL;
    if (hop_tensor_count(t) != 1) {
        char text[256];
        array_type_text(a, text);
        PyErr_Format(PyExc_TypeError, "only an array with one element can become a Python number, this is %s",
                     text);
        return NULL;
    }
    return element(hop_data(t), a->dtype);
}
static PyObject *method_item(PyObject *self, PyObject *unused)
{
    (void)unused;
    return only_element(self, "has no elements yet: item() needs a number that is known while the program is "
                              "captured");
}

static int slot_bool(PyObject *self)
{
    array_object *a = as_array(self);
    if (a->tensor && hop_tensor_count(a->tensor) != 1) {
        char text[256];
        array_type_text(a, text);
        PyErr_Format(PyExc_ValueError,
                     "the truth of an array with %s elements is ambiguous (%s): use hop.any or hop.all",
                     hop_tensor_count(a->tensor) ? "several" : "no", text);
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

/* ---- memory in ---- */

struct buffer_keeper {
    Py_buffer view;
};
static void release_buffer(void *ctx)
{
    struct buffer_keeper *k = ctx;
    if (!Py_IsInitialized()) return; /* the interpreter is gone, and with it who lent the memory */
    PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(&k->view);
    PyMem_Free(k);
    PyGILState_Release(state);
}

static int dtype_of_format(const char *format, Py_ssize_t size)
{
    if (!format) format = "B";
    if (*format == '@' || *format == '=' || *format == '<') format++;
    if (!*format || format[1]) return -1;
    char c = *format;
    bool is_signed = strchr("bhilqn", c), is_unsigned = strchr("BHILQN", c);
    if (c == '?') return DT_BOOL;
    if (c == 'e') return DT_F16;
    if (c == 'f') return DT_F32;
    if (c == 'd') return DT_F64;
    for (int i = 0; i < N_DTYPES; i++) {
        char kind = dtype_rows[i].kind;
        bool fits = (is_signed && kind == 'i') || (is_unsigned && kind == 'u');
        if (fits && dtype_rows[i].size == size) return i;
    }
    return -1;
}

static void raise_format(const char *format)
{
    static const struct {
        const char *begins, *what;
    } kinds[] = {
        { "T{", "they are records; take one field of them, a['name']" },
        { "O", "they are Python objects; give the array a dtype of numbers, a.astype('float32')" },
        { "Z", "they are complex numbers, which hop does not have" },
        { "g", "they are long doubles; a.astype('float64') converts them" },
        { ">", "their bytes stand in the order of other machines; a.astype(a.dtype.newbyteorder('=')) "
               "converts them" },
    };
    const char *what = "they are no numbers";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strncmp(format, kinds[i].begins, strlen(kinds[i].begins))) what = kinds[i].what;
    char call[CALLED_SIZE];
    PyErr_Format(PyExc_TypeError, "%sthere is no dtype for elements of the format '%s': %s", user_call(call),
                 format, what);
}

static PyObject *method_bitcast(PyObject *self, PyObject *code);
/* An array whose elements the buffer protocol cannot describe: bfloat16 is looked at as uint16, of others the
 * error names the dtype. */
static PyObject *array_beyond_buffers(PyObject *o, int copy)
{
    PyObject *type, *value, *trace, *made = NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *dtype = PyObject_GetAttrString(o, "dtype");
    PyObject *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
    PyErr_Clear();
    if (!name || !PyUnicode_Check(name)) {
        PyErr_Restore(type, value, trace);
    } else {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
        bool is_bfloat = !PyUnicode_CompareWithASCIIString(name, "bfloat16");
        if (!is_bfloat) raise_invalid("there is no dtype for elements of %U", name);
        PyObject *bits = is_bfloat ? PyObject_CallMethod(o, "view", "s", "u2") : NULL;
        PyObject *raw = bits ? array_from_buffer(bits, copy) : NULL;
        PyObject *code = raw ? PyLong_FromLong(DT_BF16) : NULL;
        if (code) made = method_bitcast(raw, code);
        Py_XDECREF(code);
        Py_XDECREF(raw);
        Py_XDECREF(bits);
    }
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    return made;
}

/* A masked array of NumPy's shows its elements as if there were no mask. */
static int refuse_masked(PyObject *o)
{
    static PyObject *plain; /* the last class without a mask, strong */
    PyObject *class = (PyObject *)Py_TYPE(o);
    if (class == plain) return 0;
    if (!PyObject_HasAttrString(class, "mask") || !PyObject_HasAttrString(class, "filled")) {
        PyObject *old = plain;
        plain = Py_NewRef(class);
        Py_XDECREF(old);
        return 0;
    }
    PyObject *mask = PyObject_GetAttrString(o, "mask");
    PyObject *any = mask ? PyObject_CallMethod(mask, "any", NULL) : NULL;
    int masked = any ? PyObject_IsTrue(any) : -1;
    Py_XDECREF(any);
    Py_XDECREF(mask);
    if (masked > 0)
        raise_invalid("some elements are masked, and hop has no masks: a.filled(value) gives a plain array, "
                      "hop.where(a.mask, other, a.data) chooses");
    return masked ? -1 : 0;
}

PyObject *array_from_buffer(PyObject *o, int copy)
{
    if (!PyObject_CheckBuffer(o) || refuse_masked(o)) return NULL;
    struct buffer_keeper *k = PyMem_Calloc(1, sizeof *k);
    if (!k) return PyErr_NoMemory();
    if (PyObject_GetBuffer(o, &k->view, PyBUF_RECORDS_RO)) {
        PyMem_Free(k);
        return array_beyond_buffers(o, copy);
    }
    Py_buffer *v = &k->view;
    hop_tensor *t = NULL;
    int dtype = dtype_of_format(v->format, v->itemsize), status = HOP_OK;
    if (dtype < 0 || v->ndim > MAX_RANK || v->itemsize != dtype_rows[dtype].size) {
        if (dtype < 0 || v->itemsize != dtype_rows[dtype].size) raise_format(v->format ? v->format : "B");
        else
            PyErr_Format(PyExc_ValueError, "an array has at most %d axes, this one has %d", MAX_RANK,
                         v->ndim);
        goto failed;
    }
    int64_t dims[MAX_RANK], strides[MAX_RANK], expected = v->itemsize;
    bool usable = (uintptr_t)v->buf % (size_t)v->itemsize == 0, row_major = true;
    for (int i = v->ndim; i-- > 0;) {
        dims[i] = v->shape ? v->shape[i] : v->len / v->itemsize;
        /* Some leave strides out where memory is row-major, though asked for them. */
        Py_ssize_t stride = v->strides ? v->strides[i] : expected;
        usable &= stride % v->itemsize == 0;
        strides[i] = stride / v->itemsize;
        row_major &= dims[i] <= 1 || stride == expected;
        expected *= dims[i];
    }
    const char *name = dtype_rows[dtype].name;
    if (copy == 1 || (copy < 0 && !usable)) {
        status = hop_tensor_new_dims(&t, name, dims, v->ndim);
        if (!status && v->len && PyBuffer_ToContiguous(hop_data(t), v, v->len, 'C')) goto failed;
    } else if (!usable) {
        PyErr_SetString(
            PyExc_ValueError,
            "the memory is not aligned to its elements, so it must be copied (copy=False was asked for)");
        goto failed;
    } else if (row_major) {
        status = hop_tensor_borrow_dims(&t, name, dims, v->ndim, v->buf, release_buffer, k);
        if (!status) return array_of_shared(t, v->readonly ? READ_ONLY : SHARED);
    } else {
        char type[256];
        array_object like = { .dtype = (int16_t)dtype, .rank = (int16_t)v->ndim, .dims = dims };
        array_type_text(&like, type);
        status = hop_tensor_strided(&t, type, v->buf, strides, release_buffer, k);
        if (!status) return array_of_shared(t, v->readonly ? READ_ONLY : SHARED);
    }
    PyBuffer_Release(v);
    PyMem_Free(k);
    return status ? raise_status(status) : array_of_tensor(t);
failed:
    hop_tensor_free(t);
    PyBuffer_Release(v);
    PyMem_Free(k);
    return NULL;
}

static PyObject *unmasked(PyObject *self, PyObject *o)
{
    (void)self;
    return refuse_masked(o) ? NULL : Py_NewRef(o);
}

static PyObject *from_buffer(PyObject *self, PyObject *args)
{
    PyObject *o;
    int copy;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oi", &o, &copy)) return NULL;
    PyObject *a = array_from_buffer(o, copy);
    if (a || PyErr_Occurred()) return a;
    Py_RETURN_NONE;
}

/* ---- making from numbers ---- */

static int check_code(int code)
{
    if (code >= 0 && code < N_DTYPES) return 0;
    PyErr_SetString(PyExc_ValueError, "there is no such dtype");
    return -1;
}

static int read_dims(PyObject *o, int64_t *dims)
{
    Py_ssize_t n = PySequence_Size(o);
    if (n < 0) return -1;
    if (n > MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "an array has at most %d axes, given %zd sizes", MAX_RANK, n);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(o, i);
        dims[i] = item ? PyLong_AsLongLong(item) : -1;
        Py_XDECREF(item);
        if (dims[i] == -1 && PyErr_Occurred()) return -1;
        if (dims[i] < 0) {
            PyErr_Format(PyExc_ValueError, "a size is negative: %lld", (long long)dims[i]);
            return -1;
        }
    }
    return (int)n;
}

/* full(code, dims, number) */
static PyObject *make_full(PyObject *self, PyObject *args)
{
    int code, rank;
    PyObject *sizes, *value;
    int64_t dims[MAX_RANK];
    hop_tensor *t = NULL;
    char one[8] = { 0 };
    (void)self;
    if (!PyArg_ParseTuple(args, "iOO", &code, &sizes, &value) || check_code(code)) return NULL;
    rank = read_dims(sizes, dims);
    if (rank < 0 || set_element(one, code, value)) return NULL;
    int status = hop_tensor_new_dims(&t, dtype_rows[code].name, dims, rank);
    if (status) return raise_status(status);
    int64_t n = hop_tensor_count(t);
    size_t size = dtype_rows[code].size;
    bool zero = true;
    for (size_t i = 0; i < size; i++) zero &= !one[i];
    char *data = hop_data(t);
    for (int64_t i = 0; !zero && i < n; i++) memcpy(data + (size_t)i * size, one, size);
    return array_of_tensor(t);
}

/* from_numbers(code, dims, sequence of numbers in row-major order) */
static PyObject *from_numbers(PyObject *self, PyObject *args)
{
    int code, rank;
    PyObject *sizes, *numbers;
    int64_t dims[MAX_RANK];
    hop_tensor *t = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "iOO!", &code, &sizes, &PyList_Type, &numbers) || check_code(code))
        return NULL;
    rank = read_dims(sizes, dims);
    if (rank < 0) return NULL;
    int status = hop_tensor_new_dims(&t, dtype_rows[code].name, dims, rank);
    if (status) return raise_status(status);
    int64_t n = hop_tensor_count(t);
    char *data = hop_data(t);
    for (int64_t i = 0; i < n; i++) {
        char *to = data + (size_t)i * dtype_rows[code].size;
        bool same_number = n == PyList_Size(numbers); /* making a number may run code that changes the list */
        if (same_number && !set_element(to, code, PyList_GetItem(numbers, i))) continue;
        hop_tensor_free(t);
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "the number of elements does not agree with the sizes");
        return NULL;
    }
    return array_of_tensor(t);
}

static void fill_progression(hop_tensor *t, int code, double start, double step, int64_t whole,
                             int64_t whole_step)
{
    int64_t n = hop_tensor_count(t);
    char *data = hop_data(t);
    for (int64_t i = 0; i < n; i++) {
        char *p = data + (size_t)i * dtype_rows[code].size;
        double x = start + (double)i * step;
        uint64_t k = (uint64_t)whole + (uint64_t)i * (uint64_t)whole_step;
        if (code == DT_F64) memcpy(p, &x, 8);
        else if (code == DT_F32) memcpy(p, &(float){ (float)x }, 4);
        else if (dtype_rows[code].kind == 'f')
            memcpy(p, &(uint16_t){ double_to_half(x, code == DT_BF16) }, 2);
        else memcpy(p, &k, dtype_rows[code].size);
    }
}

/* progression(code, n, start, step): start + i*step, computed in f64 or in integers and rounded once */
static PyObject *make_progression(PyObject *self, PyObject *args)
{
    int code;
    long long n, whole = 0, whole_step = 0;
    PyObject *start, *step;
    double x = 0, by = 0;
    hop_tensor *t = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "iLOO", &code, &n, &start, &step) || check_code(code)) return NULL;
    if (dtype_rows[code].kind == 'f') {
        x = PyFloat_AsDouble(start);
        by = PyFloat_AsDouble(step);
    } else {
        whole = PyLong_AsLongLong(start);
        whole_step = PyLong_AsLongLong(step);
    }
    if (PyErr_Occurred()) return NULL;
    int64_t dims[1] = { n < 0 ? 0 : n };
    int status = hop_tensor_new_dims(&t, dtype_rows[code].name, dims, 1);
    if (status) return raise_status(status);
    fill_progression(t, code, x, by, whole, whole_step);
    return array_of_tensor(t);
}

/* ---- views ---- */

static PyObject *method_view(PyObject *self, PyObject *slices)
{
    hop_tensor *t = concrete_tensor(as_array(self)), *v = NULL;
    const char *text = t ? text_or_null(slices) : NULL;
    if (!text) return NULL;
    int status = hop_tensor_view(&v, t, text);
    return status ? raise_status(status) : weak_as(array_of_shared(v, seen_twice(as_array(self))), self);
}

static void release_tensor(void *ctx) { hop_tensor_free(ctx); }

/* The same elements under other sizes, in the same memory where it is row-major. */
static PyObject *method_reshaped(PyObject *self, PyObject *sizes)
{
    hop_tensor *t = concrete_tensor(as_array(self)), *whole = NULL, *v = NULL;
    int64_t dims[MAX_RANK], n = 1;
    int rank = t ? read_dims(sizes, dims) : -1, status = HOP_OK;
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
    status = hop_tensor_borrow_dims(&v, hop_tensor_dtype(t), dims, rank, hop_data(whole), release_tensor,
                                    whole);
    if (status) {
        hop_tensor_free(whole);
        return raise_status(status);
    }
    return weak_as(array_of_shared(v, own ? OWN : seen_twice(as_array(self))), self);
}

/* The same bits as elements of another dtype of the same size. */
static PyObject *method_bitcast(PyObject *self, PyObject *code)
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
    status = hop_tensor_borrow_dims(&v, dtype_rows[k].name, dims, rank, hop_data(whole), release_tensor,
                                    whole);
    if (status) {
        hop_tensor_free(whole);
        return raise_status(status);
    }
    return array_of_shared(v, own ? OWN : seen_twice(as_array(self)));
}

static PyObject *method_copy(PyObject *self, PyObject *unused)
{
    hop_tensor *t = concrete_tensor(as_array(self)), *v = NULL;
    (void)unused;
    if (!t) return NULL;
    int status = hop_tensor_copy(&v, t);
    return status ? raise_status(status) : weak_as(array_of_tensor(v), self);
}

/* Another array with the same elements: x[i] = y on the one does not concern the other. */
static PyObject *method_alias(PyObject *self, PyObject *unused)
{
    array_object *a = as_array(self);
    (void)unused;
    if (!a->capture) {
        hop_tensor *t = concrete_tensor(a);
        return t ? weak_as(array_of_shared(hop_tensor_ref(t), seen_twice(a)), self) : NULL;
    }
    array_object *b = array_alloc(tracer_class);
    if (!b) return NULL;
    b->capture = a->capture;
    b->value = a->value;
    b->made = a->made;
    b->dtype = a->dtype;
    b->rank = a->rank;
    b->weak = a->weak;
    b->number = a->number;
    b->dims = PyMem_Malloc((size_t)(a->rank ? a->rank : 1) * sizeof *b->dims);
    if (!b->dims) {
        Py_DECREF(b);
        return PyErr_NoMemory();
    }
    memcpy(b->dims, a->dims, (size_t)a->rank * sizeof *b->dims);
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

/* What x[i] = y does: this array holds what the other one holds. */
static PyObject *method_become(PyObject *self, PyObject *other)
{
    array_object *a = as_array(self), *b = is_array(other) ? as_array(other) : NULL;
    if (b && a->capture != b->capture) {
        hop_place at = user_place();
        if (a->capture)
            return raise_tracer("%s:%d: x[i] = y: x was made at %s:%d, in another function that is being "
                                "captured: give it to this one as an argument, and return x.at[i].set(y)",
                                at.file, at.line, a->made.file, a->made.line);
        return raise_tracer(
            "%s:%d: x[i] = y: x is an array from outside of the function that is being captured, which "
            "cannot change it: give it as an argument, and return x.at[i].set(y)",
            at.file, at.line);
    }
    if (!b || a->dtype != b->dtype || a->rank != b->rank) {
        PyErr_SetString(PyExc_ValueError, "an array can only become one of its own type");
        return NULL;
    }
    a->weak = b->weak;
    if (a->capture) {
        a->value = b->value;
        a->made = b->made;
        a->number = b->number;
    } else {
        hop_tensor *old = a->tensor;
        a->tensor = hop_tensor_ref(b->tensor);
        a->memory = b->memory = (uint8_t)seen_twice(b);
        hop_tensor_free(old);
    }
    Py_RETURN_NONE;
}

/* ---- memory out ---- */

struct exported {
    Py_ssize_t numbers[2 * MAX_RANK];
    char format[2];
    hop_tensor *tensor;
};

static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    array_object *a = as_array(self);
    hop_tensor *t = concrete_tensor(a);
    const struct dtype_row *row = &dtype_rows[a->dtype];
    view->obj = NULL;
    if (!t) return -1;
    if (!row->format) {
        PyErr_SetString(
            PyExc_BufferError,
            "the buffer protocol has no format for bfloat16: use x.astype(hop.float32), or DLPack");
        return -1;
    }
    if (a->memory == READ_ONLY && flags & PyBUF_WRITABLE) {
        PyErr_SetString(
            PyExc_BufferError,
            "the memory of this array is read-only: a copy can be written (hop.asarray(x, copy=True))");
        return -1;
    }
    bool strided = !hop_tensor_is_contiguous(t);
    if (strided && (flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
        PyErr_SetString(PyExc_BufferError, "the array is not row-major, and the reader asked for no strides");
        return -1;
    }
    struct exported *e = PyMem_Calloc(1, sizeof *e);
    if (!e) {
        PyErr_NoMemory();
        return -1;
    }
    e->format[0] = row->format;
    for (int i = 0; i < a->rank; i++) {
        e->numbers[i] = hop_tensor_dim(t, i);
        e->numbers[MAX_RANK + i] = hop_tensor_stride(t, i) * row->size;
    }
    e->tensor = hop_tensor_ref(t); /* x[i] = y may replace the array's tensor meanwhile */
    *view = (Py_buffer){ .buf = hop_data(t),
                         .obj = Py_NewRef(self),
                         .len = (Py_ssize_t)hop_tensor_count(t) * row->size,
                         .itemsize = row->size,
                         .readonly = a->memory == READ_ONLY,
                         .ndim = a->rank,
                         .format = flags & PyBUF_FORMAT ? e->format : NULL,
                         .shape = flags & PyBUF_ND ? e->numbers : NULL,
                         .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? e->numbers + MAX_RANK : NULL,
                         .internal = e };
    return 0;
}
static void release_export(PyObject *self, Py_buffer *view)
{
    struct exported *e = view->internal;
    (void)self;
    hop_tensor_free(e->tensor);
    PyMem_Free(e);
}

/* The parts of DLPack's structs that a holder of one must know. */
struct dl_tensor {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};
struct DLManagedTensor {
    struct dl_tensor tensor;
    void *manager;
    void (*deleter)(struct DLManagedTensor *);
};
struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    struct dl_tensor tensor;
};
enum dlpack_flags { DLPACK_READ_ONLY = 1, DLPACK_IS_COPIED = 2 };

static void drop_capsule(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, "dltensor")) return;
    struct DLManagedTensor *m = PyCapsule_GetPointer(capsule, "dltensor");
    if (m && m->deleter) m->deleter(m);
}
static void drop_versioned(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) return;
    struct DLManagedTensorVersioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (m && m->deleter) m->deleter(m);
}

/* _to_dlpack(versioned, copied) */
static PyObject *to_dlpack(PyObject *self, PyObject *args)
{
    hop_tensor *t = concrete_tensor(as_array(self));
    int status, versioned, copied;
    if (!t || !PyArg_ParseTuple(args, "pp", &versioned, &copied)) return NULL;
    bool read_only = as_array(self)->memory == READ_ONLY;
    if (versioned) {
        struct DLManagedTensorVersioned *m = NULL;
        if ((status = hop_tensor_to_dlpack_versioned(&m, t))) return raise_status(status);
        if (read_only) m->flags |= DLPACK_READ_ONLY;
        if (copied) m->flags |= DLPACK_IS_COPIED;
        PyObject *capsule = PyCapsule_New(m, "dltensor_versioned", drop_versioned);
        if (!capsule) m->deleter(m);
        return capsule;
    }
    if (read_only) {
        PyErr_SetString(PyExc_BufferError, "the memory of this array is read-only, which DLPack can say from "
                                           "version 1.0 on: ask for max_version=(1, 0), or for a copy");
        return NULL;
    }
    struct DLManagedTensor *m = NULL;
    if ((status = hop_tensor_to_dlpack(&m, t))) return raise_status(status);
    PyObject *capsule = PyCapsule_New(m, "dltensor", drop_capsule);
    if (!capsule) m->deleter(m);
    return capsule;
}

static PyObject *from_dlpack(PyObject *self, PyObject *capsule)
{
    hop_tensor *t = NULL;
    const char *there; /* where the elements are, if they are not copied */
    int status;
    (void)self;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        struct DLManagedTensorVersioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        there = m->major == 1 ? (const char *)m->tensor.data + m->tensor.byte_offset : NULL;
        if ((status = hop_tensor_from_dlpack_versioned(&t, m))) return raise_status(status);
        PyCapsule_SetName(capsule, "used_dltensor_versioned");
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        struct DLManagedTensor *m = PyCapsule_GetPointer(capsule, "dltensor");
        there = (const char *)m->tensor.data + m->tensor.byte_offset;
        if ((status = hop_tensor_from_dlpack(&t, m))) return raise_status(status);
        PyCapsule_SetName(capsule, "used_dltensor");
    } else {
        PyErr_SetString(PyExc_TypeError, "expected a DLPack capsule that nobody has used yet");
        return NULL;
    }
    return array_of_shared(t, hop_data(t) == there ? SHARED : OWN);
}

/* ---- files ---- */

static PyObject *load_file(PyObject *self, PyObject *args)
{
    const char *path;
    hop_file *f = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "s", &path)) return NULL;
    int status = hop_file_open(&f, path);
    if (status) return raise_status(status);
    PyObject *all = PyDict_New();
    for (int i = 0; all && i < hop_file_count(f); i++) {
        hop_tensor *t = NULL;
        status = hop_file_load(&t, f, *hop_file_name(f, i) ? hop_file_name(f, i) : NULL);
        PyObject *a = status ? raise_status(status) : array_of_tensor(t);
        if (!a || PyDict_SetItemString(all, hop_file_name(f, i), a)) Py_CLEAR(all);
        Py_XDECREF(a);
    }
    hop_file_free(f);
    return all;
}

static PyObject *save_file(PyObject *self, PyObject *args)
{
    const char *path;
    PyObject *names, *arrays;
    (void)self;
    if (!PyArg_ParseTuple(args, "sO!O!", &path, &PyTuple_Type, &names, &PyTuple_Type, &arrays)) return NULL;
    Py_ssize_t n = PyTuple_Size(names);
    const char **texts = PyMem_Calloc((size_t)n + 1, sizeof *texts);
    hop_tensor **tensors = PyMem_Calloc((size_t)n + 1, sizeof *tensors);
    bool good = texts && tensors && n == PyTuple_Size(arrays);
    for (Py_ssize_t i = 0; good && i < n; i++) {
        PyObject *a = PyTuple_GetItem(arrays, i);
        texts[i] = text_or_null(PyTuple_GetItem(names, i));
        good = texts[i] && is_array(a) && (tensors[i] = concrete_tensor(as_array(a)));
    }
    bool alone = good && n == 1 && !*texts[0]; /* one array without a name */
    int status = HOP_OK;
    if (alone) status = hop_save(tensors[0], path);
    else if (good) status = hop_save_many(path, texts, tensors, (int)n);
    PyMem_Free(texts);
    PyMem_Free(tensors);
    if (status) return raise_status(status);
    if (good) Py_RETURN_NONE;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "expected as many arrays as names");
    return NULL;
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
    if (!array_dims(as_array(self), dims)) {
        PyErr_SetString(PyExc_TypeError, "an array without axes has no len()");
        return -1;
    }
    if (dims[0] < 0) {
        hop_place at = user_place();
        raise_unknown("%s:%d: len() and iteration need a length that is known while the program is captured; "
                      "that of this axis is known only when the program runs",
                      at.file, at.line);
        return -1;
    }
    return dims[0];
}

static PyMethodDef array_methods[] = {
    { "item", method_item, METH_NOARGS, "The only element, as a Python number." },
    { "tolist", method_tolist, METH_NOARGS, "The elements as nested lists of Python numbers." },
    { "_view", method_view, METH_O, "a part in the same memory, by slices as text" },
    { "_reshaped", method_reshaped, METH_O, "the same elements under other sizes" },
    { "_bitcast", method_bitcast, METH_O, "the same bits as elements of another dtype" },
    { "_copy", method_copy, METH_NOARGS, "an array of its own" },
    { "_raw", method_raw, METH_NOARGS, "the same value, not weak, with the dtype that it has inside" },
    { "_marked", method_marked, METH_O,
      "_marked(number): the same value, weak; one that stands for a Python number" },
    { "_alias", method_alias, METH_NOARGS, "another array with the same elements, in the same memory" },
    { "_become", method_become, METH_O, "holds what the other array holds from now on" },
    { "_to_dlpack", to_dlpack, METH_VARARGS, "_to_dlpack(versioned, copied): a DLPack capsule" },
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
    { Py_bf_getbuffer, get_buffer },
    { Py_bf_releasebuffer, release_export },
    { 0, NULL },
};
static PyType_Spec spec = { "hop._core.ArrayBase", sizeof(array_object), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                            slots };

static PyMethodDef functions[] = {
    { "from_buffer", from_buffer, METH_VARARGS,
      "from_buffer(o, copy): an array over the memory of o, None if it has none to show; copy is 1, 0 or -1 "
      "(where needed)" },
    { "unmasked", unmasked, METH_O, "unmasked(o): o, which must not be an array with masked elements" },
    { "full", make_full, METH_VARARGS, "full(code, dims, number)" },
    { "from_numbers", from_numbers, METH_VARARGS, "from_numbers(code, dims, list)" },
    { "progression", make_progression, METH_VARARGS, "progression(code, n, start, step)" },
    { "from_dlpack", from_dlpack, METH_O, "from_dlpack(capsule)" },
    { "load_file", load_file, METH_VARARGS, "load_file(path): a dict of arrays" },
    { "save_file", save_file, METH_VARARGS, "save_file(path, names, arrays)" },
    { NULL, NULL, 0, NULL },
};

int array_init(PyObject *module)
{
    array_base = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!array_base || PyModule_AddObjectRef(module, "ArrayBase", (PyObject *)array_base)) return 1;
    return PyModule_AddFunctions(module, functions) != 0;
}
