/* Hash chains over grams of a few lengths.
 *
 * For gram lengths k = min_match, 2 min_match, 4 min_match ... up to LOOKUP_GRAM_MAX ("tiers") every position is linked
 * to the one before it whose last k tokens fall into the same bucket. Adding writes one link and one head per tier. The
 * link holds what the head was, so cutting is the exact reverse, and the state after a cut is the one that was there
 * before. A search goes from the longest tier down and stops at the first with a true match: a longer match would have
 * shown in a longer tier. Only there are places compared token by token, a bounded number of them.
 *
 * Not taken: a suffix automaton or suffix tree. It finds the longest match exactly, at constant cost on average, but an
 * average does not hold when tokens are added and cut in turn, the newest occurrence would have to be carried up the
 * tree with every token, and it takes several times the memory. What the chains give up is small: among more than
 * LOOKUP_WALK places that agree in k tokens, an old one that agrees in up to 2k - 1 may be overlooked.
 *
 * Not taken either: one gram length. A short one has chains of thousands of places in ordinary text, with the long
 * match anywhere in them; a long one misses the renamed identifier two tokens ago. */
#include "engine/core/lookup.h"

#include "engine/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { TIERS_MAX = 6 }; /* grams of 1 .. LOOKUP_GRAM_MAX tokens, doubling */

/* Of an observation in the running estimates: a window of some tens of tokens, as long as a stretch of copying. */
static const float OBSERVED = 1.0f / 16;
/* Estimates stay inside: nothing observed makes a copy certain or hopeless. */
static const float RIGHT_MIN = 0.01f, RIGHT_MAX = 0.995f;
/* Where the estimates start, by the binary logarithm of the gram length. Guesses: tens of observed tokens replace them.
 */
typedef struct estimate {
    float right[2]; /* probability that the next proposal is right: uncontested, contested */
} estimate;
static const estimate PRIOR[TIERS_MAX] = {
    { { 0.25f, 0.12f } }, { { 0.40f, 0.20f } }, { { 0.55f, 0.30f } },
    { { 0.72f, 0.42f } }, { { 0.85f, 0.52f } }, { { 0.93f, 0.60f } },
};

/* One indexed text. Position p stands behind the first p tokens; 0 ends a chain, as no gram ends there.
 * Invariant: for every tier with grams of k tokens the positions k..n of a bucket form one descending chain from head.
 */
typedef struct corpus {
    int32_t *token; /* [max] */
    uint32_t *hash; /* [max + 1] of the first p tokens */
    int32_t *prev;  /* [max + 1][tiers] */
    int32_t *head;  /* [tiers][1 << bits] newest position of each bucket */
    int32_t n, max;
    int bits;
} corpus;

struct lookup {
    corpus timeline, prediction;
    int32_t min_match, tiers;
    uint32_t power[TIERS_MAX];                 /* the hash base to the power of the gram length */
    estimate prior[TIERS_MAX], now[TIERS_MAX]; /* [tier] */
    int64_t work;
    void *block;
    size_t bytes;
};

/* ---- one text ---- */

/* The hash of a text is a polynomial in an odd base, modulo 2^32; that of a gram follows from two of them. */
static const uint32_t HASH_BASE = 0x2C1B3C6Du, HASH_SPREAD = 0x9E3779B1u;

static int32_t gram_len(const lookup *l, int32_t tier) { return l->min_match << tier; }

/* Hash of the gram of this tier that ends at p. */
static uint32_t gram_hash(const lookup *l, const corpus *c, int32_t p, int32_t tier) {
    return c->hash[p] - c->hash[p - gram_len(l, tier)] * l->power[tier];
}

static int32_t *find_head(const corpus *c, uint32_t hash, int32_t tier) {
    return &c->head[((size_t)tier << c->bits) + (hash * HASH_SPREAD >> (32 - c->bits))];
}

static int32_t *find_prev(const lookup *l, const corpus *c, int32_t p, int32_t tier) {
    return &c->prev[(size_t)p * (size_t)l->tiers + (size_t)tier];
}

static void corpus_add(lookup *l, corpus *c, const int32_t *tokens, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        int32_t p = ++c->n;
        c->token[p - 1] = tokens[i];
        c->hash[p] = c->hash[p - 1] * HASH_BASE + (uint32_t)tokens[i];
        for (int32_t j = 0; j < l->tiers && gram_len(l, j) <= p; j++) {
            int32_t *head = find_head(c, gram_hash(l, c, p, j), j);
            *find_prev(l, c, p, j) = *head;
            *head = p;
            l->work++;
        }
    }
}

static void corpus_truncate(lookup *l, corpus *c, int32_t n) {
    for (; c->n > n; c->n--) {
        for (int32_t j = 0; j < l->tiers && gram_len(l, j) <= c->n; j++) {
            *find_head(c, gram_hash(l, c, c->n, j), j) = *find_prev(l, c, c->n, j);
            l->work++;
        }
    }
}

/* Heads are scattered, so undoing a long text costs more than wiping all of them in order; undoing a short one touches
 * no page that the text did not. */
static void corpus_clear(lookup *l, corpus *c) {
    size_t buckets = (size_t)1 << c->bits;
    if ((size_t)c->n < buckets / 8) {
        corpus_truncate(l, c, 0);
        return;
    }
    memset(c->head, 0, buckets * (size_t)l->tiers * sizeof *c->head);
    l->work += (int64_t)buckets * l->tiers;
    c->n = 0;
}

/* ---- life ---- */

static int32_t tiers_for(int32_t min_match) {
    int32_t tiers = 1;
    while (min_match << tiers <= LOOKUP_GRAM_MAX) tiers++;
    return tiers;
}

/* One bucket for one or two positions: fewer would put strangers into the chains, more would only take memory. */
static int bits_for(int32_t max) {
    int bits = 1;
    while (max >> (bits + 1)) bits++;
    return bits;
}

static void *carve(char **at, size_t words) {
    void *p = *at;
    if (p) *at += words * sizeof(int32_t);
    return p;
}

/* Lays a text of at most max tokens out from *at on; returns its bytes. *at NULL: measures only. */
static size_t corpus_place(corpus *c, int32_t max, int32_t tiers, char **at) {
    size_t positions = (size_t)max + 1, t = (size_t)tiers;
    *c = (corpus){ .max = max, .bits = bits_for(max) };
    size_t heads = t << c->bits;
    c->token = carve(at, (size_t)max);
    c->hash = carve(at, positions);
    c->prev = carve(at, positions * t);
    c->head = carve(at, heads);
    return ((size_t)max + positions + positions * t + heads) * sizeof(int32_t);
}

static void check_options(const lookup_options *opt) {
    CHECK(opt->timeline_max >= 1 && opt->timeline_max <= 1 << 30);
    CHECK(opt->prediction_max >= 0 && opt->prediction_max <= 1 << 30);
    CHECK(opt->min_match >= 1 && opt->min_match <= LOOKUP_GRAM_MAX);
}

size_t lookup_bytes(const lookup_options *opt) {
    check_options(opt);
    corpus c;
    char *nowhere = NULL;
    int32_t tiers = tiers_for(opt->min_match);
    return corpus_place(&c, opt->timeline_max, tiers, &nowhere) +
           corpus_place(&c, opt->prediction_max, tiers, &nowhere);
}

static void set_tiers(lookup *l) {
    for (int32_t j = 0; j < l->tiers; j++) {
        l->power[j] = 1;
        for (int32_t i = 0; i < gram_len(l, j); i++) l->power[j] *= HASH_BASE;
        int32_t log = 0;
        while (gram_len(l, j) >> (log + 1)) log++;
        l->prior[j] = l->now[j] = PRIOR[log];
    }
}

status lookup_new(lookup **out, const lookup_options *opt, err *e) {
    size_t bytes = lookup_bytes(opt);
    void *block;
    TRY(try_block(&block, bytes, "look-up of earlier text", e));
    lookup *l = xalloc(sizeof *l);
    l->block = block, l->bytes = bytes;
    l->min_match = opt->min_match;
    l->tiers = tiers_for(opt->min_match);
    char *at = block;
    corpus_place(&l->timeline, opt->timeline_max, l->tiers, &at);
    corpus_place(&l->prediction, opt->prediction_max, l->tiers, &at);
    set_tiers(l);
    *out = l;
    return OK;
}

void lookup_free(lookup *l) {
    if (!l) return;
    block_free(l->block, l->bytes);
    free(l);
}

void lookup_begin(lookup *l, const int32_t *tokens, int32_t n) {
    corpus *t = &l->timeline;
    CHECK(n >= 0 && n <= t->max);
    int32_t same = 0;
    while (same < n && same < t->n && t->token[same] == tokens[same]) same++;
    if (same)
        corpus_truncate(l, t, same);
    else
        corpus_clear(l, t);
    corpus_add(l, t, tokens + same, n - same);
    corpus_clear(l, &l->prediction);
    for (int32_t j = 0; j < l->tiers; j++)
        for (int i = 0; i < 2; i++) l->now[j].right[i] = 0.5f * (l->now[j].right[i] + l->prior[j].right[i]);
}

void lookup_add(lookup *l, const int32_t *tokens, int32_t n) {
    CHECK(n >= 0 && n <= l->timeline.max - l->timeline.n);
    corpus_add(l, &l->timeline, tokens, n);
}

void lookup_truncate(lookup *l, int32_t n) {
    CHECK(n >= 0 && n <= l->timeline.n);
    corpus_truncate(l, &l->timeline, n);
}

int32_t lookup_set_prediction(lookup *l, const int32_t *tokens, int32_t n) {
    CHECK(n >= 0);
    int32_t kept = n < l->prediction.max ? n : l->prediction.max;
    corpus_clear(l, &l->prediction);
    corpus_add(l, &l->prediction, tokens, kept);
    return kept;
}

int32_t lookup_len(const lookup *l) { return l->timeline.n; }

int64_t lookup_work(const lookup *l) { return l->work; }

/* ---- search ---- */

/* Where the end of the timeline occurred: the `len` tokens in front of position `end` are the same. */
typedef struct place {
    const corpus *in;
    int32_t end, len;
} place;

typedef struct search {
    place place[2 * LOOKUP_WALK];
    int32_t n, best;
    int32_t work;
} search;

/* Tokens that agree in front of position p of a and position q of b. */
static int32_t common_before(const corpus *a, int32_t p, const corpus *b, int32_t q) {
    int32_t max = p < q ? p : q, len = 0;
    if (max > LOOKUP_MATCH_MAX) max = LOOKUP_MATCH_MAX;
    while (len < max && a->token[p - 1 - len] == b->token[q - 1 - len]) len++;
    return len;
}

/* Collects the places of one chain. Strictly longer wins, so the first that is seen wins a tie. */
static void walk(search *s, const lookup *l, const corpus *in, int32_t p, int32_t tier) {
    const corpus *t = &l->timeline;
    for (int32_t links = 0; p != 0 && links < LOOKUP_WALK; links++, p = *find_prev(l, in, p, tier)) {
        s->work++;
        if (p == in->n) continue; /* nothing follows */
        int32_t len = common_before(t, t->n, in, p);
        s->work += len + 1;
        if (len < gram_len(l, tier)) continue; /* another gram in the same bucket */
        if (s->n == 0 || len > s->place[s->best].len) s->best = s->n;
        s->place[s->n++] = (place){ in, p, len };
    }
}

static void find_places(search *s, const lookup *l) {
    const corpus *t = &l->timeline, *pred = &l->prediction;
    /* what did not occur as a short gram did not occur as a long one: most steps end here */
    if (pred->n == 0 && (t->n < gram_len(l, 0) || *find_prev(l, t, t->n, 0) == 0)) return;
    for (int32_t tier = l->tiers - 1; tier >= 0 && s->n == 0; tier--) {
        if (gram_len(l, tier) > t->n) continue;
        if (pred->n) walk(s, l, pred, *find_head(pred, gram_hash(l, t, t->n, tier), tier), tier);
        walk(s, l, t, *find_prev(l, t, t->n, tier), tier);
    }
}

/* ---- proposals ---- */

/* What followed the place. A match of the timeline with itself that runs into its own end is a period, and goes on as
 * one. */
static void copy_from(lookup_match *out, const place *from, bool wraps) {
    int32_t there = from->in->n - from->end;
    out->n = wraps || there > DEPTH_MAX ? DEPTH_MAX : there;
    for (int32_t i = 0; i < out->n; i++)
        out->token[i] = i < there ? from->in->token[from->end + i] : out->token[i - there];
}

/* How the other places go on: alike, or from which depth on otherwise. */
static void hear_others(lookup_match *out, search *s) {
    for (int32_t k = 0; k < s->n; k++) {
        const place *o = &s->place[k];
        int32_t max = o->in->n - o->end, same = 0;
        if (max > out->n) max = out->n;
        while (same < max && o->in->token[o->end + same] == out->token[same]) same++;
        if (same < max) out->contested |= 1u << same;
        out->agreeing += same > 0;
        s->work += same + 1;
    }
}

/* Length class of proposal i: once the ones before it are right, the match has grown by them. */
static int32_t tier_at(const lookup *l, const lookup_match *m, int32_t i) {
    int32_t tier = l->tiers - 1;
    while (tier > 0 && gram_len(l, tier) > m->len + i) tier--;
    return tier;
}

static bool is_contested(const lookup_match *m, int32_t i) { return m->contested >> i & 1; }

void lookup_propose(const lookup *l, lookup_match *out) {
    search s = { 0 };
    *out = (lookup_match){ 0 };
    find_places(&s, l);
    if (s.n > 0) {
        const place *best = &s.place[s.best];
        out->len = best->len;
        out->places = s.n;
        out->from_prediction = best->in == &l->prediction;
        copy_from(out, best, !out->from_prediction);
        hear_others(out, &s);
    }
    float path = 1.0f;
    for (int32_t i = 0; i < out->n; i++) {
        path *= l->now[tier_at(l, out, i)].right[is_contested(out, i)];
        out->p[i] = path;
    }
    out->work = s.work + out->n;
}

void lookup_feedback(lookup *l, const lookup_match *m, int32_t verified, int32_t accepted) {
    CHECK(accepted >= 0 && accepted <= verified && verified <= m->n);
    int32_t seen = accepted < verified ? accepted + 1 : accepted; /* behind the first wrong one nothing is known */
    for (int32_t i = 0; i < seen; i++) {
        float *right = &l->now[tier_at(l, m, i)].right[is_contested(m, i)];
        float outcome = i < accepted ? 1.0f : 0.0f;
        *right += OBSERVED * (outcome - *right);
        if (*right < RIGHT_MIN) *right = RIGHT_MIN;
        if (*right > RIGHT_MAX) *right = RIGHT_MAX;
    }
}
