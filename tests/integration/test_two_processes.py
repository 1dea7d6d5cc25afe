"""Processes that do not know of each other write one table, each with its embedded runtime."""

import contextlib
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pkray
from tests.integration.readers import read_with_rust

SCHEMA = pa.schema([("id", pa.int64()), ("user", pa.int32()), ("turn", pa.int32())])
COMMITS = pytest.mark.parametrize("commits", [40, pytest.param(100, marks=pytest.mark.slow)])
COMMIT_ROWS = 20
OWN_KEYS = 1_000_000
"""What the processes' distinct keys are apart by."""
SHARED_KEYS = 37


@pytest.fixture
def warehouse(tmp_path) -> str:
    with pkray.connect(str(tmp_path)) as catalog:
        options = {"bucket": "2", "num-sorted-run.compaction-trigger": "5"}
        catalog.create_table("db.t", SCHEMA, ["id"], options=options)
    return str(tmp_path)


def both(work: Callable[..., Any], warehouse: str, *arguments: Any) -> list[Any]:
    """The results of two new processes that begin together."""
    start = time.time() + 1.5
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context) as pool:
        running = [pool.submit(work, warehouse, start, user, *arguments) for user in range(2)]
        return [each.result(timeout=240) for each in running]


def own_rows(user: int, turn: int) -> pa.Table:
    ids = pa.array(range(user * OWN_KEYS + turn * 15, user * OWN_KEYS + turn * 15 + COMMIT_ROWS))
    return _labelled(ids, user, turn)


def shared_rows(user: int, turn: int) -> pa.Table:
    ids = sorted({(turn * 7 + n) % SHARED_KEYS for n in range(COMMIT_ROWS)})
    return _labelled(pa.array(ids, pa.int64()), user, turn)


def _labelled(ids: pa.Array, user: int, turn: int) -> pa.Table:
    labels = [pa.array([number] * len(ids), pa.int32()) for number in (user, turn)]
    return pa.table([ids, *labels], schema=SCHEMA)


def commit_and_read(
    warehouse: str, start: float, user: int, commits: int, overlapping: bool
) -> None:
    """Commits, every tenth of which is seen at once by this process's reads and lookups."""
    make = shared_rows if overlapping else own_rows
    with pkray.connect(warehouse) as catalog:
        table = catalog.load_table("db.t")
        time.sleep(max(0.0, start - time.time()))
        with table.open_writer(f"user-{user}") as writer:
            for turn in range(commits):
                rows = make(user, turn)
                writer.upsert(rows)
                writer.commit(commit_identifier=turn)
                if turn % 10 == 0:
                    check_read(table, rows, overlapping)


def check_read(table: pkray.Table, rows: pa.Table, overlapping: bool) -> None:
    seen = table.to_arrow(snapshot_id=table.latest_snapshot().id)
    ids = seen["id"].to_pylist()
    assert len(ids) == len(set(ids)), "a key is there twice"
    assert set(rows["id"].to_pylist()) <= set(ids), "committed rows are missing"
    found = table.lookup(rows.select(["id"]), visibility="committed")
    assert found["id"].to_pylist() == rows["id"].to_pylist()
    if not overlapping:
        assert found.to_pylist() == rows.to_pylist()


def commit_same(warehouse: str, start: float, user: int, identifiers: range) -> list[int]:
    """The ids of the snapshots that the commits gave; whoever is fenced takes over again."""
    with pkray.connect(warehouse) as catalog:
        table = catalog.load_table("db.t")
        found: list[int] = []
        while len(found) < len(identifiers):
            identifier = identifiers[len(found)]
            with table.open_writer("the-same") as writer:
                writer.upsert(own_rows(user, identifier))
                time.sleep(max(0.0, start + identifier * 0.15 - time.time()))
                with contextlib.suppress(pkray.CommitFencedError):
                    found.append(writer.commit(commit_identifier=identifier).id)
        return found


def committed_names(table: pkray.Table) -> list[tuple[str, int]]:
    snapshots = table.snapshots()
    appended = snapshots.filter(pc.equal(snapshots["commit_kind"], "APPEND"))
    columns = [appended[name].to_pylist() for name in ("commit_user", "commit_identifier")]
    return sorted(zip(*columns, strict=True))


def check_ids(table: pkray.Table) -> None:
    ids = table.snapshots()["snapshot_id"].to_pylist()
    assert ids == list(range(1, len(ids) + 1))
    files = {path.name for path in Path(table.location.url, "snapshot").iterdir()}
    assert {f"snapshot-{n}" for n in ids} <= files


def content(rows: pa.Table) -> dict[int, tuple[int, int]]:
    columns = [rows[name].to_pylist() for name in SCHEMA.names]
    found = {key: (user, turn) for key, user, turn in zip(*columns, strict=True)}
    assert len(found) == rows.num_rows
    return found


@COMMITS
@pytest.mark.parametrize("overlapping", [False, True], ids=["own keys", "same keys"])
def test_both_commit(warehouse, commits, overlapping):
    both(commit_and_read, warehouse, commits, overlapping)
    with pkray.connect(warehouse) as catalog:
        table = catalog.load_table("db.t")
        check_ids(table)
        assert committed_names(table) == [
            (f"user-{u}", t) for u in range(2) for t in range(commits)
        ]
        assert "COMPACT" in table.snapshots()["commit_kind"].to_pylist()
        expected = latest_of(table, shared_rows if overlapping else own_rows)
        keys = pa.table({"id": pa.array(list(expected))})
        for visibility in ("committed", "latest"):
            assert content(table.to_arrow()) == expected
            assert content(table.lookup(keys, visibility=visibility)) == expected
            assert content(read_with_rust(warehouse, "db.t")) == expected
            table.compact(full=True)


def latest_of(table: pkray.Table, rows: Callable[..., pa.Table]) -> dict[int, tuple[int, int]]:
    """What the rows are when commits are applied in the order of their snapshots."""
    snapshots = table.snapshots()
    appended = snapshots.filter(pc.equal(snapshots["commit_kind"], "APPEND"))
    expected: dict[int, tuple[int, int]] = {}
    for row in appended.to_pylist():
        user = int(row["commit_user"].removeprefix("user-"))
        expected |= content(rows(user, row["commit_identifier"]))
    return expected


def test_the_same_commits_from_two_processes_happen_once(warehouse):
    identifiers = range(12)
    answers = both(commit_same, warehouse, identifiers)
    with pkray.connect(warehouse) as catalog:
        table = catalog.load_table("db.t")
        check_ids(table)
        assert committed_names(table) == [("the-same", n) for n in identifiers]
        found = content(table.to_arrow())
        made = table.snapshots()
        winners = {n: {u for u in range(2) if (u, n) in set(found.values())} for n in identifiers}
        assert all(len(users) == 1 for users in winners.values()), winners
        expected: dict[int, tuple[int, int]] = {}
        for identifier, (user,) in winners.items():
            expected |= content(own_rows(user, identifier))
        assert found == expected
        by_id = dict(
            zip(made["snapshot_id"].to_pylist(), made["commit_identifier"].to_pylist(), strict=True)
        )
        for snapshots in answers:
            assert [by_id[snapshot] for snapshot in snapshots] == list(identifiers)
