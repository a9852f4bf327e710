/* y = W x + b. Weights lie as they are used: by blocks of 8, 4 and single rows, column after column. */
static void k_dense(const float *w, const float *b, const float *x, float *y, int rows, int columns)
{
    for (int i = 0; i < rows; ++i)
        y[i] = b[i];
    for (; rows >= 8; rows -= 8, y += 8)
        w = k_eight(w, x, y, columns);
    for (; rows >= 4; rows -= 4, y += 4) {
        float a0 = y[0], a1 = y[1], a2 = y[2], a3 = y[3];
        for (int k = 0; k < columns; ++k, w += 4) {
            const float v = x[k];
            a0 = K_MAC(w[0], v, a0);
            a1 = K_MAC(w[1], v, a1);
            a2 = K_MAC(w[2], v, a2);
            a3 = K_MAC(w[3], v, a3);
        }
        y[0] = a0, y[1] = a1, y[2] = a2, y[3] = a3;
    }
    for (; rows > 0; --rows) {
        float a0 = *y;
        for (int k = 0; k < columns; ++k)
            a0 = K_MAC(*w++, x[k], a0);
        *y++ = a0;
    }
}
