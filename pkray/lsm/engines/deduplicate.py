"""The newest row of a key wins, whole; a newest -D or -U removes the key."""

from __future__ import annotations

import pyarrow as pa

from pkray.lsm.key_groups import KeyGroups, take


class Deduplicate:
    needs_order = False
    keeps_newest = True

    def merge(self, groups: KeyGroups) -> pa.RecordBatch:
        return take(groups.rows, groups.newest())
