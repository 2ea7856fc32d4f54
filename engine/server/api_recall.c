#include "engine/server/api_recall.h"

#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/server/api_json.h"

#include <stdlib.h>
#include <string.h>

enum { MEMORIES = 1024 };

/* Call ids lead to reasoning and to arguments, contents to reasoning. */
typedef enum key_kind { KEY_CALL = 1, KEY_CONTENT, KEY_ARGUMENTS } key_kind;

/* Key and what it leads to lie one behind the other. */
typedef struct memory {
    uint64_t hash;
    char *bytes; /* NULL: free */
    size_t n_key, n;
} memory;

struct recall {
    memory at[MEMORIES];
    int next; /* the oldest one, or a free place */
    size_t bytes, bytes_max;
};

recall *recall_new(size_t bytes_max) {
    recall *r = xalloc(sizeof *r);
    r->bytes_max = bytes_max;
    return r;
}

static void forget(recall *r, memory *m) {
    r->bytes -= m->n;
    free(m->bytes);
    *m = (memory){ 0 };
}

void recall_free(recall *r) {
    for (int i = 0; r && i < MEMORIES; i++) forget(r, &r->at[i]);
    free(r);
}

size_t recall_bytes(const recall *r) { return r->bytes; }

static uint64_t hash_of(key_kind kind, str key) { return hash64_of((uint64_t)kind, key.p, key.n); }

/* The youngest one: the same content may have been thought of twice. */
static memory *find(recall *r, key_kind kind, str key) {
    uint64_t hash = hash_of(kind, key);
    for (int i = 1; i <= MEMORIES; i++) {
        memory *m = &r->at[(r->next - i + MEMORIES) % MEMORIES];
        if (m->bytes && m->hash == hash && str_eq((str){ m->bytes, m->n_key }, key)) return m;
    }
    return NULL;
}

static void remember(recall *r, key_kind kind, str key, str text) {
    size_t n = key.n + text.n;
    if (key.n == 0 || n > r->bytes_max / 4) return;
    memory *known = find(r, kind, key);
    if (known) forget(r, known);
    for (int i = 0; r->bytes + n > r->bytes_max && i < MEMORIES; i++) forget(r, &r->at[(r->next + i) % MEMORIES]);
    memory *m = &r->at[r->next];
    forget(r, m);
    *m = (memory){ .hash = hash_of(kind, key), .bytes = xalloc(n), .n_key = key.n, .n = n };
    memcpy(m->bytes, key.p, key.n);
    memcpy(m->bytes + key.n, text.p, text.n);
    r->bytes += n;
    r->next = (r->next + 1) % MEMORIES;
}

void recall_put(recall *r, str content, str call_ids, str reasoning) {
    if (reasoning.n == 0) return;
    for (size_t at = 0, n; at < call_ids.n; at += n + 1) {
        n = strlen(call_ids.p + at);
        remember(r, KEY_CALL, (str){ call_ids.p + at, n }, reasoning);
    }
    remember(r, KEY_CONTENT, content, reasoning);
}

void recall_put_call(recall *r, str id, str arguments) {
    if (arguments.n) remember(r, KEY_ARGUMENTS, id, arguments);
}

static str known_text(const memory *m) { return (str){ m->bytes + m->n_key, m->n - m->n_key }; }

static str text_of(const json_t *v) {
    return json_is_string(v) ? (str){ json_string_value(v), json_string_length(v) } : (str){ 0 };
}

/* Content is a text, or one part with a text. */
static str content_of(const json_t *message) {
    const json_t *content = json_object_get(message, "content");
    if (json_array_size(content) == 1) content = json_object_get(json_array_get(content, 0), "text");
    return text_of(content);
}

static const memory *find_message(recall *r, const json_t *message) {
    const json_t *calls = json_object_get(message, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const memory *m = find(r, KEY_CALL, text_of(json_object_get(json_array_get(calls, i), "id")));
        if (m) return m;
    }
    str content = content_of(message);
    return content.n ? find(r, KEY_CONTENT, content) : NULL;
}

static bool restore_reasoning(recall *r, json_t *message) {
    if (text_of(json_object_get(message, "reasoning")).n || text_of(json_object_get(message, "reasoning_content")).n)
        return false;
    const memory *m = find_message(r, message);
    if (!m) return false;
    json_object_del(message, "reasoning");
    json_object_set_new(message, "reasoning_content", json_stringn(known_text(m).p, known_text(m).n));
    return true;
}

static bool means_the_same(str a, str b) {
    json_error_t why;
    json_t *va = api_json_load(a, &why), *vb = api_json_load(b, &why);
    bool same = va && json_equal(va, vb);
    json_decref(va);
    json_decref(vb);
    return same;
}

static bool restore_arguments(recall *r, json_t *call) {
    const memory *m = find(r, KEY_ARGUMENTS, text_of(json_object_get(call, "id")));
    json_t *function = json_object_get(call, "function");
    str sent = text_of(json_object_get(function, "arguments"));
    if (!m || str_eq(sent, known_text(m)) || !means_the_same(sent, known_text(m))) return false;
    json_object_set_new(function, "arguments", json_stringn(known_text(m).p, known_text(m).n));
    return true;
}

int recall_restore(recall *r, json_t *messages) {
    int restored = 0;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *message = json_array_get(messages, i), *calls = json_object_get(message, "tool_calls");
        if (!str_eq(text_of(json_object_get(message, "role")), STR("assistant"))) continue;
        bool changed = restore_reasoning(r, message);
        for (size_t k = 0; k < json_array_size(calls); k++) changed |= restore_arguments(r, json_array_get(calls, k));
        restored += changed;
    }
    return restored;
}
