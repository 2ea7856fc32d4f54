/* A step is pure: what it does is fixed when it is recorded, and what changes between two replays comes from the
 * parameter block alone. Checked here: descriptions do not look into the block; replay and running op by op give the
 * same bits; a replay allocates nothing and asks nothing of the system; the plans themselves, as text.
 *
 * `test_purity --write` writes the plans of tests/golden/plan anew, for a change that means to change them.
 *
 * link: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=mmap,--wrap=op_put
 */
#include "tests/model/model_fixture.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/core/bytes.h"

enum {
    CTX = 4096, /* of the demo pair; sizes of its KV stand in the plans */
    TOKENS = 400,
    LANES = 2,
    REPLAYS = 200,
    REPLAYS_FILTERED = 50,
    BARRIERS_PER_LAYER = 8,
};

typedef struct world {
    pair *p;
    int32_t *tokens;
} world;

/* ---- the wrapped functions ---- */

static struct {
    int64_t calls;   /* of allocating functions */
    buf *args, *ids; /* where op_put adds its arguments and their op_id; NULL: nowhere */
} watch;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void __real_op_put(op_sink *s, op_id id, const void *args, size_t bytes);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void __wrap_op_put(op_sink *s, op_id id, const void *args, size_t bytes);

void *__wrap_malloc(size_t n) {
    watch.calls++;
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size) {
    watch.calls++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n) {
    watch.calls++;
    return __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n) {
    watch.calls++;
    return __real_aligned_alloc(align, n);
}

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
    watch.calls++;
    return __real_mmap(at, n, prot, flags, fd, offset);
}

/* Laid out as a plan keeps them. */
void __wrap_op_put(op_sink *s, op_id id, const void *args, size_t bytes) {
    static const char ZERO[16];
    if (watch.args) {
        buf_put(watch.args, args, bytes);
        buf_put(watch.args, ZERO, (16 - watch.args->len % 16) % 16);
        buf_put(watch.ids, &id, sizeof id);
    }
    __real_op_put(s, id, args, bytes);
}

/* ---- one replay of each step ---- */

static const char *const STEPS[] = { "plain-1",  "prefill-32", "prefill-256", "round-8",
                                     "round-16", "round-32",   "context-32",  "context-256" };
enum { N_STEPS = sizeof STEPS / sizeof STEPS[0] };

/* Runs the named step once behind `base` committed tokens, of which all but `lag` have context rows. */
static const step_out *run_step(world *w, steps *s, const char *name, int32_t base, int32_t lag, int32_t less) {
    str n = str_of(name);
    const int32_t *at = w->tokens + base % 50;
    steps_seek(s, base, *at, base - lag);
    if (str_starts(n, STR("prefill-32"))) return steps_prefill(s, at, 32 - less, less == 0);
    if (str_starts(n, STR("prefill-256"))) return steps_prefill(s, at, 40 - less, less == 0);
    if (str_starts(n, STR("round-8"))) return steps_round(s, 7 - less);
    if (str_starts(n, STR("round-16"))) return steps_round(s, 15 - less);
    if (str_starts(n, STR("round-32"))) return steps_verify(s, at, 31 - less);
    if (str_starts(n, STR("context-256"))) steps_seek(s, base, *at, 0);
    if (str_starts(n, STR("context-"))) {
        steps_catch_up(s);
        return &steps_params(s)->out;
    }
    return steps_plain(s);
}

/* Makes everything below TOKENS readable. */
static void fill_memory(world *w, steps *s) {
    memory_poison(w->p);
    steps_seek(s, 0, 0, 0);
    steps_set_pick(s, &(pick_params){ .top_p = 1.0f });
    for (int32_t at = 0; at < TOKENS; at += 25) {
        steps_prefill(s, w->tokens + at, 25, false);
        steps_catch_up(s);
    }
}

/* ---- descriptions ---- */

/* The members of every argument struct, in order: p a pointer or 8 bytes, i 4 bytes, b one, v view, l live_rows, w
 * weight, s kv_store. Bytes between members have no value and are left out of the comparison. */
static const char *const MEMBERS[OP_COUNT] = {
    [OP_BEGIN] = "piiiip",
    [OP_EMBED] = "vvp",
    [OP_ROPE] = "pivvp",
    [OP_NORM] = "vvpil",
    [OP_LINEAR] = "vvvwwwwpil",
    [OP_GLU] = "vvwwpil",
    [OP_QKV_STORE] = "vvvvppiisp",
    [OP_ATTN] = "vvvssiiiip",
    [OP_ROUTE] = "vpiwpibvvvl",
    [OP_MOE_UP] = "vpippiwwvvl",
    [OP_MOE_DOWN] = "vvvpiwivl",
    [OP_TAP] = "vvip",
    [OP_TAP_NORM] = "vppppppppppppppppiivp",
    [OP_CTX_STORE] = "vvvpisp",
    [OP_TOPK] = "vvvl",
    [OP_TREE] = "pvvi",
    [OP_PICK] = "ppvv",
    [OP_ACCEPT] = "pi",
    [OP_KV_MOVE] = "ppiv",
    [OP_STAMP] = "pi",
};

static const char *nested(char member) {
    switch (member) {
    case 'v': return "ppiii";
    case 'l': return "ppi";
    case 'w': return "ppiii";
    case 's': return "pppiiiiipp";
    default: return NULL;
    }
}

static size_t round_up(size_t at, size_t unit) { return (at + unit - 1) / unit * unit; }

/* Appends the members that start at offset `at`; returns where they end. */
static size_t put_members(const char *members, const char *args, size_t at, buf *out) {
    for (; *members; members++) {
        size_t size = *members == 'p' ? 8 : *members == 'i' ? 4 : *members == 'b' ? 1 : 0;
        if (size == 0) {
            at = round_up(put_members(nested(*members), args, round_up(at, 8), out), 8);
            continue;
        }
        at = round_up(at, size);
        buf_put(out, args + at, size);
        at += size;
    }
    return at;
}

static void check_args(const buf *got, const buf *ids, const plan *p, const char *name, const char *when) {
    str want = plan_args(p);
    if (got->len != want.n) fail_msg("%s, %s: %zu bytes of arguments, recorded %zu", name, when, got->len, want.n);
    assert_int_equal(ids->len / sizeof(op_id), plan_entries(p));
    buf a = { 0 }, b = { 0 };
    for (size_t i = 0, at = 0; i < plan_entries(p); i++) {
        op_id id;
        memcpy(&id, ids->data + i * sizeof id, sizeof id);
        buf_clear(&a);
        buf_clear(&b);
        assert_int_equal(round_up(put_members(MEMBERS[id], got->data + at, 0, &a), 8), op_args_bytes(id));
        put_members(MEMBERS[id], want.p + at, 0, &b);
        if (!str_eq(buf_view(&a), buf_view(&b)))
            fail_msg("%s, %s: arguments of entry %zu (%s) are not as recorded: the description reads the parameters",
                     name, when, i, op_name(id));
        at += round_up(op_args_bytes(id), 16);
    }
    buf_free(&a);
    buf_free(&b);
}

static void check_described(world *w, const char *name, int32_t base, int32_t lag, int32_t less, const char *when) {
    steps *s = w->p->steps;
    buf args = { 0 }, ids = { 0 };
    watch.args = &args, watch.ids = &ids;
    run_step(w, s, name, base, lag, less);
    watch.args = watch.ids = NULL;
    check_args(&args, &ids, step_plan(steps_get(s, find_step(s, name))), name, when);
    buf_free(&args);
    buf_free(&ids);
}

/* Every step is described again while the block holds two quite different situations. Running op by op uses the
 * activations of the recording, so the arguments must be its very bytes, addresses included. */
static void test_description_is_constant(void **state) {
    world *w = *state;
    steps *s = w->p->steps;
    fill_memory(w, s);
    steps_set_eager(s, true);
    for (int i = 0; i < N_STEPS; i++) {
        check_described(w, STEPS[i], 300, 8, 0, "full");
        steps_set_pick(s, &(pick_params){ .temperature = 1.5f, .top_p = 0.5f, .min_p = 0.1f, .top_k = 3, .seed = 99 });
        check_described(w, STEPS[i], 41, 3, 1, "with less to do");
    }
    steps_set_eager(s, false);
}

/* ---- replay and eager ---- */

static void put_out(buf *log, const step_out *out) {
    step_out o = *out;
    memset(o.stamp, 0, sizeof o.stamp);
    o.seq = 0;
    buf_put(log, &o, sizeof o);
}

static void put_logits(buf *log, steps *s, const char *name) {
    view v = steps_logits(s, find_step(s, name));
    buf_put(log, view_row(&v, 0), (size_t)v.cols * sizeof(float));
}

/* Some of everything; what comes out goes to the log, and at the end all memory of the pair. */
static void scenario(world *w, steps *s, bool eager, buf *log) {
    const int32_t junk[DEPTH_MAX] = { 7, 8, 9 };
    buf memory = { 0 };
    memory_poison(w->p);
    memset(&steps_params(s)->st, 0, sizeof steps_params(s)->st);
    memset(&steps_params(s)->out, 0, sizeof steps_params(s)->out);
    steps_set_eager(s, eager);
    steps_seek(s, 0, 0, 0);
    steps_set_pick(s,
                   &(pick_params){ .temperature = 0.7f, .top_p = 0.9f, .seed = 3, .repeat = 1.1f, .presence = 0.2f });
    steps_set_logprobs(s, 4);
    put_out(log, steps_prefill(s, w->tokens, 256, false));
    put_out(log, steps_prefill(s, w->tokens + 256, 11, true));
    put_logits(log, s, "prefill-32");
    steps_catch_up(s); /* context-256 */
    for (int i = 0; i < 20; i++) put_out(log, steps_plain(s));
    put_logits(log, s, "plain-1");
    put_out(log, steps_round(s, 7)); /* far behind: context-32 */
    for (int i = 0; i < 4; i++) put_out(log, steps_round(s, 7));
    put_logits(log, s, "round-8");
    put_out(log, steps_round(s, 15));
    put_out(log, steps_verify(s, junk, DEPTH_MAX));
    put_logits(log, s, "round-32");
    memory_save(w->p, s, &memory);
    buf_str(log, buf_view(&memory));
    buf_free(&memory);
    steps_set_eager(s, false);
}

static void test_replay_is_eager(void **state) {
    world *w = *state;
    buf want = { 0 }, got = { 0 };
    for (int lanes = 1; lanes <= 3; lanes++) {
        steps *s;
        MUST(steps_open(&s, &w->p->target, &w->p->draft, w->p->isa, lanes, e));
        for (int eager = 1; eager >= 0; eager--) {
            buf *log = want.len ? &got : &want;
            buf_clear(log);
            scenario(w, s, eager, log);
            if (log == &want) continue; /* one lane, op by op */
            assert_int_equal(got.len, want.len);
            for (size_t i = 0; i < got.len; i++)
                if (got.data[i] != want.data[i])
                    fail_msg("%s on %d lanes: byte %zu of results and memory differs from op by op on one lane",
                             eager ? "op by op" : "replay", lanes, i);
        }
        steps_close(s);
    }
    buf_free(&want);
    buf_free(&got);
}

/* ---- allocations and system calls ---- */

static void test_no_allocation(void **state) {
    world *w = *state;
    steps *s;
    MUST(steps_open(&s, &w->p->target, &w->p->draft, w->p->isa, LANES, e));
    fill_memory(w, s);
    steps_set_pick(s, &(pick_params){ .temperature = 0.7f, .top_p = 0.9f, .seed = 3, .frequency = 0.1f });
    steps_set_logprobs(s, PICK_TOP_MAX);
    for (int i = 0; i < N_STEPS; i++) {
        uint32_t seq = steps_params(s)->in.seq;
        watch.calls = 0;
        for (int n = 0; n < REPLAYS; n++) run_step(w, s, STEPS[i], 300, 8, n % 2);
        int64_t calls = watch.calls;
        if (calls) fail_msg("%s: %lld allocations in %d replays", STEPS[i], (long long)calls, REPLAYS);
        assert_int_equal(steps_params(s)->in.seq - seq, REPLAYS);
    }
    steps_close(s);
    watch.calls = 0;
    free(xalloc(1)); /* the counter counts */
    assert_int_equal(watch.calls, 1);
}

/* Masks are the caller's; around them a round in parts allocates no more than a whole one. */
static void allow_all(void *arg, const step_out *tree, int32_t rows, uint32_t *bits, int32_t words) {
    (void)tree;
    memset(bits, 0xFF, (size_t)rows * (size_t)words * sizeof *bits);
    *(int64_t *)arg += rows;
}

static void test_no_allocation_masked(void **state) {
    world *w = *state;
    steps *s;
    int64_t rows = 0;
    MUST(steps_open(&s, &w->p->target, &w->p->draft, w->p->isa, LANES, e));
    fill_memory(w, s);
    steps_set_pick(s, &(pick_params){ .temperature = 0.7f, .top_p = 0.9f, .seed = 3 });
    steps_set_mask(s, allow_all, &rows);
    for (int i = 0; i < N_STEPS; i++) {
        watch.calls = 0;
        for (int n = 0; n < REPLAYS; n++) run_step(w, s, STEPS[i], 300, 8, n % 2);
        int64_t calls = watch.calls;
        if (calls) fail_msg("%s, masked: %lld allocations in %d replays", STEPS[i], (long long)calls, REPLAYS);
    }
    assert_true(rows > 3 * REPLAYS);
    steps_close(s);
}

/* From here on any system call but reading the clock and ending kills the process. */
static bool refuse_system_calls(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clock_gettime, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof code[0], code };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

enum { CHILD_FINE = 0, CHILD_CANNOT = 77 };

static int run_child(world *w, const char *name, bool call) {
    pid_t child = fork();
    if (child == 0) {
        if (!refuse_system_calls()) _exit(CHILD_CANNOT);
        for (int n = 0; n < REPLAYS_FILTERED; n++) run_step(w, w->p->steps, name, 300, 8, n % 2);
        if (call) (void)getppid();
        _exit(CHILD_FINE);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    return how;
}

static void test_no_system_call(void **state) {
    world *w = *state;
    if (SKIFF_DEBUG) {
        print_message("skip: sanitizers make system calls of their own\n");
        skip();
    }
    fill_memory(w, w->p->steps);
    int how = run_child(w, STEPS[0], true);
    if (WIFEXITED(how) && WEXITSTATUS(how) == CHILD_CANNOT) {
        print_message("skip: this system does not filter system calls\n");
        skip();
    }
    assert_true(WIFSIGNALED(how)); /* the filter filters */
    for (int i = 0; i < N_STEPS; i++) {
        how = run_child(w, STEPS[i], false);
        if (WIFSIGNALED(how)) fail_msg("%s: a replay made a system call", STEPS[i]);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), CHILD_FINE);
    }
}

/* ---- plans ---- */

static const char *const DUMPED[] = { "plain-1", "round-8" };

static void dump(world *w, const char *name, char path[64], buf *out) {
    step *s = steps_get(w->p->steps, find_step(w->p->steps, name));
    snprintf(path, 64, "tests/golden/plan/%s.txt", name);
    plan_dump(step_plan(s), step_work(s), out);
}

static void test_plan_text(void **state) {
    for (int i = 0; i < 2; i++) {
        char path[64];
        buf got = { 0 }, want = { 0 };
        dump(*state, DUMPED[i], path, &got);
        MUST(file_read(&want, path, 1 << 20, e));
        const char *g = buf_cstr(&got), *t = buf_cstr(&want);
        for (int line = 1; *g || *t; line++) {
            int ng = (int)strcspn(g, "\n"), nt = (int)strcspn(t, "\n");
            if (ng != nt || memcmp(g, t, (size_t)ng) != 0)
                fail_msg("%s:%d: expected \"%.*s\", found \"%.*s\"", path, line, nt, t, ng, g);
            g += ng + (g[ng] != 0);
            t += nt + (t[nt] != 0);
        }
        buf_free(&got);
        buf_free(&want);
    }
}

/* From one storing of keys to the next lie the ops of one layer, turned by one; an embedding starts another network. */
static void test_barriers(void **state) {
    for (int i = 0; i < 2; i++) {
        char path[64];
        buf text = { 0 };
        int barriers = 0, layer = 0, most = 0;
        dump(*state, DUMPED[i], path, &text);
        for (const char *line = buf_cstr(&text); *line; line += strcspn(line, "\n") + 1) {
            if (strncmp(line + 2, "embed ", 6) == 0) layer = 0;
            if (strncmp(line + 2, "qkv_store ", 10) == 0) {
                if (layer++ && barriers > BARRIERS_PER_LAYER)
                    fail_msg("%s: %d barriers in layer %d, at most %d expected", DUMPED[i], barriers, layer - 1,
                             BARRIERS_PER_LAYER);
                if (layer > most) most = layer;
                barriers = 0;
            }
            barriers += *line == '|';
        }
        assert_int_equal(most, ((world *)*state)->p->target.cfg.layers);
        buf_free(&text);
    }
}

/* The plan and the byte model count the same matrices. */
static void test_plan_bytes(void **state) {
    const pair *p = ((world *)*state)->p;
    int64_t plain = plan_weight_bytes(step_plan(steps_get(p->steps, find_step(p->steps, "plain-1"))));
    int64_t round = plan_weight_bytes(step_plan(steps_get(p->steps, find_step(p->steps, "round-8"))));
    pass_bytes big = bytes_target_pass(&p->target.cfg, &p->target.w, p->target.cfg.experts, 0, DT_BF16);
    pass_bytes small = bytes_draft_pass(&p->draft.cfg, &p->draft.w, &p->target.w, 0);
    assert_int_equal(big.kv_global + big.kv_sliding, 0);
    assert_int_equal(plain, big.total);
    /* the draft reads its key and value matrices twice, for the context and for the block */
    for (int32_t l = 0; l < p->draft.cfg.layers; l++)
        small.total += weight_bytes(&p->draft.w.layer[l].k) + weight_bytes(&p->draft.w.layer[l].v);
    assert_int_equal(round, big.total + small.total);
}

/* ---- */

static int setup(void **state) {
    world *w = xalloc(sizeof *w);
    w->p = demo_open(CTX);
    w->tokens = demo_tokens(TOKENS);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    free(w->tokens);
    demo_close(w->p);
    free(w);
    return 0;
}

static void write_plans(void **state) {
    for (int i = 0; i < 2; i++) {
        char path[64];
        buf text = { 0 };
        dump(*state, DUMPED[i], path, &text);
        MUST(file_write_atomic(path, buf_view(&text), e));
        buf_free(&text);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_description_is_constant),
                                        cmocka_unit_test(test_replay_is_eager),
                                        cmocka_unit_test(test_no_allocation),
                                        cmocka_unit_test(test_no_allocation_masked),
                                        cmocka_unit_test(test_no_system_call),
                                        cmocka_unit_test(test_plan_text),
                                        cmocka_unit_test(test_barriers),
                                        cmocka_unit_test(test_plan_bytes) };
    const struct CMUnitTest writing[] = { cmocka_unit_test(write_plans) };
    if (argc == 2 && strcmp(argv[1], "--write") == 0) return cmocka_run_group_tests(writing, setup, teardown);
    return cmocka_run_group_tests(tests, setup, teardown);
}
