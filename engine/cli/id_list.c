#include "engine/cli/id_list.h"

#include "engine/base/utf8.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool is_gap(char c) { return is_space(c) || c == ','; }

/* As much of a word as a message may quote. */
static str excerpt(str s) { return (str){ s.p, utf8_complete((str){ s.p, s.n > 40 ? 40 : s.n }) }; }

static status no_such_token(str id, int32_t vocab, err *e) {
    return err_set(e, ERR_REQUEST, "token %.*s does not exist: the vocabulary has %d tokens, ids 0 to %d",
                   STR_ARG(excerpt(id)), vocab, vocab - 1);
}

/* Of any length: what is too large for a number is too large for the vocabulary. */
static status read_word(str word, int32_t vocab, token_list *out, err *e) {
    size_t sign = word.n > 1 && word.p[0] == '-';
    int64_t id = 0;
    for (size_t i = sign; i < word.n; i++) {
        if (word.p[i] < '0' || word.p[i] > '9')
            return err_set(e, ERR_REQUEST,
                           "\"%.*s\" is no token id; expected whole numbers between spaces, commas or line ends, or a "
                           "JSON array",
                           STR_ARG(excerpt(word)));
        if (id < vocab) id = id * 10 + (word.p[i] - '0');
    }
    if (sign || id >= vocab) return no_such_token(word, vocab, e);
    token_list_push(out, (int32_t)id);
    return OK;
}

static status read_words(str text, int32_t vocab, token_list *out, err *e) {
    for (size_t at = 0, end; at < text.n; at = end) {
        for (; at < text.n && is_gap(text.p[at]); at++) {}
        for (end = at; end < text.n && !is_gap(text.p[end]); end++) {}
        if (end > at) TRY(read_word((str){ text.p + at, end - at }, vocab, out, e));
    }
    return OK;
}

/* Numbers are read as doubles, which hold every id, so that one beyond 64 bits can still be named. */
static status read_array(str text, int32_t vocab, token_list *out, err *e) {
    json_error_t why;
    json_t *all = json_loadb(text.p, text.n, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &why);
    if (!all) return err_set(e, ERR_REQUEST, "no JSON array of token ids: line %d: %s", why.line, why.text);
    status s = OK;
    for (size_t i = 0; i < json_array_size(all) && s == OK; i++) {
        const json_t *v = json_array_get(all, i);
        if (json_is_object(v)) v = json_object_get(v, "id");
        double id = json_real_value(v);
        char name[40];
        snprintf(name, sizeof name, "%.17g", id);
        if (!json_is_real(v) || id != floor(id))
            s = err_set(e, ERR_REQUEST, "element %zu of the JSON array is no token id", i);
        else if (id < 0 || id >= vocab)
            s = no_such_token(str_of(name), vocab, e);
        else
            token_list_push(out, (int32_t)id);
    }
    json_decref(all);
    return s;
}

status id_list_read(str text, int32_t vocab, token_list *out, err *e) {
    size_t n = out->n, at = 0;
    while (at < text.n && is_space(text.p[at])) at++;
    bool is_array = at < text.n && text.p[at] == '[';
    status s = (is_array ? read_array : read_words)(text, vocab, out, e);
    if (s != OK) out->n = n;
    return s;
}
