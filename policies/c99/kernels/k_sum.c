static void k_sum(const float *x, float *y, int rows, int length)
{
    for (int i = 0; i < rows; ++i, x += length) {
        float a = 0.0f;
        for (int k = 0; k < length; ++k)
            a += x[k];
        y[i] = a;
    }
}
