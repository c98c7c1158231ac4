/* The quick way of jit: a call outside of captures whose arguments are trees of arrays and whose types were
 * seen before runs without any Python code but what takes registered classes apart and puts them together.
 * Everything else goes to the method _slow, which calls _remember for the next time.
 *
 * Calls is the same for transforms and loops outside of jit: a table of programs that Python code asks. There
 * arguments may be values of Python's, too: texts are part of the key, numbers either are arguments of the
 * program or must be what they were, and other objects are watched by its guards. */
#include "core.h"

struct entry {
    struct entry *next;
    uint64_t hash, used; /* used: when it was last wanted */
    size_t length;
    PyObject *exe;
    PyObject *guards;    /* NULL: whatever there is outside, the program is good */
    PyObject *unflatten; /* None: one array, a tuple: a plan, else a function of the list of results */
    PyObject *fixed;     /* of Calls: for each leaf the number that it must be, or ... for an argument */
    PyObject *classes;   /* a list of those whose addresses are in the key */
    char key[];
};
enum { JIT_BUCKETS = 64, MOST_ENTRIES = 512, MOST_CALLS = 64 };
struct table {
    struct entry *entries[JIT_BUCKETS];
    int n_entries;
    uint64_t clock;
};
typedef struct {
    PyObject_HEAD struct table table;
    PyObject *function;
    PyObject *positions, *names; /* of arguments that are part of the program, tuples, or NULL */
} jit_object;
typedef struct {
    PyObject_HEAD struct table table;
} calls_object;

/* hop.tree's: class -> (flatten, unflatten, names of the fields or None, names of those that are part of the
 * structure). */
static PyObject *nodes;

/* What a call's arguments are taken apart into: leaves, and bytes that are equal for calls that the same
 * program serves. Both begin in the struct itself and move when there are more. */
enum { FEW_BYTES = 2048, FEW_LEAVES = 64 };
/* What is nested deeper is not for the quick way: Python itself says when that is too deep. */
enum { DEEP = 200 };
struct flat {
    char *key;
    size_t n, room;
    PyObject **leaves; /* strong */
    int n_leaves, leaf_room, depth;
    PyObject *classes; /* NULL: they need not be kept */
    bool values;       /* of Python's may stand among the arguments: numbers are leaves as they are */
    PyObject *objects; /* a list of those that guards must watch, NULL: there are none */
    char few_bytes[FEW_BYTES];
    PyObject *few_leaves[FEW_LEAVES];
};
static void flat_begin(struct flat *f, PyObject *classes)
{
    f->key = f->few_bytes;
    f->n = 0;
    f->room = FEW_BYTES;
    f->leaves = f->few_leaves;
    f->n_leaves = f->depth = 0;
    f->leaf_room = FEW_LEAVES;
    f->classes = classes;
    f->values = false;
    f->objects = NULL;
}
/* Room for twice as many as `used` bytes, in place of memory that may be `few`, part of a struct. NULL: there
 * is none. */
static void *grown(void *now, const void *few, size_t used)
{
    void *more = PyMem_Realloc(now == few ? NULL : now, 2 * used);
    if (more && now == few) memcpy(more, few, used);
    return more;
}
static bool flat_add(struct flat *f, const void *data, size_t n)
{
    while (f->n + n > f->room) {
        char *more = grown(f->key, f->few_bytes, f->room);
        if (!more) return false;
        f->key = more;
        f->room *= 2;
    }
    memcpy(f->key + f->n, data, n);
    f->n += n;
    return true;
}
/* Takes the reference, also on failure. */
static bool flat_leaf(struct flat *f, PyObject *leaf)
{
    if (f->n_leaves == f->leaf_room) {
        PyObject **more = grown(f->leaves, f->few_leaves, (size_t)f->leaf_room * sizeof *more);
        if (!more) {
            Py_DECREF(leaf);
            return false;
        }
        f->leaves = more;
        f->leaf_room *= 2;
    }
    f->leaves[f->n_leaves++] = leaf;
    return true;
}
static void flat_end(struct flat *f)
{
    for (int i = 0; i < f->n_leaves; i++) Py_DECREF(f->leaves[i]);
    if (f->leaves != f->few_leaves) PyMem_Free(f->leaves);
    if (f->key != f->few_bytes) PyMem_Free(f->key);
    Py_XDECREF(f->objects);
}
static bool flat_head(struct flat *f, char kind, Py_ssize_t n)
{
    int32_t head[2] = { kind, (int32_t)n };
    return flat_add(f, head, sizeof head);
}

/* A Python number as a program takes it: real ones as f64, so that nothing is lost before it is known what
 * they meet. */
PyObject *number_array(PyObject *o)
{
    hop_tensor *t = NULL;
    bool real = PyFloat_Check(o), truth = PyBool_Check(o);
    long long whole = real ? 0 : PyLong_AsLongLong(o);
    const char *dtype = truth ? "bool" : "i64";
    if (real) dtype = "f64";
    if (PyErr_Occurred() || hop_tensor_new_dims(&t, dtype, NULL, 0)) return NULL;
    if (real) *(double *)hop_data(t) = PyFloat_AsDouble(o);
    else if (truth) *(uint8_t *)hop_data(t) = whole != 0;
    else *(int64_t *)hop_data(t) = whole;
    return array_of_tensor(t);
}

static bool flatten(struct flat *f, PyObject *o);

/* A value that is part of the program, where its type and its bytes say it all. */
static bool flatten_static(struct flat *f, PyObject *o)
{
    if (o == Py_None) return flat_head(f, 'N', 0);
    if (PyBool_Check(o)) return flat_head(f, 'B', o == Py_True);
    if (PyUnicode_CheckExact(o)) {
        Py_ssize_t n;
        const char *text = PyUnicode_AsUTF8AndSize(o, &n);
        return text && flat_head(f, 'S', n) && flat_add(f, text, (size_t)n);
    }
    if (PyBytes_CheckExact(o)) {
        Py_ssize_t n = PyBytes_Size(o);
        return flat_head(f, 'Y', n) && flat_add(f, PyBytes_AsString(o), (size_t)n);
    }
    if (PyLong_CheckExact(o)) {
        long long whole = PyLong_AsLongLong(o);
        return !PyErr_Occurred() && flat_head(f, 'I', 0) && flat_add(f, &whole, sizeof whole);
    }
    if (PyFloat_CheckExact(o)) {
        double real = PyFloat_AsDouble(o);
        return flat_head(f, 'R', 0) && flat_add(f, &real, sizeof real);
    }
    if (!PyTuple_CheckExact(o) || !flat_head(f, '(', PyTuple_Size(o))) return false;
    bool good = ++f->depth < DEEP;
    for (Py_ssize_t i = 0; good && i < PyTuple_Size(o); i++) good = flatten_static(f, PyTuple_GetItem(o, i));
    f->depth--;
    return good;
}

/* An element of a list or a dict, which the functions of registered classes might change meanwhile. */
static bool flatten_held(struct flat *f, PyObject *o)
{
    if (!o) return false;
    Py_INCREF(o);
    bool good = flatten(f, o);
    Py_DECREF(o);
    return good;
}
static bool flatten_dict(struct flat *f, PyObject *o)
{
    PyObject *keys = PyDict_Keys(o);
    bool good = keys && !PyList_Sort(keys) && flat_head(f, '{', PyList_Size(keys));
    for (Py_ssize_t i = 0; good && i < PyList_Size(keys); i++) {
        PyObject *k = PyList_GetItem(keys, i);
        good = flatten_static(f, k) && flatten_held(f, PyDict_GetItem(o, k));
    }
    Py_XDECREF(keys);
    return good;
}

static bool flatten_class(struct flat *f, PyObject *cls, Py_ssize_t n)
{
    if (!flat_head(f, 'C', n) || !flat_add(f, &cls, sizeof cls)) return false;
    return !f->classes || !PyList_Append(f->classes, cls);
}

/* The fields of a dataclass. */
static bool flatten_fields(struct flat *f, PyObject *o, PyObject *cls, PyObject *children, PyObject *fixed)
{
    bool good = flatten_class(f, cls, PyTuple_Size(children));
    for (int part = 0; part < 2; part++) {
        PyObject *names = part ? fixed : children;
        for (Py_ssize_t i = 0; good && i < PyTuple_Size(names); i++) {
            PyObject *x = PyObject_GetAttr(o, PyTuple_GetItem(names, i));
            good = x && (part ? flatten_static(f, x) : flatten(f, x));
            Py_XDECREF(x);
        }
    }
    return good;
}

/* What a registered class's own function gives. */
static bool flatten_custom(struct flat *f, PyObject *o, PyObject *cls, PyObject *apart)
{
    PyObject *pair = PyObject_CallFunctionObjArgs(apart, o, NULL);
    bool good = pair && PyTuple_CheckExact(pair) && PyTuple_Size(pair) == 2;
    PyObject *children = good ? PySequence_List(PyTuple_GetItem(pair, 0)) : NULL;
    good = children && flatten_class(f, cls, PyList_Size(children)) &&
           flatten_static(f, PyTuple_GetItem(pair, 1));
    for (Py_ssize_t i = 0; good && i < PyList_Size(children); i++)
        good = flatten(f, PyList_GetItem(children, i));
    Py_XDECREF(children);
    Py_XDECREF(pair);
    return good;
}

/* A node that is no plain tuple, list or dict; *leaf when it is none. */
static bool flatten_node(struct flat *f, PyObject *o, bool *leaf)
{
    PyObject *cls = (PyObject *)Py_TYPE(o), *row = nodes ? PyDict_GetItemWithError(nodes, cls) : NULL;
    *leaf = false;
    if (row) {
        Py_INCREF(row);
        PyObject *names = PyTuple_GetItem(row, 2);
        bool good;
        if (names == Py_None) good = flatten_custom(f, o, cls, PyTuple_GetItem(row, 0));
        else good = flatten_fields(f, o, cls, names, PyTuple_GetItem(row, 3));
        Py_DECREF(row);
        return good;
    }
    if (PyTuple_Check(o)) {
        if (!PyObject_HasAttrString(cls, "_fields") || !flatten_class(f, cls, PyTuple_Size(o))) return false;
        for (Py_ssize_t i = 0; i < PyTuple_Size(o); i++)
            if (!flatten(f, PyTuple_GetItem(o, i))) return false;
        return true;
    }
    *leaf = !PyDict_Check(o);
    return false;
}

static bool flatten_items(struct flat *f, PyObject *o)
{
    bool tuple = PyTuple_CheckExact(o);
    Py_ssize_t n = tuple ? PyTuple_Size(o) : PyList_Size(o);
    if (!flat_head(f, tuple ? '(' : '[', n)) return false;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!flatten_held(f, tuple ? PyTuple_GetItem(o, i) : PyList_GetItem(o, i))) return false;
    return true;
}

/* A value of Python's that is no array. */
static bool flatten_value(struct flat *f, PyObject *o)
{
    if (PyUnicode_CheckExact(o) || PyBytes_CheckExact(o)) return flatten_static(f, o);
    if (PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o)) {
        char kind = PyFloat_CheckExact(o) ? 'R' : 'I';
        return flat_leaf(f, Py_NewRef(o)) && flat_head(f, PyBool_Check(o) ? 'B' : kind, -1);
    }
    if (!f->objects && !(f->objects = PyList_New(0))) return false;
    return flat_head(f, 'O', 0) && !PyList_Append(f->objects, o);
}

static bool flatten_leaf(struct flat *f, PyObject *o)
{
    if (f->values && !is_array(o) && !PyObject_CheckBuffer(o)) return flatten_value(f, o);
    if (f->values && PyBytes_CheckExact(o)) return flatten_value(f, o);
    bool number = !is_array(o) && is_number(o);
    PyObject *a;
    if (is_array(o)) a = Py_NewRef(o);
    else a = number ? number_array(o) : array_from_buffer(o, -1);
    if (!a || !flat_leaf(f, a)) return false;
    array_object *array = as_array(a);
    if (!array->tensor) return false;
    if (a != o) array->lent = true;
    int64_t dims[MAX_RANK];
    int rank = array_dims(array, dims);
    int kind = array->dtype + (number || array->weak ? N_DTYPES : 0); /* weak ones make other programs */
    if (array->spread) {                                              /* where it lies is part of its type */
        char at[LAYOUT_TEXT];
        size_t n = array_layout_text(array, at, sizeof at);
        if (!flat_head(f, '@', (Py_ssize_t)n) || !flat_add(f, at, n)) return false;
    }
    return flat_head(f, (char)('a' + kind), rank) && flat_add(f, dims, (size_t)rank * sizeof *dims);
}

/* False: this is not for the quick way. */
static bool flatten(struct flat *f, PyObject *o)
{
    if (o == Py_None) return flat_head(f, 'N', 0);
    bool leaf = is_array(o) || is_number(o), good = false;
    if (leaf) return flatten_leaf(f, o);
    if (++f->depth >= DEEP) return false;
    if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) good = flatten_items(f, o);
    else if (PyDict_CheckExact(o)) good = flatten_dict(f, o);
    else good = flatten_node(f, o, &leaf);
    f->depth--;
    return leaf ? flatten_leaf(f, o) : good;
}

/* Whether the argument at a position, or with a name, is part of the program. */
static bool static_position(const jit_object *j, Py_ssize_t i, Py_ssize_t n)
{
    for (Py_ssize_t k = 0; j->positions && k < PyTuple_Size(j->positions); k++) {
        Py_ssize_t p = PyLong_AsSsize_t(PyTuple_GetItem(j->positions, k));
        if (p == i || p + n == i) return true;
    }
    return false;
}
static bool static_name(const jit_object *j, PyObject *name)
{
    return j->names && PyTuple_Size(j->names) && PySequence_Contains(j->names, name) == 1;
}

/* The arguments of a call, in the order in which the program takes them. */
static bool flatten_call(const jit_object *j, struct flat *f, PyObject *args, PyObject *named)
{
    Py_ssize_t n = PyTuple_Size(args);
    /* a program is one of the modes that it was captured under */
    int32_t head[2] = { '(' | (int32_t)(hop_modes() << 8), (int32_t)n };
    bool good = flat_add(f, head, sizeof head);
    for (Py_ssize_t i = 0; good && i < n; i++) {
        PyObject *x = PyTuple_GetItem(args, i);
        good = static_position(j, i, n) ? flatten_static(f, x) : flatten(f, x);
    }
    if (!good || !named || !PyDict_Size(named)) return good;
    PyObject *keys = PyDict_Keys(named);
    good = keys && !PyList_Sort(keys) && flat_head(f, 'K', PyList_Size(keys));
    for (Py_ssize_t i = 0; good && i < PyList_Size(keys); i++) {
        PyObject *k = PyList_GetItem(keys, i), *x = PyDict_GetItem(named, k);
        good = x && flatten_static(f, k) && (static_name(j, k) ? flatten_static(f, x) : flatten_held(f, x));
    }
    Py_XDECREF(keys);
    return good;
}

static uint64_t flat_hash(const struct flat *f)
{
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i + 4 <= f->n; i += 4) {
        uint32_t w;
        memcpy(&w, f->key + i, 4);
        h = (h ^ w) * 0x9E3779B97F4A7C15u;
        h ^= h >> 31;
    }
    return h;
}

/* Whether numbers that are part of a program are what they were. */
static bool fixed_hold(PyObject *fixed, const struct flat *f)
{
    if (!fixed) return true;
    if (PyTuple_Size(fixed) != f->n_leaves) return false;
    for (int i = 0; i < f->n_leaves; i++) {
        PyObject *want = PyTuple_GetItem(fixed, i);
        if (want != Py_Ellipsis && !same_bits(f->leaves[i], want)) return false;
    }
    return true;
}
/* Leaves as the program takes them: without those that are part of it, numbers as arrays. */
static bool leave_out_fixed(PyObject *fixed, struct flat *f)
{
    int n = 0;
    bool good = true;
    for (int i = 0; i < f->n_leaves; i++) {
        PyObject *leaf = f->leaves[i];
        bool argument = good && (i >= PyTuple_Size(fixed) || PyTuple_GetItem(fixed, i) == Py_Ellipsis);
        PyObject *array = argument && !is_array(leaf) ? number_array(leaf) : NULL;
        if (argument && is_array(leaf)) array = Py_NewRef(leaf);
        good &= !argument || array;
        Py_DECREF(leaf);
        if (array) f->leaves[n++] = array;
    }
    f->n_leaves = n;
    return good;
}

/* A tree of results from its plan: True a leaf, None, ("=", anything) that thing, or a tuple of what it is
 * ("(", "[", the keys of a dict, or a function of the list of its children) and the plans of its children. */
static PyObject *grow(PyObject *plan, PyObject *leaves, Py_ssize_t *next);
static PyObject *grow_node(PyObject *plan, PyObject *leaves, Py_ssize_t *next)
{
    PyObject *kind = PyTuple_GetItem(plan, 0);
    if (!kind) return NULL;
    Py_ssize_t n = PyTuple_Size(plan) - 1;
    bool dict = PyTuple_Check(kind);
    bool tuple = PyUnicode_Check(kind) && PyUnicode_CompareWithASCIIString(kind, "(") == 0;
    bool constant = PyUnicode_Check(kind) && PyUnicode_CompareWithASCIIString(kind, "=") == 0;
    if (constant) return Py_XNewRef(PyTuple_GetItem(plan, 1));
    PyObject *made;
    if (dict) made = PyDict_New();
    else made = tuple ? PyTuple_New(n) : PyList_New(n);
    for (Py_ssize_t i = 0; made && i < n; i++) {
        PyObject *child = grow(PyTuple_GetItem(plan, i + 1), leaves, next);
        int failed = !child;
        if (child && dict) {
            failed = PyDict_SetItem(made, PyTuple_GetItem(kind, i), child);
            Py_DECREF(child);
        } else if (child) {
            failed = tuple ? PyTuple_SetItem(made, i, child) : PyList_SetItem(made, i, child);
        }
        if (failed) Py_CLEAR(made);
    }
    if (made && !dict && !PyUnicode_Check(kind)) {
        PyObject *node = PyObject_CallFunctionObjArgs(kind, made, NULL);
        Py_DECREF(made);
        return node;
    }
    return made;
}
static PyObject *grow(PyObject *plan, PyObject *leaves, Py_ssize_t *next)
{
    if (plan == Py_True) {
        PyObject *leaf = PyList_GetItem(leaves, (*next)++);
        return leaf ? Py_NewRef(leaf) : NULL;
    }
    if (plan == Py_None) return Py_NewRef(Py_None);
    if (Py_EnterRecursiveCall(" in a tree of results")) return NULL;
    PyObject *node = grow_node(plan, leaves, next);
    Py_LeaveRecursiveCall();
    return node;
}

/* ---- tables ---- */

static struct entry *table_find(struct table *t, const struct flat *f, PyObject *root, bool known_root)
{
    uint64_t hash = flat_hash(f);
    struct entry *e = t->entries[hash % JIT_BUCKETS];
    for (; e; e = e->next) {
        bool same_key = e->hash == hash && e->length == f->n && !memcmp(e->key, f->key, f->n);
        if (!same_key || !fixed_hold(e->fixed, f)) continue;
        if (!e->guards || guards_still_hold(e->guards, root, known_root)) break;
    }
    if (e) e->used = ++t->clock;
    return e;
}

static void entry_free(struct entry *e)
{
    Py_DECREF(e->exe);
    Py_XDECREF(e->guards);
    Py_DECREF(e->unflatten);
    Py_XDECREF(e->fixed);
    Py_DECREF(e->classes);
    PyMem_Free(e);
}
static void table_clear(struct table *t)
{
    for (int b = 0; b < JIT_BUCKETS; b++)
        while (t->entries[b]) {
            struct entry *e = t->entries[b];
            t->entries[b] = e->next;
            entry_free(e);
        }
    t->n_entries = 0;
}
/* Forgets the entry that was not wanted for the longest time. */
static void table_forget_one(struct table *t)
{
    struct entry **oldest = NULL;
    for (int b = 0; b < JIT_BUCKETS; b++)
        for (struct entry **at = &t->entries[b]; *at; at = &(*at)->next)
            if (!oldest || (*at)->used < (*oldest)->used) oldest = at;
    if (!oldest) return;
    struct entry *e = *oldest;
    *oldest = e->next;
    t->n_entries--;
    entry_free(e);
}
/* Keeps `what` (without key, hash and time) under the key of a call; takes its references when it does. */
static bool table_add(struct table *t, const struct flat *f, const struct entry *what)
{
    struct entry *e = PyMem_Malloc(sizeof *e + f->n);
    if (!e) return false;
    *e = *what;
    e->hash = flat_hash(f);
    e->length = f->n;
    e->used = ++t->clock;
    memcpy(e->key, f->key, f->n);
    e->next = t->entries[e->hash % JIT_BUCKETS];
    t->entries[e->hash % JIT_BUCKETS] = e;
    t->n_entries++;
    return true;
}
static int table_traverse(const struct table *t, visitproc visit, void *arg)
{
    for (int b = 0; b < JIT_BUCKETS; b++)
        for (const struct entry *e = t->entries[b]; e; e = e->next) {
            Py_VISIT(e->exe);
            Py_VISIT(e->guards);
            Py_VISIT(e->unflatten);
            Py_VISIT(e->fixed);
            Py_VISIT(e->classes);
        }
    return 0;
}

static PyObject *list_of(PyObject **objects, int n)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) PyList_SetItem(list, i, Py_NewRef(objects[i]));
    return list;
}

/* Results as the tree that a program gives; of Calls a function gets the operands, too. */
static PyObject *grown_results(PyObject *unflatten, PyObject *results, const struct flat *f)
{
    Py_ssize_t next = 0;
    if (PyTuple_Check(unflatten)) return grow(unflatten, results, &next);
    if (!f->values) return PyObject_CallFunctionObjArgs(unflatten, results, NULL);
    PyObject *operands = list_of(f->leaves, f->n_leaves);
    PyObject *tree = operands ? PyObject_CallFunctionObjArgs(unflatten, results, operands, NULL) : NULL;
    Py_XDECREF(operands);
    return tree;
}

static PyObject *run_entry(const struct entry *e, struct flat *f)
{
    exe_object *exe = (exe_object *)e->exe;
    Py_ssize_t hidden = guards_hidden(e->guards);
    for (Py_ssize_t i = 0; i < hidden; i++) {
        PyObject *a = guards_argument(e->guards, i);
        if (!a) return NULL;
        if (!flat_leaf(f, a)) return PyErr_NoMemory();
    }
    if (e->fixed && !leave_out_fixed(e->fixed, f)) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return NULL;
        PyErr_Clear(); /* the slow way names the argument */
        return Py_NewRef(Py_NotImplemented);
    }
    if (f->n_leaves != exe->n_in) {
        PyErr_SetString(PyExc_RuntimeError, "a program was kept under the wrong types");
        return NULL;
    }
    hop_tensor *few_in[FEW_LEAVES], **in = few_in;
    if (exe->n_in > FEW_LEAVES && !(in = PyMem_Malloc((size_t)exe->n_in * sizeof *in)))
        return PyErr_NoMemory();
    for (int i = 0; i < f->n_leaves; i++) in[i] = as_array(f->leaves[i])->tensor;
    PyObject *kept_exe = Py_NewRef(e->exe);
    PyObject *unflatten = Py_NewRef(e->unflatten);
    PyObject *r = run_tensors(exe, in, f->leaves, unflatten != Py_None);
    if (r && unflatten != Py_None) {
        PyObject *tree = grown_results(unflatten, r, f);
        Py_DECREF(r);
        r = tree;
    }
    Py_DECREF(kept_exe);
    Py_DECREF(unflatten);
    if (in != few_in) PyMem_Free(in);
    return r;
}

static bool keep_entry(struct table *t, const struct flat *f, PyObject *exe, PyObject *guards,
                       PyObject *unflatten, PyObject *fixed)
{
    struct entry e = { .exe = Py_NewRef(exe),
                       .guards = Py_XNewRef(guards),
                       .unflatten = Py_NewRef(unflatten),
                       .fixed = Py_XNewRef(fixed),
                       .classes = Py_NewRef(f->classes) };
    if (table_add(t, f, &e)) return true;
    Py_DECREF(exe);
    Py_XDECREF(guards);
    Py_DECREF(unflatten);
    Py_XDECREF(fixed);
    Py_DECREF(f->classes);
    return false;
}

/* Whether functions run as plain Python: on this thread, and on those that have not been told otherwise. */
enum mode { AS_ALL, COMPILED, PLAIN };
static enum mode mode_of_all = COMPILED;
static _Thread_local enum mode mode_here;
static bool is_plain(void) { return (mode_here == AS_ALL ? mode_of_all : mode_here) == PLAIN; }

/* disable_jit(disable): how it was before, as this function takes it again. */
static PyObject *disable_jit(PyObject *self, PyObject *disable)
{
    (void)self;
    enum mode before = mode_here;
    if (disable == Py_None) mode_here = AS_ALL;
    else mode_here = PyObject_IsTrue(disable) ? PLAIN : COMPILED;
    if (before == AS_ALL) Py_RETURN_NONE;
    return PyBool_FromLong(before == PLAIN);
}
static PyObject *disable_jit_everywhere(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    mode_of_all = PLAIN;
    Py_RETURN_NONE;
}
static PyObject *jit_disabled(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyBool_FromLong(is_plain());
}

static PyObject *modes(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromLong((long)hop_modes());
}
static PyObject *set_modes(PyObject *self, PyObject *now)
{
    long wanted = PyLong_AsLong(now);
    (void)self;
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromLong((long)hop_modes_set((unsigned)wanted));
}

/* What is not quick goes to a method of the class, or to the function itself. */
static PyObject *call_attribute(PyObject *self, const char *name, PyObject *args, PyObject *named)
{
    PyObject *f = PyObject_GetAttrString(self, name);
    PyObject *r = f ? PyObject_Call(f, args, named) : NULL;
    Py_XDECREF(f);
    if (!r) hide_frames();
    return r;
}

static PyObject *jit_call(PyObject *self, PyObject *args, PyObject *named)
{
    jit_object *j = (jit_object *)self;
    if (is_plain()) return call_attribute(self, "_plainly", args, named);
    if (!frame_top()) {
        PyObject *r = NULL;
        struct flat f;
        flat_begin(&f, NULL);
        const struct entry *e = NULL;
        if (flatten_call(j, &f, args, named)) {
            e = table_find(&j->table, &f, j->function, true);
            const exe_object *exe = e ? (exe_object *)e->exe : NULL;
            int unfit = exe && exe->updated ? prepare_updates(exe, f.leaves) : 0;
            if (unfit > 0) e = NULL; /* the slow way says why */
            if (e && !unfit) r = run_entry(e, &f);
        } else {
            PyErr_Clear();
        }
        flat_end(&f);
        if (e) {
            if (!r) hide_frames();
            return r;
        }
    }
    return call_attribute(self, "_slow", args, named);
}

/* _remember(args, named, exe, guards, unflatten) */
static PyObject *jit_remember(PyObject *self, PyObject *given)
{
    jit_object *j = (jit_object *)self;
    PyObject *args, *named, *exe, *guards, *unflatten;
    if (!PyArg_ParseTuple(given, "O!O!O!O!O", &PyTuple_Type, &args, &PyDict_Type, &named, exe_type, &exe,
                          guards_type, &guards, &unflatten))
        return NULL;
    PyObject *classes = PyList_New(0);
    if (!classes) return NULL;
    struct flat f;
    flat_begin(&f, classes);
    bool good = flatten_call(j, &f, args, named);
    PyErr_Clear();
    if (good && j->table.n_entries >= MOST_ENTRIES) table_clear(&j->table);
    bool kept = good && keep_entry(&j->table, &f, exe, guards, unflatten, NULL);
    flat_end(&f);
    Py_DECREF(classes);
    return good && !kept ? PyErr_NoMemory() : PyBool_FromLong(good);
}

static PyObject *jit_forget(PyObject *self, PyObject *unused)
{
    (void)unused;
    table_clear(&((jit_object *)self)->table);
    Py_RETURN_NONE;
}
/* _set(function, static positions, static names) */
static PyObject *jit_set(PyObject *self, PyObject *given)
{
    jit_object *j = (jit_object *)self;
    PyObject *new[3], **old[3] = { &j->function, &j->positions, &j->names };
    if (!PyArg_ParseTuple(given, "OO!O!", &new[0], &PyTuple_Type, &new[1], &PyTuple_Type, &new[2]))
        return NULL;
    for (int i = 0; i < 3; i++) {
        PyObject *before = *old[i];
        *old[i] = Py_NewRef(new[i]);
        Py_XDECREF(before);
    }
    Py_RETURN_NONE;
}
static PyObject *set_nodes(PyObject *self, PyObject *dict)
{
    (void)self;
    Py_XDECREF(nodes);
    nodes = PyDict_Check(dict) ? Py_NewRef(dict) : NULL;
    Py_RETURN_NONE;
}
static int jit_traverse(PyObject *self, visitproc visit, void *arg)
{
    jit_object *j = (jit_object *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(j->function);
    Py_VISIT(j->positions);
    Py_VISIT(j->names);
    return table_traverse(&j->table, visit, arg);
}
static int jit_clear(PyObject *self)
{
    table_clear(&((jit_object *)self)->table);
    Py_CLEAR(((jit_object *)self)->function);
    Py_CLEAR(((jit_object *)self)->positions);
    Py_CLEAR(((jit_object *)self)->names);
    return 0;
}
static void jit_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    jit_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- calls of transforms and loops outside of jit ---- */

/* The arguments of a call in the order in which they are gone through; what they are root of: what guards of
 * the program start from, a new reference, the function alone or it and the objects among the arguments. */
static PyObject *calls_flatten(struct flat *f, PyObject *function, PyObject *args, PyObject *named)
{
    static const jit_object none; /* no argument is static */
    f->values = true;
    if (!flatten_call(&none, f, args, named)) return NULL;
    if (!f->objects) return Py_NewRef(function);
    Py_ssize_t n = PyList_Size(f->objects);
    PyObject *root = PyTuple_New(n + 1);
    if (!root) return NULL;
    PyTuple_SetItem(root, 0, Py_NewRef(function));
    for (Py_ssize_t i = 0; i < n; i++) PyTuple_SetItem(root, i + 1, Py_NewRef(PyList_GetItem(f->objects, i)));
    return root;
}

/* call(function, args, named): what a program that was kept gives, NotImplemented: there is none. */
static PyObject *calls_call(PyObject *self, PyObject *const *given, Py_ssize_t n)
{
    if (n != 3 || !PyTuple_Check(given[1]) || !PyDict_Check(given[2])) {
        PyErr_SetString(PyExc_TypeError, "call(function, args, named)");
        return NULL;
    }
    struct table *table = &((calls_object *)self)->table;
    if (!table->n_entries || is_plain() || frame_top()) return Py_NewRef(Py_NotImplemented);
    struct flat f;
    flat_begin(&f, NULL);
    PyObject *root = calls_flatten(&f, given[0], given[1], given[2]);
    const struct entry *e = root ? table_find(table, &f, root, false) : NULL;
    PyErr_Clear();
    PyObject *r = e ? run_entry(e, &f) : Py_NewRef(Py_NotImplemented);
    Py_XDECREF(root);
    flat_end(&f);
    return r;
}

static bool same_objects(PyObject *a, PyObject *b)
{
    Py_ssize_t n = a ? PyList_Size(a) : 0;
    if (PyList_Size(b) != n) return false;
    for (Py_ssize_t i = 0; i < n; i++)
        if (PyList_GetItem(a, i) != PyList_GetItem(b, i)) return false;
    return true;
}

/* keep(args, named, exe, guards or None, unflatten, numbers, objects): such calls run the program from now
 * on. numbers: for each leaf the number that it must be, or ... for an argument; objects: those among the
 * arguments that the guards know. False: the arguments are taken apart otherwise here. */
static PyObject *calls_keep(PyObject *self, PyObject *given)
{
    PyObject *args, *named, *exe, *guards, *unflatten, *fixed, *objects;
    if (!PyArg_ParseTuple(given, "O!O!O!OOO!O!", &PyTuple_Type, &args, &PyDict_Type, &named, exe_type, &exe,
                          &guards, &unflatten, &PyTuple_Type, &fixed, &PyList_Type, &objects))
        return NULL;
    struct table *table = &((calls_object *)self)->table;
    PyObject *classes = PyList_New(0);
    if (!classes) return NULL;
    struct flat f;
    flat_begin(&f, classes);
    PyObject *root = calls_flatten(&f, Py_None, args, named);
    PyErr_Clear();
    bool good = root && fixed_hold(fixed, &f) && same_objects(f.objects, objects);
    if (good && table->n_entries >= MOST_CALLS) table_forget_one(table);
    bool kept = good && keep_entry(table, &f, exe, guards == Py_None ? NULL : guards, unflatten, fixed);
    flat_end(&f);
    Py_XDECREF(root);
    Py_DECREF(classes);
    return good && !kept ? PyErr_NoMemory() : PyBool_FromLong(good);
}
static PyObject *calls_clear_all(PyObject *self, PyObject *unused)
{
    (void)unused;
    table_clear(&((calls_object *)self)->table);
    Py_RETURN_NONE;
}
static PyObject *calls_count(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(((calls_object *)self)->table.n_entries);
}
static int calls_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return table_traverse(&((calls_object *)self)->table, visit, arg);
}
static int calls_clear(PyObject *self)
{
    table_clear(&((calls_object *)self)->table);
    return 0;
}
static void calls_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    calls_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef calls_methods[] = {
    { "call", (PyCFunction)(void (*)(void))calls_call, METH_FASTCALL,
      "call(function, args, named): what a program that was kept gives, NotImplemented: there is none" },
    { "keep", calls_keep, METH_VARARGS,
      "keep(args, named, exe, guards or None, unflatten, numbers, objects): whether such calls run it from "
      "now on" },
    { "clear", calls_clear_all, METH_NOARGS, "forgets all programs" },
    { "count", calls_count, METH_NOARGS, "how many programs are kept" },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot calls_slots[] = { { Py_tp_dealloc, calls_dealloc },
                                     { Py_tp_traverse, calls_traverse },
                                     { Py_tp_clear, calls_clear },
                                     { Py_tp_methods, calls_methods },
                                     { 0, NULL } };
static PyType_Spec calls_spec = { "hop._core.Calls", sizeof(calls_object), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                  calls_slots };

/* ---- the type ---- */

static PyMethodDef jit_methods[] = {
    { "_remember", jit_remember, METH_VARARGS,
      "_remember(args, named, exe, guards, unflatten): whether such calls are quick from now on" },
    { "_forget", jit_forget, METH_NOARGS, "forgets all programs" },
    { "_set", jit_set, METH_VARARGS, "_set(function, static positions, static names)" },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot jit_slots[] = { { Py_tp_dealloc, jit_dealloc }, { Py_tp_traverse, jit_traverse },
                                   { Py_tp_clear, jit_clear },     { Py_tp_call, jit_call },
                                   { Py_tp_methods, jit_methods }, { 0, NULL } };
static PyType_Spec jit_spec = { "hop._core.JitBase", sizeof(jit_object), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, jit_slots };

static PyMethodDef functions[] = {
    { "set_nodes", set_nodes, METH_O, "set_nodes(dict): which classes are nodes of trees" },
    { "disable_jit", disable_jit, METH_O,
      "disable_jit(True, False or None): functions run as plain Python on this thread, are compiled, or do "
      "as "
      "everywhere; gives how it was" },
    { "disable_jit_everywhere", disable_jit_everywhere, METH_NOARGS, "functions run as plain Python" },
    { "modes", modes, METH_NOARGS, "the modes of this thread, a number: bits of enum hop_mode" },
    { "set_modes", set_modes, METH_O, "set_modes(modes): those before" },
    { "jit_disabled", jit_disabled, METH_NOARGS, "whether functions run as plain Python on this thread" },
    { NULL, NULL, 0, NULL },
};

int jit_init(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&jit_spec), *calls = PyType_FromSpec(&calls_spec);
    int failed = !type || !calls || PyModule_AddObjectRef(module, "JitBase", type) ||
                 PyModule_AddObjectRef(module, "Calls", calls) || PyModule_AddFunctions(module, functions);
    Py_XDECREF(type);
    Py_XDECREF(calls);
    return failed ? -1 : 0;
}
