"""A plan as people read it: what runs, what it remembers and what to beware of."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pkray.drawings import Box, svg_graph
from pkray.relational.lints import lints
from pkray.relational.optimizer import prune
from pkray.relational.plan.changelog_modes import changelog_modes
from pkray.relational.plan.describe import description, row_type
from pkray.relational.plan.keys import best_key, unique_keys, upsert_keys
from pkray.relational.plan.node import Lint, State
from pkray.relational.plan.nodes import Exchange, Node
from pkray.relational.plan.physical import tells_twice, to_physical
from pkray.relational.plan.scans import scan_of
from pkray.relational.plan.state import kept_states, state_ttls, ttl_of


@dataclass(frozen=True)
class ExplainedNode:
    """Explains one node.

    Attributes:
        type: of the rows that come out, as ``ROW<…>``.
        changelog_mode: as ``[I,UB,UA,D]``.
        unique_key, upsert_key: the narrowest; None where there is none.
        ttls: of the states that a TTL cleans, in their order.
        runs_on: ``spark``, where it stands before the first operator with state and Spark would
            compute it in a backfill or a stream from outside; otherwise ``operators``.
    """

    description: str
    type: str
    changelog_mode: str
    unique_key: tuple[str, ...] | None
    upsert_key: tuple[str, ...] | None
    states: tuple[State, ...]
    ttls: tuple[str, ...]
    lints: tuple[Lint, ...]
    runs_on: str
    inputs: tuple[ExplainedNode, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the same as plain values, inputs nested."""
        return asdict(self)


class Explanation:
    """The plan of a relation, as it would run continuously; prints as a tree.

    Args:
        plan: the logical plan.
        options: of the session: ``table.exec.state.ttl`` and others.
        before: whether the result's changes hold the rows before updates.
    """

    def __init__(
        self, plan: Node, options: Mapping[str, str] | None = None, *, before: bool = False
    ) -> None:
        found = ((node, scan_of(node)) for node in plan.walk())
        if any(scan is not None and scan is not node for node, scan in found):
            plan = prune(plan)  # a computed column that nothing reads is none of the plan's
        physical = to_physical(plan, before=before, duplicates=tells_twice(options or {}))
        self._modes = changelog_modes(physical, before=before)
        self._ttl = ttl_of(options or {})
        self.root = self._explain(physical)

    def _explain(self, node: Node) -> ExplainedNode:
        return ExplainedNode(
            description(node),
            row_type(node),
            str(self._modes[id(node)]),
            best_key(node, unique_keys(node)),
            best_key(node, upsert_keys(node)),
            kept_states(node, self._ttl),
            state_ttls(node, self._ttl),
            lints(node, self._ttl),
            "spark" if _is_stateless(node) else "operators",
            tuple(self._explain(each) for each in node.inputs),
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the tree as plain values."""
        return self.root.to_dict()

    def __str__(self) -> str:
        remarks = [
            f"! {lint.text} ({lint.code})" for node in _all(self.root) for lint in node.lints
        ]
        return "\n".join([*_lines(self.root, "", ""), *([""] if remarks else []), *remarks])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"{self.drawn()}<div>{_html(self.root)}</div>"

    def graph(self) -> tuple[list[ExplainedNode], list[tuple[int, int]]]:
        """List the nodes from the leaves on, and which gives rows to which, by their places."""
        nodes: list[ExplainedNode] = []
        edges: list[tuple[int, int]] = []

        def add(node: ExplainedNode) -> int:
            below = [add(each) for each in node.inputs]
            nodes.append(node)
            edges.extend((each, len(nodes) - 1) for each in below)
            return len(nodes) - 1

        add(self.root)
        return nodes, edges

    def drawn(self) -> str:
        """Draw it as a graph: SVG."""
        nodes, edges = self.graph()
        boxes = [
            Box(number, _lines_in_box(each), each.description) for number, each in enumerate(nodes)
        ]
        return svg_graph(boxes, edges)


def _lines_in_box(node: ExplainedNode) -> list[str]:
    kind, _, does = node.description.partition("(")
    states = ", ".join(each.name for each in node.states)
    return [kind, *filter(None, (does.removesuffix(")"), states))]


def _is_stateless(node: Node) -> bool:
    """Whether a node and all below it keep nothing between rows."""
    return not any(each.states() or isinstance(each, Exchange) for each in node.walk())


def _all(node: ExplainedNode) -> Iterator[ExplainedNode]:
    yield node
    for each in node.inputs:
        yield from _all(each)


def _lines(node: ExplainedNode, first: str, rest: str) -> Iterator[str]:
    yield f"{first}{node.description}"
    bar = "│  " if node.inputs else "   "
    for line in _details(node):
        yield f"{rest}{bar}  {line}"
    for index, each in enumerate(node.inputs):
        last = index == len(node.inputs) - 1
        corner, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from _lines(each, f"{rest}{corner}", f"{rest}{below}")


def _details(node: ExplainedNode) -> Iterator[str]:
    keys = [
        f"{name} key ({', '.join(key)})"
        for name, key in (("unique", node.unique_key), ("upsert", node.upsert_key))
        if key is not None
    ]
    yield ", ".join([node.changelog_mode, *keys, f"on {node.runs_on}"])
    yield node.type
    ttls = iter(node.ttls)
    for state in node.states:
        kept = "until the watermark" if state.cleaned_by == "watermark" else f"ttl {next(ttls)}"
        key = ", ".join(state.key)
        yield f"{state.name}: {state.shape} by ({key}), grows with {state.grows_with}, {kept}"


def _html(node: ExplainedNode) -> str:
    inside = "".join(f"<li>{_html(each)}</li>" for each in node.inputs)
    details = "<br>".join(html.escape(line) for line in _details(node))
    remarks = "".join(f"<p>⚠ {html.escape(lint.text)}</p>" for lint in node.lints)
    return (
        f"<details open><summary><b>{html.escape(node.description)}</b></summary>"
        f"<small>{details}</small>{remarks}<ul>{inside}</ul></details>"
    )
