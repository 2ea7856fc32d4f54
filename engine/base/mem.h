/* engine/base/mem.h - host memory.
 *
 * Small allocations die on failure (xalloc); large ones that a user can do something about return a status (try_block).
 */
#ifndef ENGINE_BASE_MEM_H
#define ENGINE_BASE_MEM_H
#include <stddef.h>
#include "engine/base/status.h"

void *xalloc(size_t bytes);              /* zeroed; never NULL */
void *xrealloc(void *p, size_t bytes);   /* new bytes are not zeroed; never NULL */
char *xstrndup(const char *p, size_t n); /* NUL-terminated copy */

/* One zeroed block of anonymous pages, 64-byte aligned at least. `what` names it in the error. Free with block_free. */
status try_block(void **out, size_t bytes, const char *what, err *e);
void block_free(void *p, size_t bytes);
#endif
