"""Hints on tables: ``/*+ OPTIONS('key' = 'value') */``."""

from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from pkray.errors import QueryError

MISPLACED_HINT = "a hint stands after SELECT or after the name of a table that is read"
HINTS = ("STATE_TTL", "STATEFUL", "LOOKUP", "UPDATES", "OPTIONS")


def hint_options(hint: exp.Anonymous) -> dict[str, str]:
    """List the options of a hint: ``OPTIONS('k' = 'v')``."""
    return {pair.this.name: pair.expression.name for pair in hint.expressions}


def read_hint(token: Token, parser: SparkParser) -> exp.Hint:
    """Read the hints of one comment."""
    text = token.comments[0] if token.comments else ""
    where = {"line": token.line, "column": token.col - (token.end - token.start)}
    try:
        tokens = parser.dialect.tokenize(text)
    except TokenError:
        raise QueryError("a string or a name of a hint is not closed", **where) from None
    hints: list[exp.Expr] = []
    index = 0
    while index < len(tokens):
        if tokens[index].token_type == TokenType.COMMA and hints:
            index += 1
            continue
        name = tokens[index].text.upper()
        if name not in HINTS:
            raise QueryError(
                f"no hint is called {tokens[index].text}: known are {', '.join(HINTS)}, as in "
                "/*+ OPTIONS('key' = 'value') */",
                **where,
            )
        end = _closing(tokens, index + 1)
        options = _hint_options(tokens[index + 2 : end], name, where)
        hints.append(exp.Anonymous(this=name, expressions=options))
        index = end + 1
    return exp.Hint(expressions=hints)


def _closing(tokens: list[Token], index: int) -> int:
    opens = index < len(tokens) and tokens[index].token_type == TokenType.L_PAREN
    ends = (end for end in range(index, len(tokens)) if tokens[end].token_type == TokenType.R_PAREN)
    return next(ends, len(tokens)) if opens else len(tokens)


def _hint_options(tokens: list[Token], name: str, where: dict[str, int]) -> list[exp.Expr]:
    pairs: list[exp.Expr] = []
    named: set[str] = set()
    kinds = [token.token_type for token in tokens]
    for start in range(0, max(len(tokens), 1), 4):
        whole = len(tokens) > start + 2
        wanted = [TokenType.EQ] + [TokenType.COMMA] * (start + 3 < len(tokens))
        if not whole or [*kinds[start + 1 : start + 2], *kinds[start + 3 : start + 4]] != wanted:
            raise QueryError(
                f"hint {name} is not understood: write {name}('key' = 'value', …)", **where
            )
        key, value = tokens[start].text, tokens[start + 2].text
        if key in named:
            raise QueryError(f"hint {name} names {key!r} twice: keep one", **where)
        named.add(key)
        pairs.append(exp.EQ(this=exp.Literal.string(key), expression=exp.Literal.string(value)))
    return pairs
