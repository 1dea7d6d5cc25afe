"""Reading of statements: what each says, as data; queries in them stay syntax."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from pkray.errors import PkrayError, QueryError, SchemaError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.sql.expressions.types import type_of
from pkray.relational.sql.parser import (
    DIALECTS,
    MISPLACED_HINT,
    as_query,
    nearest,
    parse_expression,
    parse_trees,
    position,
    tokenize,
)
from pkray.schema.types import DataType

_SPARK_TYPE = re.compile(r"\b(TIMESTAMP|BINARY)\b(?!\s*\()|\bTIMESTAMP\s*\(|\bSTRUCT\b", re.I)
"""Types whose names mean something else, or nothing, in table schemas."""
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)

Name: TypeAlias = tuple[str, ...]
"""``("t",)`` or ``("db", "t")``."""


@dataclass(frozen=True)
class Query:
    """SELECT, VALUES, WITH or a set operation."""

    tree: exp.Query


@dataclass(frozen=True)
class ColumnDefinition:
    """A column of CREATE TABLE or ALTER TABLE.

    Attributes:
        place: ``FIRST``, or the column that it comes after; None: at the end.
    """

    name: str
    type: DataType
    comment: str | None = None
    place: str | tuple[str] | None = None


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE.

    Attributes:
        watermark: the column and the expression.
        tree: of CREATE TABLE … AS.
    """

    name: Name
    columns: tuple[ColumnDefinition, ...] = ()
    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    watermark: tuple[str, str] | None = None
    using: str | None = None
    if_not_exists: bool = False
    tree: exp.Query | None = None


@dataclass(frozen=True)
class AlterTable:
    """One change of a table.

    Attributes:
        action: ``add``, ``drop``, ``rename``, ``type``, ``comment``, ``move``, ``nullable``,
            ``set``, ``unset``, ``rename_table``, ``drop_partition``, ``watermark``.
        values: what the action takes.
    """

    name: Name
    action: str
    values: tuple[object, ...] = ()


@dataclass(frozen=True)
class Drop:
    """DROP TABLE, VIEW or DATABASE."""

    what: str
    name: Name
    if_exists: bool = False
    cascade: bool = False
    temporary: bool = False


@dataclass(frozen=True)
class CreateDatabase:
    """CREATE DATABASE."""

    name: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class Use:
    """USE a database."""

    name: str


@dataclass(frozen=True)
class CreateView:
    """CREATE VIEW.

    Attributes:
        columns: names in place of the query's; empty: the query's.
    """

    name: Name
    tree: exp.Query
    columns: tuple[str, ...] = ()
    temporary: bool = False
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class SetOption:
    """SET; without a key it lists what is set."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class Reset:
    """RESET of one option, or of all."""

    key: str | None = None


@dataclass(frozen=True)
class Show:
    """SHOW.

    Attributes:
        what: ``tables``, ``views``, ``databases``, ``functions``, ``columns``, ``create``,
            ``options``, ``database``.
        of: the database or table.
        like: a pattern of ``*`` and ``%``.
    """

    what: str
    of: Name = ()
    like: str | None = None


@dataclass(frozen=True)
class Describe:
    """DESCRIBE of a table, a view or a query."""

    name: Name = ()
    tree: exp.Query | None = None


@dataclass(frozen=True)
class Explain:
    """EXPLAIN of a query or of an INSERT."""

    statement: Query | Insert | StatementSet


@dataclass(frozen=True)
class Insert:
    """INSERT INTO or INSERT OVERWRITE.

    Attributes:
        columns: named; empty: all, in order.
        partition: fixed values of partition columns, as syntax.
        on_conflict: ``nothing``, ``error`` or ``deduplicate``.
    """

    name: Name
    tree: exp.Query
    columns: tuple[str, ...] = ()
    overwrite: bool = False
    partition: tuple[tuple[str, exp.Expr | None], ...] = ()
    on_conflict: str | None = None


@dataclass(frozen=True)
class StatementSet:
    """EXECUTE STATEMENT SET BEGIN … END."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True)
class Update:
    """UPDATE of rows."""

    name: Name
    alias: str | None
    values: tuple[tuple[str, exp.Expr], ...]
    where: exp.Expr | None


@dataclass(frozen=True)
class Delete:
    """DELETE of rows."""

    name: Name
    alias: str | None
    where: exp.Expr | None


@dataclass(frozen=True)
class Merge:
    """MERGE INTO, as syntax."""

    name: Name
    tree: exp.Merge


@dataclass(frozen=True)
class CompilePlan:
    """COMPILE PLAN 'path' FOR an INSERT or a statement set."""

    path: str
    statement: Insert | StatementSet
    if_not_exists: bool = False


@dataclass(frozen=True)
class ExecutePlan:
    """EXECUTE PLAN 'path'."""

    path: str
    if_exists: bool = False


Statement: TypeAlias = (
    Query
    | CreateTable
    | AlterTable
    | Drop
    | CreateDatabase
    | Use
    | CreateView
    | SetOption
    | Reset
    | Show
    | Describe
    | Explain
    | Insert
    | StatementSet
    | Update
    | Delete
    | Merge
    | CompilePlan
    | ExecutePlan
)


@cache
def _tokenizer(dialect: Dialect) -> Any:
    """Make a tokenizer that gives single words, of which statements are read."""
    base: Any = DIALECTS[dialect].Tokenizer

    class Words(base):  # type: ignore[misc] # sqlglot's classes have no types
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind
            for word, kind in base.KEYWORDS.items()
            if " " not in word and kind not in base.COMMANDS
        }
        COMMANDS: ClassVar[set[TokenType]] = set()

    return Words


def _words(text: str, dialect: Dialect) -> list[Token]:
    tokenize(text, dialect)  # says where text ends within a string
    found: list[Token] = _tokenizer(dialect)(dialect=DIALECTS[dialect]).tokenize(text)
    return found


def placed(error: QueryError, text: str, dialect: Dialect) -> QueryError:
    """Say where a statement first names the column that an error is about, if that is not said."""
    name = error.values.get("column_name")
    if name is None or "line" in error.values:
        return error
    for token in tokenize(text, dialect):
        if token.text.lower() == str(name).lower():
            place = {"line": token.line, "column": token.col - (token.end - token.start)}
            return type(error)(error.message, **error.values, **place)
    return error


def parse_statement(text: str, dialect: Dialect) -> Statement:
    """Read one statement; a semicolon may end it.

    Raises:
        QueryError: it is not understood, with line and column; or there is more than one.
        UnsupportedError: a statement that pkray does not have.
    """
    reader = _Reader(_words(text, dialect), text, dialect)
    if reader.is_done():
        raise QueryError("the text holds no statement")
    statement = reader.statement()
    reader.take(";")
    if not reader.is_done():
        raise reader.unexpected("one statement is expected; give each by itself")
    return statement


def split_statements(text: str, dialect: Dialect) -> list[str]:
    """Cut text into statements at semicolons, but for those within BEGIN … END."""
    found, start, inside, seen = [], 0, False, False
    for token in _words(text, dialect):
        word = token.text.upper()
        inside = (inside or word == "BEGIN") and word != "END"
        if token.token_type == TokenType.SEMICOLON and not inside:
            if seen:
                found.append(text[start : token.start])
            start, seen = token.end + 1, False
        else:
            seen = True
    return [*found, text[start:]] if seen else found


def ends_statement(text: str, dialect: Dialect) -> bool:
    """Whether text ends with a semicolon that is not within a string or BEGIN … END."""
    try:
        words = _words(text, dialect)
    except QueryError:
        return False
    inside = False
    for token in words:
        word = token.text.upper()
        inside = (inside or word == "BEGIN") and word != "END"
    return bool(words) and words[-1].token_type == TokenType.SEMICOLON and not inside


class _Reader:
    """Reads statements token by token."""

    def __init__(self, tokens: list[Token], text: str, dialect: Dialect) -> None:
        self._tokens = tokens
        self._text = text
        self._dialect = dialect
        self._at = 0

    # Tokens

    def is_done(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._tokens)

    def unexpected(self, wanted: str) -> QueryError:
        """Make the error that says what is here instead of what is wanted."""
        if self.is_done():
            return QueryError(f"{wanted}: the text ends too early", **self._place(-1))
        return QueryError(
            f"{wanted}: {self._tokens[self._at].text!r} is not expected here", **self._place()
        )

    def take(self, *words: str) -> bool:
        """Pass over words if they are next."""
        ahead = [self._word(each) for each in range(len(words))]
        if ahead != list(words):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Pass over words; refuse others."""
        if not self.take(*words):
            raise self.unexpected(f"{' '.join(words)} is expected")

    def _word(self, ahead: int = 0) -> str:
        at = self._at + ahead
        if at >= len(self._tokens) or self._tokens[at].token_type in _QUOTED:
            return ""
        return str(self._tokens[at].text).upper()

    def _place(self, ahead: int = 0) -> dict[str, int]:
        at = min(max(self._at + ahead, 0), len(self._tokens) - 1)
        token = self._tokens[at]
        return {"line": token.line, "column": token.col - (token.end - token.start)}

    def _string(self, what: str) -> str:
        if self.is_done() or self._tokens[self._at].token_type != TokenType.STRING:
            raise self.unexpected(f"{what} in quotes is expected")
        self._at += 1
        return str(self._tokens[self._at - 1].text)

    def _identifier(self, what: str) -> str:
        if self.is_done():
            raise self.unexpected(f"the name of {what} is expected")
        token = self._tokens[self._at]
        plain = token.token_type in (TokenType.IDENTIFIER, TokenType.VAR)
        plain = plain or str(token.text).replace("$", "_").isidentifier()
        if not plain or token.token_type == TokenType.STRING:
            raise self.unexpected(f"the name of {what} is expected")
        self._at += 1
        return str(token.text)

    def _name(self, what: str) -> Name:
        parts = [self._identifier(what)]
        while self.take("."):
            parts.append(self._identifier(what))
        if len(parts) > 2:
            raise QueryError(
                f"{'.'.join(parts)} has more parts than a database and a name", **self._place(-1)
            )
        return tuple(parts)

    def _listed(self, what: str, read: Callable[[], object]) -> list[object]:
        self.expect("(")
        found = [read()]
        while self.take(","):
            found.append(read())
        if not self.take(")"):
            raise self.unexpected(f"',' or ')' is expected after {what}")
        return found

    def _names(self, what: str) -> tuple[str, ...]:
        return tuple(str(each) for each in self._listed(what, lambda: self._identifier(what)))

    def _until(self, *stops: str, is_type: bool = False) -> str:
        """Take the text before one of some words, outside of parentheses; what is before it in the
        whole text becomes blanks, so that places are told as they are.
        """
        if not self.is_done() and self._tokens[self._at].token_type == TokenType.HINT:
            raise self.unexpected(MISPLACED_HINT)
        start, depth = self._at, 0
        opening, closing = ("(<[", ")>]") if is_type else ("([", ")]")
        while not self.is_done():
            word = self._word()
            if depth == 0 and (word in stops or f"{word} {self._word(1)}" in stops):
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

    def _tree(self, *stops: str) -> exp.Query:
        """Read the query that comes."""
        return as_query(self._parsed(self._until(";", *stops)))

    def _parsed(self, text: str) -> exp.Expr:
        (tree,) = parse_trees(text, self._dialect)
        return tree

    def _expression(self, *stops: str) -> exp.Expr:
        return parse_expression(self._until(",", ")", *stops), self._dialect)

    # Statements

    def statement(self) -> Statement:
        """Read one statement."""
        first = self._word()
        if first in ("SELECT", "WITH", "VALUES", "(", "FROM", "TABLE"):
            return Query(self._tree())
        read = _STATEMENTS.get(first)
        if self.is_done():
            raise self.unexpected("a statement is expected")
        if read is None:
            raise QueryError(
                f"{self._tokens[self._at].text!r} begins no statement"
                f"{nearest(first, ['SELECT', 'WITH', 'VALUES', *_STATEMENTS])}",
                **self._place(),
            )
        self._at += 1
        return read(self)

    def _create(self) -> Statement:
        replace = self.take("OR", "REPLACE")
        temporary = self.take("TEMPORARY") or self.take("TEMP")
        if self.take("VIEW"):
            return self._create_view(replace, temporary)
        if self.take("DATABASE") or self.take("SCHEMA"):
            missing = self.take("IF", "NOT", "EXISTS")
            return CreateDatabase(self._identifier("a database"), missing)
        if self._word() == "TABLE" and (replace or temporary):
            word = "OR REPLACE" if replace else "TEMPORARY"
            raise UnsupportedError(f"CREATE {word} TABLE is not supported: tables are kept")
        if self.take("TABLE"):
            return self._create_table()
        raise self.unexpected("TABLE, VIEW or DATABASE is expected after CREATE")

    def _create_view(self, replace: bool, temporary: bool) -> CreateView:
        missing = self.take("IF", "NOT", "EXISTS")
        name = self._name("a view")
        columns = self._names("a column") if self._word() == "(" else ()
        if self.take("COMMENT"):
            self._string("a comment")
        self.expect("AS")
        return CreateView(name, self._tree(), columns, temporary, replace, missing)

    def _create_table(self) -> CreateTable:
        missing = self.take("IF", "NOT", "EXISTS")
        name = self._name("a table")
        columns: list[ColumnDefinition] = []
        keys: list[str] = []
        watermark: list[tuple[str, str]] = []
        if self._word() == "(":
            self._listed("a column", lambda: self._table_part(columns, keys, watermark))
        said = self._clauses()
        tree = None
        if self.take("AS"):
            tree = self._tree()
        using = said.get("using")
        return CreateTable(
            name,
            tuple(columns),
            tuple(keys),
            tuple(str(each) for each in said.get("partition", ())),  # type: ignore[attr-defined]
            tuple(said.get("options", ())),  # type: ignore[arg-type]
            str(said["comment"]) if "comment" in said else None,
            watermark[0] if watermark else None,
            str(using) if using else None,
            missing,
            tree,
        )

    def _clauses(self) -> dict[str, object]:
        """Read what stands after the columns of a table, in any order."""
        said: dict[str, object] = {}
        while not self.is_done() and self._word() not in ("AS", ";"):
            if self.take("USING"):
                said["using"] = self._identifier("a format").lower()
            elif self.take("COMMENT"):
                said["comment"] = self._string("a comment")
            elif self.take("PARTITIONED", "BY"):
                said["partition"] = self._names("a partition column")
            elif self.take("TBLPROPERTIES") or self.take("WITH") or self.take("OPTIONS"):
                before = list(said.get("options", ()))  # type: ignore[call-overload]
                said["options"] = [*before, *self._options()]
            else:
                raise self.unexpected(
                    "USING, COMMENT, PARTITIONED BY, TBLPROPERTIES (…) or WITH (…) is expected"
                )
        return said

    def _table_part(
        self,
        columns: list[ColumnDefinition],
        keys: list[str],
        watermark: list[tuple[str, str]],
    ) -> None:
        if self.take("CONSTRAINT"):
            self._identifier("a constraint")
        if self.take("PRIMARY", "KEY"):
            keys += self._names("a key column")
            self.take("NOT", "ENFORCED")
        elif self.take("WATERMARK", "FOR"):
            watermark.append(self._watermark())
        else:
            column, is_key = self._column()
            columns.append(column)
            keys += [column.name] * is_key

    def _watermark(self) -> tuple[str, str]:
        column = self._identifier("a time column")
        self.expect("AS")
        return column, self._until(",", ")", ";").strip()

    def _column(self) -> tuple[ColumnDefinition, bool]:
        name = self._identifier("a column")
        if self._word() == "AS":
            raise UnsupportedError(
                f"column {name} is computed, which tables have not: compute it in a view",
                **self._place(),
            )
        kind = self._type()
        comment, place, is_key = None, None, False
        while self._word() not in (",", ")", ";", ""):
            if self.take("NOT", "NULL"):
                kind = kind.with_nullable(False)
            elif self.take("NULL"):
                kind = kind.with_nullable(True)
            elif self.take("COMMENT"):
                comment = self._string("a comment")
            elif self.take("PRIMARY", "KEY"):
                is_key = True
                self.take("NOT", "ENFORCED")
            elif self.take("FIRST"):
                place = "FIRST"
            elif self.take("AFTER"):
                return ColumnDefinition(
                    name, kind, comment, (self._identifier("a column"),)
                ), is_key
            else:
                raise self.unexpected(f"NOT NULL, COMMENT, ',' or ')' is expected after {name}")
        return ColumnDefinition(name, kind, comment, place), is_key

    def _type(self) -> DataType:
        where = self._place()
        stops = ("NOT", "NULL", "COMMENT", "PRIMARY", "FIRST", "AFTER", "DEFAULT", "METADATA")
        text = self._until(",", ")", ";", *stops, is_type=True).strip()
        try:
            return _type(text, self._dialect)
        except PkrayError as error:
            raise QueryError(f"{text!r} is no type: {error.message}", **where) from None

    def _options(self) -> list[tuple[str, str]]:
        def pair() -> tuple[str, str]:
            key = self._option_key()
            if not self.take("=") and (
                self.is_done() or self._tokens[self._at].token_type != TokenType.STRING
            ):
                raise self.unexpected(f"'=' is expected after the option {key}")
            return key, self._option_value(",", ")")

        return [each for each in self._listed("an option", pair) if isinstance(each, tuple)]

    def _option_key(self) -> str:
        if not self.is_done() and self._tokens[self._at].token_type == TokenType.STRING:
            return self._string("an option")
        return "".join(self._until("=", ",", ")", ";").split())

    def _option_value(self, *stops: str) -> str:
        if not self.is_done() and self._tokens[self._at].token_type == TokenType.STRING:
            return self._string("a value")
        return self._until(*stops).strip()

    def _alter(self) -> AlterTable:
        self.expect("TABLE")
        name = self._name("a table")
        for words, read in _CHANGES:
            if self.take(*words):
                return AlterTable(name, *read(self))
        raise self.unexpected("ADD, DROP, RENAME, ALTER, MODIFY, SET, UNSET or RESET is expected")

    def _added(self) -> tuple[str, tuple[object, ...]]:
        if self.take("WATERMARK", "FOR"):
            return "watermark", self._watermark()
        if self._word() in ("PARTITION", "CONSTRAINT", "PRIMARY"):
            raise self.unexpected("a column is expected: partitions and keys are not added")
        if not self.take("COLUMNS"):
            self.take("COLUMN")
        if self._word() == "(":
            return "add", tuple(self._listed("a column", lambda: self._column()[0]))
        return "add", (self._column()[0],)

    def _dropped(self) -> tuple[str, tuple[object, ...]]:
        if self.take("WATERMARK"):
            return "watermark", ()
        if self.take("PARTITION"):
            return "drop_partition", tuple(self._partition())
        if not self.take("COLUMNS"):
            self.take("COLUMN")
        if self._word() == "(":
            return "drop", self._names("a column")
        return "drop", (self._field(),)

    def _renamed(self) -> tuple[str, tuple[object, ...]]:
        if self.take("TO"):
            return "rename_table", self._name("a table")
        self.take("COLUMN")
        old = self._field()
        self.expect("TO")
        return "rename", (old, self._identifier("a column"))

    def _altered(self) -> tuple[str, tuple[object, ...]]:
        self.take("COLUMN")
        name = self._field()
        if self.take("COMMENT"):
            return "comment", (name, self._string("a comment"))
        if self.take("FIRST"):
            return "move", (name, None)
        if self.take("AFTER"):
            return "move", (name, self._identifier("a column"))
        if self.take("DROP", "NOT", "NULL"):
            return "nullable", (name,)
        if self._word() == "SET" or self._word() == "DROP":
            raise self.unexpected("TYPE, COMMENT, FIRST, AFTER or DROP NOT NULL is expected")
        self.take("TYPE")
        return "type", (name, self._type())

    def _modified(self) -> tuple[str, tuple[object, ...]]:
        if self.take("WATERMARK", "FOR"):
            return "watermark", self._watermark()
        return self._altered()

    def _field(self) -> str:
        parts = [self._identifier("a column")]
        while self.take("."):
            parts.append(self._identifier("a field"))
        return ".".join(parts)

    def _drop(self) -> Drop:
        temporary = self.take("TEMPORARY")
        for what in ("TABLE", "VIEW", "DATABASE", "SCHEMA"):
            if self.take(what):
                there = self.take("IF", "EXISTS")
                name = self._name(f"a {what.lower()}")
                cascade = self.take("CASCADE")
                if not cascade:
                    self.take("RESTRICT")
                self.take("PURGE")
                kind = "database" if what == "SCHEMA" else what.lower()
                return Drop(kind, name, there, cascade, temporary)
        raise self.unexpected("TABLE, VIEW or DATABASE is expected after DROP")

    def _use(self) -> Use:
        if not self.take("DATABASE"):
            self.take("SCHEMA")
        return Use(self._identifier("a database"))

    def _set(self) -> SetOption:
        if self.is_done() or self._word() == ";":
            return SetOption()
        key = self._option_key()
        if self.is_done() or self._word() == ";":
            return SetOption(key)
        self.expect("=")
        return SetOption(key, self._option_value(";"))

    def _reset(self) -> Reset:
        return Reset() if self.is_done() or self._word() == ";" else Reset(self._option_key())

    def _show(self) -> Show:
        if self.take("CREATE", "TABLE"):
            return Show("create", self._name("a table"))
        if self.take("TBLPROPERTIES"):
            return Show("options", self._name("a table"))
        if self.take("CURRENT", "DATABASE"):
            return Show("database")
        kinds = {"SCHEMAS": "databases"}
        for word in ("TABLES", "VIEWS", "DATABASES", "SCHEMAS", "FUNCTIONS", "COLUMNS"):
            if self.take(word):
                of = self._name("a database or table") if self._takes_in() else ()
                like = self._string("a pattern") if self._takes_like() else None
                return Show(kinds.get(word, word.lower()), of, like)
        raise self.unexpected(
            "TABLES, VIEWS, DATABASES, FUNCTIONS, COLUMNS, TBLPROPERTIES or CREATE TABLE is "
            "expected after SHOW"
        )

    def _takes_in(self) -> bool:
        return self.take("IN") or self.take("FROM")

    def _takes_like(self) -> bool:
        pattern = not self.is_done() and self._tokens[self._at].token_type == TokenType.STRING
        return self.take("LIKE") or pattern

    def _describe(self) -> Describe:
        self.take("QUERY")
        if self._word() in ("SELECT", "WITH", "VALUES", "("):
            return Describe(tree=self._tree())
        self.take("TABLE")
        for word in ("EXTENDED", "FORMATTED"):
            self.take(word)
        return Describe(self._name("a table"))

    def _explain(self) -> Explain:
        for word in ("PLAN", "FOR", "EXTENDED", "FORMATTED", "ESTIMATED_COST"):
            while self.take(word) or self.take(","):
                pass
        where = self._place()
        statement = self.statement()
        if not isinstance(statement, Query | Insert | StatementSet):
            raise QueryError("EXPLAIN takes a query or an INSERT", **where)
        return Explain(statement)

    def _insert(self) -> Insert:
        overwrite = self.take("OVERWRITE")
        if not overwrite:
            self.expect("INTO")
        self.take("TABLE")
        name = self._name("a table")
        partition = self._partition() if self.take("PARTITION") else []
        columns: tuple[str, ...] = ()
        if self._word() == "(" and self._word(1) not in ("SELECT", "WITH", "VALUES", "("):
            columns = self._names("a column")
        tree = self._tree("ON CONFLICT")
        conflict = self._conflict() if self.take("ON") else None
        return Insert(name, tree, columns, overwrite, tuple(partition), conflict)

    def _conflict(self) -> str:
        self.expect("CONFLICT", "DO")
        for word in ("NOTHING", "ERROR", "DEDUPLICATE"):
            if self.take(word):
                return word.lower()
        raise self.unexpected("NOTHING, ERROR or DEDUPLICATE is expected after ON CONFLICT DO")

    def _partition(self) -> list[tuple[str, exp.Expr | None]]:
        def pair() -> tuple[str, exp.Expr | None]:
            column = self._identifier("a partition column")
            return column, self._expression() if self.take("=") else None

        return [each for each in self._listed("a partition", pair) if isinstance(each, tuple)]

    def _execute(self) -> StatementSet | ExecutePlan:
        if self.take("PLAN"):
            there = self.take("IF", "EXISTS")
            return ExecutePlan(self._string("a path"), there)
        self.expect("STATEMENT", "SET")
        return self._statement_set()

    def _statement_set(self) -> StatementSet:
        self.expect("BEGIN")
        inserts: list[Insert] = []
        while not self.take("END"):
            statement = self.statement()
            if not isinstance(statement, Insert):
                raise self.unexpected("a statement set holds INSERTs alone")
            inserts.append(statement)
            if not self.take(";") and self._word() != "END":
                raise self.unexpected("';' is expected after an INSERT")
        if not inserts:
            raise self.unexpected("a statement set holds an INSERT at least")
        return StatementSet(tuple(inserts))

    def _compile(self) -> CompilePlan:
        self.expect("PLAN")
        missing = self.take("IF", "NOT", "EXISTS")
        path = self._string("a path")
        self.expect("FOR")
        self.take("EXECUTE")
        statement: Statement
        statement = self._statement_set() if self.take("STATEMENT", "SET") else self.statement()
        if not isinstance(statement, Insert | StatementSet):
            raise QueryError(
                "COMPILE PLAN is FOR an INSERT or a STATEMENT SET: a SELECT has no table that its "
                "rows go to"
            )
        return CompilePlan(path, statement, missing)

    def _changing(self) -> Update | Delete | Merge:
        """Read UPDATE, DELETE and MERGE, which the parser of queries knows."""
        self._at -= 1
        tree = self._parsed(self._until(";"))
        if isinstance(tree, exp.Update):
            _check_parts(tree, {"this", "expressions", "where"})
            return Update(*_target(tree), tuple(_assignments(tree)), _where(tree))
        if isinstance(tree, exp.Delete):
            _check_parts(tree, {"this", "where"})
            return Delete(*_target(tree), _where(tree))
        if isinstance(tree, exp.Merge):
            _check_parts(tree, {"this", "using", "on", "whens"})
            return Merge(_target(tree)[0], tree)
        raise QueryError("the statement is not understood", **self._place(-1))

    def _truncate(self) -> Delete:
        self.take("TABLE")
        return Delete(self._name("a table"), None, None)


_STATEMENTS: dict[str, Callable[[_Reader], Statement]] = {
    "CREATE": _Reader._create,
    "ALTER": _Reader._alter,
    "DROP": _Reader._drop,
    "USE": _Reader._use,
    "SET": _Reader._set,
    "RESET": _Reader._reset,
    "SHOW": _Reader._show,
    "DESCRIBE": _Reader._describe,
    "DESC": _Reader._describe,
    "EXPLAIN": _Reader._explain,
    "INSERT": _Reader._insert,
    "EXECUTE": _Reader._execute,
    "COMPILE": _Reader._compile,
    "UPDATE": _Reader._changing,
    "DELETE": _Reader._changing,
    "MERGE": _Reader._changing,
    "TRUNCATE": _Reader._truncate,
}

_Change: TypeAlias = Callable[[_Reader], tuple[str, tuple[object, ...]]]
_CHANGES: tuple[tuple[tuple[str, ...], _Change], ...] = (
    (("ADD",), _Reader._added),
    (("DROP",), _Reader._dropped),
    (("RENAME",), _Reader._renamed),
    (("ALTER",), _Reader._altered),
    (("CHANGE",), _Reader._altered),
    (("MODIFY",), _Reader._modified),
    (("SET", "TBLPROPERTIES"), lambda reader: ("set", tuple(reader._options()))),
    (("SET",), lambda reader: ("set", tuple(reader._options()))),
    (("UNSET", "TBLPROPERTIES"), lambda reader: ("unset", _unset(reader))),
    (("RESET",), lambda reader: ("unset", _unset(reader))),
)


def _unset(reader: _Reader) -> tuple[object, ...]:
    reader.take("IF", "EXISTS")
    return tuple(reader._listed("an option", reader._option_key))


def _type(text: str, dialect: Dialect) -> DataType:
    """Read a column's type: as casts have it, and in the words of table schemas."""

    def of_casts() -> DataType:
        cast = parse_expression(f"CAST(NULL AS {text})", dialect)
        kind = cast.args.get("to")
        if not isinstance(kind, exp.DataType):
            raise QueryError("it is not understood")
        return type_of(kind, dialect)

    def of_schemas() -> DataType:
        return DataType.parse(text)

    first, second = of_schemas, of_casts
    if dialect is Dialect.SPARK and _SPARK_TYPE.search(text):
        first, second = second, first
    try:
        return first()
    except (QueryError, SchemaError, UnsupportedError):
        return second()


def _check_parts(tree: exp.Expr, known: set[str]) -> None:
    others = [key for key, value in tree.args.items() if value and key not in known]
    if others:
        raise UnsupportedError(
            f"{tree.key.upper()} with {others[0].rstrip('_').upper()} is not supported"
        )


def _target(tree: exp.Expr) -> tuple[Name, str | None]:
    table = tree.this
    if not isinstance(table, exp.Table):
        raise QueryError(f"{tree.key.upper()} names no table")
    if table.args.get("hints"):
        raise QueryError(f"{MISPLACED_HINT}, not in {tree.key.upper()}", **position(table))
    return tuple(part.name for part in table.parts), table.alias or None


def _where(tree: exp.Expr) -> exp.Expr | None:
    where = tree.args.get("where")
    return where.this if where is not None else None


def _assignments(tree: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    for each in tree.expressions:
        if not isinstance(each, exp.EQ) or not isinstance(each.this, exp.Column):
            raise QueryError(f"SET takes column = value, not {each.sql(dialect='spark')}")
        yield each.this.name, each.expression
