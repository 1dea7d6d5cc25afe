"""pkray and Paimon's Java core write one table in turn.

Beside it the Java core alone writes a twin: contents and changelogs are the same at every commit.
Not here is what the Java core 0.9 fails at by itself: partial-update with -U and -D, of which a
compaction may meet one before any row that adds.
"""

import itertools
import random
from dataclasses import dataclass
from typing import Any

import pytest

from tests.interop_java.both import Both, Row

ADDS = ("+I", "+U")
EVERY = ("+I", "+I", "-U", "+U", "-D")


@dataclass(frozen=True)
class Engine:
    """A merge engine with columns that show how it merges; ``q`` is there as sequence field."""

    options: dict[str, str]
    columns: dict[str, Any]
    kinds: tuple[str, ...] = EVERY
    producers: tuple[str, ...] = ("none", "input", "lookup", "full-compaction")
    has_sequence: bool = True
    never_null: tuple[str, ...] = ()


PLAIN = {"v": "STRING", "n": "INT"}
ENGINES = {
    "deduplicate": Engine({}, PLAIN),
    "first-row": Engine(
        {"merge-engine": "first-row"}, PLAIN, ("+I",), ("none", "lookup"), has_sequence=False
    ),
    "partial-update": Engine({"merge-engine": "partial-update"}, PLAIN, ADDS),
    "partial-update-groups": Engine(
        {
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "a",
            "fields.h.sequence-group": "s",
            "fields.s.aggregate-function": "sum",
        },
        {"g": "INT", "a": "STRING", "h": "INT", "s": "BIGINT", "v": "STRING"},
        ADDS,
        has_sequence=False,
        # What becomes of a row that its group does not count depends on when it is compacted.
        never_null=("g", "h"),
    ),
    "aggregation": Engine(
        {
            "merge-engine": "aggregation",
            "fields.s.aggregate-function": "sum",
            "fields.m.aggregate-function": "max",
            "fields.l.aggregate-function": "last_value",
            "fields.t.aggregate-function": "listagg",
            "fields.m.ignore-retract": "true",
            "fields.l.ignore-retract": "true",
            "fields.t.ignore-retract": "true",
        },
        {"s": "BIGINT", "m": "INT", "l": "STRING", "t": "STRING"},
    ),
}
CASES = [
    (name, producer, sequence)
    for name, engine in ENGINES.items()
    for producer in engine.producers
    for sequence in ((False, True) if engine.has_sequence else (False,))
]


def batch(engine: Engine, chance: random.Random, turn: int) -> list[Row]:
    def value(name: str, kind: str) -> Any:
        if chance.random() < 0.25 and name not in engine.never_null:
            return None
        return chance.choice("abc") if kind == "STRING" else chance.randrange(-4, 9)

    return [
        [
            chance.choice(engine.kinds),
            chance.choice(["x", "y=%z"]),
            chance.randrange(12),
            *(value(name, kind) for name, kind in engine.columns.items()),
            turn * 4 + chance.randrange(-6, 7),
        ]
        for _ in range(chance.randrange(1, 16))
    ]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("name", "producer", "sequence"), CASES)
def test_writing_in_turn_is_as_if_java_wrote_alone(
    make: Any, name: str, producer: str, sequence: bool
) -> None:
    engine = ENGINES[name]
    chance = random.Random(f"{name} {producer} {sequence}")
    options = {
        **engine.options,
        "changelog-producer": producer,
        "bucket": str(chance.choice([1, 2])),
        "num-sorted-run.compaction-trigger": "3",
    }
    if sequence:
        options["sequence.field"] = "q"
    if sequence and producer == "lookup":
        # With images of a key in several levels, the Java core 0.9 may take an older one.
        options["num-levels"] = "2"
    elif sequence or producer == "full-compaction":
        # Full compactions show, in the changelog or as they drop deletes that late rows were
        # hidden by; so there are none but those that are asked for.
        options["num-sorted-run.compaction-trigger"] = "50"
    columns = {"p": "STRING", "k": "INT", **engine.columns, "q": "INT"}
    by = ["p"] if chance.random() < 0.5 else []
    both, twin = (
        make(columns, ["p", "k"], by, options, maker=maker)
        for maker in (chance.choice(["pkray", "java"]), "java")
    )
    writers = itertools.cycle(chance.choice([["java", "pkray"], ["pkray", "pkray", "java"]]))
    for turn in range(6):
        rows = batch(engine, chance, turn)
        full = turn in (2, 5) or chance.random() < 0.1
        both.write(next(writers), rows, full)
        twin.write("java", rows, full, stay=True)
        assert both.check() == twin.content("java"), turn
    assert by_turn(both) == by_turn(twin)


def by_turn(both: Both) -> list[dict[str, list[Row]]]:
    """The changes of each commit, whatever the numbers of its snapshots."""
    return [changes for _, changes in sorted(both.check_changes().items())]
