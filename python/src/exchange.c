/* Arrays of hop and of others: memory in and out by the buffer protocol and DLPack, without a copy where that
 * is possible, and tensor files. */
#include "core.h"

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
        if (code) made = array_bitcast(raw, code);
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

static PyObject *array_of_buffer(PyObject *o, int copy)
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
        char type[TYPE_TEXT];
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

PyObject *array_from_buffer(PyObject *o, int copy)
{
    PyObject *a = array_of_buffer(o, copy);
    if (frame_top()) array_set_origin(a, o);
    return a;
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

/* ---- memory out ---- */

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
struct exported {
    Py_ssize_t numbers[2 * MAX_RANK];
    char format[2];
    struct DLManagedTensor *lent; /* holds the tensor, and says that others may write to it */
};

int array_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    array_object *a = as_array(self);
    view->obj = NULL;
    if (a->capture && array_may_cut(a)) { /* NumPy asks for __array__ then, which knows what it is for */
        PyErr_SetString(PyExc_BufferError, "a traced value has no memory: use numpy.asarray, or tolist()");
        return -1;
    }
    hop_tensor *t = concrete_tensor(a);
    const struct dtype_row *row = &dtype_rows[a->dtype];
    view->obj = NULL;
    if (!t) return -1;
    array_note_read(a);
    if (refuse_object(a, "the memory of elements")) return -1;
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
    int status = hop_tensor_to_dlpack(&e->lent, t); /* x[i] = y may replace the array's tensor meanwhile */
    if (status) {
        PyMem_Free(e);
        raise_status(status);
        return -1;
    }
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
void array_release_buffer(PyObject *self, Py_buffer *view)
{
    struct exported *e = view->internal;
    (void)self;
    e->lent->deleter(e->lent);
    PyMem_Free(e);
}

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
PyObject *array_to_dlpack(PyObject *self, PyObject *args)
{
    hop_tensor *t = concrete_tensor(as_array(self));
    int status, versioned, copied;
    if (!t || !PyArg_ParseTuple(args, "pp", &versioned, &copied)) return NULL;
    array_note_read(as_array(self));
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
        good = texts[i] && is_array(a) && (tensors[i] = any_tensor(as_array(a)));
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

static PyMethodDef functions[] = {
    { "from_buffer", from_buffer, METH_VARARGS,
      "from_buffer(o, copy): an array over the memory of o, None if it has none to show; copy is 1, 0 or -1 "
      "(where needed)" },
    { "unmasked", unmasked, METH_O, "unmasked(o): o, which must not be an array with masked elements" },
    { "from_dlpack", from_dlpack, METH_O, "from_dlpack(capsule)" },
    { "load_file", load_file, METH_VARARGS, "load_file(path): a dict of arrays" },
    { "save_file", save_file, METH_VARARGS, "save_file(path, names, arrays)" },
    { NULL, NULL, 0, NULL },
};

int exchange_init(PyObject *module) { return PyModule_AddFunctions(module, functions) != 0; }
