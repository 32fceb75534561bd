"""Asks one Python library whether it can be imported and which GPUs it sees.

berth runs this in a child process, once for every library:

    python -c THIS ANSWER_FILE SECONDS LIBRARY

and once without a library, which describes the interpreter. The answer is
JSON in ANSWER_FILE, so it does not matter what a library prints. It is written
twice: when the import is done, and again when the GPUs are known, so that a
library that crashes or hangs in the driver still counts as importable.

The command line has this file built in (python/probe.go).
"""

import json
import os
import signal
import sys


def main():
    answer_file, seconds, library = sys.argv[1:4]
    signal.alarm(int(seconds))  # ends the process even if nobody is left to do it
    without_core_dump()
    sys.dont_write_bytecode = True  # it would look as if something had been installed
    sys.path[:] = [entry for entry in sys.path if entry]  # not the current folder
    if not library:
        say(answer_file, interpreter())
        return
    # A question must not take the memory of the GPU it asks about.
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    module, answer = load(library)
    if module is not None and library in ASK:
        answer["devices_unknown"] = "it never answered"
        say(answer_file, answer)
        answer.pop("devices_unknown")
        answer.update(devices(ASK[library], module))
    say(answer_file, answer)


def say(answer_file, answer):
    with open(answer_file + ".part", "w") as out:
        json.dump(answer, out)
    os.rename(answer_file + ".part", answer_file)


def without_core_dump():
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except Exception:
        pass  # only a file more, if it crashes


def interpreter():
    """What the answers depend on, so that they can be kept."""
    folders = []
    for entry in sys.path:
        try:
            folders.append([entry, repr(os.stat(entry).st_mtime)])
        except OSError:
            pass
    return {
        "version": ".".join(str(part) for part in sys.version_info[:3]),
        "executable": sys.executable or "",
        "folders": folders,
    }


def load(library):
    import importlib

    try:
        module = importlib.import_module(library)
    except BaseException as error:  # libraries even call sys.exit on import
        return None, failure(library, error)
    return module, {"status": "ok", "version": version(library, module)}


def failure(library, error):
    absent = getattr(error, "name", None) if type(error).__name__ == "ModuleNotFoundError" else None
    if absent and (library + ".").startswith(absent + "."):
        return {"status": "missing", "reason": words(error)}
    return {"status": "broken", "reason": words(error)}


def version(library, module):
    found = getattr(module, "__version__", None)
    if isinstance(found, str):
        return found[:100]
    try:
        from importlib import metadata

        return metadata.version(library)[:100]
    except Exception:
        return ""


def words(error):
    text = " ".join((type(error).__name__ + ": " + str(error)).split())
    return text if len(text) <= 400 else text[:400] + "..."


def devices(ask, module):
    """What ask says, or why it does not. Each ask returns a list of devices,
    or a text that says why there is none."""
    try:
        found = ask(module)
    except BaseException as error:
        return {"devices_unknown": words(error), "reason": words(error)}
    if isinstance(found, str):
        return {"devices": [], "reason": found}
    if any(not device.get("uuid") and not device.get("pci_bus_id") for device in found):
        names = sorted(set(device.get("name", "?") for device in found))
        return {"devices_unknown": "it gives no UUID and no PCI address, only names: " + ", ".join(names)}
    return {"devices": found}


def cupy_devices(cupy):
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        no_device, old_driver = 100, 35
        if error.status in (no_device, old_driver):
            return words(error)
        raise
    return [
        {"uuid": driver_uuid(i), "pci_bus_id": text(runtime.deviceGetPCIBusId(i))}
        for i in range(count)
    ]


def torch_devices(torch):
    if not torch.cuda.is_available():
        if not torch.version.cuda and not getattr(torch.version, "hip", None):
            return "it was built without CUDA"
        return "torch.cuda.is_available() says no"
    found = []
    for i in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(i)
        device = {"name": about.name}
        if hasattr(about, "pci_bus_id"):
            device["pci_bus_id"] = "%x:%x:%x.0" % (about.pci_domain_id, about.pci_bus_id, about.pci_device_id)
        if torch.version.cuda:  # what ROCm calls a UUID is another number
            device["uuid"] = str(getattr(about, "uuid", "")) or driver_uuid(i)
        found.append(device)
    return found


def jax_devices(jax):
    seen = [d for d in jax.devices() if d.platform in ("gpu", "cuda", "rocm")]
    if not seen:
        return "its devices are " + ", ".join(sorted(set(str(d.platform) for d in jax.devices())))
    return [{"name": text(d.device_kind), "uuid": driver_uuid(d.local_hardware_id)} for d in seen]


def tensorflow_devices(tensorflow):
    if not tensorflow.config.list_physical_devices("GPU"):
        return "tensorflow lists no GPU"
    from tensorflow.python.client import device_lib

    found = []
    for device in device_lib.list_local_devices():
        if device.device_type == "GPU":
            about = dict(part.split(": ", 1) for part in device.physical_device_desc.split(", ") if ": " in part)
            found.append({"name": about.get("name", ""), "pci_bus_id": about.get("pci bus id", "")})
    return found


def pyclesperanto_devices(cle):
    ask = getattr(cle, "list_available_devices", None) or cle.available_device_names
    names = ask()
    if not names:
        return "pyclesperanto lists no device"
    return [{"name": text(name)} for name in names]


def driver_uuid(ordinal):
    """The UUID of a CUDA device of this very process, where the same number
    means the same device to every library; None if the driver does not say."""
    import ctypes
    import uuid

    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        device, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        ask = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid
        if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), int(ordinal)) or ask(raw, device):
            return None
        return str(uuid.UUID(bytes=bytes(bytearray(raw))))
    except Exception:
        return None


def text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


ASK = {
    "cupy": cupy_devices,
    "torch": torch_devices,
    "jax": jax_devices,
    "tensorflow": tensorflow_devices,
    "pyclesperanto": pyclesperanto_devices,
}

if __name__ == "__main__":
    main()
    os._exit(0)  # a library's threads and exit handlers may never end
