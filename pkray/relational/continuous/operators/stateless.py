"""Operators that remember nothing: each row by itself."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batch_of, with_schema
from pkray.errors import EvaluationError
from pkray.relational.continuous.changes import Changes, concatenated, take
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.functions.evaluation.compiled import compile_expression
from pkray.relational.local.engine import STEPS, Step
from pkray.relational.local.unnest import at_once
from pkray.relational.local.windows import in_windows
from pkray.relational.plan import nodes
from pkray.relational.plan.expressions import Call, ColumnRef, Expression, Literal
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.running import timed
from pkray.schema.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

NUMBER = "$number"
"""The column that carries the number of a row's cause through a step."""


@operates(nodes.Filter, nodes.Project, nodes.Calc, nodes.Expand, nodes.Unnest)
class Stateless(Operator):
    """Takes rows through the step that the local engine takes them through.

    What asks for the time gets the epoch's, which is the same when the epoch is run again.
    """

    passes_any = True

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._step = numbered_step(node)
        self._tells_time = timed(node, 0) is not node
        completed = isinstance(_below_calcs(node), nodes.Normalize) and context.inputs[0].before
        self._parts_updates = completed and isinstance(node, nodes.Filter | nodes.Project)

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        (changes,) = inputs
        if not len(changes):
            return Changes.none(self.node.fields)
        numbers = pa.array(np.arange(len(changes)))
        step = self._step
        if self._tells_time:
            step = numbered_step(timed(self.node, 1000 * epoch.time))
        named = [*changes.rows.schema.names, NUMBER]
        asked = pa.RecordBatch.from_arrays([*changes.rows.columns, numbers], names=named)
        made = pa.concat_batches(list(self._computed(step, asked, epoch)))
        causes = made.column(NUMBER).to_numpy()
        rows = with_schema(made.select(self.node.fields.names), self.node.fields.arrow)
        if not made.num_columns - 1:
            rows = take(rows, causes)
        result = Changes(rows, changes.kinds[causes])
        if self._parts_updates:
            result = _parted(result, causes)
        if isinstance(self.node, nodes.Expand):
            return result.take(np.argsort(causes, kind="stable"))
        return result

    def _computed(self, step: Step, rows: pa.RecordBatch, epoch: Epoch) -> Iterator[pa.RecordBatch]:
        """Compute rows; those that cannot be are left out, if the query skips such rows."""
        try:
            yield step(rows)
        except EvaluationError as error:
            if self.context.skip is None:
                raise
            if rows.num_rows == 1:
                row = rows.drop_columns([NUMBER])
                self.context.skip(epoch.number, row, str(error))
                yield step(rows.slice(0, 0))
                return
            half = rows.num_rows // 2
            yield from self._computed(step, rows.slice(0, half), epoch)
            yield from self._computed(step, rows.slice(half), epoch)


def _below_calcs(node: nodes.Node) -> nodes.Node:
    """Find what gives the rows that a node computes of."""
    while isinstance(node, nodes.Filter | nodes.Project | nodes.Exchange):
        node = node.input
    return node


def _parted(changes: Changes, causes: np.ndarray) -> Changes:
    """Make -D and +I of the half of an update whose other half was filtered out.

    What completes changes by key gives an update as -U and +U, one right after the other: a row
    that is no longer kept is as if it were deleted.
    """
    kinds = changes.kinds
    follows = np.r_[False, causes[1:] == causes[:-1] + 1]
    after = (kinds == UPDATE_AFTER) & follows & np.r_[False, kinds[:-1] == UPDATE_BEFORE]
    before = np.r_[after[1:], False]
    alone = np.where((kinds == UPDATE_BEFORE) & ~before, DELETE, kinds)
    return replace(changes, kinds=np.where((kinds == UPDATE_AFTER) & ~after, INSERT, alone))


def numbered_step(node: Any) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Make a node's step over rows that carry numbers."""
    number = Fields((Field(NUMBER, nodes.BIGINT),))
    numbered = replace(node, input=nodes.Values(node.input.fields + number, ()))
    if isinstance(node, nodes.Project):
        numbered = replace(
            numbered, columns=(*node.columns, (NUMBER, ColumnRef(nodes.BIGINT, NUMBER)))
        )
    if isinstance(node, nodes.Unnest):
        kept = None if node.keeps is None else (*node.keeps, NUMBER)
        return at_once(replace(numbered, keeps=kept))
    made = STEPS[type(node)](numbered)
    assert made is not None
    return made


@operates(nodes.Window, when=lambda node: node.kind is not nodes.WindowKind.SESSION)
class InWindows(Operator):
    """Gives each row once for each of its windows."""

    passes_any = True

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        (changes,) = inputs
        if not len(changes):
            return Changes.none(self.node.fields)
        number = Fields((Field(NUMBER, nodes.BIGINT),))
        node = replace(self.node, input=nodes.Values(self.node.input.fields + number, ()))
        rows = changes.rows.append_column(NUMBER, pa.array(np.arange(len(changes))))
        made = in_windows(node, rows).combine_chunks()
        causes = made.column(NUMBER).to_numpy()
        columns = [made.column(name) for name in self.node.fields.names]
        return Changes(
            batch_of(columns, self.node.fields.arrow, len(causes)), changes.kinds[causes]
        )


@operates(nodes.WatermarkAssign)
class Watermarks(Operator):
    """Follows the event time of the rows that pass.

    Attributes:
        watermark: the greatest so far, in microseconds; None before the first row.
    """

    passes_any = True

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self.watermark: int | None = None
        self._delay = compile_expression(node.delay, node.input.fields)
        self._follows_time = _is_shifted(node.delay, node.time)

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        (changes,) = inputs
        if len(changes):
            self._check_times(changes)
            greatest = pc.max(self._delay.evaluate(self._newest(changes.rows)))
            if greatest.is_valid:
                micros = greatest.cast(pa.timestamp("us", greatest.type.tz)).value
                known = self.watermark
                self.watermark = micros if known is None else max(known, micros)
        return changes

    def _newest(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Choose rows of which one has the greatest watermark: where it follows the time, one."""
        if not self._follows_time:
            return rows
        times = rows.column(self.node.time)
        return rows.slice(pc.index(times, pc.max(times)).as_py(), 1)

    def _check_times(self, changes: Changes) -> None:
        times = changes.column(self.node.time)
        if times.null_count:
            row = changes.rows.slice(pc.index(times.is_null(), True).as_py(), 1).to_pylist()[0]
            raise EvaluationError(
                f"{self.node.time} is NULL, and watermarks follow it: the row {row} has no time; "
                "filter such rows out in a view before the watermark is declared",
                column=self.node.time,
            )


def _is_shifted(value: Expression, column: str) -> bool:
    """Whether an expression is a column, or so much before or after it."""
    if isinstance(value, ColumnRef):
        return value.name == column
    if not isinstance(value, Call) or value.function != "plus_interval":
        return False
    time, *spans = value.arguments
    months = spans[0] if spans else None
    return _is_shifted(time, column) and isinstance(months, Literal) and months.value == 0


@operates(nodes.Exchange, nodes.Hint, nodes.Sink, nodes.Sort)
class Passing(Operator):
    """Passes changes on: a table has no order, and what is said of rows changes none."""

    passes_any = True

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        return inputs[0]


@operates(nodes.SetOperation, when=lambda node: node.kind is nodes.SetKind.UNION and node.all)
class Union(Operator):
    """Gives the changes of all inputs: UNION ALL."""

    passes_any = True

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        schema = self.node.fields.arrow
        parts = [each.with_rows(with_schema(each.rows, schema)) for each in inputs]
        return concatenated(self.node.fields, parts)
