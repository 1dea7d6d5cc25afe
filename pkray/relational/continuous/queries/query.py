"""Continuous queries as people hold them: made, listed, watched, stopped, proved."""

from __future__ import annotations

import hashlib
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from msgspec import structs

from pkray.clock import now_millis
from pkray.errors import (
    CorruptFileError,
    MissingFileError,
    OptionError,
    PkrayError,
    QueryDivergedError,
    QueryExistsError,
    QueryFailedError,
    QueryFencedError,
    QueryNotFoundError,
    ServiceUnavailableError,
    UnsupportedError,
)
from pkray.options.values import duration_millis
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.feeds.feeds import Feeds, scans_of
from pkray.relational.continuous.operators.catalogue import check_operators
from pkray.relational.continuous.outlets.outlets import Outlet
from pkray.relational.continuous.outlets.result_history import PLAN
from pkray.relational.continuous.outlets.table_outlet import TableOutlet
from pkray.relational.continuous.parallel.hosted_team import (
    HostedMember,
    HostedQuery,
    HostedTeams,
    Post,
    member_name,
)
from pkray.relational.continuous.parallel.peers import Peers
from pkray.relational.continuous.parallel.share import Assignment, Share
from pkray.relational.continuous.queries import savepoints
from pkray.relational.continuous.queries.as_of_watermarks import EventTime, waits_for_time
from pkray.relational.continuous.queries.backfill import Backfill
from pkray.relational.continuous.queries.begun import fence, fence_others, free_others, placed
from pkray.relational.continuous.queries.failure_hooks import OnFailure, tell
from pkray.relational.continuous.queries.late_rows import kept_late, late_until
from pkray.relational.continuous.queries.life import check_life, columns_read
from pkray.relational.continuous.queries.log import Checkpoint, StoredLog
from pkray.relational.continuous.queries.options import QueryOptions
from pkray.relational.continuous.queries.query_store import (
    Definition,
    Failure,
    QueryStore,
    failure_status,
    new_incarnation,
    old_user,
)
from pkray.relational.continuous.queries.shares import QueryShares
from pkray.relational.continuous.queries.streams import (
    feeding_status,
    in_query,
    start_feeders,
    streams_in,
)
from pkray.relational.continuous.queries.ttls import check_layouts
from pkray.relational.continuous.queries.verify import Place, Times, VerifyReport, verify
from pkray.relational.continuous.queries.worker import QueryWorker
from pkray.relational.continuous.run import OpenTeam, Run, RunSettings
from pkray.relational.continuous.upgrades.fates import fates
from pkray.relational.continuous.upgrades.stored import Site, StoredUpgrade
from pkray.relational.continuous.upgrades.switching import forget
from pkray.relational.continuous.upgrades.upgrade import (
    Upgrade,
    accept,
    ask,
    ask_back,
    described,
    new_identity,
)
from pkray.relational.continuous.upgrades.upgrading import Upgrading, carry_out
from pkray.relational.plan.nodes import Node, Scan, Sink
from pkray.relational.plan.plan_diff import PlanDiff, computes_same
from pkray.relational.plan_files import roots_of
from pkray.relational.sources.streamed import (
    Feeding,
    RunningFeeder,
    StreamedSource,
    stored_streams,
)
from pkray.relational.sources.table import TableSource
from pkray.relational.spark_engine import spark_engine
from pkray.relational.statements.settings import checked_setting
from pkray.service.hosted import Hosted, Hosting, Reserved
from pkray.service.runtimes import open_runtime
from pkray.shown import html_values
from pkray.storage.object_store import ObjectStore

if TYPE_CHECKING:
    from pkray.table.table import Table

_WORKERS: weakref.WeakKeyDictionary[Any, dict[str, QueryWorker]] = weakref.WeakKeyDictionary()
"""The queries of this process, by the runtime of their catalog, and by folder and incarnation."""
_ROOTS: dict[tuple[str, str], tuple[Node, ...]] = {}
"""Physical plans of queries of this process, by folder and incarnation, and the upgrades by which
they came: some read what is in memory alone."""
_SILENT_MILLIS = 10_000
"""A query that has said nothing for so long runs in no process."""
_HOOKS: dict[str, OnFailure] = {}
"""Functions of this process that are told of failures; keys as those of the workers."""
_FEEDERS: weakref.WeakKeyDictionary[Any, dict[str, list[RunningFeeder]]] = (
    weakref.WeakKeyDictionary()
)
"""What feeds queries from streams of this process; keys as those of the workers."""
_GOING = ("running", "starting")
_LOOK_SECONDS = 0.1
"""Between two looks at a query that another process runs."""
_LOOKS = 3
"""At a query that runs, before what it wrote down and its result are said to disagree."""
MOST_WORKERS = 4
"""Workers that a query begins with at most: what they exchange grows with the square of it."""
_FUNCTIONS: dict[str, Outlet] = {}
"""Outlets that call functions of this process; keys as those of the workers."""


class Query:
    """A continuous query, as what makes and runs it holds it; users hold ``pkray.api.query.Query``.

    Attributes:
        name: the query's; that of its table, where it has one.
    """

    def __init__(self, catalog: Catalog, definition: Definition) -> None:
        self._catalog = catalog
        self._definition = definition
        self.name = definition.name

    def __repr__(self) -> str:
        try:
            state = self.status()["state"]
        except (QueryFencedError, QueryNotFoundError):
            state = "dropped"
        except PkrayError:  # such as storage that does not answer
            state = "unknown"
        return f"Query({self.name!r}, {state})"

    def _repr_html_(self) -> str:
        return html_values(f"query {self.name}", self.status())

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its results."""
        return self._definition.tables

    def status(self) -> dict[str, Any]:
        """Say what it does.

        Returns:
            ``state`` (running, stopped, failed, ended), ``incarnation`` (tells this beginning of
            the query from all others of its name), ``failure``, of a failed one also
            ``failed_node`` and ``failure_told`` (what became of its hooks), ``epoch``, ``sources``
            (the position up to which each is in the result), ``nodes``; of a query that reads
            streams ``streams``, what feeds each: ``running``, ``ended``, ``stopped``, ``failed``,
            or ``waiting`` for the program that feeds it to be started again; while Spark computes
            the first epoch ``backfill``, the same of it and how many ``tasks`` are done; from an
            upgrade until it is accepted ``upgrade``, how far that is.

        Raises:
            QueryNotFoundError: it was dropped.
            QueryFencedError: it was dropped, and another begun under its name.
        """
        status = {**self._status(), "incarnation": self._current.incarnation}
        if upgrade := described(_site(self._catalog, self.name)):
            status["upgrade"] = upgrade
        streams = self._definition.streams
        if streams:
            folder = _store(self._catalog).folder(self.name)
            status["streams"] = feeding_status(folder, streams)
        if status["epoch"] < 0 and (backfill := _backfill(self._catalog, self._current)):
            status["backfill"] = backfill.status()
        return status

    def _status(self) -> dict[str, Any]:
        current = self._current
        worker = self._worker()
        if worker is not None:
            said = worker.status()
            if said["state"] != "fenced":
                return said
        return self._written() or self._at_rest(current)

    def _written(self) -> dict[str, Any] | None:
        """Read what a process that runs it has said just now; None where there is none."""
        written = _store(self._catalog).status(self._definition)
        if written is None or now_millis() - written[0] >= _SILENT_MILLIS:
            return None
        return written[1]

    def _at_rest(self, current: Definition) -> dict[str, Any]:
        """Say how a query stands that no process runs."""
        store = _store(self._catalog)
        written = store.status(current)
        failure = store.failure(current)
        found = store.log(current).newest_checkpoint()
        return {
            "state": "failed" if failure else "ended" if found and found.is_last else "stopped",
            **failure_status(failure),
            "epoch": found.epoch if found else -1,
            "sources": dict(found.positions) if found else {},
            "late": sum(found.late.values()) if found else 0,
            "nodes": list(written[1].get("nodes", [])) if written else [],
        }

    def wait(self, snapshots: Mapping[str, int], timeout: float = 60.0) -> int | None:
        """Wait until changes of the sources are in the result.

        Args:
            snapshots: ids by the names of tables.
            timeout: seconds.

        Returns:
            the newest snapshot of the (first) result; None where it has none.

        Raises:
            OptionError: a name that the query does not read.
            QueryFailedError: it stopped on an error.
            QueryFencedError: it was sent back, or dropped and begun anew, or another process took
                over from this one.
            ServiceUnavailableError: it takes longer, or nobody runs the query.
        """

        def unread(status: dict[str, Any]) -> list[str]:
            at = status["sources"]
            return [name for name in snapshots if at and name not in at]

        def settled(status: dict[str, Any]) -> bool:
            at = status["sources"]
            reached = all(at.get(name, -1) >= number for name, number in snapshots.items())
            return reached or bool(unread(status))

        status = self._wait(settled, timeout)
        if not settled(status):
            self._check_goes_on(status)
            raise ServiceUnavailableError(
                f"query {self.name} has not reached {dict(snapshots)} within {timeout} s: it is "
                f"at {status['sources']}"
            )
        for name in unread(status):
            raise OptionError(
                f"query {self.name} does not read {name}: it reads {', '.join(status['sources'])}",
                value=name,
            )
        snapshot = self._catalog.load_table(self.tables[0]).at().snapshot if self.tables else None
        return snapshot.id if snapshot else None

    def _wait(self, reached: Callable[[dict[str, Any]], bool], timeout: float) -> dict[str, Any]:
        """Wait until the status is as wanted, time is over, or nobody runs the query; give it."""
        deadline = time.monotonic() + timeout
        while True:
            worker = self._worker()
            if worker is not None:
                worker.wait(reached, max(deadline - time.monotonic(), 0.0))
                return worker.status()
            status = self._status()
            if reached(status) or status["state"] not in _GOING or time.monotonic() > deadline:
                return status
            time.sleep(_LOOK_SECONDS)

    def _check_goes_on(self, status: Mapping[str, Any]) -> None:
        """Check that a query has not ended.

        Raises:
            QueryFailedError, QueryFencedError, ServiceUnavailableError: it has, and how.
        """
        self._raise_failure(status)
        if status["state"] == "fenced":
            _store(self._catalog).check_current(self._definition)
            raise QueryFencedError(
                f"query {self.name} does not run in this process any more, as another run took "
                "over: find it again by catalog.query(…)",
                query=self.name,
            )
        if status["state"] not in _GOING:
            raise ServiceUnavailableError(
                f"query {self.name} is {status['state']}: resume() it first"
            )

    def wait_ended(self, timeout: float = 60.0) -> None:
        """Wait until it has ended by itself: ``available_now``, or sources that are finished.

        Raises:
            QueryFailedError: it stopped on an error.
            QueryFencedError: as of `wait`.
            ServiceUnavailableError: it takes longer.
        """
        deadline = time.monotonic() + timeout
        while True:
            worker = self._worker()
            status = self._status() if worker is None else worker.status()
            goes_on = status["state"] in _GOING if worker is None else worker.is_running
            if not goes_on:
                break
            if time.monotonic() > deadline:
                raise ServiceUnavailableError(f"query {self.name} still runs after {timeout} s")
            if worker is None:
                time.sleep(_LOOK_SECONDS)
            else:
                worker.wait(lambda _: False, min(_LOOK_SECONDS, deadline - time.monotonic()))
        if status["state"] not in ("stopped", "ended"):
            self._check_goes_on(status)

    def _raise_failure(self, status: Mapping[str, Any]) -> None:
        if status["failure"] is not None:
            node = status.get("failed_node")
            at = f" at {node}" if node else ""
            raise QueryFailedError(
                f"query {self.name} stopped{at}: {status['failure']}; mend the cause, then "
                "resume() it",
                query=self.name,
                node=node,
            )

    def verify(
        self,
        snapshot: int | None = None,
        engine: str | None = None,
        table: str | None = None,
    ) -> VerifyReport:
        """Compare the result with the bounded run over the inputs that the query has read.

        These are the inputs that the newest snapshot of the result names, or, where later ones
        changed nothing, those up to which the query has read. Rows that came late are left out
        there too, and so is what waits for event time still.

        Args:
            snapshot: of the result, at the inputs that it names; default the newest, as above.
            engine: ``local`` (default) or ``spark``.
            table: which result, of several; default all of them, at their newest snapshots, or
                the first one at the snapshot that is given.

        Returns:
            a report; a difference raises nothing. Of several results that of the first one that
            differs, or of the first.

        Raises:
            OptionError: the query has no such result.
            QueryDivergedError: what is kept of the query and its result do not belong together.
            SnapshotNotFoundError: inputs have expired; the error says which snapshots of the result
                can be compared.
        """
        self._check_life()
        if table is not None and table not in self.tables:
            raise OptionError(
                f"{table} is no result of query {self.name}: its results are "
                f"{', '.join(self.tables)}",
                value=table,
            )
        if table is not None or snapshot is not None:
            return self._verify(table or self.tables[0], snapshot, engine)
        reports = [self._verify(each, None, engine) for each in self.tables]
        return next((each for each in reports if not each.equal), reports[0])

    def _check_life(self) -> None:
        """Check that what is kept of the query and its results belong together, as it goes on."""
        current = self._current
        results = _results(self._catalog, current)
        for tries_left in reversed(range(_LOOKS)):
            log = _store(self._catalog).log(current)
            if _is_beginning(current, log):
                return
            try:
                check_life(current, log, _roots(self._catalog, current), list(results.values()))
                return
            except QueryDivergedError:
                if not tries_left:
                    raise
            time.sleep(_LOOK_SECONDS)  # an epoch may have ended between two looks

    def _verify(self, name: str, snapshot: int | None, engine: str | None) -> VerifyReport:
        table = self._catalog.load_table(name)
        current = self._current
        made = _made_by(self._catalog, current, table, snapshot)
        is_current = made.digest == current.digest
        roots = _roots(self._catalog, made)
        status, times = self._status(), None
        place = Place(status["epoch"], status["sources"])
        if waits_for_time(roots):
            place, times = self._times(is_current=is_current)
        return verify(
            roots,
            table,
            snapshot,
            place if is_current else None,
            engine,
            made.beginnings,
            times=times,
            place=self.tables.index(name),
            expires=any(duration_millis(ttl) for ttls in made.ttls.values() for ttl in ttls),
            skips=made.options.get("on_error") == "skip",
            memory=self._catalog.session.memory,
        )

    def _times(self, timeout: float = 60.0, *, is_current: bool = True) -> tuple[Place, Times]:
        """Give where the newest checkpoint is, and what event time was in each epoch.

        Args:
            is_current: whether the plan that is verified is the one that runs.
        """
        worker = self._worker()
        if worker is not None:
            worker.keep(timeout)
        store = _store(self._catalog)
        newest = store.log(self._current).newest_checkpoint()
        if newest is None:
            return Place(-1, {}), lambda epoch, watermarks: EventTime(unknown=epoch is not None)
        rows = kept_late(store.folder(self.name).child("state"), newest) if is_current else {}

        def times(epoch: int | None, watermarks: Mapping[str, int] | None) -> EventTime:
            late = {name: late_until(each, epoch) for name, each in rows.items()}
            unknown = not is_current or (epoch is not None and epoch > newest.epoch)
            return EventTime(watermarks or newest.watermarks, late, unknown)

        return Place(newest.epoch, newest.positions), times

    def stop(self, timeout: float = 60.0) -> None:
        """End it after the epoch that runs; its state and its place stay.

        Raises:
            ServiceUnavailableError: the epoch takes longer.
        """
        current = self._current
        _store(self._catalog).want(current, running=False)
        _stop_feeders(self._catalog, current)
        worker = self._worker()
        if worker is None:
            self._await_silence(timeout)
        else:
            if not worker.stop(timeout):
                raise ServiceUnavailableError(
                    f"query {self.name} is in an epoch that has not ended in {timeout} s: it stops "
                    "after it"
                )
            _forget(self._catalog, current)

    def _await_silence(self, timeout: float) -> None:
        """Wait until another process that runs the query has seen that it is to stop."""
        deadline = time.monotonic() + timeout
        while self.status()["state"] in ("running", "starting"):
            if time.monotonic() > deadline:
                raise ServiceUnavailableError(
                    f"query {self.name} runs in another process, which has not stopped it in "
                    f"{timeout} s"
                )
            time.sleep(0.1)

    def resume(self, savepoint: str | None = None, on_failure: OnFailure | None = None) -> Self:
        """Let it go on where it stopped.

        Args:
            savepoint: go back to it before: the state, and the results, to which one commit brings
                the rows that they had then. Whoever follows them sees that as changes.
            on_failure: as of ``Relation.materialize``.

        Raises:
            QueryNotFoundError: it was dropped, or there is no such savepoint.
            QueryDivergedError: what it wrote down, its results and its sources do not belong
                together: files were restored from an older copy, or deleted; a source or a result
                was rolled back, or made anew.
            SharedResultError: others have written to a result since the savepoint.
        """
        catalog, store = self._catalog, _store(self._catalog)
        self._place(catalog.session.options)
        if savepoint is not None:
            self._send_back(savepoint)
        _start(catalog, store.read(self.name), on_failure=on_failure)
        return self

    def _send_back(self, savepoint: str) -> None:
        """Let it begin with a savepoint when it is started, if all is there for that."""
        catalog, store = self._catalog, _store(self._catalog)
        current = _adopted(catalog, self._current)
        _bind_again(catalog, current)
        results = list(_results(catalog, current).values())
        roots = _roots(catalog, current)
        savepoints.check_way_back(current, store.log(current), savepoint, results, roots)
        self.stop()
        savepoints.check_way_back(current, store.log(current), savepoint, results, roots)
        back = savepoints.sent_back(current, savepoint, results)
        for known in (_ROOTS, _FUNCTIONS, _HOOKS):
            _take_along(known, _key(catalog, current), _key(catalog, back))
        store.replace(back)
        store.forget_wish(current)
        self._definition = back

    def _place(self, settings: Mapping[str, str]) -> None:
        """Keep how many workers are wanted, and what they may take."""
        current = self._current
        options = QueryOptions(**current.options).placed_by(settings).kept()
        if options != current.options:
            self._definition = structs.replace(current, options=options)
            _store(self._catalog).replace(self._definition)

    def rescale(self, workers: int, timeout: float = 60.0) -> None:
        """Let another number of workers go on with it, after the epoch that runs.

        Each takes the rows of its keys out of the states of those before. What fails on the way
        leaves the query as it was, or with the new number. One that is stopped goes on with the new
        number when it is resumed.

        Raises:
            OptionError: fewer than one.
            ServiceUnavailableError: the epoch takes longer than `timeout` seconds.
        """
        checked_setting("query.parallelism", str(workers))
        worker = self._worker()
        is_running = worker is not None and worker.is_running
        if is_running:
            self.stop(timeout)
        self._place({"query.parallelism": str(workers)})
        if is_running:
            _start(self._catalog, self._current)

    def _fates(
        self, document: dict[str, Any], roots: tuple[Node, ...], before: Sequence[bool]
    ) -> PlanDiff:
        """Say what becomes of each operator with state if another plan takes over.

        Args:
            document, roots, before: the plan; as of `start_query`.
        """
        current = self._current
        proposal = _proposal(self._catalog, current, document, roots, before, "proposal")
        return fates(_site(self._catalog, self.name), current, proposal).diff

    def _hand_over(
        self, document: dict[str, Any], roots: tuple[Node, ...], before: Sequence[bool]
    ) -> Upgrade:
        """Let another plan take over; as of ``Query.upgrade``.

        Args:
            document, roots, before: the plan; as of `start_query`.
        """
        current, site = self._current, _site(self._catalog, self.name)
        proposal = _proposal(self._catalog, current, document, roots, before, new_identity())
        return Upgrade(site, ask(site, current, proposal), self._carry_out)

    def accept(self) -> None:
        """Accept the upgrade: what going back needs is let go.

        Raises:
            UpgradeError: there is none, or it has not taken over yet.
        """
        accept(_site(self._catalog, self.name))

    def rollback(self, timeout: float = 3600.0) -> None:
        """Go back to the plan before the upgrade; the result follows the sources on.

        One that has not taken over yet is dropped.

        Raises:
            UpgradeError: there is none.
            QueryFailedError: the older plan cannot be computed any more.
            ServiceUnavailableError: it takes longer than `timeout`; it goes on.
        """
        site = _site(self._catalog, self.name)
        asked = ask_back(site)
        if asked is None:
            return
        _keep_roots(self._catalog, asked)
        Upgrade(site, asked, self._carry_out).wait(timeout)
        there = site.find()
        if there is not None and there.is_done:  # it had taken over before it could be dropped
            self.rollback(timeout)

    def _carry_out(self) -> None:
        """Do what is asked for, where nobody runs the query."""
        catalog, definition = self._catalog, self._current
        here = _workers(catalog).get(_key(catalog, definition))
        if here is not None:
            here.look_soon()
        if self._status()["state"] in ("running", "starting"):
            return
        settings = _settings(definition, now_millis)

        carry_out(
            _site(catalog, self.name),
            lambda: open_run(catalog, definition, _outlets, settings),
            _of_shadow(settings),
        )
        store = _store(catalog)
        store.note_failure(definition, None)
        _forget(catalog, definition)
        store.note_status(definition, self._at_rest(self._current))

    @property
    def _current(self) -> Definition:
        """Read what the query is now: an upgrade, or going back, may have changed it.

        Raises:
            QueryNotFoundError: it was dropped.
            QueryFencedError: and another was begun under its name.
        """
        there = _store(self._catalog).read(self.name)
        known = self._definition
        if known.incarnation and there.begun != known.begun:
            raise QueryFencedError(
                f"query {self.name} was dropped, and another begun under its name: find it by "
                "catalog.query(…)",
                query=self.name,
                incarnation=known.incarnation,
                found=there.incarnation,
            )
        self._definition = there
        return there

    def savepoint(self, name: str, timeout: float = 60.0) -> None:
        """Keep the state and the results as they are after the epoch that runs, under a name.

        What its sources hold since then does not expire as long as the savepoint is there.

        Raises:
            QueryExistsError: there is a savepoint of this name.
            ServiceUnavailableError: the epoch takes longer than `timeout` seconds.
            SnapshotNotFoundError: a result has no snapshot yet.
        """
        savepoints.check_name(name)
        catalog = self._catalog
        is_running = self._status()["state"] in _GOING
        if is_running:
            self.stop(timeout)
        try:
            current = _adopted(catalog, self._current)
            results = list(_results(catalog, current).values())
            log, roots = _store(catalog).log(current), _roots(catalog, current)
            savepoints.make(current, log, name, results, roots)
        finally:
            if is_running:
                self.resume()

    def savepoints(self) -> list[str]:
        """List the names of its savepoints."""
        return sorted(_store(self._catalog).log(self._current).savepoints())

    def delete_savepoint(self, name: str) -> None:
        """Forget a savepoint: what it kept may expire.

        Raises:
            QueryNotFoundError: there is none of this name.
        """
        catalog, current = self._catalog, self._current
        results = list(_results(catalog, current).values())
        log, roots = _store(catalog).log(current), _roots(catalog, current)
        savepoints.delete(current, log, name, results, roots)

    def drop(self) -> None:
        """End it, and delete its state; its table stays."""
        catalog, current = self._catalog, self._current
        self.stop()
        _end(catalog, current)

    def _worker(self) -> Hosted | None:
        return _worker(self._catalog, self._definition)


def start_query(
    catalog: Catalog,
    name: str,
    document: dict[str, Any],
    roots: tuple[Node, ...],
    before: Sequence[bool],
    dialect: str,
    options: QueryOptions,
    *,
    owns: bool = False,
    replace: bool = False,
) -> Query:
    """Start a query of this name, or let the one go on that is there with this plan.

    Args:
        document: the compiled plan of `roots`, each of which ends in a table.
        owns: whether its tables are to hold what it gives and nothing else.
        replace: begin anew, and replace all that its tables hold.

    Raises:
        QueryExistsError: there is one of this name with another plan.
        SharedResultError: its tables hold rows of others, and `replace` is false.
    """
    options.trigger_of()
    tables = tuple(root.table for root in roots if isinstance(root, Sink))
    _check_no_circle(roots, tables)
    kept = options.kept()
    definition = Definition(name, document, tuple(before), tables, now_millis(), dialect, kept)
    defined = define(catalog, definition, roots, owns=owns, replace=replace)
    return _start(catalog, defined, options.clock, options.on_failure)


def define(
    catalog: Catalog,
    definition: Definition,
    roots: tuple[Node, ...],
    *,
    owns: bool = False,
    replace: bool = False,
) -> Definition:
    """Store a query, or find the one that is there with this plan.

    Its TTLs and options become those that are given.

    Args:
        owns, replace: as of `start_query`.

    Raises:
        QueryExistsError: there is one of its name with another plan.
        SharedResultError: its tables hold rows of others, and `replace` is false.
        UnsupportedError: a node does not run continuously, or would keep other rows under a TTL.
    """
    for root in roots:
        check_operators(root, definition.dialect)
    streams = tuple(each.name for each in streams_in(roots))
    definition = structs.replace(definition, streams=streams)
    store = _store(catalog)
    there = store.find(definition.name)
    if there is not None and replace:
        Query(catalog, there).drop()
        there = None
    results = list(_results(catalog, definition).values())
    if there is None:
        definition = structs.replace(
            definition.as_incarnation(new_incarnation()),
            beginnings=Feeds(scans_of(roots)).beginnings(),
            columns=columns_read(roots),
        )
        definition = placed(definition, results, store, owns=owns, replace=replace)
    if there is None and store.create(definition):
        fence_others(definition, results)
        check_current = partial(store.check_current, definition)
        free_others(definition, savepoints.tables_read(roots), check_current)
    else:
        there = _adopted(catalog, store.read(definition.name))
        same = computes_same(there.document, definition.document)
        if not same or there.tables != definition.tables:
            raise QueryExistsError(
                f"query {definition.name} is there with another plan: let this one take over by "
                "query.upgrade(…), give another name, or stop and drop the query first",
                query=definition.name,
            )
        check_layouts(roots, there.document, definition.document)
        definition = structs.replace(
            there, options=definition.options, document=definition.document
        )
        store.replace(definition)
    _ROOTS[_roots_key(catalog, definition)] = in_query(
        roots, store.folder(definition.name), definition.begun
    )
    return definition


def _check_no_circle(roots: Sequence[Node], tables: Sequence[str]) -> None:
    read = {node.source.name for root in roots for node in root.walk() if isinstance(node, Scan)}
    both = sorted(read.intersection(tables))
    if both:
        raise UnsupportedError(
            f"a continuous query cannot write into {both[0]} that it reads: it would never end; "
            "write into another table",
            table=both[0],
        )


def _end(catalog: Catalog, definition: Definition) -> None:
    """Delete a query that stands still, and all that is kept for it."""
    store = _store(catalog)
    site = _site(catalog, definition.name)
    upgrade = site.find()
    if upgrade is not None:
        forget(site, upgrade)
    fence(definition, list(_results(catalog, definition, lenient=True).values()))
    tables = [*definition.tables, *_tables_read(definition)]
    there = _loaded(catalog, tables, lenient=True)
    savepoints.forget_all(definition, store.log(definition), list(there.values()))
    key = _key(catalog, definition)
    for known in [each for each in _ROOTS if each[0] == key]:
        del _ROOTS[known]
    _FUNCTIONS.pop(key, None)
    _HOOKS.pop(key, None)
    store.drop(definition)


def _tables_read(definition: Definition) -> list[str]:
    """Name the tables that a query reads; its plan need not be bound for that."""
    return [node["table"] for node in definition.document["nodes"] if "table" in node]


def _results(
    catalog: Catalog, definition: Definition, *, lenient: bool = False
) -> dict[str, Table]:
    """Load the results of a query, by name.

    Args:
        lenient: leave out those that are gone.

    Raises:
        TableNotFoundError: one is gone.
    """
    return _loaded(catalog, definition.tables, lenient=lenient)


def _loaded(catalog: Catalog, names: Sequence[str], *, lenient: bool) -> dict[str, Table]:
    found = {}
    for name in dict.fromkeys(names):
        try:
            found[name] = catalog.load_table(name)
        except PkrayError:
            if not lenient:
                raise
    return found


def _adopted(catalog: Catalog, definition: Definition) -> Definition:
    """Give a query of a version that knew no incarnations one, and what it is known by."""
    if definition.incarnation:
        return definition
    store = _store(catalog)
    before = _key(catalog, definition)
    made = store.adopt(definition)
    roots = _roots(catalog, made)
    wished = store.old_wish(made.name)
    made = structs.replace(made, columns=columns_read(roots))
    newest = store.log(made).newest_checkpoint()
    if newest is not None:
        Feeds(scans_of(roots)).hold(made.reader, newest.positions)
    if wished is not None:
        made = savepoints.sent_back(made, wished, list(_results(catalog, made).values()))
    store.replace(made)
    for known in (_ROOTS, _FUNCTIONS, _HOOKS):
        _take_along(known, before, _key(catalog, made))
    for table in _loaded(catalog, _tables_read(made), lenient=True).values():
        table.consumers.delete(old_user(made.name))
    store.forget_old_wish(made.name)
    return made


def _take_along(known: dict[Any, Any], before: str, now: str) -> None:
    """Have what this process keeps of a query be of another incarnation too."""
    for key in list(known):
        if key == before:
            known[now] = known[key]
        elif isinstance(key, tuple) and key[0] == before:
            known[now, key[1]] = known[key]


def find_query(catalog: Catalog, name: str) -> Query:
    """Find a query; as of ``Catalog.query``."""
    return Query(catalog, _store(catalog).read(name))


def list_queries(catalog: Catalog) -> list[Query]:
    """List all queries of a warehouse."""
    store = _store(catalog)
    found = (store.find(name) for name in store.names())
    return [Query(catalog, each) for each in found if each is not None]


def stop_all(runtime: Any) -> None:
    """Stop the queries that run in this process, as their runtime ends."""
    for feeders in _FEEDERS.pop(runtime, {}).values():
        for feeder in feeders:
            feeder.stop()
    for worker in _WORKERS.pop(runtime, {}).values():
        worker.close()


def _start(
    catalog: Catalog,
    definition: Definition,
    clock: Callable[[], int] | None = None,
    on_failure: OnFailure | None = None,
) -> Query:
    definition = _adopted(catalog, definition)
    query = Query(catalog, definition)
    if on_failure is not None:
        _check_is_here(catalog, definition, clock)
        _HOOKS[_key(catalog, definition)] = on_failure
    running = _worker(catalog, definition)
    if running is not None and running.is_running:
        _feed(catalog, definition)
        return query
    store = _store(catalog)
    if store.failure(definition) is not None:
        _bind_again(catalog, definition)
    if definition.tables:
        query._check_life()
    store.want(definition, running=True)
    store.note_failure(definition, None)
    _feed(catalog, definition)
    runtime = catalog.runtime
    if _is_hosted(catalog, definition, clock):
        assert isinstance(runtime, Hosting)
        name = _host_name(catalog, definition)
        runtime.end(name)  # an actor whose work has ended
        arguments = (catalog.warehouse, dict(catalog.storage_options), definition.name)
        functions = dict(catalog.session.functions)
        reserved = _reserved(definition, 0, 1)
        runtime.host(name, hosted_worker, *arguments, functions, runtime.options, reserved=reserved)
    else:
        key = _key(catalog, definition)
        _workers(catalog)[key] = open_worker(catalog, definition, clock)
    return query


def _is_hosted(catalog: Catalog, definition: Definition, clock: Callable[[], int] | None) -> bool:
    """Whether a process of the cluster runs the query."""
    is_hosting = isinstance(catalog.runtime, Hosting)
    return is_hosting and clock is None and _is_stored(catalog, definition)


def _check_is_here(
    catalog: Catalog, definition: Definition, clock: Callable[[], int] | None
) -> None:
    if _is_hosted(catalog, definition, clock):
        raise UnsupportedError(
            f"query {definition.name} runs in an actor, which calls no function of this process: "
            "leave on_failure out, and set query.failure-url",
            query=definition.name,
        )


def _feed(catalog: Catalog, definition: Definition) -> None:
    """Begin to feed a query from this process, if that is not done already: from its streams, and
    with what another engine computes of its tables.
    """
    key, running = _key(catalog, definition), _FEEDERS.setdefault(catalog.runtime, {})
    if any(each.is_running for each in running.get(key, ())):
        return
    backfill = _backfill(catalog, definition)
    if backfill is not None:
        running[key] = [*running.get(key, ()), *_fill(catalog, definition, backfill)]
    if definition.streams:
        running[key] = running.get(key, []) + start_feeders(
            _roots(catalog, definition), lambda source: feeding_of(catalog, definition, source)
        )


def _backfill(catalog: Catalog, definition: Definition) -> Backfill | None:
    """Find what another engine brings, or is to bring, for the first epoch of a query."""
    store = _store(catalog)
    if definition.options.get("backfill") != "spark":
        return None
    roots = _roots(catalog, definition)
    scans = (node for root in roots for node in root.walk() if isinstance(node, Scan))
    if not any(isinstance(scan.source, TableSource) for scan in scans):
        return None
    if store.log(definition).newest_checkpoint() is not None:
        return None
    return Backfill(store.folder(definition.name), roots, definition.begun)


def _fill(catalog: Catalog, definition: Definition, backfill: Backfill) -> list[RunningFeeder]:
    """Begin to compute the first epoch of a query, unless that is done."""
    if backfill.is_done:
        return []
    feeds = Feeds(scans_of(_roots(catalog, definition)))
    feeds.begin(definition.beginnings)
    feeds.hold(definition.reader, feeds.first_positions())
    parts = backfill.parts(feeds, row_by_row=definition.options.get("on_error") != "skip")
    feeds.hold(definition.reader, {name: at[1] for name, at in parts.bounds.items()})
    return [spark_engine().start_backfill(definition.name, backfill, parts)]


def feeding_of(catalog: Catalog, definition: Definition, source: StreamedSource) -> Feeding:
    """Say how a stream is to feed a query."""
    store, query = _store(catalog), Query(catalog, definition)
    trigger = QueryOptions(**definition.options).trigger_of()

    def is_wanted() -> bool:
        try:
            return store.is_wanted(definition) and store.failure(definition) is None
        except (QueryFencedError, MissingFileError, CorruptFileError):
            return False

    def position() -> int:
        return max(query._status()["sources"].get(source.name, 0), 0)

    return Feeding(definition.name, trigger.ends, trigger.interval, is_wanted, position)


def _stop_feeders(catalog: Catalog, definition: Definition) -> None:
    for feeder in _FEEDERS.get(catalog.runtime, {}).pop(_key(catalog, definition), ()):
        feeder.stop()


def hosted_worker(
    warehouse: str,
    storage_options: dict[str, Any],
    name: str,
    functions: dict[str, Any],
    runtime_options: dict[str, Any],
) -> HostedQuery:
    """Open the worker of a query in a process of its own, on the same cluster.

    Args:
        functions: of users, by name.
        runtime_options: of who began the query.
    """
    catalog = _hosted_catalog(warehouse, storage_options, functions, runtime_options)
    definition = _store(catalog).read(name)
    hosting, host = catalog.runtime, _host_name(catalog, definition)
    assert isinstance(hosting, Hosting)

    def start(number: int, count: int) -> str:
        reserved = _reserved(_store(catalog).read(name), number, count)
        arguments = (warehouse, storage_options, name, functions, runtime_options)
        member = member_name(host, number)
        hosting.host(member, hosted_member, *arguments, reserved=reserved)
        return member

    teams = HostedTeams(hosting, host, start)
    worker = open_worker(catalog, definition, None, teams.open)
    return HostedQuery(worker, teams)


def hosted_member(
    warehouse: str,
    storage_options: dict[str, Any],
    name: str,
    functions: dict[str, Any],
    runtime_options: dict[str, Any],
) -> HostedMember:
    """Open a worker of a query that is not the first, in a process of its own.

    Args:
        functions: of users, by name.
        runtime_options: of who began the query.
    """
    catalog = _hosted_catalog(warehouse, storage_options, functions, runtime_options)
    assert isinstance(catalog.runtime, Hosting)

    definition = _store(catalog).read(name)

    def open_share(assigned: Assignment, peers: Peers) -> Share:
        now = _store(catalog).read(name)
        if now.incarnation != definition.incarnation:
            raise QueryFencedError(f"query {name} goes on as another incarnation", query=name)
        return _shares(catalog, now).open(assigned, peers)

    return HostedMember(open_share, Post(catalog.runtime, _host_name(catalog, definition)).send)


def _hosted_catalog(
    warehouse: str,
    storage_options: dict[str, Any],
    functions: dict[str, Any],
    runtime_options: dict[str, Any],
) -> Catalog:
    runtime = open_runtime("ray", runtime_options, storage_options)
    catalog = Catalog(warehouse, runtime, storage_options)
    catalog.session.functions.update(functions)
    return catalog


def _reserved(definition: Definition, number: int, count: int) -> Reserved:
    """Say what is kept free for the process of a worker: its part of what the query may take.

    The first one is there before it is known how many there are: it takes as much as the others
    where that is said.
    """
    options = QueryOptions(**definition.options)
    workers = count if number else options.parallelism or 1
    return Reserved((options.cpus or 0.0) / workers, (options.memory or 0) // workers)


def _first_workers(catalog: Catalog) -> int:
    """Say how many workers a query begins with."""
    runtime = catalog.runtime
    return min(runtime.processors, MOST_WORKERS) if isinstance(runtime, Hosting) else 1


def _shares(catalog: Catalog, definition: Definition) -> QueryShares:
    folder = _store(catalog).folder(definition.name)
    backfill = _backfill(catalog, definition)
    return QueryShares(folder, definition, _roots(catalog, definition), backfill)


def _is_stored(catalog: Catalog, definition: Definition) -> bool:
    """Whether another process could run the query: all that it reads is stored."""
    if not definition.tables:
        return False
    scans = (
        node
        for root in _roots(catalog, definition)
        for node in root.walk()
        if isinstance(node, Scan)
    )
    return all(isinstance(scan.source, TableSource | StreamedSource) for scan in scans)


def open_worker(
    catalog: Catalog,
    definition: Definition,
    clock: Callable[[], int] | None,
    open_team: OpenTeam | None = None,
) -> QueryWorker:
    """Run a query in a thread of this process.

    Args:
        open_team: makes the workers but the first; default threads of this process.
    """
    store = _store(catalog)
    options = QueryOptions(**definition.options)
    settings = _settings(definition, clock or now_millis)
    if open_team is not None:
        settings = replace(settings, first_workers=_first_workers(catalog))
    upgrades = Upgrading(_site(catalog, definition.name), _of_shadow(settings))

    def failed(failure: Failure) -> Failure:
        store.note_failure(definition, failure)
        try:
            store.check_current(definition)
        except QueryFencedError:
            store.delete_failure_of(definition, failure.run)
            raise
        hook = _HOOKS.get(_key(catalog, definition))
        told = tell(definition.name, failure, hook, options.failure_url)
        if told is not None:
            failure = structs.replace(failure, told=told)
            store.note_failure(definition, failure)
        return failure

    def looked(status: dict[str, Any]) -> bool:
        is_wanted = store.is_wanted(definition)
        store.note_status(definition, status)
        return is_wanted

    def opened() -> Run:
        store.check_current(definition)
        upgrades.begin()
        now = store.read(definition.name)
        store.check_current(definition)  # of one begun anew meanwhile others are in charge
        return open_run(catalog, now, _outlets, settings, open_team)

    return QueryWorker(
        definition.name,
        opened,
        options.trigger_of(),
        failed,
        looked,
        upgrades,
        check_current=lambda: store.check_current(definition),
    )


def _settings(definition: Definition, clock: Callable[[], int]) -> RunSettings:
    options = QueryOptions(**definition.options)
    return RunSettings(
        options.checkpoint_epochs,
        options.checkpoint_seconds,
        clock,
        definition.reader,
        options.on_error == "skip",
        options.max_rows,
        workers=options.parallelism,
        idle_timeout=options.idle_timeout,
        aligns=not options.trigger_of().ends,
    )


def _of_shadow(settings: RunSettings) -> RunSettings:
    return replace(settings, reader=f"{settings.reader}-shadow")


OpenOutlets = Callable[["Catalog", Definition, Checkpoint | None], list[Outlet]]
"""Opens the outlets of a query, one a root, with its newest checkpoint."""


def open_run(
    catalog: Catalog,
    definition: Definition,
    open_outlets: OpenOutlets,
    settings: RunSettings,
    open_team: OpenTeam | None = None,
) -> Run:
    """Open a run of a query on its newest checkpoint.

    Args:
        open_team: as of `open_worker`.

    Raises:
        QueryDivergedError: what it wrote down, its results and its sources do not belong together.
        QueryFencedError: it was begun anew meanwhile, or another run took over.
    """
    log, shares = _store(catalog).log(definition), _shares(catalog, definition)
    log.look()
    try:
        return _open_run(catalog, definition, open_outlets, settings, open_team, log, shares)
    except PkrayError:
        log.check_not_passed()  # that run, and not this one, knows what is there
        raise


def _open_run(
    catalog: Catalog,
    definition: Definition,
    open_outlets: OpenOutlets,
    settings: RunSettings,
    open_team: OpenTeam | None,
    log: StoredLog,
    shares: QueryShares,
) -> Run:
    results = _results(catalog, definition)
    savepoints.begin(definition, log, results, shares.roots)
    newest = check_life(definition, log, shares.roots, list(results.values()))
    states = shares.states(settings.workers or 1)
    with ExitStack() as undo:
        undo.callback(states.close)
        outlets = open_outlets(catalog, definition, newest)
        for outlet in outlets:
            undo.callback(outlet.close)
        # Runs of incarnations that come later fence the writers that are open by now.
        log.check_current()
        run = Run(shares.plan, outlets, log, states, settings, open_team or shares.threads)
        undo.pop_all()
    return run


def _is_beginning(definition: Definition, log: StoredLog) -> bool:
    """Whether a query has still to go back to the savepoint that it begins with."""
    return bool(definition.begins_at) and log.newest_checkpoint() is None


def _outlets(catalog: Catalog, definition: Definition, newest: Checkpoint | None) -> list[Outlet]:
    function = _FUNCTIONS.get(_key(catalog, definition))
    if function is not None:
        return [function]
    if not definition.tables:
        raise UnsupportedError(
            f"query {definition.name} goes to this program: open it again by stream(name=…) or "
            "foreach_batch(function, name=…)",
            query=definition.name,
        )
    results = newest.results if newest is not None else {}
    return [
        TableOutlet(
            catalog.load_table(root.table),
            root,
            definition.commits,
            results.get(root.table),
            replaces=newest is None and root.table in definition.replaces,
        )
        for root in _roots(catalog, definition)
        if isinstance(root, Sink)
    ]


def start_function(
    catalog: Catalog,
    definition: Definition,
    roots: tuple[Node, ...],
    outlet: Outlet,
    clock: Callable[[], int] | None,
) -> Query:
    """Start a query whose changes a function of this process takes."""
    definition = define(catalog, definition, roots)
    _FUNCTIONS[_key(catalog, definition)] = outlet
    return _start(catalog, definition, clock)


def _roots(catalog: Catalog, definition: Definition) -> tuple[Node, ...]:
    """Take the plan that this process has, or load the one that is stored."""
    known = _ROOTS.get(_roots_key(catalog, definition))
    if known is not None:
        return known
    folder, begun = _store(catalog).folder(definition.name), definition.begun
    streams = stored_streams(folder, begun) if definition.streams else {}
    return roots_of(catalog.session, definition.document, streams)


def _bind_again(catalog: Catalog, definition: Definition) -> None:
    """Bind a plan to its tables as they are now, unless it reads what this process alone has.

    Raises:
        PlanError: a table lacks a column that it reads, or has it with another type.
    """
    known = _ROOTS.get(_roots_key(catalog, definition))
    scans = [node for root in known or () for node in root.walk() if isinstance(node, Scan)]
    inside = catalog.warehouse.rstrip("/") + "/"
    if known is not None and all(
        isinstance(scan.source, TableSource)
        and scan.source.original.location.url.startswith(inside)
        for scan in scans
    ):
        roots = roots_of(catalog.session, definition.document)
        _ROOTS[_roots_key(catalog, definition)] = roots


def _roots_key(catalog: Catalog, definition: Definition) -> tuple[str, str]:
    return _key(catalog, definition), definition.generation


def _site(catalog: Catalog, name: str) -> Site:
    return Site(catalog, name, lambda definition: _roots(catalog, definition))


def _proposal(
    catalog: Catalog,
    current: Definition,
    document: dict[str, Any],
    made_of: tuple[Node, ...],
    before: Sequence[bool],
    generation: str,
) -> Definition:
    """Make what a query would be with another plan.

    Args:
        document, made_of, before: the plan; as of `start_query`.

    Raises:
        UnsupportedError: a node does not run continuously.
    """
    roots = in_query(made_of, _store(catalog).folder(current.name), current.begun)
    for root in roots:
        check_operators(root, document["dialect"])
    begun = {
        name: current.beginnings.get(name, at)
        for name, at in Feeds(scans_of(roots)).beginnings().items()
    }
    made = structs.replace(
        current,
        document=document,
        before=tuple(before),
        dialect=document["dialect"],
        beginnings=begun,
        streams=tuple(each.name for each in streams_in(roots)),
        generation=generation,
        columns=columns_read(roots),
    )
    _check_no_circle(roots, made.tables)
    _ROOTS[_roots_key(catalog, made)] = roots
    return made


def _keep_roots(catalog: Catalog, back: StoredUpgrade) -> None:
    """Take the older plan that this process has for the one that a query goes back to."""
    key = _key(catalog, back.new)
    if back.returns_to is not None and (key, back.returns_to) in _ROOTS:
        _ROOTS[_roots_key(catalog, back.new)] = _ROOTS[key, back.returns_to]


def _made_by(
    catalog: Catalog, current: Definition, table: Table, snapshot: int | None
) -> Definition:
    """Find by which plan a snapshot of a result was made."""
    view = table.at(snapshot_id=snapshot) if snapshot is not None else table.at()
    said = (view.snapshot.properties or {}).get(PLAN) if view.snapshot is not None else None
    if said is None or said == current.digest:
        return current
    return _site(catalog, current.name).plan_of(said) or current


def plan_of(catalog: Catalog, definition: Definition) -> tuple[Node, ...]:
    """Give the physical plans of a query, one a result."""
    return _roots(catalog, definition)


def folder_of(catalog: Catalog, name: str) -> ObjectStore:
    """Give the folder of a query."""
    return _store(catalog).folder(name)


def _store(catalog: Catalog) -> QueryStore:
    return QueryStore(catalog.store)


def _key(catalog: Catalog, definition: Definition) -> str:
    return f"{catalog.warehouse.rstrip('/')}/{definition.name}@{definition.incarnation}"


def _workers(catalog: Catalog) -> dict[str, QueryWorker]:
    return _WORKERS.setdefault(catalog.runtime, {})


def _worker(catalog: Catalog, definition: Definition) -> Hosted | None:
    """Find what runs a query: a thread of this process, or an actor."""
    here = _workers(catalog).get(_key(catalog, definition))
    if here is None and isinstance(catalog.runtime, Hosting):
        return catalog.runtime.hosted(_host_name(catalog, definition))
    return here


def _host_name(catalog: Catalog, definition: Definition) -> str:
    digest = hashlib.blake2b(catalog.warehouse.encode(), digest_size=8).hexdigest()
    incarnation = f"{definition.incarnation}-" if definition.incarnation else ""
    return f"pkray-query-{digest}-{incarnation}{definition.name}"


def _forget(catalog: Catalog, definition: Definition) -> None:
    _workers(catalog).pop(_key(catalog, definition), None)
    if isinstance(catalog.runtime, Hosting):
        catalog.runtime.end(_host_name(catalog, definition))
