/* The LLVM back end's plug-in: struct code_generator with LLVM behind it. A loop program becomes a module of
 * vector code (llvm_stmt.c), the module an object for the host (no IR passes: the program is already what
 * should run). Errors come back as text. */
#include "emit/llvm.h"

#include <llvm-c/Analysis.h>
#include <dlfcn.h>
#include <llvm/Config/llvm-config.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <pthread.h>
#include <time.h>

/* ---- the process: what the host is, a few target machines ---- */

/* A target machine serves one compilation at a time; they are kept for the next. */
struct machine {
    LLVMTargetMachineRef machine;
    LLVMTargetDataRef layout;
    struct machine *next;
};
static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    char error[512];
    LLVMTargetRef target;
    char *triple, *cpu, *features;
    uint32_t vector_bytes;
    bool has_fma, has_f16, has_pairs;
    struct machine *free;
} host = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER };

static bool has_feature(const char *feature)
{
    size_t n = strlen(feature);
    for (const char *at = strstr(host.features, feature); at; at = strstr(at + n, feature)) {
        bool begins = at == host.features || at[-1] == ',';
        bool ends = at[n] == ',' || !at[n];
        if (begins && ends) return true;
    }
    return false;
}

static void install_handlers(void);

static void host_start(void)
{
    char *message = NULL;
    install_handlers();
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    host.triple = LLVMGetDefaultTargetTriple();
    host.cpu = LLVMGetHostCPUName();
    host.features = LLVMGetHostCPUFeatures();
    if (LLVMGetTargetFromTriple(host.triple, &host.target, &message)) {
        snprintf(host.error, sizeof host.error, "LLVM has no target for %s: %s", host.triple, message);
        LLVMDisposeMessage(message);
        return;
    }
    bool x86 = !strncmp(host.triple, "x86_64", 6);
    bool wide = has_feature("+avx512f") && has_feature("+avx512vl") && has_feature("+avx512bw") &&
                has_feature("+avx512dq");
    host.vector_bytes = x86 && wide ? 64 : x86 && has_feature("+avx") ? 32 : 16;
    host.has_fma = x86 ? has_feature("+fma") : true;
    host.has_pairs = x86 && (wide || (host.vector_bytes == 32 && has_feature("+avx2")));
    host.has_f16 = x86 ? has_feature("+f16c")
                       : !strncmp(host.triple, "aarch64", 7) || !strncmp(host.triple, "arm64", 5);
}

static struct machine *machine_take(void)
{
    pthread_mutex_lock(&host.lock);
    struct machine *m = host.free;
    if (m) host.free = m->next;
    pthread_mutex_unlock(&host.lock);
    if (m) return m;
    m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->machine = LLVMCreateTargetMachine(host.target, host.triple, host.cpu, host.features,
                                         LLVMCodeGenLevelLess, LLVMRelocPIC, LLVMCodeModelDefault);
    m->layout = m->machine ? LLVMCreateTargetDataLayout(m->machine) : NULL;
    if (m->layout) return m;
    free(m);
    return NULL;
}

static void machine_give(struct machine *m)
{
    pthread_mutex_lock(&host.lock);
    m->next = host.free;
    host.free = m;
    pthread_mutex_unlock(&host.lock);
}

/* ---- the emitter's own memory and errors ---- */

/* What LLVM takes, measured: to begin with, for each instruction of the loop program while IR is written, for
 * each instruction of IR, and while code is generated for each instruction of the largest function; with a
 * third on top. */
enum { MEMORY_TO_BEGIN = 16 << 20, MEMORY_WRITING = 700, MEMORY_KEPT = 400, MEMORY_GENERATING = 2200 };

void emit_fail(struct emitter *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(e->error, 512, format, args);
    va_end(args);
    longjmp(e->failed, 1);
}

static void emit_out_of_memory(struct emitter *e)
{
    e->no_memory = true;
    emit_fail(e, "out of memory");
}

static void need_memory(struct emitter *e, uint64_t bytes)
{
    if (!e->options->memory || bytes <= e->options->memory) return;
    e->no_memory = true;
    unsigned long long size = lp_size(e->p), needed = bytes >> 20, left = e->options->memory >> 20;
    emit_fail(e,
              "code for this program (%llu instructions before LLVM) needs about %llu MB of memory, and %llu "
              "MB are left; "
              "HOP_COMPILE_MEMORY=%lluM would allow it",
              size, needed, left, needed + 1);
}

/* LLVM, and the C++ library below it, know no error: they say what is wrong and end the process. Instead,
 * where it was a compilation of ours, that is left by a jump, and LLVM's part of it is given up: it may have
 * stopped anywhere. On other threads all goes on as it would have without us. */
static _Thread_local struct emitter *at_work;

static void give_up(bool no_memory, const char *reason)
{
    struct emitter *e = at_work;
    at_work = NULL;
    e->broken = true;
    e->no_memory = no_memory;
    snprintf(e->error, 512, no_memory ? "out of memory in LLVM: %.400s" : "LLVM: %.400s",
             reason ? reason : "");
    longjmp(e->failed, 1);
}

static void on_fatal_error(const char *reason)
{
    if (at_work) give_up(reason && strstr(reason, "out of memory"), reason);
}

static void on_bad_alloc(void *unused, const char *reason, bool crash)
{
    HOP_UNUSED(unused);
    HOP_UNUSED(crash);
    if (at_work) give_up(true, reason);
}

/* C++ without C++: by the names that its compilers give these. Weak: LLVM may have been built with another
 * C++ library. */
typedef void new_handler(void);
extern new_handler *set_new_handler(new_handler *) __asm__("_ZSt15set_new_handlerPFvvE")
    __attribute__((weak));
extern void throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));
extern void install_bad_alloc_handler(void (*)(void *, const char *, bool), void *) __asm__(
    "_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_") __attribute__((weak));

static new_handler *handler_before;

static void on_no_memory(void)
{
    if (at_work) give_up(true, "operator new");
    if (handler_before) handler_before();
    else if (throw_bad_alloc) throw_bad_alloc();
    else abort();
}

static void install_handlers(void)
{
    LLVMInstallFatalErrorHandler(on_fatal_error);
    if (install_bad_alloc_handler) install_bad_alloc_handler(on_bad_alloc, NULL);
    if (set_new_handler) handler_before = set_new_handler(on_no_memory);
}

struct chunk {
    struct chunk *older;
    _Alignas(16) char bytes[];
};
enum { CHUNK = 1 << 16 };

void *emit_alloc(struct emitter *e, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > e->left) {
        size_t size = HOP_MAX(bytes, (size_t)CHUNK);
        struct chunk *c = calloc(1, sizeof *c + size);
        if (!c) emit_out_of_memory(e);
        c->older = e->memory;
        e->memory = c;
        e->left = size;
        e->next = c->bytes;
    }
    void *r = e->next;
    e->next += bytes;
    e->left -= bytes;
    return r;
}

static void emitter_end(struct emitter *e)
{
    if (e->builder && !e->broken) LLVMDisposeBuilder(e->builder);
    if (e->module && !e->broken) LLVMDisposeModule(e->module);
    if (e->context && !e->broken) LLVMContextDispose(e->context);
    struct chunk *chunk = e->memory;
    while (chunk) {
        struct chunk *older = chunk->older;
        free(chunk);
        chunk = older;
    }
    e->memory = NULL;
}

/* ---- compiling ---- */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void string_attribute(struct emitter *e, LLVMValueRef fn, const char *key, const char *value)
{
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(e->context, key, (unsigned)strlen(key), value,
                                                      (unsigned)strlen(value)));
}

void func_attributes(struct emitter *e, LLVMValueRef fn)
{
    unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(e->context, nounwind, 0));
    if (e->vector_bytes < 64) return;
    string_attribute(e, fn, "prefer-vector-width", "512");
    string_attribute(e, fn, "min-legal-vector-width", "512");
}

static void emitter_begin(struct emitter *e, const struct machine *m)
{
    char *layout = LLVMCopyStringRepOfTargetData(m->layout);
    e->vector_bytes = host.vector_bytes;
    e->has_fma = host.has_fma;
    e->has_pairs = host.has_pairs;
    e->has_f16 = host.has_f16 && !e->options->plain_f16;
    e->context = LLVMContextCreate();
    e->module = LLVMModuleCreateWithNameInContext("hop", e->context);
    e->builder = LLVMCreateBuilderInContext(e->context);
    LLVMSetTarget(e->module, host.triple);
    LLVMSetDataLayout(e->module, layout);
    LLVMDisposeMessage(layout);
    e->i1 = LLVMInt1TypeInContext(e->context);
    e->i8 = LLVMInt8TypeInContext(e->context);
    e->i16 = LLVMInt16TypeInContext(e->context);
    e->i32 = LLVMInt32TypeInContext(e->context);
    e->f16 = LLVMHalfTypeInContext(e->context);
    e->i64 = LLVMInt64TypeInContext(e->context);
    e->f32 = LLVMFloatTypeInContext(e->context);
    e->f64 = LLVMDoubleTypeInContext(e->context);
    e->ptr = LLVMPointerTypeInContext(e->context, 0);
    e->nothing = LLVMVoidTypeInContext(e->context);
}

/* Copies a text of LLVM's into memory that free releases. */
static char *plain_copy(const char *text, size_t n)
{
    char *r = malloc(n + 1);
    if (!r) return NULL;
    memcpy(r, text, n);
    r[n] = 0;
    return r;
}

/* Code generation changes the module, so the assembly is made from a copy. */
static char *assembly_text(struct emitter *e, const struct machine *m)
{
    LLVMModuleRef copy = LLVMCloneModule(e->module);
    LLVMMemoryBufferRef buffer = NULL;
    char *message = NULL, *r = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(m->machine, copy, LLVMAssemblyFile, &message, &buffer))
        LLVMDisposeMessage(message);
    else {
        r = plain_copy(LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
        LLVMDisposeMemoryBuffer(buffer);
    }
    LLVMDisposeModule(copy);
    return r;
}

static void keep_texts(struct emitter *e, const struct machine *m, struct native *out)
{
    if (e->options->keep_ir_text) {
        char *text = LLVMPrintModuleToString(e->module);
        out->ir_text = plain_copy(text, strlen(text));
        LLVMDisposeMessage(text);
    }
    if (e->options->keep_machine_text) out->machine_text = assembly_text(e, m);
}

/* Instructions of the module, and of its largest function. */
static uint64_t count_instructions(LLVMModuleRef module, uint64_t *largest)
{
    uint64_t all = 0;
    *largest = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        uint64_t n = 0;
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) n++;
        all += n;
        *largest = HOP_MAX(*largest, n);
    }
    return all;
}

/* Procedures come before those that call them, the program last. */
static void emit_program(struct emitter *e)
{
    const char *name = e->name;
    char own[32];
    e->program = e->p;
    e->procedures = EMIT_NEW(e, LLVMValueRef, e->program->procedures.len + 1);
    for (uint32_t i = 0; i < e->program->procedures.len; i++) {
        snprintf(own, sizeof own, "procedure%u", i);
        e->name = own;
        e->p = e->program->procedures.data[i];
        e->plan = (struct plan){ 0 };
        plan_make(e);
        e->procedures[i] = emit_entry(e);
        LLVMSetLinkage(e->procedures[i], LLVMInternalLinkage);
    }
    e->name = name;
    e->p = e->program;
    e->plan = (struct plan){ 0 };
    plan_make(e);
    emit_entry(e);
}

/* ---- parts ---- */

/* A program of some size is compiled in parts, on a thread each. LLVM's contexts serve one thread, so that
 * every part writes the whole program, a small part of the work, and generates code for its functions alone.
 */
struct part {
    const struct lp *p;
    struct emit_options options;
    uint32_t number, of;
    struct native out;
    uint64_t print; /* of what the functions are, as this part has written them: they must agree */
    int status;
    char error[512];
};

struct weighed {
    LLVMValueRef fn;
    uint64_t weight;
    uint32_t number, part;
};

/* What LLVM does for any function, in instructions of it. */
enum { WEIGHT_OF_FUNCTION = 40 };

static uint64_t weight_of(LLVMValueRef fn)
{
    uint64_t n = WEIGHT_OF_FUNCTION;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) n++;
    return n;
}

static int heavier_first(const void *x, const void *y)
{
    const struct weighed *a = x, *b = y;
    if (a->weight != b->weight) return a->weight > b->weight ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* A function of another part stays as a name. */
static void make_declaration(LLVMValueRef fn)
{
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b), next; i; i = next) {
            next = LLVMGetNextInstruction(i);
            if (LLVMGetFirstUse(i)) LLVMReplaceAllUsesWith(i, LLVMGetPoison(LLVMTypeOf(i)));
            LLVMInstructionEraseFromParent(i);
        }
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn), next; b; b = next) {
        next = LLVMGetNextBasicBlock(b);
        LLVMDeleteBasicBlock(b);
    }
}

/* Gives every function to a part, the heaviest first, each to the part that has least. */
static void keep_own_functions(struct emitter *e, struct part *part)
{
    uint32_t n = 0, filled = 0;
    uint64_t loads[OBJECT_MOST_PARTS] = { 0 };
    for (LLVMValueRef f = LLVMGetFirstFunction(e->module); f; f = LLVMGetNextFunction(f)) n++;
    struct weighed *all = EMIT_NEW(e, struct weighed, n);
    for (LLVMValueRef f = LLVMGetFirstFunction(e->module); f; f = LLVMGetNextFunction(f)) {
        if (LLVMIsDeclaration(f)) continue;
        all[filled] = (struct weighed){ .fn = f, .weight = weight_of(f), .number = filled };
        part->print = (part->print ^ all[filled].weight) * 0x100000001b3u;
        filled++;
    }
    qsort(all, filled, sizeof *all, heavier_first);
    for (uint32_t i = 0; i < filled; i++) {
        uint32_t least = 0;
        for (uint32_t k = 1; k < part->of; k++)
            if (loads[k] < loads[least]) least = k;
        loads[least] += all[i].weight;
        LLVMSetLinkage(all[i].fn, LLVMExternalLinkage);
        LLVMSetVisibility(all[i].fn, LLVMHiddenVisibility);
        if (least != part->number) make_declaration(all[i].fn);
    }
    for (LLVMValueRef g = LLVMGetFirstGlobal(e->module), next; g; g = next) {
        next = LLVMGetNextGlobal(g);
        if (!LLVMGetFirstUse(g)) LLVMDeleteGlobal(g);
    }
}

static void compile_module(struct emitter *e, const struct machine *m, struct part *part)
{
    struct native *out = &part->out;
    char *message = NULL;
    double t0 = now_ms(), t1, t2;
    uint64_t largest;
    emit_program(e);
    uint64_t all = count_instructions(e->module, &largest);
    need_memory(e, MEMORY_TO_BEGIN + all * MEMORY_KEPT + largest * MEMORY_GENERATING);
    if (part->of > 1) keep_own_functions(e, part);
    if (LLVMVerifyModule(e->module, LLVMReturnStatusAction, &message)) {
        snprintf(e->error, 512, "the emitted module is not valid: %s", message);
        LLVMDisposeMessage(message);
        longjmp(e->failed, 1);
    }
    LLVMDisposeMessage(message);
    t1 = now_ms();
    keep_texts(e, m, out);
    double t1b = now_ms();
    LLVMMemoryBufferRef object;
    if (LLVMTargetMachineEmitToMemoryBuffer(m->machine, e->module, LLVMObjectFile, &message, &object)) {
        snprintf(e->error, 512, "LLVM: %s", message);
        LLVMDisposeMessage(message);
        longjmp(e->failed, 1);
    }
    out->object_bytes = LLVMGetBufferSize(object);
    out->object = plain_copy(LLVMGetBufferStart(object), out->object_bytes);
    LLVMDisposeMemoryBuffer(object);
    if (!out->object) emit_out_of_memory(e);
    t2 = now_ms();
    out->ir_ms = t1 - t0;
    out->codegen_ms = t2 - t1b;
}

static const char *library(void)
{
    Dl_info info;
    return dladdr((void *)LLVMContextCreate, &info) && info.dli_fname && info.dli_fname[0] == '/'
               ? info.dli_fname
               : "";
}

static void drop_native(struct native *n)
{
    free(n->object);
    free(n->ir_text);
    free(n->machine_text);
    *n = (struct native){ 0 };
}

static void compile_part(void *given)
{
    struct part *part = given;
    struct emitter e = { .p = part->p, .options = &part->options, .name = ENTRY_NAME, .error = part->error };
    struct machine *volatile m = NULL;
    volatile int status = EMIT_FAILED;
    if (!setjmp(e.failed)) {
        need_memory(&e, MEMORY_TO_BEGIN + lp_size(part->p) * MEMORY_WRITING);
        pthread_once(&host.once, host_start);
        if (host.error[0]) emit_fail(&e, "%s", host.error);
        at_work = &e;
        m = machine_take();
        if (!m) emit_fail(&e, "LLVM made no target machine for %s", host.cpu);
        emitter_begin(&e, m);
        compile_module(&e, m, part);
        status = EMIT_OK;
    }
    at_work = NULL;
    emitter_end(&e);
    if (m && !e.broken) machine_give(m);
    if (status) drop_native(&part->out);
    part->status = status && e.no_memory ? EMIT_NOMEM : status;
}

/* Below this many instructions of the loop program a thread more is not worth its while. */
enum { LEAST_TO_PART = 200, WORK_OF_PART = 150 };

static uint32_t parts_for(const struct lp *p, const struct emit_options *o)
{
    uint64_t size = lp_size(p);
    uint32_t threads = o->threads ? o->threads->n : 1;
    if (o->keep_ir_text || o->keep_machine_text || threads < 2) return 1;
    if (o->many_parts) return HOP_MIN(threads, OBJECT_MOST_PARTS);
    if (size < LEAST_TO_PART) return 1;
    uint64_t worth = HOP_MAX(size / WORK_OF_PART, 2);
    return (uint32_t)HOP_MIN(HOP_MIN(worth, threads), OBJECT_MOST_PARTS);
}

static size_t padded(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

/* The objects of all parts as one; false: no memory. */
static bool join_parts(const struct part *parts, uint32_t n, struct native *out)
{
    struct object_parts head = { .magic = OBJECT_PARTS_MAGIC, .n = n };
    size_t all = sizeof head;
    for (uint32_t k = 0; k < n; k++) {
        head.bytes[k] = parts[k].out.object_bytes;
        all += padded(head.bytes[k]);
        out->ir_ms = HOP_MAX(out->ir_ms, parts[k].out.ir_ms);
        out->codegen_ms = HOP_MAX(out->codegen_ms, parts[k].out.codegen_ms);
    }
    out->object = calloc(1, all);
    if (!out->object) return false;
    memcpy(out->object, &head, sizeof head);
    size_t at = sizeof head;
    for (uint32_t k = 0; k < n; k++) {
        memcpy((char *)out->object + at, parts[k].out.object, head.bytes[k]);
        at += padded(head.bytes[k]);
    }
    out->object_bytes = all;
    return true;
}

/* All parts side by side. False where one could not be made: then all of it is made at once, which also tells
 * best what is wrong. */
static bool compile_parts(const struct lp *p, const struct emit_options *o, uint32_t n, struct native *out)
{
    struct part *parts = calloc(n, sizeof *parts);
    void *begun[OBJECT_MOST_PARTS] = { 0 };
    bool good = parts;
    for (uint32_t k = 0; k < n && good; k++) {
        parts[k] = (struct part){ .p = p, .options = *o, .number = k, .of = n };
        if (o->memory) parts[k].options.memory = HOP_MAX(o->memory / n, 1);
    }
    for (uint32_t k = 1; k < n && good; k++) {
        begun[k] = o->threads->begin(compile_part, &parts[k]);
        good = begun[k] != NULL;
    }
    if (good) compile_part(&parts[0]);
    for (uint32_t k = 1; k < n; k++) o->threads->end(begun[k]);
    for (uint32_t k = 0; k < n && good; k++) good = !parts[k].status && parts[k].print == parts[0].print;
    good = good && join_parts(parts, n, out);
    for (uint32_t k = 0; k < n && parts; k++) drop_native(&parts[k].out);
    free(parts);
    return good;
}

static int compile(const struct lp *p, const struct emit_options *o, struct native *out, char error[512])
{
    static const struct emit_options defaults = { 0 };
    *out = (struct native){ 0 };
    if (!o) o = &defaults;
    uint32_t n = parts_for(p, o);
    if (n > 1 && compile_parts(p, o, n, out)) return EMIT_OK;
    struct part whole = { .p = p, .options = *o, .of = 1 };
    compile_part(&whole);
    *out = whole.out;
    if (whole.status) memcpy(error, whole.error, sizeof whole.error);
    return whole.status;
}

const struct code_generator hop_llvm_generator = { .version = "LLVM " LLVM_VERSION_STRING,
                                                   .compile = compile,
                                                   .library = library,
                                                   .code = (const void *)LLVMContextCreate };
