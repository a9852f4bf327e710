/* Included before the self-test on QEMU's MPS2 boards: with `-icount shift=0` an instruction takes 1 ns and SysTick, at 25 MHz,
 * advances by one in 40 of them. */
#include <stdint.h>
#include <stdio.h>

static uint32_t count_start, count_ticks, count_steps;

static uint32_t count_now(void)
{
    volatile uint32_t *const control = (volatile uint32_t *)0xE000E010u;
    if (control[0] == 0) {
        control[1] = 0xffffffu;
        control[2] = 0;
        control[0] = 5;
        while (control[2] == 0)
            ;
    }
    return control[2];
}

#define ISTHMUS_BEFORE_STEP count_start = count_now();
#define ISTHMUS_AFTER_STEP count_ticks += (count_start - count_now()) & 0xffffffu, ++count_steps;
#define ISTHMUS_AT_END \
    printf("instructions %lu, bytes of structs %lu\n", (unsigned long)(count_ticks * 40u / count_steps), \
           (unsigned long)(sizeof state + sizeof in + sizeof out));
