/* Eight rows at once: adds to a[0..7] the products of x with columns of eight weights; returns where the weights end. */
#if defined(__GNUC__) && defined(__thumb2__) && defined(__ARM_FEATURE_FMA)
static inline const float *k_eight(const float *w, const float *x, float *a, int columns)
{
    float a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3], a4 = a[4], a5 = a[5], a6 = a[6], a7 = a[7];
    __asm__("1:\n\t"
            "vldmia %[w]!, {s16-s23}\n\t" /* which compilers do one by one */
            "vldmia %[x]!, {s24}\n\t"
            "subs %[n], %[n], #1\n\t"
            "vfma.f32 %[a0], s16, s24\n\t"
            "vfma.f32 %[a1], s17, s24\n\t"
            "vfma.f32 %[a2], s18, s24\n\t"
            "vfma.f32 %[a3], s19, s24\n\t"
            "vfma.f32 %[a4], s20, s24\n\t"
            "vfma.f32 %[a5], s21, s24\n\t"
            "vfma.f32 %[a6], s22, s24\n\t"
            "vfma.f32 %[a7], s23, s24\n\t"
            "bne 1b"
            : [w] "+r"(w), [x] "+r"(x), [n] "+r"(columns), [a0] "+t"(a0), [a1] "+t"(a1), [a2] "+t"(a2),
              [a3] "+t"(a3), [a4] "+t"(a4), [a5] "+t"(a5), [a6] "+t"(a6), [a7] "+t"(a7)
            :
            : "s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23", "s24", "cc", "memory");
    a[0] = a0, a[1] = a1, a[2] = a2, a[3] = a3, a[4] = a4, a[5] = a5, a[6] = a6, a[7] = a7;
    return w;
}
#else
static inline const float *k_eight(const float *w, const float *x, float *a, int columns)
{
    float a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3], a4 = a[4], a5 = a[5], a6 = a[6], a7 = a[7];
    for (int k = 0; k < columns; ++k, w += 8) {
        const float v = x[k];
        a0 = K_MAC(w[0], v, a0);
        a1 = K_MAC(w[1], v, a1);
        a2 = K_MAC(w[2], v, a2);
        a3 = K_MAC(w[3], v, a3);
        a4 = K_MAC(w[4], v, a4);
        a5 = K_MAC(w[5], v, a5);
        a6 = K_MAC(w[6], v, a6);
        a7 = K_MAC(w[7], v, a7);
    }
    a[0] = a0, a[1] = a1, a[2] = a2, a[3] = a3, a[4] = a4, a[5] = a5, a[6] = a6, a[7] = a7;
    return w;
}
#endif
