"""Merge engines: what becomes of the rows of one key (Paimon's ``merge-engine``).

`ENGINES` has them by name: `Deduplicate` (the newest row), `FirstRow`, `PartialUpdate` (columns
that are not null, `SequenceGroupMerger`) and `Aggregation`. The last two are a `FieldwiseEngine`:
each column is merged by a function of ``functions``, on `Segments`, which are the rows of each key
one after the other. An engine is a `MergeEngine`: it makes one row of each group of rows, and its
attributes say what readers and compactions may assume. ``merge_order`` names the rules by which a
table's content depends on what was merged when. A new engine is a module here and a line in
`ENGINES`.
"""

import logging
from collections.abc import Callable

from pkray.errors import SchemaError
from pkray.lsm.compaction.pick import forces_level_0_up
from pkray.lsm.engines.aggregation import Aggregation
from pkray.lsm.engines.deduplicate import Deduplicate
from pkray.lsm.engines.fieldwise import FieldwiseEngine
from pkray.lsm.engines.first_row import FirstRow
from pkray.lsm.engines.functions import aggregate_function
from pkray.lsm.engines.partial_update import PartialUpdate
from pkray.lsm.merge.merge_function import MergeEngine
from pkray.schema.table_schema import TableSchema

_log = logging.getLogger(__name__)

ENGINES: dict[str, Callable[[TableSchema], MergeEngine]] = {
    "deduplicate": lambda _: Deduplicate(),
    "partial-update": PartialUpdate,
    "aggregation": Aggregation,
    "first-row": lambda _: FirstRow(),
}


def merge_engine(schema: TableSchema) -> MergeEngine:
    """Make the engine that a table's ``merge-engine`` names.

    A table that says ``num-levels`` may have several images of a key.

    Raises:
        UnsupportedError: an aggregate function that pkray does not have.
        SchemaError: one that is not for its column's type.
    """
    engine = ENGINES[schema.core.merge_engine](schema)
    engine.whole_above_0 = not engine.keeps_newest and forces_level_0_up(schema)
    engine.single_version = (
        engine.whole_above_0
        and not engine.images_replace
        and not schema.core.deletion_vectors_enabled
        and "num-levels" not in schema.options
    )
    return engine


def check_functions(schema: TableSchema) -> None:
    """Check, before a table is defined so, that its aggregate functions fit its columns.

    Those that are let through in Paimon, as sums of texts are, and fail once a key has two values
    are let through here, too: that is said in the log.

    Raises:
        As `merge_engine`; and SchemaError for such a function of a table that does not aggregate,
            where it was never of use.
    """
    engine = merge_engine(schema)
    if not isinstance(engine, FieldwiseEngine):
        _check_idle_functions(schema)
    else:
        for name, function in engine.functions.items():
            if not function.merges_its_type:
                _log.warning(
                    "column %r is %s, which the aggregate function %r cannot merge: rows of one "
                    "key will be refused when they meet; choose another function",
                    name,
                    function.data_type,
                    function.name,
                )


def _check_idle_functions(schema: TableSchema) -> None:
    for name, said in schema.core.fields.items():
        if said.aggregate_function is None or name not in schema.names:
            continue
        function = aggregate_function(said.aggregate_function, name, schema.field(name).type, said)
        if not function.merges_its_type:
            raise SchemaError(
                f"column {name!r} is {function.data_type}, which the aggregate function "
                f"{function.name!r} cannot merge, and merge-engine = {schema.core.merge_engine} "
                f"does not aggregate: leave fields.{name}.aggregate-function out",
                column=name,
                function=function.name,
            )


__all__ = [
    "Aggregation",
    "Deduplicate",
    "FirstRow",
    "MergeEngine",
    "PartialUpdate",
    "check_functions",
    "merge_engine",
]
