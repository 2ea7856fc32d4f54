#include "engine/core/fingerprint.h"

#include "engine/base/hash.h"
#include "kernels/kv_image.h"

#include <sys/mman.h>
#include <unistd.h>

/* Data is mapped, and a place that nobody has read yet costs a read from disk, about 0.1 ms. The first pass of the
 * model has read all but most experts; of these, tens of thousands, EXPERT_TENSORS are taken at even distances. */
enum { HEAD_BYTES = 4096, SAMPLES = 3, SAMPLE_BYTES = 64, EXPERT_TENSORS = 128 };

/* One place of a mapped file without the read-ahead of a scan: where that is 8 MiB, a cold place would take 5 ms. */
static void put_place(hash64 *h, const uint8_t *p, int64_t n) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)p / page * page;
    size_t bytes = (uintptr_t)p + (size_t)n - from;
    madvise((void *)from, bytes, MADV_RANDOM); /* advice: whether it was taken is no matter */
    hash64_put(h, p, (size_t)n);
    madvise((void *)from, bytes, MADV_NORMAL);
}

static void put_i64(hash64 *h, int64_t v) { hash64_put(h, &v, sizeof v); }

/* With its length: two texts in a row cannot be told apart otherwise. */
static void put_text(hash64 *h, str s) {
    put_i64(h, (int64_t)s.n);
    hash64_put(h, s.p, s.n);
}

static void put_tensor(hash64 *h, const tensor *t) {
    put_text(h, t->name);
    put_text(h, str_of(t->type_name));
    put_i64(h, t->n_dims);
    for (int32_t i = 0; i < t->n_dims; i++) put_i64(h, t->dim[i]);
    put_i64(h, t->bytes);
}

/* The first bytes, and some places spread over the rest, the last bytes among them. */
static void put_data(hash64 *h, const tensor *t) {
    int64_t head = t->bytes < HEAD_BYTES ? t->bytes : HEAD_BYTES;
    put_place(h, t->data, head);
    if (t->bytes - head < SAMPLE_BYTES) return;
    for (int64_t i = 1; i <= SAMPLES; i++) {
        int64_t at = head + (t->bytes - head - SAMPLE_BYTES) / SAMPLES * i;
        if (i == SAMPLES) at = t->bytes - SAMPLE_BYTES;
        put_place(h, t->data + at, SAMPLE_BYTES);
    }
}

static bool is_expert(const tensor *t) {
    static const char PART[] = ".experts.";
    for (size_t i = 0; i + sizeof PART - 1 <= t->name.n; i++)
        if (memcmp(t->name.p + i, PART, sizeof PART - 1) == 0) return true;
    return false;
}

static void put_model(hash64 *h, const model_dir *d) {
    size_t n = model_dir_count(d), experts = 0, seen = 0;
    put_text(h, model_dir_file(d, "config.json"));
    put_i64(h, (int64_t)n);
    for (size_t i = 0; i < n; i++) experts += is_expert(model_dir_tensor(d, i));
    size_t every = experts / EXPERT_TENSORS + 1;
    for (size_t i = 0; i < n; i++) {
        const tensor *t = model_dir_tensor(d, i);
        put_tensor(h, t);
        if (!is_expert(t) || seen++ % every == 0) put_data(h, t);
    }
}

static void put_store(hash64 *h, const kv_store *s) {
    put_i64(h, s->kind);
    put_i64(h, s->heads);
    put_i64(h, s->size);
    put_i64(h, s->type);
    put_i64(h, (int64_t)kv_image_bytes(s, 1));
}

uint64_t fingerprint_pair(const pair *p) {
    const draft *d = pair_draft(p);
    hash64 h = hash64_begin(ARITHMETIC_VERSION);
    put_i64(&h, KV_PAGE);
    if (p->fast_prefill) put_text(&h, str_of("fast prefill")); /* other bits in what is known of a prompt */
    put_model(&h, p->target_dir);
    put_i64(&h, p->target.cfg.window);
    for (int32_t l = 0; l < p->target.kv.layers; l++) put_store(&h, &p->target.kv.layer[l]);
    put_i64(&h, d != NULL);
    if (!d) return hash64_end(&h);
    put_model(&h, p->draft_dir);
    put_i64(&h, d->cfg.window);
    for (int32_t i = 0; i < d->cfg.taps; i++) put_i64(&h, d->cfg.tap_layer[i]);
    for (int32_t l = 0; l < d->cfg.layers; l++) put_store(&h, &d->ring[l]);
    return hash64_end(&h);
}
