import msgspec
import pytest

from pkray.commit.committer import Committer
from pkray.errors import CommitConflictError, CommitError
from pkray.metadata.live import changelog_entries, delta_entries, live_files
from tests.commit_samples import WrappedStore, data_file, message, partition, schema


def names(store, snapshot):
    return [entry.file.file_name for entry in live_files(store, snapshot)]


def test_a_commit_appends_and_compacts(store, committer):
    flushed, compacted = data_file("a", rows=5), data_file("b", 5, rows=3)
    result = committer.commit(7, [message([flushed], [flushed], [compacted])])
    append, compact = result.append, result.compact
    assert (append.id, append.commit_kind, append.commit_identifier) == (1, "APPEND", 7)
    assert (append.total_record_count, append.delta_record_count) == (5, 5)
    assert (compact.id, compact.commit_kind, compact.commit_identifier) == (2, "COMPACT", 7)
    assert (compact.total_record_count, compact.delta_record_count) == (3, -2)
    assert append.changelog_record_count == compact.changelog_record_count == 0
    assert names(store, append) == ["a"]
    assert names(store, compact) == ["b"]
    assert result.new
    assert not result.compact_conflict


def test_an_empty_commit_makes_an_append_snapshot(store, committer):
    committer.commit(1, [message([data_file("a")])])
    result = committer.commit(2, [])
    assert (result.append.id, result.append.delta_record_count) == (2, 0)
    assert result.append.total_record_count == 5
    assert result.compact is None
    assert delta_entries(store, result.append) == []
    assert names(store, result.append) == ["a"]


def test_empty_commits_may_be_left_out(store):
    committer = Committer(store, schema(), "u", ignore_empty=True)
    result = committer.commit(1, [])
    assert (result.append, result.compact, result.new) == (None, None, False)
    assert committer.snapshots.latest_id() is None


def test_changelogs_go_with_their_snapshot(store, committer):
    change, compact_change = data_file("c1", rows=4), data_file("c2", rows=6)
    flushed = data_file("a")
    result = committer.commit(
        1,
        [
            message(
                [flushed],
                [flushed],
                [data_file("b", 5)],
                changelog=[change],
                compact_changelog=[compact_change],
            )
        ],
    )
    assert [e.file for e in changelog_entries(store, result.append)] == [change]
    assert [e.file for e in changelog_entries(store, result.compact)] == [compact_change]
    assert result.append.changelog_record_count == 4
    assert result.compact.changelog_record_count == 6


def test_the_same_identifier_commits_once(store, committer):
    first = committer.commit(1, [message([data_file("a")])])
    for again in (committer, Committer(store, schema(), "u")):
        result = again.commit(1, [message([data_file("other")])])
        assert not result.new
        assert result.append == first.append
    assert names(store, committer.snapshots.latest()) == ["a"]


def test_a_lower_identifier_commits_nothing(store, committer):
    committer.commit(5, [message([data_file("a")])])
    result = committer.commit(3, [message([data_file("b")])])
    assert (result.append, result.new) == (None, False)
    assert names(store, committer.snapshots.latest()) == ["a"]


def test_users_do_not_share_identifiers(store, committer):
    committer.commit(5, [message([data_file("a")])])
    other = Committer(store, schema(), "other")
    assert other.committed_identifier() is None
    assert other.commit(5, [message([data_file("b")])]).new
    assert names(store, other.snapshots.latest()) == ["a", "b"]


def test_the_compaction_of_a_repeated_commit_is_made_up(store, committer):
    flushed = data_file("a")
    committer.commit(1, [message([flushed])])
    again = Committer(store, schema(), "u")
    result = again.commit(1, [message([flushed], [flushed], [data_file("b", 5)])])
    assert not result.new
    assert result.append.id == 1
    assert result.compact.id == 2
    assert names(store, result.compact) == ["b"]
    assert again.commit(1, [message([flushed], [flushed], [data_file("c", 5)])]).compact.id == 2


def test_a_conflicting_compaction_of_a_repeated_commit_is_dropped(store, committer):
    committer.commit(1, [message([data_file("a")])])
    again = Committer(store, schema(), "u")
    lost = data_file("never-committed")
    result = again.commit(1, [message([lost], [lost], [data_file("b", 5)])])
    assert result.compact is None
    assert result.compact_conflict
    assert names(store, again.snapshots.latest()) == ["a"]


def test_a_conflict_of_the_compaction_keeps_the_append(store, committer):
    gone = data_file("gone")
    result = committer.commit(1, [message([data_file("a")], [gone], [data_file("b", 5)])])
    assert result.new
    assert result.compact is None
    assert result.compact_conflict
    assert names(store, committer.snapshots.latest()) == ["a"]


def test_two_compactions_of_one_file_do_not_both_happen(store, committer):
    flushed = data_file("a")
    committer.commit(1, [message([flushed])])
    one, two = Committer(store, schema(), "one"), Committer(store, schema(), "two")
    assert one.commit(1, [message((), [flushed], [data_file("b", 5)])]).compact.id == 3
    result = two.commit(1, [message((), [flushed], [data_file("c", 5)])])
    assert result.compact_conflict
    assert names(store, two.snapshots.latest()) == ["b"]


def test_new_files_above_level_0_must_not_overlap(store, committer):
    committer.commit(1, [message([data_file("a", 5, 0, 9)])])
    with pytest.raises(CommitConflictError, match="overlap"):
        committer.commit(2, [message([data_file("b", 5, 9, 20)])])
    assert committer.snapshots.latest_id() == 1
    assert committer.commit(2, [message([data_file("b", 5, 10, 20)])]).new


def test_a_refused_commit_leaves_no_manifest(store, committer, tmp_path):
    committer.commit(1, [message([data_file("a", 5)])])
    before = sorted(p.name for p in (tmp_path / "manifest").iterdir())
    with pytest.raises(CommitConflictError):
        committer.commit(2, [message([data_file("b", 5)])])
    assert sorted(p.name for p in (tmp_path / "manifest").iterdir()) == before


def test_an_append_reads_no_manifest(store, committer):
    for number in range(1, 11):
        committer.commit(number, [message([data_file(f"f{number}")])])
    for path in (s.path for s in store.list("manifest") if "list" not in s.path):
        store.delete(path)
    assert Committer(store, schema(), "u").commit(11, [message([data_file("g")])]).new


def test_rows_watermark_and_time_are_carried(store):
    now = iter([1000, 1001, 500, 1002])
    committer = Committer(store, schema(), "u", clock=lambda: next(now))
    first = committer.commit(1, [message([data_file("a")])], watermark=50)
    second = committer.commit(2, [message([data_file("b")])], watermark=40)
    third = committer.commit(3, [message([data_file("c")])])
    snapshots = [r.append for r in (first, second, third)]
    assert [s.watermark for s in snapshots] == [50, 50, 50]
    assert [s.total_record_count for s in snapshots] == [5, 10, 15]
    assert [s.time_millis for s in snapshots] == [1000, 1001, 1001]


def test_places_are_carried_on_whoever_commits_and_other_properties_are_not(store, committer):
    of = {"pkray.place.a": "1", "pkray.place.b": "1", "epoch": "3"}
    committer.commit(1, [], properties=of)
    Committer(store, schema(), "other").commit(1, [message([data_file("a")])])
    assert committer.snapshots.latest().properties == {"pkray.place.a": "1", "pkray.place.b": "1"}
    result = committer.commit(
        2, [message([data_file("c")], [data_file("c")], [data_file("d", 5)])],
        properties={"pkray.place.a": "2"},
    )  # fmt: skip
    for snapshot in result.append, result.compact:
        assert snapshot.properties == {"pkray.place.a": "2", "pkray.place.b": "1"}


def test_properties_are_kept(store, committer):
    committer.commit(1, [], properties={"epoch": "3"})
    assert Committer(store, schema(), "u").snapshots.latest().properties == {"epoch": "3"}


def test_snapshot_of_finds_old_commits(store, committer):
    made = {n: committer.commit(n, [message([data_file(f"f{n}")])]).append for n in range(1, 6)}
    fresh = Committer(store, schema(), "u")
    assert {n: fresh.snapshot_of(n) for n in made} == made
    assert fresh.snapshot_of(6) is None
    store.delete("snapshot/snapshot-1")
    assert Committer(store, schema(), "u").snapshot_of(1) is None


def test_a_roll_back_is_noticed(store, committer):
    for number in range(1, 4):
        committer.commit(number, [message([data_file(f"f{number}", 5, number * 10, number * 10)])])
    store.delete(["snapshot/snapshot-3", "snapshot/snapshot-2"])
    store.write("snapshot/LATEST", b"1")
    assert committer.committed_identifier() == 1
    result = committer.commit(2, [message([data_file("again", 5, 20, 20)])])
    assert result.append.id == 2
    assert names(store, result.append) == ["f1", "again"]


def test_a_roll_back_hidden_by_newer_commits_is_noticed(store, committer):
    for number in range(1, 4):
        committer.commit(number, [message([data_file(f"f{number}", 5, number * 10, number * 10)])])
    store.delete(["snapshot/snapshot-3", "snapshot/snapshot-2"])
    other = Committer(store, schema(), "other")
    for number in range(1, 5):
        other.commit(number, [message([data_file(f"o{number}", 5, 100 + number, 100 + number)])])
    assert committer.committed_identifier() == 1
    result = committer.commit(2, [message([data_file("again", 5, 20, 20)])])
    assert names(store, result.append) == ["f1", "o1", "o2", "o3", "o4", "again"]


def test_one_partition_has_one_number_of_buckets(store):
    committer = Committer(store, schema(partitioned=True), "u")
    a, b = partition("a"), partition("b")
    committer.commit(1, [message([data_file("x", 5)], part=a)])
    with pytest.raises(CommitConflictError, match="written for 3 buckets"):
        committer.commit(2, [message([data_file("y", 5)], part=a, bucket=1, total_buckets=3)])
    assert committer.commit(2, [message([data_file("y", 5)], part=b, total_buckets=3)]).new


def test_partitions_select_files(store):
    newest = schema(partitioned=True)
    committer = Committer(store, newest, "u")
    parts = {name: partition(name) for name in ("a", "b", "a longer value")}
    for number, (name, part) in enumerate(parts.items()):
        for bucket in (0, 1):
            file = data_file(f"{name}-{bucket}")
            committer.commit(number * 2 + bucket, [message([file], part=part, bucket=bucket)])
    snapshot = committer.snapshots.latest()

    def selected(**by):
        return [e.file.file_name for e in live_files(store, snapshot, newest, **by)]

    assert selected(partitions=[parts["b"]]) == ["b-0", "b-1"]
    both = selected(partitions={parts["a"], parts["a longer value"]})
    assert both == ["a-0", "a-1", "a longer value-0", "a longer value-1"]
    assert selected(partitions=[]) == []
    assert selected(partitions=[partition("zzz")]) == []


def test_manifests_of_other_partitions_are_not_read(store, tmp_path):
    newest = schema(partitioned=True)
    committer = Committer(store, newest, "u")
    committer.commit(1, [message([data_file("x")], part=partition("a"))])
    first = set((tmp_path / "manifest").iterdir())
    committer.commit(2, [message([data_file("y")], part=partition("b"))])
    for path in first:
        if "list" not in path.name:
            path.unlink()
    found = live_files(store, committer.snapshots.latest(), newest, partitions=[partition("b")])
    assert [entry.file.file_name for entry in found] == ["y"]


def test_entries_come_back_whole(store, committer):
    file = msgspec.structs.replace(data_file("a"), extra_files=("x",), delete_row_count=2)
    result = committer.commit(1, [message([file], bucket=1)])
    (entry,) = live_files(Committer(store, schema(), "r")._store, result.append)
    assert entry.file == file
    assert (entry.bucket, entry.total_buckets) == (1, 2)


@pytest.mark.parametrize(
    ("options", "limit"),
    [({"commit.max_retries": "3"}, "commit.max-retries"), ({"commit.timeout": "3 ms"}, "commit.t")],
)
def test_a_commit_that_always_comes_second_gives_up(store, options, limit):
    rival = Committer(store, schema(), "rival")

    def outrun(path, create):
        rival.commit((rival.committed_identifier() or 0) + 1, [])
        return create()

    slow = Committer(
        WrappedStore(store, outrun),
        schema(**options),
        "u",
        clock=iter(range(1000)).__next__,
        sleep=lambda seconds: None,
    )
    manifests = {s.path for s in store.list("manifest")}
    with pytest.raises(CommitError, match=f"attempts, .*, or raise {limit}") as caught:
        slow.commit(1, [message([data_file("a")])])
    assert 1 < caught.value.attempts <= 4
    assert names(store, rival.snapshots.latest()) == []
    left = {s.path for s in store.list("manifest")} - manifests
    uuid = slow._names.token
    assert not [path for path in left if uuid in path]
