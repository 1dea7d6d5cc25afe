"""Merge engines in plain Python: what becomes of the rows of one key."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

ADDS = ("+I", "+U")
Values = tuple[Any, ...]


@dataclass(frozen=True)
class Change:
    """A row that was written: its kind, its sequence and the other values."""

    kind: str
    sequence: int
    values: Values

    @property
    def adds(self) -> bool:
        return self.kind in ADDS


Merge = Callable[[Sequence[str], Sequence[Change]], Values | None]
"""The row of some columns that changes (oldest first) leave, or None."""


@dataclass(frozen=True)
class Model:
    """A merge engine.

    Args:
        options: of the table.
        columns: name and type of its value columns.
        ordered_columns: those used beside a sequence field, where late rows are merged into what
            is there: of the others the value would depend on when.
        kinds: of the rows that it takes.
        known_only: -U and -D are for keys that are there.
        never_null: columns that are given values always, beside a sequence field every column.
        keeps: which row of a key is the merged one, ``first`` or ``last``; None: a new one.
    """

    options: dict[str, str]
    columns: dict[str, str]
    merge: Merge
    kinds: tuple[str, ...]
    producers: tuple[str, ...] = ("none", "input", "lookup", "full-compaction")
    ordered_columns: tuple[str, ...] | None = ()
    known_only: bool = False
    never_null: tuple[str, ...] = ()
    keeps: str | None = None


def deduplicate(columns: Sequence[str], changes: Sequence[Change]) -> Values | None:
    return changes[-1].values if changes[-1].adds else None


def first_row(columns: Sequence[str], changes: Sequence[Change]) -> Values | None:
    return changes[0].values


def partial_update(columns: Sequence[str], changes: Sequence[Change]) -> Values | None:
    row: list[Any] = [None] * len(columns)
    for change in changes:
        row = [old if new is None else new for old, new in zip(row, change.values, strict=True)]
    return tuple(row)


def partial_update_groups(columns: Sequence[str], changes: Sequence[Change]) -> Values | None:
    """``a`` follows ``g``; ``s`` is summed up, ``h`` is the largest."""
    row: dict[str, Any] = dict.fromkeys(columns)
    for change in changes:
        new = dict(zip(columns, change.values, strict=True))
        if row["g"] is None or new["g"] >= row["g"]:
            row["g"], row["a"] = new["g"], new["a"] if change.adds else None
        if row["h"] is None or new["h"] >= row["h"]:
            row["h"] = new["h"]
        row["s"] = _sum(row["s"], new["s"], change.adds)
        if change.adds and new["v"] is not None:
            row["v"] = new["v"]
    return tuple(row.values())


def aggregation(columns: Sequence[str], changes: Sequence[Change]) -> Values | None:
    row: dict[str, Any] = dict.fromkeys(columns, _NOTHING)
    for change in changes:
        for name, new in zip(columns, change.values, strict=True):
            row[name] = _COLUMNS[name].merge(row[name], new, change.adds)
    return tuple(None if value is _NOTHING else value for value in row.values())


_NOTHING = object()


def _sum(old: Any, new: Any, adds: bool) -> Any:
    old = None if old is _NOTHING else old
    if new is None:
        return old
    signed = new if adds else -new
    return signed if old is None else old + signed


def _of_adds(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any, bool], Any]:
    """Nulls are skipped, and so is what takes back."""

    def function(old: Any, new: Any, adds: bool) -> Any:
        old = None if old is _NOTHING else old
        if new is None or not adds:
            return old
        return new if old is None else combine(old, new)

    return function


class _Column(NamedTuple):
    """A column that is aggregated: its type, its function and what that makes of two values."""

    type: str
    function: str
    merge: Callable[[Any, Any, bool], Any]


_COLUMNS = {
    "total": _Column("BIGINT", "sum", _sum),
    "largest": _Column("INT", "max", _of_adds(max)),
    "latest": _Column("STRING", "last_value", lambda old, new, adds: new if adds else old),
    "earliest": _Column(
        "STRING", "first_value", lambda old, new, adds: new if old is _NOTHING and adds else old
    ),
    "texts": _Column("STRING", "listagg", _of_adds(lambda old, new: f"{old},{new}")),
}
_AGGREGATED = {name: column.type for name, column in _COLUMNS.items()}
_AGGREGATION = {
    "merge-engine": "aggregation",
    **{f"fields.{name}.aggregate-function": each.function for name, each in _COLUMNS.items()},
}
_IGNORING = {f"fields.{name}.ignore-retract": "true" for name in _COLUMNS if name != "total"}
_PLAIN = {"v": "STRING", "n": "INT"}
_EVERY = ("+I", "+I", "+U", "-U", "-D")

MODELS = {
    "deduplicate": Model({}, _PLAIN, deduplicate, _EVERY, ordered_columns=("v", "n"), keeps="last"),
    "first-row": Model(
        {"merge-engine": "first-row"},
        *(_PLAIN, first_row, ADDS, ("none", "lookup")),
        ordered_columns=None,
        keeps="first",
    ),
    "partial-update": Model(
        {"merge-engine": "partial-update"}, _PLAIN, partial_update, ADDS, ordered_columns=("v", "n")
    ),
    "partial-update-groups": Model(
        {
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "a",
            "fields.h.sequence-group": "s",
            "fields.s.aggregate-function": "sum",
        },
        {"g": "INT", "a": "STRING", "h": "INT", "s": "BIGINT", "v": "STRING"},
        *(partial_update_groups, _EVERY),
        ordered_columns=None,
        known_only=True,
        never_null=("g", "h"),
    ),
    "aggregation": Model(
        _AGGREGATION, _AGGREGATED, aggregation, ADDS, ordered_columns=("total", "largest", "latest")
    ),
    # Without last_value: several rows that it ignores are merged into a null, which is the last.
    "aggregation-taking-back": Model(
        _AGGREGATION | _IGNORING,
        {name: kind for name, kind in _AGGREGATED.items() if name != "latest"},
        *(aggregation, _EVERY),
        ordered_columns=("total", "largest"),
        known_only=True,
    ),
}
