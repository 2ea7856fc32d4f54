/* engine/base/cpuid.h - what this processor and this process may use. */
#ifndef ENGINE_BASE_CPUID_H
#define ENGINE_BASE_CPUID_H
#include <stdbool.h>

typedef struct cpu_features {
    bool avx2;       /* AVX2 and FMA, with the system saving the registers */
    bool avx512;     /* F, BW, VL, DQ */
    bool avx512bf16; /* and BF16 */
} cpu_features;

cpu_features cpu_get_features(void);
int cpu_usable_cores(void); /* affinity mask and cgroup quota; at least 1 */
#endif
