"""Commits whose identifier is chosen as they are made: each happens once, and none is dropped."""

import pytest

from pkray.commit.committer import Committer
from pkray.errors import CommitError, CommitUnknownError, StorageError
from pkray.metadata.commit_name import CommitToken
from pkray.metadata.live import live_files
from pkray.metadata.snapshots import SnapshotStore
from tests.commit_samples import WrappedStore, data_file, message, schema


def names(store):
    return sorted(e.file.file_name for e in live_files(store, SnapshotStore(store).latest()))


def identifiers(store):
    return [snapshot.commit_identifier for snapshot in SnapshotStore(store).all()]


def commit(store, uuid, name, user="u"):
    return Committer(store, schema(), user).commit(
        CommitToken(uuid, 0), [message([data_file(name)])]
    )


def test_a_commit_of_the_same_user_that_comes_first_takes_the_identifier_alone(store):
    rivals = ["r1", "r2"]

    def overtaken(path, create):
        if path.startswith("snapshot/") and rivals:
            rival = rivals.pop(0)
            commit(store, rival, rival)
        return create()

    result = commit(WrappedStore(store, overtaken), "mine", "a")
    assert result.new
    assert result.append.uuid == "mine"
    assert names(store) == ["a", "r1", "r2"]
    assert identifiers(store) == [0, 1, 2]


def test_a_token_commits_once(store):
    first = commit(store, "mine", "a")
    commit(store, "another", "b")
    again = commit(store, "mine", "a, flushed again")
    assert not again.new
    assert again.append == first.append
    assert names(store) == ["a", "b"]


def test_a_request_that_shows_up_while_its_commit_is_repeated_counts_once(store):
    """It had no answer, and lands just before the repeated one."""
    late = []

    def hold(path, create):
        if not path.startswith("snapshot/"):
            return create()
        late.append(create)
        raise StorageError("timeout")

    held = Committer(WrappedStore(store, hold, local=False), schema(), "u", sleep=lambda _: None)
    with pytest.raises(CommitUnknownError, match=r"commit again$"):
        held.commit(CommitToken("mine", 0), [message([data_file("a")])])

    def land(path, create):
        if path.startswith("snapshot/") and late:
            assert late[0]()
            late.clear()
        return create()

    again = Committer(WrappedStore(store, land), schema(), "u")
    flushed = [message([data_file("a again")])]
    assert not again.commit(CommitToken("mine", 0), flushed).new
    assert names(store) == ["a"]
    again.commit(CommitToken("next", 0), [message([data_file("b", 1)])])
    assert names(store) == ["a", "b"]


def test_a_user_without_identifiers_left_is_told(store):
    Committer(store, schema(), "u").commit(2**63 - 1, [message([data_file("a")])])
    with pytest.raises(CommitError, match="another commit user"):
        commit(store, "mine", "b")
    assert names(store) == ["a"]
