"""Keep what an aggregation needs of each group, and compute its results."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from pkray.relational.continuous.operator import Context
from pkray.relational.continuous.operators.aggregates.calls import Calls
from pkray.relational.continuous.operators.aggregates.groups import Groups
from pkray.relational.continuous.operators.aggregates.merging import Numbers, Restored
from pkray.relational.plan.nodes import Aggregate


class Fold:
    """Keeps what the aggregates of a node are computed of; those that keep the same share it.

    Attributes:
        columns: what the state has of a group beside its keys and its number of rows.

    Args:
        retracts: whether rows are taken out again.
    """

    def __init__(self, node: Aggregate, *, retracts: bool) -> None:
        self._names = [name for name, _ in node.aggregates]
        self._calls = Calls(node.input.fields, node.aggregates, retracts=retracts)
        self._accumulators = self._calls.accumulators
        self.columns = [
            pa.field(f"{self._owner(place)}_{name}", kind)
            for place, each in enumerate(self._accumulators)
            for name, kind in each.columns
        ]
        ends = [0, *accumulate(len(each.columns) for each in self._accumulators)]
        self._places = {
            id(each): slice(start, end)
            for each, start, end in zip(self._accumulators, ends, ends[1:], strict=False)
        }

    def open(self, context: Context) -> None:
        """Open the states beside the one that has `columns`."""
        self._calls.open(context)

    def _owner(self, place: int) -> str:
        """Name the first aggregate that reads an accumulator."""
        part = self._accumulators[place]
        calls = zip(self._names, self._calls.computed, strict=True)
        return next(name for name, each in calls if any(part is own for own in each.parts))

    def advance(self, before: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        """Take the changes of groups.

        Args:
            before: `columns`, a row a group; NULL for groups that are new.

        Returns:
            the same afterwards.
        """
        after: list[pa.Array] = []
        for each in self._accumulators:
            after += each.advance(before[self._places[id(each)]], groups)
        return after

    def results(self, kept: Sequence[pa.Array], rows: np.ndarray, groups: Groups) -> list[pa.Array]:
        """Give the aggregates of groups.

        Args:
            kept: `columns`, a row a group.
            rows: int64, how many rows each has.
        """
        return [
            call.finish(
                [each for part in call.parts for each in kept[self._places[id(part)]]], rows, groups
            )
            for call in self._calls.computed
        ]

    def mergeable(self, kept: Sequence[pa.Array]) -> tuple[list[Numbers], Restored]:
        """Give what is kept as numbers that can be merged, and how to make columns of merged ones.

        Args:
            kept: `columns`, a row a group.
        """
        made = [each.mergeable(kept[self._places[id(each)]]) for each in self._accumulators]
        ends = [0, *accumulate(len(numbers) for numbers, _ in made)]

        def restored(merged: Sequence[np.ndarray]) -> list[pa.Array]:
            pairs = zip(made, ends, ends[1:], strict=False)
            return [each for (_, own), low, high in pairs for each in own(merged[low:high])]

        return [each for numbers, _ in made for each in numbers], restored

    def forget(self, keys: pa.Array) -> None:
        """Remove groups from the states beside the main one.

        Args:
            keys: as `Groups` encodes them.
        """
        self._calls.forget(keys)
