/* engine/text/answer_shape.h - what an answer must be, in the words of requests, into grammars for the engine.
 *
 * A forced call wins over an object or a schema: such an answer has no content that could have a form. Otherwise an
 * answer that must be a text of some form may still call tools instead, when it may call any. */
#ifndef ENGINE_TEXT_ANSWER_SHAPE_H
#define ENGINE_TEXT_ANSWER_SHAPE_H
#include <jansson.h>
#include "engine/engine.h"
#include "engine/text/text.h"

typedef struct answer_shape {
    bool object;           /* any JSON object */
    const json_t *schema;  /* or what is valid under this one; NULL: none */
    const char *schema_at; /* where it comes from, for messages: "response_format.json_schema.schema" */
    const json_t *tools;   /* those that may be called, as tools_read() found them well; NULL: none */
    bool must_call;
    str must_name; /* the tool that must be called, once; p NULL: any */
    bool several;  /* calls */
} answer_shape;

/* Sets rq->grammar and rq->calls, which go with rq->mem; free answers leave them NULL. The trees may go away
 * afterwards. ERR_REQUEST, ERR_UNSUPPORTED: grammar_of_schema(), grammar_of_tools(), no such tool; *at (may be NULL)
 * is then schema_at, "tools" or "tool_choice". */
status answer_shape_apply(const answer_shape *s, const text_model *tm, gen_request *rq, const char **at, err *e);
#endif
