"""Join Ray Data and tables: Datasets of rows and of changes, and a sink for Datasets.

::

    read:  ScanPlanner in the driver ─▶ Splits ─▶ read tasks ─▶ blocks
    sink:  blocks ─▶ write tasks push to owners;  reports ─▶ driver ─▶ one commit

`read` and `changes` are Datasets of one moment, and of the changes of some snapshots
(``table_source``); columns that a Dataset selects and what it filters are pushed
down. `sink` goes to ``Dataset.write_datasink`` (``table_sink``). Rows pass from
tasks to owners and from files to tasks, none through the driver.
"""

from typing import TYPE_CHECKING

from pkray.extras import require_extra
from pkray.lazily import opened_lazily

if TYPE_CHECKING:
    from pkray.ray_data.table_sink import TableSink, sink
    from pkray.ray_data.table_source import changes, read

__all__ = ["TableSink", "changes", "read", "sink"]

for _package in ("ray", "pandas"):
    require_extra("ray-data", _package, "pkray.ray_data")

__getattr__, __dir__ = opened_lazily(
    __name__,
    {
        "TableSink": "table_sink",
        "changes": "table_source",
        "read": "table_source",
        "sink": "table_sink",
    },
)
