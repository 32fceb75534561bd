"""The array libraries, each behind the same few words. None is imported before
somebody asks for an array of its kind.

In this module an index is the number that the process has for a GPU, and None
is host memory. Names of data types are NumPy's.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any, ContextManager, Dict, List, Optional, Tuple

from .visible import visible_names

Index = Optional[int]

# What carries the bits of types that not every library can exchange.
CARRIERS = {"bool": "uint8", "bfloat16": "int16"}


class Library:
    """One library. What it cannot do it refuses with a TypeError that says so."""

    name = ""
    packages: Tuple[str, ...] = ()  # top-level packages of its array classes
    exchanges = True  # it speaks DLPack
    on_host = False  # its arrays can be in host memory

    def module(self) -> Any:
        try:
            return importlib.import_module(self.name)
        except ImportError as why:
            raise ImportError("%s cannot be imported here: %s" % (self.name, why), name=self.name) from why

    @property
    def loaded(self) -> Any:
        """The module if somebody imported it wholly, else None."""
        module = sys.modules.get(self.name)
        spec = getattr(module, "__spec__", None)
        return None if getattr(spec, "_initializing", False) else module

    def plain(self, x: Any) -> Any:
        """The array without what belongs to its library alone."""
        return x

    def index(self, x: Any) -> Index:
        raise NotImplementedError

    def dtype(self, x: Any) -> str:
        return str(x.dtype.name)

    def size(self, x: Any) -> int:
        return int(x.size)

    def nbytes(self, x: Any) -> int:
        return int(x.nbytes)

    def pointer(self, x: Any) -> int:
        raise NotImplementedError

    def to_host(self, x: Any) -> Any:
        """A NumPy array that may be written to. It shares memory with x only
        if x is in host memory."""
        raise NotImplementedError

    def from_host(self, a: Any, index: Index) -> Any:
        """The array for a NumPy array of native byte order, in C order. It may
        share memory with it if index is None."""
        raise NotImplementedError

    def move(self, x: Any, index: Index) -> Any:
        raise TypeError("%s cannot move an array from one GPU to another" % self.name)

    def contiguous(self, x: Any) -> Any:
        """The array in C order, itself if it is."""
        return x

    def view(self, x: Any, dtype: str) -> Any:
        """The same bits as another type of the same size."""
        raise TypeError("%s cannot look at %s as %s" % (self.name, self.dtype(x), dtype))

    def export(self, x: Any) -> Any:
        """Something with ``__dlpack__`` and ``__dlpack_device__``."""
        return x

    def take(self, exported: Any, index: Index) -> Any:
        """Makes an array from what another library exports."""
        raise TypeError("%s does not take arrays of others" % self.name)

    def gpus(self) -> int:
        """How many GPUs it sees."""
        return 0

    def using(self, index: int) -> ContextManager[Any]:
        """Makes a GPU the one for new arrays."""
        return contextlib.nullcontext()

    def synchronize(self, index: int) -> None:
        """Waits until everything that was started on the GPU is done."""


class Numpy(Library):
    name, packages, on_host = "numpy", ("numpy",), True

    def plain(self, x: Any) -> Any:
        if hasattr(x, "mask"):
            raise TypeError("a masked array would lose its mask: call filled() first")
        a = self.module().asarray(x)
        return a if a.dtype.isnative else a.astype(a.dtype.newbyteorder("="))

    def index(self, x: Any) -> Index:
        return None

    def pointer(self, x: Any) -> int:
        return int(x.__array_interface__["data"][0])

    def to_host(self, x: Any) -> Any:
        return x

    def from_host(self, a: Any, index: Index) -> Any:
        return a

    def contiguous(self, x: Any) -> Any:
        return x if x.flags.c_contiguous else x.copy()  # ascontiguousarray makes 0-d arrays 1-d


def host_dtype(name: str) -> Any:
    """NumPy's type of that name. It has no bfloat16 of its own."""
    numpy = NUMPY.module()
    if name != "bfloat16":
        return numpy.dtype(name)
    try:
        return numpy.dtype(importlib.import_module("ml_dtypes").bfloat16)
    except ImportError as why:
        raise TypeError(
            "NumPy has no bfloat16: install the package ml_dtypes, or turn the array into float32 first"
        ) from why


class Cupy(Library):
    name, packages = "cupy", ("cupy", "cupy_backends")

    def index(self, x: Any) -> Index:
        return int(x.device.id)

    def pointer(self, x: Any) -> int:
        return int(x.data.ptr)

    def to_host(self, x: Any) -> Any:
        with self.using(int(x.device.id)):
            return self.module().asnumpy(x)

    def from_host(self, a: Any, index: Index) -> Any:
        if index is None:
            raise TypeError("cupy has no arrays in host memory: use numpy there")
        with self.using(index):
            return self.module().asarray(a)

    def move(self, x: Any, index: Index) -> Any:
        assert index is not None
        with self.using(index):
            return self.module().array(x)  # a copy from device to device

    def contiguous(self, x: Any) -> Any:
        with self.using(int(x.device.id)):
            return x if x.flags.c_contiguous else x.copy()

    def view(self, x: Any, dtype: str) -> Any:
        return x.view(host_dtype(dtype))

    def export(self, x: Any) -> Any:
        # cupy hands such a view over without a word, and torch ends the whole
        # process when it gets one (seen with cupy 14.2 and torch 2.11).
        if any(step < 0 for step in getattr(x, "strides", ())):
            raise TypeError("a view that runs backwards cannot be handed over")
        return x

    def take(self, exported: Any, index: Index) -> Any:
        if index is None:
            raise TypeError("cupy has no arrays in host memory: use numpy there")
        with self.using(index):
            return self.module().from_dlpack(exported)

    def gpus(self) -> int:
        try:
            return int(self.module().cuda.runtime.getDeviceCount())
        except Exception:  # its error is of a class that only it has
            return 0

    def using(self, index: int) -> ContextManager[Any]:
        return self.module().cuda.Device(index)

    def synchronize(self, index: int) -> None:
        self.module().cuda.Device(index).synchronize()


class Torch(Library):
    name, packages, on_host = "torch", ("torch",), True

    def plain(self, x: Any) -> Any:
        if x.layout != self.module().strided:
            raise TypeError("a sparse tensor has no single block of memory: call to_dense() first")
        return x.detach().resolve_conj().resolve_neg()

    def index(self, x: Any) -> Index:
        if x.device.type == "cpu":
            return None
        if x.device.type != "cuda":
            raise TypeError("a torch tensor on %s cannot be converted: move it to the CPU or a GPU first" % x.device)
        return int(x.device.index or 0)

    def dtype(self, x: Any) -> str:
        return str(x.dtype).rpartition(".")[2]

    def size(self, x: Any) -> int:
        return int(x.numel())

    def nbytes(self, x: Any) -> int:
        return int(x.numel() * x.element_size())

    def pointer(self, x: Any) -> int:
        return int(x.data_ptr())

    def to_host(self, x: Any) -> Any:
        here = x.cpu()
        if self.dtype(x) == "bfloat16":
            return here.view(self.module().int16).numpy().view(host_dtype("bfloat16"))
        return here.numpy()

    def from_host(self, a: Any, index: Index) -> Any:
        if not a.flags.writeable:
            a = a.copy()  # torch has no arrays that may not be written to, and warns
        if a.dtype.name == "bfloat16":
            t = self.view(self.module().from_numpy(a.view("int16")), "bfloat16")
        else:
            t = self.module().from_numpy(a)
        return t if index is None else t.to("cuda:%d" % index)

    def move(self, x: Any, index: Index) -> Any:
        return x.to("cpu" if index is None else "cuda:%d" % index)

    def contiguous(self, x: Any) -> Any:
        return x.contiguous()

    def view(self, x: Any, dtype: str) -> Any:
        kind = getattr(self.module(), dtype, None)
        if kind is None:
            raise TypeError("torch %s has no %s" % (self.module().__version__, dtype))
        return x.view(kind)

    def take(self, exported: Any, index: Index) -> Any:
        return self.module().from_dlpack(exported)

    def gpus(self) -> int:
        cuda = self.module().cuda
        return int(cuda.device_count()) if cuda.is_available() else 0

    def using(self, index: int) -> ContextManager[Any]:
        return self.module().cuda.device(index)

    def synchronize(self, index: int) -> None:
        self.module().cuda.synchronize(index)


class Jax(Library):
    name, packages, on_host = "jax", ("jax", "jaxlib"), True

    def index(self, x: Any) -> Index:
        devices = x.devices()
        if len(devices) != 1:
            raise TypeError("a jax array over %d devices cannot be converted: gather it on one first" % len(devices))
        return self._number(next(iter(devices)))

    @staticmethod
    def _number(device: Any) -> Index:
        if device.platform == "cpu":
            return None
        number = getattr(device, "local_hardware_id", None)
        return int(device.id if number is None else number)

    def _device(self, index: Index) -> Any:
        jax = self.module()
        if index is None:
            return jax.local_devices(backend="cpu")[0]
        for device in jax.local_devices():
            if self._number(device) == index:
                return device
        raise TypeError("jax does not see GPU %d of this process" % index)

    def pointer(self, x: Any) -> int:
        return int(x.addressable_data(0).unsafe_buffer_pointer())

    def to_host(self, x: Any) -> Any:
        return NUMPY.module().array(x)  # asarray gives one that may not be written to

    def from_host(self, a: Any, index: Index) -> Any:
        # A copy, and a finished one: jax takes its arrays for unchangeable.
        device = self._device(index)
        x = self.module().device_put(a.copy() if index is None else a, device).block_until_ready()
        return self._whole(x, a.dtype.name)

    def _whole(self, x: Any, dtype: str) -> Any:
        if self.dtype(x) != dtype:
            raise TypeError(
                "jax would make %s of %s: switch its 64-bit types on with JAX_ENABLE_X64=1 "
                'or jax.config.update("jax_enable_x64", True), or convert the array first' % (self.dtype(x), dtype)
            )
        return x

    def move(self, x: Any, index: Index) -> Any:
        return self.module().device_put(x, self._device(index)).block_until_ready()

    def view(self, x: Any, dtype: str) -> Any:
        if "bool" in (dtype, self.dtype(x)):
            return x.astype(dtype)
        return x.view(host_dtype(dtype))

    def export(self, x: Any) -> Any:
        return x.addressable_data(0).block_until_ready()

    def take(self, exported: Any, index: Index) -> Any:
        return importlib.import_module("jax.dlpack").from_dlpack(exported)

    def gpus(self) -> int:
        return sum(self._number(d) is not None for d in self.module().local_devices())

    def using(self, index: int) -> ContextManager[Any]:
        return self.module().default_device(self._device(index))


class Tensorflow(Library):
    name, packages, on_host = "tensorflow", ("tensorflow",), True

    def index(self, x: Any) -> Index:
        if not hasattr(x, "device") or not hasattr(x, "numpy"):
            raise TypeError("only eager tensors have memory: this one is part of a graph")
        _, found, number = x.device.rpartition("GPU:")
        return int(number) if found else None

    def plain(self, x: Any) -> Any:
        return self.module().convert_to_tensor(x)

    def size(self, x: Any) -> int:
        return int(x.shape.num_elements())

    def nbytes(self, x: Any) -> int:
        return self.size(x) * int(x.dtype.size)

    def pointer(self, x: Any) -> int:
        return capsule_pointer(self.module().experimental.dlpack.to_dlpack(x))

    def to_host(self, x: Any) -> Any:
        return NUMPY.module().array(x.numpy())

    def from_host(self, a: Any, index: Index) -> Any:
        tf = self.module()
        with tf.device("CPU:0"):
            x = tf.constant(a)
        return x if index is None else self.move(x, index)

    def move(self, x: Any, index: Index) -> Any:
        tf = self.module()
        with tf.device("CPU:0" if index is None else "GPU:%d" % index):
            return tf.identity(x)

    def view(self, x: Any, dtype: str) -> Any:
        tf = self.module()
        change = tf.cast if "bool" in (dtype, self.dtype(x)) else tf.bitcast
        return change(x, tf.as_dtype(dtype))

    def export(self, x: Any) -> Any:
        self.synchronize(0)
        return _Exported(self.module().experimental.dlpack.to_dlpack(x), self.index(x))

    def take(self, exported: Any, index: Index) -> Any:
        return self.module().experimental.dlpack.from_dlpack(exported.__dlpack__())

    def gpus(self) -> int:
        return len(self.module().config.list_logical_devices("GPU"))

    def using(self, index: int) -> ContextManager[Any]:
        return self.module().device("GPU:%d" % index)

    def synchronize(self, index: int) -> None:
        testing = getattr(self.module().test, "experimental", None)
        getattr(testing, "sync_devices", lambda: None)()


class Pyclesperanto(Library):
    """Keeps its arrays in OpenCL or CUDA buffers of its own, on the device that
    it has selected; everything goes through host memory. Of a device it tells
    only the name, and its OpenCL backend counts in its own way: where two have the
    same name, which is which cannot be known there, and is not claimed. Its CUDA
    backend counts as the driver does (by its source; not tried on two GPUs)."""

    name, packages, exchanges = "pyclesperanto", ("pyclesperanto",), False

    def __init__(self) -> None:
        self._selected: Dict[int, Any] = {}  # its devices, by the number of the GPU

    def index(self, x: Any) -> Index:
        seen = visible_names()
        if len(seen) < 2:
            return 0
        for index, device in self._selected.items():
            if device is x.device and self._counts_like_cuda():
                return index
        return self._only(seen, str(x.device.name))

    def pointer(self, x: Any) -> int:
        raise TypeError("pyclesperanto does not say where its arrays are")

    def to_host(self, x: Any) -> Any:
        return self.module().pull(x)

    def from_host(self, a: Any, index: Index) -> Any:
        if index is None:
            raise TypeError("pyclesperanto has no arrays in host memory: use numpy there")
        return self.module().push(a, device=self._select(index))

    def gpus(self) -> int:
        names = self._names()
        return max(len(names), len(visible_names())) if names else 0

    def using(self, index: int) -> ContextManager[Any]:
        self._select(index)
        return contextlib.nullcontext()

    def _select(self, index: int) -> Any:
        """Its device for a GPU of this process, which is the current one then."""
        names, seen = self._names(), visible_names()
        position = 0
        if self._counts_like_cuda() and names == seen and index < len(seen):
            position = index
        elif len(names) > 1 or len(seen) > 1:
            name = seen[index] if index < len(seen) else "number %d" % index
            self._only(seen, name)
            position = self._only(names, name)
        device = self._selected[index] = self.module().select_device(position, "gpu")
        return device

    def _counts_like_cuda(self) -> bool:
        """Whether its backend is that of CUDA, which lists the devices of the driver in
        their order."""
        try:
            return "cuda" in str(self.module()._core.BackendManager.get_backend()).lower()
        except AttributeError:
            return False  # a version that does not say it

    def _names(self) -> List[str]:
        return [str(name) for name in self.module().list_available_devices("gpu")]

    @staticmethod
    def _only(names: List[str], name: str) -> int:
        if names.count(name) != 1:
            raise TypeError(
                "pyclesperanto gives only the names of GPUs, and which of them is %s cannot be told (%s): let this "
                "process see one GPU only, with berth exec or lease(…, pin=True), or use pyclesperanto.select_backend(\"cuda\")" % (name, ", ".join(names) or "none")
            )
        return names.index(name)


class _Exported:
    """A capsule in the form that others take."""

    def __init__(self, capsule: Any, index: Index):
        self._capsule, self._index = capsule, index

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (1, 0) if self._index is None else (2, self._index)


def capsule_pointer(capsule: Any) -> int:
    """Where the data of a DLPack capsule begins."""
    import ctypes

    class Tensor(ctypes.Structure):  # the beginning and the end of DLTensor
        _fields_ = [
            ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
            ("dtype", ctypes.c_uint8 * 4), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
            ("byte_offset", ctypes.c_uint64),
        ]  # fmt: skip

    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = Tensor.from_address(pointer_of(capsule, b"dltensor"))
    return int((tensor.data or 0) + tensor.byte_offset)


NUMPY = Numpy()
LIBRARIES: Dict[str, Library] = {
    library.name: library for library in (NUMPY, Cupy(), Torch(), Tensorflow(), Jax(), Pyclesperanto())
}


def library_of(x: Any) -> Library:
    """The library that made an array: that of its class, or of the nearest
    class above it."""
    for above in type(x).__mro__:
        package = above.__module__.partition(".")[0]
        for library in LIBRARIES.values():
            if package in library.packages:
                return library
    raise TypeError(
        "%s.%s is not an array of %s: make one first, for example with numpy.asarray"
        % (type(x).__module__, type(x).__qualname__, ", ".join(LIBRARIES))
    )
