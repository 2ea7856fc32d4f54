/* tests/model/cache_fixture.h - a folder that an engine left with its conversations, for tests of what is made of it.
 */
#ifndef TESTS_MODEL_CACHE_FIXTURE_H
#define TESTS_MODEL_CACHE_FIXTURE_H
#include "tests/model/engine_fixture.h"
#include "tests/unit/load_fixture.h"

#include "engine/core/cache_dir.h"

enum { CONVERSATIONS = 4, SHORT = 150, LONG = 2600, PART = 2060, ANSWER = 24 };

/* Prompts that differ from the first token on; the last two grow from one long prefix. The second is sampled, with
 * penalties. */
typedef struct talk {
    token_list prompt[CONVERSATIONS];
    question q[CONVERSATIONS];
} talk;

FIXTURE talk talk_new(void) {
    static const int32_t LEN[CONVERSATIONS] = { SHORT, 900, LONG, LONG + 200 };
    talk t;
    int32_t *all = demo_tokens(2 * LONG);
    for (int32_t i = 0; i < CONVERSATIONS; i++) {
        t.prompt[i] = (token_list){ 0 };
        for (int32_t k = 0; k < LEN[i]; k++) token_list_push(&t.prompt[i], all[i < 2 ? 400 * i + k : k]);
        t.prompt[i].ids[0] = 1000 + (i < 2 ? i : 2);
        if (i == 3) t.prompt[i].ids[PART] = 77; /* here it leaves the one before */
        t.q[i] = ask(&t.prompt[i], ANSWER, SPEC_DEFAULT);
        t.q[i].reuse = true;
        t.q[i].reply.ignore_end = true;
    }
    t.q[1].pick = (pick_options){ .temperature = 0.9f, .top_p = 0.95f, .seed = 5, .repeat = 1.2f, .presence = 0.5f };
    free(all);
    return t;
}

FIXTURE void talk_free(talk *t) {
    for (int32_t i = 0; i < CONVERSATIONS; i++) token_list_free(&t->prompt[i]);
}

FIXTURE engine_options options(const char *dir) {
    return (engine_options){ .ctx = CTX, .cache_tokens = 2 * CTX, .checkpoints = 24, .cache_dir = dir };
}

FIXTURE void ask_all(engine *en, const talk *t, answer *out) {
    for (int32_t i = 0; i < CONVERSATIONS; i++) out[i] = get_answer(en, &t->q[i]);
}

FIXTURE void answers_free(answer *a) {
    for (int32_t i = 0; i < CONVERSATIONS; i++) answer_free(&a[i]);
}

/* The conversations, what an engine without any memory of them says, and a folder that such an engine left. */
typedef struct saved {
    talk t;
    answer cold[CONVERSATIONS];
    scratch s;
} saved;

FIXTURE int setup(void **state) {
    saved *v = xalloc(sizeof *v);
    v->t = talk_new();
    scratch_init(&v->s);
    engine *en = start(options(v->s.model));
    ask_all(en, &v->t, v->cold);
    engine_close(en);
    *state = v;
    return 0;
}

FIXTURE int teardown(void **state) {
    saved *v = *state;
    answers_free(v->cold);
    talk_free(&v->t);
    scratch_deinit(&v->s);
    free(v);
    return 0;
}

FIXTURE bool is_cold(const answer *a) { return a->totals.cached == 0; }
FIXTURE bool is_warm(const answer *a) { return a->totals.cached == a->totals.prompt - 1; }

FIXTURE void check_all(const answer *got, const answer *want, const char *what) {
    for (int32_t i = 0; i < CONVERSATIONS; i++) check_same(&got[i], &want[i], what, i);
}

/* Names of the files, ascending; how many. */
FIXTURE int files_of(const char *dir, char (*name)[CACHE_NAME_MAX], int max) {
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *it; (it = readdir(d));) {
        if (it->d_name[0] == '.') continue;
        assert_true(n < max && cache_name_is_file(it->d_name));
        snprintf(name[n++], sizeof *name, "%.39s", it->d_name);
    }
    closedir(d);
    return n;
}

FIXTURE int32_t lines_of(const char *text) {
    int32_t n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

FIXTURE buf read_file(const char *dir, const char *name) {
    buf out = { 0 };
    MUST(file_read(&out, path_in(dir, name), 1 << 28, e));
    return out;
}

/* A folder of its own with the saved files. */
FIXTURE scratch copy_of(const saved *v) {
    scratch s;
    char name[8][CACHE_NAME_MAX];
    scratch_init(&s);
    for (int i = 0, n = files_of(v->s.model, name, 8); i < n; i++) {
        buf bytes = read_file(v->s.model, name[i]);
        write_bytes(s.model, name[i], buf_view(&bytes));
        buf_free(&bytes);
    }
    return s;
}
#endif
