"""Start a query: store its definition, and have it run and be fed."""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import structs

from pkray import errors
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.feeds.backfill import Backfill
from pkray.relational.continuous.feeds.feeds import Feeds, scans_of
from pkray.relational.continuous.feeds.streams import in_query, start_feeders, streams_in
from pkray.relational.continuous.operators.catalogue import check_operators
from pkray.relational.continuous.queries.definitions.definition import Definition, new_incarnation
from pkray.relational.continuous.queries.definitions.failure_hooks import OnFailure
from pkray.relational.continuous.queries.ending import clear_dropped, drop
from pkray.relational.continuous.queries.hosting import is_hosted
from pkray.relational.continuous.queries.incarnations import savepoints
from pkray.relational.continuous.queries.incarnations.begun import fence_others, free_others, placed
from pkray.relational.continuous.queries.incarnations.life import (
    check_columns,
    check_layouts,
    columns_read,
)
from pkray.relational.continuous.queries.running import RunningQueries, running_queries
from pkray.relational.continuous.queries.stored import StoredQuery
from pkray.relational.continuous.queries.watched import Watched
from pkray.relational.plan.nodes import Node
from pkray.relational.plan.plan_diff import computes_same
from pkray.relational.plan.scans import scans_in
from pkray.relational.sources.streamed import Feeding, RunningFeeder, StreamedSource
from pkray.relational.spark_engine import spark_engine
from pkray.storage.object_store import together
from pkray.table.table import Table


def define(
    catalog: Catalog,
    definition: Definition,
    roots: tuple[Node, ...],
    *,
    owns: bool = False,
    replace: bool = False,
) -> tuple[StoredQuery, bool]:
    """Store a query, or find the one that is there with this plan.

    Its TTLs and options become those that are given.

    Args:
        owns, replace: as of `start_query`.

    Returns:
        it, and whether it was begun by this.

    Raises:
        QueryExistsError: there is one of its name with another plan.
        SharedResultError: its tables hold rows of others, and `replace` is false.
        UnsupportedError: a node does not run continuously, or would keep other rows under a TTL.
    """
    for root in roots:
        check_operators(root, definition.dialect)
    streams = tuple(each.name for each in streams_in(roots))
    query = StoredQuery(catalog, structs.replace(definition, streams=streams))
    number, there = query.store.newest(query.name)
    if there is not None and not there.dropped and replace:
        drop(Watched(query.changed(there)))
        number, there = query.store.newest(query.name)
    made = None
    if there is None or there.dropped:
        if there is not None:
            clear_dropped(query.catalog, query.name)
        made = _begun(query, roots, number, owns=owns, replace=replace)
    query = made or _found(query, roots)
    query.keep_roots(in_query(roots, query.folder, query.definition.begun))
    return query, made is not None


def _begun(
    query: StoredQuery, roots: tuple[Node, ...], after: int, *, owns: bool, replace: bool
) -> StoredQuery | None:
    """Store a query as a new incarnation; None where one of its name was stored meanwhile.

    Args:
        after: the newest number of a definition of its name.
    """
    definition = query.definition.as_incarnation(new_incarnation())
    beginnings, (tables, definition) = together(
        query.folder,
        Feeds(scans_of(roots)).beginnings,
        partial(_placed, query, definition, owns=owns, replace=replace),
    )
    definition = structs.replace(definition, beginnings=beginnings, columns=columns_read(roots))
    stored = query.store.create(definition, after)
    if stored is None:
        return None
    check = query.store.check_of(stored)
    together(
        query.folder,
        partial(fence_others, stored, tables),
        partial(free_others, stored, savepoints.tables_read(roots), check),
        partial(check_columns, roots, stored.columns),
    )
    return query.changed(stored)


def _placed(
    query: StoredQuery, definition: Definition, *, owns: bool, replace: bool
) -> tuple[list[Table], Definition]:
    """Load the results, and say what becomes of the rows that they hold."""
    results = list(query.results().values())
    return results, placed(definition, results, query.store, owns=owns, replace=replace)


def _found(query: StoredQuery, roots: tuple[Node, ...]) -> StoredQuery:
    """Find the stored query of a name, and have it go on with the options that are given."""
    given = query.definition
    there = StoredQuery.read(query.catalog, query.name).adopted().definition
    if not computes_same(there.document, given.document) or there.tables != given.tables:
        raise errors.QueryExistsError(
            f"query {query.name} is there with another plan: let this one take over by "
            "query.upgrade(…), give another name, or stop and drop the query first",
            query=query.name,
        )
    check_layouts(roots, there.document, given.document)
    definition = structs.replace(
        there, options=given.options, document=given.document, sql=given.sql or there.sql
    )
    is_same = definition == there
    return query.changed(there if is_same else query.store.replace(definition))


def check_no_circle(roots: Sequence[Node], tables: Sequence[str]) -> None:
    """Check that plans do not read the tables that they write.

    Raises:
        UnsupportedError: they do.
    """
    read = {scan.source.name for scan in scans_in(roots)}
    both = sorted(read.intersection(tables))
    if both:
        raise errors.UnsupportedError(
            f"a continuous query cannot write into {both[0]} that it reads: it would never end; "
            "write into another table",
            table=both[0],
        )


def start(
    stored: StoredQuery,
    clock: Callable[[], int] | None = None,
    on_failure: OnFailure | None = None,
    *,
    feeds: bool = True,
    is_begun: bool = False,
) -> StoredQuery:
    """Have a query run, unless it does.

    Args:
        clock: of processing time, in epoch milliseconds; None: that of the machine.
        on_failure: as of ``Relation.materialize``.
        feeds: whether this process is to feed it, where that is for a process to do.
        is_begun: whether this process has just begun the incarnation: nothing is kept of it yet.
    """
    query = stored.adopted()
    if on_failure is not None:
        _check_is_here(query, clock)
        query.in_process.on_failure = on_failure
    running = running_queries(query.catalog.runtime)
    worker = running.find(query)
    if worker is not None and worker.is_running:
        if feeds:
            _feed(query, running)
        return query
    store, definition = query.store, query.definition
    if not is_begun:
        _check_goes_on(query)
    store.want(definition, running=True)
    if not is_begun:
        store.note_failure(definition, None)
        store.forget_starts(definition)
    if feeds:
        _feed(query, running)
    running.start(query, clock)
    return query


def _check_goes_on(query: StoredQuery) -> None:
    """Check that a query can go on from what is kept of it; bind it again where it failed."""
    if query.store.failure(query.definition) is not None:
        query.bind_again()
    if query.definition.tables:
        query.current().check_life()


def _check_is_here(query: StoredQuery, clock: Callable[[], int] | None) -> None:
    if is_hosted(query, clock):
        raise errors.UnsupportedError(
            f"query {query.name} runs in an actor, which calls no function of this process: "
            "leave on_failure out, and set query.failure-url",
            query=query.name,
        )


def _feed(query: StoredQuery, running: RunningQueries) -> None:
    """Begin to feed a query from this process, if that is not done already: from its streams, and
    with what another engine computes of its tables.
    """
    if running.is_fed(query):
        return
    backfill = query.backfill()
    if backfill is not None:
        running.feed(query, _fill(query, backfill))
    if query.definition.streams:
        feeders = start_feeders(query.roots, lambda source: _feeding(query, source))
        running.feed(query, feeders)


def _fill(query: StoredQuery, backfill: Backfill) -> list[RunningFeeder]:
    """Begin to compute the first epoch of a query, unless that is done."""
    if backfill.is_done:
        return []
    definition, feeds = query.definition, Feeds(scans_of(query.roots))
    feeds.begin(definition.beginnings)
    feeds.hold(definition.reader, feeds.first_positions())
    parts = backfill.parts(feeds, row_by_row=definition.options.get("on_error") != "skip")
    feeds.hold(definition.reader, {name: at[1] for name, at in parts.bounds.items()})
    return [spark_engine().start_backfill(query.name, backfill, parts)]


def _feeding(query: StoredQuery, source: StreamedSource) -> Feeding:
    """Say how a stream is to feed a query."""
    store, definition, watched = query.store, query.definition, Watched(query)
    trigger = query.options.trigger_of()

    def is_wanted() -> bool:
        try:
            return store.is_wanted(definition) and store.failure(definition) is None
        except (errors.QueryFencedError, errors.MissingFileError, errors.CorruptFileError):
            return False

    def position() -> int:
        return max(watched.progress()["sources"].get(source.name, 0), 0)

    return Feeding(query.name, trigger.ends, trigger.interval, is_wanted, position)
