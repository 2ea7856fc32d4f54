/* graphs/pace.h - one lane or all? Decided from the times of the last replays. Pure.
 *
 * The median of the last few times of each way is compared; the faster way is used. The way that is not used is tried
 * again after a while, and after longer and longer ones as long as it stays slower, so that trying costs little. A
 * trial is a few replays long, and its first one does not count: lanes that slept have to wake up first. */
#ifndef GRAPHS_PACE_H
#define GRAPHS_PACE_H
#include <stdbool.h>
#include <stdint.h>

enum { PACE_TIMES = 5, PACE_TRIAL = 4, PACE_GAP = 64, PACE_GAP_MAX = 4096 };

typedef struct pace {            /* zeroed is ready */
    int64_t time[2][PACE_TIMES]; /* ns, the last ones of all lanes [0] and of one [1] */
    int32_t n[2];                /* times taken, ever */
    int32_t since, gap;          /* replays since the last trial; how many to wait for the next */
    int32_t trial;               /* replays left of the running trial */
    bool alone;                  /* the faster way */
} pace;

bool pace_choose(pace *p); /* for the next replay: alone? */
void pace_measured(pace *p, bool alone, int64_t ns);
#endif
