#include "engine/core/selftest.h"

enum { PROMPT = 24, TOKENS = 16, USUAL = 7 };

/* TOKENS tokens after the prompt, with k proposals a round (0: plain steps). */
static void sequence(pair *p, const int32_t *prompt, int32_t n, int32_t k, int32_t *out) {
    steps *s = p->steps;
    out[0] = steps_prompt(s, &(pick_params){ .top_p = 1.0f }, prompt, (size_t)n)->token[0];
    for (int32_t have = 1; have < TOKENS;) {
        int32_t wanted = TOKENS - have - 1 < k ? TOKENS - have - 1 : k;
        const step_out *o = wanted > 0 ? steps_round(s, wanted) : steps_plain(s);
        for (int32_t i = 0; i < o->n; i++) out[have++] = o->token[i];
    }
}

status selftest(pair *p, err *e) {
    int32_t prompt[PROMPT], plain[TOKENS], spec[TOKENS];
    int32_t vocab = p->target.cfg.vocab, n = p->ctx - TOKENS < PROMPT ? p->ctx - TOKENS : PROMPT;
    if (n < 1) return OK; /* a context too short to say anything */
    for (int32_t i = 0; i < n; i++) prompt[i] = (int32_t)((int64_t)i * 7919 % vocab);
    sequence(p, prompt, n, 0, plain);
    if (!p->has_draft) return OK;
    int32_t widest = p->draft.cfg.block_size - 1, widths[] = { widest, widest < USUAL ? widest : USUAL };
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        sequence(p, prompt, n, widths[w], spec);
        for (int32_t i = 0; i < TOKENS; i++)
            if (plain[i] != spec[i])
                return err_set(
                    e, ERR_FAULT,
                    "self-test: token %d is %d in plain decoding and %d with %d proposals; this build is broken", i,
                    plain[i], spec[i], widths[w]);
    }
    return OK;
}
