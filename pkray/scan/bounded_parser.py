"""A bound of what a parser of SQL tries: some texts can be read in very many ways."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.parser import Parser
else:
    Parser = object

MAX_AGAIN = 50
"""How often each token of a text is read again at most, on average; in queries of use it is 0.1."""
_SHORT = 100
"""Tokens that a shorter text counts as."""


class TooManyReadings(Exception):
    """A text that the parser has tried to read in too many ways."""


class BoundedParser(Parser):
    """Mixed into a parser of sqlglot's, which goes back to an earlier token to try another way.

    Where it does so in each of several nested parts, the work doubles with every one of them.
    """

    _tokens_again = 0

    def reset(self) -> None:
        """Begin with another text."""
        super().reset()
        self._tokens_again = 0

    def _retreat(self, index: int) -> None:
        """Go back to an earlier token.

        Raises:
            TooManyReadings: it has gone back too often.
        """
        self._tokens_again += max(self._index - index, 0)
        if self._tokens_again > MAX_AGAIN * max(len(self._tokens), _SHORT):
            raise TooManyReadings
        super()._retreat(index)
