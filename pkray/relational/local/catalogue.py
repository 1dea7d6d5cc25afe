"""Every operator of the local engine, and the engine that has them all."""

from pkray.relational.local import (
    aggregate,
    joins,
    over,
    rows,
    sets,
    sorting,
    temporal,
    unnest,
    windows,
)
from pkray.relational.local.engine import run

__all__ = ["run"]

FAMILIES = (aggregate, joins, over, rows, sets, sorting, temporal, unnest, windows)
"""The modules of operators, which put themselves into the tables of the engine as they come."""
