#include "engine/server/api_usage.h"

#include "engine/base/clock.h"

#include <stdio.h>
#include <stdlib.h>

void api_meter_deinit(api_meter *m) { buf_free(&m->steps); }

static void count_round(api_meter *m, const gen_event *ev) {
    gen_totals *t = &m->totals;
    int64_t now = clock_ns();
    t->generated += ev->u.round.n;
    if (!m->first_ns) { /* the token of the prefill: no step of its own */
        m->first_ns = now;
        t->prefill_ns = now - m->started_ns;
        return;
    }
    t->decode_ns = now - m->first_ns;
    t->steps++;
    t->drafted += ev->u.round.drafted;
    t->accepted += ev->u.round.accepted;
    if (ev->u.round.drafted) {
        t->rounds++;
        for (int32_t i = 0; i < ev->u.round.accepted && i < SPEC_POSITIONS; i++) t->accepted_at[i]++;
    }
    buf_put(&m->steps, &ev->u.round.micros, sizeof ev->u.round.micros);
}

void api_meter_event(api_meter *m, const gen_event *ev) {
    switch (ev->kind) {
    case GEN_STARTED:
        m->started_ns = clock_ns();
        m->totals.queue_ns = m->started_ns - m->submitted_ns;
        m->totals.cached = ev->u.started.cached;
        break;
    case GEN_ROUND: count_round(m, ev); break;
    case GEN_DONE:
        m->totals = *ev->u.end.totals;
        m->whole = true;
        break;
    default: break;
    }
}

void api_write_usage(jsonw *w, const gen_totals *t) {
    jsonw_begin_object(w);
    jsonw_key_int(w, "prompt_tokens", t->prompt);
    jsonw_key_int(w, "completion_tokens", t->generated);
    jsonw_key_int(w, "total_tokens", (int64_t)t->prompt + t->generated);
    jsonw_key(w, "prompt_tokens_details");
    jsonw_begin_object(w);
    jsonw_key_int(w, "cached_tokens", t->cached);
    jsonw_end_object(w);
    jsonw_key(w, "completion_tokens_details");
    jsonw_begin_object(w);
    if (t->reasoning >= 0) jsonw_key_int(w, "reasoning_tokens", t->reasoning);
    jsonw_key_int(w, "accepted_prediction_tokens", t->accepted);
    jsonw_key_int(w, "rejected_prediction_tokens", t->drafted - t->accepted);
    jsonw_end_object(w);
    jsonw_end_object(w);
}

static void write_rate(jsonw *w, const char *n_key, const char *ms_key, const char *each_key, const char *rate_key,
                       int32_t n, int32_t n_timed, int64_t ns) {
    double ms = clock_ms(ns);
    jsonw_key_int(w, n_key, n);
    jsonw_key_ms(w, ms_key, ms);
    jsonw_key_ms(w, each_key, n_timed > 0 ? ms / n_timed : 0);
    jsonw_key_ms(w, rate_key, ms > 0 ? n_timed * 1e3 / ms : 0);
}

static int by_size(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Nearest rank. */
static void write_percentiles(jsonw *w, const api_meter *m) {
    static const struct {
        const char *key;
        size_t percent;
    } WANTED[] = { { "step_ms_p50", 50 }, { "step_ms_p90", 90 }, { "step_ms_p99", 99 } };
    size_t n = m->steps.len / sizeof(int32_t);
    if (!n) return;
    buf sorted = { 0 };
    buf_str(&sorted, buf_view(&m->steps));
    int32_t *v = (int32_t *)(void *)sorted.data;
    qsort(v, n, sizeof *v, by_size);
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++)
        jsonw_key_ms(w, WANTED[i].key, v[(n * WANTED[i].percent + 99) / 100 - 1] * 1e-3);
    buf_free(&sorted);
}

static void write_proposer(jsonw *w, const char *name, int32_t drafted, int32_t accepted) {
    jsonw_key(w, name);
    jsonw_begin_object(w);
    jsonw_key_int(w, "drafted", drafted);
    jsonw_key_int(w, "accepted", accepted);
    jsonw_end_object(w);
}

/* Why steps proposed as much as they did, rows of their passes, and who proposed; when the answer is whole. */
static void write_speculation(jsonw *w, const gen_totals *t) {
    jsonw_key(w, "speculation");
    jsonw_begin_object(w);
    jsonw_key(w, "steps_by_reason");
    jsonw_begin_object(w);
    for (int r = 0; r < SPEC_REASONS; r++)
        if (t->by_reason[r]) jsonw_key_int(w, spec_reason_name((spec_reason)r), t->by_reason[r]);
    jsonw_end_object(w);
    jsonw_key(w, "steps_by_rows");
    jsonw_begin_object(w);
    for (int r = 1; r <= SPEC_POSITIONS; r++) {
        char rows[16];
        snprintf(rows, sizeof rows, "%d", r);
        if (t->by_rows[r]) jsonw_key_int(w, rows, t->by_rows[r]);
    }
    jsonw_end_object(w);
    write_proposer(w, "dflash", t->draft_drafted, t->draft_accepted);
    write_proposer(w, "lookup", t->lookup_drafted, t->lookup_accepted);
    jsonw_end_object(w);
}

/* Names as llama.cpp has them. The first token belongs to the prefill: rates of decoding leave it out. */
void api_write_timings(jsonw *w, const api_meter *m) {
    const gen_totals *t = &m->totals;
    jsonw_begin_object(w);
    int32_t computed = t->prompt - t->cached;
    jsonw_key_int(w, "cache_n", t->cached);
    write_rate(w, "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second", computed, computed,
               t->prefill_ns);
    write_rate(w, "predicted_n", "predicted_ms", "predicted_per_token_ms", "predicted_per_second", t->generated,
               t->generated - 1, t->decode_ns);
    jsonw_key_int(w, "draft_n", t->drafted);
    jsonw_key_int(w, "draft_n_accepted", t->accepted);
    jsonw_key_int(w, "draft_steps", t->rounds);
    jsonw_key_int(w, "steps", t->steps);
    jsonw_key(w, "accepted_per_position");
    jsonw_begin_array(w);
    int32_t last = SPEC_POSITIONS;
    while (last > 0 && !t->accepted_at[last - 1]) last--;
    for (int32_t i = 0; i < last; i++) jsonw_int(w, t->accepted_at[i]);
    jsonw_end_array(w);
    if (m->whole) write_speculation(w, t);
    if (t->mask_ns) jsonw_key_ms(w, "mask_ms", clock_ms(t->mask_ns));
    jsonw_key_ms(w, "queue_ms", clock_ms(t->queue_ns));
    jsonw_key_ms(w, "template_ms", clock_ms(m->template_ns));
    jsonw_key_ms(w, "tokenize_ms", clock_ms(m->tokenize_ns));
    if (m->first_ns) jsonw_key_ms(w, "first_token_ms", clock_ms(m->first_ns - m->began_ns));
    write_percentiles(w, m);
    jsonw_end_object(w);
}
