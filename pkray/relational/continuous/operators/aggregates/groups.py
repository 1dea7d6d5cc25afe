"""Changes by groups: which group each change is of, and which retractions find their row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from pkray.columns.keys import codes
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.relational.continuous.changes import Changes, taken
from pkray.relational.continuous.operator import Epoch
from pkray.relational.continuous.state.encoding import identified
from pkray.relational.continuous.state.state import Found

Made = TypeVar("Made")


@dataclass(frozen=True)
class Groups:
    """Changes of one call, by the groups that they are of.

    Attributes:
        changes: those that count.
        of_row: int64, the group of each change, 0 … count - 1.
        arrivals: int64, when each change arrived.
        names: of the key columns.
        first: int64, the first change of each group.
        columns: the keys, a row a group; groups are in the order of their encoded keys, in which
            states find them fastest.
        keys: the same, encoded.
        count: how many groups there are.
        was, there: whether each group had rows before, and has afterwards.
    """

    changes: Changes
    of_row: np.ndarray
    arrivals: np.ndarray
    first: np.ndarray
    names: tuple[str, ...]
    columns: tuple[pa.Array, ...]
    keys: pa.Array
    count: int
    was: np.ndarray
    there: np.ndarray
    _made: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def from_changes(cls, changes: Changes, names: Sequence[str], epoch: Epoch) -> Self:
        """Group changes by columns."""
        columns = changes.columns(names)
        numbers = codes(columns, len(changes), in_order=False)
        first = numbers.first_rows()
        keys = identified(taken(columns, first), numbers.count)
        order = NormalizedKeys([keys]).argsort(stable=False)
        places = np.empty(numbers.count, np.int64)
        places[order] = np.arange(numbers.count)
        first = first[order]
        known = np.ones(numbers.count, bool)
        return cls(
            changes,
            places[numbers.of_row],
            np.arange(epoch.arrival, epoch.arrival + len(changes)),
            first,
            tuple(names),
            tuple(taken(columns, first)),
            keys.take(order),
            numbers.count,
            known,
            known,
        )

    @classmethod
    def of_keys(cls, changes: Changes, names: Sequence[str], columns: Sequence[pa.Array]) -> Self:
        """Make groups of which nothing changed, in the order given.

        Args:
            changes: none, of the rows that groups are made of.
            columns: the keys, a row a group; one at least.
        """
        known = np.ones(len(columns[0]), bool)
        nothing = np.zeros(0, np.int64)
        return cls(
            changes,
            nothing,
            nothing,
            np.arange(len(known)),
            tuple(names),
            tuple(columns),
            identified(columns),
            len(known),
            known,
            known,
        )

    @property
    def signs(self) -> np.ndarray:
        """1 for each change that adds a row, -1 for one that retracts it."""
        return self.changes.signs

    def moving(self, was: np.ndarray, there: np.ndarray, kept: np.ndarray | None) -> Self:
        """Say which groups had rows and have some now; leave out changes that do not count.

        Args:
            kept: which changes count; None: all.
        """
        if kept is None:
            return replace(self, was=was, there=there, _made={})
        rows = np.flatnonzero(kept)
        return replace(
            self,
            changes=self.changes.take(rows),
            of_row=self.of_row[rows],
            arrivals=self.arrivals[rows],
            was=was,
            there=there,
            _made={},
        )

    def once(self, key: Any, make: Callable[[], Made]) -> Made:
        """Make something of these changes, for the first who asks; give it to the others."""
        if key not in self._made:
            self._made[key] = make()
        result: Made = self._made[key]
        return result

    @cached_property
    def in_order(self) -> np.ndarray:
        """The groups in the order in which they first occur."""
        return np.argsort(self.first)

    def describe(self, group: int) -> str:
        """Name a group in a message."""
        pairs = zip(self.names, self.columns, strict=True)
        return ", ".join(f"{name} = {column[group].as_py()}" for name, column in pairs)


def aligned(found: Found, count: int) -> list[pa.Array]:
    """Give the columns of what was found with a row for each key that was asked; NULLs for none."""
    if len(found.positions) == count:
        return list(found.rows.columns)
    places = np.full(count, -1)
    places[found.positions] = np.arange(len(found.positions))
    rows = pa.array(places, mask=places < 0)
    return [column.take(rows) for column in found.rows.columns]


def counted(
    groups: np.ndarray, signs: np.ndarray, before: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Count rows a group, one change after the other; a retraction that finds no row is swallowed.

    Args:
        groups: int64, one a change.
        signs: 1 or -1, one a change.
        before: int64, rows of each group.

    Returns:
        rows of each group afterwards, and which changes were not swallowed (None: all).
    """
    count = len(before)
    adds = np.bincount(groups[signs > 0], minlength=count)
    if len(groups) == int(adds.sum()):
        return before + adds, None
    retracted = np.bincount(groups[signs < 0], minlength=count)
    after = before + adds - retracted
    doubtful = before < retracted
    if not doubtful.any():
        return after, None
    rows = np.flatnonzero(doubtful[groups])
    rows = rows[np.argsort(groups[rows], kind="stable")]
    swallowed = rows[_below_zero(groups[rows], signs[rows], before)]
    after += np.bincount(groups[swallowed], minlength=count)
    kept = np.ones(len(groups), bool)
    kept[swallowed] = False
    return after, kept


def _below_zero(groups: np.ndarray, signs: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Whether each change of sorted groups lowers its group's count to where it never was."""
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
    number = np.cumsum(np.r_[False, groups[1:] != groups[:-1]])
    sums = np.cumsum(signs)
    running = sums - np.r_[0, sums[starts[1:] - 1]][number] + before[groups]
    # groups lie below one another, so that one pass finds the least of each so far
    floor = -number * (int(np.abs(running).max()) + 2)
    least = np.minimum.accumulate(np.minimum(running, 0) + floor)
    so_far = np.r_[0, least[:-1]]
    so_far[starts] = floor[starts]
    return running + floor < so_far
