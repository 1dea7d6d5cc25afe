"""Merge engines: what becomes of the rows of one key (Paimon's ``merge-engine``)."""

from __future__ import annotations

from collections.abc import Callable

from pkray.lsm.compaction import forces_level_0_up
from pkray.lsm.engines.aggregation import Aggregation
from pkray.lsm.engines.deduplicate import Deduplicate
from pkray.lsm.engines.first_row import FirstRow
from pkray.lsm.engines.partial_update import PartialUpdate
from pkray.lsm.merge import MergeEngine
from pkray.schema import TableSchema

ENGINES: dict[str, Callable[[TableSchema], MergeEngine]] = {
    "deduplicate": lambda _: Deduplicate(),
    "partial-update": PartialUpdate,
    "aggregation": Aggregation,
    "first-row": lambda _: FirstRow(),
}


def merge_engine(schema: TableSchema) -> MergeEngine:
    """The engine a table's ``merge-engine`` names.

    A table that says ``num-levels`` may have several images of a key.

    Raises:
        UnsupportedError: an aggregate function that pkray does not have.
    """
    engine = ENGINES[schema.core.merge_engine](schema)
    engine.whole_above_0 = not engine.keeps_newest and forces_level_0_up(schema)
    engine.one_image = (
        engine.whole_above_0
        and not engine.images_replace
        and not schema.core.deletion_vectors_enabled
        and "num-levels" not in schema.options
    )
    return engine


__all__ = ["Aggregation", "Deduplicate", "FirstRow", "MergeEngine", "PartialUpdate", "merge_engine"]
