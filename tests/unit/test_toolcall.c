/* engine/text/toolcall: every answer of the golden cases and of the stream cases, cut in every way, gives the same
 * parts; cut off anywhere, arguments are an object; time grows as the answer does. */
#include "tests/unit/json_fixture.h"

#include "engine/text/toolcall.h"
#include "engine/text/tools.h"

#include <string.h>
#include <time.h>

#define OPEN STR("<tool_call>")
#define CLOSE STR("</tool_call>")

/* ---- feeding ---- */

/* Text goes in pieces of at most `most` bytes, and with a border at `cut`; never inside of a character. */
typedef struct feeder {
    toolcall *t;
    parts out;
    size_t at, most, cut;
} feeder;

static void feed_text(feeder *f, str text) {
    if (!text.n) return;
    if (!toolcall_is_open(f->t)) {
        toolcall_content(f->t, text, &f->out);
        return;
    }
    buf back = { 0 };
    if (!toolcall_text(f->t, text, &f->out, &back)) toolcall_content(f->t, buf_view(&back), &f->out);
    buf_free(&back);
}

static void feed_run(feeder *f, str run) {
    size_t from = 0;
    for (size_t i = 1; i <= run.n; i++) {
        if (i < run.n && ((unsigned char)run.p[i] & 0xC0) == 0x80) continue;
        if (i < run.n && i - from < f->most && f->at + i != f->cut) continue;
        feed_text(f, (str){ run.p + from, i - from });
        from = i;
    }
    f->at += run.n;
}

/* Tags of calls are tokens: where they do not count, they are text. */
static void feed(feeder *f, str script) {
    for (size_t i = 0, from = 0; i <= script.n; i++) {
        str rest = str_from(script, i);
        bool open = str_starts(rest, OPEN), close = str_starts(rest, CLOSE);
        if (rest.n && !open && !close) continue;
        feed_run(f, (str){ script.p + from, i - from });
        if (!rest.n) return;
        str tag = open ? OPEN : CLOSE;
        bool counts = open != toolcall_is_open(f->t);
        if (!counts)
            feed_text(f, tag);
        else if (open)
            toolcall_open(f->t);
        else
            toolcall_close(f->t, &f->out);
        f->at += tag.n;
        i += tag.n - 1;
        from = i + 1;
    }
}

typedef struct tools {
    const reply_tool *list;
    size_t n;
} tools;

static parts run(tools ts, str script, size_t most, size_t cut, bool cut_off) {
    feeder f = { .t = toolcall_new(ts.list, ts.n), .most = most, .cut = cut };
    feed(&f, script);
    toolcall_finish(f.t, cut_off, &f.out);
    toolcall_free(f.t);
    return f.out;
}

static bool same_parts(const parts *a, const parts *b) {
    if (a->n != b->n || !str_eq(buf_view(&a->bytes), buf_view(&b->bytes))) return false;
    for (size_t i = 0; i < a->n; i++)
        if (a->list[i].kind != b->list[i].kind || a->list[i].at != b->list[i].at ||
            a->list[i].complete != b->list[i].complete)
            return false;
    return true;
}

/* ---- checks ---- */

static void check_splits(tools ts, str script, const char *name) {
    parts whole = run(ts, script, SIZE_MAX, SIZE_MAX, false);
    for (size_t k = 1; k < 8 + script.n; k++) {
        /* pieces of one to seven bytes, then two pieces */
        parts got = k < 8 ? run(ts, script, k, SIZE_MAX, false) : run(ts, script, SIZE_MAX, k - 7, false);
        if (!same_parts(&whole, &got)) fail_msg("%s: %s %zu: other parts", name, k < 8 ? "pieces of" : "cut at", k);
        parts_free(&got);
    }
    parts_free(&whole);
}

/* Every call that was told has an object and one end. */
static void check_objects(const parts *p, const char *name, size_t cut) {
    buf arguments = { 0 };
    bool open = false;
    for (size_t i = 0; i < p->n; i++) {
        str text = parts_text(p, i);
        switch (p->list[i].kind) {
        case GEN_CALL:
            assert_false(open);
            open = true;
            buf_clear(&arguments);
            break;
        case GEN_ARGUMENTS:
            assert_true(open);
            buf_str(&arguments, text);
            break;
        case GEN_CALL_END: {
            json_error_t why;
            json_t *v = json_loadb(arguments.data, arguments.len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
            if (!json_is_object(v)) fail_msg("%s, %zu bytes: %s", name, cut, buf_cstr(&arguments));
            json_decref(v);
            open = false;
            break;
        }
        default: break;
        }
    }
    assert_false(open);
    buf_free(&arguments);
}

static void check_cuts(tools ts, str script, const char *name) {
    for (size_t n = 0; n <= script.n; n++) {
        if (n < script.n && ((unsigned char)script.p[n] & 0xC0) == 0x80) continue;
        for (int cut_off = 0; cut_off < 2; cut_off++) {
            parts got = run(ts, (str){ script.p, n }, SIZE_MAX, SIZE_MAX, cut_off);
            check_objects(&got, name, n);
            parts_free(&got);
        }
    }
}

static void check_script(const json_t *list, str script, const char *name) {
    arena *mem = arena_new();
    tools ts = { 0 };
    err e;
    if (tools_read(mem, list, &ts.list, &ts.n, NULL, &e) != OK) fail_msg("%s: %s", name, e.text);
    check_splits(ts, script, name);
    check_cuts(ts, script, name);
    arena_free(mem);
}

/* ---- answers of the cases ---- */

static void test_golden_cases(void **state) {
    (void)state;
    buf file = fixture_read("tests/golden/parser_cases.jsonl");
    size_t n = 0;
    for (size_t at = 0, end; at < file.len; at = end + 1) {
        const char *stop = memchr(file.data + at, '\n', file.len - at);
        end = stop ? (size_t)(stop - file.data) : file.len;
        json_t *row = json_loadb(file.data + at, end - at, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
        if (json_array_size(json_object_get(row, "tools"))) {
            check_script(json_object_get(row, "tools"), fixture_str(row, "raw_text"), fixture_str(row, "name").p);
            n++;
        }
        json_decref(row);
    }
    buf_free(&file);
    assert_true(n >= 100);
}

static void test_stream_cases(void **state) {
    (void)state;
    static const char *const files[] = { "C06-untagged-json",         "C07-no-argument-call",  "C08-argument-types",
                                         "C09-call-in-open-thinking", "C10-four-combinations", "C13-call-deltas" };
    json_t *fixture = fixture_json("tests/cases/fixtures/tools.json");
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char path[80];
        snprintf(path, sizeof path, "tests/cases/streams/%s.json", files[f]);
        json_t *file = fixture_json(path), *item, *step, *token;
        size_t i, k, j;
        json_array_foreach(json_object_get(file, "items"), i, item) {
            const json_t *list = json_object_get(item, "tools");
            buf script = { 0 };
            json_array_foreach(json_object_get(item, "steps"), k, step) json_array_foreach(step, j, token)
                buf_str(&script, str_of(json_string_value(token)));
            if (json_is_string(list)) list = json_object_get(fixture, "tools");
            if (json_is_array(list)) check_script(list, buf_view(&script), fixture_str(item, "name").p);
            buf_free(&script);
        }
        json_decref(file);
    }
    json_decref(fixture);
}

/* ---- answers by chance ---- */

static void test_any_answer(void **state) {
    (void)state;
    static const char *const pieces[] = { "<tool_call>",
                                          "<tool_call>f",
                                          "<tool_call>f\n",
                                          "</tool_call>",
                                          "<arg_key>",
                                          "</arg_key>",
                                          "<arg_value>",
                                          "</arg_value>",
                                          "<arg_",
                                          "</arg_",
                                          "<",
                                          ">",
                                          "\n",
                                          " ",
                                          "text",
                                          "any",
                                          "1",
                                          "[1, ",
                                          "{'a': ",
                                          "]",
                                          "\"",
                                          "\\",
                                          "\xC3\xA9",
                                          "</think>" };
    json_t *list = json_pack("[{s{ss,s{s{s{ss}}}}}]", "function", "name", "f", "parameters", "properties", "text",
                             "type", "string");
    uint64_t x = 42;
    for (int round = 0; round < 400; round++) {
        char name[32];
        buf script = { 0 };
        for (int n = 0; n < 14; n++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            buf_str(&script, str_of(pieces[(x >> 33) % (sizeof pieces / sizeof *pieces)]));
        }
        snprintf(name, sizeof name, "round %d", round);
        check_script(list, buf_view(&script), name);
        buf_free(&script);
    }
    json_decref(list);
}

/* ---- hostile answers ---- */

static const str TEXTS[] = { { "text", 4 } };
static const reply_tool TOOL = { .name = { "f", 1 }, .texts = TEXTS, .n_texts = 1 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct hostile {
    const char *head, *unit, *tail;
    size_t times, most;
} hostile;

static double time_of(const hostile *h, size_t times) {
    buf script = { 0 };
    buf_str(&script, str_of(h->head));
    for (size_t i = 0; i < times; i++) {
        const char *number = strchr(h->unit, '#'); /* stands for the number of the unit */
        if (number)
            buf_printf(&script, "%.*s%zu%s", (int)(number - h->unit), h->unit, i, number + 1);
        else
            buf_str(&script, str_of(h->unit));
    }
    buf_str(&script, str_of(h->tail));
    double best = 1e9;
    for (int i = 0; i < 3; i++) {
        double from = seconds();
        parts got = run((tools){ &TOOL, 1 }, buf_view(&script), h->most, SIZE_MAX, false);
        double took = seconds() - from;
        if (took < best) best = took;
        if (i == 0 && h->most > 1) check_objects(&got, h->unit, script.len);
        parts_free(&got);
    }
    buf_free(&script);
    return best;
}

#define KEY(k) "<arg_key>" k "</arg_key>"
#define CALL "<tool_call>f" KEY("any") "<arg_value>"
#define TEXT_CALL "<tool_call>f" KEY("text") "<arg_value>"
#define END "</arg_value></tool_call>"

/* Four times as much takes four times as long, give or take what else the machine does; quadratic work takes sixteen
 * times as long. */
static void test_time_is_linear(void **state) {
    (void)state;
    static const hostile rows[] = {
        { TEXT_CALL, "x", END, 1 << 20, 4 },
        { TEXT_CALL, "<", END, 1 << 20, 1 },
        { TEXT_CALL, "</arg_valu", END, 1 << 17, 3 },
        { TEXT_CALL, "\"\\\n", END, 1 << 18, 4 },
        { CALL, "[", END, 100000, 4 },
        { CALL, "[", "", 100000, 4 },
        { CALL "[", "[],", "]" END, 1 << 17, 4 },
        { CALL "{", "\"#\":1,", "}" END, 1 << 15, 4 },
        { CALL, "(", END, 100000, 4 },
        { CALL "[", "'\\x41', ", "]" END, 1 << 16, 4 },
        { CALL "{", "#: None, ", "}" END, 1 << 15, 4 },
        { CALL, "1", END, 1 << 19, 4 },
        { CALL, "1_", "1" END, 1 << 18, 4 },
        { CALL "1.", "1", END, 1 << 19, 4 },
        { CALL, "\\", END, 1 << 19, 4 },
        { CALL "'", "\\", END, 1 << 19, 4 },
        { CALL, " ", END, 1 << 19, 4 },
        { "<tool_call>f", KEY("k#") "<arg_value></arg_value>", "</tool_call>", 1 << 14, 4 },
        { "<tool_call>f", KEY("k") "<arg_value></arg_value>", "</tool_call>", 1 << 14, 4 },
        { "<tool_call>f", KEY("k"), "</tool_call>", 1 << 15, 4 },
        { "<tool_call>f\n", "<arg_key", "</tool_call>", 1 << 16, 4 },
        { "<tool_call>f<arg_key>", "</arg_ke", "</tool_call>", 1 << 16, 4 },
        { "", "<tool_call>f</tool_call>", "", 1 << 14, 4 },
        { "", "<tool_call>x", "", 1 << 15, 4 },
        { "", "<tool_call><</tool_call> ", "", 1 << 15, 4 },
        { "", "<tool_call><</tool_call> ", "<tool_call>f</tool_call>", 1 << 15, 4 },
        { "", " \n", "a", 1 << 19, 4 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double once = time_of(&rows[i], rows[i].times / 4), more = time_of(&rows[i], rows[i].times);
        if (more > 10 * once + 0.02)
            fail_msg("row %zu (%s): %.1f ms, four times as much: %.1f ms", i, rows[i].unit, once * 1e3, more * 1e3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_cases),
        cmocka_unit_test(test_stream_cases),
        cmocka_unit_test(test_any_answer),
        cmocka_unit_test(test_time_is_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
