"""Says whether one library can be imported, and which GPUs it sees.

It is run in a process of its own, by any interpreter, as
``python -c SOURCE ANSWER_FILE SECONDS LIBRARY``. The answer goes to a file, so
it does not matter what a library prints, and is written before the GPUs are
asked for and again after, because that is where libraries crash and hang.
"""

import ctypes
import importlib
import json
import os
import signal
import sys


def main():
    answer_file, seconds, library = sys.argv[1:4]
    signal.alarm(int(seconds))  # an orphan ends too
    sys.path[:] = [entry for entry in sys.path if entry]  # not the current folder
    # To look at a GPU must not take its memory.
    os.environ.update(XLA_PYTHON_CLIENT_PREALLOCATE="false", TF_FORCE_GPU_ALLOW_GROWTH="true")
    try:
        module = importlib.import_module(library)
    except BaseException as error:  # some even call sys.exit
        return write(answer_file, {"status": status(library, error), "reason": words(error)})
    answer = {"status": "ok", "version": str(getattr(module, "__version__", ""))[:100]}
    if library in SEEN:
        write(answer_file, dict(answer, devices_unknown="it never answered"))
        try:
            answer["devices"] = [{"uuid": uuid_of(i)} for i in SEEN[library](module)]
        except BaseException as error:
            answer["devices_unknown"] = words(error)
    write(answer_file, answer)


def write(path, answer):
    with open(path + ".part", "w") as out:
        json.dump(answer, out)
    os.rename(path + ".part", path)


def status(library, error):
    absent = error.name if isinstance(error, ModuleNotFoundError) else None
    return "missing" if absent and (library + ".").startswith(absent + ".") else "broken"


def words(error):
    return " ".join((type(error).__name__ + ": " + str(error)).split())[:400]


def uuid_of(ordinal):
    """The same number means the same GPU to every library in a process, so the
    driver can be asked for all of them."""
    cuda, device, raw = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), (ctypes.c_ubyte * 16)()
    ask = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), int(ordinal)) or ask(raw, device):
        raise RuntimeError("the driver does not say which GPU number %d is" % ordinal)
    digits = bytes(raw).hex()
    return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def seen_by_cupy(cupy):
    try:
        return range(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if error.status in (35, 100):  # no driver, no device
            return []
        raise


def seen_by_pyclesperanto(cle):
    names = cle.list_available_devices()
    if names:
        raise RuntimeError("it only gives names: " + ", ".join(map(str, names)))
    return []


SEEN = {
    "cupy": seen_by_cupy,
    "torch": lambda torch: range(torch.cuda.device_count() if torch.cuda.is_available() else 0),
    "jax": lambda jax: [d.local_hardware_id for d in jax.devices() if d.platform in ("gpu", "cuda", "rocm")],
    "tensorflow": lambda tf: range(len(tf.config.list_physical_devices("GPU"))),
    "pyclesperanto": seen_by_pyclesperanto,
}

if __name__ == "__main__":
    main()
    os._exit(0)  # threads and exit handlers of a library may never end
