"""Which GPU is which in this process. Berth knows devices by UUID; libraries
count those that the process sees from zero. This is where the two meet."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, List, Optional, Union

Device = Union[None, int, str, Any]  # Any: a lease


def index_of(device: Device) -> Optional[int]:
    """The number that libraries in this process have for a device; None is
    host memory. Takes a number, ``"cpu"``, ``"cuda:1"``, a UUID or a lease."""
    if isinstance(device, bool):
        raise TypeError("a device is a number, a UUID or a word such as cuda:0, not %r" % device)
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        return _index_of_word(device)
    uuid = getattr(device, "uuid", None)
    if isinstance(uuid, str):
        return local_index(uuid)
    raise TypeError("a device is a number, a UUID, a lease or a word such as cuda:0, not %r" % (device,))


def _index_of_word(word: str) -> Optional[int]:
    kind, _, number = word.strip().lower().partition(":")
    if kind == "cpu":
        return None
    if kind in ("cuda", "gpu") and (number.isdigit() or not number):
        return int(number or 0)
    if kind.isdigit():
        return int(kind)
    return local_index(word)


def local_index(uuid: str) -> int:
    """The number under which this process sees a GPU."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    named = [word.strip() for word in visible.split(",")] if visible else []
    for index, word in enumerate(named):
        if same(word, uuid):
            return index
    for index, other in enumerate(visible_uuids()):
        if same(other, uuid):
            return index
    raise LookupError(
        "this process does not see GPU %s%s: start it with the environment of the lease, or lease before CUDA is used"
        % (uuid, " (CUDA_VISIBLE_DEVICES is %s)" % visible if visible is not None else "")
    )


def same(word: str, uuid: str) -> bool:
    """Whether two texts name the same GPU: some write a prefix, and
    CUDA_VISIBLE_DEVICES takes the beginning of a UUID for the whole."""
    short, long = _bare(word), _bare(uuid)
    return len(short) >= 4 and not short.isdigit() and long.startswith(short)


def _bare(uuid: str) -> str:
    text = uuid.lower()
    return text[4:] if text.startswith(("gpu-", "mig-")) else text


def visible_uuids() -> List[str]:
    """The GPUs that CUDA sees here, in its order; none without a driver. It
    starts the driver in this process, which a fork does not survive."""
    return _each_visible(_uuid)


def visible_names() -> List[str]:
    """What the driver calls them, in the same order."""
    return _each_visible(_name)


def _each_visible(read: Callable[[Any, int], str]) -> List[str]:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count = ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    return [read(cuda, index) for index in range(count.value)]


def _uuid(cuda: Any, index: int) -> str:
    uuid_of = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid
    text = (ctypes.c_ubyte * 16)()
    return "GPU-" + _dashed(bytes(text)) if uuid_of(text, index) == 0 else ""


def _name(cuda: Any, index: int) -> str:
    text = ctypes.create_string_buffer(256)
    return text.value.decode("utf-8", "replace") if cuda.cuDeviceGetName(text, 256, index) == 0 else ""


def _dashed(raw: bytes) -> str:
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def cuda_started() -> bool:
    """Whether this process uses a GPU already, so that it is too late to say
    which it sees. Reading about GPUs (NVML) opens other files than these."""
    try:
        files = os.listdir("/proc/self/fd")
    except OSError:
        return False
    return any(_target(name) in ("/dev/nvidia-uvm", "/dev/kfd") for name in files)


def _target(name: str) -> str:
    try:
        return os.readlink("/proc/self/fd/" + name)
    except OSError:
        return ""  # closed meanwhile
