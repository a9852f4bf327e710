/* exp(x) - 1 for x < 0. */
static float k_expm1_negative(float x)
{
    return k_exp_core(x < -20.0f ? -20.0f : x) - 1.0f;
}
