/* The cases have texts, answers are tokens, and where a text is cut into tokens must not matter. So each case runs
 * twice: as the tokenizer cuts it, and with a token for each byte but for the tags, which only their own token stands
 * for. */
#include "engine/cli/verify_text.h"
#include "engine/core/pair.h"
#include "engine/core/reply.h"
#include "engine/text/answer.h"
#include "engine/text/tools.h"

#include <stdio.h>

typedef struct splitter {
    const text_model *tm;
    int32_t byte_ids[256]; /* tokens of one byte */
} splitter;

static void find_byte_ids(splitter *sp) {
    for (int32_t id = 0; id < text_vocab(sp->tm); id++) {
        str bytes = text_token_bytes(sp->tm, id);
        if (bytes.n == 1) sp->byte_ids[(unsigned char)bytes.p[0]] = id;
    }
}

static void push(const splitter *sp, reply *r, int32_t id, bool by_byte, parts *out) {
    str bytes = text_token_bytes(sp->tm, id);
    if (!by_byte || text_find_token(sp->tm, bytes) == id) {
        reply_push(r, id, out);
        return;
    }
    for (size_t i = 0; i < bytes.n; i++) reply_push(r, sp->byte_ids[(unsigned char)bytes.p[i]], out);
}

/* The answer as it stands when all of it is there. */
static void run_reply(const splitter *sp, const token_list *ids, const reply_options *opt, bool by_byte, bool cut,
                      answer *out) {
    reply *r = reply_new(sp->tm, opt);
    parts got = { 0 };
    for (size_t i = 0; i < ids->n; i++) push(sp, r, ids->ids[i], by_byte, &got);
    reply_finish(r, cut, &got);
    for (size_t i = 0; i < got.n; i++) answer_put(out, got.list[i].kind, parts_text(&got, i), got.list[i].complete);
    reply_free(r);
    parts_free(&got);
}

static json_t *read_arguments(str text) {
    return json_loadb(text.p, text.n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
}

static void check_call(case_file *f, size_t i, const json_t *want, const answer_call *got) {
    str arguments = buf_view(&got->arguments);
    char what[48];
    snprintf(what, sizeof what, "name of call %zu", i);
    case_same_text(f, what, case_text_or_empty(want, "name"), buf_view(&got->name));
    json_t *found = read_arguments(arguments);
    if (!found || !json_equal(found, json_object_get(want, "arguments")))
        case_differs(f, "arguments of call %zu: found %.*s", i, STR_ARG(arguments));
    json_decref(found);
}

static void check_answer(case_file *f, const answer *a, bool by_byte, const json_t *want) {
    const json_t *calls = json_object_get(want, "tool_calls");
    case_same_text(f, by_byte ? "reasoning, byte by byte" : "reasoning", case_text_or_empty(want, "reasoning"),
                   buf_view(&a->reasoning));
    case_same_text(f, by_byte ? "content, byte by byte" : "content", case_text_or_empty(want, "content"),
                   buf_view(&a->content));
    if (a->n_calls != json_array_size(calls))
        case_differs(f, "%zu calls, expected %zu", a->n_calls, json_array_size(calls));
    for (size_t i = 0; i < a->n_calls && i < json_array_size(calls); i++)
        check_call(f, i, json_array_get(calls, i), &a->calls[i]);
}

static bool same_calls(const answer *a, const answer *b) {
    if (a->n_calls != b->n_calls) return false;
    for (size_t i = 0; i < a->n_calls; i++)
        if (!str_eq(buf_view(&a->calls[i].name), buf_view(&b->calls[i].name)) ||
            !str_eq(buf_view(&a->calls[i].arguments), buf_view(&b->calls[i].arguments)))
            return false;
    return true;
}

/* Where the rules leave the answer open: the same however it is cut, and arguments are objects. */
static void check_alike(case_file *f, const answer *a, const answer *b) {
    case_same_text(f, "reasoning, cut otherwise", buf_view(&a->reasoning), buf_view(&b->reasoning));
    case_same_text(f, "content, cut otherwise", buf_view(&a->content), buf_view(&b->content));
    if (!same_calls(a, b)) case_differs(f, "other calls when cut otherwise");
    for (size_t i = 0; i < a->n_calls; i++) {
        json_t *object = read_arguments(buf_view(&a->calls[i].arguments));
        if (!json_is_object(object)) case_differs(f, "arguments of call %zu are no object", i);
        json_decref(object);
    }
}

static void check_reply(const splitter *sp, case_file *f, const token_list *ids, const reply_options *opt,
                        const json_t *row) {
    const json_t *want = json_object_get(row, "expected");
    bool cut = str_eq(case_text_or_empty(row, "finish"), STR("length"));
    answer by_token = { 0 }, by_byte = { 0 };
    run_reply(sp, ids, opt, false, cut, &by_token);
    run_reply(sp, ids, opt, true, cut, &by_byte);
    if (json_object_get(row, "ambiguous")) {
        check_alike(f, &by_token, &by_byte);
    } else {
        check_answer(f, &by_token, false, want);
        check_answer(f, &by_byte, true, want);
    }
    answer_free(&by_token);
    answer_free(&by_byte);
}

static status read_mode(const json_t *row, reply_start *out, err *e) {
    str mode;
    TRY(case_text(row, "mode", &mode, e));
    *out = str_eq(mode, STR("reasoning")) ? REPLY_REASONING : REPLY_CONTENT;
    if (*out == REPLY_REASONING || str_eq(mode, STR("content"))) return OK;
    return err_set(e, ERR_REQUEST, "member \"mode\": expected \"reasoning\" or \"content\"");
}

static status check_row(void *ctx, case_file *f, const json_t *row, err *e) {
    const splitter *sp = ctx;
    const json_t *tools = json_object_get(row, "tools");
    reply_options opt = { .ignore_end = true };
    str text;
    TRY(case_text(row, "raw_text", &text, e));
    TRY(read_mode(row, &opt.start, e));
    if (!json_is_object(json_object_get(row, "expected")))
        return err_set(e, ERR_REQUEST, "member \"expected\": expected an object");
    arena *mem = arena_new();
    token_list ids = { 0 };
    status s = json_is_null(tools) || !tools ? OK : tools_read(mem, tools, &opt.tools, &opt.n_tools, NULL, e);
    if (s == OK) s = text_encode(sp->tm, text, true, &ids, e);
    if (s == OK) check_reply(sp, f, &ids, &opt, row);
    token_list_free(&ids);
    arena_free(mem);
    return s;
}

/* Arguments of the cases have integers that only a double holds. */
status verify_parser_cases(case_file *f, const case_place *at, err *e) {
    pair p;
    TRY(pair_load(&p, at->model, NULL, true, NULL, NULL, e));
    splitter sp = { .tm = p.text };
    find_byte_ids(&sp);
    status s = case_file_run(f, at->path, JSON_DECODE_INT_AS_REAL, check_row, &sp, e);
    pair_close(&p);
    return s;
}
