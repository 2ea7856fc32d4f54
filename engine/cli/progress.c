#include "engine/cli/progress.h"

#include "engine/base/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

enum { WIDTH = 32, QUIET_MS = 200 };

/* The terminal has one bar; this is its state. */
static int64_t started, drawn;

void progress_show(const char *what, float fraction) {
    int64_t now = clock_ns();
    if (!started) started = now;
    if (!isatty(STDERR_FILENO) || clock_ms(now - started) < QUIET_MS || (drawn && clock_ms(now - drawn) < 50)) return;
    drawn = now;
    int full = (int)(fraction * WIDTH);
    fprintf(stderr, "\r%s [", what);
    for (int i = 0; i < WIDTH; i++) fputc(i < full ? '#' : '.', stderr);
    fprintf(stderr, "] %3d%%", (int)(fraction * 100));
    fflush(stderr);
}

void progress_clear(void) {
    if (drawn) fprintf(stderr, "\r\033[K");
    started = drawn = 0;
}
