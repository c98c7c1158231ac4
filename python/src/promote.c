/* Dtypes of operands: which one arrays and Python numbers have in common, and what is cast to get there.
 * Python numbers are weak: they take the dtype of the arrays they meet. An array is weak when it was made of
 * such numbers alone. A traced value may stand for a Python number itself: it is computed with as Python
 * does, real ones in f64, until it meets an array or a function of hop's. */
#include "ops.h"

int dtype_common(int a, int b)
{
    const struct dtype_row *x = &dtype_rows[a], *y = &dtype_rows[b];
    if (a == b || y->kind == 'b') return a;
    if (x->kind == 'b') return b;
    if ((x->kind == 'f') != (y->kind == 'f')) return x->kind == 'f' ? a : b;
    if (x->kind == y->kind && x->size == y->size) return DT_F32; /* f16 and bf16 */
    if (x->kind == y->kind) return x->size > y->size ? a : b;
    int natural = x->kind == 'u' ? a : b;
    int whole = x->kind == 'u' ? b : a;
    if (natural == DT_U64) return NO_COMMON_DTYPE;
    int next = natural - DT_U8 + DT_I16; /* the signed one that is twice as wide */
    return whole > next ? whole : next;
}

int dtype_with_number(int strong, int weak)
{
    char kind = strong < 0 ? 'b' : dtype_rows[strong].kind;
    if (weak == WEAK_REAL) return kind == 'f' ? strong : DT_F32;
    if (weak == WEAK_INT) return kind == 'b' ? DT_I64 : strong;
    return strong < 0 ? DT_BOOL : strong;
}

int number_beside(int dtype, const struct operand *o)
{
    bool is_signed = dtype_rows[dtype].kind == 'i';
    int bits = 8 * dtype_rows[dtype].size - is_signed;
    if (o->large) return o->large > 0 && dtype == DT_U64 && o->array ? 0 : o->large;
    if (o->integer < 0) return !is_signed || (bits < 63 && o->integer < -((int64_t)1 << bits)) ? -1 : 0;
    return bits < 63 && o->integer >> bits ? 1 : 0;
}

static int no_common_dtype(const struct call *c, int a, int b)
{
    const char *name = dtype_rows[dtype_rows[a].kind == 'i' ? a : b].name;
    raise_invalid("no integer dtype holds both operands of %s, uint64 and int%s: convert one of them, "
                  "x.astype(hop.int64) where all "
                  "elements are below 2**63, x.astype(hop.uint64) where none is negative",
                  c->row->name, name + 1);
    return -1;
}

/* The dtype of real results of integers: where all stand for Python numbers that of Python's own. */
static int real_dtype(bool numbers) { return numbers ? DT_F64 : DT_F32; }

/* A comparison of integers with a weak one that only a run knows must not wrap it: both become int64; beside
 * u64 see compare_unsigned. */
static void join_comparison(const struct operand *in, int strong, struct joined *out)
{
    bool traced = false;
    for (int i = 0; i < 2; i++) traced |= in[i].array && as_array(in[i].array)->weak == WEAK_INT;
    if (!traced || strong < 0 || (dtype_rows[strong].kind != 'i' && dtype_rows[strong].kind != 'u')) return;
    if (strong != DT_U64) {
        out->weak_to = out->strong_to = DT_I64;
        return;
    }
    out->weak_to = NO_DTYPE;
    for (int i = 0; i < 2; i++)
        if (in[i].array && !as_array(in[i].array)->weak) out->unsigned_at = i;
}

int join_operands(const struct call *c, const struct operand *in, struct joined *out)
{
    int strong = NO_DTYPE, weak = NOT_WEAK;
    bool numbers = c->sign;
    *out = (struct joined){ .weak_to = NO_DTYPE, .strong_to = NO_DTYPE, .unsigned_at = -1 };
    if (!(c->row->flags & JOIN)) {
        out->weak = c->row->flags & FIRST && c->n && in[0].array && as_array(in[0].array)->weak;
        return 0;
    }
    out->first = c->row == &op_rows[OP_select];
    for (Py_ssize_t i = out->first; i < c->n; i++) {
        const array_object *a = in[i].array ? as_array(in[i].array) : NULL;
        int kind = a ? a->weak : in[i].weak;
        if (kind) { /* WEAK_REAL is the smallest of the three */
            weak = weak && weak < kind ? weak : kind;
            numbers &= !a || a->number;
            continue;
        }
        int both = strong < 0 || strong == a->dtype ? a->dtype : dtype_common(strong, a->dtype);
        if (both < 0) return no_common_dtype(c, strong, a->dtype);
        strong = both;
        numbers = false;
    }
    bool whole = weak != WEAK_REAL && (strong < 0 || dtype_rows[strong].kind != 'f');
    out->number = numbers;
    out->weak = weak && (strong < 0 || dtype_with_number(strong, weak) != strong);
    bool weak_real_alone = strong < 0 && weak == WEAK_REAL;
    if (weak) out->weak_to = weak_real_alone ? real_dtype(numbers) : dtype_with_number(strong, weak);
    if (c->row == op_rows + OP_div && whole) /* Python's / of integers is a real number */
        out->weak_to = out->strong_to = real_dtype(numbers);
    else if (is_comparison(c->row, op_rows)) join_comparison(in, strong, out);
    return 0;
}

void cast_operands(hop_place at, const struct call *c, const struct operand *in, const struct joined *j,
                   hop_val *values)
{
    bool casts = c->row == &op_rows[OP_cast];
    for (Py_ssize_t i = 0; i < c->n; i++) {
        const array_object *a = in[i].array ? as_array(in[i].array) : NULL;
        if (!a) continue;
        int has = array_raw_dtype(a);
        int to = a->weak ? j->weak_to : j->strong_to;
        if (i < j->first) to = NO_DTYPE;
        if (to < 0 && has != a->dtype && !casts)
            to = a->dtype; /* only these operators compute with Python's numbers */
        if (to >= 0 && to != has) values[i] = hop_cast_at(at, values[i], dtype_rows[to].name);
    }
}

void mark_result(array_object *a, const struct joined *j)
{
    if (j->weak) array_mark(a, j->number);
}
