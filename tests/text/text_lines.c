/* The text side behind a pipe, for tests that compare it with other programs: a JSON object a line in, one a line out.
 *
 * usage: text_lines TOKENIZER_JSON [CHAT_TEMPLATE]
 *   {"encode": TEXT, "added": BOOL}         -> {"ids": [ID...]}
 *   {"encode": TEXT, "guarded": true}       -> {"ids": [ID...]}, of the guarded text
 *   {"encode": TEXT, "timed": true}         -> {"n": number of ids, "ns": time}
 *   {"split": TEXT}                         -> {"pieces": [TEXT...]}, added tokens not looked for
 *   {"decode": [ID...]}                     -> {"text": TEXT}
 *   {"template": SOURCE, "vars": {...}}     -> {"text": TEXT}
 *   {"messages": [...], "tools", "chat_template_kwargs", "add_generation_prompt"} -> {"text": TEXT}, by chat_render
 *   {"messages": ..., "timed": true, "known": BOOL} -> {"bytes", "n", "render_ns", "encode_ns"}; known: as in a server,
 *                                              what earlier lines of that kind encoded is known
 * What fails gives {"error": MESSAGE, "stage": "parse" or "run"}; a line that is no request ends the
 * program. */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/server/api_json.h"
#include "engine/text/chat.h"
#include "engine/text/segments.h"
#include "engine/text/text.h"
#include "engine/text/tmpl.h"

#include <stdio.h>
#include <stdlib.h>

enum { FILE_BYTES_MAX = 1 << 30, IDS_MAX = 1 << 20, KNOWN_BYTES = 64 << 20 };

typedef struct server {
    text_model *tm;
    arena *mem; /* of one line */
    segments *known;
    buf out;
} server;

static void put_text(buf *out, str text) {
    buf_str(out, STR("{\"text\":"));
    buf_json_str(out, text);
    buf_byte(out, '}');
}

static void put_error(buf *out, const char *stage, const err *e) {
    buf_clear(out);
    buf_str(out, STR("{\"error\":"));
    buf_json_str(out, str_of(e->text));
    buf_printf(out, ",\"stage\":\"%s\"}", stage);
}

static status encode_guarded(server *sv, str text, token_list *ids, err *e) {
    buf guarded = { 0 };
    text_put_guarded(sv->tm, text, &guarded);
    status s = text_encode_guarded(sv->tm, buf_view(&guarded), ids, e);
    buf_free(&guarded);
    return s;
}

static status do_encode(server *sv, value text, const value_dict *request, err *e) {
    const value *added = value_dict_find_str(request, STR("added"));
    const value *timed = value_dict_find_str(request, STR("timed"));
    token_list ids = { 0 };
    int64_t start = clock_ns();
    status s = value_dict_find_str(request, STR("guarded"))
                   ? encode_guarded(sv, text.s, &ids, e)
                   : text_encode(sv->tm, text.s, !added || value_truth(*added), &ids, e);
    int64_t ns = clock_ns() - start;
    if (s == OK && timed) {
        buf_printf(&sv->out, "{\"n\":%zu,\"ns\":%lld}", ids.n, (long long)ns);
    } else if (s == OK) {
        buf_str(&sv->out, STR("{\"ids\":["));
        for (size_t i = 0; i < ids.n; i++) buf_printf(&sv->out, "%s%d", i ? "," : "", ids.ids[i]);
        buf_str(&sv->out, STR("]}"));
    }
    token_list_free(&ids);
    return s;
}

static void put_piece(void *ctx, str piece) {
    buf *out = ctx;
    if (out->data[out->len - 1] != '[') buf_byte(out, ',');
    buf_json_str(out, piece);
}

static status do_split(server *sv, value text, err *e) {
    buf_str(&sv->out, STR("{\"pieces\":["));
    TRY(text_split(sv->tm, text.s, false, put_piece, &sv->out, e));
    buf_str(&sv->out, STR("]}"));
    return OK;
}

static status do_decode(server *sv, value ids) {
    text_decoder d = { 0 };
    buf text = { 0 };
    for (size_t i = 0; i < ids.list->n; i++)
        text_decoder_push(&d, text_token_bytes(sv->tm, (int32_t)ids.list->items[i].i), &text);
    text_decoder_flush(&d, &text);
    put_text(&sv->out, buf_view(&text));
    buf_free(&text);
    return OK;
}

static status do_template(server *sv, value source, const value_dict *request, const char **stage, err *e) {
    const value *vars = value_dict_find_str(request, STR("vars"));
    size_t n = vars && vars->kind == VALUE_DICT ? vars->dict->n : 0;
    tmpl_var *list = arena_alloc(sv->mem, (n + 1) * sizeof *list);
    for (size_t i = 0; i < n; i++) {
        const value_entry *entry = &vars->dict->entries[i];
        list[i] = (tmpl_var){ arena_str(sv->mem, entry->key.s).p, entry->val };
    }
    tmpl *t;
    buf text = { 0 };
    *stage = "parse";
    TRY(tmpl_parse(&t, source.s, "template", e));
    *stage = "run";
    status s = tmpl_render(t, sv->mem, list, n, NULL, &text, e);
    if (s == OK) put_text(&sv->out, buf_view(&text));
    buf_free(&text);
    tmpl_free(t);
    return s;
}

static status do_chat(server *sv, str line, err *e) {
    json_error_t why;
    json_t *tree = api_json_load(line, &why);
    if (!tree) return err_set(e, ERR_REQUEST, "jansson does not read this line");
    buf text = { 0 };
    chat_request rq = { .messages = json_object_get(tree, "messages"),
                        .tools = json_object_get(tree, "tools"),
                        .kwargs = json_object_get(tree, "chat_template_kwargs"),
                        .add_generation_prompt = json_is_true(json_object_get(tree, "add_generation_prompt")),
                        .source = line };
    token_list ids = { 0 };
    int64_t start = clock_ns(), rendered;
    status s = chat_render(sv->tm, &rq, &text, NULL, e);
    rendered = clock_ns();
    if (s == OK && json_is_true(json_object_get(tree, "timed"))) {
        segments *known = json_is_true(json_object_get(tree, "known")) ? sv->known : NULL;
        s = text_encode_known(sv->tm, buf_view(&text), false, known, &ids, e);
        buf_printf(&sv->out, "{\"bytes\":%zu,\"n\":%zu,\"render_ns\":%lld,\"encode_ns\":%lld}", text.len, ids.n,
                   (long long)(rendered - start), (long long)(clock_ns() - rendered));
    } else if (s == OK) {
        put_text(&sv->out, buf_view(&text));
    }
    token_list_free(&ids);
    buf_free(&text);
    json_decref(tree);
    return s;
}

static status serve(server *sv, str line, const char **stage, err *e) {
    value request;
    const value *v;
    *stage = "line";
    TRY(value_from_text(sv->mem, &request, line, e));
    if (request.kind != VALUE_DICT) return err_set(e, ERR_REQUEST, "expected an object");
    *stage = "run";
    const value_dict *d = request.dict;
    if ((v = value_dict_find_str(d, STR("encode"))) && v->kind == VALUE_STR) return do_encode(sv, *v, d, e);
    if ((v = value_dict_find_str(d, STR("split"))) && v->kind == VALUE_STR) return do_split(sv, *v, e);
    if ((v = value_dict_find_str(d, STR("decode"))) && v->kind == VALUE_LIST) return do_decode(sv, *v);
    if ((v = value_dict_find_str(d, STR("template"))) && v->kind == VALUE_STR) return do_template(sv, *v, d, stage, e);
    if (value_dict_find_str(d, STR("messages"))) return do_chat(sv, line, e);
    *stage = "line";
    return err_set(e, ERR_REQUEST, "no such request");
}

static int serve_all(text_model *tm) {
    server sv = { .tm = tm, .known = segments_new(KNOWN_BYTES) };
    char *line = NULL;
    size_t cap = 0;
    int code = 0;
    for (ssize_t n; !code && (n = getline(&line, &cap, stdin)) > 0;) {
        err e;
        const char *stage;
        sv.mem = arena_new();
        buf_clear(&sv.out);
        if (serve(&sv, (str){ line, (size_t)n }, &stage, &e) != OK) {
            put_error(&sv.out, stage, &e);
            code = strcmp(stage, "line") == 0 ? 2 : 0;
        }
        buf_byte(&sv.out, '\n');
        if (fwrite(sv.out.data, 1, sv.out.len, stdout) != sv.out.len) code = 1;
        fflush(stdout); /* the other side waits for this line */
        arena_free(sv.mem);
    }
    free(line);
    segments_free(sv.known);
    buf_free(&sv.out);
    return code;
}

static status open_model(text_model **out, int argc, char **argv, err *e) {
    buf tokens = { 0 }, template = { 0 };
    status s = file_read(&tokens, argv[1], FILE_BYTES_MAX, e);
    if (s == OK && argc > 2) s = file_read(&template, argv[2], FILE_BYTES_MAX, e);
    const text_files files = { .tokenizer = buf_view(&tokens),
                               .chat_template = argc > 2 ? buf_view(&template) : (str){ 0 },
                               .generation_config = STR("{\"eos_token_id\": []}") };
    if (s == OK) s = text_model_open(out, &files, IDS_MAX, e);
    buf_free(&tokens);
    buf_free(&template);
    return s;
}

int main(int argc, char **argv) {
    text_model *tm;
    err e;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: text_lines TOKENIZER_JSON [CHAT_TEMPLATE]\n");
        return 2;
    }
    if (open_model(&tm, argc, argv, &e) != OK) {
        fprintf(stderr, "text_lines: %s\n", e.text);
        return 1;
    }
    int code = serve_all(tm);
    text_model_close(tm);
    return code;
}
