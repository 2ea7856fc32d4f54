#include "engine/cli/inspect_devices.h"

#include "kernels/device.h"

#include <jansson.h>
#include <stdio.h>

enum { DEVICES_MAX = 64 };

/* A CUDA version as people write it. */
static void version_text(int32_t v, char out[16]) { snprintf(out, 16, "%d.%d", v / 1000, v / 10 % 100); }

static void print_text(const device_info *d, int32_t n) {
    char driver[16], runtime[16];
    version_text(d[0].driver, driver);
    version_text(d[0].runtime, runtime);
    printf("CUDA: the driver has %s, this program was built with %s\n", driver, runtime);
    for (int32_t i = 0; i < n; i++)
        printf("%d  %s, compute capability %d.%d, %d multiprocessors, %.1f GB, %.1f GB free%s%s\n", d[i].index,
               d[i].name, d[i].major, d[i].minor, d[i].processors, (double)d[i].memory * 1e-9, (double)d[i].free * 1e-9,
               d[i].fits ? "" : "; this program has no kernels for it",
               d[i].simulated ? "; no GPU, a simulation of one" : "");
}

static void print_json(const device_info *d, int32_t n) {
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++) {
        char driver[16], runtime[16];
        version_text(d[i].driver, driver);
        version_text(d[i].runtime, runtime);
        json_array_append_new(list,
                              json_pack("{si,ss,si,si,si,sI,sI,ss,ss,sb,sb}", "index", d[i].index, "name", d[i].name,
                                        "major", d[i].major, "minor", d[i].minor, "processors", d[i].processors,
                                        "memory", (json_int_t)d[i].memory, "free", (json_int_t)d[i].free, "driver",
                                        driver, "runtime", runtime, "fits", d[i].fits, "simulated", d[i].simulated));
    }
    json_t *root = json_pack("{so}", "devices", list);
    json_dumpf(root, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(root);
}

status inspect_devices(bool json, err *e) {
    device_info d[DEVICES_MAX];
    int32_t n = 0;
    TRY(device_list(d, DEVICES_MAX, &n, e));
    if (json)
        print_json(d, n);
    else
        print_text(d, n);
    return OK;
}
