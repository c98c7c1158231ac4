/* Calls of operators on concrete arrays: each runs a program of that one operator, captured from its row and
 * kept under the types of its operands, interpreted at first, compiled once it is used often or on much
 * data. */
#include "ops.h"

#include <stdio.h>
#include <stdlib.h>

struct program {
    struct program *next;
    uint64_t hash;
    size_t length;
    hop_fn *fn;
    hop_exe *exe;
    int n_out, users; /* runs that are under way */
    uint32_t uses;
    bool interpreted; /* there is no compiler */
    char key[];
};
enum { BUCKETS = 1024, MOST_PROGRAMS = 4096, OFTEN = 12, MUCH = 16384 };
static struct program *programs[BUCKETS];
static int n_programs;

static void forget_programs(void)
{
    for (int b = 0; b < BUCKETS; b++)
        for (struct program **at = &programs[b]; *at;) {
            struct program *p = *at;
            if (p->users) {
                at = &p->next;
                continue;
            }
            *at = p->next;
            hop_fn_free(p->fn);
            hop_exe_free(p->exe);
            free(p);
            n_programs--;
        }
}

struct key {
    char data[1024];
    size_t n;
};
static void key_add(struct key *k, const void *data, size_t n)
{
    if (k->n + n <= sizeof k->data) memcpy(k->data + k->n, data, n);
    k->n += n;
}
static void key_text(struct key *k, const char *text)
{
    if (text) key_add(k, text, strlen(text) + 1);
    else key_add(k, "\1", 2);
}
static uint64_t key_hash(const struct key *k)
{
    uint64_t h = 1469598103934665603u;
    size_t i = 0;
    for (; i + 8 <= k->n; i += 8) {
        uint64_t w;
        memcpy(&w, k->data + i, 8);
        h = (h ^ w) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    for (; i < k->n; i++) h = (h ^ (uint8_t)k->data[i]) * 1099511628211u;
    return h ^ h >> 32;
}

static hop_tensor *number_tensor(const struct operand *o, int dtype)
{
    hop_tensor *t = NULL;
    if (hop_tensor_new_dims(&t, dtype_rows[dtype].name, NULL, 0)) return NULL;
    double real = o->weak == WEAK_REAL ? o->real : (double)o->integer;
    char *p = hop_data(t);
    if (dtype == DT_F64) memcpy(p, &real, 8);
    else if (dtype == DT_F32) *(float *)p = o->weak == WEAK_REAL ? (float)o->real : (float)o->integer;
    else if (dtype_rows[dtype].kind == 'f') *(uint16_t *)p = double_to_half(real, dtype == DT_BF16);
    else if (dtype == DT_BOOL) *p = o->integer != 0;
    else memcpy(p, &o->integer, dtype_rows[dtype].size);
    return t;
}

struct eager {
    const struct call *c;
    struct operand *in;
    const struct joined *joined;
    hop_tensor *tensors[FEW];
    /* Of the operands that are parameters, strong; NULL: a number that is part of the program. */
    hop_tensor **t;
    int n_params, n_out;
    bool flat; /* sizes do not matter, but for the number of axes */
    int64_t work;
};

/* Numbers beside arrays are arguments of the program, so that it serves all of them. One that the dtype does
 * not hold stays part of the program, as wherever an operator is not elementwise: the library says what is
 * wrong with it. */
static int bring_numbers(struct eager *e)
{
    e->flat = e->c->row->flags & FLAT;
    const array_object *shaped = NULL;
    for (Py_ssize_t i = 0; i < e->c->n; i++) {
        array_object *a = e->in[i].array ? as_array(e->in[i].array) : NULL;
        if (!a) continue;
        if (!concrete_tensor(a)) return -1;
        e->work += hop_tensor_count(a->tensor);
        if (a->rank && shaped) {
            if (a->rank != shaped->rank) e->flat = false;
            for (int d = 0; e->flat && d < a->rank; d++)
                e->flat = hop_tensor_dim(a->tensor, d) == hop_tensor_dim(shaped->tensor, d);
        } else if (a->rank) {
            shaped = a;
        }
    }
    for (Py_ssize_t i = 0; i < e->c->n; i++) {
        const struct operand *o = &e->in[i];
        /* Held here: another thread may give the array another one. */
        e->t[i] = o->array ? hop_tensor_ref(as_array(o->array)->tensor) : NULL;
        if (o->array || !(e->c->row->flags & FLAT)) continue;
        int dtype = e->joined->weak_to;
        if (i < e->joined->first) dtype = DT_BOOL;
        else if (dtype < 0) dtype = dtype_with_number(NO_DTYPE, o->weak);
        bool whole = dtype_rows[dtype].kind == 'i' || dtype_rows[dtype].kind == 'u';
        if (whole && number_beside(dtype, o)) continue;
        if (!(e->t[i] = number_tensor(o, dtype))) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return 0;
}

static void eager_key(struct eager *e, struct key *k)
{
    const struct call *c = e->c;
    uint64_t casts = hop_modes() & HOP_AUTOCAST;
    key_add(k, &c->row, sizeof c->row);
    key_add(k, &casts, sizeof casts);
    key_add(k, &c->i, sizeof c->i);
    key_add(k, &c->j, sizeof c->j);
    if (c->row->kind != X && c->row->kind != XX) {
        key_text(k, c->text);
        key_text(k, c->text2);
        key_text(k, c->text3);
    }
    for (Py_ssize_t i = 0; i < c->n; i++) {
        const hop_tensor *t = e->t[i];
        const array_object *a = e->in[i].array ? as_array(e->in[i].array) : NULL;
        int dtype = e->in[i].weak;
        if (a) dtype = a->dtype;
        else if (t) dtype = dtype_named(hop_tensor_dtype(t));
        int rank = t ? hop_tensor_rank(t) : 0;
        bool weak = a && a->weak;
        char what[4] = { (char)(t ? 'a' : 'w'), (char)dtype, (char)rank, (char)(e->flat | weak << 1) };
        key_add(k, what, sizeof what);
        if (!t) {
            uint64_t bits[2] = { (uint64_t)e->in[i].integer, 0 };
            memcpy(&bits[1], &e->in[i].real, 8);
            key_add(k, bits, sizeof bits);
        }
        for (int d = 0; t && !e->flat && d < rank; d++) key_add(k, &(int64_t){ hop_tensor_dim(t, d) }, 8);
    }
}

static int eager_body(void *env, const hop_val *in, hop_val *out)
{
    struct eager *e = env;
    hop_val few[FEW], *values = e->c->n > FEW ? PyMem_Malloc((size_t)e->c->n * sizeof *values) : few;
    if (!values) return HOP_NOMEM;
    for (Py_ssize_t i = 0, p = 0; i < e->c->n; i++) values[i] = e->t[i] ? in[p++] : operand_number(&e->in[i]);
    int status = call_emit(user_place(), e->c, e->in, e->joined, values, out);
    if (values != few) PyMem_Free(values);
    return status;
}

static struct program *make_program(struct eager *e, const struct key *k, uint64_t hash)
{
    size_t room = 64 + (size_t)e->c->n * 288, n = 0;
    char *params = PyMem_Malloc(room);
    struct program *p = malloc(sizeof *p + k->n);
    if (!params || !p) goto memory;
    n += (size_t)snprintf(params, room, "%s(", e->c->row->name);
    for (Py_ssize_t i = 0, m = 0; i < e->c->n; i++) {
        const hop_tensor *t = e->t[i];
        if (!t) continue;
        n += (size_t)snprintf(params + n, room - n, "%sx%d: %s[", m ? ", " : "", (int)m, hop_tensor_dtype(t));
        for (int d = 0; d < hop_tensor_rank(t); d++) {
            const char *comma = d ? ", " : "";
            long long size = hop_tensor_dim(t, d);
            if (e->flat) n += (size_t)snprintf(params + n, room - n, "%sN%d", comma, d);
            else n += (size_t)snprintf(params + n, room - n, "%s%lld", comma, size);
        }
        n += (size_t)snprintf(params + n, room - n, "]");
        m++;
    }
    snprintf(params + n, room - n, ")");
    *p = (struct program){ .hash = hash, .length = k->n, .n_out = e->n_out };
    memcpy(p->key, k->data, k->n <= sizeof k->data ? k->n : 0);
    unsigned modes = hop_modes();
    hop_modes_set(modes & HOP_AUTOCAST); /* nobody differentiates it */
    int status = hop_capture_at(user_place(), &p->fn, params, e->n_out, eager_body, e);
    hop_modes_set(modes);
    PyMem_Free(params);
    if (!status) return p;
    free(p);
    raise_status(status);
    return NULL;
memory:
    PyMem_Free(params);
    free(p);
    PyErr_NoMemory();
    return NULL;
}

static struct program *find_program(struct eager *e)
{
    struct key k = { .n = 0 };
    eager_key(e, &k);
    if (k.n > sizeof k.data) k.n = 0; /* too long to be kept */
    uint64_t hash = key_hash(&k);
    for (struct program *p = programs[hash % BUCKETS]; p && k.n; p = p->next)
        if (p->hash == hash && p->length == k.n && !memcmp(p->key, k.data, k.n)) return p;
    struct program *p = make_program(e, &k, hash);
    if (!p) return NULL;
    if (n_programs >= MOST_PROGRAMS) forget_programs();
    if (k.n) {
        p->next = programs[hash % BUCKETS];
        programs[hash % BUCKETS] = p;
        n_programs++;
    }
    return p;
}

static int run_program(struct program *p, hop_tensor **in, int n_in, hop_tensor **out, int64_t work)
{
    int status;
    p->users++;
    if (!p->exe && !p->interpreted && (p->uses >= OFTEN || work >= MUCH)) {
        hop_exe *exe = NULL;
        hop_compile_options o = { 0 };
        status = compile_once(&exe, p->fn, &o);
        if (p->exe) hop_exe_free(exe); /* another thread was quicker */
        else p->exe = exe;
        if (status == HOP_CANCELLED) {
            p->users--;
            return status;
        }
        if (status) p->interpreted = true;
    }
    p->uses++;
    if (work >= MUCH) {
        hop_run_options o = { 0 };
        bool ours = signals_begin(&o.cancel, &o.confirm);
        Py_BEGIN_ALLOW_THREADS status = p->exe ? hop_run_with(p->exe, in, n_in, out, p->n_out, &o)
                                               : hop_interpret_with(p->fn, in, n_in, out, p->n_out, &o);
        Py_END_ALLOW_THREADS signals_end(ours);
    } else {
        if (p->exe) status = hop_run(p->exe, in, n_in, out, p->n_out);
        else status = hop_interpret(p->fn, in, n_in, out, p->n_out);
    }
    p->users--;
    return status;
}

PyObject *run_at_once(const struct call *c, struct operand *in, const struct joined *j)
{
    struct eager e = { .c = c, .in = in, .joined = j, .n_out = call_results(c, in) };
    hop_tensor *few[2 * FEW], **args = few;
    PyObject *few_made[FEW], **made = few_made, *answer = NULL;
    struct program *p = NULL;
    int n = 0, i;
    e.t = e.tensors;
    if (c->n > FEW || e.n_out > FEW) {
        e.t = PyMem_Calloc((size_t)c->n + 1, sizeof *e.t);
        args = PyMem_Calloc((size_t)(c->n + e.n_out) + 1, sizeof *args);
        made = PyMem_Calloc((size_t)e.n_out + 1, sizeof *made);
        if (!e.t || !args || !made) {
            PyErr_NoMemory();
            goto done;
        }
    }
    if (bring_numbers(&e) || !(p = find_program(&e))) goto done;
    for (Py_ssize_t k = 0; k < c->n; k++)
        if (e.t[k]) args[n++] = e.t[k];
    hop_tensor **out = args + n;
    for (i = 0; i < e.n_out; i++) out[i] = NULL;
    int status = run_program(p, args, n, out, e.work);
    if (status) {
        raise_status(status);
        goto done;
    }
    for (i = 0; i < e.n_out; i++) {
        if (!(made[i] = array_of_tensor(out[i]))) {
            for (int k = 0; k < i; k++) Py_DECREF(made[k]);
            for (int k = i + 1; k < e.n_out; k++) hop_tensor_free(out[k]);
            goto done;
        }
        mark_result(as_array(made[i]), j);
    }
    answer = call_answer(made, e.n_out);
done:
    for (Py_ssize_t k = 0; e.t && k < c->n; k++) hop_tensor_free(e.t[k]);
    if (p && !p->length) { /* not kept */
        hop_fn_free(p->fn);
        hop_exe_free(p->exe);
        free(p);
    }
    if (e.t != e.tensors) PyMem_Free(e.t);
    if (args != few) PyMem_Free(args);
    if (made != few_made) PyMem_Free(made);
    return answer;
}

static PyObject *clear_programs(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    forget_programs();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "clear_programs", clear_programs, METH_NOARGS, "forgets the programs of eager calls" },
    { NULL, NULL, 0, NULL },
};

int eager_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
