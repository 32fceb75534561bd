"""The reference page says what the package has."""

import sys
import unittest

import berth

from .test_package import ROOT

sys.path.insert(0, str(ROOT))
import reference  # noqa: E402

sys.path.remove(str(ROOT))


class Page(unittest.TestCase):
    def test_it_is_up_to_date(self):
        written = reference.PAGE.read_text(encoding="utf-8")
        self.assertTrue(reference.page(berth) == written, "docs/reference/python-reference.md is out of date: run make docs")

    def test_everything_is_described(self):
        for name in berth.__all__:
            thing = getattr(berth, name)
            if callable(thing):
                self.assertTrue(thing.__doc__, "berth.%s has no docstring" % name)
