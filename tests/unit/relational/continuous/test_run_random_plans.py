"""Random plans over random histories: the result equals the bounded run after every epoch."""

import itertools
import random
from collections import Counter
from collections.abc import Callable

import pytest

from pkray.relational import Changelog, changelog, query
from tests.effort import examples
from tests.unit.relational.continuous.histories import Continuous, RandomHistory

SEEDS = 1000
GROUPS = 40
"""Tests that the seeds are spread over, so that processes share them."""


class Frame:
    """A query that is being written: its text, its columns (all of them INT or BIGINT)."""

    def __init__(self, text: str, columns: list[str], steps: list[str]) -> None:
        self.text = text
        self.columns = columns
        self.steps = steps

    def then(self, step: str, text: str, columns: list[str], *others: "Frame") -> "Frame":
        steps = [*self.steps, *(each for other in others for each in other.steps), step]
        return Frame(text, columns, steps)


Step = Callable[[random.Random, Frame, "Writer"], Frame]


def filtered(rng: random.Random, frame: Frame, writer: "Writer") -> Frame:
    column = rng.choice(frame.columns)
    condition = rng.choice([f"{column} > 1", f"{column} IS NOT NULL", f"{column} % 2 = 0"])
    text = f"SELECT * FROM ({frame.text}) WHERE {condition}"
    return frame.then("filter", text, frame.columns)


def projected(rng: random.Random, frame: Frame, writer: "Writer") -> Frame:
    taken = rng.sample(frame.columns, rng.randint(1, len(frame.columns)))
    parts = [f"{each} AS {writer.name()}" for each in taken]
    parts.append(f"coalesce({taken[0]}, 0) % 3 AS {writer.name()}")
    columns = [part.split(" AS ")[1] for part in parts]
    return frame.then("project", f"SELECT {', '.join(parts)} FROM ({frame.text})", columns)


def grouped(rng: random.Random, frame: Frame, writer: "Writer") -> Frame:
    keys = rng.sample(frame.columns, rng.randint(1, min(2, len(frame.columns))))
    value = rng.choice(frame.columns)
    calls = [
        "COUNT(*)",
        f"COUNT({value})",
        f"SUM({value})",
        f"MIN({value})",
        f"MAX({value})",
        f"COUNT(DISTINCT {value})",
        f"SUM({value}) FILTER (WHERE {value} > 1)",
        f"SUM(DISTINCT {value})",
        f"CAST(AVG({value}) * 8 AS BIGINT)",
    ]
    chosen = [f"{call} AS {writer.name()}" for call in rng.sample(calls, rng.randint(1, 3))]
    names = [each.split(" AS ")[-1] for each in chosen]
    form = rng.choice(["{}", "{}", "{}", "ROLLUP ({})", "CUBE ({})"])
    by = form.format(", ".join(keys))
    having = rng.choice(["", "", " HAVING COUNT(*) > 1"])
    text = f"SELECT {', '.join([*keys, *chosen])} FROM ({frame.text}) GROUP BY {by}{having}"
    return frame.then("group", text, [*keys, *names])


def distinct(rng: random.Random, frame: Frame, writer: "Writer") -> Frame:
    taken = rng.sample(frame.columns, rng.randint(1, len(frame.columns)))
    return frame.then("distinct", f"SELECT DISTINCT {', '.join(taken)} FROM ({frame.text})", taken)


def combined(rng: random.Random, frame: Frame, writer: "Writer") -> Frame:
    other = writer.frame(rng, 1)
    width = min(2, len(frame.columns), len(other.columns))
    left, right = rng.sample(frame.columns, width), rng.sample(other.columns, width)
    names = [writer.name() for _ in range(width)]
    kind = rng.choice(["UNION", "INTERSECT", "EXCEPT"]) + rng.choice(["", " ALL"])
    sides = [
        f"SELECT {', '.join(f'CAST({c} AS BIGINT) AS {n}' for c, n in zip(cs, names, strict=True))}"
        f" FROM ({f.text})"
        for cs, f in ((left, frame), (right, other))
    ]
    return frame.then(kind.lower(), f"({sides[0]}) {kind} ({sides[1]})", names, other)


def joined(rng: random.Random, frame: Frame, writer: "Writer") -> Frame:
    other = writer.frame(rng, 1)
    kind = rng.choice(["INNER", "LEFT", "RIGHT", "FULL"])
    on = f"a.{rng.choice(frame.columns)} = b.{rng.choice(other.columns)}"
    if rng.random() < 0.3:
        on += f" AND a.{rng.choice(frame.columns)} < b.{rng.choice(other.columns)}"
    left = [f"a.{each} AS {writer.name()}" for each in frame.columns[:3]]
    right = [f"b.{each} AS {writer.name()}" for each in other.columns[:3]]
    text = (
        f"SELECT {', '.join([*left, *right])} FROM ({frame.text}) a {kind} JOIN ({other.text}) b"
        f" ON {on}"
    )
    columns = [each.split(" AS ")[1] for each in (*left, *right)]
    return frame.then(f"{kind.lower()} join", text, columns, other)


def related(rng: random.Random, frame: Frame, writer: "Writer") -> Frame:
    other = writer.frame(rng, 1)
    mine, theirs = rng.choice(frame.columns), rng.choice(other.columns)
    there = f"SELECT 1 FROM ({other.text}) b WHERE b.{theirs} = a.{mine}"
    kind, condition = rng.choice(
        [
            ("semi", f"EXISTS ({there})"),
            ("anti", f"NOT EXISTS ({there})"),
            ("in", f"a.{mine} IN (SELECT {theirs} FROM ({other.text}))"),
            ("not in", f"a.{mine} NOT IN (SELECT {theirs} FROM ({other.text}))"),
        ]
    )
    text = f"SELECT * FROM ({frame.text}) a WHERE {condition}"
    return frame.then(kind, text, frame.columns, other)


def ranked(rng: random.Random, frame: Frame, writer: "Writer") -> Frame:
    name = writer.name()
    partition = f"PARTITION BY {rng.choice(frame.columns)} " if rng.random() < 0.7 else ""
    order = ", ".join(f"{each} {rng.choice(['ASC', 'DESC'])}" for each in frame.columns)
    text = (
        f"SELECT {{}} FROM (SELECT *, ROW_NUMBER() OVER ({partition}ORDER BY {order}) AS {name}"
        f" FROM ({frame.text})) WHERE {name} <= {rng.randint(1, 3)}"
    )
    if rng.random() < 0.5:
        return frame.then("top-n", text.format(", ".join(frame.columns)), frame.columns)
    return frame.then("ranked top-n", text.format("*"), [*frame.columns, name])


def limited(rng: random.Random, frame: Frame, writer: "Writer") -> Frame:
    order = ", ".join(frame.columns)
    offset = rng.choice(["", "", " OFFSET 1"])
    text = f"SELECT * FROM ({frame.text}) ORDER BY {order} LIMIT {rng.randint(1, 4)}{offset}"
    return frame.then("limit", text, frame.columns)


def windowed(rng: random.Random, frame: Frame, writer: "Writer") -> Frame:
    name, value = writer.name(), rng.choice(frame.columns)
    partition = f"PARTITION BY {rng.choice(frame.columns)} " if rng.random() < 0.8 else ""
    order = ", ".join(frame.columns)
    call = rng.choice([f"SUM({value})", "ROW_NUMBER()", f"LAG({value})", "RANK()", "COUNT(*)"])
    text = f"SELECT *, {call} OVER ({partition}ORDER BY {order}) AS {name} FROM ({frame.text})"
    return frame.then("over", text, [*frame.columns, name])


STEPS: list[Step] = [
    filtered,
    projected,
    grouped,
    grouped,
    distinct,
    combined,
    joined,
    joined,
    related,
    ranked,
    limited,
    windowed,
]


class Writer:
    """Writes random queries over the sources."""

    def __init__(self, sources: dict[str, Changelog]) -> None:
        self._sources = sources
        self._names = 0

    def name(self) -> str:
        self._names += 1
        return f"c{self._names}"

    def frame(self, rng: random.Random, depth: int) -> Frame:
        source = rng.choice(list(self._sources))
        mode = self._sources[source].source.mode
        kind = f"{mode} source" if mode != "all" else "source"
        columns = list(self._sources[source].source.fields.names)
        frame = Frame(f"SELECT * FROM {source}", columns, [kind])
        for _ in range(depth):
            frame = rng.choice(STEPS)(rng, frame, self)
        return frame


def row(rng: random.Random) -> dict[str, object]:
    return {name: rng.choice([None, 0, 1, 2, 3, 4]) for name in ("id", "k", "v")}


def upserts(changes: list[dict[str, object]]) -> list[dict[str, object]]:
    return [each for each in changes if each["_row_kind"] != "-U"]


def run_one(seed: int) -> list[str]:
    """Run one random plan; give its steps in the order in which they take rows."""
    rng = random.Random(seed)
    kinds = {"id": "INT", "k": "INT", "v": "INT"}
    sources = {
        "plain": changelog(kinds, mode="all", name="plain"),
        "keyed": changelog(kinds, mode="all", name="keyed", primary_key=["id"]),
        "upserted": changelog(kinds, mode="upsert", name="upserted", primary_key=["id"]),
        "added": changelog(kinds, mode="insert", name="added"),
    }
    histories = {
        name: RandomHistory(rng, row, keyed=name in ("keyed", "upserted")) for name in sources
    }
    writer = Writer(sources)
    frame = writer.frame(rng, rng.randint(1, 3))
    relation = query(frame.text, **sources)
    read = {name: each for name, each in sources.items() if f"FROM {name}" in frame.text}
    parts, memory = rng.choice([1, 1, 3]), rng.choice([1 << 12, 1 << 20])
    cached = (None, 1 << 12, 1 << 20)[seed % 3]
    run = Continuous(relation, read, parts=parts, memory=memory, cached=cached)
    for size in (rng.randint(1, 30), 1, rng.choice([0, 3]), rng.randint(5, 60)):
        for name in rng.sample(list(read), rng.randint(1, len(read))):
            changes = histories[name].epoch(size, inserts=name == "added")
            read[name].push(upserts(changes) if name == "upserted" else changes)
        run.run()
        run.check()
    return frame.steps


@pytest.mark.sampled(1)
@pytest.mark.parametrize("group", range(GROUPS))
def test_random_plans_equal_their_bounded_runs(group: int, record_property) -> None:
    met: Counter[str] = Counter()
    for seed in range(group, examples(SEEDS), GROUPS):
        try:
            steps = run_one(seed)
        except Exception as error:
            if "this Over does not run" in str(error):
                continue
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        met.update(f"{one} ▶ {other}" for one, other in itertools.pairwise(steps))
    record_property("pairs", dict(met))
