/* hop explain: what compiling does with a function. */
#include "runtime/explain.h"
#include "cli/cli.h"

int command_explain(struct options *o)
{
    struct module *m = program_load(o->files.data[0]);
    hop_cleanup_push(module_free, m);
    uint32_t fn = program_transformed(o, m, program_select(m, o->fn));
    struct explain_options options = {
        .compile = { .passes = { .without = o->without, .strict = option_on(o, O_STRICT) },
                     .threads = o->threads,
                     .no_cache = option_on(o, O_NO_CACHE),
                     .keep_ir_text = option_on(o, O_LLVM),
                     .keep_machine_text = option_on(o, O_ASM),
                     .over = fn_updates(&o->bag.arena, module_fn(m, fn)),
                     .constant = program_constants(o, m, module_fn(m, fn)) },
        .kept = option_on(o, O_GRAD) ? saved_last(m) : NULL,
        .saved = option_on(o, O_SAVED),
        .loops = option_on(o, O_LOOPS),
        .json = option_on(o, O_JSON),
    };
    struct text out = { .arena = &o->bag.arena };
    explain_function(m, fn, &options, &out);
    fwrite(out.data, 1, out.len, stdout);
    hop_cleanup_pop(m);
    module_free(m);
    return EXIT_OK;
}
