#include "engine/server/net/loop.h"

#include "engine/base/mem.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SIGNALS_MAX = 8 };

typedef struct hook {
    struct event *ev;
    loop_fn fn;
    void *arg;
} hook;

struct loop {
    struct event_base *base;
    int wake_fd;
    hook wake;
    hook signal[SIGNALS_MAX];
    int n_signals;
};

struct loop_timer {
    hook h;
};

static void on_wake(evutil_socket_t fd, short what, void *arg) {
    loop *l = arg;
    uint64_t n;
    (void)what;
    /* The count is cleared before fn runs: a wake-up during fn gives another turn instead of being lost. */
    if (read(fd, &n, sizeof n) < 0 && errno != EAGAIN) return;
    if (l->wake.fn) l->wake.fn(l->wake.arg);
}

static void on_hook(evutil_socket_t fd, short what, void *arg) {
    hook *h = arg;
    (void)fd, (void)what;
    h->fn(h->arg);
}

status loop_open(loop **out, err *e) {
    loop *l = xalloc(sizeof *l);
    struct event_config *cfg = event_config_new();
    CHECK(cfg);
    /* One thread uses the base; the eventfd is the only door from outside, so locks would only cost time. */
    event_config_set_flag(cfg, EVENT_BASE_FLAG_NOLOCK);
    l->base = event_base_new_with_config(cfg);
    event_config_free(cfg);
    l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (!l->base || l->wake_fd < 0) {
        loop_close(l);
        return err_set(e, ERR_FAULT, "cannot make an event loop: %s", strerror(errno));
    }
    l->wake.ev = event_new(l->base, l->wake_fd, EV_READ | EV_PERSIST, on_wake, l);
    CHECK(l->wake.ev && event_add(l->wake.ev, NULL) == 0);
    *out = l;
    return OK;
}

void loop_close(loop *l) {
    if (!l) return;
    for (int i = 0; i < l->n_signals; i++) event_free(l->signal[i].ev);
    if (l->wake.ev) event_free(l->wake.ev);
    if (l->wake_fd >= 0) close(l->wake_fd);
    if (l->base) event_base_free(l->base);
    free(l);
}

status loop_run(loop *l, err *e) {
    if (event_base_loop(l->base, EVLOOP_NO_EXIT_ON_EMPTY) < 0) return err_set(e, ERR_FAULT, "the event loop failed");
    return OK;
}

void loop_stop(loop *l) { event_base_loopbreak(l->base); }

void loop_set_wake(loop *l, loop_fn fn, void *arg) {
    l->wake.fn = fn;
    l->wake.arg = arg;
}

void loop_wake(loop *l) {
    uint64_t one = 1;
    /* EAGAIN would mean a full counter: the loop is awake anyway. */
    if (write(l->wake_fd, &one, sizeof one) < 0) return;
}

status loop_add_signal(loop *l, int signo, loop_fn fn, void *arg, err *e) {
    CHECK(l->n_signals < SIGNALS_MAX);
    hook *h = &l->signal[l->n_signals];
    *h = (hook){ .fn = fn, .arg = arg };
    h->ev = evsignal_new(l->base, signo, on_hook, h);
    CHECK(h->ev);
    if (event_add(h->ev, NULL) != 0) {
        event_free(h->ev);
        return err_set(e, ERR_FAULT, "cannot catch signal %d: %s", signo, strerror(errno));
    }
    l->n_signals++;
    return OK;
}

loop_timer *loop_timer_new(loop *l, loop_fn fn, void *arg) {
    loop_timer *t = xalloc(sizeof *t);
    t->h = (hook){ .fn = fn, .arg = arg };
    t->h.ev = evtimer_new(l->base, on_hook, &t->h);
    CHECK(t->h.ev);
    return t;
}

void loop_timer_free(loop_timer *t) {
    if (!t) return;
    event_free(t->h.ev);
    free(t);
}

void loop_timer_set(loop_timer *t, int64_t ms) {
    struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
    CHECK(event_add(t->h.ev, &tv) == 0);
}

void loop_timer_stop(loop_timer *t) { event_del(t->h.ev); }

struct event_base *loop_base_(loop *l) {
    return l->base;
}
