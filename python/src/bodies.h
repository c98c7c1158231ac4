/* Bodies: Python functions that the library runs while it captures, and what operators that take them share.
 */
#ifndef HOP_PYTHON_BODIES_H
#define HOP_PYTHON_BODIES_H

#include "core.h"

struct body {
    PyObject *fun;
    int n_in, n_out;         /* n_out < 0: as many as it gives */
    const hop_param *params; /* of a function: those that are mut become variables; or NULL */
    PyObject *written; /* list: concrete arrays that are values while it runs, and results behind; or NULL */
};
/* What the user calls a body (its attribute _name), NULL: nothing. The text lives as long as fun. */
const char *body_name(PyObject *fun);
int run_body(void *env, const hop_val *in, hop_val *out); /* a hop_body; env: a struct body */

struct values {
    hop_val *data;
    int n;
};
int read_values(PyObject *o, hop_place at, struct values *out); /* -1 and an exception */

/* The numbers of a sequence, NULL for None; -1 and an exception. The list is the caller's also then. */
int read_numbers(PyObject *o, int **list, int *n);

/* What every operator needs: a capture, a place, room for results where their number is known, and to forget
 * what a failed body took in from outside. */
struct operation {
    hop_place at;
    Py_ssize_t hidden;
    size_t journal;
    hop_val *results; /* NULL: hop_given says what there is */
    int n;
};
int operation_begin(struct operation *o);
/* Right before the call: arrays that its operands were lifted from stay when a body fails. n results,
 * HOP_ANY: as many as there are. */
bool operation_ready(struct operation *o, int n);
PyObject *operation_end(struct operation *o, int status); /* a list of the results */

#endif
