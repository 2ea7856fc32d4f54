/* engine/server/api_usage.h - the `usage` and `timings` objects of the OpenAI-style endpoints. Numbers are measured. */
#ifndef ENGINE_SERVER_API_USAGE_H
#define ENGINE_SERVER_API_USAGE_H
#include "engine/base/buf.h"
#include "engine/engine.h"
#include "engine/server/jsonw.h"

/* What the server saw of one request; the engine's totals take the place of `totals` when the request is over. */
typedef struct api_meter {
    int64_t began_ns; /* request complete */
    int64_t template_ns, tokenize_ns;
    int64_t submitted_ns; /* 0: not yet, as all that follow */
    int64_t started_ns;   /* left the queue */
    int64_t first_ns;     /* first token was there */
    bool whole;           /* totals are those of the whole answer */
    gen_totals totals;
    buf steps; /* int32_t microseconds of each decode step */
} api_meter;

void api_meter_deinit(api_meter *m);
void api_meter_event(api_meter *m, const gen_event *ev); /* every event of the generation, in order */

void api_write_usage(jsonw *w, const gen_totals *t); /* t->reasoning -1: not counted yet, left out */
void api_write_timings(jsonw *w, const api_meter *m);
#endif
