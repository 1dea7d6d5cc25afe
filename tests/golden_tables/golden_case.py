"""Runs one golden case through the public API and says where the result differs."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from golden_values import fits, from_arrow, to_arrow

import pkray
from pkray.errors import PkrayError
from pkray.format.bucket import assign_buckets
from pkray.schema.types import DataType

_KIND = "__kind"
_EITHER = ("content", "changelog")
_DISTINCT = (("collect", "distinct"), ("nested_update", "nested-key"))

Row = list[Any]


class GoldenCase:
    """One file of a case."""

    def __init__(self, path: Path) -> None:
        case = json.loads(path.read_text())
        self.name: str = case["name"]
        self.engine: str = case["options"].get("merge-engine", "deduplicate")
        self._case = case
        self._columns = [name for name, _ in case["columns"]]
        self._types = [DataType.parse(said) for _, said in case["columns"]]
        self._unheld = self._columns_of(lambda value, kind: not fits(value, kind))

    def differences(self, warehouse: str) -> list[str]:
        """What differs from the recording; nothing when the case passes.

        Args:
            warehouse: an empty folder.
        """
        with pkray.connect(warehouse) as catalog:
            expected = self._case["result"]["create"]
            try:
                table = self._create(catalog)
            except PkrayError as error:
                return [] if expected != "ok" else [f"creation refused: {error}"]
            if expected != "ok":
                return [f"creation passed; expected {expected['error']!r}"]
            return _Run(self, table).differences()

    def _create(self, catalog: pkray.Catalog) -> pkray.Table:
        case = self._case
        columns = list(zip(self._columns, self._types, strict=True))
        catalog.create_table(
            "golden.case",
            columns,
            case["primary_keys"],
            case["partition_keys"],
            {**case["options"], "bucket": case["options"].get("bucket", "1")},
        )
        return catalog.load_table("golden.case")

    @property
    def steps(self) -> Iterable[tuple[dict[str, Any], dict[str, Any]]]:
        """Each step with its result; those after a failed one are not there."""
        return zip(self._case["steps"], self._case["result"]["steps"], strict=False)

    @property
    def contradicts_itself(self) -> bool:
        """Paimon's changelog and content do not agree: of each commit one of them is enough."""
        return self._case["changelog_replays_to_content"] is False

    @property
    def has_nan_key(self) -> bool:
        """Paimon's NaN equals every number, so that its results are arbitrary."""
        ordering = {*self._case["primary_keys"], *self._sequence_fields}
        return bool(ordering & self._columns_of(lambda value, kind: value == "NaN"))

    @property
    def in_order(self) -> bool:
        """Whether the order of changelog rows matters across keys."""
        return bool(self._case["order_across_keys"])

    def data(self, rows: Sequence[Row]) -> pa.Table:
        """Rows to write, with their kinds in a column of their own."""
        held = [self._without_unheld(row[1:]) for row in rows]
        arrays = [
            to_arrow([row[index] for row in held], data_type)
            for index, data_type in enumerate(self._types)
        ]
        kinds = pa.array([row[0] for row in rows], pa.string())
        return pa.Table.from_arrays([*arrays, kinds], names=[*self._columns, _KIND])

    def found(self, table: pa.Table, *before: str) -> list[Row]:
        """Rows that were read, as JSON; ``before`` names columns that go in front."""
        columns = [table.column(name).to_pylist() for name in before]
        for name, data_type in zip(self._columns, self._types, strict=True):
            column = table.column(name).combine_chunks()
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            columns.append([v for chunk in chunks for v in from_arrow(chunk, data_type)])
        rows = [list(row) for row in zip(*columns, strict=True)]
        return [self._comparable(row, len(before)) for row in rows]

    def recorded(self, rows: Sequence[Row], before: int) -> list[Row]:
        """Rows of the recording, written as `found` writes them."""
        held = [[*row[:before], *self._without_unheld(row[before:])] for row in rows]
        columns: list[Sequence[Any]] = [[row[index] for row in held] for index in range(before)]
        for index, data_type in enumerate(self._types, start=before):
            array = to_arrow([row[index] for row in held], data_type)
            columns.append(from_arrow(array, data_type))
        return [self._comparable(list(row), before) for row in zip(*columns, strict=True)]

    def key(self, row: Row, before: int) -> str:
        """The key of a row, as text."""
        positions = [self._columns.index(name) + before for name in self._case["primary_keys"]]
        return json.dumps([row[position] for position in positions])

    @property
    def _sequence_fields(self) -> list[str]:
        said = self._case["options"].get("sequence.field", "")
        return [name.strip() for name in said.split(",") if name.strip()]

    def _columns_of(self, applies: Callable[[Any, DataType], bool]) -> set[str]:
        """Columns that somewhere in the case hold a value of which this is true."""
        rows = [row[1:] for step in self._case["steps"] for row in step.get("write", ())]
        for result in self._case["result"].get("steps", ()):
            for part, before in (("changelog", 1), ("content", 0)):
                if isinstance(result.get(part), list):
                    rows += [row[before:] for row in result[part]]
        return {
            name
            for index, (name, data_type) in enumerate(zip(self._columns, self._types, strict=True))
            if any(applies(row[index], data_type) for row in rows if row[index] is not None)
        }

    def _without_unheld(self, values: Row) -> Row:
        """Null for what Arrow's type does not hold; such a column is not compared there."""
        return [
            None if name in self._unheld and value is not None and not fits(value, kind) else value
            for name, value, kind in zip(self._columns, values, self._types, strict=True)
        ]

    def _comparable(self, row: Row, before: int) -> Row:
        """Sets in an order of ours; sums past a DECIMAL's precision left out."""
        for index, name in enumerate(self._columns, start=before):
            if row[index] is not None and self._is_set(name):
                row[index] = sorted(row[index], key=json.dumps)
            if name in self._unheld and self._types[index - before].root == "DECIMAL":
                row[index] = "not compared"
        return row

    def _is_set(self, column: str) -> bool:
        options, prefix = self._case["options"], f"fields.{column}."
        return any(
            options.get(f"{prefix}aggregate-function") == function
            and options.get(prefix + parameter, "false") != "false"
            for function, parameter in _DISTINCT
        )


class _Run:
    """One run of a case on a table."""

    def __init__(self, case: GoldenCase, table: pkray.Table) -> None:
        self._case = case
        self._table = table
        self._writer: pkray.TableWriter | None = None
        self._identifier = 0
        self._found: dict[str, list[str]] = defaultdict(list)

    def differences(self) -> list[str]:
        try:
            for number, (step, expected) in enumerate(self._case.steps):
                if not self._step(number, step, expected):
                    break
        finally:
            if self._writer is not None:
                self._writer.close()
        found: dict[str, list[str]] = self._found
        if self._case.contradicts_itself:
            content, changelog = ({text.split(":")[0] for text in found[part]} for part in _EITHER)
            if not content & changelog:
                found = {part: found[part] for part in found if part not in _EITHER}
        return [difference for differences in found.values() for difference in differences]

    def _step(self, number: int, step: dict[str, Any], expected: dict[str, Any]) -> bool:
        """Whether the case goes on."""
        what = "write" if "write" in step else "commit"
        work = self._write if what == "write" else self._commit
        try:
            work(number, step, expected)
        except PkrayError as error:
            if "error" not in expected:
                self._differ("error", f"step {number}: {what} refused: {error}")
            return False
        if "error" not in expected:
            return True
        if not _is_bug(expected):
            self._differ("error", f"step {number}: {what} passed; expected {expected['error']!r}")
        return False

    def _write(self, number: int, step: dict[str, Any], expected: dict[str, Any]) -> None:
        data = self._case.data(step["write"])
        self._open().write(data, row_kinds=_KIND)
        if "buckets" in expected:
            schema = self._table.schema
            columns = [data.column(name) for name in schema.bucket_keys]
            types = schema.types(schema.bucket_keys)
            found = assign_buckets(columns, types, schema.core.bucket).tolist()
            self._compare("buckets", number, found, expected["buckets"])

    def _commit(self, number: int, step: dict[str, Any], expected: dict[str, Any]) -> None:
        self._identifier = step.get("identifier", self._identifier + 1)
        before = self._latest()
        with self._open() as writer:
            self._writer = None
            writer.commit(self._identifier, full_compact=step.get("full_compact", False))
        if "error" not in expected:
            self._check_commit(number, before, expected)

    def _check_commit(self, number: int, before: int, expected: dict[str, Any]) -> None:
        after = self._latest()
        made = [self._table.snapshot(number) for number in range(before + 1, after + 1)]
        recorded = expected["snapshots"]
        self._compare("snapshots", number, bool(made), bool(recorded))
        if "committed" in expected:
            self._compare("committed", number, int(bool(made)), expected["committed"])
        identifiers = {snapshot.commit_identifier for snapshot in made}
        self._compare("identifiers", number, identifiers, {s["identifier"] for s in recorded})
        if made and recorded:
            self._compare("kind", number, made[0].commit_kind, recorded[0]["kind"])
        self._check("changelog", number, expected, lambda: self._changelog(before, after))
        self._check("content", number, expected, self._content)

    def _check(
        self, part: str, number: int, expected: dict[str, Any], read: Callable[[], list[Row]]
    ) -> None:
        recorded, before = expected[part], int(part == "changelog")
        try:
            found = read()
        except PkrayError as error:
            if isinstance(recorded, list):
                self._differ(part, f"step {number}: reading {part} refused: {error}")
            return
        if not isinstance(recorded, list):
            if not _is_bug(recorded):
                self._differ(part, f"step {number}: {part} read; expected {recorded['error']!r}")
            return
        if self._case.has_nan_key:
            return
        wanted = self._case.recorded(recorded, before)
        if part == "changelog" and self._case.in_order:
            self._compare(part, number, found, wanted)
            return
        self._compare_rows(part, number, found, wanted)
        if part == "changelog":
            self._compare(f"{part} by key", number, self._by_key(found), self._by_key(wanted))
        elif "content_buckets" in expected:
            pairs = zip(wanted, expected["content_buckets"], strict=True)
            placed = [[*row, bucket] for row, bucket in pairs]
            self._compare_rows("content_buckets", number, self._placed(), placed)

    def _changelog(self, before: int, after: int) -> list[Row]:
        if after == before:
            return []
        changes = self._table.changelog(from_snapshot=before + 1, to_snapshot=after)
        return self._case.found(changes, "_row_kind")

    def _content(self) -> list[Row]:
        return self._case.found(self._table.to_arrow())

    def _placed(self) -> list[Row]:
        """The content, each row with the bucket it was read from."""
        schema = self._table.arrow_schema
        return [
            [*row, split.bucket]
            for split in self._table.splits()
            for row in self._case.found(pa.Table.from_batches(split.read(), schema))
        ]

    def _by_key(self, rows: list[Row]) -> dict[str, list[Row]]:
        by_key = defaultdict(list)
        for row in rows:
            by_key[self._case.key(row, 1)].append(row)
        return dict(by_key)

    def _open(self) -> pkray.TableWriter:
        if self._writer is None:
            self._writer = self._table.open_writer(commit_user="golden")
        return self._writer

    def _latest(self) -> int:
        snapshot = self._table.latest_snapshot()
        return 0 if snapshot is None else snapshot.id

    def _compare_rows(self, part: str, number: int, found: list[Row], wanted: list[Row]) -> None:
        counts = [Counter(json.dumps(row) for row in rows) for rows in (found, wanted)]
        extra, missing = counts[0] - counts[1], counts[1] - counts[0]
        if extra or missing:
            self._differ(
                part, f"step {number}: {part}: unexpected {_some(extra)}, missing {_some(missing)}"
            )

    def _compare(self, part: str, number: int, found: Any, wanted: Any) -> None:
        if found != wanted:
            self._differ(part, f"step {number}: {part}: {found} instead of {wanted}")

    def _differ(self, part: str, message: str) -> None:
        self._found[part.partition(" ")[0]].append(message)


def _is_bug(error: dict[str, Any]) -> bool:
    """Errors that nobody has to repeat: Paimon's own faults, and a refusal of the recorder's call.

    The recorder writes rows without saying their bucket, which Paimon's call for it does not take
    on tables with dynamic buckets; such tables are there to be written to.
    """
    text = error["error"] or ""
    is_fault = error["class"] in ("NullPointerException", "ArithmeticException") or not text
    return is_fault or text.startswith("Can't extract bucket from row in dynamic bucket mode")


def _some(rows: Counter[str]) -> str:
    listed = list(rows.elements())
    more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
    return (", ".join(listed[:3]) or "nothing") + more
