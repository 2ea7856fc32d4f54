/* engine/load/demo.h - the files of the demo pair, which are part of the binary (demo.S). Internal to engine/load. */
#ifndef ENGINE_LOAD_DEMO_H
#define ENGINE_LOAD_DEMO_H
#include <stdint.h>

typedef struct demo_file {
    const char *name;
    const uint8_t *begin, *end; /* 64-byte aligned, read-only */
} demo_file;

/* Both end with an entry whose name is NULL. Names ascend. */
extern const demo_file demo_target_files[] __attribute__((visibility("hidden")));
extern const demo_file demo_draft_files[] __attribute__((visibility("hidden")));
#endif
