"""A snapshot: the JSON file that names everything a table holds at one moment."""

from __future__ import annotations

from typing import Any

import msgspec

from pkray.arguments import file_names
from pkray.checksums import seal_json
from pkray.errors import CorruptFileError
from pkray.json_files import Id, Long, Millis, SnapshotId
from pkray.json_files import decode as decode_json
from pkray.shown import html_values, time_text

VERSION = 3
APPEND, COMPACT, OVERWRITE, ANALYZE = "APPEND", "COMPACT", "OVERWRITE", "ANALYZE"
BATCH_COMMIT_IDENTIFIER = (1 << 63) - 1
CARRIED = "pkray.place."
"""Begins the names of properties that later snapshots have too, unless their commits set them."""


class Snapshot(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, weakref=True
):
    """Snapshot JSON, version 3. Times are epoch milliseconds, counts are physical rows.

    Fields a newer Paimon adds are ignored when read. ``commit_identifier`` of a batch commit is
    ``BATCH_COMMIT_IDENTIFIER``.
    """

    version: Long | None = None
    id: SnapshotId
    schema_id: Id
    base_manifest_list: str
    base_manifest_list_size: Id | None = None
    delta_manifest_list: str
    delta_manifest_list_size: Id | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: Id | None = None
    index_manifest: str | None = None
    commit_user: str
    commit_identifier: Long
    commit_kind: str
    time_millis: Millis
    log_offsets: dict[str, Long] | None = None
    total_record_count: Long | None = None
    delta_record_count: Long | None = None
    changelog_record_count: Long | None = None
    watermark: Long | None = None
    statistics: str | None = None
    properties: dict[str, str] | None = None
    next_row_id: Long | None = None
    operation: str | None = None
    writer_version: str | None = None
    uuid: str | None = None

    def __post_init__(self) -> None:
        for name in self.file_names:
            file_names.checked(name)

    @property
    def file_names(self) -> list[str]:
        """Of the manifest lists, the index manifest and the statistics that it has."""
        named = (
            self.base_manifest_list,
            self.delta_manifest_list,
            self.changelog_manifest_list,
            self.index_manifest,
            self.statistics,
        )
        return [name for name in named if name is not None]

    def __repr__(self) -> str:
        commit = f"{self.commit_kind}, {self.commit_user!r}, {self.commit_identifier}"
        rows = "" if self.total_record_count is None else f", {self.total_record_count} records"
        return f"Snapshot({self.id}, {commit}, {time_text(self.time_millis)}{rows})"

    def _repr_html_(self) -> str:
        said = {name: getattr(self, name) for name in self.__struct_fields__}
        return html_values(f"snapshot {self.id}", {**said, "time": time_text(self.time_millis)})

    def is_same(self, other: Snapshot | None) -> bool:
        """Whether both are one commit's: in a tag, other engines leave out fields that they do
        not know."""
        if other is None:
            return False
        mine = self.id, self.base_manifest_list, self.delta_manifest_list
        return mine == (other.id, other.base_manifest_list, other.delta_manifest_list)


_decoder = msgspec.json.Decoder(Snapshot)
_encoder = msgspec.json.Encoder()


def encode(snapshot: Snapshot) -> bytes:
    """Make the snapshot's file: indented JSON with a checksum, absent fields left out.

    Raises:
        msgspec.ValidationError: a value of another type, with which it could not be read again.
    """
    data = _encoder.encode(snapshot)
    _decoder.decode(data)
    return seal_json(msgspec.json.format(data, indent=2))


def decode(data: bytes, path: str, number: int | None = None) -> Snapshot:
    """Read a snapshot's file.

    Args:
        number: its id by its name.

    Raises:
        CorruptFileError: the bytes are no snapshot; names ``path`` and what is wrong.
    """
    try:
        snapshot = decode_json(data, _decoder)
        if number is not None and snapshot.id != number:
            raise ValueError(f"it holds snapshot {snapshot.id}")
        if snapshot.changelog_record_count and snapshot.changelog_manifest_list is None:
            raise ValueError("it counts changes, and names no list of them")
    except ValueError as error:
        raise CorruptFileError(
            f"snapshot file {path} is damaged ({len(data)} bytes): {error}; "
            "restore it, or go back to an earlier snapshot",
            path=path,
            reason=str(error),
        ) from error
    return snapshot


def replace(snapshot: Snapshot, **changes: Any) -> Snapshot:
    """Copy the snapshot with some fields changed."""
    return msgspec.structs.replace(snapshot, **changes)
