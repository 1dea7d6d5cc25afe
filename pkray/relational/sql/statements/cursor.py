"""A place in the tokens of a text, from which statements are read word by word."""

import re
from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.sql.hints import MISPLACED_HINT
from pkray.relational.sql.parser import as_query, parse_expression, parse_trees
from pkray.relational.sql.statements.kinds import Name

_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)


class Cursor:
    """A place in the tokens of a text, from which statements are read."""

    def __init__(self, tokens: list[Token], text: str, dialect: Dialect) -> None:
        self._tokens = tokens
        self._text = text
        self.dialect = dialect
        self._at = 0

    def is_done(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._tokens)

    def step(self, words: int = 1) -> None:
        """Pass over words, or go back."""
        self._at += words

    @property
    def text(self) -> str:
        """Give the word that comes, as it is written."""
        return str(self._tokens[self._at].text)

    def is_string(self) -> bool:
        """Whether text in quotes comes."""
        return not self.is_done() and self._tokens[self._at].token_type == TokenType.STRING

    def unexpected(self, wanted: str) -> QueryError:
        """Make the error that says what is here instead of what is wanted."""
        if self.is_done():
            return QueryError(f"{wanted}: the text ends too early", **self.place(-1))
        return QueryError(
            f"{wanted}: {self._tokens[self._at].text!r} is not expected here", **self.place()
        )

    def take(self, *words: str) -> bool:
        """Pass over words if they are next."""
        ahead = [self.word(each) for each in range(len(words))]
        if ahead != list(words):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Pass over words; refuse others."""
        if not self.take(*words):
            raise self.unexpected(f"{' '.join(words)} is expected")

    def word(self, ahead: int = 0) -> str:
        """Give a word ahead in upper case; nothing at the end, and for what is quoted."""
        at = self._at + ahead
        if at >= len(self._tokens) or self._tokens[at].token_type in _QUOTED:
            return ""
        return str(self._tokens[at].text).upper()

    def place(self, ahead: int = 0) -> dict[str, int]:
        """Say where a word stands, as values of an error."""
        at = min(max(self._at + ahead, 0), len(self._tokens) - 1)
        token = self._tokens[at]
        return {"line": token.line, "column": token.col - (token.end - token.start)}

    def string(self, what: str) -> str:
        """Take text in quotes."""
        if not self.is_string():
            raise self.unexpected(f"{what} in quotes is expected")
        self._at += 1
        return str(self._tokens[self._at - 1].text)

    def identifier(self, what: str) -> str:
        """Take a name."""
        if self.is_done():
            raise self.unexpected(f"the name of {what} is expected")
        token = self._tokens[self._at]
        plain = token.token_type in (TokenType.IDENTIFIER, TokenType.VAR)
        plain = plain or str(token.text).replace("$", "_").isidentifier()
        if not plain or token.token_type == TokenType.STRING:
            raise self.unexpected(f"the name of {what} is expected")
        self._at += 1
        return str(token.text)

    def name(self, what: str) -> Name:
        """Take a name, perhaps with a database before it."""
        parts = [self.identifier(what)]
        while self.take("."):
            parts.append(self.identifier(what))
        if len(parts) > 2:
            raise QueryError(
                f"{'.'.join(parts)} has more parts than a database and a name", **self.place(-1)
            )
        return tuple(parts)

    def listed(self, what: str, read: Callable[[], object]) -> list[object]:
        """Take what stands in parentheses, between commas."""
        self.expect("(")
        found = [read()]
        while self.take(","):
            found.append(read())
        if not self.take(")"):
            raise self.unexpected(f"',' or ')' is expected after {what}")
        return found

    def names(self, what: str) -> tuple[str, ...]:
        """Take names in parentheses."""
        return tuple(str(each) for each in self.listed(what, lambda: self.identifier(what)))

    def until(self, *stops: str, is_type: bool = False) -> str:
        """Take the text before one of some words, outside of parentheses; what is before it in the
        whole text becomes blanks, so that places are told as they are.
        """
        if not self.is_done() and self._tokens[self._at].token_type == TokenType.HINT:
            raise self.unexpected(MISPLACED_HINT)
        start, depth = self._at, 0
        opening, closing = ("(<[", ")>]") if is_type else ("([", ")]")
        while not self.is_done():
            word = self.word()
            if depth == 0 and (word in stops or f"{word} {self.word(1)}" in stops):
                break
            depth += (word != "" and word in opening) - (word != "" and word in closing)
            if depth < 0:
                break
            self._at += 1
        tokens = self._tokens[start : self._at]
        if not tokens:
            raise self.unexpected("something is missing")
        begin, end = tokens[0].start, tokens[-1].end + 1
        return re.sub(r"[^\n]", " ", self._text[:begin]) + self._text[begin:end]

    def tree(self, *stops: str) -> exp.Query:
        """Read the query that comes."""
        return as_query(self.parsed(self.until(";", *stops)))

    def parsed(self, text: str) -> exp.Expr:
        """Parse text by the parser of queries."""
        (tree,) = parse_trees(text, self.dialect)
        return tree

    def expression(self, *stops: str) -> exp.Expr:
        """Read the expression that comes."""
        return parse_expression(self.until(",", ")", *stops), self.dialect)

    def option_key(self) -> str:
        """Take an option's name."""
        if self.is_string():
            return self.string("an option")
        return "".join(self.until("=", ",", ")", ";").split())

    def option_value(self, *stops: str) -> str:
        """Take an option's value."""
        if self.is_string():
            return self.string("a value")
        return self.until(*stops).strip()

    def takes_in(self) -> bool:
        """Pass over IN or FROM, if it is next."""
        return self.take("IN") or self.take("FROM")

    def takes_like(self) -> bool:
        """Pass over LIKE, if it is next; whether a pattern follows."""
        pattern = self.is_string()
        return self.take("LIKE") or pattern

    def field(self) -> str:
        """Take the name of a column, or of a field in it."""
        parts = [self.identifier("a column")]
        while self.take("."):
            parts.append(self.identifier("a field"))
        return ".".join(parts)
