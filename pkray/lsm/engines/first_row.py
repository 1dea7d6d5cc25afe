"""The first row of a key wins, whole."""

import numpy as np
import pyarrow as pa

from pkray.errors import MergeError
from pkray.lsm.keys.key_groups import KeyGroups
from pkray.lsm.merge.merge_function import MergeEngine, is_add
from pkray.schema.table_schema import KIND


class FirstRow(MergeEngine):
    """-U and -D are refused; ``ignore-delete`` drops them before they get here."""

    needs_order = False
    keeps_first = True
    images_replace = True

    def merge(self, groups: KeyGroups, *, always: bool = False) -> pa.RecordBatch:
        position = groups.rows.schema.get_field_index(KIND)
        if position >= 0:
            kinds = groups.rows.column(position).to_numpy()[groups.order]
            if not is_add(pa.array(kinds)).all():
                raise MergeError(
                    "a first-row table does not take -U and -D rows; set 'ignore-delete' = 'true' "
                    "to drop them",
                    merge_engine="first-row",
                )
        return groups.take(_oldest(groups))


def _oldest(groups: KeyGroups) -> np.ndarray:
    if len(groups.starts) == len(groups.order) or groups.ordered:
        return groups.order[groups.starts]
    return np.minimum.reduceat(groups.order, groups.starts)
