static void k_log_softmax(const float *x, float *y, int rows, int length)
{
    for (int i = 0; i < rows; ++i, x += length, y += length) {
        float largest = x[0], sum = 0.0f;
        for (int k = 1; k < length; ++k)
            largest = x[k] > largest ? x[k] : largest;
        for (int k = 0; k < length; ++k)
            sum += k_exp(x[k] - largest);
        sum = logf(sum);
        for (int k = 0; k < length; ++k)
            y[k] = x[k] - largest - sum;
    }
}
