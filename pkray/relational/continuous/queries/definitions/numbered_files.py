"""A value that many processes change, as files: each under the next number, which is taken once.

A store can create a file that is not there, and no more: it cannot replace or delete one on the
condition that it is still the one that was read. So a value is never replaced. Who read number 4
creates number 5, and one of all who try is first. A number that was taken stays taken, also when
the value is gone; so whoever slept meanwhile finds it taken, however long that was.
"""

from pkray.errors import MissingFileError
from pkray.storage.object_store import ObjectStore

_EMPTIED = b"emptied"
"""Stays of a file whose number stays taken; it is shorter than any value that is whole."""


class NumberedFiles:
    """Files ``<prefix><number>``, of which the one with the highest number counts.

    Args:
        store: the folder that they lie below.
        prefix: of their paths.
    """

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    def newest(self) -> tuple[int, bytes | None]:
        """Read the newest number, -1 where there is none, and its value, None if it is emptied."""
        while True:
            sizes = self._sizes()
            number = max(sizes, default=-1)
            if number < 0 or sizes[number] == len(_EMPTIED):
                return number, None
            try:
                data = self._store.read(self.path(number))
            except MissingFileError:  # somebody deleted the whole folder
                continue
            if data != _EMPTIED:
                return number, data

    def add(self, number: int, value: bytes) -> bool:
        """Store a value under a number; false where the number is taken."""
        return self._store.create(self.path(number), value)

    def is_newest(self, number: int) -> bool:
        """Whether no value came after a number; one request."""
        return not self._store.exists(self.path(number + 1))

    def empty(self, until: int) -> None:
        """Delete the values up to a number, and the one of it last; the numbers stay taken."""
        for number, size in sorted(self._sizes().items()):
            if number <= until and size != len(_EMPTIED):
                self._store.write(self.path(number), _EMPTIED)

    def path(self, number: int) -> str:
        """Name the file of a number."""
        return f"{self._prefix}{number}"

    def _sizes(self) -> dict[int, int]:
        folder = self._prefix.rpartition("/")[0]
        listed = self._store.list(f"{folder}/", recursive=False)
        ends = {each.path.removeprefix(self._prefix): each.size for each in listed}
        return {int(end): size for end, size in ends.items() if end.isdecimal()}
