"""What `latest` lookups see while sessions are open beside other commits."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import pkray
from pkray.errors import CommitUnknownError
from pkray.format.partition_filter import ExactPartitions
from pkray.lsm.compaction.compactor import Compactor
from pkray.service.protocol import OverwriteRequest

SUMS = {"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"}


def test_an_open_session_does_not_hide_what_others_commit(started):
    process = started()
    process.commit({1: "old", 2: "old"})
    open_session = process.coordinator.begin("other")
    process.write(open_session, {5: "mine"})
    process.commit({1: "new", 3: "new"})
    assert process.content("latest") == {1: "new", 2: "old", 3: "new", 5: "mine"}


def test_an_open_session_does_not_hide_an_overwrite(started):
    process = started()
    process.commit({1: "old", 2: "old"})
    open_session = process.coordinator.begin("other")
    process.write(open_session, {5: "mine"})
    emptied = ExactPartitions(frozenset([bytes(12)]))
    process.coordinator.overwrite(OverwriteRequest("third", 0, (), emptied))
    assert process.content("committed") == {}
    assert process.content("latest") == {5: "mine"}


def test_rows_of_an_open_session_stay_newer_than_what_others_commit(started):
    process = started(**{"write-buffer-size": "1 b"})
    process.commit({1: "old"})
    open_session = process.coordinator.begin("other")
    process.write(open_session, {1: "mine", 5: "mine"})
    process.commit({1: "theirs", 3: "theirs"})
    assert process.content("latest") == {1: "mine", 3: "theirs", 5: "mine"}


@pytest.mark.parametrize("is_committed", [False, True])
def test_absent_keys_where_all_that_is_held_was_flushed(tmp_path, is_committed):
    with pkray.connect(str(tmp_path)) as catalog:
        options = {"write-buffer-size": "1 b"}
        table = catalog.create_table("db.t", [("k", "BIGINT"), ("v", "STRING")], ["k"], (), options)
        with table.open_writer() as writer:
            if is_committed:
                writer.upsert([{"k": 3, "v": "old"}])
                writer.commit()
            writer.upsert([{"k": 1, "v": "mine"}])
            writer.delete([{"k": 2}])
            for absent in ([{"k": 0}], [{"k": 5}, {"k": 2}]):
                assert table.lookup(absent).schema == table.arrow_schema
                assert table.lookup(absent).num_rows == 0
                assert table.lookup_prefix(absent, columns=["v"]).num_rows == 0
            assert table.lookup([{"k": 5}, {"k": 1}])["v"].to_pylist() == ["mine"]


def test_rows_of_a_commit_whose_end_the_owner_was_not_told_count_once(started):
    process = started(**SUMS)
    process.commit({1: "a"})
    session = process.begin()
    process.write(session, {1: "b"})
    owner = process.owner.handle.target
    acknowledge, owner.acknowledge = owner.acknowledge, lambda *_: False
    process.finish(session)
    owner.acknowledge = acknowledge
    assert process.content("committed") == {1: "a,b"}
    assert process.content("latest") == {1: "a,b"}


def unanswered(process, session, rows, *, publish=True):
    """Commit, or not quite, as a coordinator that is killed before it tells the owner."""
    process.write(session, rows)
    owner = process.owner.handle.target
    committer = process.committers.for_user(session.user)
    acknowledge, commit = owner.acknowledge, committer.commit
    owner.acknowledge = owner.abort_prepare = lambda *_: False

    def fail(*_, **__):
        raise CommitUnknownError("killed")

    if not publish:
        committer.commit = fail
    with contextlib.suppress(CommitUnknownError):
        process.finish(session)
    committer.commit, owner.acknowledge = commit, acknowledge
    del owner.abort_prepare


@pytest.mark.parametrize("many", [0, 70], ids=["followed", "read anew"])
def test_rows_of_an_unanswered_commit_count_once_when_others_have_compacted_it(
    tmp_path, started, many
):
    now = [1_000_000]
    process, other = started(**SUMS), started("b")
    process.owner.handle.target._sessions._clock = lambda: now[0]
    process.commit({1: "a"})
    unanswered(process, process.begin(), {1: "b"})
    other.compact()
    for number in range(many):
        other.commit({5: str(number)})
    now[0] += 61_000
    for _ in range(2):
        assert process.content("latest", keys=[1]) == {1: "a,b"}
    process.commit({1: "c"})
    other.compact()
    assert process.content("latest", keys=[1]) == {1: "a,b,c"}
    assert process.content("committed", keys=[1]) == {1: "a,b,c"}


def test_rows_of_a_commit_that_did_not_happen_stay_on_top(started):
    now = [1_000_000]
    process, other = started(**SUMS), started("b")
    process.owner.handle.target._sessions._clock = lambda: now[0]
    process.commit({1: "a"})
    unanswered(process, process.begin(), {1: "b"}, publish=False)
    other.commit({1: "theirs"})
    other.compact()
    now[0] += 61_000
    for _ in range(2):
        assert sorted(process.content("latest", keys=[1])[1].split(",")) == ["a", "b", "theirs"]


@pytest.mark.parametrize(
    "options",
    [
        {"deletion-vectors.enabled": "true"},
        {"merge-engine": "first-row", "changelog-producer": "lookup"},
        {"changelog-producer": "lookup"},
    ],
    ids=["deletion vectors", "first row", "lookup changelog"],
)
def test_a_commit_that_compacts_for_long_stops_neither_pushes_nor_lookups(
    started, monkeypatch, options
):
    process = started(**options)
    process.commit({1: "old", 2: "old"})
    compacts, may_end = threading.Event(), threading.Event()
    run = Compactor.run

    def slow(*args):
        compacts.set()
        assert may_end.wait(120)
        return run(*args)

    monkeypatch.setattr(Compactor, "run", slow)
    session = process.begin()
    process.write(session, {3: "mine"})
    other = process.coordinator.begin("other")
    with ThreadPoolExecutor(2) as pool:
        commit = pool.submit(process.finish, session)
        try:
            assert compacts.wait(120)
            pool.submit(process.write, other, {4: "theirs"}).result(timeout=120)
            seen = pool.submit(process.content, "latest").result(timeout=120)
            assert seen == {1: "old", 2: "old", 3: "mine", 4: "theirs"}
            assert pool.submit(process.content).result(timeout=120) == {1: "old", 2: "old"}
            assert pool.submit(process.owner.handle.target.stats).result(timeout=120).sessions == 2
        finally:
            may_end.set()
        commit.result(timeout=120)
    assert process.content() == {1: "old", 2: "old", 3: "mine"}
    assert process.content("latest") == {1: "old", 2: "old", 3: "mine", 4: "theirs"}


def test_lookups_beside_commits_never_miss_what_was_written_before(started):
    """The session ends while its commit comes to show: at no moment do its rows not count, nor
    twice."""
    process, reader = started(**SUMS), started("b")
    errors, done = [], threading.Event()

    def look():
        while not done.is_set():
            written = len(words)
            found = process.content("latest", keys=[1]).get(1, "")
            shown = found.split(",") if found else []
            if shown != [str(n) for n in range(len(shown))] or len(shown) < written:
                errors.append((written, found))
            process.content(keys=[1])  # sees the newest snapshot, perhaps before the session ends

    words = []
    with ThreadPoolExecutor(2) as pool:
        looking = [pool.submit(look) for _ in range(2)]
        try:
            for number in range(12):
                session = process.begin()
                process.write(session, {1: str(number)})
                words.append(number)
                process.finish(session)
                process.executor.run()
        finally:
            done.set()
        for one in looking:
            one.result()
    assert errors == []
    assert reader.content(keys=[1]) == {1: ",".join(map(str, words))}
