#include "engine/core/lists_mirror.h"

#include <string.h>

status lists_mirror_open(lists_mirror *out, device *on, int32_t vocab, err *e) {
    lists_mirror m = { .on = on, .vocab = vocab, .stale = true };
    size_t table = (size_t)vocab * sizeof(int32_t), head = (sizeof(pick_lists) + 63) / 64 * 64;
    void *block;
    TRY(memory_alloc(on, &block, head + 3 * table, "the lists of tokens", e));
    char *at = block;
    m.at = block;
    m.there.count = (int32_t *)(at + head);
    m.there.seen = (int32_t *)(at + head + table);
    m.there.end = (int32_t *)(at + head + 2 * table);
    *out = m;
    return OK;
}

void lists_mirror_close(lists_mirror *m) {
    if (m->on) memory_free(m->on, m->at, 0);
}

void lists_mirror_add(lists_mirror *m, const int32_t *tokens, int32_t n) {
    if (m->stale) return;
    if (n > PREFILL_MAX - m->n_news) {
        m->stale = true;
        return;
    }
    memcpy(m->news + m->n_news, tokens, (size_t)n * sizeof *tokens);
    m->n_news += n;
}

static void send_all(lists_mirror *m, const pick_lists *lists) {
    pick_lists *to = &m->there;
    to->n_seen = lists->n_seen, to->n_end = lists->n_end, to->n_bias = lists->n_bias;
    memcpy(to->bias, lists->bias, (size_t)lists->n_bias * sizeof *lists->bias);
    memory_copy(m->on, to->count, lists->count, (size_t)m->vocab * sizeof *lists->count);
    memory_copy(m->on, to->seen, lists->seen, (size_t)lists->n_seen * sizeof *lists->seen);
    memory_copy(m->on, to->end, lists->end, (size_t)lists->n_end * sizeof *lists->end);
    memory_copy(m->on, m->at, to, sizeof *to);
    memory_wait(m->on); /* `there` may change with the next call */
}

void lists_mirror_send(lists_mirror *m, const pick_lists *lists, step_in *in) {
    in->n_counted = 0;
    if (m->stale) {
        send_all(m, lists);
    } else {
        in->n_counted = m->n_news;
        memcpy(in->counted, m->news, (size_t)m->n_news * sizeof *m->news);
    }
    m->stale = false;
    m->n_news = 0;
}
