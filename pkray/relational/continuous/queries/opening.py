"""Open a run of a query on its newest checkpoint, and the worker that runs it."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import structs

from pkray.clock import now_millis
from pkray.errors import PkrayError, QueryFencedError, UnsupportedError
from pkray.metrics.registry import REGISTRY
from pkray.relational.continuous.log.log import Checkpoint
from pkray.relational.continuous.outlets.outlets import Outlet
from pkray.relational.continuous.outlets.table_outlet import TableOutlet
from pkray.relational.continuous.queries.definitions.failure_hooks import tell
from pkray.relational.continuous.queries.definitions.query_store import Failure
from pkray.relational.continuous.queries.incarnations import savepoints
from pkray.relational.continuous.queries.incarnations.life import check_life
from pkray.relational.continuous.queries.stored import StoredQuery
from pkray.relational.continuous.queries.workers.turns import Turns
from pkray.relational.continuous.queries.workers.worker import QueryWorker
from pkray.relational.continuous.run import OpenTeam, Run, RunSettings
from pkray.relational.continuous.upgrades.upgrading import Upgrading
from pkray.relational.plan.nodes import Sink
from pkray.service.hosted import Room
from pkray.storage.object_store import together
from pkray.table.table import Table

MOST_WORKERS = 4
"""Workers that a query begins with at most: what they exchange grows with the square of it."""

OpenOutlets = Callable[[StoredQuery, Checkpoint | None, dict[str, Table]], list[Outlet]]
"""Opens the outlets of a query, one a root, with its newest checkpoint and its results by name."""


def settings_of(query: StoredQuery, clock: Callable[[], int] | None = None) -> RunSettings:
    """Say how the runs of a query go on.

    Args:
        clock: of processing time, in epoch milliseconds; None: that of the machine.
    """
    options = query.options
    return RunSettings(
        options.checkpoint_epochs,
        options.checkpoint_seconds,
        clock or now_millis,
        query.definition.reader,
        options.on_error == "skip",
        options.max_rows,
        workers=options.parallelism,
        idle_timeout=options.idle_timeout,
        aligns=not options.trigger_of().ends,
    )


def shadow_settings(settings: RunSettings) -> RunSettings:
    """Say how the run of a newer plan goes on beside that of the older one."""
    return replace(settings, reader=f"{settings.reader}-shadow")


def open_worker(
    query: StoredQuery,
    clock: Callable[[], int] | None,
    open_team: OpenTeam | None = None,
    first_workers: int = 1,
    turns: Turns | None = None,
    room: Room | None = None,
) -> QueryWorker:
    """Run a query in a thread of this process.

    Args:
        open_team: makes the workers but the first; default threads of this process.
        first_workers: with which it begins, where nobody says how many there are to be.
        turns: as of `QueryWorker`.
        room: as of `QueryShares`.
    """
    store, definition, options = query.store, query.definition, query.options
    settings = settings_of(query, clock)
    if open_team is not None:
        settings = replace(settings, first_workers=first_workers)
    upgrades = Upgrading(query.site, shadow_settings(settings))

    def failed(failure: Failure) -> Failure:
        noted = store.failure(definition)
        if noted is not None:  # by a process of the query, as it ended
            return noted
        store.note_failure(definition, failure)
        try:
            store.check_current(definition)
        except QueryFencedError:
            store.delete_failure_of(definition, failure.run)
            raise
        told = tell(query.name, failure, query.in_process.on_failure, options.failure_url)
        if told is not None:
            failure = structs.replace(failure, told=told)
            store.note_failure(definition, failure)
        return failure

    def looked(status: dict[str, Any]) -> bool:
        is_wanted = store.is_wanted(definition)
        store.note_status(definition, status)
        return is_wanted

    def opened() -> Run:
        now, is_upgrading = together(
            query.folder, partial(store.check_current, definition), upgrades.is_there
        )
        if is_upgrading:
            upgrades.begin()
            now = store.check_current(definition)
        return open_run(query.changed(now), outlets_of, settings, open_team, room)

    return QueryWorker(
        query.name,
        opened,
        options.trigger_of(),
        failed,
        looked,
        upgrades,
        check_current=store.check_of(definition),
        turns=turns,
        meter=REGISTRY.of(query.catalog.warehouse),
    )


def open_run(
    query: StoredQuery,
    open_outlets: OpenOutlets,
    settings: RunSettings,
    open_team: OpenTeam | None = None,
    room: Room | None = None,
) -> Run:
    """Open a run of a query on its newest checkpoint.

    Args:
        open_team, room: as of `open_worker`.

    Raises:
        QueryDivergedError: what it wrote down, its results and its sources do not belong together.
        QueryFencedError: it was begun anew meanwhile, or another run took over.
    """
    log, shares, definition = query.log(), query.shares(room), query.definition
    try:
        with ExitStack() as undo:
            _, results = together(log.store, log.look, query.results)
            tables = list(results.values())
            savepoints.begin(definition, log, results, shares.roots)
            newest = check_life(definition, log, shares.roots, tables)
            states = shares.states(settings.workers or 1)
            undo.callback(states.close)
            outlets = open_outlets(query, newest, results)
            for outlet in outlets:
                undo.callback(outlet.close)
            # Runs of incarnations that come later fence the writers that are open by now.
            log.check_current()
            saved = savepoints.Savepoints(definition, log, tables, shares.roots)
            let_go = savepoints.LeftHolds(saved).let_go
            team = open_team or shares.threads
            run = Run(shares.plan, outlets, log, states, settings, team, let_go)
            undo.pop_all()
        return run
    except PkrayError:
        log.check_not_passed()  # that run, and not this one, knows what is there
        raise


def outlets_of(
    query: StoredQuery, newest: Checkpoint | None, tables: dict[str, Table]
) -> list[Outlet]:
    """Open the outlets of a query into its tables, or the function of this process that takes it.

    Raises:
        UnsupportedError: another program has the function.
    """
    outlet, definition = query.in_process.outlet, query.definition
    if outlet is not None:
        return [outlet]
    if not definition.tables:
        raise UnsupportedError(
            f"query {query.name} goes to this program: open it again by stream(name=…) or "
            "foreach_batch(function, name=…)",
            query=query.name,
        )
    results = newest.results if newest is not None else {}
    return [
        TableOutlet(
            tables[root.table],
            root,
            definition.commits,
            results.get(root.table),
            replaces=newest is None and root.table in definition.replaces,
            since=None if definition.clears else definition.stood.get(root.table, 0),
        )
        for root in query.roots
        if isinstance(root, Sink)
    ]
