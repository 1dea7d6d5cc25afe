"""Reading of queries: the two dialects as sqlglot parsers, and refusals that say where.

Functions are kept as they are written (``exp.Anonymous``): which there are and what they mean is
told by ``pkray.relational.functions`` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, cast

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.generator import Generator
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parser import Parser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect

MAX_DEPTH = 160
"""Most levels of syntax in each other: what reads plans recurses three to six calls a level."""

_COMPARISONS = {
    TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE,
    TokenType.NULLSAFE_EQ, TokenType.LIKE, TokenType.ILIKE,
}  # fmt: skip
WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
MISPLACED_HINT = "a hint stands after SELECT or after the name of a table that is read"
HINTS = ("STATE_TTL", "OPTIONS")


class TableArgument(exp.Expression):
    """``TABLE t [PARTITION BY …]`` as an argument of a table function."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "partition_by": False}


class UnsignedShift(exp.Expression):
    """The right side of ``a >>> b``, which the parser reads as ``a >> (> b)``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class _Parser(SparkParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CAST": SparkParser.FUNCTION_PARSERS["CAST"],
        "TRY_CAST": SparkParser.FUNCTION_PARSERS["TRY_CAST"],
        "EXTRACT": SparkParser.FUNCTION_PARSERS["EXTRACT"],
        "TRIM": SparkParser.FUNCTION_PARSERS["TRIM"],
        "POSITION": lambda self: self._parse_position_call(),
        "SUBSTRING": lambda self: self._parse_substring_call("SUBSTRING"),
        "SUBSTR": lambda self: self._parse_substring_call("SUBSTR"),
        "OVERLAY": SparkParser.FUNCTION_PARSERS["OVERLAY"],
        "CEIL": lambda self: self._parse_rounding("CEIL", exp.Ceil),
        "FLOOR": lambda self: self._parse_rounding("FLOOR", exp.Floor),
        "JSON_VALUE": lambda self: self._parse_json_value_call(),
        **{
            name: (lambda self, name=name: self._parse_window_function(name))
            for name in WINDOW_FUNCTIONS
        },
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {
        token: (lambda name=token.name: exp.Anonymous(this=name))
        for token in (
            TokenType.CURRENT_DATE,
            TokenType.CURRENT_TIME,
            TokenType.CURRENT_TIMESTAMP,
            TokenType.LOCALTIME,
            TokenType.LOCALTIMESTAMP,
            TokenType.CURRENT_USER,
        )
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"],
        "ANY": lambda self: self._parse_any(),
    }
    FUNC_TOKENS: ClassVar[set[TokenType]] = {*SparkParser.FUNC_TOKENS, TokenType.SESSION}
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {"ARRAY": exp.Array}
    TYPE_LITERAL_PARSERS: ClassVar[dict[Any, Any]] = {
        kind: lambda self, text, to: _typed_literal(text, to)
        for kind in (
            exp.DType.DATE,
            exp.DType.TIME,
            exp.DType.TIMESTAMP,
            exp.DType.TIMESTAMPTZ,
            exp.DType.TIMESTAMPLTZ,
            exp.DType.TIMESTAMPNTZ,
        )
    }
    _table_hint: exp.Hint | None = None

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """Read ``ARRAY[…]`` alone as a new array; ``array(…)[…]`` and ``t.array[…]`` take one."""
        is_word = isinstance(this, exp.Column) and not this.table and not this.this.quoted
        if this is not None and not is_word and this.name.upper() in self.ARRAY_CONSTRUCTORS:
            this = exp.Paren(this=this)
            found = super()._parse_bracket(this)
            return this.this if found is this else found
        return super()._parse_bracket(this)

    def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
        before = self._tokens[max(self._index - 2, 0) : self._index + 1]
        if [each.token_type for each in before] == [TokenType.GT] * 3:
            self._advance()
            return self.expression(UnsignedShift(this=super()._parse_term(parse_mod)))
        return super()._parse_term(parse_mod)

    def _parse_statement(self) -> exp.Expr | None:
        if self._begins_table():
            return self._parse_query_modifiers(self._parse_set_operations(self._parse_select()))
        return super()._parse_statement()

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """Read ``TABLE t`` as a query of all its rows."""
        if not self._begins_table():
            return super()._parse_select(*args, **kwargs)
        self._advance()
        return exp.select("*").from_(cast("exp.Expr", self._parse_table_parts()))

    def _begins_table(self) -> bool:
        named = self._next and self._next.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
        return bool(named) and self._curr.token_type == TokenType.TABLE

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        token = self._curr
        call = super()._parse_function_call(*args, **kwargs)
        node = call
        while isinstance(node, exp.Window | exp.Filter | exp.WithinGroup | exp.IgnoreNulls):
            node = node.this
        if isinstance(node, exp.Expr) and "line" not in node.meta:
            node.update_positions(token)
        return call

    def _parse_window_function(self, name: str) -> exp.Anonymous:
        arguments = self._parse_csv(self._parse_table_function_argument)
        return self.expression(exp.Anonymous(this=name, expressions=arguments))

    def _parse_table_function_argument(self) -> exp.Expr | None:
        if self._next.token_type == TokenType.FARROW:
            name = exp.Var(this=self._curr.text.upper()).update_positions(self._curr)
            self._advance(2)
            value = self._parse_table_function_argument()
            return self.expression(exp.Kwarg(this=name, expression=value))
        if self._curr.token_type == TokenType.TABLE:
            nested = self._next.token_type == TokenType.L_PAREN
            self._advance()
            table = self._parse_lambda() if nested else self._parse_table_parts()
            partition = self._parse_partition_columns()
            return self.expression(TableArgument(this=table, partition_by=partition or None))
        return self._parse_lambda()

    def _parse_partition_columns(self) -> list[exp.Expr]:
        """Read PARTITION BY up to the next argument: ``PARTITION BY a, b, DESCRIPTOR(c)``."""
        columns: list[exp.Expr] = []
        if not self._match(TokenType.PARTITION_BY):
            return columns
        while True:
            column = self._parse_column()
            if column is None:
                self.raise_error("a column is expected after PARTITION BY")
                return columns
            inner = column.expressions if isinstance(column, exp.Tuple) else [column.unnest()]
            columns += inner
            after = self._tokens[self._index + 1 : self._index + 3]
            ends = not after or after[0].text.upper() in ("DESCRIPTOR", "INTERVAL")
            named = len(after) == 2 and after[1].token_type == TokenType.FARROW
            if ends or named or not self._match(TokenType.COMMA):
                return columns

    def _parse_substring_call(self, name: str) -> exp.Anonymous:
        call = self._parse_substring()
        parts = [call.this, call.args.get("start"), call.args.get("length")]
        return exp.Anonymous(this=name, expressions=[part for part in parts if part is not None])

    def _parse_position_call(self) -> exp.Anonymous:
        call = self._parse_position()
        parts = [call.args.get("substr"), call.this, call.args.get("position")]
        return exp.Anonymous(
            this="POSITION", expressions=[part for part in parts if part is not None]
        )

    def _parse_rounding(self, name: str, kind: type[exp.Ceil | exp.Floor]) -> exp.Expr:
        """Read ``CEIL(x)``, or ``CEIL(time TO HOUR)``."""
        arguments = self._parse_csv(self._parse_lambda)
        if arguments and self._match_text_seq("TO"):
            return self.expression(kind(this=arguments[0], to=self._parse_var(any_token=True)))
        return exp.Anonymous(this=name, expressions=arguments)

    def _parse_json_value_call(self) -> exp.Expr:
        """Read ``JSON_VALUE(json, path [RETURNING type])``: what does not fit the type is NULL."""
        call = exp.Anonymous(this="JSON_VALUE", expressions=self._parse_csv(self._parse_lambda))
        if self._match_text_seq("RETURNING"):
            return self.expression(exp.TryCast(this=call, to=self._parse_types()))
        return call

    def _parse_any(self) -> exp.Expr:
        """Read ``= ANY (…)``; without a comparison before it, it is an aggregate."""
        before = self._tokens[self._index - 2].token_type if self._index > 1 else None
        if before in _COMPARISONS or self._curr.token_type != TokenType.L_PAREN:
            return self.expression(exp.Any(this=self._parse_bitwise()))
        arguments = self._parse_wrapped_csv(self._parse_lambda)
        return self.expression(exp.Anonymous(this="ANY", expressions=arguments))

    def _read_row_type(self) -> None:
        """Take ``ROW<`` as the beginning of a type."""
        if self._curr.token_type == TokenType.ROW and self._next.token_type == TokenType.LT:
            self._curr.token_type = TokenType.STRUCT

    def _parse_csv(self, parse_method: Any, *args: Any, **kwargs: Any) -> Any:
        read: list[Any] = []

        def entry() -> Any:
            read.append(parse_method())
            return read[-1]

        found = super()._parse_csv(entry, *args, **kwargs)
        if len(read) > 1 and None in read:
            self.raise_error("an entry is missing beside a comma")
        return found

    def _parse_hint(self) -> exp.Hint | None:
        if self._curr.token_type != TokenType.HINT:
            return None
        token = self._curr
        self._advance()
        self._prev_comments = []
        return _hint(token, self)

    def _parse_table_parts(self, *args: Any, **kwargs: Any) -> Any:
        table = super()._parse_table_parts(*args, **kwargs)
        if not kwargs.get("fast"):
            self._table_hint = self._parse_hint()
        return table

    def _parse_table_hints(self) -> list[exp.Expr] | None:
        hints = [hint for hint in (self._table_hint, self._parse_hint()) if hint is not None]
        self._table_hint = None
        return cast("list[exp.Expr]", hints) or None


class _SparkParser(_Parser):
    def _parse_group(self, *args: Any, **kwargs: Any) -> exp.Group | None:
        """Read ``GROUP BY window(…)``, where WINDOW could begin a clause."""
        words = self._tokens[self._index : self._index + 3]
        kinds = [TokenType.GROUP_BY, TokenType.WINDOW, TokenType.L_PAREN]
        if [each.token_type for each in words] == kinds:
            words[1].token_type = TokenType.VAR
        return super()._parse_group(*args, **kwargs)

    def _parse_types(self, *args: Any, **kwargs: Any) -> Any:
        self._read_row_type()
        return super()._parse_types(*args, **kwargs)

    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        **_Parser.FUNCTION_PARSERS,
        **{
            name: (lambda self, name=name: self._parse_cast_function(name))
            for name in (
                *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"),
                *("STRING", "BINARY", "DATE", "TIMESTAMP"),
            )
        },
    }

    def _parse_cast_function(self, name: str) -> exp.Expr:
        """Read ``date(x)`` as a cast."""
        arguments = self._parse_csv(self._parse_lambda)
        if len(arguments) != 1:
            return exp.Anonymous(this=name, expressions=arguments)
        kind = exp.DataType.build(name, dialect="spark")
        return self.expression(exp.Cast(this=arguments[0], to=kind))


class _FlinkParser(_Parser):
    def _parse_types(self, *args: Any, **kwargs: Any) -> Any:
        self._read_row_type()
        if self._curr.text.upper() == "MULTISET" and self._next.token_type == TokenType.LT:
            where = {"line": self._curr.line, "column": self._curr.col - 7}
            raise UnsupportedError("there is no type MULTISET: write ARRAY or MAP", **where)
        return Parser._parse_types(self, *args, **kwargs)


class _Generator(SparkGenerator):
    TABLE_HINTS = True
    UNNEST_WITH_ORDINALITY = True
    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        **{
            kind: text for kind, text in SparkGenerator.TRANSFORMS.items() if kind is not exp.Select
        },
        exp.Unnest: Generator.unnest_sql,
        exp.BitwiseRightShift: lambda self, node: self.func(
            "shiftright" + "unsigned" * isinstance(node.expression, UnsignedShift),
            node.this,
            node.expression,
        ),
        UnsignedShift: lambda self, node: self.sql(node, "this"),
        TableArgument: lambda self, node: (
            f"TABLE {self.sql(node, 'this')}"
            + (
                f" PARTITION BY {self.expressions(node, key='partition_by', flat=True)}"
                if node.args.get("partition_by")
                else ""
            )
        ),
    }

    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[Any]] = set()

    def datatype_sql(self, expression: exp.DataType) -> str:
        """Write a type with all of its parameters, which Spark's own leave out."""
        name = _TYPE_NAMES.get(expression.this)
        if name is None:
            return str(super().datatype_sql(expression))
        inside = self.expressions(expression, flat=True)
        return f"{name}({inside})" if inside else name


_TYPE_NAMES = {
    exp.DType.TIMESTAMPNTZ: "TIMESTAMP_NTZ",
    exp.DType.TIMESTAMPLTZ: "TIMESTAMP_LTZ",
    exp.DType.TIMESTAMPTZ: "TIMESTAMP",
    exp.DType.TIMESTAMP: "TIMESTAMP",
    exp.DType.TIME: "TIME",
    exp.DType.CHAR: "CHAR",
    exp.DType.VARCHAR: "VARCHAR",
    exp.DType.VARBINARY: "VARBINARY",
    exp.DType.LONGBLOB: "BYTES",
}


class PkraySpark(Spark):
    """Spark SQL with window table functions and hints on tables."""

    class Tokenizer(Spark.Tokenizer):
        TOKENS_PRECEDING_HINT: ClassVar[set[TokenType]] = set(TokenType)
        VAR_SINGLE_TOKENS: ClassVar[set[str]] = {"$"}  # t$snapshots
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']  # a doubled quote is a quote
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **Spark.Tokenizer.KEYWORDS,
            "BYTES": TokenType.LONGBLOB,
        }

    Parser = _SparkParser
    Generator = _Generator


class PkrayFlink(Spark):
    """Flink SQL: quotes are doubled, backslashes are plain, TIMESTAMP has no time zone."""

    class Tokenizer(Spark.Tokenizer):
        TOKENS_PRECEDING_HINT: ClassVar[set[TokenType]] = set(TokenType)
        VAR_SINGLE_TOKENS: ClassVar[set[str]] = {"$"}  # t$snapshots
        QUOTES: ClassVar[list[Any]] = ["'"]
        STRING_ESCAPES: ClassVar[list[str]] = ["'"]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **Spark.Tokenizer.KEYWORDS,
            "BYTES": TokenType.LONGBLOB,
            "TIMESTAMP": TokenType.TIMESTAMP,
        }

    SUPPORTS_USER_DEFINED_TYPES = True
    UNESCAPED_SEQUENCES = {}  # noqa: RUF012
    Parser = _FlinkParser
    Generator = _Generator


DIALECTS = {Dialect.SPARK: PkraySpark, Dialect.FLINK: PkrayFlink}


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
    raise QueryError(
        f"a query is expected, not {tree.key.upper()}: begin with SELECT, WITH or VALUES",
        **position(tree),
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
    tokens = tokenize(text, dialect)
    return [parse_tokens(chunk, text, dialect, shift) for chunk in _chunks(tokens)]


def tokenize(text: str, dialect: Dialect) -> list[Token]:
    """Cut text into tokens."""
    try:
        tokens = DIALECTS[dialect]().tokenize(text)
    except TokenError as error:
        line, column = _unfinished(text)
        raise QueryError(
            "the text ends within a string, a quoted name or a comment: close it",
            line=line,
            column=column,
        ) from error
    if text.lstrip().startswith("/*+"):  # the tokenizer takes it for a comment
        before = text[: text.index("/*+")].split("\n")
        raise QueryError(MISPLACED_HINT, line=len(before), column=len(before[-1]) + 1)
    for token in tokens:
        if token.token_type in (TokenType.PARAMETER, TokenType.PLACEHOLDER):
            raise UnsupportedError(
                f"parameters such as {token.text} are not offered: write the value itself",
                line=token.line,
                column=token.col - (token.end - token.start),
            )
    return tokens


def parse_tokens(tokens: list[Token], text: str, dialect: Dialect, shift: int = 0) -> exp.Expr:
    """Read one statement."""
    try:
        tree = DIALECTS[dialect]().parser().parse(tokens, text)[0]
    except ParseError as error:
        raise _refusal(error, text, shift) from None
    except RecursionError:
        raise _too_deep() from None
    if tree is None:
        raise QueryError("the text holds no statement")
    if shift:
        _shift(tree, shift)
    tree = _balanced(tree)
    check_depth(tree)
    return tree


def _typed_literal(text: exp.Expr, to: exp.DataType) -> exp.Cast:
    """Make ``DATE '2020-01-01'`` a cast that is known to be a constant."""
    made = exp.Cast(this=text, to=to)
    made.meta["constant"] = True
    return made


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


def position(node: exp.Expr | None) -> dict[str, int]:
    """Say where a part of a query stands: ``line`` and ``column`` from 1; empty if not known."""
    if node is None:
        return {}
    for part in node.walk():
        meta = part.meta
        if "line" in meta:
            return {"line": meta["line"], "column": meta["col"] - (meta["end"] - meta["start"])}
    return {}


@contextmanager
def placed(node: exp.Expr | None) -> Iterator[None]:
    """Say where a part of a query stands in errors that have no place yet."""
    try:
        yield
    except (QueryError, UnsupportedError) as error:
        if "line" in error.values:
            raise
        raise type(error)(error.message, **{**error.values, **position(node)}) from None


def quoted(name: str) -> str:
    """Write a name so that it is read as it is: between backquotes where it must be."""
    plain = name.isascii() and name.isidentifier()
    return name if plain else "`" + name.replace("`", "``") + "`"


def shown(node: exp.Expr) -> str:
    """Write a piece of a query in a message, no more than 60 characters of it."""
    return str(node.sql(PkraySpark))[:60]


def hint_options(hint: exp.Anonymous) -> dict[str, str]:
    """List the options of a hint: ``OPTIONS('k' = 'v')``."""
    return {pair.this.name: pair.expression.name for pair in hint.expressions}


def _chunks(tokens: list[Token]) -> Iterator[list[Token]]:
    chunk: list[Token] = []
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            if chunk:
                yield chunk
            chunk = []
        else:
            chunk.append(token)
    if chunk:
        yield chunk


def _hint(token: Token, parser: _Parser) -> exp.Hint:
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
                f"no hint is called {tokens[index].text}: known are {' and '.join(HINTS)}, as in "
                "/*+ OPTIONS('key' = 'value') */",
                **where,
            )
        end = _closing(tokens, index + 1)
        options = _hint_options(tokens[index + 2 : end], name, where)
        hints.append(exp.Anonymous(this=name, expressions=options))
        index = end + 1
    return exp.Hint(expressions=hints)


def _closing(tokens: list[Token], index: int) -> int:
    if index < len(tokens) and tokens[index].token_type == TokenType.L_PAREN:
        for end in range(index, len(tokens)):
            if tokens[end].token_type == TokenType.R_PAREN:
                return end
    return len(tokens)


def _hint_options(tokens: list[Token], name: str, where: dict[str, int]) -> list[exp.Expr]:
    pairs: list[exp.Expr] = []
    kinds = [token.token_type for token in tokens]
    for start in range(0, max(len(tokens), 1), 4):
        whole = len(tokens) > start + 2
        wanted = [TokenType.EQ] + [TokenType.COMMA] * (start + 3 < len(tokens))
        if not whole or [*kinds[start + 1 : start + 2], *kinds[start + 3 : start + 4]] != wanted:
            raise QueryError(
                f"hint {name} is not understood: write {name}('key' = 'value', …)", **where
            )
        key, value = tokens[start].text, tokens[start + 2].text
        pairs.append(exp.EQ(this=exp.Literal.string(key), expression=exp.Literal.string(value)))
    return pairs


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


def _balanced(tree: exp.Expr) -> exp.Expr:
    """Make a long chain of ANDs or ORs a flat tree, so that its depth is that of a few."""
    chains = [
        node
        for node in tree.find_all(exp.And, exp.Or)
        if isinstance(node.this, type(node)) and not isinstance(node.parent, type(node))
    ]
    for chain in chains:
        terms = _terms(chain)
        if len(terms) > 8:
            flat = _joined(terms, type(chain))
            if chain is tree:
                tree = flat
            else:
                chain.replace(flat)
    return tree


def _terms(chain: exp.Connector) -> list[exp.Expr]:
    terms: list[exp.Expr] = []
    node: exp.Expr = chain
    while isinstance(node, type(chain)):
        terms.append(cast("exp.Expr", node.expression))
        node = cast("exp.Expr", node.this)
    return [node, *reversed(terms)]


def _joined(terms: list[exp.Expr], kind: type[exp.Expr]) -> exp.Expr:
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return kind(this=_joined(terms[:half], kind), expression=_joined(terms[half:], kind))


def nearest(name: str, names: Iterable[str]) -> str:
    """Name those that a wrong name may have meant: ``; did you mean a, b?``, or nothing."""
    import difflib

    lower: dict[str, str] = {}
    for each in names:
        lower.setdefault(each.lower(), each)
    near = difflib.get_close_matches(name.lower(), lower, 3, 0.5)
    return f"; did you mean {', '.join(lower[each] for each in near)}?" if near else ""
