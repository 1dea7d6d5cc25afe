"""Joins by time: versions as of a time, and rows whose times are near."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns import batches
from pkray.columns.keys import argsort, argsort_numbers, codes
from pkray.relational.local import joins
from pkray.relational.local.engine import Engine, operator
from pkray.relational.local.memory import Side
from pkray.relational.local.pairs import Ranges, Sides, checked_pairs, keyed_pairs, most_pairs
from pkray.relational.plan.nodes import IntervalJoin, JoinKind, TemporalJoin


@operator(TemporalJoin)
def temporal_join(node: TemporalJoin, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Pair each left row with the last version of its key that is not after it."""
    plain = node.of_all_times()
    if node.right_time is None:
        yield from (
            batches.with_schema(batch, node.fields.arrow) for batch in engine.batches(plain)
        )
        return
    sides = Sides.of(plain)
    left_time, right_time = node.left_time, node.names_given[node.right_time]
    assert left_time is not None, "versions are of a time"
    for left, right in _tables(node, sides, engine):
        keys, others, known, versions = _key_codes(sides, left, right)
        times, theirs, _ = _moments(left[left_time], right[right_time])
        rows = as_of((keys, times[0]), (others, theirs[0]), versions & theirs[1])
        found = np.flatnonzero((rows >= 0) & known & times[1])
        pairs = checked_pairs(sides, left, right, found, rows[found])
        for table in joins.with_alone(node.kind, sides, left, right, pairs):
            yield from _given(table, node.fields.arrow, engine)


def _tables(
    node: TemporalJoin | IntervalJoin, sides: Sides, engine: Engine
) -> Iterator[tuple[pa.Table, ...]]:
    """Give both sides' rows: all, or if they cannot be held, those of some keys at a time."""
    schema = sides.right.arrow
    right = (batches.with_schema(batch, schema) for batch in engine.batches(node.right))
    both = (
        Side(engine.batches(node.left), sides.left_keys, sides.left),
        Side(right, sides.right_keys, sides.right),
    )
    for tables in engine.memory.pairs(both, node):
        yield tuple(batches.in_one_piece(table) for table in tables)


def _key_codes(
    sides: Sides, left: pa.Table, right: pa.Table
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Number both sides' keys alike, and say which rows have no NULL among them."""
    both, known = [], np.ones(left.num_rows + right.num_rows, bool)
    for ours, theirs in zip(sides.left_keys, sides.right_keys, strict=True):
        column = pa.chunked_array([*left[ours].chunks, *right[theirs].chunks])
        both.append(column)
        known &= np.asarray(batches.whole(pc.is_valid(column)))
    numbers, cut = codes(both, len(known)).of_row, left.num_rows
    return numbers[:cut], numbers[cut:], known[:cut], known[cut:]


def _moments(
    left: pa.ChunkedArray, right: pa.ChunkedArray
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray], int]:
    """Give each side's int64 times and which are not NULL; then their units a microsecond."""
    unit = "ns" if "ns" in (left.type.unit, right.type.unit) else "us"

    def moments(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
        array = batches.whole(column.cast(pa.timestamp(unit, column.type.tz)))
        return np.asarray(pc.fill_null(array.view(pa.int64()), 0)), np.asarray(array.is_valid())

    return moments(left), moments(right), 1000 if unit == "ns" else 1


def as_of(
    left: tuple[np.ndarray, np.ndarray], right: tuple[np.ndarray, np.ndarray], known: np.ndarray
) -> np.ndarray:
    """Find for each left key and time the last right row of the key that is not later; -1: none."""
    versions = np.flatnonzero(known)
    keys = np.concatenate([right[0][versions], left[0]])
    times = np.concatenate([right[1][versions], left[1]])
    order = np.argsort(times, kind="stable")  # of equal times, versions come before left rows
    order = order[argsort_numbers(keys[order])]
    is_version = order < len(versions)
    last = np.maximum.accumulate(np.where(is_version, np.arange(len(order)), -1))
    version = np.where(last >= 0, order[last], 0)
    same = (last >= 0) & (keys[version] == keys[order])
    result = np.full(len(left[0]), -1, np.int64)
    ours = ~is_version
    chosen = np.append(versions, 0)[version[ours]]
    result[order[ours] - len(versions)] = np.where(same[ours], chosen, -1)
    return result


@operator(IntervalJoin)
def interval_join(node: IntervalJoin, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Pair rows of equal keys whose times are near."""
    sides = Sides.of(node)
    kind = {JoinKind.RIGHT: JoinKind.INNER, JoinKind.FULL: JoinKind.LEFT}.get(node.kind, node.kind)
    for left, right in _tables(node, sides, engine):
        most = most_pairs(left, right, engine.memory.piece)
        pairs = keyed_pairs(sides, left, right, near(node, sides, left, right), most)
        matched = np.zeros(right.num_rows if kind is not node.kind else 0, bool)
        for table, others in joins.joined(joins.Met(sides, kind, False, left), right, pairs):
            if len(matched):
                matched[others] = True
            yield from _given(table, node.fields.arrow, engine)
        if len(matched):
            rest = joins.alone(sides, batches.gathered(right, np.flatnonzero(~matched)))
            yield from _given(rest, node.fields.arrow, engine)


def near(node: IntervalJoin, sides: Sides, left: pa.Table, right: pa.Table) -> Ranges:
    """Find the right rows of equal keys whose times are near those of left rows."""
    keys, others, known, theirs_known = _key_codes(sides, left, right)
    left_time, right_time = node.left_time, node.names_given[node.right_time]
    assert left_time is not None, "versions are of a time"
    (times, valid), (theirs, their_valid), scale = _moments(left[left_time], right[right_time])
    there = np.flatnonzero(theirs_known & their_valid)
    low, high = times - node.upper * scale, times - node.lower * scale
    places, starts, lengths = _ranges(keys, low, high, others[there], theirs[there])
    return Ranges(there[places], starts, np.where(known & valid, lengths, 0))


def _ranges(
    keys: np.ndarray, low: np.ndarray, high: np.ndarray, others: np.ndarray, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find, for each key, which of the others have a time from low to high.

    Returns:
        the others in order of key and time, and where in it each range starts, and its length.
    """
    moments, places = np.unique(np.concatenate([low, high, times]), return_inverse=True)
    lows, highs, theirs = np.split(places, [len(low), 2 * len(low)])
    width = len(moments) + 1
    order = argsort([others, theirs], len(others))
    sorted_keys = (others * width + theirs)[order]
    starts = np.searchsorted(sorted_keys, keys * width + lows)
    ends = np.searchsorted(sorted_keys, keys * width + highs, side="right")
    return order, starts, np.maximum(ends - starts, 0)


def _given(table: pa.Table, schema: pa.Schema, engine: Engine) -> Iterator[pa.RecordBatch]:
    made = pa.Table.from_arrays(table.columns[: len(schema)], names=schema.names)
    yield from batches.batches_of(batches.with_schema(made, schema), engine.batch_rows)
