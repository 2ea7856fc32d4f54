/* engine/base/log.h - one levelled sink on stderr. Lines are written whole; any thread may log. */
#ifndef ENGINE_BASE_LOG_H
#define ENGINE_BASE_LOG_H
#include "engine/base/hd.h"

typedef enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG } log_level;

C_BEGIN
void log_set_level(log_level level); /* default LOG_WARN */
/* `part` names the module: "server", "load". A line reads "2026-01-31 12:00:00.123 warn  load: message". */
void log_line(log_level level, const char *part, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
C_END

#define log_error(part, ...) log_line(LOG_ERROR, part, __VA_ARGS__)
#define log_warn(part, ...) log_line(LOG_WARN, part, __VA_ARGS__)
#define log_info(part, ...) log_line(LOG_INFO, part, __VA_ARGS__)
#define log_debug(part, ...) log_line(LOG_DEBUG, part, __VA_ARGS__)
#endif
