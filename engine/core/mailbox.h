/* engine/core/mailbox.h - the two boxes between the front end's thread and the engine's: requests and cancels one way,
 * events the other. One mutex; boxes are swapped whole, so neither side waits for the other's work. */
#ifndef ENGINE_CORE_MAILBOX_H
#define ENGINE_CORE_MAILBOX_H
#include <stdatomic.h>
#include "engine/engine.h"

typedef struct mailbox mailbox;

mailbox *mailbox_new(int32_t queue_max);
void mailbox_free(mailbox *m); /* frees requests that still wait */

/* ---- front end ---- */
void mailbox_set_waker(mailbox *m, void (*wake)(void *arg), void *arg);
status mailbox_submit(mailbox *m, const gen_request *rq, gen_id *id, err *e); /* ERR_BUSY; adopts rq->mem on OK */
void mailbox_cancel(mailbox *m, gen_id id); /* a waiting request ends here, the running one sees mailbox_cancelled */
void mailbox_close(mailbox *m); /* wakes the engine: mailbox_take returns false, the running request is cancelled */
size_t mailbox_drain(mailbox *m, gen_event *out, size_t max);
bool mailbox_wait(mailbox *m,
                  int64_t timeout_ns); /* until events wait or mailbox_notify; false when the time is over */

/* ---- engine thread ---- */
typedef struct taken_request {
    gen_request rq; /* rq.mem is the taker's to free */
    gen_id id;
    int64_t submitted_ns;
} taken_request;

bool mailbox_take(mailbox *m, taken_request *out); /* sleeps until a request waits; false: closing */
bool mailbox_cancelled(const mailbox *m);          /* of the request that was taken last; one atomic read */
void mailbox_notify(mailbox *m);                   /* something other than events changed */

/* Events of one step are posted together: begin, any number of puts, end. Text, ids and totals are copied. The front
 * end is woken only when its box was empty. */
void mailbox_post_begin(mailbox *m);
void mailbox_post(mailbox *m, const gen_event *ev);
void mailbox_post_end(mailbox *m);
#endif
