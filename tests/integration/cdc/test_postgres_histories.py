"""Random histories of a table in a PostgreSQL, through followers that are killed.

All histories of a test are in one table there, each under a number of its own, so that one slot
brings them all: what a follower costs is that of Java.
"""

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import pkray
import pkray.cdc
from pkray.cdc.postgresql.engine import Batch
from tests.integration.cdc import followed
from tests.integration.cdc.histories import KEYS, TYPES, Change, History, Row, by_chance, histories
from tests.integration.cdc.postgres_server import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(1800)]

NATIVE = {
    "id": "bigint NOT NULL",
    "part": "text NOT NULL",
    "truth": "boolean",
    "tiny": "smallint",
    "small": "smallint",
    "whole": "int",
    "big": "bigint NOT NULL",
    "real": "real",
    "wide": "double precision",
    "price": "numeric(10, 2)",
    "exact": "numeric(38, 10)",
    "name": "text",
    "raw": "bytea",
    "day": "date",
    "clock": "time(3)",
    "millis": "timestamp(3)",
    "micros": "timestamp(6)",
    "zoned": "timestamptz(6)",
    "numbers": "int[]",
}
"""Columns there, by name; rows of a type of their own are not brought by Debezium."""
TOGETHER = 8
"""Transactions that one client is given: as much text as fits into its arguments."""
COLUMNS = [("history", "INT NOT NULL"), *((name, TYPES[name]) for name in NATIVE)]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    found = PostgresServer()
    yield found
    found.close()


def literal(value: Any, kind: str) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float | Decimal):
        return f"'{value}'::{kind.removesuffix(' NOT NULL')}"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'::bytea"
    if isinstance(value, list):
        return f"ARRAY[{', '.join('NULL' if each is None else str(each) for each in value)}]::int[]"
    if isinstance(value, date | datetime | time):
        return f"'{value.isoformat()}'"
    return "'" + value.replace("'", "''") + "'"


def values(row: Row) -> list[str]:
    return [literal(row[name], kind) for name, kind in NATIVE.items()]


def statement(number: int, change: Change) -> str:
    """What a client says for a change."""
    if change.before is None:
        assert change.after is not None
        return f"INSERT INTO people VALUES ({number}, {', '.join(values(change.after))})"
    wheres = [f"{name} = {literal(change.before[name], NATIVE[name])}" for name in KEYS]
    where = " AND ".join([f"history = {number}", *wheres])
    if change.after is None:
        return f"DELETE FROM people WHERE {where}"
    pairs = zip(NATIVE, values(change.after), strict=True)
    news = ", ".join(f"{name} = {text}" for name, text in pairs)
    return f"UPDATE people SET {news} WHERE {where}"


def transactions(chosen: list[History], rng: random.Random) -> list[str]:
    """The changes of histories, each in its order, in transactions that mix them."""
    left = [(number, list(history.changes)) for number, history in enumerate(chosen)]
    said: list[str] = []
    while left := [(number, changes) for number, changes in left if changes]:
        number, changes = rng.choice(left)
        said.append(statement(number, changes.pop(0)))
    found = []
    while said:
        size = rng.randint(1, 8)
        found.append(";\n".join(said[:size]))
        said = said[size:]
    return found


def expected(chosen: list[History], schema: pa.Schema) -> pa.Table:
    rows = [
        {"history": number, **{name: row[name] for name in NATIVE}}
        for number, history in enumerate(chosen)
        for row in history.content
    ]
    return in_order(pa.Table.from_pylist(rows, schema))


def in_order(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in ("history", *KEYS)])


def begin(server: PostgresServer, catalog: pkray.Catalog, full: bool) -> pkray.Table:
    """Make the table there, anew, and the one here."""
    wait = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active"
    server.sql(wait)
    server.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    server.sql("DROP PUBLICATION IF EXISTS pkray_db_people")
    columns = ", ".join(f"{name} {kind}" for name, kind in NATIVE.items())
    server.sql(
        "DROP TABLE IF EXISTS people;"
        f"CREATE TABLE people (history int NOT NULL, {columns}, PRIMARY KEY (history, id, part));"
        f"ALTER TABLE people REPLICA IDENTITY {'FULL' if full else 'DEFAULT'}"
    )
    return catalog.create_table("db.people", COLUMNS, ["history", *KEYS], options={"bucket": "2"})


def follow(people: pkray.Table, server: PostgresServer) -> None:
    small = {"max.batch.size": "7", "max.queue.size": "20"}
    pkray.cdc.postgres(people, "public.people", **server.where, properties=small).run(once=True)


class Killed(BaseException):
    """Ends a follower between a commit and its acknowledgement."""


def follow_killed(people: pkray.Table, server: PostgresServer, commits: int) -> None:
    """Follow, and end where so many commits are made: nobody is told of the last one."""
    plain, left = Batch.release, commits

    def release(self: Batch, *, is_done: bool) -> None:
        nonlocal left
        left -= is_done
        if left == 0:
            raise Killed
        plain(self, is_done=is_done)

    with pytest.MonkeyPatch.context() as patched, suppress(Killed):
        patched.setattr(Batch, "release", release)
        follow(people, server)


def follow_in_a_process(people: pkray.Table, server: PostgresServer, rng: random.Random) -> None:
    """Follow in a process that is killed where a commit is made, or elsewhere."""
    warehouse = people.location.url.removesuffix("/db.db/people").removeprefix("file://")
    point = rng.choice(["committed", "committed", *followed.POINTS])
    words = [sys.executable, followed.__file__, warehouse, str(server.port), point, "2"]
    ended = subprocess.run(words, timeout=300, capture_output=True, check=False)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr.decode()


def become_the_source(
    server: PostgresServer,
    catalog: pkray.Catalog,
    count: int,
    number: int,
    *,
    parts: int,
    processes: int,
) -> int:
    """Have histories happen while followers are killed; give how many there were.

    Args:
        number: of the examples.
        parts: after each of which a follower is killed.
        processes: how many of these are processes.
    """
    rng = random.Random(number)
    eventful = histories(finite=True).filter(lambda each: len(each.changes) > 3)
    chosen = by_chance(eventful, count, number)
    people = begin(server, catalog, full=number % 2 == 0)
    left = transactions(chosen, rng)
    killed_at = set(rng.sample(range(parts), processes))
    size = len(left) // parts + 1
    for part in range(parts):
        texts = left[part * size : (part + 1) * size]
        for start in range(0, len(texts), TOGETHER):
            said = texts[start : start + TOGETHER]
            server.sql("".join(f"BEGIN;{text};COMMIT;" for text in said))
        if part in killed_at:
            follow_in_a_process(people, server, rng)
        else:
            follow_killed(people, server, rng.randint(1, 3))
    follow(people, server)
    assert in_order(people.to_arrow()).equals(expected(chosen, people.arrow_schema))
    catalog.drop_table("db.people")
    return len(chosen)


def test_histories_become_the_source_though_no_commit_is_acknowledged(server, catalog):
    assert become_the_source(server, catalog, 8, 0, parts=2, processes=0) > 4


@pytest.mark.slow
def test_many_histories_become_the_source_though_followers_are_killed(server, catalog):
    done, number = 0, 0
    while done < 200:
        number += 1
        done += become_the_source(server, catalog, 25, number, parts=6, processes=2)
