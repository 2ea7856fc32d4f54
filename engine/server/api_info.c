/* Health and the model list. */
#include "engine/server/api.h"

#include <math.h>

static void reply_json(http_exchange *x, int code, buf *body) {
    http_reply(x, code, "application/json", buf_view(body));
    buf_free(body);
}

/* --------------------------------------------------------------------- health */

/* 200 promises more than an open socket: READY follows a self-test of the engine. */
void api_health(const api_call *call) {
    float fraction = 0;
    engine_state state = engine_get_state(call->sv->en, &fraction);
    buf body = { 0 };
    jsonw w;
    jsonw_init(&w, &body);
    jsonw_begin_object(&w);
    if (state == ENGINE_READY) {
        jsonw_key_str(&w, "status", STR("ok"));
    } else {
        bool loading = state == ENGINE_LOADING;
        jsonw_key_str(&w, "status", loading ? STR("loading") : STR("failed"));
        if (loading) {
            jsonw_key_double(&w, "progress", round((double)fraction * 1000) / 1000);
            jsonw_key_int(&w, "percent", (int64_t)(fraction * 100));
        }
        jsonw_key(&w, "error");
        jsonw_begin_object(&w);
        jsonw_key_int(&w, "code", 503);
        jsonw_key_str(&w, "message", loading ? STR("Loading model") : STR("The engine has failed"));
        jsonw_key_str(&w, "type", STR("unavailable_error"));
        jsonw_end_object(&w);
        http_add_header(call->x, "Retry-After", STR("2"));
    }
    jsonw_end_object(&w);
    jsonw_deinit(&w);
    reply_json(call->x, state == ENGINE_READY ? 200 : 503, &body);
}

/* --------------------------------------------------------------------- models */

static const char *const SUPPORTED[] = {
    "messages",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "structured_outputs",
    "logit_bias",
    "min_tokens",
    "logprobs",
    "top_logprobs",
    "seed",
    "stop",
    "reasoning",
    "reasoning_effort",
    "chat_template_kwargs",
    "speculation",
};

/* Clients look for the context size under different names: all of them say what is served. */
static void write_model(jsonw *w, const server *sv) {
    const engine_facts *f = engine_get_facts(sv->en);
    str name = str_of(server_model_(sv));
    char since[32];
    struct tm tm;
    strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&sv->started, &tm));
    jsonw_begin_object(w);
    jsonw_key_str(w, "id", name);
    jsonw_key_str(w, "object", STR("model"));
    jsonw_key_int(w, "created", sv->started);
    jsonw_key_str(w, "owned_by", STR("poolside"));
    jsonw_key_str(w, "root", name);
    jsonw_key_null(w, "parent");
    jsonw_key_int(w, "max_model_len", f->ctx);
    jsonw_key_int(w, "context_length", f->ctx);
    jsonw_key_int(w, "context_window", f->ctx);
    jsonw_key_int(w, "max_completion_tokens", f->ctx);
    jsonw_key(w, "supported_parameters");
    jsonw_begin_array(w);
    for (size_t i = 0; i < sizeof SUPPORTED / sizeof *SUPPORTED; i++) jsonw_str(w, str_of(SUPPORTED[i]));
    jsonw_end_array(w);
    jsonw_key_str(w, "type", STR("model"));
    jsonw_key_str(w, "display_name", name);
    jsonw_key_str(w, "created_at", str_of(since));
    jsonw_key(w, "meta");
    jsonw_begin_object(w);
    jsonw_key_int(w, "n_ctx", f->ctx);
    jsonw_key_int(w, "n_ctx_train", f->ctx_trained);
    jsonw_key_int(w, "n_vocab", f->vocab);
    jsonw_key_int(w, "n_embd", f->hidden);
    jsonw_key_int(w, "n_params", f->parameters);
    jsonw_key_int(w, "size", f->target_bytes + f->draft_bytes);
    jsonw_end_object(w);
    jsonw_key(w, "architecture");
    jsonw_raw(w, STR("{\"input_modalities\":[\"text\"],\"output_modalities\":[\"text\"]}"));
    jsonw_end_object(w);
}

void api_models(const api_call *call) {
    if (!api_is_ready(call)) return;
    str name = str_of(server_model_(call->sv));
    buf body = { 0 };
    jsonw w;
    jsonw_init(&w, &body);
    jsonw_begin_object(&w);
    jsonw_key_str(&w, "object", STR("list"));
    jsonw_key(&w, "data");
    jsonw_begin_array(&w);
    write_model(&w, call->sv);
    jsonw_end_array(&w);
    jsonw_key_str(&w, "first_id", name);
    jsonw_key_str(&w, "last_id", name);
    jsonw_key_bool(&w, "has_more", false);
    jsonw_end_object(&w);
    jsonw_deinit(&w);
    reply_json(call->x, 200, &body);
}

/* The id may contain slashes, plain or escaped. */
void api_model(const api_call *call) {
    if (!api_is_ready(call)) return;
    if (!str_eq(call->rest, str_of(server_model_(call->sv)))) {
        api_error_reply(call->x, &(api_error){ .code = 404,
                                               .id = "model_not_found",
                                               .param = "model",
                                               .message = "no such model; /v1/models lists the one that is served" });
        return;
    }
    buf body = { 0 };
    jsonw w;
    jsonw_init(&w, &body);
    write_model(&w, call->sv);
    jsonw_deinit(&w);
    reply_json(call->x, 200, &body);
}
