#include "engine/server/sse.h"

/* Keep-alives are blank lines: every event-stream reader skips them, every timer that counts bytes is reset. A comment
 * line would be just as legal, but a widespread benchmark client strips each network read and splits it at blank lines;
 * a comment that arrives alone then swallows every event behind it. */
static const str BLANK_LINES = { "\n\n", 2 };

static void rearm(sse *s) {
    if (s->ping_ms > 0)
        loop_timer_set(s->timer, s->ping_ms);
    else
        loop_timer_stop(s->timer);
}

static void on_silence(void *arg) {
    sse *s = arg;
    /* Written events are flushed in the turn that makes them, so this never lands inside one. */
    http_stream_put(s->x, BLANK_LINES);
    rearm(s);
}

void sse_begin(sse *s, http_exchange *x, loop *l, int first_ms, int later_ms) {
    *s = (sse){ .x = x, .ping_ms = first_ms, .later_ms = later_ms };
    s->timer = loop_timer_new(l, on_silence, s);
    http_stream_begin(x, "text/event-stream", BLANK_LINES);
    rearm(s);
}

void sse_set_answering(sse *s) { s->ping_ms = s->later_ms; }

buf *sse_open_event(sse *s) {
    buf_str(&s->out, STR("data: "));
    return &s->out;
}

void sse_close_event(sse *s) { buf_str(&s->out, STR("\n\n")); }

void sse_put_done(sse *s) { buf_str(&s->out, STR("data: [DONE]\n\n")); }

void sse_flush(sse *s) {
    if (!s->out.len) return;
    http_stream_put(s->x, buf_view(&s->out));
    buf_clear(&s->out);
    rearm(s);
}

void sse_abandon(sse *s) {
    loop_timer_free(s->timer);
    s->timer = NULL;
    s->x = NULL;
    buf_free(&s->out);
}

void sse_end(sse *s) {
    http_exchange *x = s->x;
    sse_flush(s);
    sse_abandon(s);
    http_stream_end(x);
}
