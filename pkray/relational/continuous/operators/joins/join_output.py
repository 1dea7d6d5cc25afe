"""Put together the changes that come out of a join, in the order of their causes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batch_of
from pkray.relational.continuous.changes import Changes, interleaved, take
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import Join, JoinKind
from pkray.schema.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

FIRST, NEXT, LAST = 0, 1, 2
"""The order of what comes of one cause."""
NO, YES, UNKNOWN = 0, 1, 2
"""Whether a row has a match, as IN says it."""


def beside(
    is_left: bool, ours: pa.RecordBatch, theirs: pa.RecordBatch | pa.Schema
) -> list[pa.Array]:
    """Put two sides' columns into their order.

    Args:
        is_left: whether `ours` are rows of the left side.
        theirs: of the other; a schema stands for NULLs.
    """
    if isinstance(theirs, pa.Schema):
        others = [pa.nulls(ours.num_rows, kind) for kind in theirs.types]
    else:
        others = theirs.columns
    return [*ours.columns, *others] if is_left else [*others, *ours.columns]


@dataclass
class JoinOutput:
    """Collects the changes that a join gives.

    Attributes:
        fields: of the join.
    """

    fields: Fields
    parts: list[tuple[Changes, np.ndarray]] = field(default_factory=list)

    def add(
        self, columns: Sequence[pa.Array], kinds: np.ndarray, causes: np.ndarray, phase: int
    ) -> None:
        """Add rows.

        Args:
            kinds: one a row.
            causes: int64, numbers of what each row comes from.
            phase: where among the rows of one cause they stand.
        """
        rows = batch_of(columns, self.fields.arrow, len(kinds))
        self.parts.append((Changes(rows, kinds.astype(np.int8)), causes * 3 + phase))

    def changes(self) -> Changes:
        """Give all in the order of their causes."""
        return interleaved(self.fields, self.parts)


@dataclass(frozen=True)
class Answers:
    """Gives left rows by whether they have a match: as semi, anti and mark joins do.

    Answers are int8, one a row: `NO`, `YES` or `UNKNOWN`.
    """

    node: Join
    output: JoinOutput

    def give(
        self, rows: pa.RecordBatch, answers: np.ndarray, kinds: np.ndarray, causes: np.ndarray
    ) -> None:
        """Give rows that are added or taken away, as their kinds say."""
        shown = self._shown(answers)
        self._add(rows, np.flatnonzero(shown), answers, kinds, causes, NEXT)

    def turn(
        self,
        rows: pa.RecordBatch,
        before: np.ndarray,
        after: np.ndarray,
        kinds: np.ndarray,
        causes: np.ndarray,
    ) -> None:
        """Give rows whose answer changes.

        Args:
            kinds: of the other side's changes that do it.
        """
        differs = before != after
        gone = np.flatnonzero(differs & self._shown(before))
        come = np.flatnonzero(differs & self._shown(after))
        kind = self.node.kind
        if kind is JoinKind.ANTI:
            gone_kinds, come_kinds = (np.full(len(rows), each) for each in (DELETE, INSERT))
        elif kind is JoinKind.MARK:
            gone_kinds = np.full(len(rows), UPDATE_BEFORE)
            come_kinds = np.full(len(rows), UPDATE_AFTER)
        else:
            gone_kinds = come_kinds = kinds
        self._add(rows, gone, before, gone_kinds, causes, FIRST)
        self._add(rows, come, after, come_kinds, causes, NEXT)

    def _shown(self, answers: np.ndarray) -> np.ndarray:
        if self.node.kind is JoinKind.MARK:
            return np.ones(len(answers), bool)
        shown: np.ndarray = answers == (YES if self.node.kind is JoinKind.SEMI else NO)
        return shown

    def _add(
        self,
        rows: pa.RecordBatch,
        numbers: np.ndarray,
        answers: np.ndarray,
        kinds: np.ndarray,
        causes: np.ndarray,
        phase: int,
    ) -> None:
        columns = take(rows, numbers).columns
        if self.node.kind is JoinKind.MARK:
            chosen = answers[numbers]
            columns = [*columns, pa.array(chosen == YES, mask=chosen == UNKNOWN)]
        self.output.add(columns, kinds[numbers], causes[numbers], phase)
