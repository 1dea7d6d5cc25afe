"""Nodes without inputs: they read a source, or give rows that are written in the query."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pkray.relational.plan import describe
from pkray.relational.plan.cached_value import cached_value
from pkray.relational.plan.expressions import TRUE, Expression, Literal
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.node import ALL, INSERT, NO_KEYS, Keys, Kinds, Lint, Node
from pkray.relational.plan.source import Source


@dataclass(frozen=True)
class Scan(Node):
    """Reads a source.

    Attributes:
        columns: which, in order; None for all.
        condition: rows for which it is not true need not come (the source may prune by it; the
            optimizer keeps a Filter above of what ``source.remaining`` gives). Over the source's
            columns, not only those that are read.
        options: of hints: ``scan.snapshot-id`` and the like; sorted pairs.
    """

    source: Source
    columns: tuple[str, ...] | None = None
    condition: Expression = TRUE
    options: tuple[tuple[str, str], ...] = ()

    @cached_value
    def fields(self) -> Fields:
        fields = self.source.fields
        return fields if self.columns is None else fields.only(self.columns)

    computes = ("condition",)

    def described(self) -> list[tuple[str, str]]:
        return [
            ("table", self.source.name),
            ("fields", describe.names(self.fields.names)),
            ("where", describe.condition(self.condition)),
            ("options", ", ".join(f"{key}={value}" for key, value in self.options)),
            ("asOf", ", ".join(map(str, self.source.at.named.values()))),
        ]

    def keys_from(self, keys_of: Callable[[Node], Keys]) -> Keys:
        key = frozenset(self.source.primary_key)
        return frozenset({key}) if key and key <= set(self.fields.names) else NO_KEYS

    def kinds_from(self, inputs: tuple[Kinds, ...]) -> Kinds:
        return INSERT if self.source.mode == "insert" else ALL

    def passes_in_time(self, column: str) -> bool:
        mark = self.source.watermark
        return mark is not None and mark.column == column

    def late_rows(self) -> str:
        """Say which rows are not read, as continuous reads of a source begin with changes."""
        said = ", ".join(f"{key} {value}" for key, value in self.options) or "its options"
        return f"rows of {self.source.name} that did not change since {said} are not read"

    def remarks(self) -> Iterator[Lint]:
        if self.source.begins_late:
            yield Lint("not-exact", f"{self.late_rows()}: the result has nothing of them")


@dataclass(frozen=True)
class Values(Node):
    """Gives rows that are written in the query."""

    columns: Fields
    rows: tuple[tuple[Literal, ...], ...]

    @cached_value
    def fields(self) -> Fields:
        return self.columns

    def described(self) -> list[tuple[str, str]]:
        return [("fields", describe.names(self.fields.names)), ("rows", str(len(self.rows)))]

    def kinds_from(self, inputs: tuple[Kinds, ...]) -> Kinds:
        return INSERT
