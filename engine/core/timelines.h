/* engine/core/timelines.h - remembered conversations: what a new prompt shares with one of them is not computed again.
 *
 * A timeline is a list of tokens with their keys and values. Rows of global layers lie in pages; timelines that grew
 * from one prefix share its full pages. Rows of sliding layers, and the draft's context rows, lie in rings, and there
 * is one set of rings: that of the live timeline. A checkpoint is a copy of the rings' windows at one position of a
 * timeline; decoding can start there, and a little before it.
 *
 * Checkpoints are taken where later prompts are likely to part: where this prompt parted from an older one, at its end,
 * where the last answer ended, and now and then on a long way. All is exact: a prompt that starts from a timeline gives
 * the bits of a cold run, the draft's context included.
 *
 * What is remembered is bounded; what is worth least goes first (prefix_value), so that short side requests do not push
 * out a long conversation. Engine thread; of all this only timelines_reserve and timelines_step run between rounds, and
 * a page is taken every KV_PAGE tokens. */
#ifndef ENGINE_CORE_TIMELINES_H
#define ENGINE_CORE_TIMELINES_H
#include "engine/core/prefix.h"
#include "engine/core/steps.h"

typedef struct timelines timelines;

enum {
    TIMELINES_MAX = 32,      /* remembered ones, the live one included */
    CHECKPOINT_SLACK = 31,   /* positions before a checkpoint from which its rings may still serve */
    CHECKPOINT_EVERY = 2048, /* tokens of a long prompt */
    CHECKPOINTS_MAX = 1024,
};

/* Uses all pages of t->kv and its page table from here on. checkpoints: how many are kept, 0 to CHECKPOINTS_MAX; their
 * memory is taken now. d NULL: no draft. ERR_MEMORY. */
status timelines_open(timelines **out, target *t, const draft *d, steps *s, int32_t checkpoints, err *e);
void timelines_close(timelines *tl); /* NULL is fine */
/* Of one checkpoint; kv: type of the target's keys and values, d NULL: no draft. */
size_t timelines_checkpoint_bytes(const target_config *t, const draft_config *d, dtype kv);

/* A request with these n tokens begins. Returns the positions that are there already, below n; steps start behind them.
 * reuse false: 0, and nothing will be remembered of it. */
int32_t timelines_begin(timelines *tl, const int32_t *token, int32_t n, bool reuse);
/* How many of the next `most` prompt rows a prefill step should take, so that it ends where a checkpoint belongs. */
int32_t timelines_chunk(const timelines *tl, int32_t most);
/* Before a step: pages for `rows` more rows. Evicts remembered timelines when there are none. */
void timelines_reserve(timelines *tl, int32_t rows);
/* After a prefill step over these n tokens: a checkpoint where one belongs. */
void timelines_prefilled(timelines *tl, const int32_t *token, int32_t n);
/* After a decode step: n tokens that got keys and values with it, and how many rows it wrote. */
void timelines_step(timelines *tl, const int32_t *token, int32_t n, int32_t rows);
/* After the prompt's last step, and whenever a checkpoint is worth it. Projects missing context rows first. */
void timelines_mark(timelines *tl);
/* The request is over: the first n tokens are kept, those of a burst behind a stop are not. */
void timelines_end(timelines *tl, int32_t n);

int32_t timelines_len(const timelines *tl); /* of the live timeline */

/* For /metrics, and tests that count. */
typedef struct timelines_stats {
    int32_t timelines, checkpoints, pages_used, pages;
    int64_t asked, reused;    /* prompt tokens since open, and of these not computed again */
    int64_t restored, forked; /* requests that started from a checkpoint; that kept the rest of an old timeline */
    int64_t evicted_lines, evicted_marks;
} timelines_stats;
timelines_stats timelines_get_stats(const timelines *tl);
#endif
