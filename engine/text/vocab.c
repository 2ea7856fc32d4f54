#include "engine/text/vocab.h"

#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <stdlib.h>

typedef struct token {
    str name, bytes; /* name.p NULL: no such token */
} token;

struct vocab {
    token *tokens; /* [limit] */
    int32_t limit;
    int32_t *slots; /* open addressing, linear probing, at most half full: ids by name, -1 empty */
    uint32_t mask;
    uint32_t n;
    size_t longest;
};

/* ---- bytes as characters ----
 *
 * Bytes that print as themselves in Latin-1 are their own character. The other 68, which are 0 to 32, 127 to 160 and
 * 173, are U+0100 and up in this order. */

enum { MOVED = 0x100 };

static uint32_t character_of(unsigned char byte) {
    if (byte < 33) return MOVED + byte;
    if (byte >= 127 && byte < 161) return MOVED + 33 + (byte - 127u);
    return byte == 173 ? MOVED + 67 : byte;
}

/* The byte that a character spells, -1 for none. */
static int byte_of(uint32_t cp) {
    if (cp >= MOVED + 68) return -1;
    int moved = (int)cp - MOVED;
    if (moved < 0) return character_of((unsigned char)cp) == cp ? (int)cp : -1;
    if (moved < 33) return moved;
    return moved < 67 ? moved - 33 + 127 : 173;
}

void vocab_spell(buf *out, str bytes) {
    char utf8[4];
    for (size_t i = 0; i < bytes.n; i++) buf_put(out, utf8, utf8_encode(character_of((unsigned char)bytes.p[i]), utf8));
}

/* The bytes that a name stands for: the name itself where they are the same. */
static str bytes_of(arena *mem, str name) {
    char *out = NULL;
    size_t n = 0;
    for (size_t i = 0; i < name.n;) {
        uint32_t cp = 0;
        size_t len = utf8_decode(str_from(name, i), &cp);
        int byte = byte_of(cp);
        if (byte < 0) return name;
        if (len > 1 && !out) {
            out = arena_alloc(mem, name.n);
            memcpy(out, name.p, n);
        }
        if (out) out[n] = (char)byte;
        n++;
        i += len;
    }
    return out ? (str){ out, n } : name;
}

/* ---- table ---- */

static uint32_t hash(str s) {
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < s.n; i++) h = (h ^ (unsigned char)s.p[i]) * 0x100000001B3u;
    return (uint32_t)(h ^ h >> 32);
}

/* Slot of the name, or the empty one where it belongs. */
static int32_t *find_slot(const vocab *v, str name) {
    for (uint32_t at = hash(name);; at++) {
        int32_t *slot = &v->slots[at & v->mask];
        if (*slot < 0 || str_eq(v->tokens[*slot].name, name)) return slot;
    }
}

static void set_slots(vocab *v, size_t n) {
    free(v->slots);
    v->slots = xalloc(n * sizeof *v->slots);
    v->mask = (uint32_t)n - 1;
    memset(v->slots, 0xFF, n * sizeof *v->slots);
    for (int32_t id = 0; id < v->limit; id++)
        if (v->tokens[id].name.p) *find_slot(v, v->tokens[id].name) = id;
}

static status add(vocab *v, arena *mem, str name, int64_t id, err *e) {
    if (id < 0 || id >= v->limit)
        return err_set(e, ERR_MODEL, "\"%.*s\" has id %lld; the model has ids from 0 to %d", STR_ARG(name),
                       (long long)id, v->limit - 1);
    token *t = &v->tokens[id];
    if (t->name.p)
        return err_set(e, ERR_MODEL, "\"%.*s\" and \"%.*s\" both have id %lld", STR_ARG(t->name), STR_ARG(name),
                       (long long)id);
    if (2 * (v->n + 1) > v->mask) set_slots(v, 2 * ((size_t)v->mask + 1));
    int32_t *slot = find_slot(v, name);
    if (*slot >= 0) return err_set(e, ERR_MODEL, "\"%.*s\" stands there twice", STR_ARG(name));
    *slot = (int32_t)id;
    v->n++;
    t->name = arena_str(mem, name);
    t->bytes = bytes_of(mem, t->name);
    if (name.n > v->longest) v->longest = name.n;
    return OK;
}

status vocab_new(vocab **out, arena *mem, const tokfile *f, int32_t limit, err *e) {
    CHECK(limit > 0 && limit < INT32_MAX / 4);
    vocab *v = xalloc(sizeof *v);
    v->limit = limit;
    v->tokens = xalloc((size_t)limit * sizeof *v->tokens);
    set_slots(v, 1024);
    tokfile_reader r;
    tokfile_reader_init(&r, f, f->vocab, "vocab");
    status s;
    for (;;) {
        str name;
        int64_t id;
        bool more;
        s = tokfile_next_id(&r, &name, &id, &more, e);
        if (s != OK || !more) break;
        s = add(v, mem, name, id, e);
        if (s != OK) {
            err_wrap(e, "tokenizer.json: model.vocab");
            break;
        }
    }
    tokfile_reader_deinit(&r);
    if (s != OK) {
        vocab_free(v);
        return s;
    }
    *out = v;
    return OK;
}

void vocab_free(vocab *v) {
    if (!v) return;
    free(v->tokens);
    free(v->slots);
    free(v);
}

int32_t vocab_find(const vocab *v, str name) { return *find_slot(v, name); }

static token get(const vocab *v, int32_t id) { return id >= 0 && id < v->limit ? v->tokens[id] : (token){ 0 }; }

str vocab_get_name(const vocab *v, int32_t id) { return get(v, id).name; }
str vocab_get_bytes(const vocab *v, int32_t id) { return get(v, id).bytes; }
size_t vocab_longest(const vocab *v) { return v->longest; }
