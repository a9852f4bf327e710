static float k_softplus(float x)
{
    const float size = fabsf(x);
    return (x < 0.0f ? 0.0f : x) + log1pf(k_exp_core(size > 80.0f ? -80.0f : -size));
}
