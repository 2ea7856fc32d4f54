/* engine/cli/bench_spec.h - the parts of "skiff bench spec": answers decoded with every setting, times of passes, and
 * what is said about them. All of it runs on one thread. Times are ns, ratios times of plain steps over others. */
#ifndef ENGINE_CLI_BENCH_SPEC_H
#define ENGINE_CLI_BENCH_SPEC_H
#include "engine/cli/bench.h"
#include "engine/cli/samples.h"
#include "engine/core/propose.h"

/* A way to decode. */
typedef struct spec_setting {
    const char *name;
    spec_mode mode;      /* OFF, FIXED or AUTO */
    int32_t depth, tree; /* FIXED: proposals in a row, nodes of a tree (0: a chain). AUTO takes what there is */
    bool drafting, looking;
} spec_setting;

enum {
    SET_PLAIN,
    SET_CHAINS, /* the first of them */
    SET_CHAIN_7 = SET_CHAINS + 4,
    SET_CHAIN_15 = SET_CHAINS + 6,
    SET_TREE_7, /* as many rows as the chains of 7 and 15 */
    SET_TREE_15,
    SET_LOOKUP,
    SET_AUTO_DRAFT,
    SET_AUTO,
    SPEC_SETTINGS
};
extern const spec_setting spec_settings[SPEC_SETTINGS];

/* What a setting keeps from answer to answer. */
typedef struct spec_player {
    bool on; /* this pair can do it */
    width width;
    lookup *lookup; /* NULL: nothing is looked up */
} spec_player;

/* One answer. A zeroed ns means that it ended with its first token. */
typedef struct spec_answer {
    const int32_t *prompt;
    int32_t n_prompt, max_new;
    bool ignore_end;
    int32_t *ids; /* room for max_new and NODES_MAX more */
    int32_t n;    /* of these, the end token included */
    int64_t ns;   /* from the end of the first token to the end of the last */
} spec_answer;

/* Decode steps of many answers. tokens: without the first of every answer. */
typedef struct spec_sum {
    int64_t steps, tokens, rows;
    int64_t draft_ns, verify_ns, rest_ns;
    int64_t outside_ns; /* of these, not inside a recorded step */
    int64_t by_reason[SPEC_REASONS], by_rows[SPEC_POSITIONS + 1];
    int64_t draft_drafted, draft_accepted, lookup_drafted, lookup_accepted;
} spec_sum;

/* One decode step, as the controller met it. */
typedef struct spec_step {
    width_input in; /* p is not kept */
    width_choice choice;
    lookup_match match;
    step_out out;
    int64_t ns, now;
} spec_step;

typedef struct spec_trace {
    spec_step *at;
    int32_t n, cap;
} spec_trace;

/* The same prompt and repeat with every setting; ns 0: was not measured. */
typedef struct spec_pair {
    int class;
    int32_t tokens;
    int64_t ns[SPEC_SETTINGS];
} spec_pair;

typedef struct spec_class {
    char name[24];
    spec_sum sum[SPEC_SETTINGS];
} spec_class;

/* Median ns by size behind a context: a pass with so many rows, and drafting so many. */
enum { COST_CONTEXTS = 3, COST_PASSES = 10, COST_DRAFTS = 6 };
extern const int32_t spec_pass_rows[COST_PASSES], spec_draft_rows[COST_DRAFTS];
typedef struct spec_cost {
    int32_t ctx; /* 0: the model's context is too short for another one */
    double pass[COST_PASSES];
    double draft[COST_DRAFTS]; /* 0: there is no such draft */
} spec_cost;

/* Tokens per second behind a context, and the ratio of pairs. */
enum { SPEED_CONTEXTS = 5 };
typedef struct spec_speed {
    int32_t ctx; /* 0: likewise */
    samples plain, adaptive, ratio;
} spec_speed;

/* What looking up, choosing and learning take, ns per step, clock readings included. */
typedef struct spec_control {
    double look_up, choose, learn;
    double step, round; /* of plain decoding; of steps with proposals. 0: there were none */
} spec_control;

/* Time to the first token of a turn that adds some tokens to a known conversation, ns. */
typedef struct spec_turn {
    int32_t known, added;                  /* tokens; known 0: the context is too short */
    double cold;                           /* of the known part, when nothing is known */
    samples extended;                      /* the live conversation goes on */
    samples resumed;                       /* it is taken up from a checkpoint */
    samples alone;                         /* only the added rows, nothing looked for or kept */
    samples ratio_extended, ratio_resumed; /* over alone, by pair */
} spec_turn;

typedef struct spec_bench {
    const bench_opts *o;
    pair pair;
    prompt_set prompts;
    pick_params pick;
    int32_t max_new;
    spec_player player[SPEC_SETTINGS];
    spec_class *class;
    int n_classes;
    spec_pair *at;
    size_t n;
    spec_cost cost[COST_CONTEXTS];
    spec_speed speed[SPEED_CONTEXTS];
    spec_control control;
    spec_turn turn;
} spec_bench;

/* ---- bench_spec_run.c ---- */
status spec_players_open(spec_bench *b, err *e);
void spec_players_close(spec_bench *b);
/* Decodes with one setting. Adds to sum and trace, where there are such. */
void spec_decode(spec_bench *b, int setting, spec_answer *a, spec_sum *sum, spec_trace *t);
/* ERR_FAULT, naming setting and token, when the answers differ. `what` is a prompt's name. */
status spec_compare(const char *what, const spec_answer *plain, const spec_answer *other, int setting, err *e);

/* ---- bench_spec_cost.c ---- */
void spec_run_costs(spec_bench *b);
status spec_run_speeds(spec_bench *b, err *e); /* samples end sorted */
void spec_run_control(spec_bench *b);

/* ---- bench_spec_turn.c ---- */
/* Last of all: takes over the pair's pages. Samples end sorted. */
status spec_run_turns(spec_bench *b, err *e);
void spec_turn_free(spec_turn *r);

/* ---- bench_spec_report.c: classes by number, -1 all together ---- */
/* Of all pairs that have both times: ns of `over` divided by ns of `under`, sorted; the caller frees. */
samples spec_ratios(const spec_bench *b, int class, int over, int under);
double spec_ratio(const spec_bench *b, int class, int over, int under); /* their median; 0: no pairs */

typedef struct spec_summary {
    int best_fixed, best_chain; /* settings with the largest median ratio; -1: none was measured */
    double auto_plain;          /* medians over pairs: how many times as fast auto is */
    double auto_fixed, auto_chain;
    double tree_7, tree_15; /* ratios of medians: tree over chain of as many rows */
} spec_summary;
spec_summary spec_summarize(const spec_bench *b, int class);
const char *spec_class_name(const spec_bench *b, int class);
void spec_print(const spec_bench *b); /* stdout */

/* ---- bench_spec_files.c ---- */
status spec_write_json(const spec_bench *b, const char *path, err *e);
status spec_write_plots(const spec_bench *b, const char *dir, err *e);
#endif
