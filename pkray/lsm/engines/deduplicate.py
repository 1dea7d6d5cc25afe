"""The newest row of a key wins, whole; a newest -D or -U removes the key."""

import pyarrow as pa

from pkray.lsm.keys.key_groups import KeyGroups
from pkray.lsm.merge.merge_function import MergeEngine


class Deduplicate(MergeEngine):
    """Keeps the newest row of a key."""

    needs_order = False
    keeps_newest = True
    images_replace = True

    def merge(self, groups: KeyGroups, *, always: bool = False) -> pa.RecordBatch:
        return groups.take(groups.newest())
