#include "engine/cli/plot.h"

#include "engine/base/utf8.h"

#include <math.h>
#include <stdio.h>

enum { WIDTH = 760, HEIGHT = 460, LEFT = 70, RIGHT = 590, TOP = 44, BOTTOM = 400, LEGEND_X = 606, LEGEND_STEP = 20 };
enum { TICKS = 6 }; /* about so many on an axis */

/* Told apart by people who see fewer colours too, and dark enough for thin lines on white. */
static const char *const COLORS[] = { "#222222", "#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#8c6d00", "#3aa0d8", "#7a3db8", "#a03030" };
enum { COLORS_N = sizeof COLORS / sizeof *COLORS };

/* One axis: the range that is shown, from `from` to `to` units of the picture. */
typedef struct axis {
    double low, high, step;
    double from, to;
} axis;

/* Text of an element: markup is escaped, and what XML does not allow becomes a question mark. */
static void put_text(buf *b, const char *text) {
    for (str s = str_of(text); s.n;) {
        uint32_t cp = 0;
        size_t n = utf8_decode(s, &cp);
        if (n == 0 || cp < 0x20 || cp == 0xfffe || cp == 0xffff)
            buf_byte(b, '?');
        else if (cp == '<')
            buf_str(b, STR("&lt;"));
        else if (cp == '>')
            buf_str(b, STR("&gt;"));
        else if (cp == '&')
            buf_str(b, STR("&amp;"));
        else
            buf_put(b, s.p, n);
        s = str_from(s, n ? n : 1);
    }
}

static void put_label(buf *b, double x, double y, const char *attributes, const char *text) {
    buf_printf(b, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    put_text(b, text);
    buf_str(b, STR("</text>\n"));
}

/* 1, 2 or 5 times a power of ten, so that about TICKS of them make `span`. */
static double nice_step(double span) {
    double raw = span / TICKS, power = pow(10.0, floor(log10(raw))), rest = raw / power;
    return power * (rest < 1.5 ? 1.0 : rest < 3.5 ? 2.0 : rest < 7.5 ? 5.0 : 10.0);
}

/* The range becomes whole steps. Without any point it is 0 to 1; a single value gets room around it. */
static void axis_fit(axis *a, double low, double high) {
    if (!(low <= high)) low = 0.0, high = 1.0;
    if (high - low <= 1e-12 * fabs(high)) {
        double room = high != 0.0 ? 0.5 * fabs(high) : 0.5;
        low -= room, high += room;
    }
    a->step = nice_step(high - low);
    a->low = a->step * floor(low / a->step + 1e-9);
    a->high = a->step * ceil(high / a->step - 1e-9);
}

static double axis_at(const axis *a, double v) {
    return a->from + (a->to - a->from) * ((v - a->low) / (a->high - a->low));
}

static bool is_shown(const plot_series *s, size_t i) { return isfinite(s->x[i]) && isfinite(s->y[i]); }

static void fit(const plot_chart *c, axis *x, axis *y) {
    double low[2] = { INFINITY, INFINITY }, high[2] = { -INFINITY, -INFINITY };
    for (size_t k = 0; k < c->n; k++) {
        const plot_series *s = &c->series[k];
        for (size_t i = 0; i < s->n; i++) {
            if (!is_shown(s, i)) continue;
            low[0] = fmin(low[0], s->x[i]), high[0] = fmax(high[0], s->x[i]);
            low[1] = fmin(low[1], s->y[i]), high[1] = fmax(high[1], s->y[i]);
        }
    }
    if (c->from_zero && low[1] > 0.0) low[1] = 0.0;
    *x = (axis){ .from = LEFT, .to = RIGHT };
    *y = (axis){ .from = BOTTOM, .to = TOP };
    axis_fit(x, low[0], high[0]);
    axis_fit(y, low[1], high[1]);
}

static void put_axes(buf *b, const axis *x, const axis *y) {
    char tick[32];
    int n = (int)lround((x->high - x->low) / x->step), m = (int)lround((y->high - y->low) / y->step);
    for (int i = 0; i <= m; i++) {
        double v = y->low + i * y->step, at = axis_at(y, v);
        buf_printf(b, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#e2e2e2\"/>\n", LEFT, at, RIGHT, at);
        snprintf(tick, sizeof tick, "%.6g", fabs(v) < 1e-9 * y->step ? 0.0 : v);
        put_label(b, LEFT - 8, at + 4, "text-anchor=\"end\"", tick);
    }
    for (int i = 0; i <= n; i++) {
        double v = x->low + i * x->step, at = axis_at(x, v);
        buf_printf(b, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#444444\"/>\n", at, BOTTOM, at,
                   BOTTOM + 5);
        snprintf(tick, sizeof tick, "%.6g", fabs(v) < 1e-9 * x->step ? 0.0 : v);
        put_label(b, at, BOTTOM + 20, "text-anchor=\"middle\"", tick);
    }
    buf_printf(b, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#444444\"/>\n", LEFT, TOP, BOTTOM, RIGHT);
}

static void put_mark(buf *b, plot_style style, const char *color, double x, double y) {
    if (style == PLOT_MARKS) /* a white edge keeps it visible on a line */
        buf_printf(b, "<path d=\"M%.1f %.1fl6 6l-6 6l-6 -6z\" fill=\"%s\" stroke=\"#ffffff\"/>\n", x, y - 6.0, color);
    else
        buf_printf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x, y, color);
}

static const char *color_of(const plot_series *s) {
    return s->color <= 0 ? COLORS[0] : COLORS[1 + (s->color - 1) % (COLORS_N - 1)];
}

static void put_series(buf *b, const plot_series *s, const axis *x, const axis *y) {
    const char *color = color_of(s);
    size_t shown = 0;
    for (size_t i = 0; i < s->n; i++) shown += is_shown(s, i);
    if (s->style == PLOT_LINE && shown > 1) {
        buf_str(b, STR("<polyline points=\""));
        for (size_t i = 0; i < s->n; i++)
            if (is_shown(s, i)) buf_printf(b, "%.1f,%.1f ", axis_at(x, s->x[i]), axis_at(y, s->y[i]));
        buf_printf(b, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", color);
    }
    for (size_t i = 0; i < s->n; i++)
        if (is_shown(s, i)) put_mark(b, s->style, color, axis_at(x, s->x[i]), axis_at(y, s->y[i]));
}

static void put_legend(buf *b, const plot_chart *c) {
    double y = TOP + 8;
    for (size_t k = 0; k < c->n; k++) {
        const plot_series *s = &c->series[k];
        if (!s->label) continue;
        if (s->style == PLOT_LINE)
            buf_printf(b, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\"/>\n",
                       LEGEND_X, y, LEGEND_X + 22, y, color_of(s));
        put_mark(b, s->style, color_of(s), LEGEND_X + 11, y);
        put_label(b, LEGEND_X + 30, y + 4, "text-anchor=\"start\"", s->label);
        y += LEGEND_STEP;
    }
}

void plot_svg(const plot_chart *c, buf *out) {
    axis x, y;
    fit(c, &x, &y);
    int height = TOP + 24 + LEGEND_STEP * (int)c->n;
    if (height < HEIGHT) height = HEIGHT;
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
               "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">\n"
               "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
               WIDTH, height, WIDTH, height, WIDTH, height);
    put_label(out, LEFT, 24, "font-size=\"15\"", c->title);
    put_axes(out, &x, &y);
    put_label(out, (LEFT + RIGHT) / 2, BOTTOM + 42, "text-anchor=\"middle\"", c->x_label);
    put_label(out, 0, 0, "text-anchor=\"middle\" transform=\"translate(18 222) rotate(-90)\"", c->y_label);
    for (size_t k = 0; k < c->n; k++) put_series(out, &c->series[k], &x, &y);
    put_legend(out, c);
    buf_str(out, STR("</svg>\n"));
}
