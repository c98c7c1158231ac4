/* Elementary functions and the random generator, each written once. A file that defines the vocabulary below
 * includes this header twice, with WIDTH 32 and then 64, and gets every function for f32 and f64: scalar_c.c
 * as plain C over scalars (what the interpreter runs), scalar_lp.c as calls that build loop program
 * expressions. Both therefore round alike, operation by operation, and strict results agree bit for bit.
 *
 * Vocabulary that the including file defines:
 *   types             F32 F64 U32 I64 BOOL (I64 holds the bits of an F64)
 *   CTX, PASS         declares and passes what every function needs in front of its arguments (empty in C)
 *   NAME(x)           the function's name in this instantiation
 *   F32_K F64_K U32_K I64_K              constants
 *   ADD SUB MUL DIV REM NEG ABS SQRT     arithmetic (integers wrap; REM is C's fmod)
 *   FLOOR CEIL TRUNC ROUND               to whole numbers; ROUND takes halves to the even one
 *   LT GT EQ NE, AND OR XOR, SELECT      comparisons and choice; AND, OR and XOR work on bools too
 *   SHL SHR (x, n)                       shifts by a C integer; SHR shifts zeros in
 *   BITS32 FLOAT32 BITS64 FLOAT64        the same bits seen as U32 or I64, and back
 *   TO_F64 TO_F32                        from the other float type
 *   LOW32(i64), F32_INT(u32), F64_INT(u32) truncation; the value of a U32 below 2^31 as a float
 *   FAR(which, far, x, y)                y, but where `far` holds enum angle's function `which` of x
 * (ir/angle.h), by a call that is seldom made
 *
 * Rules for what is written here. No branches: everything becomes vector code, so choices are SELECTs of
 * values already computed. Limits are set as SELECT(x > c, c, x), which lets NaN through. Default mode
 * contracts a product and a sum to one rounding, so nothing may depend on a product having been rounded:
 * products that must be exact are of short factors. */

#if WIDTH == 32
#define N(name) NAME(name##_f32)
#define F F32
#define U U32
#define K(x) F32_K(x)
#define UK(x) U32_K(x)
#define BITS(x) BITS32(x)
#define FLOAT(x) FLOAT32(x)
#define MANTISSA 23
#define BIAS 127
#define SHIFTER 0x1.8p23 /* adding it rounds to an integer, which then stands in the low bits */
#define SIGN_BIT 0x80000000u
#define EXPONENT 0x7f800000u
#define FRACTION 0x007fffffu
#define ONE 0x3f800000u
#define HEAD 0xfffff000u      /* 12 bits */
#define ROOT_HALF 0x3f3504f3u /* bits of sqrt(1/2) */
#define SMALLEST 0x1p-126     /* normal number */
#define EXP_LOW -104.0        /* exp is 0 below, */
#define EXP_HIGH 89.0         /* infinite above */
#define EXPM1_LOW -18.0
#define TANH_HIGH 10.0
#define TINY 0x1p-25       /* x + x*x is x below */
#define LN2_HI 0x1.62e4p-1 /* short: times an exponent it is exact */
#define LN2_LO 0x1.7f7d1cp-20
#define EXP_N 5
#define EXPM1_N 6
#define LOG_N 3
#define SIN_N 3
#define COS_N 3
#define ARC_N 5
#else
#define N(name) NAME(name##_f64)
#define F F64
#define U I64
#define K(x) F64_K(x)
#define UK(x) I64_K(x)
#define BITS(x) BITS64(x)
#define FLOAT(x) FLOAT64(x)
#define MANTISSA 52
#define BIAS 1023
#define SHIFTER 0x1.8p52
#define SIGN_BIT 0x8000000000000000u
#define EXPONENT 0x7ff0000000000000u
#define FRACTION 0x000fffffffffffffu
#define ONE 0x3ff0000000000000u
#define HEAD 0xfffffffff8000000u /* 26 bits */
#define ROOT_HALF 0x3fe6a09e667f3bcdu
#define SMALLEST 0x1p-1022
#define EXP_LOW -746.0
#define EXP_HIGH 710.0
#define EXPM1_LOW -40.0
#define TANH_HIGH 20.0
#define TINY 0x1p-54
#define LN2_HI 0x1.62e42fefa3p-1
#define LN2_LO 0x1.3de6af278ece6p-42
#define EXP_N 10
#define EXPM1_N 11
#define LOG_N 7
#define SIN_N ANGLE_SIN_N
#define COS_N ANGLE_COS_N
#define ARC_N 8
#endif

#define LOG2_E 0x1.71547652b82fep+0
#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define PI 0x1.921fb54442d18p+1
#define HALF_PI_1 0x1.921fb544p+0 /* 31 bits each: times a whole number below 2^22 they are exact */
#define HALF_PI_2 0x1.0b4611a4p-34
#define HALF_PI_3 0x1.13198a2e03707p-65
#define HALF_PI_SHORT 0x1.921fb54000000p+0 /* 27 bits, exact below 2^26, and the rest */
#define HALF_PI_REST 0x1.10b4611a62633p-30
#define INTEGER_SHIFTER 0x1.8p52
#define MULTIPLE_SHIFTER 0x1.8p74 /* rounds to a multiple of 2^22 */
/* Up to where the reductions below are exact enough. */
#define FUSED_LIMIT 0x1p20
#define F32_LIMIT 0x1p26
#define F64_LIMIT 0x1p44

/* Minimax polynomials, lowest coefficient first. With |r| <= ln2/2 and s = f/(2+f), |s| <= 0.1716, |a| <=
 * pi/4, |b| <= pi/2: exp, expm1: (e^r - 1 - r)/r²      log: (log((1+s)/(1-s)) - 2s)/s³ in s² sin: (sin(a)/a -
 * 1)/a² in a²      cos: (cos(a) - 1 + a²/2)/a⁴ in a²      arc: (sin(b)/b - 1)/b² in b² */
#if WIDTH == 32
static const double N(exp_c)[EXP_N] = { 0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558f2p-5, 0x1.123a1ep-7,
                                        0x1.6a24p-10 };
static const double N(expm1_c)[EXPM1_N] = { 0.5,          0x1.555556p-3,  0x1.5554aep-5,
                                            0x1.11109p-7, 0x1.6d74cep-10, 0x1.a1a214p-13 };
static const double N(log_c)[LOG_N] = { 0x1.55557ap-1, 0x1.995e9cp-2, 0x1.31e66ep-2 };
static const double N(sin_c)[SIN_N] = { -0x1.555546p-3, 0x1.11075cp-7, -0x1.994cfap-13 };
static const double N(cos_c)[COS_N] = { 0x1.55554ap-5, -0x1.6c0c86p-10, 0x1.9a00dap-16 };
static const double N(arc_c)[ARC_N] = { -0x1.555556p-3, 0x1.11110cp-7, -0x1.a017d8p-13, 0x1.717048p-19,
                                        -0x1.9a6374p-26 };
#else
static const double N(exp_c)[EXP_N] = { 0x1.000000000000ap-1,  0x1.55555555554f9p-3,  0x1.555555555083ep-5,
                                        0x1.1111111127ceap-7,  0x1.6c16c18438cccp-10, 0x1.a01a012a1940fp-13,
                                        0x1.a01999e2153d0p-16, 0x1.71df25a0275f4p-19, 0x1.28ad9bd0931e5p-22,
                                        0x1.ad7f58e0585fdp-26 };
static const double N(expm1_c)[EXPM1_N] = { 0.5,
                                            0x1.5555555555559p-3,
                                            0x1.555555555555ap-5,
                                            0x1.111111110f699p-7,
                                            0x1.6c16c16c14420p-10,
                                            0x1.a01a01afeed9ap-13,
                                            0x1.a01a01b0c31d0p-16,
                                            0x1.71ddf83892afdp-19,
                                            0x1.27e4c58b03a04p-22,
                                            0x1.af5ef2611d1cdp-26,
                                            0x1.1f958161582dbp-29 };
static const double N(log_c)[LOG_N] = { 0x1.5555555555593p-1, 0x1.999999997fb35p-2, 0x1.24924942177a6p-2,
                                        0x1.c71c51e80d016p-3, 0x1.74664629f553ep-3, 0x1.39a0f51985883p-3,
                                        0x1.2f0d8f3f87c0bp-3 };
static const double N(sin_c)[SIN_N] = { ANGLE_SIN_C };
static const double N(cos_c)[COS_N] = { ANGLE_COS_C };
static const double N(arc_c)[ARC_N] = { -0x1.5555555555555p-3,  0x1.11111111110c0p-7,
                                        -0x1.a01a01a014832p-13, 0x1.71de3a5283f9cp-19,
                                        -0x1.ae6454c98f2a5p-26, 0x1.6123cab3d50aep-33,
                                        -0x1.ae42fe760a99dp-41, 0x1.88264b0b92f1ep-49 };
#endif

static inline F N(polynomial)(CTX F x, const double *c, int n)
{
    F y = K(c[n - 1]);
    for (int i = n - 2; i >= 0; i--) y = ADD(MUL(y, x), K(c[i]));
    return y;
}

/* The first half of the bits: a product of two such numbers is exact. */
static inline F N(head)(CTX F x) { return FLOAT(AND(BITS(x), UK(HEAD))); }

static inline F N(at_most)(CTX F x, double limit) { return SELECT(GT(x, K(limit)), K(limit), x); }
static inline F N(at_least)(CTX F x, double limit) { return SELECT(LT(x, K(limit)), K(limit), x); }

/* ---- exponentials ---- */

/* x = n·ln2 + r + lost, |r| <= ln2/2. The low bits of *shifted hold n + bias. */
static inline F N(reduce_exp)(CTX F x, double bias, F *shifted, F *lost)
{
    F t = ADD(MUL(x, K(LOG2_E)), K(SHIFTER + bias)), n = SUB(t, K(SHIFTER + bias));
    F high = SUB(x, MUL(n, K(LN2_HI))), r = SUB(high, MUL(n, K(LN2_LO)));
    *shifted = t;
    if (lost) *lost = SUB(SUB(high, r), MUL(n, K(LN2_LO)));
    return r;
}

/* p·2^n for what reduce_exp gave with bias 2·BIAS: two factors, so that neither overflows and a subnormal
 * result is rounded once. */
static inline F N(scale)(CTX F p, F shifted)
{
    U both = SHL(BITS(shifted), MANTISSA), half = AND(SHR(both, 1), UK(EXPONENT));
    return MUL(MUL(p, FLOAT(half)), FLOAT(SUB(both, half)));
}

/* e^x / 2^less, EXP_LOW <= x <= EXP_HIGH + less; `low` (may be NULL) is added to x. */
static inline F N(exp_less)(CTX F x, const F *low, double less)
{
    F shifted, r = N(reduce_exp)(PASS x, 2 * BIAS - less, &shifted, NULL);
    if (low) r = ADD(r, *low);
    F p = ADD(MUL(MUL(r, r), N(polynomial)(PASS r, N(exp_c), EXP_N)), r);
    return N(scale)(PASS ADD(p, K(1)), shifted);
}
static inline F N(exp_within)(CTX F x, const F *low) { return N(exp_less)(PASS x, low, 0); }

static inline F N(exp)(CTX F x)
{
    return N(exp_within)(PASS N(at_least)(PASS N(at_most)(PASS x, EXP_HIGH), EXP_LOW), NULL);
}

/* e^r - 1 where x = n·ln2 + r; the scale's exponent field is n + bias. */
static inline F N(expm1_reduced)(CTX F x, double bias, F *scale)
{
    F shifted, lost, r = N(reduce_exp)(PASS x, bias, &shifted, &lost);
    *scale = FLOAT(SHL(BITS(shifted), MANTISSA));
    return ADD(ADD(MUL(MUL(r, r), N(polynomial)(PASS r, N(expm1_c), EXPM1_N)), lost), r);
}

static inline F N(expm1)(CTX F x)
{
    F limited = N(at_least)(PASS N(at_most)(PASS x, EXP_HIGH), EXPM1_LOW);
    F scale; /* half of 2^n: stays finite */
    F p = N(expm1_reduced)(PASS limited, BIAS - 1, &scale);
    F y = ADD(MUL(scale, p), SUB(scale, K(0.5)));
    return SELECT(LT(ABS(x), K(TINY)), x, ADD(y, y));
}

/* With e = e^(2|x|) - 1: e/(e + 2). */
static inline F N(tanh)(CTX F x)
{
    F a = N(at_most)(PASS ABS(x), TANH_HIGH), scale, p = N(expm1_reduced)(PASS ADD(a, a), BIAS, &scale);
    F e = ADD(MUL(scale, p), SUB(scale, K(1))), y = DIV(e, ADD(e, K(2)));
    return FLOAT(OR(BITS(y), AND(BITS(x), UK(SIGN_BIT))));
}

/* With e = e^-|x|: 1/(1 + e), or e/(1 + e) below zero, which keeps small results exact. */
static inline F N(sigmoid)(CTX F x)
{
    F e = N(exp_within)(PASS N(at_least)(PASS NEG(ABS(x)), EXP_LOW), NULL);
    return DIV(SELECT(LT(x, K(0)), e, K(1)), ADD(K(1), e));
}

/* ---- logarithms ---- */

/* x = m·2^e for x > 0, sqrt(1/2) <= m < sqrt(2). Without `subnormals` x must be normal. *biased (may be NULL)
 * is e + BIAS as an integer. */
static inline F N(split)(CTX F x, bool subnormals, F *e, U *biased)
{
    F given = x;
    if (subnormals) x = SELECT(LT(given, K(SMALLEST)), MUL(x, K(2.0 * (1ull << MANTISSA))), x);
    U u = ADD(BITS(x), UK(ONE - ROOT_HALF)), k = SHR(u, MANTISSA);
    F m = FLOAT(ADD(AND(u, UK(FRACTION)), UK(ROOT_HALF)));
#if WIDTH == 32
    F whole = F32_INT(k);
    double offset = 0;
#else
    F whole = FLOAT(OR(k, UK(0x4330000000000000u))); /* 2^52 + k */
    double offset = 0x1p52;
#endif
    F bias = K(offset + BIAS);
    if (subnormals) bias = SELECT(LT(given, K(SMALLEST)), K(offset + BIAS + MANTISSA + 1), bias);
    if (biased) *biased = k;
    *e = SUB(whole, bias);
    return m;
}

/* log((1 + f)·2^e), sqrt(1/2) <= 1 + f < sqrt(2). */
static inline F N(log_within)(CTX F e, F f)
{
    F s = DIV(f, ADD(f, K(2))), z = MUL(s, s), h = MUL(MUL(f, f), K(0.5));
    F tail = ADD(MUL(s, ADD(MUL(N(polynomial)(PASS z, N(log_c), LOG_N), z), h)), MUL(e, K(LN2_LO)));
    return SUB(MUL(e, K(LN2_HI)), SUB(SUB(h, tail), f));
}

/* Of a positive normal x. */
static inline F N(log_normal)(CTX F x)
{
    F e, m = N(split)(PASS x, false, &e, NULL);
    return N(log_within)(PASS e, SUB(m, K(1)));
}

/* `y`, but -inf where x is `pole`, NaN below it, and x where it is infinite or NaN. */
static inline F N(log_special)(CTX F x, F y, double pole)
{
    y = SELECT(LT(x, K(INFINITY)), y, x);
    y = SELECT(EQ(x, K(pole)), K(-INFINITY), y);
    return SELECT(LT(x, K(pole)), K(NAN), y);
}

static inline F N(log)(CTX F x)
{
    F e, m = N(split)(PASS x, true, &e, NULL);
    return N(log_special)(PASS x, N(log_within)(PASS e, SUB(m, K(1))), 0);
}

/* log((u + lost)·2^raise) of a positive normal u, `lost` below its last place, `raise` NULL for 0: both parts
 * are scaled to u's exponent. */
static inline F N(log_pair)(CTX F u, F lost, const F *raise)
{
    F e;
    U biased;
    F m = N(split)(PASS u, false, &e, &biased);
    F scale = FLOAT(SHL(SUB(UK(2 * BIAS + 1), biased), MANTISSA)); /* 2^(1-e), 0 for the largest e */
    return N(log_within)(PASS raise ? ADD(e, *raise) : e, ADD(SUB(m, K(1)), MUL(MUL(lost, K(0.5)), scale)));
}

/* u = 1 + x and what its rounding lost. */
static inline F N(log1p)(CTX F x)
{
    F u = ADD(x, K(1)), x_part = SUB(u, K(1)), one_part = SUB(u, x_part);
    F lost = ADD(SUB(x, x_part), SUB(K(1), one_part)), y = N(log_pair)(PASS u, lost, NULL);
    return SELECT(LT(ABS(x), K(TINY)), x, N(log_special)(PASS x, y, -1));
}

static inline F N(sqrt)(CTX F x) { return SQRT(x); }
static inline F N(rsqrt)(CTX F x) { return DIV(K(1), SQRT(x)); }
static inline F N(floor)(CTX F x) { return FLOOR(x); }
static inline F N(ceil)(CTX F x) { return CEIL(x); }
static inline F N(trunc)(CTX F x) { return TRUNC(x); }
static inline F N(round)(CTX F x) { return ROUND(x); }

static inline BOOL N(isnan)(CTX F x) { return NE(x, x); }
static inline BOOL N(isinf)(CTX F x) { return EQ(ABS(x), K(INFINITY)); }
static inline BOOL N(isfinite)(CTX F x) { return LT(ABS(x), K(INFINITY)); }

/* ---- sine and cosine ---- */

#if WIDTH == 32
/* x - n·pi/2 and n by products that are rounded once, together with their subtraction: exact up to n = 2^22,
 * without leaving f32. n is the nearest, or so little beyond that the polynomials still hold, up to
 * FUSED_LIMIT. The parts of pi/2 are all positive, so that -0 stays -0. */
static inline F N(reduce_fused)(CTX F x, U *quadrant)
{
    F t = ADD(MUL(x, K(TWO_OVER_PI)), K(0x1.8p23)), n = SUB(t, K(0x1.8p23));
    *quadrant = BITS(t);
    return SUB(SUB(SUB(x, MUL(n, K(0x1.921fb4p+0))), MUL(n, K(0x1.4442d0p-24))), MUL(n, K(0x1.846988p-48)));
}
#endif

/* r of x = n·pi/2 + r, computed in f64; *quadrant's low bits are n's, *lost (f64 only, may be NULL) is what
 * rounding took from r. Products are exact up to n = 2^26 for f32 and, n being split into multiples of 2^22
 * and the rest, up to n = 2^44 for f64. */
static inline F64 N(reduce_angle)(CTX F64 x, U *quadrant, F64 *lost)
{
    F64 t = ADD(MUL(x, F64_K(TWO_OVER_PI)), F64_K(INTEGER_SHIFTER)), n = SUB(t, F64_K(INTEGER_SHIFTER));
#if WIDTH == 32
    HOP_UNUSED(lost);
    *quadrant = LOW32(BITS64(t));
    return SUB(SUB(x, MUL(n, F64_K(HALF_PI_SHORT))), MUL(n, F64_K(HALF_PI_REST)));
#else
    F64 n_high = SUB(ADD(n, K(MULTIPLE_SHIFTER)), K(MULTIPLE_SHIFTER)), n_low = SUB(n, n_high);
    F64 first = SUB(SUB(SUB(x, MUL(n_high, K(HALF_PI_1))), MUL(n_low, K(HALF_PI_1))),
                    MUL(n_high, K(HALF_PI_2)));
    F64 second = SUB(first, MUL(n_low, K(HALF_PI_2))), r = SUB(second, MUL(n, K(HALF_PI_3)));
    *quadrant = BITS64(t);
    if (lost)
        *lost = ADD(SUB(SUB(first, second), MUL(n_low, K(HALF_PI_2))),
                    SUB(SUB(second, r), MUL(n, K(HALF_PI_3))));
    return r;
#endif
}

/* sin(x + quarter·pi/2). */
static inline F N(sine)(CTX F x, unsigned quarter)
{
    U q;
#if WIDTH == 32
    F r = CONTRACTS ? N(reduce_fused)(PASS x, &q) : TO_F32(N(reduce_angle)(PASS TO_F64(x), &q, NULL));
    double limit = CONTRACTS ? FUSED_LIMIT : F32_LIMIT;
#else
    F r = N(reduce_angle)(PASS x, &q, NULL);
    double limit = F64_LIMIT;
#endif
    if (quarter) q = ADD(q, UK(quarter));
    F z = MUL(r, r);
    F sine = MUL(r, ADD(MUL(N(polynomial)(PASS z, N(sin_c), SIN_N), z), K(1)));
    F cosine = ADD(MUL(MUL(z, z), N(polynomial)(PASS z, N(cos_c), COS_N)), SUB(K(1), MUL(z, K(0.5))));
    F y = SELECT(EQ(AND(q, UK(1)), UK(0)), sine, cosine);
    F near = FLOAT(XOR(BITS(y), SHL(SHR(q, 1), MANTISSA == 23 ? 31 : 63)));
    return FAR(quarter ? ANGLE_COS : ANGLE_SIN, GT(ABS(x), K(limit)), x, near);
}

static inline F N(sin)(CTX F x) { return N(sine)(PASS x, 0); }
static inline F N(cos)(CTX F x) { return N(sine)(PASS x, 1); }

/* ---- powers ---- */

#if WIDTH == 64
#define POW_N 5
static const double N(pow_c)[POW_N] = { 0x1.5555555555556p-1, 0x1.99999999968d2p-2, 0x1.2492494187b31p-2,
                                        0x1.c71b81be92ff7p-3, 0x1.76207053d03d8p-3 };
/* m below (or above) the bound is reduced by the centre; its logarithm in two parts, the first short enough
 * to be added exactly to e·LN2_HI. */
static const struct {
    double bound, centre, log_hi, log_lo;
    bool above;
} N(pow_centres)[] = {
    { 0.9375, 0.875, -0x1.1178e8227ep-3, -0x1.1ef78ce2d07f2p-45, false },
    { 0.8125, 0.75, -0x1.269621134ep-2, 0x1.1b61f10522625p-44, false },
    { 1.09, 1.1875, 0x1.5ff3070a7ap-3, -0x1.8586f183bebf2p-44, true },
    { 1.28, 1.375, 0x1.4618bc21c6p-2, -0x1.3d82f484c84ccp-46, true },
};

/* log(m·2^e) = result + *low with about 65 bits in all; the result has 26. */
static inline F64 N(log_wide)(CTX F64 e, F64 m, F64 *low)
{
    F64 centre = K(1), log_hi = K(0), log_lo = K(0);
    for (size_t i = 0; i < sizeof N(pow_centres) / sizeof *N(pow_centres); i++) {
        BOOL here = N(pow_centres)[i].above ? GT(m, K(N(pow_centres)[i].bound))
                                            : LT(m, K(N(pow_centres)[i].bound));
        centre = SELECT(here, K(N(pow_centres)[i].centre), centre);
        log_hi = SELECT(here, K(N(pow_centres)[i].log_hi), log_hi);
        log_lo = SELECT(here, K(N(pow_centres)[i].log_lo), log_lo);
    }
    /* s = (m - centre)/(m + centre) in two parts */
    F64 top = SUB(m, centre), bottom = ADD(m, centre), bottom_hi = N(head)(PASS bottom);
    F64 bottom_lo = ADD(SUB(bottom, bottom_hi), SUB(m, SUB(bottom, centre)));
    F64 s_hi = N(head)(PASS DIV(top, bottom));
    F64 s_lo = DIV(SUB(SUB(top, MUL(s_hi, bottom_hi)), MUL(s_hi, bottom_lo)), bottom);
    F64 s = ADD(s_hi, s_lo), z = MUL(s, s), cubic = MUL(MUL(s, z), N(polynomial)(PASS z, N(pow_c), POW_N));
    /* log = (e·ln2 + log centre) + 2s + cubic, largest first */
    F64 base = ADD(MUL(e, K(LN2_HI)), log_hi), twice = ADD(s_hi, s_hi), sum = ADD(base, twice);
    F64 rest = ADD(SUB(twice, SUB(sum, base)),
                   ADD(ADD(s_lo, s_lo), ADD(cubic, ADD(MUL(e, K(LN2_LO)), log_lo))));
    F64 high = N(head)(PASS ADD(sum, rest));
    *low = ADD(SUB(sum, high), rest);
    return high;
}

/* `wide`: enough for an f64 result; otherwise for an f32 one. */
static inline F64 N(pow_as)(CTX F64 x, F64 y, bool wide)
{
    F64 a = ABS(x), e, m = N(split)(PASS a, true, &e, NULL), product, low = K(0);
    if (wide) {
        F64 limited = N(at_least)(PASS N(at_most)(PASS y, 0x1p65), -0x1p65);
        F64 y_hi = N(head)(PASS limited);
        F64 log_lo;
        F64 log_hi = N(log_wide)(PASS e, m, &log_lo);
        product = MUL(y_hi, log_hi);
        low = ADD(MUL(SUB(limited, y_hi), log_hi), MUL(limited, log_lo));
        low = SELECT(LT(ABS(product), K(800)), low, K(0));
    } else
        product = MUL(N(at_least)(PASS N(at_most)(PASS y, 0x1p65), -0x1p65),
                      N(log_within)(PASS e, SUB(m, K(1))));
    product = N(at_least)(PASS N(at_most)(PASS product, EXP_HIGH), EXP_LOW);
    F64 v = N(exp_within)(PASS product, wide ? &low : NULL), half = MUL(y, K(0.5));
    BOOL falls = LT(y, K(0)), whole = EQ(FLOOR(y), y), odd = AND(whole, NE(FLOOR(half), half));
    v = SELECT(EQ(a, K(0)), SELECT(falls, K(INFINITY), K(0)), v);
    v = SELECT(EQ(a, K(INFINITY)), SELECT(falls, K(0), K(INFINITY)), v);
    v = FLOAT(XOR(BITS(v), SELECT(odd, AND(BITS(x), UK(SIGN_BIT)), UK(0))));
    v = SELECT(AND(AND(LT(x, K(0)), LT(a, K(INFINITY))), NE(FLOOR(y), y)), K(NAN), v);
    v = SELECT(OR(NE(x, x), NE(y, y)), ADD(x, y), v);
    /* Exact: what is folded to x and x·x is the same number. */
    v = SELECT(EQ(y, K(1)), x, SELECT(EQ(y, K(2)), MUL(x, x), v));
    return SELECT(OR(EQ(x, K(1)), EQ(y, K(0))), K(1), v);
}
#undef POW_N

static inline F64 N(pow)(CTX F64 x, F64 y) { return N(pow_as)(PASS x, y, true); }
static inline F32 NAME(pow_f32)(CTX F32 x, F32 y)
{
    return TO_F32(N(pow_as)(PASS TO_F64(x), TO_F64(y), false));
}
#endif

#include "ops/scalar_special.h"

/* ---- random numbers ---- */

#if WIDTH == 32
static inline U32 NAME(rotate)(CTX U32 x, int n) { return OR(SHL(x, n), SHR(x, 32 - n)); }

/* Threefry-2x32 with 20 rounds: two words from a key and a counter of two words each. */
static inline void NAME(threefry)(CTX const U32 key[2], const U32 counter[2], U32 out[2])
{
    static const uint8_t rotations[8] = { 13, 15, 26, 6, 17, 29, 16, 24 };
    U32 keys[3] = { key[0], key[1], XOR(XOR(key[0], key[1]), U32_K(0x1bd11bdau)) };
    U32 x = ADD(counter[0], keys[0]), y = ADD(counter[1], keys[1]);
    for (unsigned round = 0; round < 20; round++) {
        x = ADD(x, y);
        y = XOR(NAME(rotate)(PASS y, rotations[round % 8]), x);
        if (round % 4 != 3) continue;
        unsigned k = round / 4 + 1;
        x = ADD(x, keys[k % 3]);
        y = ADD(ADD(y, keys[(k + 1) % 3]), U32_K(k));
    }
    out[0] = x;
    out[1] = y;
}
#endif

/* sin(pi·(k + 1/2)/2^bits - pi/2), given k/2^bits: the cosine of a uniform angle. */
static inline F N(random_cosine)(CTX F fraction, double half_step)
{
    F b = MUL(SUB(fraction, K(0.5 - half_step)), K(PI)), z = MUL(b, b);
    return MUL(b, ADD(MUL(N(polynomial)(PASS z, N(arc_c), ARC_N), z), K(1)));
}

#if WIDTH == 32
/* k/2^24, k = the word's first 24 bits. */
static inline F32 N(uniform)(CTX const U32 word[2]) { return MUL(F32_INT(SHR(word[0], 8)), K(0x1p-24)); }

/* Box and Muller: a radius from 31 bits, never 0, and the cosine of an angle from 24. */
static inline F32 N(normal)(CTX const U32 word[2])
{
    F32 radius = ADD(MUL(F32_INT(SHR(word[0], 1)), K(0x1p-31)), K(0x1p-32));
    return MUL(SQRT(MUL(N(log_normal)(PASS radius), K(-2))),
               N(random_cosine)(PASS MUL(F32_INT(SHR(word[1], 8)), K(0x1p-24)), 0x1p-25));
}
#else
/* k/2^53 from 27 and 26 bits. */
static inline F64 N(uniform)(CTX const U32 word[2])
{
    return MUL(ADD(MUL(F64_INT(SHR(word[0], 5)), K(0x1p26)), F64_INT(SHR(word[1], 6))), K(0x1p-53));
}
static inline F64 N(normal)(CTX const U32 word[2], const U32 angle[2])
{
    F64 radius = ADD(N(uniform)(PASS word), K(0x1p-54));
    return MUL(SQRT(MUL(N(log_normal)(PASS radius), K(-2))),
               N(random_cosine)(PASS N(uniform)(PASS angle), 0x1p-54));
}
#endif

#if WIDTH == 64
/* x·y + z where f64 holds x·y exactly: the sum, or the f64 beside it whose last bit is 1 when it lies between
 * two. Rounded on to f16 or bf16 that is as good as the sum itself. */
static inline F64 N(fused_to_odd)(CTX F64 x, F64 y, F64 z)
{
    F64 p = MUL(x, y), s = ADD(p, z), part = SUB(s, p), lost = ADD(SUB(p, SUB(s, part)), SUB(z, part));
    BOOL up = GT(lost, K(0)), down = LT(lost, K(0)), away = OR(AND(up, GT(s, K(0))), AND(down, LT(s, K(0))));
    I64 bits = BITS64(s), moved = SELECT(away, ADD(bits, I64_K(1)), SUB(bits, I64_K(1)));
    return FLOAT64(SELECT(AND(OR(up, down), EQ(AND(bits, I64_K(1)), I64_K(0))), moved, bits));
}
#endif

#undef N
#undef F
#undef U
#undef K
#undef UK
#undef BITS
#undef FLOAT
#undef MANTISSA
#undef BIAS
#undef SHIFTER
#undef SIGN_BIT
#undef EXPONENT
#undef FRACTION
#undef ONE
#undef HEAD
#undef ROOT_HALF
#undef SMALLEST
#undef EXP_LOW
#undef EXP_HIGH
#undef EXPM1_LOW
#undef TANH_HIGH
#undef TINY
#undef LN2_HI
#undef LN2_LO
#undef EXP_N
#undef EXPM1_N
#undef LOG_N
#undef SIN_N
#undef COS_N
#undef ARC_N
#undef LOG2_E
#undef TWO_OVER_PI
#undef PI
#undef HALF_PI_1
#undef HALF_PI_2
#undef HALF_PI_3
#undef HALF_PI_SHORT
#undef HALF_PI_REST
#undef INTEGER_SHIFTER
#undef MULTIPLE_SHIFTER
#undef FUSED_LIMIT
#undef F32_LIMIT
#undef F64_LIMIT
#undef WIDTH
