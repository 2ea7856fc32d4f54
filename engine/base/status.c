#include "engine/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void mark_cut(err *e, int wanted) {
    if (wanted >= ERR_TEXT_MAX) memcpy(e->text + ERR_TEXT_MAX - 4, "...", 4);
}

status err_set(err *e, status code, const char *fmt, ...) {
    if (!e) return code;
    e->code = code;
    va_list ap;
    va_start(ap, fmt);
    mark_cut(e, vsnprintf(e->text, sizeof e->text, fmt, ap));
    va_end(ap);
    return code;
}

status err_wrap(err *e, const char *fmt, ...) {
    if (!e) return ERR_FAULT;
    char inner[ERR_TEXT_MAX];
    memcpy(inner, e->text, sizeof inner);
    inner[ERR_TEXT_MAX - 1] = 0;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    if (n < 0 || n >= ERR_TEXT_MAX) n = ERR_TEXT_MAX - 1;
    mark_cut(e, n + snprintf(e->text + n, sizeof e->text - (size_t)n, ": %s", inner));
    return e->code;
}

int status_exit_code(status s) {
    switch (s) {
    case OK: return 0;
    case ERR_USAGE: return 2;
    case ERR_MEMORY:
    case ERR_DEVICE: return 4;
    case ERR_BIND: return 5;
    default: return 1;
    }
}

void check_failed(const char *file, int line, const char *what) {
    fprintf(stderr, "skiff: bug at %s:%d: %s does not hold\n", file, line, what);
    abort();
}
