"""The model server of examples/models, which stands in for real ones in tests, in the
demo and on real GPUs."""

import base64
import http.client
import importlib.util
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from . import PATIENCE

FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "models"


def load(name):
    spec = importlib.util.spec_from_file_location("examples_models_" + name, FOLDER / (name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


server = load("server")
server.say = lambda text: None
asking = load("ask")


class Case(unittest.TestCase):
    def start(self, *options):
        """Start a server of this process, and wait until it has loaded."""
        self.server = server.serve(server.parse(["--port", "0", "--name", "red", "--words", "5", *options]))
        thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)
        self.port = self.server.server_address[1]
        if "never-ready" not in options:
            self.assertTrue(self.server.model.loaded.wait(PATIENCE))

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.request(method, path, body if body is None else json.dumps(body))
        response = connection.getresponse()
        return response.status, response.read()

    def value(self, method, path, body=None):
        status, text = self.call(method, path, body)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def pieces(self, path, body):
        status, text = self.call("POST", path, {**body, "stream": True})
        self.assertEqual(status, 200, text)
        return [line[6:] for line in text.decode().splitlines() if line.startswith("data: ")]


ASKED = {"model": "red", "messages": [{"role": "user", "content": "where is it"}]}
ANSWER = " ".join(server.answer("red", "where is it", 5))


class Answers(Case):
    def test_openai(self):
        self.start()
        chat = self.value("POST", "/v1/chat/completions", ASKED)
        self.assertEqual(chat["choices"][0]["message"]["content"], ANSWER)
        self.assertEqual(chat["usage"], {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8})
        parts = [{"type": "image_url"}, {"type": "text", "text": "where "}, {"type": "text", "text": "is it"}]
        chat = self.value("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": parts}]})
        self.assertEqual(chat["choices"][0]["message"]["content"], ANSWER)
        whole = self.value("POST", "/v1/completions", {"prompt": "where is it", "max_tokens": 7})
        self.assertEqual(whole["choices"][0]["text"], " ".join(server.answer("red", "where is it", 7)))
        vectors = self.value("POST", "/v1/embeddings", {"input": ["a", "b"]})
        self.assertEqual([v["embedding"] for v in vectors["data"]], [server.embedding("red", "a"), server.embedding("red", "b")])
        vectors = self.value("POST", "/v1/embeddings", {"input": ["a", "b"], "encoding_format": "base64"})
        for vector, text in zip(vectors["data"], "ab"):
            numbers = struct.unpack("<8f", base64.b64decode(vector["embedding"]))
            self.assertEqual([round(number, 6) for number in numbers], server.embedding("red", text))
        self.assertEqual([m["id"] for m in self.value("GET", "/v1/models")["data"]], ["red"])
        self.assertNotEqual(server.answer("red", "where is it", 5), server.answer("blue", "where is it", 5))

    def test_streams(self):
        self.start()
        pieces = self.pieces("/v1/chat/completions", {**ASKED, "stream_options": {"include_usage": True}})
        self.assertEqual(pieces.pop(), "[DONE]")
        pieces = [json.loads(piece) for piece in pieces]
        self.assertEqual("".join(c["delta"].get("content", "") for p in pieces for c in p["choices"]), ANSWER)
        self.assertEqual([c["delta"].get("role") for p in pieces for c in p["choices"]], ["assistant"] + 5 * [None])
        self.assertEqual(pieces[-1]["usage"]["completion_tokens"], 5)
        pieces = [json.loads(piece) for piece in self.pieces("/v1/completions", {"prompt": "where is it"})[:-1]]
        self.assertEqual("".join(p["choices"][0]["text"] for p in pieces), ANSWER)

    def test_anthropic(self):
        self.start()
        message = self.value("POST", "/v1/messages", ASKED)
        self.assertEqual(message["content"][0]["text"], ANSWER)
        self.assertEqual(message["usage"], {"input_tokens": 3, "output_tokens": 5})
        pieces = [json.loads(piece) for piece in self.pieces("/v1/messages", ASKED)]
        self.assertEqual("".join(p["delta"]["text"] for p in pieces if p["type"] == "content_block_delta"), ANSWER)
        self.assertEqual([pieces[0]["type"], pieces[-1]["type"]], ["message_start", "message_stop"])
        self.assertEqual(self.value("POST", "/v1/messages/count_tokens", ASKED), {"input_tokens": 3})
        status, text = self.call("POST", "/v1/messages", {"messages": []})
        self.assertEqual((status, json.loads(text)["type"]), (400, "error"))

    def test_what_it_refuses(self):
        self.start()
        for path, body in (
            ("/v1/chat/completions", []), ("/v1/chat/completions", {}), ("/v1/chat/completions", {"messages": "no"}),
            ("/v1/chat/completions", {**ASKED, "max_tokens": 10**9}), ("/v1/completions", {"prompt": 7}), ("/v1/embeddings", {"input": "a", "encoding_format": "int8"}),
        ):
            with self.subTest(body):
                self.assertEqual(self.call("POST", path, body)[0], 400)
        self.assertEqual(self.call("GET", "/nowhere")[0], 404)
        self.assertEqual(self.call("POST", "/nowhere", {})[0], 404)
        self.assertEqual(self.server.model.open, 0)

    def test_the_client_that_checks(self):
        self.start()
        url = "http://127.0.0.1:%d" % self.port
        self.assertGreater(asking.ask(url, "red", "hello", 9), 0)
        with self.assertRaises(asking.Wrong):
            asking.ask(url, "blue", "hello", 9)  # the server is not blue, and so its answer is not


class Sleeping(Case):
    def test_after_an_answer_it_can_sleep_at_once(self):
        """A request has ended when its client has the last byte, not a moment later."""
        self.start("--words", "2")
        for path in ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/embeddings"):
            for stream in (False, True):
                for _ in range(10):
                    status, text = self.call("POST", path, {**ASKED, "prompt": "a", "input": "a", "stream": stream})
                    self.assertEqual(status, 200, text)
                    status, text = self.call("POST", "/sleep")
                    self.assertEqual(status, 200, text)
                    self.assertTrue(self.value("GET", "/is_sleeping")["is_sleeping"])
                    self.assertEqual(self.call("POST", "/v1/completions", {"prompt": "a"})[0], 503)
                    self.value("POST", "/wake_up")

    def test_not_during_an_answer(self):
        self.start()
        made, go_on = threading.Event(), threading.Event()

        def touch(place):
            made.set()
            self.assertTrue(go_on.wait(PATIENCE))
            return 0

        self.server.model.memory.touch = touch
        answers = []
        client = threading.Thread(target=lambda: answers.append(self.call("POST", "/v1/chat/completions", ASKED)))
        client.start()
        self.assertTrue(made.wait(PATIENCE))
        status, text = self.call("POST", "/sleep")
        go_on.set()
        client.join()
        self.assertEqual((status, answers[0][0]), (409, 200), text)


class Memory(Case):
    def test_on_a_simulated_gpu(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.environ.pop, "BERTH_SIM_GUESTS")
        self.addCleanup(os.environ.pop, "BERTH_GPUS")
        os.environ.update(BERTH_SIM_GUESTS=folder.name, BERTH_GPUS="SIM-a")
        self.start("--memory", "3GiB", "--sleep-keeps", "100MiB")
        file = pathlib.Path(folder.name, "SIM-a", str(os.getpid()))

        def held():
            return json.loads(file.read_text())["memory_mb"]

        self.assertEqual(held(), 3072)
        self.value("POST", "/sleep")
        self.assertEqual(held(), 100)
        self.value("POST", "/wake_up")
        self.assertEqual(held(), 3072)
        parked = file.with_name(file.name + ".parked")
        parked.touch()
        answers = []
        client = threading.Thread(target=lambda: answers.append(self.value("POST", "/v1/chat/completions", ASKED)))
        client.start()
        self.assertEqual(self.call("GET", "/health")[0], 200)
        self.assertEqual(answers, [])
        parked.unlink()
        client.join()
        self.assertEqual(answers[0]["choices"][0]["message"]["content"], ANSWER)
        again = server.Model(server.parse(["--memory", "3GiB", "--fail", "memory"]))
        again.load()
        self.assertEqual(held(), 6144)


class Failures(Case):
    def test_never_ready(self):
        self.start("--fail", "never-ready")
        self.assertEqual(self.call("GET", "/health")[0], 503)
        self.assertEqual(self.call("POST", "/v1/chat/completions", ASKED)[0], 503)

    def test_500_after_some_answers(self):
        self.start("--fail", "500", "--fail-after", "2")
        self.assertEqual([self.call("POST", "/v1/chat/completions", ASKED)[0] for _ in range(4)], [200, 200, 500, 500])

    def test_those_that_end_the_server(self):
        for way, code in (("start", 3), ("stream", 4)):
            with self.subTest(way):
                child = subprocess.Popen([sys.executable, str(FOLDER / "server.py"), "--port", "0", "--fail", way], stderr=subprocess.PIPE, text=True)
                self.addCleanup(child.stderr.close)
                self.addCleanup(child.wait)
                self.addCleanup(child.kill)
                if way == "stream":
                    self.port = int(child.stderr.readline().split()[-1])
                    self.assertIn("ready", child.stderr.readline())
                    with self.assertRaises((http.client.HTTPException, ConnectionError)):
                        self.call("POST", "/v1/chat/completions", {**ASKED, "stream": True})
                self.assertEqual(child.wait(PATIENCE), code)

    def test_only_while_a_file_is_there(self):
        with tempfile.NamedTemporaryFile() as broken:
            self.start("--fail", "500", "--fail-while", broken.name)
            self.assertEqual(self.call("POST", "/v1/chat/completions", ASKED)[0], 500)
        self.assertEqual(self.call("POST", "/v1/chat/completions", ASKED)[0], 200)

    def test_hang(self):
        self.start("--fail", "hang")
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        self.addCleanup(client.close)
        client.request("POST", "/v1/chat/completions", json.dumps(ASKED))
        while self.server.model.open != 1:
            self.call("GET", "/health")  # it answers that
        self.assertEqual(self.call("POST", "/sleep")[0], 409)
        self.server.model.left.set()


if __name__ == "__main__":
    unittest.main()
