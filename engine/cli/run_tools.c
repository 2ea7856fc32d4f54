#include "engine/cli/run_tools.h"

#include "engine/base/file.h"
#include "engine/text/tools.h"

#include <stdio.h>

enum { FILE_MAX = 16 << 20 };

/* ---- the file ---- */

static status parse(run_tools *t, str text, err *e) {
    json_error_t why;
    t->list = json_loadb(text.p, text.n, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    if (!t->list)
        return err_set(e, ERR_REQUEST, "%s: not valid JSON: line %d, column %d: %s", t->path, why.line, why.column,
                       why.text);
    if (!json_is_array(t->list))
        return err_set(e, ERR_REQUEST,
                       "%s: expected a JSON array of tools, as [{\"type\": \"function\", \"function\": {\"name\": "
                       "...}}]",
                       t->path);
    buf_str(&t->source, STR("{\"tools\":"));
    buf_str(&t->source, text);
    buf_byte(&t->source, '}');
    return OK;
}

status run_tools_load(run_tools *t, const char *path, err *e) {
    buf text = { 0 };
    t->path = path;
    status s = file_read(&text, path, FILE_MAX, e);
    if (s == OK) s = parse(t, buf_view(&text), e);
    buf_free(&text);
    if (s != OK) return s;
    gen_request probe = { .mem = arena_new() };
    s = run_tools_declare(t, &probe, e);
    arena_free(probe.mem);
    return s;
}

status run_tools_declare(const run_tools *t, gen_request *rq, err *e) {
    if (!t->list) return OK;
    status s = tools_read(rq->mem, t->list, &rq->reply.tools, &rq->reply.n_tools, NULL, e);
    return s == OK ? OK : err_wrap(e, "%s", t->path);
}

void run_tools_deinit(run_tools *t) {
    json_decref(t->list);
    buf_free(&t->source);
}

/* ---- calls ---- */

static void put_json(run_calls *c) {
    buf_str(&c->json, c->n++ ? STR(",{\"name\":") : STR("{\"name\":"));
    buf_json_str(&c->json, buf_view(&c->name));
    buf_str(&c->json, STR(",\"arguments\":"));
    buf_json_str(&c->json, buf_view(&c->arguments));
    buf_byte(&c->json, '}');
}

void run_calls_take(run_calls *c, const gen_event *ev, buf *content) {
    switch (ev->kind) {
    case GEN_CALL:
        buf_clear(&c->name);
        buf_clear(&c->arguments);
        buf_str(&c->name, ev->text);
        break;
    case GEN_ARGUMENTS: buf_str(&c->arguments, ev->text); break;
    case GEN_CALL_END:
        if (ev->u.call.complete)
            put_json(c);
        else
            buf_str(content, ev->text);
        break;
    default: break;
    }
}

bool run_calls_show(run_calls *c, const gen_event *ev) {
    if (ev->kind == GEN_CALL)
        printf("%stool call: %.*s ", c->open_line ? "\n" : "", STR_ARG(ev->text));
    else if (ev->kind == GEN_ARGUMENTS)
        fwrite(ev->text.p, 1, ev->text.n, stdout);
    else
        fputs(ev->u.call.complete ? "\n" : " (not finished)\n", stdout);
    c->open_line = ev->kind != GEN_CALL_END;
    return fflush(stdout) == 0;
}

void run_calls_deinit(run_calls *c) {
    buf_free(&c->json);
    buf_free(&c->name);
    buf_free(&c->arguments);
}
