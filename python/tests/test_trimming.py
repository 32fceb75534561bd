import json
import os
import queue
import threading
import types
import unittest
from unittest import mock

import berth
from berth import trimming

from . import fakes
from . import PATIENCE
from .daemon import DaemonCase
from .doors import Door


def torch(reserved):
    module = fakes.torch(gpus=2)
    module.cuda.is_initialized = lambda: True
    module.cuda.memory_reserved = lambda i: reserved[i]
    module.cuda.empty_cache = lambda: reserved.update({0: 100, 1: 0})
    return module


class Trim(unittest.TestCase):
    def test_what_is_loaded_gives_back(self):
        cupy, total = fakes.cupy(gpus=1), [5000]
        pool = types.SimpleNamespace(total_bytes=lambda: total[0], free_all_blocks=lambda: total.__setitem__(0, 1000))
        pinned = mock.Mock()
        cupy.get_default_memory_pool = lambda: pool
        cupy.get_default_pinned_memory_pool = lambda: pinned
        with fakes.installed(torch({0: 1100, 1: 50}), cupy):
            self.assertEqual(berth.trim(), 1000 + 50 + 4000)
        pinned.free_all_blocks.assert_called_once_with()

    def test_nothing_loaded(self):
        with fakes.installed():
            self.assertEqual(berth.trim(), 0)

    def test_torch_is_not_started_for_it(self):
        module = torch({})
        module.cuda.is_initialized = lambda: False
        with fakes.installed(module):
            self.assertEqual(berth.trim(), 0)


class OnRequest(unittest.TestCase):
    def test_who_is_asked(self):
        for event, asked in (
            ({"code": "reclaim", "lease": "mine"}, True),
            ({"code": "reclaim", "lease": "mine", "data": {"fence": 5}}, True),
            ({"code": "reclaim", "lease": "mine", "data": {"fence": 6}}, False),  # of another user
            ({"code": "reclaim", "lease": "other", "data": {"pid": 7}}, False),
            ({"code": "reclaim", "data": {"pid": 7}}, True),
            ({"code": "reclaim", "data": {"pid": 8}}, False),
            ({"code": "reclaim"}, False),
            ({"code": "lease_granted", "lease": "mine"}, False),
        ):
            self.assertEqual(trimming.asks(event, "mine", 5, 7), asked, event)

    def test_a_lease_listens(self):
        trims, stream, ended = queue.Queue(), queue.Queue(), threading.Event()
        granted = {"id": "mine", "fence": 3, "binding": "process", "parts": [{"gpu": "G", "memory_mb": 1, "slots": 1}]}

        def frame(event):
            return b"data: " + json.dumps(event).encode() + b"\n\n"

        def follow(out):
            while True:
                event = stream.get()
                if event is None:
                    ended.set()
                    return
                out.write(frame(event))
                out.flush()

        def answer(method, path, body):
            if "follow=false" in path:
                old = {"id": 4, "code": "reclaim", "data": {"pid": os.getpid()}}
                return 200, lambda out: out.write(frame(old))
            if path.startswith("/api/events"):
                return 200, follow
            return 201, granted

        with Door(answer) as door, mock.patch.object(trimming, "trim", lambda: trims.put("trimmed")):
            with berth.lease(memory="1MiB", trim_on_request=True, client=berth.Client(socket=door.path)):
                stream.put({"id": 5, "code": "reclaim", "lease": "other"})
                stream.put({"id": 6, "code": "reclaim", "lease": "mine"})
                self.assertEqual(trims.get(timeout=PATIENCE), "trimmed")
            stream.put(None)
            self.assertTrue(ended.wait(PATIENCE))
        self.assertTrue(trims.empty())

    def test_without_a_lease(self):
        with self.assertRaisesRegex(RuntimeError, "no lease"):
            berth.trim_on_request()


class Live(DaemonCase):
    def test_asked_by_the_daemon(self):
        trims = queue.Queue()
        client = self.daemon.client
        with mock.patch.object(trimming, "trim", lambda: trims.put("trimmed")):
            with berth.lease(memory=64, trim_on_request=True, client=client) as held:
                while True:  # until it listens
                    client.call("POST", f"/api/leases/{held.id}/trim", {})
                    try:
                        self.assertEqual(trims.get(timeout=0.2), "trimmed")
                        break
                    except queue.Empty:
                        pass

    def test_a_lease_that_is_not_there(self):
        with self.assertRaisesRegex(berth.Problem, "nothing"):
            self.daemon.client.call("POST", "/api/leases/nothing/trim", {})
