"""Joins: the left side's rows stream past the right side, which is held if it fits.

Without a further condition Arrow's hash join gives the result itself. Otherwise it gives pairs, as
numbers of rows beside the columns that the condition reads. Those for which the condition is true
are kept, and the kind decides what comes out: the pairs, also the rows without one, or only whether
a row has one. Without keys the pairs are all, in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError
from pkray.relational.local.batches import (
    batch_of,
    batches_of,
    gathered,
    in_one_piece,
    parts,
    table_of,
    whole,
    with_schema,
)
from pkray.relational.local.dense import DenseIndex
from pkray.relational.local.engine import BATCH_ROWS, Engine, Step, ahead, operator
from pkray.relational.local.keys import codes, comparable
from pkray.relational.local.memory import Memory, can_divide, drained
from pkray.relational.local.rows import condition_of
from pkray.relational.local.sizes import rows_about
from pkray.relational.plan.expressions import TRUE, Expression
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import Join, JoinKind
from pkray.rows.python_values import row_text
from pkray.storage.spill import SpilledBatches

if TYPE_CHECKING:
    from pyarrow import acero

PROBE_ROWS = 1 << 20
"""Rows of the left side that are joined at once, unless the right side is large."""

SAMPLE_ROWS = 1 << 13
"""Rows of the left side that show how many rows come out of each."""

JOINED_ROWS = 1 << 22
"""Rows that come out at once, as the first rows let expect."""

INDEXED_ROWS = 1 << 18
"""Rows of the left side that are looked up at once in an index of the right side."""

BLOCK_ROWS = 1 << 18
"""Pairs that are made at once where there are no keys."""

MOSTLY = 0.75
"""Share of the rows that one part has if dividing does not help: they have one key."""

ARROW_KINDS = {
    JoinKind.INNER: "inner",
    JoinKind.LEFT: "left outer",
    JoinKind.SEMI: "left semi",
    JoinKind.ANTI: "left anti",
}
TURNED = {"inner": "inner"} | {
    f"left {kind}": f"right {kind}" for kind in ("outer", "semi", "anti")
}
LEFT, RIGHT = "$left", "$right"
Pairs: TypeAlias = Iterator[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Sides:
    """What makes a pair of rows: equal keys and a condition on the joined row.

    Attributes:
        left, right: the columns of each side, with different names.
        null_safe: for each key, whether NULL equals NULL.
    """

    left: Fields
    right: Fields
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    null_safe: tuple[bool, ...]
    condition: Expression

    @staticmethod
    def of(node: Join) -> Sides:
        """Take a join's sides; the right one under the names of the result."""
        renamed = dict(zip(node.right.fields.names, node.right_names, strict=True))
        return Sides(
            node.left.fields,
            node.right_fields,
            node.left_keys,
            tuple(renamed[name] for name in node.right_keys),
            node.null_safe or (False,) * len(node.left_keys),
            node.condition,
        )

    def turned(self) -> Sides:
        """Change the sides over."""
        return replace(
            self,
            left=self.right,
            right=self.left,
            left_keys=self.right_keys,
            right_keys=self.left_keys,
        )

    def but_first_key(self) -> Sides:
        """Leave the first key out."""
        return replace(
            self,
            left_keys=self.left_keys[1:],
            right_keys=self.right_keys[1:],
            null_safe=self.null_safe[1:],
        )

    def check(self) -> Step | None:
        """Make the step that keeps joined rows that meet the condition."""
        if self.condition == TRUE:
            return None
        return condition_of(self.condition, (self.left + self.right).only(self.reads()))

    def reads(self) -> list[str]:
        """List the columns that the condition reads."""
        names = self.condition.columns()
        return [name for name in (*self.left.names, *self.right.names) if name in names]


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
    left = (with_schema(batch, sides.left.arrow) for batch in engine.batches(inputs[0]))
    right = (with_schema(batch, sides.right.arrow) for batch in engine.batches(inputs[1]))
    for table in pairing.run(left, right):
        columns = table.columns
        if turned:
            columns = columns[width:] + columns[:width]
        if len(columns) > len(schema):
            columns = columns[: len(schema)]
        made = pa.Table.from_arrays(columns, names=schema.names) if columns else table
        yield from batches_of(with_schema(made, schema), engine.batch_rows)


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
            table = table_of(held, self.sides.right)
            yield from self._joining(table).run(left, self.memory.piece)
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

    def _joining(self, right: pa.Table) -> Joining:
        return Joining.of(self.sides, self.kind, in_one_piece(right), self.null_aware)

    def _by_blocks(
        self, left: Iterator[pa.RecordBatch], right: SpilledBatches
    ) -> Iterator[pa.Table]:
        """Join pieces of the left side with blocks of the right, which is read for each of them."""
        matched = np.zeros(right.rows if self.kind is JoinKind.FULL else 0, bool)
        for piece in parts(left, None, 2 * self.memory.piece):
            met = Met(self.sides, self.kind, self.null_aware, in_one_piece(piece))
            place = 0
            for table in parts(right.read_again(), None, 2 * self.memory.piece):
                block = in_one_piece(table)
                for rows, others in met.pairs(block):
                    if len(matched):
                        matched[place + others] = True
                    if self.kind.keeps_right:
                        yield completed(JoinKind.INNER, met.left, block, [(rows, others)])
                place += block.num_rows
            yield met.rest()
        place = 0
        for batch in right.read() if self.kind is JoinKind.FULL else ():
            alone = ~matched[place : place + batch.num_rows]
            yield _alone(self.sides, pa.Table.from_batches([batch]).filter(pa.array(alone)))
            place += batch.num_rows
        right.close()


@dataclass(frozen=True)
class Joining:
    """A join whose right side is there as a whole."""

    sides: Sides
    kind: JoinKind
    right: pa.Table
    null_aware: bool = False
    index: DenseIndex | None = None

    @staticmethod
    def of(sides: Sides, kind: JoinKind, right: pa.Table, null_aware: bool) -> Joining:
        """Join with a right side; index its rows by their key if that serves the join."""
        index = None
        if len(sides.left_keys) == 1 and not null_aware and not any(sides.null_safe):
            index = DenseIndex.of(right[sides.right_keys[0]])
        which = kind in (JoinKind.SEMI, JoinKind.ANTI, JoinKind.MARK) and sides.condition == TRUE
        if index is not None and not (index.unique or which):
            index = None
        return Joining(sides, kind, right, null_aware, index)

    def run(self, left: Iterator[pa.RecordBatch], most: int | None = None) -> Iterator[pa.Table]:
        """Join the left side's batches; MARK adds its column, FULL gives the right rows last.

        Args:
            most: bytes of the left side that are joined at once, about.
        """
        if self.kind is JoinKind.FULL:
            yield from self._full(_cut(left, self._rows_at_once(), most))
            return
        size = min(self._rows_at_once(), SAMPLE_ROWS)
        first = next(parts(left, size, most), None)
        if first is None:
            return
        found = self._piece(sliced(first, 0, size))
        yield found
        rest = batches_of(sliced(first, size, first.num_rows), first.num_rows)
        rows = self._rows_at_once(found.num_rows / min(size, first.num_rows))
        yield from ahead(self._piece, _cut(chain(rest, left), rows, most))

    def _rows_at_once(self, each: float = 1) -> int:
        """Say how many left rows are joined at once if `each` gives so many rows."""
        rows = self.right.num_rows
        if self.index is not None:
            return INDEXED_ROWS
        if self.sides.left_keys:
            return int(min(max(PROBE_ROWS, 8 * rows), max(JOINED_ROWS / max(each, 1), 1)))
        return max(BLOCK_ROWS // max(rows, 1), 1)

    def _piece(self, left: pa.Table) -> pa.Table:
        """Join some rows of the left side."""
        kind = self.kind
        if self.null_aware and kind in (JoinKind.ANTI, JoinKind.MARK):
            return self._compared_as_in(left)
        if self.index is None and self._by_arrow():
            return arrow_join(self.sides, left, self.right, ARROW_KINDS[kind])
        if self.index is None and kind is JoinKind.INNER and self._is_flat():
            return self._checked(left)
        return completed(kind, left, self.right, self._pairs(left))

    def _pairs(self, left: pa.Table) -> list[tuple[np.ndarray, np.ndarray]]:
        if self.index is None:
            return list(pairs_of(self.sides, left, self.right))
        found = self.index.rows(left[self.sides.left_keys[0]])
        rows = np.flatnonzero(found >= 0)
        return checked_pairs(self.sides, left, self.right, rows, found[rows])

    def _by_arrow(self) -> bool:
        plain = self.kind in ARROW_KINDS and self.sides.condition == TRUE
        return plain and bool(self.sides.left_keys)

    def _is_flat(self) -> bool:
        fields = self.sides.left + self.sides.right
        return bool(self.sides.left_keys) and not any(each.type.is_nested for each in fields)

    def _checked(self, left: pa.Table) -> pa.Table:
        """Keep the joined rows that meet the condition, as they come out of the hash join."""
        sides = self.sides
        fields = sides.left + sides.right
        check = condition_of(sides.condition, fields)
        names = list(sides.left.names), list(sides.right.names)
        joined = hash_join(sides, left, self.right, "inner", *names).to_reader(use_threads=False)
        return pa.Table.from_batches([check(batch) for batch in joined], joined.schema)

    def _full(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Join all, then give the right rows that had no pair."""
        matched = np.zeros(self.right.num_rows, bool)

        def some(left: pa.Table) -> tuple[pa.Table, list[np.ndarray]]:
            pairs = self._pairs(left)
            found = completed(JoinKind.LEFT, left, self.right, pairs)
            return found, [right for _, right in pairs]

        for found, seen in ahead(some, tables):
            for rows in seen:
                matched[rows] = True
            yield found
        yield _alone(self.sides, gathered(self.right, np.flatnonzero(~matched)))

    def _compared_as_in(self, left: pa.Table) -> pa.Table:
        """Compare the first key as IN does: unknown with NULLs where nothing is equal."""
        found = has_pair(self.sides, left, self.right)
        unknown = ~found & unknown_as_in(self.sides, left, self.right)
        if self.kind is JoinKind.ANTI:
            return gathered(left, np.flatnonzero(~found & ~unknown))
        return left.append_column("$mark", pa.array(found, mask=unknown))


def _cut(left: Iterator[pa.RecordBatch], rows: int, most: int | None) -> Iterator[pa.Table]:
    """Join and cut batches to tables of about so many rows, at most twice as many, or bytes."""
    for table in parts(left, rows, most):
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
        for rows, others in pairs_of(self.sides, self.left, block):
            self.found += np.bincount(rows, minlength=len(self.found))
            yield rows, others

    def rest(self) -> pa.Table:
        """Make the rows that do not depend on which pair was found, once all blocks were met."""
        found, kind = self.found > 0, self.kind
        if kind is JoinKind.MARK:
            mask = self.unknown & ~found if self.null_aware else None
            return self.left.append_column("$mark", pa.array(found, mask=mask))
        if kind is JoinKind.SEMI:
            return gathered(self.left, np.flatnonzero(found))
        if kind is JoinKind.ANTI:
            return gathered(self.left, np.flatnonzero(~found & ~self.unknown))
        if kind is JoinKind.SINGLE and (self.found > 1).any():
            raise _several(self.left, self.found > 1)
        alone = np.flatnonzero(~found) if kind is not JoinKind.INNER else np.zeros(0, np.int64)
        left = gathered(self.left, alone)
        nulls = [pa.nulls(len(alone), field.type) for field in self.sides.right.arrow]
        none = pa.Table.from_arrays(nulls, names=list(self.sides.right.names))
        return _side_by_side(left, none)


def sliced(table: pa.Table, start: int, rows: int) -> pa.Table:
    """Take consecutive rows."""
    if table.num_columns:
        return table.slice(start, rows)
    left = max(min(rows, table.num_rows - start), 0)
    return pa.Table.from_batches([batch_of((), table.schema, left)])


def has_pair(sides: Sides, left: pa.Table, right: pa.Table) -> np.ndarray:
    """Whether each left row has a pair."""
    if not sides.left_keys and sides.condition == TRUE:
        return np.full(left.num_rows, right.num_rows > 0)
    found = np.zeros(left.num_rows, bool)
    for rows, _ in pairs_of(sides, left, right):
        found[rows] = True
    return found


def unknown_as_in(sides: Sides, left: pa.Table, right: pa.Table) -> np.ndarray:
    """Whether each left row might have a pair if its first key, or the other one, were not NULL."""
    others = sides.but_first_key()
    nulls = right.filter(pc.is_null(right[sides.right_keys[0]]))
    unknown = has_pair(others, left, nulls)
    null = np.flatnonzero(np.asarray(whole(pc.is_null(left[sides.left_keys[0]]))))
    unknown[null] = has_pair(others, gathered(left, null), right)
    return unknown


def completed(
    kind: JoinKind,
    left: pa.Table,
    right: pa.Table,
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
) -> pa.Table:
    """Make a kind's rows of the pairs: of the left rows that are given, all pairs."""
    none = np.zeros(0, np.int64)
    rows = np.concatenate([none, *(pair[0] for pair in pairs)])
    others = np.concatenate([none, *(pair[1] for pair in pairs)])
    if kind is JoinKind.INNER:
        return _side_by_side(gathered(left, rows), gathered(right, others))
    found = np.zeros(left.num_rows, bool)
    found[rows] = True
    if kind is JoinKind.SEMI:
        return gathered(left, np.flatnonzero(found))
    if kind is JoinKind.ANTI:
        return gathered(left, np.flatnonzero(~found))
    if kind is JoinKind.MARK:
        return left.append_column("$mark", pa.array(found))
    if kind is JoinKind.SINGLE and len(rows) > int(found.sum()):
        raise _several(left, np.bincount(rows) > 1)
    if len(rows) == int(found.sum()):  # the left rows can stay where they are
        chosen = np.zeros(left.num_rows, np.int64)
        chosen[rows] = others
        return _side_by_side(left, gathered(right, pa.array(chosen, mask=~found)))
    alone = np.flatnonzero(~found)
    missing = np.concatenate([np.zeros(len(rows), bool), np.ones(len(alone), bool)])
    others = np.concatenate([others, np.zeros(len(alone), np.int64)])
    added = gathered(right, pa.array(others, mask=missing))
    return _side_by_side(gathered(left, np.concatenate([rows, alone])), added)


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


def _alone(sides: Sides, right: pa.Table) -> pa.Table:
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
    yield _alone(sides, gathered(right, np.flatnonzero(~matched)))


def checked_pairs(
    sides: Sides, left: pa.Table, right: pa.Table, rows: np.ndarray, others: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Keep the pairs that meet the condition."""
    check, names = sides.check(), sides.reads()
    if check is None:
        return [(rows, others)]
    kept = []
    for start in range(0, len(rows), BATCH_ROWS):
        end = start + BATCH_ROWS
        batch = check(with_columns(left, right, rows[start:end], others[start:end], names))
        kept.append((np.asarray(batch[LEFT]), np.asarray(batch[RIGHT])))
    return kept


def pairs_of(sides: Sides, left: pa.Table, right: pa.Table) -> Pairs:
    """Find the pairs of rows, as int64 numbers of rows of each side."""
    check, names = sides.check(), sides.reads()
    made = (
        _keyed_pairs(sides, left, right, names) if sides.left_keys else _blocks(left, right, names)
    )
    for batch in made:
        kept = batch if check is None else check(batch)
        yield np.asarray(kept[LEFT]), np.asarray(kept[RIGHT])


def _keyed_pairs(
    sides: Sides, left: pa.Table, right: pa.Table, names: list[str]
) -> Iterator[pa.RecordBatch]:
    read = [name for name in names if name in sides.left]
    others = [name for name in names if name in sides.right]
    if any(pa.types.is_nested((sides.left + sides.right)[name].type.arrow) for name in names):
        for batch in _keyed_pairs(sides, left, right, []):
            yield with_columns(
                left, right, np.asarray(batch[LEFT]), np.asarray(batch[RIGHT]), names
            )
        return
    numbered = left.append_column(LEFT, pa.array(np.arange(left.num_rows)))
    counted = right.append_column(RIGHT, pa.array(np.arange(right.num_rows)))
    plan = hash_join(sides, numbered, counted, "inner", [*read, LEFT], [*others, RIGHT])
    reader = plan.to_reader(use_threads=False)
    for batch in reader:
        if batch.num_rows:
            yield batch.select([*names, LEFT, RIGHT])


def _blocks(left: pa.Table, right: pa.Table, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Pair all rows, block by block."""
    if not left.num_rows or not right.num_rows:
        return
    wide = min(right.num_rows, BLOCK_ROWS)
    high = max(BLOCK_ROWS // wide, 1)
    for top in range(0, left.num_rows, high):
        for start in range(0, right.num_rows, wide):
            rows = np.arange(top, min(top + high, left.num_rows))
            others = np.arange(start, min(start + wide, right.num_rows))
            yield with_columns(
                left, right, np.repeat(rows, len(others)), np.tile(others, len(rows)), names
            )


def with_columns(
    left: pa.Table, right: pa.Table, rows: np.ndarray, others: np.ndarray, names: list[str]
) -> pa.RecordBatch:
    """Put the columns that a condition reads before pairs."""
    taken = {LEFT: pa.array(rows), RIGHT: pa.array(others)}
    columns = [
        left[name].take(taken[LEFT])
        if name in left.column_names
        else right[name].take(taken[RIGHT])
        for name in names
    ]
    arrays = [whole(column) for column in columns] + list(taken.values())
    return pa.RecordBatch.from_arrays(arrays, names=[*names, *taken])


def arrow_join(sides: Sides, left: pa.Table, right: pa.Table, kind: str) -> pa.Table:
    """Join by Arrow's hash join; the columns are the left ones, then the right ones."""
    keeps = kind in ("inner", "left outer")
    others = list(sides.right.names) if keeps else []
    read = list(sides.left.names)
    fields = [sides.left[name] for name in read] + [sides.right[name] for name in others]
    if not any(column.type.is_nested for column in fields) and read:
        return hash_join(sides, left, right, kind, read, others).to_table(use_threads=False)
    numbered = left.append_column(LEFT, pa.array(np.arange(left.num_rows)))
    counted = right.append_column(RIGHT, pa.array(np.arange(right.num_rows)))
    found = hash_join(sides, numbered, counted, kind, [LEFT], [RIGHT] if keeps else []).to_table(
        use_threads=False
    )
    rows = gathered(left, whole(found[LEFT]))
    return _side_by_side(rows, gathered(right, whole(found[RIGHT]))) if keeps else rows


def hash_join(
    sides: Sides,
    left: pa.Table,
    right: pa.Table,
    kind: str,
    left_columns: list[str],
    right_columns: list[str],
) -> acero.Declaration:
    """Declare Arrow's hash join, with the smaller side in the hash table."""
    from pyarrow import acero  # it imports pandas: not before something is joined

    left, right, left_keys, right_keys = _with_keys(sides, left, right)
    inputs = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
        for table in (
            left.select(list(dict.fromkeys([*left_keys, *left_columns]))),
            right.select(list(dict.fromkeys([*right_keys, *right_columns]))),
        )
    ]
    if left.num_rows >= right.num_rows:
        options = acero.HashJoinNodeOptions(
            kind, left_keys, right_keys, left_columns, right_columns
        )
        return acero.Declaration("hashjoin", options, inputs)
    options = acero.HashJoinNodeOptions(
        TURNED[kind], right_keys, left_keys, right_columns, left_columns
    )
    turned = acero.Declaration("hashjoin", options, inputs[::-1])
    order = acero.ProjectNodeOptions(
        [pc.field(name) for name in [*left_columns, *right_columns]],
        [*left_columns, *right_columns],
    )
    return acero.Declaration.from_sequence([turned, acero.Declaration("project", order)])


def _with_keys(
    sides: Sides, left: pa.Table, right: pa.Table
) -> tuple[pa.Table, pa.Table, list[str], list[str]]:
    """Give both tables with key columns that Arrow compares as the plan does, and their names."""
    left_keys, right_keys = list(sides.left_keys), list(sides.right_keys)
    for i, null_safe in enumerate(sides.null_safe):
        ours, theirs = left[left_keys[i]], right[right_keys[i]]
        made = _made_comparable(ours, theirs, null_safe)
        if made is not None:
            left_keys[i], right_keys[i] = f"$left key {i}", f"$right key {i}"
            left = left.append_column(left_keys[i], made[0])
            right = right.append_column(right_keys[i], made[1])
    return left, right, left_keys, right_keys


def _made_comparable(
    left: pa.ChunkedArray, right: pa.ChunkedArray, null_safe: bool
) -> tuple[pa.Array, pa.Array] | None:
    """Give numbers that are equal where keys are; None: the keys themselves do."""
    kind = left.type
    if pa.types.is_nested(kind) or (null_safe and (left.null_count or right.null_count)):
        both = pa.chunked_array([*left.chunks, *right.chunks], kind)
        numbers = codes([both], len(both)).of_row
        null = np.zeros(len(both), bool) if null_safe else np.asarray(whole(pc.is_null(both)))
        made = pa.array(numbers, mask=null)
        return made[: len(left)], made[len(left) :]
    if pa.types.is_floating(kind):
        bits = pa.int64() if kind.bit_width == 64 else pa.int32()
        ours, theirs = (whole(comparable(column)).view(bits) for column in (left, right))
        return ours, theirs
    return None
