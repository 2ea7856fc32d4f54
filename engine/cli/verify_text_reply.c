/* The cases have texts, answers are tokens, and where a text is cut into tokens must not matter. So each case runs
 * twice: as the tokenizer cuts it, and with a token for each byte but for the tags, which only their own token stands
 * for. */
#include "engine/cli/verify_text.h"
#include "engine/core/pair.h"
#include "engine/core/reply.h"

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

static void push(const splitter *sp, reply *r, int32_t id, bool by_byte, reply_text *out) {
    str bytes = text_token_bytes(sp->tm, id);
    if (!by_byte || text_find_token(sp->tm, bytes) == id) {
        reply_push(r, id, out);
        return;
    }
    for (size_t i = 0; i < bytes.n; i++) reply_push(r, sp->byte_ids[(unsigned char)bytes.p[i]], out);
}

static void check_split(const splitter *sp, case_file *f, const token_list *ids, reply_start start, bool by_byte,
                        const json_t *want) {
    reply *r = reply_new(sp->tm, &(reply_options){ .start = start, .ignore_end = true });
    reply_text got = { 0 };
    for (size_t i = 0; i < ids->n; i++) push(sp, r, ids->ids[i], by_byte, &got);
    reply_finish(r, &got);
    case_same_text(f, by_byte ? "reasoning, byte by byte" : "reasoning", case_text_or_empty(want, "reasoning"),
                   buf_view(&got.reasoning));
    case_same_text(f, by_byte ? "content, byte by byte" : "content", case_text_or_empty(want, "content"),
                   buf_view(&got.content));
    reply_free(r);
    buf_free(&got.reasoning);
    buf_free(&got.content);
}

static bool is_about_calls(const json_t *row, str text) {
    const json_t *calls = json_object_get(json_object_get(row, "expected"), "tool_calls");
    return json_array_size(calls) ||
           (json_array_size(json_object_get(row, "tools")) && memmem(text.p, text.n, "<tool_call>", 11));
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
    const json_t *want = json_object_get(row, "expected");
    reply_start start;
    str text;
    TRY(case_text(row, "raw_text", &text, e));
    TRY(read_mode(row, &start, e));
    if (!json_is_object(want)) return err_set(e, ERR_REQUEST, "member \"expected\": expected an object");
    if (is_about_calls(row, text)) {
        case_skip(f, "about tool calls, which are not recognised in answers");
        return OK;
    }
    if (json_object_get(row, "ambiguous")) {
        case_skip(f, "where the rules leave the answer open");
        return OK;
    }
    token_list ids = { 0 };
    status s = text_encode(sp->tm, text, true, &ids, e);
    for (int by_byte = 0; by_byte < 2 && s == OK; by_byte++) check_split(sp, f, &ids, start, by_byte, want);
    token_list_free(&ids);
    return s;
}

/* Tools of the cases have integers that only a double holds; nothing here looks at them. */
status verify_parser_cases(case_file *f, const case_place *at, err *e) {
    pair p;
    TRY(pair_load(&p, at->model, NULL, true, NULL, NULL, e));
    splitter sp = { .tm = p.text };
    find_byte_ids(&sp);
    status s = case_file_run(f, at->path, JSON_DECODE_INT_AS_REAL, check_row, &sp, e);
    pair_close(&p);
    return s;
}
