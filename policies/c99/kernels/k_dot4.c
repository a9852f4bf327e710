/* sum + four products of int8 weights (bytes 0, 2, 1, 3 from the low end) and int16 values (two a word). */
#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__)
static inline int32_t k_dot4(uint32_t w, uint32_t x01, uint32_t x23, int32_t sum)
{
    uint32_t w01, w23;
    __asm__("sxtb16 %0, %1" : "=r"(w01) : "r"(w));
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(w23) : "r"(w));
    __asm__("smlad %0, %1, %2, %0" : "+r"(sum) : "r"(w01), "r"(x01));
    __asm__("smlad %0, %1, %2, %0" : "+r"(sum) : "r"(w23), "r"(x23));
    return sum;
}
#else
static inline int32_t k_byte(uint32_t w)
{
    return (int32_t)((w & 0xffu) ^ 0x80u) - 128;
}

static inline int32_t k_half(uint32_t x)
{
    return (int32_t)((x & 0xffffu) ^ 0x8000u) - 32768;
}

static inline int32_t k_dot4(uint32_t w, uint32_t x01, uint32_t x23, int32_t sum)
{
    sum += k_byte(w) * k_half(x01) + k_byte(w >> 16) * k_half(x01 >> 16);
    return sum + k_byte(w >> 8) * k_half(x23) + k_byte(w >> 24) * k_half(x23 >> 16);
}
#endif
