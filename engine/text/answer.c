#include "engine/text/answer.h"

#include "engine/base/mem.h"

#include <stdlib.h>

static void begin_call(answer *a, str name) {
    if (a->n_calls == a->cap_calls) {
        a->cap_calls = 2 * a->cap_calls + 4;
        a->calls = xrealloc(a->calls, a->cap_calls * sizeof *a->calls);
    }
    answer_call *call = &a->calls[a->n_calls];
    *call = (answer_call){ 0 };
    buf_str(&call->name, name);
    a->in_call = true;
}

static void free_call(answer_call *call) {
    buf_free(&call->name);
    buf_free(&call->arguments);
}

static void end_call(answer *a, bool complete, str text) {
    if (!a->in_call) return;
    a->in_call = false;
    if (complete) {
        a->n_calls++;
        return;
    }
    free_call(&a->calls[a->n_calls]);
    buf_str(&a->content, text);
}

void answer_put(answer *a, gen_event_kind kind, str text, bool complete) {
    switch (kind) {
    case GEN_TEXT: buf_str(&a->content, text); break;
    case GEN_REASONING: buf_str(&a->reasoning, text); break;
    case GEN_CALL: begin_call(a, text); break;
    case GEN_ARGUMENTS:
        if (a->in_call) buf_str(&a->calls[a->n_calls].arguments, text);
        break;
    case GEN_CALL_END: end_call(a, complete, text); break;
    default: break;
    }
}

void answer_put_event(answer *a, const gen_event *ev) {
    answer_put(a, ev->kind, ev->text, ev->kind == GEN_CALL_END && ev->u.call.complete);
}

void answer_free(answer *a) {
    for (size_t i = 0; i < a->n_calls + a->in_call; i++) free_call(&a->calls[i]);
    free(a->calls);
    buf_free(&a->reasoning);
    buf_free(&a->content);
    *a = (answer){ 0 };
}
