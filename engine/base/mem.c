#include "engine/base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *xalloc(size_t bytes) {
    void *p = calloc(1, bytes ? bytes : 1);
    CHECK(p != NULL);
    return p;
}

void *xrealloc(void *p, size_t bytes) {
    p = realloc(p, bytes ? bytes : 1);
    CHECK(p != NULL);
    return p;
}

char *xstrndup(const char *p, size_t n) {
    char *z = xalloc(n + 1);
    if (n) memcpy(z, p, n);
    return z;
}

status try_block(void **out, size_t bytes, const char *what, err *e) {
    if (bytes == 0) bytes = 1;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return err_set(e, ERR_MEMORY, "%s needs %.1f MiB, and the system refused (%s)", what, (double)bytes / 1048576.0,
                       strerror(errno));
    *out = p;
    return OK;
}

void block_free(void *p, size_t bytes) {
    if (p) munmap(p, bytes ? bytes : 1);
}
