"""Plans of queries, and what they give, computed row by row without pkray."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = tuple[Row, ...]
Bag: TypeAlias = Counter[Row]

A, B = "d.a", "d.b"
"""The sources: tables of ``k``, ``g``, ``v`` and ``p``, which may be the partition."""
ADDED = 500
"""What `Added` adds to keys, at least: the rows of other queries have lower ones."""


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

    @property
    def parts(self) -> tuple[Plan, ...]:
        return (self,)

    def bounded(self, bound: int) -> Plan:
        """Make the plan of this kind with another bound."""
        return replace(self, bound=bound)

    def result(self, sources: Mapping[str, Rows]) -> Bag:
        """Compute it of the rows of the sources."""
        a, b = (below(sources.get(name, ()), self.bound) for name in (A, B))
        return Counter(KINDS[self.kind].rows(a, b))


def below(rows: Iterable[Row], bound: int) -> list[Row]:
    """List the rows whose ``v`` is below a bound."""
    return [row for row in rows if row[2] is not None and row[2] < bound]


@dataclass(frozen=True)
class Both:
    """What a statement set computes: a result for each plan."""

    parts: tuple[Plan, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        read = {name for part in self.parts for name in part.sources}
        return tuple(sorted(read))

    @property
    def columns(self) -> tuple[str, ...]:
        return self.parts[0].columns

    def bounded(self, bound: int) -> Both:
        """Make the set of these kinds with another bound."""
        return Both(tuple(part.bounded(bound) for part in self.parts))


@dataclass(frozen=True)
class Added:
    """What a second query adds to a result: rows of the second source, under keys of their own."""

    columns: tuple[str, ...]
    bound: int = 100

    @property
    def sources(self) -> tuple[str, ...]:
        return (B,)

    @property
    def parts(self) -> tuple[Added, ...]:
        return (self,)

    @property
    def sql(self) -> str:
        others = (f"{'p' if name == 'p' else 'v'} AS {name}" for name in self.columns[1:])
        columns = ", ".join([f"k + {ADDED} + 100 * p AS {self.columns[0]}", *others])
        return f"SELECT {columns} FROM {B} WHERE v < {self.bound}"

    def result(self, sources: Mapping[str, Rows]) -> Bag:
        """Compute it of the rows of the sources."""
        return Counter(
            (k + ADDED + 100 * p, *(p if name == "p" else v for name in self.columns[1:]))
            for k, g, v, p in below(sources.get(B, ()), self.bound)
        )


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
    def parts(self) -> tuple[Reading, ...]:
        return (self,)

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


@dataclass(frozen=True)
class Kind:
    """Plans that differ by their bound alone.

    Attributes:
        rows: computes the result of the rows of both sources that are below the bound.
        key: of the result; empty: it has none of its own.
        weight: how often lives have it; those with little state take least time.
    """

    sql: str
    columns: tuple[str, ...]
    rows: Callable[[list[Row], list[Row]], Iterable[Row]]
    key: tuple[str, ...] = ("k", "p")
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
        ("g",),
        weight=2,
    ),
    "joined": Kind(
        f"SELECT a.k, a.p, b.k AS k2, b.p AS p2, a.v + b.v AS w FROM {_below(A)} a"
        f" JOIN {_below(B)} b ON a.g = b.g",
        ("k", "p", "k2", "p2", "w"),
        lambda a, b: [(x[0], x[3], y[0], y[3], x[2] + y[2]) for x in a for y in b if x[1] == y[1]],
        (),
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
        ("g",),
    ),
    "either": Kind(
        f"SELECT g, v FROM {A} WHERE v < {{bound}} UNION ALL SELECT g, v FROM {B}"
        " WHERE v < {bound}",
        ("g", "v"),
        lambda a, b: [(row[1], row[2]) for row in (*a, *b)],
        (),
    ),
    "tops": Kind(
        "SELECT k, p, g, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC,"
        f" k, p) AS place FROM {A} WHERE v < {{bound}}) WHERE place <= 2",
        ("k", "p", "g", "v"),
        lambda a, b: [(k, p, g, v) for k, g, v, p in _tops(a, b)],
        weight=0.5,
    ),
}
