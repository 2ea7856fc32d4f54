/* Expressions to values: one small function for a kind of node. Operators themselves are in tmpl_op.c. */
#include "engine/text/tmpl_int.h"

static value look_up(const run *r, int32_t symbol) {
    for (const scope *s = r->scope; s; s = s->up)
        for (size_t i = 0; i < s->n; i++)
            if (s->bindings[i].symbol == symbol) return s->bindings[i].val;
    const tmpl_symbol *sym = &r->t->symbols[symbol];
    if (sym->builtin) return (value){ .kind = VALUE_FUNCTION, .ref = sym->builtin };
    return (value){ .kind = VALUE_UNDEFINED, .s = sym->name };
}

static status eval_items(run *r, const node *n, value *out) {
    value_list *l = value_list_new(r->mem, n->items.n);
    for (size_t i = 0; i < n->items.n; i++) {
        value v;
        TRY(run_eval_(r, n->items.items[i], &v));
        value_list_push(r->mem, l, v);
    }
    *out = n->kind == NODE_TUPLE ? value_of_tuple(l) : value_of_list(l);
    return OK;
}

static status eval_dict(run *r, const node *n, value *out) {
    value_dict *d = value_dict_new(r->mem, n->items.n / 2);
    for (size_t i = 0; i < n->items.n; i += 2) {
        value key, v;
        TRY(run_eval_(r, n->items.items[i], &key));
        TRY(run_eval_(r, n->items.items[i + 1], &v));
        if (!value_is_key(key)) return run_fail_(r, "a dict key cannot be of type '%s'", value_type(key));
        value_dict_set(r->mem, d, key, v);
    }
    *out = value_of_dict(d);
    return OK;
}

static status eval_concat(run *r, const node *n, value *out) {
    buf text = { 0 };
    status s = OK;
    for (size_t i = 0; s == OK && i < n->items.n; i++) {
        value v = { 0 };
        s = run_eval_(r, n->items.items[i], &v);
        if (s == OK) value_print(&text, v, &r->work);
        if (s == OK) s = run_check_text_(r, text.len);
    }
    if (s == OK)
        *out = run_take_text_(r, &text);
    else
        buf_free(&text);
    return s;
}

static status eval_member(run *r, const node *n, value *out) {
    value of;
    TRY(run_eval_(r, n->member.of, &of));
    r->line = n->line;
    return run_member_(r, of, n->member.name, out);
}

static status eval_item(run *r, const node *n, value *out) {
    value of, key;
    TRY(run_eval_(r, n->item.of, &of));
    TRY(run_eval_(r, n->item.key, &key));
    r->line = n->line;
    return run_item_(r, of, key, out);
}

static status eval_slice(run *r, const node *n, value *out) {
    value of, bounds[3] = { value_none(), value_none(), value_none() };
    const node *const at[3] = { n->slice.from, n->slice.to, n->slice.step };
    TRY(run_eval_(r, n->slice.of, &of));
    for (int i = 0; i < 3; i++)
        if (at[i]) TRY(run_eval_(r, at[i], &bounds[i]));
    r->line = n->line;
    return run_slice_(r, of, bounds[0], bounds[1], bounds[2], out);
}

status run_args_(run *r, const args_node *n, call_args *out) {
    *out = (call_args){ .n_pos = n->pos.n, .names = n->names, .n_kw = n->kw.n };
    if (n->pos.n) out->pos = arena_alloc(r->mem, n->pos.n * sizeof *out->pos);
    if (n->kw.n) out->kw = arena_alloc(r->mem, n->kw.n * sizeof *out->kw);
    for (size_t i = 0; i < n->pos.n; i++) TRY(run_eval_(r, n->pos.items[i], &out->pos[i]));
    for (size_t i = 0; i < n->kw.n; i++) TRY(run_eval_(r, n->kw.items[i], &out->kw[i]));
    return OK;
}

static status eval_call(run *r, const node *n, value *out) {
    value fn;
    call_args a;
    TRY(run_eval_(r, n->call.fn, &fn));
    if (fn.kind == VALUE_UNDEFINED) return run_fail_undefined_(r, fn);
    TRY(run_args_(r, &n->call.args, &a));
    r->line = n->line;
    return run_call_(r, fn, &a, out);
}

static status apply_filter(run *r, const node *n, value in, value *out) {
    call_args a;
    TRY(run_args_(r, &n->filter.args, &a));
    r->line = n->line;
    return n->filter.filter->apply(r, in, &a, out);
}

static status eval_filter(run *r, const node *n, value *out) {
    value in;
    TRY(run_eval_(r, n->filter.in, &in));
    return apply_filter(r, n, in, out);
}

status run_filters_(run *r, const node *chain, value text, value *out) {
    CHECK(chain->kind == NODE_FILTER);
    value in = text;
    if (chain->filter.in) TRY(run_filters_(r, chain->filter.in, text, &in));
    return apply_filter(r, chain, in, out);
}

static status eval_test(run *r, const node *n, value *out) {
    value in;
    call_args a;
    bool holds;
    TRY(run_eval_(r, n->test.in, &in));
    TRY(run_args_(r, &n->test.args, &a));
    r->line = n->line;
    TRY(n->test.test->apply(r, in, &a, &holds));
    *out = value_bool(holds != n->test.negated);
    return OK;
}

static status eval_binary(run *r, const node *n, value *out) {
    value a, b;
    TRY(run_eval_(r, n->pair.a, &a));
    TRY(run_eval_(r, n->pair.b, &b));
    r->line = n->line;
    return run_binary_(r, n->op, a, b, out);
}

/* A sign is 0 - x, but for the zero, whose sign a float keeps. */
static status eval_sign(run *r, const node *n, value *out) {
    value v;
    TRY(run_eval_(r, n->pair.a, &v));
    r->line = n->line;
    if (v.kind == VALUE_UNDEFINED) return run_fail_undefined_(r, v);
    if (!value_is_number(v))
        return run_fail_(r, "bad operand type for unary %c: '%s'", n->op == OPER_SUB ? '-' : '+', value_type(v));
    if (v.kind == VALUE_FLOAT) {
        *out = value_float(n->op == OPER_SUB ? -v.f : v.f);
        return OK;
    }
    return run_binary_(r, n->op, value_int(0), v, out);
}

static status eval_compare(run *r, const node *n, value *out) {
    value left, right;
    bool holds = true;
    TRY(run_eval_(r, n->compare.first, &left));
    for (size_t i = 0; holds && i < n->compare.rest.n; i++) {
        TRY(run_eval_(r, n->compare.rest.items[i], &right));
        r->line = n->line;
        TRY(run_compare_(r, n->compare.ops[i], left, right, &holds));
        left = right;
    }
    *out = value_bool(holds);
    return OK;
}

/* `and` and `or` give the operand that decided. */
static status eval_logic(run *r, const node *n, value *out) {
    TRY(run_eval_(r, n->pair.a, out));
    return value_truth(*out) == (n->kind == NODE_AND) ? run_eval_(r, n->pair.b, out) : OK;
}

static status eval_not(run *r, const node *n, value *out) {
    value v;
    TRY(run_eval_(r, n->pair.a, &v));
    *out = value_bool(!value_truth(v));
    return OK;
}

static status eval_choice(run *r, const node *n, value *out) {
    value cond;
    TRY(run_eval_(r, n->choice.cond, &cond));
    if (value_truth(cond)) return run_eval_(r, n->choice.yes, out);
    if (n->choice.no) return run_eval_(r, n->choice.no, out);
    *out = (value){ .kind = VALUE_UNDEFINED, .s = STR("the missing else") };
    return OK;
}

static status eval(run *r, const node *n, value *out) {
    switch (n->kind) {
    case NODE_CONST: *out = n->constant; return OK;
    case NODE_NAME: *out = look_up(r, n->symbol); return OK;
    case NODE_LIST:
    case NODE_TUPLE: return eval_items(r, n, out);
    case NODE_DICT: return eval_dict(r, n, out);
    case NODE_MEMBER: return eval_member(r, n, out);
    case NODE_ITEM: return eval_item(r, n, out);
    case NODE_SLICE: return eval_slice(r, n, out);
    case NODE_CALL: return eval_call(r, n, out);
    case NODE_FILTER: return eval_filter(r, n, out);
    case NODE_TEST: return eval_test(r, n, out);
    case NODE_NOT: return eval_not(r, n, out);
    case NODE_SIGN: return eval_sign(r, n, out);
    case NODE_BINARY: return eval_binary(r, n, out);
    case NODE_COMPARE: return eval_compare(r, n, out);
    case NODE_CONCAT: return eval_concat(r, n, out);
    case NODE_AND:
    case NODE_OR: return eval_logic(r, n, out);
    case NODE_IF_ELSE: return eval_choice(r, n, out);
    default: CHECK(!"an expression"); return OK;
    }
}

status run_eval_(run *r, const node *n, value *out) {
    r->line = n->line;
    TRY(run_charge_(r, 1));
    if (r->depth >= TMPL_DEPTH_MAX) return run_fail_(r, "evaluation nested more than %d deep", TMPL_DEPTH_MAX);
    r->depth++;
    status s = eval(r, n, out);
    r->depth--;
    return s;
}
