"""The order of ARRAYs and ROWs: by the first parts that differ, NULL inside being the least."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from pkray.errors import PkrayError
from pkray.relational import from_arrow, query
from tests.unit.relational.expressions import value, values

ASCENDING: list[Any] = [[], [None], [None, 7], [-3], [1], [1, None], [1, 2], [1, 2, 0], [1, 10]]
LISTS = pa.array([ASCENDING[place] for place in (4, 0, 8, 2, 5, 1, 7, 3, 6)], pa.list_(pa.int32()))
ROWS = pa.array(
    [{"p": 1, "q": each} for each in LISTS.to_pylist()] + [{"p": None, "q": [99]}, None],
    pa.struct({"p": pa.int32(), "q": pa.list_(pa.int32())}),
)


def test_arrays_are_compared_by_their_first_elements_that_differ() -> None:
    columns = {
        "x": ("ARRAY<INT>", [*ASCENDING[:-1], None]),
        "y": ("ARRAY<INT>", [*ASCENDING[1:], [1]]),
    }
    for operator, expected in (("<", True), ("<=", True), (">", False), (">=", False)):
        found = values(f"x {operator} y", columns)
        assert found == [*[expected] * (len(ASCENDING) - 1), None]
    assert values("x <= x AND x >= x", columns)[:-1] == [True] * (len(ASCENDING) - 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("struct(1, 'a') < struct(1, 'b')", True),
        ("struct(1, null) <= struct(1, 2)", True),
        ("struct(1, array(1, 2)) >= struct(1, array(1, 2))", True),
        ("struct(double('nan')) > struct(double('inf'))", True),
        ("array(double('-0.0')) < array(double('0.0'))", False),
        ("array('a', 'b') > array('a')", True),
        ("array(1) < cast(null as array<int>)", None),
        ("array(1, 2) BETWEEN array(1) AND array(2)", True),
        ("greatest(array(1, 2), array(1, 3), null)", [1, 3]),
        ("least(array(1, null), array(1, 3))", [1, None]),
        ("greatest(struct(1, 2), struct(2, 1))", {"col1": 2, "col2": 1}),
        ("array_max(array(array(1, 2), array(1, 3), null))", [1, 3]),
        ("sort_array(array(array(2), array(1, 2), array(1)), false)", [[2], [1, 2], [1]]),
    ],
)
def test_nested_values_have_an_order(text: str, expected: Any) -> None:
    assert value(text) == expected


def test_rows_are_sorted_by_arrays() -> None:
    rows = from_arrow(pa.table({"x": LISTS}))
    for order, expected in (("", ASCENDING), ("DESC", ASCENDING[::-1])):
        found = query(f"SELECT x FROM r ORDER BY x {order}", r=rows).to_arrow()
        assert found["x"].to_pylist() == expected


def test_null_fields_are_least_wherever_null_rows_stand() -> None:
    rows = from_arrow(pa.table({"x": ROWS}))
    found = query("SELECT x FROM r ORDER BY x DESC NULLS FIRST", r=rows).to_arrow()["x"].to_pylist()
    assert found == [
        None,
        *({"p": 1, "q": each} for each in ASCENDING[::-1]),
        {"p": None, "q": [99]},
    ]


def test_extremes_of_arrays_and_rows_are_in_groups_and_windows() -> None:
    rows = from_arrow(pa.table({"n": range(len(LISTS)), "x": LISTS, "s": ROWS[: len(LISTS)]}))
    text = "SELECT max(x) a, min(x) b, max(s).q c, max_by(n, x) d, min_by(n, s) e FROM r"
    wanted = {"a": [1, 10], "b": [], "c": [1, 10], "d": 2, "e": 1}
    assert query(text, r=rows).to_arrow().to_pylist() == [wanted]
    text = "SELECT max(x) OVER (ORDER BY n) m, rank() OVER (ORDER BY x) k FROM r ORDER BY n"
    found = query(text, r=rows).to_arrow()
    highest = LISTS.to_pylist()[:1]
    for each in LISTS.to_pylist()[1:]:
        highest.append(max(highest[-1], each, key=ASCENDING.index))
    assert found["m"].to_pylist() == highest
    assert found["k"].to_pylist() == [ASCENDING.index(each) + 1 for each in LISTS.to_pylist()]
    assert all(ASCENDING.index(a) <= ASCENDING.index(b) for a, b in pairwise(highest))


@pytest.mark.parametrize("text", ["map(1, 2) < map(1, 3)", "greatest(map(1, 2), map(1, 3))",
                                  "array(map(1, 2)) < array(map(1, 3))"])  # fmt: skip
def test_maps_have_no_order(text: str) -> None:
    with pytest.raises(PkrayError, match="MAP"):
        value(text)
