/* engine/text/chat.h - messages to prompt, by the checkpoint's own template. Pure; any thread. */
#ifndef ENGINE_TEXT_CHAT_H
#define ENGINE_TEXT_CHAT_H
#include <jansson.h>
#include "engine/engine.h"
#include "engine/text/text.h"

/* Borrowed. Unknown roles, wrong types and images are refused with ERR_REQUEST that names the message by index; `param`
 * (may be NULL) takes the path of the field at fault, "messages[2].content". */
typedef struct chat_request {
    const json_t *messages; /* array */
    const json_t *tools;    /* array or NULL */
    const json_t *kwargs;   /* chat_template_kwargs of the request, object or NULL; wins over the model's defaults */
    bool add_generation_prompt;
    bool guard; /* contents of users and tools are guarded: text.h. Say the same to chat_encode */
    str source; /* JSON text of the request, an object with the members messages, tools and chat_template_kwargs:
                 * numbers are rendered as they are spelled there, which the trees above have lost. p NULL: in Python's
                 * spelling */
} chat_request;

/* Appends the rendered prompt to out. ERR_TEMPLATE: the template raised or failed; the message has its line. */
status chat_render(const text_model *tm, const chat_request *rq, buf *out, char param[64], err *e);

/* Ids of a rendered prompt, appended to out, with one start token at the head: the template's own, or one that is put
 * there. guard: as in the request; known: as in text_encode_known. */
status chat_encode(const text_model *tm, str prompt, bool guard, struct segments *known, token_list *out, err *e);

/* Start state of the reply, from the tail of the encoded prompt: "<think>" -> REPLY_REASONING, else REPLY_CONTENT. */
reply_start chat_start(const text_model *tm, const int32_t *ids, size_t n);
#endif
