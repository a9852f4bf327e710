static float k_clip(float x, float low, float high)
{
    return x < low ? low : (x > high ? high : x);
}
