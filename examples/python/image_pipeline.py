"""An image pipeline over three libraries on one GPU: numpy → cupy → torch → numpy.

    berth serve &
    python image_pipeline.py
    berth plan ../pipelines/image.yaml --run -- python image_pipeline.py

It is planned before anything runs, by itself or by the file with the same steps,
runs under the lease that the plan asks for, and is checked against NumPy alone.
Between cupy and torch nothing is copied: the pointers prove it. On a machine
without a GPU, or without the libraries, the plan is refused, with the reasons.
"""

import sys

import berth

SIZE, RADIUS = 2048, 3
pointers = {}  # what each GPU step gave and got


@berth.memory("numpy")
def load(seed):
    """A noisy image with bright squares."""
    import numpy

    image = numpy.random.default_rng(seed).random((SIZE, SIZE), dtype="float32")
    for row in range(64, SIZE - 64, 256):
        image[row : row + 32, row : row + 32] += 2
    return image


@berth.memory("cupy", memory_mb="2GiB")
def denoise(image):
    """The mean over a window, one axis after the other."""
    import cupy

    result = box(cupy, box(cupy, image, 0), 1)
    pointers["denoise gave"] = berth.pointer(result)
    return result


@berth.memory("torch", memory_mb="4GiB")
def segment(image):
    """What is clearly brighter than the rest."""
    pointers["segment got"] = berth.pointer(image)
    return image > image.mean() + 2 * image.std()


@berth.memory("numpy")
def measure(mask):
    return {"pixels": int(mask.sum()), "share": float(mask.mean())}


def box(library, image, axis):
    """Works with numpy and cupy alike."""
    total = library.zeros_like(image)
    for shift in range(-RADIUS, RADIUS + 1):
        total += library.roll(image, shift, axis)
    return total / (2 * RADIUS + 1)


def expected(seed):
    """The same with NumPy alone."""
    import numpy

    image = box(numpy, box(numpy, load(seed), 0), 1)
    return int((image > image.mean() + 2 * image.std(ddof=1)).sum())


def main():
    try:
        plan = berth.compile([load, denoise, segment, measure], name="image")
        print(plan, end="\n\n")
        run = plan.execute(7)
    except berth.BerthError as why:
        return str(why)
    whose = "by %s" % plan.document["file"] if plan.given else "by itself"
    how = "not as planned: " + run.moved if run.moved else "as planned"
    print("planned %s, ran on %s, %s" % (whose, run.gpu, how))
    for step in run.steps:
        print("  %-8s %7.1f ms  %4s MiB" % (step.name, step.seconds * 1e3, step.memory_mb))
        for conversion in step.conversions:
            print("           %s" % conversion)
    return check(run)


def check(run):
    if pointers["denoise gave"] != pointers["segment got"]:
        return "cupy and torch do not share their memory"
    found, want = run.value["pixels"], expected(7)
    print("%d pixels, NumPy alone finds %d; cupy and torch share 0x%x" % (found, want, pointers["segment got"]))
    if abs(found - want) > want // 1000:  # sums of floats depend on their order
        return "the result is wrong"
    return 0


if __name__ == "__main__":
    sys.exit(main())
