/* Reasoning comes back to the message that it belonged to, and to no other; memory stays within its bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/server/api_recall.h"

static json_t *parse(const char *text) {
    json_t *v = json_loads(text, 0, NULL);
    assert_non_null(v);
    return v;
}

/* The reasoning of message i, NULL: none. */
static const char *reasoning_of(const json_t *messages, size_t i) {
    return json_string_value(json_object_get(json_array_get(messages, i), "reasoning_content"));
}

static void test_content_and_calls(void **state) {
    (void)state;
    recall *r = recall_new(1 << 16);
    static const char IDS[] = "call_1\0call_2";
    recall_put(r, STR("The answer is 4."), STR(""), STR("two and two"));
    recall_put(r, STR(""), (str){ IDS, sizeof IDS }, STR("look it up"));
    recall_put(r, STR("nothing thought"), STR(""), STR(""));
    json_t *m = parse("[{\"role\": \"user\", \"content\": \"The answer is 4.\"},"
                      " {\"role\": \"assistant\", \"content\": \"The answer is 4.\"},"
                      " {\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": \"The answer is 4.\"}]},"
                      " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"call_2\"}]},"
                      " {\"role\": \"assistant\", \"content\": \"The answer is 5.\"},"
                      " {\"role\": \"assistant\", \"content\": \"The answer is 4.\", \"reasoning\": \"mine\"},"
                      " {\"role\": \"assistant\", \"content\": \"The answer is 4.\", \"reasoning_content\": \"\"},"
                      " {\"role\": \"assistant\", \"content\": \"nothing thought\"},"
                      " {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": \"call_3\"}, {}, 3]},"
                      " 7, {\"role\": 3, \"content\": {}}]");
    assert_int_equal(recall_restore(r, m), 4);
    assert_null(reasoning_of(m, 0));
    assert_string_equal(reasoning_of(m, 1), "two and two");
    assert_string_equal(reasoning_of(m, 2), "two and two");
    assert_string_equal(reasoning_of(m, 3), "look it up");
    assert_null(reasoning_of(m, 4));
    assert_null(reasoning_of(m, 5));
    assert_string_equal(reasoning_of(m, 6), "two and two");
    for (size_t i = 7; i < 11; i++) assert_null(reasoning_of(m, i));
    assert_int_equal(recall_restore(r, m), 0);
    json_decref(m);
    assert_int_equal(recall_restore(r, NULL), 0);
    recall_free(r);
}

/* Arguments in other words get the model's, others stay what the client sent. */
static void test_arguments(void **state) {
    (void)state;
    recall *r = recall_new(1 << 16);
    static const char WRITTEN[] = "{\"path\": \"a\", \"line\": 7, \"x\": 1.50}";
    recall_put_call(r, STR("call_1"), str_of(WRITTEN));
    recall_put_call(r, STR("call_2"), STR(""));
    static const struct {
        const char *role, *id, *sent;
        bool restored;
    } ROWS[] = {
        { "assistant", "call_1", "{\"line\":7,\"x\":1.5,\"path\":\"a\"}", true },
        { "assistant", "call_1", WRITTEN, false },
        { "assistant", "call_1", "{\"line\":8,\"x\":1.5,\"path\":\"a\"}", false },
        { "assistant", "call_1", "{\"line\":7", false },
        { "assistant", "call_2", "{}", false },
        { "assistant", "call_3", "{\"line\":7,\"x\":1.5,\"path\":\"a\"}", false },
        { "user", "call_1", "{\"line\":7,\"x\":1.5,\"path\":\"a\"}", false },
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        json_t *m = json_pack("[{s:s, s:[{s:s, s:{s:s}}, i]}]", "role", ROWS[i].role, "tool_calls", "id", ROWS[i].id,
                              "function", "arguments", ROWS[i].sent, 3);
        assert_non_null(m);
        assert_int_equal(recall_restore(r, m), ROWS[i].restored);
        const json_t *call = json_array_get(json_object_get(json_array_get(m, 0), "tool_calls"), 0);
        const json_t *now = json_object_get(json_object_get(call, "function"), "arguments");
        assert_string_equal(json_string_value(now), ROWS[i].restored ? WRITTEN : ROWS[i].sent);
        json_decref(m);
    }
    recall_free(r);
}

/* The last reasoning behind the same words counts; zero bytes are text. */
static void test_again(void **state) {
    (void)state;
    recall *r = recall_new(1 << 16);
    recall_put(r, STR("yes"), STR(""), STR("first"));
    recall_put(r, STR("yes"), STR(""), (str){ "a\0b", 3 });
    json_t *m = parse("[{\"role\": \"assistant\", \"content\": \"yes\"}]");
    assert_int_equal(recall_restore(r, m), 1);
    const json_t *got = json_object_get(json_array_get(m, 0), "reasoning_content");
    assert_int_equal(json_string_length(got), 3);
    assert_memory_equal(json_string_value(got), "a\0b", 3);
    json_decref(m);
    recall_free(r);
}

/* 5,000 answers in memory for some dozens, or for none: the youngest are known, and what is known is right. */
static void test_bound(void **state) {
    (void)state;
    static const size_t BOUNDS[] = { 4000, 1 << 20, 0 };
    for (size_t b = 0; b < 3; b++) {
        recall *r = recall_new(BOUNDS[b]);
        int known = 0;
        for (int i = 0; i < 5000; i++) {
            char content[40], thought[60];
            snprintf(content, sizeof content, "answer %d", i);
            snprintf(thought, sizeof thought, "thought of %d %.*s", i, i % 30, "..............................");
            recall_put(r, str_of(content), STR(""), str_of(thought));
            assert_true(recall_bytes(r) <= BOUNDS[b]);
        }
        for (int i = 0; i < 5000; i++) {
            char text[80], thought[60];
            snprintf(text, sizeof text, "[{\"role\": \"assistant\", \"content\": \"answer %d\"}]", i);
            snprintf(thought, sizeof thought, "thought of %d %.*s", i, i % 30, "..............................");
            json_t *m = parse(text);
            if (recall_restore(r, m)) {
                known++;
                assert_string_equal(reasoning_of(m, 0), thought);
            } else {
                assert_true(i < 4999 || BOUNDS[b] == 0);
            }
            json_decref(m);
        }
        if (b == 0) assert_in_range(known, 40, 200);
        if (b == 1) assert_int_equal(known, 1024);
        if (b == 2) assert_int_equal(known, 0);
        recall_free(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_content_and_calls), cmocka_unit_test(test_arguments),
                                        cmocka_unit_test(test_again), cmocka_unit_test(test_bound) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
