#include "engine/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static _Atomic int level_now = LOG_WARN;

void log_set_level(log_level level) { atomic_store(&level_now, (int)level); }

void log_line(log_level level, const char *part, const char *fmt, ...) {
    static const char *const NAMES[] = { "error", "warn ", "info ", "debug" };
    if ((int)level > atomic_load(&level_now)) return;
    char line[4096];
    struct timespec t;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &t);
    localtime_r(&t.tv_sec, &tm);
    size_t n = strftime(line, 32, "%F %T", &tm);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03ld %s %s: ", t.tv_nsec / 1000000, NAMES[level], part);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - n - 1, fmt, ap);
    va_end(ap);
    if (m < 0) m = 0;
    n += (size_t)m < sizeof line - n - 1 ? (size_t)m : sizeof line - n - 2;
    line[n++] = '\n';
    /* one write: lines of two threads do not mix */
    if (write(STDERR_FILENO, line, n) < 0) return;
}
