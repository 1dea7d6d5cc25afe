"""Values as JSON."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pkray.errors import UnsupportedError
from pkray.kafka.json_texts import json_objects, json_texts

PAIR = pa.struct([("a", pa.int32()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.bool_(), True, "true"),
        (pa.int64(), -(2**63), "-9223372036854775808"),
        (pa.float64(), 5e-324, "5e-324"),
        (pa.float64(), float("-inf"), '"-Infinity"'),
        (pa.float64(), float("nan"), '"NaN"'),
        (pa.float32(), np.float32(0.1), "0.1"),
        (pa.decimal128(38, 10), Decimal("-12.5"), '"-12.5000000000"'),
        (pa.string(), 'é"\\\n\x00', '"é\\"\\\\\\n\\u0000"'),
        (pa.binary(), b"ab", '"YWI="'),
        (pa.date32(), date(1900, 1, 2), '"1900-01-02"'),
        (pa.time32("ms"), time(1, 2, 3, 4000), '"01:02:03.004"'),
        (pa.timestamp("us"), datetime(1900, 1, 2, 3), '"1900-01-02T03:00:00.000000"'),
        (pa.timestamp("ms", "UTC"), datetime(2026, 1, 2, tzinfo=UTC), '"2026-01-02T00:00:00.000Z"'),
        (pa.list_(pa.int32()), [1, None], "[1,null]"),
        (pa.list_(PAIR), [{"a": 1, "b": "x"}, None], '[{"a":1,"b":"x"},null]'),
        (pa.map_(pa.string(), pa.int32()), [('"', 1), ("b", None)], '{"\\"":1,"b":null}'),
        (pa.map_(pa.int32(), pa.string()), [(7, "x")], '{"7":"x"}'),
    ],
)
def test_a_value_and_null_beside_it(kind: pa.DataType, value: Any, text: str):
    assert json_texts(pa.array([value, None, value], kind)).to_pylist() == [text, "null", text]
    assert json_texts(pa.array([None, value], kind).slice(1)).to_pylist() == [text]


def test_a_float_is_read_back_from_a_double():
    bits = np.random.default_rng(5).integers(0, 2**32, 20_000, dtype=np.uint32)
    floats = bits.view(np.float32)
    floats = floats[np.isfinite(floats)]
    read = np.array([float(json.loads(text)) for text in json_texts(pa.array(floats)).to_pylist()])
    assert (read.astype(np.float32).view(np.uint32) == floats.view(np.uint32)).all()


def test_a_row_s_names_are_written_as_texts():
    rows = json_objects(['a"b', "c"], [pa.array([1]), pa.array(["x"])])
    assert rows.to_pylist() == ['{"a\\"b":1,"c":"x"}']


def test_a_type_that_is_not_written_is_named():
    with pytest.raises(UnsupportedError, match="values of duration"):
        json_texts(pa.array([1], pa.duration("s")))
