/* One connection: reading requests, noticing its end, and its way to the grave.
 *
 * Built on bufferevents with callbacks of our own for the whole life of a connection. libevent's own HTTP layer was not
 * used: between request and answer it ends the process when a client sends one more byte, hides the end of the
 * connection until the first write, rearms its one timeout with every byte, and answers malformed requests in HTML.
 *
 * Rules that hold everywhere below:
 *  - a connection is freed only from the deferred list, never inside a callback or a call of the handler;
 *  - reading stays on while a request is pending, so that a close shows at once; bytes that arrive meanwhile wait for
 *    their turn up to PIPELINE_MAX and are dropped beyond it, with the connection closed after the answer;
 *  - an exchange ends once: by the handler, or by `closed` from the deferred list. */
#include "engine/server/net/http_int.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <event2/buffer.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { PIPELINE_MAX = 64 * 1024, HALF_CLOSE_POLL_MS = 50, LINGER_SILENCE_MS = 1000, LINGER_MS = 10 * 1000 };

static const char NOT_READING[] = "the client does not read";

/* ------------------------------------------------------------------- timers */

static void arm(http_exchange *c, int64_t ms) {
    struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
    CHECK(event_add(c->timer, &tv) == 0);
}

static void disarm(http_exchange *c) { event_del(c->timer); }

static int64_t deadline(int64_t ms) { return clock_ns() + ms * 1000000; }

/* ------------------------------------------------------------ deferred list */

static void put_later(http_exchange *c) {
    if (c->is_later) return;
    c->is_later = true;
    c->next_later = c->hs->later;
    c->hs->later = c;
    event_active(c->hs->later_event, 0, 0);
}

void conn_break_(http_exchange *c, const char *why) {
    if (c->state == CONN_DEAD) return;
    if (why) log_info("http", "connection ended: %s", why);
    c->tell_closed = c->state == CONN_BUSY;
    if (c->state == CONN_FLUSH) c->hs->n_exchanges--;
    c->state = CONN_DEAD;
    disarm(c);
    bufferevent_disable(c->bev, EV_READ | EV_WRITE);
    put_later(c);
}

/* -------------------------------------------------------------------- output */

/* The kernel gives up on bytes that stay unacknowledged (set_socket) with ETIMEDOUT. */
static const char *why_gone(int code) { return code == ETIMEDOUT ? NOT_READING : "the client has gone"; }

/* Straight to the socket when nothing waits in front: a chunk leaves in this turn of the loop, with one system call. */
void conn_write_(http_exchange *c, str bytes) {
    if (c->state == CONN_DEAD || !bytes.n) return;
    if (evbuffer_get_length(bufferevent_get_output(c->bev)) == 0) {
        ssize_t n = send(bufferevent_getfd(c->bev), bytes.p, bytes.n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            conn_break_(c, why_gone(errno));
            return;
        }
        if (n > 0) bytes = str_from(bytes, (size_t)n);
    }
    if (bytes.n) CHECK(bufferevent_write(c->bev, bytes.p, bytes.n) == 0);
}

static void begin_linger(http_exchange *c) {
    if (c->is_eof) {
        conn_break_(c, NULL);
        return;
    }
    c->state = CONN_LINGER;
    c->until_ns = deadline(LINGER_MS);
    shutdown(bufferevent_getfd(c->bev), SHUT_WR);
    arm(c, LINGER_SILENCE_MS);
}

/* The answer has left. */
static void flushed(http_exchange *c) {
    http_server *hs = c->hs;
    hs->n_exchanges--;
    if (hs->is_draining) event_active(hs->later_event, 0, 0); /* was it the last one? */
    if (!c->keep || c->is_eof || hs->is_draining) {
        begin_linger(c);
        return;
    }
    buf_free(&c->body); /* may have been large */
    buf_clear(&c->answer);
    c->is_stream = c->is_chunked = false;
    c->closed = NULL;
    c->chunked = (wire_chunked){ 0 };
    c->seen = 0;
    c->state = CONN_HEAD;
    c->until_ns = 0;
    arm(c, hs->opt.idle_ms);
    if (evbuffer_get_length(bufferevent_get_input(c->bev))) put_later(c);
}

void conn_answered_(http_exchange *c) {
    if (c->state ==
        CONN_DEAD) { /* the client went while the handler was writing: the handler has ended it all the same */
        if (c->tell_closed) c->hs->n_exchanges--;
        c->tell_closed = false;
        return;
    }
    CHECK(c->state == CONN_BUSY);
    disarm(c);
    c->state = CONN_FLUSH;
    if (evbuffer_get_length(bufferevent_get_output(c->bev)) == 0) flushed(c);
}

void conn_refuse_(http_exchange *c, int code, const char *why) {
    buf body = { 0 };
    c->hs->opt.refusal(code, why, &body);
    c->hs->n_exchanges++;
    c->keep = false;
    c->state = CONN_BUSY;
    http_reply(c, code, "application/json", buf_view(&body));
    buf_free(&body);
}

/* --------------------------------------------------------------------- input */

static void dispatch(http_exchange *c) {
    disarm(c);
    str query; /* no endpoint has one */
    if (!wire_target_parse(c->head.target, &c->path, &query)) {
        conn_refuse_(c, 400, "malformed request target");
        return;
    }
    c->state = CONN_BUSY;
    c->keep = c->head.keep_alive;
    c->hs->n_exchanges++;
    c->hs->opt.request(c, c->hs->opt.arg);
}

static void read_body(http_exchange *c) {
    struct evbuffer *in = bufferevent_get_input(c->bev);
    size_t max = c->hs->opt.body_max;
    for (;;) {
        size_t n = evbuffer_get_contiguous_space(in);
        if (!n) break;
        if (!c->head.chunked) {
            size_t left = (size_t)c->head.length - c->body.len;
            if (n > left) n = left;
            buf_put(&c->body, evbuffer_pullup(in, (ev_ssize_t)n), n);
            evbuffer_drain(in, n);
            if (n == left) {
                dispatch(c);
                return;
            }
            continue;
        }
        size_t used = 0;
        wire_more more = wire_chunked_push(&c->chunked, (str){ (char *)evbuffer_pullup(in, (ev_ssize_t)n), n }, &used,
                                           &c->body, max);
        if (more == WIRE_BAD) {
            conn_refuse_(c, 400, "malformed chunked body");
            return;
        }
        if (more == WIRE_TOO_LARGE) {
            conn_refuse_(c, 413, "the request body is larger than this server takes");
            return;
        }
        evbuffer_drain(in, used);
        if (more == WIRE_END) {
            dispatch(c);
            return;
        }
    }
    arm(c, c->hs->opt.body_ms);
}

/* The head is complete: what follows it? */
static void head_done(http_exchange *c) {
    const wire_head *h = &c->head;
    if (h->length > 0 && (uint64_t)h->length > c->hs->opt.body_max) {
        conn_refuse_(c, 413, "the request body is larger than this server takes");
        return;
    }
    if (h->length <= 0 && !h->chunked) {
        dispatch(c);
        return;
    }
    c->state = CONN_BODY;
    if (h->expect_continue && !evbuffer_get_length(bufferevent_get_input(c->bev)))
        conn_write_(c, STR("HTTP/1.1 100 Continue\r\n\r\n"));
    if (c->state == CONN_BODY) read_body(c);
}

/* Blank lines in front of a request are read over, as RFC 9112 advises. */
static void skip_blank_lines(struct evbuffer *in) {
    for (char ch; evbuffer_copyout(in, &ch, 1) == 1 && (ch == '\r' || ch == '\n');) evbuffer_drain(in, 1);
}

static void read_head(http_exchange *c) {
    struct evbuffer *in = bufferevent_get_input(c->bev);
    size_t max = c->hs->opt.head_max;
    if (c->seen == 0) skip_blank_lines(in);
    size_t have = evbuffer_get_length(in);
    if (!have) return;
    if (!c->until_ns) { /* the clock runs from the first byte, whatever drips in later */
        c->until_ns = deadline(c->hs->opt.head_ms);
        arm(c, c->hs->opt.head_ms);
    }
    if (have > max) have = max;
    str s = { (const char *)evbuffer_pullup(in, (ev_ssize_t)have), have };
    size_t n = wire_head_end(s, c->seen);
    if (!n) {
        c->seen = have;
        if (have == max) conn_refuse_(c, 431, "the request head is larger than this server takes");
        return;
    }
    buf_clear(&c->head_bytes);
    buf_clear(&c->path);
    buf_put(&c->head_bytes, s.p, n);
    evbuffer_drain(in, n);
    const char *why = "";
    c->head = (wire_head){ 0 };
    int code = wire_head_parse(&c->head, buf_view(&c->head_bytes), &why);
    if (code)
        conn_refuse_(c, code, why);
    else
        head_done(c);
}

static void conn_read(http_exchange *c) {
    struct evbuffer *in = bufferevent_get_input(c->bev);
    switch (c->state) {
    case CONN_HEAD: read_head(c); break;
    case CONN_BODY: read_body(c); break;
    case CONN_BUSY:
    case CONN_FLUSH:
        if (evbuffer_get_length(in) > PIPELINE_MAX) {
            evbuffer_drain(in, evbuffer_get_length(in));
            c->keep = false;
        }
        break;
    case CONN_LINGER:
        evbuffer_drain(in, evbuffer_get_length(in));
        if (clock_ns() > c->until_ns)
            conn_break_(c, NULL);
        else
            arm(c, LINGER_SILENCE_MS);
        break;
    case CONN_DEAD: break;
    }
}

void conn_run_later_(http_server *hs) {
    while (hs->later) {
        http_exchange *c = hs->later;
        hs->later = c->next_later;
        c->is_later = false;
        if (c->state != CONN_DEAD) {
            conn_read(c); /* a request that came with or behind the one before */
            continue;
        }
        if (c->tell_closed) {
            hs->n_exchanges--;
            if (c->closed) c->closed(c->closed_arg);
        }
        conn_free_(c);
    }
    if (hs->is_draining && hs->n_exchanges == 0 && hs->opt.idle) hs->opt.idle(hs->opt.arg);
}

/* ------------------------------------------------------- closing and timeouts */

/* After the client's FIN a reset is the only sign that nobody reads, and nothing of libevent looks for it then. */
static bool is_reset(http_exchange *c) {
    struct pollfd p = { .fd = bufferevent_getfd(c->bev) };
    return poll(&p, 1, 0) > 0 && p.revents & (POLLERR | POLLHUP);
}

void conn_watch_half_close_(http_exchange *c) {
    c->until_ns = deadline(c->hs->opt.half_close_ms);
    if (c->is_stream) http_stream_put(c, c->filler);
    if (c->state == CONN_BUSY) arm(c, HALF_CLOSE_POLL_MS);
}

static void check_half_close(http_exchange *c) {
    if (is_reset(c))
        conn_break_(c, "the client has closed");
    else if (!c->is_stream && clock_ns() >= c->until_ns)
        conn_break_(c, "the client shut down its side and the grace is over");
    else
        arm(c, HALF_CLOSE_POLL_MS);
}

static void on_eof(http_exchange *c) {
    c->is_eof = true;
    switch (c->state) {
    case CONN_BUSY: conn_watch_half_close_(c); break;
    case CONN_FLUSH: break; /* flushed() looks at is_eof */
    default: conn_break_(c, NULL);
    }
}

static void on_read(struct bufferevent *bev, void *arg) {
    (void)bev;
    conn_read(arg);
}

static void on_write(struct bufferevent *bev, void *arg) {
    http_exchange *c = arg;
    (void)bev;
    if (c->state == CONN_FLUSH) flushed(c);
}

static void on_event(struct bufferevent *bev, short what, void *arg) {
    http_exchange *c = arg;
    (void)bev;
    if (what & BEV_EVENT_TIMEOUT)
        conn_break_(c, NOT_READING);
    else if (what & BEV_EVENT_ERROR)
        conn_break_(c, c->state == CONN_BUSY ? why_gone(EVUTIL_SOCKET_ERROR()) : NULL);
    else if (what & BEV_EVENT_EOF)
        on_eof(c);
}

static void on_timer(evutil_socket_t fd, short what, void *arg) {
    http_exchange *c = arg;
    (void)fd, (void)what;
    switch (c->state) {
    case CONN_HEAD:
        if (c->until_ns)
            conn_refuse_(c, 408, "the request head took too long");
        else
            conn_break_(c, NULL);
        break;
    case CONN_BODY: conn_refuse_(c, 408, "the request body stopped coming"); break;
    case CONN_BUSY: check_half_close(c); break;
    default: conn_break_(c, NULL);
    }
}

/* ---------------------------------------------------------------------- life */

/* A peer that vanished without a word (power, cable) is found by the kernel: by probes while we are silent, by the age
 * of unacknowledged bytes while we write. */
static void set_socket(evutil_socket_t fd, int write_ms) {
    int on = 1, idle_s = 30, probe_s = 10, probes = 3;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &probe_s, sizeof probe_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &write_ms, sizeof write_ms);
}

void conn_new_(http_server *hs, evutil_socket_t fd) {
    struct event_base *base = loop_base_(hs->l);
    http_exchange *c = xalloc(sizeof *c);
    set_socket(fd, hs->opt.write_ms);
    c->hs = hs;
    c->bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    c->timer = evtimer_new(base, on_timer, c);
    CHECK(c->bev && c->timer);
    bufferevent_setcb(c->bev, on_read, on_write, on_event, c);
    struct timeval write_limit = { .tv_sec = hs->opt.write_ms / 1000, .tv_usec = hs->opt.write_ms % 1000 * 1000 };
    bufferevent_set_timeouts(c->bev, NULL, &write_limit);
    c->next = hs->conns;
    if (c->next) c->next->prev = c;
    hs->conns = c;
    hs->n_conns++;
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    if (hs->n_conns > hs->opt.connections_max)
        conn_refuse_(c, 503, "too many connections");
    else
        arm(c, hs->opt.idle_ms);
}

void conn_free_(http_exchange *c) {
    http_server *hs = c->hs;
    if (c->prev)
        c->prev->next = c->next;
    else
        hs->conns = c->next;
    if (c->next) c->next->prev = c->prev;
    hs->n_conns--;
    event_free(c->timer);
    bufferevent_free(c->bev);
    buf_free(&c->head_bytes);
    buf_free(&c->path);
    buf_free(&c->body);
    buf_free(&c->answer);
    free(c);
}
