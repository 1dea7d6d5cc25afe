"""Define what a ``with`` block closes or aborts at its end."""

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


class Abortable(abc.ABC):
    """A context manager that closes itself, or aborts where its block ends by an exception."""

    @abc.abstractmethod
    def close(self) -> object:
        """Keep what was made."""

    @abc.abstractmethod
    def abort(self) -> None:
        """Give it up."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()
