"""Functions of text: values, NULLs, characters of several bytes, empty text."""

import re
from decimal import Decimal
from typing import Any

import pytest

from pkray.errors import EvaluationError, QueryError
from tests.unit.relational.expressions import FLINK, bound, over_rows, value, values


@pytest.mark.parametrize(
    ("call", "given", "expected"),
    [
        ("upper(x)", "straße é", "STRASSE É"),
        ("lower(x)", "ÀB", "àb"),
        ("initcap(x)", "ßa über", "Ssa Über"),
        ("initcap(x)", "hello wORLD a-b", "Hello World A-b"),
        ("length(x)", "aé😀", 3),
        ("octet_length(x)", "aé😀", 7),
        ("bit_length(x)", "a", 8),
        ("reverse(x)", "aé😀", "😀éa"),
        ("reverse(array(x, 'b'))", "a", ["b", "a"]),
        ("conv(x, 36, 10)", " ", None),
        ("conv(x, 10, 16)", "-9223372036854775808", "FFFFFFFFFFFFFFFF"),
        ("cast(greatest(-0.0D, 0.0D) AS STRING)", "", "-0.0"),
        ("cast(least(0.0D, -0.0D) AS STRING)", "", "0.0"),
        ("trim(x)", "  a\t ", "a\t"),
        ("ltrim(x)", "  a ", "a "),
        ("rtrim(x)", "  a ", "  a"),
        ("TRIM(BOTH 'xy' FROM x)", "xyaxyx", "a"),
        ("TRIM(LEADING 'x' FROM x)", "xax", "ax"),
        ("ltrim('x', x)", "xax", "ax"),
        ("lpad(x, 5, 'é-')", "ab", "é-éab"),
        ("lpad(x, 1, '-')", "ab", "a"),
        ("rpad(x, 4)", "ab", "ab  "),
        ("rpad(x, 4, '')", "ab", "ab"),
        ("rpad(x, -1, '-')", "ab", ""),
        ("substring(x, 2)", "aéb", "éb"),
        ("substring(x, 2, 1)", "aéb", "é"),
        ("substring(x, 0, 2)", "aéb", "aé"),
        ("substring(x, -2)", "aéb", "éb"),
        ("substring(x, -2, 1)", "aéb", "é"),
        ("substring(x, -5, 3)", "abc", "a"),
        ("substring(x, 9)", "abc", ""),
        ("substring(x, 2, -1)", "abc", ""),
        ("SUBSTRING(x FROM 2 FOR 2)", "abcd", "bc"),
        ("left(x, 2)", "éab", "éa"),
        ("left(x, -1)", "ab", ""),
        ("right(x, 2)", "éab", "ab"),
        ("right(x, 9)", "éab", "éab"),
        ("right(x, 0)", "éab", ""),
        ("OVERLAY(x PLACING '_' FROM 6)", "SparkSQL", "Spark_QL"),
        ("OVERLAY(x PLACING 'ANSI ' FROM 7 FOR 0)", "SparkSQL", "SparkSANSI QL"),
        ("x || '-' || x", "a", "a-a"),
        ("concat(x, 1, true)", "a", "a1true"),
        ("repeat(x, 2)", "ab", "abab"),
        ("repeat(x, -1)", "ab", ""),
        ("locate('b', x)", "éab", 3),
        ("locate('z', x)", "éab", 0),
        ("locate('', x)", "éab", 1),
        ("locate('a', x, 2)", "aba", 3),
        ("locate('a', x, 0)", "aba", 0),
        ("locate('a', x, NULL)", "aba", 0),
        ("locate(x, NULL, NULL)", "aba", 0),
        ("locate('', nullif(x, 'a'), 1)", "a", None),
        ("locate('', x, 3)", "aba", 1),
        ("locate('a', x, 9)", "aba", 0),
        ("POSITION('b' IN x)", "ab", 2),
        ("instr(x, 'b')", "ab", 2),
        ("contains(x, 'b')", "ab", True),
        ("startswith(x, '')", "ab", True),
        ("endswith(x, 'a')", "ab", False),
        ("replace(x, 'ab', 'c')", "abab", "cc"),
        ("replace(x, 'a')", "aba", "b"),
        ("replace(x, '', 'c')", "ab", "ab"),
        ("translate(x, 'abc', 'bc')", "abcd", "bcd"),
        ("translate(x, 'é', 'e')", "éa", "ea"),
        ("split(x, ',')", "a,,b,", ["a", "", "b", ""]),
        ("split(x, '[0-9]+')", "a1b22c", ["a", "b", "c"]),
        ("split(x, ',', 2)", "a,b,c", ["a", "b,c"]),
        ("split(x, '')", "aé", ["a", "é"]),
        ("split(x, '')", "", [""]),
        ("split_part(x, ',', 2)", "a,b", "b"),
        ("split_part(x, ',', -1)", "a,b", "b"),
        ("split_part(x, ',', 3)", "a,b", ""),
        ("split_part(x, '', 1)", "a,b", "a,b"),
        ("substring_index(x, '.', 2)", "a.b.c", "a.b"),
        ("substring_index(x, '.', -2)", "a.b.c", "b.c"),
        ("substring_index(x, '.', 0)", "a.b.c", ""),
        (r"regexp_extract(x, '(\\d+)-(\\d+)', 2)", "a 10-20", "20"),
        (r"regexp_extract(x, '(\\d+)-(\\d+)')", "a 10-20", "10"),
        (r"regexp_extract(x, '(?:a|b)[(](x)?\\d', 0)", "a(1", "a(1"),
        (r"regexp_extract(x, '(z)?a')", "a", ""),
        ("regexp_extract(x, '(z)')", "a", ""),
        (r"regexp_replace(x, '(\\w)(\\d)', '$2$1\\$')", "a1b2", "1a$2b$"),
        ("regexp_count(x, 'a.')", "abac", 2),
        ("ascii(x)", "é", 233),
        ("ascii(x)", "", 0),
        ("hex(x)", "Aé", "41C3A9"),
        ("unhex(x)", "41c3A9", "Aé".encode()),
        ("unhex(x)", "1", b"\x01"),
        ("unhex(x)", "4G", None),
        ("base64(x)", "Spark", "U3Bhcms="),
        ("base64(x)", "", ""),
        ("unbase64(x)", "U3Bh cms=", b"Spark"),
        ("encode(x, 'UTF-8')", "é", "é".encode()),
        ("decode(encode(x, 'UTF-8'), 'UTF-8')", "é", "é"),
        ("levenshtein(x, 'sitting')", "kitten", 3),
        ("levenshtein(x, '')", "kitten", 6),
    ],
)
def test_functions_of_text(call: str, given: str, expected: Any) -> None:
    assert over_rows(call, "STRING", given) == expected


@pytest.mark.parametrize(
    ("call", "columns", "expected"),
    [
        ("substring(x, n, m)", {"x": ["aéb", "aéb", "abc", None, "ab"], "n": [2, -2, 0, 1, None],
                                "m": [1, 2, 2, 1, 1]}, ["é", "éb", "ab", None, None]),
        ("left(x, n)", {"x": ["éab", "ab", None], "n": [1, None, 1]}, ["é", None, None]),
        ("lpad(x, n, y)", {"x": ["a", "bcd", "e"], "n": [3, 2, None], "y": ["xy", "-", "-"]},
         ["xya", "bc", None]),
        ("repeat(x, n)", {"x": ["a", "b", None], "n": [2, None, 1]}, ["aa", None, None]),
        ("locate(y, x)", {"x": ["éa", "ab", None], "y": ["a", None, "a"]}, [2, None, None]),
        ("contains(x, y)", {"x": ["éa", "ab", None], "y": ["a", "z", "a"]}, [True, False, None]),
        ("startswith(x, y)", {"x": ["éa", "ab", "a"], "y": ["é", "b", None]},
         [True, False, None]),
        ("endswith(x, y)", {"x": ["aé", "ab", "a"], "y": ["é", "aab", ""]}, [True, False, True]),
        ("replace(x, y, 'z')", {"x": ["aa", "ab", "b"], "y": ["a", "b", None]},
         ["zz", "az", None]),
        ("split_part(x, ',', n)", {"x": ["a,b", "a,b", None, "c"], "n": [2, -2, None, 5]},
         ["b", "a", None, ""]),
        ("concat_ws(y, x, 'z')", {"x": ["a", None, "b"], "y": ["-", "-", None]},
         ["a-z", "z", None]),
        ("concat_ws('-', x, y)", {"x": ["a", None, None], "y": [None, None, "b"]}, ["a", "", "b"]),
        ("x RLIKE y", {"x": ["ab", "ab", "b"], "y": ["^a", "^b", None]}, [True, False, None]),
        ("regexp_replace(x, y, '-')", {"x": ["ab", "ab"], "y": ["a", "b"]}, ["-b", "a-"]),
        ("levenshtein(x, y)", {"x": ["ab", "", None, "é"], "y": ["b", "abc", "a", "é"]},
         [1, 3, None, 0]),
    ],
)  # fmt: skip
def test_each_row_has_its_own_arguments(
    call: str, columns: dict[str, list[Any]], expected: list[Any]
) -> None:
    types = {"x": "STRING", "y": "STRING", "n": "INT", "m": "INT"}
    assert values(call, {name: (types[name], some) for name, some in columns.items()}) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("space(3)", "   "),
        ("chr(65)", "A"),
        ("chr(321)", "A"),
        ("chr(-1)", ""),
        ("hex(255)", "FF"),
        ("hex(X'0aff')", "0AFF"),
        ("concat(X'01', X'02')", b"\x01\x02"),
        ("substring(X'010203', 2)", b"\x02\x03"),
        ("length(X'0102')", 2),
        ("concat_ws(',', 'a', NULL, 'b')", "a,b"),
        ("concat('a', NULL)", None),
        ("concat_ws(',', NULL, NULL)", ""),
        ("unbase64('Y#Q==')", b"a"),
        ("'it''s' || \"a\"\"b\" || \"'\" || '' || ''''", "it'sa\"b''"),
    ],
)
def test_functions_of_constants(call: str, expected: Any) -> None:
    assert value(call) == expected


@pytest.mark.parametrize(
    ("call", "said", "given", "expected"),
    [
        ("format_number(x, 2)", "DOUBLE", 1234567.891, "1,234,567.89"),
        ("format_number(x, 0)", "INT", -1000, "-1,000"),
        ("format_number(x, 2)", "DOUBLE", 2.675, "2.67"),
        ("format_number(x, 0)", "DECIMAL(4, 2)", Decimal("-0.40"), "-0"),
        ("format_number(x, 2)", "DOUBLE", float("nan"), "NaN"),
        ("format_number(x, 1)", "DECIMAL(10, 2)", Decimal("999.25"), "999.2"),
    ],
)
def test_numbers_with_commas(call: str, said: str, given: Any, expected: str) -> None:
    assert over_rows(call, said, given) == expected


def test_flink_writes_booleans_in_capitals_and_timestamps_with_all_digits() -> None:
    assert value("CAST(TRUE AS STRING)", FLINK) == "TRUE"
    text = "CAST(CAST('2020-01-01 10:00:00.5' AS TIMESTAMP(3)) AS STRING)"
    assert value(text, FLINK) == "2020-01-01 10:00:00.500"
    assert value(text.replace("(3)", "(0)"), FLINK) == "2020-01-01 10:00:00"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("split_part(x, ',', 0)", "no part 0"),
        ("conv(concat('99999999999999999999', left(x, 0)), 10, 16)", "overflows 64 bits"),
        ("regexp_extract(x, '(a)', 3)", "there is no group 3"),
        ("regexp_replace(x, 'a', '$1')", r"\$1 names no group"),
        ("regexp_replace(x, 'a', 'x$')", "before no number"),
        ("regexp_replace(x, 'a', 'x', 0)", "the first is 1"),
        ("regexp_extract(x, '(a*)*', 1)", "repeats what may be empty"),
        ("unbase64(left(x, 1))", "not written in base 64"),
    ],
)
def test_what_cannot_be_computed_is_an_error(call: str, said: str) -> None:
    with pytest.raises(EvaluationError, match=said):
        values(call, {"x": ("STRING", ["a,b"])})


@pytest.mark.parametrize(
    "call",
    [
        "x LIKE y",
        "x ILIKE y",
        "x SIMILAR TO y",
        "x RLIKE y",
        "regexp_count(x, y)",
        "regexp_replace(x, y, '')",
        "split(x, y)",
        "split_part(x, y, 0)",
        "split_part(x, ',', 0)",
    ],
)
def test_nothing_is_computed_beside_a_null(call: str) -> None:
    columns = {"x": ("STRING", [None, None]), "y": ("STRING", ["(\\", None])}
    assert values(call, columns) == [None, None]
    null = re.sub(r"\bx\b", "CAST(NULL AS STRING)", call)
    assert values(null, columns) == [None, None]


def test_only_known_charsets_are_taken() -> None:
    with pytest.raises(QueryError, match="UTF-16LE"):
        bound("encode('a', 'windows-1252')")


def test_format_number_takes_a_constant() -> None:
    with pytest.raises(QueryError, match="constant"):
        bound("format_number(1.5, length('a'))")


def test_slices_of_text_with_an_offset_and_nulls_are_right() -> None:
    import numpy as np
    import pyarrow as pa

    from pkray.relational.functions.text.slices import slice_rows

    texts = pa.array(["zz", "aéb", None, "", "😀x"]).slice(1)
    starts, stops = np.array([1, 0, 0, 0]), np.array([9, 9, 9, 1])
    assert slice_rows(texts, starts, stops).to_pylist() == ["éb", None, "", "😀"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("reverse(X'00FF41')", b"A\xff\0"),
        ("lpad(X'00FF41', 5)", b"\0\0\0\xffA"),
        ("lpad(X'00FF41', 6, X'4142')", b"ABA\0\xffA"),
        ("rpad(X'00FF41', 2)", b"\0\xff"),
        ("rpad(X'00FF41', 5, X'')", b"\0\xffA"),
        ("lpad('a', 3, X'41')", "AAa"),
        ("startswith(X'00FF41', X'00FF')", True),
        ("endswith(X'00FF41', X'FF')", False),
        ("contains(X'00FF41', X'FF41')", True),
        ("contains('A', X'41')", True),
        ("overlay(X'00FF41', X'41', 2)", b"\0AA"),
        ("substring(X'00FF41', 2)", b"\xffA"),
        ("X'00FF' || X'41'", b"\0\xffA"),
    ],
)
def test_bytes_stay_bytes_where_spark_has_functions_of_them(call: str, expected: Any) -> None:
    assert value(call) == expected


def test_bytes_of_rows_are_compared_and_padded_as_those_of_constants() -> None:
    columns = {"x": ("BYTES", [b"\xff\0", b"", None]), "y": ("BYTES", [b"\0", b"", b"a"])}
    assert values("contains(x, y)", columns) == [True, True, None]
    assert values("startswith(x, y)", columns) == [False, True, None]
    assert values("endswith(x, y)", columns) == [True, True, None]
    assert values("rpad(x, 3, y)", columns) == [b"\xff\0\0", b"", None]


def test_bytes_and_text_are_not_laid_over_each_other() -> None:
    with pytest.raises(QueryError, match="BYTES beside BYTES"):
        bound("overlay(X'00' PLACING 'x' FROM 1)")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("upper('ﬃ ßŉ ᾳ')", "FFI SSʼN ΑΙ"),  # noqa: RUF001
        ("lower('İ ΑΣ ΑΣΑ')", "i̇ ας ασα"),  # noqa: RUF001
        ("initcap('ﬃx ǆa ßa ΑΣ')", "Ffix ǅa Ssa Ας"),
        ("translate('a\U000f0000b', '\U000f0000', 'x')", "axb"),
        ("translate('a😀é', 'é😀', '\U000f0001')", "a\U000f0001"),
        ("translate('aab', 'aa', 'xy')", "xxb"),
        ("string(5e-324D)", "4.9E-324"),
        ("string(-double('5e-324'))", "-4.9E-324"),
        ("string(float('1e-45'))", "1.4E-45"),
        ("string(double('1.5e-323'))", "1.5E-323"),
        ("string(array(5e-324D, 1.7976931348623157E308D))", "[4.9E-324, 1.7976931348623157E308]"),
        ("mask('AbCD123-@$#')", "XxXXnnn-@$#"),
        ("mask('AbCD123-@$#', 'Q', 'q', 'd', 'o')", "QqQQdddoooo"),
        ("mask('AbC1', NULL, NULL, NULL, NULL)", "AbC1"),
        ("mask('é日Ⅷ٣ǅ😀')", "x日Xnǅ😀"),
        ("luhn_check('79927398713')", True),
        ("luhn_check('79927398714')", False),
        ("luhn_check('')", False),
        ("luhn_check('1a')", False),
    ],
)
def test_characters_are_those_of_unicode(call: str, expected: Any) -> None:
    assert value(call) == expected


def test_characters_of_rows_are_changed_row_by_row() -> None:
    columns = {"x": ("STRING", ["ﬁ1", None, "", "Ab"])}
    assert values("upper(x)", columns) == ["FI1", None, "", "AB"]
    assert values("translate(x, 'ﬁA', 'é')", columns) == ["é1", None, "", "b"]
    assert values("mask(x, 'X', 'x', 'n', '-')", columns) == ["xn", None, "", "Xx"]
    assert values("luhn_check(x)", columns) == [False, None, False, False]


def test_a_mask_is_one_character() -> None:
    with pytest.raises(QueryError, match="one character"):
        bound("mask('a', 'QQ')")


def test_flink_tells_what_text_consists_of() -> None:
    columns = {"x": ("STRING", ["éa", "12", "1.5e3", " -1d ", "", "a1", None])}
    flink = {"dialect": FLINK}
    assert values("IS_ALPHA(x)", columns, **flink) == [True] + [False] * 6
    assert values("IS_DIGIT(x)", columns, **flink) == [False, True] + [False] * 5
    assert values("IS_DECIMAL(x)", columns, **flink) == [False, True, True, True] + [False] * 3


def test_text_is_quoted_with_its_quotes_after_a_backslash() -> None:
    assert values("quote(x)", {"x": ("STRING", ["Don't", "", None])}) == [
        "'Don\\'t'", "''", None
    ]  # fmt: skip
