/* Tests: what may stand behind "is". */
#include "engine/text/tmpl_int.h"

#include <math.h>

static status no_args(run *r, const call_args *a) { return run_bind_args_(r, "a test", "", 0, a, NULL); }

/* Tests of the kind of value alone: one function, told apart by name in the table below. */
#define KIND_TEST(fn, condition)                                                                                       \
    static status fn(run *r, value v, const call_args *a, bool *out) {                                                 \
        *out = (condition);                                                                                            \
        return no_args(r, a);                                                                                          \
    }

KIND_TEST(is_defined, v.kind != VALUE_UNDEFINED)
KIND_TEST(is_undefined, v.kind == VALUE_UNDEFINED)
KIND_TEST(is_none, v.kind == VALUE_NONE)
KIND_TEST(is_string, v.kind == VALUE_STR)
KIND_TEST(is_boolean, v.kind == VALUE_BOOL)
KIND_TEST(is_true, v.kind == VALUE_BOOL && v.b)
KIND_TEST(is_false, v.kind == VALUE_BOOL && !v.b)
KIND_TEST(is_number, value_is_number(v))
KIND_TEST(is_integer, v.kind == VALUE_INT || v.kind == VALUE_BIG)
KIND_TEST(is_float, v.kind == VALUE_FLOAT)
KIND_TEST(is_mapping, v.kind == VALUE_DICT)
KIND_TEST(is_callable,
          v.kind == VALUE_UNDEFINED || v.kind == VALUE_MACRO || v.kind == VALUE_METHOD || v.kind == VALUE_FUNCTION)
KIND_TEST(is_iterable, v.kind == VALUE_STR || value_is_seq(v) || v.kind == VALUE_DICT || v.kind == VALUE_LOOP ||
                           v.kind == VALUE_UNDEFINED)
KIND_TEST(is_sequence, v.kind == VALUE_STR || value_is_seq(v) || v.kind == VALUE_DICT || v.kind == VALUE_UNDEFINED)
KIND_TEST(is_lower, pystr_is_case_(pystr_of_(r, v).s, false))
KIND_TEST(is_upper, pystr_is_case_(pystr_of_(r, v).s, true))

static status remainder_is(run *r, value v, value by, int64_t want, bool *out) {
    value rest;
    TRY(run_binary_(r, OPER_MOD, v, by, &rest));
    *out = value_equal(rest, value_int(want), &r->work);
    return OK;
}

static status is_odd(run *r, value v, const call_args *a, bool *out) {
    TRY(no_args(r, a));
    return remainder_is(r, v, value_int(2), 1, out);
}

static status is_even(run *r, value v, const call_args *a, bool *out) {
    TRY(no_args(r, a));
    return remainder_is(r, v, value_int(2), 0, out);
}

static status is_divisible_by(run *r, value v, const call_args *a, bool *out) {
    value by;
    TRY(run_bind_args_(r, "divisibleby", "num", 1, a, &by));
    return remainder_is(r, v, by, 0, out);
}

static status compare_test(run *r, oper op, value v, const call_args *a, bool *out) {
    value other;
    TRY(run_bind_args_(r, "a comparing test", "other", 1, a, &other));
    return run_compare_(r, op, v, other, out);
}

#define COMPARE_TEST(fn, op)                                                                                           \
    static status fn(run *r, value v, const call_args *a, bool *out) { return compare_test(r, op, v, a, out); }

COMPARE_TEST(is_eq, OPER_EQ)
COMPARE_TEST(is_ne, OPER_NE)
COMPARE_TEST(is_lt, OPER_LT)
COMPARE_TEST(is_le, OPER_LE)
COMPARE_TEST(is_gt, OPER_GT)
COMPARE_TEST(is_ge, OPER_GE)
COMPARE_TEST(is_in, OPER_IN)

/* Identity: the same container, or equal values of one type. */
static status is_same_as(run *r, value v, const call_args *a, bool *out) {
    value other;
    TRY(run_bind_args_(r, "sameas", "other", 1, a, &other));
    bool container = value_is_seq(v) || v.kind == VALUE_DICT || v.kind == VALUE_NAMESPACE;
    *out = v.kind == other.kind && (container ? v.ref == other.ref : value_equal(v, other, &r->work));
    return OK;
}

const test *test_find_(str name) {
    static const test tests[] = {
        { "defined", is_defined },
        { "undefined", is_undefined },
        { "none", is_none },
        { "string", is_string },
        { "boolean", is_boolean },
        { "true", is_true },
        { "false", is_false },
        { "number", is_number },
        { "integer", is_integer },
        { "float", is_float },
        { "mapping", is_mapping },
        { "callable", is_callable },
        { "iterable", is_iterable },
        { "sequence", is_sequence },
        { "lower", is_lower },
        { "upper", is_upper },
        { "odd", is_odd },
        { "even", is_even },
        { "divisibleby", is_divisible_by },
        { "eq", is_eq },
        { "==", is_eq },
        { "equalto", is_eq },
        { "ne", is_ne },
        { "!=", is_ne },
        { "lt", is_lt },
        { "<", is_lt },
        { "lessthan", is_lt },
        { "le", is_le },
        { "<=", is_le },
        { "gt", is_gt },
        { ">", is_gt },
        { "greaterthan", is_gt },
        { "ge", is_ge },
        { ">=", is_ge },
        { "in", is_in },
        { "sameas", is_same_as },
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (str_eq(name, str_of(tests[i].name))) return &tests[i];
    return NULL;
}
