/* Weights on their way to a device, and devices that cannot be used. What goes up comes back to the byte; what arrived
 * changed is found; whatever fails while a device is opened or a pair started ends in one clear error, and nothing
 * stays allocated.
 *
 * link: -Wl,--wrap=cudaEventRecord
 */
#include "tests/simt/simt_test.h"

#include "kernels/cuda/device_int.h"
#include "kernels/cuda/pack.h"
extern "C" {
#include "engine/core/pair.h"
#include "kernels/mxfp4.h"
}

static void expect_nothing_left() {
    assert_int_equal(simt_device_allocations(), 0);
    assert_int_equal(simt_host_allocations(), 0);
}

static device *open_with(size_t weights) {
    device *d = nullptr;
    err e = {};
    if (device_open(&d, 0, &e) != OK || device_reserve_weights(d, weights, &e) != OK) fail_msg("%s", e.text);
    return d;
}

/* --- round trips --- */

/* A matrix as it lies in a file, with bytes of any value. */
struct file_matrix {
    std::string data, scale;
    weight w;
    file_matrix(int32_t n, int32_t k, dtype type, uint32_t seed) {
        size_t elements = (size_t)n * (size_t)k;
        bool mxfp4 = type == DT_MXFP4;
        data.resize(mxfp4 ? elements / 2 : elements * 2);
        scale.resize(mxfp4 ? elements / MXFP4_GROUP : 0);
        for (char &c : data) c = (char)((seed = seed * 1664525u + 1013904223u) >> 24);
        for (char &c : scale) c = (char)((seed = seed * 1664525u + 1013904223u) >> 25); /* up to 127 */
        w.data = data.data(), w.scale = mxfp4 ? (const uint8_t *)scale.data() : nullptr;
        w.n = n, w.k = k, w.type = type;
    }
};

static size_t room_of(const weight *w, int32_t n) { return (device_matrix_bytes(w) + 2 * PUT_ALIGN) * (size_t)n; }

/* Element (row, column) as pack.h places it, read from what lies on the device. */
static uint32_t packed_element(const std::string &data, const weight *w, int32_t row, int32_t k) {
    int32_t tile = row / PACK_ROWS, g = row % 8, side = row % PACK_ROWS / 8, block = k / PACK_COLS, c = k % PACK_COLS;
    int32_t half = c / 32, q = c % 32 / 8, j = c % 8;
    const char *at = data.data() + tile * pack_tile_bytes(w->k, w->type);
    if (w->type == DT_BF16) {
        uint16_t v;
        at += block * PACK_BF16 + ((2 * half + side) * 32 + 4 * g + q) * 16 + 2 * j;
        memcpy(&v, at, sizeof v);
        return v;
    }
    /* Four instructions of 16 columns: a lane has columns 8q .. 8q + 7 of a half, four an instruction; of these the
     * first two are registers 0 and 1, by the row's side. */
    uint32_t word;
    memcpy(&word, at + block * PACK_MXFP4 + (4 * g + q) * 16 + (2 * half + j / 4) * 4, sizeof word);
    int reg = j % 4 / 2 * 2 + side;
    return word >> (4 * (reg + 4 * (j % 2))) & 15;
}

static uint32_t file_element(const weight *w, int32_t row, int32_t k) {
    if (w->type == DT_MXFP4) return mxfp4_code((const uint8_t *)w->data + (int64_t)row * w->k / 2, k);
    uint16_t v;
    memcpy(&v, (const char *)w->data + ((int64_t)row * w->k + k) * 2, sizeof v);
    return v;
}

static void check_round_trip(int32_t n, int32_t k, dtype type, int32_t copies) {
    std::vector<file_matrix> files;
    for (int32_t i = 0; i < copies; i++) files.emplace_back(n, k, type, (uint32_t)(n * 31 + k + i));
    std::vector<weight> up;
    for (file_matrix &f : files) {
        f.w.data = f.data.data(), f.w.scale = type == DT_MXFP4 ? (const uint8_t *)f.scale.data() : nullptr;
        up.push_back(f.w);
    }
    err e = {};
    device *d = open_with(room_of(&up[0], copies));
    if (device_put_matrices(d, up.data(), copies, true, &e) != OK) fail_msg("%d x %d: %s", n, k, e.text);
    for (int32_t i = 0; i < copies; i++) {
        std::string packed((size_t)pack_bytes(n, k, type), 0);
        device_copy(d, packed.data(), up[i].data, packed.size());
        device_wait(d);
        int32_t step = n * (int64_t)k > 100000 ? 997 : 1; /* of a large one some elements */
        for (int64_t at = 0; at < (int64_t)n * k; at += step) {
            int32_t row = (int32_t)(at / k), column = (int32_t)(at % k);
            if (packed_element(packed, &up[i], row, column) != file_element(&files[i].w, row, column))
                fail_msg("%d x %d: element %d, %d is not where it belongs", n, k, row, column);
        }
    }
    device_close(d);
    expect_nothing_left();
}

static void test_round_trips(void **) {
    static const int32_t SHAPE[][2] = { { 1, 1 }, { 16, 64 }, { 17, 65 }, { 33, 101 }, { 5, 31 }, { 48, 640 } };
    for (const auto &s : SHAPE) check_round_trip(s[0], s[1], DT_BF16, 3);
    static const int32_t GROUPS[][2] = { { 1, 32 }, { 17, 96 }, { 40, 160 }, { 16, 64 } };
    for (const auto &s : GROUPS) check_round_trip(s[0], s[1], DT_MXFP4, 3);
}

/* More than a buffer holds, so in several chunks. */
static void test_chunks(void **) {
    static_assert(STAGE_BYTES == 32 << 20, "the shapes below are a little more");
    check_round_trip(4100, 4099, DT_BF16, 1);
    if (!SIMT_ASAN && !SIMT_TSAN) check_round_trip(8000, 8192 + 512, DT_MXFP4, 1);
}

static void test_bytes(void **) {
    err e = {};
    std::string bytes(STAGE_BYTES + 1000, 0), back(bytes.size(), 1);
    for (size_t i = 0; i < bytes.size(); i++) bytes[i] = (char)(i * 7 + i / 251);
    device *d = open_with(bytes.size() + 2 * PUT_ALIGN);
    const void *p = bytes.data(), *none = nullptr;
    assert_int_equal(device_put_bytes(d, &none, 10, &e), OK);
    assert_null(none);
    assert_int_equal(device_put_bytes(d, &p, bytes.size(), &e), OK);
    device_copy(d, back.data(), p, back.size());
    device_wait(d);
    assert_true(back == bytes);
    device_close(d);
    expect_nothing_left();
}

/* --- refusals --- */

static void test_scales(void **) {
    for (int byte = 127; byte <= 130; byte++) {
        file_matrix f(20, 64, DT_MXFP4, 1);
        f.scale[39] = (char)byte;
        err e = {};
        device *d = open_with(room_of(&f.w, 1));
        status s = device_put_matrices(d, &f.w, 1, false, &e);
        assert_int_equal(s, byte <= 128 ? OK : ERR_MODEL);
        if (s != OK) assert_contains(std::string(e.text), "an MXFP4 scale is larger than 2^1");
        if (s != OK) assert_contains(std::string(e.text), "--backend cpu");
        device_close(d);
    }
}

static void test_uneven(void **) {
    file_matrix a(20, 64, DT_BF16, 1), b(36, 64, DT_BF16, 1), c(20, 64, DT_MXFP4, 1);
    for (const file_matrix *other : { &b, &c }) {
        weight w[2] = { a.w, other->w };
        err e = {};
        device *d = open_with(1 << 20);
        assert_int_equal(device_put_matrices(d, w, 2, false, &e), ERR_MODEL);
        assert_contains(std::string(e.text), "experts of one layer differ");
        device_close(d);
    }
}

/* Behind the nth event that is recorded, a byte at the place changes; 0: never. */
static struct {
    int in;
    char *at;
} flip;

extern "C" {
cudaError_t __real_cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t __wrap_cudaEventRecord(cudaEvent_t e, cudaStream_t s);

cudaError_t __wrap_cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    if (flip.in && --flip.in == 0) {
        char byte;
        cudaMemcpy(&byte, flip.at, 1, cudaMemcpyDeviceToHost);
        byte ^= 4;
        cudaMemcpy(flip.at, &byte, 1, cudaMemcpyHostToDevice);
    }
    return __real_cudaEventRecord(e, s);
}
}

static status put_flipped(const file_matrix *f, bool verify, bool in_scale, err *e) {
    weight w = f->w;
    device *d = open_with(room_of(&w, 1));
    flip.in = 1, flip.at = d->weights + 77;
    if (in_scale) flip.at = d->weights + (pack_bytes(w.n, w.k, w.type) + 255) / 256 * 256 + 5;
    status s = device_put_matrices(d, &w, 1, verify, e);
    assert_int_equal(flip.in, 0);
    device_close(d);
    return s;
}

static void test_corrupted(void **) {
    file_matrix a(20, 64, DT_BF16, 1), b(20, 64, DT_MXFP4, 2);
    for (int i = 0; i < 3; i++) {
        err e = {};
        const file_matrix *f = i ? &b : &a;
        assert_int_equal(put_flipped(f, true, i == 2, &e), ERR_DEVICE);
        assert_contains(std::string(e.text), "a weight matrix of 20 x 64 came back from the GPU changed");
        assert_int_equal(put_flipped(f, false, i == 2, &e), OK); /* nobody looked */
    }
}

/* --- devices --- */

static void expect_no_device(status code, const char *part) {
    device *d = nullptr;
    err e = {};
    assert_int_equal(device_open(&d, 0, &e), code);
    assert_contains(std::string(e.text), part);
    expect_nothing_left();
}

static void test_no_device(void **) {
    simt_fail("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
    expect_no_device(ERR_DEVICE, "no NVIDIA driver that this program can use");
    simt_set_device(nullptr, 0, 0, 0);
    expect_no_device(ERR_DEVICE, "no NVIDIA GPU was found");
    device_info list[2];
    int32_t n = 0;
    err e = {};
    assert_int_equal(device_list(list, 2, &n, &e), ERR_DEVICE);
    simt_set_device("Old", 7, 5, (size_t)2 << 30);
    expect_no_device(ERR_DEVICE, "Old has compute capability 7.5; this program needs 8.0");
    simt_set_device("SIMT shim", 9, 0, (size_t)2 << 30);
    device *d = nullptr;
    assert_int_equal(device_open(&d, 1, &e), ERR_USAGE);
    assert_contains(std::string(e.text), "device 1: there is 1");
    assert_int_equal(device_list(list, 2, &n, &e), OK);
    assert_int_equal(n, 1);
    cudaGetLastError();
}

static void test_open_fails(void **) {
    static const char *const CALLS[] = {
        "cudaMalloc",      "cudaHostAlloc", "cudaStreamCreateWithFlags", "cudaEventCreateWithFlags",
        "cudaMemsetAsync", "cudaSetDevice"
    };
    for (const char *call : CALLS) {
        int failed = 0;
        for (uint64_t nth = 1;; nth++) {
            device *d = nullptr;
            err e = {};
            simt_fail(call, nth, cudaErrorMemoryAllocation);
            status s = device_open(&d, 0, &e);
            simt_reset_faults();
            if (s == OK) {
                device_close(d);
                break;
            }
            failed++;
            assert_int_equal(s, ERR_MEMORY);
            assert_contains(std::string(e.text), "cudaErrorMemoryAllocation");
            expect_nothing_left();
        }
        if (!failed) fail_msg("%s is not called, or its failure is not noticed", call);
        expect_nothing_left();
    }
    cudaGetLastError();
}

/* --- pairs --- */

static status start_tiny(err *e) {
    static pair p;
    engine_options opt = {};
    opt.backend = BACKEND_CUDA, opt.ctx = 512, opt.checkpoints = 0;
    p = pair{};
    status s = pair_load(&p, "tests/golden/tiny_target", "tests/golden/tiny_draft", false, nullptr, nullptr, e);
    if (s == OK) s = pair_start(&p, &opt, e);
    pair_close(&p);
    return s;
}

static void test_too_little_memory(void **) {
    err e = {};
    simt_set_memory((size_t)300 << 20);
    assert_int_equal(start_tiny(&e), ERR_MEMORY);
    assert_contains(std::string(e.text), "GB are missing");
    assert_contains(std::string(e.text), "SIMT shim");
    expect_nothing_left();
    device *d = nullptr;
    assert_int_equal(device_open(&d, 0, &e), OK);
    assert_int_equal(device_reserve_weights(d, (size_t)400 << 20, &e), ERR_MEMORY);
    assert_contains(std::string(e.text), "the weights needs 400.0 MiB of the GPU's memory");
    device_close(d);
    expect_nothing_left();
    simt_set_memory((size_t)2 << 30);
}

/* Whatever fails on the way: a status, a message, and everything is given back. */
static void test_start_fails(void **) {
    static const struct {
        const char *call;
        uint64_t step;
    } CALLS[] = { { "cudaMalloc", 5 },           { "cudaHostAlloc", 1 },       { "cudaMemcpyAsync", 61 },
                  { "cudaEventRecord", 61 },     { "cudaLaunchKernel", 97 },   { "cudaStreamBeginCapture", 3 },
                  { "cudaStreamEndCapture", 3 }, { "cudaGraphInstantiate", 3 } };
    for (const auto &c : CALLS) {
        int failed = 0;
        for (uint64_t nth = 1;; nth += c.step) {
            err e = {};
            simt_fail(c.call, nth, nth % 2 ? cudaErrorMemoryAllocation : cudaErrorUnknown);
            status s = start_tiny(&e);
            simt_reset_faults();
            expect_nothing_left();
            if (s == OK) break;
            failed++;
            if ((s != ERR_MEMORY && s != ERR_DEVICE) || !e.text[0])
                fail_msg("%s, call %d: status %d, \"%s\"", c.call, (int)nth, (int)s, e.text);
        }
        if (!failed) fail_msg("%s: no failure is noticed", c.call);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips), cmocka_unit_test(test_chunks),     cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_scales),      cmocka_unit_test(test_uneven),     cmocka_unit_test(test_corrupted),
        cmocka_unit_test(test_no_device),   cmocka_unit_test(test_open_fails), cmocka_unit_test(test_too_little_memory),
        cmocka_unit_test(test_start_fails),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
