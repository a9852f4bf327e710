/* Rows of a table by number, counted from the end where negative; numbers outside take the nearest row. */
static void k_gather(const float *x, const int64_t *at, float *y, int rows, int count, int width)
{
    for (int i = 0; i < count; ++i) {
        int64_t row = at[i] < 0 ? at[i] + rows : at[i];
        row = row < 0 ? 0 : (row >= rows ? rows - 1 : row);
        for (int j = 0; j < width; ++j)
            y[i * width + j] = x[(int)row * width + j];
    }
}
