/* engine/core/memplan.h - how much memory a pair needs for a context, before anything is allocated. Pure but for
 * memplan_available. */
#ifndef ENGINE_CORE_MEMPLAN_H
#define ENGINE_CORE_MEMPLAN_H
#include <stdint.h>
#include "draft/config.h"
#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "target/config.h"

typedef struct memplan {
    int64_t kv_global;  /* pages of global layers; grows with the context */
    int64_t kv_sliding; /* rings; fixed */
    int64_t draft_kv;   /* context ring and block rows */
    int64_t taps;       /* residual rows waiting for the draft */
    int64_t cache;      /* remembered conversations: pages and checkpoints of the rings */
    int64_t total;
} memplan;

/* d may be NULL. kv: elements of the target's keys and values, DT_BF16 or DT_E4M3. */
memplan memplan_make(const target_config *t, const draft_config *d, dtype kv, int32_t ctx);

/* Adds pages for `tokens` remembered tokens and so many checkpoints. */
void memplan_add_cache(memplan *p, const target_config *t, const draft_config *d, dtype kv, int32_t tokens,
                       int32_t checkpoints);
/* Pages beside those of the running conversation. */
int32_t memplan_cache_pages(int32_t tokens);
/* How much to remember where nobody said: twice the context and CHECKPOINTS_USUAL checkpoints, less when that would
 * take more than a quarter of what `bytes` leave behind the context's own plan. */
enum { CHECKPOINTS_USUAL = 24 };
void memplan_choose_cache(const target_config *t, const draft_config *d, dtype kv, int32_t ctx, int64_t bytes,
                          int32_t *tokens, int32_t *checkpoints);

/* Largest context whose plan fits into `bytes`, at most the model's own limit; 0: not even one page. */
int32_t memplan_largest_ctx(const target_config *t, const draft_config *d, dtype kv, int64_t bytes);

/* Memory that the process may still use: free memory of the machine and the limit of its control group. */
int64_t memplan_available(void);

/* The context to use. wanted 0: the model's limit, or less when memory is short. ERR_MODEL: beyond the model's limit;
 * ERR_MEMORY names what is missing and the largest context that fits. */
status memplan_choose_ctx(const target_config *t, const draft_config *d, dtype kv, int32_t wanted, int64_t available,
                          int32_t *ctx, err *e);
#endif
