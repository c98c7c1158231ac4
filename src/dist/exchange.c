/* From what a program asks for (sizes in elements, pairs of ranks, an axis of a mesh) to calls of dist.h. */
#include "dist/exchange.h"

_Static_assert((int)HOP_RT_MESH_AXES == (int)DIST_AXES, "a mesh is a mesh");

static const enum dist_kind kinds[] = {
    [HOP_RT_ALL_REDUCE] = DIST_ALL_REDUCE,
    [HOP_RT_ALL_GATHER] = DIST_ALL_GATHER,
    [HOP_RT_REDUCE_SCATTER] = DIST_REDUCE_SCATTER,
    [HOP_RT_ALL_TO_ALL] = DIST_ALL_TO_ALL,
    [HOP_RT_PERMUTE] = DIST_PERMUTE,
    [HOP_RT_BROADCAST] = DIST_BROADCAST,
};

static int64_t ranks_of(const struct hop_rt_exchange_numbers *x)
{
    int64_t ranks = 1;
    for (int64_t k = 0; k < x->n_axes; k++) ranks *= x->sizes[k];
    return ranks;
}

/* One rank alone has all there is; a permute that sends it nothing gives it zeros. */
static hop_status alone(const struct hop_rt_exchange *x)
{
    const struct hop_rt_exchange_numbers *v = x->numbers;
    size_t bytes = (size_t)(v->rows * v->size) * dtype_info[x->dtype].size;
    if (ranks_of(v) != 1) {
        hop_set_message("the program is for %lld ranks, and this thread is none of them",
                        (long long)ranks_of(v));
        return HOP_INVALID;
    }
    if (v->kind == HOP_RT_INDEX) memset(x->out, 0, sizeof(int64_t));
    else if (v->kind == HOP_RT_PERMUTE && !v->n_pairs) memset(x->out, 0, bytes);
    else if (x->in != x->out && bytes) memmove(x->out, x->in, bytes);
    return HOP_OK;
}

static void find_pairs(const struct hop_rt_exchange_numbers *v, const struct comm *c, struct dist_call *call)
{
    call->to = call->from = -1;
    for (int64_t i = 0; i < v->n_pairs; i++) {
        if (v->pairs[2 * i] == c->me) call->to = (int32_t)v->pairs[2 * i + 1];
        if (v->pairs[2 * i + 1] == c->me) call->from = (int32_t)v->pairs[2 * i];
    }
}

hop_status exchange_begin(struct rank *r, const struct hop_rt_exchange *x, struct dist_request *request)
{
    const struct hop_rt_exchange_numbers *v = x->numbers;
    struct comm *c;
    request->comm = NULL;
    if (!r) return alone(x);
    if (v->kind == HOP_RT_INDEX && ranks_of(v) == r->size) { /* any thread of the rank may ask */
        int64_t number = rank_coordinate(r, (uint32_t)v->n_axes, v->sizes, (uint32_t)v->axis);
        memcpy(x->out, &number, sizeof number);
        return HOP_OK;
    }
    hop_status status = dist_along(r, (uint32_t)v->n_axes, v->sizes, 1u << v->axis, &c);
    if (status) return status;
    bool reduces = v->kind == HOP_RT_ALL_REDUCE || v->kind == HOP_RT_REDUCE_SCATTER;
    struct dist_call call = { .kind = kinds[v->kind],
                              .dtype = (enum dtype)x->dtype,
                              .op = (enum reduction)v->op,
                              .scalar = v->scalar,
                              .in = x->in,
                              .out = x->out,
                              .rows = v->rows,
                              .size = reduces ? v->size : v->size * (int64_t)dtype_info[x->dtype].size,
                              .root = (int32_t)v->root };
    if (v->kind == HOP_RT_PERMUTE) find_pairs(v, c, &call);
    return dist_begin(c, &call, request);
}

hop_status exchange_wait(struct dist_request *request)
{
    if (!request->comm) return HOP_OK;
    hop_status status = dist_wait(request);
    request->comm = NULL;
    return status;
}

hop_status exchange_do(const struct hop_rt_exchange *x)
{
    struct dist_request request;
    hop_status status = exchange_begin(rank_current(), x, &request);
    return status ? status : exchange_wait(&request);
}
