/* The table of subcommands and the table of options, which parsing and every help text are made from. */
#include "cli/cli.h"

#include <errno.h>
#include <unistd.h>

/* ---- options ---- */

static const struct option {
    const char *name, *argument, *meaning;
} option_table[O_COUNT] = {
    [O_HELP] = { "help", NULL, "say what the command does and takes" },
    [O_FN] = { "fn", "NAME", "the function; otherwise the only named one, else @main, else the last" },
    [O_IN] = { "in", "NAME=VALUE",
               "an argument: x=3, x=[1, 2], x=random:SEED, x=random:SEED:LO..HI, x:f32[4]=random:7, "
               "x=file.npy, x=file.npz:NAME, x=file.safetensors:NAME" },
    [O_DIM] = { "dim", "NAME=N", "the value of a dim parameter" },
    [O_INTERPRET] = { "interpret", NULL, "run on the reference interpreter" },
    [O_JIT] = { "jit", NULL,
                "compile; an error when that is not possible (the default compiles when it can)" },
    [O_BACKEND] = { "backend", "NAME",
                    "run on this back end: llvm, or executor (the loop program itself, slowly; needs no "
                    "LLVM)" },
    [O_STRICT] = { "strict", NULL, "numbers that are equal bit for bit on every back end" },
    [O_WITHOUT] = { "without", "PASS", "switch a pass off; may be repeated" },
    [O_RANKS] = { "ranks", "N",
                  "ranks of a program over a mesh, which are threads: as many as the mesh has" },
    [O_THREADS] = { "threads", "N", "threads of the run; otherwise HOP_NUM_THREADS, or all cores" },
    [O_TIME] = { "time", NULL, "say on standard error how long compiling and running took" },
    [O_WRT] = { "wrt", "NAMES", "parameters to differentiate by, x,y; otherwise all of floating point" },
    [O_IN_AXES] = { "in-axes", "LIST",
                    "where the batch dim of each parameter stands, x=0,y=none; otherwise 0 for all" },
    [O_VALUE] = { "value", NULL, "give the results of the function before the gradients" },
    [O_RUN] = { "run", NULL, "run the transformed program instead of printing it" },
    [O_SIMPLIFY] = { "simplify", NULL, "print what the passes make of it" },
    [O_AFTER] = { "after", "PASS",
                  "print what the passes up to this one make of it, each run once on every function" },
    [O_LOCATIONS] = { "locations", NULL, "print where each node was made" },
    [O_NAMES] = { "names", "LIST", "which probes: names or patterns, as in 'loss,layer*' (default: all)" },
    [O_STACKED] = { "stacked", NULL, "probes of one name are one value with one more dim, not an error" },
    [O_GRAD] = { "grad", NULL, "the gradient instead of the function (see --wrt, --value)" },
    [O_JVP] = { "jvp", NULL, "the forward derivative instead of the function (see --wrt)" },
    [O_VMAP] = { "vmap", NULL, "the batched function instead of the function (see --in-axes)" },
    [O_SAVED] = { "saved", NULL, "every stored value, its size and why it is stored" },
    [O_LLVM] = { "llvm", NULL, "the LLVM text" },
    [O_ASM] = { "asm", NULL, "the assembly" },
    [O_LOOPS] = { "loops", NULL, "the loop program" },
    [O_VERBOSE] = { "verbose", NULL, "a line for every file and every check" },
    [O_QUICK] = { "quick", NULL,
                  "leave out the runs with single passes switched off but one for each transform" },
    [O_JOBS] = { "jobs", "N", "files tested at the same time; otherwise as many as cores" },
    [O_JSON] = { "json", NULL, "print JSON" },
    [O_OUT] = { "out", "FILE",
                "write all results to a .npz or .safetensors file, or with NAME=FILE one result to any "
                "tensor file; may be repeated" },
    [O_C] = { "c", NULL,
              "run the tests through emitted C and the system's C compiler instead, with strict and with "
              "default numbers" },
    [O_NO_CACHE] = { "no-cache", NULL,
                     "compile, whatever the cache of compiled programs holds, and keep nothing" },
    [O_CONSTANT] = { "constant", "NAMES",
                     "parameters that are constant, w,b: regions of the kind once are computed of them and "
                     "kept" },
    [O_DEBUG_NANS] = { "debug-nans", NULL,
                       "end the run where an operator makes a NaN or an infinity, and say where that is" },
    [O_OPERATORS] = { "operators", "LIBRARY",
                      "a shared library whose operators programs may call (docs/operators.md); may be "
                      "repeated" },
    [O_PROFILE] = { "profile", "[FORM]",
                    "run it for half a second and say where the time goes, on standard error or in a file: "
                    "table, json, svg (a flame graph) or folded" },
    [O_PROFILE_OUT] = { "profile-out", "FILE",
                        "write the profile there; its ending says the form, .json, .svg or .folded" },
    [O_MARKDOWN] = { "markdown", NULL, "print the reference of operators, a page of documentation" },
    [O_CAPACITY] = { "capacity", "N",
                     "arrays of data-dependent size get fixed room for N elements instead of memory from an "
                     "allocator" },
    [O_PLAIN] = { "plain", NULL, "plain C99, without vector types: a smaller text for any compiler" },
};

static uint32_t parse_count(const char *name, const char *text, uint32_t most)
{
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (errno || end == text || *end || v < 1 || v > (long)most)
        hop_throw(HOP_INVALID, "--%s: expected a number from 1 to %u, found '%s'", name, most, text);
    return (uint32_t)v;
}

/* The number of the switch of that name, one of the first n. */
static uint32_t parse_switch(struct options *o, const char *option, const char *name, uint32_t n)
{
    uint32_t found;
    if (switch_from_name(name, &found) && found < n) return found;
    struct text names = { .arena = &o->bag.arena };
    for (uint32_t i = 0; i < n; i++) text_add(&names, "%s%s", i ? ", " : "", switch_names[i]);
    hop_throw(HOP_INVALID, "--%s: there is no pass '%s'; the passes are %s", option, name, names.data);
}

static void take_option(struct options *o, enum option_id id, const char *argument)
{
    o->given |= O_BIT(id);
    switch (id) {
    case O_PROFILE: o->profile = argument; break;
    case O_PROFILE_OUT: o->profile_out = argument; break;
    case O_FN: o->fn = argument[0] == '@' ? argument + 1 : argument; break;
    case O_BACKEND: o->backend = backend_named(argument); break;
    case O_WRT: o->wrt = argument; break;
    case O_IN_AXES: o->in_axes = argument; break;
    case O_NAMES: o->names = argument; break;
    case O_CONSTANT: o->constant = argument; break;
    case O_OPERATORS: operators_load(argument); break;
    case O_IN: vec_push(&o->bag.arena, &o->inputs, argument); break;
    case O_DIM: vec_push(&o->bag.arena, &o->dims, argument); break;
    case O_OUT: vec_push(&o->bag.arena, &o->outputs, argument); break;
    case O_RANKS: o->ranks = parse_count("ranks", argument, 1 << 20); break;
    case O_THREADS: o->threads = parse_count("threads", argument, INT32_MAX); break;
    case O_CAPACITY: o->capacity = parse_count("capacity", argument, INT32_MAX); break;
    case O_JOBS: o->jobs = parse_count("jobs", argument, 1024); break;
    case O_WITHOUT: o->without |= 1u << parse_switch(o, "without", argument, SWITCH_COUNT); break;
    case O_AFTER: o->after = (enum pass)parse_switch(o, "after", argument, PASS_COUNT); break;
    default: break;
    }
}

void options_parse(struct options *o, const struct command *c, int argc, char **argv)
{
    bool only_files = false;
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i];
        if (only_files || a[0] != '-' || !a[1]) {
            vec_push(&o->bag.arena, &o->files, a);
            continue;
        }
        if (!strcmp(a, "--")) {
            only_files = true;
            continue;
        }
        if (!strcmp(a, "-h")) a = "--help";
        if (!strcmp(a, "-o")) a = "--out";
        const char *equals = strncmp(a, "--", 2) ? NULL : strchr(a, '=');
        size_t length = equals ? (size_t)(equals - a) : strlen(a);
        int id = O_COUNT;
        for (int k = 0; k < O_COUNT && length > 2; k++) {
            const char *name = option_table[k].name;
            bool taken = (c->options | O_BIT(O_HELP)) >> k & 1;
            if (taken && strlen(name) == length - 2 && !memcmp(name, a + 2, length - 2)) id = k;
        }
        if (id == O_COUNT)
            hop_throw(HOP_INVALID, "hop %s has no option '%s'; see hop %s --help", c->name, a, c->name);
        const char *argument = NULL;
        if (option_table[id].argument && option_table[id].argument[0] == '[') { /* only behind "=" */
            argument = equals ? equals + 1 : "";
        } else if (option_table[id].argument) {
            if (equals) argument = equals + 1;
            else if (i + 1 < argc) argument = argv[++i];
            if (!argument)
                hop_throw(HOP_INVALID, "--%s needs %s", option_table[id].name, option_table[id].argument);
        } else if (equals) {
            hop_throw(HOP_INVALID, "--%s takes no value, found '%s'", option_table[id].name, a);
        }
        take_option(o, (enum option_id)id, argument);
    }
    if (option_on(o, O_HELP)) return;
    if (option_on(o, O_INTERPRET) && option_on(o, O_JIT))
        hop_throw(HOP_INVALID, "--interpret and --jit exclude each other");
    if (option_on(o, O_INTERPRET) && o->backend)
        hop_throw(HOP_INVALID, "--interpret and --backend exclude each other");
    if (option_on(o, O_INTERPRET) && (o->profile || o->profile_out))
        hop_throw(HOP_INVALID,
                  "--interpret and --profile exclude each other: compiled programs have profiles");
    if (o->files.len < c->min_files)
        hop_throw(HOP_INVALID, "hop %s needs %s; see hop %s --help", c->name, c->arguments, c->name);
    if (o->files.len > c->max_files)
        hop_throw(HOP_INVALID, "hop %s takes %u argument%s, found %u ('%s'); see hop %s --help", c->name,
                  c->max_files, c->max_files == 1 ? "" : "s", o->files.len, o->files.data[c->max_files],
                  c->name);
}

void options_help(const struct command *c, FILE *out)
{
    fprintf(out, "hop %s %s [options]\n\n%s\n", c->name, c->arguments, c->details ? c->details : c->meaning);
    fprintf(out, "\nOptions:\n");
    for (int k = O_HELP + 1; k <= O_COUNT; k++) { /* help comes last */
        int id = k == O_COUNT ? O_HELP : k;
        if (!((c->options | O_BIT(O_HELP)) >> id & 1)) continue;
        char left[64];
        const char *argument = option_table[id].argument ? option_table[id].argument : "";
        if (*argument == '[') snprintf(left, sizeof left, "--%s[=%s", option_table[id].name, argument + 1);
        else snprintf(left, sizeof left, "--%s%s%s", option_table[id].name, *argument ? " " : "", argument);
        fprintf(out, "  %-20s  %s\n", left, option_table[id].meaning);
    }
    if (c->options >> O_WITHOUT & 1) {
        fprintf(out, "\nPasses:\n");
        for (int i = 0; i < SWITCH_COUNT; i++)
            fprintf(out, "  %-12s  %s\n", switch_names[i], switch_meanings[i]);
    }
    fprintf(out, "\nExit code: 0 fine; 1 a test or a check in the run failed; 2 bad input.\n");
}

/* ---- commands ---- */

#define RUN_OPTIONS \
    (O_BIT(O_IN) | O_BIT(O_DIM) | O_BIT(O_INTERPRET) | O_BIT(O_JIT) | O_BIT(O_BACKEND) | O_BIT(O_STRICT) | \
     O_BIT(O_WITHOUT) | O_BIT(O_THREADS) | O_BIT(O_RANKS) | O_BIT(O_TIME) | O_BIT(O_JSON) | O_BIT(O_OUT) | \
     O_BIT(O_NO_CACHE) | O_BIT(O_CONSTANT) | O_BIT(O_OPERATORS) | O_BIT(O_DEBUG_NANS) | O_BIT(O_PROFILE) | \
     O_BIT(O_PROFILE_OUT))
#define DERIVED_OPTIONS \
    (RUN_OPTIONS | O_BIT(O_FN) | O_BIT(O_RUN) | O_BIT(O_SIMPLIFY) | O_BIT(O_AFTER) | O_BIT(O_LOCATIONS))
static const struct command commands[] = {
    { "run", "FILE", "run a function",
      "Runs a function of a program on the given arguments and prints its results. Compiles when the LLVM "
      "back end is there, else interprets\nand says so on standard error.",
      RUN_OPTIONS | O_BIT(O_FN), 1, 1, command_run },
    { "test", "FILE|DIR…", "run the tests that programs carry, on every back end",
      "Runs the test blocks of programs: on the interpreter, on the interpreter after the passes, on the "
      "executor of loop programs, compiled with strict numbers\n"
      "(bit for bit equal, with all passes and with each pass switched off, in transforms too), compiled "
      "with "
      "default numbers (within bounds). "
      "Directories are searched for *.hop.\n"
      "A file whose first line is '# error: LINE:COL: text' must fail to read with that message. Prints "
      "failures and 'N passed, M failed'.",
      O_BIT(O_VERBOSE) | O_BIT(O_QUICK) | O_BIT(O_WITHOUT) | O_BIT(O_JOBS) | O_BIT(O_INTERPRET) |
          O_BIT(O_BACKEND) | O_BIT(O_C) | O_BIT(O_OPERATORS),
      1, UINT32_MAX, command_test },
    { "check", "FILE…", "read and verify programs",
      "Reads programs and checks every function. Prints 'FILE: ok', or the first error of a file and ends "
      "with 2.",
      O_BIT(O_JSON), 1, UINT32_MAX, command_check },
    { "show", "FILE", "print a program in canonical text", NULL,
      O_BIT(O_FN) | O_BIT(O_SIMPLIFY) | O_BIT(O_AFTER) | O_BIT(O_STRICT) | O_BIT(O_WITHOUT) |
          O_BIT(O_LOCATIONS),
      1, 1, command_show },
    { "grad", "FILE", "print or run the gradient of a function",
      "The function's first result must be a floating-point scalar. The gradient takes the function's "
      "parameters and gives one result for each\nparameter of --wrt.",
      DERIVED_OPTIONS | O_BIT(O_WRT) | O_BIT(O_VALUE), 1, 1, command_grad },
    { "jvp", "FILE", "print or run the forward derivative of a function",
      "The derivative takes the function's parameters and then a tangent for each parameter of --wrt; it "
      "gives the function's results and then\nthe tangents of those that depend on them.",
      DERIVED_OPTIONS | O_BIT(O_WRT), 1, 1, command_jvp },
    { "vmap", "FILE", "print or run a function over one more dim",
      "Every parameter that --in-axes does not set to 'none' gets one more dim; so does every result, in "
      "front.",
      DERIVED_OPTIONS | O_BIT(O_IN_AXES), 1, 1, command_vmap },
    { "probes", "FILE", "print or run a function with the values that it marks",
      "Values that a tag with use = probe marks are further results, those of loops with a row for each "
      "step.",
      DERIVED_OPTIONS | O_BIT(O_NAMES) | O_BIT(O_STACKED), 1, 1, command_probes },
    { "explain", "FILE", "say what the compiler does with a function",
      "Prints the passes with their times and node counts, the loop nests, what is stored and why, copies "
      "and why, memory, code size, whether the\ncache has it and the time of each stage.",
      O_BIT(O_FN) | O_BIT(O_GRAD) | O_BIT(O_JVP) | O_BIT(O_VMAP) | O_BIT(O_WRT) | O_BIT(O_VALUE) |
          O_BIT(O_IN_AXES) | O_BIT(O_STRICT) | O_BIT(O_WITHOUT) | O_BIT(O_THREADS) | O_BIT(O_SAVED) |
          O_BIT(O_LLVM) | O_BIT(O_ASM) | O_BIT(O_LOOPS) | O_BIT(O_NO_CACHE) | O_BIT(O_JSON) |
          O_BIT(O_CONSTANT) | O_BIT(O_OPERATORS),
      1, 1, command_explain },
    { "emit", "c|obj|so FILE", "write a function as C99, an object file or a shared library",
      "c: one self-contained C99 file and its header, from --out FILE.c (-o); they need nothing of hop. obj, "
      "so: the same compiled by the system's C\n"
      "compiler ($CC, else cc), with the header beside. See docs/emit.md.",
      O_BIT(O_FN) | O_BIT(O_GRAD) | O_BIT(O_JVP) | O_BIT(O_VMAP) | O_BIT(O_WRT) | O_BIT(O_VALUE) |
          O_BIT(O_IN_AXES) | O_BIT(O_STRICT) | O_BIT(O_WITHOUT) | O_BIT(O_OUT) | O_BIT(O_CAPACITY) |
          O_BIT(O_PLAIN) | O_BIT(O_CONSTANT) | O_BIT(O_OPERATORS),
      2, 2, command_emit },
    { "cache", "[list|clear]", "show or empty the cache of compiled programs",
      "Says where compiled programs are kept and how much they take. list: a line for each, the one used "
      "last first. clear: removes them all.\n"
      "HOP_CACHE=off|memory|DIR and HOP_CACHE_SIZE=256M in the environment set the place and the limit. See "
      "docs/cache.md.",
      O_BIT(O_JSON), 0, 1, command_cache },
    { "ops", "[NAME]", "list the operators and their rules",
      "Lists the operator table, or one row of it with its samples.",
      O_BIT(O_JSON) | O_BIT(O_MARKDOWN) | O_BIT(O_OPERATORS), 0, 1, command_ops },
};

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < HOP_COUNT(commands); i++)
        if (!strcmp(commands[i].name, name)) return &commands[i];
    return NULL;
}

static void help(FILE *out)
{
    fprintf(out, "hop %s: higher-order tensor programs\n\nhop COMMAND FILE… [options]\n\nCommands:\n",
            hop_version());
    for (size_t i = 0; i < HOP_COUNT(commands); i++)
        fprintf(out, "  %-8s  %s\n", commands[i].name, commands[i].meaning);
    fprintf(out, "\nhop COMMAND --help says more; hop --version prints the version.\n");
}

void options_free(void *options) { bag_free(&((struct options *)options)->bag); }

static int fail(hop_status status)
{
    bool colour = isatty(STDERR_FILENO) && !getenv("NO_COLOR");
    const char *red = colour ? "\033[1;31m" : "";
    const char *plain = colour ? "\033[0m" : "";
    fprintf(stderr, "%shop:%s %s\n", red, plain, hop_message());
    return status == HOP_CHECK ? EXIT_FAILED : EXIT_BAD;
}

static int run_command(const struct command *c, int argc, char **argv)
{
    struct hop_catch caught;
    struct options o = { 0 };
    volatile int code = EXIT_BAD;
    if (HOP_TRY(caught)) {
        hop_cleanup_push(options_free, &o);
        options_parse(&o, c, argc, argv);
        if (option_on(&o, O_HELP)) {
            options_help(c, stdout);
            code = EXIT_OK;
        } else {
            code = c->run(&o);
        }
        hop_cleanup_pop(&o);
        options_free(&o);
        hop_catch_end(&caught);
    } else {
        code = fail(hop_caught());
    }
    return code;
}

/* A result that could not be written is a failure: `hop run … > /dev/full` must not end with 0. */
static int flushed(int code)
{
    if ((fflush(stdout) || ferror(stdout)) && code == EXIT_OK) {
        fprintf(stderr, "hop: standard output could not be written: %s\n", strerror(errno));
        return EXIT_BAD;
    }
    return code;
}

int cli_main(int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return EXIT_BAD;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--version")) {
        printf("hop %s\n", hop_version());
        return flushed(EXIT_OK);
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        const struct command *c = argc > 2 ? command_find(argv[2]) : NULL;
        if (argc > 2 && !c) {
            fprintf(stderr, "hop: there is no command '%s'; see hop help\n", argv[2]);
            return EXIT_BAD;
        }
        c ? options_help(c, stdout) : help(stdout);
        return flushed(EXIT_OK);
    }
    const struct command *c = command_find(name);
    if (!c) {
        fprintf(stderr, "hop: there is no command '%s'; see hop help\n", name);
        return EXIT_BAD;
    }
    return flushed(run_command(c, argc - 2, argv + 2));
}
