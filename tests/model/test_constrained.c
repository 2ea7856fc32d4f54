/* Answers that must have a form, on the demo pair, from the request's words to the last token: what ended is valid, and
 * what was cut is the beginning of something valid. Validity is judged by a parser and a check of the schema that know
 * nothing of grammars. The tokens are those of plain steps for rounds of every shape. */
#include "tests/model/engine_fixture.h"

#include "engine/text/chat.h"
#include "tests/model/schema_check.h"
#include "tests/unit/grammar_fixture.h"

#include <math.h>

enum { ANSWER = 260 };

static const char *const SCHEMAS[] = {
    "{\"type\": \"object\", \"required\": [\"name\", \"size\"], \"additionalProperties\": false, \"properties\": {"
    "\"name\": {\"type\": \"string\", \"maxLength\": 12}, \"size\": {\"type\": \"integer\", \"minimum\": 3, "
    "\"maximum\": 40}, "
    "\"kind\": {\"enum\": [\"list\", \"dict\", null]}}}",
    "{\"type\": \"array\", \"minItems\": 2, \"maxItems\": 4, \"items\": {\"type\": \"object\", \"required\": [\"x\"], "
    "\"additionalProperties\": false, \"properties\": {\"x\": {\"type\": \"number\", \"minimum\": -1, \"maximum\": 1}, "
    "\"deep\": {\"type\": \"boolean\"}}}}",
    "{\"enum\": [\"red\", \"green\", 12, {\"a\": [1]}]}",
    "{\"type\": \"string\", \"minLength\": 4, \"maxLength\": 9}",
    "{\"anyOf\": [{\"type\": \"integer\", \"minimum\": 100, \"maximum\": 900}, {\"type\": \"null\"}]}",
};
enum { N_SCHEMAS = sizeof SCHEMAS / sizeof *SCHEMAS };

static const char TOOLS[] = "[{\"type\": \"function\", \"function\": {\"name\": \"list_dir\", \"parameters\": "
                            "{\"type\": \"object\", \"properties\": {"
                            "\"path\": {\"type\": \"string\", \"maxLength\": 16}, \"depth\": {\"type\": \"integer\", "
                            "\"minimum\": 1, \"maximum\": 9}}, "
                            "\"required\": [\"path\", \"depth\"], \"additionalProperties\": false}}}, "
                            "{\"type\": \"function\", \"function\": {\"name\": \"search\", \"parameters\": {\"type\": "
                            "\"object\", \"properties\": {"
                            "\"query\": {\"type\": \"string\", \"maxLength\": 10}, \"kinds\": {\"type\": \"array\", "
                            "\"items\": {\"enum\": [\"py\", \"c\"]}, "
                            "\"maxItems\": 2}}, \"required\": [\"kinds\"], \"additionalProperties\": false}}}]";

static const spec_options WAYS[] = { { SPEC_FIXED, 0, SPEC_DEFAULT, 0 }, { SPEC_FIXED, 1, SPEC_DEFAULT, 0 },
                                     { SPEC_FIXED, 7, SPEC_DEFAULT, 0 }, { SPEC_FIXED, 7, 16, 0 },
                                     { SPEC_FIXED, 15, 31, 0 },          { SPEC_AUTO, SPEC_DEFAULT, SPEC_DEFAULT, 0 } };
enum { N_WAYS = sizeof WAYS / sizeof *WAYS };

static const pick_options PICKS[] = { { .top_p = 1.0f },
                                      { .temperature = 1.0f, .top_p = 1.0f, .seed = 5 },
                                      { .temperature = 0.8f, .top_p = 0.9f, .top_k = 30, .seed = 6, .repeat = 1.2f } };
enum { N_PICKS = sizeof PICKS / sizeof *PICKS };

static json_t *parse(const char *text) {
    json_error_t why;
    json_t *v = json_loads(text, JSON_DECODE_ANY, &why);
    if (!v) fail_msg("%s: %s", text, why.text);
    return v;
}

/* ---- what holds for answers ---- */

static void check_valid(const answer *a, const json_t *schema) {
    json_error_t why;
    json_t *v = json_loadb(a->text.data, a->text.len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &why);
    if (!v) fail_msg("no JSON: %.*s: %s", STR_ARG(buf_view(&a->text)), why.text);
    if (!fits(schema, v)) fail_msg("not valid: %.*s", STR_ARG(buf_view(&a->text)));
    json_decref(v);
}

static void check_beginning(const answer *a, const json_t *schema) {
    grammar *g;
    bool ends;
    MUST(grammar_of_schema(&g, schema, e));
    size_t n = walk_text(g, buf_view(&a->text), &ends);
    if (n != a->text.len) fail_msg("wrong behind %zu bytes: %.*s", n, STR_ARG(buf_view(&a->text)));
    grammar_free(g);
}

static void check_content(const answer *a, const json_t *schema) {
    if (a->why == DONE_END)
        check_valid(a, schema);
    else
        check_beginning(a, schema);
    assert_true(a->why == DONE_END || a->why == DONE_LENGTH);
}

/* Of tool i. */
static const json_t *function_of(const json_t *tools, size_t i) {
    return json_object_get(json_array_get(tools, i), "function");
}

static void check_call(const json_t *tools, str name, const json_t *given, const char *only) {
    const json_t *schema = NULL;
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (str_eq(name, str_of(json_string_value(json_object_get(function_of(tools, i), "name")))))
            schema = json_object_get(function_of(tools, i), "parameters");
    if (!schema || (only && !str_eq(name, str_of(only)))) fail_msg("a call of %.*s", STR_ARG(name));
    if (!fits(schema, given)) fail_msg("arguments of %.*s", STR_ARG(name));
}

static str take_line(str *rest) {
    const char *end = memchr(rest->p, '\n', rest->n);
    str line = { rest->p, end ? (size_t)(end - rest->p) : rest->n };
    *rest = str_from(*rest, end ? line.n + 1 : line.n);
    return line;
}

/* One JSON text off the front. */
static json_t *take_json(str *rest) {
    json_error_t why;
    json_t *v = json_loadb(rest->p, rest->n, JSON_DISABLE_EOF_CHECK, &why);
    if (!v) fail_msg("%.*s: %s", STR_ARG(*rest), why.text);
    *rest = str_from(*rest, (size_t)why.position);
    return v;
}

static void check_calls(const answer *a, const json_t *tools, const char *only) {
    str names = buf_view(&a->names), arguments = buf_view(&a->arguments);
    if (a->why != DONE_LENGTH && !a->complete) fail_msg("no call: %.*s", STR_ARG(buf_view(&a->text)));
    assert_int_equal(a->text.len, 0);
    for (int32_t i = 0; i < a->complete; i++) {
        str name = take_line(&names);
        json_t *given = take_json(&arguments);
        check_call(tools, name, given, only);
        json_decref(given);
    }
}

static void check_same_ids(const answer *got, const answer *want, const char *what, int way) {
    check_same(got, want, what, way);
    if (!str_eq(buf_view(&got->arguments), buf_view(&want->arguments))) fail_msg("%s, way %d: arguments", what, way);
}

/* The answer of plain steps; those of all other ways are the same. To be freed. */
static answer all_ways(world *w, question q, const char *what) {
    q.spec = WAYS[0];
    answer want = get_answer(w->en, &q);
    assert_true(want.totals.mask_ns > 0);
    int32_t accepted = 0;
    for (int i = 1; i < N_WAYS; i++) {
        q.spec = WAYS[i];
        answer got = get_answer(w->en, &q);
        check_same_ids(&got, &want, what, i);
        accepted += got.accepted;
        answer_free(&got);
    }
    if (want.ids.n > 30) assert_true(accepted > 0);
    return want;
}

/* ---- forms ---- */

static void test_schemas(void **state) {
    world *w = *state;
    const token_list *prompts[] = { &w->code, &w->completion };
    int ended = 0;
    for (int i = 0; i < N_SCHEMAS; i++) {
        json_t *schema = parse(SCHEMAS[i]);
        answer_shape shape = { .schema = schema, .schema_at = "schema" };
        for (int p = 0; p < N_PICKS; p++) {
            question q = ask(prompts[(i + p) % 2], ANSWER, 0);
            q.pick = PICKS[p], q.shape = &shape;
            answer a = all_ways(w, q, SCHEMAS[i]);
            check_content(&a, schema);
            ended += a.why == DONE_END;
            answer_free(&a);
        }
        json_decref(schema);
    }
    if (ended < N_SCHEMAS * N_PICKS * 2 / 3) fail_msg("only %d answers have ended", ended);
}

static void test_object(void **state) {
    world *w = *state;
    json_t *schema = parse("{\"type\": \"object\"}");
    answer_shape shape = { .object = true };
    for (int p = 0; p < N_PICKS; p++) {
        question q = ask(&w->code, 120, 0);
        q.pick = PICKS[p], q.shape = &shape;
        answer a = all_ways(w, q, "any object");
        check_content(&a, schema);
        answer_free(&a);
    }
    json_decref(schema);
}

static question ask_tools(const world *w, const answer_shape *shape, reply_tool *declared) {
    static const str PATH[] = { { "path", 4 } }, QUERY[] = { { "query", 5 } };
    declared[0] = (reply_tool){ .name = STR("list_dir"), .texts = PATH, .n_texts = 1 };
    declared[1] = (reply_tool){ .name = STR("search"), .texts = QUERY, .n_texts = 1 };
    question q = ask(&w->tools, ANSWER, 0);
    q.reply.tools = declared, q.reply.n_tools = 2;
    q.shape = shape;
    return q;
}

static void test_calls(void **state) {
    world *w = *state;
    json_t *tools = parse(TOOLS);
    static const char *const ONLY[] = { NULL, "list_dir", "search" };
    int ended = 0;
    for (int i = 0; i < 3; i++) {
        answer_shape shape = { .tools = tools, .must_call = true, .several = true };
        if (ONLY[i]) shape.must_name = str_of(ONLY[i]);
        for (int p = 0; p < N_PICKS; p++) {
            reply_tool declared[2];
            question q = ask_tools(w, &shape, declared);
            q.pick = PICKS[p], q.reply.one_call = ONLY[i] != NULL;
            answer a = all_ways(w, q, ONLY[i] ? ONLY[i] : "any call");
            check_calls(&a, tools, ONLY[i]);
            if (ONLY[i] && a.why != DONE_LENGTH) assert_true(a.why == DONE_CALL && a.complete == 1);
            ended += a.why != DONE_LENGTH;
            answer_free(&a);
        }
    }
    assert_true(ended >= 6);
    json_decref(tools);
}

/* A schema, and tools that may be called: one or the other, whichever the model begins. */
static void test_calls_or_content(void **state) {
    world *w = *state;
    json_t *tools = parse(TOOLS), *schema = parse(SCHEMAS[0]);
    answer_shape shape = { .tools = tools, .schema = schema, .schema_at = "schema", .several = true };
    int32_t called = 0, said = 0;
    for (uint64_t seed = 0; seed < 6; seed++) {
        reply_tool declared[2];
        question q = ask_tools(w, &shape, declared);
        q.pick = (pick_options){ .temperature = 1.5f, .top_p = 1.0f, .seed = seed };
        token_bias away = { text_find_token(engine_get_text(w->en), STR("<tool_call>")), seed % 2 ? -30.0f : 30.0f };
        q.pick.bias = &away, q.pick.n_bias = 1;
        answer a = all_ways(w, q, "calls or content");
        if (a.calls)
            check_calls(&a, tools, NULL);
        else
            check_content(&a, schema);
        called += a.calls > 0, said += a.calls == 0;
        answer_free(&a);
    }
    assert_true(called > 0 && said > 0);
    json_decref(schema);
    json_decref(tools);
}

/* What comes before "</think>" is what a free answer thinks. */
static void test_reasoning(void **state) {
    world *w = *state;
    json_t *schema = parse(SCHEMAS[0]);
    answer_shape shape = { .schema = schema, .schema_at = "schema" };
    question q = ask(&w->thinking, ANSWER, 0);
    q.reply.start = chat_start(engine_get_text(w->en), q.tokens, q.n);
    assert_int_equal(q.reply.start, REPLY_REASONING);
    answer free_of = get_answer(w->en, &q);
    assert_true(free_of.reasoning.len > 0 && free_of.text.len > 0);
    q.shape = &shape;
    answer a = all_ways(w, q, "reasoning first");
    assert_true(str_eq(buf_view(&a.reasoning), buf_view(&free_of.reasoning)));
    assert_int_equal(a.why, DONE_END);
    check_valid(&a, schema);
    answer_free(&a);
    answer_free(&free_of);
    json_decref(schema);
}

/* A budget closes the reasoning with "</think>" behind so many tokens, which are those of a free answer; what follows
 * is free, and may be constrained as well. */
static void test_budget(void **state) {
    world *w = *state;
    json_t *schema = parse(SCHEMAS[0]);
    answer_shape shape = { .schema = schema, .schema_at = "schema" };
    int32_t close = text_find_token(engine_get_text(w->en), STR("</think>"));
    question q = ask(&w->thinking, ANSWER, 0);
    q.reply.start = chat_start(engine_get_text(w->en), q.tokens, q.n);
    answer free_of = get_answer(w->en, &q);
    q.thinks_at_most = true;
    assert_true(free_of.totals.reasoning > 6);
    for (int32_t most = 0; most <= 5; most += 5) {
        for (int constrained = 0; constrained < 2; constrained++) {
            q.thinking_max = most, q.shape = constrained ? &shape : NULL;
            answer a = all_ways(w, q, constrained ? "budget and schema" : "budget");
            assert_int_equal(a.ids.ids[most], close);
            assert_memory_equal(a.ids.ids, free_of.ids.ids, (size_t)most * sizeof *a.ids.ids);
            assert_int_equal(a.totals.reasoning, most + 1);
            if (constrained) check_valid(&a, schema);
            answer_free(&a);
        }
    }
    q.shape = NULL, q.thinking_max = 1000, q.max_new = 8; /* two of eight tokens stay for the answer */
    answer cut = get_answer(w->en, &q);
    assert_int_equal(cut.ids.ids[6], close);
    answer_free(&cut);
    answer_free(&free_of);
    json_decref(schema);
}

/* ---- limits ---- */

static void test_cut(void **state) {
    world *w = *state;
    json_t *schema = parse(SCHEMAS[0]);
    answer_shape shape = { .schema = schema, .schema_at = "schema" };
    question q = ask(&w->code, ANSWER, 7);
    q.shape = &shape;
    answer whole = get_answer(w->en, &q);
    assert_int_equal(whole.why, DONE_END);
    for (size_t n = 1; n < whole.ids.n; n += 1 + n / 4) {
        q.max_new = (int32_t)n;
        answer a = get_answer(w->en, &q);
        assert_true(a.why == DONE_LENGTH && a.ids.n == n);
        assert_memory_equal(a.ids.ids, whole.ids.ids, n * sizeof *a.ids.ids);
        check_beginning(&a, schema);
        answer_free(&a);
    }
    answer_free(&whole);
    json_decref(schema);
}

/* A complete text that nothing may follow ends, whatever is said about end tokens; one that may go on goes on. */
static void test_ends(void **state) {
    world *w = *state;
    json_t *object = parse(SCHEMAS[0]), *number = parse("{\"type\": \"integer\"}");
    answer_shape closed = { .schema = object, .schema_at = "schema" },
                 open = { .schema = number, .schema_at = "schema" };
    question q = ask(&w->code, ANSWER, 7);
    q.shape = &closed;
    answer want = get_answer(w->en, &q);
    for (int ignore = 0; ignore < 2; ignore++) {
        q.pick.min_new = ignore ? 0 : ANSWER, q.reply.ignore_end = ignore;
        answer a = all_ways(w, q, "an object and no end");
        check_same_ids(&a, &want, "an object and no end", ignore);
        assert_true(a.why == DONE_END && a.totals.end_token >= 0);
        answer_free(&a);
    }
    answer_free(&want);
    q.shape = &open, q.reply.ignore_end = false, q.pick.min_new = 0;
    want = get_answer(w->en, &q);
    size_t n = want.ids.n;
    q.pick.min_new = (int32_t)n - 1; /* as many stand in front of its end token */
    answer same = all_ways(w, q, "a number that is long enough");
    check_same_ids(&same, &want, "a number that is long enough", 0);
    answer_free(&same);
    answer_free(&want);
    q.pick.min_new = (int32_t)n + 2;
    want = all_ways(w, q, "a longer number");
    assert_true(want.ids.n > n + 2 || want.text.len >= 18);
    check_content(&want, number);
    answer_free(&want);
    q.pick.min_new = 0, q.reply.ignore_end = true;
    want = all_ways(w, q, "the longest number");
    assert_true(want.why == DONE_END && want.text.len >= 18);
    check_valid(&want, number);
    answer_free(&want);
    json_decref(number);
    json_decref(object);
}

/* Biases order what is allowed and make nothing allowed; those that forbid everything that is allowed do not. */
static void test_bias(void **state) {
    world *w = *state;
    const text_model *tm = engine_get_text(w->en);
    json_t *schema = parse("{\"enum\": [\"red\", \"green\"]}");
    answer_shape shape = { .schema = schema, .schema_at = "schema" };
    static token_bias bias[BIAS_MAX];
    static const float VALUES[] = { -100.0f, 100.0f, -INFINITY };
    question q = ask(&w->code, ANSWER, 7);
    q.shape = &shape, q.pick.bias = bias;
    for (int v = 0; v < 3; v++) {
        q.pick.n_bias = 0;
        for (int32_t t = 0; t < text_vocab(tm) && q.pick.n_bias < BIAS_MAX; t++) {
            str s = text_token_bytes(tm, t);
            bool wanted = text_is_end(tm, t) || (s.n && memchr("\"redgn", s.p[0], 6));
            if (wanted == (v != 1)) bias[q.pick.n_bias++] = (token_bias){ t, VALUES[v] };
        }
        answer a = all_ways(w, q, "biases");
        assert_int_equal(a.why, DONE_END);
        check_valid(&a, schema);
        answer_free(&a);
    }
    json_decref(schema);
}

/* A stop string is one inside of JSON too: the text in front of it stays. */
static void test_stop(void **state) {
    world *w = *state;
    json_t *schema = parse(SCHEMAS[0]);
    answer_shape shape = { .schema = schema, .schema_at = "schema" };
    static const str STOP = { "size", 4 };
    question q = ask(&w->code, ANSWER, 7);
    q.shape = &shape, q.reply.stop = &STOP, q.reply.n_stop = 1;
    answer a = all_ways(w, q, "a stop string");
    assert_int_equal(a.why, DONE_STOP);
    assert_null(memmem(a.text.data, a.text.len, "size", 4));
    check_beginning(&a, schema);
    answer_free(&a);
    json_decref(schema);
}

/* Log-probabilities are those of the model, which knows no masks. */
static void test_logprobs(void **state) {
    world *w = *state;
    json_t *schema = parse(SCHEMAS[0]);
    answer_shape shape = { .schema = schema, .schema_at = "schema" };
    question q = ask(&w->code, ANSWER, 0);
    q.logprobs = 3;
    answer free_of = get_answer(w->en, &q);
    q.shape = &shape;
    answer plain = all_ways(w, q, "log-probabilities"), got;
    q.spec = WAYS[3];
    got = get_answer(w->en, &q);
    assert_int_equal(got.logprobs.len, plain.logprobs.len);
    assert_memory_equal(got.logprobs.data, plain.logprobs.data, plain.logprobs.len);
    const token_logprobs *first = (const void *)plain.logprobs.data, *own = (const void *)free_of.logprobs.data;
    assert_true(plain.ids.ids[0] != free_of.ids.ids[0]);
    for (int32_t i = 0; i < 3; i++)
        assert_true(first->top[i].token == own->top[i].token && first->top[i].logprob == own->top[i].logprob);
    assert_true(isfinite(first->logprob) && first->logprob <= own->logprob);
    answer_free(&got);
    answer_free(&plain);
    answer_free(&free_of);
    json_decref(schema);
}

/* Behind a constrained answer the next one is free. */
static void test_next(void **state) {
    world *w = *state;
    answer_shape shape = { .object = true };
    question q = ask(&w->code, 40, 7);
    answer want = get_answer(w->en, &q);
    assert_int_equal(want.totals.mask_ns, 0);
    q.shape = &shape;
    answer other = get_answer(w->en, &q);
    q.shape = NULL;
    answer got = get_answer(w->en, &q);
    check_same(&got, &want, "behind a constrained one", 7);
    answer_free(&want);
    answer_free(&other);
    answer_free(&got);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schemas),   cmocka_unit_test(test_object),
        cmocka_unit_test(test_calls),     cmocka_unit_test(test_calls_or_content),
        cmocka_unit_test(test_reasoning), cmocka_unit_test(test_budget),
        cmocka_unit_test(test_cut),       cmocka_unit_test(test_ends),
        cmocka_unit_test(test_bias),      cmocka_unit_test(test_stop),
        cmocka_unit_test(test_logprobs),  cmocka_unit_test(test_next),
    };
    return cmocka_run_group_tests(tests, engine_setup, engine_teardown);
}
