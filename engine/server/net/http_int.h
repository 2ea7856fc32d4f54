/* engine/server/net/http_int.h - a connection and its server, shared by http.c (answers, listening) and conn.c (input,
 * life). */
#ifndef ENGINE_SERVER_NET_HTTP_INT_H
#define ENGINE_SERVER_NET_HTTP_INT_H
#include "engine/server/net/http.h"
#include "engine/server/net/wire.h"

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

/*   HEAD -> BODY -> BUSY -> FLUSH -> HEAD ...      any -> DEAD
 *                                 -> LINGER
 * HEAD    waiting for a request or inside its head
 * BODY    inside its body
 * BUSY    the handler has the exchange
 * FLUSH   answered; output still waits
 * LINGER  our side is shut down; input is dropped, so that a reset does not overtake the answer
 * DEAD    in the deferred list, to be freed */
typedef enum conn_state { CONN_HEAD, CONN_BODY, CONN_BUSY, CONN_FLUSH, CONN_LINGER, CONN_DEAD } conn_state;

/* A connection carries one exchange at a time, so both are one object. */
struct http_exchange {
    http_server *hs;
    http_exchange *prev, *next; /* all connections */
    http_exchange *next_later;  /* deferred list */
    struct bufferevent *bev;
    struct event *timer; /* its meaning follows from state */
    conn_state state;
    bool is_later, is_eof;
    bool keep;        /* another request may follow */
    size_t seen;      /* input bytes searched for the end of the head */
    int64_t until_ns; /* HEAD: head complete; BUSY: half-close grace over; LINGER: enough */

    buf head_bytes, path, body;
    wire_head head; /* views into head_bytes */
    wire_chunked chunked;

    buf answer; /* header lines of the answer, collected */
    bool is_stream, is_chunked;
    str filler;
    void (*closed)(void *arg);
    void *closed_arg;
    bool tell_closed; /* DEAD: the handler has not ended the exchange */
};

enum { LISTENERS_MAX = 8 };

struct http_server {
    loop *l;
    http_options opt;
    struct evconnlistener *listener[LISTENERS_MAX];
    int n_listeners;
    loop_timer *pause; /* accepting again after the process ran out of descriptors */
    http_exchange *conns;
    int n_conns, n_exchanges;
    bool is_draining;
    struct event *later_event;
    http_exchange *later;
};

void conn_new_(http_server *hs, evutil_socket_t fd);
void conn_free_(http_exchange *c);
void conn_break_(http_exchange *c, const char *why); /* the client is gone or must go; freed from the loop, later */
void conn_answered_(http_exchange *c);               /* the answer is complete in the output */
void conn_write_(http_exchange *c, str bytes);
void conn_watch_half_close_(http_exchange *c);
void conn_refuse_(http_exchange *c, int code, const char *why);
void conn_run_later_(http_server *hs);
#endif
