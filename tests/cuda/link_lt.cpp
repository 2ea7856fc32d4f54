/* Links cuBLASLt for real: the program opens it at run time, so only this shows that every function it asks for is in
 * the library of the toolkit, under the header's type. Prints the version. */
#include <cublasLt.h>
#include <stdio.h>

int main() {
    const void *used[] = {
#define F(name) (const void *)&cublasLt##name,
#include "kernels/cuda/lt.def"
#undef F
    };
    size_t n = sizeof used / sizeof *used;
    for (size_t i = 0; i < n; i++)
        if (!used[i]) return 1;
    if (cublasLtGetVersion() / 10000 != CUBLAS_VER_MAJOR) {
        printf("cuBLASLt is version %zu, its header is of %d\n", cublasLtGetVersion(), CUBLAS_VER_MAJOR);
        return 1;
    }
    printf("cuBLASLt %zu has the %zu functions that are used\n1 passed, 0 failed, 0 skipped\n", cublasLtGetVersion(),
           n);
    return 0;
}
