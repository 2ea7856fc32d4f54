/* POST /v1/chat/completions: from the body to a generation, and from its events to the client.
 *
 * A chat lives from a successful submit to the last event of its generation. The exchange may end earlier (the client
 * went: the generation is cancelled and its remaining events are read without effect), never later. */
#include "engine/server/api_chat_int.h"
#include "engine/server/api_recall.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/text/chat.h"
#include "engine/text/tools.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* What a request needs until it is submitted; all of it is let go in api_chat. */
typedef struct draft {
    json_t *body, *kwargs;
    api_params p;
    buf ignored, prompt;
    token_list ids, predicted;
    arena *mem;              /* of the request to the engine */
    const reply_tool *tools; /* that may be called, in mem */
    size_t n_tools;
    gen_request shaped; /* grammars, in mem */
    int64_t template_ns, tokenize_ns;
    char param[PARAM_NAME_MAX];
} draft;

/* ------------------------------------------------------------------------ the answer */

static void chat_free(chat *c) {
    buf_free(&c->common);
    parts_free(&c->open);
    answer_free(&c->whole);
    buf_free(&c->call_ids);
    buf_free(&c->tokens);
    buf_free(&c->logprobs);
    api_meter_deinit(&c->meter);
    arena_free(c->mem);
    free(c);
}

static void on_closed(void *arg) {
    chat *c = arg;
    if (c->p.stream) sse_abandon(&c->out);
    c->x = NULL;
    log_info("chat", "%s the client has gone after %d tokens", c->request_id, c->meter.totals.generated);
    engine_cancel(c->sv->en, c->sink.id);
}

static void fail(chat *c, int code, str message) {
    log_error("chat", "%s %.*s", c->request_id, STR_ARG(message));
    if (!c->x) return;
    if (c->p.stream) {
        chat_write_error_(c, code, message);
        return;
    }
    buf text = { 0 };
    buf_str(&text, message);
    http_exchange *x = c->x;
    c->x = NULL;
    api_error_reply(x, &(api_error){ .code = code, .message = buf_cstr(&text) });
    buf_free(&text);
}

static void log_summary(const chat *c, const char *how) {
    const gen_totals *t = &c->meter.totals;
    double decode_ms = clock_ms(t->decode_ns);
    log_info("chat",
             "%s prompt %d (%d cached), first token %.1f ms, %d tokens, %.1f tokens/s, %d steps, %d of %d proposals "
             "accepted, %s",
             c->request_id, t->prompt, t->cached,
             c->meter.first_ns ? clock_ms(c->meter.first_ns - c->meter.began_ns) : 0.0, t->generated,
             decode_ms > 0 ? (t->generated - 1) * 1e3 / decode_ms : 0.0, t->steps, t->accepted, t->drafted, how);
}

/* The client has the answer; its next request may come without what was thought, or with the calls in other words. */
static void keep_answer(const chat *c) {
    if (!c->sv->recall) return;
    str ids = buf_view(&c->call_ids);
    recall_put(c->sv->recall, buf_view(&c->whole.content), ids, buf_view(&c->whole.reasoning));
    for (size_t i = 0, at = 0; i < c->whole.n_calls && at < ids.n; i++) {
        str id = str_of(ids.p + at);
        recall_put_call(c->sv->recall, id, buf_view(&c->whole.calls[i].arguments));
        at += id.n + 1;
    }
}

static void finish(chat *c, const gen_event *ev) {
    if (ev->u.end.why == DONE_CANCELLED) {
        log_summary(c, "cancelled");
        if (c->x) fail(c, 503, STR("the server is shutting down"));
        return;
    }
    int32_t stop = ev->u.end.totals->stop_index;
    const char *whole = c->has_called ? "tool_calls" : "stop";
    chat_end end = { .reason = ev->u.end.why == DONE_LENGTH ? "length" : whole,
                     .end_token = ev->u.end.totals->end_token };
    if (ev->u.end.why == DONE_STOP && stop >= 0 && stop < c->p.n_stop) end.stop = c->p.stop[stop];
    log_summary(c, end.reason);
    if (!c->x) return;
    if (c->p.stream) {
        chat_write_end_(c, &end);
        keep_answer(c);
        return;
    }
    buf body = { 0 };
    http_exchange *x = c->x;
    c->x = NULL;
    chat_write_whole_(c, &end, &body);
    keep_answer(c);
    http_reply(x, 200, "application/json", buf_view(&body));
    buf_free(&body);
}

static void on_round(chat *c, const gen_event *ev) {
    if (c->p.return_token_ids) buf_put(&c->tokens, ev->u.round.tokens, sizeof(int32_t) * (size_t)ev->u.round.n);
    for (int32_t i = 0; ev->u.round.logprobs && i < ev->u.round.n; i++) {
        chat_logprob entry = { ev->u.round.tokens[i], ev->u.round.logprobs[i] };
        if (entry.l.in_content) buf_put(&c->logprobs, &entry, sizeof entry);
    }
    if (!c->p.stream || !c->x) return;
    sse_set_answering(&c->out);
    chat_write_round_(c);
}

static void on_part(chat *c, const gen_event *ev) {
    if (ev->kind == GEN_CALL_END) c->has_called |= ev->u.call.complete;
    answer_put_event(&c->whole, ev);
    if (c->p.stream && ev->kind != GEN_CALL_END) /* no chunk says that */
        parts_put(&c->open, ev->kind, ev->text);
}

static void on_event(gen_sink *s, const gen_event *ev) {
    chat *c = (chat *)s;
    api_meter_event(&c->meter, ev);
    switch (ev->kind) {
    case GEN_STARTED: break;
    case GEN_PREFILL:
        if (c->p.return_progress && c->p.stream && c->x)
            chat_write_progress_(c, ev->u.prefill.done, ev->u.prefill.total);
        break;
    case GEN_TEXT:
    case GEN_REASONING:
    case GEN_CALL:
    case GEN_ARGUMENTS:
    case GEN_CALL_END: on_part(c, ev); break;
    case GEN_ROUND: on_round(c, ev); break;
    case GEN_DONE:
        c->is_over = true;
        finish(c, ev);
        break;
    case GEN_FAILED:
        c->is_over = true;
        fail(c, 500, ev->text);
        break;
    }
}

static void on_flush(gen_sink *s) {
    chat *c = (chat *)s;
    if (c->x && c->p.stream) {
        if (c->is_over)
            sse_end(&c->out);
        else
            sse_flush(&c->out);
    }
    if (c->is_over) chat_free(c);
}

/* ----------------------------------------------------------------------- the request */

/* Ids of the prediction, for the look-up. Text that is no UTF-8 cannot be in JSON. */
static status encode_prediction(const text_model *tm, draft *d, err *e) {
    const json_t *content = d->p.prediction;
    if (json_is_string(content))
        return text_encode(tm, (str){ json_string_value(content), json_string_length(content) }, false, &d->predicted,
                           e);
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *text = json_object_get(json_array_get(content, i), "text");
        TRY(text_encode(tm, (str){ json_string_value(text), json_string_length(text) }, false, &d->predicted, e));
    }
    return OK;
}

static status render(const api_call *call, draft *d, err *e) {
    const text_model *tm = engine_get_text(call->sv->en);
    TRY(api_params_kwargs(&d->kwargs, d->body, call->sv->opt.kwargs_json, d->p.thinking, d->param, e));
    chat_request rq = {
        .messages = json_object_get(d->body, "messages"),
        .tools = d->p.tools,
        .kwargs = d->kwargs,
        .add_generation_prompt = true,
        .guard = call->sv->opt.guard_content,
        .source = http_get_body(call->x),
    };
    if (!json_is_array(rq.messages) || !json_array_size(rq.messages)) {
        snprintf(d->param, sizeof d->param, "messages");
        return err_set(e, ERR_REQUEST, "messages must be an array with at least one message");
    }
    int restored = call->sv->recall ? recall_restore(call->sv->recall, json_object_get(d->body, "messages")) : 0;
    if (restored)
        log_info("chat", "restored in %d earlier message%s what the client left out or rewrote", restored,
                 restored == 1 ? "" : "s");
    int64_t t0 = clock_ns();
    TRY(chat_render(tm, &rq, &d->prompt, d->param, e));
    int64_t t1 = clock_ns();
    TRY(chat_encode(tm, buf_view(&d->prompt), rq.guard, call->sv->known, &d->ids, e));
    TRY(encode_prediction(tm, d, e));
    d->template_ns = t1 - t0;
    d->tokenize_ns = clock_ns() - t1;
    return OK;
}

/* What the answer must be. */
static status shape_answer(const api_call *call, draft *d, err *e) {
    const char *at;
    d->shaped.mem = d->mem;
    status s = answer_shape_apply(&d->p.shape, engine_get_text(call->sv->en), &d->shaped, &at, e);
    if (s != OK) snprintf(d->param, sizeof d->param, "%s", at);
    return s;
}

static status read_request(const api_call *call, draft *d, err *e) {
    api_defaults def = {
        .facts = engine_get_facts(call->sv->en),
        .speculation = http_find_header(call->x, "x-speculation"),
        .strict = call->sv->opt.strict_params,
    };
    TRY(api_params_parse(&d->body, http_get_body(call->x), e));
    TRY(api_params_read(&d->p, d->body, &def, &d->ignored, d->param, e));
    if (d->p.pick.seed == UINT64_MAX) d->p.pick.seed = api_random();
    if (d->p.tools) TRY(tools_read(d->mem, d->p.tools, &d->tools, &d->n_tools, d->param, e));
    if (d->p.no_calls) d->n_tools = 0;
    TRY(shape_answer(call, d, e));
    return render(call, d, e);
}

/* Where calls are forbidden, the token that begins one is never chosen. The tools stay in the prompt, so that what is
 * remembered of the conversation holds. */
static void forbid_calls(const text_model *tm, token_bias *bias, int32_t *n) {
    int32_t open = text_find_token(tm, STR("<tool_call>"));
    if (open >= 0) bias[(*n)++] = (token_bias){ open, -INFINITY };
}

/* The engine's copy of the request, in an arena that goes with it. */
static gen_request make_gen_request(const draft *d, const server *sv) {
    arena *mem = d->mem;
    const api_params *p = &d->p;
    int32_t *ids = arena_alloc(mem, sizeof *ids * d->ids.n);
    int32_t *predicted = arena_alloc(mem, sizeof *predicted * d->predicted.n);
    str *stop = arena_alloc(mem, sizeof *stop * (size_t)p->n_stop);
    token_bias *bias = arena_alloc(mem, sizeof *bias * (size_t)(p->n_bias + 1));
    pick_options pick = p->pick;
    pick.bias = bias, pick.n_bias = p->n_bias;
    memcpy(bias, p->bias, sizeof *bias * (size_t)p->n_bias);
    if (p->tools && p->no_calls) forbid_calls(engine_get_text(sv->en), bias, &pick.n_bias);
    memcpy(ids, d->ids.ids, sizeof *ids * d->ids.n);
    if (d->predicted.n) memcpy(predicted, d->predicted.ids, sizeof *predicted * d->predicted.n);
    for (int32_t i = 0; i < p->n_stop; i++) stop[i] = arena_str(mem, p->stop[i]);
    reply_start start = chat_start(engine_get_text(sv->en), ids, d->ids.n);
    return (gen_request){
        .tokens = ids,
        .n_tokens = d->ids.n,
        .max_new = p->max_new ? p->max_new : engine_get_facts(sv->en)->ctx,
        .pick = pick,
        .reply = { .start = p->reasoning == REASONING_NONE ? REPLY_RAW : start,
                   .stop = stop,
                   .n_stop = (size_t)p->n_stop,
                   .tools = d->tools,
                   .n_tools = d->n_tools,
                   .one_call = p->one_call,
                   .ignore_end = p->ignore_end },
        .grammar = d->shaped.grammar,
        .calls = d->shaped.calls,
        .thinks = start == REPLY_REASONING,
        .thinks_at_most = p->thinking_max >= 0,
        .thinking_max = p->thinking_max,
        .logprobs = p->logprobs,
        .spec = p->spec,
        .no_cache = p->no_cache,
        .prediction = predicted,
        .n_prediction = d->predicted.n,
        .mem = mem,
    };
}

static chat *chat_new(const api_call *call, const draft *d) {
    chat *c = xalloc(sizeof *c);
    c->sink = (gen_sink){ .event = on_event, .flush = on_flush };
    c->sv = call->sv;
    c->x = call->x;
    c->mem = arena_new();
    c->p = d->p;
    c->p.model = NULL, c->p.tools = NULL, c->p.shape = (answer_shape){ 0 }; /* belong to the body */
    for (int32_t i = 0; i < c->p.n_stop; i++) c->p.stop[i] = arena_str(c->mem, c->p.stop[i]);
    memcpy(c->request_id, call->request_id.p, call->request_id.n);
    api_new_id(c->id, "chatcmpl-");
    chat_write_common_(c, time(NULL));
    c->meter = (api_meter){ .began_ns = call->began_ns, .template_ns = d->template_ns, .tokenize_ns = d->tokenize_ns };
    c->meter.totals.prompt = (int32_t)d->ids.n;
    c->meter.totals.reasoning = -1;
    return c;
}

/* A request's own interval wins, within reason. */
static int ping_ms(const api_params *p, int own) {
    if (p->ping_s == 0) return own;
    return p->ping_s < 0 ? -1 : p->ping_s < 0.1 ? 100 : (int)(p->ping_s * 1000);
}

/* All that can be refused has been refused: a stream's head leaves before the model runs. */
static void begin_answer(chat *c) {
    http_set_closed(c->x, on_closed, c);
    if (!c->p.stream) return;
    const server_options *o = &c->sv->opt;
    sse_begin(&c->out, c->x, c->sv->l, ping_ms(&c->p, o->ping_first_ms), ping_ms(&c->p, o->ping_ms));
}

static void refuse_long(const api_call *call, size_t n, int32_t max_new, int32_t ctx) {
    buf text = { 0 };
    buf_printf(&text,
               "This model's maximum context length is %d tokens. The messages make %zu tokens, which leaves no room "
               "for an answer",
               ctx, n);
    if (max_new) buf_printf(&text, " (%d tokens were asked for)", max_new);
    buf_str(&text, STR(". Please shorten them."));
    api_error er = api_error_of(ERR_TOO_LONG, buf_cstr(&text), "messages");
    er.n_prompt = (int64_t)n;
    er.n_ctx = ctx;
    api_error_reply(call->x, &er);
    buf_free(&text);
}

static void submit(const api_call *call, draft *d) {
    server *sv = call->sv;
    err e;
    if (d->ignored.len) http_add_header(call->x, "x-ignored-params", buf_view(&d->ignored));
    int32_t ctx = engine_get_facts(sv->en)->ctx;
    if (d->ids.n >= (size_t)ctx) {
        refuse_long(call, d->ids.n, d->p.max_new, ctx);
        return;
    }
    gen_request rq = make_gen_request(d, sv);
    chat *c = chat_new(call, d);
    c->meter.submitted_ns = clock_ns();
    status s = server_submit_(sv, &rq, &c->sink, &e);
    if (s == OK) {
        d->mem = NULL;
        begin_answer(c);
        return;
    }
    chat_free(c);
    api_error er = api_error_of(s, s == ERR_BUSY ? "the queue is full; please try again in a moment" : e.text, NULL);
    api_error_reply(call->x, &er);
}

void api_chat(const api_call *call) {
    if (!api_is_ready(call)) return;
    err e;
    draft d = { .mem = arena_new() };
    const char *served = server_model_(call->sv);
    status s = read_request(call, &d, &e);
    if (s != OK) {
        api_error er = api_error_of(s, e.text, d.param);
        api_error_reply(call->x, &er);
    } else if (call->sv->opt.strict_model && strcmp(d.p.model, served) != 0) {
        api_error_reply(call->x, &(api_error){ .code = 404,
                                               .id = "model_not_found",
                                               .param = "model",
                                               .message = "no such model; /v1/models lists the one that is served" });
    } else {
        submit(call, &d);
    }
    json_decref(d.body);
    json_decref(d.kwargs);
    buf_free(&d.ignored);
    buf_free(&d.prompt);
    token_list_free(&d.ids);
    token_list_free(&d.predicted);
    arena_free(d.mem);
}
