/* The header of a safetensors file. What is accepted lies inside of the file. */
#include "engine/load/safetensors.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    tensor_list l = { 0 };
    arena *mem = arena_new();
    err e;
    status s = safetensors_read(&l, (str){ (const char *)data, n }, "fuzz", 0, mem, &e);
    CHECK(s == OK || (s == ERR_MODEL && !l.count));
    for (size_t i = 0; i < l.count; i++) {
        const tensor *t = &l.at[i];
        CHECK(t->bytes >= 0 && t->data >= data && (size_t)t->bytes <= n - (size_t)(t->data - data));
    }
    tensor_list_free(&l);
    arena_free(mem);
    return 0;
}
