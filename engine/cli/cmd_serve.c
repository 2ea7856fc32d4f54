/* skiff serve: the HTTP server. */
#include "engine/cli/cmd.h"
#include "engine/cli/model_opts.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/server/server.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct serve_opts {
    model_opts m;
    const char *host, *alias, *key, *key_file, *cors, *names, *kwargs;
    int64_t port, queue, body_mib, grace;
    double ping;
    bool no_recall, guard_content, strict_params, strict_model, verbose, quiet;
} serve_opts;

static const opt LIST[] = {
    { .kind = OPT_HEADING, .help = "Address" },
    { "host", .value = "ADDRESS", .preset = "127.0.0.1", OPT_TEXT_AT(serve_opts, host),
      .help = "address to listen on" },
    { "port", .preset = "8000", OPT_INT_AT(serve_opts, port, 0, 65535),
      .help =
          "port; when the default is taken the next free one is used, one that was asked for must be free; 0: any" },
    { "api-key-file", .value = "FILE", OPT_TEXT_AT(serve_opts, key_file),
      .help = "file with the key that clients must send" },
    { "api-key", .value = "KEY", OPT_TEXT_AT(serve_opts, key),
      .help = "the key itself; others can read it in the process list" },
    { "host-names", .value = "LIST", OPT_TEXT_AT(serve_opts, names),
      .help = "further names that clients may use in the Host header, separated by commas" },
    { "cors-origins", .aliases = "allowed-origins cors", .value = "LIST", OPT_TEXT_AT(serve_opts, cors),
      .help = "web origins that may read answers, separated by commas; \"*\": all" },
    { .kind = OPT_HEADING, .help = "Requests" },
    { "alias", .brief = "a", .aliases = "served-model-name", .value = "NAME", OPT_TEXT_AT(serve_opts, alias),
      .help = "model name in answers and in /v1/models" },
    { "queue", .preset = "8", OPT_INT_AT(serve_opts, queue, 0, 1024),
      .help = "requests that may wait while one is answered; more get status 429" },
    ENGINE_SPEC_OPT_ROWS(serve_opts, m),
    CACHE_OPT_ROWS(serve_opts, m),
    { "chat-template-kwargs", .aliases = "default-chat-template-kwargs", .value = "JSON",
      OPT_TEXT_AT(serve_opts, kwargs),
      .help = "defaults for the chat template, for example {\"enable_thinking\": true}" },
    { "no-recall", OPT_SET_AT(serve_opts, no_recall),
      .help = "take histories as they come: put back neither reasoning nor the spelling of calls" },
    { "no-control-in-content", OPT_SET_AT(serve_opts, guard_content),
      .help = "control tokens in messages of users and tools are ordinary characters" },
    { "strict-params", OPT_SET_AT(serve_opts, strict_params),
      .help = "refuse unknown request fields instead of listing them in x-ignored-params" },
    { "strict-model", OPT_SET_AT(serve_opts, strict_model), .help = "refuse other model names with 404" },
    { "max-body", .value = "MIB", .preset = "64", OPT_INT_AT(serve_opts, body_mib, 1, 4096),
      .help = "largest request body" },
    { "sse-ping-interval", .value = "SECONDS", .preset = "15", OPT_REAL_AT(serve_opts, ping, -1, 3600),
      .help = "keep-alive of silent streams (a third of it before the first token); -1: none" },
    { "grace", .value = "SECONDS", .preset = "5", OPT_INT_AT(serve_opts, grace, 0, 3600),
      .help = "how long running answers may go on after the first signal" },
    { "verbose", .brief = "v", OPT_SET_AT(serve_opts, verbose), .help = "log what happens, one line per request" },
    { "quiet", .brief = "q", OPT_SET_AT(serve_opts, quiet), .help = "log errors only" },
    MODEL_OPT_ROWS(serve_opts, m),
    { .kind = OPT_HEADING, .help = "Accepted for other programs' scripts, without effect" },
    { "jinja", .kind = OPT_IGNORED, .help = "the model's own template is always used" },
    { "enable-auto-tool-choice", .kind = OPT_IGNORED, .help = "" },
    { "tool-call-parser", .kind = OPT_IGNORED_VALUE, .help = "" },
    { "reasoning-parser", .kind = OPT_IGNORED_VALUE, .help = "" },
};

static const opts OPTS = {
    .command = "skiff serve",
    .about = "Serves the model over HTTP. The socket opens first and answers 503 while the model loads. Ctrl-C ends "
             "it: once "
             "to let the running answer finish within the grace time, twice at once.",
    .rest = "[DIR]",
    .rest_max = 1,
    .list = LIST,
    .n = sizeof LIST / sizeof *LIST,
    .bytes = sizeof(serve_opts),
};

typedef struct listening {
    engine *en;
    char url[128];
} listening;

static void on_listen(void *arg, const char *url, int port, bool moved) {
    listening *l = arg;
    snprintf(l->url, sizeof l->url, "%s", url);
    if (moved) fprintf(stderr, "port 8000 is taken; using %d instead\n", port);
    fprintf(stderr, "listening on %s, loading\n", url);
}

static void on_ready(void *arg) {
    const listening *l = arg;
    const engine_facts *f = engine_get_facts(l->en);
    fprintf(stderr, "%s: context %d tokens, %s, %d thread%s, %s; loaded in %.0f ms\n", f->model_name, f->ctx, f->isa,
            f->lanes, f->lanes == 1 ? "" : "s", f->has_draft ? "with draft" : "without draft", f->load_ms);
    fprintf(stderr,
            "ready: %s\n\n  curl -N %s/v1/chat/completions -H 'Content-Type: application/json' -d '{\"stream\": true, "
            "\"messages\": "
            "[{\"role\": \"user\", \"content\": \"Write a Python function that reverses a list.\"}]}'\n\n",
            l->url, l->url);
}

/* The first line of the key file. */
static status read_key(const char *path, buf *out, err *e) {
    TRY(file_read(out, path, 4096, e));
    size_t n = 0;
    while (n < out->len && out->data[n] != '\n' && out->data[n] != '\r') n++;
    out->len = n;
    if (n == 0) return err_set(e, ERR_USAGE, "%s: the first line is empty, expected a key", path);
    return OK;
}

static server_options server_opts(const serve_opts *o, const opts_found *found, const char *key, listening *l) {
    bool pings = o->ping >= 0;
    return (server_options){ .host = o->host,
                             .port = (int)o->port,
                             .port_search = !opts_given(&OPTS, found, "port"),
                             .alias = o->alias,
                             .api_key = key,
                             .cors_origins = o->cors,
                             .host_names = o->names,
                             .kwargs_json = o->kwargs,
                             .no_recall = o->no_recall,
                             .guard_content = o->guard_content,
                             .strict_params = o->strict_params,
                             .strict_model = o->strict_model,
                             .body_max = (size_t)o->body_mib << 20,
                             .ping_first_ms = pings ? (int)(o->ping * 1000 / 3) + 1 : -1,
                             .ping_ms = pings ? (int)(o->ping * 1000) + 1 : -1,
                             .grace_ms = o->grace ? (int)o->grace * 1000 : -1,
                             .on_listen = on_listen,
                             .on_ready = on_ready,
                             .arg = l };
}

int cmd_serve(int argc, char **argv) {
    serve_opts o = {
        .m = { .spec = SPEC_DEFAULT, .tree = SPEC_DEFAULT, .cache = CACHE_DEFAULT, .checkpoints = CACHE_DEFAULT }
    };
    opts_found found = { 0 };
    int code;
    if (!cmd_parse(&OPTS, argc, argv, &o, &found, &code)) return code;
    if (found.n_rest && !o.m.model) o.m.model = found.rest[0];
    log_set_level(o.quiet ? LOG_ERROR : o.verbose ? LOG_INFO : LOG_WARN);
    err e;
    buf key = { 0 };
    engine *en = NULL;
    listening l = { 0 };
    engine_options opt = model_opts_engine(&o.m, (int32_t)o.queue);
    status s = o.key_file ? read_key(o.key_file, &key, &e) : OK;
    if (s == OK) s = engine_open(&en, &opt, &e);
    if (s == OK) {
        l.en = en;
        server_options so = server_opts(&o, &found, o.key_file ? buf_cstr(&key) : o.key, &l);
        s = server_run(en, &so, &e);
    }
    code = s == OK ? 0 : cmd_fail(&e);
    engine_close(en);
    buf_free(&key);
    opts_found_deinit(&found);
    return code;
}
