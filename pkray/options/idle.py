"""Options that a table sets and that change nothing of it, often by a slip of who set them."""

from collections.abc import Callable, Mapping

from pkray.options.buckets import DYNAMIC
from pkray.options.fields import GROUP, PREFIX
from pkray.options.others import WITHOUT_EFFECT
from pkray.options.table_options import TableOptions

Need = tuple[Callable[[TableOptions], bool], str]
"""Whether options are as another needs them, and in words."""

_PARTIAL_UPDATE: Need = (
    lambda options: options.merge_engine == "partial-update",
    "merge-engine = partial-update",
)
_AGGREGATION: Need = (
    lambda options: options.merge_engine == "aggregation",
    "merge-engine = aggregation",
)
_AGGREGATES: Need = (
    lambda options: options.merge_engine in ("aggregation", "partial-update"),
    "merge-engine = aggregation, or partial-update with sequence groups",
)
_COMPARES: Need = (
    lambda options: options.changelog_producer in ("lookup", "full-compaction"),
    "changelog-producer = lookup or full-compaction",
)
_LOOKS_UP: Need = (
    lambda options: (
        options.changelog_producer == "lookup"
        or options.merge_engine == "first-row"
        or options.deletion_vectors_enabled
    ),
    "changelog-producer = lookup, merge-engine = first-row or deletion-vectors.enabled = true",
)
_EXPIRES: Need = (
    lambda options: options.record_level_expire_time is not None,
    "record-level.expire-time",
)
_GROWS: Need = (lambda options: options.bucket == DYNAMIC, "bucket = -1")

_NEEDS: dict[str, Need] = {
    "fields.default-aggregate-function": _AGGREGATES,
    "partial-update.remove-record-on-delete": _PARTIAL_UPDATE,
    "aggregation.remove-record-on-delete": _AGGREGATION,
    "sequence.field.sort-order": (lambda options: bool(options.sequence_field), "sequence.field"),
    "changelog-producer.row-deduplicate": _COMPARES,
    "changelog-producer.row-deduplicate-ignore-fields": (
        lambda options: options.row_deduplicate and _COMPARES[0](options),
        "changelog-producer.row-deduplicate = true",
    ),
    "lookup-wait": _LOOKS_UP,
    "changelog-producer.lookup-wait": _LOOKS_UP,
    "record-level.time-field": _EXPIRES,
    "record-level.time-field-type": _EXPIRES,
    "dynamic-bucket.target-row-num": _GROWS,
    "dynamic-bucket.initial-buckets": _GROWS,
    "dynamic-bucket.assigner-parallelism": _GROWS,
}
_FIELD_NEEDS = {GROUP: _PARTIAL_UPDATE, "aggregate-function": _AGGREGATES}
_FUNCTIONS = {
    "list-agg-delimiter": ("listagg",),
    "distinct": ("listagg", "collect"),
    "nested-key": ("nested_update",),
}
_ASKS_FOR_NOTHING = {"lookup-wait": "true", "changelog-producer.lookup-wait": "true"}
_OF_NO_TABLE = frozenset({"path", "auto-create"})


def idle_options(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options that change nothing, and what they are for or need."""
    options = TableOptions.parse(given, strict=False)
    idle = {}
    for key, text in given.items():
        if key in WITHOUT_EFFECT - _OF_NO_TABLE:
            idle[key] = "is for other engines"
        elif text.strip().lower() != _ASKS_FOR_NOTHING.get(key, "false"):
            need = _NEEDS.get(key) or _need_of_field(key, options)
            if need is not None and not need[0](options):
                idle[key] = f"needs {need[1]}"
    return idle


def _need_of_field(key: str, options: TableOptions) -> Need | None:
    name, _, option = key.removeprefix(PREFIX).rpartition(".")
    if not key.startswith(PREFIX) or not name:
        return None
    functions = _FUNCTIONS.get(option)
    if functions is None:
        return _FIELD_NEEDS.get(option)
    own = options.of_field(name).aggregate_function or options.default_aggregate_function
    return (
        lambda options: _AGGREGATES[0](options) and own in functions,
        f"fields.{name}.aggregate-function = {' or '.join(functions)}",
    )
