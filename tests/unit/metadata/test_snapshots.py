import msgspec
import pytest

from pkray.checksums import seal_json
from pkray.errors import CorruptFileError, SnapshotNotFoundError
from pkray.format import paths
from pkray.format.snapshot import Snapshot
from pkray.metadata.snapshots import SnapshotStore


def snapshot(number: int, user: str = "u") -> Snapshot:
    return Snapshot(
        id=number,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user=user,
        commit_identifier=number,
        commit_kind="APPEND",
        time_millis=number,
    )


@pytest.fixture
def five(store):
    snapshots = SnapshotStore(store)
    for number in range(1, 6):
        assert snapshots.publish(snapshot(number))
    return store


def test_empty_table_has_no_snapshot(store):
    snapshots = SnapshotStore(store)
    assert snapshots.latest_id() is None
    assert snapshots.latest() is None
    assert snapshots.earliest_id() is None
    assert list(snapshots.all()) == []


def test_an_id_is_published_once(five):
    assert not SnapshotStore(five).publish(snapshot(3, "other"))
    assert SnapshotStore(five).read(3) == snapshot(3)


@pytest.mark.parametrize(
    "hint", [b"1", b"4", b"5", b"7", b"999", b"", b"garbage", b"-3", b"\xff", None]
)
def test_latest_is_found_whatever_the_hint_says(five, hint):
    if hint is None:
        five.delete("snapshot/LATEST")
    else:
        five.write("snapshot/LATEST", hint)
    assert SnapshotStore(five).latest_id() == 5


@pytest.mark.parametrize("hint", [b"1", b"2", b"3", b"4", b"9", b"garbage", None])
def test_earliest_is_found_whatever_the_hint_says(five, hint):
    five.delete(["snapshot/snapshot-1", "snapshot/snapshot-2"])
    if hint is None:
        five.delete("snapshot/EARLIEST")
    else:
        five.write("snapshot/EARLIEST", hint)
    assert SnapshotStore(five).earliest_id() == 3


def test_latest_follows_other_writers(five):
    reader, writer = SnapshotStore(five), SnapshotStore(five)
    assert reader.latest_id() == 5
    for number in range(6, 40):
        writer.publish(snapshot(number))
    assert reader.latest_id() == 39


def test_latest_goes_back_when_the_table_was_rolled_back(five):
    reader = SnapshotStore(five)
    assert reader.latest() == snapshot(5)
    five.delete(["snapshot/snapshot-5", "snapshot/snapshot-4"])
    assert reader.latest() == snapshot(3)
    SnapshotStore(five).publish(snapshot(4, "other"))
    assert reader.latest() == snapshot(4, "other")
    assert reader.read(4) == snapshot(4, "other")


def test_range_leaves_out_what_expired(five):
    five.delete("snapshot/snapshot-1")
    assert [s.id for s in SnapshotStore(five).range(1, 3)] == [2, 3]
    assert [s.id for s in SnapshotStore(five).all()] == [2, 3, 4, 5]
    assert [s.id for s in SnapshotStore(five).backwards(4)] == [4, 3, 2]


def test_a_missing_snapshot_names_those_that_are_there(five):
    five.delete("snapshot/snapshot-1")
    with pytest.raises(SnapshotNotFoundError, match="2 to 5 are there") as caught:
        SnapshotStore(five).read(1)
    assert caught.value.snapshot_id == 1
    assert caught.value.earliest == 2


def test_a_damaged_snapshot_is_named(five):
    five.write("snapshot/snapshot-5", b'{"id": 5, "sche')
    with pytest.raises(CorruptFileError, match="snapshot-5"):
        SnapshotStore(five).latest()


def test_unfinished_output_is_no_snapshot(five, tmp_path):
    (tmp_path / "snapshot" / ".snapshot-6.abc.tmp").write_bytes(b"{")
    five.delete("snapshot/LATEST")
    assert SnapshotStore(five).ids() == [1, 2, 3, 4, 5]
    assert SnapshotStore(five).latest_id() == 5


def expire(store, numbers: list[int], kept: int) -> None:
    """Write down that snapshots are about to be deleted."""
    said = {"token": "t", "dead": [snapshot(n) for n in numbers], "kept": snapshot(kept)}
    store.write(paths.EXPIRING, seal_json(msgspec.json.encode(said)))


def test_a_gap_that_an_expiry_leaves_is_no_rollback(five):
    expire(five, [1, 2, 3], kept=4)
    five.delete("snapshot/snapshot-2")
    assert SnapshotStore(five).look_below(snapshot(2)) == "expired"


def test_a_gap_that_no_expiry_has_written_down_is_a_rollback(five):
    five.delete("snapshot/snapshot-2")
    assert SnapshotStore(five).look_below(snapshot(2)) == "lost"


def test_a_rollback_below_what_an_expiry_keeps_is_one(five):
    expire(five, [1, 2, 3], kept=4)
    five.delete([f"snapshot/snapshot-{number}" for number in (5, 4, 3, 2)])
    assert SnapshotStore(five).look_below(snapshot(2)) == "lost"


def test_another_snapshot_than_an_expiry_names_went_by_a_rollback(five):
    expire(five, [1, 2, 3], kept=4)
    five.delete("snapshot/snapshot-2")
    other = msgspec.structs.replace(snapshot(2), delta_manifest_list="other")
    assert SnapshotStore(five).look_below(other) == "lost"


def test_a_damaged_word_of_an_expiry_says_nothing(five):
    five.write(paths.EXPIRING, b"{")
    five.delete("snapshot/snapshot-2")
    assert SnapshotStore(five).look_below(snapshot(2)) == "lost"
