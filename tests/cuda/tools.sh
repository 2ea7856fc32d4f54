#!/usr/bin/env bash
# Makes sure that cuobjdump and the nvdisasm that it calls are there, which not every toolkit brings: installs their
# Python packages into a folder, where that is allowed. What is missing then, the check that wants it says.
# usage: tools.sh FOLDER
set -uo pipefail
into=$1
bin=$into/nvidia/cu13/bin
nvcc=$(command -v nvcc) && PATH=$PATH:$(dirname "$(readlink -f "$nvcc")")
command -v cuobjdump >/dev/null && command -v nvdisasm >/dev/null && exit 0
[ -x "$bin/cuobjdump" ] && [ -x "$bin/nvdisasm" ] && exit 0
python3 -m pip install -q --disable-pip-version-check --no-deps --upgrade --target "$into" nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm \
    >/dev/null 2>&1
exit 0
