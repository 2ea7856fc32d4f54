/* skiff inspect: what a model folder holds, without running it. */
#include "engine/cli/cmd.h"
#include "engine/cli/inspect_devices.h"
#include "engine/cli/model_opts.h"
#include "engine/core/bytes.h"
#include "engine/core/pair.h"
#include "engine/base/mem.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct inspect_opts {
    const char *model, *draft;
    int64_t ctx, rows;
    int kv; /* kv_dtype */
    bool json, devices;
} inspect_opts;

static const opt LIST[] = {
    { "model", .brief = "m", .aliases = "model-path", .value = "DIR", OPT_TEXT_AT(inspect_opts, model),
      .help = "folder of the target; the same as DIR" },
    { "draft-model", .brief = "md", .aliases = "model-draft draft", .value = "DIR", OPT_TEXT_AT(inspect_opts, draft),
      .help = "folder of its draft" },
    { "ctx-size", .brief = "c", .preset = "0", OPT_INT_AT(inspect_opts, ctx, 0, INT32_MAX),
      .help = "context for the memory plan and the bytes per step; 0: the model's own limit" },
    KV_DTYPE_OPT_ROW(inspect_opts, kv),
    { "rows", .preset = "8", OPT_INT_AT(inspect_opts, rows, 1, 32),
      .help = "rows of the verify pass whose bytes are shown" },
    { "devices", OPT_SET_AT(inspect_opts, devices), .help = "list the GPUs instead" },
    { "json", OPT_SET_AT(inspect_opts, json), .help = "one JSON object" },
};

static const opts OPTS = {
    .command = "skiff inspect",
    .about = "Prints config, tensors by kind, memory plan and bytes per step of a model folder; of the built-in demo "
             "pair when "
             "none is named. With --devices the GPUs that --backend cuda can run on.",
    .rest = "[DIR]",
    .rest_max = 1,
    .list = LIST,
    .n = sizeof LIST / sizeof *LIST,
    .bytes = sizeof(inspect_opts),
};

/* ---- tensors by kind ---- */

/* A kind is a name with its numbers replaced by '*'. */
typedef struct kind {
    char name[128], type[16], shape[64];
    int64_t tensors, bytes;
} kind;

static void kind_name(str name, char out[128]) {
    size_t n = 0;
    for (size_t i = 0; i < name.n && n < 126; i++) {
        bool digit = name.p[i] >= '0' && name.p[i] <= '9', part = i == 0 || name.p[i - 1] == '.';
        if (!digit || !part) {
            out[n++] = name.p[i];
            continue;
        }
        size_t j = i;
        while (j < name.n && name.p[j] >= '0' && name.p[j] <= '9') j++;
        if (j < name.n && name.p[j] != '.') {
            out[n++] = name.p[i];
            continue;
        }
        out[n++] = '*';
        i = j - 1;
    }
    out[n] = 0;
}

static void shape_text(const tensor *t, char out[64]) {
    int n = snprintf(out, 64, "[");
    for (int i = 0; i < t->n_dims && n < 60; i++)
        n += snprintf(out + n, 64 - (size_t)n, "%s%lld", i ? ", " : "", (long long)t->dim[i]);
    if (n < 62) snprintf(out + n, 64 - (size_t)n, "]");
}

static size_t collect_kinds(const model_dir *d, kind **out) {
    kind *k = NULL;
    size_t n = 0;
    for (size_t i = 0; i < model_dir_count(d); i++) {
        const tensor *t = model_dir_tensor(d, i);
        kind one = { 0 };
        kind_name(t->name, one.name);
        shape_text(t, one.shape);
        snprintf(one.type, sizeof one.type, "%s", t->type_name);
        size_t j = 0;
        while (j < n && (strcmp(k[j].name, one.name) || strcmp(k[j].shape, one.shape) || strcmp(k[j].type, one.type)))
            j++;
        if (j == n) {
            k = xrealloc(k, (n + 1) * sizeof *k);
            k[n++] = one;
        }
        k[j].tensors++;
        k[j].bytes += t->bytes;
    }
    *out = k;
    return n;
}

/* ---- text ---- */

static double mb(int64_t bytes) { return (double)bytes / 1e6; }

static void print_kinds(const model_dir *d) {
    kind *k;
    size_t n = collect_kinds(d, &k);
    printf("  %-62s %-6s %-16s %8s %12s\n", "tensor (* is a number)", "type", "shape", "count", "MB");
    for (size_t i = 0; i < n; i++)
        printf("  %-62s %-6s %-16s %8lld %12.3f\n", k[i].name, k[i].type, k[i].shape, (long long)k[i].tensors,
               mb(k[i].bytes));
    free(k);
}

static void print_rope(const char *what, const rope_config *r) {
    printf("  %s: %s, theta %g, %d of the head's elements", what, r->yarn ? "YaRN" : "plain", r->theta, r->dim);
    if (r->yarn)
        printf(", factor %g, original %g, beta %g / %g, attention factor %.7g", r->factor, r->original, r->beta_fast,
               r->beta_slow, r->attention_factor);
    putchar('\n');
}

static void print_target(const pair *p) {
    const target_config *c = &p->target.cfg;
    int32_t sliding = 0, sparse = 0;
    for (int32_t l = 0; l < c->layers; l++) sliding += c->layer[l].sliding, sparse += c->layer[l].sparse;
    printf("target %s\n", model_dir_name(p->target_dir));
    printf("  %lld parameters, %.3f MB in %zu tensors\n", (long long)p->target.w.parameters, mb(p->target.w.bytes),
           model_dir_count(p->target_dir));
    printf("  hidden %d, %d layers (%d global, %d sliding with window %d), %d kv heads of %d, vocabulary %d, up to %d "
           "positions\n",
           c->hidden, c->layers, c->layers - sliding, sliding, c->window, c->kv_heads, c->head_dim, c->vocab,
           c->positions_max);
    printf("  query heads by layer:");
    for (int32_t l = 0; l < c->layers; l++) printf(" %d", c->layer[l].heads);
    printf("; gate %s\n  %d dense layers of width %d; %d sparse ones: %d experts of width %d, %d per token, shared %d, "
           "scale %g\n",
           c->gate_per_element ? "per element" : "per head", c->layers - sparse, c->dense_width, sparse, c->experts,
           c->expert_width, c->experts_per_token, c->shared_width, c->routed_scale);
    print_rope("rotation of global layers", &c->rope_global);
    if (sliding) print_rope("rotation of sliding layers", &c->rope_sliding);
    print_kinds(p->target_dir);
}

static void print_draft(const pair *p) {
    const draft_config *c = &p->draft.cfg;
    printf("draft %s\n  %lld parameters, %.3f MB in %zu tensors\n", model_dir_name(p->draft_dir),
           (long long)p->draft.w.parameters, mb(p->draft.w.bytes), model_dir_count(p->draft_dir));
    printf("  %d layers, %d heads, %d kv heads of %d, width %d, window %d, theta %g, block of %d (up to %d proposals), "
           "mask token %d\n  taps after target layers",
           c->layers, c->heads, c->kv_heads, c->head_dim, c->width, c->window, c->rope_theta, c->block_size,
           c->block_size - 1, c->mask_id);
    for (int32_t j = 0; j < c->taps; j++) printf(" %d", c->tap_layer[j]);
    printf("; norm weights %s\n", p->draft.w.unit_norms ? "all 1" : "not all 1");
    print_kinds(p->draft_dir);
}

static void print_pass(const char *what, const pass_bytes *b) {
    printf("  %-34s %10.3f MB: attention %.3f, dense %.3f, router %.3f, shared %.3f, experts %.3f, head %.3f, KV "
           "global %.3f, sliding %.3f\n",
           what, mb(b->total), mb(b->attention), mb(b->dense), mb(b->router), mb(b->shared), mb(b->experts),
           mb(b->head), mb(b->kv_global), mb(b->kv_sliding));
}

typedef struct step_bytes_report {
    int32_t ctx, rows;
    dtype kv;
    int32_t cache_tokens, checkpoints; /* remembered beside the context, as the memory that is free now allows */
    double distinct;
    memplan plan;
    pass_bytes plain, verify, propose;
} step_bytes_report;

static step_bytes_report measure(const pair *p, const inspect_opts *o) {
    const target_config *c = &p->target.cfg;
    const draft *d = pair_draft(p);
    step_bytes_report r = { .ctx = o->ctx ? (int32_t)o->ctx : c->positions_max, .rows = (int32_t)o->rows };
    r.kv = pair_kv_type((kv_dtype)o->kv);
    r.distinct = bytes_independent_experts(c->experts, c->experts_per_token, r.rows);
    const draft_config *dc = d ? &d->cfg : NULL;
    r.plan = memplan_make(c, dc, r.kv, r.ctx);
    memplan_choose_cache(c, dc, r.kv, r.ctx, memplan_available(), &r.cache_tokens, &r.checkpoints);
    memplan_add_cache(&r.plan, c, dc, r.kv, r.cache_tokens, r.checkpoints);
    r.plain = bytes_target_pass(c, &p->target.w, c->experts_per_token, r.ctx, r.kv);
    r.verify = bytes_target_pass(c, &p->target.w, r.distinct, r.ctx, r.kv);
    if (d) r.propose = bytes_draft_pass(&d->cfg, &d->w, &p->target.w, r.ctx);
    return r;
}

static const char *kv_name(const step_bytes_report *r) { return r->kv == DT_E4M3 ? "fp8_e4m3" : "bf16"; }

static void print_text(const pair *p, const step_bytes_report *r) {
    print_target(p);
    if (p->has_draft) print_draft(p);
    printf("memory for %d tokens: KV (%s) of global layers %.3f MB, of sliding layers %.3f MB, draft %.3f MB, taps "
           "%.3f MB; remembered conversations %.3f MB (%d tokens, %d checkpoints, as free memory allows); together "
           "%.3f MB beside the mapped weights\n",
           r->ctx, kv_name(r), mb(r->plan.kv_global), mb(r->plan.kv_sliding), mb(r->plan.draft_kv), mb(r->plan.taps),
           mb(r->plan.cache), r->cache_tokens, r->checkpoints, mb(r->plan.total));
    printf("bytes read per step at %d tokens:\n", r->ctx);
    print_pass("plain step (1 row)", &r->plain);
    char what[64];
    snprintf(what, sizeof what, "verify of %d rows (%.1f experts)", r->rows, r->distinct);
    print_pass(what, &r->verify);
    if (p->has_draft) print_pass("draft pass", &r->propose);
    printf("  (experts of several rows as if rows chose independently; real text shares more)\n");
}

/* ---- JSON ---- */

static json_t *kinds_json(const model_dir *d) {
    kind *k;
    size_t n = collect_kinds(d, &k);
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(a,
                              json_pack("{ss,ss,ss,sI,sI}", "name", k[i].name, "type", k[i].type, "shape", k[i].shape,
                                        "count", (json_int_t)k[i].tensors, "bytes", (json_int_t)k[i].bytes));
    free(k);
    return a;
}

static json_t *pass_json(const pass_bytes *b) {
    return json_pack("{sI,sI,sI,sI,sI,sI,sI,sI,sI}", "total", (json_int_t)b->total, "attention",
                     (json_int_t)b->attention, "dense", (json_int_t)b->dense, "router", (json_int_t)b->router, "shared",
                     (json_int_t)b->shared, "experts", (json_int_t)b->experts, "head", (json_int_t)b->head, "kv_global",
                     (json_int_t)b->kv_global, "kv_sliding", (json_int_t)b->kv_sliding);
}

static json_t *rope_json(const rope_config *r) {
    return json_pack("{sb,sf,si,sf,sf,sf,sf,sf}", "yarn", r->yarn, "theta", r->theta, "rotated", r->dim, "factor",
                     r->factor, "original_max_position_embeddings", r->original, "beta_fast", r->beta_fast, "beta_slow",
                     r->beta_slow, "attention_factor", r->attention_factor);
}

static json_t *target_json(const pair *p) {
    const target_config *c = &p->target.cfg;
    json_t *layers = json_array();
    for (int32_t l = 0; l < c->layers; l++)
        json_array_append_new(layers,
                              json_pack("{ss,ss,si}", "attention", c->layer[l].sliding ? "sliding" : "global", "mlp",
                                        c->layer[l].sparse ? "sparse" : "dense", "heads", c->layer[l].heads));
    json_t *cfg =
        json_pack("{si,si,si,si,si,si,si,si,si,si,si,si,ss,sf,sf,sf,sb}", "hidden", c->hidden, "layers", c->layers,
                  "vocab", c->vocab, "head_dim", c->head_dim, "kv_heads", c->kv_heads, "dense_width", c->dense_width,
                  "window", c->window, "experts", c->experts, "experts_per_token", c->experts_per_token, "expert_width",
                  c->expert_width, "shared_width", c->shared_width, "positions_max", c->positions_max, "gate",
                  c->gate_per_element ? "per element" : "per head", "routed_scale", c->routed_scale, "softcap",
                  c->softcap, "norm_eps", c->norm_eps, "normalize", c->normalize);
    json_object_set_new(cfg, "layer", layers);
    json_object_set_new(cfg, "rope_global", rope_json(&c->rope_global));
    json_object_set_new(cfg, "rope_sliding", rope_json(&c->rope_sliding));
    return json_pack("{ss,sI,sI,so,so}", "source", model_dir_name(p->target_dir), "parameters",
                     (json_int_t)p->target.w.parameters, "bytes", (json_int_t)p->target.w.bytes, "config", cfg,
                     "tensors", kinds_json(p->target_dir));
}

static json_t *draft_json(const pair *p) {
    const draft_config *c = &p->draft.cfg;
    json_t *taps = json_array();
    for (int32_t j = 0; j < c->taps; j++) json_array_append_new(taps, json_integer(c->tap_layer[j]));
    json_t *cfg =
        json_pack("{si,si,si,si,si,si,si,sf,si,si,so}", "hidden", c->hidden, "layers", c->layers, "heads", c->heads,
                  "kv_heads", c->kv_heads, "head_dim", c->head_dim, "width", c->width, "window", c->window,
                  "rope_theta", c->rope_theta, "block_size", c->block_size, "mask_id", c->mask_id, "tap_layers", taps);
    return json_pack("{ss,sI,sI,sb,so,so}", "source", model_dir_name(p->draft_dir), "parameters",
                     (json_int_t)p->draft.w.parameters, "bytes", (json_int_t)p->draft.w.bytes, "unit_norms",
                     p->draft.w.unit_norms, "config", cfg, "tensors", kinds_json(p->draft_dir));
}

static void print_json(const pair *p, const step_bytes_report *r) {
    json_t *plan =
        json_pack("{si,ss,sI,sI,sI,sI,sI,si,si,sI}", "context", r->ctx, "kv_dtype", kv_name(r), "kv_global",
                  (json_int_t)r->plan.kv_global, "kv_sliding", (json_int_t)r->plan.kv_sliding, "draft_kv",
                  (json_int_t)r->plan.draft_kv, "taps", (json_int_t)r->plan.taps, "cache", (json_int_t)r->plan.cache,
                  "cache_tokens", r->cache_tokens, "checkpoints", r->checkpoints, "total", (json_int_t)r->plan.total);
    json_t *step = json_pack("{si,si,sf,so,so}", "context", r->ctx, "verify_rows", r->rows, "verify_distinct_experts",
                             r->distinct, "plain", pass_json(&r->plain), "verify", pass_json(&r->verify));
    json_t *root = json_pack("{so,so,so}", "target", target_json(p), "memory", plan, "bytes_per_step", step);
    if (p->has_draft) {
        json_object_set_new(root, "draft", draft_json(p));
        json_object_set_new(step, "draft", pass_json(&r->propose));
    }
    json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(root);
}

static status inspect_model(const inspect_opts *o, err *e) {
    pair p;
    TRY(pair_load(&p, o->model, o->draft, false, NULL, NULL, e));
    step_bytes_report r = measure(&p, o);
    if (o->json)
        print_json(&p, &r);
    else
        print_text(&p, &r);
    pair_close(&p);
    return OK;
}

int cmd_inspect(int argc, char **argv) {
    inspect_opts o = { 0 };
    opts_found found = { 0 };
    int code;
    if (!cmd_parse(&OPTS, argc, argv, &o, &found, &code)) return code;
    if (found.n_rest && !o.model) o.model = found.rest[0];
    err e;
    status s = o.devices ? inspect_devices(o.json, &e) : inspect_model(&o, &e);
    code = s == OK ? 0 : cmd_fail(&e);
    opts_found_deinit(&found);
    return code;
}
