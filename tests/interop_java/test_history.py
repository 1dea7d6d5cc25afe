"""Paimon's Java core goes on with what pkray tagged, branched, expired and rolled back."""

from typing import Any

import pytest

from tests.interop_java.both import Both
from tests.interop_java.java_core import JavaError

COLUMNS = {"k": "INT", "v": "STRING"}


def values(both: Both, reader: str = "java", **moment: Any) -> dict[int, str]:
    return dict(sorted(both.content(reader, **moment).values()))


@pytest.fixture
def both(make: Any) -> Both:
    """Five commits, of both in turn."""
    made: Both = make(COLUMNS, ["k"], (), {"num-sorted-run.compaction-trigger": "3"})
    for turn in range(5):
        writer = ("pkray", "java")[turn % 2]
        made.write(writer, [["+I", key, f"{turn}"] for key in (turn, turn + 1)])
    return made


def test_tags_outlive_expired_snapshots(both: Both) -> None:
    first = both.table.snapshots()["snapshot_id"][0].as_py()
    both.table.tags.create("plain", first)
    both.table.tags.create("limited", first + 1, "7 d")
    expected = {tag: values(both, "pkray", tag=tag) for tag in ("plain", "limited")}
    both.table.expire_snapshots(retain_max=1)
    both.write("java", [["-D", 0, None], ["+I", 9, "java"]])
    assert {tag: values(both, tag=tag) for tag in expected} == expected
    both.check()
    with pytest.raises(JavaError):
        values(both, snapshot=first)


def test_a_branch_is_read_by_both(both: Both) -> None:
    both.table.tags.create("start")
    both.table.branches.create("trial", tag="start")
    before = values(both)
    both.table.branch("trial").upsert(
        [{"k": 70, "v": "branch"}], commit_user="job", commit_identifier=1
    )
    assert values(both, branch="trial") == {**before, 70: "branch"}
    assert values(both) == before
    both.table.branches.fast_forward("trial")
    assert values(both) == {**before, 70: "branch"}
    both.write("java", [["+I", 71, "java"]])
    assert 71 in values(both, "pkray")
    both.check()


def test_java_goes_on_after_a_rollback(both: Both) -> None:
    second = both.table.snapshots()["snapshot_id"][1].as_py()
    expected = values(both, "pkray", snapshot=second)
    both.table.rollback_to(second)
    assert values(both) == expected
    both.write("java", [["+I", 80, "java"]])
    both.write("pkray", [["+I", 81, "pkray"]], full_compact=True)
    assert values(both) == {**expected, 80: "java", 81: "pkray"}
    both.check()


def test_java_goes_on_after_a_rescale_and_a_new_column(both: Both) -> None:
    before = values(both)
    both.table.rescale(3)
    assert values(both) == before
    both.write("java", [["+I", 90, "java"]])
    both.write("pkray", [["+I", 90, "pkray"]])
    assert both.check().keys() == {str([key]) for key in (*before, 90)}
    assert set(both.table.files()["bucket"].to_pylist()) == {0, 1, 2}
