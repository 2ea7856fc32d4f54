#include "engine/core/timelines_disk.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/num.h"
#include "engine/core/cache_dir.h"
#include "engine/core/timelines_int.h"
#include "kernels/kv_image.h"
#include "kernels/memory.h"

#include <stdlib.h>
#include <string.h>

enum { WORTH_SAVING = 64 }; /* tokens: fewer are computed sooner than read */

/* ---- sizes ---- */

/* Bytes of `rows` rows in all layers of one kind. */
static int64_t layers_bytes(const kv_store *s, int32_t layers, kv_kind kind, int32_t rows) {
    int64_t bytes = 0;
    for (int32_t l = 0; l < layers; l++)
        if (s[l].kind == kind) bytes += (int64_t)kv_image_bytes(&s[l], rows);
    return bytes;
}

static int64_t target_bytes(const timelines *tl, kv_kind kind, int32_t rows) {
    return layers_bytes(tl->t->kv.layer, tl->t->kv.layers, kind, rows);
}

/* A checkpoint's image, which timelines.c packs without gaps. */
static int64_t image_bytes(const timelines *tl, const cache_mark *m) {
    int64_t bytes = target_bytes(tl, KV_RING, m->pos - m->target_from);
    if (tl->d) bytes += layers_bytes(tl->d->ring, tl->d->cfg.layers, KV_RING, m->pos - m->context_from);
    return bytes;
}

static int64_t body_bytes(const timelines *tl, int32_t tokens, const cache_mark *mark, int32_t marks) {
    int64_t bytes = target_bytes(tl, KV_PAGES, tokens);
    for (int32_t i = 0; i < marks; i++) bytes += image_bytes(tl, &mark[i]);
    return bytes;
}

/* Room for the rows of one page in any one layer. */
static void *page_buffer(const timelines *tl) { return xalloc((size_t)target_bytes(tl, KV_PAGES, KV_PAGE) + 1); }

/* Layer l through a line's own page table. */
static kv_store store_of(const timelines *tl, int32_t l, const line *of) {
    kv_store s = tl->t->kv.layer[l];
    s.pages = of->page;
    return s;
}

/* ---- saving ---- */

/* Tokens up to the last checkpoint. */
static int32_t saved_len(const timelines *tl, const line *l) {
    return l->taken && l->n_marks ? tl->mark[l->mark[l->n_marks - 1]].at.pos : 0;
}

static status put_pages(const timelines *tl, const line *of, int32_t n, cache_writer *w, void *rows, err *e) {
    for (int32_t from = 0; from < n; from += KV_PAGE) {
        int32_t to = min_i32(from + KV_PAGE, n);
        for (int32_t l = 0; l < tl->t->kv.layers; l++) {
            kv_store s = store_of(tl, l, of);
            if (s.kind != KV_PAGES) continue;
            kv_image_save(&s, from, to, rows);
            TRY(cache_writer_put(w, rows, kv_image_bytes(&s, to - from), e));
        }
    }
    return OK;
}

/* Files are written from the host's memory, and read into it. */
static status put_image(const timelines *tl, const char *image, size_t bytes, cache_writer *w, err *e) {
    if (!tl->t->on) return cache_writer_put(w, image, bytes, e);
    char *copy = xalloc(bytes);
    memory_copy(tl->t->on, copy, image, bytes);
    memory_wait(tl->t->on);
    status s = cache_writer_put(w, copy, bytes, e);
    free(copy);
    return s;
}

static status get_image(const timelines *tl, char *image, size_t bytes, cache_reader *r, err *e) {
    if (!tl->t->on) return cache_reader_get(r, image, bytes, e);
    char *copy = xalloc(bytes);
    status s = cache_reader_get(r, copy, bytes, e);
    if (s == OK) memory_copy(tl->t->on, image, copy, bytes);
    memory_wait(tl->t->on);
    free(copy);
    return s;
}

static status put_body(const timelines *tl, const line *of, int32_t n, const cache_mark *mark, cache_writer *w,
                       void *rows, err *e) {
    TRY(cache_writer_put(w, mark, (size_t)of->n_marks * sizeof *mark, e));
    TRY(put_pages(tl, of, n, w, rows, e));
    for (int32_t i = 0; i < of->n_marks; i++)
        TRY(put_image(tl, tl->mark[of->mark[i]].image, (size_t)image_bytes(tl, &mark[i]), w, e));
    return OK;
}

/* What one save is about. */
typedef struct saving {
    int dir;
    uint64_t fingerprint;
    void *rows;
    char name[TIMELINES_MAX][CACHE_NAME_MAX]; /* written so far */
    size_t n;
    int64_t tokens, bytes;
} saving;

static int64_t age_of(const timelines *tl, int64_t used) {
    int64_t age = tl->now - used;
    return age < CACHE_AGE_MAX ? age : CACHE_AGE_MAX;
}

static status save_line(const timelines *tl, const line *l, saving *sv, err *e) {
    int32_t n = saved_len(tl, l);
    cache_mark *mark = xalloc((size_t)l->n_marks * sizeof *mark);
    for (int32_t i = 0; i < l->n_marks; i++) {
        const checkpoint *c = &tl->mark[l->mark[i]];
        mark[i] = (cache_mark){ .low = c->at.low,
                                .pos = c->at.pos,
                                .target_from = c->target_from,
                                .context_from = c->context_from,
                                .saves = c->saves,
                                .age = age_of(tl, c->used) };
    }
    cache_head h = { .fingerprint = sv->fingerprint,
                     .tokens = n,
                     .marks = l->n_marks,
                     .age = age_of(tl, l->used),
                     .body = body_bytes(tl, n, mark, l->n_marks) };
    cache_writer w;
    status s = cache_writer_open(&w, sv->dir, &h, l->token, e);
    if (s == OK) {
        s = put_body(tl, l, n, mark, &w, sv->rows, e);
        if (s == OK)
            s = cache_writer_end(&w, e);
        else
            cache_writer_abort(&w);
    }
    free(mark);
    if (s != OK) return s;
    memcpy(sv->name[sv->n++], w.name, sizeof w.name);
    sv->tokens += n, sv->bytes += cache_file_bytes(&h);
    return OK;
}

/* The lines that are worth saving, most valuable first: the disk may fill up. */
static int32_t order_lines(const timelines *tl, const line *out[TIMELINES_MAX]) {
    int32_t n = 0;
    for (int32_t i = 0; i < TIMELINES_MAX; i++) {
        const line *l = &tl->line[i];
        if (saved_len(tl, l) < WORTH_SAVING) continue;
        int32_t at = n++;
        for (; at > 0 && timelines_value_(tl, out[at - 1]) < timelines_value_(tl, l); at--) out[at] = out[at - 1];
        out[at] = l;
    }
    return n;
}

status timelines_save(const timelines *tl, const char *dir, uint64_t fingerprint, err *e) {
    if (tl->now == 0) return OK;
    int64_t start = clock_ns();
    const line *order[TIMELINES_MAX];
    int32_t n = order_lines(tl, order);
    saving sv = { .fingerprint = fingerprint };
    TRY(cache_dir_open(&sv.dir, dir, e));
    sv.rows = page_buffer(tl);
    status s = OK;
    for (int32_t i = 0; i < n && s == OK; i++) s = save_line(tl, order[i], &sv, e);
    if (s == OK) s = cache_dir_sync(sv.dir, e);
    if (s == OK) cache_dir_tidy(sv.dir, fingerprint, sv.name, sv.n);
    free(sv.rows);
    cache_dir_close(sv.dir);
    if (s != OK) return err_wrap(e, "%s: saved %zu of %d conversations", dir, sv.n, n);
    log_info("cache", "%s: saved %zu conversations, %lld tokens, %.1f MiB in %.0f ms", dir, sv.n, (long long)sv.tokens,
             (double)sv.bytes / 1048576.0, clock_ms(clock_ns() - start));
    return OK;
}

/* ---- loading ---- */

/* One file that is about to become a line. */
typedef struct loading {
    timelines *tl;
    cache_reader *r;
    int32_t n;       /* tokens */
    int32_t *token;  /* [n] */
    cache_mark *at;  /* [marks] */
    int32_t marks;   /* checkpoints in the file */
    int32_t skipped; /* of these, the first ones are left out for lack of room */
    int32_t twin;    /* line with which it shares `shared` full pages; -1: none */
    int32_t shared;
} loading;

static status get_tokens(loading *ld, err *e) {
    int32_t vocab = ld->tl->t->cfg.vocab;
    TRY(cache_reader_get(ld->r, ld->token, (size_t)ld->n * sizeof *ld->token, e));
    for (int32_t i = 0; i < ld->n; i++)
        if (ld->token[i] < 0 || ld->token[i] >= vocab)
            return cache_reader_damaged(ld->r, e, "token %d is %d; the vocabulary has 0 to %d", i, ld->token[i],
                                        vocab - 1);
    return OK;
}

static bool is_span(int32_t from, int32_t pos, int32_t window) {
    return from >= 0 && from <= pos && pos - from <= window + CHECKPOINT_SLACK;
}

static bool is_mark(const timelines *tl, const cache_mark *m, int32_t after, int32_t n) {
    return m->pos > after && m->pos <= n && is_span(m->target_from, m->pos, target_window(tl)) &&
           is_span(m->context_from, m->pos, draft_window(tl)) && m->low <= m->pos &&
           m->low == timelines_low_(tl, m->target_from, m->context_from) && m->saves >= 0 && m->saves <= m->pos &&
           m->zero == 0 && m->age >= 0 && m->age <= CACHE_AGE_MAX;
}

static status get_marks(loading *ld, err *e) {
    TRY(cache_reader_get(ld->r, ld->at, (size_t)ld->marks * sizeof *ld->at, e));
    for (int32_t i = 0; i < ld->marks; i++)
        if (!is_mark(ld->tl, &ld->at[i], i ? ld->at[i - 1].pos : 0, ld->n))
            return cache_reader_damaged(ld->r, e, "checkpoint %d at position %d makes no sense", i, ld->at[i].pos);
    if (ld->at[ld->marks - 1].pos != ld->n)
        return cache_reader_damaged(ld->r, e, "its last checkpoint is not at its end");
    int64_t want = body_bytes(ld->tl, ld->n, ld->at, ld->marks);
    if (want != ld->r->head.body)
        return cache_reader_damaged(ld->r, e, "a body of %lld bytes, expected %lld", (long long)ld->r->head.body,
                                    (long long)want);
    return OK;
}

/* The loaded line that has most in common: equal tokens have equal rows, so that full pages are shared as they were
 * when the two grew from one prefix. */
static void find_twin(loading *ld) {
    ld->twin = -1;
    for (int32_t i = 0; i < TIMELINES_MAX; i++) {
        const line *l = &ld->tl->line[i];
        int32_t same = 0, most = l->taken ? min_i32(l->n, ld->n) : 0;
        while (same < most && l->token[same] == ld->token[same]) same++;
        if (same / KV_PAGE > ld->shared) ld->twin = i, ld->shared = same / KV_PAGE;
    }
}

/* The twin's checkpoint of the same place within the shared pages, -1: none. */
static int32_t find_shared_mark(const loading *ld, const cache_mark *m) {
    if (ld->twin < 0 || m->pos > ld->shared * KV_PAGE) return -1;
    const line *l = &ld->tl->line[ld->twin];
    for (int32_t i = 0; i < l->n_marks; i++) {
        const checkpoint *c = &ld->tl->mark[l->mark[i]];
        if (c->at.pos == m->pos && c->target_from == m->target_from && c->context_from == m->context_from)
            return l->mark[i];
    }
    return -1;
}

/* Is there room for all its own pages and, leaving one for every file behind it, for one checkpoint or more? */
static bool find_room(loading *ld, int32_t waiting) {
    const timelines *tl = ld->tl;
    int32_t free_lines = 0, free_marks = 0;
    for (int32_t i = 0; i < TIMELINES_MAX; i++) free_lines += !tl->line[i].taken;
    for (int32_t i = 0; i < tl->marks; i++) free_marks += tl->mark[i].refs == 0;
    if (free_lines == 0 || tl->n_free < (ld->n + KV_PAGE - 1) / KV_PAGE - ld->shared) return false;
    int32_t quota = free_marks > waiting ? free_marks - waiting : free_marks > 0;
    ld->skipped = ld->marks;
    while (ld->skipped > 0) {
        bool own = find_shared_mark(ld, &ld->at[ld->skipped - 1]) < 0;
        if (own && quota == 0) break;
        quota -= own;
        ld->skipped--;
    }
    return ld->skipped < ld->marks;
}

static status get_pages(loading *ld, line *l, void *rows, err *e) {
    for (int32_t from = 0; from < ld->n; from += KV_PAGE) {
        int32_t to = min_i32(from + KV_PAGE, ld->n), page = from / KV_PAGE;
        if (page < ld->shared) {
            l->page[page] = ld->tl->line[ld->twin].page[page];
            ld->tl->page_refs[l->page[page]]++;
        } else {
            l->page[page] = timelines_take_page_(ld->tl);
        }
        l->n_pages++;
        if (page < ld->shared) {
            TRY(cache_reader_skip(ld->r, target_bytes(ld->tl, KV_PAGES, to - from), e));
            continue;
        }
        for (int32_t i = 0; i < ld->tl->t->kv.layers; i++) {
            kv_store s = store_of(ld->tl, i, l);
            if (s.kind != KV_PAGES) continue;
            TRY(cache_reader_get(ld->r, rows, kv_image_bytes(&s, to - from), e));
            kv_image_load(&s, from, to, rows);
        }
    }
    return OK;
}

static int32_t free_mark(const timelines *tl) {
    int32_t i = 0;
    while (tl->mark[i].refs) i++; /* find_room has counted them */
    return i;
}

static status get_images(loading *ld, line *l, err *e) {
    timelines *tl = ld->tl;
    for (int32_t i = 0; i < ld->marks; i++) {
        const cache_mark *m = &ld->at[i];
        int64_t bytes = image_bytes(tl, m);
        int32_t shared = i < ld->skipped ? -1 : find_shared_mark(ld, m), at = shared;
        if (i >= ld->skipped && shared < 0) {
            at = free_mark(tl);
            checkpoint *c = &tl->mark[at];
            c->at = (prefix_mark){ m->low, m->pos };
            c->target_from = m->target_from, c->context_from = m->context_from;
            c->saves = m->saves, c->used = tl->now - m->age;
        }
        if (at >= 0) {
            tl->mark[at].refs++;
            l->mark[l->n_marks++] = at;
        }
        if (at >= 0 && shared < 0)
            TRY(get_image(tl, tl->mark[at].image, (size_t)bytes, ld->r, e));
        else
            TRY(cache_reader_skip(ld->r, bytes, e));
    }
    return OK;
}

/* Everything behind the tables. Until the sum was right the line may hold anything, so a failure takes it back. */
static status fill_line(loading *ld, void *rows, err *e) {
    int32_t at = timelines_add_line_(ld->tl, ld->token, ld->n);
    line *l = &ld->tl->line[at];
    l->used = ld->tl->now - ld->r->head.age;
    status s = get_pages(ld, l, rows, e);
    if (s == OK) s = get_images(ld, l, e);
    if (s == OK) s = cache_reader_end(ld->r, e);
    if (s != OK) timelines_drop_line_(ld->tl, at);
    return s;
}

/* *fits false: whole as far as one can see, but there is no room for it. waiting: files that come behind it. */
static status load_file(timelines *tl, cache_reader *r, int32_t waiting, void *rows, bool *fits, err *e) {
    loading ld = { .tl = tl, .r = r, .n = r->head.tokens, .marks = r->head.marks };
    *fits = ld.n <= tl->t->kv.ctx;
    if (!*fits) return OK;
    if (ld.marks > ld.n) return cache_reader_damaged(r, e, "%d checkpoints for %d tokens", ld.marks, ld.n);
    ld.token = xalloc((size_t)ld.n * sizeof *ld.token);
    ld.at = xalloc((size_t)ld.marks * sizeof *ld.at);
    status s = get_tokens(&ld, e);
    if (s == OK) s = get_marks(&ld, e);
    if (s == OK) {
        find_twin(&ld);
        *fits = find_room(&ld, waiting);
        if (*fits) s = fill_line(&ld, rows, e);
    }
    free(ld.token);
    free(ld.at);
    return s;
}

static int by_value(const void *a, const void *b) {
    const cache_head *x = &((const cache_entry *)a)->head, *y = &((const cache_entry *)b)->head;
    double vx = prefix_value(x->tokens, x->age), vy = prefix_value(y->tokens, y->age);
    return vx > vy ? -1 : vx < vy ? 1 : strcmp(((const cache_entry *)a)->name, ((const cache_entry *)b)->name);
}

static void load_all(timelines *tl, const char *path, int dir, cache_entry *entry, size_t n) {
    int64_t start = clock_ns(), tokens = 0;
    int32_t loaded = 0, left_out = 0;
    void *rows = page_buffer(tl);
    qsort(entry, n, sizeof *entry, by_value);
    for (size_t i = 0; i < n; i++) {
        cache_reader r;
        bool fits = true;
        err why;
        int32_t waiting = n - i - 1 < TIMELINES_MAX ? (int32_t)(n - i - 1) : TIMELINES_MAX;
        status s = cache_reader_open(&r, dir, entry[i].name, entry[i].head.fingerprint, &why);
        if (s == OK) {
            s = load_file(tl, &r, waiting, rows, &fits, &why);
            cache_reader_close(&r);
        }
        if (s != OK)
            log_warn("cache", "%s; it is left aside", why.text);
        else if (fits)
            loaded++, tokens += r.head.tokens;
        else
            left_out++;
    }
    free(rows);
    log_info("cache", "%s: restored %d conversations, %lld tokens in %.0f ms; no room for %d", path, loaded,
             (long long)tokens, clock_ms(clock_ns() - start), left_out);
}

status timelines_load(timelines *tl, const char *path, uint64_t fingerprint, err *e) {
    int dir;
    cache_entry *entry = NULL;
    size_t n = 0;
    TRY(cache_dir_open(&dir, path, e));
    status s = cache_dir_list(dir, fingerprint, &entry, &n, e);
    if (s == OK) {
        load_all(tl, path, dir, entry, n);
        s = cache_dir_can_write(dir, e);
    }
    free(entry);
    cache_dir_close(dir);
    return s == OK ? OK : err_wrap(e, "%s", path);
}
