/* Elements: the dtypes, elements as Python numbers and lists, and arrays made of Python numbers. */
#include "core.h"

#include <math.h>

struct dtype_row dtype_rows[FIRST_KIND + MOST_KINDS] = {
    [DT_BOOL] = { "bool", '?', 1, 'b' }, [DT_I8] = { "i8", 'b', 1, 'i' },   [DT_I16] = { "i16", 'h', 2, 'i' },
    [DT_I32] = { "i32", 'i', 4, 'i' },   [DT_I64] = { "i64", 'q', 8, 'i' }, [DT_U8] = { "u8", 'B', 1, 'u' },
    [DT_U16] = { "u16", 'H', 2, 'u' },   [DT_U32] = { "u32", 'I', 4, 'u' }, [DT_U64] = { "u64", 'Q', 8, 'u' },
    [DT_F16] = { "f16", 'e', 2, 'f' },   [DT_BF16] = { "bf16", 0, 2, 'f' }, [DT_F32] = { "f32", 'f', 4, 'f' },
    [DT_F64] = { "f64", 'd', 8, 'f' },
};

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

/* ---- as Python numbers ---- */

PyObject *element_number(const char *p, int dtype)
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

PyObject *element_lists(const hop_tensor *t, const char *p, int axis, int dtype)
{
    if (axis == hop_tensor_rank(t)) return element_number(p, dtype);
    int64_t n = hop_tensor_dim(t, axis), step = hop_tensor_stride(t, axis) * dtype_rows[dtype].size;
    PyObject *list = PyList_New(n);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *o = element_lists(t, p + i * step, axis + 1, dtype);
        if (!o || PyList_SetItem(list, i, o)) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

/* ---- making from numbers ---- */

static int check_code(int code)
{
    if (code >= 0 && code < N_DTYPES) return 0;
    PyErr_SetString(PyExc_ValueError, "there is no such dtype");
    return -1;
}

int array_sizes(PyObject *o, int64_t *dims)
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
    rank = array_sizes(sizes, dims);
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
    rank = array_sizes(sizes, dims);
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

static PyMethodDef functions[] = {
    { "full", make_full, METH_VARARGS, "full(code, dims, number)" },
    { "from_numbers", from_numbers, METH_VARARGS, "from_numbers(code, dims, list)" },
    { "progression", make_progression, METH_VARARGS, "progression(code, n, start, step)" },
    { NULL, NULL, 0, NULL },
};

int elements_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
