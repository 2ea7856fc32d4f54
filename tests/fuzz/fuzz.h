/* tests/fuzz/fuzz.h - what a fuzz driver gives: libFuzzer's entry, which must come back for any input. A broken promise
 * is a CHECK. replay.c calls it for the files of a corpus; libFuzzer has its own main. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
#endif
