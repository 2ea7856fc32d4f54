/* A step on a device is pure: what it launches is fixed when it is recorded, and what changes between two replays comes
 * from the parameter block alone. Checked here: graphs that were recorded over different parameters are the same to the
 * byte; replay and running op by op give the same bits, in any order of threads; how many kernels a layer and a step
 * are; a round is one launch of a graph and nothing else.
 *
 * link: -Wl,--wrap=device_capture,--wrap=device_end_capture
 */
#include "tests/model/device_fixture.h"

enum {
    LAYER_LAUNCHES = 6, /* attention, its output, router, up, down, the next layer's projections */
    /* README states these. */
    TINY_PLAIN = 46,
    TINY_ROUND = 72,
    DEMO_PLAIN = 58,
    DEMO_ROUND = 84,
    GRAPHS_MAX = 64,
    MASKS_MAX = NODES_MAX * 4096 / 8, /* bytes of masks behind the host's block */
};

/* ---- recording over other parameters ---- */

/* Fills the block of a step that is being recorded, on both sides; 0: as it is. */
static struct {
    uint8_t junk;
    step_params *at, *host, kept;
} recording;
static step_params *own_block; /* of the pair's own steps, on the device */

status __real_device_capture(device *d, step_params *at, step_params *host, err *e);
status __real_device_end_capture(device *d, device_graph **out, err *e);
status __wrap_device_capture(device *d, step_params *at, step_params *host, err *e);
status __wrap_device_end_capture(device *d, device_graph **out, err *e);

status __wrap_device_capture(device *d, step_params *at, step_params *host, err *e) {
    recording.at = at, recording.host = host, recording.kept = *host;
    if (recording.junk) {
        memset(host, recording.junk, sizeof *host);
        memory_copy(d, at, host, sizeof *host);
        memory_wait(d);
    }
    return __real_device_capture(d, at, host, e);
}

status __wrap_device_end_capture(device *d, device_graph **out, err *e) {
    status s = __real_device_end_capture(d, out, e);
    *recording.host = recording.kept;
    return s;
}

/* ---- graphs ---- */

/* A graph as it was recorded, without the addresses of the host's block, which every recording has its own of. */
typedef struct record {
    buf text, args;
} record;

static void put_node(record *r, const simt_node_view *v, const step_params *host) {
    buf_printf(&r->text, "%s %u x %u, %u threads, %u bytes shared%s\n", v->name, v->x, v->y, v->threads, v->shared,
               v->overlap ? ", overlaps" : "");
    size_t at = 0;
    for (; at + sizeof(uint64_t) <= v->arg_bytes; at += sizeof(uint64_t)) {
        uint64_t word, from = (uint64_t)(uintptr_t)host;
        memcpy(&word, v->args + at, sizeof word);
        if (word - from < sizeof *host + MASKS_MAX) word = word - from;
        buf_put(&r->args, &word, sizeof word);
    }
    buf_put(&r->args, v->args + at, v->arg_bytes - at);
}

static record record_of(const void *graph, const step_params *host) {
    record r = { 0 };
    for (size_t i = 0; i < simt_graph_size(graph); i++) {
        simt_node_view v = simt_graph_node(graph, i);
        put_node(&r, &v, host);
    }
    return r;
}

static void record_free(record *r) {
    buf_free(&r->text);
    buf_free(&r->args);
}

/* The graphs of the steps that were opened last, in their order. */
static size_t last_graphs(const void **out, size_t n) {
    const void *all[GRAPHS_MAX];
    size_t have = simt_graph_list(all, GRAPHS_MAX);
    assert_true(have >= n && have <= GRAPHS_MAX);
    memcpy(out, all + have - n, n * sizeof *out);
    return n;
}

static void record_steps(const pair *p, uint8_t junk, record out[STEPS_COUNT]) {
    const void *graph[STEPS_COUNT];
    steps *s;
    recording.junk = junk;
    MUST(steps_open(&s, &p->target, pair_draft(p), p->isa, 1, e));
    recording.junk = 0;
    last_graphs(graph, STEPS_COUNT);
    for (int i = 0; i < STEPS_COUNT; i++) out[i] = record_of(graph[i], steps_params(s));
    steps_close(s);
}

static void test_recorded_twice(void **state) {
    pair *p = *state;
    record first[STEPS_COUNT], second[STEPS_COUNT];
    const void *own[STEPS_COUNT];
    last_graphs(own, STEPS_COUNT);
    record_steps(p, 0x01, first);
    record_steps(p, 0xA7, second);
    for (int i = 0; i < STEPS_COUNT; i++) {
        const char *name = step_name(steps_get(p->steps, i));
        record live = record_of(own[i], steps_params(p->steps)); /* other addresses */
        if (strcmp(buf_cstr(&first[i].text), buf_cstr(&second[i].text)) != 0 ||
            strcmp(buf_cstr(&first[i].text), buf_cstr(&live.text)) != 0)
            fail_msg("%s: kernels or grids follow the parameters:\n%s\n%s", name, buf_cstr(&first[i].text),
                     buf_cstr(&second[i].text));
        if (!str_eq(buf_view(&first[i].args), buf_view(&second[i].args)))
            fail_msg("%s: arguments of kernels follow the parameters", name);
        record_free(&live);
        record_free(&first[i]);
        record_free(&second[i]);
    }
}

/* ... and a description that looks into the block is found. */
static void describe_impure(void *ctx, op_sink *s, work *w) {
    const step_place *where = ctx;
    (void)work_take(w, "nothing", 1, 1, DT_F32);
    op_stamp(s, &(stamp_args){ .p = where->at, .which = where->host->in.rows > 0x02000000 });
}

static void test_impure_is_seen(void **state) {
    pair *p = *state;
    step_params *host = steps_params(p->steps);
    void *at, *lanes = steps_pool(p->steps);
    MUST(memory_alloc(p->device, &at, sizeof *host, "a block", e));
    step_place where = { .lanes = lanes, .device = p->device, .at = at, .host = host };
    record r[2];
    for (int i = 0; i < 2; i++) {
        const void *graph;
        step *s;
        recording.junk = i ? 0x7F : 0x01;
        MUST(step_open(&s, "impure", describe_impure, &where, &where, e));
        recording.junk = 0;
        last_graphs(&graph, 1);
        r[i] = record_of(graph, host);
        step_close(s);
    }
    assert_string_equal(buf_cstr(&r[0].text), buf_cstr(&r[1].text));
    assert_false(str_eq(buf_view(&r[0].args), buf_view(&r[1].args)));
    record_free(&r[0]);
    record_free(&r[1]);
    memory_free(p->device, at, sizeof *host);
}

/* ---- replay and eager ---- */

static void put_out(buf *log, const step_out *out) {
    step_out o = *out;
    memset(o.stamp, 0, sizeof o.stamp);
    o.seq = 0;
    buf_put(log, &o, sizeof o);
}

static void put_logits(const pair *p, const char *name, buf *log) {
    view v = steps_logits(p->steps, find_step(p->steps, name));
    memory_put(p, v.data, (size_t)v.cols * sizeof(float), log);
}

/* Some of everything; what comes out goes to the log, and at the end all memory of the pair. */
static void scenario(const pair *p, bool eager, simt_order order, buf *log) {
    static const int32_t JUNK[NODES_MAX - 1] = { 7, 8, 9 };
    steps *s = p->steps;
    int32_t tokens[64];
    junk_tokens(tokens, 64, 5);
    device_poison(p);
    step_params *zeros = xalloc(sizeof *zeros);
    memory_copy(p->device, own_block, zeros, sizeof *zeros);
    memory_wait(p->device);
    free(zeros);
    simt_set_order(order, 3);
    steps_set_eager(s, eager);
    steps_seek(s, 0, 0, 0);
    steps_set_pick(s,
                   &(pick_params){ .temperature = 0.7f, .top_p = 0.9f, .seed = 3, .repeat = 1.1f, .presence = 0.2f });
    steps_set_logprobs(s, 4);
    put_out(log, steps_prefill(s, tokens, 40, false)); /* prefill-256 */
    put_out(log, steps_prefill(s, tokens + 40, 11, true));
    put_logits(p, "prefill-32", log);
    for (int i = 0; i < 3; i++) put_out(log, steps_plain(s));
    put_logits(p, "plain-1", log);
    for (int i = 0; i < 2; i++) put_out(log, steps_round(s, 7));
    put_logits(p, "round-8", log);
    put_out(log, steps_tree(s, 7, 12, TREE_WIDTH));
    put_out(log, steps_tree(s, 7, 31, TREE_WIDTH));
    put_out(log, steps_verify(s, JUNK, NODES_MAX - 1));
    put_logits(p, "round-32", log);
    steps_catch_up(s);
    device_save(p, log);
    memory_put(p, &own_block->st, sizeof own_block->st, log);
    steps_set_eager(s, false);
    simt_set_order(SIMT_FORWARD, 0);
}

static void test_replay_is_eager(void **state) {
    pair *p = *state;
    buf want = { 0 }, got = { 0 };
    scenario(p, false, SIMT_FORWARD, &want);
    for (int how = 0; how < 3; how++) {
        buf_clear(&got);
        scenario(p, how == 0, (simt_order)how, &got);
        assert_int_equal(got.len, want.len);
        for (size_t i = 0; i < got.len; i++)
            if (got.data[i] != want.data[i])
                fail_msg("%s: byte %zu of %zu of results and memory is not that of a replay in order",
                         how == 0 ? "op by op" : "other order of threads", i, got.len);
    }
    buf_free(&want);
    buf_free(&got);
}

/* ---- launches ---- */

static bool is_attention(const char *name) { return strstr(name, "attention") != NULL; }

/* From one attention to the next lie the kernels of one layer, turned by one; an embedding starts another network. */
static void check_layers(const pair *p, const char *name, int32_t layers) {
    const void *graph[STEPS_COUNT];
    last_graphs(graph, STEPS_COUNT);
    const void *g = graph[find_step(p->steps, name)];
    int since = -1, seen = 0;
    for (size_t i = 0; i < simt_graph_size(g); i++) {
        simt_node_view v = simt_graph_node(g, i);
        if (strstr(v.name, "embed")) since = -1;
        if (is_attention(v.name)) {
            if (since > LAYER_LAUNCHES) fail_msg("%s: %d launches in a layer, before node %zu", name, since, i);
            seen++;
            since = 0;
        }
        if (since >= 0) since++;
    }
    assert_int_equal(seen, layers); /* attention is one launch */
}

static int32_t launches_of(const pair *p, const char *name) {
    return step_launches(steps_get(p->steps, find_step(p->steps, name)));
}

static void print_graph(const pair *p, const char *name) {
    const void *graph[STEPS_COUNT];
    last_graphs(graph, STEPS_COUNT);
    record r = record_of(graph[find_step(p->steps, name)], steps_params(p->steps));
    print_message("%s:\n%s", name, buf_cstr(&r.text));
    record_free(&r);
}

static void check_launches(const pair *p, int32_t plain, int32_t round, const char *what) {
    static const char *const ROUNDS[] = { "round-8", "round-16", "round-32" };
    int32_t layers = p->target.cfg.layers;
    check_layers(p, "plain-1", layers);
    print_message("%s pair: %d launches per plain step, %d per round\n", what, launches_of(p, "plain-1"),
                  launches_of(p, "round-8"));
    if (launches_of(p, "plain-1") != plain) print_graph(p, "plain-1");
    assert_int_equal(launches_of(p, "plain-1"), plain);
    for (int i = 0; i < 3; i++) {
        check_layers(p, ROUNDS[i], layers + p->draft.cfg.layers);
        if (launches_of(p, ROUNDS[i]) != round) print_graph(p, ROUNDS[i]);
        assert_int_equal(launches_of(p, ROUNDS[i]), round);
    }
}

static void test_launches(void **state) {
    check_launches(*state, TINY_PLAIN, TINY_ROUND, "tiny");
    pair *demo = pair_on(BACKEND_CUDA, NULL, KV_BF16);
    check_launches(demo, DEMO_PLAIN, DEMO_ROUND, "demo");
    pair_off(demo);
}

/* ---- a round, seen from the runtime ---- */

static void expect_calls(const simt_totals *t, int32_t steps_run, int32_t launches, const char *what) {
    if (t->graph_launches != (uint64_t)steps_run || t->calls != (uint64_t)steps_run)
        fail_msg("%s: %llu calls of the runtime in %d steps, %llu of them launch a graph", what,
                 (unsigned long long)t->calls, steps_run, (unsigned long long)t->graph_launches);
    assert_int_equal(t->launches, steps_run * launches);
    assert_int_equal(t->mallocs + t->host_allocs + t->memsets + t->syncs + t->captures, 0);
    assert_int_equal(t->memcpys, steps_run); /* the graph's own */
}

static void test_one_launch_a_step(void **state) {
    enum { STEPS = 6 };
    pair *p = *state;
    steps *s = p->steps;
    int32_t tokens[40];
    junk_tokens(tokens, 40, 1);
    steps_prompt(s, &(pick_params){ .temperature = 1.0f, .top_p = 0.9f, .seed = 3, .repeat = 1.2f }, tokens, 40);
    steps_round(s, 7); /* warm: what was not in the draft's ring is there now, and the lists are over */
    simt_totals t;
    simt_reset_counts();
    for (int i = 0; i < STEPS; i++) steps_round(s, 7);
    t = simt_counts();
    expect_calls(&t, STEPS, TINY_ROUND, "rounds of 7");
    simt_reset_counts();
    for (int i = 0; i < STEPS; i++) steps_tree(s, 7, i % 2 ? 31 : 12, TREE_WIDTH);
    t = simt_counts();
    expect_calls(&t, STEPS, TINY_ROUND, "trees");
    simt_reset_counts();
    for (int i = 0; i < STEPS; i++) steps_plain(s);
    t = simt_counts();
    expect_calls(&t, STEPS, TINY_PLAIN, "plain steps");
}

static int setup(void **state) {
    *state = pair_on(BACKEND_CUDA, TINY_TARGET, KV_BF16);
    own_block = recording.at;
    return 0;
}

static int teardown(void **state) {
    pair_off(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded_twice),    cmocka_unit_test(test_impure_is_seen),
        cmocka_unit_test(test_replay_is_eager),   cmocka_unit_test(test_launches),
        cmocka_unit_test(test_one_launch_a_step),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
