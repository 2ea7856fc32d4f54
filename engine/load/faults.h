/* engine/load/faults.h - a list of faults that becomes one message, so that a user sees all of them at once.
 *
 * A zeroed list with `max` set is empty and ready. Lines beyond max bytes are counted, not kept. */
#ifndef ENGINE_LOAD_FAULTS_H
#define ENGINE_LOAD_FAULTS_H
#include "engine/base/buf.h"

typedef struct faults {
    size_t max; /* bytes of text that are kept; the first line is kept in any case */
    buf text;   /* lines, each "\n  <fault>" */
    int64_t count, kept;
} faults;

void faults_free(faults *f);
void faults_add(faults *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Appends the kept lines to out, and "\n  ... and N more" when some were not kept. */
void faults_write(const faults *f, buf *out);
#endif
