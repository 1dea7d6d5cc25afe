"""Changes in memory and the content that they leave."""

import random
from collections import Counter

import pyarrow as pa
import pytest

from pkray.errors import InputError, OptionError, QueryError, SchemaError
from pkray.relational import changelog


def rows(relation):
    return [tuple(row.values()) for row in relation.to_arrow().to_pylist()]


def push(relation, *changes):
    names = relation.columns
    for kind, *values in changes:
        relation.push([{"_row_kind": kind, **dict(zip(names, values, strict=True))}])


def test_without_kinds_rows_are_inserted():
    source = changelog([("a", "INT"), ("b", "STRING")])
    source.push({"a": [1, 1], "b": ["x", "x"]})
    source.push([])
    assert rows(source) == [(1, "x"), (1, "x")]


def test_a_retraction_takes_one_equal_row_away():
    source = changelog([("a", "INT"), ("b", "STRING")], mode="all")
    push(source, ("+I", 1, None), ("+I", 1, None), ("-D", 1, None), ("-U", 2, "y"), ("+U", 2, "z"))
    assert rows(source) == [(1, None), (2, "z")]


def test_retractions_of_unknown_rows_leave_later_ones():
    source = changelog([("a", "INT")], mode="all")
    push(source, ("-D", 1), ("-D", 1), ("+I", 1))
    assert rows(source) == [(1,)]


def test_an_upsert_changelog_holds_the_newest_row_of_each_key():
    source = changelog([("k", "STRING"), ("v", "INT")], ["k"], "upsert")
    push(
        source, ("+I", "a", 1), ("+U", "b", 2), ("+U", "a", 3), ("-D", "b", None), ("-D", "c", None)
    )
    assert rows(source) == [("a", 3)]
    assert source.schema.field("k").nullable is False


def test_its_content_is_as_counting_says():
    chance = random.Random(7)
    source = changelog([("a", "INT"), ("b", "DOUBLE")], mode="all")
    left: Counter[tuple[int | None, float | None]] = Counter()
    for _ in range(20):
        changes = [
            (
                chance.choice(["+I", "-D", "+U", "-U"]),
                chance.choice([1, 2, None]),
                chance.choice([0.5, None]),
            )
            for _ in range(10)
        ]
        for kind, *row in changes:
            if kind[0] == "+":
                left[tuple(row)] += 1
            elif left[tuple(row)]:
                left[tuple(row)] -= 1
        columns = zip(*changes, strict=True)
        source.push(dict(zip(["_row_kind", "a", "b"], map(list, columns), strict=True)))
        assert Counter(rows(source)) == +left


def test_nested_rows_are_compared_as_wholes():
    source = changelog([("a", "ARRAY<INT>")], mode="all")
    push(source, ("+I", [1, 2]), ("+I", [1]), ("-D", [1, 2]))
    assert rows(source) == [([1],)]


@pytest.mark.parametrize(
    ("mode", "kind"), [("insert", "-D"), ("insert", "+U"), ("upsert", "-U"), ("all", "?")]
)
def test_kinds_that_a_mode_has_not_are_refused(mode, kind):
    source = changelog([("a", "INT")], ["a"], mode)
    with pytest.raises(InputError, match="_row_kind"):
        push(source, (kind, 1))
    assert rows(source) == []


def test_what_does_not_fit_is_refused():
    source = changelog([("a", "INT")])
    with pytest.raises(InputError, match="'a'"):
        source.push({"a": ["text"]})
    with pytest.raises(InputError, match="'b'"):
        source.push({"a": [1], "b": [2]})
    source.finish()
    with pytest.raises(InputError, match="finished"):
        source.push({"a": [1]})


def test_definitions_that_cannot_be_are_refused():
    with pytest.raises(OptionError, match="primary_key"):
        changelog([("a", "INT")], mode="upsert")
    with pytest.raises(OptionError, match="mode"):
        changelog([("a", "INT")], mode="retract")
    with pytest.raises(SchemaError, match="'b'"):
        changelog([("a", "INT")], ["b"])
    with pytest.raises(QueryError, match="TIMESTAMP"):
        changelog([("a", "INT")], watermark="a")
    with pytest.raises(QueryError, match="did you mean ts"):
        changelog(pa.schema([("ts", pa.timestamp("ms"))]), watermark=("tz", "tz"))


def test_a_watermark_marks_its_column():
    source = changelog([("ts", "TIMESTAMP(3)")], watermark=("ts", "ts - INTERVAL '5' SECOND"))
    assert str(source.fields["ts"]) == "ts TIMESTAMP(3) *ROWTIME*"
    assert source.describe()["watermark"].to_pylist() == ["ts - INTERVAL '5' SECOND"]
