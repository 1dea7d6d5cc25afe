"""Nodes that number rows, order them or keep some by their order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pkray.relational.plan import describe, over
from pkray.relational.plan import node as n
from pkray.relational.plan.cached_value import cached_value
from pkray.relational.plan.changelog_modes import change_kinds
from pkray.relational.plan.expressions import SortKey, WindowCall
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.keys import followed_key, unique_keys
from pkray.relational.plan.nodes.changes import (
    Exchange,
    are_of_windows,
    open_windows,
    without_bounds,
)
from pkray.relational.plan.nodes.rows import BIGINT, is_now

_RANKINGS = ("rank", "dense_rank", "row_number", "percent_rank", "cume_dist", "ntile")


@dataclass(frozen=True)
class Over(n.OneInput):
    """Adds a column a window function, all over the same partitions and order.

    Attributes:
        waits: whether rows come when the watermark passes their time, by which they are ordered,
            and do not change; else they come at once, and later rows may change them.
    """

    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    calls: tuple[tuple[str, WindowCall], ...]
    waits: bool = field(default=False, metadata={n.IF_SET: True})

    @cached_value
    def fields(self) -> Fields:
        return self.input.fields + Fields(
            tuple(Field(name, call.type) for name, call in self.calls)
        )

    def described(self) -> list[tuple[str, str]]:
        calls = ", ".join(f"{describe.window_call(call)} AS {name}" for name, call in self.calls)
        return [
            ("partitionBy", describe.names(self.partition_by)),
            ("orderBy", describe.order(self.order_by)),
            ("select", calls),
            *([("emit", "at the watermark")] if self.waits else []),
        ]

    def kinds_from(self, inputs: tuple[n.Kinds, ...]) -> n.Kinds:
        in_order = self.waits or self._looks_back()
        return n.INSERT if inputs[0] == n.INSERT and in_order else n.ALL

    def _looks_back(self) -> bool:
        """Whether rows come in its order, and rows that come later change no value."""
        if not self.calls:
            return True
        first = self.order_by[0] if self.order_by else None
        in_order = first is None or (is_now(self.input, first.column) and not first.descending)
        return in_order and all(over.sees_none_after(call) for _, call in self.calls)

    def moves_rows(self) -> bool:
        return not self.waits

    def states(self) -> tuple[n.State, ...]:
        if not self.waits:
            return (n.State("overState", "ordered", self.partition_by, "rows"),)
        kept = over.history(self.calls)
        by = "watermark" if kept is not None and not kept.rows else "ttl"
        return (
            n.State("overState", "ordered", self.partition_by, self._kept(kept), by),
            n.State("waitingState", "ordered", self.partition_by, "rows that wait", "watermark"),
        )

    def _kept(self, kept: over.History | None) -> str:
        if kept is None:
            return "rows"
        if kept.micros or not kept.rows:
            return "rows that frames reach"
        if kept.rows > 1:
            return f"{kept.rows} rows a partition"
        return "partitions" if self.partition_by else "one row"

    def judges_lateness(self) -> bool:
        return self.waits

    def waits_for_time(self) -> bool:
        return self.waits

    def passes_in_time(self, column: str) -> bool:
        if self.waits:
            return column == self.order_by[0].column
        return self.input.comes_in_time(column)

    def can_wait(self) -> bool:
        """Whether rows can come when the watermark passes them, and stay as they are."""
        if not self.order_by or self.order_by[0].descending:
            return False
        return (
            all(over.looks_back(call) for _, call in self.calls)
            and self.input.comes_in_time(self.order_by[0].column)
            and change_kinds(self.input) == n.INSERT
        )

    def depends_on_arrival(self) -> bool:
        """Whether values of rows that are equal in order depend on which of them came first."""
        told = {*self.partition_by, *(key.column for key in self.order_by)}
        if told >= set(self.input.fields.names) or any(k <= told for k in unique_keys(self.input)):
            return False
        return any(over.tells_equals_apart(call) for _, call in self.calls)

    def exchanged(self) -> n.Node:
        return self.with_inputs(Exchange(self.input, without_bounds(self.input, self.partition_by)))

    def remarks(self) -> Iterator[n.Lint]:
        ranks = any(call.function in _RANKINGS for _, call in self.calls)
        if ranks and not self.partition_by and not self.waits:
            yield n.Lint("rewrites", "ranks without a partition: one change can move every row")
        if self.depends_on_arrival():
            yield n.Lint("not-exact", "rows that are equal in the order of OVER stand by arrival")


class _Numbered(n.OneInput):
    """Keeps rows by their number in a partition; the number goes to a column, or is not kept."""

    rank_name: str | None

    @cached_value
    def fields(self) -> Fields:
        rank = (Field(self.rank_name, BIGINT),) if self.rank_name else ()
        return self.input.fields + Fields(rank)

    def window_bounds(self) -> n.WindowBounds | None:
        return self.input.window_bounds()


@dataclass(frozen=True)
class TopN(_Numbered):
    """Keeps the rows of each partition whose number in the order is from `start` to `end`.

    Attributes:
        rank_name: the column the number goes to (BIGINT NOT NULL, from 1); None: not kept.
    """

    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    start: int
    end: int
    rank_name: str | None = None

    def described(self) -> list[tuple[str, str]]:
        return [
            ("partitionBy", describe.names(self.partition_by)),
            ("orderBy", describe.order(self.order_by)),
            ("range", f"{self.start} to {self.end}"),
            ("rank", self.rank_name or ""),
        ]

    def keys_from(self, keys_of: Callable[[n.Node], n.Keys]) -> n.Keys:
        found = set(keys_of(self.input))
        partition = frozenset(self.partition_by)
        if self.start == self.end:
            found.add(partition)
        elif self.rank_name:
            found.add(partition | {self.rank_name})
        return frozenset(found)

    def kinds_from(self, inputs: tuple[n.Kinds, ...]) -> n.Kinds:
        return n.INSERT if self.is_windowed() else n.ALL

    def is_numbered(self) -> bool:
        told = self.rank_name is not None or self.start > 1
        return told and followed_key(self) != {*self.partition_by}

    def states(self) -> tuple[n.State, ...]:
        if self.is_windowed():
            return (open_windows("windowRankState", self.partition_by),)
        kept = "rows" if "D" in change_kinds(self.input) else f"{self.end} rows a partition"
        return (n.State("rankState", "ordered", self.partition_by, kept),)

    def is_windowed(self) -> bool:
        return are_of_windows(self.input, self.partition_by)

    def exchanged(self) -> n.Node:
        return self.with_inputs(Exchange(self.input, without_bounds(self.input, self.partition_by)))

    def remarks(self) -> Iterator[n.Lint]:
        if not self.partition_by and self.rank_name:
            yield n.Lint("rewrites", f"one change can move up to {self.end} ranks")
        yield n.Lint("not-exact", "rows that are equal in the order are kept by their arrival")


@dataclass(frozen=True)
class Deduplicate(_Numbered):
    """Keeps the first or the last row of each key: ROW_NUMBER() = 1 by one time column.

    Attributes:
        order_by: the column; None: by arrival.
        rank_name: as of TopN; the number is always 1.
    """

    keys: tuple[str, ...]
    order_by: str | None
    keep_first: bool
    rank_name: str | None = None

    def described(self) -> list[tuple[str, str]]:
        return [
            ("keep", "first" if self.keep_first else "last"),
            ("key", describe.names(self.keys)),
            ("order", self.order_by or "arrival"),
        ]

    def keys_from(self, keys_of: Callable[[n.Node], n.Keys]) -> n.Keys:
        return frozenset({frozenset(self.keys)}) | keys_of(self.input)

    def kinds_from(self, inputs: tuple[n.Kinds, ...]) -> n.Kinds:
        if self.is_windowed():
            return n.INSERT
        if inputs[0] != n.INSERT:
            return n.ALL
        if self.order_by is None:
            return n.INSERT if self.keep_first else n.INSERT | {"U"}
        known = self._is_by_event_time() or is_now(self.input, self.order_by)
        return n.INSERT if self.keep_first and known else n.ALL

    def _is_by_event_time(self) -> bool:
        return self.order_by is not None and self.input.fields[self.order_by].is_rowtime

    def is_numbered(self) -> bool:
        return followed_key(self) != {*self.keys}

    def states(self) -> tuple[n.State, ...]:
        if self.is_windowed():
            return (open_windows("windowDeduplicateState", self.keys),)
        if change_kinds(self.input) == n.INSERT:
            return (n.State("deduplicateState", "fold", self.keys, "keys"),)
        return (n.State("deduplicateState", "ordered", self.keys, "rows"),)

    def is_windowed(self) -> bool:
        return are_of_windows(self.input, self.keys)

    def judges_lateness(self) -> bool:
        in_time = self.keep_first and self._is_by_event_time()
        return in_time or self.is_windowed()

    def waits_for_time(self) -> bool:
        return self._is_by_event_time()

    def passes_in_time(self, column: str) -> bool:
        return self.order_by in (None, column) and self.input.comes_in_time(column)

    def exchanged(self) -> n.Node:
        return self.with_inputs(Exchange(self.input, without_bounds(self.input, self.keys)))

    def remarks(self) -> Iterator[n.Lint]:
        if self.order_by is None:
            text = "the first and the last row of a key depend on arrival"
        else:
            text = "rows that are equal in the order are kept by their arrival"
        yield n.Lint("not-exact", text)


@dataclass(frozen=True)
class Sort(n.OneInput):
    """Orders rows. Equal rows keep their order."""

    order_by: tuple[SortKey, ...]

    def described(self) -> list[tuple[str, str]]:
        return [("orderBy", describe.order(self.order_by))]

    def kinds_from(self, inputs: tuple[n.Kinds, ...]) -> n.Kinds:
        return n.ALL

    def exchanged(self) -> n.Node:
        return self.with_inputs(Exchange(self.input, ()))

    def remarks(self) -> Iterator[n.Lint]:
        yield n.Lint("rewrites", "an order over all rows has no meaning in a stream of changes")


@dataclass(frozen=True)
class Limit(n.OneInput):
    """Keeps the rows from number `offset` on, at most `count` (None: all)."""

    count: int | None
    offset: int = 0

    def described(self) -> list[tuple[str, str]]:
        count = "" if self.count is None else str(self.count)
        return [("count", count), ("offset", str(self.offset))]

    def keys_from(self, keys_of: Callable[[n.Node], n.Keys]) -> n.Keys:
        return frozenset({frozenset[str]()}) if self.count == 1 else keys_of(self.input)

    def kinds_from(self, inputs: tuple[n.Kinds, ...]) -> n.Kinds:
        ordered = isinstance(self.input, Sort)
        return n.INSERT if inputs[0] == n.INSERT and not ordered else n.ALL

    def is_numbered(self) -> bool:
        return self.offset > 0

    def states(self) -> tuple[n.State, ...]:
        return (n.State("limitState", "ordered", (), "rows"),)

    def passes_in_time(self, column: str) -> bool:
        return self.input.comes_in_time(column)

    def exchanged(self) -> n.Node:
        if isinstance(self.input, Sort):
            return self
        return self.with_inputs(Exchange(self.input, ()))

    def remarks(self) -> Iterator[n.Lint]:
        if not isinstance(self.input, Sort):
            text = "which rows a LIMIT without ORDER BY keeps depends on arrival"
            yield n.Lint("not-exact", text)
