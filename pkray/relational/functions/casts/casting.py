"""Tell which casts there are, and what a dialect means by CAST."""

from dataclasses import replace

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import NUMBERS, cast_to, is_null_literal
from pkray.relational.plan.expressions import Call, Cast, Expression, Literal
from pkray.schema.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS, DataType

_TIMES = ("DATE", *TIMESTAMPS)


def cast(
    value: Expression, target: DataType, dialect: Dialect, *, is_try: bool = False
) -> Expression:
    """Make what CAST or TRY_CAST means in a dialect.

    In the flink dialect integers lose their high bits, and booleans are written in capitals.

    Raises:
        QueryError: values of the one type cannot be cast to the other.
    """
    source = value.type
    if dialect is Dialect.SPARK and target.root in ("CHAR", "VARCHAR"):
        target = DataType("STRING")  # as Spark does, which checks lengths in tables only
    if is_null_literal(value):
        return Literal(target.with_nullable(True), None)
    if not can_cast(source, target):
        raise QueryError(
            f"{source.with_nullable(True)} cannot be cast to {target.with_nullable(True)}"
        )
    if source.with_nullable(True) == target.with_nullable(True):
        return value
    plain = cast_to(value, target)
    if isinstance(plain, Literal):
        return plain
    if dialect is Dialect.FLINK:
        if target.root in STRINGS and source.is_nested:
            raise UnsupportedError(
                f"{source.root} values cannot be cast to text in the flink dialect; use to_json"
            )
        if target.root in STRINGS and source.root in ("BOOLEAN", *TIMESTAMPS):
            text = Call(DataType("STRING", source.nullable), "flink_text", (value,))
            return cast_to(text, target)
        if not is_try and target.root in INTEGERS and source.root in NUMBERS:
            return Cast(target.with_nullable(source.nullable), value, "wrap")
    if is_try:
        return Cast(all_nullable(target), value, "null")
    return plain


def can_cast(source: DataType, target: DataType) -> bool:
    """Whether there is a cast from values of one type to another."""
    one, other = source.root, target.root
    if source.is_nested or target.is_nested:
        return (target.root in STRINGS and source.is_nested) or _can_cast_parts(source, target)
    if one == other or other in STRINGS or one in STRINGS:
        return True
    if one in NUMBERS:
        return other in (*NUMBERS, "BOOLEAN", "TIMESTAMP_LTZ")
    if one == "BOOLEAN":
        return other in NUMBERS
    if one in BINARIES:
        return other in BINARIES
    if one in ("TIME", "DATE"):
        return other in TIMESTAMPS
    return other in _TIMES or other == "TIME" or (one == "TIMESTAMP_LTZ" and other in NUMBERS)


def _can_cast_parts(source: DataType, target: DataType) -> bool:
    if source.root != target.root:
        return False
    if source.root == "ROW":
        fields = source.fields or (), target.fields or ()
        return len(fields[0]) == len(fields[1]) and all(
            can_cast(one.type, other.type) for one, other in zip(*fields, strict=True)
        )
    parts = ((source.element, target.element), (source.key, target.key))
    return all(
        one is None or other is None or can_cast(one, other)
        for one, other in (*parts, (source.value, target.value))
    )


def all_nullable(kind: DataType) -> DataType:
    """Let each part be NULL but keys, as where a part that does not fit becomes NULL."""
    fields = kind.fields and tuple(
        replace(each, type=all_nullable(each.type)) for each in kind.fields
    )
    element = kind.element and all_nullable(kind.element)
    value = kind.value and all_nullable(kind.value)
    return replace(kind, nullable=True, element=element, value=value, fields=fields)
