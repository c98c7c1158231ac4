/* Bodies made for higher-order nodes by the transforms, and operands for bodies that run on more lanes than need them. */
#include "hops/hops.h"

void new_body_begin(struct new_body *body, struct builder *around, const struct fn *like, const dim *dims, uint32_t n_dims)
{
    uint32_t n = like ? like->n_outer_symbols : 0;
    builder_begin(&body->b, around->m, like);
    body->around = around;
    body->cap = n + 8;
    body->dims = ARENA_NEW(&around->arena, dim, body->cap);
    for (uint32_t i = 0; i < n; i++) body->dims[i] = i < n_dims ? dims[i] : HOP_NONE;
}

dim new_body_dim(struct new_body *body, dim d)
{
    struct module *m = body->b.m;
    if (dim_is_const(m, d)) return d;
    for (uint32_t i = 0; i < body->b.n_outer_symbols; i++)
        if (body->dims[i] == d) return dim_symbol(m, i);
    char name[16];
    int length = snprintf(name, sizeof name, "d%u", body->b.n_outer_symbols);
    int64_t lo, hi;
    dim_range(m, body->around->symbols.data, d, &lo, &hi);
    uint32_t s = builder_symbol(&body->b, module_string(m, name, (size_t)length), HOP_MAX(lo, 0), hi);
    if (s == body->cap) {
        dim *grown = ARENA_NEW(&body->around->arena, dim, body->cap * 2);
        memcpy(grown, body->dims, body->cap * sizeof *grown);
        body->dims = grown, body->cap *= 2;
    }
    body->dims[s] = d;
    return dim_symbol(m, s);
}

type_id new_body_type(struct new_body *body, type_id t)
{
    struct type type = type_get(body->b.m, t);
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < type.rank; i++) dims[i] = new_body_dim(body, type.dims[i]);
    return type_intern(body->b.m, type.dtype, type.rank, dims);
}

struct region_in new_body_finish(struct new_body *body, const val *results, uint32_t n_results, const val *operands, uint32_t n_operands)
{
    uint32_t fn = builder_finish(&body->b, results, n_results);
    return (struct region_in){ fn, operands, n_operands, body->dims };
}

val first_lane(struct builder *b, val mask)
{
    struct attr along = A_INT(0);
    val number = emit_cast(b, mask, DT_I32);
    return emit(b, OP_argmax, &number, 1, &along);
}

val safe_operand(struct builder *b, val mask, val first, val x)
{
    struct attr along = A_INT(0);
    val one = emit(b, OP_take, (val[]){ x, first }, 2, &along);
    if (dtype_is_float((enum dtype)emit_type(b, x).dtype)) one = emit1(b, OP_stop_gradient, one);
    return emit_where(b, mask, x, emit_broadcast_front(b, one, emit_type(b, x).dims[0]));
}
