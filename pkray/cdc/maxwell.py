"""Maxwell's events in JSON: a row as ``data``, what changed of it as ``old``."""

from collections.abc import Sequence

import pyarrow as pa

from pkray.cdc.old_values import OldValuesReader, Words
from pkray.cdc.readings import DATE_TEXTS, Handling, Reading, readings_of
from pkray.cdc.row_changes import Target
from pkray.errors import InputError
from pkray.schema.types import DataType

_WORDS = Words(
    inserts=("insert", "bootstrap-insert"),
    update="update",
    delete="delete",
    passed_over=(
        *("bootstrap-start", "bootstrap-complete", "heartbeat"),
        *("database-create", "database-alter", "table-create", "table-alter"),
    ),
    emptying=("table-drop", "database-drop", "table-truncate"),
)


def _truths(numbers: pa.Array) -> pa.Array:
    if any(each not in (0, 1, None) for each in numbers.unique().to_pylist()):
        raise InputError("a number of a BOOLEAN is none of 0 and 1")
    return numbers.cast(pa.bool_())


def _readings(kind: DataType, handling: Handling) -> Sequence[Reading]:
    if kind.root == "BOOLEAN":
        return [Reading(pa.bool_()), Reading(pa.int8(), _truths)]
    if kind.root == "DECIMAL":
        return [Reading(kind.arrow)]
    if kind.root == "DATE":
        return [DATE_TEXTS]
    return readings_of(kind, handling)


def maxwell_json(target: Target, handling: Handling) -> OldValuesReader:
    """Make the reader of Maxwell's events.

    Times are texts; a MySQL TIMESTAMP is of no zone there, and no TIMESTAMP_LTZ.
    """
    readings = {name: _readings(kind, handling) for name, kind in target.values.items()}
    return OldValuesReader(target, readings, _WORDS, listed=False, unit_of_ts="s")
