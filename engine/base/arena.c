#include "engine/base/arena.h"

#include "engine/base/mem.h"

#include <stdlib.h>

enum { CHUNK = 16 * 1024 };

typedef struct chunk {
    struct chunk *next;
    size_t used, cap;
    _Alignas(16) char data[];
} chunk;

typedef struct ending {
    struct ending *next;
    void (*end)(void *arg);
    void *arg;
} ending;

struct arena {
    chunk *head;
    ending *endings; /* in the arena */
    size_t held;
};

arena *arena_new(void) { return xalloc(sizeof(arena)); }

void arena_free(arena *a) {
    if (!a) return;
    for (ending *at = a->endings; at; at = at->next) at->end(at->arg);
    for (chunk *c = a->head; c;) {
        chunk *next = c->next;
        free(c);
        c = next;
    }
    free(a);
}

void *arena_alloc(arena *a, size_t bytes) {
    CHECK(bytes < (size_t)1 << 62);
    bytes = (bytes + 15) & ~(size_t)15;
    chunk *c = a->head;
    if (!c || c->cap - c->used < bytes) {
        size_t cap = bytes > CHUNK ? bytes : CHUNK;
        c = xalloc(sizeof *c + cap);
        c->cap = cap;
        c->next = a->head;
        a->head = c;
        a->held += sizeof *c + cap;
    }
    void *p = c->data + c->used;
    c->used += bytes;
    return p;
}

str arena_str(arena *a, str s) {
    char *p = arena_alloc(a, s.n + 1);
    if (s.n) memcpy(p, s.p, s.n);
    return (str){ p, s.n };
}

void arena_at_end(arena *a, void (*end)(void *arg), void *arg) {
    ending *e = arena_alloc(a, sizeof *e);
    *e = (ending){ a->endings, end, arg };
    a->endings = e;
}

size_t arena_bytes(const arena *a) { return a->held; }
