/* Cuts: a capture that may be cut can give elements of its values to Python. What it has recorded so far is
 * run, or recorded in the capture around it; every value of it that Python still holds becomes what it is
 * there, and the capture goes on. Values from before the cut that are used again become parameters, as arrays
 * from outside do. */
#include "core.h"

/* ---- what is alive ---- */

static void live_add(struct live **list, struct live *l, PyObject *of)
{
    *l = (struct live){ .next = *list, .link = list, .of = of };
    if (l->next) l->next->link = &l->next;
    *list = l;
}

void live_remove(struct live *l)
{
    if (!l->link) return;
    *l->link = l->next;
    if (l->next) l->next->link = l->link;
    l->link = NULL;
}

void live_end(struct frame *f)
{
    while (f->live) live_remove(f->live);
}

static struct frame *frame_with(uint64_t serial)
{
    struct frame *f = frame_top();
    while (f && f->serial != serial) f = f->outer;
    return f;
}
static struct frame *frame_of(const array_object *a) { return frame_with(a->capture); }

void live_join(uint64_t capture, struct live *l, PyObject *of)
{
    struct frame *f = frame_with(capture);
    if (f && f->cut && f->depth == 1) live_add(&f->live, l, of);
}

/* ---- may it be cut? ---- */

/* Whether what is alive has sizes that are no numbers, of which captures inside may speak. */
static bool has_open_sizes(const struct frame *f)
{
    for (const struct live *l = f->live; l; l = l->next) {
        if (is_size(l->of) ? hop_dim_known(as_size(l->of)->dim) < 0
                           : array_behind(as_array(l->of))->sizes != NULL)
            return true;
    }
    return false;
}

/* A cut is recorded in the capture around, which is cut in turn: all of them must allow it. */
static bool may_cut(const struct frame *f)
{
    if (!f || (f != frame_top() && has_open_sizes(f))) return false;
    for (; f; f = f->outer)
        if (!f->cut || f->depth != 1 || f->unknown) return false;
    return true;
}

const array_object *array_behind(const array_object *a)
{
    while (a->known && a->known != Py_None) a = as_array(a->known);
    return a;
}

/* Has a cut been made behind it, in all captures? */
bool array_may_cut(const array_object *a)
{
    const array_object *behind = array_behind(a);
    return !behind->capture || (!behind->known && may_cut(frame_of(behind)));
}

/* ---- a cut ---- */

struct cut {
    struct frame *f;
    PyObject **objects; /* strong: what is alive and not known yet */
    Py_ssize_t n;
    PyObject **known; /* of each, strong: an operand; NULL: a result */
    int *numbers;     /* of each: which result */
    hop_val *results;
    int n_results;
    PyObject *operands; /* list: of the part before the cut */
    PyObject *values;   /* list: its results */
};

static void cut_drop(struct cut *c)
{
    for (Py_ssize_t i = 0; i < c->n; i++) {
        Py_XDECREF(c->objects[i]);
        Py_XDECREF(c->known[i]);
    }
    PyMem_Free(c->objects);
    PyMem_Free(c->known);
    PyMem_Free(c->numbers);
    PyMem_Free(c->results);
    Py_XDECREF(c->operands);
    Py_XDECREF(c->values);
}

static int cut_collect(struct cut *c)
{
    Py_ssize_t room = 1;
    for (const struct live *l = c->f->live; l; l = l->next) room++;
    c->objects = PyMem_Calloc((size_t)room, sizeof *c->objects);
    c->known = PyMem_Calloc((size_t)room, sizeof *c->known);
    c->numbers = PyMem_Calloc((size_t)room, sizeof *c->numbers);
    c->results = PyMem_Calloc((size_t)room, sizeof *c->results);
    if (!c->objects || !c->known || !c->numbers || !c->results) {
        PyErr_NoMemory();
        return -1;
    }
    for (const struct live *l = c->f->live; l; l = l->next) {
        bool open = is_size(l->of) ? hop_dim_known(as_size(l->of)->dim) < 0 : !as_array(l->of)->known;
        if (open) c->objects[c->n++] = Py_NewRef(l->of);
    }
    return 0;
}

/* The operand that a value is, borrowed; NULL: it is none. */
static PyObject *operand_that_is(const struct frame *f, hop_val v)
{
    Py_ssize_t given = f->given ? PyList_Size(f->given) : 0, hidden = PyList_Size(f->hidden);
    for (Py_ssize_t i = 0; i < given; i++)
        if (f->params[i].scope == v.scope && f->params[i].id == v.id) return PyList_GetItem(f->given, i);
    for (Py_ssize_t i = 0; i < hidden; i++)
        if (f->values[i].value.scope == v.scope && f->values[i].value.id == v.id)
            return PyList_GetItem(f->hidden, i);
    return NULL;
}

/* Variables have no numbers among the values. */
static bool is_variable_of(PyObject *o) { return !is_size(o) && as_array(o)->variable; }

/* Which values of what is alive are results, each once; nothing is computed to pass through. */
static int cut_results(struct cut *c, hop_place at)
{
    uint64_t most = 0;
    for (Py_ssize_t i = 0; i < c->n; i++) {
        bool size = is_size(c->objects[i]);
        hop_val v = size ? hop_dim_value_at(at, as_size(c->objects[i])->dim) : as_array(c->objects[i])->value;
        if (!v.scope) {
            raise_status(hop_failed());
            return -1;
        }
        c->results[i] = v;
        if (is_variable_of(c->objects[i])) continue;
        c->known[i] = Py_XNewRef(operand_that_is(c->f, v));
        if (!c->known[i] && v.id > most) most = v.id;
    }
    int *number_of = PyMem_Calloc((size_t)most + 1, sizeof *number_of); /* by value: its number + 1 */
    if (!number_of) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < c->n; i++) {
        if (c->known[i]) continue;
        hop_val v = c->results[i];
        int fresh = 0, *number = is_variable_of(c->objects[i]) ? &fresh : &number_of[v.id];
        if (!*number) {
            c->results[c->n_results] = v; /* at most i */
            *number = ++c->n_results;
        }
        c->numbers[i] = *number - 1;
    }
    PyMem_Free(number_of);
    return 0;
}

static int cut_operands(struct cut *c)
{
    const struct frame *f = c->f;
    c->operands = f->given ? PyList_GetSlice(f->given, 0, PyList_Size(f->given)) : PyList_New(0);
    Py_ssize_t n = c->operands ? PyList_Size(c->operands) : 0;
    return c->operands ? PyList_SetSlice(c->operands, n, n, f->hidden) : -1;
}

static int run_part(void *env, hop_fn *part)
{
    struct cut *c = env;
    struct frame *top = frame_set(c->f->outer);
    PyObject *function = function_new(hop_fn_ref(part), c->f->callbacks);
    if (function) c->values = PyObject_CallFunctionObjArgs(c->f->cut, function, c->operands, NULL);
    Py_XDECREF(function);
    frame_set(top);
    bool right = c->values && PyList_Check(c->values) && PyList_Size(c->values) == c->n_results;
    for (int i = 0; right && i < c->n_results; i++) right = is_array(PyList_GetItem(c->values, i));
    if (right) return 0;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a part gives an array for each result");
    return BODY_RAISED;
}

static int64_t whole_number(PyObject *array)
{
    PyObject *n = PyNumber_Index(array);
    int64_t size = n ? PyLong_AsLongLong(n) : -1;
    Py_XDECREF(n);
    return size;
}

/* It needs not be looked at again. */
static void set_known(array_object *a, PyObject *is)
{
    PyObject *before = a->known;
    a->known = Py_NewRef(is);
    a->variable = false;
    Py_XDECREF(before);
    live_remove(&a->live);
}

/* What was alive is known; sizes are numbers. */
static int cut_settle(struct cut *c)
{
    for (Py_ssize_t i = 0; i < c->n; i++) {
        PyObject *is = c->known[i] ? c->known[i] : PyList_GetItem(c->values, c->numbers[i]);
        if (!is_size(c->objects[i])) set_known(as_array(c->objects[i]), is);
    }
    for (Py_ssize_t i = 0; i < c->n; i++) {
        if (!is_size(c->objects[i])) continue;
        int64_t n = whole_number(c->known[i] ? c->known[i] : PyList_GetItem(c->values, c->numbers[i]));
        if (PyErr_Occurred()) return -1;
        as_size(c->objects[i])->dim = hop_dim_const(n);
    }
    return 0;
}

/* The exception that is set ends the capture, also when somebody catches it: what it has computed is lost. */
static void cut_failed(struct cut *c)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value && !c->f->unknown) c->f->unknown = Py_NewRef(value);
    for (Py_ssize_t i = 0; i < c->n; i++)
        if (!is_size(c->objects[i])) set_known(as_array(c->objects[i]), Py_None);
    PyErr_Restore(type, value, trace);
    hide_frames();
}

static _Thread_local long n_cuts, n_asked; /* cuts so far, and values whose elements Python asked for */

/* The capture begins anew: what was recorded and what it took in from outside is another function's. */
static int frame_cut(struct frame *f)
{
    struct cut c = { .f = f };
    hop_place at = user_place();
    PyObject *hidden = PyList_New(0);
    int failed = !hidden || cut_collect(&c) || cut_results(&c, at) || cut_operands(&c);
    if (!failed) {
        n_cuts++;
        f->was_cut = true;
        int status = hop_cut_at(at, c.results, c.n_results, run_part, &c);
        if (status && status != BODY_RAISED) raise_status(status);
        PyObject *used = f->hidden;
        f->hidden = hidden;
        hidden = used;
        Py_CLEAR(f->given);
        Py_CLEAR(f->callbacks);
        failed = status || cut_settle(&c);
        if (failed) cut_failed(&c);
    }
    Py_XDECREF(hidden);
    cut_drop(&c);
    return failed ? -1 : 0;
}

/* ---- asking ---- */

/* The same array as seen in the capture around, borrowed; NULL and an exception. */
static PyObject *one_out(array_object *a)
{
    struct frame *f = frame_of(a);
    PyObject *operand = a->known || !f || a->variable ? a->known : operand_that_is(f, a->value);
    if (operand == Py_None) PyErr_SetObject((PyObject *)Py_TYPE(f->unknown), f->unknown);
    if (operand) return operand == Py_None ? NULL : operand;
    return frame_cut(f) ? NULL : a->known;
}

PyObject *array_elements(array_object *a)
{
    if (!array_may_cut(a)) {
        const array_object *behind = array_behind(a);
        const struct frame *f = behind->known ? frame_of(behind) : NULL; /* None: it is lost */
        if (f && f->unknown) PyErr_SetObject((PyObject *)Py_TYPE(f->unknown), f->unknown);
        return NULL;
    }
    PyObject *x = Py_NewRef((PyObject *)a);
    n_asked++;
    while (x && as_array(x)->capture) {
        PyObject *next = Py_XNewRef(one_out(as_array(x)));
        Py_DECREF(x);
        x = next;
    }
    if (x) array_note_elements(x);
    return x;
}

PyObject *array_method_elements(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *x = as_array(self)->capture ? array_elements(as_array(self)) : Py_NewRef(self);
    if (x || PyErr_Occurred()) return x;
    Py_RETURN_NONE;
}

/* ---- values from before a cut ---- */

int frame_room(struct frame *f)
{
    if (PyList_Size(f->hidden) < f->room) return 0;
    Py_ssize_t room = f->room ? 2 * f->room : 8;
    struct hidden_value *more = PyMem_Realloc(f->values, (size_t)room * sizeof *more);
    if (!more) {
        PyErr_NoMemory();
        return -1;
    }
    f->values = more;
    f->room = room;
    return 0;
}

/* The parameter that stands for what a value from before a cut is, made once in each part. */
static int known_parameter(struct frame *f, PyObject *known, hop_place at, hop_val *out)
{
    Py_ssize_t n = PyList_Size(f->hidden);
    int levels = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        if (f->values[i].known && PyList_GetItem(f->hidden, i) == known) {
            *out = f->values[i].value;
            return 0;
        }
    array_object *behind = (array_object *)array_behind(as_array(known));
    char type[TYPE_TEXT];
    hop_param p = { .type = type };
    array_type_text(behind, type);
    if (behind->capture && behind->sizes) {
        p.type = NULL;
        if (array_now(behind, at, &p.like)) return -1;
    }
    for (const struct frame *inside = frame_top(); inside != f; inside = inside->outer) levels++;
    if (frame_room(f)) return -1;
    *out = hop_parameter_around_at(at, levels, &p);
    if (!out->scope) {
        raise_status(hop_failed());
        return -1;
    }
    f->values[n] = (struct hidden_value){ *out, true };
    return PyList_Append(f->hidden, known);
}

int array_revive(array_object *a, hop_place at)
{
    struct frame *f = frame_of(a);
    hop_val v;
    if (!f || a->known == Py_None) {
        if (f) PyErr_SetObject((PyObject *)Py_TYPE(f->unknown), f->unknown);
        return f ? -1 : check_alive(a, at);
    }
    if (known_parameter(f, a->known, at, &v)) return -1;
    if (f->depth > 1 && journal_known(a)) return -1; /* a body that fails takes it back */
    array_dims(a, a->dims);
    if (a->sizes && !array_behind(a)->sizes) {
        PyMem_Free(a->sizes);
        PyMem_Free(a->type);
        a->sizes = NULL;
        a->type = NULL;
    }
    Py_CLEAR(a->known);
    a->value = v;
    a->variable = false;
    live_add(&f->live, &a->live, (PyObject *)a);
    return 0;
}

/* cuts(): how many cuts this thread has made */
static PyObject *cuts(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromLong(n_cuts);
}

/* asked(): how often Python was given elements of traced values in this thread, also where nothing had to run
 * for them */
static PyObject *asked(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromLong(n_asked);
}

/* behind_cut(): whether part of a program being captured has run, and it cannot be cut here */
static PyObject *behind_cut(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    bool cut = false;
    for (const struct frame *f = frame_top(); f; f = f->outer) cut |= f->was_cut;
    return PyBool_FromLong(cut && !may_cut(frame_top()));
}

static PyMethodDef functions[] = {
    { "cuts", cuts, METH_NOARGS, "how many cuts this thread has made" },
    { "asked", asked, METH_NOARGS, "how often Python was given elements of traced values" },
    { "behind_cut", behind_cut, METH_NOARGS,
      "whether part of a program being captured has run, and it cannot be cut here" },
    { NULL, NULL, 0, NULL },
};

int cut_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
