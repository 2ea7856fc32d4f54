/* engine/text/text_int.h - layout of a text_model, for engine/text only. Constant after text_model_open. */
#ifndef ENGINE_TEXT_TEXT_INT_H
#define ENGINE_TEXT_TEXT_INT_H
#include <jansson.h>
#include "engine/base/arena.h"
#include "engine/text/text.h"
#include "engine/text/tokenizer.h"

enum { TOKEN_IS_END = 1, TOKEN_IS_HIDDEN = 2 }; /* an end token has both */

struct text_model {
    arena *mem; /* the strings below */
    tokenizer *tokens;
    uint8_t *flags; /* [vocab] TOKEN_IS_* */
    int32_t vocab;
    int32_t start; /* -1: none */

    /* For chat.c. */
    str bos, eos, pad, unk; /* token strings that the template may use; p NULL: tokenizer_config.json has none */
    struct tmpl *tmpl;      /* NULL: the model has no template */
    json_t *default_kwargs; /* default_chat_template_kwargs of generation_config.json, an object; NULL: none */
};
#endif
