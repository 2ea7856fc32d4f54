#include "engine/core/rig.h"

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/core/bytes.h"
#include "engine/core/steps.h"
#include "kernels/memory.h"
#include "kernels/noise.h"

#include <stdio.h>
#include <stdlib.h>

enum { SEED = 20, SLACK = 1 << 30, TIMES = 20, STEPS = 30 };

struct rig {
    device *on;
    int32_t layers; /* of the whole model */
    rig_options opt;
    model_shape shape;
    target t;
    draft d;
    size_t weight_bytes;
    float *frequencies;     /* [head_dim / 2] */
    step_params *at, *host; /* of ops that run alone */
    steps *steps;           /* NULL until they are measured */
};

/* ---- shapes ---- */

static rope_config plain_rotation(int32_t dim) {
    return (rope_config){ .theta = 500000.0, .factor = 1.0, .attention_factor = 1.0, .dim = dim };
}

/* Of the same kind as Laguna S 2.1: global and sliding layers, one dense, experts, a shared one. */
static void tiny_shape(model_shape *out) {
    shape_s21(out);
    target_weights_deinit(&out->target_weights);
    draft_weights_deinit(&out->draft_weights);
    target_config *c = &out->target;
    snprintf(out->name, sizeof out->name, "a tiny model");
    c->hidden = 128, c->layers = 4, c->vocab = 512, c->head_dim = 32, c->kv_heads = 2, c->dense_width = 192;
    c->window = 64, c->experts = 16, c->experts_per_token = 4, c->expert_width = 64, c->shared_width = 64;
    for (int32_t l = 0; l < c->layers; l++) c->layer[l].heads = l % 4 ? 6 : 4;
    draft_config *d = &out->draft;
    d->hidden = 128, d->layers = 2, d->vocab = 512, d->heads = 6, d->kv_heads = 2, d->head_dim = 32, d->width = 192;
    d->window = 64, d->taps = 2, d->tap_layer[0] = 0, d->tap_layer[1] = 3, d->target_layers = c->layers;
    target_weights_shape(&out->target_weights, c, out->experts);
    draft_weights_shape(&out->draft_weights, d);
}

/* The first n layers; taps of those that are gone are taken from what is there. */
static void cut_layers(model_shape *s, int32_t n) {
    s->target.layers = n;
    target_weights_deinit(&s->target_weights);
    target_weights_shape(&s->target_weights, &s->target, s->experts);
    for (int32_t j = 0; j < s->draft.taps; j++) s->draft.tap_layer[j] = j * (n - 1) / (s->draft.taps - 1);
}

static target target_of(const rig *r) {
    target t = { .cfg = r->shape.target, .w = r->shape.target_weights };
    t.cfg.rope_global = t.cfg.rope_sliding = plain_rotation(t.cfg.head_dim);
    t.freq_global = t.freq_sliding = r->frequencies;
    return t;
}

static draft draft_of(const rig *r) {
    return (draft){ .cfg = r->shape.draft, .w = r->shape.draft_weights, .freq = r->frequencies };
}

/* ---- memory ---- */

static target_room room_of(const rig *r) {
    const draft_config *d = &r->shape.draft;
    return (target_room){ .ctx = r->opt.context + 2 * PREFILL_MAX + 16 * STEPS * 2,
                          .kv = r->opt.kv,
                          .tap_layer = d->tap_layer,
                          .taps = d->taps,
                          .window = d->window };
}

static size_t seeded_bytes(const rig *r) {
    target t = target_of(r);
    draft d = draft_of(r);
    size_t a = 0, b = 0;
    err e;
    CHECK(target_seed(&t, NULL, SEED, &a, &e) == OK && draft_seed(&d, NULL, SEED, &b, &e) == OK);
    return a + b;
}

static int64_t needed(const rig *r) {
    target_room room = room_of(r);
    return (int64_t)(seeded_bytes(r) + target_kv_bytes(&r->shape.target, room.ctx, 0, room.kv)) + SLACK;
}

/* Layers that fit; at least two, one dense and one with experts. */
static status fit_layers(rig *r, err *e) {
    int64_t free = device_get_info(r->on).free;
    int32_t n = r->opt.layers ? r->opt.layers : r->layers;
    if (n < 2 || n > r->layers) return err_set(e, ERR_USAGE, "layers: expected 2 to %d, got %d", r->layers, n);
    if (n < r->layers) cut_layers(&r->shape, n);
    if (device_get_info(r->on).simulated) return OK;
    while (needed(r) > free && n > 2 && !r->opt.layers) cut_layers(&r->shape, --n);
    if (needed(r) > free)
        return err_set(e, ERR_MEMORY, "%d layers of %s take %.1f GB; %.1f GB of the GPU's memory are free", n,
                       r->shape.name, (double)needed(r) * 1e-9, (double)free * 1e-9);
    return OK;
}

static status take_weights(rig *r, err *e) {
    size_t bytes = 0;
    r->weight_bytes = seeded_bytes(r);
    TRY(device_reserve_weights(r->on, r->weight_bytes, e));
    r->t = target_of(r);
    r->d = draft_of(r);
    TRY(target_seed(&r->t, r->on, SEED, &bytes, e));
    return draft_seed(&r->d, r->on, SEED + 1, &bytes, e);
}

static status take_memory(rig *r, err *e) {
    target_room room = room_of(r);
    void *host = NULL, *at = NULL;
    TRY(target_alloc(&r->t, &room, e));
    draft_inputs in = { r->t.tap_ring, target_embedding(&r->t), r->t.w.head };
    TRY(draft_alloc(&r->d, in, e));
    TRY(device_alloc_shared(r->on, &host, sizeof *r->host, "the parameters of a step", e));
    r->host = host;
    TRY(device_alloc(r->on, &at, sizeof *r->at, "the parameters of a step", e));
    r->at = at;
    return OK;
}

static status open_parts(rig *r, err *e) {
    TRY(device_open(&r->on, r->opt.device, e));
    if (device_get_info(r->on).simulated)
        tiny_shape(&r->shape);
    else
        shape_s21(&r->shape);
    r->layers = r->shape.target.layers;
    r->frequencies = xalloc((size_t)(r->shape.target.head_dim / 2) * sizeof *r->frequencies);
    for (int32_t i = 0; i < r->shape.target.head_dim / 2; i++) r->frequencies[i] = 1.0f / (float)(1 << i % 24);
    TRY(fit_layers(r, e));
    TRY(take_weights(r, e));
    return take_memory(r, e);
}

status rig_open(rig **out, const rig_options *o, err *e) {
    rig *r = xalloc(sizeof *r);
    *r = (rig){ .opt = *o };
    status s = open_parts(r, e);
    if (s != OK) {
        rig_close(r);
        return s;
    }
    *out = r;
    return OK;
}

void rig_close(rig *r) {
    if (!r) return;
    steps_close(r->steps);
    if (r->on) {
        device_free(r->on, r->at);
        device_free_shared(r->on, r->host);
    }
    r->t.w = (target_weights){ 0 }; /* the shape's */
    r->d.w = (draft_weights){ 0 };
    draft_deinit(&r->d);
    target_deinit(&r->t);
    shape_close(&r->shape);
    free(r->frequencies);
    if (r->on) device_close(r->on);
    free(r);
}

const model_shape *rig_shape(const rig *r) { return &r->shape; }
int32_t rig_layers(const rig *r) { return r->layers; }
device_info rig_device(const rig *r) { return device_get_info(r->on); }
size_t rig_weight_bytes(const rig *r) { return r->weight_bytes; }

status rig_copy_speed(rig *r, double *per_second, err *e) {
    bool simulated = device_get_info(r->on).simulated;
    return device_copy_speed(r->on, simulated ? 1 << 20 : 512 << 20, simulated ? 2 : TIMES, per_second, e);
}

/* ---- single ops ---- */

static const struct {
    const char *name;
    uint32_t ops; /* bits of op_id */
    bool head;
} OPS[RIG_OPS] = { [RIG_LINEAR] = { "linear", 1u << OP_LINEAR, false },
                   [RIG_ATTN] = { "attention", 1u << OP_QKV_STORE | 1u << OP_ATTN, false },
                   [RIG_GLU] = { "glu", 1u << OP_GLU, false },
                   [RIG_ROUTE] = { "route", 1u << OP_ROUTE, false },
                   [RIG_MOE_UP] = { "moe_up", 1u << OP_MOE_UP, false },
                   [RIG_MOE_DOWN] = { "moe_down", 1u << OP_MOE_DOWN, false },
                   [RIG_HEAD] = { "head", 1u << OP_LINEAR, true } };

typedef struct alone {
    rig *r;
    int32_t rows;
    uint32_t ops;
    bool head;
    view x, id, share;
} alone;

/* The layers as they are, with all other ops left out. */
static void describe_alone(void *ctx, op_sink *s, work *w) {
    alone *a = ctx;
    rig *r = a->r;
    op_begin(s, &(begin_args){ .p = r->at, .kind = STEP_PREFILL, .rows_max = a->rows });
    target_pass pass = target_pass_take(&r->t, w, &r->at->st.rows, a->rows);
    view logits = work_take(w, "logits", a->rows, r->t.cfg.vocab, DT_F32);
    op_sink some = *s;
    some.skip = ~a->ops;
    if (a->head) target_head(&r->t, &some, &pass.x, &logits, (live_rows){ &r->at->st.rows.n, NULL, a->rows });
    for (int32_t l = 0; l < r->t.cfg.layers && !a->head; l++) target_layer(&r->t, &some, &pass, l);
    op_accept(s, &(accept_args){ .p = r->at, .kind = STEP_PREFILL }); /* the record, which a replay waits for */
    s->scratch = some.scratch > s->scratch ? some.scratch : s->scratch;
    a->x = pass.x, a->id = pass.id, a->share = pass.share;
}

static bool is_among(const int32_t *id, int32_t n, int32_t e) {
    for (int32_t i = 0; i < n; i++)
        if (id[i] == e) return true;
    return false;
}

/* Activations, and experts: k different ones a row. */
static void fill_inputs(const alone *a) {
    const target_config *c = &a->r->t.cfg;
    device *on = a->r->on;
    float *x = xalloc((size_t)c->hidden * sizeof *x), *share = xalloc((size_t)c->experts_per_token * sizeof *share);
    int32_t *id = xalloc((size_t)c->experts_per_token * sizeof *id);
    for (int32_t row = 0; row < a->rows; row++) {
        for (int32_t i = 0; i < c->hidden; i++) x[i] = noise_uniform(noise_word(SEED, row, i)) - 0.5f;
        for (int32_t i = 0; i < c->experts_per_token; i++) {
            int32_t e = (int32_t)(noise_word(SEED + 1, row, i) % (uint32_t)c->experts);
            while (is_among(id, i, e)) e = (e + 1) % c->experts;
            id[i] = e;
            share[i] = 1.0f / (float)c->experts_per_token;
        }
        memory_copy(on, view_row(&a->x, row), x, (size_t)c->hidden * sizeof *x);
        memory_copy(on, view_row(&a->id, row), id, (size_t)c->experts_per_token * sizeof *id);
        memory_copy(on, view_row(&a->share, row), share, (size_t)c->experts_per_token * sizeof *share);
        memory_wait(on);
    }
    free(x);
    free(share);
    free(id);
}

/* Microseconds of a replay, and its kernels. */
static status time_alone(alone *a, double *us, int32_t *launches, err *e) {
    rig *r = a->r;
    step_place where = { .device = r->on, .at = r->at, .host = r->host };
    step *s = NULL;
    TRY(step_open(&s, "alone", describe_alone, a, &where, e));
    fill_inputs(a);
    step_in *in = &r->host->in;
    in->base = r->opt.context, in->rows = a->rows, in->want_head = 0, in->logprobs = -1;
    for (int i = 0; i < 3; i++) {
        in->seq++;
        step_replay(s);
    }
    int32_t times = device_get_info(r->on).simulated ? 1 : TIMES;
    double ms = 0.0;
    status st = step_time(s, times, &ms, e);
    *us = ms * 1e3 / times, *launches = step_launches(s);
    step_close(s);
    return st;
}

static double op_bytes(const rig *r, rig_op op, int32_t rows) {
    const target_config *c = &r->shape.target;
    double distinct = bytes_independent_experts(c->experts, c->experts_per_token, rows);
    pass_bytes b = bytes_target_pass(c, &r->shape.target_weights, distinct, r->opt.context + rows, r->opt.kv);
    double moe = (double)(b.experts + b.shared);
    switch (op) {
    case RIG_LINEAR: return (double)b.attention + (double)b.dense / 3.0;
    case RIG_ATTN: return (double)(b.kv_global + b.kv_sliding);
    case RIG_GLU: return (double)b.dense * 2.0 / 3.0;
    case RIG_ROUTE: return (double)b.router;
    case RIG_MOE_UP: return moe * 2.0 / 3.0;
    case RIG_MOE_DOWN: return moe / 3.0;
    default: return (double)b.head;
    }
}

status rig_time_op(rig *r, rig_op op, int32_t rows, rig_time *out, err *e) {
    alone a = { .r = r, .rows = rows, .ops = OPS[op].ops, .head = OPS[op].head }, none = { .r = r, .rows = rows };
    double us = 0.0, empty = 0.0;
    int32_t launches = 0, around = 0;
    TRY(time_alone(&none, &empty, &around, e));
    TRY(time_alone(&a, &us, &launches, e));
    *out = (rig_time){ .name = OPS[op].name,
                       .rows = rows,
                       .launches = launches - around,
                       .bytes = op_bytes(r, op, rows),
                       .us = us - empty };
    return OK;
}

/* ---- steps ---- */

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median_ms(int64_t *ns, int n) {
    qsort(ns, (size_t)n, sizeof *ns, by_size);
    return (double)ns[n / 2] * 1e-6;
}

static int steps_timed(const rig *r) { return device_get_info(r->on).simulated ? 2 : STEPS; }

static status ready(rig *r, err *e) {
    static const pick_params GREEDY = { .top_p = 1.0f };
    if (!r->steps) TRY(steps_open(&r->steps, &r->t, &r->d, ISA_REF, 1, e));
    steps_set_pick(r->steps, &GREEDY);
    steps_seek(r->steps, r->opt.context, 1, r->opt.context);
    return OK;
}

static int64_t target_bytes(const rig *r, int32_t rows) {
    const target_config *c = &r->shape.target;
    double distinct = bytes_independent_experts(c->experts, c->experts_per_token, rows);
    return bytes_target_pass(c, &r->shape.target_weights, distinct, r->opt.context + rows, r->opt.kv).total;
}

status rig_time_plain(rig *r, rig_step *out, err *e) {
    int64_t ns[STEPS];
    int n = steps_timed(r);
    TRY(ready(r, e));
    for (int i = -1; i < n; i++) {
        int64_t from = clock_ns();
        steps_plain(r->steps);
        if (i >= 0) ns[i] = clock_ns() - from;
    }
    *out = (rig_step){ .rows = 1,
                       .launches = step_launches(steps_get(r->steps, 0)),
                       .ms = median_ms(ns, n),
                       .bytes = (double)target_bytes(r, 1) };
    return steps_status(r->steps, e);
}

status rig_time_round(rig *r, int32_t rows, rig_step *out, err *e) {
    int64_t ns[STEPS], drafted[STEPS];
    int n = steps_timed(r), bucket = bucket_find(round_bucket, ROUND_BUCKETS, rows);
    TRY(ready(r, e));
    for (int i = -1; i < n; i++) {
        int64_t from = clock_ns();
        const step_out *o = steps_round(r->steps, rows - 1);
        if (i >= 0) ns[i] = clock_ns() - from, drafted[i] = step_draft_ns(o);
    }
    const model_shape *s = &r->shape;
    *out = (rig_step){
        .rows = rows,
        .launches = step_launches(steps_get(r->steps, 1 + PREFILL_BUCKETS + bucket)),
        .ms = median_ms(ns, n),
        .draft_ms = median_ms(drafted, n),
        .bytes = (double)(target_bytes(r, rows) +
                          bytes_draft_pass(&s->draft, &s->draft_weights, &s->target_weights, r->opt.context).total)
    };
    return steps_status(r->steps, e);
}

status rig_time_prefill(rig *r, double *ms, err *e) {
    int32_t token[PREFILL_MAX];
    int64_t ns[STEPS];
    int n = device_get_info(r->on).simulated ? 1 : 5;
    for (int32_t i = 0; i < PREFILL_MAX; i++) token[i] = i;
    for (int i = 0; i < n; i++) {
        TRY(ready(r, e));
        int64_t from = clock_ns();
        steps_prefill(r->steps, token, PREFILL_MAX, false);
        ns[i] = clock_ns() - from;
    }
    *ms = median_ms(ns, n);
    return steps_status(r->steps, e);
}
