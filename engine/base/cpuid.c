#include "engine/base/cpuid.h"

#include <sched.h>
#include <stdio.h>

cpu_features cpu_get_features(void) {
    cpu_features f = { 0 };
#if defined(__x86_64__)
    __builtin_cpu_init();
    f.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    f.avx512 = f.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    f.avx512bf16 = f.avx512 && __builtin_cpu_supports("avx512bf16");
#endif
    return f;
}

int cpu_usable_cores(void) {
    cpu_set_t set;
    int n = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0) n = CPU_COUNT(&set);
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (f) {
        long quota, period;
        if (fscanf(f, "%ld %ld", &quota, &period) == 2 && quota > 0 && period > 0) {
            long cores = (quota + period - 1) / period;
            if (cores < n) n = (int)cores;
        }
        fclose(f);
    }
    return n < 1 ? 1 : n;
}
