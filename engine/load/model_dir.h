/* engine/load/model_dir.h - a model: its config files, and the tensors of all its shards, checked once while opening.
 */
#ifndef ENGINE_LOAD_MODEL_DIR_H
#define ENGINE_LOAD_MODEL_DIR_H
#include <stdint.h>
#include "engine/load/cfg.h"
#include "engine/load/safetensors.h"
#include "engine/load/source.h"

typedef struct model_dir model_dir;

/* Reads config.json (must be an object), generation_config.json, tokenizer files and the template as far as they are
 * there, maps the shards (model.safetensors.index.json, or the single model.safetensors) and parses every header. All
 * faults of shards and index are collected into one message. ERR_MODEL.
 *
 * Refused: a shard that is missing or damaged, a tensor that is not in the shard the index names, or that is in two.
 * Logged: a total_size that is wrong (the shards count), a file named like a shard that the index does not name (it is
 * left aside). A byte order mark in front of a text file is skipped. */
status model_dir_open(model_dir **out, source_builtin kind, const char *dir, err *e);
/* The small files alone: no shard is looked for, there are no tensors. */
status model_dir_open_small(model_dir **out, source_builtin kind, const char *dir, err *e);
void model_dir_close(model_dir *m);

const char *model_dir_name(const model_dir *m); /* for messages */
cfg model_dir_config(const model_dir *m);
cfg model_dir_generation(const model_dir *m); /* generation_config.json; without it every look-up gives its default */
str model_dir_file(const model_dir *m, const char *name); /* small files read at open; p NULL: absent */
size_t model_dir_count(const model_dir *m);
const tensor *model_dir_tensor(const model_dir *m, size_t i);       /* by name, ascending */
const tensor *model_dir_find(const model_dir *m, const char *name); /* NULL: absent */
const char *model_dir_shard(const model_dir *m, int32_t shard);     /* file name */
int64_t model_dir_bytes(const model_dir *m);                        /* of all tensors */
#endif
