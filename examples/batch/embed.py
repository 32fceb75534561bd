"""A worker that turns texts into vectors, without a model to download: each word
has a random direction, and a text is where its words lead.

    berth run --input records.jsonl --output vectors.jsonl -- python embed.py

It needs nothing but the berth package. A real one would load its model in
load(), where the GPU of its lease is device 0 already.
"""

import math
import os
import random
import time

import berth

SIZE = 16


class Model:
    def __init__(self) -> None:
        self.directions = {}

    def direction(self, word):
        if word not in self.directions:
            chance = random.Random(word)
            self.directions[word] = [chance.gauss(0, 1) for _ in range(SIZE)]
        return self.directions[word]

    def embed(self, text):
        sums = [sum(column) for column in zip(*(self.direction(word) for word in text.split()))] or [0.0] * SIZE
        length = math.sqrt(sum(x * x for x in sums)) or 1.0
        return [round(x / length, 4) for x in sums]


def load():
    print(f"process {os.getpid()} sees {os.environ.get('CUDA_VISIBLE_DEVICES') or 'no GPU'}", flush=True)
    return Model()


def embed(records, model):
    time.sleep(float(os.environ.get("EMBED_SECONDS", "0")) * len(records))  # as if it were work
    return [{"id": r["id"], "vector": model.embed(r["text"])} for r in records]


if __name__ == "__main__":
    berth.worker(embed, init=load)
