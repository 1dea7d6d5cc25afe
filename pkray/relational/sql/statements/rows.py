"""Reading of statements that change rows."""

from collections.abc import Iterator

from sqlglot import exp

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.sql.hints import MISPLACED_HINT
from pkray.relational.sql.places import wrong
from pkray.relational.sql.statements.cursor import Cursor
from pkray.relational.sql.statements.kinds import Delete, Insert, Merge, Name, Update


def insert(cursor: Cursor) -> Insert:
    """Read what comes after INSERT."""
    overwrite = cursor.take("OVERWRITE")
    if not overwrite:
        cursor.expect("INTO")
    cursor.take("TABLE")
    name = cursor.name("a table")
    partition = read_partition(cursor) if cursor.take("PARTITION") else []
    columns: tuple[str, ...] = ()
    if cursor.word() == "(" and cursor.word(1) not in ("SELECT", "WITH", "VALUES", "("):
        columns = cursor.names("a column")
    tree = cursor.tree("ON CONFLICT")
    conflict = _conflict(cursor) if cursor.take("ON") else None
    return Insert(name, tree, columns, overwrite, tuple(partition), conflict)


def _conflict(cursor: Cursor) -> str:
    cursor.expect("CONFLICT", "DO")
    for word in ("NOTHING", "ERROR", "DEDUPLICATE"):
        if cursor.take(word):
            return word.lower()
    raise cursor.unexpected("NOTHING, ERROR or DEDUPLICATE is expected after ON CONFLICT DO")


def read_partition(cursor: Cursor) -> list[tuple[str, exp.Expr | None]]:
    """Read the values of PARTITION (…)."""

    def pair() -> tuple[str, exp.Expr | None]:
        column = cursor.identifier("a partition column")
        return column, cursor.expression() if cursor.take("=") else None

    return [each for each in cursor.listed("a partition", pair) if isinstance(each, tuple)]


def changing(cursor: Cursor) -> Update | Delete | Merge:
    """Read UPDATE, DELETE and MERGE, which the parser of queries knows."""
    cursor.step(-1)
    tree = cursor.parsed(cursor.until(";"))
    if isinstance(tree, exp.Update):
        _check_parts(tree, {"this", "expressions", "where"})
        return Update(*_target(tree), tuple(_assignments(tree)), _where(tree))
    if isinstance(tree, exp.Delete):
        _check_parts(tree, {"this", "where"})
        return Delete(*_target(tree), _where(tree))
    if isinstance(tree, exp.Merge):
        _check_parts(tree, {"this", "using", "on", "whens"})
        return Merge(_target(tree)[0], tree)
    raise QueryError("the statement is not understood", **cursor.place(-1))


def truncate(cursor: Cursor) -> Delete:
    """Read what comes after TRUNCATE."""
    cursor.take("TABLE")
    return Delete(cursor.name("a table"), None, None)


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
        raise wrong(f"{MISPLACED_HINT}, not in {tree.key.upper()}", table)
    return tuple(part.name for part in table.parts), table.alias or None


def _where(tree: exp.Expr) -> exp.Expr | None:
    where = tree.args.get("where")
    return where.this if where is not None else None


def _assignments(tree: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    for each in tree.expressions:
        if not isinstance(each, exp.EQ) or not isinstance(each.this, exp.Column):
            raise QueryError(f"SET takes column = value, not {each.sql(dialect='spark')}")
        yield each.this.name, each.expression
