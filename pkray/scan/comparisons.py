"""Makes conditions out of a column, an operator and literals, by SQL's rules.

Each takes ``negated`` for a NOT in front. NULL literals make conditions that are never true, and
literals that the column's type cannot hold are moved to the next value that it can.
"""

from collections.abc import Sequence

import pyarrow as pa

from pkray.errors import InputError
from pkray.scan.conditions import AllOf, Always, AnyOf, Compare, Condition, IsNull, Like, OneOf
from pkray.scan.literals import Literal, fit, mismatch
from pkray.schema.types import STRINGS, DataField

NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
SWAPPED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}

NEVER = Always(False)


def compare(field: DataField, operator: str, value: Literal, negated: bool = False) -> Condition:
    """Build ``field operator value``.

    Raises:
        InputError: the column does not compare with the literal.
    """
    _check_scalar(field)
    if value is None:
        return NEVER
    if negated:
        operator = NEGATED[operator]
    fitted = fit(value, field)
    if fitted.exact and fitted.value is not None:
        return Compare(field.name, operator, fitted.value)
    has_value = IsNull(field.name, negated=True)
    if operator in ("=", "<>"):
        return has_value if operator == "<>" else NEVER
    if fitted.value is None:
        return has_value if operator in (">", ">=") else NEVER
    return Compare(field.name, "<=" if operator in ("<", "<=") else ">", fitted.value)


def between(field: DataField, low: Literal, high: Literal, negated: bool = False) -> Condition:
    """Build ``field BETWEEN low AND high``.

    Raises:
        InputError: the column does not compare with a literal.
    """
    ends = (compare(field, ">=", low, negated), compare(field, "<=", high, negated))
    return AnyOf(ends) if negated else AllOf(ends)


def one_of(field: DataField, values: Sequence[Literal], negated: bool = False) -> Condition:
    """Build ``field IN (values)``.

    Raises:
        InputError: the column does not compare with a literal.
    """
    _check_scalar(field)
    if negated and any(value is None for value in values):
        return NEVER
    fitted = [fit(value, field) for value in values if value is not None]
    held = [each.value for each in fitted if each.exact and each.value is not None]
    if pa.types.is_floating(field.type.arrow) and any(each.as_py() == 0 for each in held):
        held += [pa.scalar(zero, field.type.arrow) for zero in (0.0, -0.0)]
    if not held:
        return IsNull(field.name, negated=True) if negated else NEVER
    return OneOf(field.name, pa.array(held, field.type.arrow).unique(), negated)


def like(
    field: DataField,
    pattern: Literal,
    *,
    escape: str = "\\",
    ignore_case: bool = False,
    negated: bool = False,
) -> Condition:
    """Build ``field LIKE pattern ESCAPE escape``.

    Raises:
        InputError: the column or the pattern is no string, or the escape is not one character.
    """
    if pattern is None:
        return NEVER
    if field.type.root not in STRINGS or not isinstance(pattern, str):
        raise mismatch(pattern, field)
    if len(escape) != 1:
        raise InputError(f"ESCAPE {escape!r} must be one character", value=escape)
    if escape != "\\":
        pattern = _with_backslashes(pattern, escape)
    return Like(field.name, pattern, ignore_case, negated)


def _with_backslashes(pattern: str, escape: str) -> str:
    written, escaped = [], False
    for character in pattern:
        if character == escape and not escaped:
            escaped = True
            continue
        if escaped or character == "\\":
            written.append("\\")
        written.append(character)
        escaped = False
    return "".join(written)


def _check_scalar(field: DataField) -> None:
    if field.type.is_nested:
        raise InputError(
            f"column {field.name!r} is {field.type}: filters can only ask whether it IS NULL",
            column=field.name,
            type=str(field.type),
        )
