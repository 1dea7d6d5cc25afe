"""Casts that are written as functions: ``int(x)``, ``date(x)``."""

from pkray.relational.dialect import Dialect
from pkray.relational.functions.casts.casting import cast
from pkray.relational.functions.function import Family, Written
from pkray.relational.functions.signatures import anything
from pkray.relational.plan.expressions import Expression
from pkray.schema.types import DataType

CONDITIONAL = Family("conditional")
_NAMES = {
    **{
        name: DataType(name.upper())
        for name in (
            *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal"),
            *("string", "date"),
        )
    },
    "binary": DataType("BYTES"),
    "timestamp": DataType("TIMESTAMP_LTZ"),
    "time": DataType("TIME", precision=6),
}


def _cast(call: Written) -> Expression:
    (value,) = call.taken(anything)
    return cast(value, _NAMES[call.name], call.dialect)


for _name, _kind in _NAMES.items():
    CONDITIONAL.only(Dialect.SPARK).alias(f"{_name}(x) -> {_kind}", f"Cast to {_kind}.", _cast)
