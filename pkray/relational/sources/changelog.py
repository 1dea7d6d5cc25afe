"""Changes in memory as a source."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import InputError, OptionError
from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.source import Source, Watermark
from pkray.relational.sources.rows import as_table, described
from pkray.rows.input import conform
from pkray.schema.row_kind import SHORT, parse

ROW_KIND = "_row_kind"
Mode: TypeAlias = Literal["insert", "upsert", "all"]
_KINDS = {"insert": ("+I",), "upsert": ("+I", "+U", "-D"), "all": SHORT}
_ADDING = ("+I", "+U")
_BEFORE = "-U"
_stamps = itertools.count()
"""Numbers the pushes to all changelogs of this process, in their order."""


@dataclass(eq=False, repr=False)
class ChangelogSource(Source):
    """Changes that are pushed epoch by epoch.

    Its content, which bounded queries read: in mode ``upsert`` the newest row of each key; else
    the rows as a multiset, in which a retraction takes away one equal row, and nothing where there
    is none. Where changes may come twice it is the newest row of each key in every mode, and rows
    before updates say nothing.

    Args:
        fields: the columns.
        primary_key: of mode ``upsert``.
        mode: which kinds of changes there may be: ``insert`` +I, ``upsert`` all but -U, ``all``.
        repeats: whether changes may come twice.

    Attributes:
        epochs: what was pushed, with kinds.
        stamps: a number a push, by which pushes to several changelogs are ordered.

    Raises:
        OptionError: ``upsert`` without a key.
    """

    name: str
    fields: Fields
    primary_key: tuple[str, ...] = ()
    mode: Mode = "insert"
    watermark: Watermark | None = None
    _: KW_ONLY
    repeats: bool = False
    epochs: list[pa.Table] = field(default_factory=list, init=False)
    stamps: list[int] = field(default_factory=list, init=False)
    is_finished: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.mode == "upsert" and not self.primary_key:
            raise OptionError(
                "a changelog of mode 'upsert' needs primary_key: the columns by which a change "
                "finds the row that it replaces",
                arguments=("primary_key",),
            )
        self._completed: ChangelogSource | None = None
        self._content: tuple[int, pa.Table] | None = None

    def __repr__(self) -> str:
        return f"ChangelogSource({self.name!r}, {self.mode!r}, {len(self.epochs)} epochs)"

    def push(self, batch: object) -> None:
        """Add the changes of one epoch.

        Args:
            batch: rows, with their kinds in ``_row_kind``; without it all are +I.

        Raises:
            InputError: rows that do not fit the columns, or a kind that the mode has not.
        """
        if self.is_finished:
            raise InputError(f"{self.name} is finished: it takes no more changes")
        changes = self._changes(batch)
        self.stamps.append(next(_stamps))
        self.epochs.append(changes)

    def finish(self) -> None:
        """End it: no more changes come."""
        self.is_finished = True

    def up_to(self, epochs: int) -> ChangelogSource:
        """Give the source as it was after so many pushes."""
        earlier = replace(self)
        earlier.epochs = self.epochs[:epochs]
        return earlier

    def completed(self) -> ChangelogSource:
        """Give the source as one whose changes may come twice."""
        if self.repeats or not self.primary_key:
            return self
        if self._completed is None:
            self._completed = replace(self, repeats=True)
            self._completed.epochs = self.epochs
        return self._completed

    def row_count(self) -> int:
        """Count the rows of its content."""
        count: int = self.content().num_rows
        return count

    def batches(
        self, columns: Sequence[str], condition: Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Give its content; a condition leaves nothing out."""
        yield from self.content().select(list(columns)).to_batches()

    def content(self) -> pa.Table:
        """Give the rows that all changes so far leave, in the order in which they came."""
        if self._content is None or self._content[0] != len(self.epochs):
            self._content = (len(self.epochs), self._rows_left())
        return self._content[1]

    def _rows_left(self) -> pa.Table:
        if not any(each.num_rows for each in self.epochs):
            return self.fields.arrow.empty_table()
        changes = pa.concat_tables(self.epochs).combine_chunks()
        if self.repeats:
            changes = changes.filter(pc.not_equal(changes.column(ROW_KIND), _BEFORE))
        adds = pc.is_in(changes.column(ROW_KIND), pa.array(_ADDING)).to_numpy()
        by_key = self.repeats or self.mode == "upsert"
        by = self.primary_key if by_key else self.fields.names
        groups = _groups([changes.column(name) for name in by])
        left = _newest(groups, adds) if by_key else _unretracted(groups, adds)
        return changes.take(pa.array(left)).select(list(self.fields.names))

    def _changes(self, batch: object) -> pa.Table:
        empty = isinstance(batch, list | tuple) and not batch
        rows = self.fields.arrow.empty_table() if empty else as_table(batch)
        kinds = pa.chunked_array([pa.repeat("+I", rows.num_rows)])
        if ROW_KIND in rows.column_names:
            kinds = pc.take(pa.array(SHORT), parse(rows.column(ROW_KIND), ROW_KIND))
            rows = rows.drop_columns([ROW_KIND])
        self._check_kinds(kinds)
        fitted = conform(rows, described(self.fields))
        return fitted.append_column(ROW_KIND, kinds)

    def _check_kinds(self, kinds: pa.ChunkedArray) -> None:
        allowed = _KINDS[self.mode]
        others = [kind for kind in kinds.unique().to_pylist() if kind not in allowed]
        if others:
            raise InputError(
                f"{self.name} is a changelog of mode {self.mode!r}: a row's {ROW_KIND} cannot be "
                f"{others[0]!r}; it is one of {', '.join(allowed)}",
                value=others[0],
            )


Numbers: TypeAlias = npt.NDArray[np.int64]


def _groups(columns: Sequence[pa.ChunkedArray]) -> Numbers:
    """Number rows so that equal rows have equal numbers; NULLs are equal."""
    groups = np.zeros(len(columns[0]) if columns else 0, np.int64)
    for column in columns:
        codes = _codes(column)
        pairs = groups * (codes.max(initial=0) + 1) + codes
        groups = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    return groups


def _codes(column: pa.ChunkedArray) -> Numbers:
    if pa.types.is_nested(column.type):  # Arrow encodes no nested values
        column = pa.chunked_array([pa.array(map(repr, column.to_pylist()), pa.string())])
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    codes: Numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _newest(groups: Numbers, adds: npt.NDArray[np.bool_]) -> Numbers:
    """Find the last change of each group, where it adds a row."""
    backwards = len(groups) - 1 - np.arange(len(groups))
    last = backwards[np.unique(groups[::-1], return_index=True)[1]]
    return np.sort(last[adds[last]])


def _unretracted(groups: Numbers, adds: npt.NDArray[np.bool_]) -> Numbers:
    """Find added rows, as many of each group as no retraction that came later takes away."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    sizes = np.diff(np.r_[starts, len(order)])
    steps = np.where(adds[order], 1, -1)
    sums = np.cumsum(steps)
    sums -= np.repeat(sums[starts] - steps[starts], sizes)
    lowest = np.minimum(np.minimum.reduceat(sums, starts), 0)  # retractions of nothing
    left = sums[starts + sizes - 1] - lowest
    added = adds[order]
    later = np.cumsum(added[::-1])[::-1]  # added rows from here on
    ends = np.r_[later[starts[1:]], 0]
    kept = added & (later - np.repeat(ends, sizes) <= np.repeat(left, sizes))
    return np.sort(order[kept])
