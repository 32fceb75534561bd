"""A model server without a model, for tests, demos and measurements.

    python3 server.py --port 8001 --name red --memory 5GiB --load-seconds 2

It has the paths of OpenAI (/v1/chat/completions, /v1/completions, /v1/embeddings,
/v1/models) and of Anthropic (/v1/messages), with streams, and those with which vLLM is
put to sleep (/sleep, /wake_up, /is_sleeping). /health is 200 once it has loaded.

It holds memory as a real server does: with --torch, tensors on the GPU that it was
given; on a simulated GPU, memory that the simulator counts (docs/guide/simulator.md).
While it is parked, its answers stand still.

Its answers are words made from its name, the prompt and their place, so that a client
can check each of them: `answer` of this module returns what must come. With --torch
they also depend on what the weights hold, so that weights that came back wrong make
wrong answers. `--fail` makes it fail in one of the ways in which servers do.
"""

import argparse
import base64
import hashlib
import http.server
import json
import os
import pathlib
import re
import signal
import struct
import sys
import threading
import time
import urllib.parse

WORDS = "anchor bay buoy crane deck ebb fender gale harbour island jetty keel lantern mast north oar pier quay rope sail".split()
FAILURES = {
    "start": "end soon after the start, with code 3",
    "never-ready": "answer 503 to /health for ever",
    "memory": "take twice as much memory as --memory says",
    "500": "answer 500",
    "stream": "end in the middle of an answer",
    "hang": "take requests and never answer",
}
MOST_WORDS = 100_000


def answer(name, prompt, words):
    """What the server with this name says to a prompt, word by word."""
    return [word(name, prompt, place) for place in range(words)]


def word(name, prompt, place):
    digest = hashlib.sha256(f"{name}\n{place}\n{prompt}".encode()).digest()
    return WORDS[digest[0] % len(WORDS)] + str(digest[1])


def embedding(name, text, size=8):
    """The vector of a text."""
    digest = hashlib.sha256(f"{name}\n{text}".encode()).digest()
    return [round(byte / 255 - 0.5, 6) for byte in digest[:size]]


def in_base64(vector):
    """A vector as clients take it that want it shorter."""
    return base64.b64encode(struct.pack("<%df" % len(vector), *vector)).decode()


def mebibytes(text):
    """The MiB that a size such as 5GiB means."""
    found = re.fullmatch(r"(\d+)\s*(MiB|M|MB|GiB|G|GB)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write it like 5GiB or 512MiB")
    return int(found[1]) * (1024 if found[2].startswith("G") else 1)


class Nowhere:
    """The memory of a server without a GPU."""

    def take(self, mebibytes):
        pass

    def touch(self, place):
        return 0


class Simulated:
    """Memory of the simulated GPUs of the lease."""

    def __init__(self, guests):
        self.files = []
        for gpu in os.environ["BERTH_GPUS"].split(","):
            folder = pathlib.Path(guests, gpu)
            folder.mkdir(parents=True, exist_ok=True)
            self.files.append(folder / str(os.getpid()))
        stat = pathlib.Path("/proc/self/stat").read_text()
        self.start_time = int(stat.rpartition(")")[2].split()[19])

    def take(self, mebibytes):
        for file in self.files:
            fresh = file.with_suffix(".new")
            fresh.write_text(json.dumps({"memory_mb": mebibytes, "load": 0, "start_time": self.start_time}))
            fresh.rename(file)

    def touch(self, place):
        """Do what every call to the driver does: wait while the program is parked."""
        while any(file.with_name(file.name + ".parked").exists() for file in self.files):
            time.sleep(0.02)
        return 0


class Torch:
    """Memory of a real GPU. Each part of it holds its own number, again and again."""

    PART = 256  # MiB

    def __init__(self, weights):
        import torch

        self.torch, self.path = torch, weights
        self.parts, self.host = [], None
        torch.zeros(1, device="cuda")  # the context of the driver

    def take(self, mebibytes):
        count = max(mebibytes // self.PART, 1) if mebibytes else 0
        if count < len(self.parts):
            del self.parts[count:]
            self.torch.cuda.empty_cache()
        file = None
        if self.path and count > len(self.parts):
            file = self._file(count)
        for number in range(len(self.parts), count):
            if file is None:
                part = self.torch.full((self.PART << 18,), number, dtype=self.torch.int32, device="cuda")
            else:
                part = file[number * (self.PART << 18) : (number + 1) * (self.PART << 18)].to("cuda")
            self.parts.append(part)
        self.torch.cuda.synchronize()

    def _file(self, count):
        """The weights in a file, which is made if it is not there."""
        size = count * (self.PART << 20)
        if not os.path.exists(self.path) or os.path.getsize(self.path) < size:
            with open(self.path + ".new", "wb") as file:
                for number in range(count):
                    file.write(number.to_bytes(4, "little") * (self.PART << 18))
            os.rename(self.path + ".new", self.path)
        return self.torch.from_file(self.path, size=size // 4, dtype=self.torch.int32)

    def to_host(self):
        """Move the weights to the memory of the machine, as a server asleep does."""
        self.host = [part.cpu() for part in self.parts]
        self.take(0)

    def to_gpu(self):
        self.parts = [part.to("cuda") for part in self.host]
        self.host = None
        self.torch.cuda.synchronize()

    def touch(self, place):
        """0 if a part of the weights is what it was."""
        number = place % len(self.parts)
        part = self.parts[number]
        return int((part[:: 1 << 16] != number).sum().item())


class Asleep(Exception):
    pass


class Model:
    """The model that a server serves: its memory, and the requests that use it."""

    def __init__(self, options):
        self.options = options
        self.lock = threading.Lock()
        self.open = 0  # guarded by lock, as the following
        self.served = 0
        self.asleep = False
        self.loaded = threading.Event()
        self.left = threading.Event()  # never set: what waits for it hangs
        if options.torch:
            self.memory = Torch(options.weights)
        elif options.guests and os.environ.get("BERTH_GPUS"):
            self.memory = Simulated(options.guests)
        else:
            self.memory = Nowhere()

    def load(self):
        time.sleep(self.options.load_seconds)
        if self.fails("start"):
            say("cannot load the weights: the file is not there")
            os._exit(3)
        try:
            self.memory.take(self.options.memory * (2 if self.fails("memory") else 1))
        except Exception as failure:  # as when the GPU has too little memory
            say(f"cannot take the memory: {failure}")
            os._exit(3)
        if not self.fails("never-ready"):
            self.loaded.set()
            say(f"{self.options.name} is ready on port {self.options.port}")

    def fails(self, way):
        """Whether it fails in this way now."""
        o = self.options
        return o.fail == way and self.served >= o.fail_after and (o.fail_while is None or os.path.exists(o.fail_while))

    def begin(self):
        with self.lock:
            if self.asleep:
                raise Asleep
            self.open += 1

    def end(self):
        """A request has ended. It is told before the last byte of its answer is sent: who
        has the whole answer may put the server to sleep at once."""
        with self.lock:
            self.open -= 1
            self.served += 1

    def sleep(self, level):
        """Free the memory, or return why not."""
        with self.lock:
            if self.open:
                return f"{self.open} requests are open"
            if self.asleep:
                return None
            self.asleep = True
        if level == 1 and isinstance(self.memory, Torch):
            self.memory.to_host()
        self.memory.take(self.options.sleep_keeps if not isinstance(self.memory, Torch) else 0)
        return None

    def wake(self):
        time.sleep(self.options.wake_seconds)
        if getattr(self.memory, "host", None) is not None:
            self.memory.to_gpu()
        else:
            self.memory.take(self.options.memory)
        with self.lock:
            self.asleep = False

    def words(self, prompt, count):
        """The words of an answer, as they are made."""
        o = self.options
        for place in range(count):
            if o.word_seconds:
                time.sleep(o.word_seconds)
            if place == count // 2 and self.fails("stream"):
                say("the kernel has failed")
                os._exit(4)
            wrong = self.memory.touch(place)
            yield word(o.name, prompt, place) if not wrong else f"WRONG-WEIGHTS-{wrong}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    model = None  # set for each server
    ended = True  # whether the request has been counted as ended

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        if path == "/health":
            ready = self.model.loaded.is_set()
            self.reply(200 if ready else 503, {"status": "ok" if ready else "loading model"})
        elif path == "/v1/models":
            self.reply(200, {"object": "list", "data": [{"id": self.model.options.name, "object": "model", "created": 0, "owned_by": "examples"}]})
        elif path == "/is_sleeping":
            self.reply(200, {"is_sleeping": self.model.asleep})
        else:
            self.refuse(404, f"There is no {path}.")

    def do_POST(self):
        at = urllib.parse.urlsplit(self.path)
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if at.path == "/sleep":
            level = urllib.parse.parse_qs(at.query).get("level", ["1"])[0]
            why = self.model.sleep(2 if level == "2" else 1)
            return self.refuse(409, f"The server cannot sleep: {why}.") if why else self.reply(200, {})
        if at.path == "/wake_up":
            self.model.wake()
            return self.reply(200, {})
        serve = {
            "/v1/chat/completions": self.chat, "/v1/completions": self.completion, "/v1/embeddings": self.embeddings,
            "/v1/messages": self.message, "/v1/messages/count_tokens": self.count_tokens,
        }.get(at.path)
        if serve is None:
            return self.refuse(404, f"There is no {at.path}.")
        try:
            asked = json.loads(text)
            if not isinstance(asked, dict):
                raise ValueError
        except ValueError:
            return self.refuse(400, "The body is no JSON object.")
        if not self.model.loaded.is_set():
            return self.refuse(503, "The model is loading.")
        try:
            self.model.begin()
        except Asleep:
            return self.refuse(503, "The server is asleep.")
        self.ended = False
        try:
            if self.model.fails("hang"):
                self.model.left.wait()
            if self.model.fails("500"):
                return self.refuse(500, "The kernel has failed.")
            serve(asked)
        except (LookupError, TypeError, ValueError) as wrong:
            self.refuse(400, f"The request cannot be read: {wrong!r}.")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client has left
        finally:
            self.end()

    def end(self):
        if not self.ended:
            self.ended = True
            self.model.end()

    # OpenAI

    def chat(self, asked):
        prompt, count = prompt_of(asked["messages"]), self.count(asked)
        about = {"id": "chatcmpl-1", "created": 0, "model": self.model.options.name}
        if not asked.get("stream"):
            text = " ".join(self.model.words(prompt, count))
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            return self.reply(200, {**about, "object": "chat.completion", "choices": [choice], "usage": usage(prompt, count)})
        about["object"] = "chat.completion.chunk"
        self.stream()
        first = {"role": "assistant"}  # clients wait for it
        for text in spaced(self.model.words(prompt, count)):
            self.piece(None, {**about, "choices": [{"index": 0, "delta": {**first, "content": text}, "finish_reason": None}]})
            first = {}
        self.last_chunks(asked, {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, about, prompt, count)

    def completion(self, asked):
        prompt, count = asked["prompt"], self.count(asked)
        if not isinstance(prompt, str):
            raise ValueError("prompt must be a string")
        about = {"id": "cmpl-1", "object": "text_completion", "created": 0, "model": self.model.options.name}
        if not asked.get("stream"):
            text = " ".join(self.model.words(prompt, count))
            choice = {"index": 0, "text": text, "finish_reason": "stop"}
            return self.reply(200, {**about, "choices": [choice], "usage": usage(prompt, count)})
        self.stream()
        for text in spaced(self.model.words(prompt, count)):
            self.piece(None, {**about, "choices": [{"index": 0, "text": text, "finish_reason": None}]})
        self.last_chunks(asked, {**about, "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}, about, prompt, count)

    def last_chunks(self, asked, stop, about, prompt, count):
        last = event(None, stop)
        if (asked.get("stream_options") or {}).get("include_usage"):
            last += event(None, {**about, "choices": [], "usage": usage(prompt, count)})
        self.finish_stream(last + b"data: [DONE]\n\n")

    def embeddings(self, asked):
        texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
        name = self.model.options.name
        if self.model.memory.touch(0):
            raise ValueError("the weights are wrong")
        form = asked.get("encoding_format") or "float"
        if form not in ("float", "base64"):
            raise ValueError("encoding_format must be float or base64")
        write = in_base64 if form == "base64" else list
        data = [{"object": "embedding", "index": i, "embedding": write(embedding(name, text))} for i, text in enumerate(texts)]
        tokens = sum(len(text.split()) for text in texts)
        self.reply(200, {"object": "list", "model": name, "data": data, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}})

    # Anthropic

    def message(self, asked):
        prompt, count = prompt_of(asked["messages"]), self.count(asked)
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": self.model.options.name, "content": [], "stop_reason": None, "stop_sequence": None}
        tokens = {"input_tokens": len(prompt.split()), "output_tokens": count}
        if not asked.get("stream"):
            content = [{"type": "text", "text": " ".join(self.model.words(prompt, count))}]
            return self.reply(200, {**message, "content": content, "stop_reason": "end_turn", "usage": tokens})
        self.stream()
        self.piece("message_start", {"message": {**message, "usage": {**tokens, "output_tokens": 0}}})
        self.piece("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
        for text in spaced(self.model.words(prompt, count)):
            self.piece("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": text}})
        self.piece("content_block_stop", {"index": 0})
        last = event("message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": count}})
        self.finish_stream(last + event("message_stop", {}))

    def count_tokens(self, asked):
        self.reply(200, {"input_tokens": len(prompt_of(asked["messages"]).split())})

    # The wire

    def count(self, asked):
        """How many words the answer has."""
        count = asked.get("max_tokens") or asked.get("max_completion_tokens") or self.model.options.words
        if not isinstance(count, int) or not 0 < count <= MOST_WORDS:
            raise ValueError("max_tokens must be a number from 1 to %d" % MOST_WORDS)
        return count

    def reply(self, status, value):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.end()
        self.wfile.write(text)

    def refuse(self, status, why):
        kind = "server_error" if status >= 500 else "invalid_request_error"
        error = {"error": {"message": why, "type": kind, "code": None}}
        self.reply(status, {"type": "error", **error} if self.path.startswith("/v1/messages") else error)

    def stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def piece(self, kind, value):
        self.wfile.write(chunk(event(kind, value)))

    def finish_stream(self, last):
        self.end()
        self.wfile.write(chunk(last) + b"0\r\n\r\n")

    def log_message(self, format, *args):
        if self.model.options.log_requests:
            say(format % args)


def prompt_of(messages):
    """The text of the last message."""
    content = messages[-1]["content"]
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part.get("type") == "text")


def usage(prompt, count):
    tokens = len(prompt.split())
    return {"prompt_tokens": tokens, "completion_tokens": count, "total_tokens": tokens + count}


def spaced(words):
    """Pieces that make a sentence when they are put together."""
    for place, text in enumerate(words):
        yield " " + text if place else text


def event(kind, value):
    if kind is None:
        return b"data: " + json.dumps(value).encode() + b"\n\n"
    return b"event: " + kind.encode() + b"\ndata: " + json.dumps({"type": kind, **value}).encode() + b"\n\n"


def chunk(text):
    return b"%x\r\n%s\r\n" % (len(text), text)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def serve(options):
    """A server that listens. Its model loads beside it."""
    model = Model(options)
    server = Server(("127.0.0.1", options.port), type("Handler", (Handler,), {"model": model}))
    options.port = server.server_address[1]
    server.model = model
    say(f"{options.name} loads, and listens on port {options.port}")
    threading.Thread(target=model.load, daemon=True).start()
    return server


def say(text):
    print(text, file=sys.stderr, flush=True)


def parse(arguments):
    parser = argparse.ArgumentParser(description="A model server without a model.", formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="ways to fail:\n" + "\n".join(f"  {way:<12} {what}" for way, what in FAILURES.items()))
    parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", 8001)), help="where to listen on 127.0.0.1; 0 for any port")
    parser.add_argument("--name", default="model", help="name of the model, from which its answers are made")
    parser.add_argument("--memory", type=mebibytes, default="1GiB", metavar="SIZE", help="memory of the GPU to hold, as in 5GiB")
    parser.add_argument("--torch", action="store_true", help="hold it with PyTorch")
    parser.add_argument("--guests", metavar="FOLDER", default=os.environ.get("BERTH_SIM_GUESTS"), help="folder through which programs use simulated GPUs, as BERTH_SIM_GUESTS of the daemon")
    parser.add_argument("--weights", metavar="FILE", help="with --torch: load the weights from this file, which is made if it is not there")
    parser.add_argument("--load-seconds", type=float, default=0, metavar="N", help="how long loading takes, beside what it really takes")
    parser.add_argument("--wake-seconds", type=float, default=0, metavar="N", help="how long waking takes, likewise")
    parser.add_argument("--sleep-keeps", type=mebibytes, default="64MiB", metavar="SIZE", help="memory that it keeps while asleep, on a simulated GPU")
    parser.add_argument("--words", type=int, default=16, metavar="N", help="words of an answer, unless the request says max_tokens")
    parser.add_argument("--word-seconds", type=float, default=0, metavar="N", help="how long each word takes")
    parser.add_argument("--fail", choices=FAILURES, help="fail in this way")
    parser.add_argument("--fail-after", type=int, default=0, metavar="N", help="fail only after so many answers")
    parser.add_argument("--fail-while", metavar="FILE", help="fail only while this file is there")
    parser.add_argument("--log-requests", action="store_true", help="write a line for each request")
    return parser.parse_args(arguments)


def main():
    server = serve(parse(sys.argv[1:]))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # the kernel frees what it holds
    server.serve_forever()


if __name__ == "__main__":
    main()
