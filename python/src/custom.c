/* Calls of functions with rules of the user's (_custom.py): the operator custom, made of functions that were
 * captured before. */
#include "bodies.h"

/* A rule; None: there is none. */
static int read_rule(PyObject *o, hop_fn **out)
{
    *out = NULL;
    return o == Py_None ? 0 : function_called(o, out);
}

int read_numbers(PyObject *o, int **list, int *n)
{
    *list = NULL;
    *n = 0;
    if (o == Py_None) return 0;
    Py_ssize_t count = PySequence_Size(o);
    if (count < 0) return -1;
    *list = PyMem_Calloc((size_t)count + 1, sizeof **list);
    if (!*list) PyErr_NoMemory();
    for (Py_ssize_t i = 0; *list && i < count; i++) {
        PyObject *number = PySequence_GetItem(o, i);
        (*list)[i] = number ? (int)PyLong_AsLong(number) : 0;
        Py_XDECREF(number);
    }
    *n = (int)count;
    return PyErr_Occurred() ? -1 : 0;
}

/* custom(body, operands, (forward, backward, jvp, batch), gives, closed, tangent, asks); tangent:
 * "transpose", "body", "none" */
static PyObject *custom(PyObject *self, PyObject *args)
{
    PyObject *body, *in, *rules[4], *gives;
    hop_custom_spec s = { 0 };
    struct values x = { 0 };
    struct operation o;
    PyObject *r = NULL;
    int *numbers = NULL;
    const char *tangent;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO(OOOO)Oisp", &body, &in, &rules[0], &rules[1], &rules[2], &rules[3],
                          &gives, &s.n_closed, &tangent, &s.asks) ||
        operation_begin(&o))
        return NULL;
    s.tangent_of_body = !strcmp(tangent, "body");
    s.no_derivatives = !strcmp(tangent, "none");
    hop_fn **places[] = { &s.forward, &s.backward, &s.jvp, &s.batch };
    int failed = function_called(body, &s.body);
    for (int i = 0; i < 4 && !failed; i++) failed = read_rule(rules[i], places[i]);
    if (!failed && !read_numbers(gives, &numbers, &s.n_gives) && !read_values(in, o.at, &x) &&
        operation_ready(&o, hop_fn_results(s.body))) {
        int status;
        s.gives = numbers;
        s.in = x.data;
        s.n_in = x.n;
        Py_BEGIN_ALLOW_THREADS status = hop_custom_at(o.at, o.results, o.n, &s);
        Py_END_ALLOW_THREADS r = operation_end(&o, status);
    }
    PyMem_Free(numbers);
    PyMem_Free(x.data);
    return r;
}

static PyMethodDef functions[] = {
    { "custom", custom, METH_VARARGS,
      "custom(body, operands, (forward, backward, jvp, batch), gives, closed, tangent, asks)" },
    { NULL, NULL, 0, NULL },
};

int custom_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
