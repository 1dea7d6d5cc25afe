"""A table of small files for the tests of expiry, and a walk over what names them."""

import functools
import io
import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import fastavro
import msgspec

from pkray.commit.committer import Committer
from pkray.errors import StorageError
from pkray.format import paths
from pkray.format.data_file import DataFileMeta
from pkray.format.index_file import HASH, IndexFileMeta
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore
from tests import commit_samples as samples


class Writer:
    """Commits files that hold a few bytes, and remembers what every snapshot should have.

    Args:
        rng: of what is committed.
    """

    def __init__(self, store: ObjectStore, schema: TableSchema, rng: random.Random) -> None:
        self.store = store
        self.schema = schema
        self.now = 1_000_000
        self.live: dict[int, set[str]] = {}
        self.changes: dict[int, set[str]] = {}
        self._rng = rng
        self._files: dict[str, DataFileMeta] = {}
        self._index: str | None = None
        self._numbers = iter(range(1_000_000))
        self._committer = Committer(store, schema, "writer", clock=self.clock)

    def clock(self) -> int:
        self.now += 1
        return self.now

    def append(self, files: int = 1) -> None:
        """Commit new files of level 0, with a changelog where the table has a producer."""
        new = [self._write("data") for _ in range(files)]
        changelog = [self._write("changelog")] if self._has_producer() else []
        message = samples.message(new, changelog=changelog, part=samples.partition("a"))
        if self._rng.random() < 0.3:
            message = self._with_index(message)
        self._commit(message)

    def compact(self) -> None:
        """Commit new files, and what merging or moving up all files gives."""
        new = [self._write("data")]
        files = {**self._files, **{file.file_name: file for file in new}}
        moved = self._rng.choice(list(files.values()))
        after = [samples.data_file(moved.file_name, moved.level + 1, *self._range())]
        merged = [file for file in files.values() if self._rng.random() < 0.6]
        merged = [file for file in merged if file.file_name != moved.file_name]
        if merged:
            after.append(self._write("data", level=5))
        changelog = [self._write("changelog")] if self._has_producer() else []
        self._commit(
            samples.message(
                new,
                [*merged, moved],
                after,
                part=samples.partition("a"),
                compact_changelog=changelog,
            )
        )

    def _commit(self, message: Any) -> None:
        before = dict(self._files)
        self._files |= {file.file_name: file for file in message.new_files}
        appended = set(self._files)
        for file in message.compact_before:
            del self._files[file.file_name]
        self._files |= {file.file_name: file for file in message.compact_after}
        result = self._committer.commit(next(self._numbers), [message])
        assert result.append is not None
        assert not result.compact_conflict
        self.live[result.append.id] = appended
        self.changes[result.append.id] = self._changed(
            message.changelog_files, appended - set(before)
        )
        if result.compact is not None:
            self.live[result.compact.id] = set(self._files)
            self.changes[result.compact.id] = self._changed(message.compact_changelog_files, ())

    def _changed(self, changelog: Iterable[DataFileMeta], added: Iterable[str]) -> set[str]:
        return {f.file_name for f in changelog} if self._has_producer() else set(added)

    def _with_index(self, message: Any) -> Any:
        name = f"index-{next(self._numbers)}"
        self.store.write(paths.index(name), b"index")
        file = IndexFileMeta(index_type=HASH, file_name=name, file_size=5, row_count=1)
        base = () if self._index is None else (self._index,)
        self._index = name
        return msgspec.structs.replace(message, index_files=(file,), index_base=base)

    def _write(self, kind: str, level: int = 0) -> DataFileMeta:
        name = f"{kind}-{next(self._numbers)}.parquet"
        self.store.write(f"p=a/bucket-0/{name}", b"rows")
        low, high = self._range()
        file = samples.data_file(name, level, low, high)
        return msgspec.structs.replace(file, file_source=0 if level == 0 else 1)

    def _range(self) -> tuple[int, int]:
        low = next(self._numbers) * 10
        return low, low + 9

    def _has_producer(self) -> bool:
        return self.schema.core.changelog_producer != "none"


class Walk:
    """What a table's files name, read by fastavro and json alone."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    def json(self, path: str) -> dict[str, Any]:
        return json.loads(self.store.read(path))

    def manifest_names(self, list_name: str) -> list[str]:
        return [r["_FILE_NAME"] for r in self._avro(paths.manifest(list_name))]

    def live(self, snapshot: dict[str, Any]) -> set[str]:
        """Names of the data files of a snapshot; every manifest has to be there."""
        files: dict[tuple[int, str], None] = {}
        for name in ("baseManifestList", "deltaManifestList"):
            for manifest in self.manifest_names(snapshot[name]):
                for record in self._avro(paths.manifest(manifest)):
                    key = record["_FILE"]["_LEVEL"], record["_FILE"]["_FILE_NAME"]
                    if record["_KIND"] == 0:
                        files[key] = None
                    else:
                        del files[key]
        return {name for _, name in files}

    def added(self, list_name: str) -> set[str]:
        return {
            record["_FILE"]["_FILE_NAME"]
            for manifest in self.manifest_names(list_name)
            for record in self._avro(paths.manifest(manifest))
            if record["_KIND"] == 0
        }

    def numbered(self, folder: str, prefix: str) -> dict[int, dict[str, Any]]:
        found = {}
        for status in self.store.list(folder):
            number = status.path.removeprefix(f"{folder}/{prefix}-")
            if number.isdecimal():
                found[int(number)] = self.json(status.path)
        return dict(sorted(found.items()))

    def snapshots(self) -> dict[int, dict[str, Any]]:
        return self.numbered("snapshot", "snapshot")

    def changelogs(self) -> dict[int, dict[str, Any]]:
        return self.numbered("changelog", "changelog")

    def tags(self) -> dict[str, dict[str, Any]]:
        return {s.path: self.json(s.path) for s in self.store.list("tag")}

    def named(self, deltas: bool, outlive: bool) -> set[str]:
        """Paths of all files that snapshots, tags and changelogs name, their own included.

        Args:
            deltas: changelogs are read from delta manifests.
            outlive: changelogs outlive snapshots.
        """
        found = {"snapshot/EARLIEST", "snapshot/LATEST"}
        for snapshot in [*self.snapshots().values(), *self.tags().values()]:
            for key in ("baseManifestList", "deltaManifestList"):
                found |= self._with_manifests(snapshot[key])
            if snapshot.get("indexManifest"):
                index = f"manifest/{snapshot['indexManifest']}"
                found |= {index, *(f"index/{r['_FILE_NAME']}" for r in self._avro(index))}
            found |= {f"p=a/bucket-0/{name}" for name in self.live(snapshot)}
        for number, snapshot in self.snapshots().items():
            found.add(f"snapshot/snapshot-{number}")
            found |= self._changelog(snapshot.get("changelogManifestList"))
        for number, changelog in self.changelogs().items():
            found.add(f"changelog/changelog-{number}")
            found |= self._changelog(changelog.get("changelogManifestList"))
            if deltas:
                found |= self._with_manifests(changelog["deltaManifestList"])
                found |= self._spared(changelog, added=changelog["commitKind"] == "APPEND")
        if deltas and outlive:
            found |= self._spared(next(iter(self.snapshots().values())), added=False)
        found |= set(self.tags())
        if self.changelogs():
            found |= {"changelog/EARLIEST", "changelog/LATEST"}
        return found

    def there(self) -> set[str]:
        return {
            status.path
            for status in self.store.list("", hidden=True)
            if not status.path.startswith(("consumer/", "schema/"))
        }

    def _changelog(self, list_name: str | None) -> set[str]:
        if list_name is None:
            return set()
        files = {f"p=a/bucket-0/{name}" for name in self.added(list_name)}
        return self._with_manifests(list_name) | files

    def _spared(self, changelog: dict[str, Any], *, added: bool) -> set[str]:
        """Appended files that a changelog adds, or removes: those go with it."""
        return {
            f"p=a/bucket-0/{record['_FILE']['_FILE_NAME']}"
            for manifest in self.manifest_names(changelog["deltaManifestList"])
            for record in self._avro(paths.manifest(manifest))
            if (record["_KIND"] == 0 and added)
            or (record["_KIND"] == 1 and record["_FILE"]["_FILE_SOURCE"] == 0)
        }

    def _with_manifests(self, list_name: str) -> set[str]:
        names = self.manifest_names(list_name)
        return {f"manifest/{list_name}", *(f"manifest/{name}" for name in names)}

    def _avro(self, path: str) -> list[Any]:
        return _records(self.store.read(path))


@functools.lru_cache(2_000)
def _records(data: bytes) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(data)))


class KilledError(StorageError):
    """The process is no more."""


class KillingStore(samples.WrappedStore):
    """Dies at the nth operation that changes the store, before or after it; deletions count each.

    Args:
        at: from 0; None never dies.
    """

    def __init__(self, inner: ObjectStore, at: int | None = None, after: bool = False) -> None:
        super().__init__(inner, on_create=lambda path, create: self._step(create))
        self.at = at
        self.after = after
        self.steps = 0

    def write(self, path: str, data: bytes) -> None:
        self._step(lambda: self.inner.write(path, data))

    def delete(self, paths: str | Iterable[str]) -> None:
        for path in [paths] if isinstance(paths, str) else paths:
            self._step(lambda path=path: self.inner.delete(path))

    def _step(self, change: Callable[[], Any]) -> Any:
        step, self.steps = self.steps, self.steps + 1
        if self.at is not None and (step > self.at or (step == self.at and not self.after)):
            raise KilledError("killed")
        answer = change()
        if step == self.at:
            raise KilledError("killed")
        return answer
