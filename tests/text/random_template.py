"""Random templates of the kind that chat templates are made of, with variables to go: statements, white space control, expressions, filters,
tests, methods, macros. About half of them fail when rendered, which both sides must agree on. Only x, y and z are assigned to: a name that the caller gave and that is assigned
to later is undefined before that in Jinja, inside of loops, and ours is what the caller gave."""
import unicodedata

import random_chat

VARIABLES = ("s", "t", "n", "f", "l", "d", "ms", "none_", "yes", "big", "empty", "words")
STRINGS = ("''", "'a'", "'b'", "' x y '", "'Hello World'", "\"it's\"", "'a,b,,c'", "'é中😀'", "'a\\nb\\n'", "'ß'", "'%s-%d'", "'%5.2f|%-4s|%x'", "'<b>&'", "'role'", "'user'", "'12'", "'-3.5'", "' 7 '", "'AbC'", "'\\u00e9\\t\\\\'", "'x' 'y'", "'ǆ ŉ İ'", "'a.b.c'", "'0'", "'none'", "'{}-{}'", "'{0}{a}{{'", "'ΑΣ ΣΑΣ'", "'ŉ ﬁ ǅ'")
NUMBERS = ("0", "1", "2", "3", "-1", "7", "10", "1.5", "-0.5", "2.0", "0.1", "1e3", "1_000", "100000", "0x1f", "0b11", "0o17", "1e20", "9223372036854775807")
FILTERS = ("upper", "lower", "title", "capitalize", "trim", "length", "count", "first", "last", "list", "join", "join(', ')", "join('-', attribute='role')", "tojson", "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))", "tojson(sort_keys=true)",
           "string", "int", "int(7)", "float", "abs", "round", "round(1)", "round(1, 'floor')", "round(method='ceil')", "sort", "sort(reverse=true)", "sort(attribute='role')", "sort(attribute='role,content')", "sort(attribute='x,role')", "unique | list", "reverse | list", "sum", "min", "max", "dictsort", "dictsort(true)", "dictsort(by='value')", "items | list", "default('D')", "default('D', true)", "d", "replace('a', 'b')", "replace('a', 'b', 1)",
           "indent", "indent(2)", "indent(1, true)", "indent(2, blank=true)", "indent('>')", "escape", "e", "safe", "batch(2) | list", "batch(3, '-') | list", "slice(2) | list", "slice(3, 'f') | list", "groupby('role') | list", "map('upper') | list", "map(attribute='role') | list", "map(attribute='x', default='q') | list", "map('int') | list", "map('default', 'z') | list",
           "select | list", "select('string') | list", "select('number') | list", "reject('none') | list", "selectattr('role') | list", "selectattr('role', 'equalto', 'user') | list", "selectattr('content', 'defined') | list", "rejectattr('role', 'eq', 'user') | list", "select('in', [1, 'a']) | list", "reject('odd') | list", "attr('x')", "format(1, 2)", "format('q', 3)", "unknown_one")
TESTS = ("defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false", "mapping", "sequence", "iterable", "callable", "lower", "upper", "odd", "even", "divisibleby(2)", "divisibleby 3", "eq(1)", "equalto 'a'", "ne 2", "lt 3", "gt(1)", "ge 1", "le 1", "in [1, 'a']", "in 'abc'", "sameas none", "sameas true")
METHODS = ("strip()", "strip('x')", "lstrip()", "rstrip('\\n')", "split()", "split(',')", "split(',', 1)", "rsplit('.', 1)", "split(maxsplit=1)", "splitlines()", "splitlines(true)", "startswith('a')", "startswith(('a', 'H'))", "endswith('b')", "endswith(('x',))", "upper()", "lower()", "title()", "capitalize()", "replace('a', 'z')", "replace('a', 'z', 1)", "find('b')", "rfind('a')", "count('a')", "index('a')", "rindex('a')", "zfill(5)", "ljust(5)", "rjust(5, '*')", "center(6)", "center(7, 'é')", "swapcase()", "partition(',')", "rpartition('.')", "format(1, 2)", "format(s, a=n)",
           "join(['p', 'q'])", "join('xyz')", "isdigit()", "isspace()", "isupper()", "islower()", "removeprefix('a')", "removesuffix('c')", "items() | list", "keys() | list", "values() | list", "get('a')", "get('zz', 'w')", "get('role')", "index(1)", "count(1)", "copy()", "append(1)", "pop()", "update({})", "nope()", "nope")
BINARY = ("+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or")


def assigned(s):
    """Without code points that Python calls unprintable only because its Unicode has not assigned them."""
    return "".join(c for c in s if unicodedata.category(c) != "Cn")


def variables(rng):
    messages = [{"role": rng.choice(("user", "assistant", "system")), "content": rng.choice(("hi", "", None, "a\nb", "é")), **({"x": rng.choice((1, "v", None))} if rng.random() < 0.5 else {})} for _ in range(rng.randint(0, 3))]
    return {"s": rng.choice(("", "abc", "a,b,c", " pad ", "Hello World", "a\nb\n\n c", "é中😀", "ßǆ", "aXbX", "12", "<a href='x'>&amp;", "it's \"q\"", "tab\tnl\n", "\u2028\x7f\x01", "ΑΣ", assigned(random_chat.text(rng)[:30]))),
            "t": rng.choice(("x", "user", "a", "0", " ")), "n": rng.choice((0, 1, 2, 3, -1, -7, 10, 2**31, 2**62)), "f": rng.choice((0.0, 1.5, -2.5, 0.1, 1e16, 1e-7, 3.0, 2.675, -0.0)), "l": rng.choice(([], [1, 2, 3], ["b", "a", "C"], [1, "a", None, True, 1.5], [[1, 2], [3, 4]], [3, 1, 2, 1], ["a"], [0, 0.0, False])),
            "d": rng.choice(({}, {"a": 1, "b": "x"}, {"role": "user", "content": "c"}, {"b": 2, "A": 1, "c": 3}, {"items": 1, "keys": [2], "get": "g"}, {"a": {"b": {"c": "deep"}}, "l": [1]})), "ms": messages, "none_": None, "yes": rng.choice((True, False)), "big": rng.choice((2**63, 10**30, -2**64)), "empty": rng.choice(("", [], {})), "words": ["the", "Quick", "brown", ""]}


def atom(rng):
    kind = rng.randrange(12)
    if kind < 5:
        return rng.choice(VARIABLES + ("undefined_",)) if kind else rng.choice(("loop.index", "x", "y", "ns.x", "n"))
    if kind < 8:
        return rng.choice(STRINGS)
    if kind < 10:
        return rng.choice(NUMBERS)
    return rng.choice(("true", "false", "none", "True", "None", "[]", "{}", "()", "[1, 2, 3]", "['a', 'b']", "{'a': 1, 'b': [2]}", "(1, 'x')", "(1,)", "(range(1, 6, 2) | list)", "dict(a=1)", "[1, [2, (3,)]]", "{1: 2, 'k': none}"))


def expression(rng, depth=3):
    if depth == 0 or rng.random() < 0.15:
        return atom(rng)
    kind, e = rng.randrange(15), lambda: expression(rng, depth - 1)
    if kind <= 1:
        return f"{e()} {rng.choice(BINARY)} {e()}"
    if kind == 2:
        return f"({e()})"
    if kind <= 5:
        return f"{e()} | {rng.choice(FILTERS)}"
    if kind == 6:
        return f"{e()} is {rng.choice(('', '', 'not '))}{rng.choice(TESTS)}"
    if kind <= 8:
        return f"{atom(rng)}.{rng.choice(METHODS)}"
    if kind == 9:
        return f"{rng.choice(VARIABLES + ('undefined_', 'loop', 'ns'))}[{rng.choice(('0', '-1', '1', ':', '1:', ':-1', '::2', '::-1', '1:2', '-2:', 'n', 't', chr(39) + 'a' + chr(39), e()))}]"
    if kind == 10:
        return f"{atom(rng)}.{rng.choice(('a', 'role', 'content', 'x', 'b.c', '0', 'zz'))}"
    if kind == 11:
        return rng.choice((f"{rng.choice(('not ', '-', '+', 'not '))}{e()}", f"{atom(rng)} ** {rng.choice(('2', '0', '3', '-1', '0.5', '2 ** 2'))}"))
    if kind == 12:
        return f"{e()} if {e()}" + rng.choice((f" else {e()}", f" else {e()}", ""))
    if kind == 13:
        return rng.choice((f"[{e()}, {e()}]", f"{{'a': {e()}, {rng.choice(STRINGS)}: {e()}}}", f"({e()}, {e()})", f"({e()} ~ {e()})"))
    return rng.choice((f"m({e()})", f"m({e()}, b={e()})", f"ns.{rng.choice('xyz')}", f"loop.{rng.choice(('index', 'index0', 'first', 'last', 'length', 'revindex', 'revindex0', 'previtem', 'nextitem', 'depth', 'cycle(1, 2)', 'changed(n)'))}", f"namespace(x={e()}).x", f"raise_exception({e()})", f"strftime_now('%Y-%m-%d %b %d')", f"range({e()}) | list", f"({e()}) | tojson"))


def blank(rng):
    return rng.choice(("", "", " ", "\n", "  \n", "\n  ", "\n\n", "\t", " \n\t ", "\r\n"))


def tag(rng, body):
    return f"{blank(rng)}{{%{rng.choice(('', '', '-', '-', '+'))}{rng.choice((' ', ' ', '', chr(10)))}{body}{rng.choice((' ', ' ', chr(10)))}{rng.choice(('', '', '-', '-', '+'))}%}}{blank(rng)}"


def statement(rng, depth):
    kind, e, b = rng.randrange(17 if depth else 5), lambda: expression(rng, rng.randint(0, 3)), lambda: body(rng, depth - 1)
    if kind <= 1:
        return rng.choice(("text", " a ", "é", "\n", "  x\n", "{", "}", "{ {", "%}", "line\n  line", "'\"", "\n\n"))
    if kind <= 3:
        return f"{blank(rng)}{{{{{rng.choice(('', '', '-'))} {e()} {rng.choice(('', '', '-'))}}}}}{blank(rng)}"
    if kind == 4:
        return rng.choice((f"{blank(rng)}{{#{rng.choice(('', '-', '+'))} c {rng.choice(('', '-', '+'))}#}}{blank(rng)}", tag(rng, f"set {rng.choice('xyz')} = {e()}"), tag(rng, f"set x, y = {e()}, {e()}"), tag(rng, f"set ns.{rng.choice('xyz')} = {e()}")))
    if kind <= 7:
        middle = "".join(tag(rng, f"elif {e()}") + b() for _ in range(rng.randrange(2))) + (tag(rng, "else") + b() if rng.random() < 0.5 else "")
        return tag(rng, f"if {e()}") + b() + middle + tag(rng, "endif")
    if kind <= 11:
        target, over = rng.choice((("i", e()), ("i", "l"), ("i", "ms"), ("i", "words"), ("k, v", "d.items()"), ("k, v", "d | dictsort"), ("i", "range(3)"), ("c", "s"), ("a, b", "[[1, 2], [3, 4]]")))
        extra = f" if {e()}" if rng.random() < 0.25 else ""
        inner = b() + (tag(rng, rng.choice(("break", "continue"))) if rng.random() < 0.1 else "") + (tag(rng, f"if {e()}") + tag(rng, rng.choice(("break", "continue"))) + tag(rng, "endif") if rng.random() < 0.1 else "")
        return tag(rng, f"for {target} in {over}{extra}") + inner + "{{ loop.index }}" * (rng.random() < 0.3) + (tag(rng, "else") + b() if rng.random() < 0.2 else "") + tag(rng, "endfor")
    if kind == 12:
        return tag(rng, f"set {rng.choice('xyz')}{rng.choice(('', ' | upper', ' | trim | length'))}") + b() + tag(rng, "endset")
    if kind == 13:
        return tag(rng, f"macro m(a, b={e()})") + b() + "{{ a }}{{ b }}" + rng.choice(("", "{{ varargs }}", "{{ kwargs }}", "{{ caller() if caller }}", "{{ caller is defined }}")) + tag(rng, "endmacro") + "{{ m(1) }}"
    if kind == 14:
        return tag(rng, "macro w(x)") + "<{{ caller(x) if caller else x }}>" + tag(rng, "endmacro") + tag(rng, f"call{rng.choice(('', '(y)', '(y, z=1)'))} w({e()})") + b() + "{{ y }}" + tag(rng, "endcall")
    if kind == 15:
        return rng.choice((tag(rng, f"with q = {e()}, r = {e()}") + b() + "{{ q }}" + tag(rng, "endwith"), tag(rng, f"filter {rng.choice(('upper', 'trim', 'indent(2)', 'replace(chr, 1)', 'length'))}") + b() + tag(rng, "endfilter")))
    return rng.choice((tag(rng, "generation") + b() + tag(rng, "endgeneration"), tag(rng, "raw") + "{{ x }}{% if %}{# " + blank(rng) + tag(rng, "endraw"), tag(rng, rng.choice(("endif", "endfor", "else", "do l", "unknown", "set x", "if", "for x")))))


def body(rng, depth):
    return "".join(statement(rng, depth) for _ in range(rng.randint(0, 3)))


def template(rng):
    prelude = "{%- set ns = namespace(x=0, y='') -%}" if rng.random() < 0.5 else ""
    if rng.random() < 0.4:
        return prelude + f"{{{{ {expression(rng, rng.randint(1, 4))} }}}}"
    return prelude + body(rng, 3)
