import random

import pytest

from pkray.relational import changelog, query
from tests.unit.relational.continuous.histories import Continuous, RandomHistory, kinds_of

COLUMNS = {"id": "INT", "k": "STRING", "v": "DOUBLE"}
OPERATIONS = ["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"]


def row(rng: random.Random) -> dict[str, object]:
    return {
        "id": rng.randrange(4),
        "k": rng.choice([None, "a", "b"]),
        "v": rng.choice([None, 0.5, float("nan")]),
    }


@pytest.mark.sampled(8)
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("inserts", [True, False])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_set_operations_equal_the_bounded_run(operation: str, inserts: bool, keyed: bool) -> None:
    rng = random.Random(f"{operation} {inserts} {keyed}")
    mode = "insert" if inserts else "all"
    key = ["id"] if keyed else None
    sources = {
        name: changelog(COLUMNS, primary_key=key, mode=mode, name=name) for name in ("l", "r")
    }
    text = f"SELECT k, v FROM l {operation} SELECT k, v FROM r"
    run = Continuous(query(text, **sources), sources, memory=2048, parts=rng.choice([1, 3]))
    histories = {name: RandomHistory(rng, row, keyed=keyed) for name in sources}
    for size in (10, 1, 30, 5):
        for name, history in histories.items():
            sources[name].push(history.epoch(size, inserts=inserts))
        run.run()
        run.check()


def test_a_retraction_of_an_unknown_row_stops_no_other_row() -> None:
    t = changelog({"k": "INT"}, mode="all", name="t")
    run = Continuous(query("SELECT DISTINCT k FROM t", t=t), {"t": t})
    changes = [("-D", 1), ("+I", 1), ("-U", 2), ("+U", 3), ("+I", 3), ("-D", 3)]
    made = run.push("t", [{"_row_kind": kind, "k": k} for kind, k in changes])
    assert kinds_of(made) == [("+I", (1,)), ("+I", (3,))]


def test_a_repeated_row_is_given_again_where_state_expires() -> None:
    t = changelog({"k": "INT"}, mode="all", name="t")
    run = Continuous(query("SELECT DISTINCT k FROM t", t=t), {"t": t}, ttl="1 s")
    run.push("t", [{"_row_kind": "+I", "k": 1}], 0)
    again = run.push("t", [{"_row_kind": "+I", "k": 1}], 600)
    assert kinds_of(again) == [("-U", (1,)), ("+U", (1,))]
    assert kinds_of(run.push("t", [{"_row_kind": "+I", "k": 1}], 1500)) == kinds_of(again)
    assert kinds_of(run.push("t", [{"_row_kind": "+I", "k": 1}], 2500)) == [("+I", (1,))]
