"""Decide what becomes of each state when another plan takes over, and what cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pkray.errors import PkrayError
from pkray.options.values import duration_millis
from pkray.relational.continuous.feeds.feeds import feed_of
from pkray.relational.continuous.feeds.table_rows import TableRows
from pkray.relational.continuous.graph import Graph
from pkray.relational.continuous.operator import asks_time_or_chance
from pkray.relational.continuous.outlets.conflicts import RETRACTING
from pkray.relational.continuous.queries.definitions.definition import Definition
from pkray.relational.continuous.state.state import StateSpec
from pkray.relational.continuous.state.states import States
from pkray.relational.continuous.upgrades.result_columns import check_columns
from pkray.relational.continuous.upgrades.stored import Site, columns_of
from pkray.relational.plan import nodes as plan_nodes
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.json.writer import in_order, shared_nodes
from pkray.relational.plan.plan_diff import (
    KEPT,
    WARMED,
    NodeChange,
    PlanDiff,
    diff_of,
    fingerprints,
    refusals,
    refused,
)
from pkray.relational.plan.source import Source
from pkray.relational.plan.state import NEVER
from pkray.relational.sources.streamed import StreamedSource
from pkray.relational.sources.table import TableSource

_BY_ORDER = (plan_nodes.TopN, plan_nodes.Over, plan_nodes.Limit, plan_nodes.Deduplicate)
"""Operators whose rows depend on the order in which equal ones came."""


@dataclass(frozen=True)
class Fates:
    """Tells what an upgrade does.

    Attributes:
        same: operators that compute the same in both plans: old numbers by new ones.
        changes: of each result, whether it may change.
    """

    diff: PlanDiff
    same: Mapping[int, int]
    changes: tuple[bool, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """List the new numbers of the operators whose states go on."""
        return tuple(each.id for each in self.diff.kept)


def fates(site: Site, old: Definition, new: Definition) -> Fates:
    """Say what becomes of the states of a query.

    A state goes on where the operator computes the same and keeps it in the same form. Where what
    the operator gives is needed again, because something above is warmed up or a result changes,
    it has to follow from the content of the sources besides.
    """
    nodes = _numbered(site.roots(new))
    prints = fingerprints(new.document)
    known = {each: number for number, each in fingerprints(old.document).items()}
    same = {number: known[each] for number, each in prints.items() if each in known}
    try:
        before: Sequence[plan_nodes.Node] | None = site.roots(old)
    except PkrayError:
        before = None  # it cannot be bound any more: nothing of it goes on but its results
    kept = [_stateful(each) for each in (before or (), site.roots(new))]
    found = diff_of(old.document, new.document, (kept[0], kept[1]))
    forms = (_forms(old, before), _forms(new, site.roots(new))) if before is not None else None
    changes = [_reformed(each, forms) for each in found.nodes]
    ttls = {number: old.ttls.get(each, ()) for number, each in same.items()}
    undetermined = _undetermined(nodes, ttls)
    roots = [node["id"] for node in new.roots]
    dirty = [root not in same or before is None for root in roots]
    while True:
        _needs_again(changes, nodes, roots, dirty, undetermined)
        warmed = {each.id for each in changes if each.fate == WARMED}
        computed = [
            is_dirty or bool(warmed & _below(nodes, root))
            for is_dirty, root in zip(dirty, roots, strict=True)
        ]
        if computed == dirty:
            break
        dirty = computed
    others = _refusals(site, old, before, new, roots, dirty)
    return Fates(PlanDiff((*changes, *others)), same, tuple(dirty))


def _numbered(roots: Sequence[plan_nodes.Node]) -> dict[int, plan_nodes.Node]:
    return dict(enumerate(in_order(shared_nodes(roots)), 1))


def _stateful(roots: Sequence[plan_nodes.Node]) -> set[int]:
    return {number for number, node in _numbered(roots).items() if node.states()}


def _below(nodes: Mapping[int, plan_nodes.Node], root: int) -> set[int]:
    """List the numbers of a root and everything that it is computed from."""
    numbers = {node: number for number, node in nodes.items()}
    return {numbers[node] for node in nodes[root].walk()}


def _needs_again(
    changes: list[NodeChange],
    nodes: Mapping[int, plan_nodes.Node],
    roots: Sequence[int],
    dirty: Sequence[bool],
    undetermined: Mapping[int, str],
) -> None:
    """Warm up what is computed again and does not follow from the content of the sources."""
    again: set[int] = set()
    for root, is_dirty in zip(roots, dirty, strict=True):
        if is_dirty:
            again |= _below(nodes, root)
    for place, each in enumerate(changes):
        if each.fate == KEPT and each.id in again and each.id in undetermined:
            why = undetermined[each.id]
            changes[place] = replace(each, fate=WARMED, old_id=None, differs=(why,))


def _undetermined(
    nodes: Mapping[int, plan_nodes.Node], ttls: Mapping[int, Sequence[str]]
) -> dict[int, str]:
    """Say on what operators depend beside the content of the sources, by themselves or by what is
    below them; of the others nothing.
    """
    found: dict[int, str] = {}
    numbers = {node: number for number, node in nodes.items()}
    for number, node in nodes.items():
        expires = any(duration_millis(each) for each in ttls.get(number, ()))
        own = "ttl" if expires else _depends_on(node)
        below = (found.get(numbers[each], "") for each in node.inputs)
        if why := own or next(filter(None, below), ""):
            found[number] = why
    return found


def _depends_on(node: plan_nodes.Node) -> str:
    if asks_time_or_chance(node):
        return "time or chance"
    if isinstance(node, _BY_ORDER):
        return "order of arrival"
    if any(each.cleaned_by == "watermark" for each in node.states()):
        return "watermark"
    if not isinstance(node, plan_nodes.Aggregate):
        return ""
    calls = [call for _, call in node.aggregates]
    if any(facts(call.function).by_arrival or call.udf is not None for call in calls):
        return "order of arrival"
    read = [node.input.fields[name].type.root for call in calls for name in call.arguments]
    return "order of additions" if {"FLOAT", "DOUBLE"} & set(read) else ""


def _reformed(change: NodeChange, forms: tuple[_Forms, _Forms] | None) -> NodeChange:
    """Warm up what keeps its state in another form."""
    if change.fate != KEPT:
        return change
    assert change.old_id is not None
    if forms is not None and forms[0].get(change.old_id) == forms[1].get(change.id):
        return change
    return replace(change, fate=WARMED, old_id=None, differs=("state",))


_Forms = Mapping[int, Mapping[str, StateSpec]]
"""What the states of each operator hold, by its number and their names without it."""


def _forms(definition: Definition, roots: Sequence[plan_nodes.Node]) -> _Forms:
    found: dict[int, dict[str, StateSpec]] = {}
    opened = States()
    try:
        graph = Graph(roots, definition.before, opened.open, NEVER, definition.ttls, _rows_of)
        for stage in graph.stages:
            for name, state in stage.states.items():
                form = name.removeprefix(str(stage.number))
                spec = replace(state.spec, exchanged_by=None)
                found.setdefault(stage.number, {})[form] = spec
    finally:
        opened.close()
    return found


def _rows_of(source: Source) -> TableRows | None:
    return TableRows(source) if isinstance(source, TableSource) else None


def _refusals(
    site: Site,
    old: Definition,
    before: Sequence[plan_nodes.Node] | None,
    new: Definition,
    numbers: Sequence[int],
    dirty: Sequence[bool],
) -> list[NodeChange]:
    roots = site.roots(new)
    columns = columns_of(old)
    found = refusals(before or roots, roots, dict(enumerate(numbers)))
    if found:
        return found
    for place, root in enumerate(roots):
        if not dirty[place]:
            continue
        for entry, reason in (*_unread(old, root), *_unwritten(site, columns, root)):
            found.append(refused(numbers[place], root, entry, reason))
    return found


def _unread(old: Definition, root: plan_nodes.Node) -> Iterable[tuple[str, str]]:
    """List the sources that cannot be read from the beginning again."""
    for node in root.walk():
        if isinstance(node, plan_nodes.Scan) and isinstance(node.source, StreamedSource):
            name = node.source.name
            if name not in old.streams:
                yield f"source/{name}", f"the query does not read the stream {name} yet"
                continue
        if isinstance(node, plan_nodes.Scan | plan_nodes.Values) and not feed_of(node).has_history:
            name = node.source.name if isinstance(node, plan_nodes.Scan) else "VALUES"
            yield (
                f"source/{name}",
                f"{name} has no history: what was read of it cannot be read again",
            )


def _unwritten(
    site: Site, columns: Mapping[str, Sequence[str]], root: plan_nodes.Node
) -> Iterable[tuple[str, str]]:
    """List why a table cannot hold the result instead."""
    if not isinstance(root, plan_nodes.Sink):
        return
    table = site.catalog.load_table(root.table)
    engine = table.schema.core.merge_engine
    if engine in RETRACTING:
        yield "merge-engine", f"{root.table} adds up its rows ({engine}): none can be replaced"
        return
    missing = [name for name in table.primary_keys if name not in root.target]
    if missing:
        reason = f"the result has no column {missing[0]}, which is in the key of {root.table}"
        yield "primaryKey", reason
        return
    try:
        check_columns(table, columns.get(root.table, ()), root)
    except PkrayError as error:
        yield "columns", str(error)
