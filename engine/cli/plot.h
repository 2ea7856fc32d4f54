/* engine/cli/plot.h - a line chart as one SVG text: axes, ticks, labels, a legend; readable on white, no scripts. Pure.
 */
#ifndef ENGINE_CLI_PLOT_H
#define ENGINE_CLI_PLOT_H
#include <stdbool.h>
#include "engine/base/buf.h"

typedef enum plot_style { PLOT_LINE, PLOT_MARKS } plot_style;

/* n points in the order in which they are joined. Those with a coordinate that is not finite are left out. */
typedef struct plot_series {
    const char *label; /* in the legend; NULL: not there. A series without points may stand for its label alone */
    const double *x, *y;
    size_t n;
    plot_style style; /* a line with a dot at every point, or diamonds alone */
    int color;        /* 0 black, else one of eight, in turn */
} plot_series;

typedef struct plot_chart {
    const char *title, *x_label, *y_label;
    const plot_series *series;
    size_t n;
    bool from_zero; /* the y axis begins at 0, when no point lies below */
} plot_chart;

/* Appends a whole document, 760 by 460 units and higher where the legend needs it. Texts may hold any bytes. */
void plot_svg(const plot_chart *c, buf *out);
#endif
