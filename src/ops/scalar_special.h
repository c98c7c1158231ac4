/* The second half of scalar_math.h, which includes it for each width: other bases, roots, tangents, inverse
 * and hyperbolic functions, the error function. Same vocabulary, same rules. Where f32 alone would lose too
 * much, an f32 function computes in f64; those that need f64 functions stand in the f64 half. */

/* Minimax polynomials, lowest coefficient first, in z = s² unless said otherwise:
 *   exp2: (2^r - 1)/r in r, |r| <= 1/2                          cbrt: m^(-1/3) in m, sqrt(1/2) <= m <=
 * sqrt(2) tan, asin, atan, sinh: (f(s)/s - 1)/z, s up to pi/4, 1/2, 7/16, 1       erf: erf(s)/s - 1, s up to
 * 1 erfc: (1 + 2x)·e^(x²)·erfc(x) in t = (x - c)/(x + c), c = ERFC_CENTRE        erf_tail (f32):
 * -log(erfc(x)) in x, 1 <= x <= ERF_HIGH */
#if WIDTH == 32
#define EXP2_LOW -151.0
#define EXP2_HIGH 129.0
#define LOG2_E_HI 0x1.714p+0 /* short */
#define LOG2_E_LO 0x1.47652cp-12
#define QUARTER_PI_HI 0x1.921fbp-1 /* short: its multiples are exact */
#define QUARTER_PI_LO 0x1.5110b4p-23
#define ATAN_HALF_HI 0x1.dac64p-2 /* short enough to be subtracted exactly from those */
#define ATAN_HALF_LO 0x1.82b0dep-21
#define COSH_HIGH 90.0
#define ERFC_CENTRE 2.0
#define ERFC_HIGH 10.19
#define ERF_HIGH 3.95
static const double N(exp2_c)[] = { 0x1.62e43p-1,  0x1.ebfbdcp-3,  0x1.c6af76p-5,
                                    0x1.3b2da6p-7, 0x1.5f0c2cp-10, 0x1.41b772p-13 };
static const double N(cbrt_c)[] = { 0x1.bb0fbp+0, -0x1.49254ap+0, 0x1.6d39dp-1, -0x1.44af7cp-3 };
#define TAN_N 7
static const double N(tan_c)[TAN_N] = { 0x1.5555605dc5a4bp-2, 0x1.110d8c08805f9p-3, 0x1.badc45c84b5f9p-5,
                                        0x1.5cab1a9729971p-6, 0x1.632cdc0dd659ep-7, 0x1.652173a241449p-14,
                                        0x1.1ef3304838870p-8 }; /* f64 */
static const double N(asin_c)[] = { 0x1.5555c8p-3, 0x1.330202p-4, 0x1.747c6ep-5, 0x1.8c31ccp-6,
                                    0x1.596a9ap-5 };
static const double N(atan_c)[] = { -0x1.555542p-2, 0x1.998dfap-3, -0x1.236f56p-3, 0x1.addb08p-4,
                                    -0x1.dd527p-5 };
static const double N(sinh_c)[] = { 0x1.555556p-3, 0x1.1110ep-7, 0x1.a022bcp-13, 0x1.756c0cp-19 };
static const double N(erf_c)[] = { 0x1.06eba8p-3, -0x1.81273ep-2,  0x1.ce2cfcp-4, -0x1.b7fa2ep-6,
                                   0x1.5413eep-8, -0x1.a479dap-11, 0x1.4b0152p-14 };
static const double N(erfc_c)[] = { 0x1.46e80ep+0,   -0x1.7bf5dcp-4, -0x1.54081p-3, 0x1.4ff8ecp-3,
                                    -0x1.bc13a4p-5,  -0x1.06736ap-7, 0x1.1b526ap-7, 0x1.3128d2p-10,
                                    -0x1.46c5e2p-10, -0x1.07e736p-12 };
static const double N(erf_tail_c)[] = { 0x1.66c65ep-12, 0x1.2088cp+0,  0x1.46bb78p-1,  0x1.a64f82p-4,
                                        -0x1.65c464p-6, 0x1.824cfep-9, -0x1.86c6bcp-13 };
#else
#define EXP2_LOW -1076.0
#define EXP2_HIGH 1025.0
#define LOG2_E_HI 0x1.715476p+0
#define LOG2_E_LO 0x1.4ae0bf85ddf44p-26
#define QUARTER_PI_HI 0x1.921fb54442d18p-1
#define QUARTER_PI_LO 0x1.1a62633145c07p-55
#define ATAN_HALF_HI 0x1.dac670561bb4p-2
#define ATAN_HALF_LO 0x1.ed15bf9117b2fp-51
#define COSH_HIGH 711.0
#define ERFC_CENTRE 2.5
#define ERFC_HIGH 27.3
#define ERF_HIGH 6.0
static const double N(exp2_c)[] = { 0x1.62e42fefa39f3p-1,  0x1.ebfbdff82c599p-3,  0x1.c6b08d7048d75p-5,
                                    0x1.3b2ab6fba1aa3p-7,  0x1.5d87fe7c08c3cp-10, 0x1.4309130a554e2p-13,
                                    0x1.ffcbecf0626b4p-17, 0x1.62bfd1afb980fp-20, 0x1.b543c5f9895d0p-24,
                                    0x1.e60bde330dc9ap-28, 0x1.bd4af267b376dp-32 };
static const double N(cbrt_c)[] = { 0x1.dfdf8286262dbp+0, -0x1.dc9e0db9be67dp+0, 0x1.8faedef7ea957p+0,
                                    -0x1.679d4946fd1a6p-1, 0x1.06e62b0344eb2p-3 };
static const double N(tan_c)[ANGLE_TAN_N] = { ANGLE_TAN_C };
static const double N(asin_c)[] = { 0x1.5555555555577p-3, 0x1.333333332e10ap-4, 0x1.6db6db7215dcbp-5,
                                    0x1.f1c71a930ca34p-6, 0x1.6e8bdf26ac6b7p-6, 0x1.1c49ea5853f54p-6,
                                    0x1.ca20334d169c4p-7, 0x1.757fb168cd03fp-7, 0x1.615f9af643d59p-7,
                                    0x1.e3caa77a77c03p-9, 0x1.644a8781fd85ap-6, -0x1.58f8b25e182ddp-6,
                                    0x1.0b961e480bbd3p-5 };
static const double N(atan_c)[] = { -0x1.555555555550bp-2, 0x1.999999998e7f7p-3,  -0x1.2492491ff3f00p-3,
                                    0x1.c71c6fdb6dbe8p-4,  -0x1.745cdbae46082p-4, 0x1.3b0f2104ed89ap-4,
                                    -0x1.10d60848e9708p-4, 0x1.ddddffb301e8ep-5,  -0x1.97a1a78d6fbabp-5,
                                    0x1.2b19cf30e2e8dp-5,  -0x1.0a81efa616dddp-6 };
static const double N(sinh_c)[] = { 0x1.5555555555556p-3,  0x1.111111111101dp-7,  0x1.a01a01a03755bp-13,
                                    0x1.71de3a3ad4f12p-19, 0x1.ae6470257433fp-26, 0x1.6116de9b9dfbap-33,
                                    0x1.b5d02c76afd8fp-41 };
static const double N(erf_c)[] = { 0x1.06eba8214db68p-3,   -0x1.812746b03799dp-2,  0x1.ce2f21a03f8abp-4,
                                   -0x1.b82ce311a8ffbp-6,  0x1.565bcceebf601p-8,   -0x1.c02daeb178045p-11,
                                   0x1.f9a2960ec0beap-14,  -0x1.f4c8232985fc4p-17, 0x1.b96acedc3ba1bp-20,
                                   -0x1.5b88a17f358f9p-23, 0x1.d3bf3f9d4cef2p-27,  -0x1.a1d50553ba183p-31 };
static const double N(erfc_c)[] = { 0x1.43cc6f6c9672cp+0,   -0x1.f52c5d7e222cdp-4,  -0x1.959ac16f854f2p-4,
                                    0x1.42d379989a726p-3,   -0x1.a5c0c8a40ccfep-4,  0x1.0c6092a63d8f8p-5,
                                    0x1.e89489cd85591p-11,  -0x1.1f2f13846f66dp-8,  0x1.01e1178c12b6bp-11,
                                    0x1.4b6a69d8f7f2dp-11,  -0x1.731ac51b5c704p-14, -0x1.dc2c0cd4b99adp-14,
                                    0x1.a43df9bfe120cp-18,  0x1.7d402555e9492p-16,  0x1.5f398adab2643p-19,
                                    -0x1.1f81eb6245525p-18, -0x1.aa8f81168e336p-20, 0x1.5758eee97a47fp-21,
                                    0x1.15db89c654ce9p-21,  -0x1.564b5b7133ee0p-24, -0x1.93ed772764304p-24,
                                    0x1.23b319606de46p-26 };
#endif
#define POLYNOMIAL(x, c) N(polynomial)(PASS x, N(c), (int)(sizeof N(c) / sizeof *N(c)))

/* The sign of x on y, which has none. */
static inline F N(signed_as)(CTX F y, F x) { return FLOAT(OR(BITS(y), AND(BITS(x), UK(SIGN_BIT)))); }
static inline F N(copysign)(CTX F x, F y) { return N(signed_as)(PASS ABS(x), y); }

/* ---- division ---- */

/* What is left of x after whole multiples of y, with the sign of y, also where it is 0. */
static inline F N(mod)(CTX F x, F y)
{
    F rest = REM(x, y), moved = SELECT(XOR(LT(rest, K(0)), LT(y, K(0))), ADD(rest, y), rest);
    return SELECT(EQ(rest, K(0)), N(copysign)(PASS rest, y), moved);
}

#if WIDTH == 64
/* The whole number of times that mod takes y away. Where y is 0 or either is infinite it is x/y, rounded
 * down: that quotient is a zero, infinite or NaN. */
static inline F N(floor_div)(CTX F x, F y)
{
    F rest = REM(x, y), ratio = DIV(x, y), q = DIV(SUB(x, rest), y);
    q = SELECT(AND(NE(rest, K(0)), XOR(LT(rest, K(0)), LT(y, K(0)))), SUB(q, K(1)), q);
    F whole = FLOOR(q);
    whole = SELECT(GT(SUB(q, whole), K(0.5)), ADD(whole, K(1)), whole);
    BOOL plain = OR(EQ(y, K(0)), OR(EQ(ABS(x), K(INFINITY)), EQ(ABS(y), K(INFINITY))));
    return SELECT(plain, ratio, SELECT(EQ(q, K(0)), N(signed_as)(PASS K(0), ratio), whole));
}
/* In f64, where x - rest, a whole number of times y, is exact as long as f32 holds that number. */
static inline F32 NAME(floor_div_f32)(CTX F32 x, F32 y)
{
    return TO_F32(N(floor_div)(PASS TO_F64(x), TO_F64(y)));
}
#endif

/* ---- base 2 ---- */

static inline F N(exp2)(CTX F x)
{
    F limited = N(at_least)(PASS N(at_most)(PASS x, EXP2_HIGH), EXP2_LOW);
    F t = ADD(limited, K(SHIFTER + 2 * BIAS)), r = SUB(limited, SUB(t, K(SHIFTER + 2 * BIAS)));
    return N(scale)(PASS ADD(MUL(r, POLYNOMIAL(r, exp2_c)), K(1)), t);
}

/* e + log(m)·log2(e): the logarithm in a short part, whose product is exact, and the rest. */
static inline F N(log2)(CTX F x)
{
    F e, f = SUB(N(split)(PASS x, true, &e, NULL), K(1));
    F s = DIV(f, ADD(f, K(2))), z = MUL(s, s), h = MUL(MUL(f, f), K(0.5));
    F high = N(head)(PASS SUB(f, h));
    F low = ADD(SUB(SUB(f, high), h), MUL(s, ADD(MUL(N(polynomial)(PASS z, N(log_c), LOG_N), z), h)));
    F product = MUL(high, K(LOG2_E_HI)), sum = ADD(e, product);
    F rest = ADD(ADD(MUL(low, K(LOG2_E)), MUL(high, K(LOG2_E_LO))), SUB(product, SUB(sum, e)));
    return N(log_special)(PASS x, ADD(sum, rest), 0);
}

/* ---- roots ---- */

/* |x| = w·2^(3n) with 1/3 < w < 3; t approximates the root of w in few bits, so that t² is exact, and one
 * step of Halley's completes it. */
static inline F N(cbrt)(CTX F x)
{
    F a = ABS(x), e, m = N(split)(PASS a, true, &e, NULL);
    F shifted = ADD(MUL(e, K(1.0 / 3)), K(SHIFTER + BIAS));
    F n = SUB(shifted, K(SHIFTER + BIAS));
    F rest = SUB(e, MUL(n, K(3)));
    BOOL below = LT(rest, K(0)), above = GT(rest, K(0));
    F w = MUL(m, SELECT(below, K(0.5), SELECT(above, K(2), K(1))));
    F r = MUL(POLYNOMIAL(m, cbrt_c),
              SELECT(below, K(0x1.428a2f98d728bp+0), SELECT(above, K(0x1.965fea53d6e3dp-1), K(1))));
#if WIDTH == 64
    F h = SUB(K(1), MUL(MUL(w, r), MUL(r, r)));
    r = ADD(r, MUL(MUL(r, h), ADD(MUL(h, K(2.0 / 9)), K(1.0 / 3))));
#endif
    F t = N(head)(PASS MUL(MUL(w, r), r)), q = DIV(w, MUL(t, t));
    F y = MUL(ADD(t, MUL(t, DIV(SUB(q, t), ADD(ADD(t, t), q)))), FLOAT(SHL(BITS(shifted), MANTISSA)));
    return SELECT(AND(GT(a, K(0)), LT(a, K(INFINITY))), N(signed_as)(PASS y, x), x);
}

/* a^(thirds/3) for thirds of 1, 2, -1 and -2, a > 0 and finite; *exponent is log2(a) but for 0.05.
 * With w as above and h = 1 - w·r³ small, w^(-1/3) = r·(1 - h)^(-1/3) and w^(-2/3) is its square; times w
 * these are the positive powers. */
static inline F N(third_power)(CTX F a, int thirds, F *exponent)
{
    double sign = thirds < 0 ? -1 : 1;
    F e, m = N(split)(PASS a, true, &e, NULL);
    F shifted = ADD(MUL(e, K(sign / 3)), K(SHIFTER + BIAS));
    F rest = SUB(e, MUL(SUB(shifted, K(SHIFTER + BIAS)), K(sign * 3)));
    BOOL below = LT(rest, K(0)), above = GT(rest, K(0));
    F w = MUL(m, SELECT(below, K(0.5), SELECT(above, K(2), K(1))));
    F r = MUL(POLYNOMIAL(m, cbrt_c),
              SELECT(below, K(0x1.428a2f98d728bp+0), SELECT(above, K(0x1.965fea53d6e3dp-1), K(1))));
    F h = SUB(K(1), MUL(MUL(w, r), MUL(r, r)));
#if WIDTH == 64
    r = ADD(r, MUL(MUL(r, h), ADD(MUL(h, K(2.0 / 9)), K(1.0 / 3))));
    h = SUB(K(1), MUL(MUL(w, r), MUL(r, r)));
#endif
    bool squared = thirds == 1 || thirds == -2;
    F y = squared ? MUL(r, r) : r, scale = FLOAT(SHL(BITS(shifted), MANTISSA));
    if (thirds > 0) y = MUL(y, w);
    F near = MUL(h, ADD(MUL(h, K(squared ? 5.0 / 9 : 2.0 / 9)), K(squared ? 2.0 / 3 : 1.0 / 3)));
    *exponent = ADD(e, ADD(MUL(m, K(0x1.6a09e6p+0)), K(-1.457)));
    y = MUL(ADD(y, MUL(y, near)), scale);
    return thirds == 2 || thirds == -2 ? MUL(y, scale) : y;
}

/* Infinite if either operand is, even if the other is NaN. */
static inline F N(hypot)(CTX F x, F y)
{
    F a = ABS(x), b = ABS(y);
#if WIDTH == 32
    F64 u = TO_F64(x), v = TO_F64(y);
    F h = TO_F32(SQRT(ADD(MUL(u, u), MUL(v, v))));
#else
    /* by powers of two into the middle of the range */
    F large = SELECT(GT(a, b), a, b);
    BOOL huge = GT(large, K(0x1p500)), tiny = LT(large, K(0x1p-500));
    F scale = SELECT(huge, K(0x1p-600), SELECT(tiny, K(0x1p600), K(1)));
    F back = SELECT(huge, K(0x1p600), SELECT(tiny, K(0x1p-600), K(1)));
    F u = MUL(a, scale), v = MUL(b, scale);
    F h = MUL(SQRT(ADD(MUL(u, u), MUL(v, v))), back);
#endif
    return SELECT(OR(EQ(a, K(INFINITY)), EQ(b, K(INFINITY))), K(INFINITY), h);
}

/* ---- tangent ---- */

#if WIDTH == 32
/* In f64; where q is odd the cotangent's negative. */
static inline F N(tan)(CTX F x)
{
    U q;
    F64 r = N(reduce_angle)(PASS TO_F64(x), &q, NULL);
    F64 z = MUL(r, r), p = F64_K(N(tan_c)[TAN_N - 1]);
    for (int i = TAN_N - 2; i >= 0; i--) p = ADD(MUL(p, z), F64_K(N(tan_c)[i]));
    F64 t = ADD(MUL(MUL(r, z), p), r);
    BOOL odd = NE(AND(q, UK(1)), UK(0));
    F near = TO_F32(DIV(SELECT(odd, F64_K(-1), t), SELECT(odd, t, F64_K(1))));
    return FAR(ANGLE_TAN, GT(ABS(x), K(F32_LIMIT)), x, near);
}
#else
/* r + rest in two parts; where q is odd the cotangent's negative, one step from the quotient's first half. */
static inline F N(tan)(CTX F x)
{
    U q;
    F lost, r = N(reduce_angle)(PASS x, &q, &lost);
    F z = MUL(r, r), rest = ADD(MUL(MUL(r, z), POLYNOMIAL(z, tan_c)), MUL(lost, ADD(z, K(1))));
    F t = SELECT(EQ(r, K(0)), r, ADD(r, rest)); /* -0 stays */
    F t_hi = N(head)(PASS t);
    F t_lo = SUB(rest, SUB(t_hi, r));
    F inverse = DIV(K(-1), t);
    F i_hi = N(head)(PASS inverse);
    F cotangent = ADD(i_hi, MUL(inverse, ADD(ADD(MUL(i_hi, t_hi), K(1)), MUL(i_hi, t_lo))));
    F near = SELECT(EQ(AND(q, UK(1)), UK(0)), t, cotangent);
    return FAR(ANGLE_TAN, GT(ABS(x), K(F64_LIMIT)), x, near);
}
#endif

/* ---- inverse circular functions ---- */

/* asin(s) less s, for 0 <= s <= 1/2 and z = s². */
static inline F N(asin_rest)(CTX F s, F z) { return MUL(MUL(s, z), POLYNOMIAL(z, asin_c)); }

/* Beyond 1/2: pi/2 - 2·asin(sqrt((1 - |x|)/2)). */
static inline F N(asin)(CTX F x)
{
    F a = ABS(x);
    BOOL far = GT(a, K(0.5));
    F z = SELECT(far, MUL(SUB(K(1), a), K(0.5)), MUL(a, a));
    F s = SELECT(far, SQRT(z), a);
    F rest = N(asin_rest)(PASS s, z);
    F beyond = SUB(K(QUARTER_PI_HI),
                   SUB(SUB(ADD(rest, rest), K(2 * QUARTER_PI_LO)), SUB(K(QUARTER_PI_HI), ADD(s, s))));
    return N(signed_as)(PASS SELECT(far, beyond, ADD(s, rest)), x);
}

static inline F N(acos)(CTX F x)
{
    F a = ABS(x);
    BOOL far = GT(a, K(0.5));
    F z = SELECT(far, MUL(SUB(K(1), a), K(0.5)), MUL(x, x));
    F s = SELECT(far, SQRT(z), x);
    F p = ADD(N(asin_rest)(PASS s, z), s);
    F twice = ADD(p, p);
    F near = SUB(K(2 * QUARTER_PI_HI), SUB(p, K(2 * QUARTER_PI_LO)));
    F left = SUB(K(4 * QUARTER_PI_HI), SUB(twice, K(4 * QUARTER_PI_LO)));
    return SELECT(far, SELECT(LT(x, K(0)), left, twice), near);
}

/* The angle of the point (b, a), or with `left` of (-b, a); a and b are finite and not both 0. With c one of
 * 0, 1/2 and 1 next to the smaller ratio k it is atan(c) + atan((k - c)/(1 + c·k)), taken from pi/2 and from
 * pi where the point lies there. */
static inline F N(angle)(CTX F a, F b, const BOOL *left)
{
    BOOL steep = GT(a, b);
    F small = SELECT(steep, b, a), large = SELECT(steep, a, b);
    BOOL some = GT(small, MUL(large, K(0.4375))), most = GT(small, MUL(large, K(0.6875)));
    F c = SELECT(most, K(1), SELECT(some, K(0.5), K(0)));
    F r = DIV(SUB(small, MUL(c, large)), ADD(large, MUL(c, small))), z = MUL(r, r);
    F p = ADD(MUL(MUL(r, z), POLYNOMIAL(z, atan_c)), r);
    F high = SELECT(most, K(QUARTER_PI_HI), SELECT(some, K(ATAN_HALF_HI), K(0)));
    F low = SELECT(most, K(QUARTER_PI_LO), SELECT(some, K(ATAN_HALF_LO), K(0)));
    high = SELECT(steep, SUB(K(2 * QUARTER_PI_HI), high), high);
    low = SELECT(steep, SUB(K(2 * QUARTER_PI_LO), low), low);
    if (left) {
        high = SELECT(*left, SUB(K(4 * QUARTER_PI_HI), high), high);
        low = SELECT(*left, SUB(K(4 * QUARTER_PI_LO), low), low);
    }
    p = SELECT(left ? XOR(steep, *left) : steep, NEG(p), p);
    return ADD(high, ADD(p, low));
}

static inline F N(atan)(CTX F x)
{
    return N(signed_as)(PASS N(angle)(PASS N(at_most)(PASS ABS(x), 0x1p64), K(1), NULL), x);
}

/* Scaled into the middle of the range, so that sums are finite and products exact; infinities become (1, 0),
 * (0, 1) and (1, 1), zeros (1, 0). */
static inline F N(atan2)(CTX F y, F x)
{
    F a = ABS(y), b = ABS(x), large = SELECT(GT(a, b), a, b);
    F scale = SELECT(GT(large, K(0x1p100)), K(0x1p-60), SELECT(LT(large, K(0x1p-60)), K(0x1p60), K(1)));
    BOOL up = EQ(a, K(INFINITY));
    BOOL along = EQ(b, K(INFINITY));
    BOOL endless = OR(up, along);
    BOOL left = NE(AND(BITS(x), UK(SIGN_BIT)), UK(0));
    a = SELECT(endless, SELECT(up, K(1), K(0)), MUL(a, scale));
    b = SELECT(endless, SELECT(along, K(1), K(0)), SELECT(EQ(large, K(0)), K(1), MUL(b, scale)));
    return SELECT(OR(NE(x, x), NE(y, y)), ADD(x, y), N(signed_as)(PASS N(angle)(PASS a, b, &left), y));
}

/* ---- hyperbolic functions ---- */

/* Beyond 1 by half = e^|x|/2: half - 1/(4·half). */
static inline F N(sinh)(CTX F x)
{
    F a = N(at_most)(PASS ABS(x), COSH_HIGH), z = MUL(a, a), half = N(exp_less)(PASS a, NULL, 1);
    F near = ADD(MUL(MUL(a, z), POLYNOMIAL(z, sinh_c)), a), far = SUB(half, DIV(K(0.25), half));
    return N(signed_as)(PASS SELECT(LT(a, K(1)), near, far), x);
}
static inline F N(cosh)(CTX F x)
{
    F half = N(exp_less)(PASS N(at_most)(PASS ABS(x), COSH_HIGH), NULL, 1);
    return ADD(half, DIV(K(0.25), half));
}

#if WIDTH == 64
/* log((1 + s)/(1 - s)) from 2s: the polynomial of log. |s| <= 0.1716. */
static inline F64 N(log_ratio)(CTX F64 twice)
{
    F64 z = MUL(MUL(twice, twice), K(0.25));
    return ADD(MUL(MUL(twice, MUL(z, K(0.5))), N(polynomial)(PASS z, N(log_c), LOG_N)), twice);
}

/* What sqrt(x² + one) is more than `root`, times twice the root. */
static inline F64 N(root_rest)(CTX F64 x, double one, F64 root)
{
    F64 x_hi = N(head)(PASS x), x_lo = SUB(x, x_hi), hi = N(head)(PASS root), lo = SUB(root, hi);
    F64 first = ADD(SUB(MUL(x_hi, x_hi), MUL(hi, hi)), K(one)), second = SUB(MUL(x_hi, x_lo), MUL(hi, lo));
    return ADD(ADD(first, ADD(second, second)), SUB(MUL(x_lo, x_lo), MUL(lo, lo)));
}

/* log(|x| + sqrt(x² + 1)) with what rounding lost; near 0 by the tangent of half of it,
 * t = x/(1 + sqrt(x² + 1)), for which 2t = x - x·t². */
static inline F64 N(asinh)(CTX F64 x)
{
    F64 a = ABS(x), b = N(at_most)(PASS a, 0x1p30), root = SQRT(ADD(MUL(b, b), K(1))), u = ADD(root, b);
    BOOL near = LT(a, K(0.35)), huge = GT(a, K(0x1p28));
    F64 ratio = DIV(SELECT(near, b, N(root_rest)(PASS b, 1, root)),
                    SELECT(near, ADD(root, K(1)), ADD(root, root)));
    F64 twice = SUB(b, MUL(b, MUL(ratio, ratio)));
    F64 lost = SELECT(huge, K(0), ADD(SUB(b, SUB(u, root)), ratio)), raise = SELECT(huge, K(1), K(0));
    F64 far = N(log_pair)(PASS SELECT(huge, a, u), lost, &raise);
    F64 y = SELECT(near, N(log_ratio)(PASS twice), far);
    return SELECT(LT(a, K(INFINITY)), N(signed_as)(PASS y, x), x);
}

/* log(x + sqrt(x² - 1)) with what rounding lost; near 1 by the tangent of half of it, sqrt((x - 1)/(x + 1)).
 */
static inline F64 N(acosh)(CTX F64 x)
{
    F64 b = N(at_most)(PASS x, 0x1p30), less = SUB(b, K(1)), more = ADD(b, K(1));
    BOOL near = LT(x, K(1.06)), huge = GT(x, K(0x1p28));
    F64 root = SQRT(SELECT(near, DIV(less, more), MUL(less, more))), u = ADD(b, root);
    F64 lost = ADD(SUB(root, SUB(u, b)), DIV(N(root_rest)(PASS b, -1, root), ADD(root, root)));
    F64 raise = SELECT(huge, K(1), K(0));
    F64 far = N(log_pair)(PASS SELECT(huge, x, u), SELECT(huge, K(0), lost), &raise);
    F64 y = SELECT(near, N(log_ratio)(PASS ADD(root, root)), far);
    return SELECT(LT(x, K(1)), K(NAN), SELECT(LT(x, K(INFINITY)), y, x));
}

/* Half of log((1 + |x|)/(1 - |x|)) with what rounding lost. */
static inline F64 N(atanh)(CTX F64 x)
{
    F64 a = ABS(x), top = ADD(K(1), a), bottom = SUB(K(1), a), q = DIV(top, bottom);
    F64 top_lost = SUB(a, SUB(top, K(1))), bottom_lost = SUB(SUB(K(1), bottom), a);
    F64 q_hi = N(head)(PASS q), q_lo = SUB(q, q_hi), b_hi = N(head)(PASS bottom), b_lo = SUB(bottom, b_hi);
    F64 rest = SUB(SUB(SUB(top, MUL(q_hi, b_hi)), MUL(q_hi, b_lo)), MUL(q_lo, bottom));
    F64 lost = DIV(ADD(rest, SUB(top_lost, MUL(q, bottom_lost))), bottom);
    F64 y = SELECT(LT(a, K(0.17)), N(log_ratio)(PASS ADD(a, a)), N(log_pair)(PASS q, lost, NULL));
    y = SELECT(LT(a, K(1)), MUL(y, K(0.5)), SELECT(EQ(a, K(1)), K(INFINITY), K(NAN)));
    return N(signed_as)(PASS y, x);
}

/* In f64, whose logarithm is exact enough; near 0 by the first terms of the series. */
static inline F32 NAME(asinh_f32)(CTX F32 x)
{
    F64 a = ABS(TO_F64(x)), z = MUL(a, a);
    F64 near = ADD(a, MUL(MUL(a, z), ADD(MUL(z, K(3.0 / 40)), K(-1.0 / 6))));
    F64 far = N(log_normal)(PASS ADD(a, SQRT(ADD(z, K(1)))));
    F32 y = TO_F32(SELECT(LT(a, K(0x1p-6)), near, far));
    return SELECT(LT(ABS(x), F32_K(INFINITY)), NAME(signed_as_f32)(PASS y, x), x);
}
static inline F32 NAME(acosh_f32)(CTX F32 x)
{
    F64 b = TO_F64(x);
    return SELECT(LT(x, F32_K(INFINITY)),
                  TO_F32(SELECT(LT(b, K(1)), K(NAN), N(log_normal)(PASS ADD(b, SQRT(SUB(MUL(b, b), K(1))))))),
                  x);
}
static inline F32 NAME(atanh_f32)(CTX F32 x)
{
    F64 a = ABS(TO_F64(x)), z = MUL(a, a);
    F64 near = ADD(a, MUL(MUL(a, z), ADD(MUL(z, K(1.0 / 5)), K(1.0 / 3))));
    F64 far = MUL(N(log_normal)(PASS DIV(ADD(K(1), a), SUB(K(1), a))), K(0.5));
    F64 y = SELECT(LT(a, K(1)), SELECT(LT(a, K(0x1p-6)), near, far),
                   SELECT(EQ(a, K(1)), K(INFINITY), K(NAN)));
    return NAME(signed_as_f32)(PASS TO_F32(y), x);
}
#endif

/* ---- the error function ---- */

/* erf(a) less a, for |a| <= 1. */
static inline F N(erf_rest)(CTX F a) { return MUL(a, POLYNOMIAL(MUL(a, a), erf_c)); }

/* erfc(a) for 0.45 <= a <= ERFC_HIGH: e^(-a²), a² in two parts, times a smooth function. */
static inline F N(erfc_tail)(CTX F a)
{
    F t = DIV(SUB(a, K(ERFC_CENTRE)), ADD(a, K(ERFC_CENTRE))), short_a = N(head)(PASS a);
    F low = MUL(SUB(short_a, a), ADD(a, short_a)), e = N(exp_within)(PASS NEG(MUL(short_a, short_a)), &low);
    return MUL(e, DIV(POLYNOMIAL(t, erfc_c), ADD(ADD(a, a), K(1))));
}

static inline F N(erf)(CTX F x)
{
    F a = N(at_most)(PASS ABS(x), ERF_HIGH);
#if WIDTH == 32
    F tail = N(exp_within)(PASS NEG(POLYNOMIAL(a, erf_tail_c)), NULL);
#else
    F tail = N(erfc_tail)(PASS a);
#endif
    return N(signed_as)(PASS SELECT(LT(a, K(1)), ADD(a, N(erf_rest)(PASS a)), SUB(K(1), tail)), x);
}

static inline F N(erfc)(CTX F x)
{
    F a = N(at_most)(PASS ABS(x), ERFC_HIGH), tail = N(erfc_tail)(PASS a);
    F near = ADD(SUB(SUB(K(0.5), x), N(erf_rest)(PASS x)), K(0.5));
    F far = SELECT(LT(x, K(0)), SUB(K(2), tail), tail);
    return SELECT(LT(a, K(0.5)), near, far);
}

#undef EXP2_LOW
#undef EXP2_HIGH
#undef LOG2_E_HI
#undef LOG2_E_LO
#undef QUARTER_PI_HI
#undef QUARTER_PI_LO
#undef COSH_HIGH
#undef ERFC_CENTRE
#undef ERFC_HIGH
#undef ERF_HIGH
#undef ATAN_HALF_HI
#undef ATAN_HALF_LO
#undef TAN_N
#undef POLYNOMIAL
