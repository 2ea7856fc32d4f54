/* The bytes of chat answers: chunks of a stream, and the object of an answer that comes whole. */
#include "engine/server/api_chat_int.h"

#include "engine/base/clock.h"
#include "engine/text/text.h"

#include <stdio.h>

/* Everything after the opening brace that is the same in all chunks; `object` differs between streamed and whole. */
void chat_write_common_(chat *c, time_t created) {
    const engine_facts *f = engine_get_facts(c->sv->en);
    char print[80];
    snprintf(print, sizeof print, "skiff-%s-%d", f->isa ? f->isa : "cpu", f->ctx);
    jsonw w;
    buf all = { 0 };
    jsonw_init(&w, &all);
    jsonw_begin_object(&w);
    jsonw_key_str(&w, "id", str_of(c->id));
    jsonw_key_str(&w, "object", c->p.stream ? STR("chat.completion.chunk") : STR("chat.completion"));
    jsonw_key_int(&w, "created", created);
    jsonw_key_str(&w, "model", str_of(server_model_(c->sv)));
    jsonw_key_str(&w, "system_fingerprint", str_of(print));
    jsonw_end_object(&w);
    jsonw_deinit(&w);
    buf_put(&c->common, all.data + 1, all.len - 2);
    buf_free(&all);
}

static void open_chunk(chat *c, jsonw *w) {
    jsonw_init(w, sse_open_event(&c->out));
    jsonw_begin_object(w);
    jsonw_members(w, buf_view(&c->common));
}

static void close_chunk(chat *c, jsonw *w) {
    jsonw_end_object(w);
    jsonw_deinit(w);
    sse_close_event(&c->out);
}

static void write_token_ids(chat *c, jsonw *w) {
    if (!c->p.return_token_ids) return;
    const int32_t *ids = (const int32_t *)(const void *)c->tokens.data;
    jsonw_key(w, "token_ids");
    jsonw_begin_array(w);
    for (size_t i = 0; i < c->tokens.len / sizeof *ids; i++) jsonw_int(w, ids[i]);
    jsonw_end_array(w);
    buf_clear(&c->tokens);
}

/* The members of one token. Its bytes may be half a character: then they are more than its text can say. */
static void write_token(const chat *c, jsonw *w, int32_t token, float logprob) {
    str bytes = text_token_bytes(engine_get_text(c->sv->en), token);
    jsonw_key_str(w, "token", bytes);
    jsonw_key_double(w, "logprob", (double)logprob);
    jsonw_key(w, "bytes");
    jsonw_begin_array(w);
    for (size_t i = 0; i < bytes.n; i++) jsonw_int(w, (uint8_t)bytes.p[i]);
    jsonw_end_array(w);
}

/* Entries of the content tokens that have not been written. Text may be held back longer than its tokens; their entries
 * then go with the next text, or with the end. null and not an empty list where there are none: clients fail on it. */
static void write_logprobs(chat *c, jsonw *w) {
    const chat_logprob *entry = (const chat_logprob *)(const void *)c->logprobs.data;
    size_t n = c->logprobs.len / sizeof *entry;
    jsonw_key(w, "logprobs");
    if (!n) {
        jsonw_null(w);
        return;
    }
    jsonw_begin_object(w);
    jsonw_key(w, "content");
    jsonw_begin_array(w);
    for (size_t i = 0; i < n; i++) {
        const token_logprobs *l = &entry[i].l;
        jsonw_begin_object(w);
        write_token(c, w, entry[i].token, l->logprob);
        jsonw_key(w, "top_logprobs");
        jsonw_begin_array(w);
        for (int32_t k = 0; k < l->n_top; k++) {
            jsonw_begin_object(w);
            write_token(c, w, l->top[k].token, l->top[k].logprob);
            jsonw_end_object(w);
        }
        jsonw_end_array(w);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
    jsonw_key_null(w, "refusal");
    jsonw_end_object(w);
    buf_clear(&c->logprobs);
}

static void write_reasoning(const chat *c, jsonw *w, str text) {
    if (c->p.reasoning != REASONING_SHORT) jsonw_key_str(w, "reasoning_content", text);
    if (c->p.reasoning == REASONING_SHORT || c->p.reasoning == REASONING_BOTH) jsonw_key_str(w, "reasoning", text);
}

static void write_stop_reason(jsonw *w, const chat_end *end) {
    jsonw_key(w, "stop_reason");
    if (end->stop.p)
        jsonw_str(w, end->stop);
    else if (end->end_token >= 0)
        jsonw_int(w, end->end_token);
    else
        jsonw_null(w);
}

/* What one chunk says; a text with p NULL is none. */
typedef struct delta {
    str reasoning, content;
    str name;      /* of a call that begins */
    str arguments; /* of the call that began last */
    const chat_end *end;
} delta;

static void new_call_id(chat *c, char id[40]) {
    api_new_id(id, "call_");
    buf_put(&c->call_ids, id, strlen(id) + 1);
}

/* A client merges chunks of a call by its index; id, type and name stand in the first one only. */
static void write_call(chat *c, jsonw *w, const delta *d) {
    char id[40];
    jsonw_key(w, "tool_calls");
    jsonw_begin_array(w);
    jsonw_begin_object(w);
    c->n_calls += d->name.p != NULL;
    jsonw_key_int(w, "index", c->n_calls - 1);
    if (d->name.p) {
        new_call_id(c, id);
        jsonw_key_str(w, "id", str_of(id));
        jsonw_key_str(w, "type", STR("function"));
    }
    jsonw_key(w, "function");
    jsonw_begin_object(w);
    if (d->name.p) jsonw_key_str(w, "name", d->name);
    jsonw_key_str(w, "arguments", d->name.p ? STR("") : d->arguments);
    jsonw_end_object(w);
    jsonw_end_object(w);
    jsonw_end_array(w);
}

/* One chunk with a choice. Every delta has a content member: some clients fail without. The role comes with the first
 * text, because a chunk of its own would count as the first token. */
static void write_delta(chat *c, const delta *d) {
    jsonw w;
    open_chunk(c, &w);
    jsonw_key(&w, "choices");
    jsonw_begin_array(&w);
    jsonw_begin_object(&w);
    jsonw_key_int(&w, "index", 0);
    jsonw_key(&w, "delta");
    jsonw_begin_object(&w);
    if (!c->has_role) jsonw_key_str(&w, "role", STR("assistant"));
    c->has_role = true;
    jsonw_key_str(&w, "content", d->content);
    if (d->reasoning.p) write_reasoning(c, &w, d->reasoning);
    if (d->name.p || d->arguments.p) write_call(c, &w, d);
    jsonw_end_object(&w);
    if (d->content.p)
        write_logprobs(c, &w);
    else
        jsonw_key_null(&w, "logprobs");
    jsonw_key_str(&w, "finish_reason", d->end ? str_of(d->end->reason) : (str){ 0 });
    if (d->end) write_stop_reason(&w, d->end);
    write_token_ids(c, &w);
    jsonw_end_object(&w);
    jsonw_end_array(&w);
    if (c->p.continuous_usage) {
        jsonw_key(&w, "usage");
        api_write_usage(&w, &c->meter.totals);
    }
    if (d->end || c->p.timings_per_token) {
        jsonw_key(&w, "timings");
        api_write_timings(&w, &c->meter);
    }
    close_chunk(c, &w);
}

void chat_write_round_(chat *c) {
    for (size_t i = 0; i < c->open.n; i++) {
        str text = parts_text(&c->open, i);
        switch (c->open.list[i].kind) {
        case GEN_REASONING: write_delta(c, &(delta){ .reasoning = text }); break;
        case GEN_CALL: write_delta(c, &(delta){ .name = text }); break;
        case GEN_ARGUMENTS: write_delta(c, &(delta){ .arguments = text }); break;
        default: write_delta(c, &(delta){ .content = text }); break;
        }
    }
    parts_clear(&c->open);
}

/* `choices` is empty: a chunk with a choice would count as the first token. */
void chat_write_progress_(chat *c, int32_t done, int32_t total) {
    double ms = clock_ms(clock_ns() - c->meter.started_ns);
    jsonw w;
    int32_t cached = c->meter.totals.cached;
    open_chunk(c, &w);
    jsonw_key(&w, "choices");
    jsonw_raw(&w, STR("[]"));
    jsonw_key(&w, "prompt_progress");
    jsonw_begin_object(&w);
    jsonw_key_int(&w, "total", total);
    jsonw_key_int(&w, "cache", cached);
    jsonw_key_int(&w, "processed", done);
    jsonw_key_ms(&w, "time_ms", ms);
    jsonw_key_ms(&w, "eta_ms", done > cached ? ms * (total - done) / (done - cached) : 0);
    jsonw_end_object(&w);
    close_chunk(c, &w);
}

void chat_write_end_(chat *c, const chat_end *end) {
    chat_write_round_(c);
    write_delta(c, &(delta){ .content = STR(""), .end = end });
    if (c->p.include_usage) {
        jsonw w;
        open_chunk(c, &w);
        jsonw_key(&w, "choices");
        jsonw_raw(&w, STR("[]"));
        jsonw_key(&w, "usage");
        api_write_usage(&w, &c->meter.totals);
        close_chunk(c, &w);
    }
    sse_put_done(&c->out);
}

/* After the head of a stream an error can only be an event; its code is a number there. */
void chat_write_error_(chat *c, int code, str message) {
    jsonw w;
    chat_write_round_(c);
    jsonw_init(&w, sse_open_event(&c->out));
    jsonw_begin_object(&w);
    jsonw_key(&w, "error");
    jsonw_begin_object(&w);
    jsonw_key_str(&w, "message", message);
    jsonw_key_str(&w, "type", code == 503 ? STR("unavailable_error") : STR("server_error"));
    jsonw_key_null(&w, "param");
    jsonw_key_int(&w, "code", code);
    jsonw_end_object(&w);
    jsonw_end_object(&w);
    jsonw_deinit(&w);
    sse_close_event(&c->out);
    sse_put_done(&c->out);
}

static void write_calls(chat *c, jsonw *w, const answer *a) {
    char id[40];
    jsonw_key(w, "tool_calls");
    jsonw_begin_array(w);
    for (size_t i = 0; i < a->n_calls; i++) {
        new_call_id(c, id);
        jsonw_begin_object(w);
        jsonw_key_str(w, "id", str_of(id));
        jsonw_key_str(w, "type", STR("function"));
        jsonw_key(w, "function");
        jsonw_begin_object(w);
        jsonw_key_str(w, "name", buf_view(&a->calls[i].name));
        jsonw_key_str(w, "arguments", buf_view(&a->calls[i].arguments));
        jsonw_end_object(w);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

/* The content may be null beside calls only. */
static void write_message(chat *c, jsonw *w) {
    const answer *a = &c->whole;
    str content = buf_view(&a->content);
    if (a->n_calls && !content.n) content = (str){ 0 };
    jsonw_begin_object(w);
    jsonw_key_str(w, "role", STR("assistant"));
    jsonw_key_str(w, "content", content);
    if (a->reasoning.len) write_reasoning(c, w, buf_view(&a->reasoning));
    jsonw_key_null(w, "refusal");
    if (a->n_calls) write_calls(c, w, a);
    jsonw_end_object(w);
}

void chat_write_whole_(chat *c, const chat_end *end, buf *out) {
    jsonw w;
    jsonw_init(&w, out);
    jsonw_begin_object(&w);
    jsonw_members(&w, buf_view(&c->common));
    jsonw_key(&w, "choices");
    jsonw_begin_array(&w);
    jsonw_begin_object(&w);
    jsonw_key_int(&w, "index", 0);
    jsonw_key(&w, "message");
    write_message(c, &w);
    write_logprobs(c, &w);
    jsonw_key_str(&w, "finish_reason", str_of(end->reason));
    write_stop_reason(&w, end);
    write_token_ids(c, &w);
    jsonw_end_object(&w);
    jsonw_end_array(&w);
    jsonw_key(&w, "usage");
    api_write_usage(&w, &c->meter.totals);
    jsonw_key(&w, "timings");
    api_write_timings(&w, &c->meter);
    jsonw_end_object(&w);
    jsonw_deinit(&w);
}
