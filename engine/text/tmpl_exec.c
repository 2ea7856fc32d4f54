/* Statements, variables and limits: the outer half of a render. */
#include "engine/text/tmpl_int.h"

#include <stdarg.h>
#include <stdio.h>

const tmpl_limits tmpl_limits_default = {
    .steps = (size_t)10 << 20,
    .output = (size_t)64 << 20,
    .memory = (size_t)256 << 20,
};

/* ---- failing ---- */

status run_fail_(run *r, const char *fmt, ...) {
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return tmpl_fail_(r->t, r->line, r->e, "%s", text);
}

status run_fail_undefined_(run *r, value v) {
    if (v.owner == VALUE_UNDEFINED) return run_fail_(r, "'%.*s' is undefined", STR_ARG(v.s));
    if (v.owner == VALUE_NONE) return run_fail_(r, "'None' has no attribute '%.*s'", STR_ARG(v.s));
    const char *owner = value_type((value){ .kind = v.owner });
    return run_fail_(r, "'%s object' has no attribute '%.*s'", owner, STR_ARG(v.s));
}

status run_charge_(run *r, size_t n) {
    r->work.left = r->work.left > n ? r->work.left - n : 0;
    if (r->work.too_deep) return run_fail_(r, "a value is nested more than %d deep", VALUE_DEPTH_MAX);
    if (!r->work.left) return run_fail_(r, "gave up after %zu steps", r->limits.steps);
    if (arena_bytes(r->mem) > r->limits.memory) return run_fail_(r, "more than %zu bytes of values", r->limits.memory);
    return OK;
}

status run_check_text_(run *r, size_t bytes) {
    if (bytes <= r->limits.output) return OK;
    return run_fail_(r, "a text of more than %zu bytes", r->limits.output);
}

value run_take_text_(run *r, buf *b) {
    value v = value_str(arena_str(r->mem, buf_view(b)));
    buf_free(b);
    return v;
}

/* ---- variables ---- */

scope *run_scope_(run *r, scope *up) {
    scope *s = arena_alloc(r->mem, sizeof *s);
    s->up = up;
    return s;
}

void run_bind_(run *r, scope *s, int32_t symbol, value v) {
    for (size_t i = 0; i < s->n; i++) {
        if (s->bindings[i].symbol != symbol) continue;
        s->bindings[i].val = v;
        return;
    }
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 4;
        binding *more = arena_alloc(r->mem, s->cap * sizeof *more);
        if (s->n) memcpy(more, s->bindings, s->n * sizeof *more);
        s->bindings = more;
    }
    s->bindings[s->n++] = (binding){ symbol, v };
}

static status assign_member(run *r, const node *target, value v) {
    value of;
    TRY(run_eval_(r, target->member.of, &of));
    if (of.kind != VALUE_NAMESPACE)
        return run_fail_(r, "cannot assign '%.*s' on a %s: it is no namespace", STR_ARG(target->member.name),
                         value_type(of));
    value_dict_set(r->mem, of.dict, value_str(target->member.name), v);
    return OK;
}

static status assign(run *r, scope *s, const node *target, value v) {
    r->line = target->line;
    if (target->kind == NODE_MEMBER) return assign_member(r, target, v);
    if (target->kind == NODE_NAME) {
        run_bind_(r, s, target->symbol, v);
        return OK;
    }
    const value_list *parts;
    TRY(run_iterate_(r, v, &parts));
    if (parts->n != target->items.n)
        return run_fail_(r, "cannot unpack %zu values into %zu names", parts->n, target->items.n);
    for (size_t i = 0; i < parts->n; i++) TRY(assign(r, s, target->items.items[i], parts->items[i]));
    return OK;
}

/* ---- statements ---- */

static status exec_print(run *r, value v) {
    value_print(r->out, v, &r->work);
    TRY(run_charge_(r, 0)); /* did the walk end early? */
    return run_check_text_(r, r->out->len);
}

static status exec_print_node(run *r, const node *n) {
    value v;
    TRY(run_eval_(r, n->pair.a, &v));
    r->line = n->line;
    return exec_print(r, v);
}

static status exec_if(run *r, const node *n, flow *f) {
    value cond;
    TRY(run_eval_(r, n->choice.cond, &cond));
    return run_body_(r, value_truth(cond) ? n->choice.yes : n->choice.no, f);
}

/* A scope for the next turn of a loop, so that what one turn sets, the next does not see. The last one serves again,
 * unless a macro has kept it: long loops would fill the arena. */
static scope *next_turn(run *r, scope *outer, scope *last, size_t kept) {
    if (!last || r->kept_scopes != kept) return run_scope_(r, outer);
    last->n = 0;
    return last;
}

/* The elements for which the loop's condition holds; it sees the loop's variables. */
static status select_items(run *r, const node *n, const value_list *all, const value_list **out) {
    value_list *kept = value_list_new(r->mem, 0);
    scope *outer = r->scope;
    status s = OK;
    scope *turn = NULL;
    for (size_t i = 0; s == OK && i < all->n; i++) {
        value cond = { 0 };
        r->scope = turn = next_turn(r, outer, turn, r->kept_scopes);
        s = assign(r, r->scope, n->loop.target, all->items[i]);
        if (s == OK) s = run_eval_(r, n->loop.cond, &cond);
        if (s == OK && value_truth(cond)) value_list_push(r->mem, kept, all->items[i]);
    }
    r->scope = outer;
    *out = kept;
    return s;
}

/* completed: a turn came to the end of the body. */
static status exec_turns(run *r, const node *n, loop_state *loop, bool *completed) {
    scope *outer = r->scope, *turn = NULL;
    size_t kept = r->kept_scopes;
    flow f = FLOW_NEXT;
    status s = OK;
    *completed = false;
    for (; s == OK && f != FLOW_BREAK && loop->index < loop->items->n; loop->index++) {
        r->scope = turn = next_turn(r, outer, turn, kept);
        kept = r->kept_scopes;
        run_bind_(r, r->scope, SYMBOL_LOOP, (value){ .kind = VALUE_LOOP, .ref = loop });
        s = assign(r, r->scope, n->loop.target, loop->items->items[loop->index]);
        if (s == OK) s = run_charge_(r, 1);
        if (s == OK) s = run_body_(r, n->loop.body, &f);
        *completed |= f == FLOW_NEXT;
    }
    r->scope = outer;
    return s;
}

static status exec_scope(run *r, const node *body, scope *inner, flow *f) {
    scope *outer = r->scope;
    r->scope = inner;
    status s = run_body_(r, body, f);
    r->scope = outer;
    return s;
}

/* else is for loops of which no turn was completed, as in Jinja: not only for empty ones, but also when every turn was
 * left by break or continue. */
static status exec_for(run *r, const node *n, flow *f) {
    value in;
    bool completed;
    loop_state *loop = arena_alloc(r->mem, sizeof *loop);
    TRY(run_eval_(r, n->loop.in, &in));
    r->line = n->line;
    TRY(run_iterate_(r, in, &loop->items));
    if (n->loop.cond) TRY(select_items(r, n, loop->items, &loop->items));
    TRY(exec_turns(r, n, loop, &completed));
    if (completed) return OK;
    return exec_scope(r, n->loop.no, run_scope_(r, r->scope), f);
}

static status exec_set(run *r, const node *n) {
    value v;
    if (n->kind == NODE_SET) {
        TRY(run_eval_(r, n->set.val, &v));
    } else {
        TRY(run_capture_(r, n->set.body, run_scope_(r, r->scope), &v));
        if (n->set.val) TRY(run_filters_(r, n->set.val, v, &v));
    }
    return assign(r, r->scope, n->set.target, v);
}

static macro_value *new_macro(run *r, const macro *m) {
    macro_value *v = arena_alloc(r->mem, sizeof *v);
    *v = (macro_value){ m, r->scope };
    r->kept_scopes++;
    return v;
}

static void exec_macro(run *r, const node *n) {
    macro_value *m = new_macro(r, n->macro);
    run_bind_(r, r->scope, n->macro->symbol, (value){ .kind = VALUE_MACRO, .ref = m });
}

static status exec_call_block(run *r, const node *n) {
    const node *call = n->call_block.call;
    value fn, text;
    call_args a;
    macro_value *caller = new_macro(r, n->call_block.caller);
    TRY(run_eval_(r, call->call.fn, &fn));
    TRY(run_args_(r, &call->call.args, &a));
    call_args with = { a.pos, a.n_pos, arena_alloc(r->mem, (a.n_kw + 1) * sizeof(str)),
                       arena_alloc(r->mem, (a.n_kw + 1) * sizeof(value)), a.n_kw + 1 };
    if (a.n_kw) {
        memcpy(with.names, a.names, a.n_kw * sizeof *a.names);
        memcpy(with.kw, a.kw, a.n_kw * sizeof *a.kw);
    }
    with.names[a.n_kw] = STR("caller");
    with.kw[a.n_kw] = (value){ .kind = VALUE_MACRO, .ref = caller };
    r->line = n->line;
    TRY(run_call_(r, fn, &with, &text));
    return exec_print(r, text);
}

static status exec_filter_block(run *r, const node *n) {
    value v;
    TRY(run_capture_(r, n->block.body, run_scope_(r, r->scope), &v));
    TRY(run_filters_(r, n->block.chain, v, &v));
    if (v.kind != VALUE_STR) return run_fail_(r, "a filter block must give a str, not '%s'", value_type(v));
    return exec_print(r, v);
}

static status exec_with(run *r, const node *n, flow *f) {
    scope *inner = run_scope_(r, r->scope);
    for (size_t i = 0; i < n->with.targets.n; i++) {
        value v;
        TRY(run_eval_(r, n->with.vals.items[i], &v)); /* outside: the new names do not see each other */
        TRY(assign(r, inner, n->with.targets.items[i], v));
    }
    return exec_scope(r, n->with.body, inner, f);
}

static status exec_text(run *r, const node *n) {
    buf_str(r->out, n->text);
    return run_check_text_(r, r->out->len);
}

static status exec(run *r, const node *n, flow *f) {
    r->line = n->line;
    TRY(run_charge_(r, 1));
    switch (n->kind) {
    case NODE_TEXT: return exec_text(r, n);
    case NODE_PRINT: return exec_print_node(r, n);
    case NODE_IF: return exec_if(r, n, f);
    case NODE_FOR: return exec_for(r, n, f);
    case NODE_SET:
    case NODE_SET_BLOCK: return exec_set(r, n);
    case NODE_MACRO: exec_macro(r, n); return OK;
    case NODE_CALL_BLOCK: return exec_call_block(r, n);
    case NODE_FILTER_BLOCK: return exec_filter_block(r, n);
    case NODE_WITH: return exec_with(r, n, f);
    case NODE_SCOPE: return exec_scope(r, n->block.body, run_scope_(r, r->scope), f);
    case NODE_BREAK: *f = FLOW_BREAK; return OK;
    case NODE_CONTINUE: *f = FLOW_CONTINUE; return OK;
    default: CHECK(!"a statement"); return OK;
    }
}

status run_body_(run *r, const node *first, flow *f) {
    *f = FLOW_NEXT;
    if (r->depth >= TMPL_DEPTH_MAX) return run_fail_(r, "evaluation nested more than %d deep", TMPL_DEPTH_MAX);
    r->depth++;
    status s = OK;
    for (const node *n = first; n && s == OK && *f == FLOW_NEXT; n = n->next) s = exec(r, n, f);
    r->depth--;
    return s;
}

status run_capture_(run *r, const node *body, scope *inner, value *out) {
    buf text = { 0 }, *outer = r->out;
    flow f;
    r->out = &text;
    status s = exec_scope(r, body, inner, &f);
    r->out = outer;
    if (s == OK)
        *out = run_take_text_(r, &text);
    else
        buf_free(&text);
    return s;
}

status tmpl_render(const tmpl *t, arena *mem, const tmpl_var *vars, size_t n, const tmpl_limits *limits, buf *out,
                   err *e) {
    run r = { .t = t, .mem = mem, .limits = limits ? *limits : tmpl_limits_default, .line = 1, .e = e };
    buf text = { 0 };
    flow f;
    r.work.left = r.limits.steps;
    r.limits.memory += arena_bytes(mem); /* what the caller put there is not the template's doing */
    r.out = &text;
    r.scope = run_scope_(&r, NULL);
    for (size_t i = 0; i < n; i++) {
        int32_t symbol = tmpl_find_symbol_(t, str_of(vars[i].name));
        if (symbol >= 0) run_bind_(&r, r.scope, symbol, vars[i].val); /* others are names the template never uses */
    }
    status s = run_body_(&r, t->body, &f);
    if (s == OK) buf_str(out, buf_view(&text));
    buf_free(&text);
    return s;
}
