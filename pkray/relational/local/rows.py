"""Nodes that look at one row at a time: scans, filters, projections, repetitions, limits."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batch_of, cut, with_schema
from pkray.relational.functions.evaluation.compiled import compile_expression, compile_expressions
from pkray.relational.functions.evaluation.programs import can_fail
from pkray.relational.local.engine import Engine, Step, operator, step
from pkray.relational.local.sorting import first_rows
from pkray.relational.plan import nodes
from pkray.relational.plan.expressions import TRUE, ColumnRef, Expression, all_of, conjuncts
from pkray.relational.plan.fields import Fields


@operator(nodes.Scan)
def scan(node: nodes.Scan, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Read the source's columns; the source may leave out rows that do not meet the condition."""
    schema = node.fields.arrow
    for batch in node.source.batches(node.fields.names, node.condition):
        yield with_schema(batch, schema)


@operator(nodes.Values)
def values(node: nodes.Values, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Give the rows that the query holds."""
    schema = node.fields.arrow
    columns = [
        pa.array([_plain(row[i].value, field.type) for row in node.rows], field.type)
        for i, field in enumerate(schema)
    ]
    yield from cut(batch_of(columns, schema, len(node.rows)), engine.batch_rows)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Write a map as Arrow takes it."""
    is_map = pa.types.is_map(kind) and isinstance(value, Mapping)
    return list(value.items()) if is_map else value


def condition_of(condition: Expression, fields: Fields) -> Step:
    """Make the step that keeps the rows for which a condition is true.

    What is joined by AND is computed for the rows that are left: the cheapest part first, and last
    what may fail, as a whole.
    """
    sure = sorted((part for part in conjuncts(condition) if not can_fail(part)), key=_cost)
    unsure = tuple(part for part in conjuncts(condition) if can_fail(part))
    parts = [*sure, all_of(unsure)] if unsure else sure
    compiled = [compile_expression(part, fields) for part in parts]
    last = len(sure) - 1

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        mask: pa.Array | None = None
        for place, part in enumerate(compiled):
            found = part.evaluate(batch)
            mask = found if mask is None else pc.and_kleene(mask, found)
            if place >= last or 2 * mask.true_count < batch.num_rows:
                batch, mask = kept(batch, mask), None
                if not batch.num_rows:
                    return batch
        return batch

    return keep


def kept(batch: pa.RecordBatch, mask: pa.Array) -> pa.RecordBatch:
    """Keep the rows where a mask is true."""
    trues = mask.true_count
    if trues == batch.num_rows:
        return batch
    if not batch.num_columns:
        return batch_of((), batch.schema, trues)
    return batch.filter(mask) if trues else batch.slice(0, 0)


_COSTS = {"DECIMAL": 4, "CHAR": 8, "VARCHAR": 8, "STRING": 8, "BYTES": 8}


def _cost(part: Expression) -> int:
    """Guess what a condition costs a row."""
    columns = (each.type for each in part.walk() if isinstance(each, ColumnRef))
    return sum(_COSTS.get(kind.root, 16 if kind.is_nested else 1) for kind in columns)


@step(nodes.Filter)
def filtered(node: nodes.Filter) -> Step:
    """Keep rows for which the condition is true."""
    return condition_of(node.condition, node.input.fields)


@step(nodes.Project)
def projected(node: nodes.Project) -> Step:
    """Compute columns."""
    fields, schema = node.input.fields, node.fields.arrow
    compiled = compile_expressions([value for _, value in node.columns], fields)

    def project(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch_of(compiled.evaluate(batch), schema, batch.num_rows)

    return project


@step(nodes.Calc)
def calculated(node: nodes.Calc) -> Step:
    """Compute columns of the rows for which the condition is true."""
    if node.condition == TRUE:
        return projected(node)
    keep, project = condition_of(node.condition, node.input.fields), projected(node)
    return lambda batch: project(keep(batch))


@step(nodes.Expand)
def expanded(node: nodes.Expand) -> Step:
    """Repeat each row once a grouping set."""
    schema = node.fields.arrow
    numbers = _set_numbers(node.sets)

    def repeat(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.num_rows
        made = [
            batch_of(_left_out(node, batch, chosen, numbers[i]), schema, rows)
            for i, chosen in enumerate(node.sets)
        ]
        return pa.concat_batches(made)

    return repeat


def _set_numbers(sets: tuple[tuple[int, ...], ...]) -> list[int]:
    """Number each set among those that are equal to it."""
    return [sum(set(before) == set(each) for before in sets[:i]) for i, each in enumerate(sets)]


def _left_out(
    node: nodes.Expand, batch: pa.RecordBatch, chosen: tuple[int, ...], number: int
) -> list[pa.Array]:
    rows = batch.num_rows
    missing = [key for i, key in enumerate(node.keys) if i not in chosen]
    columns = [
        pa.nulls(rows, column.type) if name in missing else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    last = len(node.keys) - 1
    identity = sum(1 << (last - i) for i in range(len(node.keys)) if i not in chosen)
    columns.append(pa.array(np.full(rows, identity, np.int64)))
    if node.number_name:
        columns.append(pa.array(np.full(rows, number, np.int32)))
    return columns


@step(nodes.WatermarkAssign)
@step(nodes.Normalize)
@step(nodes.Exchange)
@step(nodes.Hint)
def passed(node: nodes.Node) -> None:
    """Change no row: what is said is about the continuous query."""
    return


@operator(nodes.Limit)
def limited(node: nodes.Limit, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Keep rows by their number; of sorted rows, hold no more than are kept."""
    if isinstance(node.input, nodes.Sort) and node.count is not None:
        rows = first_rows(node.input, engine, node.offset + node.count)
    else:
        rows = engine.batches(node.input)
    end = None if node.count is None else node.offset + node.count
    yield from _part(rows, node.offset, end)


def _part(
    batches: Iterator[pa.RecordBatch], start: int, end: int | None
) -> Iterator[pa.RecordBatch]:
    place = 0
    if end is not None and end <= start:
        return
    for batch in batches:
        low = max(start - place, 0)
        high = batch.num_rows if end is None else min(end - place, batch.num_rows)
        if low < high:
            yield batch.slice(low, high - low)
        place += batch.num_rows
        if end is not None and place >= end:
            return
