/* Towards zero; what does not fit becomes the nearest that does, NaN becomes 0. */
static int64_t k_to_int64(float x)
{
    if (x != x)
        return 0;
    if (x >= 9.2233720e18f)
        return INT64_MAX;
    return x <= -9.2233720e18f ? INT64_MIN : (int64_t)x;
}
