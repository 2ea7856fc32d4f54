#include "engine/core/propose.h"

static int32_t min_i32(int32_t a, int32_t b) { return a < b ? a : b; }

void propose_begin(propose *p, const int32_t *prompt, size_t n) {
    /* until there are rounds to count: two tokens a round, a quarter of the time for drafting */
    p->tokens = 2.0, p->ns = 4.0, p->draft_ns = 1.0;
    p->match.n = 0;
    p->rounds = p->copied = p->copied_right = 0;
    if (!p->lookup) return;
    lookup_reset(p->lookup);
    lookup_add(p->lookup, prompt, (int32_t)n);
}

void propose_emitted(propose *p, const int32_t *tokens, int32_t n) {
    if (p->lookup) lookup_add(p->lookup, tokens, n);
}

/* What the look-up offers, cut at the limit and at an end of turn in the old text; returns the tokens a round may
 * bring. */
static double look_up(propose *p, int32_t depth) {
    lookup_match *m = &p->match;
    double expected = 1.0;
    m->n = 0;
    if (!p->lookup || depth == 0) return expected;
    lookup_propose(p->lookup, m);
    int32_t n = min_i32(m->n, depth);
    for (m->n = 0; m->n < n && !text_is_end(p->text, m->token[m->n]); m->n++) expected += (double)m->p[m->n];
    return expected;
}

const step_out *propose_step(propose *p, int32_t wanted) {
    int32_t depth = min_i32(wanted, p->depth_max);
    double copied = look_up(p, depth) / (p->ns - p->draft_ns), written = p->tokens / p->ns;
    if (p->match.n && (!p->drafting || copied >= written)) return steps_verify(p->steps, p->match.token, p->match.n);
    p->match.n = 0;
    if (depth == 0 || !p->drafting) return steps_plain(p->steps);
    return p->tree_max ? steps_tree(p->steps, depth, p->tree_max, TREE_WIDTH) : steps_round(p->steps, depth);
}

void propose_measured(propose *p, const step_out *out, int32_t kept, int64_t ns) {
    if (p->match.n > 0) {
        p->copied += out->drafted;
        p->copied_right += out->accepted;
        lookup_feedback(p->lookup, &p->match, out->drafted, out->accepted);
    } else if (out->drafted) {
        /* over some ten rounds: text changes its kind within one answer */
        const double weight = 1.0 / 8.0;
        p->tokens += weight * ((double)out->n - p->tokens);
        bool first = p->rounds++ == 0; /* the starting values are no times */
        p->ns = first ? (double)ns : p->ns + weight * ((double)ns - p->ns);
        double part = (double)(out->stamp[1] - out->stamp[0]);
        p->draft_ns = first ? part : p->draft_ns + weight * (part - p->draft_ns);
    }
    propose_emitted(p, out->token, kept);
}
