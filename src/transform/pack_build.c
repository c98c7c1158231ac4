/* Building what pass_pack.c found: a function or a loop comes in with its packs, the same with arrays in
 * their place goes out. Values are built when something needs them, so that what only stood between the lanes
 * is gone. */
#include "ir/number.h"
#include "transform/pack.h"

struct build {
    struct packing *p;
    struct copier c; /* from p->g */
};

static val build_value(struct build *w, val v);
static val build_list(struct build *w, const val *list, uint32_t n);
static void build_switch(struct build *w, const struct pack_switch *s);

/* ---- arrays of lanes ---- */

static uint32_t lane_rank(const struct module *m, type_id lane) { return type_get(m, lane).rank; }

type_id pack_type(struct module *m, type_id lane, uint32_t n)
{
    return type_insert_dim(m, lane, lane_rank(m, lane), dim_const(m, n));
}

/* Lanes from..to of an array; all of them are the array. */
static val some_lanes(struct builder *b, val x, uint32_t from, uint32_t to)
{
    struct type t = emit_type(b, x);
    uint32_t last = t.rank - 1u;
    dim start[MAX_RANK] = { 0 }, limit[MAX_RANK];
    if (from == 0 && t.dims[last] == to) return x;
    memcpy(limit, t.dims, t.rank * sizeof *limit);
    start[last] = dim_const(b->m, from);
    limit[last] = dim_const(b->m, to);
    return emit_slice(b, x, start, limit);
}

/* The lane by itself; an array with further dims in front gives one with these. */
static val one_lane(struct builder *b, val x, uint32_t lane)
{
    struct type t = emit_type(b, x);
    return emit_reshape(b, some_lanes(b, x, lane, lane + 1), t.rank - 1u, t.dims);
}

static val reshaped(struct builder *b, val x, type_id type)
{
    struct type t = type_get(b->m, type);
    return builder_type(b, x) == type ? x : emit_reshape(b, x, t.rank, t.dims);
}

/* The bytes of a number, given as a full or a constant. */
static void number_bytes(const struct packing *p, val v, char *out, size_t bytes, enum dtype t)
{
    const struct node *n = fn_node(p->g, p->g->values[v].node);
    const struct attr *a = node_attr(p->g, n, n->op == OP_full ? FULL_VALUE : CONSTANT_VALUE);
    size_t width = dtype_info[t].size;
    if (n->op == OP_constant) {
        memcpy(out, p->m->constants.data[a->i].data, bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += width) {
        if (a->kind == ATTR_INT) element_set_whole(t, out + at, a->i);
        else element_set_real(t, out + at, a->r);
    }
}

static val build_numbers(struct build *w, const val *list, uint32_t n)
{
    const struct packing *p = w->p;
    struct builder *b = w->c.b;
    type_id lane = value_type(p->g, list[0]), type = pack_type(p->m, lane, n);
    struct type t = type_get(p->m, type);
    size_t width = dtype_info[t.dtype].size;
    size_t elements = (size_t)static_elements(p->m, lane);
    size_t bytes = elements * width; /* of a lane */
    const struct node *first = fn_node(p->g, p->g->values[list[0]].node);
    char *data = arena_alloc(&b->arena, n * bytes);
    char *first_lane = arena_alloc(&b->arena, bytes);
    char *this_lane = arena_alloc(&b->arena, bytes);
    bool same = true;
    number_bytes(p, list[0], first_lane, bytes, (enum dtype)t.dtype);
    for (uint32_t k = 0; k < n; k++) {
        number_bytes(p, list[k], this_lane, bytes, (enum dtype)t.dtype);
        same &= !memcmp(first_lane, this_lane, bytes);
        for (size_t i = 0; i < elements; i++) {
            size_t at = i * n + k; /* lanes stand along the last dim */
            memcpy(data + at * width, this_lane + i * width, width);
        }
    }
    if (same && first->op == OP_full) {
        struct attr attrs[3] = { *node_attr(p->g, first, FULL_VALUE), A_DIMS(t.dims, t.rank),
                                 A_DTYPE(t.dtype) };
        return emit(b, OP_full, NULL, 0, attrs);
    }
    struct attr value = A_CONST(module_constant(p->m, type, data, n * bytes, 0));
    return emit(b, OP_constant, NULL, 0, &value);
}

static val build_pack(struct build *w, uint32_t k)
{
    const struct packing *p = w->p;
    struct pack *pack = &p->packs.data[k];
    if (pack->made != VAL_NONE) return pack->made;
    if (pack->kind == PACK_ARRAY) {
        val x = build_value(w, pack->array);
        if (!pack->across) {
            type_id lanes = type_prepend(p->m, pack->lane, dim_const(p->m, pack->n));
            x = emit_move_dim(w->c.b, reshaped(w->c.b, x, lanes), 0, lane_rank(p->m, pack->lane));
        }
        pack->made = x;
        return x;
    }
    if (pack->kind == PACK_SWITCH) {
        build_switch(w, switch_with_packs(p, pack->lanes[0]));
        return pack->made;
    }
    const struct node *n = fn_node(p->g, p->g->values[pack->lanes[0]].node);
    val *operands = ARENA_NEW(&w->c.b->arena, val, n->n_operands);
    for (uint32_t i = 0; i < n->n_operands; i++) operands[i] = build_list(w, pack->operands[i], pack->n);
    struct node_in in = { .op = n->op,
                          .operands = operands,
                          .n_operands = n->n_operands,
                          .attrs = p->g->attrs + n->attrs,
                          .place = n->place };
    pack->made = builder_node(w->c.b, &in);
    return pack->made;
}

static val build_gather(struct build *w, const val *list, uint32_t n)
{
    const struct packing *p = w->p;
    struct builder *b = w->c.b;
    int64_t *index = ARENA_NEW(&b->arena, int64_t, n);
    dim length = dim_const(p->m, n);
    uint32_t along = lane_rank(p->m, value_type(p->g, list[0]));
    for (uint32_t k = 0; k < n; k++) index[k] = p->home[list[k]].lane;
    type_id type = type_intern(p->m, DT_I64, 1, &length);
    struct attr value = A_CONST(module_constant(p->m, type, index, n * sizeof *index, 0));
    struct attr dims = A_INTS(&along, 1);
    val from = build_pack(w, p->home[list[0]].pack);
    val at = emit(b, OP_constant, NULL, 0, &value);
    return emit(b, OP_gather, (val[]){ from, at }, 2, &dims);
}

static val build_segment(struct build *w, const val *list, struct segment s)
{
    struct builder *b = w->c.b;
    const val *part = list + s.first;
    if (s.kind == SEGMENT_NUMBERS) return build_numbers(w, part, s.n);
    if (s.kind == SEGMENT_SAME) {
        val x = build_value(w, *part);
        struct type t = type_get(b->m, pack_type(b->m, builder_type(b, x), s.n));
        uint32_t at[MAX_RANK];
        for (uint32_t i = 0; i + 1 < t.rank; i++) at[i] = i;
        return s.n == 1 ? emit_reshape(b, x, t.rank, t.dims) : emit_broadcast(b, x, t.rank, t.dims, at);
    }
    struct home at = w->p->home[*part];
    val x = build_pack(w, at.pack);
    if (!s.down) return some_lanes(b, x, at.lane, at.lane + s.n);
    uint32_t along = emit_type(b, x).rank - 1u;
    struct attr dims = A_INTS(&along, 1);
    x = some_lanes(b, x, at.lane + 1 - s.n, at.lane + 1);
    return emit(b, OP_reverse, &x, 1, &dims);
}

static val build_list(struct build *w, const val *list, uint32_t n)
{
    if (list_is_gather(w->p, list, n)) return build_gather(w, list, n);
    val *parts = ARENA_NEW(&w->c.b->arena, val, n);
    uint32_t n_parts = 0;
    for (uint32_t at = 0; at < n;) {
        struct segment s = list_segment(w->p, list, n, at);
        parts[n_parts++] = build_segment(w, list, s);
        at += s.n;
    }
    struct attr along = A_INT(lane_rank(w->p->m, value_type(w->p->g, list[0])));
    return n_parts == 1 ? parts[0] : emit(w->c.b, OP_concat, parts, n_parts, &along);
}

/* ---- values and nodes ---- */

static void build_node(struct build *w, const struct node *n)
{
    for (uint32_t k = 0; k < n->n_operands; k++) build_value(w, node_operands(w->p->g, n)[k]);
    copier_node(&w->c, n);
}

static val build_value(struct build *w, val v)
{
    const struct packing *p = w->p;
    if (w->c.values[v] != VAL_NONE) return w->c.values[v];
    struct home at = p->home[v];
    if (at.pack != HOP_NONE && p->packs.data[at.pack].kind != PACK_ARRAY) {
        val x = one_lane(w->c.b, build_pack(w, at.pack), at.lane);
        builder_name(w->c.b, x, p->g->values[v].name);
        w->c.values[v] = x;
        return x;
    }
    const struct pack_switch *s = switch_with_packs(p, v);
    if (s) {
        build_switch(w, s);
        return w->c.values[v];
    }
    const struct node *n = fn_node(p->g, p->g->values[v].node);
    uint32_t count;
    const val *list = stacked_values(p, n, &count);
    if (list) {
        val lanes = build_list(w, list, count);
        uint32_t last = type_get(p->m, value_type(p->g, v)).rank - 1u;
        w->c.values[v] = emit_move_dim(w->c.b, lanes, last, 0);
    } else {
        build_node(w, n);
    }
    return w->c.values[v];
}

static void build_effects(struct build *w)
{
    const struct fn *g = w->p->g;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (node_effects(w->p->m, g, fn_node(g, i))) build_node(w, fn_node(g, i));
}

uint32_t build_function(struct packing *p)
{
    struct builder b;
    struct build w = { .p = p };
    builder_begin(&b, p->m, p->g);
    copier_begin(&w.c, &b, p->g);
    copier_params(&w.c);
    copy_requires(&w.c);
    build_effects(&w);
    val *results = ARENA_NEW(&b.arena, val, p->g->n_results);
    for (uint32_t k = 0; k < p->g->n_results; k++) results[k] = build_value(&w, p->g->results[k]);
    return builder_finish(&b, results, p->g->n_results);
}

/* ---- parameters ---- */

/* The packs of which parameters first..end of the body are lanes, and the parameters that are none, in the
 * order in which the new loop or branch has them. */
struct pack_param {
    uint32_t param, pack; /* pack HOP_NONE: the parameter itself */
};
struct pack_params {
    struct pack_param *data;
    uint32_t n;
};

static struct pack_params pack_params_of(const struct packing *p, uint32_t first, uint32_t end)
{
    struct pack_params s = { ARENA_NEW(p->a, struct pack_param, end - first), 0 };
    bool *seen = ARENA_ZNEW(p->a, bool, p->packs.len);
    for (uint32_t i = first; i < end; i++) {
        uint32_t pack = p->home[i].pack;
        if (pack == HOP_NONE || !seen[pack]) s.data[s.n++] = (struct pack_param){ i, pack };
        if (pack != HOP_NONE) seen[pack] = true;
    }
    return s;
}

/* NULL: the parameter itself. */
static struct pack *pack_of(const struct packing *p, struct pack_param s)
{
    return s.pack == HOP_NONE ? NULL : &p->packs.data[s.pack];
}

static void own_param(struct copier *c, uint32_t i)
{
    c->values[i] = builder_param(c->b, copier_type(c, value_type(c->f, i)), c->f->values[i].name);
}

static void own_params(struct copier *c, uint32_t first)
{
    for (uint32_t i = first; i < c->f->n_params; i++) own_param(c, i);
}

static void add_pack_params(struct copier *c, const struct packing *p, struct pack_params s)
{
    for (uint32_t k = 0; k < s.n; k++) {
        struct pack *pack = pack_of(p, s.data[k]);
        if (pack) pack->made = builder_param(c->b, pack_type(p->m, pack->lane, pack->n), 0);
        else own_param(c, s.data[k].param);
    }
}

/* ---- switches ---- */

/* A branch with the packs of its parameters and of the switch's results as arrays, and what it is given. */
static struct region_in build_branch(struct build *around, const struct pack_switch *s, uint32_t r)
{
    struct packing *p = &s->branches[r];
    const struct packing *outside = around->p;
    const struct region *region = node_region(outside->g, s->n, r);
    const val *given = node_operands(outside->g, s->n) + region->operands;
    struct arena *a = &around->c.b->arena;
    struct pack_params params = pack_params_of(p, 0, p->g->n_params);
    val *operands = ARENA_NEW(a, val, params.n);
    dim *dims = ARENA_NEW(a, dim, region->n_dims);
    for (uint32_t k = 0; k < params.n; k++) {
        val v = given[params.data[k].param];
        bool packed = params.data[k].pack != HOP_NONE;
        operands[k] = packed ? build_pack(around, outside->home[v].pack) : build_value(around, v);
    }
    for (uint32_t k = 0; k < region->n_dims; k++) dims[k] = copier_dim(&around->c, region->dims[k]);
    struct builder b;
    struct build w = { .p = p };
    builder_begin(&b, p->m, p->g);
    copier_begin(&w.c, &b, p->g);
    add_pack_params(&w.c, p, params);
    copy_requires(&w.c);
    val *results = ARENA_NEW(&b.arena, val, s->n->n_results);
    val *list = ARENA_NEW(&b.arena, val, s->n->n_results);
    bool *seen = ARENA_ZNEW(&b.arena, bool, outside->packs.len);
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->n->n_results; k++) {
        uint32_t home = outside->home[s->n->results + k].pack;
        if (home == HOP_NONE) {
            results[n++] = build_value(&w, p->g->results[k]);
        } else if (!seen[home]) {
            const struct pack *pack = &outside->packs.data[home];
            for (uint32_t i = 0; i < pack->n; i++) list[i] = p->g->results[pack->lanes[i] - s->n->results];
            results[n++] = build_list(&w, list, pack->n);
            seen[home] = true;
        }
    }
    uint32_t fn = builder_finish(&b, results, n);
    return (struct region_in){ .fn = fn, .operands = operands, .n_operands = params.n, .dims = dims };
}

static void build_switch(struct build *w, const struct pack_switch *s)
{
    const struct packing *p = w->p;
    const struct node *n = s->n;
    struct builder *b = w->c.b;
    val index = build_value(w, node_operands(p->g, n)[0]);
    struct region_in *regions = ARENA_NEW(&b->arena, struct region_in, n->n_regions);
    for (uint32_t r = 0; r < n->n_regions; r++) regions[r] = build_branch(w, s, r);
    val next = builder_node(b, &(struct node_in){ .op = n->op,
                                                  .operands = &index,
                                                  .n_operands = 1,
                                                  .groups = p->g->pool + n->groups,
                                                  .attrs = p->g->attrs + n->attrs,
                                                  .regions = regions,
                                                  .n_regions = n->n_regions,
                                                  .place = n->place });
    for (uint32_t k = 0; k < n->n_results; k++) {
        val v = n->results + k;
        uint32_t home = p->home[v].pack;
        if (home == HOP_NONE) {
            builder_name(b, next, p->g->values[v].name);
            w->c.values[v] = next++;
        } else if (p->packs.data[home].made == VAL_NONE) {
            p->packs.data[home].made = next++;
        }
    }
}

/* ---- loops ---- */

/* The predicate takes its carries out of the packs. */
static uint32_t build_cond(struct packing *p, struct pack_params carries)
{
    const struct fn *cond = p->l->cond;
    struct builder b;
    struct copier c;
    builder_begin(&b, p->m, cond);
    copier_begin(&c, &b, cond);
    add_pack_params(&c, p, carries);
    own_params(&c, p->l->n_carry);
    copy_requires(&c);
    struct liveness live = live_values(&b.arena, p->m, cond, (struct needs){ 0 });
    for (uint32_t i = 0; i < p->l->n_carry; i++)
        if (live.value[i] && c.values[i] == VAL_NONE) {
            struct home at = p->home[i];
            c.values[i] = one_lane(&b, p->packs.data[at.pack].made, at.lane);
        }
    for (uint32_t i = 0; i < cond->n_nodes; i++)
        if (live.node[i]) copier_node(&c, fn_node(cond, i));
    val *results = ARENA_NEW(&b.arena, val, cond->n_results);
    for (uint32_t k = 0; k < cond->n_results; k++) results[k] = c.values[cond->results[k]];
    return builder_finish(&b, results, cond->n_results);
}

static uint32_t build_body(struct packing *p, struct pack_params carries, struct pack_params overs)
{
    const struct loop *l = p->l;
    const struct fn *g = p->g;
    struct builder b;
    struct build w = { .p = p };
    builder_begin(&b, p->m, g);
    copier_begin(&w.c, &b, g);
    add_pack_params(&w.c, p, carries);
    add_pack_params(&w.c, p, overs);
    own_params(&w.c, loop_first_with(l));
    copy_requires(&w.c);
    build_effects(&w);
    val *results = ARENA_NEW(&b.arena, val, g->n_results);
    val *next = ARENA_NEW(&b.arena, val, l->n_carry);
    bool *stacked = ARENA_ZNEW(&b.arena, bool, p->packs.len);
    uint32_t n = 0;
    for (uint32_t k = 0; k < carries.n; k++) {
        struct pack_param s = carries.data[k];
        const struct pack *pack = pack_of(p, s);
        for (uint32_t i = 0; pack && i < pack->n; i++) next[i] = g->results[pack->lanes[i]];
        results[n++] = pack ? build_list(&w, next, pack->n) : build_value(&w, g->results[s.param]);
    }
    for (uint32_t k = l->n_carry; k < g->n_results; k++) {
        uint32_t pack = p->home[g->results[k]].pack;
        if (pack == HOP_NONE || !p->packs.data[pack].stacked) {
            results[n++] = build_value(&w, g->results[k]);
        } else if (!stacked[pack]) {
            stacked[pack] = true;
            results[n++] = build_pack(&w, pack);
        }
    }
    return builder_finish(&b, results, n);
}

/* First values outside as one array: rows of an array that is there, numbers, or whatever they are. */
static val build_outside(struct builder *b, const struct packing *p, const val *list, uint32_t n)
{
    struct fn view = { .n_params = b->n_params,
                       .n_values = b->values.len,
                       .n_nodes = b->nodes.len,
                       .values = b->values.data,
                       .nodes = b->nodes.data,
                       .pool = b->pool.data,
                       .attrs = b->attrs.data,
                       .regions = b->regions.data };
    struct home *home = ARENA_NEW(&b->arena, struct home, view.n_values);
    val *values = ARENA_NEW(&b->arena, val, view.n_values);
    struct packing outside = { .m = p->m, .a = &b->arena, .g = &view, .home = home };
    struct build w = { .p = &outside, .c = { .b = b, .f = &view, .values = values } };
    for (val v = 0; v < view.n_values; v++) values[v] = v;
    for (uint32_t k = 0; k < n; k++) {
        struct pack pack;
        int64_t lane;
        home[list[k]].pack = HOP_NONE;
        if (!array_with(p->m, &view, list[k], &pack, &lane)) continue;
        uint32_t at = 0;
        for (; at < outside.packs.len; at++) {
            const struct pack *known = &outside.packs.data[at];
            if (known->array == pack.array && known->across == pack.across) break;
        }
        if (at == outside.packs.len) vec_push(&b->arena, &outside.packs, pack);
        home[list[k]] = (struct home){ at, (uint32_t)lane };
    }
    return build_list(&w, list, n);
}

/* What the loop's node gave, taken out of what the new one gives. */
static void take_results(struct packing *p, struct builder *b, struct loop_results made,
                         struct pack_params carries, const bool *used, val *results)
{
    const struct loop *l = p->l;
    val *stack = ARENA_NEW(p->a, val, p->packs.len);
    for (uint32_t i = 0; i < p->packs.len; i++) stack[i] = VAL_NONE;
    for (uint32_t k = 0; k < carries.n; k++) {
        struct pack_param s = carries.data[k];
        const struct pack *pack = pack_of(p, s);
        val last = made.last + k;
        if (!pack) results[s.param] = last;
        for (uint32_t i = 0; pack && i < pack->n; i++)
            results[pack->lanes[i]] = used[pack->lanes[i]] ? one_lane(b, last, i) : VAL_NONE;
    }
    if (l->counts) results[loop_trips_result(l)] = made.trips;
    val next = made.stacks;
    for (uint32_t k = 0; k < l->n_stack; k++) {
        struct home at = p->home[p->g->results[l->n_carry + k]];
        val *out = &results[loop_stack_result(l, k)];
        if (at.pack == HOP_NONE || !p->packs.data[at.pack].stacked) {
            *out = next++;
            continue;
        }
        if (stack[at.pack] == VAL_NONE) stack[at.pack] = next++;
        *out = used[loop_stack_result(l, k)] ? one_lane(b, stack[at.pack], at.lane) : VAL_NONE;
    }
}

/* What a scan goes over so that its slices are the pack. */
static val all_columns(struct builder *b, const struct pack *pack, dim length)
{
    type_id rows = type_prepend(b->m, type_prepend(b->m, pack->lane, dim_const(b->m, pack->n)), length);
    return emit_move_dim(b, reshaped(b, pack->array, rows), 1, lane_rank(b->m, pack->lane) + 1);
}

bool build_loop(struct packing *p, struct copier *c, const bool *used, val *results)
{
    const struct loop *l = p->l;
    struct builder *b = c->b;
    struct loop old, made;
    loop_of_copy(c, l->n, &old);
    made = old;
    struct pack_params carries = pack_params_of(p, 0, l->n_carry);
    struct pack_params overs = pack_params_of(p, l->n_carry, loop_first_with(l));
    val *carry = ARENA_NEW(&b->arena, val, carries.n);
    val *over = ARENA_NEW(&b->arena, val, overs.n);
    val *init = ARENA_NEW(&b->arena, val, l->n_carry + 1);
    for (uint32_t k = 0; k < carries.n; k++) {
        struct pack_param s = carries.data[k];
        const struct pack *pack = pack_of(p, s);
        for (uint32_t i = 0; pack && i < pack->n; i++) init[i] = old.carry[pack->lanes[i]];
        carry[k] = pack ? build_outside(b, p, init, pack->n) : old.carry[s.param];
    }
    for (uint32_t k = 0; k < overs.n; k++) {
        struct pack_param s = overs.data[k];
        const struct pack *pack = pack_of(p, s);
        over[k] = pack ? all_columns(b, pack, old.length) : loop_operand(&old, s.param);
    }
    if (l->cond) made.cond = module_fn(p->m, build_cond(p, carries));
    for (uint32_t k = 0; k < p->packs.len; k++) p->packs.data[k].made = VAL_NONE;
    made.body = module_fn(p->m, build_body(p, carries, overs));
    made.carry = carry;
    made.n_carry = carries.n;
    if (loop_has_length(l)) made.over = over;
    made.n_over = overs.n;
    take_results(p, b, loop_build(b, &made), carries, used, results);
    return true;
}
