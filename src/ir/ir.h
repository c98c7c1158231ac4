/* The program representation: dtypes, dims, types, constants, closed functions of index-based nodes, modules,
 * and the builder that makes functions. A finished function never changes; every pass and transform builds a
 * new one. Everything is owned by its module's arena. */
#ifndef HOP_IR_H
#define HOP_IR_H

#include "base/base.h"
#include "ir/effects.h"

struct module;
struct builder;

/* ---- dtypes ---- */

enum dtype_kind { KIND_BOOL, KIND_INT, KIND_UINT, KIND_FLOAT, KIND_OBJECT };
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
    DT_COUNT,
    /* Not among those that elements of arrays have: something of the host's, which programs hand on and only
     * rows with OPF_OBJECTS look at. Always of rank 0; its type has a kind. At run time it is 64 bits, the
     * pointer that the host gave. */
    DT_OBJECT
};
struct dtype_info {
    const char *name;
    uint8_t size; /* bytes */
    uint8_t kind;
};
extern const struct dtype_info dtype_info[DT_OBJECT + 1];
static inline bool dtype_is_float(enum dtype t) { return dtype_info[t].kind == KIND_FLOAT; }
static inline bool dtype_is_integer(enum dtype t)
{
    return dtype_info[t].kind == KIND_INT || dtype_info[t].kind == KIND_UINT;
}
/* f16 and bf16 are stored, moved and cast; computed with they are f32, and each result is rounded once. */
static inline bool dtype_is_narrow(enum dtype t) { return t == DT_F16 || t == DT_BF16; }
/* What sums and products of many elements are kept in until they are complete. */
static inline enum dtype dtype_accumulator(enum dtype t) { return dtype_is_narrow(t) ? DT_F32 : t; }
/* The same where operands have another dtype than the result: integers are kept in the result's dtype, in
 * which all that wraps around agrees, floats in the widest of all. */
static inline enum dtype dtype_accumulator_of(enum dtype operand, enum dtype result)
{
    return operand == DT_F64 && dtype_is_float(result) ? DT_F64 : dtype_accumulator(result);
}
/* What it is in memory and in loop programs. */
static inline enum dtype dtype_stored(enum dtype t) { return t == DT_OBJECT ? DT_I64 : t; }
bool dtype_from_name(const char *name, size_t length, enum dtype *out); /* of those below DT_COUNT */

/* ---- dims ---- */

/* An integer expression in canonical form, interned by the module: equal dims have equal ids. Constants below
 * 2^31 are their own id. A symbol is an index into the symbol table of the function in which the dim stands.
 */
typedef uint32_t dim;
enum dim_kind { DIM_CONST, DIM_SYMBOL, DIM_SUM, DIM_PRODUCT, DIM_FLOORDIV, DIM_MOD, DIM_MIN, DIM_MAX };
struct dim_node {
    uint8_t kind;
    uint16_t depth;       /* of nesting */
    uint32_t n;           /* arguments */
    uint32_t size;        /* nodes of the expression written out */
    int64_t value;        /* constant, symbol index, or constant term of a sum */
    const dim *args;      /* sum: products or atoms, ascending; product: atoms, ascending; others: two dims */
    const int64_t *coefs; /* sum: coefficient of each argument, none zero */
};
#define DIM_TABLE 0x80000000u
struct symbol;
dim dim_const(struct module *m, int64_t value);
dim dim_symbol(struct module *m, uint32_t index);
dim dim_add(struct module *m, dim a, dim b);
dim dim_sub(struct module *m, dim a, dim b);
dim dim_mul(struct module *m, dim a, dim b);
dim dim_floordiv(struct module *m, dim a, dim b);
dim dim_mod(struct module *m, dim a, dim b);
dim dim_min(struct module *m, dim a, dim b);
dim dim_max(struct module *m, dim a, dim b);
struct dim_node dim_get(const struct module *m, dim d);
static inline bool dim_is_const(const struct module *m, dim d)
{
    return !(d & DIM_TABLE) || dim_get(m, d).kind == DIM_CONST;
}
int64_t dim_const_value(const struct module *m, dim d); /* of a constant */
bool dim_is_symbol(const struct module *m, dim d, uint32_t *index);
dim dim_substitute(struct module *m, dim d, const dim *symbols); /* symbol k becomes symbols[k] */
/* Throws on overflow and division by zero. */
int64_t dim_eval(const struct module *m, dim d, const int64_t *symbols);
/* Saturates at INT64_MIN/MAX. */
void dim_range(const struct module *m, const struct symbol *symbols, dim d, int64_t *lo, int64_t *hi);
/* 1: a <= b always; 0: unknown or false */
bool dim_provably_le(struct module *m, const struct symbol *symbols, dim a, dim b);
bool dim_mentions(const struct module *m, dim d, bool (*test)(void *ctx, uint32_t symbol), void *ctx);
/* Prints with the given function's symbol names; `symbols` NULL prints $k. */
void dim_print(const struct module *m, const struct symbol *symbols, dim d, struct text *out);

/* ---- types ---- */

typedef uint32_t type_id;
/* A set of named axes of the module: bit k is the axis module.axes[k]. */
typedef uint16_t axis_set;
enum { MAX_AXES = 16 };
struct type {
    uint8_t dtype, rank;
    axis_set varying; /* the axes along which the value may be another one in each lane (ir/axes.h) */
    uint32_t kind;    /* of an object: string id, never 0; of everything else 0 */
    const dim *dims;  /* of a distributed array those of the whole */
    uint16_t layout;  /* number + 1 among the module's, of a distributed array (ir/mesh.h); 0: none */
};
enum { MAX_RANK = 32 }; /* so that a set of dims fits into a word */
/* The set of all dims: bit d is dim d. */
static inline uint32_t all_dims(uint32_t rank) { return rank < 32 ? (1u << rank) - 1 : UINT32_MAX; }
type_id type_intern(struct module *m, enum dtype dtype, uint32_t rank, const dim *dims);
/* Up to 100 printing characters, no quotes and no backslashes among them. */
bool object_kind_fits(const char *kind, size_t length);
type_id type_object(struct module *m, const char *kind, size_t length); /* object "kind" */
/* Like t, with these dims instead of its own. */
type_id type_with_dims(struct module *m, struct type t, const dim *dims);
/* A type of another module, where its dims are these. */
type_id type_import(struct module *to, const struct module *from, struct type t, const dim *dims);
struct type type_get(const struct module *m, type_id t);
static inline bool type_is_object(const struct module *m, type_id t);
type_id type_substitute(struct module *m, type_id t, const dim *symbols);
static inline type_id type_scalar(struct module *m, enum dtype dtype)
{
    return type_intern(m, dtype, 0, NULL);
}
type_id type_prepend(struct module *m, type_id t, dim d); /* T[...] -> T[d, ...] */
type_id type_drop_leading(struct module *m, type_id t);   /* T[d, ...] -> T[...] */
type_id type_drop_dim(struct module *m, type_id t, uint32_t at);
type_id type_insert_dim(struct module *m, type_id t, uint32_t at, dim d);
type_id type_with_dtype(struct module *m, type_id t, enum dtype dtype);
/* The same, varying along these axes and no others; objects vary along none. */
type_id type_varying(struct module *m, type_id t, axis_set varying);
dim type_elements(struct module *m, type_id t);
/* Can types of two functions be one: dtype, rank, and sizes as far as they are numbers? */
bool type_can_be(const struct module *m, type_id a, type_id b);
/* f32[T, 64]; f32[T, 64]{i, j}; object "tokenizer" */
void type_print(const struct module *m, const struct symbol *symbols, type_id t, struct text *out);
/* In the module's scratch, for messages. */
const char *type_text(const struct module *m, const struct symbol *symbols, type_id t);

/* ---- meshes and layouts (mesh.h) ---- */

enum { MESH_AXES = 8 }; /* of a mesh, at most */
struct mesh {
    uint32_t name, n_axes;
    uint32_t axes[MESH_AXES]; /* string ids */
    int64_t sizes[MESH_AXES];
};
/* What ranks have of an array along one axis of a mesh. */
enum placement_kind {
    PLACE_REPLICATE, /* all of it */
    PLACE_SHARD,     /* parts of dim `dim` */
    PLACE_PARTIAL,   /* contributions, of which `op` (enum reduction) makes the array */
    PLACE_EACH       /* one each, of the dims of the type: what only the rank itself can use */
};
struct placement {
    uint8_t kind, dim, op; /* what a kind does not have is 0 */
};
struct layout {
    uint32_t mesh;
    struct placement at[MESH_AXES];
};

/* ---- functions ---- */

typedef uint32_t val; /* index of a value in its function (or in the builder making it) */
#define VAL_NONE HOP_NONE
#define NODE_NONE HOP_NONE

enum symbol_origin {
    SYMBOL_PARAM, /* bound by the type of a parameter: some dim of parameter `index` is exactly this symbol */
    SYMBOL_DIM,   /* an explicit dim parameter */
    SYMBOL_NODE   /* bound by a result of node `index` (data-dependent) */
};
struct symbol {
    uint32_t name; /* string id */
    uint8_t origin;
    uint32_t index;
    int64_t lo, hi; /* inclusive; hi INT64_MAX: unbounded */
    uint32_t axis;  /* string id of the axis of a mesh along which it is the rank's coordinate, 0: none */
};

struct value {
    type_id type;
    uint32_t node; /* the node that defines it, NODE_NONE for a parameter */
    uint32_t name; /* string id, 0: none */
};

enum attr_kind {
    ATTR_ABSENT,
    ATTR_FLAG,   /* i: 0 or 1 */
    ATTR_INT,    /* i */
    ATTR_REAL,   /* r */
    ATTR_INTS,   /* list of int32 in uint32 words */
    ATTR_DIM,    /* i: a dim */
    ATTR_DIMS,   /* list of dims */
    ATTR_DTYPE,  /* i */
    ATTR_STRING, /* i: string id */
    ATTR_CONST,  /* i: index of a module constant */
    ATTR_WORD,   /* i: index into the words of the attribute's specification */
    ATTR_FN,     /* i: a function that the row's rules use; running the node does not */
    ATTR_NAMED,  /* whatever else the text gives: named.h */
    ATTR_SCALAR  /* only in specifications: an ATTR_INT or ATTR_REAL literal */
};
struct attr {
    uint8_t kind;
    uint32_t n; /* list length */
    union {
        int64_t i;
        double r;
        const uint32_t *list;
    };
};

static inline bool attr_is_list(const struct attr *a)
{
    return a->kind == ATTR_INTS || a->kind == ATTR_DIMS || a->kind == ATTR_NAMED;
}

/* A body of a higher-order node: the function, its own operands, and what each of the function's parameter
 * and dim symbols is here. */
struct region {
    uint32_t fn;
    uint32_t operands, n_operands; /* the region's own operands: positions among the node's operands */
    /* One per symbol of the function that no node of it binds (they come first in its table). */
    const dim *dims;
    uint32_t n_dims;
};

struct node {
    uint16_t op, n_regions;
    uint32_t operands, n_operands; /* in fn->pool */
    uint32_t results, n_results;   /* consecutive values */
    uint32_t attrs;                /* in fn->attrs, as many as the row's specification */
    uint32_t regions;              /* in fn->regions */
    uint32_t groups; /* in fn->pool: sizes of the row's operand groups (higher-order rows only) */
    struct place place;
};

/* `a == b` must hold when the function is entered. */
struct require {
    dim a, b;
    struct place place;
};

#define NEW_UNCHANGED (HOP_NONE - 1)
struct fn {
    uint32_t id, name; /* name 0: an anonymous body */
    /* What a body is called in texts and messages, 0: nothing. Not part of its structure: equal bodies are
     * one, called as the first of them that is called anything. */
    uint32_t label;
    struct place place;
    uint32_t n_params, n_values, n_nodes, n_results, n_symbols, n_required, n_regions;
    uint32_t n_outer_symbols; /* symbols not bound by nodes; they are the first ones */
    struct value *values;     /* the parameters come first */
    struct node *nodes;
    val *results;
    uint32_t *pool;
    struct attr *attrs;
    struct region *regions;
    struct symbol *symbols;
    struct require *required;
    /* Which parameters a run updates (`mut`), per parameter: the result that is its new content,
     * NEW_UNCHANGED: none is, HOP_NONE: it is not `mut`. NULL: no parameter is. Inside of programs such a
     * result is one like any other; whoever runs the function puts it in the argument's place. */
    uint32_t *news;
    effect_set effects; /* union over its nodes, bodies included */
    axis_set axes;      /* that its nodes name and do not bind, bodies and rules included */
    axis_set exchanged; /* those of them along which lanes wait for each other */
    /* Made, or made of what was made, by reverse mode, which relied on what varies. Not part of its
     * structure, as the label. */
    bool transposed;
    /* Arrays in it are distributed, or may be: it is run and transformed as what each rank does
     * (transform/localize.h). */
    bool global;
    uint64_t hash; /* structural; equal functions have equal hashes */
};

static inline const struct node *fn_node(const struct fn *f, uint32_t i) { return &f->nodes[i]; }
static inline const val *node_operands(const struct fn *f, const struct node *n)
{
    return f->pool + n->operands;
}
static inline const struct attr *node_attr(const struct fn *f, const struct node *n, uint32_t k)
{
    return &f->attrs[n->attrs + k];
}
static inline bool attr_is_word(const struct attr *a, int64_t word)
{
    return a->kind != ATTR_ABSENT && a->i == word;
}
static inline const struct region *node_region(const struct fn *f, const struct node *n, uint32_t r)
{
    return &f->regions[n->regions + r];
}
static inline uint32_t node_group_size(const struct fn *f, const struct node *n, uint32_t g)
{
    return f->pool[n->groups + g];
}
/* Operands of group g (position of its first among the node's operands in *first when not NULL). */
const val *node_group(const struct fn *f, const struct node *n, uint32_t g, uint32_t *first);
const val *node_region_operands(const struct fn *f, const struct node *n, uint32_t r);
static inline type_id value_type(const struct fn *f, val v) { return f->values[v].type; }
/* The parameter whose new content the result is, HOP_NONE: none. */
uint32_t fn_updated(const struct fn *f, uint32_t result);
bool fn_has_updates(const struct fn *f);                         /* is any result a new content? */
const uint32_t *fn_updates(struct arena *a, const struct fn *f); /* fn_updated of each; NULL: none is */
/* Without %; "0", "1", … for one without a name. */
const char *fn_param_name(const struct module *m, const struct fn *f, uint32_t p);

/* ---- constants, modules ---- */

struct constant {
    type_id type; /* static */
    uint32_t name;
    const void *data; /* contiguous, little-endian, bool one byte */
    size_t bytes;
    uint64_t hash;
};

struct program_test;  /* text.h */
struct operator_decl; /* operator.h */

/* What an engine remembers under four words of its choice. */
union memo_value {
    uint32_t fn;
    int64_t number;
    void *record; /* in the module's arena */
};
struct memo_entry {
    uint64_t key[4];
    union memo_value value;
};

/* At what price gradients run again what is dear rather than keep it: the higher the level, the more is run
 * again; 0: only what is cheap. Nodes in the first `early_part` 256ths of a function, whose values would be
 * kept longest, have a level of their own. With segments, so many parts of about the same cost, what one part
 * hands to the next is kept: parts are run again one at a time. */
struct price {
    uint8_t level, early_level;
    uint16_t early_part, segments;
};

/* Something of the host's that programs need for as long as they live, an operator that nobody else holds for
 * example. Counted: modules and executables refer to it. */
struct kept {
    int32_t refs;
    void *user;
    void (*release)(void *user);
};
struct kept *kept_ref(struct kept *k);
void kept_free(void *k); /* one reference less; the last one releases it */

struct module {
    uint64_t serial; /* no two modules of a process have the same */
    struct arena arena;
    struct arena scratch;      /* for messages; emptied whenever convenient */
    vec(const char *) strings; /* string 0 is "" */
    struct map string_map;
    vec(struct dim_node) dims;
    struct map dim_map;
    vec(struct type) types;
    struct map type_map;
    vec(struct fn *) fns;
    struct map fn_map; /* structural hash -> anonymous function, for sharing */
    vec(struct constant) constants;
    struct map constant_map;
    vec(struct operator_decl *) operators; /* from outside, as far as they are declared */
    struct map operator_map;               /* by name */
    vec(struct mesh) meshes;
    vec(struct layout) layouts;
    vec(uint32_t) axes; /* names (string ids) of the axes that types and nodes mention */
    vec(const char *) files;
    vec(struct program_test *) tests;
    struct map memo; /* memoised transforms, owned by the engines (memo_get, memo_put) */
    vec(struct memo_entry) memo_entries;
    vec(struct kept *) kept; /* what its programs need besides, each with a reference */
    /* Switches (transform/simplify.h) that are off in transforms of this module: a bit each. */
    uint32_t without;
    bool has_objects;   /* there is a type of objects */
    bool has_once;      /* it has nodes that may be computed once (op_row.once) */
    bool has_stand_ins; /* it has nodes that stand for others (op_row.stands_for) */
    struct price price; /* of the gradient being made (transform.h); all 0: none */
    /* What the gradient being made keeps, and the one made last (transform.h). */
    struct saved_list *saved_now, *saved_last;
};

static inline bool type_is_object(const struct module *m, type_id t)
{
    return m->has_objects && type_get(m, t).dtype == DT_OBJECT;
}

struct module *module_new(void);
void module_free(void *m); /* accepts NULL */
/* The module keeps it, too; once is enough. */
void module_keep(struct module *m, struct kept *k);
uint32_t module_string(struct module *m, const char *text, size_t length);
static inline const char *module_text(const struct module *m, uint32_t id) { return m->strings.data[id]; }
uint16_t module_file(struct module *m, const char *name);
axis_set module_axis(struct module *m, uint32_t name); /* the set of the one axis of that name */
uint32_t module_constant(struct module *m, type_id type, const void *data, size_t bytes, uint32_t name);
static inline const struct fn *module_fn(const struct module *m, uint32_t id) { return m->fns.data[id]; }
uint32_t module_find(const struct module *m, const char *name); /* HOP_NONE when there is none */
void module_rename(struct module *m, uint32_t fn, const char *name);
static inline uint32_t fn_label(const struct fn *f) { return f->name ? f->name : f->label; }
/* step, vjp: step_vjp, what a function made from another one is called; 0 where that is called nothing. */
uint32_t module_label(struct module *m, uint32_t label, const char *suffix);
/* The same function, but anonymous, with results that are new contents of parameters: updates[k] as
 * fn_updated says it of result k (NULL: none is). A result whose type is not the parameter's is none. */
uint32_t module_with_updates(struct module *m, uint32_t fn, const uint32_t *updates);
const char *place_text(struct module *m, struct place p); /* "file:line:col: " or "" */
const char *place_text_in(struct arena *a, const struct module *m, struct place p);
/* A line for each frame of the stack at a place, "\n  file:line, in function", where it is known; or "". */
const char *place_stack(struct module *m, struct place p);

/* ---- frames (frames.c) ---- */

bool frame_known(const char *file); /* is it a name that hop_frame gave? */
/* In which function it is, and where that was called (file NULL: by nobody). False: it is no such name. */
bool frame_caller(const char *file, const char **function, const char **caller_file, int *caller_line);
void frame_lines(struct text *out, const char *file, uint32_t line); /* what place_stack gives */
/* Memoised results of transforms: key words are chosen by the engine (first one a tag). */
bool memo_get(const struct module *m, const uint64_t key[4], union memo_value *out);
void memo_put(struct module *m, const uint64_t key[4], union memo_value value);

/* ---- building ---- */

struct region_in {
    uint32_t fn;
    const val *operands; /* the region's own */
    uint32_t n_operands;
    const dim *dims; /* what each outer symbol of fn is here; NULL: all are found from the operand types */
};
struct node_in {
    uint16_t op;
    const val *operands; /* node-level groups one after the other (without the regions' own) */
    uint32_t n_operands;
    const uint32_t *groups; /* group sizes for higher-order rows; NULL for first-order */
    /* One per attribute of the row, ATTR_ABSENT where not given; NULL: all absent. */
    const struct attr *attrs;
    const struct region_in *regions;
    uint32_t n_regions;
    struct place place; /* line 0: the builder's */
};

struct builder;
/* What a builder asks about each node that somebody writes, a composite as a whole; not about what rules and
 * transforms make. */
struct node_hooks {
    void (*before)(struct builder *b, struct node_in *in); /* may give it other operands */
    void (*after)(struct builder *b, const struct node_in *in, val first, uint32_t n_results);
};

struct builder {
    struct module *m;
    struct arena arena; /* scratch of the build; freed when it ends */
    struct place place; /* given to nodes whose node_in has none */
    uint32_t n_params;
    vec(struct value) values;
    vec(struct node) nodes;
    vec(uint32_t) pool;
    vec(struct attr) attrs;
    vec(struct region) regions;
    vec(struct symbol) symbols;
    vec(struct require) required;
    vec(struct require) checked; /* equalities that check nodes made so far ensure */
    uint32_t n_outer_symbols;
    uint32_t *news;           /* as in struct fn, once a parameter was called `mut` */
    effect_set effects;       /* of the nodes so far */
    axis_set axes, exchanged; /* the same, as in struct fn */
    bool transposed, global;
    bool written; /* what is built was written by somebody, not made by a transform: what cannot be meant is
                     refused */
    uint32_t n_last_results; /* how many results the last builder_node gave */
    uint16_t composite;      /* number + 1 of the outermost composite operator being expanded, 0: none */
    uint32_t name;           /* of the function being made, 0: anonymous */
    uint32_t label;          /* as in struct fn; that of `like` at first */
    struct place fn_place;
    const struct node_hooks *hooks; /* NULL: none */
    void *hooks_of;                 /* what they work with */
};

/* A builder lives on the caller's stack. begin registers its cleanup, finish and abandon end it. `like` gives
 * its outer symbols to the new function, so that types of `like` that mention only those mean the same in it
 * (NULL: none). */
void builder_begin(struct builder *b, struct module *m, const struct fn *like);
void builder_abandon(struct builder *b);
/* An outer symbol; before any node. */
uint32_t builder_symbol(struct builder *b, uint32_t name, int64_t lo, int64_t hi);
/* The rank's coordinate along an axis (string id) of a mesh of that many ranks; the one there is, or a new
 * one. */
uint32_t builder_coordinate(struct builder *b, uint32_t axis, int64_t size);
val builder_param(struct builder *b, type_id type, uint32_t name); /* before any node */
/* Checks, infers; returns the first result (VAL_NONE if none), the others follow it. A composite operator
 * becomes the nodes of its expansion. */
val builder_node(struct builder *b, const struct node_in *in);
/* a == c: nothing, a require, a check node, or an error. */
void builder_require(struct builder *b, dim a, dim c, const char *what);
static inline type_id builder_type(const struct builder *b, val v) { return b->values.data[v].type; }
void builder_name(struct builder *b, val v, uint32_t name);
/* result: its number among those of builder_finish, or NEW_UNCHANGED; after all parameters. */
void builder_mut(struct builder *b, uint32_t param, uint32_t result);
/* Ends the build and returns the function. An anonymous function (b->name 0) equal to an existing one becomes
 * that one. Unused outer symbols are kept. */
uint32_t builder_finish(struct builder *b, const val *results, uint32_t n_results);

/* Is n `check(eq(dim_value(a), dim_value(b)), …)`, which ensures a == b from there on? */
bool check_of_dims(const struct value *values, const struct node *nodes, const uint32_t *pool,
                   const struct attr *attrs, const struct node *n, dim *a, dim *b);

/* Copying nodes of a function into a builder, with values and symbols renamed. */
struct copier {
    struct builder *b;
    const struct fn *f;
    val *values;  /* value of f -> value in b, VAL_NONE where not yet there */
    dim *symbols; /* symbol of f -> dim in b */
};
/* Symbols start as: outer k -> symbol k of b. */
void copier_begin(struct copier *c, struct builder *b, const struct fn *f);
void copier_params(struct copier *c); /* makes f's parameters parameters of b */
dim copier_dim(struct copier *c, dim d);
type_id copier_type(struct copier *c, type_id t);
/* Copies a node (its operands must be mapped); maps its results and the symbols it binds. Returns its first
 * result. */
val copier_node(struct copier *c, const struct node *n);
/* A node_in for n with operands, attributes and region dims mapped into b; scratch from b's arena. May be
 * changed before building. */
struct node_in copier_node_in(struct copier *c, const struct node *n);
/* In place of n, of which copier_node_in made `in`: a call of its body (invoke_subgraph) with these
 * attributes, NULL: none. Gives its results. */
void copier_call(struct copier *c, const struct node *n, struct node_in in, const struct attr *attrs,
                 val *results);
/* After building something in place of n: maps n's results to `results` (consecutive or not) and binds the
 * symbols that n binds. */
void copier_bind(struct copier *c, const struct node *n, const val *results);
/* Copies all nodes of f (parameters mapped before); fills results[f->n_results]. That is inlining. */
void copier_body(struct copier *c, val *results);

/* Attribute literals for node_in. */
#define A_NONE ((struct attr){ .kind = ATTR_ABSENT })
#define A_FLAG(x) ((struct attr){ .kind = (x) ? ATTR_FLAG : ATTR_ABSENT, .i = 1 })
#define A_INT(x) ((struct attr){ .kind = ATTR_INT, .i = (x) })
#define A_REAL(x) ((struct attr){ .kind = ATTR_REAL, .r = (x) })
#define A_DIM(d) ((struct attr){ .kind = ATTR_DIM, .i = (d) })
#define A_DTYPE(t) ((struct attr){ .kind = ATTR_DTYPE, .i = (t) })
#define A_WORD(w) ((struct attr){ .kind = ATTR_WORD, .i = (w) })
#define A_STRING(s) ((struct attr){ .kind = ATTR_STRING, .i = (s) })
#define A_FN(f) ((struct attr){ .kind = ATTR_FN, .i = (f) })
#define A_CONST(c) ((struct attr){ .kind = ATTR_CONST, .i = (c) })
#define A_INTS(p, count) ((struct attr){ .kind = ATTR_INTS, .n = (count), .list = (p) })
#define A_DIMS(p, count) ((struct attr){ .kind = ATTR_DIMS, .n = (count), .list = (p) })

#endif
