/* A program without the CUDA backend: no device can be had, so nothing but the first two functions is ever called. */
#include "kernels/device.h"

static status absent(err *e) {
    return err_set(
        e, ERR_DEVICE,
        "this skiff was built without the CUDA backend: build it with `make cuda`, or run with --backend cpu");
}

status device_list(device_info *out, int32_t max, int32_t *n, err *e) {
    (void)out, (void)max, (void)n;
    return absent(e);
}

status device_open(device **out, int32_t index, err *e) {
    (void)out, (void)index;
    return absent(e);
}

#define NEVER(type, name, ...)                                                                                         \
    type name(__VA_ARGS__) { check_failed(__FILE__, __LINE__, #name ": there is no device"); }

/* A NULL device is closed like any other. */
void device_close(device *d) { CHECK(!d); }

NEVER(device_info, device_get_info, const device *)
NEVER(status, device_status, const device *, err *)
NEVER(void, device_take_over, device *)
NEVER(status, device_alloc, device *, void **, size_t, const char *, err *)
NEVER(void, device_free, device *, void *)
NEVER(status, device_alloc_shared, device *, void **, size_t, const char *, err *)
NEVER(void, device_free_shared, device *, void *)
NEVER(void, device_copy, device *, void *, const void *, size_t)
NEVER(void, device_wait, device *)
NEVER(status, device_reserve_weights, device *, size_t, err *)
NEVER(size_t, device_matrix_bytes, const weight *)
NEVER(status, device_put_matrices, device *, weight *, int32_t, bool, err *)
NEVER(status, device_put_bytes, device *, const void **, size_t, err *)
NEVER(bool, device_supports_heads, int32_t, int32_t)
NEVER(size_t, device_op_scratch, device *, op_id, const void *)
NEVER(status, device_reserve_scratch, device *, size_t, err *)
NEVER(status, device_open_fast, device *, err *)
NEVER(bool, device_has_fast, const device *)
NEVER(void, device_set_fast, device *, bool)
NEVER(status, device_capture, device *, step_params *, step_params *, err *)
NEVER(status, device_end_capture, device *, device_graph **, err *)
NEVER(void, device_begin_eager, device *, step_params *, step_params *)
NEVER(void, device_end_eager, device *)
NEVER(void, device_put_op, device *, op_id, const void *)
NEVER(void, device_flush, device *)
NEVER(void, device_start, device *, const device_graph *)
NEVER(void, device_finish, device *, const device_graph *)
NEVER(int32_t, device_graph_launches, const device_graph *)
NEVER(status, device_time_graph, device *, const device_graph *, int32_t, double *, err *)
NEVER(status, device_copy_speed, device *, size_t, int32_t, double *, err *)
NEVER(status, device_seed_matrices, device *, weight *, int32_t, uint32_t, err *)
NEVER(status, device_seed_bytes, device *, const void **, size_t, uint32_t, err *)

/* Closing what never was. */
void device_free_graph(device_graph *g) { CHECK(!g); }
