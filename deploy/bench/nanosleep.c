/* The yardstick of `isthmus bench loop`: clock_nanosleep to absolute deadlines, and nothing else.
 *
 * nanosleep PERIOD_NS TICKS PRIORITY CPU
 *
 * PRIORITY is of SCHED_FIFO, 0 for the usual scheduling; CPU is the one to stay on, -1 for any. Standard output gets, as int64 of this
 * machine, deadline and time of waking up of each tick (CLOCK_MONOTONIC, ns), and at the end the CPU time of all ticks, ns.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static int64_t now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return 1;
}

static int punctual(int priority, int cpu) {
    if (cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        if (sched_setaffinity(0, sizeof set, &set)) return fail("sched_setaffinity");
    }
    if (priority > 0) {
        struct sched_param parameters = {.sched_priority = priority};
        if (sched_setscheduler(0, SCHED_FIFO, &parameters)) return fail("sched_setscheduler");
        if (mlockall(MCL_CURRENT | MCL_FUTURE)) return fail("mlockall");
    }
    return 0;
}

int main(int count, char **words) {
    if (count != 5) {
        fprintf(stderr, "usage: nanosleep PERIOD_NS TICKS PRIORITY CPU\n");
        return 2;
    }
    const int64_t period = atoll(words[1]), ticks = atoll(words[2]);
    if (period <= 0 || ticks <= 0) {
        fprintf(stderr, "PERIOD_NS and TICKS must be above 0\n");
        return 2;
    }
    int64_t *stamps = malloc(sizeof *stamps * (2 * ticks + 1));
    if (!stamps) return fail("malloc");
    memset(stamps, 0, sizeof *stamps * (2 * ticks + 1)); /* every page is there before the first tick */
    if (punctual(atoi(words[3]), atoi(words[4]))) return 1;

    const int64_t before = now(CLOCK_PROCESS_CPUTIME_ID);
    int64_t deadline = now(CLOCK_MONOTONIC);
    for (int64_t tick = 0; tick < ticks; tick++) {
        const struct timespec until = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
        }
        stamps[2 * tick] = deadline;
        stamps[2 * tick + 1] = now(CLOCK_MONOTONIC);
        deadline += period;
        const int64_t late = now(CLOCK_MONOTONIC) - deadline;
        if (late >= 0) deadline += (late / period + 1) * period; /* what is past is skipped, as our loop does */
    }
    stamps[2 * ticks] = now(CLOCK_PROCESS_CPUTIME_ID) - before;
    const size_t total = 2 * ticks + 1;
    return fwrite(stamps, sizeof *stamps, total, stdout) == total ? 0 : fail("write");
}
