"""Batches that wait for their task to be reported as successful."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pkray.errors import LostBatchesError, StorageError
from pkray.service.client import spool
from pkray.service.protocol import RoutedBatch

Attempt = tuple[int, int]
"""(source, attempt)."""


@dataclass
class _Staged:
    files: list[tuple[str, int]] = field(default_factory=list)
    memory: list[RoutedBatch] = field(default_factory=list)
    count: int = 0


class StagingArea:
    """Attempts side by side, each an ordered list of batches.

    Args:
        directory: where batches beyond the memory limit go; removed by `clear`.
        memory_limit: bytes held in memory over all attempts.
    """

    def __init__(self, directory: str, memory_limit: int) -> None:
        self._directory = directory
        self._memory_limit = memory_limit
        self._attempts: dict[Attempt, _Staged] = {}
        self._bytes = 0

    def put(self, attempt: Attempt, index: int, batch: RoutedBatch) -> None:
        """Keep a batch; one delivered before is dropped.

        Raises:
            LostBatchesError: an earlier batch of the attempt is not here.
            StorageFullError: the batch is kept in memory, beyond the limit; deliver no more
                before there is space.
        """
        staged = self._attempts.setdefault(attempt, _Staged())
        if index < staged.count:
            return
        self._expect(attempt, index, staged.count)
        staged.memory.append(batch)
        staged.count += 1
        self._bytes += batch.rows.nbytes
        if self._bytes > self._memory_limit:
            self._spill()

    def put_file(self, attempt: Attempt, index: int, path: str, count: int) -> None:
        """Take over a spool file that holds batches ``index .. index+count``."""
        staged = self._attempts.setdefault(attempt, _Staged())
        if index < staged.count:
            return
        self._expect(attempt, index, staged.count)
        staged.files.append((path, count))
        staged.count += count

    def count(self, attempt: Attempt) -> int:
        """Count the attempt's batches."""
        staged = self._attempts.get(attempt)
        return staged.count if staged else 0

    def take(self, attempt: Attempt) -> Iterator[RoutedBatch]:
        """Yield the attempt's batches in order; what has been yielded is let go."""
        staged = self._attempts.pop(attempt, None)
        if staged is None:
            return
        for path, _ in staged.files:
            yield from spool.read_spool(path)
            spool.remove(path)
        while staged.memory:
            batch = staged.memory.pop(0)
            self._bytes -= batch.rows.nbytes
            yield batch

    def clear(self) -> None:
        """Let go of all batches."""
        for staged in self._attempts.values():
            for path, _ in staged.files:
                spool.remove(path)
        self._attempts.clear()
        self._bytes = 0

    def _spill(self) -> None:
        for (source, attempt), staged in self._attempts.items():
            if not staged.memory:
                continue
            name = f"{source}-{attempt}-{staged.count}.arrow"
            writer = spool.SpoolWriter(f"{self._directory}/{name}")
            try:
                for batch in staged.memory:
                    writer.append(batch)
                writer.close()
            except StorageError:  # the batches are still in memory, and count as delivered
                spool.remove(writer.path)
                raise
            staged.files.append((writer.path, writer.batches))
            staged.memory.clear()
        self._bytes = 0

    @staticmethod
    def _expect(attempt: Attempt, index: int, expected: int) -> None:
        if index != expected:
            source, number = attempt
            raise LostBatchesError(
                f"batch {index} of source {source} attempt {number} came, but {expected} was "
                "to come next: the owner restarted or a batch was lost; push the attempt again",
                source=source,
                attempt=number,
                expected=expected,
                got=index,
            )
