/* engine/server/server.h - the HTTP front end of an engine. */
#ifndef ENGINE_SERVER_SERVER_H
#define ENGINE_SERVER_SERVER_H
#include <stdbool.h>
#include <stddef.h>
#include "engine/base/status.h"
#include "engine/engine.h"

/* A zeroed struct means the defaults, which the comments name. Strings are borrowed until server_run returns. */
typedef struct server_options {
    const char *host;         /* "127.0.0.1" */
    int port;                 /* 0: any free one */
    bool port_search;         /* when the port is taken, try the ones after it */
    const char *alias;        /* served model name; NULL: the engine's */
    const char *api_key;      /* NULL: none is asked for */
    const char *cors_origins; /* "http://a:3000,https://b", "*": everyone; NULL: no foreign origin */
    const char *host_names;   /* further names for the Host header, "box.lan,box"; NULL: none */
    const char *kwargs_json;  /* defaults of chat_template_kwargs, a JSON object; NULL: none */
    bool no_recall;           /* reasoning that a client leaves out of the history is not put back */
    bool guard_content;       /* control tokens in contents of users and tools are ordinary text */
    bool strict_params;       /* unknown request fields are refused instead of listed */
    bool strict_model;        /* other model names are refused */
    size_t body_max;          /* 64 MiB */
    size_t unsent_max;        /* 8 MiB: output a slow reader may leave waiting */
    int connections_max;      /* 512 */
    int ping_first_ms;        /* 5000: silence before the first token; < 0: no keep-alives */
    int ping_ms;              /* 15000: silence later; < 0: none */
    int head_ms;              /* 30000: for a request head */
    int body_ms;              /* 30000: silence inside a request body */
    int idle_ms;              /* 120000: between two requests */
    int write_ms;             /* 30000: output waits without progress */
    int half_close_ms;        /* 700: an unanswered client that shut down its sending side */
    int grace_ms;             /* 5000: running answers after the first signal; < 0: none */
    /* Once, when the socket listens; the model may still be loading. moved: not the port asked for. */
    void (*on_listen)(void *arg, const char *url, int port, bool moved);
    void (*on_ready)(void *arg); /* once, when requests are served; NULL is fine */
    void *arg;
} server_options;

/* Listens, serves, returns OK after SIGINT or SIGTERM (the first: stop accepting, let running answers finish within the
 * grace; a second: at once). ERR_BIND when it cannot listen, ERR_USAGE for bad options, the engine's own failure when
 * loading or running fails. The engine stays the caller's; no generation of the server is left in it. */
status server_run(engine *en, const server_options *opt, err *e);
#endif
