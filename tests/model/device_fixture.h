/* tests/model/device_fixture.h - pairs on a device, for tests over the shim (tests/simt): opening, prompts, and what
 * lies in the device's memory. */
#ifndef TESTS_MODEL_DEVICE_FIXTURE_H
#define TESTS_MODEL_DEVICE_FIXTURE_H
#include "tests/model/model_fixture.h"
#include "kernels/memory.h"
#include "tests/simt/simt_control.h"

#define TINY_TARGET "tests/golden/tiny_target"
#define TINY_DRAFT "tests/golden/tiny_draft"

/* The tiny pair, or with NULL the demo pair. */
FIXTURE pair *pair_on_with(const char *target_dir, const engine_options *opt) {
    pair *p = xalloc(sizeof *p);
    MUST(pair_load(p, target_dir, target_dir ? TINY_DRAFT : NULL, false, NULL, NULL, e));
    MUST(pair_start(p, opt, e));
    return p;
}

FIXTURE pair *pair_on(backend_kind backend, const char *target_dir, kv_dtype kv) {
    return pair_on_with(target_dir, &(engine_options){ .backend = backend, .lanes = 1, .ctx = 1024, .kv_dtype = kv });
}

FIXTURE void pair_off(pair *p) {
    pair_close(p);
    free(p);
}

/* ---- memory ---- */

/* As memory_poison of the model tests. */
FIXTURE void device_poison(const pair *p) {
    memory_part part[MEMORY_PARTS];
    int n = memory_parts(p, NULL, part);
    for (int i = 0; i < n; i++) {
        void *junk = xalloc(part[i].bytes);
        memset(junk, 0xFF, part[i].bytes);
        memory_copy(p->device, part[i].at, junk, part[i].bytes);
        memory_wait(p->device);
        free(junk);
    }
}

/* Bytes of the device, or of the host where the pair is there. */
FIXTURE void memory_put(const pair *p, const void *at, size_t bytes, buf *out) {
    void *copy = xalloc(bytes);
    memory_copy(p->device, copy, at, bytes);
    memory_wait(p->device);
    buf_put(out, copy, bytes);
    free(copy);
}

FIXTURE void device_save(const pair *p, buf *out) {
    memory_part part[MEMORY_PARTS];
    int n = memory_parts(p, NULL, part);
    for (int i = 0; i < n; i++) memory_put(p, part[i].at, part[i].bytes, out);
}

/* ---- tokens ---- */

/* Numbers of a golden file, INT32 or FP32; to be freed. */
FIXTURE int32_t *golden_words(const char *path, const char *name, int32_t *n) {
    file_map map;
    tensor_list list = { 0 };
    arena *mem = arena_new();
    MUST(file_map_open(&map, path, e));
    MUST(safetensors_read(&list, (str){ (const char *)map.data, map.bytes }, path, 0, mem, e));
    const tensor *t = tensor_list_find(&list, str_of(name));
    if (!t) fail_msg("%s has no %s", path, name);
    int32_t *out = xalloc((size_t)t->bytes);
    memcpy(out, t->data, (size_t)t->bytes);
    *n = (int32_t)(t->bytes / (int64_t)sizeof *out);
    tensor_list_free(&list);
    arena_free(mem);
    file_map_close(&map);
    return out;
}

/* Ids below 448, a function of their place. */
FIXTURE void junk_tokens(int32_t *out, int32_t n, uint32_t seed) {
    for (int32_t i = 0; i < n; i++) out[i] = (int32_t)((seed = seed * 1664525u + 1013904223u) >> 16) % 448;
}
#endif
