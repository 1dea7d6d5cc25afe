"""Reading of queries as trees, and refusals that say where."""

from collections.abc import Iterator
from itertools import groupby
from typing import cast

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.sql.chains import flattened
from pkray.relational.sql.dialects import DIALECTS
from pkray.relational.sql.hints import MISPLACED_HINT
from pkray.relational.sql.places import wrong
from pkray.scan.bounded_parser import TooManyReadings

MAX_DEPTH = 160
"""Most levels of syntax in each other: what reads plans recurses three to six calls a level."""


def parse_query(text: str, dialect: Dialect) -> exp.Query:
    """Read one query: SELECT, VALUES, WITH or a set operation.

    Raises:
        QueryError: it is no query, or more than one.
    """
    trees = parse_trees(text, dialect)
    if len(trees) != 1:
        raise QueryError(f"one query is expected, not {len(trees)}: leave out the semicolons")
    return as_query(trees[0])


def as_query(tree: exp.Expr) -> exp.Query:
    """Take a syntax tree that is a query; VALUES become SELECT * FROM VALUES."""
    if isinstance(tree, exp.Values):
        return exp.select("*").from_(tree)
    if isinstance(tree, exp.Query):
        return tree
    raise wrong(
        f"a query is expected, not {tree.key.upper()}: begin with SELECT, WITH or VALUES", tree
    )


def parse_expression(text: str, dialect: Dialect) -> exp.Expr:
    """Read one expression, with an alias if it has one: ``a + 1 AS b``."""
    prefix = "SELECT "
    trees = parse_trees(prefix + text, dialect, shift=len(prefix))
    select = trees[0]
    alone = (
        len(trees) == 1
        and isinstance(select, exp.Select)
        and len(select.expressions) == 1
        and not any(value for name, value in select.args.items() if name != "expressions")
    )
    if not alone:
        raise QueryError(f"one expression is expected, not {text!r}")
    return cast("exp.Expr", select.expressions[0].pop())


def parse_trees(text: str, dialect: Dialect, shift: int = 0) -> list[exp.Expr]:
    """Read statements that are divided by semicolons.

    Args:
        shift: characters of the first line that the user has not written.

    Raises:
        QueryError: it is not understood; with line and column.
    """
    tokens = tokenize(text, dialect, shift)
    return [parse_tokens(chunk, text, dialect, shift) for chunk in _chunks(tokens)]


def tokenize(text: str, dialect: Dialect, shift: int = 0) -> list[Token]:
    """Cut text into tokens; `shift` is that of `parse_trees`."""
    try:
        tokens = DIALECTS[dialect]().tokenize(text)
    except TokenError as error:
        if isinstance(error.__cause__, RecursionError):
            raise _too_deep() from None
        line, column = _unfinished(text)
        raise QueryError(
            "the text ends within a string, a quoted name or a comment: close it",
            line=line,
            column=column - (shift if line == 1 else 0),
        ) from error
    if text.lstrip().startswith("/*+"):  # the tokenizer takes it for a comment
        before = text[: text.index("/*+")].split("\n")
        raise QueryError(MISPLACED_HINT, line=len(before), column=len(before[-1]) + 1)
    for previous, token in zip([None, *tokens], tokens, strict=False):
        if token.token_type in _PARAMETERS or _is_named(previous, token, text):
            column = token.col - (token.end - token.start)
            raise UnsupportedError(
                f"parameters such as {token.text} are not offered: write the value itself",
                line=token.line,
                column=column - (shift if token.line == 1 else 0),
            )
    return tokens


_PARAMETERS = (TokenType.PARAMETER, TokenType.PLACEHOLDER)
_VALUES = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING)


def _is_named(before: Token | None, token: Token, text: str) -> bool:
    """Whether it begins ``:name``, where a value is expected."""
    if token.token_type != TokenType.COLON or not text[token.end + 1 : token.end + 2].isalpha():
        return False
    ends = (*_VALUES, TokenType.R_PAREN, TokenType.R_BRACKET)
    return before is not None and before.token_type not in ends


def parse_tokens(tokens: list[Token], text: str, dialect: Dialect, shift: int = 0) -> exp.Expr:
    """Read one statement."""
    try:
        tree = DIALECTS[dialect]().parser().parse(tokens, text)[0]
    except ParseError as error:
        raise _refusal(error, text, shift) from None
    except (RecursionError, TokenError):  # tokens of a tree's parts are cut where it is deep
        raise _too_deep() from None
    except TooManyReadings:
        raise QueryError(
            "the text can be read in too many ways: nest its parts less, or name them in WITH "
            "clauses"
        ) from None
    if tree is None:
        raise QueryError("the text holds no statement")
    if shift:
        _shift(tree, shift)
    tree = flattened(tree)
    check_depth(tree)
    return tree


def _shift(tree: exp.Expr, shift: int) -> None:
    """Count columns of the first line from where the user's text begins."""
    for part in tree.walk():
        if part.meta.get("line") == 1:
            part.meta["col"] -= shift


def check_depth(tree: exp.Expr) -> None:
    """Check that a tree is not too deep to work on."""
    level: list[exp.Expr] = [tree]
    for _ in range(MAX_DEPTH):
        if not level:
            return
        level = [child for node in level for child in node.iter_expressions()]
    raise _too_deep()


def _too_deep() -> QueryError:
    return QueryError(
        f"the query is nested deeper than {MAX_DEPTH} levels: name parts of it in WITH clauses, "
        "or use IN (…) in the place of many ORs"
    )


def _chunks(tokens: list[Token]) -> Iterator[list[Token]]:
    for ends, chunk in groupby(tokens, lambda token: token.token_type == TokenType.SEMICOLON):
        if not ends:
            yield list(chunk)


def _refusal(error: ParseError, text: str, shift: int) -> QueryError:
    first = error.errors[0]
    near = str(first.get("highlight") or "").strip()
    line, column = int(first.get("line") or 1), int(first.get("col") or 1)
    column = max(column - max(len(near) - 1, 0) - (shift if line == 1 else 0), 1)
    if near.startswith("/*+"):
        said = MISPLACED_HINT
    elif first["description"].startswith("Required keyword"):
        said = f"something is missing near {near!r}" if near else "the text ends too early"
    elif first["description"].startswith("Invalid expression"):
        said = f"{near!r} is not expected here" if near else "the text ends too early"
    else:
        said = first["description"].rstrip(".").split(" but got <Token")[0]
        said = said[0].lower() + said[1:] + (f", near {near!r}" if near else "")
    remedy = next((each for sign, each in _REMEDIES if sign in text.upper()), "")
    return QueryError(said + remedy, line=line, column=column)


_REMEDIES = (
    ("MATCH_RECOGNIZE", "; MATCH_RECOGNIZE is not offered: write joins or window functions"),
)


def _unfinished(text: str) -> tuple[int, int]:
    """Find where the last string, quoted name or comment begins that is not closed."""
    closing = {"'": "'", '"': '"', "`": "`", "/*": "*/", "--": "\n"}
    place = 0
    while place < len(text):
        opening = next((sign for sign in closing if text.startswith(sign, place)), None)
        if opening is None:
            place += 1
            continue
        end = text.find(closing[opening], place + len(opening))
        if end < 0:
            break
        place = end + len(closing[opening])
    before = text[:place]
    return before.count("\n") + 1, place - (before.rfind("\n") + 1) + 1
