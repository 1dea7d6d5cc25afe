"""Manifests and manifest lists in memory: files of these names never change."""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from pkray.format import manifest, paths
from pkray.format.data_file import ManifestEntry
from pkray.metadata.metadata_cache import metadata
from pkray.storage.object_store import ObjectStore

T = TypeVar("T")


class _Files(Generic[T]):
    """Reads files of one kind, from memory where they are as they were."""

    def __init__(self, parse: Callable[[bytes, str, int | None], list[T]]) -> None:
        self._parse = parse

    def read(self, store: ObjectStore, name: str, size: int | None = None) -> list[T]:
        """Read what a file holds; ``size`` (bytes) is what it should have, where that is known."""
        path = paths.manifest(name)
        fingerprint = store.fingerprint(path)
        held: tuple[Hashable, list[T]] | None = metadata.get(_key(store, path))
        if held is not None and held[0] == fingerprint:
            return held[1]
        items = self._parse(store.read(path), store.location(path), size)
        metadata.put(_key(store, path), (fingerprint, items))
        return items

    def written(self, store: ObjectStore, name: str, items: list[T]) -> None:
        path = paths.manifest(name)
        metadata.put(_key(store, path), (store.fingerprint(path), items))


def delete(store: ObjectStore, files: Iterable[str]) -> None:
    """Delete manifests, lists and other metadata by their paths, and forget them."""
    files = list(files)
    store.delete(files)
    metadata.forget(_key(store, path) for path in files)


def _key(store: ObjectStore, path: str) -> Hashable:
    return store.url, path


manifests: _Files[ManifestEntry] = _Files(manifest.read_manifest)
manifest_lists: _Files[manifest.ManifestFileMeta] = _Files(
    lambda data, path, size: manifest.read_manifest_list(data, path)
)
index_manifests: _Files[manifest.IndexManifestEntry] = _Files(
    lambda data, path, size: manifest.read_index_manifest(data, path)
)
