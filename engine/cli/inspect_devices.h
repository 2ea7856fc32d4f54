/* engine/cli/inspect_devices.h - skiff inspect --devices. */
#ifndef ENGINE_CLI_INSPECT_DEVICES_H
#define ENGINE_CLI_INSPECT_DEVICES_H
#include <stdbool.h>
#include "engine/base/status.h"

/* Prints the GPUs of this machine. ERR_DEVICE: built without the CUDA backend, no driver, no GPU. */
status inspect_devices(bool json, err *e);
#endif
