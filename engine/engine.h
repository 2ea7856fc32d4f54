/* engine/engine.h - all that a front end may know about the engine.
 *
 * No tensors, no JSON, no sockets. All functions are called from one front-end thread (the loop thread of the server,
 * or main of a command). The engine owns its own thread; only the waker is called from there. Nothing here blocks
 * except engine_wait and engine_close. One request generates at a time; a bounded number waits. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/arena.h"
#include "engine/base/status.h"
#include "engine/base/str.h"

typedef struct engine engine;         /* loaded pair, recorded steps, one timeline */
typedef struct text_model text_model; /* tokenizer, template, special ids: engine/text/text.h */
typedef uint64_t gen_id;              /* names one request for the life of the process; 0 is none */

enum { SPEC_DEFAULT = -1, CACHE_DEFAULT = -1 };

/* How much is proposed: what pays by measured cost, always the same, or nothing. */
typedef enum spec_mode { SPEC_MODE_DEFAULT, SPEC_AUTO, SPEC_FIXED, SPEC_OFF } spec_mode;

/* Speculation changes the speed, never the text. */
typedef struct spec_options {
    spec_mode mode;
    int32_t tokens; /* most proposals in a row, the depth of a tree; SPEC_DEFAULT: fixed 7, auto what there is */
    int32_t tree;   /* most nodes of a verify tree, 0: a chain; SPEC_DEFAULT: fixed a chain, auto what there is */
    float min_p;    /* no proposal whose path has less probability, 0 to 1 */
} spec_options;

/* Who proposes tokens: the DFlash draft; what followed the same words earlier in the text. */
enum { PROPOSE_DRAFT = 1, PROPOSE_LOOKUP = 2 };

/* How the target's keys and values are stored. FP8 halves their memory; what is stored is rounded more coarsely, so
 * answers are other ones than with BF16. The draft's own stay BF16. */
typedef enum kv_dtype { KV_BF16, KV_FP8_E4M3 } kv_dtype;

/* Where the steps run. Asked for is what is used: there is no falling back to another. */
typedef enum backend_kind { BACKEND_CPU, BACKEND_CUDA } backend_kind;

/* Whether prompts are computed like answers, so that what is known of an earlier prompt equals what would be computed
 * again; or, on a GPU, with large products in another order of additions. */
typedef enum prefill_kind { PREFILL_EXACT, PREFILL_FAST } prefill_kind;

typedef struct engine_options {
    const char *target_dir; /* NULL: the built-in demo pair (target and, without draft_dir, draft) */
    const char *draft_dir;  /* NULL with a target_dir: no draft, no speculation */
    backend_kind backend;
    int32_t device;        /* CUDA: number of the GPU */
    bool verify_upload;    /* CUDA: read all weights back and compare them */
    prefill_kind prefill;  /* PREFILL_FAST: CUDA only */
    const char *isa;       /* CPU; NULL: the best usable; else "ref", "avx2", "avx512", "avx512bf16" */
    int32_t lanes;         /* compute threads, 0: choose */
    int32_t ctx;           /* longest prompt plus answer in tokens, 0: what model and memory allow */
    int32_t prefill_chunk; /* prompt rows per step, 1..256; 0: 256 */
    kv_dtype kv_dtype;
    spec_options spec;     /* for requests that do not say; SPEC_MODE_DEFAULT: auto */
    int32_t proposers;     /* PROPOSE_DRAFT and PROPOSE_LOOKUP, added; 0: both */
    int32_t cache_tokens;  /* tokens of earlier conversations that are kept beside the running one; CACHE_DEFAULT: twice
                              the context, if memory allows */
    int32_t checkpoints;   /* places in them from which generation can go on, 0 to 1024; CACHE_DEFAULT: 24 */
    const char *cache_dir; /* folder where conversations outlast the engine: read at open, written at close; what is
                              wrong with it is logged and costs no more than a cold start. NULL: none */
    int32_t queue_max;     /* requests that wait beyond the running one */
} engine_options;

typedef struct token_bias {
    int32_t token;
    float bias; /* added to its logit, -BIAS_LIMIT to BIAS_LIMIT; several for one token add up; -INFINITY: never chosen,
                unless a grammar allows nothing else */
} token_bias;

enum { BIAS_MAX = 1024, BIAS_LIMIT = 100, PENALTY_LIMIT = 2, REPEAT_MAX = 10, LOGPROBS_MAX = 20 };

/* The rules of token choice, the same for every row of every step. Penalties go by how often a token occurs in the
 * prompt and in the answer so far. */
typedef struct pick_options {
    float temperature; /* 0: greedy */
    float top_p;       /* 1: off */
    float min_p;       /* 0: off */
    int32_t top_k;     /* 0: off */
    uint64_t seed;
    float repeat;              /* divides the logit of a token that occurs, or multiplies one below 0; 0 or 1: off */
    float presence, frequency; /* taken off its logit, once and per occurrence; -PENALTY_LIMIT to PENALTY_LIMIT */
    const token_bias *bias;    /* after the penalties */
    int32_t n_bias;            /* at most BIAS_MAX */
    int32_t min_new; /* no end token before the answer has so many tokens, unless a grammar allows nothing else; at most
                        max_new; not with ignore_end */
} pick_options;

typedef enum reply_start { REPLY_CONTENT, REPLY_REASONING, REPLY_RAW } reply_start;

/* A tool that the answer may call: tools_read(). */
typedef struct reply_tool {
    str name;
    const str *texts; /* parameters that are texts whatever they look like, in ascending order of bytes */
    size_t n_texts;
} reply_tool;

/* How tokens become events. REPLY_RAW: no splitting into reasoning and content. */
typedef struct reply_options {
    reply_start start; /* decided by the tail of the rendered prompt: chat_start() */
    const str *stop;   /* stop strings, none empty */
    size_t n_stop;
    const reply_tool *tools; /* calls are taken out of the answer; none: what looks like one is text */
    size_t n_tools;
    bool one_call;   /* the answer ends with the first complete call */
    bool ignore_end; /* end tokens are ordinary tokens; with a grammar: chosen when it allows nothing else, which ends
                        the answer */
} reply_options;

/* What the content of an answer must be: engine/text/schema.h, tool_grammar.h. */
struct grammar;

typedef struct gen_request {
    const int32_t *tokens; /* rendered prompt, at least one, all below the vocabulary */
    size_t n_tokens;
    int32_t max_new; /* at least 1; cut to the rest of the context */
    pick_options pick;
    reply_options reply;
    spec_options spec; /* SPEC_MODE_DEFAULT: the engine's mode; SPEC_DEFAULT: its numbers when the mode is its own */
    bool no_cache;     /* nothing of earlier conversations is used, and nothing of this one is kept */
    const int32_t *prediction; /* tokens that the answer may repeat: they are looked up first; NULL: none */
    size_t n_prediction;
    const struct grammar *grammar; /* what the content must be; NULL: anything. Lives as long as mem (arena_at_end) */
    const struct grammar *calls;   /* tool calls that may stand in its place; NULL: none. Lives as long */
    bool thinks_at_most;  /* reasoning is closed by "</think>" after thinking_max tokens, or sooner when less than a
                             quarter of max_new would be left for the answer */
    int32_t thinking_max; /* 0: none at all */
    bool thinks;          /* the answer begins with reasoning, which is free: the grammar begins behind "</think>" */
    int32_t logprobs;     /* alternatives told with every token, at most LOGPROBS_MAX; -1: no log-probabilities */
    arena *mem;           /* owns every pointer above; adopted when engine_submit returns OK */
    void *user;           /* comes back in every event */
} gen_request;

typedef enum gen_event_kind {
    GEN_STARTED,   /* left the queue */
    GEN_PREFILL,   /* progress, between prefill chunks */
    GEN_TEXT,      /* bytes of the answer */
    GEN_REASONING, /* bytes of its reasoning */
    GEN_CALL,      /* the answer calls a tool: its name */
    GEN_ARGUMENTS, /* bytes of the call's arguments; all together are one JSON object, also when the answer is cut */
    GEN_CALL_END,
    GEN_ROUND, /* closes the texts of one step: one burst, one chunk */
    GEN_DONE,  /* last event: finished or cancelled */
    GEN_FAILED /* last event: a fault */
} gen_event_kind;

/* DONE_CALL: the first call is complete, and one was wanted. */
typedef enum gen_done { DONE_END, DONE_STOP, DONE_CALL, DONE_LENGTH, DONE_CANCELLED } gen_done;

enum { SPEC_POSITIONS = 32 };

/* Why a decode step proposes as much as it does. */
typedef enum spec_reason {
    SPEC_WHY_FIXED,  /* asked for */
    SPEC_WHY_PLAIN,  /* nothing to propose, or proposing does not pay */
    SPEC_WHY_DRAFT,  /* drafting pays */
    SPEC_WHY_LOOKUP, /* what was looked up pays, and more than drafting would */
    SPEC_WHY_PROBE,  /* drafting does not pay; would it now? */
    SPEC_WHY_CLOCK,  /* plain: to measure a plain step again */
    SPEC_REASONS
} spec_reason;
const char *spec_reason_name(spec_reason r); /* "fixed", "plain", ... */

/* What stands behind one token: log-probabilities of the model's own distribution, before penalties, bias, temperature
 * and filters. The same for any number of proposals. */
typedef struct token_logprobs {
    bool in_content; /* the token is part of the answer; false: reasoning, a tag, an end token */
    float logprob;
    int32_t n_top; /* likeliest tokens, falling, ties by smaller id */
    struct {
        int32_t token;
        float logprob;
    } top[LOGPROBS_MAX];
} token_logprobs;

typedef struct gen_totals {
    int32_t cached;                           /* prompt tokens that were not computed again */
    int32_t prompt, generated, reasoning;     /* tokens; generated counts the end token when there was one */
    int32_t drafted, accepted, rounds, steps; /* rounds: steps with proposals; steps: all decode steps */
    int32_t draft_drafted, draft_accepted;    /* of these, proposed by the draft; a token may have two proposers */
    int32_t lookup_drafted, lookup_accepted;  /* and by looking up */
    int32_t by_reason[SPEC_REASONS];          /* decode steps */
    int32_t by_rows[SPEC_POSITIONS + 1];      /* decode steps by rows of the target pass */
    int32_t accepted_at[SPEC_POSITIONS];      /* rounds in which proposal i (from 0) was accepted */
    int32_t by_length[SPEC_POSITIONS];        /* rounds that accepted exactly i proposals */
    int64_t queue_ns, prefill_ns, decode_ns;  /* prefill includes the first token */
    int64_t draft_ns, verify_ns, rest_ns;     /* parts of decode_ns inside and around the steps */
    int64_t mask_ns;                          /* spent on the masks of a grammar, within the times above */
    int32_t end_token;                        /* -1: none */
    int32_t stop_index;                       /* which stop string, -1: none */
} gen_totals;

typedef struct gen_event {
    gen_event_kind kind;
    gen_id id;
    void *user;
    str text; /* TEXT, REASONING, CALL, ARGUMENTS: whole UTF-8, valid until the next engine_drain. CALL_END of an
                 incomplete call: its text, which an answer that is not streamed shows instead of the call; "" when the
                 answer was cut. FAILED: the message */
    union {
        struct {
            bool complete; /* CALL_END: the answer closes the call */
        } call;
        struct {
            int32_t cached; /* prompt tokens that need not be computed again */
        } started;
        struct {
            int32_t done, total; /* done counts the cached ones */
        } prefill;
        struct {
            const int32_t
                *tokens; /* ids of this step, those behind a stop left out; valid until the next engine_drain */
            const token_logprobs *logprobs; /* of these tokens, valid as long; NULL: not asked for */
            int32_t n, rows, drafted, accepted, micros;
        } round;
        struct {
            gen_done why;
            const gen_totals *totals;
        } end; /* totals valid until the next engine_drain */
        struct {
            status code;
        } fail;
    } u;
} gen_event;

/* FAILED: it never became ready, or the device was lost later; then every request ends with GEN_FAILED. */
typedef enum engine_state { ENGINE_LOADING, ENGINE_READY, ENGINE_FAILED } engine_state;

/* What is known once the engine is ready; constant afterwards, owned by the engine. */
typedef struct engine_facts {
    const char *model_name; /* last component of the target folder, or "laguna-demo" */
    const char *source;     /* folder, or "built-in demo pair" */
    int32_t ctx, ctx_trained, vocab, hidden, layers;
    int64_t parameters, target_bytes, draft_bytes, kv_bytes;
    bool has_draft;
    int32_t spec_max;      /* most proposals in a row: block size - 1; without a draft what is looked up, or 0 */
    int32_t spec_tree_max; /* most nodes; 0: nothing is proposed */
    spec_options spec;     /* used when a request does not say; no SPEC_DEFAULT left */
    int32_t proposers;     /* PROPOSE_* that there are */
    pick_options pick;     /* sampling defaults of generation_config.json; seed 0 */
    const char *isa;       /* instruction set, or the name of the GPU */
    int32_t lanes;         /* 0 on a GPU */
    double load_ms;
} engine_facts;

status engine_open(engine **out, const engine_options *opt,
                   err *e);                                       /* starts the engine thread; loading goes on there */
void engine_close(engine *en);                                    /* cancels what runs and waits; frees; NULL is fine */
engine_state engine_get_state(const engine *en, float *fraction); /* READY follows a passed self-test; fraction 0..1 */
void engine_get_failure(const engine *en, err *e);                /* in FAILED: why */
const engine_facts *engine_get_facts(const engine *en);           /* from READY on */
const text_model *engine_get_text(const engine *en);              /* from READY on: constant */

/* `wake` runs on the engine thread after events were posted to an empty box and when the state changes: it must only
 * signal (write an eventfd). Set before the first submit. */
void engine_set_waker(engine *en, void (*wake)(void *arg), void *arg);

/* ERR_BUSY when the queue is full, ERR_TOO_LONG when prompt and one token do not fit, ERR_REQUEST for values out of
 * range. */
status engine_submit(engine *en, const gen_request *rq, gen_id *id, err *e);
void engine_cancel(engine *en,
                   gen_id id); /* one GEN_DONE still follows, or what was already on its way; unknown ids are ignored */
size_t engine_drain(engine *en, gen_event *out, size_t max); /* oldest first; 0: nothing waits */
bool engine_wait(engine *en,
                 int64_t timeout_ns); /* until events wait or the state changes; for commands without a loop */
#endif
