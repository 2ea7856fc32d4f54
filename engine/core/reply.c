/* One token passes: end token? -> which part? -> bytes -> whole characters -> stop strings (content only).
 *
 * Reasoning and content have a decoder in common: at the border the first half of a character is flushed, it belongs to
 * the reasoning. Control tokens have no bytes, so the halves of a character may even stand around one. */
#include "engine/core/reply.h"

#include "engine/base/mem.h"
#include "engine/text/reason.h"
#include "engine/text/stopseq.h"

#include <stdlib.h>

struct reply {
    const text_model *tm;
    reason split;
    text_decoder decoder;
    stopseq *stops;
    buf whole; /* characters on their way to the stop strings */
    bool ignore_end, was_content;
    int32_t stop_index;
    int32_t n_reasoning;
};

reply *reply_new(const text_model *tm, const reply_options *opt) {
    reply *r = xalloc(sizeof *r);
    r->tm = tm;
    r->stops = stopseq_new(opt->stop, opt->n_stop);
    r->ignore_end = opt->ignore_end;
    r->stop_index = -1;
    reason_init(&r->split, tm, opt->start);
    return r;
}

void reply_free(reply *r) {
    if (!r) return;
    stopseq_free(r->stops);
    buf_free(&r->whole);
    free(r);
}

/* Moves whole characters to the text they belong to. True: a stop string is complete. */
static bool deliver(reply *r, bool reasoning, reply_text *out) {
    if (reasoning)
        buf_str(&out->reasoning, buf_view(&r->whole));
    else
        r->stop_index = stopseq_push(r->stops, buf_view(&r->whole), &out->content);
    buf_clear(&r->whole);
    return r->stop_index >= 0;
}

void reply_finish(reply *r, reply_text *out) {
    if (r->stop_index >= 0) return; /* behind a stop string nothing is shown */
    text_decoder_flush(&r->decoder, &r->whole);
    if (!deliver(r, r->split.in_reasoning, out)) stopseq_flush(r->stops, &out->content);
}

reply_state reply_push(reply *r, int32_t token, reply_text *out) {
    bool was_reasoning = r->split.in_reasoning;
    r->was_content = false;
    r->n_reasoning += was_reasoning;
    if (!r->ignore_end && text_is_end(r->tm, token)) {
        reply_finish(r, out);
        return REPLY_ENDED;
    }
    if (text_is_hidden(r->tm, token)) return REPLY_GOES_ON;
    reason_part part = reason_push(&r->split, token);
    if (was_reasoning && !r->split.in_reasoning) {
        text_decoder_flush(&r->decoder, &r->whole);
        deliver(r, true, out);
    }
    if (part == REASON_NONE) return REPLY_GOES_ON;
    r->was_content = part == REASON_CONTENT;
    text_decoder_push(&r->decoder, text_token_bytes(r->tm, token), &r->whole);
    return deliver(r, part == REASON_TEXT, out) ? REPLY_STOPPED : REPLY_GOES_ON;
}

bool reply_was_content(const reply *r) { return r->was_content; }
int32_t reply_stop_index(const reply *r) { return r->stop_index; }
int32_t reply_reasoning_tokens(const reply *r) { return r->n_reasoning; }
