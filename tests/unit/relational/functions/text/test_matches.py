"""All matches of a batch, as Java finds them."""

from typing import Any

import pyarrow as pa
import pytest

from pkray.relational.functions.text import matches
from pkray.relational.functions.text.java_patterns import parsed

AROUND = matches.Replacement(("<", 0, ">"))
TEXTS = pa.array(["", "axxb", "é x", None, "a\n", "a\r\n"])
REPLACED: dict[str, list[str | None]] = {
    "x*": ["<>", "<>a<xx><>b<>", "<>é<> <x><>", None, "<>a<>\n<>", "<>a<>\r<>\n<>"],
    "x*?": ["<>", "<>a<>x<>x<>b<>", "<>é<> <>x<>", None, "<>a<>\n<>", "<>a<>\r<>\n<>"],
    "^": ["<>", "<>axxb", "<>é x", None, "<>a\n", "<>a\r\n"],
    "$": ["<>", "axxb<>", "é x<>", None, "a<>\n<>", "a<>\r\n<>"],
    "a|": ["<>", "<a><>x<>x<>b<>", "<>é<> <>x<>", None, "<a><>\n<>", "<a><>\r<>\n<>"],
    "a$": ["", "axxb", "é x", None, "<a>\n", "<a>\r\n"],
    "a$\n": ["", "axxb", "é x", None, "<a\n>", "a\r\n"],
    r"a$\s*": ["", "axxb", "é x", None, "<a\n>", "<a\r\n>"],
    r"[^x]$": ["", "axx<b>", "é x", None, "<a><\n>", "<a>\r<\n>"],
    r"\bx": ["", "axxb", "é <x>", None, "a\n", "a\r\n"],
    r"\b": ["", "<>axxb<>", "é <>x<>", None, "<>a<>\n", "<>a<>\r\n"],
    "x|$": ["<>", "a<x><x>b<>", "é <x><>", None, "a<>\n<>", "a<>\r\n<>"],
    "^a|x": ["", "<a><x><x>b", "é <x>", None, "<a>\n", "<a>\r\n"],
}


@pytest.mark.parametrize("pattern", REPLACED)
def test_matches_of_nothing_are_where_java_finds_them(pattern: str) -> None:
    assert matches.replaced(TEXTS, parsed(pattern), AROUND).to_pylist() == REPLACED[pattern]


@pytest.mark.parametrize("pattern", REPLACED)
def test_matches_are_counted_and_listed_as_they_are_replaced(pattern: str) -> None:
    wanted: list[Any] = [each and each.count("<") for each in REPLACED[pattern]]
    wanted = [0 if each == "" else each for each in wanted]
    assert matches.counts(TEXTS, parsed(pattern)).to_pylist() == wanted
    lists = matches.all_parts(TEXTS, parsed(pattern), 0).to_pylist()
    assert [each if each is None else len(each) for each in lists] == wanted


def test_batches_may_begin_within_an_array() -> None:
    some = pa.concat_arrays([pa.array(["xx"]), TEXTS])[1:]
    assert matches.replaced(some, parsed("x*"), AROUND).to_pylist() == REPLACED["x*"]
    assert matches.split_at(some, parsed("[x ]"), 0).to_pylist() == [
        [""], ["a", "", "b"], ["é", "", ""], None, ["a\n"], ["a\r\n"],
    ]  # fmt: skip


def test_bytes_under_a_null_are_not_read() -> None:
    some = pa.Array.from_buffers(
        pa.string(), 2, [pa.py_buffer(b"\x02"), pa.array([0, 3, 5], pa.int32()).buffers()[1],
                         pa.py_buffer(b"xxxax")],
    )  # fmt: skip
    assert matches.replaced(some, parsed("x?"), AROUND).to_pylist() == [None, "<>a<x><>"]
    assert matches.split_at(some, parsed("x"), 0).to_pylist() == [None, ["a", ""]]


SPLIT: list[tuple[str, int, list[str]]] = [
    ("x*", 0, ["a", "", "b", ""]),
    ("x*", 2, ["a", "b"]),
    ("^", -1, ["axxb"]),
    ("$", -1, ["axxb", ""]),
    ("a|", -1, ["", "", "x", "x", "b", ""]),
    ("x", 0, ["a", "", "b"]),
    ("x", 1, ["axxb"]),
    ("x", 2, ["a", "xb"]),
    ("", -1, ["a", "x", "x", "b"]),
    ("", 2, ["a", "xxb"]),
    ("", 9, ["a", "x", "x", "b"]),
    (r"\b", 0, ["axxb", ""]),
    ("^a", 0, ["", "xxb"]),
]


@pytest.mark.parametrize(("pattern", "limit", "wanted"), SPLIT)
def test_text_is_split_where_a_pattern_matches(pattern: str, limit: int, wanted: list[str]) -> None:
    assert matches.split_at(pa.array(["axxb"]), parsed(pattern), limit).to_pylist() == [wanted]


def test_nothing_is_found_in_no_rows() -> None:
    none = pa.array([], pa.string())
    for pattern in ("x", "x*", "$"):
        assert matches.replaced(none, parsed(pattern), AROUND).to_pylist() == []
        assert matches.split_at(none, parsed(pattern), 0).to_pylist() == []


def test_places_are_counted_in_characters() -> None:
    texts = pa.array(["éb", "b", "", None, "日é\n"])
    assert matches.first_places(texts, parsed("b|$")).to_pylist() == [2, 1, 1, None, 3]


def test_a_group_that_takes_no_part_is_empty() -> None:
    found = matches.all_parts(pa.array(["ab"]), parsed("(a)|(b)"), 2)
    assert found.to_pylist() == [["", "b"]]
    assert matches.first_parts(pa.array(["ab", "c"]), parsed("(a)|(b)"), 1).to_pylist() == [
        "a",
        None,
    ]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x85", "\u2028", "\u2029"])
def test_the_end_of_the_last_line_is_what_it_was(end: str) -> None:
    some = pa.array([f"\n\r{end}{end}"])
    assert matches.replaced(some, parsed("[^a]"), matches.Replacement((0,))).equals(some)
    assert matches.replaced(some, parsed("[^a]$"), matches.Replacement((0,))).equals(some)
    assert matches.replaced(some, parsed("$"), AROUND).to_pylist() == [f"\n\r{end}<>{end}<>"]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)*b", "(.*)(.*)(.*)x", "(a?){30}a{30}"])
def test_patterns_that_backtrack_end_soon(pattern: str) -> None:
    text = pa.array(["a" * 20_000 + "!"])
    assert matches.counts(text, parsed(pattern)).to_pylist() in ([0], [333], [666])
    assert len(matches.split_at(text, parsed(pattern), 0)) == 1
