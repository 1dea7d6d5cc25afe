"""Functions as Python calls: ``f.sum("a")``, ``f.upper(rel.name)``.

Every function of SQL is here under its name, users' own too; ``pkray sql --functions`` lists them.
Arguments are columns, SQL text, or constants by ``lit``; ``f.count()`` counts rows.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from pkray.relational.api.column import Column, called
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.aggregates import catalogue as aggregates


def __getattr__(name: str) -> Callable[..., Column]:
    if name.startswith("_"):
        raise AttributeError(f"no function is called {name!r}")
    return partial(called, name)


def __dir__() -> list[str]:
    every: list[Any] = [
        *function.written(Dialect.SPARK),
        *aggregates.written_aggregates(Dialect.SPARK),
        *aggregates.written_windows(),
    ]
    return sorted({each.name for each in every})
