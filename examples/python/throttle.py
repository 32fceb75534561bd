"""Works no harder than the GPU can stand, and gives memory back when asked.

    python throttle.py

Watch it with `berth status --watch`; the simulator heats up by itself.
"""

import sys
import time

import berth


def batches():
    for number in range(20):
        yield number


def main():
    try:
        with berth.lease(memory="1GiB", name="throttle", trim_on_request=True) as gpu:
            pace = berth.pace(batches(), lease=gpu)
            for number in pace:
                time.sleep(0.1)  # the work; on a GPU, synchronize at its end
                print("batch %2d at %3.0f %% of full speed" % (number, 100 * berth.speed(gpu)), flush=True)
            print("slept %.1f s to keep to it" % pace.slept)
    except berth.BerthError as why:
        return str(why)
    return 0


if __name__ == "__main__":
    sys.exit(main())
