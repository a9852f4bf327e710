/* 0 if all values are finite, else NaN. */
static float k_unfinite(const float *x, int count)
{
    float sum = 0.0f;
    for (int i = 0; i < count; ++i)
        sum = K_MAC(x[i], 0.0f, sum);
    return sum;
}
