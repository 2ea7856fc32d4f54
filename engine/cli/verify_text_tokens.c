#include "engine/base/file.h"
#include "engine/cli/verify_text.h"
#include "engine/text/text.h"

#include <stdio.h>

enum { TOKENIZER_BYTES_MAX = 1 << 30 };

/* ---- texts to ids ---- */

static void differ_at(case_file *f, const token_list *got, const json_t *want, size_t at) {
    const json_t *id = json_array_get(want, at);
    char expected[32] = "the end", found[32] = "the end";
    if (id) snprintf(expected, sizeof expected, "%" JSON_INTEGER_FORMAT, json_integer_value(id));
    if (at < got->n) snprintf(found, sizeof found, "%d", got->ids[at]);
    case_differs(f, "ids: at element %zu: expected %s, got %s", at, expected, found);
}

static void check_ids(case_file *f, const token_list *got, const json_t *want) {
    for (size_t i = 0; i < got->n || i < json_array_size(want); i++) {
        const json_t *id = json_array_get(want, i);
        if (i < got->n && json_is_integer(id) && json_integer_value(id) == got->ids[i]) continue;
        differ_at(f, got, want, i);
        return;
    }
}

typedef struct piece_check {
    case_file *f;
    const json_t *want;
    size_t n;
    bool differs; /* what follows a difference says nothing new */
} piece_check;

static void check_piece(void *ctx, str piece) {
    piece_check *c = ctx;
    const json_t *want = json_array_get(c->want, c->n);
    char what[32];
    snprintf(what, sizeof what, "piece %zu", c->n++);
    if (!c->differs && !want) case_differs(c->f, "%s: expected %zu pieces, got more", what, c->n - 1);
    str text = { json_string_value(want), json_string_length(want) };
    c->differs |= !want || (!c->differs && !case_same_text(c->f, what, text, piece));
}

static status check_encode(const text_model *tm, case_file *f, const json_t *row, err *e) {
    str text;
    const json_t *ids;
    piece_check pieces = { .f = f };
    TRY(case_text(row, "text", &text, e));
    TRY(case_list(row, "ids", &ids, e));
    TRY(case_list(row, "pieces", &pieces.want, e));
    TRY(text_split(tm, text, true, check_piece, &pieces, e));
    if (!pieces.differs && pieces.n < json_array_size(pieces.want))
        case_differs(f, "pieces: expected %zu, got %zu", json_array_size(pieces.want), pieces.n);
    token_list got = { 0 };
    status s = text_encode(tm, text, true, &got, e);
    if (s == OK) check_ids(f, &got, ids);
    token_list_free(&got);
    return s;
}

/* ---- ids to text ---- */

typedef struct decode_case {
    const json_t *ids, *stream;
    str text, bytes, flush;
} decode_case;

static status read_decode(const json_t *row, decode_case *c, err *e) {
    TRY(case_list(row, "ids", &c->ids, e));
    TRY(case_list(row, "stream", &c->stream, e));
    TRY(case_text(row, "text", &c->text, e));
    TRY(case_text(row, "bytes", &c->bytes, e));
    return case_text(row, "flush", &c->flush, e);
}

static status check_decode(const text_model *tm, case_file *f, const json_t *row, err *e) {
    decode_case c;
    TRY(read_decode(row, &c, e));
    text_decoder d = { 0 };
    buf hex = { 0 }, all = { 0 };
    for (size_t i = 0; i < json_array_size(c.ids); i++) {
        json_int_t id = json_integer_value(json_array_get(c.ids, i));
        str bytes = id >= 0 && id < text_vocab(tm) ? text_token_bytes(tm, (int32_t)id) : STR("");
        for (size_t b = 0; b < bytes.n; b++) buf_printf(&hex, "%02x", (unsigned char)bytes.p[b]);
        size_t before = all.len;
        text_decoder_push(&d, bytes, &all);
        const json_t *shown = json_array_get(c.stream, i);
        char what[32];
        snprintf(what, sizeof what, "stream %zu", i);
        case_same_text(f, what, (str){ json_string_value(shown), json_string_length(shown) },
                       str_from(buf_view(&all), before));
    }
    size_t before = all.len;
    text_decoder_flush(&d, &all);
    case_same_text(f, "flush", c.flush, str_from(buf_view(&all), before));
    case_same_text(f, "text", c.text, buf_view(&all));
    case_same_text(f, "bytes", c.bytes, buf_view(&hex));
    buf_free(&hex);
    buf_free(&all);
    return OK;
}

static status check_row(void *ctx, case_file *f, const json_t *row, err *e) {
    str kind;
    TRY(case_text(row, "kind", &kind, e));
    if (str_eq(kind, STR("encode"))) return check_encode(ctx, f, row, e);
    if (str_eq(kind, STR("decode"))) return check_decode(ctx, f, row, e);
    return err_set(e, ERR_REQUEST, "member \"kind\": expected \"encode\" or \"decode\"");
}

/* ---- the tokenizer ---- */

static void take_larger(json_int_t *max, const json_t *id) {
    if (json_is_integer(id) && json_integer_value(id) > *max) *max = json_integer_value(id);
}

/* A model says how many ids there are; a tokenizer.json alone has those up to its largest one. */
static status count_ids(str source, int32_t *out, err *e) {
    json_error_t why;
    json_t *file = json_loadb(source.p, source.n, 0, &why), *v;
    if (!file) return err_set(e, ERR_MODEL, "line %d: not valid JSON: %s", why.line, why.text);
    json_int_t max = 0;
    const char *name;
    size_t i;
    json_object_foreach(json_object_get(json_object_get(file, "model"), "vocab"), name, v) take_larger(&max, v);
    json_array_foreach(json_object_get(file, "added_tokens"), i, v) take_larger(&max, json_object_get(v, "id"));
    json_decref(file);
    enum { IDS_MAX = 1 << 24 };
    if (max >= IDS_MAX) return err_set(e, ERR_MODEL, "an id beyond %d", IDS_MAX - 1);
    *out = (int32_t)max + 1;
    return OK;
}

/* Cases have no end tokens: an empty list of them says that none is missing. */
static status open_tokenizer(text_model **out, const char *path, err *e) {
    buf source = { 0 };
    TRY(file_read(&source, path, TOKENIZER_BYTES_MAX, e));
    int32_t vocab = 0;
    status s = count_ids(buf_view(&source), &vocab, e);
    const text_files files = { .tokenizer = buf_view(&source), .generation_config = STR("{\"eos_token_id\": []}") };
    if (s == OK) s = text_model_open(out, &files, vocab, e);
    buf_free(&source);
    return s == OK ? OK : err_wrap(e, "%s", path);
}

status verify_tokenizer_cases(case_file *f, const case_place *at, err *e) {
    buf path = { 0 };
    buf_printf(&path, "%s/tokenizer.json", at->dir);
    text_model *tm;
    status s = open_tokenizer(&tm, buf_cstr(&path), e);
    buf_free(&path);
    TRY(s);
    s = case_file_run(f, at->path, 0, check_row, tm, e);
    text_model_close(tm);
    return s;
}
