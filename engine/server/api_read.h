/* engine/server/api_read.h - members of a request object: found, checked for type and range, with errors that name
 * them.
 *
 * Absent and null mean the same: the output is left as it was. ERR_REQUEST and ERR_UNSUPPORTED put the member's name
 * into `param`. */
#ifndef ENGINE_SERVER_API_READ_H
#define ENGINE_SERVER_API_READ_H
#include <jansson.h>
#include "engine/server/api_params.h"

typedef struct api_reader {
    const json_t *o;    /* object that is read; NULL: has no members */
    const char *within; /* "stream_options.", "" at the top */
    char *param;        /* PARAM_NAME_MAX */
    err *e;
} api_reader;

void api_read_name(api_reader *r, const char *name);          /* of the member that the error will be about */
const json_t *api_read_find(api_reader *r, const char *name); /* NULL when absent or null */
status api_read_wrong_type(api_reader *r, const char *name, const char *expected, const json_t *v);
status api_read_unsupported(api_reader *r, const char *name, const char *instead);

status api_read_bool(api_reader *r, const char *name, bool *out);
status api_read_int(api_reader *r, const char *name, json_int_t min, json_int_t max, json_int_t *out);
/* min itself is allowed unless `above`. */
status api_read_real(api_reader *r, const char *name, double min, bool above, double max, double *out);
status api_read_float(api_reader *r, const char *name, double min, bool above, double max, float *out);
status api_read_str(api_reader *r, const char *name, const char **out); /* borrowed */
/* A reader for the members of a member; `within` is its memory. */
status api_read_object(api_reader *r, const char *name, api_reader *inner, char within[PARAM_NAME_MAX]);
#endif
