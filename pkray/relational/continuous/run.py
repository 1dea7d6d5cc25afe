"""Run a plan epoch by epoch: read, compute, give the result, and remember how far it came."""

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from pkray import spans
from pkray.errors import QueryFencedError
from pkray.relational.continuous.changes import Changes, concatenated
from pkray.relational.continuous.exchange.peers import alone
from pkray.relational.continuous.feeds.feed import NOTHING, Bounds
from pkray.relational.continuous.feeds.feeds import Feeds
from pkray.relational.continuous.feeds.pace import SourceTimes
from pkray.relational.continuous.graph import Graph
from pkray.relational.continuous.log.log import Checkpoint, Committed, EpochRecord, QueryLog
from pkray.relational.continuous.operator import Epoch
from pkray.relational.continuous.outlets.outlets import Outlet
from pkray.relational.continuous.outlets.table_outlet import TableOutlet
from pkray.relational.continuous.outlets.table_parts import TablePart
from pkray.relational.continuous.parallel.share import Assignment, Share, assignments, summed
from pkray.relational.continuous.parallel.share import RunnablePlan as RunnablePlan
from pkray.relational.continuous.parallel.team import Team
from pkray.relational.continuous.state.states import States

OpenTeam: TypeAlias = Callable[[int, int], Team]
"""Makes the workers of a query: how many there are, and the number of the run."""


@dataclass(frozen=True)
class RunSettings:
    """Say how a query runs.

    Attributes:
        checkpoint_epochs: epochs after which states are written to files.
        checkpoint_seconds: or so many seconds after the last time.
        clock: processing time in epoch milliseconds.
        skips: whether rows that cannot be computed are left out, and kept aside.
        max_rows: most changed rows of a table that an epoch takes; None: no bound.
        is_interrupted: asked between the parts of an epoch; true ends the run.
        reader: under which the sources keep what is still to be read; None: they may expire it.
        workers: that compute it; None: as many as before.
        first_workers: that compute it where there was no checkpoint before.
        idle_timeout: milliseconds without rows after which a source holds the watermark back no
            more, where its table says no other; 0: never.
        aligns: whether sources wait for slower ones, as the options of their tables say.
    """

    checkpoint_epochs: int = 100
    checkpoint_seconds: float = 30.0
    clock: Callable[[], int] = field(default=lambda: time.time_ns() // 1_000_000)
    reader: str | None = None
    skips: bool = False
    max_rows: int | None = None
    is_interrupted: Callable[[], bool] = field(default=lambda: False)
    workers: int | None = None
    idle_timeout: int = 0
    aligns: bool = True
    first_workers: int = 1


class Interrupted(Exception):
    """Ends a run in the middle of an epoch, which is run again under the same bounds."""


class Run:
    """One run of a query, from its newest checkpoint on. For one thread.

    Epochs that were begun before a crash are run by as many workers as then, the next ones by as
    many as are wanted.

    Attributes:
        commit_seconds: that the newest epoch took to commit its results.

    Args:
        log: where epochs and checkpoints are written down.
        states: opens the states of the first worker.
        open_team: makes the others, where there are any.
        on_checkpoint: called when a checkpoint has been written.
    """

    def __init__(
        self,
        plan: RunnablePlan,
        outlets: Sequence[Outlet],
        log: QueryLog,
        states: States,
        settings: RunSettings,
        open_team: OpenTeam | None = None,
        on_checkpoint: Callable[[], None] = lambda: None,
    ) -> None:
        self.plan = plan
        self._on_checkpoint = on_checkpoint
        self._outlets = outlets
        self._log = log
        self._settings = settings
        found = log.take_over()
        self.positions: dict[str, int] = dict(found.positions) if found else {}
        self._marks: dict[str, str] = dict(found.marks) if found else {}
        self.next_epoch = found.epoch + 1 if found else 0
        self.is_ended = bool(found and found.is_last)
        self.idle: tuple[str, ...] = ()
        self.commit_seconds = 0.0
        self._late = dict(found.late) if found else {}
        self._since_checkpoint = 0
        self._checkpoint_at = time.monotonic()
        self._pending = log.epochs_from(self.next_epoch)
        before = len(found.shares) if found else settings.first_workers
        self._wanted = settings.workers or before
        if open_team is None:
            self._wanted = self.workers = 1
        else:
            self.workers = self._pending[0].workers if self._pending else self._wanted
        self._team: Team | None = None
        if open_team is not None and self.workers > 1:
            self._team = open_team(self.workers, log.number)
        assigned = assignments(log.number, self.workers, found)
        self.share = self._open_share(states, assigned)
        paces = {name: self.feeds.feeds[name].pace for name in self.source_watermarks()}
        self._times = SourceTimes(paces, settings.idle_timeout, settings.clock())
        if found is None:
            self.feeds.begin(plan.beginnings)
            self._hold_unread()
        if assigned[0].to_deal:
            self._since_checkpoint = 1
            self.checkpoint()

    def _hold_unread(self) -> None:
        """Keep what the sources have before anything of it is chosen to be read."""
        if self._settings.reader is not None and not self._pending:
            self.feeds.hold(self._settings.reader, self.feeds.first_positions())

    def _open_share(self, states: States, assigned: Sequence[Assignment]) -> Share:
        """Open the first worker's share, while the others open theirs."""
        team, own = self._team, assigned[0]
        skips, max_rows = self._settings.skips, self._settings.max_rows
        with ExitStack() as undo:
            if team is not None:
                undo.callback(team.close)
                team.join()
                team.begin(assigned)
            peers = alone() if team is None else team.peers
            share = Share(self.plan, states, peers, own, skips=skips, max_rows=max_rows)
            if team is not None:
                team.wait()
            undo.pop_all()
        return share

    @property
    def graph(self) -> Graph:
        """The operators of the first worker."""
        return self.share.graph

    @property
    def feeds(self) -> Feeds:
        """The feeds of all sources."""
        return self.share.feeds

    @property
    def name(self) -> str:
        """The name of the run; empty where nothing is written down."""
        return self._log.run

    @property
    def is_overtaken(self) -> bool:
        """Whether another run of the query took over."""
        return self._log.is_overtaken

    def check_not_followed(self) -> None:
        """Check that no other run of the query has taken over, as far as that is seen at once.

        Raises:
            QueryFencedError: one has.
        """
        self._log.check_not_followed()

    @property
    def is_outgrown(self) -> bool:
        """Whether the next epochs are to be run by another number of workers: by another run."""
        return not self._pending and self.workers != self._wanted

    def step(self) -> bool:
        """Run one epoch, if there is something to be read; write no checkpoint.

        Raises:
            EvaluationError: a row cannot be computed; the run is of no use any more.
        """
        record = self._next_record()
        if record is None:
            return False
        if record.upgrade:
            raise QueryFencedError(
                f"epoch {record.number} was begun by an upgrade of the query: this run stops"
            )
        self._run(record)
        return True

    def catch_up(self, positions: Mapping[str, int]) -> None:
        """Run one epoch that ends where another run of the sources is.

        Args:
            positions: none before this run's own; sources that the other does not read go on to
                what is new.
        """
        new = self.feeds.next(self.positions, (), self._marks) or {}
        bounds = {}
        for name in self.feeds.feeds:
            at = self.positions.get(name, NOTHING)
            after, newest = new.get(name, (at, at))
            bounds[name] = (after, positions.get(name, newest))
        if any(until > after for after, until in bounds.values()) or not self.positions:
            self._hold_first(bounds)
            self._run(self._log.begin(self._record(bounds)))

    @property
    def is_behind_its_log(self) -> bool:
        """Whether epochs that were begun before a crash are still to be run."""
        return bool(self._pending)

    def end_for(self, upgrade: str) -> bool:
        """Write a checkpoint, and an epoch in which another plan takes over; run nothing after it.

        Returns:
            false where another run began that epoch.

        Raises:
            QueryFencedError: another run took over.
        """
        self._since_checkpoint += 1
        self.checkpoint()
        same = {name: (at, at) for name, at in self.positions.items()}
        last = self._record(same, is_last=self.is_ended, upgrade=upgrade)
        return self._log.begin(last).upgrade == upgrade

    def checkpoint_if_due(self) -> None:
        """Write a checkpoint if the last one is old enough, or nothing more comes."""
        if self._is_due():
            self.checkpoint()

    def _next_record(self) -> EpochRecord | None:
        """Find the epoch that was begun before a crash, or write the next one down."""
        if self._pending:
            return self._pending.pop(0)
        if self.is_ended:
            return None
        now = self._settings.clock()
        ended = self.feeds.ended(self.positions) & self._times.names
        quiet = self._times.idle(now)
        bounds = self._next_bounds(self._held(ended | quiet, now))
        is_last = bounds is None and self.feeds.is_finished and bool(self.positions)
        idle = tuple(sorted(name for name in ended | quiet if self._is_idle(name, bounds)))
        if bounds is None and not is_last and not self._moves(idle) and not self._wakes(now):
            return None
        same = {name: (at, at) for name, at in self.positions.items()}
        made = partial(self._record, bounds or same, is_last=is_last, idle=idle)
        if not self.positions:
            self._hold_first(bounds or same)
            return self._log.begin(made())
        check = partial(self.feeds.check, self.positions, self._marks)
        _, record = self.feeds.together(check, made)
        return self._log.begin(record)

    def _wakes(self, now: int) -> bool:
        """Whether what waits for processing time is due."""
        at = self.graph.wakes_at
        return bool(self.positions) and at is not None and at <= now

    def _next_bounds(self, held: Collection[str]) -> dict[str, Bounds] | None:
        """Choose what the next epoch reads; None where nothing is new.

        Args:
            held: sources that wait for slower ones.
        """
        if self.next_epoch == 0 and self.plan.backfill is not None:
            return self.plan.backfill.bounds()
        return self.feeds.next(self.positions, held, self._marks)

    @property
    def is_filling(self) -> bool:
        """Whether more of what there was when the query began is still on its way."""
        backfill = self.plan.backfill if self.next_epoch == 0 else None
        return self.feeds.is_filling or (backfill is not None and not backfill.is_done)

    def _record(
        self,
        bounds: dict[str, Bounds],
        *,
        is_last: bool = False,
        upgrade: str = "",
        idle: tuple[str, ...] = (),
    ) -> EpochRecord:
        return EpochRecord(
            self.next_epoch,
            bounds,
            self._settings.clock(),
            is_last,
            upgrade=upgrade,
            workers=self.workers,
            idle=idle,
            marks=self._marks_of({name: until for name, (_, until) in bounds.items()}),
        )

    def _marks_of(self, positions: Mapping[str, int]) -> dict[str, str]:
        """Tell what stands at positions; of those that have not moved that is known."""
        there = {n: m for n, m in self._marks.items() if positions.get(n) == self.positions.get(n)}
        return there | self.feeds.marks({n: at for n, at in positions.items() if n not in there})

    def _hold_first(self, bounds: Mapping[str, Bounds]) -> None:
        if not self.positions:
            self._hold({name: at[0] if at[0] > NOTHING else at[1] for name, at in bounds.items()})

    def _held(self, left: Collection[str], now: int) -> frozenset[str]:
        """List the sources that wait for slower ones; `left` are those that count no more."""
        if not self._settings.aligns:
            return frozenset()
        held = self._times.held(self._known_watermarks(), left, now)
        self._times.note(held, now)
        return held

    def source_watermarks(self) -> dict[str, int | None]:
        """Say how far the event time of each source is that has one: microseconds."""
        found: dict[str, int | None] = {}
        for number, mark in self.graph.source_watermarks().items():
            (name,) = self.feeds.names_of([number])
            others = [each for each in (mark, found.get(name, mark)) if each is not None]
            found[name] = min(others, default=None)
        return found

    def _known_watermarks(self) -> dict[str, int]:
        return {name: at for name, at in self.source_watermarks().items() if at is not None}

    def _is_idle(self, name: str, bounds: Mapping[str, Bounds] | None) -> bool:
        return bounds is None or bounds[name][0] == bounds[name][1]

    def _moves(self, idle: Collection[str]) -> bool:
        """Whether time goes on without anything new, as sources hold it back no more."""
        return bool(self.positions and idle) and self.graph.moves(self.feeds.scans_of(idle))

    def _run(self, record: EpochRecord) -> None:
        with spans.span("epoch", epoch=record.number):
            self._run_epoch(record)

    def _run_epoch(self, record: EpochRecord) -> None:
        if self._log.checked is not record:
            self._log.check_current()
        results: list[TablePart | None] = []
        if self._team is not None:
            results = [each.part() for each in self._outlets]
            self._team.run(record, results)
        collected: list[list[Changes]] = [[] for _ in self._outlets]
        with ExitStack() as in_flight:
            try:
                for made, epoch in self.share.run(record, results):
                    if self._settings.is_interrupted():
                        raise Interrupted
                    self._take(made, collected, epoch, in_flight)
            except Exception as error:
                if self._team is not None:
                    self._team.fail(error)
                raise
            if self._team is not None:
                for outlet, reports in zip(self._outlets, self._team.finish(), strict=True):
                    outlet.add(reports)
            moved = (name for name, (after, until) in record.bounds.items() if until > after)
            self._times.note(moved, record.time)
            self.positions = {name: bounds[1] for name, bounds in record.bounds.items()}
            self._marks = dict(record.marks)
            self.commit_seconds = 0.0
            for place, outlet in enumerate(self._outlets):
                self._give(place, collected[place], epoch)
                ended = self.graph.root_epoch(place, epoch)
                changing, begun = self.feeds.changing(self.positions), time.perf_counter()
                with spans.span("give"):
                    outlet.commit(ended, changing, self.graph.judged_by())
                self.commit_seconds += time.perf_counter() - begun
        self.next_epoch = record.number + 1
        self.is_ended = record.is_last
        self.idle = record.idle
        self._since_checkpoint += 1

    def _take(
        self,
        made: Sequence[Changes],
        collected: list[list[Changes]],
        epoch: Epoch,
        in_flight: ExitStack,
    ) -> None:
        for place, changes in enumerate(made):
            if len(changes) and self._outlets[place].takes_parts:
                self._give(place, [changes], epoch)
            elif len(changes):
                collected[place].append(changes)
                in_flight.enter_context(self.share.states.in_flight(changes.nbytes))

    def _give(self, place: int, parts: Sequence[Changes], epoch: Epoch) -> None:
        fields = self.plan.roots[place].fields
        net = self.share.net(place, concatenated(fields, parts))
        if len(net):
            self._outlets[place].give(net, epoch)

    def _is_due(self) -> bool:
        waited = time.monotonic() - self._checkpoint_at
        return (
            self._since_checkpoint >= self._settings.checkpoint_epochs
            or waited >= self._settings.checkpoint_seconds
            or self.is_ended
        )

    def checkpoint(self) -> None:
        """Write all states to files, and write down which; nothing where no epoch ran since."""
        if not self._since_checkpoint:
            return
        if self._team is not None:
            self._team.checkpoint()
        files = self.share.states.checkpoint()
        others = tuple(self._team.wait()) if self._team is not None else ()
        self._log.write_checkpoint(
            Checkpoint(
                self.next_epoch - 1,
                self.positions,
                self.graph.watermarks(),
                self.plan.digest,
                files,
                self.is_ended,
                folders=self.share.states.folders,
                others=others,
                late=self.late_counts(),
                marks=self._marks,
                results=self._results(),
            )
        )
        self._hold(self.positions)
        self.feeds.forget(lambda: self._log.oldest(self.positions))
        if self.plan.backfill is not None:
            self.plan.backfill.forget()
        self._on_checkpoint()
        self._since_checkpoint = 0
        self._checkpoint_at = time.monotonic()

    def _results(self) -> dict[str, Committed]:
        """Say what was committed last to each table."""
        tables = [each for each in self._outlets if isinstance(each, TableOutlet)]
        return {each.name: each.last for each in tables if each.last is not None}

    def _hold(self, positions: Mapping[str, int]) -> None:
        if self._settings.reader is not None:
            self.feeds.hold(self._settings.reader, positions)

    def close(self) -> None:
        """Drop what no checkpoint has: it is computed again."""
        for outlet in self._outlets:
            outlet.close()
        if self._team is not None:
            self._team.close()
        self.share.close()

    def late_counts(self) -> dict[str, int]:
        """Say how many rows came late, by the state that keeps them."""
        since = (each["late"] for each in self._nodes())
        new = {name: count for late in since for name, count in late.items()}
        return {name: self._late.get(name, 0) + count for name, count in new.items()}

    def _nodes(self) -> list[dict[str, Any]]:
        """Say what each operator did, and how long it worked in each worker."""
        workers = [self.share.nodes(), *(self._team.nodes if self._team else ())]
        return [
            {**node, "worker_seconds": [each["seconds"] for each in of_workers]}
            for node, *of_workers in zip(summed(workers), *workers, strict=True)
        ]

    @property
    def running_node(self) -> str | None:
        """Name the operator that works, or that failed: its number and type."""
        failed = None if self._team is None else self._team.failed_node
        return failed or self.graph.running_node

    def status(self) -> dict[str, Any]:
        """Say how far it is: epoch, positions, event time in epoch milliseconds, idle sources, late
        rows, and what each operator did.
        """
        return {
            "epoch": self.next_epoch - 1,
            "sources": self.feeds.changing(self.positions),
            "workers": self.workers,
            "processes": [os.getpid(), *(self._team.processes if self._team else ())],
            "watermarks": {
                name: None if mark is None else mark // 1000
                for name, mark in self.source_watermarks().items()
            },
            "idle": list(self.idle),
            "late": sum(self.late_counts().values()),
            "nodes": self._nodes(),
        }
