"""Java's regular expressions, read into a tree; what RE2 cannot say is refused with its place."""

import re
from dataclasses import replace

from pkray.relational.functions.text.java_pattern_tree import (
    LINE_ENDS,
    MOST,
    Assertion,
    Chars,
    Choice,
    Group,
    Node,
    PatternError,
    Repeat,
    Sequence,
    empty_last,
    empty_part,
    inverted,
    merged,
    of,
    with_other_case,
)

MOST_REPEATS = 1000
"""More are refused by RE2, since it writes each of them out."""
_LINE_ENDS = merged((ord(each), ord(each)) for each in LINE_ENDS)
_HORIZONTAL = of(
    "\t\t  \xa0\xa0\u1680\u1680\u180e\u180e\u2000\u200a\u202f\u202f\u205f\u205f\u3000\u3000"
)
_VERTICAL = of("\n\r\x85\x85\u2028\u2029")
_SHORT = {"d": of("09"), "s": of("\t\r  "), "w": of("azAZ09__"), "h": _HORIZONTAL, "v": _VERTICAL}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_NAMED = {
    "Lower": of("az"), "Upper": of("AZ"), "ASCII": of("\0\x7f"), "Alpha": of("azAZ"),
    "Digit": of("09"), "Alnum": of("azAZ09"), "Punct": of("!/:@[`{~"), "Graph": of("!~"),
    "Print": of(" ~"), "Blank": of("\t\t  "), "Cntrl": of("\0\x1f\x7f\x7f"),
    "XDigit": of("09afAF"), "Space": of("\t\r  "), "Cc": of("\0\x1f\x7f\x9f"), "L1": of("\0\xff"),
    "all": ((0, MOST),), "Zl": of("\u2028\u2028"), "Zp": of("\u2029\u2029"),
    "Z": of("  \xa0\xa0\u1680\u1680\u2000\u200a\u2028\u2029\u202f\u202f\u205f\u205f\u3000\u3000"),
}  # fmt: skip
_CATEGORY = re.compile("[LMNPS]|L[ultmo]|M[nce]|N[dlo]|P[cdseifo]|S[mcko]|Zs|C[fo]")
_CASED = frozenset(("Lower", "Upper", "Lu", "Ll", "Lt"))
_SCRIPT = re.compile(
    "Arabic|Armenian|Bengali|Bopomofo|Cherokee|Common|Coptic|Cyrillic|Devanagari|Ethiopic|Georgian|"
    "Greek|Gujarati|Gurmukhi|Han|Hangul|Hebrew|Hiragana|Inherited|Kannada|Katakana|Khmer|Lao|Latin|"
    "Malayalam|Mongolian|Myanmar|Oriya|Sinhala|Syriac|Tamil|Telugu|Thaana|Thai|Tibetan"
)
_LOOKING = {"?=": "looks ahead", "?!": "looks ahead", "?<=": "looks behind", "?<!": "looks behind"}
_QUANTIFIER = re.compile(r"\{(\d+)(,(\d*))?\}")
_NAME = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")


class Parser:
    """Reads a pattern of Java.

    Args:
        text: the pattern.

    Attributes:
        groups: how many have a number.
        names: numbers of those that have a name.

    Raises:
        PatternError: Java or RE2 has no such pattern.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.flags: frozenset[str] = frozenset()
        self.groups = 0
        self.names: dict[str, int] = {}

    def whole(self) -> Node:
        """Read all of it."""
        found = self._choice()
        if self.place < len(self.text):
            raise PatternError(self.place, "')' closes no group; write \\)")
        return found

    def _next(self, count: int = 1) -> str:
        """Give the characters that come, without comments."""
        while "x" in self.flags and (letter := self.text[self.place : self.place + 1]):
            if letter in " \t\n\x0b\f\r":
                self.place += 1
            elif letter == "#":
                line = re.compile(r"[^\n\r\x85\u2028\u2029]*").match(self.text, self.place)
                assert line is not None
                self.place = line.end()
            else:
                break
        return self.text[self.place : self.place + count]

    def _choice(self) -> Node:
        parts = [self._sequence()]
        while self._next() == "|":
            self.place += 1
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while (letter := self._next()) and letter not in "|)":
            atoms = self._atom()
            parts += [*atoms[:-1], *map(self._quantified, atoms[-1:])]
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _quantified(self, body: Node) -> Node:
        """Read how often the part that was read last is to be there."""
        start, letter = self.place, self._next()
        if letter == "{":
            found = _QUANTIFIER.match(self.text, self.place)
            if found is None:
                raise PatternError(self.place, "'{' begins no {n,m}; write \\{")
            least = int(found[1])
            most = least if found[2] is None else int(found[3]) if found[3] else None
            if max(least, most or 0) > MOST_REPEATS:
                raise PatternError(self.place, f"{found[0]} repeats more than {MOST_REPEATS} times")
            if most is not None and most < least:
                raise PatternError(self.place, f"{found[0]} ends before it begins")
            self.place = found.end()
        elif letter and letter in "*+?":
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[letter]
            self.place += 1
        else:
            return body
        written, following = self.text[start : self.place], self._next()
        if following == "+":
            raise PatternError(
                start, f"{written}+ is possessive, which takes unlimited time; write {written}"
            )
        lazy = following == "?"
        self.place += lazy
        again = self._next()
        if again and again in "*+?{":
            raise PatternError(self.place, f"{again!r} repeats what repeats; put (?:…) around that")
        if body == _LINE_BREAK:
            raise PatternError(start, "\\R repeated is not supported; write [\\r\\n]")
        if most != 1 and empty_part(body) is not None and not empty_last(body):
            raise PatternError(
                start, f"{written} repeats what would rather match nothing; leave out that choice"
            )
        return Repeat(body, least, most, lazy)

    def _atom(self) -> list[Node]:
        """Read a part; what is quoted are many, flags are none."""
        letter = self._next()
        start = self.place
        if letter == "(":
            return self._group()
        if letter == "[":
            self.place += 1
            return [self._class()]
        self.place += 1
        if letter == "\\":
            return self._escape(start)
        if letter == ".":
            return [Chars(((0, MOST),) if "s" in self.flags else inverted(_LINE_ENDS))]
        if letter in "^$":
            if "m" in self.flags:
                raise PatternError(
                    start, f"{letter} of lines, (?m), is not supported; split the text into lines"
                )
            return [Assertion(letter)]
        if letter in "*+?":
            raise PatternError(start, f"there is nothing before {letter!r}; write \\{letter}")
        if letter == "{":
            raise PatternError(start, "there is nothing before '{'; write \\{")
        return [self._letter(letter)]

    def _letter(self, letter: str) -> Chars:
        return self._letters(letter, letter)

    def _letters(self, first: str, last: str) -> Chars:
        ranges = ((ord(first), ord(last)),)
        return Chars(with_other_case(ranges) if "i" in self.flags else ranges)

    def _group(self) -> list[Node]:
        start, kept, number = self.place, self.flags, None
        name = _NAME.match(self.text, start)
        flags = _FLAGS.match(self.text, start)
        for sign, does in _LOOKING.items():
            if self.text.startswith(sign, start + 1):
                raise PatternError(
                    start,
                    f"({sign}…) {does}, which takes unlimited time; match that text "
                    "too, and take a group",
                )
        if self.text.startswith("?>", start + 1):
            raise PatternError(start, "(?>…) takes unlimited time; write (?:…)")
        if flags:
            self._set_flags(flags)
            self.place = flags.end()
            if flags[3] == ")":
                return []
        elif name or not self.text.startswith("?", start + 1):
            self.groups += 1
            number = self.groups
            if name and name[1] in self.names:
                raise PatternError(start, f"two groups are called {name[1]!r}")
            if name:
                self.names[name[1]] = number
            self.place = name.end() if name else start + 1
        else:
            raise PatternError(start, "'(?' begins no kind of group; write \\( or (?:…)")
        body = self._choice()
        if self._next() != ")":
            raise PatternError(start, "'(' is not closed; write \\(")
        self.place += 1
        self.flags = kept
        return [Group(number, body)]

    def _set_flags(self, found: re.Match[str]) -> None:
        on, off = set(found[1]), set(found[2] or "")
        for letter in found[1] + (found[2] or ""):
            if letter not in "ismx":
                raise PatternError(
                    found.start(), f"the flag {letter!r} is not supported; there are i, m, s and x"
                )
        self.flags = (self.flags | on) - off

    def _escape(self, start: int) -> list[Node]:
        """Read what is after a backslash."""
        letter = self.text[self.place : self.place + 1]
        if letter == "Q":
            return self._quoted()
        if letter in ("A", "Z", "z", "b", "B"):
            self.place += 1
            if self.text.startswith("{", self.place) and letter == "b":
                raise PatternError(start, "\\b{…} is not supported; write \\b")
            return [Assertion({"A": "^", "Z": "$"}.get(letter, letter))]
        if letter == "R":
            self.place += 1
            return [_LINE_BREAK]
        if letter and letter in "123456789k":
            raise PatternError(
                start, f"\\{letter} refers back to a group, which takes unlimited time"
            )
        if letter and letter in "GXN":
            raise PatternError(start, f"\\{letter} is not supported")
        return [self._escaped_chars(start)]

    def _quoted(self) -> list[Node]:
        start = self.place + 1
        end = self.text.find("\\E", start)
        quoted = self.text[start:] if end < 0 else self.text[start:end]
        self.place = len(self.text) if end < 0 else end + 2
        return [self._letter(each) for each in quoted]

    def _escaped_chars(self, start: int) -> Chars:
        """Read the characters that a backslash and what is after it mean."""
        letter = self.text[self.place : self.place + 1]
        self.place += 1
        if letter and letter.lower() in _SHORT:
            ranges = _SHORT[letter.lower()]
            return Chars(ranges if letter.islower() else inverted(ranges))
        if letter in ("p", "P"):
            return self._property(start, letter == "P")
        return self._letter(self._code(start, letter))

    def _code(self, start: int, letter: str) -> str:
        """Give the one character that ``\\t``, ``\\x41``, ``\\.`` and the like are."""
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        for sign, expression in _CODES.items():
            found = letter == sign and re.compile(expression).match(self.text, self.place)
            if found:
                self.place = found.end()
                code = int(found[found.lastindex or 1], 8 if sign == "0" else 16)
                if sign == "u" and 0xD800 <= code < 0xDC00:
                    low = re.compile(r"\\u(d[c-f][0-9a-f]{2})", re.I).match(self.text, self.place)
                    if low:
                        self.place = low.end()
                        code = 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00
                if code > MOST or 0xD800 <= code < 0xE000:
                    raise PatternError(start, f"{code:#x} is no character")
                return chr(code)
        if letter == "c" and self.place < len(self.text):
            self.place += 1
            return chr(ord(self.text[self.place - 1]) ^ 64)
        if not letter:
            raise PatternError(start, "there is nothing after '\\'; write \\\\")
        if letter.isascii() and letter.isalnum():
            raise PatternError(start, f"\\{letter} means nothing; write {letter}")
        return letter

    def _property(self, start: int, negated: bool) -> Chars:
        found = re.compile(r"\{([^{}]*)\}|([A-Za-z])").match(self.text, self.place)
        if found is None:
            raise PatternError(start, "\\p takes a name in braces, such as \\p{L}")
        self.place = found.end()
        name = found[1] if found[1] is not None else found[2]
        if name.startswith("^"):
            raise PatternError(start, f"write \\P{{{name[1:]}}}")
        bare = name[2:] if name.startswith("Is") else name
        bare = re.sub(r"^(?:sc|script|gc|general_category)=", "", bare, flags=re.I)
        if "i" in self.flags and bare in _CASED:
            raise PatternError(start, f"\\p{{{name}}} under (?i) is not supported; write \\p{{L}}")
        if bare in _NAMED and not (name.startswith("Is") and bare not in ("Cc", "Zl", "Zp", "Z")):
            ranges = _NAMED[bare]
            return Chars(inverted(ranges) if negated else ranges)
        script = name != bare and bool(_SCRIPT.fullmatch(bare.capitalize()))
        if not script and not _CATEGORY.fullmatch(bare):
            raise PatternError(
                start,
                f"\\p{{{name}}} is not supported; there are categories such as \\p{{Lu}}, scripts "
                "such as \\p{IsGreek}, and \\p{Alpha} and its kin",
            )
        sign = "P" if negated else "p"
        return Chars((), frozenset((f"\\{sign}{{{bare.capitalize() if script else bare}}}",)))

    def _class(self) -> Chars:
        """Read what is after ``[``, with the ``]``."""
        start = self.place - 1
        negated = self._next() == "^"
        self.place += negated
        found = self._members(start)
        self.place += 1
        if not negated:
            return found
        if found.terms or found.negated:
            return replace(found, negated=not found.negated)
        return Chars(inverted(found.ranges))

    def _members(self, start: int) -> Chars:
        """Read up to the ``]``; ``&&`` meets what is on its left with all that is on its right."""
        found: Chars | None = None
        while True:
            letter = self._next()
            if not letter:
                raise PatternError(start, "'[' is not closed; write \\[")
            if letter == "]" and found is not None:
                return found
            if self._next(2) == "&&":
                return self._met(start, found)
            if letter == "[":
                if re.compile(r"\[:\w+:\]").match(self.text, self.place):
                    raise PatternError(self.place, "[:…:] is not Java's; write \\p{Alpha}")
                self.place += 1
                part = self._class()
            else:
                part = self._range()
            found = part if found is None else self._union(start, found, part)

    def _met(self, start: int, left: Chars | None) -> Chars:
        while self._next(2) == "&&":
            self.place += 2
            if left is None:
                raise PatternError(start, "&& has nothing on its left")
            bracket = self._next() == "["
            if bracket:
                self.place += 1
                right = self._class()
                if self._next() != "]" and self._next(2) != "&&":
                    raise PatternError(self.place, "put what is after && into one pair of […]")
            elif self._next() in ("]", "&"):
                raise PatternError(self.place, "&& has nothing on its right")
            else:
                right = self._members(start)
            if left.terms or right.terms or left.negated or right.negated:
                raise PatternError(
                    start, "&& with \\p{…} is not supported; write the characters themselves"
                )
            low = (*inverted(left.ranges), *inverted(right.ranges))
            left = Chars(inverted(merged(low)))
        assert left is not None
        if self._next() != "]":
            raise PatternError(start, "'[' is not closed; write \\[")
        return left

    def _union(self, start: int, one: Chars, other: Chars) -> Chars:
        if one.negated or other.negated:
            raise PatternError(
                start, "a class with [^…\\p{…}] in it is not supported; write (?:[…]|[^…])"
            )
        return Chars(merged((*one.ranges, *other.ranges)), one.terms | other.terms)

    def _range(self) -> Chars:
        """Read a character, a range or an escape of a class."""
        start = self.place
        first = self._member()
        if isinstance(first, Chars):
            return first
        end = self._next(2)
        if end[:1] != "-" or end[1:] in ("]", "[", ""):
            return self._letter(first)
        self.place += 1
        last = self._member()
        if isinstance(last, Chars) or last < first:
            raise PatternError(start, "a range ends before it begins; write \\- for a hyphen")
        return self._letters(first, last)

    def _member(self) -> str | Chars:
        letter, start = self._next(), self.place
        if not letter:
            raise PatternError(start, "'[' is not closed; write \\[")
        self.place += 1
        if letter != "\\":
            return letter
        kind = self.text[self.place : self.place + 1]
        if kind and kind in "QE":
            raise PatternError(start, "\\Q in […] is not supported; write \\ before each character")
        if kind and (kind.lower() in _SHORT or kind in "pP"):
            return self._escaped_chars(start)
        self.place += 1
        return self._code(start, kind)


_LINE_BREAK = Group(
    None, Choice((Sequence((Chars(of("\r\r")), Chars(of("\n\n")))), Chars(_VERTICAL)))
)
_CODES = {
    "x": r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]+)\}",
    "u": r"([0-9a-fA-F]{4})",
    "0": r"([0-3][0-7]{2}|[0-7]{1,2})",
}
