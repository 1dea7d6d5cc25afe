"""Makes the changes of a commit: the messages of all writers under one identifier."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pkray.commit.change import Change
from pkray.commit.index_files import index_changes
from pkray.format.commit_message import CommitMessage
from pkray.format.data_file import ADD, DELETE, DataFileMeta, ManifestEntry
from pkray.format.snapshot import APPEND, COMPACT, OVERWRITE


@dataclass(frozen=True)
class Committable:
    """One commit, and the changes it is made of; Paimon's ManifestCommittable.

    Args:
        user: with the identifier, the name of the commit.
        token: the uuid of the snapshot that rows are published in.
        is_numbered: the identifier is the user's own; else the token names the commit.
        watermark: epoch milliseconds.
        properties: kept in the snapshots.
    """

    user: str
    identifier: int
    messages: Sequence[CommitMessage]
    token: str
    is_numbered: bool
    watermark: int | None = None
    properties: dict[str, str] | None = None

    def appended(self, assigned_at: int | None, base: int | None, generation: int | None) -> Change:
        """Make the change that adds new rows, with their changelog."""
        return Change(
            self.user,
            APPEND,
            self.identifier,
            self.token,
            [e for m in self.messages for e in message_entries(ADD, m, m.new_files)],
            [e for m in self.messages for e in message_entries(ADD, m, m.changelog_files)],
            index_changes(self.messages, APPEND),
            self.watermark,
            self.properties,
            assigned_at,
            base,
            is_numbered=self.is_numbered,
            generation=generation,
        )

    def compacted(self, token: str) -> Change:
        """Make the change that replaces compacted files, with the changelog that compactions
        found."""
        return Change(
            self.user,
            COMPACT,
            self.identifier,
            token,
            [entry for m in self.messages for entry in _compact_entries(m)],
            [e for m in self.messages for e in message_entries(ADD, m, m.compact_changelog_files)],
            index_changes(self.messages, COMPACT),
            self.watermark,
            self.properties,
            upper_files={
                (m.partition, m.bucket): m.upper_files
                for m in self.messages
                if m.has_compact and m.upper_files is not None
            },
        )

    def overwriting(self) -> Change:
        """Make the change of an overwrite, without entries: what it deletes is not known yet."""
        return Change(
            self.user,
            OVERWRITE,
            self.identifier,
            self.token,
            watermark=self.watermark,
            properties=self.properties,
            is_numbered=self.is_numbered,
        )


def message_entries(
    kind: int, message: CommitMessage, files: Iterable[DataFileMeta]
) -> Iterator[ManifestEntry]:
    """Yield the entries of some files of a message's bucket."""
    for file in files:
        yield ManifestEntry(kind, message.partition, message.bucket, message.total_buckets, file)


def _compact_entries(message: CommitMessage) -> Iterator[ManifestEntry]:
    yield from message_entries(DELETE, message, message.compact_before)
    yield from message_entries(ADD, message, message.compact_after)
