/* Batches of (m, k) times (k, n), row by row. */
static void k_matmul(const float *a, const float *b, float *y, int batch, int m, int k, int n)
{
    for (int t = 0; t < batch; ++t, a += m * k, b += k * n)
        for (int i = 0; i < m; ++i)
            for (int j = 0; j < n; ++j) {
                float sum = 0.0f;
                for (int l = 0; l < k; ++l)
                    sum = K_MAC(a[i * k + l], b[l * n + j], sum);
                *y++ = sum;
            }
}
