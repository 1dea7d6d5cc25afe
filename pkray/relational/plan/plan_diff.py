"""Compare two plans: what becomes of the states of one when the other takes its place."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pkray.errors import PkrayError
from pkray.relational.plan.keys import best_key, unique_keys
from pkray.relational.plan.nodes import Node, RowKey, Sink
from pkray.schema.type_change import check_widening
from pkray.schema.types import DataType

KEPT, WARMED, DROPPED, REFUSED = "kept", "warmed up", "dropped", "refused"


@dataclass(frozen=True)
class NodeChange:
    """Tells what becomes of one operator with state, or why the plan cannot take over.

    Attributes:
        id: in the newer plan; of a dropped one, in the older plan.
        fate: ``kept`` (its state goes on), ``warmed up`` (its state is computed from the history
            of the sources), ``dropped``, or ``refused`` (the plan cannot take over).
        old_id: of ``kept``, in the older plan.
        differs: of ``warmed up``, which entries differ from the operator of its type in the older
            plan; empty where that has none. Of ``refused``, which entry does.
        reason: of ``refused``, why that cannot be.
    """

    id: int
    description: str
    fate: str
    old_id: int | None = None
    differs: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class PlanDiff:
    """Say what becomes of each operator with state."""

    nodes: tuple[NodeChange, ...]

    @property
    def is_same(self) -> bool:
        """Whether every state goes on and none is dropped."""
        return all(each.fate == KEPT for each in self.nodes)

    @property
    def kept(self) -> tuple[NodeChange, ...]:
        """List the operators whose state goes on."""
        return self._of(KEPT)

    @property
    def warmed_up(self) -> tuple[NodeChange, ...]:
        """List the operators whose state is computed from the history of the sources."""
        return self._of(WARMED)

    @property
    def dropped(self) -> tuple[NodeChange, ...]:
        """List the operators of the older plan whose state is of no use any more."""
        return self._of(DROPPED)

    @property
    def refused(self) -> tuple[NodeChange, ...]:
        """List why the plan cannot take over; empty where it can."""
        return self._of(REFUSED)

    def _of(self, fate: str) -> tuple[NodeChange, ...]:
        return tuple(each for each in self.nodes if each.fate == fate)

    def to_dict(self) -> dict[str, Any]:
        """Give the same as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        lines = []
        for each in self.nodes:
            differs = f": {', '.join(each.differs)} differ" if each.differs else ""
            said = f": {each.reason}" if each.reason else differs
            lines.append(f"{each.fate:<9} {each.id:>4} {each.description}{said}")
        return "\n".join(lines) or "no operator keeps state"


_INCIDENTAL = ("id", "state", "description", "digest", "inputProperties", "tableColumns")
"""Entries that do not say what an operator computes; of the columns of a table those count that
are read, which stand in the type of what comes out."""


def diff_of(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    stateful: tuple[Collection[int], Collection[int]] = ((), ()),
) -> PlanDiff:
    """Compare the states of two plans, as JSON has them.

    Args:
        stateful: numbers of operators with state in each, beside those with a TTL, which JSON says.
    """
    before = [node for node in old["nodes"] if node.get("state") or node["id"] in stateful[0]]
    after = [node for node in new["nodes"] if node.get("state") or node["id"] in stateful[1]]
    prints, others = fingerprints(new), fingerprints(old)
    left = {node["id"]: node for node in before}
    changes = []
    for node in after:
        same = next((o for o in left if others[o] == prints[node["id"]]), None)
        if same is not None:
            del left[same]
            changes.append(NodeChange(node["id"], node["description"], KEPT, same))
        else:
            differs = _differs(node, [o for o in before if o["type"] == node["type"]])
            changes.append(NodeChange(node["id"], node["description"], WARMED, differs=differs))
    dropped = [NodeChange(each["id"], each["description"], DROPPED) for each in left.values()]
    return PlanDiff((*changes, *dropped))


def computes_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether plans have the same operators in the same order: tables may have other columns that
    nobody reads, and state may live for another time.
    """
    prints = [fingerprints(each, hints=True) for each in (one, other)]
    return prints[0] == prints[1]


def fingerprints(document: Mapping[str, Any], *, hints: bool = False) -> dict[int, str]:
    """Tell the operators of a plan by what they and their inputs compute, by their ids.

    Unlike digests they leave out columns of tables that nobody reads.

    Args:
        hints: tell hints of the time for which state lives from one another, too.
    """
    inputs: dict[int, list[int]] = {node["id"]: [] for node in document["nodes"]}
    for edge in document["edges"]:
        inputs[edge["target"]].append(edge["source"])
    nodes = {node["id"]: node for node in document["nodes"]}
    found: dict[int, str] = {}
    waiting = list(nodes)
    while waiting:
        number = waiting[-1]
        lacking = [each for each in inputs[number] if each not in found]
        if lacking:
            waiting += lacking
            continue
        waiting.pop()
        if number not in found:
            below = [found[each] for each in inputs[number]]
            is_passed = not hints and _says_ttl(nodes[number])
            found[number] = below[0] if is_passed else _fingerprint(nodes[number], below)
    return found


def _says_ttl(node: Mapping[str, Any]) -> bool:
    return node["type"].startswith("hint_") and str(node.get("name")).upper() == "STATE_TTL"


def _fingerprint(node: Mapping[str, Any], inputs: list[str]) -> str:
    said = {key: value for key, value in node.items() if key not in _INCIDENTAL}
    text = json.dumps([said, inputs], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _differs(node: Mapping[str, Any], others: list[Any]) -> tuple[str, ...]:
    """List the entries in which a node differs from the most similar of others."""
    lists = [
        tuple(
            key
            for key in sorted({*node, *other})
            if key not in _INCIDENTAL and node.get(key) != other.get(key)
        )
        or ("inputs",)
        for other in others
    ]
    return min(lists, key=len, default=())


def refusals(
    old: Sequence[Node], new: Sequence[Node], numbers: Mapping[int, int]
) -> list[NodeChange]:
    """List why results of a plan cannot become those of another: other tables, keys or types.

    Args:
        old, new: the roots.
        numbers: of the newer roots in their plan, by their place.
    """
    tables = [[each.table for each in roots if isinstance(each, Sink)] for roots in (old, new)]
    if tables[0] != tables[1] or len(old) != len(new):
        said = [", ".join(names) or "no table" for names in tables]
        reason = f"its rows go to {said[1]}, those of the query to {said[0]}"
        return [refused(numbers[0], new[0], "table", reason)]
    found = []
    for place, (before, after) in enumerate(zip(old, new, strict=True)):
        for entry, reason in (*_key_refusals(before, after), *_type_refusals(before, after)):
            found.append(refused(numbers[place], after, entry, reason))
    return found


def refused(number: int, root: Node, entry: str, reason: str) -> NodeChange:
    """Say why the result of a root, by its number, cannot take the place of another."""
    name = root.table if isinstance(root, Sink) else type(root).__name__
    return NodeChange(number, f"Result({name})", REFUSED, differs=(entry,), reason=reason)


def _key_refusals(old: Node, new: Node) -> list[tuple[str, str]]:
    key, is_added = result_key(old)
    other, is_also_added = result_key(new)
    if is_added or is_also_added:
        same = is_added == is_also_added and key == other
    else:
        renamed = _named(new)
        unique = {frozenset(renamed[n] for n in each) for each in unique_keys(_below(new))}
        same = key is None or any(each <= set(key) for each in unique)
    if same:
        return []
    said = [", ".join(each or ()) or "none" for each in (key, other)]
    return [("primaryKey", f"the result's key is {said[0]}, and would be {said[1]}")]


def result_key(root: Node) -> tuple[tuple[str, ...] | None, bool]:
    """Find the key of a result, and whether its table has it as an added column."""
    below = _below(root)
    if isinstance(below, RowKey):
        return below.keys, True
    key = best_key(below, unique_keys(below))
    names = _named(root)
    return (None if key is None else tuple(names[each] for each in key)), False


def _below(root: Node) -> Node:
    """Give the query of a result."""
    return root.input if isinstance(root, Sink) else root


def _named(root: Node) -> dict[str, str]:
    """Give the columns of a table by those of its query."""
    names = _below(root).fields.names
    return dict(zip(names, root.target if isinstance(root, Sink) else names, strict=True))


def result_types(root: Node) -> dict[str, DataType]:
    """List the columns of a result, as its table calls them."""
    names = _named(root)
    return {names[each.name]: each.type for each in _below(root).fields}


def _type_refusals(old: Node, new: Node) -> list[tuple[str, str]]:
    before, after = result_types(old), result_types(new)
    key, is_added = result_key(old)
    fixed = () if is_added else key or ()
    found = []
    for name in before.keys() & after.keys():
        was, now = before[name].with_nullable(True), after[name].with_nullable(True)
        if was == now:
            continue
        try:
            check_widening(name, was, now)
        except PkrayError as error:
            found.append((f"columns/{name}/type", str(error)))
        else:
            if name in fixed:
                reason = f"{name} of the result's key is {was}, and would be {now}"
                found.append((f"columns/{name}/type", reason))
    return sorted(found)
