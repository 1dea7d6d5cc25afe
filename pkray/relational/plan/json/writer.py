"""Writes plans as JSON: a node's attributes by their names, expressions as text with their type."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from enum import StrEnum
from typing import Any

from pkray.errors import PlanError
from pkray.relational.plan.changelog_modes import ChangelogMode, changelog_modes
from pkray.relational.plan.describe import description, row_type
from pkray.relational.plan.expressions import TRUE, Expression, NamedFunction
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.json import names as json_names
from pkray.relational.plan.keys import best_key, upsert_keys
from pkray.relational.plan.nodes import Exchange, Join, Node, Scan
from pkray.relational.plan.state import state_ttls
from pkray.relational.plan.text import to_text
from pkray.schema.types import DataType


def to_json(
    roots: Sequence[Node], *, dialect: str, version: str, ttl: str, before: Sequence[bool]
) -> dict[str, Any]:
    """Write physical plans; what is equal in several of them is written once.

    Args:
        ttl: of state for which no hint says another.
        before: of each root, whether what takes its changes needs the rows before updates.
    """
    shared = shared_nodes(roots)
    order = list(in_order(shared))
    ids = {id(node): index for index, node in enumerate(order, 1)}
    modes = modes_of(shared, before)
    digests: dict[int, str] = {}
    for node in order:
        digests[id(node)] = digest_of(node, [digests[id(each)] for each in node.inputs])
    return {
        "pkrayVersion": version,
        "planVersion": json_names.PLAN_VERSION,
        "dialect": dialect,
        "nodes": [_node_json(node, ids[id(node)], digests[id(node)], ttl) for node in order],
        "edges": [
            {
                "source": ids[id(each)],
                "target": ids[id(node)],
                "shuffle": shuffle_of(each),
                "changelogMode": modes[id(each)].names(),
            }
            for node in order
            for each in node.inputs
        ],
    }


def shared_nodes(roots: Sequence[Node]) -> list[Node]:
    """Make equal nodes of several plans one node."""
    known: dict[Node, Node] = {}
    return [root.transform(lambda node: known.setdefault(node, node)) for root in roots]


def modes_of(roots: Sequence[Node], before: Sequence[bool]) -> dict[int, ChangelogMode]:
    """Work out the mode of each node of several plans, by the node's ``id``.

    Args:
        before: of each root, whether what takes its changes needs the rows before updates.
    """
    modes: dict[int, ChangelogMode] = {}
    for root, needed in zip(roots, before, strict=True):
        for place, mode in changelog_modes(root, before=needed).items():
            modes[place] = modes[place] | mode if place in modes else mode
    return modes


def in_order(roots: Sequence[Node]) -> Iterator[Node]:
    """List the nodes, inputs before what takes them, each once."""
    seen: set[int] = set()
    waiting: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while waiting:
        node, ready = waiting.pop()
        if id(node) in seen:
            continue
        if ready:
            seen.add(id(node))
            yield node
        else:
            waiting.append((node, True))
            waiting.extend((each, False) for each in reversed(node.inputs))


def _node_json(node: Node, number: int, digest: str, ttl: str) -> dict[str, Any]:
    written = {"id": number, "type": json_names.type_name(type(node)), **_attributes(node)}
    ttls = iter(state_ttls(node, ttl))
    kept = [
        {"index": index, "ttl": next(ttls), "name": state.name}
        for index, state in enumerate(each for each in node.states() if each.cleaned_by == "ttl")
    ]
    if kept:
        written["state"] = kept
    return {**written, **derived_entries(node), "digest": digest}


def derived_entries(node: Node) -> dict[str, Any]:
    """List what a file says of a node that follows from the plan."""
    derived: dict[str, Any] = {}
    if isinstance(node, Join):
        for side, each in (("left", node.left), ("right", node.right)):
            key = best_key(each, upsert_keys(each))
            derived[f"{side}UpsertKeys"] = [] if key is None else [list(key)]
    derived["inputProperties"] = [{"distribution": _distribution(each)} for each in node.inputs]
    derived["outputType"] = row_type(node)
    derived["description"] = description(node)
    return derived


def _attributes(node: Node) -> dict[str, Any]:
    if isinstance(node, Scan):
        return _scan_json(node)
    return {
        json_names.entry_name(type(node), each.name): _entry(each.name, getattr(node, each.name))
        for each in json_names.own_fields(type(node))
        if not (json_names.is_optional(each) and getattr(node, each.name) == each.default)
    }


def _entry(name: str, value: Any) -> Any:
    """Write an attribute; a condition that is always true is null."""
    return None if name == "condition" and value == TRUE else _to_value(value)


def _scan_json(node: Scan) -> dict[str, Any]:
    return {
        "table": node.source.name,
        "tableColumns": _to_value(node.source.fields),
        "primaryKey": list(node.source.primary_key),
        "columns": _to_value(node.columns),
        "condition": _entry("condition", node.condition),
        "options": dict(node.options),
        **({"at": at} if (at := node.source.at.named) else {}),
    }


def _to_value(value: Any) -> Any:
    match value:
        case Expression():
            return {"sql": to_text(value), "type": str(value.type)}
        case DataType():
            return str(value)
        case Fields():
            return [_to_value(each) for each in value]
        case Field():
            written = {"name": value.name, "type": str(value.type)}
            return {**written, "rowtime": True} if value.is_rowtime else written
        case StrEnum():
            return str(value)
        case tuple():
            return [_to_value(each) for each in value]
        case Mapping():
            return dict(value)
        case None | bool() | int() | float() | str():
            return value
        case NamedFunction():
            return value.name
    if is_dataclass(value):
        parts = dataclass_fields(value)
        return {
            json_names.camel_case(each.name): _to_value(getattr(value, each.name)) for each in parts
        }
    raise PlanError(
        f"a {type(value).__name__} cannot be written into a plan: use tables, and functions that "
        "are registered with the catalog",
        faults=(),
    )


def digest_of(node: Node, inputs: list[str], attributes: Mapping[str, Any] | None = None) -> str:
    """Tell an operator by what it computes: not by its number, its TTL or its description.

    Args:
        attributes: as a file has them; default those of the node.
    """
    said = {
        "type": json_names.type_name(type(node)),
        **(_attributes(node) if attributes is None else attributes),
        "inputTypes": [row_type(each) for each in node.inputs],
        "inputs": inputs,
    }
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def shuffle_of(node: Node) -> dict[str, Any]:
    """Say how a node's rows get to what takes them."""
    if not isinstance(node, Exchange):
        return {"type": "forward"}
    return {"type": "hash", "keys": list(node.keys)} if node.keys else {"type": "single"}


def _distribution(node: Node) -> str:
    if not isinstance(node, Exchange):
        return "forward"
    return f"hash[{', '.join(node.keys)}]" if node.keys else "single"
