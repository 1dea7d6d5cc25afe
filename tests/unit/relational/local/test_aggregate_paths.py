"""Sums and means at the ends of their types: groups, frames and continuous queries agree."""

import math
import re
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa
import pytest

from pkray.api.relation import Relation
from pkray.errors import EvaluationError
from pkray.relational import changelog, from_arrow, query
from tests.unit.relational.continuous.histories import Continuous

LONG, WIDE = 2**63 - 1, Decimal("9" * 35 + ".999")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "BIGINT": (pa.int64(), [LONG, LONG]),
    "least BIGINT": (pa.int64(), [-LONG - 1, -1]),
    "BIGINT below zero": (pa.int64(), [-1, -2, None]),
    "INT": (pa.int32(), [2**31 - 1, 1]),
    "TINYINT": (pa.int8(), [127, 127, 127]),
    "DOUBLE": (pa.float64(), [1.7e308, 1.7e308]),
    "FLOAT": (pa.float32(), [1.5, -0.25, None]),
    "NaN": (pa.float64(), [1.0, math.nan, None, -math.inf]),
    "DECIMAL(38, 3)": (pa.decimal128(38, 3), [WIDE, WIDE]),
    "DECIMAL(38, 0)": (pa.decimal128(38, 0), [Decimal(10**37), Decimal(10**37)]),
    "DECIMAL(5, 2)": (pa.decimal128(5, 2), [Decimal("999.99"), *[Decimal("-0.01")] * 2, None]),
    "no value": (pa.decimal128(5, 2), [None, None]),
}
SPARK = ("sum", "avg", "try_sum", "try_avg", "min", "max", "count")
CALLS = [(name, "spark") for name in SPARK] + [(name, "flink") for name in ("sum", "avg")]
MODES: tuple[Literal["insert", "all"], ...] = ("insert", "all")
FORMS = {
    "groups": "SELECT {call} AS v FROM t",
    "groups of a key": "SELECT {call} AS v FROM t GROUP BY g",
    "groups with a FILTER": "SELECT {call} FILTER (WHERE k >= 0) AS v FROM t",
    "whole": "SELECT {call} OVER (PARTITION BY g) AS v FROM t",
    "running": "SELECT {call} OVER (PARTITION BY g ORDER BY k) AS v FROM t",
    "sliding": (
        "SELECT {call} OVER (PARTITION BY g ORDER BY k ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) "
        "AS v FROM t"
    ),
}


def last(relation: Relation) -> tuple[str, Any]:
    """Give the type, and the last row's value or the error that there is instead."""
    kind = str(relation.schema.field("v").type)
    try:
        return kind, _near(relation.to_arrow()["v"].to_pylist()[-1])
    except EvaluationError as error:
        return kind, error.message.partition("; the row")[0]


def _near(value: Any) -> Any:
    """Give nine digits of a float; NaN as text, which equals itself."""
    if not isinstance(value, float):
        return value
    return "nan" if math.isnan(value) else float(f"{value:.9g}")


def continuous(
    text: str, rows: pa.Table, dialect: str, mode: Literal["insert", "all"]
) -> tuple[str, Any]:
    """Give the same of a continuous query."""
    source = changelog(rows.schema, mode=mode, name="t", dialect=dialect)
    relation = query(text, dialect, t=source)
    kind = str(relation.schema.field("v").type)
    run = Continuous(relation, {"t": source})
    try:
        run.push("t", rows.to_pylist())
    except EvaluationError as error:
        plain = re.sub(r" of the group .*? is ", " is ", error.message)
        return kind, plain.partition("; the row")[0]
    (row,) = run.content
    return kind, _near(row[0])


@pytest.mark.parametrize(("function", "dialect"), CALLS, ids=str)
@pytest.mark.parametrize("values", VALUES)
def test_all_paths_give_one_value_type_and_error(values: str, function: str, dialect: str) -> None:
    kind, known = VALUES[values]
    rows = pa.table(
        {"g": [1] * len(known), "k": list(range(len(known))), "x": pa.array(known, kind)}
    )
    source = from_arrow(rows, name="t", dialect=dialect)
    texts = {form: text.format(call=f"{function}(x)") for form, text in FORMS.items()}
    found = {form: last(query(text, dialect, t=source)) for form, text in texts.items()}
    for mode in MODES:
        found[f"continuous, {mode}"] = continuous(texts["groups of a key"], rows, dialect, mode)
    assert len({repr(each) for each in found.values()}) == 1, found
