static float k_tanh(float x)
{
    const float size = fabsf(x);
    float r;
    if (size < 0.625f) {
        const float z = x * x;
        r = K_MAC(-5.70498872745e-3f, z, 2.06390887954e-2f);
        r = K_MAC(r, z, -5.37397155531e-2f);
        r = K_MAC(r, z, 1.33314422036e-1f);
        r = K_MAC(r, z, -3.33332819422e-1f);
        return K_MAC(r * z, x, x);
    }
    r = 1.0f - 2.0f / (k_exp_core(size > 10.0f ? 20.0f : 2.0f * size) + 1.0f);
    return x < 0.0f ? -r : r;
}
