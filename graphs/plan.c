#include "graphs/plan.h"

#include "engine/base/mem.h"

#include <stdlib.h>

typedef struct entry {
    op_id id;
    bool barrier; /* before this entry */
    size_t args;  /* offset into plan.args */
} entry;

struct plan {
    entry *entry;
    size_t n, cap;
    buf args;
    span *open; /* memory touched since the last barrier; recording only */
    size_t n_open, cap_open;
};

plan *plan_new(void) { return xalloc(sizeof(plan)); }

void plan_free(plan *p) {
    if (!p) return;
    free(p->entry);
    free(p->open);
    buf_free(&p->args);
    free(p);
}

static bool conflicts(const span *a, const span *b) {
    if (!a->write && !b->write) return false;
    const char *pa = a->data, *pb = b->data;
    return pa < pb + b->bytes && pb < pa + a->bytes;
}

static bool needs_barrier(const plan *p, const span *spans, int n) {
    for (size_t i = 0; i < p->n_open; i++)
        for (int j = 0; j < n; j++)
            if (conflicts(&p->open[i], &spans[j])) return true;
    return false;
}

void plan_add(plan *p, op_id id, const void *args) {
    span spans[SPANS_MAX];
    int n = op_spans(id, args, spans);
    bool barrier = needs_barrier(p, spans, n);
    if (barrier) p->n_open = 0;
    if (p->n_open + (size_t)n > p->cap_open) {
        p->cap_open = 2 * p->cap_open + SPANS_MAX;
        p->open = xrealloc(p->open, p->cap_open * sizeof *p->open);
    }
    memcpy(p->open + p->n_open, spans, (size_t)n * sizeof *spans);
    p->n_open += (size_t)n;
    if (p->n == p->cap) {
        p->cap = 2 * p->cap + 64;
        p->entry = xrealloc(p->entry, p->cap * sizeof *p->entry);
    }
    p->entry[p->n++] = (entry){ id, barrier, p->args.len };
    static const char zero[16];
    buf_put(&p->args, args, op_args_bytes(id));
    buf_put(&p->args, zero, (16 - p->args.len % 16) % 16);
}

typedef struct replay {
    const plan *p;
    op_fn *const *table;
} replay;

static void replay_lane(void *arg, const lane *ln) {
    const replay *r = arg;
    const char *args = r->p->args.data;
    for (const entry *e = r->p->entry, *end = e + r->p->n; e < end; e++) {
        if (e->barrier) pool_barrier(ln);
        r->table[e->id](args + e->args, ln);
    }
}

void plan_replay(const plan *p, op_fn *const *table, pool *lanes, bool alone) {
    pool_run(lanes, alone, replay_lane, &(replay){ p, table });
}

size_t plan_entries(const plan *p) { return p->n; }

int64_t plan_weight_bytes(const plan *p) {
    int64_t bytes = 0;
    for (size_t i = 0; i < p->n; i++) bytes += op_weight_bytes(p->entry[i].id, p->args.data + p->entry[i].args);
    return bytes;
}

str plan_args(const plan *p) { return buf_view(&p->args); }

static void dump_span(const span *s, const work *w, buf *out) {
    for (int i = 0; w && w->base && i < w->n; i++) {
        const char *at = w->base + w->view[i].at;
        if ((const char *)s->data >= at && (const char *)s->data < at + w->view[i].bytes) {
            buf_printf(out, " %s%s", s->write ? ">" : "", w->view[i].name);
            return;
        }
    }
    if (s->bytes >= 64) buf_printf(out, " %smem[%lld]", s->write ? ">" : "", (long long)s->bytes);
}

void plan_dump(const plan *p, const work *w, buf *out) {
    for (size_t i = 0; i < p->n; i++) {
        const entry *e = &p->entry[i];
        const void *args = p->args.data + e->args;
        buf_printf(out, "%s %-9s", e->barrier ? "|" : " ", op_name(e->id));
        span spans[SPANS_MAX];
        int n = op_spans(e->id, args, spans);
        for (int j = 0; j < n; j++) dump_span(&spans[j], w, out);
        int64_t bytes = op_weight_bytes(e->id, args);
        if (bytes) buf_printf(out, "  weights %lld", (long long)bytes);
        buf_byte(out, '\n');
    }
}
