"""Exchange changes among the workers of a query, and let them agree."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from pkray.lookup.key_hash import hash_keys
from pkray.relational.continuous.changes import Changes, concatenated
from pkray.relational.continuous.exchange.mailbox import Letter, Mailbox
from pkray.relational.plan.fields import Fields

KEY_GROUPS = 1 << 10
"""Parts of all keys that are dealt to workers: many more than workers, so that these get alike."""
Part = TypeVar("Part")
Send = Callable[[int, Letter], None]
"""Sends a letter to the worker of this number; does not wait until it is there."""


def key_groups(keys: pa.Array) -> np.ndarray:
    """Give the group of each key: int64, 0 … KEY_GROUPS - 1.

    Args:
        keys: BINARY, without NULLs.
    """
    if not len(keys):
        return np.zeros(0, np.int64)
    return (hash_keys([keys]) % np.uint64(KEY_GROUPS)).astype(np.int64)


def workers_of(keys: pa.Array, count: int) -> np.ndarray:
    """Give the number of the worker that has the rows of each key: int64, 0 … count - 1.

    Args:
        count: of the workers.
    """
    return key_groups(keys) * count // KEY_GROUPS


class Peers:
    """The workers of a query as one of them sees them.

    All take the same steps in the same order; each step has a number.

    Args:
        number: of this worker, from 0.
        count: of all.
    """

    def __init__(self, number: int, count: int, send: Send, mailbox: Mailbox) -> None:
        self.number = number
        self.count = count
        self._send = send
        self._mailbox = mailbox
        self._step = 0
        self._others = [each for each in range(count) if each != number]

    @property
    def is_alone(self) -> bool:
        """Whether there is no other worker."""
        return self.count == 1

    def tell(self, contents: Sequence[Any]) -> int:
        """Send something to each worker; give the number of the step, for `hear`.

        Args:
            contents: one a worker; what is for this one stays.
        """
        self._step += 1
        for each in self._others:
            self._post(each, self._step, contents[each])
        return self._step

    def hear(self, step: int, own: Any) -> list[Any]:
        """Wait for what each worker told this one; give it in the order of the workers.

        Args:
            own: what this one had for itself.
        """
        found = dict(zip(self._others, self._mailbox.take(step, self._others), strict=True))
        return [found.get(each, own) for each in range(self.count)]

    def swap(self, contents: Sequence[Any]) -> list[Any]:
        """Send something to each worker, and wait for what each sends."""
        return self.hear(self.tell(contents), contents[self.number])

    def agree(self, value: Any) -> list[Any]:
        """Give each worker's value, in the order of the workers."""
        return [value] if self.is_alone else self.swap([value] * self.count)

    def exchange(self, changes: Changes, keys: pa.Array, fields: Fields) -> Changes:
        """Bring changes to the workers that have their keys; give those of this one.

        Args:
            keys: BINARY, one a change.
            fields: of the changes.
        """
        return concatenated(fields, self.swap(cut(changes, workers_of(keys, self.count), self)))

    def gather(self, content: Any) -> list[Any]:
        """Send something to the first worker; give it what all sent, and the others nothing."""
        self._step += 1
        if self.number:
            self._post(0, self._step, content)
            return []
        return self.hear(self._step, content)

    def in_step(self, parts: Iterable[Part]) -> Iterator[Part | None]:
        """Go through parts as often as the worker that has most, but once at least.

        Yields:
            a part, or None where this worker has no more.
        """
        remaining = iter(parts)
        current = next(remaining, None)
        while True:
            following = None if current is None else next(remaining, None)
            step = self.tell([following is not None] * self.count)
            yield current
            if not any(self.hear(step, following is not None)):
                return
            current = following

    def _post(self, to: int, step: int, content: Any) -> None:
        self._send(to, Letter(self._mailbox.run, step, self.number, content))


def cut(changes: Changes, workers: np.ndarray, peers: Peers) -> list[Changes]:
    """Cut changes into those of each worker, in the order in which they are."""
    order = np.argsort(workers, kind="stable")
    ends = np.searchsorted(workers[order], np.arange(peers.count), side="right")
    starts = [0, *ends[:-1]]
    return [changes.take(order[start:end]) for start, end in zip(starts, ends, strict=True)]


def _to_nobody(number: int, letter: Letter) -> None:
    raise AssertionError("one worker has nobody to send to")


def alone() -> Peers:
    """Make the peers of a worker that has none."""
    return Peers(0, 1, _to_nobody, Mailbox(0))
