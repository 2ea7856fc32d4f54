/* engine/cli/plot: every document is well-formed XML; what is drawn, and what is left out. */
#include "engine/cli/plot.h"

#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- as much of XML as plots use ---- */

/* Name of an element at s; its length. */
static size_t name_len(str s) {
    size_t n = 0;
    while (n < s.n && (isalnum((unsigned char)s.p[n]) || s.p[n] == '-' || s.p[n] == ':')) n++;
    return n;
}

/* name="value" pairs up to '>' or '/'; values hold no markup. False: malformed. */
static bool skip_attributes(str *s) {
    for (;;) {
        while (s->n && isspace((unsigned char)*s->p)) *s = str_from(*s, 1);
        if (s->n && (*s->p == '>' || *s->p == '/')) return true;
        size_t n = name_len(*s);
        if (n == 0 || n + 2 > s->n || s->p[n] != '=' || s->p[n + 1] != '"') return false;
        *s = str_from(*s, n + 2);
        while (s->n && *s->p != '"') {
            if (*s->p == '<' || *s->p == '&') return false;
            *s = str_from(*s, 1);
        }
        if (!s->n) return false;
        *s = str_from(*s, 1);
    }
}

static bool is_entity(str s) {
    return str_starts(s, STR("&lt;")) || str_starts(s, STR("&gt;")) || str_starts(s, STR("&amp;"));
}

/* One root element, every element closed by its own name, no stray markup or control characters in texts. */
static bool is_xml(str s) {
    str open[16];
    int depth = 0, roots = 0;
    while (s.n) {
        if (*s.p != '<') {
            if ((unsigned char)*s.p < 0x20 && *s.p != '\n') return false;
            if (*s.p == '>' || (*s.p == '&' && !is_entity(s)) || (depth == 0 && *s.p != '\n')) return false;
            s = str_from(s, 1);
            continue;
        }
        bool closing = s.n > 1 && s.p[1] == '/';
        s = str_from(s, closing ? 2 : 1);
        str name = { s.p, name_len(s) };
        if (name.n == 0) return false;
        s = str_from(s, name.n);
        if (closing) {
            if (depth == 0 || !str_eq(open[--depth], name)) return false;
        } else {
            if (!skip_attributes(&s) || depth == 16 || (depth == 0 && roots++)) return false;
            if (*s.p == '/')
                s = str_from(s, 1);
            else
                open[depth++] = name;
        }
        if (!s.n || *s.p != '>') return false;
        s = str_from(s, 1);
    }
    return depth == 0 && roots == 1;
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) n++;
    return n;
}

/* The document, checked; freed by the caller. */
static const char *draw(buf *b, const plot_series *series, size_t n) {
    plot_chart c = { "title", "across", "up", series, n, false };
    plot_svg(&c, b);
    assert_true(is_xml(buf_view(b)));
    assert_null(strstr(buf_cstr(b), "nan"));
    assert_null(strstr(buf_cstr(b), "inf"));
    return buf_cstr(b);
}

/* ---- tests ---- */

static void test_the_checker_refuses(void **state) {
    (void)state;
    static const char *const BAD[] = { "",          "<a>",          "<a></b>",     "<a/><b/>", "<a>&</a>",
                                       "<a x=1/>",  "<a x=\"<\"/>", "<a>\x01</a>", "text",     "<a><b></a></b>",
                                       "<a>b>c</a>" };
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) assert_false(is_xml(str_of(BAD[i])));
    assert_true(is_xml(STR("<a x=\"1\"><b/>c &lt; d</a>\n")));
}

static void test_lines_and_marks(void **state) {
    (void)state;
    static const double X[] = { 0, 1, 3 }, Y[] = { 1, 1.5, 0.5 };
    plot_series s[] = { { "one", X, Y, 3, PLOT_LINE, 1 },
                        { "two", X, Y, 2, PLOT_LINE, 2 },
                        { NULL, X, Y, 3, PLOT_MARKS, 2 } };
    buf b = { 0 };
    const char *svg = draw(&b, s, 3);
    assert_int_equal(count(svg, "<polyline"), 2);
    assert_int_equal(count(svg, "<circle"), 3 + 2 + 2); /* the legend has one of each line */
    assert_int_equal(count(svg, "l6 6l-6 6"), 3);
    assert_int_equal(count(svg, ">one<") + count(svg, ">two<"), 2);
    assert_int_equal(count(svg, ">title<") + count(svg, ">across<") + count(svg, ">up<"), 3);
    buf_free(&b);
}

/* Points lie where their values say: the ends of the range are whole steps, here 0..3 and 0..2. */
static void test_points_are_in_place(void **state) {
    (void)state;
    static const double X[] = { 0, 3 }, Y[] = { 0, 2 };
    plot_series s = { "line", X, Y, 2, PLOT_LINE, 1 };
    buf b = { 0 };
    assert_non_null(strstr(draw(&b, &s, 1), "points=\"70.0,400.0 590.0,44.0 \""));
    buf_free(&b);
}

static void test_nothing_to_draw(void **state) {
    (void)state;
    plot_series s = { "empty", NULL, NULL, 0, PLOT_LINE, 1 };
    buf b = { 0 };
    assert_int_equal(count(draw(&b, NULL, 0), "<circle"), 0);
    buf_free(&b);
    const char *svg = draw(&b, &s, 1);
    assert_int_equal(count(svg, "<polyline"), 0);
    assert_int_equal(count(svg, ">empty<"), 1);
    assert_int_equal(count(svg, ">0.2<"), 2); /* ticks of 0 to 1 on both axes */
    buf_free(&b);
}

static void test_one_point_and_equal_values(void **state) {
    (void)state;
    static const double X[] = { 5, 5, 5 }, Y[] = { 0, 0, 0 };
    for (size_t n = 1; n <= 3; n++) {
        plot_series s = { NULL, X, Y, n, PLOT_LINE, 0 };
        buf b = { 0 };
        const char *svg = draw(&b, &s, 1);
        assert_int_equal(count(svg, "<circle"), (int)n);
        assert_int_equal(count(svg, "<polyline"), n > 1);
        buf_free(&b);
    }
}

static void test_what_is_not_finite_is_left_out(void **state) {
    (void)state;
    const double X[] = { 0, 1, 2, INFINITY, 4 }, Y[] = { 1, NAN, INFINITY, 2, 3 };
    plot_series s[] = { { NULL, X, Y, 5, PLOT_LINE, 1 }, { NULL, X + 1, Y + 1, 3, PLOT_MARKS, 2 } };
    buf b = { 0 };
    const char *svg = draw(&b, s, 2);
    assert_int_equal(count(svg, "<circle"), 2);
    assert_int_equal(count(svg, "l6 6l-6 6"), 0);
    buf_free(&b);
}

static void test_ranges_of_any_size(void **state) {
    (void)state;
    static const double SIZE[] = { 1e-9, 0.003, 1, 17, 4096, 3e7, 1e300 };
    for (size_t i = 0; i < sizeof SIZE / sizeof *SIZE; i++) {
        double x[] = { -SIZE[i], 0, SIZE[i] };
        plot_series s = { NULL, x, x, 3, PLOT_LINE, 1 };
        buf b = { 0 };
        int ticks = count(draw(&b, &s, 1), "text-anchor=\"end\"");
        assert_true(ticks >= 4 && ticks <= 11);
        buf_free(&b);
    }
}

static void test_the_axis_from_zero(void **state) {
    (void)state;
    static const double X[] = { 0, 1 }, Y[] = { 90, 100 }, BELOW[] = { -1, 1 };
    plot_series s = { NULL, X, Y, 2, PLOT_LINE, 1 };
    plot_chart c = { "t", "x", "y", &s, 1, true };
    buf b = { 0 };
    plot_svg(&c, &b);
    assert_non_null(strstr(buf_cstr(&b), "points=\"70.0,79.6 590.0,44.0 \""));
    buf_free(&b);
    s.y = BELOW;
    plot_svg(&c, &b);
    assert_non_null(strstr(buf_cstr(&b), "points=\"70.0,400.0 590.0,44.0 \""));
    buf_free(&b);
}

static void test_texts_are_escaped(void **state) {
    (void)state;
    plot_series s = { "a<b & \"c\">d \x01\xff\xc3 e", NULL, NULL, 0, PLOT_LINE, 1 };
    buf b = { 0 };
    assert_int_equal(count(draw(&b, &s, 1), ">a&lt;b &amp; \"c\"&gt;d ??? e<"), 1);
    buf_free(&b);
}

static void test_a_long_legend_makes_room(void **state) {
    (void)state;
    plot_series s[40];
    for (int i = 0; i < 40; i++) s[i] = (plot_series){ "name", NULL, NULL, 0, PLOT_LINE, i };
    buf b = { 0 };
    assert_non_null(strstr(draw(&b, s, 40), "height=\"868\""));
    buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_checker_refuses),        cmocka_unit_test(test_lines_and_marks),
        cmocka_unit_test(test_points_are_in_place),        cmocka_unit_test(test_nothing_to_draw),
        cmocka_unit_test(test_one_point_and_equal_values), cmocka_unit_test(test_what_is_not_finite_is_left_out),
        cmocka_unit_test(test_ranges_of_any_size),         cmocka_unit_test(test_the_axis_from_zero),
        cmocka_unit_test(test_texts_are_escaped),          cmocka_unit_test(test_a_long_legend_makes_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
