/* How the text form writes numbers, strings and constants, so that reading them gives the same bits; and
 * strings as JSON. */
#include "ir/lexer.h"
#include "ir/number.h"
#include "ir/put.h"

#include <math.h>

void put_uint(struct text *t, uint64_t v)
{
    char digits[24], *p = digits + sizeof digits;
    do {
        *--p = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    put(t, p, (size_t)(digits + sizeof digits - p));
}

void put_int(struct text *t, int64_t v)
{
    if (v < 0) put_char(t, '-');
    put_uint(t, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* NULL: it has no escape of its own. */
static const char *short_escape(unsigned char c)
{
    switch (c) {
    case '\n': return "\\n";
    case '\t': return "\\t";
    case '\r': return "\\r";
    case '"': return "\\\"";
    case '\\': return "\\\\";
    default: return NULL;
    }
}

void text_quoted(struct text *t, const char *s)
{
    put_char(t, '"');
    for (const unsigned char *p = (const unsigned char *)s; *p;) {
        size_t n = utf8_length(p);
        const char *escape = short_escape(*p);
        if (escape) put_str(t, escape);
        else if (!n || *p < 32 || *p == 127) text_add(t, "\\x%02x", *p);
        else put(t, (const char *)p, n);
        p += n ? n : 1;
    }
    put_char(t, '"');
}

/* Digits after which a decimal number that reads back to the same bits is short enough to be printed. */
static int decimal_digits(enum dtype t) { return t == DT_F64 ? 16 : t == DT_F32 ? 7 : 4; }

static void put_real(struct text *t, double v, enum dtype dtype, bool point)
{
    char small[64];
    for (char *p = small; p == small;) {
        snprintf(small, sizeof small, "%.*g", decimal_digits(dtype), v);
        for (; *p; p++)
            if (*p == ',') *p = '.'; /* a locale's decimal point */
    }
    uint64_t back = dtype == DT_F32 ? f32_bits(strtof(small, NULL)) : real_bits(dtype, strtod(small, NULL));
    if (back != real_bits(dtype, v)) {
        snprintf(small, sizeof small, "%a", v);
        for (char *p = small; *p; p++)
            if (*p == ',') *p = '.';
    }
    put_str(t, small);
    if (point && !strpbrk(small, ".exp")) put_str(t, ".0");
}

void put_float(struct text *t, uint64_t bits, enum dtype dtype, bool point)
{
    struct float_layout layout = dtype_float_layout(dtype);
    double v = element_real(dtype, &bits);
    if (isnan(v)) {
        if (bits & layout.sign) put_char(t, '-');
        if ((bits & ~layout.sign) == layout.quiet) put_str(t, "nan");
        else text_add(t, "nan(0x%llx)", (unsigned long long)(bits & ~layout.sign));
    } else if (isinf(v)) put_str(t, v < 0 ? "-inf" : "inf");
    else if (v == floor(v) && fabs(v) < 1e6 && !(v == 0 && bits & layout.sign)) {
        put_int(t, (int64_t)v);
        if (point) put_str(t, ".0");
    } else put_real(t, v, dtype, point);
}

void text_real(struct text *t, uint64_t f64) { put_float(t, f64, DT_F64, true); }

void text_print_element(enum dtype dtype, const void *data, struct text *out)
{
    if (dtype == DT_BOOL) put_str(out, *(const uint8_t *)data ? "true" : "false");
    else if (dtype_is_float(dtype)) put_float(out, element_bits(dtype, data), dtype, false);
    else if (dtype_info[dtype].kind == KIND_UINT) put_uint(out, element_bits(dtype, data));
    else put_int(out, element_whole(dtype, data));
}

static const char *put_level(const struct module *m, struct text *t, struct type type, uint32_t level,
                             const char *data)
{
    if (level == type.rank) {
        text_print_element((enum dtype)type.dtype, data, t);
        return data + dtype_info[type.dtype].size;
    }
    int64_t n = dim_const_value(m, type.dims[level]);
    put_char(t, '[');
    for (int64_t i = 0; i < n; i++) {
        if (i) put_str(t, ", ");
        data = put_level(m, t, type, level + 1, data);
    }
    put_char(t, ']');
    return data;
}

void put_constant(const struct module *m, struct text *t, uint32_t index)
{
    put_level(m, t, type_get(m, m->constants.data[index].type), 0, m->constants.data[index].data);
}

void json_string(struct text *out, const char *s)
{
    text_str(out, "\"");
    for (size_t n = 1; *s; s += n) {
        unsigned char c = (unsigned char)*s;
        n = utf8_length((const unsigned char *)s);
        if (c == '"' || c == '\\') text_add(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f) text_add(out, "\\u%04x", c);
        else if (n) text_bytes(out, s, n);
        else text_str(out, "\\ufffd"); /* JSON is UTF-8: a byte that is none becomes the sign for that */
        if (!n) n = 1;
    }
    text_str(out, "\"");
}
