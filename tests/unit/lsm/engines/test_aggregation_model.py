"""Random histories of an aggregation table against plain Python."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.unit.lsm.engines.engine_samples import (
    ADD,
    BACK,
    CUTS,
    DELETE,
    aggregation,
    fold,
    histories,
    merge_grouped,
    merged,
    visible,
)

INT32 = st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 3)
LETTERS = st.text("ab,", max_size=3)
NESTED = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), max_size=3)


def wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def skipping_nulls(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(so_far: Any, value: Any) -> Any:
        if so_far is None or value is None:
            return value if so_far is None else so_far
        return combine(so_far, value)

    return apply


ADDS: dict[str, tuple[Any, Any, Callable[[Any, Any], Any]]] = {
    "sum": ("INT", INT32, skipping_nulls(lambda a, b: wrap(a + b))),
    "product": ("INT", INT32, skipping_nulls(lambda a, b: wrap(a * b))),
    "max": ("INT", INT32, skipping_nulls(max)),
    "min": ("STRING", LETTERS, skipping_nulls(min)),
    "last_value": ("STRING", LETTERS, lambda _, b: b),
    "last_non_null_value": ("STRING", LETTERS, lambda a, b: a if b is None else b),
    "first_non_null_value": ("INT", INT32, lambda a, b: b if a is None else a),
    "listagg": ("STRING", LETTERS, skipping_nulls(lambda a, b: f"{a},{b}")),
    "bool_and": ("BOOLEAN", st.booleans(), skipping_nulls(lambda a, b: a and b)),
    "bool_or": ("BOOLEAN", st.booleans(), skipping_nulls(lambda a, b: a or b)),
    "collect": (
        "ARRAY<INT>",
        st.lists(st.none() | st.integers(0, 3), max_size=3),
        skipping_nulls(lambda a, b: [*a, *b]),
    ),
    "merge_map": (
        "MAP<STRING, INT>",
        st.dictionaries(st.sampled_from("xyz"), st.none() | st.integers(0, 9), max_size=2).map(
            lambda found: list(found.items())
        ),
        skipping_nulls(lambda a, b: list({**dict(a), **dict(b)}.items())),
    ),
}


@pytest.mark.parametrize("function", ADDS)
@settings(max_examples=examples(12))
@given(data=st.data())
def test_adds_merge_in_any_grouping(function: str, data: st.DataObject) -> None:
    data_type, values, combine = ADDS[function]
    rows, cuts = data.draw(histories([ADD], st.none() | values)), data.draw(CUTS)
    schema = aggregation({"v": (data_type, function)})
    expected = fold(rows, lambda so_far, _, row: [combine(so_far[0] if so_far else None, row[0])])
    assert visible(merge_grouped(schema, rows, cuts)) == expected


@settings(max_examples=examples(25))
@given(rows=histories([ADD], st.none() | INT32))
def test_first_value_keeps_a_leading_null(rows: list) -> None:
    schema = aggregation({"v": ("INT", "first_value")})
    assert visible(merge_grouped(schema, rows, [3, 5])) == fold(
        rows, lambda so_far, _, row: so_far or row
    )


@settings(max_examples=examples(30))
@given(rows=histories([ADD, ADD, BACK, DELETE], st.none() | INT32), cuts=CUTS)
def test_sums_with_retraction_merge_in_any_grouping(rows: list, cuts: list[int]) -> None:
    schema = aggregation({"v": ("INT", "sum")})

    def step(so_far: Any, kind: int, row: tuple[Any, ...]) -> list[Any]:
        (value,) = row
        total = so_far[0] if so_far else None
        if value is None:
            return [total]
        signed = value if kind == ADD else -value
        return [wrap(signed if total is None else total + signed)]

    assert visible(merge_grouped(schema, rows, cuts)) == fold(rows, step)


def remove_first(held: list[Any], gone: list[Any]) -> list[Any]:
    left = list(held)
    for value in gone:
        if value in left:
            left.remove(value)
    return left


@settings(max_examples=examples(30))
@given(
    rows=histories([ADD, ADD, BACK], st.none() | st.lists(st.integers(0, 2), max_size=3), keys=2)
)
def test_collect_takes_back_the_first_equal_element(rows: list) -> None:
    schema = aggregation({"v": ("ARRAY<INT>", "collect")})

    def step(so_far: Any, kind: int, row: tuple[Any, ...]) -> list[Any]:
        held, value = so_far[0] if so_far else None, row[0]
        if kind == BACK:
            return [held if held is None or value is None else remove_first(held, value)]
        return [ADDS["collect"][2](held, value)]

    assert merged(schema, rows) == fold(rows, step)


@settings(max_examples=examples(30))
@given(rows=histories([ADD, ADD, BACK], st.none() | NESTED, keys=2), keyed=st.booleans())
def test_nested_tables_are_updated_and_taken_back(rows: list, keyed: bool) -> None:
    options = {"fields.v.nested-key": "id"} if keyed else {}
    schema = aggregation({"v": ("ARRAY<ROW<id INT, x INT>>", "nested_update")}, **options)

    def of_row(value: tuple[int, int]) -> dict[str, int]:
        return {"id": value[0], "x": value[1]}

    def step(so_far: Any, kind: int, row: tuple[Any, ...]) -> list[Any]:
        held, value = so_far[0] if so_far else None, row[0]
        if value is None or (held is None and kind == BACK):
            return [held]
        if held is None:
            return [value]
        both = [*held, *value] if kind == ADD else held
        if keyed:
            both = list({item[0]: item for item in both}.values())
        if kind == ADD:
            return [both]
        gone = {item[0] for item in value} if keyed else set(value)
        return [[item for item in both if (item[0] if keyed else item) not in gone]]

    def shown(found: dict) -> dict:
        return {
            key: None if value is None else sorted(map(sorted_items, value))
            for key, (value,) in found.items()
        }

    def sorted_items(item: Any) -> tuple[int, int]:
        return (item["id"], item["x"]) if isinstance(item, dict) else item

    typed = [
        (kind, (key, None if value is None else [of_row(item) for item in value]))
        for kind, (key, value) in rows
    ]
    singles = {key for _, (key, _) in rows}
    several = {key for key in singles if sum(row[1][0] == key for row in rows) > 1}
    found = shown(merged(schema, typed))
    expected = shown(fold(rows, step))
    assert {key: found[key] for key in found if key in several} == {
        key: expected[key] for key in expected if key in several
    }
