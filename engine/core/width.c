#include "engine/core/width.h"

#include "engine/base/num.h"

#include <math.h>
#include <string.h>

/* How fast what is seen replaces what was thought. */
static const float CLASS_WEIGHT = 1.0f / 24.0f; /* per candidate; confidence means much the same for long */
static const float HIT_FADE = 0.95f;            /* per candidate; text changes its kind within one answer */
static const float HIT_PRIOR = 0.5f;            /* candidates that are taken as having proved as right as hoped */
static const float ROUND_WEIGHT = 1.0f / 6.0f, USUAL_WEIGHT = 1.0f / 6.0f;
static const float RIGHT_MOST = 0.99f, RIGHT_LEAST = 0.005f;
static const float COPY_MARGIN = 0.15f; /* tokens that a copy must promise above its price: only hopes are looked at */
static const float TRUST_SURE = 0.7f, TRUST_PRIOR = 0.5f;
static const float TRUST_FADE = 0.9f, TRUST_RETURN = 0.99f; /* per copy that was tried, and that was not */
static const float MARGIN = 0.015f; /* drafting goes on and off this much above and below plain steps */
/* Probes take a share of the time, in proportion to what drafting could win at best (this share where it would be twice
 * as fast), and at most the second one. Unspent time is kept for some of them, behind PROBE_LAG missing context rows.
 */
static const float PROBE_SHARE = 0.005f, PROBE_SHARE_MOST = 0.015f, PROBE_SAVED = 2.0f;
enum { PROBE_LAG = 128, PROBE_GAP = 16, PROBE_ROW = 6 }; /* tokens between probes; probes in a row while they succeed */
static const int64_t STALE_NS = 60000000000LL;
static const float CATCH_UP_SPREAD = 1.0f / 8.0f; /* rounds over which a catch-up is paid back */

static float clamp(float x, float lo, float hi) { return x < lo ? lo : x > hi ? hi : x; }

/* ---- cost ---- */

static int32_t tier_of(int32_t ctx) {
    int32_t t = 0;
    while (t < COST_TIERS - 1 && ctx > 1024 << t) t++;
    return t;
}

static void entry_add(cost_entry *e, float ns, int64_t now) {
    int32_t have = min_i32(e->n, COST_SAMPLES), at = e->n % COST_SAMPLES, i = 0;
    if (e->n >= COST_SAMPLES) { /* the oldest goes */
        while (e->sorted[i] != e->last[at]) i++;
        memmove(e->sorted + i, e->sorted + i + 1, (size_t)(--have - i) * sizeof *e->sorted);
    }
    for (i = have; i > 0 && e->sorted[i - 1] > ns; i--) e->sorted[i] = e->sorted[i - 1];
    e->sorted[i] = ns;
    e->last[at] = ns;
    e->n++;
    e->seen = now;
}

static float entry_median(const cost_entry *e) { return e->sorted[min_i32(e->n, COST_SAMPLES) / 2]; }

static bool entry_is_fresh(const cost_entry *e, int64_t now) {
    return e->n >= COST_ENOUGH && now - e->seen <= STALE_NS;
}

/* Every size from the nearest fresh entry, the smaller one of two. */
static void curve_update(cost_curve *c, int64_t now) {
    int32_t fresh[NODES_MAX + 1], n = 0;
    for (int32_t r = 1; r <= NODES_MAX; r++)
        if (entry_is_fresh(&c->entry[r], now)) fresh[n++] = r;
    if (n == 0) return;
    for (int32_t r = 1, i = 0; r <= NODES_MAX; r++) {
        while (i + 1 < n && fresh[i + 1] - r < r - fresh[i]) i++;
        int32_t k = fresh[i];
        c->ns[r] = c->prior[r] * (entry_median(&c->entry[k]) / c->prior[k]);
    }
}

static void curve_add(cost_curve *c, int32_t size, float ns, int64_t now) {
    cost_entry *e = &c->entry[size];
    float before = e->n ? entry_median(e) : 0.0f;
    bool was_fresh = entry_is_fresh(e, now);
    if (!was_fresh && e->n >= COST_ENOUGH) { /* old times keep their say about the shape */
        memcpy(c->prior, c->ns, sizeof c->prior);
        e->n = 0;
    }
    entry_add(e, ns, now);
    if (!was_fresh || fabsf(entry_median(e) - before) > 0.005f * before) curve_update(c, now);
}

/* Straight lines between the measured sizes, the last one going on. */
static void curve_set(cost_curve *c, const int32_t *size, const float *ns, int32_t n) {
    for (int32_t r = 1, i = 0; r <= NODES_MAX; r++) {
        while (i + 2 < n && size[i + 1] < r) i++;
        if (n == 1) {
            c->prior[r] = ns[0];
            continue;
        }
        float slope = (ns[i + 1] - ns[i]) / (float)(size[i + 1] - size[i]);
        float v = ns[i] + (slope > 0.0f ? slope : 0.0f) * (float)(r - size[i]);
        c->prior[r] = v > ns[0] * 0.1f ? v : ns[0] * 0.1f;
    }
    memcpy(c->ns, c->prior, sizeof c->ns);
}

/* A tier starts with the times of the one before it. */
static void tier_enter(width *w, int32_t tier) {
    for (; w->tiers <= tier; w->tiers++) {
        int32_t t = w->tiers;
        memcpy(w->verify[t].prior, w->verify[t - 1].ns, sizeof w->verify[t].prior);
        memcpy(w->verify[t].ns, w->verify[t - 1].ns, sizeof w->verify[t].ns);
        memcpy(w->draft[t].prior, w->draft[t - 1].ns, sizeof w->draft[t].prior);
        memcpy(w->draft[t].ns, w->draft[t - 1].ns, sizeof w->draft[t].ns);
    }
}

float width_verify_ns(const width *w, int32_t ctx, int32_t rows) { return w->verify[tier_of(ctx)].ns[rows]; }
float width_draft_ns(const width *w, int32_t ctx, int32_t rows) { return w->draft[tier_of(ctx)].ns[rows]; }

/* ---- acceptance ---- */

static void update_conf(width *w) {
    float f = (w->hits + HIT_PRIOR) / (w->hoped + HIT_PRIOR);
    for (int32_t c = 0; c < CONF_CLASSES; c++)
        w->conf[c] = logf(clamp(w->right[w->kind][c] * f, RIGHT_LEAST, RIGHT_MOST));
}

/* One candidate below a right parent proved right or wrong. */
static void learn_candidate(width *w, int32_t class, bool was_right) {
    float *r = &w->right[w->kind][class], outcome = was_right ? 1.0f : 0.0f;
    w->hits = HIT_FADE * w->hits + outcome;
    w->hoped = HIT_FADE * w->hoped + *r;
    *r += CLASS_WEIGHT * (outcome - *r);
}

/* Of every node whose parent is right: was it? */
static void learn_nodes(width *w, const step_out *o) {
    for (int32_t i = 1; i <= o->drafted; i++) {
        const node_note *n = &o->note[i];
        if (!(n->source & NODE_DRAFT)) continue;
        for (int32_t j = 0; j < o->n; j++)
            if (o->path[j] == n->parent) learn_candidate(w, n->conf, j + 1 < o->n && o->path[j + 1] == i);
    }
}

/* ---- trust in copies ---- */

float width_trust_in(const width *w, float p0) {
    const width_trust *t = &w->copied[w->kind][p0 >= TRUST_SURE];
    float f = (t->hits + TRUST_PRIOR) / (t->hoped + TRUST_PRIOR);
    return f * p0 > RIGHT_MOST ? RIGHT_MOST / p0 : f;
}

void width_copied(width *w, float p0, bool tried, bool right) {
    width_trust *t = &w->copied[w->kind][p0 >= TRUST_SURE];
    float fade = tried ? TRUST_FADE : TRUST_RETURN;
    t->hits *= fade, t->hoped *= fade;
    if (tried) t->hits += right ? 1.0f : 0.0f, t->hoped += p0;
}

/* ---- what drafting brings ---- */

/* Chances of the likeliest chain in this round; beyond the rows that were drafted, between the usual ones and these
 * rows'. */
static void chain_chances(const width *w, const step_out *o, float *s) {
    float path = 1.0f, mean = 0.0f;
    for (int32_t j = 0; j < w->draft_max; j++) {
        float c = j < o->draft_depth ? expf(w->conf[o->draft_conf[j]]) : 0.5f * (w->usual[j] + mean);
        if (j < o->draft_depth) mean += (c - mean) / (float)(j + 1);
        s[j] = path *= c;
    }
}

/* Most tokens less cost for a draft of k rows with these chances. */
static void best_cut(const width *w, const cost_curve *c, const float *s, int32_t k, float *tokens, float *ns) {
    float sum = 1.0f, best = 1.0f - w->lambda * c->ns[1];
    *tokens = 1.0f, *ns = c->ns[1];
    for (int32_t n = 1; n <= k; n++) {
        sum += s[n - 1];
        if (sum - w->lambda * c->ns[n + 1] <= best) continue;
        best = sum - w->lambda * c->ns[n + 1];
        *tokens = sum, *ns = c->ns[n + 1];
    }
}

/* What rounds with any number of rows would have brought here. */
static void learn_rounds(width *w, int32_t ctx, const float *s, float weight) {
    int32_t t = tier_of(ctx);
    for (int32_t k = 1; k <= w->draft_max; k++) {
        float tokens, ns;
        best_cut(w, &w->verify[t], s, k, &tokens, &ns);
        ns += w->draft[t].ns[k];
        w->tokens[k] += weight * (tokens - w->tokens[k]);
        w->time[k] += weight * (ns - w->time[k]);
    }
}

static void usual_chances(const width *w, float *s) {
    float path = 1.0f;
    for (int32_t j = 0; j < w->draft_max; j++) s[j] = path *= w->usual[j];
}

/* ---- life ---- */

void width_init(width *w, int32_t draft_max) {
    *w = (width){ .draft_max = draft_max, .tiers = 1 };
    static const int32_t SIZE[] = { 1, 2 }; /* any shape will do until something is measured */
    width_set_verify(w, SIZE, (float[]){ 1e6f, 1.2e6f }, 2);
    width_set_draft(w, SIZE, (float[]){ 3e5f, 3e5f }, 2, 0.0f);
    for (int k = 0; k < 2; k++)
        for (int32_t c = 0; c < CONF_CLASSES; c++) w->right[k][c] = 1.0f - exp2f(-0.25f * ((float)c + 0.5f));
    for (int32_t j = 0; j < DEPTH_MAX; j++) w->usual[j] = 0.7f;
    w->weight = 1.0f;
    width_begin(w, false);
}

void width_set_verify(width *w, const int32_t *rows, const float *ns, int32_t n) {
    curve_set(&w->verify[0], rows, ns, n);
}

void width_set_draft(width *w, const int32_t *rows, const float *ns, int32_t n, float ctx_row) {
    curve_set(&w->draft[0], rows, ns, n);
    w->ctx_row = ctx_row;
}

void width_begin(width *w, bool sampled) {
    w->kind = sampled;
    w->hits *= 0.5f, w->hoped *= 0.5f;
    w->weight = 0.5f;
    w->first_look = true;
    w->probing = 0;
    update_conf(w);
}

/* ---- choice ---- */

static float probe_ns(const width *w, const width_input *in, int32_t k) {
    int32_t t = tier_of(in->ctx);
    return w->draft[t].ns[k] + w->verify[t].ns[2] - w->verify[t].ns[1] + w->ctx_row * (float)in->lag;
}

/* Rows to draft, at most `most`: those with the best rate so far. */
static int32_t best_rows(const width *w, int32_t most) {
    int32_t best = 0;
    for (int32_t k = 1; k <= most; k++)
        if (best == 0 || w->tokens[k] * w->time[best] > w->tokens[best] * w->time[k]) best = k;
    return best;
}

/* lambda, and whether drafting pays. */
static void weigh(width *w, const width_input *in) {
    int32_t t = tier_of(in->ctx), most = min_i32(w->draft_max, in->depth);
    tier_enter(w, t);
    if (w->draft_max && w->time[1] == 0.0f) { /* the first request */
        float s[DEPTH_MAX] = { 0 };
        w->lambda = 1.0f / w->verify[t].ns[1];
        w->credit = probe_ns(w, in, 1); /* for a first look */
        usual_chances(w, s);
        learn_rounds(w, in->ctx, s, 1.0f);
        w->favourite = best_rows(w, w->draft_max);
    }
    float plain = 1.0f / w->verify[t].ns[1], drafted = 0.0f;
    w->best = w->favourite <= most ? w->favourite : best_rows(w, most);
    if (w->best) {
        float late = w->drafting ? 0.0f : w->ctx_row * (float)in->lag * CATCH_UP_SPREAD;
        drafted = w->tokens[w->best] / (w->time[w->best] + late);
    }
    w->drafting = drafted > plain * (w->drafting ? 1.0f - MARGIN : 1.0f + MARGIN);
    w->lambda = drafted > plain ? drafted : plain;
}

static void price_rows(width *w, int32_t ctx) {
    const cost_curve *c = &w->verify[tier_of(ctx)];
    for (int32_t r = 1; r <= NODES_MAX; r++) w->cost[r] = w->lambda * c->ns[r];
}

/* How much of the looked-up chain is worth verifying alone, and what it is then worth above a plain step. */
static int32_t best_given(const width *w, const width_input *in, float *worth) {
    float sum = 0.0f;
    int32_t best = 0, most = min_i32(in->n, min_i32(in->depth, in->nodes));
    *worth = 0.0f;
    for (int32_t m = 1; m <= most; m++) {
        sum += in->p[m - 1];
        float v = sum - (w->cost[m + 1] - w->cost[1]) - COPY_MARGIN;
        if (v > *worth) *worth = v, best = m;
    }
    return best;
}

/* Nodes beyond this many cannot be worth their rows, however certain they are. */
static int32_t most_nodes(const width *w, int32_t nodes) {
    while (nodes > 1 && w->cost[nodes + 1] - w->cost[1] > (float)nodes) nodes--;
    return nodes;
}

static bool probe_is_due(const width *w, const width_input *in) {
    if (!w->best) return false;
    if (w->probing) return true;
    return (w->first_look || w->since_draft >= PROBE_GAP) && w->credit >= probe_ns(w, in, w->best);
}

/* Of the time of steps, what probes may take. */
static float probe_share(const width *w, int32_t t) {
    float most = 1.0f;
    for (int32_t k = 1; k <= w->draft_max; k++) {
        float rate = (float)(k + 1) / (w->draft[t].ns[k] + w->verify[t].ns[k + 1]) * w->verify[t].ns[1];
        if (rate > most) most = rate;
    }
    return clamp(PROBE_SHARE * (most - 1.0f), 0.0f, PROBE_SHARE_MOST);
}

/* All is judged by plain steps: a few before anything else, more while they are few, and one now and then. */
static bool plain_is_unknown(const width *w, int32_t ctx) {
    if (w->draft_max == 0) return false;
    if (w->plains < COST_ENOUGH) return true;
    bool new_tier = w->verify[tier_of(ctx)].entry[1].n < COST_ENOUGH;
    int32_t gap = w->plains < COST_SAMPLES ? w->plains : new_tier ? WIDTH_TIER_GAP : WIDTH_PLAIN_GAP;
    return w->drafting && w->since_plain >= gap;
}

/* Everything else than a plain step. */
static void choose_round(width *w, const width_input *in, width_choice *out) {
    price_rows(w, in->ctx);
    float worth, drafted = 0.0f;
    int32_t given = best_given(w, in, &worth), most = most_nodes(w, in->nodes);
    if (w->drafting) drafted = w->tokens[w->best] - w->lambda * w->time[w->best] - (1.0f - w->cost[1]);
    if (given && (!w->drafting || worth > drafted)) {
        *out = (width_choice){ .given = given, .nodes = given, .why = SPEC_WHY_LOOKUP };
    } else if (plain_is_unknown(w, in->ctx)) {
        out->why = SPEC_WHY_CLOCK;
    } else if (w->drafting) {
        *out = (width_choice){ w->best, min_i32(in->n, in->depth), most, 0, SPEC_WHY_DRAFT };
    } else if (probe_is_due(w, in)) {
        int32_t least = min_i32(in->nodes, 1 + w->probing);
        *out = (width_choice){ w->best, min_i32(in->n, in->depth), least > most ? least : most, least, SPEC_WHY_PROBE };
    }
}

void width_choose(width *w, const width_input *in, width_choice *out) {
    weigh(w, in);
    *out = (width_choice){ .why = SPEC_WHY_PLAIN };
    if (in->n || w->drafting || plain_is_unknown(w, in->ctx) || probe_is_due(w, in)) choose_round(w, in, out);
}

/* ---- outcome ---- */

/* Rows that are paid out of the credit, and what comes back. */
static void settle_probe(width *w, int32_t ctx, const step_out *o, float ns, float worth) {
    w->credit -= ns - (float)o->n * w->verify[tier_of(ctx)].ns[1];
    bool good = worth > 0.0f || (o->drafted > 0 && o->accepted == o->drafted);
    w->probing = good && w->probing < PROBE_ROW ? w->probing + 1 : 0;
}

/* What the steps since the last time allow for probes. */
static void settle_credit(width *w, int32_t ctx) {
    int32_t t = tier_of(ctx);
    float saved = PROBE_SAVED * probe_ns(w, &(width_input){ .ctx = ctx, .lag = PROBE_LAG }, w->best ? w->best : 1);
    w->credit = clamp(w->credit + probe_share(w, t) * w->unpaid, -saved, saved);
    w->unpaid = 0.0f;
    w->settled = w->since_draft;
}

static void learn_draft(width *w, int32_t ctx, const width_choice *c, const step_out *o, float ns) {
    float s[DEPTH_MAX], tokens, verify;
    int32_t t = tier_of(ctx);
    learn_nodes(w, o);
    update_conf(w);
    chain_chances(w, o, s);
    for (int32_t j = 0; j < o->draft_depth; j++)
        w->usual[j] += USUAL_WEIGHT * (expf(w->conf[o->draft_conf[j]]) - w->usual[j]);
    float weight = c->why == SPEC_WHY_PROBE && w->weight < 1.0f / 3.0f ? 1.0f / 3.0f : w->weight;
    learn_rounds(w, ctx, s, weight);
    w->favourite = best_rows(w, w->draft_max);
    if (w->weight > ROUND_WEIGHT) w->weight = 1.0f / (1.0f / w->weight + 1.0f);
    w->since_draft = w->settled = 0;
    w->first_look = false;
    w->since_plain++;
    best_cut(w, &w->verify[t], s, o->draft_depth, &tokens, &verify);
    if (c->why == SPEC_WHY_PROBE)
        settle_probe(w, ctx, o, ns, tokens - (verify + w->draft[t].ns[o->draft_depth]) / w->verify[t].ns[1]);
}

void width_measured(width *w, int32_t ctx, const width_choice *c, const step_out *o, const width_time *time) {
    int32_t t = tier_of(ctx);
    curve_add(&w->verify[t], o->rows, (float)time->rest, time->now);
    if (o->draft_depth && o->ctx_rows <= NODES_MAX / 2)
        curve_add(&w->draft[t], o->draft_depth, (float)time->draft, time->now);
    float ns = (float)(time->catch_up + time->draft + time->rest);
    if (o->draft_depth) {
        learn_draft(w, ctx, c, o, ns);
        return;
    }
    w->since_draft += o->n;
    if (o->rows == 1) w->since_plain = 0, w->plains++;
    if (w->draft_max && w->since_draft >= w->settled + PROBE_GAP) settle_credit(w, ctx);
    w->unpaid += ns;
}
