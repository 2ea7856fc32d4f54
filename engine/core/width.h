/* engine/core/width.h - how much to propose and to verify, by measured cost. Output never depends on it.
 *
 * Known: what a pass of r rows takes (C), what drafting k rows takes (D), both by context length, from the last rounds;
 * how often candidates of a confidence class prove right; how the last drafted rounds would have paid for any k. The
 * best rate of tokens per time over all that may be done is lambda, and everything is judged by it (Dinkelbach's rule
 * for ratios): nodes are worth verifying while their chance exceeds lambda * (C(r + 1) - C(r)); a way of doing a step
 * is worth its tokens less lambda times its time.
 *
 * While drafting does not pay, single drafted rounds probe whether it would, within a small share of the time.
 *
 * Pure: times come from the caller. One thread. Sources: MoE speculation that pays off only at measured cost (Cascade,
 * arXiv 2506.20675); growth by confidence under a threshold of cost. */
#ifndef ENGINE_CORE_WIDTH_H
#define ENGINE_CORE_WIDTH_H
#include <stdbool.h>
#include "engine/engine.h"
#include "kernels/params.h"

enum {
    COST_SAMPLES = 15,    /* an entry is the median of so many last times */
    COST_ENOUGH = 3,      /* fewer say nothing */
    COST_TIERS = 12,      /* contexts of up to 1024 tokens, then doubling */
    WIDTH_PLAIN_GAP = 64, /* drafted rounds until a plain step is measured again; fewer at first */
    WIDTH_TIER_GAP = 8,   /* the same in contexts that are new */
};

/* Median of the last times of one kind of pass. */
typedef struct cost_entry {
    int32_t n;    /* times taken, ever */
    int64_t seen; /* when the last one was taken, ns */
    float last[COST_SAMPLES], sorted[COST_SAMPLES];
} cost_entry;

/* Time over size (rows of a pass, rows of a draft) for one tier. What was not measured lately follows the shape of
 * `prior`, scaled by the nearest size that was. */
typedef struct cost_curve {
    cost_entry entry[NODES_MAX + 1];
    float prior[NODES_MAX + 1];
    float ns[NODES_MAX + 1]; /* the answer; [0] is 0 for drafts */
} cost_curve;

typedef struct width_choice {
    int32_t draft;            /* rows of the draft's block that propose, 0: not asked */
    int32_t given;            /* tokens of the looked-up chain that go along */
    int32_t nodes, nodes_min; /* 0 nodes: a plain step */
    spec_reason why;
} width_choice;

/* Fading sums of what proved right and of what was hoped for. */
typedef struct width_trust {
    float hits, hoped;
} width_trust;

typedef struct width {
    int32_t draft_max; /* 0: no draft */
    int32_t tiers;     /* the first so many have been entered */
    cost_curve verify[COST_TIERS], draft[COST_TIERS];
    float ctx_row; /* ns to project one context row in bulk */
    /* acceptance; [1]: sampled requests, whose drafts are right more rarely */
    float right[2][CONF_CLASSES];
    int kind;                 /* of the running request: 0 greedy, 1 sampled */
    width_trust copied[2][2]; /* by kind: of looked-up chains that begin doubtfully, and surely */
    float hits, hoped;        /* fading sums of outcomes and of what `right` said about them */
    float conf[CONF_CLASSES]; /* for the tree: log of right, corrected by these two */
    float usual[DEPTH_MAX];   /* fading mean of the corrected share, by depth of the likeliest chain */
    /* by rows drafted: what such rounds bring and take, fading means */
    float tokens[DEPTH_MAX + 1], time[DEPTH_MAX + 1];
    float weight;                     /* of the next round in these means */
    float lambda;                     /* tokens per ns */
    float cost[NODES_MAX + 1];        /* lambda * C */
    bool drafting;                    /* it pays */
    float credit, unpaid;             /* ns that probes may take; ns of steps since that was settled */
    int32_t settled;                  /* since_draft then */
    int32_t plains;                   /* plain steps that were measured */
    int32_t since_draft, since_plain; /* tokens since a drafted round; drafted rounds since a plain step */
    bool first_look;                  /* the request has not drafted yet */
    int32_t probing;                  /* probes in a row */
    int32_t favourite, best; /* rows with the best rate; likewise as far as the answer goes: drafting uses them */
} width;

/* draft_max: most rows the draft proposes, 0: there is none. */
void width_init(width *w, int32_t draft_max);
/* Measured at start, with made-up tokens: shapes until real rounds replace them. n pairs of size and ns, sizes rising
 * from 1 on; for draft sizes are proposing rows. */
void width_set_verify(width *w, const int32_t *rows, const float *ns, int32_t n);
void width_set_draft(width *w, const int32_t *rows, const float *ns, int32_t n, float ctx_row);

/* A request begins. What was learned stays as a weak expectation. */
void width_begin(width *w, bool sampled);

/* The next step behind ctx tokens. depth: most tokens that a round may bring beyond its own; nodes: most nodes; lag:
 * context rows that the draft's ring misses; p[n]: probability of the looked-up chain up to each token. */
typedef struct width_input {
    int32_t ctx, depth, nodes, lag;
    const float *p;
    int32_t n;
} width_input;
void width_choose(width *w, const width_input *in, width_choice *out);

/* Its outcome; ctx as it was chosen for. Times in ns: context rows that were long missing; context and draft block;
 * everything else of the step, the caller's part included; any clock that goes on. */
typedef struct width_time {
    int64_t catch_up, draft, rest, now;
} width_time;
void width_measured(width *w, int32_t ctx, const width_choice *c, const step_out *o, const width_time *t);

/* What a looked-up chain whose first token is right with probability p0, as the look-up thinks, is really worth: a
 * factor for all its probabilities, by how such chains have begun lately. */
float width_trust_in(const width *w, float p0);
/* Outcome of such a chain: tried, and then whether its first token was right. What is not tried is slowly believed
 * again.
 */
void width_copied(width *w, float p0, bool tried, bool right);

float width_verify_ns(const width *w, int32_t ctx, int32_t rows); /* C */
float width_draft_ns(const width *w, int32_t ctx, int32_t rows);  /* D */
#endif
