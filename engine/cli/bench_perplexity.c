/* skiff bench perplexity: what FP8 keys and values cost in quality and bring in speed. Two pairs over the same weights
 * stand side by side, so that both see the same tokens and the same state of the machine. */
#include "engine/cli/bench.h"
#include "engine/cli/progress.h"
#include "engine/cli/samples.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/core/bytes.h"
#include "engine/core/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDES = 2, WINDOW = 2048, CONTEXT = 4096, PLACES = 5, STEPS = 96 };

static const pick_params GREEDY = { .top_p = 1.0f };

/* One kind of keys and values. */
typedef struct side {
    pair p;
    probe *probe;
    double *nll; /* [window] of the current window: of the token behind each row */
    double sum;
} side;

/* Plain steps behind so many tokens, ms. ratio: BF16 over FP8, above 1 FP8 is faster. */
typedef struct place {
    int32_t ctx;
    samples step[SIDES], ratio;
} place;

typedef struct run {
    side side[SIDES]; /* by kv_dtype */
    token_list text;
    int32_t window;
    int64_t windows, scored;
    double square; /* of the difference per token, summed */
    place place[PLACES];
} run;

static const char *const NAME[SIDES] = { [KV_BF16] = "bf16", [KV_FP8_E4M3] = "fp8_e4m3" };

/* ---- perplexity ---- */

/* -log of the share that softmax gives this token. */
static double negative_log(const float *logits, int32_t n, int32_t token) {
    double top = (double)logits[0], sum = 0.0;
    for (int32_t i = 1; i < n; i++) top = (double)logits[i] > top ? (double)logits[i] : top;
    for (int32_t i = 0; i < n; i++) sum += exp((double)logits[i] - top); /* the largest alone makes it 1 */
    return log(fmax(sum, 1.0)) + top - (double)logits[token];
}

/* s->nll[i] = of ids[i + 1] behind ids[0 .. i]. */
static void score_window(side *s, const int32_t *ids, int32_t n) {
    steps_seek(s->p.steps, 0, 0, 0);
    steps_set_pick(s->p.steps, &GREEDY);
    int32_t vocab = s->p.target.cfg.vocab;
    float *logits = xalloc((size_t)PREFILL_MAX * (size_t)vocab * sizeof *logits);
    for (int32_t at = 0, rows; at < n; at += rows) {
        rows = n - at < PREFILL_MAX ? n - at : PREFILL_MAX;
        probe_prefill(s->probe, ids + at, rows, logits);
        for (int32_t r = 0; r < rows && at + r + 1 < n; r++)
            s->nll[at + r] = negative_log(logits + (int64_t)r * vocab, vocab, ids[at + r + 1]);
    }
    free(logits);
}

/* The start token, if the model has one, and the text from `from` on; returns how many tokens of the text. */
static int32_t fill_window(const run *r, size_t from, int64_t most, int32_t *ids, int32_t *n) {
    int32_t start = text_start_token(r->side[0].p.text), used = 0;
    *n = 0;
    if (start >= 0) ids[(*n)++] = start;
    for (; *n < r->window && from + (size_t)used < r->text.n && used < most; used++)
        ids[(*n)++] = r->text.ids[from + (size_t)used];
    return used;
}

static void run_windows(run *r, int64_t most) {
    int32_t *ids = xalloc((size_t)r->window * sizeof *ids), n;
    if ((size_t)most > r->text.n) most = (int64_t)r->text.n;
    for (int64_t at = 0, used; at < most; at += used) {
        progress_show("reading", (float)at / (float)most);
        used = fill_window(r, (size_t)at, most - at, ids, &n);
        if (n < 2) break;
        for (int k = 0; k < SIDES; k++) score_window(&r->side[k], ids, n);
        for (int32_t i = 0; i < n - 1; i++) {
            double wide = r->side[KV_BF16].nll[i], narrow = r->side[KV_FP8_E4M3].nll[i];
            r->side[KV_BF16].sum += wide;
            r->side[KV_FP8_E4M3].sum += narrow;
            r->square += (narrow - wide) * (narrow - wide);
        }
        r->windows++;
        r->scored += n - 1;
    }
    progress_clear();
    free(ids);
}

static double mean(const run *r, kv_dtype k) { return r->side[k].sum / (double)r->scored; }

static double difference(const run *r) { return mean(r, KV_FP8_E4M3) - mean(r, KV_BF16); }

/* Standard error of the difference, as if tokens were independent. */
static double error_of(const run *r) {
    double d = difference(r), variance = r->square / (double)r->scored - d * d;
    return sqrt(fmax(variance, 0.0) / (double)r->scored);
}

/* ---- plain steps ---- */

/* One pair of steps on the text's own token, so that both choose among the same experts; who is first changes. */
static void step_pair(run *r, place *l, int turn) {
    double ms[SIDES];
    int32_t base = l->ctx + turn;
    for (int i = 0; i < SIDES; i++) {
        int k = (i + turn) % SIDES;
        steps_seek(r->side[k].p.steps, base, r->text.ids[base], 0);
        int64_t start = clock_ns();
        steps_plain(r->side[k].p.steps);
        ms[k] = (double)(clock_ns() - start) * 1e-6;
        samples_add(&l->step[k], ms[k]);
    }
    samples_add(&l->ratio, ms[KV_BF16] / ms[KV_FP8_E4M3]);
}

static void run_steps(run *r, int64_t repeat) {
    static const int32_t AT[PLACES] = { 512, 2048, 4000, 16000, 64000 };
    int32_t room = r->side[KV_BF16].p.ctx;
    if (r->side[KV_FP8_E4M3].p.ctx < room) room = r->side[KV_FP8_E4M3].p.ctx;
    for (int i = 0; i < PLACES; i++) {
        place *l = &r->place[i];
        if (AT[i] + STEPS > room || (size_t)(AT[i] + STEPS) > r->text.n) continue;
        l->ctx = AT[i];
        progress_show("plain steps", (float)i / (float)PLACES);
        for (int64_t n = 0; n < repeat; n++) {
            for (int k = 0; k < SIDES; k++) steps_prompt(r->side[k].p.steps, &GREEDY, r->text.ids, (size_t)l->ctx);
            for (int s = 0; s < STEPS; s++) step_pair(r, l, s);
        }
        for (int k = 0; k < SIDES; k++) samples_sort(&l->step[k]);
        samples_sort(&l->ratio);
    }
    progress_clear();
}

static int64_t step_bytes(const side *s, int32_t ctx) {
    const target *t = &s->p.target;
    return bytes_target_pass(&t->cfg, &t->w, t->cfg.experts_per_token, ctx, t->kv.type).total;
}

/* ---- results ---- */

static void print_results(const run *r) {
    const pair *p = &r->side[0].p;
    printf("%s, %d thread%s; %lld tokens scored in %lld windows of at most %d\n", p->where, p->lanes,
           p->lanes == 1 ? "" : "s", (long long)r->scored, (long long)r->windows, r->window);
    for (int k = 0; k < SIDES; k++)
        printf("%-9s %.6f nats per token, perplexity %.5f\n", NAME[k], mean(r, (kv_dtype)k), exp(mean(r, (kv_dtype)k)));
    printf("difference %+.6f nats per token (standard error %.6f), ratio of perplexities %.6f\n", difference(r),
           error_of(r), exp(difference(r)));
    for (int i = 0; i < PLACES; i++) {
        const place *l = &r->place[i];
        if (!l->ctx) continue;
        const samples *wide = &l->step[KV_BF16], *narrow = &l->step[KV_FP8_E4M3];
        printf("plain step at %5d tokens, ms, median (least): bf16 %.4f (%.4f), fp8_e4m3 %.4f (%.4f); bf16 / fp8_e4m3 "
               "%.3f (%.3f)\n",
               l->ctx, samples_share(wide, 0.5), samples_share(wide, 0.0), samples_share(narrow, 0.5),
               samples_share(narrow, 0.0), samples_share(&l->ratio, 0.5), samples_share(&l->ratio, 0.0));
    }
}

static void put_place(const run *r, const place *l, buf *b) {
    buf_printf(b, "\n{\"context\":%d", l->ctx);
    for (int k = 0; k < SIDES; k++)
        buf_printf(b, ",\"%s_ms_median\":%.5f,\"%s_ms_min\":%.5f,\"%s_bytes\":%lld", NAME[k],
                   samples_share(&l->step[k], 0.5), NAME[k], samples_share(&l->step[k], 0.0), NAME[k],
                   (long long)step_bytes(&r->side[k], l->ctx));
    buf_printf(b, ",\"ratio_median\":%.4f,\"ratio_min\":%.4f,\"ratio_max\":%.4f}", samples_share(&l->ratio, 0.5),
               samples_share(&l->ratio, 0.0), samples_share(&l->ratio, 1.0));
}

static status write_json(const run *r, const char *path, err *e) {
    buf b = { 0 };
    buf_byte(&b, '{');
    bench_machine(&b, &r->side[0].p);
    buf_printf(&b, ",\"tokens\":%lld,\"windows\":%lld,\"window\":%d,\n", (long long)r->scored, (long long)r->windows,
               r->window);
    for (int k = 0; k < SIDES; k++)
        buf_printf(&b, "\"%s\":{\"nll\":%.8f,\"perplexity\":%.7f},\n", NAME[k], mean(r, (kv_dtype)k),
                   exp(mean(r, (kv_dtype)k)));
    buf_printf(&b, "\"nll_difference\":%.8f,\"nll_difference_error\":%.8f,\"perplexity_ratio\":%.8f,\n\"plain_step\":[",
               difference(r), error_of(r), exp(difference(r)));
    for (int i = 0, n = 0; i < PLACES; i++) {
        if (!r->place[i].ctx) continue;
        if (n++) buf_byte(&b, ',');
        put_place(r, &r->place[i], &b);
    }
    buf_str(&b, STR("\n]}\n"));
    status s = file_write_atomic(path, buf_view(&b), e);
    buf_free(&b);
    return s;
}

/* ---- the whole ---- */

static status open_side(side *s, kv_dtype kv, const engine_options *opt, err *e) {
    engine_options o = *opt;
    o.kv_dtype = kv;
    TRY(pair_load(&s->p, o.target_dir, o.draft_dir, true, NULL, NULL, e));
    int32_t most = s->p.target.cfg.positions_max;
    if (o.ctx == 0) o.ctx = most < CONTEXT ? most : CONTEXT;
    TRY(pair_start(&s->p, &o, e));
    steps_set_lanes(s->p.steps, LANES_BEST); /* as the engine runs */
    return probe_open(&s->probe, &s->p, e);
}

static void close_run(run *r) {
    for (int k = 0; k < SIDES; k++) {
        probe_close(r->side[k].probe);
        pair_close(&r->side[k].p);
        free(r->side[k].nll);
    }
    for (int i = 0; i < PLACES; i++) {
        for (int k = 0; k < SIDES; k++) samples_free(&r->place[i].step[k]);
        samples_free(&r->place[i].ratio);
    }
    token_list_free(&r->text);
}

static status read_text(run *r, const char *path, err *e) {
    buf text = { 0 };
    status s = file_read(&text, path, (size_t)1 << 30, e);
    if (s == OK) s = text_encode(r->side[0].p.text, buf_view(&text), false, &r->text, e);
    if (s == OK && r->text.n < 2) s = err_set(e, ERR_REQUEST, "%zu tokens of text: expected at least 2", r->text.n);
    buf_free(&text);
    return s == OK || s == ERR_IO ? s : err_wrap(e, "%s", path);
}

status bench_perplexity(const bench_opts *o, err *e) {
    engine_options opt = model_opts_engine(&o->m, 0);
    run r = { 0 };
    status s = OK;
    for (int k = 0; s == OK && k < SIDES; k++) s = open_side(&r.side[k], (kv_dtype)k, &opt, e);
    if (s == OK) s = read_text(&r, o->text, e);
    if (s == OK) {
        r.window = r.side[0].p.ctx < WINDOW ? r.side[0].p.ctx : WINDOW;
        for (int k = 0; k < SIDES; k++) r.side[k].nll = xalloc((size_t)r.window * sizeof(double));
        run_windows(&r, o->text_tokens);
        if (r.scored == 0) s = err_set(e, ERR_REQUEST, "a context of %d tokens has none to score", r.window);
    }
    if (s == OK) {
        run_steps(&r, o->repeat);
        print_results(&r);
        if (o->json) s = write_json(&r, o->json, e);
    }
    close_run(&r);
    return s;
}
