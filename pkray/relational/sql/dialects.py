"""The two dialects as sqlglot parsers.

Functions are kept as they are written (``exp.Anonymous``): which there are and what they mean is
told by ``pkray.relational.functions`` alone.
"""

from typing import Any, ClassVar, cast

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generator import Generator
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parser import Parser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from pkray.errors import UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.sql import regressions
from pkray.relational.sql.chains import OperatorChain, chain_text
from pkray.relational.sql.hints import read_hint
from pkray.scan.bounded_parser import BoundedParser

_COMPARISONS = {
    TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE,
    TokenType.NULLSAFE_EQ, TokenType.LIKE, TokenType.ILIKE,
}  # fmt: skip
WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "SESSION", "CUMULATE")


class TableArgument(exp.Expression):
    """``TABLE t [PARTITION BY …]`` as an argument of a table function."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "partition_by": False}


class JsonCall(exp.Expression):
    """``JSON_VALUE``, ``JSON_QUERY`` or ``JSON_EXISTS`` with its clauses.

    Answers ``on_empty`` and ``on_error`` are a ``Var`` (``NULL``, ``EMPTY ARRAY`` …), or the value
    after DEFAULT; ``wrapper`` is ``without``, ``conditional`` or ``unconditional``.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": True,
        "returning": False,
        "wrapper": False,
        "on_empty": False,
        "on_error": False,
    }


_JSON_ANSWERS = (("NULL",), ("ERROR",), ("TRUE",), ("FALSE",), ("UNKNOWN",))
_WRAPPERS = {
    ("WITHOUT",): "without",
    ("WITH", "CONDITIONAL"): "conditional",
    ("WITH", "UNCONDITIONAL"): "unconditional",
    ("WITH",): "unconditional",
}


def _json_call_text(generator: Generator, node: JsonCall) -> str:
    said = [generator.expressions(node, flat=True)]
    if node.args.get("returning"):
        said.append(f"RETURNING {generator.sql(node, 'returning')}")
    wrapper = node.args.get("wrapper")
    if wrapper:
        said.append(
            "WITHOUT WRAPPER" if wrapper == "without" else f"WITH {wrapper.upper()} WRAPPER"
        )
    for event in ("on_empty", "on_error"):
        answer = node.args.get(event)
        if answer is not None:
            default = "" if isinstance(answer, exp.Var) else "DEFAULT "
            said.append(f"{default}{generator.sql(answer)} {event.replace('_', ' ').upper()}")
    return f"{node.this}({' '.join(said)})"


class UnsignedShift(exp.Expression):
    """The right side of ``a >>> b``, which the parser reads as ``a >> (> b)``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


def _called(name: str, node: exp.Expr, *keys: str) -> exp.Anonymous:
    """Make a plain call of the parts of a node that are there."""
    parts = [node.args.get(key) for key in keys]
    return exp.Anonymous(this=name, expressions=[part for part in parts if part is not None])


class _Parser(BoundedParser, SparkParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        **{
            name: SparkParser.FUNCTION_PARSERS[name]
            for name in ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "OVERLAY", "JSON_OBJECT")
        },
        "POSITION": lambda self: _called(
            "POSITION", self._parse_position(), "substr", "this", "position"
        ),
        **{
            name: lambda self, name=name: _called(
                name, self._parse_substring(), "this", "start", "length"
            )
            for name in ("SUBSTRING", "SUBSTR")
        },
        "CEIL": lambda self: self._parse_rounding("CEIL", exp.Ceil),
        "FLOOR": lambda self: self._parse_rounding("FLOOR", exp.Floor),
        **{
            name: (lambda self, name=name: self._parse_json_call(name))
            for name in ("JSON_VALUE", "JSON_QUERY", "JSON_EXISTS")
        },
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

    def _begins_value(self) -> bool:
        """Whether a word that names a type calls something: as in ``DATE (…)`` or ``ARRAY […]``.

        The parser would read what stands in the brackets to see that, and then again as values: in
        each other, twice as often a level.
        """
        if self._curr.token_type not in self.TYPE_TOKENS:
            return False
        if self._next.token_type != TokenType.L_PAREN:
            return self._next.token_type == TokenType.L_BRACKET
        depth = 0
        for place in range(self._index + 1, len(self._tokens)):
            kind = self._tokens[place].token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            if depth == 0:  # DECIMAL(3, 1) '1.5' is a type
                return not any(
                    each.token_type == TokenType.STRING or each.text.upper() in ("WITH", "WITHOUT")
                    for each in self._tokens[place + 1 : place + 2]
                )
        return True

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
        if isinstance(call, exp.Expr) and isinstance(node, exp.Anonymous):
            return regressions.expanded(call, node, _formula) or call
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

    def _parse_rounding(self, name: str, kind: type[exp.Ceil | exp.Floor]) -> exp.Expr:
        """Read ``CEIL(x)``, or ``CEIL(time TO HOUR)``."""
        arguments = self._parse_csv(self._parse_lambda)
        if arguments and self._match_text_seq("TO"):
            return self.expression(kind(this=arguments[0], to=self._parse_var(any_token=True)))
        return exp.Anonymous(this=name, expressions=arguments)

    def _parse_json_call(self, name: str) -> exp.Expr:
        """Read ``JSON_VALUE(json, path RETURNING type DEFAULT x ON EMPTY NULL ON ERROR)``."""
        arguments = self._parse_csv(self._parse_lambda)
        clauses: dict[str, Any] = {}
        if self._match_text_seq("RETURNING"):
            clauses["returning"] = self._parse_types()
        clauses["wrapper"] = self._parse_wrapper()
        while (answer := self._parse_json_answer()) is not None:
            if not self._match_text_seq("ON"):
                self.raise_error("ON EMPTY or ON ERROR is expected")
            event = "on_empty" if self._match_text_seq("EMPTY") else "on_error"
            if event == "on_error" and not self._match_text_seq("ERROR"):
                self.raise_error("EMPTY or ERROR is expected after ON")
            if event in clauses:
                self.raise_error(f"{event.replace('_', ' ').upper()} is written twice")
            clauses[event] = answer
        return self.expression(JsonCall(this=name, expressions=arguments, **clauses))

    def _parse_wrapper(self) -> str | None:
        for words, said in _WRAPPERS.items():
            for array in ((), ("ARRAY",)):
                if self._match_text_seq(*words, *array, "WRAPPER"):
                    return said
        return None

    def _parse_json_answer(self) -> exp.Expr | None:
        """Read what a call gives where a path leads to nothing, or to what it does not take."""
        if self._match_text_seq("DEFAULT"):
            return self._parse_disjunction()
        for words in (("EMPTY", "ARRAY"), ("EMPTY", "OBJECT"), *_JSON_ANSWERS):
            if self._match_text_seq(*words):
                return exp.Var(this=" ".join(words))
        return None

    def _parse_any(self) -> exp.Expr:
        """Read ``= ANY (…)``; without a comparison before it, it is an aggregate."""
        before = self._tokens[self._index - 2].token_type if self._index > 1 else None
        if before in _COMPARISONS or self._curr.token_type != TokenType.L_PAREN:
            return self.expression(exp.Any(this=self._parse_bitwise()))
        arguments = self._parse_wrapped_csv(self._parse_lambda)
        return self.expression(exp.Anonymous(this="ANY", expressions=arguments))

    def _parse_types(self, check_func: bool = False, *args: Any, **kwargs: Any) -> Any:
        """Read a type; it may begin with ``ROW<``."""
        if check_func and self._begins_value():
            return None
        if self._curr.token_type == TokenType.ROW and self._next.token_type == TokenType.LT:
            self._curr.token_type = TokenType.STRUCT
        return self._parse_named_types(check_func, *args, **kwargs)

    def _parse_named_types(self, *args: Any, **kwargs: Any) -> Any:
        return super()._parse_types(*args, **kwargs)

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
        return read_hint(token, self)

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


class _FlinkParser(_Parser):
    def _parse_named_types(self, *args: Any, **kwargs: Any) -> Any:
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
        OperatorChain: lambda self, node: chain_text(node, self.sql),
        JsonCall: _json_call_text,
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

    class Tokenizer(PkraySpark.Tokenizer):
        QUOTES: ClassVar[list[Any]] = ["'"]
        STRING_ESCAPES: ClassVar[list[str]] = ["'"]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **PkraySpark.Tokenizer.KEYWORDS,
            "TIMESTAMP": TokenType.TIMESTAMP,
        }

    SUPPORTS_USER_DEFINED_TYPES = True
    UNESCAPED_SEQUENCES = {}  # noqa: RUF012
    Parser = _FlinkParser
    Generator = _Generator


DIALECTS = {Dialect.SPARK: PkraySpark, Dialect.FLINK: PkrayFlink}


def _formula(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, dialect=PkraySpark)


def _typed_literal(text: exp.Expr, to: exp.DataType) -> exp.Cast:
    """Make ``DATE '2020-01-01'`` a cast that is known to be a constant."""
    made = exp.Cast(this=text, to=to)
    made.meta["constant"] = True
    return made


def shown(node: exp.Expr) -> str:
    """Write a piece of a query in a message, no more than 60 characters of it."""
    return str(node.sql(PkraySpark))[:60]
