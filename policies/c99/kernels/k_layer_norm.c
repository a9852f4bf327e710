static void k_layer_norm(const float *x, float *y, int rows, int length, float epsilon)
{
    for (int i = 0; i < rows; ++i, x += length, y += length) {
        float mean = 0.0f, square = 0.0f;
        for (int k = 0; k < length; ++k)
            mean += x[k];
        mean /= (float)length;
        for (int k = 0; k < length; ++k)
            square = K_MAC(x[k] - mean, x[k] - mean, square);
        square = 1.0f / sqrtf(square / (float)length + epsilon);
        for (int k = 0; k < length; ++k)
            y[k] = (x[k] - mean) * square;
    }
}
