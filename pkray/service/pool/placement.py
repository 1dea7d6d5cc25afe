"""Decide where parts are to be, over numbers alone."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pkray.service.pool.parts import Part

_NEAR = 1.0
"""By how many parts a worker a node may have more than another one, for parts of a table to be near
each other: calls between nodes cost more than a part more or less."""


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


@dataclass
class Placement:
    """Workers that may have parts, and those that they have.

    Args:
        nodes: the node of each worker that may get parts.
        given: the worker of each part.
        works: parts that are work: they are apart from each other, wherever their tables are.
    """

    nodes: Mapping[int, str]
    given: dict[Part, int]
    works: frozenset[Part] = frozenset()
    loads: Counter[int] = field(init=False)

    def __post_init__(self) -> None:
        self.loads = Counter(self.given.values())

    def best(self, part: Part) -> int:
        """Choose a worker for a part: on the node of its table, unless that has much more to do
        than others; there the one with the fewest parts of the table, and of all.

        Work goes where the least work is.
        """
        beside = Counter(self._apart_from(part))
        workers = list(self.nodes)
        if part not in self.works:
            workers = self._near(part)
        return min(workers, key=lambda each: (beside[each], self.loads[each], each))

    def misplaced(self, most: int) -> Iterator[Part]:
        """Yield parts that are to be moved, in order, so that each move makes loads more even: of
        work, which is moved first as it is never busy, or of all.

        Args:
            most: parts.
        """
        for part in sorted(self.given, key=lambda each: (each not in self.works, each)):
            if most <= 0:
                return
            at = self.given[part]
            if at not in self.nodes:
                self._move(part, self._without(part))
            else:
                to = self._without(part)
                loads = self._works_beside(part) if part in self.works else self.loads
                if loads[at] - loads[to] < 2:
                    continue
                self._move(part, to)
            most -= 1
            yield part

    def _without(self, part: Part) -> int:
        """Choose a worker for a part as if it had none."""
        at = self.given.pop(part)
        self.loads[at] -= 1
        try:
            return self.best(part)
        finally:
            self.given[part] = at
            self.loads[at] += 1

    def _move(self, part: Part, to: int) -> None:
        self.loads[self.given[part]] -= 1
        self.loads[to] += 1
        self.given[part] = to

    def _near(self, part: Part) -> list[int]:
        """List the workers of the node that a part is to be on."""
        count = Counter(self.nodes.values())
        load: Counter[str] = Counter()
        for worker, node in self.nodes.items():
            load[node] += self.loads[worker]
        mean = {node: load[node] / count[node] for node in count}
        least = min(mean.values())
        of_table = Counter(self.nodes.get(at, "") for at in self._of_table(part))
        near = [node for node in mean if of_table[node] and mean[node] <= least + _NEAR]
        node = min(near or mean, key=lambda node: (-of_table[node] * bool(near), mean[node], node))
        return [worker for worker, at in self.nodes.items() if at == node]

    def _works_beside(self, part: Part) -> Counter[int]:
        """Count the work of each worker, this one with where it is."""
        return Counter([*self._apart_from(part), self.given[part]])

    def _of_table(self, part: Part) -> Iterable[int]:
        return (at for other, at in self.given.items() if other.table == part.table)

    def _apart_from(self, part: Part) -> Iterator[int]:
        """Yield the worker of each part that is to be apart from this one.

        Those are the parts of the same table; of work all other work, and its helpers thrice.
        """
        if part not in self.works:
            yield from self._of_table(part)
            return
        for other, at in self.given.items():
            if other in self.works and other != part:
                yield at
                if other.table.partition("/")[0] == part.table.partition("/")[0]:
                    yield from (at, at)
