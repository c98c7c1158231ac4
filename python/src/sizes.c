/* Sizes of traced values that are no number while a program is captured: integers that can be computed with,
 * compared, and given wherever a size is taken. A size is a hop_dim of its capture. Sizes of parameters have
 * a hint, what they are in the call at hand: what the program does with that (a comparison that nothing
 * proves, range(n)) becomes a constraint of the capture. Others are known only to a run: comparing them is a
 * node. */
#include "core.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

PyTypeObject *size_type;

PyObject *size_of_dim(uint64_t capture, hop_dim d, hop_place made)
{
    size_object *s;
    if (hop_dim_known(d) >= 0) return PyLong_FromLongLong(hop_dim_known(d));
    s = (size_object *)PyType_GenericAlloc(size_type, 0);
    if (!s) return NULL;
    s->capture = capture;
    s->dim = d;
    s->made = made;
    live_join(capture, &s->live, (PyObject *)s);
    return (PyObject *)s;
}
static void size_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    live_remove(&as_size(self)->live);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* The dim, in the capture at work or one around it; -1 and an exception when that has ended. */
static int dim_here(const size_object *s, hop_dim *out)
{
    hop_place at = user_place();
    *out = s->dim;
    if (frame_alive(s->capture)) return 0;
    raise_tracer(
        "%s:%d: a size that was made at %s:%d is used after the function it belongs to has ended (or in "
        "another thread): return it from the function instead of keeping it in a variable from outside",
        at.file, at.line, s->made.file, s->made.line);
    return -1;
}

int size_read(PyObject *o, hop_dim *out)
{
    if (is_size(o)) return dim_here(as_size(o), out) ? -1 : 1;
    if (!PyLong_Check(o) || !is_number(o)) return 0;
    int overflow;
    long long n = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow) return 0;
    *out = hop_dim_const(n);
    return 1;
}

static PyObject *made_dim(hop_dim d, hop_place at)
{
    if (!d.scope) return raise_status(hop_failed() ? hop_failed() : HOP_INVALID);
    int64_t n = (int64_t)d.id; /* negative ones are numbers, too */
    if (d.scope == hop_dim_const(0).scope) return PyLong_FromLongLong(n);
    return size_of_dim(frame_top()->serial, d, at);
}

PyObject *size_text(PyObject *self)
{
    hop_dim d;
    if (dim_here(as_size(self), &d)) return NULL;
    return PyUnicode_FromString(hop_dim_shown(d));
}

PyObject *size_value(PyObject *self, hop_place at)
{
    hop_dim d;
    if (dim_here(as_size(self), &d)) return NULL;
    hop_val v = hop_dim_value_at(at, d);
    PyObject *a = v.scope ? array_of_value(v, at) : raise_status(hop_failed());
    if (a) array_mark(as_array(a), true);
    return a;
}

/* ---- hints and constraints ---- */

/* The value of an expression over symbols in the call at hand, a new reference; NULL without an exception
 * when it speaks of others than the symbols that have a hint. */
static PyObject *hint_of(PyObject *shown)
{
    const struct frame *root = frame_top();
    const char *text = PyUnicode_AsUTF8AndSize(shown, NULL);
    while (root->outer) root = root->outer;
    if (!root->hints || !text || strchr(text, '?')) return NULL;
    PyObject *builtins = PyEval_GetBuiltins(), *globals = PyDict_New(), *none = PyDict_New(), *value = NULL;
    PyObject *min = PyDict_GetItemString(builtins, "min"), *max = PyDict_GetItemString(builtins, "max");
    PyObject *code = Py_CompileString(text, "<size>", Py_eval_input);
    if (code && globals && none && min && max && !PyDict_SetItemString(globals, "min", min) &&
        !PyDict_SetItemString(globals, "max", max) && !PyDict_SetItemString(globals, "__builtins__", none))
        value = PyEval_EvalCode(code, globals, root->hints);
    Py_XDECREF(globals);
    Py_XDECREF(none);
    Py_XDECREF(code);
    if (!value && PyErr_ExceptionMatches(PyExc_NameError)) PyErr_Clear();
    return value;
}

static const char *const signs[] = {
    [Py_LT] = "<", [Py_LE] = "<=", [Py_EQ] = "==", [Py_NE] = "!=", [Py_GT] = ">", [Py_GE] = ">="
};

/* Cuts " + 3" or " - 3" off the end of a sum and gives the number. */
static long long cut_constant(char *text)
{
    size_t n = strlen(text), digits = 0;
    while (digits < n && text[n - 1 - digits] >= '0' && text[n - 1 - digits] <= '9') digits++;
    char *sign = text + n - digits - 2;
    if (!digits || digits + 3 > n || sign[1] != ' ' || sign[-1] != ' ' || (*sign != '+' && *sign != '-'))
        return 0;
    long long constant = strtoll(text + n - digits, NULL, 10);
    sign[-1] = 0;
    return *sign == '-' ? -constant : constant;
}

/* "(T % 2)" becomes "T % 2". */
static void cut_parentheses(char *text)
{
    size_t n = strlen(text);
    int depth = 0;
    for (size_t i = 0; i < n; i++) {
        depth += (text[i] == '(') - (text[i] == ')');
        if (!depth && i + 1 < n) return;
    }
    if (*text != '(') return;
    text[n - 1] = 0;
    memmove(text, text + 1, n - 1);
}

/* Whether it was noted that an expression is what it is in the call at hand: that decides everything. */
static bool is_fixed(const char *text)
{
    const struct frame *root = frame_top();
    while (root->outer) root = root->outer;
    PyObject *shown = PyUnicode_FromString(text), *hint = shown ? hint_of(shown) : NULL;
    PyObject *said = hint ? PyUnicode_FromFormat("%U == %S", shown, hint) : NULL;
    int there = said && root->constraints ? PySequence_Contains(root->constraints, said) : 0;
    PyErr_Clear();
    Py_XDECREF(said);
    Py_XDECREF(hint);
    Py_XDECREF(shown);
    return there > 0;
}

/* Notes that the program is for calls in which a comparison holds alone; in one form, "T >= 3", whatever the
 * sides were. */
static int constrain(hop_dim a, hop_dim b, int how)
{
    static const int swapped[] = {
        [Py_LT] = Py_GT, [Py_LE] = Py_GE, [Py_EQ] = Py_EQ, [Py_NE] = Py_NE, [Py_GT] = Py_LT, [Py_GE] = Py_LE
    };
    char difference[2048], text[2100];
    hop_place at = user_place();
    snprintf(difference, sizeof difference, "%s", hop_dim_shown(hop_dim_sub_at(at, a, b)));
    if (*difference == '-') {
        how = swapped[how];
        snprintf(difference, sizeof difference, "%s", hop_dim_shown(hop_dim_sub_at(at, b, a)));
    }
    if (hop_failed() || !*difference) {
        raise_status(hop_failed() ? hop_failed() : HOP_INVALID);
        return -1;
    }
    if (strchr(difference, '?')) {
        raise_invalid("the sizes that are compared are too long expressions: %.200s", difference);
        return -1;
    }
    long long than = -cut_constant(difference);
    cut_parentheses(difference);
    if (is_fixed(difference)) return 0;
    if (how == Py_LT || how == Py_GT) {
        than += how == Py_LT ? -1 : 1;
        how = how == Py_LT ? Py_LE : Py_GE;
    }
    snprintf(text, sizeof text, "%s %s %lld", difference, signs[how], than);
    return frame_constrain(text);
}

/* The number of a size that was found out at a cut, or is by one; NULL without an exception: nothing can be
 * cut. */
static PyObject *size_cut(size_object *s)
{
    if (!s->live.link) return NULL;
    if (hop_dim_known(s->dim) < 0) {
        PyObject *value = size_value((PyObject *)s, user_place());
        PyObject *elements = value ? array_elements(as_array(value)) : NULL;
        Py_XDECREF(value);
        Py_XDECREF(elements);
        if (!elements) return NULL;
    }
    return PyLong_FromLongLong(hop_dim_known(s->dim)); /* as it is behind the cut */
}

PyObject *size_fixed(PyObject *self, const char *by)
{
    PyObject *cut = size_cut(as_size(self));
    if (cut || PyErr_Occurred()) return cut;
    PyObject *shown = size_text(self), *value = shown ? hint_of(shown) : NULL;
    hop_place made = as_size(self)->made;
    hop_dim number = hop_dim_const(value ? PyLong_AsLongLong(value) : 0);
    if (value && !PyErr_Occurred() && !constrain(as_size(self)->dim, number, Py_EQ)) {
        Py_DECREF(shown);
        return value;
    }
    if (shown && !PyErr_Occurred()) {
        char call[CALLED_SIZE];
        bool of_run = PyUnicode_FindChar(shown, '?', 0, PyUnicode_GetLength(shown), 1) >= 0;
        raise_unknown(
            "%s%s needs a number, and the size %U (of a value made at %s:%d) is %s: use "
            "hop.fori_loop, hop.scan(length=...) or hop.map instead of a loop of Python's, and give "
            "the size to hop's functions as it is",
            user_call(call), by, shown, made.file, made.line,
            of_run ? "known only when the program runs"
                   : "declared to be any, so that the program is for all of them");
    }
    Py_XDECREF(value);
    Py_XDECREF(shown);
    return NULL;
}

/* ---- comparisons ---- */

/* What orders of two sizes mean for a comparison: 1 it holds, 0 it does not, -1 who knows. */
static int decided(int order, int how)
{
    static const int holds[] = { [Py_LT] = HOP_DIM_LESS,  [Py_LE] = HOP_DIM_LESS | HOP_DIM_EQUAL,
                                 [Py_EQ] = HOP_DIM_EQUAL, [Py_NE] = HOP_DIM_LESS | HOP_DIM_MORE,
                                 [Py_GT] = HOP_DIM_MORE,  [Py_GE] = HOP_DIM_MORE | HOP_DIM_EQUAL };
    if (!(order & ~holds[how])) return 1;
    return order & holds[how] ? -1 : 0;
}

/* By the hints: 1, 0, -1 without an exception where there are none, -2 and an exception. */
static int guarded(hop_dim a, hop_dim b, int how)
{
    static const int opposite[] = {
        [Py_LT] = Py_GE, [Py_LE] = Py_GT, [Py_EQ] = Py_NE, [Py_NE] = Py_EQ, [Py_GT] = Py_LE, [Py_GE] = Py_LT
    };
    PyObject *x = PyUnicode_FromString(hop_dim_shown(a)), *y = PyUnicode_FromString(hop_dim_shown(b));
    PyObject *left = x ? hint_of(x) : NULL, *right = y && left ? hint_of(y) : NULL;
    int holds = left && right ? PyObject_RichCompareBool(left, right, how) : -1;
    if (holds >= 0 && constrain(a, b, holds ? how : opposite[how])) holds = -2;
    if (PyErr_Occurred()) holds = -2;
    Py_XDECREF(left);
    Py_XDECREF(right);
    Py_XDECREF(x);
    Py_XDECREF(y);
    return holds;
}

/* A real number beside whole ones: the whole number that the comparison is with. Gives 1 or 0 where the
 * answer does not depend on the size, else -1. */
static int whole_bound(double x, int how, long long *bound)
{
    const double most = 4e18;
    if (isnan(x)) return how == Py_NE;
    bool rounds_up = how == Py_LT || how == Py_GE;
    if ((how == Py_EQ || how == Py_NE) && (floor(x) != x || fabs(x) > most)) return how == Py_NE;
    if (fabs(x) > most) return (x > 0) == (how == Py_LT || how == Py_LE);
    *bound = (long long)(rounds_up ? ceil(x) : floor(x));
    return -1;
}

static PyObject *slot_compare(PyObject *x, PyObject *y, int how)
{
    static const int codes[] = {
        [Py_LT] = OP_lt, [Py_LE] = OP_le, [Py_EQ] = OP_eq, [Py_NE] = OP_ne, [Py_GT] = OP_gt, [Py_GE] = OP_ge
    };
    hop_dim a, b;
    int known = size_read(x, &a), beside = known > 0 ? size_read(y, &b) : 0, answer = -1;
    if (known < 0 || beside < 0) return NULL;
    if (!beside && PyFloat_Check(y) && is_number(y)) {
        long long bound = 0;
        answer = whole_bound(PyFloat_AsDouble(y), how, &bound);
        if (answer >= 0) return PyBool_FromLong(answer);
        b = hop_dim_const(bound);
        beside = 1;
    }
    if (!beside && PyLong_Check(y)) { /* too large for any size */
        int sign = 0;
        PyLong_AsLongLongAndOverflow(y, &sign);
        bool less = how == Py_LT || how == Py_LE;
        return PyBool_FromLong(how == Py_NE || (how != Py_EQ && (sign > 0) == less));
    }
    if (!beside)
        return is_array(y) || PyObject_CheckBuffer(y) ? binary_slot(codes[how], x, y)
                                                      : Py_NewRef(Py_NotImplemented);
    int order = hop_dim_order_at(user_place(), a, b);
    if (!order) return raise_status(hop_failed());
    answer = decided(order, how);
    if (answer < 0) answer = guarded(a, b, how);
    if (answer == -2) return NULL;
    return answer < 0 ? binary_slot(codes[how], x, y) : PyBool_FromLong(answer);
}

static int slot_bool(PyObject *self)
{
    PyObject *zero = PyLong_FromLong(0), *nonzero = zero ? slot_compare(self, zero, Py_NE) : NULL;
    int truth = -1;
    if (nonzero && is_array(nonzero) && array_may_cut(as_array(nonzero))) truth = PyObject_IsTrue(nonzero);
    else if (nonzero && is_array(nonzero)) {
        PyObject *shown = size_text(self);
        hop_place at = user_place();
        if (shown)
            raise_unknown(
                "%s:%d: whether the size %U is 0 is known only when the program runs: instead of if use "
                "hop.cond or hop.where",
                at.file, at.line, shown);
        Py_XDECREF(shown);
    } else if (nonzero) truth = nonzero == Py_True;
    Py_XDECREF(zero);
    Py_XDECREF(nonzero);
    return truth;
}
static PyObject *slot_index(PyObject *self)
{
    return size_fixed(self, "a Python integer (range, int, an index)");
}
static PyObject *slot_float(PyObject *self)
{
    PyObject *n = size_fixed(self, "float()"), *f = n ? PyNumber_Float(n) : NULL;
    Py_XDECREF(n);
    return f;
}
static Py_hash_t slot_hash(PyObject *self)
{
    PyObject *n = size_fixed(self, "hash() (a key of a dict, an element of a set)");
    Py_hash_t h = n ? PyObject_Hash(n) : -1;
    Py_XDECREF(n);
    return h;
}
static PyObject *slot_repr(PyObject *self)
{
    if (!frame_alive(as_size(self)->capture))
        return PyUnicode_FromString("<a size of a capture that has ended>");
    PyObject *text = size_text(self);
    return text;
}

/* ---- arithmetic ---- */

typedef hop_dim (*dim_operator)(hop_place at, hop_dim x, hop_dim y);

/* Programs divide sizes by positive ones alone: by proof, by a guard, or by a check when they run. */
static bool positive(PyObject *divisor, hop_dim d, hop_place at)
{
    int order = hop_dim_order_at(at, d, hop_dim_const(0));
    int answer = order ? decided(order, Py_GT) : 0;
    if (answer < 0) answer = guarded(d, hop_dim_const(0), Py_GT);
    if (answer > 0) return true;
    if (!order) raise_status(hop_failed());
    else if (!answer)
        PyErr_Format(PyExc_ZeroDivisionError, "a size is divided by %R, which is not above 0", divisor);
    if (PyErr_Occurred()) return false;
    hop_val value = hop_dim_value_at(at, d), above = hop_gt_at(at, value, hop_int(0));
    int status = hop_check_at(at, above, "a size is divided by one above 0: {}", &value, 1);
    if (status) raise_status(status);
    return !status;
}

/* Of sizes and integers a size, of anything else that hop computes with a value. */
static PyObject *combine(PyObject *x, PyObject *y, dim_operator make, int code)
{
    hop_dim a, b;
    int left = size_read(x, &a), right = left < 0 ? -1 : size_read(y, &b);
    if (left < 0 || right < 0) return NULL;
    if (!left || !right) return binary_slot(code, x, y);
    bool divides = make == hop_dim_floordiv_at || make == hop_dim_mod_at;
    if (divides && b.scope == hop_dim_const(0).scope && !b.id) {
        PyErr_SetString(PyExc_ZeroDivisionError, "integer division or modulo by zero");
        return NULL;
    }
    hop_place at = user_place();
    if (divides && is_size(y) && !positive(y, b, at)) return NULL;
    return made_dim(make(at, a, b), at);
}
#define ARITHMETIC(name, make, code) \
    static PyObject *slot_##name(PyObject *x, PyObject *y) { return combine(x, y, make, code); }
ARITHMETIC(add, hop_dim_add_at, OP_add)
ARITHMETIC(subtract, hop_dim_sub_at, OP_sub)
ARITHMETIC(multiply, hop_dim_mul_at, OP_mul)
ARITHMETIC(floor_divide, hop_dim_floordiv_at, OP_floor_div)
ARITHMETIC(remainder, hop_dim_mod_at, OP_mod)

#define AS_VALUE(name, code) \
    static PyObject *slot_##name(PyObject *x, PyObject *y) { return binary_slot(code, x, y); }
AS_VALUE(true_divide, OP_div)
AS_VALUE(and, OP_and)
AS_VALUE(or, OP_or)
AS_VALUE(xor, OP_xor)
AS_VALUE(matrix_multiply, OP_matmul)

static PyObject *slot_divmod(PyObject *x, PyObject *y)
{
    PyObject *q = slot_floor_divide(x, y);
    if (!q || q == Py_NotImplemented) return q;
    PyObject *r = slot_remainder(x, y), *both = r ? PyTuple_Pack(2, q, r) : NULL;
    Py_DECREF(q);
    Py_XDECREF(r);
    return both;
}

/* A Python integer from 0 to `most`; -1: something else. */
static long small_integer(PyObject *o, long most)
{
    int overflow;
    long n = PyLong_Check(o) && is_number(o) ? PyLong_AsLongAndOverflow(o, &overflow) : -1;
    return n > most || n < 0 ? -1 : n;
}
static PyObject *slot_power(PyObject *x, PyObject *y, PyObject *modulus)
{
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    long n = is_size(x) ? small_integer(y, 8) : -1;
    if (n < 0) {
        hop_place at = user_place();
        PyObject *a = is_size(x) ? size_value(x, at) : Py_NewRef(x);
        PyObject *b = a && is_size(y) ? size_value(y, at) : Py_NewRef(y);
        PyObject *r = a && b ? PyNumber_Power(a, b, Py_None) : NULL;
        Py_XDECREF(a);
        Py_XDECREF(b);
        return r;
    }
    PyObject *r = PyLong_FromLong(1);
    while (r && n-- > 0) {
        PyObject *next = slot_multiply(r, x);
        Py_DECREF(r);
        r = next;
    }
    return r;
}
/* By a power of 2. */
static PyObject *shifted(PyObject *x, PyObject *y, PyObject *(*by)(PyObject *, PyObject *), int code)
{
    long n = is_size(x) ? small_integer(y, 61) : -1;
    if (n < 0) return binary_slot(code, x, y);
    PyObject *factor = PyLong_FromLongLong(1LL << n), *r = factor ? by(x, factor) : NULL;
    Py_XDECREF(factor);
    return r;
}
static PyObject *slot_lshift(PyObject *x, PyObject *y) { return shifted(x, y, slot_multiply, OP_shift_left); }
static PyObject *slot_rshift(PyObject *x, PyObject *y)
{
    return shifted(x, y, slot_floor_divide, OP_shift_right);
}

static PyObject *slot_negative(PyObject *x)
{
    PyObject *zero = PyLong_FromLong(0), *r = zero ? slot_subtract(zero, x) : NULL;
    Py_XDECREF(zero);
    return r;
}
static PyObject *slot_positive(PyObject *x) { return Py_NewRef(x); }
static PyObject *slot_absolute(PyObject *x)
{
    PyObject *negative = slot_negative(x), *r = NULL;
    hop_dim a, b;
    int order = 0;
    if (negative && size_read(x, &a) > 0 && size_read(negative, &b) > 0) {
        order = hop_dim_order_at(user_place(), a, hop_dim_const(0));
        if (!order) raise_status(hop_failed());
        else if (!(order & HOP_DIM_LESS)) r = Py_NewRef(x);
        else r = made_dim(hop_dim_max_at(user_place(), a, b), user_place());
    }
    Py_XDECREF(negative);
    return r;
}
static PyObject *slot_invert(PyObject *x)
{
    PyObject *least = PyLong_FromLong(-1), *r = least ? slot_subtract(least, x) : NULL;
    Py_XDECREF(least);
    return r;
}

/* ---- for the package ---- */

static PyObject *get_handle(PyObject *self, void *unused)
{
    hop_dim d;
    (void)unused;
    if (dim_here(as_size(self), &d)) return NULL;
    return PyUnicode_FromFormat("#%llu.%llu", (unsigned long long)d.scope, (unsigned long long)d.id);
}
static PyObject *get_value(PyObject *self, void *unused)
{
    (void)unused;
    return size_value(self, user_place());
}
static PyObject *get_hint(PyObject *self, void *unused)
{
    PyObject *shown = size_text(self), *hint = shown ? hint_of(shown) : NULL;
    (void)unused;
    Py_XDECREF(shown);
    if (!hint && !PyErr_Occurred()) Py_RETURN_NONE;
    return hint;
}
/* order(a, b): which of a < b (1), a == b (2), a > b (4) may hold, as far as can be proved */
static PyObject *order(PyObject *self, PyObject *args)
{
    PyObject *x, *y;
    hop_dim a, b;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO", &x, &y)) return NULL;
    int left = size_read(x, &a), right = left > 0 ? size_read(y, &b) : 0;
    if (left < 0 || right < 0) return NULL;
    if (!left || !right) {
        PyErr_SetString(PyExc_TypeError, "order(a, b) takes integers and sizes");
        return NULL;
    }
    int found = hop_dim_order_at(user_place(), a, b);
    return found ? PyLong_FromLong(found) : raise_status(hop_failed());
}
/* decided(a, sign, b): whether a comparison holds, by proof or by a guard; None: only a run knows */
static PyObject *decided_or_none(PyObject *self, PyObject *args)
{
    PyObject *x, *y;
    const char *sign;
    hop_dim a, b;
    int how = 0, n_signs = (int)(sizeof signs / sizeof *signs);
    (void)self;
    if (!PyArg_ParseTuple(args, "OsO", &x, &sign, &y)) return NULL;
    while (how < n_signs && strcmp(signs[how], sign)) how++;
    int left = size_read(x, &a), right = left > 0 ? size_read(y, &b) : 0;
    if (left < 0 || right < 0) return NULL;
    if (!left || !right || how == n_signs) {
        PyErr_SetString(PyExc_TypeError, "decided(a, sign, b) takes integers and sizes");
        return NULL;
    }
    int order = hop_dim_order_at(user_place(), a, b);
    if (!order) return raise_status(hop_failed());
    int answer = decided(order, how);
    if (answer < 0) answer = guarded(a, b, how);
    if (answer == -2) return NULL;
    return answer < 0 ? Py_NewRef(Py_None) : PyBool_FromLong(answer);
}
static PyObject *extreme(PyObject *args, bool largest)
{
    PyObject *x, *y;
    hop_dim a, b;
    if (!PyArg_ParseTuple(args, "OO", &x, &y)) return NULL;
    int left = size_read(x, &a), right = left > 0 ? size_read(y, &b) : 0;
    if (left < 0 || right < 0) return NULL;
    if (!left || !right) {
        PyErr_SetString(PyExc_TypeError, "size_min and size_max take integers and sizes");
        return NULL;
    }
    hop_place at = user_place();
    int found = hop_dim_order_at(at, a, b);
    if (!found) return raise_status(hop_failed());
    if (!(found & HOP_DIM_MORE)) return Py_NewRef(largest ? y : x);
    if (!(found & HOP_DIM_LESS)) return Py_NewRef(largest ? x : y);
    return made_dim(largest ? hop_dim_max_at(at, a, b) : hop_dim_min_at(at, a, b), at);
}
static PyObject *size_min(PyObject *self, PyObject *args)
{
    (void)self;
    return extreme(args, false);
}
static PyObject *size_max(PyObject *self, PyObject *args)
{
    (void)self;
    return extreme(args, true);
}

static PyGetSetDef getset[] = {
    { "_handle", get_handle, NULL, "the size in texts of the capture", NULL },
    { "_value", get_value, NULL, "the size as a traced value that stands for a Python integer", NULL },
    { "_hint", get_hint, NULL, "what it is in the call at hand; None: only a run knows", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
/* What a copy of it is, and what rounding makes of it. */
static PyObject *method_itself(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}
static PyMethodDef methods[] = {
    { "__copy__", method_itself, METH_NOARGS, NULL },
    { "__deepcopy__", method_itself, METH_O, NULL },
    { "__floor__", method_itself, METH_NOARGS, NULL },
    { "__ceil__", method_itself, METH_NOARGS, NULL },
    { "__trunc__", method_itself, METH_NOARGS, NULL },
    { "__round__", method_itself, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot slots[] = {
    { Py_tp_doc,
      "A size of a captured program that is no number while it is captured: an integer to compute with, to\n"
      "compare, and to give to functions that take sizes. It stands in x.shape and x.size.\n\n"
      "Sums, products, quotients of sizes and integers are sizes; with real numbers and arrays they are "
      "values\n"
      "of the program. What nothing proves about a size is a guard of the program, or decided when it runs;\n"
      "range(n), int(n) and the like make the program one for this size alone.\n\n"
      ">>> f = hop.jit(lambda x: (hop.zeros(x[x > 0].shape[0] + 1), x.size))\n"
      ">>> f(hop.asarray([1.0, -1.0, 2.0]))\n"
      "(Array([0., 0., 0.], dtype=float32), Array(3, dtype=int64))\n"
      ">>> hop.jit(lambda x: x * isinstance(x[x > 0].size, hop.Size))(hop.asarray([1.0, 2.0]))\n"
      "Array([1., 2.], dtype=float32)\n" },
    { Py_tp_dealloc, size_dealloc },
    { Py_tp_getset, getset },
    { Py_tp_methods, methods },
    { Py_tp_repr, slot_repr },
    { Py_tp_hash, slot_hash },
    { Py_tp_richcompare, slot_compare },
    { Py_nb_add, slot_add },
    { Py_nb_subtract, slot_subtract },
    { Py_nb_multiply, slot_multiply },
    { Py_nb_true_divide, slot_true_divide },
    { Py_nb_floor_divide, slot_floor_divide },
    { Py_nb_remainder, slot_remainder },
    { Py_nb_divmod, slot_divmod },
    { Py_nb_power, slot_power },
    { Py_nb_and, slot_and },
    { Py_nb_or, slot_or },
    { Py_nb_xor, slot_xor },
    { Py_nb_lshift, slot_lshift },
    { Py_nb_rshift, slot_rshift },
    { Py_nb_matrix_multiply, slot_matrix_multiply },
    { Py_nb_negative, slot_negative },
    { Py_nb_positive, slot_positive },
    { Py_nb_absolute, slot_absolute },
    { Py_nb_invert, slot_invert },
    { Py_nb_bool, slot_bool },
    { Py_nb_int, slot_index },
    { Py_nb_index, slot_index },
    { Py_nb_float, slot_float },
    { 0, NULL },
};
static PyType_Spec spec = { "hop._array.Size", sizeof(size_object), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots };

static PyMethodDef functions[] = {
    { "order", order, METH_VARARGS,
      "order(a, b): 1 when a < b may hold, 2 when a == b may, 4 when a > b may" },
    { "decided", decided_or_none, METH_VARARGS,
      "decided(a, sign, b): whether it holds, by proof or by a guard; None: only a run knows" },
    { "size_min", size_min, METH_VARARGS, "size_min(a, b): the smaller of integers and sizes" },
    { "size_max", size_max, METH_VARARGS, "size_max(a, b): the larger of integers and sizes" },
    { NULL, NULL, 0, NULL },
};

int size_init(PyObject *module)
{
    size_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!size_type || PyModule_AddObjectRef(module, "Size", (PyObject *)size_type)) return 1;
    return PyModule_AddFunctions(module, functions) != 0;
}
