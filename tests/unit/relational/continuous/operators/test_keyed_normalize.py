import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from pkray.relational import Changelog, changelog, from_arrow, query
from tests.unit.relational.continuous.histories import Continuous, kinds_of, rows_of
from tests.unit.relational.continuous.parallel.teams import Workers

COLUMNS = {"id": "INT", "msg": "STRING"}


@pytest.mark.parametrize("text", ["SELECT * FROM t", "SELECT msg FROM t WHERE msg <> 'b'"])
def test_keys_that_are_put_and_deleted_equal_the_bounded_run(text: str) -> None:
    rng = random.Random(text)
    t = changelog(COLUMNS, primary_key=["id"], mode="upsert", name="t")
    run = Continuous(query(text, t=t), {"t": t}, memory=2048, parts=3)
    for size in (10, 1, 60, 20):
        rows = [
            {
                "_row_kind": rng.choice(["+I", "+U", "-D"]),
                "id": rng.randrange(12),
                "msg": rng.choice([None, "a", "b", "c"]),
            }
            for _ in range(size)
        ]
        run.push("t", rows)
        run.check()


def test_repeats_and_unknown_deletes_vanish() -> None:
    t = changelog(COLUMNS, primary_key=["id"], mode="upsert", name="t")
    run = Continuous(query("SELECT * FROM t", t=t), {"t": t})
    run.push("t", [{"_row_kind": "+U", "id": 1, "msg": "a"}])
    made = run.push(
        "t",
        [
            {"_row_kind": "+U", "id": 1, "msg": "b"},
            {"_row_kind": "+U", "id": 1, "msg": "a"},
            {"_row_kind": "-D", "id": 2, "msg": "never"},
        ],
    )
    assert not len(made)


def test_a_delete_by_key_alone_gets_its_whole_row() -> None:
    t = changelog(COLUMNS, primary_key=["id"], mode="upsert", name="t")
    run = Continuous(query("SELECT * FROM t", t=t), {"t": t})
    run.push("t", [{"_row_kind": "+U", "id": 1, "msg": "a"}])
    made = run.push("t", [{"_row_kind": "-D", "id": 1, "msg": None}])
    assert kinds_of(made) == [("-D", (1, "a"))]


SCHEMA = pa.schema([("id", pa.int32()), ("msg", pa.string())])
Told = tuple[str, int, str]
HISTORY: list[Told] = [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b")]


def told_twice() -> Changelog:
    return changelog(COLUMNS, primary_key=["id"], mode="all", name="t")


def epochs(told: list[Told], apart: bool) -> list[list[Told]]:
    return [[each] for each in told] if apart else [told]


def pushed(told: list[Told]) -> list[dict[str, Any]]:
    return [{"_row_kind": kind, "id": key, "msg": msg} for kind, key, msg in told]


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        ([("-U", 1, "a"), ("+U", 1, "b")], []),
        ([("-U", 1, "a")], []),
        ([("-U", 1, "b")], []),
        ([("+I", 1, "b"), ("+I", 1, "b")], []),
        ([("-D", 1, "b"), ("-D", 1, "b")], [("-D", (1, "b"))]),
        (HISTORY[:1], [("-U", (1, "b")), ("+U", (1, "a"))]),
        ([("-U", 1, "b"), ("+U", 1, "c")], [("-U", (1, "b")), ("+U", (1, "c"))]),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_changes_that_come_twice_count_once(apart: bool, again: Any, expected: Any) -> None:
    t = told_twice()
    run = Continuous(query("SELECT * FROM t", t=t), {"t": t}, twice=True)
    for told in epochs(HISTORY, apart):
        run.push("t", pushed(told))
    made = [run.push("t", pushed(told)) for told in epochs(again, apart)]
    assert [change for changes in made for change in kinds_of(changes)] == expected
    run.check()


def test_an_update_whose_halves_come_in_two_epochs_is_told_once_it_is_whole() -> None:
    t = told_twice()
    run = Continuous(query("SELECT * FROM t", t=t), {"t": t}, twice=True)
    told = [kinds_of(run.push("t", pushed([each]))) for each in HISTORY]
    assert told == [[("+I", (1, "a"))], [], [("-U", (1, "a")), ("+U", (1, "b"))]]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    "text", ["SELECT * FROM t", "SELECT msg, count(*) AS n, sum(id) AS s FROM t GROUP BY msg"]
)
def test_histories_that_are_told_again_equal_the_newest_row_of_each_key(
    text: str, workers: int
) -> None:
    rng = random.Random(text)
    t = told_twice()
    run = Workers(query(text, t=t), workers, twice=True)
    model: dict[int, str] = {}
    history: list[Told] = []
    for _ in range(12):
        new: list[Told] = []
        for key in rng.choices(range(9), k=6):
            before, after = model.get(key), rng.choice([*"abcd", None])
            if before is None and after is not None:
                new.append(("+I", key, after))
            elif before is not None and after is None:
                new.append(("-D", key, before))
            elif before is not None and after is not None:
                new += [("-U", key, before), ("+U", key, after)]
            if after is None:
                model.pop(key, None)
            else:
                model[key] = after
        history += new
        again = history[-rng.randrange(1, 20) :]
        t.push(pushed([*new, *again][: rng.randrange(len(new) + 1)]))
        t.push(pushed([*new, *again]))
        run.step()
        rows = pa.table([list(model), list(model.values())], schema=SCHEMA)
        expected = rows_of(query(text, t=from_arrow(rows)).to_arrow())
        assert run.content == Counter(expected)
    run.close()
