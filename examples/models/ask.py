"""Ask model servers of server.py, and check every answer.

    python3 ask.py http://127.0.0.1:8080 red blue --requests 24 --seed 7

Each request is a stream for one of the models, in a random order that the seed decides.
The answers must be right, word for word, and complete. It prints a line for each, or
with --quiet only the sum, and exits with 1 if an answer was wrong.
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from server import answer  # noqa: E402


class Wrong(Exception):
    """An answer that is not what it must be."""


def ask(url, model, prompt, words, timeout=900, came=None):
    """Ask for a stream of words, check it, and return the seconds until its first word.
    The list came gets the time at which each word came."""
    at = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if at.scheme == "https" else http.client.HTTPConnection
    connection = kind(at.hostname, at.port, timeout=timeout)
    headers = {"Content-Type": "application/json"}
    if os.environ.get("BERTH_TOKEN"):
        headers["Authorization"] = "Bearer " + os.environ["BERTH_TOKEN"]
    asked = {"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": words, "stream": True,
             "stream_options": {"include_usage": True}}
    began, first, text, tokens, done = time.monotonic(), None, "", None, False
    try:
        connection.request("POST", at.path.rstrip("/") + "/v1/chat/completions", json.dumps(asked), headers)
        response = connection.getresponse()
        if response.status != 200:
            raise Wrong(f"status {response.status}: {response.read(2000).decode(errors='replace').strip()}")
        for line in response:
            if not line.startswith(b"data: "):
                continue
            if line.strip() == b"data: [DONE]":
                done = True
                continue
            piece = json.loads(line[6:])
            if piece.get("usage"):
                tokens = piece["usage"]["completion_tokens"]
            for choice in piece["choices"]:
                if choice["delta"].get("content"):
                    first = first or time.monotonic()
                    if came is not None:
                        came.append(time.time())
                    text += choice["delta"]["content"]
    except (OSError, http.client.HTTPException, ValueError) as broken:
        raise Wrong(f"broke off after {len(text.split())} words: {broken!r}") from None
    finally:
        connection.close()
    want = " ".join(answer(model, prompt, words))
    if text != want or tokens != words or not done:
        raise Wrong(f"{len(text.split())} words, the usage says {tokens}: {text[:80]!r}, and not {want[:80]!r}")
    return first - began


def main():
    parser = argparse.ArgumentParser(description="Ask model servers of server.py, and check every answer.")
    parser.add_argument("url", help="address of the front, or of a server")
    parser.add_argument("models", nargs="+", help="names of the models, as the servers' --name")
    parser.add_argument("--requests", type=int, default=1, metavar="N")
    parser.add_argument("--clients", type=int, default=1, metavar="N", help="how many ask at a time")
    parser.add_argument("--words", type=int, default=16, metavar="N", help="words of each answer")
    parser.add_argument("--seed", type=int, help="decides the order; without it, the models are asked in turn")
    parser.add_argument("--quiet", action="store_true", help="print only the sum")
    parser.add_argument("--json", metavar="FILE", help="write the seconds of each request into a file")
    o = parser.parse_args()
    chance = random.Random(o.seed)
    order = [o.models[i % len(o.models)] if o.seed is None else chance.choice(o.models) for i in range(o.requests)]
    asked, lock, results, wrong = iter(enumerate(order)), threading.Lock(), [], []

    def client():
        while True:
            with lock:
                number, model = next(asked, (0, None))
            if model is None:
                return
            began = time.monotonic()
            try:
                first = ask(o.url, model, f"question {number} for {model}", o.words)
                line = f"{number + 1:>4} {model:<12} {o.words} words, right; the first after {first:.2f} s"
            except Wrong as failure:
                first, line = None, f"{number + 1:>4} {model:<12} WRONG: {failure}"
            with lock:
                results.append({"number": number, "model": model, "first_seconds": first, "seconds": time.monotonic() - began})
                if first is None:
                    wrong.append(line)
                if first is None or not o.quiet:
                    print(line, flush=True)

    began = time.monotonic()
    clients = [threading.Thread(target=client) for _ in range(o.clients)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    took = time.monotonic() - began
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps({"seconds": took, "requests": sorted(results, key=lambda r: r["number"])}) + "\n")
    print(f"{len(results) - len(wrong)} of {len(order)} answers were right and complete, in {took:.1f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
