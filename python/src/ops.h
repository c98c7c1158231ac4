/* Operators inside of the extension: a row of the table, a call of one, and how the operands of a call are
 * brought to one dtype. */
#ifndef HOP_PYTHON_OPS_H
#define HOP_PYTHON_OPS_H

#include "core.h"

/* FLAT: elementwise, arrays of one shape may be of any sizes, numbers may be operands. JOIN: the operands
 * take one dtype, and the result is weak when that is; FIRST: the result is weak when the first operand is.
 * WIDE: the integer of a call is a value, not a position. */
enum { FLAT = 1, JOIN = 2, FIRST = 4, WIDE = 8 };
/* How many results a call has: one, none, two, one per axis of its operand, as many as it has operands, as
 * many as its second integer says. */
enum results { ONE, NONE, TWO, PER_AXIS, PER_OPERAND, AS_ASKED };

/* What a row's function takes besides the place. x…: operands; t, i: texts and integers of the call. */
enum kind { X, XX, XXX, XT, XI, XTI, XII, XXI, XXII, LI, T, TI, TX, TXX, CUSTOM };

struct op_row {
    const char *name;
    uint8_t kind, flags;
    uint8_t least;   /* of a custom row: it needs that many operands */
    uint8_t results; /* enum results */
    void *function;
};
struct call {
    const struct op_row *row;
    const char *text, *text2, *text3;
    int64_t i, j;
    Py_ssize_t n; /* operands */
    bool sign;    /* one of Python's own signs, not a function */
};

/* What the operands of a call become. */
struct joined {
    int first;     /* operands before it have no part in this: the condition of a select */
    int weak_to;   /* dtype that weak operands are cast to and that numbers take, -1: what they have alone */
    int strong_to; /* dtype that the others are cast to first, -1: the library's concern */
    /* Which operand is u64 in a comparison with a weak integer that only a run knows, -1: none. */
    int unsigned_at;
    bool weak;   /* the result is weak, */
    bool number; /* and stands for a Python number */
};

enum dtype_join { NO_DTYPE = -1, NO_COMMON_DTYPE = -2 };
int dtype_common(int a, int b); /* NO_COMMON_DTYPE: u64 and a signed integer */
/* Of a number of this kind (enum weak) beside arrays of this dtype; NO_DTYPE: alone. */
int dtype_with_number(int strong, int weak);
/* Where a Python int stands: -1 below what the dtype holds, 1 above it, 0 within. */
int number_beside(int dtype, const struct operand *o);
/* -1 and an exception. */
int join_operands(const struct call *c, const struct operand *in, struct joined *out);
/* Casts the values of operands as was found. */
void cast_operands(hop_place at, const struct call *c, const struct operand *in, const struct joined *j,
                   hop_val *values);
void mark_result(array_object *a, const struct joined *j);

static inline bool is_comparison(const struct op_row *row, const struct op_row *rows)
{
    return row >= rows + OP_eq && row <= rows + OP_ge;
}
extern const struct op_row op_rows[];

enum { FEW = 8 }; /* operands or results that need no memory of their own */
int call_results(const struct call *c, const struct operand *in); /* how many there are */
/* The call with its operands brought to the dtypes that were found. */
int call_emit(hop_place at, const struct call *c, const struct operand *in, const struct joined *j,
              hop_val *values, hop_val *out);
PyObject *call_answer(PyObject **results, int n); /* the only one, a list of them, None; takes them */
hop_val operand_number(const struct operand *o);  /* one that is a number, as the capture takes it */
PyObject *run_at_once(const struct call *c, struct operand *in, const struct joined *j); /* eager.c */

#endif
