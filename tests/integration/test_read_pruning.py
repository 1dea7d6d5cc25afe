"""Files left out of a read never change what it yields; and how many are left out."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pkray
from pkray.scan.predicate import Predicate
from pkray.scan.split import ReadCounters
from pkray.schema.changes import AddColumn, DropColumn, RenameColumn
from tests.effort import examples

COLUMNS = [
    ("p", "STRING"),
    ("a", "INT"),
    ("b", "STRING"),
    ("v", "INT"),
    ("s", "STRING"),
    ("d", "DOUBLE"),
]
KEYS = ["p", "a", "b"]
TABLES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "deduplicate in small row groups": {"file.block-size": "100 b", "sequence.field": "s"},
    "deduplicate with deletion vectors": {
        "deletion-vectors.enabled": "true",
        "file.block-size": "100 b",
    },
    "deduplicate with defaults": {
        "deletion-vectors.enabled": "true",
        "file.block-size": "100 b",
        "fields.v.default-value": "1",
        "fields.s.default-value": "b",
    },
    "deduplicate by sequence": {"sequence.field": "v"},
    "deduplicate with an input changelog": {"changelog-producer": "input"},
    "partial-update": {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
    },
    "partial-update by sequence group": {
        "merge-engine": "partial-update",
        "fields.v.sequence-group": "s",
    },
    "partial-update by sequence": {"merge-engine": "partial-update", "sequence.field": "v"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.d.aggregate-function": "max",
    },
    "aggregation by sequence": {
        "merge-engine": "aggregation",
        "sequence.field": "v",
        "fields.s.aggregate-function": "last_value",
    },
    "first-row": {"merge-engine": "first-row"},
}
TAKES_DELETES = (*(name for name in TABLES if name.startswith("dedup")), "partial-update")
TEXTS = ["", "a", "b", "ab", "é", "a long text that statistics cut short", "a long text that"]

values = {
    "p": st.sampled_from(["x", "y/z"]),
    "a": st.integers(-3, 9),
    "b": st.sampled_from(TEXTS),
    "v": st.integers(-4, 4) | st.none(),
    "s": st.sampled_from(TEXTS) | st.none(),
    "d": st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")]) | st.none(),
}
rows = st.fixed_dictionaries(values)


@st.composite
def commits(draw: st.DrawFn) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]], str]]:
    """Upserts, keys to delete, and how to compact after the commit.

    Each commit's values lie close together, so that statistics tell files apart.
    """
    made = []
    for _ in range(draw(st.integers(1, 4))):
        low = draw(st.integers(-3, 7))
        near = {"a": st.integers(low, low + 2), "v": st.integers(low, low + 1) | st.none()}
        upserts = draw(st.lists(st.fixed_dictionaries({**values, **near}), min_size=1, max_size=6))
        deletes = draw(st.lists(rows, max_size=3))
        deletes += [row for row in upserts if draw(st.integers(0, 4)) == 0]
        made.append((upserts, deletes, draw(st.sampled_from(["no", "no", "due", "full"]))))
    return made


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> str:
    shape = draw(st.sampled_from(["atom", "atom", "and", "and", "or"])) if depth else "atom"
    if shape != "atom":
        left, right = draw(conditions(depth - 1)), draw(conditions(depth - 1))
        return f"({left} {shape} {right})"
    name = draw(st.sampled_from(list(values)))
    literal = values[name].filter(lambda value: value is not None).map(_sql)
    kind = draw(st.sampled_from(["=", "=", "<", ">=", "<>", "in", "not in", "null", "not null"]))
    if kind == "null":
        return f"{name} IS NULL"
    if kind == "not null":
        return f"{name} IS NOT NULL"
    if kind in ("in", "not in"):
        return f"{name} {kind} ({', '.join(draw(st.lists(literal, min_size=1, max_size=3)))})"
    return f"{name} {kind} {draw(literal)}"


def _sql(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, float) and value - value != 0:
        return f"DOUBLE('{value}')"
    return str(value)


HISTORY = {
    "partitioned": st.booleans(),
    "history": commits(),
    "filters": st.lists(conditions(), min_size=3, max_size=5),
}
FEW = settings(max_examples=examples(2), suppress_health_check=list(HealthCheck))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", list(TABLES))
@FEW
@given(**HISTORY)
def test_a_pruned_read_is_the_whole_read_filtered(name: str, **drawn: Any) -> None:
    check_pruned_reads(TABLES[name], deletes=name in TAKES_DELETES, **drawn)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TABLES))
@settings(FEW, max_examples=examples(60))
@given(**HISTORY)
def test_pruned_reads_of_many_histories(name: str, **drawn: Any) -> None:
    check_pruned_reads(TABLES[name], deletes=name in TAKES_DELETES, **drawn)


def check_pruned_reads(
    options: Mapping[str, str],
    deletes: bool,
    partitioned: bool,
    history: list[Any],
    filters: list[str],
) -> None:
    with pkray.connect(f"memory://{uuid.uuid4().hex}") as catalog:
        table = _table(catalog, options, partitioned)
        with table.open_writer("w") as writer:
            for number, (upserts, gone, compact) in enumerate(history):
                writer.upsert(upserts)
                if deletes and gone:
                    writer.delete(gone)
                writer.commit(number, full_compact=compact == "full")
                if compact == "due":
                    table.compact(full=False)
        last = table.latest_snapshot()
        assert last is not None
        for snapshot_id in {last.id, (last.id + 1) // 2}:
            whole = table.to_arrow(snapshot_id=snapshot_id)
            for text in filters:
                kept = whole.filter(Predicate.parse(text, table.schema).to_expression())
                found = table.to_arrow(filter=text, snapshot_id=snapshot_id)
                assert _rows(found) == _rows(kept), (snapshot_id, text)


def _table(
    catalog: pkray.Catalog, options: Mapping[str, str], partitioned: bool = False
) -> pkray.Table:
    return catalog.create_table(
        "db.t",
        COLUMNS,
        KEYS,
        ["p"] if partitioned else [],
        {
            "bucket": "2",
            "num-sorted-run.compaction-trigger": "4",
            "source.split.target-size": "2 kb",
            "source.split.open-file-cost": "1 kb",
            **options,
        },
    )


def _rows(table: pa.Table) -> list[tuple[str, ...]]:
    return sorted(tuple(map(repr, row.values())) for row in table.to_pylist())


class Numbers:
    """A table of one bucket with BIGINT keys and values, and what reading it needs."""

    def __init__(self, catalog: pkray.Catalog, **options: str) -> None:
        named = {key.replace("_", "-"): value for key, value in options.items()}
        self.table = catalog.create_table(
            "db.n", [("k", "BIGINT"), ("v", "INT")], ["k"], options={"write-only": "true", **named}
        )

    def commit(self, rows: Mapping[int, int], deletes: Sequence[int] = ()) -> None:
        with self.table.open_writer() as writer:
            if rows:
                writer.upsert([{"k": k, "v": v} for k, v in rows.items()])
            if deletes:
                writer.delete([{"k": k} for k in deletes])
            writer.commit()

    def files(self, filter: str) -> int:
        return self.table.explain(filter=filter).files_read

    def rows(self, filter: str) -> dict[int, int]:
        return {row["k"]: row["v"] for row in self.table.to_arrow(filter=filter).to_pylist()}


def test_values_leave_out_a_file_whose_keys_are_in_no_other(catalog: pkray.Catalog) -> None:
    numbers = Numbers(catalog, merge_engine="aggregation")
    numbers.commit({1: 10, 2: 11})
    numbers.commit({3: 20, 4: 21})
    assert numbers.files("v = 10") == 1
    assert numbers.rows("v = 10") == {1: 10}


def test_a_newer_image_that_does_not_match_hides_an_older_one(catalog: pkray.Catalog) -> None:
    numbers = Numbers(catalog)
    numbers.commit({1: 10, 5: 10})
    numbers.commit({1: 20, 5: 20})
    assert numbers.files("v = 10") == 2
    assert numbers.rows("v = 10") == {}


def test_a_delete_hides_an_older_image(catalog: pkray.Catalog) -> None:
    numbers = Numbers(catalog)
    numbers.commit({1: 10, 5: 10})
    numbers.commit({}, deletes=[1])
    assert numbers.rows("v = 10") == {5: 10}


def test_an_older_file_that_does_not_match_is_left_out(catalog: pkray.Catalog) -> None:
    numbers = Numbers(catalog)
    numbers.commit({1: 10, 5: 10, 9: 10})
    numbers.commit({1: 20, 9: 20})
    assert numbers.files("v = 20") == 1
    assert numbers.rows("v = 20") == {1: 20, 9: 20}


def test_by_a_sequence_field_an_older_file_may_win(catalog: pkray.Catalog) -> None:
    numbers = Numbers(catalog, **{"sequence.field": "v"})
    numbers.commit({1: 30, 5: 30})
    numbers.commit({1: 20, 5: 20})
    assert numbers.files("v = 20") == 2
    assert numbers.rows("v = 20") == {}


def test_values_that_are_merged_leave_nothing_out(catalog: pkray.Catalog) -> None:
    numbers = Numbers(catalog, merge_engine="aggregation", **{"fields.v.aggregate-function": "sum"})
    numbers.commit({1: 10, 5: 10})
    numbers.commit({1: 20, 5: 20})
    assert numbers.files("v = 30") == 2
    assert numbers.rows("v = 30") == {1: 30, 5: 30}


def test_keys_leave_out_files_whatever_overlaps(catalog: pkray.Catalog) -> None:
    numbers = Numbers(catalog, merge_engine="partial-update")
    numbers.commit({1: 1, 100: 1})
    numbers.commit({50: 2, 60: 2})
    numbers.commit({70: 3, 200: 3})
    assert numbers.files("k = 55 OR k = 60") == 2
    assert numbers.files("k > 100") == 1
    assert numbers.files("k = 65 AND v = 1") == 1
    assert numbers.rows("k >= 60 AND k <= 100") == {60: 2, 70: 3, 100: 1}


def test_the_bucket_key_leaves_out_buckets(catalog: pkray.Catalog) -> None:
    numbers = Numbers(catalog, bucket="16")
    numbers.commit({k: k for k in range(1000)})
    report = numbers.table.explain(filter="k = 7")
    assert (report.buckets_read, report.buckets_total) == (1, 16)
    assert (report.files_by_bucket, report.files_read, report.splits) == (15, 1, 1)
    assert numbers.table.explain(filter="k IN (1, 2, 3)").buckets_read <= 3
    assert numbers.table.explain(filter="k > 7").buckets_read == 16
    assert numbers.rows("k = 7 OR (k = 8 AND v = 8)") == {7: 7, 8: 8}


def test_all_columns_of_a_bucket_key_are_needed(catalog: pkray.Catalog) -> None:
    table = _table(catalog, {"bucket": "8", "bucket-key": "a,b"})
    table.upsert(
        [{"p": "x", "a": a, "b": b, "v": a, "s": None, "d": None} for a in range(8) for b in TEXTS]
    )
    assert table.explain(filter="a = 1").buckets_read > 4
    assert table.explain(filter="a = 1 AND b = 'ab'").buckets_read == 1
    assert table.explain(filter="a IN (1, 2) AND b IN ('ab', 'b')").buckets_read <= 4
    assert table.to_arrow(filter="a = 1 AND b = 'ab'").column("v").to_pylist() == [1]


def test_partitions_leave_out_manifests(catalog: pkray.Catalog) -> None:
    table = _table(catalog, {}, partitioned=True)
    with table.open_writer() as writer:
        for number, p in enumerate("uvwx"):
            writer.upsert([{"p": p, "a": 1, "b": "b", "v": number, "s": None, "d": None}])
            writer.commit()
    report = table.explain(["v"], "p = 'v'")
    assert (report.manifests_read, report.manifests_total) == (1, 4)
    assert (report.partitions_read, report.partitions_total) == (1, 4)
    assert (report.files_read, report.files_total, report.files_by_partition) == (1, 4, 3)
    assert table.to_arrow(["v"], "p = 'v' OR p = 'x'").column("v").to_pylist() == [1, 3]


def test_a_large_bucket_is_read_in_several_splits(catalog: pkray.Catalog) -> None:
    numbers = Numbers(catalog, **{"source.split.target-size": "3 kb"})
    numbers.table = catalog.create_table(
        "db.large",
        [("k", "BIGINT"), ("v", "INT")],
        ["k"],
        options={
            "write-only": "true",
            "source.split.target-size": "2 kb",
            "source.split.open-file-cost": "1 kb",
        },
    )
    for start in range(0, 60, 10):
        numbers.commit({k: k for k in range(start, start + 10)})
    numbers.commit({15: -1, 25: -1})
    splits = numbers.table.splits()
    assert len(splits) > 1
    rows = [row for split in splits for batch in split.read() for row in batch.to_pylist()]
    expected = {k: -1 if k in (15, 25) else k for k in range(60)}
    assert [(row["k"], row["v"]) for row in rows] == sorted(expected.items())


def test_row_groups_without_the_key_are_not_read(catalog: pkray.Catalog) -> None:
    numbers = Numbers(catalog, **{"file.block-size": "1 kb"})
    numbers.commit({k: k for k in range(10_000)})
    numbers.commit({k: -k for k in range(0, 10_000, 2)})
    (split,) = numbers.table.splits(["v"], "k = 5000")
    counters = ReadCounters()
    rows = [row for batch in split.read(counters=counters) for row in batch.to_pylist()]
    assert rows == [{"v": -5000}]
    assert counters.files == 2
    assert counters.row_groups_total > 20
    assert counters.row_groups_read == 2
    assert counters.rows_read < 1000
    assert counters.rows_yielded == 1


def test_a_report_prints_and_has_a_dict(catalog: pkray.Catalog) -> None:
    numbers = Numbers(catalog, bucket="4")
    assert numbers.table.explain().files_total == 0
    numbers.commit({k: k for k in range(100)})
    report = numbers.table.explain(["v"], "k = 3")
    assert report.to_dict()["files_by_bucket"] == 3
    assert report.to_dict()["columns"] == ["v"]
    text = str(report)
    assert "files" in text
    assert "3 by bucket" in text
    assert report.rows_total == 100
    assert report.bytes_read < report.bytes_total


def test_statistics_of_older_schemas_are_those_of_their_columns(catalog: pkray.Catalog) -> None:
    columns = [("k", "BIGINT"), ("a", "INT"), ("b", "INT")]
    table = catalog.create_table("db.evolved", columns, ["k"], options={"write-only": "true"})
    table.upsert([{"k": k, "a": -5, "b": 50} for k in range(5)])
    table.alter.apply(
        [DropColumn("a"), RenameColumn("b", "a"), AddColumn("c", "INT"), AddColumn("b", "INT")]
    )
    table.alter.change_type("a", "BIGINT")
    table = catalog.load_table("db.evolved")
    table.upsert([{"k": k, "a": 1 << 40, "b": -5, "c": 7} for k in range(10, 15)])
    for text, count, files in (
        ("a = 50", 5, 1),
        ("a = -5", 0, 1),
        ("a > 1000", 5, 2),
        ("b = -5", 5, 2),
        ("b = 50", 0, 1),
        ("c IS NULL", 5, 1),
        ("c = 7", 5, 2),
        ("k = 3", 1, 1),
        ("k = 12 AND c = 7", 1, 1),
    ):
        assert table.to_arrow(filter=text).num_rows == count, text
        assert table.explain(filter=text).files_read == files, text
