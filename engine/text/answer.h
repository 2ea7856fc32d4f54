/* engine/text/answer.h - a whole answer, gathered from its parts. A zeroed one is empty and ready.
 *
 * A call that the answer did not close is none here, other than in a stream, which cannot take it back: its text stands
 * in the content, unless the answer was cut. */
#ifndef ENGINE_TEXT_ANSWER_H
#define ENGINE_TEXT_ANSWER_H
#include "engine/base/buf.h"
#include "engine/engine.h"

typedef struct answer_call {
    buf name, arguments;
} answer_call;

typedef struct answer {
    buf reasoning, content;
    answer_call *calls;
    size_t n_calls, cap_calls; /* complete ones */
    bool in_call;              /* one more is being gathered behind them */
} answer;

/* kind as in parts.h; others are left alone. complete: of GEN_CALL_END. */
void answer_put(answer *a, gen_event_kind kind, str text, bool complete);
void answer_put_event(answer *a, const gen_event *ev);
void answer_free(answer *a);
#endif
