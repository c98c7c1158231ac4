/* Random chains of adds over rows of arrays, for simplify_test.c: rows in any order, nested in any way, some
 * of them missing, some twice, some subtracted, of one array or of two, as they are or through an elementwise
 * function. */

enum { MOST_TERMS = 40 };

/* Writes row i of %x (or %y), or a function of it, as %t<k>. */
static void write_term(struct text *out, uint32_t k, uint32_t i, bool of_y, bool columns, int function)
{
    const char *names[] = { of_y ? "y" : "x", of_y ? "x" : "y" };
    for (uint32_t a = 0; a < 2; a++) { /* `other` is read by some functions alone */
        const char *part = a ? "other" : "row";
        text_add(out, "  %%%s_part%u = slice {start = [", part, k);
        if (columns) text_add(out, "0, %u], limit = [3, %u]} (%%%s)\n", i, i + 1, names[a]);
        else text_add(out, "%u, 0], limit = [%u, 3]} (%%%s)\n", i, i + 1, names[a]);
        text_add(out, "  %%%s%u = reshape {dims = [3]} (%%%s_part%u)\n", part, k, part, k);
    }
    switch (function) {
    case 1: text_add(out, "  %%t%u = neg(%%row%u)\n", k, k); break;
    case 2: text_add(out, "  %%t%u = mul(%%row%u, %%other%u)\n", k, k, k); break;
    case 3: /* the difference is read twice, %b is the same for all */
        text_add(out, "  %%d%u = sub(%%row%u, %%b)\n  %%t%u = mul(%%d%u, %%d%u)\n", k, k, k, k, k);
        break;
    case 4: /* a number of each row beside the row */
        text_add(out, "  %%n%u = slice {start = [%u], limit = [%u]} (%%w)\n", k, i, i + 1);
        text_add(out, "  %%m%u = reshape {dims = []} (%%n%u)\n", k, k);
        text_add(out, "  %%v%u = broadcast {dims = [3], at = []} (%%m%u)\n", k, k);
        text_add(out, "  %%t%u = mul(%%row%u, %%v%u)\n", k, k, k);
        break;
    default: text_add(out, "  %%t%u = reshape {dims = [3]} (%%row%u)\n", k, k);
    }
}

/* Adds up %t0, %t1, …, with `signs` subtracts some of them, one after the other or as a tree of some shape,
 * as %total. */
static void write_adds(struct text *out, uint32_t n, bool signs)
{
    char names[MOST_TERMS][16];
    for (uint32_t k = 0; k < n; k++) snprintf(names[k], sizeof names[k], "t%u", k);
    bool one_by_one = below(2);
    for (uint32_t left = n, made = 0; left > 1; left--, made++) {
        uint32_t at = one_by_one ? 0 : below(left - 1);
        bool last = left == 2, swapped = below(2);
        const char *a = names[at + swapped], *b = names[at + !swapped];
        const char *op = signs && below(2) ? "sub" : "add";
        if (last) text_add(out, "  %%total = %s(%%%s, %%%s)\n", op, a, b);
        else text_add(out, "  %%a%u = %s(%%%s, %%%s)\n", made, op, a, b);
        snprintf(names[at], sizeof names[at], "a%u", made);
        for (uint32_t k = at + 1; k + 1 < left; k++) memcpy(names[k], names[k + 1], sizeof names[k]);
    }
}

/* Returns whether the chain is a sum and nothing else. */
static bool write_chain(struct text *out)
{
    static const char *const dtypes[] = { "f32", "f64", "f32", "i64", "i32", "u8" };
    const char *t = dtypes[below(6)];
    bool columns = below(2), complete = true;
    uint32_t rows = 8 + below(17), step = 1 + below(2), terms[MOST_TERMS], n = 0;
    uint32_t flaw = below(6), worst = below(rows); /* 0: a row is missing; 1: one is there twice; 2: both */
    int function = (int)below(5);
    for (uint32_t i = 0; i < rows; i++) {
        complete &= !(i == worst && flaw <= 2);
        if (i == worst && flaw != 1 && flaw <= 2) continue;
        terms[n++] = i * step;
        bool again = flaw == 1 ? i == worst : flaw == 2 && i == (worst + 1) % rows;
        if (again) terms[n++] = i * step;
    }
    bool shuffled = below(2);
    for (uint32_t k = n; shuffled && k > 1; k--) {
        uint32_t other = below(k), kept = terms[k - 1];
        terms[k - 1] = terms[other];
        terms[other] = kept;
    }
    uint32_t size = rows * step + below(3);
    bool signs = below(4) == 0, two = below(3) == 0; /* two: every other term is of the other array */
    uint32_t high = columns ? 3 : size, wide = columns ? size : 3;
    text_add(out, "hop 1\nfn @main(%%x: %s[%u, %u], %%y: %s[%u, %u], ", t, high, wide, t, high, wide);
    text_add(out, "%%w: %s[%u], %%b: %s[3]) -> (%s[3]) {\n", t, size, t, t);
    for (uint32_t k = 0; k < n; k++)
        write_term(out, k, terms[k], two && terms[k] / step % 2, columns, function);
    write_adds(out, n, signs);
    text_add(out, "  return %%total\n}\n");
    return complete && !two && !signs;
}
