"""Writes the HASH index files of an owner's dynamic buckets."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from pkray.format import paths
from pkray.format.hash_index import Hashes, read_hashes, unique, write_hashes
from pkray.format.index_file import IndexFileMeta
from pkray.storage.object_store import ObjectStore

_KEPT_BYTES = 64 << 20
"""Hashes kept of the files written last, as each new file holds those of the one before."""


class HashFiles:
    """Files are written whole; what they held is kept for the next, within bounds."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._names = paths.FileNames()
        self._kept: OrderedDict[str, Hashes] = OrderedDict()

    def extend(self, base: IndexFileMeta | None, added: Sequence[bytes]) -> IndexFileMeta | None:
        """Write a new file of what ``base`` holds and these hashes; None if it holds them all.

        Args:
            added: int32 hashes, repeated ones among them.
        """
        new = unique(np.frombuffer(b"".join(added), np.int32))
        before = self._read(base) if base is not None else new[:0]
        if len(before):
            ordered = np.sort(before)
            at = np.searchsorted(ordered, new)
            new = new[ordered[np.minimum(at, len(ordered) - 1)] != new]
        if not len(new):
            return None
        hashes = np.concatenate((before, new))
        file = write_hashes(self._store, self._names, hashes)
        self._keep(file.file_name, hashes)
        return file

    def _read(self, file: IndexFileMeta) -> Hashes:
        if file.file_name not in self._kept:
            self._keep(file.file_name, read_hashes(self._store, file))
        self._kept.move_to_end(file.file_name)
        return self._kept[file.file_name]

    def _keep(self, name: str, hashes: Hashes) -> None:
        self._kept[name] = hashes
        held = sum(each.nbytes for each in self._kept.values())
        while held > _KEPT_BYTES and len(self._kept) > 1:
            _, let_go = self._kept.popitem(last=False)
            held -= let_go.nbytes
