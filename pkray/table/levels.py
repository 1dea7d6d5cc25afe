"""Sums up the files of a table's buckets by level."""

import pyarrow as pa

from pkray.drawings import Level

_SUMS = (("file_size_in_bytes", "sum"), ("record_count", "sum"), ("file_path", "count"))


def levels_of(files: pa.Table) -> dict[tuple[str, int], list[Level]]:
    """Sum up files by the partition and the number of their bucket.

    Args:
        files: as of ``Table.files``.
    """
    if not files.num_rows:
        return {}
    keys = ["partition", "bucket", "level"]
    sums = files.group_by(keys, use_threads=False).aggregate(list(_SUMS))
    found: dict[tuple[str, int], list[Level]] = {}
    for each in sums.sort_by([(name, "ascending") for name in keys]).to_pylist():
        level = Level(
            each["level"],
            each["file_size_in_bytes_sum"],
            each["record_count_sum"],
            each["file_path_count"],
        )
        found.setdefault((each["partition"], each["bucket"]), []).append(level)
    return found
