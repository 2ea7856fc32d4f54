/* tests/fuzz/parts.h - inputs of several texts, with a zero byte between them. */
#ifndef TESTS_FUZZ_PARTS_H
#define TESTS_FUZZ_PARTS_H
#include "engine/base/str.h"

/* Takes the text up to the next zero byte, or all that is left. */
static inline str part_take(str *left) {
    const char *end = left->n ? memchr(left->p, 0, left->n) : NULL;
    str part = { left->p, end ? (size_t)(end - left->p) : left->n };
    *left = str_from(*left, part.n + (end != NULL));
    return part;
}
#endif
