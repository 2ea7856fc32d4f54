/* skiff run: one prompt, streamed to the terminal. */
#include "engine/cli/cmd.h"
#include "engine/cli/input.h"
#include "engine/cli/model_opts.h"
#include "engine/cli/progress.h"
#include "engine/cli/run_shape.h"
#include "engine/cli/run_tools.h"
#include "engine/text/chat.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

enum { EXIT_INTERRUPTED = 130 };

typedef struct run_opts {
    model_opts m;
    bool raw, json, quiet, ignore_end, json_object;
    bool guard; /* control tokens in the prompt are text */
    int think;  /* auto, on, off */
    const char *system, *stop, *tools, *tool_choice, *json_schema;
    int64_t predict, top_k, seed, min_tokens, thinking_max;
    double temperature, top_p, min_p, repeat, presence, frequency;
} run_opts;

static const opt LIST[] = {
    { .kind = OPT_HEADING, .help = "Prompt" },
    { "raw", OPT_SET_AT(run_opts, raw), .help = "complete the text as it is, without the chat template" },
    { "no-control-in-content", OPT_SET_AT(run_opts, guard),
      .help = "control tokens in the prompt are ordinary characters" },
    { "system", .value = "TEXT", OPT_TEXT_AT(run_opts, system), .help = "system message of the chat" },
    { "reasoning", .preset = "auto", OPT_CHOICE_AT(run_opts, think, "auto on off"),
      .help = "whether the model thinks before it answers; auto: as the model's files say" },
    { "thinking-budget", .aliases = "reasoning-budget", .value = "N", .preset = "-1",
      OPT_INT_AT(run_opts, thinking_max, -1, INT32_MAX),
      .help =
          "thinking ends after N tokens, sooner when the answer would get less than a quarter of all; -1: no limit" },
    { "tools", .value = "FILE", OPT_TEXT_AT(run_opts, tools),
      .help = "tools that the answer may call: a JSON array as in the tools of a chat request. Calls are printed as "
              "\"tool call: NAME {ARGUMENTS}\"; nothing is executed" },
    { .kind = OPT_HEADING, .help = "Answer" },
    { "predict", .brief = "n", .aliases = "n-predict max-tokens", .preset = "0",
      OPT_INT_AT(run_opts, predict, 0, INT32_MAX), .help = "most tokens of the answer; 0: the rest of the context" },
    { "stop", .value = "TEXT", OPT_TEXT_AT(run_opts, stop), .help = "end the answer before this text" },
    { "ignore-eos", OPT_SET_AT(run_opts, ignore_end),
      .help = "end tokens do not end the answer, unless its form is prescribed and complete" },
    { "json-schema", .value = "FILE", OPT_TEXT_AT(run_opts, json_schema),
      .help = "the answer is a JSON text that is valid under the schema in this file; cut by --predict it is the "
              "beginning of one" },
    { "json-object", OPT_SET_AT(run_opts, json_object), .help = "the answer is a JSON object" },
    { "tool-choice", .value = "CHOICE", .preset = "auto", OPT_TEXT_AT(run_opts, tool_choice),
      .help = "\"auto\"; \"required\": the answer calls one of --tools, or several; the name of a tool: it calls "
              "this one" },
    { "temp", .aliases = "temperature", OPT_REAL_AT(run_opts, temperature, 0, 100),
      .help = "temperature, 0: greedy; without it as generation_config.json says" },
    { "top-k", OPT_INT_AT(run_opts, top_k, 0, INT32_MAX), .help = "keep the K likeliest tokens; 0: all" },
    { "top-p", OPT_REAL_AT(run_opts, top_p, 1e-6, 1), .help = "keep the likeliest tokens up to this probability" },
    { "min-p", OPT_REAL_AT(run_opts, min_p, 0, 1), .help = "drop tokens below this share of the likeliest one" },
    { "repeat-penalty", .aliases = "repetition-penalty", OPT_REAL_AT(run_opts, repeat, 1e-6, REPEAT_MAX),
      .help = "divide the logits of tokens that occur in prompt or answer; 1: off" },
    { "presence-penalty", OPT_REAL_AT(run_opts, presence, -PENALTY_LIMIT, PENALTY_LIMIT),
      .help = "take this off the logits of tokens that occur; 0: off" },
    { "frequency-penalty", OPT_REAL_AT(run_opts, frequency, -PENALTY_LIMIT, PENALTY_LIMIT),
      .help = "take this off for every time that the token occurs; 0: off" },
    { "min-tokens", .preset = "0", OPT_INT_AT(run_opts, min_tokens, 0, INT32_MAX),
      .help = "no end token before the answer has so many tokens" },
    { "seed", .preset = "0", OPT_INT_AT(run_opts, seed, -1, INT64_MAX),
      .help = "seed of the sampling noise: the same seed gives the same text, with and without speculation; -1: a "
              "random one" },
    ENGINE_SPEC_OPT_ROWS(run_opts, m),
    { .kind = OPT_HEADING, .help = "Output" },
    { "json", OPT_SET_AT(run_opts, json),
      .help = "one JSON object at the end instead of streamed text: token ids, text, statistics" },
    { "quiet", .brief = "q", OPT_SET_AT(run_opts, quiet), .help = "no statistics on stderr" },
    MODEL_OPT_ROWS(run_opts, m),
};

static const opts OPTS = {
    .command = "skiff run",
    .about =
        "Answers one prompt and prints the answer as it comes. The prompt is the argument, or standard input when the "
        "argument is \"-\" or absent.",
    .rest = "[PROMPT|-]",
    .rest_max = 1,
    .list = LIST,
    .n = sizeof LIST / sizeof *LIST,
    .bytes = sizeof(run_opts),
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    (void)number;
    interrupted = 1;
}

/* ---- prompt ---- */

static status prompt_text(const opts_found *found, buf *out, err *e) {
    if (found->n_rest == 0 && isatty(STDIN_FILENO))
        return err_set(e, ERR_USAGE, "no prompt: give it as an argument, or \"-\" for standard input");
    return input_text(found, &interrupted, out, e);
}

static status render(const run_opts *o, const run_tools *tools, const text_model *tm, str prompt, buf *out, err *e) {
    json_t *messages = json_array(), *kwargs = json_object();
    if (o->system) json_array_append_new(messages, json_pack("{ss,ss}", "role", "system", "content", o->system));
    json_t *content = json_stringn(prompt.p, prompt.n);
    status s = content ? OK : err_set(e, ERR_REQUEST, "the prompt is not valid UTF-8");
    json_array_append_new(messages, json_pack("{ss,so*}", "role", "user", "content", content));
    if (o->think) json_object_set_new(kwargs, "enable_thinking", json_boolean(o->think == 1));
    chat_request rq = { .messages = messages,
                        .tools = tools->list,
                        .kwargs = kwargs,
                        .add_generation_prompt = true,
                        .source = buf_view(&tools->source),
                        .guard = o->guard };
    if (s == OK) s = chat_render(tm, &rq, out, NULL, e);
    json_decref(messages);
    json_decref(kwargs);
    return s;
}

/* Prompt text to token ids and start state, in the request's arena. */
static status encode(const run_opts *o, const run_tools *tools, const text_model *tm, str prompt, gen_request *rq,
                     err *e) {
    buf rendered = { 0 };
    token_list ids = { 0 };
    status s = OK;
    if (o->raw) {
        int32_t start = text_start_token(tm);
        if (start >= 0) token_list_push(&ids, start);
        s = text_encode(tm, prompt, !o->guard, &ids, e);
        if (s == OK && ids.n >= 2 && start >= 0 && ids.ids[1] == start)
            memmove(ids.ids, ids.ids + 1, --ids.n * sizeof *ids.ids);
        rq->reply.start = REPLY_RAW;
    } else {
        s = render(o, tools, tm, prompt, &rendered, e);
        if (s == OK) s = chat_encode(tm, buf_view(&rendered), o->guard, NULL, &ids, e);
        if (s == OK) rq->reply.start = chat_start(tm, ids.ids, ids.n);
        rq->thinks = rq->reply.start == REPLY_REASONING;
        rq->thinks_at_most = o->thinking_max >= 0;
        rq->thinking_max = (int32_t)o->thinking_max;
    }
    if (s == OK) {
        int32_t *copy = arena_alloc(rq->mem, ids.n * sizeof *copy);
        if (ids.n) memcpy(copy, ids.ids, ids.n * sizeof *copy);
        rq->tokens = copy, rq->n_tokens = ids.n;
    }
    buf_free(&rendered);
    token_list_free(&ids);
    return s;
}

static uint64_t random_seed(void) {
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = (uint64_t)getpid();
    return seed >> 1; /* fits --seed, so that the run can be repeated */
}

static void fill_options(const run_opts *o, const opts_found *found, const engine_facts *f, gen_request *rq) {
    rq->max_new = o->predict ? (int32_t)o->predict : INT32_MAX;
    rq->pick = f->pick;
    if (opts_given(&OPTS, found, "temp")) rq->pick.temperature = (float)o->temperature;
    if (opts_given(&OPTS, found, "top-k")) rq->pick.top_k = (int32_t)o->top_k;
    if (opts_given(&OPTS, found, "top-p")) rq->pick.top_p = (float)o->top_p;
    if (opts_given(&OPTS, found, "min-p")) rq->pick.min_p = (float)o->min_p;
    if (opts_given(&OPTS, found, "repeat-penalty")) rq->pick.repeat = (float)o->repeat;
    rq->pick.presence = (float)o->presence;
    rq->pick.frequency = (float)o->frequency;
    rq->pick.min_new = (int32_t)o->min_tokens;
    rq->logprobs = -1;
    rq->pick.seed = o->seed < 0 ? random_seed() : (uint64_t)o->seed;
    rq->spec = model_opts_spec(&o->m);
    rq->reply.ignore_end = o->ignore_end;
    if (o->stop && o->stop[0]) {
        str *stop = arena_alloc(rq->mem, sizeof *stop);
        *stop = arena_str(rq->mem, str_of(o->stop));
        rq->reply.stop = stop, rq->reply.n_stop = 1;
    }
}

/* ---- output ---- */

typedef struct answer {
    buf text, reasoning, ids; /* ids: int32_t */
    run_calls calls;
    gen_totals totals;
    gen_done why;
    uint64_t seed;
    bool done, broken_pipe, in_reasoning, has_shown;
    err failure;
    bool failed;
} answer;

static const char *finish_reason(const answer *a) {
    switch (a->why) {
    case DONE_LENGTH: return "length";
    case DONE_CANCELLED: return "cancelled";
    default: return a->calls.n ? "tool_calls" : "stop";
    }
}

static double per_second(int64_t n, int64_t ns) { return ns > 0 ? (double)n * 1e9 / (double)ns : 0.0; }

static double tokens_per_round(const gen_totals *t) { return t->steps ? (double)(t->generated - 1) / t->steps : 0.0; }

static void print_stats(const answer *a) {
    const gen_totals *t = &a->totals;
    fprintf(stderr, "prompt %d tokens, %.1f ms (%.0f tok/s); answer %d tokens, %.1f ms (%.0f tok/s), %s\n", t->prompt,
            (double)t->prefill_ns * 1e-6, per_second(t->prompt, t->prefill_ns), t->generated,
            (double)t->decode_ns * 1e-6, per_second(t->generated - 1, t->decode_ns), finish_reason(a));
    if (!t->steps) return;
    fprintf(stderr,
            "%.2f tokens per step; %d rounds, %d of %d proposals accepted; ms per step: draft %.3f, verify %.3f, rest "
            "%.3f\n",
            tokens_per_round(t), t->rounds, t->accepted, t->drafted, (double)t->draft_ns * 1e-6 / t->steps,
            (double)t->verify_ns * 1e-6 / t->steps, (double)t->rest_ns * 1e-6 / t->steps);
    if (t->mask_ns) fprintf(stderr, "masks: %.3f ms per step of these\n", (double)t->mask_ns * 1e-6 / t->steps);
    fprintf(stderr,
            "drafted: %d proposals, %d accepted; looked up: %d, %d accepted\nsteps by reason:", t->draft_drafted,
            t->draft_accepted, t->lookup_drafted, t->lookup_accepted);
    for (int r = 0; r < SPEC_REASONS; r++)
        if (t->by_reason[r]) fprintf(stderr, " %s %d", spec_reason_name((spec_reason)r), t->by_reason[r]);
    fprintf(stderr, "; by rows:");
    for (int r = 1; r <= SPEC_POSITIONS; r++)
        if (t->by_rows[r]) fprintf(stderr, " %d: %d", r, t->by_rows[r]);
    if (t->rounds) fputs("\nrounds by accepted length:", stderr);
    for (int i = 0; i < SPEC_POSITIONS; i++)
        if (t->by_length[i]) fprintf(stderr, " %d: %.0f%%", i, 100.0 * t->by_length[i] / t->rounds);
    fputc('\n', stderr);
}

static void json_stats(buf *out, const gen_totals *t) {
    buf_printf(
        out,
        "{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"reasoning_tokens\":%d,\"steps\":%d,\"rounds\":%d,\"drafted\":"
        "%d,"
        "\"accepted\":%d,\"draft_drafted\":%d,\"draft_accepted\":%d,\"lookup_drafted\":%d,\"lookup_accepted\":%d,"
        "\"prefill_ms\":%.3f,\"decode_ms\":%.3f,\"draft_"
        "ms\":%.3f,\"verify_ms\":%.3f,\"rest_ms\":%.3f,"
        "\"mask_ms\":%.3f,\"tokens_per_second\":%.1f,\"tokens_per_step\":%.3f,\"rounds_by_accepted\":[",
        t->prompt, t->generated, t->reasoning, t->steps, t->rounds, t->drafted, t->accepted, t->draft_drafted,
        t->draft_accepted, t->lookup_drafted, t->lookup_accepted, (double)t->prefill_ns * 1e-6,
        (double)t->decode_ns * 1e-6, (double)t->draft_ns * 1e-6, (double)t->verify_ns * 1e-6, (double)t->rest_ns * 1e-6,
        (double)t->mask_ns * 1e-6, per_second(t->generated - 1, t->decode_ns), tokens_per_round(t));
    int last = SPEC_POSITIONS;
    while (last > 0 && !t->by_length[last - 1]) last--;
    for (int i = 0; i < last; i++) buf_printf(out, "%s%d", i ? "," : "", t->by_length[i]);
    buf_str(out, STR("]}"));
}

static void print_json(const answer *a, bool with_tools) {
    buf out = { 0 };
    const int32_t *ids = (const int32_t *)(const void *)a->ids.data;
    buf_str(&out, STR("{\"tokens\":["));
    for (size_t i = 0; i < a->ids.len / sizeof *ids; i++) buf_printf(&out, "%s%d", i ? "," : "", ids[i]);
    buf_str(&out, STR("],\"text\":"));
    buf_json_str(&out, buf_view(&a->text));
    buf_str(&out, STR(",\"reasoning\":"));
    buf_json_str(&out, buf_view(&a->reasoning));
    if (with_tools) buf_printf(&out, ",\"tool_calls\":[%.*s]", STR_ARG(buf_view(&a->calls.json)));
    buf_printf(&out, ",\"finish_reason\":\"%s\",\"seed\":%llu,\"stats\":", finish_reason(a),
               (unsigned long long)a->seed);
    json_stats(&out, &a->totals);
    buf_str(&out, STR("}\n"));
    fwrite(out.data, 1, out.len, stdout);
    fflush(stdout);
    buf_free(&out);
}

/* Reasoning is dimmed on a terminal. */
static void set_reasoning(answer *a, bool reasoning) {
    if (reasoning == a->in_reasoning) return;
    if (isatty(STDOUT_FILENO))
        fputs(reasoning ? "\033[2m" : "\033[0m\n", stdout);
    else if (!reasoning)
        fputc('\n', stdout);
    a->in_reasoning = reasoning;
    a->calls.open_line = false;
}

static void show(answer *a, str text, bool reasoning) {
    set_reasoning(a, reasoning);
    if (fwrite(text.p, 1, text.n, stdout) != text.n || fflush(stdout) != 0) a->broken_pipe = true;
    a->calls.open_line = text.p[text.n - 1] != '\n';
    a->has_shown = true;
}

static void take_call(answer *a, const gen_event *ev, bool stream) {
    progress_clear();
    run_calls_take(&a->calls, ev, &a->text);
    if (!stream) return;
    set_reasoning(a, false);
    if (!run_calls_show(&a->calls, ev)) a->broken_pipe = true;
    a->has_shown = true;
}

static void take(answer *a, const gen_event *ev, bool stream) {
    switch (ev->kind) {
    case GEN_PREFILL:
        progress_show("reading the prompt", (float)ev->u.prefill.done / (float)ev->u.prefill.total);
        break;
    case GEN_TEXT:
        progress_clear();
        buf_str(&a->text, ev->text);
        if (stream) show(a, ev->text, false);
        break;
    case GEN_REASONING:
        progress_clear();
        buf_str(&a->reasoning, ev->text);
        if (stream) show(a, ev->text, true);
        break;
    case GEN_CALL:
    case GEN_ARGUMENTS:
    case GEN_CALL_END: take_call(a, ev, stream); break;
    case GEN_ROUND: buf_put(&a->ids, ev->u.round.tokens, (size_t)ev->u.round.n * sizeof(int32_t)); break;
    case GEN_DONE:
        a->totals = *ev->u.end.totals;
        a->why = ev->u.end.why;
        a->done = true;
        break;
    case GEN_FAILED:
        err_set(&a->failure, ev->u.fail.code, "%.*s", STR_ARG(ev->text));
        a->failed = a->done = true;
        break;
    default: break;
    }
}

static void follow(engine *en, gen_id id, answer *a, bool stream) {
    gen_event ev[64];
    bool cancelled = false;
    while (!a->done) {
        engine_wait(en, 50 * 1000000ll);
        for (size_t n; !a->done && (n = engine_drain(en, ev, 64)) > 0;)
            for (size_t i = 0; i < n; i++) take(a, &ev[i], stream);
        if ((interrupted || a->broken_pipe) && !cancelled) {
            engine_cancel(en, id);
            cancelled = true;
        }
    }
    progress_clear();
    if (stream && a->in_reasoning && isatty(STDOUT_FILENO)) fputs("\033[0m", stdout);
    if (stream && !a->broken_pipe && (a->calls.open_line || !a->has_shown)) fputc('\n', stdout);
    fflush(stdout);
}

/* Tools and form of the answer. */
typedef struct run_wants {
    run_tools tools;
    run_shape shape;
} run_wants;

static status generate_answer(engine *en, const run_opts *o, const run_wants *wants, const opts_found *found,
                              str prompt, answer *a, err *e) {
    gen_request rq = { .mem = arena_new() };
    gen_id id;
    const text_model *tm = engine_get_text(en);
    status s = run_shape_apply(&wants->shape, tm, &rq, e);
    if (s == OK) s = encode(o, &wants->tools, tm, prompt, &rq, e);
    if (s == OK) s = run_tools_declare(&wants->tools, &rq, e);
    if (s == OK) {
        fill_options(o, found, engine_get_facts(en), &rq);
        a->seed = rq.pick.seed;
        s = engine_submit(en, &rq, &id, e);
    }
    if (s != OK) {
        arena_free(rq.mem);
        return s;
    }
    follow(en, id, a, !o->json);
    if (a->failed) return *e = a->failure, e->code;
    return OK;
}

static status load_wants(const run_opts *o, run_wants *w, err *e) {
    if (o->tools && o->raw) return err_set(e, ERR_USAGE, "--tools and --raw: tools are part of the chat template");
    if (o->tools) TRY(run_tools_load(&w->tools, o->tools, e));
    return run_shape_load(&w->shape, o->json_schema, o->json_object, o->tool_choice, &w->tools, e);
}

int cmd_run(int argc, char **argv) {
    run_opts o = { .m = { .spec = SPEC_DEFAULT, .tree = SPEC_DEFAULT, .cache = 0, .checkpoints = 0 } };
    opts_found found = { 0 };
    int code;
    if (!cmd_parse(&OPTS, argc, argv, &o, &found, &code)) return code;
    struct sigaction act = { .sa_handler = on_signal };
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    err e;
    buf prompt = { 0 };
    run_wants wants = { 0 };
    answer a = { 0 };
    engine *en = NULL;
    engine_options opt = model_opts_engine(&o.m, 0);
    status s = load_wants(&o, &wants, &e);
    if (s == OK) s = prompt_text(&found, &prompt, &e);
    if (s == OK) s = model_opts_open(&en, &opt, &interrupted, &e);
    if (s == OK) s = generate_answer(en, &o, &wants, &found, buf_view(&prompt), &a, &e);
    if (s == OK && o.json) print_json(&a, o.tools != NULL);
    if (s == OK && !o.quiet && !a.broken_pipe) print_stats(&a);
    code = interrupted ? EXIT_INTERRUPTED : s != OK ? cmd_fail(&e) : a.broken_pipe ? 1 : 0;
    engine_close(en);
    buf_free(&prompt);
    buf_free(&a.text);
    buf_free(&a.reasoning);
    buf_free(&a.ids);
    run_calls_deinit(&a.calls);
    run_shape_deinit(&wants.shape);
    run_tools_deinit(&wants.tools);
    opts_found_deinit(&found);
    return code;
}
