"""Continuous queries as people hold them: watched, stopped, sent back, upgraded, proved."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, Self

from msgspec import structs

from pkray.arguments.facade import Seconds, SnapshotId, checked_class
from pkray.clock import now_millis
from pkray.errors import PkrayError, QueryFencedError, QueryNotFoundError, UnsupportedError
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.outlets.outlets import Outlet
from pkray.relational.continuous.queries import opening
from pkray.relational.continuous.queries.compiling import Compiled
from pkray.relational.continuous.queries.definitions.definition import Definition
from pkray.relational.continuous.queries.definitions.failure_hooks import OnFailure
from pkray.relational.continuous.queries.definitions.options import QueryOptions
from pkray.relational.continuous.queries.definitions.query_store import QueryStore
from pkray.relational.continuous.queries.ending import clear_dropped, drop, stop
from pkray.relational.continuous.queries.incarnations import savepoints
from pkray.relational.continuous.queries.live_view import follow, html_of
from pkray.relational.continuous.queries.proof import verify_query
from pkray.relational.continuous.queries.proposals import keep_roots, proposal
from pkray.relational.continuous.queries.starting import check_no_circle, define, start
from pkray.relational.continuous.queries.stored import StoredQuery, take_along
from pkray.relational.continuous.queries.verification.verify import VerifyReport
from pkray.relational.continuous.queries.watched import GOING, Watched
from pkray.relational.continuous.upgrades import upgrade
from pkray.relational.continuous.upgrades.fates import fates
from pkray.relational.continuous.upgrades.upgrading import carry_out
from pkray.relational.plan.drawn import drawn_document
from pkray.relational.plan.nodes import Node, Sink
from pkray.relational.plan.plan_diff import PlanDiff
from pkray.relational.settings import checked_setting


@checked_class
class Query:
    """A continuous query, as what makes and runs it holds it; users hold ``pkray.api.query.Query``.

    Attributes:
        name: the query's; that of its table, where it has one.
    """

    def __init__(self, stored: StoredQuery) -> None:
        self._watched = Watched(stored)
        self.name = stored.name

    def __repr__(self) -> str:
        try:
            state = self.status()["state"]
        except (QueryFencedError, QueryNotFoundError):
            state = "dropped"
        except PkrayError:  # such as storage that does not answer
            state = "unknown"
        return f"Query({self.name!r}, {state})"

    def _repr_html_(self) -> str:
        status = self.status()
        document = self._watched.current.definition.document
        return html_of(f"query {self.name}", status) + drawn_document(document, status)

    def show(self, seconds: Seconds | None = None) -> None:
        """Show what it does, in a terminal or a notebook, until it ends or until Ctrl+C, which
        leaves it running.

        Args:
            seconds: for so long at most; default as long as it runs.

        Raises:
            QueryNotFoundError, QueryFencedError: as of `status`.
        """
        follow(self.name, self.status, seconds)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its results."""
        return self._watched.tables

    def status(self) -> dict[str, Any]:
        """Say what it does.

        Returns:
            ``state`` (running, stopped, failed, ended), ``incarnation`` (tells this beginning of
            the query from all others of its name), ``sql`` (of one that was made from SQL its text,
            without secrets), ``failure``, of a failed one also
            ``failed_node`` and ``failure_told`` (what became of its hooks), ``epoch``, ``sources``
            (the position up to which each is in the result), ``lag`` (how far each is ahead of
            that, in ``snapshots`` and ``seconds``), ``delay`` (seconds that the changes of a newest
            epoch were ``waiting``, ``computing`` and ``committing`` on their way into the result),
            ``untold`` (sources whose newest ``snapshot`` has rows that their changelog tells of
            once they are compacted, ``full`` or not: until then they are not read on;
            ``Table.compact`` does it), ``nodes``, ``busy`` and ``busiest`` (by the number of an
            operator the share of the last seconds that it worked: the mean of the workers, and of
            the one that worked most); of a query that reads streams ``streams``, what feeds each:
            ``running``, ``ended``, ``stopped``, ``failed``,
            or ``waiting`` for the program that feeds it to be started again; while Spark computes
            the first epoch ``backfill``, the same of it and how many ``tasks`` are done; from an
            upgrade until it is accepted ``upgrade``, how far that is.

        Raises:
            QueryNotFoundError: it was dropped.
            QueryFencedError: it was dropped, and another begun under its name.
        """
        return self._watched.status()

    def wait(self, snapshots: Mapping[str, SnapshotId], timeout: Seconds = 60.0) -> int | None:
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
        return self._watched.wait(snapshots, timeout)

    def wait_ended(self, timeout: Seconds = 60.0) -> None:
        """Wait until it has ended by itself: ``available_now``, or sources that are finished.

        Raises:
            QueryFailedError: it stopped on an error.
            QueryFencedError: as of `wait`.
            ServiceUnavailableError: it takes longer.
        """
        self._watched.wait_ended(timeout)

    def verify(
        self,
        snapshot: int | None = None,
        engine: Literal["local", "spark"] | None = None,
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
        return verify_query(self._watched, snapshot, engine, table)

    def stop(self, timeout: Seconds = 60.0) -> None:
        """End it after the epoch that runs; its state and its place stay.

        One that calls Python functions on a cluster is ended in the middle of an epoch that takes
        longer, as the function may never return; its next run does that epoch again.

        Raises:
            ServiceUnavailableError: the epoch takes longer.
        """
        stop(self._watched, timeout)

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
        catalog = self._watched.stored.catalog
        self._place(catalog.session.options)
        if savepoint is not None:
            self._send_back(savepoint)
        start(self._watched.current, on_failure=on_failure)
        return self

    def _send_back(self, savepoint: str) -> None:
        """Let it begin with a savepoint when it is started, if all is there for that."""
        query = self._watched.current.adopted()
        query.bind_again()
        current, store, saved = query.definition, query.store, query.savepoints()
        saved.check_way_back(savepoint)
        stop(self._watched, known=query)
        saved.check_way_back(savepoint)
        back = query.changed(savepoints.sent_back(current, savepoint, saved.results))
        take_along(query.key, back.key)
        back = query.changed(store.replace(back.definition))
        store.forget_wish(current)
        self._watched.stored = back

    def _place(self, settings: Mapping[str, str]) -> None:
        """Keep how many workers are wanted, and what they may take."""
        query = self._watched.current
        options = query.options.placed_by(settings).kept()
        if options != query.definition.options:
            placed = query.store.replace(structs.replace(query.definition, options=options))
            self._watched.stored = query.changed(placed)

    def rescale(self, workers: int, timeout: Seconds = 60.0) -> None:
        """Let another number of workers go on with it, after the epoch that runs.

        Each takes the rows of its keys out of the states of those before. What fails on the way
        leaves the query as it was, or with the new number. One that is stopped goes on with the new
        number when it is resumed.

        Raises:
            OptionError: fewer than one.
            ServiceUnavailableError: the epoch takes longer than `timeout` seconds.
        """
        checked_setting("query.parallelism", str(workers))
        worker = self._watched.worker
        is_running = worker is not None and worker.is_running
        if is_running:
            self.stop(timeout)
        self._place({"query.parallelism": str(workers)})
        if is_running:
            start(self._watched.current)

    def _fates(self, plan: Compiled) -> PlanDiff:
        """Say what becomes of each operator with state if another plan takes over."""
        query = self._watched.current
        proposed = proposal(query, plan, "proposal")
        return fates(query.site, query.definition, proposed).diff

    def _hand_over(self, plan: Compiled) -> upgrade.Upgrade:
        """Let another plan take over; as of ``Query.upgrade``."""
        query = self._watched.current
        proposed = proposal(query, plan, upgrade.new_identity())
        asked = upgrade.ask(query.site, query.definition, proposed)
        return upgrade.Upgrade(query.site, asked, self._carry_out)

    def accept(self) -> None:
        """Accept the upgrade: what going back needs is let go.

        Raises:
            UpgradeError: there is none, or it has not taken over yet.
        """
        upgrade.accept(self._watched.stored.site)

    def rollback(self, timeout: Seconds = 3600.0) -> None:
        """Go back to the plan before the upgrade; the result follows the sources on.

        One that has not taken over yet is dropped.

        Raises:
            UpgradeError: there is none.
            QueryFailedError: the older plan cannot be computed any more.
            ServiceUnavailableError: it takes longer than `timeout`; it goes on.
        """
        stored = self._watched.stored
        site = stored.site
        asked = upgrade.ask_back(site)
        if asked is None:
            return
        keep_roots(stored, asked)
        upgrade.Upgrade(site, asked, self._carry_out).wait(timeout)
        there = site.find()
        if there is not None and there.is_done:  # it had taken over before it could be dropped
            self.rollback(timeout)

    def _carry_out(self) -> None:
        """Do what is asked for, where nobody runs the query."""
        query, running = self._watched.current, self._watched.running
        here = running.here(query)
        if here is not None:
            here.look_soon()
        if self._watched.progress()["state"] in GOING:
            return
        settings = opening.settings_of(query)
        carry_out(
            query.site,
            lambda: opening.open_run(query, opening.outlets_of, settings),
            opening.shadow_settings(settings),
        )
        query.store.note_failure(query.definition, None)
        running.forget(query)
        query.store.note_status(query.definition, Watched(query.current()).at_rest())

    def savepoint(self, name: str, timeout: Seconds = 60.0) -> None:
        """Keep the state and the results as they are after the epoch that runs, under a name.

        What its sources hold since then does not expire as long as the savepoint is there.

        Raises:
            QueryExistsError: there is a savepoint of this name.
            QueryNotFoundError: no epoch has ended yet.
            ServiceUnavailableError: the epoch takes longer than `timeout` seconds.
            SnapshotNotFoundError: a result has no snapshot yet.
        """
        savepoints.check_name(name)
        is_running = self._watched.progress()["state"] in GOING
        if is_running:
            self.stop(timeout)
        try:
            self._watched.current.adopted().savepoints().make(name)
        finally:
            if is_running:
                self.resume()

    def savepoints(self) -> list[str]:
        """List the names of its savepoints."""
        return sorted(self._watched.current.log().savepoints())

    def delete_savepoint(self, name: str) -> None:
        """Forget a savepoint: what it kept may expire.

        Raises:
            QueryNotFoundError: there is none of this name.
        """
        self._watched.current.savepoints().delete(name)

    def drop(self) -> None:
        """End it, and delete its state; its table stays."""
        drop(self._watched)


def start_query(
    plan: Compiled,
    name: str | None = None,
    options: QueryOptions | None = None,
    *,
    owns: bool = False,
    replace: bool = False,
) -> Query:
    """Start a query of this name, or let the one go on that is there with this plan.

    Args:
        name: default the names of its tables.
        owns: whether its tables are to hold what it gives and nothing else.
        replace: begin anew, and replace all that its tables hold.

    Raises:
        QueryExistsError: there is one of this name with another plan.
        SharedResultError: its tables hold rows of others, and `replace` is false.
        UnsupportedError: the plan ends in no table.
    """
    tables = tuple(root.table for root in plan.roots if isinstance(root, Sink))
    if not tables or plan.session is None:
        raise UnsupportedError(
            "a plan runs continuously into tables: compile an INSERT, or call stream()"
        )
    chosen = (options or QueryOptions()).bounded_by(plan.session.options)
    chosen.trigger_of()
    check_no_circle(plan.roots, tables)
    definition = Definition(
        "+".join(tables) if name is None else name,
        plan.document,
        tuple(plan.before),
        tables,
        now_millis(),
        plan.document["dialect"],
        chosen.kept(),
        sql=plan.text,
    )
    catalog = plan.session.catalog
    query, is_begun = define(catalog, definition, plan.roots, owns=owns, replace=replace)
    return Query(start(query, chosen.clock, chosen.on_failure, is_begun=is_begun))


def start_function(
    catalog: Catalog,
    definition: Definition,
    roots: tuple[Node, ...],
    outlet: Outlet,
    clock: Callable[[], int] | None,
) -> Query:
    """Start a query whose changes a function of this process takes."""
    query, is_begun = define(catalog, definition, roots)
    query.in_process.outlet = outlet
    return Query(start(query, clock, is_begun=is_begun))


def find_query(catalog: Catalog, name: str) -> Query:
    """Find a query; as of ``Catalog.query``."""
    store = QueryStore(catalog.store)
    found = store.find(name)
    if found is None:
        clear_dropped(catalog, name)
        found = store.read(name)
    return Query(StoredQuery(catalog, found))


def list_queries(catalog: Catalog, broken: dict[str, PkrayError] | None = None) -> list[Query]:
    """List all queries of a warehouse; as of ``QueryStore.all``."""
    return [Query(StoredQuery(catalog, each)) for each in QueryStore(catalog.store).all(broken)]
