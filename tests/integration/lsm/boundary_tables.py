"""Tables of every merge engine, and in plain Python what rows make of a key, one by one."""

from __future__ import annotations

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


NESTED = one_of(None, [], [{"a": 1, "b": 1}], [{"a": 1, "b": 2}], [{"a": 2, "b": None}])
IN_ANY_ORDER = {
    "total": Column("BIGINT", number(-3, 4), added, aggregate("sum")),
    "count": Column("BIGINT", number(0, 2), counted, aggregate("count")),
    "least": Column("INT", number(-3, 4), adds_only(min), aggregate("min")),
    "most": Column("INT", number(-3, 4), adds_only(max), aggregate("max")),
    "times": Column("BIGINT", number(-2, 3), adds_only(lambda a, b: a * b), aggregate("product")),
    "all": Column(
        "BOOLEAN", one_of(None, True, False), adds_only(lambda a, b: a and b), aggregate("bool_and")
    ),
    "any": Column(
        "BOOLEAN", one_of(None, True, False), adds_only(lambda a, b: a or b), aggregate("bool_or")
    ),
}
IN_ORDER = {
    "last": Column("STRING", TEXT, last, aggregate("last_value")),
    "last_known": Column(
        "STRING", TEXT, adds_only(lambda a, b: b), aggregate("last_non_null_value")
    ),
    "first_known": Column(
        "STRING", TEXT, adds_only(lambda a, b: a), aggregate("first_non_null_value")
    ),
    "texts": Column("STRING", TEXT, adds_only("{},{}".format), aggregate("listagg")),
    "parts": Column(
        "STRING", one_of(None, "a", "bb", "a,bb"), distinct_texts,
        aggregate("listagg", distinct="true"),
    ),
    "list": Column(
        "ARRAY<INT>", some_of(1, 2), adds_only(lambda a, b: a + b), aggregate("collect")
    ),
    "map": Column(
        "MAP<STRING, INT>",
        one_of(None, [], [("x", 1)], [("y", 2)], [("x", 3), ("z", None)]),
        adds_only(lambda a, b: list((dict(a) | dict(b)).items())),
        aggregate("merge_map"),
    ),
    "rows": Column(
        "ARRAY<ROW<a INT, b INT>>", NESTED, adds_only(lambda a, b: a + b),
        aggregate("nested_update"),
    ),
    "keyed": Column(
        "ARRAY<ROW<a INT, b INT>>", NESTED, adds_only(by_key),
        aggregate("nested_update", nested_key="a"),
    ),
}  # fmt: skip


def ignoring(columns: dict[str, Column]) -> dict[str, Column]:
    """What takes back does nothing, but for sums and counts."""
    return {
        name: column
        if column.step in (added, counted)
        else Column(
            column.type, column.draw, column.step, {**column.options, "ignore-retract": "true"}
        )
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
REMOVE_AGGREGATE = {**AGGREGATION, "aggregation.remove-record-on-delete": "true"}
REMOVE_UPDATE = {**PARTIAL_UPDATE, "partial-update.remove-record-on-delete": "true"}
VECTORS = {"deletion-vectors.enabled": "true"}
WITH_VECTORS = ("none", "input", "lookup")
WORD = Column("STRING", one_of("+I", "+i", "+U", "-U", "-d"))

TABLES: dict[str, BoundaryTable] = {
    "deduplicate": BoundaryTable({}, PLAIN, replace, EVERY_KIND),
    "deduplicate ignore-delete": BoundaryTable(
        {"ignore-delete": "true"}, PLAIN, replace, EVERY_KIND
    ),
    "deduplicate ignore-update-before": BoundaryTable(
        {"ignore-update-before": "true"}, PLAIN, replace, EVERY_KIND
    ),
    "deduplicate rowkind": BoundaryTable(
        {"rowkind.field": "op"}, {**PLAIN, "op": WORD}, replace, ("+I",)
    ),
    "deduplicate sequence": BoundaryTable(
        {"sequence.field": "n"}, PLAIN, replace, EVERY_KIND, fits=follows_deletes
    ),
    "deduplicate sequence descending": BoundaryTable(
        {"sequence.field": "n", "sequence.field.sort-order": "descending"},
        PLAIN, replace, EVERY_KIND, fits=follows_descending,
    ),
    "deduplicate vectors": BoundaryTable(VECTORS, PLAIN, replace, EVERY_KIND, WITH_VECTORS),
    "deduplicate sequence vectors": BoundaryTable(
        {"sequence.field": "n", **VECTORS}, PLAIN, replace, EVERY_KIND, WITH_VECTORS,
        fits=follows_deletes,
    ),
    "first-row": BoundaryTable(
        {"merge-engine": "first-row"}, PLAIN, keep, producers=("none", "lookup")
    ),
    "first-row ignore-delete": BoundaryTable(
        {"merge-engine": "first-row", "ignore-delete": "true"},
        PLAIN, keep, EVERY_KIND, producers=("none", "lookup"),
    ),
    "partial-update": BoundaryTable(PARTIAL_UPDATE, PLAIN, update),
    "partial-update ignore-delete": BoundaryTable(
        {**PARTIAL_UPDATE, "ignore-delete": "true"}, PLAIN, update, EVERY_KIND
    ),
    "partial-update remove": BoundaryTable(REMOVE_UPDATE, PLAIN, update, EVERY_KIND),
    "partial-update remove vectors": BoundaryTable(
        {**REMOVE_UPDATE, **VECTORS}, PLAIN, update, EVERY_KIND, WITH_VECTORS
    ),
    "partial-update groups": BoundaryTable(
        {
            **PARTIAL_UPDATE,
            "fields.g.sequence-group": "a",
            "fields.h.sequence-group": "total,most",
        },
        {
            "g": Column("INT", one_of(0, 1, 2, 3)),
            "a": Column("STRING", TEXT),
            "h": Column("INT", one_of(0, 1, 2, 3)),
            "total": IN_ANY_ORDER["total"],
            "most": ignoring(IN_ANY_ORDER)["most"],
            "v": Column("STRING", TEXT),
        },
        update_groups, EVERY_KIND, fits=is_known,
    ),
    "aggregation": BoundaryTable(AGGREGATION, IN_ANY_ORDER | IN_ORDER, merge),
    "aggregation ignore-delete": BoundaryTable(
        {**AGGREGATION, "ignore-delete": "true"}, IN_ANY_ORDER | IN_ORDER, merge, EVERY_KIND
    ),
    "aggregation vectors": BoundaryTable(
        {**AGGREGATION, **VECTORS}, IN_ANY_ORDER | IN_ORDER, merge, producers=WITH_VECTORS
    ),
    "aggregation sequence": BoundaryTable(
        {**AGGREGATION, "sequence.field": "n"},
        {**IN_ANY_ORDER, "n": Column("INT", SEQUENCE)}, merge,
    ),
    "aggregation taking back": BoundaryTable(
        AGGREGATION,
        TAKING_BACK,
        merge, EVERY_KIND, fits=is_known,
    ),
    "aggregation remove": BoundaryTable(
        REMOVE_AGGREGATE, IN_ANY_ORDER | IN_ORDER, merge, ADDS_AND_DELETES
    ),
    "aggregation remove taking back": BoundaryTable(
        REMOVE_AGGREGATE,
        TAKING_BACK,
        merge, EVERY_KIND, fits=is_known,
    ),
    "aggregation remove sequence": BoundaryTable(
        {**REMOVE_AGGREGATE, "sequence.field": "n"},
        {**IN_ANY_ORDER, "n": Column("INT", SEQUENCE)}, merge, ADDS_AND_DELETES, fits=moves_on,
    ),
    "aggregation in sequence": BoundaryTable(
        {**REMOVE_AGGREGATE, "sequence.field": "n"},
        {**IN_ANY_ORDER, **IN_ORDER, "n": Column("INT", SEQUENCE)}, merge, ADDS_AND_DELETES,
        fits=comes_in_order,
    ),
    "partial-update in sequence": BoundaryTable(
        {**REMOVE_UPDATE, "sequence.field": "n"}, PLAIN, update, EVERY_KIND, fits=comes_in_order
    ),
    "aggregation remove vectors": BoundaryTable(
        {**REMOVE_AGGREGATE, **VECTORS}, IN_ANY_ORDER | IN_ORDER, merge, ADDS_AND_DELETES,
        WITH_VECTORS,
    ),
}  # fmt: skip
