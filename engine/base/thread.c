#include "engine/base/thread.h"

#include "engine/base/mem.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct thread {
    pthread_t id;
    void (*run)(void *);
    void *arg;
    char name[16];
};

static void *enter(void *p) {
    thread *t = p;
    pthread_setname_np(pthread_self(), t->name);
    t->run(t->arg);
    return NULL;
}

status thread_start(thread **out, const char *name, void (*run)(void *arg), void *arg, err *e) {
    thread *t = xalloc(sizeof *t);
    t->run = run, t->arg = arg;
    strncpy(t->name, name, sizeof t->name - 1);
    /* signals belong to the front end's thread */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&t->id, NULL, enter, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        free(t);
        return err_set(e, ERR_MEMORY, "cannot start thread %s: %s", name, strerror(rc));
    }
    *out = t;
    return OK;
}

void thread_join(thread *t) {
    if (!t) return;
    pthread_join(t->id, NULL);
    free(t);
}

struct mutex {
    pthread_mutex_t lock;
    pthread_cond_t cond;
};

mutex *mutex_new(void) {
    mutex *m = xalloc(sizeof *m);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    CHECK(pthread_mutex_init(&m->lock, NULL) == 0 && pthread_cond_init(&m->cond, &attr) == 0);
    pthread_condattr_destroy(&attr);
    return m;
}

void mutex_free(mutex *m) {
    if (!m) return;
    pthread_cond_destroy(&m->cond);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

void mutex_lock(mutex *m) { CHECK(pthread_mutex_lock(&m->lock) == 0); }
void mutex_unlock(mutex *m) { CHECK(pthread_mutex_unlock(&m->lock) == 0); }
void mutex_signal(mutex *m) { pthread_cond_broadcast(&m->cond); }

bool mutex_wait(mutex *m, int64_t timeout_ns) {
    if (timeout_ns < 0) {
        pthread_cond_wait(&m->cond, &m->lock);
        return true;
    }
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += timeout_ns / 1000000000;
    t.tv_nsec += timeout_ns % 1000000000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    return pthread_cond_timedwait(&m->cond, &m->lock, &t) != ETIMEDOUT;
}

void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void futex_wake_all(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

void cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}
