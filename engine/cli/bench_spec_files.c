/* The results as JSON, and as pictures. */
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/cli/bench_spec.h"
#include "engine/cli/plot.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- JSON ---- */

static const char *mode_name(spec_mode m) { return m == SPEC_AUTO ? "auto" : m == SPEC_FIXED ? "fixed" : "off"; }

static void put_settings(const spec_bench *b, buf *out) {
    buf_str(out, STR("\"settings\":["));
    for (int k = 0, n = 0; k < SPEC_SETTINGS; k++) {
        const spec_setting *s = &spec_settings[k];
        if (!b->player[k].on) continue;
        buf_printf(out, "%s\n{\"name\":\"%s\",\"mode\":\"%s\",\"tokens\":%d,\"tree\":%d,\"dflash\":%s,\"lookup\":%s}",
                   n++ ? "," : "", s->name, mode_name(s->mode), s->depth, s->tree, s->drafting ? "true" : "false",
                   s->looking ? "true" : "false");
    }
    buf_str(out, STR("],\n"));
}

static void put_choices(const spec_sum *s, buf *out) {
    buf_str(out, STR(",\"reasons\":{"));
    for (int i = 0, n = 0; i < SPEC_REASONS; i++)
        if (s->by_reason[i])
            buf_printf(out, "%s\"%s\":%lld", n++ ? "," : "", spec_reason_name((spec_reason)i),
                       (long long)s->by_reason[i]);
    buf_str(out, STR("},\"by_rows\":{"));
    for (int i = 0, n = 0; i <= SPEC_POSITIONS; i++)
        if (s->by_rows[i]) buf_printf(out, "%s\"%d\":%lld", n++ ? "," : "", i, (long long)s->by_rows[i]);
    buf_printf(out, "},\"dflash_verified\":%lld,\"dflash_right\":%lld,\"lookup_verified\":%lld,\"lookup_right\":%lld",
               (long long)s->draft_drafted, (long long)s->draft_accepted, (long long)s->lookup_drafted,
               (long long)s->lookup_accepted);
}

/* A setting within a class. */
static void put_sum(const spec_bench *b, int class, int setting, buf *out) {
    const spec_sum *s = &b->class[class].sum[setting];
    samples r = spec_ratios(b, class, SET_PLAIN, setting), token = { 0 };
    for (size_t i = 0; i < b->n; i++)
        if (b->at[i].class == class) samples_add(&token, (double)b->at[i].ns[setting] * 1e-6 / b->at[i].tokens);
    samples_sort(&token);
    double n = s->steps ? (double)s->steps : 1.0, ms = 1e-6 / n;
    buf_printf(out, "{\"setting\":\"%s\",\"pairs\":%zu,\"steps\":%lld,\"tokens\":%lld,\"tokens_per_step\":%.4f,",
               spec_settings[setting].name, r.n, (long long)s->steps, (long long)s->tokens, (double)s->tokens / n);
    buf_printf(out, "\"rows\":%.4f,\"step_ms\":%.5f,\"draft_ms\":%.5f,\"verify_ms\":%.5f,\"rest_ms\":%.5f,",
               (double)s->rows / n, (double)(s->draft_ns + s->verify_ns + s->rest_ns) * ms, (double)s->draft_ns * ms,
               (double)s->verify_ns * ms, (double)s->rest_ns * ms);
    buf_printf(out, "\"outside_ms\":%.5f,\"token_ms_median\":%.5f,\"token_ms_min\":%.5f,", (double)s->outside_ns * ms,
               samples_share(&token, 0.5), samples_share(&token, 0.0));
    buf_printf(out, "\"ratio_median\":%.4f,\"ratio_min\":%.4f,\"ratio_max\":%.4f", samples_share(&r, 0.5),
               samples_share(&r, 0.0), samples_share(&r, 1.0));
    put_choices(s, out);
    buf_byte(out, '}');
    samples_free(&r);
    samples_free(&token);
}

static void put_setting_name(buf *out, const char *member, int setting) {
    if (setting < 0)
        buf_printf(out, "\"%s\":null,", member);
    else
        buf_printf(out, "\"%s\":\"%s\",", member, spec_settings[setting].name);
}

static void put_ratio(buf *out, const char *member, double v) {
    if (v > 0.0)
        buf_printf(out, "\"%s\":%.4f,", member, v);
    else
        buf_printf(out, "\"%s\":null,", member);
}

static void put_summary(const spec_bench *b, int class, buf *out) {
    spec_summary s = spec_summarize(b, class);
    buf_str(out, STR("\"summary\":{"));
    put_setting_name(out, "best_fixed", s.best_fixed);
    put_setting_name(out, "best_chain", s.best_chain);
    put_ratio(out, "best_fixed_ratio", spec_ratio(b, class, SET_PLAIN, s.best_fixed));
    put_ratio(out, "auto_over_plain", s.auto_plain);
    put_ratio(out, "auto_over_best_fixed", s.auto_fixed);
    put_ratio(out, "auto_over_best_chain", s.auto_chain);
    put_ratio(out, "tree_7_over_chain_7", s.tree_7);
    put_ratio(out, "tree_15_over_chain_15", s.tree_15);
    out->data[out->len - 1] = '}'; /* in place of the last comma */
}

static void put_classes(const spec_bench *b, buf *out) {
    buf_str(out, STR("\"classes\":["));
    for (int c = 0; c < b->n_classes; c++) {
        buf_printf(out, "%s\n{\"class\":", c ? "," : "");
        buf_json_str(out, str_of(b->class[c].name));
        buf_byte(out, ',');
        put_summary(b, c, out);
        buf_str(out, STR(",\"settings\":["));
        for (int k = 0, n = 0; k < SPEC_SETTINGS; k++) {
            if (!b->player[k].on) continue;
            buf_str(out, n++ ? STR(",\n") : STR("\n"));
            put_sum(b, c, k, out);
        }
        buf_str(out, STR("]}"));
    }
    buf_str(out, STR("],\n\"together\":{"));
    put_summary(b, -1, out);
    buf_str(out, STR("},\n"));
}

static void put_sizes(buf *out, const char *member, const int32_t *size, const double *ns, int n) {
    buf_printf(out, "\"%s\":{", member);
    for (int i = 0, k = 0; i < n; i++)
        if (ns[i] > 0.0) buf_printf(out, "%s\"%d\":%.1f", k++ ? "," : "", size[i], ns[i] * 1e-3);
    buf_byte(out, '}');
}

static void put_costs(const spec_bench *b, buf *out) {
    buf_str(out, STR("\"cost_by_rows\":["));
    for (int i = 0; i < COST_CONTEXTS && b->cost[i].ctx; i++) {
        buf_printf(out, "%s\n{\"context\":%d,", i ? "," : "", b->cost[i].ctx);
        put_sizes(out, "pass_us", spec_pass_rows, b->cost[i].pass, COST_PASSES);
        buf_byte(out, ',');
        put_sizes(out, "draft_us", spec_draft_rows, b->cost[i].draft, COST_DRAFTS);
        buf_byte(out, '}');
    }
    buf_str(out, STR("],\n\"speed_by_context\":["));
    for (int i = 0, n = 0; i < SPEED_CONTEXTS; i++) {
        const spec_speed *v = &b->speed[i];
        if (!v->ctx) continue;
        buf_printf(out, "%s\n{\"context\":%d,\"pairs\":%zu,\"plain_tokens_per_s\":%.1f,\"auto_tokens_per_s\":%.1f,",
                   n++ ? "," : "", v->ctx, v->ratio.n, samples_share(&v->plain, 0.5), samples_share(&v->adaptive, 0.5));
        buf_printf(out, "\"ratio_median\":%.4f,\"ratio_min\":%.4f}", samples_share(&v->ratio, 0.5),
                   samples_share(&v->ratio, 0.0));
    }
    const spec_control *c = &b->control;
    buf_printf(out,
               "],\n\"controller\":{\"look_up_ns\":%.1f,\"choose_ns\":%.1f,\"learn_ns\":%.1f,\"plain_step_ns\":%.1f,"
               "\"round_ns\":%.1f}",
               c->look_up, c->choose, c->learn, c->step, c->round);
}

static void put_turn(const spec_turn *t, buf *out) {
    buf_printf(out,
               ",\n\"second_turn\":{\"known\":%d,\"added\":%d,\"cold_ms\":%.4f,\"alone_ms\":%.4f,\"extended_ms\":%.4f,"
               "\"resumed_ms\":%.4f,\"extended_ratio\":%.4f,\"resumed_ratio\":%.4f}",
               t->known, t->added, t->cold * 1e-6, samples_share(&t->alone, 0.5) * 1e-6,
               samples_share(&t->extended, 0.5) * 1e-6, samples_share(&t->resumed, 0.5) * 1e-6,
               samples_share(&t->ratio_extended, 0.5), samples_share(&t->ratio_resumed, 0.5));
}

status spec_write_json(const spec_bench *b, const char *path, err *e) {
    buf out = { 0 };
    buf_byte(&out, '{');
    bench_machine(&out, &b->pair);
    buf_printf(&out,
               ",\"prompts\":%zu,\"repeat\":%lld,\"predict\":%d,\"temperature\":%g,\"seed\":%lld,\"ignore_eos\":%s,\n",
               b->prompts.n, (long long)b->o->repeat, b->max_new, b->o->temp, (long long)b->o->seed,
               b->o->ignore_eos ? "true" : "false");
    put_settings(b, &out);
    put_classes(b, &out);
    put_costs(b, &out);
    if (b->turn.known) put_turn(&b->turn, &out);
    buf_str(&out, STR("\n}\n"));
    status s = file_write_atomic(path, buf_view(&out), e);
    buf_free(&out);
    return s;
}

/* ---- pictures ---- */

static status write_plot(const plot_chart *c, const char *dir, const char *name, err *e) {
    buf path = { 0 }, svg = { 0 };
    buf_printf(&path, "%s/%s", dir, name);
    plot_svg(c, &svg);
    status s = file_write_atomic(buf_cstr(&path), buf_view(&svg), e);
    buf_free(&path);
    buf_free(&svg);
    return s;
}

enum { WIDTHS = 2 + SET_CHAIN_15 - SET_CHAINS };

/* The points of one class: no proposals, chains by length, and auto at its mean number of proposals. */
typedef struct width_points {
    double x[WIDTHS], y[WIDTHS];
    size_t n;
    double auto_x, auto_y;
} width_points;

static void find_points(const spec_bench *b, int class, width_points *w) {
    *w = (width_points){ .n = 1, .x = { 0.0 }, .y = { 1.0 } };
    for (int k = SET_CHAINS; k <= SET_CHAIN_15; k++) {
        if (!b->player[k].on) continue;
        w->x[w->n] = spec_settings[k].depth;
        w->y[w->n++] = spec_ratio(b, class, SET_PLAIN, k);
    }
    const spec_sum *s = &b->class[class].sum[SET_AUTO];
    w->auto_x = s->steps ? (double)s->rows / (double)s->steps - 1.0 : 0.0;
    w->auto_y = spec_ratio(b, class, SET_PLAIN, SET_AUTO);
}

static status write_widths(const spec_bench *b, const char *dir, err *e) {
    size_t n = (size_t)b->n_classes;
    width_points *w = xalloc(n * sizeof *w);
    plot_series *s = xalloc((2 * n + 1) * sizeof *s);
    for (size_t c = 0; c < n; c++) {
        find_points(b, (int)c, &w[c]);
        s[c] = (plot_series){ b->class[c].name, w[c].x, w[c].y, w[c].n, PLOT_LINE, (int)c + 1 };
        s[n + c] = (plot_series){ NULL, &w[c].auto_x, &w[c].auto_y, 1, PLOT_MARKS, (int)c + 1 };
    }
    s[2 * n] = (plot_series){ "auto, its mean width", NULL, NULL, 0, PLOT_MARKS, 0 };
    plot_chart chart = { "Speed by the number of proposals",
                         "proposals per round (chains)",
                         "tokens per second, plain = 1",
                         s,
                         2 * n + 1,
                         true };
    status st = write_plot(&chart, dir, "speed-width.svg", e);
    free(w);
    free(s);
    return st;
}

static status write_contexts(const spec_bench *b, const char *dir, err *e) {
    double x[SPEED_CONTEXTS], plain[SPEED_CONTEXTS], adaptive[SPEED_CONTEXTS];
    size_t n = 0;
    for (int i = 0; i < SPEED_CONTEXTS; i++) {
        const spec_speed *v = &b->speed[i];
        if (!v->ctx) continue;
        x[n] = v->ctx, plain[n] = samples_share(&v->plain, 0.5), adaptive[n++] = samples_share(&v->adaptive, 0.5);
    }
    plot_series s[] = { { "plain", x, plain, n, PLOT_LINE, 0 }, { "auto", x, adaptive, n, PLOT_LINE, 1 } };
    plot_chart chart = { "Speed behind a context", "tokens of context", "tokens per second", s, 2, true };
    return write_plot(&chart, dir, "speed-context.svg", e);
}

status spec_write_plots(const spec_bench *b, const char *dir, err *e) {
    TRY(write_widths(b, dir, e));
    return write_contexts(b, dir, e);
}
