/* region: a body under a regime, made by calls: text and back, transforms that keep the kind, attributes that
 * tell programs apart, and specifications that cannot be. */
#include "check.h"
#include "hop/hop.h"

#include <math.h>

static int cube(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_mul(in[0], hop_mul(in[0], in[0]));
    return 0;
}

struct given {
    const char *kind, *attributes;
};

static int cube_in_region(void *env, const hop_val *in, hop_val *out)
{
    const struct given *g = env;
    hop_region_spec spec = {
        .kind = g->kind, .attributes = g->attributes, .body = cube, .in = in, .n_in = 1, .name = "cube"
    };
    return hop_region(out, 1, &spec);
}

static hop_fn *captured(const char *kind, const char *attributes)
{
    struct given g = { kind, attributes };
    hop_fn *f = NULL;
    CLAIM(!hop_capture(&f, "f(x: f64[])", 1, cube_in_region, &g), "%s", hop_message());
    return f;
}

static double value_of(hop_fn *f, double x)
{
    hop_tensor *in = NULL, *out = NULL;
    double found = NAN;
    CLAIM(!hop_tensor_new(&in, "f64[]"), "%s", hop_message());
    memcpy(hop_data(in), &x, sizeof x);
    CLAIM(!hop_interpret(f, &in, 1, &out, 1), "%s", hop_message());
    if (out) memcpy(&found, hop_data(out), sizeof found);
    hop_tensor_free(in);
    hop_tensor_free(out);
    return found;
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p += strlen(word)) n++;
    return n;
}

/* ---- text, transforms ---- */

static void test_text(void)
{
    static const char written[] =
        "{kind = \"mine\", bits = 8, levels = [0.5, -1, 2.0], mode = \"a \\\"b\\\"\", on = true}";
    hop_fn *f = captured("mine", "on = true, bits = 8,mode = \"a \\\"b\\\"\", levels = [0.5, -1, 2.0]");
    hop_fn *again = NULL;
    CLAIM(strstr(hop_fn_text(f), written), "attributes stand in the order of their names: %s",
          hop_fn_text(f));
    CLAIM(!hop_fn_read(&again, hop_fn_text(f), "f"), "%s", hop_message());
    CLAIM(!strcmp(hop_fn_text(f), hop_fn_text(again)), "what is printed reads as the same: %s",
          hop_fn_text(again));
    hop_fn_free(f);
    hop_fn_free(again);
}

static void test_transforms(void)
{
    hop_fn *f = captured("mine", "bits = 8"), *grad = NULL, *second = NULL, *jvp = NULL, *lanes = NULL;
    static const char kind[] = "region {kind = \"mine\", bits = 8}";
    CLAIM(!hop_grad(&grad, f, "x") && !hop_grad(&second, grad, "x"), "%s", hop_message());
    CLAIM(!hop_jvp(&jvp, f, "x") && !hop_vmap(&lanes, f, NULL, NULL), "%s", hop_message());
    CLAIM(value_of(f, 2) == 8 && value_of(grad, 2) == 12 && value_of(second, 2) == 12, "x³, 3x², 6x");
    CLAIM(count(hop_fn_text(grad), kind) >= 1, "the backward is a region: %s", hop_fn_text(grad));
    CLAIM(count(hop_fn_text(second), kind) >= 1, "and its backward: %s", hop_fn_text(second));
    CLAIM(count(hop_fn_text(jvp), kind) == 1, "the tangents: %s", hop_fn_text(jvp));
    CLAIM(count(hop_fn_text(lanes), kind) == 1, "the lanes: %s", hop_fn_text(lanes));
    hop_fn_free(f);
    hop_fn_free(grad);
    hop_fn_free(second);
    hop_fn_free(jvp);
    hop_fn_free(lanes);
}

/* ---- what cannot be ---- */

static void test_wrong(void)
{
    static const struct {
        const char *kind, *attributes, *says;
    } all[] = {
        { NULL, NULL, "expected the name of a kind" },
        { "", NULL, "expected the name of a kind" },
        { "mine", "bits", "expected '='" },
        { "mine", "bits = ", "expected a string in quotes, a number" },
        { "mine", "bits = even", "expected a string in quotes, a number" },
        { "mine", "bits = [1", "expected ',' or ']'" },
        { "mine", "bits = [[1]]", "expected a string in quotes, a number" },
        { "mine", "bits = 1 2", "expected ','" },
        { "mine", "bits = 1, bits = 2", "attribute 'bits' is given twice" },
        { "mine", "kind = \"other\"", "attribute 'kind' is given twice" },
        { "mine", "8 = 8", "expected the name of an attribute" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct given g = { all[i].kind, all[i].attributes };
        hop_fn *f = NULL;
        CLAIM(hop_capture(&f, "f(x: f64[])", 1, cube_in_region, &g), "%s", all[i].says);
        CLAIM(strstr(hop_message(), all[i].says) && strstr(hop_message(), "region_test.c:"),
              "expected '%s', found '%s'", all[i].says, hop_message());
        hop_fn_free(f);
    }
    hop_val none;
    CLAIM(hop_region(&none, 1, NULL) != 0, "a specification that is NULL");
}

int main(void)
{
    test_text();
    test_transforms();
    test_wrong();
    return tests_end();
}
