"""Continuous queries: a whole pipeline, half of all rows on one key, small epochs, much state.

    python tests/benchmarks/bench_continuous.py [--rows 5000000] [--runs 3] [--only groups,...]

`groups`: COUNT and SUM of rows over a fifth as many keys, kept in a table, in rows per processor
second against upserts of the same rows into an aggregation table with a lookup changelog; the
states' and the table's files and what runs beside them count. `skew`: top-n, MIN and a join where
half of all rows have one key, in processor seconds against uniform keys. `epoch`: 1,000 rows
through a filter and an aggregate into a table, in wall seconds against a plain commit of 1,000
rows. `state`: an epoch of 10,000 rows over as many groups as rows, against a tenth of them.
`bounded`: a join of two changelogs on a foreign key, the top 10 of each group and the last row of
each key, all in epochs of 100,000 rows, in processor seconds against the local bounded engine's;
the last takes five times the rows. `spark`: the epochs of `epoch` fed by a stream of Spark, one
file a micro-batch, against a stream that does nothing and one that computes for nobody. `pipeline`:
`groups` fed by Spark from files of JSON, in wall seconds against a stream of Spark that computes
the same micro-batches for nobody. `backfill`: COUNT and SUM of a table's rows, begun with Spark,
until they are in a table, against Spark computing them and an ingest of its result. Each
measurement runs in a process of its own, in turn; figures are medians of runs.
"""

import operator
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import SCHEMA, Measured, batches, measure, medians, parsed, report, warm_up

from pkray.relational import Relation

BATCH, SMALL, EPOCH = 1_000_000, 1_000, 10_000
SMALL_EPOCHS, STATE_EPOCHS = 50, 20
FEED_EPOCHS, FEED_WARM_UP = 60, 20
GROUPS = "SELECT k, COUNT(*) AS n, SUM(a) AS total FROM rows GROUP BY k"
SMALL_GROUPS = GROUPS.replace("rows", "rows WHERE a > 0")
SKEWED = {
    "top-n": "SELECT k, id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) "
    "AS place FROM t) WHERE place <= 10",
    "MIN": "SELECT k, MIN(v) AS low FROM t GROUP BY k",
    "join": "SELECT t.id, t.v, names.name FROM t JOIN names ON t.k = names.k",
}
BOUNDED = {
    "foreign key join": "SELECT t.id, t.v, names.name FROM t JOIN names ON t.k = names.k",
    "top 10 of a group": SKEWED["top-n"],
    "last of a key": "SELECT k, id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k "
    "ORDER BY id DESC) AS place FROM t) WHERE place <= 1",
}
BOUNDED_EPOCH = 100_000

Files = Callable[[int, str], Any]
"""Makes a streaming DataFrame of so many rows in files in a folder."""


class Materialized:
    """A query of rows that are pushed, kept in a table."""

    def __init__(self, folder: str, text: str) -> None:
        import pkray
        from pkray.relational import changelog

        self.catalog = pkray.connect(folder)
        self.rows = changelog(SCHEMA, name="rows")
        self.catalog.create_view("rows", self.rows, temporary=True)
        self.query = self.catalog.sql(text).materialize("default.result")
        self._pushed = 0

    def push(self, epochs: Sequence[pa.Table]) -> None:
        """Push epochs, and wait until the last one is in the table."""
        for rows in epochs:
            self.rows.push(rows)
        self._pushed += len(epochs)
        self.query.wait({"rows": self._pushed}, timeout=600)

    def end(self) -> None:
        """Write all state to files, and wait for what the table does in the background."""
        self.query.stop()
        self.catalog.load_table("default.result").compact(full=False)


def groups_by_query(rows: int, folder: str) -> Measured:
    tables = list(batches(rows, rows // 5, min(BATCH, rows)))
    query = Materialized(folder, GROUPS)

    def work() -> None:
        query.push(tables)
        query.end()

    return measure(work)


def groups_by_table(rows: int, folder: str) -> Measured:
    import pkray

    tables = [
        pa.table(
            {"k": each["k"], "n": np.ones(len(each), np.int64), "total": each["a"]},
            schema=pa.schema([SCHEMA.field("k"), ("n", pa.int64()), ("total", pa.int64())]),
        )
        for each in batches(rows, rows // 5, min(BATCH, rows))
    ]
    sums = {f"fields.{name}.aggregate-function": "sum" for name in ("n", "total")}
    options = {"merge-engine": "aggregation", "changelog-producer": "lookup", **sums}
    catalog = pkray.connect(folder)
    table = catalog.create_table("default.t", tables[0].schema, primary_keys=["k"], options=options)
    with table.open_writer("bench") as writer:

        def work() -> None:
            for number, each in enumerate(tables):
                writer.upsert(each)
                writer.commit(commit_identifier=number)
            table.compact(full=False)

        return measure(work)


def small_epochs(rows: int, folder: str) -> Measured:
    query = Materialized(folder, f"SELECT * FROM ({SMALL_GROUPS})")
    first, *epochs = small(rows)
    query.push([first])
    return measure(lambda: query.push(epochs))


def small_commits(rows: int, folder: str) -> Measured:
    import pkray

    catalog = pkray.connect(folder)
    table = catalog.create_table("default.t", SCHEMA, primary_keys=["k"])
    first, *epochs = small(rows)
    with table.open_writer("bench") as writer:

        def commit(tables: Sequence[pa.Table]) -> None:
            for each in tables:
                writer.upsert(each)
                writer.commit()

        commit([first])
        return measure(lambda: commit(epochs))


def small(rows: int) -> list[pa.Table]:
    """Rows that are there before, and then small epochs."""
    first = next(batches(rows // 5, rows // 5, rows // 5, seed=1))
    return [first, *batches(SMALL * SMALL_EPOCHS, rows // 5, SMALL)]


def epochs_over(rows: int, folder: str, *, keys: int) -> Measured:
    """Measure epochs over so many groups a hundred of the rows asked for."""
    count = max(rows * keys // 100, 1)
    query = Materialized(folder, GROUPS)
    first = next(batches(count, count, count, seed=1))
    query.push([first.set_column(0, SCHEMA.field(0), pa.array(np.arange(count)))])
    epochs = list(batches(EPOCH * 2 * STATE_EPOCHS, count, EPOCH))
    query.push(epochs[:STATE_EPOCHS])  # makes the copies of files that keys are looked up in
    return measure(lambda: query.push(epochs[STATE_EPOCHS:]))


def skewed(rows: int, folder: str, *, name: str, hot: bool) -> Measured:
    """Measure the operators of a query over changes, half of them of one key if `hot`."""
    from pkray.relational import changelog, query

    keys = max(rows // 100, 2)
    columns = {"id": "BIGINT", "k": "BIGINT", "v": "BIGINT"}
    t = changelog(columns, mode="all", name="t")
    names = changelog({"k": "BIGINT", "name": "BIGINT"}, mode="all", name="names")
    epochs = list(changes(rows, keys, hot=hot))
    names.push({"k": np.arange(keys), "name": np.arange(keys)})
    reads = {"t": t, "names": names} if name == "join" else {"t": t}
    with query(SKEWED[name], **reads).stream() as stream:

        def work() -> None:
            for each in epochs:
                t.push(each)
                while stream.poll() is not None:
                    pass

        return measure(work)


def added(name: str, rows: int) -> Relation:
    """Make a query of changelogs that are pushed in epochs."""
    from pkray.relational import changelog, query

    random = np.random.default_rng(7)
    rows *= 5 if name == "last of a key" else 1
    keys = {"foreign key join": rows, "top 10 of a group": rows // 100}.get(name, rows // 5)
    is_join = name == "foreign key join"
    t = changelog(
        {"id": "BIGINT", "k": "BIGINT", "v": "BIGINT"},
        mode="all" if is_join else "insert",
        primary_key=["id"] if is_join else None,
        name="t",
    )
    names = changelog(
        {"k": "BIGINT", "name": "BIGINT"}, mode="all", primary_key=["k"], name="names"
    )
    for start in range(0, rows, BOUNDED_EPOCH):
        size = min(BOUNDED_EPOCH, rows - start)
        k, v = random.integers(0, max(keys, 1), size), random.integers(0, 1 << 40, size)
        t.push({"id": np.arange(start, start + size), "k": k, "v": v})
        if is_join:
            names.push({"k": np.arange(start, start + size), "name": v})
    return query(BOUNDED[name], **({"t": t, "names": names} if is_join else {"t": t}))


def continuously(rows: int, folder: str, *, name: str) -> Measured:
    """Measure the epochs of a query up to their end."""
    relation = added(name, rows)

    def work() -> None:
        with relation.stream() as stream:
            while stream.poll() is not None:
                pass

    return measure(work)


def bounded_run(rows: int, folder: str, *, name: str) -> Measured:
    """Measure the bounded run over the same rows."""
    relation = added(name, rows)
    return measure(lambda: relation.to_arrow(engine="local").num_rows)


def changes(rows: int, keys: int, *, hot: bool) -> Iterator[pa.Table]:
    """Insert rows; with each epoch a fifth of those before goes again."""
    random = np.random.default_rng(7)
    size = max(rows // 10, 1)
    before = None
    for start in range(0, rows, size):
        k = random.integers(0, keys, size)
        k[random.random(size) < 0.5 * hot] = 0
        new = pa.table(
            {"id": np.arange(start, start + size), "k": k, "v": random.integers(0, 1 << 40, size)}
        )
        gone = new.slice(0, 0) if before is None else before.slice(0, size // 5)
        kinds = pa.array(["-D"] * len(gone) + ["+I"] * size)
        yield pa.concat_tables([gone, new]).append_column("_row_kind", kinds)
        before = new


def fed_by_spark(rows: int, folder: str, *, files: Files, text: str) -> Measured:
    """Measure micro-batches of Spark until they are in a query's table."""
    import pkray.spark

    catalog = pkray.connect(f"{folder}/warehouse")
    stream = pkray.spark.relation(files(rows, folder))
    catalog.create_view("rows", stream, temporary=True)
    query = catalog.sql(text).materialize("default.result")
    query.wait({"stream": FEED_WARM_UP}, timeout=600)
    begun = time.perf_counter()
    query.wait({"stream": FEED_EPOCHS}, timeout=600)
    measured = Measured(0, time.perf_counter() - begun, 0)
    query.stop()
    pkray.spark.stop()
    return measured


def micro_batches(rows: int, folder: str, *, files: Files, computed: bool) -> Measured:
    """Measure micro-batches of Spark that are computed for nobody, or not even that."""
    import pkray.spark

    taken = threading.Semaphore(0)

    def take(frame: Any, number: int) -> None:
        if computed:
            frame.write.format("noop").mode("overwrite").save()
        taken.release()

    writer = files(rows, folder).writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
    wait_for(taken, FEED_WARM_UP)
    begun = time.perf_counter()
    wait_for(taken, FEED_EPOCHS - FEED_WARM_UP)
    measured = Measured(0, time.perf_counter() - begun, 0)
    query.stop()
    pkray.spark.stop()
    return measured


def wait_for(taken: threading.Semaphore, count: int) -> None:
    for _ in range(count):
        assert taken.acquire(timeout=60)


def small_files(rows: int, folder: str) -> Any:
    """A stream of small Parquet files, one a micro-batch."""
    return file_stream(folder, "parquet", SMALL)


def json_files(rows: int, folder: str) -> Any:
    """A stream of files of JSON lines, one a micro-batch, which hold the rows in all."""
    return file_stream(folder, "json", rows // FEED_EPOCHS)


def file_stream(folder: str, kind: str, size: int) -> Any:
    place = Path(folder) / "files"
    place.mkdir()
    for number, rows in enumerate(batches(size * FEED_EPOCHS, 200_000, size)):
        file = place / f"{number:04}.{kind}"
        if kind == "json":
            rows.drop_columns("ts").to_pandas().to_json(file, orient="records", lines=True)
        else:
            pq.write_table(rows, file)
        os.utime(file, (1_700_000_000 + number,) * 2)
    reader = spark_session().readStream.schema("k BIGINT, a BIGINT, b DOUBLE, s STRING")
    return reader.option("maxFilesPerTrigger", 1).format(kind).load(str(place))


def spark_session() -> Any:
    import pkray.spark

    return pkray.spark.session("bench", configs={"spark.sql.shuffle.partitions": "2"})


def backfill_by_spark(rows: int, folder: str) -> Measured:
    import pkray.spark

    catalog = with_rows(rows, folder)
    spark_session().range(1).count()

    def work() -> None:
        relation = catalog.sql(GROUPS.replace("rows", "default.rows"))
        query = relation.materialize("default.r", trigger="available_now", backfill="spark")
        query.wait_ended(600)

    measured = measure(work)
    pkray.spark.stop()
    return measured


def ingest_by_spark(rows: int, folder: str) -> Measured:
    import pkray.spark

    catalog = with_rows(rows, folder)
    spark = spark_session()
    spark.range(1).count()
    columns = [("k", "BIGINT"), ("n", "BIGINT"), ("total", "BIGINT")]
    table = catalog.create_table("default.r", columns, primary_keys=["k"])

    def work() -> None:
        relation = catalog.sql(GROUPS.replace("rows", "default.rows"))
        pkray.spark.ingest(relation.to_spark(spark), table)

    measured = measure(work)
    pkray.spark.stop()
    return measured


def with_rows(rows: int, folder: str) -> Any:
    """A catalog with a table of so many rows."""
    import pkray

    catalog = pkray.connect(f"{folder}/warehouse")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), *SCHEMA])
    table = catalog.create_table(
        "default.rows", schema, primary_keys=["id"], options={"bucket": "4"}
    )
    first = 0
    with table.open_writer("bench") as writer:
        for each in batches(rows, rows // 5, min(BATCH, rows)):
            numbers = pa.array(np.arange(first, first + len(each)))
            writer.upsert(each.add_column(0, schema.field("id"), numbers))
            first += len(each)
        writer.commit()
    table.compact(full=True)
    return catalog


MEASURES: dict[str, Callable[[int, str], Measured]] = {
    "groups": groups_by_query,
    "groups plain": groups_by_table,
    "epoch": small_epochs,
    "epoch plain": small_commits,
    "state": partial(epochs_over, keys=100),
    "state plain": partial(epochs_over, keys=10),
    "spark": partial(fed_by_spark, files=small_files, text=SMALL_GROUPS),
    "spark empty": partial(micro_batches, files=small_files, computed=False),
    "spark noop": partial(micro_batches, files=small_files, computed=True),
    "pipeline": partial(fed_by_spark, files=json_files, text=GROUPS),
    "pipeline noop": partial(micro_batches, files=json_files, computed=True),
    "backfill": backfill_by_spark,
    "backfill plain": ingest_by_spark,
    **{f"{name} skewed": partial(skewed, name=name, hot=True) for name in SKEWED},
    **{f"{name} uniform": partial(skewed, name=name, hot=False) for name in SKEWED},
    **{f"{name} epochs": partial(continuously, name=name) for name in BOUNDED},
    **{f"{name} bounded": partial(bounded_run, name=name) for name in BOUNDED},
}


def run_one(name: str, rows: int) -> None:
    warm_up(
        "pkray.relational.continuous.queries.materializing",
        "pkray.relational.continuous.queries.stream",
        "pkray.relational.local",
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        report(MEASURES[name](rows, folder))


def main() -> None:
    options = parsed(__doc__, rows=5_000_000, runs=3, only="groups,skew,epoch,state,bounded")
    if options.one:
        run_one(options.one, options.rows)
        return
    for part in options.only.split(","):
        PARTS[part](options.rows, options.runs)


wall = operator.attrgetter("wall_seconds")


def groups(rows: int, runs: int) -> None:
    mine, plain = medians(__file__, ["groups", "groups plain"], runs)
    print(
        f"GROUP BY of {rows:,} rows, {rows // 5:,} keys: {rows / mine / 1e6:.2f}M rows/cpu-s, an "
        f"aggregation table {rows / plain / 1e6:.2f}M: {plain / mine:.2f} of it (goal 0.5)"
    )


def skew(rows: int, runs: int) -> None:
    for name in SKEWED:
        both = [f"{name} skewed", f"{name} uniform"]
        hot, uniform = medians(__file__, both, runs)
        print(
            f"{name} of {rows:,} rows, half on one key: {hot:.2f} cpu-s, uniform {uniform:.2f}: "
            f"{hot / uniform:.2f} times (goal 2)"
        )


def epoch(rows: int, runs: int) -> None:
    mine, plain = medians(__file__, ["epoch", "epoch plain"], runs, wall)
    print(
        f"{SMALL:,} rows through two operators: {1000 * mine / SMALL_EPOCHS:.1f} ms an epoch, a "
        f"commit {1000 * plain / SMALL_EPOCHS:.1f} ms: {mine / plain:.2f} times (goal 3)"
    )


def state(rows: int, runs: int) -> None:
    both = ["state", "state plain"]
    large, small = medians(__file__, both, runs, wall)
    print(
        f"{EPOCH:,} rows over {rows:,} groups: {1000 * large / STATE_EPOCHS:.0f} ms an epoch, over "
        f"a tenth {1000 * small / STATE_EPOCHS:.0f} ms: {large / small:.2f} times (goal 1.5)"
    )


def bounded(rows: int, runs: int) -> None:
    for name in BOUNDED:
        mine, once = medians(__file__, [f"{name} epochs", f"{name} bounded"], runs)
        print(
            f"{name}, {rows:,} rows: {mine:.2f} cpu-s in epochs, {once:.2f} bounded: "
            f"{mine / once:.1f} times (goal 4)"
        )


def spark(rows: int, runs: int) -> None:
    names = ["spark", "spark empty", "spark noop", "epoch plain"]
    fed, empty, noop, plain = medians(__file__, names, runs, wall)
    count = FEED_EPOCHS - FEED_WARM_UP
    fed, empty, noop, plain = fed / count, empty / count, noop / count, plain / SMALL_EPOCHS
    print(
        f"{SMALL:,} rows fed by Spark: {1000 * fed:.1f} ms an epoch, an empty micro-batch "
        f"{1000 * empty:.1f} ms, one computed for nobody {1000 * noop:.1f} ms, a commit "
        f"{1000 * plain:.1f} ms: {(fed - empty) / plain:.2f} commits beyond the empty one (goal "
        f"3), {(fed - noop) / plain:.2f} beyond the other"
    )


def pipeline(rows: int, runs: int) -> None:
    fed, noop = medians(__file__, ["pipeline", "pipeline noop"], runs, wall)
    print(
        f"{rows:,} rows of JSON files through Spark into a GROUP BY's table: {fed:.1f} s, into "
        f"nothing {noop:.1f} s: {fed / noop:.2f} times (goal 1.4)"
    )


def backfill(rows: int, runs: int) -> None:
    mine, other = medians(__file__, ["backfill", "backfill plain"], runs, wall)
    print(
        f"GROUP BY of {rows:,} rows of a table, begun with Spark: {mine:.1f} s, computed by Spark "
        f"and ingested {other:.1f} s: {other / mine:.2f} of it (goal 0.5)"
    )


PARTS = {
    each.__name__: each for each in (groups, skew, epoch, state, bounded, spark, pipeline, backfill)
}

if __name__ == "__main__":
    main()
