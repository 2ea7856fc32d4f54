#!/usr/bin/env bash
# Makes sure that cuobjdump is there, which not every toolkit brings: installs its Python package into a folder, where
# that is allowed. When it is missing then, the check that wants it says so. usage: tools.sh FOLDER
set -uo pipefail
into=$1
command -v cuobjdump >/dev/null && exit 0
nvcc=$(command -v nvcc) && [ -x "$(dirname "$(readlink -f "$nvcc")")/cuobjdump" ] && exit 0
[ -x "$into/nvidia/cu13/bin/cuobjdump" ] && exit 0
python3 -m pip install -q --disable-pip-version-check --no-deps --target "$into" nvidia-cuda-cuobjdump >/dev/null 2>&1
exit 0
