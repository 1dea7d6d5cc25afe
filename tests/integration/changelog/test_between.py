"""What changed between two snapshots, in sum."""

import random
from itertools import product

import pytest
from change_samples import TABLES, create, put, random_step, state_at

from pkray.errors import OptionError, SnapshotNotFoundError, TagNotFoundError


def applied(state, changes):
    after = dict(state)
    for row in changes.to_pylist():
        if row["_row_kind"] == "-D":
            after.pop(row["k"], None)
        else:
            assert row["_row_kind"] in ("+I", "+U")
            after[row["k"]] = row["v"]
    assert changes["k"].to_pylist() == list(dict.fromkeys(changes["k"].to_pylist())), "one a key"
    return after


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["none", "input", "lookup", "vectors-lookup"])
def test_changes_between_any_two_snapshots_turn_one_into_the_other(tmp_path, name):
    modes = ("auto", "delta", "diff") if name == "none" else ("auto", "delta", "changelog", "diff")
    with create(tmp_path, TABLES[name]) as catalog:
        table = catalog.load_table("db.t")
        rng = random.Random(name)
        while table.latest_snapshot() is None or table.latest_snapshot().id < 7:
            random_step(table, rng)
        last = table.latest_snapshot().id
        kinds = [table.snapshot(number).commit_kind for number in range(1, last + 1)]
        # What readers of the other tables see changes with the compaction that ends a commit.
        whole = [
            n for n in range(1, last + 1) if name in ("none", "input") or kinds[n - 1] == "COMPACT"
        ]
        states = {0: {}} | {number: state_at(table, number) for number in whole}
        pairs = [(start, end) for start in states for end in whole if end >= start]
        for (start, end), mode in product(pairs, modes):
            changes = table.changes(start, end, mode=mode)
            assert applied(states[start], changes) == states[end], (start, end, mode)


@pytest.fixture
def table(tmp_path):
    with create(tmp_path, {"bucket": "1", "num-sorted-run.compaction-trigger": "9"}) as catalog:
        table = catalog.load_table("db.t")
        put(table, {1: "a", 2: "b"})
        put(table, {1: "a", 2: "c", 3: "d"})
        put(table, {4: "e"}, [1])
        table.tags.create("one", 1)
        table.tags.create("three", 3)
        yield table


def rows(changes):
    return [tuple(row.values()) for row in changes.to_pylist()]


def test_a_difference_has_what_is_another_row(table):
    assert rows(table.changes(1, 3, mode="diff")) == [
        ("-D", 1, "a"),
        ("+U", 2, "c"),
        ("+I", 3, "d"),
        ("+I", 4, "e"),
    ]


def test_between_tags_is_a_difference_even_of_expired_snapshots(table):
    expected = rows(table.changes(1, 3, mode="diff"))
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert rows(table.changes("one", "three")) == expected
    with pytest.raises(SnapshotNotFoundError, match="those of 3 alone"):
        table.changes(1, 3)


def test_between_an_id_and_a_tag_is_what_was_added(table):
    assert rows(table.changes(2, "three")) == [("-D", 1, None), ("+I", 4, "e")]
    assert rows(table.changes("one", "2")) == [("+I", 1, "a"), ("+I", 2, "c"), ("+I", 3, "d")]


def test_columns_and_a_filter(table):
    found = table.changes(0, 3, mode="diff", columns=["v"], filter="k > 2")
    assert found.to_pydict() == {"_row_kind": ["+I", "+I"], "v": ["d", "e"]}


def test_nothing_changed_between_a_snapshot_and_itself(table):
    for mode in ("auto", "delta", "changelog", "diff"):
        assert table.changes(2, 2, mode=mode).num_rows == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"start": 3, "end": 1}, OptionError),
        ({"start": 1}, OptionError),
        ({"start_timestamp": 5}, OptionError),
        ({"start": 1, "end": 2, "start_timestamp": 5, "end_timestamp": 6}, OptionError),
        ({"start_timestamp": 6, "end_timestamp": 5}, OptionError),
        ({"start": 1, "end": 2, "mode": "guess"}, OptionError),
        ({}, OptionError),
        ({"start": 1, "end": 9}, SnapshotNotFoundError),
        ({"start": "none such", "end": 2}, TagNotFoundError),
    ],
)
def test_what_is_no_range_is_refused(table, arguments, error):
    with pytest.raises(error):
        table.changes(**arguments)


def test_between_times(table):
    times = [snapshot["commit_time"] for snapshot in table.snapshots().to_pylist()]
    found = table.changes(start_timestamp=times[1], end_timestamp=times[2])
    if times[1] == times[2]:
        assert not found.num_rows
    else:
        assert ("+I", 4, "e") in rows(found)
    assert rows(table.changes(start_timestamp=0, end_timestamp=times[2])) == rows(
        table.changes(0, 3)
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"incremental-between": "1,3"}, [(2, "c"), (3, "d"), (4, "e")]),
        ({"incremental-between": "one, three"}, [(2, "c"), (3, "d"), (4, "e")]),
        ({"incremental-between": "2,3", "scan.mode": "incremental"}, [(4, "e")]),
        ({"incremental-between-timestamp": "0,99999999999999"}, [(2, "c"), (3, "d"), (4, "e")]),
    ],
)
def test_the_tables_options_make_batch_reads_incremental(table, options, expected):
    changes = {**options, "incremental-between-scan-mode": "diff"}
    if "timestamp" in next(iter(options)):
        del changes["incremental-between-scan-mode"]
    table.alter.set_options(changes)
    assert rows(table.to_arrow()) == expected
    assert rows(table.to_arrow(["v"], "k > 3")) == [("e",)]
    assert next(table.to_batches()).schema == table.arrow_schema
    assert len(table.to_arrow(snapshot_id=3)) == 3, "a moment that is named is read whole"
    assert table.changes().num_rows >= len(expected)


def test_an_option_that_is_no_range_is_refused(table):
    table.alter.set_options({"incremental-between": "1"})
    with pytest.raises(OptionError, match="comma"):
        table.to_arrow()
