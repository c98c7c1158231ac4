/* Distributed arrays: what is cut into parts comes back bit for bit, on random meshes, shapes and
 * placements; parts are where the rule says; reductions are those of the ranks' values; texts that say
 * nothing are refused. */
#include "check.h"

#include "dist/parts.h"

static uint64_t random_state = 7;
static uint32_t draw(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

static hop_tensor *counted(const int64_t *dims, int rank)
{
    hop_tensor *t = NULL;
    CLAIM(!hop_tensor_new_dims(&t, "i32", dims, rank), "%s", hop_message());
    int32_t *data = hop_data(t);
    for (int64_t i = 0; i < hop_tensor_count(t); i++) data[i] = (int32_t)i;
    return t;
}

static bool same(const hop_tensor *a, const hop_tensor *b)
{
    if (hop_tensor_rank(a) != hop_tensor_rank(b) || hop_tensor_count(a) != hop_tensor_count(b)) return false;
    for (int i = 0; i < hop_tensor_rank(a); i++)
        if (hop_tensor_dim(a, i) != hop_tensor_dim(b, i)) return false;
    return !hop_tensor_count(a) ||
           !memcmp(hop_data_const(a), hop_data_const(b), (size_t)hop_tensor_count(a) * sizeof(int32_t));
}

/* A part has the elements of its box. */
static void check_box(const hop_tensor *whole, const hop_tensor *part, const struct spread *s, int rank)
{
    int64_t dims[4], index[4] = { 0 };
    struct part_box box;
    int n = hop_tensor_rank(whole);
    const int32_t *all = hop_data_const(whole), *mine = hop_data_const(part);
    for (int i = 0; i < n; i++) dims[i] = hop_tensor_dim(whole, i);
    parts_box(s, rank, (uint32_t)n, dims, &box);
    const int64_t *begins = box.offsets, *sizes = box.sizes;
    for (int i = 0; i < n; i++)
        CLAIM(hop_tensor_dim(part, i) == sizes[i], "rank %d, dim %d: %lld elements, expected %lld", rank, i,
              (long long)hop_tensor_dim(part, i), (long long)sizes[i]);
    for (int64_t k = 0; k < hop_tensor_count(part); k++) {
        int64_t at = 0;
        for (int i = 0; i < n; i++) at = at * dims[i] + begins[i] + index[i];
        CLAIM(mine[k] == all[at], "rank %d, element %lld: %d, expected %d", rank, (long long)k, mine[k],
              all[at]);
        for (int i = n; i-- > 0;) {
            if (++index[i] < sizes[i]) break;
            index[i] = 0;
        }
    }
}

static void round_trip(void)
{
    static const char *const axes[] = { "a", "b", "c" };
    char mesh[64] = "", placements[64] = "";
    int64_t dims[4];
    int n_axes = 1 + (int)draw(3), rank = (int)draw(5);
    bool plain = true;
    for (int i = 0; i < rank; i++) dims[i] = draw(8) ? 1 + draw(9) : 0;
    for (int k = 0; k < n_axes; k++) {
        sprintf(mesh + strlen(mesh), "%s%s=%u", k ? ", " : "", axes[k], 1 + draw(4));
        uint32_t what = draw((uint32_t)rank + 3);
        if (what < (uint32_t)rank) sprintf(placements + strlen(placements), "%s%u", k ? " " : "", what);
        else sprintf(placements + strlen(placements), "%s%s", k ? " " : "", what & 1 ? "_" : "sum");
        plain &= placements[strlen(placements) - 1] == '_';
    }
    hop_tensor *whole = counted(dims, rank), *spread = NULL, *back = NULL, *again = NULL;
    CLAIM(!hop_distribute(&spread, whole, mesh, placements), "%s", hop_message());
    CLAIM(plain ? !hop_tensor_parts(spread) : !strcmp(hop_tensor_placements(spread), placements),
          "%s became %s", placements, hop_tensor_placements(spread));
    CLAIM(!hop_collect(&back, spread) && same(back, whole), "(%s) as (%s), rank %d: other elements came back",
          mesh, placements, rank);
    if (hop_tensor_parts(spread) && !strstr(placements, "sum")) {
        struct arena arena = { 0 };
        struct spread s;
        hop_tensor *parts[64];
        char type[64] = "i32[";
        spread_parse(&arena, mesh, placements, (uint32_t)rank, &s);
        for (int i = 0; i < rank; i++)
            sprintf(type + strlen(type), "%s%lld", i ? ", " : "", (long long)dims[i]);
        strcat(type, "]");
        for (int k = 0; k < hop_tensor_parts(spread); k++) {
            int of = -1;
            parts[k] = hop_tensor_part(spread, k, &of);
            check_box(whole, parts[k], &s, of);
        }
        CLAIM(!hop_tensor_from_parts(&again, type, mesh, placements, parts, hop_tensor_parts(spread)), "%s",
              hop_message());
        hop_tensor_free(back);
        back = NULL;
        CLAIM(!hop_collect(&back, again) && same(back, whole), "%s as %s: parts make another array", mesh,
              placements);
        arena_free(&arena);
    }
    hop_tensor_free(again);
    hop_tensor_free(back);
    hop_tensor_free(spread);
    hop_tensor_free(whole);
}

static void refused(hop_status status, const char *expected)
{
    CLAIM(status && strstr(hop_message(), expected), "status %d, \"%s\", expected \"%s\"", status,
          hop_message(), expected);
}

static void mistakes(void)
{
    int64_t dims[2] = { 3, 2 };
    hop_tensor *t = counted(dims, 2), *out = NULL, *spread = NULL, *three[3];
    refused(hop_distribute(&out, t, "i", "0"), "an axis has no size");
    refused(hop_distribute(&out, t, "i = 0", "0"), "no positive number");
    refused(hop_distribute(&out, t, "i = 2, i = 3", "0 1"), "two axes have one name");
    refused(hop_distribute(&out, t, "", "0"), "it has no axes");
    refused(hop_distribute(&out, t, "i = 2", "2"), "axis 2 of an array that has 2");
    refused(hop_distribute(&out, t, "i = 2", "0 1"), "has 2, the mesh (i = 2) has 1 axis");
    refused(hop_distribute(&out, t, "i = 2", "some"), "found \"some\"");
    refused(hop_distribute(&out, t, "i = 2", "each"), "only programs");
    refused(hop_distribute(&out, t, "i = 2", "mean"), "a mean needs floats");
    CLAIM(!hop_distribute(&spread, t, "(i = 2)", "(0)"), "%s", hop_message());
    CLAIM(!strcmp(hop_tensor_mesh(spread), "i = 2") && !hop_data(spread), "a mesh \"%s\"",
          hop_tensor_mesh(spread));
    refused(hop_tensor_copy(&out, spread), "found a distributed one (0 on the mesh i = 2): collect it first");
    for (int k = 0; k < 3; k++) three[k] = t;
    refused(hop_tensor_from_parts(&out, "i32[6, 2]", "i = 2", "0", three, 3),
            "found 3 parts for a mesh of 2");
    refused(hop_tensor_from_parts(&out, "i32[5, 2]", "i = 2", "0", three, 2),
            "the part of rank 1: expected i32[2, 2], found i32[3, 2]");
    CLAIM(!out && !hop_tensor_part(spread, 2, NULL) && !hop_tensor_parts(t) && !hop_tensor_mesh(NULL),
          "refused");
    hop_tensor_free(spread);
    hop_tensor_free(t);
}

/* Where parts are put together by a reduction: numbers of the formula. */
static void reductions(void)
{
    static const struct {
        const char *name;
        float expected; /* of 2, 8, 5 */
    } rows[] = { { "sum", 15 }, { "max", 8 }, { "min", 2 }, { "prod", 80 }, { "mean", 5 } };
    float data[3] = { 2, 8, 5 };
    hop_tensor *parts[3], *t, *whole;
    for (int k = 0; k < 3; k++) hop_tensor_borrow(&parts[k], "f32[]", data + k, NULL, NULL);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        t = whole = NULL;
        CLAIM(!hop_tensor_from_parts(&t, "f32[]", "i = 3", rows[k].name, parts, 3), "%s", hop_message());
        CLAIM(!hop_collect(&whole, t), "%s", hop_message());
        float found = *(const float *)hop_data_const(whole);
        CLAIM(found == rows[k].expected, "%s: %g, expected %g", rows[k].name, found, rows[k].expected);
        hop_tensor_free(whole);
        hop_tensor_free(t);
        whole = t = NULL;
        CLAIM(!hop_distribute(&t, parts[1], "i = 3", rows[k].name) && !hop_collect(&whole, t), "%s",
              hop_message());
        found = *(const float *)hop_data_const(whole);
        CLAIM(found == 8, "%s: 8 came back as %g", rows[k].name, found);
        hop_tensor_free(whole);
        hop_tensor_free(t);
    }
    for (int k = 0; k < 3; k++) hop_tensor_free(parts[k]);
}

int main(void)
{
    for (int k = 0; k < 500; k++) round_trip();
    mistakes();
    reductions();
    return tests_end();
}
