"""Random histories of what Spark writes and reads by format, with classes that are called as it
calls them: attempts of tasks that fail or run twice, commits that are killed between two of their
steps, micro-batches that come again, and columns that come, go, and get other names and types.

A plain dict is the model; it is compared with every snapshot, and with what pypaimon-rust reads.
"""

import datetime as dt
import json
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

import pkray
from pkray.schema.types import DataType
from pkray.service.client.writer import TableWriter
from pkray.spark.sink import BatchWriter, Staged, Staging, StreamWriter
from pkray.spark.source import TableSource
from pkray.spark.source_options import SinkOptions
from pkray.spark.types import spark_schema, to_arrow_schema, to_exchange
from tests.integration.readers import read_with_rust

Row = dict[str, Any]
Content = dict[int, Row]

_START = dt.datetime(2024, 2, 29, 23, 59, 59)
VALUES: dict[str, Callable[[random.Random], object]] = {
    "BOOLEAN": lambda r: r.random() < 0.5,
    "TINYINT": lambda r: r.randint(-128, 127),
    "SMALLINT": lambda r: r.randint(-(2**15), 2**15 - 1),
    "INT": lambda r: r.randint(-(2**31), 2**31 - 1),
    "BIGINT": lambda r: r.randint(-(2**63), 2**63 - 1),
    "FLOAT": lambda r: r.choice([0.0, -0.0, 1.5, float("inf"), float("nan")]),
    "DOUBLE": lambda r: r.choice([0.0, -0.0, 0.1, -1e300, float("-inf"), float("nan")]),
    "DECIMAL(10, 2)": lambda r: Decimal(r.randint(-(10**10) + 1, 10**10 - 1)).scaleb(-2),
    "DECIMAL(38, 10)": lambda r: Decimal(r.randint(-(10**12), 10**12)).scaleb(-10),
    "CHAR(3)": lambda r: r.choice(["abc", "äöü"]),
    "VARCHAR(9)": lambda r: r.choice(["", "x", "日本"]),
    "STRING": lambda r: r.choice(["", "naïve", "a" * 99]),
    "BINARY(2)": lambda r: r.randbytes(2),
    "BYTES": lambda r: r.randbytes(r.randint(0, 9)),
    "DATE": lambda r: dt.date(1969, 12, 31) + dt.timedelta(r.randint(-999, 999)),
    "TIME(3)": lambda r: dt.time(23, 59, 59, r.randint(0, 999) * 1000),
    "TIMESTAMP(3)": lambda r: _START + dt.timedelta(milliseconds=r.randint(-(10**12), 10**12)),
    "TIMESTAMP(6)": lambda r: _START + dt.timedelta(microseconds=r.randint(-(10**15), 10**15)),
    "TIMESTAMP_LTZ(6)": lambda r: (
        _START.replace(tzinfo=dt.UTC) + dt.timedelta(microseconds=r.randint(-(10**15), 10**15))
    ),
    "ARRAY<STRING>": lambda r: [r.choice(["a", None, ""]) for _ in range(r.randint(0, 3))],
    "MAP<STRING, INT>": lambda r: [(k, r.choice([None, 1])) for k in "ab"[: r.randint(0, 2)]],
    "ROW<x INT, y ARRAY<ROW<z STRING, w DECIMAL(5, 2)>>>": lambda r: {
        "x": r.choice([None, 7]),
        "y": r.choice([None, [], [{"z": "q", "w": Decimal("1.25")}, {"z": None, "w": None}]]),
    },
}
WIDER = {
    "TINYINT": "SMALLINT",
    "SMALLINT": "INT",
    "INT": "BIGINT",
    "FLOAT": "DOUBLE",
    "VARCHAR(9)": "STRING",
    "TIMESTAMP(3)": "TIMESTAMP(6)",
}
"""Types that a column may change to."""
PRODUCERS = ("none", "input", "lookup")
KINDS = "op"
STEPS = ("load", "write", "commit", "committed", "clear")
"""Of a commit, before each of which it is killed; the last but one is after its snapshot."""


class KilledError(Exception):
    """The process of the driver is no more."""


@contextmanager
def killed(step: str | None) -> Iterator[None]:
    """Have commits of the sink end before a step."""
    places: dict[str, tuple[Any, str]] = {
        "load": (Staging, "_connected"),
        "write": (Staging, "_rows"),
        "commit": (TableWriter, "commit"),
        "clear": (Staging, "clear"),
    }
    after = step == "committed"
    if step is None:
        yield
        return
    owner, name = places["commit" if after else step]
    original = getattr(owner, name)

    def ending(*given: Any, **named: Any) -> Any:
        if after:
            original(*given, **named)
        raise KilledError(step)

    setattr(owner, name, ending)
    try:
        yield
    finally:
        setattr(owner, name, original)


class History:
    """One table, what it is to hold at each snapshot, and a copy that follows it by a stream."""

    def __init__(self, seed: int, catalog: pkray.Catalog) -> None:
        self.random = r = random.Random(seed)
        self.catalog = catalog
        self.names = iter(f"c{number}" for number in range(1000))
        kinds = r.sample(sorted(VALUES), r.randint(1, 6))
        self.kinds = {next(self.names): kind for kind in kinds}
        self.options = {"bucket": str(r.randint(1, 3)), "changelog-producer": r.choice(PRODUCERS)}
        self.overwrites = self.options["changelog-producer"] != "lookup"
        if self.overwrites:  # else a stream does not say what they replaced
            self.options["streaming-read-overwrite"] = "true"
        self.table = self._created("db.t")
        self.copy = self._created("db.copy")
        self.content: Content = {}
        self.at: dict[int, Content] = {}
        self.stream_batches = 0
        self.named_batches = 0
        self.offsets: list[str] = []
        self.followed = 0

    def play(self, steps: int) -> None:
        """Take some steps, and look at every snapshot at the end."""
        doors = [self.append, self.append, self.stream, self.stream]
        doors += [self.overwrite] if self.overwrites else []
        others = [self.add_column, self.drop_column, self.compact, self.follow]
        others += [self.rename_column, self.widen_column]
        for _ in range(steps):
            self.random.choice(doors)()
            self.note()
            if self.random.random() < 0.6:
                self.random.choice(others)()
                self.note()
        self.follow()
        self.check()

    def append(self) -> None:
        self._batch("append")

    def overwrite(self) -> None:
        self._batch("overwrite")

    def _batch(self, mode: str) -> None:
        named: dict[str, str] = {}
        if self.random.random() < 0.5:
            self.named_batches += 1
            named = {"commit-user": "job", "commit-identifier": str(self.named_batches)}
        self._write(named, BatchWriter, mode == "overwrite")

    def stream(self) -> None:
        self._write({"commit-user": "stream"}, StreamWriter, False, self.stream_batches)
        self.stream_batches += 1

    def _write(
        self, named: dict[str, str], kind: type[Any], overwrite: bool, number: int | None = None
    ) -> None:
        """Write rows until that is acknowledged; a name that comes again brings other rows."""
        r = self.random
        options = dict(named)
        columns = dict(self.kinds)
        if r.random() < 0.3:
            options["missing"] = "null"
            columns = {name: kind for name, kind in columns.items() if r.random() < 0.7}
        if r.random() < 0.25:
            options["merge-schema"] = "true"
            columns[next(self.names)] = r.choice(sorted(VALUES))
        has_kinds = r.random() < 0.5
        if has_kinds:
            options["row-kind-column"] = KINDS
        tasks = [self._rows(columns, has_kinds and not overwrite) for _ in range(r.randint(0, 3))]

        def attempt(rows: Sequence[list[Row]], step: str | None = None) -> None:
            frame, schema = _frame(columns, has_kinds)
            parsed = self._parsed("db.t", options, kind)
            writer = kind(parsed, frame, overwrite)
            batches = [_batches(each, columns, schema, has_kinds) for each in rows]
            self._run(writer, batches, number, step)

        for fate in r.choices(("fails", "aborts", *STEPS), k=r.randint(0, 2)):
            if fate == "aborts":
                frame, schema = _frame(columns, has_kinds)
                writer = kind(self._parsed("db.t", options, kind), frame, overwrite)
                batches = [_batches(each, columns, schema, has_kinds) for each in tasks]
                messages = [_task(writer, each) for each in batches]
                writer.abort([*messages, None], *(() if number is None else (number,)))
            elif fate in STEPS:
                with suppress(KilledError):
                    attempt(tasks, fate)
        attempt(tasks)
        if named and (overwrite or any(tasks)) and r.random() < 0.5:
            attempt([self._rows(columns, False) for _ in tasks])
        self.kinds |= {name: each for name, each in columns.items() if name not in self.kinds}
        if overwrite:
            self.content = {}
        elif not any(tasks):
            return
        self.content = _applied(self.content, [row for rows in tasks for row in rows])

    def _run(
        self,
        writer: Any,
        tasks: Sequence[list[pa.RecordBatch]],
        number: int | None,
        step: str | None = None,
    ) -> None:
        """Run a job as Spark does: attempts of tasks of which it names one, then the commit."""
        messages: list[Staged | None] = []
        for batches in tasks:
            for _ in range(self.random.choice((0, 0, 1, 2))):  # speculative, or failed
                _task(writer, batches[: self.random.randint(0, len(batches))])
            messages.append(_task(writer, batches))
        driver = pickle.loads(pickle.dumps(writer))
        with killed(step):
            driver.commit(messages, *(() if number is None else (number,)))

    def _rows(self, columns: dict[str, str], has_kinds: bool) -> list[Row]:
        r = self.random
        rows = []
        for _ in range(r.choice((0, 1, 3, 6))):
            values = {
                name: None if r.random() < 0.25 else VALUES[kind](r)
                for name, kind in columns.items()
            }
            kind = r.choice(("+I", "+U", "-D")) if has_kinds else "+I"
            rows.append({"k": r.randint(0, 9), **values, KINDS: kind})
        return rows

    def add_column(self) -> None:
        name, kind = next(self.names), self.random.choice(sorted(VALUES))
        self.table.alter.add_column(name, kind)
        self.kinds[name] = kind

    def drop_column(self) -> None:
        if len(self.kinds) > 1 and self.random.random() < 0.5:
            name = self.random.choice(sorted(self.kinds))
            self.table = self.catalog.load_table("db.t")
            self.table.alter.drop_column(name)
            del self.kinds[name]
            self.content = {
                key: {n: v for n, v in row.items() if n != name}
                for key, row in self.content.items()
            }

    def rename_column(self) -> None:
        """Rename a column of the table and of its copy, in which rows of both names would mix."""
        if not self.kinds:
            return
        name, new_name = self.random.choice(sorted(self.kinds)), next(self.names)
        for table in self._with_column(name):
            table.alter.rename_column(name, new_name)
        self.kinds = {new_name if n == name else n: kind for n, kind in self.kinds.items()}
        self.content = {
            key: {new_name if n == name else n: v for n, v in row.items()}
            for key, row in self.content.items()
        }

    def widen_column(self) -> None:
        narrow = sorted(name for name, kind in self.kinds.items() if kind in WIDER)
        if narrow:
            name = self.random.choice(narrow)
            self.kinds[name] = WIDER[self.kinds[name]]
            for table in self._with_column(name):
                table.alter.change_type(name, self.kinds[name])

    def _with_column(self, name: str) -> list[pkray.Table]:
        """Load the table, and the copy if it has the column already."""
        tables = [self.catalog.load_table(each) for each in ("db.t", "db.copy")]
        return [table for table in tables if name in table.schema.names]

    def compact(self) -> None:
        self.table = self.catalog.load_table("db.t")
        self.table.compact(full=self.random.random() < 0.5)

    def follow(self) -> None:
        """Have the copy take all that is new, whatever befalls the driver on the way."""
        options = {"row-kind-column": KINDS, "consumer": "copy"}
        if self.random.random() < 0.7:
            options["max-rows"] = str(self.random.randint(1, 9))
        into = {"commit-user": "copy", "row-kind-column": KINDS}
        into |= {"missing": "null", "merge-schema": "true"}
        while self._followed_one(options, into):
            pass
        copied = self.catalog.load_table("db.copy")
        names = [name for name in ("k", *self.kinds) if name in copied.schema.names]
        check_rows(copied.to_arrow(columns=names), self.content, "the copy")
        lacking = self.kinds.keys() - set(names)  # nothing was written since they were added
        assert all(row.get(name) is None for row in self.content.values() for name in lacking)

    def _followed_one(self, options: dict[str, str], into: dict[str, str]) -> bool:
        """Take one micro-batch, of which some end before it is taken; False: nothing is new."""
        source = TableSource({"path": self.catalog.warehouse, "table": "db.t", **options})
        reader = pickle.loads(pickle.dumps(source)).streamReader(source.schema())
        if not self.offsets:
            self.offsets = [json.dumps(reader.initialOffset())]
        start = json.loads(self.offsets[self.followed])
        if self.followed + 1 == len(self.offsets):
            end = json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit()))
            if end == self.offsets[self.followed]:
                return False
            self.offsets.append(end)
        until = json.loads(self.offsets[self.followed + 1])
        parts = reader.partitions(start, until)
        tasks = [list(pickle.loads(pickle.dumps(reader)).read(part)) for part in parts]
        sink = self._parsed("db.copy", into, StreamWriter)
        step = self.random.choice((None, None, None, *STEPS))
        try:
            writer = StreamWriter(sink, source.schema(), False)
            self._run(writer, tasks, self.followed, step)
        except KilledError:
            return True
        if self.random.random() < 0.8:  # else it is replayed, as the driver has not noted it
            reader.commit(until)
            self.followed += 1
        return True

    def note(self) -> None:
        """Note what the snapshots made since the last note are to hold."""
        self.table = self.catalog.load_table("db.t")
        newest = self.table.latest_snapshot()
        for number in range(len(self.at) + 1, (newest.id if newest else 0) + 1):
            self.at[number] = self.content

    def check(self) -> None:
        """Compare every snapshot with the model."""
        for number, content in self.at.items():
            found = self.table.to_arrow(snapshot_id=number)
            check_rows(found, content, f"snapshot {number}")
        others = read_with_rust(self.catalog.warehouse, "db.t")
        if self.content or others.num_rows:
            check_rows(others, self.content, "what pypaimon-rust reads")

    def _created(self, name: str) -> Any:
        columns = [("k", "INT"), *self.kinds.items()]
        return self.catalog.create_table(name, columns, ["k"], options=self.options)

    def _parsed(self, table: str, options: dict[str, str], kind: type[Any]) -> SinkOptions:
        given = {"path": self.catalog.warehouse, "table": table, **options}
        return SinkOptions.parse(given, streaming=kind is StreamWriter)


def check_rows(found: pa.Table, content: Content, what: str) -> None:
    """Compare rows with the model's, by all columns found."""
    names = sorted(name for name in found.column_names if name != "k")
    rows = {row["k"]: repr([row[name] for name in names]) for row in found.to_pylist()}
    assert len(rows) == found.num_rows, what
    expected = {
        key: repr([_as_stored(row.get(name), found.field(name).type) for name in names])
        for key, row in content.items()
    }
    assert rows == expected, what


def _as_stored(value: object, kind: pa.DataType) -> object:
    return pa.array([value], kind)[0].as_py()


def _applied(content: Content, rows: Sequence[Row]) -> Content:
    content = dict(content)
    for row in rows:
        if row[KINDS] == "-D":
            content.pop(row["k"], None)
        else:
            content[row["k"]] = {n: v for n, v in row.items() if n not in ("k", KINDS)}
    return content


def _frame(columns: dict[str, str], has_kinds: bool) -> tuple[StructType, pa.Schema]:
    """Give the schema of a DataFrame, and that of its rows as Arrow."""
    frame = spark_schema(_arrow(columns, has_kinds))
    return frame, to_arrow_schema(frame)


def _arrow(columns: dict[str, str], has_kinds: bool) -> pa.Schema:
    fields = [pa.field("k", pa.int32(), nullable=False)]
    fields += [pa.field(name, DataType.parse(kind).arrow) for name, kind in columns.items()]
    return pa.schema([*fields, *([pa.field(KINDS, pa.string())] if has_kinds else [])])


def _batches(
    rows: list[Row], columns: dict[str, str], schema: pa.Schema, has_kinds: bool
) -> list[pa.RecordBatch]:
    """Make rows into batches of two."""
    stored = pa.Table.from_pylist(rows, _arrow(columns, has_kinds))
    return [to_exchange(batch, schema) for batch in stored.to_batches(max_chunksize=2)]


def _task(writer: Any, batches: Sequence[pa.RecordBatch]) -> Staged:
    """Run an attempt of a task as another process does, with the writer that was pickled."""
    told = pickle.loads(pickle.dumps(writer)).write(iter(batches))
    return pickle.loads(pickle.dumps(told))
