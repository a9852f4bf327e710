/* exp(x) for |x| <= 87, to 2e-7 of its value: 2^n times a polynomial. NaN stays NaN. */
static float k_exp_core(float x)
{
    union { float f; uint32_t u; } n, power;
    float p;
    n.f = K_MAC(x, 1.44269504f, 12582912.0f); /* 1.5 * 2^23: the low bits are round(x / ln 2) */
    power.u = (n.u << 23) + 0x3f800000u;
    n.f -= 12582912.0f;
    x = K_MAC(n.f, -0.693359375f, x);
    x = K_MAC(n.f, 2.12194440e-4f, x);
    p = K_MAC(1.9875691500e-4f, x, 1.3981999507e-3f);
    p = K_MAC(p, x, 8.3334519073e-3f);
    p = K_MAC(p, x, 4.1665795894e-2f);
    p = K_MAC(p, x, 1.6666665459e-1f);
    p = K_MAC(p, x, 5.0000001201e-1f);
    return K_MAC(p, x * x, x + 1.0f) * power.f;
}
