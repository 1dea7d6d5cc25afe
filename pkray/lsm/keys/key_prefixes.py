"""Leading parts of keys, by which all rows are found whose key begins so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pkray.lsm.keys.keys import NormalizedKeys

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class KeyPrefixes:
    """Values of the leading key columns, some of them asked for more than once.

    Those with a null are in no key. Strings are whole values, not the beginnings of some.

    Args:
        columns: of what is asked for, a row a question.
    """

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        asked = np.flatnonzero(
            np.logical_and.reduce([c.is_valid().to_numpy(zero_copy_only=False) for c in columns])
        )
        valid = [column.take(pa.array(asked)) for column in columns]
        keys = NormalizedKeys(valid)
        order, starts = keys.sort()
        self._questions = asked[order]
        self._sizes = np.diff(starts, append=len(order))
        self._starts = starts
        firsts = order[starts]
        self.columns = [column.take(pa.array(firsts)) for column in valid]
        """Each prefix once, ascending."""
        self.keys = keys.taken(firsts, self.columns)

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def width(self) -> int:
        """The number of key columns."""
        return len(self.columns)

    def typed_like(self, columns: Sequence[pa.Array]) -> KeyPrefixes:
        """Cast the prefixes, each once, to these columns' types."""
        if all(a.type == b.type for a, b in zip(self.columns, columns, strict=True)):
            return self
        return KeyPrefixes([a.cast(b.type) for a, b in zip(self.columns, columns, strict=True)])

    def begin(self, columns: Sequence[pa.Array]) -> Bools:
        """Whether keys with these leading columns begin with one of the prefixes: bool, one a
        row."""
        return self.keys.search(NormalizedKeys(columns))[1]

    def answers(self, columns: Sequence[pa.Array]) -> tuple[Ints, Ints]:
        """Match rows to what was asked: positions in it, and the rows that answer each, in the
        rows' order.

        Args:
            columns: the leading key columns of rows that are sorted by key.
        """
        if not len(self) or not len(columns[0]):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows = SortedPrefixes(columns)
        low, high = rows.spans(self)
        each = np.repeat(np.arange(len(self)), self._sizes)
        question, numbers = spread(low[each], high[each])
        return self._questions[question], numbers


class SortedPrefixes:
    """The leading columns of sorted keys; of many keys they may be the same."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._keys = NormalizedKeys(columns)
        self._starts = self._keys.group_starts()

    def __len__(self) -> int:
        return len(self._keys)

    def spans(self, prefixes: KeyPrefixes) -> tuple[Ints, Ints]:
        """Find for each prefix where the keys that begin with it start and end."""
        return self.spans_of(prefixes.keys)

    def spans_of(self, keys: NormalizedKeys) -> tuple[Ints, Ints]:
        """Find as `spans`, for prefixes in any order."""
        low, hit = self._keys.search(keys)
        ends = np.append(self._starts[1:], len(self._keys))
        high = low.copy()
        high[hit] = ends[np.searchsorted(self._starts, low[hit], side="right") - 1]
        return low, high


def spread(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Return all numbers of the ranges ``low .. high``, and which range each is of: int64 both."""
    sizes = np.maximum(high - low, 0)
    which = np.repeat(np.arange(len(sizes)), sizes)
    before = np.cumsum(sizes) - sizes
    return which, np.arange(len(which)) - before[which] + low[which]


@dataclass(frozen=True)
class KeyRanges:
    """Ranges of keys, of each of which the first or the last ones are wanted.

    Args:
        prefixes: the leading key columns, a row a range, without nulls; they may repeat.
        bounds: of the column after them, a row a range: where a range starts (with it), or, if
            the last ones are wanted, ends (without it); None: ranges are all keys that begin so.
        last: whether the last ones are wanted.
    """

    prefixes: Sequence[pa.Array]
    bounds: pa.Array | None = None
    last: bool = False

    def __len__(self) -> int:
        return len(self.prefixes[0])

    @property
    def width(self) -> int:
        """The number of leading key columns."""
        return len(self.prefixes)

    def take(self, numbers: Ints) -> KeyRanges:
        """Take some ranges by number."""
        chosen = pa.array(numbers)
        bounds = None if self.bounds is None else self.bounds.take(chosen)
        return KeyRanges([each.take(chosen) for each in self.prefixes], bounds, self.last)

    @cached_property
    def keys(self) -> NormalizedKeys:
        """The leading columns."""
        return NormalizedKeys(self.prefixes)

    @cached_property
    def bounded(self) -> NormalizedKeys:
        """The leading columns and the bounds."""
        assert self.bounds is not None
        return NormalizedKeys([*self.prefixes, self.bounds])

    def spans(self, leading: SortedPrefixes, whole: NormalizedKeys) -> tuple[Ints, Ints]:
        """Find where each range starts and ends in sorted keys.

        Args:
            leading: the keys' leading columns.
            whole: the keys, with the column after the leading ones.
        """
        low, high = leading.spans_of(self.keys)
        if self.bounds is None:
            return low, high
        at, _ = whole.search(self.bounded)
        return (low, np.minimum(at, high)) if self.last else (np.maximum(at, low), high)

    def cut(self, low: Ints, high: Ints, count: int) -> tuple[Ints, Ints, Bools]:
        """Leave so many keys of each span; tell which spans had more."""
        more = high - low > count
        if self.last:
            return np.maximum(low, high - count), high, more
        return low, np.minimum(high, low + count), more
