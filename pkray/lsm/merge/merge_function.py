"""Define what a merge engine is, and the steps that engines share."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pkray.lsm.keys.key_groups import KeyGroups
from pkray.schema.row_kind import DELETE, UPDATE_BEFORE
from pkray.schema.table_schema import KIND


class MergeEngine(ABC):
    """Merges the rows of each key into one.

    Attributes:
        needs_order: it looks at more than the newest row of a key.
        keeps_newest: the merged row is the newest one by arrival, whatever was there before; so
            a row need not be merged with those of older levels to be right.
        keeps_first: the merged row is the oldest one, whatever comes after it.
        images_replace: merging a row that holds all before it with an older one of that kind gives
            that row: readers need not know that it does.
        whole_above_0: rows above level 0 have been merged with all that is older, so of a key's
            only the newest counts (see `newest_images`).
        single_version: two such rows of a key are better avoided: some readers, though not Paimon's
            Java core, merge them, and would count twice.
        drops_passing: a key that comes and goes before it is first written is not written.
        deletes_reset: rows after a -D are merged as if nothing had been before it. A row that is
            merged of both cannot say so to older ones: they are kept apart (`cut_at_deletes`).
    """

    needs_order: bool = True
    keeps_newest: bool = False
    keeps_first: bool = False
    images_replace: bool = False
    whole_above_0: bool = False
    single_version: bool = False
    drops_passing: bool = False
    deletes_reset: bool = False

    @abstractmethod
    def merge(self, groups: KeyGroups, *, always: bool = False) -> pa.RecordBatch:
        """Merge one row a key, in the groups' order, with the columns of ``groups.rows``.

        A key that is not there after merging comes as a -D or -U.

        Args:
            always: merge keys of a single row too; else these come as they are.

        Raises:
            MergeError: rows that the engine refuses.
        """

    def incoming(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Turn rows that come in into what the table keeps of them."""
        return rows

    def also_needed(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns without which these cannot be merged."""
        return ()


def newest_images(engine: MergeEngine, groups: KeyGroups, is_image: np.ndarray) -> KeyGroups:
    """Leave out older rows that a newer one of their key has been merged with.

    Args:
        is_image: for each row of ``groups.rows``, whether it is of a level above 0.
    """
    if not engine.whole_above_0 or len(groups) == len(groups.order):
        return groups
    image = is_image[groups.order]
    place = np.arange(len(image))
    newest = np.maximum.reduceat(np.where(image, place, -1), groups.starts)
    kept = ~image
    kept[newest[newest >= 0]] = True
    if kept.all():
        return groups
    before = np.cumsum(kept) - kept
    order = groups.order[kept]
    return KeyGroups(groups.rows, order, before[groups.starts], groups.ordered, groups.taker)


def cut_at_deletes(groups: KeyGroups) -> list[KeyGroups]:
    """Divide keys that have rows after their last -D: into that -D, and the rows after it.

    Returns:
        The groups, or two: the second has the rows that come after a -D.
    """
    is_delete = groups.rows.column(KIND).to_numpy() == DELETE
    if len(groups) == len(groups.order) or not is_delete.any():
        return [groups]
    place = np.arange(len(groups.order))
    last = np.maximum.reduceat(np.where(is_delete[groups.order], place, -1), groups.starts)
    is_cut = np.repeat((last >= 0) & (last < groups.ends - 1), groups.sizes)
    if not is_cut.any():
        return [groups]
    last = np.repeat(last, groups.sizes)
    return [_only(groups, ~is_cut | (place == last)), _only(groups, is_cut & (place > last))]


def _only(groups: KeyGroups, chosen: np.ndarray) -> KeyGroups:
    """Restrict groups to the rows at some places of the order."""
    wanted = np.zeros(groups.rows.num_rows, np.bool_)
    wanted[groups.order[chosen]] = True
    return groups.restrict(wanted)[0]


def is_add(kinds: pa.Array) -> np.ndarray:
    """Whether each row's kind (int8) is +I or +U: bool, one a row."""
    numbers = kinds.to_numpy()
    return (numbers != DELETE) & (numbers != UPDATE_BEFORE)


def without_deletes(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Leave out rows of kind -U and -D; rows without a kind column all stay."""
    position = rows.schema.get_field_index(KIND)
    if position < 0:
        return rows
    kept = is_add(rows.column(position))
    return rows if kept.all() else rows.filter(pa.array(kept))


def count_deletes(rows: pa.RecordBatch) -> int:
    """Count the rows of kind -U and -D."""
    kinds = rows.column(KIND)
    if not kinds.to_numpy().any():
        return 0
    return rows.num_rows - int(is_add(kinds).sum())
