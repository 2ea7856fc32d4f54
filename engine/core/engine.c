#include "engine/engine.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/num.h"
#include "engine/base/thread.h"
#include "engine/core/calibrate.h"
#include "engine/core/fingerprint.h"
#include "engine/core/generate.h"
#include "engine/core/lookup.h"
#include "engine/core/mailbox.h"
#include "engine/core/pair.h"
#include "engine/core/propose.h"
#include "engine/core/selftest.h"
#include "engine/core/timelines_disk.h"
#include "kernels/device.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { PREDICTION_MAX = 1 << 16, USUAL_WIDTH = 7 };

struct engine {
    engine_options opt; /* strings are copies */
    char *target_dir, *draft_dir, *isa, *name, *cache_dir;
    thread *thread;
    mailbox *box;
    _Atomic int state;    /* engine_state */
    _Atomic int permille; /* of loading */
    bool is_sending;      /* the engine thread's: weights are read and checked */
    err failure;          /* written before state becomes FAILED */
    lookup *lookup;       /* NULL: not a proposer */
    width width;          /* the engine thread's */
    timelines *timelines; /* likewise; behind its end the front end's */
    uint64_t fingerprint; /* of the pair, when there is a folder for conversations */
    pair pair;            /* the engine thread's until READY; then constant but for the steps */
    engine_facts facts;   /* written before state becomes READY */
};

/* ---- engine thread ---- */

static void set_state(engine *en, engine_state s) {
    atomic_store(&en->state, (int)s);
    mailbox_notify(en->box);
}

/* On a GPU the weights are read once to be checked, and once more to be sent, which takes longer. */
static void loading(void *arg, float fraction) {
    engine *en = arg;
    if (en->opt.backend == BACKEND_CUDA) fraction = en->is_sending ? 0.25f + 0.75f * fraction : 0.25f * fraction;
    atomic_store(&en->permille, (int)(fraction * 900.0f)); /* the rest is recording and the self-test */
}

static bool is_drafting(const engine *en) { return en->pair.has_draft && (en->opt.proposers & PROPOSE_DRAFT); }

/* Most proposals in a row: the draft's block, or as many again from looking up. */
static int32_t most_proposals(const engine *en) {
    return is_drafting(en) ? en->pair.draft.cfg.block_size - 1 : en->lookup ? LOOKUP_DEPTH : 0;
}

/* Fills what is left open in *o: by `def` where that has the same mode, else by the mode. */
static void resolve_spec(spec_options *o, const spec_options *def, const engine_facts *f) {
    bool own = o->mode == SPEC_MODE_DEFAULT || o->mode == def->mode;
    if (o->mode == SPEC_MODE_DEFAULT) o->mode = def->mode;
    if (o->tokens == SPEC_DEFAULT && own) o->tokens = def->tokens;
    if (o->tree == SPEC_DEFAULT && own) o->tree = def->tree;
    bool fixed = o->mode == SPEC_FIXED;
    if (o->tokens == SPEC_DEFAULT) o->tokens = fixed ? min_i32(USUAL_WIDTH, f->spec_max) : f->spec_max;
    if (o->tree == SPEC_DEFAULT) o->tree = fixed ? 0 : f->spec_tree_max;
    if (o->tokens == 0) o->mode = SPEC_OFF;
}

static status fill_facts(engine *en, double load_ms, err *e) {
    const pair *p = &en->pair;
    const target_config *c = &p->target.cfg;
    const draft *d = pair_draft(p);
    engine_facts f = { .model_name = en->name,
                       .source = model_dir_name(p->target_dir),
                       .ctx = p->ctx,
                       .ctx_trained = c->positions_max,
                       .vocab = c->vocab,
                       .hidden = c->hidden,
                       .layers = c->layers,
                       .parameters = p->target.w.parameters,
                       .target_bytes = p->target.w.bytes,
                       .draft_bytes = d ? d->w.bytes : 0,
                       .kv_bytes = p->plan.total,
                       .has_draft = d != NULL,
                       .spec_max = most_proposals(en),
                       .isa = p->where,
                       .lanes = p->lanes,
                       .load_ms = load_ms };
    f.proposers = (is_drafting(en) ? PROPOSE_DRAFT : 0) + (en->lookup ? PROPOSE_LOOKUP : 0);
    f.spec_tree_max = f.spec_max ? NODES_MAX - 1 : 0;
    f.spec = en->opt.spec;
    resolve_spec(&f.spec, &(spec_options){ SPEC_AUTO, SPEC_DEFAULT, SPEC_DEFAULT, 0.0f }, &f);
    TRY(pair_pick_defaults(p, &f.pick, e));
    en->facts = f;
    return OK;
}

static status open_lookup(engine *en, err *e) {
    if (!(en->opt.proposers & PROPOSE_LOOKUP)) return OK;
    /* prompt and answer never pass the context; the longest that a config may state is as much as a lookup takes */
    lookup_options o = { .timeline_max = min_i32(en->pair.ctx + 1, 1 << 30),
                         .prediction_max = min_i32(en->pair.ctx, PREDICTION_MAX),
                         .min_match = LOOKUP_MIN_MATCH };
    return lookup_new(&en->lookup, &o, e);
}

/* Conversations from an earlier run. Without a folder that can be used the start is a cold one, and nothing is saved at
 * the end. */
static void restore_conversations(engine *en) {
    err why;
    const char *dir = en->opt.cache_dir;
    if (!dir) return;
    en->fingerprint = fingerprint_pair(&en->pair);
    if (timelines_load(en->timelines, dir, en->fingerprint, &why) == OK) return;
    log_warn("cache", "conversations will not be saved: %s", why.text);
    en->opt.cache_dir = NULL;
}

/* Only what became ready has something to save. */
static void save_conversations(const engine *en) {
    err why;
    const char *dir = en->opt.cache_dir;
    if (!dir || engine_get_state(en, NULL) != ENGINE_READY) return;
    if (timelines_save(en->timelines, dir, en->fingerprint, &why) != OK) log_warn("cache", "%s", why.text);
}

static status load(engine *en, err *e) {
    int64_t start = clock_ns();
    TRY(pair_load(&en->pair, en->target_dir, en->draft_dir, true, loading, en, e));
    en->is_sending = true;
    TRY(pair_start(&en->pair, &en->opt, e));
    TRY(open_lookup(en, e));
    if (en->opt.spec.tokens > most_proposals(en))
        return err_set(e, ERR_USAGE, "--spec-tokens %d: %s %d", en->opt.spec.tokens,
                       en->pair.has_draft ? "this draft proposes at most"
                                          : "without a draft (--draft-model) there are at most",
                       most_proposals(en));
    status s = selftest(&en->pair, e);
    TRY(steps_status(en->pair.steps, e)); /* a lost device is the better reason */
    TRY(s);
    steps_set_lanes(en->pair.steps, LANES_BEST);
    width_init(&en->width, is_drafting(en) ? en->pair.draft.cfg.block_size - 1 : 0);
    if (most_proposals(en)) calibrate(&en->pair, &en->width);
    TRY(timelines_open(&en->timelines, &en->pair.target, pair_draft(&en->pair), en->pair.steps, en->pair.checkpoints,
                       e));
    restore_conversations(en);
    return fill_facts(en, (double)(clock_ns() - start) * 1e-6, e);
}

/* The device that the steps run on was lost: what still waits is refused. */
static bool is_broken(const engine *en) { return atomic_load(&en->state) == ENGINE_FAILED; }

static void engine_main(void *arg) {
    engine *en = arg;
    if (load(en, &en->failure) != OK) {
        set_state(en, ENGINE_FAILED);
        return;
    }
    set_state(en, ENGINE_READY);
    generate_env env = { .drafting = is_drafting(en),
                         .lookup = en->lookup,
                         .steps = en->pair.steps,
                         .text = en->pair.text,
                         .box = en->box,
                         .ctx = en->facts.ctx,
                         .prefill_chunk = en->opt.prefill_chunk,
                         .width = &en->width,
                         .timelines = en->timelines };
    taken_request tr;
    while (mailbox_take(en->box, &tr)) {
        if (is_broken(en))
            generate_refuse(&env, &tr);
        else
            generate(&env, &tr);
        arena_free(tr.rq.mem);
        if (!is_broken(en) && steps_status(en->pair.steps, &en->failure) != OK) set_state(en, ENGINE_FAILED);
    }
    token_trie_free(env.trie);
}

/* ---- front end ---- */

static char *copy_opt(const char *s) { return s ? xstrndup(s, strlen(s)) : NULL; }

/* Last component of a path, or the demo pair's name. */
static char *model_name(const char *dir) {
    if (!dir) return xstrndup("laguna-demo", 11);
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/') n--;
    size_t from = n;
    while (from > 0 && dir[from - 1] != '/') from--;
    return xstrndup(dir + from, n - from);
}

status engine_open(engine **out, const engine_options *opt, err *e) {
    if (opt->spec.tree != SPEC_DEFAULT && (opt->spec.tree < 0 || opt->spec.tree >= NODES_MAX))
        return err_set(e, ERR_USAGE, "a verify tree of %d nodes: expected 0 (a chain) to %d", opt->spec.tree,
                       NODES_MAX - 1);
    if (!(opt->spec.min_p >= 0.0f && opt->spec.min_p <= 1.0f))
        return err_set(e, ERR_USAGE, "a least probability of %g for proposals: expected 0 to 1",
                       (double)opt->spec.min_p);
    if (opt->checkpoints < CACHE_DEFAULT || opt->checkpoints > CHECKPOINTS_MAX)
        return err_set(e, ERR_USAGE, "%d checkpoints: expected 0 to %d", opt->checkpoints, CHECKPOINTS_MAX);
    if (opt->prefill_chunk < 0 || opt->prefill_chunk > PREFILL_MAX)
        return err_set(e, ERR_USAGE, "prefill chunk of %d rows: expected 1 to %d", opt->prefill_chunk, PREFILL_MAX);
    if (opt->draft_dir && !opt->target_dir)
        return err_set(e, ERR_USAGE, "a draft was named without its target: name the target with --model");
    engine *en = xalloc(sizeof *en);
    en->opt = *opt;
    if (en->opt.prefill_chunk == 0) en->opt.prefill_chunk = PREFILL_MAX;
    if (en->opt.proposers == 0) en->opt.proposers = PROPOSE_DRAFT + PROPOSE_LOOKUP;
    en->target_dir = copy_opt(opt->target_dir);
    en->draft_dir = copy_opt(opt->draft_dir);
    en->opt.isa = en->isa = copy_opt(opt->isa);
    en->opt.cache_dir = en->cache_dir = copy_opt(opt->cache_dir);
    en->name = model_name(opt->target_dir);
    en->box = mailbox_new(opt->queue_max);
    status s = thread_start(&en->thread, "engine", engine_main, en, e);
    if (s != OK) {
        engine_close(en);
        return s;
    }
    *out = en;
    return OK;
}

void engine_close(engine *en) {
    if (!en) return;
    mailbox_close(en->box);
    thread_join(en->thread);
    if (en->pair.device) device_take_over(en->pair.device);
    save_conversations(en);
    timelines_close(en->timelines);
    lookup_free(en->lookup);
    pair_close(&en->pair);
    mailbox_free(en->box);
    free(en->target_dir);
    free(en->draft_dir);
    free(en->isa);
    free(en->cache_dir);
    free(en->name);
    free(en);
}

engine_state engine_get_state(const engine *en, float *fraction) {
    engine_state s = (engine_state)atomic_load(&en->state);
    if (fraction) *fraction = s == ENGINE_READY ? 1.0f : (float)atomic_load(&en->permille) / 1000.0f;
    return s;
}

void engine_get_failure(const engine *en, err *e) {
    CHECK(engine_get_state(en, NULL) == ENGINE_FAILED);
    *e = en->failure;
}

const engine_facts *engine_get_facts(const engine *en) {
    CHECK(engine_get_state(en, NULL) != ENGINE_LOADING && en->facts.model_name);
    return &en->facts;
}

const text_model *engine_get_text(const engine *en) {
    CHECK(engine_get_state(en, NULL) != ENGINE_LOADING && en->facts.model_name);
    return en->pair.text;
}

void engine_set_waker(engine *en, void (*wake)(void *arg), void *arg) { mailbox_set_waker(en->box, wake, arg); }

static status check_pick(const pick_options *p, err *e) {
    if (!(p->temperature >= 0.0f && p->temperature <= 100.0f))
        return err_set(e, ERR_REQUEST, "temperature %g: expected 0 to 100", (double)p->temperature);
    if (!(p->top_p > 0.0f && p->top_p <= 1.0f))
        return err_set(e, ERR_REQUEST, "top_p %g: expected above 0, at most 1", (double)p->top_p);
    if (!(p->min_p >= 0.0f && p->min_p <= 1.0f))
        return err_set(e, ERR_REQUEST, "min_p %g: expected 0 to 1", (double)p->min_p);
    if (p->top_k < 0) return err_set(e, ERR_REQUEST, "top_k %d: expected 0 (off) or more", p->top_k);
    return OK;
}

static status check_within(const char *name, float v, int limit, err *e) {
    if (v >= (float)-limit && v <= (float)limit) return OK;
    return err_set(e, ERR_REQUEST, "%s %g: expected -%d to %d", name, (double)v, limit, limit);
}

static status check_bias(const pick_options *p, int32_t vocab, err *e) {
    if (p->n_bias < 0 || p->n_bias > BIAS_MAX)
        return err_set(e, ERR_REQUEST, "logit_bias with %d tokens: expected at most %d", p->n_bias, BIAS_MAX);
    for (int32_t i = 0; i < p->n_bias; i++) {
        if (p->bias[i].token < 0 || p->bias[i].token >= vocab)
            return err_set(e, ERR_REQUEST, "logit_bias of token %d: the vocabulary has 0 to %d", p->bias[i].token,
                           vocab - 1);
        if (p->bias[i].bias != -INFINITY) TRY(check_within("logit_bias", p->bias[i].bias, BIAS_LIMIT, e));
    }
    return OK;
}

/* What goes by the tokens so far, and what is told about them. */
static status check_tokens(const gen_request *rq, int32_t vocab, err *e) {
    const pick_options *p = &rq->pick;
    if (!(p->repeat >= 0.0f && p->repeat <= (float)REPEAT_MAX))
        return err_set(e, ERR_REQUEST, "repetition_penalty %g: expected 0 (off) to %d", (double)p->repeat, REPEAT_MAX);
    TRY(check_within("presence_penalty", p->presence, PENALTY_LIMIT, e));
    TRY(check_within("frequency_penalty", p->frequency, PENALTY_LIMIT, e));
    TRY(check_bias(p, vocab, e));
    if (p->min_new < 0 || p->min_new > rq->max_new)
        return err_set(e, ERR_REQUEST, "min_tokens %d: expected 0 to max_tokens, %d", p->min_new, rq->max_new);
    if (rq->logprobs < -1 || rq->logprobs > LOGPROBS_MAX)
        return err_set(e, ERR_REQUEST, "top_logprobs %d: expected 0 to %d, or -1 for no log-probabilities",
                       rq->logprobs, LOGPROBS_MAX);
    return OK;
}

static status check_spec(const spec_options *o, const engine_facts *f, err *e) {
    if (o->tokens != SPEC_DEFAULT && (o->tokens < 0 || o->tokens > f->spec_max))
        return err_set(e, ERR_REQUEST, "%d proposals per round: %s 0 to %d", o->tokens,
                       f->has_draft ? "this draft offers" : "without a draft the range is", f->spec_max);
    if (o->tree != SPEC_DEFAULT && (o->tree < 0 || o->tree > f->spec_tree_max))
        return err_set(e, ERR_REQUEST, "a verify tree of %d nodes: expected 0 (a chain) to %d", o->tree,
                       f->spec_tree_max);
    if (!(o->min_p >= 0.0f && o->min_p <= 1.0f))
        return err_set(e, ERR_REQUEST, "a least probability of %g for proposals: expected 0 to 1", (double)o->min_p);
    return OK;
}

status engine_submit(engine *en, const gen_request *rq, gen_id *id, err *e) {
    const engine_facts *f = engine_get_facts(en);
    if (rq->n_tokens == 0) return err_set(e, ERR_REQUEST, "the prompt has no tokens");
    if (rq->max_new < 1) return err_set(e, ERR_REQUEST, "max_tokens %d: expected at least 1", rq->max_new);
    if (rq->n_tokens >= (size_t)f->ctx)
        return err_set(
            e, ERR_TOO_LONG,
            "This model's maximum context length is %d tokens. However, your prompt has %zu tokens, and at least one "
            "more is needed for the answer. Please shorten the prompt.",
            f->ctx, rq->n_tokens);
    for (size_t i = 0; i < rq->n_tokens; i++)
        if (rq->tokens[i] < 0 || rq->tokens[i] >= f->vocab)
            return err_set(e, ERR_REQUEST, "prompt token %zu is %d; the vocabulary has 0 to %d", i, rq->tokens[i],
                           f->vocab - 1);
    for (size_t i = 0; i < rq->n_prediction; i++)
        if (rq->prediction[i] < 0 || rq->prediction[i] >= f->vocab)
            return err_set(e, ERR_REQUEST, "token %zu of the prediction is %d; the vocabulary has 0 to %d", i,
                           rq->prediction[i], f->vocab - 1);
    TRY(check_spec(&rq->spec, f, e));
    TRY(check_pick(&rq->pick, e));
    TRY(check_tokens(rq, f->vocab, e));
    gen_request whole = *rq;
    resolve_spec(&whole.spec, &f->spec, f);
    return mailbox_submit(en->box, &whole, id, e);
}

void engine_cancel(engine *en, gen_id id) { mailbox_cancel(en->box, id); }
size_t engine_drain(engine *en, gen_event *out, size_t max) { return mailbox_drain(en->box, out, max); }
bool engine_wait(engine *en, int64_t timeout_ns) { return mailbox_wait(en->box, timeout_ns); }
