/* Arithmetic and comparison, with Python's rules for types and signs. Integers have 64 bits: a result beyond them is an
 * error, never a wrong number. */
#include "engine/text/tmpl_int.h"

#include <math.h>

static const char *const op_text[] = {
    [OPER_ADD] = "+", [OPER_SUB] = "-",  [OPER_MUL] = "*", [OPER_DIV] = "/", [OPER_FLOORDIV] = "//",
    [OPER_MOD] = "%", [OPER_POW] = "**", [OPER_EQ] = "==", [OPER_NE] = "!=", [OPER_LT] = "<",
    [OPER_LE] = "<=", [OPER_GT] = ">",   [OPER_GE] = ">=", [OPER_IN] = "in", [OPER_NOT_IN] = "not in",
};

static status too_large(run *r, oper op) { return run_fail_(r, "the result of '%s' is beyond 64 bits", op_text[op]); }

static status int_pow(run *r, int64_t base, int64_t exponent, value *out) {
    int64_t result = 1;
    if (exponent < 0) {
        if (!base) return run_fail_(r, "0 cannot be raised to a negative power");
        *out = value_float(pow((double)base, (double)exponent));
        return OK;
    }
    while (exponent) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) return too_large(r, OPER_POW);
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base)) return too_large(r, OPER_POW);
    }
    *out = value_int(result);
    return OK;
}

static status int_binary(run *r, oper op, int64_t a, int64_t b, value *out) {
    int64_t v = 0;
    if ((op == OPER_DIV || op == OPER_FLOORDIV || op == OPER_MOD) && !b) return run_fail_(r, "division by zero");
    switch (op) {
    case OPER_ADD:
        if (__builtin_add_overflow(a, b, &v)) return too_large(r, op);
        break;
    case OPER_SUB:
        if (__builtin_sub_overflow(a, b, &v)) return too_large(r, op);
        break;
    case OPER_MUL:
        if (__builtin_mul_overflow(a, b, &v)) return too_large(r, op);
        break;
    case OPER_DIV: *out = value_float((double)a / (double)b); return OK;
    case OPER_POW: return int_pow(r, a, b, out);
    default: /* the quotient is rounded down, the remainder has the sign of b */
        if (b == -1) {
            if (op == OPER_FLOORDIV && __builtin_sub_overflow((int64_t)0, a, &v)) return too_large(r, op);
            break;
        }
        v = op == OPER_MOD ? a % b : a / b;
        if (a % b && (a % b < 0) != (b < 0)) v += op == OPER_MOD ? b : -1;
    }
    *out = value_int(v);
    return OK;
}

static status float_binary(run *r, oper op, double a, double b, value *out) {
    if ((op == OPER_DIV || op == OPER_FLOORDIV || op == OPER_MOD) && b == 0) return run_fail_(r, "division by zero");
    double rest;
    switch (op) {
    case OPER_ADD: *out = value_float(a + b); return OK;
    case OPER_SUB: *out = value_float(a - b); return OK;
    case OPER_MUL: *out = value_float(a * b); return OK;
    case OPER_DIV: *out = value_float(a / b); return OK;
    case OPER_POW:
        if (a == 0 && b < 0) return run_fail_(r, "0.0 cannot be raised to a negative power");
        if (a < 0 && b != floor(b)) return run_fail_(r, "a negative number cannot be raised to a fraction");
        *out = value_float(pow(a, b));
        return OK;
    default:
        rest = fmod(a, b);
        if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
        if (op == OPER_MOD) {
            *out = value_float(rest == 0 ? copysign(0.0, b) : rest);
        } else {
            double whole = nearbyint((a - rest) / b);
            *out = value_float(whole == 0 ? copysign(0.0, a / b) : whole);
        }
        return OK;
    }
}

static bool small_int(value v, int64_t *i) {
    if (v.kind != VALUE_INT && v.kind != VALUE_BOOL) return false;
    *i = v.kind == VALUE_BOOL ? v.b : v.i;
    return true;
}

static status bad_operands(run *r, oper op, value a, value b) {
    if (a.kind == VALUE_UNDEFINED) return run_fail_undefined_(r, a);
    if (b.kind == VALUE_UNDEFINED) return run_fail_undefined_(r, b);
    if (op == OPER_ADD && (a.kind == VALUE_STR || value_is_seq(a)))
        return run_fail_(r, "can only concatenate %s (not \"%s\") to %s", value_type(a), value_type(b), value_type(a));
    return run_fail_(r, "unsupported operand types for %s: '%s' and '%s'", op_text[op], value_type(a), value_type(b));
}

static status concatenate(run *r, value a, value b, value *out) {
    if (a.kind == VALUE_STR) {
        TRY(run_check_text_(r, a.s.n + b.s.n));
        TRY(run_charge_(r, (a.s.n + b.s.n) / 16));
        char *p = arena_alloc(r->mem, a.s.n + b.s.n + 1);
        if (a.s.n) memcpy(p, a.s.p, a.s.n);
        if (b.s.n) memcpy(p + a.s.n, b.s.p, b.s.n);
        *out = value_str((str){ p, a.s.n + b.s.n });
        return OK;
    }
    TRY(run_charge_(r, a.list->n + b.list->n));
    value_list *l = value_list_new(r->mem, a.list->n + b.list->n);
    for (size_t i = 0; i < a.list->n; i++) l->items[l->n++] = a.list->items[i];
    for (size_t i = 0; i < b.list->n; i++) l->items[l->n++] = b.list->items[i];
    *out = a.kind == VALUE_TUPLE ? value_of_tuple(l) : value_of_list(l);
    return OK;
}

static status repeat_list(run *r, value of, int64_t times, value *out) {
    size_t n = of.list->n, total;
    if (times < 0) times = 0;
    if (__builtin_mul_overflow(n, (size_t)times, &total)) total = SIZE_MAX;
    TRY(run_charge_(r, total));
    value_list *l = value_list_new(r->mem, total);
    for (size_t i = 0; i < total; i++) l->items[l->n++] = of.list->items[i % n];
    *out = of.kind == VALUE_TUPLE ? value_of_tuple(l) : value_of_list(l);
    return OK;
}

/* Operators between what is no pair of numbers. */
static status other_binary(run *r, oper op, value a, value b, value *out) {
    int64_t times;
    if (op == OPER_ADD && a.kind == b.kind && (a.kind == VALUE_STR || value_is_seq(a)))
        return concatenate(r, a, b, out);
    if (op == OPER_MOD && a.kind == VALUE_STR) {
        bool many = b.kind == VALUE_TUPLE;
        return pystr_format_(r, a.s, many ? b.list->items : &b, many ? b.list->n : 1, out);
    }
    if (op == OPER_MUL) {
        if (small_int(a, &times)) {
            value swap = a;
            a = b;
            b = swap;
        }
        if (small_int(b, &times) && a.kind == VALUE_STR) return pystr_repeat_(r, a.s, times, out);
        if (small_int(b, &times) && value_is_seq(a)) return repeat_list(r, a, times, out);
    }
    return bad_operands(r, op, a, b);
}

status run_binary_(run *r, oper op, value a, value b, value *out) {
    int64_t x, y;
    double f, g;
    if (small_int(a, &x) && small_int(b, &y)) return int_binary(r, op, x, y, out);
    if (!value_is_number(a) || !value_is_number(b)) return other_binary(r, op, a, b, out);
    if (value_is_integer(a) && value_is_integer(b)) return run_fail_(r, "arithmetic with an integer beyond 64 bits");
    CHECK(value_as_double(a, &f) && value_as_double(b, &g));
    return float_binary(r, op, f, g, out);
}

static status contains(run *r, value part, value all, bool *out) {
    *out = false;
    switch ((value_kind)all.kind) {
    case VALUE_UNDEFINED: return OK;
    case VALUE_STR:
        if (part.kind != VALUE_STR)
            return run_fail_(r, "'in <string>' requires string as left operand, not %s", value_type(part));
        TRY(run_charge_(r, all.s.n / 16));
        *out = pystr_find_(all.s, part.s, 0) != SIZE_MAX;
        return OK;
    case VALUE_LIST:
    case VALUE_TUPLE:
        TRY(run_charge_(r, all.list->n));
        for (size_t i = 0; !*out && i < all.list->n; i++) *out = value_equal(part, all.list->items[i], &r->work);
        return OK;
    case VALUE_DICT:
        if (part.kind == VALUE_LIST || part.kind == VALUE_DICT)
            return run_fail_(r, "a dict key cannot be of type '%s'", value_type(part));
        *out = value_dict_find(all.dict, part) != NULL;
        return OK;
    default: return run_fail_(r, "argument of type '%s' is not iterable", value_type(all));
    }
}

status run_compare_(run *r, oper op, value a, value b, bool *out) {
    int order;
    if (op == OPER_EQ || op == OPER_NE) {
        *out = value_equal(a, b, &r->work) == (op == OPER_EQ);
        return run_charge_(r, 0);
    }
    if (op == OPER_IN || op == OPER_NOT_IN) {
        TRY(contains(r, a, b, out));
        *out = *out == (op == OPER_IN);
        return OK;
    }
    if (!value_compare(a, b, &r->work, &order)) {
        TRY(run_charge_(r, 0));
        *out = false;
        if (value_is_number(a) && value_is_number(b)) return OK; /* NaN */
        if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED) return bad_operands(r, op, a, b);
        return run_fail_(r, "'%s' not supported between instances of '%s' and '%s'", op_text[op], value_type(a),
                         value_type(b));
    }
    switch (op) {
    case OPER_LT: *out = order < 0; break;
    case OPER_LE: *out = order <= 0; break;
    case OPER_GT: *out = order > 0; break;
    default: *out = order >= 0; break;
    }
    return OK;
}
