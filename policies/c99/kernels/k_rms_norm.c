static void k_rms_norm(const float *x, float *y, int rows, int length, float epsilon)
{
    for (int i = 0; i < rows; ++i, x += length, y += length) {
        float square = 0.0f;
        for (int k = 0; k < length; ++k)
            square = K_MAC(x[k], x[k], square);
        square = 1.0f / sqrtf(square / (float)length + epsilon);
        for (int k = 0; k < length; ++k)
            y[k] = x[k] * square;
    }
}
