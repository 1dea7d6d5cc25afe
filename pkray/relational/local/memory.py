"""Bound what operators hold, and set rows beyond it aside on the local disk.

::

    batches ──▶ held ──(more than `share`)──▶ divided by the hash of their keys ──▶ part by part

Rows of equal keys are in one part, so that each part is computed by itself. A part that is still
too large is divided again, by another hash. Files have no names on the disk: they are gone with the
run, or with the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from pkray.columns.batches import parts, table_of
from pkray.errors import UnsupportedError
from pkray.relational.functions.hashing.rows import row_hashes
from pkray.relational.local import threads
from pkray.relational.plan import nodes
from pkray.relational.plan.fields import Fields
from pkray.storage.spill import Spill, SpilledBatches, SpillSettings

PARTS = 16
"""Parts that rows are divided into: as many files are open at once."""

LEVELS = 6
"""Most divisions, one inside the other: 16^6 parts."""

WRITTEN_ROWS = 1 << 16
"""Rows that are divided at once, so that pieces of parts are worth a write."""

OF_MACHINE = 2
"""By default a run may hold this part of the machine's memory."""

COPIES = 2
"""Operators copy what they hold, to sort it or to have it in one piece."""

HOLDING = (
    *(
        nodes.Aggregate,
        nodes.Deduplicate,
        nodes.Distinct,
        nodes.IntervalJoin,
        nodes.Join,
        nodes.Over,
        nodes.SetOperation,
        nodes.Sort,
        nodes.TemporalJoin,
    ),
    *(nodes.TopN, nodes.Window),
)
Batches: TypeAlias = Iterator[pa.RecordBatch]
Rows = TypeVar("Rows")


@dataclass(frozen=True)
class Side:
    """Rows of one side of a pair, and the keys that pair them with the other's."""

    rows: Batches
    keys: Sequence[str]
    fields: Fields


@dataclass(frozen=True)
class Memory:
    """Bounds what the operators of a run hold.

    Attributes:
        given: bytes, as the user said; None: not said.
        share: bytes that one operator may hold before it sets rows aside.
        most: bytes that rows may take that cannot be divided.
    """

    given: int | None
    share: int
    most: int

    @staticmethod
    def of(plan: nodes.Node, given: int | None) -> Memory:
        """Divide memory among the operators of a plan that hold rows."""
        total = given or machine_memory() // OF_MACHINE
        holding = sum(_holds(node) for node in plan.walk())
        return Memory(given, max(total // (COPIES * max(holding, 1)), 1), total)

    @property
    def piece(self) -> int:
        """Bytes of rows that an operator takes at once: each thread has some, and one waits."""
        return max(self.share // max(threads.THREADS + 2, 4), 1)

    def held(self, node: nodes.Node, batches: Iterable[pa.RecordBatch]) -> Batches:
        """Pass on batches that an operator has to keep as a whole.

        Raises:
            UnsupportedError: they take more than there is.
        """
        size = 0
        for batch in batches:
            size += batch.nbytes
            if size > self.most:
                raise self._refusal(node)
            yield batch

    def _refusal(self, node: nodes.Node) -> UnsupportedError:
        name = type(node).__name__
        said = f"memory={self.given}" if self.given else f"the {self.most} that a run may take"
        return UnsupportedError(
            f"{name} needs rows at once that take more than {said} bytes, and cannot divide them "
            "by a key: give more memory, select fewer columns or rows, or run on Spark",
            node=name,
            memory=self.most,
        )

    def first(self, batches: Batches) -> tuple[list[pa.RecordBatch], bool]:
        """Take batches until they pass the share; and say whether they do."""
        taken: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            taken.append(batch)
            size += batch.nbytes
            if size > self.share:
                return taken, True
        return taken, False

    def by_keys(
        self, batches: Batches, keys: Sequence[str], level: int = 0
    ) -> Iterator[tuple[Batches, bool]]:
        """Give rows in parts, those of equal keys in one: all in one, if they fit.

        Returns:
            the rows of each part, and whether they fit: those that do not cannot be divided.
        """
        taken, more = self.first(batches)
        rows = chain(drained(taken), batches)
        if not more or not can_divide(keys, level):
            yield rows, not more
            return
        lists = self.divided(rows, keys, level)
        total = sum(each.rows for each in lists)
        for part in lists:
            if part.rows:
                below = level + 1 if part.rows < total else LEVELS
                yield from self.by_keys(part.read(), keys, below)

    def tables(
        self, node: nodes.Node, batches: Batches, keys: Sequence[str], fields: Fields
    ) -> Iterator[pa.Table]:
        """Give rows as tables, rows of equal keys in one: all in one, if they fit.

        Raises:
            UnsupportedError: rows that cannot be divided take more than there is.
        """
        for rows, fits in self.by_keys(batches, keys):
            yield table_of(rows if fits else self.held(node, rows), fields.arrow)

    def pairs(
        self, sides: Sequence[Side], node: nodes.Node, level: int = 0
    ) -> Iterator[tuple[pa.Table, ...]]:
        """Give the rows of both sides as tables, rows of equal keys in one pair: as `tables`."""
        if not can_divide(sides[0].keys, level):
            yield tuple(table_of(self.held(node, side.rows), side.fields.arrow) for side in sides)
            return
        firsts = [self.first(side.rows) for side in sides]
        if not any(more for _, more in firsts):
            rows = zip(firsts, sides, strict=True)
            yield tuple(table_of(taken, side.fields.arrow) for (taken, _), side in rows)
            return
        lists = [
            self.divided(chain(drained(taken), side.rows), side.keys, level)
            for (taken, _), side in zip(firsts, sides, strict=True)
        ]
        rows_of = [sum(part.rows for part in each) for each in lists]
        for both in zip(*lists, strict=True):
            helped = all(part.rows < rows for part, rows in zip(both, rows_of, strict=True) if rows)
            parted = [
                Side(part.read(), side.keys, side.fields)
                for part, side in zip(both, sides, strict=True)
            ]
            if any(part.rows for part in both):
                yield from self.pairs(parted, node, level + 1 if helped else LEVELS)

    def divided(
        self, batches: Iterable[pa.RecordBatch], keys: Sequence[str], level: int
    ) -> list[SpilledBatches]:
        """Write rows to lists on the disk, those of equal keys to one; their order stays."""
        lists = [self.open() for _ in range(PARTS)]
        for table in parts(batches, WRITTEN_ROWS, self.piece):
            (rows,) = table.combine_chunks().to_batches()
            hashes = row_hashes(level, [rows[key] for key in keys], rows.num_rows)
            places = (hashes % np.uint64(PARTS)).astype(np.int8)
            order = np.argsort(places, kind="stable")
            ends = np.cumsum(np.bincount(places, minlength=PARTS))
            sorted_rows = rows.take(pa.array(order))
            for start, end, part in zip((0, *ends), ends, lists, strict=False):
                if start < end:
                    part.append(sorted_rows.slice(start, end - start))
        return [part.finish() for part in lists]

    def set_aside(self, batches: Iterable[pa.RecordBatch], kept: int = 0) -> SpilledBatches:
        """Write batches to one list, which keeps the first bytes in memory."""
        made = self.open(kept)
        for batch in batches:
            made.append(batch)
        return made.finish()

    def open(self, kept: int = 0) -> SpilledBatches:
        """Make a list of batches on the disk, which keeps so many bytes in memory."""
        return Spill(SpillSettings(kept, "lz4")).open()


def can_divide(keys: Sequence[str], level: int) -> bool:
    """Whether rows can be divided by keys, inside so many divisions."""
    return bool(keys) and level < LEVELS


def drained(held: list[Rows]) -> Iterator[Rows]:
    """Yield what a list holds and let go of each."""
    held.reverse()
    while held:
        yield held.pop()


def _holds(node: nodes.Node) -> bool:
    match node:
        case nodes.Aggregate():
            return bool(node.keys)
        case nodes.SetOperation():
            return node.kind is not nodes.SetKind.UNION or not node.all
        case nodes.Window():
            return node.kind is nodes.WindowKind.SESSION
    return isinstance(node, HOLDING)


@cache
def machine_memory() -> int:
    """Give the bytes of memory that this machine, or this container, has."""
    known = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            known.append(int(Path("/sys/fs/cgroup", file).read_text()))
    return min(known)
