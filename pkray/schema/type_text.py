"""Reads the tokens of a column type's SQL text, such as ``DECIMAL(20, 4) NOT NULL``."""

import re
from collections.abc import Iterator

from pkray.errors import SchemaError

_SHOWN = 200
"""Characters of a text that an error repeats."""
_TOKEN = re.compile(r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<word>\w+)|(?P<mark>[<>(),]))")


class TypeText:
    """The tokens of a type's text, taken one after the other.

    Raises:
        SchemaError: the text holds characters that no type has.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._tokenise(text))
        self._next = 0
        self._field_id = 0

    def _tokenise(self, text: str) -> Iterator[str]:
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise self.error(f"unexpected {text[position:].strip()[:10]!r}")
            yield match.group().strip()
            position = match.end()

    def error(self, reason: str) -> SchemaError:
        """Make the error that says why the text is no type."""
        return SchemaError(
            f"{self._text[:_SHOWN]!r} is not a type: {reason}; "
            "write for example BIGINT NOT NULL, DECIMAL(20, 4) or TIMESTAMP(6)",
            value=self._text,
        )

    def take(self) -> str:
        """Take the next token."""
        if self._next == len(self._tokens):
            raise self.error("it ends too early")
        self._next += 1
        return self._tokens[self._next - 1]

    def accept(self, *words: str) -> bool:
        """Take the words if they come next, whatever their case; whether they do."""
        found = self._tokens[self._next : self._next + len(words)]
        if tuple(token.upper() for token in found) != words:
            return False
        self._next += len(words)
        return True

    def expect(self, mark: str) -> None:
        """Take a mark that has to come next."""
        if not self.accept(mark):
            raise self.error(f"{mark!r} is missing")

    def expect_end(self) -> None:
        """Raise an error if tokens are left."""
        if self._next < len(self._tokens):
            raise self.error(f"unexpected {self._tokens[self._next]!r}")

    def numbers(self, most: int) -> list[int]:
        """Take up to ``most`` numbers in parentheses, if there are any."""
        if not self.accept("("):
            return []
        numbers = [self._number()]
        while len(numbers) < most and self.accept(","):
            numbers.append(self._number())
        self.expect(")")
        return numbers

    def _number(self) -> int:
        token = self.take()
        if not token.isdecimal():
            raise self.error(f"a number is expected, not {token!r}")
        return int(token)

    def field(self) -> tuple[int, str]:
        """Take the name of a ROW's field, and number it."""
        name = self.take()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        field_id, self._field_id = self._field_id, self._field_id + 1
        return field_id, name
