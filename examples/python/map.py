"""A list of texts becomes a list of vectors, over every GPU.

    berth serve --devices sim:2 &
    python map.py 100000

The functions run in other processes, one for each GPU. Functions of a script or a
notebook go there by their source, so they import what they need themselves.
"""

import random
import sys

import berth

WORDS = "the harbour master counts every ship that comes in and every ship that leaves".split()


def load():
    """Called once in each worker, where the GPU of its lease is device 0."""
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.randn(4096, 64, generator=torch.Generator().manual_seed(1)).to(device)


def embed(texts, model):
    """A list in, a list out: one vector for each text."""
    import zlib

    places = [[zlib.crc32(word.encode()) % 4096 for word in text.split()] or [0] for text in texts]
    if model is None:
        return [[sum(i % (k + 2) for i in some) / len(some) for k in range(8)] for some in places]
    return [model[some].mean(0)[:8].tolist() for some in places]


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    chance = random.Random(1)
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(1, 30))) for _ in range(count)]
    vectors = berth.map(embed, texts, init=load)
    print(len(vectors), "vectors, the first one begins with", vectors[0][:3])

    longest = 0.0
    for vector in berth.imap(embed, iter(texts), init=load):  # as they come, in order
        longest = max(longest, sum(x * x for x in vector) ** 0.5)
    print("the longest one has the length %.3f" % longest)


if __name__ == "__main__":
    main()
