/* Tags begin with "<" and have no other one, so a byte that breaks a tag off can only begin the next: what is held back
 * of a tag is always its head, and no table of falls is needed. */
#include "engine/text/toolcall.h"

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/text/toolarg.h"
#include "engine/text/value.h"

#include <stdlib.h>

#define TAG_OPEN STR("<tool_call>")
#define TAG_CLOSE STR("</tool_call>")

typedef enum place {
    OUTSIDE,
    IN_NAME,
    NAMELESS,   /* no name: passed over up to the end */
    AFTER_NAME, /* behind the "<" that ends it: looking for "<arg_key>" */
    BETWEEN,    /* the name is told: looking for "<arg_key>" */
    IN_KEY,
    AFTER_KEY, /* looking for "<arg_value>", past white space only */
    IN_VALUE,
    PLACES
} place;

/* The tag that ends a place. */
static const str TAGS[PLACES] = { [AFTER_NAME] = STR("<arg_key>"),
                                  [BETWEEN] = STR("<arg_key>"),
                                  [IN_KEY] = STR("</arg_key>"),
                                  [AFTER_KEY] = STR("<arg_value>"),
                                  [IN_VALUE] = STR("</arg_value>") };

struct toolcall {
    const reply_tool *tools;
    size_t n_tools;
    place at;
    size_t matched; /* bytes of the place's tag */
    bool is_certain;
    const reply_tool *tool; /* NULL: none that was declared */
    buf name, key, value;   /* value: of those that are told when complete */
    bool streams;           /* the value is a text */
    bool doubled;           /* its key was there before */
    bool has_doubled;       /* that was logged */
    int n_arguments;        /* told */
    buf raw;                /* the open call's text from its tag on */
    arena *mem;             /* keys of the call */
    value_dict *keys;
    buf scratch;

    int64_t n_calls;     /* told */
    bool flows;          /* text that is not blank has left */
    bool skipped;        /* a call without a name waits; so does all behind it */
    buf held, held_text; /* what waits, with such calls and without */
};

toolcall *toolcall_new(const reply_tool *tools, size_t n) {
    toolcall *t = xalloc(sizeof *t);
    t->tools = tools, t->n_tools = n;
    return t;
}

void toolcall_free(toolcall *t) {
    if (!t) return;
    buf *all[] = { &t->name, &t->key, &t->value, &t->raw, &t->scratch, &t->held, &t->held_text };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) buf_free(all[i]);
    arena_free(t->mem);
    free(t);
}

bool toolcall_is_open(const toolcall *t) { return t->at != OUTSIDE; }
bool toolcall_is_certain(const toolcall *t) { return t->is_certain; }

/* ---- text outside ---- */

static bool is_blank(str s) { return !toolarg_strip(s).n; }

static void let_flow(toolcall *t, buf *from, parts *out) {
    parts_put(out, GEN_TEXT, buf_view(from));
    t->flows = true;
    buf_clear(&t->held);
    buf_clear(&t->held_text);
}

void toolcall_content(toolcall *t, str text, parts *out) {
    if (t->flows && !t->skipped) {
        parts_put(out, GEN_TEXT, text);
        return;
    }
    buf_str(&t->held, text);
    buf_str(&t->held_text, text);
    if (!t->skipped && !is_blank(text)) let_flow(t, &t->held_text, out);
}

/* A call is certain: of what waits only text that is not blank stays. The rest goes in front of the call's own text, in
 * case the call turns out to be none after all. */
static void settle_held(toolcall *t, parts *out) {
    if (!is_blank(buf_view(&t->held_text))) {
        let_flow(t, &t->held_text, out);
    } else if (t->held.len) {
        buf_str(&t->held, buf_view(&t->raw));
        buf old = t->raw;
        t->raw = t->held;
        t->held = old;
        buf_clear(&t->held);
        buf_clear(&t->held_text);
    }
    t->skipped = false;
}

/* ---- the call and its arguments ---- */

static void leave_call(toolcall *t) {
    t->at = OUTSIDE;
    t->matched = 0;
    t->is_certain = false;
    t->tool = NULL;
    t->n_arguments = 0;
    t->keys = NULL;
    arena_free(t->mem);
    t->mem = NULL;
    buf *all[] = { &t->name, &t->key, &t->value, &t->raw };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) buf_clear(all[i]);
}

void toolcall_open(toolcall *t) {
    t->at = IN_NAME;
    buf_str(&t->raw, TAG_OPEN);
}

static str name_of(const toolcall *t) { return toolarg_strip(buf_view(&t->name)); }

static void tell_name(toolcall *t, parts *out) {
    str name = name_of(t);
    settle_held(t, out);
    parts_put(out, GEN_CALL, name);
    t->is_certain = true;
    t->n_calls++;
    t->mem = arena_new();
    t->keys = value_dict_new(t->mem, 0);
    for (size_t i = 0; i < t->n_tools && !t->tool; i++)
        if (str_eq(t->tools[i].name, name)) t->tool = &t->tools[i];
    if (!t->tool) log_info("tools", "the answer calls a tool that was not declared");
}

static int compare_text(const void *key, const void *item) { return str_order(*(const str *)key, *(const str *)item); }

static bool is_text(const toolcall *t, str key) {
    return t->tool && t->tool->n_texts &&
           bsearch(&key, t->tool->texts, t->tool->n_texts, sizeof key, compare_text) != NULL;
}

/* Brace or comma, and the key. */
static void tell_key(toolcall *t, str key, parts *out) {
    buf_clear(&t->scratch);
    buf_str(&t->scratch, t->n_arguments++ ? STR(", ") : STR("{"));
    buf_json_str(&t->scratch, key);
    buf_str(&t->scratch, STR(": "));
    parts_put(out, GEN_ARGUMENTS, buf_view(&t->scratch));
}

static void begin_value(toolcall *t, parts *out) {
    str key = toolarg_strip(buf_view(&t->key));
    t->doubled = value_dict_find_str(t->keys, key) != NULL;
    if (t->doubled) {
        if (!t->has_doubled) log_info("tools", "an argument of a call comes twice; the first one counts");
        t->has_doubled = true;
        return;
    }
    value_dict_set(t->mem, t->keys, value_str(arena_str(t->mem, key)), value_none());
    t->streams = is_text(t, key);
    if (!t->streams) return;
    tell_key(t, key, out);
    parts_put(out, GEN_ARGUMENTS, STR("\""));
}

static void add_value(toolcall *t, str text, parts *out) {
    if (t->doubled || !text.n) return;
    if (!t->streams) {
        buf_str(&t->value, text);
        return;
    }
    buf_clear(&t->scratch);
    toolarg_escape(&t->scratch, text);
    parts_put(out, GEN_ARGUMENTS, buf_view(&t->scratch));
}

static void end_value(toolcall *t, parts *out) {
    if (t->streams) {
        parts_put(out, GEN_ARGUMENTS, STR("\""));
    } else if (!t->doubled) {
        tell_key(t, toolarg_strip(buf_view(&t->key)), out);
        buf_clear(&t->scratch);
        toolarg_put(&t->scratch, buf_view(&t->value));
        parts_put(out, GEN_ARGUMENTS, buf_view(&t->scratch));
    }
    t->streams = t->doubled = false;
    buf_clear(&t->key);
    buf_clear(&t->value);
}

static void end_arguments(toolcall *t, parts *out) {
    parts_put(out, GEN_ARGUMENTS, t->n_arguments ? STR("}") : STR("{}"));
}

/* ---- inside, byte by byte ---- */

static void move(toolcall *t, place to) {
    t->at = to;
    t->matched = 0;
}

/* Bytes of a place that belong to no tag. */
static void pass(toolcall *t, str text, parts *out) {
    switch (t->at) {
    case IN_KEY: buf_str(&t->key, text); break;
    case IN_VALUE: add_value(t, text, out); break;
    case AFTER_KEY:
        if (!is_blank(text)) move(t, BETWEEN); /* no value belongs to the key */
        break;
    default: break;
    }
}

static void end_tag(toolcall *t, parts *out) {
    switch (t->at) {
    case AFTER_NAME: tell_name(t, out); /* fall through */
    case BETWEEN:
        buf_clear(&t->key);
        move(t, IN_KEY);
        break;
    case IN_KEY: move(t, AFTER_KEY); break;
    case AFTER_KEY:
        move(t, IN_VALUE);
        begin_value(t, out);
        break;
    case IN_VALUE:
        end_value(t, out);
        move(t, BETWEEN);
        break;
    default: break;
    }
}

/* A byte of the name, or the one behind it. */
static void read_name(toolcall *t, char c, parts *out) {
    if (c != '\n' && c != '<') {
        buf_byte(&t->name, c);
    } else if (!name_of(t).n) {
        move(t, NAMELESS);
    } else if (c == '<') {
        move(t, AFTER_NAME);
        t->matched = 1;
    } else {
        tell_name(t, out);
        move(t, BETWEEN);
    }
}

/* Takes at least one byte of text, which is not empty; returns how many. */
static size_t read_tagged(toolcall *t, str text, parts *out) {
    if (!t->matched) {
        const char *less = memchr(text.p, '<', text.n);
        size_t plain = less ? (size_t)(less - text.p) : text.n;
        if (plain) pass(t, (str){ text.p, plain }, out);
        if (less && !plain) t->matched = 1;
        return plain ? plain : 1;
    }
    str tag = TAGS[t->at];
    if (text.p[0] == tag.p[t->matched]) {
        if (++t->matched == tag.n) end_tag(t, out);
        return 1;
    }
    str head = { tag.p, t->matched };
    bool is_key = t->at == AFTER_KEY && str_starts(TAGS[BETWEEN], head); /* perhaps the next key instead of a value */
    t->matched = 0;
    pass(t, head, out); /* from here on the place may be another one */
    if (is_key) t->matched = head.n;
    return 0;
}

/* How much of text was read; a byte while the call is not certain, whose length is limited. */
static size_t step(toolcall *t, str text, parts *out) {
    switch (t->at) {
    case IN_NAME: read_name(t, text.p[0], out); return 1;
    case NAMELESS: return 1;
    case AFTER_NAME: return read_tagged(t, (str){ text.p, 1 }, out);
    default: return read_tagged(t, text, out);
    }
}

bool toolcall_text(toolcall *t, str text, parts *out, buf *back) {
    while (text.n) {
        size_t n = step(t, text, out);
        buf_put(&t->raw, text.p, n);
        text = str_from(text, n);
        if (t->is_certain || t->raw.len <= TOOL_UNKNOWN_MAX) continue;
        toolcall_give_up(t, back);
        buf_str(back, text);
        return false;
    }
    return true;
}

void toolcall_give_up(toolcall *t, buf *back) {
    buf_str(back, buf_view(&t->raw));
    leave_call(t);
}

/* ---- ends ---- */

/* Without a name. Nothing at all is said by "<tool_call></tool_call>". */
static void skip_call(toolcall *t) {
    bool is_empty = is_blank(str_from(buf_view(&t->raw), TAG_OPEN.n));
    if (!is_empty && !t->n_calls) {
        buf_str(&t->raw, TAG_CLOSE);
        buf_str(&t->held, buf_view(&t->raw));
        t->skipped = true;
    }
    leave_call(t);
}

bool toolcall_close(toolcall *t, parts *out) {
    if (!t->is_certain && (t->at == NAMELESS || !name_of(t).n)) {
        skip_call(t);
        return false;
    }
    if (!t->is_certain) tell_name(t, out);
    if (t->at == IN_VALUE) {
        add_value(t, (str){ TAGS[IN_VALUE].p, t->matched }, out);
        end_value(t, out);
    }
    end_arguments(t, out);
    parts_end_call(out, true, STR(""));
    leave_call(t);
    return true;
}

/* Closes what is open so that the arguments are an object; a value that is not a text is left out. */
static void break_off(toolcall *t, bool cut, parts *out) {
    if (t->at == IN_VALUE && t->streams) parts_put(out, GEN_ARGUMENTS, STR("\""));
    end_arguments(t, out);
    parts_end_call(out, false, cut ? STR("") : buf_view(&t->raw));
}

void toolcall_finish(toolcall *t, bool cut, parts *out) {
    if (t->is_certain) break_off(t, cut, out);
    if (t->at != OUTSIDE && !t->is_certain && !cut) {
        buf text = t->raw;
        t->raw = (buf){ 0 };
        leave_call(t);
        toolcall_content(t, buf_view(&text), out);
        buf_free(&text);
    }
    leave_call(t);
    if (!t->n_calls && t->held.len) let_flow(t, &t->held, out);
}
