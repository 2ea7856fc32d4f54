/* engine/load/source.h - where a model comes from: a folder, or the pair that is built into the binary. */
#ifndef ENGINE_LOAD_SOURCE_H
#define ENGINE_LOAD_SOURCE_H
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/status.h"
#include "engine/base/str.h"

typedef enum source_builtin { SOURCE_FOLDER, SOURCE_DEMO_TARGET, SOURCE_DEMO_DRAFT } source_builtin;

typedef struct source source;

/* dir is used with SOURCE_FOLDER. ERR_MODEL when the folder does not exist or has no config.json; the message says what
 * to check. A Hugging Face repository folder of the hub cache (refs/, snapshots/) is followed to its snapshot. */
status source_open(source **out, source_builtin kind, const char *dir, err *e);
void source_close(source *s); /* unmaps everything that source_map gave; NULL is fine */

const char *source_name(const source *s); /* path for messages, "built-in demo target" */
/* A plain file name: not empty, no '/', not starting with '.'. Anything else from a file that came with the model is
 * refused. */
bool source_is_name(const char *name);
bool source_has(const source *s, const char *name); /* a file of this name, not a path */

/* The names that were there at open, ascending, folders left out. A link to nowhere is listed: it can only fail in
 * source_map. */
size_t source_count(const source *s);
const char *source_file(const source *s, size_t i);

/* The whole file, read-only, until source_close. Model files are mapped, not read. `name` is a plain file name: no '/',
 * not starting with '.'. ERR_MODEL names file and folder. */
status source_map(source *s, const char *name, str *out, err *e);
#endif
