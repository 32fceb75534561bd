#!/usr/bin/env bash
# Proves on this machine's NVIDIA GPU that berth parks programs and resumes them.
# park.py says what each part shows:
#
#   test/bench/gpu/park.sh driver     the helper process alone, without a daemon
#   test/bench/gpu/park.sh programs   PyTorch, JAX and CuPy, ten times each, and speeds
#   test/bench/gpu/park.sh parts      where the time of a round goes, beside the bare calls
#   test/bench/gpu/park.sh turns      two programs of 8 GiB by turns in 12 GiB
#   test/bench/gpu/park.sh idle       one that rests makes room for one that waits
#   test/bench/gpu/park.sh large      two services of 80 GiB by turns
#   test/bench/gpu/park.sh faults     no host memory, kill -9 everywhere
#   test/bench/gpu/park.sh trim       caches of three libraries
#   test/bench/gpu/park.sh wake       programs that wake by themselves
#   test/bench/gpu/park.sh kinds      CUDA graphs, NCCL and others, and CUDA IPC, which is refused
#
# and without arguments all but driver and parts. Needs bin/berth and bin/berth-serve (make
# build), a Python with PyTorch, JAX and CuPy, and a GPU that nobody else uses.
# Prints PASS or FAIL for each claim; exits non-zero if one of them does not hold.
# DEVICES=sim:1xh200 tries it without a GPU, KINDS="torch cupy" with other
# libraries, GIB=8 with another size in programs.
set -u
cd "$(dirname "$0")/../../.."
exec python3 test/bench/gpu/park.py "$@"
