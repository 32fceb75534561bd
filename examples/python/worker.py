"""A worker for batches: texts to vectors.

    berth run --input texts.jsonl --output vectors.jsonl -- python worker.py

With torch it computes on the GPU that berth gave it, which is device 0 here,
and else with plain Python.
"""

import importlib.util
import zlib

import berth

WIDTH = 64


def load_model():
    """Called once, before the first record."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator().manual_seed(1)
    return torch.randn(4096, WIDTH, generator=generator).to(device)


def embed(records, model):
    """One outcome for each record, in their order."""
    words = [[zlib.crc32(word.encode()) % 4096 for word in str(r.get("text", "")).split()] or [0] for r in records]
    if model is None:
        vectors = [[sum(i % (k + 2) for i in w) / len(w) for k in range(WIDTH)] for w in words]
    else:
        vectors = [model[w].mean(0) for w in words]
    return [{"id": r.get("id"), "vector": v} for r, v in zip(records, vectors)]


if __name__ == "__main__":
    berth.worker(embed, init=load_model)
