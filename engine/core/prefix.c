#include "engine/core/prefix.h"

#include "engine/base/num.h"

static int32_t common_prefix(const prefix_line *l, const int32_t *token, int32_t n) {
    int32_t most = min_i32(l->n, n), i = 0;
    while (i < most && l->token[i] == token[i]) i++;
    return i;
}

/* Where line l can start for a prompt that shares `common` tokens with it; mark: what has to be restored. */
static int32_t start_of(const prefix_line *l, int32_t common, int32_t *mark) {
    int32_t best = 0;
    *mark = -1;
    if (l->live_low <= common) return common;
    for (int32_t i = 0; i < l->n_marks; i++) {
        int32_t start = min_i32(l->mark[i].pos, common);
        if (l->mark[i].low > common || start <= best) continue;
        best = start, *mark = i;
    }
    return best;
}

prefix_choice prefix_choose(const prefix_line *line, int32_t lines, const int32_t *token, int32_t n) {
    prefix_choice best = { .line = -1, .mark = -1 };
    int32_t best_common = 0;
    bool best_live = false;
    for (int32_t i = 0; i < lines; i++) {
        int32_t mark, common = min_i32(common_prefix(&line[i], token, n), n - 1),
                      start = start_of(&line[i], common, &mark);
        bool live = line[i].live_low <= line[i].n;
        if (common > best.common) best.common = common;
        if (start == 0 || start < best.start) continue;
        if (start == best.start && (best_live || (!live && common <= best_common))) continue;
        best.line = i, best.mark = mark, best.start = start;
        best_common = common, best_live = live;
    }
    return best;
}
