"""Services whose programs the daemon runs, against a door that answers as one."""

import asyncio
import unittest

import berth

from .doors import Door

CHAT = {
    "name": "chat", "state": "ready", "since": "2026-01-31T11:55:00Z", "models": ["qwen"], "user": "ada", "open": 2, "waiting": 0,
    "devices": ["GPU-0"], "memory_mb": 12288, "took": {"start": {"seconds": 9.0, "last_seconds": 8.5, "count": 3}},
    "failure": {"at": "2026-01-31T11:00:00Z", "why": "it ended with code 3", "count": 2, "log": ["no such file"]},
    "stopped": {"by": "root", "why": "weights", "at": "2026-01-31T11:00:00Z"},
}  # fmt: skip


def daemon(method, path, body):
    if path == "/api/services":
        return 200, {"services": [CHAT, {"name": "coder", "state": "away"}]}
    if path.startswith("/api/services/chat/log"):
        return 200, lambda to: to.write(b"loads\nready\n")
    if path.startswith("/api/services/chat"):
        return 200, CHAT
    return 404, {"status": 404, "code": "unknown_service", "detail": "There is no such service."}


class Services(unittest.TestCase):
    def setUp(self):
        self.door = Door(daemon)
        self.door.__enter__()
        self.addCleanup(self.door.__exit__)
        self.client = berth.Client(socket=self.door.path)

    def last(self):
        return self.door.calls[-1][:3]

    def test_look(self):
        chat, coder = berth.services.programs(client=self.client)
        self.assertEqual((chat.name, chat.open, chat.devices, chat.memory_mb), ("chat", 2, ["GPU-0"], 12288))
        self.assertEqual((chat.took.start.seconds, chat.took.park), (9.0, None))
        self.assertEqual((chat.failure.count, chat.failure.log, chat.stopped.by), (2, ["no such file"], "root"))
        self.assertEqual((coder.state, coder.failure, coder.memory_mb), ("away", None, None))
        self.assertEqual(berth.services.program("chat", client=self.client).state, "ready")
        with self.assertRaises(berth.Problem) as refused:
            berth.services.program("a/b c", client=self.client)
        self.assertEqual(refused.exception.code, "unknown_service")
        self.assertEqual(self.last()[1], "/api/services/a%2Fb%20c")

    def test_orders(self):
        for order in ("start", "stop", "restart"):
            with self.subTest(order):
                give = getattr(berth.services, order)
                self.assertEqual(give("chat", client=self.client).name, "chat")
                self.assertEqual(self.last(), ("POST", "/api/services/chat/" + order, {}))
                give("chat", why="new weights", client=self.client)
                self.assertEqual(self.last()[2], {"why": "new weights"})
        berth.services.move("chat", 1, client=self.client)
        self.assertEqual(self.last(), ("POST", "/api/services/chat/move", {"gpu": "1"}))

    def test_log(self):
        self.assertEqual(berth.services.log("chat", lines=2, client=self.client), "loads\nready\n")
        self.assertEqual(self.last()[:2], ("GET", "/api/services/chat/log?lines=2"))

    def test_with_asyncio(self):
        async def names():
            return [one.name for one in await berth.aio.services.programs(client=self.client)]

        self.assertEqual(asyncio.run(names()), ["chat", "coder"])


if __name__ == "__main__":
    unittest.main()
