#include "kernels/memory.h"

#include "engine/base/mem.h"

#include <string.h>

status memory_alloc(device *on, void **out, size_t bytes, const char *what, err *e) {
    return on ? device_alloc(on, out, bytes, what, e) : try_block(out, bytes, what, e);
}

void memory_free(device *on, void *p, size_t bytes) {
    if (on)
        device_free(on, p);
    else
        block_free(p, bytes);
}

void memory_copy(device *on, void *to, const void *from, size_t bytes) {
    if (on)
        device_copy(on, to, from, bytes);
    else
        memcpy(to, from, bytes);
}

void memory_wait(device *on) {
    if (on) device_wait(on);
}
