"""Plans of queries, and what they give, computed row by row without pkray."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = tuple[Row, ...]
Bag: TypeAlias = Counter[Row]

A, B = "d.a", "d.b"
"""The sources: tables of ``k``, ``g``, ``v`` and ``p``, which may be the partition."""


@dataclass(frozen=True)
class Plan:
    """What a query computes of two sources.

    Attributes:
        kind: one of `KINDS`.
        bound: rows whose ``v`` is not below it are left out: plans of one kind with different
            bounds have results of the same columns.
    """

    kind: str
    bound: int = 100

    @property
    def sql(self) -> str:
        return KINDS[self.kind].sql.format(bound=self.bound)

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(name for name in (A, B) if name in self.sql)

    @property
    def columns(self) -> tuple[str, ...]:
        return KINDS[self.kind].columns

    def result(self, sources: Mapping[str, Rows]) -> Bag:
        """Compute it of the rows of the sources."""
        a, b = (
            [row for row in sources.get(name, ()) if row[2] is not None and row[2] < self.bound]
            for name in (A, B)
        )
        return Counter(KINDS[self.kind].rows(a, b))


@dataclass(frozen=True)
class Kind:
    """Plans that differ by their bound alone.

    Attributes:
        rows: computes the result of the rows of both sources that are below the bound.
        is_keyed: whether the result has a key of its own.
        weight: how often lives have it; those with little state take least time.
    """

    sql: str
    columns: tuple[str, ...]
    rows: Callable[[list[Row], list[Row]], Iterable[Row]]
    is_keyed: bool = True
    weight: float = 1.0


def _totals(a: list[Row], b: list[Row]) -> Iterable[Row]:
    found: dict[int, list[int]] = defaultdict(list)
    for _, g, v, _ in a:
        found[g].append(v)
    return [(g, len(each), sum(each), max(each)) for g, each in found.items()]


def _tops(a: list[Row], b: list[Row]) -> Iterable[Row]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in a:
        found[row[1]].append(row)
    for rows in found.values():
        best = sorted(rows, key=lambda row: (-row[2], row[0], row[3]))[:2]
        yield from ((k, g, v, p) for k, g, v, p in best)


def _below(name: str, alias: str = "") -> str:
    return f"(SELECT * FROM {name} WHERE v < {{bound}}) {alias}".rstrip()


KINDS: dict[str, Kind] = {
    "filter": Kind(
        f"SELECT k, p, g, v + 1 AS w FROM {A} WHERE v < {{bound}}",
        ("k", "p", "g", "w"),
        lambda a, b: [(k, p, g, v + 1) for k, g, v, p in a],
        weight=2,
    ),
    "totals": Kind(
        f"SELECT g, COUNT(*) AS n, SUM(v) AS total, MAX(v) AS most FROM {A} WHERE v < {{bound}}"
        " GROUP BY g",
        ("g", "n", "total", "most"),
        _totals,
        weight=2,
    ),
    "joined": Kind(
        f"SELECT a.k, a.p, b.k AS k2, b.p AS p2, a.v + b.v AS w FROM {_below(A)} a"
        f" JOIN {_below(B)} b ON a.g = b.g",
        ("k", "p", "k2", "p2", "w"),
        lambda a, b: [(x[0], x[3], y[0], y[3], x[2] + y[2]) for x in a for y in b if x[1] == y[1]],
    ),
    "outer": Kind(
        f"SELECT a.k, a.p, a.v, b.v AS w FROM {_below(A)} a LEFT JOIN {_below(B)} b"
        " ON a.k = b.k AND a.p = b.p",
        ("k", "p", "v", "w"),
        lambda a, b: [
            (x[0], x[3], x[2], next((y[2] for y in b if (y[0], y[3]) == (x[0], x[3])), None))
            for x in a
        ],
    ),
    "absent": Kind(
        f"SELECT a.k, a.p, a.v FROM {_below(A)} a"
        f" WHERE a.g NOT IN (SELECT g FROM {_below(B, 'b')})",
        ("k", "p", "v"),
        lambda a, b: [(k, p, v) for k, g, v, p in a if g not in {y[1] for y in b}],
    ),
    "groups": Kind(
        f"SELECT DISTINCT g FROM {A} WHERE v < {{bound}}",
        ("g",),
        lambda a, b: {(row[1],) for row in a},
    ),
    "either": Kind(
        f"SELECT g, v FROM {A} WHERE v < {{bound}} UNION ALL SELECT g, v FROM {B}"
        " WHERE v < {bound}",
        ("g", "v"),
        lambda a, b: [(row[1], row[2]) for row in (*a, *b)],
    ),
    "tops": Kind(
        "SELECT k, p, g, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC,"
        f" k, p) AS place FROM {A} WHERE v < {{bound}}) WHERE place <= 2",
        ("k", "p", "g", "v"),
        lambda a, b: [(k, p, g, v) for k, g, v, p in _tops(a, b)],
        weight=0.5,
    ),
}


@dataclass(frozen=True)
class Reading:
    """What a query computes of a result.

    Attributes:
        counts: whether it counts rows by the last column, or takes all rows as they are.
    """

    table: str
    columns: tuple[str, ...]
    counts: bool

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.table,)

    @property
    def sql(self) -> str:
        last = self.columns[-1]
        if self.counts:
            return f"SELECT {last}, COUNT(*) AS n FROM {self.table} GROUP BY {last}"
        return f"SELECT {', '.join(self.columns)} FROM {self.table}"

    def result(self, sources: Mapping[str, Rows]) -> Bag:
        """Compute it of the rows of the result."""
        rows = Counter(sources.get(self.table, ()))
        if not self.counts:
            return rows
        found: Counter[Any] = Counter()
        for row, times in rows.items():
            found[row[-1]] += times
        return Counter(dict.fromkeys(found.items(), 1))
