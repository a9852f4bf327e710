/* Values as integers of at most `most`, two a word, zeros up to a multiple of four; returns what 1 stands for, NaN if one is not finite. */
static float k_quantise(const float *x, uint32_t *q, int count, float most)
{
    union { float f; uint32_t u; } largest, value;
    float factor;
    int k = 0;
    largest.u = 0;
    for (int i = 0; i < count; ++i) {
        value.f = x[i];
        value.u &= 0x7fffffffu; /* sizes of floats are ordered as their bits are, NaN and infinity above all */
        largest.u = value.u > largest.u ? value.u : largest.u;
    }
    if (largest.u >= 0x7f800000u)
        return NAN;
    factor = largest.u ? most / largest.f : 0.0f;
    for (; k + 2 <= count; k += 2) {
        union { float f; uint32_t u; } low, high;
        low.f = K_MAC(x[k], factor, 12582912.0f); /* 1.5 * 2^23: the low half is the rounded value */
        high.f = K_MAC(x[k + 1], factor, 12582912.0f);
        *q++ = (low.u & 0xffffu) | (high.u << 16);
    }
    if (k < count) {
        union { float f; uint32_t u; } low;
        low.f = K_MAC(x[k], factor, 12582912.0f);
        *q++ = low.u & 0xffffu;
        k += 2;
    }
    if (k % 4)
        *q = 0;
    return largest.f / most;
}
