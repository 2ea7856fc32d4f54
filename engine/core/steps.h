/* engine/core/steps.h - the recorded steps of a pair, and what a round needs from them.
 *
 * All steps share one parameter block. A wrapper fills `in`, replays, and returns `out`: nothing in between allocates,
 * branches on results or waits. One thread, the one that opened it. */
#ifndef ENGINE_CORE_STEPS_H
#define ENGINE_CORE_STEPS_H
#include "draft/draft.h"
#include "engine/core/lists_mirror.h"
#include "engine/core/pick_lists.h"
#include "graphs/step.h"
#include "target/target.h"

typedef struct steps steps;

/* d NULL: no draft; rounds then verify given proposals only. All steps are recorded here. They run where the target's
 * memory is: on the lanes of the host with this instruction set, or on a device; where that has opened its fast
 * products (kernels/device.h), prefill-256 uses them. */
status steps_open(steps **out, const target *t, const draft *d, isa i, int lanes, err *e);
void steps_close(steps *s);

/* Before the first step of a sequence, or after a cut: committed length, anchor at that position (ignored by prefill),
 * and how far the draft's context ring is valid. */
void steps_seek(steps *s, int32_t base, int32_t anchor, int32_t ctx_len);
/* How tokens are chosen from here on. With it nothing is counted yet, and there are no biases and no log-probabilities:
 * before the first step of a sequence. */
void steps_set_pick(steps *s, const pick_params *pick);
void steps_set_logprobs(steps *s, int32_t n); /* out->logprobs with n alternatives, at most PICK_TOP_MAX; -1: none */
/* What penalties, biases and masks go by. Prompt and emitted tokens are counted by the functions below; biases and end
 * tokens are the caller's to add. */
pick_lists *steps_lists(steps *s);

/* A constrained answer: before a row chooses, `fill` says which tokens it may choose. rows: 1 for a prompt's last row
 * or the anchor (tree NULL), else the nodes of the tree, row 0 the anchor, token and parent of node i in
 * tree->proposal[i - 1] and tree->note[i].parent. bits: [rows][words], bit v % 32 of word v / 32. Called between the
 * parts of a round, on the device's time and not on its own; the answer is the same as with plain steps. NULL: free. */
typedef void mask_fill(void *arg, const step_out *tree, int32_t rows, uint32_t *bits, int32_t words);
void steps_set_mask(steps *s, mask_fill *fill, void *arg);
/* OK, or why the device that the steps run on is of no use any more; their results since then mean nothing. */
status steps_status(const steps *s, err *e);

/* n <= PREFILL_MAX prompt tokens behind the committed ones. want_head: out->token[0] is chosen from the last row. */
const step_out *steps_prefill(steps *s, const int32_t *tokens, int32_t n, bool want_head);
/* A whole prompt from an empty sequence, n >= 1 tokens in full chunks: the first token is chosen. */
const step_out *steps_prompt(steps *s, const pick_params *pick, const int32_t *tokens, size_t n);
/* The anchor alone: one token. */
const step_out *steps_plain(steps *s);
/* What a round proposes, and how much of it is verified. */
enum { TREE_WIDTH = 8 };
typedef struct round_shape {
    int32_t depth;           /* mask rows of the draft's block; 0: the draft is not asked */
    int32_t branch;          /* candidates of a row that may become nodes, 1 .. TREE_WIDTH; 1: a chain */
    int32_t nodes;           /* most nodes to verify, below NODES_MAX */
    int32_t nodes_min;       /* fewest, where there are so many */
    const int32_t *given;    /* a chain found elsewhere, NULL: none */
    const float *given_logp; /* of the path up to each of its tokens; NULL: they are certain */
    int32_t n_given;         /* at most DEPTH_MAX */
    const float *cost;       /* [NODES_MAX + 1], kernels/params.h; NULL: every node is worth its row */
    const float *conf;       /* [CONF_CLASSES], NULL: the draft's own probabilities */
    float min_p;             /* least probability of a node's path; 0: off */
} round_shape;

/* One round: the most probable prefixes of what the draft and the given chain propose are verified in one pass. Catches
 * the draft's context up first when it is far behind. */
const step_out *steps_speculate(steps *s, const round_shape *r);
/* The same with every one of the `nodes` most probable prefixes of the draft's candidates. */
const step_out *steps_tree(steps *s, int32_t depth, int32_t nodes, int32_t branch);
/* The chain of the k likeliest proposals. */
const step_out *steps_round(steps *s, int32_t k);
/* A given chain of n proposals alone, n < NODES_MAX. */
const step_out *steps_verify(steps *s, const int32_t *proposals, int32_t n);
/* Projects the taps of all committed positions that the draft can still see and that are missing in its ring. */
void steps_catch_up(steps *s);
int32_t steps_lag(const steps *s);     /* how many these are; 0 without a draft */
int32_t steps_ctx_len(const steps *s); /* positions below which the draft's ring misses none */
/* Prompt tokens that stand in front already: they are counted for penalties, and that is all. */
void steps_skip(steps *s, const int32_t *tokens, int32_t n);
int32_t steps_len(const steps *s); /* committed positions; the anchor stands behind them */

/* ns of the draft's part of a step: context rows, block, tree. */
static inline int64_t step_draft_ns(const step_out *o) { return o->stamp[1] ? o->stamp[1] - o->stamp[0] : 0; }

/* For tests, verify and bench. */
enum { STEPS_COUNT = 1 + PREFILL_BUCKETS + 4 * ROUND_BUCKETS + CONTEXT_BUCKETS };
step_params *steps_params(steps *s);
step *steps_get(steps *s, int i);         /* i < STEPS_COUNT; NULL: does not exist for this pair */
int steps_prefill_index(int32_t n);       /* the step that steps_prefill takes for n tokens */
const draft *steps_draft(const steps *s); /* NULL: none */
op_sink steps_eager(const steps *s);      /* runs ops one by one where the steps run */
pool *steps_pool(steps *s);
/* The target's logits of step i, F32 [head rows][V]; on a device in its memory (kernels/memory.h). */
view steps_logits(const steps *s, int i);
view steps_draft_logits(const steps *s, int i);
/* The residual rows that a steps_prefill of n tokens left behind the last layer, F32 [at least n][D]; until the next.
 */
view steps_prefilled(const steps *s, int32_t n);
void steps_set_lanes(steps *s, step_lanes mode); /* of decode steps; prefill always takes all lanes */
void steps_set_eager(steps *s, bool eager);      /* run ops one by one instead of replaying: purity tests */
#endif
