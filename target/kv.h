/* target/kv.h - the memory of target keys and values: rings for sliding layers, pages for global ones.
 *
 * The page table names the pages of one sequence, the live one. There may be more pages than it needs: whoever keeps
 * several sequences fills the table (engine/core/timelines.h); until then page i is the i-th.
 *
 * Invariants: a ring has at least window + PREFILL_MAX - 1 slots, so that rows of a step which are not accepted never
 * overwrite a key that a committed row still sees. Pages hold ctx + NODES_MAX positions: the rows of the last round may
 * stand behind the context's end. All K and V are BF16 or all are E4M3, those of rows that are not committed too; K is
 * rotated at its absolute position. */
#ifndef TARGET_KV_H
#define TARGET_KV_H
#include "kernels/attn.h"
#include "target/config.h"

typedef struct target_kv {
    device *on;      /* NULL: the host */
    kv_store *layer; /* [layers]; their page table is `pages` */
    kv_store *seen;  /* [layers] the same as ops see them: with pages_on */
    int32_t layers, ctx;
    dtype type;
    int32_t *pages;    /* page table of all global layers, [n_table]; written by target_kv_set_pages alone */
    int32_t *pages_on; /* the same where the ops run */
    int32_t n_table;
    int32_t n_pages; /* that there are, at least n_table */
    void *block;     /* owns every K and V */
    size_t bytes;
} target_kv;

int32_t target_kv_pages(int64_t tokens); /* that so many positions need, the rows of a last round included */
/* What target_kv_init will ask for. spare: pages beside those of one sequence of ctx positions. type: DT_BF16 or
 * DT_E4M3. */
size_t target_kv_bytes(const target_config *c, int32_t ctx, int32_t spare, dtype type);
status target_kv_init(target_kv *out, const target_config *c, int32_t ctx, int32_t spare, dtype type, device *on,
                      err *e);
void target_kv_deinit(target_kv *kv);

/* Entries from .. from + n - 1 of the page table. */
void target_kv_set_pages(target_kv *kv, int32_t from, const int32_t *page, int32_t n);
/* The first `rows` rows of a page, in all global layers. */
void target_kv_copy_page(const target_kv *kv, int32_t from, int32_t to, int32_t rows);
#endif
