/* Inside of the reader: what reader.c (functions, whole texts), reader_nodes.c (nodes), reader_types.c
 * (dims and types) and literals.c (constants and test blocks) share. */
#ifndef HOP_READER_H
#define HOP_READER_H

#include "ir/operator.h"
#include "ir/text.h"

/* A function or an inline body while it is read. Frames of bodies hang on the frame around them. */
struct frame {
    struct builder b;
    struct frame *outer; /* NULL: a function of its own */
    vec(dim) binds;      /* what each outer symbol of the body is in the frame around; in b.arena */
    bool late;           /* an outer symbol came after one bound by a node: order is restored at the end */
    bool declares;       /* an unknown symbol in a type becomes a new one (parameter types of a function) */
};

/* Names: a key is a string id, or NUMBER_KEY | n for %n. Each key has a chain of bindings, innermost scope
 * first. */
#define NUMBER_KEY 0x80000000u
struct binding {
    uint32_t key, scope, outer; /* outer: the binding this one hides, HOP_NONE */
    val v;
};

enum definition_state { DEF_NONE, DEF_UNREAD, DEF_READING, DEF_DONE };
struct definition {
    uint32_t name;
    uint8_t state;
    bool is_const;
    uint32_t index;         /* function id or constant */
    struct token at, after; /* its keyword; the token behind it when done */
    uint32_t refs, n_refs;  /* names it mentions, in reader.refs; once indexed */
};

/* The declaration of an operator from outside, in the text. */
struct written_operator {
    uint32_t name;
    struct token at;            /* behind its keyword */
    struct operator_decl *decl; /* NULL: not read yet */
    struct token rules[OPERATOR_RULES];
    bool resolved; /* the functions of its rules are read, or being read */
};

/* An operand as written, with the parameter of a body that it is bound to. */
struct written_operand {
    val v;
    uint32_t operand_key, param_key;
    uint32_t right_key; /* of a pair: its second parameter */
    bool named, typed;  /* %p = %v; %p: type = %v */
    bool right_typed;
    struct token type, at, right_type, right_at;
};

struct reader {
    struct lexer lex;
    struct module *m;
    struct arena arena;
    uint32_t depth;         /* of nesting, against runaway recursion */
    uint32_t scope, base;   /* current scope; scopes below base belong to suspended functions */
    vec(uint32_t) heads[2]; /* key -> newest binding: by string id, by number */
    vec(struct binding) bindings;
    vec(struct definition) definitions;
    struct map definition_map; /* by name */
    vec(uint32_t) refs;
    vec(struct written_operator) operators;
    uint16_t call_op; /* the row that calls one of them by its name */
    bool indexed;
    vec(struct written_operand) items; /* stacks: users remember the height and put it back */
    vec(val) vals;
    uint16_t op_slots[512]; /* hash of operator names: op + 1 */
    const char *last_file;  /* of locations: the text of the token and its id */
    uint32_t last_file_len;
    uint16_t last_file_id;
};

enum { MAX_NESTING = 200 };
void reader_deeper(struct reader *r);   /* throws beyond MAX_NESTING; r->depth-- undoes it */
uint32_t reader_name(struct reader *r); /* string id of the current word, value or global; moves on */
/* The one there is, or a new one in state DEF_NONE. */
struct definition *reader_define(struct reader *r, uint32_t name);
/* A finished function or constant, read now if need be. */
struct definition *reader_resolve(struct reader *r, struct token at, uint32_t name);
/* The declared operator of that name, read now if need be, with its rules if the call is with them; NULL:
 * there is none. */
const struct operator_decl *reader_operator(struct reader *r, uint32_t name, bool with_rules);

/* reader_nodes.c */
void reader_know_operators(struct reader *r);
uint32_t reader_value_key(struct reader *r, const char *what); /* key of the current %name; moves on */
/* Binds a name in the current scope. `same_as`: the name of the operand that a parameter stands for, which it
 * may have too; else HOP_NONE. */
void reader_bind(struct reader *r, struct token at, uint32_t key, val v, uint32_t same_as);
uint32_t reader_scope_enter(struct reader *r); /* returns the mark for scope_leave */
void reader_scope_leave(struct reader *r, uint32_t mark);
void reader_requires(struct reader *r, struct frame *f);   /* require(a == b, …) */
bool reader_location(struct reader *r, struct place *out); /* @"file":12:3, where something was made */
/* Nodes up to and including the closing brace; the results end on r->vals. row NULL: a function, which ends
 * with `return`. */
void reader_statements(struct reader *r, struct frame *f, const struct op_row *row, uint32_t region,
                       const uint32_t *groups);
val reader_operand(struct reader *r);

/* reader_types.c */
uint32_t reader_find_symbol(const struct frame *f, uint32_t name, bool by_node);
/* The same, looked for in the frames around as well and lifted from there; HOP_NONE: there is none. */
uint32_t reader_lookup_symbol(struct reader *r, struct frame *f, uint32_t name, bool by_node);
/* The symbol of f that stands for symbol `index` of the frame around, made if need be. */
uint32_t reader_lift_symbol(struct reader *r, struct frame *f, uint32_t index);
/* A new outer symbol of the frame; `is`: what it is in the frame around (bodies). */
uint32_t reader_add_symbol(struct frame *f, uint32_t name, int64_t lo, int64_t hi, dim is);
void reader_range(struct reader *r, int64_t *lo, int64_t *hi); /* lo..hi or lo.. */
/* `along` and the axis of a mesh, behind the name of a symbol; 0: not there. *hi: the last coordinate. */
uint32_t reader_along(struct reader *r, int64_t *hi);
/* The symbol of a body that is the rank's coordinate along axis k of a mesh, made if need be. */
uint32_t reader_coordinate(struct reader *r, struct frame *f, uint32_t mesh, uint32_t k);
enum dtype reader_dtype(struct reader *r);
dim reader_dim(struct reader *r, struct frame *f);
type_id reader_type(struct reader *r, struct frame *f); /* f NULL: static types only */
/* @m(0, _), where it stands behind a type; t: HOP_NONE where only the place behind it is wanted. */
type_id reader_layout(struct reader *r, type_id t);
axis_set reader_axes(struct reader *r); /* {i, "a name"}: along which a value varies */
void reader_skip_type(struct reader *r);
/* Reads a written type of a value whose type is known. An unknown ?name names the symbol in its place, if
 * that is first_fresh or later. */
void reader_match_type(struct reader *r, struct frame *f, type_id actual, uint32_t first_fresh,
                       const char *what);

/* literals.c */
uint32_t reader_constant(struct reader *r, type_id type, uint32_t name); /* a literal of that type */
void reader_const_item(struct reader *r);
void reader_test(struct reader *r);

#endif
