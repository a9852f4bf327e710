static void k_argmin(const float *x, int64_t *y, int rows, int length)
{
    for (int i = 0; i < rows; ++i, x += length) {
        int best = 0;
        for (int k = 1; k < length; ++k)
            best = x[k] < x[best] ? k : best;
        y[i] = best;
    }
}
