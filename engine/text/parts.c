#include "engine/text/parts.h"

#include "engine/base/mem.h"

#include <stdlib.h>

static void add(parts *p, part one) {
    if (p->n == p->cap) {
        p->cap = 2 * p->cap + 8;
        p->list = xrealloc(p->list, p->cap * sizeof *p->list);
    }
    one.at = p->bytes.len;
    p->list[p->n++] = one;
}

void parts_put(parts *p, gen_event_kind kind, str text) {
    bool joins = kind != GEN_CALL;
    if (joins && !text.n) return;
    if (!joins || !p->n || p->list[p->n - 1].kind != kind) add(p, (part){ .kind = kind });
    buf_str(&p->bytes, text);
}

void parts_end_call(parts *p, bool complete, str text) {
    add(p, (part){ .kind = GEN_CALL_END, .complete = complete });
    buf_str(&p->bytes, text);
}

str parts_text(const parts *p, size_t i) {
    size_t end = i + 1 < p->n ? p->list[i + 1].at : p->bytes.len;
    return (str){ buf_view(&p->bytes).p + p->list[i].at, end - p->list[i].at };
}

void parts_clear(parts *p) {
    p->n = 0;
    buf_clear(&p->bytes);
}

void parts_free(parts *p) {
    free(p->list);
    buf_free(&p->bytes);
    *p = (parts){ 0 };
}
