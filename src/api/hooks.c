/* Hooks on gradients: values come in and go out as they are, in a custom call of the identity whose backward
 * is a body of the user's. */
#include "api/api.h"

static int gives_values(void *env, const hop_val *in, hop_val *out)
{
    const hop_hook_spec *s = env;
    memcpy(out, in, (size_t)s->n_in * sizeof *out);
    return 0;
}

/* Its parameters are the values, the state, the cotangents. */
static int pulls_back(void *env, const hop_val *in, hop_val *out)
{
    const hop_hook_spec *s = env;
    return s->body(s->env, in + s->n_in, out);
}

/* The values that the call takes, and a parameter for each of them and for each cotangent. */
struct hook_parts {
    hop_val *operands;
    hop_param *params;
    int *gives;
};

static bool make_parts(struct hook_parts *p, const hop_hook_spec *s)
{
    size_t n_in = (size_t)s->n_in, n = n_in + (size_t)s->n_state;
    p->operands = calloc(n, sizeof *p->operands);
    p->params = calloc(n + n_in, sizeof *p->params);
    p->gives = calloc(n_in, sizeof *p->gives);
    if (!p->operands || !p->params || !p->gives) return false;
    for (size_t i = 0; i < n + n_in; i++) {
        hop_val v = i < n_in ? s->in[i] : i < n ? s->state[i - n_in] : s->in[i - n];
        p->params[i].like = v;
        if (i < n) p->operands[i] = v;
    }
    for (int i = 0; i < s->n_in; i++) p->gives[i] = i;
    return true;
}

static int record_hook(hop_place at, hop_val *out, const hop_hook_spec *s, const struct hook_parts *p)
{
    hop_fn *body = NULL, *backward = NULL;
    int n = s->n_in + s->n_state;
    void *env = (void *)(uintptr_t)s; /* both read it */
    int status = hop_capture_params_at(at, &body, "hook", p->params, n, s->n_in, gives_values, env);
    if (!status)
        status = hop_capture_params_at(at, &backward, s->name, p->params, n + s->n_in, s->n_in, pulls_back,
                                       env);
    if (!status)
        status = hop_custom_at(at, out, s->n_in,
                               &(hop_custom_spec){ .body = body,
                                                   .backward = backward,
                                                   .in = p->operands,
                                                   .n_in = n,
                                                   .gives = p->gives,
                                                   .n_gives = s->n_in,
                                                   .tangent_of_body = 1 });
    hop_fn_free(body);
    hop_fn_free(backward);
    return status;
}

int hop_hook_at(hop_place at, hop_val *out, const hop_hook_spec *spec)
{
    if (!spec || !out || spec->n_in <= 0 || !spec->in || spec->n_state < 0 || (spec->n_state && !spec->state))
        return hop_fail_at(at, "hook: expected a specification, values and room for them, found NULL or a "
                               "count that is none");
    if (!spec->body) return hop_fail_at(at, "hook: expected a body, found NULL");
    for (int i = 0; i < spec->n_in; i++) {
        char text[256];
        const char *type = hop_type_text(spec->in[i]);
        if (!*type || *type == 'f' || !strncmp(type, "bf", 2)) continue;
        snprintf(text, sizeof text, "hook: value %d: expected floats, which have cotangents, found %.99s", i,
                 type);
        return hop_fail_at(at, text);
    }
    struct hook_parts parts = { 0 };
    bool made = make_parts(&parts, spec); /* before out is written, which may be where the values are */
    for (int i = 0; i < spec->n_in; i++) out[i] = (hop_val){ 0, 0 };
    if (!made) hop_set_message("out of memory: hook: no room for %d values", spec->n_in);
    int status = made ? record_hook(at, out, spec, &parts) : HOP_NOMEM;
    free(parts.operands);
    free(parts.params);
    free(parts.gives);
    return status ? capture_fail(at, (hop_status)status) : 0;
}
