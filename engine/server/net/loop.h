/* engine/server/net/loop.h - one event loop: timers, signals, and a wake-up from other threads.
 *
 * Everything runs on the thread that calls loop_run, except loop_wake, which any thread may call. Callbacks may use
 * every function here, loop_timer_free of their own timer included. */
#ifndef ENGINE_SERVER_NET_LOOP_H
#define ENGINE_SERVER_NET_LOOP_H
#include <stdint.h>
#include "engine/base/status.h"

typedef struct loop loop;
typedef struct loop_timer loop_timer;
typedef void (*loop_fn)(void *arg);

status loop_open(loop **out, err *e);
void loop_close(loop *l);         /* its timers must be gone; NULL is fine */
status loop_run(loop *l, err *e); /* until loop_stop */
void loop_stop(loop *l);          /* loop_run returns after the callback that is running */

/* fn runs on the loop after one or more loop_wake calls: they count as one when the loop is busy. */
void loop_set_wake(loop *l, loop_fn fn, void *arg);
void loop_wake(loop *l);

/* fn runs on the loop after the signal. The earlier disposition comes back with loop_close. */
status loop_add_signal(loop *l, int signo, loop_fn fn, void *arg, err *e);

loop_timer *loop_timer_new(loop *l, loop_fn fn, void *arg);
void loop_timer_free(loop_timer *t);            /* NULL is fine */
void loop_timer_set(loop_timer *t, int64_t ms); /* once, ms from now; replaces an earlier time */
void loop_timer_stop(loop_timer *t);

struct event_base *loop_base_(loop *l); /* for this folder */
#endif
