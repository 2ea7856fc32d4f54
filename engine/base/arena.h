/* engine/base/arena.h - a bump allocator: many small things that die together, one per request or parse.
 * Allocation dies on failure. Memory is zeroed and 16-byte aligned. Not thread safe; may be handed from thread to
 * thread. */
#ifndef ENGINE_BASE_ARENA_H
#define ENGINE_BASE_ARENA_H
#include <stddef.h>
#include "engine/base/str.h"

typedef struct arena arena;

arena *arena_new(void);
void arena_free(arena *a); /* NULL is fine */
void *arena_alloc(arena *a, size_t bytes);
str arena_str(arena *a, str s); /* a copy, with a NUL behind it that does not count */
/* `end` runs with arg when the arena is freed, the last one first: for what lives as long and is not in it. */
void arena_at_end(arena *a, void (*end)(void *arg), void *arg);
size_t arena_bytes(const arena *a); /* held from the system */
#endif
