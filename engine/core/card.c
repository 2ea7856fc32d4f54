#include "engine/core/card.h"

#include "engine/core/bytes.h"
#include "engine/core/memplan.h"

/* Peaks and sizes as the vendor's data sheets give them; B200 as in HGX and DGX systems (1.44 TB of eight). GB10 shares
 * its memory with the system. The goals belong to 90 % of the bandwidth and 1.3 us. */
const card card_list[CARDS] = {
    { "RTX PRO 6000 Blackwell", 1790e9, 96000000000, 1.15 },
    { "H200", 4800e9, 141000000000, 1.35 },
    { "B200", 8000e9, 180000000000, 0.0 },
    { "GB10", 273e9, 128000000000, 0.0 },
};

/* ---- experts ---- */

enum { MEASURED_EXPERTS = 256, MEASURED_CHOSEN = 10, MEASURED = 8 };
static const struct {
    int32_t rows;
    double experts;
} UNION[MEASURED] = { { 1, 10.0 }, { 2, 20.0 }, { 3, 26.4 }, { 4, 31.5 },
                      { 5, 36.1 }, { 7, 43.3 }, { 9, 50.4 }, { 16, 67.6 } };

static double measured_union(int32_t rows) {
    int i = 1;
    while (i < MEASURED - 1 && UNION[i].rows < rows) i++;
    double part = (double)(rows - UNION[i - 1].rows) / (UNION[i].rows - UNION[i - 1].rows);
    return UNION[i - 1].experts + part * (UNION[i].experts - UNION[i - 1].experts);
}

double card_union(int32_t n, int32_t k, int32_t rows) {
    double measured = measured_union(rows);
    if (n == MEASURED_EXPERTS && k == MEASURED_CHOSEN) return measured;
    double shared = measured / bytes_independent_experts(MEASURED_EXPERTS, MEASURED_CHOSEN, rows);
    double all = shared * bytes_independent_experts(n, k, rows);
    return all < n ? all : n;
}

/* ---- work ---- */

static const draft_config *draft_of(const model_shape *m) { return m->has_draft ? &m->draft : NULL; }

card_work card_work_of(const model_shape *m, int32_t ctx, dtype kv) {
    const target_config *t = &m->target;
    card_work w = { .ctx = ctx, .rows_max = 1 };
    w.pass_kernels = t->layers * CARD_LAYER_KERNELS + CARD_STEP_KERNELS;
    w.weights = m->target_weights.bytes;
    if (m->has_draft) {
        w.rows_max = m->draft.block_size < CARD_ROWS_MAX ? m->draft.block_size : CARD_ROWS_MAX;
        w.draft = bytes_draft_pass(&m->draft, &m->draft_weights, &m->target_weights, ctx).total;
        w.draft_kernels = m->draft.layers * CARD_DRAFT_LAYER_KERNELS + CARD_DRAFT_KERNELS;
        w.weights += m->draft_weights.bytes;
    }
    for (int32_t r = 1; r <= w.rows_max; r++) {
        w.experts[r] = card_union(t->experts, t->experts_per_token, r);
        w.pass[r] = bytes_target_pass(t, &m->target_weights, w.experts[r], ctx, kv).total;
    }
    w.memory = w.weights + memplan_make(t, draft_of(m), kv, ctx).total;
    return w;
}

int32_t card_ctx_max(const card *c, const model_shape *m, dtype kv) {
    int64_t weights = m->target_weights.bytes + (m->has_draft ? m->draft_weights.bytes : 0);
    return memplan_largest_ctx(&m->target, draft_of(m), kv, c->memory - weights);
}

/* ---- time ---- */

static double seconds(const card *c, const card_inputs *in, int64_t bytes, int32_t kernels) {
    return (double)bytes / (in->share * c->bandwidth) + kernels * in->gap;
}

double card_floor(const card *c, const card_work *w) { return (double)w->pass[1] / c->bandwidth; }

double card_pass(const card *c, const card_inputs *in, const card_work *w, int32_t rows) {
    return seconds(c, in, w->pass[rows], w->pass_kernels);
}

double card_draft(const card *c, const card_inputs *in, const card_work *w) {
    return seconds(c, in, w->draft, w->draft_kernels);
}

double card_break_even(const card *c, const card_inputs *in, const card_work *w, int32_t rows) {
    return (card_draft(c, in, w) + card_pass(c, in, w, rows)) / card_pass(c, in, w, 1);
}

double card_gap_for(const card *c, const card_inputs *in, const card_work *w, double ratio) {
    return card_floor(c, w) * (ratio - 1.0 / in->share) / w->pass_kernels;
}

double card_tokens(double acceptance, int32_t rows) {
    double tokens = 0.0, chance = 1.0;
    for (int32_t r = 0; r < rows; r++) tokens += chance, chance *= acceptance;
    return tokens;
}

card_width card_best(const card *c, const card_inputs *in, const card_work *w, double acceptance) {
    card_width best = { .rows = 1, .tokens = 1.0, .rate = 1.0 / card_pass(c, in, w, 1) };
    for (int32_t r = 2; r <= w->rows_max; r++) {
        double tokens = card_tokens(acceptance, r), rate = tokens / (card_draft(c, in, w) + card_pass(c, in, w, r));
        if (rate > best.rate) best = (card_width){ .rows = r, .tokens = tokens, .rate = rate };
    }
    return best;
}
