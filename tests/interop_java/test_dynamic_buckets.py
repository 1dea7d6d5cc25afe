"""pkray and Paimon's Java core find the buckets of each other's keys."""

import itertools
import random
from typing import Any

import pytest

COLUMNS = {"p": "STRING", "k": "INT", "v": "STRING"}
OPTIONS = {"bucket": "-1", "dynamic-bucket.target-row-num": "40"}
KEYS = 200


@pytest.mark.sampled(3)
@pytest.mark.parametrize("writers", ["java pkray", "pkray java", "java pkray pkray"])
@pytest.mark.parametrize("by", [[], ["p"]])
def test_buckets_grown_in_turn(make: Any, writers: str, by: list[str]) -> None:
    chance = random.Random(f"{writers} {by}")
    maker = writers.split()[0]
    both, twin = (make(COLUMNS, ["p", "k"], by, OPTIONS, maker=m) for m in (maker, "java"))
    buckets = []
    for turn, writer in zip(range(6), itertools.cycle(writers.split()), strict=False):
        rows = [
            [chance.choice(["+I", "+U", "-D"]), chance.choice("xy"), key, f"{turn} {key}"]
            for key in chance.sample(range(KEYS), 60)
        ]
        both.write(writer, rows, full_compact=turn == 3)
        twin.write("java", rows, full_compact=turn == 3)
        assert both.check() == twin.content("java"), turn
        buckets.append(len(both.table.files().group_by(["partition", "bucket"]).aggregate([])))
    assert buckets[0] < buckets[-1]
