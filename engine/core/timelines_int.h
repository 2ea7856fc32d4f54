/* engine/core/timelines_int.h - what the files of timelines share: live ones (timelines.c) and their files
 * (timelines_disk.c). */
#ifndef ENGINE_CORE_TIMELINES_INT_H
#define ENGINE_CORE_TIMELINES_INT_H
#include "engine/core/timelines.h"

/* Rings at one position of a timeline. Shared by timelines that grew from there. */
typedef struct checkpoint {
    prefix_mark at;
    int32_t refs;                      /* timelines that hold it; 0: free */
    int32_t saves;                     /* tokens more than from the checkpoint before it */
    int64_t used;                      /* request that last took or restored it */
    int32_t target_from, context_from; /* oldest positions in the images */
    char *image;
} checkpoint;

typedef struct line {
    bool taken;
    int32_t *token, n;      /* room for a whole page table */
    int32_t *page, n_pages; /* [table] */
    int32_t *mark, n_marks; /* checkpoints by number, by rising position */
    int64_t used;           /* request that last continued it */
} line;

struct timelines {
    target *t;
    const draft *d;
    steps *s;
    line line[TIMELINES_MAX];
    int32_t live;         /* whose rings and page table these are; -1: nobody's */
    int32_t pinned;       /* not to be evicted either; -1: none */
    int32_t held;         /* checkpoint that is about to be restored: it is not to be taken. -1: none */
    bool forget;          /* the live one is not to be remembered */
    int32_t high;         /* indices below have been written into the rings */
    int32_t target_from;  /* positions below are not in the target's rings (or were overwritten) */
    int32_t context_from; /* likewise the draft's */
    int32_t context_len;  /* steps_ctx_len before the running step */
    int32_t ring_slots;   /* of the target's rings */
    int32_t parted;       /* where the prompt leaves what was known; a checkpoint belongs there. -1: none */
    int32_t *page_refs, *page_free, n_free;
    checkpoint *mark;
    int32_t marks;
    void *images;
    size_t image_bytes;
    int64_t now; /* requests so far */
    timelines_stats stats;
};

static inline int32_t target_window(const timelines *tl) { return tl->t->cfg.window; }
static inline int32_t draft_window(const timelines *tl) { return tl->d ? tl->d->cfg.window : 0; }

/* First position where rings that hold rows from these positions on can start. */
int32_t timelines_low_(const timelines *tl, int32_t target_from, int32_t context_from);
double timelines_value_(const timelines *tl, const line *l); /* what keeping it is worth */

/* A line with these tokens and nothing else, in a free place or that of the line that is worth least. */
int32_t timelines_add_line_(timelines *tl, const int32_t *token, int32_t n);
void timelines_drop_line_(timelines *tl, int32_t at);
int32_t timelines_take_page_(timelines *tl); /* a free page, if need be from the line that is worth least */
#endif
