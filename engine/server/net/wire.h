/* engine/server/net/wire.h - HTTP/1.x as bytes: the head of a request, a chunked body, a request target. Pure; any
 * thread.
 *
 * Strict where two readers could disagree about where a request ends (lengths, codings, folded lines, blanks before a
 * colon), lenient where they cannot (a bare line feed, blank lines before a request). */
#ifndef ENGINE_SERVER_NET_WIRE_H
#define ENGINE_SERVER_NET_WIRE_H
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/str.h"

enum { WIRE_HEADERS_MAX = 128 };

typedef struct wire_header {
    str name, value; /* value without blanks around it */
} wire_header;

typedef struct wire_head {
    str method, target;
    int minor; /* HTTP/1.<minor> */
    wire_header header[WIRE_HEADERS_MAX];
    int n_headers;
    int64_t length; /* Content-Length, -1: none */
    bool chunked;
    bool keep_alive; /* what version and Connection header ask for */
    bool expect_continue;
} wire_head;

/* Length of the request head at the start of s with its blank line, 0: not complete. The first `seen` bytes were looked
 * at by an earlier call. */
size_t wire_head_end(str s, size_t seen);

/* Views into `head` (as wire_head_end measured it). 0, or the HTTP status to refuse with: then *why has the reason. */
int wire_head_parse(wire_head *out, str head, const char **why);

/* Value of the first header of this name, in any case; p NULL: absent. */
str wire_head_find(const wire_head *h, const char *name);

bool wire_name_eq(str a, str b);        /* ASCII letters in any case */
bool wire_list_has(str list, str item); /* comma-separated, blanks around items, any case */
str wire_trim(str s);                   /* without blanks at both ends */

/* "/a%20b?q" -> path "/a b" (appended), query "q". An absolute target loses scheme and authority; "*" stays. False when
 * malformed: no leading slash, a bad escape, an escaped NUL. */
bool wire_target_parse(str target, buf *path, str *query);

typedef enum wire_more { WIRE_MORE, WIRE_END, WIRE_BAD, WIRE_TOO_LARGE } wire_more;

typedef struct wire_chunked {
    int state;
    int line; /* bytes of the current size line or of the trailer */
    uint64_t left;
} wire_chunked;

/* A zeroed decoder is ready. Takes bytes from in, appends data to body, at most max bytes in all; *used: bytes taken,
 * less than in.n only at the end. */
wire_more wire_chunked_push(wire_chunked *d, str in, size_t *used, buf *body, size_t max);

const char *wire_reason(int code); /* "Not Found" */
#endif
