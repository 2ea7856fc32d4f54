/* The server over the scripted engine. Prints "listening PORT" on standard output. */
#include "engine/base/log.h"
#include "engine/engine.h"
#include "engine/server/server.h"
#include "tests/e2e/script_engine.h"

#include <stdio.h>
#include <stdlib.h>

static void on_listen(void *arg, const char *url, int port, bool moved) {
    (void)arg;
    printf("listening %d %s%s\n", port, url, moved ? " moved" : "");
    fflush(stdout);
}

static void on_ready(void *arg) {
    (void)arg;
    printf("ready\n");
    fflush(stdout);
}

typedef struct flags {
    script_options script;
    server_options server;
} flags;

/* "--name=value" */
static bool read_flag(flags *f, const char *arg) {
    const struct {
        const char *name;
        int *number;
        const char **text;
        bool *on;
    } table[] = {
        { "--model=", NULL, &f->script.model_dir, NULL },
        { "--ctx=", &f->script.ctx, NULL, NULL },
        { "--queue=", &f->script.queue_max, NULL, NULL },
        { "--load-ms=", &f->script.load_ms, NULL, NULL },
        { "--load-fails=", NULL, NULL, &f->script.load_fails },
        { "--host=", NULL, &f->server.host, NULL },
        { "--port=", &f->server.port, NULL, NULL },
        { "--port-search=", NULL, NULL, &f->server.port_search },
        { "--alias=", NULL, &f->server.alias, NULL },
        { "--key=", NULL, &f->server.api_key, NULL },
        { "--cors=", NULL, &f->server.cors_origins, NULL },
        { "--host-names=", NULL, &f->server.host_names, NULL },
        { "--kwargs=", NULL, &f->server.kwargs_json, NULL },
        { "--strict-params=", NULL, NULL, &f->server.strict_params },
        { "--strict-model=", NULL, NULL, &f->server.strict_model },
        { "--connections=", &f->server.connections_max, NULL, NULL },
        { "--ping-first-ms=", &f->server.ping_first_ms, NULL, NULL },
        { "--ping-ms=", &f->server.ping_ms, NULL, NULL },
        { "--head-ms=", &f->server.head_ms, NULL, NULL },
        { "--body-ms=", &f->server.body_ms, NULL, NULL },
        { "--idle-ms=", &f->server.idle_ms, NULL, NULL },
        { "--write-ms=", &f->server.write_ms, NULL, NULL },
        { "--half-close-ms=", &f->server.half_close_ms, NULL, NULL },
        { "--grace-ms=", &f->server.grace_ms, NULL, NULL },
    };
    if (str_starts(str_of(arg), STR("--body-max="))) {
        f->server.body_max = strtoul(arg + 11, NULL, 10);
        return true;
    }
    if (str_starts(str_of(arg), STR("--unsent-max="))) {
        f->server.unsent_max = strtoul(arg + 13, NULL, 10);
        return true;
    }
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (!str_starts(str_of(arg), str_of(table[i].name))) continue;
        const char *value = arg + strlen(table[i].name);
        if (table[i].number) *table[i].number = atoi(value);
        if (table[i].text) *table[i].text = value;
        if (table[i].on) *table[i].on = atoi(value) != 0;
        return true;
    }
    return false;
}

int main(int argc, char **argv) {
    flags f = { .script = { .ctx = 4096, .queue_max = 8 }, .server = { .on_listen = on_listen, .on_ready = on_ready } };
    engine *en = NULL;
    err e;
    log_set_level(LOG_INFO);
    for (int i = 1; i < argc; i++) {
        if (read_flag(&f, argv[i])) continue;
        fprintf(stderr, "unknown argument %s\n", argv[i]);
        return 2;
    }
    status s = script_engine_open(&en, &f.script, &e);
    if (s == OK) s = server_run(en, &f.server, &e);
    engine_close(en);
    if (s != OK) fprintf(stderr, "%s\n", e.text);
    return status_exit_code(s);
}
