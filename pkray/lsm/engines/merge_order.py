"""Tell where Paimon's rules make a table's content depend on what was merged when."""

from collections.abc import Iterable, Mapping

from pkray.lsm.engines.fieldwise import FieldwiseEngine
from pkray.lsm.engines.functions import AggregateFunction
from pkray.lsm.engines.functions.arithmetic import Sum
from pkray.lsm.merge.merge_function import MergeEngine
from pkray.schema.table_schema import TableSchema


def depends_on_merges(schema: TableSchema, engine: MergeEngine) -> list[str]:
    """Say by which rules commits, flushes and compactions show in this table's content.

    Everywhere else the order of its rows alone makes it.
    """
    options = schema.core
    functions = engine.functions if isinstance(engine, FieldwiseEngine) else {}
    may_delete = options.merge_engine == "deduplicate" or options.deletes_reset
    rules = []
    if options.sequence_field and may_delete and not options.ignore_delete:
        rules.append(
            "a compaction of all files forgets deletes: a row that comes after it counts even if "
            "its sequence.field is smaller than the delete's"
        )
    late = sorted(_placed_by_sequence(schema, engine, functions))
    if late:
        rules.append(
            "merged rows have the largest sequence of them: what a late row does to "
            f"{', '.join(late)} depends on which rows were merged before it came"
        )
    taken_back = [name for name, function in functions.items() if _forgets(schema, name, function)]
    if taken_back and not options.ignore_delete:
        rules.append(
            "-U and -D rows that are merged before they meet the rows they take back may be lost "
            f"to {', '.join(taken_back)}"
        )
    if options.record_level_expire_time is not None:
        rules.append("rows older than record-level.expire-time are there until compacted")
    return rules


def _placed_by_sequence(
    schema: TableSchema, engine: MergeEngine, functions: Mapping[str, AggregateFunction]
) -> Iterable[str]:
    """Yield the columns that depend on where a late row's sequence places it among the others."""
    options = schema.core
    if not isinstance(engine, FieldwiseEngine):
        return ()
    grouped = {name for group in options.sequence_groups for name in group.fields}
    by_field = set(schema.names) if options.sequence_field else set()
    # Without a function, a sequence group's columns are those of its largest row wherever it is.
    chosen = (by_field - grouped) | (grouped & set(functions))
    of_any_order = {name for name, function in functions.items() if function.any_order}
    return chosen - of_any_order - {*schema.primary_keys, *options.sequence_field}


def _forgets(schema: TableSchema, name: str, function: AggregateFunction) -> bool:
    """Whether a function that was chosen takes back only what it has seen."""
    is_chosen = schema.core.of_field(name).aggregate_function is not None
    takes_back = function.takes_back and not function.ignores_retract
    return is_chosen and takes_back and not isinstance(function, Sum)
