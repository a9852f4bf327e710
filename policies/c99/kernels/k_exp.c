/* exp(x) of any x. */
static float k_exp(float x)
{
    const float bounded = x > 170.0f ? 170.0f : (x < -170.0f ? -170.0f : x);
    const float root = k_exp_core(0.5f * bounded);
    return root * root;
}
