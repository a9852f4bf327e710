static void k_sum_square(const float *x, float *y, int rows, int length)
{
    for (int i = 0; i < rows; ++i, x += length) {
        float a = 0.0f;
        for (int k = 0; k < length; ++k)
            a = K_MAC(x[k], x[k], a);
        y[i] = a;
    }
}
