/* One token passes: end token? -> tag of a call? -> which part? -> bytes -> whole characters -> stop strings (content
 * only) -> parts.
 *
 * Reasoning, content and calls have a decoder in common: at the border the first half of a character is flushed, it
 * belongs to what was before. Control tokens have no bytes, so the halves of a character may even stand around one. */
#include "engine/core/reply.h"

#include "engine/base/mem.h"
#include "engine/text/reason.h"
#include "engine/text/stopseq.h"
#include "engine/text/toolcall.h"

#include <stdlib.h>

struct reply {
    const text_model *tm;
    reason split;
    text_decoder decoder;
    stopseq *stops;
    buf whole;   /* characters on their way to the stop strings */
    buf visible; /* and behind them */
    bool ignore_end, was_content;
    int32_t stop_index;
    int32_t n_reasoning;

    toolcall *calls; /* NULL: there are no tools */
    int32_t open, close;
    bool one_call;
    bool thought; /* the open call began in the reasoning */
};

reply *reply_new(const text_model *tm, const reply_options *opt) {
    reply *r = xalloc(sizeof *r);
    r->tm = tm;
    r->stops = stopseq_new(opt->stop, opt->n_stop);
    r->ignore_end = opt->ignore_end;
    r->stop_index = -1;
    reason_init(&r->split, tm, opt->start);
    r->open = text_find_token(tm, STR("<tool_call>"));
    r->close = text_find_token(tm, STR("</tool_call>"));
    r->one_call = opt->one_call;
    if (opt->n_tools && r->open >= 0 && r->close >= 0) r->calls = toolcall_new(opt->tools, opt->n_tools);
    return r;
}

void reply_free(reply *r) {
    if (!r) return;
    stopseq_free(r->stops);
    toolcall_free(r->calls);
    buf_free(&r->whole);
    buf_free(&r->visible);
    free(r);
}

static void show(reply *r, parts *out) {
    if (r->calls)
        toolcall_content(r->calls, buf_view(&r->visible), out);
    else
        parts_put(out, GEN_TEXT, buf_view(&r->visible));
    buf_clear(&r->visible);
}

/* Moves whole characters to the text they belong to. True: a stop string is complete. */
static bool deliver(reply *r, bool reasoning, parts *out) {
    if (reasoning) {
        parts_put(out, GEN_REASONING, buf_view(&r->whole));
    } else {
        r->stop_index = stopseq_push(r->stops, buf_view(&r->whole), &r->visible);
        show(r, out);
    }
    buf_clear(&r->whole);
    return r->stop_index >= 0;
}

static void flush_stops(reply *r, parts *out) {
    stopseq_flush(r->stops, &r->visible);
    show(r, out);
}

/* Characters of a call. It may turn out to be none: then they are text. */
static bool deliver_call(reply *r, parts *out) {
    buf back = { 0 };
    bool is_call = toolcall_text(r->calls, buf_view(&r->whole), out, &back);
    buf_clear(&r->whole);
    if (is_call) return false;
    buf_free(&r->whole);
    r->whole = back;
    reason_set(&r->split, r->thought);
    return deliver(r, r->thought, out);
}

static bool in_call(const reply *r) { return r->calls && toolcall_is_open(r->calls); }

/* A stop string is complete, or the answer ends otherwise. */
static void end_calls(reply *r, bool cut, parts *out) {
    if (r->calls) toolcall_finish(r->calls, cut, out);
}

void reply_finish(reply *r, bool cut, parts *out) {
    if (r->stop_index >= 0) return; /* behind a stop string nothing is shown */
    text_decoder_flush(&r->decoder, &r->whole);
    bool stopped = in_call(r) ? deliver_call(r, out) : deliver(r, r->split.in_reasoning, out);
    if (!stopped) flush_stops(r, out);
    end_calls(r, cut, out);
}

/* Half a character in front of a tag belongs to what the tag ends. */
static bool flush_decoder(reply *r, parts *out) {
    text_decoder_flush(&r->decoder, &r->whole);
    return in_call(r) ? deliver_call(r, out) : deliver(r, r->split.in_reasoning, out);
}

static reply_state stop(reply *r, parts *out) {
    end_calls(r, false, out);
    return REPLY_STOPPED;
}

static reply_state open_call(reply *r, parts *out) {
    if (flush_decoder(r, out)) return stop(r, out);
    flush_stops(r, out); /* a stop string does not reach across a call */
    r->thought = r->split.in_reasoning;
    reason_set(&r->split, false);
    toolcall_open(r->calls);
    return REPLY_GOES_ON;
}

static reply_state close_call(reply *r, parts *out) {
    bool complete = toolcall_close(r->calls, out);
    if (!complete || !r->one_call) return REPLY_GOES_ON;
    end_calls(r, false, out);
    return REPLY_CALLED;
}

/* "</think>" where a call that began in the reasoning has no name yet: the tag of the call was a word of the
 * reasoning, which ends here. */
static void resume_reasoning(reply *r, parts *out) {
    toolcall_give_up(r->calls, &r->whole);
    reason_set(&r->split, true);
    deliver(r, true, out);
}

static reply_state push_text(reply *r, int32_t token, parts *out) {
    bool was_reasoning = r->split.in_reasoning;
    r->n_reasoning += was_reasoning;
    reason_part part = reason_push(&r->split, token);
    if (was_reasoning && !r->split.in_reasoning) {
        text_decoder_flush(&r->decoder, &r->whole);
        deliver(r, true, out);
    }
    if (part == REASON_NONE) return REPLY_GOES_ON;
    r->was_content = part == REASON_CONTENT;
    text_decoder_push(&r->decoder, text_token_bytes(r->tm, token), &r->whole);
    return deliver(r, part == REASON_TEXT, out) ? stop(r, out) : REPLY_GOES_ON;
}

static reply_state push_call(reply *r, int32_t token, parts *out) {
    text_decoder_push(&r->decoder, text_token_bytes(r->tm, token), &r->whole);
    return deliver_call(r, out) ? stop(r, out) : REPLY_GOES_ON;
}

reply_state reply_push(reply *r, int32_t token, parts *out) {
    r->was_content = false;
    if (!r->ignore_end && text_is_end(r->tm, token)) {
        r->n_reasoning += r->split.in_reasoning;
        reply_finish(r, false, out);
        return REPLY_ENDED;
    }
    if (text_is_hidden(r->tm, token)) {
        r->n_reasoning += r->split.in_reasoning;
        return REPLY_GOES_ON;
    }
    if (in_call(r)) {
        bool ends = token == r->close || (token == r->split.close && r->thought && !toolcall_is_certain(r->calls));
        if (ends && flush_decoder(r, out)) return stop(r, out);
        if (in_call(r)) { /* it may have turned out to be none */
            if (token == r->close) return close_call(r, out);
            if (!ends) return push_call(r, token, out);
            resume_reasoning(r, out);
        }
    } else if (r->calls && token == r->open) {
        return open_call(r, out);
    }
    return push_text(r, token, out);
}

bool reply_was_content(const reply *r) { return r->was_content; }
int32_t reply_stop_index(const reply *r) { return r->stop_index; }
int32_t reply_reasoning_tokens(const reply *r) { return r->n_reasoning; }
