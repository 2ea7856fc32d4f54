/* engine/server/api_params.h - request members of the OpenAI-style endpoints, checked once and turned into engine
 * terms.
 *
 * Absent and null mean the same. Members that are known and not honoured are refused unless neutral; unknown ones are
 * ignored and listed. */
#ifndef ENGINE_SERVER_API_PARAMS_H
#define ENGINE_SERVER_API_PARAMS_H
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/status.h"
#include <jansson.h>
#include "engine/engine.h"
#include "engine/text/answer_shape.h"

enum { PARAM_NAME_MAX = 64, PARAM_STOPS_MAX = 16 };

/* Where reasoning goes in the answer. */
typedef enum reasoning_format { REASONING_CONTENT, REASONING_SHORT, REASONING_BOTH, REASONING_NONE } reasoning_format;

typedef struct api_params {
    const char *model; /* "" when absent */
    bool stream, include_usage, continuous_usage, timings_per_token, return_progress, return_token_ids, ignore_end;
    int32_t max_new;      /* 0: the rest of the context */
    int32_t thinking_max; /* tokens of reasoning; -1: no limit */
    pick_options pick;    /* without its bias list */
    token_bias bias[BIAS_MAX];
    int32_t n_bias;
    int32_t logprobs; /* alternatives with every token, -1: no log-probabilities */
    str stop[PARAM_STOPS_MAX];
    int32_t n_stop;
    spec_options spec;
    bool no_cache;
    const json_t *tools; /* array with tools; the body's. NULL: none */
    bool no_calls;       /* the tools are in the prompt only */
    bool one_call;
    answer_shape shape;       /* the body's trees and texts */
    const json_t *prediction; /* text, or an array of parts with "text"; the body's. NULL: none */
    reasoning_format reasoning;
    double ping_s;    /* 0: the server's */
    int32_t thinking; /* of reasoning_effort or reasoning: -1 not said, 0 off, 1 on */
} api_params;

typedef struct api_defaults {
    const engine_facts *facts;
    str speculation; /* value of the x-speculation header; p NULL: absent */
    bool strict;     /* unknown members are refused */
} api_defaults;

/* A body that was read: json_t of jansson behind it, which this header does not show. */
struct json_t;

/* ERR_REQUEST, ERR_UNSUPPORTED: `param` takes the name of the member. Strings are views into the body. `ignored` takes
 * the names of members that were ignored, comma-separated, made safe for a header. */
status api_params_read(api_params *out, const struct json_t *body, const api_defaults *def, buf *ignored,
                       char param[PARAM_NAME_MAX], err *e);

/* Text of a request body to a JSON object (free with json_decref). ERR_REQUEST in fixed words: bytes of the client are
 * not echoed. Nesting deeper than 128 is refused. */
status api_params_parse(struct json_t **out, str text, err *e);

/* New object: server defaults, then what reasoning_effort says, then chat_template_kwargs of the body. */
status api_params_kwargs(struct json_t **out, const struct json_t *body, const char *defaults, int32_t thinking,
                         char param[PARAM_NAME_MAX], err *e);

status api_params_check_kwargs(const char *defaults, err *e); /* of the server's option; NULL is fine. ERR_USAGE */
#endif
