/* Opens the model's files in the order of what depends on what, and answers from tables afterwards. */
#include "engine/text/text.h"

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/load/cfg.h"
#include "engine/text/text_int.h"
#include "engine/text/tmpl.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- lists of tokens ---- */

void token_list_push(token_list *l, int32_t id) {
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->ids = xrealloc(l->ids, l->cap * sizeof *l->ids);
    }
    l->ids[l->n++] = id;
}

void token_list_free(token_list *l) {
    free(l->ids);
    *l = (token_list){ 0 };
}

/* ---- opening ---- */

/* The small files as trees; NULL: absent. */
typedef struct configs {
    json_t *tokenizer, *generation, *model;
} configs;

static status read_config(json_t **out, str text, const char *file, err *e) {
    *out = NULL;
    if (!text.p) return OK;
    json_error_t why;
    json_t *tree = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, &why);
    if (!tree) return err_set(e, ERR_MODEL, "%s, line %d: not valid JSON: %s", file, why.line, why.text);
    if (!json_is_object(tree)) {
        json_decref(tree);
        return err_set(e, ERR_MODEL, "%s: expected a JSON object", file);
    }
    *out = tree;
    return OK;
}

static void configs_deinit(configs *c) {
    json_decref(c->tokenizer);
    json_decref(c->generation);
    json_decref(c->model);
}

static status configs_init(configs *c, const text_files *files, err *e) {
    *c = (configs){ 0 };
    status s = read_config(&c->tokenizer, files->tokenizer_config, "tokenizer_config.json", e);
    if (s == OK) s = read_config(&c->generation, files->generation_config, "generation_config.json", e);
    if (s == OK) s = read_config(&c->model, files->config, "config.json", e);
    if (s != OK) configs_deinit(c);
    return s;
}

/* A token string is written as a text, or as an object with its flags. */
static str read_token_string(arena *mem, const json_t *config, const char *name) {
    const json_t *v = json_object_get(config, name);
    if (json_is_object(v)) v = json_object_get(v, "content");
    return json_is_string(v) ? arena_str(mem, (str){ json_string_value(v), json_string_length(v) }) : (str){ 0 };
}

static status set_end(text_model *tm, cfg c, const char *path, err *e) {
    int64_t id;
    TRY(cfg_get_int(c, path, 0, tm->vocab - 1, &id, e));
    tm->flags[id] |= TOKEN_IS_END | TOKEN_IS_HIDDEN;
    return OK;
}

static bool set_end_token(text_model *tm, str text) {
    const added_token *t = text.n ? tokenizer_find_added(tm->tokens, text) : NULL;
    if (t) tm->flags[t->id] |= TOKEN_IS_END | TOKEN_IS_HIDDEN;
    return t != NULL;
}

/* The ids of generation_config.json, or of config.json where that has none; and whatever they say, the end token of the
 * tokenizer and the tag that ends a turn in the template: a model whose files forget one would open the next turn. */
static status read_ends(text_model *tm, const configs *files, str template, err *e) {
    const char *member = "eos_token_id";
    cfg c = { files->generation, "generation_config.json" };
    const json_t *v = cfg_find(c, member), *other;
    bool is_empty = json_is_array(v) && !json_array_size(v);
    if ((!v || is_empty) && (other = cfg_find((cfg){ files->model, "config.json" }, member))) {
        c = (cfg){ files->model, "config.json" };
        v = other;
    }
    str turn_end = STR("</assistant>");
    bool some = set_end_token(tm, tm->eos);
    if (template.n && memmem(template.p, template.n, turn_end.p, turn_end.n)) some |= set_end_token(tm, turn_end);
    if (!v && !some) log_warn("text", "no file names a token that ends answers: they end at their limit only");
    if (!v) return OK;
    if (!json_is_array(v)) return set_end(tm, c, member, e);
    for (size_t i = 0; i < json_array_size(v); i++) {
        char path[40];
        snprintf(path, sizeof path, "%s.%zu", member, i);
        TRY(set_end(tm, c, path, e));
    }
    return OK;
}

/* "<think>" and its like: a name in ASCII angle brackets. The parsers of the answer need these shown. */
static bool is_tag(str s) {
    if (s.n < 3 || s.p[0] != '<' || s.p[s.n - 1] != '>') return false;
    for (size_t i = s.p[1] == '/' ? 2 : 1; i < s.n - 1; i++) {
        char c = s.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-'))
            return false;
    }
    return true;
}

/* The flag `special` changed between revisions of the same checkpoint, so the spelling counts as well. */
static bool is_control(const added_token *t) {
    bool bracketed = str_starts(t->text, STR("〈|")) && str_ends(t->text, STR("|〉"));
    return bracketed || (t->special && !is_tag(t->text));
}

static void hide_controls(text_model *tm) {
    for (size_t i = 0; i < tokenizer_count_added(tm->tokens); i++) {
        const added_token *t = tokenizer_get_added(tm->tokens, i);
        if (is_control(t)) tm->flags[t->id] |= TOKEN_IS_HIDDEN;
    }
}

static status read_start(text_model *tm, const configs *files, err *e) {
    const added_token *bos = tm->bos.p ? tokenizer_find_added(tm->tokens, tm->bos) : NULL;
    int64_t id = -1;
    if (bos)
        id = bos->id;
    else
        TRY(cfg_opt_int((cfg){ files->model, "config.json" }, "bos_token_id", 0, tm->vocab - 1, -1, &id, e));
    tm->start = (int32_t)id;
    return OK;
}

/* The template inside tokenizer_config.json: a text, or a list of named ones of which "default" is meant. */
static str find_template(const json_t *config) {
    const json_t *all = json_object_get(config, "chat_template"), *text = all;
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && strcmp(name, "default") == 0) text = json_object_get(one, "template");
    }
    return json_is_string(text) ? (str){ json_string_value(text), json_string_length(text) } : (str){ 0 };
}

/* A template that does not parse stops the start: a model served with another one stops behaving. */
static status read_template(text_model *tm, const text_files *files, const configs *trees, err *e) {
    bool is_file = files->chat_template.p;
    str source = is_file ? files->chat_template : find_template(trees->tokenizer);
    const char *name = is_file ? "chat_template.jinja" : "tokenizer_config.json: chat_template";
    return source.p ? tmpl_parse(&tm->tmpl, source, name, e) : OK;
}

static status read_default_kwargs(text_model *tm, const configs *files, err *e) {
    json_t *v = json_object_get(files->generation, "default_chat_template_kwargs");
    if (!v || json_is_null(v)) return OK;
    if (!json_is_object(v))
        return err_set(e, ERR_MODEL, "generation_config.json: default_chat_template_kwargs: expected an object");
    tm->default_kwargs = json_incref(v);
    return OK;
}

static status read_all(text_model *tm, const text_files *files, const configs *trees, err *e) {
    if (!files->tokenizer.p) return err_set(e, ERR_MODEL, "tokenizer.json: the model has no such file, and needs it");
    TRY(tokenizer_new(&tm->tokens, files->tokenizer, tm->vocab, e));
    tm->bos = read_token_string(tm->mem, trees->tokenizer, "bos_token");
    tm->eos = read_token_string(tm->mem, trees->tokenizer, "eos_token");
    tm->pad = read_token_string(tm->mem, trees->tokenizer, "pad_token");
    tm->unk = read_token_string(tm->mem, trees->tokenizer, "unk_token");
    TRY(read_ends(tm, trees, files->chat_template.p ? files->chat_template : find_template(trees->tokenizer), e));
    hide_controls(tm);
    TRY(read_start(tm, trees, e));
    TRY(read_default_kwargs(tm, trees, e));
    return read_template(tm, files, trees, e);
}

status text_model_open(text_model **out, const text_files *files, int32_t vocab, err *e) {
    CHECK(vocab > 0);
    configs trees;
    TRY(configs_init(&trees, files, e));
    text_model *tm = xalloc(sizeof *tm);
    tm->mem = arena_new();
    tm->vocab = vocab;
    tm->flags = xalloc((size_t)vocab);
    status s = read_all(tm, files, &trees, e);
    configs_deinit(&trees);
    if (s != OK) {
        text_model_close(tm);
        return s;
    }
    *out = tm;
    return OK;
}

void text_model_close(text_model *tm) {
    if (!tm) return;
    json_decref(tm->default_kwargs);
    tmpl_free(tm->tmpl);
    free(tm->flags);
    tokenizer_free(tm->tokens);
    arena_free(tm->mem);
    free(tm);
}

/* ---- use ---- */

status text_encode(const text_model *tm, str text, bool added, token_list *out, err *e) {
    return tokenizer_encode(tm->tokens, text, added, out, e);
}

void text_put_guarded(const text_model *tm, str text, buf *out) { tokenizer_put_guarded(tm->tokens, text, out); }

status text_encode_known(const text_model *tm, str text, bool guarded, struct segments *known, token_list *out,
                         err *e) {
    return tokenizer_encode_known(tm->tokens, text, guarded, known, out, e);
}

status text_encode_guarded(const text_model *tm, str text, token_list *out, err *e) {
    return tokenizer_encode_guarded(tm->tokens, text, out, e);
}

status text_split(const text_model *tm, str text, bool added, text_sink *sink, void *ctx, err *e) {
    return tokenizer_split(tm->tokens, text, added, sink, ctx, e);
}

str text_token_bytes(const text_model *tm, int32_t id) { return tokenizer_get_bytes(tm->tokens, id); }

int32_t text_find_token(const text_model *tm, str added) {
    const added_token *t = tokenizer_find_added(tm->tokens, added);
    return t ? t->id : -1;
}

static bool has_flag(const text_model *tm, int32_t id, int flag) {
    return id >= 0 && id < tm->vocab && (tm->flags[id] & flag) != 0;
}

int32_t text_vocab(const text_model *tm) { return tm->vocab; }
bool text_is_end(const text_model *tm, int32_t id) { return has_flag(tm, id, TOKEN_IS_END); }
bool text_is_hidden(const text_model *tm, int32_t id) { return has_flag(tm, id, TOKEN_IS_HIDDEN); }
bool text_has_template(const text_model *tm) { return tm->tmpl != NULL; }
int32_t text_start_token(const text_model *tm) { return tm->start; }
