/* engine/core/lookup.h - proposals from text that is already there: assistants repeat files, names and tool results.
 *
 * A lookup holds the tokens of one timeline (prompt and emitted tokens) and, if the request brought one, a prediction:
 * text that may be copied from and is not part of the timeline. lookup_propose finds where the end of the timeline
 * occurred before and proposes what followed there. What it proposes changes speed, never the text.
 *
 * Pure and deterministic: the answer is a function of timeline, prediction and feedback. It is the same whether the
 * timeline grew in one piece or was cut and grown again. One thread. After lookup_new nothing allocates or fails. */
#ifndef ENGINE_CORE_LOOKUP_H
#define ENGINE_CORE_LOOKUP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/status.h"
#include "kernels/params.h"

enum {
    LOOKUP_GRAM_MAX = 32,  /* longest run of tokens that is indexed */
    LOOKUP_MATCH_MAX = 64, /* matches are not told apart beyond this length */
    LOOKUP_WALK = 32,      /* earlier places that are looked at, per text and length class */
};

typedef struct lookup lookup;

typedef struct lookup_options {
    int32_t timeline_max;   /* tokens, 1 .. 2^30 */
    int32_t prediction_max; /* tokens, 0 .. 2^30 */
    int32_t min_match;      /* shortest match that is worth a proposal, 1 .. LOOKUP_GRAM_MAX */
} lookup_options;

/* What lookup_propose found. A plain value: it stays valid when the lookup changes. */
typedef struct lookup_match {
    int32_t n; /* proposals; 0: no match is long enough */
    int32_t token[DEPTH_MAX];
    float p[DEPTH_MAX];   /* probability that proposals 0..i are all right; below 1, never rises */
    uint32_t contested;   /* bit i: another place goes along with proposals 0..i-1 and differs at i */
    int32_t len;          /* tokens that agree in front of the proposals, at most LOOKUP_MATCH_MAX */
    int32_t places;       /* places looked at that match in this length class, the chosen one included */
    int32_t agreeing;     /* of these, the ones followed by token[0] */
    bool from_prediction; /* copied from the prediction */
    int32_t work;         /* links followed, tokens compared and copied */
} lookup_match;

/* Allocates for the largest texts at once; pages that no token reaches are not touched. ERR_MEMORY. */
status lookup_new(lookup **out, const lookup_options *opt, err *e);
void lookup_free(lookup *l); /* NULL is fine */
/* What lookup_new allocates for texts: at most 48 bytes a token, 56 when min_match is 1. */
size_t lookup_bytes(const lookup_options *opt);

/* A new request: the timeline becomes these n tokens, of which what it already holds in front stays indexed; there is
 * no prediction, and what feedback has taught is half forgotten. Cost in proportion to the tokens that differ. */
void lookup_begin(lookup *l, const int32_t *tokens, int32_t n);
/* Appends to the timeline; the sum may not pass timeline_max. Constant cost per token. */
void lookup_add(lookup *l, const int32_t *tokens, int32_t n);
/* Cuts the timeline to its first n tokens, n <= lookup_len. Constant cost per token that is cut. */
void lookup_truncate(lookup *l, int32_t n);
/* Replaces the prediction; n 0: none. Returns the tokens kept: what lies behind prediction_max is left out. */
int32_t lookup_set_prediction(lookup *l, const int32_t *tokens, int32_t n);
int32_t lookup_len(const lookup *l); /* of the timeline */

/* Up to DEPTH_MAX tokens that may follow the timeline; bounded cost, whatever the length of the texts.
 *
 * Lengths fall into classes from min_match << j on, up to LOOKUP_GRAM_MAX. The class is always that of the longest
 * match. Within it the longest match among the last LOOKUP_WALK places of each text is taken; among equally long ones
 * the prediction comes first, then the place nearest to the end of its text. Places are chained by hash: where grams
 * share a chain, each link counts, so that fewer places are seen. */
void lookup_propose(const lookup *l, lookup_match *out);

/* Outcome of a round: of m's proposals the first `verified` were verified, the first `accepted` of them were right.
 * Moves the estimates of their length classes, contested and uncontested ones apart, by a sixteenth towards each
 * outcome; they stay within 0.01 and 0.995, so that none is ever out of reach. */
void lookup_feedback(lookup *l, const lookup_match *m, int32_t verified, int32_t accepted);

/* Index entries written since lookup_new, by adding, cutting and clearing: cost without a clock. */
int64_t lookup_work(const lookup *l);
#endif
