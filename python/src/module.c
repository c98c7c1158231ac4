/* The module: errors, the user's place in his program, and what the package registers. */
#include "core.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

PyObject *array_class, *tracer_class, *dtype_objects, *error_classes;

/* ---- errors ---- */

/* error_classes: (Error, InvalidError, CheckError, TracerError, UnavailableError, FileError, InternalError,
 * NotFiniteError).
 */
enum error_class {
    ERROR,
    ERROR_INVALID,
    ERROR_CHECK,
    ERROR_TRACER,
    ERROR_UNAVAILABLE,
    ERROR_FILE,
    ERROR_INTERNAL,
    ERROR_NUMBERS
};

static PyObject *error_class(enum error_class which)
{
    PyObject *c = error_classes ? PyTuple_GetItem(error_classes, which) : NULL;
    if (!c) PyErr_Clear();
    return c ? c : PyExc_RuntimeError;
}

bool is_internal_error(PyObject *exception)
{
    return PyErr_GivenExceptionMatches(exception, error_class(ERROR_INTERNAL));
}

PyObject *raise_status(int status)
{
    static const uint8_t classes[] = {
        [HOP_INVALID] = ERROR_INVALID,         [HOP_CHECK] = ERROR_CHECK, [HOP_IO] = ERROR_FILE,
        [HOP_UNAVAILABLE] = ERROR_UNAVAILABLE, [HOP_CANCELLED] = ERROR,   [HOP_INTERNAL] = ERROR_INTERNAL
    };
    if (PyErr_Occurred()) { /* a body raised: that is what the user must see */
        hop_forgive();
        return NULL;
    }
    bool known = status > 0 && status <= HOP_INTERNAL;
    enum error_class class = known ? (enum error_class)classes[status] : ERROR;
    if (status == HOP_CHECK && strstr(hop_message(), "debug_nans: ")) class = ERROR_NUMBERS;
    PyErr_SetString(status == HOP_NOMEM ? PyExc_MemoryError : error_class(class), hop_message());
    hop_forgive();
    return NULL;
}

PyObject *raise_tracer(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    PyErr_FormatV(error_class(ERROR_TRACER), format, list);
    va_end(list);
    return NULL;
}

/* A program that goes on after such an exception was caught would have taken a way that has nothing to do
 * with the values. */
static _Thread_local long n_unknown;
static void keep_unknown(PyObject *exception)
{
    n_unknown += PyObject_IsInstance(exception, error_class(ERROR_TRACER)) == 1;
    for (struct frame *f = frame_top(); f; f = f->outer)
        if (!f->unknown) f->unknown = Py_NewRef(exception);
}

PyObject *raise_unknown(const char *format, ...)
{
    PyObject *type, *value, *trace;
    va_list list;
    va_start(list, format);
    PyErr_FormatV(error_class(ERROR_TRACER), format, list);
    va_end(list);
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value) keep_unknown(value);
    PyErr_Restore(type, value, trace);
    return NULL;
}

/* unknown(exception): the exception, kept as by raise_unknown */
static PyObject *unknown(PyObject *self, PyObject *exception)
{
    (void)self;
    keep_unknown(exception);
    return Py_NewRef(exception);
}

static PyObject *unknowns(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromLong(n_unknown);
}

/* known(exception): the captures at work may go on after it */
static PyObject *forget_unknown(PyObject *self, PyObject *exception)
{
    (void)self;
    for (struct frame *f = frame_top(); f; f = f->outer)
        if (f->unknown == exception) Py_CLEAR(f->unknown);
    Py_RETURN_NONE;
}

const char *text_or_null(PyObject *o)
{
    if (!o || o == Py_None) return NULL;
    if (!PyUnicode_Check(o)) {
        PyErr_SetString(PyExc_TypeError, "expected a text");
        return NULL;
    }
    return PyUnicode_AsUTF8AndSize(o, NULL);
}

/* ---- places ---- */

/* hop keeps pointers to file names: each is kept once, for good. */
static const char **files;
static size_t n_files, room_files;
static const char *file_kept(const char *name)
{
    for (size_t i = 0; i < n_files; i++)
        if (!strcmp(files[i], name)) return files[i];
    if (n_files == room_files) {
        size_t room = room_files ? 2 * room_files : 32;
        const char **more = realloc(files, room * sizeof *more);
        if (!more) return "";
        files = more;
        room_files = room;
    }
    size_t n = strlen(name) + 1;
    char *copy = malloc(n);
    if (!copy) return "";
    memcpy(copy, name, n);
    return files[n_files++] = copy;
}

static char package[1024]; /* the package's folder, with a / at its end */
enum { MOST_CODES = 256 };
static struct {
    PyObject *code;       /* strong */
    const char *file;     /* NULL: hop's own */
    const char *function; /* NULL: not looked up yet; "": of the standard library */
} codes[MOST_CODES];

/* The file of a code object, NULL for one of the package. */
static const char *file_of(PyObject *code)
{
    size_t slot = ((uintptr_t)code >> 4) % MOST_CODES;
    if (codes[slot].code == code) return codes[slot].file;
    PyObject *name = PyObject_GetAttrString(code, "co_filename");
    const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    const char *file = "";
    bool of_package = text && package[0] && !strncmp(text, package, strlen(package));
    if (text) file = of_package ? NULL : file_kept(text);
    Py_XDECREF(name);
    PyErr_Clear();
    PyObject *old = codes[slot].code;
    Py_INCREF(code);
    codes[slot].code = code;
    codes[slot].file = file;
    codes[slot].function = NULL;
    Py_XDECREF(old);
    return file;
}

bool code_of_package(PyObject *code) { return !file_of(code); }

/* ---- the stack of the user's program ---- */

/* What the last walk found, from the outermost frame on: where nothing has changed, nothing is looked up. */
enum { MOST_FRAMES = 24, MOST_WALKED = 400 };
struct level {
    int line;
    const char *file, *function; /* of the code */
    const char *framed;          /* hop_frame of it, called from the level before */
};
static struct level known[MOST_FRAMES];
static int n_known;
static hop_place known_base; /* where the outermost one was called */

/* Whether a file is one of the standard library, whose frames are left out. */
static bool of_library(const char *file)
{
    static char library[1024];
    if (!library[0]) {
        PyObject *os = PyImport_ImportModule("os");
        PyObject *path = os ? PyObject_GetAttrString(os, "__file__") : NULL;
        const char *text = path ? PyUnicode_AsUTF8AndSize(path, NULL) : NULL;
        const char *end = text ? strrchr(text, '/') : NULL;
        snprintf(library, sizeof library, "%.*s/", end ? (int)(end - text) : 1, end ? text : "?");
        Py_XDECREF(path);
        Py_XDECREF(os);
        PyErr_Clear();
    }
    if (!strncmp(file, "<frozen", 7)) return true;
    return !strncmp(file, library, strlen(library)) && !strstr(file, "-packages/");
}

/* The function of a code object of this file, kept; "": it is the standard library's. */
static const char *function_of(PyObject *code, const char *file)
{
    size_t slot = ((uintptr_t)code >> 4) % MOST_CODES;
    bool known_code = codes[slot].code == code;
    if (known_code && codes[slot].function) return codes[slot].function;
    PyObject *name = of_library(file) ? NULL : PyObject_GetAttrString(code, "co_name");
    const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    const char *kept = file_kept(text ? text : "");
    Py_XDECREF(name);
    PyErr_Clear();
    if (known_code) codes[slot].function = kept;
    return kept;
}

/* The file's name with the frames around it, for a capture's places. innermost: the first frame that is the
 * user's. Beyond the frame in which the body at work began nothing is looked at, nor beyond a module's own
 * code; of very deep stacks the outer frames are left out. */
static const char *framed(PyObject *innermost, int line)
{
    static PyObject *back;
    struct level found[MOST_FRAMES];
    int n = 0, walked = 0;
    if (!back) back = PyUnicode_InternFromString("f_back");
    const struct frame *capture = frame_top();
    PyObject *frame = Py_NewRef(innermost);
    bool inside = true;
    while (back && inside && frame && frame != Py_None && n < MOST_FRAMES && ++walked < MOST_WALKED) {
        if (frame == capture->base) break;
        PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
        const char *file = file_of(code), *function = file ? function_of(code, file) : "";
        Py_DECREF(code); /* the frame holds it */
        if (*function) {
            int here = n ? PyFrame_GetLineNumber((PyFrameObject *)frame) : line;
            found[n++] = (struct level){ here, file, function, NULL };
            inside = strcmp(function, "<module>") != 0;
        }
        PyObject *next = PyObject_GetAttr(frame, back);
        Py_DECREF(frame);
        frame = next;
    }
    bool based = frame && frame == capture->base;
    Py_XDECREF(frame);
    PyErr_Clear();
    hop_place caller = based ? capture->base_at : hop_here(NULL, 0);
    bool same = caller.file == known_base.file && caller.line == known_base.line;
    known_base = caller;
    for (int i = 0; i < n; i++) {
        struct level *level = &found[n - 1 - i];
        const struct level *old = i < n_known ? &known[i] : NULL;
        bool alike = same && old && old->file == level->file && old->function == level->function;
        level->framed = alike ? old->framed : hop_frame(level->file, level->function, caller);
        /* what is called from here is framed as before if this frame and its line are as they were */
        same = alike && old->line == level->line;
        caller = hop_here(level->framed, level->line);
    }
    for (int i = 0; i < n; i++) known[i] = found[n - 1 - i];
    n_known = n;
    return caller.file;
}

/* Where the user is; *called, unless NULL, becomes the code object of the package's function that he called,
 * strong, or NULL. with_callers: the place knows the frames around it. */
static hop_place user_frame(PyObject **called, bool with_callers)
{
    PyObject *type, *value, *trace;
    hop_place at = { "", 0 };
    PyErr_Fetch(&type, &value, &trace);
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    Py_XINCREF(frame);
    while (frame && frame != Py_None) {
        PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
        const char *file = file_of(code);
        if (!file && called) {
            Py_XDECREF(*called);
            *called = Py_NewRef(code);
        }
        Py_DECREF(code);
        if (file) {
            at = hop_here(file, PyFrame_GetLineNumber((PyFrameObject *)frame));
            const char *with_frames = with_callers ? framed(frame, at.line) : NULL;
            if (with_frames) at.file = with_frames;
            break;
        }
        PyObject *back = PyObject_GetAttrString(frame, "f_back");
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    PyErr_Restore(type, value, trace);
    return at;
}

hop_place user_place(void) { return user_frame(NULL, frame_top() != NULL); }

const char *user_call(char text[CALLED_SIZE])
{
    PyObject *type, *value, *trace, *code = NULL;
    hop_place at = user_frame(&code, false);
    PyErr_Fetch(&type, &value, &trace);
    PyObject *name = code ? PyObject_GetAttrString(code, "co_name") : NULL;
    const char *called = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    bool named = called && *called != '_' && *called != '<';
    snprintf(text, CALLED_SIZE, "%.200s:%d: %.60s%s", at.file, at.line, named ? called : "",
             named ? ": " : "");
    Py_XDECREF(name);
    Py_XDECREF(code);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return text;
}

PyObject *raise_invalid(const char *format, ...)
{
    char call[CALLED_SIZE];
    va_list list;
    va_start(list, format);
    PyObject *said = PyUnicode_FromFormatV(format, list);
    va_end(list);
    if (said) PyErr_Format(error_class(ERROR_INVALID), "%s%U", user_call(call), said);
    Py_XDECREF(said);
    return NULL;
}

/* is_package_code(code): whether it is hop's own */
static PyObject *is_package_code(PyObject *self, PyObject *code)
{
    (void)self;
    return PyBool_FromLong(code_of_package(code));
}

static PyObject *place(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    hop_place at = user_place();
    return Py_BuildValue("(si)", at.file, at.line);
}
static PyObject *call_place(PyObject *self, PyObject *unused)
{
    char text[CALLED_SIZE];
    (void)self;
    (void)unused;
    return PyUnicode_FromString(user_call(text));
}

/* ---- what the package registers ---- */

static PyObject *setup(PyObject *self, PyObject *args)
{
    static int64_t home = -1; /* the interpreter whose objects are kept here */
    PyObject *classes[4];
    const char *folder;
    (void)self;
    unsigned long ident;
    int64_t here = PyInterpreterState_GetID(PyInterpreterState_Get());
    if (home >= 0 && home != here) {
        PyErr_SetString(PyExc_ImportError,
                        "hop serves one interpreter of a process, and another one has imported it already");
        return NULL;
    }
    home = here;
    if (!PyArg_ParseTuple(args, "OOOOsk", &classes[0], &classes[1], &classes[2], &classes[3], &folder,
                          &ident))
        return NULL;
    set_main_thread(ident);
    PyObject **kept[4] = { &array_class, &tracer_class, &dtype_objects, &error_classes };
    for (int i = 0; i < 4; i++) {
        Py_INCREF(classes[i]);
        Py_XDECREF(*kept[i]);
        *kept[i] = classes[i];
    }
    snprintf(package, sizeof package, "%s", folder);
    Py_RETURN_NONE;
}

static PyObject *track(PyObject *self, PyObject *on)
{
    (void)self;
    hop_debug_track(PyObject_IsTrue(on));
    Py_RETURN_NONE;
}
static PyObject *leaks(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    char *text = hop_debug_leaks();
    if (!text) return PyErr_NoMemory();
    PyObject *made = PyUnicode_FromString(text);
    hop_text_free(text);
    return made;
}

static PyObject *cache_statistics(PyObject *self, PyObject *unused)
{
    hop_cache_stats s = { 0 };
    (void)self;
    (void)unused;
    hop_cache_statistics(&s);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K}", "memory_hits", (unsigned long long)s.memory_hits,
                         "disk_hits", (unsigned long long)s.disk_hits, "misses", (unsigned long long)s.misses,
                         "entries", (unsigned long long)s.entries, "bytes", (unsigned long long)s.bytes,
                         "limit", (unsigned long long)s.limit);
}

static PyObject *blas(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyUnicode_FromString(hop_blas());
}

static PyObject *threads(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromLong(hop_threads());
}

static PyObject *set_threads(PyObject *self, PyObject *number)
{
    (void)self;
    long n = PyLong_AsLong(number);
    if (n == -1 && PyErr_Occurred()) return NULL;
    return PyLong_FromLong(hop_set_threads((int)n));
}

static PyMethodDef methods[] = {
    { "setup", setup, METH_VARARGS,
      "setup(Array, Tracer, dtypes, errors, folder, main thread): what the package defines" },
    { "place", place, METH_NOARGS, "the innermost line of the program that is not hop's own" },
    { "is_package_code", is_package_code, METH_O, "is_package_code(code): whether it is hop's own" },
    { "call_place", call_place, METH_NOARGS,
      "that line and the function of the package that was called there, as messages begin" },
    { "known", forget_unknown, METH_O, "known(exception): the captures at work may go on after it" },
    { "unknown", unknown, METH_O,
      "unknown(exception): the exception, which the captures at work will raise at their end" },
    { "unknowns", unknowns, METH_NOARGS,
      "how often this thread asked for what is known only when a program runs" },
    { "cache_statistics", cache_statistics, METH_NOARGS,
      "what compilations found in the cache, and what it holds" },
    { "blas", blas, METH_NOARGS, "what multiplies large matrices, and by which kernel" },
    { "threads", threads, METH_NOARGS, "how many threads runs take" },
    { "set_threads", set_threads, METH_O, "set_threads(n): how many they take from now on; 0: the usual" },
    { "debug_track", track, METH_O, "debug_track(on): notes every handle of the library from now on" },
    { "debug_leaks", leaks, METH_NOARGS, "the noted handles that are not freed" },
    { NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = { PyModuleDef_HEAD_INIT, .m_name = "hop._core",
                                         .m_doc = "The C part of hop.", .m_size = -1, .m_methods = methods };

PyMODINIT_FUNC PyInit__core(void)
{
    PyObject *m = PyModule_Create(&definition);
    if (!m) return NULL;
    if (array_init(m) || elements_init(m) || object_init(m) || dist_init(m) || size_init(m) ||
        exchange_init(m) || ops_init(m) || eager_init(m) || function_init(m) || exe_init(m) ||
        bodies_init(m) || custom_init(m) || region_init(m) || cut_init(m) || jit_init(m) || guards_init(m) ||
        callback_init(m) || operator_init(m) || numpy_init(m) || journal_init(m) || entry_init(m) ||
        PyModule_AddStringConstant(m, "version", hop_version())) {
        Py_DECREF(m);
        return NULL;
    }
    return m;
}
