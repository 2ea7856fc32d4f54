/* skiff bench model: what steps would take on GPU cards, estimated from the sizes of a pair. Nothing runs, and no
 * weights are needed. */
#include "engine/cli/bench.h"
#include "engine/core/card.h"
#include "engine/core/pair.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

enum {
    CONTEXTS_MAX = 3,
    WIDTHS_MAX = 5,
    ACCEPTANCES = 4,
    CONTEXT_USUAL = 4096,
    CONTEXT_32K = 32768,
    CONTEXT_256K = 262144
};
static const double ACCEPTANCE[ACCEPTANCES] = { 0.6, 0.7, 0.8, 0.9 };

typedef struct estimate {
    model_shape shape;
    card_inputs in;
    dtype kv;
    card_work work[CONTEXTS_MAX]; /* [0]: the context that was asked for */
    int n_work;
    int32_t rows[WIDTHS_MAX]; /* of the verify passes that are shown, ascending */
    int n_rows;
} estimate;

static const char NOTE[] = "Estimates by arithmetic: bytes over a share of the bandwidth, and a gap for every kernel. "
                           "Nothing of it was measured: that is `skiff bench device`, on a card.";
static const char UNION_NOTE[] =
    "distinct experts per sparse layer as measured with draft blocks of Laguna S 2.1 at 1 to 5, 7, 9 and 16 rows, "
    "interpolated between";
static const char SCALED_NOTE[] = ", and scaled to this model's experts as if they were shared alike";

/* ---- measured times ---- */

/* One line of the file's steps: the step's own time beside the estimate for the same bytes on that card. */
static void print_measured_step(const estimate *a, const json_t *file, const json_t *step) {
    double ms = json_number_value(json_object_get(step, "ms")),
           bytes = json_number_value(json_object_get(step, "bytes"));
    double copy = json_number_value(json_object_get(file, "copy_gbs")) * 1e9;
    double launches = json_number_value(json_object_get(step, "launches"));
    double estimate_ms = (bytes / (a->in.share * copy) + launches * a->in.gap) * 1e3;
    printf("  %-6s %2lld rows: %9.3f ms, estimated %9.3f from %8.3f GB and %4.0f kernels; %5.1f %% of the copy "
           "bandwidth\n",
           json_string_value(json_object_get(step, "kind")),
           (long long)json_integer_value(json_object_get(step, "rows")), ms, estimate_ms, bytes * 1e-9, launches,
           100.0 * json_number_value(json_object_get(step, "share_of_copy")));
}

/* What `bench device` wrote, beside the same arithmetic at the bandwidth that it measured. */
static status print_measured(const estimate *a, const char *path, err *e) {
    json_error_t why;
    json_t *file = json_load_file(path, 0, &why), *steps = json_object_get(file, "steps"), *step;
    const char *name = json_string_value(json_object_get(file, "device"));
    if (!file || !name || json_array_size(steps) == 0) {
        err_set(e, ERR_REQUEST, "%s: expected what `skiff bench device --json` writes%s%s", path, file ? "" : ": ",
                file ? "" : why.text);
        json_decref(file);
        return ERR_REQUEST;
    }
    printf("\n%s%s on %s, %lld of %lld layers, behind %lld tokens, copies at %.0f GB/s (%s)\n",
           json_is_true(json_object_get(file, "simulated")) ? "NOT " : "", "measured", name,
           (long long)json_integer_value(json_object_get(file, "layers")),
           (long long)json_integer_value(json_object_get(file, "layers_of_model")),
           (long long)json_integer_value(json_object_get(file, "context")),
           json_number_value(json_object_get(file, "copy_gbs")), json_string_value(json_object_get(file, "note")));
    size_t i;
    json_array_foreach(steps, i, step) if (json_string_value(json_object_get(step, "kind")))
        print_measured_step(a, file, step);
    json_decref(file);
    return OK;
}

/* ---- what is asked ---- */

static status open_shape(const bench_opts *o, model_shape *out, err *e) {
    const char *target = o->dir ? o->dir : o->m.model, *draft = o->draft_dir ? o->draft_dir : o->m.draft;
    if (target) return shape_open(out, target, draft, e);
    if (draft) return err_set(e, ERR_USAGE, "bench model: draft %s: name the folder of its target, too", draft);
    shape_s21(out);
    return OK;
}

static void add_context(estimate *a, int64_t ctx) {
    if (ctx > a->shape.target.positions_max) return;
    for (int i = 0; i < a->n_work; i++)
        if (a->work[i].ctx == ctx) return;
    a->work[a->n_work++] = card_work_of(&a->shape, (int32_t)ctx, a->kv);
}

static void choose_rows(estimate *a, int32_t wanted) {
    for (int32_t r = 2; r <= a->work[0].rows_max; r++)
        if (r == 2 || r == 4 || r == 8 || r == 16 || r == wanted) a->rows[a->n_rows++] = r;
}

static status prepare(const bench_opts *o, estimate *a, err *e) {
    TRY(open_shape(o, &a->shape, e));
    const target_config *t = &a->shape.target;
    if (o->context > t->positions_max)
        return err_set(e, ERR_MODEL, "a context of %lld tokens was asked for; this model goes to %d",
                       (long long)o->context, t->positions_max);
    a->in = (card_inputs){ .share = o->share / 100.0, .gap = o->gap * 1e-6 };
    a->kv = pair_kv_type((kv_dtype)o->m.kv);
    add_context(a, o->context ? o->context : t->positions_max < CONTEXT_USUAL ? t->positions_max : CONTEXT_USUAL);
    add_context(a, CONTEXT_32K);
    add_context(a, CONTEXT_256K);
    choose_rows(a, (int32_t)o->rows);
    return OK;
}

static bool is_measured(const estimate *a) {
    return a->shape.target.experts == 256 && a->shape.target.experts_per_token == 10;
}

/* ---- text ---- */

static double gb(int64_t bytes) { return (double)bytes * 1e-9; }
static double ms(double seconds) { return seconds * 1e3; }

static void print_inputs(const estimate *a) {
    const model_shape *m = &a->shape;
    const card_work *w = &a->work[0];
    printf("%s\n", NOTE);
    printf("model: %s, %.3f GB with experts in %s", m->name, gb(m->target_weights.bytes),
           m->experts == DT_MXFP4 ? "MXFP4" : "BF16");
    if (m->has_draft) printf("; %s, %.3f GB", m->draft_name, gb(m->draft_weights.bytes));
    printf("; keys and values in %s\n", a->kv == DT_E4M3 ? "FP8" : "BF16");
    printf("inputs: %g %% of the peak bandwidth, %g us between two kernels\n", a->in.share * 100.0, a->in.gap * 1e6);
    printf("kernels: %d per layer and %d around them, %d in a plain step", CARD_LAYER_KERNELS, CARD_STEP_KERNELS,
           w->pass_kernels);
    if (m->has_draft)
        printf("; %d per draft layer and %d around them, %d in a round", CARD_DRAFT_LAYER_KERNELS, CARD_DRAFT_KERNELS,
               w->pass_kernels + w->draft_kernels);
    putchar('\n');
    if (a->n_rows) printf("U: %s%s\n", UNION_NOTE, is_measured(a) ? "" : SCALED_NOTE);
}

/* By bytes alone every card has the same break-even. */
static void print_bytes(const estimate *a) {
    const card_inputs bytes = { .share = 1.0 };
    printf("\nGB read; verify: with the tokens that a round must bring, were bytes all\n%10s %9s", "context", "plain");
    if (a->n_rows) printf(" %9s", "draft");
    for (int i = 0; i < a->n_rows; i++) printf("   %2d rows, U %5.1f", a->rows[i], a->work[0].experts[a->rows[i]]);
    putchar('\n');
    for (int k = 0; k < a->n_work; k++) {
        const card_work *w = &a->work[k];
        printf("%10d %9.3f", w->ctx, gb(w->pass[1]));
        if (a->n_rows) printf(" %9.3f", gb(w->draft));
        for (int i = 0; i < a->n_rows; i++)
            printf(" %10.3f (%.2f)", gb(w->pass[a->rows[i]]), card_break_even(&card_list[0], &bytes, w, a->rows[i]));
        putchar('\n');
    }
}

static void print_steps(const estimate *a, const card *c) {
    printf("%10s %9s %6s %9s %9s %9s %7s", "context", "memory GB", "fits", "floor ms", "plain ms", "tokens/s",
           "/ floor");
    if (a->n_rows) printf(" %9s", "draft ms");
    for (int i = 0; i < a->n_rows; i++) printf("  verify %2d ms    ", a->rows[i]);
    putchar('\n');
    for (int k = 0; k < a->n_work; k++) {
        const card_work *w = &a->work[k];
        double least = card_floor(c, w), plain = card_pass(c, &a->in, w, 1);
        printf("%10d %9.1f %6s %9.3f %9.3f %9.1f %7.3f", w->ctx, gb(w->memory), w->memory <= c->memory ? "yes" : "no",
               ms(least), ms(plain), 1.0 / plain, plain / least);
        if (a->n_rows) printf(" %9.3f", ms(card_draft(c, &a->in, w)));
        for (int i = 0; i < a->n_rows; i++)
            printf(" %10.3f (%.2f)", ms(card_pass(c, &a->in, w, a->rows[i])),
                   card_break_even(c, &a->in, w, a->rows[i]));
        putchar('\n');
    }
}

static void print_speeds(const estimate *a, const card *c) {
    printf("  tokens/s (best rows; over plain) when every proposal is right with probability\n%10s", "context");
    for (int i = 0; i < ACCEPTANCES; i++) printf(" %20.1f", ACCEPTANCE[i]);
    putchar('\n');
    for (int k = 0; k < a->n_work; k++) {
        const card_work *w = &a->work[k];
        double plain = card_pass(c, &a->in, w, 1);
        printf("%10d", w->ctx);
        for (int i = 0; i < ACCEPTANCES; i++) {
            card_width best = card_best(c, &a->in, w, ACCEPTANCE[i]);
            printf(" %8.1f (%2d; %4.2f x)", best.rate, best.rows, best.rate * plain);
        }
        putchar('\n');
    }
}

/* The goals were set for Laguna S 2.1. */
static bool has_goal(const estimate *a, const card *c) { return c->goal > 0.0 && is_measured(a); }

static void print_goal(const estimate *a, const card *c) {
    const card_work *w = &a->work[0];
    double ratio = card_pass(c, &a->in, w, 1) / card_floor(c, w), gap = card_gap_for(c, &a->in, w, c->goal);
    if (!has_goal(a, c)) return;
    printf("  goal at %d tokens: at most %.2f times the floor: %s with %.3f: %.3f of it is the share of the bandwidth, "
           "%.3f are the gaps; ",
           w->ctx, c->goal, ratio <= c->goal ? "met" : "missed", ratio, 1.0 / a->in.share, ratio - 1.0 / a->in.share);
    if (gap > 0.0)
        printf("it allows %.2f us between kernels, or %.0f kernels\n", gap * 1e6,
               floor(a->in.gap > 0.0 ? w->pass_kernels * gap / a->in.gap : w->pass_kernels));
    else
        printf("it needs more of the bandwidth\n");
}

static void print_card(const estimate *a, const card *c) {
    int32_t most = card_ctx_max(c, &a->shape, a->kv);
    printf("\n%s: %g GB/s, %g GB; ", c->name, c->bandwidth * 1e-9, gb(c->memory));
    if (most)
        printf("up to %d tokens fit beside the weights\n", most);
    else
        printf("the weights do not fit\n");
    print_steps(a, c);
    if (a->n_rows) print_speeds(a, c);
    print_goal(a, c);
}

/* ---- JSON ---- */

static json_t *widths_json(const estimate *a, const card *c, const card_work *w) {
    json_t *list = json_array();
    for (int i = 0; i < a->n_rows; i++) {
        int32_t r = a->rows[i];
        json_array_append_new(list, json_pack("{si,sf,sI,sf,sf}", "rows", r, "experts", w->experts[r], "bytes",
                                              (json_int_t)w->pass[r], "ms", ms(card_pass(c, &a->in, w, r)),
                                              "break_even_tokens", card_break_even(c, &a->in, w, r)));
    }
    return list;
}

static json_t *speeds_json(const estimate *a, const card *c, const card_work *w) {
    json_t *list = json_array();
    for (int i = 0; a->n_rows && i < ACCEPTANCES; i++) {
        card_width best = card_best(c, &a->in, w, ACCEPTANCE[i]);
        json_array_append_new(list, json_pack("{sf,si,sf,sf}", "acceptance", ACCEPTANCE[i], "rows", best.rows,
                                              "tokens_per_round", best.tokens, "tokens_per_second", best.rate));
    }
    return list;
}

static json_t *context_json(const estimate *a, const card *c, const card_work *w) {
    double least = card_floor(c, w), plain = card_pass(c, &a->in, w, 1);
    json_t *o =
        json_pack("{si,sI,sb,sI,sf,sf,sf,sf}", "context", w->ctx, "memory", (json_int_t)w->memory, "fits",
                  w->memory <= c->memory, "plain_bytes", (json_int_t)w->pass[1], "floor_ms", ms(least), "plain_ms",
                  ms(plain), "plain_tokens_per_second", 1.0 / plain, "plain_over_floor", plain / least);
    if (a->n_rows) {
        json_object_set_new(o, "draft_bytes", json_integer(w->draft));
        json_object_set_new(o, "draft_ms", json_real(ms(card_draft(c, &a->in, w))));
    }
    json_object_set_new(o, "verify", widths_json(a, c, w));
    json_object_set_new(o, "best", speeds_json(a, c, w));
    return o;
}

static json_t *card_json(const estimate *a, const card *c) {
    json_t *contexts = json_array();
    for (int k = 0; k < a->n_work; k++) json_array_append_new(contexts, context_json(a, c, &a->work[k]));
    json_t *o =
        json_pack("{ss,sf,sI,si,so}", "name", c->name, "bandwidth_gbs", c->bandwidth * 1e-9, "memory",
                  (json_int_t)c->memory, "context_max", card_ctx_max(c, &a->shape, a->kv), "contexts", contexts);
    if (has_goal(a, c)) json_object_set_new(o, "goal_over_floor", json_real(c->goal));
    return o;
}

static json_t *estimate_json(const estimate *a) {
    const model_shape *m = &a->shape;
    json_t *cards = json_array();
    for (int i = 0; i < CARDS; i++) json_array_append_new(cards, card_json(a, &card_list[i]));
    json_t *inputs =
        json_pack("{sf,sf,si,si,si,si,si,si}", "share", a->in.share, "gap_us", a->in.gap * 1e6, "kernels_per_layer",
                  CARD_LAYER_KERNELS, "kernels_around", CARD_STEP_KERNELS, "kernels_per_draft_layer",
                  CARD_DRAFT_LAYER_KERNELS, "kernels_around_draft", CARD_DRAFT_KERNELS, "kernels_plain",
                  a->work[0].pass_kernels, "kernels_draft", a->work[0].draft_kernels);
    return json_pack("{ss,ss,so?,ss,ss,sI,sI,so,so}", "note", NOTE, "target", m->name, "draft",
                     m->has_draft ? json_string(m->draft_name) : NULL, "experts",
                     m->experts == DT_MXFP4 ? "mxfp4" : "bf16", "kv_dtype", a->kv == DT_E4M3 ? "fp8_e4m3" : "bf16",
                     "target_bytes", (json_int_t)m->target_weights.bytes, "draft_bytes",
                     (json_int_t)m->draft_weights.bytes, "inputs", inputs, "cards", cards);
}

static status write_json(const estimate *a, const char *path, err *e) {
    json_t *root = estimate_json(a);
    return bench_write_json(root, path, e);
}

status bench_model(const bench_opts *o, err *e) {
    estimate a = { 0 };
    status s = prepare(o, &a, e);
    if (s == OK) {
        print_inputs(&a);
        print_bytes(&a);
        for (int i = 0; i < CARDS; i++) print_card(&a, &card_list[i]);
        if (o->measured) s = print_measured(&a, o->measured, e);
        if (s == OK && o->json) s = write_json(&a, o->json, e);
    }
    shape_close(&a.shape);
    return s;
}
