/* Remainder with the sign of the divisor; 0 of a division by 0. */
static int64_t k_mod(int64_t a, int64_t b)
{
    int64_t r;
    if (b == 0 || b == -1)
        return 0;
    r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
