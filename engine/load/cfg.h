/* engine/load/cfg.h - typed look-ups in config JSON. The only reader of config files.
 *
 * Paths are member names joined by '.'; array elements by number: "rope_parameters.full_attention.rope_theta".
 * cfg_get_*: the member must exist. cfg_opt_*: absent or null gives the default. A wrong type or a value out of range
 * is ERR_MODEL: "config.json: hidden_size: expected an integer from 1 to 1048576, found \"x\"". */
#ifndef ENGINE_LOAD_CFG_H
#define ENGINE_LOAD_CFG_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/status.h"

typedef struct cfg {
    const json_t *root;
    const char *file; /* for messages */
} cfg;

const json_t *cfg_find(cfg c, const char *path); /* NULL: absent or null */
status cfg_get_int(cfg c, const char *path, int64_t lo, int64_t hi, int64_t *out, err *e);
/* The same into 32 bits, for what must be a multiple of `step`. */
status cfg_get_size(cfg c, const char *path, int32_t lo, int32_t hi, int32_t step, int32_t *out, err *e);
status cfg_opt_int(cfg c, const char *path, int64_t lo, int64_t hi, int64_t dflt, int64_t *out, err *e);
status cfg_get_real(cfg c, const char *path, double lo, double hi, double *out, err *e); /* integers count as reals */
status cfg_opt_real(cfg c, const char *path, double lo, double hi, double dflt, double *out, err *e);
status cfg_opt_bool(cfg c, const char *path, bool dflt, bool *out, err *e);
/* The string is borrowed from the config. */
status cfg_opt_string(cfg c, const char *path, const char *dflt, const char **out, err *e);
/* An array of exactly n integers in range. */
status cfg_get_ints(cfg c, const char *path, int64_t lo, int64_t hi, int64_t *out, size_t n, err *e);
/* Is there an array? If so, it must have n elements. */
status cfg_opt_array(cfg c, const char *path, size_t n, bool *is_there, err *e);
/* Fields for which one value is offered: absent or that value. */
status cfg_only_bool(cfg c, const char *path, bool only, err *e);
status cfg_only_string(cfg c, const char *path, const char *only, err *e);
#endif
