/* Captures of Python functions, and the functions that come of them: asked, transformed, compiled, called.
 * What runs the executables is exe.c. */
#include "bodies.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the stack of captures of a thread ---- */

static _Thread_local struct frame *top;
static uint64_t serials;

struct frame *frame_top(void) { return top; }
struct frame *frame_set(struct frame *f)
{
    struct frame *before = top;
    top = f;
    return before;
}
int frame_keep(struct frame *f, PyObject *callback)
{
    if (!f->callbacks && !(f->callbacks = PyList_New(0))) return -1;
    for (Py_ssize_t i = PyList_Size(f->callbacks); i-- > 0;)
        if (PyList_GetItem(f->callbacks, i) == callback) return 0;
    return PyList_Append(f->callbacks, callback);
}

bool frame_alive(uint64_t serial)
{
    for (const struct frame *f = top; f; f = f->outer)
        if (f->serial == serial) return true;
    return false;
}

static struct frame *frame_root(void)
{
    struct frame *f = top;
    while (f && f->outer) f = f->outer;
    return f;
}

uint64_t frame_outermost(void)
{
    const struct frame *root = frame_root();
    return root ? root->serial : 0;
}

int64_t frame_hint(const char *symbol)
{
    const struct frame *root = frame_root();
    PyObject *n = root && root->hints ? PyDict_GetItemString(root->hints, symbol) : NULL;
    return n ? PyLong_AsLongLong(n) : -1;
}

int frame_constrain(const char *text)
{
    struct frame *root = frame_root();
    PyObject *o = PyUnicode_FromString(text);
    int known = o ? PySequence_Contains(root->constraints, o) : -1;
    int failed = known ? known < 0 : PyList_Append(root->constraints, o);
    Py_XDECREF(o);
    return failed ? -1 : 0;
}

static PyObject *tracing(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyBool_FromLong(top != NULL);
}

/* capture_place(): (file, line) at which the innermost capture was begun */
static PyObject *capture_place(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    hop_place at = top ? top->at : (hop_place){ "", 0 };
    return Py_BuildValue("(si)", at.file ? at.file : "", at.line);
}

/* made_here(array): whether the body at work has made it */
static PyObject *made_here(PyObject *self, PyObject *o)
{
    (void)self;
    const array_object *a = is_array(o) ? as_array(o) : NULL;
    uint64_t body = a && a->capture ? a->value.scope : 0;
    if (a && !a->capture) body = a->body;
    return PyBool_FromLong(a && top && body == hop_body_number());
}

/* traced_here(array): whether it is a value of the innermost capture */
static PyObject *traced_here(PyObject *self, PyObject *o)
{
    (void)self;
    return PyBool_FromLong(top && is_array(o) && as_array(o)->capture == top->serial);
}

/* ---- functions ---- */

typedef struct {
    PyObject_HEAD hop_fn *fn;
    PyObject *callbacks; /* list: what the program calls; NULL: nothing */
} function_object;
static PyTypeObject *function_type;

PyObject *function_new(hop_fn *fn, PyObject *callbacks)
{
    function_object *f = (function_object *)PyType_GenericAlloc(function_type, 0);
    if (!f) {
        hop_fn_free(fn);
        return NULL;
    }
    f->fn = fn;
    f->callbacks = Py_XNewRef(callbacks);
    return (PyObject *)f;
}
static PyObject *callbacks_of(PyObject *self) { return ((function_object *)self)->callbacks; }
static PyObject *function_json(PyObject *self, PyObject *unused)
{
    char *text = NULL;
    (void)unused;
    int status = hop_fn_json(&text, ((function_object *)self)->fn);
    if (status) return raise_status(status);
    PyObject *given = PyUnicode_FromString(text);
    hop_text_free(text);
    return given;
}
static PyObject *function_effect(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(hop_fn_effect(((function_object *)self)->fn));
}
static PyObject *function_callbacks(PyObject *self, void *unused)
{
    (void)unused;
    return callbacks_of(self) ? PyList_AsTuple(callbacks_of(self)) : PyTuple_New(0);
}
int function_called(PyObject *o, hop_fn **out)
{
    *out = NULL;
    if (!PyObject_TypeCheck(o, function_type)) {
        PyErr_SetString(PyExc_TypeError, "expected a captured function");
        return -1;
    }
    *out = ((function_object *)o)->fn;
    PyObject *callbacks = callbacks_of(o);
    for (Py_ssize_t i = 0; top && callbacks && i < PyList_Size(callbacks); i++)
        if (frame_keep(top, PyList_GetItem(callbacks, i))) return -1;
    return 0;
}
static int function_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((function_object *)self)->callbacks);
    return 0;
}
static int function_clear(PyObject *self)
{
    Py_CLEAR(((function_object *)self)->callbacks);
    return 0;
}
static void function_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    hop_fn_free(((function_object *)self)->fn);
    function_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static void frame_drop(struct frame *f)
{
    live_end(f);
    PyMem_Free(f->values);
    PyMem_Free(f->params);
    Py_XDECREF(f->given);
    Py_XDECREF(f->unknown);
    Py_XDECREF(f->hidden);
    Py_XDECREF(f->callbacks);
    Py_XDECREF(f->constraints);
}

/* The parameters of a capture, for the library. */
struct parameters {
    hop_param *list;
    PyObject **kept; /* what holds the texts of each */
    Py_ssize_t n;
};
static void parameters_drop(struct parameters *p)
{
    for (Py_ssize_t i = 0; i < p->n; i++) {
        Py_XDECREF(p->kept[2 * i]);
        Py_XDECREF(p->kept[2 * i + 1]);
    }
    PyMem_Free(p->list);
    PyMem_Free(p->kept);
}

/* Where a distributed array lies, as its type says it, without an axis (-1: with all), or with one more in
 * front. -1: an exception, as it is cut along that axis. */
static int layout_without(const array_object *a, long without, PyObject *over, char *text, size_t room)
{
    size_t n = (size_t)snprintf(text, room, "@(%s)(", hop_tensor_mesh(a->tensor));
    for (const char *p = hop_tensor_placements(a->tensor); *p && n < room;) {
        size_t length = strcspn(p, " ");
        const char *comma = text[n - 1] == '(' ? "" : ", ";
        bool cut = *p >= '0' && *p <= '9';
        long axis = cut ? strtol(p, NULL, 10) : -1;
        if (cut && axis == without) {
            raise_invalid(
                "axis %ld of the array is cut over the mesh (%s): batch over another one, or inside of "
                "hop.shard_map",
                axis, hop_tensor_mesh(a->tensor));
            return -1;
        }
        axis += (over != NULL) - (without >= 0 && axis > without);
        if (cut) n += (size_t)snprintf(text + n, room - n, "%s%ld", comma, axis);
        else n += (size_t)snprintf(text + n, room - n, "%s%.*s", comma, (int)length, p);
        p += length + (p[length] == ' ');
    }
    if (n < room) snprintf(text + n, room - n, ")");
    return 0;
}

/* The type of a concrete array, without an axis (-1: with all), or with one more of this size (NULL: none),
 * as a text. */
static PyObject *concrete_type(array_object *a, long without, PyObject *over)
{
    int64_t dims[MAX_RANK];
    int rank = array_dims(a, dims);
    char text[MAX_RANK * 22 + 16 + LAYOUT_TEXT];
    if (!any_tensor(a)) return NULL;
    if (dtype_is_object(a->dtype)) {
        if (without >= 0 || over)
            return raise_invalid("there are no arrays of objects, found %s", dtype_rows[a->dtype].name);
        return PyUnicode_FromString(dtype_rows[a->dtype].name);
    }
    int n = snprintf(text, sizeof text, "%s[", dtype_rows[a->dtype].name);
    for (int i = 0, shown = 0; i < rank; i++) {
        if (i == without) continue;
        const char *comma = shown++ ? ", " : "";
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", comma, (long long)dims[i]);
    }
    n += snprintf(text + n, sizeof text - (size_t)n, "]");
    if (a->spread && layout_without(a, without, over, text + n, sizeof text - (size_t)n)) return NULL;
    if (!over) return PyUnicode_FromString(text);
    const char *name = dtype_rows[a->dtype].name;
    return PyUnicode_FromFormat("%s[%U%s%s", name, over, rank ? ", " : "", text + strlen(name) + 1);
}

/* What says the type of a parameter: a text, an array that has it, or such an array and an axis that is left
 * out, or the size of one more leading axis, a text; behind these the name of an axis along which it varies,
 * which whoever calls holds. */
static int read_parameter(PyObject *given, hop_param *p, PyObject **kept, hop_place at)
{
    PyObject *like = given, *over = NULL;
    long axis = -1;
    if (PyTuple_Check(given) && PyTuple_Size(given) == 3) {
        p->varying = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(given, 2), NULL);
        if (!p->varying) return -1;
    }
    if (PyTuple_Check(given) && PyTuple_Size(given) >= 2) {
        like = PyTuple_GetItem(given, 0);
        over = PyUnicode_Check(PyTuple_GetItem(given, 1)) ? PyTuple_GetItem(given, 1) : NULL;
        axis = over ? -1 : PyLong_AsLong(PyTuple_GetItem(given, 1));
        if (axis == -1 && PyErr_Occurred()) return -1;
    }
    if (PyUnicode_Check(like)) {
        *kept = Py_NewRef(like);
        return (p->type = PyUnicode_AsUTF8AndSize(like, NULL)) ? 0 : -1;
    }
    if (!is_array(like)) {
        PyErr_SetString(PyExc_TypeError,
                        "the type of a parameter is a text, an array, or an array and an axis");
        return -1;
    }
    array_object *a = array_part(as_array(like));
    if (!a) return -1;
    if (!a->capture) {
        *kept = concrete_type(a, axis, over);
        return *kept && (p->type = PyUnicode_AsUTF8AndSize(*kept, NULL)) ? 0 : -1;
    }
    if (check_alive(a, at)) return -1;
    if (array_now(a, at, &p->like)) return -1;
    if (over) {
        *kept = Py_NewRef(over);
        return (p->over = PyUnicode_AsUTF8AndSize(over, NULL)) ? 0 : -1;
    }
    if (axis < 0) return 0;
    *kept = PyUnicode_FromFormat("%ld", axis);
    return *kept && (p->without = PyUnicode_AsUTF8AndSize(*kept, NULL)) ? 0 : -1;
}

static int read_parameters(PyObject *names, PyObject *types, hop_place at, struct parameters *p)
{
    p->n = PyList_Size(types);
    p->list = PyMem_Calloc((size_t)p->n + 1, sizeof *p->list);
    p->kept = PyMem_Calloc(2 * (size_t)p->n + 1, sizeof(PyObject *));
    if (!p->list || !p->kept || PyList_Size(names) != p->n) {
        if (p->list && p->kept) PyErr_SetString(PyExc_ValueError, "expected a name and a type per parameter");
        else PyErr_NoMemory();
        p->n = 0;
        return -1;
    }
    for (Py_ssize_t i = 0; i < p->n; i++) {
        PyObject *name = Py_NewRef(PyList_GetItem(names, i));
        p->kept[2 * i] = name;
        p->list[i].name = PyUnicode_AsUTF8AndSize(name, NULL);
        if (!p->list[i].name) return -1;
        if (read_parameter(PyList_GetItem(types, i), &p->list[i], &p->kept[2 * i + 1], at)) return -1;
    }
    return 0;
}

/* Where the exception that is set is another library's answer to this one, this one. */
static void raise_cause(PyObject *unknown)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *cause = value ? PyException_GetCause(value) : NULL;
    if (cause && cause == unknown) {
        PyErr_SetObject((PyObject *)Py_TYPE(unknown), unknown);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    } else PyErr_Restore(type, value, trace);
    Py_XDECREF(cause);
}

/* (Function, arrays used from outside, texts about sizes) of a capture that ended with a status. */
static PyObject *captured(struct frame *f, hop_fn *fn, int status)
{
    if (!status && f->unknown) {
        PyErr_SetObject((PyObject *)Py_TYPE(f->unknown), f->unknown);
        hop_fn_free(fn);
        status = BODY_RAISED;
    }
    if (status == BODY_RAISED && f->unknown) raise_cause(f->unknown);
    PyObject *made = status ? raise_status(status) : function_new(fn, f->callbacks);
    PyObject *hidden = made ? PyList_AsTuple(f->hidden) : NULL;
    PyObject *constraints = hidden ? PyList_AsTuple(f->constraints) : NULL;
    PyObject *all = constraints ? PyTuple_Pack(3, made, hidden, constraints) : NULL;
    Py_XDECREF(made);
    Py_XDECREF(hidden);
    Py_XDECREF(constraints);
    return all;
}

/* capture(fun, name, names, types, hints=None, written=None, cut=None): fun on traced values of these types
 * -> (Function, arrays it uses from outside, which are further arguments, texts about the sizes that it was
 * made for). types: lists of texts, of arrays whose types they are, of (array, axis that is left out, or the
 * size of one more as a text, and perhaps the name of an axis along which it varies). hints: a dict, sizes of
 * symbols of the parameters in the call at hand. written: a list of concrete arrays from outside that fun may
 * write to: what they become are results behind the others. cut: see struct frame; types are the operands
 * then. */
PyObject *function_capture(PyObject *self, PyObject *args)
{
    const char *name;
    struct body b = { .n_out = -1 };
    PyObject *names, *types, *hints = Py_None, *cut = Py_None;
    struct parameters params = { 0 };
    (void)self;
    if (!PyArg_ParseTuple(args, "OsO!O!|OO!O", &b.fun, &name, &PyList_Type, &names, &PyList_Type, &types,
                          &hints, &PyList_Type, &b.written, &cut))
        return NULL;
    if (hints != Py_None && !PyDict_Check(hints)) {
        PyErr_SetString(PyExc_TypeError, "hints: expected a dict");
        return NULL;
    }
    struct frame f = { .outer = top, .at = user_place(), .hints = hints == Py_None ? NULL : hints };
    hop_fn *fn = NULL;
    PyObject *all = NULL;
    size_t journal = journal_mark();
    if (cut != Py_None) {
        f.cut = cut;
        f.given = Py_NewRef(types);
    }
    f.hidden = PyList_New(0);
    f.constraints = PyList_New(0);
    if (f.hidden && f.constraints && !read_parameters(names, types, f.at, &params)) {
        b.n_in = (int)params.n;
        b.params = params.list;
        f.serial = ++serials;
        top = &f;
        int status = hop_capture_params_at(f.at, &fn, name, params.list, b.n_in, HOP_ANY, run_body, &b);
        top = f.outer;
        all = captured(&f, fn, status);
        if (all) journal_end(journal, f.serial, b.written);
        else journal_undo(journal);
    }
    parameters_drop(&params);
    frame_drop(&f);
    return all;
}

static PyObject *read_function(PyObject *self, PyObject *args)
{
    const char *text, *name = NULL;
    hop_fn *fn = NULL;
    PyObject *called = NULL; /* list: what it keeps alive */
    (void)self;
    if (!PyArg_ParseTuple(args, "s|zO!", &text, &name, &PyList_Type, &called)) return NULL;
    int status = hop_fn_read(&fn, text, name);
    return status ? raise_status(status) : function_new(fn, called && PyList_Size(called) ? called : NULL);
}

/* What follows waits for a run of the same program where that has no native code, and the run may wait for
 * the GIL to call a callback: so without the GIL. */
static PyObject *function_text(PyObject *self, PyObject *unused)
{
    (void)unused;
    const char *text;
    Py_BEGIN_ALLOW_THREADS text = hop_fn_text(((function_object *)self)->fn);
    Py_END_ALLOW_THREADS return text ? PyUnicode_FromString(text) : raise_status(HOP_INTERNAL);
}
static PyObject *function_remarks(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyUnicode_FromString(hop_fn_remarks(((function_object *)self)->fn));
}

/* Texts of a function's parts; types without the axes along which they vary, which the whole text shows. */
static PyObject *texts_of(hop_fn *fn, int n, const char *(*type)(hop_fn *, int))
{
    PyObject *t = PyTuple_New(n);
    for (int i = 0; t && i < n; i++) {
        const char *text;
        Py_BEGIN_ALLOW_THREADS text = type(fn, i);
        Py_END_ALLOW_THREADS size_t length = !text                        ? 0
                                             : strncmp(text, "object", 6) ? strcspn(text, "{")
                                                                          : strlen(text);
        PyObject *o = text ? PyUnicode_FromStringAndSize(text, (Py_ssize_t)length)
                           : raise_status(HOP_INTERNAL);
        if (!o || PyTuple_SetItem(t, i, o)) Py_CLEAR(t);
    }
    return t;
}
static PyObject *function_requires(PyObject *self, void *unused)
{
    hop_fn *fn = ((function_object *)self)->fn;
    (void)unused;
    return texts_of(fn, hop_fn_requires(fn), hop_fn_require_text);
}
static PyObject *function_params(PyObject *self, void *unused)
{
    hop_fn *fn = ((function_object *)self)->fn;
    (void)unused;
    return texts_of(fn, hop_fn_params(fn), hop_fn_param_type);
}
static PyObject *function_results(PyObject *self, void *unused)
{
    hop_fn *fn = ((function_object *)self)->fn;
    (void)unused;
    return texts_of(fn, hop_fn_results(fn), hop_fn_result_type);
}

static PyObject *function_name(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(hop_fn_name(((function_object *)self)->fn));
}
static PyObject *names_of(hop_fn *fn, int n, const char *(*name)(const hop_fn *, int))
{
    PyObject *t = PyTuple_New(n);
    for (int i = 0; t && i < n; i++) {
        PyObject *text = PyUnicode_FromString(name(fn, i));
        if (!text || PyTuple_SetItem(t, i, text)) Py_CLEAR(t);
    }
    return t;
}
static PyObject *function_names(PyObject *self, void *unused)
{
    hop_fn *fn = ((function_object *)self)->fn;
    (void)unused;
    return names_of(fn, hop_fn_params(fn), hop_fn_param_name);
}
static PyObject *function_dims(PyObject *self, void *unused)
{
    hop_fn *fn = ((function_object *)self)->fn;
    (void)unused;
    return names_of(fn, hop_fn_dims(fn), hop_fn_dim_name);
}
static PyObject *function_updated(PyObject *self, void *unused)
{
    hop_fn *fn = ((function_object *)self)->fn;
    (void)unused;
    PyObject *numbers = PyList_New(0);
    for (int i = 0; numbers && i < hop_fn_params(fn); i++) {
        PyObject *number = hop_fn_param_is_mut(fn, i) ? PyLong_FromLong(i) : NULL;
        if (number && PyList_Append(numbers, number)) Py_CLEAR(numbers);
        Py_XDECREF(number);
    }
    PyObject *tuple = numbers ? PyList_AsTuple(numbers) : NULL;
    Py_XDECREF(numbers);
    return tuple;
}

/* A transform begins and ends: without the GIL, and ended by a handler that raises. */
struct transform {
    PyThreadState *state;
    bool ours;
};
static struct transform transform_begin(void)
{
    const volatile int *cancel;
    int (*confirm)(void *ctx);
    struct transform t = { .ours = signals_begin(&cancel, &confirm) };
    if (t.ours) hop_cancel_by(cancel, confirm, NULL);
    t.state = PyEval_SaveThread();
    return t;
}
static void transform_end(struct transform t)
{
    PyEval_RestoreThread(t.state);
    if (t.ours) hop_cancel_by(NULL, NULL, NULL);
    signals_end(t.ours);
}

static hop_status debug_nans(hop_fn **out, hop_fn *f, const char *unused)
{
    (void)unused;
    return hop_debug_nans(out, f, 0);
}
static hop_status debug_nans_and_infinities(hop_fn **out, hop_fn *f, const char *unused)
{
    (void)unused;
    return hop_debug_nans(out, f, 1);
}

/* transform(name, text=None, text2=None, axis_name=None) */
static PyObject *function_transform(PyObject *self, PyObject *args)
{
    static const struct {
        const char *name;
        hop_status (*make)(hop_fn **, hop_fn *, const char *);
    } transforms[] = { { "grad", hop_grad },
                       { "value_and_grad", hop_value_and_grad },
                       { "vjp", hop_vjp },
                       { "jvp", hop_jvp },
                       { "linear_transpose", hop_linear_transpose },
                       { "jacfwd", hop_jacfwd },
                       { "jacrev", hop_jacrev },
                       { "hessian", hop_hessian },
                       { "debug_nans", debug_nans },
                       { "debug_nans_and_infinities", debug_nans_and_infinities } };
    const char *name, *text = NULL, *text2 = NULL, *axis_name = NULL;
    hop_fn *fn = ((function_object *)self)->fn, *made = NULL;
    int status = HOP_INVALID;
    if (!PyArg_ParseTuple(args, "s|zzz", &name, &text, &text2, &axis_name)) return NULL;
    if (!strcmp(name, "vmap")) {
        struct transform t = transform_begin();
        status = hop_vmap_axis(&made, fn, text, text2, axis_name);
        transform_end(t);
        return status ? raise_status(status) : function_new(made, callbacks_of(self));
    }
    if (!strcmp(name, "probes") || !strcmp(name, "perturb")) {
        unsigned flags = text2 ? HOP_STACKED : 0;
        struct transform t = transform_begin();
        status = *name == 'p' && name[1] == 'r' ? hop_probes(&made, fn, text, flags)
                                                : hop_perturb(&made, fn, text, flags);
        transform_end(t);
        return status ? raise_status(status) : function_new(made, callbacks_of(self));
    }
    for (size_t i = 0; i < sizeof transforms / sizeof *transforms; i++)
        if (!strcmp(name, transforms[i].name)) {
            struct transform t = transform_begin();
            status = transforms[i].make(&made, fn, text);
            transform_end(t);
            return status ? raise_status(status) : function_new(made, callbacks_of(self));
        }
    PyErr_Format(PyExc_ValueError, "there is no transform '%s'", name);
    return NULL;
}

/* Names of what probes or perturb has added, in order. */
static PyObject *function_probe_names(PyObject *self, PyObject *unused)
{
    const hop_fn *fn = ((function_object *)self)->fn;
    (void)unused;
    PyObject *names = PyList_New(hop_fn_probes(fn));
    for (int i = 0; names && i < hop_fn_probes(fn); i++) {
        PyObject *name = PyUnicode_FromString(hop_fn_probe_name(fn, i));
        if (!name) Py_CLEAR(names);
        else PyList_SetItem(names, i, name);
    }
    return names;
}

/* halves(name, wrt): (forward, backward) of "vjp", (forward, linear) of "jvp" */
static PyObject *function_halves(PyObject *self, PyObject *args)
{
    const char *name, *wrt;
    hop_fn *first = NULL, *second = NULL;
    if (!PyArg_ParseTuple(args, "sz", &name, &wrt)) return NULL;
    hop_fn *fn = ((function_object *)self)->fn;
    int status;
    struct transform t = transform_begin();
    if (!strcmp(name, "jvp")) status = hop_jvp_halves(&first, &second, fn, wrt);
    else status = hop_vjp_halves(&first, &second, fn, wrt);
    transform_end(t);
    if (status) return raise_status(status);
    PyObject *a = function_new(first, callbacks_of(self));
    PyObject *b = function_new(second, callbacks_of(self));
    PyObject *pair = a && b ? PyTuple_Pack(2, a, b) : NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    return pair;
}

/* ---- compiling ---- */

/* Says once that there is no compiler, and why. -1: the warning was made an error. */
static int warn_of_interpretation(void)
{
    static bool warned;
    if (warned) return 0;
    warned = true;
    char text[1300];
    snprintf(text, sizeof text, "hop runs programs without compiling them, hundreds of times slower: %s",
             hop_message());
    hop_forgive();
    hop_place at = user_place();
    return PyErr_WarnExplicit(PyExc_RuntimeWarning, text, at.file, at.line, "hop", NULL);
}

/* On other threads nothing ends it, but it is cancellable all the same: code is then generated by a thread
 * that the library stops when the process ends, while a daemon thread in LLVM would crash there. signals_end
 * takes what it gives. */
static bool compile_begin(hop_compile_options *o)
{
    static const volatile int never;
    bool ours = signals_begin(&o->cancel, &o->confirm);
    if (!ours) o->cancel = &never;
    return ours;
}

int compile_once(hop_exe **exe, hop_fn *fn, hop_compile_options *o)
{
    int status;
    bool ours = compile_begin(o);
    Py_BEGIN_ALLOW_THREADS status = hop_compile(exe, fn, o);
    Py_END_ALLOW_THREADS signals_end(ours);
    return status;
}

static PyObject *string_of(int status, char *text)
{
    if (status) return raise_status(status);
    PyObject *s = PyUnicode_FromString(text);
    hop_text_free(text);
    return s;
}

/* Which parameters are meant: numbers as a list. -1 and an exception when something is wrong with them. */
static int read_params(PyObject *numbers, int n_in, uint8_t **out)
{
    PyObject *list = numbers && numbers != Py_None ? PySequence_List(numbers) : NULL;
    Py_ssize_t n = list ? PyList_Size(list) : 0;
    int failed = list || !PyErr_Occurred() ? 0 : -1;
    *out = n ? PyMem_Calloc((size_t)n_in + 1, 1) : NULL;
    if (n && !*out) {
        PyErr_NoMemory();
        failed = -1;
    }
    for (Py_ssize_t i = 0; i < n && !failed; i++) {
        Py_ssize_t p = PyLong_AsSsize_t(PyList_GetItem(list, i));
        if (p < 0 || p >= n_in) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_ValueError, "there is no parameter %zd, the program has %d", p, n_in);
            failed = -1;
        } else {
            (*out)[p] = 1;
        }
    }
    Py_XDECREF(list);
    return failed;
}

/* The names of these parameters, as the library takes them; the caller frees it. */
static char *param_names(const hop_fn *fn, const uint8_t *chosen, int n)
{
    size_t room = 1, at = 0;
    for (int i = 0; i < n; i++) room += chosen[i] ? strlen(hop_fn_param_name(fn, i)) + 2 : 0;
    char *text = PyMem_Calloc(room, 1);
    for (int i = 0; text && i < n; i++) {
        if (!chosen[i]) continue;
        const char *comma = at ? ", " : "";
        at += (size_t)snprintf(text + at, room - at, "%s%s", comma, hop_fn_param_name(fn, i));
    }
    return text;
}

/* The parameters that are constant, as the library takes them: numbers as a list; None or nothing: all. The
 * caller frees it; NULL and an exception. */
static char *constant_params(const hop_fn *fn, PyObject *numbers)
{
    enum { DIGITS = 12 };
    uint8_t *chosen = NULL;
    int n = hop_fn_params(fn);
    bool all = !numbers || numbers == Py_None;
    if (read_params(numbers, n, &chosen)) return NULL;
    size_t room = (size_t)n * DIGITS + 2, at = 0;
    char *text = PyMem_Calloc(room, 1);
    if (text && all) text[0] = '*';
    for (int i = 0; text && chosen && i < n; i++)
        if (chosen[i]) at += (size_t)snprintf(text + at, room - at, "%s%d", at ? ", " : "", i);
    PyMem_Free(chosen);
    if (!text) PyErr_NoMemory();
    return text;
}

static PyObject *function_explain(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = { "form", "strict", "threads", "without", "portable", "constant", NULL };
    hop_fn *fn = ((function_object *)self)->fn;
    hop_compile_options o = { 0 };
    const char *form = NULL;
    char *text = NULL, *constant;
    PyObject *numbers = NULL;
    int status;
    if (!PyArg_ParseTupleAndKeywords(args, named, "|zpizpO", names, &form, &o.strict, &o.threads, &o.without,
                                     &o.portable, &numbers) ||
        !(constant = constant_params(fn, numbers)))
        return NULL;
    o.constant = constant;
    bool ours = compile_begin(&o);
    Py_BEGIN_ALLOW_THREADS status = hop_explain(&text, fn, &o, form);
    Py_END_ALLOW_THREADS signals_end(ours);
    PyMem_Free(constant);
    return string_of(status, text);
}

static void free_constants(hop_tensor **constants, int n)
{
    for (int i = 0; constants && i < n; i++) hop_tensor_free(constants[i]);
    PyMem_Free(constants);
}

/* Per parameter NULL, or the tensor that it is, held: arrays and None as a list. NULL and an exception when
 * something is wrong with it, NULL alone when there is none. */
static hop_tensor **read_constants(PyObject *list, int n_in)
{
    if (!list || list == Py_None) return NULL;
    if (!PyList_Check(list) || PyList_Size(list) != n_in) {
        PyErr_Format(PyExc_ValueError, "constants: expected a list with %d entries, one per parameter", n_in);
        return NULL;
    }
    hop_tensor **out = PyMem_Calloc((size_t)n_in + 1, sizeof *out);
    if (!out) PyErr_NoMemory();
    for (int i = 0; out && i < n_in; i++) {
        PyObject *x = PyList_GetItem(list, i);
        if (x == Py_None) continue;
        if (!is_array(x)) PyErr_SetString(PyExc_TypeError, "constants: expected arrays and None");
        hop_tensor *t = is_array(x) ? concrete_tensor(as_array(x)) : NULL;
        if (t) {
            hop_tensor_ref(t);
            out[i] = t;
            continue;
        }
        free_constants(out, n_in);
        return NULL;
    }
    return out;
}

static PyObject *function_emit(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = { "kind",   "strict",   "threads", "without",   "portable", "name",  "results",
                             "header", "capacity", "params",  "constants", "constant", "plain", NULL };
    hop_fn *fn = ((function_object *)self)->fn;
    hop_compile_options o = { 0 };
    hop_emit_options e = { .compile = &o };
    const char *kind;
    long long capacity = 0;
    PyObject *constants = NULL, *numbers = NULL;
    char *text = NULL, *constant = NULL;
    int status, plain = 0;
    if (!PyArg_ParseTupleAndKeywords(args, named, "s|pizpzzzLzOOp", names, &kind, &o.strict, &o.threads,
                                     &o.without, &o.portable, &e.name, &e.results, &e.header, &capacity,
                                     &e.params, &constants, &numbers, &plain))
        return NULL;
    e.capacity = capacity;
    e.plain = (size_t)plain;
    hop_tensor **held = read_constants(constants, hop_fn_params(fn));
    if ((!held && PyErr_Occurred()) || !(constant = constant_params(fn, numbers))) {
        free_constants(held, hop_fn_params(fn));
        return NULL;
    }
    o.constant = constant;
    e.constants = (const hop_tensor *const *)held;
    bool ours = compile_begin(&o);
    Py_BEGIN_ALLOW_THREADS status = hop_emit(&text, fn, kind, &e);
    Py_END_ALLOW_THREADS signals_end(ours);
    free_constants(held, hop_fn_params(fn));
    PyMem_Free(constant);
    return string_of(status, text);
}

/* Which parameters a run updates; NULL: none. */
static int read_updated(const hop_fn *fn, int n_in, uint8_t **out)
{
    int n = 0;
    for (int i = 0; i < n_in; i++) n += hop_fn_param_is_mut(fn, i);
    *out = n ? PyMem_Calloc((size_t)n_in, 1) : NULL;
    for (int i = 0; i < n_in && *out; i++) (*out)[i] = (uint8_t)hop_fn_param_is_mut(fn, i);
    if (!n || *out) return 0;
    PyErr_NoMemory();
    return -1;
}

/* compile(strict=0, threads=0, without=None, portable=0, donate=None, weak=None, keep=0, constant=None,
 * profile=0); donate, constant: numbers of parameters, of the latter None: all; weak: a byte per result, 1
 * where that is weak; keep: a run that fails leaves what it updates as it was */
static PyObject *function_compile(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = { "strict", "threads", "without",  "portable", "donate",
                             "weak",   "keep",    "constant", "profile",  NULL };
    hop_compile_options o = { .soon = 1 };
    hop_fn *fn = ((function_object *)self)->fn;
    hop_exe *exe = NULL;
    PyObject *donate = NULL, *numbers = NULL;
    exe_object *e = NULL;
    uint8_t *donated = NULL;
    char *text = NULL, *constant = NULL;
    const char *weak = NULL;
    Py_ssize_t n_weak = 0;
    int status, n_in = hop_fn_params(fn), keep = 0;
    if (!PyArg_ParseTupleAndKeywords(args, named, "|pizpOy#pOp", names, &o.strict, &o.threads, &o.without,
                                     &o.portable, &donate, &weak, &n_weak, &keep, &numbers, &o.profile))
        return NULL;
    if (weak && n_weak != hop_fn_results(fn)) {
        PyErr_SetString(PyExc_ValueError, "weak has a byte per result");
        return NULL;
    }
    if (read_params(donate, n_in, &donated)) goto failed;
    if (donated && !(text = param_names(fn, donated, n_in))) {
        PyErr_NoMemory();
        goto failed;
    }
    if (!(constant = constant_params(fn, numbers))) goto failed;
    o.donate = text;
    o.constant = constant;
    status = compile_once(&exe, fn, &o);
    if (status == HOP_UNAVAILABLE && !o.portable) {
        if (warn_of_interpretation()) goto failed;
        o.portable = 1;
        status = compile_once(&exe, fn, &o);
    }
    if (status) raise_status(status);
    else e = (exe_object *)PyType_GenericAlloc(exe_type, 0);
    if (!e) goto failed;
    e->exe = exe;
    e->n_in = n_in;
    e->n_out = hop_fn_results(fn);
    e->n_dims = hop_fn_dims(fn);
    e->donated = donated;
    e->callbacks = Py_XNewRef(callbacks_of(self));
    e->keep = keep != 0;
    exe = NULL; /* it is e's from here on, and so is what is donated */
    donated = NULL;
    if (read_updated(fn, n_in, &e->updated)) Py_CLEAR(e);
    if (!e) goto failed;
    if (weak && !(e->weak = PyMem_Malloc((size_t)n_weak + 1))) {
        PyErr_NoMemory();
        Py_DECREF(e);
        goto failed;
    }
    if (weak) memcpy(e->weak, weak, (size_t)n_weak);
    PyMem_Free(text);
    PyMem_Free(constant);
    return (PyObject *)e;
failed:
    hop_exe_free(exe);
    PyMem_Free(text);
    PyMem_Free(constant);
    PyMem_Free(donated);
    return NULL;
}

/* ---- calling ---- */

/* interpret(arrays, dims=()) -> list */
static PyObject *function_interpret(PyObject *self, PyObject *args)
{
    return interpret(((function_object *)self)->fn, args);
}

/* Function.accepts(arrays): None, or a text that says why a run would not take them */
static PyObject *function_accepts(PyObject *self, PyObject *arrays)
{
    hop_fn *fn = ((function_object *)self)->fn;
    PyObject *list = PySequence_List(arrays), *said = NULL;
    Py_ssize_t n = list ? PyList_Size(list) : 0;
    hop_tensor **in = list ? PyMem_Calloc((size_t)n + 1, sizeof *in) : NULL;
    if (list && !in) PyErr_NoMemory();
    for (Py_ssize_t i = 0; in && i < n; i++) {
        PyObject *x = PyList_GetItem(list, i);
        if (!is_array(x)) PyErr_SetString(PyExc_TypeError, "accepts: expected arrays");
        in[i] = is_array(x) ? any_tensor(as_array(x)) : NULL;
        if (!in[i]) goto done;
    }
    if (!in) goto done;
    int status = hop_fn_accepts(fn, in, (int)n, NULL);
    if (status == HOP_INVALID) said = PyUnicode_FromString(hop_message());
    else said = status ? raise_status(status) : Py_NewRef(Py_None);
done:
    PyMem_Free(in);
    Py_XDECREF(list);
    return said;
}

/* Function.call(in, inlining=None): a call inside of a capture */
static PyObject *function_call(PyObject *self, PyObject *args)
{
    hop_fn *fn;
    PyObject *in;
    hop_call_options options = { 0 };
    if (!PyArg_ParseTuple(args, "O|z", &in, &options.inlining)) return NULL;
    struct values x = { 0 };
    struct operation o;
    PyObject *r = NULL;
    if (operation_begin(&o) || function_called(self, &fn)) return NULL;
    int n = hop_fn_results(fn);
    if (!read_values(in, o.at, &x) && operation_ready(&o, n)) {
        int status;
        Py_BEGIN_ALLOW_THREADS status = hop_call_fn_with_at(o.at, o.results, n, fn, x.data, x.n, &options);
        Py_END_ALLOW_THREADS r = operation_end(&o, status);
    }
    PyMem_Free(x.data);
    return r;
}

/* ---- types ---- */

static PyMethodDef function_methods[] = {
    { "json", function_json, METH_NOARGS, "json() -> text" },
    { "text", function_text, METH_NOARGS, "the program as text" },
    { "remarks", function_remarks, METH_NOARGS, "what its capture did that may surprise" },
    { "transform", function_transform, METH_VARARGS,
      "transform(name, text=None, text2=None, axis_name=None) -> Function" },
    { "probe_names", function_probe_names, METH_NOARGS, "names of what probes or perturb has added" },
    { "halves", function_halves, METH_VARARGS, "halves(name, wrt) -> (Function, Function)" },
    { "compile", (PyCFunction)(void (*)(void))function_compile, METH_VARARGS | METH_KEYWORDS,
      "compile(strict, threads, without, portable, donate, weak, keep, constant) -> Executable" },
    { "explain", (PyCFunction)(void (*)(void))function_explain, METH_VARARGS | METH_KEYWORDS,
      "explain(form, strict, threads, without, portable) -> str" },
    { "emit", (PyCFunction)(void (*)(void))function_emit, METH_VARARGS | METH_KEYWORDS,
      "emit(kind, strict, threads, without, portable, name, results, header, capacity, params, constants) -> "
      "str" },
    { "interpret", function_interpret, METH_VARARGS, "interpret(arrays, dims=()) -> list" },
    { "accepts", function_accepts, METH_O, "accepts(arrays) -> None, or why they do not fit" },
    { "call", function_call, METH_VARARGS, "call(values, inlining=None) -> list of traced values" },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef function_getset[] = {
    { "name", function_name, NULL, "its name, without @", NULL },
    { "params", function_params, NULL, "types of the parameters", NULL },
    { "requires", function_requires, NULL, "what must hold of the arguments' sizes, as texts", NULL },
    { "names", function_names, NULL, "names of the parameters", NULL },
    { "dims", function_dims, NULL, "names of the declared sizes", NULL },
    { "updated", function_updated, NULL, "which arguments a run updates, by number", NULL },
    { "effect", function_effect, NULL, "what running it does: none, check, unordered or io", NULL },
    { "callbacks", function_callbacks, NULL, "what the program calls", NULL },
    { "results", function_results, NULL, "types of the results", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyType_Slot function_slots[] = {
    { Py_tp_dealloc, function_dealloc }, { Py_tp_traverse, function_traverse },
    { Py_tp_clear, function_clear },     { Py_tp_methods, function_methods },
    { Py_tp_getset, function_getset },   { 0, NULL }
};
static PyType_Spec function_spec = { "hop._core.Function", sizeof(function_object), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                         Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                     function_slots };

static PyMethodDef functions[] = {
    { "tracing", tracing, METH_NOARGS, "whether this thread is in a capture" },
    { "capture_place", capture_place, METH_NOARGS, "where the innermost capture was begun" },
    { "made_here", made_here, METH_O, "made_here(array): whether the body at work has made it" },
    { "traced_here", traced_here, METH_O,
      "traced_here(array): whether it is a value of the innermost capture" },
    { "capture", function_capture, METH_VARARGS,
      "capture(fun, name, names, types, hints=None, written=None, cut=None) -> (Function, arrays used from "
      "outside, texts about sizes)" },
    { "read", read_function, METH_VARARGS, "read(text, name=None) -> Function" },
    { NULL, NULL, 0, NULL },
};

int function_init(PyObject *module)
{
    function_type = (PyTypeObject *)PyType_FromSpec(&function_spec);
    if (!function_type || PyModule_AddObjectRef(module, "Function", (PyObject *)function_type)) return -1;
    return PyModule_AddFunctions(module, functions);
}
