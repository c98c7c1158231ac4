/* Names of bodies and frames of places. Names are given to every operator that takes functions; they stand in
 * the text, read back, survive transforms, are seen in explain, in emitted C and in messages, and mean
 * nothing: equal bodies are one. */
#include "check.h"

#define BODY(name) static int name(void *env, const hop_val *in, hop_val *out)
#define UNUSED (void)env, (void)in

static bool has(const char *text, const char *part)
{
    bool found = text && strstr(text, part);
    if (!found) printf("--- no '%s' in\n%s\n", part, text ? text : "(nothing)");
    return found;
}

/* ---- every operator ---- */

BODY(step) { return (void)env, out[0] = hop_add(in[0], in[1]), out[1] = hop_mul(in[0], in[1]), 0; }
BODY(square) { return (void)env, out[0] = hop_mul(in[0], in[0]), 0; }
BODY(negate) { return (void)env, out[0] = hop_neg(in[0]), 0; }
BODY(counted) { return (void)env, out[0] = hop_add(in[1], hop_cast(in[0], "f32")), 0; }
BODY(below) { return (void)env, out[0] = hop_lt(in[0], hop_int(100)), 0; }
BODY(doubled) { return (void)env, out[0] = hop_mul(in[0], hop_int(2)), 0; }
BODY(halved) { return (void)env, out[0] = hop_mul(in[0], hop_scalar(0.5)), 0; }
BODY(cubed) { return (void)env, out[0] = hop_mul(hop_mul(in[0], in[0]), in[0]), 0; }
BODY(tripled) { return (void)env, out[0] = hop_mul(in[0], hop_int(3)), 0; }
BODY(plus) { return (void)env, out[0] = hop_add(in[0], in[1]), 0; }

BODY(every_operator)
{
    (void)env;
    hop_val c[2], m, a, w, f, t, s, k;
    hop_val x = in[0], h = in[1];
    hop_scan(c, 2,
             &(hop_scan_spec){
                 .step = step, .carry = &h, .n_carry = 1, .xs = &x, .n_xs = 1, .name = "the step" });
    hop_map(&m, 1, &(hop_map_spec){ .body = square, .xs = &x, .n_xs = 1, .name = "square" });
    hop_associative_scan(&a, 1,
                         &(hop_associative_scan_spec){
                             .combine = plus, .xs = &x, .n_xs = 1, .name = "plus" });
    hop_while(&w, 1,
              &(hop_while_spec){ .cond = below,
                                 .body = doubled,
                                 .carry = &c[0],
                                 .n_carry = 1,
                                 .cond_name = "below",
                                 .body_name = "doubled" });
    hop_fori(&f, 1,
             &(hop_fori_spec){ .body = counted,
                               .from = hop_int(0),
                               .to = hop_int(3),
                               .carry = &w,
                               .n_carry = 1,
                               .name = "counted" });
    hop_cond(&t, 1,
             &(hop_cond_spec){ .pred = hop_lt(f, h),
                               .then = cubed,
                               .otherwise = negate,
                               .in = &f,
                               .n_in = 1,
                               .then_name = "near",
                               .otherwise_name = "far" });
    hop_switch(&s, 1,
               &(hop_switch_spec){ .index = hop_cast(t, "i64"),
                                   .branches = (hop_body[]){ halved, tripled },
                                   .n_branches = 2,
                                   .in = &t,
                                   .n_in = 1,
                                   .names = (const char *const[]){ NULL, "twice" } });
    hop_call(&k, 1, &(hop_call_spec){ .body = step, .in = (hop_val[]){ s, h }, .n_in = 2, .name = "called" });
    out[0] = hop_add(hop_add(k, hop_sum(m, "all")), hop_sum(a, "all"));
    return 0;
}
BODY(called_twice)
{
    (void)env;
    hop_val a, b;
    hop_call(&a, 1, &(hop_call_spec){ .body = square, .in = in, .n_in = 1, .name = "square" });
    hop_call(&b, 1, &(hop_call_spec){ .body = square, .in = &a, .n_in = 1, .name = "other" });
    return out[0] = b, 0;
}
BODY(same_names)
{
    (void)env;
    hop_val a, b;
    hop_call(&a, 1, &(hop_call_spec){ .body = square, .in = in, .n_in = 1, .name = "f" });
    hop_call(&b, 1, &(hop_call_spec){ .body = negate, .in = &a, .n_in = 1, .name = "f" });
    return out[0] = b, 0;
}

static void check_operators(void)
{
    hop_fn *f = NULL, *again = NULL;
    CLAIM(!hop_capture(&f, "main(x: f32[T], h: f32[])", 1, every_operator, NULL), "%s", hop_message());
    static const char *const parts[] = { "@\"the step\" {", "@square {", "@plus {", "@below {", "@doubled {",
                                         "@counted {",      "@near {",   "@far {",  "@twice {", "@called {" };
    const char *text = hop_fn_text(f);
    for (size_t i = 0; i < HOP_COUNT(parts); i++) CLAIM(has(text, parts[i]), "the name %s", parts[i]);
    CLAIM(!hop_fn_read(&again, text, NULL) && !strcmp(hop_fn_text(again), text), "it reads back: %s",
          hop_message());
    hop_fn_free(again), again = NULL;
    hop_fn_free(f), f = NULL;

    CLAIM(!hop_capture(&f, "x: f32[]", 1, called_twice, NULL), "%s", hop_message());
    text = hop_fn_text(f);
    CLAIM(has(text, "fn @square(") && !strstr(text, "other"), "equal bodies are one, called as the first");
    hop_fn_free(f), f = NULL;

    CLAIM(!hop_capture(&f, "f(x: f32[])", 1, same_names, NULL), "%s", hop_message());
    text = hop_fn_text(f);
    CLAIM(has(text, "fn @f(") && has(text, "@f_1 {") && has(text, "@f_2 {"), "names are unique in a text");
    CLAIM(!hop_fn_read(&again, text, NULL) && !strcmp(hop_fn_text(again), text), "and stay as they are: %s",
          hop_message());
    hop_fn_free(again);
    hop_fn_free(f);
}

/* ---- transforms, explain, emitted code ---- */

BODY(recurrence)
{
    hop_val c[2];
    hop_scan_spec spec = {
        .step = step, .carry = &in[1], .n_carry = 1, .xs = in, .n_xs = 1, .name = "recur", .env = env
    };
    int status = hop_scan(c, 2, &spec);
    return out[0] = hop_add(c[0], hop_sum(c[1], "all")), status;
}

static void check_transforms(void)
{
    hop_fn *f = NULL, *made = NULL;
    char *explained = NULL;
    CLAIM(!hop_capture(&f, "loss(x: f32[T], h: f32[])", 1, recurrence, NULL), "%s", hop_message());
    static const struct {
        hop_status (*make)(hop_fn **, hop_fn *, const char *);
        const char *name, *part;
    } transforms[] = { { hop_grad, "loss_grad", "@recur_backward {" },
                       { hop_value_and_grad, "loss_value_and_grad", "@recur_backward {" },
                       { hop_vjp, "loss_vjp", "@recur_backward {" },
                       { hop_jvp, "loss_jvp", "@recur_jvp {" },
                       { hop_hessian, "loss_hessian", "" },
                       { hop_jacrev, "loss_jacrev", "recur" } };
    for (size_t i = 0; i < HOP_COUNT(transforms); i++) {
        CLAIM(!transforms[i].make(&made, f, "h"), "%s", hop_message());
        CLAIM(!strcmp(hop_fn_name(made), transforms[i].name), "%s is called %s", transforms[i].name,
              hop_fn_name(made));
        CLAIM(has(hop_fn_text(made), transforms[i].part), "what %s makes of a body", transforms[i].name);
        hop_fn_free(made), made = NULL;
    }
    CLAIM(!hop_vmap(&made, f, "h", NULL) && has(hop_fn_text(made), "@recur_vmap {"), "vmap: %s",
          hop_message());
    hop_fn_free(made), made = NULL;
    hop_compile_options portable = { .portable = 1 };
    CLAIM(!hop_explain(&explained, f, &portable, NULL) && has(explained, "scan @recur"), "explain: %s",
          hop_message());
    hop_text_free(explained), explained = NULL;
    CLAIM(!hop_emit(&explained, f, "c", NULL) && has(explained, "/* scan @recur */"), "emitted C: %s",
          hop_message());
    hop_text_free(explained);
    hop_fn_free(f);
}

/* ---- messages ---- */

BODY(wrong_inside) { return (void)env, out[0] = hop_reshape(in[0], "7"), 0; }
BODY(nested)
{
    (void)env;
    return hop_map(out, 1, &(hop_map_spec){ .body = wrong_inside, .xs = in, .n_xs = 1, .name = "inner" });
}
BODY(wrong)
{
    UNUSED;
    return hop_call(out, 1, &(hop_call_spec){ .body = nested, .in = in, .n_in = 1, .name = "outer" });
}
BODY(wrong_without_names)
{
    UNUSED;
    return hop_call(out, 1, &(hop_call_spec){ .body = wrong_inside, .in = in, .n_in = 1 });
}

static void check_messages(void)
{
    hop_fn *f = NULL;
    CLAIM(hop_capture(&f, "x: f32[2, 3]", 1, wrong, NULL) == HOP_INVALID, "an error inside of bodies");
    const char *inner = strstr(hop_message(), "\n  in the body 'inner' of map, ");
    const char *outer = strstr(hop_message(), "\n  in the body 'outer' of call, ");
    CLAIM(strstr(hop_message(), "reshape") && inner && outer && inner < outer,
          "it names them, the innermost first: %s", hop_message());
    CLAIM(hop_capture(&f, "x: f32[2, 3]", 1, wrong_without_names, NULL) == HOP_INVALID &&
              !strchr(hop_message(), '\n'),
          "without names there is one line: %s", hop_message());
}

/* ---- frames ---- */

static hop_place at_leaf, at_check;
BODY(fails_in_a_frame) { return (void)env, out[0] = hop_reshape_at(at_leaf, in[0], "7"), 0; }
BODY(checks_in_a_frame)
{
    (void)env;
    hop_check_at(at_check, hop_lt(in[0], hop_int(0)), "below zero", in, 1);
    return out[0] = in[0], 0;
}

static bool same_stack(const char *message, const char *lines)
{
    const char *found = message ? strstr(message, "\n  ") : NULL;
    bool same = found && !strncmp(found, lines, strlen(lines));
    if (!same) printf("--- expected%s\n--- in %s\n", lines, message ? message : "(nothing)");
    return same;
}

static void check_frames(void)
{
    hop_place nobody = { NULL, 0 };
    const char *main_file = hop_frame("main.py", "<module>", nobody);
    const char *loss = hop_frame("rnn.py", "loss", hop_here(main_file, 40));
    const char *step = hop_frame("rnn.py", "step", hop_here(loss, 30));
    CLAIM(!strcmp(step, "rnn.py") && step != loss, "a name that knows its frames is a name");
    CLAIM(step == hop_frame("rnn.py", "step", hop_here(loss, 30)), "each is kept once");
    CLAIM(step != hop_frame("rnn.py", "step", hop_here(loss, 31)), "another line of the caller, another one");
    CLAIM(!hop_frame(NULL, "f", nobody) && !strcmp(hop_frame("a.c", NULL, nobody), "a.c"), "nothing");
    at_leaf = at_check = hop_here(step, 12);

    const char *lines = "\n  rnn.py:12, in step\n  rnn.py:30, in loss\n  main.py:40, in <module>";
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    hop_tensor *x = NULL, *out = NULL;
    float one = 1;
    CLAIM(hop_capture(&f, "x: f32[3]", 1, fails_in_a_frame, NULL) == HOP_INVALID &&
              same_stack(hop_message(), lines),
          "an error of a capture shows the frames");
    CLAIM(!hop_capture(&f, "x: f32[]", 1, checks_in_a_frame, NULL) &&
              !hop_tensor_borrow(&x, "f32[]", &one, NULL, NULL),
          "%s", hop_message());
    CLAIM(hop_interpret(f, &x, 1, &out, 1) == HOP_CHECK && same_stack(hop_message(), lines),
          "so does a check that fails in the interpreter");
    hop_compile_options portable = { .portable = 1 };
    CLAIM(!hop_compile(&exe, f, &portable) && hop_run(exe, &x, 1, &out, 1) == HOP_CHECK &&
              same_stack(hop_message(), lines),
          "and one in a compiled program");
    hop_exe_free(exe);
    hop_fn_free(f);
    hop_tensor_free(x);
}

int main(void)
{
    check_frames();
    check_operators();
    check_transforms();
    check_messages();
    return tests_end();
}
