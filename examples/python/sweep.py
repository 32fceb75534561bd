"""A sweep: one function, called with many settings, each call on a GPU of its own.

    berth serve --devices sim:2 &
    python sweep.py 12

It is written for any executor of concurrent.futures. With joblib or submitit you would
write the same loop; here the calls wait for GPUs in the queue of the machine, beside
what others run, and one that crashes fails alone.
"""

import concurrent.futures
import dataclasses
import itertools
import random
import sys

import berth


@dataclasses.dataclass(frozen=True)
class Settings:
    rate: float
    size: int
    seed: int


def train(settings: Settings) -> float:
    """Stands for a training: it walks down a parabola, and returns how far it got. The
    GPU of its lease is device 0."""
    chance = random.Random(settings.seed)
    place = 10.0
    for _ in range(200):
        slope = 2 * place + chance.gauss(0, 1) / settings.size**0.5
        place -= settings.rate * slope
        if abs(place) > 1e6:
            raise OverflowError("it runs away")
    return place * place


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    grid = itertools.product((0.001, 0.01, 0.1, 1.1), (16, 64), (1, 2))
    losses = {}
    with berth.Executor(memory="2GiB", name="sweep") as pool:
        futures = {pool.submit(train, settings): settings for settings in itertools.starmap(Settings, itertools.islice(grid, most))}
        for future in concurrent.futures.as_completed(futures):
            settings = futures[future]
            try:
                losses[settings] = future.result()
                print("%s: %.4f" % (settings, losses[settings]))
            except (OverflowError, berth.BrokenWorker) as why:
                print("%s failed: %s" % (settings, why))
    best = min(losses, key=lambda settings: losses[settings])
    print("the best of %d: %s" % (len(losses), best))


if __name__ == "__main__":
    main()
