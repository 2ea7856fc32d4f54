/* engine/core/lookup against a search by brute force, after every kind of change; its cost in steps; what it learns.
 *
 * link: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=mmap
 */
#include "engine/core/lookup.h"

#include "engine/base/mem.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    TEXT_MAX = 600,   /* longest text of the brute-force tests */
    ROOM = 1 << 16,   /* their capacity: so many buckets that strangers in a chain are rare */
    SURE = 24,        /* so many places in a class are all seen, with some strangers among them */
    DOUBLING = 32768, /* tokens of the longer text in tests of cost: from half of it on the chains are long enough */
};

/* ---- the wrapped functions ---- */

static int64_t allocations;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t n) {
    allocations++;
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size) {
    allocations++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n) {
    allocations++;
    return __real_realloc(p, n);
}

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
    allocations++;
    return __real_mmap(at, n, prot, flags, fd, offset);
}

/* ---- texts ---- */

static uint64_t dice_state;

static int32_t dice(int32_t sides) {
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((dice_state >> 33) % (uint64_t)sides);
}

static lookup *open_lookup(int32_t timeline_max, int32_t prediction_max, int32_t min_match) {
    lookup_options opt = { timeline_max, prediction_max, min_match };
    lookup *l;
    err e;
    if (lookup_new(&l, &opt, &e) != OK) fail_msg("%s", e.text);
    return l;
}

static lookup_match propose(const lookup *l) {
    lookup_match m;
    lookup_propose(l, &m);
    return m;
}

/* ---- brute force ---- */

typedef struct text {
    int32_t token[TEXT_MAX], n;
} text;

typedef struct model {
    text timeline, prediction;
    int32_t min_match;
} model;

typedef struct expected {
    int32_t len, end;  /* of the best place; len 0: none */
    int32_t gram;      /* shortest match of the class */
    int32_t places[2]; /* in that class: timeline, prediction */
    bool in_prediction;
} expected;

static int32_t common(const text *a, int32_t p, const text *b, int32_t q) {
    int32_t len = 0;
    while (len < LOOKUP_MATCH_MAX && len < p && len < q && a->token[p - len - 1] == b->token[q - len - 1]) len++;
    return len;
}

static int32_t match_at(const model *m, bool in_prediction, int32_t p) {
    return common(&m->timeline, m->timeline.n, in_prediction ? &m->prediction : &m->timeline, p);
}

static const text *text_of(const model *m, bool in_prediction) { return in_prediction ? &m->prediction : &m->timeline; }

static expected search(const model *m) {
    expected x = { 0 };
    for (int pred = 1; pred >= 0; pred--) {
        for (int32_t p = text_of(m, pred)->n - 1; p > 0; p--) {
            int32_t len = match_at(m, pred, p);
            if (len < m->min_match || len <= x.len) continue;
            x.len = len, x.end = p, x.in_prediction = pred;
        }
    }
    if (x.len == 0) return x;
    for (x.gram = m->min_match; 2 * x.gram <= x.len && 2 * x.gram <= LOOKUP_GRAM_MAX;) x.gram *= 2;
    for (int pred = 0; pred < 2; pred++)
        for (int32_t p = text_of(m, pred)->n - 1; p > 0; p--) x.places[pred] += match_at(m, pred, p) >= x.gram;
    return x;
}

/* The proposals and what the other places say, for a match whose places were all seen. */
static void check_proposals(const model *m, const expected *x, const lookup_match *got) {
    const text *from = text_of(m, x->in_prediction);
    int32_t n = x->in_prediction && from->n - x->end < DEPTH_MAX ? from->n - x->end : DEPTH_MAX;
    assert_int_equal(got->n, n);
    for (int32_t i = 0, at = x->end; i < n; i++, at++)
        assert_int_equal(got->token[i], at < from->n ? from->token[at] : got->token[at - from->n]);
    int32_t agreeing = 0;
    uint32_t contested = 0;
    for (int pred = 0; pred < 2; pred++) {
        const text *t = text_of(m, pred);
        for (int32_t p = 1; p < t->n; p++) {
            if (match_at(m, pred, p) < x->gram) continue;
            agreeing += t->token[p] == got->token[0];
            int32_t i = 0;
            while (i < n && p + i < t->n && t->token[p + i] == got->token[i]) i++;
            if (i < n && p + i < t->n) contested |= 1u << i;
        }
    }
    assert_int_equal(got->places, x->places[0] + x->places[1]);
    assert_int_equal(got->agreeing, agreeing);
    assert_int_equal(got->contested, contested);
}

static void check_probabilities(const lookup_match *m) {
    for (int32_t i = 0; i < m->n; i++) assert_true(m->p[i] >= 0 && m->p[i] < 1 && (i == 0 || m->p[i] <= m->p[i - 1]));
}

/* Returns whether the class was small enough for the match to be checked exactly. */
static bool check_match(const lookup *l, const model *m) {
    lookup_match got = propose(l);
    expected x = search(m);
    check_probabilities(&got);
    if (x.places[0] > SURE || x.places[1] > SURE) {
        assert_in_range(got.len, x.gram, x.len);
        assert_true(got.n > 0);
        return false;
    }
    assert_int_equal(got.len, x.len);
    if (x.len == 0) {
        assert_int_equal(got.n, 0);
        return true;
    }
    assert_int_equal(got.from_prediction, x.in_prediction);
    check_proposals(m, &x, &got);
    return true;
}

/* The same answer at the same cost. */
static void check_same(const lookup *l, const lookup *other) {
    lookup_match a = propose(l), b = propose(other);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.token, b.token, sizeof a.token);
    assert_memory_equal(a.p, b.p, sizeof a.p);
    assert_int_equal(a.contested, b.contested);
    assert_int_equal(a.len, b.len);
    assert_int_equal(a.places, b.places);
    assert_int_equal(a.agreeing, b.agreeing);
    assert_int_equal(a.from_prediction, b.from_prediction);
    assert_int_equal(a.work, b.work);
}

/* A lookup that saw the same texts in one piece answers alike. */
static void check_fresh(const lookup *l, const model *m) {
    lookup *fresh = open_lookup(ROOM, ROOM, m->min_match);
    lookup_add(fresh, m->timeline.token, m->timeline.n);
    lookup_set_prediction(fresh, m->prediction.token, m->prediction.n);
    check_same(l, fresh);
    lookup_free(fresh);
}

/* Appends up to n tokens: new ones, or a stretch of `from` with an edit here and there. */
static void grow(text *to, const text *from, int32_t n, int32_t alphabet) {
    int32_t at = from->n ? dice(from->n) : 0;
    bool copies = from->n && dice(2);
    for (int32_t i = 0; i < n && to->n < TEXT_MAX; i++, at++) {
        bool copied = copies && at < from->n && dice(16);
        to->token[to->n++] = copied ? from->token[at] : dice(alphabet);
    }
}

static void change_timeline(lookup *l, model *m, int32_t alphabet) {
    text *t = &m->timeline;
    int32_t before = t->n;
    if (dice(4)) {
        grow(t, dice(2) ? t : &m->prediction, 1 + dice(12), alphabet);
        lookup_add(l, t->token + before, t->n - before);
    } else {
        int32_t most = dice(8) ? 20 : t->n;
        t->n -= dice((most < t->n ? most : t->n) + 1);
        lookup_truncate(l, t->n);
    }
    assert_int_equal(lookup_len(l), t->n);
}

static void change_prediction(lookup *l, model *m, int32_t alphabet) {
    m->prediction.n = 0;
    if (dice(4)) grow(&m->prediction, &m->timeline, dice(120), alphabet);
    assert_int_equal(lookup_set_prediction(l, m->prediction.token, m->prediction.n), m->prediction.n);
}

static void test_brute_force(void **state) {
    (void)state;
    static const int32_t alphabets[] = { 1, 2, 3, 7, 40 }, mins[] = { 1, 2, 3, 5, 32 };
    int32_t exact = 0, all = 0;
    for (int32_t round = 0; round < 25; round++) {
        int32_t alphabet = alphabets[round % 5];
        static model m;
        m = (model){ .min_match = mins[round / 5] };
        lookup *l = open_lookup(ROOM, ROOM, m.min_match);
        dice_state = (uint64_t)round;
        for (int32_t change = 0; change < 300; change++, all++) {
            if (dice(15))
                change_timeline(l, &m, alphabet);
            else
                change_prediction(l, &m, alphabet);
            exact += check_match(l, &m);
            if (change % 50 == 49) check_fresh(l, &m);
            if (dice(200)) continue;
            lookup_begin(l, NULL, 0);
            m.timeline.n = m.prediction.n = 0;
        }
        lookup_free(l);
    }
    assert_true(exact >= all * 3 / 5); /* one letter alone can never be exact for long: at most four fifths */
}

/* ---- what the contract says in words ---- */

#define ADD(l, ...)                                                                                                    \
    lookup_add(l, (const int32_t[]){ __VA_ARGS__ }, (int32_t)(sizeof(int32_t[]){ __VA_ARGS__ } / sizeof(int32_t)))
#define PREDICT(l, ...)                                                                                                \
    lookup_set_prediction(l, (const int32_t[]){ __VA_ARGS__ },                                                         \
                          (int32_t)(sizeof(int32_t[]){ __VA_ARGS__ } / sizeof(int32_t)))

static void test_period_goes_on(void **state) {
    (void)state;
    lookup *l = open_lookup(100, 0, 2);
    ADD(l, 5, 1, 2, 3, 1, 2, 3);
    lookup_match m = propose(l);
    assert_int_equal(m.len, 3);
    assert_int_equal(m.n, DEPTH_MAX);
    for (int32_t i = 0; i < m.n; i++) assert_int_equal(m.token[i], 1 + i % 3);
    lookup_free(l);
}

static void test_nothing_long_enough(void **state) {
    (void)state;
    lookup *l = open_lookup(100, 0, 3);
    assert_int_equal(propose(l).n, 0);
    ADD(l, 1, 2, 3, 4, 2, 3);
    assert_int_equal(propose(l).n, 0); /* two tokens agree */
    lookup_truncate(l, 4);
    ADD(l, 1, 2, 3);
    assert_int_equal(propose(l).n, DEPTH_MAX);
    lookup_free(l);
}

/* `newer` places that match in two tokens behind an old one that matches in three. */
static lookup_match among(int32_t newer) {
    lookup *l = open_lookup(ROOM, 0, 2);
    ADD(l, 9, 1, 2, 50);
    for (int32_t i = 0; i < newer; i++) ADD(l, 1000 + i, 1, 2, 2000 + i);
    ADD(l, 9, 1, 2);
    lookup_match m = propose(l);
    lookup_free(l);
    return m;
}

static void test_walk_is_bounded(void **state) {
    (void)state;
    lookup_match m = among(LOOKUP_WALK - 1);
    assert_int_equal(m.len, 3);
    assert_int_equal(m.token[0], 50);
    assert_int_equal(m.places, LOOKUP_WALK);
    assert_int_equal(m.agreeing, 1);
    m = among(LOOKUP_WALK);
    assert_int_equal(m.len, 2); /* the newest is still found */
    assert_int_equal(m.token[0], 2000 + LOOKUP_WALK - 1);
}

static void test_prediction(void **state) {
    (void)state;
    lookup *l = open_lookup(100, 8, 2);
    ADD(l, 1, 2, 10, 1, 2);
    PREDICT(l, 7, 1, 2, 20, 21);
    lookup_match m = propose(l); /* equally long: the prediction, up to its end */
    assert_true(m.from_prediction);
    assert_int_equal(m.n, 2);
    assert_int_equal(m.token[0], 20);
    assert_int_equal(m.token[1], 21);
    assert_int_equal(m.contested, 1);
    assert_int_equal(m.places, 2);
    assert_int_equal(m.agreeing, 1);

    ADD(l, 10, 1, 2); /* now the timeline agrees in more tokens */
    m = propose(l);
    assert_false(m.from_prediction);
    assert_int_equal(m.len, 5);
    assert_int_equal(m.token[0], 10);

    lookup_truncate(l, 0); /* the prediction stays */
    ADD(l, 7, 1);
    assert_int_equal(propose(l).token[0], 2);
    ADD(l, 2, 20, 21);
    assert_int_equal(propose(l).n, 0); /* nothing follows its end */

    assert_int_equal(lookup_set_prediction(l, NULL, 0), 0);
    lookup_truncate(l, 2);
    assert_int_equal(propose(l).n, 0);
    assert_int_equal(PREDICT(l, 7, 1, 3, 3, 3, 3, 3, 8, 9, 9), 8); /* longer than there is room for */
    assert_int_equal(propose(l).n, 6);
    lookup_begin(l, NULL, 0);
    ADD(l, 7, 1);
    assert_int_equal(propose(l).n, 0);
    lookup_free(l);
}

/* ---- capacity ---- */

/* Fills a lookup of any size to its last token, empties it one way or the other, and fills it with something else: it
 * answers like one that held nothing before. */
static void test_full(void **state) {
    (void)state;
    for (int32_t max = 1; max <= 70; max++) {
        lookup *l = open_lookup(max, max, 1);
        for (int32_t round = 0; round < 4; round++) {
            lookup *fresh = open_lookup(max, max, 1);
            for (int32_t i = 0; i < max; i++) {
                int32_t token = i * i % (11 + round) % 5;
                lookup_add(l, &token, 1);
                lookup_add(fresh, &token, 1);
                check_same(l, fresh);
            }
            assert_int_equal(lookup_len(l), max);
            lookup_free(fresh);
            if (round % 2)
                lookup_truncate(l, 0);
            else
                lookup_begin(l, NULL, 0);
        }
        lookup_free(l);
    }
}

static void add_too_much(lookup *l) { ADD(l, 1, 2, 3); }
static void cut_too_far(lookup *l) { lookup_truncate(l, 9); }
static void accept_too_many(lookup *l) { lookup_feedback(l, &(lookup_match){ .n = 1 }, 1, 2); }

/* Callers that lost count end the process. */
static void test_misuse(void **state) {
    (void)state;
    static void (*const misuse[])(lookup * l) = { add_too_much, cut_too_far, accept_too_many };
    for (size_t i = 0; i < sizeof misuse / sizeof *misuse; i++) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGABRT, SIG_DFL);
            close(STDERR_FILENO);
            lookup *l = open_lookup(10, 0, 2);
            ADD(l, 0, 0, 0, 0, 0, 0, 0, 0);
            misuse[i](l);
            _exit(0);
        }
        int how;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
    }
}

static void test_million(void **state) {
    (void)state;
    enum { MILLION = 1000000, PIECE = 1000, TIERS = 5 };
    lookup_options opt = { MILLION, 0, 2 };
    assert_in_range(lookup_bytes(&opt), 1, 48 * MILLION + 64);
    opt.min_match = 1;
    assert_in_range(lookup_bytes(&opt), 1, 56 * MILLION + 64);
    lookup *l = open_lookup(MILLION, 0, 2);
    int64_t before = allocations, found = 0;
    dice_state = 1;
    for (int32_t n = 0; n < MILLION; n += PIECE) {
        int32_t piece[PIECE];
        for (int32_t i = 0; i < PIECE; i++) piece[i] = dice(100352);
        lookup_add(l, piece, PIECE);
        lookup_match m = propose(l);
        found += m.n > 0;
        assert_in_range(m.work, 0, 400); /* unlikely to match, so it is links and little else */
        lookup_add(l, piece, 0);
    }
    assert_in_range(found, 0, 5);
    assert_in_range(lookup_work(l), TIERS * (MILLION - 32), TIERS * MILLION);
    lookup_begin(l, NULL, 0);
    assert_int_equal(propose(l).n, 0);
    int64_t work = lookup_work(l);
    for (int32_t i = 0; i < 100; i++) lookup_add(l, &i, 1);
    lookup_begin(l, NULL, 0); /* a short text is not made to pay for the room of a long one */
    assert_in_range(lookup_work(l) - work, 1, 2 * 100 * TIERS);
    assert_int_equal(allocations, before);
    lookup_free(l);
}

/* ---- cost ---- */

static int32_t equal_token(int32_t i) { return i * 0; }
static int32_t period_token(int32_t i) { return i % 2; }
static int32_t dice_token(int32_t i) {
    if (i == 0) dice_state = 3;
    return dice(4);
}
/* Bits of a linear feedback register: within its period every run of 16 comes once, so matches are short and many. */
static int32_t register_token(int32_t i) {
    static uint32_t bits;
    if (i == 0) bits = 1;
    bits = bits >> 1 | (((bits ^ bits >> 2 ^ bits >> 3 ^ bits >> 5) & 1) << 15);
    return (int32_t)(bits & 1);
}

typedef struct cost {
    int64_t add, propose, cut;
    int32_t most; /* of one lookup_propose */
} cost;

/* A proposal after every token, from text and prediction, then everything cut in small steps. */
static cost measure(int32_t (*token)(int32_t i), int32_t n) {
    static int32_t all[DOUBLING];
    for (int32_t i = 0; i < n; i++) all[i] = token(i);
    lookup *l = open_lookup(DOUBLING, DOUBLING, 2);
    lookup_set_prediction(l, all, n / 2);
    int64_t start = lookup_work(l);
    cost c = { 0 };
    for (int32_t i = 0; i < n; i++) {
        lookup_add(l, &all[i], 1);
        lookup_match m = propose(l);
        c.propose += m.work;
        if (m.work > c.most) c.most = m.work;
    }
    c.add = lookup_work(l) - start;
    while (lookup_len(l) > 0) lookup_truncate(l, lookup_len(l) - 1 - lookup_len(l) / 100);
    c.cut = lookup_work(l) - start - c.add;
    lookup_free(l);
    return c;
}

static void test_cost_doubles_with_the_text(void **state) {
    (void)state;
    static int32_t (*const texts[])(int32_t i) = { equal_token, period_token, dice_token, register_token };
    /* both texts, every place of the walk: its link, its tokens before and behind; strangers in longer tiers */
    int32_t most = 2 * LOOKUP_WALK * (1 + LOOKUP_MATCH_MAX + 1 + DEPTH_MAX + 1) + 2 * LOOKUP_WALK * 4 + DEPTH_MAX;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cost half = measure(texts[i], DOUBLING / 2), full = measure(texts[i], DOUBLING);
        assert_in_range(full.add, 1, 5 * DOUBLING);
        assert_int_equal(full.cut, full.add);
        assert_in_range(full.most, 1, most);
        assert_true(full.propose <= half.propose * 21 / 10);
    }
}

/* The cost of a cut is that of what is cut, whatever lies before it. */
static void test_cut_costs_what_is_cut(void **state) {
    (void)state;
    lookup *l = open_lookup(DOUBLING, 0, 2);
    for (int32_t i = 0; i < DOUBLING; i++) lookup_add(l, &(int32_t){ 7 }, 1);
    for (int32_t i = 0; i < 1000; i++) {
        int64_t before = lookup_work(l);
        lookup_truncate(l, DOUBLING - 3);
        ADD(l, 7, i, 7);
        assert_int_equal(lookup_work(l) - before, 2 * 3 * 5);
    }
    lookup_free(l);
}

/* ---- probabilities ---- */

/* A timeline whose end matches an earlier place in `len` tokens; contested: a newer one goes on otherwise. */
static lookup_match match_of(lookup *l, int32_t len, bool contested) {
    lookup_truncate(l, 0);
    for (int32_t piece = 0; piece < 2 + contested; piece++) {
        ADD(l, 1000 + piece);
        for (int32_t i = 0; i < len; i++) lookup_add(l, &i, 1);
        if (piece < 1 + contested)
            for (int32_t i = 0; i < 40; i++) lookup_add(l, &(int32_t){ 2000 + 40 * piece + i }, 1);
    }
    lookup_match m = propose(l);
    assert_int_equal(m.len, len);
    assert_int_equal(m.contested, contested);
    return m;
}

static float right(lookup *l, int32_t len, bool contested) { return match_of(l, len, contested).p[0]; }

static void feed(lookup *l, int32_t len, bool contested, int32_t verified, int32_t accepted) {
    lookup_match m = match_of(l, len, contested);
    lookup_feedback(l, &m, verified, accepted);
}

/* A proposal is as good as a match that has grown by the proposals before it. */
static void test_path_is_a_product(void **state) {
    (void)state;
    lookup *l = open_lookup(ROOM, 0, 2);
    for (int contested = 0; contested < 2; contested++) {
        lookup_match m = match_of(l, 3, contested);
        float path = 1;
        for (int32_t i = 0; i < m.n; i++) {
            path *= right(l, 3 + i, contested && i == 0);
            assert_true(m.p[i] == path);
        }
    }
    assert_true(right(l, 2, false) < right(l, 4, false) && right(l, 31, false) < right(l, 32, false));
    for (int32_t len = 2; len <= 32; len *= 2) assert_true(right(l, len, true) < right(l, len, false));
    lookup_free(l);
}

static void test_feedback_stays_in_its_class(void **state) {
    (void)state;
    lookup *l = open_lookup(ROOM, 0, 2);
    float shorter = right(l, 3, false), contested = right(l, 4, true), longer = right(l, 8, false);
    for (int i = 0; i < 200; i++) feed(l, 5, false, 1, 1);
    assert_true(right(l, 4, false) == 0.995f && right(l, 7, false) == 0.995f);
    for (int i = 0; i < 200; i++) feed(l, 5, false, 1, 0);
    assert_true(right(l, 4, false) == 0.01f && right(l, 7, false) == 0.01f);
    assert_true(right(l, 3, false) == shorter && right(l, 4, true) == contested && right(l, 8, false) == longer);
    for (int i = 0; i < 200; i++) feed(l, 5, true, 1, 1);
    assert_true(right(l, 4, true) == 0.995f && right(l, 4, false) == 0.01f);
    lookup_free(l);
}

/* Of a match of 6 tokens: proposals 0 and 1 belong to the class of 4, 2 to 9 to that of 8, the next ones to 16. */
static void test_feedback_reaches_as_far_as_verified(void **state) {
    (void)state;
    lookup *l = open_lookup(ROOM, 0, 2);
    float four = right(l, 4, false), eight = right(l, 8, false), sixteen = right(l, 16, false);
    feed(l, 6, false, 0, 0);
    assert_true(right(l, 4, false) == four);
    feed(l, 6, false, 10, 2); /* two right, the third wrong, nothing known of the rest */
    assert_true(right(l, 4, false) > four);
    assert_true(right(l, 8, false) == eight + (0 - eight) / 16);
    assert_true(right(l, 16, false) == sixteen);
    eight = right(l, 8, false);
    feed(l, 6, false, 10, 10);
    assert_true(right(l, 8, false) > eight && right(l, 16, false) == sixteen);
    lookup_free(l);
}

/* The mean of 20000 estimates of a coin: standard error 0.0033 for p = 0.7 (the window of 16 does not change it), and
 * four of them are allowed. */
static void test_feedback_converges(void **state) {
    (void)state;
    lookup *l = open_lookup(ROOM, 0, 2);
    lookup_match m = match_of(l, 12, false);
    double sum = 0;
    dice_state = 11;
    for (int32_t i = 0; i < 20000; i++) {
        lookup_feedback(l, &m, 1, dice(10) < 7);
        sum += propose(l).p[0];
    }
    assert_true(sum / 20000 > 0.7 - 0.013 && sum / 20000 < 0.7 + 0.013);
    lookup_free(l);
}

static void test_reset_half_forgets(void **state) {
    (void)state;
    lookup *l = open_lookup(ROOM, 0, 2);
    float prior = right(l, 9, false);
    for (int i = 0; i < 200; i++) feed(l, 9, false, 1, 0);
    float learnt = right(l, 9, false);
    lookup_begin(l, NULL, 0);
    assert_true(right(l, 9, false) == 0.5f * (prior + learnt));
    lookup_free(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brute_force),
        cmocka_unit_test(test_period_goes_on),
        cmocka_unit_test(test_nothing_long_enough),
        cmocka_unit_test(test_walk_is_bounded),
        cmocka_unit_test(test_prediction),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_million),
        cmocka_unit_test(test_cost_doubles_with_the_text),
        cmocka_unit_test(test_cut_costs_what_is_cut),
        cmocka_unit_test(test_path_is_a_product),
        cmocka_unit_test(test_feedback_stays_in_its_class),
        cmocka_unit_test(test_feedback_reaches_as_far_as_verified),
        cmocka_unit_test(test_feedback_converges),
        cmocka_unit_test(test_reset_half_forgets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
