"""Rows for merge engines, merged in any grouping, and plain Python models of them."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from pkray.lsm.engines import merge_engine
from pkray.lsm.keys.key_groups import RowOrder, concat
from pkray.lsm.merge.merge_function import is_add
from pkray.schema.table_schema import KIND, SEQUENCE, TableSchema

ADD, BACK, UPDATE, DELETE = range(4)
Row = tuple[int, tuple[Any, ...]]
"""A row kind, and the values, the key first."""
CUTS = st.lists(st.integers(1, 12), max_size=4)
"""Where rows are cut into flushes."""


def histories(kinds: Sequence[int], *values: Any, keys: int = 3) -> st.SearchStrategy[list[Row]]:
    """Draw rows of few keys, of the kinds and values that are drawn."""
    row = st.tuples(st.integers(0, keys - 1), *values)
    return st.lists(st.tuples(st.sampled_from(kinds), row), min_size=1)


def make_schema(columns: Sequence[tuple[str, Any]], **options: str) -> TableSchema:
    fields = [("k", "INT NOT NULL"), *columns]
    named = {key.replace("__", "."): value for key, value in options.items()}
    return TableSchema.create(fields, ["k"], (), {"bucket": "1", **named}, None, 0)


def aggregation(columns: Mapping[str, tuple[Any, str]], **options: str) -> TableSchema:
    """Columns by name: type and aggregate function."""
    functions = {f"fields.{name}.aggregate-function": said for name, (_, said) in columns.items()}
    types = [(name, data_type) for name, (data_type, _) in columns.items()]
    return make_schema(types, **{"merge-engine": "aggregation", **functions, **options})


def partial_update(columns: Sequence[tuple[str, Any]], **options: str) -> TableSchema:
    return make_schema(columns, **{"merge-engine": "partial-update", **options})


def in_sequence(kind: str, function: str, **options: str) -> TableSchema:
    """A partial-update table whose column ``v`` is aggregated in the order of ``g``.

    Args:
        options: of the column.
    """
    of_column = {"aggregate-function": function, **options}
    of_group = {"fields.g.sequence-group": "v"}
    named = {f"fields.v.{key.replace('_', '-')}": value for key, value in of_column.items()}
    return partial_update([("g", "INT"), ("v", kind)], **of_group, **named)


def batch(schema: TableSchema, rows: Sequence[Row], first_sequence: int = 0) -> pa.RecordBatch:
    """Rows as they come out of the memtable."""
    target = schema.row_schema
    arrays = [
        pa.array(np.arange(first_sequence, first_sequence + len(rows))),
        pa.array([kind for kind, _ in rows], pa.int8()),
    ]
    for index, field in enumerate(schema.arrow_schema):
        arrays.append(pa.array([values[index] for _, values in rows], field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def merge(schema: TableSchema, rows: pa.RecordBatch, *, always: bool = False) -> pa.RecordBatch:
    return merge_engine(schema).merge(RowOrder(schema).group(rows), always=always)


def merge_grouped(schema: TableSchema, rows: Sequence[Row], cuts: Sequence[int]) -> pa.RecordBatch:
    """Flush at the cuts, merge neighbours pairwise until one is left."""
    bounds = [0, *sorted({cut for cut in cuts if 0 < cut < len(rows)}), len(rows)]
    runs = [
        merge(schema, batch(schema, rows[start:stop], start))
        for start, stop in itertools.pairwise(bounds)
    ]
    while len(runs) > 1:
        place = len(rows) % (len(runs) - 1)
        runs[place : place + 2] = [merge(schema, concat(runs[place : place + 2]))]
    return runs[0]


def merged(
    schema: TableSchema, rows: Sequence[Row], *, always: bool = False
) -> dict[int, tuple[Any, ...]]:
    """What a reader sees of rows that are merged at once, by key."""
    return visible(merge(schema, batch(schema, rows), always=always))


def aggregated(
    function: str, kind: str, *values: Any, kinds: Sequence[int] | None = None, **options: str
) -> Any:
    """Aggregate the values of one key."""
    each = zip(kinds or [ADD] * len(values), values, strict=True)
    rows = [(row_kind, (1, value)) for row_kind, value in each]
    return merged(aggregation({"v": (kind, function)}, **options), rows, always=True)[1][0]


def visible(rows: pa.RecordBatch) -> dict[int, tuple[Any, ...]]:
    """What a reader sees, by key."""
    kept = rows.filter(pa.array(is_add(rows.column(KIND)))).drop_columns([SEQUENCE, KIND])
    return {row["k"]: tuple(list(row.values())[1:]) for row in kept.to_pylist()}


def fold(
    rows: Sequence[Row], step: Callable[[tuple[Any, ...] | None, int, tuple[Any, ...]], Any]
) -> dict[int, tuple[Any, ...]]:
    """The model: values of each key row after row, kept as they are for a key's only row.

    Args:
        step: of the values so far (None: none), a row's kind and values.
    """
    by_key: dict[int, list[Row]] = {}
    for kind, values in rows:
        by_key.setdefault(values[0], []).append((kind, values[1:]))
    result = {}
    for key, of_key in by_key.items():
        if len(of_key) == 1:
            kind, values = of_key[0]
            if kind in (ADD, UPDATE):
                result[key] = values
            continue
        state = None
        for kind, values in of_key:
            state = step(state, kind, values)
        if state is not None:
            result[key] = tuple(state)
    return result
