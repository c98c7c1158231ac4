/* Minimum cuts of directed graphs with capacities (Dinic). */
#ifndef HOP_MINCUT_H
#define HOP_MINCUT_H

#include "base/base.h"

#define MINCUT_INFINITE ((int64_t)1 << 60)

struct mincut_edge {
    uint32_t to, next; /* next edge from the same vertex; edge i and i ^ 1 are each other's reverse */
    int64_t capacity;  /* what is left of it */
};
struct mincut {
    struct arena *arena;
    uint32_t n;      /* vertices */
    uint32_t *first; /* per vertex: its first edge, HOP_NONE */
    vec(struct mincut_edge) edges;
};
struct mincut mincut_new(struct arena *arena, uint32_t n);
void mincut_edge(struct mincut *g, uint32_t from, uint32_t to, int64_t capacity);
/* Cuts source from sink as close to the sink as a minimum cut can be. behind[v]: v stands on the sink's side.
 */
void mincut_solve(struct mincut *g, uint32_t source, uint32_t sink, bool *behind);

#endif
