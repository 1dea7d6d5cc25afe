"""Reading of statements: one, or the texts of several."""

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

from sqlglot.tokenizer_core import Token, TokenType

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.sql.dialects import DIALECTS
from pkray.relational.sql.parser import tokenize
from pkray.relational.sql.places import nearest
from pkray.relational.sql.statements.cursor import Cursor
from pkray.relational.sql.statements.kinds import (
    CompilePlan,
    CreateDatabase,
    CreateView,
    Describe,
    Drop,
    ExecutePlan,
    Explain,
    Insert,
    Query,
    Reset,
    SetOption,
    Show,
    Statement,
    StatementSet,
    Use,
)
from pkray.relational.sql.statements.rows import changing, insert, read_partition, truncate
from pkray.relational.sql.statements.tables import alter, create_table


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
    cursor = Cursor(_words(text, dialect), text, dialect)
    if cursor.is_done():
        raise QueryError("the text holds no statement")
    found = read_statement(cursor)
    cursor.take(";")
    if not cursor.is_done():
        raise cursor.unexpected("one statement is expected; give each by itself")
    return found


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


def read_statement(cursor: Cursor) -> Statement:
    """Read one statement."""
    first = cursor.word()
    if first in ("SELECT", "WITH", "VALUES", "(", "FROM", "TABLE"):
        return Query(cursor.tree())
    read = _STATEMENTS.get(first)
    if cursor.is_done():
        raise cursor.unexpected("a statement is expected")
    if read is None:
        raise QueryError(
            f"{cursor.text!r} begins no statement"
            f"{nearest(first, ['SELECT', 'WITH', 'VALUES', *_STATEMENTS])}",
            **cursor.place(),
        )
    cursor.step()
    return read(cursor)


def _create(cursor: Cursor) -> Statement:
    replace = cursor.take("OR", "REPLACE")
    temporary = cursor.take("TEMPORARY") or cursor.take("TEMP")
    if cursor.take("VIEW"):
        return _create_view(cursor, replace, temporary)
    if cursor.take("DATABASE") or cursor.take("SCHEMA"):
        missing = cursor.take("IF", "NOT", "EXISTS")
        return CreateDatabase(cursor.identifier("a database"), missing)
    if cursor.word() == "TABLE" and (replace or temporary):
        word = "OR REPLACE" if replace else "TEMPORARY"
        raise UnsupportedError(f"CREATE {word} TABLE is not supported: tables are kept")
    if cursor.take("TABLE"):
        return create_table(cursor)
    raise cursor.unexpected("TABLE, VIEW or DATABASE is expected after CREATE")


def _create_view(cursor: Cursor, replace: bool, temporary: bool) -> CreateView:
    missing = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name("a view")
    columns = cursor.names("a column") if cursor.word() == "(" else ()
    if cursor.take("COMMENT"):
        cursor.string("a comment")
    cursor.expect("AS")
    return CreateView(name, cursor.tree(), columns, temporary, replace, missing)


def _drop(cursor: Cursor) -> Drop:
    temporary = cursor.take("TEMPORARY")
    for what in ("TABLE", "VIEW", "DATABASE", "SCHEMA"):
        if cursor.take(what):
            there = cursor.take("IF", "EXISTS")
            name = cursor.name(f"a {what.lower()}")
            cascade = cursor.take("CASCADE")
            if not cascade:
                cursor.take("RESTRICT")
            cursor.take("PURGE")
            kind = "database" if what == "SCHEMA" else what.lower()
            return Drop(kind, name, there, cascade, temporary)
    raise cursor.unexpected("TABLE, VIEW or DATABASE is expected after DROP")


def _use(cursor: Cursor) -> Use:
    if not cursor.take("DATABASE"):
        cursor.take("SCHEMA")
    return Use(cursor.identifier("a database"))


def _set(cursor: Cursor) -> SetOption:
    if cursor.is_done() or cursor.word() == ";":
        return SetOption()
    if cursor.take("TIME", "ZONE"):
        return SetOption("table.local-time-zone", cursor.string("a zone"))
    key = cursor.option_key()
    if cursor.is_done() or cursor.word() == ";":
        return SetOption(key)
    cursor.expect("=")
    return SetOption(key, cursor.option_value(";"))


def _reset(cursor: Cursor) -> Reset:
    return Reset() if cursor.is_done() or cursor.word() == ";" else Reset(cursor.option_key())


def _show(cursor: Cursor) -> Show:
    if cursor.take("CREATE", "TABLE"):
        return Show("create", cursor.name("a table"))
    if cursor.take("CREATE", "VIEW"):
        return Show("create_view", cursor.name("a view"))
    if cursor.take("PARTITIONS"):
        table = cursor.name("a table")
        chosen = tuple(read_partition(cursor)) if cursor.take("PARTITION") else ()
        return Show("partitions", table, partition=chosen)
    if cursor.take("TBLPROPERTIES"):
        return Show("options", cursor.name("a table"))
    if cursor.take("CURRENT", "DATABASE"):
        return Show("database")
    kinds = {"SCHEMAS": "databases"}
    for word in ("TABLES", "VIEWS", "DATABASES", "SCHEMAS", "FUNCTIONS", "COLUMNS"):
        if cursor.take(word):
            of = cursor.name("a database or table") if cursor.takes_in() else ()
            like = cursor.string("a pattern") if cursor.takes_like() else None
            return Show(kinds.get(word, word.lower()), of, like)
    raise cursor.unexpected(
        "TABLES, VIEWS, DATABASES, FUNCTIONS, COLUMNS, PARTITIONS, TBLPROPERTIES, CREATE TABLE "
        "or CREATE VIEW is expected after SHOW"
    )


def _describe(cursor: Cursor) -> Describe:
    cursor.take("QUERY")
    if cursor.word() in ("SELECT", "WITH", "VALUES", "("):
        return Describe(tree=cursor.tree())
    cursor.take("TABLE")
    for word in ("EXTENDED", "FORMATTED"):
        cursor.take(word)
    return Describe(cursor.name("a table"))


def _explain(cursor: Cursor) -> Explain:
    for word in ("PLAN", "FOR", "EXTENDED", "FORMATTED", "ESTIMATED_COST"):
        while cursor.take(word) or cursor.take(","):
            pass
    refusal = QueryError("EXPLAIN takes a query or an INSERT", **cursor.place())
    statement = _inner(cursor, refusal, "INSERT", "EXECUTE")
    if not isinstance(statement, Query | Insert | StatementSet):
        raise refusal
    return Explain(statement)


def _inner(cursor: Cursor, refusal: QueryError, *words: str) -> Statement:
    """Read a statement within another one.

    Args:
        refusal: raised for a statement that begins with none of `words`; not read, so that
            statements do not stand in each other without end.
    """
    if cursor.word() in _STATEMENTS and cursor.word() not in words:
        raise refusal
    return read_statement(cursor)


def _execute(cursor: Cursor) -> StatementSet | ExecutePlan:
    if cursor.take("PLAN"):
        there = cursor.take("IF", "EXISTS")
        return ExecutePlan(cursor.string("a path"), there)
    cursor.expect("STATEMENT", "SET")
    return _statement_set(cursor)


def _statement_set(cursor: Cursor) -> StatementSet:
    cursor.expect("BEGIN")
    inserts: list[Insert] = []
    while not cursor.take("END"):
        refusal = cursor.unexpected("a statement set holds INSERTs alone")
        statement = _inner(cursor, refusal, "INSERT")
        if not isinstance(statement, Insert):
            raise refusal
        inserts.append(statement)
        if not cursor.take(";") and cursor.word() != "END":
            raise cursor.unexpected("';' is expected after an INSERT")
    if not inserts:
        raise cursor.unexpected("a statement set holds an INSERT at least")
    return StatementSet(tuple(inserts))


def _compile(cursor: Cursor) -> CompilePlan:
    cursor.expect("PLAN")
    missing = cursor.take("IF", "NOT", "EXISTS")
    path = cursor.string("a path")
    cursor.expect("FOR")
    cursor.take("EXECUTE")
    statement: Statement
    refusal = QueryError(
        "COMPILE PLAN is FOR an INSERT or a STATEMENT SET: a SELECT has no table that its rows "
        "go to"
    )
    if cursor.take("STATEMENT", "SET"):
        statement = _statement_set(cursor)
    else:
        statement = _inner(cursor, refusal, "INSERT")
    if not isinstance(statement, Insert | StatementSet):
        raise refusal
    return CompilePlan(path, statement, missing)


_STATEMENTS: dict[str, Callable[[Cursor], Statement]] = {
    "CREATE": _create,
    "ALTER": alter,
    "DROP": _drop,
    "USE": _use,
    "SET": _set,
    "RESET": _reset,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "EXPLAIN": _explain,
    "INSERT": insert,
    "EXECUTE": _execute,
    "COMPILE": _compile,
    "UPDATE": changing,
    "DELETE": changing,
    "MERGE": changing,
    "TRUNCATE": truncate,
}
