#include "engine/text/reason.h"

void reason_init(reason *r, const text_model *tm, reply_start start) {
    *r = (reason){ .open = text_find_token(tm, STR("<think>")),
                   .close = text_find_token(tm, STR("</think>")),
                   .start = start,
                   .in_reasoning = start == REPLY_REASONING };
}

void reason_set(reason *r, bool in_reasoning) {
    r->begun = true;
    r->in_reasoning = in_reasoning;
}

reason_part reason_push(reason *r, int32_t token) {
    bool first = !r->begun;
    r->begun = true;
    if (r->start == REPLY_RAW || token < 0) return REASON_CONTENT;
    if (!r->in_reasoning) return first && token == r->close ? REASON_NONE : REASON_CONTENT;
    if (token == r->close) r->in_reasoning = false;
    return token == r->close || (first && token == r->open) ? REASON_NONE : REASON_TEXT;
}
