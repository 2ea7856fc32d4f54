/* skiff bench spec: settings of speculation on a mix of prompts. All settings of one prompt run one behind the other,
 * so that what the machine does meanwhile hits them alike; which one begins changes each time. */
#include "engine/cli/bench_spec.h"

#include "engine/base/mem.h"
#include "engine/cli/progress.h"

#include <stdio.h>
#include <stdlib.h>

enum { WARM_PROMPTS = 2, WARM_TOKENS = 48 };

static int class_of(spec_bench *b, const char *name) {
    for (int i = 0; i < b->n_classes; i++)
        if (strcmp(b->class[i].name, name) == 0) return i;
    b->class = xrealloc(b->class, (size_t)(b->n_classes + 1) * sizeof *b->class);
    spec_class *c = &b->class[b->n_classes];
    *c = (spec_class){ 0 };
    snprintf(c->name, sizeof c->name, "%s", name);
    return b->n_classes++;
}

static spec_answer answer_of(const spec_bench *b, const prompt *q, int32_t *ids) {
    int32_t n = (int32_t)q->ids.n, room = b->pair.ctx - n;
    return (spec_answer){ .prompt = q->ids.ids,
                          .n_prompt = n,
                          .max_new = b->max_new < room ? b->max_new : room,
                          .ignore_end = b->o->ignore_eos,
                          .ids = ids };
}

/* Pages and caches, with settings that learn nothing from it. */
static void warm_up(spec_bench *b, int32_t *ids) {
    for (size_t i = 0; i < b->prompts.n && i < WARM_PROMPTS; i++) {
        for (int s = 0; s < SPEC_SETTINGS; s++) {
            if (!b->player[s].on || spec_settings[s].mode == SPEC_AUTO) continue;
            spec_answer a = answer_of(b, &b->prompts.at[i], ids);
            if (a.max_new > WARM_TOKENS) a.max_new = WARM_TOKENS;
            spec_decode(b, s, &a, NULL, NULL);
        }
    }
}

/* Which setting is the k-th of a turn. Another one begins each time, and neighbours differ too: what a setting leaves
 * in caches and lanes is not always left to the same one. Any step works, since the number of settings is prime. */
static int setting_at(size_t turn, int k) {
    size_t step = 1 + turn * 5 % (SPEC_SETTINGS - 1);
    return (int)((turn + (size_t)k * step) % SPEC_SETTINGS);
}
_Static_assert(SPEC_SETTINGS == 13, "another prime, or another order of settings");

/* One prompt with every setting. ids: room for all answers, `stride` apart. */
static status run_pair(spec_bench *b, size_t i, size_t turn, int32_t *ids, size_t stride, err *e) {
    const prompt *q = &b->prompts.at[i];
    spec_answer a[SPEC_SETTINGS];
    spec_pair *r = &b->at[b->n];
    *r = (spec_pair){ .class = class_of(b, q->class) };
    for (int k = 0; k < SPEC_SETTINGS; k++) {
        int s = setting_at(turn, k);
        if (!b->player[s].on) continue;
        a[s] = answer_of(b, q, ids + (size_t)s * stride);
        spec_decode(b, s, &a[s], &b->class[r->class].sum[s], NULL);
        r->ns[s] = a[s].ns;
    }
    r->tokens = a[SET_PLAIN].n - 1;
    char what[64];
    snprintf(what, sizeof what, "prompt %zu (%s)", i, q->class);
    for (int s = SET_PLAIN + 1; s < SPEC_SETTINGS; s++)
        if (b->player[s].on) TRY(spec_compare(what, &a[SET_PLAIN], &a[s], s, e));
    if (r->tokens > 0) b->n++;
    return OK;
}

static status run_pairs(spec_bench *b, err *e) {
    size_t stride = (size_t)b->max_new + NODES_MAX, total = (size_t)b->o->repeat * b->prompts.n, done = 0;
    int32_t *ids = xalloc(SPEC_SETTINGS * stride * sizeof *ids);
    b->at = xalloc(total * sizeof *b->at);
    status s = OK;
    warm_up(b, ids);
    for (int64_t rep = 0; rep < b->o->repeat && s == OK; rep++)
        for (size_t i = 0; i < b->prompts.n && s == OK; i++, done++) {
            progress_show("decoding", (float)done / (float)total);
            s = run_pair(b, i, done, ids, stride, e);
        }
    progress_clear();
    free(ids);
    return s;
}

static status run(spec_bench *b, err *e) {
    TRY(bench_open(b->o, &b->pair, &b->prompts, e));
    b->pick = (pick_params){ .temperature = (float)b->o->temp, .top_p = 1.0f, .seed = (uint64_t)b->o->seed };
    int32_t most = b->pair.ctx - 1;
    b->max_new = !b->o->tokens ? 200 : b->o->tokens < most ? (int32_t)b->o->tokens : most;
    TRY(spec_players_open(b, e));
    TRY(run_pairs(b, e));
    if (b->n == 0)
        return err_set(e, ERR_REQUEST, "every answer ends with its first token: there is nothing to measure");
    spec_run_costs(b);
    TRY(spec_run_speeds(b, e));
    spec_run_control(b);
    TRY(spec_run_turns(b, e));
    spec_print(b);
    if (b->o->json) TRY(spec_write_json(b, b->o->json, e));
    if (b->o->plots) TRY(spec_write_plots(b, b->o->plots, e));
    return OK;
}

status bench_spec(const bench_opts *o, err *e) {
    spec_bench *b = xalloc(sizeof *b);
    b->o = o;
    status s = run(b, e);
    for (int i = 0; i < SPEED_CONTEXTS; i++) {
        samples_free(&b->speed[i].plain);
        samples_free(&b->speed[i].adaptive);
        samples_free(&b->speed[i].ratio);
    }
    spec_turn_free(&b->turn);
    spec_players_close(b);
    prompts_free(&b->prompts);
    pair_close(&b->pair);
    free(b->class);
    free(b->at);
    free(b);
    return s;
}
