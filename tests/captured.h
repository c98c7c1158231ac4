/* A program written against the public header, with inputs and expected numbers: captured, then run by the
 * interpreter, by the loop program's executor, by native code and eagerly; all must give the expected numbers
 * and, in strict mode, the same bits. */
#ifndef HOP_TEST_CAPTURED_H
#define HOP_TEST_CAPTURED_H

#include "ir/number.h"
#include "check.h"
#include "runtime/exe.h"

#include <math.h>

enum { MOST = 6 };
struct program {
    const char *name, *params;
    int n_in, n_out;
    hop_body body;
    const char *types[MOST];
    double in[MOST][32];
    const char *out_types[MOST];
    double expect[MOST][32];
};

static enum dtype dtype_of(const hop_tensor *t)
{
    enum dtype dtype = DT_BOOL;
    dtype_from_name(hop_tensor_dtype(t), strlen(hop_tensor_dtype(t)), &dtype);
    return dtype;
}
static double get(const hop_tensor *t, int64_t i)
{
    return element_real(dtype_of(t), (const char *)hop_data(t) + i * dtype_info[dtype_of(t)].size);
}
static void set(hop_tensor *t, int64_t i, double v)
{
    element_set_real(dtype_of(t), (char *)hop_data(t) + i * dtype_info[dtype_of(t)].size, v);
}

static const char *type_of(const hop_tensor *t)
{
    static char text[128];
    int n = snprintf(text, sizeof text, "%s[", hop_tensor_dtype(t));
    for (int i = 0; i < hop_tensor_rank(t); i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", i ? ", " : "",
                      (long long)hop_tensor_dim(t, i));
    snprintf(text + n, sizeof text - (size_t)n, "]");
    return text;
}

static void expect(const struct program *p, const char *how, hop_tensor **out)
{
    for (int k = 0; k < p->n_out; k++) {
        CLAIM(!strcmp(type_of(out[k]), p->out_types[k]), "%s, %s: result %d is %s, expected %s", p->name, how,
              k, type_of(out[k]), p->out_types[k]);
        int64_t n = hop_tensor_count(out[k]), bad = -1;
        for (int64_t i = 0; i < n && i < 32 && bad < 0; i++) {
            double e = p->expect[k][i], g = get(out[k], i);
            if (g != e && !(fabs(g - e) <= 2e-6 * fmax(1, fabs(e))) && !(isnan(g) && isnan(e))) bad = i;
        }
        CLAIM(bad < 0, "%s, %s: element %lld of result %d is %.9g, expected %.9g", p->name, how,
              (long long)bad, k, get(out[k], bad < 0 ? 0 : bad), p->expect[k][bad < 0 ? 0 : bad]);
    }
}

static void same_bits(const struct program *p, const char *how, hop_tensor **a, hop_tensor **b)
{
    for (int k = 0; k < p->n_out; k++) {
        struct tensor *x = (struct tensor *)a[k], *y = (struct tensor *)b[k];
        size_t bytes = (size_t)x->count * dtype_info[x->dtype].size;
        CLAIM(x->count == y->count && (!bytes || !memcmp(x->data, y->data, bytes)),
              "%s: result %d differs between the interpreter and %s", p->name, k, how);
    }
}

static void free_all(hop_tensor **t, int n)
{
    for (int i = 0; i < n; i++) hop_tensor_free(t[i]), t[i] = NULL;
}

static inline void check_program(const struct program *p)
{
    hop_fn *f = NULL, *again = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[MOST] = { 0 }, *out[MOST] = { 0 }, *other[MOST] = { 0 };
    int status = hop_capture(&f, p->params, p->n_out, p->body, NULL);
    CLAIM(!status, "%s: capture gives %d: %s", p->name, status, hop_message());
    if (status) return;
    for (int i = 0; i < p->n_in; i++) {
        CLAIM(!hop_tensor_new(&in[i], p->types[i]), "%s: %s", p->name, hop_message());
        for (int64_t k = 0; k < hop_tensor_count(in[i]); k++) set(in[i], k, p->in[i][k]);
    }
    CLAIM(!(status = hop_interpret(f, in, p->n_in, out, p->n_out)), "%s: the interpreter gives %d: %s",
          p->name, status, hop_message());
    if (!status) expect(p, "interpreted", out);
    const char *text = hop_fn_text(f);
    CLAIM(text && !hop_fn_read(&again, text, NULL), "%s: its text does not read back: %s\n%s", p->name,
          hop_message(), text ? text : "");
    for (int portable = 0; portable < 2 && !status; portable++) {
        if (!portable && !exe_available()) continue;
        CLAIM(!hop_compile(&exe, f,
                           &(hop_compile_options){ .strict = 1, .portable = portable, .threads = 1 }),
              "%s: compile: %s", p->name, hop_message());
        int ran = exe ? hop_run(exe, in, p->n_in, other, p->n_out) : 1;
        CLAIM(!ran, "%s: run: %s", p->name, hop_message());
        if (!ran) same_bits(p, portable ? "the loop program" : "native code", out, other);
        free_all(other, MOST);
        hop_exe_free(exe);
        exe = NULL;
    }
    if (!status) {
        int ran = hop_eager(p->params, p->body, NULL, in, p->n_in, other, p->n_out);
        CLAIM(!ran, "%s: eagerly: %s", p->name, hop_message());
        if (!ran) same_bits(p, "eager mode", out, other);
    }
    free_all(other, MOST);
    free_all(out, MOST);
    free_all(in, MOST);
    hop_fn_free(again);
    hop_fn_free(f);
}

#define BODY(name) static int name(void *env, const hop_val *in, hop_val *out)
#define UNUSED (void)env, (void)in

#endif
