/* graphs/step.h - a named step: described once, recorded, replayed from then on. Owns its activations. On the host a
 * step is a plan that the lanes walk, on a device one captured graph. */
#ifndef GRAPHS_STEP_H
#define GRAPHS_STEP_H
#include "graphs/sink.h"

/* Puts the ops of the step on s; takes its activations from w, in the same order every time. */
typedef void step_describe(void *ctx, op_sink *s, work *w);

typedef struct step step;

/* Where a step runs. The parameter block that the ops use is `at`; the host's is `host`, the same one without a device.
 * With one, `host` lies in shared memory, and its `in` goes over and its `out` comes back with every replay. fast: the
 * device's fast products (kernels/device.h), which were opened before. */
typedef struct step_place {
    op_fn *const *table;
    pool *lanes;
    device *device; /* NULL: the host */
    step_params *at, *host;
    bool fast;
} step_place;

/* Measures, allocates activations, makes sure that there is working memory, records. Not while a step runs. */
status step_open(step **out, const char *name, step_describe *describe, void *ctx, const step_place *where, err *e);
void step_close(step *s);

/* Lanes walk the plan; returns when all is done. The lane count cannot change a bit of the result, so it may follow the
 * clock: see step_set_lanes. */
void step_replay(step *s);
/* The same in two: on a device the host may do other things in between, on the host all is done by step_start. */
void step_start(step *s);
void step_finish(step *s);
/* LANES_ALL (the default): every lane, always. LANES_BEST: one lane or all, whatever the last replays were faster with;
 * on a small machine that other programs use, a lane without a processor holds up all others at every barrier. With
 * more than four lanes it is LANES_ALL: trying would cost too much. */
typedef enum step_lanes { LANES_ALL, LANES_BEST } step_lanes;
void step_set_lanes(step *s, step_lanes mode);

void step_run_eager(step *s); /* the same ops one by one from a fresh description; for tests */

const char *step_name(const step *s);
const plan *step_plan(const step *s); /* NULL on a device */
/* On a device: milliseconds of `times` replays that follow each other without the host between them. */
status step_time(const step *s, int32_t times, double *ms, err *e);
int32_t step_launches(const step *s); /* kernels of a replay; 0 on the host */
const work *step_work(const step *s);

/* The closed lists of row capacities; the live count is data. The smallest one that holds n rows. */
enum { PREFILL_BUCKETS = 2, ROUND_BUCKETS = 3, CONTEXT_BUCKETS = 2 };
extern const int32_t prefill_bucket[PREFILL_BUCKETS], round_bucket[ROUND_BUCKETS], context_bucket[CONTEXT_BUCKETS];
int bucket_find(const int32_t *list, int n_list, int32_t rows); /* index; CHECKs that one fits */
#endif
