"""Reports what planning a read found: counts of how much of a table it touches."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pkray.arguments.facade import checked_class
from pkray.scan.file_set import FileSet
from pkray.scan.pruning import Pruned
from pkray.shown import html_table, html_values


@checked_class
@dataclass(frozen=True)
class ScanReport:
    """Counts what a read touches, and what of the table it does not. Prints as a table.

    Args:
        table: ``database.table``.
        snapshot_id: None on a table without snapshots.
        columns: what is yielded.
        filter: as it was understood; None without one.
        manifests_total, manifests_read: after pruning by partition and bucket.
        files_total, files_read: data files of the snapshot, and those left to read.
        files_by_partition, files_by_bucket, files_by_key, files_by_value: left out by each, in
            this order; ``files_by_level`` are of level 0 where the table shows only what was
            compacted.
        bytes_total, bytes_read: sizes of these files.
        rows_total, rows_at_most: rows in these files; merging and the filter leave at most so many.
        buckets_total, buckets_read: buckets (of a partition) with files.
        partitions_total, partitions_read: partitions with files.
        splits: parts that can be read apart.
    """

    table: str = ""
    snapshot_id: int | None = None
    columns: tuple[str, ...] = ()
    filter: str | None = None
    manifests_total: int = 0
    manifests_read: int = 0
    files_total: int = 0
    files_read: int = 0
    files_by_level: int = 0
    files_by_partition: int = 0
    files_by_bucket: int = 0
    files_by_key: int = 0
    files_by_value: int = 0
    bytes_total: int = 0
    bytes_read: int = 0
    rows_total: int = 0
    rows_at_most: int = 0
    buckets_total: int = 0
    buckets_read: int = 0
    partitions_total: int = 0
    partitions_read: int = 0
    splits: int = 0

    def __repr__(self) -> str:
        at = "no snapshot" if self.snapshot_id is None else f"snapshot {self.snapshot_id}"
        files = f"{self.files_read} of {self.files_total} files"
        rows = f"at most {self.rows_at_most} of {self.rows_total} rows"
        return f"ScanReport({self.table!r}, {at}, {files}, {rows})"

    def _repr_html_(self) -> str:
        asked = {"columns": ", ".join(self.columns), "filter": self.filter, "splits": self.splits}
        rows = [(name, read, total) for name, read, total in self._counts()]
        caption = str(self).partition("\n")[0]
        return html_table(caption, rows, ("", "read", "of")) + html_values("", asked)

    def _counts(self) -> list[tuple[str, int, int]]:
        """List what there is, how much of it is read, and of how much."""
        return [
            ("manifests", self.manifests_read, self.manifests_total),
            ("partitions", self.partitions_read, self.partitions_total),
            ("buckets", self.buckets_read, self.buckets_total),
            ("files", self.files_read, self.files_total),
            ("bytes", self.bytes_read, self.bytes_total),
            ("rows", self.rows_at_most, self.rows_total),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the counts by name, for JSON."""
        return {**asdict(self), "columns": list(self.columns)}

    def __str__(self) -> str:
        snapshot = "no snapshot yet" if self.snapshot_id is None else f"snapshot {self.snapshot_id}"
        lines = [
            f"scan of {self.table} at {snapshot}",
            f"columns     {', '.join(self.columns)}",
            f"filter      {self.filter or '-'}",
            f"{'':<11} {'read':>15} {'of':>15}",
        ]
        for name, read, total in self._counts():
            lines.append(f"{name:<11} {read:>15,} {total:>15,}")
        lines.append(f"splits      {self.splits:>15,}")
        pruned = {
            "partition": self.files_by_partition,
            "bucket": self.files_by_bucket,
            "key": self.files_by_key,
            "value statistics": self.files_by_value,
            "level 0": self.files_by_level,
        }
        said = ", ".join(f"{count:,} by {name}" for name, count in pruned.items() if count)
        lines.append(f"left out    {said or 'no file'}")
        return "\n".join(lines)


def counted(files: FileSet, pruned: Pruned) -> ScanReport:
    """Return the counts that are of files."""
    indices, partitions = files.partitions
    sizes, rows, places = files.numbers("size"), files.numbers("rows"), pruned.places
    return ScanReport(
        files_total=len(files),
        files_read=len(places),
        files_by_level=pruned.by_level,
        files_by_partition=pruned.by_partition,
        files_by_bucket=pruned.by_bucket,
        files_by_key=pruned.by_key,
        files_by_value=pruned.by_value,
        bytes_total=int(sizes.sum()),
        bytes_read=int(sizes[places].sum()),
        rows_total=int(rows.sum()),
        rows_at_most=int(rows[places].sum()),
        buckets_total=_buckets(files, np.arange(len(files))),
        buckets_read=_buckets(files, places),
        partitions_total=len(partitions),
        partitions_read=len(np.unique(indices[places])),
    )


def _buckets(files: FileSet, places: npt.NDArray[np.intp]) -> int:
    pairs = np.stack([files.partitions[0][places], files.numbers("bucket")[places]], axis=1)
    return len(np.unique(pairs, axis=0))
