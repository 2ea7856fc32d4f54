/* From the tree of an expression to an automaton over bytes (Thompson's construction, from the end to the beginning).
 * A range of characters becomes a few rows of byte ranges, by splitting it where the number of bytes changes and where
 * the later bytes do not run through all their values. */
#include "engine/text/pattern_int.h"

#include "engine/base/buf.h"
#include "engine/base/utf8.h"

int32_t nfa_add(nfa *f, nfa_node n) {
    if (f->n == NFA_NODES_MAX) {
        f->full = true;
        return 0;
    }
    f->nodes[f->n] = n;
    return f->n++;
}

static int32_t add_split(nfa *f, int32_t a, int32_t b) {
    return nfa_add(f, (nfa_node){ .kind = NFA_SPLIT, .a = a, .b = b });
}

/* One more way: `way` may be -1 for none yet. */
static int32_t add_way(nfa *f, int32_t way, int32_t more) { return way < 0 ? more : add_split(f, way, more); }

static int32_t emit_bytes(nfa *f, const char *lo, const char *hi, size_t n, int32_t next) {
    for (size_t i = n; i-- > 0;)
        next = nfa_add(
            f,
            (nfa_node){
                .kind = NFA_BYTES, .lo = (uint8_t)lo[i], .hi = (uint8_t)hi[i], .within = i > 0, .a = next, .b = -1 });
    return next;
}

static int32_t emit_utf8(nfa *f, uint32_t lo, uint32_t hi, int32_t next, int32_t way) {
    static const uint32_t longest[] = { 0x7F, 0x7FF, 0xFFFF };
    if (lo > hi) return way;
    for (int i = 0; i < 3; i++)
        if (lo <= longest[i] && hi > longest[i]) {
            way = emit_utf8(f, lo, longest[i], next, way);
            return emit_utf8(f, longest[i] + 1, hi, next, way);
        }
    for (int i = 1; i < 4 && hi > 0x7F; i++) {
        uint32_t tail = ((uint32_t)1 << 6 * i) - 1;
        if ((lo & ~tail) == (hi & ~tail)) continue;
        if (lo & tail) {
            way = emit_utf8(f, lo, lo | tail, next, way);
            return emit_utf8(f, (lo | tail) + 1, hi, next, way);
        }
        if ((hi & tail) != tail) {
            way = emit_utf8(f, lo, (hi & ~tail) - 1, next, way);
            return emit_utf8(f, hi & ~tail, hi, next, way);
        }
    }
    char from[4], to[4];
    size_t n = utf8_encode(lo, from);
    utf8_encode(hi, to);
    return add_way(f, way, emit_bytes(f, from, to, n, next));
}

/* The spelling that buf_json_str gives to the character. */
static int32_t emit_escape(nfa *f, uint32_t cp, int32_t next, int32_t way) {
    buf spelled = { 0 };
    char c = (char)cp;
    buf_json_str(&spelled, (str){ &c, 1 });
    int32_t first = emit_bytes(f, spelled.data + 1, spelled.data + 1, spelled.len - 2, next);
    buf_free(&spelled);
    return add_way(f, way, first);
}

static int32_t emit_range(nfa *f, uint32_t lo, uint32_t hi, int32_t next, int32_t way) {
    static const code_range plain_json[] = {
        { ' ', ' ' + 1 }, { '"' + 1, '\\' - 1 }, { '\\' + 1, 0xD7FF }, { 0xE000, CODE_POINT_MAX }
    };
    static const code_range plain_raw[] = { { 0, 0xD7FF }, { 0xE000, CODE_POINT_MAX } };
    const code_range *plain = f->is_json ? plain_json : plain_raw;
    size_t n = f->is_json ? sizeof plain_json / sizeof *plain_json : sizeof plain_raw / sizeof *plain_raw;
    for (size_t i = 0; i < n; i++)
        way = emit_utf8(f, lo > plain[i].lo ? lo : plain[i].lo, hi < plain[i].hi ? hi : plain[i].hi, next, way);
    for (uint32_t cp = lo; f->is_json && cp <= hi && cp <= '\\'; cp++)
        if (cp < ' ' || cp == '"' || cp == '\\') way = emit_escape(f, cp, next, way);
    return way;
}

static int32_t emit_set(nfa *f, const code_set *s, int32_t next) {
    int32_t way = -1;
    for (int32_t i = 0; i < s->n && !f->full; i++) way = emit_range(f, s->ranges[i].lo, s->ranges[i].hi, next, way);
    if (way >= 0) return way;
    return nfa_add(f, (nfa_node){ .kind = NFA_BYTES, .lo = 1, .hi = 0, .a = next, .b = -1 }); /* nothing fits */
}

static int32_t emit_repeat(nfa *f, const regex *r, int32_t next) {
    int32_t at = next;
    if (r->max < 0) {
        at = add_split(f, next, -1);
        int32_t again = nfa_emit(f, r->child, at);
        if (!f->full) f->nodes[at].b = again;
    }
    for (int32_t i = r->min; i < r->max && !f->full; i++) at = add_split(f, next, nfa_emit(f, r->child, at));
    for (int32_t i = 0; i < r->min && !f->full; i++) at = nfa_emit(f, r->child, at);
    return at;
}

int32_t nfa_emit(nfa *f, const regex *r, int32_t next) {
    if (f->full || ++f->calls > NFA_CALLS_MAX) f->full = true;
    if (f->full) return 0;
    switch (r->kind) {
    case REGEX_SET: return emit_set(f, &r->set, next);
    case REGEX_ROW:
        for (const regex *c = r->child; c; c = c->sibling) next = nfa_emit(f, c, next);
        return next;
    case REGEX_REPEAT: return emit_repeat(f, r, next);
    case REGEX_CHOICE: break;
    }
    int32_t way = -1;
    for (const regex *c = r->child; c && !f->full; c = c->sibling) way = add_way(f, way, nfa_emit(f, c, next));
    return way;
}
