/* Every public function with arguments that are nothing or nonsense: NULL, zero, negative counts, handles
 * that no call has made, texts that say nothing. First all of them nothing, then chosen at random among
 * nothing, nonsense and what is right; outside of captures, inside one, and in eager mode. No call may crash
 * or leak; one that fails has a message, is not a bug of hop's own, and leaves its outputs as they were; a
 * capture that was forgiven goes on. The list of calls is held against the functions that the library
 * exports. `null_test [ROUNDS [CONTEXT [ROUND]]]`. */
#include "check.h"
#include "io/dlpack.h"

#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- arguments ---- */

enum { LIST = 16, VALUES_KEPT = 64, TEXT_ROOM = 4096 };
enum context { OUTSIDE, CAPTURING, EAGER, CONTEXTS };
static const char *const context_names[CONTEXTS] = { "outside", "capturing", "eager" };

/* What one round chooses from. */
static struct {
    uint64_t random; /* 0: always the first choice, which is nothing */
    enum context context;
    hop_val made[VALUES_KEPT];
    uint32_t n_made;
    hop_dim sized;
    hop_fn *f;
    hop_exe *exe;
    hop_file *file;
    hop_tensor *tensors[5]; /* the last one is distributed */
    int body_outs;          /* how many outputs the bodies of this call set */
} now;
/* Outputs of a call: filled with these before it. */
static hop_val out_values[LIST];
static hop_tensor *out_tensors[LIST];
static hop_fn *out_fn, *out_second;
static hop_exe *out_exe;
static hop_file *out_file;
static char *out_text;
static void *out_dlpack;
static size_t out_bytes;
static hop_cache_stats out_stats;
static hop_kept out_kept;
static hop_profile *out_profile;
static hop_val list_values[8][LIST]; /* several lists may be asked for in one call */
static uint32_t n_lists;
static _Alignas(64) unsigned char memory[TEXT_ROOM];

static uint32_t choose(uint32_t n)
{
    if (!now.random) return 0;
    now.random = now.random * 6364136223846793005u + 1442695040888963407u;
    uint32_t r = (uint32_t)(now.random >> 33);
    return r % 8 == 0 ? 0 : r / 8 % n;
}
#define CHOOSE(...) ((__VA_ARGS__)[choose((uint32_t)(sizeof(__VA_ARGS__) / sizeof *(__VA_ARGS__)))])

static char long_name[3000], deep[3000];
static char folder[] = "/tmp/hop_null_XXXXXX",
            file[sizeof folder + 8]; /* calls that save something may save it there */
static const char *texts(void)
{
    return CHOOSE((const char *const[]){ NULL,
                                         "",
                                         "all",
                                         "0",
                                         "-1",
                                         "0, 1",
                                         "0, 0",
                                         "f32",
                                         "f32[3]",
                                         "i64[2, 2]",
                                         "bool[]",
                                         "f32[T]",
                                         "T",
                                         "x",
                                         "2*T + 1",
                                         "1:2, :",
                                         "i = 2",
                                         "sum",
                                         "::-1",
                                         "::0",
                                         "...",
                                         "new",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "99999999999999999999",
                                         "f32[9223372036854775807]",
                                         "f64[4611686018427387904, 2]",
                                         "f32[-1]",
                                         "f32[1,1,1,1,1,1,1,1,1,1,1,1,1]",
                                         "f99[2]",
                                         "%s%n%p",
                                         "\xff\xfe",
                                         "\"",
                                         "{",
                                         "f32[T / 0]",
                                         "f32[T mod 0]",
                                         "1e999",
                                         "recompute",
                                         "both(products, names(save = [a], recompute = [b]))",
                                         "every 0",
                                         "every 99999999999999999999",
                                         "sqrt",
                                         "2",
                                         "3",
                                         "0:0",
                                         "9223372036854775807:1",
                                         "add",
                                         "ij,jk->ik",
                                         "x: f32[3]",
                                         ",",
                                         "mut",
                                         file,
                                         "/",
                                         "f32[3",
                                         "0,",
                                         long_name,
                                         deep });
}
/* No endless loops: eager mode would do all the steps. */
static const char *lengths(void)
{
    return CHOOSE(
        (const char *const[]){ NULL, "", "3", "0", "-1", "T", "x", "99999999999999999999", deep, "2, 2" });
}
static const char *params(void)
{
    return CHOOSE((const char *const[]){ NULL,
                                         "",
                                         "x: f32[3]",
                                         "x: f32[3], y: f32[3]",
                                         "x: mut f32[3]",
                                         "g[T in 0..3](x: f32[T])",
                                         "g[dim T](x: f32[T])",
                                         "x: f32[T]",
                                         "x: f32[T + 1]",
                                         "x: f32[9223372036854775807]",
                                         "x",
                                         "x:",
                                         "x: mut",
                                         "f(",
                                         "f[",
                                         "f[T",
                                         "f[T in",
                                         "f[T in 5..1](x: f32[T])",
                                         "f[T in -1..](x: f32[T])",
                                         ",",
                                         "x: f32[3],",
                                         "x: f32[3] y",
                                         "x: f32[3], x: f32[3]",
                                         long_name,
                                         deep,
                                         "%n: f32[3]" });
}
static const char *programs(void)
{
    return CHOOSE((const char *const[]){ NULL, "", "fn", "fn @f", "fn @f(", "fn @f() -> () {\n  return\n}\n",
                                         "fn @f(%x: f32[3]) -> (f32[3]) {\n  return %x\n}\n",
                                         "fn @f(%x: f32[3]) -> (f32[3]) {\n  return %y\n}\n",
                                         "fn @f() -> (f32[9223372036854775807, 2]) {\n}\n", long_name, deep,
                                         "\xff" });
}
static int heard(void *user, hop_tensor *const *args, int n) { return (void)user, (void)args, n > 3 ? 7 : 0; }
/* Names that the round registers, so that it can end without any. */
static const char *names_registered[TEXT_ROOM];
static uint32_t n_registered;
static const char *registered(const char *name)
{
    if (n_registered < TEXT_ROOM) names_registered[n_registered++] = name;
    return name;
}
static int operator_run(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    return (void)arrays, (void)sizes, call->n_arrays > 2 ? 7 : 0;
}
static int operator_infer(void *user, const hop_dim *known, hop_dim *found)
{
    return (void)user, (void)known, *found = hop_dim_const(3), 0;
}
static const char *const operator_names[] = { NULL,         "",         "null_one", "null_many",
                                              "null_sized", "null_exe", "add" };
static const hop_operator_spec *operator_spec(void)
{
    static hop_operator_spec spec;
    spec = (hop_operator_spec){ .signature = CHOOSE((const char *const[]){
                                    NULL, "null_one(x: T[N]) -> T[N]",
                                    "null_many(mut x: f32[_]*, y: i64[]?) -> f32[]",
                                    "null_sized(...) -> f32[M]", "", "null_one", "add() -> f32[]",
                                    "null_one(", "\xff", long_name, deep }),
                                .run = CHOOSE((const hop_operator_run[]){ NULL, operator_run }),
                                .infer = CHOOSE((const hop_operator_infer[]){ NULL, operator_infer }),
                                .effect = CHOOSE((const char *const[]){ NULL, "io", "none", "loud" }),
                                .version = (int)choose(3) - 1,
                                .backward = CHOOSE((hop_fn *const[]){ NULL, now.f }),
                                .together = (int)choose(2) };
    return CHOOSE((const hop_operator_spec *const[]){ NULL, &spec });
}
static const char *operators(void)
{
    return CHOOSE((const char *const[]){ NULL,
                                         "",
                                         "add",
                                         "mul {",
                                         "sum {dims = [0]}",
                                         "sum {dims = [99]}",
                                         "sum {dims = [99999999999999999999]}",
                                         "sum {dims = [0, 0]}",
                                         "iota {dims = [3], dim = 7, dtype = f32}",
                                         "reshape {dims = [-1]}",
                                         "slice {start = [0]",
                                         "concat {dim = 0}",
                                         "scan",
                                         "nothing",
                                         "add {x = 1}",
                                         "print {format = \"{}\"}",
                                         "print {format = \"{",
                                         "dot",
                                         "gather",
                                         "scatter",
                                         "sort {dim = 0}",
                                         "sort {dim = -5}",
                                         "top_k {dim = 0, k = 9223372036854775807}",
                                         "cumsum {dim = 9}",
                                         "constant",
                                         "full",
                                         "bind_dim",
                                         "check {message = \"m\"}",
                                         long_name,
                                         deep });
}
static const char *subscripts(void)
{
    return CHOOSE((const char *const[]){ NULL,      "",
                                         "i",       "i->",
                                         "i,i->",   "ij,jk->ik",
                                         "ii->i",   "...",
                                         "....",    "i...,...i->...",
                                         "->",      "->->",
                                         "i-",      "1",
                                         "i,i,i,i", "ijklmnopqrstuvwxyz",
                                         "i->j",    "i->ii",
                                         "I,i",     ",",
                                         ",,,",     " i , i ",
                                         long_name, deep });
}
static int integers(void)
{
    return CHOOSE((const int[]){ 0, 1, -1, 2, -2, 3, 11, 12, 13, INT_MAX, INT_MIN, INT_MAX - 1 });
}
static int64_t longs(void)
{
    return CHOOSE(
        (const int64_t[]){ 0, 1, -1, 3, INT64_MAX, INT64_MIN, INT64_MAX / 2 + 1, (int64_t)1 << 32 });
}
static double reals(void) { return CHOOSE((const double[]){ 0, 1, -1.5, 1e300, -1.0 / 0.0, 0.0 / 0.0 }); }
static int counts(void)
{
    int n = CHOOSE((const int[]){ 0, 1, 2, 3, 1, 2, -1, INT_MIN });
    now.body_outs = HOP_MIN(now.body_outs, n); /* one of the counts of the call is that of the outputs */
    return n;
}

static hop_val values(void)
{
    switch (choose(12)) {
    case 0: return (hop_val){ 0, 0 };
    case 1: return hop_scalar(reals());
    case 2: return hop_int(CHOOSE((const int64_t[]){ 0, 1, -1, 2, 3 }));
    case 3: return hop_bool(1);
    case 4: return (hop_val){ now.made[0].scope, 1u << 30 };
    case 5: return (hop_val){ UINT64_MAX, UINT64_MAX };
    case 6: return (hop_val){ now.made[0].scope, UINT64_MAX };
    default: return now.n_made ? now.made[choose(now.n_made)] : (hop_val){ 17, 0 };
    }
}
static const hop_val *value_list(void)
{
    hop_val *list = list_values[n_lists++ % 8];
    for (int i = 0; i < LIST; i++) list[i] = values();
    return choose(6) ? list : NULL;
}
static hop_dim sizes(void)
{
    switch (choose(4)) {
    case 0: return (hop_dim){ 0, 0 };
    case 1: return hop_dim_const(longs());
    case 2: return (hop_dim){ UINT64_MAX, 3 };
    default: return now.sized;
    }
}
static const hop_dim *size_list(void)
{
    static hop_dim list[LIST];
    for (int i = 0; i < LIST; i++) list[i] = choose(3) ? now.sized : sizes();
    return choose(6) ? list : NULL;
}
static const hop_param *param_list(void)
{
    static hop_param list[LIST];
    for (int i = 0; i < LIST; i++) {
        list[i] = (hop_param){ .name = i % 2 ? "x" : "y", .like = values() };
        if (!choose(3)) list[i].name = NULL;
        if (!choose(3)) list[i].type = "f32[T, 2]";
        if (!choose(3)) list[i].without = texts();
    }
    return choose(6) ? list : NULL;
}
static const int64_t *number_list(void)
{
    static int64_t list[LIST];
    for (int i = 0; i < LIST; i++) list[i] = choose(4) ? 2 : longs();
    return choose(6) ? list : NULL;
}
static hop_tensor *tensor(void)
{
    return CHOOSE((hop_tensor *const[]){ NULL, now.tensors[0], now.tensors[1], now.tensors[2], now.tensors[3],
                                         now.tensors[4] });
}
static hop_tensor *const *tensor_list(void)
{
    static hop_tensor *list[LIST];
    for (int i = 0; i < LIST; i++) list[i] = choose(3) ? now.tensors[0] : tensor();
    return choose(6) ? list : NULL;
}
static const char *const *name_list(void)
{
    static const char *list[LIST];
    for (int i = 0; i < LIST; i++) list[i] = texts();
    return choose(6) ? list : NULL;
}

/* Bodies: nothing set, a failure, outputs that are numbers, values from around and inputs. */
static int sets_nothing(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, (void)in, (void)out, 0;
}
static int gives_up(void *env, const hop_val *in, hop_val *out) { return (void)env, (void)in, (void)out, 7; }
static int sets_numbers(void *env, const hop_val *in, hop_val *out)
{
    (void)env, (void)in;
    for (int i = 0; i < now.body_outs; i++) out[i] = hop_scalar(1);
    return 0;
}
static int sets_outer(void *env, const hop_val *in, hop_val *out)
{
    (void)env, (void)in;
    for (int i = 0; i < now.body_outs; i++) out[i] = now.n_made ? hop_neg(now.made[0]) : hop_int(1);
    return 0;
}
static int says_no(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, (void)in, out[0] = hop_bool(0), 0;
}
static hop_body bodies(void)
{
    return CHOOSE((const hop_body[]){ NULL, sets_nothing, gives_up, sets_numbers, sets_outer });
}

#define SPEC(T, ...) \
    static const T *T##_choice(void) \
    { \
        static T spec; \
        spec = (T){ __VA_ARGS__ }; \
        return choose(8) ? &spec : NULL; \
    }
SPEC(hop_dot_spec, texts(), texts(), texts(), texts(), texts())
SPEC(hop_conv_spec, .strides = texts(), .padding = texts(), .dilation = texts(), .groups = integers(),
     .layout = texts(), .kernel_layout = texts(), .dtype = texts())
SPEC(hop_window_spec, texts(), texts(), texts(), texts())
SPEC(hop_resize_spec, texts(), texts(), texts(), integers(), integers())
SPEC(hop_sample_spec, texts(), texts(), integers())
SPEC(hop_scan_spec, .step = bodies(), .carry = value_list(), .n_carry = integers() & 3, .xs = value_list(),
     .n_xs = counts(), .length = lengths(), .reverse = integers(), .schedule = texts())
SPEC(hop_map_spec, .body = bodies(), .xs = value_list(), .n_xs = counts(), .length = lengths(),
     .sequential = integers())
SPEC(hop_local_map_spec, .body = bodies(), .in = value_list(), .n_in = counts(), .mesh = texts(),
     .in_placements = texts(), .out_placements = texts())
SPEC(hop_fori_spec, .body = bodies(), .from = values(), .to = values(), .carry = value_list(),
     .n_carry = counts(), .n_stack = counts(), .schedule = texts())
SPEC(hop_associative_scan_spec, .combine = bodies(), .xs = value_list(), .n_xs = counts(), .axis = integers(),
     .reverse = integers())
SPEC(hop_flex_attention_spec, .query = values(), .key = values(), .value = values(), .score = bodies(),
     .mask = bodies(), .scale = values(), .first_query = values(), .blocks = value_list(),
     .n_blocks = counts(), .query_block = integers(), .key_block = integers())
SPEC(hop_block_mask_spec, .mask = bodies(), .queries = integers(), .keys = integers(), .batches = integers(),
     .heads = integers(), .query_block = integers(), .key_block = integers())
SPEC(hop_while_spec, .cond = CHOOSE((const hop_body[]){ NULL, says_no, says_no, gives_up }), .body = bodies(),
     .carry = value_list(), .n_carry = counts(), .n_stack = counts(), .count = integers(),
     .max_trips = texts(), .schedule = texts())
SPEC(hop_cond_spec, .pred = values(), .then = bodies(), .otherwise = bodies(), .in = value_list(),
     .n_in = counts())
static const hop_body branch_list[] = { sets_numbers, sets_outer, sets_nothing, NULL };
SPEC(hop_switch_spec, .index = values(), .branches = choose(4) ? branch_list : NULL, .n_branches = counts(),
     .in = value_list(), .n_in = counts())
SPEC(hop_call_spec, .body = bodies(), .in = value_list(), .n_in = counts(), .recompute = integers(),
     .policy = texts(), .inlining = texts())
SPEC(hop_call_options, .recompute = integers(), .policy = texts(), .inlining = texts())
SPEC(hop_region_spec, .kind = texts(), .attributes = texts(), .body = bodies(), .in = value_list(),
     .n_in = counts())
static void let_go(void *user) { (void)user; }
static int leaves_body(void *user, const hop_attributes *attributes, const hop_fn *body, hop_fn **out)
{
    (void)user, (void)attributes;
    *out = hop_fn_ref((hop_fn *)body);
    return 0;
}
static hop_fn *functions(void) { return choose(2) ? now.f : NULL; }
static const int operand_list[] = { 0, 1, 2, 7, -1, 3, 0, 0 };
SPEC(hop_custom_spec, .body = functions(), .forward = functions(), .backward = functions(),
     .jvp = functions(), .batch = functions(), .in = value_list(), .n_in = counts(),
     .gives = choose(2) ? operand_list : NULL, .n_gives = counts(), .n_closed = counts(),
     .tangent_of_body = integers() & 1)
SPEC(hop_hook_spec, .in = value_list(), .n_in = counts(), .body = bodies(), .state = value_list(),
     .n_state = counts(), .name = texts())
SPEC(hop_compile_options, .strict = integers(), .threads = integers() & 1, .portable = 1, .without = texts(),
     .constant = texts(), .donate = choose(2) ? texts() : NULL)
SPEC(hop_emit_options, .name = texts(), .results = choose(2) ? texts() : NULL, .header = texts(),
     .capacity = longs(), .plain = (size_t)(integers() & 1))
SPEC(hop_run_options, .dims = number_list(), .keep = (size_t)(integers() & 1))

#define AT ((hop_place){ CHOOSE((const char *const[]){ NULL, __FILE__ }), integers() })
#define VALUE values()
#define VALUES value_list()
#define RESULTS (choose(8) ? out_values : NULL)
#define COUNT counts()
#define SIZE sizes()
#define SIZES size_list()
#define NUMBERS number_list()
#define INT integers()
#define LONG longs()
#define REAL reals()
#define TEXT texts()
#define PARAMS params()
#define PARAM_LIST param_list()
#define PROGRAM programs()
#define OPERATOR operators()
#define SUBSCRIPTS subscripts()
#define CACHE CHOOSE((const char *const[]){ NULL, "off", "memory" })
#define NAMES name_list()
#define ENV CHOOSE((void *const[]){ NULL, memory, memory + 1 })
#define DATA ENV
#define BODY bodies()
#define FN CHOOSE((hop_fn *const[]){ NULL, now.f })
#define EXE CHOOSE((hop_exe *const[]){ NULL, now.exe })
#define OPENED CHOOSE((hop_file *const[]){ NULL, now.file })
#define TENSOR tensor()
#define TENSORS tensor_list()
#define TENSOR_OUT (choose(8) ? out_tensors : NULL)
#define FN_OUT (choose(8) ? &out_fn : NULL)
#define SECOND_OUT (choose(8) ? &out_second : NULL)
#define EXE_OUT (choose(8) ? &out_exe : NULL)
#define TEXT_OUT (choose(8) ? &out_text : NULL)
#define FILE_OUT (choose(8) ? &out_file : NULL)
#define DL_OUT (choose(8) ? (void *)&out_dlpack : NULL)
#define BYTES_OUT (choose(8) ? &out_bytes : NULL)
#define STATS_OUT (choose(8) ? &out_stats : NULL)
#define PROFILE_OUT (choose(8) ? &out_profile : NULL)
#define KEPT_OUT (choose(8) ? &out_kept : NULL)
#define DOT_SPEC hop_dot_spec_choice()
#define CONV_SPEC hop_conv_spec_choice()
#define WINDOW_SPEC hop_window_spec_choice()
#define RESIZE_SPEC hop_resize_spec_choice()
#define SAMPLE_SPEC hop_sample_spec_choice()
#define SCAN_SPEC hop_scan_spec_choice()
#define MAP_SPEC hop_map_spec_choice()
#define LOCAL_MAP_SPEC hop_local_map_spec_choice()
#define FORI_SPEC hop_fori_spec_choice()
#define ASSOCIATIVE_SCAN_SPEC hop_associative_scan_spec_choice()
#define FLEX_ATTENTION_SPEC hop_flex_attention_spec_choice()
#define BLOCK_MASK_SPEC hop_block_mask_spec_choice()
#define WHILE_SPEC hop_while_spec_choice()
#define COND_SPEC hop_cond_spec_choice()
#define SWITCH_SPEC hop_switch_spec_choice()
#define CALL_SPEC hop_call_spec_choice()
#define CALL_OPTIONS hop_call_options_choice()
#define REGION_SPEC hop_region_spec_choice()
#define CUSTOM_SPEC hop_custom_spec_choice()
#define HOOK_SPEC hop_hook_spec_choice()
#define COMPILE_OPTIONS hop_compile_options_choice()
#define EMIT_OPTIONS hop_emit_options_choice()
#define FORM CHOOSE((const char *const[]){ NULL, "all", "json", "prose" })
#define KIND CHOOSE((const char *const[]){ NULL, "c", "header", "loops", "prose" })
#define RUN_OPTIONS hop_run_options_choice()
static const volatile int never; /* a flag that nobody sets */
#define ANOTHER(ref, handle) ref(handle)

/* ---- the calls ---- */

/* What came back: a status, or something that tells nothing. */
static int status_of(int64_t status) { return (int)status; }
static void keep_value(hop_val v)
{
    if (v.scope && now.n_made < VALUES_KEPT) now.made[now.n_made++] = v;
}
#define RETURN_STATUS(call) return status_of((int64_t)(call))
#define RETURN_INTEGER(call) \
    (void)(call); \
    return 0
#define RETURN_NOTHING(call) \
    call; \
    return 0
#define RETURN_CHARS(call) \
    { \
        const char *text = (call); \
        return text && strlen(text) > 1u << 20 ? -1 : 0; \
    }
#define RETURN_OWN_CHARS(call) \
    hop_text_free(call); \
    return 0
#define RETURN_POINTER(call) \
    (void)(call); \
    return 0
#define RETURN_MADE(call) \
    keep_value(call); \
    return 0
#define RETURN_SIZED(call) \
    { \
        hop_dim d = (call); \
        if (d.scope) now.sized = d; \
        return 0; \
    }
#define RETURN_MADE_TENSOR(call) \
    hop_tensor_free(call); \
    return 0
#define RETURN_MADE_FN(call) \
    hop_fn_free(call); \
    return 0

#define CALLS(CALL) \
    CALL(CHARS, hop_version, ()) \
    CALL(CHARS, hop_blas, ()) \
    CALL(INTEGER, hop_threads, ()) \
    CALL(INTEGER, hop_set_threads, (INT)) \
    CALL(CHARS, hop_message, ()) \
    CALL(STATUS, hop_tensor_new, (TENSOR_OUT, TEXT)) \
    CALL(STATUS, hop_tensor_borrow, (TENSOR_OUT, TEXT, ENV, NULL, ENV)) \
    CALL(STATUS, hop_tensor_strided, (TENSOR_OUT, TEXT, ENV, NUMBERS, NULL, ENV)) \
    CALL(STATUS, hop_tensor_new_dims, (TENSOR_OUT, TEXT, NUMBERS, COUNT)) \
    CALL(STATUS, hop_tensor_reshape, (TENSOR_OUT, TENSOR, TEXT, NUMBERS, COUNT)) \
    CALL(STATUS, hop_tensor_borrow_dims, (TENSOR_OUT, TEXT, NUMBERS, COUNT, ENV, NULL, ENV)) \
    CALL(STATUS, hop_tensor_view, (TENSOR_OUT, TENSOR, TEXT)) \
    CALL(STATUS, hop_tensor_copy, (TENSOR_OUT, TENSOR)) \
    CALL(STATUS, hop_tensor_fill, (TENSOR, TENSOR)) \
    CALL(MADE_TENSOR, hop_tensor_ref, (TENSOR)) \
    CALL(NOTHING, hop_tensor_free, (ANOTHER(hop_tensor_ref, TENSOR))) \
    CALL(POINTER, hop_data, (TENSOR)) \
    CALL(POINTER, hop_data_const, (TENSOR)) \
    CALL(CHARS, hop_tensor_dtype, (TENSOR)) \
    CALL(STATUS, hop_object_new, (TENSOR_OUT, TEXT, ENV, NULL, NULL)) \
    CALL(CHARS, hop_object_kind, (TENSOR)) \
    CALL(POINTER, hop_object_pointer, (TENSOR, TEXT)) \
    CALL(STATUS, hop_distribute, (TENSOR_OUT, TENSOR, TEXT, TEXT)) \
    CALL(STATUS, hop_collect, (TENSOR_OUT, TENSOR)) \
    CALL(STATUS, hop_tensor_from_parts, (TENSOR_OUT, TEXT, TEXT, TEXT, TENSORS, COUNT)) \
    CALL(INTEGER, hop_tensor_parts, (TENSOR)) \
    CALL(POINTER, hop_tensor_part, (TENSOR, COUNT, NULL)) \
    CALL(CHARS, hop_tensor_mesh, (TENSOR)) \
    CALL(CHARS, hop_tensor_placements, (TENSOR)) \
    CALL(INTEGER, hop_dist_init, ()) \
    CALL(INTEGER, hop_dist_rank, ()) \
    CALL(INTEGER, hop_dist_size, ()) \
    CALL(INTEGER, hop_tensor_rank, (TENSOR)) \
    CALL(INTEGER, hop_tensor_dim, (TENSOR, INT)) \
    CALL(INTEGER, hop_tensor_stride, (TENSOR, INT)) \
    CALL(INTEGER, hop_tensor_count, (TENSOR)) \
    CALL(INTEGER, hop_tensor_is_contiguous, (TENSOR)) \
    CALL(INTEGER, hop_tensor_is_shared, (TENSOR)) \
    CALL(OWN_CHARS, hop_tensor_text, (TENSOR)) \
    CALL(NOTHING, hop_text_free, (NULL)) \
    CALL(NOTHING, hop_debug_track, (INT)) \
    CALL(OWN_CHARS, hop_debug_leaks, ()) \
    CALL(STATUS, hop_capture_at, (AT, FN_OUT, PARAMS, COUNT, BODY, ENV)) \
    CALL(STATUS, hop_eager_at, (AT, PARAMS, BODY, ENV, TENSORS, COUNT, TENSOR_OUT, COUNT)) \
    CALL(NOTHING, hop_eager_print, (NULL, ENV)) \
    CALL(MADE_TENSOR, hop_value_tensor_at, (AT, VALUE)) \
    CALL(INTEGER, hop_failed, ()) \
    CALL(INTEGER, hop_forgive, ()) \
    CALL(STATUS, hop_fail_at, (AT, TEXT)) \
    CALL(MADE, hop_name_at, (AT, VALUE, TEXT)) \
    CALL(CHARS, hop_type_text, (VALUE)) \
    CALL(INTEGER, hop_rank, (VALUE)) \
    CALL(MADE, hop_parameter_at, (AT, TEXT)) \
    CALL(MADE, hop_parameter_like_at, (AT, VALUE)) \
    CALL(MADE, hop_parameter_around_at, (AT, COUNT, NULL)) \
    CALL(STATUS, hop_cut_at, (AT, VALUES, COUNT, NULL, ENV)) \
    CALL(STATUS, hop_capture_params_at, (AT, FN_OUT, TEXT, PARAM_LIST, COUNT, COUNT, BODY, ENV)) \
    CALL(STATUS, hop_give_at, (AT, VALUES, COUNT)) \
    CALL(NOTHING, hop_given, (NULL)) \
    CALL(MADE, hop_scalar, (REAL)) \
    CALL(MADE, hop_int, (LONG)) \
    CALL(MADE, hop_bool, (INT)) \
    CALL(MADE, hop_number_at, (AT, TEXT, REAL)) \
    CALL(MADE, hop_full_at, (AT, TEXT, VALUE)) \
    CALL(MADE, hop_zeros_at, (AT, TEXT)) \
    CALL(MADE, hop_ones_at, (AT, TEXT)) \
    CALL(MADE, hop_zeros_like_at, (AT, VALUE)) \
    CALL(MADE, hop_iota_at, (AT, TEXT, INT)) \
    CALL(MADE, hop_ones_like_at, (AT, VALUE)) \
    CALL(MADE, hop_eye_at, (AT, TEXT, INT)) \
    CALL(MADE, hop_one_hot_at, (AT, VALUE, TEXT, TEXT)) \
    CALL(MADE, hop_arange_at, (AT, TEXT, VALUE, VALUE)) \
    CALL(MADE, hop_linspace_at, (AT, TEXT, VALUE, VALUE)) \
    CALL(MADE, hop_constant_at, (AT, TEXT, DATA)) \
    CALL(MADE, hop_from_tensor_at, (AT, TENSOR)) \
    CALL(MADE, hop_size_at, (AT, VALUE, INT)) \
    CALL(SIZED, hop_dim_of_at, (AT, VALUE, INT)) \
    CALL(SIZED, hop_dim_text_at, (AT, TEXT)) \
    CALL(SIZED, hop_dim_const, (LONG)) \
    CALL(MADE, hop_dim_value_at, (AT, SIZE)) \
    CALL(MADE, hop_bind_dim_at, (AT, VALUE, LONG, LONG)) \
    CALL(STATUS, hop_let_at, (AT, TEXT, SIZE)) \
    CALL(INTEGER, hop_dim_known, (SIZE)) \
    CALL(CHARS, hop_dim_shown, (SIZE)) \
    CALL(INTEGER, hop_dim_order_at, (AT, SIZE, SIZE)) \
    CALL(MADE, hop_stop_gradient_at, (AT, VALUE)) \
    CALL(MADE, hop_select_at, (AT, VALUE, VALUE, VALUE)) \
    CALL(MADE, hop_clamp_at, (AT, VALUE, VALUE, VALUE)) \
    CALL(MADE, hop_fma_at, (AT, VALUE, VALUE, VALUE)) \
    CALL(MADE, hop_cast_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_argmax_at, (AT, VALUE, INT)) \
    CALL(MADE, hop_argmin_at, (AT, VALUE, INT)) \
    CALL(MADE, hop_var_at, (AT, VALUE, TEXT, INT)) \
    CALL(MADE, hop_std_at, (AT, VALUE, TEXT, INT)) \
    CALL(MADE, hop_softmax_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_log_softmax_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_sum_as_at, (AT, VALUE, TEXT, TEXT)) \
    CALL(MADE, hop_prod_as_at, (AT, VALUE, TEXT, TEXT)) \
    CALL(MADE, hop_mean_as_at, (AT, VALUE, TEXT, TEXT)) \
    CALL(MADE, hop_var_as_at, (AT, VALUE, TEXT, INT, TEXT)) \
    CALL(MADE, hop_std_as_at, (AT, VALUE, TEXT, INT, TEXT)) \
    CALL(MADE, hop_cumsum_as_at, (AT, VALUE, INT, INT, TEXT)) \
    CALL(MADE, hop_cumprod_as_at, (AT, VALUE, INT, INT, TEXT)) \
    CALL(MADE, hop_matmul_at, (AT, VALUE, VALUE)) \
    CALL(MADE, hop_matmul_as_at, (AT, VALUE, VALUE, TEXT)) \
    CALL(MADE, hop_dot_at, (AT, VALUE, VALUE, DOT_SPEC)) \
    CALL(MADE, hop_conv_at, (AT, VALUE, VALUE, CONV_SPEC)) \
    CALL(MADE, hop_conv_transpose_at, (AT, VALUE, VALUE, CONV_SPEC)) \
    CALL(MADE, hop_reduce_window_at, (AT, VALUE, TEXT, WINDOW_SPEC)) \
    CALL(MADE, hop_avg_pool_at, (AT, VALUE, WINDOW_SPEC, INT)) \
    CALL(MADE, hop_adaptive_pool_at, (AT, VALUE, TEXT, TEXT, TEXT)) \
    CALL(MADE, hop_resize_at, (AT, VALUE, RESIZE_SPEC)) \
    CALL(MADE, hop_grid_sample_at, (AT, VALUE, VALUE, SAMPLE_SPEC)) \
    CALL(MADE, hop_map_coordinates_at, (AT, VALUE, VALUES, COUNT, SAMPLE_SPEC)) \
    CALL(MADE, hop_einsum_at, (AT, SUBSCRIPTS, VALUES, COUNT)) \
    CALL(MADE, hop_einsum_as_at, (AT, SUBSCRIPTS, VALUES, COUNT, TEXT)) \
    CALL(MADE, hop_outer_at, (AT, VALUE, VALUE)) \
    CALL(MADE, hop_diagonal_at, (AT, VALUE)) \
    CALL(MADE, hop_trace_at, (AT, VALUE)) \
    CALL(MADE, hop_reshape_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_reshape_dims_at, (AT, VALUE, SIZES, COUNT)) \
    CALL(MADE, hop_broadcast_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_broadcast_dims_at, (AT, VALUE, SIZES, COUNT)) \
    CALL(MADE, hop_full_dims_at, (AT, TEXT, SIZES, COUNT, VALUE)) \
    CALL(MADE, hop_permute_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_transpose_at, (AT, VALUE)) \
    CALL(MADE, hop_expand_at, (AT, VALUE, INT)) \
    CALL(MADE, hop_squeeze_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_reverse_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_concat_at, (AT, VALUES, COUNT, INT)) \
    CALL(MADE, hop_stack_at, (AT, VALUES, COUNT, INT)) \
    CALL(MADE, hop_pad_at, (AT, VALUE, TEXT, VALUE)) \
    CALL(STATUS, hop_split_at, (AT, RESULTS, COUNT, VALUE, INT)) \
    CALL(STATUS, hop_split_sizes_at, (AT, RESULTS, COUNT, VALUE, INT, TEXT)) \
    CALL(MADE, hop_tile_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_roll_at, (AT, VALUE, VALUE, INT)) \
    CALL(MADE, hop_flatten_at, (AT, VALUE)) \
    CALL(MADE, hop_move_axis_at, (AT, VALUE, INT, INT)) \
    CALL(MADE, hop_swap_axes_at, (AT, VALUE, INT, INT)) \
    CALL(MADE, hop_tril_at, (AT, VALUE, INT)) \
    CALL(MADE, hop_triu_at, (AT, VALUE, INT)) \
    CALL(MADE, hop_slice_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_index_at, (AT, VALUE, VALUE, INT)) \
    CALL(MADE, hop_dynamic_slice_at, (AT, VALUE, VALUES, TEXT)) \
    CALL(MADE, hop_dynamic_update_at, (AT, VALUE, VALUE, VALUES)) \
    CALL(MADE, hop_take_at, (AT, VALUE, VALUE, INT)) \
    CALL(MADE, hop_take_along_at, (AT, VALUE, VALUE, INT)) \
    CALL(MADE, hop_gather_at, (AT, VALUE, VALUES, COUNT, TEXT)) \
    CALL(MADE, hop_scatter_at, (AT, VALUE, VALUES, COUNT, TEXT, VALUE, TEXT)) \
    CALL(STATUS, hop_nonzero_at, (AT, RESULTS, VALUE)) \
    CALL(STATUS, hop_nonzero_sized_at, (AT, RESULTS, VALUE, TEXT, LONG)) \
    CALL(MADE, hop_recurrence_at, (AT, VALUE, VALUE, INT, INT)) \
    CALL(MADE, hop_sort_at, (AT, VALUE, INT, INT)) \
    CALL(MADE, hop_argsort_at, (AT, VALUE, INT, INT)) \
    CALL(STATUS, hop_top_k_at, (AT, RESULTS, VALUE, TEXT, INT)) \
    CALL(MADE, hop_searchsorted_at, (AT, VALUE, VALUE, INT)) \
    CALL(MADE, hop_key_at, (AT, LONG)) \
    CALL(MADE, hop_random_bits_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_random_uniform_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_random_normal_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_random_split_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_randint_at, (AT, VALUE, TEXT, VALUE, VALUE)) \
    CALL(MADE, hop_bernoulli_at, (AT, VALUE, VALUE, TEXT)) \
    CALL(MADE, hop_permutation_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_shuffle_at, (AT, VALUE, VALUE, INT)) \
    CALL(STATUS, hop_check_at, (AT, VALUE, TEXT, VALUES, COUNT)) \
    CALL(STATUS, hop_print_at, (AT, TEXT, VALUES, COUNT)) \
    CALL(STATUS, hop_print_backward_at, (AT, RESULTS, TEXT, VALUES, COUNT)) \
    CALL(STATUS, hop_callback_at, (AT, TEXT, VALUES, COUNT)) \
    CALL(STATUS, hop_callback_together_at, (AT, TEXT, VALUES, COUNT)) \
    CALL(STATUS, hop_callback_register, \
         (registered(TEXT), CHOOSE((const hop_callback_fn[]){ NULL, heard }), NULL, NULL)) \
    CALL(STATUS, hop_callback_unregister, (TEXT)) \
    CALL(STATUS, hop_operator_register, (operator_spec())) \
    CALL(STATUS, hop_operator_unregister, (CHOOSE(operator_names))) \
    CALL(CHARS, hop_operator_signature, (CHOOSE(operator_names))) \
    CALL(STATUS, hop_operator_at, (AT, RESULTS, COUNT, CHOOSE(operator_names), VALUES, COUNT)) \
    CALL(STATUS, hop_operator_lists_at, (AT, RESULTS, COUNT, CHOOSE(operator_names), VALUES, COUNT, NULL)) \
    CALL(STATUS, hop_barrier_at, (AT, RESULTS, VALUES, COUNT)) \
    CALL(MADE, hop_keep_at, (AT, VALUE)) \
    CALL(MADE, hop_recompute_at, (AT, VALUE)) \
    CALL(MADE, hop_checkpoint_name_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_probe_at, (AT, VALUE, TEXT)) \
    CALL(STATUS, hop_apply_at, (AT, RESULTS, COUNT, OPERATOR, VALUES, COUNT)) \
    CALL(STATUS, hop_scan_at, (AT, RESULTS, COUNT, SCAN_SPEC)) \
    CALL(STATUS, hop_map_at, (AT, RESULTS, COUNT, MAP_SPEC)) \
    CALL(STATUS, hop_local_map_at, (AT, RESULTS, COUNT, LOCAL_MAP_SPEC)) \
    CALL(MADE, hop_redistribute_at, (AT, VALUE, TEXT, TEXT)) \
    CALL(STATUS, hop_fori_at, (AT, RESULTS, COUNT, FORI_SPEC)) \
    CALL(STATUS, hop_associative_scan_at, (AT, RESULTS, COUNT, ASSOCIATIVE_SCAN_SPEC)) \
    CALL(STATUS, hop_flex_attention_at, (AT, RESULTS, COUNT, FLEX_ATTENTION_SPEC)) \
    CALL(STATUS, hop_block_mask_at, (AT, RESULTS, COUNT, BLOCK_MASK_SPEC)) \
    CALL(STATUS, hop_while_at, (AT, RESULTS, COUNT, WHILE_SPEC)) \
    CALL(STATUS, hop_cond_at, (AT, RESULTS, COUNT, COND_SPEC)) \
    CALL(STATUS, hop_switch_at, (AT, RESULTS, COUNT, SWITCH_SPEC)) \
    CALL(STATUS, hop_call_at, (AT, RESULTS, COUNT, CALL_SPEC)) \
    CALL(STATUS, hop_call_fn_at, (AT, RESULTS, COUNT, FN, VALUES, COUNT)) \
    CALL(STATUS, hop_call_fn_with_at, (AT, RESULTS, COUNT, FN, VALUES, COUNT, CALL_OPTIONS)) \
    CALL(STATUS, hop_region_at, (AT, RESULTS, COUNT, REGION_SPEC)) \
    CALL(STATUS, hop_region_register, \
         (registered(TEXT), TEXT, CHOOSE((const hop_region_fn[]){ NULL, leaves_body }), NULL, NULL)) \
    CALL(STATUS, hop_region_unregister, (TEXT)) \
    CALL(INTEGER, hop_region_changes, ()) \
    CALL(CHARS, hop_attributes_text, (NULL)) \
    CALL(CHARS, hop_attribute, (NULL, TEXT)) \
    CALL(INTEGER, hop_attribute_int, (NULL, TEXT, NULL)) \
    CALL(INTEGER, hop_attribute_real, (NULL, TEXT, NULL)) \
    CALL(CHARS, hop_attribute_string, (NULL, TEXT)) \
    CALL(STATUS, hop_custom_at, (AT, RESULTS, COUNT, CUSTOM_SPEC)) \
    CALL(STATUS, hop_hook_at, (AT, RESULTS, HOOK_SPEC)) \
    CALL(MADE, hop_variable_at, (AT, VALUE)) \
    CALL(MADE, hop_assignable_at, (AT, VALUE)) \
    CALL(INTEGER, hop_body_number, ()) \
    CALL(INTEGER, hop_body_is_open, ((uint64_t)INT)) \
    CALL(MADE, hop_view_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_view_index_at, (AT, VALUE, VALUE, INT)) \
    CALL(MADE, hop_view_reshape_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_view_permute_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_view_transpose_at, (AT, VALUE)) \
    CALL(MADE, hop_view_expand_at, (AT, VALUE, INT)) \
    CALL(MADE, hop_view_squeeze_at, (AT, VALUE, TEXT)) \
    CALL(MADE, hop_view_broadcast_at, (AT, VALUE, TEXT)) \
    CALL(STATUS, hop_assign_at, (AT, VALUE, VALUE)) \
    CALL(MADE, hop_current_at, (AT, VALUE)) \
    CALL(STATUS, hop_assign_where_at, (AT, VALUE, VALUE, VALUE)) \
    CALL(STATUS, hop_update_at, (AT, VALUE, OPERATOR, VALUES, COUNT)) \
    CALL(MADE_FN, hop_fn_ref, (FN)) \
    CALL(NOTHING, hop_fn_free, (ANOTHER(hop_fn_ref, FN))) \
    CALL(CHARS, hop_fn_text, (FN)) \
    CALL(CHARS, hop_fn_remarks, (FN)) \
    CALL(STATUS, hop_fn_read, (FN_OUT, PROGRAM, TEXT)) \
    CALL(STATUS, hop_fn_keep, (FN, NULL, CHOOSE((void (*const[])(void *)){ NULL, let_go }))) \
    CALL(CHARS, hop_fn_effect, (FN)) \
    CALL(STATUS, hop_fn_json, (TEXT_OUT, FN)) \
    CALL(INTEGER, hop_fn_params, (FN)) \
    CALL(INTEGER, hop_fn_results, (FN)) \
    CALL(CHARS, hop_fn_param_name, (FN, INT)) \
    CALL(CHARS, hop_fn_name, (FN)) \
    CALL(CHARS, hop_frame, (TEXT, TEXT, AT)) \
    CALL(INTEGER, hop_fn_dims, (FN)) \
    CALL(CHARS, hop_fn_dim_name, (FN, INT)) \
    CALL(CHARS, hop_fn_param_type, (FN, INT)) \
    CALL(CHARS, hop_fn_result_type, (FN, INT)) \
    CALL(INTEGER, hop_fn_param_is_mut, (FN, INT)) \
    CALL(INTEGER, hop_fn_requires, (FN)) \
    CALL(CHARS, hop_fn_require_text, (FN, INT)) \
    CALL(STATUS, hop_fn_accepts, (FN, TENSORS, COUNT, NULL)) \
    CALL(STATUS, hop_grad, (FN_OUT, FN, TEXT)) \
    CALL(STATUS, hop_value_and_grad, (FN_OUT, FN, TEXT)) \
    CALL(STATUS, hop_vjp, (FN_OUT, FN, TEXT)) \
    CALL(STATUS, hop_linear_transpose, (FN_OUT, FN, TEXT)) \
    CALL(STATUS, hop_jvp, (FN_OUT, FN, TEXT)) \
    CALL(STATUS, hop_vjp_halves, (FN_OUT, SECOND_OUT, FN, TEXT)) \
    CALL(STATUS, hop_jvp_halves, (FN_OUT, SECOND_OUT, FN, TEXT)) \
    CALL(STATUS, hop_linearize, (FN_OUT, FN, TEXT, TENSORS, COUNT)) \
    CALL(STATUS, hop_jacfwd, (FN_OUT, FN, TEXT)) \
    CALL(STATUS, hop_jacrev, (FN_OUT, FN, TEXT)) \
    CALL(STATUS, hop_hessian, (FN_OUT, FN, TEXT)) \
    CALL(STATUS, hop_vmap, (FN_OUT, FN, TEXT, TEXT)) \
    CALL(STATUS, hop_vmap_axis, (FN_OUT, FN, TEXT, TEXT, TEXT)) \
    CALL(STATUS, hop_probes, (FN_OUT, FN, TEXT, COUNT)) \
    CALL(STATUS, hop_perturb, (FN_OUT, FN, TEXT, COUNT)) \
    CALL(INTEGER, hop_fn_probes, (FN)) \
    CALL(CHARS, hop_fn_probe_name, (FN, INT)) \
    CALL(STATUS, hop_debug_nans, (FN_OUT, FN, INT)) \
    CALL(STATUS, hop_compile, (EXE_OUT, FN, COMPILE_OPTIONS)) \
    CALL(NOTHING, hop_exe_free, (NULL)) \
    CALL(STATUS, hop_exe_operator, (EXE, CHOOSE(operator_names), FN)) \
    CALL(STATUS, hop_exe_refresh, (EXE)) \
    CALL(STATUS, hop_exe_kept, (KEPT_OUT, EXE)) \
    CALL(STATUS, hop_explain, (TEXT_OUT, FN, &(hop_compile_options){ .portable = 1 }, FORM)) \
    CALL(STATUS, hop_profile_start, (PROFILE_OUT, EXE, 0)) \
    CALL(STATUS, hop_profile_stop, (NULL)) \
    CALL(STATUS, hop_profile_text, (TEXT_OUT, NULL, FORM)) \
    CALL(NOTHING, hop_profile_free, (NULL)) \
    CALL(STATUS, hop_emit, (TEXT_OUT, FN, KIND, EMIT_OPTIONS)) \
    CALL(STATUS, hop_run, (EXE, TENSORS, COUNT, TENSOR_OUT, COUNT)) \
    CALL(NOTHING, hop_cancel_by, (CHOOSE((const volatile int *const[]){ NULL, &never }), NULL, NULL)) \
    CALL(STATUS, hop_run_with, (EXE, TENSORS, COUNT, TENSOR_OUT, COUNT, RUN_OPTIONS)) \
    CALL(STATUS, hop_interpret, (FN, TENSORS, COUNT, TENSOR_OUT, COUNT)) \
    CALL(STATUS, hop_interpret_with, (FN, TENSORS, COUNT, TENSOR_OUT, COUNT, RUN_OPTIONS)) \
    CALL(OWN_CHARS, hop_explain_run, (EXE, TENSORS, COUNT, TENSORS, COUNT)) \
    CALL(STATUS, hop_workspace, (BYTES_OUT, EXE, TENSORS, COUNT, NUMBERS)) \
    CALL(NOTHING, hop_cache_statistics, (STATS_OUT)) \
    CALL(NOTHING, hop_cache_clear, ()) \
    CALL(STATUS, hop_cache_directory, (CACHE)) \
    CALL(NOTHING, hop_cache_limits, (LONG, LONG)) \
    CALL(STATUS, hop_load, (TENSOR_OUT, TEXT)) \
    CALL(STATUS, hop_save, (TENSOR, TEXT)) \
    CALL(STATUS, hop_save_many, (TEXT, NAMES, TENSORS, COUNT)) \
    CALL(STATUS, hop_file_open, (FILE_OUT, TEXT)) \
    CALL(NOTHING, hop_file_free, (NULL)) \
    CALL(INTEGER, hop_file_count, (OPENED)) \
    CALL(CHARS, hop_file_name, (OPENED, INT)) \
    CALL(STATUS, hop_file_load, (TENSOR_OUT, OPENED, TEXT)) \
    CALL(STATUS, hop_tensor_to_dlpack, (DL_OUT, TENSOR)) \
    CALL(STATUS, hop_tensor_to_dlpack_versioned, (DL_OUT, TENSOR)) \
    CALL(STATUS, hop_tensor_from_dlpack, (TENSOR_OUT, NULL)) \
    CALL(STATUS, hop_tensor_from_dlpack_versioned, (TENSOR_OUT, NULL))
/* Families that the header lists itself. */
#define UNARY(name) CALL(MADE, hop_##name##_at, (AT, VALUE))
#define BINARY(name) CALL(MADE, hop_##name##_at, (AT, VALUE, VALUE))
#define REDUCTION(name) CALL(MADE, hop_##name##_at, (AT, VALUE, TEXT))
#define OF_SIZES(name) CALL(SIZED, hop_dim_##name##_at, (AT, SIZE, SIZE))
#define SCATTER(name) CALL(MADE, hop_scatter_##name##_at, (AT, VALUE, VALUE, VALUE, INT))
#define CUMULATIVE(name) CALL(MADE, hop_##name##_at, (AT, VALUE, INT, INT))
#define IN_PLACE(name) CALL(STATUS, hop_##name##_to_at, (AT, VALUE, VALUE))
#define FAMILIES \
    HOP_UNARY_OPERATORS(UNARY) \
    HOP_BINARY_OPERATORS(BINARY) \
    HOP_REDUCTIONS(REDUCTION) \
    HOP_DIM_OPERATORS(OF_SIZES) \
    HOP_SCATTERS(SCATTER) HOP_CUMULATIVE_OPERATORS(CUMULATIVE) HOP_IN_PLACE_OPERATORS(IN_PLACE)

#define CALL(kind, name, args) \
    static int call_##name(void) { RETURN_##kind(name args); }
CALLS(CALL)
FAMILIES
#undef CALL
#define CALL(kind, name, args) { #name, #kind, call_##name },
static const struct {
    const char *name, *kind;
    int (*call)(void);
} calls[] = { CALLS(CALL) FAMILIES };
#undef CALL

/* ---- one round ---- */

static struct shared {
    uint32_t call, round;
    uint64_t done;
    int passed, failed;
} *shared;

static const char *call_name(void)
{
    return shared->call < HOP_COUNT(calls) ? calls[shared->call].name : "all calls";
}

static void wrong(const char *what)
{
    printf("%s, %s, round %u: %s%s%s\n", context_names[now.context], call_name(), shared->round, what,
           hop_message()[0] ? ": " : "", hop_message());
    shared->failed++;
}

static void clear_outputs(void)
{
    n_lists = 0;
    now.body_outs = INT_MAX;
    memset(out_values, 0, sizeof out_values);
}

static void drop_outputs(bool failed)
{
    bool touched = out_fn || out_second || out_exe || out_file || out_text || out_dlpack;
    for (int i = 0; i < LIST; i++) touched |= out_tensors[i] != NULL;
    if (failed && touched) wrong("it failed and gave something");
    for (int i = 0; i < LIST; i++) hop_tensor_free(out_tensors[i]), out_tensors[i] = NULL;
    hop_fn_free(out_fn), out_fn = NULL;
    hop_fn_free(out_second), out_second = NULL;
    hop_exe_free(out_exe), out_exe = NULL;
    hop_file_free(out_file), out_file = NULL;
    hop_text_free(out_text), out_text = NULL;
    if (out_dlpack) {
        if (!strcmp(calls[shared->call].name, "hop_tensor_to_dlpack"))
            ((struct DLManagedTensor *)out_dlpack)->deleter(out_dlpack);
        else ((struct DLManagedTensorVersioned *)out_dlpack)->deleter(out_dlpack);
        out_dlpack = NULL;
    }
}

/* These are right with nothing. */
static bool allowed_empty(const char *name)
{
    static const char *const names[] = { "hop_cache_directory", "hop_barrier_at", "hop_print_at",
                                         "hop_give_at" };
    for (size_t i = 0; i < HOP_COUNT(names); i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

static void all_calls(uint32_t from)
{
    for (shared->call = from; shared->call < HOP_COUNT(calls); shared->call++) {
        if (now.n_made > VALUES_KEPT / 2) now.n_made = 8;
        clear_outputs();
        hop_set_message("%s", "");
        int status = calls[shared->call].call(), capture = hop_forgive();
        const char *name = calls[shared->call].name;
        if (now.context != OUTSIDE && !status) status = capture;
        if (status && !hop_message()[0]) wrong("it failed without a message");
        else if (status == HOP_INTERNAL && !strstr(hop_message(), "returned 7"))
            wrong("it says that hop is wrong");
        else if (status == -1) wrong("its text has no end");
        else if (!now.random && !status && !strcmp(calls[shared->call].kind, "STATUS") &&
                 !allowed_empty(name))
            wrong("nothing is enough for it");
        else shared->passed++;
        drop_outputs(status != 0);
        shared->done++;
    }
}

static const char whole[] = "fn @f(%x: f32[3], %y: f32[3]) -> (f32[3], f32[]) {\n  %z = mul(%x, %y)\n  %s = "
                            "sum {dims = [0]} (%z)\n  return %z, %s\n}\n";

static void begin_round(uint64_t seed)
{
    static const int64_t strides[] = { -1 };
    now.random = seed;
    now.n_made = 0;
    now.sized = hop_dim_const(2);
    bool good = !hop_fn_read(&now.f, whole, NULL) &&
                !hop_compile(&now.exe, now.f, &(hop_compile_options){ .portable = 1 }) &&
                !hop_tensor_new(&now.tensors[0], "f32[3]") && !hop_tensor_new(&now.tensors[1], "i64[2, 2]") &&
                !hop_tensor_new(&now.tensors[2], "bool[0, 3]") &&
                !hop_tensor_strided(&now.tensors[3], "f32[3]", memory + 64, strides, NULL, NULL) &&
                !hop_distribute(&now.tensors[4], now.tensors[1], "i = 2", "0");
    if (!good) wrong("the round cannot begin");
}

static void end_round(void)
{
    now.random = 0;
    hop_debug_track(0);
    while (n_registered) {
        hop_region_unregister(names_registered[n_registered - 1]);
        hop_callback_unregister(names_registered[--n_registered]);
    }
    for (size_t i = 1; i < sizeof operator_names / sizeof *operator_names; i++)
        hop_operator_unregister(operator_names[i]);
    hop_cache_directory("off");
    hop_cache_clear();
    for (int i = 0; i < 5; i++) hop_tensor_free(now.tensors[i]), now.tensors[i] = NULL;
    hop_exe_free(now.exe), now.exe = NULL;
    hop_fn_free(now.f), now.f = NULL;
}

static int capture_body(void *env, const hop_val *in, hop_val *out)
{
    for (int i = 0; i < 4; i++) keep_value(in[i]);
    keep_value(hop_variable(in[0]));
    now.sized = hop_dim_of(in[1], 0);
    all_calls(*(const uint32_t *)env);
    out[0] = hop_sum(in[1], "all");
    return 0;
}

static void one_round(uint64_t seed, uint32_t from)
{
    hop_fn *f = NULL;
    int64_t live = hop_live_allocations();
    begin_round(seed);
    if (now.context == OUTSIDE) {
        all_calls(from);
    } else if (now.context == CAPTURING) {
        int status = hop_capture(&f, "x: f32[3], y: f32[T, 2], i: i64[], v: mut f32[2, 2]", 1, capture_body,
                                 &from);
        if (status) shared->call = UINT32_MAX, wrong("the capture does not go on");
        if (f && !hop_fn_text(f)) wrong("what was captured cannot be printed");
        hop_fn_free(f);
    } else {
        if (hop_eager_begin()) wrong("eager mode does not begin");
        keep_value(hop_ones("f32[3]"));
        keep_value(hop_ones("f32[2, 2]"));
        keep_value(hop_number("i64", 1));
        keep_value(hop_variable(hop_ones("f32[2, 2]")));
        all_calls(from);
        if (hop_eager_end()) wrong("eager mode does not end well");
    }
    end_round();
    if (hop_live_allocations() != live) {
        hop_set_message("%lld allocations", (long long)(hop_live_allocations() - live));
        shared->call = UINT32_MAX;
        wrong("something was not freed in this round");
    }
}

static uint64_t round_seed(uint32_t round) { return round ? (uint64_t)round * 0x9e3779b97f4a7c15u | 1 : 0; }

/* A context in processes of its own: after a crash the next call goes on in a new one. */
static void run_context(uint32_t rounds)
{
    for (uint32_t round = 0, from = 0; round < rounds;) {
        int status = 0;
        fflush(stdout);
        pid_t pid = fork();
        if (pid < 0) exit(2);
        if (!pid) {
            for (; round < rounds; round++, from = 0) {
                alarm(60);
                shared->round = round;
                one_round(round_seed(round), from);
            }
            fflush(stdout);
            _exit(0); /* leaks are counted above: a leak checker in a forked child is not reliable */
        }
        waitpid(pid, &status, 0);
        if (!status) return;
        printf("%s, %s, round %u: %s\n", context_names[now.context], call_name(), shared->round,
               WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "ended the process");
        shared->failed++;
        round = shared->round;
        from = shared->call + 1;
        if (from >= HOP_COUNT(calls)) round++, from = 0;
    }
}

/* Every function that the library exports is in the list: the build keeps their names in a file beside the
 * test's folder. */
static void check_list(const char *program)
{
    char path[4096], name[256];
    const char *slash = strrchr(program, '/');
    snprintf(path, sizeof path, "%.*s/../exports", slash ? (int)(slash - program) : 1, slash ? program : ".");
    FILE *f = fopen(path, "r");
    CLAIM(f, "%s: not there", path);
    while (f && fgets(name, sizeof name, f)) {
        bool known = !strncmp(name, "hop_eager_begin_at", 18) || !strncmp(name, "hop_eager_end", 13) ||
                     !strncmp(name, "hop_mode", 8) || strstr(name, "_grad_begin_at") ||
                     !strncmp(name, "hop_autocast_begin_at", 21); /* these are tested by themselves */
        name[strcspn(name, "\n")] = 0;
        for (size_t i = 0; i < HOP_COUNT(calls) && !known; i++) known = !strcmp(calls[i].name, name);
        CLAIM(known, "%s is exported but not called here: add a line to CALLS", name);
    }
    if (f) fclose(f);
}

static void check_eager_edges(void)
{
    hop_place nowhere = { NULL, 0 };
    CLAIM(!hop_no_grad_begin_at(nowhere) && !hop_enable_grad_begin_at(nowhere) &&
              !hop_autocast_begin_at(nowhere, NULL),
          "%s", hop_message());
    for (int k = 0; k < 3; k++) CLAIM(!hop_mode_end_at(nowhere), "%s", hop_message());
    CLAIM(hop_mode_end_at(nowhere) == HOP_INVALID && hop_message()[0], "an end without a mode is an error");
    CLAIM(hop_autocast_begin_at(nowhere, "") == HOP_INVALID, "autocast to nothing is an error");
    CLAIM(!hop_modes_set(~0u) && hop_modes_set(0) && !hop_modes(), "modes that were set are left");
    CLAIM(hop_eager_end() == HOP_INVALID && hop_message()[0], "an end without a begin is an error");
    CLAIM(!hop_eager_begin_at((hop_place){ NULL, 0 }), "%s", hop_message());
    CLAIM(hop_neg((hop_val){ 0, 0 }).scope == 0 && hop_failed(), "nothing has no negative");
    CLAIM(hop_eager_end() == HOP_INVALID, "the end gives the first error");
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 60;
#ifdef __SANITIZE_ADDRESS__
    if (argc <= 1) rounds = 15;
#endif
    setvbuf(stdout, NULL, _IOLBF, 0); /* what a child says before it crashes is not lost */
    memset(long_name, 'n', sizeof long_name - 1);
    memset(deep, '(', sizeof deep - 1);
    if (!mkdtemp(folder)) return 2;
    snprintf(file, sizeof file, "%s/x.npy", folder);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 2;
    check_list(argv[0]);
    check_eager_edges();
    if (argc > 3) { /* one round in this process, for a debugger */
        uint32_t round = (uint32_t)strtoul(argv[3], NULL, 0);
        for (now.context = OUTSIDE;
             strcmp(argv[2], context_names[now.context]) && now.context < CONTEXTS - 1;)
            now.context++;
        one_round(round_seed(round), 0);
        return unlink(file), rmdir(folder), 0;
    }
    for (now.context = OUTSIDE; now.context < CONTEXTS; now.context++)
        if (argc <= 2 || !strcmp(argv[2], context_names[now.context])) run_context(rounds);
    tests_passed += shared->passed;
    tests_failed += shared->failed;
    unlink(file);
    CLAIM(!rmdir(folder), "more files than one were made in %s", folder);
    return tests_end();
}
