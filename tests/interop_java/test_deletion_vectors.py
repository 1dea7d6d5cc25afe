"""pkray and Paimon's Java core mark each other's rows as deleted."""

import itertools
import random
from typing import Any

import pytest

COLUMNS = {"p": "STRING", "k": "INT", "v": "STRING", "n": "INT"}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "last_value",
        "fields.n.aggregate-function": "sum",
    },
}
LARGE = 300
"""Keys of the first commit, so that later ones leave its file where it is."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
@pytest.mark.parametrize("writers", ["java pkray", "pkray"])
def test_vectors_written_in_turn(make: Any, engine: str, producer: str, writers: str) -> None:
    chance = random.Random(f"{engine} {producer} {writers}")
    options = {
        **ENGINES[engine],
        "changelog-producer": producer,
        "deletion-vectors.enabled": "true",
        "num-sorted-run.compaction-trigger": "4",
    }
    both = make(COLUMNS, ["p", "k"], ["p"], options)
    twin = make(COLUMNS, ["p", "k"], ["p"], options, maker="java")
    kinds = ("+I", "+U", "-D") if engine == "deduplicate" else ("+I", "+U")
    first = [["+I", "x", key, f"value {key}", key % 5] for key in range(LARGE)]
    has_vectors = []
    for turn, writer in zip(range(8), itertools.cycle(writers.split()), strict=False):
        rows = [
            [
                chance.choice(kinds),
                chance.choice("xxy"),
                chance.randrange(-9, LARGE + 20),
                chance.choice([None, "a", "b"]),
                chance.choice([None, *range(5)]),
            ]
            for _ in range(chance.randrange(1, 30))
        ]
        both.write(writer, rows if turn else first, full_compact=turn == 5)
        twin.write("java", rows if turn else first, full_compact=turn == 5)
        assert both.check() == twin.content("java"), turn
        has_vectors.append(both.table.latest_snapshot().index_manifest is not None)
    both.check_changes()
    assert any(has_vectors)
