#include "engine/server/server.h"

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/server/api.h"
#include "engine/server/api_params.h"
#include "engine/server/api_recall.h"
#include "engine/server/route.h"
#include "engine/server/server_int.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>

enum {
    PORTS_TRIED = 32,
    DRAIN_BATCH = 64,
    LAST_WORDS_MS = 2000,
    WAIT_NS = 100 * 1000 * 1000,
    KNOWN_BYTES = 64 << 20,
    RECALL_BYTES = 16 << 20
};

/* ------------------------------------------------------------------ generations */

status server_submit_(server *sv, gen_request *rq, gen_sink *sink, err *e) {
    rq->user = sink;
    TRY(engine_submit(sv->en, rq, &sink->id, e));
    sink->prev = NULL;
    sink->next = sv->sinks;
    if (sink->next) sink->next->prev = sink;
    sv->sinks = sink;
    return OK;
}

static void forget(server *sv, gen_sink *s) {
    if (s->prev)
        s->prev->next = s->next;
    else
        sv->sinks = s->next;
    if (s->next) s->next->prev = s->prev;
}

const char *server_model_(const server *sv) {
    return sv->opt.alias ? sv->opt.alias : engine_get_facts(sv->en)->model_name;
}

/* All that waits, in batches: the texts of events live until the next drain only, so sinks are flushed in between. */
static void drain_events(server *sv) {
    gen_event ev[DRAIN_BATCH];
    for (size_t n; (n = engine_drain(sv->en, ev, DRAIN_BATCH)) > 0;) {
        gen_sink *touched = NULL, **tail = &touched;
        for (size_t i = 0; i < n; i++) {
            gen_sink *s = ev[i].user;
            if (!s->is_touched) {
                s->is_touched = true;
                s->next_touched = NULL;
                *tail = s;
                tail = &s->next_touched;
            }
            s->event(s, &ev[i]);
            if (ev[i].kind == GEN_DONE || ev[i].kind == GEN_FAILED) forget(sv, s);
        }
        while (touched) {
            gen_sink *s = touched;
            touched = s->next_touched;
            s->is_touched = false;
            s->flush(s);
        }
    }
}

/* ------------------------------------------------------------------ start and stop */

static void begin_stop(server *sv, int grace_ms) {
    if (sv->is_stopping) return;
    sv->is_stopping = true;
    loop_timer_set(sv->grace, grace_ms > 0 ? grace_ms : 0);
    http_server_drain(sv->http);
}

/* First what still runs is cancelled, so that its client hears about it; then we go in any case. */
static void on_grace_over(void *arg) {
    server *sv = arg;
    if (sv->is_grace_over) {
        loop_stop(sv->l);
        return;
    }
    sv->is_grace_over = true;
    for (gen_sink *s = sv->sinks; s; s = s->next) engine_cancel(sv->en, s->id);
    loop_timer_set(sv->grace, LAST_WORDS_MS);
}

static void on_idle(void *arg) { loop_stop(((server *)arg)->l); }

static void on_signal(void *arg) {
    server *sv = arg;
    if (sv->is_stopping) {
        loop_stop(sv->l);
        return;
    }
    log_info("server", "stopping: running answers have %d ms", sv->opt.grace_ms);
    begin_stop(sv, sv->opt.grace_ms);
}

static void on_engine(void *arg) {
    server *sv = arg;
    drain_events(sv);
    engine_state state = engine_get_state(sv->en, NULL);
    if (state == ENGINE_READY && !sv->is_ready) {
        sv->is_ready = true;
        log_info("server", "ready, serving %s", server_model_(sv));
        if (sv->opt.on_ready) sv->opt.on_ready(sv->opt.arg);
    } else if (state == ENGINE_FAILED && sv->failure == OK) {
        engine_get_failure(sv->en, sv->failure_text);
        sv->failure = sv->failure_text->code;
        log_error("server", "the engine failed: %s", sv->failure_text->text);
        begin_stop(sv, 0);
    }
}

/* Runs on the engine thread. */
static void wake(void *arg) { loop_wake(arg); }
static void wake_nobody(void *arg) { (void)arg; }

static void on_request(http_exchange *x, void *arg) { route_request(arg, x); }

static void write_refusal(int code, const char *why, buf *body) {
    api_error_body(body, &(api_error){ .code = code, .message = why });
}

/* ---------------------------------------------------------------------- opening */

static int or_default(int v, int fallback) { return v ? v : fallback; }

static server_options with_defaults(const server_options *o) {
    server_options r = *o;
    if (!r.host) r.host = "127.0.0.1";
    if (!r.body_max) r.body_max = (size_t)64 << 20;
    if (!r.unsent_max) r.unsent_max = (size_t)8 << 20;
    r.connections_max = or_default(r.connections_max, 512);
    r.ping_first_ms = or_default(r.ping_first_ms, 5000);
    r.ping_ms = or_default(r.ping_ms, 15000);
    r.head_ms = or_default(r.head_ms, 30000);
    r.body_ms = or_default(r.body_ms, 30000);
    r.idle_ms = or_default(r.idle_ms, 120000);
    r.write_ms = or_default(r.write_ms, 30000);
    r.half_close_ms = or_default(r.half_close_ms, 700);
    r.grace_ms = or_default(r.grace_ms, 5000);
    return r;
}

static status listen_somewhere(server *sv, err *e) {
    const server_options *o = &sv->opt;
    int bound = 0, port = o->port;
    for (int tries = 0;; tries++, port++) {
        bool taken;
        status s = http_server_listen(sv->http, o->host, port, &bound, &taken, e);
        if (s == OK) break;
        if (!taken) return s;
        if (!o->port_search)
            return err_set(e, ERR_BIND, "%s port %d is in use by another program; choose one with --port", o->host,
                           port);
        if (tries + 1 == PORTS_TRIED || port == 65535)
            return err_set(e, ERR_BIND, "%s ports %d to %d are all in use; choose one with --port", o->host, o->port,
                           port);
    }
    buf url = { 0 };
    buf_printf(&url, strchr(o->host, ':') ? "http://[%s]:%d" : "http://%s:%d", o->host, bound);
    if (o->on_listen) o->on_listen(o->arg, buf_cstr(&url), bound, o->port && bound != o->port);
    buf_free(&url);
    return OK;
}

static status open_server(server *sv, err *e) {
    const server_options *o = &sv->opt;
    http_options ho = {
        .head_max = 64 * 1024,
        .body_max = o->body_max,
        .unsent_max = o->unsent_max,
        .connections_max = o->connections_max,
        .head_ms = o->head_ms,
        .body_ms = o->body_ms,
        .idle_ms = o->idle_ms,
        .write_ms = o->write_ms,
        .half_close_ms = o->half_close_ms,
        .request = on_request,
        .refusal = write_refusal,
        .idle = on_idle,
        .arg = sv,
    };
    TRY(api_params_check_kwargs(o->kwargs_json, e));
    TRY(loop_open(&sv->l, e));
    auth_init(&sv->guard, o->host, o->host_names, o->cors_origins, o->api_key);
    sv->http = http_server_new(sv->l, &ho);
    sv->grace = loop_timer_new(sv->l, on_grace_over, sv);
    TRY(loop_add_signal(sv->l, SIGINT, on_signal, sv, e));
    TRY(loop_add_signal(sv->l, SIGTERM, on_signal, sv, e));
    loop_set_wake(sv->l, on_engine, sv);
    engine_set_waker(sv->en, wake, sv->l);
    loop_wake(sv->l); /* the engine may have changed its state before it had a waker */
    return listen_somewhere(sv, e);
}

static void close_server(server *sv) {
    http_server_free(sv->http); /* clients that are still there: their generations are cancelled */
    drain_events(sv);
    while (sv->sinks && engine_get_state(sv->en, NULL) == ENGINE_READY) {
        engine_wait(sv->en, WAIT_NS);
        drain_events(sv);
    }
    engine_set_waker(sv->en, wake_nobody, NULL);
    loop_timer_free(sv->grace);
    loop_close(sv->l);
}

status server_run(engine *en, const server_options *opt, err *e) {
    err local = { 0 };
    server sv = { .opt = with_defaults(opt),
                  .en = en,
                  .started = time(NULL),
                  .known = segments_new(KNOWN_BYTES),
                  .recall = opt->no_recall ? NULL : recall_new(RECALL_BYTES),
                  .failure_text = e ? e : &local };
    /* A write to a client that has gone must be an error of that write, not the end of the process. */
    struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
    sigaction(SIGPIPE, &ignore, &before);
    status s = open_server(&sv, e);
    if (s == OK) s = loop_run(sv.l, e);
    if (sv.l) close_server(&sv);
    segments_free(sv.known);
    recall_free(sv.recall);
    sigaction(SIGPIPE, &before, NULL);
    return s != OK ? s : sv.failure;
}
