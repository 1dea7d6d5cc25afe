"""Java's regular expressions as RE2's, and what is refused."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pkray.relational.functions.text.java_pattern_tree import PatternError
from pkray.relational.functions.text.java_patterns import parsed
from pkray.relational.functions.text.matches import matching

REFUSED = {
    "a(?=b)": "character 2: (?=…) looks ahead",
    "(?<!a)b": "character 1: (?<!…) looks behind",
    r"(a)\1": r"character 4: \1 refers back",
    r"(?<n>a)\k<n>": r"character 8: \k refers back",
    "a++b": "character 2: ++ is possessive, which takes unlimited time; write +",
    "(?>a)b": "character 1: (?>…) takes unlimited time; write (?:…)",
    "[[:alpha:]]": r"character 2: [:…:] is not Java's; write \p{Alpha}",
    r"\Ga": r"character 1: \G is not supported",
    "a{1001}": "character 2: {1001} repeats more than 1000 times",
    "a{2,1}": "character 2: {2,1} ends before it begins",
    "x{": r"character 2: '{' begins no {n,m}; write \{",
    "*a": r"character 1: there is nothing before '*'; write \*",
    "a{2}{3}": "character 5: '{' repeats what repeats; put (?:…) around that",
    "(a": r"character 1: '(' is not closed; write \(",
    "a)": r"character 2: ')' closes no group; write \)",
    "[a": r"character 1: '[' is not closed; write \[",
    "[b-a]": "character 2: a range ends before it begins",
    r"\y": r"character 1: \y means nothing; write y",
    "a\\": r"character 2: there is nothing after '\'; write \\",
    "(?m)^a": "character 5: ^ of lines, (?m), is not supported",
    "(?u)a": "character 1: the flag 'u' is not supported",
    r"\p{InGreek}": r"character 1: \p{InGreek} is not supported",
    r"[a&&\p{L}]": r"character 1: && with \p{…} is not supported",
    r"\R+": r"character 3: \R repeated is not supported; write [\r\n]",
    "(|a)*": "character 5: * repeats what would rather match nothing",
    r"\B": r"character 1: \B is not supported where all else may be empty",
    "(?<n>a)(?<n>b)": "character 8: two groups are called 'n'",
}


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_takes_unlimited_time_or_is_no_pattern_is_refused_with_its_place(pattern: str) -> None:
    with pytest.raises(PatternError) as error:
        parsed(pattern)
    assert str(error.value).startswith(f"at {REFUSED[pattern]}")


MATCHED = {
    r"^\w$": ("az_09AZ", "é-ü\u0660"),
    r"^\s$": (" \t\n\x0b\f\r", "\xa0\x85"),
    r"^\h$": (" \t\xa0\u1680\u180e\u200a\u3000", "\n\x0b"),
    r"^\v$": ("\n\x0b\f\r\x85\u2028\u2029", "\t "),
    r"^\R$": ("\n\x0b\f\r\x85\u2028\u2029", "a"),
    r"^.\z": ("a é😀\x0b\f", "\n\r\x85\u2028\u2029"),
    r"(?s)^.\z": ("a\n\r\x85", ""),
    r"^(?i)k$": ("kK", "\u212a"),
    r"^(?i:[x-z])$": ("xXzZ", "aA"),
    r"^(?i)é$": ("é", "É"),
    r"^[a-z&&[^aeiou]]$": ("bz", "ae1"),
    r"^[^a-c&&b-d]$": ("ad", "bc"),
    r"^[a[c-d]]$": ("acd", "b["),
    r"^[^a[c-d]]$": ("b[", "acd"),
    r"^[]a]$": ("]a", "["),
    r"^[a\-z]$": ("a-z", "b"),
    r"^[-a]$": ("-a", "b"),
    r"^\x41|\u0042|\0103|\x{44}$": ("ABCD", "E"),
    r"^\p{Punct}$": ("!~_", "a§"),
    r"^\p{Lu}$": ("AÉ", "aé"),
    r"^\P{L}$": ("1-", "aé"),
    r"^\p{IsGreek}$": ("αΩ", "a"),
    r"^[\p{L}1]$": ("aé1", "2"),
    r"^(?x) a # one letter": ("a", "b"),
    r"^\Q*\E$": ("*", "a"),
    r"^\cA$": ("\x01", "A"),
    r"^\ud83d\ude00$": ("😀", "a"),
}


@pytest.mark.parametrize("pattern", MATCHED)
def test_characters_are_those_that_java_means(pattern: str) -> None:
    good, bad = (pa.array(list(each), pa.string()) for each in MATCHED[pattern])
    assert pc.all(matching(good, parsed(pattern)), min_count=0).as_py()
    assert not pc.any(matching(bad, parsed(pattern))).as_py()
