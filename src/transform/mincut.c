/* Implementation of mincut.h: augmenting along shortest paths, level by level, without recursion. */
#include "transform/mincut.h"

struct mincut mincut_new(struct arena *arena, uint32_t n)
{
    struct mincut g = { .arena = arena, .n = n, .first = ARENA_NEW(arena, uint32_t, n) };
    memset(g.first, 0xff, n * sizeof *g.first);
    return g;
}

void mincut_edge(struct mincut *g, uint32_t from, uint32_t to, int64_t capacity)
{
    vec_push(g->arena, &g->edges, (struct mincut_edge){ to, g->first[from], capacity });
    g->first[from] = g->edges.len - 1;
    vec_push(g->arena, &g->edges, (struct mincut_edge){ from, g->first[to], 0 });
    g->first[to] = g->edges.len - 1;
}

/* Distance of each vertex from the source over edges with capacity left; false when the sink is out of reach.
 */
static bool find_levels(const struct mincut *g, uint32_t source, uint32_t sink, uint32_t *level,
                        uint32_t *queue)
{
    memset(level, 0xff, g->n * sizeof *level);
    uint32_t head = 0, tail = 0;
    level[source] = 0;
    queue[tail++] = source;
    while (head < tail) {
        uint32_t v = queue[head++];
        for (uint32_t e = g->first[v]; e != HOP_NONE; e = g->edges.data[e].next) {
            const struct mincut_edge *edge = &g->edges.data[e];
            if (!edge->capacity || level[edge->to] != HOP_NONE) continue;
            level[edge->to] = level[v] + 1;
            queue[tail++] = edge->to;
        }
    }
    return level[sink] != HOP_NONE;
}

/* One more path along rising levels; at[v] is the next edge of v worth trying, path the edges so far. */
static bool augment(struct mincut *g, uint32_t source, uint32_t sink, const uint32_t *level, uint32_t *at,
                    uint32_t *path)
{
    uint32_t v = source, length = 0;
    while (v != sink) {
        uint32_t e = at[v];
        while (e != HOP_NONE && (!g->edges.data[e].capacity || level[g->edges.data[e].to] != level[v] + 1))
            e = g->edges.data[e].next;
        at[v] = e;
        if (e != HOP_NONE) {
            path[length++] = e;
            v = g->edges.data[e].to;
        } else if (!length) {
            return false;
        } else { /* a dead end: back, and past the edge that led here */
            uint32_t back = path[--length];
            v = g->edges.data[back ^ 1].to;
            at[v] = g->edges.data[back].next;
        }
    }
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < length; i++) least = HOP_MIN(least, g->edges.data[path[i]].capacity);
    for (uint32_t i = 0; i < length; i++) {
        g->edges.data[path[i]].capacity -= least;
        g->edges.data[path[i] ^ 1].capacity += least;
    }
    return true;
}

void mincut_solve(struct mincut *g, uint32_t source, uint32_t sink, bool *behind)
{
    uint32_t *level = ARENA_NEW(g->arena, uint32_t, g->n), *queue = ARENA_NEW(g->arena, uint32_t, g->n);
    uint32_t *at = ARENA_NEW(g->arena, uint32_t, g->n), *path = ARENA_NEW(g->arena, uint32_t, g->n);
    while (find_levels(g, source, sink, level, queue)) {
        memcpy(at, g->first, g->n * sizeof *at);
        while (augment(g, source, sink, level, at, path)) {}
    }
    uint32_t head = 0, tail = 0; /* what still reaches the sink stands behind the cut */
    memset(behind, 0, g->n);
    behind[sink] = true;
    queue[tail++] = sink;
    while (head < tail) {
        uint32_t v = queue[head++];
        for (uint32_t e = g->first[v]; e != HOP_NONE; e = g->edges.data[e].next) {
            uint32_t u = g->edges.data[e].to;
            if (behind[u] || !g->edges.data[e ^ 1].capacity) continue;
            behind[u] = true;
            queue[tail++] = u;
        }
    }
}
