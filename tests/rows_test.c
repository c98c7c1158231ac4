/* Claims about the rows that move, index, multiply and make arrays: what infer refuses and how it says so,
 * results against numbers worked out by hand (interpreted, and compiled where this build can), batching of
 * the indexing operators against a loop over lanes for every choice of batched operands, gradients of the
 * same programs, their loop programs with every access checked at sizes 0 and 1 too, and the texts of check
 * and print. Closes with `N passed, M failed`. */
#include "check/check.h"

#include "ops/misc.h"
#include "runtime/exe.h"
#include "transform/transform.h"

static uint32_t passed, failed;
static bool compiled;

static void claim(const char *name, const char *what, const char *wrong)
{
    if (!wrong) {
        passed++;
        return;
    }
    failed++;
    printf("%s: %s: %s\n", name, what, wrong);
}

/* ---- infer refuses ---- */

struct refusal {
    const char *params, *node, *message; /* the message must contain this */
};
static const struct refusal refusals[] = {
    { "%x: f32[2, 3]", "reshape {dims = [4]} (%x)",
      "reshape: elements of the operand f32[2, 3] and of the result f32[4]: expected 6, found 4" },
    { "%x: f32[2, 3]", "permute {order = [0]} (%x)",
      "permute: attribute 'order': expected one entry per dim of the operand (2), found 1" },
    { "%x: f32[2, 3]", "permute {order = [0, 2]} (%x)",
      "permute: attribute 'order': expected dims below the rank 2, found 2" },
    { "%x: f32[2, 3]", "permute {order = [1, 1]} (%x)", "permute: attribute 'order' names dim 1 twice" },
    { "%x: f32[3]", "broadcast {dims = [2, 4], at = [1]} (%x)",
      "broadcast: dim 0 of the operand f32[3] and dim 1 of the result: expected 3, found 4" },
    { "%x: f32[3, 2]", "broadcast {dims = [2, 3], at = [1, 0]} (%x)",
      "broadcast: attribute 'at': expected ascending dims, found 0 after 1" },
    { "%x: f32[3]", "slice {start = [2], limit = [1]} (%x)",
      "slice: start of dim 0, against its limit: expected at most 1, found 2" },
    { "%x: f32[3]", "slice {start = [0], limit = [4]} (%x)",
      "slice: limit of dim 0 of f32[3]: expected at most 3, found 4" },
    { "%x: f32[3]", "slice {start = [-1], limit = [3]} (%x)",
      "slice: start of dim 0: expected a size of at least 0, found -1" },
    { "%x: f32[3]", "slice {start = [0], limit = [3], step = [0]} (%x)",
      "slice: attribute 'step': expected steps of at least 1, found 0 for dim 0" },
    { "%x: f32[T], %n: f32[T]", "slice {start = [0], limit = [T + 1]} (%x)",
      "slice: limit of dim 0 of f32[T]: expected at most T, found T + 1" },
    { "%x: f32[3], %v: f64[]", "pad {low = [1], high = [0]} (%x, %v)",
      "pad: operand 1 (value): expected f32[], found f64[]" },
    { "%x: f32[3], %v: f32[]", "pad {low = [-1], high = [0]} (%x, %v)",
      "pad: low of dim 0: expected a size of at least 0, found -1" },
    { "%x: f32[3], %v: f32[]", "pad {low = [0], high = [0], interior = [-1]} (%x, %v)",
      "pad: attribute 'interior': expected at least 0, found -1 for dim 0" },
    { "%x: f32[3], %y: f64[3]", "concat {dim = 0} (%x, %y)",
      "concat: operand 1: expected dtype and rank of f32[3], found f64[3]" },
    { "%x: f32[3, 2], %y: f32[3, 3]", "concat {dim = 0} (%x, %y)",
      "concat: operand 1: dim 1 of f32[3, 3]: expected 2, found 3" },
    { "%x: f32[3]", "concat {dim = 1} (%x)",
      "concat: attribute 'dim': expected a dim below the rank 1, found 1" },
    { "%x: f32[3]", "reverse {dims = [0, 0]} (%x)", "reverse: attribute 'dims' names dim 0 twice" },
    { "%x: f32[3], %i: i32[]", "dynamic_slice {sizes = [1]} (%x, %i)",
      "dynamic_slice: operand 1 (start of dim 0): expected i64[], found i32[]" },
    { "%x: f32[3], %i: i64[]", "dynamic_slice {sizes = [4]} (%x, %i)",
      "dynamic_slice: size of dim 0 of f32[3]: expected at most 3, found 4" },
    { "%x: f32[3, 2], %i: i64[]", "dynamic_slice {sizes = [1, 1]} (%x, %i)",
      "dynamic_slice: expected one start per dim of f32[3, 2] (2), found 1" },
    { "%x: f32[3], %u: f32[4], %i: i64[]", "dynamic_update(%x, %u, %i)",
      "dynamic_update: operand 1 (update): dim 0 of f32[4]: expected at most 3, found 4" },
    { "%x: f32[3], %u: i32[1], %i: i64[]", "dynamic_update(%x, %u, %i)",
      "dynamic_update: operand 1 (update): expected dtype and rank of f32[3], found i32[1]" },
    { "%x: f32[3], %i: f32[2]", "take(%x, %i)",
      "take: operand 1 (indices): expected integers, found f32[2]" },
    { "%x: f32[], %i: i32[2]", "take(%x, %i)", "take: operand 0: expected at least one dim, found f32[]" },
    { "%x: f32[3], %i: i32[2]", "take {dim = 1} (%x, %i)",
      "take: attribute 'dim': expected a dim below the rank 1, found 1" },
    { "%x: f32[3], %i: i32[2], %u: f32[3]", "scatter(%x, %i, %u)",
      "scatter: operand 2 (updates): dim 0 of f32[2] and f32[3]: expected 2, found 3" },
    { "%x: bool[3], %i: i32[2], %u: bool[2]", "scatter(%x, %i, %u)",
      "scatter: operand 0: expected numbers to combine with, found bool[3]" },
    { "%x: f32[2, 3], %y: f32[4, 2]", "matmul(%x, %y)",
      "matmul: contracted dims: dim 1 of lhs f32[2, 3] and dim 0 of rhs f32[4, 2]: expected 3, found 4" },
    { "%x: f32[2, 3], %y: f64[3, 2]", "matmul(%x, %y)",
      "matmul: operand 1 (rhs): expected dtype f32, found f64[3, 2]" },
    { "%x: f32[], %y: f32[3]", "matmul(%x, %y)",
      "matmul: operand 0 (lhs): expected at least one dim, found f32[]" },
    { "%x: f32[2, 3], %y: f32[2, 3, 4]", "matmul(%x, %y)",
      "matmul: operand 1 (rhs): expected rank 1, rank 2 or the rank of lhs f32[2, 3], found f32[2, 3, 4]" },
    { "%x: f32[5, 2, 3], %y: f32[4, 3, 2]", "matmul(%x, %y)",
      "matmul: batch dims: dim 0 of lhs f32[5, 2, 3] and dim 0 of rhs f32[4, 3, 2]: expected 5, found 4" },
    { "%x: f32[2, 3], %y: f32[3]",
      "dot {batch_lhs = [], batch_rhs = [], contract_lhs = [0, 1], contract_rhs = [0]} (%x, %y)",
      "dot: attributes 'contract_lhs' and 'contract_rhs' have 2 and 1 entries" },
    { "%x: f32[2, 2], %y: f32[2, 2]",
      "dot {batch_lhs = [0], batch_rhs = [0], contract_lhs = [0], contract_rhs = [1]} (%x, %y)",
      "dot: dim 0 of lhs is both a batch and a contracted dim" },
    { "%x: f32[]", "full {value = 0.5, dims = [2], dtype = i32}",
      "full: attribute 'value': expected an integer for dtype i32, found 0.5" },
    { "%x: f32[]", "full {value = -1, dims = [2], dtype = u32}",
      "full: attribute 'value': expected a value of dtype u32 (0..4294967295), found -1" },
    { "%x: f32[]", "full {value = 1, dims = [-2]}",
      "full: attribute 'dims': expected a size of at least 0, found -2" },
    { "%x: f32[]", "iota {dims = []}", "iota: attribute 'dim': expected a dim below the rank 0, found 0" },
    { "%x: f32[]", "iota {dims = [2], dtype = bool}",
      "iota: attribute 'dtype': expected a dtype of numbers, found bool" },
    { "%n: i32[]", "bind_dim(%n)", "bind_dim: operand 0: expected i64[], found i32[]" },
    { "%n: i64[]", "bind_dim {lo = 3, hi = 2} (%n)",
      "bind_dim: attributes 'lo' and 'hi': expected 0 <= lo <= hi, found 3 and 2" },
};

static void check_refusal(const struct refusal *r)
{
    struct hop_catch caught;
    char text[1024];
    int n = snprintf(text, sizeof text, "hop 1\nfn @f(%s) -> (f32[]) {\n  %%r = %s\n  return %%r\n}\n",
                     r->params, r->node);
    if (HOP_TRY(caught)) {
        module_free(text_read("t", text, (size_t)n));
        hop_catch_end(&caught);
        claim(r->node, "refused", "it was read without an error");
    } else {
        char wrong[2048];
        snprintf(wrong, sizeof wrong, "expected '%s', found '%s'", r->message, hop_message());
        claim(r->node, "refused",
              strstr(hop_message(), r->message) && !strncmp(hop_message(), "t:3:", 4) ? NULL : wrong);
    }
}

/* ---- results ---- */

struct example {
    const char *name, *text;    /* the function @f */
    const char *args, *results; /* separated by ';' */
};
static const struct example examples[] = {
    { "reshape", "fn @f(%x: i32[2, 3]) -> (i32[3, 2]) { %r = reshape {dims = [3, 2]} (%x) return %r }",
      "[[1, 2, 3], [4, 5, 6]]", "[[1, 2], [3, 4], [5, 6]]" },
    { "permute", "fn @f(%x: f32[2, 3]) -> (f32[3, 2]) { %r = permute {order = [1, 0]} (%x) return %r }",
      "[[1, 2, 3], [4, 5, 6]]", "[[1, 4], [2, 5], [3, 6]]" },
    { "permute of three",
      "fn @f(%x: i64[1, 2, 3]) -> (i64[3, 1, 2]) { %r = permute {order = [2, 0, 1]} (%x) return %r }",
      "[[[1, 2, 3], [4, 5, 6]]]", "[[[1, 4]], [[2, 5]], [[3, 6]]]" },
    { "broadcast",
      "fn @f(%x: bool[2]) -> (bool[2, 3]) { %r = broadcast {dims = [2, 3], at = [0]} (%x) return %r }",
      "[true, false]", "[[true, true, true], [false, false, false]]" },
    { "slice",
      "fn @f[T in 1..](%x: f32[T]) -> (f32[T - 1]) { %r = slice {start = [1], limit = [T]} (%x) return %r }",
      "[1, 2, 3]", "[2, 3]" },
    { "slice by steps",
      "fn @f(%x: i32[7]) -> (i32[2]) { %r = slice {start = [1], limit = [6], step = [3]} (%x) return %r }",
      "[0, 1, 2, 3, 4, 5, 6]", "[1, 4]" },
    { "slice_update",
      "fn @f(%x: i32[7], %u: i32[2]) -> (i32[7]) { %r = slice_update {start = [1], limit = [6], step = [3]} "
      "(%x, %u) return %r }",
      "[0, 1, 2, 3, 4, 5, 6]; [8, 9]", "[0, 8, 2, 3, 9, 5, 6]" },
    { "pad",
      "fn @f(%x: f64[2], %v: f64[]) -> (f64[8]) { %r = pad {low = [1], high = [3], interior = [2]} (%x, %v) "
      "return %r }",
      "[1, 2]; 9", "[9, 1, 9, 9, 2, 9, 9, 9]" },
    { "pad of nothing",
      "fn @f(%x: f32[0], %v: f32[]) -> (f32[2]) { %r = pad {low = [1], high = [1], interior = [3]} (%x, %v) "
      "return %r }",
      "[]; 9", "[9, 9]" },
    { "concat",
      "fn @f[T](%x: f32[2, T], %y: f32[2, 1]) -> (f32[2, T + 1]) { %r = concat {dim = 1} (%x, %y) return %r "
      "}",
      "[[1, 2], [3, 4]]; [[5], [6]]", "[[1, 2, 5], [3, 4, 6]]" },
    { "reverse", "fn @f(%x: u32[2, 3]) -> (u32[2, 3]) { %r = reverse {dims = [1]} (%x) return %r }",
      "[[1, 2, 3], [4, 5, 6]]", "[[3, 2, 1], [6, 5, 4]]" },
    { "dynamic_slice",
      "fn @f(%x: f32[4], %i: i64[]) -> (f32[2]) { %r = dynamic_slice {sizes = [2]} (%x, %i) return %r }",
      "[1, 2, 3, 4]; 1", "[2, 3]" },
    { "dynamic_slice clamped above",
      "fn @f(%x: f32[4], %i: i64[]) -> (f32[2]) { %r = dynamic_slice {sizes = [2]} (%x, %i) return %r }",
      "[1, 2, 3, 4]; 9", "[3, 4]" },
    { "dynamic_slice clamped below",
      "fn @f(%x: f32[4], %i: i64[]) -> (f32[2]) { %r = dynamic_slice {sizes = [2]} (%x, %i) return %r }",
      "[1, 2, 3, 4]; -9", "[1, 2]" },
    { "dynamic_update",
      "fn @f(%x: i32[2, 3], %u: i32[1, 2], %i: i64[], %j: i64[]) -> (i32[2, 3]) { %r = dynamic_update(%x, "
      "%u, %i, %j) return %r }",
      "[[1, 2, 3], [4, 5, 6]]; [[8, 9]]; 1; 7", "[[1, 2, 3], [4, 8, 9]]" },
    { "take", "fn @f(%x: f32[3], %i: i32[4]) -> (f32[4]) { %r = take(%x, %i) return %r }",
      "[1, 2, 3]; [2, -5, 0, 7]", "[3, 1, 1, 3]" },
    { "take in the middle",
      "fn @f(%x: i64[2, 2, 2], %i: i64[1, 2]) -> (i64[2, 1, 2, 2]) { %r = take {dim = 1} (%x, %i) return %r "
      "}",
      "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]; [[1, 0]]", "[[[[3, 4], [1, 2]]], [[[7, 8], [5, 6]]]]" },
    { "take from nothing", "fn @f(%x: f32[0, 2], %i: i32[2]) -> (f32[2, 2]) { %r = take(%x, %i) return %r }",
      "[]; [0, 1]", "[[0, 0], [0, 0]]" },
    { "scatter",
      "fn @f(%x: f32[3], %i: i32[5], %u: f32[5]) -> (f32[3]) { %r = scatter(%x, %i, %u) return %r }",
      "[1, 2, 3]; [2, 0, -1, 2, 3]; [10, 20, 30, 40, 50]", "[21, 2, 53]" },
    { "scatter in order",
      "fn @f(%x: f32[1], %i: i64[3], %u: f32[3]) -> (f32[1]) { %r = scatter(%x, %i, %u) return %r }",
      "[1e8]; [0, 0, 0]; [1, -1e8, 1]", "[1]" },
    { "scatter in the middle",
      "fn @f(%x: i32[2, 2, 1], %i: i64[2], %u: i32[2, 2, 1]) -> (i32[2, 2, 1]) { %r = scatter {dims = [1]} "
      "(%x, %i, %u) return %r }",
      "[[[1], [2]], [[3], [4]]]; [1, 1]; [[[10], [20]], [[30], [40]]]", "[[[1], [32]], [[3], [74]]]" },
    { "matmul", "fn @f(%x: f32[2, 3], %y: f32[3, 2]) -> (f32[2, 2]) { %r = matmul(%x, %y) return %r }",
      "[[1, 2, 3], [4, 5, 6]]; [[1, 2], [3, 4], [5, 6]]", "[[22, 28], [49, 64]]" },
    { "matmul of vectors", "fn @f(%x: i32[3], %y: i32[3]) -> (i32[]) { %r = matmul(%x, %y) return %r }",
      "[1, 2, 3]; [4, 5, 6]", "32" },
    { "matmul with a vector",
      "fn @f(%x: f64[2, 2], %y: f64[2]) -> (f64[2]) { %r = matmul(%x, %y) return %r }",
      "[[1, 2], [3, 4]]; [5, 6]", "[17, 39]" },
    { "matmul of a vector", "fn @f(%x: f64[2], %y: f64[2, 2]) -> (f64[2]) { %r = matmul(%x, %y) return %r }",
      "[5, 6]; [[1, 2], [3, 4]]", "[23, 34]" },
    { "matmul of batches",
      "fn @f(%x: i64[2, 1, 2], %y: i64[2, 2, 1]) -> (i64[2, 1, 1]) { %r = matmul(%x, %y) return %r }",
      "[[[1, 2]], [[3, 4]]]; [[[5], [6]], [[7], [8]]]", "[[[17]], [[53]]]" },
    { "matmul adds in order", "fn @f(%x: f32[3], %y: f32[3]) -> (f32[]) { %r = matmul(%x, %y) return %r }",
      "[1e8, 1, -1e8]; [1, 1, 1]", "0" },
    { "matmul over nothing",
      "fn @f(%x: f32[2, 0], %y: f32[0, 2]) -> (f32[2, 2]) { %r = matmul(%x, %y) return %r }", "[[], []]; []",
      "[[0, 0], [0, 0]]" },
    { "dot over two dims",
      "fn @f(%x: i32[2, 2, 2], %y: i32[2, 2]) -> (i32[2]) {\n"
      "  %r = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [2, 1], contract_rhs = [0, 1]} (%x, %y) "
      "return %r }",
      "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]; [[1, 10], [100, 1000]]", "[4231, 8675]" },
    { "dot without contraction",
      "fn @f(%x: i32[2], %y: i32[2]) -> (i32[2, 2]) {\n"
      "  %r = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [], contract_rhs = []} (%x, %y) return %r "
      "}",
      "[1, 2]; [3, 4]", "[[3, 4], [6, 8]]" },
    { "dot of batches",
      "fn @f(%x: i32[2, 3], %y: i32[3, 2]) -> (i32[3]) {\n"
      "  %r = dot {batch_lhs = [1], batch_rhs = [0], contract_lhs = [0], contract_rhs = [1]} (%x, %y) return "
      "%r }",
      "[[1, 2, 3], [4, 5, 6]]; [[1, 10], [1, 10], [1, 10]]", "[41, 52, 63]" },
    { "full",
      "fn @f[T](%n: f32[T]) -> (f32[T], bool[1], f64[]) { %a = full {value = 0.1, dims = [T]} %b = full "
      "{value = true, dims = [1], dtype = bool}\n"
      "  %c = full {value = -inf, dims = [], dtype = f64} return %a, %b, %c }",
      "[1, 2]", "[0.1, 0.1]; [true]; -inf" },
    { "iota",
      "fn @f() -> (i64[2, 3], f32[2, 2]) { %a = iota {dims = [2, 3], dim = 1} %b = iota {dims = [2, 2], "
      "dtype = f32} return %a, %b }",
      "", "[[0, 1, 2], [0, 1, 2]]; [[0, 0], [1, 1]]" },
    { "constant",
      "const @k: f32[2] = [1.5, nan]\nfn @f() -> (f32[2]) { %r = constant {value = @k} return %r }", "",
      "[1.5, nan]" },
    { "dim_value",
      "fn @f[A, B](%x: f32[A, B]) -> (i64[]) { %r = dim_value {dim = A*B + max(A, B)} return %r }",
      "[[1, 2], [3, 4], [5, 6]]", "9" },
    { "bind_dim",
      "fn @f(%n: i64[]) -> (i64[?k], i64[]) { %r: i64[?k] = bind_dim(%n) %m = dim_value {dim = 2*?k} return "
      "%r, %m }",
      "3", "[0, 1, 2]; 6" },
    { "bind_dim of nothing", "fn @f(%n: i64[]) -> (i64[?k]) { %r: i64[?k] = bind_dim(%n) return %r }", "0",
      "[]" },
    { "barrier", "fn @f(%x: f32[2], %i: i32[]) -> (i32[], f32[2]) { %a, %b = barrier(%x, %i) return %b, %a }",
      "[1, 2]; 3", "3; [1, 2]" },
    { "stop_gradient", "fn @f(%x: f32[2]) -> (f32[2]) { %r = stop_gradient(%x) return %r }", "[1, 2]",
      "[1, 2]" },
    { "a slice that may not fit",
      "fn @f[T](%x: f32[T]) -> (f32[2]) { %r = slice {start = [1], limit = [3]} (%x) return %r }",
      "[1, 2, 3]", "[2, 3]" },
};

static struct module *read_program(const char *text)
{
    char whole[2048];
    int n = snprintf(whole, sizeof whole, "hop 1\n%s\n", text);
    return text_read("t", whole, (size_t)n);
}

/* The pieces of "a; b; c", terminated, in the arena. */
static uint32_t pieces(struct arena *a, const char *text, const char **out)
{
    uint32_t n = 0;
    for (const char *at = text; *at;) {
        at += strspn(at, " ;");
        size_t length = strcspn(at, ";");
        if (length) out[n++] = arena_string(a, at, length);
        at += length;
    }
    return n;
}

static struct tensor **parse_args(struct bag *bag, struct module *m, const struct fn *f, const char *text)
{
    const char *parts[16];
    uint32_t n = pieces(&bag->arena, text, parts);
    struct tensor **args = ARENA_NEW(&bag->arena, struct tensor *, f->n_params);
    if (n != f->n_params) hop_throw(HOP_INVALID, "%u arguments are given, %u are taken", n, f->n_params);
    for (uint32_t p = 0; p < n; p++) {
        type_id t = value_type(f, p);
        args[p] = tensor_parse(bag, (enum dtype)type_get(m, t).dtype, parts[p], parts[p]);
        /* the text of an empty array does not say all its dims */
        if (!args[p]->count) args[p] = bag_new_of(bag, m, t);
    }
    return args;
}

static const char *printed_results(struct bag *bag, const struct outcome *o)
{
    struct text out = { .arena = &bag->arena };
    if (o->status) return o->message;
    for (uint32_t r = 0; r < o->n; r++) {
        if (r) text_str(&out, "; ");
        tensor_print(&out, o->results[r]);
    }
    return out.len ? out.data : "";
}

static const struct way strict = { .name = "compiled strict",
                                   .backend = &llvm_backend,
                                   .passes = { .strict = true } };
static const struct way bare = { .name = "compiled without passes",
                                 .backend = &llvm_backend,
                                 .passes = { .strict = true, .without = EVERY_SWITCH } };

static void run_example(const struct example *e, struct bag *bag)
{
    const struct way *backends[] = { &interpreter, &strict, &bare };
    struct module *m = read_program(e->text);
    hop_cleanup_push(module_free, m);
    uint32_t fn = module_find(m, "f");
    verify_fn(m, fn);
    struct tensor **args = parse_args(bag, m, module_fn(m, fn), e->args);
    for (uint32_t i = 0; i < (compiled ? HOP_COUNT(backends) : 1); i++) {
        struct outcome o;
        run_on(bag, m, fn, backends[i], args, NULL, &o);
        const char *found = printed_results(bag, &o);
        claim(e->name, backends[i]->name ? backends[i]->name : "interpreted",
              strcmp(found, e->results)
                  ? arena_printf(&bag->arena, "expected %s, found %s", e->results, found)
                  : NULL);
    }
    hop_cleanup_pop(m);
    module_free(m);
}

static void guarded(const char *name, void (*work)(const void *, struct bag *), const void *what)
{
    struct hop_catch caught;
    struct bag bag = { 0 };
    if (HOP_TRY(caught)) {
        hop_cleanup_push(bag_free, &bag);
        work(what, &bag);
        hop_cleanup_pop(&bag);
        bag_free(&bag);
        hop_catch_end(&caught);
    } else {
        claim(name, "runs", hop_message());
    }
}
static void example_work(const void *e, struct bag *bag) { run_example(e, bag); }

/* ---- batching and gradients ---- */

struct program {
    const char *name, *text;
    int64_t size;  /* of every symbol */
    double lo, hi; /* of integer arguments */
};
static const struct program programs[] = {
    { "dynamic_slice of one dim",
      "fn @f(%x: f64[5], %i: i64[]) -> (f64[2]) { %r = dynamic_slice {sizes = [2]} (%x, %i) return %r }", 0,
      -2, 6 },
    { "dynamic_slice of two dims",
      "fn @f[T](%x: f64[T, 5], %i: i64[], %j: i64[]) -> (f64[2, 3]) { %r = dynamic_slice {sizes = [2, 3]} "
      "(%x, %i, %j) return %r }",
      4, -1, 4 },
    { "dynamic_slice of rows",
      "fn @f[T](%x: f64[T, 2, 3], %i: i64[], %j: i64[], %k: i64[]) -> (f64[1, 2, 2]) {\n"
      "  %r = dynamic_slice {sizes = [1, 2, 2]} (%x, %i, %j, %k) return %r }",
      4, -1, 4 },
    { "dynamic_slice of nothing",
      "fn @f[T](%x: f64[T, 2], %i: i64[], %j: i64[]) -> (f64[T, 1]) { %r = dynamic_slice {sizes = [T, 1]} "
      "(%x, %i, %j) return %r }",
      0, 0, 2 },
    { "dynamic_update of one dim",
      "fn @f(%x: f64[5], %u: f64[2], %i: i64[]) -> (f64[5]) { %r = dynamic_update(%x, %u, %i) return %r }", 0,
      -2, 6 },
    { "dynamic_update of two dims",
      "fn @f[T](%x: f64[T, 4], %u: f64[2, 3], %i: i64[], %j: i64[]) -> (f64[T, 4]) { %r = dynamic_update(%x, "
      "%u, %i, %j) return %r }",
      4, -1, 4 },
    { "dynamic_update of a row",
      "fn @f[T in 1..](%x: f64[T, 3], %u: f64[1, 3], %i: i64[], %j: i64[]) -> (f64[T, 3]) { %r = "
      "dynamic_update(%x, %u, %i, %j) return %r }",
      3, -1, 4 },
    { "dynamic_update of a column",
      "fn @f(%x: f64[2, 3, 2], %u: f64[2, 1, 1], %i: i64[], %j: i64[], %k: i64[]) -> (f64[2, 3, 2]) {\n"
      "  %r = dynamic_update(%x, %u, %i, %j, %k) return %r }",
      0, -1, 4 },
    { "take", "fn @f[T](%x: f64[T], %i: i32[4]) -> (f64[4]) { %r = take(%x, %i) return %r }", 3, -1, 4 },
    { "take in the middle",
      "fn @f[T](%x: f64[2, T, 3], %i: i64[2, 2]) -> (f64[2, 2, 2, 3]) { %r = take {dim = 1} (%x, %i) return "
      "%r }",
      3, -1, 4 },
    { "take one", "fn @f[T](%x: f64[2, T], %i: i64[]) -> (f64[2]) { %r = take {dim = 1} (%x, %i) return %r }",
      3, -1, 4 },
    { "take from what may be nothing",
      "fn @f[T](%x: f64[T, 2], %i: i64[2]) -> (f64[2, 2]) { %r = take(%x, %i) return %r }", 0, -1, 4 },
    { "scatter",
      "fn @f[T](%x: f64[T], %i: i32[5], %u: f64[5]) -> (f64[T]) { %r = scatter(%x, %i, %u) return %r }", 3,
      -1, 4 },
    { "scatter in the middle",
      "fn @f[T](%x: f64[2, T, 2], %i: i64[2, 2], %u: f64[2, 2, 2, 2]) -> (f64[2, T, 2]) { %r = scatter {dims "
      "= [1]} (%x, %i, %u) return %r }",
      3, -1, 4 },
    { "scatter one",
      "fn @f[T](%x: f64[2, T], %i: i64[], %u: f64[2]) -> (f64[2, T]) { %r = scatter {dims = [1]} (%x, %i, "
      "%u) return %r }",
      3, -1, 4 },
    { "dot",
      "fn @f[T](%x: f64[2, T, 3, 2], %y: f64[T, 2, 2]) -> (f64[2, 3]) {\n"
      "  %r = dot {batch_lhs = [3], batch_rhs = [1], contract_lhs = [1, 0], contract_rhs = [0, 2]} (%x, %y) "
      "return %r }",
      3, 0, 1 },
    { "dot with free dims on both sides",
      "fn @f(%x: f64[2, 3, 2], %y: f64[4, 2, 2]) -> (f64[2, 3, 4]) {\n"
      "  %r = dot {batch_lhs = [2], batch_rhs = [1], contract_lhs = [0], contract_rhs = [2]} (%x, %y) return "
      "%r }",
      0, 0, 1 },
    { "matmul with equal leading dims",
      "fn @f[T](%x: f64[T, 2, 3], %y: f64[T, 3, 2]) -> (f64[T, 2, 2]) { %r = matmul(%x, %y) return %r }", 2,
      0, 1 },
    { "matmul with a matrix",
      "fn @f[T](%x: f64[T, 2, 3], %y: f64[3, 2]) -> (f64[T, 2, 2]) { %r = matmul(%x, %y) return %r }", 2, 0,
      1 },
    { "matmul of a vector",
      "fn @f[T](%x: f64[T], %y: f64[T, 2]) -> (f64[2]) { %r = matmul(%x, %y) return %r }", 3, 0, 1 },
    { "pad with gaps",
      "fn @f[T](%x: f64[T, 2], %v: f64[]) -> (f64[T + 3 + 2*max(T - 1, 0), 3]) {\n"
      "  %r = pad {low = [1, 0], high = [2, 1], interior = [2, 0]} (%x, %v) return %r }",
      3, 0, 1 },
    { "pad of nothing with gaps",
      "fn @f[T](%x: f64[T, 2], %v: f64[]) -> (f64[T + 3 + 2*max(T - 1, 0), 3]) {\n"
      "  %r = pad {low = [1, 0], high = [2, 1], interior = [2, 0]} (%x, %v) return %r }",
      0, 0, 1 },
    { "slice by steps",
      "fn @f[T](%x: f64[T, 5]) -> (f64[(T + 1) // 2, 2]) { %r = slice {start = [0, 1], limit = [T, 5], step "
      "= [2, 3]} (%x) return %r }",
      5, 0, 1 },
    { "concat",
      "fn @f[T](%x: f64[2, T], %y: f64[2, 2]) -> (f64[2, 2*T + 2]) { %r = concat {dim = 1} (%x, %y, %x) "
      "return %r }",
      3, 0, 1 },
    { "concat of shifted rows",
      "fn @f[T in 1..](%x: f64[T, 3], %y: f64[1, 3]) -> (f64[T, 3]) {\n"
      "  %s = slice {start = [1, 0], limit = [T, 3]} (%x) %r = concat {dim = 0} (%s, %y) return %r }",
      3, 0, 1 },
    { "pad of shifted rows",
      "fn @f[T in 1..](%x: f64[T, 3], %v: f64[]) -> (f64[T, 3]) {\n"
      "  %s = slice {start = [1, 0], limit = [T, 3]} (%x) %r = pad {low = [1, 0], high = [0, 0]} (%s, %v) "
      "return %r }",
      3, 0, 1 },
    { "take of shifted rows",
      "fn @f[T in 1..](%x: f64[T, 3], %i: i64[2]) -> (f64[2, 3]) {\n"
      "  %s = slice {start = [1, 0], limit = [T, 3]} (%x) %r = take(%s, %i) return %r }",
      3, -1, 4 },
    { "dynamic_update by shifted rows",
      "fn @f[T in 1..](%x: f64[T, 3], %i: i64[]) -> (f64[T, 3]) {\n"
      "  %s = slice {start = [1, 0], limit = [T, 3]} (%x) %r = dynamic_update(%x, %s, %i, %i) return %r }",
      3, -1, 4 },
    { "broadcast",
      "fn @f[T](%x: f64[T]) -> (f64[2, T, 2]) { %r = broadcast {dims = [2, T, 2], at = [1]} (%x) return %r }",
      3, 0, 1 },
    { "reshape",
      "fn @f[T](%x: f64[T, 6]) -> (f64[2, T, 3]) { %r = reshape {dims = [2, T, 3]} (%x) return %r }", 2, 0,
      1 },
    { "permute and reverse",
      "fn @f[T](%x: f64[T, 2, 3]) -> (f64[3, T, 2]) { %p = permute {order = [2, 0, 1]} (%x) %r = reverse "
      "{dims = [0, 2]} (%p) return %r }",
      2, 0, 1 },
};

/* The loop program of a function run with every access checked, against the interpreter; NULL or what is
 * wrong. */
static const char *run_checked(struct bag *bag, struct module *m, uint32_t fn, struct tensor *const *args,
                               const struct outcome *reference)
{
    static const struct bound bits = { BOUND_BITS, 0 };
    struct compile_options options = { .passes = { .strict = true, .without = 1u << CHOICE_blas },
                                       .backend = &executor_backend };
    struct hop_catch caught;
    const char *volatile wrong = NULL;
    uint32_t n = module_fn(m, fn)->n_results;
    struct tensor **results = ARENA_ZNEW(&bag->arena, struct tensor *, n);
    if (HOP_TRY(caught)) {
        struct exe *exe = exe_compile(m, fn, &options, NULL);
        hop_cleanup_push(exe_free, exe);
        exe_run(exe, args, NULL, results, &(struct exe_call){ 0 });
        hop_cleanup_pop(exe);
        exe_free(exe);
        for (uint32_t r = 0; r < n; r++) bag_keep(bag, results[r]);
        for (uint32_t r = 0; r < n && !wrong; r++)
            wrong = tensor_difference(&bag->arena, results[r], reference->results[r], bits);
        hop_catch_end(&caught);
    } else wrong = arena_string(&bag->arena, hop_message(), strlen(hop_message()));
    return wrong;
}

static struct tensor **draw(struct bag *bag, struct module *m, const struct fn *f, const struct program *p,
                            uint64_t seed)
{
    struct tensor **args = ARENA_NEW(&bag->arena, struct tensor *, f->n_params);
    struct random random = { seed };
    int64_t symbols[8], dims[MAX_RANK];
    for (uint32_t i = 0; i < HOP_COUNT(symbols); i++) symbols[i] = p->size;
    for (uint32_t k = 0; k < f->n_params; k++) {
        struct type t = type_get(m, value_type(f, k));
        for (uint32_t d = 0; d < t.rank; d++) dims[d] = dim_eval(m, t.dims[d], symbols);
        args[k] = bag_new(bag, (enum dtype)t.dtype, t.rank, dims);
        tensor_random(args[k], &random, dtype_is_float((enum dtype)t.dtype) ? -2 : p->lo,
                      dtype_is_float((enum dtype)t.dtype) ? 2 : p->hi);
    }
    return args;
}

/* Every choice of batched parameters against a loop; then the gradient of the function, of its pullback, and
 * of the function with everything batched. */
static void program_work(const void *what, struct bag *bag)
{
    enum { LANES = 4 };
    const struct program *p = what;
    struct module *m = read_program(p->text);
    hop_cleanup_push(module_free, m);
    uint32_t fn = module_find(m, "f");
    const struct fn *f = module_fn(m, fn);
    struct claim c = { .bag = bag, .m = m, .fn = fn, .seed = 7, .compiled = compiled };
    bool *batched = ARENA_ZNEW(&bag->arena, bool, f->n_params), *wrt = param_mask(&bag->arena, m, f, NULL);
    for (uint32_t subset = 1; subset < 1u << f->n_params; subset++) {
        struct tensor **lanes[LANES];
        for (uint32_t k = 0; k < f->n_params; k++) batched[k] = subset >> k & 1;
        for (uint32_t l = 0; l < LANES; l++) {
            lanes[l] = draw(bag, m, f, p, 10 + l);
            for (uint32_t k = 0; l && k < f->n_params; k++)
                if (!batched[k]) lanes[l][k] = lanes[0][k];
        }
        c.args = lanes[0];
        claim(p->name, arena_printf(&bag->arena, "batched over %#x", subset),
              claim_batch(&c, batched, LANES, (struct tensor *const *const *)lanes));
    }
    c.args = draw(bag, m, f, p, 3);
    claim(p->name, "gradient", claim_gradient(&c, wrt));
    c.fn = vjp_function(m, fn, wrt);
    c.args = draw(bag, m, module_fn(m, c.fn), p, 4);
    claim(p->name, "gradient of the pullback",
          claim_gradient(&c, param_mask(&bag->arena, m, module_fn(m, c.fn), NULL)));
    int *in_axes = ARENA_ZNEW(&bag->arena, int, f->n_params),
        *out_axes = ARENA_ZNEW(&bag->arena, int, f->n_results);
    c.fn = vmap_function(m, fn, in_axes, out_axes); /* its batch size is its last outer symbol */
    f = module_fn(m, c.fn);
    struct program wide = *p;
    if (!f->n_outer_symbols || wide.size == 0) wide.size = f->n_outer_symbols > 1 ? 0 : 3;
    c.args = draw(bag, m, f, &wide, 5);
    claim(p->name, "gradient of the batched function", claim_gradient(&c, wrt));
    hop_cleanup_pop(m);
    module_free(m);
}

/* The function, batched over everything, and its pullback, at small sizes. */
static void checked_work(const void *what, struct bag *bag)
{
    struct program p = *(const struct program *)what;
    const int64_t sizes[] = { 0, 1, 2, p.size };
    struct module *m = read_program(p.text);
    hop_cleanup_push(module_free, m);
    uint32_t fns[3] = { module_find(m, "f") }, n_runs = 0;
    const struct fn *f = module_fn(m, fns[0]);
    fns[1] = vmap_function(m, fns[0], ARENA_ZNEW(&bag->arena, int, f->n_params),
                           ARENA_ZNEW(&bag->arena, int, f->n_results));
    fns[2] = vjp_function(m, fns[0], param_mask(&bag->arena, m, f, NULL));
    for (uint32_t i = 0; i < HOP_COUNT(fns); i++)
        for (uint32_t k = 0; k < HOP_COUNT(sizes); k++) {
            struct outcome o;
            p.size = sizes[k];
            struct tensor **args = draw(bag, m, module_fn(m, fns[i]), &p, 11);
            if (!run_on(bag, m, fns[i], &interpreter, args, NULL, &o)) continue; /* the sizes do not fit */
            claim(p.name,
                  arena_printf(&bag->arena, "checked, %s at size %lld",
                               i == 0   ? "itself"
                               : i == 1 ? "batched"
                                        : "pullback",
                               (long long)sizes[k]),
                  run_checked(bag, m, fns[i], args, &o));
            n_runs++;
        }
    claim(p.name, "checked", n_runs ? NULL : "it ran at no size");
    hop_cleanup_pop(m);
    module_free(m);
}

/* Next to an empty array with large rows: reading where it would be is an access far outside. */
static void empty_work(const void *unused, struct bag *bag)
{
    (void)unused;
    struct module *m = read_program(
        "fn @f[T](%x: f32[T, 3000000], %y: f32[1, 3000000]) -> (f32[]) {\n  %c = concat {dim = 0} (%x, %y)\n"
        "  %r = sum(%c)\n  return %r\n}");
    hop_cleanup_push(module_free, m);
    struct tensor *args[2] = { bag_new(bag, DT_F32, 2, (int64_t[]){ 0, 3000000 }),
                               bag_new(bag, DT_F32, 2, (int64_t[]){ 1, 3000000 }) };
    struct outcome o;
    tensor_set(args[1], 5, 2);
    if (compiled) {
        run_on(bag, m, module_find(m, "f"), &strict, args, NULL, &o);
        claim("concat", "with an empty array",
              !o.status && tensor_get(o.results[0], 0) == 2 ? NULL
              : o.status                                    ? o.message
                                                            : "another sum");
    }
    hop_cleanup_pop(m);
    module_free(m);
}

/* ---- effects ---- */

static void effects_work(const void *unused, struct bag *bag)
{
    (void)unused;
    struct module *m = read_program(
        "fn @f(%p: bool[2], %x: f32[2]) -> (f32[2]) {\n  check {message = \"both hold\"} (%p, %x)\n"
        "  print {format = \"x is {}\"} (%x)\n  return %x\n}");
    hop_cleanup_push(module_free, m);
    uint32_t fn = module_find(m, "f");
    struct outcome o;
    struct tensor **args = parse_args(bag, m, module_fn(m, fn), "[true, true]; [1, 2.5]");
    for (int i = 0; i < 1 + compiled; i++) {
        const struct way *how = i ? &strict : &interpreter;
        run_on(bag, m, fn, how, args, NULL, &o);
        claim("print", "its line",
              !o.status && o.printed.len && !strcmp(o.printed.data, "x is [1, 2.5]\n") ? NULL
              : o.status                                                               ? o.message
                                                                                       : "another line");
    }
    args[0] = tensor_parse(bag, DT_BOOL, "[true, false]", "p");
    for (int i = 0; i < 1 + compiled; i++) {
        run_on(bag, m, fn, i ? &strict : &interpreter, args, NULL, &o);
        claim("check", "its status", o.status == HOP_CHECK ? NULL : "another status");
        claim("check", "its message",
              o.status && !strcmp(o.message, "t:3:3: check: both hold ([1, 2.5])") ? NULL
              : o.status                                                           ? o.message
                                                                                   : "it did not fail");
    }

    /* Lanes 0 and 2 run: they print, in order; a failing check in lane 1 does not matter, in lane 2 it does.
     */
    bool batched[2] = { true, true }, result_batched[1];
    uint32_t lanes = batch_function(m, fn, batched, dim_const(m, 3), NULL, true, result_batched);
    struct tensor *masked[3] = { tensor_parse(bag, DT_BOOL, "[true, false, true]", "lanes"),
                                 tensor_parse(bag, DT_BOOL, "[[true, true], [true, false], [true, true]]",
                                              "p"),
                                 tensor_parse(bag, DT_F32, "[[1, 2], [3, 4], [5, 6]]", "x") };
    for (int i = 0; i < 1 + compiled; i++) {
        run_on(bag, m, lanes, i ? &strict : &interpreter, masked, NULL, &o);
        claim("print", "by lanes",
              !o.status && o.printed.len && !strcmp(o.printed.data, "x is [1, 2]\nx is [5, 6]\n") ? NULL
              : o.status                                                                          ? o.message
              : o.printed.len ? o.printed.data
                              : "nothing");
    }
    masked[0] = tensor_parse(bag, DT_BOOL, "[true, true, true]", "lanes");
    run_on(bag, m, lanes, &interpreter, masked, NULL, &o);
    claim("check", "by lanes", o.status == HOP_CHECK ? NULL : "a lane that runs and fails must end the run");
    hop_cleanup_pop(m);
    module_free(m);
}

static void bind_dim_work(const void *unused, struct bag *bag)
{
    (void)unused;
    struct module *m = read_program(
        "fn @f(%n: i64[]) -> (i64[?k]) {\n  %r: i64[?k] = bind_dim {lo = 1, hi = 4} (%n)\n  return %r\n}");
    hop_cleanup_push(module_free, m);
    uint32_t fn = module_find(m, "f");
    struct outcome o;
    struct tensor **args = parse_args(bag, m, module_fn(m, fn), "5");
    for (int i = 0; i < 1 + compiled; i++) {
        run_on(bag, m, fn, i ? &strict : &interpreter, args, NULL, &o);
        claim("bind_dim", "out of range",
              o.status == HOP_CHECK && strstr(o.message, bind_dim_message) && strstr(o.message, "(5)") ? NULL
              : o.status ? o.message
                         : "it ran");
    }
    struct hop_catch caught;
    if (HOP_TRY(caught)) {
        vmap_function(m, fn, (int[]){ 0 }, (int[]){ 0 });
        hop_catch_end(&caught);
        claim("bind_dim", "batched", "it was batched");
    } else
        claim("bind_dim", "batched",
              strstr(hop_message(), "differs from lane to lane") ? NULL : hop_message());
    hop_cleanup_pop(m);
    module_free(m);
}

int main(void)
{
    compiled = exe_available();
    if (!compiled) printf("nothing is compiled: %s\n", hop_message());
    for (uint32_t i = 0; i < HOP_COUNT(refusals); i++) check_refusal(&refusals[i]);
    for (uint32_t i = 0; i < HOP_COUNT(examples); i++) guarded(examples[i].name, example_work, &examples[i]);
    for (uint32_t i = 0; i < HOP_COUNT(programs); i++) guarded(programs[i].name, program_work, &programs[i]);
    for (uint32_t i = 0; i < HOP_COUNT(programs); i++) guarded(programs[i].name, checked_work, &programs[i]);
    guarded("an empty array", empty_work, NULL);
    guarded("effects", effects_work, NULL);
    guarded("bind_dim", bind_dim_work, NULL);
    printf("%u passed, %u failed\n", passed, failed);
    return failed ? 1 : 0;
}
