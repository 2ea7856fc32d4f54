#include "engine/core/mailbox.h"

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"

#include <stdlib.h>

/* Events with their payload as offsets into bytes: the buffer may still move while the box is written. */
typedef struct boxed {
    gen_event ev;
    size_t at; /* of text, ids (log-probabilities behind them) or totals */
} boxed;

typedef struct box {
    boxed *item;
    size_t n, cap, read;
    buf bytes;
} box;

struct mailbox {
    mutex *lock;
    taken_request *queue; /* [queue_max], oldest first */
    int32_t n_queue, queue_max;
    gen_id next_id, running; /* running 0: none */
    _Atomic bool cancelled, closing;
    bool changed; /* mailbox_notify since the last wait */
    box box[2];
    int write; /* the engine's; the other one is the front end's */
    bool was_empty;
    void (*wake)(void *arg);
    void *wake_arg;
};

mailbox *mailbox_new(int32_t queue_max) {
    mailbox *m = xalloc(sizeof *m);
    m->lock = mutex_new();
    m->queue_max = queue_max;
    m->queue = xalloc((size_t)(queue_max + 1) * sizeof *m->queue);
    m->next_id = 1;
    return m;
}

void mailbox_free(mailbox *m) {
    if (!m) return;
    for (int32_t i = 0; i < m->n_queue; i++) arena_free(m->queue[i].rq.mem);
    for (int i = 0; i < 2; i++) {
        free(m->box[i].item);
        buf_free(&m->box[i].bytes);
    }
    free(m->queue);
    mutex_free(m->lock);
    free(m);
}

void mailbox_set_waker(mailbox *m, void (*wake)(void *arg), void *arg) {
    mutex_lock(m->lock);
    m->wake = wake, m->wake_arg = arg;
    mutex_unlock(m->lock);
}

/* ---- requests ---- */

status mailbox_submit(mailbox *m, const gen_request *rq, gen_id *id, err *e) {
    mutex_lock(m->lock);
    /* one place more than queue_max while nothing runs: that request does not wait */
    if (m->n_queue >= m->queue_max + (m->running == 0)) {
        mutex_unlock(m->lock);
        return err_set(e, ERR_BUSY, "one request is running and %d wait; try again later", m->n_queue);
    }
    *id = m->next_id++;
    m->queue[m->n_queue++] = (taken_request){ *rq, *id, clock_ns() };
    mutex_signal(m->lock);
    mutex_unlock(m->lock);
    return OK;
}

bool mailbox_take(mailbox *m, taken_request *out) {
    mutex_lock(m->lock);
    m->running = 0;
    while (m->n_queue == 0 && !atomic_load(&m->closing)) mutex_wait(m->lock, -1);
    bool got = !atomic_load(&m->closing);
    if (got) {
        *out = m->queue[0];
        memmove(m->queue, m->queue + 1, (size_t)--m->n_queue * sizeof *m->queue);
        m->running = out->id;
        atomic_store(&m->cancelled, false);
    }
    mutex_unlock(m->lock);
    return got;
}

bool mailbox_cancelled(const mailbox *m) {
    return atomic_load_explicit(&m->cancelled, memory_order_relaxed) ||
           atomic_load_explicit(&m->closing, memory_order_relaxed);
}

void mailbox_close(mailbox *m) {
    mutex_lock(m->lock);
    atomic_store(&m->closing, true);
    mutex_signal(m->lock);
    mutex_unlock(m->lock);
}

/* ---- events ---- */

static void put_zeros(buf *b) {
    static const char zero[16];
    buf_put(b, zero, (16 - b->len % 16) % 16);
}

/* Where the log-probabilities of a step lie behind its ids. */
static size_t logprobs_at(int32_t n) { return ((size_t)n * sizeof(int32_t) + 15) / 16 * 16; }

static void put_round(buf *b, const gen_event *ev) {
    size_t n = (size_t)ev->u.round.n;
    buf_put(b, ev->u.round.tokens, n * sizeof *ev->u.round.tokens);
    if (!ev->u.round.logprobs) return;
    put_zeros(b);
    buf_put(b, ev->u.round.logprobs, n * sizeof *ev->u.round.logprobs);
}

static void box_put(box *b, const gen_event *ev) {
    if (b->n == b->cap) {
        b->cap = 2 * b->cap + 64;
        b->item = xrealloc(b->item, b->cap * sizeof *b->item);
    }
    put_zeros(&b->bytes);
    b->item[b->n++] = (boxed){ *ev, b->bytes.len };
    switch (ev->kind) {
    case GEN_ROUND: put_round(&b->bytes, ev); break;
    case GEN_DONE: buf_put(&b->bytes, ev->u.end.totals, sizeof *ev->u.end.totals); break;
    default: buf_str(&b->bytes, ev->text); break;
    }
}

static gen_event box_take(box *b) {
    boxed *i = &b->item[b->read++];
    const char *at = b->bytes.data ? b->bytes.data + i->at : "";
    switch (i->ev.kind) {
    case GEN_ROUND:
        i->ev.u.round.tokens = (const int32_t *)(const void *)at;
        if (!i->ev.u.round.logprobs) break;
        i->ev.u.round.logprobs = (const token_logprobs *)(const void *)(at + logprobs_at(i->ev.u.round.n));
        break;
    case GEN_DONE: i->ev.u.end.totals = (const gen_totals *)(const void *)at; break;
    default: i->ev.text.p = at; break;
    }
    return i->ev;
}

static bool box_empty(const box *b) { return b->read == b->n; }

static void box_clear(box *b) {
    b->n = b->read = 0;
    buf_clear(&b->bytes);
}

static void wake(mailbox *m) {
    mutex_signal(m->lock);
    if (m->wake) m->wake(m->wake_arg);
}

void mailbox_post_begin(mailbox *m) {
    mutex_lock(m->lock);
    m->was_empty = box_empty(&m->box[m->write]);
}

void mailbox_post(mailbox *m, const gen_event *ev) {
    box_put(&m->box[m->write], ev);
    /* whoever reads the last event may submit the next request at once */
    if (ev->id == m->running && (ev->kind == GEN_DONE || ev->kind == GEN_FAILED)) m->running = 0;
}

void mailbox_post_end(mailbox *m) {
    if (m->was_empty && !box_empty(&m->box[m->write])) wake(m);
    mutex_unlock(m->lock);
}

void mailbox_notify(mailbox *m) {
    mutex_lock(m->lock);
    m->changed = true;
    wake(m);
    mutex_unlock(m->lock);
}

void mailbox_cancel(mailbox *m, gen_id id) {
    arena *dead = NULL;
    mailbox_post_begin(m);
    if (id != 0 && id == m->running) atomic_store(&m->cancelled, true);
    for (int32_t i = 0; i < m->n_queue; i++) {
        if (m->queue[i].id != id) continue;
        gen_totals totals = { .end_token = -1, .stop_index = -1, .prompt = (int32_t)m->queue[i].rq.n_tokens };
        mailbox_post(m, &(gen_event){ .kind = GEN_DONE,
                                      .id = id,
                                      .user = m->queue[i].rq.user,
                                      .u.end = { DONE_CANCELLED, &totals } });
        dead = m->queue[i].rq.mem;
        memmove(m->queue + i, m->queue + i + 1, (size_t)(--m->n_queue - i) * sizeof *m->queue);
        break;
    }
    mailbox_post_end(m);
    arena_free(dead);
}

size_t mailbox_drain(mailbox *m, gen_event *out, size_t max) {
    box *mine = &m->box[!m->write]; /* only this thread changes `write` */
    if (box_empty(mine)) {
        mutex_lock(m->lock);
        box_clear(mine);
        m->write = !m->write;
        mutex_unlock(m->lock);
        mine = &m->box[!m->write];
    }
    size_t n = 0;
    while (n < max && !box_empty(mine)) out[n++] = box_take(mine);
    return n;
}

bool mailbox_wait(mailbox *m, int64_t timeout_ns) {
    int64_t end = timeout_ns < 0 ? -1 : clock_ns() + timeout_ns;
    mutex_lock(m->lock);
    bool in_time = true;
    while (in_time && box_empty(&m->box[0]) && box_empty(&m->box[1]) && !m->changed) {
        int64_t left = end < 0 ? -1 : end - clock_ns();
        if (end >= 0 && left <= 0)
            in_time = false;
        else
            mutex_wait(m->lock, left);
    }
    m->changed = false;
    mutex_unlock(m->lock);
    return in_time;
}
