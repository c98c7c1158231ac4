/* Executables: their runs, the arrays that those take and give, and what they keep and measure. */
#include "bodies.h"

PyTypeObject *exe_type;

/* ---- running ---- */

static void print_line(void *ctx, const char *line, size_t length)
{
    (void)ctx;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *out = PySys_GetObject("stdout");
    PyObject *text = PyUnicode_DecodeUTF8(line, (Py_ssize_t)length, "replace");
    if (out && out != Py_None && text && !PyFile_WriteObject(text, out, Py_PRINT_RAW))
        PyFile_WriteString("\n", out);
    Py_XDECREF(text);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
}

static int run_once(const exe_object *e, hop_tensor **in, hop_tensor **out, const int64_t *dims)
{
    hop_run_options o = { .print = print_line, .dims = dims, .keep = e->keep };
    bool ours = signals_begin(&o.cancel, &o.confirm);
    int status;
    Py_BEGIN_ALLOW_THREADS status = hop_run_with(e->exe, in, e->n_in, out, e->n_out, &o);
    Py_END_ALLOW_THREADS signals_end(ours);
    return status;
}

enum { FEW = 32 };

/* A run holds what it reads, because other threads may change or give away arrays meanwhile. Tensors of
 * donors leave their arrays at once, so that nobody gives them away twice; memory that others see too gets a
 * second reference, by which the library knows to copy it: `shared` says which. Without donated parameters it
 * is NULL. */
static void hold(hop_tensor **in, PyObject **arrays, const uint8_t *donated, bool *shared, int n)
{
    for (int i = 0; i < n; i++) {
        array_object *donor = donated && donated[i] ? as_array(arrays[i]) : NULL;
        if (donated) shared[i] = donor && donor->memory != OWN;
        if (!donor || shared[i]) hop_tensor_ref(in[i]);
        if (donor) array_give_away(donor);
    }
}

/* After a run that failed, donors have their tensors again unless what they hold may have been overwritten.
 */
static void let_go(hop_tensor **in, PyObject **arrays, const uint8_t *donated, const bool *shared, int n,
                   int status)
{
    bool untouched = status == HOP_INVALID;
    for (int i = 0; i < n; i++) {
        array_object *donor = donated && donated[i] ? as_array(arrays[i]) : NULL;
        bool second = donor && shared[i];
        if (!donor || second) hop_tensor_free(in[i]);
        if (!donor || !status || donor->tensor == in[i]) continue; /* the last: it was given twice */
        if ((untouched || second) && !donor->tensor) donor->tensor = in[i];
        else hop_tensor_free(in[i]);
    }
}

static PyObject *result_array(const exe_object *e, hop_tensor *t, int i)
{
    PyObject *a = array_of_tensor(t);
    if (a && e->weak && e->weak[i]) array_mark(as_array(a), false);
    return a;
}

/* dims: values of declared sizes, NULL: there are none. */
static PyObject *run_with_dims(const exe_object *e, hop_tensor **in, PyObject **arrays, bool always_list,
                               const int64_t *dims)
{
    hop_tensor *few[FEW], **out = few;
    bool few_shared[FEW], *shared = few_shared;
    PyObject *answer = NULL;
    int status;
    if (e->n_out > FEW) out = PyMem_Calloc((size_t)e->n_out, sizeof *out);
    if (e->donated && e->n_in > FEW) shared = PyMem_Calloc((size_t)e->n_in, sizeof *shared);
    if (!out || !shared) {
        PyErr_NoMemory();
        goto done;
    }
    hold(in, arrays, e->donated, shared, e->n_in);
    memset(out, 0, (size_t)e->n_out * sizeof *out);
    status = run_once(e, in, out, dims);
    let_go(in, arrays, e->donated, shared, e->n_in, status);
    if (status) {
        bool refused = status == HOP_INVALID && e->updated && !PyErr_Occurred();
        if (refused) raise_invalid("%s", hop_message()); /* two arguments in the same memory */
        else raise_status(status);
        goto done;
    }
    answer = e->n_out == 1 && !always_list ? result_array(e, out[0], 0) : PyList_New(e->n_out);
    for (int i = 0; answer && (e->n_out != 1 || always_list) && i < e->n_out; i++) {
        PyObject *a = result_array(e, out[i], i);
        if (a && !PyList_SetItem(answer, i, a)) continue;
        for (int k = i + 1; k < e->n_out; k++) hop_tensor_free(out[k]);
        Py_CLEAR(answer);
    }
done:
    if (out != few) PyMem_Free(out);
    if (shared != few_shared) PyMem_Free(shared);
    return answer;
}

PyObject *run_tensors(const exe_object *e, hop_tensor **in, PyObject **arrays, bool always_list)
{
    return run_with_dims(e, in, arrays, always_list, NULL);
}

/* Arrays are values: what others see of this one's memory must not change. */
static int make_own(array_object *a)
{
    hop_tensor *t = concrete_tensor(a), *own = NULL;
    if (!t) return -1;
    if (a->memory == OWN && !hop_tensor_is_shared(t)) return 0;
    int status = hop_tensor_copy(&own, t);
    if (status) {
        raise_status(status);
        return -1;
    }
    a->tensor = own;
    a->memory = OWN;
    hop_tensor_free(t);
    return 0;
}

int prepare_updates(const exe_object *e, PyObject **arrays)
{
    for (int i = 0; i < e->n_in; i++) {
        array_object *a = e->updated[i] ? as_array(arrays[i]) : NULL;
        if (a && a->lent && a->memory != SHARED) return 1;
        if (a && !a->lent && make_own(a)) return -1;
    }
    return 0;
}

/* lend(buffer): an array for a call that updates it, in the memory of the buffer; None: there is none */
static PyObject *lend(PyObject *self, PyObject *o)
{
    (void)self;
    PyObject *a = array_from_buffer(o, -1);
    if (a) as_array(a)->lent = true;
    return a || PyErr_Occurred() ? a : Py_NewRef(Py_None);
}

/* Values of declared sizes from a tuple of integers; -1 and an exception. *out NULL: there are none. */
static int read_dims(PyObject *tuple, int n, int64_t **out)
{
    Py_ssize_t given = tuple ? PyTuple_Size(tuple) : 0;
    *out = NULL;
    if (given != n) {
        PyErr_Format(PyExc_TypeError, "the program has %d declared sizes, given %zd", n, given);
        return -1;
    }
    if (!n) return 0;
    if (!(*out = PyMem_Calloc((size_t)n, sizeof **out))) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < n; i++) (*out)[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (!PyErr_Occurred()) return 0;
    PyMem_Free(*out);
    return -1;
}

/* run(arrays, dims=()) -> list */
static PyObject *exe_run(PyObject *self, PyObject *args)
{
    exe_object *e = (exe_object *)self;
    PyObject *given, *sizes = NULL;
    if (!PyArg_ParseTuple(args, "O|O!", &given, &PyTuple_Type, &sizes)) return NULL;
    PyObject *list = PySequence_List(given), *answer = NULL, *few_arrays[FEW], **arrays = few_arrays;
    hop_tensor *few[FEW], **in = few;
    Py_ssize_t n = list ? PyList_Size(list) : 0;
    int64_t *dims = NULL;
    if (!list) return NULL;
    if (read_dims(sizes, e->n_dims, &dims)) goto done;
    if (n != e->n_in) {
        PyErr_Format(PyExc_TypeError, "the program takes %d arrays, given %zd", e->n_in, n);
        goto done;
    }
    if (n > FEW) {
        in = PyMem_Calloc((size_t)n, sizeof *in);
        arrays = PyMem_Calloc((size_t)n, sizeof *arrays);
        if (!in || !arrays) {
            PyErr_NoMemory();
            goto done;
        }
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        arrays[i] = PyList_GetItem(list, i);
        if (!is_array(arrays[i])) {
            PyErr_Format(PyExc_TypeError, "expected an array, found %R", Py_TYPE(arrays[i]));
            goto done;
        }
    }
    if (e->updated && prepare_updates(e, arrays)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "an argument cannot be updated");
        goto done;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (!(in[i] = any_tensor(as_array(arrays[i])))) goto done;
    answer = run_with_dims(e, in, arrays, true, dims);
done:
    PyMem_Free(dims);
    if (in != few) PyMem_Free(in);
    if (arrays != few_arrays) PyMem_Free(arrays);
    Py_DECREF(list);
    return answer;
}

PyObject *interpret(hop_fn *fn, PyObject *args)
{
    PyObject *given, *sizes = NULL;
    if (!PyArg_ParseTuple(args, "O|O!", &given, &PyTuple_Type, &sizes)) return NULL;
    int64_t *dims;
    if (read_dims(sizes, hop_fn_dims(fn), &dims)) return NULL;
    PyObject *list = PySequence_List(given), *answer = NULL;
    int n = list ? (int)PyList_Size(list) : 0, n_out = hop_fn_results(fn), status;
    if (!list) {
        PyMem_Free(dims);
        return NULL;
    }
    hop_tensor **in = PyMem_Calloc((size_t)(n + n_out) + 1, sizeof *in), **out = in ? in + n : NULL;
    for (int i = 0; in && i < n; i++) {
        PyObject *a = PyList_GetItem(list, i);
        if (!is_array(a) || !(in[i] = any_tensor(as_array(a)))) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "expected arrays");
            goto done;
        }
    }
    if (!in) {
        PyErr_NoMemory();
        goto done;
    }
    hop_run_options o = { .print = print_line, .dims = dims };
    hold(in, NULL, NULL, NULL, n);
    bool ours = signals_begin(&o.cancel, &o.confirm);
    Py_BEGIN_ALLOW_THREADS status = hop_interpret_with(fn, in, n, out, n_out, &o);
    Py_END_ALLOW_THREADS signals_end(ours);
    let_go(in, NULL, NULL, NULL, n, status);
    if (status) {
        raise_status(status);
        goto done;
    }
    answer = PyList_New(n_out);
    for (int i = 0; i < n_out; i++) {
        PyObject *a = answer ? array_of_tensor(out[i]) : NULL;
        if (!answer) hop_tensor_free(out[i]);
        else if (!a || PyList_SetItem(answer, i, a)) Py_CLEAR(answer);
    }
done:
    PyMem_Free(dims);
    PyMem_Free(in);
    Py_DECREF(list);
    return answer;
}

/* ---- what is kept, profiles ---- */

/* kept(): (values, bytes, how often they were made) of what is kept from constants */
static PyObject *exe_kept(PyObject *self, PyObject *unused)
{
    hop_kept kept;
    (void)unused;
    int status;
    hop_exe *exe = ((exe_object *)self)->exe; /* a run may have the lock, and wait for the interpreter's */
    Py_BEGIN_ALLOW_THREADS status = hop_exe_kept(&kept, exe);
    Py_END_ALLOW_THREADS if (status) return raise_status(status);
    return Py_BuildValue("KKK", (unsigned long long)kept.values, (unsigned long long)kept.bytes,
                         (unsigned long long)kept.made);
}

static PyObject *exe_refresh(PyObject *self, PyObject *unused)
{
    (void)unused;
    int status;
    hop_exe *exe = ((exe_object *)self)->exe;
    Py_BEGIN_ALLOW_THREADS status = hop_exe_refresh(exe);
    Py_END_ALLOW_THREADS return status ? raise_status(status) : Py_NewRef(Py_None);
}

static PyObject *exe_profile_begin(PyObject *self, PyObject *interval)
{
    exe_object *e = (exe_object *)self;
    double seconds = PyFloat_AsDouble(interval);
    if (seconds == -1.0 && PyErr_Occurred()) return NULL;
    int status = hop_profile_start(&e->profile, e->exe, seconds);
    if (status) return raise_status(status);
    Py_RETURN_NONE;
}

static PyObject *exe_profile_end(PyObject *self, PyObject *unused)
{
    static const char *const forms[] = { "table", "json", "svg", "folded" };
    enum { FORMS = sizeof forms / sizeof *forms };
    exe_object *e = (exe_object *)self;
    hop_profile *profile = e->profile;
    char *texts[FORMS] = { NULL };
    int status;
    (void)unused;
    e->profile = NULL;
    Py_BEGIN_ALLOW_THREADS status = hop_profile_stop(profile);
    for (int i = 0; i < FORMS && !status; i++) status = hop_profile_text(&texts[i], profile, forms[i]);
    hop_profile_free(profile);
    Py_END_ALLOW_THREADS PyObject *all = NULL;
    if (status) raise_status(status);
    else all = Py_BuildValue("ssss", texts[0], texts[1], texts[2], texts[3]);
    for (int i = 0; i < FORMS; i++) hop_text_free(texts[i]);
    return all;
}

/* ---- the type ---- */

static int exe_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((exe_object *)self)->callbacks);
    return 0;
}
static int exe_clear(PyObject *self)
{
    Py_CLEAR(((exe_object *)self)->callbacks);
    return 0;
}
static void exe_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    hop_profile_free(((exe_object *)self)->profile);
    hop_exe_free(((exe_object *)self)->exe);
    PyMem_Free(((exe_object *)self)->donated);
    PyMem_Free(((exe_object *)self)->updated);
    PyMem_Free(((exe_object *)self)->weak);
    exe_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef exe_methods[] = {
    { "profile_begin", exe_profile_begin, METH_O, "profile_begin(interval): 0, the usual" },
    { "profile_end", exe_profile_end, METH_NOARGS, "profile_end() -> (table, JSON, SVG, folded stacks)" },
    { "run", exe_run, METH_VARARGS, "run(arrays, dims=()) -> list" },
    { "kept", exe_kept, METH_NOARGS, "kept() -> (values, bytes, how often they were made)" },
    { "refresh", exe_refresh, METH_NOARGS, "refresh(): what is kept is made anew by the next run" },
    { NULL, NULL, 0, NULL }
};
static PyType_Slot exe_slots[] = { { Py_tp_dealloc, exe_dealloc },
                                   { Py_tp_traverse, exe_traverse },
                                   { Py_tp_clear, exe_clear },
                                   { Py_tp_methods, exe_methods },
                                   { 0, NULL } };
static PyType_Spec exe_spec = { "hop._core.Executable", sizeof(exe_object), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                exe_slots };

static PyMethodDef functions[] = {
    { "lend", lend, METH_O, "lend(buffer): an array in its memory, for a call that updates it; or None" },
    { NULL, NULL, 0, NULL },
};

int exe_init(PyObject *module)
{
    exe_type = (PyTypeObject *)PyType_FromSpec(&exe_spec);
    if (!exe_type || PyModule_AddObjectRef(module, "Executable", (PyObject *)exe_type)) return -1;
    return PyModule_AddFunctions(module, functions);
}
