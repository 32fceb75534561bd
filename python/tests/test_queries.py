"""Questions about the past: what is asked, and how answers are read."""

import datetime
import math
import unittest

import berth
from berth import calls
from berth.client import refusal


def ask(call, answer):
    """Plays the daemon: returns what a call asks, and what it makes of an answer."""
    request = next(call)
    try:
        call.send(answer)
    except StopIteration as done:
        return request, done.value
    raise AssertionError("it asks again")


class Asking(unittest.TestCase):
    def test_now(self):
        request, _ = ask(calls.query("up"), {})
        self.assertEqual((request.method, request.path, request.query), ("GET", "/api/v1/query", {"query": "up"}))

    def test_a_moment(self):
        moment = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.timezone.utc)
        for at in (moment, 1700000000.0):
            request, _ = ask(calls.query("up", at=at), {})
            self.assertEqual(request.query, {"query": "up", "time": 1700000000.0})

    def test_a_range(self):
        moment = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.timezone.utc)
        for since in (600, moment - datetime.timedelta(minutes=10)):
            request, _ = ask(calls.query_range("up", since=since, until=moment, step=15), {})
            wanted = {"query": "up", "start": "1699999400.000", "end": "1700000000.000", "step": "15.000"}
            self.assertEqual((request.path, request.query), ("/api/v1/query_range", wanted))

    def test_the_step_follows_from_the_range(self):
        for since, step in ((3600, "30.000"), (10, "1.000"), (86400 * 7, "5040.000")):
            request, _ = ask(calls.query_range("up", since=since), {})
            self.assertEqual(request.query["step"], step)


class Reading(unittest.TestCase):
    def test_a_vector(self):
        result = [{"metric": {"gpu": "a"}, "value": [1700000000.5, "1.5"]}, {"metric": {}, "value": [1, "+Inf"]}]
        document = {"status": "success", "data": {"resultType": "vector", "result": result}, "warnings": ["cut"]}
        _, answer = ask(calls.query("up"), document)
        self.assertEqual((answer.type, answer.warnings, answer.infos), ("vector", ["cut"], []))
        self.assertEqual([s.labels for s in answer.series], [{"gpu": "a"}, {}])
        self.assertEqual([s.value for s in answer.series], [1.5, math.inf])
        self.assertEqual(answer.series[0].times, [1700000000.5])
        self.assertIs(answer.document, document)

    def test_a_matrix(self):
        result = [{"metric": {"gpu": "a"}, "values": [[1, "1"], [2, "NaN"], [3, "-2e-07"]]}]
        _, answer = ask(calls.query_range("up"), {"data": {"resultType": "matrix", "result": result}})
        (one,) = answer.series
        self.assertEqual((one.times, one.values[0], one.value), ([1.0, 2.0, 3.0], 1.0, -2e-07))
        self.assertTrue(math.isnan(one.values[1]))

    def test_others(self):
        _, answer = ask(calls.query("1"), {"data": {"resultType": "scalar", "result": [1, "2"]}})
        self.assertEqual((answer.type, answer.value, answer.series), ("scalar", 2.0, []))
        _, answer = ask(calls.query("a"), {"data": {"resultType": "string", "result": [1, "<b>"]}})
        self.assertEqual((answer.type, answer.text), ("string", "<b>"))
        _, answer = ask(calls.query("a"), {"data": {"resultType": "vector", "result": []}})
        self.assertEqual(answer.series, [])

    def test_refusals(self):
        told = refusal(400, "Bad Request", "application/json", b'{"status":"error","errorType":"bad_data","error":"no"}')
        self.assertIsInstance(told, berth.Problem)
        self.assertEqual((told.status, told.code, told.detail), (400, "bad_data", "no"))
        off = b'{"status":"error","errorType":"not_found","error":"off","code":"past_off"}'
        self.assertEqual(refusal(404, "Not Found", "application/json", off).code, "past_off")
        for strange in (b"{}", b"[]", b"x", b'{"status":"error"}'):
            self.assertNotIsInstance(refusal(404, "Not Found", "application/json", strange), berth.Problem)


if __name__ == "__main__":
    unittest.main()
