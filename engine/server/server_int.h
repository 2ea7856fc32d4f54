/* engine/server/server_int.h - the running server, as its routes and endpoints see it. */
#ifndef ENGINE_SERVER_SERVER_INT_H
#define ENGINE_SERVER_SERVER_INT_H
#include <time.h>
#include "engine/engine.h"
#include "engine/server/auth.h"
#include "engine/server/net/http.h"
#include "engine/server/net/loop.h"
#include "engine/server/server.h"
#include "engine/text/segments.h"

/* A consumer of one generation's events. The server calls `event` for each, oldest first, then `flush` once per drained
 * batch: everything that came together leaves together. After the flush that follows GEN_DONE or GEN_FAILED the server
 * has forgotten the sink, so flush may free it. */
typedef struct gen_sink gen_sink;
struct gen_sink {
    void (*event)(gen_sink *s, const gen_event *ev);
    void (*flush)(gen_sink *s);
    gen_id id;
    gen_sink *prev, *next; /* all sinks */
    gen_sink *next_touched;
    bool is_touched;
};

typedef struct server {
    server_options opt; /* with the defaults filled in */
    engine *en;
    loop *l;
    http_server *http;
    auth guard;
    time_t started;
    loop_timer *grace;
    bool is_grace_over;
    gen_sink *sinks;       /* whose last event has not come */
    segments *known;       /* what prompts were made of, by text; the loop thread's */
    struct recall *recall; /* reasoning of earlier answers; NULL: off */
    bool is_ready, is_stopping;
    status failure;
    err *failure_text;
} server;

/* engine_submit with the sink as user; sets sink->id. */
status server_submit_(server *sv, gen_request *rq, gen_sink *sink, err *e);
const char *server_model_(const server *sv); /* the served name; from READY on */
#endif
