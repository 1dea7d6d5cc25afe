"""What an owner hands over for a commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from pkray.format.commit_message import CommitMessage
from pkray.service.committed import BucketId, CommittedFiles
from pkray.service.compaction_planner import CompactionPlanner
from pkray.service.protocol import Chosen
from pkray.service.session import OwnerSession


class CommitPreparation:
    """Chooses the buckets of a commit, and makes their messages."""

    def __init__(self, committed: CommittedFiles, compaction: CompactionPlanner) -> None:
        self._committed = committed
        self._compaction = compaction
        self._interrupted = compaction.interrupted(committed.buckets)

    def note_interrupted(self, buckets: Iterable[BucketId] = ()) -> None:
        """See which buckets a killed commit left to be compacted, and whether these are some."""
        self._interrupted = self._compaction.interrupted({*self._interrupted, *buckets})

    def buckets(
        self, session: OwnerSession, chosen: Chosen | None, full_compact: bool
    ) -> list[BucketId]:
        """Buckets that the session's commit is about.

        Args:
            chosen, full_compact: what the commit is asked to compact.
        """
        written = set(session.writers) | set(self._compaction.compactions.finished())
        written |= self._interrupted & set(self._committed.buckets)
        for bucket in self._committed.buckets:
            asked = chosen is not None and chosen.has(bucket)
            if full_compact or (asked and self._compaction.commits_compact):
                written.add(bucket)
        if chosen is None:
            written.update(self._compaction.overdue(written))
        return sorted(written)

    def compacted_fully(
        self, written: Sequence[BucketId], chosen: Chosen | None, full_compact: bool
    ) -> set[BucketId]:
        """Of these buckets, those that the commit itself compacts into one run."""
        if full_compact:
            return set(written)
        if chosen is not None:
            by_commit = chosen.full and self._compaction.is_inline
            return {bucket for bucket in written if by_commit and chosen.has(bucket)}
        return self._compaction.overdue(written)

    def messages(
        self, session: OwnerSession, written: Iterable[BucketId], full: Collection[BucketId]
    ) -> list[CommitMessage]:
        """Flush the session's writers, with the compactions that have finished beside them."""
        compactions = self._compaction.compactions
        messages = []
        for bucket in written:
            levels, writer = self._committed.levels(bucket), session.writer(bucket)
            writer.rebase(levels)
            finished = compactions.result(bucket, levels)
            if finished is not None:
                writer.adopt(finished)
            busy = compactions.busy(bucket)
            messages.append(writer.prepare_commit(full_compact=bucket in full, busy=busy))
        compactions.handed_over(messages)
        return messages
