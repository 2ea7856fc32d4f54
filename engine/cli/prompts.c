#include "engine/cli/prompts.h"

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/text/chat.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

void prompts_free(prompt_set *ps) {
    for (size_t i = 0; i < ps->n; i++) token_list_free(&ps->at[i].ids);
    free(ps->at);
    *ps = (prompt_set){ 0 };
}

/* One line: prompt_ids, or prompt (raw text behind the start token), or messages with tools and enable_thinking. */
static status encode(const pair *p, const json_t *o, token_list *out, err *e) {
    const json_t *ids = json_object_get(o, "prompt_ids"), *text = json_object_get(o, "prompt");
    if (json_is_array(ids)) {
        for (size_t i = 0; i < json_array_size(ids); i++)
            token_list_push(out, (int32_t)json_integer_value(json_array_get(ids, i)));
        return OK;
    }
    if (json_is_string(text)) {
        if (text_start_token(p->text) >= 0) token_list_push(out, text_start_token(p->text));
        return text_encode(p->text, (str){ json_string_value(text), json_string_length(text) }, true, out, e);
    }
    const json_t *think = json_object_get(o, "enable_thinking");
    json_t *kwargs = json_object();
    if (think) json_object_set(kwargs, "enable_thinking", (json_t *)(uintptr_t)think);
    chat_request rq = { .messages = json_object_get(o, "messages"),
                        .tools = json_object_get(o, "tools"),
                        .kwargs = kwargs,
                        .add_generation_prompt = true };
    if (!json_is_array(rq.tools)) rq.tools = NULL;
    buf rendered = { 0 };
    status s = chat_render(p->text, &rq, &rendered, NULL, e);
    if (s == OK) s = chat_encode(p->text, buf_view(&rendered), false, NULL, out, e);
    buf_free(&rendered);
    json_decref(kwargs);
    return s;
}

/* One line of the file into the next place of the set. */
static status add_line(const pair *p, str line, prompt_set *ps, err *e) {
    json_error_t why;
    json_t *o = json_loadb(line.p, line.n, 0, &why);
    if (!o) return err_set(e, ERR_REQUEST, "%s", why.text);
    prompt *q = &ps->at[ps->n++];
    const char *class = json_string_value(json_object_get(o, "class"));
    snprintf(q->class, sizeof q->class, "%s", class ? class : "all");
    status s = encode(p, o, &q->ids, e);
    json_decref(o);
    return s;
}

status prompts_read(const pair *p, const char *path, int64_t limit, prompt_set *out, err *e) {
    static const char OWN[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Write a Python function that reverses a list.\"}]}\n"
        "{\"prompt\":\"import os\\n\\ndef main():\\n\"}\n"
        "{\"messages\":[{\"role\":\"user\",\"content\":\"1+1?\"}],\"enable_thinking\":true}\n";
    buf text = { 0 };
    if (path)
        TRY(file_read(&text, path, (size_t)1 << 30, e));
    else
        buf_put(&text, OWN, sizeof OWN - 1);
    size_t lines = 0, at = 0, line = 0;
    for (size_t i = 0; i < text.len; i++) lines += text.data[i] == '\n';
    size_t want = (size_t)limit < lines ? (size_t)limit : lines;
    prompt_set ps = { xalloc((want + 1) * sizeof(prompt)), 0 };
    status s = OK;
    for (; at < text.len && s == OK && ps.n < want; line++) {
        size_t end = at;
        while (end < text.len && text.data[end] != '\n') end++;
        if (line * want / lines == ps.n) { /* spread over the file */
            s = add_line(p, (str){ text.data + at, end - at }, &ps, e);
            if (s != OK) err_wrap(e, "%s:%zu", path ? path : "prompts", line + 1);
        }
        at = end + 1;
    }
    buf_free(&text);
    if (s != OK) {
        prompts_free(&ps);
        return s;
    }
    *out = ps;
    return OK;
}
