#include "engine/core/memplan.h"

#include "draft/draft.h"
#include "engine/core/timelines.h"
#include "target/target.h"

#include <stdio.h>

memplan memplan_make(const target_config *t, const draft_config *d, dtype kv, int32_t ctx) {
    memplan p = { 0 };
    int64_t all = (int64_t)target_kv_bytes(t, ctx, 0, kv), global = 0;
    for (int32_t l = 0; l < t->layers; l++) global += !t->layer[l].sliding;
    int64_t rows = (int64_t)target_kv_pages(ctx) * KV_PAGE;
    p.kv_global = global * rows * t->kv_heads * t->head_dim * 2 * dtype_bits(kv) / 8;
    p.kv_sliding = all - p.kv_global;
    if (d) {
        p.draft_kv = (int64_t)draft_kv_bytes(d);
        p.taps = (int64_t)target_tap_bytes(t, d->taps, d->window);
    }
    p.total = p.kv_global + p.kv_sliding + p.draft_kv + p.taps;
    return p;
}

int32_t memplan_cache_pages(int32_t tokens) { return tokens / KV_PAGE + (tokens % KV_PAGE != 0); }

void memplan_add_cache(memplan *p, const target_config *t, const draft_config *d, dtype kv, int32_t tokens,
                       int32_t checkpoints) {
    p->cache = (int64_t)(target_kv_bytes(t, 0, memplan_cache_pages(tokens), kv) - target_kv_bytes(t, 0, 0, kv)) +
               (int64_t)timelines_checkpoint_bytes(t, d, kv) * checkpoints;
    p->total += p->cache;
}

void memplan_choose_cache(const target_config *t, const draft_config *d, dtype kv, int32_t ctx, int64_t bytes,
                          int32_t *tokens, int32_t *checkpoints) {
    int64_t room = (bytes - memplan_make(t, d, kv, ctx).total) / 4;
    *tokens = ctx > INT32_MAX / 2 ? INT32_MAX : 2 * ctx, *checkpoints = CHECKPOINTS_USUAL;
    for (;;) {
        memplan p = { 0 };
        memplan_add_cache(&p, t, d, kv, *tokens, *checkpoints);
        if (p.cache <= room || (*tokens == 0 && *checkpoints == 0)) return;
        *tokens /= 2, *checkpoints /= 2;
    }
}

int32_t memplan_largest_ctx(const target_config *t, const draft_config *d, dtype kv, int64_t bytes) {
    int32_t lo = 0, hi = t->positions_max; /* the plan grows with the context: bisect */
    while (lo < hi) {
        int32_t mid = lo + (hi - lo + 1) / 2;
        if (memplan_make(t, d, kv, mid).total <= bytes)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

/* A number in a one-line kernel file, -1: none ("max", absent). */
static int64_t read_number(const char *path) {
    long long v = -1;
    FILE *f = fopen(path, "re");
    if (!f) return -1;
    if (fscanf(f, "%lld", &v) != 1) v = -1;
    fclose(f);
    return v;
}

int64_t memplan_available(void) {
    long long kib = -1;
    char line[256];
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && kib < 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) != 1) kib = -1;
    if (f) fclose(f);
    int64_t available = kib < 0 ? INT64_MAX : kib * 1024;
    int64_t limit = read_number("/sys/fs/cgroup/memory.max"), used = read_number("/sys/fs/cgroup/memory.current");
    if (limit > 0 && used >= 0 && limit - used < available) available = limit - used;
    return available;
}

status memplan_choose_ctx(const target_config *t, const draft_config *d, dtype kv, int32_t wanted, int64_t available,
                          int32_t *ctx, err *e) {
    if (wanted > t->positions_max)
        return err_set(e, ERR_MODEL,
                       "a context of %d tokens was asked for; this model goes to %d (max_position_embeddings)", wanted,
                       t->positions_max);
    int32_t fits = memplan_largest_ctx(t, d, kv, available);
    int32_t use = wanted ? wanted : fits;
    if (use < 1 || use > fits) {
        double need = (double)memplan_make(t, d, kv, use < 1 ? 1 : use).total / 1048576.0,
               have = (double)available / 1048576.0;
        return err_set(
            e, ERR_MEMORY,
            "a context of %d tokens needs %.1f MiB for keys and values, %.1f MiB are free: %.1f MiB are missing; the "
            "largest context that fits is %d",
            use < 1 ? 1 : use, need, have, need - have, fits);
    }
    *ctx = use;
    return OK;
}
