#include "engine/server/api.h"

#include <stdio.h>
#include <sys/random.h>

static const char *type_of(int code) {
    switch (code) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 500: return "server_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    default: return "invalid_request_error";
    }
}

static str or_null(const char *z) { return z && *z ? str_of(z) : (str){ 0 }; }

void api_error_body(buf *out, const api_error *er) {
    jsonw w;
    jsonw_init(&w, out);
    jsonw_begin_object(&w);
    jsonw_key(&w, "error");
    jsonw_begin_object(&w);
    jsonw_key_str(&w, "message", str_of(er->message));
    jsonw_key_str(&w, "type", str_of(er->type ? er->type : type_of(er->code)));
    jsonw_key_str(&w, "param", or_null(er->param));
    jsonw_key_str(&w, "code", or_null(er->id));
    if (er->n_ctx) {
        jsonw_key_int(&w, "n_prompt_tokens", er->n_prompt);
        jsonw_key_int(&w, "n_ctx", er->n_ctx);
    }
    jsonw_end_object(&w);
    jsonw_end_object(&w);
    jsonw_deinit(&w);
}

void api_error_reply(http_exchange *x, const api_error *er) {
    buf body = { 0 };
    api_error_body(&body, er);
    if (er->retry_s) {
        char seconds[16];
        snprintf(seconds, sizeof seconds, "%d", er->retry_s);
        http_add_header(x, "Retry-After", str_of(seconds));
    }
    http_reply(x, er->code, "application/json", buf_view(&body));
    buf_free(&body);
}

api_error api_error_of(status s, const char *message, const char *param) {
    api_error er = { .code = 500, .message = message, .param = param };
    switch (s) {
    case ERR_REQUEST: er.code = 400; break;
    case ERR_UNSUPPORTED: er.code = 400, er.id = "unsupported_parameter"; break;
    case ERR_TOO_LONG: er.code = 400, er.id = "context_length_exceeded"; break;
    case ERR_BUSY: er.code = 429, er.retry_s = 2; break;
    default: break;
    }
    return er;
}

bool api_is_ready(const api_call *call) {
    engine_state state = engine_get_state(call->sv->en, NULL);
    if (state == ENGINE_READY) return true;
    const char *why = state == ENGINE_LOADING ? "Loading model" : "The engine has failed; the server is about to end";
    api_error_reply(call->x, &(api_error){ .code = 503, .message = why, .retry_s = 2 });
    return false;
}

uint64_t api_random(void) {
    uint64_t v;
    CHECK(getrandom(&v, sizeof v, 0) == sizeof v); /* up to 256 bytes come whole */
    return v;
}

void api_new_id(char out[40], const char *prefix) {
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    size_t n = strlen(prefix);
    CHECK(n + 25 <= 40);
    memcpy(out, prefix, n);
    for (int i = 0; i < 24; i += 8) {
        uint64_t r = api_random();
        for (int j = 0; j < 8; j++, r /= 62) out[n++] = LETTERS[r % 62];
    }
    out[n] = 0;
}
