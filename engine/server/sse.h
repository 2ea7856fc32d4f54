/* engine/server/sse.h - a server-sent event stream over an exchange: framing, one write per burst, keep-alives in
 * silence.
 *
 *     sse_begin(&s, x, l, first_ms, later_ms);
 *     jsonw_init(&w, sse_open_event(&s)); ...; sse_close_event(&s);     as often as wanted
 *     sse_flush(&s);                                                    all of it in one chunk
 *     sse_end(&s);                                                      ends the exchange
 *
 * When the exchange's `closed` has run, sse_abandon takes the place of sse_end. */
#ifndef ENGINE_SERVER_SSE_H
#define ENGINE_SERVER_SSE_H
#include "engine/base/buf.h"
#include "engine/server/net/http.h"
#include "engine/server/net/loop.h"

typedef struct sse {
    http_exchange *x;
    loop_timer *timer;
    int ping_ms, later_ms; /* <= 0: off */
    buf out;               /* events not yet written */
} sse;

/* Headers leave now. ping after first_ms of silence, and from sse_set_answering on after later_ms. */
void sse_begin(sse *s, http_exchange *x, loop *l, int first_ms, int later_ms);
void sse_set_answering(sse *s);
buf *sse_open_event(sse *s); /* takes one line of data */
void sse_close_event(sse *s);
void sse_put_done(sse *s); /* "data: [DONE]" */
void sse_flush(sse *s);
void sse_end(sse *s); /* flushes */
void sse_abandon(sse *s);
#endif
