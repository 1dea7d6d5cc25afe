"""A query as it is stored: its definition in a catalog, and what belongs to it there."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from pkray.errors import PkrayError, QueryDivergedError, QueryFencedError
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.feeds.backfill import Backfill
from pkray.relational.continuous.feeds.feeds import Feeds, scans_of
from pkray.relational.continuous.log.stored_log import StoredLog
from pkray.relational.continuous.outlets.outlets import Outlet
from pkray.relational.continuous.outlets.result_history import PLAN
from pkray.relational.continuous.queries.definitions.definition import (
    Definition,
    old_user,
    tables_read,
)
from pkray.relational.continuous.queries.definitions.failure_hooks import OnFailure
from pkray.relational.continuous.queries.definitions.options import QueryOptions
from pkray.relational.continuous.queries.definitions.query_store import DefinedQuery, QueryStore
from pkray.relational.continuous.queries.incarnations import life
from pkray.relational.continuous.queries.incarnations.savepoints import Savepoints, sent_back
from pkray.relational.continuous.queries.workers.shares import QueryShares
from pkray.relational.continuous.upgrades.stored import Site
from pkray.relational.plan.nodes import Node
from pkray.relational.plan.scans import scans_in
from pkray.relational.plan_files import roots_of
from pkray.relational.sources.streamed import StreamedSource, stored_streams
from pkray.relational.sources.table import TableSource
from pkray.service.hosted import Room
from pkray.table.table import Table

IN_PROCESS: dict[str, InProcess] = {}
"""Holds the queries of this process, by warehouse, name and incarnation."""
_LOOK_SECONDS = 0.1
_LOOKS = 3
"""At a query that runs, before what it wrote down and its result are said to disagree."""


@dataclass
class InProcess:
    """Holds what this process has of one incarnation of a query.

    Attributes:
        roots: physical plans, by the generation of the definition: some read what is in memory
            alone.
        outlet: gives changes to a function of this process.
        on_failure: is told of failures.
    """

    roots: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    outlet: Outlet | None = None
    on_failure: OnFailure | None = None


def take_along(before: str, now: str) -> None:
    """Have what this process has of one incarnation be of another too."""
    had, has = IN_PROCESS.get(before), IN_PROCESS.setdefault(now, InProcess())
    if had is not None:
        has.roots.update(had.roots)
        has.outlet = had.outlet or has.outlet
        has.on_failure = had.on_failure or has.on_failure


class StoredQuery(DefinedQuery):
    """A query as it was when it was read; `current` reads it again."""

    @classmethod
    def read(cls, catalog: Catalog, name: str) -> StoredQuery:
        """Read the query of a name.

        Raises:
            QueryNotFoundError: there is none of this name.
        """
        return cls(catalog, QueryStore(catalog.store).read(name))

    def changed(self, definition: Definition) -> StoredQuery:
        """Give the query with another definition."""
        return replace(self, definition=definition)

    def current(self) -> StoredQuery:
        """Read what the query is now: an upgrade, or going back, may have changed it.

        Raises:
            QueryNotFoundError: it was dropped.
            QueryFencedError: and another was begun under its name.
        """
        there, known = self.store.read(self.name), self.definition
        if known.incarnation and there.begun != known.begun:
            raise QueryFencedError(
                f"query {self.name} was dropped, and another begun under its name: find it by "
                "catalog.query(…)",
                query=self.name,
                incarnation=known.incarnation,
                found=there.incarnation,
            )
        return self.changed(there)

    @property
    def key(self) -> str:
        """Tell this incarnation from all others that this process knows."""
        warehouse = self.catalog.warehouse.rstrip("/")
        return f"{warehouse}/{self.name}@{self.definition.incarnation}"

    @property
    def host_name(self) -> str:
        """Name the process, or the work, of its first worker."""
        digest = hashlib.blake2b(self.catalog.warehouse.encode(), digest_size=8).hexdigest()
        incarnation = self.definition.incarnation
        return f"pkray-query-{digest}-{f'{incarnation}-' if incarnation else ''}{self.name}"

    @property
    def options(self) -> QueryOptions:
        """Give how it runs."""
        return QueryOptions(**self.definition.options)

    @property
    def in_process(self) -> InProcess:
        """Give what this process alone has of it."""
        return IN_PROCESS.setdefault(self.key, InProcess())

    @property
    def site(self) -> Site:
        """Give where its upgrades find what they need."""
        return Site(self.catalog, self.definition, lambda each: self.changed(each).roots)

    def log(self) -> StoredLog:
        """Begin a run of it: its log, under a name of its own."""
        return self.store.log(self.definition)

    @property
    def roots(self) -> tuple[Node, ...]:
        """Take the physical plans that this process has, one a result, or load the stored ones."""
        return self._known_roots or self._load_roots()

    @property
    def _known_roots(self) -> tuple[Node, ...] | None:
        known = IN_PROCESS.get(self.key)
        return None if known is None else known.roots.get(self.definition.generation)

    def _load_roots(self) -> tuple[Node, ...]:
        begun, document = self.definition.begun, self.definition.document
        streams = stored_streams(self.folder, begun) if self.definition.streams else {}
        return roots_of(self.catalog.session, document, streams)

    def keep_roots(self, roots: tuple[Node, ...]) -> None:
        """Have this process take plans for those of the query."""
        self.in_process.roots[self.definition.generation] = roots

    def bind_again(self) -> None:
        """Bind its plan to its tables as they are now, unless it reads what this process alone has.

        Raises:
            PlanError: a table lacks a column that it reads, or has it with another type.
        """
        known = self._known_roots
        inside = self.catalog.warehouse.rstrip("/") + "/"
        if known is not None and all(
            isinstance(scan.source, TableSource)
            and scan.source.original.location.url.startswith(inside)
            for scan in scans_in(known)
        ):
            self.keep_roots(self._load_roots())

    @property
    def is_stored(self) -> bool:
        """Whether another process could run it: all that it reads is stored."""
        return bool(self.definition.tables) and all(
            isinstance(scan.source, TableSource | StreamedSource) for scan in scans_in(self.roots)
        )

    def results(self, *, lenient: bool = False) -> dict[str, Table]:
        """Load its results, by name.

        Args:
            lenient: leave out those that are gone.

        Raises:
            TableNotFoundError: one is gone.
        """
        return self._loaded(self.definition.tables, lenient=lenient)

    def tables(self) -> list[Table]:
        """Load its results and the tables that it reads; those that are gone are left out."""
        names = [*self.definition.tables, *tables_read(self.definition)]
        return list(self._loaded(names, lenient=True).values())

    def _loaded(self, names: Sequence[str], *, lenient: bool) -> dict[str, Table]:
        found = {}
        for name in dict.fromkeys(names):
            try:
                found[name] = self.catalog.load_table(name)
            except PkrayError:
                if not lenient:
                    raise
        return found

    def made_by(self, table: Table, snapshot: int | None) -> StoredQuery:
        """Find by which plan a snapshot of a result was made; default its newest one."""
        view = table.at(snapshot_id=snapshot) if snapshot is not None else table.at()
        said = (view.snapshot.properties or {}).get(PLAN) if view.snapshot is not None else None
        if said is None or said == self.definition.digest:
            return self
        return self.changed(self.site.plan_of(said) or self.definition)

    def backfill(self) -> Backfill | None:
        """Find what another engine brings, or is to bring, for the first epoch."""
        if self.definition.options.get("backfill") != "spark":
            return None
        roots = self.roots
        if not any(isinstance(scan.source, TableSource) for scan in scans_in(roots)):
            return None
        if self.log().newest_checkpoint() is not None:
            return None
        return Backfill(self.folder, roots, self.definition.begun)

    def shares(self, room: Room | None = None) -> QueryShares:
        """Give what opens the shares of its workers.

        Args:
            room: as of `QueryShares`.
        """
        return QueryShares(self.folder, self.definition, self.roots, self.backfill(), room)

    def savepoints(self) -> Savepoints:
        """Give its savepoints, with a log of their own."""
        return Savepoints(self.definition, self.log(), [*self.results().values()], self.roots)

    def check_life(self) -> None:
        """Check that what is kept of it and its results belong together, as it goes on.

        Raises:
            QueryDivergedError: they do not.
        """
        life.check_maps(self.definition, self.roots)
        results = list(self.results().values())
        for tries_left in reversed(range(_LOOKS)):
            log = self.log()
            if self.definition.begins_at and log.newest_checkpoint() is None:
                return  # it has still to go back to a savepoint
            try:
                life.check_life(self.definition, log, self.roots, results)
                return
            except QueryDivergedError:
                if not tries_left:
                    raise
            time.sleep(_LOOK_SECONDS)  # an epoch may have ended between two looks

    def adopted(self) -> StoredQuery:
        """Give a query of a version that knew no incarnations one, and what it is known by."""
        store = self.store
        if self.definition.incarnation:
            is_numbered = self.definition.number >= 0
            return self if is_numbered else self.changed(store.replace(self.definition))
        made = store.adopt(self.definition)
        roots = self.changed(made).roots
        wished = store.old_wish(made)
        made = structs.replace(made, columns=life.columns_read(roots))
        newest = store.log(made).newest_checkpoint()
        if newest is not None:
            Feeds(scans_of(roots)).hold(made.reader, newest.positions)
        if wished is not None:
            results = list(self.changed(made).results().values())
            made = sent_back(made, wished, results)
        made = store.replace(made)
        adopted = self.changed(made)
        take_along(self.key, adopted.key)
        for table in adopted._loaded(tables_read(made), lenient=True).values():
            table.consumers.delete(old_user(made.name))
        store.forget_old_wish(made)
        return adopted
