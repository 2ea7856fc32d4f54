/* engine/base/thread.h - threads, a mutex with its condition, and a futex. The only user of pthread. */
#ifndef ENGINE_BASE_THREAD_H
#define ENGINE_BASE_THREAD_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/status.h"

typedef struct thread thread;
status thread_start(thread **out, const char *name, void (*run)(void *arg), void *arg, err *e);
void thread_join(thread *t); /* waits, frees */

typedef struct mutex mutex;
mutex *mutex_new(void);
void mutex_free(mutex *m);
void mutex_lock(mutex *m);
void mutex_unlock(mutex *m);
/* With m held: releases it, sleeps until mutex_signal or the time is over, takes it again. timeout_ns < 0: no limit.
 * False when the time was over. Wake-ups without a signal happen. */
bool mutex_wait(mutex *m, int64_t timeout_ns);
void mutex_signal(mutex *m); /* wakes all waiters */

/* Sleeps while *word == expected (checked atomically); returns on a wake or for no reason. */
void futex_wait(_Atomic uint32_t *word, uint32_t expected);
void futex_wake_all(_Atomic uint32_t *word);

void cpu_relax(void); /* inside a spin loop */
#endif
