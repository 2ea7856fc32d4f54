/* One byte (or token) from one position: a case for each kind of node.
 *
 * A node that is done by its last byte leaves its position at once; one that may go on (a number) stays, and the next
 * byte tries both. A node below others was moved on before those began, so leaving it is going on with it. */
#include "engine/text/grammar_run_int.h"

enum { SPACE_ONE = 1, SPACE_LINE = 2, SPACE_TAB = SPACE_LINE + GRAMMAR_INDENT }; /* plus so many spaces, tabs */
/* ARRAY (val: items so far), OBJECT and ARGS (val: number of the next property, above it the one whose colon is due) */
enum { IN_FRONT, IN_FIRST, IN_NEXT, IN_COLON, IN_AFTER, IN_CLOSE };
enum {
    NUMBER_FRONT,
    NUMBER_MINUS,
    NUMBER_ZERO,
    NUMBER_INT,
    NUMBER_POINT,
    NUMBER_PART,
    NUMBER_E,
    NUMBER_SIGN,
    NUMBER_EXP
};
enum { NUMBER_DIGITS_MAX = 18, NUMBER_EXP_MAX = 2 };
enum { KEY_REST = INT32_MAX }; /* instead of the number of a property: another one */

/* One step: what it takes, and where its results go. */
typedef struct step {
    grammar_run *r;
    uint32_t symbol;
    step_out *out;
} step;

static void emit(step *s, uint32_t at) {
    step_out *o = s->out;
    for (uint32_t i = 0; i < o->n; i++)
        if (o->cells[i] == at) return;
    if (o->n < GRAMMAR_SET_MAX) o->cells[o->n++] = at;
}

static void emit_frame(step *s, uint32_t below, frame f) { emit(s, run_push(s->r, below, f)); }

static void go_on(step *s, uint32_t at) { run_step_cell(s->r, at, s->symbol, s->out); }

static const node *node_at(const grammar_run *r, uint32_t at) { return &r->g->nodes[r->cells[at].top.node]; }

/* May a node begin on top of this position, with all that it needs? */
static bool has_room(const grammar_run *r, uint32_t at, int32_t id) {
    return (int32_t)r->cells[at].depth + r->g->nodes[id].height <= GRAMMAR_DEPTH;
}

static void enter(step *s, uint32_t below, int32_t id) {
    if (has_room(s->r, below, id)) go_on(s, run_push(s->r, below, (frame){ .node = (uint32_t)id }));
}

static uint32_t push_space(grammar_run *r, uint32_t below) {
    return run_push(r, below, (frame){ .node = NODE_ID_SPACE });
}

static void emit_spaced(step *s, uint32_t below, frame f) { emit(s, push_space(s->r, run_push(s->r, below, f))); }

static uint32_t space_next(uint32_t aux, uint32_t c) {
    if (!aux) return c == ' ' ? SPACE_ONE : c == '\n' ? SPACE_LINE : 0;
    if (aux == SPACE_ONE || (c != ' ' && c != '\t')) return 0;
    if (c == ' ') return aux < SPACE_LINE + GRAMMAR_INDENT ? aux + 1 : 0;
    if (aux == SPACE_LINE) return SPACE_TAB + 1;
    return aux > SPACE_TAB && aux < SPACE_TAB + GRAMMAR_TABS ? aux + 1 : 0;
}

static void step_space(step *s, frame f, uint32_t below) {
    f.aux = space_next(f.aux, s->symbol);
    if (f.aux)
        emit_frame(s, below, f);
    else
        go_on(s, below);
}

int32_t run_next_word(const word_list *l, int32_t at, uint32_t n, uint32_t c) {
    for (int32_t i = at; i < l->n && (i == at || l->items[i].lcp >= n); i++)
        if (l->items[i].text.n > n && (uint8_t)l->items[i].text.p[n] == c) return i;
    return -1;
}

static bool word_is_whole(const word_list *l, int32_t at, uint32_t n) { return at < l->n && l->items[at].text.n == n; }

/* Does a longer word begin with the whole word? */
static bool word_goes_on(const word_list *l, int32_t at) {
    return at + 1 < l->n && l->items[at + 1].lcp == l->items[at].text.n;
}

static void step_words(step *s, const node *n, frame f, uint32_t below) {
    const word_list *l = &n->words.list;
    uint32_t done = (uint32_t)f.val;
    if (word_is_whole(l, (int32_t)f.aux, done)) {
        if (n->words.next)
            enter(s, below, n->words.next[l->items[f.aux].value]);
        else
            go_on(s, below);
    }
    int32_t at = run_next_word(l, (int32_t)f.aux, done, s->symbol);
    if (at < 0) return;
    f.aux = (uint32_t)at;
    f.val = done + 1;
    if (!n->words.next && word_is_whole(l, at, done + 1) && !word_goes_on(l, at))
        emit(s, below);
    else
        emit_frame(s, below, f);
}

static void step_string(step *s, const node *n, frame f, uint32_t below) {
    bool raw = n->body == BODY_RAW;
    body b = string_body(&f);
    if ((f.aux & 255) == STRING_FRONT && !raw) {
        if (s->symbol == '"') emit_frame(s, below, (frame){ f.node, string_aux((body){ 0, 0 }), 0 });
        return;
    }
    int64_t most = n->string.max < GRAMMAR_COUNT_MAX ? n->string.max : n->string.min;
    if (raw && b.at == BODY_PLAIN && (int64_t)f.val >= n->string.min) go_on(s, below);
    if (s->symbol > 255) return;
    switch (body_step(&b, (body_mode)n->body, (uint8_t)s->symbol)) {
    case BODY_DEAD: return;
    case BODY_CLOSE:
        if ((int64_t)f.val >= n->string.min) emit(s, below);
        return;
    case BODY_BEGUN:
        if (n->string.max < GRAMMAR_COUNT_MAX && (int64_t)f.val == n->string.max) return;
        if ((int64_t)f.val < most) f.val++;
        break;
    case BODY_ON: break;
    }
    emit_frame(s, below, (frame){ f.node, string_aux(b), f.val });
}

/* aux: 0 in front of the quote, then a state of the pattern. */
static void step_pattern(step *s, const node *n, frame f, uint32_t below) {
    bool raw = n->body == BODY_RAW;
    uint32_t at = f.aux ? f.aux : pattern_start(n->pattern);
    if (!f.aux && !raw) {
        if (s->symbol == '"') emit_frame(s, below, (frame){ f.node, at, 0 });
        return;
    }
    bool whole = pattern_accepts(n->pattern, at);
    if (raw && whole) go_on(s, below);
    if (s->symbol > 255) return;
    uint32_t next = pattern_step(n->pattern, at, (uint8_t)s->symbol);
    if (next)
        emit_frame(s, below, (frame){ f.node, next, 0 });
    else if (!raw && whole && s->symbol == '"')
        emit(s, below);
}

static bool is_digit(uint32_t c) { return c >= '0' && c <= '9'; }

/* The phase behind the symbol; NUMBER_FRONT: it does not belong here. *n: digits of the phase so far. */
static uint32_t number_next(uint32_t phase, uint64_t *n, uint32_t c, bool integer) {
    bool part_may_follow = !integer && (phase == NUMBER_ZERO || phase == NUMBER_INT);
    if (part_may_follow && c == '.') return *n = 0, NUMBER_POINT;
    if ((part_may_follow || phase == NUMBER_PART) && (c == 'e' || c == 'E')) return *n = 0, NUMBER_E;
    switch (phase) {
    case NUMBER_FRONT:
        if (c == '-') return NUMBER_MINUS;
        __attribute__((fallthrough));
    case NUMBER_MINUS: *n = 1; return c == '0' ? NUMBER_ZERO : is_digit(c) ? NUMBER_INT : NUMBER_FRONT;
    case NUMBER_INT: return is_digit(c) && (*n)++ < NUMBER_DIGITS_MAX ? NUMBER_INT : NUMBER_FRONT;
    case NUMBER_POINT:
    case NUMBER_PART: return is_digit(c) && (*n)++ < NUMBER_DIGITS_MAX ? NUMBER_PART : NUMBER_FRONT;
    case NUMBER_E:
        if (c == '+' || c == '-') return NUMBER_SIGN;
        __attribute__((fallthrough));
    case NUMBER_SIGN:
    case NUMBER_EXP: return is_digit(c) && (*n)++ < NUMBER_EXP_MAX ? NUMBER_EXP : NUMBER_FRONT;
    default: return NUMBER_FRONT;
    }
}

static bool number_is_whole(uint32_t phase) {
    return phase == NUMBER_ZERO || phase == NUMBER_INT || phase == NUMBER_PART || phase == NUMBER_EXP;
}

static void step_number(step *s, const node *n, frame f, uint32_t below) {
    if (number_is_whole(f.aux)) go_on(s, below);
    f.aux = number_next(f.aux, &f.val, s->symbol, n->integer);
    if (f.aux) emit_frame(s, below, f);
}

/* RANGE: a number of NUMBER's phases without exponent. val: its digits as one number; aux: phase, sign, digits behind
 * the point. Only what can still become a number between the bounds goes on. */
typedef struct ranged {
    uint32_t phase, decimals;
    bool negative;
    uint64_t digits;
} ranged;

static ranged ranged_of(const frame *f) { return (ranged){ f->aux & 15, f->aux >> 8, f->aux >> 4 & 1, f->val }; }

static uint64_t tens(int32_t n) {
    uint64_t p = 1;
    while (n-- > 0) p *= 10;
    return p;
}

/* Bounds of the size of the number, for its sign. False: no number has it. */
static bool size_bounds(const node *n, bool negative, uint64_t *lo, uint64_t *hi) {
    int64_t from = negative ? -n->range.hi : n->range.lo, to = negative ? -n->range.lo : n->range.hi;
    if (from < negative) from = negative; /* no -0 */
    *lo = (uint64_t)from;
    *hi = (uint64_t)to;
    return from <= to;
}

static bool ranged_fits(const node *n, ranged a) {
    uint64_t lo, hi;
    if (!size_bounds(n, a.negative, &lo, &hi)) return false;
    if (a.phase == NUMBER_MINUS) return true;
    uint64_t unit = tens(n->range.decimals - (int32_t)a.decimals), from = a.digits * unit;
    if (from > hi) return false;
    for (uint64_t wide = unit; from <= hi; from *= 10, wide *= 10) { /* at most 10^19, as hi is at most 10^18 */
        if (from + wide - 1 >= lo) return true;
        if (a.phase != NUMBER_INT) return false;
    }
    return false;
}

static bool ranged_is_whole(const node *n, ranged a) {
    uint64_t lo, hi;
    if (!number_is_whole(a.phase) || !size_bounds(n, a.negative, &lo, &hi)) return false;
    uint64_t value = a.digits * tens(n->range.decimals - (int32_t)a.decimals);
    return value >= lo && value <= hi;
}

static void step_range(step *s, const node *n, frame f, uint32_t below) {
    ranged a = ranged_of(&f);
    if (ranged_is_whole(n, a)) go_on(s, below);
    uint64_t unused = 0;
    uint32_t c = s->symbol, phase = number_next(a.phase, &unused, c, n->range.decimals == 0);
    if (phase == NUMBER_FRONT || phase == NUMBER_E) return;
    a.phase = phase;
    a.negative |= c == '-';
    if (is_digit(c)) a.digits = a.digits * 10 + (c - '0');
    if (phase == NUMBER_PART && (int32_t)++a.decimals > n->range.decimals) return;
    if (ranged_fits(n, a))
        emit_frame(s, below, (frame){ f.node, a.phase | (uint32_t)a.negative << 4 | a.decimals << 8, a.digits });
}

/* The node of the next item; 0: there may be none. */
static int32_t item_at(const grammar_run *r, const node *n, uint32_t at, uint64_t count) {
    if ((int64_t)count >= n->array.max) return 0;
    int32_t id = (int64_t)count < n->array.n_prefix ? n->array.prefix[count] : n->array.rest;
    return id && has_room(r, at, id) ? id : 0;
}

/* Items are counted as long as the count decides anything. */
static uint64_t count_item(const node *n, uint64_t count) {
    int64_t most = n->array.max < GRAMMAR_COUNT_MAX   ? n->array.max
                   : n->array.min > n->array.n_prefix ? n->array.min
                                                      : n->array.n_prefix;
    return (int64_t)count < most ? count + 1 : count;
}

static void step_array(step *s, const node *n, frame f, uint32_t below) {
    grammar_run *r = s->r;
    uint32_t c = s->symbol;
    if (f.aux == IN_FRONT) {
        if (c == '[') emit_spaced(s, below, (frame){ f.node, IN_FIRST, 0 });
        return;
    }
    bool may_end = (int64_t)f.val >= n->array.min;
    if (c == ']' && may_end) emit(s, below);
    if (f.aux == IN_CLOSE) return;
    uint32_t self = run_push(r, below, (frame){ f.node, IN_AFTER, count_item(n, f.val) });
    int32_t item = item_at(r, n, self, f.val);
    if (f.aux == IN_FIRST) {
        if (item && c != ']') enter(s, self, item);
        return;
    }
    if (c == ',' && item) emit(s, push_space(r, run_push(r, self, (frame){ .node = (uint32_t)item })));
    uint32_t space = space_next(0, c);
    if (space && may_end)
        emit_frame(s, run_push(r, below, (frame){ f.node, IN_CLOSE, f.val }), (frame){ NODE_ID_SPACE, space, 0 });
}

static uint32_t next_prop(const frame *f) { return (uint32_t)f->val; }

/* Of an object that has come to property `from`: may this one follow? */
static bool prop_may_follow(const grammar_run *r, uint32_t at, uint32_t from, int32_t prop) {
    const node_object *o = &node_at(r, at)->object;
    if (prop == KEY_REST) return o->rest && o->needed[from] == o->n && has_room(r, at, o->rest);
    return prop >= (int32_t)from && prop <= o->needed[from] && has_room(r, at, o->values[prop]);
}

static bool any_may_follow(const grammar_run *r, uint32_t at) {
    const node_object *o = &node_at(r, at)->object;
    uint32_t from = next_prop(&r->cells[at].top);
    for (int32_t i = (int32_t)from; i < o->n && i <= o->needed[from]; i++)
        if (prop_may_follow(r, at, from, i)) return true;
    return prop_may_follow(r, at, from, KEY_REST);
}

/* Of the words that begin like word k does in n bytes. */
static bool any_word_may_follow(const grammar_run *r, uint32_t at, int32_t k, uint32_t n) {
    const word_list *l = &node_at(r, at)->object.keys;
    uint32_t from = next_prop(&r->cells[at].top);
    for (int32_t i = k; i < l->n && (i == k || l->items[i].lcp >= n); i++)
        if (prop_may_follow(r, at, from, l->items[i].value)) return true;
    return false;
}

/* The key is complete: the object below moves on, behind the key or (arguments) into the value. */
static void end_key(step *s, uint32_t object, int32_t prop) {
    grammar_run *r = s->r;
    const node *n = node_at(r, object);
    frame f = r->cells[object].top;
    uint32_t below = r->cells[object].below;
    if (!prop_may_follow(r, object, next_prop(&f), prop)) return;
    uint32_t next = prop == KEY_REST ? (uint32_t)n->object.n : (uint32_t)prop + 1;
    if (n->kind == NODE_OBJECT)
        emit_frame(s, below, (frame){ f.node, IN_COLON, (uint64_t)prop << 32 | next });
    else
        emit(s, run_push(r, run_push(r, below, (frame){ f.node, IN_AFTER, next }),
                         (frame){ .node = (uint32_t)n->object.values[prop] }));
}

/* aux: the first word that the key may be; val: bytes so far, and the body of a key that is none of them. */
static void step_key(step *s, frame f, uint32_t object) {
    const node *n = node_at(s->r, object);
    const word_list *l = &n->object.keys;
    uint32_t done = (uint32_t)f.val;
    bool is_word = f.aux != KEY_FREE;
    int32_t at = is_word ? run_next_word(l, (int32_t)f.aux, done, s->symbol) : -1;
    body b = key_body(&f);
    body_result free_key = BODY_DEAD;
    if (s->symbol < 256 && b.at != KEY_NO_BODY) free_key = body_step(&b, (body_mode)n->body, (uint8_t)s->symbol);
    if (s->symbol == '"' && at < 0) { /* in a word a quote has a backslash in front of it and is no end */
        if (is_word && word_is_whole(l, (int32_t)f.aux, done))
            end_key(s, object, l->items[f.aux].value);
        else if (free_key == BODY_CLOSE)
            end_key(s, object, KEY_REST);
        return;
    }
    bool is_free = free_key == BODY_ON || free_key == BODY_BEGUN;
    if (!is_free) b = (body){ KEY_NO_BODY, 0 };
    uint64_t body_bits = (uint64_t)b.at << 32 | (uint64_t)b.guard << 40;
    if (at >= 0 && (is_free || any_word_may_follow(s->r, object, at, done + 1))) {
        if (n->kind == NODE_ARGS && word_is_whole(l, at, done + 1))
            end_key(s, object, l->items[at].value);
        else
            emit_frame(s, object, (frame){ f.node, (uint32_t)at, (done + 1) | body_bits });
    } else if (is_free) {
        emit_frame(s, object, (frame){ f.node, KEY_FREE, body_bits });
    }
}

/* Behind the quote; the body says from the beginning whether the key may be another one than the words. */
static frame key_front(const grammar_run *r, uint32_t object) {
    bool is_free = prop_may_follow(r, object, next_prop(&r->cells[object].top), KEY_REST);
    return (frame){ .node = NODE_ID_KEY,
                    .aux = node_at(r, object)->object.keys.n ? 0 : KEY_FREE,
                    .val = is_free ? 0 : (uint64_t)KEY_NO_BODY << 32 };
}

static void step_object(step *s, const node *n, frame f, uint32_t below) {
    const node_object *o = &n->object;
    uint32_t c = s->symbol, from = next_prop(&f);
    if (f.aux == IN_FRONT) {
        if (c == '{') emit_spaced(s, below, (frame){ f.node, IN_FIRST, 0 });
        return;
    }
    if (f.aux == IN_COLON) {
        int32_t prop = (int32_t)(f.val >> 32);
        uint32_t self = run_push(s->r, below, (frame){ f.node, IN_AFTER, from });
        if (c == ':') emit_spaced(s, self, (frame){ .node = (uint32_t)(prop == KEY_REST ? o->rest : o->values[prop]) });
        return;
    }
    bool may_end = o->needed[from] == o->n && f.aux != IN_NEXT;
    if (c == '}' && may_end) emit(s, below);
    if (f.aux == IN_CLOSE) return;
    uint32_t self = run_push(s->r, below, f);
    if (f.aux != IN_AFTER) {
        if (c == '"' && any_may_follow(s->r, self)) emit_frame(s, self, key_front(s->r, self));
        return;
    }
    if (c == ',' && any_may_follow(s->r, self)) emit_spaced(s, below, (frame){ f.node, IN_NEXT, f.val });
    uint32_t space = space_next(0, c);
    if (space && may_end)
        emit_frame(s, run_push(s->r, below, (frame){ f.node, IN_CLOSE, f.val }), (frame){ NODE_ID_SPACE, space, 0 });
}

static bool args_may_end(const node *n, const frame *f) { return n->object.needed[next_prop(f)] == n->object.n; }

static void step_args(step *s, const node *n, frame f, uint32_t below) {
    if (args_may_end(n, &f)) go_on(s, below);
    uint32_t self = run_push(s->r, below, (frame){ f.node, IN_AFTER, f.val });
    frame key = { .node = NODE_ID_KEY, .val = (uint64_t)KEY_NO_BODY << 32 };
    if (n->object.keys.n) step_key(s, key, self);
}

static void step_text(step *s, const node *n, frame f, uint32_t below) {
    if ((uint8_t)n->text.p[f.val] != s->symbol) return;
    if (++f.val == n->text.n)
        emit(s, below);
    else
        emit_frame(s, below, f);
}

/* val: the next node of the sequence. */
static void step_seq(step *s, const node *n, frame f, uint32_t below) {
    uint64_t next = f.val + 1;
    if (next < (uint64_t)n->list.n) below = run_push(s->r, below, (frame){ f.node, 0, next });
    enter(s, below, n->list.nodes[f.val]);
}

/* aux: the node was there once. */
static void step_loop(step *s, const node *n, frame f, uint32_t below) {
    if (f.aux) go_on(s, below);
    enter(s, run_push(s->r, below, (frame){ f.node, 1, 0 }), n->list.nodes[f.aux ? 1 : 0]);
}

void run_step_cell(grammar_run *r, uint32_t at, uint32_t symbol, step_out *out) {
    if (!at) return;
    step s = { r, symbol, out };
    frame f = r->cells[at].top;
    uint32_t below = r->cells[at].below;
    const node *n = &r->g->nodes[f.node];
    switch (n->kind) {
    case NODE_SPACE: step_space(&s, f, below); return;
    case NODE_KEY: step_key(&s, f, below); return;
    case NODE_WORDS: step_words(&s, n, f, below); return;
    case NODE_STRING: step_string(&s, n, f, below); return;
    case NODE_PATTERN: step_pattern(&s, n, f, below); return;
    case NODE_NUMBER: step_number(&s, n, f, below); return;
    case NODE_RANGE: step_range(&s, n, f, below); return;
    case NODE_ARRAY: step_array(&s, n, f, below); return;
    case NODE_OBJECT: step_object(&s, n, f, below); return;
    case NODE_ARGS: step_args(&s, n, f, below); return;
    case NODE_UNION:
        for (int32_t i = 0; i < n->list.n; i++) enter(&s, below, n->list.nodes[i]);
        return;
    case NODE_SEQ: step_seq(&s, n, f, below); return;
    case NODE_LOOP: step_loop(&s, n, f, below); return;
    case NODE_TEXT: step_text(&s, n, f, below); return;
    case NODE_TOKEN:
        if (symbol == grammar_token(n->token)) emit(&s, below);
        return;
    default: return;
    }
}

/* Could the frame be done as it is? */
static bool is_done(const node *n, const frame *f) {
    switch (n->kind) {
    case NODE_SPACE: return true;
    case NODE_WORDS: return !n->words.next && word_is_whole(&n->words.list, (int32_t)f->aux, (uint32_t)f->val);
    case NODE_STRING: return n->body == BODY_RAW && string_body(f).at == BODY_PLAIN && (int64_t)f->val >= n->string.min;
    case NODE_PATTERN:
        return n->body == BODY_RAW && pattern_accepts(n->pattern, f->aux ? f->aux : pattern_start(n->pattern));
    case NODE_NUMBER: return number_is_whole(f->aux);
    case NODE_RANGE: return ranged_is_whole(n, ranged_of(f));
    case NODE_ARGS: return args_may_end(n, f);
    case NODE_LOOP: return f->aux;
    default: return false;
    }
}

bool run_cell_ends(const grammar_run *r, uint32_t at) {
    while (at && is_done(node_at(r, at), &r->cells[at].top)) at = r->cells[at].below;
    return !at;
}
