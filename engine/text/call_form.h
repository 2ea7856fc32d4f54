/* engine/text/call_form.h - how a model writes tool calls: with line ends between the parts, as the older ones, or
 * without.
 *
 * Its own chat template says so: it renders the calls of earlier turns, and what the model writes must look the same
 * when it is rendered with the next prompt. */
#ifndef ENGINE_TEXT_CALL_FORM_H
#define ENGINE_TEXT_CALL_FORM_H
#include <stdbool.h>
#include "engine/base/status.h"
#include "engine/text/text.h"

typedef struct call_form {
    int32_t open, close; /* tokens "<tool_call>" and "</tool_call>" */
    bool lines;          /* tool_grammar.h */
} call_form;

/* ERR_UNSUPPORTED: the vocabulary has no such tokens, or the template renders calls in another form. */
status call_form_of(const text_model *tm, call_form *out, err *e);
#endif
