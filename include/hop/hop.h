/* hop: higher-order tensor programs. The public header: capture of programs from C, transforms, executables,
 * tensors.
 *
 * A call that can fail returns 0 (HOP_OK) or a status, and hop_message() says what went wrong. Functions that
 * make traced values return the value; the first of them that fails marks the capture, later ones do nothing,
 * and hop_capture returns the status. Text describes types ("f32[T, 64]"), sizes ("T, 2*N"), axes ("0, -1",
 * "all") and slices ("1:3, :, -1"). Every _free accepts NULL. */
#ifndef HOP_HOP_H
#define HOP_HOP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HOP_VERSION_MAJOR 0
#define HOP_VERSION_MINOR 1
#define HOP_VERSION_PATCH 0
#define HOP_VERSION "0.1.0"

/* What a call that can fail returns. The text that goes with a failure is hop_message(). */
typedef enum hop_status {
    HOP_OK = 0,
    HOP_INVALID,     /* the program or the request is wrong: syntax, types, shapes, arguments */
    HOP_CHECK,       /* a check failed while the program ran */
    HOP_NOMEM,       /* an allocation failed */
    HOP_IO,          /* a file could not be read or written */
    HOP_UNAVAILABLE, /* this build or machine cannot do it (compilation without LLVM) */
    HOP_CANCELLED,   /* somebody asked the call to end */
    HOP_INTERNAL     /* a bug in hop */
} hop_status;

/* The version of the library that is running, "major.minor.patch". */
const char *hop_version(void);

/* What went wrong in the last failed call of this thread: place, operator, expected and found. Never NULL. */
const char *hop_message(void);

/* ---- tensors: arrays with a count of references ---- */

typedef struct hop_tensor hop_tensor;

/* Zeros of a type with constant sizes, "f32[3, 4]". Dtypes: bool (a byte, 0 or 1), i8 i16 i32 i64, u8 u16 u32
 * u64, f16 and bf16 (their bits, two bytes), f32, f64. */
hop_status hop_tensor_new(hop_tensor **out, const char *type);
/* The caller's memory, row-major. It must stay until release(ctx) is called (release may be NULL) with the
 * last reference gone. */
hop_status hop_tensor_borrow(hop_tensor **out, const char *type, void *data, void (*release)(void *ctx),
                             void *ctx);
/* The same with one stride per dim, counted in elements; strides may be zero or negative, data is the element
 * with all indices 0. */
hop_status hop_tensor_strided(hop_tensor **out, const char *type, void *data, const int64_t *strides,
                              void (*release)(void *ctx), void *ctx);
/* Both, with sizes that only the program knows: a dtype, "f32", and `rank` sizes. */
hop_status hop_tensor_new_dims(hop_tensor **out, const char *dtype, const int64_t *dims, int rank);
hop_status hop_tensor_borrow_dims(hop_tensor **out, const char *dtype, const int64_t *dims, int rank,
                                  void *data, void (*release)(void *ctx), void *ctx);
/* A part of a tensor that shares its memory: hop_tensor_view(&v, t, "1:3, ::2"). */
hop_status hop_tensor_view(hop_tensor **out, hop_tensor *t, const char *slices);
/* The bytes of a row-major tensor under other sizes, and as elements of another dtype (NULL: its own); it
 * shares the memory. */
hop_status hop_tensor_reshape(hop_tensor **out, hop_tensor *t, const char *dtype, const int64_t *dims,
                              int rank);
/* A row-major tensor of its own with the same elements. */
hop_status hop_tensor_copy(hop_tensor **out, const hop_tensor *t);
/* Elements of `from` into `to`: same dtype and dims, any strides. */
hop_status hop_tensor_fill(hop_tensor *to, const hop_tensor *from);
hop_tensor *hop_tensor_ref(hop_tensor *t); /* one more reference; returns t */
void hop_tensor_free(hop_tensor *t);       /* one reference less */

/* The element with all indices 0; NULL for NULL. Asking counts as a write, as far as executables are
 * concerned that keep something of the tensor (hop_compile_options.constant); hop_data_const, for reading,
 * does not. */
void *hop_data(const hop_tensor *t);
const void *hop_data_const(const hop_tensor *t);
const char *hop_tensor_dtype(const hop_tensor *t); /* "f32" */
int hop_tensor_rank(const hop_tensor *t);
int64_t hop_tensor_dim(const hop_tensor *t,
                       int axis); /* negative axes count from the end; -1 when there is no such axis */
int64_t hop_tensor_stride(const hop_tensor *t, int axis); /* in elements */
int64_t hop_tensor_count(const hop_tensor *t);
int hop_tensor_is_contiguous(const hop_tensor *t);
int hop_tensor_is_shared(const hop_tensor *t); /* are there other references, views of it among them? */
/* "[[1, 2], [3, 4]]" in decimals that read back to the same bits; released with hop_text_free. NULL when
 * memory is out. */
char *hop_tensor_text(const hop_tensor *t);
void hop_text_free(char *text);

/* ---- objects ----
 *
 * Something of the host's that programs hand on without looking at it: a tokenizer, a random generator, a
 * file. To a program it is a value of type object "kind", of rank 0: a parameter, carried through loops,
 * chosen by branches, given to operators that are declared for its kind (hop_operator_register), and a
 * result. Every other operator refuses it. It is never copied, batched, printed, made a constant or
 * differentiated, and programs make none. A run keeps its arguments' objects; a result that is one is one
 * more reference to the argument that it is. docs/objects.md. */

/* The pointer under a kind (1 to 100 characters without quotes and backslashes). retain(pointer) is called
 * before this returns, release(pointer) when the last reference is gone; both may be NULL. */
hop_status hop_object_new(hop_tensor **out, const char *kind, void *pointer, void (*retain)(void *pointer),
                          void (*release)(void *pointer));
const char *hop_object_kind(const hop_tensor *t); /* NULL: it is an array */
/* The pointer of an object of this kind; NULL, and hop_message() says why, for everything else. */
void *hop_object_pointer(const hop_tensor *t, const char *kind);

/* ---- distributed arrays ----
 *
 * An array that lies on a mesh of ranks, of which each has a part. A mesh is a text of axes and their sizes,
 * "data = 2, model = 4"; ranks are numbered row by row, the last axis runs fastest. Placements are a text
 * with a word for each axis of the mesh: the number of an axis of the array, which is cut into parts along
 * it (the first ranks have ceil(N / n) of N elements, the last ones what is left), "_" where each rank has
 * all of it, "sum", "max", "min", "prod" or "mean" where the array is that reduction of what the ranks have.
 * Such tensors are arguments and results of programs whose types say so, "f32[8, 3]@(data = 2)(0)"; all else
 * refuses them. Ranks are
 * threads of this process, which has all parts, or processes under MPI, each of which has its own.
 * docs/python/distributed.md. */

/* An array on a mesh. Where it is to be reduced the first rank has it, the others what changes nothing. */
hop_status hop_distribute(hop_tensor **out, const hop_tensor *t, const char *mesh, const char *placements);
/* The whole of a distributed array; of an array that is none a reference to it. */
hop_status hop_collect(hop_tensor **out, hop_tensor *t);
/* A distributed array of parts, those of the ranks that this process has; type: of the whole array, "f32[8]".
 * Keeps a reference to each part. */
hop_status hop_tensor_from_parts(hop_tensor **out, const char *type, const char *mesh, const char *placements,
                                 hop_tensor *const *parts, int n_parts);
/* How many parts this process has; 0: it is no distributed array. */
int hop_tensor_parts(const hop_tensor *t);
/* One of them, which belongs to t; rank, unless NULL, is set to whose it is. NULL: there is no such part. */
hop_tensor *hop_tensor_part(const hop_tensor *t, int k, int *rank);
/* "data = 2, model = 4", "0 _"; NULL: it is no distributed array. */
const char *hop_tensor_mesh(const hop_tensor *t);
const char *hop_tensor_placements(const hop_tensor *t);

/* Makes this process a rank of the MPI job in which mpirun (or srun) has started it; where it was started by
 * itself nothing happens, and ranks are threads. Before the first distributed array. HOP_UNAVAILABLE: there
 * is no MPI, or its plug-in was not built. docs/cluster.md. */
hop_status hop_dist_init(void);
int hop_dist_rank(void); /* of this process; 0 where ranks are threads */
int hop_dist_size(void); /* processes of the job; 1: the same */

/* ---- looking for leaks ----
 *
 * Handles that were freed and are used again are errors with a message in builds without NDEBUG, for a while.
 */

/* Notes every function, executable and tensor that is handed out from now on (0: forgets all, notes no more).
 * HOP_DEBUG=leaks in the environment does this from the start and lists on stderr, when the process ends,
 * what was not freed. */
void hop_debug_track(int on);
/* The noted handles that are not freed, a line each: "function 'loss', made at rnn.c:30". Released with
 * hop_text_free; NULL when memory is out. */
char *hop_debug_leaks(void);

/* ---- places and values ---- */

/* Where in the program a call stands. The macros below fill it in; bindings call the functions that end in
 * _at. */
typedef struct hop_place {
    const char *file; /* must stay: string literals do */
    int line;
} hop_place;
static inline hop_place hop_here(const char *file, int line)
{
    hop_place p;
    p.file = file;
    p.line = line;
    return p;
}
#define HOP_HERE hop_here(__FILE__, __LINE__)
/* For bindings that know the stack of the user's program: a file name for places in `function` of this file,
 * which was called at `caller` (its file may be such a name again; {NULL, 0}: nobody's call). Places made of
 * it are places as any others; messages about them, of captures, compilations and runs, show behind
 * themselves a line for each frame: "file:line, in function". Names are kept for good, each once; file and
 * function are copied. Without memory for it: the file as it is. */
const char *hop_frame(const char *file, const char *function, hop_place caller);

/* A traced value, a number, or an assignable array. A small handle to copy; it means something inside the
 * capture and the body that made it and inside the bodies within. {0, 0} is no value. */
typedef struct hop_val {
    uint64_t scope, id;
} hop_val;

/* A size: a number, or an expression over the sizes of the function being captured. */
typedef struct hop_dim {
    uint64_t scope, id;
} hop_dim;

/* A body: gets its inputs, sets its outputs. Returns 0; anything else abandons the capture and is its status.
 */
typedef int (*hop_body)(void *env, const hop_val *in, hop_val *out);

/* ---- capture ---- */

typedef struct hop_fn hop_fn;

/* Captures body as a function. params names and types its parameters: "h0: f32[64], xs: f32[T, 64]"; `log:
 * mut f32[T]` is an array that the function assigns to and that running it updates. In front may stand a name
 * and declared sizes: "loss[T in 1..4096, dim N](xs: f32[T, N])". body gets one value per parameter and sets
 * n_results outputs. Returns 0, a hop_status, or what a body returned. */
#define hop_capture(...) hop_capture_at(HOP_HERE, __VA_ARGS__)
/* As a number of results, of hop_capture and of operators whose number of results is for their bodies to say
 * (call, cond, switch, map, scan): the bodies set as many as they have, at most n, from the first one on.
 * What is behind them in `results` is no value then. Not in eager mode. */
#define HOP_UP_TO(n) (-2147483647 - 1 + (n))
/* The same without a bound, for bindings: bodies hand their outputs over with hop_give, and `results` is not
 * looked at: hop_given says what the operator gave. */
#define HOP_ANY HOP_UP_TO(0)
/* Inside of a body, its outputs, as many as it has; of several calls in one body the last counts. The values
 * are copied. */
int hop_give_at(hop_place at, const hop_val *values, int n);
#define hop_give(...) hop_give_at(HOP_HERE, __VA_ARGS__)
/* The results of the last operator of this capture that was asked for HOP_ANY of them, *n of them; theirs
 * until the next such operator. NULL: there is none. */
const hop_val *hop_given(int *n);
/* Inside of a body: one more parameter of the function being captured, behind those it has, "f32[3, 4]" with
 * constant sizes. For bindings, which find out while a body runs what it uses from outside. */
hop_val hop_parameter_at(hop_place at, const char *type);
#define hop_parameter(...) hop_parameter_at(HOP_HERE, __VA_ARGS__)
int hop_capture_at(hop_place at, hop_fn **out, const char *params, int n_results, hop_body body, void *env);

/* Captures inside of captures: a body may capture another function, transform it and call it (hop_call_fn).
 * Its parameters can have the types of values of the capture around, whatever their sizes: those that are no
 * numbers stay what they are there, `T` and `T // 2` in relation. Where an argument does not tell such a
 * size, the inner function takes it as a `dim`, and a call of it, or of what transforms make of it, passes it
 * on. Sizes (hop_dim) of the capture around can be used inside, too. */
typedef struct hop_param {
    const char *name;    /* NULL: none */
    const char *type;    /* "f32[T, 3]", "mut f32[T]", "f32[T]@(i = 2)(0)"; NULL: that of like */
    hop_val like;        /* a value of the capture around, or of one around that */
    const char *without; /* axes of it that are left out, "0"; NULL: none */
    const char *over;    /* the size of one more leading axis, "B"; NULL: there is none */
    const char *varying; /* the name of an axis along which it varies, too, "i"; NULL: none */
} hop_param;
/* name: of the function, with sizes that it declares, "loss[T in 1..4096]"; NULL: none. The rest is
 * hop_capture's. */
int hop_capture_params_at(hop_place at, hop_fn **out, const char *name, const hop_param *params, int n_params,
                          int n_results, hop_body body, void *env);
#define hop_capture_params(...) hop_capture_params_at(HOP_HERE, __VA_ARGS__)
/* hop_parameter with the type of a value of the capture around. */
hop_val hop_parameter_like_at(hop_place at, hop_val like);
#define hop_parameter_like(...) hop_parameter_like_at(HOP_HERE, __VA_ARGS__)
/* The same (p->type or p->like) of the function so many captures around this one; 0: of this one. */
hop_val hop_parameter_around_at(hop_place at, int levels, const hop_param *p);
#define hop_parameter_around(...) hop_parameter_around_at(HOP_HERE, __VA_ARGS__)

/* Cuts a capture: what the function of these values has recorded so far becomes a function that gives them,
 * and goes on empty, without parameters: values made before mean nothing any more. `run` gets the part, which
 * is its until it returns (hop_fn_ref keeps it); meanwhile the thread is in what is around the capture. It
 * runs the part, or records a call of it there; then hop_parameter gives what goes on from the results. So a
 * binding learns numbers of a program that is being captured; the program is the parts one after the other.
 * The values are of one function, the innermost one or one around it, and it is not in a body of it; nor can
 * it have `mut` parameters. Returns 0, a hop_status, or what run returned. */
int hop_cut_at(hop_place at, const hop_val *values, int n, int (*run)(void *env, hop_fn *part), void *env);
#define hop_cut(...) hop_cut_at(HOP_HERE, __VA_ARGS__)

/* Modes: how what comes next is made, on this thread, until the mode ends. They act on each operator as it is
 * recorded (or run, in eager mode), so that functions hold plain operators: `stop_gradient`, `cast`. Bodies
 * and functions that are captured inside of a mode begin with it.
 *
 * no_grad: what is made is a constant to hop_grad and its like, derivatives pass neither through it nor to
 * what it is made of; a loop, a branch or a call as a whole, unless something in its bodies is made under
 * enable_grad, which takes no_grad back. A call of a finished function (hop_call_fn) and a custom operator
 * are constants altogether. autocast: products take floats up to f32 in the dtype given ("bf16", "f16"; "f32"
 * undoes them) and add up in f32; sums, normalisations and transcendental functions take them in f32; all
 * others by promotion (docs/numbers.md lists them). f64, integers and bools stay what they are. A carry that
 * a body gives in another float dtype is cast back, floats of branches are brought to one dtype. NULL: no
 * casts from here on. Each mode that begins ends before the body in which it begins does: in reverse order,
 * by one hop_mode_end each. */
#define hop_no_grad_begin() hop_no_grad_begin_at(HOP_HERE)
#define hop_enable_grad_begin() hop_enable_grad_begin_at(HOP_HERE)
#define hop_autocast_begin(dtype) hop_autocast_begin_at(HOP_HERE, dtype)
#define hop_mode_end() hop_mode_end_at(HOP_HERE)
int hop_no_grad_begin_at(hop_place at);
int hop_enable_grad_begin_at(hop_place at);
int hop_autocast_begin_at(hop_place at, const char *dtype);
int hop_mode_end_at(hop_place at);
/* For bindings, whose blocks nest by themselves: the modes of this thread as a set, which belongs into every
 * key under which they keep what was captured. hop_modes_set gives the set before. */
enum hop_mode {
    HOP_NO_GRAD = 1,
    HOP_AUTOCAST_F16 = 2,
    HOP_AUTOCAST_BF16 = 4,
    HOP_AUTOCAST_F32 = 6,
    HOP_AUTOCAST = 6, /* any of the three */
    HOP_PROBED = 8,   /* transforms keep probes (hop_probe), otherwise they drop them */
    /* hop_vmap looks for NaNs (hop_debug_nans) in a function before it makes lanes of it: then the lane that
     * is named is one that runs, also in branches and loops that only some lanes run */
    HOP_DEBUG_NANS = 16,
    HOP_DEBUG_INFINITIES = 48 /* … and for infinities */
};
unsigned hop_modes(void);
unsigned hop_modes_set(unsigned modes);

/* The same body on real tensors, at once, operator by operator: for debugging. params as above; NULL:
 * whatever the tensors are, without names for sizes. out[i] NULL is made, else written into; arguments that
 * are `mut` are updated. */
#define hop_eager(...) hop_eager_at(HOP_HERE, __VA_ARGS__)
int hop_eager_at(hop_place at, const char *params, hop_body body, void *env, hop_tensor *const *in, int n_in,
                 hop_tensor **out, int n_out);
/* Eager mode without a body: between begin and end operators run at once on this thread. end returns the
 * first error. */
#define hop_eager_begin() hop_eager_begin_at(HOP_HERE)
hop_status hop_eager_begin_at(hop_place at);
int hop_eager_end(void);
void hop_eager_print(void (*print)(void *ctx, const char *line, size_t length),
                     void *ctx); /* where hop_print goes in this eager mode; at first nowhere */
/* In eager mode, the tensor of a value (a new reference); NULL while capturing and on errors. */
#define hop_value_tensor(...) hop_value_tensor_at(HOP_HERE, __VA_ARGS__)
hop_tensor *hop_value_tensor_at(hop_place at, hop_val v);

/* The first error of the capture that this thread is in, 0 if there is none. */
int hop_failed(void);
/* Makes the capture go on as if the failed call had not been made; returns the status it had. A failed body
 * leaves nothing behind. */
int hop_forgive(void);
/* Fails the capture with a message of the caller's, for bodies: return hop_fail("…"). */
#define hop_fail(...) hop_fail_at(HOP_HERE, __VA_ARGS__)
int hop_fail_at(hop_place at, const char *message);

/* Gives a value a name for texts and messages; returns it. */
#define hop_name(...) hop_name_at(HOP_HERE, __VA_ARGS__)
hop_val hop_name_at(hop_place at, hop_val v, const char *name);
/* The type of a value as text, "f32[T, 64]", valid until this thread's next call of it. "" for no value. */
const char *hop_type_text(hop_val v);
int hop_rank(hop_val v); /* -1 for no value */

/* ---- numbers and arrays out of nothing ---- */

/* Numbers without a dtype of their own: they take that of the operand they meet. Alone they are f32, i64 and
 * bool. Outside of captures too. */
hop_val hop_scalar(double value);
hop_val hop_int(int64_t value);
hop_val hop_bool(int value);

#define hop_number(...) hop_number_at(HOP_HERE, __VA_ARGS__) /* ("f64", value): a scalar of that dtype */
#define hop_full(...) \
    hop_full_at(HOP_HERE, __VA_ARGS__) /* ("f32[T, 3]", value): a number or traced scalar everywhere */
#define hop_zeros(...) hop_zeros_at(HOP_HERE, __VA_ARGS__) /* ("f32[T]") */
#define hop_ones(...) hop_ones_at(HOP_HERE, __VA_ARGS__)
#define hop_zeros_like(...) hop_zeros_like_at(HOP_HERE, __VA_ARGS__)
#define hop_iota(...) \
    hop_iota_at(HOP_HERE, __VA_ARGS__) /* ("i64[T, 3]", axis): 0, 1, 2, … along the axis \
                                        */
#define hop_constant(...) \
    hop_constant_at(HOP_HERE, __VA_ARGS__) /* ("f32[2, 2]", data): copied into the program */
#define hop_from_tensor(...) \
    hop_from_tensor_at(HOP_HERE, __VA_ARGS__) /* captured: a constant; eager: the tensor */
hop_val hop_number_at(hop_place at, const char *dtype, double value);
hop_val hop_full_at(hop_place at, const char *type, hop_val value);
hop_val hop_zeros_at(hop_place at, const char *type);
hop_val hop_ones_at(hop_place at, const char *type);
hop_val hop_zeros_like_at(hop_place at, hop_val v);
hop_val hop_iota_at(hop_place at, const char *type, int axis);
#define hop_ones_like(...) hop_ones_like_at(HOP_HERE, __VA_ARGS__)
#define hop_eye(...) \
    hop_eye_at(HOP_HERE, __VA_ARGS__) /* ("f32[N, N]", diagonal): ones where column - row is diagonal */
#define hop_one_hot(...) \
    hop_one_hot_at(HOP_HERE, \
                   __VA_ARGS__) /* (indices, "10", "f32"): one axis more, 1 at the index, 0 elsewhere */
#define hop_arange(...) \
    hop_arange_at(HOP_HERE, __VA_ARGS__) /* ("f32[T]", start, step): start, start + step, … */
#define hop_linspace(...) \
    hop_linspace_at(HOP_HERE, __VA_ARGS__) /* ("f32[T]", lo, hi): evenly from lo up to and with hi */
hop_val hop_ones_like_at(hop_place at, hop_val v);
hop_val hop_eye_at(hop_place at, const char *type, int diagonal);
hop_val hop_one_hot_at(hop_place at, hop_val indices, const char *depth, const char *dtype);
hop_val hop_arange_at(hop_place at, const char *type, hop_val start, hop_val step);
hop_val hop_linspace_at(hop_place at, const char *type, hop_val lo, hop_val hi);
hop_val hop_constant_at(hop_place at, const char *type, const void *data);
hop_val hop_from_tensor_at(hop_place at, hop_tensor *t);

/* ---- sizes ---- */

#define hop_size(...) hop_size_at(HOP_HERE, __VA_ARGS__)           /* (v, axis): the size as an i64 value */
#define hop_dim_of(...) hop_dim_of_at(HOP_HERE, __VA_ARGS__)       /* (v, axis): the size as a size */
#define hop_dim_text(...) hop_dim_text_at(HOP_HERE, __VA_ARGS__)   /* ("2*T + 1") */
#define hop_dim_value(...) hop_dim_value_at(HOP_HERE, __VA_ARGS__) /* a size as an i64 value */
#define hop_bind_dim(...) \
    hop_bind_dim_at(HOP_HERE, __VA_ARGS__) /* (n, lo, hi): 0, 1, … n-1 for an i64 value n, which becomes a \
                                              size; hi < 0: no bound */
#define hop_let(...) hop_let_at(HOP_HERE, __VA_ARGS__) /* ("M", d): texts may say M from here on */
hop_val hop_size_at(hop_place at, hop_val v, int axis);
hop_dim hop_dim_of_at(hop_place at, hop_val v, int axis);
hop_dim hop_dim_text_at(hop_place at, const char *text);
hop_dim hop_dim_const(int64_t n);
hop_val hop_dim_value_at(hop_place at, hop_dim d);
hop_val hop_bind_dim_at(hop_place at, hop_val n, int64_t lo, int64_t hi);
int hop_let_at(hop_place at, const char *name, hop_dim d);
int64_t hop_dim_known(hop_dim d); /* its number, -1 when only a run knows it */
/* "T//2 + 1", "?k": for messages, in memory of the thread; "" when it is no size of the capture at work.
 * Bodies may use a name twice: a text that is read names a size by hop_let, or as "#SCOPE.ID" with the
 * numbers of d. */
const char *hop_dim_shown(hop_dim d);
/* What is known of sizes while they are captured: bits, 1 when a < b may hold, 2 when a == b may, 4 when a >
 * b may; 0 when something is wrong with them. */
enum { HOP_DIM_LESS = 1, HOP_DIM_EQUAL = 2, HOP_DIM_MORE = 4 };
#define hop_dim_order(...) hop_dim_order_at(HOP_HERE, __VA_ARGS__)
int hop_dim_order_at(hop_place at, hop_dim a, hop_dim b);

#define HOP_DIM_OPERATORS(X) X(add) X(sub) X(mul) X(floordiv) X(mod) X(min) X(max)
#define HOP_DECLARE(name) hop_dim hop_dim_##name##_at(hop_place at, hop_dim x, hop_dim y);
HOP_DIM_OPERATORS(HOP_DECLARE)
#undef HOP_DECLARE
#define hop_dim_add(...) hop_dim_add_at(HOP_HERE, __VA_ARGS__)
#define hop_dim_sub(...) hop_dim_sub_at(HOP_HERE, __VA_ARGS__)
#define hop_dim_mul(...) hop_dim_mul_at(HOP_HERE, __VA_ARGS__)
#define hop_dim_floordiv(...) hop_dim_floordiv_at(HOP_HERE, __VA_ARGS__)
#define hop_dim_mod(...) hop_dim_mod_at(HOP_HERE, __VA_ARGS__)
#define hop_dim_min(...) hop_dim_min_at(HOP_HERE, __VA_ARGS__)
#define hop_dim_max(...) hop_dim_max_at(HOP_HERE, __VA_ARGS__)

/* ---- elementwise: operands are promoted and broadcast ---- */

/* An integer with a float becomes that float, whatever its size; two floats give the larger (f16 and bf16
 * give f32), two integers the smallest that holds both; u64 with a signed integer is an error, and a cast
 * says what is meant. An integer with a real number that has no dtype, and the float functions of integers,
 * give f32. Integers compare as they are with a number beyond their range; in arithmetic it is an error. Of
 * bools alone add and max are or, mul and min are and; sub and neg are errors. */

/* One operand. The float functions take integers as f32; round takes halves to the even number; isnan, isinf
 * and isfinite give bool; not, popcount and count_leading_zeros work on bits. */
/* clang-format off */
#define HOP_UNARY_OPERATORS(X) \
    X(neg) X(abs) X(sign) X(floor) X(ceil) X(trunc) X(round) X(exp) X(expm1) X(log) X(log1p) X(exp2) X(log2) \
    X(sqrt) X(rsqrt) X(cbrt) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) \
    X(acosh) X(atanh) X(sigmoid) X(erf) X(erfc) X(isnan) X(isinf) X(isfinite) X(not) X(popcount) \
    X(count_leading_zeros)
/* clang-format on */
/* Two operands. Integers: div truncates and gives 0 for a division by 0, rem has the sign of x; floor_div
 * rounds down, mod has the sign of y; and, or, xor and shifts work on bits: shift_right copies the sign, a
 * shift by the width or more, or by less than 0, leaves nothing else. atan2 takes the height first. */
/* clang-format off */
#define HOP_BINARY_OPERATORS(X) \
    X(add) X(sub) X(mul) X(div) X(rem) X(floor_div) X(mod) X(pow) X(atan2) X(hypot) X(copysign) X(max) \
    X(min) X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(and) X(or) X(xor) X(shift_left) X(shift_right)
/* clang-format on */

#define HOP_DECLARE(name) hop_val hop_##name##_at(hop_place at, hop_val x);
HOP_UNARY_OPERATORS(HOP_DECLARE)
#undef HOP_DECLARE
#define HOP_DECLARE(name) hop_val hop_##name##_at(hop_place at, hop_val x, hop_val y);
HOP_BINARY_OPERATORS(HOP_DECLARE)
#undef HOP_DECLARE
hop_val hop_stop_gradient_at(hop_place at, hop_val x); /* x, but a constant for gradients */
hop_val hop_select_at(hop_place at, hop_val condition, hop_val x, hop_val y); /* condition ? x : y */
hop_val hop_clamp_at(hop_place at, hop_val x, hop_val lo, hop_val hi);
hop_val hop_fma_at(hop_place at, hop_val x, hop_val y, hop_val z); /* x*y + z, rounded once */
hop_val hop_cast_at(hop_place at, hop_val x, const char *dtype);

/* Calls of the operators of elementwise.def. */
#define hop_neg(...) hop_neg_at(HOP_HERE, __VA_ARGS__)
#define hop_abs(...) hop_abs_at(HOP_HERE, __VA_ARGS__)
#define hop_sign(...) hop_sign_at(HOP_HERE, __VA_ARGS__)
#define hop_floor(...) hop_floor_at(HOP_HERE, __VA_ARGS__)
#define hop_ceil(...) hop_ceil_at(HOP_HERE, __VA_ARGS__)
#define hop_trunc(...) hop_trunc_at(HOP_HERE, __VA_ARGS__)
#define hop_round(...) hop_round_at(HOP_HERE, __VA_ARGS__)
#define hop_exp(...) hop_exp_at(HOP_HERE, __VA_ARGS__)
#define hop_expm1(...) hop_expm1_at(HOP_HERE, __VA_ARGS__)
#define hop_log(...) hop_log_at(HOP_HERE, __VA_ARGS__)
#define hop_log1p(...) hop_log1p_at(HOP_HERE, __VA_ARGS__)
#define hop_exp2(...) hop_exp2_at(HOP_HERE, __VA_ARGS__)
#define hop_log2(...) hop_log2_at(HOP_HERE, __VA_ARGS__)
#define hop_sqrt(...) hop_sqrt_at(HOP_HERE, __VA_ARGS__)
#define hop_rsqrt(...) hop_rsqrt_at(HOP_HERE, __VA_ARGS__)
#define hop_cbrt(...) hop_cbrt_at(HOP_HERE, __VA_ARGS__)
#define hop_sin(...) hop_sin_at(HOP_HERE, __VA_ARGS__)
#define hop_cos(...) hop_cos_at(HOP_HERE, __VA_ARGS__)
#define hop_tan(...) hop_tan_at(HOP_HERE, __VA_ARGS__)
#define hop_asin(...) hop_asin_at(HOP_HERE, __VA_ARGS__)
#define hop_acos(...) hop_acos_at(HOP_HERE, __VA_ARGS__)
#define hop_atan(...) hop_atan_at(HOP_HERE, __VA_ARGS__)
#define hop_sinh(...) hop_sinh_at(HOP_HERE, __VA_ARGS__)
#define hop_cosh(...) hop_cosh_at(HOP_HERE, __VA_ARGS__)
#define hop_tanh(...) hop_tanh_at(HOP_HERE, __VA_ARGS__)
#define hop_asinh(...) hop_asinh_at(HOP_HERE, __VA_ARGS__)
#define hop_acosh(...) hop_acosh_at(HOP_HERE, __VA_ARGS__)
#define hop_atanh(...) hop_atanh_at(HOP_HERE, __VA_ARGS__)
#define hop_sigmoid(...) hop_sigmoid_at(HOP_HERE, __VA_ARGS__)
#define hop_erf(...) hop_erf_at(HOP_HERE, __VA_ARGS__)
#define hop_erfc(...) hop_erfc_at(HOP_HERE, __VA_ARGS__)
#define hop_isnan(...) hop_isnan_at(HOP_HERE, __VA_ARGS__)
#define hop_isinf(...) hop_isinf_at(HOP_HERE, __VA_ARGS__)
#define hop_isfinite(...) hop_isfinite_at(HOP_HERE, __VA_ARGS__)
#define hop_not(...) hop_not_at(HOP_HERE, __VA_ARGS__)
#define hop_popcount(...) hop_popcount_at(HOP_HERE, __VA_ARGS__)
#define hop_count_leading_zeros(...) hop_count_leading_zeros_at(HOP_HERE, __VA_ARGS__)
#define hop_add(...) hop_add_at(HOP_HERE, __VA_ARGS__)
#define hop_sub(...) hop_sub_at(HOP_HERE, __VA_ARGS__)
#define hop_mul(...) hop_mul_at(HOP_HERE, __VA_ARGS__)
#define hop_div(...) hop_div_at(HOP_HERE, __VA_ARGS__)
#define hop_rem(...) hop_rem_at(HOP_HERE, __VA_ARGS__)
#define hop_floor_div(...) hop_floor_div_at(HOP_HERE, __VA_ARGS__)
#define hop_mod(...) hop_mod_at(HOP_HERE, __VA_ARGS__)
#define hop_pow(...) hop_pow_at(HOP_HERE, __VA_ARGS__)
#define hop_atan2(...) hop_atan2_at(HOP_HERE, __VA_ARGS__)
#define hop_hypot(...) hop_hypot_at(HOP_HERE, __VA_ARGS__)
#define hop_copysign(...) hop_copysign_at(HOP_HERE, __VA_ARGS__)
#define hop_max(...) hop_max_at(HOP_HERE, __VA_ARGS__)
#define hop_min(...) hop_min_at(HOP_HERE, __VA_ARGS__)
#define hop_eq(...) hop_eq_at(HOP_HERE, __VA_ARGS__)
#define hop_ne(...) hop_ne_at(HOP_HERE, __VA_ARGS__)
#define hop_lt(...) hop_lt_at(HOP_HERE, __VA_ARGS__)
#define hop_le(...) hop_le_at(HOP_HERE, __VA_ARGS__)
#define hop_gt(...) hop_gt_at(HOP_HERE, __VA_ARGS__)
#define hop_ge(...) hop_ge_at(HOP_HERE, __VA_ARGS__)
#define hop_and(...) hop_and_at(HOP_HERE, __VA_ARGS__)
#define hop_or(...) hop_or_at(HOP_HERE, __VA_ARGS__)
#define hop_xor(...) hop_xor_at(HOP_HERE, __VA_ARGS__)
#define hop_shift_left(...) hop_shift_left_at(HOP_HERE, __VA_ARGS__)
#define hop_shift_right(...) hop_shift_right_at(HOP_HERE, __VA_ARGS__)

#define hop_stop_gradient(...) hop_stop_gradient_at(HOP_HERE, __VA_ARGS__)
#define hop_select(...) hop_select_at(HOP_HERE, __VA_ARGS__)
#define hop_clamp(...) hop_clamp_at(HOP_HERE, __VA_ARGS__)
#define hop_fma(...) hop_fma_at(HOP_HERE, __VA_ARGS__)
#define hop_cast(...) hop_cast_at(HOP_HERE, __VA_ARGS__) /* (x, "f64") */

/* ---- reductions: axes are text, "all" (or NULL), "0, -1" ---- */

/* bool is summed and multiplied as i64; the mean of integers is f32. logsumexp overflows nowhere. */
#define HOP_REDUCTIONS(X) X(sum) X(prod) X(mean) X(logsumexp) X(reduce_max) X(reduce_min) X(any) X(all)
#define HOP_DECLARE(name) hop_val hop_##name##_at(hop_place at, hop_val x, const char *axes);
HOP_REDUCTIONS(HOP_DECLARE)
#undef HOP_DECLARE
/* The same in a dtype of its own, which elements are brought to before they are added up or multiplied:
 * hop_sum_as(x, "all", "i32") of i8. Floats are kept in the widest of x's dtype, this one and f32, and
 * rounded once. NULL: as above. */
hop_val hop_sum_as_at(hop_place at, hop_val x, const char *axes, const char *dtype);
hop_val hop_prod_as_at(hop_place at, hop_val x, const char *axes, const char *dtype);
#define hop_sum_as(...) hop_sum_as_at(HOP_HERE, __VA_ARGS__)
#define hop_prod_as(...) hop_prod_as_at(HOP_HERE, __VA_ARGS__)
hop_val hop_argmax_at(hop_place at, hop_val x, int axis); /* where the first of the largest stands */
hop_val hop_argmin_at(hop_place at, hop_val x, int axis);
/* The variance, and its root: squares of distances from the mean, summed and divided by their number less
 * `correction` (0, or 1 for a sample). */
hop_val hop_var_at(hop_place at, hop_val x, const char *axes, int correction);
hop_val hop_std_at(hop_place at, hop_val x, const char *axes, int correction);
/* Computed and given in a float dtype of their own, x being any numbers: hop_mean_as(x, "0", "f64") of f32.
 * NULL: as above. */
hop_val hop_mean_as_at(hop_place at, hop_val x, const char *axes, const char *dtype);
hop_val hop_var_as_at(hop_place at, hop_val x, const char *axes, int correction, const char *dtype);
hop_val hop_std_as_at(hop_place at, hop_val x, const char *axes, int correction, const char *dtype);
/* exp divided by its sum over the axes, and the logarithm of that; they keep the axes. */
hop_val hop_softmax_at(hop_place at, hop_val x, const char *axes);
hop_val hop_log_softmax_at(hop_place at, hop_val x, const char *axes);
#define hop_prod(...) hop_prod_at(HOP_HERE, __VA_ARGS__)
#define hop_logsumexp(...) hop_logsumexp_at(HOP_HERE, __VA_ARGS__)
#define hop_argmin(...) hop_argmin_at(HOP_HERE, __VA_ARGS__)
#define hop_var(...) hop_var_at(HOP_HERE, __VA_ARGS__)
#define hop_std(...) hop_std_at(HOP_HERE, __VA_ARGS__)
#define hop_mean_as(...) hop_mean_as_at(HOP_HERE, __VA_ARGS__)
#define hop_var_as(...) hop_var_as_at(HOP_HERE, __VA_ARGS__)
#define hop_std_as(...) hop_std_as_at(HOP_HERE, __VA_ARGS__)
#define hop_softmax(...) hop_softmax_at(HOP_HERE, __VA_ARGS__)
#define hop_log_softmax(...) hop_log_softmax_at(HOP_HERE, __VA_ARGS__)
#define hop_sum(...) hop_sum_at(HOP_HERE, __VA_ARGS__)
#define hop_mean(...) hop_mean_at(HOP_HERE, __VA_ARGS__)
#define hop_reduce_max(...) hop_reduce_max_at(HOP_HERE, __VA_ARGS__)
#define hop_reduce_min(...) hop_reduce_min_at(HOP_HERE, __VA_ARGS__)
#define hop_any(...) hop_any_at(HOP_HERE, __VA_ARGS__)
#define hop_all(...) hop_all_at(HOP_HERE, __VA_ARGS__)
#define hop_argmax(...) hop_argmax_at(HOP_HERE, __VA_ARGS__)

/* ---- windows, and what lies between elements ---- */

/* Windows over an array: texts with an entry for every axis, "1, 1, 3, 3". Padding is not there: it is no
 * part of a sum, and never the largest. */
typedef struct hop_window_spec {
    const char *window;   /* how many elements */
    const char *strides;  /* from one window to the next; NULL: 1 */
    const char *padding;  /* "low:high" in front and behind: "0:0, 0:0, 1:1, 1:1"; NULL: none */
    const char *dilation; /* from one element of a window to the next; NULL: 1 */
    void *reserved[4];
} hop_window_spec;
/* by: "sum", "prod", "max", "min". The derivative of an extreme goes to the first of equals. */
hop_val hop_reduce_window_at(hop_place at, hop_val x, const char *by, const hop_window_spec *spec);
/* The mean: the sum by the window's size, or by how many of its elements are no padding. */
hop_val hop_avg_pool_at(hop_place at, hop_val x, const hop_window_spec *spec, int without_padding);
/* The "mean" or the "max" of bins along these axes, as many as the sizes say: of n elements bin i of m has
 * those from floor(i n / m) up to ceil((i + 1) n / m). */
hop_val hop_adaptive_pool_at(hop_place at, hop_val x, const char *by, const char *axes, const char *sizes);
typedef struct hop_resize_spec {
    const char *axes, *sizes; /* "2, 3" and "112, 112" */
    const char *method;       /* "nearest", "linear", "cubic"; NULL: "linear" */
    /* read from the middle of the first element to that of the last, instead of at the middles of the new
     * ones */
    int align_corners;
    int antialias; /* where an axis becomes shorter the kernel is as wide as a new element */
    void *reserved[4];
} hop_resize_spec;
hop_val hop_resize_at(hop_place at, hop_val x, const hop_resize_spec *spec);
typedef struct hop_sample_spec {
    const char *method;  /* as for hop_resize */
    const char *padding; /* what is outside: "zeros", "border", "reflection"; NULL: "zeros" */
    int align_corners;   /* where -1 and 1 of a grid are: the middles of the outermost elements, not their
                            outer edges; reflection is there, too */
    void *reserved[4];
} hop_sample_spec;
/* x [N, C, S...] at positions [N, T..., as many as S], which name the last axis first: [N, C, T...]. */
hop_val hop_grid_sample_at(hop_place at, hop_val x, hop_val grid, const hop_sample_spec *spec);
/* x at positions that are given for each of its n axes, arrays of one shape; counted in elements. */
hop_val hop_map_coordinates_at(hop_place at, hop_val x, const hop_val *positions, int n,
                               const hop_sample_spec *spec);
#define hop_reduce_window(...) hop_reduce_window_at(HOP_HERE, __VA_ARGS__)
#define hop_avg_pool(...) hop_avg_pool_at(HOP_HERE, __VA_ARGS__)
#define hop_adaptive_pool(...) hop_adaptive_pool_at(HOP_HERE, __VA_ARGS__)
#define hop_resize(...) hop_resize_at(HOP_HERE, __VA_ARGS__)
#define hop_grid_sample(...) hop_grid_sample_at(HOP_HERE, __VA_ARGS__)
#define hop_map_coordinates(...) hop_map_coordinates_at(HOP_HERE, __VA_ARGS__)

/* ---- products ---- */

/* matmul follows NumPy: ranks of one are vectors, leading dims are broadcast. */
hop_val hop_matmul_at(hop_place at, hop_val x, hop_val y);
/* The same added up and given in a dtype of its own: hop_matmul_as(x, y, "i32") of i8, "f32" of bf16. The
 * operands may differ in dtype; they are not promoted. NULL: as above. */
hop_val hop_matmul_as_at(hop_place at, hop_val x, hop_val y, const char *dtype);
/* Sums of products over contracted axes; result: batch dims, free dims of x, free dims of y. Axes are lists
 * like "0, 1"; NULL: none. */
typedef struct hop_dot_spec {
    const char *contract_x, *contract_y, *batch_x, *batch_y;
    const char *dtype; /* of the result, as for hop_matmul_as; NULL: that of x and y promoted */
    void *reserved[3];
} hop_dot_spec;
hop_val hop_dot_at(hop_place at, hop_val x, hop_val y, const hop_dot_spec *spec);
/* Convolutions of x, which has a batch, channels and any number of spatial axes, with windows w of as many.
 * Lists have an entry for each spatial axis, or one for all: "2, 2" or "2". */
typedef struct hop_conv_spec {
    const char *strides; /* NULL: 1 */
    /* zeros around x, "low:high" or one number for both; negative: so many elements are left out. "same": so
     * many that strides alone make the result smaller; NULL, "valid": none */
    const char *padding;
    const char *dilation;       /* from one tap of a window to the next; NULL: 1 */
    const char *x_dilation;     /* from one element of x to the next, zeros between; not of conv_transpose */
    const char *output_padding; /* of conv_transpose alone: further results behind; NULL: 0 */
    int groups;                 /* of channels, each with windows of its own; 0: 1 */
    /* A letter per axis: N batch, C channels, any others space; of windows O channels out, I channels in. The
     * result has x's. NULL: "NCHW" and "OIHW" (conv_transpose: "IOHW"), with as many spatial axes as there
     * are; where x has its channels last "HWIO". */
    const char *layout, *kernel_layout;
    const char *dtype; /* of the result, as for hop_matmul_as; NULL: that of x and w promoted */
    void *reserved[3];
} hop_conv_spec;
/* w has the channels out and, of each group, the channels in. */
hop_val hop_conv_at(hop_place at, hop_val x, hop_val w, const hop_conv_spec *spec);
/* The derivative of such a convolution by its input, applied to x: w has the channels in and, of each group,
 * the channels out; strides, padding, dilation and groups are those of the convolution. */
hop_val hop_conv_transpose_at(hop_place at, hop_val x, hop_val w, const hop_conv_spec *spec);
#define hop_conv(...) hop_conv_at(HOP_HERE, __VA_ARGS__)
#define hop_conv_transpose(...) hop_conv_transpose_at(HOP_HERE, __VA_ARGS__)
/* Sums of products of n operands, one letter per axis: hop_einsum("bij,bjk->bik", in, 2). A letter that the
 * result does not have is summed over, one that stands twice in an operand takes its diagonal, "..." stands
 * for the axes that are left, which are broadcast. Without -> the result has the letters that stand there
 * once, in the order of the alphabet, after "...". */
hop_val hop_einsum_at(hop_place at, const char *subscripts, const hop_val *operands, int n);
/* The same in a dtype of its own, as for hop_matmul_as. */
hop_val hop_einsum_as_at(hop_place at, const char *subscripts, const hop_val *operands, int n,
                         const char *dtype);
hop_val hop_outer_at(hop_place at, hop_val x, hop_val y); /* all products of elements of two vectors */
hop_val hop_diagonal_at(hop_place at, hop_val x);         /* of the last two axes */
hop_val hop_trace_at(hop_place at, hop_val x);            /* the sum of the diagonal */
#define hop_einsum(...) hop_einsum_at(HOP_HERE, __VA_ARGS__)
#define hop_outer(...) hop_outer_at(HOP_HERE, __VA_ARGS__)
#define hop_diagonal(...) hop_diagonal_at(HOP_HERE, __VA_ARGS__)
#define hop_trace(...) hop_trace_at(HOP_HERE, __VA_ARGS__)
#define hop_matmul(...) hop_matmul_at(HOP_HERE, __VA_ARGS__)
#define hop_matmul_as(...) hop_matmul_as_at(HOP_HERE, __VA_ARGS__)
#define hop_einsum_as(...) hop_einsum_as_at(HOP_HERE, __VA_ARGS__)
#define hop_dot(...) hop_dot_at(HOP_HERE, __VA_ARGS__)

/* ---- shapes ---- */

hop_val hop_reshape_at(hop_place at, hop_val x,
                       const char *dims); /* "T, -1": one size may be left to find out */
hop_val hop_reshape_dims_at(hop_place at, hop_val x, const hop_dim *dims, int rank);
hop_val hop_broadcast_at(hop_place at, hop_val x, const char *dims); /* to these sizes, as in NumPy */
hop_val hop_broadcast_dims_at(hop_place at, hop_val x, const hop_dim *dims, int rank);
hop_val hop_full_dims_at(hop_place at, const char *dtype, const hop_dim *dims, int rank, hop_val value);
hop_val hop_permute_at(hop_place at, hop_val x, const char *order); /* result axis i is axis order[i] of x */
hop_val hop_transpose_at(hop_place at, hop_val x);                  /* swaps the last two axes */
hop_val hop_expand_at(hop_place at, hop_val x, int axis);           /* a new axis of size 1 */
hop_val hop_squeeze_at(
    hop_place at, hop_val x,
    const char *axes); /* without these axes of size 1; NULL: all that are known to have it */
hop_val hop_reverse_at(hop_place at, hop_val x, const char *axes);
hop_val hop_concat_at(hop_place at, const hop_val *parts, int n, int axis);
hop_val hop_stack_at(hop_place at, const hop_val *parts, int n, int axis);
/* Per axis "low:high" or "low:high:between" further elements: "1:1, 0:2". */
hop_val hop_pad_at(hop_place at, hop_val x, const char *pads, hop_val value);
int hop_split_at(hop_place at, hop_val *parts, int n, hop_val x, int axis); /* n equal parts along the axis */
int hop_split_sizes_at(hop_place at, hop_val *parts, int n, hop_val x, int axis,
                       const char *sizes); /* parts of these sizes, "2, T - 2" */
hop_val hop_tile_at(hop_place at, hop_val x,
                    const char *repeats); /* the whole array so many times along each axis, "2, 3" */
hop_val hop_roll_at(hop_place at, hop_val x, hop_val shift,
                    int axis); /* towards the end of the axis, from there to its beginning; shift: a number or
                                  a traced integer */
hop_val hop_flatten_at(hop_place at, hop_val x);
hop_val hop_move_axis_at(hop_place at, hop_val x, int from, int to); /* the other axes keep their order */
hop_val hop_swap_axes_at(hop_place at, hop_val x, int a, int b);
hop_val hop_tril_at(
    hop_place at, hop_val x,
    int diagonal); /* of the last two axes: zeros above the diagonal, which is moved up by so many */
hop_val hop_triu_at(hop_place at, hop_val x, int diagonal); /* zeros below it */
#define hop_split(...) hop_split_at(HOP_HERE, __VA_ARGS__)
#define hop_split_sizes(...) hop_split_sizes_at(HOP_HERE, __VA_ARGS__)
#define hop_tile(...) hop_tile_at(HOP_HERE, __VA_ARGS__)
#define hop_roll(...) hop_roll_at(HOP_HERE, __VA_ARGS__)
#define hop_flatten(...) hop_flatten_at(HOP_HERE, __VA_ARGS__)
#define hop_move_axis(...) hop_move_axis_at(HOP_HERE, __VA_ARGS__)
#define hop_swap_axes(...) hop_swap_axes_at(HOP_HERE, __VA_ARGS__)
#define hop_tril(...) hop_tril_at(HOP_HERE, __VA_ARGS__)
#define hop_triu(...) hop_triu_at(HOP_HERE, __VA_ARGS__)
#define hop_reshape(...) hop_reshape_at(HOP_HERE, __VA_ARGS__)
#define hop_reshape_dims(...) hop_reshape_dims_at(HOP_HERE, __VA_ARGS__)
#define hop_broadcast(...) hop_broadcast_at(HOP_HERE, __VA_ARGS__)
#define hop_broadcast_dims(...) hop_broadcast_dims_at(HOP_HERE, __VA_ARGS__)
#define hop_full_dims(...) hop_full_dims_at(HOP_HERE, __VA_ARGS__)
#define hop_permute(...) hop_permute_at(HOP_HERE, __VA_ARGS__)
#define hop_transpose(...) hop_transpose_at(HOP_HERE, __VA_ARGS__)
#define hop_expand(...) hop_expand_at(HOP_HERE, __VA_ARGS__)
#define hop_squeeze(...) hop_squeeze_at(HOP_HERE, __VA_ARGS__)
#define hop_reverse(...) hop_reverse_at(HOP_HERE, __VA_ARGS__)
#define hop_concat(...) hop_concat_at(HOP_HERE, __VA_ARGS__)
#define hop_stack(...) hop_stack_at(HOP_HERE, __VA_ARGS__)
#define hop_pad(...) hop_pad_at(HOP_HERE, __VA_ARGS__)

/* ---- parts of arrays ---- */

/* Per axis a:b, a:b:step, a single index (which takes the axis away), or :; "..." stands for all axes that
 * are left over, "new" for a new one. Negative numbers count from the end, steps may be negative. */
hop_val hop_slice_at(hop_place at, hop_val x, const char *slices);
hop_val hop_index_at(hop_place at, hop_val x, hop_val i,
                     int axis); /* x without the axis, at a traced integer, clamped */
hop_val hop_dynamic_slice_at(hop_place at, hop_val x, const hop_val *starts,
                             const char *sizes); /* one start per axis; clamped so that it fits */
hop_val hop_dynamic_update_at(hop_place at, hop_val x, hop_val update, const hop_val *starts);
/* At indices that are arrays, of any integer dtype. Reading brings indices into range (of an axis of size 0
 * it gives zeros); writing drops updates whose indices lie outside. Negative indices lie outside. */
hop_val hop_take_at(hop_place at, hop_val x, hop_val indices,
                    int axis); /* slices of x at the indices, whose dims replace the axis */
hop_val hop_take_along_at(hop_place at, hop_val x, hop_val indices,
                          int axis); /* a position along the axis for every place; other axes are broadcast */
/* x[i, j, …]: one index array per axis listed (NULL: the first n), broadcast against each other; their dims
 * stand where the first of the axes stood. */
hop_val hop_gather_at(hop_place at, hop_val x, const hop_val *indices, int n, const char *axes);
/* x with updates put where hop_gather would read, one after the other. mode: "add", "set" (the last one
 * stays), "mul", "min", "max". Updates are cast to the dtype of x and broadcast. */
hop_val hop_scatter_at(hop_place at, hop_val x, const hop_val *indices, int n, const char *axes,
                       hop_val updates, const char *mode);
#define HOP_SCATTERS(X) X(add) X(set) X(mul) X(min) X(max)
#define HOP_DECLARE(mode) \
    hop_val hop_scatter_##mode##_at(hop_place at, hop_val x, hop_val indices, hop_val updates, int axis);
HOP_SCATTERS(HOP_DECLARE)
#undef HOP_DECLARE
/* Where x is not zero, row by row: out gets one i64 array per axis of x (hop_gather takes them). How many
 * there are is a new size. */
int hop_nonzero_at(hop_place at, hop_val *out, hop_val x);
/* The first `size` (text) of them, then `fill`. Works under vmap. */
int hop_nonzero_sized_at(hop_place at, hop_val *out, hop_val x, const char *size, int64_t fill);
#define hop_slice(...) hop_slice_at(HOP_HERE, __VA_ARGS__)
#define hop_index(...) hop_index_at(HOP_HERE, __VA_ARGS__)
#define hop_dynamic_slice(...) hop_dynamic_slice_at(HOP_HERE, __VA_ARGS__)
#define hop_dynamic_update(...) hop_dynamic_update_at(HOP_HERE, __VA_ARGS__)
#define hop_take(...) hop_take_at(HOP_HERE, __VA_ARGS__)
#define hop_take_along(...) hop_take_along_at(HOP_HERE, __VA_ARGS__)
#define hop_gather(...) hop_gather_at(HOP_HERE, __VA_ARGS__)
#define hop_scatter(...) hop_scatter_at(HOP_HERE, __VA_ARGS__)
#define hop_scatter_add(...) hop_scatter_add_at(HOP_HERE, __VA_ARGS__)
#define hop_scatter_set(...) hop_scatter_set_at(HOP_HERE, __VA_ARGS__)
#define hop_scatter_mul(...) hop_scatter_mul_at(HOP_HERE, __VA_ARGS__)
#define hop_scatter_min(...) hop_scatter_min_at(HOP_HERE, __VA_ARGS__)
#define hop_scatter_max(...) hop_scatter_max_at(HOP_HERE, __VA_ARGS__)
#define hop_nonzero(...) hop_nonzero_at(HOP_HERE, __VA_ARGS__)
#define hop_nonzero_sized(...) hop_nonzero_sized_at(HOP_HERE, __VA_ARGS__)

/* ---- along an axis: running values, order ---- */

/* Running values along an axis; reverse: from its end. bool is summed and multiplied as i64, logcumsumexp
 * takes integers as f32. */
#define HOP_CUMULATIVE_OPERATORS(X) X(cumsum) X(cumprod) X(cummax) X(cummin) X(logcumsumexp)
#define HOP_DECLARE(name) hop_val hop_##name##_at(hop_place at, hop_val x, int axis, int reverse);
HOP_CUMULATIVE_OPERATORS(HOP_DECLARE)
#undef HOP_DECLARE
/* In a dtype of its own, as for hop_sum_as: running values are kept in the widest of x's dtype, this one and
 * f32, and each is rounded once. */
hop_val hop_cumsum_as_at(hop_place at, hop_val x, int axis, int reverse, const char *dtype);
hop_val hop_cumprod_as_at(hop_place at, hop_val x, int axis, int reverse, const char *dtype);
hop_val hop_recurrence_at(hop_place at, hop_val a, hop_val b, int axis,
                          int reverse); /* s = a*s + b, the first s is the first b */
/* Equals keep their order, -0 and 0 are equal, NaN is larger than every number. */
hop_val hop_sort_at(hop_place at, hop_val x, int axis, int descending);
hop_val hop_argsort_at(hop_place at, hop_val x, int axis,
                       int descending); /* where the sorted elements stand in x, i64 */
int hop_top_k_at(hop_place at, hop_val *out, hop_val x, const char *k,
                 int axis); /* out: the k (text) largest, largest first, and where they stand */
/* Where values belong in lines [L..., n] that are sorted, values [L..., S...]: before their equals, right:
 * behind them. */
hop_val hop_searchsorted_at(hop_place at, hop_val sorted, hop_val values, int right);
#define hop_cumsum(...) hop_cumsum_at(HOP_HERE, __VA_ARGS__)
#define hop_cumprod(...) hop_cumprod_at(HOP_HERE, __VA_ARGS__)
#define hop_cumsum_as(...) hop_cumsum_as_at(HOP_HERE, __VA_ARGS__)
#define hop_cumprod_as(...) hop_cumprod_as_at(HOP_HERE, __VA_ARGS__)
#define hop_cummax(...) hop_cummax_at(HOP_HERE, __VA_ARGS__)
#define hop_cummin(...) hop_cummin_at(HOP_HERE, __VA_ARGS__)
#define hop_logcumsumexp(...) hop_logcumsumexp_at(HOP_HERE, __VA_ARGS__)
#define hop_recurrence(...) hop_recurrence_at(HOP_HERE, __VA_ARGS__)
#define hop_sort(...) hop_sort_at(HOP_HERE, __VA_ARGS__)
#define hop_argsort(...) hop_argsort_at(HOP_HERE, __VA_ARGS__)
#define hop_top_k(...) hop_top_k_at(HOP_HERE, __VA_ARGS__)
#define hop_searchsorted(...) hop_searchsorted_at(HOP_HERE, __VA_ARGS__)

/* ---- random numbers: from explicit keys u32[2], equal on every back end ---- */

hop_val hop_key_at(hop_place at, uint64_t seed);
hop_val hop_random_bits_at(hop_place at, hop_val key, const char *dims);
hop_val hop_random_uniform_at(hop_place at, hop_val key, const char *type); /* in [0, 1) */
hop_val hop_random_normal_at(hop_place at, hop_val key, const char *type);
hop_val hop_random_split_at(hop_place at, hop_val key,
                            const char *count); /* keys u32[count, 2], each of which gives other numbers */
hop_val hop_randint_at(hop_place at, hop_val key, const char *type, hop_val lo,
                       hop_val hi); /* lo, …, hi - 1, all equally likely */
hop_val hop_bernoulli_at(hop_place at, hop_val key, hop_val p,
                         const char *dims);                              /* true with probability p */
hop_val hop_permutation_at(hop_place at, hop_val key, const char *size); /* 0 to size - 1 in random order */
hop_val hop_shuffle_at(hop_place at, hop_val key, hop_val x,
                       int axis); /* the slices along the axis in random order */
#define hop_permutation(...) hop_permutation_at(HOP_HERE, __VA_ARGS__)
#define hop_shuffle(...) hop_shuffle_at(HOP_HERE, __VA_ARGS__)
#define hop_random_split(...) hop_random_split_at(HOP_HERE, __VA_ARGS__)
#define hop_randint(...) hop_randint_at(HOP_HERE, __VA_ARGS__)
#define hop_bernoulli(...) hop_bernoulli_at(HOP_HERE, __VA_ARGS__)
#define hop_key(...) hop_key_at(HOP_HERE, __VA_ARGS__)
#define hop_random_bits(...) hop_random_bits_at(HOP_HERE, __VA_ARGS__)
#define hop_random_uniform(...) hop_random_uniform_at(HOP_HERE, __VA_ARGS__)
#define hop_random_normal(...) hop_random_normal_at(HOP_HERE, __VA_ARGS__)

/* ---- effects ---- */

/* Ends the run with HOP_CHECK, the message and the values unless every element of condition is true. */
int hop_check_at(hop_place at, hop_val condition, const char *message, const hop_val *values, int n);
/* Prints a line, the values in place of {}. */
int hop_print_at(hop_place at, const char *format, const hop_val *values, int n);
/* The values as they are, n floats; a gradient that goes through what it gave prints their cotangents. */
int hop_print_backward_at(hop_place at, hop_val *out, const char *format, const hop_val *values, int n);
#define hop_print_backward(...) hop_print_backward_at(HOP_HERE, __VA_ARGS__)
/* The values as they are; no pass merges or moves anything across. */
int hop_barrier_at(hop_place at, hop_val *out, const hop_val *in, int n);
#define hop_barrier(...) hop_barrier_at(HOP_HERE, __VA_ARGS__)
/* Calls the function that is registered under the name when the program runs, with the values: as often and
 * in the order in which the program says, also in loops; a gradient calls it once, with the values
 * themselves; under vmap it is called for each lane that runs, in ascending order. */
int hop_callback_at(hop_place at, const char *name, const hop_val *values, int n);
#define hop_callback(...) hop_callback_at(HOP_HERE, __VA_ARGS__)
/* The same, but under vmap it is called once for all lanes, if any of them runs: the values have the lanes as
 * leading dims, of size 1 where all lanes share one. */
int hop_callback_together_at(hop_place at, const char *name, const hop_val *values, int n);
#define hop_callback_together(...) hop_callback_together_at(HOP_HERE, __VA_ARGS__)

/* A function of the host's. args are views of the program's memory: valid during the call, to be read only;
 * hop_tensor_copy keeps one. Returns 0; anything else ends the run, which returns it (hop_fail("…") gives a
 * message). It is called on the thread that runs the program and may run programs itself. */
typedef int (*hop_callback_fn)(void *user, hop_tensor *const *args, int n);
/* Makes the function known to the whole process, in place of one that had the name; programs may be captured,
 * read and compiled before. A run that meets a name without a function ends with HOP_INVALID. release (may be
 * NULL) gets user when the function was replaced or removed and no call of it is at work any more. */
hop_status hop_callback_register(const char *name, hop_callback_fn f, void *user,
                                 void (*release)(void *user));
hop_status hop_callback_unregister(const char *name);
#define hop_check(...) hop_check_at(HOP_HERE, __VA_ARGS__)
#define hop_print(...) hop_print_at(HOP_HERE, __VA_ARGS__)

/* ---- operators from outside ----
 *
 * A function of the host's that programs call like any operator, with results. Its signature says what it
 * takes and gives:
 *
 *     filter(x: f32[N, 3], mut state: f32[S]) -> f32[N]
 *
 * Sizes and dtypes may have names (N; T for a dtype: a capital letter), which operands tell.
 * docs/operators.md has all of it: parameters that are updated (mut), filled (out), absent (?), lists (*),
 * sizes that are found when the operator runs (?k). These structures are all that the library of an operator
 * needs; none of hop's functions is. */

/* The numbers of dtypes, as arrays of operators have them. */
enum hop_dtype {
    HOP_BOOL,
    HOP_I8,
    HOP_I16,
    HOP_I32,
    HOP_I64,
    HOP_U8,
    HOP_U16,
    HOP_U32,
    HOP_U64,
    HOP_F16,
    HOP_BF16,
    HOP_F32,
    HOP_F64,
    HOP_OBJECT = 14 /* no dtype of arrays: data is the object's pointer */
};

#ifndef HOP_OPERATOR_TYPES /* headers of emitted C have them, too */
#define HOP_OPERATOR_TYPES 1
typedef struct hop_operator_array {
    void *data;             /* first element; NULL: absent, or a result whose size the operator finds */
    int32_t dtype, rank;    /* enum hop_dtype */
    const int64_t *dims;    /* a size that is to be found: -1 */
    const int64_t *strides; /* in elements; NULL: row-major, as everything is but `mut` views */
} hop_operator_array;

/* One call. Everything in it is valid until the function returns. */
typedef struct hop_operator_call {
    void *user;    /* of the registration; in emitted C context->user */
    char *message; /* room for a text, which a function that fails may write */
    size_t room;
    /* The operands in the order of the signature, lists one element after the other, then the results, then
     * the `out` parameters. A `mut` operand is to be written in place. Results and `out` parameters hold
     * anything when it is called: all of their elements are to be written. */
    const hop_operator_array *arrays;
    int32_t n_arrays;
    const int32_t *counts; /* per parameter that is no `out`: how many of the arrays are its */
    int32_t lanes;         /* every array has so many leading dims more than the signature says */
    /* Memory for the result of that number (behind the results: the `out` parameters) with these dims, where
     * the signature has a size that is found; NULL: there is none, or the dims do not fit. Once a result. */
    void *(*result)(struct hop_operator_call *call, int result, const int64_t *dims);
    void *host;
} hop_operator_call;
#endif

/* arrays: the data of call->arrays; sizes: those that have names in the signature, in the order in which they
 * appear there first (one that is to be found: -1). Returns 0; anything else ends the run, which returns it,
 * with the text in call->message. It may be called on several threads at once. */
typedef int (*hop_operator_run)(hop_operator_call *call, void *const *arrays, const int64_t *sizes);
/* Sizes that results have and operands do not tell, in terms of those that operands do: both in the order of
 * the signature. It is asked when a call is captured. Returns 0, or hop_fail("…"). */
typedef int (*hop_operator_infer)(void *user, const hop_dim *known, hop_dim *found);

/* A rule that is captured for each call, with the types that it has there. backward gets the operands, the
 * results and a cotangent for each float result; where there is a forward, what that saves in place of
 * operands and results. Inside of it a call of the same operator is one without rules. */
typedef struct hop_operator_rule {
    hop_body body; /* NULL: none */
    void *env;
    int n_results; /* 0: as many as a call asks for; that of a forward must be said */
} hop_operator_rule;

typedef struct hop_operator_spec {
    const char *signature; /* with the name in front */
    int version;           /* a part of the key under which compiled programs are kept */
    hop_operator_run run;
    void *user;
    void (*release)(
        void *user); /* gets user when the operator was replaced or removed and no call is at work */
    hop_operator_infer infer;
    /* NULL or "none": calls whose results nobody needs are left out, equal ones are made once; "check": it
     * may end the run, and is not left out; "io": every call is made, in order; "unordered": every call is
     * made, in any order. */
    const char *effect;
    int strided; /* it takes `mut` views with strides; else they come as row-major copies */
    /* Over lanes, where it has no batch: 0: it is called once per lane, 1: once, with the lanes as leading
     * dims, 2: that is an error. */
    int together;
    /* As in hop_custom_spec; a call of an operator that has rules is recorded as a custom call of it. The
     * inputs are the operands, the results those of the signature, `out` parameters, new contents of `mut`
     * ones. */
    hop_fn *forward, *backward, *jvp, *batch;
    hop_operator_rule forward_body, backward_body, jvp_body, batch_body; /* where there is no function */
    void *reserved[8];
} hop_operator_spec;

/* Makes it known to the whole process. One of the same name and signature is replaced, of another signature
 * it is an error. */
hop_status hop_operator_register(const hop_operator_spec *spec);
hop_status hop_operator_unregister(const char *name);
/* The signature of one that is registered, as hop writes it, NULL: there is none. Valid until the next call
 * of this function on the thread. */
const char *hop_operator_signature(const char *name);
/* A call. A `mut` parameter takes an assignable array, which then holds the new content, or a value, whose
 * new content is a result behind the others. hop_val {0, 0}: an absent one. */
int hop_operator_at(hop_place at, hop_val *results, int n_results, const char *name, const hop_val *in,
                    int n_in);
#define hop_operator(...) hop_operator_at(HOP_HERE, __VA_ARGS__)
/* The same of one with several lists: counts says for each parameter that is no `out` how many of the
 * arguments are its. NULL: the one list has what is left. */
int hop_operator_lists_at(hop_place at, hop_val *results, int n_results, const char *name, const hop_val *in,
                          int n_in, const int *counts);
#define hop_operator_lists(...) hop_operator_lists_at(HOP_HERE, __VA_ARGS__)

/* ---- what gradients keep ---- */

/* The value as it is. A gradient that reads it keeps it (rather than computing it again), or computes it
 * again from what is kept (rather than keeping it). What is kept is stored in programs without gradients,
 * too, rather than computed where it is read. */
hop_val hop_keep_at(hop_place at, hop_val x);
hop_val hop_recompute_at(hop_place at, hop_val x);
#define hop_keep(...) hop_keep_at(HOP_HERE, __VA_ARGS__)
#define hop_recompute(...) hop_recompute_at(HOP_HERE, __VA_ARGS__)
/* The value as it is, under a name that policies of checkpointed calls speak of (hop_call_spec). */
hop_val hop_checkpoint_name_at(hop_place at, hop_val x, const char *name);
#define hop_checkpoint_name(...) hop_checkpoint_name_at(HOP_HERE, __VA_ARGS__)

/* ---- probes ---- */

/* The value as it is, marked by a name: "loss", "layer1/attn". hop_probes and hop_perturb speak of it; to
 * everybody else it is not there. The names of the regions around it (of kind "named") stand before its
 * own. */
hop_val hop_probe_at(hop_place at, hop_val x, const char *name);
#define hop_probe(...) hop_probe_at(HOP_HERE, __VA_ARGS__)

/* Any operator of the table (`hop ops` lists them) with attributes as in the text form: hop_apply(out, 1,
 * "argmax {dim = 1}", in, 1). Operands are taken as they are: no promotion, no broadcasting. */
int hop_apply_at(hop_place at, hop_val *out, int n_out, const char *op, const hop_val *in, int n_in);
#define hop_apply(...) hop_apply_at(HOP_HERE, __VA_ARGS__)

/* ---- operators that take functions ----
 *
 * Bodies may use any value of the bodies around them. A body is run when the operator is called, and equal
 * bodies become one function. Under the same `key` (NULL: none) and with inputs of the same types a body is
 * not run again; whoever gives a key promises that it would do the same.
 *
 * A body may have a name, which texts show (`scan … @step { … }`, `fn @step`), and messages about what is
 * wrong inside of it. Names mean nothing else: equal bodies are one, whatever they are called, and what
 * transforms make of a body is called after it (step_vjp, step_backward). They are copied. */

/* (carry…; x…) -> (carry…; y…) for each slice of xs. Results: the last carries, then the ys, stacked. */
typedef struct hop_scan_spec {
    hop_body step;
    void *env;
    const hop_val *carry;
    int n_carry;
    const hop_val *xs; /* an assignable array here gives the step slices that it may assign to */
    int n_xs;
    const char *length; /* number of steps, when there are no xs */
    int reverse;        /* from the last slice to the first */
    /* What a gradient keeps; the rest it computes again. NULL, "none": all it reads; "recompute": the
     * carries; "every 8", "every 64, 8": carries of those steps; "sqrt": about sqrt(T) carries; "binomial
     * 20": 20 carries, with as few steps run again as that many allow. */
    const char *schedule;
    const void *key;
    const char *name; /* of the step, for texts and messages; NULL: none */
    void *reserved[3];
} hop_scan_spec;
#define hop_scan(...) hop_scan_at(HOP_HERE, __VA_ARGS__)
int hop_scan_at(hop_place at, hop_val *results, int n_results, const hop_scan_spec *spec);

/* One program for each rank of a mesh: the body, on the parts that the rank has of the operands; (part of
 * each x…) -> (part of each y…). Inside, types are those of parts, "f32[8 // 2]", and the axes of the mesh
 * are axes along which values vary, across which operators work (hop_apply: all_reduce, rank_permute, …).
 * Values from outside that it uses are the same on all ranks. Plain operands are cut; distributed ones must
 * lie as in_placements say, or are moved there with redistribute_inputs. Results are distributed arrays, or
 * plain ones where all ranks have all of it. Gradients arrive reduced and lie as what they belong to; nobody
 * has to say so, and what in_grad_placements say is checked. Meshes and placements are those of
 * hop_distribute, with a comma between arrays: "0 _, _ _". */
typedef struct hop_local_map_spec {
    hop_body body;
    void *env;
    const hop_val *in;
    int n_in;
    const char *mesh;               /* "data = 2, model = 4" */
    const char *in_placements;      /* of each operand; NULL: all ranks have all of each */
    const char *out_placements;     /* of each result; looked at when the body has run, which may set it */
    const char *name;               /* of the body, for texts and messages; NULL: none */
    const char *in_grad_placements; /* of each operand's gradient, "sum" for "_" will do; NULL: not said */
    int redistribute_inputs;
    void *reserved[1];
} hop_local_map_spec;
#define hop_local_map(...) hop_local_map_at(HOP_HERE, __VA_ARGS__)
int hop_local_map_at(hop_place at, hop_val *results, int n_results, const hop_local_map_spec *spec);
/* x, where it is to lie: the cheapest exchange for what changes. mesh NULL: the one that x lies on;
 * placements "_ _": the whole of it, a plain array. */
hop_val hop_redistribute_at(hop_place at, hop_val x, const char *mesh, const char *placements);
#define hop_redistribute(...) hop_redistribute_at(HOP_HERE, __VA_ARGS__)

/* (x…) -> (y…) for each slice of xs, in any order unless it has effects. Results: the ys, stacked. A body
 * that assigns to an array from outside is run as a scan. */
typedef struct hop_map_spec {
    hop_body body;
    void *env;
    const hop_val *xs; /* an assignable array here gives the body slices that it may assign to */
    int n_xs;
    const char *length; /* how many times, when there are no xs */
    int sequential;     /* one slice after the other even where all at once would be faster: less memory */
    const void *key;
    const char *name; /* of the body, for texts and messages; NULL: none */
    void *reserved[3];
} hop_map_spec;
#define hop_map(...) hop_map_at(HOP_HERE, __VA_ARGS__)
int hop_map_at(hop_place at, hop_val *results, int n_results, const hop_map_spec *spec);

/* For each index i, an i64[], with from <= i < to: body (i; carry…) -> (carry…; y…). Results: the last
 * carries, then the ys, stacked: one row a trip. */
typedef struct hop_fori_spec {
    hop_body body;
    void *env;
    hop_val from, to; /* numbers or traced integers */
    const hop_val *carry;
    int n_carry;
    int n_stack;
    const char *schedule; /* what a gradient keeps, as for scan */
    const void *key;
    const char *name; /* of the body, for texts and messages; NULL: none */
    void *reserved[3];
} hop_fori_spec;
#define hop_fori(...) hop_fori_at(HOP_HERE, __VA_ARGS__)
int hop_fori_at(hop_place at, hop_val *results, int n_results, const hop_fori_spec *spec);

/* Running totals along an axis: row 0 as it is, row t is combine(row t - 1 of the results…; row t of xs…) ->
 * (row t of the results…). The function should be associative, and may do nothing but compute. Results: as
 * many as xs, of the same types. */
typedef struct hop_associative_scan_spec {
    hop_body combine;
    void *env;
    const hop_val *xs;
    int n_xs;
    int axis;
    int reverse; /* from the last row to the first */
    const void *key;
    const char *name; /* of the combine function, for texts and messages; NULL: none */
    void *reserved[3];
} hop_associative_scan_spec;
#define hop_associative_scan(...) hop_associative_scan_at(HOP_HERE, __VA_ARGS__)
int hop_associative_scan_at(hop_place at, hop_val *results, int n_results,
                            const hop_associative_scan_spec *spec);

/* Attention with functions for scores and mask (docs/control-flow.md). query [b, h, l, e], key [b or 1, h /
 * g, s, e], value [b or 1, h / g, s, v]; both functions: (score, batch, head, index of the query, index of
 * the key), scalars -> a score, or whether the key takes part (a bool). Results, always three: [b, h, l, v],
 * the logarithm of the sum of the exponentials of the scores [b, h, l], the largest score [b, h, l]. */
typedef struct hop_flex_attention_spec {
    hop_val query, key, value;
    hop_body score; /* NULL: scores as they are */
    hop_body mask;  /* NULL: every key takes part */
    void *env;
    hop_val scale; /* of the products of queries and keys; not set: 1 / sqrt(e) */
    /* integers from which the functions' indices count; not set: 0 */
    hop_val first_batch, first_head, first_query, first_key;
    /* a block mask: 0, 2 or 4 values. Per block of queries, how many blocks of keys take part [b or 1, h or
     * 1, rows], and which, first those that do [b or 1, h or 1, rows, columns]; then the same for blocks in
     * which all keys take part, so that the mask is not asked. Compact lists have offsets [b or 1, h or 1,
     * rows + 1] into columns [blocks] of all rows. One more value, ranges [blocks, query_block, 2], says for
     * each block of a compact first list and each query in it which keys of the block take part: the first
     * one and the one behind the last; then no mask is asked. What is not listed takes no part, whatever the
     * mask says: HOP_DEBUG=masks in the environment lets programs check that the two agree. */
    const hop_val *blocks;
    int n_blocks;
    int query_block, key_block;         /* sizes of a block; both 0: hop's choice */
    const char *score_name, *mask_name; /* for texts and messages; NULL: none */
    void *reserved[3];
} hop_flex_attention_spec;
#define hop_flex_attention(...) hop_flex_attention_at(HOP_HERE, __VA_ARGS__)
int hop_flex_attention_at(hop_place at, hop_val *results, int n_results, const hop_flex_attention_spec *spec);

/* The lists of a block mask, as hop_flex_attention takes them, of a mask function with these five parameters,
 * of which it does not read the score. Results, i64: four, five with ranges. Most blocks are classed by the
 * bounds of what the mask compares, without asking for each pair of query and key. */
typedef struct hop_block_mask_spec {
    hop_body mask;
    void *env;
    int64_t queries, keys;
    int64_t batches, heads;     /* that have lists of their own; 0: one for all */
    int query_block, key_block; /* sizes of a block; both 0: hop's choice */
    const char *mask_name;      /* for texts and messages; NULL: none */
    /* compact lists, with room for so many blocks each (a run with more of them fails); 0: rows of columns */
    int64_t room;
    int ranges; /* and the ranges of keys; a run fails in which a query has no single range in a block */
    hop_dim query_size, key_size; /* instead of queries and keys, where these are no numbers */
    void *reserved[3];
} hop_block_mask_spec;
#define hop_block_mask(...) hop_block_mask_at(HOP_HERE, __VA_ARGS__)
int hop_block_mask_at(hop_place at, hop_val *results, int n_results, const hop_block_mask_spec *spec);

/* While cond(carry…) -> (bool[]) holds: body (carry…) -> (carry…; y…). Results: the last carries, then with
 * `count` or n_stack the number of trips, then the ys, stacked. */
typedef struct hop_while_spec {
    hop_body cond, body;
    void *env;
    const hop_val *carry;
    int n_carry;
    int n_stack;
    int count;
    const char *max_trips; /* a size: more trips fail as a check, and stacks have this size */
    const char *schedule;  /* what a gradient keeps, as for scan */
    const void *key;
    const char *cond_name, *body_name; /* for texts and messages; NULL: none */
    void *reserved[2];
} hop_while_spec;
#define hop_while(...) hop_while_at(HOP_HERE, __VA_ARGS__)
int hop_while_at(hop_place at, hop_val *results, int n_results, const hop_while_spec *spec);

/* One of two bodies on the inputs. */
typedef struct hop_cond_spec {
    hop_val pred; /* bool[] */
    hop_body then, otherwise;
    void *env;
    const hop_val *in;
    int n_in;
    int recompute; /* a gradient keeps the inputs only and runs the body that was taken again; 0: whichever is
                      cheaper */
    const void *key;
    const char *then_name, *otherwise_name; /* for texts and messages; NULL: none */
    void *reserved[2];
} hop_cond_spec;
#define hop_cond(...) hop_cond_at(HOP_HERE, __VA_ARGS__)
int hop_cond_at(hop_place at, hop_val *results, int n_results, const hop_cond_spec *spec);

/* One of several bodies on the inputs, chosen by an integer that is clamped to the branches there are. */
typedef struct hop_switch_spec {
    hop_val index;
    const hop_body *branches;
    int n_branches;
    void *env;
    void *const *envs; /* per branch; NULL: env for all */
    const hop_val *in;
    int n_in;
    int recompute; /* a gradient keeps the inputs only and runs the body that was taken again; 0: whichever is
                      cheaper */
    const void *key;
    const char *const *names; /* of the branches, for texts and messages; NULL: none, of all or of one */
    void *reserved[3];
} hop_switch_spec;
#define hop_switch(...) hop_switch_at(HOP_HERE, __VA_ARGS__)
int hop_switch_at(hop_place at, hop_val *results, int n_results, const hop_switch_spec *spec);

/* A call: the body becomes a function of its own, shared by all calls of equal bodies. */
typedef struct hop_call_spec {
    hop_body body;
    void *env;
    const hop_val *in;
    int n_in;
    int recompute; /* a gradient keeps the inputs only and runs the body again (checkpointing) */
    const void *key;
    const char *name; /* of the body, for texts and messages; NULL: none */
    /* What a gradient keeps of the body besides the inputs; the rest it computes again. NULL: no policy.
     * "nothing" (as `recompute`); "products": what products give; "products_without_batch"; "names(save = [a,
     * b])": values with such names (hop_checkpoint_name); "names(recompute = [a])", "everything": whatever
     * costs less, as without a policy, the first computes values with such names again; "named",
     * "named(but = [a])": values with a name, but not these; "offload([a])": values with such names, in a
     * file until backward reads them; "both(products, names(save = [a]))": what any of them keeps;
     * "budget(1000000)", "budget(40%)": as much as keeps the memory of the gradient of the body within so
     * many bytes, or within this share of what it takes without a policy. */
    const char *policy;
    /* Asked for each value of the body when it is captured: an operator, its type, its name or NULL. 1: a
     * gradient keeps it; 0: what `policy` says, without one it is computed again; all else is the status of
     * the call. NULL: nobody is asked. */
    int (*keeps)(void *user, const char *op, const char *type, const char *name);
    void *keeps_user;
    /* Where the program is compiled, "yes": the body is put in place of the call; "no": it is a function that
     * is called, if it can be (it has no effects and no sizes found while running). NULL: by its size. The
     * calls in its derivatives say the same. */
    const char *inlining;
} hop_call_spec;
#define hop_call(...) hop_call_at(HOP_HERE, __VA_ARGS__)
int hop_call_at(hop_place at, hop_val *results, int n_results, const hop_call_spec *spec);
/* A call of a function that was captured, read or transformed before. */
#define hop_call_fn(...) hop_call_fn_at(HOP_HERE, __VA_ARGS__)
int hop_call_fn_at(hop_place at, hop_val *results, int n_results, const hop_fn *f, const hop_val *in,
                   int n_in);
/* The same, with what the call says of itself, as in hop_call_spec. NULL: nothing. */
typedef struct hop_call_options {
    int recompute;
    const char *policy, *inlining;
    void *reserved[4];
} hop_call_options;
#define hop_call_fn_with(...) hop_call_fn_with_at(HOP_HERE, __VA_ARGS__)
int hop_call_fn_with_at(hop_place at, hop_val *results, int n_results, const hop_fn *f, const hop_val *in,
                        int n_in, const hop_call_options *options);

/* A call of `body` whose derivatives, or whose way over one more dim, the user gives as functions (captured,
 * read or transformed before). Whichever are given, every transform works; NULL: there is none.
 *   forward   (inputs…) -> (results…, saved…), run in place of the body where a gradient is taken; without
 *             one the inputs are saved, and the results behind them where backward takes these too; the
 *             results are those of the call itself then, whose rules count for further derivatives
 *   backward  (saved…, cotangent of each float result…) -> (cotangent of each input in `gives`…); cotangents
 *             that are zero come as zeros
 *   jvp       (inputs…, tangent of each float input…) -> (results…, tangent of each float result…)
 *   batch     (inputs, each with one more leading dim…) -> (results, each with that dim…); the last n_closed
 *             inputs come as they are
 * With a backward alone the jvp is its transpose (it must be linear in the cotangents), or, with
 * tangent_of_body, the derivative of the body. With a jvp alone the gradient is its transpose. */
typedef struct hop_custom_spec {
    hop_fn *body, *forward, *backward, *jvp, *batch;
    const hop_val *in;
    int n_in;
    const int *gives; /* numbers of float inputs, ascending; NULL: all of them */
    int n_gives;
    /* So many of the last inputs are what the body uses from outside, without rules of their own: where one
     * of them is differentiated, or differs from lane to lane, rules about that are wrong, and that is an
     * error. */
    int n_closed;
    int tangent_of_body;
    /* backward takes an i32[] between what is saved and the cotangents: bit k says whether there is a
     * cotangent for float result k (of the first 31; those that are missing come as zeros). */
    int asks;
    int no_derivatives; /* to differentiate it is an error */
    void *reserved[4];
} hop_custom_spec;
#define hop_custom(...) hop_custom_at(HOP_HERE, __VA_ARGS__)
int hop_custom_at(hop_place at, hop_val *results, int n_results, const hop_custom_spec *spec);

/* The values as they are, floats, whose cotangents pass through `body` when a gradient runs: a hook. It is a
 * custom call of the identity with a backward of its own; tangents do not see it, and a program that nobody
 * differentiates compiles to the code that it has without.
 *   body   (state…, cotangent of each value…) -> (what takes the place of each cotangent…), of the same types
 * The body is captured; it may call operators of the host's (hop_operator_register), with their effects in
 * the order of the program, once for each trip and lane. state: further values that it gets, of which no
 * gradient is taken; it has no others from outside. out has room for n_in values. */
typedef struct hop_hook_spec {
    const hop_val *in;
    int n_in;
    hop_body body;
    void *env;
    const hop_val *state;
    int n_state;
    const char *name; /* of the hook, for texts and messages; NULL: none */
    void *reserved[4];
} hop_hook_spec;
#define hop_hook(...) hop_hook_at(HOP_HERE, __VA_ARGS__)
int hop_hook_at(hop_place at, hop_val *out, const hop_hook_spec *spec);

/* A body under a regime. It means its body; `kind` says what else holds for it, and transforms keep it: a
 * gradient's forward and backward, tangents and lanes are regions of the same kind with the same attributes.
 * Kinds that hop does not know are legal. attributes: "bits = 8, mode = \"even\"", names and values (strings
 * in quotes, numbers, true, false, lists of them in brackets); NULL: none. */
typedef struct hop_region_spec {
    const char *kind;
    const char *attributes;
    hop_body body;
    void *env;
    const hop_val *in;
    int n_in;
    const void *key;
    const char *name; /* of the body, for texts and messages; NULL: none */
    void *reserved[4];
} hop_region_spec;
#define hop_region(...) hop_region_at(HOP_HERE, __VA_ARGS__)
int hop_region_at(hop_place at, hop_val *results, int n_results, const hop_region_spec *spec);

/* A rewriting of the regions of a kind: gives another function for a body, of the same parameters and
 * results. It is called when a program is compiled, explained, emitted or interpreted, after all transforms:
 * a body may be a derivative or over lanes. body is valid during the call, *out is taken over
 * (hop_fn_ref(body) leaves it as it is). Returns 0; anything else ends the call that asked (hop_fail("…")
 * gives a message). Regions in bodies are rewritten before; what it gives is not rewritten again. */
typedef struct hop_attributes hop_attributes;
typedef int (*hop_region_fn)(void *user, const hop_attributes *attributes, const hop_fn *body, hop_fn **out);
/* Makes it known to the whole process, in place of one of the same kind. version (may be NULL) is a part of
 * the key under which compiled programs are kept: change it with what the function does. release (may be
 * NULL) gets user when the function was replaced or removed and is not at work any more. */
hop_status hop_region_register(const char *kind, const char *version, hop_region_fn f, void *user,
                               void (*release)(void *user));
hop_status hop_region_unregister(const char *kind);
/* Another number after each of the two: programs that were compiled before may be others now. */
uint64_t hop_region_changes(void);

/* The attributes of the region but its kind, valid during the call: all of them as text ("bits = 8"); one as
 * it is written, NULL when there is none; one that is an integer, a number (1: it is, 0: not); one that is a
 * string, NULL when it is none. */
const char *hop_attributes_text(const hop_attributes *a);
const char *hop_attribute(const hop_attributes *a, const char *name);
int hop_attribute_int(const hop_attributes *a, const char *name, int64_t *out);
int hop_attribute_real(const hop_attributes *a, const char *name, double *out);
const char *hop_attribute_string(const hop_attributes *a, const char *name);

/* ---- assignable arrays ----
 *
 * A variable is a value whose content changes: operators read what it holds at that moment. Bodies may assign
 * to variables from outside of them: branches then give one more result, loops one more carry. Predicates may
 * not. */

hop_val hop_variable_at(hop_place at, hop_val initial);
/* For front ends whose arrays may all be assigned to. A value as a body inside of the one that made it may
 * assign to it: in that one itself, and where it is a variable, the value as it is; else a variable of the
 * body that made it, which holds it. Also for values of captures around this one. To be used in its place
 * from the first time on that a body inside reads it, so that a loop reads what its last trip assigned. */
hop_val hop_assignable_at(hop_place at, hop_val v);
/* The body at work: a number that no other body or function being captured has, 0 outside of captures; and
 * whether the body of that number is at work, or one inside of it. */
uint64_t hop_body_number(void);
int hop_body_is_open(uint64_t number);
/* Views: other names for the array or a part of it. Reading one reads what the array holds then, assigning to
 * one assigns to the array. Views of views work. A broadcast view can be read only: several of its elements
 * are one. */
hop_val hop_view_at(hop_place at, hop_val variable, const char *slices); /* a part, by slices */
hop_val hop_view_index_at(hop_place at, hop_val variable, hop_val i,
                          int axis); /* a part, at a traced index */
hop_val hop_view_reshape_at(hop_place at, hop_val variable, const char *dims);
hop_val hop_view_permute_at(hop_place at, hop_val variable, const char *order);
hop_val hop_view_transpose_at(hop_place at, hop_val variable); /* of the last two axes */
hop_val hop_view_expand_at(hop_place at, hop_val variable, int axis);
hop_val hop_view_squeeze_at(hop_place at, hop_val variable, const char *axes);
hop_val hop_view_broadcast_at(hop_place at, hop_val variable, const char *dims);
int hop_assign_at(hop_place at, hop_val variable,
                  hop_val value); /* cast and broadcast to the variable's type */
/* What it holds now, as a plain value; of a variable of a capture around, a value of that capture. */
hop_val hop_current_at(hop_place at, hop_val variable);
int hop_assign_where_at(hop_place at, hop_val variable, hop_val mask,
                        hop_val value); /* where the mask holds; both broadcast */
/* variable = op(variable, rest…): any operator of the table with one result, as in hop_apply. */
int hop_update_at(hop_place at, hop_val variable, const char *op, const hop_val *rest, int n);
#define HOP_IN_PLACE_OPERATORS(X) \
    X(add) \
    X(sub) \
    X(mul) \
    X(div) X(rem) X(pow) X(max) X(min) X(and) X(or) X(floor_div) X(mod) X(xor) X(shift_left) X(shift_right)
#define HOP_DECLARE(name) int hop_##name##_to_at(hop_place at, hop_val variable, hop_val x);
HOP_IN_PLACE_OPERATORS(HOP_DECLARE)
#undef HOP_DECLARE
#define hop_variable(...) hop_variable_at(HOP_HERE, __VA_ARGS__)
#define hop_assignable(...) hop_assignable_at(HOP_HERE, __VA_ARGS__)
#define hop_view(...) hop_view_at(HOP_HERE, __VA_ARGS__)
#define hop_view_index(...) hop_view_index_at(HOP_HERE, __VA_ARGS__)
#define hop_view_reshape(...) hop_view_reshape_at(HOP_HERE, __VA_ARGS__)
#define hop_view_permute(...) hop_view_permute_at(HOP_HERE, __VA_ARGS__)
#define hop_view_transpose(...) hop_view_transpose_at(HOP_HERE, __VA_ARGS__)
#define hop_view_expand(...) hop_view_expand_at(HOP_HERE, __VA_ARGS__)
#define hop_view_squeeze(...) hop_view_squeeze_at(HOP_HERE, __VA_ARGS__)
#define hop_view_broadcast(...) hop_view_broadcast_at(HOP_HERE, __VA_ARGS__)
#define hop_assign_where(...) hop_assign_where_at(HOP_HERE, __VA_ARGS__)
#define hop_update(...) hop_update_at(HOP_HERE, __VA_ARGS__)
#define hop_assign(...) hop_assign_at(HOP_HERE, __VA_ARGS__)
#define hop_current(...) hop_current_at(HOP_HERE, __VA_ARGS__)
#define hop_add_to(...) hop_add_to_at(HOP_HERE, __VA_ARGS__)
#define hop_sub_to(...) hop_sub_to_at(HOP_HERE, __VA_ARGS__)
#define hop_mul_to(...) hop_mul_to_at(HOP_HERE, __VA_ARGS__)
#define hop_div_to(...) hop_div_to_at(HOP_HERE, __VA_ARGS__)
#define hop_rem_to(...) hop_rem_to_at(HOP_HERE, __VA_ARGS__)
#define hop_pow_to(...) hop_pow_to_at(HOP_HERE, __VA_ARGS__)
#define hop_and_to(...) hop_and_to_at(HOP_HERE, __VA_ARGS__)
#define hop_or_to(...) hop_or_to_at(HOP_HERE, __VA_ARGS__)
#define hop_floor_div_to(...) hop_floor_div_to_at(HOP_HERE, __VA_ARGS__)
#define hop_mod_to(...) hop_mod_to_at(HOP_HERE, __VA_ARGS__)
#define hop_xor_to(...) hop_xor_to_at(HOP_HERE, __VA_ARGS__)
#define hop_shift_left_to(...) hop_shift_left_to_at(HOP_HERE, __VA_ARGS__)
#define hop_shift_right_to(...) hop_shift_right_to_at(HOP_HERE, __VA_ARGS__)
#define hop_max_to(...) hop_max_to_at(HOP_HERE, __VA_ARGS__)
#define hop_min_to(...) hop_min_to_at(HOP_HERE, __VA_ARGS__)

/* ---- functions ----
 *
 * A function never changes. Transforms make new ones; a handle keeps what it needs, so they may be freed in
 * any order. Different threads may use the same function at once. wrt lists parameters by name, "w, u", or by
 * number, "#0, #2"; NULL: all that are floats. */

hop_fn *hop_fn_ref(hop_fn *f);
void hop_fn_free(hop_fn *f);
/* The program in its text form; valid while f lives. NULL on failure. */
const char *hop_fn_text(hop_fn *f);
/* The program as JSON, for those who translate it: {"name", "params": [{"name", "type"}], "nodes": [{"op",
 * "attributes", "operands", "results", "types", "bodies": [{"operands", "sizes", "function"}], "place"}],
 * "results"}. Values are numbers, parameters first; docs/python/engines.md has all of it. Released with
 * hop_text_free. */
hop_status hop_fn_json(char **out, hop_fn *f);
/* What its capture did that may surprise, a line each: "rnn.c:9: map: its body assigns to 1 array from
 * outside: it became a scan, …". Valid while f lives. */
const char *hop_fn_remarks(const hop_fn *f);
/* Reads a program and takes its function of that name (without @; NULL: the last one). */
hop_status hop_fn_read(hop_fn **out, const char *text, const char *name);
/* Something of the host's that programs need: f, what is made of it and their executables keep it, and when
 * the last of them is gone release(user) is called, once, on any thread. On failure it is not taken. */
hop_status hop_fn_keep(hop_fn *f, void *user, void (*release)(void *user));
/* What running it does besides giving results: "none", "check" (it may end the run), "unordered" or "io", as
 * operators say it (hop_operator_spec). "" of no function. */
const char *hop_fn_effect(hop_fn *f);
int hop_fn_params(const hop_fn *f);
int hop_fn_results(const hop_fn *f);
const char *hop_fn_param_name(const hop_fn *f, int i); /* "" when it has none; valid while f lives */
const char *hop_fn_param_type(hop_fn *f, int i);       /* "f32[T, 64]"; valid while f lives */
const char *hop_fn_result_type(hop_fn *f, int i);
int hop_fn_param_is_mut(const hop_fn *f, int i); /* does running it update this argument? */
/* What must hold of the sizes of its arguments besides what their types say, as many texts: "T == 2*N"; valid
 * while f lives. */
int hop_fn_requires(const hop_fn *f);
const char *hop_fn_require_text(hop_fn *f, int i);
/* Whether a run would take these arguments: HOP_OK, or HOP_INVALID and a message that says which dtype, size,
 * range or requirement does not fit. dims: values of declared sizes (`dim N`), in order; NULL: there are
 * none.
 */
hop_status hop_fn_accepts(hop_fn *f, hop_tensor *const *in, int n_in, const int64_t *dims);
const char *hop_fn_name(const hop_fn *f); /* without @, "" when it has none; valid while f lives */
/* Declared sizes (`dim N`), whose values a run is given (hop_run_options.dims): how many, and their names. */
int hop_fn_dims(const hop_fn *f);
const char *hop_fn_dim_name(const hop_fn *f, int i); /* "" when there is no such; valid while f lives */

/* (x…) -> (y…, value of each probe…): the values that hop_probe marks, in order of the program. names: those
 * wanted, "loss, layer*" (patterns of fnmatch), NULL: all. A value of a loop's step is an array with a row a
 * step; one of a branch that does not run is zeros; where only a run knows how many steps there are, so does
 * only it the size. Of values in a `custom` those of its body. Two probes of one name are an error, or with
 * HOP_STACKED one value with a dim more.
 *
 * hop_perturb: (x…, perturbation of each probe…) -> (y…), which are added to the values. So the gradient of
 * a value inside is that of its perturbation, at zero. Perturbations of a loop's step have a row a step.
 *
 * Transforms forget probes, unless the thread has the mode HOP_PROBED (hop_modes_set): then those of a
 * function are those of its gradient, and with lanes those of the function over lanes. */
enum hop_probe_flags { HOP_STACKED = 1 };
hop_status hop_probes(hop_fn **out, hop_fn *f, const char *names, unsigned flags);
hop_status hop_perturb(hop_fn **out, hop_fn *f, const char *names, unsigned flags);
/* Of what hop_probes or hop_perturb gave: how many, and their names with all of the path. */
int hop_fn_probes(const hop_fn *f);
const char *hop_fn_probe_name(const hop_fn *f, int i); /* "" when there is no such; valid while f lives */

hop_status hop_grad(
    hop_fn **out, hop_fn *f,
    const char *wrt); /* (x…) -> (gradient of the first result, a float scalar, for each wrt…) */
hop_status hop_value_and_grad(hop_fn **out, hop_fn *f, const char *wrt); /* (x…) -> (y…, gradients…) */
hop_status hop_vjp(hop_fn **out, hop_fn *f,
                   const char *wrt); /* (x…, cotangent of each float y…) -> (y…, cotangent of each wrt…) */
hop_status hop_jvp(hop_fn **out, hop_fn *f,
                   const char *wrt); /* (x…, tangent of each wrt…) -> (y…, tangent of each float y…) */
/* Of a function that is linear in wrt, which is checked: (x…, cotangent of each float y…) -> (cotangent of
 * each wrt…). What is given for wrt itself is not read. */
hop_status hop_linear_transpose(hop_fn **out, hop_fn *f, const char *wrt);
/* Differentiated in two halves: forward (x…) -> (y…, residual…) runs f and gives what else the second half
 * reads (as little as a minimum cut finds; see hop_keep); backward (x…, y…, residual…, cotangent of each
 * float y…) -> (cotangent of each wrt…); linear (x…, y…, residual…, tangent of each wrt…) -> (tangent of each
 * float y…), in which no loop of f is run again. */
hop_status hop_vjp_halves(hop_fn **forward, hop_fn **backward, hop_fn *f, const char *wrt);
hop_status hop_jvp_halves(hop_fn **forward, hop_fn **linear, hop_fn *f, const char *wrt);
/* The derivative of f at a point: (tangent of each wrt…) -> (tangent of each float y…). */
hop_status hop_linearize(hop_fn **out, hop_fn *f, const char *wrt, hop_tensor *const *in, int n_in);
/* (x…) -> for each float y and each wrt x: dy/dx with the dims of y, then those of x. Forward: a column at a
 * time; reverse: a row at a time. */
hop_status hop_jacfwd(hop_fn **out, hop_fn *f, const char *wrt);
hop_status hop_jacrev(hop_fn **out, hop_fn *f, const char *wrt);
hop_status hop_hessian(hop_fn **out, hop_fn *f,
                       const char *wrt); /* of the first result: for each pair of wrt */
/* Over one more dim. in: "xs, h: 1": which parameters get it, and where (0 when not said); NULL: all in
 * front. out_axes: per result, "0, -, 1",
 * - for a result without it; NULL: all in front. Objects are the same for all lanes: NULL leaves them out.
 */
hop_status hop_vmap(hop_fn **out, hop_fn *f, const char *in, const char *out_axes);
/* The same, where the lanes are those of the axis that f names: operators across lanes (hop_apply(&s, 1,
 * "all_reduce {axis = \"i\", op = sum}", &x, 1)) work on all of them. Parameters that get the dim vary along
 * the axis by their types, "f32[3]{i}". */
hop_status hop_vmap_axis(hop_fn **out, hop_fn *f, const char *in, const char *out_axes,
                         const char *axis_name);
/* The same function, which ends with HOP_CHECK where an operator makes a NaN, and with infinities (not 0)
 * also where it makes an infinity, that is not in what it computes from. The message names the operator, its
 * place, the element, the trips of the loops around it, the lane of a batch, and whether it belongs to a
 * derivative. An argument with a NaN is named; infinite arguments and constants are no fault. Transforms of
 * such a function watch what they add; transforms before it are watched as well. Results are the same, bit
 * for bit in strict mode; it takes longer. */
hop_status hop_debug_nans(hop_fn **out, hop_fn *f, int infinities);
/* Until it is called again, calls of this thread that take no options (these, captures, hop_fn_read) end with
 * HOP_CANCELLED when *cancel is not zero, as hop_compile does with its options: cancel and confirm mean the
 * same. NULL: they do not. From confirm the functions at work cannot be used. */
void hop_cancel_by(const volatile int *cancel, int (*confirm)(void *ctx), void *ctx);

/* ---- running ---- */

typedef struct hop_exe hop_exe;
typedef struct hop_compile_options {
    int strict;          /* results are bit for bit those of hop_interpret */
    int threads;         /* 0: hop_threads(), when it runs */
    const char *without; /* passes to leave out, "fuse, blas" */
    int portable;        /* no native code: run the loop program itself, slowly; needs no LLVM */
    int no_cache;        /* compile, whatever the cache holds, and keep nothing */
    /* Parameters whose arguments the caller gives away, "h, xs". A run that succeeds takes over the caller's
     * reference of each: its memory may become that of a result of the same type (out[k] is then the very
     * tensor that was donated), or it is freed. Do not use or free it afterwards. A run that fails leaves the
     * reference with the caller, but the content may have changed. */
    const char *donate;
    /* Not zero, set by another thread or a signal handler, ends the call with HOP_CANCELLED within a few
     * milliseconds, also where LLVM needs much longer: machine code is then generated on a thread of its own,
     * which the call leaves behind. That thread finishes, and what it made is found in the cache. A process
     * that ends meanwhile does not wait for it. */
    const volatile int *cancel;
    /* NULL, or asked on the calling thread when *cancel is not zero. 0: go on; it has set *cancel back to 0.
     */
    int (*confirm)(void *ctx);
    void *confirm_ctx;
    /* Parameters whose arguments are most often the same tensors with the same content from run to run,
     * weights for example: "w, b", names or numbers, or "*": all that no run updates or takes over. Regions
     * of the kind `once` must be made of these alone: their results are computed at the first run and kept,
     * and computed again when such an argument is another tensor or was written to. Writes by hop's calls are
     * seen, and each hop_data counts as one: whoever writes through a pointer that he has kept asks for it
     * again. Borrowed memory, and memory given to others by DLPack as long as they have it, counts as changed
     * at every run, unless hop_exe_refresh is used. */
    const char *constant;
    int profile; /* for hop_profile_start: the code says where it is, which costs a few instructions where
                    there is much to do; compiled anew each time */
    /* A run follows at once: while code is generated, threads touch the memory that its temporaries will lie
     * in, where these are 4 MiB or more and not more than a quarter of the memory that is left. The
     * executable has that memory from then on. */
    int soon;
} hop_compile_options;
/* options NULL: defaults. The executable owns all it needs; f may be freed. A program for which LLVM would
 * need more memory than there is fails with HOP_NOMEM; HOP_COMPILE_MEMORY in the environment, "500M", says
 * how much it may take. */
hop_status hop_compile(hop_exe **out, hop_fn *f, const hop_compile_options *options);
void hop_exe_free(hop_exe *exe);
/* Makes the executable an operator that programs call by this name (hop_operator, or `operator @name(…)` in
 * the text form): its parameters, sizes, results, updates and effects are those of its function. Nothing that
 * goes in or out is copied, but results whose size a run finds. The operator has what it needs: exe may be
 * freed, and hop_operator_unregister removes it. Over lanes it runs once for each.
 * f: the function whose derivatives its own are, the one that was compiled or another of the same types: the
 * executable still gives the values, and a gradient computes what else it reads with f. NULL: to ask for a
 * derivative is an error. Executables that take arguments over (donate), or declared sizes (`dim N`), or
 * objects, cannot be operators. */
hop_status hop_exe_operator(hop_exe *exe, const char *name, hop_fn *f);
/* What the executable keeps from constant arguments is computed anew by the next run. From the first call on
 * the caller says by it when memory has changed that hop cannot watch, borrowed or given to others: it counts
 * as unchanged until the next call. Safe beside runs on other threads. */
hop_status hop_exe_refresh(hop_exe *exe);
typedef struct hop_kept {
    uint64_t values; /* how many a run leaves */
    uint64_t bytes;  /* of those that are there now */
    uint64_t made;   /* how often they were computed */
    uint64_t reserved[5];
} hop_kept;
/* What it keeps of regions of the kind `once`. */
hop_status hop_exe_kept(hop_kept *out, hop_exe *exe);

/* What hop_compile does with f: passes, loop nests, what is stored and copied and why, memory, code, times.
 * form "short" or NULL; "all": every stored value and, of a gradient, what it keeps; "json": all of it, for
 * programs. Released with hop_text_free. HOP_UNAVAILABLE where there is no
 * compiler, unless options.portable says that none is wanted. */
hop_status hop_explain(char **out, hop_fn *f, const hop_compile_options *options, const char *form);

/* Where the time of runs goes: of each nest, product, loop, branch, call and operator of the compiled
 * program, with its place in the source. The executable must be compiled with the option `profile`. From
 * hop_profile_start to hop_profile_stop a thread looks a few thousand times a second at what its runs, on any
 * threads, are doing; hop_profile_text then says what it saw. Let the runs take half a second at least.
 * interval: seconds between two looks; 0: the usual 0.0003. One profile of an executable at a time.
 * form: "table" or NULL, "json", "svg" (a flame graph), "folded" (a line for each stack, for other tools).
 * The text is released with hop_text_free. A profile may outlive its executable; hop_profile_free accepts
 * NULL and stops what is not stopped. See docs/profiling.md. */
typedef struct hop_profile hop_profile;
hop_status hop_profile_start(hop_profile **out, hop_exe *exe, double interval);
hop_status hop_profile_stop(hop_profile *profile);
hop_status hop_profile_text(char **out, hop_profile *profile, const char *form);
void hop_profile_free(hop_profile *profile);

typedef struct hop_emit_options {
    const hop_compile_options *compile; /* strict, without, …; NULL: defaults. Not portable and donate */
    /* Of "c" and "header": */
    const char *name;    /* of the C function; NULL: that of f */
    const char *results; /* names of its results, "loss, d_w"; NULL: those of f */
    const char *params;  /* names of its parameters, in order; NULL: those of f */
    /* For each parameter NULL, or what it is: a constant of the source, no longer an argument of the C
     * function. The tensor has the parameter's dtype and dims. NULL: none of them. */
    const hop_tensor *const *constants;
    const char *header; /* the file that the source includes; NULL: the declarations stand in the source */
    int64_t capacity; /* > 0: results whose size the run finds have room for so many elements; 0: their memory
                         comes from the caller's allocator */
    size_t plain;     /* not 0: the source is plain C99, without vector types: smaller, and slower by what a
                         compiler     does not find itself */
    void *reserved[1];
} hop_emit_options;
/* f as text: "c", a C99 source that needs nothing of hop, and its "header" (docs/emit.md); "loops", the loop
 * program that code is generated from; "llvm" and "asm", what LLVM makes of it (HOP_UNAVAILABLE without).
 * Released with hop_text_free. options NULL: defaults. */
hop_status hop_emit(char **out, hop_fn *f, const char *kind, const hop_emit_options *options);

/* Runs; one executable may run on several threads at once. out[i] NULL: made; else written into, of the
 * result's dtype and sizes. Arguments of parameters that are `mut` are updated, in their own memory where the
 * program allows. Results are as if everything had been read before anything is written: arguments and given
 * outputs may overlap, and what would be overwritten too early is copied; only two things written into the
 * same memory are an error. When arguments are wrong (HOP_INVALID) nothing is written. A run that starts and
 * fails (HOP_CHECK, HOP_NOMEM, HOP_CANCELLED, what a callback returned) leaves given outputs and updated
 * arguments with unspecified content, unless options.keep is set; outputs that are NULL stay NULL. */
hop_status hop_run(hop_exe *exe, hop_tensor *const *in, int n_in, hop_tensor **out, int n_out);

typedef struct hop_run_options {
    const volatile int
        *cancel; /* non-zero, set by another thread or a signal handler, ends it: HOP_CANCELLED */
    void (*print)(void *ctx, const char *line,
                  size_t length); /* gets the lines of hop_print; NULL: dropped */
    void *print_ctx;
    const int64_t *dims; /* values of declared sizes (`dim N`), in order */
    void *workspace;     /* memory for temporaries, hop_workspace() bytes; NULL: the library's */
    size_t workspace_bytes;
    size_t keep; /* not 0: a failed run leaves outputs and arguments as they were, donated arguments stay the
                    caller's; costs copies */
    /* NULL, or asked on the thread of the call when *cancel is not zero: 0 lets the run go on where it is,
     * having set *cancel back to 0; else it ends, and *cancel must stay as it is until the call has returned.
     */
    int (*confirm)(void *ctx);
    void *confirm_ctx;
    void *reserved[1];
} hop_run_options;
hop_status hop_run_with(hop_exe *exe, hop_tensor *const *in, int n_in, hop_tensor **out, int n_out,
                        const hop_run_options *options);
/* The reference interpreter: strict numbers, slow. Of the options it looks at print, dims, cancel and
 * confirm. */
hop_status hop_interpret(hop_fn *f, hop_tensor *const *in, int n_in, hop_tensor **out, int n_out);
hop_status hop_interpret_with(hop_fn *f, hop_tensor *const *in, int n_in, hop_tensor **out, int n_out,
                              const hop_run_options *options);
/* What becomes of the arguments that a run with these tensors would write, a line each: computed in place, or
 * copied and why. Nothing is run. out may be NULL: none given. Released with hop_text_free; NULL on failure.
 */
char *hop_explain_run(hop_exe *exe, hop_tensor *const *in, int n_in, hop_tensor *const *out, int n_out);
/* How much memory temporaries need for arguments of these shapes. With outputs given and a workspace of this
 * size a run allocates nothing (unless it has sizes that only the run knows). */
hop_status hop_workspace(size_t *bytes, hop_exe *exe, hop_tensor *const *in, int n_in, const int64_t *dims);

/* How many threads the runs of executables without a number of their own (hop_compile_options.threads) take.
 * hop_set_threads says it for the whole process from now on; 0: the usual number, which is HOP_NUM_THREADS of
 * the environment, else the processors that the process may use, by its affinity and by the quota of its
 * control groups. It gives the number that was set before. More than 256, said here, in the environment or
 * when compiling, count as 256. What is compiled while there is one thread stays on one. Results do not
 * depend on it. */
int hop_threads(void);
int hop_set_threads(int threads);

/* What multiplies large matrices (default numbers only): "hop's own kernels for AVX2", or, on processors that
 * hop has no kernels for, "OpenBLAS 0.3.21, kernel Zen". OpenBLAS is loaded by the first product or by this
 * call, with the kernel that fits the processor; it then uses one thread, since hop cuts products into pieces
 * for its own. HOP_BLAS=FILE|off in the environment names a library, or none. */
const char *hop_blas(void);

/* ---- the cache of compiled code ----
 *
 * hop_compile keeps what it makes: programs that are equal share their code in the process, and files in
 * $XDG_CACHE_HOME/hop (else ~/.cache/hop) spare the next process the compiler. HOP_CACHE=off|memory|DIR in
 * the environment says otherwise. Nothing about the cache makes a compilation fail. */

typedef struct hop_cache_stats {
    uint64_t memory_hits, disk_hits, misses; /* compilations of this process */
    uint64_t entries, bytes, limit; /* what memory holds and may hold; code in use by executables that was
                                       dropped does not count */
    uint64_t reserved[4];
} hop_cache_stats;
void hop_cache_statistics(hop_cache_stats *out);
void hop_cache_clear(void); /* forgets what memory holds; executables and files stay */
/* Where files are kept: a directory, "memory": nowhere, "off": nothing is kept at all, NULL: as the
 * environment says. */
hop_status hop_cache_directory(const char *directory);
/* How many bytes memory and files may take, UINT64_MAX: as many as before; what was used longest ago goes
 * first. At first 64 MiB and 256 MiB. */
void hop_cache_limits(uint64_t memory, uint64_t files);

/* ---- files and exchange ----
 *
 * Files are .npy, .npz (NumPy) and .safetensors, chosen by the ending of the name. Large files are mapped,
 * not read: a tensor keeps what it needs, writing to it does not change the file. A file that is written
 * appears whole or not at all. */

/* "x.npy", "x.npz:name", "x.safetensors:name"; the name may be left out when the file holds one tensor. */
hop_status hop_load(hop_tensor **out, const char *file);
/* A file with this tensor: "x.npy", "x.npz:name", "x.safetensors:name". */
hop_status hop_save(const hop_tensor *t, const char *file);
/* A .npz or .safetensors file with n tensors, each under its name. */
hop_status hop_save_many(const char *path, const char *const *names, hop_tensor *const *tensors, int n);

/* A file that is open, for those who do not know the names or want many tensors. Different threads may use it
 * at once; tensors outlive it. A tensor that is loaded twice from one open file may be the same memory twice:
 * who writes to it copies it, or loads it with hop_load. */
typedef struct hop_file hop_file;
hop_status hop_file_open(hop_file **out, const char *path);
void hop_file_free(hop_file *f);
int hop_file_count(const hop_file *f);
const char *hop_file_name(
    const hop_file *f,
    int i); /* "" in an .npy file; NULL when there is no such tensor; valid while f lives */
hop_status hop_file_load(hop_tensor **out, hop_file *f, const char *name);

/* DLPack, by which array libraries of one process hand each other tensors. Memory is shared. What hop gives
 * out is released by its deleter, from any thread. What hop takes in is hop's when the call succeeds: its
 * deleter is called once, when the last reference goes, or at once where the elements had to be copied
 * (read-only or badly aligned); when the call fails it is still the caller's. Devices other than the CPU are
 * refused. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;
hop_status hop_tensor_to_dlpack(struct DLManagedTensor **out, hop_tensor *t);
hop_status hop_tensor_to_dlpack_versioned(struct DLManagedTensorVersioned **out, hop_tensor *t);
hop_status hop_tensor_from_dlpack(hop_tensor **out, struct DLManagedTensor *m);
hop_status hop_tensor_from_dlpack_versioned(hop_tensor **out, struct DLManagedTensorVersioned *m);

#ifdef __cplusplus
}
#endif

#endif
