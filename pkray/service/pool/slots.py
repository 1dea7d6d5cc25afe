"""Decide which workers there are to be, and on which nodes, over numbers alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Slots:
    """The workers of a pool with one a processor, on the processor's node.

    Args:
        numbers: of workers that there are already.

    Attributes:
        nodes: of each worker, by its number; None: its node is lost, or has more workers than
            processors, so that it may be anywhere.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self.nodes: dict[int, str | None] = dict.fromkeys(sorted(numbers))

    def fit(self, processors: Mapping[str, int], known: Mapping[int, str]) -> None:
        """Add workers for the processors that have none.

        Args:
            processors: of each node that lives.
            known: the nodes of the workers that are heard of.
        """
        free = dict(processors)
        for number in self.nodes:
            node = known.get(number, self.nodes[number])
            has_room = node is not None and free.get(node, 0) > 0
            self.nodes[number] = node if has_room else None
            if node is not None and has_room:
                free[node] -= 1
        # Those that are not heard of may be beginning anew, anywhere.
        coming = sum(node is None and number not in known for number, node in self.nodes.items())
        wanted = [node for node, count in sorted(free.items()) for _ in range(count)]
        unused = (n for n in range(len(self.nodes) + len(wanted)) if n not in self.nodes)
        self.nodes |= dict(zip(unused, wanted[coming:], strict=False))

    def surplus(self, known: Iterable[int]) -> list[int]:
        """List the workers that are not needed, as others have the processors of all nodes."""
        living = [number for number in known if number in self.nodes]
        if all(self.nodes[number] is None for number in living):
            return []
        return [number for number in living if self.nodes[number] is None]

    def remove(self, number: int) -> None:
        """Note that a worker was ended; another one may have its number."""
        del self.nodes[number]
