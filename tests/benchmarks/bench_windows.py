"""What waits for event time, against what does not.

    python tests/benchmarks/bench_windows.py [--rows 5000000] [--runs 3] [--only tumble,...]

`tumble`: COUNT and SUM over 1,000 keys in windows of ten minutes, in rows per processor second,
against GROUP BY of the keys and against GROUP BY of the keys and the minutes by tens. `slides`:
hopping and cumulating windows of ten minutes with a hundred steps against ten, in processor
seconds. Rows span an hour, half a second of it out of order, in ten epochs.

`temporal`: a temporal join against a twentieth as many keys with 10 versions each, in rows per
processor second against the lookup join of the same rows, versions and epochs. Each measurement
runs in a process of its own, in turn; figures are medians of runs.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from harness import Measured, measure, medians, parsed, report, warm_up

EPOCH, KEYS, VERSIONS = 100_000, 20, 10
JOINED = "SELECT id, price * rate AS total FROM l {} JOIN r FOR SYSTEM_TIME AS OF l.at ON l.k = r.k"
LEFT = {"id": "BIGINT", "k": "BIGINT", "price": "BIGINT", "at": "TIMESTAMP(3)"}
RIGHT = {"k": "BIGINT", "rate": "BIGINT", "since": "TIMESTAMP(3)"}


def versioned(rows: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Give epochs of left rows and versions, in the order of their times."""
    random = np.random.default_rng(7)
    epochs = max(rows // EPOCH, 1)
    size, keys = rows // epochs, rows // KEYS
    changes = keys * VERSIONS // epochs
    for epoch in range(epochs):
        left = np.sort(random.integers(0, 1_000_000, size)) + 1_000_000 * epoch
        right = np.sort(random.integers(0, 1_000_000, changes)) + 1_000_000 * epoch
        yield (
            pa.table(
                {
                    "id": np.arange(size) + epoch * size,
                    "k": random.integers(0, keys, size),
                    "price": random.integers(0, 1000, size),
                    "at": pa.array(left, pa.timestamp("ms")),
                }
            ),
            pa.table(
                {
                    "k": (np.arange(changes) * 7 + epoch * changes) % keys,
                    "rate": random.integers(0, 1000, changes),
                    "since": pa.array(right, pa.timestamp("ms")),
                }
            ),
        )


def joined(rows: int, *, by_event_time: bool) -> Measured:
    """Measure a join with versions, or with the newest ones."""
    from pkray.relational import changelog, query

    marks = (("at", "at"), ("since", "since")) if by_event_time else (None, None)
    left = changelog(LEFT, name="l", watermark=marks[0])
    right = changelog(RIGHT, name="r", mode="upsert", primary_key=["k"], watermark=marks[1])
    epochs = list(versioned(rows))
    with query(JOINED.format(""), l=left, r=right).stream(encoding="append") as stream:

        def work() -> int:
            count = 0
            for rows_of_epoch, versions in epochs:
                right.push(versions)
                left.push(rows_of_epoch)
                while (batch := stream.poll()) is not None:
                    count += batch.num_rows
            return count

        return measure(work)


SECONDS, TENS = 3600, 10
"""Of event time from the first row to the last, and epochs."""
CLICKS = pa.schema([("ts", pa.timestamp("ms")), ("k", pa.int64()), ("v", pa.int64())])
SUMS = "COUNT(*) AS n, SUM(v) AS total"
WINDOWED = (
    f"SELECT k, window_start, window_end, {SUMS} FROM TABLE({{}}(TABLE t, DESCRIPTOR(ts), {{}}"
    "INTERVAL '10' MINUTE)) GROUP BY k, window_start, window_end"
)
GROUPED = {
    "tumble": WINDOWED.format("TUMBLE", ""),
    "keys": f"SELECT k, {SUMS} FROM t GROUP BY k",
    "keys and minutes": f"SELECT k, tens, {SUMS} FROM (SELECT k, v, unix_millis(ts) DIV 600000 "
    "AS tens FROM t) GROUP BY k, tens",
    **{
        f"{kind} {count}": WINDOWED.format(kind.upper(), f"INTERVAL '{600 // count}' SECOND, ")
        for kind in ("hop", "cumulate")
        for count in (10, 100)
    },
}


def clicks(rows: int) -> Iterator[pa.Table]:
    """Give epochs of rows in the order of their times, but for half a second."""
    random = np.random.default_rng(7)
    size, span = rows // TENS, 1000 * SECONDS // TENS
    for number in range(TENS):
        times = np.sort(random.integers(0, span, size)) + number * span
        times -= random.integers(0, 500, size)
        keys, values = random.integers(0, 1000, size), random.integers(0, 1000, size)
        columns = [pa.array(times, pa.timestamp("ms")), pa.array(keys), pa.array(values)]
        yield pa.table(columns, schema=CLICKS)


def grouped(rows: int, *, name: str) -> Measured:
    """Measure an aggregation up to the end of its rows."""
    from pkray.relational import changelog, query

    t = changelog(CLICKS, mode="insert", watermark=("ts", "ts - INTERVAL '1' SECOND"))
    epochs = list(clicks(rows))
    with query(GROUPED[name], t=t).stream() as stream:
        t.push(epochs[0].slice(0, 10))
        stream.poll()

        def work() -> None:
            for each in epochs:
                t.push(each)
                while stream.poll() is not None:
                    pass
            t.finish()
            while stream.poll() is not None:
                pass

        return measure(work)


RUNS: dict[str, Callable[[int], Measured]] = {
    "temporal": partial(joined, by_event_time=True),
    "temporal plain": partial(joined, by_event_time=False),
    **{name: partial(grouped, name=name) for name in GROUPED},
}


def tumble(rows: int, runs: int) -> None:
    for other in ("keys", "keys and minutes"):
        mine, plain = medians(__file__, ["tumble", other], runs)
        print(
            f"tumbling windows of {rows:,} rows, 1,000 keys: {rows / mine / 1e6:.2f}M rows/cpu-s, "
            f"GROUP BY {other} {rows / plain / 1e6:.2f}M: {plain / mine:.2f} of it (goal 1)"
        )


def slides(rows: int, runs: int) -> None:
    for kind in ("hop", "cumulate"):
        many, few = medians(__file__, [f"{kind} 100", f"{kind} 10"], runs)
        print(
            f"{kind} of {rows:,} rows with 100 steps a window: {many:.2f} cpu-s, with 10 "
            f"{few:.2f}: {many / few:.2f} times (goal 1.5)"
        )


def temporal(rows: int, runs: int) -> None:
    mine, plain = medians(__file__, ["temporal", "temporal plain"], runs)
    print(
        f"temporal join of {rows:,} rows with {VERSIONS} versions of {rows // KEYS:,} keys: "
        f"{rows / mine / 1e6:.2f}M rows/cpu-s, the lookup join {rows / plain / 1e6:.2f}M: "
        f"{plain / mine:.2f} of it (goal 0.5)"
    )


PARTS = {"temporal": temporal, "tumble": tumble, "slides": slides}


def main() -> None:
    arguments = parsed(__doc__, rows=2_000_000, runs=3, only=",".join(PARTS))
    if arguments.one:
        warm_up("pkray.relational")
        report(RUNS[arguments.one](arguments.rows))
        return
    for name in arguments.only.split(","):
        PARTS[name](arguments.rows, arguments.runs)


if __name__ == "__main__":
    main()
