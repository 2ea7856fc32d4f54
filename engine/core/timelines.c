#include "engine/core/timelines_int.h"

#include "engine/base/mem.h"
#include "engine/base/num.h"
#include "kernels/kv_image.h"
#include "kernels/memory.h"

#include <stdlib.h>
#include <string.h>

/* A tail that is shorter than this is overwritten rather than kept by a fork: the answer that is asked for again. */
enum { FORK_TAIL = 512 };

/* ---- rings ---- */

/* Oldest position from which a window is whole if rows from `from` on are there. */
static int32_t first_start(int32_t window, int32_t from) { return from == 0 ? 0 : from + window - 1; }

size_t timelines_checkpoint_bytes(const target_config *t, const draft_config *d, dtype kv) {
    kv_store ring = { .heads = t->kv_heads, .size = t->head_dim, .type = kv };
    size_t bytes = 0, layer = kv_image_bytes(&ring, t->window + CHECKPOINT_SLACK);
    for (int32_t l = 0; l < t->layers; l++)
        if (t->layer[l].sliding) bytes += layer;
    if (d) {
        ring = (kv_store){ .heads = d->kv_heads, .size = d->head_dim, .type = DT_BF16 };
        bytes += (size_t)d->layers * kv_image_bytes(&ring, d->window + CHECKPOINT_SLACK);
    }
    return (bytes + 63) / 64 * 64;
}

typedef void ring_copy(const kv_store *s, int32_t from, int32_t to, char *image);

static void copy_out(const kv_store *s, int32_t from, int32_t to, char *image) { kv_image_save(s, from, to, image); }
static void copy_in(const kv_store *s, int32_t from, int32_t to, char *image) { kv_image_load(s, from, to, image); }

/* All rings between the images' oldest positions and the checkpoint. */
static void copy_rings(const timelines *tl, const checkpoint *c, ring_copy *copy) {
    char *at = c->image;
    for (int32_t l = 0; l < tl->t->kv.layers; l++) {
        const kv_store *s = &tl->t->kv.layer[l];
        if (s->kind != KV_RING) continue;
        copy(s, c->target_from, c->at.pos, at);
        at += kv_image_bytes(s, c->at.pos - c->target_from);
    }
    for (int32_t l = 0; tl->d && l < tl->d->cfg.layers; l++) {
        copy(&tl->d->ring[l], c->context_from, c->at.pos, at);
        at += kv_image_bytes(&tl->d->ring[l], c->at.pos - c->context_from);
    }
}

/* Slots of the target's rings; without any, nothing is ever overwritten. */
static int32_t find_ring_slots(const target *t) {
    for (int32_t l = 0; l < t->kv.layers; l++)
        if (t->kv.layer[l].kind == KV_RING) return t->kv.layer[l].slots;
    return INT32_MAX;
}

/* Rows up to `high` were written: what they displaced is gone. */
static void rings_written(timelines *tl, int32_t high) {
    tl->high = max_i32(tl->high, high);
    tl->target_from = max_i32(tl->target_from, tl->high - tl->ring_slots);
    if (tl->d) tl->context_from = max_i32(tl->context_from, tl->high - tl->d->ring[0].slots);
}

/* The draft's ring, filled below `have`, was filled up to `base` from the oldest position on that the draft sees there:
 * rows before that one were skipped, and never come. */
static void context_filled(timelines *tl, int32_t have, int32_t base) {
    if (tl->d && base - draft_window(tl) > have) tl->context_from = max_i32(tl->context_from, base - draft_window(tl));
}

static void catch_up(timelines *tl) {
    if (steps_lag(tl->s) > 0) context_filled(tl, steps_ctx_len(tl->s), steps_len(tl->s));
    steps_catch_up(tl->s);
    tl->context_len = steps_ctx_len(tl->s);
}

static void seek(timelines *tl, int32_t base, int32_t ctx_len) {
    steps_seek(tl->s, base, 0, ctx_len);
    tl->context_len = ctx_len;
}

/* First position where the live rings, all caught up, can start. */
static int32_t live_low(const timelines *tl) { return timelines_low_(tl, tl->target_from, tl->context_from); }

/* ---- pages ---- */

static double line_value(const timelines *tl, const line *l) { return prefix_value(l->n, tl->now - l->used); }

static void release_page(timelines *tl, int32_t page) {
    if (--tl->page_refs[page] == 0) tl->page_free[tl->n_free++] = page;
}

static void release_pages(timelines *tl, line *l, int32_t keep) {
    while (l->n_pages > keep) release_page(tl, l->page[--l->n_pages]);
}

static void drop_mark(timelines *tl, line *l, int32_t i) {
    tl->mark[l->mark[i]].refs--;
    memmove(l->mark + i, l->mark + i + 1, (size_t)(--l->n_marks - i) * sizeof *l->mark);
}

static void drop_line(timelines *tl, int32_t at) {
    line *l = &tl->line[at];
    release_pages(tl, l, 0);
    while (l->n_marks) drop_mark(tl, l, l->n_marks - 1);
    l->n = 0;
    l->taken = false;
    if (tl->live == at) tl->live = -1;
}

/* The remembered timeline that is worth least, -1: only the live one is left. */
static int32_t worst_line(const timelines *tl) {
    int32_t worst = -1;
    for (int32_t i = 0; i < TIMELINES_MAX; i++) {
        const line *l = &tl->line[i];
        if (!l->taken || i == tl->live || i == tl->pinned) continue;
        if (worst < 0 || line_value(tl, l) < line_value(tl, &tl->line[worst])) worst = i;
    }
    return worst;
}

static void evict_line(timelines *tl) {
    int32_t worst = worst_line(tl);
    CHECK(worst >= 0); /* the pages are more than one timeline needs */
    drop_line(tl, worst);
    tl->stats.evicted_lines++;
}

static int32_t take_page(timelines *tl) {
    while (tl->n_free == 0) evict_line(tl);
    int32_t page = tl->page_free[--tl->n_free];
    tl->page_refs[page] = 1;
    return page;
}

void timelines_reserve(timelines *tl, int32_t rows) {
    line *l = &tl->line[tl->live];
    int32_t need = (int32_t)(((int64_t)l->n + rows + KV_PAGE - 1) / KV_PAGE);
    CHECK(need <= tl->t->kv.n_table);
    for (; l->n_pages < need; l->n_pages++) {
        l->page[l->n_pages] = take_page(tl);
        target_kv_set_pages(&tl->t->kv, l->n_pages, &l->page[l->n_pages], 1);
    }
}

/* ---- lines ---- */

static int32_t new_line(timelines *tl) {
    int32_t at = 0;
    while (at < TIMELINES_MAX && tl->line[at].taken) at++;
    if (at == TIMELINES_MAX) {
        at = worst_line(tl);
        drop_line(tl, at);
        tl->stats.evicted_lines++;
    }
    line *l = &tl->line[at];
    if (!l->page) { /* for the longest conversation at once: steps do not allocate; what is not used is not touched */
        l->token = xalloc((size_t)tl->t->kv.n_table * KV_PAGE * sizeof *l->token);
        l->page = xalloc((size_t)tl->t->kv.n_table * sizeof *l->page);
        l->mark = xalloc((size_t)(tl->marks + 1) * sizeof *l->mark);
    }
    l->taken = true;
    return at;
}

static void push_tokens(line *l, const int32_t *token, int32_t n) {
    memcpy(l->token + l->n, token, (size_t)n * sizeof *token);
    l->n += n;
}

/* The line's first n tokens are all it holds. The page that will be written next must be its own. */
static void cut_line(timelines *tl, line *l, int32_t n) {
    CHECK(n <= l->n);
    l->n = n;
    while (l->n_marks && tl->mark[l->mark[l->n_marks - 1]].at.pos > n) drop_mark(tl, l, l->n_marks - 1);
    int32_t full = n / KV_PAGE;
    release_pages(tl, l, full + (n % KV_PAGE != 0));
    if (n % KV_PAGE == 0) return;
    while (tl->n_free == 0 && tl->page_refs[l->page[full]] > 1) evict_line(tl);
    if (tl->page_refs[l->page[full]] == 1) return;
    int32_t own = take_page(tl);
    target_kv_copy_page(&tl->t->kv, l->page[full], own, n % KV_PAGE);
    release_page(tl, l->page[full]);
    l->page[full] = own;
}

/* A second line with the first n tokens of line `of`. */
static int32_t fork_line(timelines *tl, int32_t of, int32_t n) {
    int32_t at = new_line(tl);
    line *l = &tl->line[at], *old = &tl->line[of];
    push_tokens(l, old->token, n);
    l->n_pages = (n + KV_PAGE - 1) / KV_PAGE;
    for (int32_t i = 0; i < l->n_pages; i++) tl->page_refs[l->page[i] = old->page[i]]++;
    for (int32_t i = 0; i < old->n_marks && tl->mark[old->mark[i]].at.pos <= n; i++) {
        l->mark[l->n_marks++] = old->mark[i];
        tl->mark[old->mark[i]].refs++;
    }
    tl->stats.forked++;
    return at;
}

/* ---- checkpoints ---- */

static double mark_value(const timelines *tl, const checkpoint *c) { return prefix_value(c->saves, tl->now - c->used); }

/* A free checkpoint, or the one that is worth least; -1 when each is worth more than `saves` tokens now. */
static int32_t free_mark(timelines *tl, int32_t saves) {
    int32_t worst = -1;
    for (int32_t i = 0; i < tl->marks; i++) {
        if (tl->mark[i].refs == 0) return i;
        if (i == tl->held) continue;
        if (worst < 0 || mark_value(tl, &tl->mark[i]) < mark_value(tl, &tl->mark[worst])) worst = i;
    }
    if (worst < 0 || mark_value(tl, &tl->mark[worst]) > (double)saves) return -1;
    for (int32_t k = 0; k < TIMELINES_MAX; k++)
        for (int32_t i = tl->line[k].n_marks - 1; i >= 0; i--)
            if (tl->line[k].mark[i] == worst) drop_mark(tl, &tl->line[k], i);
    tl->stats.evicted_marks++;
    return worst;
}

void timelines_mark(timelines *tl) {
    line *l = &tl->line[tl->live];
    if (tl->parted <= l->n) tl->parted = -1;
    if (tl->forget || l->n == 0) return;
    catch_up(tl);
    int32_t before = l->n_marks ? tl->mark[l->mark[l->n_marks - 1]].at.pos : 0;
    if (before == l->n) return;
    int32_t i = free_mark(tl, l->n - before);
    if (i < 0) return;
    checkpoint *c = &tl->mark[i];
    c->at.pos = l->n;
    c->target_from = max_i32(l->n - target_window(tl) - CHECKPOINT_SLACK, tl->target_from);
    c->context_from = max_i32(l->n - draft_window(tl) - CHECKPOINT_SLACK, tl->context_from);
    c->at.low = timelines_low_(tl, c->target_from, c->context_from);
    CHECK(c->at.low <= l->n);
    c->refs = 1, c->saves = l->n - before, c->used = tl->now;
    copy_rings(tl, c, copy_out);
    l->mark[l->n_marks++] = i;
}

/* ---- a request ---- */

static void line_views(const timelines *tl, prefix_line *out, prefix_mark *marks) {
    for (int32_t i = 0; i < TIMELINES_MAX; i++) {
        const line *l = &tl->line[i];
        out[i] = (prefix_line){ l->token, l->taken ? l->n : 0, marks, 0, l->n + 1 };
        if (!l->taken) continue;
        for (int32_t k = 0; k < l->n_marks; k++) *marks++ = tl->mark[l->mark[k]].at;
        out[i].n_marks = l->n_marks;
        if (i == tl->live) out[i].live_low = live_low(tl);
    }
}

static prefix_choice choose(const timelines *tl, const int32_t *token, int32_t n) {
    prefix_line view[TIMELINES_MAX];
    int32_t marks = 0;
    for (int32_t i = 0; i < TIMELINES_MAX; i++) marks += tl->line[i].n_marks;
    prefix_mark *mark = xalloc((size_t)(marks + 1) * sizeof *mark);
    line_views(tl, view, mark);
    prefix_choice c = prefix_choose(view, TIMELINES_MAX, token, n);
    free(mark);
    return c;
}

/* Before the rings are somebody else's: their state would be lost with the way that led there. */
static void leave_live(timelines *tl) {
    if (tl->live < 0) return;
    if (tl->forget)
        drop_line(tl, tl->live);
    else
        timelines_mark(tl);
    tl->live = -1;
}

static void enter_line(timelines *tl, int32_t at) {
    line *l = &tl->line[at];
    tl->live = at;
    target_kv_set_pages(&tl->t->kv, 0, l->page, l->n_pages);
}

static void restore(timelines *tl, checkpoint *c, int32_t start) {
    copy_rings(tl, c, copy_in);
    c->used = tl->now;
    tl->target_from = c->target_from, tl->context_from = c->context_from;
    tl->high = c->at.pos;
    seek(tl, start, start);
    tl->stats.restored++;
}

static void start_empty(timelines *tl) {
    leave_live(tl);
    enter_line(tl, new_line(tl));
    tl->high = tl->target_from = tl->context_from = 0;
    seek(tl, 0, 0);
}

static void start_from(timelines *tl, const prefix_choice *c) {
    int32_t at = c->line, mark = c->mark < 0 ? -1 : tl->line[at].mark[c->mark];
    tl->pinned = at;
    if (mark >= 0) {
        tl->mark[mark].refs++; /* cutting the line may let go of it, */
        tl->held = mark;       /* and leaving the live one wants a checkpoint */
        leave_live(tl);
    }
    if (tl->line[at].n - c->start >= FORK_TAIL) {
        tl->pinned = at = fork_line(tl, at, c->start);
        tl->live = -1; /* the old one may make room for the new one's page */
    }
    cut_line(tl, &tl->line[at], c->start);
    enter_line(tl, at);
    tl->pinned = -1;
    if (mark >= 0) {
        restore(tl, &tl->mark[mark], c->start);
        tl->mark[mark].refs--;
        tl->held = -1;
    } else {
        seek(tl, c->start, c->start);
    }
}

int32_t timelines_begin(timelines *tl, const int32_t *token, int32_t n, bool reuse) {
    CHECK(n >= 1);
    tl->now++;
    tl->stats.asked += n;
    prefix_choice c = { .line = -1 };
    if (reuse) c = choose(tl, token, n);
    if (c.line < 0)
        start_empty(tl);
    else
        start_from(tl, &c);
    tl->forget = !reuse;
    line *l = &tl->line[tl->live];
    l->used = tl->now;
    tl->parted = c.common > c.start && c.common < n - CHECKPOINT_SLACK ? c.common : -1;
    tl->stats.reused += l->n;
    return l->n;
}

int32_t timelines_chunk(const timelines *tl, int32_t most) {
    int32_t at = tl->line[tl->live].n, next = CHECKPOINT_EVERY - at % CHECKPOINT_EVERY;
    if (tl->parted > at) next = min_i32(next, tl->parted - at);
    return tl->forget || tl->marks == 0 ? most : min_i32(most, next);
}

void timelines_prefilled(timelines *tl, const int32_t *token, int32_t n) {
    timelines_step(tl, token, n, n);
    int32_t len = tl->line[tl->live].n;
    if (len % CHECKPOINT_EVERY == 0 || len == tl->parted) timelines_mark(tl);
}

void timelines_step(timelines *tl, const int32_t *token, int32_t n, int32_t rows) {
    line *l = &tl->line[tl->live];
    int32_t ctx_len = steps_ctx_len(tl->s);
    if (ctx_len > tl->context_len) context_filled(tl, tl->context_len, l->n);
    tl->context_len = ctx_len;
    rings_written(tl, l->n + rows);
    push_tokens(l, token, n);
}

void timelines_end(timelines *tl, int32_t n) {
    line *l = &tl->line[tl->live];
    if (n < l->n) {
        cut_line(tl, l, n);
        enter_line(tl, tl->live);
        seek(tl, n, min_i32(steps_ctx_len(tl->s), n));
    }
    if (tl->forget)
        drop_line(tl, tl->live);
    else
        timelines_mark(tl); /* the next prompt goes on here, and the one after it may change what comes next */
}

int32_t timelines_len(const timelines *tl) { return tl->live < 0 ? 0 : tl->line[tl->live].n; }

timelines_stats timelines_get_stats(const timelines *tl) {
    timelines_stats st = tl->stats;
    st.pages = tl->t->kv.n_pages, st.pages_used = st.pages - tl->n_free;
    for (int32_t i = 0; i < TIMELINES_MAX; i++) st.timelines += tl->line[i].taken;
    for (int32_t i = 0; i < tl->marks; i++) st.checkpoints += tl->mark[i].refs > 0;
    return st;
}

/* ---- for timelines_disk.c ---- */

int32_t timelines_low_(const timelines *tl, int32_t target_from, int32_t context_from) {
    int32_t low = first_start(target_window(tl), target_from);
    return tl->d ? max_i32(low, first_start(draft_window(tl), context_from)) : low;
}

double timelines_value_(const timelines *tl, const line *l) { return line_value(tl, l); }
int32_t timelines_take_page_(timelines *tl) { return take_page(tl); }
void timelines_drop_line_(timelines *tl, int32_t at) { drop_line(tl, at); }

int32_t timelines_add_line_(timelines *tl, const int32_t *token, int32_t n) {
    int32_t at = new_line(tl);
    push_tokens(&tl->line[at], token, n);
    return at;
}

/* ---- life ---- */

status timelines_open(timelines **out, target *t, const draft *d, steps *s, int32_t checkpoints, err *e) {
    CHECK(checkpoints >= 0 && checkpoints <= CHECKPOINTS_MAX);
    size_t one = timelines_checkpoint_bytes(&t->cfg, d ? &d->cfg : NULL, t->kv.type), bytes = one * (size_t)checkpoints;
    void *images = NULL;
    if (bytes) TRY(memory_alloc(t->on, &images, bytes, "checkpoints of the sliding layers", e));
    timelines *tl = xalloc(sizeof *tl);
    *tl =
        (timelines){ .t = t, .d = d, .s = s, .live = -1, .pinned = -1, .held = -1, .parted = -1, .marks = checkpoints };
    tl->images = images, tl->image_bytes = bytes;
    tl->ring_slots = find_ring_slots(t);
    tl->mark = xalloc((size_t)(checkpoints + 1) * sizeof *tl->mark);
    for (int32_t i = 0; i < checkpoints; i++) tl->mark[i].image = (char *)images + one * (size_t)i;
    tl->page_refs = xalloc((size_t)t->kv.n_pages * sizeof *tl->page_refs);
    tl->page_free = xalloc((size_t)t->kv.n_pages * sizeof *tl->page_free);
    while (tl->n_free < t->kv.n_pages) { /* the lowest is taken first: short use touches little memory */
        tl->page_free[tl->n_free] = t->kv.n_pages - 1 - tl->n_free;
        tl->n_free++;
    }
    *out = tl;
    return OK;
}

void timelines_close(timelines *tl) {
    if (!tl) return;
    for (int32_t i = 0; i < TIMELINES_MAX; i++) {
        free(tl->line[i].token);
        free(tl->line[i].page);
        free(tl->line[i].mark);
    }
    memory_free(tl->t->on, tl->images, tl->image_bytes);
    free(tl->mark);
    free(tl->page_refs);
    free(tl->page_free);
    free(tl);
}
