/* The extension module hop._core: what its files share. Arrays are concrete (a tensor) or traced (a value of
 * a capture); one table of operators serves both: traced calls record, concrete ones run a small program that
 * is kept under the operands' types. All state is guarded by the GIL, except what is said to be a thread's
 * own. */
#ifndef HOP_PYTHON_CORE_H
#define HOP_PYTHON_CORE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <hop/hop.h>
#include <stdbool.h>
#include <string.h>

enum { MAX_RANK = 32, BODY_RAISED = 1001 };

/* ---- dtypes ---- */

enum dtype {
    DT_BOOL,
    DT_I8,
    DT_I16,
    DT_I32,
    DT_I64,
    DT_U8,
    DT_U16,
    DT_U32,
    DT_U64,
    DT_F16,
    DT_BF16,
    DT_F32,
    DT_F64,
    N_DTYPES,
    /* Kinds of objects (object.c) behind those of arrays, of which weak ones have numbers of their own. */
    FIRST_KIND = 2 * N_DTYPES,
    MOST_KINDS = 100
};
struct dtype_row {
    const char *name; /* hop's: "f32"; of a kind of objects the type */
    char format;      /* of the buffer protocol; 0: none */
    uint8_t size;
    char kind; /* b i u f; o: objects */
};
extern struct dtype_row dtype_rows[FIRST_KIND + MOST_KINDS]; /* kinds are added as they are met */
int dtype_named(const char *name);                           /* -1: there is none */
int dtype_of_kind(const char *kind);                         /* of objects; -1: there are too many */
static inline bool dtype_is_object(int code) { return code >= FIRST_KIND; }
PyObject *dtype_object(int code); /* what x.dtype is, a new reference */
double half_to_double(uint16_t bits, bool bfloat);
uint16_t double_to_half(double x, bool bfloat);
PyObject *element_number(const char *p, int dtype); /* the element there as a Python number */
/* What lies there along `axis` and those behind it as nested lists. */
PyObject *element_lists(const hop_tensor *t, const char *p, int axis, int dtype);
/* Sizes from a sequence: the rank, or -1 and an exception. */
int array_sizes(PyObject *o, int64_t *dims);
int elements_init(PyObject *module);

/* ---- arrays ---- */

/* A place in the list of what is alive of a capture that may be cut (cut.c). */
struct live {
    struct live *next, **link; /* link NULL: in no list */
    PyObject *of;              /* borrowed: it leaves the list when it goes */
};

typedef struct array_object {
    PyObject_HEAD hop_tensor *tensor; /* concrete; NULL: traced, or donated when `capture` is 0 */
    uint64_t capture;                 /* traced: the serial of its capture */
    hop_val value;                    /* traced */
    hop_place made;                   /* traced: where */
    int64_t *dims;  /* traced: sizes, -1 for those that are no number; donated: what they were */
    hop_dim *sizes; /* traced, with sizes that are no numbers: all of them; else NULL */
    char *type;     /* the same: the type as text */
    int16_t dtype, rank;
    uint8_t memory; /* concrete: enum memory */
    uint8_t
        weak;    /* made of Python numbers alone: WEAK_REAL (shown as f32) or WEAK_INT (i64); else NOT_WEAK */
    bool number; /* weak and traced: stands for a Python number; a real one is a value of f64 */
    bool lent;   /* concrete: made for a call, of a number or of memory of others */
    bool spread; /* concrete: distributed over a mesh (dist.c) */
    bool variable;     /* traced: the value is a variable of the library's, which bodies may assign to */
    uint64_t born;     /* concrete: the serial of the outermost capture that it was made in; 0: in none */
    uint64_t body;     /* the same: the number of the body, hop_body_number */
    PyObject *origin;  /* what it is another look at: an array, or an object with a buffer; NULL: nothing */
    PyObject *perhaps; /* tuple of weak references: arrays that this one may be in Python; or NULL */
    PyObject *base, *slices; /* a part of an array from outside, taken inside of a capture; NULL: it is not */
    /* Traced, of a capture that was cut behind it: what it is around that capture, an array with its raw
     * dtype; its sizes are those of that. NULL: nothing was cut; None: the part before the cut failed. */
    PyObject *known;
    struct live live;
} array_object;

/* Whose the elements are. Calls that are given an array for good write into OWN memory alone. */
enum memory { OWN, SHARED, READ_ONLY };

extern PyTypeObject *array_base;                                             /* hop._core.ArrayBase */
extern PyObject *array_class, *tracer_class, *dtype_objects, *error_classes; /* set by the package */
static inline bool is_array(PyObject *o) { return PyObject_TypeCheck(o, array_base); }
static inline array_object *as_array(PyObject *o) { return (array_object *)o; }
PyObject *array_of_tensor(hop_tensor *t); /* takes the reference, also on failure */
PyObject *array_of_value(hop_val v, hop_place at);
PyObject *array_of_shared(hop_tensor *t, enum memory memory); /* the same, of memory that others see too */
int array_dims(const array_object *a, int64_t *dims);         /* its rank */
int array_raw_dtype(const array_object *a); /* of the value: f64 where it stands for a real Python number */
/* As weak, unless its dtype is none that Python numbers have. */
void array_mark(array_object *a, bool number);
void array_give_away(array_object *a); /* the tensor is somebody else's now; sizes can still be asked for */
/* Borrowed; NULL and an exception for a traced or donated array, and for a distributed one, which has no
 * elements to look at. */
hop_tensor *concrete_tensor(array_object *a);
hop_tensor *any_tensor(array_object *a); /* a distributed one, too */
enum { TYPE_TEXT = 4096 };
/* "f32[T//2, 3]"; -1: it has sizes that are no numbers. */
int array_type_text(const array_object *a, char text[TYPE_TEXT]);
PyObject *array_raw(array_object *a);                    /* the same value, not weak, with its raw dtype */
PyObject *array_bitcast(PyObject *self, PyObject *code); /* the same bits as elements of another dtype */
/* The same array as found outside of the captures at work, which a program reads at every call: itself, what
 * it is another look at, or NULL when this capture made it. */
PyObject *array_source(array_object *a);
void array_set_origin(PyObject *made, PyObject *source); /* either may be NULL */
PyObject *array_without_elements(PyObject *self);        /* an array that has nothing but a type */
/* The elements are about to be known to Python code, which a capture may make part of its program. */
void array_note_read(array_object *a);
/* The value of a traced array whose capture is alive, as the body at work there sees it: that may be a
 * variable. -1 and an exception. */
int array_here(array_object *a, hop_place at, hop_val *out);
int array_now(array_object *a, hop_place at, hop_val *out); /* what it holds at the moment, no variable */
void array_note_elements(PyObject *a); /* the same of a traced value, by what it is behind cuts */
int array_init(PyObject *module);

/* ---- objects (object.c) ---- */

PyObject *object_class_or(PyObject *otherwise); /* the class of concrete ones, once there is one */
/* True, and an exception: it is an object, and `what` is for arrays. */
bool refuse_object(const array_object *a, const char *what);
/* The Python object that a pointer of this dtype is, or its address as a number; a new reference. */
PyObject *object_of_pointer(int code, void *pointer);
/* A hop.Object of this dtype that holds it; a new reference. */
PyObject *object_around(int code, void *pointer);
int object_init(PyObject *module);

/* ---- the journal (journal.c): what writes changed about arrays, to be taken back ---- */

int array_trace(PyObject *array, hop_place at); /* a concrete array becomes a value of the body at work */
int journal_variable(array_object *a);          /* before its value becomes a variable */
int journal_known(array_object *a);             /* before it is one from before a cut no longer */
int journal_elements(array_object *a); /* before a concrete array holds others, while somebody may ask */
size_t journal_mark(void);
void journal_undo(size_t mark); /* everything since then, the last one first */
/* A capture has ended well: what concerns arrays from outside is kept while another one is at work, arrays
 * of the list are again what they were. */
void journal_end(size_t mark, uint64_t capture, PyObject *written);
int journal_init(PyObject *module);

/* ---- distributed arrays (dist.c) ---- */

PyObject *dist_class_or(PyObject *otherwise); /* the class of concrete ones, once there is one */
/* Inside of a body of one rank's parts, what it has of an array from around: a part of one that the operator
 * was given for it, else the array itself. Borrowed; NULL and an exception (Captured) for a distributed one
 * that it was not given. */
array_object *array_part(array_object *a);
/* "@(data = 2)(0)": what stands behind the type of a concrete array; nothing for one that is not distributed.
 * Returns its length. */
enum { LAYOUT_TEXT = 1024 };
size_t array_layout_text(const array_object *a, char *text, size_t room);
int dist_init(PyObject *module);

/* ---- sizes that are no numbers ---- */

extern PyTypeObject *size_type; /* hop.Size */
typedef struct {
    PyObject_HEAD uint64_t capture; /* its serial */
    hop_dim dim;
    hop_place made;
    struct live live;
} size_object;
static inline size_object *as_size(PyObject *o) { return (size_object *)o; }
static inline bool is_size(PyObject *o) { return Py_TYPE(o) == size_type; }
PyObject *size_of_dim(uint64_t capture, hop_dim d,
                      hop_place made);              /* a Python integer where it is a number */
PyObject *size_value(PyObject *size, hop_place at); /* a traced value that stands for a Python integer */
PyObject *size_text(PyObject *size);                /* "T//2" */
/* The number that it is in the call at hand, for which the program is made then; NULL and an exception when
 * there is none. by: what asks for it, for the message. */
PyObject *size_fixed(PyObject *size, const char *by);
/* A size or a Python integer as a dim: 1; 0: it is something else; -1 and an exception. */
int size_read(PyObject *o, hop_dim *out);
int size_init(PyObject *module);

/* exchange.c: also the array's part of the buffer protocol and of DLPack. */
/* copy: 1 always, 0 never, -1 when needed; NULL without an exception: no buffer. */
PyObject *array_from_buffer(PyObject *o, int copy);
int array_get_buffer(PyObject *self, Py_buffer *view, int flags);
void array_release_buffer(PyObject *self, Py_buffer *view);
PyObject *array_to_dlpack(PyObject *self, PyObject *args);
int exchange_init(PyObject *module);

/* ---- operands ---- */

enum weak { NOT_WEAK, WEAK_REAL, WEAK_INT, WEAK_BOOL };
struct operand {
    PyObject *array; /* strong; NULL: a number */
    uint8_t weak;    /* of a number */
    /* A whole number that int64 does not hold: its sign; array is one of uint64 where that holds it. */
    int8_t large;
    double real;
    int64_t integer;
};
bool is_number(PyObject *o); /* a number of Python's own, not one of NumPy's that happens to be a float too */
int operand_read(PyObject *o, struct operand *out); /* -1 and an exception */
void operands_drop(struct operand *in, Py_ssize_t n);
/* -1 and an exception for a traced value whose capture has ended. */
int check_alive(const array_object *a, hop_place at);
/* In the thread's capture, with its raw dtype. */
int operand_value(const struct operand *o, hop_place at, hop_val *out);
int value_of(PyObject *o, hop_place at, hop_val *out); /* with the dtype that it shows */

/* ---- captures: a stack per thread ---- */

struct hidden_value {
    hop_val value;
    bool known; /* it is what a value from before a cut is around the capture */
};
struct frame {
    struct frame *outer;
    uint64_t serial;
    hop_place at;
    PyObject *hidden;            /* list: arrays used from outside, further arguments */
    struct hidden_value *values; /* of each, here */
    Py_ssize_t room;
    int depth; /* of bodies at work: 1 in the function itself */
    /* Of a capture that may be cut at a value: cut(function, operands) -> results takes what was recorded so
     * far. NULL: it may not be cut. */
    PyObject *cut;
    PyObject *given; /* list: the operands that the parameters stand for; NULL: they are gone */
    hop_val *params; /* which values those are */
    struct live *live;
    bool was_cut;
    PyObject *callbacks; /* list: what the program calls; NULL: nothing */
    /* The frame of Python in which the body at work was begun, which waits for it, and where that is: frames
     * around it need not be looked at again. NULL: none. */
    PyObject *base;
    hop_place base_at;
    /* The first exception about a value that only a run knows: the capture cannot end well, also when
     * somebody caught it; NULL: none. */
    PyObject *unknown;
    /* Of the outermost capture of a thread, about the sizes of its parameters: */
    PyObject *hints;       /* dict: name of a symbol -> its size in the call at hand; NULL: there are none */
    PyObject *constraints; /* list: what must hold of them so that the program fits, as texts */
};
struct frame *frame_top(void);
struct frame *frame_set(struct frame *f);            /* which was it before */
int frame_keep(struct frame *f, PyObject *callback); /* the captured function keeps it alive */
bool frame_alive(uint64_t serial);
uint64_t frame_outermost(void); /* the serial of the thread's outermost capture, 0: there is none */
/* The size in the call at hand of a symbol of the thread's outermost capture; -1: it is declared to be any,
 * or only a run knows it. Captures inside of captures keep the names of the symbols that they mention. */
int64_t frame_hint(const char *symbol);
/* The program being captured is for calls whose sizes satisfy this alone: "T < 2*N", two expressions over
 * symbols that have hints with one of == != < <= > >= between. Noted once each. */
int frame_constrain(const char *text);
PyObject *function_capture(PyObject *self, PyObject *args);
PyObject *function_new(hop_fn *fn, PyObject *callbacks); /* takes the reference, also on failure */
/* The function of a Python object that the capture at work calls; -1 and an exception. */
int function_called(PyObject *o, hop_fn **out);
int function_init(PyObject *module);
int bodies_init(PyObject *module);
int custom_init(PyObject *module);
int region_init(PyObject *module);
int callback_init(PyObject *module);
int operator_init(PyObject *module);

/* ---- arrays of NumPy's (numpy.c) ---- */

/* A new one with these elements (data NULL: with any); memory, unless NULL, is set to where they lie. */
PyObject *ndarray_new(int dtype, int rank, const int64_t *dims, const void *data, bool writable,
                      void **memory);
/* One whose elements lie in the memory of another, from data on; strides in elements, NULL: row-major. */
PyObject *ndarray_within(PyObject *owner, int dtype, int rank, const int64_t *dims, const int64_t *strides,
                         void *data);
struct elements {
    PyObject *kept;   /* whose they are */
    const void *data; /* row-major */
    int rank;
    int64_t dims[MAX_RANK];
};
/* The elements of something that is given for an array of this type (a size that is -1: any). -1 and a
 * message, or an exception. */
int elements_read(PyObject *o, const hop_operator_array *wanted, struct elements *out, char *message,
                  size_t room);
/* -1, and the message that something else was expected. */
int elements_wrong(PyObject *o, const hop_operator_array *wanted, char *message, size_t room);
int numpy_init(PyObject *module);

/* ---- cuts (cut.c): elements of traced values ---- */

/* Something of a capture that may be cut, if it is made in the function itself: what bodies make is gone when
 * they end. */
void live_join(uint64_t capture, struct live *l, PyObject *of);
void live_remove(struct live *l);
void live_end(struct frame *f); /* what is alive of a capture that has ended is in no list any more */
/* The array with the elements of a traced value, a new reference: the captures that it belongs to are cut
 * behind it. NULL without an exception: they cannot be. */
PyObject *array_elements(array_object *a);
bool array_may_cut(const array_object *a); /* whether that gives one, unless what runs fails */
/* What says the type of an array, behind cuts. */
const array_object *array_behind(const array_object *a);
/* A value from before a cut becomes a value of its capture again, a parameter. */
int array_revive(array_object *a, hop_place at);
/* Room for one more value of an array from outside. */
int frame_room(struct frame *f);
PyObject *array_method_elements(PyObject *self, PyObject *unused);
int cut_init(PyObject *module);

/* ---- executables ---- */

typedef struct {
    PyObject_HEAD hop_exe *exe;
    hop_profile *profile; /* under way; NULL: none */
    int n_in, n_out, n_dims;
    uint8_t *donated;    /* per parameter: a run takes its memory over; NULL: none */
    uint8_t *updated;    /* per parameter: a run updates the array; NULL: none */
    bool keep;           /* a run that fails leaves these as they were */
    PyObject *callbacks; /* of the function */
    uint8_t *weak;       /* per result, whether it is; NULL: none is */
} exe_object;
extern PyTypeObject *exe_type;
int compile_once(hop_exe **exe, hop_fn *fn, hop_compile_options *o); /* a status */
/* Before the tensors of these arguments are taken: arrays of hop's that are updated have memory of their own.
 * 1: one of them cannot be updated; -1 and an exception. */
int prepare_updates(const exe_object *e, PyObject **arrays);
/* A list of the results, or the only one. arrays: those of the first parameters, of which donated ones are
 * among. */
PyObject *run_tensors(const exe_object *e, hop_tensor **in, PyObject **arrays, bool always_list);
/* What the function gives, interpreted: a list. args: (arrays, dims=()). */
PyObject *interpret(hop_fn *fn, PyObject *args);
int exe_init(PyObject *module);
PyObject *number_array(PyObject *o); /* a Python number as a program takes it */
int jit_init(PyObject *module);

/* ---- guards: what functions read from outside ---- */

extern PyTypeObject *guards_type;
/* known_root: the program was run for this very function before. */
int guards_still_hold(PyObject *guards, PyObject *root, bool known_root);
Py_ssize_t guards_hidden(PyObject *guards); /* how many further arguments the program takes */
/* The i-th, a new reference; right after guards_still_hold. */
PyObject *guards_argument(PyObject *guards, Py_ssize_t i);
bool same_bits(PyObject *x, PyObject *want); /* numbers and texts: of one type, and equal to the bit */
int guards_init(PyObject *module);

/* ---- entries: functions that users call ---- */

void hide_frames(void); /* the exception that is set, without frames of the package in its traceback */
int entry_init(PyObject *module);

/* ---- signals ---- */

void set_main_thread(unsigned long ident);
/* Around a call of the library that gives the GIL away: on the main thread, what it is cancelled by. A
 * handler that raises ends it with HOP_CANCELLED and its exception set. */
bool signals_begin(const volatile int **cancel, int (**confirm)(void *ctx));
void signals_end(bool begun);

/* ---- operators ---- */

int ops_init(PyObject *module);
int eager_init(PyObject *module);
PyObject *binary_slot(int code, PyObject *x, PyObject *y);
PyObject *unary_slot(int code, PyObject *x);
/* Rows of the table that others name: the elementwise operators, and two more. */
enum operator_code {
#define UNARY(name, ...) OP_##name,
#define BINARY UNARY
#define TERNARY UNARY
#include "ops/elementwise.def"
    OP_matmul,
    OP_cast
};

/* ---- errors and places ---- */

PyObject *raise_status(int status); /* the last message of hop; NULL. Forgives the capture */
PyObject *raise_tracer(const char *format, ...);
/* A traced value was asked for what only a run knows: every capture of the thread keeps the exception. */
PyObject *raise_unknown(const char *format, ...);
hop_place user_place(void); /* the innermost line that is not hop's own */
enum { CALLED_SIZE = 320 };
/* "file:line: name: " of the function of the package that the user called; for messages. */
const char *user_call(char text[CALLED_SIZE]);
PyObject *raise_invalid(const char *format, ...); /* hop.InvalidError, with user_call in front */
bool code_of_package(PyObject *code);
bool is_internal_error(PyObject *exception); /* hop.InternalError: a bug, which must be seen whole */
/* None: NULL; the text lives as long as o. Sets an exception when it is no text. */
const char *text_or_null(PyObject *o);

#endif
