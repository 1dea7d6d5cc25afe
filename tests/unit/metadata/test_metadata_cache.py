import pytest

from pkray.errors import OptionError
from pkray.format.snapshot import Snapshot
from pkray.metadata import manifest_cache, metadata_cache
from pkray.metadata.snapshots import SnapshotStore
from pkray.storage.local import LocalStore


def snapshot(number: int, user: str = "u") -> Snapshot:
    return Snapshot(
        id=number,
        schema_id=0,
        base_manifest_list=f"b{number}",
        delta_manifest_list=f"d{number}",
        commit_user=user,
        commit_identifier=number,
        commit_kind="APPEND",
        time_millis=number,
        properties={"a": "b" * 100},
    )


def held(store: LocalStore) -> list[str]:
    """List what is held of the files of a table."""
    return sorted(path for url, path in metadata_cache.metadata._held if url == store.url)


def test_what_was_used_last_is_held_within_so_many_bytes():
    size = metadata_cache.bytes_of(snapshot(1)) + metadata_cache.bytes_of("1")
    cache = metadata_cache.MetadataCache(size * 4 + size // 2)
    for number in range(1, 5):
        cache.put(str(number), snapshot(number))
    assert cache.get("1") == snapshot(1)
    cache.put("5", snapshot(5))
    assert [cache.get(str(number)) is not None for number in range(1, 6)] == [1, 0, 1, 1, 1]
    assert cache.nbytes <= size * 4.5


def test_a_value_larger_than_half_is_not_held_nor_the_one_before_it():
    cache = metadata_cache.MetadataCache(10_000)
    cache.put("a", "b")
    cache.put("a", "b" * 6_000)
    assert (cache.get("a"), len(cache), cache.nbytes) == (None, 0, 0)


def test_a_list_is_measured_by_a_sample():
    items = [snapshot(number) for number in range(1000)]
    every = sum(map(metadata_cache.bytes_of, items))
    assert metadata_cache.bytes_of(items) == pytest.approx(every, rel=0.02)


def test_a_snapshot_that_several_stores_read_is_in_memory_once(store):
    SnapshotStore(store).publish(snapshot(1))
    first, second = SnapshotStore(store), SnapshotStore(store)
    assert first.read(1) is second.read(1)


def test_a_store_does_not_take_the_snapshot_of_another_that_has_not_seen_a_rollback(store):
    late, other = SnapshotStore(store), SnapshotStore(store)
    other.publish(snapshot(1))
    assert late.read(1) == snapshot(1)
    other.remove_from(1)
    other.publish(snapshot(1, "other"))
    assert late.read(1) == snapshot(1)
    assert SnapshotStore(store).read(1) == snapshot(1, "other")
    assert other.read(1) == snapshot(1, "other")


def test_a_snapshot_that_is_deleted_is_forgotten_by_all_stores(store):
    stores = [SnapshotStore(store) for _ in range(3)]
    for number in (1, 2):
        stores[0].publish(snapshot(number))
    assert all(each.read(number) == snapshot(number) for each in stores for number in (1, 2))
    stores[1].delete(1)
    assert held(store) == ["snapshot/snapshot-2"]
    assert [list(each._kept) for each in stores] == [[2], [2], [2]]


def test_a_deleted_snapshot_that_somebody_still_has_is_not_held_again(store):
    reader, other = SnapshotStore(store), SnapshotStore(store)
    other.publish(snapshot(1))
    known = reader.read(1)
    other.delete(1)
    assert reader.read(1) == known
    assert held(store) == []


def test_a_manifest_that_is_deleted_is_forgotten(store):
    store.write("manifest/a", b"")
    manifest_cache.manifests.written(store, "a", [])
    assert held(store) == ["manifest/a"]
    manifest_cache.delete(store, ["manifest/a"])
    assert held(store) == []
    assert not store.exists("manifest/a")


@pytest.mark.parametrize(
    ("said", "expected"), [("", metadata_cache.CACHED_BYTES), ("256 mb", 256 << 20)]
)
def test_the_environment_says_how_much_a_process_holds(monkeypatch, said, expected):
    monkeypatch.setenv(metadata_cache.VARIABLE, said)
    assert metadata_cache.cached_bytes() == expected


def test_a_cache_holds_as_much_as_the_environment_says(monkeypatch):
    monkeypatch.setenv(metadata_cache.VARIABLE, "64 kb")
    cache = metadata_cache.MetadataCache()
    for number in range(100):
        cache.put(number, b"x" * 10_000)
    assert 0 < cache.nbytes <= 64 << 10


@pytest.mark.parametrize("said", ["much", "-1 mb", "1 kb"])
def test_what_is_no_size_in_the_environment_is_told(monkeypatch, said):
    monkeypatch.setenv(metadata_cache.VARIABLE, said)
    with pytest.raises(OptionError, match=metadata_cache.VARIABLE):
        metadata_cache.cached_bytes()
