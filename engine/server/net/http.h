/* engine/server/net/http.h - an HTTP/1.x server: whole requests in, answers and streams out, closed clients noticed at
 * once.
 *
 * One thread: the loop's. A request arrives as an exchange. Its handler ends it exactly once, at any later time, by
 * http_reply or http_stream_end; the handle must not be used afterwards. When the client goes first, the `closed`
 * callback runs once instead, from the loop and never inside a call of this header, and the exchange is gone after it.
 *
 * Half-closed clients (they shut down their sending side and read on) count as gone after half_close_ms when nothing
 * was answered yet. A started stream goes on for them: what is written shows whether someone still reads. */
#ifndef ENGINE_SERVER_NET_HTTP_H
#define ENGINE_SERVER_NET_HTTP_H
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/status.h"
#include "engine/server/net/loop.h"

typedef struct http_server http_server;
typedef struct http_exchange http_exchange;

typedef struct http_options {
    size_t head_max; /* bytes of request line and headers */
    size_t body_max;
    size_t unsent_max; /* of one stream; beyond it the client counts as gone */
    int connections_max;
    int head_ms;  /* first byte to complete head */
    int body_ms;  /* silence inside a body */
    int idle_ms;  /* between requests */
    int write_ms; /* without progress of waiting output */
    int half_close_ms;
    void (*request)(http_exchange *x, void *arg);
    /* Appends the JSON body of a refusal that never reaches `request`: malformed, too large, too slow. */
    void (*refusal)(int code, const char *why, buf *body);
    void (*idle)(void *arg); /* after http_server_drain: the last exchange has ended */
    void *arg;
} http_options;

http_server *http_server_new(loop *l, const http_options *opt);
/* Every address that the host name stands for. port 0: any free one. *bound takes the port. ERR_BIND. `taken` (may be
 * NULL): the reason was a port in use. */
status http_server_listen(http_server *hs, const char *host, int port, int *bound, bool *taken, err *e);
void http_server_drain(http_server *hs); /* no new connections or requests; running exchanges go on */
void http_server_free(http_server *hs);  /* every open exchange gets its `closed`; NULL is fine */

/* Borrowed until the exchange ends. */
str http_get_method(const http_exchange *x);
str http_get_path(const http_exchange *x); /* percent escapes resolved, without the query */
str http_get_body(const http_exchange *x);
str http_find_header(const http_exchange *x, const char *name); /* p NULL: absent */

void http_set_closed(http_exchange *x, void (*closed)(void *arg), void *arg);
void http_add_header(http_exchange *x, const char *name,
                     str value); /* for the answer; control characters become blanks */

/* type NULL: no body and no Content-Type. A HEAD request gets the head only. */
void http_reply(http_exchange *x, int code, const char *type, str body);

/* The head leaves at once. `filler` is a string constant that means nothing inside this stream: it is written to find
 * out whether a half-closed client still reads. */
void http_stream_begin(http_exchange *x, const char *type, str filler);
void http_stream_put(http_exchange *x, str bytes); /* one chunk; empty: nothing */
void http_stream_end(http_exchange *x);
#endif
