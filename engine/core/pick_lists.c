#include "engine/core/pick_lists.h"

#include "engine/base/mem.h"

#include <stdlib.h>

void pick_lists_init(pick_lists *l, int32_t vocab) {
    size_t bytes = (size_t)vocab * sizeof(int32_t);
    *l = (pick_lists){ .count = xalloc(bytes), .seen = xalloc(bytes), .end = xalloc(bytes) };
}

void pick_lists_deinit(pick_lists *l) {
    free(l->count);
    free(l->seen);
    free(l->end);
    *l = (pick_lists){ 0 };
}

void pick_lists_clear(pick_lists *l) {
    for (int32_t i = 0; i < l->n_seen; i++) l->count[l->seen[i]] = 0;
    l->n_seen = l->n_bias = 0;
}

void pick_lists_count(pick_lists *l, const int32_t *tokens, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (l->count[tokens[i]]++ == 0) l->seen[l->n_seen++] = tokens[i];
}

void pick_lists_add_bias(pick_lists *l, int32_t token, float value) {
    CHECK(l->n_bias < PICK_BIAS_MAX);
    l->bias[l->n_bias++] = (pick_bias){ token, value };
}

void pick_lists_add_end(pick_lists *l, int32_t token) { l->end[l->n_end++] = token; }
