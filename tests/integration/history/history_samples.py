"""Tables with a history, and a store that dies."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pkray
from pkray.metadata.live import changelog_entries, live_files
from pkray.metadata.schemas import SchemaStore
from pkray.metadata.snapshots import SnapshotStore
from pkray.metadata.tags import TagStore
from pkray.schema.table_schema import TableSchema
from pkray.storage.branch_store import main_and_history
from pkray.storage.object_store import ObjectStore
from pkray.storage.opening import open_store
from tests.delegating_store import DelegatingStore

Content = dict[int, str]


class Killed(BaseException):
    """The process is no more."""


class DyingStore(DelegatingStore):
    """Another store that dies before its nth change; 0: never.

    Deleting several files is several changes.
    """

    def __init__(self, inner: ObjectStore, deaths: list[int]) -> None:
        super().__init__(inner)
        self._deaths = deaths  # one counter for all children

    def _change(self, work: Callable[[], Any]) -> Any:
        self._deaths[0] -= 1
        if self._deaths[0] == 0:
            raise Killed
        return work()

    def create(self, path: str, data: bytes) -> bool:
        return self._change(lambda: self.inner.create(path, data))

    def write(self, path: str, data: bytes) -> None:
        self._change(lambda: self.inner.write(path, data))

    def delete(self, paths: str | Iterable[str]) -> None:
        for path in [paths] if isinstance(paths, str) else list(paths):
            self._change(lambda path=path: self.inner.delete(path))

    def child(self, prefix: str) -> ObjectStore:
        return DyingStore(self.inner.child(prefix), self._deaths)

    def __reduce__(self) -> Any:
        return DyingStore, (self.inner, self._deaths)


def create(warehouse: Path, **options: str) -> None:
    with pkray.connect(str(warehouse)) as catalog:
        catalog.create_table(
            "db.t",
            [("k", "BIGINT"), ("v", "STRING")],
            ["k"],
            options={"bucket": "1"} | {k.replace("_", "-"): v for k, v in options.items()},
        )


def put(table: pkray.Table, rows: Content, **commit: Any) -> int:
    """Commit rows; the newest snapshot's id."""
    with table.open_writer() as writer:
        empty = dict.fromkeys(table.schema.names)
        writer.upsert([empty | {"k": key, "v": value} for key, value in rows.items()])
        return writer.commit(**commit).id


def content(table: pkray.Table, **moment: Any) -> Content:
    rows = table.to_arrow(**moment)
    return dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))


def contents(warehouse: Path | str, name: str = "db.t") -> dict[int, Content]:
    """What a new process sees, by snapshot."""
    with pkray.connect(str(warehouse)) as catalog:
        table = catalog.load_table(name)
        ids = table.snapshots()["snapshot_id"].to_pylist()
        return {number: content(table, snapshot_id=number) for number in ids}


def now(warehouse: Path | str, name: str = "db.t") -> Content:
    with pkray.connect(str(warehouse)) as catalog:
        return content(catalog.load_table(name))


def files_of(warehouse: Path) -> dict[str, bytes]:
    """All bytes of a warehouse, by path."""
    paths = (path for path in warehouse.rglob("*") if path.is_file())
    return {str(path.relative_to(warehouse)): path.read_bytes() for path in paths}


def copy_of(files: Mapping[str, bytes]) -> str:
    """Another warehouse of the same files, in memory."""
    url = f"memory://{uuid.uuid4().hex}"
    store = open_store(url)
    for path, data in files.items():
        store.write(path, data)
    return url


def root(warehouse: Path | str) -> ObjectStore:
    return open_store(f"{warehouse}/db.db/t")


def schema(warehouse: Path | str) -> TableSchema:
    return SchemaStore(root(warehouse), "db.t").latest()


def data_files(warehouse: Path) -> set[str]:
    """Names of data and changelog files on the disk."""
    files = root(warehouse).list()
    return {f.path.rsplit("/", 1)[-1] for f in files if "bucket-" in f.path}


def named_files(store: ObjectStore) -> set[str]:
    """Names of data and changelog files that snapshots and tags have."""
    main, history = main_and_history(store)
    snapshots = list(SnapshotStore(history).all())
    found = {entry.file.file_name for each in snapshots for entry in changelog_entries(main, each)}
    for snapshot in (*snapshots, *TagStore(history).all().values()):
        found |= {entry.file.file_name for entry in live_files(main, snapshot)}
    return found
