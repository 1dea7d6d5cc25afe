"""A snapshot: the JSON file that names everything a table holds at one moment."""

from __future__ import annotations

from typing import Any

import msgspec

from pkray import file_names
from pkray.checksums import check_json, seal_json
from pkray.errors import CorruptFileError

VERSION = 3
APPEND, COMPACT, OVERWRITE, ANALYZE = "APPEND", "COMPACT", "OVERWRITE", "ANALYZE"
BATCH_COMMIT_IDENTIFIER = (1 << 63) - 1


class Snapshot(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, dict=False
):
    """Snapshot JSON, version 3. Times are epoch milliseconds, counts are physical rows.

    Fields a newer Paimon adds are ignored when read. ``commit_identifier`` of a batch commit is
    ``BATCH_COMMIT_IDENTIFIER``.
    """

    version: int | None = None
    id: int
    schema_id: int
    base_manifest_list: str
    base_manifest_list_size: int | None = None
    delta_manifest_list: str
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    commit_user: str
    commit_identifier: int
    commit_kind: str
    time_millis: int
    log_offsets: dict[str, int] | None = None
    total_record_count: int | None = None
    delta_record_count: int | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: dict[str, str] | None = None
    next_row_id: int | None = None
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
    """The snapshot's file: indented JSON with a checksum, absent fields left out.

    Raises:
        msgspec.ValidationError: a value of another type, with which it could not be read again.
    """
    data = _encoder.encode(snapshot)
    _decoder.decode(data)
    return seal_json(msgspec.json.format(data, indent=2))


def decode(data: bytes, path: str) -> Snapshot:
    """Read a snapshot's file.

    Raises:
        CorruptFileError: the bytes are no snapshot; names ``path`` and what is wrong.
    """
    try:
        check_json(data)
        return _decoder.decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        raise CorruptFileError(
            f"snapshot file {path} is damaged ({len(data)} bytes): {error}; "
            "restore it, or go back to an earlier snapshot",
            path=path,
            reason=str(error),
        ) from error


def replace(snapshot: Snapshot, **changes: Any) -> Snapshot:
    """A copy of the snapshot with some fields changed."""
    return msgspec.structs.replace(snapshot, **changes)
