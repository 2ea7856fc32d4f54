#include "engine/core/pair.h"

#include "engine/base/cpuid.h"
#include "engine/base/log.h"

#include <stdio.h>

static status load_text(pair *p, bool needed, err *e) {
    const model_dir *d = p->target_dir;
    text_files f = { .tokenizer = model_dir_file(d, "tokenizer.json"),
                     .tokenizer_config = model_dir_file(d, "tokenizer_config.json"),
                     .chat_template = model_dir_file(d, "chat_template.jinja"),
                     .generation_config = model_dir_file(d, "generation_config.json"),
                     .config = model_dir_file(d, "config.json") };
    if (!f.tokenizer.p) {
        if (!needed) return OK;
        return err_set(e, ERR_MODEL, "%s: tokenizer.json is missing", model_dir_name(d));
    }
    status s = text_model_open(&p->text, &f, p->target.cfg.vocab, e);
    return s == OK ? OK : err_wrap(e, "%s", model_dir_name(d));
}

static status load_draft(pair *p, source_builtin kind, const char *dir, err *e) {
    const target_config *t = &p->target.cfg;
    TRY(model_dir_open(&p->draft_dir, kind, dir, e));
    status s = draft_init(&p->draft, p->draft_dir, e);
    if (s != OK) return err_wrap(e, "draft %s", model_dir_name(p->draft_dir));
    p->has_draft = true;
    s = draft_config_check(&p->draft.cfg, t->hidden, t->vocab, t->layers, e);
    if (s != OK)
        return err_wrap(e, "draft %s is not for target %s", model_dir_name(p->draft_dir),
                        model_dir_name(p->target_dir));
    log_info("load", "draft %s: norm weights are %s", model_dir_name(p->draft_dir),
             p->draft.w.unit_norms ? "all 1" : "not all 1");
    return OK;
}

status pair_load(pair *out, const char *target_dir, const char *draft_dir, bool need_text, pair_progress *progress,
                 void *arg, err *e) {
    pair p = { .progress = progress, .progress_arg = arg };
    status s = model_dir_open(&p.target_dir, target_dir ? SOURCE_FOLDER : SOURCE_DEMO_TARGET, target_dir, e);
    if (s == OK) {
        s = target_init(&p.target, p.target_dir, progress, arg, e);
        if (s != OK) err_wrap(e, "target %s", model_dir_name(p.target_dir));
    }
    if (s == OK && (draft_dir || !target_dir))
        s = load_draft(&p, draft_dir ? SOURCE_FOLDER : SOURCE_DEMO_DRAFT, draft_dir, e);
    if (s == OK) s = load_text(&p, need_text, e);
    if (s != OK) {
        pair_close(&p);
        return s;
    }
    *out = p;
    return OK;
}

/* One core is left to the loop thread when there are enough. */
static int choose_lanes(int32_t wanted) {
    if (wanted > 0) return wanted;
    int cores = cpu_usable_cores();
    return cores >= 4 ? cores - 1 : cores;
}

static status choose_isa(const char *name, isa *out, err *e) {
    *out = isa_best();
    if (!name) return OK;
    if (!isa_find(name, out))
        return err_set(e, ERR_USAGE, "instruction set \"%s\": expected ref, avx2, avx512 or avx512bf16", name);
    if (!isa_usable(*out))
        return err_set(e, ERR_USAGE, "instruction set %s: this processor does not have it; the best it has is %s", name,
                       isa_name(isa_best()));
    return OK;
}

/* What the recorded steps, the runtime and fragments of memory may take beside the plan; and what cuBLASLt and the
 * largest matrix in its form take on top. */
enum { DEVICE_SLACK = 512 << 20, FAST_SLACK = 256 << 20 };

static int64_t slack(const pair *p) { return DEVICE_SLACK + (p->fast_prefill ? FAST_SLACK : 0); }

/* The weights to the GPU. Whether they fit is asked before the first byte is sent. */
static status send_weights(pair *p, const engine_options *opt, err *e) {
    size_t bytes = target_device_bytes(&p->target) + (p->has_draft ? draft_device_bytes(&p->draft) : 0);
    device_info i = device_get_info(p->device);
    snprintf(p->where, sizeof p->where, "%s", i.name);
    if ((int64_t)bytes + slack(p) > i.free)
        return err_set(e, ERR_MEMORY,
                       "the weights take %.2f GB of the memory of %s, of which %.2f GB are free: %.2f GB are missing",
                       (double)bytes / 1e9, i.name, (double)i.free / 1e9,
                       (double)((int64_t)bytes + slack(p) - i.free) / 1e9);
    TRY(device_reserve_weights(p->device, bytes, e));
    TRY(target_to_device(&p->target, p->device, opt->verify_upload, p->progress, p->progress_arg, e));
    return p->has_draft ? draft_to_device(&p->draft, p->device, opt->verify_upload, e) : OK;
}

static status choose_place(pair *p, const engine_options *opt, err *e) {
    p->fast_prefill = opt->prefill == PREFILL_FAST;
    if (opt->backend == BACKEND_CUDA) {
        TRY(device_open(&p->device, opt->device, e));
        if (p->fast_prefill) TRY(device_open_fast(p->device, e));
        return send_weights(p, opt, e);
    }
    if (p->fast_prefill)
        return err_set(e, ERR_USAGE,
                       "--prefill fast: only a GPU has it (--backend cuda); on the CPU a prefill is exact");
    TRY(choose_isa(opt->isa, &p->isa, e));
    snprintf(p->where, sizeof p->where, "%s", isa_name(p->isa));
    p->lanes = choose_lanes(opt->lanes);
    return OK;
}

dtype pair_kv_type(kv_dtype kind) { return kind == KV_FP8_E4M3 ? DT_E4M3 : DT_BF16; }

/* The context, and what is remembered beside it: as asked for, or what fits well. */
static status choose_memory(pair *p, dtype kv, const engine_options *opt, err *e) {
    const draft *d = pair_draft(p);
    const draft_config *dc = d ? &d->cfg : NULL;
    int64_t available = p->device ? device_get_info(p->device).free - slack(p) : memplan_available();
    TRY(memplan_choose_ctx(&p->target.cfg, dc, kv, opt->ctx, available, &p->ctx, e));
    memplan_choose_cache(&p->target.cfg, dc, kv, p->ctx, available, &p->cache_tokens, &p->checkpoints);
    if (opt->cache_tokens >= 0) p->cache_tokens = opt->cache_tokens;
    if (opt->checkpoints >= 0) p->checkpoints = opt->checkpoints;
    p->plan = memplan_make(&p->target.cfg, dc, kv, p->ctx);
    memplan_add_cache(&p->plan, &p->target.cfg, dc, kv, p->cache_tokens, p->checkpoints);
    if (p->plan.total <= available) return OK;
    return err_set(
        e, ERR_MEMORY,
        "remembering %d tokens and %d checkpoints takes %.1f MiB beside the context's %.1f MiB; %.1f MiB are "
        "free: ask for less (--cache-tokens, --kv-snapshots)",
        p->cache_tokens, p->checkpoints, (double)p->plan.cache / 1048576.0,
        (double)(p->plan.total - p->plan.cache) / 1048576.0, (double)available / 1048576.0);
}

status pair_start(pair *p, const engine_options *opt, err *e) {
    const draft *d = pair_draft(p);
    target_room room = { .kv = pair_kv_type(opt->kv_dtype) };
    TRY(choose_place(p, opt, e));
    TRY(choose_memory(p, room.kv, opt, e));
    room.ctx = p->ctx, room.spare_pages = memplan_cache_pages(p->cache_tokens);
    p->has_memory = true;
    if (d) room.tap_layer = d->cfg.tap_layer, room.taps = d->cfg.taps, room.window = d->cfg.window;
    TRY(target_alloc(&p->target, &room, e));
    if (d) {
        draft_inputs in = { p->target.tap_ring, target_embedding(&p->target), p->target.w.head };
        TRY(draft_alloc(&p->draft, in, e));
    }
    TRY(steps_open(&p->steps, &p->target, d, p->isa, p->device ? 1 : p->lanes, e));
    for (int32_t id = 0; p->text && id < text_vocab(p->text); id++)
        if (text_is_end(p->text, id)) pick_lists_add_end(steps_lists(p->steps), id);
    return OK;
}

void pair_close(pair *p) {
    steps_close(p->steps);
    text_model_close(p->text);
    draft_deinit(&p->draft);
    target_deinit(&p->target);
    if (p->device) device_close(p->device);
    model_dir_close(p->draft_dir);
    model_dir_close(p->target_dir);
    *p = (pair){ 0 };
}

const draft *pair_draft(const pair *p) { return p->has_draft ? &p->draft : NULL; }

status pair_pick_defaults(const pair *p, pick_options *out, err *e) {
    cfg c = model_dir_generation(p->target_dir);
    double temperature, top_p, min_p, repeat;
    int64_t top_k;
    TRY(cfg_opt_real(c, "temperature", 0.0, 100.0, 1.0, &temperature, e));
    TRY(cfg_opt_real(c, "top_p", 1e-6, 1.0, 1.0, &top_p, e));
    TRY(cfg_opt_real(c, "min_p", 0.0, 1.0, 0.0, &min_p, e));
    TRY(cfg_opt_real(c, "repetition_penalty", 1e-6, REPEAT_MAX, 1.0, &repeat, e));
    TRY(cfg_opt_int(c, "top_k", 0, INT32_MAX, 0, &top_k, e));
    *out = (pick_options){ .temperature = (float)temperature,
                           .top_p = (float)top_p,
                           .min_p = (float)min_p,
                           .top_k = (int32_t)top_k,
                           .repeat = (float)repeat };
    return OK;
}

pick_params pair_pick_params(const pick_options *o) {
    return (pick_params){ .temperature = o->temperature,
                          .top_p = o->top_p,
                          .min_p = o->min_p,
                          .top_k = o->top_k,
                          .seed = o->seed,
                          .repeat = o->repeat,
                          .presence = o->presence,
                          .frequency = o->frequency };
}
