"""Compaction beside writing: when it starts, what becomes of its outcome, and who waits for it."""

import threading

import pytest
from compaction_samples import ManualExecutor

from pkray.errors import StorageFullError
from pkray.format.snapshot import COMPACT
from pkray.metadata.live import live_files
from pkray.metadata.snapshots import SnapshotStore


@pytest.fixture
def committed(started):
    """Starts a process that has made so many commits of one key."""

    def start(commits, **options):
        process = started(**options)
        for number in range(commits):
            process.commit({1: f"v{number}"})
        return process

    return start


def referenced(process):
    """Files that some snapshot names."""
    return {
        entry.file.file_name
        for snapshot in SnapshotStore(process.store).all()
        for entry in live_files(process.store, snapshot)
    }


def kinds(process):
    return [snapshot.commit_kind for snapshot in SnapshotStore(process.store).all()]


def test_a_commit_does_not_wait_and_the_next_takes_the_outcome_along(started):
    a = started()
    for number in range(3):
        a.commit({1: f"v{number}", 10 + number: "x"})
    assert a.levels() == [0, 0, 0]
    assert len(a.executor.waiting) == 1
    a.executor.run()
    assert a.levels() == [0, 0, 0], "nothing shows before a commit"
    a.commit({2: "w"})
    assert a.levels() == [0, 3]
    assert kinds(a) == ["APPEND", "APPEND", "APPEND", "APPEND", "COMPACT"]
    assert a.content() == {1: "v2", 2: "w", 10: "x", 11: "x"}
    assert a.stats().committed == 1


def test_one_compaction_a_bucket_at_a_time(committed):
    a = committed(5)
    assert len(a.executor.waiting) == 1


def test_finished_compactions_are_committed_without_another_commit(committed):
    a = committed(3)
    a.coordinator.commit_finished()
    assert COMPACT not in kinds(a)
    a.executor.run()
    a.coordinator.commit_finished()
    assert kinds(a)[-1] == COMPACT
    assert a.levels() == [3]
    a.coordinator.commit_finished()
    assert kinds(a).count(COMPACT) == 1


def test_an_outcome_whose_inputs_another_process_compacted_is_dropped(started):
    a, b = started("a"), started("b")
    for number in range(3):
        a.commit({1: f"v{number}"})
    a.executor.run()
    made = a.stored()
    b.compact()
    assert b.levels() == [3]
    a.commit({2: "w"})
    assert a.levels() == [0, 3]
    assert a.stats().dropped == 1
    assert not made - a.stored() <= referenced(a)
    assert a.stored() == referenced(a), "its files are gone"
    assert a.content() == {1: "v2", 2: "w"}


def test_rows_committed_while_it_runs_stay_newer(started):
    a, b = started("a"), started("b")
    for number in range(3):
        a.commit({1: f"v{number}", 2: "old"})
    b.commit({1: "newest", 2: None})
    a.executor.run()
    a.commit({3: "x"})
    assert a.levels() == [0, 0, 3]
    for process in (a, b):
        assert process.content() == {1: "newest", 3: "x"}


def test_a_failed_compaction_is_tried_again_after_a_rest(committed, caplog):
    a = committed(3)
    before = a.stored()
    a.executor.run(StorageFullError("no space left", path="x"))
    a.coordinator.commit_finished()
    assert a.executor.waiting == []
    assert a.stats().failed == 1
    assert "no space left" in caplog.text
    a.now[0] += 2_000
    a.coordinator.commit_finished()
    a.executor.run()
    a.coordinator.commit_finished()
    assert a.levels() == [3]
    assert before <= a.stored()


def test_a_killed_owner_leaves_a_table_that_goes_on(committed):
    a = committed(3)
    a.executor.run()
    a.restart()
    a.commit({2: "w"})
    assert a.content() == {1: "v2", 2: "w"}
    a.executor.run()
    a.commit({3: "x"})
    assert a.levels() == [0, 3]
    assert a.content() == {1: "v2", 2: "w", 3: "x"}


def test_an_outcome_that_comes_during_a_commit_is_taken_along_by_the_next(started, monkeypatch):
    options = {"changelog-producer": "lookup", "compaction.max-size-amplification-percent": "5"}
    a = started(**options)
    for rows in (1_000, 200):
        a.commit({key: f"v{key}" for key in range(rows)})
    assert len(a.executor.waiting) == 1
    acknowledge = a.owner.handle.target.acknowledge

    def late(*arguments):
        a.executor.run()
        return acknowledge(*arguments)

    monkeypatch.setattr(a.owner.handle.target, "acknowledge", late)
    a.commit({1: "w"})
    a.commit({2: "x"})
    assert (a.stats().committed, a.stats().dropped) == (1, 0)
    assert a.content(keys=[1, 2]) == {1: "w", 2: "x"}


def test_closing_drops_what_was_not_handed_over(committed):
    a = committed(3)
    a.executor.run()
    assert a.stored() > referenced(a)
    a.owner.close()
    assert a.stored() == referenced(a)


def test_writers_wait_at_the_stop_trigger_and_say_so(committed, caplog):
    a = committed(4, **{"num-sorted-run.stop-trigger": "4"})
    done = []
    writer = threading.Thread(target=lambda: done.append(a.commit({2: "w"})))
    writer.start()
    while not a.stats().writers_waiting:
        pass
    assert done == []
    assert a.content("latest") == {1: "v3", 2: "w"}, "lookups go on"
    a.executor.run()
    writer.join()
    assert done[0].new
    assert len(a.levels()) < 4
    assert "num-sorted-run.stop-trigger is 4" in caplog.text
    assert (a.stats().writer_waits, a.stats().writers_waiting) == (1, 0)


def test_a_writer_that_waits_is_told_why_compaction_fails(committed):
    a = committed(3, **{"num-sorted-run.stop-trigger": "3"})
    a.executor.run(StorageFullError("no space left", path="x"))
    session = a.begin()
    a.write(session, {2: "w"})
    failing = a.executor.submit
    a.executor.submit = lambda *args: (failing(*args), a.executor.run(OSError("still full")))[0]
    with pytest.raises(OSError, match="still full"):
        a.finish(session)
    a.executor.submit = failing
    a.executor.at_once = True
    a.finish(session)
    assert a.content() == {1: "v2", 2: "w"}


def test_a_lookup_changelog_does_not_wait_for_the_levels_above(started):
    a = started(
        **{
            "changelog-producer": "lookup",
            "num-sorted-run.compaction-trigger": "5",
            "compaction.max-size-amplification-percent": "10",
        }
    )
    for number in range(4):
        a.commit(dict.fromkeys(range(640 >> 2 * number), f"v{number}"))
    assert a.levels() == [2, 3, 4, 5]
    assert a.executor.waiting, "they are compacted beside writing"
    for number in range(4, 7):
        a.commit({0: f"v{number}"})
        assert a.levels() == [1, 2, 3, 4, 5], "each commit has its changelog"
    a.executor.run()
    a.commit({7: None})
    assert a.levels() == [4, 5]
    assert a.content(keys=[0, 1, 7, 639]) == {0: "v6", 1: "v3", 639: "v0"}


def test_without_lookup_wait_the_changelog_comes_later(started):
    a = started(**{"changelog-producer": "lookup", "lookup-wait": "false"})
    assert a.commit({1: "a"}).snapshot.commit_kind == "APPEND"
    a.executor.run()
    a.coordinator.commit_finished()
    assert SnapshotStore(a.store).latest().changelog_record_count == 1
    assert 0 not in a.levels()


def test_a_full_compaction_by_a_commit_needs_no_other(committed):
    a = committed(4)
    assert a.executor.waiting
    running = a.executor.waiting[:]
    threading.Timer(0.05, a.executor.run).start()
    a.commit({2: "w"}, full_compact=True)
    assert a.levels() == [3]
    assert a.content() == {1: "v3", 2: "w"}
    assert running
    assert a.stored() == referenced(a)


def test_force_compact_compacts_within_the_commit(committed):
    a = committed(3, **{"commit.force-compact": "true"})
    assert a.levels() == [3]


def test_a_small_compaction_whose_moment_shows_is_the_commits_own(committed):
    a = committed(3, **{"sequence.field": "v"})
    assert a.levels() == [3]
    assert a.executor.waiting == []
    a.commit({1: "v1"})
    assert a.content() == {1: "v2"}


def test_write_only_tables_are_compacted_only_when_asked(committed):
    a = committed(9, **{"write-only": "true"})
    assert (a.levels(), a.executor.waiting) == ([0] * 9, [])
    a.compact(full=False)
    assert len(a.levels()) == 1
    assert a.content() == {1: "v8"}


def test_compact_does_not_stop_a_writer(committed):
    a = committed(2)
    session = a.begin()
    a.write(session, {1: "uncommitted"})
    assert a.compact().snapshot.commit_kind == COMPACT
    assert a.levels() == [3]
    a.finish(session)
    assert a.content() == {1: "uncommitted"}


def full_changes(process, count):
    """Which of some commits compacted fully."""
    found = []
    for number in range(count):
        outcome = process.commit({1: f"v{number}"})
        found.append(outcome.snapshot.commit_kind == COMPACT)
    return found


def test_full_compaction_every_so_many_commits(started):
    options = {"full-compaction.delta-commits": "3", "changelog-producer": "full-compaction"}
    a = started(**options, **{"num-sorted-run.compaction-trigger": "50"})
    assert full_changes(a, 7) == [False, False, True, False, False, True, False]


def test_commits_since_the_full_compaction_are_counted_over_restarts(started):
    options = {"full-compaction.delta-commits": "3", "changelog-producer": "full-compaction"}
    a = started(**options, **{"num-sorted-run.compaction-trigger": "50"})
    found = []
    for _ in range(7):
        found += full_changes(a, 1)
        a.restart()
    assert found == [False, False, True, False, False, True, False]


def test_commits_of_other_processes_count(started):
    options = {"full-compaction.delta-commits": "3", "changelog-producer": "full-compaction"}
    a, b = (started(n, **options, **{"num-sorted-run.compaction-trigger": "50"}) for n in "ab")
    found = [full_changes(process, 1)[0] for process in (a, b, a, b, b, b)]
    assert found == [False, False, True, False, False, True]


def test_full_compaction_after_an_interval(started):
    options = {"changelog-producer.compaction-interval": "10 s"}
    options["num-sorted-run.compaction-trigger"] = "50"
    a = started(**options, **{"changelog-producer": "full-compaction"})
    assert full_changes(a, 2) == [False, False]
    a.now[0] += 9_999
    assert full_changes(a, 1) == [False]
    a.now[0] += 1
    a.restart()
    assert full_changes(a, 1) == [True]
    a.now[0] += 9_999
    assert full_changes(a, 1) == [False]


def test_the_interval_ends_without_another_commit(started):
    options = {"changelog-producer.compaction-interval": "10 s"}
    a = started(**options, **{"changelog-producer": "full-compaction"})
    a.commit({1: "a"})
    a.coordinator.commit_finished()
    assert a.executor.waiting == []
    a.now[0] += 10_000
    a.coordinator.commit_finished()
    a.executor.run()
    a.coordinator.commit_finished()
    assert a.levels() == [3]


def test_an_overtaken_commit_is_prepared_again_and_wins(started):
    a, b = started("a"), started("b")
    commit = b.committers.for_user("b").commit
    overtaken = []

    def late(*args, **kwargs):
        if not overtaken:
            overtaken.append(a.commit({1: "a", 2: "a"}))
        return commit(*args, **kwargs)

    b.committers.for_user("b").commit = late
    b.commit({1: "b", 3: "b"})
    assert b.coordinator.stats().prepared_again == 1
    for process in (a, b):
        assert process.content() == {1: "b", 2: "a", 3: "b"}
    b.compact()
    assert a.content() == {1: "b", 2: "a", 3: "b"}


def test_an_overtaken_commit_takes_its_compaction_along_again(started):
    a, b = started("a"), started("b")
    for number in range(3):
        b.commit({1: f"v{number}"})
    b.executor.run()
    commit = b.committers.for_user("b").commit
    overtaken = []

    def late(*args, **kwargs):
        if not overtaken:
            overtaken.append(a.commit({1: "a"}))
        return commit(*args, **kwargs)

    b.committers.for_user("b").commit = late
    b.commit({2: "b"})
    assert b.levels() == [0, 0, 3]
    assert b.content() == {1: "a", 2: "b"}


def test_what_a_conflict_took_of_a_changelog_is_made_up_for(started):
    a, b = (started(n, **{"changelog-producer": "lookup"}) for n in "ab")
    a.commit({1: "a"})
    b.content()
    publish = b.committers.for_user("b")._compact
    beaten = []

    def late(*args):
        if not beaten:
            beaten.append(a.compact())
            beaten.append(a.commit({2: "a"}))
        return publish(*args)

    b.committers.for_user("b")._compact = late
    b.commit({1: "b"})
    assert 0 not in b.levels()
    assert b.content() == {1: "b", 2: "a"}


def test_the_manual_executor_holds_what_it_is_given():
    executor = ManualExecutor()
    future = executor.submit(lambda: 7)
    assert not future.done()
    executor.run()
    assert future.result() == 7
