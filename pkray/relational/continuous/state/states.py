"""The states of one query, and their files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from pkray.clock import now_millis
from pkray.format.data_file import DataFileMeta
from pkray.lookup.local_file_cache import CopyLimits
from pkray.lookup.store import LookupStore
from pkray.metrics.collection import Reading
from pkray.metrics.names import WORKER_MEMORY_BYTES
from pkray.metrics.registry import REGISTRY
from pkray.relational.continuous.state.state import State, StateSpec, stored_rows
from pkray.service.hosted import Room
from pkray.storage.object_store import ObjectStore
from pkray.storage.opening import open_store
from pkray.storage.owned_directory import OwnedDirectory, default_local_directory

Files = Mapping[str, Sequence[DataFileMeta]]
"""The data files of each state, by its name."""
_DISK, _MEMORY, _RETENTION = 64 << 30, 256 << 20, 3_600_000
"""Bounds of the copies of files on the local disk: bytes, bytes of their indexes, milliseconds."""


class States:
    """Opens the states of a query, each in a folder of its own.

    Args:
        store: the folder that has them; None: one on the local disk, which ends with them.
        memory: bytes of rows that all states together hold in memory.
        generation: names the folders of new states, so that those of different plans lie apart.
        room: bounds the memory further, and is told how much is used; None: nothing does.
    """

    def __init__(
        self,
        store: ObjectStore | None = None,
        memory: int = 256 << 20,
        generation: str = "",
        room: Room | None = None,
    ) -> None:
        self._folder = OwnedDirectory(f"{default_local_directory()}/queries")
        self._local = str(self._folder.path)
        self._store = store or open_store(f"{self._local}/state")
        self._most = memory
        self._room = room or Room()
        self._lookups = LookupStore(
            f"{self._local}/lookup",
            CopyLimits(_DISK, _MEMORY, _RETENTION),
            clock=now_millis,
            in_background=True,
        )
        self._generation = generation
        self._files: Files = {}
        self._worker = 0
        self.opened: dict[str, State] = {}
        self.folders: dict[str, str] = {}
        REGISTRY.watch(self._measured)

    def _measured(self) -> Iterator[Reading]:
        """Read for metrics what memory it takes."""
        yield WORKER_MEMORY_BYTES, ("queries",), self._room.used + self._room.in_flight

    @property
    def _memory(self) -> int:
        bound = self._room.bound(self._most)
        return max(bound - self._room.in_flight, bound // 2)

    @contextmanager
    def in_flight(self, size: int) -> Iterator[None]:
        """Have states hold so many bytes less meanwhile, which changes take on their way; half of
        what they may hold at least."""
        self._room.in_flight += size
        try:
            yield
        finally:
            self._room.in_flight -= size

    def begin(
        self, files: Files, folders: Mapping[str, str] | None = None, worker: int = 0
    ) -> None:
        """Go on from the files of a checkpoint.

        Args:
            folders: of states whose files lie in a folder that is not called as they are.
            worker: number of the worker whose share of the rows they hold.
        """
        self._files, self._worker = files, worker
        self.folders = {name: name for name in files} | dict(folders or {})
        self.opened = {}

    def open(self, name: str, spec: StateSpec, ttl: int) -> State:
        """Open a state.

        Args:
            ttl: milliseconds; 0: rows never expire.
        """
        if self._generation:
            self.folders.setdefault(name, f"{self._generation}-{name}")
        state = State(
            spec,
            self._store.child(self.folders.get(name, name)),
            self._lookups,
            self._files.get(name, ()),
            memory=max(self._memory // 4, 1 << 20),
            ttl=ttl,
            local_directory=self._local,
            cache_room=lambda: self._memory // 2 - self._cached_bytes(),
            worker=self._worker,
        )
        self.opened[name] = state
        return state

    def stored(
        self, name: str, shares: Mapping[int, Sequence[DataFileMeta]]
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a state as a checkpoint has them.

        Args:
            shares: the files of each worker, by its number.
        """
        folder = self._store.child(self.folders.get(name, name))
        return iter(stored_rows(folder, shares) if any(shares.values()) else ())

    def fit(self) -> None:
        """Write states to files, the largest first, until all together hold what they may.

        Half of that is for rows that are in files too, and are kept to be found faster.
        """
        memory = self._memory
        half = memory // 2
        cached = sorted(self.opened.values(), key=lambda state: state.cache_bytes)
        while cached and self._cached_bytes() > half:
            others = sum(state.cache_bytes for state in cached[:-1])
            cached.pop().shrink_cache(max(half - others, 0))
        held = sorted(self.opened.values(), key=lambda state: state.unwritten_bytes)
        while held and sum(state.unwritten_bytes for state in held) > memory - half:
            held.pop().flush()
        self._room.used = sum(state.memory_bytes for state in self.opened.values())

    def _cached_bytes(self) -> int:
        return sum(state.cache_bytes for state in self.opened.values())

    def checkpoint(self) -> dict[str, tuple[DataFileMeta, ...]]:
        """Write all to files; list those that have all rows, by state, also of those that nobody
        opened.
        """
        others = {name: tuple(files) for name, files in self._files.items()}
        return others | {name: state.checkpoint() for name, state in self.opened.items()}

    def close(self) -> None:
        """Forget what no checkpoint has."""
        REGISTRY.unwatch(self._measured)
        self._room.used = 0
        for state in self.opened.values():
            state.close()
        self._lookups.close()
        self._folder.close()
