import random

import pytest

from pkray.relational import changelog, query
from tests.unit.relational.continuous.histories import Continuous, kinds_of

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
