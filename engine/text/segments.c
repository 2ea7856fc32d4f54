#include "engine/text/segments.h"

#include "engine/base/hash.h"
#include "engine/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* A text has four places; they are as many as there are short texts in a few long conversations. */
enum { SETS = 2048, WAYS = 4 };

typedef struct segment {
    uint64_t hash;
    char *text; /* NULL: the place is free; the tokens lie behind it */
    size_t n, n_ids;
    int32_t *ids;
    int64_t used;
    bool guarded;
} segment;

struct segments {
    segment at[SETS][WAYS];
    size_t bytes_max;
    int64_t now;
    segments_stats stats;
};

segments *segments_new(size_t bytes_max) {
    segments *c = xalloc(sizeof *c);
    c->bytes_max = bytes_max;
    return c;
}

static size_t bytes_of(const segment *s) { return s->n + s->n_ids * sizeof *s->ids; }

static void drop(segments *c, segment *s) {
    if (!s->text) return;
    c->stats.bytes -= bytes_of(s);
    free(s->text);
    free(s->ids);
    *s = (segment){ 0 };
}

void segments_free(segments *c) {
    if (!c) return;
    for (int i = 0; i < SETS; i++)
        for (int w = 0; w < WAYS; w++) drop(c, &c->at[i][w]);
    free(c);
}

static uint64_t hash_of(str text, bool guarded) { return hash64_of(guarded, text.p, text.n); }

static segment *find(segments *c, uint64_t hash, str text, bool guarded) {
    segment *set = c->at[hash % SETS];
    for (int w = 0; w < WAYS; w++)
        if (set[w].text && set[w].hash == hash && set[w].guarded == guarded &&
            str_eq((str){ set[w].text, set[w].n }, text))
            return &set[w];
    return NULL;
}

bool segments_get(segments *c, str text, bool guarded, token_list *out) {
    if (text.n < SEGMENT_MIN) return false;
    segment *s = find(c, hash_of(text, guarded), text, guarded);
    c->stats.asked++;
    if (!s) return false;
    c->stats.found++;
    s->used = ++c->now;
    for (size_t i = 0; i < s->n_ids; i++) token_list_push(out, s->ids[i]);
    return true;
}

static segment *oldest_of(segments *c, uint64_t hash) {
    segment *set = c->at[hash % SETS], *oldest = set;
    for (int w = 1; w < WAYS && oldest->text; w++)
        if (!set[w].text || set[w].used < oldest->used) oldest = &set[w];
    return oldest;
}

static void drop_oldest(segments *c) {
    segment *oldest = NULL;
    for (int i = 0; i < SETS; i++)
        for (int w = 0; w < WAYS; w++) {
            segment *s = &c->at[i][w];
            if (s->text && (!oldest || s->used < oldest->used)) oldest = s;
        }
    drop(c, oldest);
}

void segments_put(segments *c, str text, bool guarded, const int32_t *ids, size_t n) {
    segment s = { .hash = hash_of(text, guarded), .n = text.n, .n_ids = n, .used = ++c->now, .guarded = guarded };
    if (text.n < SEGMENT_MIN || bytes_of(&s) > c->bytes_max / 4 || find(c, s.hash, text, guarded)) return;
    segment *to = oldest_of(c, s.hash);
    drop(c, to);
    while (c->stats.bytes + bytes_of(&s) > c->bytes_max) drop_oldest(c);
    s.text = xalloc(text.n);
    s.ids = xalloc((n + 1) * sizeof *s.ids);
    memcpy(s.text, text.p, text.n);
    if (n) memcpy(s.ids, ids, n * sizeof *ids);
    *to = s;
    c->stats.bytes += bytes_of(to);
}

segments_stats segments_get_stats(const segments *c) { return c->stats; }
