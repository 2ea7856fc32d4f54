/* kernels/memory.h - memory where the ops run: of the host, or of a device. In every function `on` NULL is the host. */
#ifndef KERNELS_MEMORY_H
#define KERNELS_MEMORY_H
#include "kernels/device.h"

/* Zeroed, 64-byte aligned at least. `what` is for the message. ERR_MEMORY. */
status memory_alloc(device *on, void **out, size_t bytes, const char *what, err *e);
void memory_free(device *on, void *p, size_t bytes); /* NULL is fine */

/* Copies within `on`, and between it and the host, happen in order with each other and with steps. Behind memory_wait
 * they are done; before it, host memory that is written may not be read, and host memory that is read may be changed.
 */
void memory_copy(device *on, void *to, const void *from, size_t bytes);
void memory_wait(device *on);
#endif
