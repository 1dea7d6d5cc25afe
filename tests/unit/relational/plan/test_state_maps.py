"""Which operators keep rows by columns that hold MAPs."""

import pyarrow as pa
import pytest

from pkray.relational import from_arrow, query
from pkray.relational.optimizer import optimize
from pkray.relational.plan.physical import to_physical
from pkray.relational.plan.state import keyed_map

MAP = pa.map_(pa.int64(), pa.int64())
ROWS = pa.table(
    {
        "k": pa.array([], pa.int64()),
        "m": pa.array([], MAP),
        "s": pa.array([], pa.struct([("in", pa.list_(MAP))])),
    }
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT m, COUNT(*) AS n FROM t GROUP BY m", {"m"}),
        ("SELECT k, COUNT(m) AS n FROM t GROUP BY k", set()),
        ("SELECT k, COUNT(DISTINCT s) AS n FROM t GROUP BY k", {"s"}),
        ("SELECT DISTINCT s FROM t", {"s"}),
        ("SELECT DISTINCT k FROM t", set()),
        ("SELECT m FROM t UNION SELECT m FROM u", {"m"}),
        ("SELECT m FROM t UNION ALL SELECT m FROM u", set()),
        ("SELECT t.k FROM t JOIN u ON t.k = u.k", set()),
        ("SELECT t.k FROM t JOIN u ON t.m = u.m", {"m"}),
        ("SELECT k, m FROM t WHERE k > 1", set()),
    ],
)
def test_columns_that_hold_maps_are_found_where_rows_are_kept_by_them(text, found):
    tables = {name: from_arrow(ROWS, name=name) for name in ("t", "u")}
    nodes = to_physical(optimize(query(text, **tables).plan), before=True).walk()
    columns = {keyed_map(node) for node in nodes} - {None}
    assert {name.rstrip("0123456789") for name in columns} == found
