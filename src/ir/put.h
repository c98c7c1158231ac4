/* Inside of the printer: what it appends to its text, quickly, since a program is many short words. */
#ifndef HOP_PUT_H
#define HOP_PUT_H

#include "ir/text.h"

static inline void put(struct text *t, const char *bytes, size_t n)
{
    if (t->len + n + 1 > t->cap) {
        text_bytes(t, bytes, n);
        return;
    }
    memcpy(t->data + t->len, bytes, n);
    t->len += n;
    t->data[t->len] = 0;
}
static inline void put_char(struct text *t, char c) { put(t, &c, 1); }
static inline void put_str(struct text *t, const char *s) { put(t, s, strlen(s)); }

void put_uint(struct text *t, uint64_t v);
void put_int(struct text *t, int64_t v);
/* Bits of a float. `point`: must not look like an integer. */
void put_float(struct text *t, uint64_t bits, enum dtype dtype, bool point);
void put_constant(const struct module *m, struct text *t, uint32_t index); /* its elements, as nested lists */

#endif
