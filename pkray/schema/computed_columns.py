"""Computed columns: what queries read beside the columns that files hold, kept in options.

Source: Paimon's catalog for Flink keeps ``schema.<n>.name``, ``.data-type``, ``.expr`` and
``.comment``, n being the place among all columns. It fails on expressions that Flink cannot read:
those in the spark dialect stand under the same keys after ``pkray.``, with places of their own.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pkray.options.queries import COMPUTED_KEY
from pkray.schema.types import DataField

FLINK, SPARK = "schema.", "pkray.schema."
"""How the keys begin, by the dialect of the expression."""
_STRING = re.compile(r"'(?:[^'\\]|''|\\.)*'")
_NAME = re.compile(r"`((?:[^`]|``)+)`|\b([^\W\d]\w*)\b(?!\s*\()")


@dataclass(frozen=True)
class ComputedColumn:
    """A column that is computed when it is read.

    Attributes:
        expression: in SQL, over the stored columns; None: of a kind that other engines have.
        type: as text; None: not said.
        prefix: `FLINK` or `SPARK`.
        others: what else is said of it, by the last word of its key.
    """

    name: str
    expression: str | None
    type: str | None = None
    comment: str | None = None
    prefix: str = FLINK
    others: Mapping[str, str] = field(default_factory=dict, hash=False)

    def reads(self, column: str) -> bool:
        """Whether its expression may name a column."""
        return names_column(self.expression, column)


Column: TypeAlias = DataField | ComputedColumn


def names_column(expression: str | None, column: str) -> bool:
    """Whether an expression may name a column: a word of it, which is no function, is its name."""
    words = _NAME.findall(_STRING.sub("''", expression or ""))
    found = (quoted.replace("``", "`") or plain for quoted, plain in words)
    return column.lower() in (each.lower() for each in found)


def all_columns(columns: Sequence[Column], options: Mapping[str, str]) -> list[Column]:
    """List the columns that queries read, in order: those that are there, and those of options."""
    found = list(columns)
    names = {each.name for each in columns}
    for prefix in (FLINK, SPARK):
        for place, column in sorted(_declared(options, prefix).items()):
            if column.name not in names:  # old options of Flink's tell of stored columns too
                found.insert(_place_in(found, place, prefix), column)
                names.add(column.name)
    return found


def _place_in(columns: Sequence[Column], place: int, prefix: str) -> int:
    """Find where a column goes whose place counts the columns that its engine knows."""
    if prefix == SPARK:
        return min(place, len(columns))
    known = [index for index, each in enumerate(columns) if not _is_ours(each)]
    return known[place] if place < len(known) else len(columns)


def _is_ours(column: Column) -> bool:
    return isinstance(column, ComputedColumn) and column.prefix == SPARK


def computed_columns(fields: Sequence[Column], options: Mapping[str, str]) -> list[ComputedColumn]:
    """List the computed columns in order."""
    return [each for each in all_columns(fields, options) if isinstance(each, ComputedColumn)]


def _declared(options: Mapping[str, str], prefix: str) -> dict[int, ComputedColumn]:
    said: dict[int, dict[str, str]] = {}
    for key, value in options.items():
        if key.startswith(prefix) and COMPUTED_KEY.fullmatch(key):
            place, word = key.removeprefix(prefix).split(".", 1)
            said.setdefault(int(place), {})[word] = value
    return {
        place: ComputedColumn(
            parts.pop("name"),
            parts.pop("expr", None),
            parts.pop("data-type", None),
            parts.pop("comment", None),
            prefix,
            parts,
        )
        for place, parts in said.items()
        if "name" in parts
    }


def with_columns(options: Mapping[str, str], columns: Sequence[Column]) -> dict[str, str]:
    """Write the computed ones among all columns into options, in place of those that are there."""
    changed = {k: v for k, v in options.items() if not COMPUTED_KEY.fullmatch(k)}
    ours = 0
    for place, column in enumerate(columns):
        if not isinstance(column, ComputedColumn):
            continue
        start = f"{column.prefix}{place if column.prefix == SPARK else place - ours}."
        ours += _is_ours(column)
        said = {
            "name": column.name,
            "data-type": column.type,
            "expr": column.expression,
            "comment": column.comment,
            **column.others,
        }
        changed |= {start + word: value for word, value in said.items() if value is not None}
    return changed


def without_columns(options: Mapping[str, str], columns: Sequence[Column]) -> dict[str, str]:
    """Leave out of options what says some columns; the others keep their places."""
    names = {each.name for each in columns}
    starts = tuple(
        key.removesuffix("name")
        for key, value in options.items()
        if COMPUTED_KEY.fullmatch(key) and key.endswith(".name") and value in names
    )
    return {k: v for k, v in options.items() if not (starts and k.startswith(starts))}


def follow(
    options: Mapping[str, str], before: Sequence[DataField], after: Sequence[DataField]
) -> dict[str, str]:
    """Write the places of computed columns anew where the stored ones change.

    Each stays behind the stored column that it is behind, or behind the one before that.
    """
    columns = all_columns(before, options)
    if len(columns) == len(before):
        return dict(options)
    kept = {each.id for each in after}
    behind: dict[int | None, list[Column]] = {None: []}
    at: int | None = None
    for column in columns:
        if isinstance(column, ComputedColumn):
            behind[at].append(column)
        elif column.id in kept:
            at = column.id
            behind[at] = []
    placed = [*behind[None]]
    for each in after:
        placed += [each, *behind.get(each.id, ())]
    return with_columns(options, placed)
