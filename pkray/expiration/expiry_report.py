"""Counts what an expiry removed, or would remove."""

from __future__ import annotations

import msgspec

from pkray.shown import html_values


class ExpiryReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts; reports add up.

    Args:
        snapshots: snapshots that are no more.
        changelogs: changelogs, of those that outlived their snapshots.
        data_files: data files, changelog files included.
        data_bytes: of the data files, without the files beside them.
        metadata_files: manifests, manifest lists, index files and statistics.
        held_by: consumers for which snapshots or changelogs stay that would expire otherwise:
            readers that have still to read them, continuous queries and their savepoints.
    """

    snapshots: int = 0
    changelogs: int = 0
    data_files: int = 0
    data_bytes: int = 0
    metadata_files: int = 0
    held_by: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        return html_values("removed by expiry", msgspec.structs.asdict(self))

    def __add__(self, other: ExpiryReport) -> ExpiryReport:
        return ExpiryReport(
            snapshots=self.snapshots + other.snapshots,
            changelogs=self.changelogs + other.changelogs,
            data_files=self.data_files + other.data_files,
            data_bytes=self.data_bytes + other.data_bytes,
            metadata_files=self.metadata_files + other.metadata_files,
            held_by=tuple(sorted({*self.held_by, *other.held_by})),
        )
