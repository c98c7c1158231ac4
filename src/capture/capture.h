/* Capture: user functions are called with placeholder values, and what they do is recorded in builders.
 * Inside of the capture layer: handles and what they stand for, the stack of scopes (one per body being
 * captured) with lifting and renumbering, texts that describe types and sizes, promotion, and emission of one
 * public call into whatever the thread is in: a capture, or eager mode. */
#ifndef HOP_CAPTURE_H
#define HOP_CAPTURE_H

#include "ops/build.h"

/* ---- handles ---- */

/* hop_val.scope is one of these, or the serial of a scope. A weak number has its bits in id; a variable has
 * VARIABLE_BIT and its index there. */
enum {
    HANDLE_NONE = 0,
    HANDLE_REAL = 1,
    HANDLE_INT = 2,
    HANDLE_BOOL = 3,
    HANDLE_NUMBER_DIM = 4,
    FIRST_SERIAL = 16
};
#define VARIABLE_BIT ((uint64_t)1 << 63)
static inline bool is_variable(hop_val v) { return v.scope >= FIRST_SERIAL && v.id & VARIABLE_BIT; }
static inline bool is_weak(hop_val v) { return v.scope >= HANDLE_REAL && v.scope <= HANDLE_BOOL; }

/* A handle brought into the builder at work: a value there, or a number that has no dtype yet. */
struct operand {
    val v;        /* VAL_NONE: a weak number */
    uint8_t weak; /* HANDLE_REAL, HANDLE_INT, HANDLE_BOOL, or 0 */
    double real;
    int64_t integer;
};

/* ---- scopes ---- */

enum { MAX_SCOPES = 64 }; /* bodies within bodies */
enum scope_kind { SCOPE_ROOT, SCOPE_BODY, SCOPE_PREDICATE, SCOPE_EAGER };

/* A parameter that a body got while it ran. */
struct late_param {
    val here;          /* provisional: behind nodes, renumbered at the end */
    val outer;         /* the operand in the scope around; VAL_NONE for a variable until the body ends */
    uint32_t variable; /* whose content on entry it is, HOP_NONE: none */
};
/* What a variable holds in a scope; the newest counts. */
struct variable_binding {
    uint32_t variable;
    val value;
    bool written; /* in this scope or one inside it, and not only read */
};
/* The modes of a thread: those at work, and how many have begun (modes.c). */
struct modes_mark {
    uint8_t modes;
    uint32_t depth;
};
typedef vec(val) val_list;
/* The modes at work in a scope. */
struct scope_modes {
    uint8_t now;      /* enum hop_mode, of the call at work */
    uint8_t begin;    /* when the scope was opened */
    uint32_t depth;   /* of the thread's modes then: those inside of the scope are above */
    bool tracks;      /* no_grad has been at work: what becomes of each value is noted */
    bool enabled;     /* a body under no_grad: something in it was made under enable_grad */
    bool inside;      /* so it was in a body of the operator that is made next */
    vec(uint8_t) is;  /* enum gradient of each value, as far as it is known */
    val_list stopped; /* per value: the same as a constant, VAL_NONE: not made yet */
    val_list raised;  /* per value: the same in f32 */
};

struct scope {
    struct scope *outer;
    struct capture *capture;
    uint64_t serial;
    uint64_t number; /* the serial, also when the capture is cut and gets another one */
    uint8_t kind;
    uint32_t depth;
    const char *what;  /* "the step of scan" */
    const char *label; /* what the user calls it, NULL: nothing */
    hop_place at;      /* of the call that opened it */
    struct builder b;  /* not in eager mode */
    struct map lifted; /* value around -> index into late */
    vec(struct late_param) late;
    vec(struct variable_binding) bindings;
    vec(dim) binds;    /* per symbol: what it is in scope_around; HOP_NONE for symbols of its own */
    bool late_symbols; /* an outer symbol came after one bound by a node */
    hop_val *given;    /* what the body gave by hop_give */
    uint32_t n_given;
    struct scope_modes modes;
    /* eager mode */
    struct tensor **tensors;
    uint32_t n_tensors, cap_tensors;
};

/* A scope that has ended: for the message about a value used after it. */
struct ended_scope {
    uint64_t serial;
    const char *what;
    hop_place at;
    uint32_t n_values;
    const uint32_t *lines; /* per value: where it was made */
    const uint16_t *files;
};

/* An assignable array, or a view of one. */
enum view_kind {
    VIEW_SLICE,
    VIEW_INDEX,
    VIEW_RESHAPE,
    VIEW_PERMUTE,
    VIEW_TRANSPOSE,
    VIEW_EXPAND,
    VIEW_SQUEEZE,
    VIEW_BROADCAST
};
struct variable {
    uint64_t scope;   /* serial of the scope it belongs to */
    uint32_t base;    /* a view's variable, HOP_NONE: an array of its own */
    uint8_t view;     /* enum view_kind */
    const char *text; /* of a view: slices, dims, an order, axes */
    hop_val index;    /* VIEW_INDEX: the traced index */
    int axis;
    const char *name; /* of a parameter, else "" */
    hop_place at;
    struct tensor *now; /* eager mode: what it holds */
};

/* The bodies of one operator, captured under a key. */
struct keyed_region {
    uint32_t fn, n_outside, n_dims;
    const hop_val *outside; /* what it uses from outside, in order */
    const hop_dim *dims;    /* what its symbols beyond those of the inputs are */
};
struct keyed_bodies {
    const void *key;
    uint32_t op, n_in, n_out, n_symbols, n_regions;
    const type_id *types; /* of the inputs, in the bodies' own symbols */
    const struct symbol *symbols;
    const struct keyed_region *regions;
    uint8_t modes; /* under which they were captured */
    bool enabled;  /* as of struct scope_modes */
};

struct named_dim {
    const char *name;
    hop_dim d;
};

/* An assignable array of eager mode in a capture with a host: a copy of it. */
struct host_variable {
    hop_val there;
    uint32_t here;
};

struct capture {
    struct capture *outer; /* of this thread */
    /* Eager mode whose values this capture may use: it is made for types, or to be run at once, and thrown
     * away. */
    struct capture *host;
    vec(struct host_variable) host_variables;
    vec(struct tensor *)
        host_tensors; /* references to these values, one for each late parameter of the root */
    struct module *m;
    struct arena arena; /* of the whole capture */
    struct scope *innermost;
    struct scope *spare; /* eager mode: scopes that have ended, for reuse */
    bool eager;
    bool updates; /* the function has parameters that are mut */
    /* Eager mode: calls being run, one inside of the other where a callback makes calls too. */
    uint32_t running;
    int status; /* the first error */
    char message[2048];
    /* the call at work, for messages */
    hop_place at;
    const char *name;
    const char *last_file; /* file names are string literals: a pointer seen before is a name seen before */
    uint16_t last_file_id;
    vec(struct ended_scope) ended;
    vec(struct variable) variables;
    vec(struct keyed_bodies) keyed;
    vec(struct named_dim) names;
    void (*print)(void *ctx, const char *line, size_t length);
    void *print_ctx;
    hop_val *given; /* results of the last operator that was asked for HOP_ANY of them */
    uint32_t n_given;
    struct modes_mark modes; /* of the thread when it began */
    struct text remarks;     /* what the capture did that the user may want to know, a line each */
};

/* Adds "file:line: operator: …" to the remarks. */
void capture_remark(struct capture *c, const char *format, ...) HOP_PRINTF(2, 3);

struct capture *capture_current(void);             /* of this thread, NULL: none */
struct capture *capture_switch(struct capture *c); /* the thread is in this one now; gives the one before */
void capture_enter(struct capture *c, bool eager); /* c is zeroed; makes its module */
void capture_leave(struct capture *c); /* frees what is left of it, but not a module taken out (c->m NULL) */
void capture_leave_cleanup(void *c);   /* signature of a cleanup */
uint64_t scope_serial(void);           /* one that no scope has had */
struct scope *scope_open(struct capture *c, enum scope_kind kind, const char *what);
void scope_label(struct scope *s, const char *label); /* copied; NULL: it has none */
void scope_close(struct capture *c); /* the innermost; its builder has been finished or abandoned */
/* Drops scopes until `mark` is innermost, after a throw freed their builders. */
void scope_unwind(struct capture *c, struct scope *mark);
void drop_variables(struct capture *c, uint32_t mark); /* those made since there were `mark` */

/* Throws "file:line: operator: …" for the call at work. */
_Noreturn void capture_throw(const char *format, ...) HOP_PRINTF(1, 2);
const char *capture_place_text(struct arena *a, hop_place at);
/* After a catch: makes the error the capture's first, unless it has one. */
void capture_note(struct capture *c, int status);
/* The capture at work, if there is one, has failed with the thread's message. Gives the status. */
int capture_fail(hop_place at, hop_status status);
struct place capture_place(struct capture *c, hop_place at);

/* The handle's value in the innermost scope, lifted through every level. Throws for what is out of scope. */
struct operand resolve(struct scope *s, hop_val v);
/* A tensor of eager mode as a parameter of the outermost scope, for a capture with a host. */
val host_value(struct capture *c, struct tensor *t);
type_id tensor_type(struct module *m, const struct tensor *t);
struct scope *scope_root(struct capture *c);
/* One more parameter of a function being captured, behind those it has; its type is one of that scope. */
val scope_parameter(struct scope *s, type_id type);
val lift_value(struct scope *s, val outer);
bool in_scope(struct scope *s, uint64_t serial);
/* The scope with that serial that is open, in captures around this one too; NULL: none. */
struct scope *scope_with(struct scope *s, uint64_t serial);
hop_place value_place(const struct scope *s, val v); /* where it was made */
/* The scope around a body; around the function of a capture inside of another one the innermost scope of
 * that, whose module is another. NULL: none. */
struct scope *scope_around(const struct scope *s);
dim lift_dim(struct scope *s, dim outer); /* from scope_around */
type_id lift_type(struct scope *s, type_id outer);
/* A size, or the type of a value, of this capture or of one around it, as the innermost scope s sees it. */
dim resolve_dim(struct scope *s, hop_dim d);
dim checked_dim(const struct scope *owner, hop_dim d); /* throws for a handle that nothing there has made */
type_id resolve_type(struct scope *s, hop_val v);
hop_dim dim_handle(struct scope *s, dim d);
static inline hop_val value_handle(const struct scope *s, val v) { return (hop_val){ s->serial, v }; }
/* A parameter for a value of this type around. */
val scope_param(struct scope *s, type_id outer_type, const char *name);
/* The dim that a name means here, HOP_NONE: nothing. */
dim scope_symbol(struct scope *s, const char *name, size_t length);
/* Makes the function: parameters in this order (declared and late ones alike), results renumbered. Its
 * builder ends, the scope stays open. */
uint32_t scope_finish(struct scope *s, const val *params, uint32_t n_params, const val *results,
                      uint32_t n_results);

/* ---- variables (mutate.c) ---- */

val variable_read(struct scope *s, uint32_t variable); /* what it holds, in scope s; views are cut out */
void variable_write(struct scope *s, uint32_t variable, val value);
/* A value of the right type, after a body wrote it. */
void variable_set(struct scope *s, uint32_t variable, val value);
hop_val variable_new(struct scope *s, val initial, const char *name);
hop_val eager_variable_new(struct scope *s, struct tensor *initial);      /* takes the reference */
uint32_t variable_index(struct capture *c, hop_val v);                    /* checks that it is in scope */
struct tensor *eager_variable_read(struct capture *c, uint32_t variable); /* a new reference */
void eager_variable_write(struct capture *c, uint32_t variable, hop_val value);
/* Of that scope alone; NULL: none. */
const struct variable_binding *find_binding(const struct scope *s, uint32_t variable);
/* The content on entry to a body, as a parameter of it (made if need be). */
struct late_param variable_entry(struct scope *s, uint32_t variable);

/* ---- modes (modes.c) ---- */

struct modes_mark modes_mark(void); /* of this thread */
void modes_restore(struct modes_mark m);
void modes_open(struct scope *s); /* the modes of the thread are those that s begins with */
void modes_set(struct scope *s);  /* the next nodes of s are made under the modes of the thread */
/* The same for a builder of one call in eager mode, where nothing is differentiated. */
void modes_of_call(struct builder *b, struct scope_modes *room);
/* The body of s is over: throws unless every mode that began in it has ended. */
void modes_close(struct scope *s, const char *what);
void modes_lifted(struct scope *s, val here, val outer); /* a value of the scope around, here */
/* The results of s, constants where they were made under no_grad. */
const val *modes_results(struct scope *s, const val *results, uint32_t n);
/* In which dtype an operator takes floats of dtype t. */
enum dtype modes_dtype(const struct builder *b, enum op op, enum dtype t);
static inline bool autocasts(const struct scope *s) { return s->modes.now & HOP_AUTOCAST; }
/* Under autocast: a float result of a body in the dtype of another float; else as it is. */
val modes_like(struct builder *b, val v, enum dtype t);

/* ---- how many results ---- */

/* HOP_UP_TO(n): so many at most, as many as the body sets. HOP_ANY: as many as it gives. */
enum { MOST_RESULTS = 1 << 20 };
static inline bool results_open(int n) { return n < HOP_UP_TO(MOST_RESULTS); }
static inline uint32_t results_room(int n)
{
    return results_open(n) ? (uint32_t)(n - HOP_UP_TO(0)) : (uint32_t)n;
}
/* How many a body has set of *out, which becomes what it gave where that counts. */
static inline uint32_t results_set(const struct scope *s, int n, hop_val **out)
{
    uint32_t room = results_room(n), set = 0;
    if (n == HOP_ANY) return *out = s->given, s->n_given;
    if (!results_open(n)) return room;
    while (set < room && (*out)[set].scope != HANDLE_NONE) set++;
    return set;
}

/* ---- emission ---- */

struct emission {
    struct capture *c;
    struct scope *s;   /* innermost */
    struct builder *b; /* where nodes go */
    uint32_t n;
    struct operand *in;
    const void *args;
    val *out;
    uint32_t n_out;
};
typedef void (*emit_rule)(struct emission *e);
/* One public call: brings the operands in, runs the rule, hands the results out. Returns the status; on
 * failure out is empty handles, and the graph is as it was. */
int capture_emit(hop_place at, const char *name, emit_rule rule, const void *args, const hop_val *in,
                 uint32_t n, hop_val *out, uint32_t n_out);
/* Room for handles, which lives as long as the capture: for calls of which nobody knows how many operands
 * they have. NULL: the capture has failed. */
hop_val *capture_room(hop_place at, const char *name, uint32_t n);
static inline hop_val capture_emit1(hop_place at, const char *name, emit_rule rule, const void *args,
                                    const hop_val *in, uint32_t n)
{
    hop_val out = { 0, 0 };
    capture_emit(at, name, rule, args, in, n, &out, 1);
    return out;
}
/* For calls that are no plain emission: runs body(c, args) with errors noted. */
int capture_edge(hop_place at, const char *name, void (*body)(struct capture *c, void *args), void *args);
/* Runs body(c, args) for its errors only: what it emits is taken back. */
void capture_try(struct capture *c, void (*body)(struct capture *c, void *args), void *args);

/* ---- bodies of operators in other files (control.c) ---- */

/* A body of one result that assigns to nothing outside, as a region: its parameters have the types of the
 * operands. like_first: a number that it gives has the dtype of the first one. */
struct reading_body {
    const char *what, *label;
    hop_body body;
    void *env;
    const val *operands;
    uint32_t n;
    bool like_first;
};
struct region_in capture_reading_body(struct capture *c, const struct reading_body *r);

/* ---- eager mode (eager.c) ---- */

/* Throws when there is none; borrowed reference; weak numbers: NULL. */
struct tensor *eager_tensor(struct scope *s, hop_val v);
hop_val eager_value(struct scope *s, struct tensor *t); /* takes the reference */
/* A new reference; numbers get their own dtype. */
struct tensor *eager_materialise(struct capture *c, hop_val v);
void eager_emit(struct capture *c, emit_rule rule, const void *args, const hop_val *in, uint32_t n,
                hop_val *out, uint32_t n_out);
/* Drops the innermost scope's tensors made since there were `mark`, except those of `kept`, whose handles
 * change. */
void eager_prune(struct scope *s, uint32_t mark, hop_val *kept, uint32_t n);
void eager_scan(struct capture *c, hop_val *results, int n_results, const hop_scan_spec *spec);
void eager_while(struct capture *c, hop_val *results, int n_results, const hop_while_spec *spec);
void eager_fori(struct capture *c, hop_val *results, const hop_fori_spec *spec);
void eager_associative_scan(struct capture *c, hop_val *results, const hop_associative_scan_spec *spec);
void eager_switch(struct capture *c, hop_val *results, int n_results, const hop_switch_spec *spec,
                  const char *what);
void eager_call(struct capture *c, hop_val *results, int n_results, const hop_call_spec *spec);
/* An operator whose bodies are asked for more than once, in any order: what `record` makes in a capture of
 * its own, which may use the values of eager mode, is run as a whole. */
void eager_whole(struct capture *c, void (*record)(struct capture *inner, void *args, hop_val *results),
                 void *args, hop_val *results, uint32_t n_results);

/* ---- promotion and broadcasting (promote.c) ---- */

enum dtype promote_dtypes(enum dtype a, enum dtype b); /* DT_COUNT: u64 and a signed one, there is none */
/* Of all together, weak ones included. */
enum dtype operands_dtype(struct builder *b, const struct operand *in, uint32_t n);
val operand_value(struct builder *b, const struct operand *o);            /* alone */
val operand_as(struct builder *b, const struct operand *o, enum dtype t); /* scalar or value, cast */
val weak_full(struct builder *b, const struct operand *o, enum dtype t, uint32_t rank, const dim *dims);
/* Where a whole number stands: -1 below what an integer dtype holds, 1 above it, 0 within. */
int beside_range(enum dtype t, int64_t n);
/* A number as a value of this type; an error where it would be of another kind (a real number among
 * integers). */
val weak_like(struct builder *b, const struct operand *o, struct type t);
/* The common shape of operands; returns its rank. An operand that is 0 or 1 long, which only a run knows,
 * beside another size becomes one that is 1 long. */
uint32_t broadcast_dims(struct builder *b, struct operand *in, uint32_t n, dim *dims);
/* Broadcasts; v's rank is not larger. */
val bring_to(struct builder *b, val v, uint32_t rank, const dim *dims);
/* An error, a requirement, or nothing. */
void require_equal(struct builder *b, dim want, dim found, const char *what);
/* One dtype, one shape. */
void promote_all(struct builder *b, struct operand *in, uint32_t n, enum dtype t, val *out);

/* The two operands of a product in the dtypes in which it takes them: one, or where the result's is chosen
 * (`dtype`, NULL: it is not) each its own. Returns the result's (ops.c). */
enum dtype product_operands(struct emission *e, const char *dtype, val *out);

/* ---- texts (parse.c) ---- */

struct cursor {
    const char *text, *p;
    const char *what; /* "the type", for messages */
    struct scope *s;  /* whose symbols dims may name; NULL: numbers only */
    struct module *m;
    dim (*declare)(struct cursor *c, const char *name, size_t length); /* for unknown names; NULL: an error */
};
/* At the beginning of the text; NULL stands for none. */
struct cursor cursor_over(const char *text, const char *what, struct scope *s, struct module *m);
struct cursor cursor_for(const struct emission *e, const char *text, const char *what);
_Noreturn void cursor_error(const struct cursor *c, const char *expected);
void cursor_space(struct cursor *c);
bool cursor_accept(struct cursor *c, const char *token);
void cursor_expect(struct cursor *c, const char *token);
bool cursor_word(struct cursor *c, const char **word, size_t *length); /* an identifier */
bool cursor_integer(struct cursor *c, int64_t *out);                   /* optional sign */
void cursor_end(struct cursor *c);
dim parse_dim(struct cursor *c);
enum dtype parse_dtype(struct cursor *c);
/* A comma-separated list up to the end or a closing bracket. */
uint32_t parse_dims(struct cursor *c, dim *dims);
enum dtype parse_type(struct cursor *c, uint32_t *rank, dim *dims);
axis_set parse_varying(struct cursor *c); /* behind a type: "{i, j}", or nothing */
/* The type with what stands behind it: "@(data = 2, model = 4)(0, _)", or nothing (dist.c); and the text of
 * that, as programs of other modules read it. */
type_id parse_layout(struct cursor *c, type_id t);
void layout_text(const struct module *m, uint16_t layout, struct text *out);
/* object "kind": the kind. False: something else stands there, and the cursor does, too. */
bool parse_object(struct cursor *c, const char **kind, size_t *length);
enum dtype text_dtype(const char *text);
/* "f32[3, 4]" with constant sizes, without a module. */
enum dtype parse_static_type(const char *text, uint32_t *rank, int64_t *dims);
/* "all", NULL or "0, -1": bit per axis. */
uint32_t parse_axes(const char *text, uint32_t rank, bool all_allowed);
uint32_t parse_axis_list(const char *text, uint32_t rank, uint32_t *list); /* in the order written */
uint32_t check_axis(int axis, uint32_t rank);

enum slice_item_kind { SLICE_RANGE, SLICE_INDEX, SLICE_NEW };
struct slice_item {
    uint8_t kind;
    bool has_start, has_limit;
    bool start_negative, limit_negative; /* a negative number: from the end */
    dim start, limit;                    /* with a module */
    int64_t start_number, limit_number;  /* without */
    int64_t step;
};
/* One item per axis of the operand, "..." written out; SLICE_NEW items besides. Returns their number. */
uint32_t parse_slices(struct cursor *c, uint32_t rank, struct slice_item *items, uint32_t room);
enum { MAX_SLICE_ITEMS = 2 * MAX_RANK };

/* ---- parts of arrays (index.c) ---- */

val emit_slices(struct scope *s, struct builder *b, val v, const char *text);
/* part: cast and broadcast. */
val emit_slices_update(struct scope *s, struct builder *b, val whole, const char *text, val part);
val emit_index(struct builder *b, val v, val index, uint32_t axis);
val emit_index_update(struct builder *b, val whole, val index, uint32_t axis, val part);

/* Where a view lies in the array that it is a view of, through all views between (mutate.c): element (i, j,
 * …) is element offset + i·strides[0] + j·strides[1] + …, row by row. */
struct strided {
    uint32_t root; /* the variable that is no view */
    bool whole;
    dim offset;
    uint32_t rank;
    dim sizes[MAX_RANK], strides[MAX_RANK];
};
/* False: that is not known when the program is made, or strides are negative. */
bool variable_strided(struct capture *c, uint32_t variable, struct strided *out);

/* Views that keep every element (shape.c): what is seen of v, and v with that replaced by part, which has its
 * type. */
val emit_shape_view(struct scope *s, struct builder *b, val v, enum view_kind kind, const char *text,
                    int axis);
val emit_shape_unview(struct builder *b, val v, enum view_kind kind, const char *text, val part);

/* ---- whole functions (function.c) ---- */

struct captured {
    struct module *m; /* the caller's */
    uint32_t fn;
    const char *remarks; /* in the module's arena */
    /* Per outer symbol the size of the capture around that it stands for, HANDLE_NONE: none. In the module's
     * arena. */
    const hop_dim *around;
    uint32_t n_around;
};
/* The parameters of a function to be captured: as one text, or as a list with a text in front of it. */
struct capture_header {
    const char *text;
    const hop_param *params;
    int n_params; /* -1: all is in the text */
};
/* In eager mode: names sizes from the text of the parameters and the tensors, and says which parameters are
 * mut. */
void eager_header(struct capture *c, const char *params, hop_tensor *const *in, int n_in, bool *mut);
/* Captures a function. Throws; with a status that a body returned, too. */
void capture_function(hop_place at, const struct capture_header *header, int n_results, hop_body body,
                      void *env, struct captured *out);
/* What the symbols of a finished function are around. */
void capture_keep_around(const struct scope *s, struct captured *out);
/* What the capture has recorded so far, as a function that gives these values; the capture goes on empty, and
 * handles of what it had mean nothing any more (cut.c). Throws; where that was too late to go back, the
 * capture is empty, too. */
struct capture *capture_cut(hop_place at, const hop_val *values, uint32_t n, struct captured *out);

/* ---- functions of other modules (import.c) ---- */

/* A copy of a function (and all it calls) in another module. */
uint32_t import_function(struct module *to, struct module *from, uint32_t fn);
/* The same size in another module; symbol k becomes symbols[k]. */
dim import_size(struct module *to, const struct module *from, dim d, const dim *symbols);

/* Emits a call of a function of the capture's module (control.c). around: what its symbols were when it was
 * captured; those that no argument binds are that. */
struct called_fn {
    uint32_t fn;           /* HOP_NONE: none */
    const hop_dim *around; /* what its symbols are that it takes as sizes */
    uint32_t n_around;
};
void emit_call(struct emission *e, struct called_fn f, const hop_call_options *options);
/* A call with rules, in the order of the attributes of `custom`: forward, backward, jvp, batch. attrs: its
 * others, as far as there are any; the rest is filled in. */
enum { CUSTOM_RULES = 4 };
/* The attributes that say its rules, and the sizes that they take. */
void custom_rules(struct emission *e, const struct called_fn rules[CUSTOM_RULES], struct attr *attrs);
void emit_custom(struct emission *e, struct called_fn body, const struct called_fn rules[CUSTOM_RULES],
                 struct attr *attrs);

#endif
