/* y = scale * (W q) + b with int8 weights and 16-bit q = x / its own scale. Weights lie as they are used: by blocks of 4 rows. */
static void k_dense8(const uint32_t *w, const float *scale, const float *b, const float *x, uint32_t *q, float *y,
                     int rows, int columns, float most)
{
    const float unit = k_quantise(x, q, columns, most);
    const uint32_t *const end = q + (columns + 3) / 4 * 2;
    for (; rows >= 4; rows -= 4, scale += 4, b += 4, y += 4) {
        int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0;
        for (const uint32_t *v = q; v != end; v += 2, w += 4) {
            const uint32_t x01 = v[0], x23 = v[1];
            a0 = k_dot4(w[0], x01, x23, a0);
            a1 = k_dot4(w[1], x01, x23, a1);
            a2 = k_dot4(w[2], x01, x23, a2);
            a3 = k_dot4(w[3], x01, x23, a3);
        }
        y[0] = K_MAC((float)a0, scale[0] * unit, b[0]);
        y[1] = K_MAC((float)a1, scale[1] * unit, b[1]);
        y[2] = K_MAC((float)a2, scale[2] * unit, b[2]);
        y[3] = K_MAC((float)a3, scale[3] * unit, b[3]);
    }
    for (; rows > 0; --rows) {
        int32_t a0 = 0;
        for (const uint32_t *v = q; v != end; v += 2)
            a0 = k_dot4(*w++, v[0], v[1], a0);
        *y++ = K_MAC((float)a0, *scale++ * unit, *b++);
    }
}
