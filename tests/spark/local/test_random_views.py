"""Queries over random tables, by `pkray.spark.sql` and over views: the rows of DuckDB."""

from collections.abc import Iterator
from datetime import date, timedelta
from random import Random
from typing import Any

import duckdb
import pytest

import pkray
import pkray.spark
from tests.integration.relational.random_queries.oracles import rows_of, same

FIRST = date(2026, 1, 1)
QUERIES = 6
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "true",
}


class RandomTables:
    """Two tables of changed, deleted and compacted rows, whose columns change meanwhile."""

    def __init__(self, catalog: pkray.Catalog, seed: int) -> None:
        self.random = Random(seed)
        self.catalog = catalog
        self.names = ("shop.t0", "shop.t1")
        for name in self.names:
            self._make(name)
        for _ in range(8):
            self.change()

    def _make(self, name: str) -> None:
        is_partitioned = self.random.random() < 0.5
        columns = {"id": "BIGINT NOT NULL", "p": "STRING NOT NULL", "n": "INT", "d": "DATE"}
        vectors = str(self.random.random() < 0.3).lower()
        self.catalog.create_table(
            name,
            {**columns, "s": "STRING", "x": "DOUBLE"},
            ["p", "id"] if is_partitioned else ["id"],
            partition_keys=["p"] if is_partitioned else [],
            options={"bucket": "2", "deletion-vectors.enabled": vectors},
        )

    def change(self) -> None:
        """Change one of the tables in some way."""
        random = self.random
        table = self.catalog.load_table(random.choice(self.names))
        match random.choice(("write", "write", "write", "delete", "compact", "column")):
            case "write":
                table.upsert([self._row(table) for _ in range(random.randrange(1, 60))])
            case "delete":
                table.delete([self._key(table) for _ in range(random.randrange(1, 20))])
            case "compact":
                table.compact(full=True)
            case "column":
                extra = [name for name in table.schema.names if name[0] == "e"]
                if extra and random.random() < 0.3:
                    table.alter.drop_column(extra[0])
                elif extra and random.random() < 0.3:
                    table.alter.rename_column(extra[0], f"e{random.randrange(1000, 2000)}")
                else:
                    table.alter.add_column(f"e{random.randrange(1000)}", "BIGINT")

    def _row(self, table: pkray.Table) -> dict[str, Any]:
        random = self.random

        def value(kind: str) -> Any:
            return {
                "BIGINT": random.randrange(50),
                "INT": random.randrange(-5, 50),
                "STRING": random.choice("abcde"),
                "DOUBLE": random.randrange(100) / 4,
                "DATE": FIRST + timedelta(random.randrange(10)),
            }[kind]

        return {
            each.name: None
            if each.type.nullable and random.random() < 0.2
            else value(each.type.root)
            for each in table.schema.fields
        }

    def _key(self, table: pkray.Table) -> dict[str, Any]:
        row = self._row(table)
        return {name: row[name] for name in table.schema.primary_keys}

    def query(self) -> str:
        """Write a query that Spark, DuckDB and pkray understand alike."""
        random = self.random
        one, other = random.choice(self.names), random.choice(self.names)
        first, second = (random.choice(self._columns(each)) for each in (one, other))
        where = f"WHERE {self._condition('a', one)}" if random.random() < 0.8 else ""
        return random.choice(
            (
                f"SELECT * FROM {one} a {where}",
                f"SELECT a.{first}, a.id FROM {one} AS a {where}",
                f"SELECT count(*), count(a.{first}), sum(a.n), max(a.{first}) FROM {one} a {where}",
                f"SELECT a.p, count(DISTINCT a.{first}) FROM {one} a {where} GROUP BY a.p",
                f"SELECT a.id, b.{second} FROM {one} a JOIN {other} b ON a.id = b.id {where}",
                f"SELECT a.{first}, b.x FROM {one} a LEFT JOIN {other} b ON a.n = b.id AND "
                f"{self._condition('b', other)} {where}",
                f"SELECT {first} FROM {one} a WHERE id IN (SELECT n FROM {other} b WHERE "
                f"{self._condition('b', other)})",
                f"WITH c AS (SELECT id, {first} AS v FROM {one} a {where}) SELECT c.v, d.v FROM c "
                "JOIN c AS d ON c.id = d.id + 1",
                f"SELECT id, n FROM {one} a {where} UNION ALL SELECT n, NULL FROM {other}",
                f"SELECT max(n) FROM {one} a WHERE n < (SELECT max(n) FROM {other})",
                f"SELECT DISTINCT {first} FROM {one} a {where}",
            )
        )

    def _columns(self, name: str) -> list[str]:
        return list(self.catalog.load_table(name).schema.names)

    def _condition(self, alias: str, name: str) -> str:
        random = self.random
        day = FIRST + timedelta(random.randrange(10))
        parts = [
            f"{alias}.n {random.choice(('<', '>=', '=', '<>'))} {random.randrange(40)}",
            f"{alias}.p = '{random.choice('abcde')}'",
            f"{alias}.p IN ('a', '{random.choice('abcde')}')",
            f"{alias}.d > DATE '{day}'",
            f"{alias}.id BETWEEN {random.randrange(25)} AND {random.randrange(25, 50)}",
            f"{alias}.{random.choice(self._columns(name))} IS NOT NULL",
            f"{alias}.s > 'b' OR {alias}.x < 9",
        ]
        return " AND ".join(f"({each})" for each in random.sample(parts, random.choice((1, 1, 2))))


@pytest.fixture
def session(spark) -> Iterator[Any]:
    """The package's session, which computes few rows soon."""
    before = {name: spark.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)
    for name in ("t0", "t1"):
        spark.catalog.dropTempView(name)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [17])
def test_random_queries_give_the_rows_of_duckdb(session, catalog, seed: int) -> None:
    tables = RandomTables(catalog, seed)
    for number in range(QUERIES):
        if number % 3 == 0:
            tables.change()
        duck = duckdb.connect()
        duck.execute("CREATE SCHEMA shop")
        for name in tables.names:
            rows = catalog.load_table(name).to_arrow()
            duck.register("rows", rows)
            duck.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
            duck.unregister("rows")
        text = tables.query()
        expected = rows_of(duck.execute(text).to_arrow_table())
        try:
            same(rows_of(pkray.spark.sql(session, catalog, text).toArrow()), expected)
            if number % 2 == 0:
                pkray.spark.views(session, catalog, database="shop")
                over = text.replace("shop.", "")
                same(rows_of(session.sql(over).toArrow()), expected)
        except AssertionError as error:
            raise AssertionError(f"{text}\n{error}") from error
