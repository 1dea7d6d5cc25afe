"""Random histories of a partial-update table against plain Python."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.errors import MergeError
from pkray.schema.table_schema import KIND
from tests.effort import examples
from tests.unit.lsm.engines.engine_samples import (
    ADD,
    BACK,
    CUTS,
    DELETE,
    batch,
    fold,
    histories,
    in_sequence,
    merge,
    merge_grouped,
    merged,
    partial_update,
    visible,
)

SMALL = st.none() | st.integers(0, 5)
COLUMNS = [
    *(("a", "INT"), ("g", "INT"), ("b", "INT")),
    *(("h1", "BIGINT"), ("h2", "STRING"), ("c", "STRING")),
]
GROUPS = {"fields.g.sequence-group": "a", "fields.h1,h2.sequence-group": "c"}


@settings(max_examples=examples(20))
@given(rows=histories([ADD], SMALL, SMALL), cuts=CUTS)
def test_values_that_are_not_null_overwrite(rows: list, cuts: list[int]) -> None:
    schema = partial_update([("a", "INT"), ("b", "INT")])
    expected = fold(
        rows,
        lambda so_far, _, row: [
            old if new is None else new for old, new in zip(so_far or [None] * 2, row, strict=True)
        ],
    )
    assert visible(merge_grouped(schema, rows, cuts)) == expected


def null_first(values: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(value is not None, value or ("" if isinstance(value, str) else 0)) for value in values]


def in_groups(sums: bool) -> Callable[[Any, int, tuple[Any, ...]], list[Any]]:
    def step(so_far: Any, kind: int, row: tuple[Any, ...]) -> list[Any]:
        a, g, b, h1, h2, c = row
        held = list(so_far) if so_far else [None] * 6
        add = kind == ADD
        if g is not None:
            newer = null_first((g,)) >= null_first((held[1],))
            if sums:
                if a is not None:
                    signed = a if add else -a
                    held[0] = signed if held[0] is None else held[0] + signed
            elif newer:
                held[0] = a if add else None
            if newer:
                held[1] = g
        if add and b is not None:
            held[2] = b
        if (h1, h2) != (None, None) and null_first((h1, h2)) >= null_first((held[3], held[4])):
            held[3], held[4], held[5] = h1, h2, c if add else None
        return held

    return step


@pytest.mark.parametrize("sums", [False, True])
@settings(max_examples=examples(25))
@given(
    rows=histories(
        [ADD, ADD, BACK, DELETE],
        *(SMALL, SMALL, SMALL),
        st.sampled_from([None, -(2**62), 0, 2**62]),
        st.sampled_from([None, "", "a", "b"]),
        st.sampled_from([None, "x", "y"]),
    ),
    cuts=CUTS,
)
def test_groups_follow_their_own_sequence(sums: bool, rows: list, cuts: list[int]) -> None:
    options = {"fields.a.aggregate-function": "sum"} if sums else {}
    schema = partial_update(COLUMNS, **GROUPS, **options)
    assert visible(merge_grouped(schema, rows, cuts)) == fold(rows, in_groups(sums))


def test_late_rows_go_before_what_is_there() -> None:
    rows = [(ADD, (1, seq, text)) for seq, text in [(5, "a"), (3, "b"), (6, "c"), (4, "d")]]
    assert merged(in_sequence("STRING", "listagg"), rows) == {1: (6, "d,b,a,c")}


@pytest.mark.parametrize(
    ("function", "sequences", "values", "expected"),
    [
        ("first_value", "5 3 6 4", "abcd", "d"),
        ("first_value", "5 3 6", " bc", "b"),
        ("first_value", "-9 5", "ab", None),
        ("first_value", "-9 5 4 10", "abcd", "c"),
        ("first_non_null_value", "5 6 7", " bc", "b"),
        ("first_non_null_value", "5 3 6", "a c", None),
        ("first_non_null_value", "-9 5", "ab", "b"),
        ("first_non_null_value", "5 3 6", " bc", "c"),
        ("first_non_null_value", "5 3 4 6", " bcd", "b"),
        ("first_non_null_value", "5 3 4 6 2", " bcde", "e"),
    ],
)
def test_late_rows_replace_a_first_value(
    function: str, sequences: str, values: str, expected: str | None
) -> None:
    """A minus is a row that takes back, which the function ignores."""
    schema = in_sequence("STRING", function, ignore_retract="true")
    rows = [
        (BACK if seq < 0 else ADD, (1, abs(seq), None if value == " " else value))
        for seq, value in zip(map(int, sequences.split()), values, strict=True)
    ]
    assert merged(schema, rows)[1][1] == expected


TABLE = "ARRAY<ROW<id INT, x STRING>>"


def table(*rows: tuple[int, str]) -> list[dict[str, Any]]:
    return [{"id": number, "x": text} for number, text in rows]


@pytest.mark.parametrize(
    ("function", "keyed", "kind", "values", "expected"),
    [
        ("last_non_null_value", False, "STRING", ["a", None, "b"], "a"),
        ("last_non_null_value", False, "STRING", ["a", "x", "b"], "b"),
        (
            "merge_map",
            False,
            "MAP<INT, STRING>",
            [{1: "a", 2: "a"}, {2: "x"}, {1: "b", 2: "b", 3: "b"}],
            [(1, "a"), (2, "b"), (3, "b")],
        ),
        (
            "nested_update",
            True,
            TABLE,
            [table((1, "a"), (2, "a")), table((2, "x")), table((1, "b"), (2, "c"), (2, "b"))],
            table((1, "a"), (2, "b")),
        ),
        (
            "nested_update",
            False,
            TABLE,
            [table((1, "a"), (2, "a")), table((2, "a")), table((2, "a"), (3, "b"))],
            table((2, "a"), (3, "b"), (1, "a")),
        ),
    ],
)
def test_a_late_row_goes_before_what_an_older_one_left(
    function: str, keyed: bool, kind: str, values: list[Any], expected: Any
) -> None:
    schema = in_sequence(kind, function, **({"nested_key": "id"} if keyed else {}))
    values = [list(value.items()) if isinstance(value, dict) else value for value in values]
    first, back, late = values
    rows = [(ADD, (1, 9, first)), (BACK, (1, 5, back)), (ADD, (1, 7, late))]
    found = merged(schema, rows)[1][1]
    assert (sorted(found, key=str) if keyed or function == "merge_map" else found) == expected


def test_a_late_nested_table_moves_no_row() -> None:
    schema = in_sequence(TABLE, "nested_update", nested_key="id")
    held = table((1, "a"), (2, "a"), (3, "a"))
    rows = [(ADD, (1, 9, held)), (ADD, (1, 7, table((3, "b"), (2, "b"))))]
    assert merged(schema, rows) == {1: (9, held)}


def test_collect_takes_late_rows_last_unless_it_ignores_what_takes_back() -> None:
    rows = [(ADD, (1, seq, [text])) for seq, text in [(5, "a"), (3, "b"), (6, "c"), (4, "d")]]
    for ignores, expected in [("false", "abcd"), ("true", "dbac")]:
        schema = in_sequence("ARRAY<STRING>", "collect", ignore_retract=ignores)
        assert merged(schema, rows) == {1: (6, list(expected))}


def test_a_single_row_without_sequence_is_emptied_only_if_always_merged() -> None:
    schema = partial_update(COLUMNS, **GROUPS)
    rows = [(ADD, (1, 7, None, 2, None, None, "x"))]
    assert merged(schema, rows) == {1: (7, None, 2, None, None, "x")}
    assert merged(schema, rows, always=True) == {1: (None, None, 2, None, None, None)}


def test_deletes_are_refused_by_default() -> None:
    schema = partial_update([("a", "INT")])
    rows = batch(schema, [(ADD, (1, 1)), (DELETE, (1, None))])
    with pytest.raises(MergeError, match="ignore-delete"):
        merge(schema, rows)
    assert merge(schema, rows.slice(1)).column(KIND).to_pylist() == [DELETE]


def test_delete_removes_the_row_where_told_to() -> None:
    removes = {"partial-update.remove-record-on-delete": "true"}
    schema = partial_update([("a", "INT"), ("b", "INT")], **removes)
    rows = [
        *((ADD, (1, 1, 1)), (DELETE, (1, None, None))),
        *((ADD, (2, 1, 1)), (DELETE, (2, None, None)), (ADD, (2, None, 5))),
        *((ADD, (3, 1, 1)), (BACK, (3, 9, 9))),
        (BACK, (4, 9, 9)),
    ]
    for always in (False, True):
        assert merged(schema, rows, always=always) == {2: (None, 5), 3: (1, 1)}
