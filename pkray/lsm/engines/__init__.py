"""Merge engines: what becomes of the rows of one key (Paimon's ``merge-engine``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pkray.errors import UnsupportedError
from pkray.lsm.engines.deduplicate import Deduplicate
from pkray.lsm.merge import MergeEngine

if TYPE_CHECKING:
    from pkray.schema import TableSchema


def merge_engine(schema: TableSchema) -> MergeEngine:
    """The engine a table's ``merge-engine`` names.

    Raises:
        UnsupportedError: pkray does not have it.
    """
    name = schema.core.merge_engine
    if name == "deduplicate":
        return Deduplicate()
    raise UnsupportedError(
        f"merge-engine {name!r} is not there yet; use 'deduplicate'", merge_engine=name
    )


__all__ = ["Deduplicate", "MergeEngine", "merge_engine"]
