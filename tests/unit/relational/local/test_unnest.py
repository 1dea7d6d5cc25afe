"""Table functions."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pkray.errors import EvaluationError
from pkray.relational import from_arrow, query
from pkray.relational.local.unnest import PIECE_BYTES, at_once
from pkray.relational.plan.nodes import Unnest
from pkray.relational.running import prepare
from pkray.relational.udf import udtf
from pkray.schema.types import DataType
from tests.unit.relational.local.inputs import result, rows_of


def unnested(kind: str, values: list[Any], function: str, types: list[str], **options: Any) -> Any:
    source = rows_of(f"x {kind}, n INT", [(value, i) for i, value in enumerate(values)])
    names = tuple(f"c{i}" for i in range(len(types)))
    plan = Unnest(source, function, ("x",), names, tuple(map(DataType.parse, types)), **options)
    return [row[1:] for row in result(plan, batch_rows=100)]


ARRAYS = [[1, None], None, [], [2]]


def test_elements_come_out_with_their_row() -> None:
    assert unnested("ARRAY<INT>", ARRAYS, "explode", ["INT"]) == [(0, 1), (0, None), (3, 2)]


def test_outer_keeps_rows_that_nothing_is_made_of() -> None:
    assert unnested("ARRAY<INT>", ARRAYS, "explode", ["INT"], outer=True) == [
        (0, 1), (0, None), (1, None), (2, None), (3, 2),
    ]  # fmt: skip
    assert unnested("ARRAY<INT>", [None], "explode", ["INT"], outer=True) == [(0, None)]


def test_elements_are_numbered_from_zero() -> None:
    assert unnested("ARRAY<INT>", ARRAYS, "posexplode", ["INT NOT NULL", "INT"]) == [
        (0, 0, 1), (0, 1, None), (3, 0, 2),
    ]  # fmt: skip


def test_maps_give_keys_and_values() -> None:
    maps = [[("a", 1), ("b", None)], None, []]
    types = ["STRING NOT NULL", "INT"]
    assert unnested("MAP<STRING, INT>", maps, "explode", types) == [(0, "a", 1), (0, "b", None)]


def test_arrays_of_rows_give_their_fields() -> None:
    rows = [[{"a": 1, "b": "x"}, None], [{"a": None, "b": "y"}]]
    kind = "ARRAY<ROW<a INT, b STRING>>"
    source = rows_of_nested(kind, rows)
    plan = Unnest(source, "inline", ("x",), ("a", "b"), (DataType("INT"), DataType("STRING")))
    assert [row[1:] for row in result(plan)] == [(1, "x"), (None, None), (None, "y")]


def rows_of_nested(kind: str, values: list[Any]) -> Any:
    from pkray.relational.plan.fields import Field, Fields
    from pkray.relational.plan.nodes import Scan
    from tests.unit.relational.local.inputs import Rows

    return Scan(Rows(Fields((Field("x", DataType.parse(kind)),)), [(value,) for value in values]))


def test_sequences_count_up_and_down() -> None:
    source = rows_of("a INT, b INT", [(1, 3), (2, 1), (None, 1)])
    plan = Unnest(source, "sequence_rows", ("a", "b"), ("c",), (DataType("INT"),))
    assert [row[2] for row in result(plan)] == [1, 2, 3, 2, 1]


def test_sequences_by_a_step() -> None:
    source = rows_of("a BIGINT, b BIGINT, s BIGINT", [(1, 6, 2), (6, 1, 2), (6, 1, -5)])
    plan = Unnest(source, "sequence_rows", ("a", "b", "s"), ("c",), (DataType("BIGINT"),))
    assert [row[3] for row in result(plan)] == [1, 3, 5, 6, 1]


def test_a_sequence_by_zero_fails() -> None:
    source = rows_of("a INT, b INT, s INT", [(1, 3, 0)])
    plan = Unnest(source, "sequence_rows", ("a", "b", "s"), ("c",), (DataType("INT"),))
    with pytest.raises(EvaluationError, match="by 0"):
        result(plan)


def test_users_functions_give_rows() -> None:
    @udtf("word STRING")
    def words(text: pa.Array) -> pa.RecordBatch:
        parts = pc.split_pattern(text, " ")
        rows = pc.list_parent_indices(parts)
        return pa.record_batch({"_row": rows, "word": pc.list_flatten(parts)})

    texts = ["a b", None, "c"]
    assert unnested("STRING", texts, "udtf", ["STRING"], udf=words, outer=True) == [
        (0, "a"), (0, "b"), (1, None), (2, "c"),
    ]  # fmt: skip


def lengths_and_rows(text: str) -> tuple[list[int], list[int]]:
    batches = list(query(text, v=from_arrow(pa.table({"n": [1]}), name="v")).to_batches())
    sizes = [batch.nbytes for batch in batches]
    return sizes, [batch.num_rows for batch in batches]


def test_an_array_that_nobody_reads_is_not_repeated_with_its_elements() -> None:
    plan = query("SELECT explode(sequence(1, 3)) x").plan
    (unnest,) = (node for node in prepare(plan).walk() if isinstance(node, Unnest))
    assert unnest.keeps == ()
    assert [column.name for column in unnest.fields] == list(unnest.names)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a, x FROM (SELECT sequence(1, 4000) a) LATERAL VIEW explode(a) AS x",
        "SELECT a, p, x FROM (SELECT sequence(1, 4000) a) LATERAL VIEW posexplode(a) AS p, x",
        "SELECT a, x FROM (SELECT sequence(1, 4000) a) LATERAL VIEW OUTER explode(a) AS x",
        "SELECT t, explode(sequence(1, 4000)) x FROM (SELECT repeat('x', 9999) t)",
        "SELECT m, k, v FROM (SELECT map_from_arrays(sequence(1, 2000), sequence(1, 2000)) m) "
        "LATERAL VIEW explode(m) AS k, v",
        "SELECT a, x FROM (SELECT transform(sequence(1, 4000), i -> named_struct('x', i)) a) "
        "LATERAL VIEW inline(a) AS x",
    ],
)
def test_what_is_repeated_comes_out_in_batches_of_bounded_size(text: str) -> None:
    sizes, rows = lengths_and_rows(text)
    assert sum(rows) in (2000, 4000)
    assert len(rows) > 1
    assert max(sizes) < 3 * PIECE_BYTES


def test_pieces_of_rows_are_the_rows_at_once() -> None:
    source = pa.table({"a": [[1, 2, 3], None, [], [4], [None, 5]], "t": list("abcde")})
    node = Unnest(
        of(source), "posexplode", ("a",), ("p", "x"),
        (DataType.parse("INT"), DataType.parse("BIGINT")), outer=True,
    )  # fmt: skip
    (batch,) = source.to_batches()
    whole = at_once(node)(batch)
    by_rows = [at_once(node)(batch.slice(i, 1)) for i in range(5)]
    assert whole.equals(pa.concat_batches(by_rows))
    assert whole["x"].to_pylist() == [1, 2, 3, None, None, 4, None, 5]
    assert whole["p"].to_pylist() == [0, 1, 2, None, None, 0, 0, 1]
    assert "".join(whole["t"].to_pylist()) == "aaabcdee"


def of(table: pa.Table) -> Any:
    return from_arrow(table).plan
