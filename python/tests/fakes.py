"""Small stand-ins for array libraries, as far as the package uses them, for
machines that have none. Memory is a list with an address; whoever shares the
list shares the memory. What a library cannot do is set per library."""

from __future__ import annotations

import contextlib
import itertools
import sys
import types
from unittest import mock

_addresses = itertools.count(0x1000, 0x1000)
_SIZES = {"bool": 1, "uint8": 1, "int16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "object": 8, "uint16": 2}


class Memory:
    def __init__(self, values):
        self.values, self.address = list(values), next(_addresses)


class Dtype:
    """A type as NumPy describes it."""

    names = None
    isnative = True

    def __init__(self, name):
        self.name = name
        self.kind = "O" if name == "object" else name[0]

    def newbyteorder(self, _):
        return Dtype(self.name)

    def __str__(self):
        return self.name


class Array:
    """What all have in common."""

    library: types.ModuleType

    def __init__(self, memory, dtype="float32", index=None, ordered=True, writeable=True):
        self.memory, self.kind, self.where, self.ordered = memory, dtype, index, ordered
        self.flags = types.SimpleNamespace(c_contiguous=ordered, writeable=writeable)
        self.dtype, self.size = Dtype(dtype), len(memory.values)
        self.device = types.SimpleNamespace(id=index)

    def like(self, **changes):
        now = {"memory": self.memory, "dtype": self.kind, "index": self.where, "ordered": self.ordered}
        return type(self)(**{**now, **changes})

    def copy(self):
        return self.like(memory=Memory(self.memory.values), ordered=True)

    def view(self, dtype):
        name = getattr(dtype, "name", str(dtype)).rpartition(".")[2]
        assert _SIZES[name] == _SIZES[self.kind], "a view of another size"
        return self.like(dtype=name)

    def __dlpack__(self, **_):
        if self.kind in self.library.cannot_give:
            raise BufferError("%s does not export %s" % (self.library.__name__, self.kind))
        return self

    def __dlpack_device__(self):
        return (2, self.where)


def _class(module, **methods):
    made = type("ndarray", (Array,), dict(methods, library=module, __module__=module.__name__))
    module.made = made
    return made


def _module(name, gpus):
    module = types.ModuleType(name)
    module.__spec__ = None
    module.__version__ = "1.0"
    module.cannot_give, module.cannot_take, module.in_order_only, module.gpus = set(), set(), False, gpus
    return module


def _take(module, exported, **where):
    capsule = exported.__dlpack__()
    if capsule.kind in module.cannot_take:
        raise RuntimeError("%s does not take %s" % (module.__name__, capsule.kind))
    if module.in_order_only and not capsule.ordered:
        raise ValueError("only arrays in order")
    return module.made(capsule.memory, capsule.kind, capsule.where, capsule.ordered)


def numpy():
    module = _module("numpy", 0)
    address = property(lambda self: {"data": (self.memory.address, False)})
    _class(module, __array_interface__=address)
    module.dtype = lambda name: Dtype(str(name))
    module.asarray = lambda x: x
    module.array = lambda x: module.made(Memory(x.memory.values), x.kind)
    return module


def cupy(gpus=2):
    module = _module("cupy", gpus)
    _class(module, data=property(lambda self: types.SimpleNamespace(ptr=self.memory.address)))
    here = [0]

    class Device:
        def __init__(self, index):
            self.index = index

        def __enter__(self):
            self.before, here[0] = here[0], self.index

        def __exit__(self, *_):
            here[0] = self.before

        def synchronize(self):
            pass

    module.cuda = types.SimpleNamespace(
        Device=Device, runtime=types.SimpleNamespace(getDeviceCount=lambda: module.gpus)
    )
    module.asarray = lambda a: module.made(Memory(a.memory.values), a.kind, here[0])
    module.array = module.asarray
    module.asnumpy = lambda x: sys.modules["numpy"].made(Memory(x.memory.values), x.kind)
    module.from_dlpack = lambda x: _take(module, x)
    return module


class _TorchDtype:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return "torch." + self.name


def torch(gpus=2):
    module = _module("torch", gpus)
    module.strided = "strided"
    for name in _SIZES:
        setattr(module, name, _TorchDtype(name))
    same = lambda self: self  # noqa: E731

    class Tensor(Array):
        library, layout = module, "strided"
        detach = resolve_conj = resolve_neg = same

        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.dtype = _TorchDtype(self.kind)
            self.device = types.SimpleNamespace(type="cpu" if self.where is None else "cuda", index=self.where)

        def numel(self):
            return self.size

        def element_size(self):
            return _SIZES[self.kind]

        def data_ptr(self):
            return self.memory.address

        def cpu(self):
            return self if self.where is None else self.like(memory=Memory(self.memory.values), index=None)

        def numpy(self):
            return sys.modules["numpy"].made(self.memory, self.kind)

        def contiguous(self):
            return self if self.ordered else self.copy()

        def to(self, device):
            index = None if device == "cpu" else int(device.partition(":")[2])
            return self if index == self.where else self.like(memory=Memory(self.memory.values), index=index)

    Tensor.__module__ = "torch"
    module.made = Tensor
    module.from_numpy = lambda a: Tensor(a.memory, a.kind)
    module.from_dlpack = lambda x: _take(module, x)
    module.cuda = types.SimpleNamespace(
        is_available=lambda: module.gpus > 0, device_count=lambda: module.gpus, device=contextlib.nullcontext
    )
    return module


def jax(gpus=2, x64=False):
    module = _module("jax", gpus)
    cpu = types.SimpleNamespace(platform="cpu", id=0)
    devices = [types.SimpleNamespace(platform="gpu", id=i, local_hardware_id=i) for i in range(gpus)]

    class ArrayImpl(Array):
        library = module

        def devices(self):
            return [cpu if self.where is None else devices[self.where]]  # of jax it is a set

        def addressable_data(self, _):
            return self

        block_until_ready = lambda self: self  # noqa: E731

        def unsafe_buffer_pointer(self):
            return self.memory.address

        def astype(self, dtype):
            return self.like(memory=Memory(self.memory.values), dtype=dtype)

        def view(self, dtype):
            return super().view(dtype).astype(dtype.name)  # an operation, and so a copy

    ArrayImpl.__module__ = "jaxlib.xla"
    module.made = ArrayImpl
    module.local_devices = lambda backend=None: [cpu] if backend == "cpu" or not devices else devices

    def device_put(a, device):
        narrow = a.kind if x64 else a.kind.replace("float64", "float32")
        return ArrayImpl(Memory(a.memory.values), narrow, None if device is cpu else device.id)

    module.device_put = device_put
    module.default_device = contextlib.nullcontext
    module.in_order_only = True
    dlpack = types.ModuleType("jax.dlpack")
    dlpack.from_dlpack = lambda x: _take(module, x)
    return module, dlpack


def tensorflow(gpus=2):
    module = _module("tensorflow", gpus)
    here = ["CPU:0"]

    class EagerTensor(Array):
        library = module

        @property
        def shape(self):
            return types.SimpleNamespace(num_elements=lambda: len(self.memory.values))

        def numpy(self):
            return sys.modules["numpy"].made(self.memory, self.kind)

    EagerTensor.device = property(
        lambda self: "/job:localhost/device:" + ("CPU:0" if self.where is None else "GPU:%d" % self.where),
        lambda self, _: None,
    )
    EagerTensor.__module__ = "tensorflow.python.framework.ops"
    module.made = EagerTensor

    @contextlib.contextmanager
    def device(name):
        before, here[0] = here[0], name
        yield
        here[0] = before

    def index():
        kind, _, number = here[0].partition(":")
        return None if kind == "CPU" else int(number)

    def changed(x, dtype):
        return EagerTensor(Memory(x.memory.values), dtype, x.where)

    module.device = device
    module.convert_to_tensor = lambda x: x
    module.constant = lambda a: EagerTensor(Memory(a.memory.values), a.kind, index())
    module.identity = lambda x: EagerTensor(Memory(x.memory.values), x.kind, index())
    module.as_dtype = str
    module.cast = module.bitcast = changed
    module.config = types.SimpleNamespace(list_logical_devices=lambda _: list(range(module.gpus)))
    module.test = types.SimpleNamespace()
    module.experimental = types.SimpleNamespace(
        dlpack=types.SimpleNamespace(
            to_dlpack=Array.__dlpack__,
            from_dlpack=lambda capsule: _take(module, types.SimpleNamespace(__dlpack__=lambda: capsule)),
        )
    )
    return module


def pyclesperanto():
    module = _module("pyclesperanto", 1)
    _class(module)
    module.names, module.selected = ["a GPU"], 0

    def push(a, device):
        pushed = module.made(Memory(a.memory.values), a.kind.replace("float64", "float32"), module.selected)
        pushed.device = device
        return pushed

    def select_device(position, kind):
        module.selected = position
        return types.SimpleNamespace(name=module.names[position])

    module.push, module.select_device = push, select_device
    module.pull = lambda x: sys.modules["numpy"].made(Memory(x.memory.values), x.kind)
    module.list_available_devices = lambda kind: module.names
    return module


@contextlib.contextmanager
def installed(*modules):
    """These libraries and no others."""
    named = {module.__name__: module for module in modules}
    everything = {name: None for name in ("numpy", "cupy", "torch", "jax", "tensorflow", "pyclesperanto", "ml_dtypes")}
    with mock.patch.dict(sys.modules, {**everything, **named}):
        yield
