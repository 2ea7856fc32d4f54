/* Tokens to statements, and the face of the parser: tmpl_parse. Expressions are in tmpl_expr.c. */
#include "engine/text/tmpl_int.h"

#include "engine/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

status tmpl_fail_(const tmpl *t, int line, err *e, const char *fmt, ...) {
    char text[3072];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(e, ERR_TEMPLATE, "%s line %d: %s", t->name, line, text);
}

/* ---- small steps ---- */

status parser_enter_(parser *p) {
    if (p->nest == TMPL_NEST_MAX) return tmpl_fail_(p->t, p->at->line, p->e, "nested more than %d deep", TMPL_NEST_MAX);
    p->nest++;
    return OK;
}

bool parser_at_op_(const parser *p, const char *op) {
    return p->at->kind == TOKEN_OP && str_eq(p->at->text, str_of(op));
}

bool parser_at_name_(const parser *p, const char *name) {
    return p->at->kind == TOKEN_NAME && str_eq(p->at->text, str_of(name));
}

bool parser_skip_op_(parser *p, const char *op) {
    bool there = parser_at_op_(p, op);
    p->at += there;
    return there;
}

bool parser_skip_name_(parser *p, const char *name) {
    bool there = parser_at_name_(p, name);
    p->at += there;
    return there;
}

status parser_unexpected_(parser *p, const char *expected) {
    static const char *const quoted[] = { "", "'" };
    const char *q = quoted[p->at->kind != TOKEN_END];
    int shown = p->at->text.n > 40 ? 40 : (int)p->at->text.n;
    return tmpl_fail_(p->t, p->at->line, p->e, "expected %s, found %s%.*s%s", expected, q, shown, p->at->text.p, q);
}

status parser_expect_op_(parser *p, const char *op) {
    char quoted[8];
    if (parser_skip_op_(p, op)) return OK;
    snprintf(quoted, sizeof quoted, "'%s'", op);
    return parser_unexpected_(p, quoted);
}

static status expect_kind(parser *p, token_kind kind, const char *what) {
    if (p->at->kind != kind) return parser_unexpected_(p, what);
    p->at++;
    return OK;
}

static status expect_tag_end(parser *p) { return expect_kind(p, TOKEN_BLOCK_END, "'%}'"); }

status parser_take_name_(parser *p, str *name) {
    if (p->at->kind != TOKEN_NAME) return parser_unexpected_(p, "a name");
    *name = p->at++->text;
    return OK;
}

int32_t tmpl_find_symbol_(const tmpl *t, str name) {
    for (size_t i = 0; i < t->n_symbols; i++)
        if (str_eq(t->symbols[i].name, name)) return (int32_t)i;
    return -1;
}

int32_t parser_symbol_(parser *p, str name) {
    tmpl *t = p->t;
    int32_t known = tmpl_find_symbol_(t, name);
    if (known >= 0) return known;
    if (t->n_symbols == t->cap_symbols) {
        t->cap_symbols = t->cap_symbols ? t->cap_symbols * 2 : 64;
        tmpl_symbol *more = arena_alloc(t->mem, t->cap_symbols * sizeof *more);
        if (t->n_symbols) memcpy(more, t->symbols, t->n_symbols * sizeof *more);
        t->symbols = more;
    }
    t->symbols[t->n_symbols] = (tmpl_symbol){ name, function_find_(name) };
    return (int32_t)t->n_symbols++;
}

node *parser_node_(parser *p, node_kind kind, int line) {
    node *n = arena_alloc(p->t->mem, sizeof *n);
    n->kind = kind;
    n->line = line;
    return n;
}

void parser_push_(parser *p, node_list *l, node *n) {
    if (l->n == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 4;
        node **more = arena_alloc(p->t->mem, l->cap * sizeof *more);
        if (l->n) memcpy(more, l->items, l->n * sizeof *more);
        l->items = more;
    }
    l->items[l->n++] = n;
}

/* ---- statements ---- */

/* A body ends at a tag of one of these names, NULL-terminated; the name is consumed and its place in the list told. */
static status parse_body(parser *p, const char *tag, int line, const char *const *ends, node **out, int *end);

/* A body with one possible end, whose tag must hold nothing else. */
static status parse_body_to(parser *p, const char *tag, int line, const char *end, node **out) {
    const char *const ends[] = { end, NULL };
    int which;
    TRY(expect_tag_end(p));
    TRY(parse_body(p, tag, line, ends, out, &which));
    return expect_tag_end(p);
}

/* The same for a body that break and continue cannot leave, because its text is collected first. */
static status parse_closed_body_to(parser *p, const char *tag, int line, const char *end, node **out) {
    int loops = p->loops;
    p->loops = 0;
    TRY(parse_body_to(p, tag, line, end, out));
    p->loops = loops;
    return OK;
}

static status parse_if(parser *p, int line, node **out) {
    static const char *const ends[] = { "elif", "else", "endif", NULL };
    static const char *const last[] = { "endif", NULL };
    int end = 0;
    node **place = out; /* an elif is an if in the place of else */
    while (end == 0) {
        node *n = parser_node_(p, NODE_IF, p->at->line);
        *place = n;
        TRY(parser_tuple_(p, false, &n->choice.cond));
        TRY(expect_tag_end(p));
        TRY(parse_body(p, "if", line, ends, &n->choice.yes, &end));
        place = &n->choice.no;
    }
    if (end == 1) {
        TRY(expect_tag_end(p));
        TRY(parse_body(p, "if", line, last, place, &end));
    }
    return expect_tag_end(p);
}

static status parse_for(parser *p, int line, node **out) {
    static const char *const ends[] = { "else", "endfor", NULL };
    static const char *const last[] = { "endfor", NULL };
    int end;
    node *n = parser_node_(p, NODE_FOR, line);
    *out = n;
    TRY(parser_target_(p, false, &n->loop.target));
    if (!parser_skip_name_(p, "in")) return parser_unexpected_(p, "'in'");
    TRY(parser_tuple_(p, false, &n->loop.in));
    if (parser_skip_name_(p, "if")) TRY(parser_expression_(p, true, &n->loop.cond));
    if (parser_at_name_(p, "recursive")) return tmpl_fail_(p->t, line, p->e, "recursive loops are not supported");
    TRY(expect_tag_end(p));
    p->loops++;
    TRY(parse_body(p, "for", line, ends, &n->loop.body, &end));
    p->loops--;
    if (end == 0) {
        TRY(expect_tag_end(p));
        TRY(parse_body(p, "for", line, last, &n->loop.no, &end));
    }
    return expect_tag_end(p);
}

static status parse_set(parser *p, int line, node **out) {
    node *n = parser_node_(p, NODE_SET, line);
    *out = n;
    TRY(parser_target_(p, true, &n->set.target));
    if (parser_skip_op_(p, "=")) {
        TRY(parser_tuple_(p, true, &n->set.val));
        return expect_tag_end(p);
    }
    n->kind = NODE_SET_BLOCK;
    if (p->at->kind != TOKEN_BLOCK_END && !parser_at_op_(p, "|")) return parser_unexpected_(p, "'=' or '%}'");
    TRY(parser_filter_chain_(p, NULL, true, &n->set.val));
    return parse_closed_body_to(p, "set", line, "endset", &n->set.body);
}

static status parse_params(parser *p, macro *m) {
    node_list names = { 0 }, defaults = { 0 };
    TRY(parser_expect_op_(p, "("));
    while (!parser_at_op_(p, ")")) {
        node *name, *def = NULL;
        if (names.n) TRY(parser_expect_op_(p, ","));
        if (p->at->kind != TOKEN_NAME) return parser_unexpected_(p, "the name of a parameter");
        name = parser_node_(p, NODE_NAME, p->at->line);
        name->symbol = parser_symbol_(p, p->at++->text);
        if (parser_skip_op_(p, "="))
            TRY(parser_expression_(p, true, &def));
        else if (names.n && defaults.items[names.n - 1])
            return parser_unexpected_(p, "a default, as the parameter before has one");
        parser_push_(p, &names, name);
        parser_push_(p, &defaults, def);
    }
    p->at++;
    m->n_params = names.n;
    m->defaults = defaults.items;
    m->params = arena_alloc(p->t->mem, (names.n + 1) * sizeof *m->params);
    for (size_t i = 0; i < names.n; i++) m->params[i] = names.items[i]->symbol;
    return OK;
}

/* The body of a macro or call block, and which of the names that calls may bind it reads. */
static status parse_macro_body(parser *p, const char *tag, int line, const char *end, macro *m) {
    size_t uses[SYMBOLS_FIXED];
    memcpy(uses, p->uses, sizeof uses);
    TRY(parse_closed_body_to(p, tag, line, end, &m->body));
    m->takes_caller = p->uses[SYMBOL_CALLER] > uses[SYMBOL_CALLER];
    m->takes_varargs = p->uses[SYMBOL_VARARGS] > uses[SYMBOL_VARARGS];
    m->takes_kwargs = p->uses[SYMBOL_KWARGS] > uses[SYMBOL_KWARGS];
    return OK;
}

static status parse_macro(parser *p, int line, node **out) {
    node *n = parser_node_(p, NODE_MACRO, line);
    n->macro = arena_alloc(p->t->mem, sizeof *n->macro);
    *out = n;
    TRY(parser_take_name_(p, &n->macro->name));
    n->macro->symbol = parser_symbol_(p, n->macro->name);
    TRY(parse_params(p, n->macro));
    return parse_macro_body(p, "macro", line, "endmacro", n->macro);
}

static status parse_call_block(parser *p, int line, node **out) {
    node *n = parser_node_(p, NODE_CALL_BLOCK, line);
    macro *m = n->call_block.caller = arena_alloc(p->t->mem, sizeof *m);
    *out = n;
    m->name = STR("caller");
    if (parser_at_op_(p, "(")) TRY(parse_params(p, m));
    TRY(parser_expression_(p, true, &n->call_block.call));
    if (n->call_block.call->kind != NODE_CALL) return tmpl_fail_(p->t, line, p->e, "'call' needs a call of a macro");
    return parse_macro_body(p, "call", line, "endcall", m);
}

static status parse_filter_block(parser *p, int line, node **out) {
    node *n = parser_node_(p, NODE_FILTER_BLOCK, line);
    *out = n;
    TRY(parser_filter_chain_(p, NULL, false, &n->block.chain));
    return parse_closed_body_to(p, "filter", line, "endfilter", &n->block.body);
}

static status parse_with(parser *p, int line, node **out) {
    node *n = parser_node_(p, NODE_WITH, line), *item;
    *out = n;
    while (p->at->kind != TOKEN_BLOCK_END) {
        if (n->with.targets.n) TRY(parser_expect_op_(p, ","));
        TRY(parser_target_(p, false, &item));
        parser_push_(p, &n->with.targets, item);
        TRY(parser_expect_op_(p, "="));
        TRY(parser_expression_(p, true, &item));
        parser_push_(p, &n->with.vals, item);
    }
    return parse_body_to(p, "with", line, "endwith", &n->with.body);
}

static status parse_generation(parser *p, int line, node **out) {
    *out = parser_node_(p, NODE_SCOPE, line);
    return parse_closed_body_to(p, "generation", line, "endgeneration", &(*out)->block.body);
}

static status parse_block(parser *p, int line, node **out) {
    str name = { 0 };
    *out = parser_node_(p, NODE_SCOPE, line);
    TRY(parser_take_name_(p, &name));
    parser_skip_name_(p, "scoped");
    parser_skip_name_(p, "required");
    int loops = p->loops;
    p->loops = 0;
    TRY(expect_tag_end(p));
    int which;
    TRY(parse_body(p, "block", line, (const char *const[]){ "endblock", NULL }, &(*out)->block.body, &which));
    p->loops = loops;
    if (p->at->kind == TOKEN_NAME && str_eq(p->at->text, name)) p->at++; /* {% endblock name %} */
    return expect_tag_end(p);
}

static status parse_print(parser *p, int line, node **out) {
    *out = parser_node_(p, NODE_PRINT, line);
    TRY(parser_tuple_(p, true, &(*out)->pair.a));
    return expect_tag_end(p);
}

static status parse_jump(parser *p, int line, node **out, node_kind kind, const char *tag) {
    *out = parser_node_(p, kind, line);
    if (!p->loops) return tmpl_fail_(p->t, line, p->e, "'%s' outside of a loop", tag);
    return expect_tag_end(p);
}

static status parse_break(parser *p, int line, node **out) { return parse_jump(p, line, out, NODE_BREAK, "break"); }

static status parse_continue(parser *p, int line, node **out) {
    return parse_jump(p, line, out, NODE_CONTINUE, "continue");
}

/* Behind "{%". */
static status parse_statement(parser *p, node **out) {
    static const struct {
        const char *tag;
        status (*parse)(parser *p, int line, node **out);
    } tags[] = {
        { "if", parse_if },           { "for", parse_for },
        { "set", parse_set },         { "macro", parse_macro },
        { "call", parse_call_block }, { "filter", parse_filter_block },
        { "with", parse_with },       { "generation", parse_generation },
        { "block", parse_block },     { "print", parse_print },
        { "break", parse_break },     { "continue", parse_continue },
    };
    int line = p->at->line;
    str tag;
    if (p->at->kind != TOKEN_NAME) return parser_unexpected_(p, "the name of a tag");
    tag = p->at++->text;
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (str_eq(tag, str_of(tags[i].tag))) return tags[i].parse(p, line, out);
    return tmpl_fail_(p->t, line, p->e, "unknown tag '%.*s'", STR_ARG(tag));
}

static int find_end(const parser *p, const char *const *ends) {
    for (int i = 0; ends && ends[i]; i++)
        if (parser_at_name_(p, ends[i])) return i;
    return -1;
}

static status parse_output(parser *p, node **out) {
    int line = p->at->line;
    if (p->at->kind == TOKEN_DATA) {
        *out = parser_node_(p, NODE_TEXT, line);
        (*out)->text = p->at++->text;
        return OK;
    }
    *out = parser_node_(p, NODE_PRINT, line);
    p->at++;
    TRY(parser_tuple_(p, true, &(*out)->pair.a));
    return expect_kind(p, TOKEN_PRINT_END, "'}}'");
}

static status parse_body(parser *p, const char *tag, int line, const char *const *ends, node **out, int *end) {
    TRY(parser_enter_(p));
    *out = NULL;
    while (p->at->kind != TOKEN_END) {
        if (p->at->kind != TOKEN_BLOCK_BEGIN) {
            TRY(parse_output(p, out));
        } else {
            p->at++;
            *end = find_end(p, ends);
            if (*end >= 0) {
                p->at++;
                p->nest--;
                return OK;
            }
            TRY(parse_statement(p, out));
        }
        out = &(*out)->next;
    }
    p->nest--;
    if (!ends) return OK;
    return tmpl_fail_(p->t, line, p->e, "'%s' without its end tag", tag);
}

status tmpl_parse(tmpl **out, str source, const char *name, err *e) {
    tmpl *t = xalloc(sizeof *t);
    t->mem = arena_new();
    t->name = arena_str(t->mem, str_of(name)).p;
    token *tokens;
    int end;
    status s = tmpl_lex_(t, source, &tokens, e);
    if (s == OK) {
        parser p = { .t = t, .at = tokens, .e = e };
        static const char *const fixed[SYMBOLS_FIXED] = { "loop", "caller", "varargs", "kwargs" };
        for (int i = 0; i < SYMBOLS_FIXED; i++) CHECK(parser_symbol_(&p, str_of(fixed[i])) == i);
        s = parse_body(&p, "", 1, NULL, &t->body, &end);
    }
    if (s != OK) {
        tmpl_free(t);
        return s;
    }
    *out = t;
    return OK;
}

void tmpl_free(tmpl *t) {
    if (!t) return;
    arena_free(t->mem);
    free(t);
}
