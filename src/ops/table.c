/* The table itself: a pointer to each row, in the order of ops.def; and which of them are the loops that
 * others build. */
#include "ir/loop.h"

#define OP(name) extern const struct op_row row_##name;
#include "ops/ops.def"
#undef OP

const struct op_row *const op_table[OP_COUNT] = {
#define OP(name) &row_##name,
#include "ops/ops.def"
#undef OP
};

const uint16_t loop_ops[LOOP_KINDS] = {
    [LOOP_SCAN] = OP_scan, [LOOP_MAP] = OP_map, [LOOP_COUNTED] = OP_fori_loop, [LOOP_WHILE] = OP_while_loop
};

enum op op_find(const char *name, size_t length)
{
    for (int i = 0; i < OP_COUNT; i++)
        if (strlen(op_table[i]->name) == length && !memcmp(op_table[i]->name, name, length))
            return (enum op)i;
    return OP_COUNT;
}
