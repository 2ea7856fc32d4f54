/* What the reference does, in its order: added tokens are found in the raw text, those that are not `normalized` first;
 * what lies between is cut by the pre-tokenizer, and every piece goes through BPE on its own.
 *
 * The byte symbols must all be in the vocabulary. So every text has ids, and `unk_token` and `fuse_unk` never matter.
 * The members truncation, padding and post_processor are about batches and about tokens put around a text; the ids of a
 * text alone do not depend on them. */
#include "engine/text/tokenizer.h"

#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/text/bpe.h"
#include "engine/text/pretok.h"
#include "engine/text/segments.h"
#include "engine/text/tokfile.h"
#include "engine/text/vocab.h"

#include <jansson.h>
#include <stdlib.h>

enum { TEXT_MAX = 1 << 30 }; /* bytes; positions inside of a piece have 32 bits */

struct tokenizer {
    arena *mem;
    vocab *names;
    bool whole_first; /* ignore_merges: a piece that is a token is not taken apart */
    bpe *merges;
    pretok *cut;
    added_token *added;
    size_t n_added;
    added_set *sets[2];        /* not normalized, normalized */
    const added_token **by_id; /* [limit]; NULL: not an added token */
    int32_t limit;
};

/* ---- reading ---- */

static str string_of(const json_t *v) { return (str){ json_string_value(v), json_string_length(v) }; }

static bool is_unset(const json_t *v) {
    return !v || json_is_null(v) || json_is_false(v) || (json_is_string(v) && json_string_length(v) == 0) ||
           (json_is_number(v) && json_number_value(v) == 0.0);
}

static status check_unset(const json_t *object, const char *path, const char *const *names, size_t n, err *e) {
    for (size_t i = 0; i < n; i++) {
        if (!is_unset(json_object_get(object, names[i])))
            return err_set(e, ERR_MODEL, "tokenizer.json: %s%s is set, and not supported", path, names[i]);
    }
    return OK;
}

static status check_kind(const json_t *object, const char *path, const char *wanted, err *e) {
    const json_t *v = json_object_get(object, "type");
    const char *type = json_is_string(v) ? json_string_value(v) : "(none)";
    if (strcmp(type, wanted) == 0) return OK;
    return err_set(e, ERR_MODEL, "tokenizer.json: %s.type: only \"%s\" is supported, found \"%s\"", path, wanted, type);
}

/* The members that change the ids and that nothing here implements. */
static status check_supported(const tokfile *f, err *e) {
    static const char *const of_file[] = { "normalizer" };
    static const char *const of_model[] = { "dropout", "continuing_subword_prefix", "end_of_word_suffix",
                                            "byte_fallback" };
    const json_t *model = json_object_get(f->rest, "model"), *decoder = json_object_get(f->rest, "decoder");
    TRY(check_unset(f->rest, "", of_file, sizeof of_file / sizeof *of_file, e));
    TRY(check_kind(model, "model", "BPE", e));
    TRY(check_unset(model, "model.", of_model, sizeof of_model / sizeof *of_model, e));
    if (!is_unset(decoder)) TRY(check_kind(decoder, "decoder", "ByteLevel", e));
    if (!f->vocab.p) return err_set(e, ERR_MODEL, "tokenizer.json: model.vocab: expected an object of names and ids");
    if (!f->merges.p) return err_set(e, ERR_MODEL, "tokenizer.json: model.merges: expected a list of pairs");
    return OK;
}

static status read_flag(const json_t *entry, const char *name, size_t index, bool *out, err *e) {
    const json_t *v = json_object_get(entry, name);
    if (v && !json_is_boolean(v))
        return err_set(e, ERR_MODEL, "tokenizer.json: added_tokens[%zu].%s: expected true or false", index, name);
    *out = json_is_true(v);
    return OK;
}

static status read_added(tokenizer *t, const json_t *entry, size_t index, err *e) {
    const json_t *content = json_object_get(entry, "content"), *id = json_object_get(entry, "id");
    if (!json_is_string(content) || json_string_length(content) == 0)
        return err_set(e, ERR_MODEL, "tokenizer.json: added_tokens[%zu].content: expected a text that is not empty",
                       index);
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= t->limit)
        return err_set(e, ERR_MODEL, "tokenizer.json: added_tokens[%zu].id: expected a number from 0 to %d", index,
                       t->limit - 1);
    added_token *a = &t->added[index];
    *a = (added_token){ .text = arena_str(t->mem, string_of(content)), .id = (int32_t)json_integer_value(id) };
    TRY(read_flag(entry, "lstrip", index, &a->lstrip, e));
    TRY(read_flag(entry, "rstrip", index, &a->rstrip, e));
    TRY(read_flag(entry, "single_word", index, &a->single_word, e));
    TRY(read_flag(entry, "normalized", index, &a->normalized, e));
    TRY(read_flag(entry, "special", index, &a->special, e));

    str name = vocab_get_name(t->names, a->id); /* where the vocabulary has the token too, both must say the same */
    int32_t known = vocab_find(t->names, a->text);
    if ((name.p && !str_eq(name, a->text)) || (known >= 0 && known != a->id))
        return err_set(e, ERR_MODEL,
                       "tokenizer.json: added_tokens[%zu]: \"%.*s\" is %d here, and model.vocab disagrees", index,
                       STR_ARG(a->text), a->id);
    if (t->by_id[a->id] || added_find(t->sets[!a->normalized], a->text) || !added_put(t->sets[a->normalized], a))
        return err_set(e, ERR_MODEL, "tokenizer.json: added_tokens[%zu]: \"%.*s\" or its id %d stands there twice",
                       index, STR_ARG(a->text), a->id);
    t->by_id[a->id] = a;
    return OK;
}

static status read_all_added(tokenizer *t, const json_t *list, err *e) {
    if (list && !json_is_null(list) && !json_is_array(list))
        return err_set(e, ERR_MODEL, "tokenizer.json: added_tokens: expected a list");
    t->sets[0] = added_new();
    t->sets[1] = added_new();
    t->by_id = xalloc((size_t)t->limit * sizeof *t->by_id);
    t->n_added = json_array_size(list);
    t->added = arena_alloc(t->mem, t->n_added * sizeof *t->added);
    for (size_t i = 0; i < t->n_added; i++) TRY(read_added(t, json_array_get(list, i), i, e));
    return OK;
}

static status find_name(const vocab *v, str name, size_t entry, int32_t *id, err *e) {
    *id = vocab_find(v, name);
    if (*id >= 0) return OK;
    return err_set(e, ERR_MODEL, "tokenizer.json: model.merges, entry %zu: \"%.*s\" is not in the vocabulary", entry,
                   STR_ARG(name));
}

typedef struct merge_list {
    bpe_merge *all;
    size_t n, cap;
} merge_list;

static status read_merge(const vocab *v, str left, str right, size_t entry, buf *joint, merge_list *out, err *e) {
    bpe_merge m;
    TRY(find_name(v, left, entry, &m.left, e));
    TRY(find_name(v, right, entry, &m.right, e));
    buf_clear(joint);
    buf_str(joint, left);
    buf_str(joint, right);
    TRY(find_name(v, buf_view(joint), entry, &m.result, e));
    if (out->n == out->cap) {
        out->cap = out->cap ? 2 * out->cap : 4096;
        out->all = xrealloc(out->all, out->cap * sizeof *out->all);
    }
    out->all[out->n++] = m;
    return OK;
}

static status read_merges(const vocab *v, const tokfile *f, merge_list *out, err *e) {
    tokfile_reader r;
    tokfile_reader_init(&r, f, f->merges, "merges");
    buf joint = { 0 };
    status s;
    for (;;) {
        str left, right;
        bool more;
        s = tokfile_next_merge(&r, &left, &right, &more, e);
        if (s == OK && more) s = read_merge(v, left, right, r.entry, &joint, out, e);
        if (s != OK || !more) break;
    }
    buf_free(&joint);
    tokfile_reader_deinit(&r);
    if (s == OK && !out->n) s = err_set(e, ERR_MODEL, "tokenizer.json: model.merges: the list is empty");
    return s;
}

static status find_byte_symbols(const vocab *v, int32_t byte_id[256], err *e) {
    buf name = { 0 };
    status s = OK;
    for (int b = 0; b < 256 && s == OK; b++) {
        char byte = (char)b;
        buf_clear(&name);
        vocab_spell(&name, (str){ &byte, 1 });
        byte_id[b] = vocab_find(v, buf_view(&name));
        if (byte_id[b] < 0)
            s = err_set(e, ERR_MODEL, "tokenizer.json: model.vocab: byte 0x%02X (\"%s\") has no token", b,
                        buf_cstr(&name));
    }
    buf_free(&name);
    return s;
}

static status read_bpe(tokenizer *t, const tokfile *f, err *e) {
    int32_t byte_id[256];
    TRY(find_byte_symbols(t->names, byte_id, e));
    merge_list list = { 0 };
    status s = read_merges(t->names, f, &list, e);
    if (s == OK) {
        s = bpe_new(&t->merges, byte_id, list.all, list.n, e);
        if (s != OK) err_wrap(e, "tokenizer.json: model.merges");
    }
    free(list.all);
    return s;
}

static status read_file(tokenizer *t, const tokfile *f, err *e) {
    TRY(check_supported(f, e));
    TRY(vocab_new(&t->names, t->mem, f, t->limit, e));
    t->whole_first = json_is_true(json_object_get(json_object_get(f->rest, "model"), "ignore_merges"));
    TRY(read_all_added(t, json_object_get(f->rest, "added_tokens"), e));
    TRY(read_bpe(t, f, e));
    status s = pretok_new(&t->cut, json_object_get(f->rest, "pre_tokenizer"), e);
    if (s != OK) err_wrap(e, "tokenizer.json");
    return s;
}

status tokenizer_new(tokenizer **out, str json, int32_t limit, err *e) {
    tokfile f;
    TRY(tokfile_open(&f, json, e));
    tokenizer *t = xalloc(sizeof *t);
    t->mem = arena_new();
    t->limit = limit;
    status s = read_file(t, &f, e);
    tokfile_close(&f);
    if (s != OK) {
        tokenizer_free(t);
        return s;
    }
    *out = t;
    return OK;
}

void tokenizer_free(tokenizer *t) {
    if (!t) return;
    pretok_free(t->cut);
    bpe_free(t->merges);
    free(t->by_id);
    added_free(t->sets[0]);
    added_free(t->sets[1]);
    vocab_free(t->names);
    arena_free(t->mem);
    free(t);
}

/* ---- encoding ---- */

/* Pieces become tokens, or go to a sink as they are. */
typedef struct encoding {
    const tokenizer *t;
    pretok_work *cut;
    bpe_work work;
    buf name;        /* of a piece, for whole_first */
    bool guarded;    /* guards are left out of what is encoded */
    buf unguarded;   /* a text without them */
    segments *known; /* NULL: every text is encoded */
    token_list *out;
    text_sink *sink; /* NULL: to tokens */
    void *ctx;
} encoding;

/* The token that is exactly this piece. Added tokens are no pieces: they were found before, or the caller wants them
 * taken apart. */
static int32_t find_whole(encoding *en, str piece) {
    if (piece.n > vocab_longest(en->t->names)) return -1;
    buf_clear(&en->name);
    vocab_spell(&en->name, piece);
    int32_t id = vocab_find(en->t->names, buf_view(&en->name));
    return id >= 0 && !en->t->by_id[id] ? id : -1;
}

static void put_piece(void *ctx, str piece) {
    encoding *en = ctx;
    if (en->sink) {
        en->sink(en->ctx, piece);
        return;
    }
    int32_t id = en->t->whole_first ? find_whole(en, piece) : -1;
    if (id >= 0)
        token_list_push(en->out, id);
    else
        bpe_encode(en->t->merges, &en->work, piece, en->out);
}

static void put_added(encoding *en, const added_token *a) {
    if (en->sink)
        en->sink(en->ctx, a->text);
    else
        token_list_push(en->out, a->id);
}

static str leave_out_guards(encoding *en, str text) {
    str guard = STR(TEXT_GUARD), left = text;
    buf_clear(&en->unguarded);
    for (const char *at; (at = left.n ? memmem(left.p, left.n, guard.p, guard.n) : NULL);) {
        size_t n = (size_t)(at - left.p);
        buf_put(&en->unguarded, left.p, n);
        left = str_from(left, n + guard.n);
    }
    if (left.n == text.n) return text;
    buf_str(&en->unguarded, left);
    return buf_view(&en->unguarded);
}

static status cut_text(encoding *en, str text, err *e) {
    return pretok_split(en->cut, en->guarded ? leave_out_guards(en, text) : text, put_piece, en, e);
}

/* A text between added tokens. */
static status put_between(encoding *en, str text, err *e) {
    if (!en->known) return cut_text(en, text, e);
    if (segments_get(en->known, text, en->guarded, en->out)) return OK;
    size_t from = en->out->n;
    TRY(cut_text(en, text, e));
    segments_put(en->known, text, en->guarded, en->out->ids + from, en->out->n - from);
    return OK;
}

/* level: the set of added tokens to look for, and then the later ones; 2: none. */
static status put_text(encoding *en, int level, str text, err *e) {
    if (level == 2) return put_between(en, text, e);
    added_scan scan = { .set = en->t->sets[level], .words = en->cut, .text = text };
    str gap;
    const added_token *found;
    while (added_next(&scan, &gap, &found)) {
        TRY(put_text(en, level + 1, gap, e));
        put_added(en, found);
    }
    return put_text(en, level + 1, gap, e);
}

static status check_text(str text, err *e) {
    if (text.n > TEXT_MAX)
        return err_set(e, ERR_REQUEST, "a text of %zu bytes; at most %d are taken", text.n, TEXT_MAX);
    for (size_t i = 0, n; i < text.n; i += n) {
        n = utf8_char(str_from(text, i));
        if (!n)
            return err_set(e, ERR_REQUEST, "the text is not valid UTF-8: byte 0x%02X at offset %zu",
                           (unsigned char)text.p[i], i);
    }
    return OK;
}

static status encode(const tokenizer *t, str text, int level, bool guarded, segments *known, token_list *out, err *e) {
    TRY(check_text(text, e));
    size_t n = out->n;
    encoding en = { .t = t, .cut = pretok_work_new(t->cut), .guarded = guarded, .known = known, .out = out };
    status s = put_text(&en, level, text, e);
    pretok_work_free(en.cut);
    bpe_work_deinit(&en.work);
    buf_free(&en.name);
    buf_free(&en.unguarded);
    if (s != OK) out->n = n;
    return s;
}

status tokenizer_encode(const tokenizer *t, str text, bool added, token_list *out, err *e) {
    return encode(t, text, added ? 0 : 2, false, NULL, out, e);
}

status tokenizer_encode_known(const tokenizer *t, str text, bool guarded, segments *known, token_list *out, err *e) {
    return encode(t, text, 0, guarded, known, out, e);
}

status tokenizer_encode_guarded(const tokenizer *t, str text, token_list *out, err *e) {
    return encode(t, text, 0, true, NULL, out, e);
}

/* Whether a token counts may depend on its neighbours, which are not known here: every one is broken up. */
void tokenizer_put_guarded(const tokenizer *t, str text, buf *out) {
    for (size_t at = 0, n; at < text.n; at += n) {
        str rest = str_from(text, at);
        n = utf8_char(rest);
        if (!n) n = 1; /* no UTF-8: the encoding will say so */
        buf_put(out, rest.p, n);
        if (added_begins(t->sets[0], rest) || added_begins(t->sets[1], rest)) buf_str(out, STR(TEXT_GUARD));
    }
}

status tokenizer_split(const tokenizer *t, str text, bool added, text_sink *sink, void *ctx, err *e) {
    TRY(check_text(text, e));
    encoding en = { .t = t, .cut = pretok_work_new(t->cut), .sink = sink, .ctx = ctx };
    status s = put_text(&en, added ? 0 : 2, text, e);
    pretok_work_free(en.cut);
    return s;
}

/* ---- tokens ---- */

str tokenizer_get_bytes(const tokenizer *t, int32_t id) {
    if (id < 0 || id >= t->limit) return STR("");
    if (t->by_id[id]) return t->by_id[id]->text;
    str bytes = vocab_get_bytes(t->names, id);
    return bytes.p ? bytes : STR("");
}

const added_token *tokenizer_find_added(const tokenizer *t, str text) {
    const added_token *a = added_find(t->sets[0], text);
    return a ? a : added_find(t->sets[1], text);
}

size_t tokenizer_count_added(const tokenizer *t) { return t->n_added; }
const added_token *tokenizer_get_added(const tokenizer *t, size_t index) { return &t->added[index]; }
