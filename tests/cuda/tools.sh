#!/usr/bin/env bash
# Makes sure that cuobjdump and nvdisasm are there, which not every toolkit brings: installs their Python packages into a
# folder, where that is allowed. What is missing then is said by the check that wants it. usage: tools.sh FOLDER
set -uo pipefail
into=$1
command -v cuobjdump >/dev/null && command -v nvdisasm >/dev/null && exit 0
nvcc=$(command -v nvcc) && [ -x "$(dirname "$(readlink -f "$nvcc")")/nvdisasm" ] && exit 0
[ -x "$into/nvidia/cu13/bin/nvdisasm" ] && exit 0
python3 -m pip install -q --disable-pip-version-check --no-deps --target "$into" nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm >/dev/null 2>&1
exit 0
