"""Where a warehouse keeps its continuous queries: a folder each."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from pkray.arguments.file_names import fault
from pkray.checksums import check_json, seal_json
from pkray.clock import now_millis
from pkray.errors import (
    CorruptFileError,
    MissingFileError,
    OptionError,
    QueryNotFoundError,
    TableInUseError,
)
from pkray.relational.continuous.queries.log import StoredLog
from pkray.storage.object_store import ObjectStore
from pkray.table.databases import remove_folders

FOLDER = ".queries"
"""Hidden: what lists databases does not see it."""
_DEFINITION = "query.json"
_WANTED = "wanted.json"
_FAILURE = "failure.json"
_STATUS = "status.json"
UPGRADE = "upgrade.json"


class Definition(msgspec.Struct, frozen=True):
    """What a query is.

    Attributes:
        name: of the query; that of its table, where it has one.
        document: the compiled plan.
        before: of each root, whether rows before updates are needed.
        tables: names of the results, one a root; of a stream there is none.
        created: epoch milliseconds.
        dialect: of the query.
        options: how it runs: ``trigger``, ``max_rows``, ``checkpoint_epochs`` and so on.
        beginnings: of the sources of which not everything is read first, the positions after and
            up to which the first epoch reads.
        streams: names of the streams from outside that it reads.
        generation: the upgrade by which it got its plan; empty: none.
    """

    name: str
    document: dict[str, Any]
    before: tuple[bool, ...]
    tables: tuple[str, ...]
    created: int
    dialect: str
    options: dict[str, Any] = {}
    beginnings: dict[str, tuple[int, int | None]] = {}
    streams: tuple[str, ...] = ()
    generation: str = ""

    @property
    def digest(self) -> str:
        """Tells plans apart: the digests of the roots."""
        targets = {edge["source"] for edge in self.document["edges"]}
        roots = [node for node in self.document["nodes"] if node["id"] not in targets]
        return "-".join(node["digest"] for node in roots)

    @property
    def ttls(self) -> dict[int, list[str]]:
        """List the TTLs of the states of each node, by its number."""
        return {
            node["id"]: [state["ttl"] for state in node.get("state", ())]
            for node in self.document["nodes"]
        }


class Failure(msgspec.Struct, frozen=True):
    """Why a query stopped.

    Attributes:
        kind: of the error.
        epoch: the one that could not be ended.
        time: epoch milliseconds.
        node: which operator failed: its number and type; None where none did.
        told: what became of the hooks that were told; None where there is none.
    """

    message: str
    kind: str
    epoch: int
    time: int
    node: str | None = None
    told: str | None = None


def failure_status(failure: Failure | None) -> dict[str, Any]:
    """Say why a query stopped, as its status has it."""
    if failure is None:
        return {"failure": None}
    return {"failure": failure.message, "failed_node": failure.node, "failure_told": failure.told}


class QueryStore:
    """The folders of all queries of a warehouse.

    Args:
        store: the warehouse's root.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def names(self) -> list[str]:
        """List the queries."""
        folders = self._store.list_dirs(FOLDER)
        names = [each.rstrip("/").rpartition("/")[2] for each in folders]
        return [name for name in names if self._store.exists(f"{FOLDER}/{name}/{_DEFINITION}")]

    def folder(self, name: str) -> ObjectStore:
        """Give the folder of a query.

        Raises:
            OptionError: it cannot be called so.
        """
        wrong = fault(name)
        if wrong is not None:
            raise OptionError(f"a query cannot be called {name!r}: {wrong}", value=name)
        return self._store.child(f"{FOLDER}/{name}")

    def find(self, name: str) -> Definition | None:
        """Read what a query is; None where there is none of this name."""
        return _read(self.folder(name), _DEFINITION, Definition)

    def read(self, name: str) -> Definition:
        """Read what a query is.

        Raises:
            QueryNotFoundError: there is none of this name.
        """
        found = self.find(name)
        if found is None:
            known = ", ".join(self.names()) or "there is none"
            raise QueryNotFoundError(f"no query is called {name}: {known}", query=name)
        return found

    def create(self, definition: Definition) -> bool:
        """Store a query; false where there is one of its name."""
        data = seal_json(msgspec.json.encode(definition))
        return self.folder(definition.name).create(_DEFINITION, data)

    def replace(self, definition: Definition) -> None:
        """Store another plan or other options of a query."""
        data = seal_json(msgspec.json.encode(definition))
        self.folder(definition.name).write(_DEFINITION, data)

    def drop(self, name: str) -> None:
        """Delete a query with its state; nothing where there is none."""
        folder = self.folder(name)
        folder.delete(_DEFINITION)
        folder.delete([each.path for each in folder.list(hidden=True)])
        remove_folders(folder)

    def log(self, name: str) -> StoredLog:
        """Begin a run of a query: its log, under a name of its own."""
        return StoredLog(self.folder(name), uuid.uuid4().hex)

    def want(self, name: str, *, running: bool) -> None:
        """Note whether people want it to run."""
        self.folder(name).write(_WANTED, msgspec.json.encode({"running": running}))

    def is_wanted(self, name: str) -> bool:
        """Whether people want it to run."""
        try:
            return bool(msgspec.json.decode(self.folder(name).read(_WANTED))["running"])
        except (MissingFileError, msgspec.MsgspecError, KeyError, TypeError):
            return False

    def note_status(self, name: str, status: Mapping[str, Any]) -> None:
        """Write down what a query does, and when that was."""
        said = {"time": now_millis(), "status": status}
        self.folder(name).write(_STATUS, seal_json(msgspec.json.encode(said)))

    def status(self, name: str) -> tuple[int, dict[str, Any]] | None:
        """Read what a query did, and when that was, in epoch milliseconds; None: nothing yet."""
        found = _read(self.folder(name), _STATUS, dict)
        return None if found is None else (int(found["time"]), dict(found["status"]))

    def upgraded(self, name: str) -> list[dict[str, Any]]:
        """List the plans of an upgrade that has not ended: both read their tables again."""
        found = _read(self.folder(name), UPGRADE, dict)
        return [] if found is None else [found[each]["document"] for each in ("old", "new")]

    def note_failure(self, name: str, failure: Failure | None) -> None:
        """Note why it stopped; None: it goes on."""
        if failure is None:
            self.folder(name).delete(_FAILURE)
        else:
            self.folder(name).write(_FAILURE, seal_json(msgspec.json.encode(failure)))

    def failure(self, name: str) -> Failure | None:
        """Read why it stopped."""
        return _read(self.folder(name), _FAILURE, Failure)


def check_unused(warehouse: ObjectStore, table: str, what: str) -> None:
    """Check that no query reads or writes a table.

    Args:
        warehouse: its root.
        what: is to be done to it: ``dropped``.

    Raises:
        TableInUseError: one does; the error names it.
    """
    store = QueryStore(warehouse)
    for name in store.names():
        definition = store.find(name)
        if definition is None:
            continue
        documents = [definition.document, *store.upgraded(name)]
        read = {node.get("table") for document in documents for node in document["nodes"]}
        if table in read or table in definition.tables:
            role = "writes" if table in definition.tables else "reads"
            raise TableInUseError(
                f"{table} cannot be {what}: query {name} {role} it; drop the query first, or give "
                "force=True",
                table=table,
                query=name,
            )


def _read(store: ObjectStore, path: str, kind: type[Any]) -> Any:
    try:
        data = store.read(path)
    except MissingFileError:
        return None
    try:
        check_json(data)
        return msgspec.json.decode(data, type=kind)
    except (ValueError, msgspec.MsgspecError) as error:
        raise CorruptFileError(f"{store.url}/{path} is damaged: {error}", path=path) from error
