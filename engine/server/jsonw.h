/* engine/server/jsonw.h - writes JSON straight into a buf: no tree, commas by itself. For answers and the chunks of
 * streams.
 *
 * The caller keeps the grammar: a key before each value of an object, every begin with its end. Debug builds check it.
 */
#ifndef ENGINE_SERVER_JSONW_H
#define ENGINE_SERVER_JSONW_H
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/str.h"

enum { JSONW_DEPTH_MAX = 32 };

typedef struct jsonw {
    buf *out;
    bool comma;   /* a value stands before */
    bool has_key; /* the next value belongs to it */
    int depth;
    uint32_t in_array; /* bit d: level d + 1 is an array */
} jsonw;

void jsonw_init(jsonw *w, buf *out); /* appends to out, borrowed */
void jsonw_deinit(jsonw *w);         /* one complete value was written */

void jsonw_begin_object(jsonw *w);
void jsonw_end_object(jsonw *w);
void jsonw_begin_array(jsonw *w);
void jsonw_end_array(jsonw *w);
void jsonw_key(jsonw *w, const char *key); /* plain ASCII, written as it is */

void jsonw_str(jsonw *w, str s); /* broken UTF-8 becomes U+FFFD; p NULL: null */
void jsonw_int(jsonw *w, int64_t v);
void jsonw_double(jsonw *w, double v); /* shortest that reads back the same */
void jsonw_bool(jsonw *w, bool v);
void jsonw_null(jsonw *w);
void jsonw_raw(jsonw *w, str json);        /* one value, written as it is */
void jsonw_members(jsonw *w, str members); /* one or more "key":value with their commas, written as they are */

void jsonw_key_str(jsonw *w, const char *key, str s);
void jsonw_key_int(jsonw *w, const char *key, int64_t v);
void jsonw_key_ms(jsonw *w, const char *key, double ms); /* milliseconds, rounded to a microsecond */
void jsonw_key_double(jsonw *w, const char *key, double v);
void jsonw_key_bool(jsonw *w, const char *key, bool v);
void jsonw_key_null(jsonw *w, const char *key);
#endif
