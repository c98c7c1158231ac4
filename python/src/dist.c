/* Distributed arrays (_dist.py): arrays that lie on a mesh of ranks, and the operators that take them. A
 * concrete one is a tensor of parts; a traced one is a value whose type says where it lies. */
#include "bodies.h"

#include <stdio.h>

static PyObject *dist_class;

PyObject *dist_class_or(PyObject *otherwise) { return dist_class ? dist_class : otherwise; }

size_t array_layout_text(const array_object *a, char *text, size_t room)
{
    const char *mesh = a->tensor ? hop_tensor_mesh(a->tensor) : NULL;
    if (!mesh) {
        *text = 0;
        return 0;
    }
    int n = snprintf(text, room, "@(%s)(%s)", mesh, hop_tensor_placements(a->tensor));
    return (size_t)n < room ? (size_t)n : room - 1;
}

/* ---- arrays from around, in bodies of parts ---- */

/* List of pairs, an array from around and its part, of the body at work; NULL: it is none of parts. The
 * number of the body: what it makes has that one, or a later one. */
static _Thread_local PyObject *captured;
static _Thread_local uint64_t capturing;
static PyObject *captured_class;

static bool is_distributed(const array_object *a)
{
    a = array_behind(a);
    return a->spread || (a->type && strchr(a->type, '@'));
}

static bool same_array(const array_object *a, const array_object *b)
{
    if (a == b) return true;
    if (a->capture != b->capture) return false;
    if (!a->capture) return a->tensor && a->tensor == b->tensor;
    return a->value.scope == b->value.scope && a->value.id == b->value.id;
}

array_object *array_part(array_object *a)
{
    if (!captured) return a;
    Py_ssize_t n = PyList_Size(captured);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *pair = PyList_GetItem(captured, i);
        if (same_array(as_array(PyTuple_GetItem(pair, 0)), a)) return as_array(PyTuple_GetItem(pair, 1));
    }
    if (!is_distributed(a) || (a->capture && a->value.scope >= capturing)) return a;
    PyErr_SetObject(captured_class, (PyObject *)a);
    return NULL;
}

/* captures(list of (array, part), or None): the one before, or None */
static PyObject *captures(PyObject *self, PyObject *list)
{
    (void)self;
    PyObject *before = captured ? captured : Py_NewRef(Py_None);
    captured = PyList_Check(list) ? Py_NewRef(list) : NULL;
    capturing = captured ? hop_body_number() : 0;
    return before;
}

/* part(array): array_part */
static PyObject *part(PyObject *self, PyObject *x)
{
    (void)self;
    return is_array(x) ? Py_XNewRef((PyObject *)array_part(as_array(x))) : Py_NewRef(x);
}

static PyObject *made(hop_tensor *t, int status)
{
    return status ? raise_status(status) : array_of_tensor(t);
}

/* distribute(array, mesh, placements) */
static PyObject *distribute(PyObject *self, PyObject *args)
{
    PyObject *x;
    const char *mesh, *placements;
    hop_tensor *out = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!ss", array_base, &x, &mesh, &placements)) return NULL;
    hop_tensor *t = concrete_tensor(as_array(x));
    if (!t) return NULL;
    int status = hop_distribute(&out, t, mesh, placements);
    return made(out, status);
}

/* collect(array) */
static PyObject *collect(PyObject *self, PyObject *x)
{
    hop_tensor *out = NULL, *t = is_array(x) ? any_tensor(as_array(x)) : NULL;
    (void)self;
    if (!t) return PyErr_Occurred() ? NULL : raise_invalid("expected an array, found %R", x);
    hop_tensor_ref(t); /* another thread may give it away */
    int status;
    Py_BEGIN_ALLOW_THREADS status = hop_collect(&out, t);
    Py_END_ALLOW_THREADS hop_tensor_free(t);
    return made(out, status);
}

/* from_parts(type, mesh, placements, list of arrays) */
static PyObject *from_parts(PyObject *self, PyObject *args)
{
    PyObject *list;
    const char *type, *mesh, *placements;
    hop_tensor *out = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "sssO!", &type, &mesh, &placements, &PyList_Type, &list)) return NULL;
    Py_ssize_t n = PyList_Size(list);
    hop_tensor **parts = PyMem_Calloc((size_t)n + 1, sizeof *parts);
    if (!parts) return PyErr_NoMemory();
    PyObject *answer = NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PyList_GetItem(list, i);
        parts[i] = is_array(x) ? concrete_tensor(as_array(x)) : NULL;
        if (parts[i]) continue;
        if (!PyErr_Occurred()) raise_invalid("expected arrays, found %R", x);
        goto done;
    }
    int status = hop_tensor_from_parts(&out, type, mesh, placements, parts, (int)n);
    answer = made(out, status);
done:
    PyMem_Free(parts);
    return answer;
}

/* parts(array) -> a list of (rank, array), those that this process has */
static PyObject *parts(PyObject *self, PyObject *x)
{
    hop_tensor *t = is_array(x) ? any_tensor(as_array(x)) : NULL;
    (void)self;
    if (!t) return PyErr_Occurred() ? NULL : raise_invalid("expected an array, found %R", x);
    PyObject *list = PyList_New(0);
    for (int k = 0; list && k < hop_tensor_parts(t); k++) {
        int rank = 0;
        hop_tensor *part = hop_tensor_part(t, k, &rank);
        PyObject *a = array_of_shared(hop_tensor_ref(part), SHARED);
        PyObject *pair = a ? Py_BuildValue("iO", rank, a) : NULL;
        if (!pair || PyList_Append(list, pair)) Py_CLEAR(list);
        Py_XDECREF(a);
        Py_XDECREF(pair);
    }
    return list;
}

/* ---- programs ---- */

/* The body of local_map: its function says how its results lie, in the attribute _placements, once it has
 * run. */
struct local_body {
    struct body b;
    hop_local_map_spec spec;
    PyObject *placements;
};
static int run_local_body(void *env, const hop_val *in, hop_val *out)
{
    struct local_body *l = env;
    int failed = run_body(&l->b, in, out);
    if (failed) return failed;
    Py_XDECREF(l->placements);
    l->placements = PyObject_GetAttrString(l->b.fun, "_placements");
    l->spec.out_placements = l->placements ? PyUnicode_AsUTF8AndSize(l->placements, NULL) : NULL;
    return l->spec.out_placements ? 0 : BODY_RAISED;
}

/* local_map(body, in, mesh, in_placements, in_grad_placements or None) */
static PyObject *local_map(PyObject *self, PyObject *args)
{
    PyObject *in;
    struct local_body l = { .b = { .n_out = -1 } };
    hop_local_map_spec *s = &l.spec;
    struct values x = { 0 };
    struct operation o;
    PyObject *r = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOssz", &l.b.fun, &in, &s->mesh, &s->in_placements,
                          &s->in_grad_placements) ||
        operation_begin(&o))
        return NULL;
    if (!read_values(in, o.at, &x) && operation_ready(&o, HOP_ANY)) {
        l.b.n_in = s->n_in = x.n;
        s->in = x.data;
        s->body = run_local_body;
        s->env = &l;
        s->name = body_name(l.b.fun);
        r = operation_end(&o, hop_local_map_at(o.at, NULL, HOP_ANY, s));
    }
    PyMem_Free(x.data);
    Py_XDECREF(l.placements);
    return r;
}

/* redistribute(x, mesh, placements) */
static PyObject *redistribute(PyObject *self, PyObject *args)
{
    PyObject *given;
    const char *mesh, *placements;
    hop_place at = user_place();
    hop_val x;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oss", &given, &mesh, &placements)) return NULL;
    if (!frame_top()) return raise_invalid("redistribute: called outside of a capture");
    if (value_of(given, at, &x)) return NULL;
    hop_val made = hop_redistribute_at(at, x, mesh, placements);
    return made.scope ? array_of_value(made, at) : raise_status(hop_failed());
}

/* dist_setup(class, Captured) */
static PyObject *setup(PyObject *self, PyObject *args)
{
    PyObject *class, *error;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO", &class, &error)) return NULL;
    Py_XDECREF(dist_class);
    Py_XDECREF(captured_class);
    dist_class = Py_NewRef(class);
    captured_class = Py_NewRef(error);
    Py_RETURN_NONE;
}

/* dist_init() */
static PyObject *init(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    int status = hop_dist_init();
    if (status) return raise_status(status);
    Py_RETURN_NONE;
}

/* dist_place() -> (rank of this process, processes) */
static PyObject *dist_place(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return Py_BuildValue("(ii)", hop_dist_rank(), hop_dist_size());
}

static PyMethodDef functions[] = {
    { "dist_init", init, METH_NOARGS, "dist_init()" },
    { "dist_place", dist_place, METH_NOARGS, "dist_place(): (rank of this process, processes)" },
    { "distribute", distribute, METH_VARARGS, "distribute(array, mesh, placements)" },
    { "collect", collect, METH_O, "collect(array)" },
    { "from_parts", from_parts, METH_VARARGS, "from_parts(type, mesh, placements, arrays)" },
    { "parts", parts, METH_O, "parts(array): a list of (rank, array)" },
    { "local_map", local_map, METH_VARARGS, "local_map(body, in, mesh, in_placements, in_grad_placements)" },
    { "redistribute", redistribute, METH_VARARGS, "redistribute(x, mesh, placements)" },
    { "captures", captures, METH_O, "captures(list of (array, part), or None): the one before" },
    { "part", part, METH_O, "part(array): what the body of parts at work has of it" },
    { "dist_setup", setup, METH_VARARGS, "dist_setup(class, Captured)" },
    { NULL, NULL, 0, NULL },
};

int dist_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
