#include "engine/load/faults.h"

#include <stdarg.h>
#include <stdio.h>

enum { LINE_MAX_BYTES = 480 }; /* names come from files and may be of any length */

void faults_free(faults *f) {
    buf_free(&f->text);
    f->count = f->kept = 0;
}

void faults_add(faults *f, const char *fmt, ...) {
    bool full = f->count > f->kept; /* once a line was left out, a shorter one must not slip in behind it */
    f->count++;
    if (full) return;
    char line[LINE_MAX_BYTES];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof line) memcpy(line + sizeof line - 4, "...", 4);
    if (f->kept && f->text.len + strlen(line) + 3 > f->max) return;
    buf_printf(&f->text, "\n  %s", line);
    f->kept++;
}

void faults_write(const faults *f, buf *out) {
    buf_str(out, buf_view(&f->text));
    if (f->count > f->kept) buf_printf(out, "\n  ... and %lld more", (long long)(f->count - f->kept));
}
