"""Rows by their number in an order: top-n, ORDER BY … LIMIT, LIMIT, deduplication by a column.

What is kept is ordered: (partition, order and arrival) ▶ row. Where rows are only added, as many
are kept a partition as come out; else all are, and beside them, for each row, when it arrived, so
that a retraction finds its row. Before each epoch the first rows of the partitions that change are
read, and those after it are worked out from them and from the changes; where retractions leave a
hole, the first rows are read again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batch_of
from pkray.columns.keys import argsort, codes, ranks
from pkray.relational.continuous.changes import (
    Changes,
    concat_rows,
    concatenated,
    netted,
    take,
    taken,
    updates,
)
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators import ordering
from pkray.relational.continuous.state.encoding import distinct, encoded
from pkray.relational.continuous.state.state import Found, StateSpec
from pkray.relational.plan.changelog_modes import change_kinds
from pkray.relational.plan.expressions import ColumnRef, SortKey
from pkray.relational.plan.keys import best_key, upsert_keys
from pkray.relational.plan.node import INSERT as INSERT_ALONE
from pkray.relational.plan.nodes import Aggregate, Deduplicate, Limit, Node, Project, Sort, TopN
from pkray.schema.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE


@dataclass(frozen=True)
class Ranking:
    """Selects the rows that come out by their number in the order.

    Attributes:
        start, end: numbers in the order, from 1, of the first and the last.
        newest_first: of rows that are equal in order the newest comes first, not the oldest.
        by_number: changes are told number by number: the row of each before and after; else rows
            leave and enter. So is the only row of a partition, which one takes from the other.
    """

    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    start: int
    end: int
    newest_first: bool = False
    by_number: bool = False


def ranking(node: TopN | Deduplicate | Limit) -> Ranking:
    """Read a node as a ranking."""
    match node:
        case TopN():
            start, end = max(node.start, 1), node.end
            by_number = node.rank_name is not None or start > 1 or end == 1
            return Ranking(node.partition_by, node.order_by, start, end, by_number=by_number)
        case Deduplicate():
            return _deduplicated(node)
        case Limit():
            order = node.input.order_by if isinstance(node.input, Sort) else ()
            end = node.offset + (node.count or 0)
            by_number = node.offset > 0 or end == 1
            return Ranking((), order, node.offset + 1, end, by_number=by_number)


def _deduplicated(node: Deduplicate) -> Ranking:
    if node.order_by is None:
        return Ranking(node.keys, (), 1, 1, not node.keep_first, by_number=True)
    order = SortKey(node.order_by, not node.keep_first, nulls_first=node.keep_first)
    return Ranking(node.keys, (order,), 1, 1, not node.keep_first, by_number=True)


class _Heads(NamedTuple):
    """Rows of the partitions that change, and where they stand among the first ones.

    Attributes:
        rows: of the input's columns.
        partitions: int64, the number of each row's partition.
        before, after: int64, each row's number in the order, from 1; 0: not among the first.
    """

    rows: pa.RecordBatch
    partitions: np.ndarray
    before: np.ndarray
    after: np.ndarray


def waits_for_first(node: TopN | Deduplicate) -> bool:
    """Whether rows that are only added come out when they are the first by event time."""
    by = node.order_by if isinstance(node, Deduplicate) and node.keep_first else None
    waits = by is not None and node.input.fields[by].is_rowtime and not node.is_windowed()
    return waits and change_kinds(node.input) == INSERT_ALONE


def _needs_watermarks(node: TopN | Deduplicate) -> bool:
    """Whether rows come out when the watermark passes them: those of windows, and the first by
    event time."""
    return node.is_windowed() or waits_for_first(node)


@operates(TopN, Deduplicate, when=lambda node: not _needs_watermarks(node))
class Ranked(Operator):
    """Keeps the rows of each partition whose number in an order is from one to another."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._ranking = ranking(node)
        self._schema = node.input.fields.arrow
        self._appends = context.inputs[0].is_append
        self._keeps_one = self._appends and self._ranking.end == 1
        self._rows = context.open_state(StateSpec(self._schema, by_row=not self._keeps_one))
        keys = self._ranking.partition_by
        self._arrivals = ordering.Arrivals(context, node.input.fields, keys)
        self._key = _risen_by(node) if isinstance(node, TopN) else ()

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        told = self.taken(inputs[0], epoch)[1]
        moves = self.context.feeds_state and self.node.moves_rows()
        return ordering.retractions_first(told) if moves else told

    def taken(self, changes: Changes, epoch: Epoch) -> tuple[Changes, Changes]:
        """Take changes; give those that find their rows, and what changes of the rows that come
        out."""
        if not len(changes) or self._ranking.end < self._ranking.start:
            return changes, Changes.none(self.node.fields)
        effect = self._arrivals.take(changes, epoch.arrival + np.arange(len(changes)))
        told = self._told(self._heads(changes, effect))
        if self._appends:
            return changes, told
        found = changes.take(np.sort(np.concatenate([effect.added, effect.removed])))
        # Number by number a row may enter before it leaves, which no key of the row tells apart.
        tells_all = self._ranking.by_number and not self.context.feeds_state
        has_number = getattr(self.node, "rank_name", None) is not None
        return found, told if tells_all or has_number else netted(told, None)

    def _heads(self, changes: Changes, effect: ordering.Effect) -> _Heads:
        """Bring the state to what it is after the changes."""
        ranking = self._ranking
        keys = encoded(changes.columns(ranking.partition_by), len(changes))
        named, partitions = distinct(keys)
        if self._keeps_one:
            return self._replaced(changes, named, partitions)
        before = self._rows.rows_of(named, first=ranking.end)
        row_keys = ordering.order_keys(
            changes, ranking.order_by, effect.arrivals, newest_first=ranking.newest_first
        )
        if self._appends:
            return self._appended(changes, named, partitions, before, row_keys)
        new, old = effect.added, effect.removed
        added, added_keys, removed_keys = changes.take(new), row_keys.take(new), row_keys.take(old)
        self._rows.put(keys.take(new), added.rows.columns, added_keys)
        self._rows.remove(keys.take(old), removed_keys)
        gone = np.asarray(pc.is_in(before.row_keys, removed_keys))
        numbers, sizes = ordering.numbers_within(before.positions)
        holes = np.unique(before.positions[gone & (sizes == ranking.end)])
        more = self._more(named, holes, pa.concat_arrays([before.row_keys, added_keys]))
        count = len(more[1]) + len(new)
        return self._ordered(
            [(before.rows, before.positions), more, (added.rows, partitions[new])],
            np.concatenate([numbers + 1, np.zeros(count, np.int64)]),
            np.concatenate([~gone, np.ones(count, bool)]),
        )

    def _replaced(self, changes: Changes, keys: pa.Array, partitions: np.ndarray) -> _Heads:
        """Add rows of which each partition keeps one, in the place of the one that it has."""
        before = self._rows.get(keys)
        heads = self._with_new(changes, partitions, before)
        new = np.flatnonzero(heads.after[len(before.positions) :])
        rows = changes if len(new) == len(changes) else changes.take(new)
        self._rows.put(keys.take(partitions[new]), rows.rows.columns)
        return heads

    def _with_new(self, changes: Changes, partitions: np.ndarray, before: Found) -> _Heads:
        """Number rows that are there, and those that are added, in the order."""
        numbers, _ = ordering.numbers_within(before.positions)
        return self._ordered(
            [(before.rows, before.positions), (changes.rows, partitions)],
            np.concatenate([numbers + 1, np.zeros(len(changes), np.int64)]),
            np.ones(len(numbers) + len(changes), bool),
        )

    def _appended(
        self,
        changes: Changes,
        keys: pa.Array,
        partitions: np.ndarray,
        before: Found,
        row_keys: pa.Array,
    ) -> _Heads:
        """Add rows, and remove those that are displaced."""
        old = len(before.positions)
        heads = self._with_new(changes, partitions, before)
        new = np.flatnonzero(heads.after[old:])
        rows = changes.take(new).rows
        self._rows.put(keys.take(partitions[new]), rows.columns, row_keys.take(new))
        gone = np.flatnonzero(heads.after[:old] == 0)
        self._rows.remove(keys.take(before.positions[gone]), before.row_keys.take(gone))
        return heads

    def _more(
        self, keys: pa.Array, holes: np.ndarray, known: pa.Array
    ) -> tuple[pa.RecordBatch, np.ndarray]:
        """Read the rows that come up where others left: those whose row keys are not known."""
        if not len(holes):
            return concat_rows(self._schema, []), holes
        found = self._rows.rows_of(keys.take(holes), first=self._ranking.end)
        new = np.flatnonzero(~np.asarray(pc.is_in(found.row_keys, known)))
        return take(found.rows, new), holes[found.positions[new]]

    def _ordered(
        self,
        layers: Sequence[tuple[pa.RecordBatch, np.ndarray]],
        before: np.ndarray,
        alive: np.ndarray,
    ) -> _Heads:
        """Number rows in the order.

        Args:
            layers: rows and the numbers of their partitions; of rows that are equal in order those
                of earlier layers arrived first, but within the first two stand as they come out.
            alive: whether each row is there after the changes.
        """
        rows = concat_rows(self._schema, [each for each, _ in layers])
        partitions = np.concatenate([each for _, each in layers])
        there = np.flatnonzero(alive)
        if self._ranking.newest_first:
            added = len(partitions) - len(layers[-1][1])
            there = np.concatenate([there[there >= added][::-1], there[there < added]])
        chosen = take(rows, there)
        order = [
            rank
            for key in self._ranking.order_by
            for rank in ranks(chosen.column(self._schema.get_field_index(key.column)), key)
        ]
        sequence = argsort([partitions[there], *order], len(there))
        numbers, _ = ordering.numbers_within(partitions[there][sequence])
        after = np.zeros(len(partitions), np.int64)
        after[there[sequence]] = np.where(numbers < self._ranking.end, numbers + 1, 0)
        return _Heads(rows, partitions, before, after)

    def _told(self, heads: _Heads) -> Changes:
        start = self._ranking.start
        kept = np.flatnonzero((heads.before >= start) | (heads.after >= start))
        before, after = heads.before[kept], heads.after[kept]
        heads = _Heads(
            take(heads.rows, kept),
            heads.partitions[kept],
            np.where(before >= start, before, 0),
            np.where(after >= start, after, 0),
        )
        return self._by_number(heads) if self._ranking.by_number else self._by_row(heads)

    def _by_row(self, heads: _Heads) -> Changes:
        """Tell the rows that leave, then those that enter, partition by partition."""
        left = np.flatnonzero((heads.before > 0) & (heads.after == 0))
        entered = np.flatnonzero((heads.after > 0) & (heads.before == 0))
        rows = np.concatenate([left, entered])
        enters = np.repeat([0, 1], [len(left), len(entered)])
        numbers = np.maximum(heads.before, heads.after)[rows]
        order = np.lexsort((numbers, enters, heads.partitions[rows]))
        kinds = np.where(enters[order], INSERT, DELETE).astype(np.int8)
        told = self._made(heads.rows, rows[order], kinds, numbers[order])
        return updates(told, self._key) if self._key else told

    def _by_number(self, heads: _Heads) -> Changes:
        """Tell the rows that had a number and those that have it now, number by number."""
        old, new = np.flatnonzero(heads.before), np.flatnonzero(heads.after)
        width = self._ranking.end + 1
        places, of_row = np.unique(
            np.concatenate(
                [
                    heads.partitions[old] * width + heads.before[old],
                    heads.partitions[new] * width + heads.after[new],
                ]
            ),
            return_inverse=True,
        )
        had, has = np.full(len(places), -1), np.full(len(places), -1)
        had[of_row[: len(old)]] = old
        has[of_row[len(old) :]] = new
        both = (had >= 0) & (has >= 0)
        same = had == has
        moved = np.flatnonzero(both & ~same)
        if len(moved):
            whole = codes(heads.rows.columns, len(heads.partitions)).of_row
            same[moved] = whole[had[moved]] == whole[has[moved]]
        changed = np.flatnonzero(~same)
        had, has, both = had[changed], has[changed], both[changed]
        numbers = np.repeat(places[changed] % width, 2)
        rows = np.stack([had, has], axis=1).reshape(-1)
        retracts = np.where(both, UPDATE_BEFORE, DELETE)
        adds = np.where(both, UPDATE_AFTER, INSERT)
        kinds = np.stack([retracts, adds], axis=1).reshape(-1).astype(np.int8)
        there = rows >= 0
        if not self.context.mode.before:
            there &= kinds != UPDATE_BEFORE
        return self._made(heads.rows, rows[there], kinds[there], numbers[there])

    def _made(
        self, rows: pa.RecordBatch, chosen: np.ndarray, kinds: np.ndarray, numbers: np.ndarray
    ) -> Changes:
        columns = taken(rows.columns, chosen)
        if getattr(self.node, "rank_name", None):
            columns.append(pa.array(numbers))
        return Changes(batch_of(columns, self.node.fields.arrow, len(kinds)), kinds)


def _risen_by(node: TopN) -> tuple[str, ...]:
    """Name the key of rows that only rise in the order as they are updated, so that a row that is
    among the first stays there; empty if they may fall, or have no key."""
    keys = [key for key in upsert_keys(node.input) if key >= set(node.partition_by)]
    if change_kinds(node.input) != {"I", "U"} or len(node.order_by) != 1 or not keys:
        return ()
    (order,) = node.order_by
    rising = {"count": True, "max": True, "min": False}
    if rising.get(_aggregate(node.input, order.column)) != order.descending:
        return ()
    return best_key(node.input, frozenset(keys)) or ()


def _aggregate(node: Node, column: str) -> str:
    """Name the aggregate function that a column is computed by; empty if it is by none."""
    while len(node.inputs) == 1 and column in node.fields:
        if isinstance(node, Aggregate):
            call = dict(node.aggregates).get(column)
            return call.function if call else ""
        if isinstance(node, Project):
            value = dict(node.columns)[column]
            if not isinstance(value, ColumnRef):
                return ""
            column = value.name
        (node,) = node.inputs
    return ""


@operates(Limit)
class Limited(Operator):
    """Keeps rows by their number in the order of the Sort below, or else of arrival."""

    def __init__(self, node: Limit, context: Context) -> None:
        super().__init__(node, context)
        self._hides = node.count is None and node.offset > 0
        ranked = Limit(node.input, node.offset) if self._hides else node  # what the offset hides
        passes = node.count is None and not node.offset
        self._ranked = None if passes else Ranked(ranked, context)

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        if self._ranked is None:
            return inputs[0]
        found, told = self._ranked.taken(inputs[0], epoch)
        if not self._hides:
            return told
        return netted(concatenated(self.node.fields, [found, _inverse(told)]), None)


def _inverse(changes: Changes) -> Changes:
    """Add what is retracted, and retract what is added."""
    return Changes(changes.rows, np.where(changes.adds, DELETE, INSERT).astype(np.int8))
