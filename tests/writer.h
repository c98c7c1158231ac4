/* A text that grows: programs that tests write. */
#ifndef HOP_TESTS_WRITER_H
#define HOP_TESTS_WRITER_H

#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct writer {
    char *text;
    size_t n, room;
};
static void say(struct writer *w, const char *format, ...) HOP_PRINTF(2, 3);
static void say(struct writer *w, const char *format, ...)
{
    va_list args;
    if (w->n + 4096 > w->room) w->text = realloc(w->text, w->room = 2 * w->room + 8192);
    if (!w->text) exit(2);
    va_start(args, format);
    w->n += (size_t)vsnprintf(w->text + w->n, w->room - w->n, format, args);
    va_end(args);
}

#endif
