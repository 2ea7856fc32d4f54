/* Ratios of pairs, what they come to, and the tables. */
#include "engine/cli/bench_spec.h"

#include <stdio.h>

/* ---- ratios ---- */

samples spec_ratios(const spec_bench *b, int class, int over, int under) {
    samples r = { 0 };
    for (size_t i = 0; i < b->n; i++) {
        const spec_pair *p = &b->at[i];
        if ((class < 0 || p->class == class) && p->ns[over] > 0 && p->ns[under] > 0)
            samples_add(&r, (double)p->ns[over] / (double)p->ns[under]);
    }
    samples_sort(&r);
    return r;
}

double spec_ratio(const spec_bench *b, int class, int over, int under) {
    if (over < 0 || under < 0) return 0.0;
    samples r = spec_ratios(b, class, over, under);
    double median = samples_share(&r, 0.5);
    samples_free(&r);
    return median;
}

/* The fixed setting of these with the largest median ratio. */
static int best_of(const spec_bench *b, int class, int from, int to) {
    int best = -1;
    double most = 0.0;
    for (int s = from; s <= to; s++) {
        double r = spec_ratio(b, class, SET_PLAIN, s);
        if (r > most) most = r, best = s;
    }
    return best;
}

static double quotient(double a, double b) { return b > 0.0 ? a / b : 0.0; }

spec_summary spec_summarize(const spec_bench *b, int class) {
    spec_summary s = { .best_fixed = best_of(b, class, SET_CHAINS, SET_TREE_15),
                       .best_chain = best_of(b, class, SET_CHAINS, SET_CHAIN_15) };
    s.auto_plain = spec_ratio(b, class, SET_PLAIN, SET_AUTO);
    s.auto_fixed = spec_ratio(b, class, s.best_fixed, SET_AUTO);
    s.auto_chain = spec_ratio(b, class, s.best_chain, SET_AUTO);
    s.tree_7 = quotient(spec_ratio(b, class, SET_PLAIN, SET_TREE_7), spec_ratio(b, class, SET_PLAIN, SET_CHAIN_7));
    s.tree_15 = quotient(spec_ratio(b, class, SET_PLAIN, SET_TREE_15), spec_ratio(b, class, SET_PLAIN, SET_CHAIN_15));
    return s;
}

const char *spec_class_name(const spec_bench *b, int class) { return class < 0 ? "together" : b->class[class].name; }

/* ---- tables ---- */

/* Why steps proposed what they did, and how many rows they had. */
static void print_choices(const spec_sum *s) {
    printf("      ");
    for (int i = 0; i < SPEC_REASONS; i++)
        if (s->by_reason[i])
            printf(" %s %.1f%%", spec_reason_name((spec_reason)i), 100.0 * (double)s->by_reason[i] / (double)s->steps);
    printf("; rows");
    for (int i = 0; i <= SPEC_POSITIONS; i++)
        if (s->by_rows[i]) printf(" %d:%lld", i, (long long)s->by_rows[i]);
    if (s->draft_drafted)
        printf("; dflash %lld of %lld right", (long long)s->draft_accepted, (long long)s->draft_drafted);
    if (s->lookup_drafted) printf("; lookup %lld of %lld", (long long)s->lookup_accepted, (long long)s->lookup_drafted);
    putchar('\n');
}

static void print_class(const spec_bench *b, int class) {
    const spec_class *c = &b->class[class];
    printf("\n%-12s %6s %9s %6s %9s %7s %7s %7s %15s\n", c->name, "pairs", "tok/step", "rows", "ms/step", "draft",
           "verify", "rest", "ratio (least)");
    for (int k = 0; k < SPEC_SETTINGS; k++) {
        const spec_sum *s = &c->sum[k];
        if (!s->steps) continue;
        samples r = spec_ratios(b, class, SET_PLAIN, k);
        double n = (double)s->steps, ms = 1e-6 / n;
        printf("%-12s %6zu %9.2f %6.2f %9.4f %7.4f %7.4f %7.4f %7.3f (%.3f)\n", spec_settings[k].name, r.n,
               (double)s->tokens / n, (double)s->rows / n, (double)(s->draft_ns + s->verify_ns + s->rest_ns) * ms,
               (double)s->draft_ns * ms, (double)s->verify_ns * ms, (double)s->rest_ns * ms, samples_share(&r, 0.5),
               samples_share(&r, 0.0));
        if (spec_settings[k].mode == SPEC_AUTO) print_choices(s);
        samples_free(&r);
    }
}

/* A number of the summary; a dash where nothing was measured. */
static void print_ratio(int columns, double v) {
    if (v > 0.0)
        printf(" %*.3f", columns, v);
    else
        printf(" %*s", columns, "-");
}

static void print_summary(const spec_bench *b) {
    printf("\n%-12s %-10s %6s | %-10s %10s %10s | %7s %7s\n", "class", "best fixed", "ratio", "auto/plain",
           "auto/fixed", "auto/chain", "tree 7", "tree 15");
    for (int k = 0; k <= b->n_classes; k++) {
        int class = k < b->n_classes ? k : -1;
        spec_summary s = spec_summarize(b, class);
        printf("%-12s %-10s", spec_class_name(b, class), s.best_fixed < 0 ? "-" : spec_settings[s.best_fixed].name);
        print_ratio(6, spec_ratio(b, class, SET_PLAIN, s.best_fixed));
        printf(" |");
        print_ratio(10, s.auto_plain);
        print_ratio(10, s.auto_fixed);
        print_ratio(10, s.auto_chain);
        printf(" |");
        print_ratio(7, s.tree_7);
        print_ratio(7, s.tree_15);
        putchar('\n');
    }
    printf("auto/fixed, auto/chain: auto against the best fixed setting and the best chain; tree 7, tree 15: against\n"
           "chains of as many rows. Above 1 the first is faster.\n");
}

static void print_sizes(const char *what, const int32_t *size, const double *ns, int n) {
    printf("%s", what);
    for (int i = 0; i < n; i++)
        if (ns[i] > 0.0) printf("  %d: %.1f", size[i], ns[i] * 1e-3);
    putchar('\n');
}

static void print_costs(const spec_bench *b) {
    printf("\nmicroseconds by rows, median\n");
    for (int i = 0; i < COST_CONTEXTS; i++) {
        const spec_cost *c = &b->cost[i];
        if (!c->ctx) continue;
        printf("behind %d tokens\n", c->ctx);
        print_sizes("  pass ", spec_pass_rows, c->pass, COST_PASSES);
        print_sizes("  draft", spec_draft_rows, c->draft, COST_DRAFTS);
    }
}

static void print_speeds(const spec_bench *b) {
    printf("\n%8s %14s %14s %18s\n", "context", "plain tokens/s", "auto tokens/s", "ratio (least)");
    for (int i = 0; i < SPEED_CONTEXTS; i++) {
        const spec_speed *v = &b->speed[i];
        if (!v->ctx) continue;
        printf("%8d %14.0f %14.0f %10.3f (%.3f)\n", v->ctx, samples_share(&v->plain, 0.5),
               samples_share(&v->adaptive, 0.5), samples_share(&v->ratio, 0.5), samples_share(&v->ratio, 0.0));
    }
}

static void print_control(const spec_control *c) {
    double ns = c->look_up + c->choose + c->learn;
    printf("\ncontroller: %.0f ns a step (look up %.0f, choose %.0f, learn %.0f): %.2f%% of a plain step", ns,
           c->look_up, c->choose, c->learn, 100.0 * quotient(ns, c->step));
    if (c->round > 0.0) printf(", %.2f%% of a round", 100.0 * ns / c->round);
    putchar('\n');
}

static void print_turn(const spec_turn *t) {
    if (!t->known) return;
    printf("\nfirst token of a turn that adds %d tokens to %d, ms, median (least)\n", t->added, t->known);
    printf("  the new rows alone %.3f (%.3f); the conversation goes on %.3f (%.3f), %.3f times as long; it is taken up "
           "again %.3f (%.3f), %.3f times; nothing known %.3f\n",
           samples_share(&t->alone, 0.5) * 1e-6, samples_share(&t->alone, 0.0) * 1e-6,
           samples_share(&t->extended, 0.5) * 1e-6, samples_share(&t->extended, 0.0) * 1e-6,
           samples_share(&t->ratio_extended, 0.5), samples_share(&t->resumed, 0.5) * 1e-6,
           samples_share(&t->resumed, 0.0) * 1e-6, samples_share(&t->ratio_resumed, 0.5), t->cold * 1e-6);
}

void spec_print(const spec_bench *b) {
    printf("%s, %d thread%s; %zu pairs of %zu prompts; equal tokens with every setting\n", b->pair.where, b->pair.lanes,
           b->pair.lanes == 1 ? "" : "s", b->n, b->prompts.n);
    for (int k = 0; k < b->n_classes; k++) print_class(b, k);
    print_summary(b);
    print_costs(b);
    print_speeds(b);
    print_control(&b->control);
    print_turn(&b->turn);
}
