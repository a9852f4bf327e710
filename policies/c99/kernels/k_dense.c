/* y = W x + b. Weights lie as they are used: by blocks of 8, 4 and single rows, column after column. */
static void k_dense(const float *w, const float *b, const float *x, float *y, int rows, int columns)
{
    for (; rows >= 8; rows -= 8, b += 8, y += 8) {
        float a0 = b[0], a1 = b[1], a2 = b[2], a3 = b[3], a4 = b[4], a5 = b[5], a6 = b[6], a7 = b[7];
        for (int k = 0; k < columns; ++k, w += 8) {
            const float v = x[k];
            a0 = K_MAC(w[0], v, a0);
            a1 = K_MAC(w[1], v, a1);
            a2 = K_MAC(w[2], v, a2);
            a3 = K_MAC(w[3], v, a3);
            a4 = K_MAC(w[4], v, a4);
            a5 = K_MAC(w[5], v, a5);
            a6 = K_MAC(w[6], v, a6);
            a7 = K_MAC(w[7], v, a7);
        }
        y[0] = a0, y[1] = a1, y[2] = a2, y[3] = a3, y[4] = a4, y[5] = a5, y[6] = a6, y[7] = a7;
    }
    for (; rows >= 4; rows -= 4, b += 4, y += 4) {
        float a0 = b[0], a1 = b[1], a2 = b[2], a3 = b[3];
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
        float a0 = *b++;
        for (int k = 0; k < columns; ++k)
            a0 = K_MAC(*w++, x[k], a0);
        *y++ = a0;
    }
}
