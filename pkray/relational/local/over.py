"""Window functions: values computed from the rows around a row, for all rows at once."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batches_of, in_one_piece, spread, typed, whole, with_schema
from pkray.columns.keys import ranks
from pkray.relational.functions.aggregates.kernels import accumulator, grouped_aggregate
from pkray.relational.functions.aggregates.sums import Sum
from pkray.relational.functions.numbers.exact_sums import ExactSums, limbs_of
from pkray.relational.local.aggregate import CODE, folded
from pkray.relational.local.engine import Engine, operator
from pkray.relational.local.frames import Frames, Partitions
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import SortKey, WindowCall
from pkray.relational.plan.nodes import Over

EXPANDED_ROWS = 1 << 21
"""Rows of frames written out at once, where a function has no shorter way."""

Numbering = Callable[[Partitions, WindowCall], np.ndarray]
Running = Callable[[Frames, WindowCall, list[pa.Array]], pa.Array]


@operator(Over)
def over(node: Over, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Add a column a window function; the rows keep their order, if they are held as a whole."""
    rows = engine.batches(node.input)
    for table in engine.memory.tables(node, rows, node.partition_by, node.input.fields):
        yield from batches_of(_with_calls(node, in_one_piece(table)), engine.batch_rows)


def _with_calls(node: Over, table: pa.Table) -> pa.Table:
    partitions = Partitions(table, node.partition_by, node.order_by)
    columns = [*table.columns, *computed(partitions, table, node.calls)]
    schema = node.fields.arrow
    made: pa.Table = with_schema(pa.Table.from_arrays(columns, names=schema.names), schema)
    return made


def computed(
    partitions: Partitions, table: pa.Table, calls: Sequence[tuple[str, WindowCall]]
) -> list[pa.Array]:
    """Compute calls, a value a row of the table that was partitioned."""
    return [
        computed_call(partitions, call, [whole(table[argument]) for argument in call.arguments])
        for _, call in calls
    ]


def computed_call(
    partitions: Partitions, call: WindowCall, arguments: Sequence[pa.Array]
) -> pa.Array:
    """Compute one call, a value a row, from its arguments at the rows."""
    values = _computed(partitions, call, [partitions.in_order(each) for each in arguments])
    return typed(partitions.at_rows(values), call.type.arrow)


def _computed(partitions: Partitions, call: WindowCall, arguments: list[pa.Array]) -> pa.Array:
    """Compute a call, a value a place."""
    numbering = NUMBERINGS.get(call.function)
    if numbering is not None:
        return pa.array(numbering(partitions, call)).cast(call.type.arrow)
    if call.function in ("lag", "lead"):
        return _shifted(partitions, call, arguments)
    frames = partitions.frames(call.frame)
    if call.function in PLACES:
        return _placed(frames, call, arguments[0])
    if call.udf is None and _is_whole(partitions, frames):
        return _of_partitions(partitions, call, arguments)
    running = RUNNING.get(call.function)
    if running is not None and not (arguments and pa.types.is_nested(arguments[0].type)):
        return running(frames, call, arguments)
    return _expanded(partitions, frames, call, arguments)


def _is_whole(partitions: Partitions, frames: Frames) -> bool:
    return bool((frames.low == partitions.start).all() and (frames.high == partitions.end).all())


# --- Numbers of rows ------------------------------------------------------------------------------


def _dense_rank(partitions: Partitions, call: WindowCall) -> np.ndarray:
    groups = np.cumsum(partitions.is_first_peer)
    return groups - groups[partitions.start] + 1


def _percent_rank(partitions: Partitions, call: WindowCall) -> np.ndarray:
    others = partitions.end - partitions.start - 1
    return (partitions.peer_start - partitions.start) / np.maximum(others, 1)


def _ntile(partitions: Partitions, call: WindowCall) -> np.ndarray:
    tiles = int(call.parameters[0].value)
    rows, place = partitions.end - partitions.start, partitions.places - partitions.start
    size, larger = rows // tiles, rows % tiles
    edge = larger * (size + 1)
    late = larger + (place - edge) // np.maximum(size, 1)
    return np.where(place < edge, place // (size + 1), late) + 1


NUMBERINGS: dict[str, Numbering] = {
    "row_number": lambda rows, call: rows.places - rows.start + 1,
    "rank": lambda rows, call: rows.peer_start - rows.start + 1,
    "dense_rank": _dense_rank,
    "percent_rank": _percent_rank,
    "cume_dist": lambda rows, call: (rows.peer_end - rows.start) / (rows.end - rows.start),
    "ntile": _ntile,
}

# --- Values of other rows -------------------------------------------------------------------------


def _ignores_nulls(call: WindowCall) -> bool:
    said = [parameter.value for parameter in call.parameters]
    return call.ignore_nulls or (call.function != "nth_value" and True in said[:1])


def _at(values: pa.Array, places: np.ndarray, there: np.ndarray) -> pa.Array:
    """Take values at places; NULL where there is none."""
    return values.take(pa.array(np.where(there, places, 0), mask=~there))


def _shifted(partitions: Partitions, call: WindowCall, arguments: list[pa.Array]) -> pa.Array:
    """Read the row so many before or after."""
    values, *default = arguments
    offset = int(call.parameters[0].value) if call.parameters else 1
    if call.function == "lag":
        offset = -offset
    far = 2 * partitions.rows + 2
    places = partitions.places + min(max(offset, -far), far)
    if call.ignore_nulls and offset:
        places = _among_values(values, partitions, offset)
    there = (places >= partitions.start) & (places < partitions.end)
    found = _at(values, places, there)
    constants = [each.value for each in call.parameters[1:2]]
    if constants:
        default = [
            pa.array([constants[0]], values.type).take(pa.array(np.zeros(partitions.rows, int)))
        ]
    return pc.if_else(pa.array(there), found, default[0].cast(found.type)) if default else found


def _among_values(values: pa.Array, partitions: Partitions, offset: int) -> np.ndarray:
    """Find the place so many values before or after, NULLs left out; -1: none."""
    valid = np.asarray(values.is_valid())
    places = np.flatnonzero(valid)
    before = np.cumsum(valid) - valid
    wanted = before + (offset if offset < 0 else offset - 1 + valid)
    inside = (wanted >= 0) & (wanted < len(places))
    return np.where(inside, np.append(places, -1)[np.where(inside, wanted, 0)], -1)


PLACES = ("first_value", "first", "last_value", "last", "nth_value")


def _placed(frames: Frames, call: WindowCall, values: pa.Array) -> pa.Array:
    """Read a row of the frame."""
    if _ignores_nulls(call):
        count = np.concatenate([[0], np.cumsum(np.asarray(values.is_valid()))])
        values, frames = pc.drop_null(values), Frames(count[frames.low], count[frames.high])
    if call.function == "nth_value":
        places = frames.low + min(int(call.parameters[0].value), len(values) + 1) - 1
    else:
        places = frames.high - 1 if facts(call.function).is_last else frames.low
    return _at(values, places, (places >= frames.low) & (places < frames.high))


# --- Aggregates of frames -------------------------------------------------------------------------


def _of_partitions(partitions: Partitions, call: WindowCall, arguments: list[pa.Array]) -> pa.Array:
    """Aggregate each partition once."""
    count = int(partitions.codes[-1]) + 1 if partitions.rows else 0
    plain = call.of_group()
    fields = {CODE: pa.array(partitions.codes), **dict(zip(call.arguments, arguments, strict=True))}
    done = folded([("", plain)], pa.table(fields), count).get("")
    if done is None:
        done = grouped_aggregate(plain, partitions.codes, count, arguments)
    return done.take(pa.array(partitions.codes))


def _valid_counts(frames: Frames, arguments: list[pa.Array]) -> np.ndarray:
    """Count each frame's rows without NULLs among the arguments."""
    valid = np.ones(len(frames.low), bool)
    for argument in arguments:
        valid &= np.asarray(argument.is_valid())
    return _part_sums(frames, valid)


def _counted(frames: Frames, call: WindowCall, arguments: list[pa.Array]) -> pa.Array:
    return pa.array(_valid_counts(frames, arguments))


def _summed(frames: Frames, call: WindowCall, arguments: list[pa.Array]) -> pa.Array:
    """Give the sum or the mean of each frame as that of a group, whose sums are added up so far."""
    (values,) = arguments
    state = accumulator(call.of_group(), [values.type])
    assert isinstance(state, Sum)
    state.counts.array = _valid_counts(frames, arguments)
    if pa.types.is_floating(values.type):
        state.floats.array = _float_sums(frames, values)
    else:
        state.exact = ExactSums.from_limbs([_part_sums(frames, part) for part in limbs_of(values)])
    return state.finish(len(frames.low))


def _part_sums(frames: Frames, numbers: np.ndarray) -> np.ndarray:
    until = np.concatenate([[0], np.cumsum(numbers)])
    return until[frames.high] - until[frames.low]


def _float_sums(frames: Frames, values: pa.Array) -> np.ndarray:
    numbers = np.asarray(pc.fill_null(values.cast(pa.float64()), 0.0))
    with np.errstate(invalid="ignore", over="ignore"):
        return in_frames(frames, numbers, np.add, 0.0)


def _extreme(frames: Frames, call: WindowCall, arguments: list[pa.Array]) -> pa.Array:
    """Give the least or greatest value of each frame, by its rank."""
    (values,) = arguments
    key = SortKey("", descending=facts(call.function).is_last)
    valid = np.asarray(values.is_valid())
    rank = ranks(values, key)[-1]
    ends = np.iinfo(np.int64)
    order = np.argsort(rank, kind="stable")
    dense = np.empty(len(rank), np.int64)
    dense[order] = np.arange(len(rank))
    least = in_frames(frames, np.where(valid, dense, ends.max), np.minimum, ends.max)
    there = least < ends.max
    return _at(values, order[np.where(there, least, 0)] if len(order) else least, there)


def in_frames(frames: Frames, values: np.ndarray, combine: np.ufunc, neutral: float) -> np.ndarray:
    """Combine the values of each frame.

    Frames are cut into stretches whose lengths are powers of two; each stretch's value is combined
    of two of half the length. So no value is taken away again, which floats would not forgive.
    """
    result = np.full(len(frames.low), neutral, values.dtype)
    place, left = frames.low.copy(), frames.lengths.copy()
    stretch, size = values, 1
    longest = int(left.max()) if len(left) else 0
    while size <= longest:
        rows = np.flatnonzero(left & size)
        result[rows] = combine(result[rows], stretch[place[rows]])
        place[rows] += size
        stretch = combine(stretch[:-size], stretch[size:]) if len(stretch) > size else stretch[:0]
        size *= 2
    return result


RUNNING: dict[str, Running] = {
    "count": _counted,
    "sum": _summed,
    "sum_wrapping": _summed,
    "avg": _summed,
    "avg_truncating": _summed,
    "min": _extreme,
    "max": _extreme,
}


def _expanded(
    partitions: Partitions, frames: Frames, call: WindowCall, arguments: list[pa.Array]
) -> pa.Array:
    """Write each frame's rows out and aggregate them, frame by frame; blocks bound the memory."""
    plain = call.of_group()
    ends = np.cumsum(frames.lengths)
    found, start = [], 0
    while start < partitions.rows:
        done = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, done + EXPANDED_ROWS, "right")), start + 1)
        lengths = frames.lengths[start:stop]
        rows = pa.array(spread(frames.low[start:stop], lengths))
        groups = np.repeat(np.arange(stop - start), lengths)
        taken = [argument.take(rows) for argument in arguments]
        found.append(grouped_aggregate(plain, groups, stop - start, taken))
        start = stop
    return pa.chunked_array(found, call.type.arrow).combine_chunks()
