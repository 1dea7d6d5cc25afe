"""The types that a query names."""

from sqlglot import exp

from pkray.errors import QueryError, SchemaError
from pkray.relational.dialect import Dialect
from pkray.schema.types import DataField, DataType

_SAME = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "CHAR"),
    *("VARCHAR", "STRING", "VARBINARY", "BINARY", "DATE", "TIME", "ARRAY", "MAP"),
)
_ROOTS = {
    **{name: name for name in _SAME},
    "TEXT": "STRING",
    "LONGBLOB": "BYTES",
    "TIMESTAMPNTZ": "TIMESTAMP",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMPLTZ": "TIMESTAMP_LTZ",
    "STRUCT": "ROW",
}
_BY_DIALECT = {"TIMESTAMP", "TIMESTAMPTZ"}
_PARAMETERS = {
    **dict.fromkeys(("CHAR", "VARCHAR", "BINARY", "VARBINARY"), ("length",)),
    **dict.fromkeys(("TIME", "TIMESTAMP", "TIMESTAMP_LTZ"), ("precision",)),
    "DECIMAL": ("precision", "scale"),
}


def type_of(node: exp.DataType, dialect: Dialect) -> DataType:
    """Read a type as a query names it.

    TIMESTAMP is TIMESTAMP_LTZ in the spark dialect, and without a zone in the flink dialect.

    Raises:
        QueryError: there is no such type, or its parameters are wrong.
    """
    try:
        return _type(node, dialect)
    except SchemaError as error:
        raise QueryError(error.message, **error.values) from None


def _type(node: exp.DataType, dialect: Dialect) -> DataType:
    said = node.this.value if isinstance(node.this, exp.DType) else str(node.this)
    if said in _BY_DIALECT:
        root = "TIMESTAMP_LTZ" if dialect is Dialect.SPARK else "TIMESTAMP"
    elif said in _ROOTS:
        root = _ROOTS[said]
    elif said in ("USERDEFINED", "USER-DEFINED"):
        return DataType.parse(node.sql())
    else:
        raise QueryError(f"there is no type {node.sql()}")
    parts = node.expressions
    if root == "ARRAY":
        (element,) = _inner(node, 1, dialect)
        return DataType("ARRAY", element=element)
    if root == "MAP":
        key, value = _inner(node, 2, dialect)
        return DataType("MAP", key=key.with_nullable(False), value=value)
    if root == "ROW":
        return DataType("ROW", fields=tuple(_field(i, f, dialect) for i, f in enumerate(parts)))
    return _scalar(root, [_number(part) for part in parts], dialect)


def _scalar(root: str, numbers: list[int], dialect: Dialect) -> DataType:
    names = _PARAMETERS.get(root, ())
    if root in ("BINARY", "VARBINARY") and dialect is Dialect.SPARK and not numbers:
        return DataType("BYTES")
    if len(numbers) > len(names):
        raise QueryError(f"{root} takes {len(names)} parameters, not {len(numbers)}")
    given = dict(zip(names, numbers, strict=False))
    return DataType(
        root, length=given.get("length"), precision=given.get("precision"), scale=given.get("scale")
    )


def _inner(node: exp.DataType, count: int, dialect: Dialect) -> list[DataType]:
    parts = [part for part in node.expressions if isinstance(part, exp.DataType)]
    if len(node.expressions) != count or len(parts) != count:
        raise QueryError(f"there is no type {node.sql()}")
    return [_type(part, dialect) for part in parts]


def _field(index: int, node: exp.Expr, dialect: Dialect) -> DataField:
    kind = node.args.get("kind")
    if not isinstance(kind, exp.DataType):
        raise QueryError(f"{node.sql()} is no field of a ROW: write name TYPE")
    return DataField(index, node.name, _type(kind, dialect))


def _number(node: exp.Expr) -> int:
    text = node.this.name if isinstance(node, exp.DataTypeParam) else node.sql()
    if not text.isdigit():
        raise QueryError(f"{text!r} is no parameter of a type: give a number")
    return int(text)
