/* engine/text/tmpl_int.h - inside of the template interpreter; for tmpl_*.c only.
 *
 * source -> tokens (tmpl_lex.c) -> tree (tmpl_parse.c, tmpl_expr.c) -> text (tmpl_exec.c statements, tmpl_eval.c
 * expressions, tmpl_op.c operators, tmpl_member.c member access, tmpl_call.c arguments, macros and functions,
 * tmpl_filter.c and tmpl_seq.c filters, tmpl_test.c tests, tmpl_method.c methods, tmpl_pystr.c what the last three do
 * with strings).
 *
 * Adding a filter: its function and its row in the table of tmpl_filter.c (texts, numbers) or tmpl_seq.c (sequences), a
 * case in tests/unit/test_tmpl.c. Tests and methods: the same in their one file. */
#ifndef ENGINE_TEXT_TMPL_INT_H
#define ENGINE_TEXT_TMPL_INT_H
#include "engine/text/tmpl.h"

/* ---- tokens ---- */

typedef enum token_kind {
    TOKEN_END, /* of the source */
    TOKEN_DATA,
    TOKEN_PRINT_BEGIN,
    TOKEN_PRINT_END,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING, /* text: with escapes resolved */
    TOKEN_NUMBER, /* val */
    TOKEN_OP      /* text: the operator */
} token_kind;

typedef struct token {
    token_kind kind;
    int line;
    str text;
    value val;
} token;

/* Tokens of the source, the last one TOKEN_END, in t->mem. */
status tmpl_lex_(tmpl *t, str source, token **out, err *e);
/* "<template> line <n>: " and the message; returns ERR_TEMPLATE. */
status tmpl_fail_(const tmpl *t, int line, err *e, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* ---- tree ---- */

typedef struct node node;
typedef struct filter filter;
typedef struct test test;
typedef struct function function;

typedef enum node_kind {
    /* expressions */
    NODE_CONST,
    NODE_NAME,
    NODE_LIST,
    NODE_TUPLE,
    NODE_DICT,
    NODE_MEMBER,
    NODE_ITEM,
    NODE_SLICE,
    NODE_CALL,
    NODE_FILTER,
    NODE_TEST,
    NODE_NOT,
    NODE_SIGN,
    NODE_BINARY,
    NODE_COMPARE,
    NODE_CONCAT,
    NODE_AND,
    NODE_OR,
    NODE_IF_ELSE,
    /* statements */
    NODE_TEXT,
    NODE_PRINT,
    NODE_IF,
    NODE_FOR,
    NODE_SET,
    NODE_SET_BLOCK,
    NODE_MACRO,
    NODE_CALL_BLOCK,
    NODE_FILTER_BLOCK,
    NODE_WITH,
    NODE_SCOPE,
    NODE_BREAK,
    NODE_CONTINUE
} node_kind;

typedef enum oper {
    OPER_ADD,
    OPER_SUB,
    OPER_MUL,
    OPER_DIV,
    OPER_FLOORDIV,
    OPER_MOD,
    OPER_POW,
    OPER_EQ,
    OPER_NE,
    OPER_LT,
    OPER_LE,
    OPER_GT,
    OPER_GE,
    OPER_IN,
    OPER_NOT_IN
} oper;

typedef struct node_list {
    node **items;
    size_t n, cap;
} node_list;

typedef struct args_node {
    node_list pos, kw;
    str *names; /* of kw */
} args_node;

/* A macro, or the body of a call block, which is a macro without a name. */
typedef struct macro {
    str name;
    int32_t symbol;  /* of the name */
    int32_t *params; /* symbols */
    node **defaults; /* per parameter, NULL: none */
    size_t n_params;
    bool takes_caller, takes_varargs, takes_kwargs; /* the body names them */
    node *body;
} macro;

/* Bodies are chains over `next`; NULL is an empty body. */
struct node {
    node_kind kind;
    int line;
    oper op; /* BINARY; SIGN: OPER_ADD or OPER_SUB */
    node *next;
    union {
        value constant;
        str text;        /* TEXT */
        int32_t symbol;  /* NAME */
        node_list items; /* LIST, TUPLE, CONCAT; DICT: key, value, key, value */
        struct {
            node *of;
            str name;
        } member;
        struct {
            node *of, *key;
        } item;
        struct {
            node *of, *from, *to, *step;
        } slice; /* NULL: left out */
        struct {
            node *fn;
            args_node args;
        } call;
        struct {
            node *in;
            const filter *filter;
            args_node args;
        } filter; /* in NULL: the text of the block */
        struct {
            node *in;
            const test *test;
            args_node args;
            bool negated;
        } test;
        struct {
            node *a, *b;
        } pair; /* BINARY, AND, OR; NOT, SIGN, PRINT: a alone */
        struct {
            node *first;
            node_list rest;
            oper *ops;
        } compare;
        struct {
            node *cond, *yes, *no;
        } choice; /* no NULL: undefined, or nothing */
        struct {
            node *target, *in, *cond, *body, *no;
        } loop;
        struct {
            node *target, *val, *body;
        } set; /* SET: val; SET_BLOCK: body, and val NULL or a filter chain */
        struct {
            node *chain, *body;
        } block; /* FILTER_BLOCK; SCOPE: body alone */
        struct {
            node_list targets, vals;
            node *body;
        } with;
        macro *macro;
        struct {
            node *call;
            macro *caller;
        } call_block;
    };
};

/* Names of variables are numbered: at run time a look-up compares numbers. */
typedef struct tmpl_symbol {
    str name;
    const function *builtin; /* what the name means while nothing is assigned to it, or NULL */
} tmpl_symbol;

struct tmpl {
    arena *mem;
    const char *name;
    tmpl_symbol *symbols;
    size_t n_symbols, cap_symbols;
    node *body;
};

enum {
    SYMBOL_LOOP,
    SYMBOL_CALLER,
    SYMBOL_VARARGS,
    SYMBOL_KWARGS,
    SYMBOLS_FIXED /* numbers below have these names in every template */
};

/* Nesting of brackets, operators and blocks in the source, and of evaluation at run time (macros may recurse). They
 * keep the C stack small: a level takes a few hundred bytes, several times that under a sanitizer. */
enum { TMPL_NEST_MAX = 150, TMPL_DEPTH_MAX = 800, TMPL_SOURCE_MAX = 4 << 20 };

int32_t tmpl_find_symbol_(const tmpl *t, str name); /* -1: the template does not use the name */

/* ---- parser ---- */

typedef struct parser {
    tmpl *t;
    const token *at;
    int nest;
    int loops;                  /* loops around this place that break and continue can reach */
    size_t uses[SYMBOLS_FIXED]; /* how often each fixed name was read so far */
    err *e;
} parser;

status parser_enter_(parser *p); /* one level of nesting deeper; pair with p->nest-- */
bool parser_at_op_(const parser *p, const char *op);
bool parser_at_name_(const parser *p, const char *name);
bool parser_skip_op_(parser *p, const char *op);
bool parser_skip_name_(parser *p, const char *name);
status parser_expect_op_(parser *p, const char *op);
status parser_take_name_(parser *p, str *name);
status parser_unexpected_(parser *p, const char *expected); /* "expected ..., found ..." */
int32_t parser_symbol_(parser *p, str name);                /* adds the name when it is new */
node *parser_node_(parser *p, node_kind kind, int line);
void parser_push_(parser *p, node_list *l, node *n);

status parser_expression_(parser *p, bool with_choice, node **out);
/* Expressions with commas make a tuple. with_choice: `a if b else c` may stand at the top. */
status parser_tuple_(parser *p, bool with_choice, node **out);
/* What may be assigned to: names, tuples of names, and (members) one member of a namespace. */
status parser_target_(parser *p, bool members, node **out);
status parser_filter_chain_(parser *p, node *in, bool first_pipe, node **out);
status parser_args_(parser *p, args_node *out); /* in round brackets, at the opening one */

/* ---- render ---- */

typedef struct binding {
    int32_t symbol;
    value val;
} binding;

/* Variables of a template, a loop turn, a macro call. Kept for as long as the render, as macros refer to them. */
typedef struct scope {
    struct scope *up;
    binding *bindings;
    size_t n, cap;
} scope;

typedef struct run {
    const tmpl *t;
    arena *mem;
    buf *out; /* of the text being made: the result's, a macro's, a block's */
    scope *scope;
    size_t kept_scopes; /* how often a macro took hold of a scope so far */
    value_work work;    /* the steps that are left */
    tmpl_limits limits;
    int depth;
    int line; /* of the operation at work, for messages */
    err *e;
} run;

typedef struct call_args {
    value *pos;
    size_t n_pos;
    str *names;
    value *kw;
    size_t n_kw;
} call_args;

/* u.ref of the four kinds that the interpreter owns. */
typedef struct loop_state {
    const value_list *items;
    size_t index;
    value changed; /* arguments of the last loop.changed() */
} loop_state;
typedef struct macro_value {
    const macro *macro;
    scope *scope; /* where it was defined */
} macro_value;
typedef struct method {
    uint8_t kind; /* value_kind of the object */
    const char *name;
    status (*call)(run *r, value self, const call_args *a, value *out);
} method;
typedef struct method_value {
    value self;
    const method *method;
} method_value;
struct function {
    const char *name;
    status (*call)(run *r, const call_args *a, value *out);
};
struct filter {
    const char *name;
    status (*apply)(run *r, value in, const call_args *a, value *out);
};
struct test {
    const char *name;
    status (*apply)(run *r, value in, const call_args *a, bool *out);
};

status run_fail_(run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
status run_fail_undefined_(run *r, value v);  /* "'x' is undefined" */
status run_charge_(run *r, size_t n);         /* takes n steps; fails when a limit is passed */
status run_check_text_(run *r, size_t bytes); /* fails when a text of so many bytes is too long */
value run_take_text_(run *r, buf *b);         /* a string value; frees b */

/* Statements; tmpl_exec.c */
typedef enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;
status run_body_(run *r, const node *first, flow *f);
status run_capture_(run *r, const node *body, scope *s, value *out); /* the text of a body, run in s */
scope *run_scope_(run *r, scope *up);
void run_bind_(run *r, scope *s, int32_t symbol, value v);

/* Expressions; tmpl_eval.c */
status run_eval_(run *r, const node *n, value *out);
status run_args_(run *r, const args_node *n, call_args *out);
status run_filters_(run *r, const node *chain, value text, value *out); /* a chain whose innermost input is text */

/* Operators and members; tmpl_op.c, tmpl_member.c */
status run_binary_(run *r, oper op, value a, value b, value *out);
status run_compare_(run *r, oper op, value a, value b, bool *out);
status run_member_(run *r, value of, str name, value *out); /* of.name */
status run_item_(run *r, value of, value key, value *out);  /* of[key] */
status run_slice_(run *r, value of, value from, value to, value step, value *out);
status run_iterate_(run *r, value v, const value_list **out); /* the elements: keys of a dict, characters of a string */
status run_path_(run *r, value of, value path, value *out);   /* attribute="a.b.0" of filters */

/* Calls; tmpl_call.c. Parameters are a comma-separated list of names; those not given are undefined in out. */
status run_bind_args_(run *r, const char *what, const char *params, size_t required, const call_args *a, value *out);
status run_call_(run *r, value fn, const call_args *a, value *out);
const function *function_find_(str name);

const filter *filter_find_(str name);
const test *test_find_(str name);
const method *method_find_(uint8_t kind, str name);

/* Python's operations on strings, for filters and methods alike; tmpl_pystr.c. All take and give UTF-8. */
typedef enum letter_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITAL, CASE_SWAP } letter_case;
value pystr_case_(run *r, str s, letter_case to);
bool pystr_is_case_(str s, bool upper);                                          /* isupper(), islower() */
status pystr_replace_(run *r, str s, str from, str to, int64_t max, value *out); /* max negative: all */
status pystr_split_(run *r, str s, const str *sep, int64_t max, bool from_right,
                    value *out); /* sep NULL: white space */
value pystr_lines_(run *r, str s, bool keep_ends);
status pystr_format_(run *r, str format, const value *vals, size_t n, value *out); /* the % operator */
status pystr_repeat_(run *r, str s, int64_t times, value *out);
value pystr_of_(run *r, value v);                 /* str() */
size_t pystr_find_(str s, str part, size_t from); /* byte offset, SIZE_MAX: absent */
size_t pystr_find_last_(run *r, str s, str part); /* likewise */
const method *method_find_text_(str name);        /* methods of strings; tmpl_text.c */

/* Filters on sequences; tmpl_seq.c */
const filter *filter_find_seq_(str name);
status run_join_(run *r, value in, str separator, value *out);
#endif
