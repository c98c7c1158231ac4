/* Throws changed programs and random words at the reader: it must answer each with a program or an error,
 * never crash, hang or leak. What it accepts must verify, print and read back. Then every allocation of a
 * reading is made to fail once. Deterministic: fuzz_test [SEED [ROUNDS]]. */
#include "check.h"
#include "ir/text.h"

#include <dirent.h>
#include <time.h>

enum { MAX_TEXTS = 1024, MAX_LENGTH = 1 << 14 };
static char *texts[MAX_TEXTS];
static uint32_t n_texts, n_programs; /* programs come first, then texts with an error */

static uint64_t state;
static uint32_t pick(uint32_t n) /* 0..n-1 */
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 16) % (n ? n : 1));
}

static void add_text(const char *text)
{
    if (n_texts < MAX_TEXTS && strlen(text) < MAX_LENGTH) texts[n_texts++] = strdup(text);
}

static void add_folder(const char *folder)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[512], text[MAX_LENGTH + 1];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        FILE *f = strstr(path, ".hop") ? fopen(path, "rb") : NULL;
        if (f) {
            size_t length = fread(text, 1, MAX_LENGTH, f);
            text[length] = 0;
            add_text(text);
            fclose(f);
        }
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

static const char *const words[] = {
    "fn",
    "@f",
    "@g",
    "@sample",
    "const",
    "test",
    "hop",
    "1",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "=",
    "==",
    "->",
    "..",
    "%x",
    "%y",
    "%z",
    "%0",
    "%c",
    "return",
    "yield",
    "next",
    "stack",
    "carry",
    "over",
    "with",
    "in",
    "dim",
    "require",
    "mut",
    "new",
    "new %x",
    "effects",
    "io",
    "check",
    "f32",
    "i64",
    "bool",
    "f32[4]",
    "f32[N]",
    "f32[]",
    "i64[?k]",
    "N",
    "T",
    "?k",
    "2*N",
    "N // 2",
    "N % 3",
    "min(N, 4)",
    "max(",
    "-",
    "+",
    "*",
    "//",
    "%",
    "?",
    "#0",
    "# comment\n",
    "\"text\"",
    "\"",
    "\\",
    "0x1.8p3",
    "nan",
    "inf",
    "-1",
    "99999999999999999999",
    "1e999",
    "true",
    "random",
    "expect",
    "within",
    "grad",
    "vmap",
    "size",
    "fails",
    "prints",
    "@\"file\":1:2",
    "%\"odd\"",
    "body",
    "cond",
    "reverse",
    "length",
    "dims",
    "value",
    "dtype",
    "\n",
    " ",
    ";",
};

static const char *random_word(void)
{
    if (pick(4)) return words[pick(HOP_COUNT(words))];
    const struct op_row *row = op_table[pick(OP_COUNT)];
    return row ? row->name : "add";
}

static size_t soup(char *out)
{
    size_t n = (size_t)snprintf(out, MAX_LENGTH, "%s",
                                pick(2) ? "hop 1\nfn @f(%x: f32[4], %y: f32[N]) -> (f32[4]) {\n  " : "");
    for (uint32_t i = pick(60); i > 0 && n < MAX_LENGTH - 64; i--)
        n += (size_t)snprintf(out + n, 64, "%s%s", random_word(), pick(3) ? " " : "");
    return n;
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '%' || c == '@' || c == '?';
}

/* Start and length of the token-like piece at or after a random place. */
static size_t random_piece(const char *text, size_t n, size_t *length)
{
    size_t at = pick((uint32_t)n), end;
    while (at > 0 && is_word_char(text[at]) && is_word_char(text[at - 1])) at--;
    for (end = at + 1; end < n && is_word_char(text[at]) && is_word_char(text[end]);) end++;
    *length = end - at;
    return at;
}

static size_t splice(char *text, size_t n, size_t at, size_t remove, const char *put, size_t length)
{
    if (n - remove + length >= MAX_LENGTH) return n;
    memmove(text + at + length, text + at + remove, n - at - remove);
    memcpy(text + at, put, length);
    return n - remove + length;
}

static size_t mutate(char *text, size_t n)
{
    char piece[256];
    for (uint32_t i = pick(3) ? 1 : 1 + pick(4); i > 0 && n > 0; i--) {
        size_t length, at = random_piece(text, n, &length), other_length;
        const char *other = texts[pick(n_texts)];
        const char *word = random_word();
        size_t from, some = pick(200);
        switch (pick(9)) {
        case 0: text[at] = (char)(1 + pick(255)); break;
        case 1:
            text[at] ^= (char)(1 << pick(7));
            if (!text[at]) text[at] = ' ';
            break;
        case 2: n = splice(text, n, at, length, "", 0); break;
        case 3: n = splice(text, n, at, length, word, strlen(word)); break;
        case 4: n = splice(text, n, at, 0, word, strlen(word)); break;
        case 5: /* a piece of this text elsewhere */
        case 6:
            from = random_piece(text, n, &other_length);
            other_length = HOP_MIN(other_length, sizeof piece);
            memcpy(piece, text + from, other_length);
            n = splice(text, n, at, length, piece, other_length);
            break;
        case 7: /* a stretch of another text */
            if (!*other) break;
            from = pick((uint32_t)strlen(other));
            n = splice(text, n, at, pick(2) ? length : 0, other + from, HOP_MIN(strlen(other) - from, some));
            break;
        default: n = splice(text, n, at, HOP_MIN(n - at, some / 2), "", 0);
        }
    }
    return n;
}

struct trial {
    const char *text;
    size_t length;
    bool accepted;
};

static void free_arena(void *a) { arena_free(a); }

static void try_text(void *ctx)
{
    struct trial *t = ctx;
    struct module *m = text_read("fuzz", t->text, t->length);
    hop_cleanup_push(module_free, m);
    for (uint32_t i = 0; i < m->fns.len; i++) verify_fn(m, i);
    struct arena a = { 0 };
    hop_cleanup_push(free_arena, &a);
    struct text out = { .arena = &a }, again = { .arena = &a };
    text_print(m, HOP_NONE, pick(2), &out);
    t->accepted = true;
    struct module *second = text_read("printed", out.data, out.len);
    hop_cleanup_push(module_free, second);
    text_print(second, HOP_NONE, 0, &again);
    hop_cleanup_pop(second);
    module_free(second);
    hop_cleanup_pop(&a);
    arena_free(&a);
    hop_cleanup_pop(m);
    module_free(m);
}

static void fuzz(uint32_t rounds)
{
    static char text[MAX_LENGTH + 64];
    uint32_t accepted = 0, wrong = 0;
    double slowest = 0;
    for (uint32_t i = 0; i < rounds && wrong < 10; i++) {
        size_t n;
        if (i % 8 == 0) n = soup(text);
        else {
            const char *base = texts[pick(pick(8) ? n_programs : n_texts)];
            n = mutate(text, (size_t)snprintf(text, MAX_LENGTH, "%s", base));
        }
        text[n] = 0;
        struct trial t = { text, n, false };
        int64_t live = hop_live_allocations();
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        hop_status status = attempt(try_text, &t);
        clock_gettime(CLOCK_MONOTONIC, &end);
        double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
        slowest = HOP_MAX(slowest, seconds);
        accepted += t.accepted;
        bool answered = status == HOP_OK || (status == HOP_INVALID && !t.accepted);
        bool kept = hop_live_allocations() == live;
        if (!answered || !kept) {
            wrong++;
            CLAIM(answered, "round %u: status %d: %s\n%s", i, status, hop_message(), text);
            CLAIM(kept, "round %u leaks:\n%s", i, text);
        }
    }
    printf("%u texts, %u accepted, slowest %.3f s\n", rounds, accepted, slowest);
    CLAIM(!wrong, "%u texts went wrong", wrong);
    CLAIM(slowest < 5, "a text took %.3f s", slowest);
    CLAIM(accepted > rounds / 50,
          "only %u of %u texts were programs: the mutations are too coarse to test anything", accepted,
          rounds);
}

static void fail_allocations(void)
{
    for (uint32_t i = 0; i < n_texts; i++) {
        struct trial t = { texts[i], strlen(texts[i]), false };
        if (attempt(try_text, &t) != HOP_OK) continue;
        int64_t live = hop_live_allocations();
        hop_status status = HOP_NOMEM;
        uint64_t n = 0;
        bool kept = true;
        while (status == HOP_NOMEM && kept) {
            hop_fail_allocation(++n);
            status = attempt(try_text, &t);
            hop_fail_allocation(0);
            kept = hop_live_allocations() == live;
        }
        CLAIM(status == HOP_OK && kept, "text %u with allocation %llu failing: status %d (%s)%s", i,
              (unsigned long long)n, status, hop_message(), kept ? "" : ", leaks");
    }
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 20240917;
    uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 400000;
    state = seed * 0x9e3779b97f4a7c15u + 1;
    printf("seed %llu\n", (unsigned long long)seed);
    struct dirent **entries;
    int n = scandir("tests/corpus", &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[512];
        snprintf(path, sizeof path, "tests/corpus/%s", entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && strcmp(entries[i]->d_name, "errors")) add_folder(path);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    for (uint32_t op = 0; op < OP_COUNT; op++)
        for (uint32_t i = 0; op_table[op] && i < op_table[op]->n_samples; i++)
            add_text(op_table[op]->samples[i].text);
    n_programs = n_texts;
    add_folder("tests/corpus/errors");
    fuzz(rounds);
    fail_allocations();
    for (uint32_t i = 0; i < n_texts; i++) free(texts[i]);
    return tests_end();
}
