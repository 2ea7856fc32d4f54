/* engine/core/constraint: masks behind the nodes of a tree, each by its own path, with the demo model's tokens. */
#include "tests/unit/grammar_fixture.h"

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/core/constraint.h"
#include "engine/text/call_form.h"
#include "engine/text/tool_grammar.h"

#include <math.h>
#include <stdlib.h>

typedef struct world {
    buf tokenizer, generation;
    text_model *tm;
    token_trie *trie;
    int32_t vocab, end, close, open;
} world;

enum { WORDS_MAX = 4096 / 32, ROWS = 6 };

/* Token of a text that is one. */
static int32_t token(const world *w, const char *text) {
    token_list ids = { 0 };
    assert_int_equal(text_encode(w->tm, str_of(text), true, &ids, NULL), OK);
    if (ids.n != 1) fail_msg("%s is %zu tokens", text, ids.n);
    int32_t id = ids.ids[0];
    token_list_free(&ids);
    return id;
}

typedef struct tree {
    step_out out;
    uint32_t bits[ROWS][WORDS_MAX];
    int32_t rows;
} tree;

static int32_t add(tree *t, int32_t parent, int32_t id) {
    t->out.proposal[t->rows - 1] = id;
    t->out.note[t->rows].parent = (int16_t)parent;
    return t->rows++;
}

static void fill(tree *t, constraint *c) {
    constraint_fill(c, t->rows > 1 ? &t->out : NULL, t->rows, t->bits[0], WORDS_MAX);
}

static bool can(const tree *t, int32_t row, int32_t id) { return t->bits[row][id / 32] >> id % 32 & 1; }

static int32_t count(const tree *t, int32_t row) {
    int32_t n = 0;
    for (int i = 0; i < WORDS_MAX; i++) n += __builtin_popcount(t->bits[row][i]);
    return n;
}

/* A number of at most three digits: every path has its own end, and its own count of tokens. */
static void test_paths(void **state) {
    const world *w = *state;
    grammar *g = schema_grammar("{\"type\": \"integer\", \"minimum\": 0, \"maximum\": 999}");
    gen_request rq = { .grammar = g, .pick = { .min_new = 2 } };
    constraint *c = constraint_new(w->trie, w->tm, &rq);
    tree t = { .rows = 1 };
    int32_t one = token(w, "1"), a = add(&t, 0, one), b = add(&t, a, one), d = add(&t, 0, one),
            dead = add(&t, 0, token(w, "{")), full = add(&t, b, one);
    fill(&t, c);
    assert_true(can(&t, 0, one) && !can(&t, 0, w->end) && !can(&t, 0, token(w, "{")));
    assert_true(can(&t, a, one) && !can(&t, a, w->end));
    assert_true(can(&t, b, one) && can(&t, b, w->end));
    assert_true(can(&t, d, one) && !can(&t, d, w->end)); /* the third node, but one token behind the anchor */
    assert_int_equal(count(&t, dead), 0);
    assert_true(can(&t, full, w->end) && !can(&t, full, one));
    assert_false(constraint_is_complete(c));
    constraint_emitted(c, (int32_t[]){ one, one }, 2);
    assert_true(constraint_is_complete(c));
    t.rows = 1;
    fill(&t, c);
    assert_true(can(&t, 0, one) && can(&t, 0, w->end));
    constraint_free(c);
    grammar_free(g);
}

/* Rules that would leave nothing do not count. */
static void test_nothing_left(void **state) {
    const world *w = *state;
    grammar *g = schema_grammar("{\"enum\": [1, 2]}");
    token_bias bias[] = { { token(w, "1"), -INFINITY }, { token(w, "2"), -100.0f } };
    gen_request rq = { .grammar = g, .pick = { .bias = bias, .n_bias = 2 }, .reply = { .ignore_end = true } };
    constraint *c = constraint_new(w->trie, w->tm, &rq);
    tree t = { .rows = 1 };
    int32_t two = add(&t, 0, token(w, "2"));
    fill(&t, c);
    assert_true(!can(&t, 0, bias[0].token) && can(&t, 0, bias[1].token));
    assert_true(count(&t, 0) == 1 && can(&t, two, w->end));
    constraint_free(c);
    bias[1].bias = -INFINITY;
    c = constraint_new(w->trie, w->tm, &rq);
    fill(&t, c);
    assert_true(can(&t, 0, bias[0].token) && can(&t, 0, bias[1].token) && count(&t, 0) == 2);
    constraint_free(c);
    grammar_free(g);
}

/* Reasoning is free but for ends; the answer begins behind its tag, in the same tree too. */
static void test_reasoning(void **state) {
    const world *w = *state;
    grammar *g = schema_grammar("{\"enum\": [1]}");
    gen_request rq = { .grammar = g, .thinks = true };
    constraint *c = constraint_new(w->trie, w->tm, &rq);
    tree t = { .rows = 1 };
    int32_t one = token(w, "1"), thought = add(&t, 0, one), closed = add(&t, thought, w->close),
            done = add(&t, closed, one), called = add(&t, 0, w->open);
    fill(&t, c);
    assert_true(can(&t, thought, one) && can(&t, thought, w->close) && !can(&t, thought, w->end));
    assert_true(count(&t, closed) == 1 && can(&t, closed, one));
    assert_true(can(&t, done, w->end) && !can(&t, done, one));
    assert_memory_equal(t.bits[called], t.bits[0], sizeof t.bits[0]); /* no tools: a word like any other */
    constraint_emitted(c, (int32_t[]){ one, w->close, one }, 3);
    assert_true(constraint_is_complete(c));
    constraint_free(c);
    grammar_free(g);
}

/* The first token says which of two grammars it is; a call may also begin in the reasoning. */
static void test_two(void **state) {
    const world *w = *state;
    grammar *content = schema_grammar("{\"enum\": [1]}"), *calls;
    tool_choice tool = { STR("f"), NULL };
    assert_int_equal(grammar_of_tools(&calls,
                                      &(tool_calls){
                                          .tools = &tool, .n = 1, .open = w->open, .close = token(w, "</tool_call>") },
                                      NULL),
                     OK);
    for (int thinks = 0; thinks < 2; thinks++) {
        gen_request rq = { .grammar = content, .calls = calls, .thinks = thinks };
        constraint *c = constraint_new(w->trie, w->tm, &rq);
        tree t = { .rows = 1 };
        int32_t one = token(w, "1"), begun = thinks ? add(&t, 0, w->close) : 0, said = add(&t, begun, one),
                called = add(&t, begun, w->open), early = add(&t, 0, w->open);
        fill(&t, c);
        assert_true(count(&t, begun) == 2 && can(&t, begun, one) && can(&t, begun, w->open));
        assert_true(can(&t, said, w->end) && count(&t, called) == 1 && can(&t, called, token(w, "f")));
        assert_memory_equal(t.bits[early], t.bits[called], sizeof t.bits[0]);
        constraint_free(c);
    }
    grammar_free(calls);
    grammar_free(content);
}

/* How calls are written stands in the template. */
static void test_form(void **state) {
    world *w = *state;
    static const struct {
        const char *path;
        bool lines;
    } CASES[] = { { "tests/golden/template/v5.jinja", true },
                  { "tests/golden/template/v8.jinja", false },
                  { "target/demo/chat_template.jinja", false } };
    call_form form;
    err e;
    for (int i = 0; i < 3; i++) {
        buf tmpl = { 0 };
        text_model *tm;
        assert_int_equal(file_read(&tmpl, CASES[i].path, 1 << 20, NULL), OK);
        text_files f = { .tokenizer = buf_view(&w->tokenizer),
                         .generation_config = buf_view(&w->generation),
                         .chat_template = buf_view(&tmpl) };
        assert_int_equal(text_model_open(&tm, &f, w->vocab, NULL), OK);
        if (call_form_of(tm, &form, &e) != OK) fail_msg("%s: %s", CASES[i].path, e.text);
        assert_true(form.lines == CASES[i].lines && form.open == w->open && form.close == token(w, "</tool_call>"));
        text_model_close(tm);
        f.chat_template = STR("{{ messages[0].content }}");
        assert_int_equal(text_model_open(&tm, &f, w->vocab, NULL), OK);
        assert_int_equal(call_form_of(tm, &form, &e), ERR_UNSUPPORTED);
        text_model_close(tm);
        buf_free(&tmpl);
    }
}

static int setup(void **state) {
    world *w = xalloc(sizeof *w);
    w->vocab = 4096;
    if (file_read(&w->tokenizer, "target/demo/tokenizer.json", 1 << 24, NULL) != OK) return 1;
    if (file_read(&w->generation, "target/demo/generation_config.json", 1 << 24, NULL) != OK) return 1;
    text_files f = { .tokenizer = buf_view(&w->tokenizer), .generation_config = buf_view(&w->generation) };
    if (text_model_open(&w->tm, &f, w->vocab, NULL) != OK) return 1;
    w->trie = token_trie_of_model(w->tm);
    w->end = token(w, "</assistant>");
    w->close = token(w, "</think>"), w->open = token(w, "<tool_call>");
    *state = w;
    return text_is_end(w->tm, w->end) ? 0 : 1;
}

static int teardown(void **state) {
    world *w = *state;
    token_trie_free(w->trie);
    text_model_close(w->tm);
    buf_free(&w->tokenizer);
    buf_free(&w->generation);
    free(w);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_paths), cmocka_unit_test(test_nothing_left),
                                        cmocka_unit_test(test_reasoning), cmocka_unit_test(test_two),
                                        cmocka_unit_test(test_form) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
