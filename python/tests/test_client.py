import asyncio
import os
import socket
import tempfile
import threading
import unittest
from unittest import mock

import berth
from berth import subscriptions
from berth.client import CALL_TIMEOUT, _listener, default_sockets

from . import PATIENCE
from .doors import Door, problem


class Calls(unittest.TestCase):
    def test_answers(self):
        with Door(lambda *_: (200, {"ok": True})) as door:
            client = berth.Client(socket=door.path)
            self.assertEqual(client.call("POST", "/api/x", {"a": 1}, query={"gpu": "a b"}), {"ok": True})
            method, path, body, headers = door.calls[0]
            self.assertEqual((method, path, body), ("POST", "/api/x?gpu=a+b", {"a": 1}))
            self.assertEqual(headers["Content-Type"], "application/json")
            self.assertNotIn("Authorization", headers)  # a socket is guarded by its permissions

    def test_a_token_that_is_replaced(self):
        with Door(lambda *_: (200, {})) as door, tempfile.NamedTemporaryFile("w") as file:
            file.write("first")
            file.flush()
            with mock.patch.dict(os.environ, {"BERTH_TOKEN_FILE": file.name}):
                client = berth.Client(socket=door.path)
                listener = subscriptions._listener(client)
            for text in "first", "second", "no token":
                with open(file.name, "w", encoding="ascii") as again:
                    again.write(text)
                client.call("GET", "/api/x")
                self.assertIs(subscriptions._listener(client), listener)
            shown = [headers["Authorization"] for *_, headers in door.calls]
        self.assertEqual(shown, ["Bearer first", "Bearer second", "Bearer second"])

    def test_no_content(self):
        with Door(lambda *_: (204, None)) as door:
            self.assertIsNone(berth.Client(socket=door.path).call("POST", "/api/x", {}))

    def test_problem(self):
        refusal = problem(
            422, "invalid_request", "Some of it is out of range.",
            fields=[{"field": "slots", "detail": "is -1"}], extra={"most": 8},
        )  # fmt: skip
        with Door(lambda *_: refusal) as door:
            with self.assertRaises(berth.Problem) as caught:
                berth.Client(socket=door.path).call("GET", "/api/x")
        p = caught.exception
        self.assertEqual((p.status, p.code, p.extra), (422, "invalid_request", {"most": 8}))
        self.assertEqual(p.fields, [("slots", "is -1")])
        self.assertEqual(str(p), "Some of it is out of range.\n  slots: is -1")

    def test_an_answer_that_breaks_off(self):
        with Door(lambda *_: 1 / 0) as door:
            with self.assertRaisesRegex(berth.Broken, "GET /api/x: the connection to the daemon broke"):
                berth.Client(socket=door.path).call("GET", "/api/x")

    def test_something_else_listens(self):
        def page(out):
            out.write(b"<html>")

        with Door(lambda *_: (404, page)) as door:
            with self.assertRaisesRegex(berth.BerthError, "is not from a berth daemon"):
                berth.Client(socket=door.path).call("GET", "/api/x")


class Connecting(unittest.TestCase):
    def test_a_network_that_drops_everything(self):
        """To connect takes no longer than the caller waits: a renewal tries again in time."""
        for timeout, limit in ((5.0, 5.0), (None, CALL_TIMEOUT), (3600.0, CALL_TIMEOUT)):
            with mock.patch("socket.create_connection", side_effect=TimeoutError) as connect:
                with self.assertRaises(berth.NoDaemon):
                    berth.Client(url="127.0.0.1:1").call("GET", "/api/x", timeout=timeout)
            self.assertEqual(connect.call_args[0][1], limit)


class Finding(unittest.TestCase):
    def environment(self, **variables):
        patch = mock.patch.dict(os.environ, variables, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def test_no_daemon_says_how_to_start_one(self):
        with tempfile.TemporaryDirectory() as folder:
            missing = os.path.join(folder, "berth.sock")
            with self.assertRaises(berth.NoDaemon) as caught:
                berth.Client(socket=missing).call("GET", "/healthz")
        self.assertEqual(
            str(caught.exception), "no daemon answers (%s: No such file or directory); start one: berth serve" % missing
        )
        self.assertIsInstance(caught.exception, ConnectionError)

    def test_no_daemon_over_tcp(self):
        with self.assertRaisesRegex(berth.NoDaemon, "127.0.0.1:1: .*check the address"):
            berth.Client(url="127.0.0.1:1").call("GET", "/healthz")

    def test_permission(self):
        self.environment()
        with mock.patch("socket.socket.connect", side_effect=PermissionError(13, "Permission denied")):
            with self.assertRaisesRegex(berth.NoDaemon, "your user may not open /s: join the group"):
                berth.Client(socket="/s").call("GET", "/healthz")

    def test_order(self):
        self.environment(BERTH_SOCKET="/env.sock", BERTH_URL="http://env")
        self.assertEqual(berth.Client().sockets, ["/env.sock"])
        self.assertFalse(berth.Client(url="http://given").local)
        self.assertEqual(berth.Client(socket="/given").sockets, ["/given"])
        self.environment(BERTH_URL="http://env")
        self.assertFalse(berth.Client().local)
        with self.assertRaises(ValueError):
            berth.Client(socket="/s", url="http://u")
        with self.assertRaisesRegex(ValueError, "write it like"):
            berth.Client(url="ftp://x")

    def test_default_sockets(self):
        machine = "/run/berth/berth.sock"
        for root, variables, want in (
            (True, {"HOME": "/root"}, [machine]),
            (False, {"HOME": "/h"}, ["/h/.local/state/berth/berth.sock", machine]),
            (False, {"HOME": "/h", "XDG_STATE_HOME": "/s"}, ["/s/berth/berth.sock", machine]),
            (False, {"HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/7"}, ["/run/user/7/berth/berth.sock", machine]),
            (False, {"XDG_RUNTIME_DIR": "relative"}, [machine]),
        ):
            with self.subTest(variables), mock.patch("os.geteuid", return_value=0 if root else 7):
                self.environment(**variables)
                self.assertEqual(default_sockets(), want)

    def test_root_sends_nothing_to_a_stranger(self):
        with Door(lambda *_: (200, {"ok": True})) as door:
            owner = os.stat(os.path.dirname(door.path)).st_uid
            with mock.patch("os.geteuid", return_value=0), mock.patch("berth.client._listener") as listener:
                for uid in (0, owner):
                    listener.return_value = uid
                    self.assertEqual(berth.Client(socket=door.path).call("GET", "/api/x"), {"ok": True})
                asyncio.run(berth.aio.monitoring.start(client=berth.Client(socket=door.path)))
                listener.return_value = owner + 1
                with self.assertRaisesRegex(berth.NoDaemon, "user %d listens there" % (owner + 1)):
                    berth.Client(socket=door.path).call("GET", "/api/x")
                with self.assertRaisesRegex(berth.NoDaemon, "user %d listens there" % (owner + 1)):
                    asyncio.run(berth.aio.status(client=berth.Client(socket=door.path)))
            self.assertEqual(len(door.calls), 3)
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            with connection:
                connection.connect(door.path)
                self.assertEqual(_listener(connection), os.geteuid())

    def test_the_next_socket_is_tried(self):
        with tempfile.TemporaryDirectory() as folder, Door(lambda *_: (200, {"ok": True})) as door:
            client = berth.Client(socket="/")
            client.sockets = [os.path.join(folder, "missing"), door.path]
            self.assertEqual(client.call("GET", "/x"), {"ok": True})


class Events(unittest.TestCase):
    def test_a_stream_that_breaks_goes_on_after_the_last_event(self):
        streams = [
            b': hello\n\nid: 1\nevent: a\ndata: {"id": 1, "code": "a"}\n\nid: 2\ndata: {"id": 2, "co',
            b'data: {"id": 1, "code": "a"}\n\ndata: {"id": 2,\ndata:  "code": "b"}\n\n',
        ]

        def answer(*_):
            text = streams.pop(0) if streams else b""
            return 200, lambda out: out.write(text)

        stop, seen = berth.Stop(), []
        with Door(answer) as door:
            for event in berth.Client(socket=door.path).events(stop=stop):
                seen.append(event["code"])
                if len(seen) == 2:
                    stop.set()
            self.assertEqual(door.calls[1][3].get("Last-Event-ID"), "1")
        self.assertEqual(seen, ["a", "b"])

    def test_stop_ends_a_silent_stream(self):
        connected, over = threading.Event(), threading.Event()

        def silent(out):
            out.write(b": still here\n\n")
            connected.set()
            over.wait(PATIENCE)

        stop = berth.Stop()
        with Door(lambda *_: (200, silent)) as door:
            reader = threading.Thread(target=lambda: list(berth.Client(socket=door.path).events(stop=stop)))
            reader.start()
            self.assertTrue(connected.wait(PATIENCE))
            stop.set()
            reader.join(PATIENCE)
            self.assertFalse(reader.is_alive())
            over.set()

    def test_what_is_kept(self):
        def kept(out):
            out.write(b'data: {"id": 7, "code": "gap"}\n\ndata: {"id": 8, "code": "b"}\n\n')

        with Door(lambda *_: (200, kept)) as door:
            events = list(berth.Client(socket=door.path).events(follow=False))
            self.assertEqual([e["id"] for e in events], [7, 8])
            self.assertIn("follow=false", door.calls[0][1])

    def test_the_daemon_filters(self):
        streams = [b'id: 5\ndata: {"id": 5, "code": "batch"}\n\nid: 9\n\n', b'data: {"id": 12, "code": "batch"}\n\n']

        def answer(*_):
            text = streams.pop(0) if streams else b""
            return 200, lambda out: out.write(text)

        stop, seen = berth.Stop(), []
        with Door(answer) as door:
            client = berth.Client(socket=door.path)
            for event in client.events(stop=stop, code="batch", gpu=[0, "GPU-1"], lease=["a", "b"], severity="warning"):
                seen.append(event["id"])
                if len(seen) == 2:
                    stop.set()
            for call in door.calls[:2]:
                self.assertIn("follow=true&code=batch&gpu=0&gpu=GPU-1&lease=a&lease=b&severity=warning", call[1])
            self.assertEqual(door.calls[1][3].get("Last-Event-ID"), "9")
        self.assertEqual(seen, [5, 12])

    def test_refusals_and_absence_are_errors(self):
        with Door(lambda *_: problem(401, "unauthorized", "Show the token.")) as door:
            with self.assertRaises(berth.Problem):
                next(berth.Client(socket=door.path).events())
        with self.assertRaises(berth.NoDaemon):
            next(berth.Client(socket=door.path).events())
