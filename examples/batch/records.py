"""Writes records for embed.py: python records.py 2000 > records.jsonl"""

import json
import random
import sys

WORDS = "the harbour master counts every ship that comes in and every ship that leaves before the tide turns again".split()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    chance = random.Random(1)
    for number in range(count):
        length = min(int(chance.paretovariate(1.2) * 4), 400)  # most are short, a few are long
        print(json.dumps({"id": number, "text": " ".join(chance.choices(WORDS, k=length))}))


main()
