static void k_max(const float *x, float *y, int rows, int length)
{
    for (int i = 0; i < rows; ++i, x += length) {
        float a = x[0];
        for (int k = 0; k < length; ++k)
            a = (a >= x[k] || a != a) ? a : x[k];
        y[i] = a;
    }
}
