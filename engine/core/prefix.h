/* engine/core/prefix.h - which remembered conversation a prompt continues, and from where. Pure: integers in, a
 * decision out. */
#ifndef ENGINE_CORE_PREFIX_H
#define ENGINE_CORE_PREFIX_H
#include <stdbool.h>
#include <stdint.h>

/* State from which decoding can start at any position low .. pos. */
typedef struct prefix_mark {
    int32_t low, pos;
} prefix_mark;

typedef struct prefix_line {
    const int32_t *token;
    int32_t n;               /* tokens that have keys and values */
    const prefix_mark *mark; /* its checkpoints */
    int32_t n_marks;
    int32_t live_low; /* the live rings are this line's and can start at live_low .. n; above n: they are not */
} prefix_line;

typedef struct prefix_choice {
    int32_t line;   /* -1: nothing can be reused */
    int32_t mark;   /* -1: the live rings */
    int32_t start;  /* positions that need not be computed again */
    int32_t common; /* longest prefix that any line shares with the prompt, at most n - 1 */
} prefix_choice;

/* The largest start below n wins (one row must run to give logits); equal ones: the live line, then the one with the
 * longest common prefix, then the first. */
prefix_choice prefix_choose(const prefix_line *line, int32_t lines, const int32_t *token, int32_t n);

/* What keeping something is worth: tokens that it saves, less the longer nobody used it. age: requests since. */
static inline double prefix_value(int32_t saves, int64_t age) { return (double)saves / (double)(1 + age); }
#endif
