"""How answers look: one line in a terminal, a table in a notebook."""

import unittest

import berth
from berth import answers, showing

from .daemon import DaemonCase


class Showing(DaemonCase):
    devices = "sim:2"

    def test_lines_are_short(self):
        berth.allocate("shown", "4GiB", service="assistant")
        self.addCleanup(berth.deallocate, "shown")
        lines = {
            "status": (repr(berth.status()), "<Status: GPU 0, name NVIDIA H200 (simulated), state OPTIMAL"),
            "device": (repr(berth.devices()[1]), "<Device: GPU 1, name NVIDIA H200 (simulated), memory 140 GiB"),
            "lease": (repr(berth.find_lease("shown")), "<Allocation: id shown, user "),
            "all": (repr(berth.status_all()), "StatusAll(host="),
            "config": (repr(berth.config.get()), "GPUConfig("),
        }
        for what, (line, begins) in lines.items():
            self.assertTrue(line.startswith(begins), "%s: %s" % (what, line))
            self.assertLess(len(line), 260, what)
            self.assertNotIn("\n", line)

    def test_short_lists_are_shown(self):
        self.assertIn("also=['throttle', 'critical']", repr(answers.Event(id=1, code="state_change", also=["throttle", "critical"])))
        self.assertIn("also=list of 5", repr(answers.Event(id=1, also=["throttle"] * 5)))

    def test_tables(self):
        berth.allocate("shown", "4GiB")
        self.addCleanup(berth.deallocate, "shown")
        for what, found, words in (
            ("status", berth.status(), ["<th>state</th>", "OPTIMAL", "140 GiB"]),
            ("all", berth.status_all(), ["<td>0</td>", "<td>1</td>"]),
            ("devices", berth.devices(), ["SIM-h200-0", "SIM-h200-1"]),
            ("leases", berth.leases(), ["shown", "4 GiB", "its process"]),
            ("jobs", berth.jobs(), ["none"]),
        ):
            page = found._repr_html_()
            for word in words:
                self.assertIn(word, page, what)
        self.assertIsInstance(berth.devices(), list)
        self.assertIsNone(berth.config.get()._repr_html_())

    def test_what_others_wrote_is_text(self):
        page = answers.Job(id="<script>alert(1)</script>", cause="a & b")._repr_html_()
        self.assertIn("&lt;script&gt;", page)
        self.assertIn("a &amp; b", page)
        self.assertNotIn("<script>", page)

    def test_answers_of_other_versions(self):
        odd = answers.Status.read({"device": 3, "slots": None, "sample": "x"})
        self.assertIn("–", repr(odd))
        self.assertIn("–", odd._repr_html_())


class Amounts(unittest.TestCase):
    def test_amounts(self):
        for mb, want in ((512, "512 MiB"), (4096, "4 GiB"), (143771, "140 GiB"), (1300 * 1024, "1300 GiB"), (None, "–")):
            self.assertEqual(showing.amount(mb), want)
