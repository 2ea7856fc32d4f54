/* engine/base/buf.h - growable bytes. A zeroed buf is empty and ready; buf_free makes it so again. Growth dies on
 * failure. `data` is not NUL-terminated unless buf_cstr was the last call. */
#ifndef ENGINE_BASE_BUF_H
#define ENGINE_BASE_BUF_H
#include <stddef.h>
#include <stdint.h>
#include "engine/base/str.h"

typedef struct buf {
    char *data;
    size_t len, cap;
} buf;

void buf_free(buf *b);
void buf_reserve(buf *b, size_t more); /* room for `more` bytes behind len */
void buf_put(buf *b, const void *p, size_t n);
void buf_str(buf *b, str s);
void buf_byte(buf *b, char c);
void buf_printf(buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *buf_cstr(buf *b); /* borrowed until the next change */
static inline str buf_view(const buf *b) { return (str){ b->data ? b->data : "", b->len }; }
static inline void buf_clear(buf *b) { b->len = 0; }

/* JSON string literal of s, quotes included; invalid UTF-8 becomes U+FFFD; control characters as \u00xx. */
void buf_json_str(buf *b, str s);
/* Shortest decimal that reads back as the same double, integers as "3.0"; null when not finite. */
void buf_double(buf *b, double v);
#endif
