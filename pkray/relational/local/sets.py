"""Set operations: rows of two inputs, compared as wholes; NULLs are equal."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batch_of, batches_of, gathered, with_schema
from pkray.relational.functions.aggregates.folds import Fold
from pkray.relational.functions.aggregates.kernels import fold_of
from pkray.relational.local.aggregate import Folding
from pkray.relational.local.engine import Engine, operator
from pkray.relational.plan.expressions import AggregateCall
from pkray.relational.plan.nodes import Node, SetKind, SetOperation
from pkray.schema.types import DataType

LEFT, RIGHT = "$left", "$right"
FLAG = pa.int8()


@operator(SetOperation)
def combine(node: SetOperation, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Unite, intersect or subtract rows."""
    if node.kind is SetKind.UNION:
        yield from _united(node, engine)
        return
    for counted in Folding(node.fields.names, _counts()).run(node, engine, _flagged(node, engine)):
        left, right = np.asarray(counted[LEFT]), np.asarray(counted[RIGHT])
        numbers = np.repeat(np.arange(counted.num_rows), _times(node, left, right))
        rows = gathered(counted.drop_columns([LEFT, RIGHT]), numbers)
        yield from batches_of(with_schema(rows, node.fields.arrow), engine.batch_rows)


def _united(node: SetOperation, engine: Engine) -> Iterator[pa.RecordBatch]:
    schema = node.fields.arrow
    inputs = list(_united_inputs(node))
    both = (with_schema(batch, schema) for each in inputs for batch in engine.batches(each))
    if node.all:
        yield from both
        return
    for found in Folding(node.fields.names, {}).run(node, engine, both):
        yield from batches_of(with_schema(found, schema), engine.batch_rows)


def _united_inputs(node: SetOperation) -> Iterator[Node]:
    """List what is united, also by unions that are inputs; not as deep as they are nested."""
    waiting: list[Node] = [node]
    while waiting:
        each = waiting.pop()
        united = isinstance(each, SetOperation) and each.kind is SetKind.UNION
        if isinstance(each, SetOperation) and united and (each.all or not node.all):
            waiting += each.inputs[::-1]
        else:
            yield each


def _times(node: SetOperation, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Say how often each distinct row comes out."""
    if node.kind is SetKind.INTERSECT:
        times = np.minimum(left, right)
    else:
        times = np.maximum(left - right, 0) if node.all else np.where(right > 0, 0, left)
    return times if node.all else np.minimum(times, 1)


def _flagged(node: SetOperation, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Give the rows of both inputs with the side that each is from."""
    schema = node.fields.arrow.append(pa.field(LEFT, FLAG)).append(pa.field(RIGHT, FLAG))
    for place, each in enumerate(node.inputs):
        for batch in engine.batches(each):
            flags = [pa.nulls(batch.num_rows, FLAG), pa.nulls(batch.num_rows, FLAG)]
            flags[place] = pa.repeat(pa.scalar(1, FLAG), batch.num_rows)
            yield batch_of([*batch.columns, *flags], schema, batch.num_rows)


def _counts() -> dict[str, tuple[AggregateCall, Fold]]:
    made = {}
    for name in (LEFT, RIGHT):
        call = AggregateCall("count", (name,), DataType("BIGINT", nullable=False))
        fold = fold_of(call, [FLAG])
        assert fold is not None
        made[name] = (call, fold)
    return made
