/* What the kernels of a step read of weights, keys and values: every matrix of the list of ops once, the experts that
 * live rows chose, and the keys and values that rows see, once per kv head. At up to 8 rows nothing is read twice. The
 * list is taken from running a step op by op, with the ids that the router chose on the way; sizes are those of the
 * layout (tiles of 16 rows, blocks of 64 columns), which at the tiny pair's shapes are more than the file's. What that
 * costs at the shapes of real models: test_cuda_streams.cpp.
 *
 * link: -Wl,--wrap=op_put
 */
#include "tests/model/device_fixture.h"

#include "kernels/cuda/pack.h"

enum { PROMPT = 40, EXPERTS = 64 };

/* Bytes by the list of ops. A warp's four lanes of a row read the same word of scales, which is one access and is
 * counted four times. */
enum { SCALE_LANES = 4 };
static struct {
    const pair *p; /* NULL: not now */
    uint64_t linear, glu, route, up, down, attention;
    bool chosen[EXPERTS]; /* of the layer at hand */
    int32_t distinct, layers;
} model;

static uint64_t bytes_of(const weight *w) {
    return w->n ? (uint64_t)(pack_bytes(w->n, w->k, w->type) + SCALE_LANES * pack_scale_bytes(w->n, w->k, w->type)) : 0;
}

static void fetch(void *to, const void *from, size_t bytes) {
    memory_copy(model.p->device, to, from, bytes);
    memory_wait(model.p->device);
}

static int32_t live_count(const live_rows *l) {
    int32_t n;
    fetch(&n, l->n, sizeof n);
    return n;
}

static void add_linear(const linear_args *a) {
    for (int i = 0; i < LINEAR_PARTS && live_count(&a->rows); i++) model.linear += bytes_of(&a->part[i]);
}

static void add_glu(const glu_args *a) {
    if (live_count(&a->rows)) model.glu += bytes_of(&a->gate) + bytes_of(&a->up);
}

static void add_route(const route_args *a) {
    model.route += bytes_of(&a->w);
    model.layers++;
    memset(model.chosen, 0, sizeof model.chosen);
    assert_true(a->w.n <= EXPERTS);
    for (int32_t i = 0, n = live_count(&a->rows); i < n; i++) {
        int32_t id[EXPERTS];
        fetch(id, view_row(&a->id, i), (size_t)a->id.cols * sizeof *id);
        for (int32_t c = 0; c < a->id.cols; c++) model.chosen[id[c]] = true;
    }
    for (int32_t e = 0; e < EXPERTS; e++) model.distinct += model.chosen[e];
}

static void add_up(const moe_up_args *a) {
    model.up += bytes_of(&a->shared_gate) + bytes_of(&a->shared_up);
    for (int32_t e = 0; e < a->experts; e++)
        if (model.chosen[e]) model.up += bytes_of(&a->gate[e]) + bytes_of(&a->up[e]);
}

static void add_down(const moe_down_args *a) {
    model.down += bytes_of(&a->shared_down);
    for (int32_t e = 0; e < a->experts; e++)
        if (model.chosen[e]) model.down += bytes_of(&a->down[e]);
}

/* What lies in the store; the rows of the call are made where they are needed. */
static void add_attention(const attn_args *a) {
    int32_t head[2]; /* n, base */
    fetch(head, a->rows, sizeof head);
    if (head[0] == 0) return;
    int32_t n = head[1] - kv_first_seen(a->window, head[1]);
    model.attention += (uint64_t)n * 2 * (uint64_t)a->past.heads * (uint64_t)kv_bytes(&a->past, a->past.size);
}

void __real_op_put(op_sink *s, op_id id, const void *args, size_t bytes);
void __wrap_op_put(op_sink *s, op_id id, const void *args, size_t bytes);

void __wrap_op_put(op_sink *s, op_id id, const void *args, size_t bytes) {
    __real_op_put(s, id, args, bytes);
    if (!model.p) return;
    switch ((int)id) {
    case OP_LINEAR: add_linear(args); break;
    case OP_GLU: add_glu(args); break;
    case OP_ROUTE: add_route(args); break;
    case OP_MOE_UP: add_up(args); break;
    case OP_MOE_DOWN: add_down(args); break;
    case OP_ATTN: add_attention(args); break;
    }
}

/* ---- steps ---- */

static void expect(const char *what, const char *kernel, uint64_t want) {
    uint64_t got = simt_count_of(kernel).streamed;
    print_message("%s, %s: %llu bytes\n", what, kernel, (unsigned long long)got);
    if (got != want)
        fail_msg("%s, %s: %llu bytes read, %llu expected", what, kernel, (unsigned long long)got,
                 (unsigned long long)want);
}

/* nodes 0: a plain step. depth 0: given proposals, without the draft. */
static void run(steps *s, int32_t depth, int32_t nodes) {
    int32_t given[NODES_MAX];
    junk_tokens(given, nodes, 21);
    if (depth)
        steps_round(s, depth);
    else if (nodes)
        steps_verify(s, given, nodes);
    else
        steps_plain(s);
}

static void check_step(pair *p, int32_t depth, int32_t nodes, const char *what) {
    int32_t prompt[PROMPT];
    steps *s = p->steps;
    junk_tokens(prompt, PROMPT, 7);
    steps_prompt(s, &(pick_params){ .top_p = 1.0f }, prompt, PROMPT);
    steps_catch_up(s);
    memset(&model, 0, sizeof model);
    model.p = p;
    steps_set_eager(s, true);
    run(s, depth, nodes);
    steps_set_eager(s, false);
    model.p = NULL;
    steps_prompt(s, &(pick_params){ .top_p = 1.0f }, prompt, PROMPT); /* the same step again, as a graph */
    steps_catch_up(s);
    simt_reset_counts();
    run(s, depth, nodes);
    print_message("%s: %.1f experts a layer\n", what, model.distinct / (double)model.layers);
    expect(what, "linear_kernel", model.linear);
    expect(what, "glu_kernel", model.glu);
    expect(what, "route_kernel", model.route);
    expect(what, "moe_up_kernel", model.up);
    expect(what, "moe_down_kernel", model.down);
    expect(what, "attention_kernel", model.attention);
    uint64_t all = model.linear + model.glu + model.route + model.up + model.down + model.attention;
    assert_int_equal(simt_counts().streamed, all); /* nobody else reads any */
}

static void test_steps(void **state) {
    check_step(*state, 0, 0, "plain");
    check_step(*state, 0, 7, "8 rows");
    check_step(*state, 7, 7, "round of 7");
}

static void test_fp8(void **state) {
    (void)state;
    pair *p = pair_on(BACKEND_CUDA, TINY_TARGET, KV_FP8_E4M3);
    check_step(p, 0, 7, "8 rows, fp8");
    pair_off(p);
}

static int setup(void **state) {
    *state = pair_on(BACKEND_CUDA, TINY_TARGET, KV_BF16);
    return 0;
}

static int teardown(void **state) {
    pair_off(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_steps), cmocka_unit_test(test_fp8) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
