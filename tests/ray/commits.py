"""What a job has committed to a table that several tests share."""

import pyarrow.compute as pc

import pkray


def appended(table: pkray.Table, job: str) -> list[int]:
    """The identifiers of a job's commits."""
    is_its = (pc.field("commit_kind") == "APPEND") & (pc.field("commit_user") == job)
    return table.snapshots().filter(is_its)["commit_identifier"].to_pylist()
