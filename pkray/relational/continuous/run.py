"""Run a plan epoch by epoch: read, compute, give the result, and remember how far it came."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pkray.errors import QueryFencedError
from pkray.relational.continuous.changes import Changes, concatenated, netted
from pkray.relational.continuous.feeds.beginnings import Beginning
from pkray.relational.continuous.feeds.feeds import NOTHING, Feeds
from pkray.relational.continuous.feeds.source_rows import SourceRows
from pkray.relational.continuous.feeds.table_rows import TableRows
from pkray.relational.continuous.graph import Graph
from pkray.relational.continuous.operator import Epoch
from pkray.relational.continuous.outlets.outlets import Outlet
from pkray.relational.continuous.queries.log import Checkpoint, EpochRecord, QueryLog
from pkray.relational.continuous.state.states import States
from pkray.relational.plan.keys import best_key, upsert_keys
from pkray.relational.plan.nodes import Node
from pkray.relational.sources.source import Source
from pkray.relational.sources.table import TableSource

_ARRIVALS = 1 << 32
"""Rows of an epoch that arrival numbers tell apart."""


@dataclass(frozen=True)
class RunnablePlan:
    """A physical plan, ready to run.

    Attributes:
        roots: one an outlet.
        before: of each root, whether its outlet needs the rows before updates.
        ttl: of state for which neither hint nor plan says another.
        ttls: as the compiled plan says them, by a node's number.
        digest: tells plans apart.
        beginnings: of the sources of which not everything is read first; None: as it is now.
    """

    roots: tuple[Node, ...]
    before: tuple[bool, ...]
    ttl: str = "0 ms"
    ttls: Mapping[int, Sequence[str]] | None = None
    digest: str = ""
    beginnings: Mapping[str, Beginning] | None = None


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
    """

    checkpoint_epochs: int = 100
    checkpoint_seconds: float = 30.0
    clock: Callable[[], int] = field(default=lambda: time.time_ns() // 1_000_000)
    reader: str | None = None
    skips: bool = False
    max_rows: int | None = None
    is_interrupted: Callable[[], bool] = field(default=lambda: False)


class Interrupted(Exception):
    """Ends a run in the middle of an epoch, which is run again under the same bounds."""


class Run:
    """One run of a query, from its newest checkpoint on. For one thread.

    Args:
        log: where epochs and checkpoints are written down.
        states: opens the states.
    """

    def __init__(
        self,
        plan: RunnablePlan,
        outlets: Sequence[Outlet],
        log: QueryLog,
        states: States,
        settings: RunSettings,
    ) -> None:
        self.plan = plan
        self._outlets = outlets
        self._log = log
        self._states = states
        self._settings = settings
        found = log.take_over()
        states.begin(found.files if found else {}, found.folders if found else {})
        self._rows: dict[TableSource, TableRows] = {}
        self.graph = Graph(
            plan.roots, plan.before, states.open, plan.ttl, plan.ttls, self._rows_of, settings.skips
        )
        self.feeds = Feeds(self.graph.scans, settings.max_rows)
        if found is None:
            self.feeds.begin(plan.beginnings)
        self.positions: dict[str, int] = dict(found.positions) if found else {}
        self.graph.go_on_at(found.watermarks if found else {})
        self.next_epoch = found.epoch + 1 if found else 0
        self._since_checkpoint = 0
        self._checkpoint_at = time.monotonic()
        self._net_keys = [_net_key(root) for root in plan.roots]
        self._pending = log.epochs_from(self.next_epoch)
        self.is_ended = bool(found and found.is_last)

    def _rows_of(self, source: Source) -> SourceRows | None:
        """Give the rows of a keyed table by key, as of the epoch that runs."""
        if not isinstance(source, TableSource):
            return None
        return self._rows.setdefault(source, TableRows(source))

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
        new = self.feeds.next(self.positions) or {}
        bounds = {}
        for name in self.feeds.feeds:
            at = self.positions.get(name, NOTHING)
            after, newest = new.get(name, (at, at))
            bounds[name] = (after, positions.get(name, newest))
        if any(until > after for after, until in bounds.values()) or not self.positions:
            self._hold_first(bounds)
            self._run(self._log.begin(EpochRecord(self.next_epoch, bounds, self._settings.clock())))

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
        last = EpochRecord(
            self.next_epoch, same, self._settings.clock(), self.is_ended, upgrade=upgrade
        )
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
        bounds = self.feeds.next(self.positions)
        is_last = bounds is None and self.feeds.is_finished and bool(self.positions)
        if bounds is None and not is_last:
            return None
        same = {name: (at, at) for name, at in self.positions.items()}
        record = EpochRecord(
            self.next_epoch,
            bounds or same,
            self._settings.clock(),
            is_last,
        )
        self._hold_first(record.bounds)
        return self._log.begin(record)

    def _hold_first(self, bounds: Mapping[str, tuple[int, int]]) -> None:
        if not self.positions:
            self._hold({name: at[0] if at[0] > NOTHING else at[1] for name, at in bounds.items()})

    def _run(self, record: EpochRecord) -> None:
        arrival = record.number * _ARRIVALS
        for source, rows in self._rows.items():
            rows.move(record.bounds[self.feeds.name_of(source)])
        collected: list[list[Changes]] = [[] for _ in self._outlets]
        count = 0
        for changes in self.feeds.read(record.bounds):
            if self._settings.is_interrupted():
                raise Interrupted
            part = Epoch(record.number, record.time, arrival + count)
            self._take(self.graph.run(changes, part), collected, part)
            self._states.fit()
            count += max(map(len, changes.values()), default=0)
        epoch = Epoch(record.number, record.time, arrival + count)
        self._take(self.graph.advance(epoch, is_last=record.is_last), collected, epoch)
        self.positions = {name: bounds[1] for name, bounds in record.bounds.items()}
        for place, outlet in enumerate(self._outlets):
            self._give(place, collected[place], epoch)
            outlet.commit(epoch, self.positions)
        self.next_epoch = record.number + 1
        self.is_ended = record.is_last
        self._since_checkpoint += 1
        self._states.fit()

    def _take(self, made: Sequence[Changes], collected: list[list[Changes]], epoch: Epoch) -> None:
        for place, changes in enumerate(made):
            if len(changes) and self._outlets[place].takes_parts:
                self._give(place, [changes], epoch)
            elif len(changes):
                collected[place].append(changes)

    def _give(self, place: int, parts: Sequence[Changes], epoch: Epoch) -> None:
        fields = self.plan.roots[place].fields
        net = netted(concatenated(fields, parts), self._net_keys[place])
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
        self._log.write_checkpoint(
            Checkpoint(
                self.next_epoch - 1,
                self.positions,
                self.graph.watermarks(),
                self.plan.digest,
                self._states.checkpoint(),
                self.is_ended,
                folders=self._states.folders,
            )
        )
        self._hold(self.positions)
        self.feeds.forget(lambda: self._log.oldest(self.positions))
        self._since_checkpoint = 0
        self._checkpoint_at = time.monotonic()

    def _hold(self, positions: Mapping[str, int]) -> None:
        if self._settings.reader is not None:
            self.feeds.hold(self._settings.reader, positions)

    def close(self) -> None:
        """Drop what no checkpoint has: it is computed again."""
        for outlet in self._outlets:
            outlet.close()
        self._states.close()

    @property
    def running_node(self) -> str | None:
        """Name the operator that works, or that failed: its number and type."""
        stage = self.graph.running
        return None if stage is None else f"{stage.number} {type(stage.node).__name__}"

    def status(self) -> dict[str, Any]:
        """Say how far it is: epoch, positions, and what each operator did."""
        return {
            "epoch": self.next_epoch - 1,
            "sources": dict(self.positions),
            "nodes": [
                {
                    "id": stage.number,
                    "type": type(stage.node).__name__,
                    "rows_in": stage.rows_in,
                    "rows_out": stage.rows_out,
                    "seconds": round(stage.seconds, 6),
                    "state_bytes": {
                        name: state.memory_bytes for name, state in stage.states.items()
                    },
                    "state_rows": {name: state.rows for name, state in stage.states.items()},
                    "state_file_bytes": {
                        name: state.file_bytes for name, state in stage.states.items()
                    },
                }
                for stage in self.graph.stages
            ],
        }


def _net_key(root: Node) -> tuple[str, ...] | None:
    """Choose the key by which the changes of a root are netted."""
    return best_key(root, upsert_keys(root))
