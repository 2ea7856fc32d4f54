/* Every op on every implementation that this processor has, against the reference, bit for bit.
 *
 *   test_ops           everything
 *   test_ops PATTERN   cases whose "op/name" contains PATTERN
 *   test_ops --list    the cases */
#include "tests/ops/parity.h"
#include "tests/ops/wrong.h"

#include <stdio.h>
#include <string.h>

enum { LISTS = 7 };

static bool matches(const op_case *c, const char *pattern) {
    char name[128];
    snprintf(name, sizeof name, "%s/%s", op_name(c->id), c->name);
    return !pattern || strstr(name, pattern);
}

static void list_cases(const case_list *all) {
    for (int l = 0; l < LISTS; l++)
        for (int i = 0; i < all[l].n; i++) printf("%s/%s\n", op_name(all[l].at[i].id), all[l].at[i].name);
}

static void run_cases(parity *p, const case_list *all, const char *pattern) {
    for (int l = 0; l < LISTS; l++) {
        for (int i = 0; i < all[l].n; i++) {
            int32_t rows[8];
            int n = matches(&all[l].at[i], pattern) ? parity_rows(&all[l].at[i], rows) : 0;
            for (int r = 0; r < n; r++) parity_case(p, &all[l].at[i], rows[r]);
        }
    }
}

/* An op without a case is a failure. */
static void check_coverage(parity *p, const case_list *all) {
    bool seen[OP_COUNT] = { false };
    for (int l = 0; l < LISTS; l++)
        for (int i = 0; i < all[l].n; i++) seen[all[l].at[i].id] = true;
    for (int id = 0; id < OP_COUNT; id++) {
        *(seen[id] ? &p->passed : &p->failed) += 1;
        if (!seen[id]) printf("%s has no case\n", op_name((op_id)id));
    }
}

int main(int argc, char **argv) {
    const case_list all[LISTS] = { cases_rows(), cases_linear(), cases_attn(), cases_moe(),
                                   cases_tap(),  cases_pick(),   cases_step() };
    const char *pattern = argc > 1 ? argv[1] : NULL;
    if (pattern && strcmp(pattern, "--list") == 0) {
        list_cases(all);
        return 0;
    }
    parity p;
    parity_init(&p);
    run_cases(&p, all, pattern);
    if (!pattern) {
        check_coverage(&p, all);
        wrong_run(&p, all, LISTS);
    }
    parity_deinit(&p);
    printf("%d passed, %d failed, %d skipped\n", p.passed, p.failed, p.skipped);
    return p.failed || p.passed == 0;
}
