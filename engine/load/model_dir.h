/* engine/load/model_dir.h - a model: its config files, and all its tensors over all shards, checked once while opening. */
#ifndef ENGINE_LOAD_MODEL_DIR_H
#define ENGINE_LOAD_MODEL_DIR_H
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/load/cfg.h"
#include "engine/load/source.h"

enum { TENSOR_DIMS = 8 };

/* dtypes as the file spells them; F8_E8M0 counts as U8 (the same bytes). Others are TENSOR_OTHER: listed, not usable. */
typedef enum tensor_type { TENSOR_F32, TENSOR_BF16, TENSOR_F16, TENSOR_U8, TENSOR_I32, TENSOR_I64, TENSOR_OTHER } tensor_type;

typedef struct tensor {
    str name;
    tensor_type type;
    char type_name[16]; /* as in the file */
    int32_t n_dims;
    int64_t dim[TENSOR_DIMS];
    const uint8_t *data; /* mapped; no alignment is promised */
    int64_t bytes;
    int32_t shard; /* index into shard names */
} tensor;

typedef struct model_dir model_dir;

/* Reads config.json (must be an object), generation_config.json, tokenizer files and the template as far as they are there,
 * maps the shards (model.safetensors.index.json, or the single model.safetensors) and parses every header. All faults of
 * shards and index are collected into one message. ERR_MODEL. */
status model_dir_open(model_dir **out, source_builtin kind, const char *dir, err *e);
void model_dir_close(model_dir *m);

const char *model_dir_name(const model_dir *m); /* for messages */
cfg model_dir_config(const model_dir *m);
str model_dir_file(const model_dir *m, const char *name); /* small files read at open; p NULL: absent */
size_t model_dir_count(const model_dir *m);
const tensor *model_dir_tensor(const model_dir *m, size_t i);         /* by name, ascending */
const tensor *model_dir_find(const model_dir *m, const char *name);   /* NULL: absent */
const char *model_dir_shard(const model_dir *m, int32_t shard);       /* file name */
int64_t model_dir_bytes(const model_dir *m);                          /* of all tensors */
#endif
