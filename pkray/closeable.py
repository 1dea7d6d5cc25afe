"""What a ``with`` block closes."""

from __future__ import annotations

import abc
from types import TracebackType
from typing import Self


class Closeable(abc.ABC):
    """A context manager that closes itself, however its block ends."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of what is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
