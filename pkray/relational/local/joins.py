"""Joins: the left side's rows stream past the right side, which is held if it fits.

The right side's rows are indexed by their keys (`key_index`, or `dense` where each has one row).
Left rows find their pairs as ranges of it, and pairs come out in pieces, as numbers of rows: of
few keys there may be as many as the product of both sides. Those for which the condition is true
are kept, and the kind decides what comes out: the pairs, also the rows without one, or only whether
a row has one. Without keys the pairs are all, in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns import batches
from pkray.columns.dense import DenseIndex
from pkray.errors import EvaluationError
from pkray.relational.cancellation import checkpoint
from pkray.relational.local.engine import Engine, operator
from pkray.relational.local.key_index import KeyIndex
from pkray.relational.local.memory import Memory, can_divide, drained
from pkray.relational.local.pairs import (
    BLOCK_ROWS,
    JOINED_BYTES,
    Pairs,
    Ranges,
    Sides,
    checked_pairs,
    index_of,
    keyed_pairs,
    most_pairs,
    pairs_of,
    ranges_of,
)
from pkray.relational.local.sizes import rows_about
from pkray.relational.local.threads import ahead
from pkray.relational.plan.expressions import TRUE
from pkray.relational.plan.nodes import Join, JoinKind
from pkray.rows.python_values import row_text
from pkray.storage.spill import SpilledBatches

PROBE_ROWS = 1 << 20
"""Rows of the left side that are joined at once, unless the right side is large."""

INDEXED_ROWS = 1 << 18
"""Rows of the left side that are looked up at once in an index of the right side."""

MOSTLY = 0.75
"""Share of the rows that one part has if dividing does not help: they have one key."""

Joined: TypeAlias = tuple[pa.Table, np.ndarray]


@operator(Join)
def join(node: Join, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Pair rows; the side that is held is the right one, or the smaller one where either can be."""
    sides, inputs, kind = Sides.of(node), (node.left, node.right), node.kind
    turned = kind is JoinKind.RIGHT or (kind is JoinKind.INNER and _smaller_left(node))
    if turned:
        sides, inputs = sides.turned(), inputs[::-1]
        kind = JoinKind.LEFT if kind is JoinKind.RIGHT else kind
    pairing = Pairing(sides, kind, node.null_aware, engine.memory)
    width, schema = len(sides.left), node.fields.arrow
    left = (batches.with_schema(batch, sides.left.arrow) for batch in engine.batches(inputs[0]))
    right = (batches.with_schema(batch, sides.right.arrow) for batch in engine.batches(inputs[1]))
    for table in pairing.run(left, right):
        columns = table.columns
        if turned:
            columns = columns[width:] + columns[:width]
        if len(columns) > len(schema):
            columns = columns[: len(schema)]
        made = pa.Table.from_arrays(columns, names=schema.names) if columns else table
        yield from batches.batches_of(batches.with_schema(made, schema), engine.batch_rows)


def _smaller_left(node: Join) -> bool:
    left, right = rows_about(node.left), rows_about(node.right)
    return left is not None and right is not None and left < right


@dataclass(frozen=True)
class Pairing:
    """A join of two streams of batches."""

    sides: Sides
    kind: JoinKind
    null_aware: bool
    memory: Memory

    def run(
        self, left: Iterator[pa.RecordBatch], right: Iterator[pa.RecordBatch], level: int = 0
    ) -> Iterator[pa.Table]:
        """Join with the right side as a whole if it can be held, otherwise part by part.

        Both sides are divided by their keys. Where that does not help, since most rows have one key
        or the keys do not say what is a pair, the right side is read again for pieces of the left.
        """
        held, more = self.memory.first(right)
        if not more:
            table = batches.table_of(held, self.sides.right.arrow)
            joining = Joining.of(
                self.sides,
                self.kind,
                batches.in_one_piece(table),
                self.null_aware,
                self.memory.piece,
            )
            yield from joining.run(left)
            return
        rights = chain(drained(held), right)
        keys = () if self.null_aware else self.sides.right_keys  # a NULL is compared with all rows
        if not can_divide(keys, level):
            yield from self._by_blocks(left, self.memory.set_aside(rights))
            return
        ours = self.memory.divided(rights, keys, level)
        theirs = self.memory.divided(left, self.sides.left_keys, level)
        total = sum(part.rows for part in ours)
        for part, others in zip(theirs, ours, strict=True):
            if not part.rows and self.kind is not JoinKind.FULL:
                others.close()
            elif others.rows > MOSTLY * total and others.nbytes > self.memory.share:
                yield from self._by_blocks(part.read(), others)
            else:
                yield from self.run(part.read(), others.read(), level + 1)

    def _by_blocks(
        self, left: Iterator[pa.RecordBatch], right: SpilledBatches
    ) -> Iterator[pa.Table]:
        """Join pieces of the left side with blocks of the right, which is read for each of them."""
        matched = np.zeros(right.rows if self.kind is JoinKind.FULL else 0, bool)
        for piece in batches.parts(left, None, 2 * self.memory.piece):
            met = Met(self.sides, self.kind, self.null_aware, batches.in_one_piece(piece))
            place = 0
            for table in batches.parts(right.read_again(), None, 2 * self.memory.piece):
                block = batches.in_one_piece(table)
                for rows, others in met.pairs(block):
                    if len(matched):
                        matched[place + others] = True
                    if self.kind.keeps_right:
                        yield completed(JoinKind.INNER, met.left, block, [(rows, others)])
                place += block.num_rows
            yield met.rest()
        place = 0
        for batch in right.read() if self.kind is JoinKind.FULL else ():
            unpaired = ~matched[place : place + batch.num_rows]
            yield alone(self.sides, pa.Table.from_batches([batch]).filter(pa.array(unpaired)))
            place += batch.num_rows
        right.close()


@dataclass(frozen=True)
class Joining:
    """A join whose right side is there as a whole.

    Attributes:
        dense: the right rows by their key, where a left row pairs with one at most, or it does not
            matter with how many.
        most: bytes of the left side that are joined at once, and of pairs that come out, about.
    """

    sides: Sides
    kind: JoinKind
    right: pa.Table
    null_aware: bool
    dense: DenseIndex | None
    most: int

    @staticmethod
    def of(
        sides: Sides, kind: JoinKind, right: pa.Table, null_aware: bool, most: int = JOINED_BYTES
    ) -> Joining:
        """Join with a right side; index its rows by their key if that serves the join."""
        dense = None
        if len(sides.left_keys) == 1 and not null_aware and not any(sides.null_safe):
            dense = DenseIndex.of(right[sides.right_keys[0]])
        which = kind in (JoinKind.SEMI, JoinKind.ANTI, JoinKind.MARK) and sides.condition == TRUE
        if dense is not None and not (dense.unique or which):
            dense = None
        return Joining(sides, kind, right, null_aware, dense, most)

    def run(self, left: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Join the left side's batches; MARK adds its column, FULL gives the right rows last."""
        matched = np.zeros(self.right.num_rows if self.kind is JoinKind.FULL else 0, bool)
        if self.sides.left_keys and self.dense is None:
            _ = self.index  # once, before threads ask for it
        tables = _cut(left, self._rows_at_once(), self.most)
        for first, rest in ahead(self._begun, tables):
            for table, others in chain(() if first is None else (first,), rest):
                if len(matched):
                    matched[others] = True
                if table.num_rows:
                    yield table
        if len(matched):
            yield alone(self.sides, batches.gathered(self.right, np.flatnonzero(~matched)))

    def _begun(self, left: pa.Table) -> tuple[Joined | None, Iterator[Joined]]:
        """Join some rows of the left side: the first piece now, the rest as it is asked for."""
        made = self._pieces(left)
        return next(made, None), made

    def _rows_at_once(self) -> int:
        """Say how many left rows are joined at once."""
        rows = self.right.num_rows
        if self.dense is not None:
            return INDEXED_ROWS
        if self.sides.left_keys:
            return max(PROBE_ROWS, 8 * rows)
        return max(BLOCK_ROWS // max(rows, 1), 1)

    def _pieces(self, left: pa.Table) -> Iterator[Joined]:
        """Give the joined rows, and beside them numbers of the right rows that have pairs."""
        kind, none = self.kind, np.zeros(0, np.int64)
        if self.null_aware and kind in (JoinKind.ANTI, JoinKind.MARK):
            yield self._compared_as_in(left), none
            return
        if self.dense is not None:
            found = self.dense.rows(left[self.sides.left_keys[0]])
            rows = np.flatnonzero(found >= 0)
            pairs = checked_pairs(self.sides, left, self.right, rows, found[rows])
            others = np.concatenate([none, *(pair[1] for pair in pairs)])
            yield completed(_of_left(kind), left, self.right, pairs), others
            return
        met = Met(self.sides, kind, self.null_aware, left)
        if not kind.keeps_right and self.sides.left_keys and self.sides.condition == TRUE:
            met.found += self._ranges(left).lengths
            yield met.rest(), none
            return
        yield from joined(met, self.right, self._pairs(left))

    def _pairs(self, left: pa.Table) -> Pairs:
        most = most_pairs(left, self.right, self.most)
        if not self.sides.left_keys:
            return pairs_of(self.sides, left, self.right, min(most, BLOCK_ROWS))
        return keyed_pairs(self.sides, left, self.right, self._ranges(left), most)

    def _ranges(self, left: pa.Table) -> Ranges:
        return ranges_of(self.sides, left, self.right, self.index)

    @cached_property
    def index(self) -> KeyIndex | None:
        """Index the right rows by their keys; None where that is done for each piece."""
        return index_of(self.sides, self.right)

    def _compared_as_in(self, left: pa.Table) -> pa.Table:
        """Compare the first key as IN does: unknown with NULLs where nothing is equal."""
        found = has_pair(self.sides, left, self.right)
        unknown = ~found & unknown_as_in(self.sides, left, self.right)
        if self.kind is JoinKind.ANTI:
            return batches.gathered(left, np.flatnonzero(~found & ~unknown))
        return left.append_column("$mark", pa.array(found, mask=unknown))


def _cut(left: Iterator[pa.RecordBatch], rows: int, most: int | None) -> Iterator[pa.Table]:
    """Join and cut batches to tables of about so many rows, at most twice as many, or bytes."""
    for table in batches.parts(left, rows, most):
        if table.num_rows < 2 * rows:
            yield table
            continue
        for start in range(0, table.num_rows, rows):
            yield sliced(table, start, rows)


class Met:
    """Rows of the left side, which meet the right side block by block.

    Attributes:
        found: int64, how many pairs each row has.
        unknown: for a join that compares as IN does, whether a comparison with a NULL may be one.
    """

    def __init__(self, sides: Sides, kind: JoinKind, null_aware: bool, left: pa.Table) -> None:
        self.sides, self.kind, self.null_aware, self.left = sides, kind, null_aware, left
        self.found = np.zeros(left.num_rows, np.int64)
        self.unknown = np.zeros(left.num_rows, bool)

    def pairs(self, block: pa.Table) -> Pairs:
        """Find the pairs with a block of the right side."""
        if self.null_aware:
            self.unknown |= unknown_as_in(self.sides, self.left, block)
        yield from self.pairs_in(pairs_of(self.sides, self.left, block))

    def pairs_in(self, pairs: Pairs) -> Pairs:
        """Count the pairs of each row, and pass them on; numbers of left rows ascend."""
        for rows, others in pairs:
            checkpoint()
            if len(rows):
                low = int(rows[0])
                counts = np.bincount(rows - low)
                self.found[low : low + len(counts)] += counts
                yield rows, others

    def is_complete_with(self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> bool:
        """Whether these are all the pairs."""
        return int(self.found.sum()) == sum(len(rows) for rows, _ in pairs)

    def rest(self) -> pa.Table:
        """Make the rows that do not depend on which pair was found, once all blocks were met."""
        found, kind = self.found > 0, self.kind
        if kind is JoinKind.MARK:
            mask = self.unknown & ~found if self.null_aware else None
            return self.left.append_column("$mark", pa.array(found, mask=mask))
        if kind is JoinKind.SEMI:
            return batches.gathered(self.left, np.flatnonzero(found))
        if kind is JoinKind.ANTI:
            return batches.gathered(self.left, np.flatnonzero(~found & ~self.unknown))
        if kind is JoinKind.SINGLE and (self.found > 1).any():
            raise _several(self.left, self.found > 1)
        alone = np.flatnonzero(~found) if kind is not JoinKind.INNER else np.zeros(0, np.int64)
        left = batches.gathered(self.left, alone)
        nulls = [pa.nulls(len(alone), field.type) for field in self.sides.right.arrow]
        none = pa.Table.from_arrays(nulls, names=list(self.sides.right.names))
        return _side_by_side(left, none)


def joined(met: Met, right: pa.Table, pairs: Pairs) -> Iterator[Joined]:
    """Make a kind's rows of pairs as they come.

    Yields:
        rows, and beside them the numbers of right rows that are in them.
    """
    kind, left, none = met.kind, met.left, np.zeros(0, np.int64)
    waiting: list[tuple[np.ndarray, np.ndarray]] = []
    for rows, others in met.pairs_in(pairs):
        if kind.keeps_right:
            if waiting:
                yield completed(JoinKind.INNER, left, right, waiting), waiting[0][1]
            waiting = [(rows, others)]
    if kind.keeps_right and met.is_complete_with(waiting):
        others = waiting[0][1] if waiting else none  # all at once: left rows may stay in place
        yield completed(_of_left(kind), left, right, waiting), others
        return
    if waiting:
        yield completed(JoinKind.INNER, left, right, waiting), waiting[0][1]
    yield met.rest(), none


def _of_left(kind: JoinKind) -> JoinKind:
    """Give the kind that pieces of the left side are joined by."""
    return JoinKind.LEFT if kind is JoinKind.FULL else kind


def sliced(table: pa.Table, start: int, rows: int) -> pa.Table:
    """Take consecutive rows."""
    if table.num_columns:
        return table.slice(start, rows)
    left = max(min(rows, table.num_rows - start), 0)
    return pa.Table.from_batches([batches.batch_of((), table.schema, left)])


def has_pair(sides: Sides, left: pa.Table, right: pa.Table) -> np.ndarray:
    """Whether each left row has a pair."""
    if not sides.left_keys and sides.condition == TRUE:
        return np.full(left.num_rows, right.num_rows > 0)
    if sides.left_keys and sides.condition == TRUE:
        return ranges_of(sides, left, right).lengths > 0
    found = np.zeros(left.num_rows, bool)
    for rows, _ in pairs_of(sides, left, right):
        checkpoint()
        found[rows] = True
    return found


def unknown_as_in(sides: Sides, left: pa.Table, right: pa.Table) -> np.ndarray:
    """Whether each left row might have a pair if its first key, or the other one, were not NULL."""
    others = sides.but_first_key()
    nulls = right.filter(pc.is_null(right[sides.right_keys[0]]))
    unknown = has_pair(others, left, nulls)
    null = np.flatnonzero(np.asarray(batches.whole(pc.is_null(left[sides.left_keys[0]]))))
    unknown[null] = has_pair(others, batches.gathered(left, null), right)
    return unknown


def completed(
    kind: JoinKind, left: pa.Table, right: pa.Table, pairs: Sequence[tuple[np.ndarray, np.ndarray]]
) -> pa.Table:
    """Make a kind's rows of the pairs: of the left rows that are given, all pairs."""
    none = np.zeros(0, np.int64)
    rows = np.concatenate([none, *(pair[0] for pair in pairs)])
    others = np.concatenate([none, *(pair[1] for pair in pairs)])
    if kind is JoinKind.INNER:
        return _side_by_side(batches.gathered(left, rows), batches.gathered(right, others))
    found = np.zeros(left.num_rows, bool)
    found[rows] = True
    if kind is JoinKind.SEMI:
        return batches.gathered(left, np.flatnonzero(found))
    if kind is JoinKind.ANTI:
        return batches.gathered(left, np.flatnonzero(~found))
    if kind is JoinKind.MARK:
        return left.append_column("$mark", pa.array(found))
    if kind is JoinKind.SINGLE and len(rows) > int(found.sum()):
        raise _several(left, np.bincount(rows) > 1)
    if len(rows) == int(found.sum()):  # the left rows can stay where they are
        chosen = np.zeros(left.num_rows, np.int64)
        chosen[rows] = others
        return _side_by_side(left, batches.gathered(right, pa.array(chosen, mask=~found)))
    alone = np.flatnonzero(~found)
    missing = np.concatenate([np.zeros(len(rows), bool), np.ones(len(alone), bool)])
    others = np.concatenate([others, np.zeros(len(alone), np.int64)])
    added = batches.gathered(right, pa.array(others, mask=missing))
    return _side_by_side(batches.gathered(left, np.concatenate([rows, alone])), added)


def _several(left: pa.Table, wrong: np.ndarray) -> EvaluationError:
    """Make the error for the first row that has several."""
    said = row_text(left, int(np.flatnonzero(wrong)[0]))
    return EvaluationError(
        "a subquery that stands for one value gives more than one row: aggregate it, "
        "or write LIMIT 1" + (f"; it does for the row with {said}" if said else "")
    )


def _side_by_side(left: pa.Table, right: pa.Table) -> pa.Table:
    columns, names = left.columns + right.columns, left.column_names + right.column_names
    return pa.Table.from_arrays(columns, names=names) if columns else left


def alone(sides: Sides, right: pa.Table) -> pa.Table:
    """Put NULLs in the place of the left side."""
    nulls = [pa.nulls(right.num_rows, field.type) for field in sides.left.arrow]
    names = [*sides.left.names, *right.column_names]
    return pa.Table.from_arrays(nulls + right.columns, names=names) if names else right


def with_alone(
    kind: JoinKind,
    sides: Sides,
    left: pa.Table,
    right: pa.Table,
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
) -> Iterator[pa.Table]:
    """Make any kind's rows of all the pairs of both sides."""
    if kind not in (JoinKind.RIGHT, JoinKind.FULL):
        yield completed(kind, left, right, pairs)
        return
    yield completed(JoinKind.LEFT if kind is JoinKind.FULL else JoinKind.INNER, left, right, pairs)
    matched = np.zeros(right.num_rows, bool)
    for _, others in pairs:
        matched[others] = True
    yield alone(sides, batches.gathered(right, np.flatnonzero(~matched)))
