"""A commit whose answer was lost, then a rollback by another process, then the commit again."""

from __future__ import annotations

import pytest
from compaction_samples import Process

from pkray.commit.rollback import Rollback
from pkray.commit.snapshots import SnapshotStore
from pkray.errors import CommitUnknownError, LostBatchesError
from pkray.scan.files import live_files


@pytest.fixture
def started(tmp_path):
    running = []

    def start(name="a", **options):
        running.append(Process(tmp_path, name, lambda: 1_000_000, **options))
        return running[-1]

    yield start
    for process in running:
        process.close()


def lose_the_answer(process, user, *, publish=True):
    """The next commit of the user happens, or not, and nobody is told."""
    committer = process.committers.of(user)
    plain = committer.commit

    def commit(*args, **kwargs):
        committer.commit = plain
        if publish:
            plain(*args, **kwargs)
        raise CommitUnknownError("no answer", user=user)

    committer.commit = commit


def roll_back(process, snapshot_id):
    Rollback(process.store, process.schema).to_snapshot(snapshot_id)


def missing_files(process):
    latest = SnapshotStore(process.store).latest()
    entries = live_files(process.store, latest)
    return {entry.file.file_name for entry in entries} - process.stored()


def test_what_a_rollback_deleted_is_not_committed_but_asked_for_again(started):
    process = started(**{"write-buffer-size": "1 b"})
    process.commit({1: "first"})
    session = process.begin()
    process.write(session, {2: "second"})
    lose_the_answer(process, "a")
    with pytest.raises(CommitUnknownError):
        process.finish(session)
    roll_back(process, 1)
    process.identifier -= 1
    with pytest.raises(LostBatchesError, match="rolled back; push them again"):
        process.finish(session)
    process.write(session, {2: "second"})
    process.identifier -= 1
    process.finish(session)
    assert process.content() == {1: "first", 2: "second"}
    assert not missing_files(process)


def test_what_a_rollback_deleted_is_committed_again_while_it_is_in_memory(started):
    process = started()
    process.commit({1: "first"})
    session = process.begin()
    process.write(session, {2: "second"})
    lose_the_answer(process, "a")
    with pytest.raises(CommitUnknownError):
        process.finish(session)
    roll_back(process, 1)
    process.identifier -= 1
    process.finish(session)
    assert process.content() == {1: "first", 2: "second"}
    assert not missing_files(process)


def test_what_a_rollback_may_delete_yet_is_committed_in_other_files(started):
    process = started(**{"changelog-producer": "input"})
    process.commit({1: "first"})
    session = process.begin()
    process.write(session, {2: "second"})
    lose_the_answer(process, "a", publish=False)
    with pytest.raises(CommitUnknownError):
        process.finish(session)
    before = process.stored()
    process.identifier -= 1
    process.finish(session)
    live = {entry.file.file_name for entry in live_files(process.store, latest(process))}
    assert len(live - before) == 1, "the file of the commit that was lost is not named"
    assert len(process.stored() - before) == 2, "nor that of its changelog"
    assert process.content() == {1: "first", 2: "second"}


def test_a_commit_that_others_overtook_keeps_its_files(started):
    process, other = started("a"), started("b")
    process.commit({1: "first"})
    session = process.begin()
    process.write(session, {2: "second"})
    committer, done = process.committers.of("a"), []
    plain = committer.commit

    def commit(*args, **kwargs):
        if not done:
            done.append(other.commit({1: "theirs"}))
            kept.update(process.stored())
        return plain(*args, **kwargs)

    committer.commit, kept = commit, set()
    process.finish(session)
    live = {entry.file.file_name for entry in live_files(process.store, latest(process))}
    assert len(live - kept) == 1, "rows are numbered anew, once"
    assert process.content() == {1: "theirs", 2: "second"}


def test_a_compaction_that_a_rollback_deleted_is_not_committed_again(started):
    process = started()
    for number in range(3):
        process.commit({number: "x"})
    process.executor.run()
    lose_the_answer(process, process.coordinator._compact_user)
    with pytest.raises(CommitUnknownError):
        process.coordinator.commit_finished()
    roll_back(process, 3)
    process.commit({9: "y"})
    assert not missing_files(process)
    process.executor.run()
    process.coordinator.commit_finished()
    assert process.content() == {0: "x", 1: "x", 2: "x", 9: "y"}
    assert not missing_files(process)


def latest(process):
    return SnapshotStore(process.store).latest()
