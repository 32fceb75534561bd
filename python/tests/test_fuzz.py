"""A few damaged answers, always the same ones; see fuzz.py for more."""

import unittest

from . import fuzz


class Damage(unittest.TestCase):
    def test_answers_and_streams(self):
        answered = fuzz.run(400, seed=1)
        self.assertTrue(20 < answered < 380, answered)  # both kinds of ends were seen
