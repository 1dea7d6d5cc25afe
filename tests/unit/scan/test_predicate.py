"""Filters: which rows they match, and what they say of columns."""

import datetime as dt
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkray.errors import InputError, UnsupportedError
from pkray.scan.conditions import Statistics
from pkray.scan.predicate import Predicate
from pkray.schema.table_schema import TableSchema

SCHEMA = TableSchema.create(
    [
        ("id", "INT NOT NULL"),
        ("tiny", "TINYINT"),
        ("amount", "DECIMAL(10, 2)"),
        ("price", "DOUBLE"),
        ("name", "STRING"),
        ("raw", "BYTES"),
        ("ok", "BOOLEAN"),
        ("day", "DATE"),
        ("clock", "TIME(3)"),
        ("at", "TIMESTAMP(6)"),
        ("utc", "TIMESTAMP_LTZ(9)"),
        ("tags", "ARRAY<STRING>"),
        ("odd name", "INT"),
    ],
    ["id"],
)
NAN = float("nan")
ROWS = pa.Table.from_pydict(
    {
        "id": [1, 2, 3, 4],
        "tiny": [-128, 0, 127, None],
        "amount": [Decimal("-1.50"), Decimal("0.00"), Decimal("99999999.99"), None],
        "price": [-0.0, 1.5, NAN, None],
        "name": ["ant", "a%t", "it's\nlong", None],
        "raw": [b"", b"\x00\xff", b"abc", None],
        "ok": [True, False, True, None],
        "day": [dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(2024, 3, 1), None],
        "clock": [dt.time(0), dt.time(12, 30), dt.time(23, 59, 59, 999000), None],
        "at": [
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
            dt.datetime(2024, 2, 29),
            dt.datetime(2024, 2, 29, 12, 30, 0, 1),
            None,
        ],
        "utc": pa.array([-1, 0, 1709209800000000001, None], pa.timestamp("ns", "UTC")),
        "tags": [["x"], [], None, None],
        "odd name": [1, None, None, None],
    },
    schema=SCHEMA.arrow_schema,
)


def matched(filter: object) -> list[int]:
    predicate = pickle.loads(pickle.dumps(Predicate.parse(filter, SCHEMA)))
    return ROWS.filter(predicate.to_expression()).column("id").to_pylist()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("id = 2", [2]),
        ("id == 2", [2]),
        ("id <> 2", [1, 3, 4]),
        ("id != 2", [1, 3, 4]),
        ("2 < id", [3, 4]),
        ("2 >= id", [1, 2]),
        ("id >= 2 AND id < 4", [2, 3]),
        ("id = 1 OR id = 4", [1, 4]),
        ("NOT (id = 1 OR id = 4)", [2, 3]),
        ("NOT (id > 1 AND tiny < 100)", [1, 3]),
        ("id IN (4, 1, 1, 9)", [1, 4]),
        ("id NOT IN (4, 1)", [2, 3]),
        ("id BETWEEN 2 AND 3", [2, 3]),
        ("id NOT BETWEEN 2 AND 3", [1, 4]),
        ("`odd name` = 1", [1]),
        ("TRUE", [1, 2, 3, 4]),
        ("FALSE OR id = 1", [1]),
        # NULL is neither true nor false
        ("tiny <> 0", [1, 3]),
        ("NOT tiny = 0", [1, 3]),
        ("tiny IN (0, NULL)", [2]),
        ("tiny NOT IN (0, NULL)", []),
        ("tiny NOT IN (0)", [1, 3]),
        ("tiny = NULL", []),
        ("NOT (tiny = NULL)", []),
        ("NULL", []),
        ("tiny BETWEEN NULL AND 0", []),
        ("NOT (tiny BETWEEN NULL AND 0)", [3]),
        ("tiny IS NULL", [4]),
        ("tiny IS NOT NULL", [1, 2, 3]),
        ("tiny <=> NULL", [4]),
        ("tiny <=> 0", [2]),
        ("NOT (tiny <=> 0)", [1, 3, 4]),
        ("tiny IS DISTINCT FROM 0", [1, 3, 4]),
        ("tags IS NULL", [3, 4]),
        ("`odd name` IS NULL AND tiny > 0", [3]),
        # literals that the type cannot hold
        ("tiny = 1000", []),
        ("tiny <> 1000", [1, 2, 3]),
        ("tiny < 1000", [1, 2, 3]),
        ("NOT (tiny < 1000)", []),
        ("tiny > 1000", []),
        ("tiny > -1000", [1, 2, 3]),
        ("tiny <= -1000", []),
        ("tiny IN (1000)", []),
        ("tiny NOT IN (1000)", [1, 2, 3]),
        ("id > 1.5", [2, 3, 4]),
        ("id >= 1.5", [2, 3, 4]),
        ("id < 2.5", [1, 2]),
        ("id = 2.5", []),
        ("id = 2.0", [2]),
        ("id = 2e0", [2]),
        ("id < 1e999999", [1, 2, 3, 4]),
        ("amount > -1.505", [1, 2, 3]),
        ("amount <= -1.495", [1]),
        ("amount >= 99999999.991", []),
        ("amount = 0", [2]),
        # strings are cast to the column's type
        ("id = '3'", [3]),
        ("amount = '-1.5'", [1]),
        ("id = CAST('3' AS BIGINT)", [3]),
        ("id = 3L", [3]),
        # NaN is the largest number, and zero has one sign
        ("price > 1", [2, 3]),
        ("price >= 1e300", [3]),
        ("price < 2", [1, 2]),
        ("NOT price < 2", [3]),
        ("price = DOUBLE('NaN')", [3]),
        ("price < DOUBLE('NaN')", [1, 2]),
        ("price = 0", [1]),
        ("price IN (0, 7)", [1]),
        ("price NOT IN (0)", [2, 3]),
        ("price > -1.5D", [1, 2, 3]),
        ("name = 'ant'", [1]),
        ("name = 'it\\'s\\nlong'", [3]),
        ("name >= 'b'", [3]),
        ("name LIKE 'a%'", [1, 2]),
        ("name LIKE '%long'", [3]),
        ("name LIKE 'a_t'", [1, 2]),
        ("name LIKE 'a\\\\%t'", [2]),
        ("name LIKE 'a#%t' ESCAPE '#'", [2]),
        ("name ILIKE 'A%'", [1, 2]),
        ("name NOT LIKE 'a%'", [3]),
        ("NOT name LIKE 'a%'", [3]),
        ("NOT (name NOT LIKE 'a%')", [1, 2]),
        ("raw = X'00ff'", [2]),
        ("raw > X'00'", [2, 3]),
        ("ok", [1, 3]),
        ("NOT ok", [2]),
        ("ok = FALSE", [2]),
        ("ok IS TRUE", [1, 3]),
        ("ok IS NOT TRUE", [2, 4]),
        ("day = DATE '2024-02-29'", [2]),
        ("day > '1970-01-01'", [2, 3]),
        ("day < TIMESTAMP '2024-02-29 12:00:00'", [1, 2]),
        ("day = TIMESTAMP '2024-02-29 12:00:00'", []),
        ("clock = TIME '12:30'", [2]),
        ("clock >= '23:59:59.999'", [3]),
        ("at < TIMESTAMP '1970-01-01'", [1]),
        ("at = TIMESTAMP '2024-02-29 12:30:00.000001'", [3]),
        ("at > DATE '2024-02-29'", [3]),
        ("at >= '2024-02-29T00:00:00'", [2, 3]),
        ("utc = TIMESTAMP '2024-02-29 13:30:00.000000001+01:00'", [3]),
        ("utc < TIMESTAMP '1970-01-01 00:00:00Z'", [1]),
        ("utc < TIMESTAMP '9999-01-01'", [1, 2, 3]),
    ],
)
def test_sql_matches_the_rows_it_is_true_for(text: str, ids: list[int]) -> None:
    assert matched(text) == ids


@pytest.mark.parametrize(
    ("filter", "ids"),
    [
        ([("id", ">", 1), ("id", "<=", 3)], [2, 3]),
        ([[("id", "=", 1)], [("id", "==", 4), ("tiny", "<", 0)]], [1]),
        ([[("id", "!=", 2), ("ok", "=", True)], [("id", "=", 2)]], [1, 2, 3]),
        ([("id", "in", [1, None, 3])], [1, 3]),
        ([("id", "not in", {1, 3})], [2, 4]),
        ([("id", "in", np.array([1, 9]))], [1]),
        ([("amount", "=", Decimal("-1.5"))], [1]),
        ([("price", "=", np.float32(1.5))], [2]),
        ([("day", "=", dt.date(2024, 2, 29))], [2]),
        ([("at", ">", dt.datetime(2024, 2, 29))], [3]),
        ([("at", ">", np.datetime64("2024-02-29T12:30:00.000000999", "ns"))], [3]),
        ([("utc", "=", dt.datetime(1970, 1, 1, tzinfo=dt.UTC))], [2]),
        ([("utc", "=", pa.scalar(-1, pa.timestamp("ns", "UTC")))], [1]),
        ([("clock", "<", dt.time(12, 30))], [1]),
        ([("raw", "=", b"abc")], [3]),
        ([("name", "=", None)], []),
        (pc.field("id") > 2, [3, 4]),
        ((pc.field("id") * 2 > 4) | pc.field("name").is_null(), [3, 4]),
    ],
)  # fmt: skip
def test_lists_and_expressions_match(filter: object, ids: list[int]) -> None:
    assert matched(filter) == ids


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        ("amonut > 10", "column 'amonut' of the filter is not in the table; did you mean 'amount'"),
        ("t.id = 1", "column 't.id'"),
        ("id >", r"filter 'id >' is not SQL: error at '>' \(character 4\)"),
        ("", "filter '' is not SQL"),
        ("name > 'x", "is not SQL"),
        ("id = 'three'", "column 'id' is INT NOT NULL and cannot be compared with 'three'"),
        ("name = 3", "column 'name' is STRING and cannot be compared with 3: .* such as 'text'"),
        ("name", "column 'name' is STRING and cannot be compared with True"),
        ("ok = 1", "column 'ok' is BOOLEAN .* such as TRUE"),
        ("day = 3", "column 'day' is DATE .* such as DATE '2024-02-29'"),
        ("day = '2024-02-30'", "'2024-02-30'"),
        ("day = DATE '2024-13-01'", "is no DATE"),
        ("clock = '24:00'", "'24:00'"),
        ("at = TIMESTAMP '2024-01-01 00:00:00Z'", "column 'at' .* the time 2024-01-01 00:00:00Z"),
        ("raw = 'abc'", "column 'raw' is BYTES .* such as X'00FF'"),
        ("raw = X'0'", "column 'raw'|hexadecimal"),
        ("id LIKE 'a%'", "column 'id' is INT NOT NULL"),
        ("name LIKE 'a' ESCAPE 'xy'", "ESCAPE 'xy' must be one character"),
        ("tags = 'x'", "column 'tags' is ARRAY<STRING>: filters can only ask whether it IS NULL"),
        ([("nme", "=", 1)], "column 'nme'"),
        ([("id", "~", 1)], "operator '~' is unknown"),
        ([("id", "in", "abc")], "'in' takes a list of values"),
        ([("id", "=")], "is not"),
        ([("id", "=", object())], "of type object"),
        ([("id", "=", NAN)], "NaN"),
        ([], "is neither SQL text"),
        (42, "filter 42 is neither SQL text"),
        (pc.field("nope") == 1, "nope"),
        (pc.field("name") > 1, "filter"),
        (pc.field("id"), "bool"),
    ],
)
def test_a_filter_that_does_not_fit_is_refused(filter: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Predicate.parse(filter, SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "id + 1 > 2",
        "id = tiny",
        "lower(name) = 'a'",
        "id IN (SELECT 1)",
        "SELECT 1",
        "id = 1; id = 2",
        "name RLIKE 'a'",
        "name = 'it''s'",
        "id = ?",
        "1 = 1",
    ],
)
def test_sql_beyond_comparisons_is_unsupported(text: str) -> None:
    with pytest.raises(UnsupportedError, match="pass a pyarrow expression"):
        Predicate.parse(text, SCHEMA)


def test_columns_are_those_referred_to() -> None:
    assert Predicate.parse("tiny > 1 AND (name = 'a' OR id = 1)", SCHEMA).columns == (
        "id",
        "name",
        "tiny",
    )
    expression = (pc.field("id") > 1) & pc.starts_with(pc.field("name"), "a")
    assert Predicate.parse(expression, SCHEMA).columns == ("id", "name")


def test_only_keeps_the_conjuncts_of_these_columns() -> None:
    predicate = Predicate.parse("id > 1 AND (tiny = 0 AND id < 4) AND (id = 1 OR ok)", SCHEMA)
    kept = predicate.only(["id"])
    assert kept is not None
    assert ROWS.filter(kept.to_expression()).column("id").to_pylist() == [2, 3]
    assert Predicate.parse("id = 1 OR tiny = 0", SCHEMA).only(["id"]) is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("id = 1", {"id": [1]}),
        ("id IN (1, 2, 2) AND name = 'a'", {"id": [1, 2], "name": ["a"]}),
        ("id IN (1, 2) AND id IN (2, 3)", {"id": [2]}),
        ("id = 1 OR id = 2", {"id": [1, 2]}),
        ("(id = 1 AND tiny = 3) OR id = 2", {"id": [1, 2]}),
        ("id = 1 OR tiny = 2", {}),
        ("id <> 1", {}),
        ("id > 1", {}),
        ("id NOT IN (1)", {}),
        ("price = 0", {}),
    ],
)
def test_equalities(text: str, values: dict[str, list[object]]) -> None:
    found = Predicate.parse(text, SCHEMA).equalities()
    assert {name: array.to_pylist() for name, array in found.items()} == values
    assert all(array.type == SCHEMA.field(name).type.arrow for name, array in found.items())


_COLUMNS = ("a", "b")
_SMALL = TableSchema.create([("k", "INT"), ("a", "INT"), ("b", "INT")], ["k"])
_values = st.one_of(st.none(), st.integers(-3, 3))
_operators = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
_leaves = st.one_of(
    st.tuples(_operators, st.sampled_from(_COLUMNS), _values),
    st.tuples(st.just("in"), st.sampled_from(_COLUMNS), st.lists(_values, min_size=1, max_size=3)),
    st.tuples(st.just("null"), st.sampled_from(_COLUMNS)),
    st.tuples(st.just("between"), st.sampled_from(_COLUMNS), _values, _values),
)  # fmt: skip
_trees = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)
    ),
    max_leaves=6,
)


def _sql(tree: tuple) -> str:
    def shown(value: int | None) -> str:
        return "NULL" if value is None else str(value)

    match tree:
        case ("not", inner):
            return f"NOT ({_sql(inner)})"
        case ("and" | "or" as word, left, right):
            return f"({_sql(left)}) {word} ({_sql(right)})"
        case ("in", column, values):
            return f"{column} IN ({', '.join(map(shown, values))})"
        case ("null", column):
            return f"{column} IS NULL"
        case ("between", column, low, high):
            return f"{column} BETWEEN {shown(low)} AND {shown(high)}"
        case (operator, column, value):
            return f"{column} {operator} {shown(value)}"
    raise AssertionError(tree)


def _truth(tree: tuple, row: dict[str, int | None]) -> bool | None:
    """SQL's three-valued logic, spelled out."""
    match tree:
        case ("not", inner):
            value = _truth(inner, row)
            return None if value is None else not value
        case ("and" | "or" as word, left, right):
            both = [_truth(left, row), _truth(right, row)]
            decisive = word == "or"
            if decisive in both:
                return decisive
            return None if None in both else not decisive
        case ("in", column, values):
            return _any([_compare("=", row[column], value) for value in values])
        case ("null", column):
            return row[column] is None
        case ("between", column, low, high):
            ends = (("low", ">=", low), ("high", "<=", high))
            parts = [_compare(operator, row[column], end) for _, operator, end in ends]
            return False if False in parts else None if None in parts else True
        case (operator, column, value):
            return _compare(operator, row[column], value)
    raise AssertionError(tree)


def _any(parts: list[bool | None]) -> bool | None:
    return True if True in parts else None if None in parts else False


def _compare(operator: str, left: int | None, right: int | None) -> bool | None:
    if left is None or right is None:
        return None
    return {
        "=": left == right,
        "<>": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


@given(_trees, st.lists(st.tuples(_values, _values), max_size=8))
def test_sql_follows_three_valued_logic(tree: tuple, pairs: list[tuple]) -> None:
    rows = [{"k": k, "a": a, "b": b} for k, (a, b) in enumerate(pairs)]
    batch = pa.Table.from_pylist(rows, _SMALL.arrow_schema)
    found = batch.filter(Predicate.parse(_sql(tree), _SMALL).to_expression())
    assert found.column("k").to_pylist() == [row["k"] for row in rows if _truth(tree, row) is True]


@given(
    _trees,
    st.lists(st.lists(st.tuples(_values, _values), min_size=1, max_size=3), max_size=5),
    st.sets(st.integers(0, 9)),
)
def test_pruning_never_drops_a_file_with_a_match(
    tree: tuple, files: list[list[tuple]], unknown: set[int]
) -> None:
    least: dict[str, list[int | None]] = {"a": [], "b": []}
    greatest: dict[str, list[int | None]] = {"a": [], "b": []}
    nulls: dict[str, list[int]] = {"a": [], "b": []}
    for number, file in enumerate(files):
        for position, column in enumerate(_COLUMNS):
            held = [pair[position] for pair in file if pair[position] is not None]
            known = held and number * 2 + position not in unknown
            least[column].append(min(held) if known else None)
            greatest[column].append(max(held) if known else None)
            is_counted = number * 2 + position not in unknown
            nulls[column].append(len(file) - len(held) if is_counted else -1)
    predicate = Predicate.parse(_sql(tree), _SMALL)
    statistics = Statistics(
        {name: pa.array(values, pa.int32()) for name, values in least.items()},
        {name: pa.array(values, pa.int32()) for name, values in greatest.items()},
        {name: np.array(values, np.int64) for name, values in nulls.items()},
        np.array([len(file) for file in files], np.int64),
    )
    kept = predicate.condition.may_match(statistics)
    assert kept.dtype == bool
    for file, keep in zip(files, kept, strict=True):
        matches = any(_truth(tree, {"a": a, "b": b}) is True for a, b in file)
        assert keep or not matches
