/* engine/core/timelines_disk.h - remembered conversations survive the end of the process: one file each, in a folder.
 *
 * A file (cache_file.h) holds a timeline up to its last checkpoint, since nothing behind that can be taken up again.
 * Its body is, in this order:
 *   - for each KV_PAGE positions, for each global layer: kv_image of these rows (fewer in the last page);
 *   - for each checkpoint: kv_image of positions target_from .. pos - 1 of each sliding layer, then of context_from ..
 *     pos - 1 of each layer of the draft.
 * Damaged, foreign and unfit files cost their own conversation, with one warning each, and nothing else. One process
 * at a time should use a folder for one pair: the last one to save decides what is there.
 *
 * Both run on the thread that owns the timelines, outside of requests. */
#ifndef ENGINE_CORE_TIMELINES_DISK_H
#define ENGINE_CORE_TIMELINES_DISK_H
#include "engine/core/timelines.h"

/* Fills empty timelines from the folder, most valuable first, as far as pages and checkpoints reach; the order of use
 * is kept. A folder that is missing is created. ERR_IO: there is no such folder, or nothing can be written there (what
 * could be read is restored all the same). */
status timelines_load(timelines *tl, const char *dir, uint64_t fingerprint, err *e);
/* Writes every timeline that is worth it, then removes files of this fingerprint that are no longer remembered. Does
 * nothing when no request came since timelines_load. ERR_IO: not all were written; the files of before are still there.
 */
status timelines_save(const timelines *tl, const char *dir, uint64_t fingerprint, err *e);
#endif
