/* Attributes whose names no row knows: of a region, whatever its user gives it. The attribute of kind
 * ATTR_NAMED is a list of strings, two for each: the name, and the value as the text form writes it,
 * ascending by name; equal lists are equal attributes. A value is a string, an integer, a real, true, false,
 * or a list of those in brackets. */
#ifndef HOP_NAMED_H
#define HOP_NAMED_H

#include "ir/lexer.h"

/* Reads NAME = VALUE and adds it; what is given twice is an error. */
void named_read(struct module *m, struct lexer *lx, struct arena *arena, struct attr *to);
/* "bits = 8, mode = \"even\"", as `what` in messages; absent for NULL and for nothing. */
struct attr named_parse(struct module *m, const char *what, const char *text, struct arena *arena);
/* The list with one more, which it does not have; name and value: strings of the module. */
struct attr named_with(const struct module *m, const struct attr *a, uint32_t name, uint32_t value,
                       struct arena *arena);
void named_print(const struct module *m, const struct attr *a, struct text *out);

/* What a name is given, as text; NULL: nothing. */
const char *named_value(const struct module *m, const struct attr *a, const char *name);
/* The same where it is an integer, a number, a string: false, NULL where it is something else. */
bool named_int(const struct module *m, const struct attr *a, const char *name, int64_t *out);
bool named_real(const struct module *m, const struct attr *a, const char *name, double *out);
const char *named_string(const struct module *m, const struct attr *a, const char *name, struct arena *arena);
/* On: true, "yes", "on". Off: false, "no", "off". */
enum named_switch { SWITCH_ABSENT, SWITCH_OFF, SWITCH_ON, SWITCH_UNKNOWN };
enum named_switch named_switch(const struct module *m, const struct attr *a, const char *name);

#endif
