#include "engine/server/net/http_int.h"

#include "engine/base/log.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <event2/buffer.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ------------------------------------------------------------------- answers */

static void begin_answer(http_exchange *x, buf *out, int code) {
    char date[64];
    struct tm tm;
    time_t now = time(NULL);
    gmtime_r(&now, &tm);
    /* Day and month names come out in English: no program of ours sets a locale. */
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    buf_printf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\n", code, wire_reason(code), date);
    buf_str(out, buf_view(&x->answer));
}

static void end_head(http_exchange *x, buf *out) {
    if (!x->keep)
        buf_str(out, STR("Connection: close\r\n"));
    else if (x->head.minor == 0)
        buf_str(out, STR("Connection: keep-alive\r\n"));
    buf_str(out, STR("\r\n"));
}

void http_reply(http_exchange *x, int code, const char *type, str body) {
    CHECK(!x->is_stream);
    buf out = { 0 };
    if (x->hs->is_draining) x->keep = false;
    begin_answer(x, &out, code);
    if (type) buf_printf(&out, "Content-Type: %s\r\n", type);
    if (type || code != 204) buf_printf(&out, "Content-Length: %zu\r\n", body.n);
    end_head(x, &out);
    if (type && !str_eq(x->head.method, STR("HEAD"))) buf_str(&out, body);
    conn_write_(x, buf_view(&out));
    buf_free(&out);
    conn_answered_(x);
}

void http_stream_begin(http_exchange *x, const char *type, str filler) {
    CHECK(!x->is_stream);
    buf out = { 0 };
    x->is_stream = true;
    x->is_chunked = x->head.minor > 0;
    x->filler = filler;
    if (!x->is_chunked || x->hs->is_draining) x->keep = false; /* without chunks only the close ends the body */
    begin_answer(x, &out, 200);
    buf_printf(&out, "Content-Type: %s\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\n", type);
    if (x->is_chunked) buf_str(&out, STR("Transfer-Encoding: chunked\r\n"));
    end_head(x, &out);
    conn_write_(x, buf_view(&out));
    buf_free(&out);
    if (x->is_eof && x->state == CONN_BUSY) conn_watch_half_close_(x);
}

void http_stream_put(http_exchange *x, str bytes) {
    CHECK(x->is_stream);
    if (!bytes.n) return; /* an empty chunk would end the body */
    if (!x->is_chunked) {
        conn_write_(x, bytes);
    } else {
        buf out = { 0 };
        buf_reserve(&out, bytes.n + 32);
        buf_printf(&out, "%zx\r\n", bytes.n);
        buf_str(&out, bytes);
        buf_str(&out, STR("\r\n"));
        conn_write_(x, buf_view(&out));
        buf_free(&out);
    }
    if (evbuffer_get_length(bufferevent_get_output(x->bev)) > x->hs->opt.unsent_max)
        conn_break_(x, "the client reads too slowly");
}

void http_stream_end(http_exchange *x) {
    CHECK(x->is_stream);
    if (x->is_chunked) conn_write_(x, STR("0\r\n\r\n"));
    conn_answered_(x);
}

void http_add_header(http_exchange *x, const char *name, str value) {
    buf_printf(&x->answer, "%s: ", name);
    for (size_t i = 0; i < value.n; i++) buf_byte(&x->answer, (unsigned char)value.p[i] < ' ' ? ' ' : value.p[i]);
    buf_str(&x->answer, STR("\r\n"));
}

void http_set_closed(http_exchange *x, void (*closed)(void *arg), void *arg) {
    x->closed = closed;
    x->closed_arg = arg;
}

str http_get_method(const http_exchange *x) { return x->head.method; }
str http_get_path(const http_exchange *x) { return buf_view(&x->path); }
str http_get_body(const http_exchange *x) { return buf_view(&x->body); }
str http_find_header(const http_exchange *x, const char *name) { return wire_head_find(&x->head, name); }

/* ------------------------------------------------------------------ listening */

enum { PAUSE_MS = 100 };

static void on_accept(struct evconnlistener *ls, evutil_socket_t fd, struct sockaddr *sa, int len, void *arg) {
    (void)ls, (void)sa, (void)len;
    conn_new_(arg, fd);
}

/* Out of descriptors or memory: the connection stays in the backlog, and asking again at once would only spin. */
static void on_accept_error(struct evconnlistener *ls, void *arg) {
    http_server *hs = arg;
    (void)ls;
    log_warn("http", "cannot accept a connection: %s", strerror(errno));
    for (int i = 0; i < hs->n_listeners; i++) evconnlistener_disable(hs->listener[i]);
    loop_timer_set(hs->pause, PAUSE_MS);
}

static void on_pause_over(void *arg) {
    http_server *hs = arg;
    for (int i = 0; i < hs->n_listeners; i++) evconnlistener_enable(hs->listener[i]);
}

static void on_later(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    conn_run_later_(arg);
}

http_server *http_server_new(loop *l, const http_options *opt) {
    http_server *hs = xalloc(sizeof *hs);
    hs->l = l;
    hs->opt = *opt;
    hs->pause = loop_timer_new(l, on_pause_over, hs);
    hs->later_event = event_new(loop_base_(l), -1, 0, on_later, hs);
    CHECK(hs->later_event);
    return hs;
}

/* A listening socket, or -1 with errno. */
static int listen_socket(const struct addrinfo *ai) {
    int fd = socket(ai->ai_family, ai->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, ai->ai_protocol);
    if (fd < 0) return -1;
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    /* Accepted sockets inherit it; without it small chunks wait for the acknowledgement of the one before. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (ai->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, 128) == 0) return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

static int port_of(int fd) {
    struct sockaddr_storage sa;
    socklen_t n = sizeof sa;
    if (getsockname(fd, (struct sockaddr *)&sa, &n) != 0) return 0;
    return ntohs(sa.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&sa)->sin6_port
                                          : ((struct sockaddr_in *)&sa)->sin_port);
}

static void set_port(struct sockaddr *sa, int port) {
    if (sa->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)sa)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)sa)->sin_port = htons((uint16_t)port);
}

/* Listens on every address of the list, with one port for all of them; a port that is taken on one of them counts as
 * taken. 0, or errno with nothing added. */
static int listen_all(http_server *hs, struct addrinfo *list, int *port) {
    int fd[LISTENERS_MAX], n = 0, code = EADDRNOTAVAIL;
    for (struct addrinfo *ai = list; ai && hs->n_listeners + n < LISTENERS_MAX; ai = ai->ai_next) {
        if (ai->ai_family != AF_INET && ai->ai_family != AF_INET6) continue;
        set_port(ai->ai_addr, *port);
        int one = listen_socket(ai);
        if (one >= 0) {
            fd[n++] = one;
            *port = port_of(one);
            continue;
        }
        code = errno;
        if (code != EADDRINUSE) continue; /* an address family that this machine lacks */
        while (n > 0) close(fd[--n]);
        return code;
    }
    for (int i = 0; i < n; i++) {
        struct evconnlistener *ls = evconnlistener_new(loop_base_(hs->l), on_accept, hs,
                                                       LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd[i]);
        CHECK(ls);
        evconnlistener_set_error_cb(ls, on_accept_error);
        hs->listener[hs->n_listeners++] = ls;
    }
    return n ? 0 : code;
}

status http_server_listen(http_server *hs, const char *host, int port, int *bound, bool *taken, err *e) {
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *list = NULL;
    int got = port, rc = getaddrinfo(host, NULL, &hints, &list);
    if (taken) *taken = false;
    if (rc != 0) return err_set(e, ERR_BIND, "cannot listen on %s: %s", host, gai_strerror(rc));
    rc = listen_all(hs, list, &got);
    freeaddrinfo(list);
    if (rc != 0) {
        if (taken) *taken = rc == EADDRINUSE;
        return err_set(e, ERR_BIND, "cannot listen on %s port %d: %s", host, port, strerror(rc));
    }
    *bound = got;
    return OK;
}

static void stop_listening(http_server *hs) {
    for (int i = 0; i < hs->n_listeners; i++) evconnlistener_free(hs->listener[i]);
    hs->n_listeners = 0;
    loop_timer_stop(hs->pause);
}

void http_server_drain(http_server *hs) {
    hs->is_draining = true;
    stop_listening(hs);
    for (http_exchange *c = hs->conns; c; c = c->next)
        if (c->state == CONN_HEAD || c->state == CONN_BODY) conn_break_(c, NULL);
    event_active(hs->later_event, 0, 0);
}

void http_server_free(http_server *hs) {
    if (!hs) return;
    stop_listening(hs);
    hs->opt.idle = NULL;
    for (http_exchange *c = hs->conns; c; c = c->next) conn_break_(c, NULL);
    conn_run_later_(hs);
    CHECK(!hs->conns);
    event_free(hs->later_event);
    loop_timer_free(hs->pause);
    free(hs);
}
