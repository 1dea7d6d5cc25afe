"""Settle rows of a result that agree in the key of its table: ON CONFLICT."""

from dataclasses import replace

from pkray.relational.plan.changelog_modes import change_kinds
from pkray.relational.plan.keys import upsert_keys
from pkray.relational.plan.nodes import Deduplicate, Node, Sink, Unique
from pkray.table.table import Table

RETRACTING = ("aggregation", "partial-update")
"""Merge engines that take rows back by themselves: they are given every change."""


def settled(sink: Sink, table: Table) -> Sink:
    """Put in what settles conflicts, where rows of the result may agree in the table's key.

    ``deduplicate``, which is the default, keeps the row that came last, and goes back to the one
    before where that is retracted; ``nothing`` keeps the one that came first; ``error`` stops the
    query.
    """
    engine = table.schema.core.merge_engine
    names = dict(zip(sink.target, sink.input.fields.names, strict=True))
    key = tuple(names[name] for name in table.primary_keys if name in names)
    if engine != "deduplicate" or len(key) < len(table.primary_keys):
        return sink
    if any(each <= set(key) for each in upsert_keys(sink.input)):
        return sink
    inserts_only = change_kinds(sink.input) <= {"I"}
    if sink.on_conflict == "error":
        below: Node = Unique(sink.input, key)
    elif sink.on_conflict == "nothing" or not inserts_only:
        below = Deduplicate(sink.input, key, None, sink.on_conflict == "nothing")
    else:
        return sink  # the last row of a key wins in the table itself
    return replace(sink, input=below)
