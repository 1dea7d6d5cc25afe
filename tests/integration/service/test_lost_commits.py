"""A commit whose answer was lost, then a rollback by another process, then the commit again."""

import pytest
from compaction_samples import live_names, missing_files

from pkray.errors import CommitUnknownError, LostBatchesError
from pkray.expiration.rollback import Rollback


def lose_the_answer(process, user, *, publish=True):
    """The next commit of the user happens, or not, and nobody is told."""
    committer = process.committers.for_user(user)
    plain = committer.commit

    def commit(*args, **kwargs):
        committer.commit = plain
        if publish:
            plain(*args, **kwargs)
        raise CommitUnknownError("no answer", user=user)

    committer.commit = commit


def unanswered(process, *, publish=True):
    """A session whose commit nobody was told of; the next to finish it repeats that commit."""
    process.commit({1: "first"})
    session = process.begin()
    process.write(session, {2: "second"})
    lose_the_answer(process, process.name, publish=publish)
    with pytest.raises(CommitUnknownError):
        process.finish(session)
    process.identifier -= 1
    return session


def roll_back(process, snapshot_id):
    Rollback(process.store, process.schema).to_snapshot(snapshot_id)


def test_what_a_rollback_deleted_is_not_committed_but_asked_for_again(started):
    process = started(**{"write-buffer-size": "1 b"})
    session = unanswered(process)
    roll_back(process, 1)
    with pytest.raises(LostBatchesError, match="rolled back; push them again"):
        process.finish(session)
    process.write(session, {2: "second"})
    process.identifier -= 1
    process.finish(session)
    assert process.content() == {1: "first", 2: "second"}
    assert not missing_files(process.store)


def test_what_a_rollback_deleted_is_committed_again_while_it_is_in_memory(started):
    process = started()
    session = unanswered(process)
    roll_back(process, 1)
    process.finish(session)
    assert process.content() == {1: "first", 2: "second"}
    assert not missing_files(process.store)


def test_what_a_rollback_may_delete_yet_is_committed_in_other_files(started):
    process = started(**{"changelog-producer": "input"})
    session = unanswered(process, publish=False)
    before = process.stored()
    process.finish(session)
    live = live_names(process.store)
    assert len(live - before) == 1, "the file of the commit that was lost is not named"
    assert len(process.stored() - before) == 2, "nor that of its changelog"
    assert process.content() == {1: "first", 2: "second"}


def test_a_commit_that_others_overtook_keeps_its_files(started):
    process, other = started("a"), started("b")
    process.commit({1: "first"})
    session = process.begin()
    process.write(session, {2: "second"})
    committer, done = process.committers.for_user("a"), []
    plain = committer.commit

    def commit(*args, **kwargs):
        if not done:
            done.append(other.commit({1: "theirs"}))
            kept.update(process.stored())
        return plain(*args, **kwargs)

    committer.commit, kept = commit, set()
    process.finish(session)
    live = live_names(process.store)
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
    assert not missing_files(process.store)
    process.executor.run()
    process.coordinator.commit_finished()
    assert process.content() == {0: "x", 1: "x", 2: "x", 9: "y"}
    assert not missing_files(process.store)
