/* graphs/plan.h - a recorded step of the CPU backend: ops with their arguments, walked by all lanes.
 *
 * A barrier stands before an entry only when the entry touches memory that an entry since the last barrier wrote, or
 * writes memory that one of them touched. Replay allocates nothing and decides nothing. */
#ifndef GRAPHS_PLAN_H
#define GRAPHS_PLAN_H
#include "engine/base/buf.h"
#include "graphs/work.h"
#include "kernels/dispatch.h"

typedef struct plan plan;

plan *plan_new(void);
void plan_free(plan *p);
void plan_add(plan *p, op_id id, const void *args);                            /* args are copied */
void plan_replay(const plan *p, op_fn *const *table, pool *lanes, bool alone); /* alone: on the caller's lane only */

size_t plan_entries(const plan *p);
int64_t plan_weight_bytes(const plan *p); /* all weights that the entries name, every expert counted */
/* Argument bytes of all entries, for the purity test: two recordings must agree, padding
 * of the structs aside. Borrowed. */
str plan_args(const plan *p);

/* One line an entry: barrier mark, op, shapes, views by the names of `w` (may be NULL), weight bytes. */
void plan_dump(const plan *p, const work *w, buf *out);
#endif
