/* Elements of any dtype as C numbers, by dtype. The arithmetic of f16 and bf16 is in number.h. */
#include "ir/number.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first bytes of a word are its low bits");

int64_t dtype_least(enum dtype t)
{
    if (dtype_info[t].kind != KIND_INT) return 0;
    return (int64_t)(UINT64_MAX << (8 * dtype_info[t].size - 1));
}

int64_t dtype_most(enum dtype t)
{
    uint32_t bits = 8u * dtype_info[t].size;
    if (t == DT_BOOL) return 1;
    return (int64_t)(UINT64_MAX >> (dtype_info[t].kind == KIND_INT || bits == 64 ? 65 - bits : 64 - bits));
}

int64_t element_whole(enum dtype t, const void *at)
{
    uint64_t bits = element_bits(t, at);
    uint32_t unused = 64 - 8u * dtype_info[t].size;
    return dtype_info[t].kind == KIND_INT ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
}

double element_real(enum dtype t, const void *at)
{
    uint64_t bits = element_bits(t, at);
    switch (t) {
    case DT_F16: return (double)f16_to_f32((uint16_t)bits);
    case DT_BF16: return (double)bf16_to_f32((uint16_t)bits);
    case DT_F32: return (double)f32_of_bits((uint32_t)bits);
    case DT_F64: return f64_of_bits(bits);
    case DT_U64: return (double)bits;
    default: return (double)element_whole(t, at);
    }
}

static void set_bits(enum dtype t, void *at, uint64_t bits) { memcpy(at, &bits, dtype_info[t].size); }

void element_set_whole(enum dtype t, void *at, int64_t value)
{
    switch (t) {
    case DT_BOOL: set_bits(t, at, value != 0); return;
    case DT_F32: set_bits(t, at, f32_bits((float)value)); return;
    case DT_BF16: set_bits(t, at, bf16_of_f64(f64_to_odd_i64(value))); return;
    case DT_F16:
    case DT_F64: element_set_real(t, at, (double)value); return;
    default: set_bits(t, at, (uint64_t)value); return;
    }
}

void element_set_real(enum dtype t, void *at, double value)
{
    switch (t) {
    case DT_BOOL: set_bits(t, at, value != 0); return;
    case DT_I8: set_bits(t, at, (uint64_t)i8_of_f64(value)); return;
    case DT_I16: set_bits(t, at, (uint64_t)i16_of_f64(value)); return;
    case DT_I32: set_bits(t, at, (uint64_t)i32_of_f64(value)); return;
    case DT_I64: set_bits(t, at, (uint64_t)i64_of_f64(value)); return;
    case DT_U8: set_bits(t, at, u8_of_f64(value)); return;
    case DT_U16: set_bits(t, at, u16_of_f64(value)); return;
    case DT_U32: set_bits(t, at, u32_of_f64(value)); return;
    case DT_U64: set_bits(t, at, u64_of_f64(value)); return;
    case DT_F16: set_bits(t, at, f16_of_f64(value)); return;
    case DT_BF16: set_bits(t, at, bf16_of_f64(value)); return;
    case DT_F32: set_bits(t, at, f32_bits((float)value)); return;
    default: set_bits(t, at, f64_bits(value)); return;
    }
}

struct float_layout dtype_float_layout(enum dtype t)
{
    static const struct float_layout layouts[DT_COUNT] = {
        [DT_F16] = { 0x8000, 0x7c00, 0x7e00 },
        [DT_BF16] = { 0x8000, 0x7f80, 0x7fc0 },
        [DT_F32] = { 0x80000000, 0x7f800000, 0x7fc00000 },
        [DT_F64] = { 0x8000000000000000, 0x7ff0000000000000, 0x7ff8000000000000 },
    };
    return layouts[t];
}
