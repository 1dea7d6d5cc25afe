"""Answers that must agree.

- Each run's batches have the schema of the relation.
- The plan gives the same rows as it was bound, without the optimizer.
- Rows that are set aside on the disk, as memory is small, are the same.
- TLP: the rows for which a condition is true, false and NULL are all rows, and so are aggregates.
- NoREC: as many rows pass a filter as the condition, computed as a column, is true for.
- Rows that come in two epochs make the same result.
- So does a query that keeps a table, as rows of its tables are written, changed and deleted.
- DuckDB gives the same rows; so does Spark, in ``tests/spark/local``, which takes it long.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError, PkrayError, QueryFailedError, UnsupportedError
from pkray.relational import Relation, changelog, from_arrow, query
from pkray.relational.local.catalogue import run
from tests.integration.relational.random_queries.materialized import materialized
from tests.integration.relational.random_queries.queries import Frame, Writer
from tests.integration.relational.random_queries.tables import SPREAD, random_tables
from tests.unit.relational.continuous.histories import Continuous

ROWS, MANY_ROWS, MANY_SPREAD = 14, 1500, 4000
MEMORY, LITTLE_MEMORY = 300_000, 4_000
"""Bytes for queries of many rows, and of few: both have rows set aside."""
MATERIALIZED = 10
"""Of so many queries one keeps a table, which takes as long as all else."""

Rows = Counter[tuple[Any, ...]]


@dataclass
class Outcome:
    """What comparing one query came to.

    Attributes:
        checked: oracles that agreed.
        refused: oracles whose queries are errors, with the errors.
    """

    checked: list[str] = field(default_factory=list)
    refused: dict[str, PkrayError] = field(default_factory=dict)


class RandomQuery:
    """The query of a seed.

    Every second keeps to what DuckDB has too, every ninth reads many rows with little memory, every
    second pair is kept up to date too.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.is_large = seed % 9 == 4
        rows, spread = (MANY_ROWS, MANY_SPREAD) if self.is_large else (ROWS, SPREAD)
        self.tables = random_tables(self.random, rows, spread)
        steps = self.random.choice((1, 2, 2, 3))
        is_duck = seed % 2 == 0  # the others order arrays, where DuckDB has NULLs last
        writer = Writer(self.random, duck=is_duck, depth=self.random.choice((1, 2, 3)))
        self.is_duck = is_duck
        self.frame: Frame = writer.frame(steps)
        self.condition = writer.condition(self.frame).text

    def __str__(self) -> str:
        rows = "\n".join(f"{name} = {rows.to_pydict()}" for name, rows in self.tables.items())
        shown = "(many rows)" if self.is_large else rows
        duck = f"\nDuckDB: {self.frame.duck}" if self.frame.duck else ""
        return f"seed {self.seed}: {self.frame.text}\ncondition: {self.condition}{duck}\n{shown}"

    @cached_property
    def sources(self) -> dict[str, Relation]:
        return {name: from_arrow(rows, name=name) for name, rows in self.tables.items()}

    @cached_property
    def whole(self) -> Relation:
        return query(self.frame.text, **self.sources)

    def relation(self, text: str) -> Relation:
        """Read a query of the query, which is ``f`` in it."""
        return query(text, f=self.whole)

    def compare(self) -> Outcome:
        """Ask all oracles.

        Raises:
            AssertionError: two answers differ.
            Exception: an error that is none of pkray's.
        """
        outcome = Outcome()
        whole = self.whole
        try:
            expected = self._rows(whole)
        except EvaluationError as error:
            outcome.refused["whole"] = error
            return outcome
        for name, check in (
            ("optimizer off", self._unoptimized),
            ("little memory", self._with_little_memory),
            ("TLP", self._partitioned),
            ("TLP of aggregates", self._aggregated),
            ("NoREC", self._counted),
            ("continuous", self._continuous),
            ("materialize", self._materialized),
            ("DuckDB", self._duck),
        ):
            try:
                if check(whole, expected):
                    outcome.checked.append(name)
            except (EvaluationError, QueryFailedError) as error:
                if isinstance(error, QueryFailedError) and not _is_of_a_row(error):
                    raise
                outcome.refused[name] = error
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error
        return outcome

    def _rows(self, relation: Relation, memory: int | None = None) -> Rows:
        batches = list(relation.to_batches(memory=memory))
        for batch in batches:
            assert batch.schema.equals(relation.schema), f"{batch.schema} is not {relation.schema}"
        return rows_of(pa.Table.from_batches(batches, relation.schema))

    def _unoptimized(self, whole: Relation, expected: Rows) -> bool:
        same(rows_of(pa.Table.from_batches(run(whole.plan), whole.schema)), expected)
        return True

    def _with_little_memory(self, whole: Relation, expected: Rows) -> bool:
        try:
            found = self._rows(whole, MEMORY if self.is_large else LITTLE_MEMORY)
        except UnsupportedError as error:
            if "memory" not in str(error):
                raise
            return False
        same(found, expected)
        return True

    @property
    def _parts(self) -> str:
        tests = (f"{self.condition}", f"NOT {self.condition}", f"{self.condition} IS NULL")
        return " UNION ALL ".join(f"(SELECT * FROM f WHERE {t})" for t in tests)

    def _partitioned(self, whole: Relation, expected: Rows) -> bool:
        same(self._rows(self.relation(self._parts)), expected)
        return True

    def _aggregated(self, whole: Relation, expected: Rows) -> bool:
        columns = self.frame.columns
        calls = ["count(*) AS n0"]
        for name, kind in columns.items():
            if kind in ("int", "long", "dec", "double"):
                calls += [f"sum({name}) AS s{name}", f"max({name}) AS m{name}"]
            elif kind != "map":
                calls += [f"count({name}) AS k{name}", f"count(DISTINCT {name}) AS d{name}"]
        keys = [name for name, kind in columns.items() if kind not in ("map", "double")][:1]
        by = f" GROUP BY {keys[0]}" if keys and self.seed % 2 else ""
        shown = ", ".join([*keys, *calls] if by else calls)
        texts = [f"SELECT {shown} FROM ({part}){by}" for part in ("SELECT * FROM f", self._parts)]
        ours, parts = (self._rows(self.relation(text)) for text in texts)
        same(parts, ours)
        return True

    def _counted(self, whole: Relation, expected: Rows) -> bool:
        passed = self.relation(f"SELECT count(*) AS n FROM f WHERE {self.condition}")
        summed = self.relation(
            f"SELECT coalesce(sum(CASE WHEN {self.condition} THEN 1 ELSE 0 END), 0) AS n FROM f"
        )
        same(self._rows(passed), self._rows(summed))
        return True

    def _continuous(self, whole: Relation, expected: Rows) -> bool:
        if (self.seed // 2) % 2 or self.is_large:
            return False
        sources = {
            name: changelog(rows.schema, name=name)
            for name, rows in self.tables.items()
            if f"FROM {name}" in self.frame.text
        }
        try:
            kept = Continuous(query(self.frame.text, **sources), sources)
        except PkrayError:  # what has no continuous run says so
            return False
        for half in (0, 1):
            for name, source in sources.items():
                rows = self.tables[name]
                middle = rows.num_rows // 2
                source.push(rows.slice(middle) if half else rows.slice(0, middle))
            kept.run()
        same(Counter({_plain(row): n for row, n in kept.content.items()}), expected)
        return True

    def _materialized(self, whole: Relation, expected: Rows) -> bool:
        if self.seed % MATERIALIZED or self.is_large:
            return False
        read = {
            name: rows for name, rows in self.tables.items() if f"FROM {name}" in self.frame.text
        }
        found = materialized(self.frame.text, read, Random(self.seed))
        if found is None:
            return False
        same(rows_of(found), expected)
        return True

    def _duck(self, whole: Relation, expected: Rows) -> bool:
        if self.frame.duck is None or not self.is_duck:
            return False
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            # its filter of what a join can find, by least and greatest keys, loses NaN
            connection.execute("SET disabled_optimizers = 'join_filter_pushdown'")
            for name, rows in self.tables.items():
                connection.register(name, rows)
            try:
                found = connection.execute(self.frame.duck).to_arrow_table()
            except (duckdb.OutOfRangeException, duckdb.ConversionException):
                return False
        same(rows_of(found), expected)
        return True


def _is_of_a_row(error: QueryFailedError) -> bool:
    return isinstance(error.__cause__, EvaluationError)


def rows_of(table: pa.Table) -> Rows:
    """Count equal rows; numbers are equal whatever their types."""
    columns = [_values(each) for each in table.columns]
    found = zip(*columns, strict=True) if columns else iter([()] * table.num_rows)
    return Counter(tuple(map(_plain, row)) for row in found)


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_duration(column.type):
        return pc.cast(column, pa.int64()).to_pylist()
    return column.to_pylist()


def _plain(value: Any) -> Any:
    match value:
        case bool():
            return value
        case float() if value != value:
            return "NaN"
        case float():
            return float(f"{value:.9g}") + 0.0
        case "nan":  # as continuous histories write it
            return "NaN"
        case datetime():
            return value.replace(tzinfo=None)
        case int() | Decimal():
            return float(f"{float(value):.9g}") if abs(value) < 1e15 else value
        case list() | tuple():
            return tuple(map(_plain, value))
        case dict():
            return tuple((name, _plain(each)) for name, each in value.items())
    return value


def same(found: Rows, expected: Rows) -> None:
    """Refuse rows that differ, and say some of them."""
    missing, extra = expected - found, found - expected
    assert not missing + extra, (
        f"missing {dict(list(missing.items())[:5])}, extra {dict(list(extra.items())[:5])}"
    )
