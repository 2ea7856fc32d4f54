/* skiff tokenize: text to ids, for looking at prompts. */
#include "engine/cli/cmd.h"
#include "engine/cli/input.h"
#include "engine/cli/model_opts.h"
#include "engine/core/pair.h"

#include <stdio.h>

typedef struct tokenize_opts {
    const char *model;
    bool json, plain;
} tokenize_opts;

static const opt LIST[] = {
    { "model", .brief = "m", .aliases = "model-path", .value = "DIR", OPT_TEXT_AT(tokenize_opts, model),
      .help = "model folder; without it the built-in demo pair" },
    { "json", OPT_SET_AT(tokenize_opts, json), .help = "a JSON array of {id, text}" },
    { "no-control", OPT_SET_AT(tokenize_opts, plain), .help = "control tokens in the text are ordinary characters" },
};

static const opts OPTS = {
    .command = "skiff tokenize",
    .about = "Prints the token ids of a text, one a line with its bytes. The text is the argument, or standard input.",
    .rest = "[TEXT|-]",
    .rest_max = 1,
    .list = LIST,
    .n = sizeof LIST / sizeof *LIST,
    .bytes = sizeof(tokenize_opts),
};

static status tokenize(const tokenize_opts *o, str text, err *e) {
    pair p;
    TRY(pair_load(&p, o->model, NULL, true, NULL, NULL, e));
    token_list ids = { 0 };
    status s = text_encode(p.text, text, !o->plain, &ids, e);
    buf out = { 0 };
    if (s == OK && o->json) buf_byte(&out, '[');
    for (size_t i = 0; s == OK && i < ids.n; i++) {
        if (o->json)
            buf_printf(&out, "%s{\"id\":%d,\"text\":", i ? "," : "", ids.ids[i]);
        else
            buf_printf(&out, "%7d  ", ids.ids[i]);
        buf_json_str(&out, text_token_bytes(p.text, ids.ids[i]));
        buf_str(&out, o->json ? STR("}") : STR("\n"));
    }
    if (s == OK && o->json) buf_str(&out, STR("]\n"));
    fwrite(out.data ? out.data : "", 1, out.len, stdout);
    buf_free(&out);
    token_list_free(&ids);
    pair_close(&p);
    return s;
}

int cmd_tokenize(int argc, char **argv) {
    tokenize_opts o = { 0 };
    opts_found found = { 0 };
    int code;
    if (!cmd_parse(&OPTS, argc, argv, &o, &found, &code)) return code;
    buf text = { 0 };
    err e;
    status s = input_text(&found, NULL, &text, &e);
    if (s == OK) s = tokenize(&o, buf_view(&text), &e);
    code = s == OK ? 0 : cmd_fail(&e);
    buf_free(&text);
    opts_found_deinit(&found);
    return code;
}
