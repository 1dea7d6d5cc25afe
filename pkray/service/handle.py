"""How one part of the service calls another, in this process or in an actor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from pkray.errors import ServiceUnavailableError


class Pending(Protocol):
    """An answer on its way."""

    def result(self) -> Any:
        """Wait for it.

        Raises:
            ServiceUnavailableError: the callee died or does not answer.
        """
        ...


class Handle(Protocol):
    """Calls methods of an owner or a coordinator."""

    def submit(self, method: str, *args: Any) -> Pending: ...

    def call(self, method: str, *args: Any) -> Any:
        """`submit` and wait, again while the callee restarts: for what may be done twice."""
        ...

    def call_once(self, method: str, *args: Any) -> Any:
        """`submit` and wait; what is not answered may have been done, or not."""
        ...


class LocalHandle:
    """An object of this process; what is submitted runs on one thread of its own, in order, but
    for what takes long or must not wait."""

    def __init__(self, target: object, name: str) -> None:
        self.target = target
        self._name = name
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._beside = ThreadPoolExecutor(_BESIDE_THREADS, thread_name_prefix=f"{name}-beside")

    def submit(self, method: str, *args: Any) -> Pending:
        if method in _AT_ONCE:
            return _Answered(getattr(self.target, method)(*args))
        pool = self._beside if method in _BESIDE else self._pool
        try:
            return pool.submit(getattr(self.target, method), *args)
        except RuntimeError:
            raise ServiceUnavailableError(
                f"{self._name} has ended: its catalog was closed, or its table dropped or renamed; "
                "connect and load the table again",
                name=self._name,
            ) from None

    def call(self, method: str, *args: Any) -> Any:
        return getattr(self.target, method)(*args)

    def call_once(self, method: str, *args: Any) -> Any:
        return self.call(method, *args)

    def close(self) -> None:
        self._pool.shutdown()
        self._beside.shutdown()


_AT_ONCE = frozenset({"assign", "heartbeat", "locate", "place", "locate_keys"})
"""What does not wait for the writes before it, as on Ray."""


_BESIDE = frozenset({"prepare", "lookup"})
_BESIDE_THREADS = 5
"""Commits are prepared one at a time; the rest are for lookups."""


@dataclass(frozen=True)
class _Answered:
    answer: Any

    def result(self) -> Any:
        return self.answer


def call_all(
    handles: Iterable[Handle], method: str, arguments: Callable[[int], tuple[Any, ...]]
) -> list[Any]:
    """Call the method of every handle side by side; the answers in the handles' order."""
    pending: Sequence[Pending] = [
        handle.submit(method, *arguments(index)) for index, handle in enumerate(handles)
    ]
    return gather(pending)


def gather(
    pending: Sequence[Pending],
    together: Callable[[Sequence[Exception]], Exception] = lambda failures: failures[0],
) -> list[Any]:
    """All answers; failures are raised when every call has ended.

    Args:
        together: what stands for all failures; by default the first.
    """
    answers: list[Any] = []
    failures: list[Exception] = []
    for one in pending:
        try:
            answers.append(one.result())
        except Exception as error:
            failures.append(error)
    if failures:
        raise together(failures)
    return answers
