"""Define functions of text."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pkray.relational.functions.coercion import STRING
from pkray.relational.functions.function import Family, Parameter
from pkray.relational.functions.signatures import Gives, takes

TEXT = Family("text")


def text_function(
    usage: str,
    about: str,
    parameters: Sequence[Parameter],
    kernel: Any,
    *,
    gives: Gives = STRING,
    least: int | None = None,
    synonyms: tuple[str, ...] = (),
    nullable: bool | None = None,
    fallible: bool = False,
    spark: Any = None,
    name: str = "",
) -> None:
    """Define a function whose parameters do not depend on each other."""
    TEXT.add(
        usage,
        about,
        takes(*parameters, gives=gives, least=least, nullable=nullable),
        kernel,
        spark=spark,
        synonyms=synonyms,
        fallible=fallible,
        name=name,
    )


def mask_of(value: pa.Array) -> pa.Array | None:
    """Tell which rows are NULL; None where none is."""
    return value.is_null() if value.null_count else None
