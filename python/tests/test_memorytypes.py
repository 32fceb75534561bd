import unittest
import warnings

import berth
from berth.memorytypes import asked, mib


class Declaring(unittest.TestCase):
    def test_a_function_is_declared_and_stays_as_it_is(self):
        def segment(image):
            return image + 1

        declared = berth.memory(input="torch", output="cupy", memory_mb="2GiB", libraries=["skimage"])(segment)
        self.assertIs(declared, segment)
        self.assertEqual(segment(1), 2)
        self.assertEqual(segment.__berth__, berth.Declaration("torch", "cupy", 2048, None, ("skimage",)))

    def test_it_gives_what_it_takes(self):
        @berth.memory("jax", libraries="cucim.skimage")
        def f(x):
            return x

        self.assertEqual((f.__berth__.output, f.__berth__.libraries), ("jax", ("cucim.skimage",)))

    def test_wrong_words(self):
        for make, error, text in (
            (lambda: berth.memory(input="trch"), ValueError, "input: 'trch' is not a memory type; did you mean torch?"),
            (lambda: berth.memory("torch", output="TensorFlow"), ValueError, "output: .*did you mean tensorflow?"),
            (lambda: berth.memory("gpu"), ValueError, "did you mean cupy?"),
            (lambda: berth.memory("something else"), ValueError, "there are: numpy, cupy, torch, tensorflow, jax,"),
            (lambda: berth.memory(7), TypeError, "a memory type is a word"),
            (lambda: berth.memory(print), TypeError, "say what the function takes"),
            (lambda: berth.memory("torch", memory_mb="much"), ValueError, "write it like 4GiB"),
            (lambda: berth.memory("torch", libraries=["scikit-image"]), ValueError, "the name that comes after import"),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                make()


class Amounts(unittest.TestCase):
    def test_numbers_that_were_probably_meant_as_gib(self):
        for amount in (4, "4", 63):
            with self.assertRaisesRegex(ValueError, 'memory %s has no unit: write "%sGiB" or "%sMiB"' % (amount, amount, amount)):
                asked(amount)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual([asked(a) for a in (0, 64, 4096, "4MiB", "4GiB")], [0, 64, 4096, 4, 4096])

    def test_warnings_name_the_line_of_the_caller(self):
        nobody = berth.Client("/nonexistent/socket")

        def with_lease():
            with berth.lease("4GB", client=nobody):
                pass

        for call in (
            lambda: mib("1GB"), lambda: berth.allocate("a", "1GB", client=nobody),
            lambda: berth.lease("1GB", client=nobody).acquire(), with_lease, lambda: berth.memory("torch", memory_mb="1GB"),
        ):  # fmt: skip
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                try:
                    call()
                except berth.NoDaemon:
                    pass
            self.assertEqual([one.filename for one in told], [__file__])

    def test_readable(self):
        for text, want in (
            ("4GiB", 4096), ("512M", 512), ("1.5g", 1536), (2048, 2048), ("2048", 2048), (" 1 TiB ", 1 << 20),
            ("2048k", 2), (0, 0), (8.0, 8),
        ):  # fmt: skip
            self.assertEqual(mib(text), want, text)
        with self.assertWarnsRegex(UserWarning, "1GB is taken as 1GiB"):
            self.assertEqual(mib("1GB"), 1024)

    def test_not_readable(self):
        nothing = (float("nan"), None, True, [])
        for text in ("", "GiB", "1e9", "4 GiBs", "-1", -1, "0.5", 0.5, "9999999T", "1..5G") + nothing:
            with self.subTest(text), self.assertRaises(ValueError):
                mib(text)
