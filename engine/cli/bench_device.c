/* skiff bench device: what ops and steps take on a GPU, with made-up weights in the shapes of Laguna S 2.1. */
#include "engine/cli/bench.h"
#include "engine/core/pair.h"
#include "engine/core/rig.h"

#include <jansson.h>
#include <stdio.h>

enum { ROWS = 3, WIDTHS = 4, CONTEXT = 4096, CONTEXT_MAX = 1 << 20, CONTEXT_SIMULATED = 100, DEVICES_MAX = 64 };
static const int32_t op_rows[ROWS] = { 1, 8, 32 }, width[WIDTHS] = { 2, 4, 8, 16 };

static const char NOTE[] = "made-up weights; experts are chosen at random, by each row on its own";
static const char SIMULATED[] = "no GPU but a simulation of one: these are not measurements";

typedef struct results {
    device_info on;
    int32_t context, layers, layers_all;
    size_t weights;
    double copy; /* bytes a second */
    rig_time op[ROWS][RIG_OPS];
    rig_step step[1 + WIDTHS];
    double prefill_ms;
} results;

static status measure(rig *r, int32_t context, results *out, err *e) {
    results x = { .on = rig_device(r),
                  .context = context,
                  .layers = rig_shape(r)->target.layers,
                  .layers_all = rig_layers(r),
                  .weights = rig_weight_bytes(r) };
    TRY(rig_copy_speed(r, &x.copy, e));
    for (int i = 0; i < ROWS; i++)
        for (int op = 0; op < RIG_OPS; op++) TRY(rig_time_op(r, (rig_op)op, op_rows[i], &x.op[i][op], e));
    TRY(rig_time_plain(r, &x.step[0], e));
    for (int i = 0; i < WIDTHS; i++) TRY(rig_time_round(r, width[i], &x.step[1 + i], e));
    TRY(rig_time_prefill(r, &x.prefill_ms, e));
    *out = x;
    return OK;
}

/* Bytes a second, and as a share of the copy's. */
static double rate(double bytes, double us) { return us > 0.0 ? bytes / (us * 1e-6) : 0.0; }
static double share(const results *x, double speed) { return x->copy > 0.0 ? speed / x->copy : 0.0; }

/* ---- text ---- */

static void print_ops(const results *x) {
    printf("\nops of one pass of the target; share of the copy bandwidth, %.1f GB/s\n", x->copy * 1e-9);
    printf("  %-10s %5s %9s %10s %10s %9s %7s\n", "op", "rows", "launches", "MB", "us", "GB/s", "share");
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < RIG_OPS; k++) {
            const rig_time *t = &x->op[i][k];
            double speed = rate(t->bytes, t->us);
            printf("  %-10s %5d %9d %10.3f %10.2f %9.1f %6.1f%%\n", t->name, t->rows, t->launches, t->bytes * 1e-6,
                   t->us, speed * 1e-9, 100.0 * share(x, speed));
        }
}

static void print_steps(const results *x) {
    printf("\nsteps behind %d tokens, medians on the host's clock\n", x->context);
    printf("  %5s %9s %10s %10s %10s %9s %7s\n", "rows", "launches", "MB", "ms", "draft ms", "GB/s", "share");
    for (int i = 0; i < 1 + WIDTHS; i++) {
        const rig_step *s = &x->step[i];
        double speed = rate(s->bytes, s->ms * 1e3);
        printf("  %5d %9d %10.1f %10.4f %10.4f %9.1f %6.1f%%\n", s->rows, s->launches, s->bytes * 1e-6, s->ms,
               s->draft_ms, speed * 1e-9, 100.0 * share(x, speed));
    }
    printf("prefill of 256 rows: %.3f ms\n", x->prefill_ms);
}

static void print_text(const rig *r, const results *x) {
    printf("%s, compute capability %d.%d, %d multiprocessors, %.1f GB\n", x->on.name, x->on.major, x->on.minor,
           x->on.processors, (double)x->on.memory * 1e-9);
    if (x->on.simulated) printf("%s\n", SIMULATED);
    printf("%s, %d of %d layers, and the draft: %.2f GB; %s\n", rig_shape(r)->name, x->layers, x->layers_all,
           (double)x->weights * 1e-9, NOTE);
    print_ops(x);
    print_steps(x);
}

/* ---- JSON ---- */

static json_t *ops_json(const results *x) {
    json_t *list = json_array();
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < RIG_OPS; k++) {
            const rig_time *t = &x->op[i][k];
            double speed = rate(t->bytes, t->us);
            json_array_append_new(list, json_pack("{ss,si,si,sf,sf,sf,sf}", "op", t->name, "rows", t->rows, "launches",
                                                  t->launches, "bytes", t->bytes, "us", t->us, "gbs", speed * 1e-9,
                                                  "share_of_copy", share(x, speed)));
        }
    return list;
}

static json_t *steps_json(const results *x) {
    json_t *list = json_array();
    for (int i = 0; i < 1 + WIDTHS; i++) {
        const rig_step *s = &x->step[i];
        double speed = rate(s->bytes, s->ms * 1e3);
        json_array_append_new(list,
                              json_pack("{ss,si,si,sf,sf,sf,sf,sf}", "kind", i ? "round" : "plain", "rows", s->rows,
                                        "launches", s->launches, "bytes", s->bytes, "ms", s->ms, "draft_ms",
                                        s->draft_ms, "gbs", speed * 1e-9, "share_of_copy", share(x, speed)));
    }
    return list;
}

static status write_json(const rig *r, const results *x, const char *path, err *e) {
    json_t *root =
        json_pack("{ss,si,si,sb,ss,ss,si,si,sI,si,sf,so,so,sf}", "device", x->on.name, "major", x->on.major, "minor",
                  x->on.minor, "simulated", x->on.simulated, "note", x->on.simulated ? SIMULATED : NOTE, "shape",
                  rig_shape(r)->name, "layers", x->layers, "layers_of_model", x->layers_all, "weight_bytes",
                  (json_int_t)x->weights, "context", x->context, "copy_gbs", x->copy * 1e-9, "ops", ops_json(x),
                  "steps", steps_json(x), "prefill_256_ms", x->prefill_ms);
    return bench_write_json(root, path, e);
}

/* Without --context: the usual, or what a simulation can manage. */
static status choose_context(const bench_opts *o, int32_t *context, err *e) {
    device_info d[DEVICES_MAX];
    int32_t n = 0;
    TRY(device_list(d, DEVICES_MAX, &n, e));
    if (o->context > CONTEXT_MAX) return err_set(e, ERR_USAGE, "--context: expected at most %d", CONTEXT_MAX);
    *context = o->context ? (int32_t)o->context : n > 0 && d[0].simulated ? CONTEXT_SIMULATED : CONTEXT;
    return OK;
}

status bench_device(const bench_opts *o, err *e) {
    rig *r = NULL;
    results x;
    rig_options opt = { .device = (int32_t)o->m.device,
                        .layers = (int32_t)o->layers,
                        .kv = pair_kv_type((kv_dtype)o->m.kv) };
    TRY(choose_context(o, &opt.context, e));
    TRY(rig_open(&r, &opt, e));
    status s = measure(r, opt.context, &x, e);
    if (s == OK) {
        print_text(r, &x);
        if (o->json) s = write_json(r, &x, o->json, e);
    }
    rig_close(r);
    return s;
}
