"""Two processes with background compactions under random interleavings, against a dict."""

import tempfile
from typing import Any

import pytest
from compaction_samples import Process
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.changelog.reader import ChangelogReader
from pkray.errors import StorageFullError
from pkray.metadata.live import live_files
from pkray.metadata.snapshots import SnapshotStore
from tests.effort import examples

ROWS = st.dictionaries(st.integers(0, 6), st.none() | st.sampled_from("xyz"), min_size=1)
STEP = st.one_of(
    st.tuples(st.just("commit"), st.booleans(), ROWS),
    st.tuples(st.just("commit"), st.booleans(), ROWS),
    st.tuples(st.just("overtaken"), st.booleans(), ROWS, ROWS),
    st.tuples(st.just("abort"), st.booleans(), ROWS),
    st.tuples(
        st.sampled_from(["finish", "fail", "collect", "compact", "full", "restart", "rest"]),
        st.booleans(),
    ),
)


def overtaken(late: Process, early: Process, mine: dict, theirs: dict) -> None:
    """One commits between another's preparing and publishing."""
    committer = late.committers.for_user(late.name)
    plain, done = committer.commit, []

    def commit(*args: Any, **kwargs: Any) -> Any:
        if not done:
            done.append(early.commit(theirs))
        return plain(*args, **kwargs)

    committer.commit = commit
    try:
        late.commit(mine)
    finally:
        committer.commit = plain


def carry_out(step: tuple, a: Process, b: Process, model: dict) -> None:
    what, first, *rows = step
    process, other = (a, b) if first else (b, a)
    if what == "commit":
        process.commit(rows[0])
        model |= rows[0]
    elif what == "overtaken":
        overtaken(process, other, *rows)
        model |= rows[1] | rows[0]
    elif what == "abort":
        session = process.begin()
        process.write(session, rows[0])
        process.coordinator.abort(session)
    elif what == "finish":
        process.executor.run()
    elif what == "fail":
        process.executor.run(StorageFullError("no space left", path="x"))
    elif what == "collect":
        process.coordinator.commit_finished()
    elif what in ("compact", "full"):
        process.executor.run()
        process.compact(full=what == "full")
    elif what == "restart":
        process.restart()
    else:
        process.now[0] += 3_000_000


def replayed(process: Process) -> dict[int, str]:
    """The changelog, applied in order; each old image must be the one that was there."""
    table: dict[int, str] = {}
    for batch in ChangelogReader(process.store, process.schema).read(None, None):
        for row in batch.to_pylist():
            if row["_row_kind"] in ("-U", "-D"):
                assert table.pop(row["id"]) == row["v"]
            else:
                assert row["id"] not in table
                table[row["id"]] = row["v"]
    return table


@pytest.mark.sampled(2)
@pytest.mark.parametrize("producer", ["none", "lookup", "lookup later", "full-compaction"])
@settings(max_examples=examples(4))
@given(steps=st.lists(STEP, max_size=14))
def test_every_interleaving_gives_the_rows_in_the_order_of_their_commits(
    producer: str, steps: list[tuple]
) -> None:
    now = [1_000_000]
    options = {"changelog-producer": producer.split()[0], "num-sorted-run.stop-trigger": "99"}
    if producer == "lookup later":
        options["lookup-wait"] = "false"
    with tempfile.TemporaryDirectory() as folder:
        a, b = (Process(folder, name, lambda: now[0], **options) for name in "ab")
        a.now = b.now = now
        try:
            model: dict[int, str | None] = {}
            for step in steps:
                for process in (a, b):
                    if len(process.executor.waiting) and len(process.levels()) >= 8:
                        process.executor.run()  # else writers would wait for it
                        process.coordinator.commit_finished()
                carry_out(step, a, b, model)
                expected = {key: v for key, v in sorted(model.items()) if v is not None}
                assert a.content() == b.content() == expected
            a.executor.run()
            a.compact(full=True)
            assert a.content() == b.content() == {k: v for k, v in sorted(model.items()) if v}
            if producer != "none":
                assert replayed(a) == a.content()
            b.executor.run()
            for process in (a, b):
                process.close()
            latest = SnapshotStore(a.store).latest()
            live = [entry.file for entry in live_files(a.store, latest)] if latest else []
            assert {file.file_name for file in live} <= a.stored()
            assert all(file.level == 3 for file in live)
        finally:
            a.owner.close()
            b.owner.close()
