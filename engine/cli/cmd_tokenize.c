/* skiff tokenize and skiff detokenize: text to ids and back, for looking at prompts and answers. */
#include "engine/cli/cmd.h"
#include "engine/cli/id_list.h"
#include "engine/cli/input.h"
#include "engine/core/pair.h"

/* Of both commands; `plain` is tokenize's alone. */
typedef struct tokenize_opts {
    const char *model;
    bool json, plain;
} tokenize_opts;

#define MODEL_ROW                                                                                                      \
    {                                                                                                                  \
        "model", .brief = "m", .aliases = "model-path", .value = "DIR", OPT_TEXT_AT(tokenize_opts, model),             \
                 .help = "model folder; without it the built-in demo pair"                                             \
    }

static const opt TOKENIZE_LIST[] = {
    MODEL_ROW,
    { "json", OPT_SET_AT(tokenize_opts, json), .help = "a JSON array of {id, text}" },
    { "no-control", OPT_SET_AT(tokenize_opts, plain), .help = "control tokens in the text are ordinary characters" },
};

static const opts TOKENIZE = {
    .command = "skiff tokenize",
    .about = "Prints the token ids of a text, one a line with its bytes. The text is the argument, or standard input.",
    .rest = "[TEXT|-]",
    .rest_max = 1,
    .list = TOKENIZE_LIST,
    .n = sizeof TOKENIZE_LIST / sizeof *TOKENIZE_LIST,
    .bytes = sizeof(tokenize_opts),
};

static const opt DETOKENIZE_LIST[] = {
    MODEL_ROW,
    { "json", OPT_SET_AT(tokenize_opts, json), .help = "one JSON object {text, tokens}, tokens as in tokenize --json" },
};

static const opts DETOKENIZE = {
    .command = "skiff detokenize",
    .about = "Prints the text of token ids, and nothing else. The ids are the arguments or standard input: numbers "
             "between spaces, commas or line ends, a JSON array of numbers, or what tokenize --json prints. Control "
             "tokens appear as they are spelled; bytes that are no character become U+FFFD, as in a streamed answer.",
    .rest = "[IDS...|-]",
    .rest_max = SIZE_MAX,
    .list = DETOKENIZE_LIST,
    .n = sizeof DETOKENIZE_LIST / sizeof *DETOKENIZE_LIST,
    .bytes = sizeof(tokenize_opts),
};

static void put_json_tokens(const text_model *tm, const token_list *ids, buf *out) {
    buf_byte(out, '[');
    for (size_t i = 0; i < ids->n; i++) {
        buf_printf(out, "%s{\"id\":%d,\"text\":", i ? "," : "", ids->ids[i]);
        buf_json_str(out, text_token_bytes(tm, ids->ids[i]));
        buf_byte(out, '}');
    }
    buf_byte(out, ']');
}

static status tokenize(const text_model *tm, const tokenize_opts *o, str text, buf *out, err *e) {
    token_list ids = { 0 };
    status s = text_encode(tm, text, !o->plain, &ids, e); /* when it fails there are no ids */
    if (s == OK && o->json) {
        put_json_tokens(tm, &ids, out);
        buf_byte(out, '\n');
    }
    for (size_t i = 0; i < ids.n && !o->json; i++) {
        buf_printf(out, "%7d  ", ids.ids[i]);
        buf_json_str(out, text_token_bytes(tm, ids.ids[i]));
        buf_byte(out, '\n');
    }
    token_list_free(&ids);
    return s;
}

static void decode(const text_model *tm, const token_list *ids, buf *out) {
    text_decoder d = { 0 };
    for (size_t i = 0; i < ids->n; i++) text_decoder_push(&d, text_token_bytes(tm, ids->ids[i]), out);
    text_decoder_flush(&d, out);
}

static status detokenize(const text_model *tm, const tokenize_opts *o, str source, buf *out, err *e) {
    token_list ids = { 0 };
    buf text = { 0 };
    status s = id_list_read(source, text_vocab(tm), &ids, e);
    if (s == OK) {
        decode(tm, &ids, o->json ? &text : out);
        if (o->json) {
            buf_str(out, STR("{\"text\":"));
            buf_json_str(out, buf_view(&text));
            buf_str(out, STR(",\"tokens\":"));
            put_json_tokens(tm, &ids, out);
            buf_str(out, STR("}\n"));
        }
    }
    buf_free(&text);
    token_list_free(&ids);
    return s;
}

typedef status convert(const text_model *tm, const tokenize_opts *o, str in, buf *out, err *e);

static int run(const opts *table, convert *to, int argc, char **argv) {
    tokenize_opts o = { 0 };
    opts_found found = { 0 };
    int code;
    if (!cmd_parse(table, argc, argv, &o, &found, &code)) return code;
    buf in = { 0 }, out = { 0 };
    pair p = { 0 };
    err e;
    status s = input_text(&found, NULL, &in, &e);
    if (s == OK) s = pair_load(&p, o.model, NULL, true, NULL, NULL, &e);
    if (s == OK) s = to(p.text, &o, buf_view(&in), &out, &e);
    if (s == OK) s = output_text(buf_view(&out), &e);
    code = s == OK ? 0 : cmd_fail(&e);
    pair_close(&p);
    buf_free(&in);
    buf_free(&out);
    opts_found_deinit(&found);
    return code;
}

int cmd_tokenize(int argc, char **argv) { return run(&TOKENIZE, tokenize, argc, argv); }
int cmd_detokenize(int argc, char **argv) { return run(&DETOKENIZE, detokenize, argc, argv); }
