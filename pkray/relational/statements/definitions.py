"""Statements that define tables, databases and views, and set options."""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from pkray.constants import texts
from pkray.errors import DatabaseNotFoundError, QueryError, TableNotFoundError, UnsupportedError
from pkray.options import as_options
from pkray.relational.api.composing import subquery
from pkray.relational.bound_query import BoundQuery
from pkray.relational.catalog import Catalog
from pkray.relational.dialect import Dialect
from pkray.relational.functions.casts.assignment import assigned
from pkray.relational.settings import OTHER_NAMES, SETTINGS, checked_setting
from pkray.relational.sources.computed import PREFIXES, bound, declared_type
from pkray.relational.sources.watermarks import (
    EXPRESSION,
    ROWTIME,
    WATERMARK_OPTIONS,
    options_of,
    watermark_options,
)
from pkray.relational.sql import syntax
from pkray.relational.sql.dialects import DIALECTS
from pkray.relational.sql.places import nearest, quoted
from pkray.relational.sql.statements import kinds as said
from pkray.relational.statements.listing import function_rows
from pkray.relational.statements.views import create_view, drop_view
from pkray.schema.changes import AddColumn, AddComputedColumn, SchemaChange
from pkray.schema.column_checks import check_names
from pkray.schema.computed_columns import (
    FLINK,
    Column,
    ComputedColumn,
    all_columns,
    with_columns,
    without_columns,
)
from pkray.schema.types import DataField, DataType
from pkray.table.maintenance.alter import watermark_changes
from pkray.table.table import Table

_OURS = ("pkray", "paimon")
DONE = pa.table({"result": texts(["OK"])})


def create_table(catalog: Catalog, asked: said.CreateTable, dialect: Dialect) -> None:
    """Make a keyed table as CREATE TABLE says; of CREATE TABLE … AS, an empty one."""
    name = catalog.session.full_name(asked.name)
    options = as_options(asked.options)
    _check_format(name, asked.using, options.pop("connector", None))
    if asked.like:
        _create_like(catalog, name, asked, options)
        return
    keys = _keys(name, asked, options.pop("primary-key", None))
    partitions = _partitions(asked, options.pop("partition", None))
    if asked.tree is not None:
        if asked.columns:
            raise QueryError(f"table {name} is created AS a query: leave its columns out")
        fields = BoundQuery(asked.tree, catalog.session.environment(dialect)).fields
        written: list[Column] = [
            DataField(place, each.name, each.type) for place, each in enumerate(fields)
        ]
    else:
        written = [_column(place, each, dialect) for place, each in enumerate(asked.columns)]
    columns = all_columns(written, options)
    stored = [each for each in columns if isinstance(each, DataField)]
    _check_there(name, (*keys, *partitions), columns)
    if len(columns) > len(stored):
        check_names([each.name for each in columns])
        trees = {each.name: each.tree for each in asked.columns if each.tree is not None}
        columns = [
            _typed(each, columns, trees[each.name])
            if isinstance(each, ComputedColumn) and each.name in trees
            else each
            for each in columns
        ]
        options = with_columns(options, columns)
    if asked.watermark is not None:
        options |= watermark_options(columns, *asked.watermark)
    table = catalog.create_table(
        name,
        [(each.name, each.type) for each in stored],
        keys,
        partitions,
        options,
        asked.comment,
        if_not_exists=asked.if_not_exists,
    )
    _describe(table, stored)


def _describe(table: Table, columns: Sequence[DataField]) -> None:
    """Give the columns of a table that is made the comments that they lack."""
    there = {field.name: field.description for field in table.schema.fields}
    for each in columns:
        if each.description and there.get(each.name) is None:
            table.alter.comment_column(each.name, each.description)


def _column(place: int, said_: said.ColumnDefinition, dialect: Dialect) -> Column:
    if said_.expression is not None:
        kind = None if said_.type is None else str(said_.type)
        prefix = PREFIXES[dialect]
        return ComputedColumn(said_.name, said_.expression, kind, said_.comment, prefix)
    assert said_.type is not None, "only computed columns have none"
    return DataField(place, said_.name, said_.type, said_.comment)


def _typed(column: ComputedColumn, columns: Sequence[Column], tree: exp.Expr) -> ComputedColumn:
    """Check the expression of a computed column, and give the column its type."""
    value = bound(tree, columns, column)
    if column.type is None:
        return replace(column, type=str(value.type))
    asked = DataType.parse(column.type)
    as_asked = assigned(value, asked, column.name)
    if value.type.nullable and not asked.nullable:
        raise QueryError(
            f"column {column.name} is NOT NULL, and its expression may be NULL: leave NOT NULL "
            "out, or write COALESCE",
            column_name=column.name,
        )
    if column.prefix == FLINK and as_asked != value:  # whose columns have their expression's type
        cast = f"CAST({column.expression} AS {asked.with_nullable(True)})"
        return replace(column, expression=cast, type=str(as_asked.type))
    return column


def _create_like(
    catalog: Catalog, name: str, asked: said.CreateTable, options: Mapping[str, str]
) -> None:
    like = catalog.load_table(catalog.session.full_name(asked.like))
    if asked.partition_by or "primary-key" in options or "partition" in options:
        raise QueryError(f"table {name} has the keys and partitions of {like.name}: leave its out")
    schema = like.schema
    made = catalog.create_table(
        name,
        [(each.name, each.type) for each in schema.fields],
        schema.primary_keys,
        like.partition_keys,
        {**like.options, **options},
        asked.comment or like.comment,
        if_not_exists=asked.if_not_exists,
    )
    _describe(made, schema.fields)


def _check_format(name: str, using: str | None, connector: str | None) -> None:
    for word, value in (("USING", using), ("connector", connector)):
        if value is not None and value.lower() not in _OURS:
            raise UnsupportedError(
                f"table {name} cannot be made with {word} {value!r}: tables here are pkray's own; "
                "write 'pkray', or leave it out",
                table=name,
            )


def _keys(name: str, asked: said.CreateTable, option: str | None) -> tuple[str, ...]:
    written = tuple(part.strip() for part in option.split(",")) if option else ()
    keys = asked.primary_key or written
    if written and asked.primary_key and written != asked.primary_key:
        raise QueryError(
            f"table {name} has two primary keys, ({', '.join(asked.primary_key)}) and "
            f"({', '.join(written)}): give one"
        )
    if not keys:
        raise QueryError(
            f"table {name} has no primary key, by which rows are replaced and deleted: write "
            "PRIMARY KEY (id) NOT ENFORCED among the columns, or TBLPROPERTIES ('primary-key' = "
            "'id')",
            table=name,
        )
    return keys


def _partitions(asked: said.CreateTable, option: str | None) -> tuple[str, ...]:
    return asked.partition_by or tuple(part.strip() for part in (option or "").split(",") if part)


def _check_there(name: str, keys: Sequence[str], columns: Sequence[Column]) -> None:
    """Check that the columns of a key or a partition are there, and stored."""
    known = {each.name: each for each in columns}
    for column in keys:
        if column not in known:
            raise QueryError(
                f"table {name} has no column {column!r}{nearest(column, known)}", column_name=column
            )
        if isinstance(known[column], ComputedColumn):
            raise QueryError(
                f"column {column} of {name} is computed: keys and partitions are of stored columns",
                column_name=column,
            )


def alter_table(catalog: Catalog, asked: said.AlterTable, dialect: Dialect) -> None:
    """Change a table as ALTER TABLE says."""
    name = catalog.session.full_name(asked.name)
    table = catalog.load_table(name)
    values: Any = asked.values
    match asked.action:
        case "add":
            table.alter.apply(_added(table, values, dialect))
        case "drop":
            for column in values:
                table.alter.drop_column(column)
        case "rename":
            table.alter.rename_column(*values)
        case "type":
            table.alter.change_type(*values)
        case "comment":
            table.alter.comment_column(*values)
        case "move":
            column, after = values
            table.alter.move_column(column, first=after is None, after=after)
        case "nullable":
            table.alter.change_nullability(values[0])
        case "set":
            table.alter.set_options(list(values))
        case "unset":
            table.alter.unset_options(list(values))
        case "rename_table":
            catalog.rename_table(name, catalog.session.full_name(values))
        case "drop_partition":
            table.drop_partitions([constants(values)])
        case "watermark" if values:
            table.alter.apply(watermark_changes(table.schema, options_of(table.schema, *values)))
        case "watermark":
            table.alter.drop_watermark()


def _added(
    table: Table, written: Sequence[said.ColumnDefinition], dialect: Dialect
) -> list[SchemaChange]:
    """Make the changes that add columns; those that are computed come last."""
    columns = all_columns(table.schema.fields, table.options)
    added = [_column(len(columns) + place, each, dialect) for place, each in enumerate(written)]
    columns += added
    stored: list[SchemaChange] = []
    computed: list[SchemaChange] = []
    for each, column in zip(written, added, strict=True):
        after = each.place[0] if isinstance(each.place, tuple) else None
        place = each.place == "FIRST", after
        if isinstance(column, ComputedColumn):
            assert each.tree is not None, "its syntax is there with its text"
            computed.append(AddComputedColumn(_typed(column, columns, each.tree), *place))
            continue
        if not column.type.nullable:
            raise QueryError(
                f"column {each.name} cannot be added as NOT NULL: rows that are there have no value"
            )
        stored.append(AddColumn(each.name, column.type, each.comment, *place))
    return [*stored, *computed]


def constants(pairs: Sequence[tuple[str, exp.Expr | None]]) -> dict[str, object]:
    """Read PARTITION (a = 1, b = 'x'); columns without values are left out."""
    found: dict[str, object] = {}
    for name, tree in pairs:
        if tree is None:
            continue
        if isinstance(tree, exp.Literal):
            found[name] = tree.this if tree.is_string else tree.to_py()
        elif isinstance(tree, exp.Null):
            found[name] = None
        elif isinstance(tree, exp.Cast) and isinstance(tree.this, exp.Literal):
            found[name] = tree.this.this
        else:
            raise QueryError(f"a partition's value is a constant, not {tree.sql(dialect='spark')}")
    return found


def drop(catalog: Catalog, asked: said.Drop) -> None:
    """Drop a table, view or database."""
    if asked.what == "database":
        catalog.drop_database(
            ".".join(asked.name), if_exists=asked.if_exists, cascade=asked.cascade
        )
    elif asked.what == "view":
        drop_view(catalog, ".".join(asked.name), if_exists=asked.if_exists)
    else:
        name = catalog.session.full_name(asked.name)
        if catalog.find_view(name) is not None:
            raise QueryError(f"{name} is a view: write DROP VIEW {name}")
        catalog.drop_table(name, if_exists=asked.if_exists)


def use(catalog: Catalog, name: str) -> None:
    """Make a database the current one."""
    if not catalog.database_exists(name) and name != catalog.session.database:
        known = catalog.list_databases()
        raise DatabaseNotFoundError(
            f"database {name} does not exist{nearest(name, known)}; there are "
            f"{', '.join(known) or 'none'}",
            database=name,
        )
    catalog.session.database = name


def make_view(catalog: Catalog, asked: said.CreateView, dialect: Dialect) -> None:
    """Create a view."""
    query = BoundQuery(asked.tree, catalog.session.environment(dialect))
    if asked.columns:
        if len(asked.columns) != len(query.columns):
            raise QueryError(
                f"view {'.'.join(asked.name)} names {len(asked.columns)} columns: its query gives "
                f"{len(query.columns)}"
            )
        query = _renamed(query, asked.columns)
    create_view(
        catalog,
        ".".join(asked.name),
        query,
        temporary=asked.temporary,
        replace=asked.replace,
        if_not_exists=asked.if_not_exists,
    )


def _renamed(query: BoundQuery, names: Sequence[str]) -> BoundQuery:
    """Give the columns of a query other names."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise QueryError(
            f"two columns would be called {twice!r}: rename or drop the other one",
            column_name=twice,
        )
    made = syntax.star(subquery(query.tree))
    pairs = zip(query.columns, names, strict=True)
    made.set("expressions", [syntax.aliased(syntax.column(old), new) for old, new in pairs])
    return BoundQuery(made, query.names)


def set_option(catalog: Catalog, asked: said.SetOption) -> pa.Table:
    """Set an option, or list what is set."""
    options = catalog.session.options
    if asked.key is None:
        return _pairs(options)
    key = OTHER_NAMES.get(asked.key.lower(), asked.key)
    if asked.value is None:
        if key not in SETTINGS:
            checked_setting(key, "")
        return _pairs({asked.key: options.get(key, SETTINGS[key].default or "")})
    options[key] = checked_setting(key, asked.value)
    return DONE


def reset(catalog: Catalog, key: str | None) -> None:
    """Give one option its default, or all."""
    options = catalog.session.options
    key = key and OTHER_NAMES.get(key.lower(), key)
    if key is None:
        options.clear()
    elif key in SETTINGS:
        options.pop(key, None)
    else:
        checked_setting(key, "")


def show(catalog: Catalog, asked: said.Show, dialect: Dialect) -> pa.Table:
    """List what there is."""
    session = catalog.session
    database = asked.of[0] if asked.of else session.database
    if asked.what == "databases":
        return _names("database", catalog.list_databases(), asked.like)
    if asked.what == "database":
        return pa.table({"database": [session.database]})
    if asked.what in ("tables", "views"):
        found = _of_database(catalog, database, named=bool(asked.of), views=asked.what == "views")
        return _names(asked.what[:-1], found, asked.like)
    if asked.what == "functions":
        rows = function_rows(dialect, session.functions)
        return _liked(pa.Table.from_pylist(rows), "name", asked.like)
    name = session.full_name(asked.of)
    view = _view_query(catalog, ".".join(asked.of), name)
    if asked.what in ("create", "create_view") and view is not None:
        return pa.table({"statement": [f"CREATE VIEW {_name(name)} AS\n{view}"]})
    if asked.what == "create_view":
        known = [*session.views, *catalog.views()]
        raise TableNotFoundError(f"no view is called {name}{nearest(name, known)}", table=name)
    if asked.what == "partitions":
        return _partitions_of(catalog, name, asked)
    table = catalog.load_table(name)
    if asked.what == "columns":
        columns = all_columns(table.schema.fields, table.options)
        return _names("column", [each.name for each in columns], asked.like)
    if asked.what == "options":
        return _pairs(table.options)
    return pa.table({"statement": [create_statement(table, dialect)]})


def _view_query(catalog: Catalog, said: str, name: str) -> str | None:
    """Give the query of a view; None where no view is called so."""
    if said in catalog.session.views:
        return str(catalog.session.views[said].sql())
    view = catalog.find_view(name)
    return None if view is None else view.query


def _partitions_of(catalog: Catalog, name: str, asked: said.Show) -> pa.Table:
    """List partitions, as ``dt=a/hour=1``."""
    keys = catalog.load_table(name).partition_keys
    if not keys:
        raise QueryError(f"table {name} has no partitions", table=name)
    wanted = constants(asked.partition)
    for column in wanted:
        if column not in keys:
            raise QueryError(
                f"table {name} is not partitioned by {column}{nearest(column, keys)}", table=name
            )
    listed = catalog.load_table(f"{name}$partitions").to_arrow().column("partition").to_pylist()
    parts = {f"{column}={value}" for column, value in wanted.items()}
    chosen = sorted(each for each in listed if parts <= set(each.split("/")))
    return _names("partition", chosen, None)


def _name(name: str) -> str:
    return ".".join(map(quoted, name.split(".")))


def _of_database(catalog: Catalog, database: str, *, named: bool, views: bool) -> list[str]:
    session = catalog.session
    found: list[str] = []
    if named or catalog.database_exists(database):  # the current one need not exist yet
        found = catalog.views(database)
        found = found if views else [*catalog.list_tables(database), *found]
    return sorted([*(name.partition(".")[2] for name in found), *session.views])


def create_statement(table: Table, dialect: Dialect) -> str:
    """Write the statement that makes a table like this one."""
    schema = table.schema
    flink = dialect is Dialect.FLINK
    options = dict(table.options)
    mark = {key: options.pop(f"pkray.{key}", options.pop(key, None)) for key in WATERMARK_OPTIONS}
    columns = all_columns(schema.fields, options)
    lines = [f"  {_defined(each, dialect)}" for each in columns if _is_written(each, dialect)]
    options = without_columns(options, [each for each in columns if _is_written(each, dialect)])
    time = mark[ROWTIME]
    if time:
        lines.append(f"  WATERMARK FOR {quoted(time)} AS {mark[EXPRESSION] or time}")
    keys = ", ".join(map(quoted, schema.primary_keys))
    if flink:
        lines.append(f"  PRIMARY KEY ({keys}) NOT ENFORCED")
    else:
        options = {"primary-key": ",".join(schema.primary_keys), **options}
    parts = [f"CREATE TABLE {_name(table.name)} (\n" + ",\n".join(lines) + "\n)"]
    if not flink:
        parts.append("USING pkray")
    if table.comment:
        parts.append(f"COMMENT {_text(table.comment, dialect)}")
    if table.partition_keys:
        parts.append(f"PARTITIONED BY ({', '.join(map(quoted, table.partition_keys))})")
    pairs = ", ".join(
        f"{_text(key, dialect)} = {_text(value, dialect)}" for key, value in options.items()
    )
    if pairs:
        parts.append(f"{'WITH' if flink else 'TBLPROPERTIES'} ({pairs})")
    return "\n".join(parts)


def _is_written(column: Column, dialect: Dialect) -> bool:
    """Whether a column stands in the statement; one of the other dialect stays in the options."""
    if isinstance(column, DataField):
        return True
    has_type = column.type is None or declared_type(column) is not None
    return column.prefix == PREFIXES[dialect] and column.expression is not None and has_type


def _defined(column: Column, dialect: Dialect) -> str:
    comment = column.description if isinstance(column, DataField) else column.comment
    said_ = f" COMMENT {_text(comment, dialect)}" if comment else ""
    if isinstance(column, ComputedColumn) and (dialect is Dialect.FLINK or column.type is None):
        return f"{quoted(column.name)} AS {column.expression}{said_}"
    if isinstance(column, ComputedColumn):
        kind = DataType.parse(column.type or "").with_nullable(True)
        generated = f"GENERATED ALWAYS AS ({column.expression})"
        return f"{quoted(column.name)} {_type(kind, dialect)} {generated}{said_}"
    null = "" if column.type.nullable else " NOT NULL"
    return f"{quoted(column.name)} {_type(column.type, dialect)}{null}{said_}"


def _type(kind: DataType, dialect: Dialect) -> str:
    if dialect is Dialect.FLINK:
        return str(kind.with_nullable(True))
    return str(syntax.type_syntax(kind).sql(dialect=DIALECTS[dialect]))


def _text(value: str, dialect: Dialect) -> str:
    return str(exp.Literal.string(value).sql(dialect=DIALECTS[dialect]))


def _names(column: str, names: Sequence[str], like: str | None) -> pa.Table:
    return _liked(pa.table({column: texts(names)}), column, like)


def _liked(rows: pa.Table, column: str, like: str | None) -> pa.Table:
    if like is None:
        return rows
    pattern = like.replace("%", "*").lower()
    kept = [fnmatch.fnmatchcase(str(name).lower(), pattern) for name in rows[column].to_pylist()]
    return rows.filter(pa.array(kept, pa.bool_()))


def _pairs(values: Mapping[str, str]) -> pa.Table:
    keys = sorted(values)
    return pa.table({"key": texts(keys), "value": texts([values[key] for key in keys])})
