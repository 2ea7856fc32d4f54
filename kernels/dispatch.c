#include "kernels/dispatch.h"

#include "engine/base/cpuid.h"
#include "kernels/ref/ref.h"
#include "kernels/simd/simd.h"

#include <string.h>

static const char *const NAMES[ISA_COUNT] = {
    [ISA_REF] = "ref", [ISA_AVX2] = "avx2", [ISA_AVX512] = "avx512", [ISA_AVX512BF16] = "avx512bf16"
};

const char *isa_name(isa i) { return NAMES[i]; }

bool isa_find(const char *name, isa *out) {
    for (int i = 0; i < ISA_COUNT; i++) {
        if (strcmp(name, NAMES[i]) == 0) {
            *out = (isa)i;
            return true;
        }
    }
    return false;
}

bool isa_usable(isa i) {
    cpu_features f = cpu_get_features();
    switch (i) {
    case ISA_REF: return true;
    case ISA_AVX2: return f.avx2;
    case ISA_AVX512: return f.avx512;
    case ISA_AVX512BF16: return f.avx512bf16;
    default: return false;
    }
}

isa isa_best(void) {
    isa best = ISA_REF;
    for (int i = 0; i < ISA_COUNT; i++)
        if (isa_usable((isa)i)) best = (isa)i;
    return best;
}

op_fn *const *op_table(isa i) {
    switch (i) {
    case ISA_AVX2: return simd_table_avx2;
    case ISA_AVX512: return simd_table_avx512;
    case ISA_AVX512BF16: return simd_table_avx512bf16;
    default: return ref_table;
    }
}
