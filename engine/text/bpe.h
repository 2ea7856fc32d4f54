/* engine/text/bpe.h - byte-pair encoding of one piece: the pair of the lowest rank is merged, the leftmost on equal
 * rank, until no neighbours are in the merge list. Works on ids only; texts of tokens are the vocabulary's business.
 *
 * A bpe is constant once made and may be shared; a bpe_work is scratch for one thread at a time. */
#ifndef ENGINE_TEXT_BPE_H
#define ENGINE_TEXT_BPE_H
#include <stddef.h>
#include <stdint.h>
#include "engine/base/status.h"
#include "engine/base/str.h"
#include "engine/text/text.h"

typedef struct bpe bpe;

typedef struct bpe_merge {
    int32_t left, right, result; /* ids, not negative; the rank is the index in the list */
} bpe_merge;

/* byte_id: the token of every single byte. ERR_MODEL when a pair stands in the list twice: which rank counts would be a
 * guess. The lists are copied. */
status bpe_new(bpe **out, const int32_t byte_id[256], const bpe_merge *merges, size_t n, err *e);
void bpe_free(bpe *b); /* NULL is fine */

/* Zeroed: ready. */
typedef struct bpe_work {
    struct bpe_symbol *symbols; /* room for `cap` symbols, and twice as many heap entries */
    uint64_t *heap;
    size_t cap;
    uint64_t steps; /* work so far: look-ups, and moves in the heap */
} bpe_work;
void bpe_work_deinit(bpe_work *w);

/* Appends the ids of the piece, less than 2^31 bytes. O(n log n). */
void bpe_encode(const bpe *b, bpe_work *w, str piece, token_list *out);
#endif
