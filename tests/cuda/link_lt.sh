#!/usr/bin/env bash
# Runs the program that links cuBLASLt, where there is a toolkit to build it. usage: link_lt.sh PROGRAM
[ -x "$1" ] && exec "$1"
echo "skip link_lt: there is no CUDA toolkit, so nothing was linked with cuBLASLt"
echo "0 passed, 0 failed, 1 skipped"
