"""Savepoints: a checkpoint under a name, with what keeps what it needs; and the way back to one.

A savepoint holds a tag of each result and a consumer on each source, so that neither expires. Going
back makes another incarnation of the query: its epochs are counted from the savepoint's on, and
nothing of what came after it is confused with them. The results get the rows of their tags as one
commit of what differs, which whoever follows them sees as changes.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from msgspec import structs

from pkray import errors
from pkray.arguments.file_names import fault
from pkray.metadata.consumers import ConsumerStore
from pkray.metadata.tags import TagStore
from pkray.relational.continuous.feeds.feeds import Feeds, scans_of
from pkray.relational.continuous.log.log import Checkpoint, Committed
from pkray.relational.continuous.log.stored_log import StoredLog
from pkray.relational.continuous.outlets.new_content import new_content
from pkray.relational.continuous.outlets.result_history import WATERMARKS, WRITERS, ResultHistory
from pkray.relational.continuous.outlets.table_parts import TableRows
from pkray.relational.continuous.queries.definitions.definition import (
    Definition,
    new_incarnation,
    user_of,
)
from pkray.relational.continuous.queries.incarnations import begun
from pkray.relational.plan.nodes import Node, Sink
from pkray.relational.plan.scans import scans_in
from pkray.relational.sources.table import TableSource
from pkray.storage.branch_store import main_and_history
from pkray.storage.object_store import ObjectStore
from pkray.table.table import Table

_ATTEMPT = "[^/]*@((?:[0-9a-f]{16}-)?[0-9]+)-[0-9a-f]{16}"
"""How the names of the holds of attempts end: the savepoint's, that of the checkpoint, an id."""


def check_name(name: str) -> None:
    """Check that a savepoint can be called so.

    Raises:
        OptionError: it cannot.
    """
    wrong = fault(name, 80)
    if wrong is not None:
        raise errors.OptionError(f"a savepoint cannot be called {name!r}: {wrong}", value=name)


def _holds_of(definition: Definition) -> str:
    """Say how the names of tags and consumers of a query's savepoints begin."""
    return f"savepoint-{definition.name}@{definition.begun or definition.incarnation}-"


def old_tag(query: str, name: str) -> str:
    """Name the tags of a savepoint of a version that knew no incarnations."""
    return f"savepoint-{query}-{name}"


@dataclass(frozen=True)
class Savepoints:
    """The savepoints of a query as it is now.

    Attributes:
        results: the tables that it writes.
        roots: its plan.
    """

    definition: Definition
    log: StoredLog
    results: Sequence[Table]
    roots: Sequence[Node]

    def make(self, name: str) -> None:
        """Keep a query that stands still, as it is at its newest checkpoint.

        Raises:
            QueryExistsError: there is a savepoint of this name.
            QueryFencedError: the query went on meanwhile.
            QueryNotFoundError: no epoch has ended yet.
            SnapshotNotFoundError: a result has no snapshot yet.
        """
        if name in self.log.savepoints():
            raise errors.QueryExistsError(
                f"query {self.definition.name} has a savepoint {name!r} already: give another name",
                query=self.definition.name,
                name=name,
            )
        checkpoint, newest = self.log.named_checkpoint()
        # Of this attempt alone: one that slept, or was killed, takes nothing from the next.
        held = f"{_holds_of(self.definition)}{name}@{checkpoint}-{new_incarnation()}"
        if newest is None:
            raise errors.QueryNotFoundError(
                f"query {self.definition.name} has ended no epoch yet: there is nothing to keep",
                query=self.definition.name,
            )
        try:
            Feeds(scans_of(self.roots)).hold(held, newest.positions)
            for table in self.results:
                table.tags.create(held)
            self._check_not_ahead(newest)
            self.log.name_newest(newest, name, held)
        except (errors.QueryExistsError, errors.QueryFencedError, errors.SnapshotNotFoundError):
            self.forget_holds(held)
            raise

    def check_way_back(self, name: str) -> None:
        """Check that all is there to go back to a savepoint; change nothing.

        Raises:
            QueryNotFoundError: there is no such savepoint.
            UnsupportedError: it was made under another plan.
            MissingFileError: files of its states are gone.
            TagNotFoundError, SnapshotNotFoundError: what it needs of results or sources has
                expired.
            QueryDivergedError: a source was rolled back, or another is in its place.
            SharedResultError: others have written to a result since.
        """
        found, query = self.log.savepoint(name), self.definition.name
        if found.digest != self.definition.digest:
            raise errors.UnsupportedError(
                f"savepoint {name!r} of query {query} was made under another plan: upgrade "
                "the query to that plan first",
                query=query,
            )
        missing = self.log.missing_files(found)
        if missing:
            raise errors.MissingFileError(
                f"{len(missing)} files of savepoint {name!r} of query {query} are gone, "
                f"{missing[0]} among them: go back to another savepoint",
                query=query,
                missing=tuple(missing),
            )
        feeds = Feeds(scans_of(self.roots))
        feeds.check(found.positions, found.marks)
        feeds.check_readable(found.positions)
        for table in self.results:
            tagged = table.tags.get(_tag(self.definition, found, name)).snapshot
            others = ResultHistory(table).others_since(tagged.id, query)
            if others:
                raise errors.SharedResultError(
                    f"{table.name} has rows that others wrote since savepoint {name!r} of query "
                    f"{query}: {', '.join(others)}; begin anew by materialize(…, "
                    "replace=True), which has the whole content go",
                    table=table.name,
                    query=query,
                    writers=tuple(others),
                )

    def delete(self, name: str) -> None:
        """Forget a savepoint, and let expire what it kept.

        Raises:
            QueryNotFoundError: there is none of this name.
        """
        found = self.log.savepoint(name)
        self.log.delete_savepoint(name)
        self.forget_holds(_tag(self.definition, found, name))

    def forget_holds(self, held: str) -> None:
        """Let expire what a savepoint kept."""
        for table in self.results:
            with suppress(errors.TagNotFoundError, errors.TableNotFoundError):
                table.tags.delete(held)
        for feed in Feeds(scans_of(self.roots)).feeds.values():
            feed.let_go(held)

    def _check_not_ahead(self, newest: Checkpoint) -> None:
        """Check that no result, and so no tag of one, has epochs after a checkpoint.

        Raises:
            QueryFencedError: one has.
        """
        query = self.definition.name
        for table in self.results:
            made = ResultHistory(table).newest_of(query)
            if made is not None and made.committed.epoch > newest.epoch:
                raise errors.QueryFencedError(
                    f"{table.name} has epoch {made.committed.epoch} of query {query}, whose newest "
                    f"checkpoint is of epoch {newest.epoch}: the query goes on in another "
                    "process, or was killed; let it go on, stop it, and make the savepoint again",
                    query=query,
                )


class LeftHolds:
    """Lets go what killed attempts at savepoints hold, as a run saw it when it began.

    A hold is let go once the checkpoint is gone that the attempt was to keep: an attempt that only
    slept fails then, as it looks for its checkpoint when it has made the savepoint.
    """

    def __init__(self, savepoints: Savepoints) -> None:
        self._savepoints = savepoints
        self._log = savepoints.log
        attempts = re.compile(re.escape(_holds_of(savepoints.definition)) + _ATTEMPT)
        names = _holds(savepoints.results, tables_read(savepoints.roots))
        found = (attempts.fullmatch(name) for name in names)
        self._left = {match[0]: match[1] for match in found if match is not None}
        if self._left:
            self._leave_out_made()

    def let_go(self) -> None:
        """Let expire what is kept of checkpoints that are gone."""
        gone = [held for held, name in self._left.items() if not self._log.has_checkpoint(name)]
        if gone:
            self._leave_out_made()
        for held in gone:
            if self._left.pop(held, None) is not None:
                self._savepoints.forget_holds(held)

    def _leave_out_made(self) -> None:
        for saved in self._log.savepoints().values():
            self._left.pop(saved.held, None)


def _holds(results: Sequence[Table], sources: Sequence[Table]) -> set[str]:
    """Name all tags of results and consumers of sources."""
    tags = (TagStore(_history(each)).names() for each in results)
    consumers = (ConsumerStore(_history(each)).names() for each in sources)
    return {name for names in (*tags, *consumers) for name in names}


def _history(table: Table) -> ObjectStore:
    return main_and_history(table.location.open())[1]


def _tag(definition: Definition, saved: Checkpoint, name: str) -> str:
    return saved.held or old_tag(definition.name, name)


def sent_back(definition: Definition, name: str, results: Sequence[Table]) -> Definition:
    """Give the incarnation of a query that begins with a savepoint."""
    incarnation = new_incarnation()
    stood = {table.name: ResultHistory(table).latest_id for table in results}
    unnamed = () if definition.prefix else ("",)  # commits of a version that knew no incarnations
    return structs.replace(
        definition,
        incarnation=incarnation,
        user=user_of(definition.name, incarnation),
        before_it=(*definition.before_it, definition.incarnation, *unnamed),
        stood=stood,
        replaces=(),
        begins_at=name,
    )


def begin(
    definition: Definition, log: StoredLog, results: Mapping[str, Table], roots: Sequence[Node]
) -> None:
    """Begin an incarnation with its savepoint, unless it has begun; done again it ends the same."""
    if not definition.begins_at or log.newest_checkpoint() is not None:
        return
    name = definition.begins_at
    saved = log.savepoint(name)
    begun.fence_others(definition, tuple(results.values()))
    feeds = Feeds(scans_of(roots))
    feeds.hold(definition.reader, saved.positions)
    committed: dict[str, Committed] = {}
    for root in roots:
        if isinstance(root, Sink):
            table = results[root.table]
            tag = _tag(definition, saved, name)
            positions = feeds.changing(saved.positions)
            made = _restore(definition, table, root, tag, saved.epoch, positions)
            if made is not None:
                committed[table.name] = made
    log.check_current()
    log.begin_at(structs.replace(saved, held="", results=committed))
    begun.free_others(definition, tables_read(roots), log.check_current)


def tables_read(roots: Sequence[Node]) -> list[Table]:
    """List the tables that plans read."""
    sources = (scan.source for scan in scans_in(roots))
    return [each.original for each in sources if isinstance(each, TableSource)]


def _restore(
    definition: Definition,
    table: Table,
    root: Sink,
    tag: str,
    epoch: int,
    positions: Mapping[str, int],
) -> Committed | None:
    """Have a result hold what its tag holds, in one commit."""
    view, commits = table.at(tag=tag), definition.commits
    rows = TableRows.into(table, root)
    history = ResultHistory(table)
    new = new_content(table, commits, epoch, root, rows)
    said = (view.snapshot.properties or {}) if view.snapshot is not None else {}
    watermarks = json.loads(said.get(WATERMARKS, "{}"))
    try:
        with table.open_writer(commits.user, missing=rows.missing) as writer:
            if not new.is_done:
                new.fill(view.to_batches())
            properties = commits.properties(positions, epoch, watermarks)
            new.commit(writer, {**properties, WRITERS: history.told()})
    finally:
        new.close()
    made = history.newest_of(definition.name)
    return made.committed if made is not None and definition.is_own(made.incarnation) else None


def forget_all(definition: Definition, log: StoredLog, tables: Sequence[Table]) -> None:
    """Let expire what all savepoints kept, and all incarnations of a query.

    Args:
        tables: results and sources that are there.
    """
    try:
        saved = {_tag(definition, each, name) for name, each in log.savepoints().items()}
    except errors.PkrayError:  # a damaged one keeps nothing from being dropped
        saved = set()
    own = _holds_of(definition)
    for table in tables:
        for tag in table.tags.list()["tag_name"].to_pylist():
            if tag in saved or tag.startswith(own):
                with suppress(errors.TagNotFoundError):
                    table.tags.delete(tag)
        for name in table.consumers.list()["consumer_id"].to_pylist():
            if name in saved or name.startswith(own):
                table.consumers.delete(name)
    begun.free_own(definition, tables)
