/* Golden references in three steps, because random tiny models are chaotic (one routing decision at a near-tie changes
 * all that follows): every part alone, fed with reference values; against references with our rounding points and
 * against FP32 ones; and end to end where the reference itself says that a choice is clear. */
#include "engine/cli/golden.h"
#include "engine/cli/verify.h"
#include "engine/base/mem.h"
#include "engine/core/probe.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What a comparison may show, in units of the reference row's RMS.
 * rounded: the reference has the engine's rounding points; only the order of additions differs (FP32, 1e-7 per step),
 * and now and then a value on the border between two BF16 numbers goes the other way (2^-8 of one operand). exact: the
 * reference is FP32 throughout. One BF16 rounding has a relative error of at most 2^-9, standard deviation 2^-9 / sqrt
 * 3 = 1.1e-3, and so has a product of independently rounded operands (twice that for two rounded operands). A layer
 * chains about eight of them, and softmax scales the error of its scores by their size (about 5 here): 1.1e-3 * sqrt 2
 * * sqrt(8 + 25) = 9e-3 of the row's RMS; the worst of 128 elements of the median row lies at 2.8 standard deviations
 * (2.5e-2), the worst of all elements near 5 plus the rows with a few dominant weights (1e-1 and more). */
typedef struct tolerance {
    const char *name;
    double median, worst;
    double weight; /* of router weights, absolute */
} tolerance;

static const tolerance ROUNDED = { "bf16in", 1e-4, 2e-2, 2e-3 }, EXACT = { "fp32", 5e-2, 3e-1, 5e-2 };

/* Rows whose routing the reference itself decides by less than this are counted and left out, at most 5 %. */
static const double ROUTER_MARGIN = 1e-3, LEFT_OUT_MAX = 0.05;

static const pick_params GREEDY = { .top_p = 1.0f };

typedef struct check {
    const char *folder; /* shown name */
    pair *p;
    probe *b;
    tally *t;
} check;

static float *floats(size_t n) { return xalloc(n * sizeof(float)); }

static void report(const check *c, const char *what, row_errors *r, const tolerance *tol) {
    double median = samples_median(&r->worst), worst = samples_share(&r->worst, 1.0);
    size_t n = r->worst.n, all = n + r->left_out;
    bool ok =
        n > 0 && median <= tol->median && worst <= tol->worst && (double)r->left_out <= LEFT_OUT_MAX * (double)all;
    tally_line(c->t, ok,
               "%s %s %s: %zu rows, error median %.1e (%.0e allowed), worst %.1e (%.0e); %zu rows at a router near-tie "
               "left out",
               c->folder, tol->name, what, n, median, tol->median, worst, tol->worst, r->left_out);
    samples_free(&r->worst);
}

/* ---- target, layer by layer ---- */

typedef struct routing {
    size_t rows, wrong;
    double worst_weight;
} routing;

/* Compares as sets: the order of near-equal experts may differ. */
static void compare_routing(routing *out, const int32_t *id, const float *share, const int32_t *want_id,
                            const float *want, int32_t k) {
    out->rows++;
    for (int32_t i = 0; i < k; i++) {
        int32_t j = 0;
        while (j < k && id[j] != want_id[i]) j++;
        if (j == k) {
            out->wrong++;
            return;
        }
        double d = fabs((double)share[j] - (double)want[i]);
        if (d > out->worst_weight) out->worst_weight = d;
    }
}

static void one_layer(const check *c, const golden *g, const tolerance *tol, int32_t l) {
    const target_config *cfg = &c->p->target.cfg;
    int32_t k = cfg->experts_per_token, hidden = cfg->hidden;
    row_errors errors = { 0 };
    routing route = { 0 };
    int64_t d[2];
    const int32_t *ids;
    for (int i = 0; (ids = golden_i32(g, d, "p%d.ids", i)) != NULL; i++) {
        int32_t n = (int32_t)d[0];
        const float *want = golden_f32(g, NULL, "p%d.layer%d.residual", i, l);
        const float *before = l ? golden_f32(g, NULL, "p%d.layer%d.residual", i, l - 1) : NULL;
        const float *margin = golden_f32(g, NULL, "p%d.layer%d.router_margin", i, l);
        const int32_t *want_id = golden_i32(g, NULL, "p%d.layer%d.router_ids", i, l);
        const float *want_share = golden_f32(g, NULL, "p%d.layer%d.router_weights", i, l);
        if (!want || n > PREFILL_MAX || (l && !before)) continue;
        float *x = floats((size_t)n * (size_t)hidden), *share = floats((size_t)n * (size_t)k + 1);
        int32_t *id = xalloc(((size_t)n * (size_t)k + 1) * sizeof *id);
        if (before)
            memcpy(x, before, (size_t)n * (size_t)hidden * sizeof *x);
        else
            probe_embed(c->b, ids, n, x);
        probe_layer(c->b, l, n, x, id, share);
        for (int32_t r = 0; r < n; r++) {
            if (margin && (double)margin[r] < ROUTER_MARGIN) {
                errors.left_out++;
                continue;
            }
            row_errors_add(&errors, x + (int64_t)r * hidden, want + (int64_t)r * hidden, hidden);
            if (want_id && want_share)
                compare_routing(&route, id + r * k, share + r * k, want_id + r * k, want_share + r * k, k);
        }
        free(x);
        free(share);
        free(id);
    }
    char what[64];
    snprintf(what, sizeof what, "layer %d", l);
    report(c, what, &errors, tol);
    if (route.rows)
        tally_line(c->t, route.wrong == 0 && route.worst_weight <= tol->weight,
                   "%s %s layer %d router: %zu rows, %zu with other experts, weights off by %.1e (%.0e allowed)",
                   c->folder, tol->name, l, route.rows, route.wrong, route.worst_weight, tol->weight);
}

static void head(const check *c, const golden *g, const tolerance *tol) {
    const target_config *cfg = &c->p->target.cfg;
    row_errors norm_errors = { 0 }, logit_errors = { 0 };
    int64_t d[2];
    const float *x;
    for (int i = 0; (x = golden_f32(g, d, "p%d.layer%d.residual", i, cfg->layers - 1)) != NULL; i++) {
        int32_t n = (int32_t)d[0];
        const float *want_norm = golden_f32(g, NULL, "p%d.final_norm", i), *want = golden_f32(g, NULL, "p%d.logits", i);
        if (n > PREFILL_MAX || !want_norm || !want) continue;
        float *norm = floats((size_t)n * (size_t)cfg->hidden), *logits = floats((size_t)n * (size_t)cfg->vocab);
        probe_head(c->b, n, x, norm, logits);
        for (int32_t r = 0; r < n; r++) {
            row_errors_add(&norm_errors, norm + (int64_t)r * cfg->hidden, want_norm + (int64_t)r * cfg->hidden,
                           cfg->hidden);
            row_errors_add(&logit_errors, logits + (int64_t)r * cfg->vocab, want + (int64_t)r * cfg->vocab, cfg->vocab);
        }
        free(norm);
        free(logits);
    }
    report(c, "final norm", &norm_errors, tol);
    report(c, "logits", &logit_errors, tol);
}

static void target_layers(const check *c, const golden *g, const tolerance *tol) {
    int failed = c->t->failed, first = -1;
    for (int32_t l = 0; l < c->p->target.cfg.layers; l++) {
        one_layer(c, g, tol, l);
        if (first < 0 && c->t->failed > failed) first = l;
    }
    head(c, g, tol);
    if (first >= 0) printf("     %s %s: the first layer that is off is %d\n", c->folder, tol->name, first);
}

/* ---- end to end ---- */

static int32_t argmax(const float *x, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* Largest difference of two rows of logits. */
static double spread(const float *a, const float *b, int64_t n) {
    double worst = 0.0;
    for (int64_t v = 0; v < n; v++) worst = fmax(worst, fabs((double)a[v] - (double)b[v]));
    return worst;
}

/* Row by row with one token a step; then greedy, up to the first choice that the reference itself finds close.
 *
 * The tolerance of a logit is twice the distance of the reference's two versions: that distance is what one set of
 * rounding decisions does to this prompt, and ours is another set (additions in another order move values across other
 * borders). A choice with a wider margin must be the same. */
static void end_to_end(const check *c, const golden *g, int i, const int32_t *ids, int32_t n) {
    steps *s = c->p->steps;
    int32_t vocab = c->p->target.cfg.vocab;
    int64_t d[2] = { 0, 0 };
    const float *exact = golden_f32(g, NULL, "p%d.fp32_last_logits", i);
    const int32_t *want = golden_i32(g, NULL, "p%d.argmax", i), *greedy = golden_i32(g, d, "p%d.greedy_ids", i);
    const float *margin = golden_f32(g, NULL, "p%d.margin", i), *last = golden_f32(g, NULL, "p%d.last_logits", i);
    const float *greedy_margin = golden_f32(g, NULL, "p%d.greedy_margin", i);
    if (!want || !greedy || !margin || !last || !exact || !greedy_margin || n < 1 || n >= c->p->ctx) return;
    double limit = 2.0 * spread(exact, last, vocab);
    int32_t clear = 0, wrong = 0;
    const step_out *o = &steps_params(s)->out;
    steps_seek(s, 0, 0, 0);
    steps_set_pick(s, &GREEDY);
    for (int32_t r = 0; r < n; r++) {
        o = steps_prefill(s, ids + r, 1, true);
        if ((double)margin[r] <= limit) continue;
        clear++;
        wrong += o->token[0] != want[r];
    }
    tally_line(c->t, wrong == 0 && clear > 0, "%s prompt %d: %d of %d rows have a clear choice, %d differ", c->folder,
               i, clear, n, wrong);
    float *logits = xalloc((size_t)vocab * sizeof *logits);
    probe_step_logits(c->b, steps_prefill_index(1), 1, logits);
    double worst = spread(logits, last, vocab);
    tally_line(c->t, worst <= limit && argmax(logits, vocab) == o->token[0],
               "%s prompt %d: logits of the last row differ by at most %.4f (%.4f allowed)", c->folder, i, worst,
               limit);
    int32_t same = 0;
    while (same < d[0] && (double)greedy_margin[same] > limit && o->token[0] == greedy[same]) {
        same++;
        o = steps_plain(s);
    }
    bool stopped_at_tie = same == d[0] || (double)greedy_margin[same] <= limit;
    tally_line(c->t, stopped_at_tie && same > 0, "%s prompt %d: %d of %lld greedy tokens equal%s", c->folder, i, same,
               (long long)d[0],
               same == d[0]     ? ""
               : stopped_at_tie ? ", then a choice within the tolerance"
                                : ", then one differs");
}

/* ---- draft ---- */

/* Taps as the ring gets them from the layer, against the reference residual rounded to BF16. */
static void taps(const check *c, const golden *tg, const tolerance *tol) {
    const target *t = &c->p->target;
    int32_t hidden = t->cfg.hidden;
    for (int32_t j = 0; j < t->taps; j++) {
        int32_t l = t->tap_layer[j];
        row_errors errors = { 0 };
        int64_t d[2];
        const float *before, *want;
        for (int i = 0; (want = golden_f32(tg, d, "p%d.layer%d.residual", i, l)) != NULL; i++) {
            int32_t n = (int32_t)d[0];
            before = golden_f32(tg, NULL, "p%d.layer%d.residual", i, l - 1);
            if (!before || n > t->tap_ring.rows) continue;
            const float *margin = golden_f32(tg, NULL, "p%d.layer%d.router_margin", i, l);
            float *x = floats((size_t)n * (size_t)hidden), *found = floats((size_t)n * (size_t)hidden);
            memcpy(x, before, (size_t)n * (size_t)hidden * sizeof *x);
            probe_layer(c->b, l, n, x, NULL, NULL);
            probe_get_tap(c->b, j, n, found);
            for (int32_t r = 0; r < n; r++) {
                if (margin && (double)margin[r] < ROUTER_MARGIN) {
                    errors.left_out++;
                    continue;
                }
                float *want_row = x + (int64_t)r * hidden; /* reuse: rounded reference */
                for (int32_t col = 0; col < hidden; col++)
                    want_row[col] = f32_of_bf16(bf16_of_f32(want[(int64_t)r * hidden + col]));
                row_errors_add(&errors, found + (int64_t)r * hidden, want_row, hidden);
            }
            free(x);
            free(found);
        }
        char what[64];
        snprintf(what, sizeof what, "tap after layer %d", l);
        report(c, what, &errors, tol);
    }
}

/* Context rows from reference residuals, for the positions that the target reference has. */
static void context_rows(const check *c, const golden *g, const golden *tg, const tolerance *tol) {
    const target *t = &c->p->target;
    const draft_config *dc = &c->p->draft.cfg;
    int32_t cols = dc->kv_heads * dc->head_dim, chunk = NODES_MAX;
    float *k = floats((size_t)cols), *v = floats((size_t)cols);
    for (int32_t l = 0; l < dc->layers; l++) {
        row_errors k_errors = { 0 }, v_errors = { 0 };
        int64_t d[2];
        for (int i = 0; golden_i32(tg, d, "p%d.ids", i); i++) {
            int32_t n = (int32_t)d[0];
            const float *want_k = golden_f32(g, NULL, "p%d.layer%d.ctx_k", i, l),
                        *want_v = golden_f32(g, NULL, "p%d.layer%d.ctx_v", i, l);
            if (!want_k || !want_v) continue;
            for (int32_t from = 0; from < n; from += chunk) {
                int32_t rows = n - from < chunk ? n - from : chunk;
                for (int32_t j = 0; j < t->taps; j++) {
                    const float *x = golden_f32(tg, NULL, "p%d.layer%d.residual", i, t->tap_layer[j]);
                    probe_set_tap(c->b, j, from, rows, x + (int64_t)from * t->cfg.hidden);
                }
                probe_context(c->b, from, rows);
                for (int32_t pos = from; pos < from + rows; pos++) {
                    probe_get_context(c->b, l, pos, k, v);
                    row_errors_add(&k_errors, k, want_k + (int64_t)pos * cols, cols);
                    row_errors_add(&v_errors, v, want_v + (int64_t)pos * cols, cols);
                }
            }
        }
        char what[64];
        snprintf(what, sizeof what, "context keys of draft layer %d", l);
        report(c, what, &k_errors, tol);
        snprintf(what, sizeof what, "context values of draft layer %d", l);
        report(c, what, &v_errors, tol);
    }
    free(k);
    free(v);
}

/* Block logits over reference context rows. */
static void blocks(const check *c, const golden *g, const tolerance *tol) {
    const draft_config *dc = &c->p->draft.cfg;
    int32_t cols = dc->kv_heads * dc->head_dim;
    row_errors errors = { 0 };
    for (int i = 0;; i++) {
        int64_t d[2];
        const int32_t *text = golden_i32(g, d, "p%d.text_ids", i);
        if (!text) break;
        for (int32_t P = 0; P < d[0]; P++) {
            int64_t ld[2];
            const float *want = golden_f32(g, ld, "p%d.P%d.logits", i, P);
            if (!want || ld[0] >= NODES_MAX) continue;
            for (int32_t l = 0; l < dc->layers; l++) {
                const float *k = golden_f32(g, NULL, "p%d.layer%d.ctx_k", i, l),
                            *v = golden_f32(g, NULL, "p%d.layer%d.ctx_v", i, l);
                for (int32_t pos = P > dc->window ? P - dc->window : 0; pos < P; pos++)
                    probe_set_context(c->b, l, pos, k + (int64_t)pos * cols, v + (int64_t)pos * cols);
            }
            float *logits = floats((size_t)ld[0] * (size_t)dc->vocab);
            probe_block(c->b, text[P], P, (int32_t)ld[0], logits);
            for (int64_t r = 0; r < ld[0]; r++)
                row_errors_add(&errors, logits + r * dc->vocab, want + r * dc->vocab, dc->vocab);
            free(logits);
        }
    }
    report(c, "block logits", &errors, tol);
}

/* ---- traces ---- */

static int32_t member_int(const json_t *o, const char *name) {
    return (int32_t)json_integer_value(json_object_get(o, name));
}

static int32_t *ints(const json_t *a, int32_t *n) {
    *n = (int32_t)json_array_size(a);
    int32_t *out = xalloc(((size_t)*n + 1) * sizeof *out);
    for (int32_t i = 0; i < *n; i++) out[i] = (int32_t)json_integer_value(json_array_get(a, (size_t)i));
    return out;
}

/* The draft's own proposals, round by round, as long as the reference's margins are wide. */
static void trace_draft(const check *c, const json_t *run, const int32_t *prompt, int32_t n, double tolerance,
                        int *rounds, int *wrong) {
    steps *s = c->p->steps;
    int32_t k = member_int(run, "k");
    const step_out *o = steps_prompt(s, &GREEDY, prompt, (size_t)n);
    if (o->token[0] != member_int(run, "first_token")) return;
    size_t i;
    json_t *want;
    json_array_foreach(json_object_get(run, "rounds"), i, want) {
        if (json_number_value(json_object_get(want, "draft_margin")) <= tolerance ||
            json_number_value(json_object_get(want, "target_margin")) <= tolerance)
            return;
        o = steps_round(s, k);
        int32_t m;
        int32_t *proposals = ints(json_object_get(want, "proposals"), &m);
        bool same = o->accepted == member_int(want, "accepted") && o->base == member_int(want, "committed") &&
                    memcmp(proposals, o->proposal, (size_t)m * sizeof *proposals) == 0;
        free(proposals);
        ++*rounds;
        *wrong += !same;
        if (!same) return; /* what follows starts elsewhere */
    }
}

/* Proposals made of the engine's own plain continuation, wrong at known places: the accepted counts of the reference
 * script must come out, and the same text. */
static void trace_scripted(const check *c, const json_t *run, const int32_t *prompt, int32_t n, int *rounds,
                           int *wrong) {
    steps *s = c->p->steps;
    int32_t k = member_int(run, "k"), vocab = c->p->target.cfg.vocab, have = 0, truth_n = 1;
    size_t n_rounds = json_array_size(json_object_get(run, "rounds"));
    int32_t *truth = xalloc((n_rounds * (size_t)(k + 1) + 2) * sizeof *truth);
    truth[0] = steps_prompt(s, &GREEDY, prompt, (size_t)n)->token[0];
    while (truth_n < (int32_t)n_rounds * (k + 1) + 2) truth[truth_n++] = steps_plain(s)->token[0];
    steps_prompt(s, &GREEDY, prompt, (size_t)n);
    for (size_t i = 0; i < n_rounds; i++) {
        int32_t proposals[NODES_MAX],
            accepted = member_int(json_array_get(json_object_get(run, "rounds"), i), "accepted");
        memcpy(proposals, truth + have + 1, (size_t)k * sizeof *proposals);
        if (accepted < k) proposals[accepted] = (proposals[accepted] + 1 + 7 * (int32_t)i) % vocab;
        const step_out *o = steps_verify(s, proposals, k);
        bool same = o->accepted == accepted && o->n == accepted + 1 && o->base == n + have + accepted + 1;
        for (int32_t j = 0; same && j < o->n; j++) same = o->token[j] == truth[have + 1 + j];
        ++*rounds;
        *wrong += !same;
        if (!same) break;
        have += o->n;
    }
    free(truth);
}

static status traces(const check *c, const char *path, double tolerance, err *e) {
    json_error_t why;
    json_t *root = json_load_file(path, 0, &why), *run;
    if (!root) return err_set(e, ERR_MODEL, "%s: line %d: %s", path, why.line, why.text);
    int draft_rounds = 0, draft_wrong = 0, script_rounds = 0, script_wrong = 0;
    size_t i;
    json_array_foreach(root, i, run) {
        const char *kind = json_string_value(json_object_get(run, "kind"));
        int32_t n, *prompt = ints(json_object_get(run, "prompt_ids"), &n);
        if (kind && n > 0 && strcmp(kind, "draft") == 0)
            trace_draft(c, run, prompt, n, tolerance, &draft_rounds, &draft_wrong);
        if (kind && n > 0 && strcmp(kind, "scripted") == 0)
            trace_scripted(c, run, prompt, n, &script_rounds, &script_wrong);
        free(prompt);
    }
    json_decref(root);
    tally_line(c->t, draft_wrong == 0 && draft_rounds > 0,
               "%s trace: %d rounds of the draft's own proposals with margins above %.2f, %d differ", c->folder,
               draft_rounds, tolerance, draft_wrong);
    tally_line(c->t, script_wrong == 0 && script_rounds > 0,
               "%s trace: %d scripted rounds, %d with another accepted count, length or text", c->folder, script_rounds,
               script_wrong);
    return OK;
}

/* ---- folders ---- */

static char *joined(const char *dir, const char *name) {
    char *p = xalloc(strlen(dir) + strlen(name) + 2);
    sprintf(p, "%s/%s", dir, name);
    return p;
}

static bool exists(const char *dir, const char *name) {
    char *p = joined(dir, name);
    bool is = access(p, R_OK) == 0;
    free(p);
    return is;
}

static status open_ref(golden *g, const char *dir, const char *name, err *e) {
    char *p = joined(dir, name);
    status s = golden_open(g, p, e);
    free(p);
    return s;
}

static status begin(check *c, pair *p, const char *target, const char *draft, const engine_options *opt, err *e) {
    TRY(pair_load(p, target, draft, false, NULL, NULL, e));
    c->p = p;
    status s = pair_start(p, opt, e);
    if (s == OK) s = probe_open(&c->b, p, e);
    if (s != OK) pair_close(p);
    return s;
}

static void end(check *c) {
    probe_close(c->b);
    pair_close(c->p);
}

static status check_target(check *c, const char *dir, const engine_options *opt, err *e) {
    pair p;
    TRY(begin(c, &p, dir, NULL, opt, e));
    status s = OK;
    const struct {
        const char *file;
        const tolerance *tol;
    } REFS[] = { { "target_ref_bf16in.safetensors", &ROUNDED }, { "target_ref.safetensors", &EXACT } };
    for (int i = 0; i < 2 && s == OK; i++) {
        golden g;
        if (!exists(dir, REFS[i].file)) continue;
        s = open_ref(&g, dir, REFS[i].file, e);
        if (s != OK) break;
        target_layers(c, &g, REFS[i].tol);
        golden_close(&g);
    }
    end(c);
    return s;
}

/* What rounding does end to end to the logits of a row of this target: the median over rows of the largest difference
 * between its two references. (The largest row of a random model says nothing: there a routing decision flipped.) */
static double rounding_spread(const golden *a, const golden *b) {
    samples rows = { 0 };
    int64_t d[2];
    const float *x, *y;
    for (int i = 0; (x = golden_f32(a, d, "p%d.logits", i)) && (y = golden_f32(b, NULL, "p%d.logits", i)); i++)
        for (int64_t r = 0; r < d[0]; r++) samples_add(&rows, spread(x + r * d[1], y + r * d[1], d[1]));
    double median = rows.n ? samples_median(&rows) : INFINITY;
    samples_free(&rows);
    return median;
}

static status check_draft(check *c, const char *dir, const char *home, const engine_options *opt, err *e) {
    pair p;
    golden g[2] = { 0 }, tg[2] = { 0 };
    TRY(begin(c, &p, home, dir, opt, e));
    status s = open_ref(&g[0], dir, "draft_ref_bf16in.safetensors", e);
    if (s == OK) s = open_ref(&g[1], dir, "draft_ref.safetensors", e);
    if (s == OK) s = open_ref(&tg[0], home, "target_ref_bf16in.safetensors", e);
    if (s == OK) s = open_ref(&tg[1], home, "target_ref.safetensors", e);
    for (int i = 0; s == OK && i < 2; i++) {
        const tolerance *tol = i ? &EXACT : &ROUNDED;
        taps(c, &tg[i], tol);
        context_rows(c, &g[i], &tg[i], tol);
        blocks(c, &g[i], tol);
    }
    if (s == OK && exists(dir, "trace.json")) {
        char *path = joined(dir, "trace.json");
        s = traces(c, path, rounding_spread(&tg[0], &tg[1]), e);
        free(path);
    }
    for (int i = 0; i < 2; i++) {
        golden_close(&g[i]);
        golden_close(&tg[i]);
    }
    end(c);
    return s;
}

static status check_demo(check *c, const char *dir, const engine_options *opt, err *e) {
    pair p;
    golden g;
    TRY(begin(c, &p, exists(dir, "config.json") ? dir : NULL, NULL, opt, e));
    status s = open_ref(&g, dir, "demo_ref_bf16in.safetensors", e);
    int64_t d[2];
    const int32_t *ids;
    if (s == OK) {
        for (int i = 0; (ids = golden_i32(&g, d, "p%d.ids", i)) != NULL; i++) end_to_end(c, &g, i, ids, (int32_t)d[0]);
        golden_close(&g);
    }
    end(c);
    return s;
}

/* The target folder among the neighbours that this draft belongs to: the first one whose pair loads. */
static status find_home(const char *root, char **names, size_t n, const char *draft, char **home, err *e) {
    err last = { 0 };
    for (size_t i = 0; i < n; i++) {
        char *dir = joined(root, names[i]);
        pair p;
        if (exists(dir, "target_ref.safetensors") && pair_load(&p, dir, draft, false, NULL, NULL, &last) == OK) {
            pair_close(&p);
            *home = dir;
            return OK;
        }
        free(dir);
    }
    return err_set(e, ERR_MODEL, "%s: no target beside it fits this draft: %s", draft, last.text);
}

static status check_folder(const char *root, char **names, size_t n, const char *name, const engine_options *opt,
                           tally *t, bool *found, err *e) {
    char *dir = *name ? joined(root, name) : xstrndup(root, strlen(root)), *home = NULL;
    check c = { .folder = *name ? name : root, .t = t };
    status s = OK;
    if (exists(dir, "target_ref.safetensors") || exists(dir, "target_ref_bf16in.safetensors")) {
        *found = true;
        s = check_target(&c, dir, opt, e);
    }
    if (s == OK && exists(dir, "draft_ref.safetensors")) {
        *found = true;
        s = find_home(root, names, n, dir, &home, e);
        if (s == OK) s = check_draft(&c, dir, home, opt, e);
    }
    if (s == OK && exists(dir, "demo_ref_bf16in.safetensors")) {
        *found = true;
        s = check_demo(&c, dir, opt, e);
    }
    free(home);
    free(dir);
    return s;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

status verify_golden(const char *dir, const engine_options *opt, tally *t, err *e) {
    DIR *d = opendir(dir);
    if (!d) return err_set(e, ERR_USAGE, "%s: not a folder that can be read", dir);
    char **names = NULL;
    size_t n = 0;
    for (struct dirent *f; (f = readdir(d)) != NULL;) {
        if (f->d_name[0] == '.') continue;
        names = xrealloc(names, (n + 1) * sizeof *names);
        names[n++] = xstrndup(f->d_name, strlen(f->d_name));
    }
    closedir(d);
    if (n) qsort(names, n, sizeof *names, by_name);
    bool found = false;
    status s = check_folder(dir, names, n, "", opt, t, &found, e);
    for (size_t i = 0; i < n && s == OK; i++) s = check_folder(dir, names, n, names[i], opt, t, &found, e);
    for (size_t i = 0; i < n; i++) free(names[i]);
    free(names);
    if (s == OK && !found)
        return err_set(e, ERR_USAGE, "%s: no reference data here (target_ref, draft_ref, demo_ref safetensors)", dir);
    return s;
}
