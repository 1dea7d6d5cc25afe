"""Keep the continuous queries of a warehouse: a folder each."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import structs

from pkray import errors
from pkray.arguments.file_names import fault
from pkray.clock import now_millis
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.log.stored_log import StoredLog
from pkray.relational.continuous.queries.definitions.definition import (
    Definition,
    new_incarnation,
    old_user,
    tables_read,
)
from pkray.relational.continuous.queries.definitions.numbered_files import NumberedFiles
from pkray.relational.plan.json.names import PLAN_VERSION
from pkray.storage.object_store import ObjectStore, together
from pkray.storage.sealed import find_sealed, read_sealed, sealed, unsealed
from pkray.storage.warehouse_mark import check_empty
from pkray.table.databases import remove_folders

FOLDER = ".queries"
"""Hidden: what lists databases does not see it."""
_DEFINITIONS = "definitions/definition-"
_LIVES = "lives/"
"""Below it a folder for each beginning, with all that is kept of it."""
_OLD_DEFINITION = "query.json"
"""Of versions that replaced it in place; it has them refuse queries of this one."""
_WANTED = "wanted"
"""With the incarnation in its name: who drops an earlier one may be late."""
_FAILURE = "failure.json"
_STATUS = "status.json"
_STARTS = "starts.json"
_ADOPTED = "adopted.json"
_RESTORING = "restoring.json"
UPGRADE = "upgrade.json"
_STORED_VERSION = PLAN_VERSION + 1
"""Of plans as queries store them: versions that know no incarnations refuse to read it."""
_REFUSED_VERSION = PLAN_VERSION + 2
"""Of the plan in `_OLD_DEFINITION`: all versions that read that file refuse it."""


class Failure(msgspec.Struct, frozen=True):
    """Tells why a query stopped.

    Attributes:
        kind: of the error.
        epoch: the one that could not be ended.
        time: epoch milliseconds.
        node: which operator failed: its number and type; None where none did.
        told: what became of the hooks that were told; None where there is none.
        incarnation: of the query; empty: of a version that knew none.
        run: the name of the run that failed.
    """

    message: str
    kind: str
    epoch: int
    time: int
    node: str | None = None
    told: str | None = None
    incarnation: str = ""
    run: str = ""


class _Wanted(msgspec.Struct, frozen=True):
    running: bool
    incarnation: str = ""


class _Starts(msgspec.Struct, frozen=True):
    epoch: int
    count: int
    incarnation: str = ""


class _Adopted(msgspec.Struct, frozen=True):
    incarnation: str


class _Restoring(msgspec.Struct, frozen=True):
    savepoint: str


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

    def all(self, broken: dict[str, errors.PkrayError] | None = None) -> list[Definition]:
        """Read what all queries are.

        Args:
            broken: takes the errors of those that cannot be read, by their names; None: the first
                of them is raised.

        Raises:
            StorageError: nothing is listed in the warehouse, and something is there.
        """
        folders = self._store.list_dirs(FOLDER)
        if not folders:
            check_empty(self._store)
        found = []
        for name in (each.rstrip("/").rpartition("/")[2] for each in folders):
            try:
                found.append(self.find(name))
            except errors.PkrayError as error:
                if broken is None:
                    raise
                broken[name] = error
        return [each for each in found if each is not None]

    def folder(self, definition: Definition) -> ObjectStore:
        """Give the folder of a query's files: of a beginning of it, which no other one has."""
        root = self._root(definition.name)
        return root.child(f"{_LIVES}{definition.begun}") if definition.apart else root

    def _root(self, name: str) -> ObjectStore:
        """Give the folder of all queries of a name.

        Raises:
            OptionError: it cannot be called so.
        """
        wrong = fault(name)
        if wrong is not None:
            raise errors.OptionError(f"a query cannot be called {name!r}: {wrong}", value=name)
        return self._store.child(f"{FOLDER}/{name}")

    def _numbered(self, name: str) -> NumberedFiles:
        return NumberedFiles(self._root(name), _DEFINITIONS)

    def find(self, name: str) -> Definition | None:
        """Read what a query is; None where there is none of this name."""
        found = self.newest(name)[1]
        return None if found is None or found.dropped else found

    def find_dropped(self, name: str) -> Definition | None:
        """Read what a query was that was dropped, and of which something is left."""
        found = self.newest(name)[1]
        return found if found is not None and found.dropped else None

    def newest(self, name: str) -> tuple[int, Definition | None]:
        """Read the newest number of a definition, -1 before the first, and the definition; dropped
        ones too.
        """
        root, numbered = self._root(name), self._numbered(name)
        (number, data), old = together(root, numbered.newest, lambda: _old_definition(root))
        found: Definition | None = None
        if number < 0 and old is not None:
            found = unsealed(root, _OLD_DEFINITION, old, Definition)
        elif data is not None:
            found = unsealed(root, numbered.path(number), data, Definition)
        version = found.document.get("planVersion") if found is not None else None
        if found is None or (number < 0 and version == _REFUSED_VERSION):
            return number, None  # of the latter the definition was never stored
        document = found.document
        if version == _STORED_VERSION:
            document = {**document, "planVersion": PLAN_VERSION}
        return number, structs.replace(found, document=document, number=number)

    def read(self, name: str) -> Definition:
        """Read what a query is.

        Raises:
            QueryNotFoundError: there is none of this name.
        """
        found = self.find(name)
        if found is None:
            known = ", ".join(each.name for each in self.all()) or "there is none"
            raise errors.QueryNotFoundError(f"no query is called {name}: {known}", query=name)
        return found

    def create(self, definition: Definition, after: int | None = None) -> Definition | None:
        """Store a query; None where there is one of its name.

        Args:
            after: the newest number under that name, where nobody has a query by then; default is
                to look for it.
        """
        if after is None:
            after, there = self.newest(definition.name)
            if there is not None and not there.dropped:
                return None
        root, numbered = self._root(definition.name), structs.replace(definition, number=after + 1)
        if after >= 0:
            return self._add(numbered)
        if root.create(_OLD_DEFINITION, _refused(numbered)):  # as `_add` writes it
            is_added = self._numbered(definition.name).add(numbered.number, _stored(numbered))
            return numbered if is_added else None
        return None if self.find(definition.name) is not None else self._add(numbered)

    def replace(self, definition: Definition) -> Definition:
        """Store another plan, other options or another incarnation of a query.

        Args:
            definition: with the number of the one that it is made of.

        Returns:
            it as it is stored.

        Raises:
            QueryFencedError: the query was dropped, begun anew or changed otherwise since that one
                was read.
        """
        next_one = structs.replace(definition, number=definition.number + 1)
        made = self._add(next_one)
        if made is not None:
            return made
        there = self.find(definition.name)
        if there is not None and structs.replace(there, number=next_one.number) == next_one:
            return there  # another process did the same
        raise _fenced(definition, there)

    def _add(self, definition: Definition) -> Definition | None:
        """Store a definition under its number; None where that is taken."""
        if not self._numbered(definition.name).add(definition.number, _stored(definition)):
            return None
        self._root(definition.name).write(_OLD_DEFINITION, _refused(definition))
        return definition

    def adopt(self, definition: Definition) -> Definition:
        """Give a query of a version that knew no incarnations one; the same to all who ask."""
        folder = self.folder(definition)
        mine = _Adopted(new_incarnation())
        if not folder.create(_ADOPTED, sealed(mine)):
            mine = read_sealed(folder, _ADOPTED, _Adopted)
        user = old_user(definition.name)
        return structs.replace(definition, incarnation=mine.incarnation, user=user)

    def check_current(self, definition: Definition) -> Definition:
        """Check that a query is of this incarnation still; one request, unless it was changed.

        Returns:
            what it is now.

        Raises:
            QueryFencedError: it was dropped, begun anew or sent back to a savepoint.
        """
        number = definition.number
        if number >= 0 and self._numbered(definition.name).is_newest(number):
            return definition
        there = self.find(definition.name)
        if there is None or there.incarnation != definition.incarnation:
            raise _fenced(definition, there)
        return there

    def check_of(self, definition: Definition) -> Callable[[], None]:
        """Give a function that checks that a query is of this incarnation still, many times."""
        known = definition

        def check() -> None:
            nonlocal known
            known = self.check_current(known)

        return check

    def drop(self, definition: Definition) -> Definition | None:
        """Note that a query is no more: whoever reads it from then on finds none.

        Returns:
            what has still to be deleted of it, in the end by `clear`; None where that is done.

        Raises:
            QueryFencedError: it was begun anew or sent back to a savepoint meanwhile.
        """
        while True:
            last = structs.replace(definition, number=definition.number + 1, dropped=True)
            dropped = self._add(last)
            if dropped is not None:
                return dropped
            _, there = self.newest(definition.name)
            if there is None:
                return None
            if there.incarnation != definition.incarnation:
                raise _fenced(definition, there)
            if there.dropped:
                return there
            definition = there

    def clear(self, definition: Definition) -> None:
        """Delete all files of a query that was dropped; the numbers of its definitions stay."""
        folder = self.folder(definition)
        paths = [each.path for each in folder.list(hidden=True)]
        if definition.apart:
            folder.delete(paths)
            remove_folders(folder)
        else:
            kept = (_OLD_DEFINITION, _DEFINITIONS, _LIVES)
            own = [path for path in paths if not path.startswith(kept)]
            folder.delete(own)
            for name in {path.partition("/")[0] for path in own if "/" in path}:
                remove_folders(folder.child(name))
        self._numbered(definition.name).empty(definition.number)

    def log(self, definition: Definition) -> StoredLog:
        """Begin a run of a query: its log, under a name of its own."""
        return StoredLog(
            self.folder(definition),
            uuid.uuid4().hex,
            incarnation=definition.incarnation,
            prefix=definition.prefix,
            check=self.check_of(definition),
        )

    def want(self, definition: Definition, *, running: bool) -> None:
        """Note whether people want it to run."""
        wanted = _Wanted(running, definition.incarnation)
        self.folder(definition).write(_wanted_path(definition), sealed(wanted))

    def is_wanted(self, definition: Definition) -> bool:
        """Whether people want it to run.

        Raises:
            QueryFencedError: it was dropped, begun anew or sent back to a savepoint.
            MissingFileError: nobody says so.
        """
        path = _wanted_path(definition)
        wanted = find_sealed(self.folder(definition), path, _Wanted)
        if wanted is None:
            self.check_current(definition)
            raise errors.MissingFileError(
                f"{path}, which says whether query {definition.name} is to run, is gone: "
                "resume() it, and find out who deleted the file",
                query=definition.name,
                path=path,
            )
        if definition.incarnation and wanted.incarnation not in ("", definition.incarnation):
            raise _fenced(definition, structs.replace(definition, incarnation=wanted.incarnation))
        return wanted.running

    def forget_wish(self, definition: Definition) -> None:
        """Delete what `want` noted: the query goes on as another incarnation."""
        self.folder(definition).delete(_wanted_path(definition))

    def old_wish(self, definition: Definition) -> str | None:
        """Read to which savepoint a version that knew no incarnations was to go back."""
        found = find_sealed(self.folder(definition), _RESTORING, _Restoring)
        return None if found is None else found.savepoint

    def forget_old_wish(self, definition: Definition) -> None:
        """Forget to which savepoint a version that knew no incarnations was to go back."""
        self.folder(definition).delete(_RESTORING)

    def note_status(self, definition: Definition, status: Mapping[str, Any]) -> None:
        """Write down what a query does, and when that was."""
        said = {"time": now_millis(), "status": status, "incarnation": definition.incarnation}
        self.folder(definition).write(_STATUS, sealed(said))

    def status(self, definition: Definition) -> tuple[int, dict[str, Any]] | None:
        """Read what a query did, and when that was, in epoch milliseconds; None: nothing yet."""
        found = find_sealed(self.folder(definition), _STATUS, dict)
        if found is None or found.get("incarnation", "") not in ("", definition.incarnation):
            return None
        return int(found["time"]), dict(found["status"])

    def count_start(self, definition: Definition, epoch: int) -> int:
        """Count how often processes have begun while this epoch was not ended; note one more."""
        folder = self.folder(definition)
        found = find_sealed(folder, _STARTS, _Starts)
        key = (epoch, definition.incarnation)
        count = found.count if found and (found.epoch, found.incarnation) == key else 0
        folder.write(_STARTS, sealed(_Starts(epoch, count + 1, definition.incarnation)))
        return count + 1

    def forget_starts(self, definition: Definition) -> None:
        """Begin to count anew, as somebody resumes the query."""
        self.folder(definition).delete(_STARTS)

    def upgraded(self, definition: Definition) -> list[dict[str, Any]]:
        """List the plans of an upgrade that has not ended: both read their tables again."""
        found = find_sealed(self.folder(definition), UPGRADE, dict)
        return [] if found is None else [found[each]["document"] for each in ("old", "new")]

    def note_failure(self, definition: Definition, failure: Failure | None) -> None:
        """Note why it stopped; None: it goes on."""
        folder = self.folder(definition)
        if failure is None:
            folder.delete(_FAILURE)
        else:
            failure = structs.replace(failure, incarnation=definition.incarnation)
            folder.write(_FAILURE, sealed(failure))

    def delete_failure_of(self, definition: Definition, run: str) -> None:
        """Delete what a run noted that was fenced."""
        folder = self.folder(definition)
        found = find_sealed(folder, _FAILURE, Failure)
        if found is not None and found.run == run:
            folder.delete(_FAILURE)

    def failure(self, definition: Definition) -> Failure | None:
        """Read why it stopped."""
        found = find_sealed(self.folder(definition), _FAILURE, Failure)
        known = found is not None and found.incarnation in ("", definition.incarnation)
        return found if known else None


@dataclass(frozen=True)
class DefinedQuery:
    """A query, in the catalog that keeps it.

    Attributes:
        definition: as it was when it was read.
    """

    catalog: Catalog
    definition: Definition

    @property
    def name(self) -> str:
        """Give its name."""
        return self.definition.name

    @property
    def store(self) -> QueryStore:
        """Give the folders of all queries."""
        return QueryStore(self.catalog.store)

    @property
    def folder(self) -> ObjectStore:
        """Give its folder."""
        return self.store.folder(self.definition)


def _old_definition(root: ObjectStore) -> bytes | None:
    try:
        return root.read(_OLD_DEFINITION)
    except errors.MissingFileError:
        return None


def _wanted_path(definition: Definition) -> str:
    of = f"-{definition.incarnation}" if definition.prefix else ""
    return f"{_WANTED}{of}.json"


def _stored(definition: Definition) -> bytes:
    document = {**definition.document, "planVersion": _STORED_VERSION}
    return sealed(structs.replace(definition, document=document))


def _refused(definition: Definition) -> bytes:
    """Give what versions before this one read of a query: its tables, and a plan that is too new
    for them.

    They look at the plan to say how far a backfill is, and do so before they stop or drop a query.
    They store it with their own number again where its options change: so its nodes are none.
    """
    tables = [] if definition.dropped else tables_read(definition)
    document = {
        **definition.document,
        "planVersion": _REFUSED_VERSION,
        "nodes": [
            {"id": place, "type": "of_a_newer_pkray", "digest": "", "table": each}
            for place, each in enumerate(tables)
        ],
        "edges": [],
    }
    said = Definition(
        definition.name,
        document,
        (),
        () if definition.dropped else definition.tables,
        definition.created,
        definition.dialect,
        {**definition.options, "backfill": "spark"},
        incarnation="newer-version",
    )
    return sealed(said)


def _fenced(definition: Definition, there: Definition | None) -> errors.QueryFencedError:
    if there is None:
        what = "was dropped"
    elif there.incarnation == definition.incarnation:
        what = "was changed by another process meanwhile"
    else:
        what = f"goes on as incarnation {there.incarnation}"
    return errors.QueryFencedError(
        f"query {definition.name} {what}: this one, {definition.incarnation}, stops; find it again "
        "by catalog.query(…)",
        query=definition.name,
        incarnation=definition.incarnation,
        found=there.incarnation if there else None,
    )


def check_unused(warehouse: ObjectStore, table: str, what: str) -> None:
    """Check that no query reads or writes a table.

    Args:
        warehouse: its root.
        what: is to be done to it: ``dropped``.

    Raises:
        TableInUseError: one does; the error names it.
    """
    store = QueryStore(warehouse)
    for definition in store.all():
        name = definition.name
        documents = [definition.document, *store.upgraded(definition)]
        read = {node.get("table") for document in documents for node in document["nodes"]}
        if table in read or table in definition.tables:
            role = "writes" if table in definition.tables else "reads"
            raise errors.TableInUseError(
                f"{table} cannot be {what}: query {name} {role} it; drop the query first, or give "
                "force=True",
                table=table,
                query=name,
            )
