#include "engine/text/call_form.h"

#include "engine/text/chat.h"

#include <jansson.h>

static const char CALL[] = "{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"type\": \"function\", "
                           "\"id\": \"c\", \"function\": {\"name\": \"f\", \"arguments\": {\"k\": \"v\"}}}]}";

static status render_call(const text_model *tm, buf *out, err *e) {
    json_t *messages = json_array(), *call = json_loads(CALL, 0, NULL);
    CHECK(call);
    json_array_append_new(messages, json_pack("{ss,ss}", "role", "user", "content", "u"));
    json_array_append_new(messages, call);
    status s = chat_render(tm, &(chat_request){ .messages = messages }, out, NULL, e);
    json_decref(messages);
    return s;
}

static bool holds(str text, const char *what) { return memmem(text.p, text.n, what, strlen(what)) != NULL; }

status call_form_of(const text_model *tm, call_form *out, err *e) {
    buf text = { 0 };
    *out = (call_form){ text_find_token(tm, STR("<tool_call>")), text_find_token(tm, STR("</tool_call>")), false };
    if (out->open < 0 || out->close < 0)
        return err_set(e, ERR_UNSUPPORTED, "this model has no tokens for tool calls, so none can be forced");
    status s = render_call(tm, &text, e);
    if (s == OK) {
        out->lines =
            holds(buf_view(&text), "<tool_call>f\n<arg_key>k</arg_key>\n<arg_value>v</arg_value>\n</tool_call>");
        if (!out->lines &&
            !holds(buf_view(&text), "<tool_call>f<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>"))
            s = err_set(e, ERR_UNSUPPORTED,
                        "the model's chat template writes tool calls in a form that cannot be forced");
    }
    buf_free(&text);
    return s;
}
