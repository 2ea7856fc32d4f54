/* Tokens to expressions: recursive descent, one function for a level of precedence, loosest first.
 *
 * The order is Jinja's, not Python's: "~" binds tighter than "+", filters and tests bind tighter than every operator
 * but the sign, and a sign covers the primary behind it before the filters apply. */
#include "engine/text/tmpl_int.h"

static status parse_unary(parser *p, bool with_filters, node **out);
static status parse_primary(parser *p, node **out);
static status parse_postfix(parser *p, node *in, node **out);

static status parse_expression(parser *p, node **out) { return parser_expression_(p, true, out); }

static node *new_pair(parser *p, node_kind kind, oper op, node *a, node *b) {
    node *n = parser_node_(p, kind, a->line);
    n->op = op;
    n->pair.a = a;
    n->pair.b = b;
    return n;
}

/* A level of two-sided operators that group to the left. */
typedef struct level {
    struct {
        const char *text;
        oper op;
    } ops[5]; /* the last one empty */
    status (*operand)(parser *p, node **out);
} level;

static status parse_left(parser *p, const level *lv, node **out) {
    TRY(lv->operand(p, out));
    for (;;) {
        int i = 0;
        while (lv->ops[i].text && !parser_at_op_(p, lv->ops[i].text)) i++;
        if (!lv->ops[i].text) return OK;
        node *right;
        p->at++;
        TRY(lv->operand(p, &right));
        *out = new_pair(p, NODE_BINARY, lv->ops[i].op, *out, right);
    }
}

static status parse_operand(parser *p, node **out) { return parse_unary(p, true, out); }

static status parse_power(parser *p, node **out) {
    static const level lv = { { { "**", OPER_POW } }, parse_operand };
    return parse_left(p, &lv, out);
}

static status parse_product(parser *p, node **out) {
    static const level lv = { { { "*", OPER_MUL }, { "/", OPER_DIV }, { "//", OPER_FLOORDIV }, { "%", OPER_MOD } },
                              parse_power };
    return parse_left(p, &lv, out);
}

static status parse_concat(parser *p, node **out) {
    TRY(parse_product(p, out));
    if (!parser_at_op_(p, "~")) return OK;
    node *all = parser_node_(p, NODE_CONCAT, (*out)->line);
    parser_push_(p, &all->items, *out);
    while (parser_skip_op_(p, "~")) {
        TRY(parse_product(p, out));
        parser_push_(p, &all->items, *out);
    }
    *out = all;
    return OK;
}

static status parse_sum(parser *p, node **out) {
    static const level lv = { { { "+", OPER_ADD }, { "-", OPER_SUB } }, parse_concat };
    return parse_left(p, &lv, out);
}

static bool skip_comparison(parser *p, oper *op) {
    static const struct {
        const char *text;
        oper op;
    } ops[] = {
        { "==", OPER_EQ }, { "!=", OPER_NE }, { "<=", OPER_LE }, { ">=", OPER_GE }, { "<", OPER_LT }, { ">", OPER_GT },
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        *op = ops[i].op;
        if (parser_skip_op_(p, ops[i].text)) return true;
    }
    *op = OPER_IN;
    if (parser_skip_name_(p, "in")) return true;
    *op = OPER_NOT_IN;
    if (!parser_at_name_(p, "not") || p->at[1].kind != TOKEN_NAME || !str_eq(p->at[1].text, STR("in"))) return false;
    p->at += 2;
    return true;
}

/* a < b < c holds when both comparisons do; b is evaluated once. */
static status parse_comparison(parser *p, node **out) {
    TRY(parse_sum(p, out));
    node *all = NULL;
    oper op;
    while (skip_comparison(p, &op)) {
        if (!all) {
            all = parser_node_(p, NODE_COMPARE, (*out)->line);
            all->compare.first = *out;
        }
        node *right;
        TRY(parse_sum(p, &right));
        node_list *l = &all->compare.rest;
        size_t had = l->cap;
        parser_push_(p, l, right);
        if (l->cap != had) {
            oper *more = arena_alloc(p->t->mem, l->cap * sizeof *more);
            if (l->n > 1) memcpy(more, all->compare.ops, (l->n - 1) * sizeof *more);
            all->compare.ops = more;
        }
        all->compare.ops[l->n - 1] = op;
    }
    if (all) *out = all;
    return OK;
}

static status parse_not(parser *p, node **out) {
    int line = p->at->line;
    if (!parser_skip_name_(p, "not")) return parse_comparison(p, out);
    TRY(parser_enter_(p));
    node *n = parser_node_(p, NODE_NOT, line);
    TRY(parse_not(p, &n->pair.a));
    p->nest--;
    *out = n;
    return OK;
}

static status parse_and(parser *p, node **out) {
    node *right;
    TRY(parse_not(p, out));
    while (parser_skip_name_(p, "and")) {
        TRY(parse_not(p, &right));
        *out = new_pair(p, NODE_AND, OPER_ADD, *out, right);
    }
    return OK;
}

static status parse_or(parser *p, node **out) {
    node *right;
    TRY(parse_and(p, out));
    while (parser_skip_name_(p, "or")) {
        TRY(parse_and(p, &right));
        *out = new_pair(p, NODE_OR, OPER_ADD, *out, right);
    }
    return OK;
}

status parser_expression_(parser *p, bool with_choice, node **out) {
    TRY(parser_enter_(p));
    TRY(parse_or(p, out));
    while (with_choice && parser_skip_name_(p, "if")) {
        node *n = parser_node_(p, NODE_IF_ELSE, (*out)->line);
        n->choice.yes = *out;
        TRY(parse_or(p, &n->choice.cond));
        if (parser_skip_name_(p, "else")) TRY(parse_expression(p, &n->choice.no));
        *out = n;
    }
    p->nest--;
    return OK;
}

static bool ends_tuple(const parser *p) {
    return p->at->kind == TOKEN_PRINT_END || p->at->kind == TOKEN_BLOCK_END || parser_at_op_(p, ")") ||
           parser_at_name_(p, "in");
}

status parser_tuple_(parser *p, bool with_choice, node **out) {
    TRY(parser_expression_(p, with_choice, out));
    if (!parser_at_op_(p, ",")) return OK;
    node *all = parser_node_(p, NODE_TUPLE, (*out)->line);
    parser_push_(p, &all->items, *out);
    while (parser_skip_op_(p, ",") && !ends_tuple(p)) {
        TRY(parser_expression_(p, with_choice, out));
        parser_push_(p, &all->items, *out);
    }
    *out = all;
    return OK;
}

static status parse_unary(parser *p, bool with_filters, node **out) {
    int line = p->at->line;
    bool minus = parser_at_op_(p, "-");
    TRY(parser_enter_(p));
    if (minus || parser_at_op_(p, "+")) {
        node *n = parser_node_(p, NODE_SIGN, line);
        n->op = minus ? OPER_SUB : OPER_ADD;
        p->at++;
        TRY(parse_unary(p, false, &n->pair.a));
        *out = n;
    } else {
        TRY(parse_primary(p, out));
    }
    TRY(parse_postfix(p, *out, out));
    if (with_filters) TRY(parser_filter_chain_(p, *out, true, out));
    p->nest--;
    return OK;
}

/* ---- primaries ---- */

static bool constant_name(str name, value *v) {
    static const struct {
        const char *name;
        int what;
    } names[] = {
        { "true", 1 }, { "True", 1 }, { "false", 0 }, { "False", 0 }, { "none", -1 }, { "None", -1 },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!str_eq(name, str_of(names[i].name))) continue;
        *v = names[i].what < 0 ? value_none() : value_bool(names[i].what);
        return true;
    }
    return false;
}

static node *new_name(parser *p, str name, int line) {
    node *n = parser_node_(p, NODE_NAME, line);
    n->symbol = parser_symbol_(p, name);
    if (n->symbol < SYMBOLS_FIXED) p->uses[n->symbol]++;
    return n;
}

/* Adjacent literals are one string. */
static status parse_string(parser *p, node **out) {
    node *n = parser_node_(p, NODE_CONST, p->at->line);
    buf text = { 0 };
    for (; p->at->kind == TOKEN_STRING; p->at++) buf_str(&text, p->at->text);
    n->constant = value_str(arena_str(p->t->mem, buf_view(&text)));
    buf_free(&text);
    *out = n;
    return OK;
}

static status parse_list(parser *p, node **out) {
    node *n = parser_node_(p, NODE_LIST, p->at->line), *item;
    p->at++;
    while (!parser_at_op_(p, "]")) {
        if (n->items.n) TRY(parser_expect_op_(p, ","));
        if (parser_at_op_(p, "]")) break;
        TRY(parse_expression(p, &item));
        parser_push_(p, &n->items, item);
    }
    p->at++;
    *out = n;
    return OK;
}

static status parse_dict(parser *p, node **out) {
    node *n = parser_node_(p, NODE_DICT, p->at->line), *item;
    p->at++;
    while (!parser_at_op_(p, "}")) {
        if (n->items.n) TRY(parser_expect_op_(p, ","));
        if (parser_at_op_(p, "}")) break;
        TRY(parse_expression(p, &item));
        parser_push_(p, &n->items, item);
        TRY(parser_expect_op_(p, ":"));
        TRY(parse_expression(p, &item));
        parser_push_(p, &n->items, item);
    }
    p->at++;
    *out = n;
    return OK;
}

static status parse_round(parser *p, node **out) {
    int line = p->at->line;
    p->at++;
    if (parser_at_op_(p, ")"))
        *out = parser_node_(p, NODE_TUPLE, line);
    else
        TRY(parser_tuple_(p, true, out));
    return parser_expect_op_(p, ")");
}

static status parse_primary(parser *p, node **out) {
    const token *t = p->at;
    value v = t->val;
    if (t->kind == TOKEN_STRING) return parse_string(p, out);
    if (t->kind == TOKEN_NUMBER || (t->kind == TOKEN_NAME && constant_name(t->text, &v))) {
        *out = parser_node_(p, NODE_CONST, t->line);
        (*out)->constant = v;
        p->at++;
        return OK;
    }
    if (t->kind == TOKEN_NAME) {
        *out = new_name(p, t->text, t->line);
        p->at++;
        return OK;
    }
    if (parser_at_op_(p, "(")) return parse_round(p, out);
    if (parser_at_op_(p, "[")) return parse_list(p, out);
    if (parser_at_op_(p, "{")) return parse_dict(p, out);
    return parser_unexpected_(p, "an expression");
}

/* ---- what follows a primary ---- */

status parser_args_(parser *p, args_node *out) {
    size_t cap_names = 0;
    *out = (args_node){ 0 };
    TRY(parser_expect_op_(p, "("));
    while (!parser_at_op_(p, ")")) {
        node *arg;
        if (out->pos.n + out->kw.n) TRY(parser_expect_op_(p, ","));
        if (parser_at_op_(p, ")")) break;
        if (parser_at_op_(p, "*") || parser_at_op_(p, "**"))
            return tmpl_fail_(p->t, p->at->line, p->e, "unpacking of arguments is not supported");
        bool named = p->at->kind == TOKEN_NAME && p->at[1].kind == TOKEN_OP && str_eq(p->at[1].text, STR("="));
        str name = p->at->text;
        if (!named && out->kw.n) return parser_unexpected_(p, "a named argument behind a named one");
        if (named) p->at += 2;
        TRY(parse_expression(p, &arg));
        parser_push_(p, named ? &out->kw : &out->pos, arg);
        if (named && out->kw.cap != cap_names) {
            str *more = arena_alloc(p->t->mem, out->kw.cap * sizeof *more);
            if (out->kw.n > 1) memcpy(more, out->names, (out->kw.n - 1) * sizeof *more);
            out->names = more;
            cap_names = out->kw.cap;
        }
        if (named) out->names[out->kw.n - 1] = name;
    }
    p->at++;
    return OK;
}

static status parse_member(parser *p, node *of, node **out) {
    const token *t = ++p->at;
    node *n = parser_node_(p, NODE_MEMBER, t->line);
    if (t->kind == TOKEN_NUMBER && t->val.kind == VALUE_INT) { /* x.0 is x[0] */
        n->kind = NODE_ITEM;
        n->item.of = of;
        n->item.key = parser_node_(p, NODE_CONST, t->line);
        n->item.key->constant = t->val;
        p->at++;
    } else {
        n->member.of = of;
        TRY(parser_take_name_(p, &n->member.name));
    }
    *out = n;
    return OK;
}

/* One place of a subscript: an expression, or the bounds of a slice, which only the slice node may hold. */
static status parse_subscript(parser *p, node *of, node **out) {
    int line = p->at->line;
    node *from = NULL;
    p->at++;
    if (!parser_at_op_(p, ":")) TRY(parser_tuple_(p, true, &from));
    if (!parser_at_op_(p, ":")) {
        node *n = parser_node_(p, NODE_ITEM, line);
        n->item.of = of;
        n->item.key = from;
        *out = n;
        return parser_expect_op_(p, "]");
    }
    node *n = parser_node_(p, NODE_SLICE, line);
    n->slice.of = of;
    n->slice.from = from;
    p->at++;
    if (!parser_at_op_(p, "]") && !parser_at_op_(p, ":")) TRY(parse_expression(p, &n->slice.to));
    if (parser_skip_op_(p, ":") && !parser_at_op_(p, "]")) TRY(parse_expression(p, &n->slice.step));
    *out = n;
    return parser_expect_op_(p, "]");
}

static status parse_call(parser *p, node *fn, node **out) {
    node *n = parser_node_(p, NODE_CALL, p->at->line);
    n->call.fn = fn;
    *out = n;
    return parser_args_(p, &n->call.args);
}

static status parse_postfix(parser *p, node *in, node **out) {
    for (*out = in;;) {
        if (parser_at_op_(p, "."))
            TRY(parse_member(p, *out, out));
        else if (parser_at_op_(p, "["))
            TRY(parse_subscript(p, *out, out));
        else if (parser_at_op_(p, "("))
            TRY(parse_call(p, *out, out));
        else
            return OK;
    }
}

static status parse_filter(parser *p, node *in, node **out) {
    node *n = parser_node_(p, NODE_FILTER, p->at->line);
    str name;
    TRY(parser_take_name_(p, &name));
    n->filter.in = in;
    n->filter.filter = filter_find_(name);
    if (!n->filter.filter) return tmpl_fail_(p->t, n->line, p->e, "unknown filter '%.*s'", STR_ARG(name));
    if (parser_at_op_(p, "(")) TRY(parser_args_(p, &n->filter.args));
    *out = n;
    return OK;
}

/* May the argument of a test without brackets start here, as in "x is divisibleby 3"? Words that go on with the
 * expression are none, also "if", which Jinja would take for one and then miss the rest. */
static bool starts_test_argument(const parser *p) {
    switch (p->at->kind) {
    case TOKEN_STRING:
    case TOKEN_NUMBER: return true;
    case TOKEN_NAME: {
        static const char *const not_one[] = { "else", "or", "and", "is", "if", "in", "not" };
        for (size_t i = 0; i < sizeof not_one / sizeof *not_one; i++)
            if (parser_at_name_(p, not_one[i])) return false;
        return true;
    }
    default: return parser_at_op_(p, "[") || parser_at_op_(p, "{");
    }
}

/* Behind "is". */
static status parse_test(parser *p, node *in, node **out) {
    node *n = parser_node_(p, NODE_TEST, p->at->line), *arg;
    str name;
    n->test.negated = parser_skip_name_(p, "not");
    TRY(parser_take_name_(p, &name));
    n->test.in = in;
    n->test.test = test_find_(name);
    if (!n->test.test) return tmpl_fail_(p->t, n->line, p->e, "unknown test '%.*s'", STR_ARG(name));
    if (parser_at_op_(p, "(")) {
        TRY(parser_args_(p, &n->test.args));
    } else if (parser_at_name_(p, "is")) {
        return tmpl_fail_(p->t, n->line, p->e, "tests cannot be chained with 'is'");
    } else if (starts_test_argument(p)) {
        TRY(parse_primary(p, &arg));
        TRY(parse_postfix(p, arg, &arg));
        parser_push_(p, &n->test.args.pos, arg);
    }
    *out = n;
    return OK;
}

status parser_filter_chain_(parser *p, node *in, bool first_pipe, node **out) {
    *out = in;
    if (!first_pipe) TRY(parse_filter(p, in, out));
    for (;;) {
        if (parser_skip_op_(p, "|"))
            TRY(parse_filter(p, *out, out));
        else if (in && parser_skip_name_(p, "is"))
            TRY(parse_test(p, *out, out));
        else if (in && parser_at_op_(p, "("))
            TRY(parse_call(p, *out, out));
        else
            return OK;
    }
}

status parser_target_(parser *p, bool members, node **out) {
    node *tuple = NULL, *one;
    bool round = parser_skip_op_(p, "(");
    for (;;) {
        int line = p->at->line;
        str name;
        value v;
        if (p->at->kind == TOKEN_NAME && constant_name(p->at->text, &v))
            return tmpl_fail_(p->t, line, p->e, "'%.*s' cannot be assigned to", STR_ARG(p->at->text));
        TRY(parser_take_name_(p, &name));
        one = parser_node_(p, NODE_NAME, line);
        one->symbol = parser_symbol_(p, name);
        if (members && !tuple && !round && parser_at_op_(p, ".")) {
            p->at++;
            node *n = parser_node_(p, NODE_MEMBER, line);
            n->member.of = one;
            TRY(parser_take_name_(p, &n->member.name));
            *out = n;
            return OK;
        }
        if (tuple) parser_push_(p, &tuple->items, one);
        if (!parser_at_op_(p, ",")) break;
        p->at++;
        if (!tuple) {
            tuple = parser_node_(p, NODE_TUPLE, line);
            parser_push_(p, &tuple->items, one);
        }
        if (p->at->kind != TOKEN_NAME || parser_at_name_(p, "in")) break;
    }
    *out = tuple ? tuple : one;
    return round ? parser_expect_op_(p, ")") : OK;
}
