/* Values written straight into their part of a concat, runs of elements read where they lie, results of
 * branches that nobody reads: each program is lowered, the elements that one run writes to memory are counted
 * (loops that run a known number of times, copies, products), and the loop program, with every access
 * checked, must give the interpreter's bits. Programs have static sizes, beyond those that live on the stack.
 */
#include "check.h"
#include "interp/interp.h"
#include "ir/text.h"
#include "loop/lower.h"
#include "runtime/exe.h"
#include "transform/transform.h"

enum { T = 48, W = 64, ROWS = T * W, STEPS = 3071 };

struct program {
    const char *name;
    bool grad;       /* of the first result, by the last parameter */
    int64_t written; /* elements: results, and what has to be kept besides */
    uint32_t copies, placed;
    const char *text;
};

#define SUMS \
    "  %last, %hs = scan carry(%h = %h0) over(%x in %xs) {\n" \
    "    %n = add(%h, %x)\n" \
    "    next(%n) stack(%n)\n" \
    "  }\n"

#define PLACES \
    "  %from = full {value = 1, dims = [], dtype = i64}\n  %to = full {value = 3072, dims = [], dtype = " \
    "i64}\n" \
    "  %r = fori_loop carry"
#define WRITES \
    "(%y = %xs) from(%i = %from) to(%to) with(%xs) {\n" \
    "    %one = full {value = 1, dims = [], dtype = i64}\n    %before = sub(%i, %one)\n" \
    "    %a = gather(%y, %before)\n    %b = gather(%xs, %i)\n    %n = mul(%a, %b)\n" \
    "    %z = scatter {mode = set} (%y, %i, %n)\n    next(%z)\n  }\n"

static const struct program programs[] = {
    { "a stack and a row in front", false, W + ROWS, 0, 2,
      "fn @f(%h0: f32[64], %xs: f32[48, 64]) -> (f32[49, 64]) {\n" SUMS
      "  %row = reshape {dims = [1, 64]} (%h0)\n  %all = concat {dim = 0} (%row, %hs)\n  return %all\n}\n" },
    { "the stack is read elsewhere, too", false, W + ROWS + ROWS, 0, 2,
      "fn @f(%h0: f32[64], %xs: f32[48, 64]) -> (f32[49, 64], f32[48, 64]) {\n" SUMS
      "  %row = reshape {dims = [1, 64]} (%h0)\n  %all = concat {dim = 0} (%row, %hs)\n  %d = sub(%hs, "
      "%xs)\n  return %all, %d\n}\n" },
    { "the stack is a result, too, and written twice", false, W + 2 * ROWS, 0, 0,
      "fn @f(%h0: f32[64], %xs: f32[48, 64]) -> (f32[49, 64], f32[48, 64]) {\n" SUMS
      "  %row = reshape {dims = [1, 64]} (%h0)\n  %all = concat {dim = 0} (%row, %hs)\n  return %all, "
      "%hs\n}\n" },
    { "a shifted stack, sliced behind the concat", false, W + ROWS + ROWS, 0, 3,
      "fn @f(%h0: f32[64], %xs: f32[48, 64]) -> (f32[48, 64]) {\n" SUMS
      "  %row = reshape {dims = [1, 64]} (%h0)\n  %all = concat {dim = 0} (%row, %hs)\n"
      "  %before = slice {start = [0, 0], limit = [48, 64]} (%all)\n  %d = sub(%hs, %before)\n  return "
      "%d\n}\n" },
    { "a shifted stack, sliced in front of it", false, W + ROWS + ROWS, 0, 3,
      "fn @f(%h0: f32[64], %xs: f32[48, 64]) -> (f32[48, 64]) {\n" SUMS
      "  %row = reshape {dims = [1, 64]} (%h0)\n  %most = slice {start = [0, 0], limit = [47, 64]} (%hs)\n"
      "  %before = concat {dim = 0} (%row, %most)\n  %d = sub(%hs, %before)\n  return %d\n}\n" },
    { "shifted the other way", false, W + ROWS + ROWS, 0, 3,
      "fn @f(%h0: f32[64], %xs: f32[48, 64]) -> (f32[48, 64]) {\n" SUMS
      "  %row = reshape {dims = [1, 64]} (%h0)\n  %most = slice {start = [1, 0], limit = [48, 64]} (%hs)\n"
      "  %after = concat {dim = 0} (%most, %row)\n  %d = sub(%hs, %after)\n  return %d\n}\n" },
    { "a concat in a concat, a part that stands there twice", false, 3 * ROWS + W, 0, 3,
      "fn @f(%h0: f32[64], %xs: f32[48, 64]) -> (f32[145, 64]) {\n" SUMS
      "  %row = reshape {dims = [1, 64]} (%h0)\n  %a = concat {dim = 0} (%row, %hs)\n  %neg = neg(%xs)\n"
      "  %all = concat {dim = 0} (%neg, %a, %hs)\n  return %all\n}\n" },
    { "a product, a branch, an elementwise value and an argument", false, 5 * ROWS, 1, 3,
      "fn @f(%h0: f32[64], %xs: f32[48, 64], %w: f32[64, 64], %p: bool[]) -> (f32[192, 64]) {\n"
      "  %m = matmul(%xs, %w)\n"
      "  %s = switch(%p) [(%xs) {\n    %n = neg(%xs)\n    yield(%n)\n  }, (%xs) {\n    %n = exp(%xs)\n    "
      "yield(%n)\n  }]\n"
      "  %d = add(%xs, %xs)\n  %all = concat {dim = 0} (%m, %s, %xs, %d)\n  return %all\n}\n" },
    { "rows of a matrix, reshaped on their way", false, 2 * ROWS, 0, 4,
      "fn @f(%h0: f32[64], %xs: f32[48, 64], %w: f32[64, 64]) -> (f32[2, 3072]) {\n" SUMS
      "  %m = matmul(%xs, %w)\n  %a = reshape {dims = [1, 3072]} (%hs)\n  %b = reshape {dims = [1, 3072]} "
      "(%m)\n"
      "  %all = concat {dim = 0} (%a, %b)\n  return %all\n}\n" },
    { "a run of a stack, read by a product where it lies", false, ROWS + W *W, 0, 2,
      "fn @f(%h0: f32[64], %xs: f32[48, 64]) -> (f32[64, 64]) {\n" SUMS
      "  %a = slice {start = [1, 0], limit = [48, 64]} (%hs)\n  %b = slice {start = [0, 0], limit = [47, "
      "64]} (%hs)\n"
      "  %g = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [0], contract_rhs = [0]} (%a, %b)\n  "
      "return %g\n}\n" },
    { "a few places of a carry that is too large to be moved", false, ROWS + T * 8, 0, 0,
      "fn @f(%x: f32[3072], %is: i64[48, 8], %us: f32[48, 8]) -> (f32[3072]) {\n"
      "  %r = scan carry(%c = %x) over(%i in %is, %u in %us) {\n    %y = scatter(%c, %i, %u)\n    next(%y)\n"
      "  }\n  return %r\n}\n" },
    { "in a loop, as the next value of a carry that the parts do not read", false, ROWS + W + 3 * (ROWS + W),
      0, 2,
      "fn @f(%h0: f32[64], %xs: f32[48, 64], %c0: f32[49, 64]) -> (f32[49, 64]) {\n"
      "  %from = full {value = 0, dims = [], dtype = i64}\n  %to = full {value = 3, dims = [], dtype = i64}\n"
      "  %r = fori_loop carry(%c = %c0) from(%i = %from) to(%to) with(%h0, %xs) {\n"
      "    %k = cast {dtype = f32} (%i)\n    %b = broadcast {dims = [64], at = []} (%k)\n    %init = "
      "add(%h0, %b)\n"
      "    %last, %hs = scan carry(%h = %init) over(%x in %xs) {\n      %n = add(%h, %x)\n      next(%n) "
      "stack(%n)\n    }\n"
      "    %row = reshape {dims = [1, 64]} (%init)\n    %all = concat {dim = 0} (%row, %hs)\n    "
      "next(%all)\n  }\n  return %r\n}\n" },
    { "columns of products, folds and elementwise values", false, 3 * ROWS, 0, 3,
      "fn @f(%h0: f32[64], %xs: f32[48, 64], %w: f32[64, 64]) -> (f32[48, 192]) {\n"
      "  %m = matmul(%xs, %w)\n  %e = exp(%xs)\n  %b = broadcast {dims = [48, 64, 64], at = [0, 1]} (%xs)\n"
      "  %v = broadcast {dims = [48, 64, 64], at = [1, 2]} (%w)\n  %p = mul(%b, %v)\n  %s = sum {dims = [1]} "
      "(%p)\n"
      "  %all = concat {dim = 1} (%m, %e, %s)\n  return %all\n}\n" },
    { "columns of which one is an argument: one nest for all", false, 3 * ROWS, 0, 0,
      "fn @f(%h0: f32[64], %xs: f32[48, 64], %w: f32[64, 64]) -> (f32[48, 128]) {\n"
      "  %m = matmul(%xs, %w)\n  %all = concat {dim = 1} (%xs, %m)\n  return %all\n}\n" },
    { "columns of a product that is read elsewhere, too", false, 4 * ROWS, 0, 2,
      "fn @f(%h0: f32[64], %xs: f32[48, 64], %w: f32[64, 64]) -> (f32[48, 128], f32[48, 64]) {\n"
      "  %m = matmul(%xs, %w)\n  %e = add(%xs, %xs)\n  %all = concat {dim = 1} (%e, %m)\n  %d = sub(%m, "
      "%xs)\n  return %all, %d\n}\n" },
    { "a batch of products between other matrices", false, 6 * 12 * W, 0, 3,
      "fn @f(%x: f32[2, 12, 64], %w: f32[2, 64, 64], %v: f32[2, 64, 64]) -> (f32[2, 36, 64]) {\n"
      "  %m = matmul(%x, %w)\n  %n = matmul(%x, %v)\n  %e = exp(%x)\n  %all = concat {dim = 1} (%m, %e, "
      "%n)\n  return %all\n}\n" },
    { "the gradient of steps that may be skipped: what the other branch saves is not written then", true,
      2 * ROWS + W, 1, 0,
      "fn @f(%ps: bool[48], %w: f32[64], %h0: f32[64]) -> (f32[]) {\n"
      "  %last = scan carry(%h = %h0) over(%p in %ps) with(%w) {\n"
      "    %y = switch(%p) [(%h) {\n      yield(%h)\n    }, (%h, %w) {\n"
      "      %a = mul(%h, %w)\n      %b = tanh(%a)\n      %c = exp(%b)\n      %d = sin(%c)\n      "
      "yield(%d)\n    }]\n    next(%y)\n  }\n"
      "  %s = sum(%last)\n  return %s\n}\n" },
    { "the gradient of a recurrent network: states, products with the input and with the weights, and their "
      "cotangents",
      true, W + 3 * ROWS + 2 * W *W, 0, 3,
      "fn @f(%h0: f32[64], %xs: f32[48, 64], %u: f32[64, 64], %w: f32[64, 64]) -> (f32[]) {\n"
      "  %last, %hs = scan carry(%h = %h0) over(%x in %xs) with(%w, %u) {\n"
      "    %hw = matmul(%h, %w)\n    %xu = matmul(%x, %u)\n    %s = add(%hw, %xu)\n    %n = tanh(%s)\n    "
      "next(%n) stack(%n)\n  }\n"
      "  %total = sum(%hs)\n  return %total\n}\n" },
    /* Loops that read or write an array at one place a step touch that place alone, backwards, too. */
    { "the gradient of a loop that reads two elements a step", true, 3072 + 5 * STEPS, 0, 0,
      "fn @f(%h0: f32[], %xs: f32[3072]) -> (f32[]) {\n" PLACES
      "(%h = %h0) from(%i = %from) to(%to) with(%xs) {\n"
      "    %one = full {value = 1, dims = [], dtype = i64}\n    %before = sub(%i, %one)\n"
      "    %a = gather(%xs, %i)\n    %b = gather(%xs, %before)\n    %p = mul(%a, %b)\n    %q = mul(%p, %h)\n"
      "    %n = sin(%q)\n    next(%n)\n  }\n  return %r\n}\n" },
    { "the gradient of a loop that reads overlapping windows", true, 3080 + 7 * STEPS, 0, 0,
      "fn @f(%h0: f32[], %xs: f32[3080]) -> (f32[]) {\n" PLACES
      "(%h = %h0) from(%i = %from) to(%to) with(%xs) {\n"
      "    %w = dynamic_slice {sizes = [5]} (%xs, %i)\n    %s = sum(%w)\n    %q = mul(%s, %h)\n"
      "    %n = sin(%q)\n    next(%n)\n  }\n  return %r\n}\n" },
    { "a loop that writes an element a step, of the one before", false, 3072 + STEPS, 0, 0,
      "fn @f(%xs: f32[3072]) -> (f32[3072]) {\n" PLACES WRITES "  return %r\n}\n" },
    { "its gradient", true, 3 * 3072 + 7 * STEPS + 1, 0, 0,
      "fn @f(%xs: f32[3072]) -> (f32[]) {\n" PLACES WRITES "  %s = sum(%r)\n  return %s\n}\n" },
};

/* ---- counting ---- */

static bool in_memory(const struct lp *p, uint32_t buffer)
{
    return p->buffers.data[buffer].kind != BUF_LOCAL;
}

static int64_t known(const struct lp *p, lpv v)
{
    int64_t n;
    if (lp_is_const(p, v, &n)) return n;
    hop_throw(HOP_INTERNAL, "a loop or a copy of unknown length");
}

/* Elements that a block writes to memory, in all of its branches. */
static int64_t written(const struct lp *p, const struct lp_block *block)
{
    int64_t sum = 0;
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        const struct lp_call *c = s->call;
        if (s->kind == LP_STORE) sum += in_memory(p, s->target);
        else if (s->kind == LP_FOR) {
            int64_t inside = written(p, s->body);
            if (inside) sum += inside * (known(p, s->hi) - known(p, s->lo));
        } else if (s->kind == LP_IF) sum += written(p, s->body) + written(p, s->other);
        else if (s->kind == LP_CALL && (c->kind == CALL_COPY || c->kind == CALL_ZERO))
            sum += in_memory(p, c->target) ? known(p, c->count) : 0;
        else if (s->kind == LP_CALL && c->kind == CALL_GEMM)
            sum += known(p, c->gemm.m) * known(p, c->gemm.n) *
                   (c->gemm.batch == LPV_NONE ? 1 : known(p, c->gemm.batch));
    }
    return sum;
}

/* ---- running ---- */

static struct tensor *numbers(struct module *m, type_id type)
{
    struct type t = type_get(m, type);
    int64_t dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = dim_const_value(m, t.dims[i]);
    struct tensor *x = tensor_new((enum dtype)t.dtype, t.rank, dims);
    for (int64_t i = 0; i < x->count; i++)
        if (t.dtype == DT_BOOL) ((uint8_t *)x->data)[i] = 1;
        else ((float *)x->data)[i] = (float)((i * 37 + 11) % 101 - 50) / 256;
    return x;
}

static void same_bits(const struct program *p, struct module *m, uint32_t fn, const struct compile_options *o)
{
    const struct fn *f = module_fn(m, fn);
    struct tensor *args[8], *want[4] = { 0 }, *have[4] = { 0 };
    struct interp in = { .m = m };
    for (uint32_t i = 0; i < f->n_params; i++) args[i] = numbers(m, value_type(f, i));
    struct exe *e = exe_compile(m, fn, o, NULL);
    interp_run(&in, fn, args, NULL, want);
    exe_run(e, args, NULL, have, NULL);
    for (uint32_t r = 0; r < f->n_results; r++) {
        CLAIM(have[r]->count == want[r]->count &&
                  !memcmp(have[r]->data, want[r]->data, (size_t)want[r]->count * sizeof(float)),
              "%s: result %u is not the interpreter's", p->name, r);
        tensor_free(have[r]);
        tensor_free(want[r]);
    }
    for (uint32_t i = 0; i < f->n_params; i++) tensor_free(args[i]);
    exe_free(e);
}

static void check(void *ctx)
{
    const struct program *p = ctx;
    char text[4096];
    int n = snprintf(text, sizeof text, "hop 1\n%s", p->text);
    struct module *m = text_read(p->name, text, (size_t)n);
    hop_cleanup_push(module_free, m);
    uint32_t fn = module_find(m, "f");
    if (p->grad) {
        const struct fn *f = module_fn(m, fn);
        bool wrt[8] = { 0 };
        wrt[f->n_params - 1] = true;
        fn = grad_function(m, fn, wrt, false);
    }
    struct compile_options o = { .passes.strict = true, .backend = &executor_backend, .threads = 1 }, own = o;
    own.passes.without = 1u << CHOICE_inplace;
    same_bits(p, m, fn, &o);
    same_bits(p, m, fn, &own);
    o.passes.strict = !p->grad; /* in default mode weight gradients become one product */
    uint32_t simple = simplify(m, fn, &o.passes);
    struct lp *l = lower_function(m, simple, &o.passes, NULL);
    hop_cleanup_push(lp_free, l);
    int64_t count = written(l, l->root);
    uint32_t copies = 0;
    for (uint32_t i = 0; i < l->copy_notes.len; i++)
        copies += strstr(l->copy_notes.data[i], "carry") ==
                  NULL; /* those of small carries stay in registers */
    CLAIM(count == p->written, "%s: expected %lld elements written, found %lld", p->name,
          (long long)p->written, (long long)count);
    CLAIM(copies == p->copies, "%s: expected %u copies, found %u", p->name, p->copies, copies);
    CLAIM(l->within_notes.len == p->placed, "%s: expected %u values in the memory of another, found %u",
          p->name, p->placed, l->within_notes.len);
    hop_cleanup_pop(l);
    lp_free(l);
    hop_cleanup_pop(m);
    module_free(m);
}

int main(void)
{
    for (uint32_t i = 0; i < HOP_COUNT(programs); i++) {
        hop_status s = attempt(check, (void *)&programs[i]);
        CLAIM(s == HOP_OK, "%s: %s", programs[i].name, hop_message());
    }
    return tests_end();
}
