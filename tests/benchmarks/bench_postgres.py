"""Rows a second of a PostgreSQL's table into a table here, and the memory it takes.

    python tests/benchmarks/bench_postgres.py [--rows 1000000] [--buckets 2]

The server (PostgreSQL's programs are needed) is filled first. A process of its own follows it until
it has all rows; then a tenth of them is updated and a hundredth deleted, each by one transaction,
and another process follows these. Processor seconds are those of the follower with Debezium's Java
inside, without the server; memory is the follower's peak. In the end both tables have the same
digest of all values.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import parsed

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.integration.cdc.postgres_server import PASSWORD, USER, PostgresServer

_AT_ONCE = 500_000
"""Rows that one statement makes: a client waits for it two minutes at most."""


def follow(folder: str, port: int) -> None:
    """Follow until the table is as the source is; print what it took."""
    import pkray
    import pkray.cdc

    with pkray.connect(folder) as catalog:
        source = pkray.cdc.postgres(
            catalog.load_table("db.people"),
            "public.people",
            host="127.0.0.1",
            port=port,
            database="postgres",
            user=USER,
            password=PASSWORD,
        )
        start = time.monotonic()
        source.run(once=True)
        wall = time.monotonic() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime
    print(
        f"{source.rows:,} changes, {source.rows / cpu:,.0f} a processor second, "
        f"{source.rows / wall:,.0f} a second; peak {used.ru_maxrss >> 10} MB",
        flush=True,
    )


def digest_there(server: PostgresServer) -> str:
    text = "id || '|' || name || '|' || coalesce(price::text, '') || '|' || coalesce(note, '')"
    part = f"('x' || substr(md5({text}), 1, 8))::bit(32)::bigint"
    return server.sql(f"SELECT count(*) || ' ' || sum({part}) FROM people")[0]


def digest_here(folder: str) -> str:
    import duckdb

    import pkray

    with pkray.connect(folder) as catalog:
        rows = catalog.load_table("db.people").to_arrow()  # noqa: F841 # DuckDB finds it
        text = "concat(id, '|', name, '|', price, '|', note)"
        part = f"('0x' || substr(md5({text}), 1, 8))::BIGINT"
        found = duckdb.sql(f"SELECT count(*) || ' ' || sum({part}) FROM rows").fetchone()
    assert found is not None
    return str(found[0])


def main() -> None:
    options = parsed(__doc__, rows=1_000_000, buckets=2, folder="", port=0)
    if options.one:
        follow(options.folder, options.port)
        return
    import pkray

    server = PostgresServer()
    try:
        with tempfile.TemporaryDirectory() as folder:
            server.sql(
                "CREATE TABLE people (id bigint PRIMARY KEY, name text, price numeric(10, 2), "
                "note text)"
            )
            for first in range(0, options.rows, _AT_ONCE):
                server.sql(
                    "INSERT INTO people SELECT g, 'name ' || g % 1000, g % 10000 + 0.25, CASE WHEN "
                    f"g % 3 = 0 THEN md5(g::text) END FROM generate_series({first}, "
                    f"{min(first + _AT_ONCE, options.rows) - 1}) g"
                )
            with pkray.connect(folder) as catalog:
                columns = [
                    ("id", "BIGINT"), ("name", "STRING"), ("price", "DECIMAL(10, 2)"),
                    ("note", "STRING"),
                ]  # fmt: skip
                buckets = {"bucket": str(options.buckets)}
                catalog.create_table("db.people", columns, ["id"], options=buckets)
            words = ["--folder", folder, "--port", str(server.port), "--one", "follow"]
            print("snapshot: ", end="", flush=True)
            subprocess.run([sys.executable, __file__, *words], check=True)
            server.sql("UPDATE people SET price = price + 1 WHERE id % 10 = 1")
            server.sql("DELETE FROM people WHERE id % 100 = 7")
            print("changes: ", end="", flush=True)
            subprocess.run([sys.executable, __file__, *words], check=True)
            there, here = digest_there(server), digest_here(folder)
            print(f"digests of all values: {there} there, {here} here")
            assert there == here
    finally:
        server.close()


if __name__ == "__main__":
    main()
