static float k_sigmoid(float x)
{
    const float size = fabsf(x);
    const float e = k_exp_core(size > 80.0f ? -80.0f : -size);
    const float s = 1.0f / (1.0f + e);
    return x < 0.0f ? e * s : s;
}
