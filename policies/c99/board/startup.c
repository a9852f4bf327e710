/* The least that QEMU's MPS2 boards need before the C library's own start: a stack, a first instruction, the FPU. */
#include <stdint.h>

extern uint32_t stack_top[];
extern void _start(void);

void reset_handler(void);
void fault_handler(void);

__attribute__((naked)) void reset_handler(void)
{
    __asm__ volatile(
        "ldr r0, =0xE000ED88\n" /* CPACR: full access to coprocessors 10 and 11 */
        "ldr r1, [r0]\n"
        "orr r1, r1, #0xF00000\n"
        "str r1, [r0]\n"
        "dsb\n"
        "isb\n"
        "bl _start\n"
        "b .\n");
}

/* Ends the program: semihosting's SYS_EXIT with "run-time error". */
__attribute__((naked)) void fault_handler(void)
{
    __asm__ volatile(
        "movs r0, #0x18\n"
        "ldr r1, =0x20023\n"
        "bkpt 0xAB\n"
        "b .\n");
}

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[] = {
    (uintptr_t)stack_top,      (uintptr_t)reset_handler, (uintptr_t)fault_handler,
    (uintptr_t)fault_handler, (uintptr_t)fault_handler, (uintptr_t)fault_handler,
    (uintptr_t)fault_handler,
};
