"""Index files: what a table knows of a bucket besides its data files."""

import msgspec

from pkray.arguments.file_names import checked
from pkray.errors import UnsupportedError
from pkray.format import paths

HASH = "HASH"
"""The key hashes of a dynamic bucket: big-endian int32, one a key."""
DELETION_VECTORS = "DELETION_VECTORS"
"""The rows of data files above level 0 that newer rows have replaced."""


class DeletionVectorRange(msgspec.Struct, frozen=True):
    """Locates a data file's deletion vector in its index file (bytes)."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


class IndexFileMeta(msgspec.Struct, frozen=True, kw_only=True):
    """One index file of a bucket, below the table's ``index`` folder.

    Args:
        index_type: `HASH` or `DELETION_VECTORS`.
        row_count: hashes or vectors in it.
    """

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_vectors: tuple[DeletionVectorRange, ...] | None = None
    external_path: str | None = None

    def __post_init__(self) -> None:
        checked(self.file_name)


def own_path(file: IndexFileMeta) -> str:
    """Say where an index file lies, relative to the table's root.

    Raises:
        UnsupportedError: it lies outside the table.
    """
    if file.external_path is not None:
        raise UnsupportedError(
            f"the index file {file.external_path!r} lies outside the table, which is not "
            "supported: compact the table fully with the engine that wrote it",
            path=file.external_path,
        )
    return paths.index(file.file_name)
