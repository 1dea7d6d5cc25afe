"""Functions that people of other databases look for: formats, URLs, lists in text, checks."""

from decimal import Decimal
from typing import Any

import pytest

from pkray.errors import EvaluationError, QueryError, UnsupportedError
from tests.unit.relational.expressions import FLINK, bound, fields, value

WIDE = "12345678901234567890.123456789012345678"
DIGITS = "99999999999999999999.999999999999999999"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("format_string('%s-%05d|%-3s|%3s', 'a', -12, 'b', 'c')", "a--0012|b  |  c"),
        ("format_string('%.2f%%', 1.005)", "1.01%"),
        ("format_string('%.0f %.1f %.1f', -0.2D, -0.01D, -2.5D)", "-0 -0.0 -2.5"),
        ("format_string('%x %.2f', -1, CAST(NULL AS DOUBLE))", "ffffffff nu"),
        ("format_string('%s %d', CAST(NULL AS STRING), CAST(NULL AS INT))", "null null"),
        ("to_char(1234.5, '999,999.99')", "  1,234.50"),
        ("to_char(-5, 'S099')", "-005"),
        ("to_char(0.5, '99.9')", " 0.5"),
        ("to_char(123, '99')", "##"),
        ("to_char(-5, '$99PR')", " <$5>"),
        ("to_char(TIMESTAMP_NTZ '2020-02-29 12:30:00', 'yyyy/MM')", "2020/02"),
        ("to_number('-1,234.5', 'S9,999.9')", Decimal("-1234.5")),
        ("try_to_number('12x', '999')", None),
        (f"to_char({WIDE}, '{DIGITS}')", WIDE),
        (f"to_number('-{WIDE}', 'S{DIGITS}')", Decimal(f"-{WIDE}")),
        (f"from_json('{{\"a\":{WIDE}}}', 'a DECIMAL(38, 18)').a", Decimal(WIDE)),
        ("url_encode('a b&é')", "a+b%26%C3%A9"),
        ("url_decode('a+b%26')", "a b&"),
        ("try_url_decode('%zz')", None),
        ("parse_url('http://u@h.com:8/p?x=1&y=2#r', 'HOST')", "h.com"),
        ("parse_url('http://h/p?x=1&y=2', 'QUERY', 'y')", "2"),
        ("try_parse_url('no url', 'HOST')", None),
        ("find_in_set('b', 'a,b')", 2),
        ("elt(2, 'a', 'b')", "b"),
        ("soundex('Ashcraft')", "A261"),
        ("regexp_substr('abc', 'b.')", "bc"),
        ("regexp_instr('éab', 'a')", 2),
        ("regexp_extract_all('a1b2', '([a-z])(\\\\d)', 2)", ["1", "2"]),
        ("concat_ws('-', 'a', array('b', NULL), NULL, 1)", "a-b-1"),
        ("CAST(array(1, NULL) AS STRING)", "[1, null]"),
        ("CAST(struct('a', map(1, 2.0D)) AS STRING)", "{a, {1 -> 2.0}}"),
        ("CAST(make_date(12345, 1, 2) AS STRING)", "+12345-01-02"),
        ("CAST(array(make_date(12345, 1, 2)) AS STRING)", "[+12345-01-02]"),
        ("to_json(struct(make_date(12345, 1, 2) AS d))", '{"d":"12345-01-02"}'),
        ("make_date(12345, 1, 2) IN (DATE '+12345-01-02', DATE '2020-01-01')", True),
        ("typeof(array(1.5))", "array<decimal(2,1)>"),
        ("try_add(2147483647, 1)", None),
        ("try_divide(1, 0)", None),
        ("try_mod(7, 4)", 3),
        ("try_multiply(9223372036854775807, 2)", None),
        ("-1 >>> 28", 15),
        ("ceil(1.21, 1)", Decimal("1.3")),
        ("floor(-15, -1)", Decimal(-20)),
        ("'abcc' SIMILAR TO 'a(b|x)[c-d]{2}'", True),
        ("'a%' SIMILAR TO 'a#%' ESCAPE '#'", True),
        ("'ab' SIMILAR TO 'a'", False),
    ],
)  # fmt: skip
def test_a_function_gives_its_value(call: str, expected: Any) -> None:
    assert value(call) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("SPLIT_INDEX('a||b', '||', 1)", "b"),
        ("SPLIT_INDEX('a,b', ',', 2)", None),
        ("SPLIT_INDEX('a,b', ',', -1)", None),
        ("SPLIT_INDEX('', ',', 0)", None),
        ("ELEMENT(ARRAY[7])", 7),
        ("TYPEOF(1)", "INT NOT NULL"),
        ("TYPEOF(SIGN(-7))", "INT NOT NULL"),
        ("SIGN(-7)", -1),
        ("TO_BASE64('a b')", "YSBi"),
        ("FROM_BASE64('YSBi')", "a b"),
        ("SIGN(CAST(-2.5 AS DECIMAL(5, 2)))", Decimal("-1.00")),
        ("SIGN(CAST(0.5 AS DOUBLE))", 1.0),
    ],
)
def test_a_function_of_flink_gives_its_value(call: str, expected: Any) -> None:
    assert value(call, dialect=FLINK) == expected


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("raise_error('stop here')", "stop here"),
        ("assert_true(1 > 2)", "is not true"),
        ("to_number('x', '9')", "try_to_number gives NULL"),
        ("url_decode('%z')", "try_url_decode gives NULL"),
        ("parse_url('no url', 'HOST')", "try_parse_url gives NULL"),
        ("elt(3, 'a')", "no such element"),
        ("sequence(DATE '2020-01-02', DATE '2020-01-01', INTERVAL 1 DAY)", "never reaches its end"),
    ],
)
def test_a_value_that_cannot_be_computed_is_said(call: str, words: str) -> None:
    with pytest.raises(EvaluationError, match=words):
        value(call)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        ("to_char(1, 'abc')", QueryError, "is no format of to_char"),
        ("format_string('%d', 'a')", QueryError, "takes an integer, not STRING"),
        ("format_string('%d')", QueryError, "has no value for %d"),
        ("format_string('%t', 1.0)", QueryError, "write date_format"),
        ("concat_ws(',', map(1, 2), array('a'))", QueryError, "argument 2 of concat_ws is MAP"),
        ("sequence(1, DATE '2020-01-01')", QueryError, "no type in common"),
    ],
)
def test_arguments_that_it_does_not_take_are_refused(
    call: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        bound(call, fields(x="STRING"))


@pytest.mark.parametrize("call", ["HASH_CODE('a')", "CAST(ARRAY[1] AS STRING)"])
def test_what_the_flink_dialect_does_not_offer_is_refused_by_name(call: str) -> None:
    with pytest.raises(UnsupportedError, match=r"write hash|use to_json"):
        bound(call, fields(x="STRING"), FLINK)


def test_sequences_count_days_months_and_hours() -> None:
    months = value("sequence(DATE '2020-01-31', DATE '2020-04-30', INTERVAL 1 MONTH)")
    assert [str(each) for each in months] == [
        "2020-01-31",
        "2020-02-29",
        "2020-03-31",
        "2020-04-30",
    ]
    days = value("sequence(DATE '2020-01-02', DATE '2020-01-01')")
    assert [str(each) for each in days] == ["2020-01-02", "2020-01-01"]
    hours = value(
        "sequence(TIMESTAMP_NTZ '2020-01-01 22:00:00', TIMESTAMP_NTZ '2020-01-02 03:00:00', "
        "INTERVAL 2 HOURS)"
    )
    assert [each.hour for each in hours] == [22, 0, 2]


def test_flink_extracts_all_that_matches_by_default_and_null_where_nothing_does() -> None:
    assert value("REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)')", FLINK) == "foothebar"
    assert value("REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)', 2)", FLINK) == "bar"
    assert value("REGEXP_EXTRACT('abc', 'z')", FLINK) is None
    assert value("REGEXP_SUBSTR('abc', 'z')", FLINK) is None


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("regexp_extract('abc', 'z')", ""),
        ("regexp_extract('abc', 'z', 5)", ""),
        ("regexp_extract_all('abc', 'z', 5)", []),
        ("regexp_replace('a1b2', '([a-z])([0-9])', '$2$1')", "1a2b"),
        ("regexp_replace('ab', '(?<x>a)', '[${x}$0\\\\$1]')", "[aa$1]b"),
        ("regexp_replace('a', '(a)', '$10')", "a0"),
        ("regexp_replace('aaa', 'a', 'b', 2)", "abb"),
        ("regexp_replace('aaa', '^a', 'b', 3)", "aab"),
        ("regexp_replace('aaa', 'x*', 'b', 9)", "aaa"),
        ("regexp_substr('ab', 'x*')", None),
        ("regexp_count('', 'x*')", 1),
        ("split('a,b,,', ',', 0)", ["a", "b", "", ""]),
        ("str_to_map('a1b22c', '[0-9]+', 'x*')", [("a", ""), ("b", ""), ("c", "")]),
    ],
)
def test_regular_expressions_are_javas(call: str, expected: Any) -> None:
    assert value(call) == expected
