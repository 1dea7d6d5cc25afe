import pytest

from pkray.commit.manifest_files import ManifestFiles
from pkray.format import paths
from pkray.format.data_file import ADD, ManifestEntry
from pkray.format.manifest import ManifestFileMeta
from pkray.scan.file_set_cache import SETS_OF_A_TABLE, FileSetCache
from tests.commit_samples import UNPARTITIONED, data_file, schema


@pytest.fixture
def manifests(store) -> list[ManifestFileMeta]:
    """Manifests of a file each: f0, f1, …"""
    written = ManifestFiles(store, schema(), paths.FileNames())
    entries = [
        ManifestEntry(ADD, UNPARTITIONED, 0, 2, data_file(f"f{number}")) for number in range(40)
    ]
    return [manifest for entry in entries for manifest in written.write_manifests([entry])]


def names(cache: FileSetCache, store, manifests: list[ManifestFileMeta]) -> list[str]:
    return cache.read(store, manifests).table.column("name").to_pylist()


def test_the_sets_of_the_newest_snapshots_are_kept_and_no_more(store, manifests):
    cache = FileSetCache()
    for count in range(1, 41):
        assert names(cache, store, manifests[:count]) == [f"f{each}" for each in range(count)]
    assert len(cache) == SETS_OF_A_TABLE
    assert not cache.knows(store, manifests[:1])
    assert cache.knows(store, manifests)


def test_a_set_that_is_read_again_outlives_those_that_are_not(store, manifests):
    cache = FileSetCache()
    for count in range(1, 41):
        names(cache, store, manifests[:count])
        assert names(cache, store, manifests[-3:]) == ["f37", "f38", "f39"]
    assert cache.knows(store, manifests[-3:])


def test_tables_that_were_not_read_lately_go_first(store, manifests):
    size = FileSetCache().read(store, manifests[:1]).nbytes
    cache = FileSetCache(size * 3)
    places = [store.child(name) for name in "abcd"]
    for place in places:
        for manifest in manifests[:1]:
            path = paths.manifest(manifest.file_name)
            place.write(path, store.read(path))
        assert names(cache, place, manifests[:1]) == ["f0"]
    assert [cache.knows(place, manifests[:1]) for place in places] == [False, True, True, True]
