/* tests/unit/reply_fixture.h - answers of the demo model's tokens: texts cut into tokens in two ways, replies that take
 * them, tokens of stream cases. */
#ifndef TESTS_UNIT_REPLY_FIXTURE_H
#define TESTS_UNIT_REPLY_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/core/reply.h"
#include "engine/text/chat.h"
#include "engine/text/answer.h"
#include "tests/unit/json_fixture.h"

#include <stdio.h>
#include <string.h>

#define FIXTURE __attribute__((unused)) static

enum { VOCAB = 4096, STOPS_MAX = 8, ID_EOS = 2, ID_TURN_END = 24 };

static text_model *tm;
static int32_t byte_ids[256]; /* tokens of one byte */

FIXTURE int setup(void **state) {
    (void)state;
    static const char *const names[] = { "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                                         "generation_config.json", "config.json" };
    buf files[5];
    for (size_t i = 0; i < 5; i++) {
        char path[80];
        snprintf(path, sizeof path, "target/demo/%s", names[i]);
        files[i] = fixture_read(path);
    }
    const text_files all = { buf_view(&files[0]), buf_view(&files[1]), buf_view(&files[2]), buf_view(&files[3]),
                             buf_view(&files[4]) };
    err e;
    if (text_model_open(&tm, &all, VOCAB, &e) != OK) fail_msg("%s", e.text);
    for (size_t i = 0; i < 5; i++) buf_free(&files[i]);
    for (int32_t id = 0; id < VOCAB; id++) {
        str bytes = text_token_bytes(tm, id);
        if (bytes.n == 1) byte_ids[(unsigned char)bytes.p[0]] = id;
    }
    return 0;
}

FIXTURE int teardown(void **state) {
    (void)state;
    text_model_close(tm);
    return 0;
}

/* ---- running a reply ---- */

typedef enum cut { CUT_TOKENS, CUT_BYTES, CUTS } cut;

/* Tags become their tokens; other text what the tokenizer makes of it, or one token a byte. */
FIXTURE void put_text(token_list *ids, str text, cut how) {
    token_list coded = { 0 };
    assert_int_equal(text_encode(tm, text, true, &coded, NULL), OK);
    for (size_t i = 0; i < coded.n; i++) {
        str bytes = text_token_bytes(tm, coded.ids[i]);
        bool whole = how == CUT_TOKENS || text_find_token(tm, bytes) == coded.ids[i];
        if (whole) token_list_push(ids, coded.ids[i]);
        for (size_t k = 0; !whole && k < bytes.n; k++) token_list_push(ids, byte_ids[(unsigned char)bytes.p[k]]);
    }
    token_list_free(&coded);
}

typedef struct run {
    reply *reply;
    parts parts; /* all so far */
    answer text; /* the same as an answer */
    reply_state state;
} run;

FIXTURE run run_new(reply_options opt) { return (run){ .reply = reply_new(tm, &opt) }; }

/* The answer so far. */
FIXTURE void run_gather(run *r) {
    answer_free(&r->text);
    for (size_t i = 0; i < r->parts.n; i++)
        answer_put(&r->text, r->parts.list[i].kind, parts_text(&r->parts, i), r->parts.list[i].complete);
}

FIXTURE void run_push(run *r, const token_list *ids) {
    for (size_t i = 0; i < ids->n && r->state == REPLY_GOES_ON; i++)
        r->state = reply_push(r->reply, ids->ids[i], &r->parts);
    run_gather(r);
}

FIXTURE void run_finish(run *r, bool cut_off) {
    if (r->state == REPLY_GOES_ON) reply_finish(r->reply, cut_off, &r->parts);
    run_gather(r);
}

FIXTURE void run_deinit(run *r) {
    reply_free(r->reply);
    parts_free(&r->parts);
    answer_free(&r->text);
}

FIXTURE bool run_is(const run *r, str reasoning, str content) {
    return str_eq(buf_view(&r->text.reasoning), reasoning) && str_eq(buf_view(&r->text.content), content);
}

/* ---- stream cases ---- */

/* A token of a case: its text, {"hex": bytes} or {"end": id}. */
FIXTURE void put_case_token(token_list *ids, const json_t *token, cut how) {
    const json_t *end = json_object_get(token, "end");
    str hex = fixture_str(token, "hex");
    if (json_is_string(token))
        put_text(ids, (str){ json_string_value(token), json_string_length(token) }, how);
    else if (end)
        token_list_push(ids, (int32_t)json_integer_value(end));
    for (size_t i = 0; i + 1 < hex.n; i += 2) {
        unsigned byte = 0;
        char pair[3] = { hex.p[i], hex.p[i + 1], 0 };
        assert_int_equal(sscanf(pair, "%x", &byte), 1);
        token_list_push(ids, byte_ids[byte]);
    }
}

FIXTURE reply_options case_options(const json_t *item, str *stops) {
    const json_t *stop = json_object_get(json_object_get(item, "request"), "stop"), *one;
    reply_options opt = { .stop = stops };
    size_t i;
    if (json_is_string(stop)) stops[opt.n_stop++] = (str){ json_string_value(stop), json_string_length(stop) };
    json_array_foreach(stop, i, one) {
        assert_true(opt.n_stop < STOPS_MAX);
        stops[opt.n_stop++] = (str){ json_string_value(one), json_string_length(one) };
    }
    token_list tail = { 0 };
    assert_int_equal(text_encode(tm, fixture_str(item, "prompt_tail"), true, &tail, NULL), OK);
    opt.start = chat_start(tm, tail.ids, tail.n);
    token_list_free(&tail);
    return opt;
}

#endif
