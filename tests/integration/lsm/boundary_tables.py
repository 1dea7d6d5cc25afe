"""Tables of every merge engine, and in plain Python what rows make of a key, one by one."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
"""Columns by name."""
Draw = Callable[[random.Random], Any]
Step = Callable[[Any, Any, bool], Any]
"""Of the value so far, the next one and whether it is taken back: the value after it."""

ADDS = ("+I", "+U")
PRODUCERS = ("none", "input", "lookup", "full-compaction")


@dataclass
class Key:
    """What is known of a key: its row, the largest sequence that counted, and a delete's."""

    row: Row | None = None
    sequence: Any = None
    deleted: Any = None
    latest: Any = None


@dataclass(frozen=True)
class Column:
    """A column: its type, its values, and how they are merged (None: as the engine does)."""

    type: str
    draw: Draw
    step: Step | None = None
    options: dict[str, str] = field(default_factory=dict)


def anything(key: Key, kind: str, row: Row) -> bool:
    return True


@dataclass(frozen=True)
class BoundaryTable:
    """A table and its model.

    Args:
        kinds: of the rows that are written.
        apply: changes a key by one row.
        fits: whether a row may come now, where the engine's own rules would make the result
            depend on what was merged before.
    """

    options: dict[str, str]
    columns: dict[str, Column]
    apply: Callable[[BoundaryTable, Key, str, Row], None]
    kinds: tuple[str, ...] = ADDS
    producers: tuple[str, ...] = PRODUCERS
    fits: Callable[[Key, str, Row], bool] = anything

    @property
    def is_restricted(self) -> bool:
        return self.fits is not anything

    @property
    def all_options(self) -> dict[str, str]:
        found = dict(self.options)
        for name, column in self.columns.items():
            found |= {f"fields.{name}.{key}": value for key, value in column.options.items()}
        return found


def number(low: int, high: int) -> Draw:
    return lambda chance: chance.choice([None, *range(low, high)])


def one_of(*values: Any) -> Draw:
    return lambda chance: chance.choice(values)


def some_of(*values: Any) -> Draw:
    return lambda chance: chance.choice([None, chance.choices(values, k=chance.randrange(3))])


TEXT = one_of(None, "", "a", "bb", "a,bb")
SEQUENCE = one_of(None, 0, 1, 2, 3)


# What becomes of a value.
def adds_only(combine: Callable[[Any, Any], Any]) -> Step:
    """Nulls are skipped, and what takes back."""

    def step(old: Any, new: Any, back: bool) -> Any:
        if new is None or back:
            return old
        return new if old is None else combine(old, new)

    return step


def added(old: Any, new: Any, back: bool) -> Any:
    if new is None:
        return old
    return (0 if old is None else old) + (-new if back else new)


def counted(old: Any, new: Any, back: bool) -> Any:
    return added(old, int(new is not None), back)


def last(old: Any, new: Any, back: bool) -> Any:
    return old if back else new


def distinct_texts(old: Any, new: Any, back: bool) -> Any:
    if new is None or back:
        return old
    parts = [] if old is None else old.split(",")
    return ",".join(dict.fromkeys(part for part in [*parts, *new.split(",")] if part))


def by_key(old: list[Any], new: list[Any]) -> list[Any]:
    found = {row["a"]: row for row in old}
    return list((found | {row["a"]: row for row in new}).values())


def aggregate(name: str, **options: str) -> dict[str, str]:
    return {"aggregate-function": name, **{k.replace("_", "-"): v for k, v in options.items()}}


BOOLEAN = one_of(None, True, False)
NESTED = one_of(None, [], [{"a": 1, "b": 1}], [{"a": 1, "b": 2}], [{"a": 2, "b": None}])
IN_ANY_ORDER = {
    "total": Column("BIGINT", number(-3, 4), added, aggregate("sum")),
    "count": Column("BIGINT", number(0, 2), counted, aggregate("count")),
    "least": Column("INT", number(-3, 4), adds_only(min), aggregate("min")),
    "most": Column("INT", number(-3, 4), adds_only(max), aggregate("max")),
    "times": Column("BIGINT", number(-2, 3), adds_only(lambda a, b: a * b), aggregate("product")),
    "all": Column("BOOLEAN", BOOLEAN, adds_only(lambda a, b: a and b), aggregate("bool_and")),
    "any": Column("BOOLEAN", BOOLEAN, adds_only(lambda a, b: a or b), aggregate("bool_or")),
}


def text(step: Step, function: str, draw: Draw = TEXT, **options: str) -> Column:
    return Column("STRING", draw, step, aggregate(function, **options))


def nested(step: Step, **options: str) -> Column:
    kind = "ARRAY<ROW<a INT, b INT>>"
    return Column(kind, NESTED, step, aggregate("nested_update", **options))


IN_ORDER = {
    "last": text(last, "last_value"),
    "last_known": text(adds_only(lambda a, b: b), "last_non_null_value"),
    "first_known": text(adds_only(lambda a, b: a), "first_non_null_value"),
    "texts": text(adds_only("{},{}".format), "listagg"),
    "parts": text(distinct_texts, "listagg", one_of(None, "a", "bb", "a,bb"), distinct="true"),
    "list": Column(
        "ARRAY<INT>", some_of(1, 2), adds_only(lambda a, b: a + b), aggregate("collect")
    ),
    "map": Column(
        "MAP<STRING, INT>",
        one_of(None, [], [("x", 1)], [("y", 2)], [("x", 3), ("z", None)]),
        adds_only(lambda a, b: list((dict(a) | dict(b)).items())),
        aggregate("merge_map"),
    ),
    "rows": nested(adds_only(lambda a, b: a + b)),
    "keyed": nested(adds_only(by_key), nested_key="a"),
}


def ignoring(columns: dict[str, Column]) -> dict[str, Column]:
    """What takes back does nothing, but for sums and counts."""
    return {
        name: column
        if column.step in (added, counted)
        else dataclasses.replace(column, options={**column.options, "ignore-retract": "true"})
        for name, column in columns.items()
    }


# What becomes of a key.
def not_older(sequence: Any, other: Any, *, descending: bool = False) -> bool:
    """Null is the smallest either way."""
    if sequence is None or other is None:
        return other is None
    return bool(sequence <= other if descending else sequence >= other)


def replace(table: BoundaryTable, key: Key, kind: str, row: Row) -> None:
    """Deduplicate, by the sequence field where there is one."""
    if "rowkind.field" in table.options:
        kind = row["op"].upper()
    ignored = {"ignore-delete": ("-U", "-D"), "ignore-update-before": ("-U",)}
    if any(kind in kinds for option, kinds in ignored.items() if option in table.options):
        return
    if "sequence.field" in table.options:
        descending = table.options.get("sequence.field.sort-order") == "descending"
        if not not_older(row["n"], key.sequence, descending=descending):
            return
        key.sequence = row["n"]
    key.row = row if kind in ADDS else None


def keep(table: BoundaryTable, key: Key, kind: str, row: Row) -> None:
    if key.row is None and kind in ADDS:
        key.row = row


def update(table: BoundaryTable, key: Key, kind: str, row: Row) -> None:
    """Partial update; a -D removes the row where the table says so."""
    if kind == "-D" and "partial-update.remove-record-on-delete" in table.options:
        key.row = None
    if kind in ADDS:
        before = key.row or dict.fromkeys(row)
        key.row = {name: before[name] if new is None else new for name, new in row.items()}


def update_groups(table: BoundaryTable, key: Key, kind: str, row: Row) -> None:
    """``a`` follows ``g``; ``total`` and ``most`` are merged whatever ``h`` is."""
    now = dict(key.row or dict.fromkeys(row))
    if row["g"] is not None and (now["g"] is None or row["g"] >= now["g"]):
        now["g"], now["a"] = row["g"], row["a"] if kind in ADDS else None
    if row["h"] is not None:
        now["h"] = row["h"] if now["h"] is None else max(now["h"], row["h"])
        for name in ("total", "most"):
            step = table.columns[name].step
            assert step is not None
            now[name] = step(now[name], row[name], kind not in ADDS)
    if kind in ADDS and row["v"] is not None:
        now["v"] = row["v"]
    key.row = now


def merge(table: BoundaryTable, key: Key, kind: str, row: Row) -> None:
    """Aggregation; a -D removes the row where the table says so."""
    if "ignore-delete" in table.options and kind not in ADDS:
        return
    if "n" in row:
        key.sequence = max((n for n in (key.sequence, row["n"]) if n is not None), default=None)
    if kind == "-D" and "aggregation.remove-record-on-delete" in table.options:
        key.row, key.deleted = None, row.get("n")
        return
    before, back = key.row or dict.fromkeys(row), kind not in ADDS
    key.row = {}
    for name, new in row.items():
        step = table.columns[name].step
        key.row[name] = key.sequence if step is None else step(before[name], new, back)


def is_known(key: Key, kind: str, row: Row) -> bool:
    """What takes back comes for keys that are there."""
    return kind in ADDS or key.row is not None


def follows_deletes(key: Key, kind: str, row: Row) -> bool:
    """No row is older than a delete before it: deletes are forgotten."""
    return key.row is not None or not_older(row["n"], key.sequence)


def follows_descending(key: Key, kind: str, row: Row) -> bool:
    return key.row is not None or not_older(row["n"], key.sequence, descending=True)


def moves_on(key: Key, kind: str, row: Row) -> bool:
    """Deletes are newer than all before them, and what follows is newer than they are."""
    return not_older(row["n"], key.sequence if kind == "-D" else key.deleted)


def comes_in_order(key: Key, kind: str, row: Row) -> bool:
    if not_older(row["n"], key.latest):
        key.latest = row["n"]
        return True
    return False


TAKING_BACK = ignoring(IN_ANY_ORDER | IN_ORDER)
del TAKING_BACK["last"]
"""Several rows that it ignores are merged into a null, which is then the last value."""
PLAIN = {"v": Column("STRING", TEXT), "n": Column("INT", SEQUENCE)}
EVERY_KIND = ("+I", "+I", "+U", "-U", "-D")
ADDS_AND_DELETES = ("+I", "+U", "+I", "-D")
AGGREGATION = {"merge-engine": "aggregation"}
PARTIAL_UPDATE = {"merge-engine": "partial-update"}
REMOVE_AGGREGATE = {"aggregation.remove-record-on-delete": "true"}
REMOVE_UPDATE = {"partial-update.remove-record-on-delete": "true"}
VECTORS = {"deletion-vectors.enabled": "true"}
WITH_VECTORS = ("none", "input", "lookup")
WORD = Column("STRING", one_of("+I", "+i", "+U", "-U", "-d"))

BY_N = {"sequence.field": "n"}
DESCENDING = {**BY_N, "sequence.field.sort-order": "descending"}
IGNORING = {"ignore-delete": "true"}
EVERY_COLUMN = IN_ANY_ORDER | IN_ORDER
NUMBERED = {"n": Column("INT", SEQUENCE)}


def deduplicate(options: dict[str, str], **how: Any) -> BoundaryTable:
    return BoundaryTable(options, PLAIN, replace, EVERY_KIND, **how)


def first_row(options: dict[str, str], kinds: tuple[str, ...]) -> BoundaryTable:
    options = {"merge-engine": "first-row", **options}
    return BoundaryTable(options, PLAIN, keep, kinds, ("none", "lookup"))


def updated(
    options: dict[str, str], kinds: tuple[str, ...] = EVERY_KIND, **how: Any
) -> BoundaryTable:
    return BoundaryTable({**PARTIAL_UPDATE, **options}, PLAIN, update, kinds, **how)


def aggregated(
    options: dict[str, str],
    columns: dict[str, Column] = EVERY_COLUMN,
    kinds: tuple[str, ...] = ADDS,
    **how: Any,
) -> BoundaryTable:
    return BoundaryTable({**AGGREGATION, **options}, columns, merge, kinds, **how)


TABLES: dict[str, BoundaryTable] = {
    "deduplicate": deduplicate({}),
    "deduplicate ignore-delete": deduplicate(IGNORING),
    "deduplicate ignore-update-before": deduplicate({"ignore-update-before": "true"}),
    "deduplicate rowkind": BoundaryTable(
        {"rowkind.field": "op"}, {**PLAIN, "op": WORD}, replace, ("+I",)
    ),
    "deduplicate sequence": deduplicate(BY_N, fits=follows_deletes),
    "deduplicate sequence descending": deduplicate(DESCENDING, fits=follows_descending),
    "deduplicate vectors": deduplicate(VECTORS, producers=WITH_VECTORS),
    "deduplicate sequence vectors": deduplicate(
        BY_N | VECTORS, producers=WITH_VECTORS, fits=follows_deletes
    ),
    "first-row": first_row({}, ADDS),
    "first-row ignore-delete": first_row(IGNORING, EVERY_KIND),
    "partial-update": updated({}, ADDS),
    "partial-update ignore-delete": updated(IGNORING),
    "partial-update remove": updated(REMOVE_UPDATE),
    "partial-update remove vectors": updated(REMOVE_UPDATE | VECTORS, producers=WITH_VECTORS),
    "partial-update groups": BoundaryTable(
        {**PARTIAL_UPDATE, "fields.g.sequence-group": "a", "fields.h.sequence-group": "total,most"},
        {
            "g": Column("INT", one_of(0, 1, 2, 3)),
            "a": Column("STRING", TEXT),
            "h": Column("INT", one_of(0, 1, 2, 3)),
            "total": IN_ANY_ORDER["total"],
            "most": ignoring(IN_ANY_ORDER)["most"],
            "v": Column("STRING", TEXT),
        },
        update_groups,
        EVERY_KIND,
        fits=is_known,
    ),
    "aggregation": aggregated({}),
    "aggregation ignore-delete": aggregated(IGNORING, kinds=EVERY_KIND),
    "aggregation vectors": aggregated(VECTORS, producers=WITH_VECTORS),
    "aggregation sequence": aggregated(BY_N, IN_ANY_ORDER | NUMBERED),
    "aggregation taking back": aggregated({}, TAKING_BACK, EVERY_KIND, fits=is_known),
    "aggregation remove": aggregated(REMOVE_AGGREGATE, kinds=ADDS_AND_DELETES),
    "aggregation remove taking back": aggregated(
        REMOVE_AGGREGATE, TAKING_BACK, EVERY_KIND, fits=is_known
    ),
    "aggregation remove sequence": aggregated(
        REMOVE_AGGREGATE | BY_N, IN_ANY_ORDER | NUMBERED, ADDS_AND_DELETES, fits=moves_on
    ),
    "aggregation in sequence": aggregated(
        REMOVE_AGGREGATE | BY_N, EVERY_COLUMN | NUMBERED, ADDS_AND_DELETES, fits=comes_in_order
    ),
    "partial-update in sequence": updated(REMOVE_UPDATE | BY_N, fits=comes_in_order),
    "aggregation remove vectors": aggregated(
        REMOVE_AGGREGATE | VECTORS, kinds=ADDS_AND_DELETES, producers=WITH_VECTORS
    ),
}
