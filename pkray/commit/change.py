"""One snapshot to be: what it changes of the one before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pkray.commit.index_files import IndexChange
from pkray.format.data_file import ADD, ManifestEntry
from pkray.metadata.live import BucketId


@dataclass(frozen=True)
class Change:
    """The entries of one snapshot, and what must still hold where it is published.

    Args:
        token: the snapshot's uuid, the same in every attempt: by it a lost answer is found again.
        is_numbered: the caller chose the identifier, and repeats the commit by it.
        assigned_at: the snapshot whose hash indexes gave the rows their dynamic buckets; 0 before
            the first.
        base: the snapshot after which the rows were numbered; 0 before the first, None: any will
            do.
        generation: of the writer, which must still be the newest of its user; None: any will do.
        upper_files: of buckets whose files above level 0 must still be those; digests.
    """

    user: str
    kind: str
    identifier: int
    token: str
    entries: Sequence[ManifestEntry] = ()
    changelog: Sequence[ManifestEntry] = ()
    index: Sequence[IndexChange] = ()
    watermark: int | None = None
    properties: dict[str, str] | None = None
    assigned_at: int | None = None
    base: int | None = None
    upper_files: Mapping[BucketId, bytes] = field(default_factory=dict)
    is_numbered: bool = True
    generation: int | None = None

    @property
    def again(self) -> str:
        """Say how to repeat the commit, for messages."""
        return "commit again with this identifier" if self.is_numbered else "commit again"

    @property
    def is_empty(self) -> bool:
        return not (self.entries or self.changelog or self.index)

    @property
    def added_rows(self) -> int:
        return sum((1 if e.kind == ADD else -1) * e.file.row_count for e in self.entries)
