"""One meaning of equality: whatever compares rows finds the same values equal.

The order of a MAP's entries does not count, NULLs are equal where rows are grouped, NaN equals NaN,
and 0.0 equals -0.0 in the spark dialect, also inside of ARRAYs, MAPs and ROWs.
"""

import math
from typing import Any, Literal

import pyarrow as pa
import pytest

from pkray.errors import UnsupportedError
from pkray.relational import changelog, from_arrow, query
from pkray.relational.running import prepare, run
from pkray.relational.spark_sql.query import SparkSql
from tests.unit.relational.continuous.histories import Continuous

NAN = math.nan
MAP = pa.map_(pa.int64(), pa.float64())
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "maps": (MAP, [{1: 2.0, 3: None}, {3: None, 1: 2.0}, {1: 2.0}, {}, {}, None, None]),
    "maps of floats": (MAP, [{1: 0.0, 2: NAN}, {2: NAN, 1: -0.0}, {1: 2.0}, {3: NAN}, {3: NAN}]),
    "rows of maps": (
        pa.struct([("m", MAP)]),
        [{"m": {1: 2.0, 3: 4.0}}, {"m": {3: 4.0, 1: 2.0}}, {"m": {}}, {"m": None}, {"m": None}],
    ),
    "arrays of maps": (
        pa.list_(MAP),
        [[{1: 2.0, 3: 4.0}], [{3: 4.0, 1: 2.0}], [{}], [None], [None]],
    ),
    "rows": (
        pa.struct([("f", pa.float64()), ("g", pa.int64())]),
        [
            *({"f": 0.0, "g": None}, {"f": -0.0, "g": None}, {"f": 0.0, "g": 1}),
            *({"f": NAN, "g": 1}, {"f": NAN, "g": 1}),
        ],
    ),
    "arrays": (pa.list_(pa.float64()), [[0.0], [-0.0], [None], [NAN], [NAN], None, None]),
    "floats": (pa.float64(), [0.0, -0.0, 1.0, NAN, NAN, None, None]),
}
"""Of each the first two are equal, and the fourth and fifth; NULLs are the only others."""
COUNTED = {
    "GROUP BY": "SELECT count(*) AS n FROM (SELECT x FROM t GROUP BY x)",
    "DISTINCT": "SELECT count(*) AS n FROM (SELECT DISTINCT x FROM t)",
    "UNION": "SELECT count(*) AS n FROM (SELECT x FROM t UNION SELECT x FROM t)",
    "INTERSECT": "SELECT count(*) AS n FROM (SELECT x FROM t INTERSECT SELECT x FROM u)",
    "count(DISTINCT)": (
        "SELECT count(DISTINCT x) + max(CASE WHEN x IS NULL THEN 1 ELSE 0 END) AS n FROM t"
    ),
    "approx_count_distinct": (
        "SELECT approx_count_distinct(x) + max(CASE WHEN x IS NULL THEN 1 ELSE 0 END) AS n FROM t"
    ),
    "collect_set": (
        "SELECT size(collect_set(x)) + max(CASE WHEN x IS NULL THEN 1 ELSE 0 END) AS n FROM t"
    ),
    "array_distinct": "SELECT size(array_distinct(array_agg(x))) + max(CASE WHEN x IS NULL "
    "THEN 1 ELSE 0 END) AS n FROM t",
    "PARTITION BY": (
        "SELECT count(*) AS n FROM "
        "(SELECT row_number() OVER (PARTITION BY x ORDER BY i) AS r FROM t) WHERE r = 1"
    ),
}
"""Queries that count the distinct values, NULL among them; u has the values in other order."""
PAIRED = {
    "=": "SELECT count(*) AS n FROM t JOIN u ON t.x = u.x WHERE t.i < 2",
    "<=>": "SELECT count(*) AS n FROM t JOIN u ON t.x <=> u.x WHERE t.i < 2",
    "IN": "SELECT count(*) * 2 AS n FROM t WHERE x IN (SELECT x FROM u WHERE i = 1)",
    "= of a value": "SELECT count(*) * 2 AS n FROM t WHERE x = (SELECT x FROM u WHERE i = 0)",
    "EXISTS": (
        "SELECT count(*) * 2 AS n FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.x = t.x AND u.i = 0)"
    ),
    "array_contains": (
        "SELECT count(*) AS n FROM t JOIN u ON array_contains(array(t.x), u.x) WHERE t.i < 2"
    ),
    "IN constants": ("SELECT count(*) AS n FROM t JOIN u ON t.x IN (u.x, u.x) WHERE t.i < 2"),
}
"""Queries that count four pairs of the first two values."""
LEFT = {"EXCEPT": "SELECT count(*) AS n FROM (SELECT x FROM t EXCEPT SELECT x FROM u WHERE i > 1)"}
"""Queries that count the first two values, as one."""
QUERIES = COUNTED | PAIRED | LEFT


def inputs(values: str) -> dict[str, pa.Table]:
    kind, known = VALUES[values]
    numbers = list(range(len(known)))
    listed = [_listed(each) for each in known]
    turned = [listed[1], listed[0], *listed[2:]]
    return {
        name: pa.table({"i": pa.array(numbers, pa.int64()), "x": pa.array(column, kind)})
        for name, column in (("t", listed), ("u", turned))
    }


def _listed(value: Any) -> Any:
    """Write maps as lists of pairs, as Arrow takes them."""
    if isinstance(value, list):
        return [_listed(each) for each in value]
    if isinstance(value, dict) and not any(isinstance(key, str) for key in value):
        return list(value.items())
    if isinstance(value, dict):
        return {name: _listed(each) for name, each in value.items()}
    return value


def expected(form: str, values: str) -> int:
    if form in LEFT:
        return 1
    return 4 if form in PAIRED else 3 + (None in VALUES[values][1])


@pytest.mark.parametrize("form", QUERIES)
@pytest.mark.parametrize("values", VALUES)
def test_bounded_queries_find_the_same_values_equal(values: str, form: str) -> None:
    tables = {name: from_arrow(table, name=name) for name, table in inputs(values).items()}
    (row,) = query(QUERIES[form], **tables).to_arrow()["n"].to_pylist()
    assert row == expected(form, values)


@pytest.mark.parametrize("form", ["GROUP BY", "DISTINCT", "INTERSECT", "count(DISTINCT)", "="])
@pytest.mark.parametrize("values", VALUES)
def test_spilled_queries_find_the_same_values_equal(values: str, form: str) -> None:
    tables = {}
    for name, table in inputs(values).items():
        many = pa.concat_tables([table, *[table.slice(0, 2)] * 3])
        tables[name] = from_arrow(many, name=name)
    relation = query(QUERIES[form], **tables)
    whole = [row for batch in run(relation.plan) for row in batch.to_pylist()]
    assert [r for b in run(relation.plan, memory=4096) for r in b.to_pylist()] == whole


@pytest.mark.sampled(80)
@pytest.mark.parametrize("mode", ["insert", "all"])
@pytest.mark.parametrize("form", QUERIES)
@pytest.mark.parametrize("values", VALUES)
def test_continuous_queries_find_the_same_values_equal(
    values: str, form: str, mode: Literal["insert", "all"]
) -> None:
    tables = inputs(values)
    sources = {
        name: changelog(table.schema, mode=mode, name=name) for name, table in tables.items()
    }
    started = Continuous(query(QUERIES[form], **sources), sources)
    for epoch in (slice(0, 1), slice(1, 4), slice(4, None)):
        for name, table in tables.items():
            sources[name].push(table[epoch])
        started.run()
    ((row, _),) = started.content.items()
    assert row == (expected(form, values),)


def test_a_retraction_finds_the_row_whose_map_was_written_in_another_order() -> None:
    schema = pa.schema([("i", pa.int64()), ("x", MAP)])
    source = changelog(schema, mode="all", name="t")
    started = Continuous(query(COUNTED["GROUP BY"], t=source), {"t": source})
    for kind, entries in (("+I", [(1, 2.0), (3, 4.0)]), ("-D", [(3, 4.0), (1, 2.0)])):
        row = pa.table({"i": [1], "x": pa.array([entries], MAP), "_row_kind": [kind]})
        source.push(row)
        started.run()
    assert (1,) not in started.content


def test_flink_keeps_zeros_apart_inside_rows_as_outside() -> None:
    tables = {name: from_arrow(t, name=name, dialect="flink") for name, t in inputs("rows").items()}
    found = query(COUNTED["GROUP BY"], "flink", **tables).to_arrow()["n"].to_pylist()
    assert found == [4]


def test_spark_groups_maps_by_their_sorted_entries() -> None:
    relation = query("SELECT x FROM t GROUP BY x", t=from_arrow(inputs("maps")["t"], name="t"))
    assert "GROUP BY array_sort(map_entries(" in SparkSql(prefix="t").query(prepare(relation.plan))


@pytest.mark.parametrize("form", ["INTERSECT", "count(DISTINCT)", "PARTITION BY", "="])
def test_spark_refuses_what_it_cannot_compare(form: str) -> None:
    tables = {name: from_arrow(table, name=name) for name, table in inputs("maps").items()}
    with pytest.raises(UnsupportedError, match="map_entries"):
        SparkSql(prefix="t").query(prepare(query(QUERIES[form], **tables).plan))
