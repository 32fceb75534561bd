#!/usr/bin/env bash
# Services on demand on this machine's NVIDIA GPU: three model servers in memory for one
# and a half, asked in random order through the front, with a training in between.
# front.py says what each part shows:
#
#   test/bench/gpu/front.sh park|sleep|stop|auto   24 streams, with services sent away in that way
#   test/bench/gpu/front.sh large park|sleep|stop ...  switches of 40 GiB there and back
#   test/bench/gpu/front.sh callers                one who asks now and then beside one who keeps four models busy (as root)
#   test/bench/gpu/front.sh compare                the times of the calls before, beside each other
#
# One call is one daemon, and takes some minutes; compare needs the results of the others,
# which are in RESULTS (dist/front). Needs bin/berth and bin/berth-serve (make build), a
# Python with PyTorch, and a GPU that nobody else uses. Prints PASS or FAIL for each claim;
# exits non-zero if one of them does not hold.
#
# DEVICES=sim:rtx-4060 SIZE=2 LARGE=4 tries it without a GPU. PYTHON names the interpreter of
# the servers, which SERVICE_USER (nobody) must be able to run if this is root; FRONT_USER
# (daemon) runs the front. REQUESTS, SEED, WORDS, WORD_SECONDS and CLIENTS change the load,
# HUGE_PAGES=while_moving the pages.
set -u
cd "$(dirname "$0")/../../.."
exec python3 test/bench/gpu/front.py "$@"
