"""Java's formats and charsets: what Spark 4.2 gives, and what it refuses."""

from typing import Any

import pytest

from pkray.errors import EvaluationError, QueryError
from pkray.relational.functions.function import function
from pkray.relational.plan.expressions import Call
from tests.unit.relational.expressions import bound, value

WRITTEN: list[tuple[str, Any]] = [
    ("format_string('%s %S',true,'ab')", "true AB"),
    ("format_string('%d %o %x %X',-5,8,255,255)", "-5 10 ff FF"),
    ("format_string('%,d|%+d|% d|%(d|%08d',1234567,5,5,-5,-42)", "1,234,567|+5| 5|(5)|-0000042"),
    ("format_string('%e %E %.2e',12345.678D,0.00012D,0D)", "1.234568e+04 1.200000E-04 0.00e+00"),
    ("format_string('%g %G %.3g',12345.678D,0.00001D,1e10D)", "12345.7 1.00000E-05 1.00e+10"),
    ("format_string('%a %A',1.0D,-0.1D)", "0x1.0p0 -0X1.999999999999AP-4"),
    ("format_string('%b %B',true,NULL)", "true FALSE"),
    ("format_string('%n%%')", "\n%"),
    ("format_string('%2$s %1$s','a','b')", "b a"),
    ("format_string('%s %<s','a')", "a a"),
    ("format_string('%5s|%-5s|%.2s|%5.1s','ab','ab','abc','xyz')", "   ab|ab   |ab|    x"),
    (
        "format_string('%f %.0f %,.2f %10.3f',1.5D,2.5D,1234567.891D,-1.5D)",
        "1.500000 3 1,234,567.89     -1.500",
    ),
    ("format_string('%s',1.5D)", "1.5"),
    ("format_string('%s',1e10D)", "1.0E10"),
    ("format_string('%s',CAST(1.50 AS DECIMAL(5,2)))", "1.50"),
    ("format_string('%s',NULL)", "null"),
    ("format_string('%d',NULL)", "null"),
    ("format_string('%f',CAST(NULL AS DOUBLE))", "null"),
    ("format_string('%x',CAST(-1 AS TINYINT))", "ff"),
    ("format_string('%d',1L)", "1"),
    ("format_string('%x',-1L)", "ffffffffffffffff"),
    ("format_string('%f',double('NaN'))", "NaN"),
    ("format_string('%f',double('Infinity'))", "Infinity"),
    ("format_string('%+f %(f %010.2f',1D,-1D,-1.5D)", "+1.000000 (1.000000) -000001.50"),
    ("format_string('%#x %#o',255,8)", "0xff 010"),
    ("format_string('%-8d|',5)", "5       |"),
    ("format_string('%08.2f',3.14159D)", "00003.14"),
    ("format_string('%c',128512)", "😀"),
    ("format_string('%.1f %.1f %.0f %.0f',0.25D,0.35D,0.5D,1.5D)", "0.3 0.4 1 2"),
    ("format_string('%.20f',0.1D)", "0.10000000000000000000"),
    ("format_string('%5d|%5x',NULL,NULL)", " null| null"),
    ("format_string('%b','x')", "true"),
    ("format_string('%10b|',true)", "      true|"),
    ("format_string('%.3b',true)", "tru"),
    ("format_string('%s',float('1.1'))", "1.1"),
    ("format_string('%f',float('1.1'))", "1.100000"),
    ("format_string('%.2f',1e-10D)", "0.00"),
    ("format_string('%.3e',double('NaN'))", "NaN"),
    ("format_string('%,.3f',-1234.5D)", "-1,234.500"),
    ("format_string('%(,.2f',-1234.5D)", "(1,234.50)"),
    ("format_string('%1$s%1$s%s','a','b')", "aaa"),
    ("format_string('%%%d',1)", "%1"),
    ("format_string('%5%|')", "    %|"),
    ("format_string('%e',0.0D)", "0.000000e+00"),
    ("format_string('%.0e',15D)", "2e+01"),
    ("format_string('%g',0D)", "0.00000"),
    ("format_string('%g',123456D)", "123456"),
    ("format_string('%g',1234567D)", "1.23457e+06"),
    ("format_string('%g',0.0001D)", "0.000100000"),
    ("format_string('%g',0.00001D)", "1.00000e-05"),
    ("format_string('%.0g',1.5D)", "2"),
    ("format_string('%,d',-1234)", "-1,234"),
    ("format_string('%x',255S)", "ff"),
    ("format_string('%X',CAST(255 AS SMALLINT))", "FF"),
    ("format_string('%c',NULL)", "null"),
    ("format_string('%s','😀')", "😀"),
    ("format_string('%S','ß')", "SS"),
    ("format_string('%d',CAST(1 AS TINYINT))", "1"),
    ("format_string('%,d',1L)", "1"),
]
REFUSED = [
    "format_string('%c %C',65,'a')",
    "format_string('%d','a')",
    "format_string('%d',1.5)",
    "format_string('%s')",
    "format_string('%q',1)",
    "format_string('%tY',date'2020-01-01')",
    "format_string('%5c|%-5c|','a','b')",
    "format_string('%+s','a')",
    "format_string('%-s','a')",
    "format_string('%05s','a')",
    "format_string('%3$s','a')",
    "format_string('%',1)",
    "format_string('%-5n')",
    "format_string('%d',CAST(5 AS DECIMAL(3,0)))",
]
IN_CHARSETS: list[tuple[str, Any]] = [
    ("to_binary('abc')", b"\n\xbc"),
    ("to_binary('ABC')", b"\n\xbc"),
    ("to_binary('abc','utf-8')", b"abc"),
    ("to_binary('abc','UTF8')", b"abc"),
    ("to_binary('YWJj','base64')", b"abc"),
    ("to_binary('616263','hex')", b"abc"),
    ("try_to_binary('zz','hex')", None),
    ("try_to_binary('a','x')", None),
    ("try_to_binary('a!','base64')", None),
    ("to_binary('YW Jj','base64')", b"abc"),
    ("to_binary('YQ','base64')", b"a"),
    ("try_to_binary('YQ=','base64')", None),
    ("to_binary(NULL)", None),
    ("to_binary('a',NULL)", None),
    ("try_to_binary('a')", b"\n"),
    ("to_binary('','hex')", b""),
    ("to_binary('','base64')", b""),
    ("try_to_binary('YQ==','base64')", b"a"),
    ("try_to_binary('Y','base64')", None),
    ("try_to_binary('YR==','base64')", b"a"),
    ("try_to_binary('====','base64')", None),
    ("to_binary(X'41','utf-8')", b"A"),
    ("hex(encode('aé😀','UTF-16'))", "FEFF006100E9D83DDE00"),
    ("hex(encode('aé😀','UTF-16BE'))", "006100E9D83DDE00"),
    ("hex(encode('aé😀','UTF-16LE'))", "6100E9003DD800DE"),
    ("hex(encode('aé😀','UTF-32'))", "00000061000000E90001F600"),
    ("hex(encode('aé','ISO-8859-1'))", "61E9"),
    ("hex(encode('a','US-ASCII'))", "61"),
    ("hex(encode('a','utf-16'))", "FEFF0061"),
    ("hex(encode('','UTF-16'))", ""),
    ("hex(encode('','UTF-32'))", ""),
    ("decode(X'FEFF0061','UTF-16')", "a"),
    ("decode(X'FFFE6100','UTF-16')", "a"),
    ("decode(X'0061','UTF-16')", "a"),
    ("decode(X'E9','ISO-8859-1')", "é"),
    ("decode(X'00000061','UTF-32')", "a"),
    ("decode(X'FFFE000061000000','UTF-32')", "a"),
    ("decode(X'0000FEFF00000061','UTF-32')", "a"),
    ("decode(X'FEFF0061','UTF-16BE')", "\ufeffa"),
    ("encode(NULL,'UTF-8')", None),
    ("encode('a',NULL)", None),
    ("decode(X'61',NULL)", None),
    ("hex(encode(12,'UTF-8'))", "3132"),
    ("decode('a','utf-8')", "a"),
    ("decode(X'','UTF-16')", ""),
    ("decode(X'EFBBBF61','UTF-8')", "\ufeffa"),
]
MALFORMED = [
    "to_binary('zz','hex')",
    "to_binary('a','x')",
    "to_binary('a','base64')",
    "to_binary('YQ==YQ==','base64')",
    "to_binary('GG')",
    "hex(encode('é','US-ASCII'))",
    "hex(encode('😀','ISO-8859-1'))",
    "encode('a','UTF-32BE')",
    "encode('a','windows-1252')",
    "decode(X'00','UTF-16')",
    "decode(X'D83D','UTF-16BE')",
    "decode(X'E9','US-ASCII')",
    "decode(X'E9','UTF-8')",
    "decode(X'00110000','UTF-32')",
]


@pytest.mark.parametrize(("call", "expected"), [*WRITTEN, *IN_CHARSETS])
def test_a_value_is_written_as_java_does(call: str, expected: Any) -> None:
    assert value(call) == expected


@pytest.mark.parametrize("call", [*REFUSED, *MALFORMED])
def test_what_java_refuses_is_refused(call: str) -> None:
    with pytest.raises((QueryError, EvaluationError)):
        value(call)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("format_string('%.2f', 12345678901234567890123456789012345.678)",
         "12345678901234567890123456789012345.68"),
        ("format_string('%.5f', 12345678901234567890123456789012345.678)",
         "12345678901234567890123456789012345.67800"),
        ("format_string('%.3e', -0.0012345)", "-1.235e-03"),
        ("format_string('%,.1f', 1234567.25)", "1,234,567.3"),
        ("format_string('%s', date'2020-01-01')", "2020-01-01"),
    ],
)  # fmt: skip
def test_decimals_and_dates_are_written_where_spark_has_nothing(call: str, expected: str) -> None:
    assert value(call) == expected


def test_a_width_has_a_bound() -> None:
    with pytest.raises(QueryError, match="wider than 10000"):
        value("format_string('%2000000000d', 1)")


def test_spark_gets_a_specifier_without_the_place_of_its_value() -> None:
    call = bound("format_string('%2$-5s', 'a', 'b')")
    spark = function("format_value").spark
    assert isinstance(call, Call)
    assert spark is not None
    assert (call.function, spark(call, ["x"])) == ("format_value", "format_string('%-5s', x)")
