/* skiff bench: prefill, plain decoding and fixed-width speculation on the same tokens, in interleaved pairs. What else
 * can be measured has a word of its own. */
#include "engine/cli/bench.h"
#include "engine/cli/cmd.h"
#include "engine/cli/progress.h"
#include "engine/cli/samples.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/core/bytes.h"

#include <stdio.h>
#include <stdlib.h>

static const opt LIST[] = {
    { "prompts", .value = "FILE", OPT_TEXT_AT(bench_opts, prompts),
      .help = "prompts with classes, one JSON object a line; without it a few of our own" },
    { "limit", .preset = "60", OPT_INT_AT(bench_opts, limit, 1, 1000000),
      .help = "how many prompts of the file, spread evenly over it" },
    { "predict", .brief = "n", OPT_INT_AT(bench_opts, tokens, 2, 1000000),
      .help = "tokens per answer; without it 100, with \"spec\" at most 200" },
    { "repeat", .preset = "3", OPT_INT_AT(bench_opts, repeat, 1, 1000),
      .help = "pairs per prompt; perplexity: runs of paired plain steps" },
    { "json", .value = "FILE", OPT_TEXT_AT(bench_opts, json), .help = "also write the results to this file" },
    { .kind = OPT_HEADING, .help = "spec" },
    { "plots", .value = "DIR", OPT_TEXT_AT(bench_opts, plots),
      .help = "also write speed-width.svg and speed-context.svg into this folder" },
    { "temp", .preset = "0", OPT_REAL_AT(bench_opts, temp, 0, 100), .help = "temperature; 0: greedy" },
    { "seed", .preset = "0", OPT_INT_AT(bench_opts, seed, 0, INT64_MAX), .help = "seed of the sampling noise" },
    { "ignore-eos", OPT_SET_AT(bench_opts, ignore_eos), .help = "end tokens do not end the answers" },
    { .kind = OPT_HEADING, .help = "perplexity" },
    { "tokens", .preset = "100000", OPT_INT_AT(bench_opts, text_tokens, 1, INT32_MAX),
      .help = "tokens of the text, at most" },
    { .kind = OPT_HEADING, .help = "model" },
    { "context", .value = "N", OPT_INT_AT(bench_opts, context, 1, INT32_MAX),
      .help = "tokens that a step has behind it, without it 4096; 32768 and 262144 are shown as well" },
    { "share", .value = "P", .preset = "90", OPT_REAL_AT(bench_opts, share, 1, 100),
      .help = "per cent of a card's peak bandwidth that kernels are taken to reach" },
    { "gap", .value = "US", .preset = "1.3", OPT_REAL_AT(bench_opts, gap, 0, 1000),
      .help = "microseconds lost between two kernels" },
    { "measured", .value = "FILE", OPT_TEXT_AT(bench_opts, measured),
      .help = "model: also show what `skiff bench device --json FILE` measured on a card" },
    { "rows", .preset = "8", OPT_INT_AT(bench_opts, rows, 2, 16),
      .help = "rows of a verify pass that is shown beside those of 2, 4, 8 and 16" },
    { .kind = OPT_HEADING, .help = "device" },
    { "layers", .preset = "0", OPT_INT_AT(bench_opts, layers, 0, 256),
      .help = "layers of the target; 0: as many as fit into the GPU's memory" },
    { .kind = OPT_HEADING, .help = "Without a word" },
    SPEC_OPT_ROWS(bench_opts, m),
    MODEL_OPT_ROWS(bench_opts, m),
};

static const opts OPTS = {
    .command = "skiff bench",
    .about =
        "Decodes each prompt greedily, plainly and speculatively in turn, with equal tokens, and reports the "
        "ratio of the two times (above 1: speculation is faster) by class of prompt. \"spec\" does so for plain "
        "decoding, chains, trees, looking up and the adaptive width, and measures what passes cost by rows and "
        "context. \"perplexity FILE\" reads a text with BF16 and with FP8 keys and values and reports the mean "
        "negative log-likelihood per token of both, and the time of plain steps on the same tokens. Compare "
        "ratios, not milliseconds: machines differ. \"model\" measures nothing: from config.json of the folders "
        "alone, without them from the shape of Laguna S 2.1 and its draft, it estimates what steps would take on "
        "GPU cards. \"device\" measures on a GPU, with made-up weights in these shapes: the bandwidth that kernels "
        "reach, and the time of steps.",
    .rest = "[spec | perplexity FILE | model [DIR [DRAFT]] | device]",
    .rest_max = 3,
    .list = LIST,
    .n = sizeof LIST / sizeof *LIST,
    .bytes = sizeof(bench_opts),
};

/* One class of prompts. Times are ms per token, ratios plain / speculative. */
typedef struct class_result {
    char name[24];
    samples plain, spec, ratio;
    int64_t rounds, emitted, draft_ns, verify_ns, rest_ns;
} class_result;

/* Plain decoding behind a prompt of this many tokens. */
typedef struct frontier {
    int32_t ctx;
    samples step; /* ms */
} frontier;
enum { FRONTIERS = 5, FRONTIER_STEPS = 64 };

typedef struct results {
    frontier frontier[FRONTIERS];

    class_result *class;
    size_t n;
    samples prefill; /* ms for PREFILL_TOKENS */
    int32_t prefill_tokens;
} results;

enum { PREFILL_TOKENS = 512 };

static class_result *class_of(results *r, const char *name) {
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->class[i].name, name) == 0) return &r->class[i];
    r->class = xrealloc(r->class, (r->n + 1) * sizeof *r->class);
    class_result *c = &r->class[r->n++];
    *c = (class_result){ 0 };
    snprintf(c->name, sizeof c->name, "%s", name);
    return c;
}

static const pick_params GREEDY = { .top_p = 1.0f };

/* ns for n tokens behind the prompt, prefill outside the clock; fills c's counts when it is a speculative run. */
static int64_t decode(pair *p, const prompt *q, int32_t k, int32_t tree, int32_t n, int32_t *out, class_result *c) {
    out[0] = steps_prompt(p->steps, &GREEDY, q->ids.ids, q->ids.n)->token[0];
    if (k) steps_catch_up(p->steps);
    int64_t start = clock_ns(), mark = start;
    for (int32_t have = 1; have < n;) {
        int32_t width = n - have - 1 < k ? n - have - 1 : k;
        const step_out *o = width <= 0 ? steps_plain(p->steps)
                            : tree     ? steps_tree(p->steps, width, tree, TREE_WIDTH)
                                       : steps_round(p->steps, width);
        for (int32_t i = 0; i < o->n; i++) out[have++] = o->token[i];
        if (!c || width <= 0) continue;
        int64_t now = clock_ns(), draft_ns = step_draft_ns(o), verify_ns = o->stamp[2] - o->stamp[1];
        c->rounds++;
        c->emitted += o->n;
        c->draft_ns += draft_ns;
        c->verify_ns += verify_ns;
        c->rest_ns += now - mark - draft_ns - verify_ns;
        mark = now;
    }
    return clock_ns() - start;
}

static status run_pairs(pair *p, const prompt_set *ps, const bench_opts *o, int32_t k, results *r, err *e) {
    int32_t *plain = xalloc((size_t)(o->tokens + NODES_MAX) * sizeof *plain),
            *spec = xalloc((size_t)(o->tokens + NODES_MAX) * sizeof *spec);
    status s = OK;
    for (int64_t rep = -1; rep < o->repeat && s == OK; rep++) { /* -1 warms up */
        for (size_t i = 0; i < ps->n && s == OK; i++) {
            const prompt *q = &ps->at[i];
            int32_t room = p->ctx - (int32_t)q->ids.n, n = o->tokens < room ? (int32_t)o->tokens : room;
            if (n < 2 || (rep < 0 && i > 3)) continue;
            progress_show("measuring", (float)((double)(rep + 1) * (double)ps->n + (double)i) /
                                           (float)((double)(o->repeat + 1) * (double)ps->n));
            class_result *c = class_of(r, q->class), spare = { 0 };
            bool spec_first = (rep + (int64_t)i) & 1;
            int64_t t[2];
            for (int turn = 0; turn < 2; turn++) {
                bool is_spec = (turn == 0) == spec_first;
                t[is_spec] = decode(p, q, is_spec ? k : 0, (int32_t)o->m.tree, n, is_spec ? spec : plain,
                                    is_spec ? (rep < 0 ? &spare : c) : NULL);
            }
            for (int32_t j = 0; j < n && s == OK; j++)
                if (plain[j] != spec[j])
                    s = err_set(e, ERR_FAULT, "prompt %zu: token %d is %d plainly and %d speculatively", i, j, plain[j],
                                spec[j]);
            if (rep < 0) continue;
            samples_add(&c->plain, (double)t[0] * 1e-6 / (n - 1));
            samples_add(&c->spec, (double)t[1] * 1e-6 / (n - 1));
            samples_add(&c->ratio, (double)t[0] / (double)t[1]);
        }
    }
    progress_clear();
    free(plain);
    free(spec);
    return s;
}

void bench_text(const prompt_set *ps, size_t first, int32_t *ids, int32_t n) {
    size_t q = first % ps->n, at = 0;
    for (int32_t i = 0; i < n; i++) {
        while (at >= ps->at[q].ids.n) q = (q + 1) % ps->n, at = 0;
        ids[i] = ps->at[q].ids.ids[at++];
    }
}

/* Only the tokens behind each frontier are timed. */
static void run_frontiers(pair *p, const prompt_set *ps, results *r) {
    static const int32_t AT[FRONTIERS] = { 64, 512, 1024, 2048, 4000 };
    int32_t *ids = xalloc((size_t)p->ctx * sizeof *ids);
    bench_text(ps, 0, ids, p->ctx);
    for (int i = 0; i < FRONTIERS; i++) {
        frontier *f = &r->frontier[i];
        if (AT[i] + FRONTIER_STEPS >= p->ctx) continue;
        f->ctx = AT[i];
        steps_prompt(p->steps, &GREEDY, ids, (size_t)f->ctx);
        for (int s = 0; s < FRONTIER_STEPS; s++) {
            int64_t start = clock_ns();
            steps_plain(p->steps);
            samples_add(&f->step, (double)(clock_ns() - start) * 1e-6);
        }
        samples_sort(&f->step);
    }
    free(ids);
}

static void run_prefill(pair *p, const prompt_set *ps, const bench_opts *o, results *r) {
    int32_t ids[PREFILL_TOKENS], n = p->ctx - 1 < PREFILL_TOKENS ? p->ctx - 1 : PREFILL_TOKENS;
    bench_text(ps, 0, ids, n);
    r->prefill_tokens = n;
    for (int64_t i = 0; i < 4 * o->repeat + 1; i++) {
        int64_t start = clock_ns();
        steps_prompt(p->steps, &GREEDY, ids, (size_t)n);
        if (i) samples_add(&r->prefill, (double)(clock_ns() - start) * 1e-6);
    }
}

/* Read by a plain step behind so many tokens. */
static pass_bytes step_bytes(const pair *p, int32_t ctx) {
    const target *t = &p->target;
    return bytes_target_pass(&t->cfg, &t->w, t->cfg.experts_per_token, ctx, t->kv.type);
}

static double per_round(int64_t ns, int64_t rounds) { return rounds ? (double)ns * 1e-6 / (double)rounds : 0.0; }

static void print_table(const pair *p, const results *r, int32_t k, int32_t tree) {
    char shape[32] = "chains";
    if (tree) snprintf(shape, sizeof shape, "trees of %d nodes", tree);
    printf("%s, %d thread%s; %d proposals deep, %s; ms, median (least)\n", p->where, p->lanes, p->lanes == 1 ? "" : "s",
           k, shape);
    printf("prefill of %d tokens: %.2f (%.2f), %.0f tokens/s at the median\n", r->prefill_tokens,
           samples_share(&r->prefill, 0.5), samples_share(&r->prefill, 0.0),
           r->prefill_tokens * 1000.0 / samples_share(&r->prefill, 0.5));
    for (int i = 0; i < FRONTIERS; i++) {
        const frontier *f = &r->frontier[i];
        if (!f->step.n) continue;
        pass_bytes b = step_bytes(p, f->ctx);
        printf("plain step at %4d tokens: %.4f (%.4f), %.2f MB read, %.1f GB/s at the median\n", f->ctx,
               samples_share(&f->step, 0.5), samples_share(&f->step, 0.0), (double)b.total * 1e-6,
               (double)b.total * 1e-6 / samples_share(&f->step, 0.5));
    }
    printf("%-12s %6s %18s %18s %20s %9s %8s %8s %8s\n", "class", "pairs", "plain ms/token", "spec ms/token",
           "plain/spec (least)", "tok/round", "draft", "verify", "rest");
    for (size_t i = 0; i < r->n; i++) {
        const class_result *c = &r->class[i];
        printf("%-12s %6zu %9.4f (%.4f) %9.4f (%.4f) %12.3f (%.3f) %9.2f %8.4f %8.4f %8.4f\n", c->name, c->ratio.n,
               samples_share(&c->plain, 0.5), samples_share(&c->plain, 0.0), samples_share(&c->spec, 0.5),
               samples_share(&c->spec, 0.0), samples_share(&c->ratio, 0.5), samples_share(&c->ratio, 0.0),
               c->rounds ? (double)c->emitted / (double)c->rounds : 0.0, per_round(c->draft_ns, c->rounds),
               per_round(c->verify_ns, c->rounds), per_round(c->rest_ns, c->rounds));
    }
}

/* What the machine calls its processor, as a JSON string. */
static void cpu_name(buf *out) {
    char line[256] = "";
    str name = STR("unknown");
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (str_starts(str_of(line), STR("model name")) && strchr(line, ':')) {
            name = str_of(strchr(line, ':') + 2);
            name.n -= str_ends(name, STR("\n"));
            break;
        }
    if (f) fclose(f);
    buf_json_str(out, name);
}

void bench_machine(buf *out, const pair *p) {
    buf_printf(out, "\"cpu\":");
    cpu_name(out);
    buf_printf(out, ",\"compiler\":\"gcc %s\",\"isa\":\"%s\",\"threads\":%d", __VERSION__, p->where, p->lanes);
}

status bench_write_json(json_t *root, const char *path, err *e) {
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(root);
    if (!text) return err_set(e, ERR_FAULT, "%s: the results cannot be written as JSON", path);
    buf b = { 0 };
    buf_printf(&b, "%s\n", text);
    free(text);
    status s = file_write_atomic(path, buf_view(&b), e);
    buf_free(&b);
    return s;
}

static status write_json(const pair *p, const results *r, int32_t k, int32_t tree, const char *path, err *e) {
    buf b = { 0 };
    buf_byte(&b, '{');
    bench_machine(&b, p);
    buf_printf(&b,
               ",\"proposals\":%d,\"tree_nodes\":%d,\n\"prefill\":{\"tokens\":%d,\"ms_median\":%.4f,\"ms_min\":%.4f},"
               "\n\"plain_step\":[",
               k, tree, r->prefill_tokens, samples_share(&r->prefill, 0.5), samples_share(&r->prefill, 0.0));
    for (int i = 0, n = 0; i < FRONTIERS; i++) {
        const frontier *f = &r->frontier[i];
        if (!f->step.n) continue;
        pass_bytes pb = step_bytes(p, f->ctx);
        buf_printf(&b, "%s\n{\"context\":%d,\"ms_median\":%.5f,\"ms_min\":%.5f,\"bytes\":%lld}", n++ ? "," : "", f->ctx,
                   samples_share(&f->step, 0.5), samples_share(&f->step, 0.0), (long long)pb.total);
    }
    buf_str(&b, STR("],\n\"classes\":["));
    for (size_t i = 0; i < r->n; i++) {
        const class_result *c = &r->class[i];
        buf_printf(&b,
                   "%s\n{\"class\":\"%s\",\"pairs\":%zu,\"plain_ms_median\":%.5f,\"plain_ms_min\":%.5f,\"spec_ms_"
                   "median\":%.5f,\"spec_ms_min\":%.5f,"
                   "\"ratio_median\":%.4f,\"ratio_min\":%.4f,\"ratio_max\":%.4f,\"tokens_per_round\":%.4f,\"draft_ms\":"
                   "%.5f,\"verify_ms\":%.5f,\"rest_ms\":%.5f}",
                   i ? "," : "", c->name, c->ratio.n, samples_share(&c->plain, 0.5), samples_share(&c->plain, 0.0),
                   samples_share(&c->spec, 0.5), samples_share(&c->spec, 0.0), samples_share(&c->ratio, 0.5),
                   samples_share(&c->ratio, 0.0), samples_share(&c->ratio, 1.0),
                   c->rounds ? (double)c->emitted / (double)c->rounds : 0.0, per_round(c->draft_ns, c->rounds),
                   per_round(c->verify_ns, c->rounds), per_round(c->rest_ns, c->rounds));
    }
    buf_str(&b, STR("\n]}\n"));
    status s = file_write_atomic(path, buf_view(&b), e);
    buf_free(&b);
    return s;
}

status bench_open(const bench_opts *o, pair *p, prompt_set *ps, err *e) {
    engine_options eo = model_opts_engine(&o->m, 0);
    eo.cache_tokens = CACHE_DEFAULT, eo.checkpoints = CACHE_DEFAULT;
    TRY(pair_load(p, eo.target_dir, eo.draft_dir, true, NULL, NULL, e));
    TRY(pair_start(p, &eo, e));
    steps_set_lanes(p->steps, LANES_BEST); /* as the engine runs */
    TRY(prompts_read(p, o->prompts, o->limit, ps, e));
    if (ps->n == 0) return err_set(e, ERR_REQUEST, "%s: there are no prompts", o->prompts);
    for (size_t i = 0; i < ps->n; i++)
        if (ps->at[i].ids.n == 0 || ps->at[i].ids.n + 2 > (size_t)p->ctx)
            return err_set(e, ERR_TOO_LONG, "prompt %zu has %zu tokens; the context is %d", i, ps->at[i].ids.n, p->ctx);
    return OK;
}

static status bench(const bench_opts *o, err *e) {
    pair p = { 0 };
    prompt_set ps = { 0 };
    results r = { 0 };
    status s = bench_open(o, &p, &ps, e);
    int32_t k = o->m.spec == SPEC_DEFAULT ? 7 : (int32_t)o->m.spec;
    if (s == OK && k > 0 && (!p.has_draft || k >= p.draft.cfg.block_size))
        s = err_set(e, ERR_USAGE, "%d proposals per round: %s", k,
                    p.has_draft ? "more than this draft offers"
                                : "there is no draft; --spec-tokens 0 measures plain decoding");
    if (s == OK) run_prefill(&p, &ps, o, &r);
    if (s == OK) run_frontiers(&p, &ps, &r);
    if (s == OK) s = run_pairs(&p, &ps, o, k, &r, e);
    samples_sort(&r.prefill);
    for (size_t i = 0; i < r.n; i++)
        samples_sort(&r.class[i].plain), samples_sort(&r.class[i].spec), samples_sort(&r.class[i].ratio);
    if (s == OK) print_table(&p, &r, k, (int32_t)o->m.tree);
    if (s == OK && o->json) s = write_json(&p, &r, k, (int32_t)o->m.tree, o->json, e);
    for (size_t i = 0; i < r.n; i++)
        samples_free(&r.class[i].plain), samples_free(&r.class[i].spec), samples_free(&r.class[i].ratio);
    free(r.class);
    samples_free(&r.prefill);
    for (int i = 0; i < FRONTIERS; i++) samples_free(&r.frontier[i].step);
    prompts_free(&ps);
    pair_close(&p);
    return s;
}

static status bench_default(const bench_opts *given, err *e) {
    bench_opts o = *given;
    if (!o.tokens) o.tokens = 100;
    return bench(&o, e);
}

/* By the first word; the first row is what happens without one. */
static const struct {
    const char *word;
    size_t least, most; /* words, this one included */
    const char *behind; /* what may follow it */
    status (*run)(const bench_opts *o, err *e);
} KINDS[] = { { "", 0, 0, "", bench_default },
              { "spec", 1, 1, "nothing behind it", bench_spec },
              { "perplexity", 2, 2, "a file with text", bench_perplexity },
              { "model", 1, 3, "at most the folders of a target and its draft", bench_model },
              { "device", 1, 1, "nothing behind it", bench_device } };

static status run(bench_opts *o, const opts_found *found, err *e) {
    const char *word = found->n_rest ? found->rest[0] : "";
    o->text = o->dir = found->n_rest > 1 ? found->rest[1] : NULL;
    o->draft_dir = found->n_rest > 2 ? found->rest[2] : NULL;
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        if (strcmp(word, KINDS[i].word) != 0) continue;
        if (found->n_rest >= KINDS[i].least && found->n_rest <= KINDS[i].most) return KINDS[i].run(o, e);
        return err_set(e, ERR_USAGE, "bench %s: expected %s", word, KINDS[i].behind);
    }
    return err_set(e, ERR_USAGE, "bench %s: expected \"spec\", \"perplexity\", \"model\", \"device\" or no word", word);
}

int cmd_bench(int argc, char **argv) {
    bench_opts o = { .m.spec = SPEC_DEFAULT };
    opts_found found = { 0 };
    int code;
    if (!cmd_parse(&OPTS, argc, argv, &o, &found, &code)) return code;
    err e;
    code = run(&o, &found, &e) == OK ? 0 : cmd_fail(&e);
    opts_found_deinit(&found);
    return code;
}
