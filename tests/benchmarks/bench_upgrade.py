"""Upgrades of a running query: what they cost that keep all state, and those that compute it again.

    python tests/benchmarks/bench_upgrade.py [--bytes 1000000000] [--only kept,warmed]

The state is of a GROUP BY of as many keys as its bytes need, of some 230 bytes each, which are
random and do not compress. `kept`: an upgrade that keeps it all (the TTL changes) from the call to
its return, and until a further epoch of 1,000 rows is in the result; seconds by the clock, which
are to be under 10 for 1 GB. `warmed`: one that computes all of it again, against the time in which
it was computed at first.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from harness import parsed

WIDTH, BATCH = 200, 500_000
ROW_BYTES = WIDTH + 30
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("s", pa.string())])
TEXT = (
    "SELECT k % 1000 AS g, COUNT(*) AS n, SUM(length(s)) AS total FROM"
    " (SELECT k, MAX({}s) AS s FROM rows GROUP BY k) GROUP BY k % 1000"
)


def batches(rows: int) -> Iterator[pa.Table]:
    random = np.random.default_rng(7)
    for start in range(0, rows, BATCH):
        count = min(BATCH, rows - start)
        letters = random.integers(32, 127, count * WIDTH, dtype=np.uint8)
        places = np.arange(0, count * WIDTH + 1, WIDTH, dtype=np.int32)
        texts = pa.StringArray.from_buffers(count, pa.py_buffer(places), pa.py_buffer(letters))
        yield pa.table([pa.array(np.arange(start, start + count)), texts], schema=SCHEMA)


class Computed:
    """A query with much state."""

    def __init__(self, folder: str, rows: int) -> None:
        import pkray
        from pkray.relational import changelog

        self.catalog = pkray.connect(folder)
        self.rows = changelog(SCHEMA, name="rows")
        self.catalog.create_view("rows", self.rows, temporary=True)
        self.query = self.catalog.sql(TEXT.format("")).materialize("default.result")
        begun = time.monotonic()
        for number, batch in enumerate(batches(rows), 1):
            self.rows.push(batch)
            self.query.wait({"rows": number}, timeout=600)
        self.pushed = number
        self.query.savepoint("all")  # everything is in files
        self.seconds = time.monotonic() - begun
        folders = (Path(folder) / ".queries/default.result/lives").rglob("*.parquet")
        self.bytes = sum(each.stat().st_size for each in folders)

    def follow(self) -> float:
        """Let 1,000 rows come; give how many seconds they take."""
        begun = time.monotonic()
        self.rows.push(next(batches(1000)))
        self.pushed += 1
        self.query.wait({"rows": self.pushed}, timeout=600)
        return time.monotonic() - begun


def kept(rows: int, folder: str) -> str:
    made = Computed(folder, rows)
    made.follow()
    made.catalog.sql("SET 'table.exec.state.ttl' = '30 d'")
    begun = time.monotonic()
    upgrade = made.query.upgrade(made.catalog.sql(TEXT.format("")))
    seconds = time.monotonic() - begun
    assert upgrade.diff.is_same, str(upgrade.diff)
    first = made.follow()
    return (
        f"kept: {made.bytes / 1e9:.2f} GB of state go on in {seconds:.2f} s, the next 1,000 rows "
        f"in {first:.2f} s, those after it in {made.follow():.2f} s"
    )


def warmed(rows: int, folder: str) -> str:
    made = Computed(folder, rows)
    begun = time.monotonic()
    made.query.upgrade(made.catalog.sql(TEXT.format("'' || ")))
    seconds = time.monotonic() - begun
    return (
        f"warmed up: {made.bytes / 1e9:.2f} GB of state in {seconds:.0f} s, "
        f"{seconds / made.seconds:.2f} times as long as at first"
    )


def main() -> None:
    asked = parsed(__doc__, bytes=1_000_000_000, only="kept,warmed")
    for name in asked.only.split(","):
        with tempfile.TemporaryDirectory(dir=".") as folder:
            print({"kept": kept, "warmed": warmed}[name](asked.bytes // ROW_BYTES, folder))


if __name__ == "__main__":
    main()
