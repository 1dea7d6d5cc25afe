"""Prove a result: the same plan, run bounded over the inputs that a snapshot of it names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from pkray.errors import SnapshotNotFoundError, UnsupportedError
from pkray.format.snapshot import Snapshot
from pkray.relational import running
from pkray.relational.continuous.feeds.beginnings import EVERYTHING, Beginning
from pkray.relational.continuous.feeds.feed import NOTHING, Bounds
from pkray.relational.continuous.feeds.feeds import Feeds, scans_of
from pkray.relational.continuous.feeds.table_feed import TableFeed
from pkray.relational.continuous.operator import asks_time_or_chance
from pkray.relational.continuous.outlets.result_history import (
    EPOCH,
    WATERMARKS,
    ResultHistory,
    positions_of,
)
from pkray.relational.continuous.queries.verification.as_of_watermarks import (
    EventTime,
    as_of_watermarks,
)
from pkray.relational.continuous.queries.verification.comparison import differences
from pkray.relational.dialect import Dialect
from pkray.relational.local.catalogue import run
from pkray.relational.plan import nodes as plan_nodes
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.physical import to_logical
from pkray.relational.plan.state import NEVER, state_ttls
from pkray.relational.plan.total_rows import with_total_rows
from pkray.relational.sources.changelog import ROW_KIND, ChangelogSource
from pkray.relational.sources.streamed import StreamedSource
from pkray.relational.sources.table import TableSource
from pkray.relational.spark_engine import spark_engine
from pkray.scan.moment import Moment
from pkray.schema.row_kind import SHORT
from pkray.shown import html_values
from pkray.table.table import Table

_EXPIRES = "state that was idle for its TTL is forgotten"
_NOTHING_READ = "the query has read nothing yet"


@dataclass(frozen=True)
class VerifyReport:
    """Say how a result compares with the bounded run of its query.

    Attributes:
        equal: whether both have the same rows.
        missing: rows of the bounded run that the result lacks; the first of them.
        extra: rows of the result that the bounded run lacks; the first of them.
        excluded: why rows may differ nonetheless: what the exact claim leaves out.
        snapshot: of the result.
        sources: positions of the sources that were read: those that the snapshot names, or later
            ones that the query has read since and that changed nothing.
        missing_rows, extra_rows: how many there are in all.
    """

    equal: bool
    missing: pa.Table
    extra: pa.Table
    excluded: tuple[str, ...]
    snapshot: int | None
    sources: Mapping[str, int]
    missing_rows: int = 0
    extra_rows: int = 0

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        if self.equal:
            return f"equal at snapshot {self.snapshot}, sources {dict(self.sources)}"
        return (
            f"{self.missing_rows} rows missing and {self.extra_rows} extra at snapshot "
            f"{self.snapshot}, sources {dict(self.sources)}"
        )

    def _repr_html_(self) -> str:
        said = {
            "equal": self.equal,
            "missing": self.missing_rows,
            "extra": self.extra_rows,
            "excluded": ", ".join(self.excluded),
            "snapshot": self.snapshot,
            "sources": dict(self.sources),
        }
        return html_values("verification", said)


def _named_before(table: Table, snapshot: Snapshot | None) -> Snapshot | None:
    """Find a snapshot, or the newest one before it, that names sources: others, who name none, are
    not meant to change a result.
    """
    while snapshot is not None and not positions_of(snapshot):
        if snapshot.id == 1:
            return None
        try:
            snapshot = table.at(snapshot_id=snapshot.id - 1).snapshot
        except SnapshotNotFoundError:
            return None
    return snapshot


def _time_of(snapshot: Snapshot | None, times: Times) -> EventTime:
    """Find how far event time was at a snapshot of the result; None: at the newest checkpoint."""
    said = (snapshot.properties or {}) if snapshot is not None else {}
    if EPOCH not in said:
        return times(None, None)
    return times(int(said[EPOCH]), json.loads(said.get(WATERMARKS, "{}")))


@dataclass(frozen=True)
class Place:
    """Say how far a query is.

    Attributes:
        epoch: the last one that has ended; -1: none.
        positions: of the sources.
    """

    epoch: int
    positions: Mapping[str, int]


Times: TypeAlias = Callable[[int | None, Mapping[str, int] | None], EventTime]
"""Gives event time at the end of an epoch with these watermarks; None: at the newest checkpoint."""


def verify(
    roots: Sequence[plan_nodes.Node],
    table: Table,
    snapshot: int | None,
    reached: Place | None,
    engine: str | None = None,
    beginnings: Mapping[str, Beginning] | None = None,
    *,
    times: Times | None = None,
    place: int = 0,
    expires: bool = False,
    skips: bool = False,
    memory: int | None = None,
) -> VerifyReport:
    """Compare a result with the bounded run.

    Args:
        roots: the physical plans of the query.
        snapshot: of the result; default the newest.
        reached: how far the query is, where its newest snapshot is compared: epochs since that
            snapshot changed nothing. None: as the snapshot says.
        engine: ``local`` or ``spark``; default ``local``.
        beginnings: of the sources of which not everything was read first.
        times: says which rows came late and which still wait; None: nothing waits in the plan.
        place: of the plan that goes down to the table.
        expires: whether any state has a TTL.
        skips: whether rows that cannot be computed are left out.
        memory: bytes that the bounded run and the comparison may each hold, about.

    Raises:
        EvaluationError: a row cannot be computed, and none are left out.
        SnapshotNotFoundError: what a source held then has expired.
        UnsupportedError: the snapshot names no sources, or the engine leaves no rows out.
    """
    view = table.at(snapshot_id=snapshot) if snapshot is not None else table.at()
    named = _named_before(table, view.snapshot)
    is_ahead = snapshot is None and reached is not None and _epoch_of(named) <= reached.epoch
    found = dict(reached.positions) if is_ahead and reached else positions_of(named)
    if view.snapshot is not None and not found:
        raise UnsupportedError(
            f"snapshot {view.snapshot.id} of {table.name} was not made by a query: it names no "
            "sources",
            snapshot_id=view.snapshot.id,
        )
    has_begun = view.snapshot is not None or bool(found)
    time = EventTime() if times is None else _time_of(None if is_ahead else named, times)
    root = roots[place] if times is None else as_of_watermarks(roots, time)[place]
    logical = to_logical(root)
    names = logical.target if isinstance(logical, plan_nodes.Sink) else logical.fields.names
    query = logical.input if isinstance(logical, plan_nodes.Sink) else logical
    skipped: list[str] = []
    kept = [name for name in names if name != row_key_name(root)]
    try:
        bounded: Iterator[pa.RecordBatch] = iter(())
        if has_begun:
            pinned = pinned_to(query, found, beginnings or {})
            bounded = _bounded(pinned, engine, memory, skipped if skips else None)
        missing, extra = differences(bounded, view.to_batches(kept), query.fields, memory)
    except SnapshotNotFoundError as error:
        raise _expired(error, table, query, found) from error
    number = view.snapshot.id if view.snapshot else None
    excluded = [*exclusions(to_logical(roots[place])), *_said(skipped), *time.said()]
    excluded += [_EXPIRES] if expires else []
    excluded += [] if has_begun else [_NOTHING_READ]
    return VerifyReport(
        not missing.rows and not extra.rows,
        missing.first,
        extra.first,
        tuple(excluded),
        number,
        found,
        missing.rows,
        extra.rows,
    )


def _epoch_of(snapshot: Snapshot | None) -> int:
    return int((snapshot.properties or {}).get(EPOCH, -1)) if snapshot is not None else -1


def _expired(
    error: SnapshotNotFoundError, table: Table, plan: plan_nodes.Node, positions: Mapping[str, int]
) -> SnapshotNotFoundError:
    """Make the error for inputs that have expired, which says what can still be compared."""
    feeds = Feeds(scans_of([plan])).feeds
    comparable = [
        snapshot.id
        for snapshot in ResultHistory(table).since(0)
        if (named := positions_of(snapshot))
        and all(feeds[name].is_there(at) for name, at in named.items() if name in feeds)
    ]
    shown = ", ".join(map(str, comparable[:5])) or "none"
    return SnapshotNotFoundError(
        f"{table.name} cannot be compared with what its sources held at {dict(positions)}: "
        f"{error.message}; snapshots of {table.name} whose sources are all there: {shown}",
        **{**error.values, "sources": dict(positions), "comparable": tuple(comparable)},
    )


def _said(skipped: Sequence[str]) -> Iterator[str]:
    if skipped:
        yield f"{len(skipped)} rows that cannot be computed were left out, such as: {skipped[0]}"


def row_key_name(root: plan_nodes.Node) -> str | None:
    """Name the column that a plan adds as the key of its result; None where it adds none."""
    keys = (node.name for node in root.walk() if isinstance(node, plan_nodes.RowKey))
    return next(keys, None)


def _bounded(
    plan: plan_nodes.Node, engine: str | None, memory: int | None, skipped: list[str] | None
) -> Iterator[pa.RecordBatch]:
    """Run a plan once.

    Args:
        skipped: takes the errors of rows that are left out; None: such a row is an error.
    """
    if engine == "spark":
        if skipped is not None:
            raise UnsupportedError(
                "Spark leaves out no rows that cannot be computed, as on_error='skip' does: "
                "verify with engine='local'",
                engine=engine,
            )
        yield from spark_engine().plan_to_arrow(plan).to_batches()
    elif skipped is not None:  # as it is: rows are left out where the query leaves them out
        yield from run(plan, memory=memory, skip=lambda row, error: skipped.append(error))
    else:
        yield from running.run(plan, memory=memory)


def pinned_to(
    plan: plan_nodes.Node, positions: Mapping[str, int], beginnings: Mapping[str, Beginning]
) -> plan_nodes.Node:
    """Bind the sources of a plan to positions."""
    names = Feeds(scans_of([plan]))

    def bind(node: plan_nodes.Node) -> plan_nodes.Node:
        if not isinstance(node, plan_nodes.Scan):
            return node
        name = names.name_of(node.source)
        at, after = positions.get(name), beginnings.get(name, EVERYTHING)[0]
        match node.source:
            case TableSource() if after > NOTHING:
                return replace(node, source=_changed_rows(node.source, (after, at or after)))
            case TableSource() if (at or 0) > 0:
                return replace(node, source=node.source.pinned(Moment(at)))
            case ChangelogSource() | StreamedSource() if at is not None:
                return replace(node, source=node.source.up_to(at))
            case TableSource() if at is not None:  # before its first snapshot
                return plan_nodes.Values(node.fields, ())
        return node

    return plan.transform(bind)


def _changed_rows(source: TableSource, bounds: Bounds) -> ChangelogSource:
    """Give the rows of the keys that changed between two positions, as they are at the second."""
    rows = ChangelogSource(source.name, source.fields, source.primary_key, "upsert")
    for changes in TableFeed(source).read(bounds, plan_nodes.Scan(source)):
        kinds = pa.array(SHORT).take(pa.array(changes.kinds))
        rows.epochs.append(pa.Table.from_batches([changes.rows]).append_column(ROW_KIND, kinds))
    return rows


def check_exact(plans: Sequence[plan_nodes.Node], dialect: Dialect, ttl: str) -> None:
    """Check that the claim that both runs are equal leaves nothing out.

    Args:
        plans: logical ones.
        ttl: of state for which no hint says another.

    Raises:
        UnsupportedError: it does; the error says what.
    """
    known = [each for plan in plans for each in exclusions(with_total_rows(plan, dialect))]
    nodes = (node for plan in plans for node in plan.walk())
    if any(each != NEVER for node in nodes for each in state_ttls(node, ttl)):
        known.append(_EXPIRES)
    if known:
        raise UnsupportedError(f"strict: {known[0]}", reasons=tuple(known))


def _source_of(node: plan_nodes.Node) -> plan_nodes.Node:
    """Find what gives the rows of a node that leaves them as they are."""
    while isinstance(
        node,
        plan_nodes.Exchange
        | plan_nodes.Hint
        | plan_nodes.Normalize
        | plan_nodes.Project
        | plan_nodes.WatermarkAssign,
    ):
        node = node.input
    return node


def exclusions(plan: plan_nodes.Node) -> Iterator[str]:
    """List what the claim that both runs are equal leaves out in this plan."""
    for node in plan.walk():
        match node:
            case plan_nodes.Scan() if node.source.begins_late:
                yield node.late_rows()
            case plan_nodes.TemporalJoin(right_time=None):
                yield "a lookup join sees its table as it is when a row comes"
            case plan_nodes.TemporalJoin():
                yield "rows and versions that come late to a temporal join meet what is left"
                if isinstance(scan := _source_of(node.right), plan_nodes.Scan):
                    yield f"a temporal join met versions that {scan.source.name} no longer has"
            case plan_nodes.Project() | plan_nodes.Filter() if asks_time_or_chance(node):
                yield "the time of day, or chance, is asked for when a row comes"
            case plan_nodes.Limit(input=below) if not isinstance(below, plan_nodes.Sort):
                yield "LIMIT without ORDER BY takes rows by arrival"
            case plan_nodes.Deduplicate(order_by=None):
                yield "rows are kept by arrival"
            case plan_nodes.Over() if node.depends_on_arrival():
                yield "rows that are equal in the order of OVER stand by arrival"
            case plan_nodes.TopN():
                yield "ties in the order are broken by arrival"
            case plan_nodes.Aggregate() if any(
                facts(c.function).by_arrival for _, c in node.aggregates
            ):
                yield "an aggregate depends on the order of arrival"
            case plan_nodes.Window(early=early, late_delay=delay) if early or delay:
                yield "results of windows that change come with a delay"
            case plan_nodes.Aggregate() if node.lacks_row():
                yield "an aggregate without GROUP BY has no row over no rows"
