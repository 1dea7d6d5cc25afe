"""Patterns and texts in all combinations: the local engine against Spark's Java."""

import itertools

import pyarrow as pa

from pkray.relational import from_arrow, query
from tests.spark.local.test_functions import expressions, first_difference

PATTERNS = [
    "", "a", "x*", "x*?", "^", "$", "a|", "|a", "x|$", "^|x", "a$", "a$\n", "[^x]$", r"a\Z", r"a\z",
    ".", "(?s).", r"\s", r"\S+", r"\w", r"\W+", r"\d{1,2}", r"\D", r"\h", r"\v", r"\R", r"\n$",
    "[a-c&&[^b]]", "[^a-c&&b-d]", "[a[xy]]", "[^a[xy]]", "[]a]", r"[\]-a]", "[a-c&&b&&b]", "[&a]",
    "(?i)B", "(?i)[x-z]+", "(?i:a)B", "(?-i)b", r"\p{Lu}", r"\P{L}", r"[\p{Alpha}\d]+", r"\pL{2}",
    r"\p{IsLatin}", r"\p{Punct}", r"\Qa.b\E+", r"\x61|\u0062", "(a)(b)?", "(a|(b))+", "(a*)b",
    "(?<n>a)|b", "(a|ab)(c|bcd)?", "a??b", "a{2,}?", "a{0,2}", "(?:ab)*", "(a+)+$", "(a|b|)b",
    "(?x) a # a letter", r"\bab", r"ab\b", r"\b", "^$", "$^", r"(x|\b)", "a.c", "a.*", "(.*)(.)",
    "[^]b]",
]  # fmt: skip
TEXTS = [
    "", "a", "b", "ab", "aab", "axxb", "abc", "abcd",
    "ABab", "xaxbx", "a.b", "a.bb.b", "a b\tc", "a\n",
    "a\r\n", "a\r", "\n", "\n\n", "a\nb\n", "a\r\nb", "ab\u2028", "é", "aéb", "Éa", "日本 ab",
    "12ab345",
    "]a[-&", "aaaa!", "x\u0085", "a\x0bc", "\xa0a",
]  # fmt: skip
EVERY = """
t rlike p; regexp_count(t, p); regexp_instr(t, p); regexp_substr(t, p); regexp_extract(t, p, 0)
regexp_extract_all(t, p, 0); regexp_replace(t, p, '<$0>'); regexp_replace(t, p, '-', 2); split(t, p)
split(t, p, 2); split(t, p, 3); split(t, p, 0)
"""
OF_GROUPS = """
regexp_extract(t, p); regexp_extract_all(t, p); regexp_replace(t, p, '[$1\\\\$]')
"""


def test_every_function_finds_what_java_finds(spark) -> None:
    unlike = {
        (p, t) for p in PATTERNS for t in TEXTS if "b" in p and "\\b" in p and not t.isascii()
    }
    pairs = [each for each in itertools.product(PATTERNS, TEXTS) if each not in unlike]
    groups = [(p, t) for p, t in pairs if "(" in p.replace("(?", "") or "(?<" in p]
    for some, said in ((pairs, EVERY), (groups, OF_GROUPS)):
        rows = pa.table({"p": [p for p, _ in some], "t": [t for _, t in some]})
        spark.createDataFrame(rows).createOrReplaceTempView("r")
        asked = expressions(said)
        columns = ", ".join(f"{each} AS c{place}" for place, each in enumerate(asked))
        text = f"SELECT concat_ws('~', p, t) AS k, {columns} FROM r"
        ours = query(text, r=from_arrow(rows, name="r")).to_arrow()
        theirs = spark.sql(text).toArrow()
        assert first_difference(asked, ours, theirs) == []
