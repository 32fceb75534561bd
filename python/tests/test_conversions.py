"""The ways between libraries, on stand-ins for them: which one is taken, and
that what is said about it is true."""

import types
import unittest
from unittest import mock

import berth

from . import fakes


class Ways(unittest.TestCase):
    def setUp(self):
        self.numpy, self.cupy, self.torch = fakes.numpy(), fakes.cupy(), fakes.torch()
        world = fakes.installed(self.numpy, self.cupy, self.torch)
        world.__enter__()
        self.addCleanup(world.__exit__, None, None, None)

    def on_cupy(self, dtype="float32", index=0, **options):
        return self.cupy.made(fakes.Memory([1, 2, 3]), dtype, index, **options)

    def assertConversion(self, done, cost, device="gpu:0"):
        self.assertEqual((done.cost, done.device), (cost, device), done)

    def test_same_type_is_the_same_array(self):
        x = self.on_cupy()
        done = berth.conversion(x, to="cupy")
        self.assertIs(done.value, x)
        self.assertConversion(done, "none")

    def test_zero_copy_on_one_device(self):
        x = self.on_cupy(index=1)
        done = berth.conversion(x, to="torch")
        self.assertConversion(done, "zero_copy", "gpu:1")
        self.assertEqual(berth.pointer(done.value), berth.pointer(x))
        self.assertEqual(berth.memory_type(done.value), "torch")
        self.assertEqual(str(done), "cupy → torch on gpu:1: zero copy")

    def test_a_secret_copy_is_not_called_zero_copy(self):
        self.torch.from_dlpack = lambda x: fakes._take(self.torch, x).like(memory=fakes.Memory([1, 2, 3]))
        self.assertConversion(berth.conversion(self.on_cupy(), to="torch"), "device_copy")

    def test_bool_that_is_not_exchanged_travels_as_bytes(self):
        for refusing in (self.cupy.cannot_give, self.torch.cannot_take):
            refusing.add("bool")
            x = self.on_cupy("bool")
            done = berth.conversion(x, to="torch")
            self.assertConversion(done, "zero_copy")
            self.assertEqual(done.value.kind, "bool")
            refusing.clear()

    def test_strides_that_are_not_taken_are_put_in_order(self):
        self.torch.in_order_only = True
        done = berth.conversion(self.on_cupy(ordered=False), to="torch")
        self.assertConversion(done, "device_copy")
        self.assertIn("only arrays in order", done.why)

    def test_what_cannot_be_shared_goes_through_the_host(self):
        self.torch.cannot_take.add("float32")
        done = berth.conversion(self.on_cupy(), to="torch")
        self.assertConversion(done, "host_copy")
        self.assertIn("torch does not take float32", done.why)
        self.assertEqual(done.value.memory.values, [1, 2, 3])

    def test_to_another_gpu(self):
        done = berth.conversion(self.on_cupy(index=0), to="torch", device="cuda:1")
        self.assertConversion(done, "device_copy", "gpu:1")
        self.assertEqual((done.value.where, done.why), (1, "it was on gpu:0"))
        done = berth.conversion(self.on_cupy(index=0), to="cupy", device=1)
        self.assertConversion(done, "device_copy", "gpu:1")

    def test_from_and_to_the_host(self):
        a = self.numpy.made(fakes.Memory([1, 2]))
        done = berth.conversion(a, to="cupy", device=1)
        self.assertConversion(done, "host_copy", "gpu:1")
        back = berth.conversion(done.value, to="numpy")
        self.assertConversion(back, "host_copy", "cpu")
        self.assertEqual(back.value.memory.values, [1, 2])

    def test_arrays_in_host_memory_are_shared(self):
        a = self.numpy.made(fakes.Memory([1, 2]))
        done = berth.conversion(a, to="torch", device="cpu")
        self.assertConversion(done, "zero_copy", "cpu")
        self.assertConversion(berth.conversion(done.value, to="numpy"), "zero_copy", "cpu")

    def test_read_only_is_copied_for_torch(self):
        a = self.numpy.made(fakes.Memory([1, 2]), writeable=False)
        self.assertConversion(berth.conversion(a, to="torch", device="cpu"), "host_copy", "cpu")

    def test_nothing_is_shared_of_an_empty_array(self):
        x = self.cupy.made(fakes.Memory([]), "float32", 0)
        done = berth.conversion(x, to="torch")
        self.assertConversion(done, "host_copy")
        self.assertEqual((done.value.numel(), done.value.where), (0, 0))

    def test_a_type_that_would_change_is_refused(self):
        self.torch.from_numpy = lambda a: self.torch.made(a.memory, "float32")
        a = self.numpy.made(fakes.Memory([1]), "float64")
        with self.assertRaisesRegex(TypeError, "torch has no float64 and would make float32 of it"):
            berth.convert(a, to="torch", device="cpu")

    def test_refusals_say_what_to_do(self):
        a = self.numpy.made(fakes.Memory([1]))
        words = self.numpy.made(fakes.Memory([1]), "object")
        for call, error, text in (
            (lambda: berth.convert(a, to="trch"), ValueError, "did you mean torch"),
            (lambda: berth.convert(a, to="cle"), ValueError, "did you mean pyclesperanto"),
            (lambda: berth.convert([1, 2], to="torch"), TypeError, "numpy.asarray"),
            (lambda: berth.convert(a, to="cupy", device="cpu"), TypeError, "use numpy there"),
            (lambda: berth.convert(a, to="torch", device=5), RuntimeError, "sees 2 GPUs in this process"),
            (lambda: berth.convert(a, to="torch", device=-1), RuntimeError, "number -1 is not one of them"),
            (lambda: berth.convert(a, to="torch", device=1.5), TypeError, "cuda:0"),
            (lambda: berth.convert(a, to="jax"), ImportError, "jax cannot be imported here"),
            (lambda: berth.convert(words, to="torch", device="cpu"), TypeError, "is not numbers"),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                call()

    def test_without_a_gpu_the_host_must_be_asked_for(self):
        self.torch.gpus = 0
        a = self.numpy.made(fakes.Memory([1]))
        with self.assertRaisesRegex(RuntimeError, 'sees no GPU in this process; .* device="cpu"'):
            berth.convert(a, to="torch")
        self.assertIsNone(berth.convert(a, to="torch", device="cpu").where)


class Others(unittest.TestCase):
    """jax, tensorflow and pyclesperanto, each in both directions with cupy and numpy."""

    def setUp(self):
        self.numpy, self.cupy = fakes.numpy(), fakes.cupy()

    def with_library(self, *modules):
        world = fakes.installed(self.numpy, self.cupy, *modules)
        world.__enter__()
        self.addCleanup(world.__exit__, None, None, None)

    def costs(self, name, dtype="float32", device=1):
        """Of numpy → it → cupy → it → numpy."""
        there = berth.conversion(self.numpy.made(fakes.Memory([1, 2]), dtype), to=name, device=device)
        over = berth.conversion(there.value, to="cupy")
        again = berth.conversion(over.value, to=name)
        back = berth.conversion(again.value, to="numpy")
        self.assertEqual((back.value.memory.values, back.value.kind), ([1, 2], dtype))
        self.assertEqual({c.device for c in (there, over, again)}, {there.device})
        return [c.cost for c in (there, over, again, back)]

    def test_jax(self):
        module, dlpack = fakes.jax()
        self.with_library(module, dlpack)
        self.assertEqual(self.costs("jax"), ["host_copy", "zero_copy", "zero_copy", "host_copy"])
        module.cannot_give.add("bool")
        self.assertEqual(self.costs("jax", "bool")[1], "device_copy")
        strided = self.cupy.made(fakes.Memory([1, 2]), "float32", 0, ordered=False)
        self.assertEqual(berth.conversion(strided, to="jax").cost, "device_copy")
        with self.assertRaisesRegex(TypeError, "jax would make float32 of float64: .*JAX_ENABLE_X64"):
            berth.convert(self.numpy.made(fakes.Memory([1]), "float64"), to="jax")
        with self.assertRaisesRegex(RuntimeError, "number 7 is not one of them"):
            berth.convert(self.numpy.made(fakes.Memory([1])), to="jax", device=7)
        on_host = berth.conversion(self.numpy.made(fakes.Memory([1])), to="jax", device="cpu")
        self.assertEqual((on_host.cost, on_host.value.where), ("host_copy", None))

    def test_tensorflow(self):
        self.with_library(fakes.tensorflow())
        with mock.patch("berth.libraries.capsule_pointer", lambda capsule: capsule.memory.address):
            self.assertEqual(self.costs("tensorflow"), ["host_copy", "zero_copy", "zero_copy", "host_copy"])
        graph = type("SymbolicTensor", (), {"__module__": "tensorflow.python"})()
        with self.assertRaisesRegex(TypeError, "only eager tensors"):
            berth.convert(graph, to="numpy")

    def test_pyclesperanto(self):
        self.with_library(fakes.pyclesperanto())
        self.assertEqual(self.costs("pyclesperanto", device=0), ["host_copy"] * 4)
        x = berth.convert(self.numpy.made(fakes.Memory([1])), to="pyclesperanto")
        with self.assertRaisesRegex(TypeError, "does not say where"):
            berth.pointer(x)
        with self.assertRaisesRegex(TypeError, "pyclesperanto has no float64"):
            berth.convert(self.numpy.made(fakes.Memory([1]), "float64"), to="pyclesperanto")

    def test_pyclesperanto_with_cuda_counts_as_the_driver_does(self):
        cle = fakes.pyclesperanto()
        self.with_library(cle)
        names, backend = ["H200", "H200"], ["CUDA backend"]
        cle.list_available_devices = lambda kind: names
        devices = [types.SimpleNamespace(name="H200") for _ in names]
        cle.select_device = lambda position, kind: devices[position]
        cle._core = types.SimpleNamespace(BackendManager=types.SimpleNamespace(get_backend=lambda: backend[0]))
        library = berth.libraries.Pyclesperanto()
        with mock.patch.object(berth.libraries, "visible_names", lambda: ["H200", "H200"]):
            self.assertIs(library._select(1), devices[1])
            self.assertIs(library._select(0), devices[0])
            self.assertEqual(library.index(types.SimpleNamespace(device=devices[1])), 1)
            backend[0] = "OpenCL backend"
            with self.assertRaisesRegex(TypeError, 'select_backend\\("cuda"\\)'):
                library._select(1)
            with self.assertRaises(TypeError):
                library.index(types.SimpleNamespace(device=devices[1]))

    def test_pyclesperanto_is_placed_by_name_or_not_at_all(self):
        cle = fakes.pyclesperanto()
        self.with_library(cle)
        a = self.numpy.made(fakes.Memory([1]))
        cle.names = ["NVIDIA L4", "an integrated one", "NVIDIA H200"]
        with mock.patch("berth.libraries.visible_names", return_value=["NVIDIA H200", "NVIDIA L4"]):
            for index, position in ((0, 2), (1, 0)):
                done = berth.conversion(a, to="pyclesperanto", device=index)
                self.assertEqual((done.value.where, done.device), (position, "gpu:%d" % index))
                self.assertEqual(berth.conversion(done.value, to="cupy").device, "gpu:%d" % index)
        cle.names = ["NVIDIA H200"] * 2
        with mock.patch("berth.libraries.visible_names", return_value=["NVIDIA H200"] * 2):
            with self.assertRaisesRegex(TypeError, "which of them is NVIDIA H200 cannot be told .* see one GPU only"):
                berth.conversion(a, to="pyclesperanto", device=1)
        cle.names = ["an integrated one", "another"]
        with self.assertRaisesRegex(TypeError, "which of them is number 0 cannot be told"):
            berth.conversion(a, to="pyclesperanto", device=0)
        cle.names = []
        with self.assertRaisesRegex(RuntimeError, "pyclesperanto sees no GPU"):
            berth.conversion(a, to="pyclesperanto", device=0)
