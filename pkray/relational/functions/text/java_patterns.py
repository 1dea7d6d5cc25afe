"""Java's regular expressions, written as RE2's.

RE2 matches in time that is linear in the text, and has no looking around and no back-references.
What it reads otherwise than Java (``$``, ``.``, ``\\s``, flags, classes) is written so that it
means the same. Text whose last line has an end needs a `LineEnd`: Java's ``$`` is true before it,
which RE2 knows of ``\\n`` alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from pkray.relational.functions.text import java_pattern_tree as tree
from pkray.relational.functions.text.java_pattern_parser import Parser


@dataclass(frozen=True)
class LineEnd:
    """Marks the ends of lines so that RE2's ``(?m)$`` is true where Java's ``$`` is.

    Attributes:
        first: the first character of the end of the text's last line; ``\\n`` stands for it there.
        stand_in: the character that stands for every other ``\\n``; no text has it.
    """

    first: str
    stand_in: str


def _shown(code: int) -> str:
    letter = chr(code)
    return letter if letter.isascii() and letter.isalnum() else f"\\x{{{code:x}}}"


def _class_text(chars: tree.Chars) -> str:
    if chars.ranges == ((0, tree.MOST),):
        chars = tree.Chars(negated=not chars.negated)
    if not chars.ranges and not chars.terms:
        return r"(?s:.)" if chars.negated else r"[^\x00-\x{10ffff}]"
    if not chars.negated and not chars.terms and len(chars.ranges) == 1:
        (low, high), *_ = chars.ranges
        if low == high:
            return _shown(low)
    inside = "".join(
        _shown(low) if low == high else f"{_shown(low)}-{_shown(high)}"
        for low, high in chars.ranges
    )
    return f"[{'^' if chars.negated else ''}{inside}{''.join(sorted(chars.terms))}]"


def _placed(chars: tree.Chars, end: LineEnd) -> tree.Chars:
    """Write characters as they are in text with this end."""
    gone = [(ord(each), ord(each)) for each in ("\n", end.stand_in)]
    kept = tree.inverted(tree.merged((*tree.inverted(chars.ranges), *gone)))
    moved = (("\n", end.stand_in), (end.first, "\n"))
    new = [(ord(to),) * 2 for each, to in moved if tree.has(chars.ranges, each)]
    return replace(chars, ranges=tree.merged((*kept, *new)))


def written(node: tree.Node, groups: Mapping[int, str], end: LineEnd | None) -> str:
    """Write a tree for RE2.

    Args:
        groups: what begins the groups that capture, by number: ``(`` or ``(?P<part>``.
        end: how text is written whose last line has an end; None: it has none.
    """
    match node:
        case tree.Chars():
            return _class_text(_placed(node, end) if end else node)
        case tree.Assertion("^"):
            return r"\A"
        case tree.Assertion("$"):
            return "(?m:$)" if end else r"\z"
        case tree.Assertion(kind):
            return f"\\{kind}"
        case tree.Group(number, body):
            start = "(?:" if number is None else groups.get(number, "(?:")
            return f"{start}{written(body, groups, end)})"
        case tree.Sequence(parts):
            return "".join(
                f"(?:{written(each, groups, end)})"
                if isinstance(each, tree.Choice)
                else written(each, groups, end)
                for each in parts
            )
        case tree.Choice(parts):
            return "|".join(written(each, groups, end) for each in parts)
        case tree.Repeat(body, least, most, lazy):
            inside = written(body, groups, end)
            if not isinstance(body, tree.Chars | tree.Group):
                inside = f"(?:{inside})"
            known = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
            upper = "" if most == least else "," if most is None else f",{most}"
            return f"{inside}{known or f'{{{least}{upper}}}'}{'?' if lazy else ''}"


@dataclass(frozen=True)
class Pattern:
    """A pattern of Java.

    Attributes:
        text: as it was given.
        groups: how many there are.
        names: numbers of those that have a name.
        has_end: whether it asks for the end before a last line end: ``$``, ``\\Z``.
        empty: the conditions under which it matches nothing; None if it never does.
        unlike: groups that cannot be asked for.
    """

    text: str
    root: tree.Node
    groups: int
    names: Mapping[str, int]
    has_end: bool
    empty: tree.Node | None
    unlike: frozenset[int]

    def re2(self, captured: Iterable[int] = (), end: LineEnd | None = None) -> str:
        """Write it for RE2; the groups `captured` capture, in their order (0: all)."""
        groups = dict.fromkeys(captured, "(")
        inside = written(self.root, groups, end)
        return f"({inside})" if 0 in groups else inside

    def re2_part(self, wanted: int, end: LineEnd | None = None) -> str:
        """Write it for RE2 with one group, called ``part``."""
        inside = written(self.root, {wanted: "(?P<part>"}, end)
        return inside if wanted else f"(?P<part>{inside})"

    def re2_empty(self, end: LineEnd | None = None) -> str | None:
        """Write what matches nothing wherever this can; None if it never does."""
        return None if self.empty is None else written(self.empty, {}, end)


@lru_cache(1024)
def parsed(text: str) -> Pattern:
    """Read a pattern.

    Raises:
        PatternError: Java or RE2 has no such pattern.
    """
    parser = Parser(text)
    root = parser.whole()
    has_end = tree.any_node(root, lambda node: node == tree.Assertion("$"))
    empty = tree.empty_part(root)
    if empty and tree.any_node(empty, lambda node: node == tree.Assertion("B")):
        raise tree.PatternError(
            text.index("\\B"), "\\B is not supported where all else may be empty"
        )
    unlike = frozenset(tree.groups_of(root))
    return Pattern(text, root, parser.groups, parser.names, has_end, empty, unlike)
