"""Conversions between the libraries that are really there, in host memory and,
where there is a GPU, on it. test/bench/gpu/conversions.py does the same at length."""

import importlib.util
import itertools
import unittest

import berth
from berth.libraries import LIBRARIES

from . import mapjobs
from .daemon import DaemonCase

TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128")
HERE = [name for name in ("numpy", "torch", "jax", "cupy") if importlib.util.find_spec(name)]
ON_HOST = [name for name in HERE if LIBRARIES[name].on_host]


def need(*names):
    missing = [name for name in names if name not in HERE]
    return unittest.skipIf(missing, "not installed: " + ", ".join(missing))


def arrays(numpy, dtype):
    """Every shape that is trouble for somebody."""
    numbers = numpy.arange(24).reshape(4, 6).astype(dtype)
    if numpy.dtype(dtype).kind == "c":
        numbers = numbers + 1j * numbers
    numbers = numbers.astype(dtype)
    fixed = numbers.copy()
    fixed.flags.writeable = False
    return {
        "plain": numbers, "transposed": numbers.T, "sliced": numbers[::2, 1:4], "backwards": numbers[::-1],
        "fortran": numpy.asfortranarray(numbers), "0-d": numbers[1, 2].reshape(()), "empty": numbers[:0],
        "read-only": fixed, "other byte order": numbers.astype(numbers.dtype.newbyteorder()),
    }  # fmt: skip


@need("numpy")
class Mapping(DaemonCase):
    """Arrays go to the workers of a map as arrays, and come back as such."""

    def test_records_and_outcomes(self):
        import numpy

        records = [numpy.arange(6, dtype="float32").reshape(2, 3) + n for n in range(5)]
        found = berth.map(mapjobs.array_twice, records, each=True, gpus=1, progress=False)
        for record, outcome in zip(records, found):
            self.assertEqual(outcome["kind"], "ndarray")
            self.assertEqual((outcome["twice"].dtype, outcome["twice"].shape), (record.dtype, record.shape))
            numpy.testing.assert_array_equal(outcome["twice"], record * 2)
            outcome["twice"][0, 0] = 1  # it is the caller's own

    def test_every_type_and_shape(self):
        import numpy
        from berth import maparrays

        for dtype in TYPES:
            for what, array in arrays(numpy, dtype).items():
                back = maparrays.loads(maparrays.encode([array]).encode() if array.ndim else b"[0]")[0]
                if array.ndim:
                    self.assertEqual((back.dtype, back.shape), (array.dtype, array.shape), what)
                    numpy.testing.assert_array_equal(back, array)

    def test_what_is_no_array(self):
        import numpy
        from berth import maparrays

        self.assertEqual(maparrays.loads(maparrays.encode([numpy.float32(0.5), numpy.int64(3)]).encode()), [0.5, 3])
        self.assertEqual(maparrays.loads(maparrays.encode(numpy.array(["a", None], dtype=object)).encode()), ["a", None])
        for mine in ({maparrays.MARK: 1}, {maparrays.MARK: ["f4", [9], "AAAA"]}, {maparrays.MARK: [], "x": 1}, {maparrays.MARK: ["f4", [1], "?"]}):
            self.assertEqual(maparrays.loads(maparrays.encode([mine]).encode()), [mine])


@need("numpy")
class InHostMemory(unittest.TestCase):
    def assertSame(self, numpy, a, b):
        self.assertEqual((a.dtype.name, a.shape), (b.dtype.name, b.shape))
        numpy.testing.assert_array_equal(a, b)

    def test_there_and_back_again(self):
        import numpy

        others = [name for name in ON_HOST if name != "numpy"]
        if not others:
            self.skipTest("not installed: torch, jax")
        for name, dtype in itertools.product(others, TYPES):
            for what, a in arrays(numpy, dtype).items():
                with self.subTest(library=name, dtype=dtype, array=what):
                    if name == "jax" and dtype in ("int64", "float64", "complex128"):
                        with self.assertRaisesRegex(TypeError, "JAX_ENABLE_X64"):
                            berth.convert(a, to=name, device="cpu")
                        continue
                    there = berth.convert(a, to=name, device="cpu")
                    self.assertEqual(berth.memory_type(there), name)
                    self.assertEqual(LIBRARIES[name].dtype(there), dtype)
                    back = berth.convert(there, to="numpy")
                    self.assertSame(numpy, a, back)
                    self.assertTrue(back.flags.writeable)

    def test_the_pointer_in_a_capsule(self):
        import numpy

        from berth.libraries import capsule_pointer

        a = numpy.arange(10.0)[3:]
        self.assertEqual(capsule_pointer(a.__dlpack__()), berth.pointer(a))

    def test_a_scalar_is_an_array(self):
        import numpy

        self.assertEqual(berth.memory_type(numpy.float32(3)), "numpy")

    def test_a_mask_is_not_lost_in_silence(self):
        import numpy

        masked = numpy.ma.masked_array([1, 2], mask=[True, False])
        for name in (n for n in ON_HOST if n != "numpy"):
            with self.assertRaisesRegex(TypeError, "filled"):
                berth.convert(masked, to=name, device="cpu")

    def test_texts_are_refused(self):
        import numpy

        for name in (n for n in ON_HOST if n != "numpy"):
            with self.assertRaisesRegex(TypeError, "is not numbers"):
                berth.convert(numpy.array(["a"]), to=name, device="cpu")


@need("numpy", "torch")
class Torch(unittest.TestCase):
    def test_memory_is_shared_with_numpy(self):
        import numpy

        a = numpy.arange(4.0)
        done = berth.conversion(a, to="torch", device="cpu")
        self.assertEqual((done.cost, berth.pointer(done.value)), ("zero_copy", berth.pointer(a)))
        done.value[0] = 7
        self.assertEqual(a[0], 7)

    def test_what_belongs_to_torch_alone_is_left_behind(self):
        import torch

        x = torch.ones(3, requires_grad=True)
        self.assertEqual(berth.convert(x, to="numpy").tolist(), [1, 1, 1])
        y = torch.tensor([1 + 2j]).conj()
        self.assertEqual(berth.convert(y, to="numpy").tolist(), [1 - 2j])
        self.assertIs(berth.convert(x, to="torch", device="cpu"), x)
        with self.assertRaisesRegex(TypeError, "to_dense"):
            berth.convert(torch.eye(2).to_sparse(), to="numpy")

    def test_a_subclass_is_a_tensor(self):
        import torch

        self.assertEqual(berth.memory_type(torch.nn.Parameter(torch.ones(1))), "torch")

    def test_bfloat16(self):
        import torch

        x = torch.tensor([1.5, -2.0]).to(torch.bfloat16)
        if importlib.util.find_spec("ml_dtypes") is None:
            with self.assertRaisesRegex(TypeError, "install the package ml_dtypes"):
                berth.convert(x, to="numpy")
            return
        a = berth.convert(x, to="numpy")
        self.assertEqual((a.dtype.name, a.astype("float32").tolist()), ("bfloat16", [1.5, -2.0]))
        self.assertTrue(torch.equal(berth.convert(a, to="torch", device="cpu"), x))

    def test_no_gpu_no_silence(self):
        import numpy
        import torch

        if torch.cuda.is_available():
            self.skipTest("there is a GPU")
        with self.assertRaisesRegex(RuntimeError, 'device="cpu"'):
            berth.convert(numpy.ones(1), to="torch")


@need("numpy", "torch", "cupy")
class OnTheGPU(unittest.TestCase):
    def test_zero_copy(self):
        import torch

        if not torch.cuda.is_available():
            self.skipTest("there is no GPU")
        x = torch.arange(6, device="cuda")
        done = berth.conversion(x, to="cupy")
        self.assertEqual((done.cost, berth.pointer(done.value)), ("zero_copy", x.data_ptr()))
