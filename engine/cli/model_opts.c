#include "engine/cli/model_opts.h"

#include "engine/cli/progress.h"

spec_options model_opts_spec(const model_opts *m) {
    return (spec_options){ .mode = (spec_mode)(SPEC_AUTO + m->mode),
                           .tokens = (int32_t)m->spec,
                           .tree = (int32_t)m->tree,
                           .min_p = (float)m->min_p };
}

engine_options model_opts_engine(const model_opts *m, int32_t queue_max) {
    return (engine_options){ .target_dir = m->model,
                             .draft_dir = m->draft,
                             .backend = (backend_kind)m->backend,
                             .device = (int32_t)m->device,
                             .verify_upload = m->check_upload,
                             .prefill = (prefill_kind)m->prefill,
                             .isa = m->isa,
                             .lanes = (int32_t)m->threads,
                             .ctx = (int32_t)m->ctx,
                             .prefill_chunk = (int32_t)m->chunk,
                             .spec = model_opts_spec(m),
                             .kv_dtype = (kv_dtype)m->kv,
                             .proposers = m->proposers + PROPOSE_DRAFT,
                             .cache_tokens = (int32_t)m->cache,
                             .checkpoints = (int32_t)m->checkpoints,
                             .cache_dir = m->cache_dir,
                             .queue_max = queue_max };
}

status model_opts_open(engine **out, const engine_options *opt, volatile const int *stop, err *e) {
    engine *en;
    TRY(engine_open(&en, opt, e));
    float fraction;
    engine_state s;
    while ((s = engine_get_state(en, &fraction)) == ENGINE_LOADING && !(stop && *stop)) {
        progress_show("loading", fraction);
        engine_wait(en, 100 * 1000000ll);
    }
    progress_clear();
    if (s == ENGINE_READY) {
        *out = en;
        return OK;
    }
    if (s == ENGINE_FAILED)
        engine_get_failure(en, e);
    else
        err_set(e, ERR_FAULT, "interrupted");
    engine_close(en);
    return e->code;
}
