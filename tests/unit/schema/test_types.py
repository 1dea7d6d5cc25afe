"""Types: text and JSON both ways, Arrow both ways."""

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkray.errors import SchemaError, UnsupportedError
from pkray.schema.types import DataField, DataType

SCALARS = [
    ("BOOLEAN", pa.bool_()),
    ("TINYINT", pa.int8()),
    ("SMALLINT", pa.int16()),
    ("INT", pa.int32()),
    ("BIGINT", pa.int64()),
    ("FLOAT", pa.float32()),
    ("DOUBLE", pa.float64()),
    ("DECIMAL(20, 4)", pa.decimal128(20, 4)),
    ("CHAR(5)", pa.string()),
    ("VARCHAR(8)", pa.string()),
    ("STRING", pa.string()),
    ("BINARY(3)", pa.binary()),
    ("VARBINARY(8)", pa.binary()),
    ("BYTES", pa.binary()),
    ("DATE", pa.date32()),
    ("TIME(3)", pa.time32("ms")),
    ("TIMESTAMP(0)", pa.timestamp("ms")),
    ("TIMESTAMP(3)", pa.timestamp("ms")),
    ("TIMESTAMP(4)", pa.timestamp("us")),
    ("TIMESTAMP(6)", pa.timestamp("us")),
    ("TIMESTAMP(9)", pa.timestamp("ns")),
    ("TIMESTAMP_LTZ(3)", pa.timestamp("ms", "UTC")),
    ("TIMESTAMP_LTZ(6)", pa.timestamp("us", "UTC")),
    ("TIMESTAMP_LTZ(7)", pa.timestamp("ns", "UTC")),
]


@pytest.mark.parametrize(("text", "arrow"), SCALARS)
def test_a_scalar_type_is_written_as_it_is_read(text: str, arrow: pa.DataType) -> None:
    assert DataType.parse(text).to_json() == text
    assert DataType.parse(f"{text} NOT NULL").to_json() == f"{text} NOT NULL"


@pytest.mark.parametrize(("text", "arrow"), SCALARS)
def test_the_canonical_arrow_type_of_a_scalar(text: str, arrow: pa.DataType) -> None:
    assert DataType.parse(text).arrow == arrow


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIMESTAMP WITHOUT TIME ZONE", "TIMESTAMP(6)"),
        ("timestamp(3) with local time zone not null", "TIMESTAMP_LTZ(3) NOT NULL"),
        ("TIMESTAMP_LTZ", "TIMESTAMP_LTZ(6)"),
        ("DECIMAL", "DECIMAL(10, 0)"),
        ("numeric(5,2)", "DECIMAL(5, 2)"),
        ("CHAR", "CHAR(1)"),
        ("VARCHAR", "VARCHAR(1)"),
        ("VARBINARY", "VARBINARY(1)"),
        ("VARCHAR(2147483647)", "STRING"),
        ("VARBINARY(2147483647) NOT NULL", "BYTES NOT NULL"),
        ("TIME", "TIME(0)"),
        ("INTEGER", "INT"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("INT NULL", "INT"),
    ],
)
def test_other_spellings_are_understood(text: str, canonical: str) -> None:
    assert str(DataType.parse(text)) == canonical


@pytest.mark.parametrize(
    "text",
    ["", "INTT", "DECIMAL(", "DECIMAL(39, 2)", "DECIMAL(5, 6)", "TIMESTAMP(10)", "CHAR(0)",
     "INT(4)", "INT INT", "ARRAY<INT", "MAP<INT>", "DECIMAL(a)", "BIGINT;"],
)  # fmt: skip
def test_what_is_no_type_is_refused_by_name(text: str) -> None:
    with pytest.raises(SchemaError):
        DataType.parse(text)


@pytest.mark.parametrize("value", [None, 3, {"element": "INT"}, {"type": 3}])
def test_json_that_is_no_type_is_refused(value: object) -> None:
    with pytest.raises(SchemaError, match=r"not a type|give a type as text"):
        DataType.parse(value)  # type: ignore[arg-type]


def _deep_json(levels: int) -> object:
    found: object = "INT"
    for _ in range(levels):
        found = {"type": "ARRAY", "element": found}
    return found


def _deep_row(levels: int) -> object:
    found: object = "INT"
    for _ in range(levels):
        found = {"type": "ROW", "fields": [{"id": 0, "name": "f", "type": found}]}
    return found


def _deep_arrow(levels: int) -> pa.DataType:
    found = pa.int32()
    for _ in range(levels):
        found = pa.list_(found)
    return found


def _by_hand(levels: int) -> DataType:
    found = DataType("INT")
    for _ in range(levels):
        found = DataType("ARRAY", element=found)
    return found


_DEEP = {
    "text": lambda levels: DataType.parse("ARRAY<" * levels + "INT" + ">" * levels),
    "rows": lambda levels: DataType.parse("ROW<f " * levels + "INT" + ">" * levels),
    "keys": lambda levels: DataType.parse("MAP<" * levels + "INT" + ", INT>" * levels),
    "json": lambda levels: DataType.parse(_deep_json(levels)),
    "json of rows": lambda levels: DataType.parse(_deep_row(levels)),
    "text in json": lambda levels: DataType.parse(
        {"type": "ARRAY", "element": "ARRAY<" * (levels - 1) + "INT" + ">" * (levels - 1)}
    ),
    "arrow": lambda levels: DataType.from_arrow(_deep_arrow(levels)),
    "by hand": _by_hand,
}


@pytest.mark.parametrize("spelling", _DEEP)
@pytest.mark.parametrize("levels", [49, 130, 300, 1000])
def test_types_in_types_over_too_many_levels_are_refused(spelling: str, levels: int) -> None:
    with pytest.raises(SchemaError, match="more than 48 levels"):
        _DEEP[spelling](levels)


@pytest.mark.parametrize("spelling", _DEEP)
def test_as_many_levels_as_parquet_reads_are_types(spelling: str) -> None:
    made = _DEEP[spelling](48)
    assert made.levels == 48
    assert pickle.loads(pickle.dumps(made)) == made == DataType.parse(made.to_json())


def test_multiset_is_refused_with_what_to_use_instead() -> None:
    with pytest.raises(UnsupportedError, match="MAP<element, INT NOT NULL>"):
        DataType.parse({"type": "MULTISET", "element": "INT"})


def test_nested_types_are_objects_in_json() -> None:
    json = {
        "type": "MAP NOT NULL",
        "key": "STRING NOT NULL",
        "value": {
            "type": "ARRAY",
            "element": {
                "type": "ROW",
                "fields": [
                    {"id": 90, "name": "id", "type": "INT"},
                    {"id": 91, "name": "x", "type": "STRING NOT NULL", "description": "an x"},
                ],
            },
        },
    }
    parsed = DataType.parse(json)
    assert parsed.to_json() == json
    assert parsed.arrow == pa.map_(
        pa.string(), pa.list_(pa.struct([("id", pa.int32()), pa.field("x", pa.string(), False)]))
    )


def test_nested_types_are_read_from_sql() -> None:
    parsed = DataType.parse("MAP<STRING, ARRAY<ROW<a INT NOT NULL, `b c` DECIMAL(5, 2)>>>")
    assert parsed.value is not None
    assert parsed.value.element is not None
    assert parsed.value.element.fields == (
        DataField(0, "a", DataType("INT", nullable=False)),
        DataField(1, "b c", DataType("DECIMAL", precision=5, scale=2)),
    )
    assert DataType.parse(str(parsed)) == parsed


@pytest.mark.parametrize(
    ("arrow", "text"),
    [
        (pa.large_string(), "STRING"),
        (pa.string_view(), "STRING"),
        (pa.dictionary(pa.int32(), pa.string()), "STRING"),
        (pa.large_binary(), "BYTES"),
        (pa.binary(4), "BINARY(4)"),
        (pa.timestamp("s"), "TIMESTAMP(0)"),
        (pa.timestamp("ms"), "TIMESTAMP(3)"),
        (pa.timestamp("us"), "TIMESTAMP(6)"),
        (pa.timestamp("ns", "Europe/Berlin"), "TIMESTAMP_LTZ(9)"),
        (pa.time32("s"), "TIME(0)"),
        (pa.decimal64(10, 2), "DECIMAL(10, 2)"),
        (pa.decimal256(38, 2), "DECIMAL(38, 2)"),
        (pa.large_list(pa.int8()), "ARRAY<TINYINT>"),
        (pa.struct([("a", pa.date32())]), "ROW<`a` DATE>"),
    ],
)
def test_arrow_types_with_a_paimon_type(arrow: pa.DataType, text: str) -> None:
    assert str(DataType.from_arrow(arrow)) == text


@pytest.mark.parametrize(
    ("arrow", "remedy"),
    [
        (pa.uint8(), "int16"),
        (pa.uint16(), "int32"),
        (pa.uint32(), "int64"),
        (pa.uint64(), "decimal128"),
        (pa.float16(), "float32"),
        (pa.duration("us"), "int64"),
        (pa.time64("ns"), "time32"),
        (pa.date64(), "date32"),
        (pa.decimal256(50, 2), "38 digits"),
        (pa.null(), "cast it"),
        (pa.list_(pa.uint32()), "int64"),
    ],
)
def test_arrow_types_without_one_are_refused_with_a_remedy(arrow: pa.DataType, remedy: str) -> None:
    with pytest.raises(UnsupportedError, match=remedy):
        DataType.from_arrow(arrow)


def test_an_unsupported_field_is_named() -> None:
    with pytest.raises(UnsupportedError, match="column 'qty': uint32") as caught:
        DataType.from_field(pa.field("qty", pa.uint32()))
    assert caught.value.column == "qty"


def test_metadata_says_the_type_exactly() -> None:
    field = pa.field("c", pa.string(), nullable=False, metadata={"paimon.type": "CHAR(5)"})
    assert str(DataType.from_field(field)) == "CHAR(5) NOT NULL"


def test_metadata_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"paimon\.type"):
        DataType.from_field(pa.field("c", pa.int32(), metadata={"paimon.type": "CHAR(5)"}))


def types() -> st.SearchStrategy[DataType]:
    scalars = st.one_of(
        st.sampled_from([DataType.parse(text) for text, _ in SCALARS]),
        st.integers(0, 9).map(lambda p: DataType("TIMESTAMP", precision=p)),
        st.integers(1, 38).flatmap(
            lambda p: st.integers(0, p).map(lambda s: DataType("DECIMAL", precision=p, scale=s))
        ),
    )
    nullable = st.builds(DataType.with_nullable, scalars, st.booleans())
    names = st.text(min_size=1, max_size=8)
    return st.recursive(
        nullable,
        lambda inner: st.one_of(
            inner.map(lambda t: DataType("ARRAY", element=t)),
            st.tuples(nullable, inner).map(lambda kv: DataType("MAP", key=kv[0], value=kv[1])),
            st.lists(st.tuples(names, inner), min_size=1, max_size=3).map(
                lambda fs: DataType(
                    "ROW", fields=tuple(DataField(i, n, t) for i, (n, t) in enumerate(fs))
                )
            ),
        ),
        max_leaves=5,
    )


@given(types())
def test_any_type_survives_json_and_pickling(data_type: DataType) -> None:
    assert DataType.parse(data_type.to_json()) == data_type
    assert pickle.loads(pickle.dumps(data_type)) == data_type
    assert isinstance(data_type.arrow, pa.DataType)


@pytest.mark.parametrize("fields", [5, "x", ["x"], ("x",), (DataField(0, "a", "INT"),)])
def test_a_row_is_of_fields_that_have_types(fields):
    with pytest.raises(SchemaError, match="ROW is of "):
        DataType("ROW", fields=fields)
