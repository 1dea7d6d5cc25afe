"""Expiry: what goes, what stays, and what is left of one that was killed."""

import copy
import json
import random
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from expiry_samples import KilledError, KillingStore, Walk, Writer
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.commit.committer import Committer
from pkray.errors import SnapshotNotFoundError
from pkray.expiration.expiry import SnapshotExpirer
from pkray.expiration.retention import Retention
from pkray.format.partition import PartitionSpec
from pkray.format.partition_filter import PartitionFilter
from pkray.format.snapshot import encode
from pkray.metadata.changelogs import ChangelogStore
from pkray.metadata.consumers import ConsumerStore
from pkray.metadata.live import live_files
from pkray.metadata.snapshots import SnapshotStore
from pkray.metadata.tags import TagStore
from pkray.storage.object_store import ObjectStore
from pkray.storage.opening import open_store
from tests import commit_samples as samples
from tests.effort import examples

MANIFESTS = {"manifest.merge-min-count": "3", "manifest.compression": "none"}
KEEP_TWO = Retention(num_min=2, num_max=2, time_millis=0, limit=50)
KEEP_FOUR = Retention(num_min=4, num_max=4, time_millis=0, limit=50)


def table(path: Path | str, seed: int = 7, **options: str) -> Writer:
    schema = samples.schema(partitioned=True, **MANIFESTS, **options)
    return Writer(open_store(path), schema, random.Random(seed))


def fill(writer: Writer, commits: int = 6) -> None:
    for number in range(commits):
        writer.compact() if number % 2 else writer.append()


def expirer(writer: Writer, store: ObjectStore | None = None) -> SnapshotExpirer:
    return SnapshotExpirer(store or writer.store, writer.schema, writer.clock)


def dry_run(writer: Writer) -> SnapshotExpirer:
    return SnapshotExpirer(writer.store, writer.schema, writer.clock, dry_run=True)


def assert_whole(writer: Writer, outlive: bool = True) -> None:
    """Every snapshot, tag and changelog has its files, and no other file is there."""
    walk, deltas = Walk(writer.store), writer.schema.core.changelog_producer == "none"
    for number, snapshot in walk.snapshots().items():
        assert walk.live(snapshot) == writer.live[number]
    for tag in walk.tags().values():
        assert walk.live(tag) == writer.live[tag["id"]]
    for number, changelog in {**walk.snapshots(), **walk.changelogs()}.items():
        name = "deltaManifestList" if deltas else "changelogManifestList"
        if deltas and changelog["commitKind"] == "COMPACT":
            continue
        assert (walk.added(changelog[name]) if name in changelog else set()) == (
            writer.changes[number]
        )
    assert walk.there() == walk.named(deltas, outlive)


def test_the_newest_snapshots_stay(tmp_path):
    writer = table(tmp_path)
    fill(writer)
    latest = SnapshotStore(writer.store).latest_id()
    report = expirer(writer).expire(KEEP_TWO)
    assert list(Walk(writer.store).snapshots()) == [latest - 1, latest]
    assert report.snapshots == latest - 2
    assert report.data_files > 0
    assert_whole(writer, outlive=False)


def test_nothing_expires_by_default_within_the_hour(tmp_path):
    writer = table(tmp_path)
    fill(writer, 12)
    assert expirer(writer).expire().snapshots == 0
    writer.now += 3_600_001
    assert expirer(writer).expire().snapshots == SnapshotStore(writer.store).latest_id() - 10


def test_the_limit_bounds_one_expiry(tmp_path):
    writer = table(tmp_path, **{"snapshot.expire.limit": "3"})
    fill(writer)
    assert expirer(writer).expire(Retention(1, 1, 0, limit=3)).snapshots == 3
    assert_whole(writer, outlive=False)


def test_a_tag_keeps_its_files_after_its_snapshot(tmp_path):
    writer = table(tmp_path)
    fill(writer, 8)
    tags = TagStore(writer.store)
    for name, number in (("early", 2), ("later", 5)):
        tags.create(name, SnapshotStore(writer.store).read(number))
    expirer(writer).expire(Retention(1, 1, 0, limit=3))
    assert_whole(writer, outlive=False)
    expirer(writer).expire(KEEP_TWO)
    assert 2 not in Walk(writer.store).snapshots()
    assert_whole(writer, outlive=False)


def test_a_consumer_keeps_the_snapshots_it_has_to_read(tmp_path):
    writer = table(tmp_path)
    fill(writer)
    consumers = ConsumerStore(writer.store)
    consumers.record("slow", 3)
    consumers.record("fast", 6)
    expirer(writer).expire(KEEP_TWO)
    assert min(Walk(writer.store).snapshots()) == 3
    consumers.delete("slow")
    expirer(writer).expire(KEEP_TWO)
    assert min(Walk(writer.store).snapshots()) == 6


def test_an_idle_consumer_expires(tmp_path):
    writer = table(tmp_path, **{"consumer.expiration-time": "1 d"})
    fill(writer)
    ConsumerStore(writer.store).record("gone", 1)
    expirer(writer).expire(KEEP_TWO)  # the clock of the test is long before the file's time
    assert min(Walk(writer.store).snapshots()) == 1
    writer.now = ConsumerStore(writer.store).list()[0].modified_millis + 86_400_001
    expirer(writer).expire(KEEP_TWO)
    assert ConsumerStore(writer.store).list() == []
    assert min(Walk(writer.store).snapshots()) > 1


def test_a_dry_run_says_what_would_go_and_changes_nothing(tmp_path):
    writer = table(tmp_path, **{"consumer.expiration-time": "1 d"})
    fill(writer)
    consumers = ConsumerStore(writer.store)
    consumers.record("gone", 1)
    writer.now = consumers.list()[0].modified_millis + 86_400_001
    before = sorted(writer.store.list("", hidden=True))
    foreseen = dry_run(writer).expire(KEEP_TWO)
    assert sorted(writer.store.list("", hidden=True)) == before
    assert foreseen == expirer(writer).expire(KEEP_TWO)
    assert foreseen.snapshots > 0
    left = {status.path for status in writer.store.list("", hidden=True)}
    gone = [each for each in before if each.path not in left and each.path.startswith("p=")]
    assert foreseen.data_files == len(gone)
    assert foreseen.data_bytes > 0


def test_a_dry_run_names_the_consumers_that_hold_snapshots(tmp_path):
    writer = table(tmp_path)
    fill(writer)
    ConsumerStore(writer.store).record("slow", 1)
    foreseen = dry_run(writer).expire(KEEP_TWO)
    assert (foreseen.snapshots, foreseen.held_by) == (0, ("slow",))


def test_a_dry_run_counts_what_a_killed_expiry_left(tmp_path):
    writer = table(tmp_path)
    fill(writer)
    with pytest.raises(KilledError):
        expirer(writer, KillingStore(writer.store, at=0, after=True)).expire(KEEP_TWO)
    foreseen = dry_run(writer).expire(KEEP_TWO)
    assert foreseen == expirer(writer).expire(KEEP_TWO)
    assert foreseen.snapshots > 0


@pytest.mark.parametrize("producer", ["input", "none"])
def test_changelogs_outlive_their_snapshots(tmp_path, producer):
    writer = table(tmp_path, changelog_producer=producer)
    fill(writer)
    latest = SnapshotStore(writer.store).latest_id()
    report = expirer(writer).expire(KEEP_TWO, KEEP_FOUR)
    assert (report.snapshots, report.changelogs) == (latest - 2, latest - 4)
    assert list(Walk(writer.store).changelogs()) == [latest - 3, latest - 2]
    assert ChangelogStore(writer.store).earliest_id() == latest - 3
    assert ChangelogStore(writer.store).latest_id() == latest - 2
    assert_whole(writer)


def test_an_expired_snapshot_is_not_found(tmp_path):
    writer = table(tmp_path)
    fill(writer)
    snapshots = SnapshotStore(writer.store)
    held = snapshots.read(2)
    expirer(writer).expire(KEEP_TWO)
    with pytest.raises(SnapshotNotFoundError):
        live_files(writer.store, held)
    with pytest.raises(SnapshotNotFoundError):
        SnapshotStore(writer.store).read(2)


def test_a_rolled_back_table_is_left_alone(tmp_path):
    writer = table(tmp_path)
    fill(writer)
    store = KillingStore(writer.store, at=0, after=True)
    with pytest.raises(KilledError):
        expirer(writer, store).expire(KEEP_TWO)
    SnapshotStore(writer.store).remove_from(3)
    expirer(writer).expire(Retention(5, 5, 0, limit=50))
    assert list(Walk(writer.store).snapshots()) == [1, 2]
    assert not writer.store.exists("snapshot/EXPIRING")


def test_costs_grow_with_what_expires(tmp_path):
    """The base manifest of a large table is not read to expire a small change."""
    writer = table(tmp_path, seed=1)
    writer.append(files=500)
    big = Walk(writer.store).manifest_names(Walk(writer.store).snapshots()[1]["deltaManifestList"])[
        0
    ]
    writer.append()
    writer.append()
    writer.append()
    store = samples.WrappedStore(writer.store)
    expirer(writer, store).expire(KEEP_TWO)
    assert f"manifest/{big}" not in store.reads


@pytest.mark.sampled(2)
@pytest.mark.parametrize("producer", ["none", "input"])
@pytest.mark.parametrize("after", [False, True])
def test_an_expiry_killed_anywhere_is_finished_by_the_next(producer, after):
    origin = table(f"memory://{uuid.uuid4().hex}", changelog_producer=producer)
    fill(origin, 5)
    TagStore(origin.store).create("kept", SnapshotStore(origin.store).read(3))
    files = {file.path: origin.store.read(file.path) for file in origin.store.list("", hidden=True)}
    points = 0
    while True:
        writer = copy.copy(origin)
        writer.store = in_memory(files)
        killing = KillingStore(writer.store, points, after)
        try:
            expirer(writer, killing).expire(KEEP_TWO, KEEP_FOUR)
        except KilledError:
            assert_readable(writer)
            expirer(writer).expire(KEEP_TWO, KEEP_FOUR)
            # What the first one kept may be more, as changelogs expire when it is their turn.
            assert_whole(writer)
        else:
            break
        points += 1
    assert points > 20
    print(f"{points} of {points}")


def in_memory(files: Mapping[str, bytes]) -> ObjectStore:
    store = open_store(f"memory://{uuid.uuid4().hex}")
    for path, data in files.items():
        store.write(path, data)
    return store


def assert_readable(writer: Writer) -> None:
    """What is found of snapshots and tags is whole, at any moment."""
    walk = Walk(writer.store)
    there = walk.there()
    for snapshot in [*walk.snapshots().values(), *walk.tags().values()]:
        live = walk.live(snapshot)
        assert live == writer.live[snapshot["id"]]
        assert {f"p=a/bucket-0/{name}" for name in live} <= there


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("compact"), st.just(0)),
        st.tuples(st.just("tag"), st.integers(0, 5)),
        st.tuples(st.just("consume"), st.integers(0, 5)),
        st.tuples(st.just("forget"), st.just(0)),
        st.tuples(st.just("expire"), st.integers(1, 5)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    min_size=5,
    max_size=40,
)


@settings(max_examples=examples(20))
@given(
    ACTIONS,
    st.sampled_from(["none", "input"]),
    st.integers(0, 4),
    st.integers(1, 6),
    st.integers(0, 1000),
)
def test_random_histories(actions: Any, producer: str, more: int, limit: int, seed: int) -> None:
    writer = table(f"memory://{uuid.uuid4().hex}", seed, changelog_producer=producer)
    store, process = writer.store, expirer(writer)
    consumers, tags = ConsumerStore(store), TagStore(store)
    for action, value in actions:
        ids = SnapshotStore(store).ids()
        if action == "append":
            writer.append(value)
        elif action == "compact":
            writer.compact()
        elif action == "tag" and ids:
            number = ids[value % len(ids)]
            tags.create(f"t{number}", SnapshotStore(store).read(number), if_not_exists=True)
        elif action == "consume" and ids:
            consumers.record(f"c{value % 2}", ids[value % len(ids)])
        elif action == "forget" and consumers.list():
            consumers.delete(consumers.list()[0].name)
        elif action == "restart":
            process = expirer(writer)
        elif action == "expire":
            kept = (
                Retention(value, value, 0, limit),
                Retention(value + more, value + more, 0, limit),
            )
            foreseen, report = dry_run(writer).expire(*kept), process.expire(*kept)
            assert foreseen.snapshots == report.snapshots
            assert more or foreseen == report  # with more, changelogs are made that go at once
            if ids:
                place = consumers.min_next()
                assert SnapshotStore(store).read(ids[-1])
                if place is not None and ids[0] <= place:
                    assert SnapshotStore(store).earliest_id() <= place
                assert_whole(writer, more > 0)
    if SnapshotStore(store).ids():
        assert_whole(writer, more > 0)


@pytest.mark.parametrize("asked", ["true", "false"])
def test_empty_folders_go_if_that_is_asked_for(tmp_path, asked):
    writer = table(tmp_path, **{"snapshot.clean-empty-directories": asked})
    writer.append()
    everything = PartitionFilter(PartitionSpec(writer.schema), [{}])
    committer = Committer(writer.store, writer.schema, "other", writer.clock)
    committer.overwrite(0, [], everything)
    expirer(writer).expire(Retention(1, 1, 0, limit=50))
    assert (tmp_path / "p=a").exists() == (asked == "false")


def test_a_branch_keeps_the_files_it_names(tmp_path):
    writer = table(tmp_path)
    fill(writer, 3)
    fork = SnapshotStore(writer.store).latest()
    writer.store.write(f"branch/branch-b/snapshot/snapshot-{fork.id}", encode(fork))
    fill(writer, 5)
    expirer(writer).expire(Retention(1, 1, 0, limit=50))
    there, walk = {status.path for status in writer.store.list()}, Walk(writer.store)
    live = walk.live(json.loads(encode(fork)))
    assert live == writer.live[fork.id]
    assert {f"p=a/bucket-0/{name}" for name in live} <= there
