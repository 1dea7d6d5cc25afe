"""Temporal joins by event time: each left row meets the version of its time.

Left rows and versions wait until the watermark passes them, and come in the order of their times.
Of the versions that it has passed, the newest of each key is kept: what comes later meets that one,
or none if it is newer.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batch_of
from pkray.columns.keys import argsort, begins, codes
from pkray.relational.continuous.changes import (
    Changes,
    all_valid,
    concat_rows,
    concatenated,
    named,
    take,
    taken,
)
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.joins.join_output import NEXT, JoinOutput, beside
from pkray.relational.continuous.operators.ordering import Arrivals
from pkray.relational.continuous.operators.windows.event_time import micros
from pkray.relational.continuous.operators.windows.recent import Recent
from pkray.relational.continuous.operators.windows.waiting import Due, DuePages
from pkray.relational.continuous.state.encoding import distinct, encoded
from pkray.relational.continuous.state.state import StateSpec, own_keys
from pkray.relational.local.pairs import Sides, checked_pairs
from pkray.relational.local.temporal import as_of
from pkray.relational.plan.nodes import JoinKind, TemporalJoin
from pkray.schema.row_kind import DELETE, INSERT, UPDATE_BEFORE

MOST_VERSIONS = 1 << 20
"""Versions that left rows are compared with at once."""
TIME, VALID, ARRIVAL = "$time", "$valid", "$arrival"
"""A version's time, and whether it is one, not the end of the one before; when a row arrived."""


@operates(TemporalJoin, when=lambda node: node.right_time is not None)
class TemporalJoins(Operator):
    """Joins left rows with versions as the watermark passes them."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._sides = Sides.of(node)
        self._appends = context.inputs[0].is_append
        arrival = () if self._appends else (pa.field(ARRIVAL, pa.int64()),)
        columns = pa.schema([*self._sides.left.arrow, *arrival])
        self._left = Recent(context, columns, keys=node.left_keys)
        self._versions = Versions(node, self._sides, context)
        if not self._appends:
            self._arrivals = Arrivals(context, node.left.fields, node.left_keys)
            spec = StateSpec(
                self._sides.right.arrow, by_row=True, name="given", exchanged_by=own_keys
            )
            self._given = context.open_state(spec)

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        left, right = inputs
        self._versions.put(right)
        taken_back = self._take(left, epoch)
        if not epoch.ends:
            return taken_back
        made = list(self._joined(epoch.next_watermark, epoch.watermark))
        return concatenated(self.node.fields, [taken_back, *made])

    def _take(self, left: Changes, epoch: Epoch) -> Changes:
        """Keep left rows; give those that are taken back after they came out."""
        if not len(left):
            return Changes.none(self.node.fields)
        times = micros(left.column(self.node.left_time))
        numbers = epoch.arrival + np.arange(len(left))
        if not self._appends:
            effect = self._arrivals.take(left, numbers)
            return self._updated(left, times, effect.added, effect.removed, effect.arrivals)
        calls = pa.array(np.full(len(left), epoch.arrival))
        # several workers number their rows alike, but each has keys of its own
        by = [calls, pa.array(numbers), *left.columns(self.node.left_keys)]
        self._left.put(times, by, left.rows.columns)
        return Changes.none(self.node.fields)

    def _updated(
        self,
        left: Changes,
        times: np.ndarray,
        added: np.ndarray,
        removed: np.ndarray,
        arrivals: np.ndarray,
    ) -> Changes:
        waiting = self._left.settled()
        keys = left.columns(self.node.left_keys)

        def by(numbers: np.ndarray) -> list[pa.Array]:
            return [pa.array(arrivals[numbers]), *taken(keys, numbers)]

        came = [*take(left.rows, added).columns, pa.array(arrivals[added])]
        waiting.put(times[added], by(added), came)
        waits = np.zeros(len(removed), bool)
        waits[waiting.get(times[removed], by(removed)).positions] = True
        waiting.remove(times[removed][waits], by(removed[waits]))
        after = removed[~waits]
        arrived, *of_keys = by(after)
        known = encoded(of_keys, len(after)), encoded([arrived])
        found = self._given.get(*known)
        self._given.remove(*known)
        columns = [*take(left.rows, after[found.positions]).columns, *found.rows.columns]
        rows = batch_of(columns, self.node.fields.arrow, len(found.positions))
        return Changes.of_kind(rows, DELETE)

    def _joined(self, watermark: int | None, before: int | None) -> Iterator[Changes]:
        """Join the left rows that the watermark passes, in the order of their times.

        Args:
            before: where the watermark was.
        """
        coming = DuePages(self._versions.due(watermark))
        for left in self._left.due(watermark):
            versions: list[Due] = []
            count = 0
            for page in coming.up_to(int(left.times[-1])):
                versions.append(page)
                count += len(page.times)
                if count < MOST_VERSIONS:
                    continue
                passed = int(np.searchsorted(left.times, page.times[-1]))
                yield self._met(Due(left.times[:passed], left.rows.slice(0, passed)), versions)
                self._versions.pass_by(versions, before)
                left = Due(left.times[passed:], left.rows.slice(passed))
                versions, count = [], 0
            yield self._met(left, versions)
            self._versions.pass_by(versions, before)
        if watermark is not None:
            for page in coming.up_to(watermark):
                self._versions.pass_by([page], before)

    def _met(self, left: Due, versions: Sequence[Due]) -> Changes:
        """Join left rows with the versions that are passed and those that come with them."""
        if not len(left.times):
            return Changes.none(self.node.fields)
        width = len(self._sides.left)
        rows = batch_of(left.rows.columns[:width], self._sides.left.arrow, len(left.times))
        others, right = self._versions.at(named(rows, self.node.left_keys), left.times, versions)
        tables = pa.Table.from_batches([rows]), pa.Table.from_batches([right])
        found = np.flatnonzero(others >= 0)
        nothing = (found[:0], found[:0])
        pairs = [nothing, *checked_pairs(self._sides, *tables, found, others[found])]
        numbers = np.concatenate([each for each, _ in pairs])
        chosen = np.concatenate([each for _, each in pairs])
        output = JoinOutput(self.node.fields)
        given, kinds = take(right, chosen), np.full(len(left.times), INSERT)
        columns = beside(True, take(rows, numbers), given)
        output.add(columns, kinds[: len(numbers)], numbers, NEXT)
        self._remember(left, numbers, given.columns)
        if self.node.kind is JoinKind.LEFT:
            is_alone = np.ones(len(left.times), bool)
            is_alone[numbers] = False
            alone = np.flatnonzero(is_alone)
            columns = beside(True, take(rows, alone), right.schema)
            output.add(columns, kinds[: len(alone)], alone, NEXT)
            self._remember(left, alone, columns[width:])
        return output.changes()

    def _remember(self, left: Due, numbers: np.ndarray, given: Sequence[pa.Array]) -> None:
        """Keep what left rows met, for when they are taken back."""
        if not self._appends:
            rows = take(left.rows, numbers)
            keys = encoded(named(rows, self.node.left_keys), len(numbers))
            arrivals = rows.column(rows.num_columns - 1)
            self._given.put(keys, given, encoded([arrivals]))


class Versions:
    """The rows of the right side by the times from which they hold.

    A deleted row holds from its time on that there is none. But where each row is a version, one
    that is taken back is none any more: the one before it holds again, as long as it is known.
    """

    def __init__(self, node: TemporalJoin, sides: Sides, context: Context) -> None:
        self._node = node
        self._fields = sides.right.arrow
        self._keys = sides.right_keys
        self._retracts = not node.has_one_version() and not context.inputs[1].is_append
        valid = pa.field(VALID, pa.bool_())
        columns = pa.schema([valid, *self._fields])
        self._waiting = Recent(context, columns, keys=self._keys, index=1)
        columns = pa.schema([pa.field(TIME, pa.int64()), *columns])
        spec = StateSpec(columns, index=1, name="passed", exchanged_by=own_keys)
        self._passed = context.open_state(spec)

    def put(self, changes: Changes) -> None:
        """Keep new versions."""
        if not len(changes):
            return
        usable = (changes.kinds != UPDATE_BEFORE) | self._retracts
        changes = changes.where(
            usable & all_valid(changes.columns(self._node.right_keys), len(changes))
        )
        assert self._node.right_time is not None
        times = micros(changes.column(self._node.right_time))
        if self._retracts:
            valid = pa.array(changes.adds, mask=~changes.adds)
            by = changes.rows.columns
        else:
            valid, by = pa.array(changes.adds), changes.columns(self._node.right_keys)
        self._waiting.put(times, by, [valid, *changes.rows.columns])

    def due(self, watermark: int | None) -> Iterator[Due]:
        """Give the versions that the watermark passes, in the order of their times."""
        return self._waiting.due(watermark)

    def at(
        self, columns: Sequence[pa.Array], times: np.ndarray, coming: Sequence[Due]
    ) -> tuple[np.ndarray, pa.RecordBatch]:
        """Find the versions of keys at times.

        Args:
            columns: the keys.
            coming: versions that were not passed before.

        Returns:
            for each key and time the number of a row, -1 where there is none; and the rows.
        """
        known = all_valid(columns, len(times))
        wanted, mine = distinct(encoded(columns, len(times)))
        used = np.unique(mine[known])
        found = self._passed.get(wanted.take(used))
        parts = [found.rows.select(found.rows.schema.names[1:]), *(page.rows for page in coming)]
        rows = concat_rows(parts[0].schema, parts)
        theirs = np.concatenate([np.asarray(found.column(TIME)), *(page.times for page in coming)])
        of_coming = [self._numbers(page.rows, wanted) for page in coming]
        groups = np.concatenate([used[found.positions], *of_coming])
        groups = np.where(_stand(rows), groups, -1)
        others = as_of((mine, times), (groups, theirs), groups >= 0)
        valid = np.append(np.asarray(pc.fill_null(rows.column(0), False)), False)  # -1 finds none
        right = batch_of(rows.columns[1:], self._fields, rows.num_rows)
        return np.where(known & valid[others], others, -1), right

    def _numbers(self, rows: pa.RecordBatch, keys: pa.Array) -> np.ndarray:
        """Number the keys of rows as they stand among some; -1: not there."""
        found = pc.index_in(encoded(named(rows, self._keys), rows.num_rows), value_set=keys)
        return np.asarray(pc.fill_null(found, -1)).astype(np.int64)

    def pass_by(self, coming: Sequence[Due], before: int | None) -> None:
        """Keep the newest of versions that are passed, a key; of those of one time the last.

        Args:
            before: where the watermark was: what it had passed may be older than what is kept.
        """
        if not coming:
            return
        rows = concat_rows(coming[0].rows.schema, [page.rows for page in coming])
        times = np.concatenate([page.times for page in coming])
        if rows.column(0).null_count:
            self._retract(rows)
            standing = np.flatnonzero(_stand(rows))
            rows, times = take(rows, standing), times[standing]
            if not len(times):
                return
        keys, of_row = distinct(encoded(named(rows, self._keys), len(times)))
        order = argsort([of_row], len(times))
        last = order[np.append(begins([of_row[order]], len(order))[1:], True)]
        if before is not None and times[last].min() <= before:
            found = self._passed.get(keys)
            held = np.full(len(last), np.iinfo(np.int64).min)
            held[found.positions] = np.asarray(found.column(TIME))
            last = last[times[last] >= held]
        chosen = take(rows, last)
        self._passed.put(keys.take(of_row[last]), [pa.array(times[last]), *chosen.columns])

    def _retract(self, rows: pa.RecordBatch) -> None:
        """Forget passed versions that are taken back."""
        gone = take(rows, np.flatnonzero(np.asarray(rows.column(0).is_null())))
        keys = encoded(named(gone, self._keys), gone.num_rows)
        found = self._passed.get(keys)
        kept = encoded(found.rows.columns[2:], len(found.positions))
        same = pc.equal(kept, encoded(gone.columns[1:], gone.num_rows).take(found.positions))
        self._passed.remove(keys.take(found.positions).filter(same))


def _stand(rows: pa.RecordBatch) -> np.ndarray:
    """Tell which versions are there: of equal ones the last counts, if it is not taken back."""
    valid = rows.column(0)
    if not valid.null_count:
        return np.ones(rows.num_rows, bool)
    groups = codes(rows.columns[1:], rows.num_rows).of_row
    order = np.argsort(groups, kind="stable")
    last = np.zeros(rows.num_rows, bool)
    last[order[np.append(begins([groups[order]], len(order))[1:], True)]] = True
    return last & np.asarray(valid.is_valid())
