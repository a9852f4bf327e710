/* sin(x + quarter * pi / 2), to 1e-7 for |x| up to 10000; NaN beyond, where float32 angles have lost their meaning. */
static float k_turn(float x, uint32_t quarter)
{
    union { float f; uint32_t u; } n;
    float z, r;
    if (!(fabsf(x) <= 10000.0f))
        return NAN;
    n.f = K_MAC(x, 0.636619772f, 12582912.0f); /* 1.5 * 2^23: the low bits are round(x / (pi / 2)) */
    quarter += n.u;
    n.f -= 12582912.0f;
    x = K_MAC(n.f, -1.5703125f, x);
    x = K_MAC(n.f, -4.83751297e-4f, x);
    x = K_MAC(n.f, -7.54978995e-8f, x);
    z = x * x;
    if (quarter & 1u) {
        r = K_MAC(2.443315711e-5f, z, -1.388731625e-3f);
        r = K_MAC(r, z, 4.166664568e-2f);
        r = K_MAC(r * z, z, K_MAC(-0.5f, z, 1.0f));
    } else {
        r = K_MAC(-1.9515295891e-4f, z, 8.3321608736e-3f);
        r = K_MAC(r, z, -1.6666654611e-1f);
        r = K_MAC(r * z, x, x);
    }
    return (quarter & 2u) ? -r : r;
}
