"""Values that are missing, or to be replaced: ``dropna``, ``fillna``, ``replace``."""

import datetime as dt
import operator
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

from sqlglot import exp

from pkray.errors import OptionError, QueryError
from pkray.relational.api.column import Column
from pkray.relational.api.queried import Queried
from pkray.relational.plan.fields import Field
from pkray.relational.sql import syntax
from pkray.relational.sql.syntax import column, identifier
from pkray.schema.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS, DataType

_NUMBERS = (*INTEGERS, "DECIMAL", "FLOAT", "DOUBLE")
_TAKES: tuple[tuple[type, tuple[str, ...]], ...] = (
    (bool, ("BOOLEAN",)),
    (int, _NUMBERS),
    (float, ("FLOAT", "DOUBLE")),
    (Decimal, ("DECIMAL", "FLOAT", "DOUBLE")),
    (str, STRINGS),
    (bytes, BINARIES),
    (dt.datetime, TIMESTAMPS),
    (dt.date, ("DATE",)),
    (dt.time, ("TIME",)),
)
_KEPT = ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "DATE", *STRINGS)
"""Types that a CASE of a column and a fitting constant has by itself."""


# NULLs and values


def dropna(relation: Queried, thresh: int | None, fields: Sequence[str] | None) -> Any:
    """Leave out rows with NULLs; as of ``Relation.dropna``."""
    names = _names(relation, fields)
    least = len(names) if thresh is None else 1 if thresh == -1 else thresh
    if not 0 <= least <= len(names):
        raise OptionError(
            f"thresh cannot be {thresh}: of {len(names)} columns give 0 to {len(names)}, or -1",
            value=thresh,
            arguments=("thresh",),
        )
    if least == len(names):
        return relation.filter(*(relation[name].is_not_null for name in names))
    total = reduce(operator.add, (Column(_counted(name)) for name in names))
    return relation.filter(total >= least)


def _counted(name: str) -> exp.Expr:
    there = exp.Not(this=exp.Is(this=column(name), expression=exp.Null()))
    branch = exp.If(this=there, true=exp.Literal.number(1))
    return exp.Paren(this=exp.Case(ifs=[branch], default=exp.Literal.number(0)))


def fillna(relation: Queried, value: object, fields: Sequence[str] | None) -> Any:
    """Put constants in the place of NULLs; as of ``Relation.fillna``."""
    if isinstance(value, Mapping):
        if fields is not None:
            raise OptionError("fillna takes values by column, or one value and fields: not both")
        values = {relation._name(name): each for name, each in value.items()}
    else:
        values = dict.fromkeys(_fitting(relation, [value], fields), value)

    def filled(name: str) -> exp.Expr:
        missing = exp.Is(this=column(name), expression=exp.Null())
        given = _constant(values[name], relation.fields[name])
        return exp.Case(ifs=[exp.If(this=missing, true=given)], default=column(name))

    return _replaced(relation, {name: filled(name) for name in values})


def replace(relation: Queried, mapping: Mapping[Any, Any], fields: Sequence[str] | None) -> Any:
    """Put constants in the place of others; as of ``Relation.replace``."""
    if not mapping:
        raise QueryError("replace takes new values by old ones: the mapping is empty")
    given = [each for pair in mapping.items() for each in pair if each is not None]

    def changed(name: str) -> exp.Expr:
        field = relation.fields[name]
        branches = []
        for old, new in mapping.items():
            test = exp.EQ(this=column(name), expression=syntax.literal(old))
            is_null = exp.Is(this=column(name), expression=exp.Null())
            when = is_null if old is None else test
            branches.append(exp.If(this=when, true=_constant(new, field)))
        return exp.Case(ifs=branches, default=column(name))

    names = _fitting(relation, given, fields)
    return _replaced(relation, {name: changed(name) for name in names})


def _replaced(relation: Queried, values: Mapping[str, exp.Expr]) -> Any:
    """Select all columns, some of them computed anew."""
    made = [
        exp.Alias(this=values[name], alias=identifier(name)) if name in values else column(name)
        for name in relation.columns
    ]
    return relation._selected(made)


def _fitting(
    relation: Queried, values: Sequence[object], fields: Sequence[str] | None
) -> list[str]:
    """List the columns whose type takes all of some constants."""
    names = _names(relation, fields)
    found = [name for name in names if all(_takes(relation.fields[name], v) for v in values)]
    if fields is not None and len(found) < len(names):
        wrong = next(name for name in names if name not in found)
        raise QueryError(
            f"column {wrong!r} is {relation.fields[wrong].type}: it does not hold "
            f"{next(v for v in values if not _takes(relation.fields[wrong], v))!r}",
            column_name=wrong,
        )
    if not found:
        raise QueryError(f"no column is of a type that holds {values[0]!r}")
    return found


def _takes(field: Field, value: object) -> bool:
    for kind, roots in _TAKES:
        if isinstance(value, kind):
            return field.type.root in roots
    return False


def _constant(value: object, field: Field) -> exp.Expr:
    """Write a constant so that the column keeps its type."""
    if value is not None and not _takes(field, value):
        raise QueryError(
            f"column {field.name!r} is {field.type}: it does not hold {value!r}",
            column_name=field.name,
        )
    written = syntax.literal(value)
    if value is None or field.type.root in _KEPT:
        return written
    kind: DataType = field.type.with_nullable(True)
    return exp.Cast(this=written, to=syntax.type_syntax(kind))


def _names(relation: Queried, fields: Sequence[str] | None) -> list[str]:
    return relation.columns if fields is None else [relation._name(name) for name in fields]
