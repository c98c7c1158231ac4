/* Tensors as text: nested lists on one line, numbers in the shortest decimal form that reads back to the same
 * bits. */
#include "interp/interp.h"
#include "ir/number.h"

#include <ctype.h>
#include <math.h>

/* The decimal point is the host program's locale's; what we print is not. */
static void add_number(struct text *out, char *digits)
{
    for (char *c = digits; *c; c++)
        if (!isdigit((unsigned char)*c) && !strchr("+-e", *c)) *c = '.';
    text_str(out, digits);
}

static void add_real(struct text *out, double x, enum dtype t)
{
    if (isnan(x) || isinf(x)) {
        text_str(out, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    char digits[40];
    if (x == floor(x) && fabs(x) < 1e15) { /* 30, not 3e+01 */
        snprintf(digits, sizeof digits, "%.0f", x);
        add_number(out, digits);
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, x);
        bool same;
        if (t == DT_F32) same = strtof(digits, NULL) == (float)x;
        else same = real_bits(t, strtod(digits, NULL)) == real_bits(t, x);
        if (same) break;
    }
    add_number(out, digits);
}

static void add_element(struct text *out, const struct tensor *t, int64_t i)
{
    enum dtype dtype = (enum dtype)t->dtype;
    const void *at = (const char *)t->data + (size_t)i * dtype_info[dtype].size;
    switch ((enum dtype_kind)dtype_info[dtype].kind) {
    case KIND_BOOL: text_str(out, *(const uint8_t *)at ? "true" : "false"); return;
    case KIND_INT: text_add(out, "%lld", (long long)element_whole(dtype, at)); return;
    case KIND_UINT: text_add(out, "%llu", (unsigned long long)element_whole(dtype, at)); return;
    case KIND_FLOAT: add_real(out, element_real(dtype, at), dtype); return;
    case KIND_OBJECT: text_add(out, "object \"%s\"", t->kind); return;
    }
}

static void add_level(struct text *out, const struct tensor *t, uint32_t level, int64_t *at)
{
    if (level == t->rank) {
        add_element(out, t, (*at)++);
        return;
    }
    text_str(out, "[");
    for (int64_t i = 0; i < t->dims[level]; i++) {
        if (i) text_str(out, ", ");
        add_level(out, t, level + 1, at);
    }
    text_str(out, "]");
}

void tensor_print(struct text *out, const struct tensor *t)
{
    int64_t at = 0;
    add_level(out, t, 0, &at);
}

void format_values(struct text *out, const char *format, struct tensor *const *values, uint32_t n)
{
    uint32_t used = 0;
    for (const char *c = format, *next; *c; c = next) {
        next = used < n ? strstr(c, "{}") : NULL;
        text_bytes(out, c, next ? (size_t)(next - c) : strlen(c));
        if (!next) break;
        tensor_print(out, values[used++]);
        next += 2;
    }
    for (; used < n; used++) {
        if (out->len) text_str(out, " ");
        tensor_print(out, values[used]);
    }
    if (!out->len) text_str(out, ""); /* terminated even when nothing was added */
}
