"""Manifests and manifest lists in memory: files of these names never change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from pkray.format import paths
from pkray.format.data_file import ManifestEntry
from pkray.format.manifest import (
    IndexManifestEntry,
    ManifestFileMeta,
    read_index_manifest,
    read_manifest,
    read_manifest_list,
)
from pkray.storage.object_store import ObjectStore

T = TypeVar("T")

CACHED_ENTRIES = 20_000
"""Manifest entries kept in a process, some 2 KB each."""
CACHED_MANIFESTS = 20_000
"""Entries of manifest lists kept in a process."""


class _FileCache(Generic[T]):
    """The least recently read files go first; no file takes more than half."""

    def __init__(self, capacity: int, parse: Callable[[bytes, str, int | None], list[T]]) -> None:
        self._capacity = capacity
        self._parse = parse
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, str], tuple[Hashable, list[T]]] = OrderedDict()
        self._count = 0

    def read(self, store: ObjectStore, name: str, size: int | None = None) -> list[T]:
        """Read what a file holds; ``size`` (bytes) is what it should have, where that is known."""
        path = paths.manifest(name)
        fingerprint = store.fingerprint(path)
        with self._lock:
            held = self._held.get((store.url, name))
            if held is not None and held[0] == fingerprint:
                self._held.move_to_end((store.url, name))
                return held[1]
        items = self._parse(store.read(path), store.location(path), size)
        self._put((store.url, name), fingerprint, items)
        return items

    def written(self, store: ObjectStore, name: str, items: list[T]) -> None:
        self._put((store.url, name), store.fingerprint(paths.manifest(name)), items)

    def _put(self, key: tuple[str, str], fingerprint: Hashable, items: list[T]) -> None:
        with self._lock:
            if key in self._held:
                self._count -= self._weight(self._held.pop(key))
            if len(items) > self._capacity // 2:
                return
            self._held[key] = (fingerprint, items)
            self._count += self._weight(self._held[key])
            while self._count > self._capacity:
                self._count -= self._weight(self._held.popitem(last=False)[1])

    @staticmethod
    def _weight(held: tuple[Any, list[T]]) -> int:
        return len(held[1]) + 1


manifests: _FileCache[ManifestEntry] = _FileCache(CACHED_ENTRIES, read_manifest)
manifest_lists: _FileCache[ManifestFileMeta] = _FileCache(
    CACHED_MANIFESTS, lambda data, path, size: read_manifest_list(data, path)
)
index_manifests: _FileCache[IndexManifestEntry] = _FileCache(
    CACHED_ENTRIES, lambda data, path, size: read_index_manifest(data, path)
)
