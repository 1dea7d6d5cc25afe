"""The states of one query, and their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pkray.clock import now_millis
from pkray.format.data_file import DataFileMeta
from pkray.lookup.local_file_cache import CopyLimits
from pkray.lookup.store import LookupStore
from pkray.relational.continuous.state import State, StateSpec
from pkray.storage.object_store import ObjectStore

Files = Mapping[str, Sequence[DataFileMeta]]
"""The data files of each state, by its name."""
_DISK, _MEMORY, _RETENTION = 64 << 30, 256 << 20, 3_600_000
"""Bounds of the copies of files on the local disk: bytes, bytes of their indexes, milliseconds."""


class States:
    """Opens the states of a query, each in a folder of its own.

    Args:
        store: the folder that has them.
        local_directory: on the local disk, for copies of files and rows set aside.
        memory: bytes of rows that all states together hold in memory.
    """

    def __init__(self, store: ObjectStore, local_directory: str, memory: int = 256 << 20) -> None:
        self._store = store
        self._local = local_directory
        self._memory = memory
        self._lookups = LookupStore(
            str(Path(local_directory) / "lookup"),
            CopyLimits(_DISK, _MEMORY, _RETENTION),
            clock=now_millis,
            in_background=True,
        )
        self._files: Files = {}
        self.opened: dict[str, State] = {}

    def begin(self, files: Files) -> None:
        """Go on from the files of a checkpoint."""
        self._files = files
        self.opened = {}

    def open(self, name: str, spec: StateSpec, ttl: int) -> State:
        """Open a state.

        Args:
            ttl: milliseconds; 0: rows never expire.
        """
        state = State(
            spec,
            self._store.child(name),
            self._lookups,
            self._files.get(name, ()),
            memory=max(self._memory // 8, 1 << 20),
            ttl=ttl,
            local_directory=self._local,
        )
        self.opened[name] = state
        return state

    def checkpoint(self) -> dict[str, tuple[DataFileMeta, ...]]:
        """Write all to files; list those that have all rows, by state."""
        return {name: state.checkpoint() for name, state in self.opened.items()}

    def close(self) -> None:
        """Forget what no checkpoint has."""
        for state in self.opened.values():
            state.close()
        self._lookups.close()
