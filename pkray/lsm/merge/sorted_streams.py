"""Bring streams of rows sorted by key together, in slices that are cut at a common key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pkray.lsm.keys.key_groups import KeyGroups, RowOrder, concat
from pkray.lsm.keys.keys import KeyBound, NormalizedKeys
from pkray.options import TableOptions
from pkray.storage.spill import Spill, SpillSettings

STREAM = "_STREAM"
MAX_SPILLED_STREAMS = 64
"""Streams that were set aside are merged so many at a time: each is an open file."""


@dataclass(frozen=True)
class MergeLimits:
    """The limits of a merge.

    Args:
        streams: read at once; beyond that the shortest ones are first brought together, and set
            aside. Source: ``sort-spill-threshold``.
        bytes: of rows held at a time, about, over all streams; and of those set aside, beyond
            which they go to the local disk. Source: ``sort-spill-buffer-size``.
        spill: how rows are set aside.
    """

    streams: int
    bytes: int
    spill: SpillSettings

    @classmethod
    def from_options(cls, options: TableOptions, directory: str | None = None) -> MergeLimits:
        """Take the limits from a table's options.

        Args:
            directory: on the local disk, for rows set aside.
        """
        return cls(
            options.sort_spill_threshold or options.num_sorted_run_stop_trigger + 1,
            options.sort_spill_buffer_size,
            SpillSettings.from_options(options, directory),
        )


Grouped = Iterator[tuple[KeyGroups, np.ndarray]]
"""All rows of some keys, and for each row the number of its stream; keys ascend."""


def group_sorted(
    streams: Sequence[Iterable[pa.RecordBatch]],
    order: RowOrder,
    limits: MergeLimits | None = None,
    sizes: Sequence[int] | None = None,
) -> Grouped:
    """Bring streams of rows sorted by key together.

    Args:
        streams: oldest first, no key twice in one of them. None is asked for rows before its turn.
        limits: by default all streams are read at once.
        sizes: rows of each stream, about; where limits apply the longest are not set aside.
    """
    sources = [
        _Source(_numbered(number, stream), 1 if sizes is None else sizes[number])
        for number, stream in enumerate(streams)
    ]
    if limits is not None and len(sources) > limits.streams:
        sources = _fewer(sources, order, limits)
    yield from _grouped(sources, order)


Part = tuple[pa.RecordBatch, np.ndarray]
"""Rows, and for each the number of its stream."""


@dataclass
class _Source:
    """A stream, or several that were brought together.

    Args:
        parts: no key in two of them.
        size: rows, about.
        distinct: no key comes twice.
        is_aside: it is to be set aside, or was.
    """

    parts: Iterator[Part]
    size: int
    distinct: bool = True
    is_aside: bool = False


def _numbered(number: int, stream: Iterable[pa.RecordBatch]) -> Iterator[Part]:
    for rows in stream:
        yield rows, np.full(rows.num_rows, number, np.int32)


def _grouped(sources: Sequence[_Source], order: RowOrder) -> Grouped:
    cursors = [_Cursor(source, order.keys) for source in sources]
    cursors = [cursor for cursor in cursors if cursor.load()]
    while len(cursors) > 1:
        cut = min(cursor.last for cursor in cursors)
        taken = [(cursor, cursor.take(cut)) for cursor in cursors]
        filled = [(cursor, part) for cursor, part in taken if part[0].num_rows]
        rows = concat([rows for _, (rows, _) in filled])
        numbers = np.concatenate([numbers for _, (_, numbers) in filled])
        if len(filled) == 1 and filled[0][0].distinct:
            yield _alone(rows), numbers
        else:
            yield order.group(rows), numbers
        cursors = [cursor for cursor in cursors if cursor.load()]
    for cursor in cursors:
        for rows, numbers in cursor.rest():
            yield (_alone(rows) if cursor.distinct else order.group(rows)), numbers


def _alone(rows: pa.RecordBatch) -> KeyGroups:
    """Group rows of distinct keys, which are sorted."""
    places = np.arange(rows.num_rows)
    return KeyGroups(rows, places, places)


def _fewer(sources: list[_Source], order: RowOrder, limits: MergeLimits) -> list[_Source]:
    """Set the shortest sources aside, neighbours brought together."""
    spill = Spill(limits.spill)
    for source in sorted(sources, key=lambda source: source.size)[: -limits.streams]:
        source.is_aside = True
    sources = _bring_together(sources, limits.streams, order, limits, spill)
    while sum(source.is_aside for source in sources) > MAX_SPILLED_STREAMS:
        fewer = _bring_together(sources, MAX_SPILLED_STREAMS, order, limits, spill)
        if len(fewer) == len(sources):
            break
        sources = fewer
    return sources


def _bring_together(
    sources: Sequence[_Source], at_once: int, order: RowOrder, limits: MergeLimits, spill: Spill
) -> list[_Source]:
    """Merge neighbours that are to be set aside into one each."""
    found: list[_Source] = []
    waiting: list[_Source] = []
    groups = -(-sum(source.is_aside for source in sources) // at_once)
    block_bytes = max(1, limits.bytes // (limits.streams + groups))

    def set_aside() -> None:
        if waiting:
            found.append(_set_aside(waiting, order, block_bytes, spill))
            waiting.clear()

    for source in sources:
        if source.is_aside:
            waiting.append(source)
            if len(waiting) == at_once:
                set_aside()
        else:
            set_aside()
            found.append(source)
    set_aside()
    return found


def _set_aside(
    sources: Sequence[_Source], order: RowOrder, block_bytes: int, spill: Spill
) -> _Source:
    """Bring sources together and set the rows aside, in blocks of whole keys."""
    kept = spill.open()
    for groups, numbers in _grouped(sources, order):
        if not len(groups):
            continue
        keys = max(1, len(groups) * block_bytes // max(1, groups.rows.nbytes))
        for block in groups.blocks(keys):
            rows = block.take(block.order)
            stream = pa.array(numbers[block.order].astype(np.int32))
            kept.append(rows.append_column(STREAM, stream))
    kept.finish()
    size = sum(source.size for source in sources)
    return _Source(map(_part, kept.read()), size, distinct=False, is_aside=True)


def _part(rows: pa.RecordBatch) -> Part:
    last = rows.num_columns - 1
    return rows.remove_column(last), rows.column(last).to_numpy()


KeysOf = Callable[[pa.RecordBatch], NormalizedKeys]


class _Cursor:
    """A place in one stream."""

    def __init__(self, source: _Source, keys_of: KeysOf) -> None:
        self.distinct = source.distinct
        self._parts = source.parts
        self._keys_of = keys_of
        self._part: Part | None = None
        self._at = 0

    def load(self) -> bool:
        """Make sure that there are rows; False at the end."""
        while self._part is None or self._at == self._part[0].num_rows:
            self._part = None  # let go before more is read
            self._part = next(self._parts, None)
            self._at = 0
            if self._part is None:
                return False
            if self._part[0].num_rows:
                self._keys = self._keys_of(self._part[0])
                self.last = self._keys.bound(-1)
        return True

    def take(self, bound: KeyBound) -> Part:
        """Take the rows up to a key."""
        assert self._part is not None
        rows, numbers = self._part
        start, stop = self._at, len(numbers)
        if self.last != bound:
            stop = self._keys.count_le(bound)
        self._at = stop
        return rows.slice(start, stop - start), numbers[start:stop]

    def rest(self) -> Iterator[Part]:
        assert self._part is not None
        rows, numbers = self._part
        yield rows.slice(self._at), numbers[self._at :]
        self._part = None
        yield from self._parts
